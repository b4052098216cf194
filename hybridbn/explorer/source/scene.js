// The graph: boxes and arcs where the layout has them, or one below the other; with keys, and a zoom.

import { h, s, set } from "./dom.js";
import { NodeView, ROW, TITLE } from "./node_view.js";

const CARD_GAP = 10;

/** A smooth line downwards through the points of an arc. */
function drawRoute(points) {
  let [x, y] = points[0];
  let path = `M${x} ${y}`;
  for (const [endX, endY] of points.slice(1)) {
    const middle = ((y + endY) / 2).toFixed(1);
    path += `C${x} ${middle} ${endX} ${middle} ${endX} ${endY}`;
    [x, y] = [endX, endY];
  }
  return { line: path, head: `M${x - 4} ${y - 7.5}L${x} ${y}L${x + 4} ${y - 7.5}Z` };
}

/** Boxes in columns, parents first, each as high as its node needs. */
function stack(nodes, order, box, width) {
  const columns = Math.max(1, Math.floor((width + CARD_GAP) / (300 + CARD_GAP)));
  const cardWidth = Math.max(200, (width - CARD_GAP * (columns + 1)) / columns);
  const placed = [];
  const sizes = new Map();
  let top = CARD_GAP;
  for (let first = 0; first < order.length; first += columns) {
    const row = order.slice(first, first + columns);
    const height = Math.max(...row.map((index) => heightOf(nodes[index], box)));
    row.forEach((index, i) => {
      placed.push([index, CARD_GAP + i * (cardWidth + CARD_GAP) + cardWidth / 2, top + height / 2]);
      sizes.set(index, [cardWidth, height]);
    });
    top += height + CARD_GAP;
  }
  return { box: [cardWidth, box[1]], sizes, width, height: top, nodes: placed, arcs: [] };
}

const heightOf = (node, box) => (node.states ? TITLE + 8 + ROW * Math.min(node.states.length, 8) : Math.max(box[1], 104));

export class Scene {
  constructor(store) {
    this.store = store;
    this.views = new Map();
    this.arcsLayer = s("g", { class: "hbx-arcs", "aria-hidden": "true" });
    this.nodesLayer = s("g", {});
    this.svg = s("svg", { class: "hbx-graph", role: "group", "aria-label": "network" }, this.arcsLayer, this.nodesLayer);
    this.element = h("div", { class: "hbx-canvas" }, this.svg);
    this.current = null;
    this.key = null;
    this.neighborhoods = new Map();
    this.element.addEventListener("keydown", (event) => this.handleKey(event));
    this.element.addEventListener("focusin", (event) => this.follow(event.target));
    // what a press does, the click after it does; nothing must move in between
    this.element.addEventListener("pointerdown", () => {
      this.isPressed = true;
    }, true);
    for (const event of ["pointerup", "pointercancel"]) {
      window.addEventListener(event, () => {
        this.isPressed = false;
      });
    }
    this.element.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.zoomBy(event.deltaY < 0 ? 1.1 : 1 / 1.1);
    }, { passive: false }); // prettier-ignore
    this.pan();
  }

  /** Move the graph by dragging what lies between its boxes. */
  pan() {
    let start = null;
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.target !== this.svg || event.pointerType === "touch" || event.button !== 0) return;
      start = { x: event.clientX + this.element.scrollLeft, y: event.clientY + this.element.scrollTop };
      this.svg.setPointerCapture(event.pointerId);
      set(this.svg, { class: "hbx-graph hbx-panning" });
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (start) this.element.scrollTo(start.x - event.clientX, start.y - event.clientY);
    });
    const end = () => {
      start = null;
      set(this.svg, { class: "hbx-graph" });
    };
    this.svg.addEventListener("pointerup", end);
    this.svg.addEventListener("pointercancel", end);
  }

  get isList() {
    return this.store.view === "list";
  }

  /** The layout of what is shown: of everything, or of the neighborhood of one node. */
  async findLayout() {
    const { content, center } = this.store;
    if (content.boxes) return content.layout;
    if (!this.neighborhoods.has(center)) {
      const answer = await this.store.send({ ask: "neighborhood", node: center });
      if (answer.error) {
        this.store.update({ error: { text: answer.error, retry: answer.lost } });
        return null;
      }
      this.neighborhoods.set(center, answer.layout);
    }
    return this.neighborhoods.get(center);
  }

  async update() {
    const { store } = this;
    const width = Math.max(240, Math.floor(this.element.clientWidth) - 2);
    const key = `${store.content.boxes || store.center}|${store.view}|${this.isList ? width : ""}`;
    if (key !== this.key) {
      this.key = key;
      const layout = await this.findLayout();
      if (!layout || key !== this.key) return;
      this.rebuild(layout, width);
    }
    this.scale(width);
    this.views.forEach((view) => view.update());
    this.arcs?.forEach(({ start, end, element }) => {
      const isNear = start === store.selected || end === store.selected;
      const isCut = store.finding(end)?.set === true;
      set(element, { class: `hbx-arc${isNear ? " hbx-near" : ""}${isCut ? " hbx-cut" : ""}` });
    });
    if (!this.current || !this.views.has(this.current.node)) this.current = { node: [...this.views.keys()][0], item: 0 };
    this.markCurrent();
  }

  rebuild(layout, width) {
    const hadFocus = this.element.contains(document.activeElement);
    this.layout = layout;
    if (this.isList) {
      const order = [...layout.nodes].sort((a, b) => a[2] - b[2] || a[1] - b[1]).map(([index]) => index);
      this.layout = stack(this.store.nodes, order, layout.box, width);
    }
    const { box, nodes, arcs, sizes } = this.layout;
    const sizeOf = (index) => sizes?.get(index) ?? box;
    this.views = new Map(nodes.map(([index]) => [index, new NodeView(this.store, index, sizeOf(index))]));
    nodes.forEach(([index, x, y]) => {
      const [wide, high] = sizeOf(index);
      set(this.views.get(index).element, { transform: `translate(${x - wide / 2} ${y - high / 2})` });
    });
    const { store } = this;
    this.views.forEach((view, index) => {
      const near = [...store.nodes[index].parents, ...store.children[index]];
      view.hiddenNeighbors = near.filter((other) => !this.views.has(other)).length;
    });
    this.places = new Map(nodes.map(([index, x, y]) => [index, { x, y }]));
    this.arcs = arcs.map(([start, end, points]) => {
      const { line, head } = drawRoute(points);
      return { start, end, element: s("g", { class: "hbx-arc" }, s("path", { d: line, fill: "none" }), s("path", { class: "hbx-head", d: head })) };
    });
    this.arcsLayer.replaceChildren(...this.arcs.map((arc) => arc.element));
    const order = [...nodes].sort((a, b) => a[2] - b[2] || a[1] - b[1]);
    this.nodesLayer.replaceChildren(...order.map(([index]) => this.views.get(index).element));
    this.current = { node: this.views.has(this.store.selected) ? this.store.selected : order[0][0], item: 0 };
    this.needsCenter = true;
    if (hadFocus) queueMicrotask(() => this.views.get(this.current.node)?.items[0].focus());
  }

  /** Choose a scale at which the graph can be read, whole where that is possible. */
  scale(width) {
    const { layout, store } = this;
    const fitting = Math.min(store.content.boxes ? 1.25 : 1.1, (width - 4) / layout.width, Math.max(0.8, (this.element.clientHeight - 4) / layout.height));
    const scale = this.isList ? 1 : (store.zoom ?? Math.max(0.7, fitting));
    set(this.svg, {
      class: `hbx-graph${this.isList ? " hbx-stacked" : ""}`,
      viewBox: `0 0 ${layout.width} ${layout.height}`,
      width: Math.floor(layout.width * scale),
      height: Math.floor(layout.height * scale),
    });
    this.shownScale = scale;
    if (this.needsCenter) {
      this.needsCenter = false;
      const place = store.content.boxes ? null : this.places.get(store.center);
      const middle = place ? place.x * scale : (layout.width * scale) / 2;
      this.element.scrollLeft = middle - this.element.clientWidth / 2;
      if (place) this.element.scrollTop = place.y * scale - this.element.clientHeight / 2;
    }
  }

  zoomBy(factor) {
    const { clientWidth, clientHeight } = this.element;
    const whole = Math.min(1.25, (clientWidth - 4) / this.layout.width, (clientHeight - 4) / this.layout.height);
    const zoom = factor === null ? whole : Math.min(2.5, Math.max(0.2, (this.shownScale ?? 1) * factor));
    this.store.update({ zoom });
  }

  /** Bring a node into view. */
  reveal(node) {
    const view = this.views.get(node);
    view?.element.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
  }

  // -- keys -----------------------------------------------------------------------------------------------------------

  markCurrent() {
    this.views.forEach((view, node) => {
      view.items.forEach((item, i) => {
        set(item, { tabindex: node === this.current.node && i === this.current.item ? "0" : "-1" });
      });
    });
  }

  follow(target) {
    for (const [node, view] of this.views) {
      const item = view.items.indexOf(target);
      if (item >= 0) {
        this.current = { node, item };
        this.markCurrent();
        if (this.store.selected !== node && !this.isPressed) this.store.select(node);
        return;
      }
    }
  }

  focusOn(node, item) {
    const view = this.views.get(node);
    if (!view) return;
    view.items[Math.min(Math.max(item, 0), view.items.length - 1)].focus();
  }

  /** The nearest node in a direction. */
  findNear(dx, dy) {
    const from = this.places.get(this.current.node);
    let best = null;
    let least = Infinity;
    this.places.forEach((to, node) => {
      const along = (to.x - from.x) * dx + (to.y - from.y) * dy;
      const aside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
      const cost = along + 2.5 * aside;
      if (node !== this.current.node && along > 1 && cost < least) [best, least] = [node, cost];
    });
    return best;
  }

  handleKey(event) {
    const view = this.current && this.views.get(this.current.node);
    if (!view || event.altKey || event.ctrlKey || event.metaKey) return;
    const { node, item } = this.current;
    const move = (dx, dy, last) => {
      const near = this.findNear(dx, dy);
      if (near !== null) this.focusOn(near, last ? 99 : 0);
    };
    const keys = {
      ArrowDown: () => (item + 1 < view.items.length ? this.focusOn(node, item + 1) : move(0, 1)),
      ArrowUp: () => (item > 0 ? this.focusOn(node, item - 1) : move(0, -1, true)),
      ArrowRight: () => move(1, 0),
      ArrowLeft: () => move(-1, 0),
      Home: () => this.focusOn(node, 0),
      End: () => this.focusOn(node, 99),
      Delete: () => this.store.retract(node),
      Backspace: () => this.store.retract(node),
      Enter: () => this.press(view, item, event.shiftKey),
      " ": () => this.press(view, item, event.shiftKey),
      n: () => this.press(view, item, true),
    };
    if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  press(view, item, exclude) {
    if (item === 0) this.store.select(view.index, { center: true });
    else if (view.rows) view.activate(view.rows[item - 1], exclude);
    else {
      this.store.update({ selected: view.index, tab: "node" });
      queueMicrotask(() => queueMicrotask(() => this.onType?.()));
    }
  }
}
