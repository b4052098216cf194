// The box of a node: its name, and below it the bars of its states or the curve of its density.

import { fit, measure, s, set, write } from "./dom.js";
import { possibleStates } from "./findings.js";
import { meanText, percent, probability, spanText, valueText } from "./format.js";
import { Plot } from "./plot.js";

export const TITLE = 26;
export const ROW = 17;
const NAME = "600 12px";
const SMALL = "11px";
const BOLD = "650 11px";

class StateRow {
  constructor(view, top) {
    const { width } = view;
    this.state = -1;
    this.label = s("text", { class: "hbx-label", x: 10, y: top + 12 });
    this.track = s("rect", { class: "hbx-track", y: top + 3, height: 11, rx: 2 });
    this.ghost = s("rect", { class: "hbx-ghost", y: top + 3, height: 11, rx: 2 });
    this.bar = s("rect", { class: "hbx-bar", y: top + 3, height: 11, rx: 2 });
    this.tick = s("rect", { class: "hbx-tick", y: top + 1.5, width: 1.5, height: 14 });
    this.number = s("text", { class: "hbx-percent", x: width - 9, y: top + 12, "text-anchor": "end" });
    this.best = s("path", { class: "hbx-best", d: `M5 ${top + 4.5}l4 4l-4 4l-4 -4Z`, visibility: "hidden" });
    this.hit = s("rect", { class: "hbx-hit", x: 1, y: top, width: width - 2, height: ROW, rx: 3 });
    this.element = s("g", { class: "hbx-state", role: "button", tabindex: "-1" }, this.hit, this.label, this.track,
      this.ghost, this.bar, this.tick, this.best, this.number); // prettier-ignore
    this.element.addEventListener("click", (event) => view.activate(this, event.shiftKey));
  }
}

export class NodeView {
  constructor(store, index, [width, height]) {
    Object.assign(this, { store, index, width, height, node: store.nodes[index] });
    const { name } = this.node;
    this.frame = s("rect", { class: "hbx-frame", width, height, rx: 8 });
    this.title = s("g", { class: "hbx-title", role: "button", tabindex: "-1" },
      s("rect", { class: "hbx-hit", x: 1, y: 1, width: width - 2, height: TITLE - 3, rx: 7 }),
      (this.name = s("text", { class: "hbx-name", x: 10, y: 17 })),
      (this.hint = s("title", {}, name))); // prettier-ignore
    this.badge = s("text", { class: "hbx-badge", y: 17, "text-anchor": "end" });
    this.cross = s("g", { class: "hbx-cross", "aria-hidden": "true", transform: `translate(${width - 16} 13)` },
      s("rect", { class: "hbx-hit", x: -9, y: -9, width: 18, height: 18, rx: 9 }),
      s("path", { d: "M-3.5 -3.5L3.5 3.5M3.5 -3.5L-3.5 3.5" }), s("title", {}, "retract")); // prettier-ignore
    this.body = s("g", {});
    this.element = s("g", { class: "hbx-node", role: "group", "data-node": index, "data-name": name },
      this.frame, this.title, this.badge, this.body, this.cross); // prettier-ignore
    this.title.addEventListener("click", () => store.select(index, { center: true }));
    this.cross.addEventListener("click", () => store.retract(index));
    if (this.node.states) this.makeRows();
    else this.makePlot();
  }

  makeRows() {
    const { states } = this.node;
    const room = Math.floor((this.height - TITLE - 5) / ROW);
    const count = Math.min(states.length, room);
    this.isCut = states.length > room;
    const slack = (this.height - TITLE - 6 - count * ROW) / 2;
    const top = TITLE + Math.min(slack, 8);
    const longest = Math.max(...states.slice(0, 40).map((label) => measure(label, BOLD)));
    const labels = Math.min(Math.max(longest, this.isCut ? 48 : 0), this.width * 0.38) + 18;
    this.bars = { left: labels, width: this.width - labels - 56, labels: labels - 14 };
    this.rows = Array.from({ length: count }, (_, i) => new StateRow(this, top + i * ROW));
    for (const row of this.rows) {
      for (const part of [row.track, row.ghost, row.bar]) set(part, { x: this.bars.left });
      set(row.track, { width: this.bars.width });
    }
    this.body.append(...this.rows.map((row) => row.element));
    this.items = [this.title, ...this.rows.map((row) => row.element)];
  }

  makePlot() {
    const box = { left: 12, top: TITLE + 2, width: this.width - 24, height: this.height - TITLE - 5 };
    this.plot = new Plot(this.node, box, (low, high) => this.store.setNumber(this.index, low, high));
    this.focus = s("g", { class: "hbx-plot", role: "button", tabindex: "-1" }, this.plot.element);
    this.body.append(this.focus);
    this.items = [this.title, this.focus];
  }

  activate(row, exclude) {
    if (row.state >= 0) this.store.clickState(this.index, row.state, exclude);
    else this.store.select(this.index);
  }

  /** The states that the rows show: all, or the most probable ones, in order. */
  chooseStates(p) {
    const count = this.rows.length;
    if (!this.isCut) return p.map((_, i) => i);
    const order = p.map((_, i) => i).sort((a, b) => p[b] - p[a] || a - b);
    return [...order.slice(0, count - 1).sort((a, b) => a - b), -1];
  }

  update() {
    const { store, index, node } = this;
    const finding = store.finding(index);
    const prior = store.content.prior[index];
    const isFresh = !store.error?.stale;
    let belief = store.belief(index);
    let known = null;
    if (finding && "state" in finding) belief = { p: node.states.map((_, i) => Number(i === finding.state)) };
    if (finding && "value" in finding) known = finding.value;
    const kind = finding ? (finding.set ? "set" : "found") : "free";
    set(this.element, {
      class: `hbx-node hbx-${kind}${store.selected === index ? " hbx-selected" : ""}${isFresh ? "" : " hbx-stale"}`,
      "data-finding": finding ? (finding.set ? "set" : "observed") : null,
      "data-mean": node.states ? null : (known ?? belief?.mean),
      "data-sd": node.states ? null : known === null ? belief?.sd : 0,
      "data-quantiles": node.states || known !== null ? null : belief?.q?.join(" "),
    });
    const badge = this.badgeText(finding, belief, known);
    const right = finding ? 27 : 10;
    set(this.badge, { x: this.width - right });
    write(this.badge, badge);
    const room = this.width - 18 - (badge ? measure(badge, SMALL) + right : right);
    write(this.name, fit(node.name, Math.max(room, 30), NAME));
    const { hiddenNeighbors: count } = this;
    write(this.hint, count ? `${node.name}: ${count} neighbor${count > 1 ? "s" : ""} not shown` : node.name);
    set(this.cross, { visibility: finding && store.findings.some((f) => f.node === index) ? null : "hidden" });
    if (node.states) this.updateRows(belief, prior, finding);
    else {
      this.plot.update(belief, prior, finding, store.probable?.get(index));
      const said = known !== null ? valueText(node, known) : belief ? `mean ${valueText(node, belief.mean)}, standard deviation ${spanText(node, belief.sd)}` : "";
      set(this.focus, { "aria-label": `${node.name}: ${said}. Press Enter to type a value` });
    }
    set(this.element, { "aria-label": this.describe(belief, known, finding) });
    set(this.title, { "aria-label": `${node.name}, details` });
  }

  badgeText(finding, belief, known) {
    if (finding?.set) return known === null ? "do" : `do ${valueText(this.node, known)}`;
    if (known !== null) return valueText(this.node, known);
    if (finding?.weights) return "soft";
    if (!this.node.states && belief) return meanText(this.node, belief.mean, belief.sd);
    return this.hiddenNeighbors ? `+${this.hiddenNeighbors}` : "";
  }

  describe(belief, known, finding) {
    const how = finding ? (finding.set ? ", set" : ", known") : "";
    if (known !== null) return `${this.node.name}${how}: ${valueText(this.node, known)}`;
    if (!belief) return this.node.name;
    if (!belief.p) return `${this.node.name}${how}: mean ${valueText(this.node, belief.mean)}`;
    const best = belief.p.indexOf(Math.max(...belief.p));
    return `${this.node.name}${how}: ${this.node.states[best]} ${percent(belief.p[best])}`;
  }

  updateRows(belief, prior, finding) {
    const { store, node, bars } = this;
    const before = prior?.p ?? belief.p;
    const p = belief?.p ?? before.map(() => NaN);
    const possible = new Set(possibleStates(finding, p.length));
    const chosen = this.chooseStates(belief?.p ?? before);
    const best = store.probable?.get(this.index)?.state;
    this.rows.forEach((row, i) => {
      const state = chosen[i];
      row.state = state;
      const others = (numbers) => numbers.reduce((sum, x, j) => (chosen.includes(j) ? sum : sum + x), 0);
      const [now, then] = state < 0 ? [others(p), others(before)] : [p[state], before[state]];
      const label = state < 0 ? `${p.length - chosen.length + 1} others` : node.states[state];
      const isSet = finding?.state === state && state >= 0;
      const isOut = finding && state >= 0 && !possible.has(state);
      write(row.label, fit(label, bars.labels, isSet ? BOLD : SMALL));
      write(row.number, percent(now));
      set(row.bar, { width: (bars.width * (now || 0)).toFixed(2) });
      const isMoved = !(Math.abs(now - then) <= 0.0005);
      set(row.ghost, { width: (bars.width * then).toFixed(2) });
      set(row.tick, { x: (bars.left + bars.width * then - 0.75).toFixed(2), visibility: isMoved ? null : "hidden" });
      set(row.best, { visibility: best !== undefined && best === state ? null : "hidden" });
      set(row.element, {
        class: `hbx-state${isSet ? " hbx-chosen" : ""}${isOut && !isSet ? " hbx-excluded" : ""}${state < 0 ? " hbx-others" : ""}`,
        "aria-pressed": state < 0 ? null : String(isSet),
        "aria-label": `${node.name}: ${label}, ${percent(now)}${isOut && !isSet ? ", excluded" : ""}`,
        "data-state": state < 0 ? null : state,
        "data-label": state < 0 ? null : label,
        "data-probability": now,
      });
      this.tell(row, label, now, then);
    });
  }

  tell(row, label, now, then) {
    row.hintText ??= row.element.appendChild(s("title", {}));
    write(row.hintText, `${label}: ${probability(now)}, without findings ${probability(then)}`);
  }
}
