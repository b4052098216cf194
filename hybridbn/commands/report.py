"""The report of an imputation: counts of observed and imputed values, an HTML page with charts, and a preview of
rows.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.commands.column_profiles import ColumnProfile, TableProfile, read_block
from hybridbn.errors import escape_controls
from hybridbn.formatting import escape_markup, format_number, format_range, format_share, shorten_text
from hybridbn.learning.imputation.data_augmentation import Filler
from hybridbn.pictures.chart import SERIES, Chart
from hybridbn.pictures.tables import chart_histogram, chart_patterns, chart_rounds, chart_shares, choose_edges
from hybridbn.tables import Table
from hybridbn.tables.formats.base import Fills, TableSource
from hybridbn.variables import Values, Variable

_MOST_PATTERNS = 20
"""The page shows this many patterns of missing cells, the most frequent ones."""
_STYLE = """
:root{color-scheme:light dark;--ink:#1d2733;--dim:#5c6b7a;--line:#d5dce3;--back:#fff;--card:#f6f8fa}
@media(prefers-color-scheme:dark){:root{--ink:#e4e9ee;--dim:#9aa8b5;--line:#3a4550;--back:#14191e;--card:#1c232a}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:0 auto;
padding:28px 24px 60px;max-width:1080px}
h1{font-size:25px;margin:0 0 4px}h2{font-size:19px;margin:38px 0 6px}
h3{font-size:15px;margin:0 0 2px;overflow-wrap:anywhere}p{margin:6px 0;max-width:78ch}
.dim,.note{color:var(--dim)}.note{font-size:13.5px}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:14px}.wide{overflow-x:auto}
th,td{padding:4px 12px 4px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right}
td.name{overflow-wrap:anywhere;min-width:9ch}td.kind{white-space:nowrap}
.facts td:first-child{color:var(--dim);white-space:nowrap}.facts td{overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:1fr;gap:14px;margin-top:12px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px 16px}
.pair{display:flex;flex-wrap:wrap;gap:8px 36px;align-items:flex-start;margin-top:8px}
.pair figure{margin:0;max-width:min(360px,100%)}figcaption{font-size:12.5px;color:var(--dim)}
svg{display:block}.wide svg{max-width:none!important}
.key{display:inline-block;width:12px;height:12px;border-radius:2px;margin:0 5px -1px 0}
.warn{border-left:3px solid VERMILION;padding-left:10px}
""".replace("VERMILION", SERIES[1])
_PREVIEW_WIDTH = 118
"""The width of the preview in characters."""
_CELL = 16
"""The width of a cell of the preview in characters."""
_ROWS = 200
"""The preview reads the table in blocks of this many rows."""

ValueCounts: TypeAlias = dict[str, dict[str, list[float]]]
"""Counts of the values of columns, by name and by "observed" or "imputed"."""


# -- counts ---------------------------------------------------------------------------------------------------------


def _bin_edges(column: ColumnProfile) -> Values:
    """Return the edges of the bins that a column of numbers is counted in; they cover nearly all of its numbers."""
    return choose_edges(*(column.bulk or (column.low, column.high)), whole=column.whole)


def list_variables(profile: TableProfile, filler: Filler) -> list[Variable]:
    """Return the variables of the columns that are filled: the table's, or the model's where the table has no value."""
    known = filler.models[0].columns.variables
    return [profile.columns[name].variable or known[name] for name in filler.names]


def count_values(profile: TableProfile, table: Table, fills: Sequence[Fills]) -> ValueCounts:
    """Count the values of a block: the observed cells, and the imputed cells of all draws.

    For numbers these are the counts below, in and above the bins, then their number, sum and sum of squares; for
    states, the count of each.
    """
    value_counts: ValueCounts = {}
    for name in table.names:
        column, column_cells = profile.columns[name], table.cells(name)
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
            known = total.get(name, {})
            total[name] = {what: known.get(what, 0) + np.array(counts, dtype=float) for what, counts in kinds.items()}
    return {name: {what: counts.tolist() for what, counts in kinds.items()} for name, kinds in total.items()}


# -- the page -------------------------------------------------------------------------------------------------------


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
        f"<h1>{escape_markup(title)}</h1>",
        '<table class="facts">',
        *(f"<tr><td>{escape_markup(name)}</td><td>{escape_markup(text)}</td></tr>" for name, text in facts),
        "</table>",
        *(f'<p class="warn">{escape_markup(remark)}</p>' for remark in remarks),
        "<h2>Columns</h2>",
        _render_overview(profile, value_counts, draws),
        "<h2>Missing cells</h2>",
        _render_missing_patterns(profile),
        "<h2>Observed and imputed</h2>",
        (
            f'<p class="note"><span class="key" style="background:{SERIES[0]};opacity:.5"></span>observed cells &nbsp;'
            f' <span class="key" style="background:{SERIES[1]}"></span>imputed cells. Shares within each group. The two'
            " may differ with good reason: where cells are missing more often in some rows than in others, what is"
            " imputed follows those rows.</p>"
        ),
        '<div class="cards">',
        *(_render_card(profile.columns[name], counts, history) for name, counts in filled.items()),
        "</div>" if filled else "</div><p>No cell was missing.</p>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width"><title>{escape_markup(title)}</title><style>{_STYLE}</style></head><body>\n'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _render_overview(profile: TableProfile, value_counts: ValueCounts, draws: int) -> str:
    rows = []
    for name, column in profile.columns.items():
        share = column.missing / profile.rows
        counts = value_counts.get(name)
        seen = filled = "left alone" if counts is None and column.missing else ""
        if counts is not None:
            seen, filled = _summarize(column, counts["observed"]), _summarize(column, counts["imputed"])
        numbers = "whole numbers" if column.whole else "numbers" if column.unit is None else column.unit.describe()
        kind = {"number": numbers, "states": f"{len(column.states)} states"}.get(
            column.kind or "", column.unusable or "empty"
        )
        rows.append(
            f"<tr><td class=name>{escape_markup(name)}</td><td class=kind>{kind}</td>"
            f"<td class=n>{column.missing:,}</td><td class=n>{format_share(share)}</td><td>{escape_markup(seen)}</td>"
            f"<td>{escape_markup(filled if column.missing else '')}</td></tr>"
        )
    note = f" Imputed: all {draws} draws together." if draws > 1 else ""
    return (
        '<div class="wide"><table><tr><th>column</th><th>type</th><th class=n>missing</th><th'
        " class=n>share</th><th>observed</th>"
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
        spread = format_number(math.sqrt(max(squares / number - mean * mean, 0.0)))
        if column.unit is not None:
            return f"{column.unit.text(mean + center)} ± {spread} {column.unit.name.split()[0]}"
        return f"{format_number(mean + center)} ± {spread}"
    if not sum(counts):
        return ""
    best = max(range(len(counts)), key=lambda code: counts[code])
    return f"{shorten_text(str(column.states[best]), 32)} ({format_share(counts[best] / sum(counts))})"


def _render_missing_patterns(profile: TableProfile) -> str:
    names = [name for name, column in profile.columns.items() if column.missing]
    if not names:
        return "<p>None.</p>"
    positions = {name: position for position, name in enumerate(profile.usable.names)}
    merged = Counter[tuple[bool, ...]]()
    for pattern, count in profile.patterns.items():
        key = tuple(name not in positions or bool(pattern[positions[name]]) for name in names)
        merged[key] += count
    chart = chart_patterns(names, merged, profile.rows, len(profile.columns), most=_MOST_PATTERNS)
    hidden = len(merged) - _MOST_PATTERNS
    rest = profile.rows - sum(sorted(merged.values())[-_MOST_PATTERNS:])
    more = f" {rest:,} rows have one of the {hidden:,} or more other patterns." if hidden > 0 else ""
    cells = sum(column.missing for column in profile.columns.values())
    total = profile.rows * len(profile.columns)
    return (
        f"<p>{cells:,} of {total:,} cells ({format_share(cells / total)}) are missing, in {len(names)} of"
        f" {len(profile.columns)} columns. "
        f"Each line is a combination of missing cells (filled squares) and the rows that have it.{more}</p>"
        f'<div class="wide">{_draw(chart)}</div>'
    )


def _render_card(
    column: ColumnProfile, counts: Mapping[str, Sequence[float]], history: Sequence[Mapping[str, Any]]
) -> str:
    observed, imputed = counts["observed"], counts["imputed"]
    if column.kind == "number":
        ends = _bin_edges(column).tolist()
        chart = chart_histogram(column.name, ends, observed[:-3], imputed[:-3], column.unit)
        beyond = int(imputed[0] + imputed[-4])
        note = f"; {beyond:,} imputed beyond the observed numbers" if beyond else ""
        if column.bulk is not None:
            note = f"; observed from {' to '.join(_format_ends(column))}, few of them far from the others"
    else:
        chart, note = chart_shares(column.name, [str(state) for state in column.states], observed, imputed), ""
    entries = [entry[column.name] for entry in history if column.name in entry]
    figures = [
        f"<figure>{_draw(chart)}<figcaption>{_format_caption(column, observed, imputed)}{note}</figcaption></figure>"
    ]
    if entries:
        spread = isinstance(entries[0], list | tuple)
        mean = observed[-2] / observed[-3] + (column.low + column.high) / 2 if spread and observed[-3] else None
        middle, spreads = [v[0] if spread else v for v in entries], [v[1] for v in entries] if spread else None
        rounds = chart_rounds(column.name, middle, spreads, mean, column.unit)
        explanation = (
            "mean ± standard deviation of what was drawn (dashed: observed mean)"
            if spread
            else "share of the state drawn most"
        )
        figures.append(f"<figure>{_draw(rounds)}<figcaption>learning: {explanation}, by round</figcaption></figure>")
    return f'<div class="card"><h3>{escape_markup(column.name)}</h3><div class="pair">{"".join(figures)}</div></div>'


def _draw(chart: Chart) -> str:
    """Draw a chart without a legend: the page has one for all."""
    return replace(chart, legend=False).to_svg()


def _format_ends(column: ColumnProfile) -> tuple[str, str]:
    low, high = column.low, column.high
    return format_range(low, high) if column.unit is None else (column.unit.text(low), column.unit.text(high))


def _format_caption(column: ColumnProfile, observed: Sequence[float], imputed: Sequence[float]) -> str:
    seen, filled = (observed[-3], imputed[-3]) if column.kind == "number" else (sum(observed), sum(imputed))
    return f"{int(seen):,} observed, {int(filled):,} imputed"


# -- the first rows -------------------------------------------------------------------------------------------------


def format_preview(source: TableSource, profile: TableProfile, filler: Filler, most: int) -> str:
    """Return the first rows that had missing cells as text, imputed cells marked with a star."""
    lines: list[list[str]] = []
    names = [name for name in source.names if name in profile.columns]
    for block in itertools.islice(source.blocks(_ROWS), 50):
        fills = filler.fill_table(0, read_block(block, list_variables(profile, filler), source.marks), block.start)
        imputed = {
            (int(row), name): v for name, (rows, values) in fills.items() for row, v in zip(rows, values, strict=True)
        }
        values = block.values(names)
        for row in np.unique([row for row, _ in imputed]).tolist():
            line = [str(block.start + row + 1)]
            for name in names:
                value, star = values[name][row], ""
                if (row, name) in imputed:
                    value, star = profile.columns[name].restore([imputed[row, name]])[0], "*"
                line.append(_format_cell(value, profile.columns[name].whole) + star)
            lines.append(line)
            if len(lines) >= most:
                return _lay_out(["row", *names], lines)
    return _lay_out(["row", *names], lines) if lines else "no cell was missing"


def _format_cell(value: Any, whole: bool) -> str:
    if value is None:
        return "?"
    if isinstance(value, datetime.datetime):
        value = value.replace(tzinfo=None) if value.time() != datetime.time() else value.date()
    if isinstance(value, float):
        value = int(value) if whole and value == int(value) else f"{value:.4g}"
    text = escape_controls(" ".join(str(value).split()))
    return shorten_text(text, _CELL)


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
