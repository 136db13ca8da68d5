// A tile: one number, and how it came to it in the last minutes.

import { html, setText, svg } from "./dom.js";
import { span } from "./format.js";

const KEEP_MS = 5 * 60 * 1000;
const BREAK_MS = 10_000;     // a page that was away for longer does not know what was in between
const SHOW_MIN_MS = 60_000;  // a young page does not stretch seconds over the whole chart
const [WIDTH, HEIGHT] = [240, 56];

export class Tile {
  #points = [];  // {at, values}; a null among the values: not known, or nothing happened
  #format;
  #names;
  #value = html("p", { class: "value" }, "…");
  #note = html("p", { class: "quiet note" });
  #chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
  #top = html("span", { class: "top-label quiet" });
  #paths;

  /**
   * `title` of the tile; `names` of its lines, the first of which is the number that is shown;
   * `format` turns a value into text.
   */
  constructor(title, names, format) {
    this.#format = format;
    this.#names = names;
    this.title = title;
    this.#paths = names.map((_, i) => svg("path", { class: `line line-${i}` }));
    this.area = svg("path", { class: "area" });
    this.#chart.append(this.area, ...this.#paths);
    const legend = names.length < 2 ? [] : names.map((name, i) =>
      html("span", { class: `key key-${i}` }, name));
    this.element = html("article", { class: "card tile" },
      html("h3", {}, title, html("span", { class: "legend" }, ...legend)),
      this.#value,
      html("div", { class: "chart" }, this.#chart, this.#top),
      this.#note);
  }

  /** One more value for each line, at `at` ms. */
  add(at, values) {
    const last = this.#points.at(-1);
    if (last && at - last.at > BREAK_MS) this.#points.push({ at: last.at, values: values.map(() => null) });
    this.#points.push({ at, values });
    while (this.#points[0].at < at - KEEP_MS) this.#points.shift();
    this.#draw(at);
  }

  /** A remark below the chart. */
  note(text) {
    setText(this.#note, text);
  }

  #draw(now) {
    const known = this.#points.flatMap(({ values }) => values.filter((value) => value !== null));
    const top = Math.max(...known, Number.MIN_VALUE);
    const scale = top * 1.08;
    const shown = Math.max(SHOW_MIN_MS, now - this.#points[0].at);
    const x = (at) => (WIDTH * (1 - (now - at) / shown)).toFixed(1);
    const y = (value) => (HEIGHT - 2 - (HEIGHT - 4) * (value / scale)).toFixed(1);
    for (const [i, path] of this.#paths.entries()) path.setAttribute("d", line(this.#points, i, x, y));
    this.area.setAttribute("d", area(this.#points, x, y));

    const last = this.#points.findLast(({ values }) => values[0] !== null)?.values[0] ?? null;
    const text = last === null ? "–" : this.#format(last);
    setText(this.#value, text);
    setText(this.#top, known.length > 0 && top > Number.MIN_VALUE ? this.#format(top) : "");
    const age = span(now - this.#points[0].at);
    this.#chart.setAttribute("aria-label", known.length === 0 ? `${this.title}: nothing in the last ${age}` :
      `${this.title}, ${this.#names[0]}: now ${text}; between ${this.#format(Math.min(...known))} and ` +
      `${this.#format(top)} in the last ${age}`);
  }
}

/** A path through the points of line `i`, with holes where it is not known. */
function line(points, i, x, y) {
  let path = "";
  let pen = "M";
  for (const { at, values } of points) {
    if (values[i] === null) {
      pen = "M";
      continue;
    }
    path += `${pen}${x(at)} ${y(values[i])}`;
    pen = "L";
  }
  return path;
}

/** The area below the first line, as far as it is known without a hole. */
function area(points, x, y) {
  const hole = points.findLastIndex(({ values }) => values[0] === null);
  const known = points.slice(hole + 1);
  if (known.length < 2) return "";
  const outline = known.map(({ at, values }) => `L${x(at)} ${y(values[0])}`).join("");
  return `M${x(known[0].at)} ${HEIGHT}${outline}L${x(known.at(-1).at)} ${HEIGHT}Z`;
}
