"""The states of a number that is cut: their probabilities are the masses of a density between cuts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import (
    Axes,
    Interval,
    Potential,
    freeze,
    has_rows,
    make_again,
    select_states,
)
from hybridbn.potentials.multinomial import as_number_array
from hybridbn.variables import Continuous, Discrete, Values, Variable


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Binned(Potential):
    r"""Probabilities of states that are intervals of a number, given what the number depends on.

    .. math:: P(c \mid u) = (1 - r) \int_{e_{c-1}}^{e_c} g(x \mid u) \, dx

    The first and the last interval have no ends. With a linear Gaussian density that is an ordered probit regression
    with known thresholds.

    Parameters
    ----------
    child : Discrete
    density : Potential
        Of a number of the child's name given the parents.
    edges : sequence of float, ascending
        Between the intervals.
    rest : float, optional
        The probability r of one more state, the last one, whatever the parents are.

    Examples
    --------
    >>> import hybridbn as hb
    >>> age, grade = hb.Continuous("age"), hb.Continuous("grade")
    >>> density = hb.LinearGaussian(grade, (age,), intercept=0, coefficients=[0.1], variance=1)
    >>> potential = Binned(hb.Discrete("grade", (1, 2, 3)), density=density, edges=[1.5, 2.5])
    >>> potential(age=[10.0, 30.0], grade=[1, 3]).round(3)
    array([0.691, 0.691])
    """

    family = "binned"
    inner: ClassVar[tuple[str, ...]] = ("density",)

    child: Discrete
    density: Potential
    edges: Values
    rest: float

    def __init__(self, child: Discrete, *, density: Potential, edges: ArrayLike, rest: float = 0.0) -> None:
        cuts = as_number_array("the edges", child.name, edges)
        if not density.exact_mass or density.child.name != child.name:
            raise NetworkError(f"{child.name!r}: the density must be one of {child.name!r} that knows its masses")
        if len(cuts) != len(child) - 1 - (rest > 0) or (np.diff(cuts) <= 0).any():
            raise NetworkError(f"{child.name!r}: give the ends between the intervals of the states in ascending order")
        self._set(child=child, parents=density.parents, density=density, edges=cuts, rest=float(rest))

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Integrate the density over the intervals."""
        given = {parent.name: axes[parent.name] for parent in self.parents}
        ends = freeze(np.concatenate([[-np.inf], self.edges, [np.inf]]))
        masses, scale = self.density.mass(given, ends)
        along = len(self.parents)
        values = masses * np.exp(scale) * (1 - self.rest)
        if self.rest:
            values = np.concatenate([values, np.full_like(values.take([0], axis=along), self.rest)], axis=along)
        if has_rows(axes, self.scope) and values.ndim == along + 1:
            values = values[..., None]
        return select_states(values, axes, self.scope), 0.0

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return those of the density where the number is at an end of an interval."""
        ranges = {**(within or {}), self.child.name: (self.edges[0], self.edges[-1])}
        return np.asarray(self.density.breaks(name, ranges)) if len(self.edges) else np.empty(0)

    def to_dict(self) -> dict[str, Any]:
        """Return the edges and the family and parameters of the density."""
        density = {"family": self.density.family, "parameters": self.density.to_dict()}
        domain = list(cast(Continuous, self.density.child).domain)
        return {"edges": np.array(self.edges), "rest": self.rest, "domain": domain, "density": density}

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        density = make_again(state["density"], Continuous(child.name, tuple(state["domain"])), parents)
        return cls(child, density=density, edges=state["edges"], rest=state["rest"])  # type: ignore[arg-type]
