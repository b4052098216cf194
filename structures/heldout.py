"""Held-out predictions: what builders tell, races of candidates by them, and intervals that are calibrated with them.

In a race, those that are clearly worse than the best one are dropped. Conformal prediction tells how wide central
intervals must be to hold as many held-out rows as they promise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.arguments import make_generator
from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.cross_validation import CLEAR, deal_folds, is_clearly_less
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.network import Network
from hybridbn.progress_reports import track_items
from hybridbn.structures.building import Build, Built
from hybridbn.structures.selective import Loss, crps
from hybridbn.structures.training_data import COARSE, TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = [
    "ENOUGH_ROWS",
    "BuildAndFamily",
    "HeldOutClasses",
    "Race",
    "calibrate_intervals",
    "describe_candidate",
    "select_usable",
    "summarize_levels",
    "widen_level",
]

BuildAndFamily: TypeAlias = tuple[Build, Any]
"""A builder and the potentials that are passed to it."""

NEAR = 1.0
"""A candidate within this many standard errors of the best counts as equally good."""
FINALISTS = 2
"""Successive halving keeps at least this many candidates."""
LEAST_ROWS_TO_HALVE = 60
"""Once this many rows have been predicted, the worse half of the candidates is dropped after each fold."""
FIRST_ROWS = 100
"""Candidates first predict this many rows of the first fold, so that slow ones that are clearly worse cost little."""

FOLDS = 5
ENOUGH_ROWS = 500
"""No more rows are held out than it takes to know the share of rows in an interval within one or two percent."""
MOST_LEVELS = 200
"""Of what is kept about held-out rows."""


@dataclass(frozen=True, eq=False)
class HeldOutClasses:
    """The probabilities of the classes of rows, by networks that were learned without them.

    Attributes
    ----------
    variable : Discrete
        The target.
    probabilities : ndarray (rows, classes)
        NaN in rows without a prediction.
    """

    variable: Discrete
    probabilities: Values

    @classmethod
    def of(cls, variable: Discrete, told: Values, rows: Codes, count: int) -> Self:
        """Make it of the probabilities of some rows of a table with so many rows."""
        probabilities = np.full((count, len(variable)), np.nan)
        probabilities[rows] = told
        return cls(variable, probabilities)

    def select_rows(self, rows: NDArray[np.intp]) -> DiscretePosterior:
        """Return the posterior of the class in some rows of the table."""
        return DiscretePosterior(self.variable, self.probabilities[rows].T, False, np.zeros(len(rows)), None)


class Race:
    """A cross-validation that drops candidates as soon as they are clearly worse than the best one (racing).

    Builders that predict held-out rows themselves learn once, from all rows; the others learn from all folds but one.

    Attributes
    ----------
    failures : list of Exception
        Why candidates took no part.
    levels : dict of str to ndarray
        The probabilities of the least central intervals that hold the true numbers of held-out rows; NaN where a
        candidate has not been tried.
    near : list of str
        The names of the candidates that count as equally good as the best, in order of preference.
    built : dict of str to Built
        What builders with held-out predictions of their own have learned, from all rows.
    seconds : float
        No candidate is tried any more after so many seconds, except the first one.
    """

    data: TrainingData
    target: str
    loss: Loss
    rows: Any
    parts: Any
    weights: Values

    def __init__(
        self, data: TrainingData, target: str, loss: Loss, rows: Any, parts: Any, seconds: float = np.inf
    ) -> None:
        self.data, self.target, self.loss, self.rows, self.parts = data, target, loss, rows, parts
        self.seconds = seconds
        self.weights = data.table.weights[rows]
        self.failures: list[Exception] = []
        self.levels: dict[str, Values] = {}
        self.near: list[str] = []
        self.built: dict[str, Built] = {}
        self._shares: dict[str, Values] = {}
        self._networks: dict[str, tuple[int, Network]] = {}
        self._finalists: dict[str, BuildAndFamily] = {}

    def run(self, candidates: Sequence[BuildAndFamily]) -> dict[str, float]:
        """Return the mean losses; that of a dropped candidate is estimated from its difference to the best one so
        far.
        """
        if all(build.declaration.held_out is not None for build, _ in candidates):
            # all predict all rows at no further cost, and are compared by all of them
            self.parts = np.zeros(len(self.rows), dtype=np.intp)
        losses = {describe_candidate(*candidate): np.full(len(self.rows), np.nan) for candidate in candidates}
        running = dict(zip(losses, candidates, strict=True))
        seen = np.zeros(len(self.rows), dtype=bool)
        folds = int(self.parts.max()) + 1
        deadline = time.monotonic() + self.seconds
        for part in track_items(range(folds), "automatic", folds):
            if part and time.monotonic() > deadline:
                break
            for test, halve in self._list_batches(part):
                seen[test] = True
                for name in list(running):
                    late = time.monotonic() > deadline and any(np.isfinite(losses[n][test]).all() for n in running)
                    try:
                        if late and name not in self.built:
                            raise NetworkError(f"the time was over before {name} had been tried")
                        losses[name][test] = self._evaluate_losses(name, running[name], part, test)
                    except (HybridBNError, MemoryError) as error:
                        self.failures.append(error)
                        del running[name], losses[name]
                for name in self._find_dropouts({name: losses[name] for name in running}, seen, halve):
                    del running[name]
            if len(running) < 2:
                # more folds would not change the choice
                break
        if not running:
            return {}
        self._finalists = running
        means = {name: self._mean(losses[name], seen) for name in running}
        best = min(means, key=means.__getitem__)
        self.near = [name for name in running if not self._is_less(losses[best], losses[name], seen, NEAR)]
        for name, own in losses.items():
            if name not in running:
                means[name] = means[best] + self._mean(own - losses[best], np.isfinite(own))
        return {name: means[name] for name in losses}

    def list_predictions(self) -> dict[str, Values]:
        """Return the probabilities (rows, classes) of held-out rows, of the candidates that were in the race to its end
        and of those that predict held-out rows themselves.
        """
        predictions = {
            name: built.held_out.select_rows(self.rows).probabilities
            for name, built in self.built.items()
            if built.held_out is not None
        }
        for name, candidate in self._finalists.items():
            if name in predictions:
                continue
            told = predictions[name] = self._shares[name].copy()
            for part in np.unique(self.parts[np.isnan(told[:, 0])]):
                test = np.flatnonzero(self.parts == part)
                told[test] = self._predict(name, candidate, part, test).probabilities
        return {name: told for name, told in predictions.items() if np.isfinite(told).all()}

    def hold_out(self, candidate: BuildAndFamily, least: int) -> tuple[Values, Values]:
        """Return the probabilities of the least central intervals that hold the true numbers of held-out rows, and the
        weights of these rows.

        Folds follow each other until so many rows have been held out. Those of the race are not learned again.
        """
        name = describe_candidate(*candidate)
        levels = self.levels.setdefault(name, np.full(len(self.rows), np.nan))
        for part in range(int(self.parts.max()) + 1):
            test = np.flatnonzero(self.parts == part)
            if np.count_nonzero(np.isfinite(levels)) >= least:
                break
            if not np.isfinite(levels[test]).all():
                self._keep_levels(name, self._predict(name, candidate, part, test), test)
        known = np.isfinite(levels)
        return levels[known], self.weights[known]

    def _list_batches(self, part: int) -> list[tuple[NDArray[np.intp], bool]]:
        """Return the rows of a fold in the batches after which candidates are dropped, and whether the worse half
        is.
        """
        test = np.flatnonzero(self.parts == part)
        if part or len(test) == len(self.rows) or len(test) < 2 * FIRST_ROWS:
            return [(test, True)]
        return [(test[:FIRST_ROWS], False), (test[FIRST_ROWS:], True)]

    def _predict(self, name: str, candidate: BuildAndFamily, part: int, test: NDArray[np.intp]) -> Any:
        """Return the posterior of some rows of a fold, by what was learned without each of them."""
        build, family = candidate
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final network repeats the warnings of the folds
            if build.declaration.held_out is not None:
                if name not in self.built:
                    # from all rows, so that nothing has to be learned again
                    self.built[name] = build.learn_held_out(self.data.rows, self.target, family)
                held_out = self.built[name].held_out
                if held_out is not None:
                    return held_out.select_rows(self.rows[test])
            if self._networks.get(name, (None,))[0] != part:
                training, kept = select_usable(self.data.table.take(self.rows[self.parts != part]), self.target, build)
                self._networks[name] = part, kept.learn(training, self.target, family)
            network, table = self._networks[name][1], self.data.table.take(self.rows[test])
            evidence = table.select([name for name in table.names if name in network])
            return network.posterior(self.target, evidence, options=COARSE)

    def _evaluate_losses(self, name: str, candidate: BuildAndFamily, part: int, test: NDArray[np.intp]) -> Values:
        """Return the losses on some of the rows of a fold, and keep the probabilities of classes."""
        posterior = self._predict(name, candidate, part, test)
        losses = self.loss(posterior, self.data.codes(self.target)[self.rows[test]])
        if isinstance(posterior, DiscretePosterior):
            told = posterior.probabilities
            self._shares.setdefault(name, np.full((len(self.rows), told.shape[1]), np.nan))[test] = told
        elif isinstance(posterior, ContinuousPosterior):
            self._keep_levels(name, posterior, test)
        # a row of probability zero counts as much as the worst of the others
        return np.where(np.isfinite(losses), losses, np.max(losses[np.isfinite(losses)], initial=0.0))

    def _keep_levels(self, name: str, posterior: ContinuousPosterior, test: NDArray[np.intp]) -> None:
        levels = self.levels.setdefault(name, np.full(len(self.rows), np.nan))
        levels[test] = posterior.central_level(self.data.codes(self.target)[self.rows[test]])

    def _find_dropouts(self, losses: dict[str, Values], rows: NDArray[np.bool_], halve: bool) -> list[str]:
        """Return the candidates that are clearly worse than the best, and with enough rows all of the worse half."""
        if not losses:
            return []
        means = {name: self._mean(own, rows) for name, own in losses.items()}
        ranked = sorted(means, key=means.__getitem__)
        halve = halve and int(np.count_nonzero(rows)) >= LEAST_ROWS_TO_HALVE
        count = max(FINALISTS, -(-len(ranked) // 2)) if halve else len(ranked)
        return [
            name
            for rank, name in enumerate(ranked)
            if rank >= count or self._is_less(losses[ranked[0]], losses[name], rows, CLEAR)
        ]

    def _is_less(self, first: Values, second: Values, rows: NDArray[np.bool_], errors: float) -> bool:
        return is_clearly_less(first[rows], second[rows], self.weights[rows], errors)

    def _mean(self, values: Values, rows: NDArray[np.bool_]) -> float:
        return float(self.weights[rows] @ values[rows] / self.weights[rows].sum())


def select_usable(training: Table, target: str, build: Build) -> tuple[Table, Build]:
    """Return rows of a fold without the columns that builders may refuse in them, and the argument without these.

    Kept are the target and the columns with two numbers, or with a state that occurs twice.

    Examples
    --------
    >>> table = Table({"x": [1.0, 1.0, 2.0], "same": [5.0, 5.0, 5.0], "id": ["a", "b", "c"], "y": ["no", "no", "yes"]})
    >>> select_usable(table, "y", Build.of("naive_bayes"))[0].names
    ('x', 'y')
    """
    kept = [name for name in training.names if name == target or _is_usable(training, name)]
    return training.select(kept), build.drop([name for name in training.names if name not in kept])


def _is_usable(table: Table, name: str) -> bool:
    """Return whether a column has two numbers, or a state that occurs twice; builders may refuse other columns."""
    column = table.column(name)
    if table.is_discrete(name):
        return bool(np.bincount(column[column >= 0]).max(initial=0) > 1)
    observed = column[~np.isnan(column)]
    return len(observed) > 0 and bool((observed != observed[0]).any())


def describe_candidate(build: Build, family: Any) -> str:
    """Return the name of a candidate, by which its losses are known."""
    return f"{build}, {family if isinstance(family, str) else getattr(family, 'name', 'mixed')}"


def calibrate_intervals(
    build: Any, data: Any, target: str, potentials: Any = "auto", weights: Any = None, random_state: Any = 0
) -> list[float]:
    """Return how wide the central intervals of held-out rows had to be to hold the true number (cross-conformal).

    Networks are learned without some of the rows: in five folds, or in fewer where these have hundreds of rows.
    Regressions and model trees tell themselves what they predict for rows that they have not seen.

    Parameters
    ----------
    build : anything that ``build=`` takes
    data, target, potentials, weights : as in `hybridbn.structures.naive_bayes`
        The target is a number.
    random_state : int, Generator or None

    Returns
    -------
    list of float
        Probabilities of the least central intervals that hold the true numbers, ascending. Where intervals hold what
        they promise these are uniform. Empty if there are too few rows, or if the network can't be learned from fewer.

    References
    ----------
    Chernozhukov, Wuthrich & Zhu (2021), "Distributional conformal prediction"; Vovk (2015), "Cross-conformal
    predictors".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=60)
    >>> levels = calibrate_intervals("regression", {"x": x, "y": x + rng.normal(size=60)}, "y")
    >>> len(levels), 0.85 < widen_level(levels, 0.9) < 0.99
    (60, True)
    """
    read = read_data_with_target(data, target, potentials, weights)
    cells, rng = read.codes(target), make_generator(random_state)
    labeled = read.find_labeled()
    if len(labeled) < 2 * FOLDS:
        return []
    rows = rng.permutation(labeled)
    race = Race(read, target, crps, rows, deal_folds(len(rows), FOLDS, rng, cells[rows]))
    try:
        return summarize_levels(*race.hold_out((Build.of(build), potentials), ENOUGH_ROWS))
    except HybridBNError:
        # fewer rows may lack what a structure or a family needs
        return []


def summarize_levels(levels: Values, weights: Values) -> list[float]:
    """Return the probabilities of central intervals in ascending order; some quantiles of many.

    Examples
    --------
    >>> summarize_levels(np.array([0.5, 0.0, 0.9]), np.ones(3))
    [0.0, 0.5, 0.9]
    """
    order = np.argsort(levels)
    central, shares = levels[order], np.cumsum(weights[order])
    if len(central) > MOST_LEVELS or np.ptp(weights):
        # the places of quantiles among as many rows as there are levels
        count = min(len(central), MOST_LEVELS)
        places = np.arange(1, count + 1) / (count + 1) * (shares[-1] + shares[-1] / len(central))
        central = np.interp(places, shares, central)
    return [round(float(level), 12) for level in central]


def widen_level(levels: Sequence[float] | ArrayLike, level: float) -> float:
    """Return which probability central intervals need by the network, so that this share of new rows is inside.

    The rank of a new row among the held-out ones is uniform; between ranks the level is interpolated. A level beyond
    that of the last of n ranks, n / (n + 1), stays at least what it is.

    Examples
    --------
    >>> widen_level([0.1, 0.5, 0.8, 0.99], 0.6)
    0.8
    >>> widen_level([], 0.9), widen_level([0.1, 0.2], 0.9)
    (0.9, 0.9)
    """
    known = np.asarray(levels, dtype=np.float64)
    place = level * (len(known) + 1)
    if not len(known):
        return level
    if place > len(known):
        return max(level, float(known[-1]))
    return float(np.interp(place, np.arange(len(known) + 1), np.append(0.0, known)))
