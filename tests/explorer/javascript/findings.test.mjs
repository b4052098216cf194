// Findings: how they change, what they say, and how they leave the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  describe,
  excludeState,
  fromLink,
  pack,
  possibleStates,
  toggleState,
  toLink,
  unpack,
  withFinding,
} from "../../../hybridbn/explorer/source/findings.js";

const NODES = [
  { name: "weather", states: ["dry", "wet", "naß <b>"] },
  { name: "rate" },
  { name: "day", unit: "date" },
];

test("a finding takes the place of the one about its node, and no case is changed", () => {
  const before = [{ node: 0, state: 1 }, { node: 1, value: 2 }];
  const kept = structuredClone(before);
  assert.deepEqual(withFinding(before, { node: 0, state: 2 }), [{ node: 0, state: 2 }, { node: 1, value: 2 }]);
  assert.deepEqual(withFinding(before, { node: 2, value: 0 }).length, 3);
  assert.deepEqual(before, kept);
});

test("a state is set, taken back, and set by intervention", () => {
  const once = toggleState([], 0, 1, false);
  assert.deepEqual(once, [{ node: 0, state: 1 }]);
  assert.deepEqual(toggleState(once, 0, 1, false), []);
  const done = toggleState(once, 0, 1, true);
  assert.deepEqual(done, [{ node: 0, state: 1, set: true }]);
  assert.deepEqual(toggleState(done, 0, 1, true), []);
});

test("states are excluded one by one, and never all", () => {
  const one = excludeState([], 0, 1, 3);
  assert.deepEqual(one, [{ node: 0, states: [0, 2] }]);
  const two = excludeState(one, 0, 0, 3);
  assert.deepEqual(two, [{ node: 0, state: 2 }]);
  assert.equal(excludeState(two, 0, 2, 3), two);
  assert.deepEqual(excludeState(one, 0, 1, 3), []);
  assert.deepEqual(excludeState([{ node: 0, state: 2, set: true }], 0, 0, 3), [{ node: 0, states: [1, 2] }]);
});

test("the states that a finding leaves", () => {
  assert.deepEqual(possibleStates(undefined, 3), [0, 1, 2]);
  assert.deepEqual(possibleStates({ state: 1 }, 3), [1]);
  assert.deepEqual(possibleStates({ weights: [0, 0.5, 2] }, 3), [1, 2]);
});

test("findings in words", () => {
  const say = (finding, node = NODES[0]) => describe(finding, node);
  assert.equal(say({ state: 1 }), "weather = wet");
  assert.equal(say({ state: 1, set: true }), "do(weather = wet)");
  assert.equal(say({ states: [0, 1] }), "weather ≠ naß <b>");
  assert.equal(say({ states: [0] }), "weather = dry");
  assert.equal(say({ weights: [1, 2, 0] }), "weather ~ dry 50.0 %, wet 100 %");
  assert.equal(say({ value: -2.5 }, NODES[1]), "rate = −2.5");
  assert.equal(say({ value: 0, set: true }, NODES[2]), "do(day = 1970-01-01)");
  assert.equal(say({ about: [2, 0.5] }, NODES[1]), "rate ≈ 2 ± 0.5");
  assert.equal(say({ between: [null, 3] }, NODES[1]), "rate ≤ 3");
  assert.equal(say({ between: [1, null] }, NODES[1]), "rate ≥ 1");
  assert.equal(say({ between: [1, 3] }, NODES[1]), "1 ≤ rate ≤ 3");
});

const CASE = [
  { node: 0, weights: [1, 0, 3] },
  { node: 1, between: [null, 3] },
  { node: 2, value: 19000.25, set: true },
];

test("links bring back the case, whatever its names are", () => {
  const link = toLink(CASE, NODES);
  assert.match(link, /^case=[\w-]+$/);
  for (const hash of [link, `#${link}`, `#tab=why&${link}`]) {
    assert.deepEqual(fromLink(hash, NODES), { findings: CASE, lost: 0 });
  }
  assert.deepEqual(fromLink(toLink([{ node: 0, states: [0, 2] }], NODES), NODES).findings, [{ node: 0, states: [0, 2] }]);
  assert.equal(fromLink("#tab=why", NODES), null);
  assert.deepEqual(fromLink("#case=AAAA", NODES), { findings: [], lost: 1 });
});

test("scenarios go by names, so that they survive another order of nodes and states", () => {
  const packed = JSON.parse(JSON.stringify(pack(CASE, NODES)));
  const turned = [NODES[2], NODES[1], { name: "weather", states: ["wet", "naß <b>", "dry"] }];
  assert.deepEqual(unpack(packed, turned).findings, [
    { node: 2, weights: [0, 3, 1] },
    { node: 1, between: [null, 3] },
    { node: 0, value: 19000.25, set: true },
  ]);
});

test("what a scenario says of other models is left out and counted", () => {
  const strange = [
    { name: "gone", state: "x" },
    { name: "weather", state: "hail" },
    { name: "weather", state: "wet" },
    { name: "weather", state: "dry" },
    { name: "rate", value: "7" },
    { name: "rate", about: [1, -1] },
    { name: "rate", between: [0, 1, 2] },
    { name: "day", between: [Infinity, null] },
    null,
    "text",
  ];
  assert.deepEqual(unpack(strange, NODES), { findings: [{ node: 0, state: 1 }], lost: 9 });
  assert.deepEqual(unpack("no list", NODES), { findings: [], lost: 0 });
  // soft findings can't be set
  assert.deepEqual(unpack([{ name: "rate", about: [1, 2], set: true }], NODES).findings, [{ node: 1, about: [1, 2] }]);
});
