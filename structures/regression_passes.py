"""Regressions from all rows of a table that is read in passes, after what a sample of the rows has settled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.fitter_choice import Role
from hybridbn.fitting.trees.growth import TreeNode
from hybridbn.fitting.trees.regression_splits import (
    NodeRegression,
    RegressionBatch,
    RegressionRows,
    ScannedRegressionRows,
    predict_by_depth,
)
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.structures.residual_mixture import ResidualMixture
from hybridbn.structures.training_data import TrainingData
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values

if TYPE_CHECKING:
    from hybridbn.structures.regression import Regressors

__all__ = ["RowTrust", "fill_column", "scan_regressors"]

_OPTIONS = Options(tolerance=1e-6, impossible="nan")
"""Missing cells are filled with these options while learning, where the noise of the sample is far greater."""


class ColumnCodes(Protocol):
    """What is tested of a column."""

    @property
    def column(self) -> str:
        """Its name."""

    @property
    def size(self) -> int:
        """The number of codes."""

    def find_codes(self, filled: Values) -> Codes:
        """Return the code of each row of a filled column."""


@dataclass(frozen=True)
class RowTrust:
    """How much rows count, by how far they are from what trees predict; see `ResidualMixture.weigh_rows`.

    Attributes
    ----------
    trees : sequence of TreeNode
    depth : int
        At which they are cut off.
    noise : ResidualMixture
    """

    trees: Sequence[TreeNode[NodeRegression]]
    depth: int
    noise: ResidualMixture

    def weigh_rows(self, rows: RegressionRows) -> Values:
        """Return the factors of the rows' weights, each the mean over the trees."""
        total = np.zeros(len(rows.target))
        for tree in self.trees:
            means, variances = predict_by_depth(tree, rows, self.depth)
            total += self.noise.weigh_rows(rows.target - means[-1], variances[-1])
        return total / len(self.trees)


@dataclass(frozen=True)
class _RegressorReader:
    """Reads the regressors, the target and the tests of batches of rows.

    Attributes
    ----------
    roles : mapping from column to Role
    target : str
    potentials, names, effects, centers, scales, unit, ridge : as in `Regressors`
    tests : sequence of ColumnCodes
    trust : RowTrust, optional
    """

    roles: Mapping[str, Role]
    target: str
    potentials: Sequence[Potential]
    names: Sequence[str]
    effects: Mapping[str, Values]
    centers: Values
    scales: Values
    unit: float
    ridge: Values
    tests: Sequence[ColumnCodes]
    trust: RowTrust | None

    def __call__(self, table: Table, first: int) -> RegressionBatch:
        """Return the rows of a batch that have a target and count."""
        data = TrainingData(table, self.roles, self.target)
        used: NDArray[np.intp] = np.flatnonzero(~np.isnan(data.codes(self.target)) & (table.weights > 0))
        if len(used) < len(table):
            data = data.take(used)
        rows = self._read_rows(data)
        weights = data.table.weights[None]
        if self.trust is not None:
            weights = weights * self.trust.weigh_rows(rows)
        return RegressionBatch(rows, weights)

    def _read_rows(self, data: TrainingData) -> RegressionRows:
        networks: dict[bool, tuple[Network, list[str]]] = {}
        for discrete in (False, True):
            own = [potential for potential in self.potentials if isinstance(potential.child, Discrete) == discrete]
            networks[discrete] = Network(own), [potential.child.name for potential in own]
        read = dict.fromkeys([*self.names, *(test.column for test in self.tests)])
        filled: dict[str, Values] = {}
        numbers, variances = np.empty((len(data.table), len(self.names))), np.zeros((len(data.table), len(self.names)))
        spreads: dict[str, Values] = {}
        for name in read:
            network, names = networks[isinstance(data.variable(name), Discrete)]
            filled[name], spread = fill_column(network, data, name, names)
            if spread is not None:
                spreads[name] = spread
        for place, name in enumerate(self.names):
            if name not in self.effects:
                numbers[:, place] = filled[name][:, 0]
                variances[:, place] = spreads.get(name, 0.0)
                continue
            numbers[:, place] = filled[name] @ self.effects[name]
            if name in spreads:
                variances[:, place] = filled[name] @ self.effects[name] ** 2 - numbers[:, place] ** 2
        numbers = (numbers - self.centers) / self.scales
        codes = [test.find_codes(filled[test.column]) for test in self.tests]
        return RegressionRows(
            numbers,
            data.codes(self.target) / self.unit,
            np.stack(codes, axis=1) if codes else np.empty((len(numbers), 0), np.intp),
            tuple(test.size for test in self.tests),
            self.ridge,
            variances / self.scales**2 if spreads else None,
        )


def scan_regressors(
    regressors: Regressors,
    tests: Sequence[ColumnCodes] = (),
    trust: RowTrust | None = None,
) -> ScannedRegressionRows:
    """Return all rows of a table that is read in passes, with the regressors of a sample of them.

    Parameters
    ----------
    regressors : Regressors
    tests : sequence of ColumnCodes
    trust : RowTrust, optional
        By default all rows count as the table's weights say.
    """
    source = regressors.source
    assert source is not None
    assert source.target is not None
    reader = _RegressorReader(
        source.roles,
        source.target,
        regressors.potentials,
        regressors.names,
        regressors.effects,
        regressors.centers,
        regressors.scales,
        regressors.unit,
        regressors.ridge,
        tuple(tests),
        trust,
    )
    variables = [source.variable(name) for name in source.roles]
    sizes, variance = tuple(test.size for test in tests), float(np.var(regressors.target))
    return ScannedRegressionRows(source.table, variables, reader, sizes, regressors.ridge, variance)


def fill_column(network: Network, data: TrainingData, name: str, names: Sequence[str]) -> tuple[Values, Values | None]:
    """Return a column as numbers (rows, 1) or shares of states (rows, states), missing cells being expectations given
    the other columns of a network; and the variances of these (rows,), None if there are none.
    """
    variable, cells = data.variable(name), data.codes(name)
    holes: NDArray[np.intp] = np.flatnonzero(cells < 0 if isinstance(variable, Discrete) else np.isnan(cells))
    if isinstance(variable, Discrete):
        filled = (cells[:, None] == np.arange(len(variable))).astype(np.float64)
    else:
        filled = np.array(cells, dtype=np.float64)[:, None] if len(holes) else cells[:, None]
    if not len(holes):
        return np.asarray(filled), None
    posterior = network.posterior(name, data.table.select(names).take(holes), options=_OPTIONS)
    spread = np.zeros(len(cells))
    if isinstance(posterior, DiscretePosterior):
        filled[holes] = posterior.probabilities
    else:
        filled[holes], spread[holes] = posterior.mean()[:, None], posterior.var()
    return np.asarray(filled), spread
