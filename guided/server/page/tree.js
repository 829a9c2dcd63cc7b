// The tree of the JSON so far. In: nodes of json.js. An element is kept while its node has the same kind, so folded
// elements stay folded while the tree grows.

import { make } from "./dom.js";

const MOST = 2000; // nodes

export class Tree {
  constructor(box) {
    this.box = box;
  }

  show(node) {
    this.left = MOST;
    if (node === null) {
      this.box.replaceChildren();
      return;
    }
    const before = this.box.firstElementChild;
    const now = this.element(before, node, null);
    if (now !== before) this.box.replaceChildren(now);
  }

  /** An element for a node: the previous element, if it fits. */
  element(before, node, name) {
    this.left--;
    const kind = node?.kind ?? "nothing";
    const fits = before?.dataset.kind === kind && before.dataset.name === String(name);
    const element = fits ? before : this.create(kind, name);
    if (node === null) return element;
    if (node.items) this.fill(element, node);
    else {
      const value = element.querySelector(".value");
      const text = node.kind === "string" ? `"${node.value}${node.open ? "" : '"'}` : node.value;
      if (value.textContent !== text) value.textContent = text;
      value.classList.toggle("open", node.open);
    }
    return element;
  }

  create(kind, name) {
    const label = name === null ? [] : [make("span", { class: "name" }, `${name}: `)];
    if (kind === "object" || kind === "array") {
      const summary = make("summary", {}, ...label, make("span", { class: "count" }));
      return make("details", { "data-kind": kind, "data-name": String(name), open: true }, summary, make("ul"));
    }
    const value = make("span", { class: `value ${kind}` });
    return make("div", { "data-kind": kind, "data-name": String(name) }, ...label, value);
  }

  fill(element, node) {
    const what = node.kind === "object" ? ["{", "}", "member"] : ["[", "]", "item"];
    const number = node.items.length;
    const label = element.querySelector(".count");
    label.textContent = `${what[0]}${what[1]} ${number} ${what[2]}${number === 1 ? "" : "s"}`;
    label.classList.toggle("open", node.open);
    const list = element.lastElementChild;
    node.items.forEach((item, at) => {
      if (this.left <= 0) return;
      const row = list.children[at] ?? list.appendChild(make("li"));
      const before = row.firstElementChild;
      const now = this.element(before, item.node, node.kind === "object" ? item.key : at);
      if (now !== before) row.replaceChildren(now);
    });
    while (list.children.length > number) list.lastElementChild.remove();
  }
}
