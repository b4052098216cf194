"""Posteriors: distributions with scipy's method names, for one case or for a whole table of cases.

Arrays inside have the rows last; what users get has the rows first, or no rows at all for a single case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import TableError
from hybridbn.options import as_numbers, check_count, make_generator
from hybridbn.variables import Discrete, Values, Variable

__all__ = ["DiscretePosterior", "Posterior"]


SAMPLED_CONFIDENCE = 0.95
"""The probability with which a probability that was sampled lies between its bounds."""


class Posterior(ABC):
    """The distribution of one variable given evidence; one case, or a batch of `len` cases that can be sliced.

    Attributes
    ----------
    variable : Variable
    error : float or ndarray
        Estimated absolute error of probabilities; 1e-12 or more, for rounding, where everything is in closed form.
    """

    variable: Variable

    def __init__(
        self, variable: Variable, single: bool, error: Values, log_evidence: Callable[[], Values] | Values | None
    ):
        self.variable = variable
        self.single = single
        self._error = error
        self._log_evidence = log_evidence

    @property
    def error(self) -> Any:
        """Estimated absolute error of the probabilities."""
        return self._rows_first(self._error)

    @property
    def log_evidence(self) -> Any:
        """Logarithm of the probability (density) of the evidence."""
        return self._rows_first(self.compute_log_evidence()[0])

    @property
    def log_evidence_bounds(self) -> tuple[Any, Any]:
        """The lower and the upper limits of `log_evidence`, equal unless it is sampled.

        The probability that it lies between them is 95 %, whatever the number of draws.
        """
        _, low, high = self.compute_log_evidence()
        return self._rows_first(low), self._rows_first(high)

    def compute_log_evidence(self) -> Values:
        """Return the log probability of the evidence, its lower and its upper limits (3, rows)."""
        if callable(self._log_evidence):
            self._log_evidence = self._log_evidence()
        if self._log_evidence is None:
            raise TableError("the probability of the evidence is not known here; ask the network's log_evidence")
        values = np.asarray(self._log_evidence)
        return values if values.ndim > 1 else np.broadcast_to(values, (3, len(values)))

    def __len__(self) -> int:
        if self.single:
            raise TypeError("the posterior of a single case has no length")
        return self._rows

    @property
    def _rows(self) -> int:
        """The number of rows, one for a single case."""
        return len(self._error)

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if self.single:
            raise TableError("this is the posterior of a single case; it has no rows to choose from")
        single = isinstance(key, int | np.integer)
        rows = np.arange(len(self))[[int(key)] if single else key]
        selected = self.select_rows(rows)
        selected.single = single
        return selected

    def clone(self) -> Self:
        """Return a shallow copy."""
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        return clone

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows as a batch."""
        clone = self.clone()
        clone._error = self._error[rows]
        if callable(self._log_evidence):
            whole = self
            clone._log_evidence = _LazyLogEvidence(whole, rows)
        else:
            clone._log_evidence = None if self._log_evidence is None else self._log_evidence[..., rows]
        return clone

    def _rows_first(self, values: Values) -> Any:
        """Return (..., rows) as the user sees it: rows first, or none."""
        if self.single:
            value = values[..., 0]
            return value if value.ndim else value.item()
        return np.moveaxis(values, -1, 0)

    def sample(self, k: int | None = None, random_state: Any = None) -> Any:
        """Draw from the distribution: `k` draws for every row, or one (without a dimension) if it is left out."""
        rng = make_generator(random_state)
        k = None if k is None else check_count(k, "the number of draws")
        uniforms = rng.random((self._rows, 1 if k is None else k)).T
        draws = self._to_values(self.draw(uniforms))
        return self._rows_first(draws if k is not None else draws[0])

    def plot(self, ax: Any = None, *, prior: Posterior | None = None) -> Any:
        """Draw the distribution with matplotlib, and in outlines that without evidence; returns the axes.

        For a batch, at most 100 rows: bars of probabilities, or medians with the intervals that hold 50 and 90 %. See
        `hybridbn.pictures.plot_posterior`.
        """
        from hybridbn.pictures import plot_posterior

        return plot_posterior(self, ax, prior=prior)

    def _repr_html_(self) -> str:
        from hybridbn.pictures.html import show_posterior

        return show_posterior(self)

    @abstractmethod
    def draw(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into codes or numbers."""

    def _to_values(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """Turn codes into states; numbers stay."""
        return drawn


class _LazyLogEvidence:
    """The evidence of some rows of a posterior, computed when it is asked for; picklable."""

    def __init__(self, whole: Posterior, rows: NDArray[np.intp]) -> None:
        self.whole, self.rows = whole, rows

    def __call__(self) -> Values:
        return self.whole.compute_log_evidence()[:, self.rows]


class DiscretePosterior(Posterior):
    """Probabilities of the states of a discrete variable.

    Attributes
    ----------
    states : tuple
    probabilities : ndarray (states,) or (rows, states)
    """

    variable: Discrete

    def __init__(
        self,
        variable: Discrete,
        table: Values,
        single: bool,
        error: Values,
        log_evidence: Any,
        bounds: Values | None = None,
    ):
        super().__init__(variable, single, error, log_evidence)
        self._table = table
        self._bounds = bounds

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows as a batch."""
        clone = super().select_rows(rows)
        clone._table = self._table[:, rows]
        clone._bounds = None if self._bounds is None else self._bounds[..., rows]
        return clone

    @property
    def states(self) -> tuple[Hashable, ...]:
        """The states, in the order of the probabilities."""
        return self.variable.states

    @property
    def probabilities(self) -> Values:
        """Probabilities of the states."""
        return np.asarray(self._rows_first(self._table))

    @property
    def bounds(self) -> tuple[Values, Values]:
        """The lower and the upper limits of the probabilities; wider than `error` only where answers are sampled.

        Each interval holds its probability with `confidence`, whatever the number of draws is.
        """
        return self._widen(None if self._bounds is None else self._bounds[:2])

    @property
    def asymptotic_bounds(self) -> tuple[Values, Values]:
        """The limits of a large sample where `bounds` are wide, else `bounds`.

        They are wrong where much probability lies in what was not drawn, of which nothing can be known then.
        """
        return self._widen(None if self._bounds is None else self._bounds[2:])

    def _widen(self, limits: Values | None) -> tuple[Values, Values]:
        """Return limits, or the probabilities, widened by the error of quadrature."""
        low, high = (self._table, self._table) if limits is None else limits
        low, high = np.maximum(low - self._error, 0.0), np.minimum(high + self._error, 1.0)
        return np.asarray(self._rows_first(low)), np.asarray(self._rows_first(high))

    @property
    def confidence(self) -> float:
        """The probability with which a probability lies within its bounds; 1 where the answer is not sampled."""
        return 1.0 if self._bounds is None else SAMPLED_CONFIDENCE

    def probability(self, state: Any) -> Any:
        """Return the probability of one state."""
        code = self.variable.code(state)
        if code < 0:
            raise TableError(f"{self.variable.name!r}: {state!r} is not a state")
        return self._rows_first(self._table[code])

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self.probability(key)
        return super().__getitem__(key)

    def mode(self) -> Any:
        """Return the most probable state (the first of several)."""
        return self._states_of(self._table.argmax(axis=0))

    def entropy(self) -> Any:
        """Return the entropy in nats."""
        table = self._table
        return self._rows_first(-np.sum(table * np.log(table, where=table > 0, out=np.zeros_like(table)), axis=0))

    def mean(self) -> Any:
        """Return the expected state, where the states are numbers."""
        return self._rows_first(self._numbers() @ self._table)

    def var(self) -> Any:
        """Return the variance of the state, where the states are numbers."""
        numbers = self._numbers()
        centered = numbers[:, None] - numbers @ self._table
        return self._rows_first(np.sum(centered**2 * self._table, axis=0))

    def std(self) -> Any:
        """Return the standard deviation of the state, where the states are numbers."""
        return np.sqrt(self.var())

    def cdf(self, x: ArrayLike) -> Any:
        """Return the probability of a state up to `x`, where the states are numbers; of m points in n rows: (n, m)."""
        points = as_numbers(x, f"the points of the cdf of {self.variable.name!r}")
        if points.ndim > 1:
            raise TableError("give one point, or a list of points that all rows share")
        below = (self._numbers() <= points[..., None]).astype(float)
        return self._rows_first(np.minimum(below @ self._table, 1.0))

    def quantile(self, q: ArrayLike) -> Any:
        """Return the smallest state up to which the probability is at least `q`, where the states are numbers."""
        levels = as_numbers(q, "the levels of quantiles")
        if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise TableError(f"a quantile's level lies between 0 and 1; found {q!r}")
        numbers = self._numbers()
        order = np.argsort(numbers, kind="stable")
        sums = np.cumsum(self._table[order], axis=0)
        # sums are rounded; a level that is met but for rounding is met, and states of probability zero are no quantiles
        met = (sums >= levels[..., None, None] * sums[-1] - 1e-14) & (sums > 0)
        quantiles = numbers[order][np.argmax(met, axis=-2)]
        return self._rows_first(np.where(np.isnan(sums[-1]), np.nan, quantiles))

    def median(self) -> Any:
        """Return the median, where the states are numbers."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.9) -> Any:
        """Return the ends of the central interval that holds at least this probability: (2,), or (rows, 2)."""
        if not isinstance(level, Real) or not 0 < level < 1:
            raise TableError(f"the probability of an interval lies between 0 and 1; found {level!r}")
        return self.quantile([(1 - level) / 2, (1 + level) / 2])

    def _numbers(self) -> Values:
        if not all(isinstance(state, int | float) for state in self.states):
            raise TableError(f"the states of {self.variable.name!r} are not numbers; ask for probabilities or the mode")
        return np.array(self.states, dtype=float)

    def _states_of(self, codes: NDArray[Any]) -> Any:
        states = np.empty(len(self.states), dtype=object)
        states[:] = self.states
        chosen = states[codes]
        plain = np.array(chosen.tolist()) if len({type(s) for s in self.states}) == 1 and chosen.size else chosen
        return self._rows_first(plain if plain.shape == chosen.shape else chosen)

    def draw(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into codes or numbers."""
        cumulated = np.cumsum(self._table, axis=0)
        codes = (uniforms[:, None, :] * cumulated[-1] >= cumulated).sum(axis=1)
        last = len(self.states) - 1 - np.argmax(self._table[::-1] > 0, axis=0)
        return np.asarray(np.minimum(codes, last))

    def _to_values(self, codes: NDArray[Any]) -> NDArray[Any]:
        states: NDArray[Any] = np.empty(len(self.states), dtype=object)
        states[:] = self.states
        return np.asarray(states[codes])

    def __repr__(self) -> str:
        if not self.single:
            return f"<posterior of {self.variable.name!r} in {len(self)} rows: {len(self.states)} states>"
        shown = ", ".join(f"{s!r}: {p:.4g}" for s, p in list(zip(self.states, self._table[:, 0], strict=True))[:8])
        return f"<posterior of {self.variable.name!r}: {shown}{', ...' * (len(self.states) > 8)}>"
