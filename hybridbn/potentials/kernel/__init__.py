"""Kernel conditionals: ratios of Gaussian product-kernel densities (Frank, Trigg, Holmes and Witten 1998)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.potentials.base import Axes, Interval, Potential, draw_codes, exponentiate, freeze
from hybridbn.potentials.kernel.evaluation import evaluate_conditional, log_factors_without_self, select_rows
from hybridbn.potentials.kernel.sums import (
    CELLS,
    KernelLogs,
    KernelMixture,
    component_quantile,
    grid_of,
    integrate_child,
    invert,
    lay_breaks,
    log_conditional,
    log_inside_domain,
    weigh_by_parents,
)
from hybridbn.potentials.multinomial import Side, as_number_array, as_parameter_array, cell_name, split
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten

__all__ = ["Kernel"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Kernel(Potential):
    r"""A conditional density made of Gaussian kernels on weighted points, one product kernel each.

    For a continuous child, with the sums running over the points whose labels match the discrete parents `d`
    (equations 3, 4 and 6 of Frank et al. 1998),

    .. math::

        p(x \mid y, d) = \frac{\sum_i w_i K((x - x_i) / h_x) \prod_j K((y_j - y_{ij}) / h_j) / h_x}
                              {\sum_i w_i \prod_j K((y_j - y_{ij}) / h_j)}

    and for a discrete child by Bayes' rule (equations 7 to 9), :math:`P(c \mid y, d) \propto P(c \mid d)\, p(y \mid c,
    d)`. A variable with a finite domain has each of its kernels truncated to the domain and divided by the mass inside.
    All of it is computed in logarithms relative to the nearest points: far from all points the conditional is still a
    proper density, that of the nearest points.

    Parameters
    ----------
    child : Continuous or Discrete
    parents : sequence of Continuous and Discrete, optional
    points : array_like (points, variables)
        Values of the child, if it is continuous, then of the continuous parents in their order; in their own units.
        One-dimensional where there is just one such variable.
    bandwidths : array_like (variables,)
        Standard deviations of the kernels, a number where there is one variable; or an array ``h[*d, variables]``
        over the discrete parents, and the states of a discrete child after them (the h_k of equation 8).
    weights : array_like (points,), optional
        Non-negative; points of weight zero are left out.
    labels : mapping, optional
        For the name of every discrete variable the state at each point. Integers are codes where no state is a number.
        Every configuration of the discrete parents needs a point, because nothing is known about it otherwise; a state
        of a discrete child without points has probability zero.

    Examples
    --------
    >>> x, y = Continuous("x"), Continuous("y")
    >>> potential = Kernel(x, parents=(y,), points=[[0, 0], [1, 5]], bandwidths=[0.1, 1])
    >>> potential
    <Kernel x | y: 2 points>
    >>> round(potential(x=1, y=5), 5), round(potential(x=1, y=1000), 5)
    (3.98941, 3.98942)
    >>> c = Discrete("c", ("low", "high"))
    >>> potential = Kernel(c, parents=(y,), points=[0, 1, 5], bandwidths=1, labels={"c": ["low", "low", "high"]})
    >>> potential(c="low", y=[1, 3, 1e6]).round(4)
    array([0.9998, 0.5197, 0.    ])
    """

    family = "kernel"

    points: Values
    bandwidths: Values
    weights: Values
    codes: Codes
    _order: Codes
    _starts: Codes

    def __init__(
        self,
        child: Variable,
        parents: Sequence[Variable] = (),
        *,
        points: ArrayLike,
        bandwidths: ArrayLike,
        weights: ArrayLike | None = None,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        discrete, continuous = split(child, parents)
        self._set(child=child, parents=tuple(parents))
        numbers = (child, *continuous) if isinstance(child, Continuous) else continuous
        states = discrete if isinstance(child, Continuous) else (*discrete, child)
        if not numbers:
            raise NetworkError(
                f"{child.name!r}: a Kernel needs a continuous variable; use a Multinomial for discrete ones"
            )
        checked = _check_points(child.name, numbers, points)
        weighted = _check_weights(child.name, weights, len(checked))
        codes = _check_labels(child.name, states, labels, len(checked))
        used = weighted > 0
        self._set(
            points=freeze(checked[used]) if not used.all() else checked,
            weights=freeze(weighted[used]) if not used.all() else weighted,
            codes=freeze(codes[used]),
            bandwidths=_check_bandwidths(child.name, states, numbers, bandwidths),
        )
        self._index_points(discrete)

    def _index_points(self, discrete: tuple[Discrete, ...]) -> None:
        """Sort the points by the configuration of the discrete parents, each of which must have some."""
        shape = tuple(map(len, discrete))
        groups = np.zeros(len(self.points), dtype=np.intp)
        for position, states in enumerate(shape):
            groups = groups * states + self.codes[:, position]
            # counted parent by parent, so that a missing combination is found before the array over all parents is made
            counts = np.bincount(groups, minlength=math.prod(shape[: position + 1]))
            if not counts.all():
                known = discrete[: position + 1]
                empty = np.unravel_index(int(np.argmin(counts)), shape[: position + 1])
                raise NetworkError(
                    f"{self.child.name!r}: no point of positive weight has {cell_name(known, [int(i) for i in empty])},"
                    " so the conditional density there is unknown; add points there, or leave out a parent"
                )
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], np.arange(math.prod(shape) + 1))
        self._set(_order=freeze(order), _starts=freeze(starts))

    # -- values ---------------------------------------------------------------------------------------------------

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Evaluate on given points; a value that is negligible in its row may underflow to zero."""
        values, scale = self._evaluate(axes, axes[self.child.name], partial(evaluate_conditional, log=False))
        return values, scale if values.ndim > len(self.scope) else float(scale[0])

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm; minus infinity only outside the child's domain and for states without points."""
        return self._evaluate(axes, axes[self.child.name], partial(evaluate_conditional, log=True))[0]

    @property
    def has_zeros(self) -> bool:
        """Whether a state of a discrete child has no points, given some states of the parents."""
        sizes = [len(variable) for variable in self.variables if isinstance(variable, Discrete)]
        return isinstance(self.child, Discrete) and len(np.unique(self.codes, axis=0)) < math.prod(sizes)

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child, kernel by kernel."""
        if not self.exact_mass:
            return super().mass(axes, edges)
        # cells take the place of the child's nodes: their numbers are the axis
        cells = np.arange(len(edges) - 1) if edges.ndim == 1 else np.arange(edges[1:].size).reshape(edges[1:].shape)
        ends = edges[:-1].reshape(-1), edges[1:].reshape(-1)

        def cells_at(group: KernelMixture, numbers: NDArray[Any]) -> KernelLogs:
            which = numbers.astype(np.intp)
            return integrate_child(group, ends[0][which], ends[1][which])

        def logs_in_cells(
            group: KernelMixture, parents: Sequence[Values], numbers: NDArray[Any]
        ) -> tuple[Values, Values]:
            logs = log_conditional(group, grid_of(parents), numbers.T, cells_at)
            return np.moveaxis(logs, 0, -1), np.zeros(1)

        logs, _ = self._evaluate(axes, cells, logs_in_cells)
        return exponentiate(logs, len(self.scope))

    def _evaluate(
        self,
        axes: Axes,
        child: NDArray[Any],
        evaluate: Callable[[KernelMixture, Sequence[Values], NDArray[Any]], tuple[Values, Values | float]],
    ) -> tuple[Values, Values]:
        """Return the values of all configurations, rows last if there are any, and the log scale of each row."""
        discrete = [axes[p.name] for p in self.parents if isinstance(p, Discrete)]
        continuous = [np.asarray(axes[p.name], np.float64) for p in self.parents if isinstance(p, Continuous)]
        by_row = [axis.shape[1] for axis in (*discrete, *continuous, child) if axis.ndim == 2]
        rows = by_row[0] if by_row else 1
        groups = self._number_configurations(discrete)
        parents = [axis if axis.ndim == 2 else axis[:, None] for axis in continuous]
        nodes = child if child.ndim == 2 else child[:, None]
        out = np.empty((len(groups), math.prod(map(len, parents)), len(nodes), rows))
        scales = np.zeros((len(groups), rows))
        for position, codes in enumerate(groups):
            if len(codes) == 1:
                out[position], scales[position] = evaluate(self._mixture_of(int(codes[0])), parents, nodes)
                continue
            for code in np.unique(codes):
                own = codes == code
                part = evaluate(self._mixture_of(int(code)), *select_rows(parents, nodes, own))
                out[position][..., own], scales[position, own] = part
        scale = scales.max(axis=0)
        if len(groups) > 1 and scales.any():
            out *= np.exp(scales - scale)[:, None, None]
        shape = (*map(len, discrete), *map(len, parents), len(nodes), rows)
        return self._order_by_scope(out.reshape(shape), bool(by_row)), scale

    def _order_by_scope(self, out: Values, rows: bool) -> Values:
        """Transpose dimensions (discrete, continuous, child, rows) into the order of the scope; rows stay last."""
        kinds = [isinstance(parent, Continuous) for parent in self.parents]
        positions = np.argsort(np.argsort(kinds, kind="stable")).tolist()
        out = out.transpose(*positions, out.ndim - 2, out.ndim - 1)
        return out if rows else out[..., 0]

    def _number_configurations(self, axes: Sequence[NDArray[Any]]) -> Codes:
        """Return the number of the discrete parents' configuration for each combination of nodes (combinations, rows or
        1).
        """
        groups = np.zeros((1, 1), dtype=np.intp)
        for parent, axis in zip((p for p in self.parents if isinstance(p, Discrete)), axes, strict=True):
            nodes = axis.reshape(len(axis), *axis.shape[1:] or (1,)).astype(np.intp)
            joined = groups[:, None, :] * len(parent) + nodes[None]
            groups = joined.reshape(len(groups) * len(nodes), joined.shape[2])
        return groups

    def _mixture_of(self, number: int) -> KernelMixture:
        """Return the kernels of one configuration of the discrete parents."""
        chosen = self._order[self._starts[number] : self._starts[number + 1]]
        points = self.points[chosen]
        states = [v for v in (*self.parents, self.child) if isinstance(v, Discrete)]
        # discrete parents in their order and the child's states last, as in the bandwidths' own dimensions
        widths = np.broadcast_to(self.bandwidths, (*map(len, states), points.shape[1]))
        numbers = [v for v in (self.child, *self.parents) if isinstance(v, Continuous)]
        if isinstance(self.child, Discrete):
            labels = self.codes[chosen, -1]
            h = widths.reshape(-1, len(self.child), points.shape[1])[number][labels]
        else:
            labels = np.zeros(len(points), dtype=np.intp)
            h = np.broadcast_to(widths.reshape(-1, points.shape[1])[number], points.shape)
        logs = np.log(self.weights[chosen])
        inside = np.stack([log_inside_domain(points[:, j], h[:, j], v.domain) for j, v in enumerate(numbers)], axis=1)
        first = 1 if isinstance(self.child, Continuous) else 0
        logs = logs - (np.log(h[:, first:]) + inside[:, first:]).sum(axis=1)
        return KernelMixture(points, h, logs, inside[:, 0], labels, numbers[0].domain, first)

    # -- simulation -----------------------------------------------------------------------------------------------

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Invert the cdf of the mixture; infinite or the ends of the domain at 0 and 1."""
        if isinstance(self.child, Discrete):
            return super().ppf(uniforms, given)
        result = np.empty(len(uniforms))
        for group, some, weights in self._conditional_weights(given, len(uniforms)):
            result[some] = invert(group, weights, uniforms[some])
        return result

    def sample(self, given: Axes, rng: np.random.Generator, size: int | None = None) -> NDArray[Any]:
        """Draw a kernel by its conditional weight, and from the kernel; faster than inverting the mixture."""
        if isinstance(self.child, Discrete):
            return super().sample(given, rng, size)
        rows = size if size is not None else len(next(iter(given.values()))) if given else 1
        # never 0, where a normal quantile is infinite
        first, second = rng.random(rows), rng.random(rows) + 2.0**-54
        result = np.empty(rows)
        for group, some, weights in self._conditional_weights(given, rows):
            chosen = draw_codes(weights.T, np.arange(weights.shape[1]), first[some])
            result[some] = component_quantile(group, chosen, second[some])
        return result

    def _conditional_weights(self, given: Axes, rows: int) -> Iterator[tuple[KernelMixture, Codes, Values]]:
        """Yield kernels, rows that use them, and the kernels' weights given the parents (kernels, rows)."""
        codes = [np.asarray(given[p.name])[None, :] for p in self.parents if isinstance(p, Discrete)]
        groups = np.broadcast_to(self._number_configurations(codes)[0], rows)
        continuous = [np.asarray(given[p.name], np.float64) for p in self.parents if isinstance(p, Continuous)]
        for number in np.unique(groups):
            group = self._mixture_of(int(number))
            group_rows = np.flatnonzero(groups == number)
            step = max(1, CELLS // len(group.points))
            for start in range(0, len(group_rows), step):
                block = group_rows[start : start + step]
                logs = weigh_by_parents(group, [values[block] for values in continuous], len(block))[0](
                    slice(None), slice(None)
                )
                weights = np.exp(logs - logs.max(axis=0))
                yield group, block, weights / weights.sum(axis=0)

    # -- protocol: scale, support and breaks ----------------------------------------------------------------------

    def scale(self, name: str) -> float:
        """Return the least bandwidth."""
        variable = self.variable(name)
        return float(self._bandwidths_along(name).min()) if isinstance(variable, Continuous) else math.inf

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return the range of the child's kernels, or a parent's whole domain, because its likelihood never
        vanishes.
        """
        variable = self.variable(name)
        if name != self.child.name or not isinstance(variable, Continuous) or tail <= 0:
            return super().support(name, tail, within)
        # each kernel leaves half the tail on either side; truncation at most doubles that
        reach = -float(scipy.special.ndtri(tail / 4)) * float(self._bandwidths_along(name).max())
        low, high = float(self.points[:, 0].min()) - reach, float(self.points[:, 0].max()) + reach
        return max(low, variable.domain[0]), min(high, variable.domain[1])

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return points that divide clusters of kernels evenly, a few bandwidths apart, and the middles of gaps."""
        variable = cast(Continuous, self.variable(name))
        points, h = np.unique(self.points[:, self._column(name)]), self.scale(name)
        with np.errstate(over="ignore"):
            result = np.unique(lay_breaks(points, h, between=name != self.child.name))
        return result[(result > variable.domain[0]) & (result < variable.domain[1]) & np.isfinite(result)]

    def _column(self, name: str) -> int:
        return [v.name for v in (self.child, *self.parents) if isinstance(v, Continuous)].index(name)

    def _bandwidths_along(self, name: str) -> Values:
        return np.asarray(self.bandwidths[..., self._column(name)])

    # -- learning -------------------------------------------------------------------------------------------------

    def free_parameters(self) -> int:
        """Return the number of bandwidths; the price of the points themselves is the `optimism`."""
        return self.bandwidths.size

    def optimism(self) -> float:
        r"""Return the points' log-likelihood minus that in which each point is predicted by all the others; a point of
        weight two is two.

        With :math:`l_i` and :math:`m_i` the shares of point i's own kernel in the sums of the numerator and the
        denominator at that point, leaving it out multiplies its density by :math:`(1 - l_i) / (1 - m_i)`.
        """
        total = 0.0
        for number in range(len(self._starts) - 1):
            chosen = self._order[self._starts[number] : self._starts[number + 1]]
            own = np.log(np.minimum(1 / self.weights[chosen], 1.0))
            total -= float(self.weights[chosen] @ log_factors_without_self(self._mixture_of(number), own))
        return total

    # -- files ----------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the points, with the states of each as codes."""
        arrays = {"points": self.points, "bandwidths": self.bandwidths, "weights": self.weights}
        return {**arrays, "codes": self.codes.astype(np.float64)} if self.codes.shape[1] else arrays

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        states = [v for v in (*parents, child) if isinstance(v, Discrete)]
        labels = {}
        for variable, codes in zip(states, np.asarray(state.get("codes", np.empty((0, 0)))).T, strict=True):
            if not (np.isin(codes, np.arange(len(variable)))).all():
                raise NetworkError(f"{child.name!r}: the codes of {variable.name!r} must be below {len(variable)}")
            labels[variable.name] = [variable.states[int(code)] for code in codes]
        arrays = {name: state[name] for name in ("points", "bandwidths", "weights")}
        return cls(child, parents, labels=labels, **arrays)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}: {len(self.points)} point{'s' * (len(self.points) != 1)}>"


# -- checks of arguments ------------------------------------------------------------------------------------------


def _check_points(child: str, numbers: Sequence[Continuous], values: ArrayLike) -> Values:
    points = as_number_array("the array of points", child, values)
    if points.ndim == 1 and len(numbers) == 1:
        points = freeze(points[:, None])
    names = ", ".join(repr(v.name) for v in numbers)
    if points.ndim != 2 or points.shape[1] != len(numbers) or not len(points):
        raise NetworkError(
            f"{child!r}: the array of points must have shape (points, {len(numbers)}), with the columns {names} and at "
            f"least one point, not {points.shape}"
        )
    for j, variable in enumerate(numbers):
        low, high = variable.domain
        outside = ~((points[:, j] >= low) & (points[:, j] <= high) & np.isfinite(points[:, j]))
        if outside.any():
            row = int(np.argmax(outside))
            raise NetworkError(
                f"{child!r}: point {row} has {variable.name!r} = {float(points[row, j])!r}, which is not a finite "
                f"number of its domain [{low}, {high}]; leave the point out, or widen the domain"
            )
    return points


def _check_weights(child: str, weights: ArrayLike | None, points: int) -> Values:
    if weights is None:
        return freeze(np.ones(points))
    array = as_number_array("the array of weights", child, weights)
    if array.shape != (points,):
        raise NetworkError(f"{child!r}: {points} points need as many weights, not an array of shape {array.shape}")
    wrong = ~((array >= 0) & np.isfinite(array))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise NetworkError(
            f"{child!r}: the weight of point {row} is {float(array[row])!r}; weights must be finite and not negative"
        )
    if not array.any():
        raise NetworkError(f"{child!r}: all points have weight zero; give at least one a positive weight")
    return array


def _check_labels(child: str, states: Sequence[Discrete], labels: Mapping[str, Any] | None, points: int) -> Codes:
    given, wanted = dict(labels or {}), [v.name for v in states]
    if set(given) != set(wanted):
        raise NetworkError(
            f"{child!r}: labels must hold the states at the points of {shorten(wanted) if wanted else 'no variable'}, "
            f"not of {shorten(given) if given else 'no variable'}"
        )
    columns = []
    for variable in states:
        values = given[variable.name]
        array = np.asarray(values) if not any(isinstance(s, int | float) for s in variable.states) else np.empty(0)
        if array.dtype.kind in "iu" and array.size and variable.cuts is None:
            codes, bad = array, (array < 0) | (array >= len(variable))
        else:
            try:
                codes = variable.codes(values)
            except TableError as error:
                raise NetworkError(f"{child!r}, labels: {error}") from None
            bad = codes < 0
        if codes.shape != (points,):
            raise NetworkError(
                f"{child!r}: {points} points need as many labels of {variable.name!r}, not {codes.shape}"
            )
        if bad.any():
            row = int(np.argmax(bad))
            raise NetworkError(
                f"{child!r}: the label of {variable.name!r} at point {row} is {values[row]!r}, which is missing or no"
                " code; leave the point out"
            )
        columns.append(codes)
    return np.stack(columns, axis=1).astype(np.intp) if columns else np.empty((points, 0), dtype=np.intp)


def _check_bandwidths(
    child: str, states: Sequence[Discrete], numbers: Sequence[Continuous], values: ArrayLike
) -> Values:
    array = as_number_array("the array of bandwidths", child, values)
    if len(numbers) == 1 and array.shape in ((), tuple(map(len, states))):
        array = array[..., None]
    columns: Side = tuple(numbers)
    sides: tuple[Side, ...] = (columns,) if array.ndim == 1 else (*states, columns)
    array = as_parameter_array("the array of bandwidths", child, sides, array)
    if not (array > 0).all():
        where = np.argwhere(~(array > 0))[0]
        raise NetworkError(
            f"{child!r}: the bandwidth {cell_name(sides, where)} is {float(array[tuple(where)])!r}; bandwidths are "
            "standard deviations and must be positive"
        )
    return array
