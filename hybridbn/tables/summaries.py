"""What learners ask of a table as a whole: its weight, holes, ranges, and whether it can be learned from at all.

A table whose rows are read in passes (`hybridbn.backends.Scan`) answers these questions without holding the rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.tables.columns import Column
from hybridbn.variables import Codes, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables.table import Table

__all__ = ["LEAST_SHARE", "TableSummaries", "find_rows"]

LEAST_SHARE = 1e-9
"""A row is not repeated for states of smaller shares."""

Result = TypeVar("Result")


class TableSummaries:
    """Questions about all rows of a table, and the checks that learners make before they begin."""

    is_scanned: ClassVar[bool] = False
    """Whether the rows are read in passes, so that no column is in memory."""

    _columns: dict[str, Column]

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def weights(self) -> Values:
        """The rows' weights."""

    @property
    @abstractmethod
    def weighted(self) -> bool:
        """Whether the rows have weights."""

    @abstractmethod
    def _find_column(self, name: str) -> Column: ...

    @property
    def total_weight(self) -> float:
        """The weight of all rows: their number where they have no weights."""
        return float(self.weights.sum()) if self.weighted else float(len(self))

    @property
    def missing(self) -> dict[str, int]:
        """The number of missing cells of each column.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"x": [1.5, None], "c": ["a", "b"]}).missing
        {'x': 1, 'c': 0}
        """
        return {name: self.count_missing(name) for name in self._columns}

    def count_missing(self, name: str) -> int:
        """Return the number of missing cells of a column."""
        return self._find_column(name).holes

    def value_range(self, name: str) -> tuple[float, float]:
        """Return the least and the greatest number of a column in rows of positive weight; (inf, -inf) without any.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"x": [1.5, None, 0.5, -9.0]}, weights=[1, 1, 1, 0]).value_range("x")
        (0.5, 1.5)
        """
        cells = self._find_column(name).cells.array
        observed = cells[~np.isnan(cells) & (self.weights > 0) if self.weighted else ~np.isnan(cells)]
        return float(observed.min(initial=np.inf)), float(observed.max(initial=-np.inf))

    def is_all_different(self, name: str) -> bool:
        """Return whether a discrete column has a value in each row where it has one that no other row has.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> table = Table({"k": ["x", "y", None], "c": ["a", "a", "b"]})
        >>> table.is_all_different("k"), table.is_all_different("c")
        (True, False)
        """
        cells = self._find_column(name).cells
        seen = cells.array[cells.array >= 0]
        # comparing lengths first saves sorting long columns
        return len(seen) <= len(cells.states or ()) and len(np.unique(seen)) == len(seen)

    def points(self, variable: Variable, guide: Discrete | None = None) -> tuple[Values, Codes | None, Values | None]:
        """Return the numbers of a column, the codes of another one and the rows' weights, for cut points and the like:
        all rows, or a sample of those that are read in passes.
        """
        table = self.sample_if_scanned()
        codes = None if guide is None else table.coded(guide)
        return table.coded(variable), codes, table.weights if table.weighted else None

    def sample_if_scanned(self, purpose: str | None = None) -> Table:
        """Return the table itself; a sample of its rows where they are read in passes, with a warning that tells what
        is learned from it.
        """
        return self  # type: ignore[return-value]

    def map_parts(
        self, function: Callable[[Table], Result], variables: Sequence[Variable] | None = None
    ) -> Iterator[Result]:
        """Yield the results of a function of consecutive rows, which is that of the table itself where it is in memory.

        Parameters
        ----------
        function : callable
            One that can be pickled, where the rows are read by other processes.
        variables : sequence of Variable, optional
            What the columns are read as.
        """
        table: Table = self  # type: ignore[assignment]
        yield function(table if variables is None else table.with_variables(variables))

    def sum_parts(
        self, function: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None
    ) -> Result:
        """Return the sum of a function of consecutive rows, which is that of the table itself where it is in memory.

        Parameters
        ----------
        function : callable
            From a table and the place of its first row among all rows to what can be added up, or None; one that can be
            pickled, where the rows are read by other processes.
        variables : sequence of Variable, optional
            What the columns are read as.
        """
        table: Table = self  # type: ignore[assignment]
        return function(table if variables is None else table.with_variables(variables), 0)

    def transform(self, function: Callable[[int, Any], Any]) -> Table:
        """Return the table whose rows become others while they are read, where they are read in passes.

        Parameters
        ----------
        function : callable
            From the number of the first row and an Arrow table to another Arrow table of the same columns.
        """
        raise TableError("only a table that is read in passes is transformed while it is read: hybridbn.scan")

    def keep_rows(self, variable: Variable, code: int | None = None) -> Table:
        """Return the rows in which a column has a state, given by its code, or any value.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> table = Table({"c": ["a", "b", None, "b"]})
        >>> len(table.keep_rows(table.variable("c"), 1)), len(table.keep_rows(table.variable("c")))
        (2, 3)
        """
        table: Table = self  # type: ignore[assignment]
        return table.take(np.flatnonzero(find_rows(table, variable, code)))

    def fill_holes(self, function: Callable[[Table, int], Mapping[str, NDArray[Any]]]) -> Table:
        """Return the table with its missing cells filled by a function of the rows.

        Parameters
        ----------
        function : callable
            From a table and the number of its first row to whole columns, as codes or numbers, whose observed cells
            stay as they are; one that can be pickled, where the rows are read by other processes.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"x": [1.0, None]}).fill_holes(lambda table, first: {"x": np.array([1.0, 7.0])})["x"]
        array([1., 7.])
        """
        table: Table = self  # type: ignore[assignment]
        for name, cells in function(table, 0).items():
            if table.count_missing(name):
                table = table.with_array(name, cells)
        return table

    def expand(self, variable: Discrete, assign: Callable[[Table], Values]) -> Table:
        """Return the table with each row repeated for the states of a further column, and weighted by their shares.

        Parameters
        ----------
        variable : Discrete
            The column.
        assign : callable
            From a table to the share of each state in each row (rows, states); one that can be pickled, where the rows
            are read by other processes.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> table = Table({"x": [1.0, 2.0]})
        >>> expanded = table.expand(Discrete("c", ("a", "b")), lambda rows: np.array([[1.0, 0.0], [0.2, 0.8]]))
        >>> expanded["x"], expanded["c"], expanded.weights
        (array([1., 2., 2.]), array([0, 0, 1]), array([1. , 0.2, 0.8]))
        """
        table: Table = self  # type: ignore[assignment]
        shares = assign(table)
        rows, states = np.nonzero(shares > LEAST_SHARE)
        repeated = table.take(rows)
        weighted = repeated.with_weights(repeated.weights * shares[rows, states])
        labels = np.array(variable.states, dtype=object)[states]
        return weighted.with_column(variable.name, labels, variable)

    def weigh_rows(self, function: Callable[[Table, int], Values]) -> Table:
        """Return the table with weights that are a function of the rows.

        Parameters
        ----------
        function : callable
            From a table and the place of its first row among all rows to the weights of its rows; one that can be
            pickled, where the rows are read by other processes.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"x": [1.0, 2.0]}).weigh_rows(lambda rows, first: 2 * rows["x"]).weights
        array([2., 4.])
        """
        table: Table = self  # type: ignore[assignment]
        return table.with_weights(function(table, 0))

    def expect(self, target: str | None, pairs: bool = False) -> None:
        """Tell what will be counted, so that a pass over the rows need not be repeated for it."""

    # -- checks ---------------------------------------------------------------------------------------------------

    def require_rows(self, least: int = 1) -> Self:
        """Return the table, or raise `TableError` where it has fewer rows than a computation needs."""
        if len(self) < least:
            raise TableError(f"the table has {len(self)} rows; at least {least} are needed")
        return self

    def require_values(self, names: Iterable[str] | None = None) -> Self:
        """Return the table, or raise `TableError` where a column has no observed value at all."""
        for name in self._columns if names is None else names:
            if self.count_missing(name) == len(self):
                raise TableError(f"column {name!r} has no observed value in {len(self)} rows; leave it out")
        return self

    def require_few_states(self, most: int, names: Iterable[str] | None = None) -> Self:
        """Return the table, or raise `TableError` where a discrete column has so many states that it must be an
        identifier.
        """
        for name in self._columns if names is None else names:
            states = self._find_column(name).cells.states
            if states is not None and len(states) > most:
                raise TableError(
                    f"column {name!r} has {len(states)} states in {len(self)} rows and looks like an identifier; "
                    f"leave it out, or allow more than {most} states"
                )
        return self


def find_rows(table: Table, variable: Variable, code: int | None) -> NDArray[np.bool_]:
    """Tell in which rows a column has a state, or any value."""
    cells = table.coded(variable)
    if code is not None:
        return np.asarray(cells == code)
    return np.asarray(cells >= 0 if isinstance(variable, Discrete) else ~np.isnan(cells))
