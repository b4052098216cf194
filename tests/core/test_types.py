"""What editors and type checkers see of an installed library: each public name has a type, so have results, and a
misspelt name is an error.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hybridbn as hb

PACKAGES = ("", "datasets", "estimators", "fitting", "learning", "potentials", "structures")

SCRIPT = """
import hybridbn as hb

table = hb.Table({"class": ["a", "b"], "x": [1.0, None]})
network = hb.Network("class->x")
network  # hybridbn.network.Network
network.variables[0].name  # str
network.potential("x")  # hybridbn.potentials.base.Potential
network.posterior(["x", "class"], {"class": "a"})  # hybridbn.inference.posteriors.joint.JointPosterior
network.save("network.hbn")  # None
hb.Discrete("d", ("u", "v")).states  # tuple[typing.Hashable, ...]
hb.fit(table, network)  # hybridbn.network.Network
hb.structures.tan(table, "class")  # hybridbn.network.Network
hb.structures.random_forest(table, "class")  # hybridbn.network.Network
hb.structures.logistic(table, "class")  # hybridbn.network.Network
hb.structures.discriminant(table, "class")  # hybridbn.network.Network
hb.load("network.hbn")  # hybridbn.network.Network | hybridbn.learning.ensemble.Ensemble
hb.impute(table)  # hybridbn.tables.table.Table
hb.impute(table, 5)  # list[hybridbn.tables.table.Table]
hb.impute(table, details=True)  # hybridbn.learning.imputation.impute.Imputation
hb.boost(table, "class")  # hybridbn.learning.ensemble.Ensemble
hb.read_table("table.csv")  # hybridbn.tables.table.Table
hb.read_network("network.bif")  # hybridbn.network.Network
hb.fitting.GaussianFitter()  # hybridbn.fitting.gaussian.GaussianFitter
hb.HybridClassifier("tan", boost=10)  # hybridbn.estimators.predictors.HybridClassifier
hb.imputte(table)  # error
hb.structures.tann(table, "class")  # error
hb.fitting.GausianFitter()  # error
hb.potentials.Multinomal()  # error
hb.impute(table, strateggy="mean")  # error
hb.HybridClassifier(bost=10)  # error
hb.Discrete("d", ("u", "v")).cutz  # error
"""
"""Lines with what mypy is to say of them."""


def test_public_names_and_results_have_types(tmp_path: Path) -> None:
    lines = []
    for line in SCRIPT.strip().split("\n"):
        expression, _, wanted = line.partition("  # ")
        lines.append((f"reveal_type({expression})" if wanted not in ("", "error") else expression, wanted))
    for package in PACKAGES:
        module = getattr(hb, package) if package else hb
        place = f"hb.{package}" if package else "hb"
        lines += [(f"reveal_type({place}.{name})", "known") for name in module.__all__]
    (tmp_path / "script.py").write_text("".join(f"{code}\n" for code, _ in lines))
    command = [sys.executable, "-m", "mypy", "--config-file=", "--strict", "--no-pretty", "script.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    said: dict[int, str] = {}
    for number, kind, text in re.findall(r"^script\.py:(\d+): (note|error): (.*)$", checked.stdout, re.MULTILINE):
        revealed = re.fullmatch(r'Revealed type is "(.*)"', text)
        if kind == "error":
            said[int(number)] = "error"
        elif revealed:
            said.setdefault(int(number), revealed[1])
    assert said, checked.stdout + checked.stderr
    wrong = []
    for number, (code, wanted) in enumerate(lines, start=1):
        told = said.get(number, "")
        if told in ("Any", "error") if wanted == "known" else told != wanted:
            wrong.append(f"{code}: {told or 'nothing'}, not {wanted or 'nothing'}")
    assert not wrong, "\n".join(wrong)


def test_completion_offers_public_names_alone() -> None:
    offered = {name for name in dir(hb) if not name.startswith("__")}
    modules = {name for name in offered if inspect.ismodule(getattr(hb, name))}
    assert offered - modules == {*importlib.import_module("hybridbn").__all__} - {"__version__"}
    assert modules > {"estimators", "fitting", "structures"}
    # static completion offers what the module's code binds, too
    assert [name for name in runpy.run_path(str(hb.__file__)) if not name.startswith("__")] == []


@pytest.mark.slow
def test_types_are_complete(tmp_path: Path) -> None:
    named = os.environ.get("HYBRIDBN_PYRIGHT") or shutil.which("pyright") or shutil.which("basedpyright")
    if named is None:
        pytest.skip("needs pyright or basedpyright on PATH, or its command in HYBRIDBN_PYRIGHT")
    # pyright looks for the package where the first Python on PATH would
    env = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    command = [*shlex.split(named), "--ignoreexternal", "--outputjson", "--verifytypes", "hybridbn"]
    checked = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    report = json.loads(checked.stdout)["typeCompleteness"]
    assert len(report["symbols"]) > 1000
    vague = [symbol["name"] for symbol in report["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert not vague
    assert report["completenessScore"] == 1
