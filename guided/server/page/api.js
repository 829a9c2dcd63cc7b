// The server: requests and streams. Errors are `ApiError`s with a kind that the page shows in its own way.

import { EventParser } from "./sse.js";

const KEY = "guided-key";
const HELP = {
  gone: "The server does not answer.",
  key: "This server needs an API key.",
  busy: "The server has too much to do: try again soon.",
};

export class ApiError extends Error {
  /** kind: "gone", "key", "busy", "refused" (the request is wrong) or "defect" (the server is). */
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
    throw new ApiError("gone", HELP.gone);
  }
}

async function checked(answer) {
  if (answer.ok) return answer;
  let told = {};
  try {
    told = (await answer.json()).error ?? {};
  } catch {
    // no body of ours: a proxy may have answered
  }
  throw errorOf(answer.status, told);
}

function errorOf(status, told) {
  const message = told.message ?? `The server answers ${status}.`;
  if (status === 401) return new ApiError("key", key.get() ? "This key is not the server's." : HELP.key, told);
  if (status === 503 || status === 429) {
    return told.code === "engine_stopped"
      ? new ApiError("defect", `The engine has stopped. ${message}`, told)
      : new ApiError("busy", `${HELP.busy} (${message})`, told);
  }
  return new ApiError(status >= 500 ? "defect" : "refused", message, told);
}

/** The JSON that a route answers with; without a body it is a GET. */
export async function ask(path, body, signal) {
  return (await checked(await send(path, body, signal))).json();
}

/** Give each chunk of a stream to `take`, until its end. */
export async function stream(path, body, signal, take) {
  const answer = await checked(await send(path, { ...body, stream: true }, signal));
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  for (;;) {
    let piece;
    try {
      piece = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("gone", "The connection broke off.");
    }
    if (piece.done) throw new ApiError("gone", "The stream ended before its answer did.");
    for (const { data } of parser.feed(decoder.decode(piece.value, { stream: true }))) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw errorOf(chunk.error.code === "engine_stopped" ? 503 : 500, chunk.error);
      take(chunk);
    }
  }
}
