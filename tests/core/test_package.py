"""The house: layout, layers, lazy imports, and the wheel."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from house import ROOT, Imports, read_house

MODULES = {name: module.path for name, module in read_house().modules.items()}


def run(code: str, **options: object) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONWARNINGS"}}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, **options
    )  # type: ignore[call-overload]
    return str(done.stdout)


def test_top_level_holds_nothing_else() -> None:
    agreed = {
        "pyproject.toml",
        "README.md",
        "hybridbn",
        "structures",
        "inference",
        "tests",
        "examples",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
    }
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in top if not name.startswith(".")} <= agreed


def test_folders_are_linked_into_the_package() -> None:
    for name in ("structures", "inference"):
        link = ROOT / "hybridbn" / name
        assert link.is_symlink()
        assert os.readlink(link) == f"../{name}"


@pytest.mark.parametrize("name", ["structures", "inference"])
def test_importing_a_folder_by_its_bare_name_fails_loudly(name: str) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\ntry:\n    import {name}\nexcept ImportError as error:\n    "
        f"print(error)"
    )
    assert run(code).strip() == f"import hybridbn.{name}, not {name}"


def test_imports_are_seen_wherever_they_are(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("""
from hybridbn.table import Table
HOME = "hybridbn.exchange.hbn:load"
if TYPE_CHECKING:
    import hybridbn.network
class Network:
    def plot(self):
        from hybridbn.pictures import plot
def load(name):
    import_module(f"hybridbn.structures.{name}")
    __import__("hybridbn.estimators")
    raise ImportError("import hybridbn.structures")
""")
    assert Imports(path).imported == [
        ("hybridbn.table", "import"),
        ("hybridbn.exchange.hbn", "text"),
        ("hybridbn.network", "typing"),
        ("hybridbn.pictures", "Network"),
        ("hybridbn.structures", "load"),
        ("hybridbn.estimators", "load"),
    ]


def test_packages_need_no_import_of_their_own() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nimport hybridbn as hb\n"
    assert run(code + "print(hb.structures.tan.__name__, hb.inference.__name__)").split() == [
        "tan",
        "hybridbn.inference",
    ]


def test_every_public_name_can_be_loaded() -> None:
    hybridbn = importlib.import_module("hybridbn")
    for name in hybridbn.__all__:
        assert getattr(hybridbn, name) is not None
    assert set(hybridbn.__all__) <= set(dir(hybridbn))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = hybridbn.nonsense


def test_import_is_cheap_and_light() -> None:
    code = """
import json, sys
before = set(sys.modules)
import hybridbn
added = len(set(sys.modules) - before)
heavy = ["sklearn", "pandas", "pgmpy", "matplotlib", "dask", "pyarrow", "polars", "scipy", "numba", "torch"]
print(json.dumps([added, [name for name in heavy if name in sys.modules]]))
"""
    added, heavy = json.loads(run(code))
    assert heavy == []
    assert added <= 20


def test_working_modules_stay_light() -> None:
    code = """
import json, sys
import hybridbn as hb
hb.Network, hb.Table, hb.MTE, hb.Kernel, hb.load
heavy = ["sklearn", "pandas", "pgmpy", "matplotlib", "dask", "pyarrow", "polars"]
print(json.dumps([name for name in heavy if name in sys.modules]))
"""
    assert json.loads(run(code)) == []


def test_files_stay_small() -> None:
    long = {name: lines for name, path in MODULES.items() if (lines := len(path.read_text().splitlines())) > 800}
    assert not long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        pytest.skip("a clean copy is made from a git checkout")
    clean = tmp_path_factory.mktemp("clean")
    for line in listed.stdout.splitlines():
        source, goal = ROOT / line, clean / line
        goal.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            goal.symlink_to(os.readlink(source))
        elif source.exists():
            goal.write_bytes(source.read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(clean / "out"), str(clean)],
        check=True,
        capture_output=True,
    )
    (built,) = (clean / "out").glob("*.whl")
    return built


def test_wheel_holds_the_modules_of_the_tree_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"hybridbn"}
    packed = {n.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for n in names if n.endswith(".py")}
    assert packed == set(MODULES)
    assert {"hybridbn/py.typed", "hybridbn/explorer/explorer.js"} <= set(names)


def test_wheel_works_where_it_is_installed(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    code = f"""
import sys
sys.path.insert(0, {str(target)!r})
import hybridbn, hybridbn.inference, hybridbn.structures
assert hybridbn.__file__.startswith({str(target)!r}) and hybridbn.inference.__file__.startswith({str(target)!r})
for name in hybridbn.__all__: getattr(hybridbn, name)
"""
    run(code, cwd=tmp_path)


def test_readme_and_ci_run_the_same_test_command() -> None:
    readme, script = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    commands = [line.strip() for line in script.splitlines() if "[test]" in line]
    assert len(commands) == 1
    assert commands[0] in readme


def read_groups() -> dict[str, list[str]]:
    """Return the words of each group of `.ci/slow`: minutes, skipped tests, needs, and what pytest is told."""
    listed = re.search(r"^GROUPS_OF_TESTS=\(\n(.*?)^\)", (ROOT / ".ci" / "slow").read_text(), re.DOTALL | re.MULTILINE)
    assert listed
    lines = re.findall(r'^  "(\S+) (.+)"$', listed[1], re.MULTILINE)
    groups = {name: words.split() for name, words in lines}
    assert len(groups) == len(lines) == len(listed[1].splitlines())
    return groups


def test_every_file_with_slow_tests_is_in_a_group_of_ci_slow() -> None:
    files = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    slow = {name for name, text in files.items() if re.search(r"mark\.slow\b", text)}
    everyday = {"optional", "properties"}  # of whole rooms
    named = {word for name, words in read_groups().items() if name not in everyday for word in words[3:]}
    assert {word for word in named if not word.startswith("-")} == slow


def test_groups_of_ci_slow_say_how_many_tests_may_be_skipped_and_what_they_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, (minutes, skips, needs, *told) in read_groups().items():
        assert int(minutes) < 60, name
        assert int(skips) <= 5, name
        for need in needs.split(","):
            assert need in {"-", "npm", *extras} or re.fullmatch(r"(pip|program):\S+", need), (name, need)
        assert all((ROOT / word).exists() for word in told if word.startswith("tests")), name
