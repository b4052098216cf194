"""Posteriors of rows that are read in passes: computed batch by batch, where the rows are, when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.posteriors.continuous import (
    ContinuousPosterior,
    LazyPosterior,
    PartQuestion,
    Result,
    gather,
    list_log_evidence,
    return_posterior,
)
from hybridbn.inference.posteriors.joint import JointPosterior
from hybridbn.inference.queries import check_targets, impossible_evidence, posterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Rows, Table
from hybridbn.variables import Continuous, Discrete, Values


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
        return (answer for _, answer in self.ask(return_posterior))

    def ask(self, question: PartQuestion[Result]) -> Iterator[tuple[NDArray[np.intp], Result]]:
        """Yield the places of each batch's rows, and what a function gives of their posterior, where these are read."""
        targets = (self.target,) if isinstance(self.target, str) else self.target
        task = partial(_ask_posterior, self.network, self.target, self.options, question)
        return answer_batches(self.rows, self.network, task, targets)


def _ask_posterior(
    network: Network, target: Any, options: Options, question: PartQuestion[Result], table: Table, first: int
) -> tuple[NDArray[np.intp], Result]:
    places = np.arange(first, first + len(table))
    return places, question(posterior(network, target, table, options), places)


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
    return _BatchedContinuous(variable, batches)


class _BatchedDiscrete(DiscretePosterior):
    """Probabilities of states in rows that are read in passes: of all rows after the first question."""

    _table: Any = property(lambda self: self._joined._table)
    _error: Any = property(lambda self: self._joined._error)
    _bounds: Any = property(lambda self: self._joined._bounds)

    def __init__(self, variable: Discrete, batches: _Batches) -> None:
        self.variable, self.single, self._batches = variable, False, batches
        self._log_evidence = partial(gather, batches.ask, list_log_evidence, (3, len(batches.rows)))

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


class _BatchedContinuous(LazyPosterior):
    """Densities in rows that are read in passes, each question making one."""

    def __init__(self, variable: Continuous, batches: _Batches) -> None:
        super().__init__(variable, len(batches.rows), batches.ask)
        self._batches = batches

    def batches(self) -> Iterator[ContinuousPosterior]:
        """Yield the posteriors of consecutive rows."""
        yield from self._batches

    def __iter__(self) -> Iterator[Any]:
        return (row for batch in self.batches() for row in batch)
