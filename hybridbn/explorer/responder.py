"""What the page of the explorer asks and what it is answered, as JSON, and the document that it begins with.

A question is a JSON object with an ``id``, and ``ask``: ``beliefs``, ``why``, ``next``, ``probable``, ``row`` or
``neighborhood``. The answer has the same ``id``; what can't be answered has an ``error`` instead, a text for the user.

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
import sys
import threading
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, ImpossibleEvidence, TableError
from hybridbn.inference.evidence import CellEvidence, Interval
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.pictures.layout import Layout, lay_out
from hybridbn.tables import Table
from hybridbn.units import DAY
from hybridbn.variables import Continuous, Discrete, Grid, Values, Variable, is_missing, shorten

if TYPE_CHECKING:
    import pandas

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

    def intervene(self, network: Network) -> Network:
        """Return the network in which what is set is set."""
        return network.do(dict(self.settings)) if self.settings else network


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
        name = names[as_index(finding["node"], len(names), "a finding names node", "the nodes")]
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
    largest = sys.float_info.max  # an integer may be larger
    if isinstance(value, bool) or not isinstance(value, int | float) or not -largest <= value <= largest:
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
    rows = [[case.evidence.get(name) for name in names] for case in cases]
    return pandas.DataFrame(rows, columns=list(names), dtype=object)


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
    "value": lambda variable, plain: variable.value(as_number(plain, repr(variable.name))),
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
    variables = {name: network.variable(name) for name in evidence}
    return [
        {"node": number[name], **_describe_finding(variables[name], value)}
        for name, value in evidence.items()
        if not is_missing(value)
    ]


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
    """Return the posterior of one case: probabilities, or moments, quantiles, stems and a curve; None for an impossible
    one.

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
    trace = posterior.trace(_POINTS)
    if len(trace.values):
        belief["stems"] = np.column_stack([trace.values, trace.probabilities]).tolist()
    shown = np.flatnonzero(np.isfinite(trace.density))
    if len(shown):
        shown = shown[np.linspace(0, len(shown) - 1, min(len(shown), _MOST_POINTS)).astype(int)]
        belief |= {
            "x": [float(f"{value:.9g}") for value in trace.x[shown]],
            "y": [float(f"{value:.6g}") for value in trace.density[shown]],
        }
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
    numbers = posterior.numeric
    columns: Iterable[Any] = (numbers.mean(), numbers.std(), *np.moveaxis(numbers.quantile(LEVELS), -1, 0))
    return np.column_stack([np.atleast_1d(column) for column in columns])


# -- answers ----------------------------------------------------------------------------------------------------------

NARROWEST, WIDEST, LETTER = 160.0, 192.0, 6.5
"""The widths between which a node's box is chosen, and that of a letter, in pixels."""
ROW, TITLE = 17.0, 34.0
"""The height of a state, and that of the title with the margins."""
GAP = (16.0, 38.0)
MOST_STATES, FEWEST_STATES = 5, 3
"""A box has room for at most so many states, and a density needs as much as so many."""
MOST_BOXES = 60
"""Larger networks are a map, with boxes for the neighborhood of one node."""
MOST_NEIGHBORS = 24
MOST_CASES, MOST_ROWS = 16, 100_000
"""The most cases of a question, and the most rows of a table that can be stepped through."""
OPTIONS = Options(tolerance=1e-8)


class Responder:
    """Answers what the page of the explorer asks about a network.

    Parameters
    ----------
    network : Network
    data : table, optional
        Rows to step through. Columns that are no nodes are left out.
    title : str, optional
    unknown : {"error", "missing"}
        What to do with a value of the table that is no state of its node.
    evidence : mapping, optional
        What is known at first.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rain, wet = hb.Discrete("rain", states=("no", "yes")), hb.Discrete("wet", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(rain, table=[0.7, 0.3]),
    ...     hb.Multinomial(wet, parents=(rain,), table=[[0.9, 0.1], [0.2, 0.8]]),
    ... ])
    >>> responder = Responder(net)
    >>> answer = responder.answer({"id": 1, "ask": "beliefs", "cases": [[{"node": 1, "state": 1}]]})
    >>> [round(p, 4) for p in answer["cases"][0]["beliefs"][0]["p"]]
    [0.2258, 0.7742]
    >>> responder.answer({"id": 2, "ask": "beliefs", "cases": [[{"node": 9, "state": 1}]]})
    {'id': 2, 'error': 'a finding names node 9, but the nodes are numbered from 0 to 1'}
    """

    def __init__(
        self,
        network: Network,
        data: Any = None,
        title: str | None = None,
        unknown: Literal["error", "missing"] = "error",
        evidence: Mapping[str, Any] | None = None,
    ) -> None:
        network.check()
        if not len(network):
            raise TableError("the network has no nodes to explore")
        self.network = network
        self.names: list[str] = list(network)
        self.number: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.title: str = title or "Bayesian network"
        self._columns = None if data is None else _read_columns(network, data, unknown)
        # the factors of a Markov network are observed
        factors = network.graph.get("factors") or ()
        known = network.graph.get("evidence") or {}
        self.given: Mapping[str, Any] = {name: known[name] for name in factors if name in known}
        self._start = list_findings(network, {**{n: known[n] for n in known if n in self.number}, **(evidence or {})})
        self._box = _choose_box(network)
        self._lock = threading.Lock()

    @property
    def row_count(self) -> int:
        """The number of rows that can be stepped through."""
        return 0 if self._columns is None else min([len(column) for column in self._columns.values()] + [MOST_ROWS])

    # -- the document -------------------------------------------------------------------------------------------------

    def describe(self) -> Plain:
        """Return the document: the nodes, the layout, and the beliefs while nothing is known."""
        (prior,) = self.believe([Case(self.given, {})])
        if "beliefs" not in prior:
            raise TableError(prior.get("error") or "the network contradicts itself: its evidence has probability zero")
        layout = lay_out(self.network, self._box, GAP)
        return {
            "title": self.title,
            "nodes": [self._describe_node(variable) for variable in self.network.variables],
            "layout": self._describe_layout(layout),
            "boxes": len(self.names) <= MOST_BOXES,
            "prior": prior["beliefs"],
            "given": list_findings(self.network, self.given),
            "start": self._start,
            "rows": self.row_count,
        }

    def _describe_node(self, variable: Variable) -> Plain:
        potential = self.network.potential(variable.name)
        parents = [self.number[parent.name] for parent in potential.parents]
        node: Plain = {"name": variable.name, "parents": parents, "family": type(potential).__name__}
        if isinstance(variable, Continuous):
            unit, grid = variable.time_unit, variable.grid or Grid()
            domain, ends = (
                [end if math.isfinite(end) else None for end in each]
                for each in (variable.domain, (grid.low, grid.high))
            )
            kind = None if unit is None else "date" if unit.kind == "datetime" and unit.step % DAY == 0 else unit.kind
            return node | {"unit": kind, "domain": domain, "grid": [grid.step, *ends]}
        texts = [str(state) for state in variable.states]
        # 1 and "1" are two states
        labels = texts if len(set(texts)) == len(texts) else [repr(state) for state in variable.states]
        return node | {"states": labels}

    def _describe_layout(self, layout: Layout) -> Plain:
        return {
            "box": list(layout.box),
            "width": round(layout.width, 1),
            "height": round(layout.height, 1),
            "nodes": [[self.number[name], round(x, 1), round(y, 1)] for name, (x, y) in layout.centers.items()],
            "arcs": [
                [self.number[start], self.number[end], [[round(x, 1), round(y, 1)] for x, y in route]]
                for (start, end), route in layout.routes.items()
            ],
        }

    def lay_out_neighborhood(self, node: int) -> Plain:
        """Return the layout of a node with its parents, its children and their other parents, as far as there is room.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.5, 0.5])])
        >>> Responder(net).lay_out_neighborhood(0)["nodes"]
        [[0, 88.0, 61.5]]
        """
        name, network = self.names[node], self.network
        children = list(network.successors(name))
        others = [parent for child in children for parent in network.predecessors(child)]
        beyond = [far for parent in network.predecessors(name) for far in network.predecessors(parent)]
        near = dict.fromkeys([name, *network.predecessors(name), *children, *others, *beyond])
        chosen = set(list(near)[: MOST_NEIGHBORS + 1])
        part = nx.to_dict_of_lists(network, [other for other in self.names if other in chosen])
        return self._describe_layout(lay_out(nx.DiGraph(part), self._box, GAP))

    # -- answers ------------------------------------------------------------------------------------------------------

    def answer(self, question: Any) -> Plain:
        """Answer one question; what is wrong with it is told in the answer."""
        asked = question if isinstance(question, dict) else {}
        identity = asked.get("id")
        answer: Plain = {"id": identity if isinstance(identity, str | int) else None}
        ask = asked.get("ask")
        method = {
            "beliefs": self._answer_beliefs,
            "why": self._answer_why,
            "next": self._answer_next,
            "probable": self._answer_probable,
            "row": self._answer_row,
            "neighborhood": self._answer_neighborhood,
        }.get(ask if isinstance(ask, str) else "")
        if method is None:
            return answer | {"error": f"there is no question {ask!r:.40}"}
        try:
            with self._lock, warnings.catch_warnings(record=True, action="always") as told:
                answer |= method(asked)
            notes = list(dict.fromkeys(str(warning.message) for warning in told if warning.category is UserWarning))
            return answer | ({"notes": notes} if notes else {})
        except ImpossibleEvidence:
            return answer | {"error": "these findings contradict each other", "impossible": True}
        except HybridBNError as error:
            return answer | {"error": str(error)}
        except Exception as error:
            # whoever sends this on has nobody else to tell
            what = f"{type(error).__name__}: {error!s:.200}"
            return answer | {"error": f"a fault of hybridbn itself: {what}; please report it"}

    def believe(self, cases: Sequence[Case]) -> list[Plain]:
        """Return the beliefs in each case: a list with one for each node, None where the value is known.

        Cases with the same interventions are one table of evidence, answered in one pass.
        """
        answers: dict[int, Plain] = {}
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, case in enumerate(cases):
            groups.setdefault(tuple(case.settings.items()), []).append(i)
        for members in groups.values():
            network = cases[members[0]].intervene(self.network)
            answers |= zip(members, self._believe_all(network, [cases[i] for i in members]), strict=True)
        return [answers[i] for i in range(len(cases))]

    def _believe_all(self, network: Network, cases: Sequence[Case]) -> Iterator[Plain]:
        single = len(cases) == 1
        evidence = cases[0].evidence if single else tabulate_cases(cases)
        # targets that are named would not count as evidence in any row
        posteriors = network.posteriors(evidence, options=replace(OPTIONS, impossible="nan"))
        likelihoods = np.atleast_1d(network.log_evidence(evidence, tolerance=OPTIONS.tolerance))
        for row, case in enumerate(cases):
            beliefs: list[Plain | None] = [None] * len(self.names)
            possible = likelihoods[row] > -math.inf
            for name, posterior in posteriors.items():
                if name in case.fixed or not possible:
                    continue
                belief = describe_belief(posterior if single else posterior[row])
                possible = belief is not None
                beliefs[self.number[name]] = belief
            if not possible:
                yield {"error": "these findings contradict each other", "impossible": True}
            else:
                yield {"beliefs": beliefs, "log_evidence": as_plain(likelihoods[row])}

    def _find(self, question: Plain) -> Variable:
        node = as_index(question.get("node"), len(self.names), "the question names node", "the nodes")
        return self.network.variable(self.names[node])

    def _answer_beliefs(self, question: Plain) -> Plain:
        plain = question.get("cases")
        if not isinstance(plain, list) or not 0 < len(plain) <= MOST_CASES:
            raise TableError(f"a question has 1 to {MOST_CASES} cases")
        return {"cases": self.believe([read_case(self.network, item) for item in plain])}

    def _answer_why(self, question: Plain) -> Plain:
        """Answer with the weights of evidence of the findings, or with the mean of a number after each of them."""
        case, variable = read_case(self.network, question.get("case")), self._find(question)
        # what is known of the variable itself explains nothing
        evidence = {
            name: value for name, value in case.evidence.items() if name != variable.name or name not in case.fixed
        }
        network = case.intervene(self.network)
        if isinstance(variable, Discrete):
            code = as_index(question.get("state"), len(variable), "the question names state", "the states")
            explanation = network.explain(variable.name, evidence, variable.states[code])
            return {
                "prior": as_plain(explanation.prior),
                "steps": [
                    {"node": self.number[name], "weight": as_plain(weight)}
                    for name, weight in explanation.weights.items()
                    if name not in self.given
                ],
                "log_odds": as_plain(explanation.log_odds),
                "probability": as_plain(explanation.probability),
            }
        names = list(evidence)
        prefixes = [Case({name: evidence[name] for name in names[:count]}, {}) for count in range(len(names) + 1)]
        table = tabulate_cases(prefixes) if len(prefixes) > 1 else {}
        posterior = network.posterior(variable.name, table, options=OPTIONS)
        assert isinstance(posterior, ContinuousPosterior)
        moments = [(as_plain(m), as_plain(s)) for m, s in zip(
            np.atleast_1d(posterior.numeric.mean()), np.atleast_1d(posterior.numeric.std()), strict=True)]  # fmt: skip
        return {
            "mean": moments[0][0],
            "sd": moments[0][1],
            "steps": [
                {"node": self.number[name], "mean": mean, "sd": deviation}
                for name, (mean, deviation) in zip(names, moments[1:], strict=True)
            ],
        }

    def _answer_next(self, question: Plain) -> Plain:
        """Answer with what observing each node would tell about one."""
        case, variable = read_case(self.network, question.get("case")), self._find(question)
        ranks = case.intervene(self.network).value_of_information(variable.name, case.evidence, options=OPTIONS)
        rows = zip(ranks.index, ranks["information"], ranks["gain"], strict=True)
        return {
            "ranks": [
                {"node": self.number[name], "information": as_plain(information), "gain": as_plain(gain)}
                for name, information, gain in rows
                if name not in case.settings
            ]
        }

    def _answer_probable(self, question: Plain) -> Plain:
        case = read_case(self.network, question.get("case"))
        values = case.intervene(self.network).most_probable(case.evidence)
        return {"values": list_findings(self.network, {n: v for n, v in values.items() if n not in case.fixed})}

    def _answer_row(self, question: Plain) -> Plain:
        if self._columns is None:
            raise TableError("there is no table to step through")
        return {"case": self.read_row(as_index(question.get("row"), self.row_count, "there is no row", "the rows"))}

    def read_row(self, row: int) -> list[Plain]:
        """Return the findings of a row of the table."""
        cells = {self.number[name]: column[row].item() for name, column in (self._columns or {}).items()}
        return [
            {"node": node, "state" if isinstance(value, int) else "value": value}
            for node, value in cells.items()
            if value >= 0 or (isinstance(value, float) and not math.isnan(value))
        ]

    def _answer_neighborhood(self, question: Plain) -> Plain:
        return {"layout": self.lay_out_neighborhood(self.number[self._find(question).name])}


def _choose_box(network: Network) -> tuple[float, float]:
    """Return a size of the boxes in which most texts fit."""
    states = [v for v in network.variables if isinstance(v, Discrete)]
    rows = max([len(variable) for variable in states], default=FEWEST_STATES)
    letters = [len(str(state)) for variable in states for state in variable.states[:MOST_STATES]]
    names = [len(v.name) for v in network.variables if isinstance(v, Continuous)]
    # beside a label there are a bar and a percentage, and beside the name of a number its mean
    wanted = max([LETTER * count / 0.38 for count in letters] + [100 + 1.15 * LETTER * count for count in names])
    width = min(max(round(wanted), NARROWEST), WIDEST)
    return width, TITLE + ROW * min(max(rows, FEWEST_STATES), MOST_STATES)


def _read_columns(network: Network, data: Any, unknown: Literal["error", "missing"]) -> dict[str, NDArray[Any]]:
    """Return the codes and numbers of the columns that are nodes."""
    table = Table(data, variables=network.variables, unknown=unknown)
    if not table.names:
        raise TableError(f"no column of the table is a node of the network; its nodes are {shorten(network)}")
    return {name: np.asarray(table[name]) for name in network if name in table}
