"""The hash of this build, by which a worker with other code is refused."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import hybridbn
from hybridbn.errors import TableError

__all__ = ["hash_build", "refuse_other_build"]


@cache
def hash_build() -> str:
    """Return a hash of all modules of the library as they are installed.

    Examples
    --------
    >>> len(hash_build())
    64
    """
    home = Path(hybridbn.__file__).parent
    digest = hashlib.sha256()
    folders = [home, home / "structures", home / "inference"]
    paths = {path.relative_to(home): path for folder in folders for path in folder.rglob("*.py")}
    for name, path in sorted(paths.items()):
        digest.update(f"{name.as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def refuse_other_build(build: str, worker: str) -> None:
    """Raise `TableError` if a hash is not that of this build.

    Examples
    --------
    >>> refuse_other_build(hash_build(), "the worker")
    >>> refuse_other_build("abc", "the worker")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the worker has another build of hybridbn than this process; install the same on all
    machines
    """
    if build != hash_build():
        raise TableError(f"{worker} has another build of hybridbn than this process; install the same on all machines")
