"""Racing: a cross-validation of candidates that drops those that are clearly worse than the best one."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.progress_reports import track_items
from hybridbn.structures.building import Build
from hybridbn.structures.selective import Loss
from hybridbn.structures.training_data import TrainingData
from hybridbn.tables import Table
from hybridbn.variables import Discrete, Values

__all__ = ["BuildAndFamily", "Race", "describe_candidate", "list_usable"]

BuildAndFamily: TypeAlias = tuple[Build, Any]
"""A builder and the potentials that are passed to it."""

_OPTIONS = Options(tolerance=1e-6, impossible="nan")
"""Posteriors in a cross-validation need no higher precision, because the noise of the sample is far greater."""
CLEAR = 2.0
"""A candidate that is worse than the best by this many standard errors of the difference is not tried on further folds.
"""
NEAR = 1.0
"""A candidate within this many standard errors of the best counts as equally good."""
FINALISTS = 2
"""Successive halving keeps at least this many candidates."""
LEAST_ROWS_TO_HALVE = 60
"""Once this many rows have been predicted, the worse half of the candidates is dropped after each fold."""
FIRST_ROWS = 100
"""Candidates first predict this many rows of the first fold, so that slow ones that are clearly worse cost little."""


class Race:
    """A cross-validation that drops candidates as soon as they are clearly worse than the best one (racing).

    Attributes
    ----------
    failures : list of Exception
        Why candidates took no part.
    near : list of str
        The names of the candidates that count as equally good as the best, in order of preference.
    networks : dict of str to Network
        Those that builders with held-out predictions of their own have learned, from all rows.
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
        """The probabilities of the least central intervals that hold the true numbers of held-out rows; NaN where a
        candidate has not been tried.
        """
        self.near: list[str] = []
        self.networks: dict[str, Network] = {}
        self._told: dict[str, Values] = {}
        self._densities: dict[str, ContinuousPosterior] = {}
        self._predicted: dict[str, Values] = {}
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
            networks: dict[str, Network] = {}
            for test, halve in self._list_batches(part):
                seen[test] = True
                for name in list(running):
                    late = time.monotonic() > deadline and any(np.isfinite(losses[n][test]).all() for n in running)
                    try:
                        if late and name not in self.networks:
                            raise NetworkError(f"the time was over before {name} had been tried")
                        posterior = self._predict_held_out(name, running[name], test)
                        if posterior is None:
                            network = networks.get(name) or self._learn(*running[name], part)
                            networks[name] = network
                            posterior = self._ask(network, test)
                        losses[name][test] = self._evaluate_losses(name, posterior, test)
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
        self.near = [name for name in running if not self._is_behind(losses[name] - losses[best], seen, NEAR)]
        for name, own in losses.items():
            if name not in running:
                means[name] = means[best] + self._mean(own - losses[best], np.isfinite(own))
        return {name: means[name] for name in losses}

    def list_predictions(self) -> dict[str, Values]:
        """Return the probabilities (rows, classes) of held-out rows, of the candidates that were in the race to its end
        and of those that predict held-out rows themselves.
        """
        predictions = dict(self._told)
        for name, candidate in self._finalists.items():
            if name in predictions:
                continue
            told = predictions[name] = self._predicted[name].copy()
            for part in np.unique(self.parts[np.isnan(told[:, 0])]):
                test = np.flatnonzero(self.parts == part)
                told[test] = self._ask(self._learn(*candidate, part), test).probabilities
        return {name: told for name, told in predictions.items() if np.isfinite(told).all()}

    def _list_batches(self, part: int) -> list[tuple[NDArray[np.intp], bool]]:
        """Return the rows of a fold in the batches after which candidates are dropped, and whether the worse half
        is.
        """
        test = np.flatnonzero(self.parts == part)
        if part or len(test) == len(self.rows) or len(test) < 2 * FIRST_ROWS:
            return [(test, True)]
        return [(test[:FIRST_ROWS], False), (test[FIRST_ROWS:], True)]

    def _learn(self, build: Build, family: Any, part: int) -> Network:
        """Return the network learned from all folds but one."""
        training = self.data.table.take(self.rows[self.parts != part])
        columns = list_usable(training, self.target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final network repeats the warnings of the folds
            build = build.drop([name for name in training.names if name not in columns])
            return build.learn(training.select(columns), self.target, family)

    def _predict_held_out(self, name: str, candidate: BuildAndFamily, test: NDArray[np.intp]) -> Any:
        """Return the posterior of some rows where the builder predicts each row without it, else None."""
        build, family = candidate
        variable = self.data.variable(self.target)
        if build.declaration.held_out is None:
            return None
        if name not in self.networks:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # from all rows, so that nothing has to be learned again
                learned = build.learn_held_out(self.data.table, self.target, family)
            assert learned is not None
            self.networks[name], told = learned
            if isinstance(variable, Discrete):
                self._told[name] = told[self.rows]
            else:
                self._densities[name] = told.select_rows(self.rows)
        if isinstance(variable, Discrete):
            return DiscretePosterior(variable, self._told[name][test].T, False, np.zeros(len(test)), None)
        return self._densities[name].select_rows(test)

    def _ask(self, network: Network, test: NDArray[np.intp]) -> Any:
        """Return the posterior of some rows."""
        table = self.data.table.take(self.rows[test])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evidence = table.select([name for name in table.names if name in network])
            return network.posterior(self.target, evidence, options=_OPTIONS)

    def hold_out(self, candidate: BuildAndFamily, least: int) -> tuple[Values, Values]:
        """Return the probabilities of the least central intervals that hold the true numbers of held-out rows, and the
        weights of these rows.

        Folds follow each other until so many rows have been held out. Those of the race are not learned again.
        """
        name = describe_candidate(*candidate)
        for part in range(int(self.parts.max()) + 1):
            test = np.flatnonzero(self.parts == part)
            levels = self.levels.get(name, np.full(len(self.rows), np.nan))
            if np.count_nonzero(np.isfinite(levels)) >= least:
                break
            if not np.isfinite(levels[test]).all():
                posterior = self._predict_held_out(name, candidate, test)
                self._keep_levels(name, posterior or self._ask(self._learn(*candidate, part), test), test)
        levels = self.levels.get(name, np.full(len(self.rows), np.nan))
        known = np.isfinite(levels)
        return levels[known], self.weights[known]

    def _evaluate_losses(self, name: str, posterior: Any, test: NDArray[np.intp]) -> Values:
        """Return the losses on some of the rows, and keep the probabilities of classes."""
        losses = self.loss(posterior, self.data.codes(self.target)[self.rows[test]])
        if isinstance(posterior, DiscretePosterior):
            told = posterior.probabilities
            kept = self._predicted.setdefault(name, np.full((len(self.rows), told.shape[1]), np.nan))
            kept[test] = told
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
            if rank >= count or self._is_behind(losses[name] - losses[ranked[0]], rows, CLEAR)
        ]

    def _is_behind(self, difference: Values, rows: NDArray[np.bool_], errors: float) -> bool:
        """Return whether the mean of differences is above zero by more than some standard errors."""
        shares, values = self.weights[rows] / self.weights[rows].sum(), difference[rows]
        mean = float(shares @ values)
        return mean > errors * float(np.sqrt(shares**2 @ (values - mean) ** 2))

    def _mean(self, values: Values, rows: NDArray[np.bool_]) -> float:
        return float(self.weights[rows] @ values[rows] / self.weights[rows].sum())


def list_usable(table: Table, target: str) -> list[str]:
    """Return the target and the columns with two numbers, or a state that occurs twice; builders may refuse others.

    Examples
    --------
    >>> table = Table({"x": [1.0, 1.0, 2.0], "same": [5.0, 5.0, 5.0], "id": ["a", "b", "c"], "y": ["no", "no", "yes"]})
    >>> list_usable(table, "y")
    ['x', 'y']
    """
    return [name for name in table.names if name == target or _is_usable(table, name)]


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
