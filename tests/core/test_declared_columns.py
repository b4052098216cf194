"""What is said of columns (`discrete`, `continuous`, `ordered`, `missing`) counts in every door and in later tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.estimation.available_cases import read_as_declared
from hybridbn.structures import hill_climb, naive_bayes

ROWS = 60


def survey() -> pd.DataFrame:
    """Return a table whose column of ages marks missing cells by 99, and that of regions by 9 and 8."""
    rng = np.random.default_rng(5)
    age = np.where(rng.random(ROWS) < 0.2, 99, rng.integers(20, 70, ROWS))
    return pd.DataFrame(
        {
            "region": np.where(rng.random(ROWS) < 0.2, rng.choice([8, 9], ROWS), rng.integers(1, 4, ROWS)),
            "member": rng.random(ROWS) < 0.5,
            "age": age,
            "code": rng.integers(0, 30, ROWS),
            "vote": np.where(rng.random(ROWS) < age / 100, "left", "right"),
        }
    )


DECLARED: dict[str, Any] = {
    "discrete": "region",
    "continuous": ["member"],
    "ordered": "code",
    "missing": {"age": 99, "region": [8, 9]},
}

DOORS: dict[str, Callable[..., hb.Network]] = {
    "fit": lambda data, **said: hb.fit("vote -> age; vote -> region; vote -> member; vote -> code", data, **said),
    "builder": lambda data, **said: naive_bayes(data, "vote", **said),
    "classifier": lambda data, **said: (
        hb.HybridClassifier("naive_bayes", **said).fit(data.drop(columns="vote"), data["vote"]).network_
    ),
    "table": lambda data, **said: naive_bayes(hb.Table(data, **said), "vote"),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_columns_as_they_are_declared(door: str) -> None:
    data = survey()
    age, region = data["age"].where(data["age"] < 99), data["region"].where(data["region"] < 8)
    read = hb.Table(data.assign(age=age, region=region, member=data["member"] * 1.0), "region", ordered="code")
    wanted, net = naive_bayes(read, "vote"), DOORS[door](data, **DECLARED)
    assert wanted.variable("region").states == (1, 2, 3)  # type: ignore[union-attr]
    assert isinstance(net.potential("code"), hb.Atoms)
    for name in wanted:
        assert repr(net.variable(name)) == repr(wanted.variable(name))
    # the network knows what the columns of later tables are, truth values included
    later = data.assign(age=40, region=2)
    expected = wanted.posterior("vote", hb.Table(later, continuous="member")).probabilities
    found = net.posterior("vote", later).probabilities
    np.testing.assert_allclose(found, expected, atol=1e-12)


PLAIN: dict[str, Callable[..., Any]] = {
    **{name: door for name, door in DOORS.items() if name != "fit"},
    "fit": lambda data, **said: hb.fit("vote -> age; vote -> region; vote -> code", data, **said),
    "hill climbing": lambda data, **said: hill_climb(data, **said),
    "regressor": lambda data, **said: (
        hb.HybridRegressor("naive_bayes", **said).fit(data.drop(columns="age"), data["age"]).network_
    ),
    "scan": lambda data, **said: naive_bayes(hb.scan(data, **said), "vote"),
}


@pytest.mark.parametrize("door", PLAIN)
def test_codes_that_are_declared_continuous_have_a_density(door: str) -> None:
    data = survey().drop(columns="member").query("age < 99").assign(region=lambda frame: 1 + frame["code"] % 5)
    assert isinstance(PLAIN[door](data).potential("region"), hb.Atoms)
    found = PLAIN[door](data, continuous="region")
    assert not isinstance(found.potential("region"), hb.Atoms)
    assert set(found.sample(50, random_state=0)["region"].astype(float) % 1) == {0.0}


def test_columns_of_no_usable_type_are_kept_whatever_is_declared() -> None:
    given = [[1], [2]]
    plain = hb.Table({"x": given})
    for table in (hb.Table({"x": given}, continuous="x"), hb.Table(plain, ordered="x"), hb.Table(plain, "x")):
        assert table.to_dict()["x"].tolist() == given


def test_targets_that_are_given_apart_are_looked_at_for_marks() -> None:
    data = survey()
    attributes, kept, model = data[["region", "code"]], data["age"] < 99, hb.HybridRegressor("naive_bayes")
    with pytest.warns(UserWarning, match=r"9 in 'region'.*; y: 99 in \d+ cells .* leave these rows out") as caught:
        model.fit(attributes, data["age"])
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="9 in 'region'") as caught:
        model.fit(attributes[kept], data["age"][kept])
    assert "y: " not in str(caught[0].message)


def test_marks_count_as_missing_where_estimators_predict_and_complete() -> None:
    data = survey()
    attributes, marked = data.drop(columns="vote"), data["age"] == 99
    holes = attributes.assign(
        age=attributes["age"].where(~marked), region=attributes["region"].where(attributes["region"] < 8)
    )
    model = hb.HybridClassifier("naive_bayes", **DECLARED).fit(attributes, data["vote"])
    np.testing.assert_array_equal(model.predict_proba(attributes), model.predict_proba(holes))
    imputer = hb.Imputer(**DECLARED, rounds=1, random_state=0)
    for completed in (
        imputer.fit(attributes).transform(attributes),
        hb.impute(attributes, **DECLARED, rounds=1, random_state=0),
        hb.impute(attributes, network=model.network_, missing=DECLARED["missing"], random_state=0),
    ):
        assert list(completed.dtypes) == list(attributes.dtypes)
        assert completed["age"].max() < 99
        assert set(completed["region"]) == {1, 2, 3}
        pd.testing.assert_series_equal(completed["age"][~marked], attributes["age"][~marked])


@pytest.mark.parametrize(
    ("learn", "message"),
    [
        (
            lambda data: hb.fit([], data, missing="n/a"),  # type: ignore[arg-type]
            r"'available' or 'em', not 'n/a'; .* missing=\{'column': \['n/a'",
        ),
        (lambda data: hill_climb(data, missing="99"), r"'em' or 'available', not '99'; values that mark missing cells"),  # type: ignore[arg-type]
        (
            lambda data: naive_bayes(data, "vote", missing="em"),  # type: ignore[arg-type]
            r"hybridbn\.fit; .* give it in a list: missing=\['em'\]",
        ),
        (lambda data: naive_bayes(data, "vote", missing={"agee": [9]}), "no such column; the columns are 'region'"),
        (lambda data: hb.fit([], data, ordered="vote"), "the column holds text"),
        (lambda data: naive_bayes(data, "vote", discrete="age", continuous="age"), "both discrete and continuous"),
        (lambda data: naive_bayes(hb.scan(data), "vote", discrete="age"), r"hb\.scan\(data, discrete=\.\.\.\)"),
    ],
)
def test_confusions_are_refused_with_the_remedy(learn: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(hb.HybridBNError, match=message):
        learn(survey())


@pytest.mark.parametrize("missing", [(), ("a",), ("b",), ("a", "c")])
def test_nodes_declare_their_columns_whichever_others_are_none(missing: tuple[str, ...]) -> None:
    nodes = {name: hb.Discrete(name, ("u", "v", "w")) for name in "abc"}
    net = hb.Network([hb.Multinomial(node, table=[0.2, 0.3, 0.5]) for node in nodes.values()])
    table = hb.Table({name: ["u", "v"] for name in nodes if name not in missing})
    read = read_as_declared(table, net)
    assert list(read.variables) == [node for name, node in nodes.items() if name not in missing]
