"""AdaBoost.M1 over naive Bayes of discrete columns with a single pass over the data in each round.

A round's pass decides with the present network which rows are wrong and counts, in the present weights, the rows by (value, class,
wrong). As eqs. 2 and 3 of Ting and Zheng multiply the weights of the wrong rows by one number and those of the others by another, the
next round's counts are those two halves times these numbers. The error itself is a margin of the counts.

Columns are put together in groups whose joint codes are made once, in two bytes a row; a network becomes one table of log-odds for each
group, so that both deciding and counting take one look-up in a row and group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.base import refuse_empty
from hybridbn.fitting.counting import Counter, Groups
from hybridbn.fitting.multinomial import MultinomialFitter, MultinomialStatistics
from hybridbn.learning.boosting.rounds import FLOOR, HALF, Record, bootstrapped, vote_of
from hybridbn.network import Network
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["Bits", "Columns", "Floats", "Raised", "State", "boost_counts"]

_CELLS = 2**15
"""Most counts of a group: they stay in the second-level cache."""
_LONGEST_HISTORY = 64
"""Bits a row up to which the history of errors takes less room than the weight itself."""


class Columns:
    """Discrete columns and a target without holes, counted in every round.

    Parameters
    ----------
    counter : Counter
        Of the columns and the target.
    variables : mapping from column to its variable
    target : Discrete

    Attributes
    ----------
    groups : list of tuple of str
        Columns that are counted by their joint configurations, of which there are few.
    """

    def __init__(self, counter: Counter, variables: Mapping[str, Discrete], target: Discrete) -> None:
        self.variables, self.target, self.counter = variables, target, counter.persist()
        self.groups: list[tuple[str, ...]] = []
        most = max(_CELLS // (2 * len(target)), 1)
        group: list[str] = []
        cells = 1
        for name, variable in variables.items():
            if group and cells * (len(variable) + 1) > most:
                self.groups.append(tuple(group))
                group, cells = [], 1
            group.append(name)
            cells *= self._shape((name,))[0]
        self.groups.append(tuple(group))
        self._shapes = [self._shape(names) for names in self.groups]

    def _shape(self, names: tuple[str, ...]) -> tuple[int, ...]:
        return self.counter.shape(names, holes=True)

    def count(self, state: State, tables: Sequence[Values] | None) -> list[Values]:
        """Pass over the data: decide which rows are wrong, tell the state, and count.

        Returns
        -------
        list of ndarray (classes, 2, cells)
            For each group the weight by class, whether the network is wrong, and joint code; never wrong without tables.
        """

        def assign(part: Any, codes: Sequence[Codes], read: Sequence[Codes]) -> tuple[Codes, Values]:
            y, weights = read[0], state.weights(part)
            key = 2 * y
            if tables is not None:
                wrong = _decided(tables, codes) != y
                state.note(part, wrong)
                key += wrong
            return key, weights

        classes = len(self.target)
        counts = self.counter.by_group(Groups(2 * classes, assign, (self.target.name,)), self.groups)
        return [table.reshape(classes, 2, -1) for table in counts]

    def add(self, counts: Sequence[Values], rows: NDArray[np.intp], weights: Values) -> None:
        """Add some rows with weights of their own to counts (classes, cells), in place."""

        def assign(part: Any, codes: Sequence[Codes], read: Sequence[Codes]) -> tuple[Codes, Values]:
            return read[0], weights[part]

        groups = Groups(len(self.target), assign, (self.target.name,), rows)
        for total, added in zip(counts, self.counter.by_group(groups, self.groups), strict=True):
            total += added

    def learned(
        self, counts: Sequence[Values], fitters: Mapping[str, MultinomialFitter]
    ) -> tuple[Learned, list[Values]]:
        """Return the tables of probabilities of counts (classes, cells) by group, and for each group its tables of log probabilities.

        The latter are (classes, cells), or (1, cells) with the log-odds of the second of two classes.
        """
        classes, target = len(self.target), self.target.name
        prior = fitters[target].tables(counts[0].sum(axis=1)[None])[0]
        found, tables = {target: prior}, []
        with np.errstate(divide="ignore"):
            start = np.log(prior)[:, None]
            for group, shape, table in zip(self.groups, self._shapes, counts, strict=True):
                logs = start
                for name, margin in zip(group, _margins(table, shape), strict=True):
                    states, size = len(self.variables[name]), margin.shape[1]
                    own = margin[:, :states]
                    if not own.any():
                        refuse_empty(_statistics(self.variables[name], self.target, own))
                    found[name] = fitters[name].tables(own[None])[0]
                    terms = np.log(found[name])
                    if states < size:
                        # the state of a missing cell, which comes last, adds nothing
                        terms = np.hstack([terms, np.zeros((classes, 1))])
                    logs = (logs[:, :, None] + terms[:, None, :]).reshape(classes, -1)
                tables.append(logs)
                start = np.zeros((classes, 1))
        return Learned(self.target, self.variables, found), _odds(tables) if classes == 2 else tables


def _statistics(child: Discrete, parent: Discrete, counts: Values) -> MultinomialStatistics:
    return MultinomialStatistics(child=child, parents=(parent,), total=float(counts.sum()), counts=counts)


@dataclass(frozen=True)
class Learned:
    """Naive Bayes as tables, and as a network when it is called."""

    target: Discrete
    variables: Mapping[str, Discrete]
    tables: Mapping[str, Values]

    def __call__(self) -> Network:
        """Return the network."""
        prior = Multinomial(self.target, table=self.tables[self.target.name])
        attributes = self.variables.items()
        return Network(
            [prior, *(Multinomial(variable, (self.target,), table=self.tables[name]) for name, variable in attributes)]
        )


def _margins(counts: Values, sizes: Sequence[int]) -> list[Values]:
    """Return the counts (classes, size) of each column of a group from those of its joint codes (classes, cells).

    Examples
    --------
    >>> [margin.tolist() for margin in _margins(np.array([[1.0, 2.0, 3.0, 4.0]]), (2, 2))]
    [[[3.0, 7.0]], [[4.0, 6.0]]]
    """
    found = []
    if len(sizes) == 1:
        return [counts]
    for size in reversed(sizes):
        # products with ones are the fastest sums over short axes
        cube = counts.reshape(len(counts), -1, size)
        found.append(np.ones(cube.shape[1]) @ cube)
        counts = cube @ np.ones(size)
    return found[::-1]


def _odds(tables: list[Values]) -> list[Values]:
    """Return log-odds of two classes, unless a probability of zero makes them meaningless."""
    if not all(np.isfinite(table).all() for table in tables):
        return tables
    return [table[1:] - table[:1] for table in tables]


def _decided(tables: Sequence[Values], codes: Sequence[Codes]) -> Codes:
    """Return the class of the highest score of each row, the first of several; -1 where all are impossible."""
    totals = []
    for places in range(len(tables[0])):
        total = tables[0][places].take(codes[0])
        for table, code in zip(tables[1:], codes[1:], strict=True):
            total += table[places].take(code)
        totals.append(total)
    if len(totals) == 1:
        return np.asarray(totals[0] > 0, dtype=np.intp)
    stacked = np.array(totals)
    return np.asarray(np.where(np.isneginf(stacked).all(axis=0), -1, stacked.argmax(axis=0)), dtype=np.intp)


def boost_counts(
    columns: Columns,
    rows: int,
    fitters: Mapping[str, MultinomialFitter],
    base: Values | None,
    record: Record,
    rng: np.random.Generator,
) -> None:
    """Run AdaBoost.M1; `record` gets the networks.

    Parameters
    ----------
    columns : Columns
    rows : int
    fitters : mapping from the target and each column to its fitter
    base : ndarray (rows,), optional
        What the rows count by themselves; one each without it.
    record : Record
    rng : Generator
    """
    total = float(rows) if base is None else float(base.sum())
    state: State = (
        Bits(rows, base, record.rounds)
        if record.rounds <= _LONGEST_HISTORY
        else Floats(np.ones(rows) if base is None else base.copy(), base)
    )
    counts = [table.sum(axis=1) for table in columns.count(state, None)]
    while record.more:
        network, tables = columns.learned(counts, fitters)
        split = columns.count(state, tables)
        error = float(split[0][:, 1].sum()) / total
        if HALF > error > 0:
            up, down = 1 / (2 * error), 1 / (2 * (1 - error))
            counts = [table[:, 1] * up + table[:, 0] * down for table in split]
            if state.least * down < state.floor:
                # a floor makes some weights larger than the two numbers say
                state = state.as_floats()
                state.advance(up, down, partial(columns.add, counts))
                share = total / float(counts[0].sum())
                counts = [table * share for table in counts]
                state.scale(share)
            else:
                state.advance(up, down)
            record.add(network, error, vote_of(error), state.all)
            continue
        if error:
            record.reject(network, error)
        else:
            record.restart()
        del state  # before there is another one, so that memory holds one at a time
        state = Floats(bootstrapped(rng, rows, base), base)
        if not error:
            record.add(network, error, vote_of(error), state.all)
        if record.more:
            counts = [table.sum(axis=1) for table in columns.count(state, None)]


_WORD = 16
_ROWS = 32768

Raised: TypeAlias = Callable[[NDArray[np.intp], Values], None]
"""Is told some rows and what the floor adds to their weights."""


class State(Protocol):
    """What a pass over the data needs to know of the rows, and tells about them."""

    least: float
    """No row weighs less than this, in units of what it counts by itself."""
    floor: float
    """Weights below it are raised to it, in the same units."""

    def weights(self, part: slice) -> Values:
        """Return the weights of a block of rows; not to be written to."""

    def note(self, part: slice, wrong: NDArray[np.bool_]) -> None:
        """Keep in mind which rows of a block are wrong."""

    def advance(self, up: float, down: float, raised: Raised | None = None) -> None:
        """Multiply the weights of wrong rows by one number and the others by another; tell what the floor adds to which rows."""

    def scale(self, share: float) -> None:
        """Multiply all weights."""

    def as_floats(self) -> Floats:
        """Return the state with weights as numbers."""

    def all(self) -> Values:
        """Return all weights."""


class Floats:
    """Weights as numbers; the sign of a number tells whether its row is wrong.

    Examples
    --------
    >>> state = Floats(np.ones(3), None)
    >>> state.note(slice(0, 3), np.array([True, False, False]))
    >>> state.advance(1.5, 0.75)
    >>> state.all()
    array([1.5 , 0.75, 0.75])
    """

    floor = FLOOR

    def __init__(self, numbers: Values, base: Values | None) -> None:
        self._numbers, self._base = numbers, base
        own = numbers if base is None else numbers / base
        self.least = float(own.min())

    def weights(self, part: slice) -> Values:
        """Return the weights of a block of rows."""
        return np.abs(self._numbers[part])

    def note(self, part: slice, wrong: NDArray[np.bool_]) -> None:
        """Keep in mind which rows of a block are wrong."""
        np.copysign(self._numbers[part], np.where(wrong, -1.0, 1.0), out=self._numbers[part])

    def advance(self, up: float, down: float, raised: Raised | None = None) -> None:
        """Multiply the weights; tell what the floor adds to which rows, block by block."""
        least = np.inf
        floored = self.least * down < self.floor
        for start in range(0, len(self._numbers), _ROWS):
            block = self._numbers[start : start + _ROWS]
            block *= np.where(np.signbit(block), -up, down)
            base = 1.0 if self._base is None else self._base[start : start + _ROWS]
            if floored:
                lowest = np.broadcast_to(self.floor * base, block.shape)
                low = np.flatnonzero(block < lowest)
                if raised is not None and low.size:
                    raised(low + start, lowest[low] - block[low])
                block[low] = lowest[low]
            least = min(least, float((block / base).min()))
        self.least = least

    def scale(self, share: float) -> None:
        """Multiply all weights."""
        self._numbers *= share
        self.least *= share

    def as_floats(self) -> Floats:
        """Return the state itself."""
        return self

    def all(self) -> Values:
        """Return all weights."""
        return np.abs(self._numbers)


class Bits:
    """Weights as histories of errors.

    Parameters
    ----------
    rows : int
    base : ndarray (rows,), optional
        What the rows count by themselves.
    rounds : int
        Most rounds that there will be.

    Examples
    --------
    >>> state = Bits(3, None, 10)
    >>> state.note(slice(0, 3), np.array([True, False, False]))
    >>> state.advance(1.5, 0.75)
    >>> state.all(), state.nbytes
    (array([1.5 , 0.75, 0.75]), 6)
    """

    floor = FLOOR

    def __init__(self, rows: int, base: Values | None, rounds: int) -> None:
        self._rows, self._base = rows, base
        self.least = 1.0
        sizes = [min(_WORD, rounds - start) for start in range(0, rounds, _WORD)]
        self._words: list[NDArray[Any]] = [np.zeros(rows, np.uint16 if size > 8 else np.uint8) for size in sizes]
        self._factors: list[Values] = [np.ones(1)]
        self._bit = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the histories."""
        return sum(word.nbytes for word in self._words)

    def weights(self, part: slice) -> Values:
        """Return the weights of a block of rows."""
        start, stop, _ = part.indices(self._rows)
        found = np.ones(stop - start) if self._base is None else self._base[part].copy()
        for word, factors in zip(self._words, self._factors, strict=False):
            # the bits of the round under way are not in the table yet
            found *= factors.take(word[part], mode="wrap")
        return found

    def note(self, part: slice, wrong: NDArray[np.bool_]) -> None:
        """Keep in mind which rows of a block are wrong."""
        word = self._words[len(self._factors) - 1]
        word[part] |= wrong.astype(word.dtype) << self._bit

    def advance(self, up: float, down: float, raised: Raised | None = None) -> None:
        """Multiply the weights; there is no floor here."""
        last = self._factors[-1]
        self._factors[-1] = np.concatenate([last * down, last * up])
        self.least *= down
        self._bit += 1
        if self._bit == _WORD and len(self._factors) < len(self._words):
            self._factors.append(np.ones(1))
            self._bit = 0

    def scale(self, share: float) -> None:
        """Multiply all weights."""
        self._factors[0] = self._factors[0] * share
        self.least *= share

    def as_floats(self) -> Floats:
        """Return the state with weights as numbers, the rows noted as wrong included."""
        numbers = np.empty(self._rows)
        word, bit = self._words[len(self._factors) - 1], self._bit
        for start in range(0, self._rows, _ROWS):
            part = slice(start, start + _ROWS)
            wrong = (word[part] >> bit) & 1
            numbers[part] = np.where(wrong, -self.weights(part), self.weights(part))
        state = Floats(np.abs(numbers), self._base)
        state.note(slice(None), np.signbit(numbers))
        return state

    def all(self) -> Values:
        """Return all weights."""
        return self.weights(slice(None))
