"""Engines answer questions with evidence; the first one whose plan fits the memory limit is chosen.

An engine is a subclass of `Engine` in a module of this folder. Its plan estimates the cost of an answer before anything
is allocated. Engines are asked in the order of `Engine.rank`; `TooWide` is raised when no plan fits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TooWide
from hybridbn.inference.axes import Axis, node_axis_of
from hybridbn.inference.elimination.program import align
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.relevance import Snapshot
from hybridbn.options import CELLS_PER_SECOND, Options
from hybridbn.registry import Registered, Registry
from hybridbn.variables import Values, shorten

if TYPE_CHECKING:
    from hybridbn.inference.compilation import Problem
    from hybridbn.inference.posteriors.continuous import Density

__all__ = [
    "CaseTables",
    "Engine",
    "Plan",
    "Solution",
    "choose_plan",
    "describe_cost",
    "describe_seconds",
    "estimate_rounding",
    "find_first_engine",
    "list_engines",
    "list_offers",
    "too_wide",
]


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
    bounds : for each scope an array (4, *scope, rows) of limits between which the probabilities lie with the confidence
        `SAMPLED_CONFIDENCE`, first those to report and then those that hold for any number of draws; and last such
        limits of `log_norm` (2, rows); None where `tables` are exact but for `error`
    """

    problem: Problem
    rows: NDArray[np.intp]
    evidence: Evidence
    axes: Mapping[str, Axis]
    tables: list[Values]
    log_norm: Values
    error: Values
    bounds: Sequence[Values] | None = None
    densities: Mapping[int, Density] | None = None
    """By number of the target: the density of a continuous variable, where that is summed up from slices or draws."""

    def expect_numbers(
        self, names: Sequence[str], scope: Sequence[str]
    ) -> tuple[list[Values], dict[tuple[int, int], Values]]:
        """Return the expectations of continuous variables given the variables of a scope, and the covariances, by
        number, of those that are integrated out together; arrays broadcast against (*scope, rows).
        """
        expectations: list[Values] = [np.empty(0)] * len(names)
        covariances: dict[tuple[int, int], Values] = {}
        component_of = self.problem.component_of
        for number, name in enumerate(names):
            component = component_of.get(name)
            if name in self.problem.hard:
                expectations[number] = self.evidence.findings[name].values
            elif component is None:
                points = self.problem.potentials[name].point_cells.snap(node_axis_of(self.axes, name).points)
                expectations[number] = align(points, [name], scope)
            else:
                together = [place for place, other in enumerate(names) if component_of.get(other) is component]
                if number > together[0]:
                    continue
                means, products = component.moments([names[place] for place in together], self.axes, self.evidence)
                for i, first in enumerate(together):
                    expectations[first] = align(means[i], component.names, scope)
                    for j, second in enumerate(together):
                        covariances[first, second] = align(products[i, j], component.names, scope)
        return expectations, covariances


COMMON_RANK = 50
"""Engines of a higher rank get problems in which no mixture is taken apart."""
BEYOND_RANK = 60
"""Engines of this rank or a higher one answer what is too wide for the others."""
ROUNDING = 1e-12
"""The smallest error that is reported: the effect of rounding on sums and products of many numbers."""
MOST_ROUNDING = 1e-11
"""The largest error that is attributed to rounding, where the log probability of the evidence is far from zero."""
EPSILON = float(np.finfo(float).eps)


def estimate_rounding(log_norm: Any, factors: int) -> Any:
    """Return the effect of rounding on answers, from the log probability of the evidence and the number of factors."""
    # logarithms lose as many digits as they have before the decimal point; impossible rows get the largest error
    return np.minimum(ROUNDING + EPSILON * (4 * abs(log_norm) + factors), MOST_ROUNDING)


CaseTables: TypeAlias = tuple[list[Values], float, float]
"""For each target of a single case its probabilities (states,); the log probability of the evidence, -inf where it is
impossible; and the estimated error of the probabilities."""


@dataclass
class Plan(ABC):
    """How an engine would solve a problem, and at what cost.

    Attributes
    ----------
    problem, options : the question, and how it is to be answered
    cells : size of the largest table
    clique : the variables of that table
    held_bytes : about the largest number of bytes held at a time
    operations : about the number of multiplications for all rows
    distinct : whether equal rows should be answered once, which takes a comparison of all rows
    sampled : whether solutions have bounds
    """

    problem: Problem
    options: Options
    cells: float
    clique: Sequence[str]
    held_bytes: float
    operations: float
    distinct: ClassVar[bool] = True
    sampled: ClassVar[bool] = False

    @abstractmethod
    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of groups of rows; each is used before the next one is computed.

        `evidence` is that of the plan, or its distinct rows.
        """

    def weigh(self, case: Evidence) -> Iterator[tuple[Mapping[str, NDArray[Any]], Values]] | None:
        """Yield values of the variables that are cut or drawn in one row, and the logarithms of their weights; None
        where there are no such variables, or what they stand for is not these values.
        """
        return None


class Engine(Registered):
    """A method that answers questions.

    Attributes
    ----------
    rank : int
        Engines are asked in ascending order.
    """

    rank: ClassVar[int]
    registry: ClassVar[Registry[Engine]] = Registry("engine", "hybridbn.inference.engines", instances=True)

    def plan(self, problem: Problem, evidence: Evidence, options: Options) -> Plan | None:
        """Return the plan for a problem with its evidence, or None where the method does not apply."""
        return None

    def offer(self, problem: Problem, evidence: Evidence, options: Options) -> str | None:
        """Return the option that asks for this method, and what it would cost, for the message of `TooWide`."""
        return None

    def needs_draws(self, snapshot: Snapshot, target: str) -> bool:
        """Tell whether exact answers about a target would take all that a row lacks together, so that predictions draw
        it.
        """
        return False

    def answer(
        self, snapshot: Snapshot, evidence: Evidence, targets: Sequence[str], max_bytes: float
    ) -> CaseTables | None:
        """Return the posteriors of a single case at once, or None where the question has to be compiled.

        Only the engine that is asked first may answer without a plan.
        """
        return None


def list_engines() -> list[Engine]:
    """Return all engines, in the order in which they are asked.

    Examples
    --------
    >>> [type(engine).__name__ for engine in list_engines()][:2]
    ['SingleCase', 'Leaves']
    """
    return sorted(Engine.registry.load().values(), key=attrgetter("rank"))


def find_first_engine() -> Engine:
    """Return the engine that is asked first, of those that are imported already; single cases need no other one."""
    return min(Engine.registry.values(), key=attrgetter("rank"))


def choose_plan(problem: Problem, evidence: Evidence, options: Options, refused: TooWide | None = None) -> Plan:
    """Return the plan of the first engine that can answer within `max_bytes`; raise `TooWide` where there is none.

    Parameters
    ----------
    refused : TooWide, optional
        With which ordinary elimination failed, so that only what `Options.beyond` asks for is left.
    """
    declined = []
    for engine in list_engines():
        if refused is not None and engine.rank < BEYOND_RANK:
            continue
        if engine.rank > COMMON_RANK and problem.mixtures:
            return choose_plan(problem.keep_whole(evidence), evidence, options, refused)
        plan = engine.plan(problem, evidence, options)
        if plan is None:
            continue
        allowed = options.cells_per_row * max(evidence.rows, 1)
        fast = engine.rank >= BEYOND_RANK or plan.operations <= allowed
        if fast and plan.held_bytes <= options.max_bytes:
            return plan
        declined.append(plan)
    hints = list_offers(problem, evidence, options)
    if refused is not None:
        raise TooWide(f"{refused}{hints}")
    slow = [plan for plan in declined if plan.held_bytes <= options.max_bytes]
    if slow:
        fastest = min(slow, key=lambda plan: plan.operations)
        if options.beyond == "bound":
            # an answer is better than none where there is nothing to sample
            return fastest
        seconds = fastest.operations / (CELLS_PER_SECOND * max(evidence.rows, 1))
        raise TooWide(
            f"exact inference takes about {seconds:.3g} seconds a row, and seconds={options.seconds_per_row:g} are"
            " allowed. Observe more variables, ask for fewer targets at once, or raise seconds"
        )
    raise too_wide(declined, options.max_bytes, hints)


def list_offers(problem: Problem, evidence: Evidence, options: Options) -> str:
    """Return what would answer beyond memory, and what it costs, as the end of a message."""
    offers: dict[str, str] = {}
    for engine in list_engines() if options.beyond is None else []:
        offer = engine.offer(problem, evidence, options)
        if offer:
            # of engines that answer to the same option the first one does
            offers.setdefault(offer.partition(" ")[0], offer)
    return "".join(f"; or ask with {offer}" for offer in offers.values())


def describe_seconds(seconds: float) -> str:
    """Return a predicted time as text.

    Examples
    --------
    >>> describe_seconds(0.2), describe_seconds(2000), describe_seconds(1e9)
    ('below 1 second', '33 minutes', '31.7 years')
    """
    for unit, size in (("years", 3.156e7), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0)):
        if seconds >= 2 * size or (unit == "seconds" and seconds >= 1):
            return f"{seconds / size:.3g} {unit}" if unit == "years" else f"{seconds / size:.0f} {unit}"
    return "below 1 second"


def describe_cost(time: str, held_bytes: float) -> str:
    """Return the predicted cost of a row as text."""
    about = "" if time.startswith("below") else "about "
    return f"{about}{time} a row and {held_bytes / 2**20:.3g} MiB"


def too_wide(plans: Sequence[Plan], max_bytes: float, hints: str = "") -> TooWide:
    """Return the error that states the cost of the cheapest of some plans, and what else would answer."""
    cheapest = min(plans, key=lambda plan: plan.held_bytes)
    return TooWide(
        f"exact inference needs a table of {cheapest.cells:.3g} cells ({cheapest.held_bytes / 2**30:.3g} GiB to work"
        f" with) over {shorten(cheapest.clique)}; at most {max_bytes / 2**30:.3g} GiB are allowed. Observe some of"
        f" these variables, ask for fewer targets at once, or raise max_bytes{hints}"
    )
