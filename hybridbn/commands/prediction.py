"""Add the predictions of a column to a table of any size, block by block."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hybridbn.commands.column_profiles import TableProfile, read_block
from hybridbn.commands.locations import (
    Location,
    refuse_existing_output,
)
from hybridbn.commands.models import find_node, kinds_of, read_model
from hybridbn.commands.output import Output
from hybridbn.commands.table_input import (
    TableRequest,
    answer_blocks,
    locate_output,
    open_input,
    read_profile,
    refuse_unknown_states,
)
from hybridbn.commands.terminal import RunMismatch, Terminal, UsageFault
from hybridbn.commands.workspace import lock_output
from hybridbn.errors import NetworkError, TableError
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.inference.queries import allow_draws
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells
from hybridbn.tables.formats.base import TableBlock, TableSource, fields_of, name_file_in_errors
from hybridbn.tables.formats.files import open_private, open_scratch
from hybridbn.variables import Continuous, Variable, shorten

_MOST_TOLD = 5
"""The most impossible rows that are named."""


@dataclass(frozen=True)
class PredictionRequest(TableRequest):
    """The options of ``hybridbn predict`` under their own names."""

    model: str = ""
    level: float = 0.9
    prefix: str | None = None


def predict(request: PredictionRequest, terminal: Terminal) -> None:
    """Write a table with the posterior of a column in each row.

    Raises
    ------
    HybridBNError, OSError
        If the model, the table or an option can't be used, or the system refuses a file operation.
    OutputTaken, RunMismatch
        If the output exists already or another run writes it, or the table changed while it was read.
    """
    began = time.monotonic()
    with terminal.forward_warnings():
        network = read_model(request.model)
        target = find_node(network, str(request.target))
    with open_input(request) as (origin, source), open_scratch() as folder:
        destination = locate_output(request, origin)
        if destination.path is not None and destination.path == Path(request.model).resolve():
            raise UsageFault(f"the output {destination.shown} is the model; choose another name")
        with lock_output(destination.beside(), destination.shown):
            refuse_existing_output(destination, request.no_clobber)
            profile = _profile(network, target, request, origin, source, destination, terminal)
            prefix = f"{target.name}_" if request.prefix is None else request.prefix
            predictor = partial(_predict, network, target.name, prefix, request.level)
            typed = [name for name, column in profile.columns.items() if column.variable is not None]
            variables = [network.variable(name) for name in typed if name in network and name != target.name]
            made, _ = predictor((read_block(next(source.blocks(1)), variables, {})[:0], 0))
            added = fields_of(made, destination.form.title)
            output = Output(destination, source, profile, None, request.encoding, added)
            with name_file_in_errors(origin.shown):
                blocks = answer_blocks(request, source, variables, predictor, "predicting", profile.rows)
                parts, impossible = _write_parts(blocks, output, folder)
            if not source.is_unchanged():
                raise RunMismatch(f"{origin.shown} was changed while it was read; run the command again")
            output.assemble(parts, not request.no_clobber, lambda status: None)
    if impossible:
        terminal.warn(
            f"rows that are impossible by the model have no prediction ({len(impossible):,}):"
            f" {', '.join(source.line_of(row) for row in impossible[:_MOST_TOLD])}"
            f"{', ...' if len(impossible) > _MOST_TOLD else ''}"
        )
    terminal.note(
        f"predicted {target.name!r} in {profile.rows:,} rows: {destination.shown} ({time.monotonic() - began:.1f} s)"
    )


def _profile(
    network: Network,
    target: Variable,
    request: PredictionRequest,
    origin: Location,
    source: TableSource,
    destination: Location,
    terminal: Terminal,
) -> TableProfile:
    """Read the table once, for the kinds of its columns, and refuse what the model can't use."""
    kinds = {name: kind for name, kind in kinds_of(network).items() if name != target.name}
    nodes = {*network} - {target.name}
    others = [name for name in source.names if name not in nodes]
    # text is copied into a file of the same format, whatever stands in columns that the model does not have
    copied = others if destination.form is origin.form and source.textual else ()
    known = TableRequest(request.input, chunk=request.chunk, marks=request.marks)
    profile = read_profile(source, origin.shown, known, terminal, kinds=kinds, leave=copied)
    if nodes and not nodes & {*profile.columns}:
        raise NetworkError(
            f"the model and the table have no column in common: {shorten(sorted(nodes))} against"
            f" {shorten(source.names)}"
        )
    absent = [name for name in network if name in nodes and name not in profile.columns]
    if absent:
        terminal.warn(
            f"the model has columns {shorten(absent)} that the table hasn't; they count as unknown in each row"
        )
    with name_file_in_errors(origin.shown):
        variables = {name: network.variable(name) for name in nodes}
        refuse_unknown_states(profile, variables, request.unknown, terminal)
        for name, variable in variables.items():
            column = profile.columns.get(name)
            if isinstance(variable, Continuous) and column is not None and column.kind == "number":
                low, high = variable.domain
                if column.low < low or column.high > high:
                    raise TableError(
                        f"column {name!r} holds numbers from {column.low:g} to {column.high:g}, but the model knows"
                        f" only those from {low:g} to {high:g}; mend or empty such cells"
                    )
    return profile


def _predict(
    network: Network, target: str, prefix: str, level: float, rows: tuple[Table, int]
) -> tuple[Table, list[int]]:
    """Return the new columns for a table with the number of its first row, and the rows that are impossible."""
    table, first = rows
    options = allow_draws(network, target, Options(impossible="nan"))
    described = list(_describe(network.posterior(target, table, options=options), level))
    # probabilities and ends of intervals are there wherever the evidence is possible
    lost = first + np.flatnonzero(described[-1][1].missing)
    return Table.from_cells({f"{prefix}{name}": cells for name, cells in described}), lost.tolist()


def _describe(posterior: Any, level: float) -> Iterator[tuple[str, Cells]]:
    if isinstance(posterior, DiscretePosterior):
        table = posterior.probabilities
        blank = np.isnan(table).any(axis=1)
        best = np.where(blank, -1, np.nan_to_num(table).argmax(axis=1)).astype(np.intp)
        yield "predicted", Cells(best, posterior.states)
        for number, state in enumerate(posterior.states):
            yield f"probability_{state}", Cells(table[:, number])
        return
    unit = posterior.variable.unit
    posterior = posterior.numeric
    low, high = np.moveaxis(np.reshape(posterior.interval(level), (-1, 2)), 1, 0)
    yield "mean", Cells(posterior.mean(), unit=unit)
    yield "sd", Cells(posterior.std())
    yield "low", Cells(low, unit=unit)
    yield "high", Cells(high, unit=unit)


def _write_parts(
    blocks: Generator[tuple[TableBlock, Table, tuple[Table, list[int]]]], output: Output, folder: Path
) -> tuple[list[Path], list[int]]:
    """Write the blocks with their predictions to files; return these, and the rows that are impossible."""
    parts: list[Path] = []
    impossible: list[int] = []
    with closing(blocks):
        for block, _, (made, lost) in blocks:
            impossible += lost
            parts.append(folder / f"part-{len(parts)}")
            with open_private(parts[-1]) as file:
                file.write(output.extend_part(block, made))
    return parts, impossible
