"""Counts and moments of a scan: what is not known yet takes one pass, however many tables are asked for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from hybridbn.backends.base import Batch, Task
from hybridbn.backends.batches import BatchReader
from hybridbn.backends.scans import Scan
from hybridbn.errors import TableError
from hybridbn.fitting.counters import NumpyCounter, counter_of
from hybridbn.fitting.counting import Counter, Counts, Groups, Moments, Names, refuse_too_many_cells
from hybridbn.variables import Codes, Discrete, Values, Variable

__all__ = ["CountTask", "ScanCounter", "Tallies"]

_BATCH_CELLS = 1 << 24
"""Most cells of the tables of pairs that one pass counts (128 MiB)."""
_SPARSE_CELLS = 1 << 22
"""Of larger tables only the configurations that occur are counted."""


@dataclass(frozen=True)
class Tallies:
    """The results of several requests, which add up one by one."""

    results: tuple[Any, ...]

    def __add__(self, other: Tallies) -> Tallies:
        return Tallies(tuple(mine + yours for mine, yours in zip(self.results, other.results, strict=True)))


@dataclass(frozen=True)
class Occurring:
    """Configurations that occur, as ascending numbers, and their weights."""

    keys: Codes
    weights: Values

    def __add__(self, other: Occurring) -> Occurring:
        keys, place = np.unique(np.concatenate([self.keys, other.keys]), return_inverse=True)
        weights = np.bincount(place, np.concatenate([self.weights, other.weights]), len(keys))
        return Occurring(keys, weights.astype(float))


@dataclass(frozen=True)
class CountTask(Task):
    """Asks a counter of each batch.

    Attributes
    ----------
    reader : BatchReader
    requests : tuple of (method of `Counter`, arguments)
    incomplete : frozenset of str
        The columns of the whole table that have missing cells.
    """

    reader: BatchReader
    requests: tuple[tuple[str, tuple[Any, ...]], ...]
    incomplete: frozenset[str]

    @property
    def columns(self) -> Sequence[str]:  # type: ignore[override]
        """Those of the reader."""
        return self.reader.columns

    def learn(self, batch: Batch) -> Tallies:
        """Return the answers of a counter of the batch."""
        columns, weights = self.reader.read(batch)
        sizes = {one.name: len(one) for one in self.reader.variables if isinstance(one, Discrete)}
        counter = NumpyCounter(columns, sizes, weights, incomplete=self.incomplete)
        return Tallies(tuple(_ask(counter, method, arguments) for method, arguments in self.requests))


def _ask(counter: NumpyCounter, method: str, arguments: tuple[Any, ...]) -> Any:
    if method == "occurring":
        return Occurring(*counter.occurring(*arguments))
    if method == "holes":
        return counter.count(*arguments, holes=True)
    return getattr(counter, method)(*arguments)


class ScanCounter(Counter):
    """Counts a scan, and remembers small tables and moments, whose margins are known then, too.

    Examples
    --------
    >>> import hybridbn as hb
    >>> scan = hb.scan({"a": ["x", "y", "y"], "b": ["u", "u", None]})
    >>> counter = counter_of(scan, scan.variables)
    >>> counter.pairs(("a", "b"))["a", "b"]
    array([[1.],
           [1.]])
    """

    sizes: Mapping[str, int]

    variables: dict[str, Variable]

    def __init__(self, scan: Scan, variables: Sequence[Variable]) -> None:
        self.scan = scan
        self.variables = {variable.name: variable for variable in variables}
        self.sizes = {name: len(one) for name, one in self.variables.items() if isinstance(one, Discrete)}

    @property
    def incomplete(self) -> frozenset[str]:
        """The columns with missing cells."""
        return frozenset(name for name in self.variables if self.scan.count_missing(name))

    def count(self, families: Iterable[Names], *, holes: bool = False) -> Counts:
        """Count what is not known, in one pass."""
        families = list(families)
        if holes:
            (counts,) = self._ask([("holes", (families,))], families)
            return Counts({names: counts[names] for names in families})
        unknown = [names for names in families if self._find(names) is None]
        if unknown:
            refuse_too_many_cells(sum(math.prod(self.shape(_distinct(names))) for names in unknown), self.sizes)
            (counts,) = self._ask([("count", (list(dict.fromkeys(map(_distinct, unknown))),))], unknown)
            self._remember(counts)
        return Counts({names: self._look_up(names) for names in families})

    def pairs(self, names: Sequence[str], given: Names = ()) -> Counts:
        """Count all pairs in one pass."""
        wanted = [(*given, *pair) for pair in itertools.combinations(names, 2)]
        if any(self._find(family) is None for family in wanted):
            refuse_too_many_cells(sum(math.prod(self.shape(family)) for family in wanted), self.sizes)
            (counts,) = self._ask([("pairs", (tuple(names), tuple(given)))], wanted)
            self._remember(counts)
        return Counts({family: self._look_up(family) for family in wanted})

    def pair_batches(self, names: Sequence[str], given: Names = ()) -> Iterator[Counts]:
        """Count all pairs in one pass if their tables are small together, else in several."""
        wanted = [(*given, *pair) for pair in itertools.combinations(names, 2)]
        if sum(math.prod(self.shape(family)) for family in wanted) <= _BATCH_CELLS:
            yield self.pairs(names, given)
            return
        part: list[Names] = []
        cells = 0
        for family in wanted:
            size = math.prod(self.shape(family))
            if part and cells + size > _BATCH_CELLS:
                yield self._ask([("count", (part,))], part)[0]
                part, cells = [], 0
            part.append(family)
            cells += size
        if part:
            yield self._ask([("count", (part,))], part)[0]

    def occurring(self, names: Names) -> tuple[Codes, Values]:
        """Count the configurations that occur where a table of all would be large."""
        if math.prod(self.shape(names)) <= _SPARSE_CELLS:
            return super().occurring(names)
        (occurring,) = self._ask([("occurring", (names,))], [names])
        return occurring.keys, occurring.weights

    def moments(self, numbers: Names, given: Names = ()) -> Moments:
        """Return moments that are known, or make a pass."""
        known = self._find_moments(numbers, given)
        if known is None:
            (known,) = self._ask([("moments", (numbers, given))], [(*numbers, *given)])
            self._remember_moments(numbers, given, known)
        return known

    def prepare(self, families: Iterable[Names], moments: Iterable[tuple[Names, Names]]) -> None:
        """Learn in one pass what will be asked."""
        unknown = list(dict.fromkeys(_distinct(names) for names in families if self._find(names) is None))
        complete: dict[Names, list[str]] = {}
        requests: list[tuple[str, tuple[Any, ...]]] = []
        for numbers, given in moments:
            if self._find_moments(numbers, given) is not None:
                continue
            if self.incomplete.isdisjoint((*numbers, *given)):
                # from the products of all numbers those of any follow
                complete.setdefault(given, []).extend(numbers)
            else:
                requests.append(("moments", (numbers, given)))
        requests += [("moments", (tuple(dict.fromkeys(listed)), given)) for given, listed in complete.items()]
        if unknown:
            requests.append(("count", (unknown,)))
        if not requests:
            return
        used = [*unknown, *((*request[1][0], *request[1][1]) for request in requests if request[0] == "moments")]
        for (method, arguments), result in zip(requests, self._ask(requests, used), strict=True):
            if method == "count":
                self._remember(result)
            else:
                numbers, given = arguments
                self._remember_moments(numbers, given, result)

    def by_group(self, groups: Groups, families: Sequence[Names]) -> NoReturn:
        """Refused: groups tell of each row; count by group where the rows are read, with `sum_parts`."""
        raise TableError("the rows of a scan are not counted by groups that this process holds")

    # -- passes and what they told --------------------------------------------------------------------------------

    def _ask(self, requests: Sequence[tuple[str, tuple[Any, ...]]], used: Iterable[Names]) -> tuple[Any, ...]:
        names = dict.fromkeys(name for family in used for name in family)
        reader = BatchReader([self.variables[name] for name in names], self.scan.passes.weights)
        task = CountTask(reader, tuple(requests), self.incomplete & names.keys())
        results: tuple[Any, ...] = self.scan.passes.learn(task).results
        return results

    def _remember(self, counts: Counts) -> None:
        tables = self.scan.passes.tables
        for names, table in counts.items():
            tables[frozenset(names)] = tuple(self.variables[name] for name in names), table

    def _find(self, names: Names) -> Values | None:
        """Return a known table of different columns, or a margin of one."""
        distinct = _distinct(names)
        passes = self.scan.passes
        known = passes.tables.get(frozenset(distinct))
        if known is not None and self._are_mine(known[0]):
            order = [variable.name for variable in known[0]]
            return known[1].transpose([order.index(name) for name in distinct])
        if "profile" in vars(passes):
            table = passes.profile.table(distinct, self.variables)
            if table is not None:
                return table
        for variables, table in passes.tables.values():
            order = [variable.name for variable in variables]
            rest = [name for name in order if name not in distinct]
            if len(rest) == 1 == len(order) - len(distinct) and self._are_mine(variables):
                # a row that lacks this cell is not in the table, but is in that of the others
                if self.scan.count_missing(rest[0]):
                    continue
                margin = table.sum(axis=order.index(rest[0]))
                order.remove(rest[0])
                return np.asarray(margin.transpose([order.index(name) for name in distinct]))
        return None

    def _are_mine(self, variables: Iterable[Variable]) -> bool:
        mine = self.variables
        return all(one is mine.get(one.name) or one == mine.get(one.name) for one in variables)

    def _look_up(self, names: Names) -> Values:
        table = self._find(names)
        if table is None:
            raise KeyError(names)
        distinct = _distinct(names)
        if len(distinct) < len(names):
            # a column that is named twice has both cells the same
            spread = np.zeros(self.shape(names))
            places = np.indices(table.shape).reshape(len(distinct), -1)
            spread[tuple(places[distinct.index(name)] for name in names)] = table.reshape(-1)
            return spread
        return np.ascontiguousarray(table)

    def _remember_moments(self, numbers: Names, given: Names, moments: Moments) -> None:
        variables = tuple(self.variables[name] for name in (*numbers, *given))
        self.scan.passes.moments[numbers, given] = variables, moments

    def _find_moments(self, numbers: Names, given: Names) -> Moments | None:
        for (held, by), (variables, moments) in self.scan.passes.moments.items():
            if by != given or not set(numbers) <= set(held):
                continue
            # of the other columns, which this counter may not know, only missing cells matter
            others, columns = set(held) - set(numbers), self.scan.passes.profile.columns
            if not self._are_mine(one for one in variables if one.name not in others):
                continue
            if any(columns[name].missing for name in others):
                continue
            places = [held.index(name) for name in numbers]
            chosen = np.ix_(range(len(moments.weights)), places, places)
            return Moments(moments.total, moments.weights, moments.means[:, places], moments.products[chosen])
        return None


def _distinct(names: Names) -> Names:
    return tuple(dict.fromkeys(names))


@counter_of.register
def _(table: Scan, variables: Iterable[Variable], jobs: int | None = None) -> Counter:
    return ScanCounter(table, tuple(variables))
