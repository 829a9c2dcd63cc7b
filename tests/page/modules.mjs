// The page's modules that compute, by themselves. Cases come from Python as JSON, in the file that is named.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, casesFile] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(join(folder, name)));
const { EventParser } = await load("sse.js");
const { parsePartial } = await load("json.js");
const { TokenReader, offsetOf, shown, visible } = await load("tokens.js");
const { fromHash, toHash } = await load("state.js");
const cases = JSON.parse(readFileSync(casesFile, "utf8"));
const done = { events: 0, prefixes: 0, refused: 0, tokens: 0, offsets: 0, hashes: 0 };

// ---- events: however the text is cut, they are those that Python has written
for (const { text, events } of cases.events) {
  for (let cut = 0; cut <= text.length; cut++) {
    const parser = new EventParser();
    const found = [...parser.feed(text.slice(0, cut)), ...parser.feed(text.slice(cut))];
    assert.deepEqual(found, events);
    done.events++;
  }
  const parser = new EventParser();
  assert.deepEqual([...text].flatMap((character) => parser.feed(character)), events);
}

// ---- partial JSON: the whole is what JSON.parse gives, and each beginning is a part of it
function valueOf(node) {
  if (node === null) return undefined;
  if (node.kind === "array") return node.items.map((item) => valueOf(item.node));
  if (node.kind === "object") return Object.fromEntries(node.items.map((item) => [item.key, valueOf(item.node)]));
  if (node.kind === "string") return node.value;
  return JSON.parse(node.value);
}

function isPart(node, whole) {
  if (node === null) return true;
  if (!node.open) {
    assert.deepEqual(valueOf(node), whole);
    return true;
  }
  switch (node.kind) {
    case "string": return typeof whole === "string" && whole.startsWith(node.value.replace(/[\ud800-\udbff]$/, ""));
    case "array": return node.items.every((item, at) => isPart(item.node, whole[at]));
    case "object": return node.items.every(({ key, node: inner }) => inner === null || isPart(inner, whole[key]));
    case "literal": return String(whole).startsWith(node.value);
    default: return typeof whole === "number";
  }
}

for (const text of cases.json) {
  const whole = JSON.parse(text);
  for (let end = 0; end <= text.length; end++) {
    const { node, error } = parsePartial(text.slice(0, end));
    assert.equal(error, null, text.slice(0, end));
    assert.ok(isPart(node, whole), text.slice(0, end));
    done.prefixes++;
  }
  const { node } = parsePartial(`${text} `);
  assert.deepEqual(valueOf(node), whole);
  assert.equal(node.open, false);
}
for (const text of cases.noJson) {
  assert.notEqual(parsePartial(text).error, null, text);
  done.refused++;
}
assert.equal(parsePartial("[".repeat(100000)).node, null); // bounded, whatever the depth

// ---- tokens: put together, their texts are the text, wherever its bytes are cut
for (const { pieces, text } of cases.tokens) {
  const reader = new TokenReader();
  pieces.forEach((bytes, at) => {
    const choice = { token_ids: [at], tokens: [{ token: "", bytes, forced: at % 2 === 1 }], text: "" };
    const [token] = reader.read(choice);
    assert.equal(token.id, at);
    assert.equal(token.kind, at % 2 ? "forced" : "sampled");
  });
  assert.equal(reader.tokens.map((token) => token.text).join(""), text);
  done.tokens += pieces.length;
}
const reader = new TokenReader();
const calls = (text) => ({ tool_calls: [{ index: 0, function: { arguments: text } }] });
const one = { token: "a", bytes: [97], forced: false };
reader.read({ delta: { reasoning: "a" }, token_ids: [1], tokens: [one] });
reader.read({ delta: calls('{"a"'), token_ids: [2], tokens: [one] });
reader.read({ delta: calls(": 1}"), token_ids: [3], tokens: [one] });
assert.deepEqual(reader.tokens.map(({ kind }) => kind), ["reasoning", "tool", "tool"]);
assert.equal(reader.json, '{"a": 1}');
reader.read({ delta: { content: "[1]" } });
assert.equal(reader.json, "[1]");
assert.equal(shown({ id: 5, bytes: [0xe2, 0x82], text: "" }), "e2 82");
assert.equal(shown({ id: 5, bytes: null, token: "<|im_end|>" }), "<|im_end|>");
assert.equal(shown({ id: 5, bytes: [] }), "id 5");
assert.equal(visible("a b\n\t\u0001"), "a␣b↵⇥\\x01");

// ---- offsets of characters
for (const text of cases.texts) {
  const characters = Array.from(text);
  for (let number = 0; number <= characters.length; number++) {
    assert.equal(offsetOf(text, number), characters.slice(0, number).join("").length);
    done.offsets++;
  }
}

// ---- links
for (const text of cases.texts) {
  const fields = { prompt: text, kind: "regex", spec: text };
  assert.deepEqual(fromHash(toHash(fields)), fields);
  done.hashes++;
}
assert.deepEqual(fromHash(toHash({ prompt: 3, other: "x", mode: "text" })), { mode: "text" });
for (const hash of ["", "#", "#r=", "#r=%%", "#r=bnVsbA", `#r=${"A".repeat(70000)}`]) assert.equal(fromHash(hash), null);

console.log(JSON.stringify(done));
