"""Kernel conditionals from points, as naive Bayes for regression learns them (Frank, Trigg, Holmes and Witten 1998);
their bandwidths, and the choice between them and other families by held-out rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import (
    Fitter,
    RowStatistics,
    Spec,
    check_spec,
    effective_size,
    fitter_of,
    has_numbers,
    refuse_empty,
    refuse_too_wide,
    split_by_kind,
)
from hybridbn.fitting.cross_validation import deal_table, score_held_out, split_folds
from hybridbn.fitting.gaussian import LinearGaussianMixtureFitter
from hybridbn.options import check_count
from hybridbn.potentials import Kernel
from hybridbn.potentials.base import Potential, sum_logs, take_logs
from hybridbn.potentials.kernel.sums import CELLS, DIGITS, sum_on_lattice, visit_nearest
from hybridbn.tables import Rows
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, as_objects


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class KernelStatistics(RowStatistics):
    """The rows, and how far their numbers reach.

    Attributes
    ----------
    ranges : ndarray (numbers, 2)
        The least and the greatest value of each number, the child before the parents, of all rows that have one.
    """

    ranges: Values

    def merged(self, other: Self) -> Self:
        """Put the rows of both together."""
        ends = np.stack([self.ranges, other.ranges])
        ranges = np.stack([ends[..., 0].min(axis=0), ends[..., 1].max(axis=0)], axis=1)
        return replace(super().merged(other), ranges=ranges)


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

    *Weights.* A row of weight 2 is two rows, one of which the cross-entropy leaves out while the other one stays, and a
    row of weight zero is none. A row of less weight than one is left out as a whole, and n is :math:`(\sum w)^2 / \sum
    \min(w, w^2)`, so that the scale of weights below one doesn't matter.

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
    def searches(self) -> bool:  # type: ignore[override]
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
        counting = rows.weights > 0 if rows.weighted else slice(None)
        cells = [rows.coded(number)[counting] for number in _split_family(child, parents)[0]]
        ranges = [(np.fmin.reduce(own, initial=np.inf), np.fmax.reduce(own, initial=-np.inf)) for own in cells]
        return KernelStatistics(**vars(RowStatistics.of(rows, child, parents)), ranges=np.array(ranges))

    def potential(self, statistics: Any) -> Kernel:
        """Return the kernels with their bandwidths."""
        refuse_empty(statistics)
        child, parents = statistics.child, statistics.parents
        numbers, states = _split_family(child, parents)
        sizes = tuple(map(len, states))
        refuse_too_wide(child, parents, math.prod(sizes) * len(numbers), self.max_bytes, "array of bandwidths")
        own, points = statistics.columns[0], statistics.numbers
        if isinstance(child, Continuous):
            own, points = np.zeros(len(own), dtype=np.intp), np.column_stack([own, points])
        of_child = len(child) if isinstance(child, Discrete) else 1
        rows, groups, own_states, weights, bandwidths = GroupedPoints(
            values=_scale_points(numbers, points, statistics.ranges),
            weights=statistics.weights,
            groups=statistics.cells,
            states=own,
            shape=(math.prod(sizes) // of_child, of_child),
            fitter=self,
        ).build_kernels()
        codes = np.unravel_index(groups * of_child + own_states, sizes) if sizes else ()
        low, high = statistics.ranges.T / 2
        with np.errstate(over="ignore"):
            # bandwidths are positive numbers, also where ranges are next to the least or the largest
            widths = np.clip(2 * bandwidths * (high - low), np.finfo(float).tiny, np.finfo(float).max)
        return Kernel(
            child,
            parents,
            points=points[rows],
            bandwidths=widths.reshape(*sizes, len(numbers)),
            weights=weights,
            labels={v.name: _decode_labels(v, column) for v, column in zip(states, codes, strict=True)},
        )

    def search_constants(self, points: Values, weights: Values, size: float) -> Values:
        """Return the constants c of each variable, from at least two points, their weights and the n of c / sqrt(n)."""
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
    return np.asarray(as_objects(variable.states)[codes])


MOST_BORROWED = 1000
"""Most points that a configuration or state without points of its own borrows."""
FEW = 2
"""The distance of two points says little of how wide kernels should be."""
NARROWEST = 1e-9
"""Bandwidths that are a smaller share of the range come from equal points."""
MIDDLE = 0.6
"""The middle of the paper's grid, for a single point."""


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
    fitter : KernelFitter
    """

    values: Values
    weights: Values
    groups: Codes
    states: Codes
    shape: tuple[int, int]
    fitter: KernelFitter

    def build_kernels(self) -> tuple[Codes, Codes, Codes, Values, Values]:
        """Return a kernel for every point, and those that are borrowed: rows of the points, which may come up several
        times, groups, states and weights; and the bandwidths (groups, states, variables).
        """
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
                widths[group] = self._widen(effective_size(self.weights[mine]))
                kernels.append(self._weigh_borrowed(mine, group, self.states[mine], 1.0))
            else:
                size = effective_size(self.weights[mine])
                for state, (start, stop) in enumerate(itertools.pairwise(bounds)):
                    widths[group, state] = self._choose_bandwidths(order[start:stop], size)
            if self.fitter.unseen:
                seen = np.bincount(self.states[mine], minlength=self.shape[1])
                for state in np.flatnonzero(seen == 0).tolist():
                    lent = self._select_borrowed(mine)
                    states = np.full(len(lent), state)
                    kernels.append(self._weigh_borrowed(lent, group, states, self.fitter.unseen))
        rows, groups, states, weights = (np.concatenate(column) for column in zip(*kernels, strict=True))
        return rows, groups, states, weights, widths

    @cached_property
    def _everything(self) -> tuple[float, Values]:
        """The n of all points, whatever their group and state, and their bandwidths."""
        size = effective_size(self.weights)
        if size <= 1:
            return size, np.full(self.values.shape[1], MIDDLE)
        return size, self.fitter.search_constants(self.values, self.weights, size) / np.sqrt(size)

    def _widen(self, size: float) -> Values:
        """Return the bandwidths of all points, widened for a smaller n."""
        whole, widths = self._everything
        return np.asarray(widths * max(whole / size, 1.0) ** (1 / (4 + len(widths))))

    def _choose_bandwidths(self, mine: Codes, group_size: float) -> Values:
        """Return the bandwidths of the points of one state in a group."""
        if not len(mine):
            return self._widen(group_size)
        weights = self.weights[mine]
        size = effective_size(weights) if self.fitter.per_state else group_size
        if effective_size(weights) <= FEW:
            return self._widen(size)
        own = self.fitter.search_constants(self.values[mine], weights, size) / np.sqrt(size)
        # equal points have no width of their own
        return np.where(own > NARROWEST, own, self._widen(size)) if (own <= NARROWEST).any() else np.asarray(own)

    def _select_borrowed(self, rows: Codes) -> Codes:
        """Return rows to lend, evenly in the order of the first variable if they are many."""
        if len(rows) <= MOST_BORROWED:
            return rows
        order = rows[np.lexsort((self.states[rows], *self.values[rows].T[::-1]))]
        return order[np.linspace(0, len(rows) - 1, MOST_BORROWED).round().astype(np.intp)]

    def _weigh_borrowed(
        self, rows: Codes, group: int, states: Codes, count: float
    ) -> tuple[Codes, Codes, Codes, Values]:
        """Return kernels that together weigh as much as some rows of average weight, which is one at most."""
        weights = self.weights[rows]
        weights = weights * (count * self.weights.sum() / self._everything[0] / weights.sum())
        return rows, np.full(len(rows), group), states, weights


PAPER = (0.4, 0.5, 0.6, 0.7, 0.8)
"""The grid of the paper's footnotes 3 and 5."""
OCTAVES = 30
"""How far the grid moves at most, to either side."""
REPEATED = 0.1
"""Kernels get narrower than the paper's grid only where at most this share of the values occurs more than once."""
SWEEPS = 10

Windows = tuple[int, ...]


def list_constants(window: int) -> Values:
    """Return the constants c of one window: 0 is the paper's grid, 1 the octave above it, -1 the octave below it.

    Examples
    --------
    >>> list_constants(0), list_constants(1).round(3), list_constants(-1).round(3)
    (array([0.4, 0.5, 0.6, 0.7, 0.8]), array([0.8 , 0.951, 1.131, 1.345, 1.6 ]), array([0.2 , 0.238, 0.283, 0.336, 0.4
    ]))
    """
    if window == 0:
        return np.array(PAPER)
    steps = 2.0 ** (np.arange(5) / 4)
    return np.asarray(PAPER[-1] * 2.0 ** (window - 1) * steps if window > 0 else PAPER[0] * 2.0**window * steps)


def has_many_repeats(values: Values, weights: Values) -> bool:
    """Tell whether more than a tenth of the values occur more than once; one of weight two does.

    The cross-entropy then rewards ever narrower kernels, which bet on the same values coming up again.
    """
    distinct, inverse = np.unique(values, return_inverse=True)
    masses, own = np.bincount(inverse, weights, len(distinct)), np.zeros(len(distinct))
    np.maximum.at(own, inverse, np.minimum(weights, 1.0))
    return bool(masses[masses > own].sum() > REPEATED * weights.sum())


def search_constants(points: Values, weights: Values, size: float, extend: bool = True) -> tuple[float, ...]:
    """Return the constant c of each variable for which h = c / sqrt(size) has the least cross-entropy.

    Parameters
    ----------
    points : ndarray (points, variables)
        In units of each variable's range; at least two points.
    weights : ndarray (points,)
        Positive.
    size : float
        The n of h = c / sqrt(n).
    extend : bool
        Leave the paper's grid where the best sits at its end; downward only for variables without many repeated values.

    Notes
    -----
    One and two variables are searched on the full grid; more of them one at a time, from the middle of the grid, until
    none changes.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(1000, 1)) / 7
    >>> [round(float(c), 3) for c in search_constants(points, np.ones(1000), 1000)]
    [1.131]
    >>> search_constants(points, np.ones(1000), 1000, extend=False)
    (0.8,)
    """
    lowest = [0 if not extend or has_many_repeats(column, weights) else -OCTAVES for column in points.T]
    highest = OCTAVES if extend else 0
    root = np.sqrt(size)
    if points.shape[1] <= 2:
        # both variables move together
        def entropy(window: Windows) -> Values:
            return leave_one_out(points, weights, [list_constants(k) / root for k in window])

        return _search_windows(entropy, lowest, highest)
    chosen = [PAPER[2]] * points.shape[1]
    for _ in range(SWEEPS):
        before = list(chosen)
        for j in range(len(chosen)):

            def along(window: Windows, j: int = j) -> Values:
                widths = [np.array([c]) / root for c in chosen]
                widths[j] = list_constants(window[0]) / root
                return leave_one_out(points, weights, widths).ravel()

            (chosen[j],) = _search_windows(along, lowest[j : j + 1], highest)
        if chosen == before:
            break
    return tuple(chosen)


def _search_windows(entropy: Callable[[Windows], Values], lowest: Sequence[int], highest: int) -> tuple[float, ...]:
    """Search window by window until the best has been tried on all sides."""
    tried: dict[Windows, Values] = {}
    missing: list[Windows] = [(0,) * len(lowest)]
    window = missing[0]
    place: tuple[int, ...] = ()
    while missing:
        # diagonally first: if both variables want wider kernels, the windows beside that one aren't needed
        farthest = max(missing, key=lambda other: sum(abs(a - b) for a, b in zip(other, window, strict=True)))
        tried[farthest] = entropy(farthest)
        window = min(tried, key=lambda some: float(tried[some].min()))
        best = np.unravel_index(int(np.argmin(tried[window])), tried[window].shape)
        place = tuple(int(position) for position in best)
        beside = []
        for k, position, least in zip(window, place, lowest, strict=True):
            last = len(list_constants(k)) - 1
            beside.append(
                [
                    k,
                    *([k - 1] if position == 0 and k > least else []),
                    *([k + 1] if position == last and k < highest else []),
                ]
            )
        missing = [other for other in itertools.product(*beside) if other not in tried]
    return tuple(float(list_constants(k)[position]) for k, position in zip(window, place, strict=True))


REACH = 9.0
"""How far kernels are summed at first, in bandwidths of the largest."""
FEW_POINTS = 200
"""For fewer points than this, sums over pairs are faster than a lattice."""
FIRST_NEIGHBORS = 64
"""The number of nearest points whose kernels are summed first."""
OWN = 0.01
"""A sum that is less than this share of the point's own kernel has lost digits to the latter's subtraction."""


def leave_one_out(points: Values, weights: Values, widths: Sequence[Values]) -> Values:
    r"""Return the leave-one-out cross-entropy of a product-kernel density for every combination of bandwidths.

    Equation 5 of Frank et al. (1998) with weights w that add up to W, in any number of dimensions:

    .. math::

        CV_{CE} = -\frac{1}{W} \sum_j w_j \log \left( \frac{1}{(W - v_j) \prod_m h_m}
                  \sum_i (w_i - v_j [i = j]) \prod_m K\left(\frac{x_{jm} - x_{im}}{h_m}\right) \right)

    where the weight :math:`v_j = \min(w_j, 1)` is left out: of a row of weight two, as of two equal rows, one stays.

    Parameters
    ----------
    points : ndarray (points, variables)
        At least two.
    weights : ndarray (points,), positive
    widths : sequence of ndarray
        For each variable the bandwidths to try, increasing.

    Returns
    -------
    ndarray
        One dimension for each variable, running over its bandwidths.

    Examples
    --------
    >>> leave_one_out(np.array([[0.0], [1.0], [3.0]]), np.ones(3), [np.array([0.5, 1.0, 2.0])]).round(4)
    array([4.9181, 2.5126, 2.1335])
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    left_out = np.minimum(weights, 1.0) / weights.mean()
    weights = weights / weights.mean()
    # the subtraction has no digits left where one row has nearly all the weight
    heaviest = int(np.argmax(weights))
    rest = len(points) - left_out
    rest[heaviest] = math.fsum([*np.delete(weights, heaviest), weights[heaviest] - left_out[heaviest]])
    # a point's sum must dwarf all that may be missing from it
    least = np.maximum(OWN * left_out, len(points) * math.exp(DIGITS - REACH**2 / 2))
    total = np.zeros(tuple(map(len, widths)))
    lonely = np.ones(len(points), dtype=bool)
    crowd = len(points) > FEW_POINTS and len(widths) <= 2
    for rows, sums in (sum_on_lattice if crowd else sum_pairs)(points, weights, widths, REACH):
        others = sums - left_out[rows].reshape(-1, *(1,) * len(widths))
        fine = others.reshape(len(rows), -1).min(axis=1) >= least[rows]
        kept = rows[fine]
        total += np.tensordot(weights[kept], np.log(others[fine]), 1)
        lonely[kept] = False
    total += np.tensordot(
        weights[lonely], sum_logs_of_nearest(points, weights, left_out, widths, np.flatnonzero(lonely)), 1
    )
    entropy = (float(weights @ np.log(rest)) - total) / len(points) + len(widths) * math.log(2 * math.pi) / 2
    for j, h in enumerate(widths):
        entropy += np.log(h).reshape(-1, *(1,) * (len(widths) - 1 - j))
    return np.asarray(entropy)


def sum_pairs(
    points: Values, weights: Values, widths: Sequence[Values], reach: float
) -> Iterator[tuple[Codes, Values]]:
    """Yield rows and the sum of all kernels at each of them, its own included, over the pairs of points.

    Pairs are left out that are `reach` of the largest bandwidth apart along the first variable.
    """
    order = np.argsort(points[:, 0], kind="stable")
    ordered, sorted_weights = points[order], weights[order]
    reach *= float(widths[0][-1])
    outer = math.prod(map(len, widths[:-1]))
    start = 0
    while start < len(points):
        # as many rows as fit with their window; which grows with the rows, so the estimate is corrected once
        rows = max(1, min(len(points) - start, CELLS // (len(points) * outer)))
        for _ in range(2):
            low, high = _find_window(ordered[:, 0], start, start + rows, reach)
            rows = max(1, min(len(points) - start, CELLS // ((high - low) * outer)))
        low, high = _find_window(ordered[:, 0], start, start + rows, reach)
        left = np.ones((rows, 1, high - low))
        for j, h in enumerate(widths):
            apart = ordered[start : start + rows, j, None] - ordered[low:high, j]
            kernels = np.exp(-0.5 * (apart[:, None] / h[:, None]) ** 2)
            if j == len(widths) - 1:
                sums = np.matmul(left * sorted_weights[low:high], kernels.transpose(0, 2, 1))
            else:
                left = (left[:, :, None] * kernels[:, None]).reshape(rows, -1, high - low)
        yield order[start : start + rows], sums.reshape(rows, *map(len, widths))
        start += rows


def _find_window(ordered: Values, start: int, stop: int, reach: float) -> tuple[int, int]:
    low = int(np.searchsorted(ordered, ordered[start] - reach))
    high = int(np.searchsorted(ordered, ordered[min(stop, len(ordered)) - 1] + reach, side="right"))
    return low, high


def sum_logs_of_nearest(
    points: Values, weights: Values, left_out: Values, widths: Sequence[Values], rows: Codes
) -> Values:
    """Return the logarithms of the sums of kernels at some rows, each without what is left out of its own weight, over
    so many nearest points as it takes.
    """
    largest = np.array([h[-1] for h in widths])
    # how much narrower than the largest a combination's kernels are, at the least
    narrower = np.min(np.meshgrid(*[(h[-1] / h) ** 2 for h in widths], indexing="ij"), axis=0)
    scaled = points / largest
    logs, own = take_logs(weights), take_logs(weights - left_out)
    # no sum of kernels leaves out more than all the weight at the distance of the farthest neighbor
    everything = math.log(len(points)) + DIGITS
    result = np.empty((len(rows), *narrower.shape))

    def add_up(some: Codes, distances: Values, neighbors: Codes) -> NDArray[np.bool_]:
        result[some] = sums = _sum_logs(points, logs, own, widths, rows[some], neighbors)
        missing = everything - 0.5 * distances[:, -1].reshape(-1, *(1,) * len(widths)) ** 2 * narrower
        return np.asarray((sums >= missing).reshape(len(some), -1).all(axis=1) | (neighbors.shape[1] == len(points)))

    visit_nearest(scaled, scaled[rows], add_up, FIRST_NEIGHBORS, narrower.size)
    return result


def _sum_logs(
    points: Values, logs: Values, own: Values, widths: Sequence[Values], rows: Codes, neighbors: Codes
) -> Values:
    """Return the logarithms of sums of kernels over some neighbors, the row itself with another weight than others."""
    exponents = np.where(neighbors == rows[:, None], own[rows][:, None], logs[neighbors])
    for j, h in enumerate(widths):
        apart = points[rows, j, None] - points[neighbors, j]
        quadratic = -0.5 * (apart[..., None] / h) ** 2
        exponents = exponents[..., None] + quadratic.reshape(*apart.shape, *(1,) * j, len(h))
    return sum_logs(exponents, (1,))


SEED = 0
FEW_PARENTS = 3
"""Searches for bandwidths are quick given so few parents."""


@dataclass(frozen=True)
class SemiparametricFitter(Fitter):
    """Learns the one of some families under which rows are most likely that were left out.

    By default a number is linear Gaussian, has a linear regression whose residuals are a mixture of two or three normal
    densities, or has a kernel density given its parents, with the bandwidths of normal densities or with searched ones.
    Networks in which that is chosen for each node are semiparametric (Atienza, Bielza & Larrañaga 2022):
    ``hill_climb(data, "semiparametric", score=CrossValidation())`` finds arcs and families by one score.

    Parameters
    ----------
    families : tuple of family or Fitter
        The first one that is best is taken. Where other kernels are in the tuple, those whose bandwidths are searched
        are not tried while arcs are searched for, and given more than three parents only if the others are best.
    folds : int
        Parts of the rows that are left out in turn.

    References
    ----------
    Atienza, Bielza & Larrañaga (2022), "Semiparametric Bayesian networks", Information Sciences 584.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=300)
    >>> table = hb.Table({"x": x, "line": 2 * x + rng.normal(size=300), "arc": x**2 + 0.2 * rng.normal(size=300)})
    >>> net = hb.fit([("x", "line"), ("x", "arc")], table, "semiparametric")
    >>> [net.potential(name).family for name in ("x", "line", "arc")]
    ['gaussian', 'gaussian', 'kernel']
    """

    name: ClassVar[str] = "semiparametric"
    for_numbers: ClassVar[bool] = True
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial", "softmax")

    families: tuple[Spec, ...] = (
        "gaussian",
        "gaussian_mixture",
        LinearGaussianMixtureFitter(components=3),
        KernelFitter(bandwidths="normal"),
        "kernel",
    )
    folds: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.families, tuple) or not self.families:
            raise NetworkError(f"families must be a tuple such as ('gaussian', 'kernel'), not {self.families!r:.80}")
        for family in self.families:
            check_spec(family)
        check_count(self.folds, "the number of folds", 2)

    def list_fitters(self, child: Variable, parents: tuple[Variable, ...] = (), *, quick: bool = False) -> list[Fitter]:
        """Return the fitters to choose from; `quick` ones don't search bandwidths, if there are other kernels."""
        fitters = [fitter_of(family, child, parents) for family in self.families]
        direct = [one for one in fitters if not one.searches]
        return direct if quick and any(one.instance_based for one in direct) else fitters

    def potential(self, statistics: Any) -> Potential:
        """Return the potential of the best family."""
        refuse_empty(statistics)
        table, child, parents = statistics.table, statistics.child, statistics.parents
        fitters = self.list_fitters(child, parents, quick=True)
        dealt = deal_table(table, self.folds, np.random.default_rng(SEED))
        if len(dealt.parts) < 2 * self.folds:
            return fitters[0].fit(table, child, parents)
        rows = dealt.take(table)
        folds = [(rows.take(training), rows.take(test)) for training, test in split_folds(dealt.parts)]
        scores = [score_held_out(fitter, folds, child, parents)[0] for fitter in fitters]
        if len(parents) <= FEW_PARENTS or fitters[int(np.argmax(scores))].instance_based:
            slow = [fitter for fitter in self.list_fitters(child, parents) if fitter not in fitters]
            fitters += slow
            scores += [score_held_out(fitter, folds, child, parents)[0] for fitter in slow]
        # the first one of those that are as good but for rounding
        return fitters[int(np.argmax(np.isclose(scores, max(scores), rtol=1e-9, atol=0.0)))].fit(table, child, parents)
