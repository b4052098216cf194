// Cases: lists of findings, in the order in which they were made. A case is never changed, but replaced by another.

import { fits, percent, short, valueText } from "./format.js";

export const findingOf = (findings, node) => findings.find((finding) => finding.node === node);

export const without = (findings, node) => findings.filter((finding) => finding.node !== node);

export function withFinding(findings, finding) {
  const place = findings.findIndex((other) => other.node === finding.node);
  return place < 0 ? [...findings, finding] : findings.with(place, finding);
}

export const isHard = (finding) => finding !== undefined && ("state" in finding || "value" in finding);

/** The states that a finding leaves possible. */
export function possibleStates(finding, count) {
  if (!finding) return Array.from({ length: count }, (_, i) => i);
  if ("state" in finding) return [finding.state];
  if ("states" in finding) return finding.states;
  return finding.weights.flatMap((weight, i) => (weight > 0 ? [i] : []));
}

/** Set a state, or take it back where it is set. */
export function toggleState(findings, node, state, intervene) {
  const present = findingOf(findings, node);
  if (present?.state === state && Boolean(present.set) === intervene) return without(findings, node);
  return withFinding(findings, intervene ? { node, state, set: true } : { node, state });
}

/** Exclude a state, or allow it again where it is excluded. */
export function excludeState(findings, node, state, count) {
  const present = findingOf(findings, node);
  const possible = possibleStates(present?.set ? undefined : present, count);
  const left = possible.includes(state)
    ? possible.filter((other) => other !== state)
    : [...possible, state].sort((a, b) => a - b);
  if (!left.length) return findings;
  if (left.length === count) return without(findings, node);
  return withFinding(findings, left.length === 1 ? { node, state: left[0] } : { node, states: left });
}

/** What a finding says, in words. */
export function describe(finding, node) {
  const { name } = node;
  if (finding.set) {
    return `do(${name} = ${"state" in finding ? node.states[finding.state] : valueText(node, finding.value)})`;
  }
  if ("state" in finding) return `${name} = ${node.states[finding.state]}`;
  if ("states" in finding) {
    const rest = node.states.filter((_, i) => !finding.states.includes(i));
    return rest.length < finding.states.length
      ? `${name} ≠ ${rest.join(", ")}`
      : `${name} = ${finding.states.map((i) => node.states[i]).join(" or ")}`;
  }
  if ("weights" in finding) {
    const most = Math.max(...finding.weights);
    const parts = node.states.map((state, i) => [state, finding.weights[i] / most]);
    return `${name} ~ ${parts.filter(([, w]) => w > 0).map(([state, w]) => `${state} ${percent(w)}`).join(", ")}`;
  }
  if ("value" in finding) return `${name} = ${valueText(node, finding.value)}`;
  if ("about" in finding) {
    return `${name} ≈ ${valueText(node, finding.about[0])} ± ${short(finding.about[1], 3)}`;
  }
  const [low, high] = finding.between;
  if (low === null) return `${name} ≤ ${valueText(node, high)}`;
  if (high === null) return `${name} ≥ ${valueText(node, low)}`;
  return `${valueText(node, low)} ≤ ${name} ≤ ${valueText(node, high)}`;
}

// -- scenarios that leave the page: by names, since numbers change with the model

export function pack(findings, nodes) {
  return findings.map(({ node, ...rest }) => {
    const { name, states } = nodes[node];
    const labels = (list) => list.map((i) => states[i]);
    if ("state" in rest) return { name, ...rest, state: states[rest.state] };
    if ("states" in rest) return { name, ...rest, states: labels(rest.states) };
    if ("weights" in rest) return { name, ...rest, weights: states.map((state, i) => [state, rest.weights[i]]) };
    return { name, ...rest };
  });
}

/** The findings that a packed scenario says of these nodes; what they have not is counted in `lost`. */
export function unpack(packed, nodes) {
  const findings = [];
  let lost = 0;
  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  for (const item of Array.isArray(packed) ? packed : []) {
    const node = nodes.findIndex((other) => other.name === item?.name);
    const states = nodes[node]?.states;
    let finding = null;
    if (node >= 0 && !findingOf(findings, node)) {
      if (states && typeof item.state === "string" && states.includes(item.state)) {
        finding = { node, state: states.indexOf(item.state) };
      } else if (states && Array.isArray(item.states)) {
        const kept = item.states.map((label) => states.indexOf(label)).filter((i) => i >= 0);
        if (kept.length) finding = { node, states: [...new Set(kept)].sort((a, b) => a - b) };
      } else if (states && Array.isArray(item.weights)) {
        const weights = states.map((label) => item.weights.find((pair) => pair?.[0] === label)?.[1] ?? 0);
        if (weights.every((w) => isNumber(w) && w >= 0) && weights.some((w) => w > 0)) finding = { node, weights };
      } else if (!states && isNumber(item.value) && fits(nodes[node], item.value)) finding = { node, value: item.value };
      else if (!states && Array.isArray(item.between) && item.between.length === 2) {
        if (item.between.every((end) => end === null || isNumber(end))) finding = { node, between: item.between };
      } else if (!states && Array.isArray(item.about) && item.about.length === 2) {
        if (item.about.every(isNumber) && item.about[1] > 0) finding = { node, about: item.about };
      }
    }
    if (!finding) lost += 1;
    else findings.push(item.set === true && isHard(finding) ? { ...finding, set: true } : finding);
  }
  return { findings, lost };
}

export function toLink(findings, nodes) {
  const bytes = new TextEncoder().encode(JSON.stringify(pack(findings, nodes)));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return `case=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

export function fromLink(hash, nodes) {
  const match = /(?:^#?|&)case=([\w-]*)/.exec(hash);
  if (!match) return null;
  try {
    const text = atob(match[1].replaceAll("-", "+").replaceAll("_", "/"));
    return unpack(JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)))), nodes);
  } catch {
    return { findings: [], lost: 1 };
  }
}
