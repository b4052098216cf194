"""`pool`: one estimate with its uncertainty from the estimates of several completed tables, by Rubin's rules."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hybridbn.errors import TableError
from hybridbn.potentials.base import freeze
from hybridbn.variables import Values

__all__ = ["Pooled", "pool"]


@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """An estimate pooled over completed tables; numbers, or arrays where vectors were pooled.

    Attributes
    ----------
    estimate : float or ndarray
        The mean of the estimates.
    variance : float or ndarray
        Its variance: `within` + (1 + 1 / `draws`) `between`.
    df : float or ndarray
        Degrees of freedom of Student's t distribution, after Barnard and Rubin (1999).
    missing_information : float or ndarray
        The fraction of the information about the quantity that is lost by missing cells.
    within, between : float or ndarray
        The mean of the variances, and the variance of the estimates.
    draws : int
    """

    estimate: Any
    variance: Any
    df: Any
    missing_information: Any
    within: Any
    between: Any
    draws: int

    @property
    def standard_error(self) -> Any:
        """The square root of the variance."""
        return _unwrap_scalar(np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> Any:
        """Return the interval that holds the quantity with this probability: (low, high), or an array (..., 2).

        Examples
        --------
        >>> low, high = pool([1.0, 1.2, 1.1], [0.04, 0.05, 0.04]).interval(0.9)
        >>> round(low, 3), round(high, 3)
        (0.698, 1.502)
        """
        from scipy.stats import t as student

        if not 0 < level < 1:
            raise TableError(f"the level of an interval lies between 0 and 1, not {level!r}")
        half = student.ppf(0.5 + level / 2, self.df) * np.sqrt(self.variance)
        low, high = _unwrap_scalar(self.estimate - half), _unwrap_scalar(self.estimate + half)
        return (low, high) if isinstance(low, float) else np.stack([low, high], axis=-1)

    def __repr__(self) -> str:
        if isinstance(self.estimate, float):
            return (
                f"<pooled over {self.draws} draws: {self.estimate:.6g} +- {self.standard_error:.3g}, "
                f"df {self.df:.4g}, missing information {self.missing_information:.3f}>"
            )
        estimates = np.array2string(self.estimate, precision=4)
        return f"<pooled over {self.draws} draws: {self.estimate.size} estimates {estimates}>"


def pool(estimates: ArrayLike, variances: ArrayLike, *, complete_df: float = math.inf) -> Pooled:
    r"""Pool the estimates of several completed tables by Rubin's rules.

    With the mean :math:`\bar U` of the variances, the variance B of the m estimates and :math:`T = \bar U + (1 + 1/m)
    B`,

    .. math:: \lambda = \frac{(1 + 1/m) B}{T}, \quad \nu_\infty = \frac{m - 1}{\lambda^2}, \quad
              \nu_o = \frac{\nu_c + 1}{\nu_c + 3} \nu_c (1 - \lambda), \quad
              \nu = \frac{\nu_\infty \nu_o}{\nu_\infty + \nu_o},

    where :math:`\nu_c` are the degrees of freedom that the complete table would give.

    Parameters
    ----------
    estimates : array_like (draws,) or (draws, ...)
        One estimate of each completed table; at least two.
    variances : array_like of the same shape
        Their squared standard errors.
    complete_df : float
        Degrees of freedom of the analysis if no cell were missing, such as rows minus coefficients. Without it the
        intervals of small tables come out too short.

    Returns
    -------
    Pooled
        With estimate, variance, df, interval(level) and missing_information.

    References
    ----------
    Rubin (1987), "Multiple Imputation for Nonresponse in Surveys"; Barnard & Rubin (1999), "Small-sample degrees of
    freedom with multiple imputation", Biometrika 86.

    Examples
    --------
    >>> pooled = pool([1.0, 1.2, 1.1], [0.04, 0.05, 0.04], complete_df=50)
    >>> pooled
    <pooled over 3 draws: 1.1 +- 0.238, df 18.23, missing information 0.307>
    >>> pool([[1.0, 5.0], [1.2, 5.5]], [[0.1, 0.2], [0.1, 0.2]]).estimate
    array([1.1 , 5.25])
    """
    values, squared_errors = _check_numbers("estimates", estimates), _check_numbers("variances", variances)
    if values.shape != squared_errors.shape:
        raise TableError(
            f"estimates have the shape {values.shape}, variances {squared_errors.shape}; "
            "each estimate needs its variance"
        )
    if not values.ndim or len(values) < 2:
        raise TableError(
            f"pooling needs the estimates of at least two completed tables, not {values.size}: impute(..., draws=20)"
        )
    if (squared_errors < 0).any():
        raise TableError(
            f"variances can't be negative; found {squared_errors[squared_errors < 0][0]} (give squared standard errors)"
        )
    if not complete_df > 0:
        raise TableError(f"complete_df must be a positive number of degrees of freedom, not {complete_df!r}")
    draws = len(values)
    estimate, within, between = values.mean(axis=0), squared_errors.mean(axis=0), values.var(axis=0, ddof=1)
    added = (1 + 1 / draws) * between
    total = within + added
    share = np.divide(added, total, out=np.zeros_like(total), where=total > 0)
    with np.errstate(divide="ignore", over="ignore"):
        df = (draws - 1) / np.square(share)
        if math.isfinite(complete_df):
            observed = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
            # the harmonic form allows an infinite df; without any observed information df is nearly zero
            df = 1 / (1 / df + 1 / np.maximum(observed, 1e-9))
    # with the relative increase r in variance, the share is r / (1 + r), and one minus the share 1 / (1 + r)
    missing = share + 2 / (df + 3) * (1 - share) * (added > 0)
    estimate, total, df, missing, within, between = (
        _unwrap_scalar(freeze(np.asarray(figure, dtype=np.float64)))
        for figure in (estimate, total, df, missing, within, between)
    )
    return Pooled(estimate, total, df, missing, within, between, draws)


def _check_numbers(what: str, values: ArrayLike) -> Values:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TableError(f"{what} must be numbers, one for each completed table, not {values!r:.80}") from None
    if not np.isfinite(array).all():
        raise TableError(f"{what} must be finite; found {array[~np.isfinite(array)][0]}")
    return array


def _unwrap_scalar(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values
