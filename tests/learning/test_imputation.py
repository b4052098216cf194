"""`impute`: what goes in comes out with its holes filled, and filled from the right distribution."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete
from scipy import stats

import hybridbn as hb
from hybridbn.learning import Imputation
from hybridbn.structures import chow_liu

# tables with many holes often have such rows; a test of its own looks at the warning
pytestmark = pytest.mark.filterwarnings(
    "ignore:.* rows have no observed cell", "ignore:.* imputed numbers lie outside of the observed range"
)

C, D = hb.Discrete("c", states=("a", "b", "z")), hb.Discrete("d", states=("no", "yes"))
X, Y = hb.Continuous("x"), hb.Continuous("y")
LEAST = 1e-6
"""Probability of a false alarm of each statistical assertion."""


def mixed(n: int = 120, seed: int = 0, rate: float = 0.3) -> pd.DataFrame:
    """Return an incomplete table of many types."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    kind = np.where(x + rng.normal(size=n) > 0, "big", "small")
    count = rng.poisson(4 + (x > 0)).astype(float)
    frame = pd.DataFrame({"x": x, "y": 2 * x + rng.normal(size=n), "kind": kind, "count": count})
    frame = frame.mask(rng.random(frame.shape) < rate)
    frame["level"] = pd.Categorical(
        np.where(rng.random(n) < 0.3, np.array(None), np.where(x > 0.5, "high", "low")),
        ["low", "middle", "high"],
        ordered=True,
    )
    whole, flag = rng.random((2, n)) < 0.3
    frame["whole"] = pd.Series(np.where(whole, np.nan, np.rint(5 * x))).astype("Int32")
    frame["flag"] = pd.Series(x > 0).astype("boolean").mask(flag)
    frame["single"] = frame["x"].astype("float32")
    return frame.set_axis(np.arange(1000, 1000 + n), axis=0)


def network() -> hb.Network:
    return hb.Network([
        hb.Multinomial(C, table=[0.5, 0.3, 0.2]),
        hb.Multinomial(D, parents=(C,), table=[[0.9, 0.1], [0.3, 0.7], [0.5, 0.5]]),
        hb.LinearGaussian(X, parents=(C,), intercept=[0, 2, -3], variance=[1, 0.5, 2]),
        hb.LinearGaussian(Y, parents=(D, X), intercept=[1, -1], coefficients=[[2], [-1]], variance=[1, 0.3]),
    ])  # fmt: skip


def other_network() -> hb.Network:
    """Return one that has no closed form: a category that depends on a number."""
    return hb.Network([
        hb.LinearGaussian(X, intercept=0, variance=1),
        hb.Softmax(D, parents=(X,), intercept=[0.5, 0], coefficients=[[1.5], [0.0]]),
        hb.LinearGaussian(Y, parents=(D, X), intercept=[1, -1], coefficients=[[2], [-1]], variance=[1, 0.3]),
    ])  # fmt: skip


NETWORKS = {"closed form": network, "by quadrature": other_network}


# -- what goes in comes out ------------------------------------------------------------------------------------------


def test_a_frame_of_pandas_keeps_all_but_its_holes() -> None:
    frame = mixed()
    before = frame.copy(deep=True)
    filled = hb.impute(frame, random_state=0)
    pd.testing.assert_frame_equal(frame, before)
    assert not filled.isna().any().any()
    pd.testing.assert_series_equal(filled.dtypes, frame.dtypes)
    assert filled.index.equals(frame.index)
    for name in frame:
        seen = frame[name].notna()
        pd.testing.assert_series_equal(filled.loc[seen, name], frame.loc[seen, name])
    assert list(filled["level"].cat.categories) == ["low", "middle", "high"]
    assert (filled["count"] == filled["count"].round()).all()


def kinds(frame: pd.DataFrame) -> dict[str, Any]:
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    plain = frame[["x", "y", "kind", "count"]].reset_index(drop=True)
    records = plain.astype(object).where(plain.notna(), None).to_dict("records")
    return {
        "polars": polars.from_pandas(plain, nan_to_null=True).with_columns(polars.col("kind").cast(polars.Categorical)),
        "pyarrow": pyarrow.Table.from_pandas(plain, preserve_index=False),
        "table": hb.Table(plain),
        "dict": {"x": plain["x"].to_numpy(), "kind": plain["kind"].to_numpy(object), "count": plain["count"].tolist()},
        "records": records,
        "structured": np.array([(r.x, r.y) for r in plain.itertuples()], dtype=[("x", "f8"), ("y", "f4")]),
    }


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "table", "dict", "records", "structured"])
def test_every_kind_of_table_comes_back_as_it_was(kind: str) -> None:
    data = kinds(mixed())[kind]
    before = kinds(mixed())[kind]
    filled = hb.impute(data, random_state=0)
    assert type(filled) is type(data)
    if kind == "polars":
        assert filled.schema == data.schema
        assert data.equals(before)
    if kind == "pyarrow":
        assert filled.schema.types == data.schema.types
        assert data.equals(before)
    if kind == "structured":
        assert filled.dtype == data.dtype
    if kind == "records":
        assert data == before
    table, given = hb.Table(filled), hb.Table(data)
    assert table.names == given.names
    for name in given.names:
        mine, yours = table.raw(name), given.raw(name)
        assert all(value is not None and value == value for value in mine)
        seen = [value is not None and value == value for value in yours]
        assert all(a == b and type(a) is type(b) for a, b, s in zip(mine, yours, seen, strict=True) if s)


def test_types_of_polars_stay() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(
        {
            "n": [1, 2, None, 4, 5, 6, None, 8],
            "f": [0.5, None, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0],
            "e": ["a", "b", None, "a", "b", "a", "b", None],
            "b": [True, None, False, True, False, True, None, False],
            "s": ["u", "v", "u", None, "u", "v", "v", "u"],
        },
        schema={
            "n": polars.Int16,
            "f": polars.Float32,
            "e": polars.Enum(["a", "b", "c"]),
            "b": polars.Boolean,
            "s": polars.String,
        },
    )
    filled = hb.impute(frame, random_state=0)
    assert filled.schema == frame.schema
    assert sum(filled.null_count().row(0)) == 0


def test_parquet_and_sqlite_round_trips(tmp_path: Path) -> None:
    frame = mixed()[["x", "kind", "count"]].reset_index(drop=True)
    for path in (tmp_path / "t.parquet", f"sqlite:///{tmp_path}/t.db?table=t"):
        hb.Table(frame).write(path)
        table = hb.impute(hb.read_table(path), random_state=0)
        other = str(path).replace("t.parquet", "o.parquet").replace("table=t", "table=o")
        table.write(other)
        assert hb.read_table(other).to_pandas().equals(table.to_pandas())
        assert not table.to_pandas().isna().any().any()


def test_a_complete_table_comes_back_equal() -> None:
    frame = mixed(rate=0)[["x", "y", "kind"]]
    filled = hb.impute(frame, random_state=0)
    pd.testing.assert_frame_equal(filled, frame)
    assert filled is not frame


# -- random numbers --------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_table() -> None:
    frame = mixed(30)
    filled = hb.impute(frame, random_state=3)
    pd.testing.assert_frame_equal(hb.impute(frame, random_state=3), filled)
    assert not hb.impute(frame, random_state=4).equals(filled)
    first, second = hb.impute(frame, draws=2, random_state=3)
    assert not first.equals(second)


@pytest.mark.parametrize("which", NETWORKS)
def test_a_row_does_not_depend_on_its_mates(which: str) -> None:
    model = NETWORKS[which]()
    rows = model.sample(60, random_state=0)
    rows = rows.mask(np.random.default_rng(1).random(rows.shape) < 0.4)
    # a cell of its own for every row, so that no two have the same
    rows["x"] = rows["x"].fillna(pd.Series(np.linspace(-1, 1, 60)))
    filled = hb.impute(rows, network=model, random_state=0)
    shuffled = rows.sample(frac=1, random_state=2)
    pd.testing.assert_frame_equal(hb.impute(shuffled, network=model, random_state=0).sort_index(), filled)
    parts = [hb.impute(rows[i : i + 7], network=model, random_state=0) for i in range(0, 60, 7)]
    pd.testing.assert_frame_equal(pd.concat(parts), filled)
    for i in (0, 17, 59):
        pd.testing.assert_frame_equal(hb.impute(rows[i : i + 1], network=model, random_state=0), filled[i : i + 1])


def test_keys_make_equal_rows_independent_of_their_place() -> None:
    rows = pd.DataFrame({"id": range(40), "c": ["a"] * 40, "x": np.nan})
    whole = hb.impute(rows, network=network(), keys="id", random_state=0)
    assert whole["x"].nunique() == 40
    part = hb.impute(rows[13:20], network=network(), keys="id", random_state=0)
    pd.testing.assert_frame_equal(part, whole[13:20])
    listed = hb.impute(rows.drop(columns="id"), network=network(), keys=list(range(40)), random_state=0)
    assert listed["x"].tolist() == whole["x"].tolist()


# -- the right distribution ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", NETWORKS)
def test_drawn_cells_follow_their_exact_conditionals(which: str) -> None:
    model, n = NETWORKS[which](), 2000
    complete = model.sample(n, random_state=5)
    rng = np.random.default_rng(6)
    holes = rng.random(complete.shape) < 0.5
    rows = complete.mask(holes)
    filled = hb.impute(rows, network=model, random_state=7)
    for place, name in enumerate(rows):
        hidden = np.flatnonzero(holes[:, place])
        posterior = model.posterior(name, rows.drop(columns=name).iloc[hidden])
        values = filled[name].to_numpy()[hidden]
        if isinstance(model.variable(name), hb.Discrete):
            codes = as_discrete(model.variable(name)).codes(values)
            tables = posterior.probabilities
            below = np.concatenate([np.zeros((len(hidden), 1)), np.cumsum(tables, axis=1)], axis=1)
            at = np.arange(len(hidden))
            level = below[at, codes] + rng.random(len(hidden)) * tables[at, codes]
            expected, variance = tables.sum(axis=0), (tables * (1 - tables)).sum(axis=0)
            score = (np.bincount(codes, minlength=tables.shape[1]) - expected) / np.sqrt(variance)
            assert (np.abs(score) < stats.norm.isf(LEAST / 2)).all()
        else:
            parts = [slice(start, start + 100) for start in range(0, len(hidden), 100)]
            level = np.concatenate([np.diagonal(posterior[part].cdf(values[part])) for part in parts])
        assert stats.kstest(level, "uniform").pvalue > LEAST
        assert stats.chisquare(np.histogram(level, 10, (0, 1))[0]).pvalue > LEAST


@pytest.mark.parametrize("which", NETWORKS)
def test_joint_draws_keep_what_belongs_together(which: str) -> None:
    model, n = NETWORKS[which](), 4000
    # all missing: the completed table is a sample of the network itself
    names = list(model)
    rows = pd.DataFrame({name: [None] * n for name in names}).astype(
        {name: float if isinstance(model.variable(name), hb.Continuous) else object for name in names}
    )
    filled = hb.impute(rows, network=model, keys=range(n), random_state=0)
    exact = model.sample(200_000, random_state=1)
    slopes = {state: np.polyfit(part["x"], part["y"], 1) for state, part in filled.groupby("d")}
    assert slopes["no"] == pytest.approx([2, 1], abs=0.15)
    assert slopes["yes"] == pytest.approx([-1, -1], abs=0.15)
    for name in ("x", "y"):
        for state, part in filled.groupby("d"):
            assert stats.ks_2samp(part[name], exact.loc[exact["d"] == state, name]).pvalue > LEAST


def test_bounds_are_those_of_the_truncated_distribution() -> None:
    rows = pd.DataFrame({"x": [np.nan] * 3000, "c": ["a"] * 3000, "d": ["no"] * 3000, "y": np.linspace(-2, 4, 3000)})
    filled = hb.impute(rows, network=network(), bounds={"x": (-0.5, 0.7)}, random_state=0)
    assert filled["x"].between(-0.5, 0.7).all()
    # x given y: precision 1 + 4, mean 2 (y - 1) / 5
    mean, deviation = 0.4 * (rows["y"] - 1), np.sqrt(0.2)
    levels = stats.truncnorm.cdf(filled["x"], (-0.5 - mean) / deviation, (0.7 - mean) / deviation, mean, deviation)
    assert stats.kstest(levels, "uniform").pvalue > LEAST


def test_far_bounds_are_reached_too() -> None:
    rows = pd.DataFrame({"x": [np.nan] * 500, "y": [np.nan] * 500, "c": ["a"] * 500})
    filled = hb.impute(
        rows, network=network(), bounds={"x": (6, None), "y": (None, -8)}, keys=range(500), random_state=0
    )
    assert (filled["x"] >= 6).all()
    assert (filled["y"] <= -8).all()
    unusual = hb.impute(rows[["x"]], network=other_network(), bounds={"x": (6, None)}, keys=range(500), random_state=0)
    assert unusual["x"].min() >= 6
    assert stats.kstest(stats.norm.sf(unusual["x"]) / stats.norm.sf(6), "uniform").pvalue > LEAST


def test_learned_networks_keep_correlations() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    x = rng.normal(size=n)
    c = np.where(x + rng.normal(size=n) > 0, "p", "q")
    true = pd.DataFrame({"x": x, "y": x + 0.5 * rng.normal(size=n) + (c == "p"), "c": c})
    true["z"] = true["y"] - true["x"] + rng.normal(size=n)
    frame = true.mask(rng.random(true.shape) < 0.3)
    filled = hb.impute(frame, random_state=0)
    names = ["x", "y", "z"]
    assert np.abs(filled[names].corr() - true[names].corr()).to_numpy().max() < 0.05
    assert np.abs(filled.groupby("c")[names].mean() - true.groupby("c")[names].mean()).to_numpy().max() < 0.15
    assert np.abs(filled[names].std() / true[names].std() - 1).max() < 0.06


def test_cells_missing_at_random_are_not_taken_for_available_cases() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    frame = pd.DataFrame({"x": x, "y": x + 0.5 * rng.normal(size=3000)})
    frame.loc[rng.random(3000) < 1 / (1 + np.exp(-3 * x)), "y"] = np.nan
    assert frame["y"].mean() < -0.4
    assert abs(hb.impute(frame, random_state=0)["y"].mean()) < 0.08


def test_several_draws_differ_by_their_parameters_too() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=30)})
    frame["y"] = frame["x"] + rng.normal(size=30)
    frame.loc[10:, "y"] = np.nan
    proper = np.var([t["y"].mean() for t in hb.impute(frame, draws=60, random_state=0)])
    fixed = hb.impute(frame, details=True, random_state=0).network
    plugged = np.var([hb.impute(frame, network=fixed, random_state=seed)["y"].mean() for seed in range(60)])
    # var(mean) = (20 / 30)^2 (sigma^2 / 20 + sigma^2 / 10 ...) against (20 / 30)^2 sigma^2 / 20
    assert proper > 1.8 * plugged


# -- strategies and structures ---------------------------------------------------------------------------------------


def test_expected_values_come_with_a_warning() -> None:
    rows = network().sample(50, random_state=0)
    rows = rows.mask(np.random.default_rng(0).random(rows.shape) < 0.4)
    with pytest.warns(UserWarning, match="variances too small"):
        filled = hb.impute(rows, strategy="mean", network=network())
    for name in ("x", "y"):
        hidden = rows[name].isna()
        expected = network().posterior(name, rows.drop(columns=name)[hidden]).mean()
        np.testing.assert_allclose(filled.loc[hidden, name], expected, rtol=1e-6, atol=1e-8)
    hidden = rows["c"].isna()
    assert filled.loc[hidden, "c"].tolist() == network().posterior("c", rows.drop(columns="c")[hidden]).mode().tolist()


def test_the_most_probable_completion_is_that_of_the_network() -> None:
    rows = network().sample(20, random_state=0)
    rows = rows.mask(np.random.default_rng(0).random(rows.shape) < 0.4)
    filled = hb.impute(rows, strategy="most_probable", network=network())
    expected = network().most_probable(rows)
    for name in rows:
        hidden = rows[name].isna()
        if isinstance(network().variable(name), hb.Discrete):
            assert filled.loc[hidden, name].tolist() == expected[name][hidden.to_numpy()].tolist()
        else:
            np.testing.assert_allclose(filled.loc[hidden, name], expected[name][hidden.to_numpy()], rtol=1e-6)


def test_a_heavy_point_is_the_most_probable_number_where_it_outweighs_all_others() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(2, 600))
    true = pd.DataFrame({"x": x, "y": np.maximum(x + 0.5 * noise, 0)})
    hidden = rng.random(600) < 0.3
    filled = hb.impute(true.assign(y=true["y"].mask(hidden)), strategy="most_probable", random_state=0)
    sure = hidden & (np.abs(x) > 0.5)
    assert ((filled["y"] == 0) == (x < 0))[sure].mean() > 0.9


def test_combinations_beyond_memory_are_refused_unless_slices_are_asked_for() -> None:
    rng = np.random.default_rng(0)
    names = {(i, j): hb.Discrete(f"{i}{j}", states=("a", "b")) for i in range(5) for j in range(5)}
    net = hb.Network()
    for (i, j), variable in names.items():
        parents = tuple(names[one] for one in ((i - 1, j), (i, j - 1)) if one in names)
        table = rng.dirichlet([1, 1], size=(2,) * len(parents))
        net.add(hb.Multinomial(variable, parents=parents, table=table))
    rows = net.sample(5, random_state=0)
    rows = rows.mask(rng.random(rows.shape) < 0.8)
    with pytest.raises(hb.TooWide, match="beyond='slice'"):
        hb.impute(rows, strategy="most_probable", network=net, max_bytes=300)
    filled = hb.impute(rows, strategy="most_probable", network=net, max_bytes=300, beyond="slice")
    pd.testing.assert_frame_equal(filled, hb.impute(rows, strategy="most_probable", network=net))


@pytest.mark.parametrize(
    "options",
    [
        {"structure": "tan", "target": "kind"},
        pytest.param({"structure": "tan"}, marks=pytest.mark.slow),
        pytest.param({"structure": "chow_liu"}, marks=pytest.mark.slow),
        {"structure": "naive_bayes", "target": "y", "potentials": "gaussian"},
        {"structure": [("kind", "x"), ("x", "y")]},
        {"structure": [("x", "kind")], "potentials": "gaussian"},
        pytest.param({"potentials": {"x": "multinomial"}, "structure": "chow_liu"}, marks=pytest.mark.slow),
        pytest.param({"structure": chow_liu}, id="a builder"),
        pytest.param({"target": "x"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_any_structure_completes_the_table(options: dict[str, Any]) -> None:
    frame = mixed(50)[["x", "y", "kind"]]
    for table in hb.impute(frame, draws=2, random_state=0, rounds=1, **options):
        assert not table.isna().any().any()


def test_a_table_of_states_alone_is_completed() -> None:
    votes = hb.datasets.load_votes()[:60]
    assert votes.isna().any().any()
    assert not hb.impute(votes, random_state=0).isna().any().any()


def test_a_learned_network_serves_new_rows() -> None:
    frame = mixed()
    found = hb.impute(frame, details=True, random_state=0)
    assert isinstance(found, Imputation)
    again = hb.impute(mixed(seed=1), network=found.network, random_state=0)
    assert not again.isna().any().any()


# -- constraints -----------------------------------------------------------------------------------------------------


def test_bounds_hold_in_learned_networks() -> None:
    frame = mixed()[["x", "y", "count", "kind"]]
    filled = hb.impute(frame, bounds={"x": (-1, 1), "count": (3, 6), "y": "observed"}, random_state=0)
    for name, (low, high) in {"x": (-1, 1), "count": (3, 6), "y": (frame["y"].min(), frame["y"].max())}.items():
        assert filled.loc[frame[name].isna(), name].between(low, high).all()
    everywhere = hb.impute(frame, bounds="observed", random_state=0)
    assert (everywhere[["x", "y"]].max() == frame[["x", "y"]].max()).all()


def test_observed_bounds_leave_columns_without_a_range_alone() -> None:
    frame = mixed()[["x", "y"]].assign(same=7.0, none=np.nan)
    frame.loc[3, "same"] = np.nan
    with pytest.warns(UserWarning, match="columns left alone: 'none'"):
        filled = hb.impute(frame, bounds="observed", random_state=0)
    assert (filled["same"] == 7).all()


def test_bounds_may_be_open_at_one_end() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "n": rng.poisson(0.5, 300).astype(float)})
    frame = frame.mask(rng.random(frame.shape) < 0.3)
    for donors in (True, False):
        filled = hb.impute(frame, bounds={"x": (None, 1), "n": (0, None)}, donors=donors, random_state=0)
        assert (filled.loc[frame["x"].isna(), "x"] <= 1).all()
        assert filled["n"].min() == 0
        assert (filled["n"] % 1 == 0).all()


def test_skipped_columns_are_not_even_read() -> None:
    frame = mixed()[["x", "y"]].assign(strange=[object() if i % 2 else None for i in range(120)])
    filled = hb.impute(frame, skip="strange", random_state=0)
    assert filled["strange"].tolist() == frame["strange"].tolist()
    assert not filled[["x", "y"]].isna().any().any()


def test_whole_numbers_stay_whole() -> None:
    frame = mixed()[["x", "count"]]
    assert (hb.impute(frame, random_state=0)["count"] % 1 == 0).all()
    loose = hb.impute(frame, integers=(), rules=False, donors=False, random_state=0)
    assert (loose["count"] % 1 != 0).any()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_what_an_integer_type_cannot_hold_is_not_drawn(kind: str) -> None:
    pytest.importorskip("polars")
    y = np.linspace(-900, 900, 80)
    frame = pd.DataFrame({"x": pd.Series([0, 1, 2, None] * 20, dtype="UInt8"), "y": y + 400 * (np.arange(80) % 4)})
    data: Any = frame
    if kind != "pandas":
        data = pytest.importorskip("polars").from_pandas(frame)
        data = data.to_arrow() if kind == "pyarrow" else data
    model = hb.Network(
        [hb.LinearGaussian(X, intercept=-1, variance=4), hb.LinearGaussian(Y, intercept=0, variance=1e6)]
    )
    for options in ({"network": model}, {"donors": False}, {}):
        filled = hb.impute(data, random_state=0, **options)
        if kind == "pandas":
            assert filled["x"].dtype == "UInt8"
        else:
            assert filled.schema == data.schema
        assert min(hb.Table(filled).raw("x")) >= 0


def test_indicators_and_cells_tell_what_was_imputed() -> None:
    frame = mixed()[["x", "y", "kind"]]
    found = hb.impute(frame, indicators=True, details=True, random_state=0)
    for name in frame:
        assert (found.table[f"{name}_imputed"] == frame[name].isna()).all()
        assert (found.imputed[name] == frame[name].isna()).all()
    cells = found.cells(0.9)
    assert len(cells) == frame.isna().sum().sum()
    numbers = cells[cells["column"] != "kind"]
    assert ((numbers["low"] < numbers["mean"]) & (numbers["mean"] < numbers["high"])).all()
    states = cells[cells["column"] == "kind"]
    assert states["state"].isin(["big", "small"]).all()
    assert states["probability"].between(0.5, 1).all()
    assert "120 rows" in repr(found)
    assert len(found.history) > 1
    with pytest.raises(hb.TableError, match="already has columns"):
        hb.impute(frame.assign(x_imputed=1.0), indicators=True)


def test_warnings_of_numpy_do_not_leak() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "columns are treated as codes")
        hb.impute(mixed(), random_state=0)
