"""A builder that compares several builders and families by cross-validation and uses the one that predicts best."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.arguments import make_generator
from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.progress_reports import track_items
from hybridbn.structures.building import Build, builder
from hybridbn.structures.model_tree import model_tree
from hybridbn.structures.naive_bayes import naive_bayes
from hybridbn.structures.nb_tree import nb_tree
from hybridbn.structures.regression import regression
from hybridbn.structures.selective import Loss, assign_folds, log_loss, selective_naive_bayes, squared_error
from hybridbn.structures.tan import tan
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["Candidate", "automatic"]

Candidate: TypeAlias = tuple[Any, Any]
"""A builder, or anything else that `build=` takes, and the potentials that are passed to it."""

_BuildAndFamily: TypeAlias = tuple[Build, Any]

MOST_ROWS = 4000
"""Candidates are compared on at most this many rows, which are enough to tell relevant differences."""
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
TREES = 20
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
    random_state: Any = 0,
) -> Network:
    """Build with the builder and family that predict the target best in a cross-validation inside the data.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
        With "auto" families are chosen, too; otherwise only builders, unless a candidate has potentials of its own.
    candidates : sequence of builders, or of pairs (builder, potentials), optional
        In order of preference, see the notes; a name, a Network or a list of arcs is accepted, too. The default for a
        discrete target: naive Bayes, TAN, selective naive Bayes and naive Bayes trees with mixtures of truncated
        exponentials, kernels, normal densities and tables, as far as the columns allow. The default for a number:
        twenty model trees in one network, a single one, a linear regression, naive Bayes with these families and TAN
        with normal densities.
    loss : callable, optional
        `log_loss` for a discrete target, `squared_error` for a continuous one, or any function of (posterior, truth)
        that returns a number for each row.
    folds : int
    random_state : int, Generator or None
        Assigns the rows to folds.

    Returns
    -------
    Network
        Built from all rows. Its ``graph["chosen"]`` names the candidate, and ``graph["losses"]`` has the losses of all.

    Notes
    -----
    For a discrete target the candidate of least loss is chosen. Squared errors of few rows are noisy, so that for a
    number the first candidate is chosen that is within one standard error of the difference from the best.

    At most 4,000 rows are compared. A candidate that can't be built from the data, or queried within the memory, is
    skipped. A candidate that is worse than the best by more than two standard errors after a hundred rows or some folds
    is not tried on the others, nor is the worse half once sixty rows have been predicted (racing with successive
    halving). When one candidate is left, the comparison ends.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> net = automatic({"x": x, "copy": x + 0.1 * rng.normal(size=200), "y": x + rng.normal(size=200)}, "y")
    >>> net.graph["chosen"], len(net.graph["losses"]) > 3
    ('model_tree trees=20, gaussian', True)
    """
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise NetworkError(f"folds must be a whole number, at least 2, not {folds!r}")
    training_data = read_data_with_target(data, target, potentials, weights)
    if candidates is None:
        listed = _list_candidates(training_data, target, potentials)
    else:
        listed = [_read_candidate(candidate, potentials) for candidate in candidates]
    distinct = {_describe_candidate(*candidate): candidate for candidate in listed}
    if not distinct:
        raise NetworkError("candidates must hold a builder at least")
    table = training_data.table
    discrete = isinstance(training_data.variable(target), Discrete)
    loss = loss or (log_loss if discrete else squared_error)
    cells = training_data.codes(target)
    rng = make_generator(random_state)
    labeled = np.flatnonzero((cells >= 0 if discrete else ~np.isnan(cells)) & (table.weights > 0))
    losses: dict[str, float] = {}
    failures: list[Exception] = []
    preferred: list[str] = []
    if len(labeled) >= 2 * folds and len(distinct) > 1:
        rows = rng.permutation(labeled)[:MOST_ROWS]
        race = _Race(training_data, target, loss, rows, assign_folds(cells[rows], folds, rng))
        losses = race.run(list(distinct.values()))
        failures = race.failures
        preferred = [] if discrete else race.near[:1]
        if not losses:
            raise failures[0]
    for name in sorted(distinct, key=lambda name: (name not in preferred, losses.get(name, np.inf))):
        build, family = distinct[name]
        try:
            network = build.learn(table, target, family)
        except HybridBNError as error:
            failures.append(error)
            continue
        network.graph["chosen"] = name
        network.graph["losses"] = losses
        return network
    raise failures[0]


class _Race:
    """A cross-validation that drops candidates as soon as they are clearly worse than the best one (racing)."""

    def __init__(self, data: TrainingData, target: str, loss: Loss, rows: Any, parts: Any) -> None:
        self.data, self.target, self.loss, self.rows, self.parts = data, target, loss, rows, parts
        self.weights = data.table.weights[rows]
        self.failures: list[Exception] = []
        self.near: list[str] = []
        """The names of the candidates that count as equally good as the best, in order of preference."""

    def run(self, candidates: Sequence[_BuildAndFamily]) -> dict[str, float]:
        """Return the mean losses; that of a dropped candidate is estimated from its difference to the best one so
        far.
        """
        losses = {_describe_candidate(*candidate): np.full(len(self.rows), np.nan) for candidate in candidates}
        running = dict(zip(losses, candidates, strict=True))
        seen = np.zeros(len(self.rows), dtype=bool)
        folds = int(self.parts.max()) + 1
        for part in track_items(range(folds), "automatic", folds):
            networks: dict[str, Network] = {}
            for test, halve in self._list_batches(part):
                seen[test] = True
                for name in list(running):
                    try:
                        network = networks.get(name) or self._learn(*running[name], part)
                        networks[name] = network
                        losses[name][test] = self._evaluate_losses(network, test)
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
        means = {name: self._mean(losses[name], seen) for name in running}
        best = min(means, key=means.__getitem__)
        self.near = [name for name in running if not self._is_behind(losses[name] - losses[best], seen, NEAR)]
        for name, own in losses.items():
            if name not in running:
                means[name] = means[best] + self._mean(own - losses[best], np.isfinite(own))
        return {name: means[name] for name in losses}

    def _list_batches(self, part: int) -> list[tuple[NDArray[np.intp], bool]]:
        """Return the rows of a fold in the batches after which candidates are dropped, and whether the worse half
        is.
        """
        test = np.flatnonzero(self.parts == part)
        if part or len(test) < 2 * FIRST_ROWS:
            return [(test, True)]
        return [(test[:FIRST_ROWS], False), (test[FIRST_ROWS:], True)]

    def _learn(self, build: Build, family: Any, part: int) -> Network:
        """Return the network learned from all folds but one."""
        training = self.data.table.take(self.rows[self.parts != part])
        columns = [name for name in training.names if name == self.target or _is_usable(training, name)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the final network repeats the warnings of the folds
            return build.learn(training.select(columns), self.target, family)

    def _evaluate_losses(self, network: Network, test: NDArray[np.intp]) -> Values:
        """Return the losses on some of the rows."""
        rows = self.rows[test]
        table = self.data.table.take(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evidence = table.select([name for name in table.names if name in network])
            posterior = network.posterior(self.target, evidence, options=_OPTIONS)
            losses = self.loss(posterior, self.data.codes(self.target)[rows])
        # a row of probability zero counts as much as the worst of the others
        return np.where(np.isfinite(losses), losses, np.max(losses[np.isfinite(losses)], initial=0.0))

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


def _is_usable(table: Table, name: str) -> bool:
    """Return whether a column has two numbers, or a state that occurs twice; builders may refuse other columns."""
    column = table.column(name)
    if table.is_discrete(name):
        return bool(np.bincount(column[column >= 0]).max(initial=0) > 1)
    observed = column[~np.isnan(column)]
    return len(observed) > 0 and bool((observed != observed[0]).any())


def _list_candidates(data: TrainingData, target: str, potentials: Any) -> list[_BuildAndFamily]:
    """Return the default candidates for the kinds of columns."""
    discrete = isinstance(data.variable(target), Discrete)
    numbers = any(not isinstance(data.variable(name), Discrete) for name in data.attributes)
    families: list[Any] = [potentials]
    if isinstance(potentials, str) and potentials == "auto" and (numbers or not discrete):
        families = ["mte", "kernel", "gaussian", *(["multinomial"] if discrete else [])]
    candidates: list[Candidate] = []
    for family in families:
        candidates.append((naive_bayes, family))
        # slow candidates are left out for numbers, where regressions and model trees are hardly ever worse
        if len(data.attributes) > 1 and not (family == "gaussian" and _is_costly(data)):
            if family == "kernel" and discrete:
                candidates.append((selective_naive_bayes, family))
            elif discrete or family == "gaussian" or len(families) == 1:
                candidates.append((tan, family))
        if discrete and (family in ("gaussian", "multinomial") or len(families) == 1):
            candidates.append((nb_tree, family))
    if not discrete and data.attributes:
        family = "gaussian" if len(families) > 1 else potentials
        trees = [(partial(model_tree, trees=TREES), family), (model_tree, family)]
        candidates = [*trees, (regression, family), *candidates]
    return [(Build(function), family) for function, family in candidates]


def _is_costly(data: TrainingData) -> bool:
    """Return whether queries of TAN with normal densities are slow: categories may be children of missing numbers."""
    kinds = {name: isinstance(data.variable(name), Discrete) for name in data.attributes}
    return any(kinds.values()) and any(data.table.missing[name] for name, discrete in kinds.items() if not discrete)


def _read_candidate(candidate: Any, potentials: Any) -> _BuildAndFamily:
    # a list of two arcs may be a tuple, too, but then its items are tuples
    if isinstance(candidate, tuple) and len(candidate) == 2 and not isinstance(candidate[0], tuple | list):
        candidate, potentials = candidate
    return Build.of(candidate, "a candidate"), potentials


def _describe_candidate(build: Build, family: Any) -> str:
    return f"{build}, {family if isinstance(family, str) else getattr(family, 'name', 'mixed')}"
