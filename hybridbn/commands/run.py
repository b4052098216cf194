"""One run of ``hybridbn impute``: the user's request, what is refused at once, and the fingerprint of its result."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hybridbn
from hybridbn.commands.column_profiles import TableProfile
from hybridbn.commands.locations import Location, OutputTaken, UsageFault, refuse_existing_output, refuse_folders
from hybridbn.commands.table_input import TableRequest, refuse_clashing_engines
from hybridbn.commands.terminal import Terminal
from hybridbn.commands.workspace import Workspace, lock_of, parts_of
from hybridbn.formats.files import refuse_special_file, resolve_links
from hybridbn.formats.tables.base import TableSource
from hybridbn.options import ImputationOptions

if TYPE_CHECKING:
    from hybridbn.commands.draw_models import DrawModels

__all__ = [
    "ImputationRequest",
    "ImputationRun",
    "fingerprint",
    "identify_file",
    "refuse_clashes",
    "refuse_present",
]


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


def refuse_clashes(request: ImputationRequest, source: Location, destination: Location) -> None:
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


def refuse_present(request: ImputationRequest, destination: Location) -> None:
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
    draw_models: DrawModels = field(init=False)
    value_counts: dict[str, Any] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)


def fingerprint(run: ImputationRun) -> dict[str, Any]:
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
