"""The work of ``hybridbn impute``: what goes where, who else is at it, and what an earlier run left.

The input is read twice, in blocks of rows. What each block gives is a file of its own beside the output, so a run that was
killed is taken up where it was; the fingerprint of input, options and versions says whether the parts still fit.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hybridbn
from hybridbn.commands.places import FORMATS, Place, Taken, opened_source, place_of, refuse_taken, rows_in, spooled
from hybridbn.commands.request import Request, refuse_clashes, refuse_present
from hybridbn.commands.sources import Source
from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.commands.workspace import OtherRun, Workspace, locked
from hybridbn.errors import FormatError, TableError

if TYPE_CHECKING:
    from hybridbn.commands.filling import Filling
    from hybridbn.commands.profile import Profile

__all__ = ["Request", "Run", "impute", "named"]

_NOT_IN_RESULT = {"input", "output", "save_model", "report", "no_clobber", "restart", "parts", "show"}


@dataclass
class Run:
    """What is known while the command runs."""

    request: Request
    terminal: Terminal
    source_place: Place
    goal: Place
    work: Workspace
    source: Source = field(init=False)
    profile: Profile = field(init=False)
    filling: Filling = field(init=False)
    tally: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)


def impute(request: Request, terminal: Terminal) -> None:
    """Do what is asked for, or raise.

    Raises
    ------
    HybridBNError, OSError
        What is wrong with input or options; what the system refuses.
    Taken, OtherRun
        Someone else's output or parts are in the way.
    """
    keep_interrupts()
    source = place_of(request.input, request.from_format, request.format, "INPUT")
    # a pipe says nothing, so it has the input's format
    same = next((name for name, suffix in FORMATS.items() if suffix == source.suffix and request.output == "-"), None)
    goal = place_of(request.output, request.to_format, request.format or same, "OUTPUT")
    refuse_clashes(request, source, goal)
    beside = goal.beside(request.parts)
    with locked(beside, goal.shown):
        work = Workspace(beside)
        if not (work.lasting and work.has("manifest.json") and not request.restart):
            refuse_present(request, goal)
        try:
            work.begin(request.restart)
            _run(Run(request, terminal, source, goal, work))
        except KeyboardInterrupt:
            if work.lasting:
                raise KeyboardInterrupt("interrupted; the same command goes on from there") from None
            work.clear()
            raise
        except OtherRun:
            if not work.lasting:
                work.clear()
            raise
        except BaseException:
            work.clear()
            raise
        work.clear()


# -- the beginning ------------------------------------------------------------------------------------------------------


def _run(run: Run) -> None:
    request, work = run.request, run.work
    missing = request.missing or _missing()
    run.terminal.step("reading")
    with named(run):
        path = spooled(run.source_place, work.folder, request.encoding)
        run.source = opened_source(run.source_place, path, request.delimiter, missing, request.decimal)
    try:
        resumed = work.agree(_fingerprint(run))
        if resumed and _already_there(run):
            return
        if resumed:
            refuse_present(request, run.goal)
            run.terminal.note("going on from where an earlier run was ended")
        from hybridbn.commands.completing import complete  # after the rest, as it imports all of learning

        complete(run)
    finally:
        run.source.close()


def _missing() -> tuple[str, ...]:
    from hybridbn.formats.tables.delimited import MISSING

    return MISSING


def _fingerprint(run: Run) -> dict[str, Any]:
    """Return what the bytes of the output depend on."""
    options = {name: value for name, value in asdict(run.request).items() if name not in _NOT_IN_RESULT}
    options["formats"] = [run.source_place.suffix, run.goal.suffix, run.goal.family]
    options["report"] = run.request.report is not None
    if run.request.model is not None:
        options["model"] = hashlib.sha256(Path(run.request.model).read_bytes()).hexdigest()
    versions = {"hybridbn": hybridbn.__version__}
    for name in ("numpy", "scipy", "pandas", "pyarrow"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "none"
    found = {"input": run.source.digest(), "options": options, "versions": versions}
    return dict(json.loads(json.dumps(found)))


@contextmanager
def named(run: Run) -> Iterator[None]:
    """Say which file it is that can't be read."""
    try:
        yield
    except (TableError, FormatError) as error:
        shown = run.source_place.shown
        if type(error) not in (TableError, FormatError) or shown in str(error):
            raise
        raise type(error)(f"{shown}: {error}") from error.__cause__


def _already_there(run: Run) -> bool:
    """Tell whether an earlier run made its table of a database, and was ended while it cleaned up.

    A file would be put together again, of the same bytes.
    """
    noted = run.work.json("finishing.json")
    if not run.goal.url or noted is None:
        return False
    try:
        refuse_taken(run.goal, no_clobber=True)
    except Taken:
        return rows_in(run.goal) == int(noted["rows"])
    return False
