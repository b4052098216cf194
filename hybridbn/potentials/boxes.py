"""A discrete variable whose states are boxes of its parents' space: the leaf of a tree, or the rule of a set of rules,
that a point is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, check_array, check_parents, freeze
from hybridbn.potentials.cell_quadrature import search
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable

__all__ = ["Boxes"]

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
    parents: tuple[Variable, ...]
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
        what = f"{child.name!r}: the weights"
        numbers = check_array(what, np.ones(len(child)) if weights is None else weights, (len(child),))
        if not (numbers > 0).all():
            raise NetworkError(f"{what} must be positive; found {float(numbers.min())}")
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
            inside &= _is_inside(parent, side, points)
        counts = inside.sum(axis=0)
        if (counts != overlap).any():
            wrong = int(counts[np.argmax(counts != overlap)])
            raise NetworkError(f"{self.child.name!r}: there are points in {wrong} boxes, so not all are in {overlap}")
        return int(overlap)

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Evaluate: the boxes' weights where all parents are inside, divided by their sum."""
        along, wanted = len(self.parents), axes[self.child.name]
        values = self._shares(axes)
        if wanted.ndim == 1:
            return np.take(values, wanted, axis=along), 0.0
        if values.ndim == along + 1:
            values = values[..., None]
        index = wanted.reshape((1,) * along + wanted.shape)
        shape = np.broadcast_shapes((*values.shape[:along], 1, values.shape[-1]), index.shape)
        wide = np.broadcast_to(values, (*shape[:along], values.shape[along], shape[-1]))
        return np.take_along_axis(wide, np.broadcast_to(index, shape), axis=along), 0.0

    def _shares(self, axes: Axes) -> Values:
        """Return the probabilities of all boxes over the parents' axes: (*parents, boxes) or (*parents, boxes,
        rows).
        """
        along = len(self.parents)
        rows = any(np.ndim(axes[parent.name]) == 2 for parent in self.parents)
        inside: NDArray[np.bool_] = np.ones((1,) * along + (len(self.child),) + (1,) * rows, dtype=bool)
        for place, (parent, side) in enumerate(zip(self.parents, self.sides, strict=True)):
            points = np.asarray(axes[parent.name])
            found = _is_inside(parent, side, points)  # (boxes, nodes) or (boxes, nodes, rows)
            shape = [1] * inside.ndim
            shape[place], shape[along] = points.shape[0], len(side)
            moved = np.swapaxes(found, 0, 1)
            if points.ndim == 2:
                shape[-1] = points.shape[1]
            inside = inside & moved.reshape(shape)
        weights = self.weights.reshape((-1,) + (1,) * rows)
        values = np.where(inside, weights, 0.0)
        total = values.sum(axis=along, keepdims=True)
        return np.where(total > 0, values / np.where(total > 0, total, 1.0), weights)

    def as_boxes(self) -> Self:
        """Return the potential itself."""
        return self

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the ends of the boxes."""
        variable = self.variable(name)
        if isinstance(variable, Discrete):
            return np.empty(0)
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

    # -- simulation and files -------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> Codes:
        """Return the first boxes whose cumulative probability reaches the uniforms; never one of probability zero."""
        rows, boxes = len(uniforms), len(self.child)
        shares = self._shares({parent.name: np.asarray(given[parent.name])[None, :] for parent in self.parents})
        shares = np.broadcast_to(shares.reshape(boxes, -1), (boxes, rows))
        cumulative = np.cumsum(shares.T, axis=1).reshape(-1)
        return search(cumulative, np.arange(rows) * boxes, boxes, uniforms)

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


def _is_inside(parent: Variable, side: NDArray[Any], points: NDArray[Any]) -> NDArray[np.bool_]:
    if isinstance(parent, Discrete):
        return np.asarray(side[:, points], dtype=bool)
    low, high = (side[:, end].reshape((-1,) + (1,) * points.ndim) for end in (0, 1))
    return np.asarray((points >= low) & (points < high))


def _check_side(child: Discrete, parent: Variable, side: ArrayLike) -> NDArray[Any]:
    what = f"{child.name!r}: the sides along {parent.name!r}"
    width = 2 if isinstance(parent, Continuous) else len(parent)
    try:
        array = np.asarray(side, dtype=np.float64)
    except (TypeError, ValueError):
        raise NetworkError(f"{what} must be numbers in a regular array") from None
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
