"""Posteriors: distributions with scipy's method names, for one case or for a whole table of cases.

Arrays inside have the rows last; what users get has the rows first, or no rows at all for a single case. Posteriors of
many rows whose densities take too much space to be kept all at once are worked out piece by piece.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import TableError
from hybridbn.options import as_numbers, check_count, check_level, make_generator
from hybridbn.potentials.base import draw_codes
from hybridbn.variables import Discrete, Values, Variable, as_objects, code_state

if TYPE_CHECKING:
    from hybridbn.inference.posteriors.continuous import ContinuousPosterior
    from hybridbn.potentials import MTE

SAMPLED_CONFIDENCE = 0.95
"""The probability with which a probability that was sampled lies between its bounds."""


class OtherKind(TableError, AttributeError):
    """A question that makes sense for posteriors of the other kind of variables only."""


class NoSuchRow(TableError, IndexError):
    """A row that a batch does not have."""


class Batch(ABC):
    """What is known in one case, or in each row of a batch, which has a length and can be sliced."""

    single: bool
    _error: Values
    _by_row: ClassVar[tuple[str, ...]] = ()
    """Attributes that are arrays with the rows last, or None."""

    @property
    def error(self) -> Any:
        """Estimated absolute error of the probabilities; NaN where they are sampled without bounds."""
        return self._rows_first(self._error)

    @property
    def _rows(self) -> int:
        """The number of rows, one for a single case."""
        return len(self._error)

    def __len__(self) -> int:
        if self.single:
            raise TypeError("the posterior of a single case has no length")
        return self._rows

    def __iter__(self) -> Iterator[Self]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if self.single:
            raise TableError("this is the posterior of a single case; it has no rows to choose from")
        single = isinstance(key, int | np.integer)
        try:
            rows = np.arange(len(self))[[int(key)] if single else key]
        except IndexError:
            raise NoSuchRow(
                f"{key!r:.80} chooses none of the {len(self)} rows, which are numbered from 0; give a number, a slice"
                " or a mask; the probability of a value is posterior.probability(value)"
            ) from None
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
        for name in ("_error", *self._by_row):
            array = getattr(self, name)
            setattr(clone, name, None if array is None else array[..., rows])
        return clone

    def _rows_first(self, values: Values) -> Any:
        """Return (..., rows) as the user sees it: rows first, or none."""
        if self.single:
            value = values[..., 0]
            return value if value.ndim else value.item()
        return np.moveaxis(values, -1, 0)


class Posterior(Batch):
    """The distribution of one variable given evidence; one case, or a batch of `len` cases that can be sliced.

    Attributes
    ----------
    variable : Variable
    error : float or ndarray
        Estimated absolute error of probabilities; 1e-12 or more, for rounding, where everything is in closed form.
        Where they are sampled, it is the largest distance from one of them to one of its `bounds`; NaN for the density
        of a number that is sampled, whose error is not known.
    """

    variable: Variable
    _is_numeric = False

    def __init__(
        self, variable: Variable, single: bool, error: Values, log_evidence: Callable[[], Values] | Values | None
    ):
        self.variable = variable
        self.single = single
        self._error = error
        self._log_evidence = log_evidence

    def __getitem__(self, key: Any) -> Any:
        if not self.single and not isinstance(key, str):
            rows = super().__getitem__(key)
            return rows.numeric if self._is_numeric else rows
        try:
            return self._look_up(key)
        except TableError as error:
            rows = "a single case has no rows to choose from" if self.single else "rows are chosen by their numbers"
            raise TableError(f"{error.text}; {rows}") from None

    def _look_up(self, value: Any) -> Any:
        """Return the probability of one of the values that have one."""
        return self.probability(value)

    def as_continuous(self) -> ContinuousPosterior:
        """Return the posterior of a number itself; refuse that of states."""
        raise OtherKind(f"{self.variable.name!r} has states, and no density; ask probability(state) or mode()")

    def as_discrete(self) -> DiscretePosterior:
        """Return the posterior of states itself; refuse that of a number."""
        raise OtherKind(f"{self.variable.name!r} is a number, without states; ask probability(value), cdf(x) or pdf(x)")

    @abstractmethod
    def probability(self, value: Any) -> Any:
        """Return the probability of a state or of a number; zero where numbers have a density."""

    @abstractmethod
    def mode(self) -> Any:
        """Return the most probable state, or where the density is largest (the first of several)."""

    @abstractmethod
    def entropy(self) -> Any:
        """Return the entropy in nats; that of numbers is differential."""

    @property
    def states(self) -> tuple[Hashable, ...]:
        """The states, in the order of the probabilities."""
        return self.as_discrete().variable.states

    @property
    def probabilities(self) -> Values:
        """Probabilities of the states."""
        return np.asarray(self._rows_first(self.as_discrete()._table))

    @property
    def bounds(self) -> tuple[Values, Values]:
        """The lower and the upper limits of the probabilities; those are exact but for `error` if nothing is sampled.

        Each interval holds its probability with `confidence`, whatever the number of draws is.
        """
        return self.as_discrete()._widen(slice(None, 2))

    @property
    def asymptotic_bounds(self) -> tuple[Values, Values]:
        """The limits of a large sample where `bounds` are wide, else `bounds`.

        They are wrong where much probability lies in what was not drawn, of which nothing can be known then.
        """
        return self.as_discrete()._widen(slice(2, None))

    @property
    def confidence(self) -> float:
        """The probability with which a probability lies within its bounds; 1 where the answer is not sampled."""
        return 1.0 if self.as_discrete()._bounds is None else SAMPLED_CONFIDENCE

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

    def select_rows(self, rows: NDArray[np.intp]) -> Any:
        """Return some rows as a batch."""
        clone = super().select_rows(rows)
        clone._log_evidence = partial(self._select_log_evidence, rows)
        return clone

    def _select_log_evidence(self, rows: NDArray[np.intp]) -> Values:
        """Return the log probability of the evidence of some rows and its limits, when somebody asks."""
        return self.compute_log_evidence()[:, rows]

    def sample(self, k: int | None = None, random_state: Any = None) -> Any:
        """Draw from the distribution: `k` draws for every row, or one (without a dimension) if it is left out."""
        k = None if k is None else check_count(k, "the number of draws")
        uniforms = make_generator(random_state).random((self._rows, 1 if k is None else k)).T
        draws = self._to_values(self.draw(uniforms))
        return self._settle(self._rows_first(draws if k is not None else draws[0]))

    @abstractmethod
    def draw(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into codes or numbers."""

    def _to_values(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """Turn codes into states, and numbers into those that there are."""
        return np.asarray(self.variable.round(drawn))

    @abstractmethod
    def moments(self) -> Values:
        """Return mean and variance (2, rows)."""

    def mean(self) -> Any:
        """Return the expectation; that of states if they are numbers."""
        return self._rows_first(self.moments()[0])

    def var(self) -> Any:
        """Return the variance; of dates and times in days, squared."""
        return self._rows_first(self.moments()[1])

    def std(self) -> Any:
        """Return the standard deviation."""
        return self._rows_first(np.sqrt(self.moments()[1]))

    def cdf(self, x: ArrayLike) -> Any:
        """Return the probability of a value up to `x`; of m points in n rows: (n, m)."""
        return self._at("_cdf", x)

    def pdf(self, x: ArrayLike) -> Any:
        """Return the density at `x`; of m points in n rows: (n, m). Of dates and times it is that per day."""
        return self.as_continuous()._at("_pdf", x)

    def log_pdf(self, x: ArrayLike) -> Any:
        """Return the log density at `x`; -inf where it is zero."""
        return self.as_continuous()._at("_log_pdf", x)

    def quantile(self, q: ArrayLike) -> Any:
        """Return the value below which the probability is `q`; of states, the smallest up to which it is at least
        that.
        """
        levels = as_numbers(q, "the levels of quantiles")
        if not ((levels >= 0) & (levels <= 1)).all():
            raise TableError(f"a quantile's level lies between 0 and 1; found {q!r}")
        return self._settle(self._at("_quantile", levels))

    def _settle(self, result: Any) -> Any:
        """Return numbers as users get them: as those that there are."""
        return result

    def median(self) -> Any:
        """Return the median."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.9) -> Any:
        """Return the ends of the central interval that holds this probability: (2,), or (rows, 2)."""
        return self.quantile(check_level(level))

    def _read(self, values: ArrayLike, what: str) -> Values:
        """Return values that a user gives as numbers."""
        return as_numbers(values, what)

    def _at(self, method: str, x: ArrayLike) -> Any:
        """Evaluate a method at points that all rows share."""
        points = self._read(x, f"points of {self.variable.name!r}")
        if points.ndim > 1:
            raise TableError("give one point, or a list of points that all rows share")
        values = self._at_points(method, points.reshape(-1, 1)) if points.size else np.empty((0, self._rows))
        return self._rows_first(values if points.ndim else values[0])

    @abstractmethod
    def _at_points(self, method: str, points: Values) -> Values:
        """Evaluate a method at points (points, 1) that all rows share: (points, rows)."""

    @property
    def numeric(self) -> Self:
        """The same posterior, which answers with numbers of days where values are dates or times."""
        clone = self.clone()
        clone._is_numeric = True
        return clone

    def pit(self, truth: ArrayLike) -> Any:
        """Return the probability of a value up to each row's own true one: its probability integral transform.

        Where densities are right, these are uniform between 0 and 1; they are NaN where the true value is missing. At a
        value that has mass it is the middle of the jump of the cdf, so that the mean is one half.
        """
        return self.as_continuous()._judge("_pit", truth)

    def log_score(self, truth: ArrayLike) -> Any:
        """Return the log density at each row's own true value."""
        return self.as_continuous()._judge("_log_pdf", truth)

    def central_level(self, truth: ArrayLike) -> Any:
        """Return the probability of the least central interval that holds each row's own true value.

        Where densities are right, so many of the true values are inside of these intervals, or more where single values
        have mass.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)])
        >>> round(net.posterior("x").central_level(-1.96), 3)
        0.95
        """
        return self.as_continuous()._judge("_central_level", truth)

    def crps(self, truth: ArrayLike) -> Any:
        r"""Return the continuous ranked probability score of each row: how far its density is from its true value.

        .. math:: \int (F(x) - [x \ge y])^2 dx = E|X - y| - \tfrac{1}{2} E|X - X'|

        It is in the unit of the variable, of dates and times in days. Of a prediction without spread it is the absolute
        error.

        Parameters
        ----------
        truth : float, or array_like (rows,)

        References
        ----------
        Gneiting & Raftery (2007), "Strictly proper scoring rules, prediction, and estimation", section 4.2.

        Examples
        --------
        >>> import hybridbn as hb
        >>> x = hb.Continuous("x")
        >>> net = hb.Network([hb.LinearGaussian(x, intercept=0, variance=1)])
        >>> [round(net.posterior("x").crps(value), 3) for value in (0.0, 3.0)]
        [0.234, 2.437]
        """
        return self.as_continuous()._judge("_crps", truth)

    def as_mte(self, **options: Any) -> MTE:
        """Return the density of a single case as a mixture of truncated exponentials.

        In closed form where the variable's own potential is one and its children see only its cells (naive Bayes and
        TAN over MTEs); otherwise an approximation with a stated error, see `MTE.from_density` for the options.
        """
        if not self.as_continuous().single:
            raise TableError("this is a batch of posteriors; choose a row: posterior[0].as_mte()")
        return self.as_continuous()._as_mte(**options)

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


class DiscretePosterior(Posterior):
    """Probabilities of the states of a discrete variable.

    Attributes
    ----------
    states : tuple
    probabilities : ndarray (states,) or (rows, states)
    """

    variable: Discrete
    _by_row = ("_table", "_bounds")

    def as_discrete(self) -> Self:
        """Return the posterior itself."""
        return self

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

    @property
    def error(self) -> Any:
        """Estimated absolute error of the probabilities; where they are sampled, how far `bounds` are from them."""
        if self._bounds is None:
            return super().error
        low, high = self._bounds[:2]
        return self._rows_first(self._error + np.maximum(self._table - low, high - self._table).max(axis=0))

    def _widen(self, part: slice) -> tuple[Values, Values]:
        """Return a pair of bounds, or the probabilities twice, widened by the error of quadrature."""
        low, high = (self._table, self._table) if self._bounds is None else self._bounds[part]
        low, high = np.maximum(low - self._error, 0.0), np.minimum(high + self._error, 1.0)
        return np.asarray(self._rows_first(low)), np.asarray(self._rows_first(high))

    def probability(self, state: Any) -> Any:
        """Return the probability of one state."""
        return self._rows_first(self._table[code_state(self.variable, state)])

    def mode(self) -> Any:
        """Return the most probable state (the first of several)."""
        chosen = self._to_values(self._table.argmax(axis=0))
        plain = np.array(chosen.tolist()) if len({type(s) for s in self.states}) == 1 and chosen.size else chosen
        return self._rows_first(plain if plain.shape == chosen.shape else chosen)

    def entropy(self) -> Any:
        """Return the entropy in nats."""
        return self._rows_first(compute_entropy(self._table))

    def _numbers(self) -> Values:
        if not all(isinstance(state, int | float) for state in self.states):
            raise TableError(f"the states of {self.variable.name!r} are not numbers; ask for probabilities or the mode")
        return np.array(self.states, dtype=float)

    def moments(self) -> Values:
        """Return mean and variance (2, rows)."""
        numbers = self._numbers()
        mean = numbers @ self._table
        return np.stack([mean, np.sum((numbers[:, None] - mean) ** 2 * self._table, axis=0)])

    def _at_points(self, method: str, points: Values) -> Values:
        return np.asarray(getattr(self, method)(points))

    def _cdf(self, x: Values) -> Values:
        return np.minimum((self._numbers() <= x).astype(float) @ self._table, 1.0)

    def _quantile(self, levels: Values) -> Values:
        numbers = self._numbers()
        order = np.argsort(numbers, kind="stable")
        sums = np.cumsum(self._table[order], axis=0)
        # sums are rounded; a level that is met but for rounding is met, and states of probability zero are no quantiles
        met = (sums >= levels[..., None] * sums[-1] - 1e-14) & (sums > 0)
        return np.where(np.isnan(sums[-1]), np.nan, numbers[order][np.argmax(met, axis=1)])

    def draw(self, uniforms: Values) -> NDArray[Any]:
        """Turn uniforms (k, rows) into codes or numbers."""
        return draw_codes(self._table.T, np.broadcast_to(np.arange(self._rows), uniforms.shape), uniforms)

    def _to_values(self, codes: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(as_objects(self.states)[codes])

    def __repr__(self) -> str:
        if not self.single:
            return f"<posterior of {self.variable.name!r} in {len(self)} rows: {len(self.states)} states>"
        shown = ", ".join(f"{s!r}: {p:.4g}" for s, p in list(zip(self.states, self._table[:, 0], strict=True))[:8])
        return f"<posterior of {self.variable.name!r}: {shown}{', ...' * (len(self.states) > 8)}>"


def compute_entropy(table: Values) -> Values:
    """Return the entropy (rows,) of probabilities (..., rows) in nats."""
    logs = np.log(table, where=table > 0, out=np.zeros_like(table))
    return np.asarray(-np.sum(table * logs, axis=tuple(range(table.ndim - 1))))
