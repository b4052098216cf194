"""A builder that compares several builders and families by cross-validation and uses the one that predicts best.

Candidates race: those that are clearly worse than the best one are dropped. Conformal prediction tells how wide central
intervals must be to hold as many held-out rows as they promise.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import CLEAR, is_clearly_less
from hybridbn.jobs import track_items
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_count, make_generator
from hybridbn.structures.building import Build, Built, builder
from hybridbn.structures.discriminant import discriminant, logistic
from hybridbn.structures.heldout import Loss, crps, log_loss
from hybridbn.structures.model_tree import model_tree
from hybridbn.structures.naive_bayes import naive_bayes, selective_naive_bayes, tan
from hybridbn.structures.nb_tree import nb_tree
from hybridbn.structures.random_forest import random_forest
from hybridbn.structures.regression import regression
from hybridbn.structures.training_data import COARSE, TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Values

Candidate: TypeAlias = tuple[Any, Any]
"""A builder, or anything else that `build=` takes, and the potentials that are passed to it."""

MOST_ROWS = 4000
"""Candidates are compared on at most this many rows, which are enough to tell relevant differences."""
TREES = 50
"""Number of trees of the largest default candidate for a number."""


@builder(hidden=(Discrete, Continuous))
def automatic(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    candidates: Sequence[Any] | None = None,
    loss: Loss | None = None,
    folds: int = 5,
    effort: int = 1,
    seconds: float | None = None,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    """Build with the builder and family that predict the target best in a cross-validation inside the data.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
        With "auto" families are chosen, too; otherwise only builders, unless a candidate has potentials of its own.
    candidates : sequence of builders, or of pairs (builder, potentials), optional
        In order of preference, see the notes; a name, a Network or a list of arcs is accepted, too. The default for a
        discrete target: logistic regression, a random forest and discriminant analysis as networks, naive Bayes of
        tables and of kernels, and TAN of tables, as far as the columns allow. The default for a number: fifty model
        trees in one network, and a linear regression.
    loss : callable, optional
        `log_loss` for a discrete target, `crps` for a continuous one (or `squared_error`), or any function of
        (posterior, truth) that returns a number for each row.
    folds : int
    effort : int
        With 2 more candidates are tried for a discrete target: naive Bayes, TAN, selective naive Bayes and naive Bayes
        trees, with every family. The result depends on it, but not on how fast the machine is.
    seconds : float, optional
        No further candidate or fold is tried once these are over; there is a result in any case, which then depends on
        the machine.
    random_state : int, Generator or None
        Assigns the rows to folds.

    Returns
    -------
    Network
        Built from all rows. Its ``graph["chosen"]`` names the candidate, and ``graph["losses"]`` has the losses of all.
        For a number ``graph["calibration"]`` tells how wide the central intervals of held-out rows had to be, see
        `calibrate_intervals`.

    Notes
    -----
    For a discrete target the candidate of least loss is chosen. Scores of few rows are noisy, so that for a
    number the first candidate is chosen that is within one standard error of the difference from the best.

    At most 4,000 rows are compared. A candidate that can't be built from the data, or queried within the memory, is
    skipped. A candidate that is worse than the best by more than two standard errors after a hundred rows or some folds
    is not tried on the others, nor is the worse half once sixty rows have been predicted (racing with successive
    halving). When one candidate is left, the comparison ends. Builders that predict held-out rows themselves, such as
    random forests, regressions and model trees, are not built anew for each fold.

    To weigh several networks in the place of choosing one, see `hybridbn.stack`; it predicts classes better.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> net = automatic({"x": x, "copy": x + 0.1 * rng.normal(size=200), "y": x + rng.normal(size=200)}, "y")
    >>> net.graph["chosen"], len(net.graph["losses"])
    ('model_tree trees=50, gaussian', 2)
    """
    comparison = compare_candidates(
        data,
        target,
        potentials,
        weights,
        candidates=candidates,
        loss=loss,
        folds=folds,
        effort=effort,
        seconds=seconds,
        random_state=random_state,
        **columns,
    )
    return comparison.learn_best()


def compare_candidates(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    candidates: Sequence[Any] | None = None,
    loss: Loss | None = None,
    folds: int = 5,
    effort: int = 1,
    seconds: float | None = None,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Race:
    """Compare candidates as `automatic` does, unless there are too few rows, or one candidate only.

    Examples
    --------
    >>> data = {"x": [0.0, 1.0, 2.0, 3.0] * 5, "c": ["a", "a", "b", "b"] * 5}
    >>> compared = compare_candidates(data, "c", candidates=["naive_bayes", "logistic"])
    >>> sorted(compared.losses)
    ['logistic, auto', 'naive_bayes, auto']
    """
    folds, effort = check_count(folds, "folds", 2, NetworkError), check_count(effort, "effort", 1, NetworkError)
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise NetworkError(f"seconds must be a positive number or None, not {seconds!r}")
    training_data = read_data_with_target(data, target, potentials, weights, "automatically chosen networks", **columns)
    discrete = isinstance(training_data.variable(target), Discrete)
    if candidates is None:
        list_candidates = _list_class_candidates if discrete else _list_number_candidates
        candidates = list_candidates(training_data, potentials, effort)
    listed = [_read_candidate(candidate, potentials) for candidate in candidates]
    # losses are known by these names
    distinct = {
        f"{build}, {family if isinstance(family, str) else getattr(family, 'name', 'mixed')}": (build, family)
        for build, family in listed
    }
    if not distinct:
        raise NetworkError("candidates must hold a builder at least")
    loss = loss or (log_loss if discrete else crps)
    training_data, dealt = training_data.deal(folds, make_generator(random_state), labeled=False)
    labeled = training_data.find_labeled()
    if len(labeled) < 2 * folds or len(distinct) < 2:
        return Race(training_data, target, loss, labeled[:0], labeled[:0], candidates=distinct)
    rows = labeled[:MOST_ROWS]
    race = Race(training_data, target, loss, rows, dealt.parts[rows], np.inf if seconds is None else seconds, distinct)
    race.run()
    if not race.losses:
        raise race.failures[0]
    return race


def _list_class_candidates(data: TrainingData, potentials: Any, effort: int) -> list[Candidate]:
    """Return the default candidates for a discrete target.

    Those that predict held-out rows themselves come first: they take the least time, and the others are measured by
    them.
    """
    numbers = [name for name in data.attributes if not isinstance(data.variable(name), Discrete)]
    if not data.attributes:
        return [(naive_bayes, potentials)]
    chosen = not (isinstance(potentials, str) and potentials == "auto")
    several = len(data.attributes) > 1
    if chosen:
        slow = [selective_naive_bayes if potentials == "kernel" else tan, nb_tree] if several else []
        return [(function, potentials) for function in (random_forest, logistic, naive_bayes, *slow)]
    tables = "multinomial" if numbers else "auto"
    candidates: list[tuple[Any, Candidate]] = [
        (True, (partial(logistic, correlated=True) if len(numbers) > 1 else logistic, "auto")),
        (True, (random_forest, "gaussian")),
        (numbers, (discriminant, "auto")),
        (True, (naive_bayes, tables)),
        (several, (tan, tables)),
        (numbers, (naive_bayes, "kernel")),
    ]
    for family in (["mte", "kernel", "gaussian", "multinomial"] if numbers else ["auto"]) if effort > 1 else []:
        candidates += [
            (True, (naive_bayes, family)),
            (
                several and not (family == "gaussian" and _is_costly(data)),
                (selective_naive_bayes if family == "kernel" else tan, family),
            ),
            (family not in ("mte", "kernel"), (nb_tree, family)),
        ]
    return [candidate for is_tried, candidate in candidates if is_tried]


def _list_number_candidates(data: TrainingData, potentials: Any, effort: int) -> list[Candidate]:
    """Return the default candidates for a number.

    These predict with tails as heavy as those of held-out residuals, which naive Bayes does not.
    """
    family = "gaussian" if isinstance(potentials, str) and potentials == "auto" else potentials
    if not data.attributes:
        return [(naive_bayes, potentials)]
    return [(partial(model_tree, trees=TREES), family), (regression, family)]


def _is_costly(data: TrainingData) -> bool:
    """Return whether queries of TAN with normal densities are slow: categories may be children of missing numbers."""
    kinds = {name: isinstance(data.variable(name), Discrete) for name in data.attributes}
    return any(kinds.values()) and any(data.rows.missing[name] for name, discrete in kinds.items() if not discrete)


def _read_candidate(candidate: Any, potentials: Any) -> BuildAndFamily:
    # a list of two arcs may be a tuple, too, but then its items are tuples
    if isinstance(candidate, tuple) and len(candidate) == 2 and not isinstance(candidate[0], tuple | list):
        candidate, potentials = candidate
    return Build.of(candidate, "a candidate"), potentials


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
"""The most quantile levels that are kept of held-out rows."""


@dataclass(eq=False)
class Race:
    """A cross-validation that drops candidates as soon as they are clearly worse than the best one (racing).

    Builders that predict held-out rows themselves learn once, from all rows; the others learn from all folds but one.

    Attributes
    ----------
    seconds : float
        No candidate is tried any more after so many seconds, except the first one.
    candidates : dict of str to builder and potentials
        By name, in order of preference.
    losses : dict of str to float
        The mean losses; that of a dropped candidate is estimated from its difference to the best one so far.
    failures : list of Exception
        Why candidates took no part.
    told : dict of str to ndarray
        What candidates tell of held-out rows: the probabilities of the classes (rows, classes), or of the least central
        intervals that hold the true numbers (rows,); NaN where a candidate has not been tried.
    near : list of str
        The names of the candidates that count as equally good as the best, in order of preference.
    built : dict of str to Built
        What builders with held-out predictions of their own have learned, from all rows.
    """

    data: TrainingData
    target: str
    loss: Loss
    rows: Any
    parts: Any
    seconds: float = np.inf
    candidates: dict[str, BuildAndFamily] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    told: dict[str, Values] = field(default_factory=dict)
    near: list[str] = field(default_factory=list)
    built: dict[str, Built] = field(default_factory=dict)
    _networks: dict[str, tuple[int, Network]] = field(default_factory=dict)
    _finalists: list[str] = field(default_factory=list)

    @property
    def weights(self) -> Values:
        """Those of the rows."""
        return np.asarray(self.data.table.weights[self.rows])

    def run(self) -> None:
        """Compare the candidates; there are no losses if all of them fail."""
        if all(build.declaration.held_out is not None for build, _ in self.candidates.values()):
            # all predict all rows at no further cost, and are compared by all of them
            self.parts = np.zeros(len(self.rows), dtype=np.intp)
        losses = {name: np.full(len(self.rows), np.nan) for name in self.candidates}
        running = list(self.candidates)
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
                    running.remove(name)
            if len(running) < 2:
                # more folds would not change the choice
                break
        if not running:
            return
        self._finalists = running
        means = {name: self._mean(losses[name], seen) for name in running}
        best = min(means, key=means.__getitem__)
        self.near = [name for name in running if not self._is_less(losses[best], losses[name], seen, NEAR)]
        for name, own in losses.items():
            if name not in running:
                means[name] = means[best] + self._mean(own - losses[best], np.isfinite(own))
        self.losses = {name: means[name] for name in losses}

    def learn(self, name: str) -> Network:
        """Return the network of a candidate, learned from all rows."""
        build, family = self.candidates[name]
        built = self.built.get(name) or build.learn_held_out(self.data.rows, self.target, family)
        network = built.network
        network.graph["chosen"] = name
        network.graph["losses"] = self.losses
        if self.losses and not self._is_class():
            network.graph["calibration"] = summarize_levels(*self.hold_out(name, ENOUGH_ROWS))
        return network

    def learn_best(self) -> Network:
        """Return the network of the best candidate that can be built from all rows."""
        preferred = [] if self._is_class() else self.near[:1]
        failures = self.failures.copy()
        for name in sorted(self.candidates, key=lambda name: (name not in preferred, self.losses.get(name, np.inf))):
            try:
                return self.learn(name)
            except HybridBNError as error:
                failures.append(error)
        raise failures[0]

    def _is_class(self) -> bool:
        return isinstance(self.data.variable(self.target), Discrete)

    def _predict_batch(
        self,
        running: list[str],
        losses: dict[str, Values],
        part: int,
        test: NDArray[np.intp],
        deadline: float,
    ) -> None:
        """Fill in the losses on some rows of a fold, and remove candidates that fail or come too late."""
        for name in running.copy():
            late = time.monotonic() > deadline and any(np.isfinite(losses[n][test]).all() for n in running)
            try:
                if late and name not in self.built:
                    raise NetworkError(f"the time was over before {name} had been tried")
                losses[name][test] = self._evaluate_losses(name, part, test)
            except (HybridBNError, MemoryError) as error:
                self.failures.append(error)
                running.remove(name)
                del losses[name]

    def list_predictions(self) -> dict[str, Values]:
        """Return the probabilities (rows, classes) of held-out rows, of the candidates that were in the race to its end
        and of those that predict held-out rows themselves.
        """
        known = [name for name, built in self.built.items() if built.held_out is not None]
        predictions = {name: self._predict_all(name) for name in dict.fromkeys([*known, *self._finalists])}
        return {name: told for name, told in predictions.items() if np.isfinite(told).all()}

    def hold_out(self, name: str, least: int) -> tuple[Values, Values]:
        """Return the probabilities of the least central intervals that hold the true numbers of held-out rows, and the
        weights of these rows.

        Folds follow each other until so many rows have been held out.
        """
        levels = self._predict_all(name, least)
        known = np.isfinite(levels)
        return levels[known], self.weights[known]

    def _predict_all(self, name: str, most: float = np.inf) -> Values:
        """Return what a candidate tells of the rows of all folds, or until it is so many; those of the race are not
        learned again.
        """
        told = self._find_told(name)
        for part in range(int(self.parts.max()) + 1):
            test = np.flatnonzero(self.parts == part)
            if np.count_nonzero(np.isfinite(told)) >= most:
                break
            if not np.isfinite(told[test]).all():
                self._keep(name, self._predict(name, part, test), test)
        return told

    def _find_told(self, name: str) -> Values:
        sizes = [self.data.states(self.target)] if self._is_class() else []
        return self.told.setdefault(name, np.full((len(self.rows), *sizes), np.nan))

    def _keep(self, name: str, posterior: Any, test: NDArray[np.intp]) -> None:
        """Keep what a candidate tells of some rows."""
        told = posterior.probabilities if self._is_class() else posterior.central_level(self._find_truth(test))
        self._find_told(name)[test] = told

    def _find_truth(self, test: NDArray[np.intp]) -> Any:
        return self.data.codes(self.target)[self.rows[test]]

    def _list_batches(self, part: int) -> list[tuple[NDArray[np.intp], bool]]:
        """Return the rows of a fold in the batches after which candidates are dropped, and whether the worse half
        is.
        """
        test = np.flatnonzero(self.parts == part)
        if part or len(test) == len(self.rows) or len(test) < 2 * FIRST_ROWS:
            return [(test, True)]
        return [(test[:FIRST_ROWS], False), (test[FIRST_ROWS:], True)]

    def _predict(self, name: str, part: int, test: NDArray[np.intp]) -> Any:
        """Return the posterior of some rows of a fold, by what was learned without each of them."""
        build, family = self.candidates[name]
        with warnings.catch_warnings(action="ignore"):  # the final network repeats the warnings of the folds
            if build.declaration.held_out is not None:
                if name not in self.built:
                    # from all rows, so that nothing has to be learned again
                    self.built[name] = build.learn_held_out(self.data.rows, self.target, family)
                held_out = self.built[name].held_out
                if held_out is not None:
                    return held_out(self.rows[test])
            if self._networks.get(name, (None,))[0] != part:
                training, kept = select_usable(self.data.table.take(self.rows[self.parts != part]), self.target, build)
                self._networks[name] = part, kept.learn(training, self.target, family)
            network, table = self._networks[name][1], self.data.table.take(self.rows[test])
            evidence = table.select([name for name in table.names if name in network])
            return network.posterior(self.target, evidence, options=COARSE)

    def _evaluate_losses(self, name: str, part: int, test: NDArray[np.intp]) -> Values:
        """Return the losses on some of the rows of a fold, and keep what the candidate tells of them."""
        posterior = self._predict(name, part, test)
        losses = self.loss(posterior, self._find_truth(test))
        self._keep(name, posterior, test)
        # a row of probability zero counts as much as the worst of the others
        return np.where(np.isfinite(losses), losses, np.max(losses[np.isfinite(losses)], initial=0.0))

    def _find_dropouts(self, losses: dict[str, Values], rows: NDArray[np.bool_], halve: bool) -> list[str]:
        """Return the candidates that are clearly worse than the best, and with enough rows all of the worse half."""
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
    read, dealt = read.deal(FOLDS, make_generator(random_state), labeled=False)
    rows = read.find_labeled()
    if len(rows) < 2 * FOLDS:
        return []
    race = Race(read, target, crps, rows, dealt.parts[rows], candidates={"calibrated": (Build.of(build), potentials)})
    try:
        return summarize_levels(*race.hold_out("calibrated", ENOUGH_ROWS))
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
