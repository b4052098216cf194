"""Interventions: networks in which variables are set instead of observed, and the effects of setting them.

A network is taken as causal here: its arcs say what would change if a variable were set. Whether data alone identify an
effect is another question, which libraries for causal identification answer from the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, NetworkError, TableError
from hybridbn.inference.compilation import Snapshot
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.queries import impossible_evidence, posterior
from hybridbn.inference.solutions import infer_posteriors
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials import Density, Multinomial, PointMass
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Values, Variable, is_missing

if TYPE_CHECKING:
    import pandas

__all__ = ["Effect", "effect", "intervene", "spread_evenly"]

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
        return _set_value(variable, setting)
    if setting.child.name != name:
        raise NetworkError(f"{name!r} can't be set by {setting!r}, which is a potential of {setting.child.name!r}")
    for parent in setting.parents:
        network.variable(parent.name)
    if name in setting.scope[:-1]:
        raise NetworkError(f"{setting!r}: {name!r} can't be its own parent")
    return setting


def _set_value(variable: Variable, value: Any) -> Potential:
    """Return the potential of a variable that has one value."""
    if is_missing(value) or isinstance(value, Mapping | set | frozenset) or callable(value):
        raise NetworkError(
            f"{variable.name!r} is set to a value or to a potential (a distribution, or a policy that looks at its"
            f" parents), not to {value!r:.80}"
        )
    if isinstance(variable, Continuous):
        return PointMass(variable, value=variable.value(value))
    return Multinomial(variable, table=np.arange(len(variable)) == variable.code(value))


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
    shown = tuple(cause.states[code] for code in levels) if isinstance(cause, Discrete) else tuple(levels.tolist())
    return Effect(cause, outcome, shown, np.array([draw[0] if single else draw for draw in draws]))


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
    low, high = posterior(network, cause.name, None, options).quantile([0.05, 0.95])
    return np.linspace(low, high, CURVE if low < high else 1)


def _find_outcomes(
    network: Network, cause: Variable, outcome: Variable, given: Any, levels: NDArray[Any], options: Options
) -> Values:
    """Return the means (rows, values), or the probabilities (rows, values, states), of the outcome."""
    # without parents, observing and setting are the same, so that all values are rows of one question
    cut = Snapshot.of(intervene(network, {cause.name: spread_evenly(network.variable(cause.name))}))
    reader = EvidenceReader(network, given, [outcome.name])
    read = reader.evidence()
    known = read.finding(cause.name)
    if known is not None and cause.name in reader.names:
        raise TableError(f"{cause.name!r} is set, so the effect can't be given what is known of it; leave it out")
    rows = np.repeat(np.arange(read.rows), len(levels))
    findings = dict(read.take(rows, len(rows)).findings)
    findings[cause.name] = Finding(cause, np.tile(levels, read.rows))
    repeated = Evidence(findings, len(rows), single=False)
    try:
        (result,) = infer_posteriors(cut, [outcome.name], repeated, options, check=True)
    except ImpossibleEvidence as problem:
        impossible = sorted({row // len(levels) for row in problem.rows})
        raise impossible_evidence(impossible, read.single, nan=True) from None
    found = result.probabilities if isinstance(result, DiscretePosterior) else result.mean()
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
        Means of a continuous outcome, or probabilities of the states of a discrete one, in each network.
    """

    of: Variable
    on: Variable
    values: tuple[Any, ...]
    draws: Values

    @property
    def outcomes(self) -> Values:
        """Means (values,) or probabilities (values, states), averaged over the networks; rows first for a table."""
        return np.asarray(self.draws.mean(axis=0))

    def difference(self, value: Any = None, base: Any = None) -> Any:
        """Return the outcome at a value less that at a base, by default at the last value less at the first one.

        For a discrete outcome that is a dict of the differences by state.
        """
        return self._by_state(self._differences(value, base).mean(axis=0))

    def interval(self, level: float = 0.9, value: Any = None, base: Any = None) -> Any:
        """Return the ends of the central interval that holds this share of the networks' differences."""
        if not isinstance(level, Real) or not 0 < level < 1:
            raise TableError(f"the share of an interval lies between 0 and 1; found {level!r}")
        if len(self.draws) < 2:
            raise TableError("an interval needs the effects of several networks; give effect() a list of draws")
        differences = self._differences(value, base)
        return self._by_state(
            np.moveaxis(np.quantile(differences, [(1 - level) / 2, (1 + level) / 2], axis=0), 0, -1), 1
        )

    def _differences(self, value: Any, base: Any) -> Values:
        along = self.draws.ndim - 1 - isinstance(self.on, Discrete)
        ends = [self._find(value, len(self.values) - 1), self._find(base, 0)]
        after, before = (np.take(self.draws, end, axis=along) for end in ends)
        return np.asarray(after - before)

    def _find(self, value: Any, default: int) -> int:
        if value is None:
            return default
        known = [self.of.states[self.of.code(value)]] if isinstance(self.of, Discrete) else [self.of.value(value)]
        if known[0] not in self.values:
            raise TableError(f"the effect of {self.of.name!r} was not computed at {value!r}; name it in values=")
        return self.values.index(known[0])

    def _by_state(self, array: Values, after: int = 0) -> Any:
        """Return a number, or numbers by state; states are the last dimension but `after` more."""
        if not isinstance(self.on, Discrete):
            return array if array.ndim else float(array)
        states = np.moveaxis(array, array.ndim - 1 - after, 0)
        return {state: part if part.ndim else float(part) for state, part in zip(self.on.states, states, strict=True)}

    def to_frame(self) -> pandas.DataFrame:
        """Return a DataFrame with a row for each value: the mean, or the probability of each state.

        Of several networks, the ends of the intervals that hold 90 % of them are there too.
        """
        import pandas

        self._refuse_rows()
        columns: dict[str, Any] = {self.of.name: list(self.values)}
        for name, part in self.curves():
            columns[name] = part.mean(axis=0)
            if len(part) > 1:
                columns[f"{name} 5%"], columns[f"{name} 95%"] = np.quantile(part, [0.05, 0.95], axis=0)
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
        text = (
            ", ".join(f"{s!r}: {d:+.4g}" for s, d in change.items()) if isinstance(change, dict) else f"{change:+.6g}"
        )
        return f"<effect of {names} from {self.values[0]!r} to {self.values[-1]!r}: {text}>"
