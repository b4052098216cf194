"""Files that earlier versions wrote load, and answer as they did; `data/files_0_1` holds those of version 0.1.0."""

from __future__ import annotations

import json
import shutil
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.learning import Imputation

OLD = Path(__file__).parents[1] / "data" / "files_0_1"
NETWORKS = [
    *(f"family_{name}" for name in ("boxes", "cases", "gaussian", "kernel", "mixed", "mte", "multinomial", "softmax")),
    *("automatic", "chow_liu", "class_clusters", "hill_climb", "kdb", "mixture", "model_tree", "model_trees"),
    *("naive_bayes", "naive_bayes_of_a_number", "naive_bayes_with_kernels", "nb_tree", "regression"),
    *("selective_naive_bayes", "tan", "tan_of_kernels"),
    *("augmented", "expectation_maximization", "structural_em"),
]
ENSEMBLES = ["ensemble_m1", "ensemble_real"]
IMPUTATIONS = ["imputation", "imputation_tan"]


@cache
def expected() -> Any:
    return json.loads((OLD / "expected.json").read_text())


def frame_of(rows: dict[str, list[Any]]) -> pd.DataFrame:
    """Return rows as they were asked: states keep their types, and a column of numbers is one of floats."""
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in rows.items()})


def assert_close(now: Any, before: Any, what: str) -> None:
    before = np.array(before, dtype=float)  # NaN where the evidence was impossible
    np.testing.assert_allclose(np.asarray(now, dtype=float), before, rtol=1e-12, atol=1e-12, err_msg=what)


def test_all_files_are_asked() -> None:
    assert {path.stem for path in OLD.glob("*.hbn")} == {*NETWORKS, *ENSEMBLES, *IMPUTATIONS}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_answer_as_they_did(name: str) -> None:
    net, asked = as_kind(hb.Network, hb.load(OLD / f"{name}.hbn")), expected()["networks"][name]
    rows, answers = frame_of(asked["rows"]), asked["answers"]
    assert_close(net.log_density(rows), answers["log_density"], "log densities")
    nodes = {what.partition(" of ")[2] for what in answers} - {""}
    assert nodes == ({"c", "y", "w"} if name == "family_mixed" else {*net})
    posteriors = {
        node: net.posterior(node, rows[[other for other in rows if other != node]], impossible="nan") for node in nodes
    }
    for what, before in answers.items():
        kind, _, node = what.partition(" of ")
        if kind == "probabilities":
            assert_close(posteriors[node].probabilities, before, what)
        elif kind == "mean":
            assert_close(posteriors[node].mean(), before, what)
        elif kind == "sd":
            assert_close(posteriors[node].std(), before, what)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_ensembles_vote_as_they_did(name: str) -> None:
    ensemble, answers = hb.load(OLD / f"{name}.hbn"), expected()["ensembles"]["answers"][name]
    rows = frame_of(expected()["ensembles"]["rows"])
    asked = rows[[column for column in rows if column in ensemble.networks[0] and column != "disease"]]  # type: ignore[attr-defined]
    assert_close(ensemble.votes, answers["votes"], "votes")  # type: ignore[attr-defined]
    assert_close(ensemble.errors, answers["errors"], "errors")  # type: ignore[attr-defined]
    assert_close(ensemble.posterior(asked).probabilities, answers["probabilities"], "probabilities")


@pytest.mark.parametrize("strategy", ["draw", "mean", "most_probable"])
@pytest.mark.parametrize("name", IMPUTATIONS)
def test_imputation_models_complete_as_they_did(name: str, strategy: str) -> None:
    asked = pd.DataFrame(expected()["imputation"]["rows"])
    before = expected()["imputation"]["completed"][f"{name}, {strategy}"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means are biased, as was said then
        now = hb.impute(  # type: ignore[call-overload]
            asked,
            None,
            strategy,
            network=as_kind(hb.Network, hb.load(OLD / f"{name}.hbn")),
            random_state=0,
            full_precision=True,
        )
    assert list(now) == list(before)
    for column, values in before.items():
        if pd.api.types.is_numeric_dtype(now[column]):
            assert_close(now[column], values, column)
        else:
            assert now[column].tolist() == values


def test_an_unfinished_run_is_taken_up_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the versions of the libraries are the same, the result is; else the parts are refused by name and kept."""
    folder = shutil.copytree(OLD / "unfinished", tmp_path / "unfinished")
    monkeypatch.chdir(folder)
    code = run(["impute", "t.csv", "out.csv", "--chunk", "6", "--draws", "2"])
    said = capsys.readouterr().err
    if code == 0:
        assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()
        assert not Path("out.csv.parts").exists()
    else:
        assert code == 75
        assert "changed; --restart begins anew" in said
        assert not Path("out.csv").exists()
        assert Path("out.csv.parts", "part-0-0").exists()
        assert run(["impute", "t.csv", "out.csv", "--chunk", "6", "--draws", "2", "--restart", "--quiet"]) == 0


@pytest.mark.parametrize("strategy", ["draw", "mean"])
def test_imputation_models_complete_alike_when_they_are_saved_anew(tmp_path: Path, strategy: str) -> None:
    asked = pd.DataFrame(expected()["imputation"]["rows"])
    old = hb.load(OLD / "imputation.hbn")
    assert as_kind(hb.Network, old).graph["imputation"]["version"] == 3

    def complete(network: hb.Network) -> Imputation:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return hb.impute(asked, None, strategy, network=network, details=True, random_state=0)  # type: ignore[call-overload]

    first = complete(as_kind(hb.Network, old))
    assert first.network is not None
    first.network.save(tmp_path / "new.hbn")
    new = hb.load(tmp_path / "new.hbn")
    assert as_kind(hb.Network, new).graph["imputation"]["version"] > 3
    pd.testing.assert_frame_equal(complete(as_kind(hb.Network, new)).table, first.table)
