// Answers to findings that leave several values possible, as mixtures of the answers to each of these values.

import { curveOf, LEVELS, stemsOf } from "./density.js";

const MOST_PARTS = 2000;
const POINTS = 160;
const ROUGH = "given an interval of a number, this page's answers are approximate: they are made of those to the values in it; hybridbn explore computes them";

/** The values that a finding leaves possible, each with the logarithm of its weight; null where that is not known. */
export function listOptions({ nodes, prior, offers }, finding, logEvidenceOf) {
  const { node, states, weights, between } = finding;
  if (finding.set || finding.about) return null;
  if (nodes[node].states) {
    const likelihood = weights ?? nodes[node].states.map((_, i) => Number(states ? states.includes(i) : i === finding.state));
    // states of probability zero have no answers
    const possible = likelihood.map((weight, state) => [weight * (prior[node]?.p[state] ?? 1), state]).filter(([weight]) => weight > 0);
    return possible.map(([, state]) => ({ finding: { node, state }, offset: Math.log(likelihood[state]) }));
  }
  if (!between) return [{ finding, offset: 0 }];
  const values = offers.values?.[node];
  if (!values || !prior[node]) return null;
  const [low, high] = [between[0] ?? -Infinity, between[1] ?? Infinity];
  const inside = values.filter(({ value }) => value >= low && value <= high);
  if (!inside.length) return null;
  const masses = weighQuantiles(prior[node], values);
  // a value with a probability stands for itself, a quantile for its neighborhood
  return inside.map((each) => {
    const mass = masses.get(each.value);
    return { finding: each, offset: mass === undefined ? 0 : Math.log(mass) - logEvidenceOf(each) };
  });
}

/** How much of what is beside the stems each of some values stands for: the quantiles that are nearest to it. */
function weighQuantiles(belief, values) {
  const stems = stemsOf(belief);
  const masses = new Map();
  if (values.length === stems.length && !curveOf(belief)) return masses;
  const own = curveOf(belief) ? stems : [];
  const rest = 1 - own.reduce((sum, [, p]) => sum + p, 0);
  const levels = belief.q.map((q, i) => (LEVELS[i] - own.reduce((sum, [value, p]) => (value <= q ? sum + p : sum), 0)) / rest);
  const free = values.map(({ value }) => value).filter((value) => !own.some(([stem]) => stem === value));
  const inner = belief.q.map((q, i) => [q, levels[i]]).filter(([q, level]) => level > 0 && level < 1 && !own.some(([stem]) => stem === q));
  inner.forEach(([q, level], i) => {
    const from = i ? (inner[i - 1][1] + level) / 2 : 0;
    const upto = i < inner.length - 1 ? (level + inner[i + 1][1]) / 2 : 1;
    const nearest = free.reduce((a, b) => (Math.abs(b - q) < Math.abs(a - q) ? b : a));
    masses.set(nearest, (masses.get(nearest) ?? 0) + rest * Math.max(upto - from, 1e-12));
  });
  return masses;
}

/** All combinations of the options of findings; null where there are none or too many. */
export function expand(findings, optionsOf) {
  let parts = [{ findings: [], offset: 0 }];
  for (const finding of findings) {
    const options = optionsOf(finding);
    if (!options || options.length * parts.length > MOST_PARTS) return null;
    parts = parts.flatMap((part) =>
      options.map((option) => ({ findings: [...part.findings, option.finding], offset: part.offset + option.offset })),
    );
  }
  return parts;
}

/** The answer to findings from the answers to the parts that they are made of. */
export function mix({ nodes, prior }, findings, parts, answer) {
  const answers = parts.map(answer);
  const logs = answers.map((each, i) => (each.beliefs ? each.log_evidence + parts[i].offset : -Infinity));
  const most = Math.max(...logs);
  if (most === -Infinity) return { error: "these findings contradict each other", impossible: true };
  const total = logs.reduce((sum, log) => sum + Math.exp(log - most), 0);
  const weighted = answers.map((each, i) => [Math.exp(logs[i] - most) / total, each.beliefs, parts[i].findings]).filter(([w]) => w > 0);
  const beliefs = nodes.map((node, i) => {
    const known = (list) => list.find((finding) => finding.node === i);
    const each = weighted.map(([w, list, held]) => [w, list[i] ?? certain(node, known(held))]);
    if (each.some(([, belief]) => !belief)) return null;
    if (node.states) return { p: node.states.map((_, state) => each.reduce((sum, [w, { p }]) => sum + w * p[state], 0)) };
    return mixNumbers(each, known(findings)?.between, prior[i]);
  });
  const countValues = (node) => new Set(parts.map((part) => part.findings.find((finding) => finding.node === node).value)).size;
  const isRough = findings.some(
    ({ node, between }) => between && (curveOf(prior[node]) || stemsWithin(prior[node], between).length > countValues(node)),
  );
  return { beliefs, log_evidence: most + Math.log(total), notes: isRough ? [ROUGH] : [] };
}

const stemsWithin = (belief, [low, high]) => stemsOf(belief).filter(([value]) => value >= (low ?? value) && value <= (high ?? value));

const certain = (node, finding) =>
  finding && (node.states ? { p: node.states.map((_, i) => Number(i === finding.state)) } : { mean: finding.value, sd: 0, stems: [[finding.value, 1]] });

function mixNumbers(each, between, prior) {
  const mean = each.reduce((sum, [w, belief]) => sum + w * belief.mean, 0);
  const variance = each.reduce((sum, [w, belief]) => sum + w * (belief.sd ** 2 + (belief.mean - mean) ** 2), 0);
  const stems = new Map();
  each.forEach(([w, belief]) => stemsOf(belief).forEach(([value, p]) => stems.set(value, (stems.get(value) ?? 0) + w * p)));
  const curves = each.map(([w, belief]) => [w, curveOf(belief)]).filter(([, curve]) => curve);
  const result = { mean, sd: Math.sqrt(variance), stems: [...stems].sort((a, b) => a[0] - b[0]) };
  const own = curveOf(prior);
  // within an interval only quantiles are known: what is between them has the form that it had before
  if (between && own) return { ...result, ...clip(own, between, stemsOf(prior), stems) };
  if (between) {
    const inside = stemsWithin(prior, between);
    const sum = inside.reduce((all, [, p]) => all + p, 0);
    if (inside.length > stems.size) return { ...result, stems: inside.map(([value, p]) => [value, p / sum]) };
  }
  if (!curves.length) return result;
  const low = Math.min(...curves.map(([, { x }]) => x[0]));
  const high = Math.max(...curves.map(([, { x }]) => x.at(-1)));
  const x = Array.from({ length: POINTS }, (_, i) => low + ((high - low) * i) / (POINTS - 1));
  return { ...result, x, y: x.map((at) => curves.reduce((sum, [w, curve]) => sum + w * heightAt(curve, at), 0)) };
}

function clip({ x, y }, [low, high], own, mixed) {
  const at = [low, ...x.filter((each) => each > (low ?? -Infinity) && each < (high ?? Infinity)), high].filter((each) => each !== null);
  const heights = at.map((each) => heightAt({ x, y }, each));
  const area = at.slice(1).reduce((sum, each, i) => sum + ((each - at[i]) * (heights[i] + heights[i + 1])) / 2, 0);
  const listed = new Set(own.map(([value]) => value));
  const stems = [...mixed].filter(([value]) => listed.has(value));
  const rest = 1 - stems.reduce((sum, [, p]) => sum + p, 0);
  return { stems, x: at, y: heights.map((height) => (rest * height) / (area || 1)) };
}

function heightAt({ x, y }, at) {
  const i = x.findIndex((each) => each >= at);
  if (i < 0 || (i === 0 && at < x[0])) return 0;
  return i === 0 || x[i] === x[i - 1] ? y[i] : y[i - 1] + ((y[i] - y[i - 1]) * (at - x[i - 1])) / (x[i] - x[i - 1]);
}
