"""``hybridbn explore``: a page on which findings are set and beliefs follow."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any, ClassVar

from hybridbn.commands.terminal import Terminal, UsageFault
from hybridbn.commands.verb import TEXT_OPTIONS, Groups, Verb, parse_count
from hybridbn.registry import LazyModule

_files: LazyModule = LazyModule("hybridbn.tables.formats.files")
_page: LazyModule = LazyModule("hybridbn.explorer.page")


class Explore(Verb):
    """Opens the explorer in a browser, or writes it to a file."""

    summary = "open a model in the browser: set findings, and see beliefs follow"
    examples = """
hybridbn explore model.hbn
hybridbn explore model.hbn disease=yes age=60:70
hybridbn explore model.hbn --data patients.csv
hybridbn explore alarm.bif.gz --html alarm.html
hybridbn explore model.hbn --no-browser --port 8000
"""
    description = """
Shows the model as a graph with the beliefs in its nodes. Click a state to set it, and again to retract
it; with shift it is excluded. Click or drag over a curve to set a number or an interval. The page says
why a belief is what it is, what to ask next and what is most probable, sets nodes as interventions,
and compares scenarios. A server on this computer (127.0.0.1) answers the browser that opened the address,
which works once, until it is ended with Ctrl-C.

With --html one file is written instead, which needs no server: of a model of tables it answers
everything; of any other one it holds answers that were computed before, says which, and shows
nothing where it has none.
"""
    groups: ClassVar[Groups] = {
        "": {
            "model": {"metavar": "MODEL", "help": "a file of a network"},
            "evidence": {"metavar": "NAME=VALUE", "nargs": "*", "help": "what is known at first"},
            "--data": {"metavar": "DATA", "help": "a table, to step through its rows"},
            "--html": {"metavar": "OUT", "help": "write a page that needs no server"},
            "--port": {
                "type": parse_count,
                "default": 0,
                "metavar": "N",
                "help": "of the server (default: one that is free)",
            },
            "--no-browser": {"action": "store_true", "help": "only print the address"},
        },
        "how the table is read": {
            **TEXT_OPTIONS,
            "--unknown": {"help": "refuse states that the model doesn't know (default), or let them tell nothing"},
        },
    }

    def run(self, options: argparse.Namespace, terminal: Terminal) -> None:
        """Explore."""
        from hybridbn.commands.models import parse_evidence, read_model
        from hybridbn.explorer.responder import Responder

        if options.port > 65535:
            raise UsageFault(f"--port {options.port}: ports are numbers up to 65535")
        with terminal.forward_warnings():
            network = read_model(options.model)
            evidence = parse_evidence(network, options.evidence)
            data = None if options.data is None else _read_data(options, network, terminal)
            title = Path(options.model).name.split(".")[0] or "Bayesian network"
            responder = Responder(network, data, title, options.unknown, evidence)
            if options.html is not None:
                page = _page.make_page(responder)
                _files.write_atomically(options.html, page.encode())
                terminal.note(f"wrote {options.html} ({len(page.encode()) / 1e6:.1f} MB)")
                return
        _serve(responder, options, terminal)


def _read_data(options: argparse.Namespace, network: Any, terminal: Terminal) -> Any:
    """Return the table to step through."""
    from hybridbn.commands.table_input import TableRequest, read_marked

    table = read_marked(TableRequest.of(options, input=options.data), terminal)
    return table.with_variables(network.variables, unknown=options.unknown)


def _serve(responder: Any, options: argparse.Namespace, terminal: Terminal) -> None:
    """Serve the explorer until the user ends it."""
    try:
        started = _page.ExplorerServer(responder, options.port)
    except OSError as error:
        raise UsageFault(f"--port {options.port}: {error.strerror}; without --port a free one is taken") from error
    with started as server, contextlib.ExitStack() as stack, contextlib.suppress(KeyboardInterrupt):
        terminal.show(server.address)
        terminal.note("open this address in a browser, which works once; Ctrl-C ends the server")
        if not options.no_browser and sys.stdout is not None and sys.stdout.isatty():
            _open_browser(server.address, stack.enter_context(_files.open_scratch()))
        server.serve_forever()


def _open_browser(address: str, folder: Path) -> None:
    """Open an address in a browser beside the server, by a file that no other user can read.

    A browser's command line can be read by all users of a computer.
    """
    import threading
    import webbrowser

    page = folder / "explorer.html"
    with _files.open_private(page) as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">'.encode())
    # a browser in the terminal returns when it is closed
    threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
