"""Scores of families beyond BIC, as objects: BDeu, BGe, and cross-validated likelihood."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hybridbn.arguments import check_count, make_generator
from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.base import Fitter
from hybridbn.fitting.counting import Moments
from hybridbn.fitting.cross_validation import deal_folds, split_folds
from hybridbn.structures.family_scores import FamilyScores, evaluate_rows
from hybridbn.structures.training_data import TrainingData
from hybridbn.variables import Discrete, Values, shorten

__all__ = ["BIC", "BDeu", "BGe", "CrossValidation", "Score"]


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
        return _DirichletScores(data, float(self.equivalent_sample_size))


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
        return _WishartScores(data, float(self.mean_weight), float(self.degrees))


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
        return _HeldOutScores(data, self.folds, self.random_state)


class _SingleScores(FamilyScores):
    """Scores that are computed one family at a time."""

    def score_changes(self, child: str, parents: frozenset[str]) -> Values:
        """Return the scores after each column in turn is added to the parents, or removed from them (columns,)."""
        key = child, parents
        if key not in self._change_scores:
            self._change_scores[key] = np.array(
                [-math.inf if name == child else self(child, parents ^ {name}) for name in self.names]
            )
        return self._change_scores[key]

    def _is_estimated(self, child: str, parents: Any) -> bool:
        return False


class _DirichletScores(_SingleScores):
    def __init__(self, data: TrainingData, sample_size: float) -> None:
        super().__init__(data)
        self._sample_size = sample_size

    def _score(self, child: str, parents: frozenset[str]) -> float:
        from scipy.special import gammaln

        given, states = self._sort_by_column(parents), self.data.states(child)
        keys, counts = self._counter.occurring((*given, child))
        weight = float(counts.sum())
        if weight <= 0:
            return -math.inf
        _, configurations = np.unique(keys // states, return_inverse=True)
        own = self._sample_size / math.prod(map(self.data.states, given))
        sums = np.bincount(configurations, counts)
        likelihood = (gammaln(own) - gammaln(own + sums)).sum()
        likelihood += (gammaln(own / states + counts) - gammaln(own / states)).sum()
        return float(likelihood) * self.total / weight


class _WishartScores(_SingleScores):
    def __init__(self, data: TrainingData, mean_weight: float, degrees: float) -> None:
        super().__init__(data)
        self._mean_weight, self._degrees = mean_weight, degrees

    @cached_property
    def _whole_moments(self) -> Moments:
        return self._counter.moments(tuple(name for name in self.names if not self._holes[name]))

    @cached_property
    def _whole_positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(name for name in self.names if not self._holes[name])}

    @cached_property
    def _units(self) -> dict[str, float]:
        """The standard deviation of each column."""
        moments = {name: self._counter.moments((name,)) for name in self.names}
        return {
            name: math.sqrt(float(own.products[0, 0, 0]) / own.total) if own.total > 0 else 0.0
            for name, own in moments.items()
        }

    def _score(self, child: str, parents: frozenset[str]) -> float:
        from scipy.special import gammaln

        family = [*self._sort_by_column(parents), child]
        units = np.array([self._units[name] for name in family])
        if not (units > 0).all():
            return -math.inf
        if any(self._holes[name] for name in family):
            moments = self._counter.moments(tuple(family))
            weight, products = moments.total, moments.products[0]
        else:
            chosen = [self._whole_positions[name] for name in family]
            weight, products = self._whole_moments.total, self._whole_moments.products[0][np.ix_(chosen, chosen)]
        if weight <= 0:
            return -math.inf
        # alpha_w - n and t of the paper, where the prior's mean is that of the data
        degrees, mean_weight, count = self._degrees, self._mean_weight, len(parents)
        scale = mean_weight * (degrees - 1) / (mean_weight + 1)
        posterior = products / units[:, None] / units + scale * np.eye(count + 1)
        _, joint = np.linalg.slogdet(posterior)
        _, marginal = np.linalg.slogdet(posterior[:-1, :-1])
        likelihood = (
            0.5 * math.log(mean_weight / (weight + mean_weight))
            - 0.5 * weight * math.log(math.pi)
            + gammaln(0.5 * (weight + degrees + count + 1))
            - gammaln(0.5 * (degrees + count + 1))
            + 0.5 * (degrees + 2 * count + 1) * math.log(scale)
            + 0.5 * (weight + degrees + count) * marginal
            - 0.5 * (weight + degrees + count + 1) * joint
            - weight * math.log(units[-1])
        )
        return float(likelihood) * self.total / weight


class _HeldOutScores(_SingleScores):
    def __init__(self, data: TrainingData, folds: int, random_state: int) -> None:
        super().__init__(data)
        rows = np.flatnonzero(self.weights > 0)
        if folds > len(rows):
            raise NetworkError(f"{len(rows)} rows can't be put into {folds} folds")
        parts = deal_folds(len(rows), folds, make_generator(random_state))
        self._folds = [(data.take(rows[training]), rows[test]) for training, test in split_folds(parts)]

    def _score(self, child: str, parents: frozenset[str]) -> float:
        given = tuple(self._sort_by_column(parents))
        fitter, variables = self.data.fitter(child, given), tuple(map(self.data.variable, given))
        # the family is a part of the structure, so it is chosen by the same rows; bandwidths are searched afterwards
        fitters = fitter.list_fitters(self.data.variable(child), variables, quick=True)
        return max(self._score_fitter(one, child, given) for one in fitters)

    def _score_fitter(self, fitter: Fitter, child: str, given: tuple[str, ...]) -> float:
        variables = tuple(map(self.data.variable, given))
        likelihood = weight = 0.0
        for training, part in self._folds:
            try:
                potential = fitter.fit(training.table, self.data.variable(child), variables)
            except HybridBNError:
                return -math.inf
            values, weights = evaluate_rows(potential, self.data, part)
            likelihood += float(weights @ values)
            weight += float(weights.sum())
        return likelihood * self.total / weight if weight > 0 else -math.inf


def _check_positive(number: Any, what: str) -> None:
    if isinstance(number, bool) or not isinstance(number, int | float | np.number) or not 0 < number < math.inf:
        raise NetworkError(f"{what} must be a positive number, not {number!r}")


def _require_kind(data: TrainingData, *, discrete: bool, what: str, remedy: str) -> None:
    others = [name for name in data.roles if isinstance(data.variable(name), Discrete) != discrete]
    if others:
        wanted, kind = ("categories", "numbers") if discrete else ("numbers", "categories")
        raise NetworkError(f"{what} is a score of {wanted}, and {shorten(others)} are {kind}; {remedy}")
