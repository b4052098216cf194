"""Multinomial logistic regression with a ridge, for a discrete child of continuous parents."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hybridbn.errors import NetworkError, warn_user
from hybridbn.fitting.base import Fitter, Statistics, has_numbers, observed, refuse_empty, split_by_kind
from hybridbn.fitting.counting import encode_configurations, refuse_too_wide
from hybridbn.potentials import Softmax
from hybridbn.potentials.base import freeze
from hybridbn.variables import Codes, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows

__all__ = ["SoftmaxFitter", "SoftmaxStatistics", "regress_classes"]

_NEWTON = 200
"""Most parameters for Newton's method, whose matrix has their square; more are left to a quasi-Newton method."""
_MOST_STEPS = 200
_ROUNDING, _NEARLY, _ROUGHLY = 1e-16, 1e-7, 1e-6
"""Shares of the weight that the last Newton step gains: the error that it leaves is of the order of its square."""
_THIN, _FEWEST_ROWS = 8, 512
"""Every eighth row is fitted before all of them, if so many are left."""
_BLOCK = 4096
"""Rows whose products are held at a time, so that they stay in the cache."""
_MOST_QUASI_STEPS = 10_000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SoftmaxStatistics(Statistics):
    """The rows themselves, as a logistic regression has no smaller sufficient statistics.

    Attributes
    ----------
    cells : ndarray (rows,)
        The configuration of the discrete parents.
    codes : ndarray (rows,)
        The child's state.
    values : ndarray (rows, continuous parents)
    weights : ndarray (rows,)
    """

    cells: Codes
    codes: Codes
    values: Values
    weights: Values

    def __post_init__(self) -> None:
        for name in ("cells", "codes", "values", "weights"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    def merged(self, other: Self) -> Self:
        """Put the rows together."""
        return replace(
            self,
            total=self.total + other.total,
            cells=np.concatenate([self.cells, other.cells]),
            codes=np.concatenate([self.codes, other.codes]),
            values=np.concatenate([self.values, other.values]),
            weights=np.concatenate([self.weights, other.weights]),
        )

    def log_likelihood(self, regressions: Softmax) -> float:
        """Return the logarithm of the probability that regressions give to the rows."""
        _, continuous = split_by_kind(self.parents)
        k, columns = len(self.child), len(continuous)  # type: ignore[arg-type]
        intercepts, slopes = regressions.intercept.reshape(-1, k), regressions.coefficients.reshape(-1, k, columns)
        order, ends = _sort_by_cell(self.cells, len(intercepts))
        likelihood = 0.0
        for cell, (start, stop) in enumerate(itertools.pairwise([0, *ends])):
            if start < stop:
                rows = slice(None) if stop - start == len(order) else order[start:stop]
                logits = slopes[cell] @ self.values[rows].T + intercepts[cell][:, None]
                logits -= logits.max(axis=0)
                own = np.take_along_axis(logits, self.codes[None, rows].astype(np.intp), axis=0)[0]
                likelihood += float(self.weights[rows] @ (own - np.log(np.exp(logits).sum(axis=0))))
        return likelihood


def _sort_by_cell(cells: Codes, size: int) -> tuple[Codes, list[int]]:
    """Return the rows in the order of their cells, and where each cell ends."""
    # short integers are sorted by their digits
    order = np.argsort(cells.astype(np.min_scalar_type(size)), kind="stable")
    return order, np.cumsum(np.bincount(cells, minlength=size)).tolist()


@dataclass(frozen=True, kw_only=True)
class SoftmaxFitter(Fitter):
    r"""Learns a logistic regression for each configuration of the discrete parents.

    With z the continuous parents, standardized by their means and deviations in the whole table, it minimizes

    .. math:: -\sum_i w_i \Bigl(\log P(c_i \mid z_i) + \frac{m}{n k} \sum_c \log P(c \mid z_i)\Bigr)
              + \frac r2 \sum_{cj} B_{cj}^2

    over all rows, n being their weight and k the number of states: as if m more rows had been seen, spread evenly over
    the states. Where there are discrete parents, it then minimizes for each configuration d

    .. math:: -\sum_{i \in d} w_i \log P_d(c_i \mid z_i) - m \sum_c P(c \mid 0) \log P_d(c \mid 0)
              + \frac r2 \sum_{cj} (B_{dcj} - B_{cj})^2,

    so that a configuration with few rows stays near the regression of all rows, and an empty one is that. The m rows
    keep states possible that were not seen, and without continuous parents make this an `MEstimate`; the ridge keeps
    slopes finite where the states can be separated. The result does not depend on the parents' units.

    Parameters
    ----------
    ridge : float
        r, positive; 1 / C of scikit-learn's `LogisticRegression`.
    m : float
        Positive.
    max_bytes : int
        Larger arrays of parameters are refused with `TooWide`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "c": ["a", "a", "b", "a", "b", "b"]})
    >>> potential = SoftmaxFitter().fit(table, table.variable("c"), (table.variable("x"),))
    >>> potential(c="b", x=[1.0, 3.5, 6.0]).round(2)
    array([0.21, 0.5 , 0.79])
    """

    name: ClassVar[str] = "softmax"
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial", "gaussian")

    ridge: float = 1.0
    m: float = 2.0
    max_bytes: int = 2**31

    def __post_init__(self) -> None:
        for option in ("ridge", "m"):
            if not 0 < getattr(self, option) < math.inf:
                raise NetworkError(
                    f"{option} must be a positive number, not {getattr(self, option)!r}; a small one such as 1e-6 comes"
                    " close to maximum likelihood"
                )

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Discrete variables that have a number among their parents."""
        return isinstance(child, Discrete) and has_numbers(child, parents)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> SoftmaxStatistics:
        """Collect the rows where child and parents are observed."""
        if not isinstance(child, Discrete):
            raise NetworkError(
                f"{child.name!r} is continuous, and the child of a logistic regression is discrete; use GaussianFitter"
            )
        discrete, continuous = split_by_kind(parents)
        sizes = [len(parent) for parent in discrete]
        cells = math.prod(sizes) * len(child) * (1 + len(continuous))
        refuse_too_wide(child, parents, cells, self.max_bytes, "array of coefficients")
        (own, *others), weights, total = observed(table, child, parents)
        column = dict(zip(parents, others, strict=True))
        numbers = [column[parent] for parent in continuous]
        return SoftmaxStatistics(
            child=child,
            parents=parents,
            total=total,
            cells=encode_configurations([column[parent] for parent in discrete], sizes, len(own)),
            codes=own,
            values=np.stack(numbers, axis=1) if numbers else np.zeros((len(own), 0)),
            weights=np.ones(len(own)) if weights is None else weights,
        )

    def potential(self, statistics: Any) -> Softmax:
        """Return the regressions."""
        return self._regress(statistics, None, _ROUNDING)

    def approximate(self, statistics: SoftmaxStatistics, near: Softmax | None = None) -> Softmax:
        """Return the regressions to about nine digits of their likelihood, in less time where those of nearly the same
        parents are known.

        Parameters
        ----------
        statistics : SoftmaxStatistics
        near : Softmax, optional
            Regressions of the same child, from which the search begins.

        Examples
        --------
        >>> import hybridbn as hb
        >>> table = hb.Table({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 1.0, 0.0], "c": ["a", "b", "a", "b"]})
        >>> c, x, y = (table.variable(name) for name in "cxy")
        >>> fitter = SoftmaxFitter()
        >>> near = fitter.fit(table, c, (x,))
        >>> fitter.approximate(fitter.statistics(table, c, (x, y)), near)(c="b", x=[3.0], y=0.5).round(2)
        array([0.55])
        """
        return self._regress(statistics, near, _NEARLY)

    def _regress(self, statistics: Any, near: Softmax | None, enough: float) -> Softmax:
        refuse_empty(statistics)
        discrete, continuous = split_by_kind(statistics.parents)
        shape, k = tuple(len(parent) for parent in discrete), len(statistics.child)
        columns, weights = statistics.values.T, statistics.weights
        mean = columns @ weights / statistics.total
        # the second pass removes what rounding left in the first
        mean = mean + (columns - mean[:, None]) @ weights / statistics.total
        centered = columns - mean[:, None]
        scale = np.sqrt(centered**2 @ weights / statistics.total)
        # what is left of a constant after its mean is taken away is a few units in the last place
        scale = np.where(scale > 4 * np.finfo(float).eps * np.abs(mean), scale, np.inf)
        design = np.concatenate([np.ones((1, len(weights))), centered / scale[:, None]])
        targets = (statistics.codes == np.arange(k)[:, None]) * weights
        smoothed = targets + (self.m / k / statistics.total) * weights
        first = None if near is None else _standardize(near, statistics.parents, mean, scale)
        begin = None if first is None else first.mean(axis=0)
        common = regress_classes(design, smoothed, np.zeros((k, len(design))), self.ridge, first=begin, enough=enough)
        solved = np.broadcast_to(common, (math.prod(shape), *common.shape)).copy()
        if discrete:
            center = np.zeros((len(design), 1))
            center[0] = 1.0
            prior = self.m * _softmax(common[:, 0])[:, None]
            order, ends = _sort_by_cell(statistics.cells, len(solved))
            for cell, (start, stop) in enumerate(itertools.pairwise([0, *ends])):
                if start < stop:
                    rows = order[start:stop]
                    solved[cell] = regress_classes(
                        np.concatenate([design[:, rows], center], axis=1),
                        np.concatenate([targets[:, rows], prior], axis=1),
                        common,
                        self.ridge,
                        first=None if first is None else first[cell],
                        enough=enough,
                    )
        coefficients = solved[:, :, 1:] / scale
        intercept = solved[:, :, 0] - coefficients @ mean
        return Softmax(
            statistics.child,
            parents=statistics.parents,
            intercept=intercept.reshape(*shape, k),
            coefficients=coefficients.reshape(*shape, k, len(continuous)),
        )


def _standardize(near: Softmax, parents: tuple[Variable, ...], mean: Values, scale: Values) -> Values:
    """Return the parameters of regressions for standardized parents (configurations, states, columns): the mean over
    the configurations of discrete parents that are left out, zero for continuous ones that are new.
    """
    discrete, continuous = split_by_kind(parents)
    known, numbers = split_by_kind(near.parents)
    parameters = np.concatenate([near.intercept[..., None], near.coefficients], axis=-1)
    left_out = tuple(axis for axis, parent in enumerate(known) if parent not in discrete)
    parameters = parameters.mean(axis=left_out)
    kept = [parent for parent in known if parent in discrete]
    order = [kept.index(parent) for parent in discrete if parent in kept]
    parameters = parameters.transpose(*order, -2, -1)
    sizes = [len(parent) if parent in kept else 1 for parent in discrete]
    parameters = parameters.reshape(*sizes, *parameters.shape[-2:])
    result = np.zeros((*(len(parent) for parent in discrete), parameters.shape[-2], 1 + len(continuous)))
    result[..., 0] = parameters[..., 0]
    for column, parent in enumerate(continuous):
        if parent in numbers and np.isfinite(scale[column]):
            slope = parameters[..., 1 + numbers.index(parent)]
            result[..., 0] += slope * mean[column]
            result[..., 1 + column] = slope * scale[column]
    return result.reshape(-1, *result.shape[-2:])


def regress_classes(
    design: Values,
    targets: Values,
    start: Values,
    ridge: float,
    tolerance: float | None = None,
    first: Values | None = None,
    enough: float = _ROUNDING,
) -> Values:
    """Return the parameters (states, columns) of a logistic regression that are pulled toward those at the start.

    Parameters
    ----------
    design : ndarray (columns, rows)
        The first column is ones; its parameters are not pulled.
    targets : ndarray (states, rows)
        The weight of each state in each row.
    start : ndarray (states, columns)
    ridge : float
    tolerance : float, optional
        Of the gradient, for approximate parameters in little time.
    first : ndarray (states, columns), optional
        Where the search begins, by default at the start.
    enough : float
        Newton's method ends with a step that gains less than this times the weight, and leaves an error of the order
        of its square.

    Examples
    --------
    >>> design = np.array([[1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]])
    >>> regress_classes(design, np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]), np.zeros((2, 2)), 1.0).round(2)
    array([[ 0.49, -0.33],
           [-0.49,  0.33]])
    """
    problem = _Problem(design, targets, start, ridge)
    if tolerance is None and start.size <= _NEWTON:
        return _minimize_by_newton(problem, first, enough)
    from scipy.optimize import minimize

    minimum = minimize(
        problem.objective,
        (start if first is None else first).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={
            "maxiter": _MOST_QUASI_STEPS,
            "maxfun": 2 * _MOST_QUASI_STEPS,
            "maxcor": 30,
            "ftol": 0.0,
            "gtol": 1e-8 if tolerance is None else tolerance,
        },
    )
    if minimum.nit >= _MOST_QUASI_STEPS:
        _warn_unconverged()
    return np.asarray(minimum.x.reshape(start.shape))


@dataclass(frozen=True)
class _Problem:
    """A penalized logistic regression: the columns of a design, and the weights of each state."""

    design: Values
    targets: Values
    start: Values
    ridge: float

    def probabilities(self, parameters: Values) -> tuple[Values, Values, Values]:
        """Return each row's logits relative to the largest and probabilities (states, rows), and the logarithm of what
        the exponentials of the logits add up to.
        """
        # reductions over the first axis are several times faster
        logits = parameters @ self.design
        logits -= logits.max(axis=0)
        shares = np.exp(logits)
        total = shares.sum(axis=0)
        shares /= total
        return logits, shares, np.log(total)

    def objective(self, flat: Values) -> tuple[float, Values]:
        """Return value and gradient."""
        value, gradient, _ = self.evaluate(flat)
        return value, gradient

    def evaluate(self, flat: Values) -> tuple[float, Values, Values]:
        """Return value, gradient and probabilities.

        The penalty of the sum of the intercepts picks one of the many equal solutions: adding a constant to all of
        them changes no probability.
        """
        parameters = flat.reshape(self.start.shape)
        logits, shares, log_total = self.probabilities(parameters)
        away = parameters[:, 1:] - self.start[:, 1:]
        drift = parameters[:, 0].sum()
        value = float(self.weights @ log_total) - float(np.vdot(self.targets, logits))
        value += 0.5 * self.ridge * (away**2).sum() + 0.5 * self.pin * drift**2
        gradient = (self.weights * shares - self.targets) @ self.design.T
        gradient[:, 1:] += self.ridge * away
        gradient[:, 0] += self.pin * drift
        return float(value), gradient.ravel(), shares

    @cached_property
    def weights(self) -> Values:
        """The weight of each row."""
        return np.asarray(self.targets.sum(axis=0))

    @cached_property
    def pin(self) -> float:
        """Weight of the penalty of the intercepts' sum, of the order of the other curvatures."""
        return float(self.weights.sum() / len(self.start) ** 2)

    def thin(self, step: int) -> _Problem:
        """Return the problem of every so many-th row, each of which stands for so many."""
        return _Problem(self.design[:, ::step].copy(), step * self.targets[:, ::step], self.start, self.ridge)

    def curvature(self, flat: Values, shares: Values | None = None) -> Values:
        """Return the matrix of second derivatives; the probabilities need not be computed again if they are given."""
        k, p = self.start.shape
        if shares is None:
            shares = self.probabilities(flat.reshape(self.start.shape))[1]
        pairs = list(itertools.combinations(range(k), 2))
        states, others = [c for c, _ in pairs], [d for _, d in pairs]
        products = np.zeros((len(pairs) * p, p))
        for begin in range(0, shares.shape[1], _BLOCK):
            part = slice(begin, begin + _BLOCK)
            own, rows = shares[:, part], self.design[:, part]
            factors = (own * self.weights[part])[states] * own[others]
            products += (factors[:, None] * rows).reshape(len(products), rows.shape[1]) @ rows.T
        matrix = np.zeros((k, p, k, p))
        for (c, d), block in zip(pairs, products.reshape(-1, p, p), strict=True):
            # the derivatives of probabilities that add up to one add up to zero
            matrix[c, :, d] = matrix[d, :, c] = -block
            matrix[c, :, c] += block
            matrix[d, :, d] += block
        diagonal = np.arange(k)
        for j in range(1, p):
            matrix[diagonal, j, diagonal, j] += self.ridge
        matrix[:, 0, :, 0] += self.pin
        return matrix.reshape(k * p, k * p)


def _minimize_by_newton(problem: _Problem, first: Values | None, enough: float) -> Values:
    """Minimize by damped Newton steps; the objective is strictly convex."""
    if first is None:
        first = problem.start
        if problem.design.shape[1] > _THIN * _FEWEST_ROWS:
            # few steps are left from the minimum of some of the rows to that of all
            first = _minimize_by_newton(problem.thin(_THIN), None, _ROUGHLY)
    flat = first.ravel()
    value, gradient, shares = problem.evaluate(flat)
    before = math.inf
    for _ in range(_MOST_STEPS):
        step = -np.linalg.solve(problem.curvature(flat, shares), gradient)
        promised = -float(gradient @ step)
        # the sums have as many terms as there is weight, and so much rounding even where they are small
        size = abs(value) + float(problem.weights.sum())
        if promised <= enough * size:
            return (flat + step).reshape(problem.start.shape)
        if promised <= 1e-13 * size and promised > 0.5 * before:
            return flat.reshape(problem.start.shape)
        length = 1.0
        while True:
            tried = flat + length * step
            new_value, new_gradient, new_shares = problem.evaluate(tried)
            if new_value <= value - 1e-4 * length * promised + 1e-15 * size or length < 1e-8:
                break
            length /= 2
        flat, value, gradient, shares, before = tried, new_value, new_gradient, new_shares, promised
    _warn_unconverged()
    return flat.reshape(problem.start.shape)


def _warn_unconverged() -> None:
    warn_user("a logistic regression did not converge; a larger ridge would help", RuntimeWarning)


def _softmax(logits: Values) -> Values:
    shares = np.exp(logits - logits.max())
    return np.asarray(shares / shares.sum())
