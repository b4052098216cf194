"""How modules of the library are imported with probes or with a mutant in them, in all processes that tests start.

The tests run in a copy of the checkout, the root of which has a `sitecustomize` that calls `install`. What stands in
the environment says what is wanted; no source file is ever changed.
"""

from __future__ import annotations

import ast
import importlib.abc
import json
import marshal
import mmap
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import mutator

ROOT = "HYBRIDBN_MUTATION_ROOT"
"""The environment variable that names the copy of the checkout."""
PROBES = "HYBRIDBN_MUTATION_PROBES"
"""The one that names the folder in which probes are, where they are wanted."""
MUTANT = "HYBRIDBN_MUTATION_MUTANT"
"""The one that names the file of a mutant and the number of its edit."""
NAME = "__probes__"

Make = Callable[[Path], CodeType | None]
"""Returns the code of a module by its path from the root, None if it is as it stands in its file."""


class Loader(SourceFileLoader):
    """Loads a module whose code is made from that of its file."""

    def __init__(self, name: str, path: str, code: CodeType, extras: dict[str, Any]) -> None:
        super().__init__(name, path)
        self.code = code
        self.extras = extras

    def get_code(self, fullname: str) -> CodeType:
        """Return the code that was made."""
        return self.code

    def exec_module(self, module: ModuleType) -> None:
        """Execute the code in the module, which knows the extras from the start."""
        vars(module).update(self.extras)
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds the modules whose code is made."""

    def __init__(self, root: Path, make: Make, extras: dict[str, Any] | None = None) -> None:
        self.root = root.resolve()
        self.make = make
        self.extras = extras or {}

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return where a module is and how it is loaded, None if it is none of the root or as in its file."""
        spec = PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return None
        real = Path(spec.origin).resolve()
        code = self.make(real.relative_to(self.root)) if real.is_relative_to(self.root) else None
        if code is None:
            return None
        spec.loader = Loader(fullname, spec.origin, code, self.extras)
        return spec


def install() -> None:
    """Import as the environment says, from now on."""
    root = Path(os.environ[ROOT])
    if PROBES in os.environ:
        folder = Path(os.environ[PROBES])
        sys.meta_path.insert(0, Finder(root, Instrumenter(root, folder), {NAME: open_probes(folder)}))
    elif MUTANT in os.environ:
        path, _, index = os.environ[MUTANT].rpartition(":")
        sys.meta_path.insert(
            0, Finder(root, lambda own: compile_mutant(root, path, int(index)) if str(own) == path else None)
        )


def compile_mutant(root: Path, path: str, index: int) -> CodeType:
    """Compile a file with one of its edits."""
    tree = ast.parse((root / path).read_text(encoding="utf-8"))
    mutator.mutate(tree, index)
    return compile(tree, str(root / path), "exec", dont_inherit=True)


# -- probes -----------------------------------------------------------------------------------------------------------


class Instrumenter:
    """Puts probes into modules, and keeps what is compiled for later processes."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder
        self.numbers: dict[str, dict[str, int]] = json.loads((folder / "numbers.json").read_text())

    def __call__(self, path: Path) -> CodeType | None:
        """Return the code of a module with probes."""
        numbers = self.numbers.get(path.as_posix())
        if numbers is None:
            return None
        kept = self.folder / path.with_suffix(".code")
        if kept.exists():
            code: CodeType = marshal.loads(kept.read_bytes())
            return code
        tree = ast.parse((self.root / path).read_text(encoding="utf-8"))
        mutator.instrument(tree, NAME, {int(line): number for line, number in numbers.items()})
        code = compile(tree, str(self.root / path), "exec", dont_inherit=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(marshal.dumps(code))
        unfinished.replace(kept)
        return code


def number_probes(root: Path, paths: list[str], folder: Path) -> dict[str, dict[int, int]]:
    """Give numbers to the heads of blocks, by file and line, and make the file that all processes write to."""
    numbers: dict[str, dict[int, int]] = {}
    total = 0
    for path in paths:
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        own = numbers[path] = {}
        for block in mutator.find_blocks(tree):
            for head in block.heads():
                if own.setdefault(block.statements[head].lineno, total) == total:
                    total += 1
    (folder / "numbers.json").write_text(json.dumps(numbers))
    (folder / "probes").write_bytes(bytes(total or 1))
    return numbers


def open_probes(folder: Path) -> mmap.mmap:
    """Return the array of probes, which processes share."""
    with (folder / "probes").open("r+b") as file:
        return mmap.mmap(file.fileno(), 0)
