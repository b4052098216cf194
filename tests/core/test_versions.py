"""A part of the suite with every Python that the library runs on, and with the oldest packages that it says it takes.

Each run has an environment of its own; interpreters are those on the PATH and of pyenv and uv.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("io", "sklearn", "sql", "plot", "duckdb")
TOOLS = ["pytest>=9", "hypothesis>=6.100", "mpmath>=1.3"]
PART = [
    "tests/commands/test_cli_verbs.py",
    "tests/core/test_network.py",
    "tests/core/test_public_face.py",
    "tests/estimation",
    "tests/estimators/test_estimators.py",
    "tests/exchange/test_hbn.py",
    "tests/exchange/test_old_files.py",
    "tests/fitting",
    "tests/inference/test_inference_cases.py",
    "tests/inference/test_inference_posteriors.py",
    "tests/learning/test_imputation.py",
    "tests/learning/test_stacking.py",
    "tests/pictures",
    "tests/potentials/test_potentials_contract.py",
    "tests/structures/test_builders.py",
    "tests/structures/test_structures_hill_climb.py",
    "tests/tables",
]
"""What meets the packages: frames, files, databases, SciPy's functions, pictures and estimators."""


def find_interpreters(version: str) -> Iterator[str]:
    """Give what is called by this version and runs."""
    name, home = f"python{version}", Path.home()
    named = [shutil.which(name), f"{sys.prefix}/bin/{name}"]
    for folder in (home / ".pyenv" / "versions", home / ".local" / "share" / "uv" / "python"):
        named += sorted(map(str, folder.glob(f"*{version}.*/bin/{name}")))
    for path in filter(None, named):
        if Path(path).exists() and not subprocess.run([path, "--version"], capture_output=True).returncode:
            yield path


def list_requirements(oldest: bool) -> list[str]:
    """Return what the library and these extras need; the oldest versions are those that pyproject.toml names."""
    needed = [*PROJECT["dependencies"], *(name for extra in EXTRAS for name in PROJECT["optional-dependencies"][extra])]
    if oldest:
        needed = [name.replace(">=", "==") for name in needed]
        assert all(re.search(r"==[\d.]+$", name) for name in needed)
    return [*dict.fromkeys(needed), *TOOLS]


@pytest.mark.parametrize(
    ("version", "oldest"), [("3.11", True), ("3.11", False), ("3.12", False), ("3.13", False), ("3.14", False)]
)
def test_a_part_of_the_suite_passes(version: str, oldest: bool, tmp_path: Path) -> None:
    interpreter = next(find_interpreters(version), None)
    if interpreter is None:
        pytest.skip(f"there is no Python {version}")
    subprocess.run([interpreter, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", *list_requirements(oldest)], check=True)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=-m 'not slow'"]
    if oldest:
        command += ["-W", "ignore::DeprecationWarning"]  # old packages use what newer ones that they need have renamed
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [*command, *PART], cwd=ROOT, env=environment | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    print("figures:", version, "oldest packages" if oldest else "newest packages", done.stdout.splitlines()[-1])


def test_classifiers_name_the_versions_that_are_tried() -> None:
    named = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    tried = {mark.args[1][i][0] for mark in test_a_part_of_the_suite_passes.pytestmark for i in range(5)}  # type: ignore[attr-defined]
    assert set(named) <= tried
