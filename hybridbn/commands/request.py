"""What the user asks for, and what of it can be refused before the table is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hybridbn.commands.locations import Location, Taken, UsageFault, refuse_folders, refuse_taken
from hybridbn.errors import TableError
from hybridbn.variables import shorten

__all__ = ["Request", "refuse_clashes", "refuse_contradictions", "refuse_present", "refuse_strangers"]


@dataclass(frozen=True)
class Request:
    """What the user asks for; the names are those of the options."""

    input: str
    output: str
    draws: int | None = None
    strategy: str = "draw"
    structure: str = "auto"
    target: str | None = None
    potentials: str = "auto"
    model: str | None = None
    save_model: str | None = None
    seed: int = 0
    discrete: tuple[str, ...] = ()
    continuous: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    bounds: Any = None
    unknown: str = "error"
    full_precision: bool = False
    donors: bool = True
    rounds: int | None = None
    report: str | None = None
    sample: int = 100_000
    chunk: int | None = None
    format: str | None = None
    from_format: str | None = None
    to_format: str | None = None
    delimiter: str | None = None
    output_delimiter: str | None = None
    missing: tuple[str, ...] = ()
    decimal: str = "."
    encoding: str = "utf-8"
    draw_column: str = "draw"
    no_clobber: bool = False
    restart: bool = False
    parts: str | None = None
    show: int = 0


def refuse_clashes(request: Request, source: Location, goal: Location) -> None:
    """Refuse outputs that would overwrite the input or each other, and folders."""
    if not goal.pipe and (source.path or source.url, source.table) == (goal.path or goal.url, goal.table):
        raise UsageFault(f"the output {goal.shown} is the input; choose another name")
    refuse_folders(goal)
    if request.parts is not None and not os.path.isdir(request.parts):
        raise UsageFault(f"--parts {request.parts}: there is no such folder")
    named = {"INPUT": source.path, "OUTPUT": goal.path}
    if request.model is not None:
        named["--model"] = Path(os.path.realpath(request.model))
    for option, path in (("--save-model", request.save_model), ("--report", request.report)):
        if path is None:
            continue
        target = Path(os.path.realpath(path))
        clash = next((other for other, taken in named.items() if taken == target), None)
        if clash:
            raise UsageFault(f"{option} {path} is {clash}, too; choose another name")
        if target.is_dir() or not target.parent.is_dir():
            raise UsageFault(
                f"{option} {path}: {'a folder' if target.is_dir() else f'there is no folder {target.parent}'}"
            )
        named[option] = target


def refuse_present(request: Request, goal: Location) -> None:
    """Refuse outputs that must not be replaced."""
    refuse_taken(goal, request.no_clobber)
    for option, path in (("--save-model", request.save_model), ("--report", request.report)):
        if path is not None and request.no_clobber and os.path.exists(path):
            raise Taken(f"{option} {path} exists already, and --no-clobber says to leave it")


def refuse_contradictions(request: Request) -> None:
    """Refuse columns that are said to be two things."""
    for first, second in (
        ("discrete", "continuous"),
        ("discrete", "keep"),
        ("continuous", "keep"),
        ("include", "keep"),
    ):
        both = sorted({*getattr(request, first)} & {*getattr(request, second)})
        if both:
            raise UsageFault(f"column {both[0]!r} is named in both --{first} and --{second}")


def refuse_strangers(request: Request, names: Sequence[str]) -> None:
    """Refuse options that name columns which are not there."""
    options = ("discrete", "continuous", "keep", "include")
    asked = {name: option for option in options for name in getattr(request, option)}
    if request.target is not None:
        asked[request.target] = "target"
    if isinstance(request.bounds, dict):
        asked |= dict.fromkeys(request.bounds, "bounds")
    for name, option in asked.items():
        if name not in names:
            raise TableError(f"--{option} {name}: there is no such column; the columns are {shorten(names)}")
