"""Pictures of tables with holes: which cells are missing together, and what was imputed beside what was observed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridbn.errors import TableError
from hybridbn.formatting import choose_ticks, format_share, format_value, shorten_text
from hybridbn.pictures.chart import (
    LETTER,
    SMALL,
    Area,
    Axis,
    Chart,
    Line,
    Mark,
    Points,
    Rectangles,
    Rule,
    Text,
    fit_ticks,
)
from hybridbn.tables import Table
from hybridbn.tables.columns import open_frame
from hybridbn.tables.scales import find_bulk
from hybridbn.units import Unit
from hybridbn.variables import Continuous, Values

_FEW = 20
"""Fewer imputed numbers than this are drawn as dots instead of shares."""
_BINS = 32
"""Numbers are counted in so many bins."""
_MOST_STATES = 12
_CELL = 0.22
"""The size of a cell of a pattern, in inches."""
_LETTERS = 36
"""The letters of ticks that have room below a picture of 80 mm."""

OBSERVED, IMPUTED = "observed", "imputed"


# -- patterns ---------------------------------------------------------------------------------------------------------


def plot_missing(data: Any, ax: Any = None, most: int = 20) -> Any:
    """Draw which cells are missing together: a line for each pattern, with the rows that have it.

    Parameters
    ----------
    data : table, as in `hybridbn.fit`
    ax : matplotlib axes, optional
        Where they are small, the columns with the most missing cells and the most frequent patterns are shown.
    most : int
        The number of patterns, the most frequent ones.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from matplotlib.figure import Figure
    >>> table = hb.Table({"x": [1.0, None, None, 2.0], "y": [1.0, None, 2.0, 3.0], "z": [1.0, 2.0, 3.0, 4.0]})
    >>> print(plot_missing(table, Figure().add_subplot()).get_label())
    Missing cells: 3 of 12 (25.0%), in x (50.0%), y (25.0%). Patterns: none missing 2; x 1; x, y 1.
    """
    table = Table(data)
    if not len(table):
        raise TableError("the table has no rows, so there are no patterns of missing cells to draw")
    missing = {name: table.cells(name).missing for name in table.names}
    names = [name for name, holes in missing.items() if holes.any()]
    patterns = Counter(zip(*(missing[name].tolist() for name in names), strict=True))
    room = None if ax is None else (ax.bbox.width / ax.figure.dpi, ax.bbox.height / ax.figure.dpi)
    return chart_patterns(names, patterns, len(table), len(table.names), room, most).draw(ax)


def chart_patterns(
    names: Sequence[str],
    patterns: dict[tuple[bool, ...], int],
    rows: int,
    columns: int,
    room: tuple[float, float] | None = None,
    most: int = 20,
) -> Chart:
    """Return the picture of patterns of missing cells.

    Parameters
    ----------
    names : sequence of str
        The columns with missing cells.
    patterns : mapping from tuple of bool to int
        The rows with each pattern: whether each of these columns is missing.
    rows, columns : int
        The size of the table.
    room : (width, height), optional
        In inches.
    most : int
        The number of patterns to show.
    """
    if not names:
        words = f"No cell is missing in a table of {columns} by {rows:,}."
        return Chart([Text(1.5, 0.3, "no cell is missing")], "", words, Axis(low=0, high=3), Axis(low=0, high=0.6),
                     (3.0, 0.6), diagram=True)  # fmt: skip
    ordered = sorted(patterns.items(), key=lambda item: (-item[1], item[0]))
    totals = [sum(count for pattern, count in ordered if pattern[index]) for index in range(len(names))]
    narrow = room is not None and min(room) < 3.5
    labels = [
        f"{count:,} ({format_share(count / rows)}){'' if any(pattern) or narrow else ', complete'}"
        for pattern, count in ordered
    ]
    # screens have larger letters than print
    letter = (1.25 if room is None else 1.0) * LETTER * SMALL / 72
    most_letters = 9 if narrow else 15
    right = letter * max(map(len, labels[:most]), default=0) + 0.1
    top = min(most_letters, max(map(len, names))) * letter * 0.9 + 0.12
    slanted = min(most_letters, len(names[-1])) * letter * 0.45
    chosen = list(range(len(names)))
    if room is not None:
        across = max(2, int((room[0] - max(right, slanted)) / _CELL))
        chosen = sorted(sorted(chosen, key=lambda index: -totals[index])[:across])
        most = min(most, max(2, int((room[1] - top) / _CELL) - 1))
    shown = ordered[:most]
    marks: list[Mark] = [
        Text((index + 0.6) * _CELL, top - 0.06, shorten_text(names[column], most_letters), "dim", side="left",
             level="bottom", angle=60.0, tip=names[column])
        for index, column in enumerate(chosen)
    ]  # fmt: skip
    holes = np.array([[pattern[column] for column in chosen] for pattern, _ in shown], dtype=bool)
    for color, which, label in ((1, holes, "missing"), ("pale", ~holes, "")):
        lines, cells = np.nonzero(which)
        if len(lines):
            left, low = cells * _CELL, top + lines * _CELL
            marks.append(
                Rectangles(left + 0.015, left + _CELL - 0.015, low + 0.015, low + _CELL - 0.015, color, label=label)
            )
    marks += [
        Text(len(chosen) * _CELL + 0.06, top + (line + 0.5) * _CELL, label, side="left")
        for line, label in enumerate(labels[: len(shown)])
    ]
    hidden = [f"{len(ordered) - len(shown):,} more patterns"] if len(ordered) > len(shown) else []
    hidden += [f"{len(names) - len(chosen)} more columns"] if len(names) > len(chosen) else []
    bottom = top + len(shown) * _CELL + 0.03
    if hidden:
        bottom += _CELL
        marks.append(Text(0.0, bottom - 0.1, " and ".join(hidden), "dim", side="left"))
    width = len(chosen) * _CELL + max(right, slanted)
    listed = "; ".join(f"{_name_pattern(names, pattern)} {count:,}" for pattern, count in shown[:8])
    missing = sum(totals)
    told = ", ".join(
        f"{name} ({format_share(total / rows)})" for name, total in list(zip(names, totals, strict=True))[:20]
    )
    return Chart(
        marks,
        "",
        f"Missing cells: {missing:,} of {rows * columns:,} ({format_share(missing / (rows * columns))}), in {told}. "
        f"Patterns: {listed}.",
        Axis(low=0.0, high=width if room is None else max(width, room[0])),
        Axis(low=0.0, high=bottom if room is None else max(bottom, room[1])),
        (width, bottom),
        diagram=True,
    )


def _name_pattern(names: Sequence[str], pattern: Sequence[bool]) -> str:
    return ", ".join(name for name, hole in zip(names, pattern, strict=True) if hole) or "none missing"


# -- observed and imputed ---------------------------------------------------------------------------------------------


def plot_imputed(data: Any, completed: Any, name: str, ax: Any = None) -> Any:
    """Draw the distribution of a column's observed cells, and that of the cells that were imputed.

    The two may differ with good reason: where cells are missing more often in some rows than in others, what is
    imputed follows those rows.

    Parameters
    ----------
    data : table
        With the holes.
    completed : table, or list of tables
        As `hybridbn.impute` returns them.
    name : str
        The column.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> holes, filled = {"c": ["a", "b", None, None]}, {"c": ["a", "b", "b", "b"]}
    >>> print(plot_imputed(holes, filled, "c", Figure().add_subplot()).get_label())
    Shares of c, observed 2 and imputed 2: a 50.0% and 0.0%, b 50.0% and 100.0%.
    """
    table = Table(data)
    frames = list(completed) if isinstance(completed, list | tuple) else [completed]
    if not frames:
        raise TableError("there is nothing to draw: the list of completed tables is empty")
    holes, variable = table.cells(name).missing, table.variable(name)
    if not holes.any():
        raise TableError(f"no cell of {name!r} is missing in the table, so none was imputed; give the table with holes")
    drawn = []
    for frame in frames:
        opened = open_frame(frame)
        if name not in opened.columns:
            raise TableError(f"the completed table has no column {name!r}")
        other = Table(opened.select([name]))
        if len(other) != len(table):
            raise TableError(f"the completed table has {len(other)} rows, the one with holes {len(table)}")
        values = other.coded(variable)[holes]
        if (np.isnan(values) if values.dtype.kind == "f" else values < 0).any():
            raise TableError(f"{name!r} has missing cells in the completed table, too; give what hb.impute returned")
        drawn.append(values)
    imputed, observed = np.concatenate(drawn), table.coded(variable)[~holes]
    if isinstance(variable, Continuous):
        shown = observed if len(observed) else imputed
        ends = float(shown.min()), float(shown.max())
        edges = choose_edges(*(find_bulk(shown, *ends) or ends), whole=not (shown % 1).any())
        counts, others = (np.histogram(p, [-np.inf, *edges, np.inf])[0].tolist() for p in (observed, imputed))
        return chart_histogram(name, edges.tolist(), counts, others, variable.unit).draw(ax)
    size = len(variable)
    counts, others = (np.bincount(part, minlength=size).tolist() for part in (observed, imputed))
    most = _MOST_STATES if ax is None else max(3, min(_MOST_STATES, int(0.8 * ax.bbox.height / ax.figure.dpi / 0.3)))
    return chart_shares(name, [str(state) for state in variable.states], counts, others, most).draw(ax)


def choose_edges(low: float, high: float, *, whole: bool) -> Values:
    """Return the edges of the bins that numbers are counted in, about as many as a chart of its width shows well.

    Examples
    --------
    >>> choose_edges(1, 3, whole=True).tolist(), len(choose_edges(0, 1, whole=False))
    ([0.5, 1.5, 2.5, 3.5], 33)
    """
    if whole:
        low, high = math.floor(low), math.ceil(high)
        width = math.ceil((high - low + 1) / _BINS)
        return np.asarray(low - 0.5 + width * np.arange(math.ceil((high - low + 1) / width) + 1))
    spread = high - low if high > low else abs(low) or 1.0
    edges = np.linspace(low, low + spread, _BINS + 1)
    edges[-1] = np.nextafter(edges[-1], np.inf)  # so that the last bin includes the greatest number
    return edges


def chart_histogram(
    name: str,
    ends: Sequence[float],
    observed: Sequence[float],
    imputed: Sequence[float],
    unit: Unit | None = None,
) -> Chart:
    """Return the shares of observed numbers as bars and of imputed ones as a line.

    Parameters
    ----------
    ends : sequence of float
        The edges of the bins.
    observed, imputed : sequences of counts
        Those below the bins, in each bin and above them.
    """
    edges = np.asarray(ends, dtype=np.float64)
    total, others = sum(observed) or 1.0, sum(imputed) or 1.0
    few = others < _FEW
    low, high = float(edges[0]), float(edges[-1])
    width = (high - low) * 0.09
    # what lies beyond the bins is piled up beside them
    tails = [(low - 1.6 * width, low - 0.6 * width), (high + 0.6 * width, high + 1.6 * width)]
    used = [side for side in (0, -1) if observed[side] or imputed[side]]
    piles = [tails[side] for side in used]
    left = np.array([*edges[:-1], *(pile[0] for pile in piles)])
    right = np.array([*edges[1:], *(pile[1] for pile in piles)])
    shares, lines = (
        np.array([*counts[1:-1], *(counts[side] for side in used)], dtype=np.float64) / whole
        for counts, whole in ((observed, total), (imputed, others))
    )
    marks: list[Mark] = [Rectangles(left, right, 0.0, shares, 0, 0.5, OBSERVED)]
    highest = max(float(shares.max()), 0.0 if few else float(lines.max())) or 1.0
    if few:
        counts = np.rint(lines * others).astype(int)
        step = max(highest / 14, 0.0)
        x = np.repeat((left + right) / 2, counts)
        y = np.concatenate([[(i + 0.7) * step for i in range(count)] for count in counts.tolist()] or [[]])
        marks.append(Points(x, y, 1, 4.5, IMPUTED))
        highest = max(highest, float(y.max(initial=0.0)))
    else:
        bins = len(edges) - 1
        outline = np.repeat(lines[:bins], 2)
        across = np.column_stack([edges[:-1], edges[1:]]).ravel()
        marks.append(Line([low, *across, high], [0.0, *outline, 0.0], 1, label=IMPUTED))
        marks += [
            Rectangles(pile[0], pile[1], 0.0, share, 1, hollow=True)
            for share, pile in zip(lines[bins:], piles, strict=True)
        ]
    ticks = _choose_histogram_ticks(edges, unit, [
        (sum(tails[side]) / 2, ("below", "above")[side]) for side in used
    ])  # fmt: skip
    outside = int(imputed[0] + imputed[-1])
    far = f", {outside:,} of them beyond the observed numbers" if outside else ""
    ends_told = [format_value(end, unit) for end in (low, high)]
    words = (
        f"Distribution of {name} from {ends_told[0]} to {ends_told[1]}: {int(sum(observed)):,} observed "
        f"and {int(sum(imputed)):,} imputed{far}."
    )
    margin = 0.02 * (high - low)
    return Chart(
        marks,
        name,
        words,
        Axis(low=min(left.min(), low) - margin, high=max(right.max(), high) + margin, ticks=ticks),
        Axis("share", 0.0, 1.05 * highest, shown=False),
        (5.0, 2.1),
    )


def _choose_histogram_ticks(
    edges: Values, unit: Unit | None, piles: Sequence[tuple[float, str]]
) -> list[tuple[float, str]]:
    """Return ticks within the bins, whole numbers where these are the centers, and those of the piles beside."""
    low, high = float(edges[0]), float(edges[-1])
    whole = unit is None and low % 1 == 0.5 and high % 1 == 0.5
    return fit_ticks(
        lambda most: [*choose_ticks(low + 0.5 * whole, high - 0.5 * whole, most, unit, float(whole)), *piles],
        lambda ticks: sum(len(text) + 2 for _, text in ticks) <= _LETTERS,
        (6, 5, 4, 3, 2),
    )


def chart_shares(
    name: str, labels: Sequence[str], observed: Sequence[float], imputed: Sequence[float], most: int = _MOST_STATES
) -> Chart:
    """Return the shares of states as pairs of bars, observed above imputed, of many states the most frequent ones."""
    order = sorted(range(len(labels)), key=lambda code: -observed[code])
    kept = sorted(order[:most]) if len(order) > most else list(range(len(labels)))
    rest = [code for code in order if code not in set(kept)]
    names = [labels[code] for code in kept] + ([f"{len(rest)} others"] if rest else [])
    shares = []
    for counts in (observed, imputed):
        whole = sum(counts) or 1.0
        shown = [counts[code] for code in kept] + ([sum(counts[code] for code in rest)] if rest else [])
        shares.append(np.array(shown, dtype=np.float64) / whole)
    rows = np.arange(len(names))
    marks: list[Mark] = []
    for number, (label, part, shift, opacity) in enumerate(
        ((OBSERVED, shares[0], -0.38, 0.5), (IMPUTED, shares[1], 0.0, 1.0))
    ):
        if number and not sum(imputed):
            continue
        tips = [f"{state}, {label}: {format_share(s)}" for state, s in zip(names, part.tolist(), strict=True)]
        marks.append(Rectangles(0.0, part, rows + shift, rows + shift + 0.38, number, opacity, label, tips=tips))
        marks += [
            Text(share, row + shift + 0.19, format_share(share), "dim", 7.0, "left", shift=(3, 0))
            for row, share in enumerate(part.tolist())
        ]
    highest = max(float(shares[0].max(initial=0.0)), float(shares[1].max(initial=0.0))) or 1.0
    told = ", ".join(f"{state} {format_share(a)} and {format_share(b)}"
                     for state, a, b in zip(names, *(part.tolist() for part in shares), strict=True))  # fmt: skip
    return Chart(
        marks,
        name,
        f"Shares of {name}, observed {int(sum(observed)):,} and imputed {int(sum(imputed)):,}: {told}.",
        Axis("share", 0.0, 1.2 * highest, shown=False),
        Axis(names=[shorten_text(state, 18) for state in names], reverse=True),
        (5.0, 0.4 + 0.36 * len(names)),
    )


def chart_rounds(
    name: str,
    values: Sequence[float],
    spreads: Sequence[float] | None,
    observed: float | None = None,
    unit: Unit | None = None,
) -> Chart:
    """Return what each round of learning drew: a line of means or shares, and a band of one standard deviation.

    `observed` is the mean of the observed numbers, a dashed line.
    """
    rounds, middle = np.arange(1, len(values) + 1), np.asarray(values, dtype=np.float64)
    marks: list[Mark] = []
    if spreads is not None:
        band = np.asarray(spreads, dtype=np.float64)
        marks.append(Area(rounds, middle - band, middle + band, 1, 0.18))
    if observed is not None:
        marks.append(Rule(y=observed, dashed=True))
    marks.append(Line(rounds, middle, 1, marked=True))
    shares = spreads is None
    what = "Share of the state drawn most" if shares else "Mean of the numbers drawn"
    ends = [format_share(end) if shares else format_value(end, unit) for end in (values[0], values[-1])]
    return Chart(
        marks,
        name,
        f"{what} for {name} in {len(values)} rounds of learning, from {ends[0]} to {ends[1]}.",
        Axis("round", 0.6, len(values) + 0.4, ticks=None if len(values) > 1 else [(1.0, "1")]),
        Axis("", 0.0 if shares else None, 1.0 if shares else None, unit=unit),
        (3.6, 2.1),
    )
