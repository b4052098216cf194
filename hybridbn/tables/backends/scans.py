"""`Scan`: a lazy table, which everything takes that takes data, read in passes by a backend."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError, warn_user
from hybridbn.options import ColumnKeywords, KindKeywords, Marks, list_given
from hybridbn.registry import LazyModule
from hybridbn.tables import Table
from hybridbn.tables.backends.base import Backend, Batch, Source, Task
from hybridbn.tables.backends.batches import (
    BatchReader,
    TransformedSource,
    blank_marks,
    call_at_place,
    expand_rows,
    fill_holes,
    find_place,
    keep_rows,
    weigh_rows,
    write_batches,
)
from hybridbn.tables.backends.profiles import ColumnTally, Profile, ProfileTask, make_variable
from hybridbn.tables.cells import REST
from hybridbn.tables.columns import list_marks, warn_of_look_alikes
from hybridbn.tables.formats.base import OtherKind
from hybridbn.tables.formats.files import open_scratch
from hybridbn.tables.frames.arrow import is_text, kind_of_type
from hybridbn.tables.rows import CountColumns, Item, Result, Rows, RowSample, hash_numbers, refuse_no_value
from hybridbn.variables import Continuous, Discrete, Values, Variable, find_unused_name, shorten

pyarrow: LazyModule = LazyModule("pyarrow")

_LISTED = ("text", "integer", "float", "bool", "date")
"""Kinds of states that are the same in Python and in a dictionary of Arrow."""


@dataclass
class Passes:
    """The passes over the rows of a scan that were made, and what they told."""

    source: Source
    backend: Backend
    kinds: Mapping[str, str]
    declared: frozenset[str]
    weights: str | None
    names: tuple[str, ...]
    most_states: int
    sample_rows: int
    ordered: frozenset[str] = frozenset()
    families: dict[tuple[str, ...], None] = field(default_factory=dict)
    count: CountColumns | None = None
    made: int = 0
    remembered: dict[Any, Any] = field(default_factory=dict)

    def derive(self, **changes: Any) -> Passes:
        """Return the passes over other rows or columns, of which none has been made."""
        return replace(self, **{"families": {}, "count": None, "made": 0, "remembered": {}, **changes})

    def learn(self, task: Task) -> Any:
        """Make a pass, and return its statistics."""
        self.made += 1
        return self.backend.learn(task, self.source)

    @functools.cached_property
    def profile(self) -> Profile:
        """What the first pass tells; it is repeated where the columns turn out to be others than their first cells
        told.
        """
        self.source.prepare(self.names)
        while True:
            try:
                task = self._make_profile_task()
                profile: Profile = self.learn(task) or task.learn_rows([])
            except OtherKind as error:
                self.source.settle([error.name], error.fault)
                continue
            if not self.source.settle_texts(self._list_texts(profile)):
                break
        faults = {name: ColumnTally(fault=fault) for name, fault in self.source.faults.items()}
        profile = replace(profile, columns={**profile.columns, **faults})
        if self.weights is not None and profile.rows and not 0 < profile.weight < np.inf:
            raise TableError(f"the weights sum to {profile.weight}; at least one must be positive, and the sum finite")
        return profile

    def _make_profile_task(self) -> ProfileTask:
        wanted = {*self.names, *([] if self.weights is None else [self.weights])}
        schema = pyarrow.schema([one for one in self.source.schema if one.name in wanted])
        kinds = {name: kind for name, kind in self.kinds.items() if name in wanted}
        if self.weights is not None:
            kinds[self.weights] = "continuous"
        units = {name: unit for name, unit in self.source.units.items() if name in wanted}
        return ProfileTask(schema, kinds, self.weights, tuple(self.families), units, self.count)

    def _list_texts(self, profile: Profile) -> dict[str, Sequence[str] | None]:
        """Return the texts of columns of text, None where they are too many to be listed."""
        return {
            name: None if tally.lost else list(map(str, tally.counts))
            for name, tally in profile.columns.items()
            if tally.counts is not None and is_text(self.source.schema.field(name).type)
        }

    @functools.cached_property
    def offsets(self) -> dict[int, int]:
        """How many rows come before those of each file, by its number."""
        ends = dict(sorted((self.profile.ends or self.source.ends()).items()))
        return dict(zip(ends, itertools.accumulate(ends.values(), initial=0), strict=False))

    @functools.cached_property
    def variables(self) -> dict[str, Variable]:
        """The variable of each column that can be used."""
        variables: dict[str, Variable] = {}
        if not self.profile.rows:
            read = self.source.read().drop(self.source.faults)
            return {name: read.variable(name) for name in read.names if read.cells(name).states != ()}
        for name in self.names:
            tally, kind = self.profile.columns[name], self.source.schema.field(name).type
            is_told = name not in self.source.untyped and not pyarrow.types.is_null(kind)
            is_told = is_told or tally.missing < self.profile.rows or self.kinds.get(name) == "continuous"
            if tally.fault is None and is_told:
                note = {} if name in self.declared else self.source.notes.get(name, {})
                declared = self.kinds.get(name) if name in self.declared else None
                variable = make_variable(name, tally, kind, declared, note, self.most_states)
                if variable is not None:
                    variables[name] = variable
        states = {name: one.states for name, one in variables.items() if isinstance(one, Discrete)}
        warn_of_look_alikes(states.items())
        cut = [name for name, own in states.items() if own[-1:] == (REST,)]
        if cut:
            warn_user(
                f"columns of more than {self.most_states:,} states keep the most frequent ones, and '(other)' stands"
                f" for the rest: {shorten(cut)}",
            )
        return variables

    @functools.cached_property
    def sample(self) -> Table:
        """A sample of the rows, all of them where these are few."""
        variables = list(self.variables.values())
        if not self.profile.rows:
            return Table.from_arrays(variables, {one.name: np.zeros(0) for one in variables})
        task = SampleTask(BatchReader(variables, self.weights), self.offsets, self.sample_rows, self.profile.rows)
        rows = self.learn(task).finish(self.sample_rows)
        table = Table.from_arrays(variables, rows.columns)
        return table if rows.weights is None else table.with_weights(rows.weights)


class NeedsAllRows(TableError, AttributeError):
    """An attribute of tables in memory that a scan does not have."""


class Scan(Rows):
    """Rows that a backend reads in passes, batch by batch; `scan` makes one.

    It answers what learners ask of all rows from one pass, and counts and moments from others. What needs the rows
    themselves is learned from a sample, with a warning.

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"x": [1.0, 2.0, 4.0], "c": ["a", "b", "b"]})
    >>> len(scan), scan.value_range("x"), scan.variable("c").states
    (3, (1.0, 4.0), ('a', 'b'))
    """

    passes: Passes

    def __init__(
        self,
        passes: Passes,
        names: Iterable[str],
        given: Mapping[str, Variable] | None = None,
        kept: frozenset[str] = frozenset(),
    ) -> None:
        self.passes, self._kept = passes, kept
        self._given = dict(given or {})
        self._chosen = tuple(names)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_") or not hasattr(Table, name):
            raise AttributeError(f"a scan has no attribute {name!r}")
        raise NeedsAllRows(
            f"a scan has no {name!r}, which needs all rows in memory: scan.sample(100_000) has it, and so has"
            " hybridbn.read_table"
        )

    # -- columns ----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order; no pass is made for them."""
        return self._chosen

    def variable(self, name: str) -> Variable:
        """Return a column's variable."""
        self._require_column(name)
        variable = self._given.get(name) or self.passes.variables.get(name)
        if variable is None:
            raise self.passes.profile.columns[name].fault or refuse_no_value(name)
        return variable

    # -- all rows together ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.passes.profile.rows

    @property
    def weighted(self) -> bool:
        """Whether a column of weights was named."""
        return self.passes.weights is not None

    @property
    def total_weight(self) -> float:
        """The weight of all rows."""
        return self.passes.profile.weight

    def count_missing(self, name: str) -> int:
        """Return the number of missing cells of a column."""
        self._require_column(name)
        return self.passes.profile.columns[name].missing

    def value_range(self, name: str) -> tuple[float, float]:
        """Return the least and the greatest number of a column."""
        variable, tally = self.variable(name), self.passes.profile.columns[name]
        if tally.counts is not None and isinstance(variable, Continuous):  # dates in text
            days = Table({name: list(tally.counts)}, variables=[variable]).column(name)
            return float(days.min()), float(days.max())
        return tally.low, tally.high

    def is_integer(self, name: str) -> bool:
        """Return whether all numbers of a column are of an integer type, or are written as whole numbers."""
        return self.passes.profile.columns[name].integer

    def lists_states(self, name: str) -> bool:
        """Return whether the type of a column lists its states."""
        kind = self.passes.source.schema.field(name).type
        is_noted = name not in self.passes.declared and self.passes.source.notes.get(name, {}).get("declared", False)
        return bool(is_noted or pyarrow.types.is_dictionary(kind) or pyarrow.types.is_boolean(kind))

    def is_ordered(self, name: str) -> bool | None:
        """Return whether a column was declared to be one of ordered codes, or of no codes; None where it was not."""
        return name in self.passes.ordered or (False if name in self.passes.declared else None)

    @property
    def kept(self) -> frozenset[str]:
        """The columns that are learned from whatever they are."""
        return self._kept.union(n for n in self.passes.declared if self.passes.kinds[n] == "continuous")

    def keep_columns(self, names: Iterable[str]) -> Scan:
        """Return the scan with columns that are learned from whatever they are."""
        return Scan(self.passes, self._chosen, self._given, self._kept.union(names))

    def count_states(self, name: str) -> Values:
        """Return how many rows have which state of a discrete column; rare ones perhaps fewer than they do."""
        variable, counts = self.variable(name), self.passes.profile.columns[name].counts or {}
        return np.array([counts.get(state, 0) for state in getattr(variable, "states", ())], dtype=np.float64)

    def count_families(
        self, families: Sequence[tuple[str, ...]], variables: Mapping[str, Variable]
    ) -> dict[tuple[str, ...], Values]:
        """Return joint counts that the first pass told, or that the engine of the data counts by itself."""
        passes, told = self.passes, dict[tuple[str, ...], Values]()
        if "profile" in vars(passes):
            tables = {names: passes.profile.table(names, variables) for names in families}
            told = {names: table for names, table in tables.items() if table is not None}
        others = [names for names in families if names not in told]
        return told | (passes.source.count(others, variables, passes.weights) if others else {})

    @property
    def remembered(self) -> dict[Any, Any]:
        """What was computed of these rows before."""
        return self.passes.remembered

    def declare(self, *, missing: Marks = None, **kinds: Unpack[KindKeywords]) -> Scan:
        """Return the scan with cells missing that hold marks; refuse what belongs to where the scan is made."""
        if given := list_given(cast(ColumnKeywords, kinds)):
            raise TableError(f"say what the columns are where the scan is made: hb.scan(data, {given[0]}=...)")
        listed = {} if missing is None else list_marks(missing, self.names)
        marks = {name: own for name, own in listed.items() if own}
        return self._transform(partial(blank_marks, marks=marks)) if marks else self

    def read_usable(self) -> tuple[Scan, dict[str, str]]:
        """Return the scan with those columns that something can be computed with, and why others are left out."""
        rows, tallies = len(self), self.passes.profile.columns
        reasons = {
            name: "no value" if (fault := tallies[name].fault) is None else fault.reason
            for name in self._chosen
            if name not in self._given and (tallies[name].fault is not None or 0 < tallies[name].missing == rows)
        }
        return (self.drop(reasons) if reasons else self), reasons

    # -- other scans ----------------------------------------------------------------------------------------------

    def select(self, names: Iterable[str]) -> Scan:
        """Return the scan with some of its columns."""
        selected = [names] if isinstance(names, str) else list(names)
        for name in selected:
            self._require_column(name)
        return Scan(self.passes, selected, self._given, self._kept)

    def with_variables(self, variables: Iterable[Variable]) -> Scan:
        """Return the scan with its columns read as these variables; others are left out."""
        known = {variable.name: variable for variable in variables}
        return Scan(self.passes, [name for name in known if name in self._chosen], known, self._kept)

    def with_weights(self, weights: Any) -> Scan:
        """Return the scan with the weights of another column, or without any."""
        if weights is not None and (not isinstance(weights, str) or weights not in self.passes.source.schema.names):
            raise TableError("the weights of a scan are one of its columns: give its name")
        if weights == self.passes.weights:
            return self
        names = tuple(name for name in self.passes.source.schema.names if name != weights and name in self.passes.names)
        chosen = [name for name in self._chosen if name != weights]
        return Scan(self.passes.derive(weights=weights, names=names), chosen, self._given, self._kept)

    # -- rows -----------------------------------------------------------------------------------------------------

    def sample(self, rows: int | None = None, purpose: str | None = None) -> Table:
        """Return a sample of the rows as a table in memory: those whose numbers have the smallest hashes.

        Parameters
        ----------
        rows : int, optional
            By default that of `scan`.
        purpose : str, optional
            What is learned from the sample, in words of a warning that is given where it is not all rows.
        """
        passes = self.passes
        if rows is not None and rows != passes.sample_rows:
            passes = copy.copy(passes)
            passes.sample_rows = rows
            vars(passes).pop("sample", None)
        names = [name for name in self._chosen if name in passes.variables]
        table = passes.sample.select(names)
        if self._given:
            table = table.with_variables([self.variable(name) for name in names])
        table = table.keep_columns(self.kept)
        if purpose is not None and len(table) < len(self):
            warn_user(
                f"{purpose} are learned from a sample of {len(table):,} of {len(self):,} rows; scan(..., sample=n)"
                " takes more",
            )
        return table

    def learn(self, task: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None) -> Result:
        """Return the sum of what a task learns of each batch, added up where the backend reads them."""
        summed: Result = self.passes.learn(self._make_task(task, variables))
        return summed

    def answer(
        self, task: Callable[[Table, int], Result], variables: Sequence[Variable] | None = None
    ) -> Iterator[Result]:
        """Yield what a task makes of each batch, computed where the backend reads them."""
        yield from self.passes.backend.answer(self._make_task(task, variables), self.passes.source)

    def answer_when_asked(self, answer: Callable[[Table], Result], postpone: Callable[[Scan], Result]) -> Result:
        """Return an answer that goes through the batches when it is asked."""
        return postpone(self)

    def _make_task(self, task: Callable[[Table, int], Any], variables: Sequence[Variable] | None) -> Task:
        wanted = self.variables if variables is None else [one for one in variables if one.name in self._chosen]
        return _TableTask(BatchReader(wanted, self.passes.weights), self.passes.offsets, task)

    def share(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield what a function learns of each item, one by one: passes are shared by the backend."""
        return map(function, items)

    @contextmanager
    def open_notes(self) -> Iterator[str | None]:
        """Open a folder in which tasks note what they computed of a batch, for those who see it."""
        with open_scratch() as folder:
            yield os.fspath(folder)

    def transform(
        self, function: Callable[[int, Any], Any], fields: Sequence[Any] = (), *, keep_observed: bool = False
    ) -> Scan:
        """Return a scan whose batches become others while they are read.

        Parameters
        ----------
        function : callable
            From the place of the first row among all rows and an Arrow table to another Arrow table of the same
            columns; one that can be pickled, where other processes read the rows.
        fields : sequence of pyarrow.Field, optional
            Of the columns to which the function gives another type.
        keep_observed : bool
            Whether the function fills missing cells only; then `write` keeps the others as a file of text spells them.

        Examples
        --------
        >>> import hybridbn as hb
        >>> scan = hb.scan({"x": [1.0, None, 4.0]})
        >>> scan.transform(lambda first, table: table.drop_null().select(table.column_names)).missing
        {'x': 0}
        """
        return self._transform(partial(call_at_place, function, self.passes.offsets), fields, keep_observed)

    def _transform(
        self, function: Callable[[int, Any], Any], fields: Sequence[Any] = (), keep_observed: bool = False
    ) -> Scan:
        return Scan(
            self.passes.derive(source=TransformedSource(self.passes.source, function, fields, keep_observed)),
            self._chosen,
            self._given,
            self._kept,
        )

    def keep_rows(self, variable: Variable, code: int | None = None) -> Scan:
        """Return the rows of positive weight in which a column has a state, given by its code, or any value."""
        return self._transform(partial(keep_rows, reader=BatchReader([variable], self.passes.weights), code=code))

    def fill_holes(self, function: Callable[[Table, int], Mapping[str, NDArray[Any]]]) -> Scan:
        """Return the scan with its missing cells filled by a function of the rows, while they are read."""
        read = [self.variable(name) for name in self._chosen]
        holes = {one.name for one in read if isinstance(one, Continuous) and self.missing[one.name]}
        # what fills a hole lies between integers
        floats = [
            one.with_type(pyarrow.float64())
            for one in self.passes.source.schema
            if one.name in holes and pyarrow.types.is_integer(one.type)
        ]
        task = partial(fill_holes, reader=BatchReader(read, self.passes.weights), function=function, floats=floats)
        filled = self.transform(task, floats, keep_observed=True)
        return Scan(filled.passes, self._chosen, {variable.name: variable for variable in read}, self._kept)

    def expand(self, variable: Discrete, assign: Callable[[Table], Values]) -> Scan:
        """Return the scan with each row repeated for the states of a further column, and weighted by their shares."""
        weights = self._name_weights(variable.name)
        added = [pyarrow.field(variable.name, pyarrow.string()), pyarrow.field(weights, pyarrow.float64())]
        return self._add_columns(partial(expand_rows, variable=variable, assign=assign), added, (variable,))

    def weigh_rows(self, function: Callable[[Table, int], Values]) -> Scan:
        """Return the scan with weights that are a function of the rows, while they are read."""
        added = [pyarrow.field(self._name_weights("rows"), pyarrow.float64())]
        return self._add_columns(partial(weigh_rows, function=function, offsets=self.passes.offsets), added)

    def _name_weights(self, of: str) -> str:
        return find_unused_name(f"weight of {of}", self.passes.source.schema.names, "'")

    def _add_columns(self, make: Callable[..., Any], added: list[Any], variables: tuple[Discrete, ...] = ()) -> Scan:
        """Return the scan with columns of variables and, at last, of weights."""
        old, read = self.passes, [self.variable(name) for name in self._chosen]
        source = TransformedSource(old.source, partial(make, reader=BatchReader(read, old.weights), added=added), added)
        names = (*self._chosen, *(one.name for one in variables))
        passes = old.derive(
            source=source,
            kinds={**old.kinds, **{one.name: "discrete" for one in variables}},
            declared=old.declared | {one.name for one in variables},
            weights=added[-1].name,
            names=names,
        )
        return Scan(passes, names, {one.name: one for one in (*read, *variables)}, self._kept)

    def batches(self) -> Iterator[Any]:
        """Yield the rows as Arrow record batches, in their order.

        Examples
        --------
        >>> import hybridbn as hb
        >>> [batch.num_rows for batch in hb.scan({"x": [1.0, 2.0]}).batches()]
        [2]
        """
        columns = [*self._chosen, *([] if self.passes.weights is None else [self.passes.weights])]
        for name in self.passes.source.faults.keys() & columns:
            raise self.passes.source.faults[name]
        _ = self.passes.profile  # which refuses what is wrong before any row is given
        yield from self.passes.backend.answer(_ReadTask(columns), self.passes.source)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False, **options: Any) -> None:
        """Write the rows to a Parquet, Feather or CSV file, batch by batch; it appears complete or not at all.

        Of a file of text that is written in its own format, observed cells stay as they are spelled there.

        Examples
        --------
        >>> import tempfile, hybridbn as hb
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     hb.scan({"x": [1.0, 2.0]}).write(f"{folder}/t.parquet")
        ...     len(hb.scan(f"{folder}/t.parquet"))
        2
        """
        source = self.passes.source
        origin = source.open if tuple(source.schema.names) == self._chosen and self.passes.weights is None else None
        write_batches(self.batches(), path, overwrite, origin, self._list_states(), **options)

    def _list_states(self) -> dict[str, Iterable[Any]]:
        """Return the states of columns of dictionaries, those that no row has included; without columns of too many."""
        states: dict[str, Iterable[Any]] = {}
        for name, tally in self.passes.profile.columns.items():
            known = self._given.get(name) or self.passes.variables.get(name)
            listed = known.states if isinstance(known, Discrete) and known.cuts is None else ()
            kind = kind_of_type(self.passes.source.schema.field(name).type)
            if tally.counts is not None and REST not in listed and kind in _LISTED:
                states[name] = dict.fromkeys([*listed, *tally.counts])
        return states

    # -- counts -----------------------------------------------------------------------------------------------------

    def expect(self, target: str | None, count: CountColumns) -> None:
        """Note what the first pass may count besides."""
        if target is not None and target in self._chosen and "profile" not in vars(self.passes):
            self.passes.count = count
            others = (name for name in self._chosen if name != target)
            self.passes.families |= dict.fromkeys([(target,), *((target, name) for name in others)])


@dataclass(frozen=True)
class _ReadTask(Task):
    """Gives the rows themselves."""

    columns: Sequence[str]

    def learn(self, batch: Batch) -> Any:
        """Return the batch, its columns in order."""
        return batch.data.select(list(self.columns))


@dataclass(frozen=True)
class _ReaderTask(Task):
    """Reads batches as variables.

    Attributes
    ----------
    reader : BatchReader
    offsets : mapping from int to int
        How many rows come before those of each file, so that rows have the same places however they are put into files.
    """

    reader: BatchReader
    offsets: Mapping[int, int]

    @property
    def columns(self) -> Sequence[str]:  # type: ignore[override]
        """The columns that are read."""
        return self.reader.columns


@dataclass(frozen=True)
class _TableTask(_ReaderTask):
    """Applies a function to each batch as a table, and to the place of its first row among all rows."""

    function: Callable[[Table, int], Any]

    def learn(self, batch: Batch) -> Any:
        """Return the function of a batch."""
        return self.function(self.reader.table(batch), find_place(batch.first, self.offsets))


@dataclass(frozen=True)
class SampleTask(_ReaderTask):
    """Takes the rows whose numbers have the smallest hashes (bottom-k sampling).

    Attributes
    ----------
    most : int
        The size of the sample.
    rows : int
        The number of all rows.
    """

    most: int
    rows: int

    def learn(self, batch: Batch) -> RowSample:
        """Return the rows of a batch that may be in the sample."""
        first = find_place(batch.first, self.offsets)
        numbers = np.arange(first, first + batch.data.num_rows, dtype=np.uint64)
        # a few more than wanted, so that there are enough
        share = (self.most + 8 * math.sqrt(self.most) + 8) / self.rows
        chosen = np.flatnonzero(hash_numbers(numbers) <= np.uint64(min(share, 1) * (2**64 - 2**11)))
        if share >= 1:
            chosen = np.arange(len(numbers))
        data = batch.data.take(chosen)
        columns, weights = self.reader.read(Batch(batch.first, data))
        return RowSample(numbers[chosen], columns, weights)
