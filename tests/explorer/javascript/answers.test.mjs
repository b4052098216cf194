// What a page answers by itself, against sums over all states.

import assert from "node:assert/strict";
import { test } from "node:test";

import { answerFromTables } from "../../../hybridbn/explorer/source/answers_in_page.js";
import { JunctionTree } from "../../../hybridbn/explorer/source/junction_tree.js";

// a -> b, a -> c, (b, c) -> d, and e by itself; cliques as Python gives them: children before parents
const SIZES = [2, 3, 2, 2, 2];
const PARENTS = [[], [0], [0], [1, 2], []];
const CLIQUES = [
  { nodes: [4], parent: 2 },
  { nodes: [1, 2, 3], parent: 2 },
  { nodes: [0, 1, 2], parent: null },
];

/** Conditional tables of a fixed network, with a zero in one of them. */
function makeTables() {
  let seed = 7;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  return SIZES.map((size, node) => {
    const scope = [...PARENTS[node], node];
    const rows = PARENTS[node].reduce((count, parent) => count * SIZES[parent], 1);
    const values = [];
    for (let row = 0; row < rows; row += 1) {
      const weights = Array.from({ length: size }, () => 0.05 + random());
      if (node === 3 && row === 0) weights[0] = 0;
      const total = weights.reduce((a, b) => a + b);
      values.push(...weights.map((weight) => weight / total));
    }
    return { scope, values: Float64Array.from(values) };
  });
}

const TABLES = makeTables();

function* allStates() {
  const count = SIZES.reduce((a, b) => a * b);
  for (let number = 0; number < count; number += 1) {
    let rest = number;
    yield SIZES.map((size) => {
      const state = rest % size;
      rest = Math.floor(rest / size);
      return state;
    });
  }
}

/** The joint weight of states and findings: nodes that are set have no table of their own. */
function weigh(states, findings) {
  let weight = 1;
  TABLES.forEach(({ scope, values }, node) => {
    if (findings.some((finding) => finding.node === node && finding.set)) return;
    weight *= values[scope.reduce((cell, other) => cell * SIZES[other] + states[other], 0)];
  });
  for (const finding of findings) {
    const state = states[finding.node];
    if ("state" in finding) weight *= state === finding.state ? 1 : 0;
    else if ("states" in finding) weight *= finding.states.includes(state) ? 1 : 0;
    else weight *= finding.weights[state];
  }
  return weight;
}

function enumerate(findings) {
  const sums = SIZES.map((size) => new Array(size).fill(0));
  let total = 0;
  let most = [0, null];
  for (const states of allStates()) {
    const weight = weigh(states, findings);
    total += weight;
    states.forEach((state, node) => (sums[node][state] += weight));
    if (weight > most[0]) most = [weight, states];
  }
  return { total, marginals: sums.map((row) => row.map((sum) => sum / total)), most: most[1] };
}

const close = (found, wanted, tolerance = 1e-12) =>
  assert.ok(Math.abs(found - wanted) <= tolerance * Math.max(1, Math.abs(wanted)), `${found} is not ${wanted}`);
const closeRows = (found, wanted) => found.forEach((row, i) => row.forEach((p, j) => close(p, wanted[i][j])));

const CASES = {
  nothing: [],
  "a state": [{ node: 3, state: 1 }],
  "several states": [{ node: 1, states: [0, 2] }, { node: 3, state: 0 }],
  "a likelihood": [{ node: 1, weights: [0.2, 0, 3] }, { node: 2, state: 1 }],
  "a node that is set": [{ node: 1, state: 2, set: true }, { node: 3, state: 1 }],
  "two nodes that are set": [{ node: 1, state: 0, set: true }, { node: 2, state: 1, set: true }],
};

for (const [name, findings] of Object.entries(CASES)) {
  test(`beliefs and the most probable states after ${name} are those of all states`, () => {
    const tree = new JunctionTree(SIZES, TABLES, CLIQUES);
    const wanted = enumerate(findings);
    for (let time = 0; time < 2; time += 1) {
      const { marginals, logEvidence } = tree.propagate(findings);
      closeRows(marginals, wanted.marginals);
      close(logEvidence, Math.log(wanted.total));
      assert.deepEqual(tree.maximize(findings), wanted.most);
      tree.propagate([{ node: 2, state: 0 }]); // leaves nothing behind
    }
  });
}

test("what can't be is told", () => {
  const tree = new JunctionTree(SIZES, TABLES, CLIQUES);
  const impossible = [{ node: 1, state: 0 }, { node: 2, state: 0 }, { node: 3, state: 0 }];
  assert.equal(tree.propagate(impossible), null);
  assert.equal(tree.maximize(impossible), null);
});

function makePage(given = []) {
  const encode = (values) => Buffer.from(values.buffer).toString("base64");
  return answerFromTables({
    nodes: SIZES.map((size, node) => ({
      name: "abcde"[node],
      parents: PARENTS[node],
      states: Array.from({ length: size }, (_, i) => `${i}`),
    })),
    tables: { values: TABLES.map(({ values }) => encode(values)), cliques: CLIQUES },
    given,
  });
}

test("weights of evidence are differences of log odds, in the order of the findings", () => {
  const findings = [{ node: 1, state: 2 }, { node: 3, state: 1 }];
  const answer = makePage()({ ask: "why", node: 0, state: 1, case: findings });
  const odds = [0, 1, 2].map((known) => {
    const p = enumerate(findings.slice(0, known)).marginals[0];
    return Math.log(p[1] / p[0]);
  });
  close(answer.prior, odds[0]);
  answer.steps.forEach(({ node, weight }, i) => {
    assert.equal(node, findings[i].node);
    close(weight, odds[i + 1] - odds[i]);
  });
  close(answer.log_odds, odds[2]);
  close(answer.probability, enumerate(findings).marginals[0][1]);
});

test("what is set, or known to the network, has no weight of its own", () => {
  const given = [{ node: 2, state: 1 }];
  const set = { node: 1, state: 0, set: true };
  const answer = makePage(given)({ ask: "why", node: 0, state: 0, case: [...given, set, { node: 3, state: 1 }] });
  const before = enumerate([...given, set]).marginals[0];
  close(answer.prior, Math.log(before[0] / before[1]));
  assert.deepEqual(answer.steps.map(({ node }) => node), [3]);
});

test("observations are ranked by mutual information, and their gain is that of the best guess", () => {
  const findings = [{ node: 2, state: 1 }];
  const { ranks } = makePage()({ ask: "next", case: findings, node: 0 });
  assert.deepEqual(new Set(ranks.map(({ node }) => node)), new Set([1, 3, 4]));
  for (const { node, information, gain } of ranks) {
    const joint = Array.from({ length: SIZES[0] }, () => new Array(SIZES[node]).fill(0));
    let total = 0;
    for (const states of allStates()) {
      const weight = weigh(states, findings);
      joint[states[0]][states[node]] += weight;
      total += weight;
    }
    const p = joint.map((row) => row.map((weight) => weight / total));
    const rows = p.map((row) => row.reduce((a, b) => a + b));
    const columns = p[0].map((_, j) => p.reduce((sum, row) => sum + row[j], 0));
    let wanted = 0;
    p.forEach((row, i) => row.forEach((q, j) => (wanted += q * Math.log(q / rows[i] / columns[j]))));
    close(information, wanted, 1e-10);
    const right = columns.reduce((sum, _, j) => sum + Math.max(...p.map((row) => row[j])), 0);
    close(gain, right - Math.max(...rows), 1e-10);
  }
  const told = ranks.map(({ information }) => information);
  assert.deepEqual(told, [...told].sort((a, b) => b - a));
});

test("the most probable completion leaves out what is known", () => {
  const findings = [{ node: 1, state: 2 }, { node: 3, states: [1] }];
  const { values } = makePage()({ ask: "probable", case: findings });
  const { most } = enumerate(findings);
  assert.deepEqual(values, [0, 2, 3, 4].map((node) => ({ node, state: most[node] })));
});

test("contradictions and questions that need Python are refused", () => {
  const answer = makePage();
  const impossible = [{ node: 1, state: 0 }, { node: 2, state: 0 }, { node: 3, state: 0 }];
  assert.match(answer({ ask: "beliefs", cases: [impossible] }).cases[0].error, /contradict/);
  assert.throws(() => answer({ ask: "why", node: 0, state: 0, case: impossible }), /contradict/);
  assert.throws(() => answer({ ask: "next", node: 1, case: [{ node: 1, state: 0 }] }), /b has one value/);
  assert.throws(() => answer({ ask: "anything" }), /needs hybridbn explore/);
});
