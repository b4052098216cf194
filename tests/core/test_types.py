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
from typing import get_args

import pytest

import hybridbn as hb
from hybridbn.fitting.base import FamilyName, Fitter
from hybridbn.structures.building import BUILDERS, BuilderName

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
hb.load("network.hbn")  # hybridbn.network.Network
hb.Ensemble.load("ensemble.hbn")  # hybridbn.learning.ensemble.Ensemble
network.copy()  # hybridbn.network.Network
network.posteriors()["x"].states  # tuple[typing.Hashable, ...]
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

USE = """
from functools import partial
from pathlib import Path

import numpy as np

import hybridbn as hb
from hybridbn.structures import hill_climb, random_forest, tan

heart = hb.datasets.load_heart()
arcs = "age -> disease <- sex; age -> rate <- disease; disease -> angina"
net = hb.fit(arcs, heart, potentials={"disease": "softmax"}, missing={"rate": [999]}, ordered=["age"])
print(net.posterior("disease", {"age": 58, "sex": "female", "rate": hb.Interval(100, 120)})["yes"])
sick = net.posterior("disease", {"age": 58})
print(sick.probability("yes"), sick.probabilities.max(), sick.states, sick.mode(), sick.bounds, sick.log_evidence)
rate = net.posterior("rate", heart[["age", "disease"]])
print(rate.mean(), rate.interval(0.9)[:, 0], rate.std(), rate.quantile([0.1, 0.5]), rate.pdf(100.0), rate.crps(90.0))
for row in rate[:3]:
    print(row.mean(), row.median(), row.probability(100), row.numeric.mean(), row.as_mte())
both = net.posterior(["disease", "angina"], {"age": 58})
print(both.probability(disease="yes", angina="no"), both.marginal("disease").probability("yes"), both.mode())
everything = {name: posterior.entropy() for name, posterior in net.posteriors({"sex": "male"}).items()}
drawn = net.sample(100, random_state=0)
print(drawn["age"].mean(), net.most_probable({"age": 40}), net.log_density(heart).sum())
filled = hb.impute(heart, random_state=0, discrete="sex", missing=[-9], strategy="draw", structure="tan")
means = [table["age"].mean() for table in hb.impute(heart, draws=5, potentials="gaussian", rules=False)]
classifier = hb.HybridClassifier("tan", potentials="gaussian", discrete=["sex"], missing={"rate": [999]})
classifier.fit(filled.drop(columns="disease"), filled["disease"])
print(classifier.predict_proba(filled.drop(columns="disease"))[:, 1], classifier.network_.variables[0].name)
regressor = hb.HybridRegressor(partial(tan, threshold=0.01)).fit(filled[["age"]], filled["rate"])
print(regressor.predict_interval(filled[["age"]], level=0.5), hb.Imputer(missing=[9]).fit_transform(heart))
searched = hill_climb(heart, "gaussian", missing="available", continuous=(), discrete="sex")
forest = random_forest(heart, "disease", weights=np.ones(len(heart)), trees=10)
boosted = hb.boost(heart, "disease", build=tan, rounds=3, ordered="age")
print(boosted.posterior({"age": 50.0}).probability("yes"), hb.stack(heart, "disease", folds=2).networks[0])
print(sorted(searched.edges), list(forest.predecessors("disease")), forest.number_of_nodes())
net.save(Path("heart.hbn"))
loaded = hb.load("heart.hbn")
print(loaded.posterior("disease", {"age": 58}).probability("yes"), loaded.explain("disease", {"age": 58}, state="yes"))
hb.structures.naive_bayes(hb.read_table("heart.csv"), "disease", "mte").plot({"age": 40}, around="age", steps=2)
"""
"""What users write, in which type checkers find no fault."""

MISTAKES = [
    'net.posterir("disease")',
    'net.posterior("disease").probabilty("yes")',
    'net.posterior("disease").interval(levl=0.9)',
    'net.posterior("disease", {}, tolerence=1e-3)',
    'net.posterior(["disease", "sex"]).median()',
    "net.plot(evidnce={})",
    "net.plot(aroun='age')",
    "net.sample(10, seed=0)",
    "net.edgs",
    'hb.fit(arcs, heart, potentials="gausian")',
    'hb.fit(arcs, heart, potentials={"age": "gausian"})',
    'hb.fit(arcs, heart, missing="avaliable")',
    "hb.fit(arcs, heart, discret=['sex'])",
    "hb.fit(arcs, heart, ordered=3)",
    'tan(heart, "disease", discrete=3)',
    'tan(heart, "disease", missing="em")',
    'tan(heart, "disease", potential="mte")',
    'random_forest(heart, "disease", tres=10)',
    'random_forest(heart, "disease", continous="age")',
    'hb.impute(heart, structure="tann")',
    'hb.impute(heart, strategy="drawn")',
    "hb.impute(heart, random_sate=1)",
    'hb.impute(heart, potentials="gausian")',
    'hb.boost(heart, "disease", build="tann")',
    'hb.bootstrap("tann", heart)',
    'hb.HybridClassifier("tann")',
    'hb.HybridClassifier(handle_unknown="raise")',
    "hb.HybridRegressor(ordred='age')",
    'hb.Imputer("drawn")',
    'hb.load("heart.hbn").posteriro("disease")',
    "hb.fitt(arcs, heart)",
]
"""Lines below those that are faults each."""


def ask_checker(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a type checker in a folder on the library that is tested."""
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # where a path is set, it may name another checkout than the one that is installed
    env = {**os.environ, "PATH": paths, "MYPYPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def said_by_mypy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what mypy says of the lines with their types, and of what users write."""
    folder = tmp_path_factory.mktemp("types")
    (folder / "script.py").write_text("".join(f"{code}\n" for code, _ in list_lines()))
    (folder / "use.py").write_text("".join(f"{line}\n" for line in [*USE.strip().split("\n"), *MISTAKES]))
    options = ["--config-file=", "--strict", "--no-pretty", "--follow-imports=silent"]
    checked = ask_checker(folder, sys.executable, "-m", "mypy", *options, "script.py", "use.py")
    assert "error" in checked.stdout, checked.stderr
    return checked.stdout


def name_faults(faults: set[int]) -> dict[str, list[str]]:
    """Return the lines without a fault that are taken for one, and the mistakes that are not seen."""
    script = USE.strip().split("\n") + MISTAKES
    first = len(script) - len(MISTAKES)
    return {
        "no mistakes": [script[number - 1] for number in sorted(faults) if number <= first],
        "not seen": [line for number, line in enumerate(script, start=1) if number > first and number not in faults],
    }


@pytest.mark.slow
def test_mistakes_are_errors_and_nothing_else(said_by_mypy: str) -> None:
    faults = {int(number) for number in re.findall(r"^use\.py:(\d+): error", said_by_mypy, re.MULTILINE)}
    assert name_faults(faults) == {"no mistakes": [], "not seen": []}, said_by_mypy


def test_names_that_types_list_are_those_that_are_known() -> None:
    own = [name for name, kind in Fitter.registry.load().items() if kind.__module__.startswith("hybridbn.")]
    assert set(get_args(FamilyName)) == {"auto", *own}
    builders = [name for name, function in BUILDERS.load().items() if function.__module__.startswith("hybridbn.")]
    assert set(get_args(BuilderName)) == {"auto", *builders}


def list_lines() -> list[tuple[str, str]]:
    """Return lines that ask mypy for types, with what it is to say of each."""
    lines = []
    for line in SCRIPT.strip().split("\n"):
        expression, _, wanted = line.partition("  # ")
        lines.append((f"reveal_type({expression})" if wanted not in ("", "error") else expression, wanted))
    for package in PACKAGES:
        module = getattr(hb, package) if package else hb
        place = f"hb.{package}" if package else "hb"
        lines += [(f"reveal_type({place}.{name})", "known") for name in module.__all__]
    return lines


@pytest.mark.slow
def test_public_names_and_results_have_types(said_by_mypy: str) -> None:
    said: dict[int, str] = {}
    for number, kind, text in re.findall(r"^script\.py:(\d+): (note|error): (.*)$", said_by_mypy, re.MULTILINE):
        revealed = re.fullmatch(r'Revealed type is "(.*)"', text)
        if kind == "error":
            said[int(number)] = "error"
        elif revealed:
            said.setdefault(int(number), revealed[1])
    assert said, said_by_mypy
    wrong = []
    for number, (code, wanted) in enumerate(list_lines(), start=1):
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


def find_pyright() -> list[str]:
    """Return the command of pyright; skip the test without one."""
    named = os.environ.get("HYBRIDBN_PYRIGHT") or shutil.which("pyright") or shutil.which("basedpyright")
    if named is None:
        pytest.skip("needs pyright or basedpyright on PATH, or its command in HYBRIDBN_PYRIGHT")
    return shlex.split(named)


@pytest.mark.slow
def test_pyright_sees_the_same_mistakes(tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text("".join(f"{line}\n" for line in [*USE.strip().split("\n"), *MISTAKES]))
    settings = {"typeCheckingMode": "standard", "extraPaths": [os.environ.get("PYTHONPATH", "")]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    checked = ask_checker(tmp_path, *find_pyright(), "--outputjson")
    faults = json.loads(checked.stdout)["generalDiagnostics"]
    lines = {fault["range"]["start"]["line"] + 1 for fault in faults if fault["severity"] == "error"}
    assert name_faults(lines) == {"no mistakes": [], "not seen": []}, checked.stdout


@pytest.mark.slow
def test_types_are_complete(tmp_path: Path) -> None:
    # pyright looks for the package where the first Python on PATH would
    command = [*find_pyright(), "--ignoreexternal", "--outputjson", "--verifytypes", "hybridbn"]
    checked = ask_checker(tmp_path, *command)
    report = json.loads(checked.stdout)["typeCompleteness"]
    assert len(report["symbols"]) > 1000
    vague = [symbol["name"] for symbol in report["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert not vague
    assert report["completenessScore"] == 1
