"""Run the code blocks of the guide's pages, and compare what they show with what the pages say.

python examples/guide/blocks.py [page ...] [--write]

The blocks of a page are one session in an empty folder. After a Python block whose last line is an expression, or that
prints, and after a block of commands for the shell, a ``code-block:: none`` holds what it shows; ``...`` stands for
anything. ``--write`` puts there what was shown. A comment that begins with ``.. before:`` holds Python code that
readers need not see; one with ``.. needs: package`` names what the page can't be run without. A ``code-block:: shell``
is not run: installing, and what needs a server.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BLOCK = re.compile(r"^\.\. (?:code-block:: (python|sh|none)|(before):)[ \t]*\n((?: {3,}[^\n]*\n|\n)+)", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A piece of code, what it shows according to the page, and where both stand in its text."""

    kind: str
    code: str
    line: int
    end: int
    shown: str | None = None
    span: tuple[int, int] | None = None


def list_pages() -> list[Path]:
    """Return all pages with code, the index first."""
    pages = [path for path in HERE.rglob("*.rst") if not {"generated", "gallery"} & set(path.relative_to(HERE).parts)]
    return sorted((path for path in pages if read_blocks(path)), key=lambda path: (len(path.parts), path))


def read_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order; what one shows is part of it."""
    text = page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    for match in BLOCK.finditer(text):
        kind = match[1] or match[2]
        code = textwrap.dedent(match[3]).strip("\n") + "\n"
        if kind != "none":
            line = text.count("\n", 0, match.start(3)) + 2
            blocks.append(Block(kind, code, line, match.end(3)))
        elif blocks and not text[blocks[-1].end : match.start()].strip() and blocks[-1].span is None:
            last = blocks[-1]
            blocks[-1] = Block(last.kind, last.code, last.line, last.end, code, match.span(3))
    return blocks


def missing_packages(page: Path) -> list[str]:
    """Return the packages that a page needs and that are not installed."""
    needed = " ".join(re.findall(r"^\.\. needs: (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)).split()
    return [name for name in needed if importlib.util.find_spec(name) is None]


def run_page(page: Path) -> Iterator[tuple[Block, str]]:
    """Run the blocks of a page in a folder of their own, and yield each with what it shows."""
    os.environ.setdefault("MPLBACKEND", "agg")
    session: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in read_blocks(page):
            yield block, _run_commands(block) if block.kind == "sh" else _run_python(block, page, session)
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def _run_python(block: Block, page: Path, session: dict[str, Any]) -> str:
    tree = ast.parse("\n" * (block.line - 1) + block.code)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    name = str(page.relative_to(HERE))
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        exec(compile(tree, name, "exec"), session)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), session)
            if value is not None and (block.shown is not None or shown.getvalue() == ""):
                print(repr(value))
    return shown.getvalue()


def _run_commands(block: Block) -> str:
    tools = Path(tempfile.mkdtemp())
    try:
        command = tools / "hybridbn"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m hybridbn "$@"\n')
        command.chmod(0o755)
        environment = os.environ | {
            "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]),
            "COLUMNS": "100",
        }
        done = subprocess.run(["bash", "-ec", block.code], env=environment, capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(tools)
    if done.returncode:
        raise RuntimeError(f"line {block.line}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def is_same(block: Block, shown: str) -> bool:
    """Tell whether a block shows what its page says; one without output on the page may show anything."""
    return block.shown is None or doctest.OutputChecker().check_output(block.shown, shown, FLAGS)


def write_outputs(page: Path) -> int:
    """Run a page and put what its blocks show into it; return how many outputs were new."""
    text, changed = page.read_text(encoding="utf-8"), []
    for block, shown in run_page(page):
        if block.span is not None and not is_same(block, shown):
            changed.append((block.span, "\n" + textwrap.indent(shown.strip("\n"), "   ", lambda _: True) + "\n\n"))
    for (start, end), output in reversed(changed):
        output = re.sub(r" +\n", "\n", output)
        text = text[:start] + output + text[end:]
    page.write_text(text, encoding="utf-8")
    return len(changed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="put what is shown into the pages")
    options = parser.parse_args()
    wrong = 0
    for page in [path.resolve() for path in options.pages] or list_pages():
        name = page.relative_to(HERE)
        if missing := missing_packages(page):
            print(f"{name}: left out, needs {', '.join(missing)}")
        elif options.write:
            print(f"{name}: {write_outputs(page)} outputs written")
        else:
            for block, shown in run_page(page):
                if not is_same(block, shown):
                    wrong += 1
                    print(f"{name}, line {block.line}:\n{block.code}shows\n{shown}instead of\n{block.shown}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
