"""Learn a model from a table of any size, and save it."""

from __future__ import annotations

import time

from hybridbn.commands.table_input import (
    TableRequest,
    choose_columns,
    forward_warnings,
    hint_at_names,
    name_input_in_errors,
    open_input,
    read_profile,
)
from hybridbn.commands.terminal import Terminal
from hybridbn.errors import TableError
from hybridbn.formats.networks import write_network
from hybridbn.network_summary import as_line
from hybridbn.structures.building import Build

__all__ = ["learn_model"]


def learn_model(
    request: TableRequest, build: Build, potentials: str, path: str, terminal: Terminal, *, bins: int | None = None
) -> None:
    """Learn a network from a sample of the rows of a table, and write it to a file, continuous nodes cut into `bins`.

    Raises
    ------
    HybridBNError, OSError
        If the table or an option can't be used, or the system refuses a file operation.
    """
    began = time.monotonic()
    terminal.show_step("reading")
    with open_input(request) as (location, source):
        if build.structure is not None and source.knows_names:
            _refuse_unknown_nodes(build, source.names, location.shown)
        leave = source.frame_index - {*request.discrete, *request.continuous, *request.include}
        profile = read_profile(source, location.shown, request, terminal, leave=leave)
        with name_input_in_errors(location.shown), forward_warnings(terminal):
            names = choose_columns(profile, request, terminal, "learns from identifiers and texts, too")
            if build.structure is not None:
                _refuse_unknown_nodes(build, names, location.shown)
            if not names:
                raise TableError("no column is left to learn from")
            if request.target is not None and request.target not in names:
                raise TableError(
                    f"--target {request.target}: the column is left alone, as said above; --include learns from"
                    " identifiers and texts, too"
                )
            table = profile.sample_table(names)
            if len(table) < profile.rows:
                terminal.warn(f"learned from {len(table):,} of {profile.rows:,} rows; --sample takes more")
            terminal.show_step("learning")
            network = build.learn(table, request.target, potentials)
    with forward_warnings(terminal):
        write_network(network, path, **({} if bins is None else {"bins": bins}))
    terminal.note(f"{path}: {as_line(network)}; {len(table):,} rows ({time.monotonic() - began:.1f} s)")


def _refuse_unknown_nodes(build: Build, names: list[str], shown: str) -> None:
    """Refuse arcs between columns that the table doesn't have, or that can't be learned from."""
    for name in build.structure or ():
        if name not in names:
            raise TableError(f"--structure: {shown} has no column {name!r} to learn from; {hint_at_names(name, names)}")
