"""A builder that tries several builders and families, and keeps the one that predicts best on rows that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.options import Options
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
"""A builder, or whatever else `build=` takes, and the potentials that it is called with."""

_BuildAndFamily: TypeAlias = tuple[Build, Any]

ENOUGH = 4000
"""Candidates are compared on so many rows at most."""
_OPTIONS = Options(tolerance=1e-6, impossible="nan")
CLEAR, NEAR = 2.0, 1.0
"""A candidate that is behind the best by so many standard errors of the difference is not tried on further folds; is not as good."""
FINALISTS, ENOUGH_TO_HALVE = 2, 60
"""From so many rows on, after each fold half of the candidates go on, but no fewer than these."""
TREES = 20


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
    """Build with whichever builder and family predicts the target best, by a cross-validation inside the data.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
        With "auto" families are chosen too; otherwise builders only, unless a candidate names its own.
    candidates : sequence of builders, or of pairs (builder, potentials), optional
        In order of preference, see the notes; a name, a Network or a list of arcs will do, too. By default, for a discrete target: naive Bayes, TAN, selective naive Bayes and naive Bayes
        trees over mixtures of truncated exponentials, kernels, normal densities and tables, as far as the columns give reason.
        For a number: twenty model trees in one network, a single one, a linear regression, naive Bayes over these families and TAN over
        normal densities.
    loss : callable, optional
        `log_loss` for a discrete target, `squared_error` for a continuous one, or any function of (posterior, truth) that returns a
        number for each row.
    folds : int
    random_state : int, Generator or None
        Deals the rows to the folds.

    Returns
    -------
    Network
        Built from all rows. Its ``graph["chosen"]`` tells which candidate it is of, and ``graph["losses"]`` the losses of all.

    Notes
    -----
    For a discrete target the least loss decides. Squared errors of few rows tell less, so for a number the first candidate is taken that is
    not behind the best by more than a standard error of the difference.

    The comparison takes 4,000 rows at most. A candidate that can't be built from the data, or asked within the memory, does not
    take part. One that is behind the best by more than two standard errors after some folds is not tried on the others, nor is the
    worse half once sixty rows have been predicted (a race with successive halving).

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
    read = read_data_with_target(data, target, potentials, weights)
    listed = (
        _list_candidates(read, target, potentials)
        if candidates is None
        else [_read_candidate(c, potentials) for c in candidates]
    )
    listed = list({_describe_candidate(*candidate): candidate for candidate in listed}.values())
    if not listed:
        raise NetworkError("candidates must hold a builder at least")
    table = read.table
    discrete = isinstance(read.variable(target), Discrete)
    loss = loss or (log_loss if discrete else squared_error)
    cells = read.codes(target)
    rng = np.random.default_rng(random_state)
    seen = np.flatnonzero((cells >= 0 if discrete else ~np.isnan(cells)) & (table.weights > 0))
    losses: dict[str, float] = {}
    failures: list[Exception] = []
    preferred: list[str] = []
    if len(seen) >= 2 * folds and len(listed) > 1:
        chosen = rng.permutation(seen)[:ENOUGH]
        race = _Race(read, target, loss, chosen, assign_folds(cells[chosen], folds, rng))
        losses = race.run(listed)
        failures = race.failures
        preferred = [] if discrete else race.near[:1]
        if not losses:
            raise failures[0]
    order = sorted(
        listed, key=lambda c: (_describe_candidate(*c) not in preferred, losses.get(_describe_candidate(*c), np.inf))
    )
    for build, family in order:
        try:
            network = build.learn(table, target, family)
        except HybridBNError as error:
            failures.append(error)
            continue
        network.graph["chosen"] = _describe_candidate(build, family)
        network.graph["losses"] = losses
        return network
    raise failures[0]


class _Race:
    """A cross-validation that candidates leave as soon as they are clearly worse than the best one."""

    def __init__(self, data: TrainingData, target: str, loss: Loss, rows: Any, parts: Any) -> None:
        self.data, self.target, self.loss, self.rows, self.parts = data, target, loss, rows, parts
        self.weights = data.table.weights[rows]
        self.failures: list[Exception] = []
        self.near: list[str] = []
        """Who is not behind the best by more than a standard error, in their order."""

    def run(self, candidates: Sequence[_BuildAndFamily]) -> dict[str, float]:
        """Return the mean losses; of one that left early the best one's and the mean difference on the rows it was tried on."""
        found = {_describe_candidate(*candidate): np.full(len(self.rows), np.nan) for candidate in candidates}
        running = dict(zip(found, candidates, strict=True))
        for part in range(self.parts.max() + 1):
            test = self.parts == part
            for name in list(running):
                try:
                    found[name][test] = self._evaluate_losses(*running[name], part)
                except (HybridBNError, MemoryError) as error:
                    self.failures.append(error)
                    del running[name], found[name]
            for name in self._find_dropouts({name: found[name] for name in running}, self.parts <= part):
                del running[name]
        if not running:
            return {}
        everywhere = np.ones(len(self.rows), dtype=bool)
        means = {name: self._mean(found[name], everywhere) for name in running}
        best = min(means, key=means.__getitem__)
        self.near = [name for name in running if not self._is_behind(found[name] - found[best], everywhere, NEAR)]
        for name, own in found.items():
            if name not in running:
                means[name] = means[best] + self._mean(own - found[best], np.isfinite(own))
        return {name: means[name] for name in found}

    def _evaluate_losses(self, build: Build, family: Any, part: int) -> Values:
        """Return the losses on rows that the network was not learned from."""
        test = self.rows[self.parts == part]
        training = self.data.table.take(self.rows[self.parts != part])
        kept = [name for name in training.names if name == self.target or _is_usable(training, name)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is told of every fold would be told again of the whole
            network = build.learn(training.select(kept), self.target, family)
            table = self.data.table.take(test)
            inside = table.select([name for name in table.names if name in network])
            posterior = network.posterior(self.target, inside, options=_OPTIONS)
            found = self.loss(posterior, self.data.codes(self.target)[test])
        # a row that is impossible under the network counts as much as the worst of the others
        return np.where(np.isfinite(found), found, np.max(found[np.isfinite(found)], initial=0.0))

    def _find_dropouts(self, found: dict[str, Values], rows: NDArray[np.bool_]) -> list[str]:
        """Return who is clearly worse than the best; where there are rows enough, all but the best half leave."""
        if not found:
            return []
        means = {name: self._mean(own, rows) for name, own in found.items()}
        ranked = sorted(means, key=means.__getitem__)
        kept = max(FINALISTS, -(-len(ranked) // 2)) if np.count_nonzero(rows) >= ENOUGH_TO_HALVE else len(ranked)
        return [
            name
            for place, name in enumerate(ranked)
            if place >= kept or self._is_behind(found[name] - found[ranked[0]], rows, CLEAR)
        ]

    def _is_behind(self, difference: Values, rows: NDArray[np.bool_], errors: float) -> bool:
        """Tell whether a difference of losses is above zero by more than so many standard errors."""
        shares, values = self.weights[rows] / self.weights[rows].sum(), difference[rows]
        mean = float(shares @ values)
        return mean > errors * float(np.sqrt(shares**2 @ (values - mean) ** 2))

    def _mean(self, values: Values, rows: NDArray[np.bool_]) -> float:
        return float(self.weights[rows] @ values[rows] / self.weights[rows].sum())


def _is_usable(table: Table, name: str) -> bool:
    """Tell whether a column has two numbers, or a state that occurs twice; builders may refuse others, which parts of a table may have."""
    column = table.column(name)
    if table.is_discrete(name):
        return bool(np.bincount(column[column >= 0]).max(initial=0) > 1)
    seen = column[~np.isnan(column)]
    return len(seen) > 0 and bool((seen != seen[0]).any())


def _list_candidates(data: TrainingData, target: str, potentials: Any) -> list[_BuildAndFamily]:
    """Return the candidates that the columns give reason for."""
    discrete = isinstance(data.variable(target), Discrete)
    numbers = any(not isinstance(data.variable(name), Discrete) for name in data.attributes)
    families: list[Any] = [potentials]
    if isinstance(potentials, str) and potentials == "auto" and (numbers or not discrete):
        families = ["mte", "kernel", "gaussian", *(["multinomial"] if discrete else [])]
    found: list[Candidate] = []
    for family in families:
        found.append((naive_bayes, family))
        # what takes long is left out for numbers, where regressions and trees of them are hardly ever behind
        if len(data.attributes) > 1 and not (family == "gaussian" and _is_costly(data)):
            if family == "kernel" and discrete:
                found.append((selective_naive_bayes, family))
            elif discrete or family == "gaussian" or len(families) == 1:
                found.append((tan, family))
        if discrete and (family in ("gaussian", "multinomial") or len(families) == 1):
            found.append((nb_tree, family))
    if not discrete and data.attributes:
        family = "gaussian" if len(families) > 1 else potentials
        found = [(partial(model_tree, trees=TREES), family), (model_tree, family), (regression, family), *found]
    return [(Build(function), family) for function, family in found]


def _is_costly(data: TrainingData) -> bool:
    """Tell whether trees of normal and logistic densities would be slow to ask: categories below numbers that are missing."""
    kinds = {name: isinstance(data.variable(name), Discrete) for name in data.attributes}
    return any(kinds.values()) and any(data.table.missing[name] for name, discrete in kinds.items() if not discrete)


def _read_candidate(candidate: Any, potentials: Any) -> _BuildAndFamily:
    # an arc of a list is a tuple, too, but does not begin with one
    if isinstance(candidate, tuple) and len(candidate) == 2 and not isinstance(candidate[0], tuple | list):
        candidate, potentials = candidate
    return Build.of(candidate, "a candidate"), potentials


def _describe_candidate(build: Build, family: Any) -> str:
    return f"{build}, {family if isinstance(family, str) else getattr(family, 'name', 'mixed')}"
