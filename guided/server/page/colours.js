// Colours JSON while it is being written. In: a text, which need not be valid JSON. Out: pieces of it, [text, class].

const MAX_LENGTH = 40_000; // characters; longer texts have no colours
const PIECE = /("(?:[^"\\\n]|\\.)*"?)(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b|[^"\-\dtfn]+|[^]/g;

export function colourPieces(text) {
  if (text.length > MAX_LENGTH) return [[text, ""]];
  const pieces = [];
  for (const [whole, string, colon, number, literal] of text.matchAll(PIECE)) {
    if (string !== undefined) {
      pieces.push([string, colon === undefined ? "of-string" : "of-key"]);
      if (colon !== undefined) pieces.push([colon, ""]);
    } else pieces.push([whole, number ? "of-number" : literal ? "of-literal" : ""]);
  }
  return pieces;
}

/** The pieces before, inside and after the characters from `start` to `end`. */
export function splitPieces(pieces, [start, end]) {
  const out = [[], [], []];
  let begin = 0;
  for (const [text, kind] of pieces) {
    const cuts = [0, start - begin, end - begin, text.length].map((cut) => Math.max(0, Math.min(cut, text.length)));
    for (const part of [0, 1, 2]) {
      const piece = text.slice(cuts[part], cuts[part + 1]);
      if (piece !== "") out[part].push([piece, kind]);
    }
    begin += text.length;
  }
  return out;
}
