"""Posteriors of many rows whose densities take too much space to be kept all at once: worked out piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.variables import Continuous, Values

__all__ = ["PiecemealPosterior"]

BLOCK_ROWS = 1 << 11
"""Rows whose densities exist at the same time."""


class PiecemealPosterior(ContinuousPosterior):
    """A batch of densities of which mean and variance are kept; of some rows at a time they are made when asked for.

    Parameters
    ----------
    piece : function
        From distinct rows to their density.
    moments : (ndarray, ndarray)
        Mean and variance of the distinct rows.
    places : ndarray (rows,)
        The distinct row of each row.
    marked : ndarray of bool (rows,), optional
        Rows that are NaN.
    """

    def __init__(
        self,
        variable: Continuous,
        piece: Callable[[NDArray[np.intp]], ContinuousPosterior],
        moments: tuple[Values, Values],
        places: NDArray[np.intp],
        marked: NDArray[np.bool_] | None,
        error: Values,
        log_evidence: Any,
    ) -> None:
        super().__init__(variable, False, error, log_evidence)
        self._piece, self._places = piece, places
        self._mean, self._variance = moments
        self._marked = marked

    def taken(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows; few of them as densities that are there at once."""
        clone = super().taken(rows)
        clone._places = self._places[rows]
        clone._marked = None if self._marked is None else self._marked[rows]
        if len(rows) > BLOCK_ROWS or not len(rows):
            return clone
        return clone._made(np.arange(len(rows))).answered(False, clone._error, clone._marked, clone._log_evidence)

    def _made(self, rows: NDArray[np.intp]) -> ContinuousPosterior:
        """Return the density of some rows."""
        distinct, inverse = np.unique(self._places[rows], return_inverse=True)
        made = self._piece(distinct)
        same = len(inverse) == len(distinct) and bool((inverse == np.arange(len(inverse))).all())
        return made if same else made.taken(inverse.ravel())

    def moments(self) -> tuple[Values, Values]:
        """Return mean and variance (rows,)."""
        found = self._mean[self._places], self._variance[self._places]
        if self._marked is not None:
            for values in found:
                values[self._marked] = np.nan
        return found

    def _moments(self) -> tuple[Values, Values]:
        return self.moments()

    def _by_rows(self, method: str, x: Values) -> Values:
        result = np.empty(x.shape)
        # equal rows come together, so that they are worked out once
        order = np.argsort(self._places, kind="stable")
        for start in range(0, len(order), BLOCK_ROWS):
            rows = order[start : start + BLOCK_ROWS]
            result[:, rows] = self._made(rows)._by_rows(method, x[:, rows])
        if self._marked is not None:
            result[:, self._marked] = np.nan
        return result

    def _pdf(self, x: Values) -> Values:
        return self._by_rows("_pdf", x)

    def _cdf(self, x: Values) -> Values:
        return self._by_rows("_cdf", x)

    def drawn(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into numbers."""
        return self._by_rows("drawn", uniforms)

    def knots(self) -> tuple[Values, Values]:
        """Return points (knots, rows) and the cdf there."""
        return self._made(np.arange(len(self._places))).knots()
