"""Posteriors of rows that are read in passes: computed batch by batch, where the rows are, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, TableError
from hybridbn.inference.posteriors.base import ContinuousPosterior, DiscretePosterior, Posterior
from hybridbn.inference.posteriors.joint import JointPosterior
from hybridbn.inference.queries import check_targets, impossible_evidence, posterior
from hybridbn.inference.solutions import empty_posterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Rows, Table
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["answer_batches", "postpone_posterior"]

Result = TypeVar("Result")
Question: TypeAlias = Callable[[Any, NDArray[np.intp]], Result]
"""From a posterior and the places of its rows to what is asked of it."""


def answer_batches(
    rows: Rows, network: Network, task: Callable[[Table, int], Result], targets: Sequence[str] = ()
) -> Iterator[Result]:
    """Yield what a task answers of each batch, its columns read as the network's variables, without those of targets;
    rows of impossible evidence are named by their places among all rows.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.25, 0.75])])
    >>> list(answer_batches(hb.scan({"c": ["a", "b"]}), net, lambda batch, first: len(batch)))
    [2]
    """
    names = [name for name in network if name in rows and name not in targets]
    for first, answer in rows.answer(partial(_catch, task), [network.variable(name) for name in names]):
        if isinstance(answer, ImpossibleEvidence):
            places = first + np.arange(1 + max(answer.rows, default=0))
            raise answer.renumber(places, lambda known: str(impossible_evidence(known, False, nan=True)))
        yield answer


def _catch(task: Callable[[Table, int], Any], table: Table, first: int) -> tuple[int, Any]:
    """Return the place of the first row, and the answer or that rows are impossible."""
    try:
        return first, task(table, first)
    except ImpossibleEvidence as error:
        return first, error


@dataclass(frozen=True)
class _Batches:
    """The posteriors of all batches of some rows, computed in each pass anew."""

    network: Network
    target: str | tuple[str, ...]
    rows: Rows
    options: Options

    def __iter__(self) -> Iterator[Any]:
        return (answer for _, answer in self.ask(_return_posterior))

    def ask(self, question: Question[Result]) -> Iterator[tuple[NDArray[np.intp], Result]]:
        """Yield the places of each batch's rows, and what a function gives of their posterior, where these are read."""
        targets = (self.target,) if isinstance(self.target, str) else self.target
        task = partial(_ask_posterior, self.network, self.target, self.options, question)
        return answer_batches(self.rows, self.network, task, targets)


def _return_posterior(answer: Result, places: NDArray[np.intp]) -> Result:
    return answer


def _ask_posterior(
    network: Network, target: Any, options: Options, question: Question[Result], table: Table, first: int
) -> tuple[NDArray[np.intp], Result]:
    places = np.arange(first, first + len(table))
    return places, question(posterior(network, target, table, options), places)


def _gather(
    pieces: _Batches | _Selection, question: Callable[[Any, NDArray[np.intp]], Values], shape: tuple[int, ...]
) -> Values:
    """Return numbers (..., rows) of all rows."""
    result = np.empty(shape)
    for places, values in pieces.ask(question):
        result[..., places] = values
    return result


def postpone_posterior(network: Network, target: str | Sequence[str], options: Options, rows: Rows) -> Any:
    """Return the posterior of one variable in each row, or the joint one of several, which is computed at once.

    Examples
    --------
    >>> import hybridbn as hb
    >>> data = {"wind": ["weak", "strong", "strong"], "play": ["yes", "no", "no"]}
    >>> net = hb.structures.naive_bayes(data, "play")
    >>> post = net.posterior("play", hb.scan(data))
    >>> post.probabilities.round(2)
    array([[0.33, 0.67],
           [0.75, 0.25],
           [0.75, 0.25]])
    >>> [len(batch) for batch in post.batches()]
    [3]
    """
    if not isinstance(target, str):
        return JointPosterior.join(list(_Batches(network, tuple(check_targets(network, target)), rows, options)))
    batches, variable = _Batches(network, target, rows, options), network.variable(target)
    if isinstance(variable, Discrete):
        return _BatchedDiscrete(variable, batches)
    assert isinstance(variable, Continuous)
    return _BatchedContinuous.of(variable, batches, len(rows))


def _take_from_all(name: str) -> Any:
    """Return an attribute that is one of the posterior of all rows, which is computed when it is asked for."""
    return cached_property(attrgetter(f"_joined.{name}"))


class _BatchedDiscrete(DiscretePosterior):
    """Probabilities of states in rows that are read in passes: of all rows after the first question."""

    _table: Any = _take_from_all("_table")
    _error: Any = _take_from_all("_error")
    _bounds: Any = _take_from_all("_bounds")

    def __init__(self, variable: Discrete, batches: _Batches) -> None:
        self.variable, self.single, self._batches = variable, False, batches
        self._log_evidence = partial(_gather, batches, _list_log_evidence, (3, len(batches.rows)))

    def __len__(self) -> int:
        return len(self._batches.rows)

    def batches(self) -> Iterator[DiscretePosterior]:
        """Yield the posteriors of consecutive rows."""
        yield from self._batches

    @cached_property
    def _joined(self) -> DiscretePosterior:
        tables, errors, limits = zip(*(part for _, part in self._batches.ask(_list_probabilities)), strict=True)
        table, error, bounds = np.concatenate(tables, axis=-1), np.concatenate(errors), None
        if any(one is not None for one in limits):
            # probabilities that are exact are their own limits
            both = [np.stack([t] * 4) if one is None else one for t, one in zip(tables, limits, strict=True)]
            bounds = np.concatenate(both, axis=-1)
        return DiscretePosterior(self.variable, table, False, error, self._log_evidence, bounds)

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows as a batch."""
        return self._joined.select_rows(rows)


def _list_probabilities(answer: DiscretePosterior, places: NDArray[np.intp]) -> tuple[Values, Values, Values | None]:
    return answer._table, answer._error, answer._bounds


def _list_log_evidence(answer: Posterior, places: NDArray[np.intp]) -> Values:
    return answer.compute_log_evidence()


class _Pieces(ContinuousPosterior):
    """Densities of rows that come in pieces, whose forms may differ."""

    _pieces: _Batches | _Selection
    _count: int

    @classmethod
    def of(cls, variable: Continuous, pieces: _Batches | _Selection, rows: int) -> Self:
        """Return the densities of so many rows."""
        made = cls.__new__(cls)
        made.variable, made.single, made._pieces, made._count = variable, False, pieces, rows
        made._log_evidence = partial(_gather, pieces, _list_log_evidence, (3, rows))
        return made

    @property
    def _rows(self) -> int:
        return self._count

    @cached_property
    def _summary(self) -> Values:
        """The error, the mean and the variance of each row (3, rows)."""
        return _gather(self._pieces, _summarize, (3, self._count))

    _error: Any = cached_property(lambda self: self._summary[0])

    def moments(self) -> tuple[Values, Values]:
        """Return mean and variance (rows,)."""
        return self._summary[1], self._summary[2]

    _moments = moments

    def _by_rows(self, method: str, x: Values) -> Values:
        # points that all rows share are sent to the rows as one column
        points = x[:, :1] if not x.strides[-1] else x
        return _gather(self._pieces, partial(_evaluate, method, points), x.shape)

    def _pdf(self, x: Values) -> Values:
        return self._by_rows("_pdf", x)

    def _cdf(self, x: Values) -> Values:
        return self._by_rows("_cdf", x)

    def draw(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into numbers."""
        return self._by_rows("draw", uniforms)

    def knots(self) -> tuple[Values, Values]:
        """Refuse, as rows of different pieces may have different numbers of them."""
        raise TableError("knots are those of a single case: choose a row, posterior[0]")

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows, whose densities are kept."""
        chosen: list[tuple[NDArray[np.intp], ContinuousPosterior]] = []
        left = len(rows)
        for places, answer in self._pieces.ask(_return_posterior) if left else ():
            position = np.searchsorted(places, rows)
            inside = np.flatnonzero(places[np.minimum(position, len(places) - 1)] == rows)
            if len(inside):
                chosen.append((inside, answer.select_rows(position[inside])))
            left -= len(inside)
            if not left:
                break
        if len(chosen) > 1:
            return _Pieces.of(self.variable, _Selection(chosen), len(rows))
        return chosen[0][1] if chosen else empty_posterior(self.variable)


class _BatchedContinuous(_Pieces):
    """Densities in rows that are read in passes, each question making one; error, mean and variance are kept."""

    _pieces: _Batches

    def batches(self) -> Iterator[ContinuousPosterior]:
        """Yield the posteriors of consecutive rows."""
        yield from self._pieces

    def __iter__(self) -> Iterator[Any]:
        return (row for batch in self.batches() for row in batch)


@dataclass(frozen=True)
class _Selection:
    """Posteriors of some rows, and their places."""

    parts: Sequence[tuple[NDArray[np.intp], ContinuousPosterior]]

    def ask(self, question: Question[Result]) -> Iterator[tuple[NDArray[np.intp], Result]]:
        """Yield the places of each part's rows, and what a function gives of their posterior."""
        return ((places, question(answer, places)) for places, answer in self.parts)


def _summarize(answer: ContinuousPosterior, places: NDArray[np.intp]) -> Values:
    return np.stack([answer._error, *answer._moments()])


def _evaluate(method: str, points: Values, answer: ContinuousPosterior, places: NDArray[np.intp]) -> Values:
    x = np.broadcast_to(points, (len(points), len(places))) if points.shape[1] == 1 else points[:, places]
    return answer._by_rows(method, x)
