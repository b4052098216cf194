"""Held-out predictions: the distribution of residuals, races of candidates, and calibrated intervals.

Residuals are normal, or have heavy tails, in which rows are trusted less. In a race, candidates that are clearly worse
than the best one are dropped. Conformal prediction tells how wide central intervals must be to hold as many held-out
rows as they promise.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.cross_validation import CLEAR, deal_folds, is_clearly_less
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, GaussianPosterior
from hybridbn.jobs import track_items
from hybridbn.network import Network
from hybridbn.options import make_generator
from hybridbn.structures.building import Build, Built
from hybridbn.structures.selective import Loss, crps
from hybridbn.structures.training_data import COARSE, TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Codes, Continuous, Discrete, Values

__all__ = [
    "ENOUGH_ROWS",
    "BuildAndFamily",
    "HeldOutClasses",
    "HeldOutNumbers",
    "Race",
    "ResidualMixture",
    "calibrate_intervals",
    "describe_candidate",
    "fit_residual_mixture",
    "mix_predictions",
    "score_residuals",
    "select_usable",
    "summarize_levels",
    "widen_level",
]

_ROWS = 16384
"""Rows that a step of EM looks at together."""
STEPS = 60
"""EM makes at most this many steps, after which the parameters of so simple a mixture hardly change."""
_STEADY = 1e-3
"""EM ends when the log-likelihood changes by less."""
SHARES = np.array([0.9, 0.1])
SCALES = np.array([0.7, 5.0])
"""EM starts from these components: most residuals are a bit smaller than one variance suggests, some are much larger.
"""
PRIOR_ROWS = 1.0
"""The prior counts as this many rows at the start values, so that no component vanishes."""


class ResidualMixture(NamedTuple):
    """The distribution of residuals: a mixture of normal densities.

    Attributes
    ----------
    shares : ndarray (components,)
    factors : ndarray (components,), ascending
        Factors of the variance of each prediction.
    log_likelihood : float
        Of the held-out rows.
    """

    shares: Values
    factors: Values
    log_likelihood: float

    def weigh_rows(self, residuals: Values, variances: Values) -> Values:
        r"""Return what each row counts in a least squares fit that maximizes the likelihood of this mixture.

        .. math:: w_i = c_1 \sum_k P(k \mid r_i) / c_k

        where :math:`P(k \mid r_i)` is the posterior of a residual's component (iteratively reweighted least squares,
        a form of EM). A row in the tails counts less.

        Examples
        --------
        >>> mixture = ResidualMixture(np.array([0.9, 0.1]), np.array([1.0, 100.0]), 0.0)
        >>> mixture.weigh_rows(np.array([0.0, 30.0]), np.ones(2)).round(2)
        array([0.99, 0.01])
        """
        squares = residuals**2 / variances
        logs = np.log(self.shares) - 0.5 * np.log(self.factors) - 0.5 * squares[:, None] / self.factors
        shares = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(shares @ (self.factors[0] / self.factors) / shares.sum(axis=1))


def score_residuals(
    mixture: ResidualMixture, residuals: Values, variances: Values, rows: NDArray[np.intp], count: int
) -> Values:
    """Return the continuous ranked probability score of held-out rows, NaN where there is no prediction (rows,).

    Parameters
    ----------
    mixture : ResidualMixture
    residuals, variances, rows : as in `fit_residual_mixture`
    count : int
        The number of all rows.

    Examples
    --------
    >>> normal = ResidualMixture(np.ones(1), np.ones(1), 0.0)
    >>> score_residuals(normal, np.zeros(1), np.ones(1), np.array([1]), 2).round(3)
    array([  nan, 0.234])
    """
    scores = np.full(count, np.nan)
    seen, *parts = mix_predictions(mixture, -residuals, variances, rows, SCORED_ROWS)
    scores[seen] = GaussianPosterior.of(Continuous("residual"), *parts).crps(np.zeros(len(seen)))
    return scores


def mix_predictions(
    mixture: ResidualMixture, means: Values, variances: Values, rows: NDArray[np.intp], most: int | None = None
) -> tuple[NDArray[np.intp], Values, Values, Values]:
    """Return the rows that have predictions, and the weights, means and variances (parts, rows) of their mixtures.

    Parameters
    ----------
    mixture : ResidualMixture
    means, variances, rows : ndarray (predictions,)
        As in `fit_residual_mixture`.
    most : int, optional
        Of the rows.

    Examples
    --------
    >>> normal = ResidualMixture(np.ones(1), np.full(1, 0.5), 0.0)
    >>> seen, weights, means, variances = mix_predictions(normal, np.arange(3.0), np.ones(3), np.array([4, 2, 4]))
    >>> seen.tolist(), weights.tolist(), means.tolist()
    ([2, 4], [[1.0, 0.5], [0.0, 0.5]], [[1.0, 0.0], [0.0, 2.0]])
    """
    order = np.argsort(rows, kind="stable")
    numbers = np.bincount(rows)
    seen = np.flatnonzero(numbers)[:most]
    order = order[: int(numbers[seen].sum())]
    places = np.repeat(np.arange(len(seen)), numbers[seen])
    ranks = np.arange(len(order)) - np.repeat(np.cumsum(numbers[seen]) - numbers[seen], numbers[seen])
    shape = (int(numbers[seen].max(initial=1)), len(mixture.shares), len(seen))
    weights, middles, spreads = np.zeros(shape), np.zeros(shape), np.ones(shape)
    weights[ranks, :, places] = mixture.shares / numbers[seen][places, None]
    middles[ranks, :, places] = means[order, None]
    spreads[ranks, :, places] = variances[order, None] * mixture.factors
    flat = (-1, len(seen))
    return seen, weights.reshape(flat), middles.reshape(flat), spreads.reshape(flat)


@dataclass(frozen=True, eq=False)
class HeldOutNumbers:
    """What models predict for the rows of a table that they were not learned from.

    Attributes
    ----------
    variable : Continuous
        The target.
    noise, means, variances, rows : as in `mix_predictions`
    used : ndarray of bool
        Which rows of the table these are: the others had no target, or no weight.
    wide : (float, float, float)
        Share, mean and standard deviation of a density that is mixed with each prediction.
    """

    variable: Continuous
    noise: ResidualMixture
    means: Values
    variances: Values
    rows: NDArray[np.intp]
    used: NDArray[np.bool_]
    wide: tuple[float, float, float]

    def select_rows(self, rows: NDArray[np.intp]) -> GaussianPosterior:
        """Return the densities of the target in some rows of the table, NaN in those without a prediction."""
        places = np.full(int(self.used.sum()), -1)
        chosen = np.flatnonzero(self.used[rows])
        places[(np.cumsum(self.used) - 1)[rows[chosen]]] = chosen
        kept = np.flatnonzero(places[self.rows] >= 0)
        predicted = places[self.rows[kept]]
        seen, weights, means, variances = mix_predictions(self.noise, self.means[kept], self.variances[kept], predicted)
        share, center, deviation = self.wide
        parts = np.full((3, len(weights) + 1, len(rows)), np.nan)
        parts[0, :-1, seen], parts[0, -1, seen] = (1 - share) * weights.T, share
        parts[1, :-1, seen], parts[1, -1, seen] = means.T, center
        parts[2, :-1, seen], parts[2, -1, seen] = variances.T, deviation**2
        return GaussianPosterior(self.variable, parts[0], parts[1], parts[2], False, np.zeros(len(rows)), None)


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
    def of(cls, variable: Discrete, predicted: Values, rows: Codes, count: int) -> Self:
        """Make it of the probabilities of some rows of a table that has this count of rows."""
        probabilities = np.full((count, len(variable)), np.nan)
        probabilities[rows] = predicted
        return cls(variable, probabilities)

    def select_rows(self, rows: NDArray[np.intp]) -> DiscretePosterior:
        """Return the posterior of the class in some rows of the table."""
        return DiscretePosterior(self.variable, self.probabilities[rows].T, False, np.zeros(len(rows)), None)


SCORED_ROWS = 4000
"""Scores of so many rows are enough to compare two models."""


def fit_residual_mixture(
    residuals: Values, variances: Values, rows: NDArray[np.intp], weights: Values
) -> ResidualMixture:
    r"""Fit a mixture of one or, if BIC prefers it, two components to the residuals of held-out rows.

    .. math:: f(y_i) = \frac{1}{|T_i|} \sum_{t \in T_i} \sum_k \pi_k\, N(y_i; m_{ti}, c_k s^2_{ti})

    Parameters
    ----------
    residuals, variances : ndarray (predictions,)
        Of models that were not learned from the row; a row may have several predictions.
    rows : ndarray (predictions,)
        The row of each.
    weights : ndarray (rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> errors = rng.normal(size=2000) * np.where(rng.random(2000) < 0.2, 6.0, 1.0)
    >>> mixture = fit_residual_mixture(errors, np.ones(2000), np.arange(2000), np.ones(2000))
    >>> mixture.shares.round(1), np.sqrt(mixture.factors).round(0)
    (array([0.8, 0.2]), array([1., 6.]))
    """
    order = np.argsort(rows, kind="stable")
    order = order[weights[rows[order]] > 0]
    residuals, variances, rows = residuals[order], variances[order], rows[order]
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    predictions = _HeldOut(residuals**2 / variances, np.log(variances), starts, weights[rows[starts]])
    single = _fit_scales(predictions, np.ones(1), np.ones(1))
    double = _fit_scales(predictions, SHARES, SCALES * single.factors[0])
    # BIC of two more parameters
    price = math.log(max(float(predictions.weights.sum()), 2.0))
    return double if double.log_likelihood - single.log_likelihood > price else single


class _HeldOut(NamedTuple):
    """Squared residuals in units of their variances, the logarithms of these, where each row begins, and its weight."""

    squares: Values
    log_variances: Values
    starts: NDArray[np.intp]
    weights: Values

    def blocks(self) -> Iterator[_HeldOut]:
        """Yield the same for some rows at a time, which bounds the memory of a step."""
        for first in range(0, len(self.starts), _ROWS):
            starts = self.starts[first : first + _ROWS]
            end = self.starts[first + _ROWS] if first + _ROWS < len(self.starts) else len(self.squares)
            part = slice(int(starts[0]), int(end))
            yield _HeldOut(
                self.squares[part], self.log_variances[part], starts - starts[0], self.weights[first : first + _ROWS]
            )


def _fit_scales(predictions: _HeldOut, shares: Values, factors: Values) -> ResidualMixture:
    """Fit a mixture by EM from start values."""
    start_shares, start_factors, likelihood = shares, factors, -math.inf
    for step in range(STEPS):
        before = likelihood
        likelihood, mass, squares = 0.0, np.zeros(len(shares)), np.zeros(len(shares))
        for block in predictions.blocks():
            counts = np.diff(np.append(block.starts, len(block.squares)))
            terms = (np.log(shares) - 0.5 * np.log(factors))[:, None] - 0.5 * block.squares / factors[:, None]
            terms -= 0.5 * (block.log_variances + math.log(2 * math.pi)) + np.repeat(np.log(counts), counts)
            top = np.maximum.reduceat(terms.max(axis=0), block.starts)
            densities = np.exp(terms - np.repeat(top, counts))
            total = np.add.reduceat(densities.sum(axis=0), block.starts)
            likelihood += float(block.weights @ (top + np.log(total)))
            densities *= np.repeat(block.weights / total, counts)
            mass += densities.sum(axis=1)
            squares += densities @ block.squares
        shares = (mass + PRIOR_ROWS * start_shares) / (mass.sum() + PRIOR_ROWS)
        factors = (squares + PRIOR_ROWS * start_factors) / (mass + PRIOR_ROWS)
        if step and abs(likelihood - before) < _STEADY:
            break
    order = np.argsort(factors)
    return ResidualMixture(shares[order], factors[order], likelihood)


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
                self._predict_batch(running, losses, part, test, deadline)
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

    def _predict_batch(
        self,
        running: dict[str, BuildAndFamily],
        losses: dict[str, Values],
        part: int,
        test: NDArray[np.intp],
        deadline: float,
    ) -> None:
        """Fill in the losses on some rows of a fold, and remove candidates that fail or come too late."""
        for name in list(running):
            late = time.monotonic() > deadline and any(np.isfinite(losses[n][test]).all() for n in running)
            try:
                if late and name not in self.built:
                    raise NetworkError(f"the time was over before {name} had been tried")
                losses[name][test] = self._evaluate_losses(name, running[name], part, test)
            except (HybridBNError, MemoryError) as error:
                self.failures.append(error)
                del running[name], losses[name]

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
