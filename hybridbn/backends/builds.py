"""The hash of this build, by which a worker with other code is refused."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import hybridbn

__all__ = ["hash_build"]


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
