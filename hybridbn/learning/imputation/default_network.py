"""The structure that imputation uses by default: discrete columns first, numbers after, each number a regression.

A number's parents are the discrete columns and the numbers before it that Akaike's information criterion (AIC) allows, each
discrete column with one effect for each state; discrete columns depend on each other and never on numbers, so that all
missing cells of a row can be drawn together in closed form. What a number tells about a discrete column is not lost by that:
the arc is the other way round, and Bayes' rule turns it. AIC, because a dependence that is left out biases whatever is
computed from the completed table, while a needless one costs some noise: with BIC, slopes near the threshold came out too
small.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hybridbn.errors import TableError
from hybridbn.fitting.counters import NumpyCounter
from hybridbn.fitting.gaussian import GaussianFitter, GaussianStatistics
from hybridbn.fitting.ridge import LEAST_RESIDUAL, MarginalLikelihood, Spectrum
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["Regression", "best_target", "conditional_gaussian_arcs"]

Arc = tuple[str, str]

_MOST_CONFIGURATIONS = 512
"""Of the discrete columns that are parents of numbers together: a row may have to weigh all of them."""
_MOST_GIVEN = 6
"""Of these columns: each combination of them that is missing somewhere takes a pass."""
_ROWS_A_STATE = 8
"""A discrete column with fewer rows for each state is no parent of numbers."""
_MOST_DISCRETE = 3
"""Parents of a discrete column, at most."""
_PRICE = 1.0
"""Of one more parameter, in log-likelihood: AIC."""
_SAME = 1e-9
"""A column of which others leave less than this share is a combination of them."""


def conditional_gaussian_arcs(
    table: Table, observed: Mapping[str, float] | None = None, most_parents: int = 20
) -> list[Arc]:
    """Return the arcs for a complete table.

    Parameters
    ----------
    table : Table
        Without missing cells.
    observed : mapping from column to float, optional
        How many cells of a column count as evidence, where some have been filled in.
    most_parents : int
        The most parents of a number; 1 makes a tree.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 200))
    >>> c = np.where(x + rng.normal(size=200) > 0, "b", "a")
    >>> sorted(conditional_gaussian_arcs(Table({"x": x, "y": x + noise, "z": rng.normal(size=200), "c": c})))
    [('c', 'x'), ('c', 'y'), ('y', 'x'), ('y', 'z')]
    """
    discrete = [name for name in table.names if table.is_discrete(name)]
    numbers = [name for name in table.names if not table.is_discrete(name)]
    design = _Design.of(table, numbers, discrete, observed or {})
    ties = dict.fromkeys(discrete, 0.0)
    for name in set(discrete) & set(design.places):
        ties[name] = sum(max(float(_Search(design, child, [name]).gains()[0]), 0.0) for child in numbers)
    arcs = _discrete_arcs(table, discrete, ties, min(most_parents, _MOST_DISCRETE))
    return arcs + _number_arcs(design, numbers, discrete, ties, most_parents)


def best_target(table: Table, candidates: Sequence[str] | None = None) -> str:
    """Return the column of a complete table that tells most about all the others together, of equals the first.

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
    columns = [_indicators(table, name) for name in names]
    told = np.zeros(len(names))
    for i, j in itertools.combinations(range(len(names)), 2):
        told[[i, j]] += _association(columns[i], columns[j])
    allowed = np.array([candidates is None or name in candidates for name in names])
    if not allowed.any():
        raise TableError("no column is of the kind that the structure's target must be of; choose another structure")
    return names[int(np.argmax(np.where(allowed, told, -np.inf)))]


def _indicators(table: Table, name: str) -> Values:
    """Return a column as an orthonormal basis: of its ranks, or of its states."""
    variable, cells = table.variable(name), table.column(name)
    if isinstance(variable, Discrete):
        found = np.eye(len(variable))[cells]
    else:
        found = np.argsort(np.argsort(cells, kind="stable"), kind="stable").astype(np.float64)[:, None]
    u, s, _ = np.linalg.svd(found - found.mean(axis=0), full_matrices=False)
    return np.asarray(u[:, s > 1e-9 * max(float(s.max(initial=0.0)), 1.0)])


def _association(a: Values, b: Values) -> float:
    """Return the mutual information of the canonical variables, were they normal, less what chance makes of it."""
    correlations = np.linalg.svd(a.T @ b, compute_uv=False)
    told = -0.5 * np.log1p(-(np.minimum(correlations, 0.9999) ** 2)).sum()
    return float(max(told - 0.5 * a.shape[1] * b.shape[1] / len(a), 0.0))


# -- discrete columns -----------------------------------------------------------------------------------------------


def _discrete_arcs(table: Table, names: Sequence[str], ties: Mapping[str, float], most: int) -> list[Arc]:
    """Return the parents of the discrete columns, those that tell most about others being first in line."""
    counter = NumpyCounter({name: table.column(name) for name in names}, {name: _states(table, name) for name in names})
    scores = {name: _family_score((name,), counter, len(table)) for name in names}
    told = dict(ties)
    for first, second in itertools.combinations(names, 2):
        gain = _family_score((first, second), counter, len(table)) - scores[second]
        told[first] += max(gain, 0.0)
        told[second] += max(gain, 0.0)
    order = sorted(names, key=lambda name: (-told[name], names.index(name)))
    arcs: list[Arc] = []
    for position, child in enumerate(order):
        parents: list[str] = []
        best = scores[child]
        while len(parents) < most:
            rivals = [name for name in order[:position] if name not in parents]
            found = {rival: _family_score((*parents, rival, child), counter, len(table)) for rival in rivals}
            rival = max(found, key=lambda name: found[name], default="")
            if not found or found[rival] <= best:
                break
            parents.append(rival)
            best = found[rival]
        arcs += [(parent, child) for parent in parents]
    return arcs


def _family_score(names: tuple[str, ...], counter: NumpyCounter, rows: int) -> float:
    """Return the greatest log-likelihood of the last column given the others, less the price of its parameters."""
    if float(np.prod(counter.shape(names))) > max(rows, 64):
        return -np.inf
    counts = counter.joint(names)
    counts = counts.reshape(-1, counts.shape[-1])
    free = np.count_nonzero(counts.sum(axis=1)) * (counts.shape[1] - 1)
    return _multinomial_log_likelihood(counts) - free * _PRICE


def _multinomial_log_likelihood(counts: Values) -> float:
    """Return the greatest log-likelihood of a table of counts, the child last."""
    total = counts.sum(axis=-1, keepdims=True)
    ratio = np.divide(counts, total, out=np.ones_like(counts, dtype=np.float64), where=counts > 0)
    return float((counts * np.log(ratio)).sum())


def _states(table: Table, name: str) -> int:
    variable = table.variable(name)
    return len(variable.states) if isinstance(variable, Discrete) else 0


# -- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Design:
    """Products of centered columns: standardized numbers, and an indicator for each state of the discrete columns.

    Attributes
    ----------
    products : ndarray (columns, columns)
    places : mapping from name to ndarray
        The columns of a number (one) or of the states of a discrete column (all of them, so one too many).
    observed : mapping from name to float
        How many observed cells speak for a number's parents.
    """

    products: Values
    places: Mapping[str, Codes]
    observed: Mapping[str, float]

    @classmethod
    def of(
        cls, table: Table, numbers: Sequence[str], discrete: Sequence[str], observed: Mapping[str, float]
    ) -> _Design:
        columns = []
        for name in numbers:
            values = table.column(name) - table.column(name).mean()
            deviation = float(np.sqrt(np.square(values).mean()))
            columns.append(values / (deviation or 1.0))
        stacked, rows = np.array(columns).reshape(len(columns), len(table)), len(table)
        places = {name: np.array([i]) for i, name in enumerate(numbers)}
        codes, sizes, total = {}, {}, len(numbers)
        for name in discrete:
            size = _states(table, name)
            # a state of few rows would get whatever effect these have
            if numbers and size * _ROWS_A_STATE <= rows:
                codes[name], sizes[name] = table.column(name), size
                places[name] = np.arange(total, total + size)
                total += size
        counter = NumpyCounter(codes, sizes)
        products = np.zeros((total, total))
        products[: len(numbers), : len(numbers)] = stacked @ stacked.T
        # indicators are counted, as arrays of them would be large
        counts = {name: np.bincount(codes[name], minlength=size) for name, size in sizes.items()}
        for position, name in enumerate(sizes):
            for number in range(len(numbers)):
                sums = np.bincount(codes[name], stacked[number], sizes[name])
                products[number, places[name]] = products[places[name], number] = sums
            products[places[name], places[name]] = counts[name]
            products[np.ix_(places[name], places[name])] -= np.outer(counts[name], counts[name]) / rows
            for other in list(sizes)[:position]:
                both = counter.joint((name, other)) - np.outer(counts[name], counts[other]) / rows
                products[np.ix_(places[name], places[other])] = both
                products[np.ix_(places[other], places[name])] = both.T
        return cls(products, places, {name: observed.get(name, float(rows)) for name in numbers})


class _Search:
    """The parents of one number, added one by one.

    What they leave unexplained of the products is ``products - told @ told.T``; only the parts that are needed are computed.
    """

    def __init__(self, design: _Design, child: str, rivals: Sequence[str]) -> None:
        self.design = design
        self.child = int(design.places[child][0])
        self.rows = design.observed[child]
        self.groups = [design.places[rival] for rival in rivals]
        sizes = np.array([len(group) for group in self.groups], dtype=np.intp)
        self.prices = np.maximum(sizes - 1, 1) * _PRICE
        self.several = np.flatnonzero(sizes > 1).tolist()
        self.columns = np.array([group[0] for group in self.groups], dtype=np.intp)
        # of the first column of each rival, and the child: what is left of it, and of its product with the child
        self.total = np.diag(design.products)[self.columns]
        self.own, self.across = self.total.copy(), design.products[self.columns, self.child]
        self.rest = float(design.products[self.child, self.child])
        self.told = np.zeros((len(design.products), 0))
        self.open = np.ones(len(self.groups), dtype=bool)

    def gains(self) -> Values:
        """Return how much each rival raises the score of the number; -inf for those that are parents already."""
        usable = self.own > _SAME * self.total
        explained = np.divide(self.across**2, self.own, out=np.zeros_like(self.own), where=usable)
        for i in self.several:
            group = self.groups[i]
            across = self._left(group, np.array([self.child]))[:, 0]
            explained[i] = across @ np.linalg.pinv(self._left(group, group), rcond=_SAME, hermitian=True) @ across
        rest = max(self.rest, _SAME * float(self.design.products[self.child, self.child]))
        gains = -0.5 * self.rows * np.log1p(-np.clip(explained / rest, 0.0, 1 - _SAME)) - self.prices
        return np.where(self.open, gains, -np.inf)

    def add(self, number: int) -> None:
        """Take a rival as a parent."""
        group = self.groups[number]
        values, vectors = np.linalg.eigh(self._left(group, group))
        kept = values > _SAME * values.max()
        left = self._left(np.arange(len(self.told)), group)
        fresh = left @ (vectors[:, kept] / np.sqrt(values[kept]))
        self.told = np.concatenate([self.told, fresh], axis=1)
        self.own = self.own - (fresh[self.columns] ** 2).sum(axis=1)
        self.across = self.across - fresh[self.columns] @ fresh[self.child]
        self.rest -= float((fresh[self.child] ** 2).sum())
        self.open[number] = False

    def _left(self, rows: Codes, columns: Codes) -> Values:
        return np.asarray(self.design.products[np.ix_(rows, columns)] - self.told[rows] @ self.told[columns].T)


def _number_arcs(
    design: _Design, numbers: Sequence[str], discrete: Sequence[str], ties: Mapping[str, float], most: int
) -> list[Arc]:
    """Return the parents of the numbers, those with most correlation being first in line."""
    candidates: list[str] = []
    configurations = 1
    for name in sorted(discrete, key=lambda name: (-ties[name], discrete.index(name))):
        states = len(design.places.get(name, ()))
        if ties[name] > 0 and configurations * states <= _MOST_CONFIGURATIONS and len(candidates) < _MOST_GIVEN:
            candidates.append(name)
            configurations *= states
    size = len(numbers)
    correlations = np.abs(design.products[:size, :size]).sum(axis=1)
    order = [numbers[i] for i in np.argsort(-correlations, kind="stable")]
    return [
        (parent, child)
        for position, child in enumerate(order)
        for parent in _selected(design, child, [*candidates, *order[:position]], most)
    ]


def _selected(design: _Design, child: str, rivals: Sequence[str], most: int) -> list[str]:
    """Add the column that raises the score most, as long as one does."""
    search, parents = _Search(design, child, rivals), list[str]()
    while len(parents) < min(most, len(rivals)):
        gains = search.gains()
        best = int(np.argmax(gains))
        if not gains[best] > 0:
            break
        search.add(best)
        parents.append(rivals[best])
    return parents


_RIDGE = 0.01
"""Rows that speak for the regression of all rows where each configuration has its own."""
_RIDGES = np.geomspace(0.01, 1e4, 25)
"""How many rows speak for effects and slopes of zero: the one that makes the data most likely is taken."""
_ROWS = 8
"""A configuration of fewer rows has the variance of all."""


@dataclass(frozen=True, kw_only=True)
class Regression(GaussianFitter):
    """Learns a linear Gaussian conditional of the form that Akaike's criterion prefers.

    Variances are residuals over rows less coefficients, so that they are not too small on average.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> c, x, noise = rng.integers(2, size=200), *rng.normal(size=(2, 200))
    >>> table = hb.Table({"c": c, "x": x, "y": c + 2 * x + noise}, discrete="c")
    >>> Regression().fit(table, table.variable("y"), (table.variable("c"), table.variable("x"))).coefficients.round(2)
    array([[1.96],
           [1.96]])
    """

    ridge: float = _RIDGE

    def potential(self, statistics: Any) -> LinearGaussian:
        """Return the regression."""
        found = super().potential(statistics)
        shape, size = found.intercept.shape, statistics.weights.size
        forms = _additive(statistics, found)
        if size > 1:
            coefficients = 1 + found.coefficients.shape[-1]
            enough = statistics.weights >= 1 + coefficients
            rows = np.where(enough, statistics.weights, statistics.total)
            variance = found.variance.reshape(size) * _inflation(rows, coefficients)
            # configurations of few rows share a regression
            numbers = (1 + coefficients) * float(enough.sum() + bool((statistics.weights[~enough] > 0).any()))
            forms.append(_Form(found.intercept.reshape(size), found.coefficients.reshape(size, -1), variance, numbers))
        best = min(forms, key=lambda form: form.parameters - _gaussian_log_likelihood(statistics, form))
        return LinearGaussian(
            found.child,
            found.parents,
            intercept=best.intercept.reshape(shape),
            coefficients=best.slopes.reshape(*shape, -1),
            variance=best.variance.reshape(shape),
        )


class _Form(NamedTuple):
    """A regression for each configuration, and how many numbers it took to say so."""

    intercept: Values
    slopes: Values
    variance: Values
    parameters: float


def _additive(statistics: GaussianStatistics, found: LinearGaussian) -> list[_Form]:
    """Return the regressions with common slopes, and effects of each state that add up."""
    sizes, n, total = found.intercept.shape, statistics.weights, statistics.total
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
    spectrum, own = Spectrum.of(gram, target), float(products[0, 0])
    ridge = spectrum.best_penalty(own, _RIDGES, MarginalLikelihood(total))
    solution = spectrum.slopes(ridge)
    # effects of the states of each parent add up to nothing
    free = min(spectrum.coefficients(ridge), len(target) - len(sizes))
    many = effects.shape[1]
    slopes = solution[many:] * scales[0] / scales[1:]
    intercept = center[0] + effects @ solution[:many] * scales[0] - center[1:] @ slopes
    slopes = np.broadcast_to(slopes, (n.size, len(slopes)))
    squares = _squares(statistics, intercept, slopes) * _inflation(np.array(total), 1 + free)
    pooled = max(squares.sum() / total, LEAST_RESIDUAL * scales[0] ** 2)
    forms = [_Form(intercept, slopes, np.full(n.size, pooled), free + 2.0)]
    if sizes:
        enough = n >= _ROWS
        # as if one more row of each configuration had the variance of all
        apart = np.where(enough, (squares + pooled) / (n + 1), pooled)
        forms.append(_Form(intercept, slopes, apart, free + 1.0 + float(enough.sum() + (~enough).any())))
    return forms


def _inflation(rows: Values, coefficients: float) -> Values:
    return np.asarray(rows / np.maximum(rows - coefficients, 1.0))


def _squares(statistics: GaussianStatistics, intercept: Values, slopes: Values) -> Values:
    """Return the sum of squared residuals in each configuration."""
    contrast = np.concatenate([np.ones((len(slopes), 1)), -slopes], axis=1)
    mean = np.einsum("dj,dj->d", contrast, statistics.means) - intercept
    within = np.einsum("di,dij,dj->d", contrast, statistics.products, contrast)
    return np.asarray(np.maximum(within, 0.0) + statistics.weights * mean**2)


def _gaussian_log_likelihood(statistics: GaussianStatistics, form: _Form) -> float:
    squares = _squares(statistics, form.intercept, form.slopes)
    return float(-0.5 * (statistics.weights * np.log(form.variance) + squares / form.variance).sum())
