"""What trees are made of: the leaf that a point is in, whose states are boxes of the parents' space, and a density that
is another one in each leaf, maybe cut off at the ends of an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import (
    Axes,
    Interval,
    PointCells,
    Potential,
    check_parents,
    freeze,
    has_rows,
    join_breaks,
    make_again,
    select_states,
    spread,
    spread_states,
    take_logs,
)
from hybridbn.potentials.multinomial import as_number_array, as_parameter_array
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

_CHECKED = 128
"""Points, drawn from all cells between the sides, at which an overlap is checked."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Boxes(Potential):
    r"""Which of some weighted boxes a point of the parents' space is in.

    .. math:: P(s \mid x) = \frac{w_s\, [x \in B_s]}{\sum_t w_t\, [x \in B_t]}

    The leaves of a tree are boxes that don't overlap, of equal weight: the state is then a function of the parents. The
    leaves of several trees together overlap, and a point is in one leaf of each of them, in the shares of the trees'
    weights. A point that is in no box says nothing about the state: it may be any, by its weight.

    Parameters
    ----------
    child : Discrete
        Its states are the boxes.
    parents : sequence of Variable
    sides : sequence of array_like
        For each parent the sides of all boxes: for a continuous one the intervals [low, high) (boxes, 2), ends may be
        infinite; for a discrete one which of its states are inside (boxes, states), as 0 and 1.
    weights : array_like, optional
        Of the boxes, positive; by default equal.
    overlap : int, optional
        In how many boxes every point is, where that is known to be the same number everywhere: that of the trees of
        which the boxes are the leaves. Missing parents are then averaged over quickly.

    Examples
    --------
    >>> x, c, leaf = Continuous("x"), Discrete("c", ("a", "b")), Discrete("leaf", ("low", "high a", "high b"))
    >>> inf = math.inf
    >>> tree = Boxes(leaf, (x, c), [[[-inf, 2], [2, inf], [2, inf]], [[1, 1], [1, 0], [0, 1]]])
    >>> tree
    <Boxes leaf | x, c: 3>
    >>> tree(x=[1.0, 2.0, 2.0, 2.0], c=["b", "a", "b", "b"], leaf=["low", "high a", "high b", "low"])
    array([1., 1., 1., 0.])
    """

    family = "boxes"

    child: Discrete
    sides: tuple[NDArray[Any], ...]
    weights: Values
    overlap: int | None

    def __init__(
        self,
        child: Discrete,
        parents: Sequence[Variable],
        sides: Sequence[ArrayLike],
        weights: ArrayLike | None = None,
        overlap: int | None = None,
    ) -> None:
        checked = check_parents(child, parents)
        if not isinstance(child, Discrete):
            raise NetworkError(
                f"{child.name!r} is continuous; the child of Boxes is discrete: its states are the boxes"
            )
        if len(sides) != len(checked):
            raise NetworkError(
                f"{child.name!r}: give the boxes' sides for each of {len(checked)} parents, not {len(sides)}"
            )
        made = tuple(_check_side(child, parent, side) for parent, side in zip(checked, sides, strict=True))
        given = np.ones(len(child)) if weights is None else weights
        numbers = as_parameter_array("the array of weights", child.name, (child,), given)
        if not (numbers > 0).all():
            raise NetworkError(f"{child.name!r}: the weights must be positive; found {float(numbers.min())}")
        self._set(child=child, parents=checked, sides=made, weights=freeze(numbers / numbers.sum()))
        self._set(overlap=None if overlap is None else self._check_overlap(overlap))

    def _check_overlap(self, overlap: Any) -> int:
        """Return the number of boxes that a point is in, or raise an error if some point is not in so many."""
        if isinstance(overlap, bool) or not isinstance(overlap, int | np.integer) or overlap < 1:
            raise NetworkError(f"{self.child.name!r}: overlap must be a whole number, at least 1, not {overlap!r}")
        if (self.weights != self.weights[0]).any():
            raise NetworkError(f"{self.child.name!r}: an overlap is for boxes of equal weight")
        rng = np.random.default_rng(0)
        inside = np.ones((len(self.child), _CHECKED), dtype=bool)
        for parent, side in zip(self.parents, self.sides, strict=True):
            if isinstance(parent, Discrete):
                points: NDArray[Any] = rng.integers(len(parent), size=_CHECKED)
            else:
                ends = np.unique(side[np.isfinite(side)])
                cells = np.append(ends, np.nextafter(ends[:1], -np.inf)) if len(ends) else np.zeros(1)
                points = rng.choice(cells, _CHECKED)
            inside &= _is_inside(parent, side, points[None], 0)
        counts = inside.sum(axis=0)
        if (counts != overlap).any():
            wrong = int(counts[np.argmax(counts != overlap)])
            raise NetworkError(f"{self.child.name!r}: there are points in {wrong} boxes, so not all are in {overlap}")
        return int(overlap)

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Evaluate: the boxes' weights where all parents are inside, divided by their sum."""
        *given, boxes = spread_states(axes, self.scope, len(self.child))
        along, weights = len(given), self.weights[boxes]
        inside: NDArray[np.bool_] = np.ones(boxes.shape, dtype=bool)
        for parent, side, points in zip(self.parents, self.sides, given, strict=True):
            inside = inside & _is_inside(parent, side, points, along)
        values = np.where(inside, weights, 0.0)
        total = values.sum(axis=along, keepdims=True)
        shares = np.where(total > 0, values / np.where(total > 0, total, 1.0), weights)
        return select_states(shares, axes, self.scope), 0.0

    def as_boxes(self) -> Self:
        """Return the potential itself."""
        return self

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the ends of the boxes."""
        variable = cast(Continuous, self.variable(name))
        ends = np.unique(self.sides[self.scope.index(name)])
        return ends[(ends > variable.domain[0]) & (ends < variable.domain[1])]

    def scale(self, name: str) -> float:
        """Return infinity: there is nothing to resolve inside a box."""
        return math.inf

    def cellwise(self, name: str) -> bool:
        """Only the box matters."""
        return True

    @property
    def has_zeros(self) -> bool:
        """Whether a point may be outside of a box."""
        return any(bool((~side).any()) if side.dtype == bool else bool(np.isfinite(side).any()) for side in self.sides)

    # -- learning and files ---------------------------------------------------------------------------------------

    def free_parameters(self) -> int:
        """Return the number of cut points between boxes, and of weights that differ from the others."""
        cuts = sum(
            len(np.unique(side[np.isfinite(side)]))
            if isinstance(parent, Continuous)
            else len(np.unique(side, axis=0)) - 1
            for parent, side in zip(self.parents, self.sides, strict=True)
        )
        return cuts + len(np.unique(self.weights)) - 1

    def to_dict(self) -> dict[str, Any]:
        """Return the sides and weights."""
        content = {"sides": [np.asarray(side, dtype=np.float64) for side in self.sides], "weights": self.weights}
        return content if self.overlap is None else {**content, "overlap": self.overlap}

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        made = cls(child, parents, state["sides"], state["weights"], state.get("overlap"))  # type: ignore[arg-type]  # checked there
        # dividing by a sum that is 1 but for rounding would change the last bit
        made._set(weights=freeze(state["weights"], np.float64))
        return made

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {len(self.child)}>"


def _is_inside(parent: Variable, side: NDArray[Any], points: NDArray[Any], along: int) -> NDArray[np.bool_]:
    """Tell whether points of a parent, an array with one place along the dimension of the boxes, are in each."""
    if isinstance(parent, Discrete):
        return np.asarray(np.swapaxes(side[:, points], 0, along + 1)[0])
    low, high = (side[:, end].reshape(-1, *[1] * (points.ndim - 1 - along)) for end in (0, 1))
    return np.asarray((points >= low) & (points < high))


def _check_side(child: Discrete, parent: Variable, side: ArrayLike) -> NDArray[Any]:
    what = f"{child.name!r}: the sides along {parent.name!r}"
    width = 2 if isinstance(parent, Continuous) else len(parent)
    array = as_number_array(f"the sides along {parent.name!r}", child.name, side)
    if array.shape != (len(child), width):
        meant = "the ends of an interval" if isinstance(parent, Continuous) else f"states of {parent.name!r}"
        raise NetworkError(f"{what} must have the shape {(len(child), width)}, boxes and {meant}, not {array.shape}")
    if isinstance(parent, Discrete):
        if not ((array == 0) | (array == 1)).all() or not array.any(axis=1).all():
            raise NetworkError(f"{what} must be 0 or 1 for each state, and 1 for one of them at least")
        return freeze(array, bool)
    if not (array[:, 0] < array[:, 1]).all():
        where = int(np.argmin(array[:, 0] < array[:, 1]))
        raise NetworkError(
            f"{what} must be intervals whose low end is below the high one; box {where} has {array[where].tolist()}"
        )
    return freeze(array)


@dataclass(frozen=True)
class Case:
    """The density in one case, and the interval [low, high) of its child to which it is cut.

    Attributes
    ----------
    potential : Potential
    low, high : float
    """

    potential: Potential
    low: float = -math.inf
    high: float = math.inf

    @property
    def cut(self) -> bool:
        """Whether the interval leaves anything out."""
        return self.low > -math.inf or self.high < math.inf


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Cases(Potential):
    """A density chosen by the state of its first parent: context-specific dependence.

    In each case the child may depend on other parents, be of another family, and be confined to an interval, where its
    density is divided by the mass that it has there. Trees with densities in their leaves are made of these.

    Parameters
    ----------
    child : Continuous or Discrete
    parents : sequence
        The first one is discrete and chooses the case.
    cases : sequence of Potential or Case
        One for each state of the first parent; their parents are among the others. Only a continuous child can be cut.

    Examples
    --------
    >>> import hybridbn as hb
    >>> leaf, x = hb.Discrete("leaf", ("low", "high")), hb.Continuous("x")
    >>> normal = hb.LinearGaussian(x, intercept=0, variance=1)
    >>> potential = Cases(x, (leaf,), [Case(normal, high=0.0), Case(normal, low=0.0)])
    >>> potential(leaf=["low", "high", "high"], x=[-1.0, -1.0, 1.0]).round(4)
    array([0.4839, 0.    , 0.4839])
    """

    family = "cases"

    cases: tuple[Case, ...]

    def __init__(self, child: Variable, parents: Sequence[Variable], cases: Sequence[Potential | Case]) -> None:
        checked = check_parents(child, parents)
        if not checked or not isinstance(checked[0], Discrete):
            raise NetworkError(f"{child.name!r}: the first parent of its Cases must be discrete; it chooses the case")
        made = tuple(case if isinstance(case, Case) else Case(case) for case in cases)
        if len(made) != len(checked[0]):
            raise NetworkError(
                f"{child.name!r}: give a case for each of the {len(checked[0])} states of {checked[0].name!r}, not"
                f" {len(made)}"
            )
        for case, state in zip(made, checked[0].states, strict=True):
            _check_case(child, checked[1:], case, f"{checked[0].name}={state!r}")
        self._set(child=child, parents=checked, cases=made)

    @property
    def parts(self) -> tuple[Potential, ...]:
        """The potentials of the cases; one that several cases share counts once."""
        return tuple({id(case.potential): case.potential for case in self.cases}.values())

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the density: that of its case, less the log mass inside the interval."""
        return self._chosen(axes, self._case_logs)

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child, where all cases can."""

        def masses(case: Case, axes: Axes) -> Values:
            inside = np.clip(edges, case.low, case.high)
            logs = _log_masses(case, axes, inside)
            return _divide_by_mass(logs, case, axes) if case.cut else logs

        cells = np.empty(edges.shape)[1:]
        logs = self._chosen({**axes, self.child.name: cells}, masses)
        return np.exp(logs), 0.0

    def _case_logs(self, case: Case, axes: Axes) -> Values:
        logs = case.potential.log_on({name: axes[name] for name in case.potential.scope})
        if not case.cut:
            return logs
        child = spread({n: axes[n] for n in case.potential.scope}, case.potential.scope)[-1]
        inside = (child >= case.low) & (child < case.high)
        return np.where(inside, _divide_by_mass(logs, case, axes), -np.inf)

    def _chosen(self, axes: Axes, logs_of: Any) -> Values:
        """Put the logs of each case where its state is."""
        codes = axes[self.parents[0].name]
        per_row = has_rows(axes, self.scope)
        grid = spread(axes, self.scope)
        shape = np.broadcast_shapes(*(array.shape for array in grid))
        result = np.full(shape, -np.inf)
        for state in np.unique(codes):
            case = self.cases[int(state)]
            scope = case.potential.scope
            logs = logs_of(case, axes)
            if per_row and logs.ndim == len(scope):
                logs = logs[..., None]
            order = np.argsort([self.scope.index(name) for name in scope]).tolist()
            logs = logs.transpose([*order, *range(len(scope), logs.ndim)])
            logs = np.expand_dims(logs, [place for place, name in enumerate(self.scope) if name not in scope])
            if codes.ndim == 1:
                result[codes == state] = logs
            else:
                np.copyto(result, logs, where=grid[0] == state)
        return result

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the breaks of all cases, and the ends of their intervals."""
        found = [np.asarray(case.potential.breaks(name, within)) for case in self.cases if name in case.potential.scope]
        if name == self.child.name:
            ends = {end for case in self.cases for end in (case.low, case.high) if math.isfinite(end)}
            found.append(np.array(sorted(ends), dtype=np.float64))
        return join_breaks(found)

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return what holds the supports of all cases."""
        lows, highs = [], []
        for case in self.cases:
            own = name in case.potential.scope
            low, high = case.potential.support(name, tail, within) if own else super().support(name, 0.0)
            if name == self.child.name and case.cut:
                # past a cut the density falls at least as fast as it did before, unless it is far from log-concave
                with np.errstate(invalid="ignore"):  # of what is not chosen
                    width = np.asarray(high) - low
                    high, low = (
                        np.where(case.low > low, np.maximum(high, case.low + width), high),
                        np.where(case.high < high, np.minimum(low, case.high - width), low),
                    )
                low, high = np.clip(low, case.low, case.high), np.clip(high, case.low, case.high)
            lows.append(low)
            highs.append(high)
        return np.minimum.reduce(np.broadcast_arrays(*lows)), np.maximum.reduce(np.broadcast_arrays(*highs))

    @property
    def point_cells(self) -> PointCells:
        """Those of all cases."""
        cells = [case.potential.point_cells for case in self.cases]
        together = [np.concatenate(parts) for parts in zip(*cells, strict=True)]
        _, first = np.unique(together[0], return_index=True)
        return PointCells(*(part[first] for part in together))

    @property
    def has_zeros(self) -> bool:
        """Whether a case is cut or has zeros of its own."""
        return any(case.cut for case in self.cases) or super().has_zeros

    # -- simulation and files -------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Invert the cdf of each row's case."""
        codes = np.asarray(given[self.parents[0].name])
        result = np.empty(len(codes), dtype=np.intp if isinstance(self.child, Discrete) else np.float64)
        for state in np.unique(codes):
            case = self.cases[int(state)]
            rows = np.flatnonzero(codes == state)
            mine = {p.name: np.asarray(given[p.name])[rows] for p in case.potential.parents}
            levels = np.asarray(uniforms)[rows]
            if case.cut:
                axes = {name: values[None, :] for name, values in mine.items()}
                before, inside = (
                    np.exp(_log_masses(case, axes, np.array(ends))).reshape(-1)
                    for ends in ((-math.inf, case.low), (case.low, case.high))
                )
                levels = np.clip(before + levels * inside, 0.0, 1.0)
            values = case.potential.ppf(levels, mine)
            result[rows] = np.clip(values, case.low, np.nextafter(case.high, -math.inf)) if case.cut else values
        return result

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same potential with variables renamed, also in its cases."""
        clone = super().renamed(names)
        clone._set(cases=tuple(Case(case.potential.renamed(names), case.low, case.high) for case in self.cases))
        return clone

    def to_dict(self) -> dict[str, Any]:
        """Return the families, parents, parameters and intervals of the cases."""
        return {
            "cases": [
                {
                    "family": case.potential.family,
                    "parents": [parent.name for parent in case.potential.parents],
                    "parameters": case.potential.to_dict(),
                }
                for case in self.cases
            ],
            "ends": np.array([[case.low, case.high] for case in self.cases]),
        }

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        known = {parent.name: parent for parent in parents}
        cases = []
        for packed, (low, high) in zip(state["cases"], state["ends"].tolist(), strict=True):
            if not packed.keys() == {"family", "parents", "parameters"}:
                raise NetworkError(f"a case has the fields {shorten(packed)}")
            inner = make_again(packed, child, tuple(known[name] for name in packed["parents"]))
            cases.append(Case(inner, low, high))
        return cls(child, parents, cases)


def _check_case(child: Variable, parents: tuple[Variable, ...], case: Case, where: str) -> None:
    potential = case.potential
    if not isinstance(potential, Potential):
        raise NetworkError(f"{child.name!r}: the case {where} is no potential but {potential!r:.60}")
    if potential.child != child:
        raise NetworkError(f"{child.name!r}: the case {where} is a potential of {potential.child!r}, not of {child!r}")
    strange = [parent.name for parent in potential.parents if parent not in parents]
    if strange:
        raise NetworkError(
            f"{child.name!r}: the case {where} has the parents {shorten(strange)}, which are none of the Cases', or"
            " other variables of these names"
        )
    if not case.cut:
        return
    if not isinstance(child, Continuous) or not potential.exact_mass:
        raise NetworkError(f"{child.name!r}: the case {where} can't be cut, because its masses are not known exactly")
    if not case.low < case.high:
        raise NetworkError(f"{child.name!r}: the case {where} is cut to the empty interval [{case.low}, {case.high})")


def _log_masses(case: Case, axes: Axes, edges: Values) -> Values:
    """Return the log masses of cells over a case's parents' axes, the cells and maybe rows.

    Each point of the parents is a row of its own, because a family scales its masses row by row: those far from the
    others would be lost if they shared a scale.
    """
    given = {parent.name: axes[parent.name] for parent in case.potential.parents}
    names = tuple(given)
    shape = np.broadcast_shapes(*(array.shape for array in spread(given, names)))
    if edges.ndim == 2 and len(shape) == len(names):
        shape = (*shape, edges.shape[1])
    if names:
        wide = [a[..., None] if a.ndim < len(shape) else a for a in spread(given, names)]
        given = {n: np.broadcast_to(a, shape).reshape(1, -1) for n, a in zip(names, wide, strict=True)}
        if edges.ndim == 2:
            edges = np.broadcast_to(edges[:, None], (len(edges), math.prod(shape[:-1]), shape[-1])).reshape(
                len(edges), -1
            )
    values, scale = case.potential.mass(given, edges)
    logs = np.asarray(take_logs(values) + scale)
    cells = len(edges) - 1
    return np.moveaxis(
        np.broadcast_to(logs.reshape(cells, -1), (cells, math.prod(shape))).reshape(cells, *shape), 0, len(names)
    )


def _divide_by_mass(logs: Values, case: Case, axes: Axes) -> Values:
    """Return logs less the log mass inside a case's interval; nothing lies inside where that is zero."""
    mass = _log_masses(case, axes, np.array([case.low, case.high]))
    mass = mass[..., None] if mass.ndim < logs.ndim else mass
    return np.where(mass > -np.inf, logs - np.where(mass > -np.inf, mass, 0.0), -np.inf)
