"""What depends on the hidden leaf of trees: leaves are looked up where a row's cells are known.

Which leaves a row may be in is found for many rows at once, by one bit for each leaf. There are two kinds of target:

* A class below `Boxes`, as in a random forest. Where all parents of the leaf are observed, the row's leaves are the
  whole answer, whatever the rest of the network is. Where cells are missing, the parents must be independent, or
  independent given one discrete variable: the probability of a box is then a product. Elimination would need a table
  over all missing cells.
* A number below `Boxes` that is linear Gaussian in the attributes given the leaf, as in model trees. Where all of them
  are known, the regressions of the row's leaves are all that is needed. Where the leaf depends on missing numbers the
  exact density is an integral over all of them together; with ``beyond="bound"`` they are drawn, together with whatever
  else is missing, from their joint distribution given what is known. The same quasi-random points serve every row, so
  that a row's answer does not depend on others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.compilation import Problem, Question, problem_of
from hybridbn.inference.elimination.factors import normalize, normalize_logs
from hybridbn.inference.engines import Engine, Plan, Solution, choose_plan
from hybridbn.inference.engines.naive_bayes import BlockAnswer, BlockPlan, LeafIndex
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.posteriors.mixtures import GaussianPosterior, arrange_parts, merge_near_parts
from hybridbn.inference.queries import log_evidence_of
from hybridbn.inference.relevance import Snapshot, ancestors
from hybridbn.inference.sampling import draw
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials import Boxes, LinearGaussian, Multinomial
from hybridbn.potentials.base import Potential, take_logs
from hybridbn.variables import Continuous, Discrete, Values, Variable

_BITS = 2**23
"""Bits that are looked at together."""
DRAWS = 128
"""The number of draws of a row's missing cells; a power of two, for which quasi-random points are most even."""
NEAR = 0.25, 0.3
"""Components of all draws are merged that differ by less than these shares of a variance and of a standard deviation.
"""
BATCHES = 8
"""The error is told from so many groups of draws."""
ROWS = 256
"""Are drawn at a time."""
PARTS = 2**18
"""Parts of mixtures that are held at a time."""
_SEED = 0


class Leaves(Engine):
    """Posteriors of what depends on the hidden leaf of trees, or a rule, given values of attributes."""

    rank = 8

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Return a plan where the target is below a leaf, and nothing but values of attributes is known."""
        question, findings = problem.question, evidence.findings
        plain = all(finding.plain for finding in findings.values())
        if len(question.targets) != 1 or question != Question(question.targets) or not plain:
            return None
        snapshot, target = problem.snapshot, question.targets[0]
        boxes, table = _find_boxes(snapshot, target), snapshot.by_name[target].as_table()
        if boxes is None:
            return None
        if table is not None:
            return ClassPlan.of(problem, evidence, options, boxes, table)
        regression = BoxedRegression.of(snapshot, target, boxes)
        return None if regression is None else NumberPlan.of(problem, evidence, options, regression)

    def offer(self, problem: Problem, evidence: Evidence, options: Options) -> str | None:
        """Return what draws would cost."""
        plan = self.plan(problem, evidence, replace(options, beyond="bound"))
        return f"beyond='bound' ({DRAWS} draws of what is missing in a row)" if isinstance(plan, NumberPlan) else None

    def needs_draws(self, snapshot: Snapshot, target: str) -> bool:
        """Tell whether the target is a regression below a leaf, which may depend on numbers that a row lacks."""
        boxes = _find_boxes(snapshot, target)
        return boxes is not None and BoxedRegression.of(snapshot, target, boxes) is not None


def _find_boxes(snapshot: Snapshot, target: str) -> Boxes | None:
    """Return the leaf that a target alone depends on, and on which nothing else does; None where there is none."""
    if snapshot.succ[target]:
        return None
    leaves = [boxes for name in snapshot.pred[target] if (boxes := snapshot.by_name[name].as_boxes())]
    return leaves[0] if len(leaves) == 1 and len(snapshot.succ[leaves[0].child.name]) == 1 else None


# -- which leaves a row may be in -------------------------------------------------------------------------------------


_INDEXES: WeakKeyDictionary[Boxes, LeafIndex] = WeakKeyDictionary()


def _find_in_boxes(boxes: Boxes, evidence: Evidence) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs of rows and boxes in which the row may be; the index of boxes is made once."""
    index = _INDEXES.get(boxes)
    if index is None:
        sides = zip(boxes.parents, boxes.sides, strict=True)
        cells = {parent.name: _divide_into_cells(parent, side) for parent, side in sides}
        index = _INDEXES[boxes] = LeafIndex.of(len(boxes.child), cells)
    known = {name: finding.values for name in index.bits if (finding := evidence.finding(name)) is not None}
    return index.find(known, evidence.rows, anywhere=True)


def _divide_into_cells(parent: Variable, side: NDArray[Any]) -> tuple[Values | None, NDArray[np.bool_]]:
    """Return the cuts between the cells of a parent of boxes, and which boxes (cells, boxes) each cell is inside of."""
    if isinstance(parent, Discrete):
        return None, side.T
    cuts = np.unique(side[np.isfinite(side)])
    # of cell i the low end is cuts[i - 1]
    low = np.searchsorted(cuts, side[:, 0], side="right") * np.isfinite(side[:, 0])
    high = np.where(np.isfinite(side[:, 1]), np.searchsorted(cuts, side[:, 1], side="left"), len(cuts))
    cell = np.arange(len(cuts) + 1)[:, None]
    return cuts, (cell >= low) & (cell <= high)


# -- a class below boxes ----------------------------------------------------------------------------------------------


class ClassPlan(BlockPlan):
    """Looking up the class probabilities of the boxes of all rows."""

    def __init__(
        self,
        problem: Problem,
        evidence: Evidence,
        options: Options,
        boxes: Boxes,
        target: Multinomial,
        densities: list[Potential],
    ) -> None:
        self._boxes, self._target = boxes, target
        self._averages: _Averages | None = _Averages(boxes, densities, problem.snapshot) if densities else None
        self.block: int = max(_BITS // len(boxes.child), 1)
        cells = float(len(boxes.child) * (len(target.child) + len(densities)))
        held = 8 * cells + _BITS + 8.0 * len(target.child) * evidence.rows
        operations = float(len(boxes.child) / 64 * len(boxes.parents) * evidence.rows)
        super().__init__(problem, options, cells, (boxes.child.name, target.child.name), held, operations)

    @classmethod
    def of(
        cls,
        problem: Problem,
        evidence: Evidence,
        options: Options,
        boxes: Boxes,
        target: Multinomial,
    ) -> Self | None:
        """Return a plan where the leaf is the only parent, and known or a function of independent attributes."""
        name, findings = target.child.name, evidence.findings
        if len(target.parents) != 1 or problem.scopes != ((name,),) or {name, boxes.child.name} & set(findings):
            return None
        tested = [parent.name for parent in boxes.parents]
        if all(name in findings and findings[name].hard for name in tested):
            return cls(problem, evidence, options, boxes, target, [])
        densities = [problem.snapshot.by_name[name] for name in dict.fromkeys([*tested, *findings])]
        independent = boxes.overlap is not None and _are_independent(densities, problem.snapshot, findings)
        return cls(problem, evidence, options, boxes, target, densities) if independent else None

    def answer(self, evidence: Evidence) -> BlockAnswer:
        """Return the means of the tables of each row's boxes."""
        row, box = _find_in_boxes(self._boxes, evidence)
        logs, shares = np.zeros(evidence.rows), self._boxes.weights[box]
        if self._averages is not None:
            logs, shares = self._averages.weigh(evidence, row, box)
        columns = self._target.table.T
        sums: Values = np.stack([np.bincount(row, shares * column[box], evidence.rows) for column in columns])
        table, _ = normalize(sums)
        table[:, logs == -np.inf] = np.nan
        return BlockAnswer(table, logs, np.full(evidence.rows, 1e-12))


def _are_independent(densities: Sequence[Potential], snapshot: Snapshot, findings: Mapping[str, Finding]) -> bool:
    """Return whether attributes are independent given at most one hidden discrete variable without parents."""
    common = {parent.name for density in densities for parent in density.parents}
    if any(len(density.parents) > 1 for density in densities) or len(common) > 1 or common & set(findings):
        return False
    roots = all(snapshot.by_name[name].as_table() is not None and not snapshot.pred[name] for name in common)
    return roots and all(isinstance(density.child, Discrete) or density.exact_mass for density in densities)


class _Averages:
    """The probabilities of boxes where cells are missing."""

    def __init__(self, boxes: Boxes, densities: Sequence[Potential], snapshot: Snapshot) -> None:
        self.boxes, self.densities = boxes, densities
        common = [parent.name for density in densities for parent in density.parents]
        root = snapshot.by_name[common[0]].as_table() if common else None
        self.root: Values | None = None if root is None else root.table
        self.given: dict[str, NDArray[Any]] = {} if root is None else {root.child.name: np.arange(len(root.child))}
        self.types: int = 1 if root is None else len(root.child)
        self.masses: dict[str, Values] = {}
        tested = [parent.name for parent in boxes.parents]
        self.sides: dict[str, NDArray[Any]] = dict(zip(tested, boxes.sides, strict=True))

    def weigh(self, evidence: Evidence, row: NDArray[np.intp], box: NDArray[np.intp]) -> tuple[Values, Values]:
        """Return the log probability of each row's evidence, and that of each pair's box given it."""
        logs = np.zeros((self.types, evidence.rows))
        if self.root is not None:
            logs += take_logs(self.root)[:, None]
        for density in self.densities:
            finding = evidence.finding(density.child.name)
            if finding is not None and finding.observed.any():
                logs += np.where(finding.observed, self._log_density(density, finding.fill()), 0.0)
        types, log_norm = normalize_logs(logs)
        weights = types[:, row]
        for density in self.densities:
            name = density.child.name
            if name not in self.sides:
                continue
            finding = evidence.finding(name)
            if finding is None:
                weights *= self._mass_of(density)[:, box]
            elif not finding.hard:
                missing = np.flatnonzero(~finding.observed[row])
                weights[:, missing] *= self._mass_of(density)[:, box[missing]]
        return log_norm, weights.sum(axis=0)

    def _log_density(self, density: Potential, values: NDArray[Any]) -> Values:
        """Return the logarithms at one value in each row: (types, rows) or (1, rows)."""
        if not density.parents:
            return density.log_on({density.child.name: values[None]})
        return density.log_on({**self.given, density.child.name: values[None]})[:, 0]

    def _mass_of(self, density: Potential) -> Values:
        """Return the probability of each box's side along an attribute: (types, boxes) or (1, boxes)."""
        name = density.child.name
        if name not in self.masses:
            given = self.given if density.parents else {}
            side = self.sides[name]
            if isinstance(density.child, Continuous):
                edges = np.unique(np.append(side, (-np.inf, np.inf)))
                values, scale = density.mass(given, edges)
                cells = np.atleast_2d(values * np.exp(scale))
                cumulative = np.concatenate([np.zeros((len(cells), 1)), cells.cumsum(axis=1)], axis=1)
                low, high = np.searchsorted(edges, side).T
                self.masses[name] = cumulative[:, high] - cumulative[:, low]
            else:
                values, scale = density.on({**given, name: np.arange(len(density.child))})
                self.masses[name] = np.atleast_2d(values * np.exp(scale)) @ side.T.astype(np.float64)
        return self.masses[name]


# -- a number below boxes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BoxedRegression:
    """A number that is linear Gaussian given a leaf, other hidden discrete variables, attributes and their effects.

    Attributes
    ----------
    potential : the potential of the number
    boxes : the potential of the leaf
    kinds : the potentials of the other discrete parents, which have no parents
    effects : the potentials of continuous parents that only depend on one discrete attribute, and are not observed
    attributes : names of all other variables
    needed : those that the number depends on given all attributes
    """

    snapshot: Snapshot
    potential: LinearGaussian
    boxes: Boxes
    kinds: tuple[Multinomial, ...]
    effects: dict[str, LinearGaussian]
    attributes: frozenset[str]
    needed: frozenset[str]

    @classmethod
    def of(cls, snapshot: Snapshot, name: str, boxes: Boxes) -> BoxedRegression | None:
        """Return the description of a number below boxes, or None where it has another form."""
        by_name = snapshot.by_name
        potential = by_name[name].as_regression()
        if potential is None:
            return None
        above = [by_name[parent.name] for parent in potential.parents if isinstance(parent, Discrete)]
        kinds = tuple(table for parent in above if not parent.parents and (table := parent.as_table()))
        if len(kinds) != len(above) - 1:
            return None
        effects = {}
        for parent in potential.parents:
            own = by_name[parent.name].as_regression()
            if own is not None and [*map(type, own.parents)] == [Discrete]:
                effects[parent.name] = own
        hidden = {name, *(parent.child.name for parent in above), *effects}
        if any(len(snapshot.succ[other]) > 1 for other in hidden - {name}):
            return None
        attributes = frozenset(by_name) - hidden
        needed = {parent.name for parent in (*potential.parents, *boxes.parents)} - hidden
        needed |= {own.parents[0].name for own in effects.values()}
        if not needed <= attributes:
            return None
        return cls(snapshot, potential, boxes, kinds, effects, attributes, frozenset(needed))

    @cached_property
    def kind_shares(self) -> Values:
        """The probabilities of the configurations of the other discrete parents."""
        shares = np.ones(1)
        for kind in self.kinds:
            shares = np.multiply.outer(shares, kind.table).reshape(-1)
        return shares

    @cached_property
    def parents(self) -> list[str]:
        """The continuous parents."""
        return [parent.name for parent in self.potential.parents if isinstance(parent, Continuous)]

    @cached_property
    def tested(self) -> list[str]:
        """The numbers that the leaf depends on."""
        return [parent.name for parent in self.boxes.parents if isinstance(parent, Continuous)]

    @cached_property
    def lines(self) -> tuple[Values, Values, Values]:
        """The intercepts and variances (leaves, kinds), and the slopes (leaves, kinds, parents)."""
        own = self.potential
        return self._turn(own.intercept), self._turn(own.variance), self._turn(own.coefficients)

    @cached_property
    def kind_groups(self) -> list[list[int]]:
        """The kinds that have the same slopes; without those that have none."""
        groups, slopes = dict[bytes, list[int]](), self.lines[2]
        for kind in np.flatnonzero(slopes.any(axis=(0, 2))).tolist():
            groups.setdefault(slopes[:, kind].tobytes(), []).append(kind)
        return list(groups.values())

    def _turn(self, array: Values) -> Values:
        """Return an array of the potential with the leaf first, then all configurations of the other discrete
        parents.
        """
        names = [parent.name for parent in self.potential.parents if isinstance(parent, Discrete)]
        order = [names.index(self.boxes.child.name), *(names.index(kind.child.name) for kind in self.kinds)]
        rest = range(len(names), array.ndim)
        return array.transpose([*order, *rest]).reshape(
            len(self.boxes.child), len(self.kind_shares), *array.shape[len(names) :]
        )

    def extend(self, observed: Collection[str]) -> Network:
        """Return the network of the attributes that anything needed may depend on, given those that are observed."""
        above = ancestors(self.snapshot.pred, {*self.needed, *observed})
        return Network([own for name, own in self.snapshot.by_name.items() if name in above])

    def predict(self, cells: Evidence) -> tuple[NDArray[np.intp], Values, Values, Values]:
        """Return the mixtures of rows in which everything needed is known: the row of each leaf (leaves,), and weights,
        means and variances (leaves, kinds).
        """
        row, box = _find_in_boxes(self.boxes, cells)
        weights = self.boxes.weights[box]
        weights = weights / np.bincount(row, weights, cells.rows)[row]
        values, extra = [], {}
        for place, parent in enumerate(self.parents):
            effect = self.effects.get(parent)
            if effect is None:
                values.append(cells.findings[parent].values)
            else:
                codes = cells.findings[effect.parents[0].name].values
                values.append(effect.intercept[codes])
                extra[place] = effect.variance[codes]
        intercepts, spreads, slopes = self.lines
        means, variances = intercepts[box], spreads[box]
        known = np.array(values).reshape(len(values), cells.rows).T[row]
        for same in self.kind_groups:
            own = slopes[box, same[0]]
            means[:, same] += np.einsum("lj,lj->l", own, known)[:, None]
            for place, spread in extra.items():
                variances[:, same] += (own[:, place] ** 2 * spread[row])[:, None]
        return row, weights[:, None] * self.kind_shares, means, variances


class NumberPlan(BlockPlan):
    """Looking up the leaves of all rows, in which everything needed is known."""

    def __init__(self, problem: Problem, evidence: Evidence, options: Options, target: BoxedRegression) -> None:
        self.target: BoxedRegression = target
        leaves = len(target.boxes.child)
        self.parts: int = (target.boxes.overlap or leaves) * len(target.kind_shares)
        self.block: int = max(PARTS // self.parts, 1)
        cells = float(leaves * len(target.kind_shares) * (len(target.parents) + 2))
        held = 8.0 * (cells + PARTS * (len(target.parents) + 8))
        operations = float(self.parts * (len(target.parents) + 2) * evidence.rows)
        clique = target.boxes.child.name, target.potential.child.name
        super().__init__(problem, options, cells, clique, held, operations)

    @classmethod
    def of(cls, problem: Problem, evidence: Evidence, options: Options, target: BoxedRegression) -> NumberPlan | None:
        """Return a plan where all attributes that matter are known, or some of them if draws are allowed."""
        findings = evidence.findings
        if not findings.keys() <= target.attributes:
            return None
        known = {name for name, finding in findings.items() if finding.hard}
        if target.needed <= known:
            return NumberPlan(problem, evidence, options, target)
        allowed = options.beyond == "bound" and not known.issuperset(target.tested)
        return DrawnNumberPlan(problem, evidence, options, target) if allowed else None

    def answer(self, evidence: Evidence) -> BlockAnswer:
        """Return the mixtures of the regressions of each row's leaves."""
        row, *parts = self.target.predict(evidence)
        density = GaussianPosterior.of(self.target.potential.child, *arrange_parts(row, evidence.rows, *parts))
        zero = np.zeros(evidence.rows)
        return BlockAnswer(np.ones(evidence.rows), zero, zero, density)


class DrawnNumberPlan(NumberPlan):
    """Looking up the leaves of draws of what is missing."""

    sampled = True

    def __init__(self, problem: Problem, evidence: Evidence, options: Options, target: BoxedRegression) -> None:
        super().__init__(problem, evidence, options, target)
        self.operations: float = DRAWS * self.operations
        self.block: int = ROWS

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of rows in which no tested number is missing, then those of the others."""
        known = np.ones(evidence.rows, dtype=bool)
        for name in self.target.tested:
            finding = evidence.finding(name)
            known &= np.zeros(1, dtype=bool) if finding is None else finding.observed
        for rows, solve in ((np.flatnonzero(known), self._solve_exactly), (np.flatnonzero(~known), super().solve)):
            for solution in solve(evidence.take(rows, len(rows))) if len(rows) else ():
                yield replace(solution, rows=rows[solution.rows])

    def _solve_exactly(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of rows whose missing cells are averaged over in closed form."""
        problem = problem_of(self.problem.snapshot, self.problem.question, evidence)
        yield from choose_plan(problem, evidence, self.options).solve(evidence)

    def answer(self, evidence: Evidence) -> BlockAnswer:
        """Return the means over draws of what is missing."""
        from scipy.stats import qmc

        network = self.target.extend(evidence.findings)
        options = replace(self.options, beyond=None, impossible="nan")
        logs = log_evidence_of(network, evidence, options)
        possible = np.flatnonzero(logs > -np.inf)
        repeated = np.repeat(possible, DRAWS)
        shift = np.random.default_rng(_SEED).random(len(network))
        points = ((qmc.Sobol(len(network), scramble=False).random(DRAWS) + shift) % 1).T
        drawn = draw(network, evidence.take(repeated, len(repeated)), np.tile(points, len(possible)), options)
        findings = {name: Finding(network.variable(name), drawn[name]) for name in self.target.needed}
        complete = Evidence(findings, len(repeated), single=False)
        error = np.full(evidence.rows, np.nan)
        densities = []
        block = max(PARTS // (self.parts * DRAWS), 1)
        for start in range(0, len(possible), block):
            rows = np.arange(start, min(start + block, len(possible)))
            part = complete.take(slice(start * DRAWS, (start + block) * DRAWS), len(rows) * DRAWS)
            case, weights, means, variances = self.target.predict(part)
            row = case // DRAWS
            error[possible[rows]] = _estimate_error(case, len(rows), weights, means, variances)
            mixture = merge_near_parts(*arrange_parts(row, len(rows), weights / DRAWS, means, variances), *NEAR)
            densities.append((possible[rows], GaussianPosterior.of(self.target.potential.child, *mixture)))
        density = GaussianPosterior.join(densities, evidence.rows)
        return BlockAnswer(np.ones(evidence.rows), logs, error, density)


def _estimate_error(case: NDArray[np.intp], rows: int, weights: Values, means: Values, variances: Values) -> Values:
    """Return the standard errors (rows,) of the probability that the number is below its mean, from groups of draws."""
    from scipy.special import ndtr

    row = case // DRAWS
    center = np.bincount(row, (weights * means).sum(axis=1), rows) / DRAWS
    below = (weights * ndtr((center[row][:, None] - means) / np.sqrt(variances))).sum(axis=1)
    groups = case // (DRAWS // BATCHES)
    shares = np.bincount(groups, below, rows * BATCHES).reshape(rows, BATCHES) / (DRAWS // BATCHES)
    return np.asarray(shares.std(axis=1, ddof=1) / np.sqrt(BATCHES))
