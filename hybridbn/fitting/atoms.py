"""Numbers with heavy points: which values of a column have mass, and learning a mixture of them with a density."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter, RowStatistics, Spec, Statistics, fitter_of, refuse_empty, spec_of
from hybridbn.fitting.mte import MTEFitter
from hybridbn.potentials import Atoms
from hybridbn.potentials.base import Potential
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Continuous, Values, Variable

LEAST_ROWS = 20
"""Points are told apart from densities in columns of so many rows at least."""
FEW_VALUES = 3
"""The frequencies of so few values have no more parameters than a normal density, two."""
NEIGHBORS = 3
ABOVE_HEAPS = 3.0
"""A value is more than a heap that rounding makes where it has this many times the rows of other frequent values."""
HEAVIER = 10.0
"""Of ten rows at a point at least nine are there because of the point, so a value observed there may count as such."""
MANY_ROWS = 2000
"""From this number of rows on, values are counted by hashes before they are sorted."""
HASH_FACTOR = 0x9E3779B97F4A7C15
"""Multiplicative hashing: the first bits of the product with an odd number close to the golden ratio of 2 ** 64."""
HASH_BITS = 14


def find_heavy_points(values: Values, weights: Values | None = None) -> tuple[float, ...]:
    r"""Return the values of a column that have a mass of their own, rather than a share in a density.

    The Bayesian information criterion compares a point and a density with a density alone at the resolution of the
    column, as probabilities of its distinct values. What a density expects at a value is the mean number of rows of its
    neighbors, the three next values on the side where that is larger. The value is a point where its c rows exceed the
    expected number e so far that

    .. math:: c \log \frac{c}{e} - (c - e) > \tfrac{1}{2} \log n + \log k

    with n rows and k distinct values, and it has at least :math:`\sqrt{n}` rows and ten times as many as expected.
    Numbers that were rounded, such as ages, have no points, since their neighbors have about as many rows, nor have the
    heaps of numbers that were often rounded to tens, which are compared with each other; values that resampling repeats
    are too few. Up to three values are all points, because their frequencies have no more
    parameters than a normal density, and no smaller likelihood. There are no points in columns of less than 20 rows or
    of a single value.

    Parameters
    ----------
    values : ndarray (rows,)
        NaN where a cell is missing.
    weights : ndarray (rows,), optional
        A weight of two is the same as a row that occurs twice.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ages, rain = rng.normal(40, 12, 1000).round(), np.where(rng.random(1000) < 0.3, 0.0, rng.gamma(2, size=1000))
    >>> find_heavy_points(ages), find_heavy_points(rain), find_heavy_points(np.where(ages > 40, 1.0, 0.5))
    ((), (0.0,), (0.5, 1.0))
    """
    seen = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0)
    values, weights = values[seen], None if weights is None else weights[seen]
    if not _may_have_points(values, weights):
        return ()
    if weights is None:
        distinct, counts = np.unique(values, return_counts=True)  # sorts the values alone, which is faster
    else:
        distinct, owner = np.unique(values, return_inverse=True)
        counts = np.bincount(owner, weights)
    rows, size = float(counts.sum()), len(distinct)
    if rows < LEAST_ROWS or size < 2:
        return ()
    if size <= FEW_VALUES:
        return tuple(distinct.tolist())
    heavy = np.zeros(size, dtype=bool)
    candidates = np.flatnonzero(counts >= max(math.sqrt(rows), HEAVIER))
    for index in candidates[np.argsort(-counts[candidates], kind="stable")].tolist():
        others = np.flatnonzero(~heavy)
        expected = _find_mean_beside(counts, others, index) if len(others) > 1 else 0.5
        count = float(counts[index])
        gain = count * math.log(count / expected) - (count - expected)
        heavy[index] = count >= HEAVIER * expected and gain > 0.5 * math.log(rows) + math.log(size)
        if len(candidates) > NEIGHBORS:
            # numbers that are often rounded to tens: the tens are what to compare with
            heavy[index] &= count >= ABOVE_HEAPS * _find_mean_beside(counts, candidates, index)
    rest = counts[~heavy]
    # what is left may be too little for a density
    if heavy.any() and (len(rest) == 1 or len(rest) <= FEW_VALUES < rest.sum()):
        heavy[:] = True
    return tuple(distinct[heavy].tolist())


def _find_mean_beside(counts: Values | Codes, values: Codes, index: int) -> float:
    """Return the mean number of rows of the next values among some, on the side where that is larger."""
    place = int(np.searchsorted(values, index))
    sides = values[max(place - NEIGHBORS, 0) : place], values[place + 1 : place + 1 + NEIGHBORS]
    return max(float(counts[side].mean()) for side in sides if len(side))


def _may_have_points(values: Values, weights: Values | None) -> bool:
    """Tell whether a value may have enough rows for a point; counting hashed values is faster than sorting them."""
    if len(values) < MANY_ROWS:
        return True
    # zero has two signs; other equal numbers have the same bits
    bits = (values + 0.0).view(np.uint64)
    bits *= np.uint64(HASH_FACTOR)
    bits >>= np.uint64(64 - HASH_BITS)
    counts = np.bincount(bits.view(np.int64), weights)
    return bool(counts.max() >= max(math.sqrt(float(counts.sum())), HEAVIER))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AtomsStatistics(Statistics):
    """What is known of the component of each row, and of the rows at none of the points.

    Attributes
    ----------
    component, density : Statistics
    """

    component: Statistics
    density: Statistics

    def merged(self, other: Self) -> Self:
        """Merge both parts."""
        return replace(
            self,
            total=self.total + other.total,
            component=self.component + other.component,
            density=self.density + other.density,
        )


@dataclass(frozen=True)
class AtomsFitter(Fitter):
    """Learns a mixture of points and a density: `Atoms`.

    Which point a row is at, or none, is learned as a discrete variable given the parents, and the density from the rows
    at none of them; both by the fitter of the density's family or what it leaves discrete variables to. A family of
    numbers that is asked for by its name gets the heavy points of each column in this way; a fitter object gets none.

    Parameters
    ----------
    points : tuple of float
        The values with mass, for instance of `find_heavy_points`; without any the density is learned alone.
    density : family or Fitter
    unit : float, optional
        A length that is typical of the column. It is the standard deviation of a normal density where the rows at none
        of the points can't tell one.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> wet = rng.random(500) < 0.5
    >>> table = hb.Table({"rain": np.where(wet, rng.normal(5, size=500), 0.0), "day": np.where(wet, "wet", "dry")})
    >>> rain, day = table.variables
    >>> potential = AtomsFitter((0.0,), "gaussian").fit(table, rain, (day,))
    >>> potential(rain=[0.0, 0.0], day=["dry", "wet"]).round(2)
    array([1., 0.])
    """

    name: ClassVar[str] = "atoms"
    for_numbers: ClassVar[bool] = True

    points: tuple[float, ...] = ()
    density: Spec = "auto"
    unit: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.points, tuple) or list(self.points) != sorted(set(self.points)):
            raise NetworkError(f"points must be a tuple of numbers in ascending order, not {self.points!r:.80}")

    @property
    def instance_based(self) -> bool:  # type: ignore[override]
        """Whether the density's potentials keep the rows as points."""
        return fitter_of(self.density, Continuous("x")).instance_based

    @property
    def is_normal(self) -> bool:
        """Whether the density is normal."""
        return self.density == "gaussian"

    def join_points(self, density: Potential, probabilities: Values) -> Potential:
        """Return a density with the points."""
        if not self.points:
            return density
        child, parents = cast(Continuous, density.child), density.parents
        return Atoms(child, parents, points=self.points, probabilities=probabilities, density=density, unit=self.unit)

    @classmethod
    def like(cls, potential: Potential) -> Spec:
        """Return the fitter with the points of a potential, and with the fitter of its density."""
        atoms = cast(Atoms, potential)
        density = spec_of(atoms.density)
        if density is None:
            name = type(atoms.density).__name__
            raise NetworkError(f"{atoms.child.name!r}: a {name} can't be learned from data; choose another family")
        return cls(tuple(atoms.points.tolist()), density, atoms.unit)

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Statistics:
        """Read the components of the rows, and the rows at none of the points."""
        if not isinstance(child, Continuous):
            raise NetworkError(f"{child.name!r} is discrete and has no points beside a density")
        if not self.points:
            return fitter_of(self.density, child, parents).statistics(table, child, parents)
        rows = RowStatistics.of(table, child, parents)
        codes = self.locate_points(rows.columns[0])
        own = Atoms.component_of(child, self.points)
        components = replace(rows, child=own, columns=(codes, *rows.columns[1:])).table
        others = rows.table.take(codes == len(self.points))
        return AtomsStatistics(
            child=child,
            parents=tuple(parents),
            total=rows.total,
            component=fitter_of(self.density, own, parents).statistics(components, own, parents),
            density=fitter_of(self.density, child, parents).statistics(others, child, parents),
        )

    def potential(self, statistics: Any) -> Potential:
        """Return the mixture."""
        child, parents = statistics.child, statistics.parents
        if not isinstance(statistics, AtomsStatistics):
            return fitter_of(self.density, child, parents).potential(statistics)
        refuse_empty(statistics)
        unit = self.unit or max(float(np.ptp(self.points)), abs(self.points[0])) or 1.0
        try:
            density = fitter_of(self.density, child, parents).potential(statistics.density)
        except TableError:  # nothing to learn it from: a value besides the points is unlikely, not impossible
            density = self._make_wide_density(child, parents, unit)
        component = self._learn_component(statistics.component)
        return Atoms(child, parents, points=self.points, probabilities=component, density=density, unit=unit)

    def _learn_component(self, statistics: Statistics) -> Potential:
        """Return the probabilities of the points; without slopes where these gain less than BIC asks, as where the
        points stand for what was missing at random.
        """
        fitter = fitter_of(self.density, statistics.child, statistics.parents)
        component = fitter.potential(statistics)
        if component.as_softmax() is None or not isinstance(statistics, RowStatistics):
            return component
        parents = zip(statistics.parents, statistics.columns[1:], strict=True)
        columns = [np.zeros(len(column)) if isinstance(v, Continuous) else column for v, column in parents]
        level = fitter.potential(replace(statistics, columns=(statistics.columns[0], *columns)))
        gain = statistics.log_likelihood(component) - statistics.log_likelihood(level)
        price = 0.5 * math.log(statistics.total) * (component.free_parameters() - level.free_parameters())
        return component if gain > price else level

    def _make_wide_density(self, child: Continuous, parents: tuple[Variable, ...], unit: float) -> Potential:
        """Return a density about the middle of the points, whatever the parents are."""
        middle = {child.name: np.mean(self.points, keepdims=True)}
        table = Table.from_arrays((child, *parents), {**{parent.name: np.zeros(1) for parent in parents}, **middle})
        return MTEFitter(floor=unit).fit(table, child, parents)
