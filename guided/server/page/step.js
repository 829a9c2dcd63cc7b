// Shows one step: the mask, the most likely tokens before and after masking, the budget, and why a text is not allowed.

import { ask } from "./api.js";
import { count, get, make, percent } from "./dom.js";
import { shown, visible } from "./tokens.js";

const TOP_TOKENS = 12; // most likely tokens to show
const ALLOWED_TOKENS = 60; // allowed tokens to show
const NOT_SUPPORTED = "Steps of answers with reasoning or tool calls are not supported yet.";

export class StepView {
  /** `onError` is called with errors from the server, `onMove` with the number of a step. */
  constructor({ onError, onMove }) {
    this.box = get("step");
    this.onError = onError;
    this.asking = null;
    get("step-back").addEventListener("click", () => onMove(this.at - 1));
    get("step-on").addEventListener("click", () => onMove(this.at + 1));
    get("why").addEventListener("submit", (event) => {
      event.preventDefault();
      this.explain({ text: get("why-text").value });
    });
    this.clear();
  }

  clear() {
    this.asking?.abort();
    this.run = null;
    this.at = -1;
    get("step-title").textContent = "Step";
    get("step-moves").hidden = get("why").hidden = true;
    this.box.className = "";
    this.box.replaceChildren(make("p", { class: "empty" }, "Select a token of the answer to see its step."));
  }

  /** Show the step of token `at`. `run`: the request, {prompt, specification, max_tokens, other}. */
  async open(run, tokens, at) {
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    const token = tokens[at];
    Object.assign(this, { run, at, before: tokens.slice(0, at).map(({ id }) => id) });
    const chip = make("span", { class: `chip code ${token.kind}` }, shown(token));
    get("step-title").replaceChildren(`Step ${count(at + 1)} `, chip);
    get("step-moves").hidden = false;
    get("step-back").disabled = at === 0;
    get("step-on").disabled = at === tokens.length - 1;
    this.answer("", "");
    const isMixed = tokens.some(({ kind }) => kind === "tool" || kind === "reasoning");
    if (isMixed || run.other) {
      const why = isMixed ? NOT_SUPPORTED : `Steps of requests with ${run.other} are not supported yet.`;
      this.box.replaceChildren(make("p", { class: "empty" }, why));
      get("why").hidden = true;
      return;
    }
    this.box.setAttribute("aria-busy", "true");
    try {
      const step = await askStep(run, this.before, { top: TOP_TOKENS, most: ALLOWED_TOKENS }, asking.signal);
      if (!asking.signal.aborted) this.show(step, token);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.box.replaceChildren(make("p", { class: "error" }, error.message));
      get("why").hidden = true;
      if (error.kind !== "refused") this.onError(error);
    } finally {
      if (this.asking === asking) this.box.removeAttribute("aria-busy");
    }
  }

  show(step, token) {
    const { mask, budget, removed, state } = step;
    const parts = [makeFacts(step)];
    if (mask.forced.length) {
      const words = mask.forced.map((each) => make("span", { class: "chip code forced" }, shown(each)));
      const title = make("h3", {}, "Forced: nothing else is allowed");
      parts.push(make("div", {}, title, make("div", { class: "words" }, ...words)));
    }
    const ask = (each) => this.explain({ token: each.id }, each);
    const side = (title, list) => make("div", {}, make("h3", {}, title), list);
    const sides = [side(state ? "The model alone" : "The model", makeBars(step.before, token, ask))];
    if (state) sides.push(side("Under the mask", makeBars(step.after, token, null)));
    parts.push(make("div", { class: "sides" }, ...sides));
    if (state) {
      const words = mask.tokens.map((each) => make("span", { class: "chip code" }, shown(each)));
      const shownPart = mask.allowed > words.length ? ` (the first ${words.length})` : "";
      const title = mask.allowed === 1 ? "1 allowed token" : `${count(mask.allowed)} allowed tokens${shownPart}`;
      const allowed = make("details", {}, make("summary", {}, title), make("div", { class: "words" }, ...words));
      parts.push(allowed, makeState(state, removed, budget));
    }
    this.box.className = "step";
    this.box.replaceChildren(...parts);
    get("why").hidden = state === null;
    const card = get("step-card");
    if (card.getBoundingClientRect().top > window.innerHeight - 120) card.scrollIntoView({ block: "nearest" });
  }

  /** Explain why a text or a token is or is not allowed in this step. */
  async explain(continuation, token = null) {
    if (continuation.text === "") return this.answer("", "");
    const name = token ? shown(token) : visible(continuation.text);
    try {
      const body = { ...this.run.specification, prefix: this.before, most: 0, ...continuation };
      const result = await ask("v1/grammars/explain", body, this.asking?.signal);
      const place = result.place;
      const more = place ? [...place.places, ...place.refused_by].filter((each) => !result.reason.includes(each)) : [];
      const where = more.length ? `\nrequired by ${more.join(", ")}` : "";
      this.answer(result.accepted ? "ok" : "bad", `${name}: ${result.reason}${where}`);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.answer("bad", error.message);
      if (error.kind !== "refused") this.onError(error);
    }
  }

  answer(state, text) {
    const box = get("why-answer");
    box.dataset.state = state;
    box.textContent = text;
    if (text) box.scrollIntoView({ block: "nearest" });
  }
}

/** Request the step after the tokens with these ids. */
function askStep(run, before, numbers, signal) {
  const body = { ...run.prompt, ...run.specification, tokens: before, ...numbers };
  if (run.max_tokens) body.max_tokens = run.max_tokens;
  return ask("v1/grammars/step", body, signal);
}

function makeFacts({ mask, budget, removed, state }) {
  const rows = [
    ["Allowed", count(mask.allowed), `of ${count(mask.of)} tokens`],
    ["Removed", percent(removed.mass), "of the model's probability"],
    ["Budget left", count(budget.left), `of ${count(budget.max_tokens)} tokens`],
  ];
  if (state) rows.push(["Enough to finish", count(budget.needed), budget.needed === 1 ? "token" : "tokens"]);
  const box = ([name, value, unit]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, unit)));
  return make("dl", { class: "facts" }, ...rows.map(box));
}

/** A list of tokens with their probabilities. A click on a removed token calls `onAsk`. */
function makeBars(tokens, chosen, onAsk) {
  if (!tokens.length) return make("p", { class: "empty" }, "Nothing.");
  const rows = tokens.map((token) => {
    const isRemoved = !token.allowed;
    const button = { type: "button", title: "Why not this?", onclick: () => onAsk(token) };
    const canAsk = isRemoved && onAsk;
    const word = make(canAsk ? "button" : "span", { class: "word code", ...(canAsk ? button : {}) });
    word.append(shown(token), ...(token.end ? [make("small", {}, " the end")] : []));
    const kinds = [isRemoved ? "gone" : "", token.id === chosen.id ? "chosen" : ""].join(" ").trim();
    const share = make("span", { class: "share" }, percent(token.probability));
    const row = make("li", { class: kinds || null }, word, share);
    row.style.setProperty("--share", `${(100 * token.probability).toFixed(2)}%`);
    return row;
  });
  return make("ul", { class: "bars" }, ...rows);
}

function makeState(state, removed, budget) {
  const rows = [["Expected", state.expected]];
  if (state.places.length) rows.push(["In", state.places.join(", ")]);
  rows.push(["May end here", state.may_end ? "yes" : "no"]);
  rows.push(["Shortest end", state.completion || "(nothing more)"]);
  if (budget.bound) rows.push(["The budget", `alone removed ${percent(removed.by_budget)} of the probability`]);
  const row = ([name, value]) => [make("dt", {}, name), make("dd", {}, value)];
  return make("dl", { class: "state" }, ...rows.flatMap(row));
}
