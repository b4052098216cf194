"""The default network of imputation: discrete columns first, numbers after, each number a linear regression.

A number's parents are the discrete columns and the numbers before it that Akaike's information criterion (AIC) prefers,
each discrete column with one effect for each state. Discrete columns depend on each other and never on numbers, so that
all missing cells of a row can be drawn together in closed form. A dependence of a discrete column on a number is not
lost: the arc points the other way, and Bayes' rule inverts it. AIC, because a missing dependence biases whatever is
computed from the completed table, while a superfluous one costs some noise: with BIC, slopes near the threshold came
out too small. As many arcs as there are tens of observed cells are kept, whatever the criterion says: cells that were
drawn without a dependence would hide it for ever, and no draw would show that one may be there.

With discrete parents a regression has one of several forms, again by AIC: its own coefficients for each configuration,
or common slopes and an effect for each state of each parent; with a variance for each configuration or for all. All
forms come from the same moments. Common slopes and effects are shrunk by the ridge of the greatest marginal likelihood
(MacKay 1992), as many weak ones would otherwise add noise.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hybridbn.errors import TableError
from hybridbn.fitting import GaussianFitter, GaussianStatistics
from hybridbn.fitting.counting import NumpyCounter
from hybridbn.fitting.ridge import LEAST_RESIDUAL, Spectrum
from hybridbn.potentials import LinearGaussian
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values

Arc = tuple[str, str]

_MOST_CONFIGURATIONS = 512
"""Numbers depend on at most this many configurations of discrete columns, as a row may have to weigh all of them."""
_MOST_DISCRETE_COLUMNS = 6
"""Numbers depend on at most this many discrete columns, as each combination of missing ones takes a pass."""
_ROWS_PER_STATE = 8
"""A discrete column with fewer rows per state is never a parent of numbers."""
_ROWS_PER_PARAMETER = 10
"""One parameter of a number for so many observed cells is free: the ridge shrinks what is superfluous, and what is left
out stays out, as draws without a dependence don't show it."""
_MOST_DISCRETE_PARENTS = 3
"""A discrete column has at most this many parents, as its tables grow exponentially with them."""
_PARAMETER_PRICE = 1.0
"""The gain in log-likelihood that AIC wants for one more parameter."""
_COLLINEAR = 1e-9
"""A column whose residual has less than this share of its variance counts as a combination of the others."""
_RIDGE = 0.01
"""The ridge penalty, in rows, with which configurations are drawn to the regression of all rows."""
_RIDGES = np.geomspace(0.01, 1e4, 25)
"""Candidates for the ridge penalty of effects and slopes, in rows; the marginal likelihood chooses one:"""
_CLEARLY_LESS = 1.0
"""the least one whose logarithm of it is at most this far from the best, as each penalty shrinks what is estimated."""
_ROWS_OF_OWN_VARIANCE = 8
"""A configuration of fewer rows gets the variance of all rows."""


def conditional_gaussian_arcs(
    table: Table, observed: Mapping[str, float] | None = None, most_parents: int = 20
) -> list[Arc]:
    """Find the arcs of the default network for a complete table.

    Parameters
    ----------
    table : Table
        Without missing cells.
    observed : mapping from column to float, optional
        The number of observed cells in each column, which count as evidence, where others were filled in.
    most_parents : int
        The greatest number of parents; 1 makes a tree.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 200))
    >>> c = np.where(x + rng.normal(size=200) > 0, "b", "a")
    >>> sorted(conditional_gaussian_arcs(Table({"x": x, "y": x + noise, "z": rng.normal(size=200), "c": c})))
    [('c', 'x'), ('c', 'y'), ('c', 'z'), ('x', 'z'), ('y', 'x'), ('y', 'z')]
    """
    discrete = {variable.name: len(variable) for variable in table.variables if isinstance(variable, Discrete)}
    numbers = [name for name in table.names if name not in discrete]
    counter = NumpyCounter({name: table.column(name) for name in discrete}, discrete)
    design = _Design.of(table, numbers, counter, observed or {})
    influence = dict.fromkeys(discrete, 0.0)
    for name in set(discrete) & set(design.columns_of):
        influence[name] = sum(max(float(_ParentSelection(design, child, [name]).gains()[0]), 0.0) for child in numbers)
    arcs = _find_discrete_arcs(counter, len(table), influence, min(most_parents, _MOST_DISCRETE_PARENTS))
    return arcs + _find_number_arcs(design, numbers, [*discrete], influence, most_parents)


def best_target(table: Table, candidates: Sequence[str] | None = None) -> str:
    """Return the column of a complete table with the most information about the others; the first of several.

    Parameters
    ----------
    candidates : sequence of str, optional
        The columns to choose from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, a, b = rng.normal(size=(3, 200))
    >>> best_target(Table({"a": x + a, "x": x, "b": x + b}))
    'x'
    """
    names = list(table.names)
    columns = [_orthonormal_columns(table, name) for name in names]
    information = np.zeros(len(names))
    for i, j in itertools.combinations(range(len(names)), 2):
        information[[i, j]] += _mutual_information(columns[i], columns[j])
    allowed = np.array([candidates is None or name in candidates for name in names])
    if not allowed.any():
        raise TableError("no column is of the kind that the structure's target must be of; choose another structure")
    return names[int(np.argmax(np.where(allowed, information, -np.inf)))]


def _orthonormal_columns(table: Table, name: str) -> Values:
    """Return an orthonormal basis of a column's centered ranks or indicators of states."""
    variable, cells = table.variable(name), table.column(name)
    columns = (
        np.eye(len(variable))[cells]
        if isinstance(variable, Discrete)
        else np.argsort(np.argsort(cells, kind="stable"), kind="stable").astype(np.float64)[:, None]
    )
    u, s, _ = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    return np.asarray(u[:, s > 1e-9 * max(float(s.max(initial=0.0)), 1.0)])


def _mutual_information(a: Values, b: Values) -> float:
    """Return the mutual information of the canonical variables, taken as normal, less its expectation by chance."""
    correlations = np.linalg.svd(a.T @ b, compute_uv=False)
    information = -0.5 * np.log1p(-(np.minimum(correlations, 0.9999) ** 2)).sum()
    return float(max(information - 0.5 * a.shape[1] * b.shape[1] / len(a), 0.0))


# -- discrete columns -----------------------------------------------------------------------------------------------


def _find_discrete_arcs(
    counter: NumpyCounter, rows: int, influence: Mapping[str, float], most_parents: int
) -> list[Arc]:
    """Find the arcs between discrete columns, ordered by their information about the others."""
    names = list(counter.sizes)
    scores = {name: _family_score((name,), counter, rows) for name in names}
    information = dict(influence)
    for first, second in itertools.combinations(names, 2):
        gain = _family_score((first, second), counter, rows) - scores[second]
        information[first] += max(gain, 0.0)
        information[second] += max(gain, 0.0)
    order = sorted(names, key=information.__getitem__, reverse=True)
    arcs: list[Arc] = []
    for position, child in enumerate(order):
        parents: list[str] = []
        best = scores[child]
        while len(parents) < most_parents:
            rivals = [name for name in order[:position] if name not in parents]
            scores_of_rivals = {rival: _family_score((*parents, rival, child), counter, rows) for rival in rivals}
            rival = max(scores_of_rivals, key=scores_of_rivals.__getitem__, default="")
            if not scores_of_rivals or scores_of_rivals[rival] <= best:
                break
            parents.append(rival)
            best = scores_of_rivals[rival]
        arcs += [(parent, child) for parent in parents]
    return arcs


def _family_score(names: tuple[str, ...], counter: NumpyCounter, rows: int) -> float:
    """Return the AIC score of the last column given the others: its log-likelihood less the number of parameters."""
    if float(np.prod(counter.shape(names))) > max(rows, 64):
        return -np.inf
    counts = counter.joint(names)
    counts = counts.reshape(-1, counts.shape[-1])
    total = counts.sum(axis=1, keepdims=True)
    ratio = np.divide(counts, total, out=np.ones_like(counts, dtype=np.float64), where=counts > 0)
    free = np.count_nonzero(total) * (counts.shape[1] - 1)
    return float((counts * np.log(ratio)).sum()) - free * _PARAMETER_PRICE


# -- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Design:
    """Products of centered columns: standardized numbers, and an indicator for each state of the discrete columns.

    Attributes
    ----------
    products : ndarray (columns, columns)
    places : mapping from name to ndarray
        The column of a number, or the columns of all states of a discrete one, which are collinear.
    observed : mapping from name to float
        The number of observed cells of each number.
    """

    products: Values
    columns_of: Mapping[str, Codes]
    observed: Mapping[str, float]

    @classmethod
    def of(cls, table: Table, numbers: Sequence[str], counter: NumpyCounter, observed: Mapping[str, float]) -> _Design:
        centered = [table.column(name) - table.column(name).mean() for name in numbers]
        columns = [values / (float(np.sqrt(np.square(values).mean())) or 1.0) for values in centered]
        stacked, rows = np.array(columns).reshape(len(columns), len(table)), len(table)
        columns_of = {name: np.array([i]) for i, name in enumerate(numbers)}
        total = len(numbers)
        # the effect of a state with few rows would be noise
        sizes = {name: size for name, size in counter.sizes.items() if numbers and size * _ROWS_PER_STATE <= rows}
        for name, size in sizes.items():
            columns_of[name] = np.arange(total, total + size)
            total += size
        products = np.zeros((total, total))
        products[: len(numbers), : len(numbers)] = stacked @ stacked.T
        # counts replace products of indicators, whose arrays would be large
        counts = {name: np.bincount(table.column(name), minlength=size) for name, size in sizes.items()}
        for position, name in enumerate(sizes):
            for number in range(len(numbers)):
                sums = np.bincount(table.column(name), stacked[number], sizes[name])
                products[number, columns_of[name]] = products[columns_of[name], number] = sums
            products[columns_of[name], columns_of[name]] = counts[name]
            products[np.ix_(columns_of[name], columns_of[name])] -= np.outer(counts[name], counts[name]) / rows
            for other in list(sizes)[:position]:
                both = counter.joint((name, other)) - np.outer(counts[name], counts[other]) / rows
                products[np.ix_(columns_of[name], columns_of[other])] = both
                products[np.ix_(columns_of[other], columns_of[name])] = both.T
        return cls(products, columns_of, {name: observed.get(name, float(rows)) for name in numbers})


class _ParentSelection:
    """Forward selection of the parents of one number.

    The products of residuals given the parents are ``products - basis @ basis.T``; only those needed are computed.
    """

    def __init__(self, design: _Design, child: str, rivals: Sequence[str]) -> None:
        self.design = design
        self.child = int(design.columns_of[child][0])
        self.rows = design.observed[child]
        # the indicator of the last state is what those of the others leave
        self.groups = [design.columns_of[rival][: max(len(design.columns_of[rival]) - 1, 1)] for rival in rivals]
        sizes = np.array([len(group) for group in self.groups], dtype=np.intp)
        self.prices = sizes * _PARAMETER_PRICE
        self.wide_groups = np.flatnonzero(sizes > 1).tolist()
        self.columns = np.array([group[0] for group in self.groups], dtype=np.intp)
        # squares of the residual of each rival's first column, and its product with that of the child
        self.squares = np.diag(design.products)[self.columns]
        self.residual_squares, self.residual_with_child = self.squares.copy(), design.products[self.columns, self.child]
        self.residual_of_child = float(design.products[self.child, self.child])
        self.basis = np.zeros((len(design.products), 0))
        self.is_candidate = np.ones(len(self.groups), dtype=bool)

    def gains(self) -> Values:
        """Return the gain in score by each rival; -inf for those that are parents already."""
        usable = self.residual_squares > _COLLINEAR * self.squares
        explained = np.divide(
            self.residual_with_child**2, self.residual_squares, out=np.zeros_like(self.residual_squares), where=usable
        )
        for i in self.wide_groups:
            group = self.groups[i]
            with_child = self._residual_products(group, np.array([self.child]))[:, 0]
            explained[i] = (
                with_child
                @ np.linalg.pinv(self._residual_products(group, group), rcond=_COLLINEAR, hermitian=True)
                @ with_child
            )
        residual_of_child = max(
            self.residual_of_child, _COLLINEAR * float(self.design.products[self.child, self.child])
        )
        gains = -0.5 * self.rows * np.log1p(-np.clip(explained / residual_of_child, 0.0, 1 - _COLLINEAR)) - self.prices
        return np.where(self.is_candidate, gains, -np.inf)

    def add(self, number: int) -> None:
        """Add a rival to the parents."""
        group = self.groups[number]
        values, vectors = np.linalg.eigh(self._residual_products(group, group))
        is_kept = values > _COLLINEAR * values.max()
        residual = self._residual_products(np.arange(len(self.basis)), group)
        basis = residual @ (vectors[:, is_kept] / np.sqrt(values[is_kept]))
        self.basis = np.concatenate([self.basis, basis], axis=1)
        self.residual_squares = self.residual_squares - (basis[self.columns] ** 2).sum(axis=1)
        self.residual_with_child = self.residual_with_child - basis[self.columns] @ basis[self.child]
        self.residual_of_child -= float((basis[self.child] ** 2).sum())
        self.is_candidate[number] = False

    def _residual_products(self, rows: Codes, columns: Codes) -> Values:
        return np.asarray(self.design.products[np.ix_(rows, columns)] - self.basis[rows] @ self.basis[columns].T)


def _find_number_arcs(
    design: _Design, numbers: Sequence[str], discrete: Sequence[str], influence: Mapping[str, float], most_parents: int
) -> list[Arc]:
    """Find the arcs to numbers, ordered by the sum of their correlations."""
    candidates: list[str] = []
    configurations = 1
    for name in sorted(discrete, key=influence.__getitem__, reverse=True):
        states = len(design.columns_of.get(name, ()))
        if states and configurations * states <= _MOST_CONFIGURATIONS and len(candidates) < _MOST_DISCRETE_COLUMNS:
            candidates.append(name)
            configurations *= states
    size = len(numbers)
    correlations = np.abs(design.products[:size, :size]).sum(axis=1)
    order = [numbers[i] for i in np.argsort(-correlations, kind="stable")]
    return [
        (parent, child)
        for position, child in enumerate(order)
        for parent in _select_parents(design, child, [*candidates, *order[:position]], most_parents)
    ]


def _select_parents(design: _Design, child: str, rivals: Sequence[str], most_parents: int) -> list[str]:
    """Select parents greedily: add the column with the greatest gain as long as one has any, or parameters are free."""
    search, parents = _ParentSelection(design, child, rivals), list[str]()
    free = 0.0 if most_parents == 1 else search.rows / _ROWS_PER_PARAMETER
    if search.prices.sum() <= free and len(rivals) <= most_parents:
        return [*rivals]
    while len(parents) < min(most_parents, len(rivals)):
        gains = search.gains()
        best = int(np.argmax(gains))
        free -= search.prices[best]
        if not (gains[best] > 0 or free >= 0):
            break
        search.add(best)
        parents.append(rivals[best])
    return parents


@dataclass(frozen=True, kw_only=True)
class ImputationRegression(GaussianFitter):
    """Learns a linear Gaussian conditional of the form that Akaike's criterion prefers.

    Variances are unbiased: sums of squared residuals over rows less coefficients.

    Attributes
    ----------
    price : float
        Of a parameter, in units of Akaike's. With the weights of a bootstrap it is two, as what a parameter fits by
        chance in the rows, and once more in their weights, counts twice.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> c, x, noise = rng.integers(2, size=200), *rng.normal(size=(2, 200))
    >>> table = hb.Table({"c": c, "x": x, "y": c + 2 * x + noise}, discrete="c")
    >>> parents = table.variable("c"), table.variable("x")
    >>> ImputationRegression().fit(table, table.variable("y"), parents).coefficients.round(2)
    array([[1.97],
           [1.97]])
    """

    ridge: float = _RIDGE
    price: float = 1.0

    def potential(self, statistics: Any) -> LinearGaussian:
        """Return the regression."""
        fitted = super().potential(statistics)
        shape, size = fitted.intercept.shape, statistics.weights.size
        forms = _fit_additive(statistics, fitted)
        if size > 1:
            coefficients = 1 + fitted.coefficients.shape[-1]
            has_enough = statistics.weights >= 1 + coefficients
            rows = np.where(has_enough, statistics.weights, statistics.total)
            # coefficients make residuals smaller than errors
            variance = fitted.variance.reshape(size) * (rows / np.maximum(rows - coefficients, 1.0))
            # configurations of few rows share a regression
            parameters = (1 + coefficients) * float(
                has_enough.sum() + bool((statistics.weights[~has_enough] > 0).any())
            )
            forms.append(
                _Form(fitted.intercept.reshape(size), fitted.coefficients.reshape(size, -1), variance, parameters)
            )
        best = min(forms, key=partial(_find_loss, statistics, self.price))
        return LinearGaussian(
            fitted.child,
            fitted.parents,
            intercept=best.intercept.reshape(shape),
            coefficients=best.slopes.reshape(*shape, -1),
            variance=best.variance.reshape(shape),
        )


class _Form(NamedTuple):
    """A regression for each configuration, and its number of parameters."""

    intercept: Values
    slopes: Values
    variance: Values
    parameters: float


def _fit_additive(statistics: GaussianStatistics, fitted: LinearGaussian) -> list[_Form]:
    """Fit the regressions with common slopes and additive effects of states."""
    sizes, n, total = fitted.intercept.shape, statistics.weights, statistics.total
    codes = np.unravel_index(np.arange(n.size), sizes) if sizes else ()
    effects = np.concatenate([np.zeros((n.size, 0)), *(np.eye(k)[c] for k, c in zip(sizes, codes, strict=True))], 1)
    shares = n @ effects / total
    effects -= shares
    center, products = statistics.pool()
    scales = np.sqrt(np.diag(products) / total)
    scales = np.where(scales > 0, scales, 1.0)
    products = products / np.outer(scales, scales)
    weighted = effects * n[:, None]
    across = weighted.T @ ((statistics.means - center) / scales)
    gram = np.block([[effects.T @ weighted, across[:, 1:]], [across[:, 1:].T, products[1:, 1:]]])
    target = np.concatenate([across[:, 0], products[1:, 0]])
    spectrum, square = Spectrum.of(gram, target), float(products[0, 0])
    losses = spectrum.negative_log_evidence(square, _RIDGES, total)
    ridge = float(_RIDGES[np.argmax(losses <= losses.min() + _CLEARLY_LESS)])
    solution = spectrum.slopes(ridge)
    # the effects of each parent's states sum to zero
    free = min(spectrum.coefficients(ridge), len(target) - len(sizes))
    n_effects = effects.shape[1]
    slopes = solution[n_effects:] * scales[0] / scales[1:]
    intercept = center[0] + effects @ solution[:n_effects] * scales[0] - center[1:] @ slopes
    slopes = np.broadcast_to(slopes, (n.size, len(slopes)))
    squares = statistics.sum_squares(intercept, slopes) * (total / max(total - (1 + free), 1.0))
    pooled = max(squares.sum() / total, LEAST_RESIDUAL * scales[0] ** 2)
    forms = [_Form(intercept, slopes, np.full(n.size, pooled), free + 2.0)]
    if sizes:
        has_enough = n >= _ROWS_OF_OWN_VARIANCE
        # one more row with the variance of all is added to each configuration
        variances = np.where(has_enough, (squares + pooled) / (n + 1), pooled)
        forms.append(_Form(intercept, slopes, variances, free + 1.0 + float(has_enough.sum() + (~has_enough).any())))
    return forms


def _find_loss(statistics: GaussianStatistics, price: float, form: _Form) -> float:
    """Return half of Akaike's criterion, but for a constant; a parameter costs so many of its."""
    squares = statistics.sum_squares(form.intercept, form.slopes)
    return price * form.parameters + float(
        0.5 * (statistics.weights * np.log(form.variance) + squares / form.variance).sum()
    )
