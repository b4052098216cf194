"""Numbers that look like those of their column: so many decimals as all observed ones have."""

from __future__ import annotations

import numpy as np

from hybridbn.variables import Values

__all__ = ["ROUNDED_ROWS", "decimals_of", "grid_ends", "rounded"]

ROUNDED_ROWS = 20
"""Fewer numbers may well have few decimals by chance."""
_MOST = 6
_DIGITS = (("f8", 1e13), ("f4", 1e6))
"""Beyond, rounding takes nothing away from floats, which have 16 digits, or from those of half the size, which have 7."""


def decimals_of(values: Values, least: int = 0) -> int | None:
    """Return how many decimals numbers have at most, but not fewer than `least`; None where there are more than six.

    Examples
    --------
    >>> decimals_of(np.array([1.5, 2.25, -3.0])), decimals_of(np.array([1.0, 2.0])), decimals_of(np.array([1 / 3]))
    (2, 0, None)
    >>> decimals_of(np.array([0.1, 2.5], dtype=np.float32).astype(np.float64))
    1
    """
    size = float(np.abs(values).max(initial=0.0))
    for kind, digits in _DIGITS:
        with np.errstate(over="ignore"):
            own = values.astype(kind)
        if (own != values).any():
            continue
        for decimals in range(least, _MOST + 1):
            if decimals and size * 10.0**decimals > digits:
                break
            # a few numbers tell most often that it isn't so
            if all((np.round(part, decimals).astype(own.dtype) == part).all() for part in (values[:20], values)):
                return decimals
    return None


def rounded(values: Values, decimals: int) -> Values:
    """Return numbers with so many decimals, none of them -0.0.

    Examples
    --------
    >>> rounded(np.array([0.126, -0.001]), 2).tolist()
    [0.13, 0.0]
    """
    return np.asarray(np.round(values, decimals) + 0.0)


def grid_ends(low: float, high: float, decimals: int) -> tuple[float, float]:
    """Return the least and the greatest number with so many decimals within bounds; the first is greater if there is none.

    Examples
    --------
    >>> grid_ends(0.7, np.inf, 1), grid_ends(0.21, 0.49, 1), grid_ends(0.21, 0.29, 1)
    ((0.7, inf), (0.3, 0.4), (0.3, 0.2))
    """
    first, last = (float(rounded(np.array(end), decimals)) for end in (low, high))
    step = 10.0**-decimals
    first = first if first >= low else float(rounded(np.array(first + step), decimals))
    return first, last if last <= high else float(rounded(np.array(last - step), decimals))
