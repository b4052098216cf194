"""A builder that compares several builders and families by cross-validation and uses the one that predicts best."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hybridbn.arguments import make_generator
from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.building import Build, builder
from hybridbn.structures.calibration import ENOUGH_ROWS, summarize_levels
from hybridbn.structures.model_tree import model_tree
from hybridbn.structures.naive_bayes import naive_bayes
from hybridbn.structures.nb_tree import nb_tree
from hybridbn.structures.racing import BuildAndFamily, Race, describe_candidate
from hybridbn.structures.regression import regression
from hybridbn.structures.selective import Loss, assign_folds, crps, log_loss, selective_naive_bayes
from hybridbn.structures.tan import tan
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.variables import Continuous, Discrete

__all__ = ["Candidate", "automatic"]

Candidate: TypeAlias = tuple[Any, Any]
"""A builder, or anything else that `build=` takes, and the potentials that are passed to it."""

MOST_ROWS = 4000
"""Candidates are compared on at most this many rows, which are enough to tell relevant differences."""
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
        twenty model trees in one network, and a linear regression.
    loss : callable, optional
        `log_loss` for a discrete target, `crps` for a continuous one (or `squared_error`), or any function of
        (posterior, truth) that returns a number for each row.
    folds : int
    random_state : int, Generator or None
        Assigns the rows to folds.

    Returns
    -------
    Network
        Built from all rows. Its ``graph["chosen"]`` names the candidate, and ``graph["losses"]`` has the losses of all.
        For a number ``graph["calibration"]`` tells how wide the central intervals of held-out rows had to be, see
        `hybridbn.structures.calibration`.

    Notes
    -----
    For a discrete target the candidate of least loss is chosen. Scores of few rows are noisy, so that for a
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
    >>> net.graph["chosen"], len(net.graph["losses"])
    ('model_tree trees=20, gaussian', 2)
    """
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise NetworkError(f"folds must be a whole number, at least 2, not {folds!r}")
    training_data = read_data_with_target(data, target, potentials, weights)
    if candidates is None:
        listed = _list_candidates(training_data, target, potentials)
    else:
        listed = [_read_candidate(candidate, potentials) for candidate in candidates]
    distinct = {describe_candidate(*candidate): candidate for candidate in listed}
    if not distinct:
        raise NetworkError("candidates must hold a builder at least")
    table = training_data.table
    discrete = isinstance(training_data.variable(target), Discrete)
    loss = loss or (log_loss if discrete else crps)
    cells = training_data.codes(target)
    rng = make_generator(random_state)
    labeled = np.flatnonzero((cells >= 0 if discrete else ~np.isnan(cells)) & (table.weights > 0))
    losses: dict[str, float] = {}
    race: Race | None = None
    failures: list[Exception] = []
    preferred: list[str] = []
    if len(labeled) >= 2 * folds and len(distinct) > 1:
        rows = rng.permutation(labeled)[:MOST_ROWS]
        race = Race(training_data, target, loss, rows, assign_folds(cells[rows], folds, rng))
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
        if race is not None and not discrete:
            network.graph["calibration"] = summarize_levels(*race.hold_out(distinct[name], ENOUGH_ROWS))
        return network
    raise failures[0]


def _list_candidates(data: TrainingData, target: str, potentials: Any) -> list[BuildAndFamily]:
    """Return the default candidates for the kinds of columns."""
    if isinstance(data.variable(target), Discrete):
        candidates = _list_class_candidates(data, potentials)
    else:
        candidates = _list_number_candidates(data, potentials)
    return [(Build(function), family) for function, family in candidates]


def _list_class_candidates(data: TrainingData, potentials: Any) -> list[Candidate]:
    """Return the default candidates for a discrete target."""
    numbers = any(not isinstance(data.variable(name), Discrete) for name in data.attributes)
    families: list[Any] = [potentials]
    if isinstance(potentials, str) and potentials == "auto" and numbers:
        families = ["mte", "kernel", "gaussian", "multinomial"]
    candidates: list[Candidate] = []
    for family in families:
        candidates.append((naive_bayes, family))
        if len(data.attributes) > 1 and not (family == "gaussian" and _is_costly(data)):
            candidates.append((selective_naive_bayes if family == "kernel" else tan, family))
        if family in ("gaussian", "multinomial") or len(families) == 1:
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
    return any(kinds.values()) and any(data.table.missing[name] for name, discrete in kinds.items() if not discrete)


def _read_candidate(candidate: Any, potentials: Any) -> BuildAndFamily:
    # a list of two arcs may be a tuple, too, but then its items are tuples
    if isinstance(candidate, tuple) and len(candidate) == 2 and not isinstance(candidate[0], tuple | list):
        candidate, potentials = candidate
    return Build.of(candidate, "a candidate"), potentials
