"""Finding the rules that the observed numbers of a table keep.

A rule is found where at least fifty rows show it, all of them keep it, and chance would hardly do that. Chance is what
the columns would do independently of each other, or a column without the rule: a smooth one has minutes above 60, and
multiples of five no more often than every fifth time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hybridbn.learning.imputation.columns import decimals_of
from hybridbn.learning.imputation.rules import Rules, Sum, minutes_of
from hybridbn.tables import Table
from hybridbn.variables import Values, Variable

__all__ = ["find_rules", "is_heaped"]

_ROWS = 50
"""A rule needs so many rows that show it."""
_CHANCE = 1e-4
"""Chance keeps a rule that is found with at most this probability."""
_MOST_CODES = 20
"""A column with more different numbers has no codes."""
_SIGNS_ROWS = 14
"""So many numbers of the same sign show that a column has no other, as chance gives them with 2 ** -14 at most."""
_MOST_COLUMNS = 60
"""Sums and orders are searched among this many columns at most, the first ones."""
_SEARCH_ROWS = 4000
"""Candidates are found in this many rows, and checked in all."""
_WINDOW = 8
"""Where few rows are complete, sums of up to so many neighboring columns are tried."""
_PROBED_ROWS, _FEWEST_PROBED = 400, 10
"""Whether columns add up is looked at in so many rows first, if so many of them are complete there."""
_COEFFICIENT = 0.05
"""A coefficient of a sum lies this close to 1, -1 or 0 before it is rounded to it."""
_EDGE_ROWS, _EDGE_SHARE, _EDGE_FACTOR = 5, 0.02, 2.0
"""An end of the observed range that occurs so often, and so many times as often as others, is an end of the scale."""
_EDGE_NUMBERS = 10
"""A column of fewer different numbers has no end of the scale that stands out."""
_NORMAL_CHANCE = 0.02
"""An order counts if differences that are normal would keep it with at most this probability, or if some are zero."""
_HEAP_SHARE = 0.4
"""A column in which so many numbers are multiples of five is heaped."""


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
    observed = {name: column[~np.isnan(column)] for name in names for column in [table.column(name)]}
    kinds = {name: _kind_of(table.variable(name)) for name in names}
    clocks = tuple(name for name, values in observed.items() if not kinds[name] and _is_clock(values))
    columns = {name: np.asarray(table.column(name), dtype=np.float64) for name in names}
    for name in clocks:
        columns[name], observed[name] = minutes_of(columns[name]), minutes_of(observed[name])
    codes = {
        name: found
        for name, values in observed.items()
        if not kinds[name] and (found := _find_codes(values)) is not None
    }
    plain = [name for name in names if name not in codes]
    steps = {}
    for name in plain:
        if kinds[name]:
            step = 1.0 if len(observed[name]) >= _SIGNS_ROWS and not (observed[name] % 1).any() else None
        else:
            step = None if name in clocks else _find_step(observed[name])
        if step is not None:
            steps[name] = step
    # points in time have no sign
    supports = {name: _find_support(observed[name]) for name in plain if kinds[name] not in ("date", "time")}
    supports |= {name: (0.0, 1.0) for name in plain if kinds[name] == "time"}
    for name in clocks:
        supports[name] = (float(observed[name].min() > 0 and observed[name].max() >= 1440), 1440.0)
        supports[name] = supports[name] if observed[name].max() >= 1440 else (0.0, 1439.0)
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


# -- single columns ---------------------------------------------------------------------------------------------------


def _is_clock(values: Values) -> bool:
    """Return whether numbers are hours times 100 and minutes: none in the gaps from 60 to 99 between them."""
    if len(values) < _ROWS or values.min() < 0 or values.max() > 2400 or (values % 1).any():
        return False
    if (values % 100 >= 60).any():
        return False
    distinct = np.unique(values)
    inside = distinct[np.floor(distinct / 100) < np.floor(values.max() / 100)]
    # of the multiples of a step that all numbers are of, so many have minutes below 60
    step = int(np.gcd.reduce(distinct.astype(np.int64)))
    residues = np.unique(np.arange(100) * max(step, 1) % 100)
    return bool(math.log(float((residues < 60).mean())) * len(inside) < math.log(_CHANCE))


def _find_codes(values: Values) -> Values | None:
    """Return the different numbers if there are few, and none of them occurs only once."""
    if len(values) < _ROWS:
        return None
    distinct, counts = np.unique(values[:1000], return_counts=True)
    if len(distinct) > _MOST_CODES:
        return None
    distinct, counts = np.unique(values, return_counts=True)
    return distinct if 1 < len(distinct) <= _MOST_CODES and counts.min() > 1 else None


def _find_step(values: Values) -> float | None:
    """Return the greatest number that all are multiples of, if chance would hardly make them so."""
    decimals = decimals_of(values) if len(values) >= _ROWS else None
    if decimals is None:
        return None
    units = np.unique(np.round(values * 10.0**decimals)).astype(np.int64)
    step = int(np.gcd.reduce(units))
    if step < 2 or math.log(step) * (len(units) - 1) < -math.log(_CHANCE):
        return None
    return float(np.round(step * 10.0**-decimals, decimals))


def _find_support(values: Values) -> tuple[float, float]:
    """Return what numbers of a column can't be below or above: zero, one, a hundred, or an end where many are."""
    from scipy.special import ndtr

    low, high = -math.inf, math.inf
    if len(values) < _SIGNS_ROWS:
        return low, high
    least, most = float(values.min()), float(values.max())
    if least >= 0:
        low = 0.0
        decimals = decimals_of(values)
        if least > 0 and decimals is not None:
            low = min(10.0**-decimals, least)
    elif most <= 0:
        high = 0.0
    if len(values) < _ROWS:
        return low, high
    if least >= 0:
        for top in (1.0, 100.0):
            deviation = max(float(values.std()), 1e-300)
            chance = len(values) * math.log1p(-min(float(ndtr((values.mean() - top) / deviation)), 0.999))
            whole_scale = 0.9 * top < most <= top and least < 0.1 * top
            if most == top or whole_scale or (0.5 * top < most < top and chance < math.log(0.01)):
                high = top
    distinct = len(np.unique(values))
    enough = max(_EDGE_ROWS, _EDGE_SHARE * len(values), _EDGE_FACTOR * len(values) / distinct)
    if distinct >= _EDGE_NUMBERS:
        low = max(low, least) if (values == least).sum() >= enough else low
        high = min(high, most) if (values == most).sum() >= enough else high
    return low, high


def is_heaped(values: Values) -> bool:
    """Return whether many more numbers are multiples of five units of their last decimal than chance explains.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ages = rng.integers(20, 80, size=200)
    >>> is_heaped(ages), is_heaped(np.where(rng.random(200) < 0.5, ages // 5 * 5, ages))
    (False, True)
    """
    if len(values) < _ROWS:
        return False
    decimals = decimals_of(values)
    if decimals is None:
        return False
    share = float((np.round(values * 10.0**decimals) % 5 == 0).mean())
    error = math.sqrt(0.2 * 0.8 / len(values))
    return bool(_HEAP_SHARE < share < 1 and share > 0.2 + 4 * error and len(np.unique(values)) > _MOST_CODES)


# -- sums -------------------------------------------------------------------------------------------------------------


def _find_sums(columns: Mapping[str, Values]) -> tuple[Sum, ...]:
    """Return the sums that hold in all rows, none of which follows from the others."""
    names = list(columns)
    if len(names) < 2:
        return ()
    matrix = np.array([columns[name] for name in names]).T
    complete = matrix[~np.isnan(matrix).any(axis=1)][:_SEARCH_ROWS]
    units = _find_units(columns)
    if len(complete) >= _ROWS + len(names):
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


def _find_units(columns: Mapping[str, Values]) -> dict[str, float]:
    """Return half a unit of each column's last decimal; zero for numbers of full precision."""
    decimals = {name: decimals_of(values[~np.isnan(values)]) for name, values in columns.items()}
    return {name: 0.0 if number is None else 0.5 * 10.0**-number for name, number in decimals.items()}


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
    if matrix.shape[1] < _ROWS:
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
    if chance >= 1 or len(first) * math.log(chance) > math.log(_CHANCE):
        return None
    return Sum(names, (1.0, *(-slopes).tolist()), total)


def _fit_signs(parts: Values, target: Values) -> Values | None:
    """Return the coefficients of a combination if each of them is 1 or -1."""
    centered = parts - parts.mean(axis=1, keepdims=True)
    slopes, *_ = np.linalg.lstsq(centered.T, target - target.mean(), rcond=1e-10)
    signs: Values = np.asarray(np.round(slopes), dtype=np.float64)
    return signs if (np.abs(signs) == 1).all() and (np.abs(slopes - signs) < _COEFFICIENT).all() else None


# -- orders -----------------------------------------------------------------------------------------------------------


def _find_orders(
    columns: Mapping[str, Values], sums: Sequence[Sum], kinds: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    """Return the pairs of columns of one kind of which the first is never greater, where that says something."""
    implied = {frozenset(pair) for one in sums for pair in itertools.combinations(one.names, 2)}
    candidates = []
    for low, high in itertools.permutations(columns, 2):
        x, y = columns[low][:_SEARCH_ROWS], columns[high][:_SEARCH_ROWS]
        if kinds[low] == kinds[high] and frozenset((low, high)) not in implied and not (x > y).any():
            candidates.append((low, high))
    limit = math.log(_CHANCE / max(len(columns) ** 2, 1))
    return tuple(
        (low, high) for low, high in candidates if _is_order(columns[low], columns[high], limit, bool(kinds[low]))
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
    from scipy.special import ndtr

    both = ~(np.isnan(lesser) | np.isnan(greater))
    rows = int(both.sum())
    if rows < _ROWS:
        return False
    x, y = lesser[both], greater[both]
    if (x > y).any() or not (y > x).any():
        return False
    # how often a number of one column is not greater than any number of the other
    share = float(np.searchsorted(np.sort(x), y, "right").mean()) / rows
    if share >= 1 or rows * math.log(share) > limit:
        return False
    gaps = y - x
    below = float(ndtr(-gaps.mean() / max(float(gaps.std()), 1e-300)))
    return bool(comparable or (gaps == 0).any() or rows * math.log1p(-min(below, 0.999)) < math.log(_NORMAL_CHANCE))
