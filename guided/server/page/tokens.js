// From the chunks of a stream to tokens with their texts and kinds. In: choices of chunks. Out: tokens,
// {id, bytes, text, kind}. A character whose bytes are several tokens is the text of the last of them.

const KINDS = ["sampled", "forced", "tool", "reasoning"];
export { KINDS };

export class TokenReader {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });

  constructor() {
    this.tokens = [];
    this.content = "";
    this.calls = []; // the arguments of each call, as text
  }

  /** The tokens that a choice of a chunk adds. */
  read(choice) {
    const delta = choice.delta ?? {};
    this.content += delta.content ?? choice.text ?? "";
    for (const call of delta.tool_calls ?? []) {
      this.calls[call.index] = (this.calls[call.index] ?? "") + (call.function?.arguments ?? "");
    }
    const ids = choice.token_ids ?? [];
    const added = (choice.tokens ?? []).map((token, at) => ({
      id: ids[at],
      bytes: token.bytes,
      text: this.#decoder.decode(Uint8Array.from(token.bytes), { stream: true }),
      kind: kindOf(delta, token.forced),
    }));
    this.tokens.push(...added);
    return added;
  }

  /** What may be JSON: the text, or else the arguments of the last call. */
  get json() {
    return this.content.trim() ? this.content : this.calls.at(-1) ?? "";
  }
}

function kindOf(delta, forced) {
  if (delta.tool_calls?.length || delta.tool_results) return "tool";
  if (delta.reasoning) return "reasoning";
  return forced ? "forced" : "sampled";
}

/** A token for a label: its text with white space made visible; its bytes where they are no text; or its name. */
export function shown({ id, bytes, text, token }) {
  if (!bytes?.length) return token || `id ${id}`;
  const own = text || token;
  if (own && !own.includes("\ufffd")) return visible(own);
  return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
}

/** White space and control characters as pictures of them. */
export function visible(text) {
  return text
    .replace(/\r\n|\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/ /g, "␣")
    .replace(/[\u0000-\u001f\u007f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

/** The offset in a JavaScript string of the character with a number; characters are code points. */
export function offsetOf(text, number) {
  let at = 0;
  for (let left = number; left > 0 && at < text.length; left--) at += text.codePointAt(at) > 0xffff ? 2 : 1;
  return at;
}
