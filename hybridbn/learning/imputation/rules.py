"""Rules that the observed numbers of a table keep, and that imputed numbers keep, too.

Of one column: clock times, codes, multiples of a step, and what it can't be below or above. Between columns: totals
that are sums of others, shares that add up to a constant, and one number that is never below another. Clock times are
modeled in minutes, as their hundreds jump; all other rules are kept on the column's own scale. Cells that the observed
ones determine are filled before anything is learned. Draws that break a limit are drawn again by `Completion`, so that
the joint distribution itself keeps it. `Rules.settle` then corrects what rounding has left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import warn_user
from hybridbn.estimation.holes import Cells, find_holes
from hybridbn.tables import Table
from hybridbn.variables import Codes, Values

__all__ = ["Rules", "Sum", "minutes_of", "times_of"]

_MOST_TOLD = 8
"""So many rules of a kind, and codes of a column, are told."""
_SLACK = 1e-9
"""Sums may differ by this share of their largest number."""

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

    def missing_part(self, columns: Mapping[str, Values]) -> Values:
        """Return by how much the sum of each row falls short of the total."""
        return np.asarray(
            self.total - sum(sign * columns[name] for name, sign in zip(self.names, self.signs, strict=True))
        )

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
            warn_user(
                f"columns are treated as {description}; imputed numbers keep that, unless discrete=[...] makes codes "
                "categories or rules=False forgets it",
            )

    # -- between the table and the model ------------------------------------------------------------------------------

    def encode(self, table: Table) -> Table:
        """Return the table on the scale of the model, with the cells that the others determine."""
        for name in self.clocks:
            if name in table:
                table = table.with_array(name, minutes_of(table.column(name)))
        return self.determine(table)

    def encode_bounds(self, bounds: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
        """Return bounds on the scale of the model."""
        encoded = dict(bounds)
        for name in encoded.keys() & set(self.clocks):
            low, high = (float(minutes_of(np.array(np.clip(end, 0, 2400)))) for end in encoded[name])
            encoded[name] = (low, high)
        return encoded

    def within(self, bounds: Mapping[str, tuple[float, float]]) -> Self:
        """Return the rules with bounds of the user, which come first: codes and steps that don't fit are dropped."""
        codes, steps = dict(self.codes), dict(self.steps)
        for name, (low, high) in bounds.items():
            if name in codes:
                codes[name] = codes[name][(codes[name] >= low) & (codes[name] <= high)]
            if name in steps and np.ceil(low / steps[name]) > np.floor(high / steps[name]):
                del steps[name]
        codes = {name: values for name, values in codes.items() if len(values)}
        return replace(self, codes=codes, steps=steps, supports={**self.supports, **bounds})

    def decode(self, name: str, values: Values) -> Values:
        """Return numbers of the model on the scale of their column."""
        return times_of(values) if name in self.clocks else values

    def determine(self, table: Table) -> Table:
        """Return the table with each cell filled that is the only missing one of a sum."""
        columns = {name: np.array(table.column(name)) for one in self.sums for name in one.names if name in table}
        changed = set[str]()
        for _ in range(len(self.sums)):
            before = len(changed)
            for one in self.sums:
                if not all(name in columns for name in one.names):
                    continue
                missing = np.array([np.isnan(columns[name]) for name in one.names])
                single = missing.sum(axis=0) == 1
                for name, sign, own in zip(one.names, one.signs, missing, strict=True):
                    rows = np.flatnonzero(single & own)
                    if len(rows):
                        part = {other: np.where(np.isnan(v), 0.0, v)[rows] for other, v in columns.items()}
                        columns[name][rows] = _round_noise(sign * one.missing_part(part))
                        changed.add(name)
            if len(changed) == before:
                break
        for name in changed:
            table = table.with_array(name, columns[name])
        return table

    # -- what is drawn ------------------------------------------------------------------------------------------------

    def limits(self, name: str, columns: Mapping[str, Values]) -> tuple[Values, Values]:
        """Return the least and the greatest number that a column can hold in each row, given the other columns."""
        low, high = (np.full(len(next(iter(columns.values()))), end) for end in self._support(name))
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
        holes = find_holes(table)
        numbers = {name: np.asarray(values, dtype=np.float64) for name, values in self._numbers(table, cells).items()}
        return {**cells, **self._correct_sums(numbers, holes, lambda _, values: values)}

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
            return self._clip(name, self._snap(name, round_to_grid(name, values)))

        binary = {name for one in self.sums if self._is_binary(one) for name in one.names}
        settled = dict(columns)
        for name in columns.keys() & holes.keys() - binary:
            settled[name] = np.where(holes[name], finish(name, columns[name]), columns[name])
        settled = self._correct_sums(settled, holes, finish)
        return self._correct_orders(settled, holes)

    def _numbers(self, table: Table, cells: Cells) -> Cells:
        return {name: values for name, values in cells.items() if not table.is_discrete(name)}

    def _support(self, name: str) -> tuple[float, float]:
        return self.supports.get(name, (-np.inf, np.inf))

    def _clip(self, name: str, values: Values) -> Values:
        return np.asarray(np.clip(values, *self._support(name)))

    def _snap(self, name: str, values: Values) -> Values:
        """Return the nearest code, or the nearest multiple of a column's step within its support."""
        if name in self.codes:
            codes = self.codes[name]
            return np.asarray(codes[np.searchsorted((codes[1:] + codes[:-1]) / 2, values)])
        step = self.steps.get(name)
        if step is None:
            return values
        low, high = self._support(name)
        multiples = np.clip(np.round(values / step), np.ceil(low / step - _SLACK), np.floor(high / step + _SLACK))
        return np.asarray(multiples * step)

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
            if self._is_binary(one):
                values = _choose_ones(values, free[:, rows], one.total)
            else:
                values = self._spread(one, values, free[:, rows], columns, finish)
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
        low, high = (np.array([self._support(name)[end] for name in one.names])[:, None] for end in (0, 1))
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

    # -- files --------------------------------------------------------------------------------------------------------

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
