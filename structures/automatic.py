"""A builder that compares several builders and families by cross-validation and uses the one that predicts best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.cross_validation import deal_folds
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.options import check_count, make_generator
from hybridbn.structures.building import Build, builder
from hybridbn.structures.discriminant import discriminant
from hybridbn.structures.heldout import ENOUGH_ROWS, BuildAndFamily, Race, describe_candidate, summarize_levels
from hybridbn.structures.logistic import logistic
from hybridbn.structures.model_tree import model_tree
from hybridbn.structures.naive_bayes import naive_bayes, tan
from hybridbn.structures.nb_tree import nb_tree
from hybridbn.structures.random_forest import random_forest
from hybridbn.structures.regression import regression
from hybridbn.structures.selective import Loss, crps, log_loss, selective_naive_bayes
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.variables import Continuous, Discrete

__all__ = ["Candidate", "ComparedCandidates", "automatic", "compare_candidates"]

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
) -> Network:
    """Build with the builder and family that predict the target best in a cross-validation inside the data.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
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
        `hybridbn.structures.heldout`.

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
    )
    return comparison.learn_best()


@dataclass
class ComparedCandidates:
    """Candidates with their losses on held-out rows.

    Attributes
    ----------
    data : TrainingData
    candidates : dict of str to builder and potentials
        By name, in order of preference.
    race : Race or None
        None where there are too few rows to compare, or one candidate only.
    losses : dict of str to float
    """

    data: TrainingData
    candidates: dict[str, BuildAndFamily]
    race: Race | None
    losses: dict[str, float]

    def learn(self, name: str) -> Network:
        """Return the network of a candidate, learned from all rows."""
        assert self.data.target is not None
        built = None if self.race is None else self.race.built.get(name)
        if built is None:
            build, family = self.candidates[name]
            built = build.learn_held_out(self.data.rows, self.data.target, family)
        network = built.network
        network.graph["chosen"] = name
        network.graph["losses"] = self.losses
        if self.race is not None and not self._is_class():
            held_out = self.race.hold_out(self.candidates[name], ENOUGH_ROWS)
            network.graph["calibration"] = summarize_levels(*held_out)
        return network

    def _is_class(self) -> bool:
        return isinstance(self.data.variable(self.data.target or ""), Discrete)

    def learn_best(self) -> Network:
        """Return the network of the best candidate that can be built from all rows."""
        preferred = [] if self._is_class() or self.race is None else self.race.near[:1]
        failures: list[Exception] = [] if self.race is None else list(self.race.failures)
        for name in sorted(self.candidates, key=lambda name: (name not in preferred, self.losses.get(name, np.inf))):
            try:
                return self.learn(name)
            except HybridBNError as error:
                failures.append(error)
        raise failures[0]


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
) -> ComparedCandidates:
    """Compare candidates as `automatic` does.

    Examples
    --------
    >>> data = {"x": [0.0, 1.0, 2.0, 3.0] * 5, "c": ["a", "a", "b", "b"] * 5}
    >>> compared = compare_candidates(data, "c", candidates=["naive_bayes", "logistic"])
    >>> sorted(compared.losses)
    ['logistic, auto', 'naive_bayes, auto']
    """
    folds, effort = check_count(folds, "folds", 2, NetworkError), check_count(effort, "effort", 1, NetworkError)
    _check_seconds(seconds)
    training_data = read_data_with_target(data, target, potentials, weights, "automatically chosen networks")
    if candidates is None:
        listed = _list_candidates(training_data, target, potentials, effort)
    else:
        listed = [_read_candidate(candidate, potentials) for candidate in candidates]
    distinct = {describe_candidate(*candidate): candidate for candidate in listed}
    if not distinct:
        raise NetworkError("candidates must hold a builder at least")
    discrete = isinstance(training_data.variable(target), Discrete)
    loss = loss or (log_loss if discrete else crps)
    cells = training_data.codes(target)
    rng = make_generator(random_state)
    labeled = training_data.find_labeled()
    if len(labeled) < 2 * folds or len(distinct) < 2:
        return ComparedCandidates(training_data, distinct, None, {})
    rows = rng.permutation(labeled)[:MOST_ROWS]
    parts = deal_folds(len(rows), folds, rng, cells[rows])
    race = Race(training_data, target, loss, rows, parts, np.inf if seconds is None else seconds)
    losses = race.run(list(distinct.values()))
    if not losses:
        raise race.failures[0]
    return ComparedCandidates(training_data, distinct, race, losses)


def _check_seconds(seconds: Any) -> None:
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise NetworkError(f"seconds must be a positive number or None, not {seconds!r}")


def _list_candidates(data: TrainingData, target: str, potentials: Any, effort: int) -> list[BuildAndFamily]:
    """Return the default candidates for the kinds of columns."""
    if isinstance(data.variable(target), Discrete):
        candidates = _list_class_candidates(data, potentials, effort)
    else:
        candidates = _list_number_candidates(data, potentials)
    return [(Build(function), family) for function, family in candidates]


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
    candidates: list[Candidate] = [(partial(logistic, correlated=True) if len(numbers) > 1 else logistic, "auto")]
    candidates.append((random_forest, "gaussian"))
    if numbers:
        candidates.append((discriminant, "auto"))
    tables = "multinomial" if numbers else "auto"
    candidates.append((naive_bayes, tables))
    if several:
        candidates.append((tan, tables))
    if numbers:
        candidates.append((naive_bayes, "kernel"))
    if effort > 1:
        for family in ["mte", "kernel", "gaussian", "multinomial"] if numbers else ["auto"]:
            candidates.append((naive_bayes, family))
            if several and not (family == "gaussian" and _is_costly(data)):
                candidates.append((selective_naive_bayes if family == "kernel" else tan, family))
            if family not in ("mte", "kernel"):
                candidates.append((nb_tree, family))
    return candidates


def _list_number_candidates(data: TrainingData, potentials: Any) -> list[Candidate]:
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
