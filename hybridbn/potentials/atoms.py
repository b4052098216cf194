"""Values that have mass: a density with points beside it, such as exact zeros in many rows, and one point alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import (
    Axes,
    Components,
    Interval,
    PointCells,
    Potential,
    check_parents,
    freeze,
    join_breaks,
    make_again,
    spread,
)
from hybridbn.potentials.gaussian import drop_idle_parents, name_component
from hybridbn.potentials.multinomial import Multinomial, as_number_array
from hybridbn.variables import Continuous, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.potentials.cell_quadrature import IntegrationCells

OTHER = "other"
"""The state of the component that is the density."""
CELL, LEAST_CELL = 2.0**-36, 2.0**-44
"""The length of the cell that stands for a point where a variable is hidden, relative to the unit, and at least
relative to the point: long enough for nodes that are different doubles, too short for anything to change in it.
"""
GAP = 2.0**-44
"""Between a point and its cell, relative to both: where something has a break at the point but for rounding, that must
not cut the cell into parts of which one is the point itself, nor nodes of it fall on its end.
"""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Atoms(Potential):
    r"""Points that have mass, and a density of any family for all other values.

    .. math:: f(x \mid u) = P(a_j \mid u) \text{ at the points } x = a_j, \quad
        P(\text{other} \mid u)\, g(x \mid u) \text{ elsewhere}

    Which of the points it is, or none, is a discrete variable with the same parents. The density is that with respect
    to Lebesgue measure and one unit of mass at each point: a value observed at a point has a probability, another one a
    density, and the logarithm of the evidence adds up both. Where the variable is hidden, quadrature sees a point as a
    cell that is too short for anything to change in it.

    Parameters
    ----------
    child : Continuous
    parents : sequence of Variable
    points : sequence of float, ascending
    probabilities : Potential or array_like
        Of the points, and of anything else last. An array has the discrete parents' dimensions first, in their order,
        and there are no continuous ones; a potential is that of `Atoms.component_of(child, points)` given the parents.
    density : Potential
        Of the child given the parents.
    unit : float, optional
        A length that is typical of the child; by default the largest of the points, or one.

    Examples
    --------
    >>> import hybridbn as hb
    >>> dry, rain = hb.Discrete("dry", ("no", "yes")), hb.Continuous("rain")
    >>> normal = hb.LinearGaussian(rain, (dry,), intercept=[5, 1], variance=[4, 1])
    >>> potential = Atoms(rain, (dry,), points=[0], probabilities=[[0.2, 0.8], [0.9, 0.1]], density=normal)
    >>> potential(dry=["no", "yes", "yes"], rain=[0.0, 0.0, 1.0]).round(3)
    array([0.2 , 0.9 , 0.04])
    >>> net = hb.Network([hb.Multinomial(dry, table=[0.5, 0.5]), potential])
    >>> round(net.posterior("rain").mean(), 3), net.posterior("rain", {"dry": "yes"}).quantile([0.1, 0.99]).round(3)
    (2.05, array([0.   , 2.282]))
    """

    family = "atoms"
    inner: ClassVar[tuple[str, ...]] = ("component", "density")

    child: Continuous
    points: Values
    component: Potential
    density: Potential
    unit: float

    @staticmethod
    def component_of(child: Continuous, points: Sequence[float]) -> Discrete:
        """Return the discrete variable that tells at which point a number is, or that it comes from the density.

        Examples
        --------
        >>> Atoms.component_of(Continuous("rain"), [0.0]).states
        (0.0, 'other')
        """
        return Discrete(child.name, (*map(float, points), OTHER))

    def __init__(
        self,
        child: Continuous,
        parents: Sequence[Variable] = (),
        *,
        points: ArrayLike,
        probabilities: Potential | ArrayLike,
        density: Potential,
        unit: float | None = None,
    ) -> None:
        if not isinstance(child, Continuous):
            raise NetworkError(f"{child.name!r} is discrete, and has no density beside its states; give a Multinomial")
        checked = check_parents(child, parents)
        values = as_number_array("the points", child.name, points)
        if values.ndim != 1 or not len(values) or not (np.isfinite(values).all() and (np.diff(values) > 0).all()):
            raise NetworkError(f"{child.name!r}: give one point or several in ascending order, not {points!r:.80}")
        for value in values.tolist():
            child.value(value)
        variable = Atoms.component_of(child, values.tolist())
        component: Potential
        if isinstance(probabilities, Potential):
            component = probabilities
        else:
            component = Multinomial(variable, checked, table=probabilities)  # type: ignore[arg-type]
        for what, inner, own in (("probabilities", component, variable), ("density", density, child)):
            if not isinstance(inner, Potential) or inner.child != own or tuple(inner.parents) != checked:
                given = [parent.name for parent in checked]
                raise NetworkError(
                    f"{child.name!r}: the {what} must be a potential of {own!r} given {given}, not {inner!r:.80}"
                )
        length = float(np.abs(values).max()) or 1.0 if unit is None else unit
        if isinstance(length, bool) or not isinstance(length, int | float | np.number) or not 0 < length < math.inf:
            raise NetworkError(f"{child.name!r}: the unit must be a positive number, not {unit!r}")
        self._set(child=child, parents=checked, points=values, component=component, density=density, unit=float(length))

    @cached_property
    def point_cells(self) -> PointCells:
        """The points and their cells: each begins next to its point, or ends there, if the domain does."""
        size = np.abs(self.points)
        near = GAP * np.maximum(size, self.unit)
        far = near + np.maximum(LEAST_CELL * size, CELL * self.unit)
        at_end = self.points + far > self.child.domain[1]
        low = np.where(at_end, self.points - far, self.points + near)
        high = np.where(at_end, self.points - near, self.points + far)
        return PointCells(self.points, freeze(low), freeze(high))

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the mass at the points, and of the density elsewhere."""
        name = self.child.name
        codes, lengths = self.point_cells.mark(axes[name])
        states = codes, np.full_like(codes, len(self.points))
        component, other = (np.asarray(self.component.log_on({**axes, name: each})) for each in states)
        at_point, lengths = (
            spread({**axes, name: array}, self.scope)[-1] for array in (codes < len(self.points), lengths)
        )
        density = other + self.density.log_on(axes)
        # far from zero cells are not so short that the density in them were nothing
        in_cell = np.logaddexp(component - lengths, density) if lengths.any() else component
        return np.where(at_point, np.where(lengths == 0, component, in_cell), density)

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells, which are closed below, the last one above too."""
        values, scale = self.density.mass(axes, edges)
        probabilities = np.exp(self.component.log_on({**axes, self.child.name: np.arange(len(self.points) + 1)}))
        along, dimensions = len(self.scope) - 1, max(values.ndim, probabilities.ndim)
        masses, probabilities = (
            array[..., None] if array.ndim < dimensions else array for array in (values * np.exp(scale), probabilities)
        )
        result = masses * probabilities.take([len(self.points)], axis=along)
        for number, point in enumerate(self.points.tolist()):
            inside = _hold(edges, point)
            rows = () if result.ndim == along + 1 else inside.shape[1:] or (1,)
            result = result + probabilities.take([number], axis=along) * inside.reshape(-1, *rows)
        return result, 0.0

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the breaks of both parts, and the ends of the points' cells, in which the density has none."""
        inner = np.asarray(self.density.breaks(name, within))
        if name != self.child.name:
            return join_breaks([inner, np.asarray(self.component.breaks(name))])
        return join_breaks([self.point_cells.widen(inner, inner)[0], np.concatenate(self.point_cells[1:])])

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return the support of the density, and the points."""
        low, high = self.density.support(name, tail, within)
        if name != self.child.name:
            return low, high
        return np.minimum(low, self.point_cells.low[0]), np.maximum(high, self.point_cells.high[-1])

    def lay_cells(self, given: Axes, edges: Values | None = None) -> IntegrationCells:
        """Return the cells of the density; the points have cells of their own."""
        return self.density.lay_cells(given, edges)

    def as_components(self) -> Components | None:
        """Return the probabilities, and the regression that the density is, with the points as constants."""
        regression = self.density.as_regression()
        if regression is None:
            return None
        regression, softmax = drop_idle_parents(regression), self.component.as_softmax()
        component = self.component if softmax is None else drop_idle_parents(softmax)
        hidden = Discrete(name_component(self.child, self.parents), (*self.points.tolist(), OTHER))
        shape, count = regression.intercept.shape, len(self.points)
        slopes = regression.coefficients[..., None, :]
        arrays = {
            "intercept": (np.broadcast_to(self.points, (*shape, count)), regression.intercept[..., None]),
            "coefficients": (np.zeros((*shape, count, slopes.shape[-1])), slopes),
            "variance": (np.zeros((*shape, count)), regression.variance[..., None]),
        }
        joined = {name: np.concatenate(parts, axis=len(shape)) for name, parts in arrays.items()}
        # the constructor takes no variances of zero
        density = object.__new__(type(regression))
        density._set(child=self.child, parents=(*regression.parents, hidden), **joined)
        return Components(hidden, component.renamed({self.child.name: hidden.name}), density, PointMarks(self, hidden))

    @property
    def opaque(self) -> bool:
        """Whether a part is."""
        return self.density.opaque or (self.component.opaque and self.component.probabilities() is None)

    # -- simulation and learning ----------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Invert the cdf of each row: that of the density between the points, which are where it jumps."""
        if not self.density.exact_mass:
            return self.point_cells.snap(super().ppf(uniforms, given))
        rows, count = len(uniforms), len(self.points)
        axes = {parent.name: np.asarray(given[parent.name])[None, :] for parent in self.parents}
        codes = np.broadcast_to(np.arange(count + 1)[:, None], (count + 1, rows))
        logs = self.component.log_on({**axes, self.child.name: codes})
        masses = np.exp(logs).reshape(count + 1, rows)
        edges = np.unique([self.child.domain[0], *self.points.tolist(), self.child.domain[1]])
        values, scale = self.density.mass(axes, edges)
        cells = np.broadcast_to((values * np.exp(scale)).reshape(len(edges) - 1, -1), (len(edges) - 1, rows))
        below = np.concatenate([np.zeros((1, rows)), np.cumsum(cells, axis=0)])[np.searchsorted(edges, self.points)]
        # how much lies below each point, and up to it
        upto = masses[count] * below + np.cumsum(masses[:count], axis=0)
        jumps = upto - masses[:count]
        passed = (uniforms > upto).sum(axis=0)
        near = np.minimum(passed, count - 1)
        at_point = (passed < count) & (uniforms > jumps[near, np.arange(rows)])
        result = np.where(at_point, self.points[near], np.nan)
        rest = uniforms - np.where(uniforms > upto, masses[:count], 0.0).sum(axis=0)
        others = np.flatnonzero(~at_point)
        if len(others):
            levels = rest[others] / np.maximum(masses[count, others], np.finfo(float).tiny)
            mine = {name: np.asarray(column)[others] for name, column in given.items()}
            result[others] = self.density.ppf(np.clip(levels, 0.0, 1.0), mine)
        return result

    def smooth(self, share: float) -> Self:
        """Return the potential with both parts positive everywhere."""
        density = self.density.smooth(share)
        component = self.component.smooth(share)
        return type(self)(
            self.child, self.parents, points=self.points, probabilities=component, density=density, unit=self.unit
        )

    # -- files ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the points and the families and parameters of both parts."""
        return {
            "points": np.array(self.points),
            "unit": self.unit,
            **{
                name: {"family": part.family, "parameters": part.to_dict()}
                for name, part in zip(self.inner, self.parts, strict=True)
            },
        }

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        if not isinstance(child, Continuous):
            raise NetworkError(f"{child.name!r} is discrete; Atoms are continuous")
        points = np.asarray(state["points"], dtype=np.float64)
        component = make_again(state["component"], Atoms.component_of(child, points.tolist()), parents)
        density = make_again(state["density"], child, parents)
        return cls(child, parents, points=points, probabilities=component, density=density, unit=float(state["unit"]))

    def __repr__(self) -> str:
        shown = ", ".join(f"{point:g}" for point in self.points[:3].tolist())
        return f"{super().__repr__()[:-1]}: {shown}{', ...' * (len(self.points) > 3)} and {self.density!r}>"


class PointMarks(Potential):
    """One where a number belongs to a component, and zero elsewhere; in the cells that stand for points their density.

    Parameters
    ----------
    whole : Potential
        Of the number.
    component : Discrete
    """

    child: Continuous
    cells: PointCells

    def __init__(self, whole: Potential, component: Discrete) -> None:
        self._set(child=whole.child, parents=(component,), cells=whole.point_cells)

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm."""
        state, number = spread(axes, self.scope)
        codes, lengths = self.cells.mark(number)
        return np.where(codes == state, -lengths, -np.inf)


def _hold(edges: Values, point: float) -> NDArray[np.bool_]:
    """Tell which cells hold a point: they are closed below, the last one above too."""
    return np.asarray((edges[:-1] <= point) & np.concatenate([edges[1:-1] > point, edges[-1:] >= point]))


# -- points alone -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False, init=False)
class PointMass(Potential):
    """All mass at one value of a continuous variable without parents.

    There is no density at the value, so the potential is the mass itself: one there, and zero elsewhere. Inference
    takes the value for observed, whatever the evidence says of other variables; other values are impossible.

    Parameters
    ----------
    child : Continuous
    value : float

    Examples
    --------
    >>> dose = Continuous("dose")
    >>> potential = PointMass(dose, value=4)
    >>> potential
    <PointMass dose: 4.0>
    >>> potential(dose=[4.0, 4.5]).tolist()
    [1.0, 0.0]
    """

    family = "point_mass"
    saved: ClassVar[tuple[str, ...]] = ("value",)

    child: Continuous
    value: float

    def __init__(self, child: Continuous, parents: Sequence[Variable] = (), *, value: float) -> None:
        if not isinstance(child, Continuous):
            raise NetworkError(f"{child.name!r} is discrete; give a Multinomial with a probability of one instead")
        if parents:
            raise NetworkError(f"{child.name!r}: a PointMass has no parents, not {[p.name for p in parents]}")
        number = child.value(value)
        if not math.isfinite(number):
            raise NetworkError(f"{child.name!r}: a PointMass is at a finite number, not at {value!r}")
        self._set(child=child, parents=(), value=number)

    def log_on(self, axes: Axes) -> Values:
        """Return zero at the value, and minus infinity elsewhere."""
        return np.where(spread(axes, self.scope)[0] == self.value, 0.0, -np.inf)

    @property
    def has_zeros(self) -> bool:
        """Whether evidence may contradict it: any other value does."""
        return True

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the value."""
        return np.array([self.value])

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return the value as both ends."""
        return self.value, self.value

    def scale(self, name: str) -> float:
        """Return infinity: there is nothing to resolve."""
        return math.inf

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Return one for the cell that holds the value, and zero for the others; cells are closed above at the end."""
        return np.where(_hold(edges, self.value), 1.0, 0.0), 0.0

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Return the value for every uniform."""
        return np.full(len(uniforms), self.value)

    def free_parameters(self) -> int:
        """Return zero: the value was set, not learned."""
        return 0

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {self.value!r}>"
