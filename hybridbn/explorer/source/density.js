// Curves of densities: from points, or from nine quantiles where there is no more.

export const LEVELS = [0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98];

/** Less is not drawn as a curve beside stems. */
const LEAST = 0.005;

/** The values with a probability of their own, as [value, probability]. */
export const stemsOf = (belief) => belief?.stems ?? [];

const sumOf = (stems) => stems.reduce((sum, [, p]) => sum + p, 0);

/** The points of a belief's density beside its stems; null where it has none. */
export function curveOf(belief) {
  if (belief?.x?.length > 1) return { x: belief.x, y: belief.y };
  if (!belief?.q || !(belief.sd > 0) || sumOf(stemsOf(belief)) > 1 - LEAST) return null;
  belief.curve ??= interpolate(belief.q, stemsOf(belief));
  return belief.curve;
}

/** The derivative of a monotone cubic interpolation of the cumulative distribution (Fritsch and Butland 1984). */
function interpolate(quantiles, stems) {
  const isStem = (x) => stems.some(([value]) => Math.abs(value - x) <= 1e-9 * Math.abs(value));
  // the level of a quantile without the stems up to it; at a stem it is not known
  const inner = quantiles
    .map((x, i) => [x, LEVELS[i] - sumOf(stems.filter(([value]) => value <= x))])
    .filter(([x, level], i, all) => !isStem(x) && level > 0 && (i === 0 || x > all[i - 1][0]));
  const beyond = (x, next) => x + 1.5 * (x - next);
  const middle = inner[0]?.[0] ?? quantiles[4];
  const first = isStem(quantiles[0]) ? quantiles[0] : beyond(quantiles[0], inner[1]?.[0] ?? middle);
  const last = isStem(quantiles[8]) ? quantiles[8] : beyond(quantiles[8], inner.at(-2)?.[0] ?? middle);
  if (!(last > first)) return null;
  const knots = [first];
  const heights = [0];
  [...inner, [last, 1 - sumOf(stems)]].forEach(([x, level]) => {
    if (x > knots.at(-1) && level > heights.at(-1)) {
      knots.push(x);
      heights.push(level);
    }
  });
  const steps = knots.slice(1).map((x, i) => x - knots[i]);
  const slopes = steps.map((step, i) => (heights[i + 1] - heights[i]) / step);
  const tangents = knots.map((_, i) => {
    if (i === 0 || i === knots.length - 1) return 0;
    const [a, b] = [slopes[i - 1], slopes[i]];
    return a > 0 && b > 0 ? (3 * (steps[i - 1] + steps[i])) / ((2 * steps[i] + steps[i - 1]) / a + (steps[i] + 2 * steps[i - 1]) / b) : 0;
  });
  const x = [];
  const y = [];
  steps.forEach((step, i) => {
    for (let part = 0; part < 8; part += 1) {
      const t = part / 8;
      x.push(knots[i] + t * step);
      y.push(Math.max(0, 6 * t * (1 - t) * slopes[i] + (1 - 4 * t + 3 * t * t) * tangents[i] + (3 * t * t - 2 * t) * tangents[i + 1]));
    }
  });
  return { x: [...x, last], y: [...y, 0] };
}

/** A height for the picture of a curve: that of its peak, or less where that is a needle, so that the rest can be seen. */
export function heightOf(curve) {
  if (!curve) return 0;
  const { x, y } = curve;
  const parts = y.slice(1).map((value, i) => [Math.max(value, y[i]), x[i + 1] - x[i]]);
  parts.sort((a, b) => b[0] - a[0]);
  let room = 0.03 * (x.at(-1) - x[0]);
  const level = parts.find(([, width]) => (room -= width) < 0);
  return Math.min(parts[0]?.[0] ?? 0, level && level[0] > 0 ? 1.6 * level[0] : Infinity);
}

/** The length of the intervals whose probabilities a curve shows beside stems: a step, or a part of the range. */
export const widthOf = ([low, high], step) => (high - low < 100 * step ? step : (high - low) / 6);

/** The range of values that a picture of a node shows: that of the prior, wider where the belief or a finding is. */
export function rangeOf(prior, belief, finding, domain, step = 0) {
  const ends = [];
  for (const each of [prior, belief]) {
    const curve = curveOf(each);
    const stems = stemsOf(each).map(([value]) => value);
    if (curve) ends.push(curve.x[0], curve.x.at(-1), ...stems);
    else if (stems.length) ends.push(Math.min(...stems) - 0.6 * step, Math.max(...stems) + 0.6 * step);
    else if (each && Number.isFinite(each.mean)) ends.push(each.mean);
  }
  if (finding) {
    const [mean, deviation] = finding.about ?? [];
    const said = [finding.value, ...(finding.between ?? []), mean - 3 * deviation, mean + 3 * deviation];
    ends.push(...said.filter((end) => typeof end === "number" && Number.isFinite(end)));
  }
  let low = Math.min(...ends);
  let high = Math.max(...ends);
  if (!Number.isFinite(low)) [low, high] = [0, 1];
  if (domain?.[0] != null) low = Math.max(low, Math.min(domain[0], high));
  if (domain?.[1] != null) high = Math.min(high, Math.max(domain[1], low));
  if (!(high > low)) {
    const room = Math.abs(low) * 0.05 || 0.5;
    return [low - room, high + room];
  }
  return [low, high];
}

/** A value to about three digits of a range, so that a click gives a number that can be read. */
export function roundTo(value, [low, high]) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 100));
  const rounded = Math.round(value / step) * step;
  return Number(rounded.toFixed(Math.max(0, Math.min(15, -Math.floor(Math.log10(step))))));
}
