"""Discriminant analysis as a network: normal densities of all numbers together given the class."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.cross_validation import deal_folds, split_folds
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.options import make_generator
from hybridbn.potentials import LinearGaussian
from hybridbn.potentials.base import Potential
from hybridbn.structures.building import Built, builder
from hybridbn.structures.heldout import HeldOutClasses
from hybridbn.structures.training_data import TrainingData, read_labeled_data
from hybridbn.variables import Codes, Continuous, Discrete, Values

__all__ = ["DiscriminantAnalysis", "Normals", "Shrinkage", "discriminant"]

STRENGTHS = (np.inf, 20.0, 5.0, 1.0, 0.2)
"""As how many rows for each number the common covariances count in those of a class, the strongest first."""
SHARES = (0.0, 0.05, 0.2, 0.5)
"""Of a sphere in each covariance, tried in this order."""
MOST_LOSS = 12.0
"""Nats of a held-out row count at most, so that single rows do not choose; in a pool they do not either."""
RIDGE = 1e-3
"""Of the variances within classes, added to them."""
FOLDS = 5
WORTHWHILE = 1e-3
"""Nats of each held-out row: a share of the sphere that gains less is the last one tried."""


@builder(takes_target=Discrete, held_out=True)
def discriminant(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    random_state: Any = 0,
) -> Built:
    r"""Build the network of quadratic discriminant analysis: numbers with any covariance given the class.

    .. math:: f(c, x, d) = P(c) \; N(x; \mu_c, \Sigma_c) \prod_i P(d_i \mid c)

    Each number has the class and all numbers before it as parents, with linear regressions; categories are independent
    given the class, as in naive Bayes.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
        Only how categories are estimated, and whether numbers are cut into intervals, is up to the potentials.
    random_state : int, Generator or None
        Deals rows to folds, in which the covariances are regularized.

    Returns
    -------
    Network
        The class and below it the attributes, in the table's order.

    Notes
    -----
    The covariances of a class are drawn towards those within all classes together, as if these were those of some more
    rows, and these towards a sphere of the standardized numbers (Friedman's regularized discriminant analysis). How
    many rows, and what share the sphere has, is what predicts held-out rows best: from none to infinitely many, which
    is linear discriminant analysis, and from none to half. Missing cells are left out of means, vary as the others
    of their class do, and are marginalized exactly in prediction.

    References
    ----------
    Friedman (1989), "Regularized discriminant analysis".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> c = np.repeat(["apart", "alike"], 100)
    >>> net = discriminant({"x": x, "y": np.where(c == "alike", x, -x) + 0.3 * rng.normal(size=200), "c": c}, "c")
    >>> list(net.edges), net.posterior("c", {"x": 1.0, "y": 1.0}).mode()
    ([('c', 'x'), ('c', 'y'), ('x', 'y')], 'alike')
    """
    labeled, rows, count = read_labeled_data(data, target, potentials, weights, "discriminant functions")
    variable = labeled.variable(target)
    assert isinstance(variable, Discrete)
    analysis = DiscriminantAnalysis(labeled, variable)
    shrinkage, told = analysis.tune(make_generator(random_state))
    network = Network(analysis.list_potentials(shrinkage))
    return Built(network, HeldOutClasses.of(variable, told, rows, count))


class Shrinkage(NamedTuple):
    """As how many rows for each number the common covariances count, and the share of a sphere."""

    strength: float
    share: float


class Normals(NamedTuple):
    """Means (classes, numbers) and covariances (classes, numbers, numbers) of standardized numbers."""

    means: Values
    covariances: Values


class DiscriminantAnalysis:
    """Rows of numbers with classes."""

    def __init__(self, data: TrainingData, target: Discrete) -> None:
        self.data: TrainingData = data
        self.target: Discrete = target
        self.classes: Codes = data.codes(target.name)
        self.weights: Values = data.table.weights
        self.names: list[str] = [name for name in data.attributes if isinstance(data.variable(name), Continuous)]
        self.tables: list[str] = [name for name in data.attributes if name not in self.names]
        columns = [np.asarray(data.codes(name), dtype=np.float64) for name in self.names]
        values = np.stack(columns, axis=1) if columns else np.empty((len(self.classes), 0))
        self.known: NDArray[np.bool_] = ~np.isnan(values)
        shares = self.weights[:, None] * self.known
        totals = np.maximum(shares.sum(axis=0), 1e-300)
        filled = np.where(self.known, values, 0.0)
        self.centers: Values = (shares * filled).sum(axis=0) / totals
        scales = np.sqrt((shares * (filled - self.centers) ** 2).sum(axis=0) / totals)
        self.scales: Values = np.where(scales > 0, scales, 1.0)
        self.values: Values = np.where(self.known, (filled - self.centers) / self.scales, 0.0)

    def _measure(self, rows: NDArray[np.intp]) -> tuple[Values, Values, Values]:
        """Return weights, means and products of deviations of each class, missing cells being at the mean."""
        count, size = len(self.target), len(self.names)
        means, products = np.zeros((count, size)), np.zeros((count, size, size))
        totals: Values = np.bincount(self.classes[rows], self.weights[rows], count).astype(np.float64)
        for code in np.flatnonzero(totals):
            own = rows[self.classes[rows] == code]
            known = self.known[own]
            weights = self.weights[own, None] * known
            sums = weights.sum(axis=0)
            means[code] = (weights * self.values[own]).sum(axis=0) / np.maximum(sums, 1e-300)
            apart = np.where(known, self.values[own] - means[code], 0.0)
            # where a cell is missing, it varies with others as in the rows in which both are known
            pairs = (self.weights[own, None] * known).T @ known
            products[code] = (self.weights[own, None] * apart).T @ apart * ((totals[code] + 1) / (pairs + 1))
        return totals, means, products

    def estimate(self, rows: NDArray[np.intp], shrinkage: Shrinkage) -> Normals:
        """Return normal densities whose covariances are drawn towards the common ones, and towards a sphere."""
        totals, means, products = self._measure(rows)
        size = len(self.names)
        common = products.sum(axis=0) / max(totals.sum() - np.count_nonzero(totals), 1.0)
        common = common + RIDGE * np.diag(np.maximum(np.diag(common), RIDGE))
        # a class of few rows has little to say about its mean, too
        overall = totals @ means / totals.sum()
        means = (totals[:, None] * means + 0.5 * overall) / (totals[:, None] + 0.5)
        if np.isinf(shrinkage.strength):
            return Normals(means, np.broadcast_to(self._round_off(common, shrinkage.share), products.shape))
        prior = shrinkage.strength * size
        own = (products + prior * common) / (np.maximum(totals - 1, 0.0)[:, None, None] + prior)
        own += RIDGE * np.diag(np.maximum(np.diag(common), RIDGE))
        return Normals(means, self._round_off(own, shrinkage.share))

    def _round_off(self, covariances: Values, share: float) -> Values:
        """Return covariances (..., numbers, numbers) with a share of the sphere of the same mean variance."""
        size = covariances.shape[-1]
        variances = np.diagonal(covariances, axis1=-2, axis2=-1).sum(axis=-1) / max(size, 1)
        if not self.known.all():
            # those of pairs of numbers may contradict each other
            roots, vectors = np.linalg.eigh(covariances)
            roots = np.maximum(roots, RIDGE * variances[..., None])
            covariances = (vectors * roots[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        return np.asarray((1 - share) * covariances + share * variances[..., None, None] * np.eye(size))

    def tune(self, rng: np.random.Generator) -> tuple[Shrinkage, Values]:
        """Return the shrinkage that predicts held-out rows best, and their probabilities."""
        count = len(self.classes)
        folds = list(split_folds(deal_folds(count, FOLDS, rng, self.classes)))
        tables = np.zeros((count, len(self.target)))
        for rows, test in folds:
            tables[test] = self._score_tables(rows, test)
        best, chosen, told = np.inf, Shrinkage(STRENGTHS[0], 0.0), tables
        for share in SHARES if self.names else SHARES[:1]:
            before = best
            # rounder covariances need less of the common ones
            for strength in STRENGTHS[STRENGTHS.index(chosen.strength) :] if self.names else STRENGTHS[:1]:
                logs = tables.copy()
                for rows, test in folds:
                    logs[test] += self.score(self.estimate(rows, Shrinkage(strength, share)), test)
                logs -= logs.max(axis=1, keepdims=True)
                logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
                loss = float(np.minimum(-logs[np.arange(count), self.classes], MOST_LOSS) @ self.weights)
                if loss < best:
                    best, chosen, told = loss, Shrinkage(strength, share), np.exp(logs)
                elif share:
                    break
            if before - best < WORTHWHILE * self.weights.sum():
                break
        return chosen, told

    def _score_tables(self, rows: NDArray[np.intp], test: NDArray[np.intp]) -> Values:
        """Return the log probabilities of the class with the categories of some rows, learned from others."""
        training = self.data.take(rows)
        prior = training.fit(self.target.name, ()).probabilities()
        assert prior is not None
        scores = np.tile(np.log(prior), (len(test), 1))
        for name in self.tables:
            table = training.fit(name, (self.target.name,)).probabilities()
            assert table is not None
            cells = self.data.codes(name)[test]
            scores += np.where(cells[:, None] >= 0, np.log(table[:, np.maximum(cells, 0)].T), 0.0)
        return scores

    def score(self, normals: Normals, rows: NDArray[np.intp]) -> Values:
        """Return the log densities of the numbers of some rows in each class, missing ones left out."""
        scores = np.zeros((len(rows), len(self.target)))
        patterns, group = np.unique(self.known[rows], axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            own, kept = np.flatnonzero(group.ravel() == number), np.flatnonzero(pattern)
            if not len(kept):
                continue
            apart = self.values[np.ix_(rows[own], kept)] - normals.means[:, None, kept]
            roots = np.linalg.cholesky(normals.covariances[:, kept[:, None], kept])
            scaled = np.linalg.solve(roots, apart.transpose(0, 2, 1))
            logs = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
            scores[own] = (-0.5 * (scaled**2).sum(axis=1) - logs[:, None]).T
        return scores

    def fill(self) -> Values:
        """Return the numbers (rows, numbers), missing ones as expected given the others of the row, whatever its
        class.
        """
        filled = np.array(self.values)
        normals = self.estimate(np.arange(len(filled)), Shrinkage(np.inf, 0.0))
        shares = np.bincount(self.classes, self.weights, len(self.target)) / self.weights.sum()
        mean = shares @ normals.means
        apart = normals.means - mean
        covariance = normals.covariances[0] + (shares * apart.T) @ apart
        patterns, group = np.unique(self.known, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows, kept, lost = (
                np.flatnonzero(group.ravel() == number),
                np.flatnonzero(pattern),
                np.flatnonzero(~pattern),
            )
            slopes = np.linalg.solve(covariance[np.ix_(kept, kept)], covariance[np.ix_(kept, lost)])
            filled[np.ix_(rows, lost)] = mean[lost] + (filled[np.ix_(rows, kept)] - mean[kept]) @ slopes
        return filled

    def list_potentials(self, shrinkage: Shrinkage) -> list[Potential]:
        """Return the class, the numbers given it and those before them, and the categories given it."""
        potentials: dict[str, Potential] = {
            self.target.name: self.data.fit(self.target.name, ()),
            **{name: self.data.fit(name, (self.target.name,)) for name in self.tables},
        }
        potentials |= self.list_normals(self.estimate(np.arange(len(self.classes)), shrinkage))
        return [potentials[name] for name in (self.target.name, *self.data.attributes)]

    def list_normals(self, normals: Normals) -> dict[str, Potential]:
        """Return the densities of the numbers, each given the class and those before it."""
        potentials: dict[str, Potential] = {}
        means = self.centers + self.scales * normals.means
        # deviations times the inverse of the root are independent with variance one
        inverse = np.linalg.inv(np.linalg.cholesky(normals.covariances)) / self.scales
        before: list[Any] = []
        for number, name in enumerate(self.names):
            own = inverse[:, number]
            slopes = -own[:, :number] / own[:, number, None]
            variable = self.data.variable(name)
            potentials[name] = LinearGaussian(
                variable,  # type: ignore[arg-type]  # numbers are continuous
                (self.target, *before),
                intercept=means[:, number] - (slopes * means[:, :number]).sum(axis=1),
                coefficients=slopes,
                variance=1 / own[:, number] ** 2,
            )
            before.append(variable)
        return potentials
