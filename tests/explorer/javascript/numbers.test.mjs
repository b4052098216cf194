// Numbers as texts, and the curves that are drawn.

import assert from "node:assert/strict";
import { test } from "node:test";

import { curveOf, heightOf, LEVELS, rangeOf, roundTo, stemsOf, widthOf } from "../../../hybridbn/explorer/source/density.js";
import { dateTicks, fits, meanText, parseValue, percent, probability, rangeText, short, snap, ticks, valueText } from "../../../hybridbn/explorer/source/format.js";

test("probabilities say 0 and 1 only where they are", () => {
  assert.deepEqual([0, 0.0004, 0.0005, 0.5, 0.9995, 0.9996, 1].map(percent), ["0 %", "<0.1 %", "0.1 %", "50.0 %", "100.0 %", ">99.9 %", "100 %"]);
  assert.deepEqual([0, 1e-5, 0.25, 0.99999, 1].map(probability), ["0", "1.00e-5", "0.2500", "0.9999900", "1"]);
  assert.deepEqual([percent(NaN), probability(NaN)], ["–", "–"]);
});

test("numbers have so many digits and no needless zeros", () => {
  assert.deepEqual([0, 12.34567, -0.5, 1234567, 1e9, 2e-5, 100].map((value) => short(value)), ["0", "12.35", "−0.5", "1234567", "1.00e+9", "2.00e−5", "100"]);
  assert.deepEqual([Infinity, -Infinity, NaN].map((value) => short(value)), ["∞", "−∞", "–"]);
});

test("means have the digits of their standard deviation", () => {
  assert.equal(meanText({}, 12.3456, 0.123), "12.35 ± 0.12");
  assert.equal(meanText({}, 12345.6, 234), "12350 ± 230");
  assert.equal(meanText({}, -3, 0), "−3");
  assert.equal(meanText({ unit: "date" }, 0, 2), "1970-01-01");
});

test("what is shown of a value is read back", () => {
  const shown = { date: ["2024-02-29", "1969-12-31"], datetime: ["2024-02-29 23:59"], time: ["07:05", "23:59"] };
  for (const [unit, texts] of Object.entries(shown)) {
    for (const text of texts) assert.equal(valueText({ unit }, parseValue({ unit }, text)), text);
  }
  assert.equal(parseValue({}, " −2,5 "), -2.5);
  assert.equal(parseValue({ unit: "duration" }, "3 d"), 3);
  for (const text of ["", "x", "1 2"]) assert.ok(Number.isNaN(parseValue({}, text)));
  assert.ok(Number.isNaN(parseValue({ unit: "date" }, "2024-13-01")));
});

test("ticks are round and inside", () => {
  assert.deepEqual(ticks(0, 10, 5).map(String), ["0", "2", "4", "6", "8", "10"]);
  assert.deepEqual(ticks(-1, 1, 4).map((tick) => tick.toFixed(1)), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
  for (const [low, high] of [[3.7, 4.1], [-2e6, 9e6], [1e-9, 3e-9]]) {
    const found = ticks(low, high, 5);
    assert.ok(found.length >= 2 && found.length <= 7);
    assert.ok(found[0] >= low - 1e-6 * (high - low) && found.at(-1) <= high + 1e-6 * (high - low));
  }
});

// quantiles of a standard normal density at LEVELS
const NORMAL = [-2.0537, -1.2816, -0.6745, -0.2533, 0, 0.2533, 0.6745, 1.2816, 2.0537];

test("a curve through quantiles has their masses", () => {
  const belief = { mean: 0, sd: 1, q: NORMAL };
  const { x, y } = curveOf(belief);
  assert.equal(curveOf(belief), belief.curve);
  const mass = (low, high) => {
    let sum = 0;
    for (let i = 1; i < x.length; i += 1) {
      if (x[i - 1] >= low - 1e-9 && x[i] <= high + 1e-9) sum += ((y[i] + y[i - 1]) / 2) * (x[i] - x[i - 1]);
    }
    return sum;
  };
  assert.ok(Math.abs(mass(-Infinity, Infinity) - 1) < 0.01);
  for (let i = 1; i < NORMAL.length; i += 1) {
    assert.ok(Math.abs(mass(NORMAL[i - 1], NORMAL[i]) - (LEVELS[i] - LEVELS[i - 1])) < 0.005);
  }
  assert.ok(y.every((value) => value >= 0));
});

test("beliefs without a density have no curve", () => {
  assert.equal(curveOf(null), null);
  assert.equal(curveOf({ mean: 1, sd: 0, q: NORMAL }), null);
  assert.deepEqual(curveOf({ x: [0, 1], y: [1, 1] }), { x: [0, 1], y: [1, 1] });
});

test("a needle does not press down the rest of a picture", () => {
  const flat = { x: [0, 1, 2], y: [1, 1, 1] };
  assert.equal(heightOf(flat), 1);
  const needle = { x: [0, 1, 1.001, 1.002, 2], y: [1, 1, 500, 1, 1] };
  assert.equal(heightOf(needle), 1.6);
  assert.equal(heightOf(null), 0);
});

test("pictures show the prior, the belief and the finding, and stay in the domain", () => {
  const prior = { x: [0, 10], y: [0.1, 0.1] };
  assert.deepEqual(rangeOf(prior, null, null, null), [0, 10]);
  assert.deepEqual(rangeOf(prior, { mean: 12 }, null, null), [0, 12]);
  assert.deepEqual(rangeOf(prior, null, { about: [0, 2] }, null), [-6, 10]);
  assert.deepEqual(rangeOf(prior, null, { between: [null, 14] }, [1, null]), [1, 14]);
  assert.deepEqual(rangeOf(null, null, null, null), [0, 1]);
  assert.deepEqual(rangeOf(null, { mean: 10 }, null, null), [9.5, 10.5]);
});

test("a click gives a number that can be read", () => {
  assert.equal(roundTo(3.14159, [0, 10]), 3.1);
  assert.equal(roundTo(31415.9, [0, 100000]), 31000);
  assert.equal(roundTo(0.000314159, [0, 0.001]), 0.00031);
});

const YEAR = { name: "year", grid: [1, 2007, 2011] };
const SMOKER = { name: "smoker", grid: [0, null, null], points: [0, 1] };
const HOURS = { name: "hours", grid: [0.01, 0, null] };

test("numbers of a grid are written as such", () => {
  assert.deepEqual([2007, -3, 12345678].map((value) => valueText(YEAR, value)), ["2007", "−3", "12345678"]);
  assert.equal(valueText(YEAR, 2008.25), "2008");
  assert.deepEqual(ticks(2006.4, 2011.6, 8, 1), [2007, 2008, 2009, 2010, 2011]);
  assert.deepEqual(ticks(-0.6, 1.6, 8, 1), [0, 1]);
  assert.ok(ticks(0, 40, 4, 1).every(Number.isInteger));
});

test("axes of dates have beginnings of months and years", () => {
  assert.deepEqual(dateTicks(19300, 19800, 3).map(([, text]) => text), ["2023-01", "2023-07", "2024-01"]);
  assert.deepEqual(dateTicks(19358, 19450, 4).map(([, text]) => text), ["2023-01", "2023-02", "2023-03", "2023-04"]);
  assert.equal(dateTicks(19358, 19370, 4), null);
  assert.ok(dateTicks(-719000, 2900000, 3).length <= 4);
});

test("what is pointed at becomes a value that there is", () => {
  assert.deepEqual([2006.2, 2008.4, 2008.6, 2019].map((value) => snap(YEAR, value, [], 0)), [2007, 2008, 2009, 2011]);
  assert.deepEqual([-1, 0.4, 0.7].map((value) => snap(SMOKER, value, [0, 1], 0.1)), [0, 0, 1]);
  assert.deepEqual([0.3, 0.7, 12.3456, -2].map((value) => snap(HOURS, value, [0], 0.5)), [0, 0.7, 12.35, 0]);
  assert.equal(snap({ unit: "date" }, 19000.4, [], 0), 19000);
  assert.equal(snap({}, 1.2345, [], 0), 1.2345);
});

test("what is typed is held to the same values", () => {
  assert.deepEqual([2007, 2011, 2006, 2012, 2008.5].map((value) => fits(YEAR, value)), [true, true, false, false, false]);
  assert.deepEqual([0, 1, 0.5, 2].map((value) => fits(SMOKER, value)), [true, true, false, false]);
  assert.deepEqual([0, 12.34, 12.345, -1].map((value) => fits(HOURS, value)), [true, true, false, false]);
  assert.ok(fits({}, -1.234567));
  assert.equal(rangeText(YEAR), "its values are whole numbers from 2007 to 2011");
  assert.equal(rangeText(SMOKER), "its values are 0, 1");
  assert.equal(rangeText(HOURS), "its values are multiples of 0.01 from 0");
});

test("codes have stems and no curve", () => {
  const codes = { mean: 0.3, sd: 0.46, q: [0, 0, 0, 0, 0, 0, 1, 1, 1], stems: [[0, 0.7], [1, 0.3]] };
  assert.equal(curveOf(codes), null);
  assert.deepEqual(stemsOf(codes), [[0, 0.7], [1, 0.3]]);
  assert.deepEqual(rangeOf(codes, null, null, null, 1), [-0.6, 1.6]);
  assert.deepEqual([widthOf([0, 6], 1), widthOf([0, 600], 0.01)], [1, 100]);
});

test("beside a stem the curve through quantiles has what is left", () => {
  // 40 % zeros, and an exponential density of mean 10
  const q = LEVELS.map((level) => (level <= 0.4 ? 0 : -10 * Math.log((1 - level) / 0.6)));
  const { x, y } = curveOf({ mean: 6, sd: 9, q, stems: [[0, 0.4]] });
  const area = x.slice(1).reduce((sum, at, i) => sum + ((at - x[i]) * (y[i] + y[i + 1])) / 2, 0);
  assert.ok(Math.abs(area - 0.6) < 0.02, `${area}`);
  assert.equal(x[0], 0);
  assert.ok(Math.max(...y) < 0.12);
});
