// The page: sends requests, shows answers, and handles keyboard shortcuts.

import { Answer } from "./answer.js";
import { ApiError, ask, key, stream } from "./api.js";
import { count, get, make } from "./dom.js";
import { Editor } from "./editor.js";
import { KINDS } from "./examples.js";
import { parsePartial } from "./json.js";
import { followTheme, fromHash, toHash } from "./state.js";
import { StepView } from "./step.js";
import { TokenReader } from "./tokens.js";
import { Tree } from "./tree.js";

const HEALTH_INTERVAL = 5000; // milliseconds between two health checks
const NUMBERS = ["max_tokens", "temperature", "top_p", "seed"];
const LARGEST_SEED = 2 ** 31;
// Fields that change neither the prompt nor the constraint, so steps of such answers can be shown.
const SAMPLING_FIELDS = new Set([
  ...NUMBERS, "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "min_tokens",
  "logprobs", "top_logprobs", "stream_options", "user", "metadata", "priority", "rid",
]);

let controller = null; // the AbortController of the request in progress
let lastRequest = null; // {prompt, specification, max_tokens, other: a field that /step does not support}
let reader = new TokenReader();
let retry = () => {};
let bannerKind = null;

const answer = new Answer((index) => openStep(index));
const step = new StepView({ onError: (error) => showError(error), onMove: (index) => answer.open(index, false) });
const tree = new Tree(get("tree"));
const editor = new Editor({
  onError: (error) => showError(error, () => editor.check()),
  onExample: (prompt) => {
    get("prompt").value = prompt;
  },
});

// ---- the request
const getMode = () => document.querySelector('input[name="mode"]:checked').value;

function setMode(value) {
  for (const radio of document.getElementsByName("mode")) radio.checked = radio.value === value;
  get("system-row").hidden = value !== "chat";
}

function readPrompt() {
  if (getMode() === "text") return { prompt: get("prompt").value };
  const system = get("system").value;
  const messages = [{ role: "user", content: get("prompt").value }];
  return { messages: system ? [{ role: "system", content: system }, ...messages] : messages };
}

function readSampling() {
  const fields = {};
  for (const name of NUMBERS) {
    const box = get(name);
    if (!box.checkValidity()) throw new ApiError("refused", `${name}: ${box.validationMessage}`);
    if (box.value !== "") fields[name] = Number(box.value);
  }
  fields.seed ??= Math.floor(Math.random() * LARGEST_SEED);
  const more = get("more").value.trim();
  if (!more) return fields;
  try {
    const value = JSON.parse(more);
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("this is not an object");
    if ((value.n ?? 1) !== 1) throw new Error("the page shows only one answer: remove n");
    return { ...fields, ...value };
  } catch (error) {
    throw new ApiError("refused", `More fields of the request: ${error.message}`);
  }
}

async function generate() {
  if (controller) return;
  answer.clear();
  step.clear();
  showTree("");
  get("meta").textContent = "";
  reader = new TokenReader();
  let fields;
  try {
    fields = readSampling();
  } catch (error) {
    return answer.fail(error.message);
  }
  lastRequest = { prompt: readPrompt(), specification: editor.fields(), max_tokens: fields.max_tokens ?? null };
  lastRequest.other = Object.keys(fields).find((name) => !SAMPLING_FIELDS.has(name)) ?? null;
  const { prompt, specification } = lastRequest;
  const body = { ...prompt, ...specification, ...fields, return_token_ids: true, return_fields: true };
  controller = new AbortController();
  setRunning(true);
  const begin = performance.now();
  let firstTokenMs = null;
  let finishReason = "";
  try {
    await stream(getMode() === "chat" ? "v1/chat/completions" : "v1/completions", body, controller.signal, (chunk) => {
      for (const choice of chunk.choices) {
        const added = reader.read(choice);
        if (added.length) firstTokenMs ??= performance.now() - begin;
        answer.add(added);
        finishReason = choice.finish_reason ?? finishReason;
      }
      showTree(reader.json);
      showStatistics({ firstTokenMs, begin, seed: fields.seed });
    });
    hideError();
    showStatistics({ firstTokenMs, begin, seed: fields.seed, end: finishReason });
    if (!reader.tokens.length) answer.fail("The answer is empty: the model ended it immediately.");
    if (answer.selected < 0 && lastRequest.other === null && reader.doubtful >= 0) answer.open(reader.doubtful, false);
  } catch (error) {
    if (error.name === "AbortError") showStatistics({ firstTokenMs, begin, seed: fields.seed, end: "stopped" });
    else {
      answer.fail(error.message);
      if (error.kind !== "refused") showError(error, generate);
    }
  } finally {
    controller = null;
    setRunning(false);
  }
}

function showStatistics({ firstTokenMs, begin, seed, end = null }) {
  const seconds = (performance.now() - begin) / 1000;
  const number = reader.tokens.length;
  const parts = [`${count(number)} token${number === 1 ? "" : "s"}`];
  if (firstTokenMs !== null) parts.push(`first after ${Math.round(firstTokenMs)} ms`);
  if (end !== null && number) parts.push(`${(number / seconds).toFixed(0)} tokens/s`);
  parts.push(`seed ${seed}`);
  if (end === "length") parts.push("cut by max tokens");
  else if (end) parts.push(end === "stop" ? "complete" : end.replace("_", " "));
  get("meta").textContent = parts.join(" · ");
}

function setRunning(isRunning) {
  get("generate").hidden = isRunning;
  get("stop").hidden = !isRunning;
  answer.setWorking(isRunning);
  if (isRunning && document.activeElement === document.body) get("stop").focus();
  if (!isRunning && document.activeElement === document.body) get("generate").focus();
}

function stop() {
  controller?.abort();
}

async function sample() {
  answer.clear();
  step.clear();
  showTree("");
  get("meta").textContent = "";
  const seed = Math.floor(Math.random() * LARGEST_SEED);
  try {
    const { texts } = await ask("v1/grammars/sample", { ...editor.fields(), n: 5, seed, max_length: 400 });
    get("sentences").replaceChildren(...texts.map((text) => make("li", {}, text || "(empty)")));
    get("sentences").hidden = false;
    get("meta").textContent = `${texts.length} random sentences, without the model · seed ${seed}`;
  } catch (error) {
    answer.fail(error.message);
    if (error.kind !== "refused") showError(error, sample);
  }
}

function showTree(text) {
  const { node, error } = text.trim() ? parsePartial(text) : { node: null, error: null };
  const isJson = node !== null && (error === null || node.items);
  tree.show(isJson ? node : null);
  get("tree-empty").hidden = isJson;
  get("tree-state").textContent = !isJson ? "" : node.open ? "being written" : "complete";
}

function openStep(index) {
  if (lastRequest && reader.tokens[index]) step.open(lastRequest, reader.tokens, index);
}

// ---- the server
function showError(error, again = checkHealth) {
  if (error.kind === "key") return showKey(true, error.message);
  retry = again;
  bannerKind = error.kind;
  get("banner-text").textContent = error.message;
  get("banner").hidden = false;
}

function hideError() {
  bannerKind = null;
  get("banner").hidden = true;
}

function showKey(isShown, note = null) {
  get("key-box").hidden = !isShown;
  get("key-button").setAttribute("aria-expanded", String(isShown));
  if (note) get("key-note").textContent = note;
  if (isShown) get("key").focus();
}

async function checkHealth() {
  if (document.hidden) return;
  const health = get("health");
  try {
    const status = await ask("health");
    health.dataset.state = "ok";
    const waiting = status.waiting + status.pending_submit + status.compiling;
    const active = status.active + status.prefilling;
    const parts = [health.dataset.model, `${active} active`, waiting ? `${waiting} waiting` : ""];
    health.textContent = parts.filter(Boolean).join(" · ");
    if (bannerKind === "gone") hideError();
  } catch (error) {
    health.dataset.state = "bad";
    health.textContent = error.kind === "gone" ? "no answer" : "the engine has stopped";
    if (error.kind === "gone" && get("banner").hidden) showError(error);
  }
}

async function connect() {
  try {
    const [models, grammars] = await Promise.all([ask("v1/models"), ask("v1/grammars")]);
    get("health").dataset.model = models.data[0]?.id ?? "";
    editor.offer(grammars.data);
  } catch (error) {
    showError(error, connect);
    return false;
  } finally {
    checkHealth();
  }
  return true;
}

/** On a first visit: generate an example. */
async function demonstrate() {
  if (await connect()) await generate();
}

// ---- links, keys, buttons
function readPage() {
  const fields = { mode: getMode(), kind: editor.kind, spec: editor.text.value };
  for (const name of ["system", "prompt", "more", ...NUMBERS]) fields[name] = get(name).value;
  return fields;
}

function setPage(fields) {
  for (const name of ["system", "prompt", "more", ...NUMBERS]) if (name in fields) get(name).value = fields[name];
  setMode(fields.mode === "text" ? "text" : "chat");
  const kind = fields.kind in KINDS ? fields.kind : "schema";
  editor.set(kind, fields.spec ?? KINDS[kind].examples[0]?.text ?? "");
}

async function share() {
  const hash = toHash(readPage());
  history.replaceState(null, "", hash);
  try {
    await navigator.clipboard.writeText(location.href);
    get("share").textContent = "Copied";
  } catch {
    get("share").textContent = "Copy it from the address bar";
  }
  setTimeout(() => (get("share").textContent = "Copy link"), 2000);
}

async function copyText() {
  const text = reader.tokens.map((token) => token.text).join("");
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copied = copyBySelection(text); // the clipboard API needs HTTPS or localhost
  }
  get("copy").textContent = copied ? "Copied" : "Copying failed";
  setTimeout(() => (get("copy").textContent = "Copy text"), 2000);
}

function copyBySelection(text) {
  const box = make("textarea", { class: "unseen" });
  box.value = text;
  document.body.append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  get("copy").focus();
  return copied;
}

function handleKey(event) {
  const inField = event.target.closest?.("input, textarea, select");
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") generate();
  else if (event.key === "Escape" && controller) stop();
  else if (event.altKey && event.code === "KeyA") answer.select(Math.max(answer.selected, 0), true);
  else if (event.altKey && event.code === "KeyW") get("why-text").focus();
  else if (event.key === "?" && !inField) get("help").showModal();
  else return;
  event.preventDefault();
}

function initialise() {
  followTheme(get("theme"));
  const fields = fromHash(location.hash);
  setPage(fields ?? { prompt: KINDS.schema.examples[0].prompt, temperature: "0" });
  get("request").addEventListener("submit", (event) => {
    event.preventDefault();
    generate();
  });
  for (const radio of document.getElementsByName("mode")) radio.addEventListener("change", () => setMode(radio.value));
  get("stop").addEventListener("click", stop);
  get("sample").addEventListener("click", sample);
  get("share").addEventListener("click", share);
  get("copy").addEventListener("click", copyText);
  get("help-button").addEventListener("click", () => get("help").showModal());
  get("banner-retry").addEventListener("click", () => {
    hideError();
    retry();
  });
  get("key-button").addEventListener("click", () => showKey(get("key-box").hidden));
  get("key-box").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set(get("key").value.trim());
    get("key").value = "";
    showKey(false);
    connect();
    editor.check();
  });
  window.addEventListener("hashchange", () => {
    const fields = fromHash(location.hash);
    if (fields) setPage(fields);
  });
  document.addEventListener("keydown", handleKey);
  setInterval(checkHealth, HEALTH_INTERVAL);
  if (fields || location.hash === "#empty") connect();
  else demonstrate();
}

initialise();
