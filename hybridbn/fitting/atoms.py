"""Numbers with heavy points: which values of a column have mass, and learning a mixture of them with a density."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from scipy.special import gammaln

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter, RowStatistics, Spec, Statistics, fitter_of, refuse_empty, spec_of
from hybridbn.fitting.mte import MTEFitter
from hybridbn.fitting.multinomial import MultinomialStatistics
from hybridbn.potentials import Atoms, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.potentials.binned import Binned
from hybridbn.tables import Rows, Table
from hybridbn.variables import Continuous, Discrete, Values, Variable

STRENGTHS = 2.0 ** np.arange(-2, 4.5, 0.5)


def _find_strength(counts: Values, prior: Values) -> float:
    """Return the number of rows that a prior (configurations, states) is most likely worth."""
    totals = counts.sum(axis=1)
    evidence = [
        (gammaln(worth) - gammaln(worth + totals)).sum()
        + (gammaln(counts + worth * prior) - gammaln(worth * prior)).sum()
        for worth in STRENGTHS
    ]
    return float(STRENGTHS[int(np.argmax(evidence))])


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
    grid: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.points, tuple) or list(self.points) != sorted(set(self.points)):
            raise NetworkError(f"points must be a tuple of numbers in ascending order, not {self.points!r:.80}")

    @property
    def instance_based(self) -> bool:  # type: ignore[override]
        """Whether the density's potentials keep the rows as points, or tables of codes take what they have to tell."""
        return self.grid or fitter_of(self.density, Continuous("x")).instance_based

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
        try:
            density = fitter_of(self.density, child, parents).potential(statistics.density)
        except TableError:  # nothing to learn it from: a value besides the points is unlikely, not impossible
            density = self._make_wide_density(child, parents, unit)
        component = self._fit_grid(statistics, density) if self.grid else self._learn_component(statistics.component)
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

    def _fit_grid(self, statistics: AtomsStatistics, density: Potential) -> Potential:
        """Return the probabilities of all points of a grid, where the density says what neighbors tell of each."""
        points, variable = np.array(self.points), cast(Discrete, statistics.component.child)
        rest = 0.5 / (statistics.total + 1.0) ** 2
        binned = Binned(variable, density=density, edges=(points[1:] + points[:-1]) / 2, rest=rest)
        smooth = binned.probabilities()
        if smooth is None:
            return binned
        counts, states = cast(MultinomialStatistics, statistics.component).counts, len(points)
        counts = counts[..., :states].reshape(-1, states)
        prior = 0.95 * smooth[..., :states].reshape(-1, states) + 0.05 / states
        strength = _find_strength(counts, prior / prior.sum(axis=1, keepdims=True))
        table = counts + strength * prior
        table *= (1 - rest) / table.sum(axis=1, keepdims=True)
        table = np.concatenate([table, np.full((len(table), 1), rest)], axis=1).reshape(smooth.shape)
        return Multinomial(variable, cast(tuple[Discrete, ...], statistics.parents), table=table, normalize=True)

    def _make_wide_density(self, child: Continuous, parents: tuple[Variable, ...], unit: float) -> Potential:
        """Return a density about the middle of the points, whatever the parents are."""
        middle = {child.name: np.mean(self.points, keepdims=True)}
        table = Table.from_arrays((child, *parents), {**{parent.name: np.zeros(1) for parent in parents}, **middle})
        return MTEFitter(floor=unit).fit(table, child, parents)
