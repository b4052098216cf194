"""Kernel conditionals from points, as naive Bayes for regression learns them (Frank, Trigg, Holmes and Witten 1998)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import (
    Fitter,
    Statistics,
    effective_size,
    has_numbers,
    observed,
    refuse_empty,
    refuse_too_wide,
    split_by_kind,
)
from hybridbn.fitting.kernel_bandwidths import search_constants
from hybridbn.potentials import Kernel
from hybridbn.potentials.base import freeze
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, encode_configurations

if TYPE_CHECKING:
    from hybridbn.tables import Rows

__all__ = ["GroupedPoints", "KernelFitter", "KernelStatistics", "Kernels", "Search", "negligible"]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KernelStatistics(Statistics):
    """The points themselves.

    Attributes
    ----------
    points : ndarray (points, numbers)
        The child, if it is continuous, and the continuous parents in their order.
    codes : ndarray (points, states)
        The discrete parents in their order, and the child if it is discrete.
    weights : ndarray (points,)
    ranges : ndarray (numbers, 2)
        The least and the greatest value of each, of all rows that have one.
    """

    points: Values
    codes: Codes
    weights: Values
    ranges: Values

    def __post_init__(self) -> None:
        for name in ("points", "codes", "weights", "ranges"):
            object.__setattr__(self, name, freeze(getattr(self, name)))

    def merged(self, other: Self) -> Self:
        """Put the points of both together."""
        ends = np.stack([self.ranges, other.ranges])
        return replace(
            self,
            total=self.total + other.total,
            points=np.concatenate([self.points, other.points]),
            codes=np.concatenate([self.codes, other.codes]),
            weights=np.concatenate([self.weights, other.weights]),
            ranges=np.stack([ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)], axis=1),
        )


@dataclass(frozen=True, kw_only=True)
class KernelFitter(Fitter):
    r"""Learns ratios of Gaussian product-kernel densities: a kernel on every point, bandwidths by leaving one out.

    For each configuration of the discrete parents the joint density of the continuous variables is estimated (equation
    4 of Frank et al. 1998, or its one-dimensional counterpart for a response without parents), with bandwidths

    .. math:: h_m = r_m \, c_m / \sqrt{n}

    where r is the variable's range in the table (footnote 1), n the number of the configuration's points, and the c
    minimize the leave-one-out cross-entropy (equation 5). For a discrete child the density of the continuous parents is
    estimated given each of its states (equation 8), with a constant for each state, and turned around by Bayes' rule
    (equations 7 and 9).

    Parameters
    ----------
    bandwidths : "extended", "paper", "normal" or float
        Where the c are searched: "paper" is its grid 0.4, 0.5, ..., 0.8; "extended" moves on from there by octaves
        while the best is at the grid's edge (see Notes). Without search, "normal" has the bandwidths that are best for
        normal densities, and a number is taken for all c.
    per_state : bool
        Divide a state's c by the root of the number of points *in that state*, as the text below equation 8 has it.
        The paper's results, as far as they can be reproduced, come from the root of the number of all points.
    unseen : float
        How many rows of average weight a state of a discrete child counts for that has no point in a configuration; its
        points are those of the other states, so it says nothing about the continuous parents. With 0 it has
        probability zero, as in equation 9; footnote 6 of the paper then excludes such an attribute, see `negligible`.
    max_bytes : int
        Potentials whose arrays would be larger are refused with `TooWide`.

    Notes
    -----
    *Missing values.* Rows lacking the child or a parent are left out (footnote 2), but their other values count for the
    ranges.

    *Weights.* A row's kernel has its weight, the cross-entropy leaves out and counts each row with its weight, and n is
    :math:`(\sum w)^2 / \sum w^2`. So weights of zero are as if the row were not there and the scale of the weights
    doesn't matter; but a weight of 2 is one observation that counts double, not two observations that happen to be
    equal, which would tell the cross-entropy that kernels should be narrow.

    *Repeated values.* The cross-entropy has no minimum where all values are repeated: with h going to 0 every point is
    predicted by its copies. So the grid never goes below the paper's 0.4 for a variable with more than a tenth of its
    values repeated. Bandwidths are always positive.

    *Domains.* The kernels of a variable with a finite domain are truncated to it; the search for bandwidths ignores
    that.

    *Without points.* A configuration of the discrete parents that has no point gets those of the whole table (at most
    1000 of them, evenly in the order of the first variable). Where a configuration or state has a single point, none
    can be left out, and two points tell but one distance; they get the bandwidth of the whole table, widened for the
    smaller n as :math:`n^{-1/(4 + m)}` for m variables, and so do points that are all equal where bandwidths are those
    of normal densities.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=500)
    >>> table = hb.Table({"y": y, "x": np.sin(y) + 0.1 * rng.normal(size=500), "c": np.where(y > 0, "high", "low")})
    >>> y, x, c = table.variables
    >>> potential = KernelFitter().fit(table, x, (y,))
    >>> potential
    <Kernel x | y: 500 points>
    >>> KernelFitter().fit(table, c, (y,))(c="high", y=[-1, 0, 1]).round(3)
    array([0.   , 0.455, 1.   ])
    """

    name: ClassVar[str] = "kernel"
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial",)
    instance_based: ClassVar[bool] = True

    bandwidths: Literal["extended", "paper", "normal"] | float = "extended"
    per_state: bool = False
    unseen: float = 0.5
    max_bytes: int = 2**31

    def __post_init__(self) -> None:
        given = self.bandwidths
        number = not isinstance(given, str | bool) and isinstance(given, int | float | np.number)
        if not (0 < float(given) < math.inf if number else given in ("extended", "paper", "normal")):
            raise NetworkError(f"bandwidths must be 'extended', 'paper', 'normal' or a positive number, not {given!r}")
        if not 0 <= self.unseen < math.inf:
            raise NetworkError(f"unseen must be a number of rows, finite and not negative, not {self.unseen!r}")

    @property
    def searches(self) -> bool:
        """Whether bandwidths are searched."""
        return self.bandwidths in ("extended", "paper")

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Any variables, as long as there is a number among them."""
        return has_numbers(child, parents)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> KernelStatistics:
        """Collect the points where child and parents are observed."""
        if isinstance(child, Discrete) and not split_by_kind(parents)[1]:
            raise NetworkError(
                f"{child.name!r}: kernels need a continuous variable; a MultinomialFitter learns discrete ones alone"
            )
        rows = table.sample()
        columns, weights, total = observed(rows, child, parents)
        arrays = {variable.name: column for variable, column in zip((child, *parents), columns, strict=True)}
        numbers, states = _split_family(child, parents)
        count = len(columns[0])
        counting = slice(None) if weights is None else rows.weights > 0
        codes = [arrays[v.name] for v in states]
        return KernelStatistics(
            child=child,
            parents=tuple(parents),
            total=total,
            points=np.stack([arrays[v.name] for v in numbers], axis=1),
            codes=np.stack(codes, axis=1).astype(np.intp) if codes else np.empty((count, 0), dtype=np.intp),
            weights=np.ones(count) if weights is None else weights,
            ranges=np.array([_find_range(rows.coded(v)[counting]) for v in numbers]),
        )

    def potential(self, statistics: Any) -> Kernel:
        """Return the kernels with their bandwidths."""
        refuse_empty(statistics)
        child, parents = statistics.child, statistics.parents
        numbers, states = _split_family(child, parents)
        sizes = tuple(map(len, states))
        refuse_too_wide(child, parents, math.prod(sizes) * len(numbers), self.max_bytes, "array of bandwidths")
        of_child = sizes[-1] if isinstance(child, Discrete) else 1
        own = (
            statistics.codes[:, -1] if isinstance(child, Discrete) else np.zeros(len(statistics.points), dtype=np.intp)
        )
        outer = sizes[: len(sizes) - isinstance(child, Discrete)]
        kernels = GroupedPoints(
            values=_scale_points(numbers, statistics.points, statistics.ranges),
            weights=statistics.weights,
            groups=encode_configurations(statistics.codes.T[: len(outer)], outer, len(own)),
            states=own,
            shape=(math.prod(outer), of_child),
            search=self._search,
            per_state=self.per_state,
            unseen=self.unseen,
        ).build_kernels()
        codes = [*np.unravel_index(kernels.groups, outer)] if outer else []
        if isinstance(child, Discrete):
            codes.append(kernels.states)
        low, high = statistics.ranges.T / 2
        with np.errstate(over="ignore"):
            # bandwidths are positive numbers, also where ranges are next to the least or the largest
            widths = np.clip(2 * kernels.widths * (high - low), np.finfo(float).tiny, np.finfo(float).max)
        return Kernel(
            child,
            parents,
            points=statistics.points[kernels.rows],
            bandwidths=widths.reshape(*sizes, len(numbers)),
            weights=kernels.weights,
            labels={v.name: _decode_labels(v, column) for v, column in zip(states, codes, strict=True)},
        )

    def _search(self, points: Values, weights: Values, size: float) -> Values:
        if self.bandwidths == "normal":
            numbers = points.shape[1]
            middle = weights @ points / weights.sum()
            deviations = np.sqrt(weights @ (points - middle) ** 2 / weights.sum())
            widths = deviations * (4 / ((numbers + 2) * effective_size(weights))) ** (1 / (numbers + 4))
            return np.asarray(np.maximum(widths, np.finfo(float).eps) * math.sqrt(size))
        if isinstance(self.bandwidths, str):
            return np.array(search_constants(points, weights, size, extend=self.bandwidths == "extended"))
        return np.full(points.shape[1], float(self.bandwidths))


def negligible(log_likelihoods: ArrayLike, *, below: float = -700.0) -> NDArray[np.bool_]:
    r"""Tell in which rows an attribute's likelihood is negligible at every node of the response (footnote 6).

    Frank et al. exclude such attributes from the product over attributes for that row. It happens for values far from
    all that was seen, and for states that were never seen, whose likelihood is zero for every y if ``unseen=0``.

    Parameters
    ----------
    log_likelihoods : array_like (nodes, ...)
        Logarithms of :math:`\hat p(x \mid y)` over nodes of y, x being measured in units of its range.
    below : float
        What is negligible; by default what numbers of double precision can hardly tell from zero.

    Examples
    --------
    >>> negligible([[-np.inf, -2.0, -1e4], [-np.inf, -np.inf, -5e3]])
    array([ True, False,  True])
    """
    return np.asarray(np.max(np.asarray(log_likelihoods, dtype=np.float64), axis=0, initial=-np.inf) < below)


def _split_family(
    child: Variable, parents: tuple[Variable, ...]
) -> tuple[tuple[Continuous, ...], tuple[Discrete, ...]]:
    """Return the continuous variables, the child first, and the discrete ones, the child last."""
    discrete, continuous = split_by_kind(parents)
    return ((child, *continuous), discrete) if isinstance(child, Continuous) else (continuous, (*discrete, child))


def _find_range(values: Values) -> tuple[float, float]:
    """Return the least and the greatest value; an empty range where there is none."""
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if len(known) else (math.inf, -math.inf)


def _scale_points(numbers: tuple[Continuous, ...], points: Values, ranges: Values) -> Values:
    """Return points in units of the ranges."""
    # halves, because a range may be too large for a double
    low, high = ranges.T / 2
    for variable, (least, greatest) in zip(numbers, ranges.tolist(), strict=True):
        if not least / 2 < greatest / 2:
            raise TableError(
                f"column {variable.name!r} has the single value {least!r} in all its rows, so there is no range to"
                " measure the width of kernels by; leave the column out, or ask for another family"
            )
    return np.asarray((points / 2 - low) / (high - low))


def _decode_labels(variable: Discrete, codes: Codes) -> NDArray[Any]:
    """Return codes as `Kernel` takes them: as they are where no state is a number, else the states."""
    if variable.cuts is None and not any(isinstance(state, int | float) for state in variable.states):
        return codes
    states = np.empty(len(variable), dtype=object)
    states[:] = variable.states
    return np.asarray(states[codes])


MOST_BORROWED = 1000
"""Most points that a configuration or state without points of its own borrows."""
FEW = 2
"""The distance of two points says little of how wide kernels should be."""
NARROWEST = 1e-9
"""Bandwidths that are a smaller share of the range come from equal points."""
MIDDLE = 0.6
"""The middle of the paper's grid, for a single point."""

Search: TypeAlias = Callable[[Values, Values, float], Values]
"""The constants c of each variable, from at least two points, their weights and the n of c / sqrt(n)."""


class Kernels(NamedTuple):
    """Which kernels there are: rows of the points, which may come up several times, and what they stand for."""

    rows: Codes
    groups: Codes
    states: Codes
    weights: Values
    widths: Values
    """(groups, states, variables)"""


@dataclass(frozen=True, eq=False)
class GroupedPoints:
    """Points in units of the variables' ranges, each in a group (a configuration of discrete parents) and a state.

    Attributes
    ----------
    values : ndarray (points, variables)
    weights : ndarray (points,)
    groups : ndarray (points,)
    states : ndarray (points,)
        All zero if the child is continuous.
    shape : (groups, states)
    search : Search
    per_state : bool
        See `KernelFitter`.
    unseen : float
        See `KernelFitter`.
    """

    values: Values
    weights: Values
    groups: Codes
    states: Codes
    shape: tuple[int, int]
    search: Search
    per_state: bool
    unseen: float

    def build_kernels(self) -> Kernels:
        """Return a kernel for every point, those that are borrowed, and the bandwidths."""
        order = np.lexsort((self.states, self.groups))
        cells = self.groups * self.shape[1] + self.states
        starts = np.searchsorted(cells[order], np.arange(self.shape[0] * self.shape[1] + 1)).tolist()
        widths = np.empty((*self.shape, self.values.shape[1]))
        kernels = [(np.arange(len(cells)), self.groups, self.states, self.weights)]
        for group in range(self.shape[0]):
            bounds = starts[group * self.shape[1] : (group + 1) * self.shape[1] + 1]
            mine = order[bounds[0] : bounds[-1]]
            if not len(mine):
                mine = self._select_borrowed(np.arange(len(cells)))
                widths[group] = self._widen(float(len(mine)))
                kernels.append(self._weigh_borrowed(mine, group, self.states[mine], 1.0))
            else:
                size = effective_size(self.weights[mine])
                for state, (start, stop) in enumerate(itertools.pairwise(bounds)):
                    widths[group, state] = self._choose_bandwidths(order[start:stop], size)
            if self.unseen:
                seen = np.bincount(self.states[mine], minlength=self.shape[1])
                for state in np.flatnonzero(seen == 0).tolist():
                    lent = self._select_borrowed(mine)
                    states = np.full(len(lent), state)
                    kernels.append(self._weigh_borrowed(lent, group, states, self.unseen))
        rows, groups, states, weights = (np.concatenate(column) for column in zip(*kernels, strict=True))
        return Kernels(rows, groups, states, weights, widths)

    @cached_property
    def _everything(self) -> tuple[float, Values]:
        """The n of all points, whatever their group and state, and their bandwidths."""
        size = effective_size(self.weights)
        if len(self.values) == 1:
            return size, np.full(self.values.shape[1], MIDDLE)
        return size, self.search(self.values, self.weights, size) / np.sqrt(size)

    def _widen(self, size: float) -> Values:
        """Return the bandwidths of all points, widened for a smaller n."""
        whole, widths = self._everything
        return np.asarray(widths * max(whole / size, 1.0) ** (1 / (4 + len(widths))))

    def _choose_bandwidths(self, mine: Codes, group_size: float) -> Values:
        """Return the bandwidths of the points of one state in a group."""
        if not len(mine):
            return self._widen(group_size)
        weights = self.weights[mine]
        size = effective_size(weights) if self.per_state else group_size
        if len(mine) <= FEW:
            return self._widen(size)
        own = self.search(self.values[mine], weights, size) / np.sqrt(size)
        # equal points have no width of their own
        return np.where(own > NARROWEST, own, self._widen(size)) if (own <= NARROWEST).any() else np.asarray(own)

    def _select_borrowed(self, rows: Codes) -> Codes:
        """Return rows to lend, evenly in the order of the first variable if they are many."""
        if len(rows) <= MOST_BORROWED:
            return rows
        order = rows[np.argsort(self.values[rows, 0], kind="stable")]
        return order[np.linspace(0, len(rows) - 1, MOST_BORROWED).round().astype(np.intp)]

    def _weigh_borrowed(
        self, rows: Codes, group: int, states: Codes, count: float
    ) -> tuple[Codes, Codes, Codes, Values]:
        """Return kernels that together weigh as much as some rows of average weight."""
        weights = self.weights[rows]
        weights = weights * (count * self.weights.mean() / weights.sum())
        return rows, np.full(len(rows), group), states, weights
