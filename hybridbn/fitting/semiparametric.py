"""Choosing the family of a density by the likelihood of held-out rows: semiparametric Bayesian networks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.arguments import check_count
from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Fitter, Statistics, observed, refuse_empty
from hybridbn.fitting.fitter_choice import Spec, check_spec, fitter_of
from hybridbn.fitting.kernel import KernelFitter
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Table

__all__ = ["SemiparametricFitter", "SemiparametricStatistics"]

SEED = 0
FEW_PARENTS = 3
"""Searches for bandwidths are quick given so few parents."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class SemiparametricStatistics(Statistics):
    """The rows in which child and parents are observed.

    Attributes
    ----------
    columns : tuple of ndarray (rows,)
        Codes or values of the child, then of the parents.
    weights : ndarray (rows,) or None
    """

    columns: tuple[NDArray[Any], ...]
    weights: Values | None

    def merged(self, other: Self) -> Self:
        """Put the rows of both together."""
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate(
                [np.ones(len(own.columns[0])) if own.weights is None else own.weights for own in (self, other)]
            )
        columns = tuple(np.concatenate(pair) for pair in zip(self.columns, other.columns, strict=True))
        return replace(self, total=self.total + other.total, columns=columns, weights=weights)

    @cached_property
    def table(self) -> Table:
        """The rows as a table."""
        from hybridbn.tables import Table

        variables = (self.child, *self.parents)
        arrays = {variable.name: column for variable, column in zip(variables, self.columns, strict=True)}
        return Table.from_arrays(variables, arrays).with_weights(self.weights)


@dataclass(frozen=True)
class SemiparametricFitter(Fitter):
    """Learns the one of some families under which rows are most likely that were left out.

    By default a number is linear Gaussian or has a kernel density given its parents, with the bandwidths of normal
    densities or with searched ones. Networks in which that is chosen for each node are semiparametric (Atienza, Bielza
    & Larrañaga 2022): ``hill_climb(data, "semiparametric", score=CrossValidation())`` finds arcs and families by one
    score.

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
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial", "softmax")

    families: tuple[Spec, ...] = ("gaussian", KernelFitter(bandwidths="normal"), "kernel")
    folds: int = 5

    def __post_init__(self) -> None:
        if not isinstance(self.families, tuple) or not self.families:
            raise NetworkError(f"families must be a tuple such as ('gaussian', 'kernel'), not {self.families!r:.80}")
        for family in self.families:
            check_spec(family)
        check_count(self.folds, "the number of folds", 2)

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Numbers, whatever their parents are."""
        return isinstance(child, Continuous)

    def list_fitters(self, child: Variable, parents: tuple[Variable, ...] = (), *, quick: bool = False) -> list[Fitter]:
        """Return the fitters to choose from; `quick` ones don't search bandwidths, if there are other kernels."""
        fitters = [fitter_of(family, child, parents) for family in self.families]
        direct = [one for one in fitters if not (isinstance(one, KernelFitter) and one.searches)]
        return direct if quick and any(isinstance(one, KernelFitter) for one in direct) else fitters

    def statistics(self, table: Table, child: Variable, parents: tuple[Variable, ...] = ()) -> SemiparametricStatistics:
        """Collect the rows where child and parents are observed."""
        columns, weights, total = observed(table, child, parents)
        return SemiparametricStatistics(
            child=child, parents=tuple(parents), total=total, columns=columns, weights=weights
        )

    def potential(self, statistics: Any) -> Potential:
        """Return the potential of the best family."""
        refuse_empty(statistics)
        table, child, parents = statistics.table, statistics.child, statistics.parents
        fitters = self.list_fitters(child, parents, quick=True)
        parts = np.random.default_rng(SEED).permutation(len(table)) % self.folds
        if len(table) < 2 * self.folds:
            return fitters[0].fit(table, child, parents)
        scores = [self._score(fitter, table, child, parents, parts) for fitter in fitters]
        if len(parents) <= FEW_PARENTS or isinstance(fitters[int(np.argmax(scores))], KernelFitter):
            slow = [fitter for fitter in self.list_fitters(child, parents) if fitter not in fitters]
            fitters += slow
            scores += [self._score(fitter, table, child, parents, parts) for fitter in slow]
        return fitters[int(np.argmax(scores))].fit(table, child, parents)

    def _score(
        self, fitter: Fitter, table: Table, child: Variable, parents: tuple[Variable, ...], parts: NDArray[np.intp]
    ) -> float:
        """Return the log-likelihood of all rows, each under the potential of the other folds."""
        likelihood = 0.0
        for part in range(self.folds):
            try:
                potential = fitter.fit(table.take(np.flatnonzero(parts != part)), child, parents)
            except TableError:  # a column may be constant in a part of the rows
                return -math.inf
            test = table.take(np.flatnonzero(parts == part))
            axes = {variable.name: test.coded(variable)[None] for variable in (child, *parents)}
            likelihood += float(test.weights @ potential.log_on(axes).reshape(-1))
        return likelihood
