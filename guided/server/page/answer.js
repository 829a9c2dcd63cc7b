// The answer: its tokens as they arrive. A click or the keyboard selects one of them.

import { count, get, make } from "./dom.js";
import { KINDS, shown } from "./tokens.js";

const NAMES = {
  sampled: "chosen by the model",
  forced: "forced by the specification",
  tool: "part of a tool call",
  reasoning: "reasoning",
};

export class Answer {
  /** `onOpen` is called with the number of the token whose step should be shown. */
  constructor(onOpen) {
    this.box = get("tokens");
    this.onOpen = onOpen;
    this.tokens = [];
    this.selected = -1;
    this.box.addEventListener("click", (event) => {
      const token = event.target.closest(".token");
      if (token) this.open(Number(token.dataset.at));
    });
    this.box.addEventListener("keydown", (event) => this.press(event));
  }

  clear() {
    this.tokens = [];
    this.selected = -1;
    this.counts = Object.fromEntries(KINDS.map((kind) => [kind, 0]));
    this.box.replaceChildren();
    this.box.hidden = get("legend").hidden = get("copy").hidden = true;
    get("answer-error").hidden = get("answer-empty").hidden = true;
    get("sentences").hidden = true;
  }

  add(tokens) {
    if (!tokens.length) return;
    const isAtEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 40;
    this.box.hidden = get("legend").hidden = get("copy").hidden = false;
    for (const token of tokens) {
      const index = this.tokens.push(token) - 1;
      this.counts[token.kind]++;
      this.box.append(this.element(token, index));
    }
    this.showCounts();
    if (isAtEnd) this.box.scrollTop = this.box.scrollHeight;
  }

  element(token, index) {
    const properties = {
      class: `token ${token.kind}`,
      role: "option",
      tabindex: index === 0 ? 0 : -1,
      "data-at": index,
      "aria-selected": "false",
      "aria-label": `Token ${index + 1}: ${shown(token)}, ${NAMES[token.kind]}`,
    };
    return make("span", properties, ...parts(token));
  }

  showCounts() {
    const kinds = KINDS.filter((kind) => this.counts[kind] || kind === "sampled" || kind === "forced");
    const row = (kind) => make("li", {}, make("span", { class: kind }), `${count(this.counts[kind])} ${NAMES[kind]}`);
    get("legend").replaceChildren(...kinds.map(row));
  }

  setWorking(isWorking) {
    this.box.classList.toggle("working", isWorking);
    if (isWorking) this.box.hidden = false;
  }

  fail(message) {
    get("answer-error").textContent = message;
    get("answer-error").hidden = false;
  }

  /** Select a token. `focus`: also focus it, so that the page scrolls to it. */
  select(index, focus = false) {
    const elements = this.box.children;
    if (!elements.length) return;
    const selected = Math.max(0, Math.min(index, elements.length - 1));
    const previous = elements[Math.max(this.selected, 0)];
    previous?.setAttribute("aria-selected", "false");
    previous?.setAttribute("tabindex", "-1");
    this.selected = selected;
    elements[selected].setAttribute("aria-selected", "true");
    elements[selected].setAttribute("tabindex", "0");
    if (focus) elements[selected].focus();
  }

  open(index, focus = true) {
    this.select(index, focus);
    if (this.selected >= 0) this.onOpen(this.selected);
  }

  press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const index = Number(event.target.dataset?.at ?? 0);
    const target = {
      ArrowRight: () => index + (this.selected < 0 ? 0 : 1),
      ArrowLeft: () => index - 1,
      ArrowDown: () => this.findInLine(index, 1),
      ArrowUp: () => this.findInLine(index, -1),
      Home: () => 0,
      End: () => this.tokens.length - 1,
    }[event.key];
    if (target) this.select(target(), true);
    else if (event.key === "Enter" || event.key === " ") this.open(index);
    else return;
    event.preventDefault();
  }

  /** The index of the token above (`step` -1) or below (`step` 1) another one. */
  findInLine(index, step) {
    const elements = this.box.children;
    const here = elements[index].getClientRects()[0];
    let best = index;
    for (let next = index + step, row = null; elements[next]; next += step) {
      const there = elements[next].getClientRects()[0];
      if (!there || Math.abs(there.top - here.top) < 4) continue;
      row ??= there.top;
      if (Math.abs(there.top - row) > 4) break;
      const distance = (each) => Math.abs(elements[each].getClientRects()[0].left - here.left);
      if (best === index || distance(next) <= distance(best)) best = next;
    }
    return best;
  }
}

/** The text of a token, with symbols for whitespace. */
function parts(token) {
  if (!token.text) return [make("i", {}, token.bytes?.length ? "·" : shown(token))];
  return token.text.split(/(\n|\t)/).flatMap((part) => {
    if (part === "\n") return [make("i", {}, "↵"), "\n"];
    return part === "\t" ? [make("i", {}, "⇥"), "\t"] : part ? [part] : [];
  });
}
