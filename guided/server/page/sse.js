// Parses server-sent events. In: pieces of text, split at any position. Out: events, {name, data}.
// https://html.spec.whatwg.org/multipage/server-sent-events.html

export class EventParser {
  #buffer = "";
  #name = "";
  #data = [];

  /** The events that a piece of text completes. */
  feed(piece) {
    let text = this.#buffer + piece;
    let held = "";
    if (text.endsWith("\r")) { // a line feed may follow and belong to the same line end
      held = "\r";
      text = text.slice(0, -1);
    }
    const lines = text.split(/\r\n|\n|\r/);
    this.#buffer = lines.pop() + held;
    const events = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#data.length) {
          events.push({ name: this.#name || "message", data: this.#data.join("\n") });
        }
        this.#name = "";
        this.#data = [];
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") this.#data.push(value);
      else if (field === "event") this.#name = value;
    }
    return events;
  }
}
