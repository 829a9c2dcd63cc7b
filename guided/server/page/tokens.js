// Turns the chunks of a stream into tokens with their texts and kinds. In: choices of chunks. Out: tokens,
// {id, bytes, text, kind}. If the bytes of a character span several tokens, the last one has the character as its text.

const KINDS = ["sampled", "forced", "tool", "reasoning"];
export { KINDS };

export class TokenReader {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor() {
    this.tokens = [];
    this.content = "";
    this.calls = []; // the arguments of each call, as JSON text
    this.fields = {}; // at the end: how sure the model was of each value
  }

  /** Read a choice in a chunk, and return the tokens that it adds. */
  read(choice) {
    const delta = choice.delta ?? {};
    this.content += delta.content ?? choice.text ?? "";
    for (const call of delta.tool_calls ?? []) {
      this.calls[call.index] = (this.calls[call.index] ?? "") + (call.function?.arguments ?? "");
    }
    this.fields = choice.fields ?? this.fields;
    const ids = choice.token_ids ?? [];
    const added = (choice.tokens ?? []).map((token, index) => ({
      id: ids[index],
      bytes: token.bytes,
      text: this.#decoder.decode(Uint8Array.from(token.bytes), { stream: true }),
      kind: kindOf(delta, token.forced),
    }));
    this.tokens.push(...added);
    return added;
  }

  /** The index of the token where the specification removed most, in the least confident field. -1: there is none. */
  get doubtful() {
    if (this.tokens.some(({ kind }) => kind === "tool" || kind === "reasoning")) return -1; // see StepView
    const fields = Object.values(this.fields).filter(({ position }) => this.tokens[position]?.kind === "sampled");
    return fields.reduce((least, each) => (each.confidence < least.confidence ? each : least), {
      confidence: Infinity,
      position: -1,
    }).position;
  }

  /** The text that may be JSON: the answer's text, or if that is empty, the arguments of the last call. */
  get json() {
    return this.content.trim() ? this.content : this.calls.at(-1) ?? "";
  }
}

function kindOf(delta, forced) {
  if (delta.tool_calls?.length || delta.tool_results) return "tool";
  if (delta.reasoning) return "reasoning";
  return forced ? "forced" : "sampled";
}

/** A token's label: its text with visible whitespace, or its bytes if they are not text, or its name. */
export function shown({ id, bytes, text, token }) {
  if (!bytes?.length) return token || `id ${id}`;
  const label = text || token;
  if (label && !label.includes("\ufffd")) return visible(label);
  return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** A text with symbols for whitespace and control characters. */
export function visible(text) {
  return text
    .replace(/\r\n|\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/ /g, "␣")
    .replace(/[\u0000-\u001f\u007f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** The offset in a JavaScript string (UTF-16) of the character at an index that counts code points. */
export function offsetOf(text, index) {
  let offset = 0;
  for (let left = index; left > 0 && offset < text.length; left--) {
    offset += text.codePointAt(offset) > 0xffff ? 2 : 1;
  }
  return offset;
}
