"""The attributes of a model that predicts a number from them: their own densities, and one number for each of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.choice import Potentials, Role
from hybridbn.fitting.gaussian import GaussianFitter
from hybridbn.fitting.ridge import Ridge, sparse_ridge
from hybridbn.inference.posterior import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.structures.chow_liu import tree_of
from hybridbn.structures.preparing import Prepared, prepared
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["Regressors", "read_for_regression", "regressors_of"]

LEAST_SPREAD = 1e-4
"""Least standard deviation of an attribute given another one, relative to that of all rows."""
_OPTIONS = Options(tolerance=1e-6, impossible="nan")
"""Of what missing cells are filled with while learning."""


@dataclass(frozen=True)
class Regressors:
    """A table as a regression sees it.

    Attributes
    ----------
    data : Prepared
        The rows that have a target and count.
    potentials : tuple of Potential
        The attributes' own densities, in the table's order.
    names : tuple of str
        The columns that have a say, one regressor each.
    unit : float
        What the target is measured in: about its standard deviation.
    effects : mapping from discrete columns to ndarray (states,)
        What a state adds to the target, in its unit.
    numbers : ndarray (rows, regressors)
        Standardized; missing cells are filled with what the other attributes lead to expect.
    centers, scales : ndarray (regressors,)
    slopes, ridge : ndarray (regressors,)
        Of the regression of all rows, and the penalties of their squares.
    whole : Ridge
        That regression, with all states as columns of their own.
    filled : mapping from columns to numbers (rows, 1) or shares of states (rows, states)
    """

    data: Prepared
    potentials: tuple[Potential, ...]
    names: tuple[str, ...]
    unit: float
    effects: Mapping[str, Values]
    numbers: Values
    centers: Values
    scales: Values
    slopes: Values
    ridge: Values
    whole: Ridge
    filled: Mapping[str, Values]

    @property
    def target(self) -> Values:
        """The target of each row, in its unit."""
        assert self.data.target is not None
        return np.asarray(self.data.codes(self.data.target) / self.unit, dtype=np.float64)

    @property
    def weights(self) -> Values:
        """The weight of each row."""
        return self.data.table.weights

    @property
    def root(self) -> Values:
        """Intercept and slopes of the regression of all rows, as coefficients of the standardized regressors."""
        return np.concatenate(([self.whole.intercept], self.slopes))


def read_for_regression(data: Any, target: str, potentials: Potentials, weights: Any) -> Prepared:
    """Read the data of a builder whose target is a number; "auto" means "gaussian" for attributes.

    Examples
    --------
    >>> read_for_regression({"x": [1.0, 2.0], "y": ["a", "b"]}, "y", "auto", None)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the target 'y' is discrete, and a regression predicts a number; use naive_bayes, tan or nb_tree
    """
    read = prepared(data, target, potentials, weights)
    if isinstance(read.variable(target), Discrete):
        raise NetworkError(
            f"the target {target!r} is discrete, and a regression predicts a number; use naive_bayes, tan or nb_tree"
        )
    read = read.take(np.flatnonzero(~np.isnan(read.codes(target)) & (read.table.weights > 0)))
    read = replace(read, roles={name: _normal(read, name) for name in read.roles})
    if len(read.table) < 3:
        raise TableError(
            f"a regression takes at least 3 rows that have a value of {target!r} and count; found {len(read.table)}"
        )
    return read


def regressors_of(data: Prepared) -> Regressors:
    """Learn the attributes' densities and the effects of their states."""
    potentials, filled = _attributes(data)
    assert data.target is not None
    target = data.codes(data.target)
    # a power of two, so that nothing is rounded
    unit = 2.0 ** np.round(np.log2(np.std(target / np.abs(target).max())) + np.log2(np.abs(target).max()))
    blocks: list[Values] = []
    groups: list[int] = []
    used: list[str] = []
    for name, block in filled.items():
        centered = block - data.table.weights @ block / data.table.weights.sum()
        spread = np.sqrt(data.table.weights @ centered**2 / data.table.weights.sum())
        if not (spread > 1e-12 * np.abs(block).max(initial=0.0)).any():
            continue
        if not isinstance(data.variable(name), Discrete):
            centered = centered / spread
        groups += [len(used)] * block.shape[1]
        blocks.append(centered)
        used.append(name)
    columns = np.concatenate([np.empty((len(target), 0)), *blocks], axis=1)
    whole = sparse_ridge(columns, target / unit, data.table.weights, np.array(groups, dtype=np.intp))
    return _coded(data, potentials, filled, tuple(used), whole, float(unit))


def _coded(
    data: Prepared,
    potentials: tuple[Potential, ...],
    filled: Mapping[str, Values],
    used: tuple[str, ...],
    whole: Ridge,
    unit: float,
) -> Regressors:
    """Make one standardized number of each column that has a say."""
    weights, place = data.table.weights / data.table.weights.sum(), 0
    effects: dict[str, Values] = {}
    numbers, slopes, penalties, names = [], [], [], []
    least = 1e-6 * float(np.sqrt(np.mean(whole.residuals**2)))
    for name in used:
        block = filled[name]
        part = slice(place, place + block.shape[1])
        place = part.stop
        number, slope, penalty = block[:, 0], whole.slopes[part.start], whole.penalties[part.start]
        if isinstance(data.variable(name), Discrete):
            effect = whole.slopes[part] - weights @ block @ whole.slopes[part]
            number = block @ effect
            scale = np.sqrt(weights @ number**2)
            if not scale > least:
                continue
            effects[name], slope = effect, scale
            # the penalty of all states' slopes, as a function of what their common factor is multiplied by
            penalty = float(penalty * (whole.slopes[part] @ whole.slopes[part]) / scale**2)
        names.append(name)
        numbers.append(number)
        slopes.append(slope)
        penalties.append(penalty)
    matrix = np.stack(numbers, axis=1) if numbers else np.empty((len(weights), 0))
    centers = weights @ matrix
    scales = np.sqrt(weights @ (matrix - centers) ** 2)
    return Regressors(
        data,
        potentials,
        tuple(names),
        unit,
        effects,
        (matrix - centers) / scales,
        centers,
        scales,
        np.array(slopes),
        np.array(penalties),
        whole,
        filled,
    )


def _attributes(data: Prepared) -> tuple[tuple[Potential, ...], dict[str, Values]]:
    """Return the attributes' densities, and their columns without holes: numbers (rows, 1) or shares of states (rows, states).

    Numbers form one tree and categories another: densities of numbers given numbers stay linear where they are normal.
    """
    found: dict[str, Potential] = {}
    filled: dict[str, Values] = {}
    for discrete in (False, True):
        names = [name for name in data.attributes if isinstance(data.variable(name), Discrete) == discrete]
        if not names:
            continue
        network = tree_of(Prepared(data.table.select(names), {name: data.roles[name] for name in names}, None))
        for name in names:
            found[name] = network.potential(name)
            filled[name] = _filled(network, data, name, names)
    return tuple(found[name] for name in data.attributes), {name: filled[name] for name in data.attributes}


def _filled(network: Network, data: Prepared, name: str, names: list[str]) -> Values:
    variable, own = data.variable(name), data.codes(name)
    holes: NDArray[np.intp] = np.flatnonzero(own < 0 if isinstance(variable, Discrete) else np.isnan(own))
    if isinstance(variable, Discrete):
        whole = (own[:, None] == np.arange(len(variable))).astype(np.float64)
    else:
        whole = np.array(own, dtype=np.float64)[:, None]
    if len(holes):
        posterior = network.posterior(name, data.table.select(names).take(holes), options=_OPTIONS)
        whole[holes] = (
            posterior.probabilities if isinstance(posterior, DiscretePosterior) else posterior.mean()[:, None]
        )
    return np.asarray(whole)


def _normal(data: Prepared, name: str) -> Role:
    """Return the role of a column; where nothing else was asked for a number, normal densities.

    These have a least variance, since in the few rows that two columns share one of them may be constant.
    """
    role = data.roles[name]
    if not isinstance(role.variable, Continuous) or role.fitter not in ("auto", "gaussian"):
        return role
    values = data.codes(name)
    values = values[~np.isnan(values)]
    spread = LEAST_SPREAD * float(values.std()) if len(values) else 0.0
    return role._replace(fitter=GaussianFitter(floor=spread) if spread > 0 and np.isfinite(spread) else "gaussian")
