"""Discriminant functions of classes as networks: of normal densities, and of logistic regression.

Discriminant analysis takes normal densities of all numbers together given the class. Logistic regression is naive Bayes
whose parameters are learned to tell the classes apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import split_folds
from hybridbn.fitting.ridge import regress_classes
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, make_generator
from hybridbn.potentials import LinearGaussian, Multinomial, Potential
from hybridbn.structures.building import Built, builder
from hybridbn.structures.heldout import predict_held_out_classes
from hybridbn.structures.mixture_statistics import NormalParameters, NumberBlock
from hybridbn.structures.training_data import TrainingData, read_data_with_class
from hybridbn.variables import Codes, Continuous, Discrete, Values

STRENGTHS = (np.inf, 20.0, 5.0, 1.0, 0.2)
"""The weight, in rows for each number, of the common covariances in those of a class, the strongest first."""
SHARES = (0.0, 0.05, 0.2, 0.5)
"""The shares of a sphere in each covariance that are tried, in this order."""
MOST_LOSS = 12.0
"""Nats of a held-out row count at most, so that single rows do not choose; in a pool they do not either."""
RIDGE = 1e-3
"""The share of the variances within classes that is added to them."""
FOLDS = 5
WORTHWHILE = 1e-3
"""Nats of each held-out row: a share of the sphere, or a penalty, that gains less is the last one tried."""


@builder(takes_target=Discrete, held_out=True)
def discriminant(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Built:
    r"""Build the network of quadratic discriminant analysis: numbers with any covariance given the class.

    .. math:: f(c, x, d) = P(c) \; N(x; \mu_c, \Sigma_c) \prod_i P(d_i \mid c)

    Each number has the class and all numbers before it as parents, with linear regressions; categories are independent
    given the class, as in naive Bayes.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
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
    read, variable = read_data_with_class(data, target, potentials, weights, "discriminant functions", **columns)
    return _build_tuned(DiscriminantAnalysis, read, variable, random_state)


def _build_tuned(
    model: Callable[[TrainingData, Discrete], DiscriminantAnalysis | _Regression],
    read: TrainingData,
    target: Discrete,
    random_state: Any,
) -> Built:
    """Build the network of a model that predicts held-out rows of the data best."""
    read.require_moments(read.attributes)
    labeled, dealt = read.deal(FOLDS, make_generator(random_state))
    analysis: Any = model(labeled, target)
    chosen, told = analysis.tune(dealt.parts)
    held_out = partial(predict_held_out_classes, variable=target, probabilities=dealt.average(told))
    return Built(Network(analysis.list_potentials(chosen)), held_out)


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

    def estimate(self, rows: NDArray[np.intp], strength: float = np.inf, share: float = 0.0) -> NormalParameters:
        """Return normal densities whose covariances are drawn towards the common ones, as if these were those of so
        many rows for each number, and have a share of a sphere.
        """
        totals, means, products = self._measure(rows)
        size = len(self.names)
        common = products.sum(axis=0) / max(totals.sum() - np.count_nonzero(totals), 1.0)
        common = common + RIDGE * np.diag(np.maximum(np.diag(common), RIDGE))
        # a class of few rows has little to say about its mean, too
        overall = totals @ means / totals.sum()
        means = (totals[:, None] * means + 0.5 * overall) / (totals[:, None] + 0.5)
        if np.isinf(strength):
            common = np.broadcast_to(self._round_off(common, share), products.shape)
            return NormalParameters(means[:, None], common[:, None])
        prior = strength * size
        own = (products + prior * common) / (np.maximum(totals - 1, 0.0)[:, None, None] + prior)
        own += RIDGE * np.diag(np.maximum(np.diag(common), RIDGE))
        return NormalParameters(means[:, None], self._round_off(own, share)[:, None])

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

    def tune(self, parts: Codes) -> tuple[tuple[float, float], Values]:
        """Return the shrinkage that predicts the rows of each fold best from the others, and their probabilities."""
        count = len(self.classes)
        folds = list(split_folds(parts))
        tables = np.zeros((count, len(self.target)))
        for rows, test in folds:
            tables[test] = self._score_tables(rows, test)
        best, chosen, told = np.inf, (STRENGTHS[0], 0.0), tables
        for share in SHARES if self.names else SHARES[:1]:
            before = best
            # rounder covariances need less of the common ones
            for strength in STRENGTHS[STRENGTHS.index(chosen[0]) :] if self.names else STRENGTHS[:1]:
                logs = tables.copy()
                for rows, test in folds:
                    logs[test] += self.score(self.estimate(rows, strength, share), test)
                logs = scipy.special.log_softmax(logs, axis=1)
                loss = float(np.minimum(-logs[np.arange(count), self.classes], MOST_LOSS) @ self.weights)
                if loss < best:
                    best, chosen, told = loss, (strength, share), np.exp(logs)
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

    def score(self, normals: NormalParameters, rows: NDArray[np.intp]) -> Values:
        """Return the log densities of the numbers of some rows in each class, missing ones left out."""
        log_densities = NumberBlock(self.values[rows], self.known[rows]).log_densities(normals)
        return log_densities[:, 0].T

    def fill(self) -> Values:
        """Return the numbers (rows, numbers), missing ones as expected given the others of the row, whatever its
        class.
        """
        filled = np.array(self.values)
        normals = self.estimate(np.arange(len(filled)))
        shares = np.bincount(self.classes, self.weights, len(self.target)) / self.weights.sum()
        mean = shares @ normals.means[:, 0]
        apart = normals.means[:, 0] - mean
        covariance = normals.covariances[0, 0] + (shares * apart.T) @ apart
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

    def list_potentials(self, shrinkage: tuple[float, float]) -> list[Potential]:
        """Return the class, the numbers given it and those before them, and the categories given it."""
        potentials: dict[str, Potential] = {
            self.target.name: self.data.fit(self.target.name, ()),
            **{name: self.data.fit(name, (self.target.name,)) for name in self.tables},
        }
        potentials |= self.list_normals(self.estimate(np.arange(len(self.classes)), *shrinkage))
        return [potentials[name] for name in (self.target.name, *self.data.attributes)]

    def list_normals(self, normals: NormalParameters, joint: bool = True) -> dict[str, Potential]:
        """Return the densities of the numbers, each given the class and, if they are correlated, those before it."""
        potentials: dict[str, Potential] = {}
        means = self.centers + self.scales * normals.means[:, 0]
        # deviations times the inverse of the root are independent with variance one
        inverse = np.linalg.inv(np.linalg.cholesky(normals.covariances[:, 0])) / self.scales
        variables: list[Any] = [self.data.variable(name) for name in self.names]
        for number, variable in enumerate(variables):
            own, before = inverse[:, number], slice(number if joint else 0)
            slopes = -own[:, before] / own[:, number, None]
            potentials[variable.name] = LinearGaussian(
                variable,
                (self.target, *variables[before]),
                intercept=means[:, number] - (slopes * means[:, before]).sum(axis=1),
                coefficients=slopes,
                variance=1 / own[:, number] ** 2,
            )
        return potentials


RIDGES = (30.0, 10.0, 3.0, 1.0, 0.3)
"""Penalties of squared coefficients of standardized columns, the strongest first."""
PRIOR_ROWS = 2.0
"""The weight of the prior: as if this many more rows had been seen, spread evenly over the classes."""
TOLERANCE, FINAL_TOLERANCE = 1e-4, 1e-8
"""The largest gradients, for each row, at which the optimization ends while the penalty is chosen, and at last."""
SCALINGS = 10
"""The number of times that the probabilities of states are rescaled to those of all cells."""
MOST_SHIFT = 300.0
"""Greatest difference of log probabilities between the classes' prior probabilities."""


@builder(takes_target=Discrete, held_out=True)
@share_passes
def logistic(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    correlated: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Built:
    r"""Build naive Bayes whose parameters are those of a multinomial logistic regression.

    In naive Bayes of tables and of normal densities with a variance for all classes, the log-odds of two classes are a
    constant, plus an amount for each state of a category, plus a multiple of each number: the form of logistic
    regression. Here the parameters are those that make the classes of the rows most probable given the attributes, less
    a penalty, in the place of those that make the attributes most probable. So attributes that say the same thing
    don't count twice. It explains a class as naive Bayes does, with a weight of evidence for each finding.

    .. math:: P(c \mid x) \propto P(c) \prod_i f(x_i \mid c), \qquad
        \log \frac{P(c \mid x)}{P(c_0 \mid x)} = a_c + \sum_i B_{ci} x_i

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
        Numbers have normal densities, or are cut into intervals: "auto", "gaussian", "multinomial".
    correlated : bool
        Whether the numbers have the class and all numbers before as parents, with the covariances within classes, as in
        linear discriminant analysis. That changes nothing where all cells are known. A missing number is then
        marginalized given the others, which predicts much better where they tell of it.
    random_state : int, Generator or None
        Deals rows to folds, in which the penalty is chosen.
    n_jobs : int, optional
        Threads that share the folds of a large table (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        As of `naive_bayes`. The densities of the attributes are made for the class: their log ratios between classes
        are learned, and what they have in common is such that all classes together are distributed as the cells are.
        The prior probabilities of the classes are not estimates of anything. Sampling is better left to another
        builder.

    Notes
    -----
    The penalty is that of the squared coefficients of standardized numbers and of indicators of states; the best of
    five on held-out rows is taken (five folds). A missing cell is left out of the sum while learning, and marginalized
    in prediction; folds are predicted as the network does.

    References
    ----------
    Greiner, Su, Shen & Zhou (2005), "Structural extension to logistic regression: discriminative parameter learning of
    belief net classifiers".

    Examples
    --------
    >>> data = {"x": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] * 4, "c": ["a", "a", "b", "a", "b", "b"] * 4}
    >>> net = logistic(data | {"copy": data["x"]}, "c")
    >>> list(net.edges), net.posterior("c", {"x": 5.0, "copy": 5.0}).mode()
    ([('c', 'x'), ('c', 'copy')], 'b')
    """
    read, variable = read_data_with_class(data, target, potentials, weights, "logistic regressions", **columns)
    for name in read.attributes:
        fitter = read.roles[name].fitter
        # heavy points of a number are numbers as others are
        fitter = fitter if isinstance(fitter, str) else fitter.density
        is_normal = fitter in ("auto", "gaussian") if isinstance(fitter, str) else fitter.is_normal
        if isinstance(read.variable(name), Continuous) and not is_normal:
            raise NetworkError(
                f"{name!r}: logistic takes normal densities and tables, not {fitter!r}; say potentials='gaussian', or"
                " 'multinomial' to cut numbers into intervals"
            )
    return _build_tuned(partial(_Regression, correlated=correlated), read, variable, random_state)


class _Block(NamedTuple):
    """The columns of the design of a category.

    Attributes
    ----------
    variable : Discrete
    columns : slice
    values : ndarray (rows, states)
        Centered indicators of states; zero where the cell is missing.
    missing : ndarray of bool (rows,)
    shares : ndarray (states,)
    """

    variable: Discrete
    columns: slice
    values: Values
    missing: NDArray[np.bool_]
    shares: Values


class _Regression:
    """A logistic regression on the attributes of a table: its design has ones, the numbers, and the categories."""

    def __init__(self, data: TrainingData, target: Discrete, correlated: bool) -> None:
        self.data, self.target = data, target
        self.normal = DiscriminantAnalysis(data, target)
        self.classes, self.weights, numbers = self.normal.classes, self.normal.weights, self.normal.values
        self.columns = slice(1, 1 + numbers.shape[1])
        self.correlated = correlated and numbers.shape[1] > 1
        self.shares = np.bincount(self.classes, self.weights, len(target)) / self.weights.sum()
        count = len(self.classes)
        self.wanted = np.zeros((count, len(target)))
        self.wanted[np.arange(count), self.classes] = self.weights
        if self.correlated:
            self.covariances = self.normal.estimate(np.arange(count)).covariances[0, 0]
            numbers = self.normal.fill()
        else:
            means = self.wanted.T @ numbers / np.maximum(self.wanted.T @ self.normal.known, 1e-300)
            squares = self.normal.known * (numbers - means[self.classes]) ** 2
            spreads = self.weights @ squares / np.maximum(self.weights @ self.normal.known, 1e-300)
            self.covariances = np.diag(np.maximum(spreads, 1e-3))
        self.wanted += PRIOR_ROWS / len(target) * (self.weights / self.weights.sum())[:, None]
        self.blocks = list(self._make_blocks())
        self.design = np.column_stack([np.ones(count), numbers, *(block.values for block in self.blocks)])

    def _make_blocks(self) -> Iterator[_Block]:
        start = self.columns.stop
        for name in self.normal.tables:
            variable, cells = self.data.variable(name), self.data.codes(name)
            assert isinstance(variable, Discrete)
            missing = cells < 0
            sums = np.bincount(cells[~missing], self.weights[~missing], len(variable)) + 0.5
            shares = sums / sums.sum()
            values = np.where(missing[:, None], 0.0, (cells[:, None] == np.arange(len(variable))) - shares)
            yield _Block(variable, slice(start, start + len(variable)), values, missing, shares)
            start += len(variable)

    def tune(self, parts: Codes) -> tuple[Values, Values]:
        """Return the parameters with the penalty that predicts the rows of each fold best from the others, and the
        held-out probabilities.
        """
        count = len(self.classes)
        folds = list(split_folds(parts))
        first = [np.zeros((len(self.target), self.design.shape[1]))] * len(folds)
        best, chosen, told = np.inf, RIDGES[0], np.empty(0)
        for ridge in RIDGES:
            logs = np.empty((count, len(self.target)))
            starts = zip([rows for rows, _ in folds], first, strict=True)
            first = list(self.data.rows.share(partial(self._regress, ridge), starts))
            for (_, test), parameters in zip(folds, first, strict=True):
                logs[test] = self._predict(parameters, test)
            loss = float(-logs[np.arange(count), self.classes] @ self.weights)
            if loss >= best:
                break
            gain, best, chosen, told = best - loss, loss, ridge, np.exp(logs)
            if gain < WORTHWHILE * self.weights.sum():
                break
        return self._regress(chosen, (np.arange(count), first[0]), FINAL_TOLERANCE), told

    def _regress(self, ridge: float, start: tuple[NDArray[np.intp], Values], least: float = TOLERANCE) -> Values:
        """Return the parameters learned from some rows, from those of another penalty."""
        rows, first = start
        tolerance = least * float(self.weights[rows].sum())
        design, targets = (np.ascontiguousarray(own[rows].T) for own in (self.design, self.wanted))
        return regress_classes(design, targets, np.zeros(first.shape), ridge, tolerance, first)

    def _predict(self, parameters: Values, rows: NDArray[np.intp]) -> Values:
        """Return the log probabilities (rows, classes) that the network of these parameters gives."""
        scores = self.design[rows] @ parameters.T
        factor = self._choose_factor(parameters)
        for block in self.blocks:
            missing = block.missing[rows]
            if missing.any():
                scores[missing] += self._log_mass(block, parameters)
        known, masses = self.normal.known[rows], self._log_masses(parameters, factor)
        holes = np.flatnonzero(~known.all(axis=1))
        if self.correlated:
            own = rows[holes]
            scores[holes] += masses.sum(axis=1) - self.design[own, self.columns] @ parameters[:, self.columns].T
            scores[holes] += self.normal.score(self._find_normals(parameters, factor), own)
        else:
            scores[holes] += ~known[holes] @ masses.T
        return np.asarray(scipy.special.log_softmax(scores, axis=1))

    def _log_mass(self, block: _Block, parameters: Values) -> Values:
        """Return by what a category's exponential factors are divided in each class, to be probabilities."""
        own = parameters[:, block.columns]
        return np.asarray(np.log(np.exp(own) @ self._choose_base(block, own)) - own @ block.shares)

    def _log_masses(self, parameters: Values, factor: float) -> Values:
        """Return by what the exponential factors of numbers are divided, to be densities (classes, numbers)."""
        own = parameters[:, self.columns]
        return np.asarray(factor * ((0.5 * own - self.shares @ own) @ self.covariances) * own)

    def _find_normals(self, parameters: Values, factor: float) -> NormalParameters:
        """Return normal densities of standardized numbers, whose mean over all classes is that of the cells."""
        own = parameters[:, self.columns]
        covariances = factor * self.covariances
        means = (own - self.shares @ own) @ covariances
        return NormalParameters(means[:, None], np.broadcast_to(covariances, (len(own), 1, *covariances.shape)))

    def _choose_base(self, block: _Block, own: Values) -> Values:
        """Return what the probabilities of states have in common, so that all classes together are distributed as the
        cells are.
        """
        base, odds = block.shares, np.exp(own - own.max(axis=1, keepdims=True))
        for _ in range(SCALINGS):
            base = base * block.shares / (self.shares @ (base * odds / (odds @ base)[:, None]))
        return np.asarray(base / base.sum())

    def _choose_factor(self, parameters: Values) -> float:
        """Return what the variances of numbers are multiplied by, so that no prior probability becomes zero."""
        span = float(np.ptp(self._log_masses(parameters, 1.0).sum(axis=1)))
        return min(1.0, MOST_SHIFT / span) if span > 0 else 1.0

    def list_potentials(self, parameters: Values) -> list[Potential]:
        """Return the class and the densities of the attributes given it."""
        factor = self._choose_factor(parameters)
        prior = parameters[:, 0] + self._log_masses(parameters, factor).sum(axis=1)
        potentials = self.normal.list_normals(self._find_normals(parameters, factor), self.correlated)
        for block in self.blocks:
            own = parameters[:, block.columns]
            prior += self._log_mass(block, parameters)
            table = self._choose_base(block, own) * np.exp(own - own.max(axis=1, keepdims=True))
            potentials[block.variable.name] = Multinomial(block.variable, (self.target,), table=table, normalize=True)
        classes = Multinomial(self.target, table=np.exp(prior - prior.max()), normalize=True)
        return [classes, *(potentials[name] for name in self.data.attributes)]
