"""What findings are worth: weights of evidence, which add up to the posterior log-odds, and the information that
unobserved variables hold about a target.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.inference.axes import legendre
from hybridbn.inference.compilation import Snapshot, status_of
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.posteriors.base import ContinuousPosterior, DiscretePosterior
from hybridbn.inference.queries import impossible_evidence, posterior, read_relevant_evidence
from hybridbn.inference.solutions import infer_posteriors
from hybridbn.network import Network
from hybridbn.options import Options, check_count, make_generator
from hybridbn.potentials.base import PointCells
from hybridbn.variables import Discrete, Values

if TYPE_CHECKING:
    import pandas

__all__ = ["Explanation", "explain", "rank_by_information", "shapley_values"]


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
    reader = EvidenceReader(network, evidence, [target])
    read = reader.evidence()
    names = [name for name in evidence if name in read.findings]
    always = {name: finding for name, finding in read.findings.items() if name not in names}
    odds = []
    for count in range(len(names) + 1):
        part = Evidence({**always, **{name: read.findings[name] for name in names[:count]}}, 1, single=True)
        try:
            (answer,) = infer_posteriors(snapshot, [target], part, options, check=True)
        except ImpossibleEvidence:
            raise impossible_evidence([0], single=True) from None
        odds.append(answer.probabilities)
    code = int(np.argmax(odds[-1])) if state is None else variable.code(state)
    if code < 0:
        raise TableError(f"{target!r}: {state!r} is not a state")
    steps = [_log_odds(table, code) for table in odds]
    weights = {name: after - before for name, before, after in zip(names, steps[:-1], steps[1:], strict=True)}
    return Explanation(target, variable.states[code], steps[0], weights, steps[-1])


def _log_odds(table: Values, code: int) -> float:
    rest = float(np.delete(table, code).sum())
    with np.errstate(divide="ignore"):
        return float(np.log(table[code]) - np.log(rest))


MOST_CELLS = 16
"""Cells of a continuous variable whose value the posterior of a continuous target is asked given."""
MOST_FINDINGS = 15
"""Shapley values of so many findings are exact: they take the posteriors given each of their subsets."""
TAIL = 1e-11
"""The mass at each end of a continuous variable at which the posterior of a continuous target is not asked."""
NOTHING = 1e-18
"""A state of less probability is left out."""


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
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"the value of information is about one case: its evidence is a mapping, not {evidence!r:.80}")
    present = posterior(network, target, evidence, options)
    read = EvidenceReader(network, evidence, [target]).evidence()
    if status_of(read.finding(target)) == "hard":
        raise TableError(f"{target!r} has one value, so nothing can be learned about it")
    names = [name for name in network if name != target and status_of(read.finding(name)) != "hard"]
    prices = _check_costs(network, costs)
    case = _Case(snapshot, read, options)
    related = [name for name in names if case.matters(name, target)]
    inform = case.inform_about_states if isinstance(present, DiscretePosterior) else case.inform_about_number
    values = dict.fromkeys(names, (0.0, 0.0)) | inform(present, related)
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


class _Case:
    """One case of evidence, of which more is supposed to be known, in as many rows as there are suppositions."""

    def __init__(self, network: Snapshot, read: Evidence, options: Options) -> None:
        self.network, self.read, self.options = network, read, options

    def suppose(
        self, supposed: Mapping[str, NDArray[Any]], targets: Sequence[str]
    ) -> list[DiscretePosterior | ContinuousPosterior]:
        """Return the posteriors of targets in every row of supposed values (rows,), some of which may be missing."""
        rows = len(next(iter(supposed.values())))
        findings = dict(self.read.take(np.zeros(rows, dtype=np.intp), rows).findings)
        for name, values in supposed.items():
            known = findings.get(name)
            findings[name] = (
                Finding(self.network.variable(name), values) if known is None else replace(known, values=values)
            )
        return infer_posteriors(self.network, targets, Evidence(findings, rows, single=False), self.options)

    def _find_points(self, name: str) -> PointCells:
        """Return the values of a variable that have mass."""
        return self.network.potential(name).point_cells

    def inform_about_states(self, present: DiscretePosterior, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return information and gain of each variable, from its posteriors given each state of the target."""
        if not names:
            return {}
        states = np.flatnonzero(present.probabilities > NOTHING)
        shares = present.probabilities[states] / present.probabilities[states].sum()
        answers = self.suppose({present.variable.name: states}, names)
        best = float(shares.max())
        values = {}
        for name, answer in zip(names, answers, strict=True):
            densities, weights = _tabulate(answer, self._find_points(name))
            joint = shares[:, None] * densities
            gain = float(joint.max(axis=0) @ weights) - best
            values[name] = _measure_information(shares, densities, weights), max(gain, 0.0)
        return values

    def inform_about_number(self, present: ContinuousPosterior, names: Sequence[str]) -> dict[str, tuple[float, float]]:
        """Return information and gain of each variable, from the target's posteriors given each of its values."""
        target, values = present.variable.name, {}
        discrete = [name for name in names if isinstance(self.network.variable(name), Discrete)]
        spread, entropy = float(present.var()), float(present.entropy())
        evidence = Evidence(self.read.findings, 1, single=False)
        answers = infer_posteriors(self.network, names, evidence, self.options) if names else []
        for name, answer in zip(names, answers, strict=True):
            if name in discrete:
                probabilities = answer.probabilities[0]
                points: NDArray[Any] = np.flatnonzero(probabilities > NOTHING)
                shares = probabilities[points]
            else:
                points, shares = _choose_points(answer[0], self._find_points(name))
            shares = shares / shares.sum()
            (given,) = self.suppose({name: points}, [target])
            gain = max(spread - float(shares @ given.var()), 0.0)
            if name in discrete:
                values[name] = _measure_information(shares, *_tabulate(given, self._find_points(target))), gain
            else:
                values[name] = max(entropy - float(shares @ given.entropy()), 0.0), gain
        return values

    def matters(self, name: str, target: str) -> bool:
        """Return whether the structure lets the target depend on a variable given the evidence."""
        finding = Finding(self.network.variable(name), np.zeros(1))
        supposed = Evidence({**self.read.findings, name: finding}, 1, single=False)
        return name in read_relevant_evidence(self.network, supposed, [target]).findings


def _tabulate(answer: DiscretePosterior | ContinuousPosterior, masses: PointCells) -> tuple[Values, Values]:
    """Return probabilities or densities of all rows (rows, points) at points that they share, and weights (points,)."""
    if isinstance(answer, DiscretePosterior):
        return answer.probabilities, np.ones(len(answer.states))
    points, weights = _lay_points(np.unique(answer.knots()[0]), masses)
    return answer.pdf(points), weights


def _lay_points(edges: Values, masses: PointCells) -> tuple[Values, Values]:
    """Return Gauss-Legendre points and weights in the cells between edges, and the points that have mass, which count
    as they are.
    """
    nodes, weights, _ = legendre()
    half = np.diff(edges)[:, None] / 2
    points, lengths = (edges[:-1, None] + half * (1 + nodes)).reshape(-1), (half * weights).reshape(-1)
    if not len(masses.points):
        return points, lengths
    _, exact, inside = masses.locate(points)
    away = ~(exact | inside)
    return np.append(points[away], masses.points), np.append(lengths[away], np.ones(len(masses.points)))


def _choose_points(answer: ContinuousPosterior, masses: PointCells) -> tuple[Values, Values]:
    """Return values of a variable that stand for its density, and their shares of the mass."""
    low, high = answer.quantile([TAIL, 1 - TAIL])
    knots = answer.knots()[0]
    inner = np.unique(knots[(knots > low) & (knots < high)])
    step = max(math.ceil((len(inner) + 1) / MOST_CELLS), 1)
    points, weights = _lay_points(np.concatenate([[low], inner[step - 1 :: step], [high]]), masses)
    shares = answer.pdf(points) * weights
    used = shares > NOTHING
    return points[used], shares[used]


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
) -> dict[str, float]:
    """Return what each finding contributes to a posterior, averaged over all orders in which they may become known.

    What is not known yet is averaged over given what is (conditional Shapley values). The values add up to the
    posterior probability of a state less its prior one; of a continuous target, to the difference of the means.

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
    if not isinstance(evidence, Mapping):
        raise TableError(f"Shapley values are those of one case: its evidence is a mapping, not {evidence!r:.80}")
    options, snapshot = options or Options(), Snapshot.of(network)
    whole = posterior(network, target, evidence, options)
    read = EvidenceReader(network, evidence, [target]).evidence()
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
    (result,) = infer_posteriors(snapshot, [target], Evidence(findings, rows, single=False), options)
    if isinstance(result, DiscretePosterior):
        worth = result.probability(whole.mode() if state is None else state)
    elif state is None:
        worth = result.mean()
    else:
        raise TableError(f"{target!r} is continuous and has no state {state!r}")
    shares = _average_exactly(worth, known) if orders is None else _average_orders(worth, orders)
    return dict(zip(names, shares.tolist(), strict=True))


def _hide(finding: Finding, rows: NDArray[np.bool_]) -> Finding:
    """Return a finding that says nothing in some rows."""

    def blank(array: NDArray[Any] | None, nothing: Any) -> NDArray[Any] | None:
        return None if array is None else np.where(rows, nothing, array)

    values = np.where(rows, -1 if isinstance(finding.variable, Discrete) else np.nan, finding.values)
    low, high, cells = blank(finding.low, -np.inf), blank(finding.high, np.inf), blank(finding.cells, None)
    return Finding(finding.variable, values, blank(finding.likelihood, 1.0), low, high, cells)


def _draw_orders(count: int, permutations: int, random_state: Any) -> NDArray[np.intp]:
    """Draw orders (permutations, findings); every second one is the reverse of the one before."""
    rng = make_generator(random_state)
    half = rng.permuted(np.tile(np.arange(count), ((permutations + 1) // 2, 1)), axis=1)
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
    shares = np.empty(count)
    for place in range(count):
        without = numbers[~known[:, place]]
        shares[place] = share[sizes[without]] @ (worth[without | 1 << place] - worth[without])
    return shares


def _average_orders(worth: Values, orders: NDArray[np.intp]) -> Values:
    """Return Shapley values from the worth of what is known along each order."""
    steps = np.diff(worth.reshape(len(orders), -1), axis=1)
    return np.bincount(orders.reshape(-1), weights=steps.reshape(-1)) / len(orders)
