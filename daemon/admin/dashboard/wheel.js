// The picture of the wheel. The hand stands at the top and the wheel turns under it, as fast as the
// daemon's own: so the angle of a slot, clockwise, is the time until what lies in it is due.

import { byId, html, setText, svg } from "./dom.js";
import { count, span } from "./format.js";

const SLOTS = 30;
const DEGREES = 360 / SLOTS;
// In units of the picture, which reaches from -204 to 204.
const INNER = 86;    // radius where the bars begin
const BAR_MAX = 62;  // their length when the slot is the fullest one
const BAR_WIDTH = 12;
const OUTER = INNER + BAR_MAX;
const LABELS = OUTER + 9;
// A picture that turns faster than this makes dizzy, and shows nothing: it moves in steps.
const LAP_MIN_MS = 6000;
const DRIFT_SLOTS = 0.12;

const still = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * What time it is on the daemon, in ticks, between looks. Each look says that while it was under way
 * the daemon's clock was inside one tick; where all looks agree, to within a few ms, is the truth.
 */
class TickClock {
  #low = -Infinity;  // bounds of (daemon's time - ours) in ms
  #high = Infinity;
  #tickMs = 1000;

  look(tick, tickMs, sentAt, receivedAt) {
    const low = tick * tickMs - receivedAt;
    const high = (tick + 1) * tickMs - sentAt;
    // Clocks drift apart by a little, and a daemon that starts again counts from elsewhere.
    const slack = 2;
    this.#low = Math.max(this.#low - slack, low);
    this.#high = Math.min(this.#high + slack, high);
    if (this.#low > this.#high || tickMs !== this.#tickMs) [this.#low, this.#high] = [low, high];
    this.#tickMs = tickMs;
  }

  /** In ticks, with a fraction. */
  now() {
    return (performance.now() + (this.#low + this.#high) / 2) / this.#tickMs;
  }
}

export class Wheel {
  #disc = byId("wheel-disc");
  #bars = [];
  #mark = svg("circle", { class: "mark", r: 5 });
  #labels = [];
  #clock = new TickClock();
  #report = null;
  #level = 0;
  #user = null;  // {level, slot}
  #turning = null;  // the animation, with where it should be
  #paused = false;

  constructor() {
    for (let slot = 0; slot < SLOTS; ++slot) {
      const bar = svg("rect", { class: "bar", x: -BAR_WIDTH / 2, width: BAR_WIDTH, rx: 4 });
      bar.style.y = `${-INNER}px`;
      bar.style.height = "0px";
      this.#bars.push(bar);
      this.#disc.append(svg("g", { transform: `rotate(${slot * DEGREES})` },
        svg("rect", { class: "track", x: -BAR_WIDTH / 2, y: -OUTER, width: BAR_WIDTH,
                      height: BAR_MAX, rx: 4 }),
        bar,
        svg("text", { class: "slot", y: -INNER + 13 }, String(slot))));
    }
    this.#disc.append(this.#mark);
    this.#mark.style.display = "none";
    this.#drawFace();
    still.addEventListener("change", () => this.#turn());
    byId("wheel-numbers").addEventListener("toggle", () => this.#writeNumbers());
  }

  /** `report` is /v1/wheel; the times are performance.now() around the request. */
  show(report, sentAt, receivedAt) {
    this.#report = report;
    const tick = Math.max(...report.shards.map((shard) => shard.clock_tick));
    this.#clock.look(tick, report.tick_s * 1000, sentAt, receivedAt);
    this.#offerLevels(report.levels);
    this.#draw();
  }

  /** The newest counts of users, for the middle. */
  showUsers({ online, lingering }) {
    setText(byId("hub-online"), count(online));
    setText(byId("hub-lingering"), lingering > 0 ? `${count(lingering)} lingering` : "");
  }

  /** Marks where a deadline waits ({level, slot}), or nothing (null). */
  mark(place) {
    this.#user = place;
    if (this.#report) this.#draw();
  }

  /** A user's time was over: a ring goes out from the hand. */
  flash() {
    if (still.matches || this.#paused || document.hidden) return;
    const ring = svg("circle", { class: "flash", cy: -INNER, r: 6 });
    byId("wheel-face").append(ring);
    const animation = ring.animate([{ transform: "scale(1)", opacity: 0.9 }, { transform: "scale(6)", opacity: 0 }],
                                   { duration: 900, easing: "ease-out" });
    animation.onfinish = () => ring.remove();
  }

  pause(paused) {
    this.#paused = paused;
    if (this.#report) this.#turn();
  }

  get #slotMs() {
    return this.#report.tick_s * 1000 * this.#report.levels[this.#level].ticks_per_slot;
  }

  /** Where the hand is on this level, in slots, with a fraction. */
  get #hand() {
    const slots = this.#clock.now() / this.#report.levels[this.#level].ticks_per_slot;
    return slots % SLOTS;
  }

  #drawFace() {
    const face = byId("wheel-face");
    const wedge = (DEGREES / 2) * (Math.PI / 180);
    const radius = OUTER + 6;
    const [x, y] = [Math.sin(wedge) * radius, -Math.cos(wedge) * radius];
    face.append(svg("path", { class: "beam", d: `M0 0L${-x} ${y}A${radius} ${radius} 0 0 1 ${x} ${y}Z` }),
                svg("circle", { class: "rim", r: INNER - 17 }),
                svg("path", { class: "hand", d: `M0 ${-OUTER - 3}l-7 -13h14z` }));
    const places = [[0, -LABELS - 14, "middle"], [LABELS, 4, "start"], [0, LABELS + 14, "middle"],
                    [-LABELS, 4, "end"]];
    for (const [atX, atY, anchor] of places) {
      const label = svg("text", { class: "due", x: atX, y: atY, "text-anchor": anchor });
      this.#labels.push(label);
      face.append(label);
    }
  }

  #offerLevels(levels) {
    const field = byId("wheel-levels");
    if (field.querySelectorAll("input").length !== levels.length) {
      field.querySelectorAll("label").forEach((label) => label.remove());
      for (const index of levels.keys()) {
        const input = html("input", { type: "radio", name: "level", value: index });
        input.checked = index === this.#level;
        input.addEventListener("change", () => {
          this.#level = index;
          this.#turning = null;
          this.#draw();
        });
        field.append(html("label", {}, input, html("span")));
      }
    }
    for (const [i, label] of field.querySelectorAll("label").entries()) {
      const { ticks_per_slot: ticks } = levels[i];
      setText(label.lastChild, `30 × ${slotSpan(ticks * this.#report.tick_s)}`);
    }
  }

  #draw() {
    const { slots } = this.#report.levels[this.#level];
    const top = Math.max(...slots, 1);
    const hand = this.#hand;
    for (const [slot, bar] of this.#bars.entries()) {
      const length = slots[slot] === 0 ? 0 : Math.max(3, (slots[slot] / top) * BAR_MAX);
      bar.style.height = `${length}px`;
      bar.style.y = `${-INNER - length}px`;
      bar.style.setProperty("--due", `${(100 * ((slot - hand + SLOTS) % SLOTS)) / SLOTS}%`);
    }
    for (const [i, label] of this.#labels.entries()) {
      setText(label, i === 0 ? "now" : `+${slotSpan((i * this.#slotMs * SLOTS) / 4000)}`);
    }
    this.#drawMark();
    this.#write(slots);
    this.#turn();
  }

  #drawMark() {
    const shown = this.#user !== null && this.#user.level === this.#level;
    this.#mark.style.display = shown ? "" : "none";
    if (!shown) return;
    const angle = this.#user.slot * DEGREES * (Math.PI / 180);
    this.#mark.setAttribute("cx", Math.sin(angle) * (OUTER + 6));
    this.#mark.setAttribute("cy", -Math.cos(angle) * (OUTER + 6));
  }

  #write(slots) {
    const total = slots.reduce((sum, n) => sum + n, 0);
    const elsewhere = this.#report.levels.reduce(
      (sum, level, i) => sum + (i === this.#level ? 0 : level.slots.reduce((a, n) => a + n, 0)), 0);
    setText(byId("wheel-text"),
            `${count(total)} deadlines in 30 slots of ${slotSpan(this.#slotMs / 1000)}` +
            `, at most ${count(Math.max(...slots))} in one; ${count(elsewhere)} on the other levels. ` +
            "A packet moves its user's deadline; the wheel looks again when the slot comes round.");
    this.#writeNumbers();
  }

  #writeNumbers() {
    const details = byId("wheel-numbers");
    if (!details.open || !this.#report) return;
    const { slots } = this.#report.levels[this.#level];
    const hand = Math.floor(this.#hand);
    const rows = slots.map((_, ahead) => {
      const slot = (hand + ahead) % SLOTS;
      return html("tr", {}, html("td", {}, slotSpan((ahead * this.#slotMs) / 1000)),
                  html("td", {}, String(slot)), html("td", {}, count(slots[slot])));
    });
    details.querySelector("tbody").replaceChildren(...rows);
  }

  /** Turns the disc on, at the daemon's speed, from where the daemon's wheel is. */
  #turn() {
    if (!this.#report) return;
    const lapMs = this.#slotMs * SLOTS;
    const hand = this.#hand;
    if (still.matches || this.#paused || lapMs < LAP_MIN_MS) {
      this.#turning?.animation.cancel();
      this.#turning = null;
      this.#disc.style.transform = `rotate(${-Math.floor(hand) * DEGREES}deg)`;
      return;
    }
    if (this.#turning && this.#turning.lapMs === lapMs) {
      const shown = this.#turning.from + ((performance.now() - this.#turning.at) / lapMs) * SLOTS;
      const drift = Math.abs(((shown - hand + SLOTS * 1.5) % SLOTS) - SLOTS / 2);
      if (drift < DRIFT_SLOTS) return;
    }
    this.#turning?.animation.cancel();
    const animation = this.#disc.animate(
      [{ transform: `rotate(${-hand * DEGREES}deg)` }, { transform: `rotate(${-hand * DEGREES - 360}deg)` }],
      { duration: lapMs, iterations: Infinity });
    this.#turning = { animation, lapMs, from: hand, at: performance.now() };
  }
}

/** How long a slot or some of them take: "1 s", "7.5 h". */
function slotSpan(s) {
  if (s < 1) return `${Number((s * 1000).toPrecision(3))} ms`;
  if (s < 60) return `${Number(s.toPrecision(3))} s`;
  if (s < 3600) return `${Number((s / 60).toPrecision(3))} min`;
  if (s < 86400) return `${Number((s / 3600).toPrecision(3))} h`;
  return span(s * 1000);
}
