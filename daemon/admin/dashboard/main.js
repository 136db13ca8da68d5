// Puts the page together: who asks the daemon what, how often, and what is said when it does not
// answer.

import { forgetToken, getJson, getText, hasToken, onTokenWanted } from "./api.js";
import { Tile } from "./chart.js";
import { byId, setText, showText } from "./dom.js";
import { Edges } from "./edges.js";
import { count, rate, seconds, span, timeOfDay } from "./format.js";
import { Lookup } from "./lookup.js";
import { Metrics } from "./metrics.js";
import { Wheel } from "./wheel.js";

const NODE_MS = 2000;
// Not a multiple of the tick: the looks fall everywhere in it, which is how its phase is found.
const WHEEL_MS = 937;
const FLASHES_MAX = 6;  // a second

let paused = false;

/** Runs `task` every `ms` while the page is looked at and not paused, one at a time. */
function every(ms, task) {
  const turn = async () => {
    if (!paused && !document.hidden) await task();
    setTimeout(turn, ms);
  };
  turn();
}

class Node {
  #tiles = {
    connections: new Tile("Connections", ["connections"], count),
    users: new Tile("Users online", ["online", "lingering"], count),
    edges: new Tile("Edges per second", ["online", "offline"], rate),
    packets: new Tile("Packets per second", ["packets"], rate),
    lateness: new Tile("Lateness of offline", ["p99", "p50"], seconds),
    delay: new Tile("Loop delay", ["p99", "p50"], seconds),
  };
  #before = null;
  #wheel;
  #answeredAt = null;

  constructor(wheel) {
    this.#wheel = wheel;
    byId("tiles").append(...Object.values(this.#tiles).map((tile) => tile.element));
  }

  async look() {
    const at = Date.now();
    try {
      const [status, text] = await Promise.all([getJson("/v1/status"), getText("/metrics")]);
      this.#showStatus(status);
      this.#showMetrics(new Metrics(text, at), status);
      this.#answeredAt = at;
      showText(byId("trouble"), "");
      document.body.classList.remove("stale");
    } catch (error) {
      const since = this.#answeredAt === null ? "" :
        ` All below is from ${timeOfDay(new Date(this.#answeredAt))}.`;
      showText(byId("trouble"), `No answer from the daemon: ${error.message}.${since}`);
      document.body.classList.add("stale");
    }
    byId("forget").hidden = !hasToken();
  }

  #showStatus(status) {
    const phase = byId("phase");
    setText(phase, status.phase);
    phase.className = `pill ${status.phase === "serving" ? "good" : "fair"}`;
    setText(byId("uptime"), span(status.uptime_s * 1000));
    setText(byId("epoch"), String(status.epoch));
    setText(byId("shards"), String(status.shards));
    setText(byId("version"), status.version);
    const { redis } = status;
    setText(byId("redis"), redis.mode === "off" ? "off" :
      `${redis.mode}, ${redis.connection}${redis.writing ? "" : ", not writing"}`);
    showText(byId("notice"), noticeOf(status));
    this.#wheel.showUsers(status.users);
    document.title = `${count(status.users.online)} online · Pulsewheel`;
  }

  #showMetrics(now, status) {
    const tiles = this.#tiles;
    const { at } = now;
    tiles.connections.add(at, [status.connections]);
    tiles.users.add(at, [status.users.online, status.users.lingering]);
    tiles.connections.note(`${count(status.packets.logins)} logins since the start`);
    tiles.users.note(`${count(status.users.offline_remembered)} remembered as offline`);
    tiles.edges.note(`${count(status.edges.last_seq)} in all`);
    tiles.packets.note(`${count(status.packets.keepalives)} keepalives in all`);
    tiles.lateness.note(`${seconds(status.lateness_s.min)} to ${seconds(status.lateness_s.max)} since the start; ` +
                        `a tick is ${seconds(status.tick_s)}`);
    tiles.delay.note(`${seconds(status.loop_delay_s.max)} at most; ${count(status.stalls)} stalls`);
    if (this.#before !== null) {
      const before = this.#before;
      const edges = "pulsewheel_edges_total";
      tiles.edges.add(at, [now.rate(before, edges, { kind: "online" }), now.rate(before, edges, { kind: "offline" })]);
      tiles.packets.add(at, [now.rate(before, "pulsewheel_packets_total")]);
      const none = [null, null];
      // Between the bounds of a bucket a quantile is a guess, but never above what there ever was.
      const quantiles = (name, max) =>
        now.quantiles(before, name, [0.99, 0.5])?.map((value) => Math.min(value, max)) ?? none;
      tiles.lateness.add(at, quantiles("pulsewheel_expiry_lateness_seconds", status.lateness_s.max));
      tiles.delay.add(at, quantiles("pulsewheel_loop_delay_seconds", status.loop_delay_s.max));
    }
    this.#before = now;
  }
}

/** What holds for a while and should be known when the page is read. */
function noticeOf(status) {
  const notices = [];
  if (status.phase === "draining") notices.push("This node is draining: its clients are being sent away.");
  if (status.restart_grace_s > 0) {
    notices.push("This node was restarted after a crash: users of whom nothing is known are \"unknown\" until " +
                 "the grace is over.");
  }
  if (status.redis.mode !== "off" && !status.redis.writing) {
    notices.push("The ring in Redis is not written at the moment. Presence is not affected.");
  }
  return notices.join(" ");
}

/** Asks for the token; resolves when somebody has typed one. */
function askForToken(wrong) {
  const dialog = byId("token");
  const input = byId("token-value");
  setText(byId("token-error"), wrong ? "This is not the token of this daemon." : "");
  input.value = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    dialog.querySelector("form").onsubmit = () => resolve(input.value.trim());
    // Closed by Escape, it would leave a page that can do nothing.
    dialog.onclose = () => {
      if (input.value.trim() === "") dialog.showModal();
    };
  });
}

function main() {
  onTokenWanted(askForToken);
  const wheel = new Wheel();
  const node = new Node(wheel);
  const lookup = new Lookup({ onPlace: (place) => wheel.mark(place) });
  let flashes = 0;
  const edges = new Edges({
    onUser: (uid) => {
      lookup.open(uid);
      byId("lookup-title").scrollIntoView({ block: "nearest" });
      byId("lookup-uid").focus({ preventScroll: true });
    },
    onEdge: (edge) => {
      if (edge.reason === "timeout" && ++flashes <= FLASHES_MAX) wheel.flash();
    },
  });

  every(NODE_MS, () => node.look());
  every(WHEEL_MS, async () => {
    flashes = 0;
    const sentAt = performance.now();
    try {
      wheel.show(await getJson("/v1/wheel"), sentAt, performance.now());
    } catch {
      // The look at the node says what is wrong.
    }
  });
  edges.start();

  byId("pause").addEventListener("click", (event) => {
    paused = !paused;
    event.target.setAttribute("aria-pressed", String(paused));
    for (const part of [wheel, lookup, edges]) part.pause(paused);
  });
  byId("forget").addEventListener("click", () => {
    forgetToken();
    location.reload();
  });
}

main();
