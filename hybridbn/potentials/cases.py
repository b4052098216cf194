"""A density that is another one for each state of a discrete parent, maybe cut off at the ends of an interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, PointCells, Potential, check_parents, spread
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = ["Case", "Cases"]


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

    child: Variable
    parents: tuple[Variable, ...]
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

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the density: that of its case, less the log mass inside the interval."""
        return self._chosen(axes, self._case_logs)

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child, where all cases can."""

        def masses(case: Case, axes: Axes) -> Values:
            inside = np.clip(edges, case.low, case.high)
            logs = _log_masses(case, axes, inside)
            return _divide_by_mass(logs, _align_log_mass(case, axes, logs.ndim)) if case.cut else logs

        cells = np.empty(edges.shape)[1:]
        logs = self._chosen({**axes, self.child.name: cells}, masses)
        return np.exp(logs), 0.0

    def _case_logs(self, case: Case, axes: Axes) -> Values:
        logs = case.potential.log_on({name: axes[name] for name in case.potential.scope})
        if not case.cut:
            return logs
        child = spread({n: axes[n] for n in case.potential.scope}, case.potential.scope)[-1]
        inside = (child >= case.low) & (child < case.high)
        return np.where(inside, _divide_by_mass(logs, _align_log_mass(case, axes, logs.ndim)), -np.inf)

    def _chosen(self, axes: Axes, logs_of: Any) -> Values:
        """Put the logs of each case where its state is."""
        codes = axes[self.parents[0].name]
        per_row = any(np.ndim(axes[name]) == 2 for name in self.scope)
        grid = spread(axes, self.scope)
        shape = np.broadcast_shapes(*(array.shape for array in grid))
        result = np.full(shape, -np.inf)
        for state in np.unique(codes):
            case = self.cases[int(state)]
            scope = case.potential.scope
            logs = logs_of(case, axes)
            if per_row and logs.ndim == len(scope):
                logs = logs[..., None]
            order = sorted(range(len(scope)), key=lambda i: self.scope.index(scope[i]))
            logs = logs.transpose([*order, *range(len(scope), logs.ndim)])
            full = [1] * len(shape)
            for place, position in enumerate(sorted(self.scope.index(name) for name in scope)):
                full[position] = logs.shape[place]
            if per_row:
                full[-1] = logs.shape[-1]
            if codes.ndim == 1:
                result[codes == state] = logs.reshape(full)
            else:
                np.copyto(result, logs.reshape(full), where=grid[0] == state)
        return result

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the breaks of all cases, and the ends of their intervals."""
        found = [np.asarray(case.potential.breaks(name, within)) for case in self.cases if name in case.potential.scope]
        if name == self.child.name:
            ends = {end for case in self.cases for end in (case.low, case.high) if math.isfinite(end)}
            found.append(np.array(sorted(ends), dtype=np.float64))
        rows = max((array.shape[1] for array in found if array.ndim == 2), default=0)
        if not rows:
            return np.unique(np.concatenate([np.empty(0), *found]))
        wide = [a if a.ndim == 2 else np.broadcast_to(a[:, None], (len(a), rows)) for a in found]
        return np.sort(np.concatenate(wide), axis=0)

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return what holds the supports of all cases."""
        lows, highs = [], []
        for case in self.cases:
            own = name in case.potential.scope
            low, high = case.potential.support(name, tail, within) if own else _domain_of(self.variable(name))
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

    def scale(self, name: str) -> float:
        """Return the smallest scale of all cases."""
        return min(
            (case.potential.scale(name) for case in self.cases if name in case.potential.scope), default=math.inf
        )

    @property
    def point_cells(self) -> PointCells:
        """Those of all cases."""
        cells = [case.potential.point_cells for case in self.cases]
        together = [np.concatenate(parts) for parts in zip(*cells, strict=True)]
        _, first = np.unique(together[0], return_index=True)
        return PointCells(*(part[first] for part in together))

    @property
    def opaque(self) -> bool:
        """Whether a case is."""
        return any(case.potential.opaque for case in self.cases)

    @property
    def normalized(self) -> bool:
        """Whether all cases are."""
        return all(case.potential.normalized for case in self.cases)

    @property
    def has_zeros(self) -> bool:
        """Whether a case is cut or has zeros of its own."""
        return any(case.cut or case.potential.has_zeros for case in self.cases)

    def cellwise(self, name: str) -> bool:
        """Tell whether all cases depend on this parent through its cell, or not at all."""
        return all(name not in case.potential.scope or case.potential.cellwise(name) for case in self.cases)

    @property
    def exact_mass(self) -> bool:
        """Whether all cases have exact masses."""
        return all(case.potential.exact_mass for case in self.cases)

    # -- simulation and files -------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Invert the cdf of each row's case."""
        codes = np.asarray(given[self.parents[0].name])
        result: NDArray[Any] | None = None
        for state in np.unique(codes):
            case = self.cases[int(state)]
            rows = np.flatnonzero(codes == state)
            mine = {p.name: np.asarray(given[p.name])[rows] for p in case.potential.parents}
            levels = np.asarray(uniforms)[rows]
            if case.cut:
                before = np.exp(_log_mass(Case(case.potential, -math.inf, case.low), mine, True))
                inside = np.exp(_log_mass(case, mine, True))
                found = case.potential.ppf(np.clip(before + levels * inside, 0.0, 1.0), mine)
                found = np.clip(found, case.low, np.nextafter(case.high, -math.inf))
            else:
                found = case.potential.ppf(levels, mine)
            if result is None:
                result = np.empty(len(codes), dtype=found.dtype)
            result[rows] = found
        return np.empty(0) if result is None else result

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same potential with variables renamed, also in its cases."""
        clone = super().renamed(names)
        clone._set(cases=tuple(Case(case.potential.renamed(names), case.low, case.high) for case in self.cases))
        return clone

    def free_parameters(self) -> int:
        """Return the sum of those of the cases; a potential that several cases share counts once."""
        return sum({id(case.potential): case.potential.free_parameters() for case in self.cases}.values())

    def optimism(self) -> float:
        """Return the sum of those of the cases; a potential that several cases share counts once."""
        return sum({id(case.potential): case.potential.optimism() for case in self.cases}.values())

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
            family = Potential.families.find(packed["family"])
            if family is None:
                raise NetworkError(f"there is no family of potentials {packed['family']!r}")
            if not packed.keys() == {"family", "parents", "parameters"}:
                raise NetworkError(f"a case has the fields {shorten(packed)}")
            inner = family.from_dict(child, tuple(known[name] for name in packed["parents"]), packed["parameters"])
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


def _parent_axes(case: Case, axes: Axes) -> dict[str, NDArray[Any]]:
    return {parent.name: axes[parent.name] for parent in case.potential.parents}


def _log_mass(case: Case, axes: Axes, rows: bool = False) -> Values:
    """Return the log mass inside a case's interval, over its parents' axes with the child's dimension last of size one.

    With `rows`, parents are given row by row and the masses come so too.
    """
    ends = np.array([case.low, case.high])
    if not rows:
        return _log_masses(case, axes, ends)
    return _log_masses(
        case, {name: values[None, :] for name, values in _parent_axes(case, axes).items()}, ends
    ).reshape(-1)


def _log_masses(case: Case, axes: Axes, edges: Values) -> Values:
    """Return the log masses of cells over a case's parents' axes, the cells and maybe rows.

    Each point of the parents is a row of its own, because a family scales its masses row by row: those far from the
    others would be lost if they shared a scale.
    """
    given = _parent_axes(case, axes)
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
    with np.errstate(divide="ignore"):
        logs = np.asarray(np.log(values) + scale)
    cells = len(edges) - 1
    return np.moveaxis(
        np.broadcast_to(logs.reshape(cells, -1), (cells, math.prod(shape))).reshape(cells, *shape), 0, len(names)
    )


def _divide_by_mass(logs: Values, mass: Values) -> Values:
    """Return logs less the log mass inside; nothing lies inside where that is zero."""
    return np.where(mass > -np.inf, logs - np.where(mass > -np.inf, mass, 0.0), -np.inf)


def _align_log_mass(case: Case, axes: Axes, ndim: int) -> Values:
    """Return the log mass inside a case's interval against values that may have a dimension of rows at the end."""
    mass = _log_mass(case, axes)
    return mass[..., None] if mass.ndim < ndim else mass


def _domain_of(variable: Variable) -> tuple[float, float]:
    return variable.domain if isinstance(variable, Continuous) else (0.0, len(variable) - 1.0)
