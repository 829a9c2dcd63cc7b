// Sends requests to the server, and reads streams. Errors are `ApiError`s; their kind decides how the page shows them.

import { EventParser } from "./sse.js";

const KEY = "guided-key";
const MESSAGES = {
  gone: "The server does not answer.",
  key: "This server needs an API key.",
  busy: "The server is busy: try again soon.",
};

export class ApiError extends Error {
  /** kind: "gone", "key", "busy", "refused" (an invalid request) or "defect" (a bug in the server). */
  constructor(kind, message, { param = null, code = null } = {}) {
    super(message);
    this.kind = kind;
    this.param = param;
    this.code = code;
  }
}

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => (value ? sessionStorage.setItem(KEY, value) : sessionStorage.removeItem(KEY)),
};

async function send(path, body, signal) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const options = { method: body === undefined ? "GET" : "POST", headers, signal, cache: "no-store" };
  if (body !== undefined) options.body = JSON.stringify(body);
  try {
    return await fetch(new URL(path, document.baseURI), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("gone", MESSAGES.gone);
  }
}

async function check(answer) {
  if (answer.ok) return answer;
  let details = {};
  try {
    details = (await answer.json()).error ?? {};
  } catch {
    // the body is not an error of this server: a proxy may have answered
  }
  throw makeError(answer.status, details);
}

function makeError(status, details) {
  const message = details.message ?? `The server returned status ${status}.`;
  if (status === 401) return new ApiError("key", key.get() ? "The API key is invalid." : MESSAGES.key, details);
  if (status === 503 || status === 429) {
    return details.code === "engine_stopped"
      ? new ApiError("defect", `The engine has stopped. ${message}`, details)
      : new ApiError("busy", `${MESSAGES.busy} (${message})`, details);
  }
  return new ApiError(status >= 500 ? "defect" : "refused", message, details);
}

/** Request a route and return its JSON. Without a body, the request is a GET. */
export async function ask(path, body, signal) {
  return (await check(await send(path, body, signal))).json();
}

/** Request a stream, and pass each of its chunks to `take`. */
export async function stream(path, body, signal, take) {
  const answer = await check(await send(path, { ...body, stream: true }, signal));
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("gone", "The connection was lost.");
    }
    if (piece.done) throw new ApiError("gone", "The stream ended before the answer was complete.");
    for (const { data } of parser.feed(decoder.decode(piece.value, { stream: true }))) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw makeError(chunk.error.code === "engine_stopped" ? 503 : 500, chunk.error);
      take(chunk);
    }
  }
}
