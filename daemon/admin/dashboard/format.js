// Numbers, durations and times for people.

const integer = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fraction = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit",
                                                 fractionalSecondDigits: 3 });

export const count = (n) => integer.format(n);

/** A rate: small ones with a digit behind the point. */
export const rate = (n) => (n < 10 ? fraction : integer).format(n);

/** A measured duration in seconds, with three digits that count. */
export function seconds(s) {
  if (!Number.isFinite(s)) return "–";
  const size = Math.abs(s);
  if (size === 0) return "0 s";
  if (size < 1e-3) return `${Number((s * 1e6).toPrecision(3))} µs`;
  if (size < 1) return `${Number((s * 1e3).toPrecision(3))} ms`;
  return `${Number(s.toPrecision(size < 10 ? 4 : 3))} s`;
}

/** A span that somebody waits for or looks back on: the two units that matter. */
export function span(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** The time of day, in this browser's zone. */
export const timeOfDay = (date) => clock.format(date);
