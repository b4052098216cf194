"""What a run of ``hybridbn impute`` keeps beside its output: a lock, and the folder of parts that a killed run leaves.

Both may lie in a folder that others write to, and both have names that a user's file may have. So a lock and a folder
are used only where they are ours: real ones, of the same user, with a mark inside; and only what a run made is removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from hybridbn.commands.terminal import OutputTaken, RunMismatch
from hybridbn.tables.formats.files import NO_LINKS, is_own, lock_file, open_private

_MARKER = "hybridbn"
"""The file that marks a folder of parts."""
_MANIFEST = "manifest.json"
_NAMES = re.compile(
    rf"({_MARKER}|{_MANIFEST}|history\.json|finishing\.json|model-\d+\.hbn|(part-\d+|tally|outside)-\d+(\.json)?)(\.tmp)?"
    r"|input(\.\w+)+|\.model-\d+\.hbn\..*\.tmp"
)
"""The names of all files that a run makes in its folder."""
_LOCK = b"the lock of a run of hybridbn impute\n"


def lock_of(beside: Path) -> Path:
    """Return the path of an output's lock."""
    return beside.with_name(f"{beside.name}.lock")


def parts_of(beside: Path) -> Path:
    """Return the path of an output's folder of parts."""
    return beside.with_name(f"{beside.name}.parts")


# -- the lock ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def lock_output(beside: Path | None, shown: str) -> Iterator[None]:
    """Hold the lock of an output; the system releases it when the process ends for any reason."""
    if beside is None:
        yield
        return
    path = lock_of(beside)
    descriptor, is_made = _acquire_lock(path, shown)
    try:
        yield
    finally:
        if is_made:
            with contextlib.suppress(OSError):
                os.unlink(path)
        os.close(descriptor)


def _acquire_lock(path: Path, shown: str) -> tuple[int, bool]:
    """Return the descriptor of the locked file, and whether a run made the file."""
    while True:
        descriptor, is_made = _open_lock(path)
        try:
            lock_file(descriptor)
            # The process that held the lock before may have removed the file meanwhile.
            if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                return descriptor, is_made
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            raise OutputTaken(
                f"{shown}: another run is writing it; wait for that one, or choose another output"
            ) from None
        os.close(descriptor)


def _open_lock(path: Path) -> tuple[int, bool]:
    """Open the file of a lock; refuse anything else that has its name."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | NO_LINKS, 0o600)
        os.write(descriptor, _LOCK)
        return descriptor, True
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise _in_the_way(path, "it is a link or a folder") from None
        raise
    status = os.fstat(descriptor)
    content = os.read(descriptor, len(_LOCK) + 1) if stat.S_ISREG(status.st_mode) else None
    # An empty one was left when the process that made it was killed at once, or by an earlier version; it may also be
    # a user's, and is not removed.
    if content in (b"", _LOCK) and is_own(status):
        return descriptor, content == _LOCK
    os.close(descriptor)
    raise _in_the_way(path, "it belongs to another user" if not is_own(status) else "it is no lock of hybridbn")


def _in_the_way(path: Path, fault: str) -> OutputTaken:
    return OutputTaken(f"{path} is in the way: {fault}; move it away, or choose another output or --parts FOLDER")


# -- the folder of parts ----------------------------------------------------------------------------------------------


class Workspace:
    """The folder of parts, beside the output or, for a pipe, a temporary one.

    Attributes
    ----------
    lasting : bool
        Whether the next run can continue from the parts of a killed one.
    finishing : dict, optional
        What a run noted when only the name of its output was missing.
    is_partial : bool
        Whether parts of an earlier run may be deleted, as its output was there.
    """

    def __init__(self, beside: Path, *, lasting: bool = True) -> None:
        self.lasting = lasting
        self.folder: Path = parts_of(beside)
        self.finishing: dict[str, Any] | None = None
        self.is_partial: bool = False

    def begin(self, restart: bool) -> None:
        """Create the folder; with `restart`, delete the parts of an earlier run first."""
        try:
            os.mkdir(self.folder, 0o700)
        except FileExistsError:
            self._take_over()
        # A kill that comes before the mark leaves an empty folder.
        try:
            self._write(
                _MARKER, b"What an unfinished run of hybridbn impute left; the same command goes on from here.\n"
            )
        except OSError:
            self.clear()
            raise
        self._remove(name for name in self._list_own() if name != _MARKER and (restart or name.endswith(".tmp")))

    def _take_over(self) -> None:
        """Use the folder that is there; refuse one that no run of this user made."""
        status = os.lstat(self.folder)
        if not stat.S_ISDIR(status.st_mode):
            raise _in_the_way(self.folder, "it is a link or a file")
        if not is_own(status):
            raise _in_the_way(self.folder, "it belongs to another user")
        names = sorted(os.listdir(self.folder))
        if names and _MARKER not in names and not self._has_manifest():
            raise _in_the_way(self.folder, f"it holds files such as {names[0]!r}, and no run of hybridbn made it")
        for name in filter(_NAMES.fullmatch, names):
            status = os.lstat(self.folder / name)
            if not stat.S_ISREG(status.st_mode) or not is_own(status):
                raise _in_the_way(self.folder / name, "it is a link, no file, or another user's")
        os.chmod(self.folder, 0o700)

    def _has_manifest(self) -> bool:
        """Return whether there is a manifest such as versions without a marker wrote."""
        with contextlib.suppress(RunMismatch, OSError):
            noted = self.json(_MANIFEST)
            return isinstance(noted, dict) and noted.keys() >= {"input", "options", "versions"}
        return False

    def _list_own(self) -> list[str]:
        try:
            return sorted(filter(_NAMES.fullmatch, os.listdir(self.folder)))
        except FileNotFoundError:  # it was removed already
            return []

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            os.unlink(self.folder / name)

    def agree(self, fingerprint: dict[str, Any]) -> bool:
        """Record the fingerprint; return whether an earlier run recorded the same one, and refuse a different one."""
        noted = self.json(_MANIFEST)
        if noted is None:
            self.forget(fingerprint)
            return False
        self.finishing, self.is_partial = noted.pop("finishing", None), noted.pop("cleared", False)
        if noted != fingerprint:
            keys = sorted(key for key in {*noted, *fingerprint} if noted.get(key) != fingerprint.get(key))
            raise RunMismatch(
                f"an earlier run left its parts in {self.folder}, but since then the {' and the '.join(keys)} changed; "
                "--restart begins anew"
            )
        return True

    def note_finishing(self, facts: dict[str, Any]) -> None:
        """Record that all bytes of the output are there, and by which facts it is known."""
        self.finishing = facts
        self.put_json(_MANIFEST, {**self.json(_MANIFEST), "finishing": facts})

    def forget(self, fingerprint: dict[str, Any]) -> None:
        """Delete the parts, but not the copy of the input, and record the fingerprint of a run from the beginning."""
        kept = (_MARKER, _MANIFEST)
        self._remove(name for name in self._list_own() if name not in kept and not name.startswith("input."))
        self.put_json(_MANIFEST, fingerprint)
        self.finishing, self.is_partial = None, False

    def forget_unfinished(self) -> None:
        """Delete the copy of an input that was no file, as the next run makes a new one, and what was being written."""
        self._remove(name for name in self._list_own() if name.startswith("input.") or name.endswith(".tmp"))

    def has(self, name: str) -> bool:
        """Return whether a part is finished."""
        return (self.folder / name).exists()

    def has_begun(self) -> bool:
        """Return whether an earlier run noted what it was to do."""
        return self.lasting and not self.folder.is_symlink() and self.has(_MANIFEST)

    def put(self, name: str, data: bytes) -> None:
        """Write a part, whole or not at all."""
        self._write(f"{name}.tmp", data)
        os.replace(self.folder / f"{name}.tmp", self.folder / name)

    def _write(self, name: str, data: bytes) -> None:
        with open_private(self.folder / name) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def put_json(self, name: str, content: Any) -> None:
        """Write JSON, whole or not at all."""
        self.put(name, json.dumps(content).encode())

    def json(self, name: str) -> Any:
        """Return the content of a JSON part; None if the part does not exist."""
        try:
            return json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            raise RunMismatch(f"{self.folder / name} is damaged; --restart begins anew") from None

    def path(self, name: str) -> Path:
        """Return the path of a part."""
        return self.folder / name

    def clear(self) -> None:
        """Remove the folder; what others put there stays, and the folder with it.

        A kill at any moment leaves it so that the same command ends well: where the output is there, the manifest,
        which says so, goes after the parts; otherwise it goes before them, and all begins anew.
        """
        with contextlib.suppress(OSError):
            if self.finishing is not None and self.has(_MANIFEST):
                self.put_json(_MANIFEST, {**self.json(_MANIFEST), "cleared": True})
            is_late = self.finishing is not None
            self._remove(sorted(self._list_own(), key=lambda name: (name == _MARKER, (name == _MANIFEST) == is_late)))
            os.rmdir(self.folder)
