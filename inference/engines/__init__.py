"""Engines answer questions with evidence; the first one whose plan fits the memory limit is chosen.

An engine is a subclass of `Engine` in a module of this folder. Its plan estimates the cost of an answer before anything
is allocated. Engines are asked in the order of `Engine.rank`; `TooWide` is raised when no plan fits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.inference.axes import Axis
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.problem import Problem, Question, Snapshot
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.variables import Values, shorten

__all__ = ["Engine", "EngineRequest", "Plan", "Solution", "choose_plan", "too_wide"]


@dataclass(slots=True)
class EngineRequest:
    """A question with its evidence.

    Attributes
    ----------
    problem : the compiled question
    """

    network: Network | Snapshot
    problem: Problem
    question: Question
    evidence: Evidence
    options: Options


@dataclass
class Solution:
    """The solution of a problem for some rows.

    Attributes
    ----------
    problem : the problem of these rows, which are observed in the same variables
    rows : numbers of the rows
    evidence : their evidence
    axes : the axes of all hidden variables
    tables : for each scope of the problem an array (*scope, rows) that sums to one; NaN in impossible rows
    log_norm : (rows,) log probability of the evidence that the problem contains
    error : (rows,) estimated errors of probabilities
    """

    problem: Problem
    rows: NDArray[np.intp]
    evidence: Evidence
    axes: Mapping[str, Axis]
    tables: list[Values]
    log_norm: Values
    error: Values


class Plan(ABC):
    """How an engine would answer a request, and at what cost.

    Attributes
    ----------
    cells : size of the largest table
    clique : the variables of that table
    held_bytes : about the largest number of bytes held at a time
    operations : about the number of multiplications for all rows
    distinct : whether equal rows should be answered once, which takes a comparison of all rows
    """

    cells: float
    clique: Sequence[str]
    held_bytes: float
    operations: float
    distinct: ClassVar[bool] = True

    @abstractmethod
    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of groups of rows; each is used before the next one is computed.

        `evidence` is that of the request, or its distinct rows.
        """


class Engine(ABC):
    """A method that answers questions.

    Attributes
    ----------
    rank : int
        Engines are asked in ascending order.
    """

    rank: ClassVar[int]
    registered: ClassVar[list[Engine]] = []

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Engine.registered.append(cls())
        Engine.registered.sort(key=lambda engine: engine.rank)

    @abstractmethod
    def plan(self, request: EngineRequest) -> Plan | None:
        """Return the plan for a request, or None where the method does not apply."""


@cache
def _load() -> None:
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


def choose_plan(request: EngineRequest) -> Plan:
    """Return the plan of the first engine that can answer within `max_bytes`; raise `TooWide` where there is none."""
    _load()
    declined = []
    for engine in Engine.registered:
        plan = engine.plan(request)
        if plan is None:
            continue
        if plan.held_bytes <= request.options.max_bytes:
            return plan
        declined.append(plan)
    raise too_wide(declined, request.options.max_bytes)


def too_wide(plans: Sequence[Plan], max_bytes: float) -> TooWide:
    """Return the error that states the cost of the cheapest of some plans."""
    cheapest = min(plans, key=lambda plan: plan.held_bytes)
    return TooWide(
        f"exact inference needs a table of {cheapest.cells:.3g} cells ({cheapest.held_bytes / 2**30:.3g} GiB to work"
        f" with) over {shorten(cheapest.clique)}; at most {max_bytes / 2**30:.3g} GiB are allowed. Observe some of"
        " these variables, ask for fewer targets at once, or raise max_bytes"
    )
