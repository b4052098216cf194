"""Counterfactuals: what a variable would have been in a case that was observed, had others been set.

Abduction, action, prediction (Pearl 2009, section 7.1): the evidence tells what is known of each variable's own noise,
other values are set, and the variables below them follow from their new parents and the same noise. The noise of a
number is where its value stands in its conditional distribution: it stays at the same quantile, which for a linear
Gaussian is the same residual. That of a category is not determined by a table of probabilities. Its counterfactual has
bounds, unless states are taken as ordered with the same quantile rule (monotone).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, NetworkError, TableError
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.interventions import spread_evenly
from hybridbn.inference.posteriors.base import ContinuousPosterior, DiscretePosterior
from hybridbn.inference.queries import impossible_evidence, log_evidence_of
from hybridbn.inference.sampling import draw
from hybridbn.inference.solutions import infer_posteriors
from hybridbn.network import Network
from hybridbn.options import Options, check_count, make_generator
from hybridbn.potentials import LinearGaussian, Multinomial
from hybridbn.potentials.base import Axes, Potential
from hybridbn.variables import Continuous, Discrete, Values, Variable, is_missing, shorten

__all__ = ["Counterfactual", "counterfactual"]

_NEGLIGIBLE = 1e-10
"""The variance of a twin, as a share of that of its original: it has no noise of its own, but a density needs some."""
_MOST_CONFIGURATIONS = 2**20
"""So many configurations of hidden states, over all rows, are looked at for bounds."""


def counterfactual(
    network: Network,
    on: str,
    evidence: Any,
    do: Mapping[str, Any],
    *,
    monotone: bool = False,
    draws: int = 1000,
    random_state: Any = 0,
    options: Options | None = None,
) -> Counterfactual:
    """Return what a variable would have been in a case that was observed, had other variables been set.

    Parameters
    ----------
    network : Network
        Taken as causal.
    on : str
        The outcome.
    evidence : mapping or table
        What was observed, of any variables; the factual values of the outcome and of those that are set, too.
    do : mapping from names to values
    monotone : bool
        Whether each category below the variables that are set keeps its quantile, its states being taken as ordered: a
        higher noise never means a lower state. Without it, the probabilities of a category have bounds.
    draws : int
        Where something on the way is hidden and there is no closed form, it is drawn so many times for each row.
    random_state : int, Generator or None
    options : Options, optional

    Returns
    -------
    Counterfactual

    Raises
    ------
    NetworkError
        Where neither the noise nor bounds can be found: more than one category on the way would change, or a number
        on which an unordered category depends is hidden.

    Notes
    -----
    A value with mass, such as a zero of `Atoms`, has no single quantile: it stands for all of those in its jump.

    Exact where all on the way are linear Gaussians (or categories with only categories as parents, if monotone), by
    inference in the network with twins of the variables below those that are set (standard deviations have an error of
    about 1e-5 of the noise's own); and where all that matters is observed. Bounds are sharp where the tables alone are
    known of a category's noise (Tian & Pearl 2000).

    References
    ----------
    Pearl (2009), "Causality", 2nd edition, section 7.1. Tian & Pearl (2000), "Probabilities of causation: bounds and
    identification", Annals of Mathematics and Artificial Intelligence 28.

    Examples
    --------
    >>> import hybridbn as hb
    >>> dose, effect = hb.Continuous("dose"), hb.Continuous("effect")
    >>> net = hb.Network([
    ...     hb.LinearGaussian(dose, intercept=2, variance=1),
    ...     hb.LinearGaussian(effect, parents=(dose,), intercept=1, coefficients=[3], variance=4),
    ... ])
    >>> round(hb.counterfactual(net, "effect", {"dose": 2, "effect": 8}, {"dose": 4}).mean(), 6)
    14.0

    The patient took the drug and recovered. Did the drug do it?

    >>> drug, well = hb.Discrete("drug", states=("no", "yes")), hb.Discrete("well", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(drug, table=[0.5, 0.5]),
    ...     hb.Multinomial(well, parents=(drug,), table=[[0.7, 0.3], [0.2, 0.8]]),
    ... ])
    >>> case = {"drug": "yes", "well": "yes"}
    >>> hb.counterfactual(net, "well", case, {"drug": "no"})
    <counterfactual 'well': 'no' .625 to .875, 'yes' .125 to .375>
    >>> hb.counterfactual(net, "well", case, {"drug": "no"}, monotone=True)
    <counterfactual 'well': 'no' .625, 'yes' .375>
    """
    outcome = network.variable(on)
    check_count(draws, "draws", 1)
    settings = _read_settings(network, on, do)
    reader = EvidenceReader(network, evidence)
    read = reader.evidence()
    path = _find_path(network, on, settings)
    chosen = options or Options()
    case = _Case(network, outcome, read, settings, path, monotone, chosen)
    try:
        if not case.is_determined() and all(case.has_closed_twin(name) for name in path):
            return case.answer_by_twins()
        if path == [on] and isinstance(outcome, Discrete) and not monotone:
            return case.find_bounds()
        return case.answer_by_draws(int(draws), make_generator(random_state))
    except ImpossibleEvidence as problem:
        raise impossible_evidence(problem.rows, read.single) from None


def _read_settings(network: Network, on: str, do: Any) -> dict[str, Any]:
    """Return the codes or numbers that variables are set to."""
    if not isinstance(do, Mapping) or not do:
        raise NetworkError(f"do= is a mapping from names to values, such as {{'x': 2.0}}, not {do!r:.80}")
    settings = {}
    for name, value in do.items():
        variable = network.variable(name)
        if is_missing(value) or isinstance(value, Mapping | set | frozenset | Potential) or callable(value):
            raise NetworkError(f"{name!r} is set to a value, not to {value!r:.80}")
        settings[name] = variable.code(value) if isinstance(variable, Discrete) else variable.value(value)
    if on in settings:
        raise NetworkError(f"{on!r} is set, so nothing is to be found out about it; ask for another variable")
    return settings


def _find_path(network: Network, on: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the variables that change and matter, in topological order: those between what is set and the outcome."""
    graph = nx.DiGraph(network.edges)
    graph.add_nodes_from(network)
    graph.remove_edges_from([arc for name in settings for arc in network.in_edges(name)])
    changed = set().union(*(nx.descendants(graph, name) for name in settings)) - settings.keys()
    relevant = (nx.ancestors(graph, on) | {on}) & changed
    return [name for name in nx.topological_sort(graph) if name in relevant]


@dataclass(frozen=True)
class _Case:
    """A question: what is known, what is set, and which variables change."""

    network: Network
    outcome: Variable
    evidence: Evidence
    settings: Mapping[str, Any]
    path: list[str]
    monotone: bool
    options: Options

    def is_determined(self) -> bool:
        """Return whether all noise on the way is known: that of numbers which are observed with their parents."""
        if not self.path or any(isinstance(self.network.variable(name), Discrete) for name in self.path):
            return False
        potentials = [self.network.potential(child) for child in self.path]
        needed = {name for potential in potentials for name in potential.scope}
        known = {name: self.evidence.finding(name) for name in needed}
        values = {name: finding.values for name, finding in known.items() if finding is not None and finding.hard}
        return len(values) == len(needed) and not any(_find_points(p, values[p.child.name]).any() for p in potentials)

    # -- twins --------------------------------------------------------------------------------------------------------

    def has_closed_twin(self, name: str) -> bool:
        """Return whether the twin of a variable is linear Gaussian or a table."""
        potential = self.network.potential(name)
        return bool(potential.as_regression() or (self.monotone and potential.as_table()))

    def answer_by_twins(self) -> Counterfactual:
        """Infer the twin of the outcome in the network of the case and its twins."""
        names = {name: self._name_twin(name) for name in (*self.settings, *self.path)}
        twins = {name: _rename_variable(self.network.variable(name), twin) for name, twin in names.items()}
        potentials: list[Potential] = [spread_evenly(twins[name]) for name in self.settings]
        for name in self.path:
            potential = self.network.potential(name)
            regression = potential.as_regression()
            twin = _make_table_twin(potential, twins) if regression is None else _make_gaussian_twin(regression, twins)
            potentials.append(twin)
        network: Network = self.network.copy()
        for potential in potentials:
            network.add(potential)
        findings = dict(self.evidence.findings)
        for name, value in self.settings.items():
            findings[names[name]] = Finding(twins[name], np.full(self.evidence.rows, value))
        evidence = Evidence(findings, self.evidence.rows, self.evidence.single)
        target = names.get(self.outcome.name, self.outcome.name)
        (result,) = infer_posteriors(network, [target], evidence, self.options, check=True)
        return Counterfactual(self.outcome, posterior=result, single=self.evidence.single)

    def _name_twin(self, name: str) -> str:
        twin = f"{name}*"
        while twin in self.network:
            twin += "*"
        return twin

    # -- draws --------------------------------------------------------------------------------------------------------

    def answer_by_draws(self, count: int, rng: np.random.Generator) -> Counterfactual:
        """Draw what is hidden of the case, find each variable's noise, and follow it on the way."""
        unordered = [name for name in self.path if self._is_unordered(name)]
        if unordered:
            raise NetworkError(
                f"the noise of {shorten(unordered)} can't be found from probabilities, and bounds are known only where"
                " the outcome is the only variable that changes; monotone=True takes states as ordered"
            )
        network, rows = self.network, self.evidence.rows
        count = 1 if self.is_determined() else count
        picked = np.repeat(np.arange(rows), count)
        repeated = Evidence(self.evidence.take(picked, len(picked)).findings, len(picked), single=False)
        try:
            values = draw(network, repeated, rng.random((len(network), len(picked))), self.options)
        except ImpossibleEvidence as problem:
            raise impossible_evidence(sorted({row // count for row in problem.rows}), self.evidence.single) from None
        twins = {name: np.full(len(picked), value) for name, value in self.settings.items()}
        for name in self.path:
            potential = network.potential(name)
            before = {parent.name: values[parent.name] for parent in potential.parents}
            after = {parent: twins.get(parent, column) for parent, column in before.items()}
            twins[name] = _follow(potential, values[name], before, after, rng)
        return Counterfactual(
            self.outcome, draws=twins[self.outcome.name].reshape(rows, count), single=self.evidence.single
        )

    def _is_unordered(self, name: str) -> bool:
        return not self.monotone and isinstance(self.network.variable(name), Discrete)

    # -- bounds -------------------------------------------------------------------------------------------------------

    def find_bounds(self) -> Counterfactual:
        """Find the least and greatest probability of each state of the outcome, the only variable that changes."""
        outcome, potential = self.outcome, self.network.potential(self.outcome.name)
        assert isinstance(outcome, Discrete)
        rows, states = self.evidence.rows, len(outcome)
        known = {name: self.evidence.finding(name) for name in potential.scope}
        numbers = [v.name for v in potential.parents if isinstance(v, Continuous)]
        hidden = [name for name in numbers if (found := known[name]) is None or not found.hard]
        if hidden:
            raise NetworkError(
                f"there are bounds for {outcome.name!r} only where {shorten(hidden)} is observed; monotone=True takes"
                " its states as ordered"
            )
        others = [v for v in potential.parents if isinstance(v, Discrete)]
        configurations = np.array(list(product(*(range(len(v)) for v in others))), dtype=np.intp)
        size = len(configurations)
        if rows * size * states > _MOST_CONFIGURATIONS:
            raise NetworkError(
                f"{rows} rows of {size * states} configurations of {outcome.name!r} and its parents are too many; ask"
                " for fewer rows at a time"
            )
        codes = {v.name: np.tile(np.repeat(configurations[:, i], states), rows) for i, v in enumerate(others)}
        codes[outcome.name] = np.tile(np.arange(states), rows * size)
        weights = self._weigh(codes, size * states).reshape(rows, size, states)
        picked = np.repeat(np.arange(rows), size)
        before: dict[str, NDArray[Any]] = {v.name: np.tile(configurations[:, i], rows) for i, v in enumerate(others)}
        for name in numbers:
            finding = known[name]
            assert finding is not None
            before[name] = finding.values[picked]
        after = {
            name: np.full(len(picked), self.settings[name]) if name in self.settings else column
            for name, column in before.items()
        }
        tables = [_read_table(potential, given, len(picked)).reshape(rows, size, states) for given in (before, after)]
        same = np.all([before[name] == after[name] for name in before], axis=0).reshape(rows, size, 1)
        bounds = np.zeros((2, rows, states))
        for state in range(states):
            for end in (0, 1):
                reached = _find_extreme(weights, tables[0], tables[1][..., state], greatest=bool(end))
                bounds[end, :, state] = np.where(same[..., 0], weights[..., state], reached).sum(axis=1)
        return Counterfactual(outcome, bounds=bounds.clip(0, 1), single=self.evidence.single)

    def _weigh(self, codes: Mapping[str, NDArray[np.intp]], each: int) -> Values:
        """Return the probability of each configuration of each row, `each` of which belong to a row."""
        rows = self.evidence.rows
        picked = np.repeat(np.arange(rows), each)
        findings = dict(self.evidence.take(picked, len(picked)).findings)
        logs = np.zeros(len(picked))
        for name, column in codes.items():
            finding = findings.get(name)
            if finding is not None:
                logs = logs + finding.log_weight_of(column)
                logs[finding.observed & (finding.values != column)] = -np.inf
            findings[name] = Finding(self.network.variable(name), column)
        options = Options(tolerance=self.options.tolerance, max_bytes=self.options.max_bytes, impossible="nan")
        logs += log_evidence_of(self.network, Evidence(findings, len(picked), False), options)
        table = logs.reshape(rows, each)
        top = table.max(axis=1, keepdims=True)
        impossible = np.flatnonzero(~np.isfinite(top[:, 0]))
        if len(impossible):
            raise impossible_evidence(impossible.tolist(), self.evidence.single)
        shares = np.exp(table - top)
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _rename_variable(variable: Variable, name: str) -> Variable:
    if isinstance(variable, Discrete):
        return Discrete(name, states=variable.states)
    return Continuous(name)


def _make_gaussian_twin(potential: LinearGaussian, twins: Mapping[str, Variable]) -> Potential:
    """Return the twin of a linear Gaussian, with the same standardized residual."""
    child, twin = potential.child, twins[potential.child.name]
    assert isinstance(twin, Continuous)
    discrete = [v for v in potential.parents if isinstance(v, Discrete)]
    numbers = [v for v in potential.parents if isinstance(v, Continuous)]
    moved = [v for v in discrete if v.name in twins]
    shape = (*map(len, discrete), *map(len, moved))
    # the configuration of the twins' parents for each configuration of all discrete parents
    index = np.indices(shape)
    before = tuple(index[: len(discrete)])
    after = tuple(index[len(discrete) + moved.index(v)] if v in moved else index[i] for i, v in enumerate(discrete))
    variance = potential.variance
    ratio = np.sqrt(variance[after] / variance[before])
    intercept = potential.intercept[after] - ratio * potential.intercept[before]
    old = -ratio[..., None] * potential.coefficients[before]
    new = potential.coefficients[after]
    parents: list[Variable] = [child]
    columns = [ratio]
    for i, number in enumerate(numbers):
        parents.append(number)
        if number.name in twins:
            columns.append(old[..., i])
            parents.append(twins[number.name])
            columns.append(new[..., i])
        else:
            columns.append(old[..., i] + new[..., i])
    return LinearGaussian(
        twin,
        parents=(*discrete, *(twins[v.name] for v in moved), *parents),
        intercept=intercept,
        coefficients=np.stack(columns, axis=-1),
        variance=_NEGLIGIBLE * variance[after],
    )


def _make_table_twin(potential: Potential, twins: Mapping[str, Variable]) -> Potential:
    """Return the twin of a table: the states that share the quantiles of each state."""
    child, twin = potential.child, twins[potential.child.name]
    parents = [v for v in potential.parents if isinstance(v, Discrete)]
    moved = [v for v in parents if v.name in twins]
    table = potential.probabilities()
    assert table is not None
    assert isinstance(child, Discrete)
    assert isinstance(twin, Discrete)
    shape = (*map(len, parents), *map(len, moved))
    index = np.indices(shape)
    after = tuple(index[len(parents) + moved.index(v)] if v in moved else index[i] for i, v in enumerate(parents))
    first, second = table[tuple(index[: len(parents)])], table[after]
    high, high_after = np.cumsum(first, axis=-1), np.cumsum(second, axis=-1)
    low, low_after = high - first, high_after - second
    shared = np.minimum(high[..., :, None], high_after[..., None, :])
    shared = np.maximum(shared - np.maximum(low[..., :, None], low_after[..., None, :]), 0.0)
    # a state that was impossible tells nothing of the noise
    shared = np.where(shared.sum(axis=-1, keepdims=True) > 0, shared, second[..., None, :])
    others = [known for v in moved if isinstance(known := twins[v.name], Discrete)]
    return Multinomial(twin, parents=(*parents, *others, child), table=shared, normalize=True)


def _follow(
    potential: Potential, values: NDArray[Any], before: Axes, after: Axes, rng: np.random.Generator
) -> NDArray[Any]:
    """Return the child's values at the same quantiles given other values of its parents."""
    moved = np.any([np.asarray(before[name]) != after[name] for name in before], axis=0)
    result = values.copy()
    rows = np.flatnonzero(moved)
    if not len(rows):
        return result
    first, second = ({name: np.asarray(column)[rows] for name, column in given.items()} for given in (before, after))
    if (regression := potential.as_regression()) is not None:
        # the same residual, with all its digits even where the quantile is almost one
        middle = np.full(len(rows), 0.5)
        scale = np.sqrt([regression.variance[_cells(potential, given)] for given in (second, first)])
        residual = values[rows] - potential.ppf(middle, first)
        result[rows] = potential.ppf(middle, second) + residual * scale[0] / scale[1]
        return result
    if isinstance(potential.child, Discrete):
        reached = np.cumsum(_read_table(potential, first, len(rows)), axis=1)
        codes, lines = values[rows], np.arange(len(rows))
        low = np.where(codes > 0, reached[lines, np.maximum(codes - 1, 0)], 0.0)
        levels = low + rng.random(len(rows)) * (reached[lines, codes] - low)
    else:
        levels = potential.conditional_cdf(values[rows], first)
        at_point = _find_points(potential, values[rows])
        if at_point.any():
            # a value with mass stands for all quantiles in its jump
            own = {name: column[None] for name, column in {**first, potential.child.name: values[rows]}.items()}
            levels += np.where(at_point, rng.random(len(rows)) * np.exp(potential.log_on(own)).reshape(-1), 0.0)
        # rounded to one, a quantile would be infinite
        levels = levels.clip(np.finfo(float).tiny, 1 - 2.0**-53)
    result[rows] = potential.ppf(levels, second)
    return result


def _find_points(potential: Potential, values: Values) -> NDArray[np.bool_]:
    """Return which values of the child have mass, and thus no quantile of their own."""
    cells = potential.point_cells
    return cells.locate(values)[1] if len(cells.points) else np.zeros(len(values), dtype=bool)


def _cells(potential: Potential, given: Axes) -> tuple[Any, ...]:
    return tuple(given[v.name] for v in potential.parents if isinstance(v, Discrete))


def _read_table(potential: Potential, given: Axes, rows: int) -> Values:
    """Return the probabilities of a discrete child's states in each row."""
    states = len(potential.child) if isinstance(potential.child, Discrete) else 0
    axes = {name: np.asarray(column)[None] for name, column in given.items()}
    values, _ = potential.on({**axes, potential.child.name: np.arange(states)})
    table = np.broadcast_to(values.reshape(states, -1), (states, rows)).T
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def _find_extreme(weights: Values, before: Values, wanted: Values, *, greatest: bool) -> Values:
    """Return the most or least weight that can go to a state.

    Of each state's probability `before` (..., states) some may go to the state, altogether what is `wanted` (...,);
    the weight of a state goes with its probability. The states with most weight for their probability go first.
    """
    ratio = np.divide(weights, before, out=np.zeros_like(weights), where=before > 0)
    order = np.argsort(-ratio if greatest else ratio, axis=-1, kind="stable")
    share, ratio = np.take_along_axis(before, order, -1), np.take_along_axis(ratio, order, -1)
    earlier = np.cumsum(share, axis=-1) - share
    taken = np.clip(wanted[..., None] - earlier, 0.0, share)
    return np.asarray((taken * ratio).sum(axis=-1))


@dataclass(frozen=True, repr=False)
class Counterfactual:
    """What a variable would have been.

    Attributes
    ----------
    variable : Variable
    posterior : DiscretePosterior or ContinuousPosterior, optional
        Where there is a closed form.
    draws : ndarray (rows, draws), optional
        Values or codes that were drawn; one in each row if all that matters was observed.
    bounds : ndarray (2, rows, states), optional
        Least and greatest probabilities.
    single : bool
        Whether the evidence was a single case.
    """

    variable: Variable
    posterior: DiscretePosterior | ContinuousPosterior | None = None
    draws: NDArray[Any] | None = None
    bounds: Values | None = None
    single: bool = True

    @property
    def probabilities(self) -> Values:
        """Probabilities of the states (states,) or (rows, states); refused where there are only bounds."""
        if not isinstance(self.variable, Discrete):
            raise TableError(f"{self.variable.name!r} is a number; ask for mean(), quantile() or interval()")
        if isinstance(self.posterior, DiscretePosterior):
            return self.posterior.probabilities
        low, high = self.probability_bounds
        if not np.allclose(low, high, rtol=0, atol=1e-12):
            raise TableError(
                f"the probabilities of {self.variable.name!r} are known within bounds only, see probability_bounds;"
                " counterfactual(..., monotone=True) takes its states as ordered"
            )
        return low

    @property
    def probability_bounds(self) -> tuple[Values, Values]:
        """Least and greatest probabilities of the states, equal where they are known."""
        if not isinstance(self.variable, Discrete):
            raise TableError(f"{self.variable.name!r} is a number; ask for mean(), quantile() or interval()")
        if self.bounds is not None:
            low, high = self.bounds
            return (low[0], high[0]) if self.single else (low, high)
        if self.draws is not None:
            shares = (self.draws[:, :, None] == np.arange(len(self.variable))).mean(axis=1)
            return (shares[0], shares[0]) if self.single else (shares, shares)
        return self.probabilities, self.probabilities

    def mean(self) -> Any:
        """Return the mean of a number: a float, or (rows,)."""
        return self._ask("mean", lambda draws: draws.mean(axis=1))

    def std(self) -> Any:
        """Return the standard deviation of a number: 0 where all that matters was observed."""
        return self._ask("std", lambda draws: draws.std(axis=1))

    def quantile(self, q: Any) -> Any:
        """Return quantiles of a number; of several levels: (levels,) or (rows, levels)."""
        return self._ask("quantile", lambda draws: np.moveaxis(np.quantile(draws, q, axis=1), -1, 0), q)

    def interval(self, level: float = 0.9) -> Any:
        """Return the ends of the central interval that holds this probability: (2,), or (rows, 2)."""
        ends = [(1 - level) / 2, (1 + level) / 2]
        return self._ask("interval", lambda draws: np.quantile(draws, ends, axis=1).T, level)

    def _ask(self, what: str, of_draws: Any, *arguments: Any) -> Any:
        if isinstance(self.variable, Discrete):
            raise TableError(f"{self.variable.name!r} is a category; ask for probabilities or probability_bounds")
        if self.posterior is not None:
            return getattr(self.posterior, what)(*arguments)
        values = of_draws(self.draws)
        result = values[0] if self.single else values
        return float(result) if np.ndim(result) == 0 else result

    def __repr__(self) -> str:
        start = f"<counterfactual {self.variable.name!r}"
        if not self.single:
            return f"{start} of {self._count_rows()} rows>"
        if isinstance(self.variable, Discrete):
            parts = [
                f"{state!r} {_show(low)}" + (f" to {_show(high)}" if high - low > 5e-4 else "")
                for state, low, high in zip(self.variable.states, *self.probability_bounds, strict=True)
            ]
            return f"{start}: {', '.join(parts)}>"
        return f"{start}: mean {self.mean():.6g}, sd {self.std():.3g}>"

    def _count_rows(self) -> int:
        if self.posterior is not None:
            return len(self.posterior)
        return len(self.draws) if self.draws is not None else self.bounds.shape[1] if self.bounds is not None else 0


def _show(probability: float) -> str:
    text = f"{probability:.3f}"
    return text[1:] if text.startswith("0") else text
