// Numbers, dates and probabilities as texts.

const DAY = 86400000;

export function percent(p) {
  if (Number.isNaN(p)) return "–";
  if (p === 0) return "0 %";
  if (p === 1) return "100 %";
  if (p < 0.0005) return "<0.1 %";
  if (p > 0.9995) return ">99.9 %";
  return `${(100 * p).toFixed(1)} %`;
}

export function probability(p) {
  if (Number.isNaN(p)) return "–";
  if (p === 0 || p === 1) return String(p);
  return p < 0.0001 ? p.toExponential(2) : p.toFixed(p > 0.9999 ? 7 : 4);
}

/** A number with so many significant digits and no needless zeros. */
export function short(value, digits = 4) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(digits - 2).replace("-", "−");
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const text = value.toFixed(Math.min(decimals, 12));
  return (text.includes(".") ? text.replace(/\.?0+$/, "") : text).replace("-", "−");
}

/** A mean with its standard deviation, both to two digits of the latter. */
export function meanText(node, mean, deviation) {
  if (node.unit === "date" || node.unit === "datetime" || node.unit === "time" || !(deviation > 0)) {
    return valueText(node, mean);
  }
  const decimals = 1 - Math.floor(Math.log10(deviation));
  if (decimals > 6 || decimals < -5) return `${short(mean, 4)} ± ${short(deviation, 2)}`;
  const unit = 10 ** Math.min(decimals, 0);
  const round = (value) => (decimals < 0 ? Math.round(value * unit) / unit : value).toFixed(Math.max(decimals, 0)).replace("-", "−");
  return `${round(mean)} ± ${round(deviation)}`;
}

/** A value of a node: a number, or what it counts in days. */
export function valueText(node, value, digits = 4) {
  if (Number.isInteger(value) && Number.isInteger(stepOf(node)) && stepOf(node)) return String(value).replace("-", "−");
  if (!Number.isFinite(value) || !node.unit) return short(value, digits);
  if (node.unit === "date") return isoDate(value).slice(0, 10);
  if (node.unit === "datetime") return isoDate(value).slice(0, 16).replace("T", " ");
  if (node.unit === "time") {
    const minutes = Math.round(value * 1440);
    return `${String(Math.floor(minutes / 60)).padStart(2, "0")}:${String(minutes % 60).padStart(2, "0")}`;
  }
  return `${short(value, digits)} d`;
}

/** How far values lie apart, in days where they are dates. */
export const spanText = (node, value) => short(value, 3) + (node.unit && node.unit !== "time" ? " d" : "");

function isoDate(days) {
  const date = new Date(Math.round(days * 1440) * (DAY / 1440));
  return Number.isNaN(date.getTime()) ? short(days) : date.toISOString();
}

/** The number that a user typed: a number, or a date where the node counts days; NaN where it is none. */
export function parseValue(node, text) {
  const trimmed = text.trim().replace("−", "-");
  if (!trimmed) return NaN;
  if (node.unit === "date" || node.unit === "datetime") {
    const time = /^\d{4}-\d\d-\d\d/.test(trimmed)
      ? Date.parse(`${trimmed.replace(" ", "T")}${trimmed.length > 10 ? "Z" : ""}`)
      : NaN;
    if (Number.isFinite(time)) return time / DAY;
  }
  if (node.unit === "time" && /^\d\d?:\d\d$/.test(trimmed)) {
    const [hours, minutes] = trimmed.split(":").map(Number);
    return (60 * hours + minutes) / 1440;
  }
  return Number(trimmed.replace(/\s*d$/, "").replace(",", "."));
}

/** What the values of a node are multiples of; 0 where they may be any. */
export const stepOf = (node) => node.grid?.[0] || Number(Boolean(node.points?.every(Number.isInteger)));

/** The nearest value that a node can have to a number that was pointed at, which is not exact by `slack`. */
export function snap(node, value, points, slack) {
  const near = [...points].sort((a, b) => Math.abs(a - value) - Math.abs(b - value))[0];
  if (near !== undefined && (node.points || Math.abs(near - value) <= slack)) return near;
  if (node.unit === "date") return Math.round(value);
  const [step, low, high] = node.grid ?? [0, null, null];
  const held = Math.min(Math.max(value, low ?? -Infinity), high ?? Infinity);
  return step ? Number((Math.round(held / step) * step).toPrecision(12)) : held;
}

/** Whether a node can have a value. */
export function fits(node, value) {
  if (node.points) return node.points.some((point) => Math.abs(point - value) <= 1e-9 * Math.abs(point));
  return Math.abs(snap(node, value, [], 0) - value) <= 1e-6 * (node.grid?.[0] || Math.abs(value)) || node.unit === "date";
}

/** Which values a node can have, in words. */
export function rangeText(node) {
  if (node.points) return `its values are ${node.points.map((value) => valueText(node, value)).join(", ")}`;
  const [step, low, high] = node.grid ?? [0, null, null];
  const ends = [low === null ? "" : ` from ${valueText(node, low)}`, high === null ? "" : ` to ${valueText(node, high)}`];
  return `its values are ${step === 1 ? "whole numbers" : step ? `multiples of ${short(step)}` : "numbers"}${ends.join("")}`;
}

/** Beginnings of months or years between two dates, at most `most`, with their texts; null where these are too near. */
export function dateTicks(low, high, most) {
  if ((high - low) / most < 15) return null;
  const first = new Date(low * DAY);
  const start = 12 * first.getUTCFullYear() + first.getUTCMonth();
  const span = (high - low) / 30.4;
  const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12000, 60000].find((each) => span / each <= most) ?? 120000;
  const result = [];
  for (let month = Math.ceil(start / months) * months; ; month += months) {
    const day = Date.UTC(Math.floor(month / 12), month % 12) / DAY;
    if (!(day <= high)) return result;
    if (day >= low) result.push([day, isoDate(day).slice(0, months % 12 ? 7 : 4)]);
  }
}

/** About `count` round numbers between two, no nearer to each other than `least`. */
export function ticks(low, high, count, least = 0) {
  const rough = Math.max((high - low) / count, least);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999) ?? rough;
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) result.push(i * step + 0);
  return result;
}
