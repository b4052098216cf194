"""Answers for tables whose rows are read in passes: computed batch by batch, where the rows are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridbn.errors import ImpossibleEvidence
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.variables import Values

if TYPE_CHECKING:
    from hybridbn.inference.posteriors.base import Posterior

__all__ = ["ScannedPosterior", "answer_in_parts"]

_VALUES = ("probabilities", "error", "log_evidence")
"""What posteriors have besides methods."""


def answer_in_parts(table: Table, network: Network, function: Callable[[Table], Values]) -> Values:
    """Return the answers of all rows, which a function gives for some.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.25, 0.75])])
    >>> answer_in_parts(hb.scan({"c": ["a", "b"]}), net, len)
    array([2])
    """
    parts = list(_map_parts(table, network, function, ()))
    return np.concatenate([np.atleast_1d(part) for part in parts]) if parts else np.empty(0)


def _map_parts(
    table: Table, network: Network, function: Callable[[Table], Any], targets: Sequence[str]
) -> Iterator[Any]:
    names = [name for name in network if name in table and name not in targets]
    before = 0
    for rows, answer in table.answer(_Safely(function), [network.variable(name) for name in names]):
        if isinstance(answer, ImpossibleEvidence):
            from hybridbn.inference.solutions import impossible_evidence

            first = before
            raise answer.renumber(
                np.arange(first, first + rows), lambda known: str(impossible_evidence(known, False, nan=True))
            )
        before += rows
        yield answer


@dataclass(frozen=True)
class _Safely:
    """Returns how many rows there were, and the answer or that they are impossible, for whoever numbers the rows."""

    function: Callable[[Table], Any]

    def __call__(self, table: Table, first: int) -> tuple[int, Any]:
        try:
            return len(table), self.function(table)
        except ImpossibleEvidence as error:
            return len(table), error


@dataclass(frozen=True)
class _Ask:
    """Asks the posterior of some rows for something; without a name, for itself."""

    network: Network
    target: str | tuple[str, ...]
    options: Options
    name: str | None = None
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()

    def __call__(self, table: Table) -> Any:
        from hybridbn.inference.queries import posterior

        answer = posterior(self.network, self.target, table, self.options)
        if self.name is None:
            return answer
        value = getattr(answer, self.name)
        return value if self.name in _VALUES else value(*self.arguments, **dict(self.keywords))


class ScannedPosterior:
    """The posterior of each row of a table that is read in passes.

    It has the methods of the posterior of a table in memory; each call makes a pass, and returns what it is asked for
    of all rows. `batches` gives the posteriors themselves, some rows at a time.

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

    network: Network
    table: Table
    options: Options

    def __init__(self, network: Network, target: str | Sequence[str], table: Table, options: Options) -> None:
        self.network, self.table, self.options = network, table, options
        self.target: str | tuple[str, ...] = target if isinstance(target, str) else tuple(target)
        for name in self._targets:
            network.variable(name)

    @property
    def _targets(self) -> tuple[str, ...]:
        return (self.target,) if isinstance(self.target, str) else self.target

    def __len__(self) -> int:
        return len(self.table)

    @property
    def variable(self) -> Any:
        """The variable."""
        return self.network.variable(self._targets[0])

    @property
    def states(self) -> tuple[Any, ...]:
        """The states of a discrete variable."""
        return tuple(self.variable.states)

    def batches(self) -> Iterator[Posterior]:
        """Yield the posteriors of consecutive rows."""
        yield from _map_parts(self.table, self.network, _Ask(self.network, self.target, self.options), self._targets)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._collect(name) if name in _VALUES else _Method(self, name)

    def _collect(self, name: str, arguments: tuple[Any, ...] = (), keywords: tuple[tuple[str, Any], ...] = ()) -> Any:
        ask = _Ask(self.network, self.target, self.options, name, arguments, keywords)
        parts = list(_map_parts(self.table, self.network, ask, self._targets))
        return np.concatenate(parts)

    def __repr__(self) -> str:
        return f"<posterior of {', '.join(map(repr, self._targets))} in each row of a scan>"


@dataclass(frozen=True)
class _Method:
    """A method of the posteriors of all rows."""

    posterior: ScannedPosterior
    name: str

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.posterior._collect(self.name, arguments, tuple(keywords.items()))
