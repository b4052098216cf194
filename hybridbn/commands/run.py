"""What is known while ``hybridbn impute`` runs, and what the bytes of its output depend on."""

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
from hybridbn.commands.locations import Location
from hybridbn.commands.profile import Profile
from hybridbn.commands.request import Request
from hybridbn.commands.terminal import Terminal
from hybridbn.commands.workspace import Workspace
from hybridbn.errors import FormatError, TableError
from hybridbn.formats.tables.base import Source

if TYPE_CHECKING:
    from hybridbn.commands.filling import Filling

__all__ = ["Run", "fingerprint", "named"]

_NOT_IN_RESULT = {"input", "output", "save_model", "report", "no_clobber", "restart", "parts", "show"}


@dataclass
class Run:
    """What is known while the command runs."""

    request: Request
    terminal: Terminal
    origin: Location
    goal: Location
    work: Workspace
    source: Source = field(init=False)
    profile: Profile = field(init=False)
    filling: Filling = field(init=False)
    tally: dict[str, Any] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)


def fingerprint(run: Run) -> dict[str, Any]:
    """Return what the bytes of the output depend on."""
    options = {name: value for name, value in asdict(run.request).items() if name not in _NOT_IN_RESULT}
    options["formats"] = [run.origin.suffix, run.goal.suffix, run.goal.form.part_form]
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


@contextmanager
def named(run: Run) -> Iterator[None]:
    """Say which file it is that can't be read."""
    try:
        yield
    except (TableError, FormatError) as error:
        shown = run.origin.shown
        if type(error) not in (TableError, FormatError) or shown in str(error):
            raise
        raise type(error)(f"{shown}: {error}") from error.__cause__
