"""AdaBoost.M1 over naive Bayes written down once more from the paper, as plainly as it can be: what the tests compare
with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hybridbn as hb
from hybridbn.learning.sample_weights import BootstrapSample

FLOOR = 1e-8


def estimate(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The m-estimate with m = 2 and the marginal as prior."""
    k = counts.shape[-1]
    if counts.ndim == 1:
        return (counts + 2 / k) / (counts.sum() + 2)
    prior = (counts.sum(axis=0) + 2 / k) / (counts.sum() + 2)
    return (counts + 2 * prior) / (counts.sum(axis=1, keepdims=True) + 2)


def naive_bayes(x: NDArray[np.intp], y: NDArray[np.intp], sizes: list[int], k: int, w: NDArray[np.float64]):
    prior = estimate(np.array([w[y == c].sum() for c in range(k)]))
    tables = []
    for j, size in enumerate(sizes):
        counts = np.array([[w[(y == c) & (x[:, j] == v)].sum() for v in range(size)] for c in range(k)])
        tables.append(estimate(counts))
    return prior, tables


def decide(model, x: NDArray[np.intp]) -> NDArray[np.intp]:
    prior, tables = model
    logs = np.tile(np.log(prior), (len(x), 1))
    for j, table in enumerate(tables):
        known = x[:, j] >= 0
        logs[known] += np.log(table)[:, x[known, j]].T
    return logs.argmax(axis=1)


def draws_of(table: hb.Table) -> Callable[[], NDArray[np.float64]]:
    """Return what draws the weights of bootstrap samples as boosting does."""
    rng = np.random.default_rng(0)
    return lambda: BootstrapSample.draw(rng, table, None).weigh(table, 0)


def adaboost_m1(x, y, sizes, k, rounds, draw=None, most=10**9):
    """Return models, votes, errors and the weights after each round; starts anew from weights that are drawn
    where it must, so many times at most.
    """
    n = len(y)
    w = np.ones(n)
    models: list[Any] = []
    votes, errors, weights = [], [], []
    starts = 0
    while len(models) < rounds and starts <= most:
        model = naive_bayes(x, y, sizes, k, w)
        wrong = decide(model, x) != y
        e = w[wrong].sum() / n
        starts += e >= 0.5 - 1e-12 or e == 0
        if e >= 0.5 - 1e-12:
            w = draw()
            continue
        if e == 0:
            w = draw()
        else:
            w = np.where(wrong, w / (2 * e), w / (2 * (1 - e)))
            w = np.maximum(w, FLOOR)
            w = w * n / w.sum()
        models.append(model)
        votes.append(math.log((1 - e) / e) if e else math.log(1e10))
        errors.append(e)
        weights.append(w)
    return models, np.array(votes), np.array(errors), weights


def voted(models, votes, x, k: int) -> NDArray[np.intp]:
    totals = np.zeros((len(x), k))
    for model, vote in zip(models, votes, strict=True):
        totals[np.arange(len(x)), decide(model, x)] += vote
    return totals.argmax(axis=1)
