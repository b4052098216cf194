"""AdaBoost over any builder by passes over the rows, which are in memory or read by a backend.

What a pass knows of a row is its weight and its outcome: what the last network makes of it, as the margin, or as a sign
that is negative where the network is wrong. Both follow from the steps since the last start, each a network and a
change of the weights, so that whoever reads some rows can compute their weights anew. This is spared by what the last
pass over the same rows noted: in memory, or in a folder where processes of one machine share it.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.estimation.holes import find_holes
from hybridbn.learning.boosting.rounds import (
    FLOOR,
    HALF,
    BoostingRun,
    Exponent,
    Factors,
    MarginSums,
    count_draws,
    draw_bootstrap_weights,
    line_search,
    measure_margins,
    vote_of,
)
from hybridbn.learning.ensemble import ClassScorer
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.structures.building import Learner
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["Judge", "RowArrays", "RowWeights", "Split", "Step", "boost_by_passes", "open_weights", "split_weights"]

_MOST_LOG_ODDS = 690.0
"""Log-odds are clipped to this, which is that of a probability of 1e-300."""
_MOST_TRIES = 100
"""So many bootstrap samples are drawn for one in which each column is observed somewhere."""

Judge: TypeAlias = Callable[[Table], Values]
"""A function from rows to what a network makes of them: margins, or signs, with a sign bit where it is wrong."""


@dataclass(frozen=True)
class NetworkJudge:
    """Tells what a network makes of rows.

    Attributes
    ----------
    network : Network
    target : str
    options : Options
    real : bool
        Return margins, and not signs.
    scorer : ClassScorer, optional
        That of the rows, where these are the same in each round.
    """

    network: Network
    target: str
    options: Options
    real: bool
    scorer: ClassScorer | None = None

    def __call__(self, table: Table) -> Values:
        """Return margins or signs, with a sign bit where the network is wrong."""
        scorer = self.scorer or ClassScorer(self.target, table, self.options)
        log_joint, truth = scorer.log_joint(self.network), table.column(self.target)
        wrong = _classify(log_joint) != truth
        if not self.real:
            return np.where(wrong, -1.0, 1.0)
        odds = np.clip(np.nan_to_num(log_joint[1] - log_joint[0], nan=0.0), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        return np.asarray(np.copysign(odds, np.where(wrong, -1.0, 1.0)))


def _classify(log_joint: Values) -> Codes:
    """Return the most probable class of each row, -1 where the row is impossible."""
    impossible = np.isnan(log_joint[0])
    return np.where(impossible, -1, np.where(impossible, 0.0, log_joint).argmax(axis=0))


# --- the weights of rows ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A network and how the weights change after it.

    Attributes
    ----------
    number : int
        Of all networks that were judged.
    judge : Judge
    change : Factors or Exponent
    share : float
        By which all weights are multiplied in the end, so that their sum stays.
    """

    number: int
    judge: Judge
    change: Factors | Exponent
    share: float = 1.0

    def advance(self, weights: Values, base: Values, outcome: Values) -> Values:
        """Return the next weights, none of which is below the floor."""
        return np.asarray(np.maximum(self.change(weights, outcome), FLOOR * base) * self.share)


class Notes(Protocol):
    """The weights and outcomes that the last pass noted."""

    def load(self, first: int, number: int, rows: int) -> NDArray[Any] | None:
        """Return weights and outcomes (2, rows) of the rows from a place on, with a network; None if not noted."""

    def save(self, first: int, number: int, noted: NDArray[Any]) -> None:
        """Note them, instead of those with the network before."""


class NotesInMemory(Notes):
    """Notes about a table in memory."""

    def __init__(self) -> None:
        self._noted: tuple[int, NDArray[Any]] | None = None

    def load(self, first: int, number: int, rows: int) -> NDArray[Any] | None:
        """Return what was noted."""
        return self._noted[1] if self._noted is not None and self._noted[0] == number else None

    def save(self, first: int, number: int, noted: NDArray[Any]) -> None:
        """Note it."""
        self._noted = number, noted


@dataclass(frozen=True)
class NotesOnDisk(Notes):
    """Notes in a folder, a file for each batch; a process that does not see the folder takes none.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     notes = NotesOnDisk(folder)
    ...     notes.save(0, 1, np.ones((2, 3)))
    ...     print(notes.load(0, 1, 3), notes.load(0, 0, 3))
    [[1. 1. 1.]
     [1. 1. 1.]] None
    """

    folder: str

    def _path(self, first: int, number: int) -> str:
        return os.path.join(self.folder, f"{first}-{number}.npy")

    def load(self, first: int, number: int, rows: int) -> NDArray[Any] | None:
        """Return what was noted; nothing where a file is absent or of other rows."""
        with suppress(OSError, ValueError, EOFError):
            noted: NDArray[Any] = np.load(self._path(first, number), allow_pickle=False)
            return noted if noted.shape == (2, rows) else None
        return None

    def save(self, first: int, number: int, noted: NDArray[Any]) -> None:
        """Note it in a file that appears complete or not at all; without it the weights are computed anew."""
        with suppress(OSError):
            file, unfinished = tempfile.mkstemp(".part", dir=self.folder)
            with os.fdopen(file, "wb") as opened:
                np.save(opened, noted)
            os.replace(unfinished, self._path(first, number))
            os.remove(self._path(first, number - 1))


@lru_cache(maxsize=1)
def _draw_again(generator: bytes, rows: int) -> NDArray[np.uint8]:
    """Return how often each row is drawn by a generator; each process draws once."""
    # of this program's own making
    return count_draws(pickle.loads(generator), rows)


@dataclass(frozen=True)
class Drawn:
    """A bootstrap sample of the rows of a scan, as the generator that draws it.

    Attributes
    ----------
    generator : bytes
    rows : int
    places : mapping from int to int, optional
        The place of a batch among the rows that count, by that of its first row among all.
    """

    generator: bytes
    rows: int
    places: Mapping[int, int] | None

    def __call__(self, table: Table, first: int) -> Values:
        """Return the weights of some rows."""
        if self.places is not None:
            if first not in self.places:
                raise TableError("the rows of the scan come in other batches than before; boost a file of them")
            first = self.places[first]
        return _draw_again(self.generator, self.rows)[first : first + len(table)].astype(float)


@dataclass(frozen=True)
class Given:
    """A bootstrap sample of the rows of a table in memory."""

    weights: Values

    def __call__(self, table: Table, first: int) -> Values:
        """Return the weights of the rows."""
        return self.weights


@dataclass(frozen=True)
class RowArrays:
    """An array of each batch, by the place of its first row."""

    parts: Mapping[int, NDArray[Any]]

    def __add__(self, other: RowArrays) -> RowArrays:
        return RowArrays({**self.parts, **other.parts})

    def join(self) -> NDArray[Any]:
        """Return the arrays in the order of the rows, as one."""
        return np.concatenate([self.parts[first] for first in sorted(self.parts)])


@dataclass(frozen=True)
class RowWeights:
    """The weights of rows, as what they follow from.

    Attributes
    ----------
    notes : Notes
    places : mapping from int to int, optional
        As in `Drawn`.
    start : Drawn or Given, optional
        The bootstrap sample that boosting has started anew from.
    steps : tuple of Step
        The steps since the last start.
    """

    notes: Notes
    places: Mapping[int, int] | None = None
    start: Drawn | Given | None = None
    steps: tuple[Step, ...] = ()

    def __call__(self, table: Table, first: int) -> Values:
        """Return the weights of some rows, given the place of the first of them."""
        base = table.weights
        if self.steps:
            last = self.steps[-1]
            noted = self.notes.load(first, last.number, len(table))
            if noted is not None:
                return last.advance(noted[0], base, noted[1])
        weights = base if self.start is None else self.start(table, first)
        for step in self.steps:
            weights = step.advance(weights, base, step.judge(table))
        return weights

    def note(self, table: Table, first: int, number: int, judge: Judge) -> NDArray[Any]:
        """Return weights and outcomes (2, rows) of some rows with the next network, and note them."""
        noted = self.notes.load(first, number, len(table))
        if noted is None:
            noted = np.stack([self(table, first), judge(table)])
            self.notes.save(first, number, noted)
        return noted

    def add(self, step: Step) -> RowWeights:
        """Return the weights after one more step."""
        return replace(self, steps=(*self.steps, step))

    def scale(self, share: float) -> RowWeights:
        """Return the weights times a number."""
        *earlier, last = self.steps
        return replace(self, steps=(*earlier, replace(last, share=share)))

    def restart(self, table: Table, rng: np.random.Generator) -> RowWeights:
        """Return the weights of a bootstrap sample of the rows."""
        if table.is_scanned:
            start: Drawn | Given = Drawn(pickle.dumps(rng), len(table), self.places)
            count_draws(rng, len(table))  # so that the generator goes on
        else:
            start = Given(_draw_some_of_each_column(table, rng))
        return replace(self, start=start, steps=())

    def find_share(self, table: Table) -> float:
        """Return what brings the sum of weights back to that of the initial ones."""
        return table.total_weight / table.learn(partial(_sum_weights, self))

    def all(self, table: Table) -> Values:
        """Return the weights of all rows."""
        return np.array(table.learn(partial(_list_weights, self)).join())


def _draw_some_of_each_column(table: Table, rng: np.random.Generator) -> Values:
    """Return the weights of a bootstrap sample in which each column is observed somewhere, if such a one is found."""
    observed = ~np.array([*find_holes(table).values()], bool).reshape(-1, len(table))
    for _ in range(_MOST_TRIES):
        weights = draw_bootstrap_weights(rng, len(table), table.weights)
        if (observed @ weights > 0).all():
            break
    return weights


@contextmanager
def open_weights(table: Table, target: Discrete, filtered: bool) -> Iterator[RowWeights]:
    """Open the weights of a table's rows, some of a scan's being left out or not."""
    if not table.is_scanned:
        yield RowWeights(NotesInMemory())
        return
    places = None
    if filtered:
        sizes = table.learn(_list_sizes, [target]).parts
        ends = np.cumsum([int(sizes[first][0]) for first in sorted(sizes)])
        places = dict(zip(sorted(sizes), [0, *ends.tolist()], strict=False))
    with tempfile.TemporaryDirectory(prefix="hybridbn-") as folder:
        yield RowWeights(NotesOnDisk(folder), places)


def _sum_weights(weights: RowWeights, table: Table, first: int) -> float:
    return float(weights(table, first).sum())


def _list_weights(weights: RowWeights, table: Table, first: int) -> RowArrays:
    return RowArrays({first: weights(table, first)})


def _list_sizes(table: Table, first: int) -> RowArrays:
    return RowArrays({first: np.array([len(table)])})


# --- passes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """The weight of the rows that a network gets right and wrong, and their least relative weights."""

    sums: Values
    least: Values

    def __add__(self, other: Split) -> Split:
        return Split(self.sums + other.sums, np.minimum(self.least, other.least))

    def bound_next(self, change: Factors) -> float:
        """Return the least relative weight after a change."""
        return float(min(self.least[0] * change.down, self.least[1] * change.up))


def split_weights(weights: Values, base: Values, outcome: Values) -> Split:
    """Return the weights by what a network makes of the rows.

    Examples
    --------
    >>> split_weights(np.array([1.0, 2.0, 4.0]), np.ones(3), np.array([1.0, -1.0, 1.0]))
    Split(sums=array([5., 2.]), least=array([1., 2.]))
    """
    wrong = np.signbit(outcome)
    halves = [(weights[rows], base[rows]) for rows in (~wrong, wrong)]
    least = [(own / initial).min(initial=np.inf) for own, initial in halves]
    return Split(np.array([own.sum() for own, _ in halves]), np.array(least))


def _split(weights: RowWeights, number: int, judge: Judge, table: Table, first: int) -> Split:
    own, outcome = weights.note(table, first, number, judge)
    return split_weights(own, table.weights, outcome)


def _measure(weights: RowWeights, number: int, judge: Judge, vote: float, table: Table, first: int) -> MarginSums:
    own, outcome = weights.note(table, first, number, judge)
    return measure_margins(own, table.weights, outcome, vote)


def boost_by_passes(
    table: Table,
    target: str,
    learn: Learner,
    weights: RowWeights,
    run: BoostingRun,
    rng: np.random.Generator,
    options: Options,
    real: bool,
) -> None:
    """Run AdaBoost.M1 or Real AdaBoost; `run` gets the networks.

    A round is what the builder needs, and a pass for the outcomes. Real AdaBoost searches for its vote in a few passes
    over what was noted, and both take one more where a weight falls below the floor.
    """
    scorer = None if table.is_scanned else ClassScorer(target, table, options)
    advance = _advance_real if real else _advance_m1
    number = 0
    while run.has_more:
        network = learn(table.weigh_rows(weights))
        judge, number = NetworkJudge(network, target, options, real, scorer), number + 1
        error, vote, following = advance(table, weights, number, judge)
        if vote <= 0:
            run.reject(network, error)
            weights = weights.restart(table, rng)
            continue
        if following is None:
            run.restart()
            following = weights.restart(table, rng)
        weights = following
        run.add(network, error, vote, partial(weights.all, table))


def _advance_m1(table: Table, weights: RowWeights, number: int, judge: Judge) -> tuple[float, float, RowWeights | None]:
    """Return the error, the vote and the next weights, none after a network without errors; votes of 0 don't count."""
    split = table.learn(partial(_split, weights, number, judge))
    right, wrong = map(float, split.sums)
    error = wrong / table.total_weight
    if error >= HALF:
        return error, 0.0, None
    if error == 0:
        return error, vote_of(error), None
    change = Factors.of(error)
    following = weights.add(Step(number, judge, change))
    low = split.bound_next(change) < FLOOR
    share = following.find_share(table) if low else table.total_weight / (wrong * change.up + right * change.down)
    return error, vote_of(error), following.scale(share)


def _advance_real(
    table: Table, weights: RowWeights, number: int, judge: Judge
) -> tuple[float, float, RowWeights | None]:
    """Return what `_advance_m1` does."""
    total = table.total_weight
    vote, sums = line_search(lambda vote: table.learn(partial(_measure, weights, number, judge, vote)))
    error = float(sums.sums[3]) / total
    if vote <= 0 or sums.margins[0] >= 0:
        return error, vote, None
    constant = sums.log_sum(vote) - float(np.log(total))
    following = weights.add(Step(number, judge, Exponent(vote, constant)))
    if sums.bound_weights(vote) - constant < np.log(FLOOR):
        following = following.scale(following.find_share(table))
    return error, vote, following
