"""Linear regressions whose residuals have a mixture of normal densities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, all_states, freeze, spread
from hybridbn.potentials.cell_quadrature import solve
from hybridbn.potentials.gaussian import LinearGaussian, count_rows, linear_predictor, tidy_breaks
from hybridbn.potentials.multinomial import Multinomial, split
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["LinearGaussianMixture"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearGaussianMixture(Potential):
    r"""A mixture of linear Gaussian densities, for each configuration of the discrete parents.

    .. math:: f(x \mid d, y) = \sum_k P_{dk}\, N(x;\; a_{dk} + \textstyle\sum_j B_{dkj} y_j,\; s^2_{dk})

    Which component a value comes from is a discrete variable that is summed out. Where the slopes of all components are
    the same, this is a linear regression with residuals that are skewed, have heavy tails or several modes.

    Parameters
    ----------
    child : Continuous
        With the domain (-inf, inf).
    parents : sequence of Discrete and Continuous, optional
    probabilities : array_like
        ``P[*d, k]`` of the components, over the discrete parents in their order.
    intercept : array_like
        ``a[*d, k]``
    coefficients : array_like, optional
        ``B[*d, k, y]``; the continuous parents in their order come last. Left out where there are none.
    variance : array_like
        ``s2[*d, k]``, positive.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> potential = LinearGaussianMixture(
    ...     y, (x,), probabilities=[0.8, 0.2], intercept=[0, 5], coefficients=[[2], [2]], variance=[1, 4]
    ... )
    >>> potential(x=1, y=[2.0, 7.0]).round(3)
    array([0.321, 0.04 ])
    >>> net = hb.Network([hb.LinearGaussian(x, intercept=1, variance=1), potential])
    >>> round(net.posterior("y").mean(), 6), round(net.posterior("x", {"y": 9.0}).mean(), 3)
    (3.0, 1.606)
    """

    family = "gaussian_mixture"

    child: Continuous
    parents: tuple[Variable, ...]
    component: Multinomial
    """Of the component given the discrete parents."""
    density: LinearGaussian
    """Of the child given the parents and, last, the component."""

    def __init__(
        self,
        child: Continuous,
        parents: Sequence[Variable] = (),
        *,
        probabilities: ArrayLike,
        intercept: ArrayLike,
        coefficients: ArrayLike | None = None,
        variance: ArrayLike,
    ) -> None:
        shape = np.shape(probabilities)
        if not shape or not shape[-1]:
            raise NetworkError(f"{child.name!r}: give a probability for each component, not {probabilities!r:.80}")
        parents = tuple(parents)
        hidden = _make_component(child, parents, shape[-1])
        density = LinearGaussian(
            child, (*parents, hidden), intercept=intercept, coefficients=coefficients, variance=variance
        )
        discrete = [parent for parent in parents if isinstance(parent, Discrete)]
        component = Multinomial(hidden, discrete, table=probabilities)
        self._set(child=child, parents=parents, component=component, density=density)

    # -- values ---------------------------------------------------------------------------------------------------

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm of the density."""
        inner = self._add_components(axes)
        logs = np.asarray(self.density.log_on(inner)) + self._align_log_probabilities(inner)
        return np.asarray(np.logaddexp.reduce(logs, axis=len(self.parents)))

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child, component by component."""
        inner = self._add_components({**axes, self.child.name: edges[1:]})
        values, scale = self.density.mass(inner, edges)
        probabilities = np.exp(self._align_log_probabilities(inner))
        return (values * probabilities).sum(axis=len(self.parents)), scale

    @property
    def exact_mass(self) -> bool:
        """Masses are exact."""
        return True

    def _add_components(self, axes: Axes) -> Axes:
        hidden = self.component.child
        return {**axes, hidden.name: all_states(len(hidden))}

    def _align_log_probabilities(self, inner: Axes) -> Values:
        """Return the logarithm of the components' probabilities, with the dimensions of the density."""
        arrays = dict(zip(self.density.scope, spread(inner, self.density.scope), strict=True))
        return np.asarray(self._log_probabilities[tuple(arrays[name] for name in self.component.scope)])

    @cached_property
    def _log_probabilities(self) -> Values:
        with np.errstate(divide="ignore"):
            return freeze(np.log(self.component.table))

    # -- what quadrature needs to know ----------------------------------------------------------------------------

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the centers, and four and eight standard deviations beside them: components may be far apart."""
        variable = self.variable(name)
        if isinstance(variable, Discrete):
            return np.empty(0)
        blocks = [
            np.concatenate((first, last, *(end for reach in (4, 8) for end in (first - reach * sd, last + reach * sd))))
            for first, last, sd in self.density.locate_peaks(name, within)
        ]
        return tidy_breaks(np.concatenate(blocks), variable.domain, count_rows(within))

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return what holds the support of each component."""
        return self.density.support(name, tail, within)

    def scale(self, name: str) -> float:
        """Return the least scale of a component."""
        return self.density.scale(name)

    # -- simulation -----------------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Invert the cdf in the logarithm of the nearer tail; infinite at 0 and 1."""
        from scipy.special import ndtr, ndtri

        discrete, continuous = split(self.child, self.parents)
        codes = tuple(np.asarray(given[parent.name]) for parent in discrete)
        numbers = [np.asarray(given[parent.name])[:, None] for parent in continuous]
        configuration = (*(code[:, None] for code in codes), np.arange(len(self.component.child)))
        shape = (len(uniforms), len(self.component.child))
        means = linear_predictor(self.density.intercept, self.density.coefficients, configuration, numbers)
        means, widths, shares = (
            np.broadcast_to(array, shape)
            for array in (means, np.sqrt(self.density.variance)[configuration], self.component.table[configuration])
        )
        lower = uniforms <= 0.5
        sign = np.where(lower, 1.0, -1.0)
        with np.errstate(divide="ignore"):
            target = np.where(lower, np.log(uniforms), -np.log1p(-uniforms))
        # the quantile of a mixture lies between those of its components
        quantiles = means + widths * ndtri(uniforms)[:, None]
        bottom = np.where(shares > 0, quantiles, np.inf).min(axis=1)
        top = np.where(shares > 0, quantiles, -np.inf).max(axis=1)

        def find_tail(points: Values, active: NDArray[np.intp]) -> tuple[Values, Values]:
            rows = inside[active]
            side = sign[rows]
            z = side[:, None] * (points[:, None] - means[rows]) / widths[rows]
            with np.errstate(over="ignore", under="ignore"):
                masses = np.maximum((shares[rows] * ndtr(z)).sum(axis=1), np.finfo(float).tiny)
                bells = (shares[rows] / widths[rows] * np.exp(-0.5 * z * z)).sum(axis=1) / math.sqrt(2 * math.pi)
            return side * np.log(masses), bells / masses

        inside = np.flatnonzero(np.isfinite(bottom) & np.isfinite(top))
        low, high = bottom[inside], top[inside]
        result = np.asarray(bottom)
        result[inside] = solve(find_tail, target[inside], low, high, 0.5 * low + 0.5 * high)
        return result

    def sample(self, given: Axes, rng: np.random.Generator, size: int | None = None) -> NDArray[Any]:
        """Draw a component, and from the component."""
        rows = size if size is not None else len(next(iter(given.values()))) if given else 1
        states = self.component.ppf(rng.random(rows), {name: given[name] for name in self.component.scope[:-1]})
        return self.density.sample({**given, self.component.child.name: states}, rng)

    # -- learning -------------------------------------------------------------------------------------------------

    def free_parameters(self) -> int:
        """Return the number of parameters; slopes that all components share count once."""
        slopes = self.density.coefficients
        shared = slopes.size and bool((slopes == slopes[..., :1, :]).all())
        own = slopes.size // len(self.component.child) if shared else slopes.size
        return self.component.free_parameters() + 2 * self.density.intercept.size + own

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the same potential with variables renamed, also in its parts."""
        clone = super().renamed(names)
        return type(self).from_dict(clone.child, clone.parents, self.to_dict())

    # -- files ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"probabilities": self.component.table, **self.density.to_dict()}

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        names = ("probabilities", "intercept", "coefficients", "variance")
        return cls(child, parents, **{name: state[name] for name in names})  # type: ignore[arg-type]  # checked there

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {len(self.component.child)} components>"


def _make_component(child: Variable, parents: Sequence[Variable], count: int) -> Discrete:
    """Return the variable of the component, of which no parent has the name."""
    name, taken = f"component of {child.name}", {parent.name for parent in parents}
    while name in taken:
        name += "'"
    return Discrete(name, tuple(range(count)))
