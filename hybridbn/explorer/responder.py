"""The answers to the questions of the explorer's page, and the document that it begins with.

A question is a JSON object with an ``id``, and ``ask``: ``beliefs``, ``why``, ``next``, ``probable``, ``row`` or
``neighborhood``. The answer has the same ``id``; what can't be answered has an ``error`` instead, a text for the user.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, ImpossibleEvidence, TableError
from hybridbn.explorer.cases import Case, as_index, as_plain, describe_belief, list_findings, read_case, tabulate_cases
from hybridbn.inference.posteriors import ContinuousPosterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.pictures.layout import Layout, lay_out
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.explorer.server import ExplorerServer

__all__ = ["Responder"]

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

Plain = dict[str, Any]


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

    names: list[str]
    number: dict[str, int]
    title: str
    columns: dict[str, NDArray[Any]] | None
    start: list[Plain]
    box: tuple[float, float]

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
        self.names = list(network)
        self.number = {name: i for i, name in enumerate(self.names)}
        self.title = title or "Bayesian network"
        self.columns = None if data is None else _read_columns(network, data, unknown)
        # the factors of a Markov network are observed
        factors = network.graph.get("factors") or ()
        known = network.graph.get("evidence") or {}
        self.given: Mapping[str, Any] = {name: known[name] for name in factors if name in known}
        self.start = list_findings(network, {**{n: known[n] for n in known if n in self.number}, **(evidence or {})})
        self.box = _choose_box(network)
        self._lock = threading.Lock()

    def make_page(self) -> str:
        """Return a page that answers by itself, without a server."""
        from hybridbn.explorer.page import make_page

        return make_page(self)

    def open_server(self, port: int = 0) -> ExplorerServer:
        """Return a local server of the page; a port of 0 stands for any that is free."""
        from hybridbn.explorer.server import ExplorerServer

        return ExplorerServer(self, port)

    @property
    def row_count(self) -> int:
        """The number of rows that can be stepped through."""
        return 0 if self.columns is None else min([len(column) for column in self.columns.values()] + [MOST_ROWS])

    # -- the document -------------------------------------------------------------------------------------------------

    def describe(self) -> Plain:
        """Return the document: the nodes, the layout, and the beliefs while nothing is known."""
        (prior,) = self.believe([Case(self.given, {})])
        if "beliefs" not in prior:
            raise TableError(prior.get("error") or "the network contradicts itself: its evidence has probability zero")
        layout = lay_out(self.network, self.box, GAP)
        return {
            "title": self.title,
            "nodes": [self._describe_node(variable) for variable in self.network.variables],
            "layout": self._describe_layout(layout),
            "boxes": len(self.names) <= MOST_BOXES,
            "prior": prior["beliefs"],
            "given": list_findings(self.network, self.given),
            "start": self.start,
            "rows": self.row_count,
        }

    def _describe_node(self, variable: Variable) -> Plain:
        potential = self.network.potential(variable.name)
        parents = [self.number[parent.name] for parent in potential.parents]
        node: Plain = {"name": variable.name, "parents": parents, "family": type(potential).__name__}
        if isinstance(variable, Continuous):
            unit = variable.unit
            domain = [end if math.isfinite(end) else None for end in variable.domain]
            return node | {"unit": None if unit is None else unit.kind, "domain": domain}
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
        chosen = nx.DiGraph(network.subgraph(list(near)[: MOST_NEIGHBORS + 1]).edges)
        chosen.add_nodes_from(list(near)[: MOST_NEIGHBORS + 1])
        ordered: nx.DiGraph[str] = nx.DiGraph()
        ordered.add_nodes_from(other for other in self.names if other in chosen)
        ordered.add_edges_from(arc for arc in network.edges if chosen.has_edge(*arc))
        return self._describe_layout(lay_out(ordered, self.box, GAP))

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
            with self._lock, warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
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
        answers: list[Plain] = [{} for _ in cases]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, case in enumerate(cases):
            groups.setdefault(tuple(case.settings.items()), []).append(i)
        for settings, members in groups.items():
            network = self.network.do(dict(settings)) if settings else self.network
            for i, answer in zip(members, self._believe_all(network, [cases[i] for i in members]), strict=True):
                answers[i] = answer
        return answers

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

    def _read(self, question: Plain) -> Case:
        return read_case(self.network, question.get("case"))

    def _intervene(self, case: Case) -> Network:
        return self.network.do(dict(case.settings)) if case.settings else self.network

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
        case, variable = self._read(question), self._find(question)
        # what is known of the variable itself explains nothing
        evidence = {
            name: value for name, value in case.evidence.items() if name != variable.name or name not in case.fixed
        }
        network = self._intervene(case)
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
            np.atleast_1d(posterior.mean()), np.atleast_1d(posterior.std()), strict=True)]  # fmt: skip
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
        case, variable = self._read(question), self._find(question)
        ranks = self._intervene(case).value_of_information(variable.name, case.evidence, options=OPTIONS)
        rows = zip(ranks.index, ranks["information"], ranks["gain"], strict=True)
        return {
            "ranks": [
                {"node": self.number[name], "information": as_plain(information), "gain": as_plain(gain)}
                for name, information, gain in rows
                if name not in case.settings
            ]
        }

    def _answer_probable(self, question: Plain) -> Plain:
        case = self._read(question)
        values = self._intervene(case).most_probable(case.evidence)
        return {"values": list_findings(self.network, {n: v for n, v in values.items() if n not in case.fixed})}

    def _answer_row(self, question: Plain) -> Plain:
        if self.columns is None:
            raise TableError("there is no table to step through")
        row = as_index(question.get("row"), self.row_count, "there is no row", "the rows")
        return {"case": self.read_row(row)}

    def read_row(self, row: int) -> list[Plain]:
        """Return the findings of a row of the table."""
        findings: list[Plain] = []
        for name, column in (self.columns or {}).items():
            node, value = self.number[name], column[row].item()
            if isinstance(value, int) and value >= 0:
                findings.append({"node": node, "state": value})
            elif isinstance(value, float) and not math.isnan(value):
                findings.append({"node": node, "value": value})
        return findings

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
