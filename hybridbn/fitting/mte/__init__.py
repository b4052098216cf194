"""Learning mixtures of truncated exponentials: `MTEFitter`.

A conditional MTE divides the ranges of the parents into cells by a tree (`LikelihoodGain`), whose splits are judged by
cheap models of the child. What these splits gain together is by how much the parents raise the likelihood of the child
(`CellGains`), without fitting its densities. It takes a small part of the time of a fit, so that searches for
structures compare thousands of families by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.fitting.base import Fitter, RowStatistics, has_numbers, learns_as, observed, refuse_empty
from hybridbn.fitting.mte.pieces import (
    Box,
    assemble_terms,
    choose_scale,
    list_boxes,
    make_two_sided,
    select_knots,
    write_exponentials,
    write_probabilities,
)
from hybridbn.fitting.mte.univariate import (
    FEW,
    BestFit,
    Knots,
    SmoothDensity,
    choose_better,
    choose_strengths,
    compute_hat_means,
    fit_density,
    fit_mixtures,
    fit_strengths,
    limit_steepness,
    maximize_likelihood,
    normal_scores,
    refine_knots,
    spread_over_knots,
    third_differences,
)
from hybridbn.fitting.trees import (
    Cell,
    CodedColumn,
    LikelihoodGain,
    bin_scores,
    divide_parent,
    make_binned_models,
    make_class_models,
    make_value_models,
)
from hybridbn.options import check_count
from hybridbn.potentials import MTE
from hybridbn.potentials.mte.terms import Terms
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, encode_configurations, find_observed

__all__ = [
    "CellGain",
    "CellGains",
    "MTEFitter",
    "MTEStatistics",
    "cells_suffice",
    "estimate_probabilities",
    "fit_cells",
]

_PIECE = 0.1  # of an observation's log-likelihood: what a piece more has to be worth


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MTEStatistics(RowStatistics):
    """The distinct rows and their weights, sorted by the parents first."""

    def merged(self, other: Self) -> Self:
        """Return the statistics of the rows of both."""
        both = super().merged(other)
        return self._of(self.child, self.parents, list(both.columns), both.weights)

    @classmethod
    def _of(cls, child: Variable, parents: tuple[Variable, ...], columns: list[NDArray[Any]], weights: Values) -> Self:
        order = np.lexsort(columns[1:] + columns[:1]) if len(columns) > 1 else np.argsort(columns[0], kind="stable")
        columns, weights = [column[order] for column in columns], weights[order]
        new = np.ones(len(weights), dtype=bool)
        if len(weights):
            new[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        if not new.all():
            first = np.flatnonzero(new)
            columns, weights = [column[first] for column in columns], np.add.reduceat(weights, first)
        return cls(child=child, parents=parents, total=float(weights.sum()), columns=tuple(columns), weights=weights)


class Leaf(NamedTuple):
    """The rows in a cell of the parents, its boxes, and the density there."""

    rows: Codes
    boxes: list[Box]
    content: Terms


@dataclass(frozen=True)
class MTEFitter(Fitter):
    """Learns mixtures of truncated exponentials, with any mix of discrete and continuous parents.

    A density is one exponential on each of a few pieces, continuous, with exponential tails beyond the data (within the
    variable's domain): positive everywhere, of mass one, and the same whatever the units and the origin of the
    variable. A conditional density divides the parents' ranges into cells and has such a density, or class
    probabilities, in each. It depends on a continuous parent only through its cell, and outer cells reach to the end of
    the parent's domain. States of discrete parents share a density where BIC says so; of a single discrete parent each
    state with enough rows has its own, so that classes can be told apart.

    Parameters
    ----------
    max_pieces : int
        Most exponentials of a density of up to 1000 observations (their number grows as the fourth root beyond that):
        one on each piece, two beyond an edge. p pieces have 2 p - 1 free parameters: p - 1 cuts, p slopes, and nothing
        for the levels, since pieces are continuous and have mass one together.
    max_cells : int
        Most cells of a continuous parent.
    min_weight : float
        Least weight of the rows in a cell.
    prior : float
        How many observations the density of the cell above counts for in a cell.
    floor : float or None
        What to do with a column that has only one value: an error (None), or a density of this standard deviation about
        it.

    Notes
    -----
    The sum of the weights counts as the number of observations, so that a weight of two is the same as a row that
    occurs twice. Rows where child or parents are missing are left out.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> table = hb.Table({"x": rng.exponential(size=500)})
    >>> f = MTEFitter().fit(table, table.variable("x"))
    >>> len(f.pieces), bool(abs(f.integral() - 1) < 1e-12), round(f.mean(), 2)
    (3, True, 1.1)
    """

    name: ClassVar[str] = "mte"
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial",)

    max_pieces: int = 10
    max_cells: int = 12
    min_weight: float = 8.0
    prior: float = 4.0
    floor: float | None = None

    def __post_init__(self) -> None:
        for option, least in (("max_pieces", 2), ("max_cells", 1)):
            check_count(getattr(self, option), option, least)
        for option in ("min_weight", "prior", "floor"):
            value = getattr(self, option)
            if option == "floor" and value is None:
                continue
            if not isinstance(value, int | float | np.number) or not 0 < value < math.inf:
                raise TableError(f"{option} must be a positive number, not {value!r}")

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Any variables, as long as there is a number among them."""
        return has_numbers(child, parents)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> MTEStatistics:
        """Read what there is to know about the rows of a table; see `Fitter.statistics`."""
        columns, weights, _ = observed(table, child, parents)
        given = np.ones(len(columns[0])) if weights is None else weights
        return MTEStatistics._of(child, tuple(parents), list(columns), given)

    def potential(self, statistics: MTEStatistics) -> MTE:
        """Return the potential that the statistics speak for."""
        refuse_empty(statistics)
        return self.assemble(statistics, self.fit_leaves(statistics))

    def assemble(self, statistics: MTEStatistics, leaves: Iterable[Leaf]) -> MTE:
        """Return the potential with these densities."""
        child, parents = statistics.child, statistics.parents
        with np.errstate(all="ignore"):
            terms = assemble_terms(parents, child, [(box, leaf.content) for leaf in leaves for box in leaf.boxes])
        _refuse_overflow(terms, child)
        return MTE._of((*parents, child), (terms,), mass_error=0.0)

    @np.errstate(all="ignore")
    def fit_leaves(self, statistics: MTEStatistics) -> list[Leaf]:
        """Return the densities in cells of the parents."""
        child, parents, weights = statistics.child, statistics.parents, statistics.weights
        own, *others = statistics.columns
        columns = [
            divide_parent(parent, column, slice(None), weights, self.max_cells)
            for parent, column in zip(parents, others, strict=True)
        ]
        cuts = [column.cuts for column in columns]
        if isinstance(child, Discrete):
            models = make_class_models(own, len(child))
            cells, leaves = LikelihoodGain.of(columns, models, weights, self.min_weight).grow_cells()
            contents = map(
                write_probabilities, estimate_probabilities(own, weights, len(child), cells, leaves, self.prior)
            )
            return _place_in_boxes(parents, cuts, [cells[i] for i in leaves], contents)
        distinct, place = np.unique(own, return_inverse=True) if others else (own, np.arange(len(own)))
        summed: Values = np.asarray(np.bincount(place, weights), dtype=np.float64)
        if len(distinct) == 1:
            line = self._make_narrow_density(child, float(distinct[0]))
            everywhere = Cell(tuple(np.ones(column.size, dtype=bool) for column in columns), np.arange(len(own)), -1)
            return _place_in_boxes(parents, cuts, [everywhere], [line])
        scale = choose_scale(distinct, summed)
        standardized = scale.standardize(distinct)
        low, high = scale.standardize(np.array(child.domain))
        domain = (float(low), float(high))
        total = float(summed.sum())
        if others:
            models = make_value_models(normal_scores(summed)[place])
            # differences between classes that are too small to pay in a single density add up over many of them
            price = 0.0 if len(parents) == 1 and cuts[0] is None else None
            cells, leaves = LikelihoodGain.of(columns, models, weights, self.min_weight, price).grow_cells()
        else:
            cells, leaves = [Cell((), np.arange(0), -1)], np.zeros(1, dtype=np.intp)
        whole = fit_density(standardized, summed, domain)
        knots, heights, totals = (
            fit_cells(standardized[place], weights, whole, cells, leaves, self.prior)
            if len(leaves) > 1
            else (whole.knots, whole.heights[None], np.array([total]))
        )
        # beyond an edge there are two exponentials, and strays have one
        others_needed = 2 * sum(whole.edges) + sum(mass > 0 for mass, _ in whole.strays)
        most = max(2, round(self.max_pieces * max(1.0, total / 1000.0) ** 0.25) - others_needed)
        knots, heights = select_knots(heights, knots, most, _PIECE / totals)
        lines = (
            write_exponentials(row, places, whole, child.domain, scale)
            for row, places in zip(heights, knots.places, strict=True)
        )
        return _place_in_boxes(parents, cuts, [cells[i] for i in leaves], lines)

    def _make_narrow_density(self, child: Continuous, value: float) -> Terms:
        """Return the density about a single value, with two exponentials of the standard deviation `floor`."""
        if self.floor is None:
            raise TableError(
                f"column {child.name!r} has only the value {value!r}, which has no density; leave it out, or give the "
                "standard deviation of its measurement: MTEFitter(floor=...)"
            )
        return make_two_sided(value, self.floor, child.domain)


def _place_in_boxes(
    parents: tuple[Variable, ...], cuts: list[Values | None], cells: list[Cell], contents: Iterable[Terms]
) -> list[Leaf]:
    domains = [p.domain if isinstance(p, Continuous) else (0.0, 0.0) for p in parents]
    return [
        Leaf(cell.rows, list_boxes(cell.allowed, cuts, domains), content)
        for cell, content in zip(cells, contents, strict=True)
    ]


def _refuse_overflow(terms: Terms, child: Variable) -> None:
    """Refuse densities and ranges that floats can't hold."""
    ends = np.concatenate([terms.low[:, -1], terms.high[:, -1]]) if isinstance(child, Continuous) else np.zeros(1)
    ends = ends[np.isfinite(ends)]
    with np.errstate(over="ignore"):
        width = ends.max(initial=0.0) - ends.min(initial=0.0)
    if not (np.isfinite(terms.coefficient).all() and np.isfinite(terms.rates).all() and np.isfinite(width)):
        raise TableError(
            f"column {child.name!r}: the values lie so near to each other or so far apart that their density leaves the"
            " range of floats; measure them in another unit"
        )


_LARGE = 100  # values: enough to see several modes
_CHUNK = 64  # leaves fitted at once
_WITHIN = 1e-6  # of an observation's log-likelihood


def fit_cells(
    values: Values, weights: Values, whole: SmoothDensity, cells: Sequence[Cell], leaves: Codes, prior: float
) -> tuple[Knots, Values, Values]:
    """Fit splines in the leaves of a tree.

    Parameters
    ----------
    values, weights : of all rows, on the standardized axis
    whole : the density without parents, from all rows
    prior : how many observations the cell above counts for

    Returns
    -------
    knots : those of the whole, and more where leaves are narrow
    heights : (leaves, knots)
    totals : weight of each leaf, with what it borrowed; an empty one has that of the cell above
    """
    knots, base = _refine_for_leaves(values, weights, whole, cells, leaves)
    size = len(knots.places)
    places, share = spread_over_knots(values, knots.places)
    # values very far out are the same tail everywhere
    weights = np.where((values >= knots.places[0]) & (values <= knots.places[-1]), weights, 0.0)
    share = share * weights
    means, totals = np.empty((len(cells), size)), np.empty(len(cells))
    means[0] = compute_hat_means(base[None], knots)[0]
    totals[0] = weights.sum()
    distinct = np.empty(len(cells), dtype=np.intp)
    for i, cell in enumerate(cells[1:], start=1):
        rows = cell.rows
        sums = np.bincount(places[:, rows].ravel(), share[:, rows].ravel(), size)
        total = float(weights[rows].sum())
        means[i] = (sums + prior * means[cell.above]) / (total + prior)
        totals[i] = total + prior
    for i in leaves:
        distinct[i] = len(np.unique(values[cells[i].rows]))
    heights = np.empty((len(leaves), size))
    for begin in range(0, len(leaves), _CHUNK):
        part = leaves[begin : begin + _CHUNK]
        heights[begin : begin + _CHUNK] = _fit_leaves(means[part], totals[part], distinct[part], knots)
    empty = np.array([not len(cells[i].rows) and not cells[i].above for i in leaves])
    heights[empty] = base
    # a cell without rows stands for those above it
    alone = [i if len(cells[i].rows) or not i else cells[i].above for i in leaves]
    return knots, heights, totals[alone]


def _refine_for_leaves(
    values: Values, weights: Values, whole: SmoothDensity, cells: Sequence[Cell], leaves: Codes
) -> tuple[Knots, Values]:
    """Return the whole's spline on knots that are fine enough for the leaves, too."""
    quantiles = []
    for i in leaves:
        rows = cells[i].rows
        if len(rows) >= FEW:
            order = rows[np.argsort(values[rows])]
            upto = np.cumsum(weights[order])
            quantiles.append(values[order][np.searchsorted(upto, upto[-1] * np.array([0.05, 0.25, 0.75, 0.95]))])
    low, lower, higher, high = np.array(quantiles).reshape(-1, 4).T
    # the standard deviation of a normal density
    steps = np.minimum((high - low) / 3.3, (higher - lower) / 1.35)
    wide = steps > 0
    if not wide.any():
        return whole.knots, whole.heights
    return refine_knots(whole.knots, whole.heights, low[wide], high[wide], steps[wide])


def _fit_leaves(means: Values, totals: Values, distinct: Codes, knots: Knots) -> Values:
    """Return the heights of the best fit of each row; the larger ones may be mixtures of several normal densities."""
    sizes = np.minimum(totals, distinct)
    strengths = choose_strengths(FEW, np.inf)
    best = fit_strengths(means, knots, strengths[::2], totals, sizes)
    large = np.flatnonzero(sizes >= _LARGE)
    if len(large):
        rows = means[large]
        targets = np.stack([fit_mixtures(rows, knots.places, count) for count in (2, 3)])
        part = BestFit(*(array[large] for array in best))
        part = choose_better(
            part, fit_strengths(rows, knots, strengths[1:4:2], totals[large], sizes[large], targets, (2, 3))
        )
        for array, values in zip(best, part, strict=True):
            array[large] = values
    matrix = third_differences(knots.places)
    return limit_steepness(
        maximize_likelihood(means, knots, matrix, best.strength, best.heights, best.bends, within=_WITHIN), knots
    )


def estimate_probabilities(
    codes: Codes, weights: Values, states: int, cells: Sequence[Cell], leaves: Codes, prior: float
) -> Values:
    """Return the child's probabilities in the leaves of a tree (leaves, states).

    The frequencies of the whole are Laplace's, those of a cell ``(counts + prior * above) / (total + prior)``.
    """
    probabilities = np.empty((len(cells), states))
    for i, cell in enumerate(cells):
        counts = np.bincount(codes[cell.rows], weights[cell.rows], states)
        above = probabilities[cell.above] if i else np.full(states, 1.0 / states)
        pseudo = prior if i else float(states)
        probabilities[i] = (counts + pseudo * above) / (counts.sum() + pseudo)
    return probabilities[leaves]


class CellGain(NamedTuple):
    """What the parents of a child are worth.

    Attributes
    ----------
    likelihood : float
        By how much they raise the log-likelihood of the rows in which all of them are observed.
    parameters : float
        The number of parameters that this takes.
    weight : float
        Of these rows.
    """

    likelihood: float
    parameters: float
    weight: float


class CellGains:
    """Measures gains in one table, and keeps the cells of its columns.

    The cells of a number are those of all rows in which it is observed, also in families that lack some of them.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> table = hb.Table({"x": x, "y": x + 0.5 * rng.normal(size=500), "z": rng.normal(size=500)})
    >>> x, y, z = table.variables
    >>> gains = CellGains(table)
    >>> gains.measure(MTEFitter(), y, (x,)).likelihood > 200
    True
    >>> gains.measure(MTEFitter(), y, (z,))
    CellGain(likelihood=0.0, parameters=0.0, weight=500.0)
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self._weights = table.weights
        self._columns: dict[tuple[str, int | None], CodedColumn] = {}

    def measure(
        self, fitter: MTEFitter, child: Variable, parents: Sequence[Variable], among: Sequence[Variable] = ()
    ) -> CellGain:
        """Return what the parents are worth to a child whose density such a fitter would learn.

        Only rows count in which child, parents and the variables in `among` are observed.
        """
        rows = self._find_rows((child, *parents, *among))
        weights = self._weights[rows]
        total = float(weights.sum())
        columns = [self._read(parent, fitter.max_cells) for parent in parents]
        own = self._read(child)
        if not parents or own.size < 2 or total < 2 * fitter.min_weight:
            return CellGain(0.0, 0.0, total)
        codes, weights = count_distinct(
            [column.codes[rows] for column in (own, *columns)], [column.size for column in (own, *columns)], weights
        )
        likelihood, parameters = LikelihoodGain.of(
            [column._replace(codes=some) for column, some in zip(columns, codes[1:], strict=True)],
            make_class_models(codes[0], own.size) if own.means is None else make_binned_models(codes[0], own.means),
            weights,
            fitter.min_weight,
        ).measure_gains()
        return CellGain(likelihood, parameters, total)

    def _find_rows(self, variables: Sequence[Variable]) -> Codes | slice:
        """Return the rows in which some columns are observed and that count."""
        incomplete = [variable for variable in variables if self.table.count_missing(variable.name)]
        masks = [find_observed(self.table.coded(variable)) for variable in incomplete]
        if self.table.weighted:
            masks.append(self._weights > 0)
        return np.flatnonzero(np.logical_and.reduce(masks)) if masks else slice(None)

    def _read(self, variable: Variable, most: int | None = None) -> CodedColumn:
        """Return a parent in so many cells at most, or a child, which has one bin if it does not vary."""
        key = variable.name, most
        if key not in self._columns:
            self._columns[key] = self._code(variable, most)
        return self._columns[key]

    def _code(self, variable: Variable, most: int | None) -> CodedColumn:
        cells, rows = self.table.coded(variable), self._find_rows((variable,))
        if most is not None or isinstance(variable, Discrete):
            return divide_parent(variable, cells, rows, self._weights, most or 1)
        weights = self._weights[rows]
        distinct, place = np.unique(cells[rows], return_inverse=True)
        if len(distinct) < 2:
            return CodedColumn(cells, 1)
        bins, means = bin_scores(normal_scores(np.asarray(np.bincount(place, weights), float))[place], weights)
        codes = np.full(len(cells), -1)
        codes[rows] = bins
        return CodedColumn(codes, len(means), means=means)


def count_distinct(columns: Sequence[Codes], sizes: Sequence[int], weights: Values) -> tuple[list[Codes], Values]:
    """Return the distinct rows of some columns and their weights, or the rows themselves where that is not less work.

    Examples
    --------
    >>> count_distinct([np.array([1, 0, 1, 1]), np.array([0, 0, 0, 1])], [2, 2], np.ones(4))
    ([array([0, 1, 1]), array([0, 0, 1])], array([1., 2., 1.]))
    """
    size = math.prod(sizes)
    if size > len(weights):
        return list(columns), weights
    table = np.asarray(np.bincount(encode_configurations(columns, sizes, len(weights)), weights, size), float)
    occurring = np.flatnonzero(table)
    return list(np.unravel_index(occurring, tuple(sizes))), table[occurring]


def cells_suffice(fitter: Fitter) -> TypeGuard[MTEFitter]:
    """Tell whether a fitter divides the parents into cells as MTEs do; a subclass may do otherwise.

    Examples
    --------
    >>> cells_suffice(MTEFitter())
    True
    """
    return learns_as(fitter, MTEFitter)
