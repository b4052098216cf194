"""Choosing the family of a density by the likelihood of held-out rows: semiparametric Bayesian networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.fitting.base import Fitter, RowStatistics, refuse_empty
from hybridbn.fitting.cross_validation import deal_folds, score_held_out, split_folds
from hybridbn.fitting.fitter_choice import Spec, check_spec, fitter_of
from hybridbn.fitting.gaussian_mixture import LinearGaussianMixtureFitter
from hybridbn.fitting.kernel import KernelFitter
from hybridbn.options import check_count
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows

__all__ = ["SemiparametricFitter"]

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

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Numbers, whatever their parents are."""
        return isinstance(child, Continuous)

    def list_fitters(self, child: Variable, parents: tuple[Variable, ...] = (), *, quick: bool = False) -> list[Fitter]:
        """Return the fitters to choose from; `quick` ones don't search bandwidths, if there are other kernels."""
        fitters = [fitter_of(family, child, parents) for family in self.families]
        direct = [one for one in fitters if not one.searches]
        return direct if quick and any(one.instance_based for one in direct) else fitters

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> RowStatistics:
        """Collect the rows where child and parents are observed."""
        return RowStatistics.of(table, child, parents)

    def potential(self, statistics: Any) -> Potential:
        """Return the potential of the best family."""
        refuse_empty(statistics)
        table, child, parents = statistics.table, statistics.child, statistics.parents
        fitters = self.list_fitters(child, parents, quick=True)
        if len(table) < 2 * self.folds:
            return fitters[0].fit(table, child, parents)
        parts = deal_folds(len(table), self.folds, np.random.default_rng(SEED))
        folds = [(table.take(training), table.take(test)) for training, test in split_folds(parts)]
        scores = [score_held_out(fitter, folds, child, parents)[0] for fitter in fitters]
        if len(parents) <= FEW_PARENTS or fitters[int(np.argmax(scores))].instance_based:
            slow = [fitter for fitter in self.list_fitters(child, parents) if fitter not in fitters]
            fitters += slow
            scores += [score_held_out(fitter, folds, child, parents)[0] for fitter in slow]
        return fitters[int(np.argmax(scores))].fit(table, child, parents)
