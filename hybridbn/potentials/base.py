"""What every family of potentials promises, and the few array helpers they share.

A potential is the conditional density (or mass function) of one `child` given its `parents`. Inference
asks for nothing but the methods of `Potential`; a family lives in one file and is found by its `family` name when
a saved network is read.

The protocol in arrays
----------------------
`scope` lists the names ``(*parents, child)`` in the order of the array dimensions. An *axis* holds the points at which
a variable is looked at: state codes for a discrete variable, numbers for a continuous one. It has shape ``(nodes,)``
when all rows share it, or ``(nodes, rows)`` when each row of evidence has points of its own. An array over axes
therefore has one dimension for each name of the scope and, where any axis is per row, one more for the rows, which is
always the last.
"""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.registry import Registered, Registry
from hybridbn.unit_texts import read_unit
from hybridbn.variables import Codes, Continuous, Discrete, Grid, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.potentials.atoms import PointMarks
    from hybridbn.potentials.cases import Boxes
    from hybridbn.potentials.cell_quadrature import IntegrationCells
    from hybridbn.potentials.gaussian import LinearGaussian
    from hybridbn.potentials.multinomial import Multinomial
    from hybridbn.potentials.softmax import Softmax

Axes: TypeAlias = Mapping[str, NDArray[Any]]
Name = TypeVar("Name")
Interval: TypeAlias = tuple[float | Values, float | Values]
"""A range (low, high); the ends are numbers, or arrays with one number a row."""


class PointCells(NamedTuple):
    """Values of a continuous child that have mass, and the cells that stand for them where it is hidden.

    Attributes
    ----------
    points, low, high : ndarray (points,), ascending
        Each cell begins next to its point, or ends there, and is too short for anything to change in it.
    """

    points: Values
    low: Values
    high: Values

    def locate(self, values: Values) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the nearest point of each value, whether it is the point, and whether it lies inside of its cell.

        Numbers that differ from a point by what rounding may have changed are the point.
        """
        above = np.minimum(np.searchsorted(self.points, values), len(self.points) - 1)
        below = np.maximum(above - 1, 0)
        nearest = np.where(values - self.points[below] < self.points[above] - values, below, above)
        point = self.points[nearest]
        exact = np.abs(values - point) <= _SAME * np.abs(point)
        return nearest, exact, ~exact & (values > self.low[nearest]) & (values < self.high[nearest])

    def mark(self, values: Values) -> tuple[NDArray[np.intp], Values]:
        """Return the number of the point that each value is at, the next one where it is at none; and the logarithm of
        the length of the cell that it is inside of, zero elsewhere.
        """
        nearest, exact, inside = self.locate(values)
        lengths = np.where(inside, np.log(self.high - self.low)[nearest], 0.0)
        return np.where(exact | inside, nearest, len(self.points)), lengths

    def snap(self, values: Values) -> Values:
        """Return values with those inside of a cell, or at its ends, moved to its point."""
        return self._move(values, self.points, ends=True)

    def move_below(self, values: Values) -> Values:
        """Return values with the points, and those inside of a cell, moved below the cell."""
        return self._move(values, np.minimum(self.low, self.points))

    def move_above(self, values: Values) -> Values:
        """Return values with the points, and those inside of a cell, moved above the cell."""
        return self._move(values, np.maximum(self.high, self.points))

    def _move(self, values: Values, places: Values, *, ends: bool = False) -> Values:
        if not len(self.points):
            return values
        nearest, exact, _ = self.locate(values)
        low, high = np.minimum(self.low, self.points)[nearest], np.maximum(self.high, self.points)[nearest]
        # the gap between a point and its cell goes with them
        inside = exact | ((values > low) & (values < high)) | (ends & ((values == low) | (values == high)))
        return np.where(inside, places[nearest], values)

    def widen(self, low: Values, high: Values) -> tuple[Values, Values]:
        """Return ranges that hold the whole cells of the points at their ends."""
        return self._move(low, self.low), self._move(high, self.high)


_SAME = 8 * float(np.finfo(float).eps)
NO_POINTS = PointCells(*[np.empty(0)] * 3)
MOST_DIMENSIONS = 31
"""The most dimensions of an array of named axes, to which that of the rows is added; numpy before 2.0 has 32."""


class Components(NamedTuple):
    """A mixture of linear regressions taken apart.

    Attributes
    ----------
    component : a hidden variable
    chances : of the component, given parents
    regression : of the child on the parents and, last, the component
    marks : one where a value belongs to a component, if values tell that
    """

    component: Discrete
    chances: Potential
    regression: LinearGaussian
    marks: PointMarks | None = None


class Potential(Registered, ABC):
    """The conditional density of `child` given `parents`.

    A new family subclasses this, sets `family`, gives the attributes `child` and `parents` and implements `on` or
    `log_on`, whichever is natural; each is derived from the other. Everything else has a default that is right, if not
    fast, for any density. To be saved in files it implements `to_dict` and `from_dict` too.

    Attributes
    ----------
    child : Variable
    parents : tuple of Variable
    saved : tuple of str
        Keywords of the constructor that make it again, which are attributes, too.
    inner : tuple of str
        Attributes that are potentials of variables of the same names, its `parts`.
    """

    family: ClassVar[str] = ""
    saved: ClassVar[tuple[str, ...]] = ()
    inner: ClassVar[tuple[str, ...]] = ()
    families: ClassVar[Registry[type[Potential]]] = Registry("family", "hybridbn.potentials", "family")
    registry = families
    child: Variable
    parents: tuple[Variable, ...]

    def __init_subclass__(cls, **options: Any) -> None:
        if cls.on is Potential.on and cls.log_on is Potential.log_on:
            raise TypeError(f"{cls.__name__} must implement on() or log_on()")
        super().__init_subclass__(**options)

    def _set(self, **attributes: Any) -> Self:
        """Set attributes of a potential that is being made, as it is frozen; return it."""
        vars(self).update(attributes)
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set(**{name: freeze(value) if isinstance(value, np.ndarray) else value for name, value in state.items()})

    @cached_property
    def scope(self) -> tuple[str, ...]:
        """Names of the variables in the order of array dimensions: the parents, then the child."""
        return (*(parent.name for parent in self.parents), self.child.name)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables in the order of `scope`."""
        return (*self.parents, self.child)

    def variable(self, name: str) -> Variable:
        """Return the variable of that name."""
        for variable in self.variables:
            if variable.name == name:
                return variable
        raise NetworkError(f"the potential of {self.child.name!r} has no variable {name!r}, only {shorten(self.scope)}")

    @property
    def parts(self) -> tuple[Potential, ...]:
        """The potentials that it consists of, from which the defaults say what it is like; none where it is of one
        piece.
        """
        return tuple(getattr(self, name) for name in self.inner)

    # -- values ---------------------------------------------------------------------------------------------------

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Evaluate on given points of each variable.

        Parameters
        ----------
        axes : mapping from every name of `scope` to an axis

        Returns
        -------
        values : ndarray
            One dimension for each name of `scope`, and the rows last where an axis is per row. It may be changed by the
            caller unless it is read-only. Of a scope wider than arrays may be, not all names have one, see
            `list_dimensions`.
        log_scale : float or ndarray (rows,)
            The density is ``values * exp(log_scale)``.
        """
        log_values = self.log_on(axes)
        return exponentiate(log_values, log_values.ndim - has_rows(axes, self.scope))

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the density on given points; ``-inf`` where it is zero."""
        values, log_scale = self.on(axes)
        return np.asarray(take_logs(values) + log_scale)

    def add_log_on(self, axes: Axes, total: Values) -> float:
        """Add the logarithm of the density at one point of each variable in each row to a total (rows,), but for the
        number that is returned; what overflows may be NaN.
        """
        total += self.log_on(axes).reshape(-1)
        return 0.0

    def __call__(self, **values: Any) -> Values | float:
        """Evaluate at values of all variables, given by name; arrays broadcast against each other.

        States are given as states, numbers as numbers. A value outside the domain gives 0.
        """
        if set(values) != set(self.scope):
            raise TableError(f"give a value for each of {shorten(self.scope)}, not for {shorten(values)}")
        coded = {variable.name: _encode_values(variable, values[variable.name]) for variable in self.variables}
        shape = np.broadcast_shapes(*(array.shape for array in coded.values()))
        rows = {name: np.broadcast_to(array, shape).reshape(1, -1) for name, array in coded.items()}
        density, log_scale = self.on(rows)
        result = (density * np.exp(log_scale)).reshape(shape)
        return result if shape else float(result)

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return where the density is not smooth along a continuous variable, or has features that need resolving.

        Parameters
        ----------
        name : str
            A continuous variable of the scope.
        within : mapping, optional
            Known ranges of other continuous variables (a known value is a range with equal ends), as numbers or
            as arrays over rows. Families whose features move with the other variables use it.

        Returns
        -------
        ndarray (points,) or (points, rows), finite; sorted along the points.
        """
        return np.empty(0)

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return an interval of a continuous variable outside which less than `tail` of the mass lies.

        For the child that is the conditional mass, whatever the parents in `within` are. For a parent it is the range
        outside which the likelihood of a child `within` its range is negligible; infinite ends say that nothing is
        known. By default it is the domain; of a child with an infinite domain and a tail above 0, what is found from
        its values.
        """
        variable = self.variable(name)
        if not isinstance(variable, Continuous):
            return 0.0, len(variable) - 1.0
        low, high = variable.domain
        if name != self.child.name or not tail > 0 or math.isfinite(high - low):
            return low, high
        from hybridbn.potentials.cell_quadrature import find_support

        return find_support(self, tail, within or {})

    def scale(self, name: str) -> float:
        """Return the length along a continuous variable below which the density has no features; 0 if that is unknown.

        By default it is the smallest one of the parts, or is found from the values, at the peaks for some values of the
        parents.
        """
        if self.parts:
            scopes = ((part, {v.name for v in part.variables if isinstance(v, Continuous)}) for part in self.parts)
            return min((part.scale(name) for part, numbers in scopes if name in numbers), default=math.inf)
        from hybridbn.potentials.cell_quadrature import find_scale

        return find_scale(self, name)

    def lay_cells(self, given: Axes, edges: Values | None = None) -> IntegrationCells:
        """Return cells on which quadrature of a continuous child agrees with itself, for every row of its parents.

        Parameters
        ----------
        given : value arrays (rows,) of the parents
        edges : ndarray (edges, rows), ascending, of the cells to begin with; by default the peak is looked for
        """
        from hybridbn.potentials import cell_quadrature

        if edges is None:
            return cell_quadrature.lay_cells(self, given, 0.0)
        return cell_quadrature.halve_cells(self, given, edges)

    @property
    def point_cells(self) -> PointCells:
        """The values of a continuous child that have mass; by default there are none."""
        return NO_POINTS

    @property
    def opaque(self) -> bool:
        """Whether nothing is known of its scale, or that of a part, so that its peaks have to be looked for."""
        return any(part.opaque for part in self.parts) if self.parts else type(self).scale is Potential.scale

    @property
    def normalized(self) -> bool:
        """Whether the mass is one for every configuration of the parents; by default if that of all parts is."""
        return all(part.normalized for part in self.parts)

    @property
    def has_zeros(self) -> bool:
        """Whether the density may be zero inside the variables' domains, so that evidence can contradict it; by default
        if that of a part may, or if nothing is known of it.
        """
        return any(part.has_zeros for part in self.parts) if self.parts else self.opaque

    def cellwise(self, name: str) -> bool:
        """Tell whether the density depends on this continuous *parent* only through its cell between `breaks`.

        By default it does if all parts do.
        """
        return bool(self.parts) and all(part.cellwise(name) for part in self.parts if name in part.scope)

    @property
    def exact_mass(self) -> bool:
        """Whether `mass` is implemented, by all parts, too; it is for a continuous child only."""
        if not isinstance(self.child, Continuous) or type(self).mass is Potential.mass:
            return False
        return all(part.exact_mass for part in self.parts if part.child == self.child)

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the continuous child.

        Parameters
        ----------
        axes : axes of the parents, as in `on`
        edges : ndarray (cells + 1,) or (cells + 1, rows), increasing; the ends may be infinite

        Returns
        -------
        As `on`, with the child's dimension running over the cells.
        """
        raise NetworkError(f"{type(self).__name__} of {self.child.name!r} has no exact masses")

    def reweighted(self, edges: Values, factors: Values) -> Potential | None:
        """Return the density of the child alone after multiplying by factors and summing the discrete parents out.

        Parameters
        ----------
        edges : ndarray (cells + 1,)
        factors : ndarray (*discrete parents, cells)
            What the density is multiplied by in each cell of the child.

        Returns
        -------
        Potential or None
            In closed form, or None where the family is not closed under this.
        """
        return None

    # -- what it is ----------------------------------------------------------------------------------------------
    # Engines and algorithms that know a closed form ask for it; none of them asks which family a potential is of.

    def as_table(self) -> Multinomial | None:
        """Return the table of probabilities that this potential is, or None if it is kept in another form."""
        return None

    def as_regression(self) -> LinearGaussian | None:
        """Return the linear regression that this potential is, or None if it is not linear Gaussian."""
        return None

    def as_components(self) -> Components | None:
        """Return the mixture of linear regressions that this potential is, some of them without variance; None if it is
        none.
        """
        return None

    def list_regressions(self) -> list[LinearGaussian]:
        """Return the linear regressions of which the values of the child are, this potential or some of its parts."""
        own = self.as_regression()
        return [own] if own is not None else [found for part in self.parts for found in part.list_regressions()]

    def regression(self) -> LinearGaussian | None:
        """Return `as_regression`, by the name that it had before."""
        warnings.warn("Potential.regression() is deprecated; use as_regression()", DeprecationWarning, stacklevel=2)
        return self.as_regression()

    def as_softmax(self) -> Softmax | None:
        """Return the logistic regression that this potential is, or None if it is none."""
        return None

    def as_boxes(self) -> Boxes | None:
        """Return the boxes of the parents' space that the states of this potential are, or None if they are none."""
        return None

    def probabilities(self) -> Values | None:
        """Return the probabilities (*parents, states), evaluated if they are not kept in a table; None if a variable
        is continuous.
        """
        variables = [variable for variable in self.variables if isinstance(variable, Discrete)]
        if len(variables) < len(self.variables):
            return None
        values, log_scale = self.on({variable.name: np.arange(len(variable)) for variable in variables})
        table = values * np.exp(log_scale)
        return np.asarray(table / table.sum(axis=-1, keepdims=True))

    # -- simulation -----------------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Return the child's values (codes if discrete) at which its conditional cdf reaches the given probabilities.

        Parameters
        ----------
        uniforms : ndarray (rows,)
        given : mapping from each parent to its codes or values, (rows,)
        """
        from hybridbn.potentials import cell_quadrature

        return cell_quadrature.ppf(self, uniforms, given, 0.0 if self.opaque else cell_quadrature.TAIL)

    def conditional_cdf(self, values: Values, given: Axes) -> Values:
        """Return the conditional cdf of a continuous child at the value of each row (rows,), which `ppf` inverts.

        The mass of a single value itself is left out, so that the cdf there is what is below it.
        """
        from hybridbn.potentials import cell_quadrature

        return cell_quadrature.cdf(self, values, given)

    def integrate_bins(self, edges: Values, given: Axes) -> Values:
        """Return the masses (rows, bins) of a continuous child between edges for every row of its parents' codes or
        values, from the density alone.
        """
        from hybridbn.potentials import cell_quadrature

        return cell_quadrature.integrate_bins(self, given, edges)

    def sample(self, given: Axes, rng: np.random.Generator, size: int | None = None) -> NDArray[Any]:
        """Draw the child once for every row of the parents' codes or values (`size` times where there are no
        parents).
        """
        rows = size if size is not None else len(next(iter(given.values()))) if given else 1
        return self.ppf(rng.random(rows), given)

    # -- learning -------------------------------------------------------------------------------------------------

    def free_parameters(self) -> int:
        """Return how many numbers were learned: the k of the Bayesian information criterion.

        By default those of the parts, or all the numbers that `to_dict` returns. A family of which some are not free,
        because they add up to one or are fixed, implements this.
        """
        if self.parts:
            return sum(part.free_parameters() for part in self.parts)
        try:
            return _count_numbers(self.to_dict())
        except NetworkError:
            raise NetworkError(
                f"{type(self).__name__} must implement free_parameters(), so that networks with it can be compared"
            ) from None

    def optimism(self) -> float:
        """Return by how much the log-likelihood of the rows that it was learned from is too high, in nats.

        That is the log-likelihood less the cross-validated one. It is zero where `free_parameters` tells the price of
        learning, and positive for families that keep the rows themselves. By default it is that of the parts.
        """
        return sum((part.optimism() for part in self.parts), 0.0)

    def smooth(self, share: float) -> Self:
        """Return the potential with positive density everywhere, for algorithms that can't leave a zero again.

        By default itself.

        Parameters
        ----------
        share : float
            The share of the mass that is spread evenly where there are zeros.
        """
        return self

    # -- files ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as a dictionary of plain values, strings, lists and float arrays; exact.

        The variables are not part of it: they are saved once with the network. By default these are the attributes
        in `saved`.
        """
        if self.saved:
            return {name: getattr(self, name) for name in self.saved}
        raise NetworkError(f"the {type(self).__name__} potential of {self.child.name!r} can't be saved in a file")

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        if cls.saved:
            make: Any = cls  # which checks the variables' kinds
            return cast(Self, make(child, parents, **{name: state[name] for name in cls.saved}))
        raise NetworkError(f"{cls.__name__} potentials can't be read from a file")

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same potential with variables renamed, also in its parts; names that are not mentioned stay."""
        clone = copy.copy(self)
        child, *parents = (replace(v, name=names.get(v.name, v.name)) for v in (self.child, *self.parents))
        inner = {name: getattr(self, name).renamed(names) for name in self.inner}
        clone._set(child=child, parents=check_parents(child, parents), **inner)
        vars(clone).pop("scope", None)
        return clone

    def __repr__(self) -> str:
        given = f" | {', '.join(p.name for p in self.parents)}" if self.parents else ""
        return f"<{type(self).__name__} {self.child.name}{given}>"


# -- helpers for the families -------------------------------------------------------------------------------------


def make_again(packed: Mapping[str, Any], child: Variable, parents: Sequence[Variable]) -> Potential:
    """Make a part of a potential again from the name of its family and what its `to_dict` returned."""
    family = Potential.families.find(packed["family"])
    if family is None:
        raise NetworkError(f"there is no family of potentials {packed['family']!r}")
    return family.from_dict(child, parents, packed["parameters"])


def freeze(array: ArrayLike, dtype: Any = None) -> NDArray[Any]:
    """Return a read-only copy (or the array itself if it is read-only and owns its data already)."""
    given = np.asarray(array, dtype=dtype)
    if given.flags.writeable or given.base is not None:
        given = given.copy()
        given.flags.writeable = False
    return given


def check_parents(child: Variable, parents: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return the parents as a tuple, refusing what is not a variable and names that occur twice."""
    if isinstance(parents, Discrete | Continuous):
        raise NetworkError(f"{child.name!r}: parents must be a sequence of variables; write parents=({parents.name},)")
    if isinstance(parents, str) or not isinstance(parents, Iterable) or np.ndim(parents) == 0:  # type: ignore[arg-type]
        raise NetworkError(f"parents must be a sequence of variables, not {parents!r:.80}")
    for variable in (child, *parents):
        if not isinstance(variable, Discrete | Continuous):
            raise NetworkError(f"expected a Discrete or Continuous variable, not {variable!r}")
    names = [child.name, *(parent.name for parent in parents)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise NetworkError(f"{child.name!r}: {shorten(twice)} occurs more than once among the child and its parents")
    return tuple(parents)


@lru_cache(maxsize=1024)
def all_states(states: int) -> Codes:
    """Return the axis of all states in order; always the same read-only array, so that it can be told by identity."""
    codes: Codes = freeze(np.arange(states))
    return codes


def list_dimensions(axes: Mapping[Name, NDArray[Any]], scope: Sequence[Name]) -> list[Name]:
    """Return the names that have a dimension each in arrays over the axes: all, but of a scope that is too wide for
    arrays those of several points, and the last one.
    """
    if len(scope) <= MOST_DIMENSIONS:
        return list(scope)
    return [name for name in scope if name == scope[-1] or len(axes[name]) > 1]


def has_rows(axes: Mapping[Name, NDArray[Any]], scope: Iterable[Name]) -> bool:
    """Return whether an axis differs between rows."""
    return any(np.ndim(axes[name]) == 2 for name in scope)


def exponentiate(logs: Values, dimensions: int) -> tuple[Values, Values | float]:
    """Return exponentials over some first dimensions, and the logarithm of their scale, for each row if there are any.

    Examples
    --------
    >>> exponentiate(np.array([-1000.0, -1001.0]), 1)
    (array([1.        , 0.36787944]), -1000.0)
    """
    top = np.max(logs, axis=tuple(range(dimensions)), initial=-np.inf)
    scale = np.where(np.isfinite(top), top, 0.0)
    return np.exp(logs - scale), scale if scale.ndim else float(scale)


def sum_logs(logs: Values, over: tuple[int, ...], out: Values | None = None) -> Values:
    """Return the logarithms of sums over some dimensions, from logarithms, which `out` may overwrite; in less time than
    scipy's function for few numbers.
    """
    if not over:
        return np.asarray(logs)
    peak = np.max(logs, axis=over, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    scaled = np.subtract(logs, peak, out=out)
    np.exp(scaled, out=scaled)
    return np.asarray(take_logs(np.sum(scaled, axis=over)) + np.squeeze(peak, over))


def take_logs(values: ArrayLike) -> Values:
    """Return logarithms: minus infinity of zeros, without a warning."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def spread(axes: Mapping[Name, NDArray[Any]], scope: Sequence[Name]) -> list[NDArray[Any]]:
    """Reshape axes so that they broadcast against each other, one dimension a name, the rows last where there are
    any.
    """
    kept, rows = list_dimensions(axes, scope), has_rows(axes, scope)
    places = {name: place for place, name in enumerate(kept)}
    spread_axes = []
    for name in scope:
        axis = axes[name]
        shape = [1] * (len(kept) + rows)
        if name in places:
            shape[places[name]] = axis.shape[0]
        if axis.ndim == 2:
            shape[-1] = axis.shape[1]
        spread_axes.append(axis.reshape(shape))
    return spread_axes


def spread_states(axes: Axes, scope: Sequence[str], states: int) -> list[NDArray[Any]]:
    """Spread axes with all states of the child, the last of the scope, in the place of its own points."""
    child = np.arange(states)
    return spread({**axes, scope[-1]: child[:, None] if has_rows(axes, scope) else child}, scope)


def select_states(values: Values, axes: Axes, scope: Sequence[str]) -> Values:
    """Return what values over all states of the child are at its own points.

    Examples
    --------
    >>> select_states(np.array([[0.2, 0.8], [0.7, 0.3]]), {"x": np.zeros(2), "c": np.array([1])}, ("x", "c"))
    array([[0.8],
           [0.3]])
    """
    points = axes[scope[-1]]
    along = values.ndim - 1 - has_rows(axes, scope)
    if points.ndim == 1:
        return np.asarray(np.take(values, points, axis=along))
    return np.asarray(np.take_along_axis(values, spread(axes, scope)[-1], axis=along))


def join_breaks(parts: Sequence[Values]) -> Values:
    """Return the breaks of the parts of a potential together, which are arrays (points,) or (points, rows)."""
    rows = max((array.shape[1] for array in parts if array.ndim == 2), default=0)
    if not rows:
        return np.unique(np.concatenate([np.empty(0), *parts]))
    wide = [a if a.ndim == 2 else np.broadcast_to(a[:, None], (len(a), rows)) for a in parts]
    return np.sort(np.concatenate(wide), axis=0)


def draw_codes(weights: Values, index: NDArray[np.intp], uniforms: Values) -> NDArray[np.intp]:
    """Find for each uniform number (...,) the first state whose cumulative weight reaches that share of the total, in
    one of some weightings (weightings, states) of the states.

    States of weight zero are never found: at 0 the first possible state is, and a share of 1 is reached by the last
    one, whatever rounding does to the total.

    Examples
    --------
    >>> draw_codes(np.array([[1.0, 3.0], [0.0, 1.0]]), np.array([0, 0, 1]), np.array([0.25, 0.3, 0.0])).tolist()
    [0, 1, 1]
    """
    last = weights.shape[1] - 1
    cumulative, starts = np.cumsum(weights, axis=1).reshape(-1), index * (last + 1)
    wanted = np.maximum(uniforms * cumulative[starts + last], np.nextafter(0.0, 1.0))
    low, high = np.zeros(wanted.shape, dtype=np.intp), np.full(wanted.shape, last)
    for _ in range(last.bit_length()):
        middle = (low + high) // 2
        below = cumulative[starts + middle] < wanted
        high = np.where(below, high, middle)
        low = np.minimum(np.where(below, middle + 1, low), high)
    return low


def solve_increasing(
    evaluate: Callable[[Values, Codes], tuple[Values, Values]],
    target: Values,
    low: Values,
    high: Values,
    start: Values,
    tolerance: float = 1e-14,
) -> Values:
    """Solve ``f(x) = target`` for increasing functions by Newton steps kept inside a shrinking bracket.

    Parameters
    ----------
    evaluate : callable
        Takes points and the numbers of the problems they belong to; returns values and slopes.
    target, low, high, start : ndarray (problems,)

    Examples
    --------
    >>> low, high, start = np.zeros(2), np.full(2, 5.0), np.ones(2)
    >>> solve_increasing(lambda x, _: (x**3, 3 * x**2), np.array([8.0, 27.0]), low, high, start).round(9)
    array([2., 3.])
    """
    x, low, high = np.clip(start, low, high), low.copy(), high.copy()
    with np.errstate(over="ignore"):
        step = high - low
    active = np.arange(len(x))
    for _ in range(200):
        at = x[active]
        value, slope = evaluate(at, active)
        gap = value - target[active]
        low[active] = bottom = np.where(gap <= 0, at, low[active])
        high[active] = top = np.where(gap >= 0, at, high[active])
        with np.errstate(all="ignore"):
            newton = at - gap / slope
            # a Newton step that leaves the bracket, or does not halve the step before last, gives way to bisection
            good = (newton > bottom) & (newton < top) & (np.abs(2 * gap) <= np.abs(step[active] * slope))
        ahead = np.where(good, newton, 0.5 * bottom + 0.5 * top)
        ahead = np.where(np.abs(gap) <= tolerance, at, ahead)
        step[active], x[active] = ahead - at, ahead
        going = (np.abs(gap) > tolerance) & (np.abs(ahead - at) > 1e-16 * np.abs(at)) & (top > bottom)
        active = active[going]
        if not len(active):
            break
    return x


def _count_numbers(parameters: Any) -> int:
    """Return how many numbers there are in dictionaries, lists and arrays."""
    if isinstance(parameters, Mapping):
        return sum(map(_count_numbers, parameters.values()))
    if isinstance(parameters, list | tuple):
        return sum(map(_count_numbers, parameters))
    if isinstance(parameters, np.ndarray):
        return parameters.size
    return int(isinstance(parameters, int | float | np.number) and not isinstance(parameters, bool))


def _encode_values(variable: Variable, values: Any) -> Values | Codes:
    """Turn states or numbers into codes or floats without judging the domain; missing values are refused."""
    if isinstance(variable, Discrete):
        scalar = isinstance(values, str) or not isinstance(values, np.ndarray | list)
        numbers: NDArray[Any] = np.asarray(variable.code(values)) if scalar else variable.codes(values)
    else:
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise TableError(f"{variable.name!r} is continuous; {values!r} is not a number") from None
    if (np.isnan(numbers) if numbers.dtype.kind == "f" else numbers < 0).any():
        raise TableError(f"{variable.name!r}: a value is missing")
    return numbers


def variable_to_dict(variable: Variable) -> dict[str, Any]:
    """Return a variable as plain values; states keep their types (text, integers, floats and booleans only)."""
    if isinstance(variable, Continuous):
        plain: dict[str, Any] = {"name": variable.name, "domain": [repr(end) for end in variable.domain]}
        if variable.unit is not None:
            plain["unit"] = variable.unit.to_dict()
        if variable.grid is not None:
            plain["grid"] = [repr(float(number)) for number in astuple(variable.grid)]
        return plain
    for state in variable.states:
        if type(state) not in (str, bool, int, float):
            raise NetworkError(
                f"{variable.name!r}: the state {state!r} is a {type(state).__name__}; files hold only text, integers, "
                "floats and booleans as states"
            )
    result: dict[str, Any] = {"name": variable.name, "states": list(variable.states)}
    return result if variable.cuts is None else {**result, "cuts": list(variable.cuts)}


def variable_from_dict(state: Mapping[str, Any]) -> Variable:
    """Make a variable again from what `variable_to_dict` returned."""
    if "domain" in state:
        low, high = state["domain"]
        unit = None if "unit" not in state else read_unit(state["unit"])
        grid = None if "grid" not in state else Grid(*map(float, state["grid"]))
        return Continuous(state["name"], (float(low), float(high)), unit, grid)
    cuts = state.get("cuts")
    return Discrete(state["name"], tuple(state["states"]), None if cuts is None else tuple(cuts))
