// What the page knows and shows: the findings, the beliefs that follow from them, and what the user looks at.

import { excludeState, findingOf, isHard, pack, toggleState, unpack, withFinding, without } from "./findings.js";

const MOST_UNDONE = 200;

const EVERYTHING = { between: true, soft: true, not: true, set: true, next: true, probable: true, link: false };

/** Where scenarios are kept between visits: the model of a notebook, or the browser. */
function keepScenarios(content, model) {
  const key = `hybridbn:${content.key ?? content.title}`;
  const inModel = Array.isArray(model.get("scenarios"));
  return {
    read() {
      if (inModel) return model.get("scenarios");
      try {
        const kept = JSON.parse(localStorage.getItem(key) ?? "[]");
        return Array.isArray(kept) ? kept : [];
      } catch {
        return [];
      }
    },
    write(scenarios) {
      if (inModel) {
        model.set("scenarios", scenarios);
        model.save_changes();
        return;
      }
      try {
        localStorage.setItem(key, JSON.stringify(scenarios));
      } catch {
        // a browser may keep nothing for pages from files; scenarios then live as long as the page
      }
    },
  };
}

export class Store {
  constructor(content, ask, model) {
    this.content = content;
    // a number without a grid that has points and nothing else can only be one of these
    this.nodes = content.nodes.map((node, i) => {
      const { stems, x } = content.prior[i] ?? {};
      return stems?.length && !x && !node.grid?.[0] ? { ...node, points: stems.map(([value]) => value) } : node;
    });
    this.offers = { ...EVERYTHING, ...content.offers };
    this.send = ask;
    this.model = model;
    this.children = this.nodes.map(() => []);
    this.nodes.forEach((node, i) => node.parents.forEach((parent) => this.children[parent].push(i)));
    this.findings = content.start ?? [];
    this.past = [];
    this.future = [];
    this.intervening = false;
    this.selected = 0;
    this.center = 0;
    if (!content.boxes) {
      const degree = (i) => this.nodes[i].parents.length + this.children[i].length;
      this.center = this.nodes.reduce((best, _, i) => (degree(i) > degree(best) ? i : best), 0);
      this.selected = this.center;
    }
    this.tab = "node";
    this.view = null;
    this.zoom = null;
    this.row = null;
    this.beliefs = content.prior;
    this.logEvidence = 0;
    this.version = 0;
    this.error = null;
    this.notes = [];
    this.remark = null;
    this.pending = false;
    this.probable = null;
    this.compared = null;
    this.announcement = "";
    this.keeper = keepScenarios(content, model);
    this.scenarios = this.keeper.read().filter((item) => typeof item?.name === "string");
    this.sequence = 0;
    this.asking = false;
    this.listeners = new Set();
    this.scheduled = false;
    if (this.findings.length) this.refresh();
  }

  subscribe(listener) {
    this.listeners.add(listener);
  }

  /** Redraw soon, once for all changes that are made until then. */
  notify() {
    if (this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => {
      this.scheduled = false;
      this.listeners.forEach((listener) => listener());
    });
  }

  update(changes) {
    Object.assign(this, changes);
    this.notify();
  }

  // -- findings -------------------------------------------------------------------------------------------------------

  finding(node) {
    return findingOf(this.findings, node) ?? findingOf(this.content.given ?? [], node);
  }

  /** All findings, those included that the network itself brings. */
  complete(findings) {
    const given = (this.content.given ?? []).filter((finding) => !findingOf(findings, finding.node));
    return [...given, ...findings];
  }

  change(findings, keep = {}) {
    if (findings === this.findings) return;
    this.past = [...this.past, this.findings].slice(-MOST_UNDONE);
    this.future = [];
    this.show(findings, keep);
  }

  show(findings, { row = null } = {}) {
    this.findings = findings;
    this.row = row;
    this.remark = null;
    if (this.model.get("findings") !== undefined) {
      this.model.set("findings", findings);
      this.model.save_changes();
    }
    this.refresh();
  }

  undo() {
    if (!this.past.length) return;
    this.future = [this.findings, ...this.future];
    const findings = this.past.at(-1);
    this.past = this.past.slice(0, -1);
    this.show(findings);
  }

  redo() {
    if (!this.future.length) return;
    this.past = [...this.past, this.findings];
    const [findings, ...rest] = this.future;
    this.future = rest;
    this.show(findings);
  }

  clear() {
    if (this.findings.length) this.change([]);
  }

  retract(node) {
    if (findingOf(this.findings, node)) this.change(without(this.findings, node));
  }

  add(finding) {
    this.change(withFinding(this.findings, finding));
  }

  clickState(node, state, exclude) {
    this.selected = node;
    if (exclude && !this.intervening && this.offers.not) {
      this.change(excludeState(this.findings, node, state, this.nodes[node].states.length));
    } else if (this.intervening && !this.offers.set) this.refuse("interventions");
    else this.change(toggleState(this.findings, node, state, this.intervening));
  }

  /** Set a number, or to an interval where the ends differ. */
  setNumber(node, low, high = low) {
    this.selected = node;
    const { values } = this.offers;
    const inside = values?.[node]?.some(({ value }) => value >= low && value <= high);
    if (values?.[node]?.length && (low === high || !inside)) {
      const middle = (low + high) / 2;
      this.add(values[node].reduce((a, b) => (Math.abs(b.value - middle) < Math.abs(a.value - middle) ? b : a)));
    } else if (this.intervening) this.add({ node, value: high, set: true });
    else if (low === high) this.add({ node, value: low });
    else this.add({ node, between: [Math.min(low, high), Math.max(low, high)] });
  }

  refuse(what) {
    this.update({ error: { text: `This page can't answer ${what} by itself; hybridbn explore can.` } });
  }

  // -- questions ------------------------------------------------------------------------------------------------------

  /** Ask for the beliefs; while an answer is awaited, only the latest of the questions after it is asked. */
  async refresh() {
    this.sequence += 1;
    if (this.probable) this.probable = new Map();
    if (!this.findings.length) {
      this.settle({ beliefs: this.content.prior, log_evidence: 0 });
      return;
    }
    this.update({ pending: true });
    if (this.asking) return;
    this.asking = true;
    let number = null;
    let answer = null;
    while (number !== this.sequence && this.findings.length) {
      number = this.sequence;
      answer = await this.send({ ask: "beliefs", cases: [this.complete(this.findings)] });
    }
    this.asking = false;
    if (number === this.sequence) this.settle(answer.error ? answer : { ...answer.cases[0], notes: answer.notes });
  }

  settle(answer) {
    if (answer.error) {
      this.update({
        pending: false,
        version: this.version + 1,
        error: {
          text: answer.error,
          retry: answer.lost === true,
          undo: !answer.lost && this.past.length > 0,
          stale: true,
        },
      });
      return;
    }
    this.update({
      pending: false,
      version: this.version + 1,
      beliefs: answer.beliefs,
      logEvidence: Number(answer.log_evidence),
      notes: answer.notes ?? [],
      error: null,
    });
    if (this.probable) this.findProbable();
  }

  /** Ask something else than beliefs about the present case. */
  ask(question) {
    return this.send({ case: this.complete(this.findings), ...question });
  }

  async findProbable() {
    const number = this.sequence;
    this.update({ pending: true });
    const answer = await this.ask({ ask: "probable" });
    if (number !== this.sequence) return;
    this.pending = false;
    if (answer.error) this.update({ probable: null, error: { text: answer.error } });
    else this.update({ probable: new Map(answer.values.map((value) => [value.node, value])), version: this.version + 1 });
  }

  toggleProbable() {
    if (!this.offers.probable) this.refuse("what is most probable");
    else if (this.probable) this.update({ probable: null, version: this.version + 1 });
    else this.findProbable();
  }

  async goToRow(row) {
    const last = this.content.rows - 1;
    const answer = await this.ask({ ask: "row", row: Math.min(Math.max(row, 0), last) });
    if (answer.error) this.update({ error: { text: answer.error, retry: answer.lost } });
    else this.change([...answer.case], { row: Math.min(Math.max(row, 0), last) });
  }

  // -- looking --------------------------------------------------------------------------------------------------------

  select(node, { center = false } = {}) {
    this.update({ selected: node, ...(center || this.content.boxes ? { center: node } : {}) });
  }

  /** By how much the belief in a node differs from the one without findings, between 0 and 1. */
  shift(node) {
    const prior = this.content.prior[node];
    const belief = this.belief(node);
    if (!prior || !belief) return 0;
    if (prior.p) return prior.p.reduce((sum, p, i) => sum + Math.abs(p - (belief.p?.[i] ?? p)), 0) / 2;
    return Math.min(1, Math.abs(belief.mean - prior.mean) / (2 * (prior.sd || 1)));
  }

  /** The belief in a node; null where it is not known, as the findings have no answer. */
  belief(node) {
    return this.error?.stale ? null : this.beliefs[node];
  }

  isKnown(node) {
    return isHard(this.finding(node));
  }

  // -- scenarios ------------------------------------------------------------------------------------------------------

  keep(scenarios) {
    this.keeper.write(scenarios);
    this.update({ scenarios });
  }

  saveScenario(name) {
    const scenario = { name, findings: pack(this.findings, this.nodes) };
    this.keep([...this.scenarios.filter((other) => other.name !== name), scenario]);
  }

  loadPacked(packed) {
    const { findings, lost } = unpack(packed, this.nodes);
    this.change(findings);
    this.tellLost(lost);
  }

  tellLost(lost) {
    if (lost) this.update({ remark: `${lost} finding${lost > 1 ? "s" : ""} of the scenario fit no node of this network` });
  }

  async compare(names) {
    const chosen = names.map((name) => this.scenarios.find((scenario) => scenario.name === name)).filter(Boolean);
    const cases = [
      { name: "Now", findings: this.findings },
      ...chosen.map(({ name, findings }) => ({ name, findings: unpack(findings, this.nodes).findings })),
    ];
    this.update({ pending: true });
    const answer = await this.send({ ask: "beliefs", cases: cases.map((item) => this.complete(item.findings)) });
    this.pending = false;
    if (answer.error) this.update({ error: { text: answer.error, retry: answer.lost } });
    else this.update({ compared: cases.map((item, i) => ({ ...item, answer: answer.cases[i] })) });
  }
}
