// What the charts need out of /metrics: rates of counters and quantiles of histograms between two
// looks.

const SERIES = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? (\S+)$/i;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/gi;

function parseValue(text) {
  return text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text);
}

/** One look at all metrics. */
export class Metrics {
  #series = new Map();  // name -> [{labels, value}]

  /** `text` is in Prometheus' text format; `at` is when it was asked for, in ms. */
  constructor(text, at) {
    this.at = at;
    for (const line of text.split("\n")) {
      const match = line.startsWith("#") ? null : SERIES.exec(line);
      if (match === null) continue;
      const [, name, inner, value] = match;
      const labels = {};
      for (const [, label, of] of (inner ?? "").matchAll(LABEL)) labels[label] = of;
      if (!this.#series.has(name)) this.#series.set(name, []);
      this.#series.get(name).push({ labels, value: parseValue(value) });
    }
  }

  has(name) {
    return this.#series.has(name);
  }

  /** The sum over all series of `name` whose labels have these values. */
  sum(name, wanted = {}) {
    let total = 0;
    for (const { labels, value } of this.#series.get(name) ?? []) {
      if (Object.entries(wanted).every(([label, of]) => labels[label] === of)) total += value;
    }
    return total;
  }

  /** Increase per second since `before`; null when the counter was reset in between. */
  rate(before, name, wanted = {}) {
    const increase = this.sum(name, wanted) - before.sum(name, wanted);
    return increase < 0 ? null : increase / ((this.at - before.at) / 1000);
  }

  /**
   * Quantiles (0 to 1) of what a histogram observed since `before`, interpolated inside its
   * buckets; null when it observed nothing.
   */
  quantiles(before, name, wanted) {
    const buckets = this.#buckets(name);
    const old = before.#buckets(name);
    const counts = buckets.map(({ count }, i) => count - (old[i]?.count ?? 0));
    const total = counts.at(-1) ?? 0;
    if (!(total > 0)) return null;
    return wanted.map((quantile) => {
      const rank = quantile * total;
      const i = counts.findIndex((count) => count >= rank);
      const low = i > 0 ? buckets[i - 1].bound : 0;
      if (!Number.isFinite(buckets[i].bound)) return low;
      const below = i > 0 ? counts[i - 1] : 0;
      return low + (buckets[i].bound - low) * ((rank - below) / Math.max(counts[i] - below, 1e-9));
    });
  }

  #buckets(name) {
    return (this.#series.get(`${name}_bucket`) ?? [])
      .map(({ labels, value }) => ({ bound: parseValue(labels.le), count: value }))
      .sort((a, b) => a.bound - b.bound);
  }
}
