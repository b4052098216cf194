"""Conditional probability tables, and the checks of parameter arrays that the parametric families share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Potential, all_states, check_parents, draw_codes, freeze, spread
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, encode_configurations

Side: TypeAlias = "Discrete | tuple[Continuous, ...]"
"""What one dimension of a parameter array runs over: the states of a variable, or several continuous parents."""

ROW_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Multinomial(Potential):
    r"""A table of probabilities, one row for each configuration of the parents.

    .. math:: P(c \mid d_1, d_2, \dots) = T[d_1, d_2, \dots, c]

    Parameters
    ----------
    child : Discrete
    parents : sequence of Discrete, optional
    table : array_like
        Its dimensions are the parents in their order, then the child.
    normalize : bool, optional
        Without it every row must sum to 1 within 1e-6 and is kept as it is given; with it rows are weights
        (counts, for example) and are divided by their sums.

    Examples
    --------
    >>> season, rain = Discrete("season", ("dry", "wet")), Discrete("rain", ("no", "yes"))
    >>> potential = Multinomial(rain, parents=(season,), table=[[0.9, 0.1], [0.3, 0.7]])
    >>> potential
    <Multinomial rain | season: 2 x 2>
    >>> potential(season="wet", rain="yes")
    0.7
    >>> Multinomial(rain, table=[3, 1], normalize=True).table
    array([0.75, 0.25])
    >>> Multinomial(rain, parents=(season,), table=[[0.9, 0.1], [0.5, 0.7]])
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'rain': the probabilities at season='wet' sum to 1.2, not to 1; correct them, or give
    normalize=True to divide them by their sum
    """

    family = "multinomial"
    saved: ClassVar[tuple[str, ...]] = ("table",)

    child: Discrete
    parents: tuple[Discrete, ...]
    table: Values

    def __init__(
        self, child: Discrete, parents: Sequence[Discrete] = (), *, table: ArrayLike, normalize: bool = False
    ) -> None:
        discrete, continuous = split(child, parents)
        remedy = "use Softmax, Kernel or MTE, or discretize it"
        if not isinstance(child, Discrete):
            raise NetworkError(f"{child.name!r} is continuous; the child of a Multinomial is discrete: {remedy}")
        if continuous:
            raise NetworkError(
                f"{child.name!r}: its parent {continuous[0].name!r} is continuous; the parents of a Multinomial are "
                f"discrete: {remedy}"
            )
        self._set(child=child, parents=discrete, table=_check_table((*discrete, child), table, normalize))

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Look the points up; a read-only view of the table where each axis is all states in order, or one state."""
        places: list[slice] = []
        moving: list[int] = []
        for place, (name, states) in enumerate(zip(self.scope, self.table.shape, strict=True)):
            axis = axes[name]
            if axis is all_states(states):
                places.append(slice(None))
            elif axis.shape == (1,):
                places.append(slice(axis[0], axis[0] + 1))
            elif axis.ndim == 2 and len(axis) == 1 and not moving:
                places.append(slice(None))
                moving.append(place)
            else:
                return self._look_up(axes), 0.0
        if not moving:
            return self.table[tuple(places)], 0.0
        # the state of one variable in each row: several times faster than general indexing
        place = moving[0]
        rows = np.moveaxis(self.table[tuple(places)], place, -1).take(axes[self.scope[place]][0], axis=-1, mode="clip")
        return np.expand_dims(rows, place), 0.0

    def _look_up(self, axes: Axes) -> Values:
        if any(axes[name].ndim != 2 or len(axes[name]) != 1 for name in self.scope):
            values: Values = self.table[tuple(spread(axes, self.scope))]
            return values
        # one state of each variable in each row: a single index is twice as fast as one for each dimension
        index = np.zeros(1, dtype=np.intp)
        for name, states in zip(self.scope, self.table.shape, strict=True):
            index = index * states + axes[name][0]  # some may be the same in all rows
        return self.table.ravel().take(index, mode="clip").reshape((1,) * self.table.ndim + index.shape)

    @cached_property
    def has_zeros(self) -> bool:
        """Whether any probability is zero."""
        return not self.table.all()

    def as_table(self) -> Self:
        """Return the potential itself."""
        return self

    def probabilities(self) -> Values:
        """Return the table."""
        return self.table

    def ppf(self, uniforms: Values, given: Axes) -> Codes:
        """Return the first states whose cumulative probability reaches the uniforms; never one of probability zero."""
        codes = [np.asarray(given[parent.name]) for parent in self.parents]
        rows = encode_configurations(codes, self.table.shape[:-1], len(uniforms))
        return draw_codes(self.table.reshape(-1, len(self.child)), rows, uniforms)

    def free_parameters(self) -> int:
        """Return the number of probabilities that are free, as those of a configuration add up to one."""
        return self.table.size // len(self.child) * (len(self.child) - 1)

    def smooth(self, share: float) -> Self:
        """Return the table without zeros: mixed with equal probabilities where there are any."""
        if not self.has_zeros:
            return self
        table = (1 - share) * self.table + share / self.table.shape[-1]
        return type(self)(self.child, self.parents, table=table, normalize=True)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {' x '.join(map(str, self.table.shape))}>"


def _check_table(sides: Sequence[Discrete], values: ArrayLike, normalize: bool) -> Values:
    table = as_parameter_array("the table", sides[-1].name, sides, values)
    name = sides[-1].name
    if (table < 0).any():
        where = np.argwhere(table < 0)[0]
        raise NetworkError(
            f"{name!r}: the probability at {cell_name(sides, where)} is {float(table[tuple(where)])!r}; "
            "probabilities can't be negative"
        )
    if normalize:
        # dividing by the largest first keeps the sum of huge weights finite
        top = table.max(axis=-1, keepdims=True)
        if not top.all():
            where = np.argwhere(top[..., 0] == 0)[0]
            raise NetworkError(
                f"{name!r}: the weights{describe_cell(sides[:-1], where)} are all zero and can't be normalized; "
                "give at least one of them a positive value"
            )
        scaled = table / top
        return freeze(scaled / scaled.sum(axis=-1, keepdims=True))
    with np.errstate(over="ignore"):
        sums = table.sum(axis=-1)
    wrong = ~(np.abs(sums - 1.0) <= ROW_TOLERANCE)
    if wrong.any():
        where = np.argwhere(wrong)[0]
        raise NetworkError(
            f"{name!r}: the probabilities{describe_cell(sides[:-1], where)} sum to {float(sums[tuple(where)]):.9g},"
            " not to 1; correct them, or give normalize=True to divide them by their sum"
        )
    return table


def describe_cell(sides: Sequence[Side], index: Sequence[int] | NDArray[Any]) -> str:
    """Say after a parameter where it is in its array, unless that is a single number."""
    return f" at {cell_name(sides, index)}" if len(sides) else ""


# -- shared with the other families -------------------------------------------------------------------------------


def split(child: Variable, parents: Sequence[Variable]) -> tuple[tuple[Discrete, ...], tuple[Continuous, ...]]:
    """Check the parents and return the discrete and the continuous ones, each in the parents' order.

    Examples
    --------
    >>> c, x, d = Discrete("c", ("a", "b")), Continuous("x"), Discrete("d", (0, 1))
    >>> [[v.name for v in kind] for kind in split(c, (x, d))]
    [['d'], ['x']]
    """
    if not isinstance(child, Discrete | Continuous):
        raise NetworkError(f"a child is a Discrete or Continuous variable, not {child!r}")
    checked = check_parents(child, parents)
    discrete = tuple(parent for parent in checked if isinstance(parent, Discrete))
    return discrete, tuple(parent for parent in checked if isinstance(parent, Continuous))


def cell_name(sides: Sequence[Side], index: Sequence[int] | NDArray[Any]) -> str:
    """Say in terms of states where in a parameter array something is.

    Examples
    --------
    >>> cell_name((Discrete("d", ("a", "b")), (Continuous("x"), Continuous("y"))), (1, 0))
    "d='b', of 'x'"
    """
    words = []
    for side, position in zip(sides, index, strict=True):
        if isinstance(side, Discrete):
            words.append(f"{side.name}={side.states[int(position)]!r}")
        else:
            words.append(f"of {side[int(position)].name!r}")
    return ", ".join(words)


def as_parameter_array(what: str, child: str, sides: Sequence[Side], values: ArrayLike) -> Values:
    """Return parameters as a read-only float array, refusing a wrong shape or numbers that are not finite.

    The message says which variable each dimension belongs to, and names the place of a bad number by states.

    Examples
    --------
    >>> as_parameter_array("the table", "d", (Discrete("d", ("a", "b")),), [1, 2, 3])
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'd': the table must have shape (2,), that is 2 states of 'd', not (3,)
    """
    wanted = tuple(len(side) for side in sides)
    shape = getattr(values, "shape", None)
    # a wrong shape is refused before anything is copied
    array = as_number_array(what, child, values) if shape is None or tuple(shape) == wanted else None
    if array is None or array.shape != wanted:
        said = f", that is {', '.join(map(_side_name, sides))}" if sides else ", that is a single number"
        size = math.prod(wanted)
        if size > 10**7:
            said += f" ({size:,} cells, {8 * size / 2**30:.1f} GiB)"
        given = tuple(shape or ()) if array is None else array.shape
        raise NetworkError(f"{child!r}: {what} must have shape {wanted}{said}, not {given}")
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0]
        raise NetworkError(
            f"{child!r}: {what} has {float(array[tuple(where)])!r}{describe_cell(sides, where)}; parameters must be"
            " finite numbers"
        )
    return array


def as_number_array(what: str, child: str, values: ArrayLike) -> Values:
    """Return numbers as a read-only float array, refusing text, complex numbers and lists of uneven lengths.

    Examples
    --------
    >>> as_number_array("the table", "d", ["0.5", "0.5"])
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'd': the table must be numbers in a regular array
    """
    try:
        raw = np.asarray(values)
        if raw.dtype.kind in "biuf" or (raw.dtype == object and not any(isinstance(i, str | bytes) for i in raw.flat)):
            return freeze(raw, np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise NetworkError(f"{child!r}: {what} must be numbers in a regular array")


def _side_name(side: Side) -> str:
    if isinstance(side, Discrete):
        return f"{len(side)} states of {side.name!r}"
    return f"one for each of {', '.join(repr(v.name) for v in side)}" if side else "no continuous parents"
