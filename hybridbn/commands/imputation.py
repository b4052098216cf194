"""Run ``hybridbn impute`` on a table: profile its columns, learn, fill it block by block, and join the parts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

import hybridbn
from hybridbn.commands.column_profiles import TableProfile, read_block
from hybridbn.commands.engines import open_engine, share_blocks
from hybridbn.commands.impute import ImputationRun, identify_file
from hybridbn.commands.model_options import find_structure, kinds_of
from hybridbn.commands.output import Output
from hybridbn.commands.report import add_counts, count_values, format_preview, list_variables, render_page
from hybridbn.commands.table_input import (
    choose_columns,
    forward_warnings,
    read_profile,
    refuse_unknown_states,
    rows_per_block,
)
from hybridbn.commands.workspace import RunMismatch
from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.completion import seed_of
from hybridbn.exchange.hbn import load_network, save
from hybridbn.fitting.base import check_spec
from hybridbn.jobs import track
from hybridbn.learning.imputation.data_augmentation import Filler, Settings, fit_imputation, use_network
from hybridbn.learning.imputation.model import Model, has_metadata, read_columns
from hybridbn.network import Network
from hybridbn.options import ImputationOptions
from hybridbn.tables import Table
from hybridbn.tables.columns import open_frame
from hybridbn.tables.formats.base import Fills, TableBlock, name_file_in_errors
from hybridbn.tables.formats.files import remove_unfinished, resolve_links, write_atomically
from hybridbn.variables import shorten

__all__ = ["complete"]

Rows: TypeAlias = tuple[Table, int]
"""Rows, and the number of the first one."""

_MOST_TOLD = 8
"""So many columns with numbers outside of the observed range are named."""


def complete(run: ImputationRun) -> None:
    """Impute the missing cells of a run's table and write the output."""
    request = run.request
    check_spec(request.potentials)
    if request.structure != "auto":  # all builders are imported for that
        find_structure(request.structure)
    model = None if request.model is None else load_network(request.model)
    _profile(run, model)
    output = _make_output(run)
    output.try_to_create()
    _learn(run, model)
    with forward_warnings(run.terminal):
        run.filler.models[0].columns.rules.tell()
    parts = _write_parts(run, output)
    if not run.source.is_unchanged():
        raise RunMismatch(f"{run.origin.shown} was changed while it was read; run the command again")
    if not run.destination.pipe:  # which may be the same terminal
        run.terminal.show_step("writing")
    output.assemble(parts, not request.no_clobber, partial(_finish, run))
    run.terminal.clear_step()
    _summarize(run)


def _profile(run: ImputationRun, model: Network | None) -> None:
    """Read the whole table once, to profile its columns and to sample rows."""
    request = run.request
    kinds = {} if model is None else kinds_of(model)
    # Columns that number the rows are left out unless the user names them.
    index = run.source.index - {*kinds, *request.discrete, *request.continuous, *request.include}
    if run.source.names and {*run.source.names} <= {*request.keep} | index:
        raise TableError(f"{run.origin.shown}: no column is left to complete: all of them are kept as they are")
    named = request.bounds if isinstance(request.bounds, dict) else ()
    run.profile = read_profile(
        run.source, run.origin.shown, request, run.terminal, kinds=kinds, bounds=named, leave=index
    )


def _learn(run: ImputationRun, model: Network | None) -> None:
    """Learn models from the sample, or load those of an earlier run, or use the network of the user."""
    request, workspace, profile = run.request, run.workspace, run.profile
    with forward_warnings(run.terminal):
        _warn_about_strategy(run)
        with name_file_in_errors(run.origin.shown):
            names = _choose_columns(run, model)
        table = profile.sample.select(names)
        settings = _make_settings(run, names)
        if model is not None:
            run.filler = _apply_network(model, table, settings, request.draws)
            refuse_unknown_states(profile, run.filler.models[0].columns.variables, request.unknown, run.terminal)
            return
        history = workspace.json("history.json")
        count = request.draws or 1
        if history is not None:
            networks = [load_network(workspace.path(f"model-{draw}.hbn")) for draw in range(count)]
            models = [Model.from_metadata(network, settings.options) for network in networks]
            run.filler = Filler(models, settings.strategy, seed_of(settings.random_state), history)
            return
        run.terminal.show_step("learning")
        ranges = {name: field.limits for name, field in run.source.fields.items() if field.limits is not None}
        run.filler = Filler.of(fit_imputation(table, settings, ranges), request.strategy, request.draws)
    for draw in range(count):
        save(run.filler.models[draw].network, workspace.path(f"model-{draw}.hbn"))
    workspace.put_json("history.json", run.filler.history)


def _apply_network(network: Network, table: Table, settings: Settings, draws: int | None) -> Filler:
    """Return what fills a table with a network of the user."""
    if has_metadata(network):
        absent = [name for name in read_columns(network).variables if name not in table.names]
        if absent:
            raise NetworkError(
                f"the model completes the columns {shorten(absent)}, but the table hasn't; its columns are"
                f" {shorten(table.names)}"
            )
    return Filler.of(use_network(network, open_frame(table), settings), settings.strategy, draws)


def _choose_columns(run: ImputationRun, model: Network | None) -> list[str]:
    """Return the columns to complete: those that the model knows, or all but those that are left alone."""
    profile, terminal = run.profile, run.terminal
    if model is None:
        for name in run.request.include:
            column = profile.columns[name]
            if column.variable is None or column.overflowing:
                raise TableError(f"--include {name}: the column has {column.reason_alone}, so nothing can be imputed")
        names = choose_columns(profile, run.request, terminal, "completes identifiers and texts from their own values")
        if profile.blank and len(profile.columns) > 1:
            terminal.warn(
                f"rows without any observed cell ({profile.blank:,}) are drawn from the distribution of all rows"
            )
        if not names:
            raise TableError("no column is left to complete")
        return names
    known = set(kinds_of(model)) | set(model)
    if not known & set(profile.columns):
        raise NetworkError(
            f"the model and the table have no column in common: {shorten(sorted(known))} against"
            f" {shorten(profile.columns)}"
        )
    absent = [name for name in model if name not in profile.columns]
    if absent and "imputation" not in model.graph:
        terminal.warn(
            f"the model has columns {shorten(absent)} that the table hasn't; they count as unknown in each row"
        )
    unmodeled = [n for n, c in profile.columns.items() if c.missing and n not in known and c.reason_alone is None]
    if unmodeled:
        raise NetworkError(
            f"columns {shorten(unmodeled)} have missing cells, but the model doesn't know them; --keep them, or"
            " learn a model that does"
        )
    return [name for name in profile.columns if name in known]


def _make_settings(run: ImputationRun, names: list[str]) -> Settings:
    request = run.request
    columns = {name: run.profile.columns[name] for name in names}
    whole = [name for name, column in columns.items() if column.kind == "number" and column.integer]
    changed = {
        "include": [name for name in request.include if name in names],
        # a network says nothing of types, and where one is learned, columns of whole numbers are seen in the sample
        "integers": None if request.model is None else whole,
    }
    return Settings(**{option.name: getattr(request, option.name) for option in fields(ImputationOptions)} | changed)


def _warn_about_strategy(run: ImputationRun) -> None:
    request = run.request
    if request.strategy != "draw":
        run.terminal.warn(
            f"--strategy {request.strategy} makes variances too small and correlations too large: fine to predict"
            " single cells, wrong for any estimate computed from the completed table; --draws 20 and hybridbn.pool are"
            " right"
        )
    if request.draws and request.model is not None:
        run.terminal.warn(
            "the draws share the model's parameters, so intervals that are pooled from them are too short; without"
            " --model, each draw has parameters of its own"
        )


def _make_output(run: ImputationRun) -> Output:
    request, delimiter = run.request, run.request.output_delimiter
    if delimiter is None and (run.destination.form, run.destination.suffix) == (run.origin.form, run.origin.suffix):
        delimiter = request.delimiter  # files with the same suffix get the same delimiter
    counter = request.draw_column if request.draws is not None else None
    return Output(run.destination, run.source, run.profile, counter, request.encoding, {"delimiter": delimiter})


def _write_parts(run: ImputationRun, output: Output) -> list[Path]:
    """Write the parts that do not exist yet; return all of them in the order of the output."""
    request, workspace, profile = run.request, run.workspace, run.profile
    rows, draws = rows_per_block(run.source, run.request), request.draws or 1
    source = run.source
    count = -(-profile.rows // rows)
    # A block is complete when the part of its last draw exists, which is written last.
    first = next((block for block in range(count) if not workspace.has(f"part-{draws - 1}-{block}")), count)
    done = min(first * rows, profile.rows)
    with open_engine(request) as engine, track("imputing", profile.rows, first=done, unit="rows") as report:
        if first < count:
            blocks = (_divide_block(run, block) for block in source.blocks(rows, first))
            shared = share_blocks(engine, partial(_fill, run.filler, draws), blocks)
            for number, ((block, table), fills) in enumerate(shared, start=first):
                workspace.put_json(f"outside-{number}.json", _count_outside(profile, fills))
                if request.report:
                    workspace.put_json(f"tally-{number}.json", count_values(profile, table, fills))
                for draw, part_fills in enumerate(fills):
                    workspace.put(f"part-{draw}-{number}", output.make_part(block, part_fills, draw))
                report(block.start + block.rows - source.span.start, "")
    if request.report:
        run.value_counts = add_counts(workspace.json(f"tally-{number}.json") for number in range(count))
    for number in range(count):
        for name, outside in (workspace.json(f"outside-{number}.json") or {}).items():
            run.outside[name] = run.outside.get(name, 0) + outside
    return [workspace.path(f"part-{draw}-{number}") for draw in range(draws) for number in range(count)]


def _count_outside(profile: TableProfile, fills: list[Fills]) -> dict[str, int]:
    """Return how many imputed numbers of each column lie outside of its observed range."""
    counts = {}
    for name in fills[0]:
        column = profile.columns[name]
        if column.kind == "number":
            values = np.concatenate([np.asarray(part[name][1], dtype=np.float64) for part in fills])
            if outside := int(((values < column.low) | (values > column.high)).sum()):
                counts[name] = outside
    return counts


def _divide_block(run: ImputationRun, block: TableBlock) -> tuple[tuple[TableBlock, Table], Rows]:
    """Return a block with its cells, which stay here, and what is sent to whoever fills it."""
    table = read_block(block, list_variables(run.profile, run.filler))
    return (block, table), (table, block.start)


def _fill(filler: Filler, draws: int, rows: Rows) -> list[Fills]:
    return [filler.fill_table(draw, *rows) for draw in range(draws)]


# -- the end --------------------------------------------------------------------------------------------------------


def _finish(run: ImputationRun, status: os.stat_result | None = None) -> None:
    """Save the model and the report, and record that the output, a file of this state, only lacks its name."""
    request, mark = run.request, run.workspace.mark
    if request.save_model is not None:
        _replace_file(request.save_model, run.workspace.path("model-0.hbn").read_bytes(), mark)
    if request.report is not None:
        facts, remarks = _list_facts(run), run.terminal.warnings
        text = render_page(
            f"Imputation of {run.origin.shown}",
            facts,
            run.profile,
            run.value_counts,
            run.filler.history,
            remarks,
            request.draws or 1,
        )
        _replace_file(request.report, text.encode(), mark)
    rows = run.profile.rows * (request.draws or 1)
    run.workspace.note_finishing({"rows": rows, "file": None if status is None else identify_file(status)})


def _replace_file(path: str, data: bytes, mark: str) -> None:
    remove_unfinished(resolve_links(path), mark)
    write_atomically(path, data, mark=mark)


def _list_facts(run: ImputationRun) -> list[tuple[str, str]]:
    request, profile = run.request, run.profile
    network = run.filler.models[0].network
    columns = f"{len(run.source.names)} columns, {len(run.filler.names)} of them in the model"
    learned = f"{len(profile.sample):,} of {profile.rows:,} rows" if len(profile.sample) < profile.rows else "all rows"
    if request.model is not None:
        origin = f"from {request.model}"
    else:
        origin = f"learned from {learned}, structure {request.structure}, {len(run.filler.history)} rounds"
    arcs = (
        "nothing depends on anything" if not len(network) else f"{len(network)} nodes, {network.number_of_edges()} arcs"
    )
    return [
        ("output", run.destination.shown),
        ("table", f"{profile.rows:,} rows, {columns}"),
        ("model", f"{origin}: {arcs}"),
        (
            "strategy",
            f"{request.strategy}, seed {request.random_state}" + (f", {request.draws} draws" if request.draws else ""),
        ),
        ("version", f"hybridbn {hybridbn.__version__}"),
    ]


def _summarize(run: ImputationRun) -> None:
    profile, terminal = run.profile, run.terminal
    names = [name for name in run.filler.names if profile.columns[name].missing]
    cells = sum(profile.columns[name].missing for name in names)
    draws = f", {run.request.draws} times" if run.request.draws else ""
    terminal.note(
        f"completed {cells:,} cells in {len(names)} of {len(run.source.names)} columns, {profile.rows:,} rows{draws}: "
        f"{run.destination.shown} ({time.monotonic() - run.began:.1f} s)"
    )
    if run.outside:
        columns = []
        for name, count in run.outside.items():
            column = profile.columns[name]
            low, high = (
                f"{end:g}" if column.unit is None else column.unit.text(end) for end in (column.low, column.high)
            )
            columns.append(f"{name} ({count:,} outside of {low} to {high})")
        terminal.warn(
            f"{sum(run.outside.values()):,} imputed numbers lie outside of the observed range:"
            f" {', '.join(columns[:_MOST_TOLD])}{', ...' if len(columns) > _MOST_TOLD else ''}; --bounds observed keeps"
            " them within"
        )
    if run.request.show and not run.destination.pipe:
        show: Callable[[str], None] = terminal.show
        show(
            format_preview(
                run.source,
                run.profile,
                run.filler,
                run.request.show,
            )
        )
