"""The holes of a table: where they are, what fills them, and the rounds that alternate between filling and learning."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.estimation.row_uniforms import Levels
from hybridbn.network import Network
from hybridbn.progress_reports import advance, track
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = [
    "Cells",
    "ObservedNumbers",
    "RowLevels",
    "alternate",
    "collect_observed_numbers",
    "draw_levels",
    "fill_table",
    "find_holes",
]

Cells: TypeAlias = dict[str, NDArray[Any]]
"""Whole columns, as codes or numbers of the table's own variables."""

Completed = TypeVar("Completed")

_SKIPPED = 1 << 16
"""Numbers that are skipped at a time by generators that can't leap."""


def find_holes(table: Table) -> dict[str, NDArray[np.bool_]]:
    """Return where cells are missing, for each column in which any is.

    Examples
    --------
    >>> find_holes(Table({"x": [1.0, None], "c": ["a", "b"]}))
    {'x': array([False,  True])}
    """
    holes = {}
    for name in table.names:
        column = table.column(name)
        missing = column < 0 if table.is_discrete(name) else np.isnan(column)
        if missing.any():
            holes[name] = missing
    return holes


def collect_observed_numbers(table: Table, network: Network | None = None) -> dict[str, Values]:
    """Return the observed numbers of each number column, sorted; with a network, of those that it sees in intervals."""
    names = [name for name in table.names if not table.is_discrete(name)]
    if network is not None:
        names = [name for name in names if name in network and isinstance(network.variable(name), Discrete)]
    return {name: np.sort(column[~np.isnan(column)]) for name in names for column in [table.column(name)]}


@dataclass(frozen=True)
class RowLevels:
    """Uniform numbers for each row of some columns, as the generator that draws them row by row.

    Attributes
    ----------
    generator : bytes
    names : tuple of str
    """

    generator: bytes
    names: tuple[str, ...]

    @classmethod
    def draw(cls, rng: np.random.Generator, rows: Rows, network: Network | None = None) -> RowLevels:
        """Draw for each column that has holes, and for each hidden node of a network."""
        holes = [name for name in rows.names if rows.count_missing(name)]
        levels = cls(pickle.dumps(rng), (*holes, *(name for name in network or () if name not in rows)))
        _skip_draws(rng, len(rows) * len(levels.names))
        return levels

    def of(self, batch: Table, first: int) -> Levels:
        """Return the numbers of some rows, given the place of the first of them; they are the same for every attempt.

        Examples
        --------
        >>> table = Table({"x": [1.0, None, None]})
        >>> levels, last = RowLevels.draw(np.random.default_rng(0), table), np.arange(1)
        >>> bool(levels.of(table, 0)(0, last + 2)["x"] == levels.of(table.take([2]), 2)(0, last)["x"])
        True
        """
        # of this program's own making
        rng = pickle.loads(self.generator)
        _skip_draws(rng, first * len(self.names))
        levels = dict(zip(self.names, rng.random((len(batch), len(self.names))).T, strict=True))
        return lambda _, rows: {name: values[rows] for name, values in levels.items()}


def _skip_draws(rng: np.random.Generator, count: int) -> None:
    """Let a generator be as if it had drawn so many uniform numbers."""
    if isinstance(rng.bit_generator, np.random.PCG64):
        rng.bit_generator.advance(count)
        return
    for start in range(0, count, _SKIPPED):
        rng.random(min(_SKIPPED, count - start))


def draw_levels(rng: np.random.Generator, table: Table, network: Network | None = None) -> Levels:
    """Return a uniform number for each row of each column that has holes, and of each hidden node of a network."""
    return RowLevels.draw(rng, table, network).of(table, 0)


def fill_table(table: Table, cells: Mapping[str, NDArray[Any]]) -> Table:
    """Return a table with these columns, where it has holes there, in place of its own."""
    for name in find_holes(table):
        if name in cells:
            table = table.with_array(name, cells[name])
    return table


def alternate(
    network: Network,
    complete: Callable[[Network], Completed],
    learn: Callable[[Completed], Network],
    until: Callable[[Network], bool],
    task: str = "alternate",
    rounds: int | None = None,
) -> Network:
    """Alternate between completing a table from a network and learning a network from the completed table.

    Parameters
    ----------
    network : Network
        The first one.
    complete : callable
        From a network to a completed table, or to expected statistics.
    learn : callable
        From these to the next network.
    until : callable
        Whether to stop at a network. It is called once for each network, in their order.
    task, rounds : str, int or None
        What progress reports call it, and the number of rounds where that is known.

    Returns
    -------
    Network
        The last one.

    Examples
    --------
    >>> from hybridbn.potentials import Multinomial
    >>> c = Discrete("c", ("a", "b"))
    >>> def bernoulli(p):
    ...     return Network([Multinomial(c, table=[1 - p, p])])
    >>> history = []
    >>> def until(network):
    ...     history.append(float(network.potential("c").table[1]))
    ...     return len(history) > 3
    >>> last = alternate(bernoulli(0.2), lambda net: 3 + net.potential("c").table[1], lambda n: bernoulli(n / 5), until)
    >>> [round(p, 4) for p in history]
    [0.2, 0.64, 0.728, 0.7456]
    """
    with track(task, rounds):
        while not until(network):
            network = learn(complete(network))
            advance()
    return network


@dataclass(frozen=True)
class ObservedNumbers:
    """The observed numbers of a column that a network sees in intervals, sorted.

    Examples
    --------
    >>> numbers = ObservedNumbers(np.array([1.0, 2.0, 4.0]), np.array([3.0]))
    >>> numbers.means(), numbers.draw(np.array([1]), np.array([0.5]))
    (array([1.5, 4. ]), array([4.]))
    """

    values: Values
    cuts: Values

    @property
    def _bounds(self) -> Codes:
        inner = np.searchsorted(self.values, self.cuts, side="left")
        return np.concatenate([[0], inner, [len(self.values)]]).astype(np.intp)

    def draw(self, codes: Codes, level: Values) -> Values:
        """Return one of the numbers in each interval; the nearest one where an interval has none."""
        bounds = self._bounds
        low, count = bounds[codes], np.diff(bounds)[codes]
        # digits of the level that the choice of the interval has not used up
        inside = np.modf(level * 1048573.0)[0]
        places = low + np.floor(inside * count).astype(np.intp)
        return np.asarray(self.values[np.minimum(places, len(self.values) - 1)])

    def means(self) -> Values:
        """Return the mean of the numbers in each interval; the nearest one where an interval has none."""
        bounds = self._bounds
        sums = np.concatenate([[0.0], np.cumsum(self.values)])
        count = np.diff(bounds)
        nearest = self.values[np.minimum(bounds[:-1], len(self.values) - 1)]
        return np.where(count > 0, np.diff(sums[bounds]) / np.maximum(count, 1), nearest)
