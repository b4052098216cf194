// The bar above the graph: modes, undo, rows of a table, views; and below it what is known.

import { stemsOf } from "./density.js";
import { h, makeId, set, write } from "./dom.js";
import { describe } from "./findings.js";
import { probability, short } from "./format.js";

export class Toolbar {
  constructor(store, scene) {
    this.store = store;
    const button = (text, label, onclick, more = {}) => h("button", { type: "button", class: "hbx-button", title: label, "aria-label": label, onclick, ...more }, text);
    this.observe = button("Observe", "Observe: clicks say what was seen", () => store.update({ intervening: false }));
    this.intervene = button("Intervene", "Intervene: clicks set a node, whatever its parents are", () =>
      store.offers.set ? store.update({ intervening: true }) : store.refuse("interventions"),
    );
    this.undo = button("↶", "Undo (Ctrl+Z)", () => store.undo());
    this.redo = button("↷", "Redo (Ctrl+Shift+Z)", () => store.redo());
    this.clear = button("Clear", "Retract all findings", () => store.clear());
    this.probable = button("◆ Most probable", "Mark the most probable explanation", () => store.toggleProbable());
    const views = (name) => button(name === "graph" ? "Graph" : "List", name === "graph" ? "Show the graph" : "Show the nodes one below the other", () => store.update({ view: name }));
    [this.graph, this.list] = [views("graph"), views("list")];
    this.zoom = h("span", { class: "hbx-group", role: "group", "aria-label": "zoom" },
      button("−", "Smaller", () => scene.zoomBy(1 / 1.2)), button("Fit", "Fit the graph", () => scene.zoomBy(null)), button("+", "Larger", () => scene.zoomBy(1.2))); // prettier-ignore
    const names = makeId("names");
    this.search = h("input", { type: "search", class: "hbx-field hbx-search", placeholder: "Find a node", "aria-label": "Find a node", list: names });
    this.search.addEventListener("change", () => this.find());
    const options = h("datalist", { id: names }, store.nodes.map((node) => h("option", { value: node.name })));
    this.scene = scene;
    this.rows = store.content.rows ? this.makeRows(button) : null;
    this.element = h("div", { class: "hbx-toolbar", role: "toolbar", "aria-label": "Explorer" },
      h("span", { class: "hbx-title-text" }, store.content.title),
      h("span", { class: "hbx-group", role: "group", "aria-label": "mode" }, this.observe, this.intervene),
      h("span", { class: "hbx-group hbx-history", role: "group", "aria-label": "history" }, this.undo, this.redo, this.clear),
      this.probable, this.rows,
      h("span", { class: "hbx-space" }), store.nodes.length > 8 ? [this.search, options] : null,
      h("span", { class: "hbx-group", role: "group", "aria-label": "view" }, this.graph, this.list), this.zoom,
      (this.theme = button("◐", "Light or dark", () => this.onTheme?.(), { class: "hbx-button hbx-theme" }))); // prettier-ignore
    this.chips = h("div", { class: "hbx-chips", role: "group", "aria-label": "Findings" });
  }

  makeRows(button) {
    const { store } = this;
    const go = (row) => store.goToRow(row);
    this.rowField = h("input", { type: "text", inputmode: "numeric", class: "hbx-field hbx-row", "aria-label": "row of the table", placeholder: "row",
      onchange: () => Number(this.rowField.value) && go(Math.round(Number(this.rowField.value)) - 1) }); // prettier-ignore
    const count = store.content.rows;
    return h("span", { class: "hbx-group", role: "group", "aria-label": "rows of the table" },
      button("‹", "Previous row", () => go((store.row ?? 1) - 1)), this.rowField, h("span", { class: "hbx-of" }, `of ${count}`),
      button("›", "Next row", () => go((store.row ?? -1) + 1))); // prettier-ignore
  }

  find() {
    const text = this.search.value.trim().toLowerCase();
    if (!text) return;
    const names = this.store.nodes.map((node) => node.name.toLowerCase());
    const exact = names.indexOf(text);
    const index = exact >= 0 ? exact : names.findIndex((name) => name.includes(text));
    if (index < 0) {
      set(this.search, { "aria-invalid": "true" });
      return;
    }
    set(this.search, { "aria-invalid": null });
    this.search.value = "";
    this.store.update({ compared: null });
    this.store.select(index, { center: true });
    queueMicrotask(() => queueMicrotask(() => this.scene.reveal(index)));
  }

  update() {
    const { store } = this;
    const press = (button, isOn) => set(button, { "aria-pressed": String(isOn) });
    press(this.observe, !store.intervening);
    press(this.intervene, store.intervening);
    press(this.graph, store.view === "graph");
    press(this.list, store.view === "list");
    press(this.probable, store.probable !== null);
    set(this.zoom, { hidden: store.view === "list" });
    set(this.undo, { disabled: !store.past.length });
    set(this.redo, { disabled: !store.future.length });
    set(this.clear, { disabled: !store.findings.length });
    set(this.probable, { hidden: !store.offers.probable });
    set(this.intervene, { "aria-disabled": store.offers.set ? null : "true" });
    if (this.rowField && document.activeElement !== this.rowField) this.rowField.value = store.row === null ? "" : String(store.row + 1);
    this.updateChips();
  }

  updateChips() {
    const { store } = this;
    const key = JSON.stringify([store.findings, store.logEvidence, store.error?.stale]);
    if (key === this.key) return;
    this.key = key;
    const chips = store.findings.map((finding) =>
      h("span", { class: `hbx-chip${finding.set ? " hbx-set" : ""}` },
        h("button", { type: "button", class: "hbx-chip-text", onclick: () => store.select(finding.node, { center: true }) }, describe(finding, store.nodes[finding.node])),
        h("button", { type: "button", class: "hbx-chip-cross", "aria-label": `retract ${describe(finding, store.nodes[finding.node])}`, onclick: () => store.retract(finding.node) }, "×")), // prettier-ignore
    );
    const observed = store.findings.filter((finding) => !finding.set);
    // values with a probability of their own add to it, others have a density
    const isPoint = ({ node, value }) => store.nodes[node].family === "Atoms" && stemsOf(store.content.prior[node]).some(([stem]) => stem === value);
    const isDensity = observed.some((finding) => "value" in finding && !isPoint(finding));
    const isPlain = observed.length && !store.error?.stale && Number.isFinite(store.logEvidence);
    const p = Math.exp(store.logEvidence);
    const text = isDensity || p < 1e-12 ? `log ${isDensity ? "density" : "probability"} ${short(store.logEvidence, 4)}` : `probability of these findings ${probability(p)}`;
    this.chips.replaceChildren(
      ...(chips.length ? chips : [h("span", { class: "hbx-muted" }, "Nothing is known yet. Click a state, or drag over a curve.")]),
      isPlain ? h("span", { class: "hbx-muted hbx-likelihood", "data-log-evidence": store.logEvidence }, text) : "",
    );
  }
}

/** What went wrong, or what to know about the answers. */
export class Notice {
  constructor(store) {
    this.store = store;
    this.text = h("span", {});
    this.retry = h("button", { type: "button", class: "hbx-button hbx-small", onclick: () => store.refresh() }, "Try again");
    this.undo = h("button", { type: "button", class: "hbx-button hbx-small", onclick: () => store.undo() }, "Undo");
    this.close = h("button", { type: "button", class: "hbx-chip-cross", "aria-label": "close", onclick: () => store.update({ error: null, remark: null, notes: [] }) }, "×");
    this.element = h("div", { class: "hbx-notice", role: "alert" }, this.text, this.retry, this.undo, this.close);
  }

  update() {
    const { error, notes, remark } = this.store;
    const text = error?.text ?? remark ?? notes[0] ?? "";
    write(this.text, text ? text[0].toUpperCase() + text.slice(1) : "");
    set(this.element, { hidden: !text, class: `hbx-notice${error ? " hbx-error" : ""}` });
    set(this.retry, { hidden: !error?.retry });
    set(this.undo, { hidden: !error?.undo });
  }
}
