"""Learn a model from a table of any size, and save it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hybridbn.commands.column_profiles import TableProfile, profile_columns
from hybridbn.commands.model_options import hint_at_names
from hybridbn.commands.table_input import (
    TableRequest,
    choose_columns,
    forward_warnings,
    is_shared,
    open_engine,
    open_input,
    open_scan,
    read_profile,
)
from hybridbn.commands.terminal import Terminal
from hybridbn.errors import TableError
from hybridbn.exchange import write_network
from hybridbn.fitting.counting import count_columns
from hybridbn.network_description import as_line
from hybridbn.structures.building import Build
from hybridbn.tables.formats.base import name_file_in_errors


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
    terminal.show_step("reading")
    shared, nodes = is_shared(request), list(build.structure or ())
    with (
        _open_profile(request, nodes, terminal) as profile,
        name_file_in_errors(request.input),
        forward_warnings(terminal),
    ):
        included = "learns from identifiers and texts, too"
        names = choose_columns(profile, request, terminal, included, nodes if shared else ())
        _refuse_unknown_nodes(nodes, names, request.input)
        if not names:
            raise TableError("no column is left to learn from")
        if request.target is not None and request.target not in names:
            alone = "the column is left alone, as said above"
            raise TableError(f"--target {request.target}: {alone}; --include {included}")
        rows = profile.usable if shared else profile.sample
        if len(rows) < profile.rows:
            terminal.warn(f"learned from {len(rows):,} of {profile.rows:,} rows; --sample takes more")
        terminal.show_step("learning")
        network = build.learn(rows.select(names), request.target, potentials)
    with forward_warnings(terminal):
        write_network(network, path, **({} if bins is None else {"bins": bins}))
    terminal.note(f"{path}: {as_line(network)}; {len(rows):,} rows ({time.monotonic() - began:.1f} s)")


@contextmanager
def _open_profile(request: TableRequest, nodes: Sequence[str], terminal: Terminal) -> Iterator[TableProfile]:
    """Open the table that a request names, or let the backend that it names open it."""
    if not is_shared(request):
        with open_input(request) as (location, source):
            if source.knows_names:
                _refuse_unknown_nodes(nodes, source.names, location.shown)
            leave = source.frame_index - {*request.discrete, *request.continuous, *request.include}
            yield read_profile(source, location.shown, request, terminal, leave=leave)
        return
    with open_engine(request) as engine, name_file_in_errors(request.input):
        with forward_warnings(terminal):
            scan = open_scan(request, engine)
            _refuse_unknown_nodes(nodes, scan.names, request.input)
            scan.expect(request.target, count_columns)
            usable, unusable = scan.read_usable()
            profile = profile_columns(usable, scan.names, unusable, request.sample)
        yield profile


def _refuse_unknown_nodes(nodes: Iterable[str], names: Sequence[str], shown: str) -> None:
    """Refuse arcs between columns that the table doesn't have, or that can't be learned from."""
    for name in nodes:
        if name not in names:
            raise TableError(f"--structure: {shown} has no column {name!r} to learn from; {hint_at_names(name, names)}")
