"""Interventions and counterfactuals: networks in which variables are set instead of observed, the effects of setting
them, and what a variable would have been in a case that was observed, had others been set.

A network is taken as causal: its arcs say what would change if a variable were set. Whether data alone identify an
effect is another question, which libraries for causal identification answer from the graph.

A counterfactual takes abduction, action, prediction (Pearl 2009, section 7.1): the evidence tells what is known of each
variable's own noise, other values are set, and the variables below them follow from their new parents and the same
noise. The noise of a number is where its value stands in its conditional distribution: it stays at the same quantile,
which for a linear Gaussian is the same residual. That of a category is not determined by a table of probabilities. Its
counterfactual has bounds, unless states are taken as ordered with the same quantile rule (monotone).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.inference.elimination.factors import normalize_logs
from hybridbn.inference.evidence import Evidence, EvidenceReader
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.queries import impossible_evidence, log_joint, name_impossible_rows, posterior, suppose
from hybridbn.inference.relevance import Snapshot
from hybridbn.inference.sampling import draw
from hybridbn.inference.solutions import infer_posteriors
from hybridbn.network import Network
from hybridbn.options import Options, check_count, check_level, make_generator
from hybridbn.potentials import Density, LinearGaussian, Multinomial, PointMass
from hybridbn.potentials.base import Axes, Potential
from hybridbn.variables import Continuous, Discrete, Values, Variable, is_missing, shorten

if TYPE_CHECKING:
    import pandas

CURVE = 25
"""Values of a continuous variable at which its effect is computed by default."""


def intervene(network: Network, settings: Mapping[str, Any] | None = None, /, **named: Any) -> Network:
    """Return a copy of the network in which variables are set: they get other potentials, and other incoming arcs.

    Parameters
    ----------
    settings : mapping, optional
        From names to values, or to potentials of these variables.
    **named
        More of them.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([
    ...     hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[2], variance=1),
    ... ])
    >>> intervene(net, {"y": 3.0}).posterior("x").mean()
    0.0
    """
    if settings is not None and not isinstance(settings, Mapping):
        raise NetworkError(f"an intervention is a mapping from names to values or potentials, not {settings!r:.80}")
    settings = {**(settings or {}), **named}
    potentials = [_as_potential(network, name, setting) for name, setting in settings.items()]
    result: Network = network.copy()
    result.remove_edges_from([arc for name in settings for arc in network.in_edges(name)])
    for potential in potentials:
        result.add(potential)
    return result


def _as_potential(network: Network, name: str, setting: Any) -> Potential:
    """Return the potential that an intervention gives a variable."""
    variable = network.variable(name)
    if not isinstance(setting, Potential):
        if is_missing(setting) or isinstance(setting, Mapping | set | frozenset) or callable(setting):
            raise NetworkError(
                f"{name!r} is set to a value or to a potential (a distribution, or a policy that looks at its parents),"
                f" not to {setting!r:.80}"
            )
        if isinstance(variable, Continuous):
            return PointMass(variable, value=variable.value(setting))
        return Multinomial(variable, table=np.arange(len(variable)) == variable.code(setting))
    if setting.child.name != name:
        raise NetworkError(f"{name!r} can't be set by {setting!r}, which is a potential of {setting.child.name!r}")
    for parent in setting.parents:
        network.variable(parent.name)
    if name in setting.scope[:-1]:
        raise NetworkError(f"{setting!r}: {name!r} can't be its own parent")
    return setting


def effect(
    network: Network | Sequence[Network],
    of: str,
    on: str,
    given: Any = None,
    values: Iterable[Any] | None = None,
    *,
    options: Options | None = None,
) -> Effect:
    """Return what setting a variable does to another one: means or probabilities at each of some values.

    The network is taken as causal. The effect is that of the intervention, ``P(on | do(of), given)``: arcs into `of`
    are cut, and all other variables are averaged over.

    Parameters
    ----------
    network : Network, or sequence of networks
        Several networks are draws (from a bootstrap, or with parameters drawn from their posterior), which give the
        effect's uncertainty.
    of, on : names
    given : mapping or table, optional
        What is known of other variables when `of` is set: the effect in a part of the population, or for each row. What
        lies below `of` is taken as seen after the intervention.
    values : iterable, optional
        Values of `of`; by default all states, or 25 numbers between its quantiles of 5 and 95 %.
    options : Options, optional

    Examples
    --------
    >>> import hybridbn as hb
    >>> severe = hb.Discrete("severe", states=("no", "yes"))
    >>> dose, cured = hb.Continuous("dose"), hb.Discrete("cured", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(severe, table=[0.5, 0.5]),
    ...     hb.LinearGaussian(dose, parents=(severe,), intercept=[1, 4], variance=[1, 1]),
    ...     hb.Softmax(cured, parents=(severe, dose), intercept=[[0, 1], [0, -3]], coefficients=[[[0], [0.5]]] * 2),
    ... ])
    >>> curve = hb.effect(net, of="dose", on="cured", values=[0, 2, 4])
    >>> curve.outcomes[:, 1].round(4)
    array([0.3892, 0.5   , 0.6108])
    >>> round(curve.difference(4, 0)["yes"], 4)
    0.2215
    >>> hb.effect(net, of="dose", on="cured", given={"severe": "yes"}, values=[0, 4])
    <effect of 'dose' on 'cured' from 0.0 to 4.0: 'no': -0.2215, 'yes': +0.2215>
    """
    networks = [network] if isinstance(network, Network) else list(network) if isinstance(network, Iterable) else []
    if not networks or not all(isinstance(draw, Network) for draw in networks):
        raise NetworkError("an effect is that of a network, or of a sequence of networks")
    if of == on:
        raise TableError(f"an effect is that of one variable on another one, not of {of!r} on itself")
    cause, outcome = networks[0].variable(of), networks[0].variable(on)
    chosen = options or Options()
    levels = _choose_values(networks[0], cause, values, chosen)
    draws = [_find_outcomes(draw, cause, outcome, given, levels, chosen) for draw in networks]
    single = given is None or isinstance(given, Mapping)
    outcomes = np.array([draw[0] if single else draw for draw in draws])
    return Effect(cause, outcome, _name_values(cause, levels), outcomes)


def _name_values(variable: Variable, levels: NDArray[Any]) -> tuple[Any, ...]:
    """Return codes as states, and numbers of days as dates or times."""
    is_number = isinstance(variable, Continuous) and variable.time_unit is None
    return tuple(levels.tolist() if is_number else map(variable.restore, levels))


def _choose_values(network: Network, cause: Variable, values: Iterable[Any] | None, options: Options) -> NDArray[Any]:
    """Return the codes or numbers at which the effect is computed."""
    if values is not None:
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TableError(f"the values of {cause.name!r} are given as a list, not as {values!r:.80}")
        listed = [cause.code(v) if isinstance(cause, Discrete) else cause.value(v) for v in values]
        known = [level >= 0 if isinstance(cause, Discrete) else level == level for level in listed]
        if not listed or not all(known):
            raise TableError(f"the values of {cause.name!r} to compare must be at least one, and none missing")
        return np.array(listed)
    if isinstance(cause, Discrete):
        return np.arange(len(cause))
    low, high = posterior(network, cause.name, None, options).numeric.quantile([0.05, 0.95])
    return np.asarray(np.unique(cause.round(np.linspace(low, high, CURVE))))


def _find_outcomes(
    network: Network, cause: Variable, outcome: Variable, given: Any, levels: NDArray[Any], options: Options
) -> Values:
    """Return the means (rows, values), or the probabilities (rows, values, states), of the outcome."""
    # without parents, observing and setting are the same, so that all values are rows of one question
    cut = Snapshot.of(intervene(network, {cause.name: spread_evenly(network.variable(cause.name))}))
    reader = EvidenceReader(network, given, [outcome.name])
    read = reader.evidence()
    if cause.name in reader.names and read.finding(cause.name) is not None:
        raise TableError(f"{cause.name!r} is set, so the effect can't be given what is known of it; leave it out")
    rows = np.repeat(np.arange(read.rows), len(levels))
    repeated = suppose(cut, read, {cause.name: np.tile(levels, read.rows)}, rows)
    with name_impossible_rows(rows, read.single, nan=True):
        (result,) = infer_posteriors(cut, [outcome.name], repeated, options, refuse_contradictions=True)
    found = result.probabilities if isinstance(result, DiscretePosterior) else result.numeric.mean()
    return np.asarray(found).reshape(read.rows, len(levels), *found.shape[1:])


def spread_evenly(variable: Variable) -> Potential:
    """Return a potential that prefers no value; it need not be a density where a value is observed."""
    if isinstance(variable, Discrete):
        return Multinomial(variable, table=np.ones(len(variable)), normalize=True)
    return Density(variable, function=lambda **points: np.ones_like(points[variable.name]), check=False)


@dataclass(frozen=True, repr=False)
class Effect:
    """What setting a variable to each of some values does to another one.

    Attributes
    ----------
    of, on : Variable
    values : tuple
        The values to which `of` is set.
    draws : ndarray (networks, [rows,] values[, states])
        Means of a continuous outcome, or probabilities of the states of a discrete one, in each network; of dates and
        times in days.
    """

    of: Variable
    on: Variable
    values: tuple[Any, ...]
    draws: Values

    @property
    def outcomes(self) -> Values:
        """Means (values,) or probabilities (values, states), averaged over the networks; rows first for a table."""
        means = np.asarray(self.draws.mean(axis=0))
        return means if isinstance(self.on, Discrete) or self.on.time_unit is None else self.on.restore(means)

    def difference(self, value: Any = None, base: Any = None) -> Any:
        """Return the outcome at a value less that at a base, by default at the last value less at the first one.

        For a discrete outcome that is a dict of the differences by state.
        """
        return self._by_state(self._differences(value, base).mean(axis=0))

    def interval(self, level: float = 0.9, value: Any = None, base: Any = None) -> Any:
        """Return the ends of the central interval that holds this share of the networks' differences."""
        ends = check_level(level)
        if len(self.draws) < 2:
            raise TableError("an interval needs the effects of several networks; give effect() a list of draws")
        return self._by_state(np.moveaxis(np.quantile(self._differences(value, base), ends, axis=0), 0, -1), 1)

    def _differences(self, value: Any, base: Any) -> Values:
        along = self.draws.ndim - 1 - isinstance(self.on, Discrete)
        ends = [self._find(value, len(self.values) - 1), self._find(base, 0)]
        after, before = (np.take(self.draws, end, axis=along) for end in ends)
        return np.asarray(after - before)

    def _find(self, value: Any, default: int) -> int:
        if value is None:
            return default
        level = self.of.code(value) if isinstance(self.of, Discrete) else self.of.value(value)
        (known,) = _name_values(self.of, np.array([level]))
        if known not in self.values:
            raise TableError(f"the effect of {self.of.name!r} was not computed at {value!r}; name it in values=")
        return self.values.index(known)

    def _by_state(self, array: Values, after: int = 0) -> Any:
        """Return a number, or numbers by state; states are the last dimension but `after` more."""
        if not isinstance(self.on, Discrete):
            return self.on.restore_difference(array if array.ndim else float(array))
        states = np.moveaxis(array, array.ndim - 1 - after, 0)
        return {state: part if part.ndim else float(part) for state, part in zip(self.on.states, states, strict=True)}

    def to_frame(self) -> pandas.DataFrame:
        """Return a DataFrame with a row for each value: the mean, or the probability of each state.

        Of several networks, the ends of the intervals that hold 90 % of them are there too.
        """
        import pandas

        self._refuse_rows()
        columns: dict[str, Any] = {self.of.name: list(self.values)}
        is_timed = isinstance(self.on, Continuous) and self.on.time_unit is not None
        restore = self.on.restore if is_timed else np.asarray
        for name, part in self.curves():
            columns[name] = restore(part.mean(axis=0))
            if len(part) > 1:
                columns[f"{name} 5%"], columns[f"{name} 95%"] = map(restore, np.quantile(part, [0.05, 0.95], axis=0))
        return pandas.DataFrame(columns)

    def curves(self) -> list[tuple[str, Values]]:
        """Return name and values (networks, values) of the outcome's mean, or of the probability of each state."""
        if not isinstance(self.on, Discrete):
            return [(f"mean of {self.on.name}", self.draws)]
        return [(f"{self.on.name} = {state}", self.draws[..., code]) for code, state in enumerate(self.on.states)]

    def plot(self, ax: Any = None) -> Any:
        """Draw the outcome over the values with matplotlib, with intervals where there are draws; returns the axes."""
        from hybridbn.pictures import plot_effect

        self._refuse_rows()
        return plot_effect(self, ax)

    def _refuse_rows(self) -> None:
        if self.draws.ndim > 2 + isinstance(self.on, Discrete):
            raise TableError("this is the effect in several rows; ask for one case to get its curve")

    def __repr__(self) -> str:
        names = f"{self.of.name!r} on {self.on.name!r}"
        if self.draws.ndim > 2 + isinstance(self.on, Discrete):
            return f"<effect of {names} in {self.draws.shape[1]} rows, at {len(self.values)} values>"
        change = self.difference()
        if isinstance(change, dict):
            text = ", ".join(f"{s!r}: {d:+.4g}" for s, d in change.items())
        else:
            text = f"{change:+.6g}" if isinstance(change, float) else f"{change / np.timedelta64(1, 'D'):+.6g} days"
        ends = (self.values[0], self.values[-1])
        first, last = (str(value) if isinstance(value, np.generic) else repr(value) for value in ends)
        return f"<effect of {names} from {first} to {last}: {text}>"


_NEGLIGIBLE = 1e-10
"""The variance of a twin, as a share of that of its original: it has no noise of its own, but a density needs some."""
_MOST_CONFIGURATIONS = 2**20
"""The most configurations of hidden states, over all rows, that are looked at for bounds."""


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
    read = EvidenceReader(network, evidence).evidence()
    path = _find_path(network, on, settings)
    case = _Case(network, outcome, read, settings, path, monotone, options or Options())
    with name_impossible_rows(np.arange(read.rows), read.single):
        if not case.is_determined() and all(case.has_closed_twin(name) for name in path):
            return case.answer_by_twins()
        if path == [on] and isinstance(outcome, Discrete) and not monotone:
            return case.find_bounds()
        return case.answer_by_draws(int(draws), make_generator(random_state))


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
        values = {name: known.values for name, known in self.evidence.findings.items() if name in needed and known.hard}
        return len(values) == len(needed) and not any(_find_points(p, values[p.child.name]).any() for p in potentials)

    def has_closed_twin(self, name: str) -> bool:
        """Return whether the twin of a variable is linear Gaussian or a table."""
        potential = self.network.potential(name)
        return bool(potential.as_regression() or (self.monotone and potential.as_table()))

    def answer_by_twins(self) -> Counterfactual:
        """Infer the twin of the outcome in the network of the case and its twins."""
        changed, mark = (*self.settings, *self.path), "*"
        while any(f"{name}{mark}" in self.network for name in changed):
            mark += "*"
        twins: dict[str, Variable] = {
            v.name: Discrete(f"{v.name}{mark}", v.states) if isinstance(v, Discrete) else Continuous(f"{v.name}{mark}")
            for v in map(self.network.variable, changed)
        }
        network: Network = self.network.copy()
        for name in self.settings:
            network.add(spread_evenly(twins[name]))
        for name in self.path:
            potential = self.network.potential(name)
            regression = potential.as_regression()
            twin = _make_table_twin(potential, twins) if regression is None else _make_gaussian_twin(regression, twins)
            network.add(twin)
        values = {twins[name].name: np.full(self.evidence.rows, value) for name, value in self.settings.items()}
        evidence = replace(suppose(network, self.evidence, values), single=self.evidence.single)
        target = twins.get(self.outcome.name, self.outcome).name
        (result,) = infer_posteriors(network, [target], evidence, self.options, refuse_contradictions=True)
        return Counterfactual(self.outcome, posterior=result, single=self.evidence.single)

    def answer_by_draws(self, count: int, rng: np.random.Generator) -> Counterfactual:
        """Draw what is hidden of the case, find each variable's noise, and follow it on the way."""
        unordered = [name for name in self.path if isinstance(self.network.variable(name), Discrete)]
        if unordered and not self.monotone:
            raise NetworkError(
                f"the noise of {shorten(unordered)} can't be found from probabilities, and bounds are known only where"
                " the outcome is the only variable that changes; monotone=True takes states as ordered"
            )
        network, rows = self.network, self.evidence.rows
        count = 1 if self.is_determined() else count
        picked = np.repeat(np.arange(rows), count)
        repeated = suppose(network, self.evidence, {}, picked)
        with name_impossible_rows(picked, self.evidence.single):
            values = draw(network, repeated, rng.random((len(network), len(picked))), self.options)
        twins = {name: np.full(len(picked), value) for name, value in self.settings.items()}
        for name in self.path:
            potential = network.potential(name)
            before = {parent.name: values[parent.name] for parent in potential.parents}
            after = {parent: twins.get(parent, column) for parent, column in before.items()}
            twins[name] = _follow(potential, values[name], before, after, rng)
        return Counterfactual(
            self.outcome, draws=twins[self.outcome.name].reshape(rows, count), single=self.evidence.single
        )

    def find_bounds(self) -> Counterfactual:
        """Find the least and greatest probability of each state of the outcome, the only variable that changes."""
        outcome, potential = self.outcome, self.network.potential(self.outcome.name)
        assert isinstance(outcome, Discrete)
        rows, states = self.evidence.rows, len(outcome)
        findings = self.evidence.findings
        numbers = [v.name for v in potential.parents if isinstance(v, Continuous)]
        hidden = [name for name in numbers if name not in findings or not findings[name].hard]
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
        picked = np.repeat(np.arange(rows), size)
        before: dict[str, NDArray[Any]] = {v.name: np.tile(configurations[:, i], rows) for i, v in enumerate(others)}
        codes = {name: np.repeat(column, states) for name, column in before.items()}
        codes[outcome.name] = np.tile(np.arange(states), rows * size)
        weights = self._weigh(codes, size * states).reshape(rows, size, states)
        before |= {name: findings[name].values[picked] for name in numbers}
        after = before | {name: np.full(len(picked), self.settings[name]) for name in before if name in self.settings}
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
        repeated = suppose(self.network, self.evidence, {}, np.repeat(np.arange(rows), each))
        options = Options(tolerance=self.options.tolerance, max_bytes=self.options.max_bytes, impossible="nan")
        logs = log_joint(self.network, repeated, codes, options)
        for name, column in codes.items():
            finding = repeated.finding(name)
            if finding is not None:
                logs[finding.observed & (finding.values != column)] = -np.inf
        shares, log_sums = normalize_logs(logs.reshape(rows, each).T)
        impossible = np.flatnonzero(np.isneginf(log_sums))
        if len(impossible):
            raise impossible_evidence(impossible.tolist(), self.evidence.single)
        return shares.T


def _make_gaussian_twin(potential: LinearGaussian, twins: Mapping[str, Variable]) -> Potential:
    """Return the twin of a linear Gaussian, with the same standardized residual."""
    child, twin = potential.child, twins[potential.child.name]
    assert isinstance(twin, Continuous)
    numbers = [v for v in potential.parents if isinstance(v, Continuous)]
    discrete, before, after = _pair_configurations(potential, twins)
    variance = potential.variance
    ratio = np.sqrt(variance[after] / variance[before])
    intercept = potential.intercept[after] - ratio * potential.intercept[before]
    old = -ratio[..., None] * potential.coefficients[before]
    new = potential.coefficients[after]
    parents: list[Variable] = [child]
    columns = [ratio]
    for i, number in enumerate(numbers):
        if number.name in twins:
            parents += [number, twins[number.name]]
            columns += [old[..., i], new[..., i]]
        else:
            parents.append(number)
            columns.append(old[..., i] + new[..., i])
    return LinearGaussian(
        twin,
        parents=(*discrete, *parents),
        intercept=intercept,
        coefficients=np.stack(columns, axis=-1),
        variance=_NEGLIGIBLE * variance[after],
    )


def _make_table_twin(potential: Potential, twins: Mapping[str, Variable]) -> Potential:
    """Return the twin of a table: the states that share the quantiles of each state."""
    child, twin = potential.child, twins[potential.child.name]
    parents, before, after = _pair_configurations(potential, twins)
    table = potential.probabilities()
    assert table is not None
    assert isinstance(child, Discrete)
    assert isinstance(twin, Discrete)
    first, second = table[before], table[after]
    high, high_after = np.cumsum(first, axis=-1), np.cumsum(second, axis=-1)
    low, low_after = high - first, high_after - second
    shared = np.minimum(high[..., :, None], high_after[..., None, :])
    shared = np.maximum(shared - np.maximum(low[..., :, None], low_after[..., None, :]), 0.0)
    # a state that was impossible tells nothing of the noise
    shared = np.where(shared.sum(axis=-1, keepdims=True) > 0, shared, second[..., None, :])
    return Multinomial(twin, parents=(*parents, child), table=shared, normalize=True)


def _pair_configurations(
    potential: Potential, twins: Mapping[str, Variable]
) -> tuple[list[Discrete], tuple[Values, ...], tuple[Values, ...]]:
    """Return the discrete parents of a variable and then their twins, and for each configuration of all of these that
    of the parents, and that of the twin's parents.
    """
    parents = [v for v in potential.parents if isinstance(v, Discrete)]
    moved = [v for v in parents if v.name in twins]
    index = np.indices((*map(len, parents), *map(len, moved)))
    after = tuple(index[len(parents) + moved.index(v)] if v in moved else index[i] for i, v in enumerate(parents))
    others = [known for v in moved if isinstance(known := twins[v.name], Discrete)]
    return [*parents, *others], tuple(index[: len(parents)]), after


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
        discrete = [parent.name for parent in potential.parents if isinstance(parent, Discrete)]
        cells = [tuple(given[name] for name in discrete) for given in (second, first)]
        scale = np.sqrt([regression.variance[cell] for cell in cells])
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
        low, high = self.probability_bounds
        if not np.allclose(low, high, rtol=0, atol=1e-12, equal_nan=True):
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
        if isinstance(self.posterior, DiscretePosterior):
            return self.posterior.probabilities, self.posterior.probabilities
        bounds = self.bounds
        if bounds is None:
            assert self.draws is not None
            bounds = np.stack([(self.draws[:, :, None] == np.arange(len(self.variable))).mean(axis=1)] * 2)
        low, high = bounds[:, 0] if self.single else bounds
        return low, high

    def mean(self) -> Any:
        """Return the mean of a number: a float or a date, or (rows,)."""
        return self._ask("mean", lambda draws: draws.mean(axis=1))

    def std(self) -> Any:
        """Return the standard deviation of a number: 0 where all that matters was observed."""
        return self._ask("std", lambda draws: draws.std(axis=1))

    def quantile(self, q: Any) -> Any:
        """Return quantiles of a number; of several levels: (levels,) or (rows, levels)."""
        return self._ask("quantile", lambda draws: np.moveaxis(np.quantile(draws, q, axis=1), -1, 0), q)

    def interval(self, level: float = 0.9) -> Any:
        """Return the ends of the central interval that holds this probability: (2,), or (rows, 2)."""
        return self.quantile(check_level(level))

    def _ask(self, what: str, of_draws: Any, *arguments: Any) -> Any:
        if isinstance(self.variable, Discrete):
            raise TableError(f"{self.variable.name!r} is a category; ask for probabilities or probability_bounds")
        if self.posterior is not None:
            return getattr(self.posterior, what)(*arguments)
        values = of_draws(self.draws)
        result = values[0] if self.single else values
        if self.variable.time_unit is None:
            return float(result) if np.ndim(result) == 0 else result
        return self.variable.restore_difference(result) if what == "std" else self.variable.restore(result)

    def __repr__(self) -> str:
        start = f"<counterfactual {self.variable.name!r}"
        if not self.single:
            known = [self.posterior, self.draws, None if self.bounds is None else self.bounds[0]]
            return f"{start} of {next(len(rows) for rows in known if rows is not None)} rows>"
        if isinstance(self.variable, Discrete):
            parts = [
                f"{state!r} {_show(low)}" + (f" to {_show(high)}" if high - low > 5e-4 else "")
                for state, low, high in zip(self.variable.states, *self.probability_bounds, strict=True)
            ]
            return f"{start}: {', '.join(parts)}>"
        if self.variable.time_unit is not None:
            return f"{start}: mean {self.mean()}, sd {self.std() / np.timedelta64(1, 'D'):.3g} days>"
        return f"{start}: mean {self.mean():.6g}, sd {self.std():.3g}>"


def _show(probability: float) -> str:
    return f"{probability:.3f}".removeprefix("0")
