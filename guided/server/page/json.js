// Parses JSON that is still being written. In: the beginning of a JSON text. Out: a tree of the values so far.
//
// A node: {kind: "object" | "array" | "string" | "number" | "literal", open, value, items}.
// open: whether it may continue. value: the value of a string, number or literal.
// items: the items of an object or array, [{key, node}]. key is null in an array; node is null if it has not begun.

const MAX_DEPTH = 200;
const NUMBER = /-?\d*(?:\.\d*)?(?:[eE][+-]?\d*)?/y;
const LITERALS = new Map([["t", "true"], ["f", "false"], ["n", "null"]]);

/** {node, error}. node: null if no value has begun. error: the offset at which the text stops being JSON, or null. */
export function parsePartial(text) {
  const reader = new Reader(text);
  try {
    const node = reader.value(0);
    reader.space();
    return { node, error: node && !node.open && !reader.ended ? reader.at : null };
  } catch (error) {
    if (error instanceof NotJson) return { node: null, error: error.at };
    throw error;
  }
}

class NotJson extends Error {
  constructor(at) {
    super(`not JSON at ${at}`);
    this.at = at;
  }
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  get ended() {
    return this.at >= this.text.length;
  }

  space() {
    while (!this.ended && " \t\r\n".includes(this.text[this.at])) this.at++;
  }

  value(depth) {
    this.space();
    if (this.ended) return null;
    if (depth > MAX_DEPTH) throw new NotJson(this.at);
    const first = this.text[this.at];
    if (first === "{") return this.container("object", "}", depth);
    if (first === "[") return this.container("array", "]", depth);
    if (first === '"') return this.string();
    if (LITERALS.has(first)) return this.literal(LITERALS.get(first));
    return this.number();
  }

  container(kind, end, depth) {
    const node = { kind, open: true, value: null, items: [] };
    this.at++;
    for (let comma = false; ; comma = true) {
      this.space();
      if (this.ended) return node;
      if (this.text[this.at] === end && !comma) {
        this.at++;
        node.open = false;
        return node;
      }
      const item = { key: null, node: null };
      if (kind === "object") {
        if (this.text[this.at] !== '"') throw new NotJson(this.at);
        const key = this.string();
        item.key = key.value;
        node.items.push(item);
        this.space();
        if (key.open || this.ended) return node;
        this.take(":");
      }
      item.node = this.value(depth + 1);
      if (kind === "array" && item.node) node.items.push(item);
      if (!item.node || item.node.open) return node;
      this.space();
      if (this.ended) return node;
      if (this.text[this.at] === end) {
        this.at++;
        node.open = false;
        return node;
      }
      this.take(",");
    }
  }

  take(character) {
    if (this.text[this.at] !== character) throw new NotJson(this.at);
    this.at++;
  }

  string() {
    const start = ++this.at;
    while (!this.ended && this.text[this.at] !== '"') this.at += this.text[this.at] === "\\" ? 2 : 1;
    const open = this.at >= this.text.length;
    let inner = this.text.slice(start, open ? this.text.length : this.at);
    if (open) inner = inner.replace(/(?<=(?:^|[^\\])(?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$/, "");
    const begin = start - 1;
    if (!open) this.at++;
    else this.at = this.text.length;
    try {
      return { kind: "string", open, value: JSON.parse(`"${inner}"`), items: null };
    } catch {
      throw new NotJson(begin);
    }
  }

  literal(word) {
    const rest = this.text.slice(this.at, this.at + word.length);
    if (!word.startsWith(rest)) throw new NotJson(this.at);
    this.at += rest.length;
    return { kind: "literal", open: rest !== word, value: rest, items: null };
  }

  number() {
    NUMBER.lastIndex = this.at;
    const [digits] = NUMBER.exec(this.text);
    if (!digits) throw new NotJson(this.at);
    this.at += digits.length;
    return { kind: "number", open: this.ended, value: digits, items: null };
  }
}
