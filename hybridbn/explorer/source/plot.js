// A belief in a number, in a rectangle: a curve and stems, the prior as a ghost, what is known, and a brush that sets a
// value or an interval.

import { s, set, write, measure } from "./dom.js";
import { curveOf, heightOf, rangeOf, roundTo, stemsOf, widthOf } from "./density.js";
import { dateTicks, snap, stepOf, ticks, valueText } from "./format.js";

const CLICK = 4;
/** A click so many pixels beside a stem means it. */
const REACH = 5;

export class Plot {
  /** @param onSet called with (low, high) when the user has chosen */
  constructor(node, box, onSet) {
    this.node = node;
    this.box = box;
    this.ghost = s("path", { class: "hbx-ghost-line" });
    this.area = s("path", { class: "hbx-area" });
    this.line = s("path", { class: "hbx-line" });
    this.ghostStems = s("path", { class: "hbx-ghost-stem" });
    this.stems = s("path", { class: "hbx-stem" });
    this.caps = s("path", { class: "hbx-cap" });
    this.band = s("rect", { class: "hbx-band", visibility: "hidden" });
    this.rule = s("line", { class: "hbx-rule", visibility: "hidden" });
    this.best = s("path", { class: "hbx-best", visibility: "hidden" });
    this.brush = s("rect", { class: "hbx-brush", visibility: "hidden" });
    this.brushText = s("text", { class: "hbx-brush-text", visibility: "hidden", "text-anchor": "middle" });
    this.axis = s("line", { class: "hbx-axis" });
    this.labels = s("g", { class: "hbx-ticks" });
    this.hit = s("rect", { class: "hbx-hit hbx-drag" });
    this.element = s("g", {}, this.band, this.ghostStems, this.ghost, this.area, this.line, this.stems, this.caps, this.axis, this.labels, this.rule,
      this.best, this.brush, this.brushText, this.hit); // prettier-ignore
    this.listen(onSet);
    this.resize(box);
  }

  resize(box) {
    this.box = box;
    const { left, top, width, height } = box;
    const floor = top + height - 14;
    set(this.axis, { x1: left, x2: left + width, y1: floor, y2: floor });
    set(this.hit, { x: left - 6, y: top - 2, width: width + 12, height: height + 2 });
    this.floor = floor;
  }

  across(value) {
    const [low, high] = this.range;
    return this.box.left + ((value - low) / (high - low)) * this.box.width;
  }

  update(belief, prior, finding, probable) {
    const { left, top, width } = this.box;
    const step = stepOf(this.node);
    this.range = rangeOf(prior, belief, finding, this.node.domain, step || 1);
    const isKnown = finding && "value" in finding;
    const curve = isKnown ? null : curveOf(belief);
    const stems = isKnown ? [] : stemsOf(belief);
    this.points = [...new Set([...stemsOf(prior), ...stems].map(([value]) => value))];
    const before = curveOf(prior);
    const isChanged = belief !== prior;
    // beside stems a curve shows the probabilities of intervals; without, only its form counts
    const per = this.points.length ? widthOf(this.range, step) : 1;
    const shown = isChanged || isKnown ? [[curve, stems], [before, stemsOf(prior)]] : [[curve, stems]];
    const highest = Math.max(...shown.flatMap(([each, some]) => [per * heightOf(each), ...some.map(([, p]) => p)])) || 1;
    const up = (p) => this.floor - Math.min(p / highest, 1) * (this.floor - top);
    const path = (points, close) => {
      if (!points) return "";
      const at = (x, y) => `${this.across(x).toFixed(1)} ${up(per * y).toFixed(1)}`;
      const middle = points.x.map((x, i) => at(x, points.y[i])).join("L");
      return close ? `M${at(points.x[0], 0)}L${middle}L${at(points.x.at(-1), 0)}Z` : `M${middle}`;
    };
    set(this.area, { d: path(curve, true) });
    set(this.line, { d: path(curve, false) });
    set(this.ghost, { d: isChanged || isKnown ? path(before, false) : "" });
    const room = (step / (this.range[1] - this.range[0])) * width;
    const thick = room < 1.5 ? 3 : Math.min(0.55 * room, 7);
    const draw = (some, from) => some.map(([value, p]) => from(this.across(value).toFixed(1), up(p).toFixed(1))).join("");
    const ghosts = isChanged || isKnown ? stemsOf(prior) : [];
    set(this.stems, { d: draw(stems, (x, y) => `M${x} ${this.floor}V${y}`), "stroke-width": thick });
    set(this.ghostStems, { d: draw(ghosts, (x, y) => `M${x} ${this.floor}V${y}`), "stroke-width": thick });
    set(this.caps, { d: draw(ghosts, (x, y) => `M${x - thick / 2 - 1} ${y}h${thick + 2}`) });
    this.drawTicks();
    let value = finding?.value;
    let between = finding?.between;
    if (finding?.about) {
      const [mean, deviation] = finding.about;
      [value, between] = [mean, [mean - deviation, mean + deviation]];
    }
    set(this.rule, {
      visibility: value === undefined ? "hidden" : null,
      class: finding?.set ? "hbx-rule hbx-set" : "hbx-rule",
      x1: value === undefined ? 0 : this.across(value),
      x2: value === undefined ? 0 : this.across(value),
      y1: top,
      y2: this.floor + 4,
    });
    if (between) {
      const [low, high] = [between[0] ?? this.range[0], between[1] ?? this.range[1]];
      const [x0, x1] = [Math.max(this.across(low), left), Math.min(this.across(high), left + width)];
      set(this.band, { visibility: null, x: x0, width: Math.max(1, x1 - x0), y: top, height: this.floor - top });
    } else set(this.band, { visibility: "hidden" });
    if (probable && "value" in probable) {
      const x = Math.min(Math.max(this.across(probable.value), left), left + width);
      set(this.best, { visibility: null, d: `M${x} ${this.floor - 5}l4 5l-4 5l-4 -5Z` });
    } else set(this.best, { visibility: "hidden" });
  }

  drawTicks() {
    const { left, width } = this.box;
    const [low, high] = this.range;
    const step = stepOf(this.node);
    const isDate = this.node.unit === "date" || this.node.unit === "datetime";
    const room = step ? 8 + measure(valueText(this.node, Math.round(high)), "9px") : 34;
    const most = Math.max(2, Math.floor(width / (isDate || this.node.unit === "time" ? 56 : room)));
    const marks = (isDate && dateTicks(low, high, most)) || ticks(low, high, most, step).map((mark) => [mark, valueText(this.node, mark)]);
    const key = `${low}|${high}|${width}`;
    if (key === this.drawn) return;
    this.drawn = key;
    let free = -Infinity;
    this.labels.replaceChildren(
      ...marks.flatMap(([mark, text]) => {
        const half = measure(text, "9px") / 2;
        const x = Math.min(Math.max(this.across(mark), left - 4 + half), left + width + 4 - half);
        const tick = s("line", { x1: this.across(mark), x2: this.across(mark), y1: this.floor, y2: this.floor + 3 });
        if (x - half < free) return [tick];
        free = x + half + 6;
        return [tick, s("text", { x, y: this.floor + 12, "text-anchor": "middle" }, text)];
      }),
    );
  }

  /** Turn presses and drags into values. */
  listen(onSet) {
    let start = null;
    const valueAt = (event) => {
      const matrix = this.hit.getScreenCTM().inverse();
      const { left, width } = this.box;
      const x = Math.min(Math.max(event.clientX * matrix.a + matrix.e, left), left + width);
      const [low, high] = this.range;
      const value = roundTo(low + ((x - left) / width) * (high - low), this.range);
      return snap(this.node, value, this.points, (REACH / width) * (high - low));
    };
    const end = () => {
      start = null;
      set(this.brush, { visibility: "hidden" });
      set(this.brushText, { visibility: "hidden" });
      document.removeEventListener("keydown", cancel, true);
    };
    const cancel = (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        end();
      }
    };
    this.hit.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.range) return;
      event.preventDefault();
      this.hit.setPointerCapture(event.pointerId);
      start = { x: event.clientX, value: valueAt(event) };
      document.addEventListener("keydown", cancel, true);
    });
    this.hit.addEventListener("pointermove", (event) => {
      if (!start) return;
      const [a, b] = [start.value, valueAt(event)];
      const [x0, x1] = [this.across(Math.min(a, b)), this.across(Math.max(a, b))];
      const { top, left, width } = this.box;
      const isDrag = Math.abs(event.clientX - start.x) >= CLICK;
      set(this.brush, { visibility: null, x: x0 - (isDrag ? 0 : 0.5), width: Math.max(1, x1 - x0), y: top, height: this.floor - top });
      const text = isDrag ? `${valueText(this.node, Math.min(a, b))} – ${valueText(this.node, Math.max(a, b))}` : valueText(this.node, b);
      const half = measure(text, "10px") / 2;
      set(this.brushText, { visibility: null, x: Math.min(Math.max((x0 + x1) / 2, left + half), left + width - half), y: top + 9 });
      write(this.brushText, text);
    });
    this.hit.addEventListener("pointerup", (event) => {
      if (!start) return;
      const value = valueAt(event);
      const isDrag = Math.abs(event.clientX - start.x) >= CLICK && value !== start.value;
      const [low, high] = isDrag ? [Math.min(start.value, value), Math.max(start.value, value)] : [value, value];
      end();
      onSet(low, high);
    });
    this.hit.addEventListener("pointercancel", end);
  }
}
