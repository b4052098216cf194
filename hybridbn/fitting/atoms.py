"""Numbers with heavy points: which values of a column have mass, and learning a mixture of them with a density."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter, RowStatistics, Spec, Statistics, fitter_of, refuse_empty, spec_of
from hybridbn.fitting.code_tables import find_rest, tabulate, tabulate_cells
from hybridbn.fitting.gaussian import GaussianFitter
from hybridbn.fitting.mte import MTEFitter, MTEStatistics
from hybridbn.fitting.multinomial import MultinomialStatistics
from hybridbn.potentials import Atoms
from hybridbn.potentials.base import Potential
from hybridbn.tables import Rows, Table
from hybridbn.tables.scales import FEW_VALUES
from hybridbn.variables import Continuous, Values, Variable


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class AtomsStatistics(Statistics):
    """What is known of the component of each row, and of the rows at none of the points.

    Attributes
    ----------
    component, density : Statistics
    """

    component: Statistics
    density: Statistics


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
    grid : bool
        Whether the points are all codes of the column: the density is learned from all rows, and what it says of each
        code is what the frequencies are shrunk to.

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
    grid: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.points, tuple) or list(self.points) != sorted(set(self.points)):
            raise NetworkError(f"points must be a tuple of numbers in ascending order, not {self.points!r:.80}")

    @property
    def instance_based(self) -> bool:  # type: ignore[override]
        """Whether the density's potentials keep the rows as points."""
        return fitter_of(self.density, Continuous("x")).instance_based

    def with_density(self, density: Spec) -> Spec:
        """Return the fitter with another family of densities."""
        return replace(self, density=density)

    @property
    def measured_by(self) -> Spec:
        """Of a table of codes the density that it is shrunk to."""
        return self.density if self.grid else self

    @property
    def is_normal(self) -> bool:  # type: ignore[override]
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
        points, grid = tuple(atoms.points.tolist()), atoms.child.grid
        # a table of codes has all numbers of the grid
        listed = len(points) > FEW_VALUES and grid is not None and (grid.low, grid.high) == (points[0], points[-1])
        return cls(points, density, atoms.unit, listed)

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
        counts = "auto" if self.grid else self.density
        others = rows.table if self.grid else rows.table.take(codes == len(self.points))
        return AtomsStatistics(
            child=child,
            parents=tuple(parents),
            total=rows.total,
            component=fitter_of(counts, own, parents).statistics(components, own, parents),
            density=fitter_of(self.density, child, parents).statistics(others, child, parents),
        )

    def potential(self, statistics: Any) -> Potential:
        """Return the mixture."""
        child, parents = statistics.child, statistics.parents
        if not isinstance(statistics, AtomsStatistics):
            return fitter_of(self.density, child, parents).potential(statistics)
        refuse_empty(statistics)
        unit = self.unit or max(float(np.ptp(self.points)), abs(self.points[0])) or 1.0
        if self.grid:
            component, density = self._fit_codes(statistics, unit)
        else:
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

    def _fit_codes(self, statistics: AtomsStatistics, unit: float) -> tuple[Potential, Potential]:
        """Return the probabilities of all codes and the density that says what neighbors tell of each."""
        component: Any = statistics.component
        own, points, density = component.child, np.array(self.points), statistics.density
        if isinstance(component, MultinomialStatistics):
            counts, tallies = component.counts, component.counts.reshape(-1, len(own)).sum(axis=0)
        else:
            # the rows themselves
            counts, tallies = None, np.bincount(component.columns[0], component.weights, len(own)).astype(np.float64)
        rest = find_rest(tallies)
        fitter: Any = fitter_of(self.density, statistics.child, statistics.parents)
        if isinstance(density, MTEStatistics):
            # of rows at one code alone, as those of a fold may be
            fitter = replace(fitter, floor=unit)
        if counts is not None or not isinstance(density, MTEStatistics):
            learned = fitter.potential(density)
            return tabulate(own, points, learned, counts, rest), learned
        leaves, codes = fitter.fit_leaves(density), self.locate_points(density.columns[0])
        return tabulate_cells(own, points, density, leaves, codes, rest), fitter.assemble(density, leaves)

    def _make_wide_density(self, child: Continuous, parents: tuple[Variable, ...], unit: float) -> Potential:
        """Return a density about the middle of the points, whatever the parents are; a normal one, which has a closed
        form in inference, where normal densities are asked for.
        """
        middle = {child.name: np.mean(self.points, keepdims=True)}
        table = Table.from_arrays((child, *parents), {**{parent.name: np.zeros(1) for parent in parents}, **middle})
        fitter = GaussianFitter(floor=unit) if self.is_normal else MTEFitter(floor=unit)
        return fitter.fit(table, child, parents)
