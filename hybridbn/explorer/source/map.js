// The whole network in small: where the findings are, and where the beliefs have moved.

import { h, s, set } from "./dom.js";

export class NetworkMap {
  constructor(store) {
    this.store = store;
    const { layout, nodes } = store.content;
    const [width, height] = layout.box;
    const lines = layout.arcs.map(([, , points]) => `M${points[0].join(" ")}L${points.slice(1).map((point) => point.join(" ")).join("L")}`);
    this.boxes = new Map(
      layout.nodes.map(([index, x, y]) => {
        const box = s("rect", { x: x - width / 2, y: y - height / 2, width, height, rx: 14 }, s("title", {}, nodes[index].name));
        box.addEventListener("click", () => store.select(index, { center: true }));
        return [index, box];
      }),
    );
    const svg = s("svg", { class: "hbx-map-picture", viewBox: `0 0 ${layout.width} ${layout.height}`, "aria-hidden": "true" },
      s("path", { class: "hbx-map-arcs", d: lines.join("") }), [...this.boxes.values()]); // prettier-ignore
    this.element = h("div", { class: "hbx-map" }, svg);
  }

  update(shown) {
    this.boxes.forEach((box, index) => {
      const finding = this.store.finding(index);
      const kind = finding ? (finding.set ? "hbx-set" : "hbx-found") : "";
      const near = shown?.has(index) && !this.store.content.boxes ? " hbx-shown" : "";
      set(box, {
        class: `hbx-map-node ${kind}${near}${this.store.selected === index ? " hbx-selected" : ""}`,
        "fill-opacity": kind ? 1 : (0.12 + 0.88 * Math.min(1, 1.5 * this.store.shift(index))).toFixed(3),
      });
    });
  }
}
