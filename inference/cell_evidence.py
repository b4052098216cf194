"""What a cell of evidence may hold instead of a value: an interval, states, weights of states, a likelihood function.

A new kind of evidence is one subclass of `CellEvidence`: its objects may stand wherever a value may, in mappings and in
columns of tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, TableError
from hybridbn.time_patterns import PatternFinder
from hybridbn.units import count_one_day, is_time_like, unit_of_pattern
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["CellEvidence", "Interval", "LikelihoodFunction", "StateWeights", "as_evidence"]


class CellEvidence:
    """What one cell tells of its variable, other than a value.

    Attributes
    ----------
    only_reach : bool
        Whether `reach` says all there is to say of a continuous variable, so that `weights` need not be asked.
    """

    only_reach: ClassVar[bool] = False

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` where this can't be said of the variable."""

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return the likelihood (points,) of values of the variable: numbers, or codes of states."""
        return np.ones(len(points))

    def reach(self) -> tuple[float, float]:
        """Return an interval outside which the likelihood of a continuous variable is zero."""
        return -math.inf, math.inf

    def breaks(self) -> Sequence[float]:
        """Return the places where the likelihood of a continuous variable is not smooth."""
        return ()

    def key(self) -> Hashable:
        """Return what is equal where the evidence is the same; objects are the same as themselves alone by default."""
        return id(self)


@dataclass(frozen=True)
class Interval(CellEvidence):
    """A range of a continuous variable as evidence; the ends may be infinite, dates or times.

    Examples
    --------
    >>> Interval(1, 3)
    Interval(low=1.0, high=3.0)
    >>> Interval(2)
    Interval(low=2.0, high=inf)
    """

    low: Any = -math.inf
    high: Any = math.inf

    only_reach: ClassVar[bool] = True

    def __post_init__(self) -> None:
        try:
            low, high = (_count_end(end) for end in (self.low, self.high))
        except (TypeError, ValueError, OverflowError):
            raise TableError(
                f"the ends of an interval must be numbers, dates or times, not {self.low!r} and {self.high!r}"
            ) from None
        if not low < high:
            raise TableError(f"an interval needs low < high, not {low} and {high}")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` where the variable is discrete, or the interval outside its domain."""
        if isinstance(variable, Discrete):
            raise TableError(f"{variable.name!r} is discrete; give a set of states instead of {self!r}")
        if self.high < variable.domain[0] or self.low > variable.domain[1]:
            raise TableError(f"{variable.name!r}: {self!r} lies outside the domain {variable.domain}")

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return one inside and zero outside."""
        return np.asarray((points >= self.low) & (points <= self.high), dtype=np.float64)

    def reach(self) -> tuple[float, float]:
        """Return the interval itself."""
        return self.low, self.high

    def breaks(self) -> Sequence[float]:
        """Return the ends that are finite."""
        return [end for end in (self.low, self.high) if math.isfinite(end)]

    def key(self) -> Hashable:
        """Return the ends."""
        return self.low, self.high


def _count_end(end: Any) -> float:
    """Return an end of an interval as a number: dates and times, also those of text such as 2024-01-31, in days."""
    if is_time_like(end):
        return count_one_day(end)
    if isinstance(end, str):
        finder = PatternFinder()
        finder.add([end])
        if finder.pattern is None or finder.ambiguous:
            raise ValueError(end)
        return unit_of_pattern(finder.pattern).number(end)
    return float(end)


class StateWeights(CellEvidence):
    """Weights of a discrete variable's states: a likelihood, or a set of states with equal ones.

    Parameters
    ----------
    states : mapping from state to weight, or set of states
    """

    def __init__(self, states: Mapping[Any, Any] | set[Any] | frozenset[Any]) -> None:
        self.states = states

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` for other states, or weights that are no likelihood."""
        if isinstance(variable, Continuous):
            raise _unsuitable(variable, self.states)
        values = []
        for state, weight in self._items():
            if variable.code(state) < 0:
                raise TableError(f"{variable.name!r}: {state!r} is not a state")
            try:
                values.append(float(weight))
            except (TypeError, ValueError):
                raise TableError(f"{variable.name!r}: the likelihood {weight!r} of {state!r} is not a number") from None
        if not np.isfinite(values).all() or min(values, default=0.0) < 0 or not any(values):
            raise TableError(
                f"{variable.name!r}: a likelihood needs finite, non-negative numbers, one of them positive; "
                f"found {self.weights(variable, np.arange(len(variable))).tolist()}"
            )

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Return the weights of states, zero for those that are not named."""
        assert isinstance(variable, Discrete)
        weights = np.zeros(len(variable))
        for state, weight in self._items():
            weights[variable.code(state)] = float(weight)
        return np.asarray(weights[points])

    def _items(self) -> list[tuple[Any, Any]]:
        if isinstance(self.states, Mapping):
            return list(self.states.items())
        return [(state, 1.0) for state in self.states]


class LikelihoodFunction(CellEvidence):
    """A likelihood of a continuous variable that is known by its values alone.

    Parameters
    ----------
    function : from an array of points to their likelihoods
    """

    def __init__(self, function: Callable[[Values], Any]) -> None:
        self.function = function

    def check(self, variable: Variable) -> None:
        """Raise a `TableError` where the variable is discrete."""
        if isinstance(variable, Discrete):
            variable.code(self.function)  # says that this is no state

    def weights(self, variable: Variable, points: NDArray[Any]) -> Values:
        """Call the function."""
        try:
            return np.asarray(self.function(points), dtype=np.float64)
        except HybridBNError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TableError(
                f"the likelihood function of {variable.name!r} raised {type(error).__name__}: {error!s:.200}; it is"
                " called with an array of numbers and returns one of the same length"
            ) from error

    def key(self) -> Hashable:
        """Return the function's identity."""
        return id(self.function)


def as_evidence(cell: Any) -> CellEvidence | None:
    """Return what a cell holds as evidence, or None where it is a value.

    Examples
    --------
    >>> as_evidence(1.5), as_evidence({"a", "b"}).weights(Discrete("c", states=("a", "b", "d")), np.arange(3))
    (None, array([1., 1., 0.]))
    """
    if isinstance(cell, CellEvidence):
        return cell
    if isinstance(cell, set | frozenset | Mapping):
        return StateWeights(cell)
    return LikelihoodFunction(cell) if callable(cell) else None


def _unsuitable(variable: Continuous, cell: Any) -> TableError:
    return TableError(f"{variable.name!r} is continuous; give a number, an hb.Interval or a function, not {cell!r}")
