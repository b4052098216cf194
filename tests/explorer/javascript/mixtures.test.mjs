// What a page with answers that were computed before makes of them, against sums over all values.

import assert from "node:assert/strict";
import { test } from "node:test";

import { answerFromLookups } from "../../../hybridbn/explorer/source/answers_in_page.js";
import { LEVELS } from "../../../hybridbn/explorer/source/density.js";

// a state a, a number k with the values 0, 1 and 4, and a state c
const VALUES = [0, 1, 4];
const JOINT = [
  [[0.02, 0.08], [0.1, 0.05], [0.2, 0.05]],
  [[0.15, 0.05], [0.04, 0.06], [0.12, 0.08]],
];

/** Weights of a, k and c, as a finding leaves them possible. */
function allow(finding, i, j, l) {
  const at = [i, j, l][finding.node];
  if ("state" in finding) return Number(at === finding.state);
  if ("states" in finding) return Number(finding.states.includes(at));
  if ("weights" in finding) return finding.weights[at];
  if ("value" in finding) return Number(VALUES[j] === finding.value);
  return Number(VALUES[j] >= (finding.between[0] ?? -9) && VALUES[j] <= (finding.between[1] ?? 9));
}

function sum(findings) {
  const marginals = [[0, 0], [0, 0, 0], [0, 0]];
  let total = 0;
  JOINT.forEach((plane, i) => plane.forEach((row, j) => row.forEach((p, l) => {
    const weight = p * findings.reduce((product, finding) => product * allow(finding, i, j, l), 1);
    total += weight;
    marginals[0][i] += weight;
    marginals[1][j] += weight;
    marginals[2][l] += weight;
  })));
  return { total, marginals: marginals.map((row) => row.map((p) => p / total)) };
}

const FINDINGS = [
  ...[0, 1].map((state) => ({ node: 0, state })),
  ...VALUES.map((value) => ({ node: 1, value })),
  ...[0, 1].map((state) => ({ node: 2, state })),
];

/** A page with the answers to so many findings together. */
function makePage(most) {
  const cases = [[], ...FINDINGS.map((_, i) => [i])];
  FINDINGS.forEach((a, i) => FINDINGS.forEach((b, j) => a.node < b.node && most > 1 && cases.push([i, j])));
  const rows = cases.map((numbers) => {
    const findings = numbers.map((i) => FINDINGS[i]);
    const { total, marginals } = sum(findings);
    const known = (node) => findings.some((finding) => finding.node === node);
    const [a, k, c] = marginals.map((p, node) => (known(node) ? p.map(() => NaN) : p));
    const mean = k.reduce((m, p, j) => m + p * VALUES[j], 0);
    const sd = Math.sqrt(k.reduce((m, p, j) => m + p * (VALUES[j] - mean) ** 2, 0));
    return [Math.log(total), ...a, mean, sd, ...LEVELS.map(() => mean), ...k, ...c];
  });
  const { marginals } = sum([]);
  const stems = VALUES.map((value, j) => [value, marginals[1][j]]);
  const listed = FINDINGS.filter(({ node }) => node === 1);
  const nodes = [{ states: ["x", "y"] }, { grid: [0, null, null] }, { states: ["u", "v"] }];
  return answerFromLookups({
    nodes: nodes.map((node, i) => ({ name: "akc"[i], parents: [], ...node })),
    prior: [{ p: marginals[0] }, { mean: 2, sd: 1, q: LEVELS.map(() => 1), stems }, { p: marginals[2] }],
    given: [],
    offers: { values: [null, listed, null] },
    lookups: {
      findings: FINDINGS,
      cases,
      rows: 0,
      probable: [[{ node: 0, state: 1 }]],
      values: Buffer.from(Float64Array.from(rows.flat()).buffer).toString("base64"),
    },
  });
}

const close = (found, wanted) => assert.ok(Math.abs(found - wanted) < 1e-12, `${found} is not ${wanted}`);

const CASES = {
  "a state": [{ node: 0, state: 1 }],
  "a value and a state": [{ node: 1, value: 4 }, { node: 2, state: 0 }],
  "several states": [{ node: 0, states: [0, 1] }, { node: 1, value: 1 }],
  "a likelihood": [{ node: 0, weights: [0.25, 1] }, { node: 2, state: 1 }],
  "an interval of values": [{ node: 1, between: [0.5, null] }],
  "an interval and a likelihood": [{ node: 1, between: [0, 1] }, { node: 2, weights: [1, 0.1] }],
};

for (const [name, findings] of Object.entries(CASES)) {
  test(`beliefs after ${name} are those of all values together`, () => {
    const [answer] = makePage(2)({ ask: "beliefs", cases: [findings] }).cases;
    const { total, marginals } = sum(findings);
    close(answer.log_evidence, Math.log(total));
    answer.beliefs.forEach((belief, node) => {
      if (!belief) return;
      if (belief.p) belief.p.forEach((p, i) => close(p, marginals[node][i]));
      else {
        const stems = new Map(belief.stems);
        VALUES.forEach((value, j) => close(stems.get(value) ?? 0, marginals[node][j]));
        close(belief.mean, marginals[node].reduce((m, p, j) => m + p * VALUES[j], 0));
      }
    });
    assert.ok(answer.beliefs.some(Boolean));
    assert.deepEqual(answer.notes ?? [], []);
  });
}

test("what was not computed before is told, not answered", () => {
  for (const findings of [
    [{ node: 0, state: 1 }, { node: 2, state: 0 }],
    [{ node: 0, weights: [1, 2] }, { node: 2, state: 0 }],
    [{ node: 1, value: 2 }],
    [{ node: 1, about: [1, 2] }],
    [{ node: 0, state: 1, set: true }],
  ]) {
    const { cases } = makePage(1)({ ask: "beliefs", cases: [findings] });
    assert.equal(cases[0].unanswered, true, JSON.stringify(findings));
    assert.equal(cases[0].beliefs, undefined);
  }
});

test("what is most probable is told where it was computed", () => {
  const page = makePage(2);
  assert.deepEqual(page({ ask: "probable", case: [] }).values, [{ node: 0, state: 1 }]);
  assert.throws(() => page({ ask: "probable", case: [{ node: 0, state: 0 }] }), /not computed before/);
});

test("intervals of a density are made of quantiles, and said to be approximate", () => {
  // a number x that is normal, and a state that is likelier where x is large
  const z = [-2.0537, -1.2816, -0.6745, -0.2533, 0, 0.2533, 0.6745, 1.2816, 2.0537];
  const chance = (x) => 1 / (1 + Math.exp(-2 * x));
  const density = (x) => Math.exp(-0.5 * x * x) / Math.sqrt(2 * Math.PI);
  const grid = Array.from({ length: 8001 }, (_, i) => -4 + i / 1000);
  const mean = (low) => {
    const inside = grid.filter((x) => x >= low);
    return inside.reduce((m, x) => m + density(x) * chance(x), 0) / inside.reduce((m, x) => m + density(x), 0);
  };
  const findings = z.map((value) => ({ node: 0, value }));
  const rows = [[0, 0, 1, ...z, 0.5, 0.5], ...z.map((x) => [Math.log(density(x)), NaN, NaN, ...z.map(() => NaN), 1 - chance(x), chance(x)])];
  const page = answerFromLookups({
    nodes: [{ name: "x", parents: [], grid: [0, null, null] }, { name: "s", parents: [0], states: ["no", "yes"] }],
    prior: [{ mean: 0, sd: 1, q: z, x: grid, y: grid.map(density) }, { p: [0.5, 0.5] }],
    given: [],
    offers: { values: [findings, null] },
    lookups: { findings, cases: [[], ...z.map((_, i) => [i])], rows: 0, values: Buffer.from(Float64Array.from(rows.flat()).buffer).toString("base64") },
  });
  const answer = page({ ask: "beliefs", cases: [[{ node: 0, between: [0.1, null] }]] });
  const [{ beliefs, log_evidence: log }] = answer.cases;
  assert.ok(Math.abs(beliefs[1].p[1] - mean(0.1)) < 0.03, `${beliefs[1].p[1]} ${mean(0.1)}`);
  assert.ok(Math.abs(Math.exp(log) - 0.46) < 0.05);
  const area = beliefs[0].x.slice(1).reduce((m, x, i) => m + ((x - beliefs[0].x[i]) * (beliefs[0].y[i] + beliefs[0].y[i + 1])) / 2, 0);
  assert.ok(Math.abs(area - 1) < 0.01);
  assert.match(answer.notes[0], /approximate/);
});
