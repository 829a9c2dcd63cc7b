// The editor of the specification: its kind, examples, and what the server says of it, marked in place. What is seen is
// a coloured copy behind the text of the box, which is transparent.

import { ask } from "./api.js";
import { coloured, divided } from "./colours.js";
import { count, debounced, get, make } from "./dom.js";
import { KINDS } from "./examples.js";
import { offsetOf } from "./tokens.js";

const PAUSE = 250; // milliseconds without a key before the text is checked
const MOST_REMARKS = 20;

export class Editor {
  /** `onError` is given errors of the server; `onExample` the prompt of an example that was chosen. */
  constructor({ onError, onExample }) {
    this.text = get("spec");
    this.kindBox = get("kind");
    this.exampleBox = get("example");
    this.texts = {}; // kind -> what was last written, so that nothing is lost by looking at another kind
    this.onError = onError;
    this.minTokens = null;
    this.checkSoon = debounced(() => this.check(), PAUSE);
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

  /** The fields of a request that say it. */
  fields() {
    return KINDS[this.kind].field(this.text.value);
  }

  /** Show a kind, with what was last written in it or its first example. */
  show(kind) {
    this.texts[this.shown] = this.text.value;
    this.set(kind, this.texts[kind] ?? KINDS[kind].examples[0]?.text ?? "");
  }

  set(kind, text) {
    this.shown = kind;
    this.kindBox.value = kind;
    this.text.value = text;
    const { examples } = KINDS[kind];
    const options = examples.map(({ name }, at) => make("option", { value: at }, name));
    this.exampleBox.replaceChildren(make("option", { value: "" }, "Examples"), ...options);
    this.exampleBox.value = String(examples.findIndex((each) => each.text === text));
    if (this.exampleBox.selectedIndex < 0) this.exampleBox.value = "";
    const none = kind === "none";
    get("editor").hidden = none;
    this.exampleBox.hidden = none;
    this.check();
  }

  /** Names of ready grammars, as the server lists them. */
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
      const told = await ask("v1/grammars/check", this.fields(), checking.signal);
      if (checking.signal.aborted) return;
      if (told.valid) this.accept(told);
      else this.refuse(told.error, source);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.say("bad", [error.message]);
      if (error.kind !== "refused") this.onError(error);
    }
  }

  accept({ min_tokens: least, min_tokens_is_exact: isExact, shortest, size, findings, remarks }) {
    this.minTokens = least;
    const tokens = `${isExact ? "" : "at most "}${count(least)} token${least === 1 ? "" : "s"}`;
    const parts = [`Valid. The shortest text has ${tokens}; ${count(size.positions)} positions.`];
    this.say("ok", parts, `The shortest text: ${shortest}`);
    const all = [
      ...findings.map(({ pointer, reason, hint }) => ({
        kind: "not enforced", place: pointer, message: reason, hint, matters: true,
      })),
      ...(remarks ?? []),
    ];
    get("remarks").replaceChildren(...all.slice(0, MOST_REMARKS).map(remarkOf));
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

  /** Show the text in its colours, with a span marked or none. */
  mark(span) {
    const text = this.text.value;
    const pieces = KINDS[this.kind].isJson ? coloured(text) : [[text, ""]];
    const elements = (of) => of.map(([piece, kind]) => (kind ? make("span", { class: kind }, piece) : piece));
    const [before, inside, after] = divided(pieces, span ?? [0, 0]);
    const marked = elements(inside);
    if (span !== null && text.slice(...span).trim() === "") marked.unshift(" "); // an end has no width of its own
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

function remarkOf({ kind, place, message, hint, matters }) {
  const text = `${place ? ` ${place}:` : ""} ${message}${hint ? ` Hint: ${hint}.` : ""}`;
  return make("li", { class: matters ? "matters" : null }, make("b", {}, kind), text);
}
