"""What every door says of a table: the same sentences, in one warning a call."""

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.estimators import HybridClassifier, HybridRegressor, Imputer
from hybridbn.structures import automatic, chow_liu, hill_climb, naive_bayes, tan
from hybridbn.structures.building import BUILDERS, declaration_of

N = 160


def make_frame() -> pd.DataFrame:
    """Return a table with marks, row numbers, other identifiers, a constant and an empty column."""
    rng = np.random.default_rng(0)
    c = rng.choice(["a", "b"], N)
    x = (rng.normal(size=N) + (c == "a")).round(2)
    frame = pd.DataFrame({"c": c, "x": x, "y": (x + rng.normal(size=N)).round(2)})
    frame["sex"] = rng.choice([1, 2, 9], N, p=[0.45, 0.45, 0.1])
    frame["nr"], frame["name"] = np.arange(1, N + 1), [f"p{row}" for row in range(N)]
    frame["phone"] = 2_000_000_000 + rng.choice(10**9, N, replace=False)
    frame["k"] = np.where(np.arange(N) == 3, np.nan, 3.0)
    frame["e"] = np.nan
    frame.loc[5, "x"] = np.nan
    return frame


SENTENCES = {
    "marks": "values that may stand for missing cells: 9 in 'sex' (",
    "row numbers": "'nr' (row numbers)",
    "names": "'name' (a different value in each row)",
    "numbers": "'phone' (a different number in each row)",
    "empty": "'e' (no value)",
    "constant": "columns 'k' have the same value in ",
}
DOORS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "fit": lambda frame: hb.fit("c -> x -> y", frame),
    "fit of a scan": lambda frame: hb.fit("c -> x -> y", hb.scan(frame)),
    "em": lambda frame: hb.fit("c -> x -> y", frame, "gaussian", missing="em"),
    "naive_bayes": lambda frame: naive_bayes(frame, "c"),
    "tan": lambda frame: tan(frame, "c"),
    "automatic": lambda frame: automatic(frame, "c"),
    "chow_liu": lambda frame: chow_liu(frame, "gaussian"),
    "hill_climb": lambda frame: hill_climb(frame, "gaussian"),
    "boost": lambda frame: hb.boost(frame, "c", rounds=2),
    "augment": lambda frame: hb.augment(frame, "c"),
    "classifier": lambda frame: HybridClassifier("tan").fit(frame.drop(columns="c"), frame["c"]),
    "regressor": lambda frame: HybridRegressor("naive_bayes").fit(frame.drop(columns="y"), frame["y"]),
    "impute": lambda frame: hb.impute(frame, random_state=0),
    "Imputer": lambda frame: Imputer(random_state=0).fit(frame),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_says_the_same_in_one_warning(door: str) -> None:
    with warnings.catch_warnings(record=True, action="always") as told:
        DOORS[door](make_frame())
    assert len(told) == 1
    assert told[0].filename == __file__
    message = str(told[0].message)
    assert [subject for subject, sentence in SENTENCES.items() if message.count(sentence) != 1] == []
    assert "if they do, say missing={'sex': [9]}" in message


@pytest.mark.parametrize(
    "learn",
    [
        lambda frame: hb.fit("sex -> x", frame),
        lambda frame: hb.fit("c -> sex", frame, {"sex": "mte"}),
        lambda frame: naive_bayes(frame, "sex"),
        lambda frame: naive_bayes(frame, "c", {"sex": "kernel"}),
        lambda frame: HybridRegressor("naive_bayes").fit(hb.Table(frame), "sex"),
    ],
)
def test_marks_of_columns_that_are_named_are_told(learn: Callable[[pd.DataFrame], Any]) -> None:
    with pytest.warns(UserWarning, match=r"may stand for missing cells: 9 in 'sex' \(.*say missing={'sex': \[9\]}"):
        learn(make_frame()[["c", "x", "sex"]])


@pytest.mark.parametrize("arguments", [["impute", "t.csv", "out.csv"], ["fit", "t.csv", "m.hbn", "--target", "c"]])
def test_the_command_says_the_same(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_frame().to_csv("t.csv", index=False)
    assert run(arguments) == 0
    said = capsys.readouterr().err
    assert [subject for subject, sentence in SENTENCES.items() if said.count(sentence) != 1] == []
    assert "if they do, say --missing sex=9" in said


def test_what_is_advised_works() -> None:
    frame = make_frame()
    with warnings.catch_warnings(record=True, action="always") as told:
        hb.impute(frame, missing={"sex": [9]}, random_state=0)
        net = hb.fit("nr -> y", frame, missing={"sex": [9]}, continuous=["phone"])
    assert all("may stand for missing cells" not in str(one.message) for one in told)
    assert {"nr", "phone"} <= {*net}
    assert "name" not in net


@pytest.mark.parametrize(
    "complete",
    [lambda frame: hb.impute(frame, random_state=0), lambda frame: Imputer(random_state=0).fit_transform(frame)],
)
def test_numbers_outside_of_what_was_observed_are_told(complete: Callable[[pd.DataFrame], Any]) -> None:
    t = np.linspace(0, 1, 120)
    frame = pd.DataFrame({"t": t, "y": np.where(t < 0.5, 100 * t + np.sin(40 * t), np.nan)})
    with pytest.warns(UserWarning, match=r"\d+ imputed numbers lie outside of the observed range: y \(\d+ outside of "):
        complete(frame)


def test_the_rest_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hybridbn"), pytest.warns(UserWarning, match="left alone"):
        hb.fit("c -> x", make_frame())
    assert any("left alone" in record.message and record.levelname == "INFO" for record in caplog.records)


@pytest.mark.parametrize("column", ["empty", "constant", "identifier"])
@pytest.mark.parametrize("builder", sorted(BUILDERS.load()))
def test_every_builder_takes_columns_that_tell_nothing(builder: str, column: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": list("ab") * 40, "x": rng.normal(size=80), "y": rng.normal(size=80)})
    frame["odd"] = {"empty": np.nan, "constant": 2.5, "identifier": np.arange(80)}[column]
    table = hb.Table(frame, continuous=["odd"]) if column == "empty" else hb.Table(frame)
    build = BUILDERS[builder]
    target = {True: ("c",), hb.Discrete: ("c",), hb.Continuous: ("y",), False: ()}[declaration_of(build).takes_target]
    with pytest.warns(UserWarning, match="'odd'"):
        network = build(table, *target)
    assert "odd" not in network
