"""What the command prints, as text, CSV or JSON: posteriors, and what is wrong with a table or a model."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridbn.commands.column_profiles import ColumnProfile, TableProfile
from hybridbn.commands.models import read_model
from hybridbn.commands.table_input import TableRequest, open_input, read_profile
from hybridbn.commands.terminal import Terminal, reword_for_command
from hybridbn.errors import escape_controls
from hybridbn.formatting import format_number, format_of
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.network_description import as_line
from hybridbn.tables.columns import describe_look_alikes
from hybridbn.tables.scales import describe_marks
from hybridbn.variables import Values, shorten

_BAR = 24
"""A probability of one is a bar of so many signs."""
_CURVE = 40
"""A density curve has so many signs."""
_MOST_STATES = 30
"""The most states of a variable that are drawn, the most probable ones."""
_MOST_STEMS = 12
"""More values with a probability are drawn as a curve."""

HEADER = ("variable", "statistic", "state", "value")


class Style:
    """What the terminal can show: colors unless NO_COLOR is set, and block characters if its encoding has them."""

    def __init__(self) -> None:
        shown = sys.stdout is not None and sys.stdout.isatty()
        self.colors: bool = shown and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        encoding = getattr(sys.stdout, "encoding", None) or "ascii"
        try:
            "█▁".encode(encoding)
            self.blocks: bool = True
        except (UnicodeEncodeError, LookupError):
            self.blocks = False

    def mark(self, text: str, *, faint: bool = False) -> str:
        """Return a text in bold, or in a weaker color."""
        return f"\x1b[{2 if faint else 1}m{text}\x1b[0m" if self.colors else text

    def draw_bar(self, share: float) -> str:
        """Return a bar for a share of one."""
        return "" if math.isnan(share) else ("█" if self.blocks else "#") * round(_BAR * share)


def choose_form(asked: str | None) -> str:
    """Return the form of an answer: what was asked for, or text on a terminal and CSV into a pipe."""
    return asked or ("text" if sys.stdout is not None and sys.stdout.isatty() else "csv")


def print_rows(
    terminal: Terminal, form: str | None, header: Sequence[str], rows: Iterable[Sequence[Any]], tree: Any, text: str
) -> None:
    """Print an answer in the form that was asked for: rows as CSV, a tree as JSON, or a text."""
    form = choose_form(form)
    if form == "json":
        terminal.show(json.dumps(_replace_nan(tree), ensure_ascii=False, indent=2, default=str))
    elif form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([["" if _is_nan(cell) else cell for cell in row] for row in rows])
        terminal.show(out.getvalue().rstrip("\n"))
    else:
        terminal.show(text, styled=True)


def _is_nan(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _replace_nan(tree: Any) -> Any:
    """Return a tree in which null stands for numbers that JSON can't hold."""
    if isinstance(tree, Mapping):
        return {str(key): _replace_nan(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_replace_nan(value) for value in tree]
    return None if isinstance(tree, float) and not math.isfinite(tree) else tree


def describe_posterior(posterior: Any, level: float) -> dict[str, Any]:
    """Return the posterior of one variable as a tree for JSON."""
    if isinstance(posterior, DiscretePosterior):
        states = [state if isinstance(state, str | int | float | bool) else str(state) for state in posterior.states]
        return {"states": states, "probabilities": posterior.probabilities.tolist(), "mode": posterior.mode()}
    unit, posterior = posterior.variable.unit, posterior.numeric
    low, high = posterior.interval(level)
    numbers = {"mean": posterior.mean(), "median": posterior.median(), "low": low, "high": high}
    shown = {name: _write(unit, value) for name, value in numbers.items()}
    sd_unit = {} if unit is None else {"sd_unit": unit.name.split()[0]}
    return {**shown, "sd": float(posterior.std()), "level": level, **sd_unit}


def _write(unit: Any, value: Any) -> Any:
    """Return a number as it is, or a number of days in words."""
    return float(value) if unit is None or not unit.is_time or not math.isfinite(value) else unit.text(float(value))


def list_posterior(name: str, posterior: Any, level: float) -> list[tuple[Any, ...]]:
    """Return the rows of CSV for the posterior of one variable, with the columns of `HEADER`."""
    tree = describe_posterior(posterior, level)
    if "states" in tree:
        pairs = zip(tree["states"], tree["probabilities"], strict=True)
        return [(name, "probability", state, probability) for state, probability in pairs]
    return [(name, statistic, "", tree[statistic]) for statistic in ("mean", "sd", "low", "median", "high")]


def draw_posterior(name: str, posterior: Any, level: float, style: Style) -> str:
    """Return the posterior of one variable as text with bars, or with a curve."""
    tree, name = describe_posterior(posterior, level), escape_controls(name)
    if "states" in tree:
        bars = _draw_bars(map(str, tree["states"]), tree["probabilities"], style)
        return "\n".join([style.mark(name), *bars])
    variable, trace = posterior.variable, posterior.trace()
    shown = {key: value if isinstance(value, str) else format_of(variable, value) for key, value in tree.items()}
    spread = f"{format_number(tree['sd'])} {tree.get('sd_unit', '')}".rstrip()
    interval = f"{level:.0%} from {shown['low']} to {shown['high']}"
    lines = [f"{style.mark(name)}  mean {shown['mean']}, sd {spread}, {interval}"]
    x, heights = (trace.x, trace.density) if len(trace.x) else (trace.values, trace.probabilities)
    if len(trace.x) or len(trace.values) <= _MOST_STEMS:
        stems = [format_of(variable, value) for value in trace.values.tolist()]
        lines += _draw_bars(stems, trace.probabilities.tolist(), style) if tree["sd"] > 0 else []
    if style.blocks and (len(trace.x) or len(trace.values) > _MOST_STEMS):
        lines.append(f"  {style.mark(_draw_curve(x, heights), faint=True)}")
    return "\n".join(lines)


def _draw_bars(states: Iterable[str], probabilities: Sequence[float], style: Style) -> list[str]:
    """Return a line with a bar for each state, or for the most probable ones."""
    pairs = list(zip(map(escape_controls, states), probabilities, strict=True))
    shown = pairs if len(pairs) <= _MOST_STATES else sorted(pairs, key=lambda pair: -pair[1])[:_MOST_STATES]
    width = min(max((len(state) for state, _ in shown), default=0), 40)
    more = [f"  ... ({len(pairs)} in all)"] if len(shown) < len(pairs) else []
    return [*(f"  {state:<{width}}  {value:6.1%}  {style.draw_bar(value)}".rstrip() for state, value in shown), *more]


def _draw_curve(x: Values, density: Values) -> str:
    """Return a curve as a line of blocks."""
    heights = np.interp(np.linspace(x[0], x[-1], _CURVE), x, density)
    steps = np.rint(heights / heights.max() * 8).astype(int)
    return "".join(" ▁▂▃▄▅▆▇█"[step] for step in steps).rstrip()


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> str:
    """Return rows of text in aligned columns; the last one may be cut off where the terminal ends."""
    rows = [[escape_controls(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    most = shutil.get_terminal_size().columns
    padded = [[f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)] for row in (header, *rows)]
    lines = ["  ".join(cells).rstrip()[: max(most, 40)] for cells in padded]
    return "\n".join([style.mark(lines[0]), *lines[1:]])


# -- what is wrong with a table or a model -----------------------------------------------------------------------------


_HEADER = ("column", "kind", "missing", "values", "remark")


def check_model(path: str, form: str | None, terminal: Terminal) -> None:
    """Say that a model has no faults; one that has some is refused with a list of them."""
    with terminal.forward_warnings():
        network = read_model(path)
    line = f"{path}: {as_line(network)}; no faults"
    facts = {"nodes": len(network), "arcs": network.number_of_edges(), "faults": 0}
    print_rows(terminal, form, tuple(facts), [tuple(facts.values())], {"model": path, **facts}, line)


def check_table(request: TableRequest, form: str | None, terminal: Terminal) -> None:
    """Say what each column of a table is, and what looks odd."""
    with open_input(request) as (location, source):
        profile = read_profile(source, location.shown, request, terminal)
        order = [name for name in source.names if name in profile.columns]
    described = [_describe(profile, profile.columns[name]) for name in order]
    texts = [[str(cell[key]) for key in _HEADER] for cell in described]
    head = (
        f"{location.shown}: {profile.rows:,} rows, {len(order)} columns,"
        f" {sum(column.missing for column in profile.columns.values()):,} missing cells"
    )
    if profile.blank:
        head += f", {profile.blank:,} rows without any value"
    text = f"{head}\n\n{format_table(_HEADER[:4], [row[:4] for row in texts], Style())}"
    odd = [f"  {row[0]}: {row[4]}" for row in texts if row[4]]
    text += "\n\n" + "\n".join(["remarks", *odd] if odd else ["no remarks"])
    tree = {"table": location.shown, "rows": profile.rows, "blank_rows": profile.blank, "columns": described}
    print_rows(terminal, form, _HEADER, texts, tree, text)


def _describe(profile: TableProfile, column: ColumnProfile) -> dict[str, Any]:
    marks = () if column.draw is None else column.draw().marks(column.name)
    remarks = [reword_for_command(describe_marks({column.name: marks}))] if marks else []
    if column.reason_alone is not None:
        remarks.append(f"{column.reason_alone}; left alone by imputation and learning")
    elif len(column.states) == 1 or (column.kind == "number" and column.low == column.high):
        remarks.append("only one value, which tells nothing of other columns")
    if column.kind == "states" and (alike := describe_look_alikes(column.name, column.states)):
        remarks.append(alike)
    if column.bulk is not None:
        low, high = (_format_value(column, end) for end in column.bulk)
        remarks.append(f"nearly all values lie between {low} and {high}, a few far from these")
    if profile.rows > 1 and 2 * column.missing > profile.rows and column.observed:
        remarks.append(f"{column.missing / profile.rows:.0%} of the cells are missing")
    return {
        "column": column.name,
        "kind": _name_kind(column),
        "missing": column.missing,
        "values": _summarize(column),
        "remark": "; ".join(remarks),
    }


def _name_kind(column: ColumnProfile) -> str:
    unusable = "nothing" if column.unusable == "no value" else "unusable"
    return column.kind or unusable if column.unit is None else column.unit.kind


def _summarize(column: ColumnProfile) -> str:
    if column.kind is None:
        return ""
    if column.kind == "number":
        return f"{_format_value(column, column.low)} to {_format_value(column, column.high)}"
    return "very many" if column.overflowing else f"{len(column.states):,}: {shorten(column.states, 4)}"


def _format_value(column: ColumnProfile, value: float) -> str:
    return format_number(value) if column.unit is None else column.unit.text(value)
