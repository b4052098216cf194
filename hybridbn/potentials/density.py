"""Any conditional density that a user can write as a function of arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, freeze, spread
from hybridbn.potentials.cell_quadrature import MASS_TOLERANCE, integrate, typical_values, zero_mass_error
from hybridbn.potentials.mode_search import describe_point
from hybridbn.potentials.multinomial import as_number_array, split
from hybridbn.variables import Continuous, Discrete, Values, Variable, as_objects, plain_state, shorten, slice_blocks

CHUNK = 1 << 18
MOST_CHECKED = 64
GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Density(Potential):
    """A conditional density, or probabilities of a discrete child, given by a function.

    The function is called with one keyword argument for the child and each parent, all of them one-dimensional arrays
    of the same length: numbers for continuous variables, *states* (not codes) for discrete ones. It returns an array of
    that length, or a number; elementwise operations of numpy do. It must not depend on anything that changes.

    A density is not saved in files, because functions can't be.

    Parameters
    ----------
    child : Continuous or Discrete
    parents : sequence of Continuous and Discrete, optional
    function : callable
        Values must be non-negative and finite; they are checked whenever the function is evaluated. It is not called
        with values of the child outside the child's domain, where the density is zero.
    breaks : sequence of float, or mapping from names to such, optional
        Where the density is not smooth, or has peaks to resolve, along the child (a mapping: along any continuous
        variable). Quadrature is reliable with them; without, a narrow feature can be missed, and kinks and jumps (of a
        Laplace or a uniform density) cost accuracy and time.
    support : (float, float), or mapping from names to such, optional
        An interval outside which there is less than 1e-12 of the mass, of the child (a mapping: of any continuous
        variable). By default it is the domain where that is finite; else it is found from the values of the function,
        by a search away from 0, the parents' values and the breaks, for some values of the parents.
    check : bool, optional
        Integrate the density over the child for some values of the parents, and refuse a mass that is not 1 within
        1e-6. Without the check, any function is taken; where less than 1 is found of a density without continuous
        parents, the error of posteriors says that something may have been missed.

    Examples
    --------
    >>> x, y = Continuous("x"), Continuous("y", domain=(0, 1))
    >>> potential = Density(y, function=lambda y: 2 * y)
    >>> potential
    <Density y>
    >>> potential(y=[0.25, 2])
    array([0.5, 0. ])
    >>> Density(y, parents=(x,), function=lambda x, y: 3 * y + 0 * x)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'y': the mass of its Density at x=-1.0 is 1.5, not 1; divide the function by its
    integral over 'y', or give breaks= where it is not smooth or has narrow peaks, or check=False if it is right
    """

    family = "density"

    function: Callable[..., Any]
    _breaks: dict[str, Values]
    _support: dict[str, tuple[float, float]]
    _names: tuple[str, ...]

    def __init__(
        self,
        child: Variable,
        parents: Sequence[Variable] = (),
        *,
        function: Callable[..., Any],
        breaks: Sequence[float] | NDArray[Any] | Mapping[str, Sequence[float] | NDArray[Any]] = (),
        support: tuple[float, float] | Mapping[str, tuple[float, float]] | None = None,
        check: bool = True,
    ) -> None:
        split(child, parents)
        if not callable(function):
            raise NetworkError(f"{child.name!r}: function must be callable with the variables' names, not {function!r}")
        names = tuple(variable.name for variable in (*parents, child))
        self._set(child=child, parents=tuple(parents), function=function, _names=names)
        given = dict(breaks) if isinstance(breaks, Mapping) else {} if _is_empty(breaks) else {child.name: breaks}
        ranges = dict(support) if isinstance(support, Mapping) else {} if support is None else {child.name: support}
        self._set(
            _breaks={name: _check_breaks(self._continuous(name, "breaks"), points) for name, points in given.items()},
            _support={name: _check_range(self._continuous(name, "support"), pair) for name, pair in ranges.items()},
        )
        if check:
            self.check()

    def _continuous(self, name: str, what: str) -> Continuous:
        variable = self.variable(name)
        if isinstance(variable, Discrete):
            raise NetworkError(f"{self.child.name!r}: {what} are given for {name!r}, which is discrete and has none")
        return variable

    # -- values ---------------------------------------------------------------------------------------------------

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Call the function on the grid of the axes, a limited number of points at a time."""
        grid = np.broadcast_arrays(*spread(axes, self.scope))
        shape = grid[0].shape
        columns = [array.reshape(-1) for array in grid]
        result = np.zeros(columns[0].size)
        for block in slice_blocks(len(result), CHUNK):
            part = [column[block] for column in columns]
            if isinstance(self.child, Continuous) and self.child.domain != (-math.inf, math.inf):
                inside = (part[-1] >= self.child.domain[0]) & (part[-1] <= self.child.domain[1])
                result[block][inside] = self._call([column[inside] for column in part])
            else:
                result[block] = self._call(part)
        return result.reshape(shape), 0.0

    def _call(self, columns: Sequence[NDArray[Any]]) -> Values:
        values = [
            _state_array(v)[c] if isinstance(v, Discrete) else c for v, c in zip(self.variables, columns, strict=True)
        ]
        count = len(columns[0])
        if not count:
            return np.empty(0)
        # the function knows the names it was written with, also after a renaming
        with np.errstate(all="ignore"):  # overflow on the way does not matter; the result is checked
            try:
                returned = self.function(**dict(zip(self._names, values, strict=True)))
            except HybridBNError:
                raise
            except (TypeError, ValueError, ArithmeticError, LookupError) as error:
                raise NetworkError(
                    f"{self.child.name!r}: the function of its Density raised {type(error).__name__}:"
                    f" {str(error)[:200]}; it is called with the arguments {shorten(self._names)}, all arrays of one"
                    " length; write it with numpy's functions and np.where(), or wrap a function of single values with"
                    " np.vectorize()"
                ) from error
        try:
            density = np.broadcast_to(np.asarray(returned, dtype=np.float64), (count,))
        except (TypeError, ValueError):
            raise NetworkError(
                f"{self.child.name!r}: the function of its Density returned {_describe_value(returned)} for arrays of"
                f" length {count}; it must return an array of numbers of that length"
            ) from None
        wrong = ~((density >= 0) & (density < np.inf))
        if wrong.any():
            row = int(np.argmax(wrong))
            where = ", ".join(f"{v.name}={plain_state(a[row])!r}" for v, a in zip(self.variables, values, strict=True))
            raise NetworkError(
                f"{self.child.name!r}: the function of its Density returned {float(density[row])!r} at {where}; a"
                " density must be non-negative and finite"
            )
        return density

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the breaks that were given."""
        return np.array(self._breaks.get(self._original(name), ()), dtype=np.float64)

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return the support that was given, else the domain; where that is infinite, what is found of the child.

        The support is looked for at all states of the discrete parents and some values of each continuous one `within`
        its range; of a range that is not known, a few are taken. With a tail of 0 nothing is looked for.
        """
        known: Interval | None = self._support.get(self._original(name))
        return super().support(name, tail, within) if known is None else known

    def _original(self, name: str) -> str:
        """Return the name that a variable had when the function was written."""
        return str(self._names[self.variables.index(self.variable(name))])

    # -- checks ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a function that can't be called, and a mass that is not 1 for some configurations of the parents.

        All configurations of the discrete parents are looked at, each with some values of every continuous parent;
        where there are more than 64, so many of them.
        """
        self._check_arguments()
        child = self.child
        choices = [typical_values(self, parent) for parent in self.parents]
        sizes = [len(values) for values in choices]
        total = math.prod(sizes)
        # any regular choice would leave some parents at one value
        picked = range(total) if total <= MOST_CHECKED else [int(i * GOLDEN % 1 * total) for i in range(MOST_CHECKED)]
        cases = [[v[(n // math.prod(sizes[i + 1 :])) % sizes[i]] for i, v in enumerate(choices)] for n in picked]
        given = {p.name: np.array(column) for p, column in zip(self.parents, zip(*cases, strict=True), strict=True)}
        if isinstance(child, Discrete):
            axes = {name: values[None, :] for name, values in given.items()}
            values, _ = self.on({**axes, child.name: np.arange(len(child))})
            masses = values.reshape(len(child), -1).sum(axis=0)
        else:
            masses = integrate(self, given, tail=0.0)
        wrong = ~(np.abs(masses - 1) <= MASS_TOLERANCE)
        if wrong.any():
            row = int(np.argmax(wrong))
            place = {name: values[row] for name, values in given.items()}
            if masses[row] == 0 and isinstance(child, Continuous):
                raise zero_mass_error(self, place)
            where = describe_point(self, place)
            remedy = (
                "or give breaks= where it is not smooth or has narrow peaks, " if isinstance(child, Continuous) else ""
            )
            verb = "integral" if isinstance(child, Continuous) else "sum"
            raise NetworkError(
                f"{child.name!r}: the mass of its Density{where and ' at '}{where} is {float(masses[row]):.9g}, not 1;"
                f" divide the function by its {verb} over {child.name!r}, {remedy}or check=False if it is right"
            )

    def _check_arguments(self) -> None:
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):
            return  # some functions in C do not tell
        try:
            signature.bind(**dict.fromkeys(self._names))
        except TypeError as error:
            raise NetworkError(
                f"{self.child.name!r}: the function of its Density takes {signature}, but it is called with the names"
                f" of the child and its parents as keywords: {shorten(self._names)} ({error}); name its arguments like"
                " that"
            ) from None

    def free_parameters(self) -> int:
        """Return 0: a given function has nothing that was learned."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Refuse: functions are not saved."""
        raise NetworkError(
            f"the Density of {self.child.name!r} is a Python function and can't be saved in a file; replace it by an"
            " MTE or a Kernel first"
        )


def _state_array(variable: Discrete) -> NDArray[Any]:
    """Return the states as an array to be indexed by codes; of objects where they are of several types."""
    if len({type(state) for state in variable.states}) == 1 and isinstance(variable.states[0], str | int | float):
        return np.array(variable.states)
    return as_objects(variable.states)


def _describe_value(returned: Any) -> str:
    shape = getattr(returned, "shape", None)
    return f"an array of shape {shape}" if shape is not None else shorten([returned])


def _is_empty(breaks: Any) -> bool:
    """Tell whether there are no breaks; what is not a sequence is refused later, like any other that is not numbers."""
    try:
        return len(breaks) == 0
    except TypeError:
        return False


def _check_breaks(variable: Continuous, points: ArrayLike) -> Values:
    array = as_number_array("the breaks of a Density", variable.name, points)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise NetworkError(
            f"{variable.name!r}: the breaks of a Density must be a sequence of finite numbers, not {points!r}"
        )
    return freeze(np.unique(array))


def _check_range(variable: Continuous, pair: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in pair)
    except (TypeError, ValueError):
        raise NetworkError(f"{variable.name!r}: a support is a pair (low, high) of numbers, not {pair!r}") from None
    low, high = max(low, variable.domain[0]), min(high, variable.domain[1])
    if not low < high:
        raise NetworkError(f"{variable.name!r}: the support {pair!r} is empty, or outside the domain {variable.domain}")
    return low, high
