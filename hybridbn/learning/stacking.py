"""Stacking: a few networks of different kinds, weighted by how well they predict held-out rows together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridbn.fitting.base import Potentials
from hybridbn.learning.ensemble import LEAST_POOLED, Ensemble
from hybridbn.network import Network
from hybridbn.potentials import Multinomial
from hybridbn.structures.automatic import compare_candidates
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["calibrate_votes", "stack"]

LEAST_VOTE = 0.02
"""A network of less weight is left out."""
VOTE_ROWS = 5.0
"""As how many rows the squared differences of the votes from equal ones count."""
LOG_FACTORS = (-8.0, 2.0)
"""The range of logarithms of what the votes of boosting are multiplied by."""
BIAS_ROWS = 3.0
"""As how many rows the squared logarithms of the factors of classes count."""


def stack(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    candidates: Sequence[Any] | None = None,
    folds: int = 5,
    effort: int = 1,
    seconds: float | None = None,
    random_state: Any = 0,
) -> Ensemble:
    r"""Learn several networks for a class, and weigh them by how well they predict held-out rows together.

    .. math:: P(c \mid x) \propto e^{b_c} \prod_m P_m(c \mid x)^{w_m}, \quad w_m \ge 0

    The weights and the factors of the classes are those of the greatest likelihood in rows that the networks have not
    seen, so that probabilities which are too near to 0 and 1, or not near enough, are put right: a single network with
    its weight is what is known as temperature scaling, with the factors as vector scaling.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
    candidates, folds, effort, seconds, random_state : as in `hybridbn.structures.automatic`

    Returns
    -------
    Ensemble
        With "pool" as its algorithm, the network of the greatest weight first. The last one is the class alone, with
        the factors as its probabilities.

    Notes
    -----
    Candidates are compared, and dropped, as in `automatic`, by their log losses. Those that are left, and all that
    predict held-out rows themselves at little cost, such as random forests, are weighted; the ones of next to no weight
    are left out.

    Missing cells are marginalized in each network.

    References
    ----------
    Wolpert (1992), "Stacked generalization"; Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural
    networks".

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 200))
    >>> data = {"x": x, "z": z, "c": np.where(x * z + 0.3 * rng.normal(size=200) > 0, "same", "different")}
    >>> ensemble = hb.stack(data, "c")
    >>> ensemble.algorithm, len(ensemble) > 1, ensemble.posterior({"x": 1.0, "z": 1.0}).probability("same") > 0.9
    ('pool', True, True)
    """
    comparison = compare_candidates(
        data,
        target,
        potentials,
        weights,
        candidates=candidates,
        folds=folds,
        effort=effort,
        seconds=seconds,
        random_state=random_state,
    )
    variable = comparison.data.variable(target)
    assert isinstance(variable, Discrete)
    predictions = {} if comparison.race is None else comparison.race.list_predictions()
    if comparison.race is None or not predictions:
        return Ensemble([comparison.learn_best()], np.ones(1), target, "pool")
    names = list(predictions)
    rows = comparison.race.rows
    truth, own_weights = comparison.data.codes(target)[rows], comparison.data.table.weights[rows]
    shares = np.stack([predictions[name] for name in names])
    logs = np.log(np.maximum(shares / shares.max(axis=2, keepdims=True), LEAST_POOLED))
    votes, bias = fit_pool(logs, truth, own_weights)
    kept = np.flatnonzero(votes >= LEAST_VOTE)
    if len(kept) < len(votes):
        votes, bias = fit_pool(logs[kept], truth, own_weights)
    order = np.argsort(-votes, kind="stable")
    networks = [comparison.learn(names[kept[number]]) for number in order]
    shift = np.exp(bias - bias.max())
    prior = Network([Multinomial(variable, table=shift / shift.sum())])
    return Ensemble([*networks, prior], np.append(votes[order], 1.0), target, "pool")


def fit_pool(logs: Values, truth: Codes, weights: Values) -> tuple[Values, Values]:
    """Return the exponents of networks (networks,) and the log factors of classes (classes,) that predict best.

    Parameters
    ----------
    logs : ndarray (networks, rows, classes)
        The networks' log probabilities of rows that they have not seen.
    truth : ndarray (rows,)
    weights : ndarray (rows,)

    Examples
    --------
    >>> sure = np.log([[0.99, 0.01], [0.01, 0.99]]).repeat(100, axis=0)
    >>> votes, _ = fit_pool(sure[None], np.tile([0, 0, 0, 1, 1, 0, 1, 1, 1, 0], 20), np.ones(200))
    >>> votes.round(1)
    array([0.])
    """
    from scipy.optimize import minimize

    count, rows, classes = logs.shape
    shares = weights / weights.sum()
    # what networks tell beyond the shares of the classes, so that no findings give these, whatever the votes
    counts = np.bincount(truth, weights, classes) + 0.5
    prior = np.log(counts / counts.sum())
    logs = logs - logs.max(axis=2, keepdims=True) - prior
    size = float(weights.sum())

    def objective(flat: Values) -> tuple[float, Values]:
        votes, bias = flat[:count], flat[count:]
        scores = np.tensordot(votes, logs, 1) + prior + bias
        scores -= scores.max(axis=1, keepdims=True)
        told = np.exp(scores)
        told /= told.sum(axis=1, keepdims=True)
        picked = np.arange(rows), truth
        loss = -float(shares @ np.log(np.maximum(told[picked], 1e-300)))
        apart = votes - 1 / count
        loss += (VOTE_ROWS * float(apart @ apart) + BIAS_ROWS * float(bias @ bias)) / size
        told[picked] -= 1.0
        told *= shares[:, None]
        slopes = np.tensordot(logs, told, ([1, 2], [0, 1])) + 2 * VOTE_ROWS * apart / size
        return loss, np.append(slopes, told.sum(axis=0) + 2 * BIAS_ROWS * bias / size)

    start = np.append(np.full(count, 1 / count), np.zeros(classes))
    bounds = [(0.0, None)] * count + [(None, None)] * classes
    solution = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-10}).x
    votes, bias = solution[:count], solution[count:]
    return np.asarray(votes), np.asarray(bias + (1 - votes.sum()) * prior)


def calibrate_votes(ensemble: Ensemble, scores: Values, truth: Codes, weights: Values) -> Ensemble:
    """Return the ensemble with all votes multiplied by what makes held-out rows most probable (temperature scaling).

    No decision changes, as the order of the scores stays.

    Parameters
    ----------
    ensemble : Ensemble
    scores : ndarray (rows, classes)
        Scores that such ensembles give to rows that they have not seen; a row with NaN is left out.
    truth : ndarray (rows,)
    weights : ndarray (rows,)

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.4, 0.6])])
    >>> scores, truth = np.tile([0.0, 10.0], (100, 1)), np.arange(100) % 4 > 0
    >>> ensemble = hb.Ensemble([net], np.array([10.0]), "c")
    >>> calibrate_votes(ensemble, scores, truth.astype(int), np.ones(100)).votes.round(1)
    array([1.1])
    """
    from scipy.optimize import minimize_scalar

    kept = np.flatnonzero(np.isfinite(scores).all(axis=1))
    relative = scores[kept] - scores[kept].max(axis=1, keepdims=True, initial=-np.inf)

    def measure_loss(log_factor: float) -> float:
        scaled = np.exp(log_factor) * relative
        return float(weights[kept] @ (np.log(np.exp(scaled).sum(axis=1)) - scaled[np.arange(len(kept)), truth[kept]]))

    if not len(kept):
        return ensemble
    factor = float(np.exp(minimize_scalar(measure_loss, bounds=LOG_FACTORS, method="bounded").x))
    return replace(ensemble, votes=ensemble.votes * factor)
