"""What is wrong with a table or a model."""

from __future__ import annotations

from typing import Any

from hybridbn.commands.answers import Style, choose_form, format_table, print_rows
from hybridbn.commands.column_profiles import ColumnProfile, TableProfile
from hybridbn.commands.model_options import read_model
from hybridbn.commands.table_input import TableRequest, describe_remarks, forward_warnings, open_input, read_profile
from hybridbn.commands.terminal import Terminal
from hybridbn.formatting import format_number
from hybridbn.network_description import as_line
from hybridbn.tables.columns import describe_look_alikes
from hybridbn.variables import shorten

_HEADER = ("column", "kind", "missing", "values", "remark")


def check_model(path: str, form: str | None, terminal: Terminal) -> None:
    """Say that a model has no faults; one that has some is refused with a list of them."""
    with forward_warnings(terminal):
        network = read_model(path)
    line = f"{path}: {as_line(network)}; no faults"
    facts = {"nodes": len(network), "arcs": network.number_of_edges(), "faults": 0}
    print_rows(terminal, choose_form(form), tuple(facts), [tuple(facts.values())], {"model": path, **facts}, line)


def check_table(request: TableRequest, form: str | None, terminal: Terminal) -> None:
    """Say what each column of a table is, and what looks odd."""
    with open_input(request) as (location, source):
        profile = read_profile(source, location.shown, request, terminal)
        order = [name for name in source.names if name in profile.columns]
    remarks = dict(describe_remarks(profile))
    described = [_describe(profile, profile.columns[name], remarks.get(name)) for name in order]
    chosen = choose_form(form)
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
    print_rows(terminal, chosen, _HEADER, texts, tree, text)


def _describe(profile: TableProfile, column: ColumnProfile, remark: str | None) -> dict[str, Any]:
    remarks = [] if remark is None else [remark]
    if column.reason_alone is not None:
        remarks.append(f"{column.reason_alone}; left alone by imputation and learning")
    elif len(column.states) == 1 or (column.kind == "number" and column.low == column.high):
        remarks.append("only one value, which tells nothing of other columns")
    if column.kind == "states" and (alike := describe_look_alikes(column.name, column.states)):
        remarks.append(alike)
    if column.bulk is not None:
        low, high = (_write(column, end) for end in column.bulk)
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
    if column.kind is None:
        return "nothing" if column.unusable == "no value" else "unusable"
    if column.unit is not None:
        return column.unit.kind
    return {"number": "number", "states": "states"}[column.kind]


def _summarize(column: ColumnProfile) -> str:
    if column.kind is None:
        return ""
    if column.kind == "number":
        return f"{_write(column, column.low)} to {_write(column, column.high)}"
    if column.overflowing:
        return "very many"
    return f"{len(column.states):,}: {shorten(column.states, 4)}"


def _write(column: ColumnProfile, value: float) -> str:
    return format_number(value) if column.unit is None else column.unit.text(value)
