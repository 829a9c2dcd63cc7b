// Shows the JSON so far as a tree. In: nodes from json.js. An element is kept while its node has the same kind, so
// folded elements stay folded while the tree grows.

import { make } from "./dom.js";

const MAX_NODES = 2000;

export class Tree {
  constructor(box) {
    this.box = box;
  }

  show(node) {
    this.left = MAX_NODES;
    if (node === null) {
      this.box.replaceChildren();
      return;
    }
    const previous = this.box.firstElementChild;
    const element = this.element(previous, node, null);
    if (element !== previous) this.box.replaceChildren(element);
  }

  /** An element for a node. Reuses the previous element if it fits. */
  element(previous, node, name) {
    this.left--;
    const kind = node?.kind ?? "nothing";
    const fits = previous?.dataset.kind === kind && previous.dataset.name === String(name);
    const element = fits ? previous : this.create(kind, name);
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
    node.items.forEach((item, index) => {
      if (this.left <= 0) return;
      const row = list.children[index] ?? list.appendChild(make("li"));
      const previous = row.firstElementChild;
      const element = this.element(previous, item.node, node.kind === "object" ? item.key : index);
      if (element !== previous) row.replaceChildren(element);
    });
    while (list.children.length > number) list.lastElementChild.remove();
  }
}
