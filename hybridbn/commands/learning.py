"""Learn a model from a table of any size, and save it."""

from __future__ import annotations

import time
from typing import NoReturn

from hybridbn.commands.engines import describe_left_out, open_engine, open_scan
from hybridbn.commands.table_input import (
    TableRequest,
    choose_columns,
    forward_warnings,
    hint_at_names,
    is_shared,
    open_input,
    read_profile,
)
from hybridbn.commands.terminal import Terminal
from hybridbn.errors import TableError
from hybridbn.exchange import write_network
from hybridbn.fitting.counting import count_columns
from hybridbn.network import Network
from hybridbn.network_description import as_line
from hybridbn.structures.building import Build
from hybridbn.tables.columns import describe_left_alone
from hybridbn.tables.formats.base import name_file_in_errors

__all__ = ["learn_model"]


def learn_model(
    request: TableRequest, build: Build, potentials: str, path: str, terminal: Terminal, *, bins: int | None = None
) -> None:
    """Learn a network from a table, and write it to a file, continuous nodes cut into `bins`.

    It is learned from a sample of the rows, or from all of them where the request says who reads the table.

    Raises
    ------
    HybridBNError, OSError
        If the table or an option can't be used, or the system refuses a file operation.
    """
    began = time.monotonic()
    learn = _learn_from_scan if is_shared(request) else _learn_from_sample
    network, rows = learn(request, build, potentials, terminal)
    with forward_warnings(terminal):
        write_network(network, path, **({} if bins is None else {"bins": bins}))
    terminal.note(f"{path}: {as_line(network)}; {rows:,} rows ({time.monotonic() - began:.1f} s)")


def _learn_from_sample(request: TableRequest, build: Build, potentials: str, terminal: Terminal) -> tuple[Network, int]:
    """Learn from a sample of the rows of any table; return how many these are, too."""
    terminal.show_step("reading")
    with open_input(request) as (location, source):
        if build.structure is not None and source.knows_names:
            _refuse_unknown_nodes(build, source.names, location.shown)
        leave = source.frame_index - {*request.discrete, *request.continuous, *request.include}
        profile = read_profile(source, location.shown, request, terminal, leave=leave)
        with name_file_in_errors(location.shown), forward_warnings(terminal):
            names = choose_columns(profile, request, terminal, "learns from identifiers and texts, too")
            if build.structure is not None:
                _refuse_unknown_nodes(build, names, location.shown)
            if not names:
                raise TableError("no column is left to learn from")
            if request.target is not None and request.target not in names:
                _refuse_target(request.target)
            table = profile.sample.select(names)
            if len(table) < profile.rows:
                terminal.warn(f"learned from {len(table):,} of {profile.rows:,} rows; --sample takes more")
            terminal.show_step("learning")
            return build.learn(table, request.target, potentials), len(table)


def _learn_from_scan(request: TableRequest, build: Build, potentials: str, terminal: Terminal) -> tuple[Network, int]:
    """Learn from all rows of a table, which is read in passes; return how many these are, too."""
    with open_engine(request) as engine, name_file_in_errors(request.input), forward_warnings(terminal):
        table = open_scan(request, engine)
        nodes = None if build.structure is None else list(build.structure)
        if nodes is not None:
            _refuse_unknown_nodes(build, list(table.names), request.input)
        table.expect(request.target, count_columns)
        reasons = describe_left_out(table, {*request.include, *(nodes or ())})
        if reasons:
            terminal.warn(f"{describe_left_alone(reasons)}; --keep says so, --include learns from them, too")
        if len(reasons) == len(table.names):
            raise TableError("no column is left to learn from")
        if request.target in reasons:
            _refuse_target(str(request.target))
        return build.learn(table.drop(reasons) if reasons else table, request.target, potentials), len(table)


def _refuse_unknown_nodes(build: Build, names: list[str], shown: str) -> None:
    """Refuse arcs between columns that the table doesn't have, or that can't be learned from."""
    for name in build.structure or ():
        if name not in names:
            raise TableError(f"--structure: {shown} has no column {name!r} to learn from; {hint_at_names(name, names)}")


def _refuse_target(name: str) -> NoReturn:
    raise TableError(
        f"--target {name}: the column is left alone, as said above; --include learns from identifiers and texts, too"
    )
