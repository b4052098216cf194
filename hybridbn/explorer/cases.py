"""Findings and beliefs as JSON: what the page of the explorer sends, and what it gets.

A case is a list of findings. Each names its node by number and says one thing of it::

    {"node": 0, "state": 1}               a state, by number
    {"node": 0, "states": [0, 2]}         one of some states
    {"node": 0, "weights": [1, 0.2, 0]}   a likelihood of each state
    {"node": 1, "value": 2.5}             a number
    {"node": 1, "between": [null, 3]}     an interval, either end of which may be open
    {"node": 1, "about": [2.5, 0.1]}      a number that was measured with a normal error of this standard deviation

With ``"set": true`` a state or a number is an intervention instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.inference.evidence import CellEvidence, Interval
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior
from hybridbn.network import Network
from hybridbn.variables import Continuous, Discrete, Values, Variable, is_missing

if TYPE_CHECKING:
    import pandas

__all__ = [
    "LEVELS",
    "About",
    "Case",
    "as_index",
    "as_number",
    "as_plain",
    "describe_belief",
    "list_findings",
    "read_case",
    "summarize",
    "tabulate_cases",
]

LEVELS = (0.02, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.98)
"""The levels of the nine quantiles that stand for a density."""
_POINTS, _MOST_POINTS = 90, 240
"""Points at which a density is drawn, and the most of them where it has many knots."""

Plain = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True)
class About(CellEvidence):
    """A number that was measured with a normal error: its likelihood is that of a normal density.

    Examples
    --------
    >>> About(2.0, 0.5).weights(Continuous("x"), np.array([2.0, 3.0])).round(4)
    array([1.    , 0.1353])
    """

    mean: float
    deviation: float

    _BREAKS: ClassVar[tuple[int, ...]] = (-16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16)

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` where the variable is discrete."""
        if isinstance(variable, Discrete):
            raise TableError(f"{variable.name!r} is discrete; give weights of its states instead of {self!r}")

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return the likelihood, 1 at the mean."""
        return np.asarray(np.exp(-0.5 * ((points - self.mean) / self.deviation) ** 2), dtype=np.float64)

    def breaks(self) -> Sequence[float]:
        """Return points between which the likelihood is easily approximated."""
        return [self.mean + step * self.deviation for step in self._BREAKS]

    def key(self) -> Hashable:
        """Return the mean and the standard deviation."""
        return "about", self.mean, self.deviation


@dataclass(frozen=True)
class Case:
    """What is observed, and what is set.

    Attributes
    ----------
    evidence : mapping from name to evidence, as `Network.posterior` takes it
    settings : mapping from name to value, as `Network.do` takes it
    """

    evidence: Mapping[str, Any]
    settings: Mapping[str, Any]

    @property
    def fixed(self) -> set[str]:
        """The names of the variables of which the value is known."""
        plain = {name for name, value in self.evidence.items() if not isinstance(value, CellEvidence | set | Mapping)}
        return plain | set(self.settings)


# -- from JSON --------------------------------------------------------------------------------------------------------


def read_case(network: Network, plain: Any) -> Case:
    """Return the case that a list of findings says; refuse what is none.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x = hb.Discrete("c", states=("a", "b")), hb.Continuous("x")
    >>> net = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), hb.LinearGaussian(x, intercept=0, variance=1)])
    >>> read_case(net, [{"node": 0, "state": 1}, {"node": 1, "between": [None, 2]}])
    Case(evidence={'c': 'b', 'x': Interval(low=-inf, high=2.0)}, settings={})
    >>> read_case(net, [{"node": 0, "state": 1, "set": True}])
    Case(evidence={}, settings={'c': 'b'})
    >>> read_case(net, [{"node": 7}])
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: a finding names node 7, but the nodes are numbered from 0 to 1
    """
    if not isinstance(plain, list):
        raise TableError(f"a case is a list of findings, not {plain!r:.80}")
    names, evidence, settings = list(network), {}, {}
    for finding in plain:
        if not isinstance(finding, dict) or "node" not in finding:
            raise TableError(f"a finding is an object with a node, not {finding!r:.80}")
        node = as_index(finding["node"], len(names), "a finding names node", "the nodes")
        name = names[node]
        if name in evidence or name in settings:
            raise TableError(f"{name!r} has two findings; leave one out")
        value = _read_finding(network.variable(name), finding)
        if finding.get("set"):
            if isinstance(value, CellEvidence | set | Mapping):
                raise TableError(f"{name!r} can be set to one value only, not to {value!r:.80}")
            settings[name] = value
        else:
            evidence[name] = value
    return Case(evidence, settings)


def as_index(value: Any, count: int, what: str, which: str) -> int:
    """Return a number of one of some things; refuse any other."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
        raise TableError(f"{what} {value!r:.40}, but {which} are numbered from 0 to {count - 1}")
    return value


def as_number(value: Any, what: str) -> float:
    """Return a finite number; refuse anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TableError(f"{what} must be a finite number, not {value!r:.40}")
    return float(value)


def as_plain(value: float) -> float | str:
    """Return a number as JSON has it; infinities, which it has not, are texts.

    Examples
    --------
    >>> as_plain(1.5), as_plain(-math.inf)
    (1.5, '-Infinity')
    """
    value = float(value)
    return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")


def tabulate_cases(cases: Sequence[Case]) -> pandas.DataFrame:
    """Return the evidence of several cases as a table with a row for each.

    Examples
    --------
    >>> tabulate_cases([Case({"c": "a"}, {}), Case({"x": Interval(0, 1)}, {})])
          c                            x
    0     a                         None
    1  None  Interval(low=0.0, high=1.0)
    """
    import pandas

    names = dict.fromkeys(name for case in cases for name in case.evidence)
    columns = {}
    for name in names:
        cells = np.empty(len(cases), dtype=object)
        cells[:] = [case.evidence.get(name) for case in cases]
        columns[name] = cells
    return pandas.DataFrame(columns, index=range(len(cases)), dtype=object)


def _read_finding(variable: Variable, finding: Plain) -> Any:
    kinds = {"state", "states", "weights"} if isinstance(variable, Discrete) else {"value", "between", "about"}
    given = kinds & finding.keys()
    if len(given) != 1:
        raise TableError(
            f"a finding of {variable.name!r} has one of {', '.join(sorted(kinds))}; found {finding!r:.120}"
        )
    kind = given.pop()
    return _READERS[kind](variable, finding[kind])


def _read_state(variable: Any, plain: Any) -> Any:
    return variable.states[as_index(plain, len(variable), f"{variable.name!r}: there is no state", "its states")]


def _read_states(variable: Any, plain: Any) -> Any:
    states = {_read_state(variable, item) for item in _as_list(variable, plain)}
    if not states:
        raise TableError(f"{variable.name!r}: a set of states must not be empty")
    return states


def _read_weights(variable: Any, plain: Any) -> Any:
    weights = [as_number(item, f"{variable.name!r}: a weight") for item in _as_list(variable, plain)]
    if len(weights) != len(variable):
        raise TableError(f"{variable.name!r} has {len(variable)} states, but there are {len(weights)} weights")
    return dict(zip(variable.states, weights, strict=True))


def _read_value(variable: Any, plain: Any) -> Any:
    return variable.value(as_number(plain, repr(variable.name)))


def _read_between(variable: Any, plain: Any) -> Any:
    ends = _as_list(variable, plain)
    if len(ends) != 2:
        raise TableError(f"{variable.name!r}: an interval has two ends, not {len(ends)}")
    low, high = (
        side if end is None else as_number(end, f"{variable.name!r}: an end of an interval")
        for end, side in zip(ends, (-math.inf, math.inf), strict=True)
    )
    return Interval(low, high)


def _read_about(variable: Any, plain: Any) -> Any:
    numbers = [as_number(item, f"{variable.name!r}: a measurement") for item in _as_list(variable, plain)]
    if len(numbers) != 2 or not numbers[1] > 0:
        raise TableError(f"{variable.name!r}: a measurement is a number and a positive standard deviation")
    return About(*numbers)


def _as_list(variable: Variable, plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise TableError(f"{variable.name!r}: found {plain!r:.80} where a list is wanted")
    return plain


_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "state": _read_state,
    "states": _read_states,
    "weights": _read_weights,
    "value": _read_value,
    "between": _read_between,
    "about": _read_about,
}


# -- to JSON ----------------------------------------------------------------------------------------------------------


def list_findings(network: Network, evidence: Mapping[str, Any]) -> list[Plain]:
    """Return evidence as the list of findings that the page shows; unknown values are left out.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x = hb.Discrete("c", states=("a", "b", "d")), hb.Continuous("x")
    >>> net = hb.Network([hb.Multinomial(c, table=[0.5, 0.3, 0.2]), hb.LinearGaussian(x, intercept=0, variance=1)])
    >>> list_findings(net, {"x": hb.Interval(1), "c": {"a", "d"}})
    [{'node': 1, 'between': [1.0, None]}, {'node': 0, 'states': [0, 2]}]
    """
    number = {name: i for i, name in enumerate(network)}
    findings = []
    for name, value in evidence.items():
        variable = network.variable(name)
        if is_missing(value):
            continue
        findings.append({"node": number[name], **_describe_finding(variable, value)})
    return findings


def _describe_finding(variable: Variable, value: Any) -> Plain:
    if isinstance(variable, Continuous):
        if isinstance(value, Interval):
            return {"between": [end if math.isfinite(end) else None for end in (value.low, value.high)]}
        if isinstance(value, About):
            return {"about": [value.mean, value.deviation]}
        if isinstance(value, CellEvidence) or callable(value):
            raise TableError(f"{variable.name!r}: the explorer shows values and intervals, not {value!r:.80}")
        return {"value": variable.value(value)}
    if isinstance(value, Mapping):
        return {"weights": [float(value.get(state, 0.0)) for state in variable.states]}
    if isinstance(value, set | frozenset):
        return {"states": sorted(variable.code(state) for state in value)}
    return {"state": int(variable.code(value))}


def describe_belief(posterior: DiscretePosterior | ContinuousPosterior) -> Plain | None:
    """Return the posterior of one case: probabilities, or moments, quantiles and a curve; None for an impossible one.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.25, 0.75])])
    >>> describe_belief(net.posterior("c"))
    {'p': [0.25, 0.75]}
    """
    if isinstance(posterior, DiscretePosterior):
        probabilities = posterior.probabilities.tolist()
        return None if any(math.isnan(p) for p in probabilities) else {"p": probabilities}
    numbers = summarize(posterior)[0].tolist()
    if math.isnan(numbers[0]):
        return None
    belief: Plain = {"mean": numbers[0], "sd": numbers[1], "q": numbers[2:]}
    if numbers[1] > 0:
        x, density = posterior.trace_density(_POINTS)
        if len(x) > _MOST_POINTS:
            # values with mass are spikes between two points of the curve
            spikes = np.flatnonzero(np.isin(x, posterior.point_cells.points))
            evenly = np.linspace(0, len(x) - 1, _MOST_POINTS).astype(int)
            chosen = np.unique(np.clip(np.concatenate([evenly, spikes - 1, spikes, spikes + 1]), 0, len(x) - 1))
            x, density = x[chosen], density[chosen]
        finite = np.isfinite(density)
        belief["x"] = [float(f"{value:.9g}") for value in x[finite]]
        belief["y"] = [float(f"{value:.6g}") for value in density[finite]]
    return belief


def summarize(posterior: ContinuousPosterior) -> Values:
    """Return the mean, the standard deviation and the nine quantiles of each row (rows, 11).

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=4)])
    >>> summarize(net.posterior("x")).round(3)[:, :3]
    array([[ 0.   ,  2.   , -4.107]])
    """
    columns: Iterable[Any] = (posterior.mean(), posterior.std(), *np.moveaxis(posterior.quantile(LEVELS), -1, 0))
    return np.column_stack([np.atleast_1d(column) for column in columns])
