"""Rules that the observed numbers of a table keep, and that imputed numbers keep, too.

Of one column: clock times, codes, multiples of a step, and what it can't be below or above. Between columns: totals
that are sums of others, shares that add up to a constant, and one number that is never below another. Clock times are
modeled in minutes, as their hundreds jump; all other rules are kept on the column's own scale. Cells that the observed
ones determine are filled before anything is learned. Draws that break a limit are drawn again by `Completion`, so that
the joint distribution itself keeps it. `Rules.settle` then corrects what rounding has left. Imputed numbers get as many
decimals as the observed numbers of their column usually have.

A rule is found where at least fifty rows show it, all of them keep it, and chance would hardly do that. Chance is what
the columns would do independently of each other, or a column without the rule: a smooth one has minutes above 60, and
multiples of five no more often than every fifth time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import remark
from hybridbn.estimation.completion import Cells, find_holes
from hybridbn.tables import Table
from hybridbn.tables.scales import (
    CHANCE,
    MOST_CODES,
    ROWS,
    SPIKE_SHARE,
    decimals_of,
    find_scale,
)
from hybridbn.variables import Codes, Grid, Values, Variable

_MOST_TOLD = 8
"""The most rules of a kind, and codes of a column, that are told."""
_ANY = (-math.inf, math.inf)
"""The ends of what any number can be."""
_SLACK = 1e-9
"""Sums may differ by this share of their largest number."""

_MOST_COLUMNS = 60
"""Sums and orders are searched among this many columns at most, the first ones."""
_SEARCH_ROWS = 4000
"""Candidates are found in this many rows, and checked in all."""
_WINDOW = 8
"""The most neighboring columns whose sums are tried where few rows are complete."""
_PROBED_ROWS, _FEWEST_PROBED = 400, 10
"""Whether columns add up is looked at in so many rows first, if so many of them are complete there."""
_COEFFICIENT = 0.05
"""A coefficient of a sum lies this close to 1, -1 or 0 before it is rounded to it."""
_NORMAL_CHANCE = 0.02
"""An order counts if differences that are normal would keep it with at most this probability, or if some are zero."""
_HEAP_SHARE = 0.4
"""A column in which so many numbers are multiples of five is heaped."""

Holes = Mapping[str, NDArray[np.bool_]]


class Sum(NamedTuple):
    """A linear equation: numbers times their signs add up to a total; the first one has the sign 1.

    Attributes
    ----------
    names : tuple of str
    signs : tuple of float
    total : float
    """

    names: tuple[str, ...]
    signs: tuple[float, ...]
    total: float

    def __str__(self) -> str:
        left = [name for name, sign in zip(self.names, self.signs, strict=True) if sign > 0]
        right = [name for name, sign in zip(self.names, self.signs, strict=True) if sign < 0]
        if len(left) > 1 and len(right) == 1:
            left, right, total = right, left, -self.total
        else:
            total = self.total
        constant = [f"{total:g}"] if total or not right else []
        return f"{' + '.join(left)} = {' + '.join([*right, *constant])}"


@dataclass(frozen=True, eq=False)
class Rules:
    """What the numbers of a table have in common. All but `clocks` are on the scale of the model.

    Attributes
    ----------
    clocks : tuple of str
        Columns of clock times such as 1745, which are modeled in minutes.
    codes : mapping from column to ndarray
        Columns of a few numbers, each of them observed several times; others are never imputed.
    steps : mapping from column to float
        Columns of multiples of a number.
    supports : mapping from column to (low, high)
        What a column of this kind can't be below or above.
    sums : tuple of Sum
    orders : tuple of (str, str)
        Of each pair the first number is never greater than the second. A pair that follows from others is listed, too.

    Examples
    --------
    >>> rules = Rules(orders=(("came", "left"),), sums=(Sum(("a", "b"), (1.0, 1.0), 100.0),))
    >>> rules.describe()
    'sums: a + b = 100, as ordered: came <= left'
    >>> rules.determine(Table({"a": [30.0, None], "b": [None, 20.0]})).column("b")
    array([70., 20.])
    """

    clocks: tuple[str, ...] = ()
    codes: Mapping[str, Values] = field(default_factory=dict)
    steps: Mapping[str, float] = field(default_factory=dict)
    supports: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    sums: tuple[Sum, ...] = ()
    orders: tuple[tuple[str, str], ...] = ()

    def describe(self) -> str:
        """Return the rules that users are told of, on one line; limits of a single column are not among them."""
        direct = [
            (low, high)
            for low, high in self.orders
            if not any((low, middle) in self.orders and (middle, high) in self.orders for middle, _ in self.orders)
        ]
        kinds = {
            "clock times": list(self.clocks),
            "codes": [f"{name} ({_list_some([f'{v:g}' for v in values])})" for name, values in self.codes.items()],
            "multiples": [f"{name} (of {step:g})" for name, step in self.steps.items() if step != 1],
            "sums": [str(one) for one in self.sums],
            "ordered": [f"{low} <= {high}" for low, high in direct],
        }
        return ", as ".join(f"{kind}: {_list_some(listed)}" for kind, listed in kinds.items() if listed)

    def tell(self) -> None:
        """Warn of what was found, if there is any of it."""
        if description := self.describe():
            remark(
                rules=f"columns are treated as {description}; imputed numbers keep that, unless discrete=[...] makes"
                " codes categories or rules=False forgets it"
            )

    def encode(self, table: Table) -> Table:
        """Return the table on the scale of the model, with the cells that the others determine."""
        for name in self.clocks:
            if name in table:
                table = table.with_array(name, minutes_of(table.column(name)))
        return self.determine(table) if self.sums else table

    def encode_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Return bounds on the scale of the model."""
        return {
            name: tuple(minutes_of(np.clip(ends, 0, 2400)).tolist()) if name in self.clocks else ends
            for name, ends in bounds.items()
        }

    def within(self, bounds: Mapping[str, tuple[float, float]]) -> Self:
        """Return the rules with bounds of the user, which come first: codes and steps that don't fit are dropped."""
        grids = {name: Grid(step, *bounds.get(name, _ANY)) for name, step in self.steps.items()}
        steps = {name: grid.step for name, grid in grids.items() if grid.ends[0] <= grid.ends[1]}
        within = {name: values == np.clip(values, *bounds.get(name, _ANY)) for name, values in self.codes.items()}
        codes = {name: self.codes[name][mask] for name, mask in within.items() if mask.any()}
        return replace(self, codes=codes, steps=steps, supports={**self.supports, **bounds})

    def determine(self, table: Table) -> Table:
        """Return the table with each cell filled that is the only missing one of a sum."""
        columns = {name: np.array(table.column(name)) for one in self.sums for name in one.names if name in table}
        changed = set[str]()
        for _ in range(len(self.sums)):
            before = len(changed)
            for one in self.sums:
                if not all(name in columns for name in one.names):
                    continue
                values = np.array([columns[name] for name in one.names])
                missing = np.isnan(values)
                single = missing.sum(axis=0) == 1
                short = one.total - sum(np.array(one.signs)[:, None] * np.where(missing, 0.0, values))
                for name, sign, own in zip(one.names, one.signs, missing, strict=True):
                    rows = np.flatnonzero(single & own)
                    if len(rows):
                        columns[name][rows] = _round_noise(sign * short[rows])
                        changed.add(name)
            if len(changed) == before:
                break
        for name in changed:
            table = table.with_array(name, columns[name])
        return table

    def limits(self, name: str, columns: Mapping[str, Values]) -> tuple[Values, Values]:
        """Return the least and the greatest number that a column can hold in each row, given the other columns."""
        low, high = (np.full(len(next(iter(columns.values()))), end) for end in self.supports.get(name, _ANY))
        for lesser, greater in self.orders:
            if greater == name and lesser in columns:
                low = np.fmax(low, columns[lesser])
            elif lesser == name and greater in columns:
                high = np.fmin(high, columns[greater])
        return low, high

    def settle_sums(self, table: Table, cells: Cells) -> Cells:
        """Return the drawn cells of a table with sums that are right, for learning from."""
        if not self.sums:
            return cells
        numbers = {
            name: np.asarray(values, dtype=np.float64) for name, values in cells.items() if not table.is_discrete(name)
        }
        return {**cells, **self._correct_sums(numbers, find_holes(table), lambda _, values: values)}

    def settle(self, columns: dict[str, Values], holes: Holes, round_to_grid: Callable[[str, Values], Values]) -> Cells:
        """Return completed columns whose filled holes keep the rules, as far as the observed cells do.

        Parameters
        ----------
        columns : dict from name to ndarray
            Numbers on the scale of the model, rounded or not.
        holes : mapping from column to ndarray of bool
        round_to_grid : callable
            Rounds the numbers of a column.
        """

        def finish(name: str, values: Values) -> Values:
            rounded, codes = round_to_grid(name, values), self.codes.get(name)
            return rounded if codes is None else codes[np.searchsorted((codes[1:] + codes[:-1]) / 2, rounded)]

        binary = {name for one in self.sums if self._is_binary(one) for name in one.names}
        single = columns.keys() & holes.keys() - binary
        settled = columns | {name: np.where(holes[name], finish(name, columns[name]), columns[name]) for name in single}
        settled = self._correct_sums(settled, holes, finish) if self.sums else settled
        return self._correct_orders(settled, holes) if self.orders else settled

    def _is_binary(self, one: Sum) -> bool:
        return all(sign == 1 for sign in one.signs) and all(
            np.array_equal(self.codes.get(name, np.zeros(0)), (0.0, 1.0)) for name in one.names
        )

    def _correct_sums(self, columns: Cells, holes: Holes, finish: Callable[[str, Values], Values]) -> Cells:
        """Return the columns with sums that are right wherever one of their cells was missing."""
        settled = dict(columns)
        fixed: dict[str, NDArray[np.bool_]] = {}
        # a second pass mends what a later sum has changed in an earlier one
        for one in self.sums * min(len(self.sums), 2):
            if not all(name in columns for name in one.names):
                continue
            size = len(columns[one.names[0]])
            free = np.array([holes.get(name, np.zeros(size, dtype=bool)) for name in one.names])
            untouched = free & ~np.array([fixed.get(name, np.zeros(size, dtype=bool)) for name in one.names])
            # cells that an earlier sum has settled are changed only where there are no others
            free = np.where(untouched.any(axis=0), untouched, free)
            rows = np.flatnonzero(free.any(axis=0))
            values = np.array([settled[name][rows] for name in one.names])
            values = (
                _choose_ones(values, free[:, rows], one.total)
                if self._is_binary(one)
                else self._spread(one, values, free[:, rows], columns, finish)
            )
            for name, own, new in zip(one.names, free, values, strict=True):
                settled[name] = np.array(settled[name])
                settled[name][rows] = new
                fixed[name] = fixed.get(name, np.zeros(size, dtype=bool)) | own
        return settled

    def _spread(
        self,
        one: Sum,
        values: Values,
        free: NDArray[np.bool_],
        columns: Cells,
        finish: Callable[[str, Values], Values],
    ) -> Values:
        """Return numbers (names, rows) whose signed sum is right: what is missing goes to the free ones.

        It is spread in proportion to variances, as conditioning independent normal numbers on their sum does; then
        numbers are rounded, and one of them gets what rounding has left.
        """
        signs = np.array(one.signs)[:, None]
        weights = np.array([max(float(np.nanvar(columns[name])), 1e-300) for name in one.names])[:, None]
        weights = weights / weights.max()
        low, high = (np.array([self.supports.get(name, _ANY)[end] for name in one.names])[:, None] for end in (0, 1))
        movable = np.array(free)
        for _ in range(len(one.names)):
            short = one.total - (signs * values).sum(axis=0)
            shares = np.where(movable, weights, 0.0)
            total = shares.sum(axis=0)
            values = values + signs * shares * np.divide(short, total, out=np.zeros_like(short), where=total > 0)
            inside = np.clip(values, low, high)
            movable &= inside == values
            values = np.where(free, inside, values)
        values = np.where(free, [finish(name, own) for name, own in zip(one.names, values, strict=True)], values)
        is_coded = np.array([name in self.codes for name in one.names])[:, None]
        for _ in range(len(one.names)):
            short = one.total - (signs * values).sum(axis=0)
            step = signs * short
            room = np.where(step > 0, high - values, values - low)
            room = np.where(free, np.minimum(room, 1e300) + 1.0, -1.0) / np.where(is_coded, 1e3, 1.0)
            chosen, everywhere = room.argmax(axis=0), np.arange(values.shape[1])
            moved = np.clip(values + step, low, high)[chosen, everywhere]
            scale = _SLACK * np.maximum(np.abs(values).max(axis=0), 1.0)
            values[chosen, everywhere] = np.where(np.abs(short) > scale, moved, values[chosen, everywhere])
        return np.where(free, _round_noise(values), values)

    def _correct_orders(self, columns: Cells, holes: Holes) -> Cells:
        """Return the columns with filled holes between the cells that they must lie between."""
        orders = [(low, high) for low, high in self.orders if low in columns and high in columns]
        settled = dict(columns)
        for low, high in orders:
            for name, other, limit in ((high, low, np.fmax), (low, high, np.fmin)):
                if name in holes:
                    known = ~holes[other] if other in holes else np.ones(len(settled[name]), dtype=bool)
                    settled[name] = np.where(holes[name] & known, limit(settled[name], settled[other]), settled[name])
        # with the pairs that follow from others, a number has its lesser ones before it
        rank = {name: sum(high == name for _, high in orders) for pair in orders for name in pair}
        for low, high in sorted(orders, key=lambda pair: (rank[pair[1]], rank[pair[0]])):
            if low in holes and high in holes:
                both = holes[low] & holes[high]
                settled[high] = np.where(both, np.fmax(settled[high], settled[low]), settled[high])
        return settled

    def to_dict(self) -> dict[str, Any]:
        """Return the content for a file: lists, numbers and arrays."""
        ends = {name: [float(e) if np.isfinite(e) else None for e in pair] for name, pair in self.supports.items()}
        return {
            "clocks": list(self.clocks),
            "codes": [[name, [float(v) for v in values]] for name, values in self.codes.items()],
            "steps": [[name, float(step)] for name, step in self.steps.items()],
            "supports": [[name, *pair] for name, pair in ends.items()],
            "sums": [[list(one.names), list(one.signs), one.total] for one in self.sums],
            "orders": [list(pair) for pair in self.orders],
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what `to_dict` was made of."""
        return cls(
            tuple(content["clocks"]),
            {name: np.array(values, dtype=np.float64) for name, values in content["codes"]},
            {name: float(step) for name, step in content["steps"]},
            {
                name: (-np.inf if low is None else float(low), np.inf if high is None else float(high))
                for name, low, high in content["supports"]
            },
            tuple(Sum(tuple(names), tuple(signs), float(total)) for names, signs, total in content["sums"]),
            tuple((low, high) for low, high in content["orders"]),
        )


def _list_some(texts: Sequence[str]) -> str:
    more = f", ... ({len(texts)} in all)" if len(texts) > _MOST_TOLD else ""
    return ", ".join(texts[:_MOST_TOLD]) + more


def minutes_of(times: Values) -> Values:
    """Return clock times such as 1745 in minutes.

    Examples
    --------
    >>> minutes_of(np.array([5.0, 1745.0])), times_of(np.array([5.0, 1065.0]))
    (array([   5., 1065.]), array([   5., 1745.]))
    """
    return np.asarray(60 * np.floor(times / 100) + times % 100)


def times_of(minutes: Values) -> Values:
    """Return minutes as clock times such as 1745."""
    return np.asarray(100 * np.floor(minutes / 60) + minutes % 60)


def _choose_ones(values: Values, free: NDArray[np.bool_], total: float) -> Values:
    """Return indicators (names, rows) that add up to a total: the greatest of the free ones become 1."""
    wanted = np.round(total - np.where(free, 0.0, values).sum(axis=0))
    order: Codes = np.argsort(np.where(free, -values, np.inf), axis=0, kind="stable").astype(np.intp)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(len(values))[:, None], order.shape), axis=0)
    return np.where(free, (rank < wanted).astype(np.float64), values)


def _round_noise(values: Values) -> Values:
    """Return numbers without the last digits, which sums of decimal fractions carry."""
    size = float(np.max(np.abs(values), initial=1.0))
    return np.round(values, 12 - int(np.clip(np.ceil(np.log10(size)), 0, 12)))


# -- finding rules ---------------------------------------------------------------------------------------------------


def find_rules(table: Table, names: Sequence[str]) -> Rules:
    """Find the rules of some columns of numbers.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> came, stay = rng.integers(1000, size=80), rng.integers(30, size=80)
    >>> table = Table({"came": came, "left": came + stay, "stay": stay, "code": rng.integers(1, 4, size=80)})
    >>> find_rules(table, table.names).describe()
    'codes: code (1, 2, 3), as sums: left = stay + came'
    """
    columns = {name: np.asarray(table.column(name), dtype=np.float64) for name in names}
    observed = {name: column[~np.isnan(column)] for name, column in columns.items()}
    kinds = {name: _kind_of(table.variable(name)) for name in names}
    clocks = tuple(name for name, values in observed.items() if not kinds[name] and _is_clock(values))
    for name in clocks:
        columns[name], observed[name] = minutes_of(columns[name]), minutes_of(observed[name])
    scales = {name: find_scale(observed[name]) if name in clocks else table.scale(name) for name in names}
    tallies = {name: np.unique(observed[name], return_counts=True) for name in names if scales[name].codes}
    codes = {
        name: distinct
        for name, (distinct, counts) in tallies.items()
        if not kinds[name] and counts.min() > 1 and counts.sum() >= ROWS
    }
    plain = [name for name in names if name not in codes]
    found = {name: scales[name].multiple for name in plain if not kinds[name] and name not in clocks}
    steps = {name: step for name, step in found.items() if step is not None}
    steps |= {name: 1.0 for name in plain if kinds[name] and not (observed[name] % 1).any()}
    # points in time have no sign
    grids = {name: scales[name].grid for name in plain if kinds[name] not in ("date", "time")}
    supports = {name: (grid.low, grid.high) for name, grid in grids.items() if grid is not None}
    supports |= {name: (0.0, 1.0) for name in plain if kinds[name] == "time"}
    for name in clocks:
        # midnight is 0 or 2400
        ends_late = observed[name].max() >= 1440
        supports[name] = (float(observed[name].min() > 0), 1440.0) if ends_late else (0.0, 1439.0)
    first = {name: columns[name] for name in list(names)[:_MOST_COLUMNS] if name not in clocks}
    sums = _find_sums(first)
    ordered = {name: column for name, column in first.items() if name not in codes}
    orders = _find_orders(ordered, sums, kinds)
    bounded = {name: ends for name, ends in supports.items() if np.isfinite(ends).any()}
    return Rules(clocks, codes, steps, bounded, sums, orders)


def _kind_of(variable: Variable) -> str:
    """Return "date", "time" or "duration" of a variable that counts days, and nothing of others."""
    kind = str(getattr(getattr(variable, "unit", None), "kind", ""))
    return "date" if kind == "datetime" else kind


def _is_clock(values: Values) -> bool:
    """Return whether numbers are hours times 100 and minutes: none in the gaps from 60 to 99 between them."""
    if (
        len(values) < ROWS
        or values.min() < 0
        or values.max() > 2400
        or (values % 100 >= 60).any()
        or (values % 1).any()
    ):
        return False
    distinct = np.unique(values)
    inside = distinct[np.floor(distinct / 100) < np.floor(values.max() / 100)]
    # of the multiples of a step that all numbers are of, so many have minutes below 60
    step = int(np.gcd.reduce(distinct.astype(np.int64)))
    residues = np.unique(np.arange(100) * max(step, 1) % 100)
    return bool(math.log(float((residues < 60).mean())) * len(inside) < math.log(CHANCE))


def has_spikes(values: Values) -> bool:
    """Return whether one number is frequent, or many more are multiples of five than chance explains.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ages = rng.integers(20, 80, size=200)
    >>> has_spikes(ages), has_spikes(np.where(rng.random(200) < 0.5, ages // 5 * 5, ages))
    (False, True)
    >>> has_spikes(np.array([0.0] * 20 + [0.1, 0.2, 0.3]))
    True
    """
    distinct, counts = np.unique(values, return_counts=True)
    if counts.max() / len(values) > SPIKE_SHARE:
        return True
    decimals = decimals_of(values) if len(values) >= ROWS and len(distinct) > MOST_CODES else None
    if decimals is None:
        return False
    share = float((np.round(values * 10.0**decimals) % 5 == 0).mean())
    # multiples of five units of their last decimal
    return _HEAP_SHARE < share < 1 and share > 0.2 + 4 * math.sqrt(0.2 * 0.8 / len(values))


# -- sums -------------------------------------------------------------------------------------------------------------


def _find_sums(columns: Mapping[str, Values]) -> tuple[Sum, ...]:
    """Return the sums that hold in all rows, none of which follows from the others."""
    names = list(columns)
    if len(names) < 2:
        return ()
    matrix = np.array([columns[name] for name in names]).T
    complete = matrix[~np.isnan(matrix).any(axis=1)][:_SEARCH_ROWS]
    decimals = {name: decimals_of(values[~np.isnan(values)]) for name, values in columns.items()}
    # half a unit of the last decimal
    units = {name: 0.0 if number is None else 0.5 * 10.0**-number for name, number in decimals.items()}
    if len(complete) >= ROWS + len(names):
        candidates = _eliminate(names, complete)
    else:
        slack = max(units.values()) + 1e-9 * float(np.nanmax(np.abs(matrix)))
        candidates = _neighboring_sums(names, matrix, slack)
    sums: list[Sum] = []
    equations = np.zeros((0, len(names)))
    for candidate in candidates:
        one = _fit_sum(candidate, columns, units)
        if one is None:
            continue
        equation = np.zeros(len(names))
        equation[[names.index(name) for name in one.names]] = one.signs
        extended = np.vstack([equations, equation])
        # an equation that follows from others says nothing new
        if np.linalg.matrix_rank(extended) > len(equations):
            sums, equations = [*sums, one], extended
    return tuple(sums)


def _eliminate(names: Sequence[str], rows: Values) -> Iterator[tuple[str, ...]]:
    """Yield each column that is a combination of earlier ones, followed by these."""
    scaled = rows - rows.mean(axis=0)
    scaled /= np.maximum(np.sqrt(np.square(scaled).mean(axis=0)), 1e-300)
    independent: list[int] = []
    for column in range(len(names)):
        if independent:
            basis = scaled[:, independent]
            slopes, *_ = np.linalg.lstsq(basis, scaled[:, column], rcond=1e-10)
            residual = scaled[:, column] - basis @ slopes
            # rounded shares add up to a constant only nearly
            if np.square(residual).mean() < 1e-3:
                own = rows[:, column] - rows[:, column].mean()
                raw, *_ = np.linalg.lstsq(rows[:, independent] - rows[:, independent].mean(axis=0), own, rcond=1e-10)
                parts = [names[i] for i, slope in zip(independent, raw, strict=True) if abs(slope) > 0.5]
                if parts and all(min(abs(s), abs(abs(s) - 1)) < _COEFFICIENT for s in raw):
                    yield (names[column], *parts)
                    if np.square(residual).mean() < 1e-6:
                        continue
        independent.append(column)


def _neighboring_sums(names: Sequence[str], matrix: Values, slack: float) -> Iterator[tuple[str, ...]]:
    """Yield columns with neighbors, and with pairs of others, that add up in the first rows: matrix (rows, names)."""
    rows = matrix[:_PROBED_ROWS].T
    windows = [range(start, start + size) for size in range(1, _WINDOW + 1) for start in range(len(names) - size + 1)]
    combinations = [(tuple(window), rows[window.start : window.stop].sum(axis=0)) for window in windows]
    for pair in itertools.combinations(range(len(names)), 2):
        combinations += [(pair, rows[pair[0]] + sign * rows[pair[1]]) for sign in (1.0, -1.0)]
    for members, values in combinations:
        for sign in (1.0, -1.0):
            rest = rows - sign * values
            unknown = np.isnan(rest)
            spread = np.where(unknown, -np.inf, rest).max(axis=1) - np.where(unknown, np.inf, rest).min(axis=1)
            enough = (~unknown).sum(axis=1) >= _FEWEST_PROBED
            for column in np.flatnonzero(enough & (spread <= slack * (2 * len(members) + 2))).tolist():
                if column not in members:
                    yield (names[column], *(names[i] for i in members))


def _fit_sum(names: tuple[str, ...], columns: Mapping[str, Values], units: Mapping[str, float]) -> Sum | None:
    """Return the sum of these columns, the first one on its own or with the others, if all rows keep it."""
    matrix = np.array([columns[name] for name in names])
    matrix = matrix[:, ~np.isnan(matrix).any(axis=0)]
    if matrix.shape[1] < ROWS:
        return None
    first, parts = matrix[0], matrix[1:]
    slopes = _fit_signs(parts[:, :_SEARCH_ROWS], first[:_SEARCH_ROWS])
    if slopes is None:
        return None
    predicted = slopes @ parts
    total, width = float(np.median(first - predicted)), 1e-9 * float(np.abs(matrix).max())
    if abs(total - np.round(total)) <= width:
        total = float(np.round(total))
    if np.abs(first - predicted - total).max() > width:
        # rounded shares add up to one or a hundred only nearly
        width += sum(units[name] for name in names)
        total = float(np.round(total)) if (slopes == -1).all() else math.nan
        if total not in (1.0, 100.0) or np.abs(first - predicted - total).max() > width or first.std() <= 2 * width:
            return None
    ordered = np.sort(predicted + total)
    hits = np.searchsorted(ordered, first + width, "right") - np.searchsorted(ordered, first - width, "left")
    chance = float(hits.mean()) / len(first)
    if chance >= 1 or len(first) * math.log(chance) > math.log(CHANCE):
        return None
    return Sum(names, (1.0, *(-slopes).tolist()), total)


def _fit_signs(parts: Values, target: Values) -> Values | None:
    """Return the coefficients of a combination if each of them is 1 or -1."""
    centered = parts - parts.mean(axis=1, keepdims=True)
    slopes, *_ = np.linalg.lstsq(centered.T, target - target.mean(), rcond=1e-10)
    signs: Values = np.asarray(np.round(slopes), dtype=np.float64)
    return signs if (np.abs(signs) == 1).all() and (np.abs(slopes - signs) < _COEFFICIENT).all() else None


def _find_orders(
    columns: Mapping[str, Values], sums: Sequence[Sum], kinds: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns of one kind of which the first is never greater, where that says something."""
    implied = {frozenset(pair) for one in sums for pair in itertools.combinations(one.names, 2)}
    limit = math.log(CHANCE / max(len(columns) ** 2, 1))
    return tuple(
        (low, high)
        for low, high in itertools.permutations(columns, 2)
        if kinds[low] == kinds[high]
        and frozenset((low, high)) not in implied
        and not (columns[low][:_SEARCH_ROWS] > columns[high][:_SEARCH_ROWS]).any()
        and _is_order(columns[low], columns[high], limit, bool(kinds[low]))
    )


def _is_order(lesser: Values, greater: Values, limit: float, comparable: bool) -> bool:
    """Return whether an order holds in all rows that have both numbers, and hardly by chance.

    Parameters
    ----------
    limit : float
        The logarithm of the probability that counts as hardly.
    comparable : bool
        Whether the columns are of one kind for sure, so that normal differences need not be ruled out.
    """
    both = ~(np.isnan(lesser) | np.isnan(greater))
    rows = int(both.sum())
    if rows < ROWS:
        return False
    x, y = lesser[both], greater[both]
    if (x > y).any() or not (y > x).any():
        return False
    # how often a number of one column is not greater than any number of the other
    share = float(np.searchsorted(np.sort(x), y, "right").mean()) / rows
    if share >= 1 or rows * math.log(share) > limit:
        return False
    gaps = y - x
    below = float(scipy.special.ndtr(-gaps.mean() / max(float(gaps.std()), 1e-300)))
    return bool(comparable or (gaps == 0).any() or rows * math.log1p(-min(below, 0.999)) < math.log(_NORMAL_CHANCE))
