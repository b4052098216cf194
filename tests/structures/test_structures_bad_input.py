"""What no builder accepts, and what it says about it."""

import warnings

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.errors import TableError
from hybridbn.structures import chow_liu, hill_climb, kdb, naive_bayes, selective_naive_bayes, tan

DATA = {"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "d": list("uvuvuv"), "c": list("aabbab")}
BUILDERS = [naive_bayes, tan, kdb, selective_naive_bayes]


def build(builder, data, target="c", potentials="gaussian", weights=None, **options):
    if builder is chow_liu:
        return builder(data, potentials, weights, **options)
    return builder(data, target, potentials, weights, **options)


@pytest.mark.parametrize("builder", BUILDERS)
def test_targets_that_cannot_be_predicted(builder):
    with pytest.raises(hb.TableError, match="there is no column 'q'; the columns are 'x', 'd', 'c'"):
        build(builder, DATA, "q")
    with pytest.raises(hb.NetworkError, match="must be the name of a column, not None"):
        build(builder, DATA, None)
    with pytest.raises(hb.TableError, match=r"'y' is 2 in all 6 rows .* nothing to predict"):
        build(builder, {**DATA, "y": [2.0] * 6}, "y")
    with pytest.raises(hb.TableError, match="target 'c' has no observed value in the rows of positive weight"):
        build(builder, {**DATA, "c": [None, "b", *"aaaa"]}, weights=[1, 0, 0, 0, 0, 0])
    with pytest.raises(hb.TableError, match="'c'"):
        build(builder, {**DATA, "c": [None] * 6})


@pytest.mark.parametrize("builder", [*BUILDERS, chow_liu])
def test_hopeless_tables(builder):
    with pytest.raises(hb.TableError, match="no rows"):
        build(builder, pd.DataFrame(DATA).iloc[:0].astype({"d": "category", "c": "category"}))
    with pytest.warns(UserWarning, match=r"columns left alone: 'x' \(no value\)"):
        assert "x" not in build(builder, {**DATA, "x": np.full(6, np.nan)})
    with pytest.raises(hb.TableError, match="weights sum to 0"):
        build(builder, DATA, weights=[0] * 6)
    with pytest.raises(hb.TableError, match="weight"):
        build(builder, DATA, weights=[1, 1])
    with pytest.warns(UserWarning, match=r"columns left alone: 'd' \(a different value in each row\)"):
        assert "d" not in build(
            builder, {"d": [f"id{i}" for i in range(60)], "x": [1.5, 2, 4] * 20, "c": list("ab") * 30}
        )
    with pytest.warns(UserWarning, match="columns 'x' have the same value in all 6 rows"):
        assert "x" not in build(builder, {**DATA, "x": [3.0] * 6})


@pytest.mark.parametrize("builder", [*BUILDERS, chow_liu])
def test_unknown_families(builder):
    with pytest.raises(hb.NetworkError, match="did you mean 'gaussian'"):
        build(builder, DATA, potentials="gausian")
    with pytest.raises(hb.TableError, match="there is no column 'q'"):
        build(builder, DATA, potentials={"q": "mte"})


@pytest.mark.parametrize("builder", BUILDERS)
def test_one_class_works_with_a_warning(builder):
    with pytest.warns(UserWarning, match="target 'c' has one value in the rows that count, 'a'") as caught:
        net = build(builder, {**DATA, "c": ["a"] * 6})
    assert caught[0].filename == __file__
    assert net.posterior("c", {"d": "u"} if "d" in net else {}).probability("a") == 1.0
    with pytest.warns(UserWarning, match="one value"):
        build(builder, {**DATA, "c": pd.Categorical(list("aaaaaa"), categories=list("abz"))})


def test_a_constant_column_is_never_selected():
    data = {**DATA, "x": [3.0] * 6, "e": list("aabbab")}
    net = selective_naive_bayes(data, "c", dict.fromkeys(data, "gaussian"), folds=2)
    assert set(net) == {"c", "e"}


@pytest.mark.parametrize("threshold", [-0.1, float("nan"), "high", True])
def test_thresholds(threshold):
    for builder in (tan, kdb, chow_liu):
        with pytest.raises(hb.NetworkError, match="threshold must be a number of nats"):
            build(builder, DATA, threshold=threshold)


def test_options():
    with pytest.raises(hb.NetworkError, match="root='c' is no attribute; choose one of 'x', 'd'"):
        tan(DATA, "c", root="c")
    with pytest.raises(hb.NetworkError, match="root='q' is no column"):
        chow_liu(DATA, root="q")
    for k in (-1, 1.5, True):
        with pytest.raises(hb.NetworkError, match="k, the number of parents, must be"):
            kdb(DATA, "c", k=k)  # type: ignore[arg-type]
    for folds in (1, 2.5, True):
        with pytest.raises(hb.NetworkError, match="folds must be a whole number of at least 2"):
            selective_naive_bayes(DATA, "c", folds=folds)  # type: ignore[arg-type]
    with (
        pytest.raises(hb.TableError, match="at least 2 rows that have a value of 'c'"),
        pytest.warns(UserWarning, match="one value"),
    ):
        selective_naive_bayes({"d": ["u", "v"], "c": ["a", None]}, "c")


def test_data_is_left_alone():
    frame = pd.DataFrame(DATA)
    before = frame.copy(deep=True)
    for builder in (*BUILDERS, chow_liu):
        build(builder, frame)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize(("rows", "potentials"), [(1, "auto"), (60, {"still": "mte"})])
def test_hill_climb_refuses_a_constant_number_without_noise(rows, potentials):
    """No column and no parents fit it, and the difference of two impossible scores is no number."""
    rng = np.random.default_rng(0)
    data = {"c": ["a", "b"] * 30, "still": [3.0] * 60, "x": rng.normal(size=60).tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TableError, match=r"has only the value"):
            hill_climb({name: cells[:rows] for name, cells in data.items()}, potentials)
