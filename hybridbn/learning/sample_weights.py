"""The weights of the rows while they are boosted: what they follow from, and how a pass over the rows finds them.

The weights follow from the steps since the last start, each the margins of a network and a change of the weights, so
that whoever reads some rows can compute their weights anew. This is spared by what the last pass noted of the same
rows: with them where they stay in memory, else in a folder that processes of one machine share.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.fitting.cross_validation import collapse_rows, draw_bootstrap
from hybridbn.tables import Rows, Table
from hybridbn.variables import Values, find_observed

FLOOR = 1e-8
"""The least weight of a row, as a multiple of its initial weight (Ting and Zheng, section 2)."""
_BLOCK = 2**16
"""A bootstrap sample is drawn in blocks of this many rows, to save memory."""
Margins: TypeAlias = Callable[[Table], Values]
"""A function from rows to the margins of a network, or their signs; the sign bit tells that the network is wrong."""
_NOTED = "weights and margins of boosted rows"
_MOST_TRIES = 100
"""The most bootstrap samples that are drawn in search of one in which each column is observed somewhere."""
_RARELY_OBSERVED = 50
"""A bootstrap sample of rows of equal weight has some of so many rows, but for one in 1e21."""


@dataclass(frozen=True)
class Factors:
    r"""How weights change in AdaBoost.M1: eqs. 2 and 3 of Ting and Zheng (2003).

    .. math:: w_{t+1} = w_t / (2 \epsilon) \text{ where wrong, else } w_t / (2 (1 - \epsilon))

    Examples
    --------
    >>> Factors.of(0.25)(np.ones(4), np.array([-1.0, 1.0, 1.0, 1.0]))
    array([2.        , 0.66666667, 0.66666667, 0.66666667])
    """

    up: float
    down: float

    @classmethod
    def of(cls, error: float) -> Factors:
        """Return the factors that the share of the weight that a network gets wrong leads to."""
        return cls(1 / (2 * error), 1 / (2 * (1 - error)))

    def __call__(self, weights: Values, outcome: Values) -> Values:
        """Return the next weights, given numbers with a sign bit where the network is wrong."""
        return np.asarray(weights * np.where(np.signbit(outcome), self.up, self.down))


@dataclass(frozen=True)
class Exponent:
    r"""How weights change in Real AdaBoost: :math:`w_{t+1} = w_t e^{-\alpha_t y h_t / 2 - c}`.

    Examples
    --------
    >>> Exponent(np.log(3), np.log(3) / 2)(np.ones(2), np.array([-1.0, 1.0])).round(3)
    array([1.   , 0.333])
    """

    vote: float
    constant: float

    def __call__(self, weights: Values, outcome: Values) -> Values:
        """Return the next weights, given the margins."""
        # more than this have rows without weight only
        return np.asarray(weights * np.exp(np.minimum(-self.vote / 2 * outcome - self.constant, 700.0)))


def initial_weights(batch: Table) -> Values:
    """Return the initial weights of some rows, in no memory where each is one."""
    return batch.weights if batch.weighted else np.broadcast_to(1.0, len(batch))


@dataclass(frozen=True)
class Step:
    """How the weights change after a network.

    Attributes
    ----------
    number : int
        Of all networks whose margins were computed.
    margins : Margins
    change : Factors or Exponent
    share : float
        By which all weights are multiplied in the end, so that their sum stays.
    floored : bool
        Whether weights may fall below the floor, and are raised to it.
    noted : bool
        Whether what is noted with its number are the weights after it, up to the share.
    """

    number: int
    margins: Margins
    change: Factors | Exponent
    share: float = 1.0
    floored: bool = True
    noted: bool = False

    def resume(self, weights: Values, margins: Values, initial: Values | float) -> Values:
        """Return the next weights, given what is noted."""
        return self.share * weights if self.noted else self.advance(weights, margins, initial)

    def advance(self, weights: Values, margins: Values, initial: Values | float) -> Values:
        """Return the next weights, none of which is below the floor."""
        following = self.change(weights, margins)
        if self.floored:
            np.maximum(following, FLOOR * initial, out=following)
        if self.share != 1.0:
            following *= self.share
        return following


def count_draws(seed: int, rows: int) -> NDArray[np.uint8]:
    """Return how often each row is drawn in a bootstrap sample of rows of equal weight, in a byte a row."""
    counts, rng = np.zeros(rows, np.uint8), np.random.default_rng(seed)
    for start in range(0, rows, _BLOCK):
        np.add.at(counts, rng.integers(0, rows, min(_BLOCK, rows - start)), np.uint8(1))
    return counts


@dataclass(frozen=True, eq=False)
class BootstrapSample:
    """A bootstrap sample of the rows.

    Attributes
    ----------
    drawn : ndarray
        The weights of the rows: of too many for memory, how often each is drawn, in a byte.
    places : mapping from int to int, optional
        The place of a batch among the rows that count, by that of its first row among all.
    seed : int, optional
        Of what drew how often each row is drawn.
    """

    drawn: NDArray[Any]
    places: Mapping[int, int] | None
    seed: int | None = None

    @classmethod
    def draw(cls, rng: np.random.Generator, rows: Rows, places: Mapping[int, int] | None) -> BootstrapSample:
        """Return a sample of the rows; equal ones share what is drawn of them, unless they are too many for memory."""
        known = rows.sample()
        if len(known) == len(rows):
            distinct = known.keep(collapse_rows, lambda: collapse_rows(known))
            counts = draw_bootstrap(distinct.weights, rng)
            shares = counts * (distinct.weights.sum() / counts.sum()) / distinct.weights
            return cls(known.weights * shares[distinct.groups], places)
        seed = int(rng.integers(2**63))
        return cls(count_draws(seed, len(rows)), places, seed)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.seed is None:
            return BootstrapSample, (self.drawn, self.places)
        # another process draws it, once, which takes less than to send it
        places = None if self.places is None else tuple(self.places.items())
        return _draw_again, (self.seed, len(self.drawn), places)

    def weigh(self, batch: Table, first: int) -> Values:
        """Return the weights of some rows."""
        if self.places is not None:
            if first not in self.places:
                raise TableError("the rows of the scan come in other batches than before; boost a file of them")
            first = self.places[first]
        return self.drawn[first : first + len(batch)].astype(float)

    def sum_observed(self, names: tuple[str, ...], batch: Table, first: int) -> Values:
        """Return the weight of the rows in which each of some columns is observed."""
        weights = self.weigh(batch, first)
        return np.array([weights @ find_observed(batch.column(name)) for name in names])


@lru_cache(maxsize=1)
def _draw_again(seed: int, rows: int, places: tuple[tuple[int, int], ...] | None) -> BootstrapSample:
    return BootstrapSample(count_draws(seed, rows), None if places is None else dict(places), seed)


@dataclass(frozen=True)
class SampleWeights:
    """The weights of rows, as what they follow from.

    Attributes
    ----------
    folder : str or None
        Where notes are kept of rows that do not remember them.
    filtered : bool
        Whether the rows are some of those whose places batches tell.
    rare : tuple of str
        Columns of which a bootstrap sample may have no observed cell.
    start : BootstrapSample, optional
        That boosting has started anew from.
    steps : tuple of Step
        The steps since the last start.
    """

    folder: str | None
    filtered: bool = False
    rare: tuple[str, ...] = ()
    start: BootstrapSample | None = None
    steps: tuple[Step, ...] = ()

    @classmethod
    def of(cls, rows: Rows, folder: str | None, filtered: bool) -> SampleWeights:
        """Return the weights of rows before the first round."""
        missing = {name: rows.count_missing(name) for name in rows.names}
        most = 0 if rows.weighted else len(rows) - _RARELY_OBSERVED
        return cls(folder, filtered, tuple(name for name in missing if missing[name] > max(most, 0)))

    def __call__(self, batch: Table, first: int) -> Values:
        """Return the weights of some rows, given the place of the first of them."""
        noted, step = self.resume(batch, first)
        return noted[0] if step is None else step.resume(np.abs(noted[0]), noted[-1], initial_weights(batch))

    def resume(self, batch: Table, first: int) -> tuple[NDArray[Any], Step | None]:
        """Return what was noted of some rows with the last network, and the step that follows; their weights, and None,
        where nothing was.
        """
        if self.steps:
            noted = self.recall(batch, first, self.steps[-1].number)
            if noted is not None:
                return noted, self.steps[-1]
        initial = initial_weights(batch)
        weights = np.array(initial) if self.start is None else self.start.weigh(batch, first)
        for step in self.steps:
            weights = step.advance(weights, step.margins(batch), initial)
        return weights[None], None

    # -- notes ----------------------------------------------------------------------------------------------------

    def recall(self, batch: Table, first: int, number: int) -> NDArray[Any] | None:
        """Return what was noted of some rows with a network: weights and margins, or weights with the sign bits of
        margins; None where nothing was.
        """
        known, noted = batch.remembered.get(_NOTED, (None, None))
        if known == number or self.folder is None:
            return noted if known == number else None
        with suppress(OSError, ValueError, EOFError):
            noted = np.load(self._path(first, number), allow_pickle=False)
            return noted if noted.shape[1] == len(batch) else None
        return None

    def note(self, batch: Table, first: int, number: int, noted: NDArray[Any]) -> None:
        """Note it in place of what was noted with the network before; in a folder, in a file that appears complete or
        not at all.
        """
        batch.remembered[_NOTED] = number, noted
        if self.folder is None:
            return
        with suppress(OSError):
            file, unfinished = tempfile.mkstemp(".part", dir=self.folder)
            with os.fdopen(file, "wb") as opened:
                np.save(opened, noted)
            os.replace(unfinished, self._path(first, number))
            os.remove(self._path(first, number - 1))

    def _path(self, first: int, number: int) -> str:
        return os.path.join(self.folder or "", f"{first}-{number}.npy")

    def judge(self, batch: Table, first: int, number: int, margins: Margins) -> NDArray[Any]:
        """Return the weights of some rows and their margins with the next network (2, rows), and note them."""
        noted = self.recall(batch, first, number)
        if noted is None:
            noted = np.stack([self(batch, first), margins(batch)])
            self.note(batch, first, number, noted)
        return noted

    # -- what follows ---------------------------------------------------------------------------------------------

    def add(self, step: Step) -> SampleWeights:
        """Return the weights after one more step."""
        return replace(self, steps=(*self.steps, step))

    def scale(self, share: float) -> SampleWeights:
        """Return the weights times a number."""
        *earlier, last = self.steps
        return replace(self, steps=(*earlier, replace(last, share=share)))

    def restart(self, rows: Rows, rng: np.random.Generator) -> SampleWeights:
        """Return the weights of a bootstrap sample, one in which each column is observed somewhere if such is drawn."""
        rows.remembered.pop(_NOTED, None)
        places = _find_places(rows) if self.filtered else None
        for _ in range(_MOST_TRIES):
            start = BootstrapSample.draw(rng, rows, places)
            if not self.rare or (rows.learn(partial(start.sum_observed, self.rare)) > 0).all():
                break
        return replace(self, start=start, steps=())

    def find_share(self, rows: Rows) -> float:
        """Return what brings the sum of weights back to that of the initial ones."""
        return rows.total_weight / rows.learn(partial(_sum_weights, self))

    def list_all(self, rows: Rows) -> Values:
        """Return the weights of all rows."""
        return np.concatenate(list(rows.answer(self)))


def _sum_weights(weights: SampleWeights, batch: Table, first: int) -> float:
    return float(weights(batch, first).sum())


def _find_places(rows: Rows) -> dict[int, int]:
    """Return the place of each batch among the rows, by that which it tells of its first row."""
    parts = list(rows.answer(_tell_place))
    starts = itertools.accumulate((size for _, size in parts), initial=0)
    return {first: start for (first, _), start in zip(parts, starts, strict=False)}


def _tell_place(batch: Table, first: int) -> tuple[int, int]:
    return first, len(batch)
