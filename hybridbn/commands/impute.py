"""``hybridbn impute``: locate input and output, lock the output, and resume an unfinished run.

The input is read twice, in blocks of rows. Each completed block is stored as a part file beside the output, so that a
run that was killed continues where it stopped; a fingerprint of input, options and versions decides whether the parts
still fit.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hybridbn
from hybridbn.commands.column_profiles import TableProfile
from hybridbn.commands.locations import (
    Location,
    OutputTaken,
    UsageFault,
    locate,
    open_source,
    refuse_existing_output,
    refuse_folders,
)
from hybridbn.commands.several_inputs import answer_inputs, list_inputs, sample_inputs, seed_of_file
from hybridbn.commands.table_input import TableRequest, refuse_clashing_engines
from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.commands.workspace import RunMismatch, Workspace, lock_of, lock_output, parts_of
from hybridbn.options import ImputationOptions
from hybridbn.tables.formats.base import TableSource, name_file_in_errors, names
from hybridbn.tables.formats.database_base import Database
from hybridbn.tables.formats.files import refuse_special_file, resolve_links

if TYPE_CHECKING:
    from hybridbn.learning.imputation.data_augmentation import Filler

__all__ = ["LEARNING", "ImputationRequest", "ImputationRun", "identify_file", "impute_inputs"]


@dataclass(frozen=True)
class ImputationRequest(ImputationOptions, TableRequest):
    """The options of ``hybridbn impute`` under their own names."""

    output: str = "-"
    draws: int | None = None
    model: str | None = None
    save_model: str | None = None
    include: tuple[str, ...] = ()
    random_state: int = 0
    unknown: str = "error"
    report: str | None = None
    output_delimiter: str | None = None
    draw_column: str = "draw"
    no_clobber: bool = False
    restart: bool = False
    show: int = 0


def _refuse_clashes(request: ImputationRequest, source: Location, destination: Location) -> None:
    """Refuse outputs that would overwrite the input or each other, and folders."""
    refuse_clashing_engines(request)
    if not destination.pipe and (source.path or source.url, source.table) == (
        destination.path or destination.url,
        destination.table,
    ):
        raise UsageFault(f"the output {destination.shown} is the input; choose another name")
    refuse_folders(destination)
    beside = destination.beside(request.parts)
    if request.parts is not None and not os.path.isdir(request.parts):
        raise UsageFault(f"--parts {request.parts}: there is no such folder")
    named = {"INPUT": source.path, "OUTPUT": destination.path}
    if request.model is not None:
        named["--model"] = Path(os.path.realpath(request.model))
    if beside is not None:
        named |= {"the lock of OUTPUT": lock_of(beside), "the folder of unfinished runs": parts_of(beside)}
    for option, path in (("--save-model", request.save_model), ("--report", request.report)):
        if path is None:
            continue
        target = resolve_links(path)
        refuse_special_file(target)
        clash = next((other for other, taken in named.items() if taken is not None and taken in target.parents), None)
        clash = next((other for other, taken in named.items() if taken == target), clash)
        if clash:
            raise UsageFault(f"{option} {path} is {clash}, too; choose another name")
        if target.is_dir() or not target.parent.is_dir():
            raise UsageFault(
                f"{option} {path}: {'a folder' if target.is_dir() else f'there is no folder {target.parent}'}"
            )
        named[option] = target


def _refuse_present(request: ImputationRequest, destination: Location) -> None:
    """Refuse outputs that exist and must not be replaced."""
    refuse_existing_output(destination, request.no_clobber)
    for option, path in (("--save-model", request.save_model), ("--report", request.report)):
        if path is not None and request.no_clobber and os.path.exists(path):
            raise OutputTaken(f"{option} {path} exists already, and --no-clobber says to leave it")


_NOT_IN_RESULT = {
    *("input", "output", "save_model", "report", "no_clobber", "restart", "parts", "show"),
    *("backend", "scheduler", "workers"),
}
"""Options that do not change the bytes of the output."""


@dataclass
class ImputationRun:
    """The state of a running command; the fields without a value are set as it proceeds."""

    request: ImputationRequest
    terminal: Terminal
    origin: Location
    destination: Location
    workspace: Workspace
    source: TableSource = field(init=False)
    profile: TableProfile = field(init=False)
    filler: Filler = field(init=False)
    value_counts: dict[str, Any] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)


def _fingerprint(run: ImputationRun) -> dict[str, Any]:
    """Return everything that the bytes of the output depend on: the input's hash, the options and the versions."""
    options = {name: value for name, value in asdict(run.request).items() if name not in _NOT_IN_RESULT}
    options["formats"] = [run.origin.suffix, run.destination.suffix, run.destination.form.part_form]
    options["report"] = run.request.report is not None
    if run.request.model is not None:
        options["model"] = hashlib.sha256(Path(run.request.model).read_bytes()).hexdigest()
    versions = {"hybridbn": hybridbn.__version__}
    for name in ("numpy", "scipy", "pandas", "pyarrow"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "none"
    known = {"input": run.source.digest(), "options": options, "versions": versions}
    return dict(json.loads(json.dumps(known)))


def identify_file(status: os.stat_result) -> list[int]:
    """Return by what a file is known again, whatever its name."""
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def impute_inputs(request: ImputationRequest, terminal: Terminal) -> None:
    """Complete a table, or each of several files by one model, which a sample of the rows of all of them tells."""
    several = None if request.backend == "duckdb" else list_inputs(request.input)
    if several is None:
        answer_inputs(request, partial(impute, terminal=terminal), terminal)
        return
    if request.draws is not None or request.report is not None:
        raise UsageFault("--draws and --report are for one table; impute the files one by one, with --model")
    with tempfile.TemporaryDirectory(prefix="hybridbn-") as folder:
        model = request.model or f"{folder}/model.hbn"
        if request.model is None:
            terminal.note(f"learning one model for {len(several)} files")
            with sample_inputs(request) as sample:
                learned = replace(request, input=sample, output=f"{folder}/sample.parquet", save_model=model)
                impute(learned, terminal)
            if request.save_model is not None:
                shutil.copy(model, request.save_model)

        def complete(one: ImputationRequest) -> None:
            name = os.path.relpath(one.output, request.output)
            impute(replace(one, random_state=seed_of_file(one.random_state, name)), terminal)

        # what was for learning is in the model
        given = replace(request, model=model, include=(), **LEARNING)
        answer_inputs(given, complete, terminal)


LEARNING: dict[str, Any] = {
    name: getattr(ImputationRequest, name)
    for name in ("structure", "target", "potentials", "rounds", "full_precision", "donors", "rules", "save_model")
}
"""Options of learning and what they are where they are not given."""


def impute(request: ImputationRequest, terminal: Terminal) -> None:
    """Complete the missing cells of a table and write the result.

    Raises
    ------
    HybridBNError, OSError
        If the input or an option is wrong, or the system refuses a file operation.
    OutputTaken, RunMismatch
        If another run writes the output, it exists already, or parts of a different run are beside it.
    """
    keep_interrupts()
    origin = locate(request.input, request.from_format, request.format, "INPUT")
    # A pipe has no suffix, so it gets the input's format.
    same = origin.suffix.removeprefix(".") if request.output == "-" and origin.suffix[1:] in names() else None
    destination = locate(request.output, request.to_format, request.format or same, "OUTPUT")
    _refuse_clashes(request, origin, destination)
    beside = destination.beside(request.parts)
    with lock_output(beside, destination.shown):
        workspace = Workspace(beside)
        is_ours = not workspace.lasting
        try:
            if request.restart or not workspace.has_begun():
                _refuse_present(request, destination)
            workspace.begin(request.restart)
            is_ours = True
            _run(ImputationRun(request, terminal, origin, destination, workspace))
            workspace.clear()
        except KeyboardInterrupt as interrupt:
            if workspace.lasting:
                if is_ours:
                    workspace.forget_copies()
                interrupt.args = ("interrupted; the same command goes on from there",)
            else:
                workspace.clear()
            raise
        except RunMismatch:
            if not workspace.lasting:
                workspace.clear()
            raise
        except BaseException:
            if is_ours:
                workspace.clear()
            raise


def _run(run: ImputationRun) -> None:
    request, workspace = run.request, run.workspace
    run.terminal.show_step("reading")
    with name_file_in_errors(run.origin.shown):
        run.source = open_source(run.origin, workspace.folder, request.encoding, request.reading, request.rows)
    known = _fingerprint(run)
    resumed = workspace.agree(known)
    if resumed and _already_there(run):
        return
    if workspace.is_partial:  # and the output was removed since
        workspace.forget(known)
    if resumed:
        _refuse_present(request, run.destination)
        run.terminal.note("going on from where an earlier run was ended")
    from hybridbn.commands.imputation import complete  # as it imports all of learning, after what is refused at once

    complete(run)


def _already_there(run: ImputationRun) -> bool:
    """Return whether an earlier run finished its output and was stopped during cleanup."""
    noted, form, path = run.workspace.finishing, run.destination.form, run.destination.path
    if noted is None:
        return False
    if not isinstance(form, Database):
        return path is not None and path.exists() and identify_file(path.stat()) == noted["file"]
    try:
        refuse_existing_output(run.destination, no_clobber=True)
    except OutputTaken:
        return form.count(run.destination.url) == int(noted["rows"])
    return False
