"""`Rows`: typed columns whose rows are read in passes, the one contract of all that learns from data or answers for it.

A table in memory (`Table`) is one batch, at hand at once; a scan (`hybridbn.tables.backends.Scan`) is many, which a
backend reads. Whoever learns says what it wants of a batch, as a function whose results add up, and whoever answers
says what becomes of a batch; neither needs to know how many batches there are. `remembered` holds what was computed of
the rows before, so that it is not computed again.
"""

from __future__ import annotations

import itertools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, Unpack
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError, remark
from hybridbn.options import ColumnKeywords
from hybridbn.tables.scales import (
    LEAST_ROWS,
    Mark,
    Scale,
    describe_cells,
    describe_constants,
    describe_identifier,
    describe_left_alone,
    describe_marks,
    find_scale,
    is_constant,
    list_marks_among,
)
from hybridbn.units import coarsest_step
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.tables.table import Table

LEAST_SHARE = 1e-9
"""A row is not repeated for states of smaller shares."""
_SHOWN = 60
"""Columns that are shown one by one."""

CountColumns: TypeAlias = Callable[
    [Mapping[str, NDArray[Any]], Mapping[str, int], Values | None, Sequence[tuple[str, ...]]],
    Mapping[tuple[str, ...], Values],
]
"""Counts families of columns: from codes by name, their sizes, the weights of the rows, and the families."""

Item = TypeVar("Item")
Result = TypeVar("Result")


class Rows(ABC):
    """Rows of discrete and continuous columns with missing cells, read in passes."""

    # -- columns --------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""

    @abstractmethod
    def variable(self, name: str) -> Variable:
        """Return a column's variable."""

    def is_discrete(self, name: str) -> bool:
        """Return whether a column is discrete."""
        return isinstance(self.variable(name), Discrete)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The columns' variables, in order."""
        return tuple(map(self.variable, self.names))

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Any:
        raise TypeError("rows are not a sequence; iterate over .names, or over .to_pandas().itertuples() of a table")

    def _require_column(self, name: str) -> None:
        if name not in self:
            raise TableError(f"there is no column {name!r}; the columns are {shorten(self.names)}")

    # -- all rows together ----------------------------------------------------------------------------------------

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def weighted(self) -> bool:
        """Whether the rows have weights."""

    @property
    @abstractmethod
    def total_weight(self) -> float:
        """The weight of all rows: their number where they have no weights."""

    @abstractmethod
    def count_missing(self, name: str) -> int:
        """Return the number of missing cells of a column."""

    @property
    def missing(self) -> dict[str, int]:
        """The number of missing cells of each column.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"x": [1.5, None], "c": ["a", "b"]}).missing
        {'x': 1, 'c': 0}
        """
        return {name: self.count_missing(name) for name in self.names}

    @abstractmethod
    def value_range(self, name: str) -> tuple[float, float]:
        """Return the least and the greatest number of a column in rows of positive weight; (inf, -inf) without any."""

    @abstractmethod
    def is_integer(self, name: str) -> bool:
        """Return whether all numbers of a column are of an integer type, or are written as whole numbers."""

    @abstractmethod
    def lists_states(self, name: str) -> bool:
        """Return whether the type of a column lists its states, perhaps some that no row has."""

    def scale(self, name: str) -> Scale:
        """Return what the numbers of a column are, of all rows in memory, or of a sample.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"rating": [1, 2, 3, 4, 5] * 10}).scale("rating").describe()
        'codes 1, 2, 3, 4, 5'
        """
        key = Scale, name
        if key not in self.remembered:
            values, _, weights = self.points(self.variable(name))
            self.remembered[key] = find_scale(
                values, weights, ordered=self.is_ordered(name), integer=self.is_integer(name)
            )
        scale: Scale = self.remembered[key]
        return scale

    def scaled(self, name: str) -> Any:
        """Return the variable of a column with the grid, or the step of its unit, that its numbers show."""
        variable = self.variable(name)
        if isinstance(variable, Discrete):
            return variable
        unit, numbers = variable.time_unit, self.points(variable)[0]
        if unit is None:
            return replace(variable, grid=self.scale(name).grid)
        observed = numbers[~np.isnan(numbers)]
        if len(observed) < LEAST_ROWS:
            return variable
        return replace(variable, unit=replace(unit, step=coarsest_step(observed, unit)))

    @abstractmethod
    def is_ordered(self, name: str) -> bool | None:
        """Return whether a column was declared to be one of ordered codes, or of no codes; None where it was not."""

    @property
    @abstractmethod
    def kept(self) -> frozenset[str]:
        """The columns that are learned from whatever they are: because somebody said so, or because they were looked at
        with all rows.
        """

    @abstractmethod
    def keep_columns(self, names: Iterable[str]) -> Self:
        """Return the rows with columns that are learned from whatever they are."""

    def marks(self, name: str) -> tuple[Mark, ...]:
        """Return the values of a column that may stand for missing cells, of all rows in memory, or of a sample.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> Table({"sex": ["m", "f", "n/a"] * 10}).marks("sex")
        (Mark(value='n/a', cells=10),)
        """
        variable = self.variable(name)
        if isinstance(variable, Continuous):
            return self.scale(name).marks if variable.unit is None else ()
        return list_marks_among(variable.states, self.count_states(name)) if variable.cuts is None else ()

    def reason_alone(self, name: str, *, texts: bool = True) -> str | None:
        """Return in words that a column names the rows or is free text, which tells nothing of others; else None.

        Parameters
        ----------
        texts : bool
            Whether free texts count, and columns of states nearly all of which differ.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> table = Table({"id": [f"p{i}" for i in range(20)], "nr": range(20), "x": [1.5, 2.5] * 10})
        >>> [table.reason_alone(name) for name in table.names]
        ['a different value in each row', 'row numbers', None]
        """
        variable = self.variable(name)
        if name in self.kept:
            return None
        if isinstance(variable, Continuous):
            return (variable.unit is None and self.scale(name).identifier) or None
        observed = len(self) - self.count_missing(name)
        # otherwise, whichever states occur, they do so twice and more
        if variable.cuts is not None or observed >= 2 * len(variable):
            return None
        counts = self.count_states(name)
        if not texts and counts.max(initial=0) > 1:
            return None
        states = list(itertools.compress(variable.states, counts > 0))
        return describe_identifier(states, round(counts.sum()), declared=self.lists_states(name))

    def leave_alone(
        self,
        kept: Container[Any] = (),
        unusable: Mapping[str, str] | None = None,
        *,
        texts: bool = False,
        constants: bool = True,
    ) -> tuple[Self, dict[str, str]]:
        """Return the rows without columns that nothing can be learned from, and why these are left out, which is
        remarked on, as are values of the others that may mark missing cells.

        Parameters
        ----------
        kept : container of str
            Columns that stay whatever they are. Identifiers and constants stay, too, where there is nothing else.
        unusable : mapping from column to reason, optional
            Columns that have been left out already.
        texts, constants : bool
            Whether free texts are left out, too, and columns of a single number.

        Examples
        --------
        >>> import warnings
        >>> from hybridbn.tables import Table
        >>> with warnings.catch_warnings(record=True, action="always") as told:
        ...     rows, reasons = Table({"x": [1.0, 2.0], "e": [None, None]}).leave_alone()
        >>> rows.names, reasons, len(told)
        (('x',), {'e': 'no value'}, 1)
        """
        usable, reasons = self.require_rows().read_usable()
        asked = [name for name in usable.names if name not in kept and name not in self.kept]
        single = usable.find_constants(asked) if constants and self.total_weight > 1 else []
        naming = {name: told for name in asked if (told := usable.reason_alone(name, texts=texts)) is not None}
        if len({*naming, *single}) == len(usable.names):
            naming, single = {}, []
        reasons = {**(unusable or {}), **{name: told for name, told in (reasons | naming).items() if name not in kept}}
        rows = self.drop([name for name in (*reasons, *single) if name in self])
        left = [name for name in usable.names if name in rows]
        marks = {name: own for name in left if name not in self.kept and (own := usable.marks(name))}
        if reasons or single or marks:
            remark(
                left_alone=f"{describe_left_alone(reasons)}; the network has no such nodes" if reasons else "",
                constants=describe_constants(single, len(self)) if single else "",
                marks=describe_marks(marks) if marks else "",
            )
        return rows.keep_columns(rows.names), reasons

    def find_constants(self, names: Iterable[str]) -> list[str]:
        """Return those of some columns whose numbers are all the same in rows of positive weight.

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> table = Table({"x": [2.0, None, 2.0], "y": [1.0, 2.0, 3.0], "c": ["a", "a", "a"]})
        >>> table.find_constants(["x", "y", "c"])
        ['x']
        """
        ranges = {name: self.value_range(name) for name in names if not self.is_discrete(name)}
        return [name for name, (low, high) in ranges.items() if low <= high and is_constant(low, high)]

    @abstractmethod
    def count_states(self, name: str) -> Values:
        """Return how many rows have which state of a discrete column; rare ones perhaps fewer than they do."""

    def count_families(
        self, families: Sequence[tuple[str, ...]], variables: Mapping[str, Variable]
    ) -> dict[tuple[str, ...], Values]:
        """Return joint counts of columns, read as these variables, where they are known without reading the rows; of
        rows at hand, which are counted where that is asked for, none.
        """
        return {}

    @property
    @abstractmethod
    def remembered(self) -> dict[Any, Any]:
        """What was computed of these rows before, by keys that name the computation and its columns."""

    def keep(self, owner: object, make: Callable[[], Result]) -> Result:
        """Return what was made of these rows for an owner before, or make it; it is forgotten with its owner.

        Parameters
        ----------
        owner : object
            Compared by identity.
        make : callable

        Examples
        --------
        >>> from hybridbn.tables import Table
        >>> table, owner = Table({"x": [1.0, 2.0]}), lambda: None
        >>> table.keep(owner, lambda: "made"), table.keep(owner, lambda: "made again")
        ('made', 'made')
        """
        made: WeakKeyDictionary[Any, Result] = self.remembered.setdefault(_Kept, _Kept()).made
        if owner not in made:
            made[owner] = make()
        return made[owner]

    # -- passes ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def learn(self, task: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None) -> Result:
        """Return the sum of what a task learns of each batch.

        Parameters
        ----------
        task : callable
            From a table and the place of its first row among all rows to what can be added up, or None; one that can be
            pickled, where other processes read the rows.
        variables : sequence of Variable, optional
            What the columns are read as; by default all of them, as what they are.
        """

    @abstractmethod
    def answer(
        self, task: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None
    ) -> Iterator[Result]:
        """Yield what a task makes of each batch, in the order of the rows.

        Parameters
        ----------
        task, variables : as in `learn`
        """

    @abstractmethod
    def answer_when_asked(self, answer: Callable[[Table], Result], postpone: Callable[[Self], Result]) -> Result:
        """Return an answer for the rows where they are one batch at hand; else one that makes a pass when it is asked.

        Parameters
        ----------
        answer : callable
            From a table to its answer.
        postpone : callable
            From these rows to an answer of the same kind, which goes through the batches whenever that is needed.
        """

    @abstractmethod
    def sample(self, rows: int | None = None, purpose: str | None = None) -> Table:
        """Return rows as a table in memory: all where these are in memory or few, else those whose numbers have the
        smallest hashes.

        Parameters
        ----------
        rows : int, optional
            At most so many.
        purpose : str, optional
            What is learned from the sample, in words of a warning that is given where it is not all rows.
        """

    @abstractmethod
    def share(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what a function learns of each item, a family or a fold, from the rows; threads share the items where
        there are many rows in memory.
        """

    def points(self, variable: Variable, guide: Discrete | None = None) -> tuple[Values, Codes | None, Values | None]:
        """Return the numbers of a column, the codes of another one and the rows' weights, for cut points and the like:
        of `sample`.
        """
        table = self.sample()
        codes = None if guide is None else table.coded(guide)
        return table.coded(variable), codes, table.weights if table.weighted else None

    def expect(self, target: str | None, count: CountColumns) -> None:
        """Tell that columns will be counted with this one, so that a pass over the rows need not be repeated for it."""
        return

    @contextmanager
    def open_notes(self) -> Iterator[str | None]:
        """Open a folder in which tasks note what they computed of a batch, for the next pass; None where `remembered`
        of the batch lasts.
        """
        yield None

    # -- other rows -----------------------------------------------------------------------------------------------

    @abstractmethod
    def select(self, names: Iterable[str]) -> Self:
        """Return the rows with some of their columns, in the order given."""

    def drop(self, names: str | Iterable[str]) -> Self:
        """Return the rows without some of their columns."""
        dropped = {names} if isinstance(names, str) else set(names)
        for name in dropped:
            self._require_column(name)
        return self.select(name for name in self.names if name not in dropped)

    @abstractmethod
    def with_variables(self, variables: Iterable[Variable]) -> Self:
        """Return the rows with their columns read as these variables; others are left out."""

    @abstractmethod
    def with_weights(self, weights: Any) -> Self:
        """Return the rows with other weights; None removes them."""

    @abstractmethod
    def keep_rows(self, variable: Variable, code: int | None = None) -> Self:
        """Return the rows of positive weight in which a column has a state, given by its code, or any value."""

    @abstractmethod
    def fill_holes(self, function: Callable[[Table, int], Mapping[str, NDArray[Any]]]) -> Self:
        """Return the rows with their missing cells filled by a function of the rows.

        Parameters
        ----------
        function : callable
            From a table and the number of its first row to whole columns, as codes or numbers, whose observed cells
            stay as they are; one that can be pickled, where the rows are read by other processes.
        """

    @abstractmethod
    def expand(self, variable: Discrete, assign: Callable[[Table], Values]) -> Self:
        """Return the rows, each repeated for the states of a further column, and weighted by their shares.

        Parameters
        ----------
        variable : Discrete
            The column.
        assign : callable
            From a table to the share of each state in each row (rows, states); one that can be pickled, where the rows
            are read by other processes.
        """

    @abstractmethod
    def weigh_rows(self, function: Callable[[Table, int], Values]) -> Self:
        """Return the rows with weights that are a function of them.

        Parameters
        ----------
        function : callable
            From a table and the place of its first row among all rows to the weights of its rows; one that can be
            pickled, where the rows are read by other processes.
        """

    @abstractmethod
    def write(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write the rows to a file, by its suffix."""

    @abstractmethod
    def declare(self, **columns: Unpack[ColumnKeywords]) -> Self:
        """Return the rows with some columns read as they are declared; the others stay as they are."""

    @abstractmethod
    def read_usable(self) -> tuple[Self, dict[str, str]]:
        """Return the rows with those columns that something can be computed with, and why others are left out."""

    # -- checks ---------------------------------------------------------------------------------------------------

    def require_rows(self, least: int = 1) -> Self:
        """Return the rows, or raise `TableError` where there are fewer than a computation needs."""
        if len(self) < least:
            raise TableError(f"the table has {len(self) or 'no'} rows; at least {least} are needed")
        return self

    def require_values(self, names: Iterable[str] | None = None) -> Self:
        """Return the rows, or raise `TableError` where a column has no observed value at all."""
        for name in self.names if names is None else names:
            if self.count_missing(name) == len(self):
                raise TableError(f"column {name!r} has no observed value in {len(self)} rows; leave it out")
        return self

    def require_few_states(self, most: int, names: Iterable[str] | None = None) -> Self:
        """Return the rows, or raise `TableError` where a discrete column has so many states that it must be an
        identifier.
        """
        for name in self.names if names is None else names:
            variable = self.variable(name)
            if isinstance(variable, Discrete) and len(variable) > most:
                raise TableError(
                    f"column {name!r} has {len(variable)} states in {len(self)} rows and looks like an identifier; "
                    f"leave it out, or allow more than {most} states"
                )
        return self

    # -- as text --------------------------------------------------------------------------------------------------

    def _is_read(self, name: str) -> bool:
        """Tell whether the cells of a column are known."""
        return True

    def _summarize(self, name: str) -> tuple[str, str, str]:
        """Return a column's numbers of states and of missing cells, and its first states or its unit."""
        is_read = self._is_read(name)
        missing = f"{self.count_missing(name):,} missing" if is_read else "not read"
        try:
            variable = self.variable(name)
        except TableError:
            return "", missing, "can't be used"
        if isinstance(variable, Discrete):
            states = shorten(variable.states, most=4)
            described = f"ordered: {states}" if self.is_ordered(name) else states
            marks = describe_cells(self.marks(name)) if is_read else ""
            return f"{len(variable):,} states", missing, "; ".join(filter(None, [described, marks]))
        return "", missing, self._describe_numbers(variable) if is_read else ""

    def _describe_numbers(self, variable: Continuous) -> str:
        scale, unit = self.scale(variable.name), variable.unit
        if variable.time_unit is None or scale.seen is None:
            scale = replace(scale, identifier="") if variable.name in self.kept else scale
            words = [] if unit is None else [unit.describe()]
            return "; ".join(filter(None, [*words, scale.describe()]))
        scaled = self.scaled(variable.name)
        as_text = scaled.unit.text if scaled.unit.pattern or scaled.unit.kind == "time" else scaled.restore
        return f"{scaled.unit.describe()}, {' to '.join(str(as_text(end)) for end in scale.seen)}"

    def __repr__(self) -> str:
        names = self.names
        lines = [
            f"{type(self).__name__}: {len(self):,} rows, {len(names)} columns" + (", weighted" if self.weighted else "")
        ]
        shown = {name: self._summarize(name) for name in names[:_SHOWN]}
        width = max(map(len, names), default=0)
        states_width, missing_width = (max((len(row[n]) for row in shown.values()), default=0) for n in (0, 1))
        for name, (states, missing, examples) in shown.items():
            kind = "discrete" if states else "continuous"
            line = f"  {name:{width}}  {kind:10}  {states:>{states_width}}  {missing:>{missing_width}}  {examples}"
            lines.append(line.rstrip())
        if len(shown) < len(names):
            lines.append(f"  ... ({len(names) - len(shown)} more columns)")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from hybridbn.pictures.html import show_table

        return show_table(self)


class _Kept:
    """What was made of rows, by the owners; it stays in its process, and copies of rows begin without it."""

    def __init__(self) -> None:
        self.made: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()


def refuse_no_value(name: str) -> TableError:
    """Return the error of a column of which nothing tells what it is."""
    return TableError(
        f"column {name!r} has no value, so nothing tells what it is; leave it out, declare it with"
        f" continuous=[{name!r}], or give its states: Table(data, variables=[Discrete({name!r}, states=...), ...])"
    )


def find_rows(table: Table, variable: Variable, code: int | None) -> NDArray[np.bool_]:
    """Tell in which rows of positive weight a column has a state, or any value."""
    cells = table.coded(variable)
    found = ~np.isnan(cells) if isinstance(variable, Continuous) else cells >= 0 if code is None else cells == code
    return np.asarray(found & (table.weights > 0) if table.weighted else found)


# -- choices by the numbers of rows ------------------------------------------------------------------------------------


STEP = np.uint64(0x9E3779B97F4A7C15)


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finalizer of SplitMix64 (Steele, Lea & Flood 2014).

    Examples
    --------
    >>> mix_bits(np.array([1], np.uint64))
    array([6238072747940578789], dtype=uint64)
    """
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def hash_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each number (SplitMix64).

    Examples
    --------
    >>> hash_numbers(np.array([0, 1], np.uint64))
    array([16294208416658607535, 10451216379200822465], dtype=uint64)
    """
    return mix_bits(numbers + STEP)


@dataclass(frozen=True)
class RowSample:
    """Some rows: their numbers, columns and weights; ``a + b`` has the rows of both."""

    rows: NDArray[np.uint64]
    columns: dict[str, NDArray[Any]]
    weights: NDArray[np.float64] | None = None

    def __add__(self, other: RowSample) -> RowSample:
        return RowSample(
            np.concatenate([self.rows, other.rows]),
            {name: np.concatenate([column, other.columns[name]]) for name, column in self.columns.items()},
            None if self.weights is None or other.weights is None else np.concatenate([self.weights, other.weights]),
        )

    def finish(self, most: int) -> RowSample:
        """Return those whose numbers have the smallest hashes (bottom-k sampling), in the order of the rows."""
        kept = np.argsort(hash_numbers(self.rows), kind="stable")[:most]
        kept = kept[np.argsort(self.rows[kept], kind="stable")]
        weights = None if self.weights is None else self.weights[kept]
        return RowSample(self.rows[kept], {name: column[kept] for name, column in self.columns.items()}, weights)
