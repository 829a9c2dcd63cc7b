// The editor for the specification: its kind, examples, and the server's verdict, with errors marked in the text. The
// text box is transparent; the user sees a coloured copy behind it.

import { ask } from "./api.js";
import { colourPieces, splitPieces } from "./colours.js";
import { count, debounce, get, make } from "./dom.js";
import { KINDS } from "./examples.js";
import { offsetOf } from "./tokens.js";

const CHECK_DELAY = 250; // milliseconds after the last key until the text is checked
const MAX_REMARKS = 20;

export class Editor {
  /** `onError` is called with errors from the server, `onExample` with the prompt of the selected example. */
  constructor({ onError, onExample }) {
    this.text = get("spec");
    this.kindBox = get("kind");
    this.exampleBox = get("example");
    this.texts = {}; // kind -> its last text, so that it is not lost when the user selects another kind
    this.onError = onError;
    this.minTokens = null;
    this.checkSoon = debounce(() => this.check(), CHECK_DELAY);
    this.checking = null;
    for (const [kind, { name }] of Object.entries(KINDS)) this.kindBox.append(make("option", { value: kind }, name));
    this.kindBox.addEventListener("change", () => this.show(this.kindBox.value));
    this.exampleBox.addEventListener("change", () => {
      const example = KINDS[this.kind].examples[Number(this.exampleBox.value)];
      if (!example) return;
      this.set(this.kind, example.text);
      onExample(example.prompt);
    });
    this.text.addEventListener("input", () => {
      this.exampleBox.value = "";
      this.mark(null);
      this.checkSoon();
    });
    this.text.addEventListener("scroll", () => this.follow());
    new ResizeObserver(() => this.follow()).observe(this.text);
  }

  get kind() {
    return this.kindBox.value;
  }

  /** The fields of a request that contain the specification. */
  fields() {
    return KINDS[this.kind].field(this.text.value);
  }

  /** Show a kind with its last text, or with its first example. */
  show(kind) {
    this.texts[this.shown] = this.text.value;
    this.set(kind, this.texts[kind] ?? KINDS[kind].examples[0]?.text ?? "");
  }

  set(kind, text) {
    this.shown = kind;
    this.kindBox.value = kind;
    this.text.value = text;
    const { examples } = KINDS[kind];
    const options = examples.map(({ name }, index) => make("option", { value: index }, name));
    this.exampleBox.replaceChildren(make("option", { value: "" }, "Examples"), ...options);
    this.exampleBox.value = String(examples.findIndex((each) => each.text === text));
    if (this.exampleBox.selectedIndex < 0) this.exampleBox.value = "";
    const isFree = kind === "none";
    get("editor").hidden = isFree;
    this.exampleBox.hidden = isFree;
    this.check();
  }

  /** Set the names of the bundled grammars, which the server lists. */
  offer(grammars) {
    const prompt = KINDS.grammar.examples[0].prompt;
    KINDS.grammar.examples = grammars.map(({ id, title }) => ({ name: `${id}: ${title}`, text: id, prompt }));
    if (this.kind === "grammar") this.set("grammar", this.text.value);
  }

  async check() {
    this.checking?.abort();
    this.minTokens = null;
    this.mark(null);
    if (this.kind === "none") return this.say("", ["Any text is allowed, until the model ends it."]);
    const checking = (this.checking = new AbortController());
    const source = this.text.value;
    try {
      const result = await ask("v1/grammars/check", this.fields(), checking.signal);
      if (checking.signal.aborted) return;
      if (result.valid) this.accept(result);
      else this.refuse(result.error, source);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.say("bad", [error.message]);
      if (error.kind !== "refused") this.onError(error);
    }
  }

  accept({ min_tokens: minTokens, min_tokens_is_exact: isExact, shortest, size, findings, remarks }) {
    this.minTokens = minTokens;
    const tokens = `${isExact ? "" : "at most "}${count(minTokens)} token${minTokens === 1 ? "" : "s"}`;
    const parts = [`Valid. The shortest text has ${tokens}; ${count(size.positions)} positions.`];
    this.say("ok", parts, `The shortest text: ${shortest}`);
    const all = [
      ...findings.map(({ pointer, reason, hint }) => ({
        kind: "not enforced", place: pointer, message: reason, hint, matters: true,
      })),
      ...(remarks ?? []),
    ];
    get("remarks").replaceChildren(...all.slice(0, MAX_REMARKS).map(makeRemark));
    get("remarks").hidden = all.length === 0;
  }

  refuse({ message, hint, place, pointer }, source) {
    const parts = [];
    if (place) {
      const [start, end] = place.span.map((each) => offsetOf(source, each));
      this.mark([start, Math.max(end, start + 1)]);
      const go = () => {
        this.text.focus();
        this.text.setSelectionRange(start, end);
      };
      parts.push(make("button", { type: "button", onclick: go }, `Line ${place.line}, column ${place.column}`), ": ");
    } else if (pointer) {
      parts.push(`${pointer}: `);
    }
    parts.push(message);
    if (hint) parts.push(make("span", { class: "hint" }, `Hint: ${hint}`));
    this.say("bad", parts);
  }

  say(state, parts, title = "") {
    const verdict = get("verdict");
    verdict.dataset.state = state;
    verdict.title = title;
    verdict.replaceChildren(...parts);
    get("editor").dataset.state = state;
    this.text.setAttribute("aria-invalid", String(state === "bad"));
    if (state !== "ok") get("remarks").hidden = true;
  }

  /** Show the text with its colours. `span`: the characters to mark, or null. */
  mark(span) {
    const text = this.text.value;
    const pieces = KINDS[this.kind].isJson ? colourPieces(text) : [[text, ""]];
    const elements = (parts) => parts.map(([piece, kind]) => (kind ? make("span", { class: kind }, piece) : piece));
    const [before, inside, after] = splitPieces(pieces, span ?? [0, 0]);
    const marked = elements(inside);
    if (span !== null && text.slice(...span).trim() === "") marked.unshift(" "); // the end of a line has no width
    const mark = span === null ? [] : [make("mark", {}, ...marked)];
    get("marks").replaceChildren(...elements(before), ...mark, ...elements(after), "\n");
    this.follow();
  }

  follow() {
    const marks = get("marks");
    marks.style.width = `${this.text.clientWidth + 2}px`;
    marks.style.height = `${this.text.clientHeight + 2}px`;
    marks.scrollTop = this.text.scrollTop;
    marks.scrollLeft = this.text.scrollLeft;
  }
}

function makeRemark({ kind, place, message, hint, matters }) {
  const text = `${place ? ` ${place}:` : ""} ${message}${hint ? ` Hint: ${hint}.` : ""}`;
  return make("li", { class: matters ? "matters" : null }, make("b", {}, kind), text);
}
