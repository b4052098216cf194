"""Random numbers that belong to a row: they depend on what the row holds, and not on where it stands or on its mates.

A row's key is a hash of its observed cells; the second, third, ... row with the very same cells gets a key of its own.
A number is then a hash of the key, the seed and the column (a counter-based generator after SplitMix64), so any cell's
number can be had without those before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables import Table
from hybridbn.tables.row_numbers import STEP, mix_bits
from hybridbn.variables import Discrete, Values

__all__ = [
    "Keys",
    "Levels",
    "count_repeats",
    "draw_uniforms",
    "hash_cells",
    "hash_identifiers",
    "hash_rows",
    "levels_of",
    "seed_of",
    "tell_apart",
]

Keys: TypeAlias = NDArray[np.uint64]

Levels: TypeAlias = Callable[[int, NDArray[np.intp]], Mapping[str, Values]]
"""From an attempt and row numbers to uniform numbers for each name and row."""

_HOLE = np.uint64(0x5851F42D4C957F2D)


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
