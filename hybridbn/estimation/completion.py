"""Completing the rows of a table from a network: by draws, by expectations, or by what is most probable.

A row is completed by itself: neither other rows nor the blocks in which rows are computed matter. Each missing cell has
a uniform random number of its own, which says at what level of its distribution it is drawn.

Random numbers belong to a row: they depend on what the row holds, and not on where it stands or on its mates. A row's
key is a hash of its observed cells; the second, third, ... row with the very same cells gets a key of its own. A number
is then a hash of the key, the seed and the column (a counter-based generator after SplitMix64), so any cell's number
can be had without those before it.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError, renumber_rows
from hybridbn.inference.evidence import Evidence, EvidenceReader, Finding, Interval
from hybridbn.inference.most_probable import most_probable
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior, Posterior
from hybridbn.inference.queries import posteriors
from hybridbn.inference.sampling import ConditionalGaussian, conditional_gaussian, draw, draw_jointly
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Rows, Table
from hybridbn.tables.rows import STEP, mix_bits
from hybridbn.variables import Codes, Discrete, Values

Bounds: TypeAlias = Mapping[str, tuple[float, float]]
"""For columns of numbers the least and the greatest one."""
Orders: TypeAlias = Sequence[tuple[str, str]]
"""Pairs of columns of numbers, the first of which is never greater than the second."""

_NUMBERS = 2_000_000
"""The largest array has about this many numbers: one for each row and state of a block."""
_FEWEST_ROWS, _MOST_ROWS = 100, 1 << 15
"""Blocks have at least so many rows; those of more would leave threads without work."""
_ATTEMPTS = 50
"""Rows that break a bound are drawn again this often before the bound is made part of the draw."""
_OWN_NUMBER = -1
"""The number of the attempt at which the levels of observed numbers in an interval are asked for."""
_BlockWork: TypeAlias = Callable[["Completion", Table, NDArray[np.intp]], Mapping[str, NDArray[Any]]]
"""From a completion, some rows and their numbers to whole columns of these rows."""


@dataclass(frozen=True, eq=False)
class Completion:
    """A network, and what completing rows from it has to respect.

    Attributes
    ----------
    network : Network
    options : Options
    observed : mapping from column to ndarray
        Sorted observed numbers of the columns that the network sees in intervals.
    bounds : mapping from column to (low, high)
        Of what fills numbers.
    supports : mapping from column to (low, high)
        Where draws lie if they can: the model has no probability for it, as it has for bounds.
    orders : sequence of (str, str)
        Pairs of columns; drawn numbers of the first are not greater than those of the second, if they can.
    copies : int
        So many copies of a row are in memory while its cells are expected given levels.
    """

    network: Network
    options: Options
    observed: Mapping[str, Values] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)
    supports: Bounds = field(default_factory=dict)
    orders: Orders = ()
    copies: ClassVar[int] = 1

    @classmethod
    def of(cls, network: Network, table: Table, options: Options) -> Self:
        """Return what completes rows with the observed numbers of a table, where the network sees these in
        intervals.
        """
        return cls(network, options, collect_observed_numbers(table, network))

    @cached_property
    def closed(self) -> ConditionalGaussian | None:
        """The network in a form with faster joint draws, where it has one."""
        return conditional_gaussian(self.network)

    # -- completing -----------------------------------------------------------------------------------------------

    def draw(self, table: Table, levels: Levels) -> Cells:
        """Draw all missing cells of a row together from their joint posterior given the observed ones.

        Numbers are drawn within the bounds: by drawing again, which is exact; where that takes too long, by Gibbs
        sampling or by making the bounds evidence.

        Parameters
        ----------
        levels : callable
            From an attempt and row numbers to a uniform number for each name and row.
        """
        return self._complete(table, partial(type(self)._draw_block, levels=levels))

    def draw_separately(self, table: Table, levels: Levels, skip: str | None = None) -> Cells:
        """Draw each missing cell from its own posterior given the observed ones, whatever the row's other holes get.

        Joint draws keep how the cells of a row depend on each other; these do not.
        """
        table = table.select([name for name in table.names if name in self.network])
        holes, cells = find_holes(table), {name: table.column(name) for name in table.names}
        evidence = EvidenceReader(self.network, table).evidence(table.names)
        for name, missing in holes.items():
            if name == skip:
                continue
            rows = np.flatnonzero(missing)
            level = levels(0, rows)[name]
            column = np.array(cells[name])
            for part in self._split_by_blanket(name, rows, table, holes):
                known, variables = evidence.take(rows[part], len(part)), [self.network.variable(name)]
                with renumber_rows(rows[part], _describe_impossible):
                    drawn = draw_jointly(self.network, variables, known, level[None, part], self.options)
                column[rows[part]] = self.translate_to_table(table, name, drawn[name], level[part])
            cells[name] = column
        return cells

    def expect(self, table: Table, levels: Levels | None = None) -> Cells:
        """Fill in the expectation of each missing number, and the most probable state of each missing discrete cell."""
        return self.choose_expected(table, self.expectations(table, levels))

    def expectations(self, table: Table, levels: Levels | None = None) -> dict[str, Values]:
        """Return what is expected of each missing cell: numbers (rows,), or probabilities (rows, states) of the table's
        own states; nothing of observed cells.

        Parameters
        ----------
        levels : callable, optional
            Uniform numbers as in `draw`, for completions that expect cells given draws of others.
        """
        table = table.select([name for name in table.names if name in self.network])
        expected: dict[str, Values] = {}
        work = partial(type(self)._expect_block, levels=levels)
        for part, own in self._run_blocks(table, work, 1 if levels is None else self.copies):
            for name, values in own.items():
                whole = expected.setdefault(name, np.zeros((len(table), *values.shape[1:])))
                whole[part] = values
        return expected

    def choose_expected(self, table: Table, expected: Mapping[str, Values]) -> Cells:
        """Return the network's columns with the holes filled by expected numbers and most probable states."""
        cells = {name: table.column(name) for name in table.names if name in self.network}
        for name, holes in find_holes(table).items():
            if name in expected:
                values = expected[name]
                cells[name] = np.where(holes, values if values.ndim == 1 else values.argmax(axis=1), cells[name])
        return cells

    def find_most_probable(self, table: Table) -> Cells:
        """Fill in the most probable completion of each row, all its missing cells taken together."""
        return self._complete(table, type(self)._most_probable_block)

    def posteriors(
        self, table: Table, rows: NDArray[np.intp] | None = None
    ) -> dict[str, DiscretePosterior | ContinuousPosterior]:
        """Return the posterior of each column of the network with holes, in every row; `rows` are their numbers for
        messages.
        """
        holes = find_holes(table)
        if not any(name in self.network for name in holes):
            return {}
        with renumber_rows(np.arange(len(table)) if rows is None else rows, _describe_impossible):
            return posteriors(self.network, self._make_bounded_evidence(table, holes), None, self.options)

    def expectation(self, table: Table, posterior: Posterior) -> Values:
        """Return what is expected of a column: numbers (rows,), or probabilities (rows, states) of the table's own
        states. Where a density has no mean, its median is expected.
        """
        if not isinstance(posterior, DiscretePosterior):
            mean = np.asarray(posterior.mean())
            if not np.isnan(mean).any():
                return mean
            with np.errstate(invalid="ignore"):  # a fault of the density is told where its values are used
                return np.where(np.isnan(mean), posterior.median(), mean)
        return self._translate_probabilities(table, posterior.variable, posterior.probabilities)

    def _translate_probabilities(self, table: Table, variable: Discrete, probabilities: Values) -> Values:
        own = table.variable(variable.name)
        if not isinstance(own, Discrete):
            return np.asarray(probabilities @ self._numbers_of(variable).means())
        if own.states == variable.states:
            return probabilities
        result = np.zeros((len(probabilities), len(own)))
        result[:, [own.code(state) for state in variable.states]] = probabilities
        return result

    # -- blocks of rows -------------------------------------------------------------------------------------------

    def _complete(self, table: Table, fill: _BlockWork) -> Cells:
        """Return the network's columns with the holes filled, block by block of rows that bound the memory."""
        table = table.select([name for name in table.names if name in self.network])
        holes = find_holes(table)
        cells = {name: np.array(table.column(name)) if name in holes else table.column(name) for name in table.names}
        for part, filled in self._run_blocks(table, fill):
            for name in holes:
                cells[name][part] = filled[name]
        return cells

    def _run_blocks(
        self, table: Table, work: _BlockWork, copies: int = 1
    ) -> Iterator[tuple[NDArray[np.intp], Mapping[str, NDArray[Any]]]]:
        """Yield the numbers of incomplete rows, in blocks that bound the memory even if rows are copied, and what work
        on each block returns.

        Several blocks are shared among threads; what a row gets depends on neither.
        """
        rows = find_open_rows(table)
        width = sum(len(getattr(self.network.variable(name), "states", ())) + 1 for name in self.network)
        count = -(-len(rows) // min(max(_NUMBERS // max(width * copies, 1), _FEWEST_ROWS), _MOST_ROWS))
        parts = [rows[len(rows) * i // count : len(rows) * (i + 1) // count] for i in range(count)]
        shared = len(parts) > 1 and self.options.jobs > 1
        # in closed form a block is made of questions that are too small to be shared
        alone = self.options.jobs > 1 and (shared or self.closed is not None)
        own = replace(self, options=replace(self.options, n_jobs=None)) if alone else self

        def answer(part: NDArray[np.intp]) -> tuple[NDArray[np.intp], Mapping[str, NDArray[Any]]]:
            return part, work(own, table.take(part), part)

        yield from run_in_threads(answer, parts, self.options.jobs if shared else 1)

    def _draw_block(self, table: Table, rows: NDArray[np.intp], levels: Levels) -> Cells:
        values = self._draw_within_bounds(EvidenceReader(self.network, table).evidence(table.names), rows, levels)
        binned = (
            isinstance(self.network.variable(name), Discrete) and not table.is_discrete(name)
            for name in find_holes(table)
        )
        return self._fill_block(table, values, levels(_OWN_NUMBER, rows) if any(binned) else {})

    def _fill_block(self, table: Table, values: Mapping[str, NDArray[Any]], levels: Mapping[str, Values]) -> Cells:
        """Fill holes by the network's codes and numbers; levels choose among observed numbers in an interval."""
        cells: Cells = {name: table.column(name) for name in table.names}
        for name, missing in find_holes(table).items():
            level = levels[name] if name in levels else np.full(len(table), 0.5)
            cells[name] = np.where(missing, self.translate_to_table(table, name, values[name], level), cells[name])
        return cells

    def _expect_block(self, table: Table, rows: NDArray[np.intp], levels: Levels | None) -> dict[str, Values]:
        holes = find_holes(table)
        if self.closed is None or holes.keys() & self.bounds.keys():
            return {
                name: self.expectation(table, posterior) for name, posterior in self.posteriors(table, rows).items()
            }
        evidence = EvidenceReader(self.network, table).evidence(table.names)
        with renumber_rows(rows, _describe_impossible):
            expected = self.closed.expect(evidence, [name for name in holes if name in self.network], self.options)
        return {
            name: self._translate_probabilities(table, variable, expected[name])
            if isinstance(variable := self.network.variable(name), Discrete)
            else expected[name]
            for name in holes
            if name in expected
        }

    def _most_probable_block(self, table: Table, rows: NDArray[np.intp]) -> Cells:
        holes = find_holes(table)
        with renumber_rows(rows, _describe_impossible):
            evidence = self._make_bounded_evidence(table, holes)
            completed = Table(most_probable(self.network, evidence, None, self.options))
        return self._fill_block(table, {name: completed.coded(self.network.variable(name)) for name in holes}, {})

    # -- draws within bounds --------------------------------------------------------------------------------------

    def _draw_within_bounds(self, evidence: Evidence, rows: NDArray[np.intp], levels: Levels) -> Cells:
        """Draw the network's variables in every row, as codes or numbers of its own."""
        bounds = {name: ends for name, ends in {**self.supports, **self.bounds}.items() if name in self.network}
        cells = {name: np.array(values) for name, values in self._draw_all(evidence, rows, levels(0, rows)).items()}
        pending = _find_rows_out_of_bounds(cells, evidence, bounds, self.orders, np.arange(len(rows)))
        attempt = 1
        while len(pending) and attempt < _ATTEMPTS:
            part = evidence.take(pending, len(pending))
            _put(cells, pending, self._draw_all(part, rows[pending], levels(attempt, rows[pending])))
            pending = _find_rows_out_of_bounds(cells, evidence, bounds, self.orders, pending)
            attempt += 1
        if self.closed is None:
            bounds = {name: ends for name, ends in self.bounds.items() if name in self.network}
            pending = _find_rows_out_of_bounds(cells, evidence, bounds, (), pending)
        if len(pending):
            own, part = rows[pending], evidence.take(pending, len(pending))
            if self.closed is None:
                _put(cells, pending, self._draw_given_bounds(part, own, levels, bounds))
            else:
                start = {name: values[pending] for name, values in cells.items()}
                # a truncated normal distribution of several numbers has no closed form
                drawn = self.closed.draw_within(
                    part, start, bounds, self.orders, lambda sweep: dict(levels(_ATTEMPTS + sweep, own)), self.options
                )
                _put(cells, pending, drawn)
        return cells

    def _draw_all(self, evidence: Evidence, rows: NDArray[np.intp], level: Mapping[str, Values]) -> Cells:
        """Draw without regard to bounds."""
        everything = {name: level[name] if name in level else np.full(len(rows), 0.5) for name in self.network}
        with renumber_rows(rows, _describe_impossible):
            if self.closed is not None:
                return dict(self.closed.draw(evidence, everything, self.options))
            return draw(self.network, evidence, np.array([*everything.values()]), self.options)

    def _draw_given_bounds(self, evidence: Evidence, rows: NDArray[np.intp], levels: Levels, bounds: Bounds) -> Cells:
        """Draw given that missing numbers lie within their bounds, as interval evidence."""
        findings = dict(evidence.findings)
        for name, (low, high) in bounds.items():
            missing = _is_missing(evidence, name)
            values = findings[name].values if name in findings else np.full(len(rows), np.nan)
            findings[name] = Finding(
                self.network.variable(name),
                values,
                reach=(np.where(missing, low, -np.inf), np.where(missing, high, np.inf)),
            )
        level = levels(_ATTEMPTS, rows)
        uniforms = np.array([level[name] for name in self.network])
        with renumber_rows(
            rows,
            lambda impossible: (
                f"no value within the bounds {dict(bounds)} is possible in row {impossible[0]} given its observed"
                f" cells ({len(impossible)} such rows); widen the bounds"
            ),
        ):
            return draw(self.network, Evidence(findings, len(rows), single=False), uniforms, self.options)

    def _make_bounded_evidence(self, table: Table, holes: Mapping[str, NDArray[np.bool_]]) -> Any:
        """Return the table, with intervals in the missing cells of bounded columns."""
        names = [name for name in table.names if name in self.network]
        bounded = [name for name in self.bounds if name in names and name in holes]
        if not bounded:
            return table.select(names)
        import pandas

        columns: dict[str, Any] = {name: table.raw(name) for name in names}
        for name in bounded:
            columns[name] = np.where(holes[name], Interval(*self.bounds[name]), table.column(name))  # type: ignore[call-overload]
        return pandas.DataFrame(columns)

    # -- one column alone -----------------------------------------------------------------------------------------

    def _split_by_blanket(
        self, name: str, rows: NDArray[np.intp], table: Table, holes: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[NDArray[np.intp]]:
        """Part rows by whether all of a column's Markov blanket is observed, where inference needs no quadrature at
        all.
        """
        whole = np.ones(len(rows), dtype=bool)
        for other in self.network.markov_blanket(name):
            if other not in table:
                whole[:] = False
            elif other in holes:
                whole &= ~holes[other][rows]
        yield from (part for part in (np.flatnonzero(whole), np.flatnonzero(~whole)) if len(part))

    # -- from the network's terms to the table's ------------------------------------------------------------------

    def translate_to_table(self, table: Table, name: str, values: NDArray[Any], level: Values) -> NDArray[Any]:
        """Turn codes or numbers of the network's variable into those of the table's."""
        variable, own = self.network.variable(name), table.variable(name)
        if not isinstance(variable, Discrete):
            return values
        codes = values.astype(np.intp)
        if not isinstance(own, Discrete):
            return self._numbers_of(variable).draw(codes, level)
        if own.states == variable.states:
            return codes
        return np.array([own.code(state) for state in variable.states], dtype=np.intp)[codes]

    def _numbers_of(self, variable: Discrete) -> ObservedNumbers:
        seen = self.observed.get(variable.name, np.zeros(0))
        if not len(seen):
            raise TableError(
                f"column {variable.name!r} has no observed number, and the network knows it in intervals only; impute"
                " it together with rows in which it is observed"
            )
        return ObservedNumbers(seen, np.array(variable.cuts or ()))


def _describe_impossible(rows: Sequence[int]) -> str:
    return (
        f"the observed cells of row {rows[0]} have probability zero under the network ({len(rows)} such rows), so it "
        "doesn't say what is missing there; learn it from data that has such rows, or leave them out"
    )


def _is_missing(evidence: Evidence, name: str) -> NDArray[np.bool_]:
    finding = evidence.finding(name)
    return np.ones(evidence.rows, dtype=bool) if finding is None else ~finding.observed


def _find_rows_out_of_bounds(
    cells: Cells, evidence: Evidence, bounds: Bounds, orders: Orders, rows: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return those of some rows in which a drawn number breaks its bounds, or an order with another one."""
    broken = np.zeros(len(rows), dtype=bool)
    for name, (low, high) in bounds.items():
        values = cells[name][rows]
        broken |= _is_missing(evidence, name)[rows] & ~((values >= low) & (values <= high))
    for lesser, greater in orders:
        drawn = _is_missing(evidence, lesser)[rows] | _is_missing(evidence, greater)[rows]
        broken |= drawn & (cells[lesser][rows] > cells[greater][rows])
    return rows[broken]


def _put(cells: Cells, rows: NDArray[np.intp], values: Mapping[str, NDArray[Any]]) -> None:
    for name, column in values.items():
        cells[name][rows] = column


Cells: TypeAlias = dict[str, NDArray[Any]]
"""Whole columns, as codes or numbers of the table's own variables."""

Keys: TypeAlias = NDArray[np.uint64]

Levels: TypeAlias = Callable[[int, NDArray[np.intp]], Mapping[str, Values]]
"""From an attempt and row numbers to uniform numbers for each name and row."""

_HOLE = np.uint64(0x5851F42D4C957F2D)

_SKIPPED = 1 << 16
"""Numbers that are skipped at a time by generators that can't leap."""


def find_holes(table: Table) -> dict[str, NDArray[np.bool_]]:
    """Return where cells are missing, for each column in which any is.

    Examples
    --------
    >>> find_holes(Table({"x": [1.0, None], "c": ["a", "b"]}))
    {'x': array([False,  True])}
    """
    masks = {name: table.cells(name).missing for name in table.names}
    return {name: missing for name, missing in masks.items() if missing.any()}


def find_open_rows(table: Table) -> NDArray[np.intp]:
    """Return the rows with a missing cell."""
    return np.flatnonzero(np.any([np.zeros(len(table), dtype=bool), *find_holes(table).values()], axis=0))


def collect_observed_numbers(table: Table, network: Network | None = None) -> dict[str, Values]:
    """Return the observed numbers of each number column, sorted; with a network, of those that it sees in intervals."""
    names = [name for name in table.names if not table.is_discrete(name)]
    if network is not None:
        names = [name for name in names if name in network and isinstance(network.variable(name), Discrete)]
    return {name: np.sort(column[~np.isnan(column)]) for name in names for column in [table.column(name)]}


@dataclass(frozen=True)
class RowLevels:
    """Uniform numbers for each row of some columns, as the generator that draws them row by row.

    Attributes
    ----------
    generator : bytes
    names : tuple of str
    """

    generator: bytes
    names: tuple[str, ...]

    @classmethod
    def draw(cls, rng: np.random.Generator, rows: Rows, network: Network | None = None) -> RowLevels:
        """Draw for each column that has holes, and for each hidden node of a network."""
        holes = [name for name in rows.names if rows.count_missing(name)]
        levels = cls(pickle.dumps(rng), (*holes, *(name for name in network or () if name not in rows)))
        _skip_draws(rng, len(rows) * len(levels.names))
        return levels

    def of(self, batch: Table, first: int) -> Levels:
        """Return the numbers of some rows, given the place of the first of them; they are the same for every attempt.

        Examples
        --------
        >>> table = Table({"x": [1.0, None, None]})
        >>> levels, last = RowLevels.draw(np.random.default_rng(0), table), np.arange(1)
        >>> bool(levels.of(table, 0)(0, last + 2)["x"] == levels.of(table.take([2]), 2)(0, last)["x"])
        True
        """
        # of this program's own making
        rng = pickle.loads(self.generator)
        _skip_draws(rng, first * len(self.names))
        levels = dict(zip(self.names, rng.random((len(batch), len(self.names))).T, strict=True))
        return lambda _, rows: {name: values[rows] for name, values in levels.items()}


def _skip_draws(rng: np.random.Generator, count: int) -> None:
    """Let a generator be as if it had drawn so many uniform numbers."""
    if isinstance(rng.bit_generator, np.random.PCG64):
        rng.bit_generator.advance(count)
        return
    for start in range(0, count, _SKIPPED):
        rng.random(min(_SKIPPED, count - start))


def fill_table(table: Table, cells: Mapping[str, NDArray[Any]]) -> Table:
    """Return a table with these columns, where it has holes there, in place of its own."""
    for name in find_holes(table):
        if name in cells:
            table = table.with_array(name, cells[name])
    return table


@dataclass(frozen=True)
class ObservedNumbers:
    """The observed numbers of a column that a network sees in intervals, sorted.

    Examples
    --------
    >>> numbers = ObservedNumbers(np.array([1.0, 2.0, 4.0]), np.array([3.0]))
    >>> numbers.means(), numbers.draw(np.array([1]), np.array([0.5]))
    (array([1.5, 4. ]), array([4.]))
    """

    values: Values
    cuts: Values

    @property
    def _bounds(self) -> Codes:
        inner = np.searchsorted(self.values, self.cuts, side="left")
        return np.concatenate([[0], inner, [len(self.values)]]).astype(np.intp)

    def draw(self, codes: Codes, level: Values) -> Values:
        """Return one of the numbers in each interval; the nearest one where an interval has none."""
        bounds = self._bounds
        low, count = bounds[codes], np.diff(bounds)[codes]
        # digits of the level that the choice of the interval has not used up
        inside = np.modf(level * 1048573.0)[0]
        places = low + np.floor(inside * count).astype(np.intp)
        return np.asarray(self.values[np.minimum(places, len(self.values) - 1)])

    def means(self) -> Values:
        """Return the mean of the numbers in each interval; the nearest one where an interval has none."""
        bounds = self._bounds
        sums = np.concatenate([[0.0], np.cumsum(self.values)])
        count = np.diff(bounds)
        nearest = self.values[np.minimum(bounds[:-1], len(self.values) - 1)]
        return np.where(count > 0, np.diff(sums[bounds]) / np.maximum(count, 1), nearest)


# -- random numbers --------------------------------------------------------------------------------------------------


def hash_rows(table: Table) -> Keys:
    """Return a key for each row, made of its observed cells.

    Neither the order of the columns nor other rows matter, except that of rows with the same cells the first,
    second, ... get different keys.

    Examples
    --------
    >>> table = Table({"x": [1.5, None, 2.5, None], "c": ["a", "b", "a", "b"]})
    >>> keys = hash_rows(table)
    >>> bool(keys[2] == hash_rows(table.take([2]))[0]), bool(keys[1] == keys[3])
    (True, False)
    """
    return tell_apart(hash_cells(table))


def hash_cells(table: Table) -> Keys:
    """Return a hash of each row's observed cells, equal for equal rows."""
    total = np.zeros(len(table), dtype=np.uint64)
    for name in table.names:
        variable, cells = table.variable(name), table.column(name)
        if isinstance(variable, Discrete):
            hashes = np.array(
                [*(_hash_text(f"{type(s).__name__} {s!r}") for s in variable.states), _HOLE], dtype=np.uint64
            )
            bits = hashes[cells]
        else:
            # adding zero makes -0.0 and 0.0 the same
            bits = np.where(np.isnan(cells), _HOLE, (cells + 0.0).view(np.uint64))
        total += mix_bits(bits ^ np.uint64(_hash_text(name)))
    return mix_bits(total)


def hash_identifiers(values: Any, rows: int) -> Keys:
    """Return keys made of the user's identifiers, one a row: whole numbers or text.

    Examples
    --------
    >>> bool((hash_identifiers(np.arange(3), 3) == hash_identifiers([0, 1, 2], 3)).all())
    True
    """
    if isinstance(values, range):
        values = np.array(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.shape == (rows,):
        return tell_apart(mix_bits(values.astype(np.uint64)))
    try:
        listed: Sequence[Any] = values.tolist() if hasattr(values, "tolist") else list(values)
    except TypeError:
        raise TableError(f"keys must be a sequence with an identifier for each row, not {values!r:.60}") from None
    if len(listed) != rows:
        raise TableError(f"there are {len(listed)} keys for {rows} rows; give one a row")
    array = np.array([_hash_identifier(key) for key in listed], dtype=np.uint64)
    return tell_apart(mix_bits(array))


def _hash_identifier(key: Any) -> int:
    # whole numbers stand for themselves, so that arrays of them need no loop
    plain = type(key) is int and -(2**63) <= key < 2**63
    return key % 2**64 if plain else _hash_text(f"{type(key).__name__} {key!r}")


def seed_of(random_state: Any) -> int:
    """Return a seed of 64 bits: of an integer always the same, of a Generator the next one, of None any.

    Examples
    --------
    >>> seed_of(0) == seed_of(0), seed_of(0) == seed_of(1)
    (True, False)
    """
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        high = random_state.integers if isinstance(random_state, np.random.Generator) else random_state.randint
        return int(high(0, 2**62))
    try:
        return int(np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0])
    except (TypeError, ValueError):
        raise TableError(
            f"random_state must be a non-negative integer, a Generator or None, not {random_state!r}"
        ) from None


def draw_uniforms(keys: Keys, names: Iterable[str], seed: int, attempt: int = 0) -> Values:
    """Return uniform numbers strictly between 0 and 1 for each name and row: (names, rows).

    Examples
    --------
    >>> keys = hash_identifiers(range(100_000), 100_000)
    >>> levels = draw_uniforms(keys, ["x", "y"], 0)
    >>> levels.shape, bool(abs(levels.mean() - 0.5) < 0.002), bool(abs(np.corrcoef(levels)[0, 1]) < 0.01)
    ((2, 100000), True, True)
    """
    listed = list(names)
    result = np.empty((len(listed), len(keys)))
    for row, name in enumerate(listed):
        salt = np.uint64(_hash_text(f"{seed} {attempt} {name}"))
        bits = mix_bits(mix_bits(keys ^ salt) + STEP)
        # 52 bits and a half, so that neither 0 nor 1 comes out
        result[row] = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return result


def levels_of(keys: Keys, names: Sequence[str], seed: int) -> Levels:
    """Return the numbers of some rows as draws ask for them."""
    return lambda attempt, rows: dict(zip(names, draw_uniforms(keys[rows], names, seed, attempt), strict=True))


def count_repeats(keys: Keys) -> Keys:
    """Return how many equal keys come before each one.

    Examples
    --------
    >>> count_repeats(np.array([7, 5, 7, 7], dtype=np.uint64)).tolist()
    [0, 0, 1, 2]
    """
    import pandas

    return np.asarray(pandas.Series(keys).groupby(keys, sort=False).cumcount(), dtype=np.uint64)


def tell_apart(keys: Keys, counts: Keys | None = None) -> Keys:
    """Give rows with the same key different ones; the first one keeps its key, whatever follows.

    `counts` tell how many equal keys come before each one, where others do than these.
    """
    before = count_repeats(keys) if counts is None else counts
    return np.where(before > 0, mix_bits(keys + before * STEP), keys)


def _hash_text(text: str) -> int:
    # of the text itself, as Python's own hash differs from one run to the next
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
