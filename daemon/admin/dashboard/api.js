// The daemon's HTTP port, as this page asks it.

const TOKEN_KEY = "pulsewheel.token";
const ANSWER_MS = 8000;
// A stream says something every 15 s, be it that nothing happened.
const STREAM_SILENCE_MS = 45_000;

/** The daemon, or what stands before it, answered with something else than what was asked for. */
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let askForToken = async () => { throw new ApiError(401, "unauthorized", "a token is needed"); };
let asked = null;  // one question at a time, whoever needs the answer

/** `ask(wrong)` resolves to the token that somebody typed; `wrong`: the last one was refused. */
export function onTokenWanted(ask) {
  askForToken = ask;
}

export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;
export const forgetToken = () => sessionStorage.removeItem(TOKEN_KEY);

async function newToken(refused) {
  // Another request may have got a better one in the meantime.
  if (sessionStorage.getItem(TOKEN_KEY) !== refused) return;
  asked ??= askForToken(refused !== null)
    .then((token) => sessionStorage.setItem(TOKEN_KEY, token))
    .finally(() => { asked = null; });
  await asked;
}

/** Asks until it is no matter of the token; the response has a status of 200. */
async function request(path, fields, signal) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN_KEY);
    const headers = token === null ? fields : { ...fields, Authorization: `Bearer ${token}` };
    const response = await fetch(path, { headers, signal: signal(), cache: "no-store",
                                         credentials: "omit", redirect: "error" });
    if (response.ok) return response;
    if (response.status === 401) {
      await newToken(token);
      continue;
    }
    let error = {};
    try {
      error = (await response.json()).error ?? {};
    } catch {
      // Not ours: the status has to do.
    }
    throw new ApiError(response.status, error.code ?? "",
                       error.message ?? `the answer was ${response.status}`);
  }
}

const inTime = () => AbortSignal.timeout(ANSWER_MS);

export const getJson = async (path) =>
  (await request(path, { Accept: "application/json" }, inTime)).json();

export const getText = async (path) => (await request(path, {}, inTime)).text();

/**
 * Server-Sent Events from `path` until `signal` aborts; throws when the stream ends or fails. Unlike
 * a browser's own EventSource it sends the token, and says why it was refused.
 * `onOpen()`, then `onEvent({id, event, data})` for each; an event without data only moves the id.
 */
export async function stream(path, { signal, onOpen, onEvent }) {
  const silence = new AbortController();
  let watchdog = 0;
  const heard = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => silence.abort(new Error("the stream fell silent")), STREAM_SILENCE_MS);
  };
  try {
    heard();
    const both = AbortSignal.any([signal, silence.signal]);
    const response = await request(path, { Accept: "text/event-stream" }, () => both);
    onOpen();
    const parser = new EventParser(onEvent);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the daemon ended the stream");
      heard();
      parser.push(value);
    }
  } finally {
    clearTimeout(watchdog);
  }
}

/** The text/event-stream format, as far as the daemon uses it: fields in lines that end in \n. */
class EventParser {
  #onEvent;
  #rest = "";
  #event = { id: null, event: "message", data: null };

  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  push(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#take(line);
  }

  #take(line) {
    if (line === "") {
      const event = this.#event;
      this.#event = { id: null, event: "message", data: null };
      if (event.id !== null || event.data !== null) this.#onEvent(event);
      return;
    }
    const colon = line.indexOf(":");
    if (colon <= 0) return;  // a comment
    const field = line.slice(0, colon);
    const value = line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field in this.#event) this.#event[field] = value;
  }
}
