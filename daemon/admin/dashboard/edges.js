// The newest edges, as the daemon tells them over /v1/events: as a stream where that works, else by
// asking again and again. Where edges are missing, the list says so in the place where they are.

import { ApiError, getJson, stream } from "./api.js";
import { byId, html, setText } from "./dom.js";
import { count, timeOfDay } from "./format.js";
import { encode, readable } from "./uid.js";

const ROWS_MAX = 120;
const TAIL = 40;           // edges to begin with
const TAIL_OF_USER = 65_536;  // among how many, if only those of one user are wanted
const FLUSH_MS = 250;      // the page changes at most so often
const POLL_MS = 2000;
const RETRY_MS = 2000;     // while there is no answer at all
// How long to poll before the stream gets another try: the longer, the more often it failed at once.
const AGAIN_MIN_MS = 500;
const AGAIN_MAX_MS = 30_000;

const sleep = (ms, signal) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
});

export class Edges {
  #onUser;
  #onEdge;
  #waiting = [];      // rows that the page does not show yet
  #passedBy = 0;      // rows that came and went between two looks
  #flushTimer = 0;
  #seen = 0;
  #resyncs = 0;
  #cursor = null;
  #uid = "";
  #following = null;  // AbortController of what runs
  #paused = false;

  /** `onUser(encoded)` when somebody chooses a user; `onEdge(edge)` for each edge that comes in. */
  constructor({ onUser, onEdge }) {
    this.#onUser = onUser;
    this.#onEdge = onEdge;
    byId("filter").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#filter(byId("filter-uid").value);
    });
  }

  start() {
    this.#restart();
  }

  /** While paused nothing is asked; afterwards the list goes on where it was. */
  pause(paused) {
    this.#paused = paused;
    if (paused) {
      this.#following?.abort();
      this.#mode("paused", "");
    } else {
      this.#run();
    }
  }

  #filter(typed) {
    setText(byId("filter-error"), "");
    try {
      this.#uid = encode(typed);
    } catch (error) {
      setText(byId("filter-error"), error.message);
      return;
    }
    setText(byId("edges-said"), this.#uid ? "Edges of one user." : "Edges of everybody.");
    this.#restart();
  }

  /** From the newest edges on, whatever was shown before. */
  #restart() {
    this.#cursor = null;
    this.#waiting = [];
    this.#passedBy = this.#seen = this.#resyncs = 0;
    byId("edges").replaceChildren();
    this.#writeCount();
    if (!this.#paused) this.#run();
  }

  #path(parameters) {
    const query = { ...parameters };
    if (this.#cursor === null) {
      query.tail = this.#uid ? TAIL_OF_USER : TAIL;
    } else {
      query.cursor = this.#cursor;
    }
    if (this.#uid) query.uid = this.#uid;
    // All values are numbers, cursors and percent-encoded already.
    return "/v1/events?" + Object.entries(query).map(([name, value]) => `${name}=${value}`).join("&");
  }

  async #run() {
    this.#following?.abort();
    const { signal } = (this.#following = new AbortController());
    let againMs = AGAIN_MIN_MS;
    while (!signal.aborted) {
      try {
        await stream(this.#path({}), {
          signal,
          onOpen: () => {
            this.#mode("live", "good");
            againMs = AGAIN_MIN_MS;
          },
          onEvent: (event) => this.#take(event, signal),
        });
      } catch (error) {
        if (signal.aborted || this.#isFinal(error)) return;
        this.#mode("interrupted", "bad");
        await this.#poll(signal, againMs);
        againMs = Math.min(2 * againMs, AGAIN_MAX_MS);
      }
    }
  }

  /** A refusal that asking again does not change. */
  #isFinal(error) {
    const isFinal = error instanceof ApiError && error.status === 400;
    if (isFinal) {
      setText(byId("filter-error"), error.message);
      this.#mode("stopped", "bad");
    }
    return isFinal;
  }

  /** For `ms`, after which the stream gets another try. */
  async #poll(signal, ms) {
    const end = performance.now() + ms;
    await sleep(Math.min(ms, POLL_MS), signal);
    while (!signal.aborted && performance.now() < end) {
      try {
        const page = await getJson(this.#path({ limit: 1000 }));
        if (signal.aborted) return;
        this.#mode("polling", "fair");
        for (const event of page.events) this.#add(event);
        this.#cursor = page.cursor;
        if (page.more) continue;
      } catch (error) {
        if (signal.aborted || this.#isFinal(error)) return;
        this.#mode("interrupted", "bad");
        await sleep(RETRY_MS, signal);
        return;
      }
      await sleep(POLL_MS, signal);
    }
  }

  #take({ id, data }, signal) {
    if (signal.aborted) return;
    if (id !== null) this.#cursor = id;
    if (data !== null) this.#add(JSON.parse(data));
  }

  #add(event) {
    if (event.resync) ++this.#resyncs;
    if (event.kind) {
      ++this.#seen;
      this.#onEdge(event);
    }
    this.#waiting.push(event);
    if (this.#waiting.length > ROWS_MAX) {
      // For want of room an edge is skipped, before a notice that some are missing.
      this.#waiting.splice(Math.max(0, this.#waiting.findIndex((waiting) => waiting.kind)), 1);
      ++this.#passedBy;
    }
    if (this.#flushTimer === 0) this.#flushTimer = setTimeout(() => this.#flush(), FLUSH_MS);
  }

  #flush() {
    this.#flushTimer = 0;
    const rows = this.#waiting.map((event) => this.#row(event));
    if (this.#passedBy > 0) {
      rows.unshift(notice(`${count(this.#passedBy)} edges went by faster than this list shows them.`));
    }
    this.#waiting = [];
    this.#passedBy = 0;
    const body = byId("edges");
    body.prepend(...rows.reverse());
    while (body.rows.length > ROWS_MAX) body.lastChild.remove();
    this.#writeCount();
  }

  #row(event) {
    if (event.resync) {
      return notice(`Edges are missing here: ${reasonOfResync(event.reason)} The list goes on behind ` +
                    `${event.cursor}. Who is online may be other than the edges above and below say.`);
    }
    if (event.gap) {
      return notice(`${count(event.dropped)} edges are missing here: the daemon had to drop ` +
                    `${event.first_seq} to ${event.last_seq}.`);
    }
    const at = new Date(event.at);
    const name = readable(event.uid);
    const user = html("button", { type: "button", class: "uid", title: event.uid }, html("bdi", {}, name));
    user.addEventListener("click", () => this.#onUser(event.uid));
    if (this.#uid) setText(byId("edges-said"), `${event.kind}, ${event.reason}, ${timeOfDay(at)}`);
    return html("tr", { "data-seq": event.seq },
      html("td", {}, html("time", { datetime: event.at }, timeOfDay(at))),
      html("td", {}, user),
      html("td", {}, html("span", { class: `edge ${event.kind === "online" ? "online" : "offline"}` },
                          event.kind), " ", html("span", { class: "quiet" }, event.reason)));
  }

  #mode(text, quality) {
    const pill = byId("edges-mode");
    setText(pill, text);
    pill.className = `pill ${quality}`;
  }

  #writeCount() {
    const resyncs = this.#resyncs === 0 ? "" :
      ` Edges were missing ${count(this.#resyncs)} ${this.#resyncs === 1 ? "time" : "times"}.`;
    setText(byId("edges-count"), this.#seen === 0 ? "No edge yet." :
      `${count(this.#seen)} edges since this list began.${resyncs}`);
  }
}

function notice(text) {
  return html("tr", { class: "gap" }, html("td", { colspan: 3 }, text));
}

function reasonOfResync(reason) {
  switch (reason) {
    case "too_old": return "the daemon has forgotten them, because this page was away or too slow.";
    case "other_epoch": return "the daemon has been started again.";
    case "ahead": return "the daemon has lost its place, and numbers edges anew.";
    default: return "the daemon cannot tell them any more.";
  }
}
