"""Conditional probability tables from counts, and the estimates that keep a state that was never seen possible."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.fitting.base import Fitter, Statistics, has_numbers, refuse_empty, refuse_too_wide
from hybridbn.fitting.counting import Names, RowCounter
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import check_parents
from hybridbn.tables import Rows
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable

Discretizer: TypeAlias = Callable[[Values, "Codes | None", "Values | None"], tuple[float, ...]]
"""Cut points of a column from its values, the target's codes if there is a discrete target, and the rows' weights."""


@dataclass(frozen=True)
class MEstimate:
    r"""The m-estimate of Cestnik (1990): as if `m` more rows had been seen in each configuration of the parents.

    .. math:: P(c \mid d) = \frac{n_{dc} + m\,p_c}{n_d + m}, \qquad p_c = \frac{n_c + m / k}{n + m}

    The m rows are spread as the child's k states are in the whole table, so a configuration that was never seen gets
    the marginal distribution; that in turn is pulled toward the uniform one, so no probability is zero. Without parents
    it is the estimate itself. Ting & Zheng (2003, section 3.1) take m = 2 and do not say which prior; the marginal
    comes nearest to their results.

    Parameters
    ----------
    m : float
        Positive.
    uniform : bool
        Spread the m rows evenly instead: :math:`p_c = 1/k`.

    Examples
    --------
    >>> MEstimate(m=2)(np.array([[3.0, 1.0], [0.0, 0.0]]))
    array([[0.72222222, 0.27777778],
           [0.66666667, 0.33333333]])
    """

    m: float = 2.0
    uniform: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.m < np.inf:
            raise NetworkError(f"m must be a positive number, not {self.m!r}; MaximumLikelihood() goes without a prior")

    def __call__(self, counts: Values) -> Values:
        """Return the table of probabilities for a table of counts, the child last."""
        return np.asarray(self.each(counts[None])[0])

    def each(self, counts: Values) -> Values:
        """Return the tables of probabilities for several tables of counts (tables, ..., states), each with a prior of
        its own.

        Examples
        --------
        >>> first, second = np.array([[3.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 5.0]])
        >>> one_by_one = np.stack([MEstimate(2)(first), MEstimate(2)(second)])
        >>> (MEstimate(2).each(np.stack([first, second])) == one_by_one).all()
        np.True_
        """
        total: Values = counts + self._spread(counts)
        total /= counts.sum(axis=-1, keepdims=True) + self.m
        return total

    def prior_counts(self, counts: Values) -> Values:
        """Return how the m rows are spread over the states, to be added to a table of counts."""
        return np.broadcast_to(self._spread(counts[None])[0], counts.shape)

    def _spread(self, counts: Values) -> Values:
        prior = np.full(counts.shape[-1], 1 / counts.shape[-1])
        if not self.uniform and counts.ndim > 2:
            margin = counts.sum(axis=tuple(range(1, counts.ndim - 1)), keepdims=True)
            prior = (margin + self.m * prior) / (margin.sum(axis=-1, keepdims=True) + self.m)
        return np.asarray(self.m * prior)


@dataclass(frozen=True)
class Dirichlet:
    r"""The posterior mean under a Dirichlet prior; with a pseudo-count of 1, the default, it is Laplace's estimate.

    .. math:: P(c \mid d) = \frac{n_{dc} + \alpha_c}{\sum_k (n_{dk} + \alpha_k)}

    Parameters
    ----------
    pseudo_counts : float or tuple of float
        Positive: one for all states, or one for each state of the child.

    Examples
    --------
    >>> Dirichlet()(np.array([[3.0, 1.0], [0.0, 0.0]]))
    array([[0.66666667, 0.33333333],
           [0.5       , 0.5       ]])
    >>> Dirichlet((1, 3))(np.array([0.0, 0.0]))
    array([0.25, 0.75])
    """

    pseudo_counts: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        if isinstance(self.pseudo_counts, list | np.ndarray):
            object.__setattr__(self, "pseudo_counts", tuple(self.pseudo_counts))
        try:
            given = np.asarray(self.pseudo_counts, dtype=np.float64)
        except (TypeError, ValueError):
            given = np.zeros(())
        if given.ndim > 1 or not (np.isfinite(given) & (given > 0)).all():
            raise NetworkError(
                f"pseudo-counts must be positive, one for all states or one for each, not {self.pseudo_counts!r}; "
                "MaximumLikelihood() goes without a prior"
            )

    def __call__(self, counts: Values) -> Values:
        """Return the table of probabilities for a table of counts, the child last."""
        total = counts + self.prior_counts(counts)
        return cast(Values, total / total.sum(axis=-1, keepdims=True))

    def prior_counts(self, counts: Values) -> Values:
        """Return the pseudo-counts, to be added to a table of counts."""
        added = np.asarray(self.pseudo_counts, dtype=np.float64)
        if added.ndim and added.shape != counts.shape[-1:]:
            raise NetworkError(f"{len(added)} pseudo-counts were given for a child of {counts.shape[-1]} states")
        return np.broadcast_to(added, counts.shape)


@dataclass(frozen=True)
class MaximumLikelihood:
    r"""Relative frequencies: :math:`P(c \mid d) = n_{dc} / n_d`, zero for what was never seen.

    A configuration of the parents that was never seen gets the child's marginal frequencies.

    Examples
    --------
    >>> MaximumLikelihood()(np.array([[3.0, 1.0], [2.0, 0.0], [0.0, 0.0]]))
    array([[0.75      , 0.25      ],
           [1.        , 0.        ],
           [0.83333333, 0.16666667]])
    """

    def __call__(self, counts: Values) -> Values:
        """Return the table of probabilities for a table of counts, the child last."""
        margin = counts.reshape(-1, counts.shape[-1]).sum(axis=0)
        totals = counts.sum(axis=-1, keepdims=True)
        seen = totals > 0
        return cast(Values, np.where(seen, counts, margin) / np.where(seen, totals, margin.sum()))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class MultinomialStatistics(Statistics):
    """The weight of each joint configuration: the dimensions are the parents in their order, then the child."""

    counts: Values


@dataclass(frozen=True, kw_only=True)
class MultinomialFitter(Fitter):
    """Learns conditional probability tables of discrete variables.

    Parameters
    ----------
    estimate : MEstimate, Dirichlet, MaximumLikelihood or callable
        Makes a table of probabilities of a table of counts, both with the child last.
    discretizer : callable, optional
        How builders cut a number column for which this fitter is asked: `equal_width`, `equal_frequency`, `mdl`, a
        partial of one, or any function of (values, target codes or None, weights or None). Without it: `mdl` where
        there is a discrete target, else `equal_frequency`.
    max_bytes : int
        A larger table is refused with `TooWide`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"d": ["x", "x", "y", "y"], "c": ["a", "b", "b", "b"]})
    >>> d, c = table.variables
    >>> MultinomialFitter(estimate=Dirichlet(1)).fit(table, c, (d,)).table
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """

    name: ClassVar[str] = "multinomial"
    fallbacks: ClassVar[tuple[str, ...]] = ()
    asks_counter: ClassVar[bool] = True

    estimate: Callable[[Values], Values] = MEstimate()
    discretizer: Discretizer | None = None
    max_bytes: int = 2**31

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Discrete variables only."""
        return not has_numbers(child, parents)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> MultinomialStatistics:
        """Count the rows where child and parents are observed."""
        for variable in (child, *parents):
            if isinstance(variable, Continuous):
                raise NetworkError(
                    f"{variable.name!r} is continuous, and a table of probabilities ({child.name!r} is the child) needs"
                    " discrete variables; discretize it, or ask for another family"
                )
        sizes = [len(variable) for variable in (*parents, child) if isinstance(variable, Discrete)]
        refuse_too_wide(child, parents, math.prod(sizes), self.max_bytes, "table")
        family = (*check_parents(child, parents), child)
        counts = RowCounter(table, family).joint(tuple(variable.name for variable in family))
        return MultinomialStatistics(child=child, parents=parents, total=float(counts.sum()), counts=counts)

    def requests(
        self, child: Variable, parents: tuple[Variable, ...] = ()
    ) -> tuple[list[Names], list[tuple[Names, Names]]]:
        """The counts of the family, unless it is too wide."""
        cells = math.prod(len(variable) for variable in (*parents, child) if isinstance(variable, Discrete))
        return [tuple(one.name for one in (*parents, child))] * (8 * cells <= self.max_bytes), []

    def tables(self, counts: Values) -> Values:
        """Return the tables of probabilities for several tables of counts (tables, ..., states), each estimated by
        itself.
        """
        if isinstance(self.estimate, MEstimate):
            return self.estimate.each(counts)
        return np.stack([self.estimate(table) for table in counts])

    def potential(self, statistics: Any) -> Multinomial:
        """Return the table of probabilities."""
        refuse_empty(statistics)
        table = self.estimate(statistics.counts)
        if isinstance(self.estimate, MEstimate | Dirichlet | MaximumLikelihood):
            table.flags.writeable = False  # so that it is not copied
        return Multinomial(statistics.child, parents=statistics.parents, table=table, normalize=False)
