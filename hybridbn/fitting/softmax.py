"""Multinomial logistic regression with a ridge, for a discrete child of continuous parents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from hybridbn.errors import NetworkError
from hybridbn.fitting.base import (
    Fitter,
    RowStatistics,
    has_numbers,
    refuse_empty,
    refuse_overflow,
    refuse_too_wide,
    split_by_kind,
)
from hybridbn.fitting.ridge import ROUNDING, regress_classes
from hybridbn.potentials import Softmax
from hybridbn.tables import Rows
from hybridbn.variables import Discrete, Variable

_NEARLY = 1e-7
"""The share of the weight that the last Newton step gains where an approximate regression is enough."""


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

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> RowStatistics:
        """Collect the rows where child and parents are observed."""
        if not isinstance(child, Discrete):
            raise NetworkError(
                f"{child.name!r} is continuous, and the child of a logistic regression is discrete; use GaussianFitter"
            )
        discrete, continuous = split_by_kind(parents)
        sizes = [len(parent) for parent in discrete]
        cells = math.prod(sizes) * len(child) * (1 + len(continuous))
        refuse_too_wide(child, parents, cells, self.max_bytes, "array of coefficients")
        return RowStatistics.of(table, child, parents)

    def potential(self, statistics: Any) -> Softmax:
        """Return the regressions."""
        return self.approximate(statistics, ROUNDING)

    def approximate(self, statistics: Any, enough: float = _NEARLY) -> Softmax:
        """Return the regressions, by default to about nine digits of their likelihood, in less time.

        Examples
        --------
        >>> import hybridbn as hb
        >>> table = hb.Table({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 1.0, 0.0], "c": ["a", "b", "a", "b"]})
        >>> c, x, y = (table.variable(name) for name in "cxy")
        >>> fitter = SoftmaxFitter()
        >>> fitter.approximate(fitter.statistics(table, c, (x, y)))(c="b", x=[3.0], y=0.5).round(2)
        array([0.55])
        """
        refuse_empty(statistics)
        discrete, continuous = split_by_kind(statistics.parents)
        shape, k = tuple(len(parent) for parent in discrete), len(statistics.child)
        columns, weights = statistics.numbers.T, statistics.weights
        with np.errstate(over="ignore", invalid="ignore"):
            mean = columns @ weights / statistics.total
            # the second pass removes what rounding left in the first
            mean = mean + (columns - mean[:, None]) @ weights / statistics.total
            centered = columns - mean[:, None]
            scale = np.sqrt(centered**2 @ weights / statistics.total)
        refuse_overflow([parent.name for parent in continuous], scale)
        # what is left of a constant after its mean is taken away is a few units in the last place
        scale = np.where(scale > 4 * np.finfo(float).eps * np.abs(mean), scale, np.inf)
        design = np.concatenate([np.ones((1, len(weights))), centered / scale[:, None]])
        targets = (statistics.columns[0] == np.arange(k)[:, None]) * weights
        smoothed = targets + (self.m / k / statistics.total) * weights
        common = regress_classes(design, smoothed, np.zeros((k, len(design))), self.ridge, enough=enough)
        solved = np.broadcast_to(common, (math.prod(shape), *common.shape)).copy()
        if discrete:
            center = np.zeros((len(design), 1))
            center[0] = 1.0
            prior = self.m * scipy.special.softmax(common[:, 0])[:, None]
            for cell, rows in enumerate(statistics.split_rows()):
                if len(rows):
                    solved[cell] = regress_classes(
                        np.concatenate([design[:, rows], center], axis=1),
                        np.concatenate([targets[:, rows], prior], axis=1),
                        common,
                        self.ridge,
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
