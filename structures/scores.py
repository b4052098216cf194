"""Scores of families, the terms of the score of a structure: BIC, BDeu, BGe, and cross-validated likelihood.

Families of discrete columns are scored from counts and those of normal columns from moments. The score of a mixture of
truncated exponentials is estimated from the cells of its parents. Any other family is fitted, and its density evaluated
at the rows. All families that differ from a given one by a single parent are scored together.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting import SoftmaxFitter
from hybridbn.fitting.base import counts_suffice, moments_suffice, refuse_overflow
from hybridbn.fitting.counting import RowCounter
from hybridbn.fitting.cross_validation import deal_table, evaluate_rows, score_held_out, split_folds
from hybridbn.fitting.mte import cells_suffice
from hybridbn.options import check_count, make_generator
from hybridbn.potentials import Potential, Softmax
from hybridbn.structures.training_data import TrainingData
from hybridbn.tables import Table
from hybridbn.variables import Discrete, Values, find_observed, shorten

WIDE = 64
"""Columns of more states are counted one by one, because their joint tables are mostly empty."""
CELLS = 1 << 20
"""Tables of all columns with one family are counted together if they have at most this many cells, which bounds the
memory.
"""
KEPT_CELLS = 1 << 22
"""Cells of all such tables that are kept for other children of their families (32 MiB)."""
_CERTAIN = 1e-12
"""A number is a linear combination of others if they leave less than this share of its variance."""


class _StandardizedMoments(NamedTuple):
    """The positions of the columns, their correlations and their standard deviations."""

    positions: dict[str, int]
    products: Values
    scales: Values


class FamilyScores:
    r"""The BIC of a column given others, in nats: :math:`\log L - \frac{k}{2} \log n`; greater is better.

    Where cells are missing, the score of a column alone is that of its observed cells, scaled up to all rows. To it is
    added what the column gains by its parents, in likelihood less the penalty, in the rows in which the whole family is
    observed. So scores of families with different holes can be compared: which rows happen to be complete cancels out,
    and few rows count as few.

    Parameters
    ----------
    data : TrainingData
    measure : callable, optional
        Returns another score of one family, as a function of these scores, the child and its parents.

    Examples
    --------
    >>> from hybridbn.structures.training_data import read_data_without_target
    >>> data = {"a": ["x", "x", "y", "y"] * 5, "b": ["u", "u", "v", "v"] * 5}
    >>> scores = FamilyScores(read_data_without_target(data, "auto", None))
    >>> round(scores("a", ()), 3), round(scores("a", ("b",)), 3)
    (-15.361, -2.996)
    >>> scores.score_changes("a", frozenset()).round(3)
    array([  -inf, -2.996])
    """

    def __init__(
        self, data: TrainingData, measure: Callable[[FamilyScores, str, frozenset[str]], float] | None = None
    ) -> None:
        self.data: TrainingData = data.by_densities
        self._measure = measure
        self._tabulated = {name for name, role in data.roles.items() if role != self.data.roles[name]}
        self.names: list[str] = list(data.roles)
        self.column_index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self.total: float = data.rows.total_weight
        self._half_log = 0.5 * math.log(max(self.total, 2.0))
        self._scores: dict[tuple[str, frozenset[str]], float] = {}
        self._fits: dict[tuple[str, ...], tuple[float, Potential | None]] = {}
        self._tables: dict[frozenset[str], Values] = {}
        self._cells = 0
        self._holes = {name: bool(count) for name, count in data.rows.missing.items()}
        self._discrete = {name: isinstance(data.variable(name), Discrete) for name in self.names}

    def __call__(self, child: str, parents: tuple[str, ...] | frozenset[str]) -> float:
        """Return the score of a column given others, -inf where it can't be fitted."""
        key = child, frozenset(parents)
        if key not in self._scores:
            self._scores[key] = self._score(child, key[1])
        return self._scores[key]

    def score_changes(self, child: str, parents: frozenset[str]) -> Values:
        """Return the scores after each column in turn is added to the parents, or removed from them (columns,).

        The entry of the child itself is -inf.
        """
        result = np.full(len(self.names), np.nan)
        result[self.column_index[child]] = -np.inf
        if self._measure is None and self._counted.issuperset((child, *parents)):
            self._score_changed_tables(result, child, parents)
        elif self._measure is None and self._is_regressed(child, parents):
            self._score_changed_regressions(result, child, parents)
        for index in np.flatnonzero(np.isnan(result)).tolist():
            result[index] = self(child, parents ^ {self.names[index]})
        return result

    def _score(self, child: str, parents: frozenset[str]) -> float:
        if self._measure is not None:
            return self._measure(self, child, parents)
        if self._counted.issuperset((child, *parents)):
            return self._score_by_counts(child, parents)
        if self._is_regressed(child, parents):
            regression = self._regress(child, parents)
            if regression is None:
                return -math.inf
            return float(self._score_variances(child, regression[0], len(parents)))
        return self._score_by_fitting(child, parents)

    def _sort_by_column(self, names: frozenset[str]) -> list[str]:
        return sorted(names, key=self.column_index.__getitem__)

    def _log_shares(self, name: str) -> Values:
        """Return the logarithms of the shares of a column's states."""
        counts = self._counter.joint((name,))
        return np.log(np.maximum(counts, 1e-300)) - math.log(max(float(counts.sum()), 1e-300))

    def _has_holes(self, names: Sequence[str]) -> bool:
        return any(self._holes[name] for name in names)

    def _add_gain(self, child: str, gain: float, weight: float, parameters: float) -> float:
        """Return the score of a column with parents by the gain in likelihood over the column alone, and in parameters,
        on observed rows of so much weight.
        """
        if not weight > 0:
            return -math.inf
        penalty = 0.5 * math.log(max(weight, 2.0)) * parameters
        if weight < self.total:
            # of small samples: McQuarrie (1999); as much as the observed rows need it more than all rows
            free = weight - parameters - 1
            penalty *= (self.total - parameters - 1) / free * weight / self.total if free > 0 else math.inf
        return self(child, ()) + gain - penalty

    # -- tables -------------------------------------------------------------------------------------------------------

    @cached_property
    def _counted(self) -> frozenset[str]:
        """The columns whose families among each other are scored from counts."""
        discrete = [name for name in self.names if self._discrete[name]]
        return frozenset(name for name in discrete if counts_suffice(self.data.fitter(name, ())))

    def _score_by_counts(self, child: str, parents: frozenset[str]) -> float:
        given = tuple(self._sort_by_column(parents))
        states = self.data.states(child)
        keys, counts = self._counter.occurring((*given, child))
        weight = float(counts.sum())
        if weight <= 0:
            return -math.inf
        # the keys ascend, so those of one configuration of the parents are neighbors
        configurations = keys // states
        starts = np.concatenate([[0], np.flatnonzero(configurations[1:] != configurations[:-1]) + 1])
        likelihood = _n_log_n(counts).sum() - _n_log_n(np.add.reduceat(counts, starts)).sum()
        size = math.prod(map(self.data.states, given))
        if given and self._has_holes((child, *given)):
            alone = float(counts @ self._log_shares(child)[keys % states])
            return self._add_gain(child, float(likelihood) - alone, weight, (size - 1) * (states - 1))
        return float(likelihood) * self.total / weight - self._half_log * (size * (states - 1))

    @cached_property
    def _counter(self) -> RowCounter:
        """A counter that has learned in one pass what families of at most one parent take, unless that is too much."""
        counter = self.data.counter(self.names).persist()
        counted, sizes = self._crossed
        pairs = itertools.combinations(counted, 2) if int(sizes.sum()) ** 2 <= 2 * KEPT_CELLS else ()
        numbers = [name for name in self.names if not self._discrete[name] and not self._holes[name]]
        is_normal = any(moments_suffice(self.data.fitter(name, ())) for name in numbers)
        counter.prepare(pairs, [(tuple(numbers), ())] if is_normal else [])
        return counter

    @cached_property
    def _crossed(self) -> tuple[list[str], NDArray[np.intp]]:
        """The columns that are counted together, and their numbers of states."""
        names = [name for name in self.names if name in self._counted and self.data.states(name) <= WIDE]
        return names, np.array(list(map(self.data.states, names)), np.intp)

    def _count_with_all(self, family: frozenset[str]) -> Values:
        """Return the counts of some columns, in their order, with all columns that are counted together (states of each
        of them, states of all); kept for other children of the same family.
        """
        if family not in self._tables:
            given = tuple(self._sort_by_column(family))
            tables = self._counter.with_target(self._crossed[0], given).values()
            counted = np.concatenate(list(tables), axis=-1)
            if self._cells + counted.size > KEPT_CELLS:
                return counted
            self._cells += counted.size
            self._tables[family] = counted
        return self._tables[family]

    def _score_changed_tables(self, result: Values, child: str, parents: frozenset[str]) -> None:
        """Fill in the scores that take one pass over the rows for all tables together."""
        names, sizes = self._crossed
        given, states = self._sort_by_column(parents), self.data.states(child)
        inner = [self.data.states(name) for name in given]
        size = math.prod(inner) * states
        if not names or size * int(sizes.sum()) > CELLS:
            return
        joint = self._count_with_all(frozenset((*given, child)))
        place = self._sort_by_column(parents | {child}).index(child)
        table = np.moveaxis(joint, place, -2).reshape(size // states, states, -1)
        starts = np.cumsum(sizes) - sizes
        within, marginal = _n_log_n(table).sum(axis=(0, 1)), _n_log_n(table.sum(axis=1)).sum(axis=0)
        weights = np.add.reduceat(table.sum(axis=(0, 1)), starts)
        likelihood = np.add.reduceat(within - marginal, starts)
        if not any(self._holes.values()):
            scores = likelihood - self._half_log * (size // states) * (states - 1) * sizes
        else:
            alone = self._log_shares(child) @ np.add.reduceat(table.sum(axis=0), starts, axis=1)
            more = ((size // states) * sizes - 1) * (states - 1)
            gains = zip((likelihood - alone).tolist(), weights.tolist(), more.tolist(), strict=True)
            scores = np.array([self._add_gain(child, *gain) for gain in gains])
        for name, score in zip(names, scores.tolist(), strict=True):
            if name != child and name not in parents:
                result[self.column_index[name]] = score

    # -- normal densities ---------------------------------------------------------------------------------------------

    @cached_property
    def _moments(self) -> _StandardizedMoments:
        """Moments of the standardized number columns without missing cells."""
        names = [name for name in self.names if not self._discrete[name] and not self._holes[name]]
        products = self._counter.moments(tuple(names)).products[0] / self.total
        refuse_overflow(names, products.diagonal())
        scales = np.sqrt(np.diag(products))
        units = np.where(scales > 0, scales, 1.0)
        return _StandardizedMoments(
            {name: i for i, name in enumerate(names)}, products / units[:, None] / units, scales
        )

    @cached_property
    def _units(self) -> dict[str, float]:
        """The standard deviation of each column."""
        moments = {name: self._counter.moments((name,)) for name in self.names}
        return {
            name: math.sqrt(float(own.products[0, 0, 0]) / own.total) if own.total > 0 else 0.0
            for name, own in moments.items()
        }

    def _is_regressed(self, child: str, parents: frozenset[str]) -> bool:
        """Return whether a family has only numbers without missing cells, the child being modeled by a regression."""
        is_whole = not any(self._discrete[name] or self._holes[name] for name in (child, *parents))
        return is_whole and moments_suffice(self.data.fitter(child, ()))

    def _regress(self, child: str, parents: frozenset[str]) -> tuple[float, Values, Values, Values] | None:
        """Return a child's residual variance given parents, the partial covariances of all columns with it and their
        partial variances, and its residual variance without each of the parents; None if a parent is a linear
        combination of others.
        """
        moments = self._moments
        index, given = moments.positions[child], [moments.positions[name] for name in self._sort_by_column(parents)]
        covariances, variances = moments.products[index], moments.products.diagonal()
        without = np.empty(0)
        if given:
            try:
                factor = np.linalg.cholesky(moments.products[np.ix_(given, given)])
            except np.linalg.LinAlgError:
                return None
            if factor.diagonal().min() ** 2 < _CERTAIN:
                return None
            inverse = np.linalg.inv(factor)
            whitened = inverse @ moments.products[given]
            slopes = whitened[:, index] @ inverse
            covariances = covariances - whitened[:, index] @ whitened
            variances = variances - (whitened**2).sum(axis=0)
            without = variances[index] + slopes**2 / (inverse**2).sum(axis=0)
        return float(variances[index]), covariances, variances, without

    def _score_variances(self, child: str, residual: Values | float, parents: int) -> Values:
        """Return the scores of regressions with these shares of residual variance."""
        moments = self._moments
        square = moments.scales[moments.positions[child]] ** 2
        regular = np.asarray(residual) > _CERTAIN if square > 0 else np.zeros(np.shape(residual), dtype=bool)
        variance = np.where(regular, residual, 1.0) * (square if square > 0 else 1.0)
        likelihood = -0.5 * self.total * (np.log(2 * math.pi * variance) + 1)
        return np.where(regular, likelihood - self._half_log * (2 + parents), -np.inf)

    def _score_changed_regressions(self, result: Values, child: str, parents: frozenset[str]) -> None:
        """Fill in the scores of regressions with one parent more or less."""
        regression = self._regress(child, parents)
        if regression is None:
            return
        residual, covariances, variances, without = regression
        if parents:
            fewer = self._score_variances(child, without, len(parents) - 1)
            for name, score in zip(self._sort_by_column(parents), fewer.tolist(), strict=True):
                result[self.column_index[name]] = score
        regular = variances > _CERTAIN
        reduced = np.where(regular, residual - covariances**2 / np.where(regular, variances, 1.0), 0.0)
        scores = self._score_variances(child, reduced, len(parents) + 1)
        for name, position in self._moments.positions.items():
            if name != child and name not in parents:
                result[self.column_index[name]] = scores[position]

    # -- densities in cells -------------------------------------------------------------------------------------------

    def _is_estimated(self, child: str, parents: Sequence[str]) -> bool:
        """Return whether a family is scored without fitting its density."""
        return bool(parents) and self._measure is None and cells_suffice(self.data.fitter(child, parents))

    # -- anything else ------------------------------------------------------------------------------------------------

    def _score_by_fitting(self, child: str, parents: frozenset[str]) -> float:
        given = tuple(self._sort_by_column(parents))
        fitter = self.data.fitter(child, given)
        variable, variables = self.data.variable(child), tuple(map(self.data.variable, given))
        if given and cells_suffice(fitter):
            gain = self.data.cell_gains.measure(fitter, variable, variables)
            return self._add_gain(child, gain.likelihood, gain.weight, gain.parameters)
        if moments_suffice(fitter):
            try:
                statistics = self.data.collect(child, given)
                regressions = fitter.potential(statistics)
            except HybridBNError:
                return -math.inf
            likelihood, weight = statistics.log_likelihood(regressions), float(statistics.weights.sum())
            if given and self._has_holes((child, *given)):
                rest = reduce(lambda those, parent: those.without(parent), variables, statistics)
                own: Any = self.data.fit(child, ())
                more = regressions.free_parameters() - own.free_parameters()
                return self._add_gain(child, likelihood - rest.log_likelihood(own), weight, more)
            return float(likelihood) * self.total / weight - self._half_log * regressions.free_parameters()
        return self._fit(child, given)[0]

    def _fit(self, child: str, given: tuple[str, ...]) -> tuple[float, Potential | None]:
        """Return the score of a fitted density, and the density, None where it can't be fitted."""
        if (child, *given) not in self._fits:
            try:
                fitter = self.data.fitter(child, given)
                if isinstance(fitter, SoftmaxFitter):
                    self._fits[child, *given] = self._score_softmax(fitter, child, given)
                else:
                    potential = self.data.fit(child, given)
                    self._fits[child, *given] = self._score_density(potential), potential
            except HybridBNError:
                self._fits[child, *given] = -math.inf, None
        return self._fits[child, *given]

    def _score_softmax(self, fitter: SoftmaxFitter, child: str, given: tuple[str, ...]) -> tuple[float, Softmax]:
        """Return the score of logistic regressions, and the regressions to as many digits as it needs."""
        table = self.data.in_memory.table
        statistics = fitter.statistics(table, self.data.variable(child), tuple(map(self.data.variable, given)))
        regressions = fitter.approximate(statistics)
        gain = statistics.log_likelihood(regressions)
        gain -= float(statistics.weights @ self._log_shares(child)[statistics.columns[0]])
        parameters = regressions.free_parameters() - (self.data.states(child) - 1)
        scale = self.total / table.total_weight
        return self._add_gain(child, scale * gain, scale * statistics.total, parameters), regressions

    def drop_useless_parents(
        self, parents: Mapping[str, Sequence[str]], is_required: Callable[[str, str], bool]
    ) -> dict[str, tuple[str, ...]]:
        """Fit the densities whose scores are estimates, and leave out parents without which the score is greater.

        From then on the scores of these families, with and without a parent, are those of the fitted densities.

        Parameters
        ----------
        parents : mapping from child to its parents
        is_required : callable
            Tells whether a parent must stay, given (child, parent).
        """
        kept = {child: tuple(given) for child, given in parents.items()}
        for child, given in kept.items():
            while self._is_estimated(child, given):
                shorter = [tuple(n for n in given if n != name) for name in given if not is_required(child, name)]
                scores = [self._score_fitted(child, rest) for rest in shorter]
                # a density need not depend on a parent: as good without it is better
                if max(scores, default=-math.inf) < self._score_fitted(child, given):
                    break
                given = shorter[int(np.argmax(scores))]
            kept[child] = given
        return kept

    def _score_fitted(self, child: str, given: tuple[str, ...]) -> float:
        """Return the score of a family, and remember it, with the density fitted if it was an estimate before."""
        if self._is_estimated(child, given):
            self._scores[child, frozenset(given)] = self._fit(child, given)[0]
        return self(child, given)

    @property
    def potentials(self) -> dict[tuple[str, ...], Potential]:
        """The densities that were fitted to all their digits, by child and parents in their order."""
        return {
            family: potential
            for family, (_, potential) in self._fits.items()
            if potential is not None and potential.as_softmax() is None and family[0] not in self._tabulated
        }

    def _score_density(self, potential: Potential) -> float:
        """Return the score of a fitted density, evaluated at the rows."""
        table, child = self.data.in_memory.table, potential.child.name
        rows = np.flatnonzero(table.weights > 0)
        values, weights = evaluate_rows(potential, table, rows)
        if not len(values):
            return -math.inf
        likelihood, weight = float(weights @ values) - potential.optimism(), float(weights.sum())
        if not (potential.parents and self._has_holes([variable.name for variable in potential.variables])):
            return likelihood * self.total / weight - self._half_log * potential.free_parameters()
        own = self._fit(child, ())[1]
        if own is None:
            return -math.inf
        for parent in potential.parents:
            rows = rows[find_observed(table.coded(parent)[rows])]
        values, weights = evaluate_rows(own, table, rows)
        more = potential.free_parameters() - own.free_parameters()
        return self._add_gain(child, likelihood - float(weights @ values) + own.optimism(), weight, more)


def _n_log_n(counts: Values) -> Values:
    """Return n log n of each count."""
    result: Values = counts * np.log(np.maximum(counts, 1e-300))
    return result


class Score(ABC):
    """How well a family fits the data; a small frozen dataclass, whose fields are its options."""

    @abstractmethod
    def prepare(self, data: TrainingData) -> FamilyScores:
        """Return the scores of the families of some data; greater is better."""


@dataclass(frozen=True)
class BIC(Score):
    r"""The likelihood with a penalty: :math:`\log L - \frac{k}{2} \log n`, for any columns.

    Examples
    --------
    >>> BIC()
    BIC()
    """

    def prepare(self, data: TrainingData) -> FamilyScores:
        """Return the scores of the families of some data."""
        return FamilyScores(data)


@dataclass(frozen=True)
class BDeu(Score):
    r"""The marginal likelihood of tables of probabilities under uniform Dirichlet priors that are equivalent.

    .. math:: \sum_j \log \frac{\Gamma(a_j)}{\Gamma(a_j + n_j)} + \sum_{jk} \log \frac{\Gamma(a_{jk} + n_{jk})}
        {\Gamma(a_{jk})}

    with the equivalent sample size divided equally among the configurations.

    Parameters
    ----------
    equivalent_sample_size : float

    References
    ----------
    Heckerman, Geiger & Chickering (1995), "Learning Bayesian networks: the combination of knowledge and statistical
    data", Machine Learning 20.

    Examples
    --------
    >>> import hybridbn as hb
    >>> a = ["x", "y"] * 20
    >>> data = {"a": a, "b": a, "c": ["u", "u", "v", "v"] * 10}
    >>> sorted(map(sorted, hb.structures.hill_climb(data, score=BDeu(equivalent_sample_size=10)).edges))
    [['a', 'b']]
    """

    equivalent_sample_size: float = 1.0

    def __post_init__(self) -> None:
        _check_positive(self.equivalent_sample_size, "equivalent_sample_size")

    def prepare(self, data: TrainingData) -> FamilyScores:
        """Return the scores of the families of some data, whose columns are all discrete."""
        _require_kind(data, discrete=True, what="BDeu", remedy="discretize them (potentials='multinomial')")
        return FamilyScores(data, self._score)

    def _score(self, scores: FamilyScores, child: str, parents: frozenset[str]) -> float:
        given, states = scores._sort_by_column(parents), scores.data.states(child)
        keys, counts = scores._counter.occurring((*given, child))
        weight = float(counts.sum())
        if weight <= 0:
            return -math.inf
        _, configurations = np.unique(keys // states, return_inverse=True)
        own = float(self.equivalent_sample_size) / math.prod(map(scores.data.states, given))
        sums = np.bincount(configurations, counts)
        likelihood = (scipy.special.gammaln(own) - scipy.special.gammaln(own + sums)).sum()
        likelihood += (scipy.special.gammaln(own / states + counts) - scipy.special.gammaln(own / states)).sum()
        return float(likelihood) * scores.total / weight


@dataclass(frozen=True)
class BGe(Score):
    r"""The marginal likelihood of linear Gaussians under an equivalent normal-Wishart prior.

    The prior is that of standardized columns: their mean with the weight of `mean_weight` rows, and a diagonal
    precision with n + `degrees` degrees of freedom for n columns, so that units make no difference.

    Parameters
    ----------
    mean_weight : float
    degrees : float
        More than 1.

    References
    ----------
    Geiger & Heckerman (2002), "Parameter priors for directed acyclic graphical models and the characterization of
    several probability distributions", Annals of Statistics 30. Kuipers, Moffa & Heckerman (2014), "Addendum on the
    scoring of Gaussian directed acyclic graphical models", Annals of Statistics 42.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, z = np.random.default_rng(0).normal(size=(2, 100))
    >>> net = hb.structures.hill_climb({"x": x, "y": x + z, "u": z[::-1]}, "gaussian", score=BGe())
    >>> sorted(map(sorted, net.edges))
    [['x', 'y']]
    """

    mean_weight: float = 1.0
    degrees: float = 2.0

    def __post_init__(self) -> None:
        _check_positive(self.mean_weight, "mean_weight")
        _check_positive(self.degrees - 1, "degrees less 1")

    def prepare(self, data: TrainingData) -> FamilyScores:
        """Return the scores of the families of some data, whose columns are all numbers."""
        _require_kind(data, discrete=False, what="BGe", remedy="leave them out, or choose another score")
        return FamilyScores(data, self._score)

    def _score(self, scores: FamilyScores, child: str, parents: frozenset[str]) -> float:
        family = [*scores._sort_by_column(parents), child]
        units = np.array([scores._units[name] for name in family])
        if not (units > 0).all():
            return -math.inf
        if any(scores._holes[name] for name in family):
            moments = scores._counter.moments(tuple(family))
            weight, products = moments.total, moments.products[0] / units[:, None] / units
        else:
            chosen = [scores._moments.positions[name] for name in family]
            weight, products = scores.total, scores.total * scores._moments.products[np.ix_(chosen, chosen)]
        if weight <= 0:
            return -math.inf
        # alpha_w - n and t of the paper, where the prior's mean is that of the data
        degrees, mean_weight, count = float(self.degrees), float(self.mean_weight), len(parents)
        scale = mean_weight * (degrees - 1) / (mean_weight + 1)
        posterior = products + scale * np.eye(count + 1)
        _, joint = np.linalg.slogdet(posterior)
        _, marginal = np.linalg.slogdet(posterior[:-1, :-1])
        likelihood = (
            0.5 * math.log(mean_weight / (weight + mean_weight))
            - 0.5 * weight * math.log(math.pi)
            + scipy.special.gammaln(0.5 * (weight + degrees + count + 1))
            - scipy.special.gammaln(0.5 * (degrees + count + 1))
            + 0.5 * (degrees + 2 * count + 1) * math.log(scale)
            + 0.5 * (weight + degrees + count) * marginal
            - 0.5 * (weight + degrees + count + 1) * joint
            - weight * math.log(units[-1])
        )
        return float(likelihood) * scores.total / weight


@dataclass(frozen=True)
class CrossValidation(Score):
    """The log-likelihood of rows under densities that are fitted to the other rows, for any columns.

    Where families are chosen with the arcs ("semiparametric"), bandwidths of kernels are those of normal densities in
    the search, if the families have such; the nodes of the network that is found get searched ones where these are
    better.

    Parameters
    ----------
    folds : int
        Parts that are left out in turn.
    random_state : int
        Draws the parts.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, z = np.random.default_rng(0).normal(size=(2, 100))
    >>> data = {"x": x, "c": np.where(x + 0.3 * z > 0, "p", "n")}
    >>> hb.structures.hill_climb(data, "gaussian", score=CrossValidation(5)).number_of_edges()
    1
    >>> net = hb.structures.hill_climb({"x": x, "y": x**2 + 0.1 * z}, "semiparametric", score=CrossValidation(5))
    >>> sorted(net.potential(name).family for name in "xy")
    ['gaussian_mixture', 'kernel']
    """

    folds: int = 5
    random_state: int = 0

    def __post_init__(self) -> None:
        check_count(self.folds, "the number of folds", 2)

    def prepare(self, data: TrainingData) -> FamilyScores:
        """Return the scores of the families of some data."""
        dealt = deal_table(data.table, self.folds, make_generator(self.random_state))
        table, rows = dealt.take(data.table), int(dealt.parts.max(initial=-1)) + 1
        if self.folds > rows:
            raise NetworkError(f"{rows} rows can't be put into {self.folds} folds")
        folds = [(table.take(training), table.take(test)) for training, test in split_folds(dealt.parts)]
        return FamilyScores(data, partial(self._score, folds))

    def _score(
        self, folds: Sequence[tuple[Table, Table]], scores: FamilyScores, child: str, parents: frozenset[str]
    ) -> float:
        given = tuple(scores._sort_by_column(parents))
        variable, variables = scores.data.variable(child), tuple(map(scores.data.variable, given))
        # the family is a part of the structure, so it is chosen by the same rows; bandwidths are searched afterwards
        fitters = scores.data.fitter(child, given).list_fitters(variable, variables, quick=True)
        found = [score_held_out(fitter, folds, variable, variables) for fitter in fitters]
        return max(likelihood * scores.total / weight if weight > 0 else -math.inf for likelihood, weight in found)


def _check_positive(number: Any, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not 0 < number < math.inf:
        raise NetworkError(f"{what} must be a positive number, not {number!r}")


def _require_kind(data: TrainingData, *, discrete: bool, what: str, remedy: str) -> None:
    others = [name for name in data.roles if isinstance(data.variable(name), Discrete) != discrete]
    if others:
        wanted, kind = ("categories", "numbers") if discrete else ("numbers", "categories")
        raise NetworkError(f"{what} is a score of {wanted}, and {shorten(others)} are {kind}; {remedy}")
