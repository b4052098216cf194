"""What `impute` says of tables, options and networks that don't fit: named errors, or one clear warning."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.learning.imputation import data_augmentation
from hybridbn.structures.building import Build
from hybridbn.tables.scales import describe_identifier


def base(n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n))
    return pd.DataFrame({"x": x, "y": rng.normal(size=n), "c": rng.choice(["a", "b"], n)})


def node(name: str) -> hb.LinearGaussian:
    return hb.LinearGaussian(hb.Continuous(name), intercept=0, variance=1)


def states(name: str, *listed: Any) -> hb.Multinomial:
    return hb.Multinomial(hb.Discrete(name, states=listed), table=[1 / len(listed)] * len(listed))


ERRORS: dict[str, tuple[Any, str]] = {
    "infinite": (lambda: base().assign(y=[0.0] * 29 + [np.inf]), "'y', row 29: inf is infinite"),
    "two columns of one name": (lambda: base().set_axis(["x", "x", "c"], axis=1), "several columns are called 'x'"),
    "mixed types": (lambda: base().assign(c=["a", 1] * 15), "mixes values of several types"),
    "no rows": (lambda: base()[:0], "no rows"),
    "no columns": (lambda: pd.DataFrame(index=range(3)), "no columns"),
    "too large": (lambda: base().assign(y=[1e308, -1e308] * 15), "'y' holds numbers as large as 1e.308"),
    "too close": (lambda: base().assign(y=np.arange(30) * 1e-308), "'y' holds numbers that differ by"),
    "no table": (lambda: 5, "can't be made of a int"),
}


@pytest.mark.parametrize("which", ERRORS)
def test_bad_tables_are_refused_by_name(which: str) -> None:
    make, message = ERRORS[which]
    with pytest.raises(hb.TableError, match=message):
        hb.impute(make(), random_state=0)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "strategy": ({"strategy": "median"}, "strategy must be 'draw', 'mean' or 'most_probable'"),
    "draws": ({"draws": 0}, "draws must be a positive integer"),
    "equal draws": ({"draws": 3, "strategy": "mean"}, "would all be equal"),
    "structure": ({"structure": "tann"}, "structure='tann' is not known"),
    "target": ({"structure": "tan", "target": "zz"}, "target='zz' is no column"),
    "potentials": ({"potentials": "gausian"}, "did you mean 'gaussian'"),
    "skip": ({"skip": "zz"}, "skip='zz': there is no such column"),
    "include": ({"include": "zz"}, "include='zz': there is no such column"),
    "rounds": ({"rounds": -1}, "rounds must be"),
    "seed": ({"random_state": "zero"}, "random_state must be"),
    "keys": ({"keys": "zz"}, "keys='zz': there is no such column"),
    "number of keys": ({"keys": [1, 2]}, "2 keys for 30 rows"),
    "bounds": ({"bounds": {"x": (3, 1)}}, "low < high"),
    "bounds of text": ({"bounds": {"c": (0, 1)}}, "'c' is discrete"),
    "bounds of no column": ({"bounds": {"zz": (0, 1)}}, "'zz' is no column"),
    "no bounds": ({"bounds": 3}, "bounds must be a mapping"),
    "integers": ({"integers": "y"}, "numbers that are not whole"),
    "unknown": ({"unknown": "drop"}, "unknown must be"),
}


@pytest.mark.parametrize("which", OPTIONS)
def test_bad_options_are_refused_by_name(which: str) -> None:
    options, message = OPTIONS[which]
    with pytest.raises(hb.HybridBNError, match=message):
        hb.impute(base(), **{"random_state": 0, **options})


def test_bounds_without_a_whole_number_are_refused() -> None:
    with pytest.raises(hb.TableError, match=r"no whole number between 1\.2 and 1\.8"):
        hb.impute(base().assign(k=[1, 2, None] * 10), bounds={"k": (1.2, 1.8)}, random_state=0)


NETWORKS: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "nothing in common": ([node("q")], {}, "no name in common"),
    "states for numbers": ([states("x", "a", "b")], {}, "'x', row .* is not a state"),
    "numbers for states": ([node("c"), node("x")], {}, "'c', row .*: '.' is not a number"),
    "a state it does not know": ([states("c", "a", "z"), node("x")], {}, "'c', row .*: 'b' is not a state"),
    "a column it does not have": ([node("y")], {}, "'x' have missing cells, but the network has no such nodes"),
    "a structure beside it": ([node("x")], {"structure": "tan"}, "used as it is"),
    "a target beside it": ([node("x")], {"target": "x"}, "used as it is"),
}


@pytest.mark.parametrize("which", NETWORKS)
def test_a_network_for_another_table_is_refused(which: str) -> None:
    potentials, options, message = NETWORKS[which]
    with pytest.raises(hb.HybridBNError, match=message):
        hb.impute(base(), network=hb.Network(potentials), random_state=0, **options)


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(hb.NetworkError, match="must be a Network"):
        hb.impute(base(), network="model.hbn")  # type: ignore[call-overload]


def test_impossible_rows_are_named() -> None:
    c, d = hb.Discrete("c", states=("a", "b")), hb.Discrete("d", states=("u", "v"))
    strict = hb.Network(
        [hb.Multinomial(c, table=[1, 0]), hb.Multinomial(d, parents=(c,), table=[[1.0, 0.0], [0.5, 0.5]])]
    )
    rows = pd.DataFrame({"c": ["a", None, None], "d": ["u", "u", "v"]})
    for strategy in ("draw", "most_probable"):
        with pytest.raises(hb.ImpossibleEvidence, match="row 2 have probability zero") as problem:
            hb.impute(rows, network=strict, strategy=strategy)
        assert problem.value.rows == (2,)


def test_impossible_configurations_of_numbers_are_named() -> None:
    c, x = hb.Discrete("c", states=("a", "b")), hb.Continuous("x")
    strict = hb.Network([
        hb.Multinomial(c, table=[1, 0]),
        hb.LinearGaussian(x, parents=(c,), intercept=[0, 9], variance=[1, 1]),
        hb.Multinomial(hb.Discrete("d", states=("u", "v")), parents=(c,), table=[[1, 0], [0, 1]]),
    ])  # fmt: skip
    rows = pd.DataFrame({"c": [None] * 3, "x": [0.0, 1.0, None], "d": ["u", "v", "u"]})
    with pytest.raises(hb.ImpossibleEvidence, match="row 1 have probability zero"):
        hb.impute(rows, network=strict, random_state=0)


# -- one clear warning -----------------------------------------------------------------------------------------------


def warned(*arguments: Any, **options: Any) -> tuple[Any, str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = hb.impute(*arguments, random_state=0, **options)
    (one,) = found
    assert one.filename == __file__
    return result, str(one.message)


def test_a_row_without_any_observed_cell_is_drawn_from_all() -> None:
    frame = pd.concat([base(), pd.DataFrame({"x": [np.nan], "y": [np.nan], "c": [None]})], ignore_index=True)
    filled, message = warned(frame)
    assert message.startswith("1 of 31 rows have no observed cell (the first is row 30)")
    assert not filled.isna().any().any()


def test_constant_columns_get_their_value() -> None:
    filled, message = warned(base().assign(k=[3.0, np.nan] * 15, s=["u", None] * 15))
    assert "columns 'k', 's' have the same value" in message
    assert (filled["k"] == 3).all()
    assert (filled["s"] == "u").all()


def test_states_name_rows_from_so_many_rows_and_differences_on() -> None:
    names, texts = [f"p{i}" for i in range(40)], [f"a text of {i}" for i in range(40)]
    for states, observed, declared, told in (
        (names[:20], 20, False, "a different value in each row"),
        (names[:19], 19, False, None),
        (names[:20], 20, True, "a different value in each row"),
        (names[:36], 40, False, "a different value in nearly each row"),
        (names[:35], 40, False, None),
        (names[:36], 40, True, None),
        (range(36), 40, False, None),
        (texts[:20], 39, False, "free text"),
        (texts[:20], 40, False, None),
        (texts[:20], 39, True, None),
        ([text[2:] for text in texts[:20]], 39, False, None),
    ):
        assert describe_identifier(list(states), observed, declared=declared) == told


def test_identifiers_are_named_and_left_alone_unless_asked_for() -> None:
    names = [f"p{i}" for i in range(29)]
    frame = base().assign(id=[*names, None])
    filled, message = warned(frame)
    assert "columns left alone: 'id' (a different value in each row), whose 1 missing cells stay missing" in message
    assert filled["id"].tolist() == frame["id"].tolist()
    assert not filled["x"].isna().any()
    assert hb.impute(frame, include="id", random_state=0)["id"][29] in names
    assert hb.impute(frame, skip="id", random_state=0)["id"].isna().sum() == 1


def test_text_that_looks_missing_is_named() -> None:
    filled, message = warned(base().assign(c=["n/a", "NA", "yes", None, "no"] * 6))
    assert "'NA' in 'c' (6 cells), 'n/a' in 'c' (6 cells)" in message
    assert "missing={'c': ['NA', 'n/a']}" in message
    assert filled["c"].isin(["n/a", "NA", "yes", "no"]).all()


def test_unseen_states_can_be_left_where_they_are() -> None:
    model = hb.Network([states("c", "a", "z"), node("x")])
    filled, message = warned(base(), network=model, unknown="missing")
    assert "columns 'c' hold" in message
    assert (filled["c"] == base()["c"]).all()
    assert not filled["x"].isna().any()


# -- what is small or degenerate, and fine ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": [1.0, 2.0, 3.0, None]}),
        pd.DataFrame({"c": ["a", "b", None] * 3}),
        pd.DataFrame({"x": [1.0, None], "y": [2.0, 3.0]}),
        pd.DataFrame({"x": [1.0, 2.0, None] * 5, "twice": [2.0, 4.0, 6.0] * 5, "c": ["a", "b", "a"] * 5}),
        pd.DataFrame({"x": [0.0] * 28 + [1.0, None], "c": ["a"] * 14 + ["b"] * 14 + [None, "a"]}),
        pd.DataFrame({"c": [f"s{i % 9}" for i in range(26)] + [None], "x": np.arange(27) * 1e-9 + 1e6}),
    ],
    ids=["a number", "a category", "two rows", "collinear", "one differs", "large mean"],
)  # fmt: skip
def test_small_tables_are_completed(frame: pd.DataFrame) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*the same value")
        for table in [hb.impute(frame, random_state=0), *hb.impute(frame, draws=3, random_state=0)]:
            assert not table.isna().any().any()
            numbers = table.select_dtypes("number").to_numpy()
            assert np.isfinite(numbers).all()


def test_no_rows_at_all_stay_none() -> None:
    model = hb.Network([states("c", "a", "b"), node("x"), node("y")])
    assert hb.impute(base()[:0], network=model).shape == (0, 3)


def test_bounds_without_possible_values_are_refused_by_row() -> None:
    x, c = hb.Continuous("x", (0, 6)), hb.Discrete("c", ("a", "b"))
    pieces = [hb.Piece({"x": (0, 2)}, {"c": "a"}, 0.5), hb.Piece({"x": (2, 6)}, {"c": "a"}, 0.0, [])]
    pieces += [hb.Piece({"x": (0, 2)}, {"c": "b"}, 0.0, []), hb.Piece({"x": (2, 6)}, {"c": "b"}, 0.25)]
    network = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), hb.MTE(x, (c,), pieces)])
    frame = pd.DataFrame({"c": ["b", "b", "a", "a"], "x": [3.0, None, 1.0, None]})
    possible = hb.impute(frame, network=network, bounds={"x": (1.0, 3.0)}, random_state=0)["x"]
    assert 2 <= possible[1] <= 3
    assert 1 <= possible[3] <= 2
    with pytest.raises(
        hb.ImpossibleEvidence, match=r"no value within the bounds .* is possible in row 3 given"
    ) as told:
        hb.impute(frame, network=network, bounds={"x": (4.0, 5.0)}, random_state=0)
    assert list(told.value.rows) == [3]


def test_targets_are_chosen_from_tables_whose_holes_are_filled() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60)).round(3)
    code = np.where(rng.random(60) < 0.7, "often", "now and then").astype(object)
    table = hb.Table({"a": a, "x": a + b, "b": b, "c": np.where(np.arange(60) % 9 == 0, np.array(None), code)})
    holes = {name: rng.random(60) < 0.3 for name in ("a", "x", "b")}
    incomplete = hb.Table(
        {name: np.where(holes[name], np.nan, table.column(name)) for name in holes} | {"c": table.raw("c")}
    )
    filled = data_augmentation._without_holes(incomplete)
    assert not any(filled.missing.values())
    for name, missing in holes.items():
        known = incomplete.column(name)[~missing]
        np.testing.assert_array_equal(filled.column(name)[~missing], known)
        np.testing.assert_allclose(filled.column(name)[missing], known.mean())
    states = np.array(as_discrete(filled.variable("c")).states)[filled.column("c")]
    assert set(states[np.arange(60) % 9 == 0]) == {"often"}
    # cells that are missing together tell nothing; x and z depend on each other
    x, z = rng.normal(size=(2, 60))
    together = np.arange(60) % 2 == 0
    columns = {"a": np.where(together, np.nan, a), "b": np.where(together, np.nan, b), "x": x, "z": x + 0.8 * z}
    for given, expected in ((None, "x"), ("a", "a")):
        learned = data_augmentation._learn_with_target(Build.of("naive_bayes"), given, "gaussian", hb.Table(columns))
        assert set(learned.edges) == {(expected, name) for name in columns if name != expected}
