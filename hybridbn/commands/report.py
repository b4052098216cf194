"""The report of an imputation: counts of observed and imputed values, an HTML page with charts, and a preview of rows."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.commands.column_profiles import ColumnProfile, TableProfile
from hybridbn.commands.draw_models import DrawModels
from hybridbn.formats.tables.base import Fills, Kinds, TableSource
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells

__all__ = [
    "ValueCounts",
    "add_counts",
    "count_values",
    "draw_bars",
    "draw_histogram",
    "draw_patterns",
    "draw_rounds",
    "format_number",
    "format_preview",
    "format_range",
    "render_page",
    "shorten_text",
]

_MOST_PATTERNS = 20
"""The page shows this many patterns of missing cells, the most frequent ones."""
_MOST_STATES = 12
"""The page shows this many states of a column, the most frequent ones."""
_STYLE = """
:root{--ink:#1d2733;--dim:#5c6b7a;--line:#d5dce3;--back:#fff;--card:#f6f8fa;--o:#9db4c8;--i:#c2500a;--full:#e3e9ee}
@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--dim:#9aa8b5;--line:#3a4550;--back:#14191e;--card:#1c232a;--o:#53718c;--i:#ff9a4d;--full:#2a333c}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0 auto;padding:28px 24px 60px;max-width:1080px}
h1{font-size:25px;margin:0 0 4px}h2{font-size:19px;margin:38px 0 6px}h3{font-size:15px;margin:0 0 2px;overflow-wrap:anywhere}p{margin:6px 0;max-width:78ch}
.dim,.note{color:var(--dim)}.note{font-size:13.5px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}.wide{overflow-x:auto}
th,td{padding:4px 12px 4px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right}
td.name{overflow-wrap:anywhere;min-width:9ch}td.kind{white-space:nowrap}
.facts td:first-child{color:var(--dim);white-space:nowrap}.facts td{overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:1fr;gap:14px;margin-top:12px}.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 16px}
.pair{display:flex;flex-wrap:wrap;gap:8px 36px;align-items:flex-start;margin-top:8px}.pair figure{margin:0;max-width:min(360px,100%)}figcaption{font-size:12.5px;color:var(--dim)}
svg{max-width:100%;height:auto;display:block}.wide svg{max-width:none}svg text{font:11px system-ui,sans-serif;fill:var(--dim)}svg text.small{font-size:9.5px}
.o{fill:var(--o)}.b{fill:var(--i)}path.i{fill:none;stroke:var(--i);stroke-width:1.6}rect.i{fill:none;stroke:var(--i);stroke-width:1.4}
.axis{fill:none;stroke:var(--line)}.dash{fill:none;stroke:var(--dim);stroke-dasharray:4 4}.band{fill:var(--i);opacity:.16}.dot{fill:var(--i)}.hole{fill:var(--i)}.full{fill:var(--full)}
.key{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 5px -1px 0}.warn{border-left:3px solid var(--i);padding-left:10px}
"""
_BINS = 32
"""Numbers are counted in about this many bins, as many as a chart of this width shows well."""
_PREVIEW_WIDTH = 118
"""The width of the preview in characters."""
_CELL = 16
"""The width of a cell of the preview in characters."""
_ROWS = 200
"""The preview reads the table in blocks of this many rows."""

ValueCounts: TypeAlias = dict[str, dict[str, list[float]]]
"""Counts of the values of columns, by name and by "observed" or "imputed"."""


# -- counts --------------------------------------------------------------------------------------------------------------


def _bin_edges(column: ColumnProfile) -> NDArray[Any]:
    """Return the edges of the bins that a column of numbers is counted in; they cover nearly all of its numbers.

    Examples
    --------
    >>> _bin_edges(ColumnProfile("x", kind="number", low=1.0, high=3.0)).tolist()
    [0.5, 1.5, 2.5, 3.5]
    """
    low, high = column.bulk or (column.low, column.high)
    if column.whole:
        low, high = math.floor(low), math.ceil(high)
    if column.whole and high - low < _BINS:
        return np.asarray(np.arange(low, high + 2) - 0.5)
    if column.whole:
        width = np.ceil((high - low + 1) / _BINS)
        return np.asarray(low - 0.5 + width * np.arange(np.ceil((high - low + 1) / width) + 1))
    spread = high - low if high > low else abs(low) or 1.0
    ends = np.linspace(low, low + spread, _BINS + 1)
    ends[-1] = np.nextafter(ends[-1], np.inf)  # so that the last bin includes the greatest number
    return ends


def count_values(profile: TableProfile, cells: dict[str, Cells], fills: Sequence[Fills]) -> ValueCounts:
    """Count the values of a block: the observed cells, and the imputed cells of all draws.

    For numbers these are the counts below, in and above the bins, then their number, sum and sum of squares; for states,
    the count of each.
    """
    value_counts: ValueCounts = {}
    for name, column_cells in cells.items():
        column = profile.columns[name]
        values = [value for fill in fills if name in fill for value in fill[name][1]]
        if column.kind == "number":
            observed = column_cells.array[~column_cells.missing]
            imputed = np.array(values, dtype=float)
            ends = np.concatenate([[-np.inf], _bin_edges(column), [np.inf]])
            center = (column.low + column.high) / 2
            value_counts[name] = {
                what: [*np.histogram(part, ends)[0].tolist(), len(part), *_sum_powers(part - center)]
                for what, part in (("observed", observed), ("imputed", imputed))
            }
        else:
            codes = {state: code for code, state in enumerate(column.states)}
            size = len(column.states)
            value_counts[name] = {
                "observed": np.bincount(column_cells.array[~column_cells.missing], minlength=size).tolist(),
                "imputed": np.bincount([codes[v] for v in values if v in codes], minlength=size).tolist(),
            }
    return value_counts


def _sum_powers(values: NDArray[Any]) -> tuple[float, float]:
    return float(values.sum()), float((values * values).sum())


def add_counts(counts_of_blocks: Iterable[ValueCounts]) -> ValueCounts:
    """Add up the counts of blocks.

    Examples
    --------
    >>> add_counts([{"x": {"observed": [1, 2]}}, {"x": {"observed": [0, 3]}}])
    {'x': {'observed': [1.0, 5.0]}}
    """
    total: dict[str, dict[str, NDArray[Any]]] = {}
    for value_counts in counts_of_blocks:
        for name, kinds in value_counts.items():
            counts_of_column = total.setdefault(name, {})
            for what, counts in kinds.items():
                added = np.array(counts, dtype=float)
                counts_of_column[what] = counts_of_column[what] + added if what in counts_of_column else added
    return {name: {what: counts.tolist() for what, counts in kinds.items()} for name, kinds in total.items()}


# -- the page ------------------------------------------------------------------------------------------------------------


def render_page(
    title: str,
    facts: Sequence[tuple[str, str]],
    profile: TableProfile,
    value_counts: ValueCounts,
    history: Sequence[Mapping[str, Any]],
    remarks: Sequence[str],
    draws: int,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    facts : sequence of (name, text)
        The rows of the first table: output, model, strategy, version.
    value_counts : as from `add_counts`
    history : sequence of mappings
        What each round of learning drew.
    remarks : sequence of str
        The warnings of the run.
    """
    filled = {name: counts for name, counts in value_counts.items() if profile.columns[name].missing}
    body = [
        f"<h1>{escape(title)}</h1>",
        '<table class="facts">',
        *(f"<tr><td>{escape(name)}</td><td>{escape(text)}</td></tr>" for name, text in facts),
        "</table>",
        *(f'<p class="warn">{escape(remark)}</p>' for remark in remarks),
        "<h2>Columns</h2>",
        _render_overview(profile, value_counts, draws),
        "<h2>Missing cells</h2>",
        _render_missing_patterns(profile),
        "<h2>Observed and imputed</h2>",
        '<p class="note"><span class="key" style="background:var(--o)"></span>observed cells &nbsp; '
        '<span class="key" style="background:var(--i)"></span>imputed cells. Shares within each group. The two may differ with good reason: '
        "where cells are missing more often in some rows than in others, what is imputed follows those rows.</p>",
        '<div class="cards">',
        *(_render_card(profile.columns[name], counts, history) for name, counts in filled.items()),
        "</div>" if filled else "</div><p>No cell was missing.</p>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _render_overview(profile: TableProfile, value_counts: ValueCounts, draws: int) -> str:
    rows = []
    for name, column in profile.columns.items():
        share = column.missing / profile.rows
        counts = value_counts.get(name)
        seen = filled = "left alone" if counts is None and column.missing else ""
        if counts is not None:
            seen, filled = _summarize(column, counts["observed"]), _summarize(column, counts["imputed"])
        kind = {"number": "whole numbers" if column.whole else "numbers", "states": f"{len(column.first)} states"}.get(
            column.kind or "", "empty"
        )
        rows.append(
            f"<tr><td class=name>{escape(name)}</td><td class=kind>{kind}</td><td class=n>{column.missing:,}</td><td class=n>{share:.1%}</td>"
            f"<td>{escape(seen)}</td><td>{escape(filled if column.missing else '')}</td></tr>"
        )
    note = f" Imputed: all {draws} draws together." if draws > 1 else ""
    return (
        '<div class="wide"><table><tr><th>column</th><th>type</th><th class=n>missing</th><th class=n>share</th><th>observed</th>'
        f"<th>imputed</th></tr>{''.join(rows)}</table></div>"
        f'<p class="note">Numbers: mean ± standard deviation. States: the most frequent one.{note}</p>'
    )


def _summarize(column: ColumnProfile, counts: Sequence[float]) -> str:
    if column.kind == "number":
        number, total, squares = counts[-3:]
        if not number:
            return ""
        center = (column.low + column.high) / 2
        mean = total / number
        return f"{format_number(mean + center)} ± {format_number(math.sqrt(max(squares / number - mean * mean, 0.0)))}"
    if not sum(counts):
        return ""
    best = max(range(len(counts)), key=lambda code: counts[code])
    return f"{shorten_text(str(column.states[best]), 32)} ({counts[best] / sum(counts):.1%})"


def _render_missing_patterns(profile: TableProfile) -> str:
    names = [name for name, column in profile.columns.items() if column.missing]
    if not names:
        return "<p>None.</p>"
    positions = {name: position for position, name in enumerate(profile.columns)}
    merged: dict[tuple[bool, ...], int] = {}
    for bits, count in profile.patterns.items():
        key = tuple(bool(bits >> positions[name] & 1) for name in names)
        merged[key] = merged.get(key, 0) + count
    ordered = sorted(merged.items(), key=lambda item: (-item[1], item[0]))
    shown = [
        (key, f"{count:,} row{'s' if count > 1 else ''} ({count / profile.rows:.1%}){'' if any(key) else ', complete'}")
        for key, count in ordered[:_MOST_PATTERNS]
    ]
    hidden = len(ordered) - len(shown)
    rest = profile.rows - sum(count for _, count in ordered[:_MOST_PATTERNS])
    more = f" {rest:,} rows have one of the {hidden:,} or more other patterns." if hidden > 0 else ""
    cells = sum(column.missing for column in profile.columns.values())
    total = profile.rows * len(profile.columns)
    return (
        f"<p>{cells:,} of {total:,} cells ({cells / total:.1%}) are missing, in {len(names)} of {len(profile.columns)} columns. "
        f"Each line is a combination of missing cells (filled squares) and the rows that have it.{more}</p>"
        f'<div class="wide">{draw_patterns(names, shown)}</div>'
    )


def _render_card(
    column: ColumnProfile, counts: Mapping[str, Sequence[float]], history: Sequence[Mapping[str, Any]]
) -> str:
    observed, imputed = counts["observed"], counts["imputed"]
    if column.kind == "number":
        ends = _bin_edges(column).tolist()
        picture = draw_histogram(
            ends, observed[1:-4], imputed[1:-4], (observed[0], observed[-4]), (imputed[0], imputed[-4])
        )
        beyond = int(imputed[0] + imputed[-4])
        note = f"; {beyond:,} imputed beyond the observed numbers" if beyond else ""
        if column.bulk is not None:
            note = (
                f"; observed from {' to '.join(format_range(column.low, column.high))}, few of them far from the others"
            )
    else:
        picture, note = _draw_shares(column, observed, imputed)
    entries = [entry[column.name] for entry in history if column.name in entry]
    figures = [f"<figure>{picture}<figcaption>{_format_caption(column, observed, imputed)}{note}</figcaption></figure>"]
    if entries:
        spread = isinstance(entries[0], list | tuple)
        mean = observed[-2] / observed[-3] + (column.low + column.high) / 2 if spread and observed[-3] else None
        chart = draw_rounds([v[0] if spread else v for v in entries], [v[1] for v in entries] if spread else None, mean)
        explanation = (
            "mean ± standard deviation of what was drawn (dashed: observed mean)"
            if spread
            else "share of the state drawn most"
        )
        figures.append(f"<figure>{chart}<figcaption>learning: {explanation}, by round</figcaption></figure>")
    return f'<div class="card"><h3>{escape(column.name)}</h3><div class="pair">{"".join(figures)}</div></div>'


def _format_caption(column: ColumnProfile, observed: Sequence[float], imputed: Sequence[float]) -> str:
    number = column.kind == "number"
    seen, filled = (observed[-3], imputed[-3]) if number else (sum(observed), sum(imputed))
    return f"{int(seen):,} observed, {int(filled):,} imputed"


def _draw_shares(column: ColumnProfile, observed: Sequence[float], imputed: Sequence[float]) -> tuple[str, str]:
    order = sorted(range(len(observed)), key=lambda code: -observed[code])
    if len(order) <= _MOST_STATES:
        order, rest = list(range(len(observed))), []
    else:
        order, rest = order[:_MOST_STATES], order[_MOST_STATES:]
    labels = [str(column.states[code]) for code in order]
    seen, filled = [observed[code] for code in order], [imputed[code] for code in order]
    if rest:
        labels.append(f"{len(rest)} others")
        seen.append(sum(observed[code] for code in rest))
        filled.append(sum(imputed[code] for code in rest))
    return draw_bars(labels, seen, filled), ""


# -- the first rows ------------------------------------------------------------------------------------------------------


def format_preview(source: TableSource, profile: TableProfile, draw_models: DrawModels, kinds: Kinds, most: int) -> str:
    """Return the first rows that had missing cells as text, imputed cells marked with a star."""
    lines: list[list[str]] = []
    names = [name for name in source.names if name in profile.columns]
    for block in itertools.islice(source.blocks(_ROWS), 50):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            typed = block.cells(draw_models.names, kinds)
        cells = {name: profile.align_cells(name, typed.get(name), block.rows) for name in draw_models.names}
        fills = draw_models.fill(Table.from_cells(cells, stateless=True), block.start, 0)
        imputed = {
            (int(row), name): v for name, (rows, values) in fills.items() for row, v in zip(rows, values, strict=True)
        }
        values = block.values(names)
        for row in np.unique([row for row, _ in imputed]).tolist():
            line = [str(block.start + row + 1)]
            for name in names:
                value, star = values[name][row], ""
                if (row, name) in imputed:
                    value, star = imputed[row, name], "*"
                line.append(_format_cell(value, profile.columns[name].whole) + star)
            lines.append(line)
            if len(lines) >= most:
                return _lay_out(["row", *names], lines)
    return _lay_out(["row", *names], lines) if lines else "no cell was missing"


def _format_cell(value: Any, whole: bool) -> str:
    if value is None:
        return "?"
    if isinstance(value, float):
        value = int(value) if whole and value == int(value) else f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _lay_out(names: list[str], lines: list[list[str]]) -> str:
    heads = [_format_cell(name, False) for name in names]
    columns = [[head, *(line[index] for line in lines)] for index, head in enumerate(heads)]
    widths = [max(map(len, column)) for column in columns]
    count = len(widths)
    while count > 1 and sum(widths[:count]) + 2 * (count - 1) > _PREVIEW_WIDTH:
        count -= 1
    rows = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths[:count], strict=False)).rstrip()
        for row in zip(*columns[:count], strict=True)
    ]
    more = f" ({len(names) - count} more columns)" if count < len(names) else ""
    return "\n".join([*rows, f"* imputed{more}"])


_WIDTH, _HEIGHT = 360, 150
_LEFT, _BOTTOM, _TOP = 8, 20, 6
"""The size of a chart and its margins in pixels."""
_FEW = 20
"""Fewer imputed numbers than this are drawn as dots instead of shares."""


def format_number(value: float) -> str:
    """Return a number with four significant digits or so, for a label.

    Examples
    --------
    >>> format_number(1234567.0), format_number(0.123456), format_number(-2.0)
    ('1,234,567', '0.1235', '-2')
    """
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_range(low: float, high: float) -> tuple[str, str]:
    """Return the two ends of an axis as text, with enough digits to tell them apart.

    Examples
    --------
    >>> format_range(0.0, 12.5), format_range(9.97e11, 1.0031e12)
    (('0', '12.5'), ('9.9700e+11', '1.0031e+12'))
    """
    largest = max(abs(low), abs(high))
    digits = math.ceil(math.log10(largest / (high - low))) + 2 if high > low and largest else 0
    if digits <= 3 or largest / (high - low) > 1e13:
        return format_number(low), format_number(high)
    if 1e-4 <= largest < 1e9:
        places = max(0, digits - 1 - math.floor(math.log10(largest)))
        return f"{low:,.{places}f}", f"{high:,.{places}f}"
    return f"{low:.{digits - 1}e}", f"{high:.{digits - 1}e}"


def shorten_text(text: str, most: int) -> str:
    """Cut the middle out of a text longer than `most`, as long names often differ at their end.

    Examples
    --------
    >>> shorten_text("a very long name, number 7", 12)
    'a very…ber 7'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def _wrap_svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(parts)}</svg>'
    )


def _draw_text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{escape(text)}</text>'


def draw_histogram(
    ends: Sequence[float],
    observed: Sequence[float],
    imputed: Sequence[float],
    beyond: tuple[float, float],
    outside: tuple[float, float],
) -> str:
    """Draw the shares of observed numbers as an area and of imputed ones as a line.

    Parameters
    ----------
    ends : sequence of float
        The edges of the bins.
    observed, imputed : sequences of counts
        One count for each bin.
    beyond, outside : (below, above)
        How many observed and imputed numbers lie beyond the bins.
    """
    total = (sum(observed) + sum(beyond)) or 1.0
    others = (sum(imputed) + sum(outside)) or 1.0
    few = others < _FEW
    shares = [c / total for c in observed]
    lines = [0.0 if few else c / others for c in imputed]
    tails = [0.0 if few else c / others for c in outside]
    far = [c / total for c in beyond]
    highest = max([*shares, *lines, *tails, *far]) or 1.0
    below, above = (bool(beyond[side] or outside[side]) for side in (0, 1))
    margin = 34 if below or above else _LEFT
    step = (_WIDTH - 2 * margin) / len(shares)
    floor = _HEIGHT - _BOTTOM
    scale = (floor - _TOP) / highest
    parts = []
    for index, share in enumerate(shares):
        if share:
            x, y = margin + index * step, floor - share * scale
            parts.append(
                f'<rect class="o" x="{x:.2f}" y="{y:.2f}" width="{max(step - 0.6, 0.6):.2f}" height="{floor - y:.2f}"/>'
            )
    for share, x in ((far[0], 4.0), (far[1], _WIDTH - margin + 8.0)):
        if share:
            y = floor - max(share * scale, 1.0)
            parts.append(
                f'<rect class="o" x="{x:.1f}" y="{y:.2f}" width="{margin - 12:.1f}" height="{floor - y:.2f}"/>'
            )
    if few:
        centers = [8.0, *(margin + (index + 0.5) * step for index in range(len(shares))), _WIDTH - 8.0]
        for x, count in zip(centers, (outside[0], *imputed, outside[1]), strict=True):
            parts += [
                f'<circle class="dot" cx="{x:.2f}" cy="{floor - 4 - 7 * i:.2f}" r="3"/>' for i in range(round(count))
            ]
    else:
        parts.append(f'<path class="i" d="{_outline(lines, margin, step, floor, scale)}"/>')
        for share, x in ((tails[0], 4.0), (tails[1], _WIDTH - margin + 8.0)):
            if share:
                y = floor - max(share * scale, 1.5)
                parts.append(
                    f'<rect class="i" x="{x:.1f}" y="{y:.2f}" width="{margin - 12:.1f}" height="{floor - y:.2f}"/>'
                )
    if below:
        parts.append(_draw_text(3, _HEIGHT - 5, "below"))
    if above:
        parts.append(_draw_text(_WIDTH - 3, _HEIGHT - 5, "above", "end"))
    parts.append(f'<path class="axis" d="M{margin:.1f} {floor:.1f}H{_WIDTH - margin:.1f}"/>')
    inset = 8 if below or above else 0
    low, high = ends[0], ends[-1]
    if low % 1 == 0.5 and high % 1 == 0.5:
        low, high = low + 0.5, high - 0.5  # the bins are centered on whole numbers
    first, last = format_range(low, high)
    parts.append(_draw_text(margin + inset, _HEIGHT - 5, first))
    parts.append(_draw_text(_WIDTH - margin - inset, _HEIGHT - 5, last, "end"))
    return _wrap_svg(_WIDTH, _HEIGHT, parts, "distribution of observed and imputed numbers")


def _outline(lines: Sequence[float], margin: float, step: float, floor: float, scale: float) -> str:
    """Return the outline of adjacent bars as an SVG path; bars of height zero are left out."""
    points, up = [], False
    for index, share in enumerate([*lines, 0.0]):
        x, y = margin + index * step, floor - share * scale
        if share and not up:
            points.append(f"M{x:.2f} {floor:.2f}")
        if share:
            points.append(f"L{x:.2f} {y:.2f}L{x + step:.2f} {y:.2f}")
        elif up:
            points.append(f"L{x:.2f} {floor:.2f}")
        up = bool(share)
    return "".join(points)


def draw_bars(labels: Sequence[str], observed: Sequence[float], imputed: Sequence[float]) -> str:
    """Draw the shares of states as pairs of bars, observed above imputed."""
    total, others = sum(observed) or 1.0, sum(imputed)
    highest = max([c / total for c in observed] + [c / others for c in imputed if others]) or 1.0
    row, left, right = 26, 120, 44
    scale = (_WIDTH - left - right) / highest
    parts = []
    for index, (label, observed_count, imputed_count) in enumerate(zip(labels, observed, imputed, strict=True)):
        y = 4 + index * row
        shown = _draw_text(left - 6, y + 14, shorten_text(label, 18), "end")
        parts.append(f"<g><title>{escape(label)}</title>{shown}</g>")
        share = observed_count / total
        parts.append(f'<rect class="o" x="{left}" y="{y}" width="{share * scale:.2f}" height="9"/>')
        parts.append(_draw_text(left + share * scale + 4, y + 8.5, f"{share:.1%}", kind="small"))
        if others:
            share = imputed_count / others
            parts.append(f'<rect class="b" x="{left}" y="{y + 10}" width="{share * scale:.2f}" height="9"/>')
            parts.append(_draw_text(left + share * scale + 4, y + 19, f"{share:.1%}", kind="small"))
    return _wrap_svg(_WIDTH, 6 + row * len(labels), parts, "shares of observed and imputed states")


def draw_rounds(values: Sequence[float], spreads: Sequence[float] | None, observed: float | None = None) -> str:
    """Draw what each round of learning drew: a line of means or shares, and a band of one standard deviation.

    `observed` is the mean of the observed numbers, a dashed line.
    """
    width, height = 258, _HEIGHT
    band = spreads or [0.0] * len(values)
    low = min(v - s for v, s in zip(values, band, strict=True))
    high = max(v + s for v, s in zip(values, band, strict=True))
    if observed is not None:
        low, high = min(low, observed), max(high, observed)
    if spreads is None:
        low, high = min(low, 0.0), max(high, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    floor, left = height - _BOTTOM, 76
    step = (width - left - _LEFT) / max(len(values) - 1, 1)

    def at(index: int, value: float) -> str:
        return f"{left + index * step:.2f} {floor - (value - low) / (high - low) * (floor - _TOP):.2f}"

    parts = []
    if spreads is not None and len(values) > 1:
        upper = [at(i, v + s) for i, (v, s) in enumerate(zip(values, band, strict=True))]
        lower = [at(i, v - s) for i, (v, s) in enumerate(zip(values, band, strict=True))]
        parts.append(f'<path class="band" d="M{"L".join([*upper, *reversed(lower)])}Z"/>')
    if observed is not None:
        y = at(0, observed).split()[1]
        parts.append(f'<path class="dash" d="M{left} {y}H{width - _LEFT}"/>')
    if len(values) > 1:
        parts.append(f'<path class="i" d="M{"L".join(at(i, v) for i, v in enumerate(values))}"/>')
    parts += [
        f'<circle class="dot" cx="{x}" cy="{y}" r="2"/>' for x, y in (at(i, v).split() for i, v in enumerate(values))
    ]
    parts.append(f'<path class="axis" d="M{left:.1f} {_TOP}V{floor:.1f}H{width - _LEFT:.1f}"/>')
    least, most = format_range(low, high)
    parts.append(_draw_text(left - 5, _TOP + 8, most, "end"))
    parts.append(_draw_text(left - 5, floor, least, "end"))
    parts.append(_draw_text(left, height - 5, "round 1"))
    if len(values) > 1:
        parts.append(_draw_text(width - _LEFT, height - 5, str(len(values)), "end"))
    return _wrap_svg(width, height, parts, "what each round of learning drew")


def draw_patterns(names: Sequence[str], rows: Sequence[tuple[Sequence[bool], str]]) -> str:
    """Draw the patterns of missing cells: a line for each, with the number of rows that have it."""
    cell, top, right = 16, 98, 190
    width, height = len(names) * cell + right, top + len(rows) * cell + 4
    parts = []
    for index, name in enumerate(names):
        x, y = index * cell + cell * 0.7, top - 6
        shown = shorten_text(name, 15)
        parts.append(
            f'<g><title>{escape(name)}</title><text x="{x:.1f}" y="{y}" transform="rotate(-60 {x:.1f} {y})">{escape(shown)}</text></g>'
        )
    for line, (missing, label) in enumerate(rows):
        y = top + line * cell
        for index, hole in enumerate(missing):
            kind = "hole" if hole else "full"
            parts.append(
                f'<rect class="{kind}" x="{index * cell + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}"/>'
            )
        parts.append(_draw_text(len(names) * cell + 8, y + 12, label))
    return _wrap_svg(width, height, parts, "which cells are missing together")
