"""The number below the leaf of trees: looked up where a row's cells are known, averaged over draws where some are not.

The target is linear Gaussian in the attributes given the leaf, as in model trees. Where all of them are known the
regressions of the row's leaves are all that is needed. Where the leaf depends on missing numbers the exact density is
an integral over all of them together; with ``beyond="bound"`` they are drawn, together with whatever else is missing,
from their joint distribution given what is known. The same quasi-random points serve every row, so that a row's answer
does not depend on others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.engines import Engine, EngineRequest, Plan, Solution, choose_plan
from hybridbn.inference.engines.forest import find_box_index
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.posteriors.gaussian_mixture import GaussianPosterior, merge_near_parts
from hybridbn.inference.problem import Question, problem_of
from hybridbn.inference.queries import log_evidence_of
from hybridbn.inference.relevance import ancestors
from hybridbn.inference.sampling import draw
from hybridbn.inference.snapshot import Snapshot
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.boxes import Boxes
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["NumberForest", "allow_draws"]

DRAWS = 128
"""Of the missing cells of a row; a power of two, for which quasi-random points are most even."""
NEAR = 0.25, 0.3
"""Of the parts of all draws those are merged that differ by this share of a variance and of a standard deviation."""
BATCHES = 8
"""The error is told from so many groups of draws."""
ROWS = 256
"""Are drawn at a time."""
BLOCK = 2**18
"""Parts of mixtures that are held at a time."""
_SEED = 0


def allow_draws(network: Network, target: str, options: Options) -> Options:
    """Return options under which the numbers that the leaf above a target depends on are drawn where a row lacks them,
    because an exact answer would take all of them together; the same options for any other target.
    """
    drawn = target in network and _BoxedRegression.of(Snapshot.of(network), target) is not None
    return replace(options, beyond="bound") if drawn else options


class NumberForest(Engine):
    """Posteriors of a number that is linear Gaussian given attributes and the leaf of trees."""

    rank = 9

    def plan(self, request: EngineRequest) -> Plan | None:
        """Return a plan where nothing but values of attributes is known: all that matter, or some of them if draws are
        allowed.
        """
        question, findings = request.question, request.evidence.findings
        if len(question.targets) != 1 or question != Question(question.targets):
            return None
        target = _BoxedRegression.of(Snapshot.of(request.network), question.targets[0])
        if target is None or not all(finding.plain for finding in findings.values()):
            return None
        if not findings.keys() <= target.attributes:
            return None
        known = {name for name, finding in findings.items() if finding.hard}
        if target.needed <= known:
            return NumberForestPlan(request, target)
        allowed = request.options.beyond == "bound" and not known.issuperset(target.tested)
        return DrawnForestPlan(request, target) if allowed else None

    def offer(self, request: EngineRequest) -> str | None:
        """Return what draws would cost."""
        allowed = replace(request, options=replace(request.options, beyond="bound"))
        plan = self.plan(allowed)
        return None if plan is None else f"beyond='bound' ({DRAWS} draws of what is missing in a row)"


@dataclass(frozen=True, eq=False)
class _BoxedRegression:
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
    def of(cls, snapshot: Snapshot, name: str) -> _BoxedRegression | None:
        """Return the number's description, or None where it has another form."""
        potential, by_name = snapshot.by_name[name], snapshot.by_name
        if not isinstance(potential, LinearGaussian) or snapshot.succ[name]:
            return None
        above = [by_name[parent.name] for parent in potential.parents if isinstance(parent, Discrete)]
        boxes = [parent for parent in above if isinstance(parent, Boxes)]
        kinds = tuple(parent for parent in above if isinstance(parent, Multinomial) and not parent.parents)
        if len(boxes) != 1 or len(kinds) != len(above) - 1:
            return None
        effects = {}
        for parent in potential.parents:
            own = by_name[parent.name]
            if isinstance(own, LinearGaussian) and [*map(type, own.parents)] == [Discrete]:
                effects[parent.name] = own
        hidden = {name, *(parent.child.name for parent in above), *effects}
        if any(len(snapshot.succ[other]) > 1 for other in hidden - {name}):
            return None
        attributes = frozenset(by_name) - hidden
        needed = {parent.name for parent in (*potential.parents, *boxes[0].parents)} - hidden
        needed |= {own.parents[0].name for own in effects.values()}
        if not needed <= attributes:
            return None
        return cls(snapshot, potential, boxes[0], kinds, effects, attributes, frozenset(needed))

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
    def intercepts(self) -> Values:
        """The intercepts (leaves, kinds)."""
        return self._turn(self.potential.intercept)

    @cached_property
    def variances(self) -> Values:
        """The variances (leaves, kinds)."""
        return self._turn(self.potential.variance)

    @cached_property
    def slopes(self) -> Values:
        """The slopes (leaves, kinds, parents)."""
        return self._turn(self.potential.coefficients)

    @cached_property
    def kind_groups(self) -> list[tuple[int, list[int]]]:
        """The kinds that have the same slopes, and the first of them; without those that have none."""
        groups: list[tuple[int, list[int]]] = []
        for kind in np.flatnonzero(self.slopes.any(axis=(0, 2))).tolist():
            for first, same in groups:
                if (self.slopes[:, first] == self.slopes[:, kind]).all():
                    same.append(kind)
                    break
            else:
                groups.append((kind, [kind]))
        return groups

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
        row, box = find_box_index(self.boxes).find(cells)
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
        means, variances = self.intercepts[box], self.variances[box]
        known = np.array(values).reshape(len(values), cells.rows).T[row]
        for first, same in self.kind_groups:
            own = self.slopes[box, first]
            means[:, same] += np.einsum("lj,lj->l", own, known)[:, None]
            for place, spread in extra.items():
                variances[:, same] += (own[:, place] ** 2 * spread[row])[:, None]
        return row, weights[:, None] * self.kind_shares, means, variances


class NumberForestPlan(Plan):
    """Looking up the leaves of all rows, in which everything needed is known."""

    distinct = False

    def __init__(self, request: EngineRequest, target: _BoxedRegression) -> None:
        self.request: EngineRequest = request
        self.target: _BoxedRegression = target
        leaves = len(target.boxes.child)
        self.parts: int = (target.boxes.overlap or leaves) * len(target.kind_shares)
        self.cells: float = float(leaves * len(target.kind_shares) * (len(target.parents) + 2))
        self.clique: Sequence[str] = (target.boxes.child.name, target.potential.child.name)
        self.operations: float = float(self.parts * (len(target.parents) + 2) * request.evidence.rows)
        self.held_bytes: float = 8.0 * (self.cells + BLOCK * (len(target.parents) + 8))

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of blocks of rows."""
        yield from self.solve_blocks(evidence, np.arange(evidence.rows), max(BLOCK // self.parts, 1), self._look_up)

    def solve_blocks(
        self,
        evidence: Evidence,
        rows: NDArray[np.intp],
        block: int,
        answer: Callable[[Evidence], tuple[Values, GaussianPosterior, Values]],
    ) -> Iterator[Solution]:
        """Yield the solutions of some rows: log probabilities, densities and errors."""
        problem = self.request.problem

        def solve_block(start: int) -> Solution:
            chosen = rows[start : start + block]
            part = evidence.take(chosen, len(chosen))
            logs, density, error = answer(part)
            tables = [np.ones(len(chosen))]
            return Solution(problem, chosen, part, problem.axes, tables, logs, error, densities={0: density})

        return run_in_threads(solve_block, range(0, len(rows), block), self.request.options.jobs)

    def _look_up(self, cells: Evidence) -> tuple[Values, GaussianPosterior, Values]:
        row, *parts = self.target.predict(cells)
        density = GaussianPosterior.of(self.target.potential.child, *_arrange(row, cells.rows, *parts))
        return np.zeros(cells.rows), density, np.zeros(cells.rows)


class DrawnForestPlan(NumberForestPlan):
    """Looking up the leaves of draws of what is missing."""

    sampled = True

    def __init__(self, request: EngineRequest, target: _BoxedRegression) -> None:
        super().__init__(request, target)
        self.operations: float = DRAWS * self.operations

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of rows in which no tested number is missing, then those of the others."""
        known = np.ones(evidence.rows, dtype=bool)
        for name in self.target.tested:
            finding = evidence.finding(name)
            known &= np.zeros(1, dtype=bool) if finding is None else finding.observed
        whole = np.flatnonzero(known)
        if len(whole):
            # what is missing in these is averaged over in closed form
            part, request = evidence.take(whole, len(whole)), self.request
            problem = problem_of(request.network, request.question, part)
            for solution in choose_plan(replace(request, problem=problem, evidence=part)).solve(part):
                yield replace(solution, rows=whole[solution.rows])
        yield from self.solve_blocks(evidence, np.flatnonzero(~known), ROWS, self._average)

    def _average(self, cells: Evidence) -> tuple[Values, GaussianPosterior, Values]:
        from scipy.stats import qmc

        network = self.target.extend(cells.findings)
        options = replace(self.request.options, beyond=None, impossible="nan")
        logs = log_evidence_of(network, cells, options)
        possible = np.flatnonzero(logs > -np.inf)
        repeated = np.repeat(possible, DRAWS)
        shift = np.random.default_rng(_SEED).random(len(network))
        points = ((qmc.Sobol(len(network), scramble=False).random(DRAWS) + shift) % 1).T
        drawn = draw(network, cells.take(repeated, len(repeated)), np.tile(points, len(possible)), options)
        findings = {name: Finding(network.variable(name), drawn[name]) for name in self.target.needed}
        complete = Evidence(findings, len(repeated), single=False)
        error = np.full(cells.rows, np.nan)
        densities = []
        block = max(BLOCK // (self.parts * DRAWS), 1)
        for start in range(0, len(possible), block):
            rows = np.arange(start, min(start + block, len(possible)))
            part = complete.take(slice(start * DRAWS, (start + block) * DRAWS), len(rows) * DRAWS)
            case, weights, means, variances = self.target.predict(part)
            row = case // DRAWS
            error[possible[rows]] = _estimate_error(case, len(rows), weights, means, variances)
            mixture = merge_near_parts(*_arrange(row, len(rows), weights / DRAWS, means, variances), *NEAR)
            densities.append((possible[rows], GaussianPosterior.of(self.target.potential.child, *mixture)))
        return logs, GaussianPosterior.join(densities, cells.rows), error


def _arrange(
    row: NDArray[np.intp], rows: int, weights: Values, means: Values, variances: Values
) -> tuple[Values, Values, Values]:
    """Return the parts (leaves, kinds) of mixtures, in the order of their rows, as arrays (parts, rows)."""
    counts = np.bincount(row, minlength=rows)
    ranks = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)

    def arrange(array: Values, blank: float) -> Values:
        table = np.full((rows, int(counts.max(initial=1)), array.shape[1]), blank)
        table[row, ranks] = array
        return np.ascontiguousarray(table.reshape(rows, -1).T)

    return arrange(weights, 0.0), arrange(means, 0.0), arrange(variances, 1.0)


def _estimate_error(case: NDArray[np.intp], rows: int, weights: Values, means: Values, variances: Values) -> Values:
    """Return the standard errors (rows,) of the probability that the number is below its mean, from groups of draws."""
    from scipy.special import ndtr

    row = case // DRAWS
    center = np.bincount(row, (weights * means).sum(axis=1), rows) / DRAWS
    below = (weights * ndtr((center[row][:, None] - means) / np.sqrt(variances))).sum(axis=1)
    groups = case // (DRAWS // BATCHES)
    shares = np.bincount(groups, below, rows * BATCHES).reshape(rows, BATCHES) / (DRAWS // BATCHES)
    return np.asarray(shares.std(axis=1, ddof=1) / np.sqrt(BATCHES))
