"""What lies beside an output while it is made: a lock, and the finished parts that a killed run is taken up from."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hybridbn.commands.locations import Taken

__all__ = ["OtherRun", "Workspace", "locked"]


class OtherRun(Exception):
    """The parts beside the output are of another input, other options or other versions."""


@contextlib.contextmanager
def locked(beside: Path | None, shown: str) -> Iterator[None]:
    """Hold the lock of an output; a run that ends, in whatever way, lets it go."""
    if beside is None:
        yield
        return
    path = beside.with_name(f"{beside.name}.lock")
    descriptor = _acquired(path, shown)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(descriptor)


def _acquired(path: Path, shown: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
            # whoever held it may have removed the file meanwhile
            if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            raise Taken(f"{shown}: another run is writing it; wait for that one, or choose another output") from None
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Workspace:
    """A folder of parts, beside the output or, for a pipe, anywhere.

    Attributes
    ----------
    folder : Path
    lasting : bool
        Whether a run that is killed leaves it for the next one.
    """

    def __init__(self, beside: Path | None) -> None:
        self.lasting = beside is not None
        self.folder = (
            Path(tempfile.mkdtemp(prefix="hybridbn-")) if beside is None else beside.with_name(f"{beside.name}.parts")
        )

    def begin(self, restart: bool) -> None:
        """Make the folder; throw away what another run left there if that is asked for."""
        if restart and self.lasting:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*.tmp"):
            path.unlink()

    def agree(self, fingerprint: dict[str, Any]) -> bool:
        """Note the fingerprint; tell whether an earlier run noted the same, and refuse another one."""
        noted = self.json("manifest.json")
        if noted is None:
            self.put_json("manifest.json", fingerprint)
            return False
        if noted != fingerprint:
            keys = sorted(key for key in {*noted, *fingerprint} if noted.get(key) != fingerprint.get(key))
            raise OtherRun(
                f"an earlier run left its parts in {self.folder}, but since then the {' and the '.join(keys)} changed; "
                "--restart begins anew"
            )
        return True

    def has(self, name: str) -> bool:
        """Tell whether a part is finished."""
        return (self.folder / name).exists()

    def put(self, name: str, data: bytes) -> None:
        """Write a part, whole or not at all."""
        temporary = self.folder / f"{name}.tmp"
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.folder / name)

    def put_json(self, name: str, content: Any) -> None:
        """Write JSON, whole or not at all."""
        self.put(name, json.dumps(content).encode())

    def json(self, name: str) -> Any:
        """Return a JSON part; None if there is none."""
        try:
            return json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise OtherRun(f"{self.folder / name} is damaged; --restart begins anew") from None

    def path(self, name: str) -> Path:
        """Return where a part is."""
        return self.folder / name

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
