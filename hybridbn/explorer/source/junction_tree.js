// Exact posteriors of networks of tables: messages between the cliques of a junction tree, which the document holds.

const product = (numbers) => numbers.reduce((a, b) => a * b, 1);

/** For each cell of a table over `scope`, the cell of a table over `part` that agrees with it. */
function mapCells(scope, part, sizes) {
  const strides = new Map();
  let stride = 1;
  for (const node of [...part].reverse()) {
    strides.set(node, stride);
    stride *= sizes[node];
  }
  const count = product(scope.map((node) => sizes[node]));
  const cells = new Int32Array(count);
  let block = count;
  for (const node of scope) {
    block /= sizes[node];
    const step = strides.get(node);
    if (step === undefined) continue;
    for (let cell = 0; cell < count; cell += 1) cells[cell] += (Math.floor(cell / block) % sizes[node]) * step;
  }
  return cells;
}

export class JunctionTree {
  /**
   * @param sizes number of states of each node
   * @param tables of each node: {scope, values}, the node last in its scope
   * @param cliques {nodes, parent}, children before parents, the root last
   */
  constructor(sizes, tables, cliques) {
    this.sizes = sizes;
    this.tables = tables;
    this.cliques = cliques.map(({ nodes, parent }, number) => {
      const above = parent === null ? null : new Set(cliques[parent].nodes);
      const separator = above ? nodes.filter((node) => above.has(node)) : [];
      return {
        number,
        nodes,
        parent,
        count: product(nodes.map((node) => sizes[node])),
        room: product(separator.map((node) => sizes[node])),
        down: mapCells(nodes, separator, sizes),
        up: above ? mapCells(cliques[parent].nodes, separator, sizes) : null,
        factors: [],
        base: null,
      };
    });
    const holding = sizes.map(() => []);
    for (const clique of this.cliques) for (const node of clique.nodes) holding[node].push(clique);
    for (const list of holding) list.sort((a, b) => a.count - b.count);
    this.home = holding.map(([clique], node) => ({ clique, cells: mapCells(clique.nodes, [node], sizes) }));
    tables.forEach(({ scope }, node) => {
      const inside = (clique) => scope.every((other) => clique.nodes.includes(other));
      const clique = holding[node].find(inside);
      clique.factors.push({ node, cells: mapCells(clique.nodes, scope, sizes) });
    });
  }

  /** The product of the tables of a clique, without those of nodes that are set. */
  multiply(clique, isSet) {
    const plain = !clique.factors.some(({ node }) => isSet.has(node));
    if (plain && clique.base) return clique.base;
    const values = new Float64Array(clique.count).fill(1);
    for (const { node, cells } of clique.factors) {
      if (isSet.has(node)) continue;
      const table = this.tables[node].values;
      for (let cell = 0; cell < values.length; cell += 1) values[cell] *= table[cells[cell]];
    }
    if (plain) clique.base = values;
    return values;
  }

  /** What findings say of the states: a likelihood for each node that has one. */
  readCase(findings) {
    const likelihoods = new Map();
    const isSet = new Set();
    for (const finding of findings) {
      const weights = new Float64Array(this.sizes[finding.node]);
      if ("state" in finding) weights[finding.state] = 1;
      else if ("states" in finding) for (const state of finding.states) weights[state] = 1;
      else weights.set(finding.weights);
      likelihoods.set(finding.node, weights);
      if (finding.set) isSet.add(finding.node);
    }
    return { likelihoods, isSet };
  }

  /** Send messages to the root: sums, or maxima. Null where the case is impossible. */
  collect(findings, largest = false) {
    const { likelihoods, isSet } = this.readCase(findings);
    const beliefs = this.cliques.map((clique) => Float64Array.from(this.multiply(clique, isSet)));
    for (const [node, weights] of likelihoods) {
      const { clique, cells } = this.home[node];
      const values = beliefs[clique.number];
      for (let cell = 0; cell < values.length; cell += 1) values[cell] *= weights[cells[cell]];
    }
    const messages = [];
    let logScale = 0;
    for (const clique of this.cliques) {
      const values = beliefs[clique.number];
      const message = new Float64Array(clique.room);
      if (largest) {
        for (let cell = 0; cell < values.length; cell += 1) {
          const to = clique.down[cell];
          if (values[cell] > message[to]) message[to] = values[cell];
        }
      } else for (let cell = 0; cell < values.length; cell += 1) message[clique.down[cell]] += values[cell];
      const scale = message.reduce((a, b) => Math.max(a, b), 0);
      if (!(scale > 0)) return null;
      for (let i = 0; i < message.length; i += 1) message[i] /= scale;
      logScale += Math.log(scale);
      messages.push(message);
      if (clique.parent !== null) {
        const above = beliefs[clique.parent];
        for (let cell = 0; cell < above.length; cell += 1) above[cell] *= message[clique.up[cell]];
      }
    }
    return { beliefs, messages, logScale };
  }

  /** The probabilities of all nodes, and the log probability of the case; null where it is impossible. */
  propagate(findings) {
    const collected = this.collect(findings);
    if (!collected) return null;
    const { beliefs, messages, logScale } = collected;
    for (const clique of [...this.cliques].reverse()) {
      if (clique.parent === null) continue;
      const above = beliefs[clique.parent];
      const message = new Float64Array(clique.room);
      for (let cell = 0; cell < above.length; cell += 1) message[clique.up[cell]] += above[cell];
      const scale = message.reduce((a, b) => Math.max(a, b), 0);
      const sent = messages[clique.number];
      for (let i = 0; i < message.length; i += 1) message[i] = sent[i] > 0 ? message[i] / scale / sent[i] : 0;
      const values = beliefs[clique.number];
      for (let cell = 0; cell < values.length; cell += 1) values[cell] *= message[clique.down[cell]];
    }
    const marginals = this.home.map(({ clique, cells }, node) => {
      const sums = new Float64Array(this.sizes[node]);
      const values = beliefs[clique.number];
      for (let cell = 0; cell < values.length; cell += 1) sums[cells[cell]] += values[cell];
      const total = sums.reduce((a, b) => a + b, 0);
      return Array.from(sums, (sum) => sum / total);
    });
    return { marginals, logEvidence: logScale };
  }

  /** The most probable states of all nodes together. */
  maximize(findings) {
    const collected = this.collect(findings, true);
    if (!collected) return null;
    const states = this.sizes.map(() => -1);
    for (const clique of [...this.cliques].reverse()) {
      const values = collected.beliefs[clique.number];
      let best = -1;
      let bestCell = 0;
      for (let cell = 0; cell < values.length; cell += 1) {
        if (values[cell] > best && this.agrees(clique, cell, states)) [best, bestCell] = [values[cell], cell];
      }
      let rest = bestCell;
      for (const node of [...clique.nodes].reverse()) {
        states[node] = rest % this.sizes[node];
        rest = Math.floor(rest / this.sizes[node]);
      }
    }
    return states;
  }

  agrees(clique, cell, states) {
    let rest = cell;
    for (let i = clique.nodes.length - 1; i >= 0; i -= 1) {
      const node = clique.nodes[i];
      const size = this.sizes[node];
      if (states[node] >= 0 && states[node] !== rest % size) return false;
      rest = Math.floor(rest / size);
    }
    return true;
  }
}
