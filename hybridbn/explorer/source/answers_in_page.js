// The answers of a page without Python: computed from tables, or looked up among those that were computed before.

import { isHard, withFinding } from "./findings.js";
import { expand, listOptions, mix } from "./mixtures.js";
import { JunctionTree } from "./junction_tree.js";

const UNANSWERED = "the answer to these findings together was not computed before; hybridbn explore computes it";
const CONTRADICTION = "these findings contradict each other";

export function decodeNumbers(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

const refuse = (error) => {
  throw new Error(error);
};

/** Questions that are answered in the same way whatever knows the beliefs. */
function answerCommon(content, question) {
  if (question.ask === "row") return { case: content.rowFindings?.[question.row] ?? refuse("there is no such row") };
  if (question.ask === "neighborhood") {
    return { layout: content.neighborhoods?.[question.node] ?? refuse("there is no such neighborhood") };
  }
  return refuse("this page can't answer that by itself; it needs hybridbn explore");
}

const logOdds = (p, state) => Math.log(p[state]) - Math.log(p.reduce((sum, x, i) => (i === state ? sum : sum + x), 0));

/** Weights of evidence, from the beliefs of a node while ever more of the findings are known. */
function weigh(question, given, believe) {
  const { node, state } = question;
  const isGiven = (finding) => given.some((other) => other.node === finding.node);
  const always = question.case.filter((finding) => finding.set || isGiven(finding));
  const findings = question.case.filter(
    (finding) => !finding.set && !isGiven(finding) && !(finding.node === node && isHard(finding)),
  );
  const steps = [believe(always)];
  findings.forEach((_, i) => steps.push(believe([...always, ...findings.slice(0, i + 1)])));
  if (steps[0].p) {
    const odds = steps.map(({ p }) => logOdds(p, state));
    return {
      prior: odds[0],
      steps: findings.map((finding, i) => ({ node: finding.node, weight: odds[i + 1] - odds[i] })),
      log_odds: odds.at(-1),
      probability: steps.at(-1).p[state],
    };
  }
  return {
    mean: steps[0].mean,
    sd: steps[0].sd,
    steps: findings.map((finding, i) => ({ node: finding.node, mean: steps[i + 1].mean, sd: steps[i + 1].sd })),
  };
}

/** Answers from tables: everything that Python answers. */
export function answerFromTables(content) {
  const { nodes, tables } = content;
  const tree = new JunctionTree(
    nodes.map((node) => node.states.length),
    tables.values.map((text, node) => ({ scope: [...nodes[node].parents, node], values: decodeNumbers(text) })),
    tables.cliques,
  );
  const propagate = (findings) => tree.propagate(findings) ?? refuse(CONTRADICTION);
  const believeAll = (findings) => {
    const solved = tree.propagate(findings);
    if (!solved) return { error: CONTRADICTION, impossible: true };
    return { beliefs: solved.marginals.map((p) => ({ p })), log_evidence: solved.logEvidence };
  };
  const answers = {
    beliefs: ({ cases }) => ({ cases: cases.map(believeAll) }),
    why: (question) => {
      const { node } = question;
      return weigh(question, content.given, (findings) => ({ p: propagate(findings).marginals[node] }));
    },
    next: ({ case: findings, node }) => rank(findings, node),
    probable: ({ case: findings }) => {
      const states = tree.maximize(findings) ?? refuse(CONTRADICTION);
      const fixed = new Set(findings.filter(isHard).map((finding) => finding.node));
      return { values: states.flatMap((state, node) => (fixed.has(node) ? [] : [{ node, state }])) };
    },
  };

  /** What observing each node would tell about one: mutual information, and how much more often a guess is right. */
  function rank(findings, node) {
    const present = findings.find((finding) => finding.node === node);
    if (isHard(present)) refuse(`${nodes[node].name} has one value, so nothing can be learned about it`);
    const before = propagate(findings).marginals;
    const weights = present ? (state) => ("weights" in present ? present.weights[state] : 1) : () => 1;
    const given = before[node].map((p, state) =>
      p > 1e-18 && weights(state) > 0 ? tree.propagate(withFinding(findings, { node, state }))?.marginals : null,
    );
    const guess = Math.max(...before[node]);
    const ranks = [];
    nodes.forEach((_, other) => {
      if (other === node || isHard(findings.find((finding) => finding.node === other))) return;
      let information = 0;
      let right = 0;
      before[other].forEach((p, state) => {
        let best = 0;
        given.forEach((marginals, t) => {
          if (!marginals) return;
          const joint = before[node][t] * marginals[other][state];
          if (joint > 0) information += joint * Math.log(marginals[other][state] / p);
          best = Math.max(best, joint);
        });
        right += best;
      });
      ranks.push({ node: other, information: Math.max(information, 0), gain: Math.max(right - guess, 0) });
    });
    return { ranks: ranks.sort((a, b) => b.information - a.information) };
  }

  return (question) => answers[question.ask]?.(question) ?? answerCommon(content, question);
}

const keyOf = (findings) =>
  [...findings]
    .sort((a, b) => a.node - b.node)
    .map(({ node, state, value }) => `${node}:${state ?? `v${value}`}`)
    .join(";");

/** Answers that were computed before: no finding, one, two or three of most nodes, and the rows of a table. */
export function answerFromLookups(content) {
  const { nodes, lookups } = content;
  const numbers = decodeNumbers(lookups.values);
  const points = nodes.map((_, i) => (content.prior[i]?.stems ?? []).map(([value]) => value));
  const counts = nodes.map((node, i) => node.states?.length ?? 11 + points[i].length);
  const width = counts.reduce((sum, count) => sum + count, 1);
  const places = new Map();
  lookups.cases.forEach((numbersOfFindings, row) => {
    places.set(keyOf(numbersOfFindings.map((i) => lookups.findings[i])), row);
  });
  (content.rowFindings ?? []).slice(0, lookups.rows).forEach((findings, row) => {
    if (!places.has(keyOf(findings))) places.set(keyOf(findings), lookups.cases.length + row);
  });
  const believeAll = (findings) => {
    const parts = expand(findings, (finding) => listOptions(content, finding, logEvidenceOf));
    if (!parts || parts.some((part) => !places.has(keyOf(part.findings)))) return { error: UNANSWERED, unanswered: true };
    if (!parts.length) return { error: CONTRADICTION, impossible: true };
    if (parts.length > 1 || parts[0].offset) return mix(content, findings, parts, (part) => answerAt(places.get(keyOf(part.findings))));
    return answerAt(places.get(keyOf(parts[0].findings)));
  };
  const logEvidenceOf = (finding) => numbers[places.get(keyOf([finding])) * width];
  const answerAt = (row) => {
    let at = row * width;
    const logEvidence = numbers[at];
    at += 1;
    if (logEvidence === -Infinity) return { error: CONTRADICTION, impossible: true };
    const beliefs = nodes.map((node, i) => {
      const part = Array.from(numbers.subarray(at, at + counts[i]));
      at += counts[i];
      if (!row) return content.prior[i];
      if (Number.isNaN(part[0])) return null;
      if (node.states) return { p: part };
      const stems = points[i].map((value, j) => [value, part[11 + j]]).filter(([, p]) => p > 0);
      return { mean: part[0], sd: part[1], q: part.slice(2, 11), stems };
    });
    return { beliefs, log_evidence: logEvidence };
  };
  const answers = {
    beliefs: ({ cases }) => {
      const answered = cases.map(believeAll);
      return { cases: answered, notes: [...new Set(answered.flatMap(({ notes }) => notes ?? []))] };
    },
    why: (question) =>
      weigh(question, content.given, (findings) => {
        const answer = believeAll(findings);
        return answer.beliefs ? answer.beliefs[question.node] : refuse(answer.error);
      }),
    probable: ({ case: findings }) => {
      const values = lookups.probable?.[places.get(keyOf(findings))];
      return values ? { values } : refuse("what is most probable with these findings was not computed before");
    },
  };
  return (question) => answers[question.ask]?.(question) ?? answerCommon(content, question);
}
