"""A continuous variable that has one value: what an intervention sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, spread
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["PointMass"]


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

    child: Continuous
    parents: tuple[Variable, ...]
    value: float

    def __init__(self, child: Continuous, parents: Sequence[Variable] = (), *, value: float) -> None:
        if not isinstance(child, Continuous):
            raise NetworkError(f"{child.name!r} is discrete; give a Multinomial with a probability of one instead")
        if parents:
            raise NetworkError(f"{child.name!r}: a PointMass has no parents, not {[p.name for p in parents]}")
        number = child.value(value)
        if not math.isfinite(number):
            raise NetworkError(f"{child.name!r}: a PointMass is at a finite number, not at {value!r}")
        object.__setattr__(self, "child", child)
        object.__setattr__(self, "parents", ())
        object.__setattr__(self, "value", number)

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

    @property
    def exact_mass(self) -> bool:
        """Whether `mass` is implemented: yes."""
        return True

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Return one for the cell that holds the value, and zero for the others; cells are closed above at the end."""
        last = np.arange(1, len(edges)) == len(edges) - 1
        below = (self.value < edges[1:]) | (last.reshape(-1, *[1] * (edges.ndim - 1)) & (self.value == edges[1:]))
        return np.where((edges[:-1] <= self.value) & below, 1.0, 0.0), 0.0

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Return the value for every uniform."""
        return np.full(len(uniforms), self.value)

    def free_parameters(self) -> int:
        """Return zero: the value was set, not learned."""
        return 0

    def to_dict(self) -> dict[str, Any]:
        """Return the value."""
        return {"value": self.value}

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        if isinstance(child, Discrete):
            raise NetworkError(f"{child.name!r} is discrete; a PointMass is continuous")
        return cls(child, parents, value=state["value"])

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {self.value!r}>"
