// Scenarios side by side: a column for each, the nodes on which they differ most first.

import { h, s } from "./dom.js";
import { describe, findingOf } from "./findings.js";
import { meanText, percent } from "./format.js";

function beliefIn(item, index, node) {
  const finding = findingOf(item.findings, index);
  if (finding && "state" in finding) return { p: node.states.map((_, i) => Number(i === finding.state)) };
  if (finding && "value" in finding) return { mean: finding.value, sd: 0 };
  return item.answer.beliefs?.[index] ?? null;
}

/** How far beliefs lie apart at most, between 0 and 1. */
function distance(beliefs, prior) {
  let most = 0;
  const known = beliefs.filter(Boolean);
  for (const a of known) {
    for (const b of known) {
      const apart = a.p
        ? a.p.reduce((sum, p, i) => sum + Math.abs(p - b.p[i]), 0) / 2
        : Math.min(1, Math.abs(a.mean - b.mean) / (2 * (prior?.sd || 1)));
      most = Math.max(most, apart);
    }
  }
  return most;
}

function makeCell(node, belief, finding) {
  const kind = finding ? (finding.set ? " hbx-set" : " hbx-found") : "";
  if (!belief) return h("td", { class: kind }, "–");
  if (!belief.p) {
    return h("td", { class: kind }, h("span", { class: "hbx-figure" }, meanText(node, belief.mean, belief.sd)));
  }
  const order = belief.p.map((_, i) => i).sort((a, b) => belief.p[b] - belief.p[a]).slice(0, 4).sort((a, b) => a - b); // prettier-ignore
  return h("td", { class: kind }, order.map((i) =>
    h("div", { class: "hbx-compared" }, h("span", { class: "hbx-compared-label" }, node.states[i]),
      s("svg", { class: "hbx-mini", viewBox: "0 0 80 12", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: "hbx-track", width: 80, height: 12, rx: 2 }), s("rect", { class: "hbx-bar", width: 80 * belief.p[i], height: 12, rx: 2 })),
      h("span", { class: "hbx-number" }, percent(belief.p[i]))))); // prettier-ignore
}

export function makeComparison(store) {
  const items = store.compared;
  const rows = store.nodes.map((node, index) => {
    const beliefs = items.map((item) => beliefIn(item, index, node));
    return { node, index, beliefs, apart: distance(beliefs, store.content.prior[index]) };
  });
  rows.sort((a, b) => b.apart - a.apart);
  const shown = rows.slice(0, 80);
  const close = h("button", { type: "button", class: "hbx-button", onclick: () => store.update({ compared: null }) }, "Back to the graph");
  return h("section", { class: "hbx-comparison", "aria-label": "scenarios side by side" },
    h("div", { class: "hbx-comparison-head" }, h("h2", { class: "hbx-heading" }, "Side by side"), close),
    h("table", { class: "hbx-table" },
      h("thead", {}, h("tr", {}, h("th", {}, "node"), items.map((item) => h("th", {}, item.name,
        h("div", { class: "hbx-muted" }, item.findings.length ? item.findings.map((f) => describe(f, store.nodes[f.node])).join("; ") : "nothing known"),
        item.answer.error ? h("div", { class: "hbx-muted" }, item.answer.error) : null)))),
      h("tbody", {}, shown.map(({ node, index, beliefs, apart }) => h("tr", { class: apart < 5e-4 ? "hbx-same" : "" }, h("th", { scope: "row" }, node.name),
        beliefs.map((belief, i) => makeCell(node, belief, findingOf(items[i].findings, index))))))),
    rows.length > shown.length ? h("p", { class: "hbx-hint" }, `and ${rows.length - shown.length} nodes on which they differ less`) : null); // prettier-ignore
}
