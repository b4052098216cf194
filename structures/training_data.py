"""Read and check the data of a builder, and fit the potentials of the structure that it chose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError, warn_user
from hybridbn.fitting import Fitter, Role, fitter_of, roles
from hybridbn.fitting.base import Potentials, prepare_families, refuse_overflow
from hybridbn.fitting.counting import Counts, RowCounter, count_columns
from hybridbn.fitting.cross_validation import DealtRows, deal_table
from hybridbn.fitting.mte import CellGains
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, Options
from hybridbn.potentials.base import Potential
from hybridbn.tables import Rows, Table, read_rows
from hybridbn.variables import Continuous, Discrete, Variable, find_observed

COARSE = Options(tolerance=1e-6, impossible="nan")
"""Posteriors need no higher precision while learning, because the noise of the sample is far greater."""


@dataclass(frozen=True)
class TrainingData:
    """The table that a builder learns from, with the role of each column.

    Attributes
    ----------
    rows : Rows
        With their weights.
    roles : mapping from column to Role
        In the table's order.
    target : str or None
    """

    rows: Rows
    roles: Mapping[str, Role]
    target: str | None

    @property
    def attributes(self) -> tuple[str, ...]:
        """All columns except the target, in the table's order."""
        return tuple(name for name in self.roles if name != self.target)

    @property
    def variables(self) -> list[Variable]:
        """The variables of all columns in the model."""
        return [role.variable for role in self.roles.values()]

    @property
    def table(self) -> Table:
        """The rows in memory: all, or a sample of those that are read in passes."""
        return self.rows.sample()

    def variable(self, name: str) -> Variable:
        """Return a column's variable in the model, which is discrete if the column is discretized."""
        return self.roles[name].variable

    def find_labeled(self) -> NDArray[np.intp]:
        """Return the rows that have a target and count."""
        return np.flatnonzero(find_observed(self.codes(self.target or "")) & (self.table.weights > 0))

    def find_complete(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether all of some columns are observed in each row."""
        holes = [find_observed(self.codes(name)) for name in names if self.table.missing[name]]
        return np.all(holes, axis=0) if holes else np.ones(len(self.table), dtype=bool)

    def codes(self, name: str) -> Any:
        """Return a column as codes or values of its variable."""
        return self.table.coded(self.variable(name))

    def counter(self, names: Sequence[str]) -> RowCounter:
        """Return a counter of some columns."""
        return RowCounter(self.rows, map(self.variable, names))

    def states(self, name: str) -> int:
        """Return the number of states of a discrete variable."""
        variable = self.variable(name)
        assert isinstance(variable, Discrete)
        return len(variable)

    def fitter(self, child: str, parents: Sequence[str]) -> Fitter:
        """Return the fitter of a column given others."""
        return fitter_of(self.roles[child].fitter, self.variable(child), tuple(map(self.variable, parents)))

    def fit(self, child: str, parents: Sequence[str], fitter: Fitter | None = None) -> Potential:
        """Return the potential of a column given others, learned by its own fitter or by another one."""
        variables = tuple(map(self.variable, parents))
        return (fitter or self.fitter(child, parents)).fit(self.rows, self.variable(child), variables)

    def prepare(self, families: Iterable[tuple[str, Sequence[str]]]) -> None:
        """Count in one pass what the fitters of some columns given others will ask for."""
        listed = [
            (self.fitter(child, given), self.variable(child), tuple(map(self.variable, given)))
            for child, given in families
        ]
        prepare_families(self.rows, listed)

    def collect(self, child: str, parents: Sequence[str]) -> Any:
        """Return what the fitter of a column given others has to know of the rows."""
        variables = tuple(map(self.variable, parents))
        return self.fitter(child, parents).statistics(self.rows, self.variable(child), variables)

    def select(self, names: Sequence[str]) -> TrainingData:
        """Return the same with some of the columns."""
        return TrainingData(self.rows.select(names), {name: self.roles[name] for name in names}, self.target)

    @cached_property
    def in_memory(self) -> TrainingData:
        """The same if the rows are in memory; else a sample of the rows, with a warning."""
        return replace(self, rows=self.rows.sample(purpose="densities that are neither tables nor normal"))

    @cached_property
    def by_densities(self) -> TrainingData:
        """The same with the densities of columns of codes in the place of their tables, by which families compare."""
        roles_of = {
            name: role._replace(fitter=role.fitter.measured_by) if isinstance(role.fitter, Fitter) else role
            for name, role in self.roles.items()
        }
        return replace(self, roles=roles_of)

    @cached_property
    def cell_gains(self) -> CellGains:
        """What mixtures of truncated exponentials gain by the cells of their parents."""
        return CellGains(self.in_memory.table)

    def deal(self, folds: int, rng: np.random.Generator, labeled: bool = True) -> tuple[TrainingData, DealtRows]:
        """Return the rows in memory, those that have a target or all, as they are dealt to folds: see `deal_table`."""
        strata = None if self.target is None else self.codes(self.target)
        table = self.table
        if labeled and strata is not None:
            table = table.with_weights(np.where(find_observed(strata), table.weights, 0.0))
        dealt = deal_table(table, folds, rng, strata)
        return replace(self, rows=dealt.take(table)), dealt

    def require_moments(self, names: Iterable[str]) -> None:
        """Refuse those of some columns that are numbers whose squares floats can't hold; constants are none of them."""
        for name in names:
            low, high = self.rows.value_range(name) if isinstance(self.variable(name), Continuous) else (0.0, 0.0)
            if low < high:
                with np.errstate(over="ignore", divide="ignore"):
                    square = np.square(high - low)
                    refuse_overflow([name], [self.rows.total_weight * np.array([low, high, square, 1 / square])])

    def take(self, rows: Any) -> TrainingData:
        """Return the same with some of the rows; variables stay as they are, cut points included."""
        return TrainingData(self.table.take(rows), self.roles, self.target)


def read_data_with_target(
    data: Any,
    target: str,
    potentials: Potentials,
    weights: Any,
    in_memory: str | None = None,
    **columns: Unpack[ColumnKeywords],
) -> TrainingData:
    """Read the data of a builder with a target, and refuse data from which nothing can be learned.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
    in_memory : str, optional
        What is learned from the rows themselves, in words: of a table that is read in passes, from a sample.

    Examples
    --------
    >>> data = read_data_with_target({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "b"]}, "c", "auto", None)
    >>> data.target, data.attributes
    ('c', ('x',))
    >>> read_data_with_target({"x": [1.0, 2.0]}, "y", "auto", None)
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: there is no column 'y'; the columns are 'x'
    """
    if isinstance(data, Rows):
        data.expect(target, count_columns)
    rows = _read_rows(data, potentials, weights, target, in_memory, **columns)
    if not isinstance(target, str):
        raise NetworkError(f"the target must be the name of a column, not {target!r}")
    training_data = TrainingData(rows, roles(rows, target, potentials), target)
    _check_target(training_data, target)
    return training_data


def read_data_with_class(
    data: Any,
    target: str,
    potentials: Potentials,
    weights: Any,
    in_memory: str | None = None,
    **columns: Unpack[ColumnKeywords],
) -> tuple[TrainingData, Discrete]:
    """Read data whose target is a class; return its variable, too.

    Parameters
    ----------
    data, target, potentials, weights, in_memory : as in `read_data_with_target`

    Examples
    --------
    >>> read_data_with_class({"x": [1.0, 2.0, 4.0], "c": ["a", None, "b"]}, "c", "auto", None)[1].states
    ('a', 'b')
    >>> read_data_with_class({"x": [1.0, 2.0, 4.0], "c": ["a", None, "b"]}, "x", "auto", None)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the target 'x' is continuous, and this builder predicts a class; use naive_bayes,
    regression or model_tree
    """
    read = read_data_with_target(data, target, potentials, weights, in_memory, **columns)
    variable = read.variable(target)
    if not isinstance(variable, Discrete):
        raise NetworkError(
            f"the target {target!r} is continuous, and this builder predicts a class; use naive_bayes, regression or"
            " model_tree"
        )
    return read, variable


def read_data_without_target(
    data: Any, potentials: Potentials, weights: Any, in_memory: str | None = None, **columns: Unpack[ColumnKeywords]
) -> TrainingData:
    """Read the data of a builder without a target, and refuse data from which nothing can be learned.

    Parameters
    ----------
    data, potentials, weights, in_memory : as in `read_data_with_target`

    Examples
    --------
    >>> read_data_without_target({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "b"]}, "auto", None).attributes
    ('x', 'c')
    """
    rows = _read_rows(data, potentials, weights, in_memory=in_memory, **columns)
    return TrainingData(rows, roles(rows, None, potentials), None)


def _read_rows(
    data: Any,
    potentials: Potentials,
    weights: Any,
    target: Any = None,
    in_memory: str | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Rows:
    """Read data without the columns that nothing can be learned from, and warn of these."""
    rows, unusable = read_rows(data, weights, **columns)
    if target in unusable:
        raise TableError(f"the target {target!r} can't be used ({unusable[target]}); choose another target")
    # what is asked for by name, and a fitter of whoever knows that a number may be constant
    named = (target, *(potentials if isinstance(potentials, Mapping) else ()))
    rows, _ = rows.leave_alone(named, unusable, constants=isinstance(potentials, str | Mapping))
    return rows if in_memory is None else rows.sample(purpose=in_memory)


def _check_target(data: TrainingData, name: str) -> None:
    """Refuse a target that is a constant number; warn of a target with a single class."""
    variable = data.variable(name)
    if isinstance(variable, Discrete):
        occurring = np.flatnonzero(data.counter([name]).joint((name,)))
        if len(occurring) == 1:
            warn_user(
                f"the target {name!r} has one value in the rows that count, {variable.states[occurring[0]]!r}; the"
                " attributes can't tell anything about it",
            )
    else:
        low, high = data.rows.value_range(name)
        occurring = np.arange(low <= high)
        if low == high:
            rows = data.counter([name]).moments((name,)).total
            raise TableError(
                f"the target {name!r} is {low:g} in all {rows:g} rows that have a value and count, so there is nothing"
                " to predict; choose another target"
            )
    if not len(occurring):
        raise TableError(
            f"the target {name!r} has no observed value in the rows of positive weight; choose another target"
        )


def check_threshold(threshold: Any) -> float:
    """Return a threshold for mutual information, or raise an error if it is not a number of nats.

    Examples
    --------
    >>> check_threshold(-1)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: threshold must be a number of nats that is not negative, not -1
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float | np.number) or not threshold >= 0:
        raise NetworkError(f"threshold must be a number of nats that is not negative, not {threshold!r}")
    return float(threshold)


def fit_network(
    data: TrainingData,
    parents: Mapping[str, Sequence[str]],
    potentials: Mapping[tuple[str, ...], Potential] | None = None,
) -> Network:
    """Return the network with these parents, its potentials learned from the data.

    Parameters
    ----------
    data : TrainingData
    parents : mapping from column to its parents
        Columns that are not keys are left out of the network.
    potentials : mapping, optional
        Potentials that are fitted already, by child and parents in their order.

    Notes
    -----
    Each potential is learned from the rows in which its child and parents are all observed (available cases). All
    tables of counts are one request.

    Examples
    --------
    >>> data = read_data_with_target({"a": ["x", "y", "y"], "c": ["n", "n", "p"]}, "c", "auto", None)
    >>> fit_network(data, {"c": (), "a": ("c",)}).potential("a").table.round(2)
    array([[0.45, 0.55],
           [0.27, 0.73]])
    """
    known = potentials or {}
    data.prepare((child, given) for child, given in parents.items() if (child, *given) not in known)

    def fit(child: str) -> Potential:
        given = parents[child]
        return known[child, *given] if (child, *given) in known else data.fit(child, given)

    return Network(list(data.rows.share(fit, parents)))


def collect_statistics(
    table: Table, first: int, roles: Mapping[str, Role], parents: Mapping[str, tuple[str, ...]]
) -> Any:
    """Return what fitters have to know of some rows, by column; statistics of several parts of a table add up.

    Parameters
    ----------
    roles : mapping from column to Role
    parents : mapping from column to its parents
    """
    data = TrainingData(table, roles, None)
    data.prepare(parents.items())
    return Counts({child: data.collect(child, given) for child, given in parents.items()})
