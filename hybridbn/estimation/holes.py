"""The holes of a table: where they are, what fills them, and the rounds that alternate between filling and learning.

Random numbers belong to a row: they depend on what the row holds, and not on where it stands or on its mates. A row's
key is a hash of its observed cells; the second, third, ... row with the very same cells gets a key of its own. A number
is then a hash of the key, the seed and the column (a counter-based generator after SplitMix64), so any cell's number
can be had without those before it.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.jobs import advance, track
from hybridbn.network import Network
from hybridbn.tables import Rows, Table
from hybridbn.tables.rows import STEP, mix_bits
from hybridbn.variables import Codes, Discrete, Values

__all__ = [
    "Cells",
    "Keys",
    "Levels",
    "ObservedNumbers",
    "RowLevels",
    "alternate",
    "collect_observed_numbers",
    "count_repeats",
    "draw_levels",
    "draw_uniforms",
    "fill_table",
    "find_holes",
    "hash_cells",
    "hash_identifiers",
    "hash_rows",
    "levels_of",
    "seed_of",
    "tell_apart",
]

Cells: TypeAlias = dict[str, NDArray[Any]]
"""Whole columns, as codes or numbers of the table's own variables."""

Keys: TypeAlias = NDArray[np.uint64]

Levels: TypeAlias = Callable[[int, NDArray[np.intp]], Mapping[str, Values]]
"""From an attempt and row numbers to uniform numbers for each name and row."""

_HOLE = np.uint64(0x5851F42D4C957F2D)

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


# -- random numbers --------------------------------------------------------------------------------------------------


def hash_rows(table: Table) -> Keys:
    """Return a key for each row, made of its observed cells.

    Neither the order of the columns nor other rows matter, except that of rows with the same cells the first,
    second, ... get different keys.

    Examples
    --------
    >>> table = Table({"x": [1.5, None, 2.5, None], "c": ["a", "b", "a", "b"]})
    >>> keys = hash_rows(table)
    >>> bool(keys[2] == hash_rows(table.take([2]))[0]), bool(keys[1] == keys[3])
    (True, False)
    """
    return _make_distinct(hash_cells(table))


def hash_cells(table: Table) -> Keys:
    """Return a hash of each row's observed cells, equal for equal rows."""
    total = np.zeros(len(table), dtype=np.uint64)
    for name in table.names:
        variable, cells = table.variable(name), table.column(name)
        if isinstance(variable, Discrete):
            hashes = np.array(
                [*(_hash_text(f"{type(s).__name__} {s!r}") for s in variable.states), _HOLE], dtype=np.uint64
            )
            bits = hashes[cells]
        else:
            # adding zero makes -0.0 and 0.0 the same
            bits = np.where(np.isnan(cells), _HOLE, (cells + 0.0).view(np.uint64))
        total += mix_bits(bits ^ np.uint64(_hash_text(name)))
    return mix_bits(total)


def hash_identifiers(values: Any, rows: int) -> Keys:
    """Return keys made of the user's identifiers, one a row: whole numbers or text.

    Examples
    --------
    >>> bool((hash_identifiers(np.arange(3), 3) == hash_identifiers([0, 1, 2], 3)).all())
    True
    """
    if isinstance(values, range):
        values = np.array(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.shape == (rows,):
        return _make_distinct(mix_bits(values.astype(np.uint64)))
    try:
        listed: Sequence[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        raise TableError(f"keys must be a sequence with an identifier for each row, not {values!r:.60}") from None
    if len(listed) != rows:
        raise TableError(f"there are {len(listed)} keys for {rows} rows; give one a row")
    array = np.array([_hash_identifier(key) for key in listed], dtype=np.uint64)
    return _make_distinct(mix_bits(array))


def _hash_identifier(key: Any) -> int:
    # whole numbers stand for themselves, so that arrays of them need no loop
    plain = type(key) is int and -(2**63) <= key < 2**63
    return key % 2**64 if plain else _hash_text(f"{type(key).__name__} {key!r}")


def seed_of(random_state: Any) -> int:
    """Return a seed of 64 bits: of an integer always the same, of a Generator the next one, of None any.

    Examples
    --------
    >>> seed_of(0) == seed_of(0), seed_of(0) == seed_of(1)
    (True, False)
    """
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        high = random_state.integers if isinstance(random_state, np.random.Generator) else random_state.randint
        return int(high(0, 2**62))
    try:
        return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    except (TypeError, ValueError):
        raise TableError(
            f"random_state must be a non-negative integer, a Generator or None, not {random_state!r}"
        ) from None


def draw_uniforms(keys: Keys, names: Iterable[str], seed: int, attempt: int = 0) -> Values:
    """Return uniform numbers strictly between 0 and 1 for each name and row: (names, rows).

    Examples
    --------
    >>> keys = hash_identifiers(range(100_000), 100_000)
    >>> levels = draw_uniforms(keys, ["x", "y"], 0)
    >>> levels.shape, bool(abs(levels.mean() - 0.5) < 0.002), bool(abs(np.corrcoef(levels)[0, 1]) < 0.01)
    ((2, 100000), True, True)
    """
    listed = list(names)
    result = np.empty((len(listed), len(keys)))
    for row, name in enumerate(listed):
        salt = np.uint64(_hash_text(f"{seed} {attempt} {name}"))
        bits = mix_bits(mix_bits(keys ^ salt) + STEP)
        # 52 bits and a half, so that neither 0 nor 1 comes out
        result[row] = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return result


def levels_of(keys: Keys, names: Sequence[str], seed: int) -> Levels:
    """Return the numbers of some rows as draws ask for them."""
    return lambda attempt, rows: dict(zip(names, draw_uniforms(keys[rows], names, seed, attempt), strict=True))


def count_repeats(keys: Keys) -> Keys:
    """Return how many equal keys come before each one.

    Examples
    --------
    >>> count_repeats(np.array([7, 5, 7, 7], dtype=np.uint64)).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    first = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(keys) else np.zeros(0, dtype=bool)
    starts = np.flatnonzero(first)
    count = np.zeros(len(keys), dtype=np.uint64)
    if not first.all():
        count[order] = np.arange(len(keys)) - np.repeat(starts, np.diff([*starts, len(keys)]))
    return count


def tell_apart(keys: Keys, counts: Keys) -> Keys:
    """Give rows with the same key different ones; the first one keeps its key, whatever follows."""
    return np.where(counts > 0, mix_bits(keys + counts * STEP), keys)


def _make_distinct(keys: Keys) -> Keys:
    return tell_apart(keys, count_repeats(keys))


def _hash_text(text: str) -> int:
    # of the text itself, as Python's own hash differs from one run to the next
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
