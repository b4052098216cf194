"""Logistic regression with any number of classes: a discrete child of continuous parents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, has_rows, select_states, spread_states
from hybridbn.potentials.gaussian import LinearGaussian, drop_idle_parents, linear_predictor, name_component
from hybridbn.potentials.multinomial import as_parameter_array, split
from hybridbn.variables import Continuous, Discrete, Values, Variable

_MOST_LOGITS = 1 << 20
"""Logits of all states that are computed together where rows have points of their own (8 MiB)."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Softmax(Potential):
    r"""A discrete child whose log-odds are linear in its continuous parents, for each discrete configuration.

    .. math::

        P(c \mid d, x) = \frac{\exp(a_{dc} + \sum_j B_{dcj} x_j)}{\sum_k \exp(a_{dk} + \sum_j B_{dkj} x_j)}

    Parameters
    ----------
    child : Discrete
    parents : sequence of Discrete and Continuous, optional
    intercept : array_like
        ``a[*d, c]``: the discrete parents in their order, then the child.
    coefficients : array_like
        ``B[*d, c, x]``: the same, and the continuous parents in their order last.

    Examples
    --------
    >>> x, c = Continuous("x"), Discrete("c", ("no", "yes"))
    >>> potential = Softmax(c, parents=(x,), intercept=[0, -2], coefficients=[[0], [1]])
    >>> potential
    <Softmax c | x: 2 states>
    >>> potential(x=[2, 12], c="yes").round(8)
    array([0.5       , 0.9999546])
    >>> Softmax(c, parents=(x,), intercept=[0, -2], coefficients=[0, 1])
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'c': the array of coefficients must have shape (2, 1), that is 2 states of 'c', one
    for each of 'x', not (2,)
    """

    family = "softmax"
    saved: ClassVar[tuple[str, ...]] = ("intercept", "coefficients")

    child: Discrete
    intercept: Values
    coefficients: Values

    def __init__(
        self, child: Discrete, parents: Sequence[Variable] = (), *, intercept: ArrayLike, coefficients: ArrayLike
    ) -> None:
        discrete, continuous = split(child, parents)
        if not isinstance(child, Discrete):
            raise NetworkError(
                f"{child.name!r} is continuous; the child of a Softmax is discrete: use LinearGaussian, or"
                " discretize it"
            )
        sides = (*discrete, child)
        constants = as_parameter_array("the intercept", child.name, sides, intercept)
        slopes = as_parameter_array("the array of coefficients", child.name, (*sides, continuous), coefficients)
        self._set(child=child, parents=tuple(parents), intercept=constants, coefficients=slopes)

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm; it stays finite where the probability itself is less than the least double."""
        points = [axes[variable.name] for variable in self.parents]
        rows = max((axis.shape[1] for axis in axes.values() if axis.ndim == 2), default=1)
        cells = len(self.child) * math.prod(len(axis) for axis in points)
        step = max(_MOST_LOGITS // max(cells, 1), 1)
        if step < rows:
            own = [
                {n: a[:, start : start + step] if a.ndim == 2 and a.shape[1] == rows else a for n, a in axes.items()}
                for start in range(0, rows, step)
            ]
            return np.concatenate([self.log_on(some) for some in own], axis=-1)
        # all states take part in the denominator, whichever of them are asked for
        *given, states = spread_states(axes, self.scope, len(self.child))
        along = states.ndim - 1 - has_rows(axes, self.scope)
        codes = (*(a for p, a in zip(self.parents, given, strict=True) if isinstance(p, Discrete)), states)
        values = [a for p, a in zip(self.parents, given, strict=True) if isinstance(p, Continuous)]
        logits = linear_predictor(self.intercept, self.coefficients, codes, values)
        logits = logits - logits.max(axis=along, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=along, keepdims=True))
        return select_states(logits, axes, self.scope)

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def scale(self, name: str) -> float:
        """Return the inverse of the greatest difference of slopes."""
        if isinstance(self.variable(name), Discrete) or name == self.child.name:
            return math.inf
        column = [parent.name for parent in self.parents if isinstance(parent, Continuous)].index(name)
        steepest = float(np.ptp(self.coefficients[..., column], axis=-1).max(initial=0.0))
        return 1 / steepest if steepest > 0 else math.inf

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return where two states are equally likely, and four scales beside it, as far as the other parents fix
        that.
        """
        # the log-odds of two states are a regression, of which the scale is the standard deviation
        first, second = np.triu_indices(len(self.child))
        pairs = Discrete(name_component(self.child, self.parents), tuple(range(len(first))))
        intercept = self.intercept[..., first] - self.intercept[..., second]
        slopes = self.coefficients[..., first, :] - self.coefficients[..., second, :]
        odds = LinearGaussian(
            Continuous(self.child.name),
            (*self.parents, pairs),
            intercept=intercept,
            coefficients=slopes,
            variance=np.ones_like(intercept),
        )
        return odds.breaks(name, {**(within or {}), self.child.name: (0.0, 0.0)})

    def as_softmax(self) -> Self:
        """Return the potential itself."""
        return self

    def free_parameters(self) -> int:
        """Return the number of intercepts and coefficients of all states but one; where nothing depends on a parent it
        has no coefficients.
        """
        size = self.intercept.size + drop_idle_parents(self).coefficients.size
        return size // len(self.child) * (len(self.child) - 1)

    # -- files ----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {len(self.child)} states>"
