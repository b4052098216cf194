"""The mutator, the server of mutants, and how their figures are counted; slow: the goals that tests have to reach."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import mutant_figures
import mutate
import mutator
import pytest
from mutant_figures import Outcome, Rate

HERE = Path(__file__).parent

TOY = '''
"""A library of one function."""

from __future__ import annotations

LIMITS = [limit for limit in range(9) if limit > 2]


def clip(numbers: list[float], low: float = 0.0, *, strict: bool = False) -> float:
    """Return a sum.

    >>> clip([-1.0, 2.0, 3.0])
    5.0
    """
    total = 0.0
    for number in numbers:
        if number < low and not strict:
            continue
        if number > 99:
            raise ValueError(f"{number + 1} is beyond {max(99, low)}")
        total += number
    return round(total, ndigits=2)
'''

TESTS = """
import toy


def test_low():
    assert toy.clip([-1.0, 2.0]) == 2.0


def test_bad():
    assert toy.clip([1])
    raise KeyError
"""


def list_edits(function: str) -> set[tuple[str, str]]:
    """Return the kinds of the edits of a function, and what comes after them."""
    edits = set()
    for index, site in enumerate(mutator.find_edits(ast.parse(function))):
        tree = ast.parse(function)
        edit = mutator.mutate(tree, index)
        compile(tree, "toy", "exec")
        edits.add((site.edit.operator, edit.split("  ->  ")[1]))
    return edits


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("return a < b", {("comparison", "return a <= b")}),
        ("return a is None", {("comparison", "return a is not None")}),
        ("return a * b", {("arithmetic", "return a / b")}),
        ("a -= b", {("arithmetic", "a += b"), ("deleted statement", "pass")}),
        ("return a + 'x'", set()),
        ("return 3", {("constant", "return 4")}),
        ("return 0.5", {("constant", "return 1.0")}),
        ("return 'x', f'{1 + a}'", set()),
        ("return -a", {("negation", "return a")}),
        ("return a if b else c", {("negation", "return a if not b else c")}),
        ("return a and b", {("boolean", "return a or b")}),
        ("return True", {("flag", "return False")}),
        ("f(a)", {("deleted statement", "pass")}),
        ("new = a", set()),
        ("a[b] = c", {("deleted statement", "pass")}),
        ("a = c(a)", {("deleted statement", "pass")}),
        ("return f(a, k=b)", {("dropped keyword", "return f(a)")}),
        ("return f(a, b)", {("swapped arguments", "return f(b, a)")}),
        ("return max(a, b), isinstance(a, int | float)", set()),
        ("return [x for x in a if x]", {("filter", "return [x for x in a]")}),
        ("raise ValueError(a + b, not c)", set()),
        ("assert a < b", set()),
        ("new: tuple[1, 2] = a", set()),
        (
            "return f(a, axis=-1)",
            {("axis", "return f(a, axis=0)"), ("constant", "return f(a, axis=-2)"), ("dropped keyword", "return f(a)")},
        ),
        (
            "while a:\n        if b:\n            continue\n        break",
            {("negation", "while not a:"), ("negation", "if not b:"), ("loop", "break"), ("loop", "pass")},
        ),
        ("for x in a:\n        b = x", {("loop", "break at its end")}),
    ],
)
def test_edits_of_a_statement(statement: str, expected: set[tuple[str, str]]) -> None:
    assert list_edits(f"def toy(a, b, c):\n    {statement}\n") == expected


def test_what_is_outside_of_functions_is_left_alone() -> None:
    assert not list_edits("A = 1\nclass B:\n    c = 1 + 2\n    def f(self, d=1, e=not A): ...\n")


def test_samples_depend_on_the_code_that_is_in_them_alone() -> None:
    def take(seed: int, text: str) -> list[tuple[str, str]]:
        statements = list(mutator.find_statements("toy/core.py", ast.parse(text)))

        def make(statement: mutator.Statement, index: int) -> mutator.Mutant:
            tree = ast.parse(text)
            return mutator.Mutant(statement, index, "", mutator.mutate(tree, index))

        return [mutant.key for mutant in mutator.sample(statements, seed, 4, 1, make)]

    samples = [take(seed, TOY) for seed in range(8)]
    assert all(len(set(sample)) == 4 for sample in samples)
    assert len(set(map(tuple, samples))) > 4
    assert samples == [take(seed, "import re\n\n\n" + TOY) for seed in range(8)]


def test_a_head_of_a_block_runs_with_all_that_follows_it() -> None:
    tree = ast.parse(TOY)
    heads = [
        (block.statements[i].lineno, type(block.statements[i]))
        for block in mutator.find_blocks(tree)
        for i in block.heads()
    ]
    assert [kind for _, kind in sorted(heads)] == [
        ast.Assign,
        ast.If,
        ast.Continue,
        ast.If,
        ast.Raise,
        ast.AugAssign,
        ast.Return,
    ]
    mutator.instrument(tree, "seen", {line: line for line, _ in heads})
    seen = [0] * 30
    names: dict[str, object] = {"seen": seen}
    exec(compile(tree, "toy", "exec", dont_inherit=True), names)
    assert names["clip"]([-1.0]) == 0.0  # type: ignore[operator]
    assert [line for line, _ in sorted(heads) if not seen[line]] == [19, 20, 21]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mutate.Project:
    """A library with two tests, one of which fails and says nothing."""
    source = tmp_path / "source"
    for name, text in {
        "toy/__init__.py": TOY,
        "tests/test_toy.py": TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--doctest-modules"\ntestpaths = ["tests", "toy"]\n',
    }.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    return mutate.Project(source, tmp_path / "work", ("toy",), ("toy",))


def test_mutants_are_killed_by_crashes_and_by_results_and_others_live(project: mutate.Project) -> None:
    coverage = project.cover()
    assert sorted(coverage.tests) == ["tests/test_toy.py::test_low", "toy/__init__.py::toy.clip"]
    assert coverage.failed == {"tests/test_toy.py::test_bad"}

    found = [project.make(statement, index) for statement in project.statements() for index, _ in statement.edits]
    mutants = {mutant.edit.split("  ->  ")[1]: mutant for mutant in found if mutant is not None}
    unchanged = mutator.Mutant(mutants["total = 1.0"].statement, None, "none", "none")
    expected = {
        "none": "lived",
        "total = 1.0": "noticed",
        "total -= number": "noticed",
        "if not (number < low and (not strict)):": "noticed",
        "if not number > 99:": "crash",
        "break at its end": "noticed",
        "if number >= 99:": "lived",
        "if number < low and strict:": "noticed",
        "return round(total, ndigits=3)": "lived",
    }
    results = project.judge([unchanged if after == "none" else mutants[after] for after in expected], coverage, 60)
    assert {edit.split("  ->  ")[-1]: result["end"] for (_, edit), result in results.items()} == expected


def test_rates_count_what_differs() -> None:
    ends = ["crash"] * 5 + ["noticed"] * 3 + ["lives"] + ["equivalent", "cost", "cosmetic"] * 4
    outcomes = [Outcome("a", "p", str(i), end) for i, end in enumerate(ends)]
    assert mutant_figures.rate(outcomes) == Rate(8, 9)
    assert mutant_figures.rate_silent(outcomes) == Rate(3, 4)
    assert len(mutant_figures.find_missed(outcomes, within_noise=False)) == 2
    assert not mutant_figures.find_missed(outcomes, within_noise=True)
    lost = [Outcome("b", "p", str(i), "lives") for i in range(9)]
    assert [goal.split(":")[0] for goal in mutant_figures.find_missed(outcomes + lost, within_noise=True)][
        -1
    ] == "85% of b"


def test_the_list_of_survivors_has_reasons() -> None:
    assert set(mutant_figures.read_survivors(HERE / "survivors.toml").values()) <= set(mutant_figures.REASONS)


@pytest.mark.slow
def test_everyday_tests_reach_the_goals() -> None:
    command = [sys.executable, str(HERE / "mutate.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""}, check=False)
    print(done.stdout)
    assert not done.returncode, done.stdout + done.stderr
