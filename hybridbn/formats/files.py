"""Replace a file at once or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

__all__ = ["NameTaken", "replacing", "write_atomically"]


class NameTaken(FileExistsError):
    """Something has the name of the file already."""


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that a reader, a crash or a full disk finds the old file or the new one, never half of it.

    A link keeps pointing where it points.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), b"new")
    ...     Path(folder, "a.txt").read_bytes(), len(os.listdir(folder))
    (b'new', 1)
    """
    with replacing(Path(os.path.realpath(path))) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(
    target: Path,
    *,
    overwrite: bool = True,
    packed: bool = False,
    mark: str = "",
    before: Callable[[], None] | None = None,
) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes a name in the end, when all of it is on the disk; on any failure nothing is left.

    It lies in the same folder. The permissions of a file that is replaced stay.

    Parameters
    ----------
    overwrite : bool
        Replace what has the name; otherwise raise `NameTaken`, also where another process was faster.
    packed : bool
        With gzip, without name and time, so that equal contents make equal files.
    mark : str
        Part of the temporary name.
    before : callable, optional
        Called when all bytes are on the disk and only the name is missing.
    """
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mode = 0o666 & ~_umask()
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", os.fspath(target.parent))
    descriptor, temporary = tempfile.mkstemp(".tmp", f".{target.name[:100]}.{mark}", target.parent)
    try:
        with os.fdopen(descriptor, "wb") as raw:
            if packed:
                import gzip

                with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
                    yield cast(IO[bytes], file)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        os.chmod(temporary, mode)
        if before is not None:
            before()
        if overwrite:
            os.replace(temporary, target)
        else:
            _linked(temporary, target)
    except BaseException:  # whatever happened, no debris stays
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _synced_folder(target.parent)


def _linked(temporary: str, target: Path) -> None:
    try:
        os.link(temporary, target)  # unlike a rename, this fails where another process was faster
    except FileExistsError:
        raise NameTaken(os.fspath(target)) from None
    except OSError:  # a file system without hard links
        os.replace(temporary, target)
    else:
        os.unlink(temporary)


def _synced_folder(folder: Path) -> None:
    opener: Callable[..., int] | None = getattr(os, "open", None) if hasattr(os, "O_DIRECTORY") else None
    if opener is not None:
        with contextlib.suppress(OSError):
            descriptor = opener(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _umask() -> int:
    """Return the process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
