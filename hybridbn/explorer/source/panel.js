// What there is to know about the selected node, and the scenarios.

import { h, makeId, s, set } from "./dom.js";
import { describe, isHard, toLink, withFinding } from "./findings.js";
import { fits, meanText, parseValue, percent, probability, rangeText, short, spanText, valueText } from "./format.js";
import { LEVELS } from "./density.js";
import { Plot } from "./plot.js";

const TABS = [
  ["node", "Node"],
  ["why", "Why"],
  ["next", "Ask next"],
  ["scenarios", "Scenarios"],
];
const MOST_RANKS = 15;

export class Panel {
  constructor(store) {
    this.store = store;
    this.keys = {};
    this.bodyId = makeId("panel");
    this.tabs = TABS.map(([name, title]) =>
      h("button", { type: "button", role: "tab", class: "hbx-tab", id: `${this.bodyId}-${name}`, "aria-controls": this.bodyId,
        onclick: () => store.update({ tab: name }) }, title), // prettier-ignore
    );
    const list = h("div", { class: "hbx-tabs", role: "tablist", "aria-label": "Details", onkeydown: (event) => this.handleKey(event) }, this.tabs);
    this.head = h("div", {});
    this.editor = h("div", {});
    this.rest = h("div", {});
    this.body = h("div", { class: "hbx-panel-body", role: "tabpanel", id: this.bodyId }, this.head, this.editor, this.rest);
    this.element = h("aside", { class: "hbx-panel", "aria-label": "Details" }, list, this.body);
  }

  handleKey(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = TABS.findIndex(([name]) => name === this.store.tab);
    const next = (now + step + TABS.length) % TABS.length;
    this.store.update({ tab: TABS[next][0] });
    this.tabs[next].focus();
  }

  /** Rebuild a part only when what it depends on has changed, so that a text that is being typed stays. */
  refill(part, key, make) {
    if (this.keys[part] === key) return;
    this.keys[part] = key;
    this[part].replaceChildren(...[make()].flat().filter(Boolean));
  }

  update() {
    const { store } = this;
    const { tab, selected, version } = store;
    TABS.forEach(([name], i) => {
      set(this.tabs[i], { "aria-selected": String(name === tab), tabindex: name === tab ? "0" : "-1" });
    });
    set(this.body, { "aria-labelledby": `${this.bodyId}-${tab}` });
    const finding = JSON.stringify(store.finding(selected) ?? null);
    const where = `${tab}|${selected}`;
    this.refill("head", tab === "scenarios" ? tab : `${where}|${finding}`, () => (tab === "scenarios" ? [] : this.makeHead()));
    const parts = {
      node: () => [`${where}|${finding}|${store.intervening}`, () => this.makeEditor(), `${where}|${version}|${finding}`, () => this.makeBelief()],
      why: () => [`${where}|${version}`, () => this.makeWhy(), where, () => []],
      next: () => [`${where}|${version}`, () => this.makeNext(), where, () => []],
      scenarios: () => [tab, () => this.makeScenarioForm(), `${tab}|${JSON.stringify(store.scenarios)}|${version}`, () => this.makeScenarios()],
    };
    const [editorKey, makeEditor, restKey, makeRest] = parts[tab]();
    this.refill("rest", restKey, makeRest);
    this.refill("editor", editorKey, makeEditor);
    set(this.body, { class: `hbx-panel-body hbx-tab-${tab}` });
  }

  get node() {
    return this.store.nodes[this.store.selected];
  }

  link(index) {
    const { name } = this.store.nodes[index];
    return h("button", { type: "button", class: "hbx-link", onclick: () => this.store.select(index, { center: true }) }, name);
  }

  makeHead() {
    const { store, node } = this;
    const links = (numbers) => numbers.slice(0, 12).flatMap((index, i) => [i ? ", " : "", this.link(index)]);
    const more = (numbers) => (numbers.length > 12 ? ` and ${numbers.length - 12} more` : "");
    const children = store.children[store.selected];
    const kind = node.states ? `${node.states.length} states` : (node.unit ?? "number");
    const finding = store.finding(store.selected);
    return [
      h("h2", { class: "hbx-heading" }, node.name),
      h("p", { class: "hbx-muted" }, `${kind} · ${node.family}`),
      node.parents.length ? h("p", { class: "hbx-relatives" }, "from ", links(node.parents), more(node.parents)) : null,
      children.length ? h("p", { class: "hbx-relatives" }, "to ", links(children), more(children)) : null,
      finding
        ? h("p", { class: `hbx-said${finding.set ? " hbx-set" : ""}` }, describe(finding, node),
            h("button", { type: "button", class: "hbx-button hbx-small", onclick: () => store.retract(store.selected) }, "Retract")) // prettier-ignore
        : null,
    ];
  }

  // -- the belief in a node -------------------------------------------------------------------------------------------

  makeBelief() {
    const { store, node } = this;
    const index = store.selected;
    const prior = store.content.prior[index];
    const finding = store.finding(index);
    if (node.states) {
      const p = finding && "state" in finding ? node.states.map((_, i) => Number(i === finding.state)) : store.belief(index)?.p;
      if (!p) return h("p", { class: "hbx-hint" }, "Not known: these findings have no answer here.");
      return h("table", { class: "hbx-table" },
        h("thead", {}, h("tr", {}, h("th", {}, "state"), h("th", {}), h("th", { class: "hbx-number" }, "now"), h("th", { class: "hbx-number" }, "before"), h("th", {}))),
        h("tbody", {}, node.states.map((label, state) => h("tr", { class: finding?.state === state ? "hbx-row-chosen" : null },
          h("td", {}, h("button", { type: "button", class: "hbx-link", "aria-pressed": String(finding?.state === state), title: "set or retract",
            onclick: () => store.clickState(index, state, false) }, label)),
          h("td", { class: "hbx-bar-cell" }, this.makeBar(p[state], prior?.p?.[state])),
          h("td", { class: "hbx-number" }, probability(p[state])),
          h("td", { class: "hbx-number hbx-muted" }, prior?.p ? probability(prior.p[state]) : ""),
          h("td", {}, store.offers.not && node.states.length > 1 ? h("button", { type: "button", class: "hbx-button hbx-small", title: `not ${label}`,
            "aria-label": `exclude ${label}`, onclick: () => store.clickState(index, state, true) }, "not") : null))))); // prettier-ignore
    }
    const belief = store.belief(index);
    const plot = new Plot(node, { left: 14, top: 14, width: 272, height: 120 }, (low, high) => store.setNumber(index, low, high));
    plot.update(belief, prior, finding, store.probable?.get(index));
    const picture = s("svg", { class: "hbx-big-plot", viewBox: "0 0 300 138", role: "img", "aria-label": `belief in ${node.name}` }, plot.element);
    const line = (name, now, then) => h("tr", {}, h("td", {}, name), h("td", { class: "hbx-number" }, now), h("td", { class: "hbx-number hbx-muted" }, then));
    const known = finding && "value" in finding ? { mean: finding.value, sd: 0, q: LEVELS.map(() => finding.value) } : belief;
    if (!known) return picture;
    const q = (each, i) => (each?.q ? valueText(node, each.q[i], 5) : "");
    return [
      picture,
      h("table", { class: "hbx-table" },
        h("thead", {}, h("tr", {}, h("th", {}), h("th", { class: "hbx-number" }, "now"), h("th", { class: "hbx-number" }, "before"))),
        h("tbody", {},
          line("mean", valueText(node, known.mean, 6), prior ? valueText(node, prior.mean, 6) : ""),
          line("standard deviation", spanText(node, known.sd), prior ? spanText(node, prior.sd) : ""),
          [0, 1, 2, 4, 6, 7, 8].map((i) => line(i === 4 ? "median" : `${Math.round(100 * LEVELS[i])} % quantile`, q(known, i), q(prior, i))))), // prettier-ignore
    ];
  }

  makeBar(p, before) {
    return s("svg", { class: "hbx-mini", viewBox: "0 0 80 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("rect", { class: "hbx-track", width: 80, height: 12, rx: 2 }),
      before === undefined ? null : s("rect", { class: "hbx-ghost", width: 80 * before, height: 12, rx: 2 }),
      s("rect", { class: "hbx-bar", width: 80 * p, height: 12, rx: 2 }),
      before === undefined ? null : s("rect", { class: "hbx-tick", x: Math.max(0, 80 * before - 1), width: 1.5, height: 12 })); // prettier-ignore
  }

  // -- setting it -----------------------------------------------------------------------------------------------------

  makeEditor() {
    const { store, node } = this;
    if (node.states) return store.offers.soft && !store.intervening ? this.makeSoftEditor() : [];
    const hint = h("p", { class: "hbx-hint" }, "Click the picture: the value becomes the nearest for which answers were computed before. Drag for an interval.");
    return [store.offers.values ? hint : null, ...this.makeNumberEditor()];
  }

  makeSoftEditor() {
    const { store, node } = this;
    const index = store.selected;
    const finding = store.finding(index);
    const weights = finding?.weights ?? node.states.map((_, i) => (finding ? Number("state" in finding ? finding.state === i : finding.states.includes(i)) : 1));
    const most = Math.max(...weights);
    const apply = () => {
      const numbers = sliders.map((slider) => Number(slider.value) / 100);
      if (!numbers.some((number) => number > 0)) return;
      if (numbers.every((number) => number === numbers[0])) store.retract(index);
      else store.change(withFinding(store.findings, { node: index, weights: numbers }));
    };
    const sliders = node.states.map((label, i) =>
      h("input", { type: "range", min: 0, max: 100, step: 1, value: Math.round((100 * weights[i]) / most), "aria-label": `likelihood of ${label}`, onchange: apply }),
    );
    return h("details", { class: "hbx-details", open: Boolean(finding?.weights) },
      h("summary", {}, "Soft evidence"),
      h("p", { class: "hbx-hint" }, "How well does what was seen fit each state? Only the ratios count."),
      node.states.map((label, i) => h("label", { class: "hbx-slider" }, h("span", {}, label), sliders[i]))); // prettier-ignore
  }

  makeNumberEditor() {
    const { store, node } = this;
    const index = store.selected;
    const finding = store.finding(index);
    const text = (value) => (typeof value === "number" ? valueText(node, value, 8).replace("−", "-") : "");
    const field = (value, label) => h("input", { type: "text", inputmode: "decimal", class: "hbx-field", value: text(value), "aria-label": `${node.name}: ${label}`, placeholder: label });
    const form = (title, fields, apply) =>
      h("form", { class: "hbx-form", onsubmit: (event) => {
        event.preventDefault();
        const numbers = fields.map((input) => (input.value.trim() ? parseValue(node, input.value) : null));
        fields.forEach((input, i) => set(input, { "aria-invalid": Number.isNaN(numbers[i]) ? "true" : null }));
        if (!numbers.some(Number.isNaN)) apply(...numbers);
      } }, h("span", { class: "hbx-form-title" }, title), fields, h("button", { type: "submit", class: "hbx-button hbx-small" }, "Set")); // prettier-ignore
    this.valueField = field(finding?.value, "value");
    const forms = store.offers.values ? [] : [form("is", [this.valueField], (value) => {
      if (value === null) return;
      if (fits(node, value)) store.add(store.intervening ? { node: index, value, set: true } : { node: index, value });
      else {
        set(this.valueField, { "aria-invalid": "true" });
        store.update({ error: { text: `${node.name} can't be ${valueText(node, value)}; ${rangeText(node)}` } });
      }
    })];
    if (store.offers.between && !store.intervening) {
      const between = [field(finding?.between?.[0], "low"), field(finding?.between?.[1], "high")];
      forms.push(form("between", between, (low, high) => {
        if (low === null && high === null) return;
        if (low !== null && high !== null && !(low < high)) set(between[1], { "aria-invalid": "true" });
        else store.add({ node: index, between: [low, high] });
      })); // prettier-ignore
    }
    if (store.offers.soft && !store.offers.values && !store.intervening) {
      const about = [field(finding?.about?.[0], "measured"), h("input", { type: "text", inputmode: "decimal", class: "hbx-field", value: finding?.about ? String(finding.about[1]) : "",
        placeholder: "± sd", "aria-label": `${node.name}: standard deviation of the measurement` })]; // prettier-ignore
      forms.push(form("about", about, (mean) => {
        const deviation = Number(about[1].value.replace(",", "."));
        if (mean === null || !(deviation > 0)) set(about[1], { "aria-invalid": "true" });
        else store.add({ node: index, about: [mean, deviation] });
      })); // prettier-ignore
    }
    return forms;
  }

  // -- why, and what next ---------------------------------------------------------------------------------------------

  async ask(question, show) {
    const key = this.keys.editor;
    const answer = await this.store.ask(question);
    if (key !== this.keys.editor || !this.answerPart) return;
    this.answerPart.replaceChildren(...(answer.error ? [h("p", { class: "hbx-hint" }, answer.error)] : [show(answer)].flat()));
  }

  makeWhy() {
    const { store, node } = this;
    this.answerPart = h("div", { class: "hbx-answer", "aria-live": "polite" }, h("p", { class: "hbx-hint" }, "…"));
    if (!store.findings.some((finding) => finding.node !== store.selected)) {
      return h("p", { class: "hbx-hint" }, "Nothing is known yet. Set findings, and this shows how much each of them speaks for and against.");
    }
    if (!node.states) {
      this.ask({ ask: "why", node: store.selected }, (answer) => this.showMeans(answer));
      return this.answerPart;
    }
    const belief = store.belief(store.selected)?.p;
    const likely = belief ? belief.indexOf(Math.max(...belief)) : 0;
    const ask = (state) => this.ask({ ask: "why", node: store.selected, state }, (answer) => this.showWeights(answer));
    const choice = h("select", { class: "hbx-field", "aria-label": "state to explain", onchange: (event) => ask(Number(event.target.value)) },
      node.states.map((label, i) => h("option", { value: i, selected: i === likely }, label))); // prettier-ignore
    queueMicrotask(() => ask(likely));
    return [h("p", { class: "hbx-choice" }, `${node.name} = `, choice), this.answerPart];
  }

  showWeights(answer) {
    const { store } = this;
    const steps = [
      ["without findings", Number(answer.prior), "hbx-muted"],
      ...answer.steps.map(({ node, weight }) => [describe(store.finding(node) ?? { node, value: NaN }, store.nodes[node]), Number(weight), ""]),
      ["in all", Number(answer.log_odds), "hbx-total"],
    ];
    const most = Math.max(...steps.map(([, value]) => (Number.isFinite(value) ? Math.abs(value) : 0)), 1e-9);
    const bar = (value) => {
      const length = Number.isFinite(value) ? (38 * Math.abs(value)) / most : 39;
      return s("svg", { class: "hbx-mini hbx-weights", viewBox: "0 0 80 12", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: value < 0 ? "hbx-against" : "hbx-for", x: value < 0 ? 40 - length : 40, width: length, y: 1, height: 10 }),
        s("line", { class: "hbx-axis", x1: 40, x2: 40, y1: 0, y2: 12 })); // prettier-ignore
    };
    const sign = (value) => (value > 0 ? "+" : "") + short(value, 4);
    return [
      h("table", { class: "hbx-table" }, h("thead", {}, h("tr", {}, h("th", {}, "finding"), h("th", { class: "hbx-signs", title: "against it to the left, for it to the right" }, "− | +"), h("th", { class: "hbx-number" }, "log-odds"))),
        h("tbody", {}, steps.map(([name, value, kind]) =>
          h("tr", { class: kind }, h("td", {}, name), h("td", { class: "hbx-bar-cell" }, bar(value)), h("td", { class: "hbx-number" }, sign(value)))))),
      h("p", { class: "hbx-hint" }, `Weights of evidence, each given the findings above it; they add up to the log-odds of a probability of ${percent(Number(answer.probability))}.`),
    ]; // prettier-ignore
  }

  showMeans(answer) {
    const { store, node } = this;
    let before = answer.mean;
    const rows = answer.steps.map((step) => {
      const moved = step.mean - before;
      before = step.mean;
      return h("tr", {}, h("td", {}, describe(store.finding(step.node) ?? { node: step.node, value: NaN }, store.nodes[step.node])),
        h("td", { class: "hbx-number" }, (moved > 0 ? "+" : "") + spanText(node, moved)),
        h("td", { class: "hbx-number" }, meanText(node, step.mean, step.sd))); // prettier-ignore
    });
    return [
      h("table", { class: "hbx-table" },
        h("thead", {}, h("tr", {}, h("th", {}, "finding"), h("th", { class: "hbx-number" }, "moves by"), h("th", { class: "hbx-number" }, "mean ± sd"))),
        h("tbody", {}, h("tr", { class: "hbx-muted" }, h("td", {}, "without findings"), h("td", {}), h("td", { class: "hbx-number" }, meanText(node, answer.mean, answer.sd))), rows)),
      h("p", { class: "hbx-hint" }, "The mean after each finding, given those above it."),
    ]; // prettier-ignore
  }

  makeNext() {
    const { store } = this;
    if (!store.offers.next) {
      return h("p", { class: "hbx-hint" }, "What to ask next is not in this page; hybridbn explore answers it.");
    }
    this.answerPart = h("div", { class: "hbx-answer", "aria-live": "polite" }, h("p", { class: "hbx-hint" }, "…"));
    if (isHard(store.finding(store.selected))) {
      return h("p", { class: "hbx-hint" }, "Its value is known. Select a node that is not, to see what would tell most about it.");
    }
    queueMicrotask(() => this.ask({ ask: "next", node: store.selected }, ({ ranks }) => this.showRanks(ranks)));
    return [h("p", { class: "hbx-hint" }, "What would tell most about this node, were it observed:"), this.answerPart];
  }

  showRanks(ranks) {
    const shown = ranks.filter(({ information }) => Number(information) > 1e-9).slice(0, MOST_RANKS);
    if (!shown.length) return h("p", { class: "hbx-hint" }, "Nothing else that can be observed tells anything about it.");
    const most = Number(shown[0].information);
    return h("table", { class: "hbx-table" },
      h("thead", {}, h("tr", {}, h("th", {}, "observe"), h("th", {}), h("th", { class: "hbx-number" }, "nats"))),
      h("tbody", {}, shown.map(({ node, information }) => h("tr", {},
        h("td", {}, this.link(node)), h("td", { class: "hbx-bar-cell" }, this.makeBar(Number(information) / most)),
        h("td", { class: "hbx-number" }, short(Number(information), 3)))))); // prettier-ignore
  }

  // -- scenarios ------------------------------------------------------------------------------------------------------

  makeScenarioForm() {
    const { store } = this;
    const name = h("input", { type: "text", class: "hbx-field hbx-wide", placeholder: "name", "aria-label": "name of the scenario", maxlength: 80 });
    const save = (event) => {
      event.preventDefault();
      store.saveScenario(name.value.trim() || `Scenario ${store.scenarios.length + 1}`);
      name.value = "";
    };
    const chooser = h("input", { type: "file", accept: ".json,application/json", class: "hbx-hidden", "aria-label": "file of scenarios",
      onchange: async (event) => {
        const [file] = event.target.files;
        event.target.value = "";
        if (file && file.size < 5e6) this.readFile(await file.text());
      } }); // prettier-ignore
    return [
      h("form", { class: "hbx-form", onsubmit: save }, name, h("button", { type: "submit", class: "hbx-button" }, "Save")),
      h("p", { class: "hbx-buttons" },
        store.offers.link ? h("button", { type: "button", class: "hbx-button hbx-small", onclick: (event) => this.copyLink(event.target) }, "Copy link") : null,
        h("button", { type: "button", class: "hbx-button hbx-small", onclick: () => this.download() }, "Download"),
        h("button", { type: "button", class: "hbx-button hbx-small", onclick: () => chooser.click() }, "Open file"), chooser),
    ]; // prettier-ignore
  }

  makeScenarios() {
    const { store } = this;
    if (!store.scenarios.length) return h("p", { class: "hbx-hint" }, "Save the findings under a name, to come back to them and to compare them side by side.");
    const boxes = store.scenarios.map(({ name }) => h("input", { type: "checkbox", value: name, "aria-label": `compare ${name}`, checked: true }));
    const items = store.scenarios.map((scenario, i) =>
      h("li", { class: "hbx-scenario" }, boxes[i],
        h("button", { type: "button", class: "hbx-link", title: "load", onclick: () => store.loadPacked(scenario.findings) }, scenario.name),
        h("span", { class: "hbx-muted" }, `${scenario.findings?.length ?? 0} finding${scenario.findings?.length === 1 ? "" : "s"}`),
        h("button", { type: "button", class: "hbx-button hbx-small", "aria-label": `delete ${scenario.name}`,
          onclick: () => store.keep(store.scenarios.filter((other) => other !== scenario)) }, "Delete")), // prettier-ignore
    );
    const compare = () => store.compare(boxes.filter((box) => box.checked).map((box) => box.value).slice(0, 5));
    return [h("ul", { class: "hbx-list" }, items), h("button", { type: "button", class: "hbx-button hbx-primary", onclick: compare }, "Compare side by side")];
  }

  readFile(text) {
    const { store } = this;
    try {
      const { scenarios } = JSON.parse(text);
      const read = scenarios.filter((item) => typeof item?.name === "string" && Array.isArray(item.findings));
      const names = new Set(read.map((item) => item.name));
      store.keep([...store.scenarios.filter((item) => !names.has(item.name)), ...read]);
    } catch {
      store.update({ error: { text: "This file holds no scenarios." } });
    }
  }

  download() {
    const { store } = this;
    const text = JSON.stringify({ network: store.content.title, scenarios: store.scenarios }, null, 1);
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    h("a", { href: url, download: "scenarios.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  async copyLink(button) {
    const { store } = this;
    const link = `${location.href.split("#")[0]}#${toLink(store.findings, store.nodes)}`;
    history.replaceState(null, "", link);
    try {
      await navigator.clipboard.writeText(link);
      button.textContent = "Copied";
    } catch {
      button.textContent = "It is the page's address";
    }
    setTimeout(() => {
      button.textContent = "Copy link";
    }, 2000);
  }
}
