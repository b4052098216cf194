"""Why a posterior is what it is: what findings are worth, and how it depends on the tables of a network.

The probability of evidence is linear in each entry of a table, so a posterior is a ratio of linear functions of a
parameter (Castillo, Gutiérrez and Hadi 1997; Laskey 1995). One pass backward through the program that computed the
posterior gives the slopes of all of these functions (Darwiche 2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError, TooWide
from hybridbn.inference.axes import node_axis
from hybridbn.inference.compilation import Question
from hybridbn.inference.elimination.factors import PotentialSource
from hybridbn.inference.elimination.program import Program
from hybridbn.inference.engines import Solution
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.posteriors.continuous import NOTHING, ContinuousPosterior
from hybridbn.inference.queries import (
    find_contradictions,
    name_impossible_rows,
    posterior,
    read_relevant_evidence,
    suppose,
)
from hybridbn.inference.relevance import Snapshot, status_of
from hybridbn.inference.solutions import infer_posteriors, solve
from hybridbn.network import Network
from hybridbn.options import Options, check_count, make_generator
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import NO_POINTS, PointCells
from hybridbn.variables import Discrete, Values, code_state

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Explanation:
    """Why a state is as probable as it is.

    Attributes
    ----------
    target, state : what is explained
    prior : float
        Log-odds of the state against the rest without evidence.
    weights : dict of str to float
        What each finding adds, in the order of the evidence: the log likelihood ratio of the finding given those before
        it.
    log_odds : float
        The posterior log-odds: prior plus all weights.
    """

    target: str
    state: Hashable
    prior: float
    weights: Mapping[str, float]
    log_odds: float

    @property
    def probability(self) -> float:
        """The posterior probability of the state."""
        return float(1 / (1 + np.exp(-self.log_odds)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the weights with matplotlib, as steps to the log-odds; returns the axes."""
        from hybridbn.pictures import plot_explanation

        return plot_explanation(self, ax)

    def _repr_html_(self) -> str:
        from hybridbn.pictures.html import show_explanation

        return show_explanation(self)

    def __str__(self) -> str:
        width = max([len("without evidence"), *map(len, self.weights)])
        lines = [f"log-odds of {self.target} = {self.state!r} against the rest"]
        lines += [
            f"  {name:<{width}}  {value:+10.4f}"
            for name, value in [("without evidence", self.prior), *self.weights.items()]
        ]
        lines.append(f"  {'in all':<{width}}  {self.log_odds:+10.4f}   probability {self.probability:.4g}")
        return "\n".join(lines)


def explain(
    network: Network, target: str, evidence: Any, state: Any = None, options: Options | None = None
) -> Explanation:
    """Explain the posterior probability of a state (the most probable one, if none is named) for one case."""
    variable = network.variable(target)
    if not isinstance(variable, Discrete):
        raise TableError(f"{target!r} is continuous; weights of evidence are for the states of a discrete variable")
    if not isinstance(evidence, Mapping):
        raise TableError(
            "explain() takes the evidence of one case as a mapping, in the order in which it is to be weighed"
        )
    options, snapshot = options or Options(), Snapshot.of(network)
    read = EvidenceReader(network, evidence, [target]).evidence()
    names = [name for name in evidence if name in read.findings]
    always = {name: finding for name, finding in read.findings.items() if name not in names}
    parts = [
        Evidence({**always, **{name: read.findings[name] for name in names[:count]}}, 1, single=True)
        for count in range(len(names) + 1)
    ]
    with name_impossible_rows(np.zeros(1, dtype=np.intp), single=True):
        answers = [infer_posteriors(snapshot, [target], part, options, refuse_contradictions=True) for part in parts]
    tables = [answer.probabilities for (answer,) in answers]
    code = int(np.argmax(tables[-1])) if state is None else code_state(variable, state)
    rest = np.delete(tables, code, axis=1).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(np.array(tables)[:, code]) - np.log(rest)
        weights = dict(zip(names, np.diff(odds).tolist(), strict=True))
    return Explanation(target, variable.states[code], float(odds[0]), weights, float(odds[-1]))


MOST_CELLS = 16
"""Cells of a continuous variable whose value the posterior of a continuous target is asked given."""
MOST_FINDINGS = 15
"""Shapley values of so many findings are exact: they take the posteriors given each of their subsets."""
TAIL = 1e-11
"""The mass at each end of a continuous variable at which the posterior of a continuous target is not asked."""
_LOOKS, _BISECTIONS = (np.arange(24) + 0.5) / 24, 30
"""Where crossings of densities are looked for in each cell, as shares of it, and how often they are closed in on."""


def rank_by_information(
    network: Network,
    target: str,
    evidence: Any = None,
    costs: Mapping[str, float] | None = None,
    options: Options | None = None,
) -> pandas.DataFrame:
    """Return what observing each unobserved variable would tell about the target, the most informative ones first.

    Parameters
    ----------
    target : name
    evidence : mapping, optional
    costs : mapping, optional
        What it costs to observe a variable, 1 for those that are not named. Then the order is that of information per
        cost.
    options : Options, optional

    Returns
    -------
    DataFrame
        Indexed by variable. ``information`` is the mutual information with the target given the evidence, in nats: the
        expected reduction of the target's entropy. ``gain`` is by how much a guess of the target would be better on
        average: the probability that its most probable state is right, or the variance of a continuous target.

    Examples
    --------
    >>> import hybridbn as hb
    >>> sick, cough = hb.Discrete("sick", states=("no", "yes")), hb.Discrete("cough", states=("no", "yes"))
    >>> fever = hb.Continuous("fever")
    >>> net = hb.Network([
    ...     hb.Multinomial(sick, table=[0.7, 0.3]),
    ...     hb.Multinomial(cough, parents=(sick,), table=[[0.8, 0.2], [0.1, 0.9]]),
    ...     hb.LinearGaussian(fever, parents=(sick,), intercept=[36.8, 38.0], variance=[0.25, 0.25]),
    ... ])
    >>> net.value_of_information("sick").round(4)
              information    gain
    variable
    fever          0.3675  0.1983
    cough          0.2291  0.1300
    """
    import pandas

    network.variable(target)
    options, snapshot = options or Options(), Snapshot.of(network)
    read = _read_case(network, target, {} if evidence is None else evidence, "the value of information is about")
    present = posterior(network, target, evidence, options)
    if status_of(read.finding(target)) == "hard":
        raise TableError(f"{target!r} has one value, so nothing can be learned about it")
    names = [name for name in network if name != target and status_of(read.finding(name)) != "hard"]
    prices = _check_costs(network, costs)
    related = [name for name in names if _matters(snapshot, read, name, target)]
    inform: Any = _inform_about_states if isinstance(present, DiscretePosterior) else _inform_about_number
    infer = partial(_infer_supposed, snapshot, read, options)
    values = dict.fromkeys(names, (0.0, 0.0)) | (inform(snapshot, infer, present, related) if related else {})
    frame = pandas.DataFrame(
        [values[name] for name in names],
        columns=["information", "gain"],
        index=pandas.Index(names, name="variable", dtype=object),
    )
    order = "information"
    if costs is not None:
        frame["cost"] = [prices.get(name, 1.0) for name in names]
        with np.errstate(divide="ignore", invalid="ignore"):
            frame[order := "per_cost"] = np.where(frame["information"] > 0, frame["information"] / frame["cost"], 0.0)
    return frame.sort_values(order, ascending=False, kind="stable")


def _read_case(network: Network, target: str, evidence: Any, what: str) -> Evidence:
    """Return the evidence of the one case that an explanation is about."""
    if not isinstance(evidence, Mapping):
        raise TableError(f"{what} one case: its evidence is a mapping, not {evidence!r:.80}")
    return EvidenceReader(network, evidence, [target]).evidence()


def _check_costs(network: Network, costs: Mapping[str, float] | None) -> dict[str, float]:
    """Return costs as numbers by name."""
    if costs is not None and not isinstance(costs, Mapping):
        raise TableError(f"costs are a mapping of names to numbers, not {costs!r:.80}")
    prices = {}
    for name, cost in (costs or {}).items():
        network.variable(name)
        if isinstance(cost, str | bool) or not isinstance(cost, int | float | np.number) or not 0 <= cost < math.inf:
            raise TableError(f"the cost of {name!r} must be a number that is not negative, not {cost!r}")
        prices[name] = float(cost)
    return prices


_Infer: TypeAlias = Callable[[Mapping[str, NDArray[Any]], Sequence[str]], list[DiscretePosterior | ContinuousPosterior]]
"""From values (rows,) that are supposed of some variables to the posteriors of targets in every row."""


def _infer_supposed(
    network: Snapshot, read: Evidence, options: Options, supposed: Mapping[str, NDArray[Any]], targets: Sequence[str]
) -> list[DiscretePosterior | ContinuousPosterior]:
    """Return the posteriors of targets in one case of which more is supposed, in every row of values (rows,)."""
    rows = np.zeros(max(map(len, supposed.values()), default=1), dtype=np.intp)
    return infer_posteriors(network, targets, suppose(network, read, supposed, rows), options)


def _inform_about_states(
    network: Snapshot, infer: _Infer, present: DiscretePosterior, names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return information and gain of each variable, from its posteriors given each state of the target."""
    states, shares = _choose_points(present, NO_POINTS)
    answers = infer({present.variable.name: states}, names)
    best = float(shares.max())
    values = {}
    for name, answer in zip(names, answers, strict=True):
        densities, weights = _tabulate(answer, network.potential(name).point_cells, shares)
        joint = shares[:, None] * densities
        gain = float(joint.max(axis=0) @ weights) - best
        values[name] = _measure_information(shares, densities, weights), max(gain, 0.0)
    return values


def _inform_about_number(
    network: Snapshot, infer: _Infer, present: ContinuousPosterior, names: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Return information and gain of each variable, from the target's posteriors given each of its values."""
    target, values = present.variable.name, {}
    masses = network.potential(target).point_cells
    spread, entropy = float(present.var()), float(present.entropy())
    for name, answer in zip(names, infer({}, names), strict=True):
        points, shares = _choose_points(answer[0], network.potential(name).point_cells)
        (given,) = infer({name: points}, [target])
        gain = max(spread - float(shares @ given.var()), 0.0)
        if isinstance(answer, DiscretePosterior):
            values[name] = _measure_information(shares, *_tabulate(given, masses)), gain
        else:
            values[name] = max(entropy - float(shares @ given.entropy()), 0.0), gain
    return values


def _matters(network: Snapshot, read: Evidence, name: str, target: str) -> bool:
    """Return whether the structure lets the target depend on a variable given the evidence."""
    supposed = suppose(network, read, {name: np.zeros(1)})
    return name in read_relevant_evidence(network, supposed, [target]).findings


def _tabulate(
    answer: DiscretePosterior | ContinuousPosterior, masses: PointCells, shares: Values | None = None
) -> tuple[Values, Values]:
    """Return probabilities or densities of all rows (rows, points) at points that they share, and weights (points,);
    with shares of the rows, no cell between the points has a kink of their largest part of the mixture inside.
    """
    if isinstance(answer, DiscretePosterior):
        return answer.probabilities, np.ones(len(answer.states))
    edges = np.unique(answer.knots()[0])
    if shares is not None:
        edges = np.union1d(edges, _find_crossings(lambda x: (shares[:, None] * answer.pdf(x)).argmax(axis=0), edges))
    points, weights = _lay_points(edges, masses)
    return answer.pdf(points), weights


def _find_crossings(find_largest: Callable[[Values], NDArray[np.intp]], edges: Values) -> Values:
    """Return where another one than before is the largest."""
    points = (edges[:-1, None] + np.diff(edges)[:, None] * _LOOKS).ravel()
    largest = find_largest(points)
    changes = np.flatnonzero(np.diff(largest))
    low, high, before = points[changes], points[changes + 1], largest[changes]
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        same = find_largest(middle) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return high


def _lay_points(edges: Values, masses: PointCells) -> tuple[Values, Values]:
    """Return Gauss-Legendre points and weights in the cells between edges, and the points that have mass, which count
    as they are.
    """
    cells = node_axis(edges[:-1, None], edges[1:, None])
    points, lengths = cells.points[:, 0], cells.weights[:, 0]
    if not len(masses.points):
        return points, lengths
    _, exact, inside = masses.locate(points)
    away = ~(exact | inside)
    return np.append(points[away], masses.points), np.append(lengths[away], np.ones(len(masses.points)))


def _choose_points(answer: DiscretePosterior | ContinuousPosterior, masses: PointCells) -> tuple[NDArray[Any], Values]:
    """Return the possible states of a variable in a single case, or values that stand for its density, and their shares
    of the mass.
    """
    if isinstance(answer, DiscretePosterior):
        points: NDArray[Any] = np.arange(len(answer.states))
        shares = answer.probabilities
    else:
        low, high = answer.numeric.quantile([TAIL, 1 - TAIL])
        knots = answer.knots()[0]
        inner = np.unique(knots[(knots > low) & (knots < high)])
        step = max(math.ceil((len(inner) + 1) / MOST_CELLS), 1)
        points, weights = _lay_points(np.concatenate([[low], inner[step - 1 :: step], [high]]), masses)
        shares = answer.pdf(points) * weights
    used = shares > NOTHING
    return points[used], shares[used] / shares[used].sum()


def _measure_information(shares: Values, densities: Values, weights: Values) -> float:
    """Return the mutual information of a row and what is distributed by it: the mean divergence from the mixture.

    Examples
    --------
    >>> _measure_information(np.array([0.5, 0.5]), np.eye(2), np.ones(2)) == math.log(2)
    True
    """
    mixture = shares @ densities
    some = densities > 0
    ratio = np.divide(densities, mixture, out=np.ones_like(densities), where=some & (mixture > 0))
    return max(float(shares @ (densities * np.log(ratio)) @ weights), 0.0)


def shapley_values(
    network: Network,
    target: str,
    evidence: Mapping[str, Any],
    state: Any = None,
    *,
    permutations: int = 500,
    random_state: Any = None,
    options: Options | None = None,
) -> dict[str, Any]:
    """Return what each finding contributes to a posterior, averaged over all orders in which they may become known.

    What is not known yet is averaged over given what is (conditional Shapley values). The values add up to the
    posterior probability of a state less its prior one; else to the difference of the means, a duration of dates.

    Parameters
    ----------
    evidence : mapping
    state : optional
        A state of a discrete target; by default the most probable one.
    permutations : int
        How many orders are drawn where there are more than 15 findings; else the values are exact.
    random_state : int or numpy.random.Generator, optional

    Examples
    --------
    >>> import hybridbn as hb
    >>> sick = hb.Discrete("sick", states=("no", "yes"))
    >>> cough, sneeze = (hb.Discrete(name, states=("no", "yes")) for name in ("cough", "sneeze"))
    >>> net = hb.Network([
    ...     hb.Multinomial(sick, table=[0.9, 0.1]),
    ...     hb.Multinomial(cough, parents=(sick,), table=[[0.8, 0.2], [0.1, 0.9]]),
    ...     hb.Multinomial(sneeze, parents=(sick,), table=[[0.7, 0.3], [0.4, 0.6]]),
    ... ])
    >>> shares = hb.shapley_values(net, "sick", {"cough": "yes", "sneeze": "yes"}, "yes")
    >>> {name: round(share, 4) for name, share in shares.items()}
    {'cough': 0.2758, 'sneeze': 0.1242}
    """
    variable, options = network.variable(target), options or Options()
    read = _read_case(network, target, evidence, "Shapley values are those of")
    whole = posterior(network, target, evidence, options)
    names = [name for name in evidence if name in read.findings]
    count = len(names)
    orders = None
    if count <= MOST_FINDINGS:
        known = np.arange(2**count)[:, None] >> np.arange(count) & 1 == 1
    else:
        orders = _draw_orders(count, check_count(permutations, "the number of permutations", 1), random_state)
        # what is known before each finding of an order becomes known, and after the last one
        ranks = np.argsort(orders, axis=1)[:, None]
        known = (ranks < np.arange(count + 1)[:, None]).reshape(-1, count)
    rows = len(known)
    findings = dict(read.take(np.zeros(rows, dtype=np.intp), rows).findings)
    findings |= {name: _hide(findings[name], ~known[:, number]) for number, name in enumerate(names)}
    (result,) = infer_posteriors(network, [variable.name], Evidence(findings, rows, single=False), options)
    if isinstance(result, DiscretePosterior):
        worth = result.probability(whole.mode() if state is None else state)
    elif state is None:
        worth = result.numeric.mean()
    else:
        raise TableError(f"{target!r} is continuous and has no state {state!r}")
    if orders is None:
        shares = _average_exactly(worth, known)
    else:
        steps = np.diff(worth.reshape(len(orders), -1), axis=1)
        shares = np.bincount(orders.reshape(-1), weights=steps.reshape(-1)) / len(orders)
    told = shares.tolist() if isinstance(variable, Discrete) else map(variable.restore_difference, shares.tolist())
    return dict(zip(names, told, strict=True))


def _hide(finding: Finding, rows: NDArray[np.bool_]) -> Finding:
    """Return a finding that says nothing in some rows."""

    def blank(array: NDArray[Any] | None, nothing: Any) -> NDArray[Any] | None:
        return None if array is None else np.where(rows, nothing, array)

    values = np.where(rows, -1 if isinstance(finding.variable, Discrete) else np.nan, finding.values)
    reach = finding.reach and (np.where(rows, -np.inf, finding.reach[0]), np.where(rows, np.inf, finding.reach[1]))
    return Finding(finding.variable, values, blank(finding.likelihood, 1.0), reach, blank(finding.cells, None))


def _draw_orders(count: int, permutations: int, random_state: Any) -> NDArray[np.intp]:
    """Draw orders (permutations, findings); every second one is the reverse of the one before."""
    orders = np.tile(np.arange(count), ((permutations + 1) // 2, 1))
    half = make_generator(random_state).permuted(orders, axis=1)
    return np.stack([half, half[:, ::-1]], axis=1).reshape(-1, count)[:permutations]


def _average_exactly(worth: Values, known: NDArray[np.bool_]) -> Values:
    """Return Shapley values from the worth of all subsets, in the order of the numbers that they are in binary.

    Examples
    --------
    >>> _average_exactly(np.array([0.0, 1.0, 2.0, 5.0]), np.array([[0, 0], [1, 0], [0, 1], [1, 1]]) == 1).tolist()
    [2.0, 3.0]
    """
    subsets, count = known.shape
    sizes, numbers = known.sum(axis=1), np.arange(subsets)
    share = np.array([1 / (max(count, 1) * math.comb(count - 1, size)) for size in range(count)])
    lacking = [numbers[~known[:, place]] for place in range(count)]
    return np.array(
        [share[sizes[own]] @ (worth[own | 1 << place] - worth[own]) for place, own in enumerate(lacking)],
        dtype=np.float64,
    )


_SMALL = 1e-50
"""Products whose largest number is smaller are scaled, so that long ones do not underflow."""
_LARGE = 20_000
"""Products of so many cells are left to BLAS."""


def analyze_sensitivity(
    network: Network, target: str, evidence: Any = None, options: Options | None = None
) -> Sensitivity:
    """Return how the posterior of a discrete variable depends on every parameter of every table, for one case.

    Examples
    --------
    >>> import hybridbn as hb
    >>> sick, cough = hb.Discrete("sick", states=("no", "yes")), hb.Discrete("cough", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(sick, table=[0.9, 0.1]),
    ...     hb.Multinomial(cough, parents=(sick,), table=[[0.8, 0.2], [0.1, 0.9]]),
    ... ])
    >>> sensitivity = net.sensitivity("sick", {"cough": "yes"})
    >>> sensitivity.derivatives("sick", "yes").round(4)
    array([-2.4691,  2.4691])
    >>> low, high = sensitivity.ranges("sick")  # above this prior, the most probable state would be another one
    >>> round(float(high[1]), 4)
    0.1818
    >>> sensitivity.predict("cough", {"sick": "no", "cough": "yes"}, 0.1).round(4)
    array([0.5, 0.5])
    """
    variable = network.variable(target)
    if not isinstance(variable, Discrete):
        raise TableError(
            f"{target!r} is continuous; a sensitivity analysis is about the probabilities of a discrete variable"
        )
    read = _read_case(network, target, {} if evidence is None else evidence, "a sensitivity analysis is about")
    options, snapshot = options or Options(), Snapshot.of(network)
    solutions = _Solutions()
    answer = solve(snapshot, Question((target,)), read, options, lambda *_: [solutions])
    answer.refuse(find_contradictions(snapshot, answer.problem, read, options), options)
    tables = {name: table for name in network if (table := snapshot.potential(name).as_table())}
    if math.isnan(solutions[0].tables[0].sum()):
        raise TableError("a sensitivity analysis needs evidence that is possible; impossible='nan' is of no use here")
    probabilities, gradients = _differentiate_tables(solutions[0], len(variable), options.max_bytes)
    return Sensitivity(variable, probabilities, tables, gradients)


class _Solutions(list[Solution]):
    """Keeps the solutions, of which one case has one."""

    add = list.append


def _differentiate_tables(solution: Solution, states: int, max_bytes: float) -> tuple[Values, dict[str, Values]]:
    """Return the posterior (states,), and the derivatives of the joint probabilities of evidence and target.

    The derivatives are divided by the probability of the evidence, and have the dimensions of each table and the
    target's states; tables on which the posterior does not depend are left out.
    """
    problem = solution.problem
    needed = 8 * (problem.order.total + 2 * states * problem.order.largest)
    if needed > max_bytes:
        raise TooWide(
            f"a sensitivity analysis needs {needed / 2**30:.3g} GiB for this evidence; at most {max_bytes / 2**30:.3g}"
            " GiB are allowed. Observe more variables, or raise max_bytes"
        )
    arrays = []
    for source in problem.sources:
        table = source.potential.as_table() if isinstance(source, PotentialSource) else None
        if source.static and table is not None:
            arrays.append(table.table)
            continue
        array, _ = source.values(solution.axes, solution.evidence)
        arrays.append(array[..., 0] if source.rows else array)
    joint, slopes = differentiate(problem.program, arrays)
    total = joint.sum()
    gradients = {}
    for source, slope in zip(problem.sources, slopes, strict=True):
        if isinstance(source, PotentialSource) and (table := source.potential.as_table()):
            # derivatives are zero where a table contradicts the evidence
            gradients[table.child.name] = np.zeros((*table.table.shape, states))
            known = {name: solution.evidence.findings[name].values[0] for name in source.hard}
            gradients[table.child.name][tuple(known.get(name, slice(None)) for name in table.scope)] = slope / total
    return joint / total, gradients


def differentiate(program: Program, arrays: Sequence[Values]) -> tuple[Values, list[Values]]:
    """Return the one table of a program, and the derivatives of all its cells by every cell of every factor.

    Parameters
    ----------
    arrays : sequence of ndarray
        The factors, without rows.

    Returns
    -------
    table : ndarray (states,)
        Divided by a positive number that keeps it within range.
    derivatives : list of ndarray (*factor, states)
        Of that table.

    Examples
    --------
    >>> from hybridbn.inference.elimination.compilers import compile_program
    >>> from hybridbn.inference.elimination.program import Factor
    >>> program = compile_program([Factor(("a",)), Factor(("a", "b"))], [("b",)], {"a": 2, "b": 2})
    >>> table, (by_a, _) = differentiate(program, [np.array([0.4, 0.6]), np.array([[0.9, 0.1], [0.5, 0.5]])])
    >>> (by_a[:, 0] / table.sum()).round(9).tolist()
    [0.9, 0.5]
    """
    slots: dict[int, Values] = dict(enumerate(arrays))
    factors = []
    for step in program.steps:
        assert not step.divide  # with one scope, messages go one way
        subscripts = step.subscripts.replace("Z", "")
        product = _multiply(subscripts, [slots[slot] for slot in step.inputs])
        largest = float(product.max(initial=0.0))
        scale = largest if 0 < largest < _SMALL else 1.0
        slots[step.output] = product if scale == 1 else product / scale
        factors.append((step, subscripts, scale))
    (output,) = program.outputs
    table = slots[output]
    slopes: dict[int, Values] = {output: np.eye(len(table))}
    for step, subscripts, scale in reversed(factors):
        above = slopes.pop(step.output, None)
        if above is None:
            continue
        if scale != 1:
            above = above / scale
        for slot, (backward, alone) in zip(step.inputs, _turn_back(subscripts), strict=True):
            slope = _multiply(backward, [above, *(slots[other] for other in step.inputs if other != slot)])
            if alone:
                slope = np.broadcast_to(np.expand_dims(slope, alone), (*slots[slot].shape, slope.shape[-1]))
            slopes[slot] = slopes[slot] + slope if slot in slopes else slope
    return table, [slopes.get(slot, np.zeros((*array.shape, len(table)))) for slot, array in enumerate(arrays)]


@lru_cache(maxsize=4096)
def _turn_back(subscripts: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return, for each input of a product, the product that its derivatives are, and the dimensions along which they
    are constant, because the input alone was summed over them.

    Examples
    --------
    >>> _turn_back("abd,bc->ac")
    [('acZ,bc->abZ', (2,)), ('acZ,abd->bcZ', ())]
    """
    parts, out = subscripts.split("->")
    names, result = parts.split(","), []
    for place, own in enumerate(names):
        others = names[:place] + names[place + 1 :]
        alone = tuple(i for i, letter in enumerate(own) if letter not in "".join([out, *others]))
        kept = "".join(letter for i, letter in enumerate(own) if i not in alone)
        result.append((f"{','.join([f'{out}Z', *others])}->{kept}Z", alone))
    return result


def _multiply(subscripts: str, operands: Sequence[Values]) -> Values:
    large = len(operands) > 1 and math.prod(operand.size for operand in operands) > _LARGE**2
    return np.asarray(np.einsum(subscripts, *operands, optimize=large))


@dataclass(frozen=True, repr=False)
class Sensitivity:
    """How the posterior of a discrete variable depends on the parameters of the network's tables.

    A parameter moves with the others of its row: they keep their ratios, so that the row still sums to one (where it
    is one, the others share the rest evenly). With ``alone=True`` the others stay as they are.

    Attributes
    ----------
    target : Discrete
    probabilities : ndarray (states,)
        The posterior.
    tables : dict of Multinomial
        By node.
    gradients : dict of ndarray (*parents, states, states of the target)
        Derivatives of the joint probability of evidence and target by each entry alone, divided by the probability of
        the evidence; nodes on which the posterior does not depend are left out.
    """

    target: Discrete
    probabilities: Values
    tables: Mapping[str, Multinomial]
    gradients: Mapping[str, Values]

    @property
    def state(self) -> Hashable:
        """The most probable state."""
        return self.target.states[int(self.probabilities.argmax())]

    def derivatives(self, node: str, state: Any = None, *, alone: bool = False) -> Values:
        """Return the derivatives of the posterior by each entry of a node's table.

        They have the dimensions of the table, and the target's states last unless one `state` is named.
        """
        slopes = self._slopes(node, alone)
        derivatives = slopes - self.probabilities * slopes.sum(axis=-1, keepdims=True)
        return np.asarray(derivatives if state is None else derivatives[..., self._code(state)])

    def ranges(self, node: str) -> tuple[Values, Values]:
        """Return the ends of the range in which each entry of a node's table may be, the others moving with it, while
        the most probable state stays the same.
        """
        table, slopes = self._table(node).table, self._slopes(node)
        best = int(self.probabilities.argmax())
        lead = self.probabilities[best] - np.delete(self.probabilities, best)
        gain = slopes[..., best : best + 1] - np.delete(slopes, best, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(gain == 0, np.inf, -lead / gain)
        down = np.where((gain > 0), away, -np.inf).max(axis=-1, initial=-np.inf)
        up = np.where((gain < 0), away, np.inf).min(axis=-1, initial=np.inf)
        return np.clip(table + down, 0.0, table), np.clip(table + up, table, 1.0)

    def predict(self, node: str, states: Mapping[str, Any], value: float) -> Values:
        """Return the posterior if a parameter had another value, the others of its row moving with it.

        Parameters
        ----------
        states : mapping
            The states of the node and of its parents.
        value : float
        """
        potential = self._table(node)
        if not isinstance(states, Mapping) or set(states) != set(potential.scope):
            raise TableError(f"name the states of {potential.scope} in a mapping, not {states!r:.80}")
        cell = tuple(v.code(states[v.name]) for v in (*potential.parents, potential.child))
        if min(cell) < 0 or not isinstance(value, Real) or not 0 <= value <= 1:
            raise TableError(
                f"a parameter has known states and a value between 0 and 1, not {dict(states)} and {value}"
            )
        return self._move(self._slopes(node)[cell], value - potential.table[cell])

    def _move(self, slopes: Values, change: Any) -> Values:
        """Return the posterior after changes (...,) of parameters with some slopes (..., states)."""
        joint = np.maximum(self.probabilities + slopes * np.asarray(change)[..., None], 0.0)
        with np.errstate(invalid="ignore"):
            return np.asarray(joint / joint.sum(axis=-1, keepdims=True))

    def to_frame(self, state: Any = None, most: int | None = None) -> pandas.DataFrame:
        """Return a DataFrame of the parameters, those that change the probability of a state most first.

        Columns are the parameter as text, its node, its value, the derivative, and the ends `low` and `high` of the
        range in which it may be while the most probable state stays the same.

        Parameters
        ----------
        state : optional
            A state of the target; by default the most probable one.
        most : int, optional
            How many parameters to return; by default all.
        """
        import pandas

        code = self._code(state)
        derivatives = {node: self.derivatives(node)[..., code] for node in self.tables}
        chosen = self._rank(derivatives, most)
        nodes = {node for node, _ in chosen}
        columns = {node: (self.tables[node].table, derivatives[node], *self.ranges(node)) for node in nodes}
        rows = [(self.describe(node, cell), node, *(own[cell] for own in columns[node])) for node, cell in chosen]
        return pandas.DataFrame(rows, columns=["parameter", "node", "value", "derivative", "low", "high"])

    def find_swings(self, state: Any = None, change: float = 0.1, most: int = 12) -> list[tuple[str, float, float]]:
        """Return the parameters that matter most, each as text with the probability of a state where the parameter is
        smaller, and where it is larger, by a share of its value.
        """
        if not isinstance(change, Real) or not 0 < change <= 1:
            raise TableError(f"the share by which parameters change is above 0 and at most 1; found {change!r}")
        code, ends = self._code(state), {}
        for node in self.gradients:
            table, slopes = self.tables[node].table, self._slopes(node)
            lower, upper = -change * table, np.minimum((1 + change) * table, 1.0) - table
            ends[node] = [self._move(slopes, step)[..., code] for step in (lower, upper)]
        swings = {node: np.nan_to_num(np.abs(upper - lower)) for node, (lower, upper) in ends.items()}
        return [
            (self.describe(node, cell), float(ends[node][0][cell]), float(ends[node][1][cell]))
            for node, cell in self._rank(swings, most)
        ]

    def plot(self, state: Any = None, change: float = 0.1, ax: Any = None, most: int = 12) -> Any:
        """Draw a tornado with matplotlib: the probability of a state where each parameter is smaller, or larger, by a
        share of its value, those that matter most on top; returns the axes.
        """
        from hybridbn.pictures import plot_sensitivity

        return plot_sensitivity(self, state, change, ax, most)

    def describe(self, node: str, cell: Sequence[int]) -> str:
        """Return a parameter as text, such as ``P(cough = yes | ill = no)``."""
        potential = self._table(node)
        named = zip(potential.scope, potential.variables, cell, strict=True)
        *above, own = [f"{name} = {v.states[code]}" for name, v, code in named if isinstance(v, Discrete)]
        given = f" | {', '.join(above)}" if above else ""
        return f"P({own}{given})"

    def _rank(self, scores: Mapping[str, Values], most: int | None) -> list[tuple[str, tuple[int, ...]]]:
        """Return the nodes and cells with the largest scores, whatever their signs."""
        if most is not None:
            most = check_count(most, "the number of parameters")
        sizes = np.abs(np.concatenate([np.empty(0), *(score.reshape(-1) for score in scores.values())]))
        places = np.argsort(-sizes, kind="stable")[:most]
        nodes, starts = list(scores), np.cumsum([0, *(score.size for score in scores.values())])
        numbers = np.searchsorted(starts, places, side="right") - 1
        chosen = [(nodes[number], place) for number, place in zip(numbers, places - starts[numbers], strict=True)]
        return [(node, tuple(map(int, np.unravel_index(place, scores[node].shape)))) for node, place in chosen]

    def _slopes(self, node: str, alone: bool = False) -> Values:
        """Return the slopes (*table, states of the target) of the joint probabilities along each entry."""
        table, own = self._table(node).table, self.gradients.get(node)
        if own is None:
            return np.zeros((*table.shape, len(self.target)))
        if alone:
            return own
        states = table.shape[-1]
        # adds up, for each state, the numbers of all other states
        others = 1.0 - np.eye(states)
        rest, shares = others @ (table[..., None] * own), (table @ others)[..., None]
        if shares.all():
            return own - rest / shares
        even = others @ own / max(states - 1, 1)
        moved = np.divide(rest, shares, out=even, where=shares > 0)
        return own - moved if states > 1 else np.zeros_like(own)

    def _table(self, node: str) -> Multinomial:
        if not isinstance(node, str) or node not in self.tables:
            raise NetworkError(f"{node!r} is no node with a table of probabilities")
        return self.tables[node]

    def _code(self, state: Any) -> int:
        return int(self.probabilities.argmax()) if state is None else code_state(self.target, state)

    def __repr__(self) -> str:
        count = sum(table.table.size for table in self.tables.values())
        return f"<sensitivity of {self.target.name!r} to {count} parameters in {len(self.tables)} tables>"
