"""Asks the everyday tests and doctests about mutants of the library: python tests/mutation/mutate.py --seed 3.

The tests run in a copy of the checkout. `--folder` keeps it, what tests run which blocks, and what became of mutants,
so that a later call runs only what is new: changed files of tests, and mutants that were not killed. A change of the
library is all new.

Figures leave out mutants that differ in nothing but time or looks, by the list `survivors.toml`, and code that runs
when modules are imported and in no test. What tests compute while they are collected is computed without mutants. A
mutant that many tests run is asked of as many as `TEST_SECONDS` allow. Tests that take more than ten times their usual
time count as crashes.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import mutant_figures
import mutant_imports
import mutant_server
import mutator
import pytest
from mutant_figures import Outcome
from mutator import Mutant, Statement

HERE = Path(__file__).resolve().parent
KEPT = (1, 2, 3, 4, 5)
"""The seeds whose survivors were read, as far as `survivors.toml` has them."""
TEST_SECONDS = 25
NOT_COPIED = (".git", ".venv", "*_cache", "__pycache__", ".hypothesis", "*.egg-info", "results", "gallery", "generated")


@dataclass
class Coverage:
    """Which tests run which blocks, and the digests of the files that this was found with."""

    library: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """Digests of the files of tests."""
    numbers: dict[str, dict[int, int]] = field(default_factory=dict)
    """The numbers of blocks, by path and the line of the head."""
    tests: dict[str, tuple[float, array[int]]] = field(default_factory=dict)
    """Seconds, and numbers of blocks, by test."""
    failed: set[str] = field(default_factory=set)
    """Tests that fail or are skipped without any mutant."""
    imported: set[int] = field(default_factory=set)
    """Blocks that run when modules are imported."""

    def number(self, statement: Statement) -> int:
        """Return the number of a statement's block."""
        return self.numbers[statement.path][statement.head]

    def add(self, files: dict[str, str], tests: dict[str, Any], failed: set[str], imported: set[int]) -> None:
        """Add what was found of the tests in files that have changed."""
        old = {name for name in self.tests.keys() | self.failed if name.split("::")[0] in files}
        self.files |= files
        self.tests = {name: test for name, test in self.tests.items() if name not in old} | tests
        self.failed = self.failed - old | failed
        self.imported |= imported

    def find_tests(self, statements: list[Statement]) -> dict[int, list[tuple[str, float]]]:
        """Return the tests that run the blocks of some statements, with their seconds, by the blocks' numbers."""
        tests: dict[int, list[tuple[str, float]]] = {self.number(statement): [] for statement in statements}
        for name, (cost, numbers) in self.tests.items():
            for number in tests.keys() & set(numbers):
                tests[number].append((name, cost))
        return tests


class Project:
    """A copy of a checkout, its statements and its tests."""

    def __init__(self, source: Path, folder: Path, packages: tuple[str, ...], roots: tuple[str, ...]) -> None:
        self.folder = folder.resolve()
        self.packages = packages
        self.root = self.folder / "checkout"
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(source, self.root, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED))
        start = f"import sys\nsys.path.append({str(HERE)!r})\nimport mutant_imports\nmutant_imports.install()\n"
        (self.root / "sitecustomize.py").write_text(start)
        found = sorted(path for root in roots for path in (self.root / root).rglob("*.py"))
        self.paths = [path.relative_to(self.root).as_posix() for path in found if path.resolve() == path]

    def statements(self) -> Iterator[Statement]:
        """Yield the statements of the library that have edits."""
        for path in self.paths:
            yield from mutator.find_statements(path, ast.parse((self.root / path).read_text(encoding="utf-8")))

    def make(self, statement: Statement, index: int) -> Mutant | None:
        """Return the mutant of a statement, None if the code that it compiles to is as before, or can't be compiled."""
        text = (self.root / statement.path).read_text(encoding="utf-8")
        tree = ast.parse(text)
        edit = mutator.mutate(tree, index)
        try:
            same = compile(tree, "", "exec", dont_inherit=True) == compile(text, "", "exec", dont_inherit=True)
        except SyntaxError:
            return None
        return None if same else Mutant(statement, index, dict(statement.edits)[index], edit)

    def run_tests(self, work: dict[str, Any], *arguments: str, **environment: str) -> None:
        """Collect the tests and do some work with them."""
        todo, log, temporary = self.folder / "work.json", self.folder / "pytest.txt", self.folder / "tmp"
        todo.write_text(json.dumps(work | {"packages": self.packages}))
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir()
        environment |= {mutant_imports.ROOT: str(self.root), mutant_server.WORK: str(todo), "TMPDIR": str(temporary)}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        environment |= {"PYTHONPATH": os.pathsep.join([str(self.root), str(HERE)]), "PYTHONHASHSEED": "0"}
        plugins = ("-pmutant_server", "-pno:cacheprovider", "-pno:xdist", "-otmp_path_retention_policy=none")
        command = [sys.executable, "-m", "pytest", "-q", *plugins, "--ignore=tests/mutation", *arguments]
        with log.open("w") as out:
            done = subprocess.run(
                command, cwd=self.root, env=os.environ | environment, stdout=out, stderr=out, check=False
            )
        if done.returncode not in (
            pytest.ExitCode.OK,
            pytest.ExitCode.TESTS_FAILED,
            pytest.ExitCode.NO_TESTS_COLLECTED,
        ):
            raise RuntimeError(f"the tests can't be run: {log.read_text()[-3000:]}")

    def cover(self) -> Coverage:
        """Return which tests run which blocks, from what is kept as far as its files are as they were."""
        kept, found, probes = self.folder / "coverage", self.folder / "found", self.folder / "probes"
        library = {path: digest(self.root / path) for path in self.paths}
        paths = [path for path in self.root.glob("tests/**/test_*.py") if path.parent.name != "mutation"]
        files = {str(path.relative_to(self.root)): digest(path) for path in paths}
        coverage = Coverage(**pickle.loads(kept.read_bytes())) if kept.exists() else Coverage()
        arguments = sorted(path for path, own in files.items() if coverage.files.get(path) != own)
        if coverage.library != library:
            shutil.rmtree(probes, ignore_errors=True)
            probes.mkdir()
            coverage = Coverage(library, numbers=mutant_imports.number_probes(self.root, self.paths, probes))
            arguments = []
        elif not arguments:
            return coverage
        self.run_tests({"map": str(found)}, *arguments, **{mutant_imports.PROBES: str(probes)})
        coverage.add({path: files[path] for path in arguments or files}, *pickle.loads(found.read_bytes()))
        kept.write_bytes(pickle.dumps(vars(coverage)))
        return coverage

    def judge(self, mutants: list[Mutant], coverage: Coverage, seconds: float) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what became of mutants, by their keys; of those that were killed before what is kept."""
        kept = self.folder / "results.jsonl"
        killed = {key for key, result in read_results(kept).items() if result["end"] != "lived"}
        alive = [mutant for mutant in mutants if mutant.key not in killed]
        tests = coverage.find_tests([mutant.statement for mutant in alive])
        todo = [
            {"place": mutant.statement.place, "edit": mutant.edit, "path": mutant.statement.path, "index": mutant.index}
            | {"tests": tests[coverage.number(mutant.statement)]}
            for mutant in alive
        ]
        if todo:
            self.run_tests({"mutants": todo, "results": str(kept), "seconds": seconds, "test_seconds": TEST_SECONDS})
        results = read_results(kept)
        return {mutant.key: results[mutant.key] for mutant in mutants if mutant.key in results}


def digest(path: Path) -> str:
    """Return a hash of a file."""
    return sha256(path.read_bytes()).hexdigest()


def read_results(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Return what became of mutants, the last time, by their keys."""
    lines = path.read_text().splitlines() if path.exists() else []
    results = map(json.loads, lines)
    return {(result["place"], result["edit"]): result for result in results}


def run_seed(
    project: Project, coverage: Coverage, seed: int, number: int, seconds: float, reasons: dict[tuple[str, str], str]
) -> list[Outcome]:
    """Return what became of a sample of mutants, as many as the time was enough for."""
    covered = {number for _, numbers in coverage.tests.values() for number in numbers}

    def make(statement: Statement, index: int) -> Mutant | None:
        runs_in_tests = coverage.number(statement) not in coverage.imported - covered
        return project.make(statement, index) if runs_in_tests else None

    mutants = mutator.sample(project.statements(), seed, number, max(1, number // 20), make)
    listed = {mutant.key for mutant in mutants if reasons.get(mutant.key, "lives") != "lives"}
    results = project.judge([mutant for mutant in mutants if mutant.key not in listed], coverage, seconds)
    outcomes = []
    for mutant in mutants:
        if mutant.key in listed:
            outcomes.append(Outcome(mutant.statement.room, *mutant.key, reasons[mutant.key]))
        elif mutant.key in results:
            result = results[mutant.key]
            note = f"{result['ran']} of {result['tests']} tests of line {mutant.statement.line}"
            end = "lives" if result["end"] == "lived" else result["end"]
            outcomes.append(Outcome(mutant.statement.room, *mutant.key, end, note))
    if len(outcomes) < len(mutants):
        print(f"the time was too short for {len(mutants) - len(outcomes)} of {len(mutants)} mutants")
    return outcomes


def main() -> int:
    """Run the mutants of some seeds, print what became of them, and tell whether a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, action="append", help=f"may be given several times; kept ones are {KEPT}")
    parser.add_argument("--mutants", type=int, default=120, help="of a seed, about")
    parser.add_argument("--minutes", type=float, default=18, help="of the processor for the mutants of a seed, at most")
    parser.add_argument("--folder", type=Path, help="where to keep what may be used again")
    options = parser.parse_args()
    seeds = options.seed or [int(os.environ.get("HYBRIDBN_MUTATION_SEED", KEPT[0]))]
    reasons = mutant_figures.read_survivors(HERE / "survivors.toml")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        project = Project(HERE.parents[1], folder, ("hybridbn",), ("hybridbn", "structures", "inference"))
        coverage = project.cover()
        print(f"{len(coverage.tests)} tests; {len(coverage.failed)} fail or are skipped without mutants")
        outcomes = []
        for seed in seeds:
            own = run_seed(project, coverage, seed, options.mutants, 60 * options.minutes, reasons)
            print("\n".join(mutant_figures.show_outcomes(own, seed)), flush=True)
            outcomes += own
    if len(seeds) > 1:
        print(f"pooled: {mutant_figures.rate(outcomes)}; of silent ones {mutant_figures.rate_silent(outcomes)}")
    missed = mutant_figures.find_missed(outcomes, within_noise=not set(seeds) <= set(KEPT))
    print("\n".join(f"missed: {goal}" for goal in missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
