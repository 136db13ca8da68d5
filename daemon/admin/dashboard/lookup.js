// One user in all detail: /v1/users/{uid}:explain, asked again while it is on show.

import { ApiError, getJson } from "./api.js";
import { byId, html, setText } from "./dom.js";
import { span, timeOfDay } from "./format.js";
import { encode, readable } from "./uid.js";

const REFRESH_MS = 2000;

export class Lookup {
  #onPlace;
  #uid = null;      // encoded; null: nobody is on show
  #state = "";      // that was said last
  #timer = 0;
  #number = 0;      // of the newest request
  #paused = false;

  /** `onPlace({level, slot} | null)`: where on the wheel the shown user's next deadline waits. */
  constructor({ onPlace }) {
    this.#onPlace = onPlace;
    byId("lookup").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    addEventListener("hashchange", () => this.#openHash());
    this.#openHash();
  }

  /** Shows a user; `encoded` as the daemon writes uids. */
  open(encoded) {
    byId("lookup-uid").value = readable(encoded);
    setText(byId("lookup-error"), "");
    this.#uid = encoded;
    this.#state = "";
    history.replaceState(null, "", `#user=${encoded}`);
    this.#ask();
  }

  pause(paused) {
    this.#paused = paused;
    if (!paused && this.#uid !== null) this.#ask();
  }

  #submit() {
    try {
      this.open(encode(byId("lookup-uid").value));
    } catch (error) {
      setText(byId("lookup-error"), error.message);
    }
  }

  /** A link to a user: #user=alice. */
  #openHash() {
    const match = /^#user=((?:[A-Za-z0-9._~-]|%[0-9A-Fa-f]{2})+)$/.exec(location.hash);
    if (match) this.open(encode(match[1]));
  }

  async #ask() {
    clearTimeout(this.#timer);
    const number = ++this.#number;
    try {
      const answer = await getJson(`/v1/users/${this.#uid}:explain`);
      if (number !== this.#number) return;
      setText(byId("lookup-error"), "");
      this.#show(answer);
    } catch (error) {
      if (number !== this.#number) return;
      setText(byId("lookup-error"), error.message);
      // What was known is no longer so; but a daemon that is away for a moment comes back.
      if (error instanceof ApiError && error.status === 400) {
        byId("lookup-answer").replaceChildren();
        this.#onPlace(null);
        return;
      }
    }
    this.#askLater();
  }

  #askLater() {
    const turn = () => (this.#paused || document.hidden ? this.#askLater() : this.#ask());
    this.#timer = setTimeout(turn, REFRESH_MS);
  }

  #show(user) {
    if (user.state !== this.#state) setText(byId("lookup-said"), user.summary);
    this.#state = user.state;
    const next = user.sessions.filter((session) => session.wheel)
      .sort((a, b) => a.remaining_ms - b.remaining_ms).at(-1);
    this.#onPlace(next?.wheel ?? null);
    byId("lookup-answer").replaceChildren(
      html("p", { class: "who" }, html("bdi", {}, readable(user.uid)), " ",
           html("span", { class: `pill ${user.state === "online" ? "good" : user.state === "offline" ? "bad" : "fair"}` },
                user.state)),
      html("p", { class: "summary" }, user.summary),
      facts(userFacts(user)),
      ...user.sessions.map(sessionCard),
      ...edgeList(user));
  }
}

/** [name, text] pairs as a list; pairs without a text are left out. */
function facts(pairs) {
  return html("dl", { class: "facts" }, ...pairs.filter(([, text]) => text).map(([name, text]) =>
    html("div", {}, html("dt", {}, name), html("dd", {}, text))));
}

function ago(ms, now) {
  if (ms === null) return null;
  return `${timeOfDay(new Date(ms))}, ${span(now - ms)} ago`;
}

function userFacts(user) {
  const held = user.hold && `no deadline runs until ${timeOfDay(new Date(user.hold.until_ms))}`;
  return [
    [user.state === "offline" ? "Offline since" : "Since", ago(user.since_ms, user.now_ms)],
    ["Last packet", ago(user.last_seen_ms, user.now_ms)],
    ["Held", held],
    ["Home shard", String(user.home_shard)],
  ];
}

function sessionCard(session) {
  const left = session.timeout_ms > 0 ? Math.min(1, session.remaining_ms / session.timeout_ms) : 0;
  const bar = html("span", { class: "left", "aria-hidden": "true" }, html("span"));
  bar.firstChild.style.transform = `scaleX(${left})`;
  const name = session.device ? html("bdi", {}, readable(session.device)) : "no device";
  return html("article", { class: "session" },
    html("h3", {}, "Session ", session.id, " · ", name,
         session.lingering ? html("span", { class: "pill fair" }, "lingering") : ""),
    bar,
    facts([
      ["Time left", `${span(session.remaining_ms)} of ${span(session.timeout_ms)}`],
      ["Last packet", `${span(session.packet_age_ms)} ago`],
      ["Waits in", session.wheel ? `level ${session.wheel.level}, slot ${session.wheel.slot}` : "nothing: it is being handled"],
      ["Address", session.address ?? "none: its connection has closed"],
      ["Shard", String(session.shard)],
      ["Logged in", timeOfDay(new Date(session.login_at_ms))],
    ]));
}

function edgeList(user) {
  if (user.edges.length === 0) return [html("p", { class: "quiet" }, "No edge of this user is remembered.")];
  const items = user.edges.map((edge) => html("li", {},
    html("time", { datetime: new Date(edge.at_ms).toISOString() }, timeOfDay(new Date(edge.at_ms))), " ",
    html("span", { class: `edge ${edge.kind === "online" ? "online" : "offline"}` }, edge.kind), " ",
    html("span", { class: "quiet" }, edge.reason)));
  return [html("h3", {}, "Last edges"), html("ol", { class: "plain" }, ...items)];
}
