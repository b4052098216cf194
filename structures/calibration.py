"""Conformal prediction: how wide central intervals must be to hold as many held-out rows as they promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hybridbn.arguments import make_generator
from hybridbn.errors import HybridBNError
from hybridbn.structures.building import Build
from hybridbn.structures.racing import Race
from hybridbn.structures.selective import assign_folds, crps
from hybridbn.structures.training_data import read_data_with_target
from hybridbn.variables import Values

__all__ = ["calibrate_intervals", "summarize_levels", "widen_level"]

FOLDS = 5
ENOUGH_ROWS = 500
"""No more rows are held out than it takes to know the share of rows in an interval within one or two percent."""
MOST_LEVELS = 200
"""Of what is kept about held-out rows."""


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
    labeled = np.flatnonzero(~np.isnan(cells) & (read.table.weights > 0))
    if len(labeled) < 2 * FOLDS:
        return []
    rows = rng.permutation(labeled)
    race = Race(read, target, crps, rows, assign_folds(cells[rows], FOLDS, rng))
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
