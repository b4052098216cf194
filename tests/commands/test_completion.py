"""Completing rows from a network: one mechanism for EM, augmentation, imputation and the command."""

import numpy as np
import pytest
from narrowing import as_discrete
from scipy import stats

import hybridbn as hb
from hybridbn.errors import ImpossibleEvidence
from hybridbn.estimation import completion as completion_module
from hybridbn.estimation.completion import (
    Completion,
    RowLevels,
    fill_table,
    find_holes,
    hash_identifiers,
    levels_of,
)
from hybridbn.options import Options

C, X, Y = hb.Discrete("c", ("a", "b")), hb.Continuous("x"), hb.Continuous("y")
GAUSSIAN = hb.Network([
    hb.Multinomial(C, table=[0.4, 0.6]),
    hb.LinearGaussian(X, parents=(C,), intercept=[0, 2], variance=[1, 1]),
    hb.LinearGaussian(Y, parents=(X,), intercept=1, coefficients=[0.5], variance=0.5),
])  # fmt: skip
LOGISTIC = hb.Network([
    hb.LinearGaussian(X, intercept=0, variance=1),
    hb.Softmax(C, parents=(X,), intercept=[0, 0], coefficients=[[0], [2]]),
    hb.LinearGaussian(Y, parents=(X,), intercept=1, coefficients=[0.5], variance=0.5),
])  # fmt: skip
NETWORKS = {"gaussian": GAUSSIAN, "logistic": LOGISTIC}


def holes(rows: int = 60) -> hb.Table:
    frame = GAUSSIAN.sample(rows, random_state=0)
    rng = np.random.default_rng(1)
    for name in frame:
        frame.loc[rng.random(rows) < 0.4, name] = None
    return hb.Table(frame, variables=[C, X, Y])


def levels(network: hb.Network, rows: int = 60):
    return levels_of(hash_identifiers(range(rows), rows), list(network), 0)


def fills(network: hb.Network, **options):
    made = Completion(network, Options(tolerance=1e-6), **options)
    return {
        "draw": lambda table: made.draw(table, levels(network)),
        "draw_separately": lambda table: made.draw_separately(table, levels(network)),
        "expect": made.expect,
        "find_most_probable": made.find_most_probable,
    }


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("how", fills(GAUSSIAN))
def test_holes_are_filled_and_nothing_else_is_touched(network: hb.Network, how: str) -> None:
    table = holes()
    filled = fill_table(table, fills(network)[how](table))
    assert not find_holes(filled)
    for name, missing in find_holes(table).items():
        np.testing.assert_array_equal(filled.column(name)[~missing], table.column(name)[~missing])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("how", ["draw", "expect", "find_most_probable"])
def test_rows_do_not_depend_on_blocks(network: hb.Network, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = holes()
    whole = fills(network)[how](table)
    monkeypatch.setattr(completion_module, "_NUMBERS", 1)
    monkeypatch.setattr(completion_module, "_FEWEST_ROWS", 7)
    for name, values in fills(network)[how](table).items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-9)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (5.0, 5.5)], ids=["drawn again", "made part of the draw"])
def test_draws_keep_bounds(network: hb.Network, bounds: tuple[float, float]) -> None:
    table = holes()
    filled = fills(network, bounds={"x": bounds})["draw"](table)["x"][find_holes(table)["x"]]
    assert (filled >= bounds[0]).all()
    assert (filled <= bounds[1]).all()
    assert len(np.unique(filled)) == len(filled)


def test_draws_within_bounds_follow_the_conditional_distribution() -> None:
    table = hb.Table({"c": ["a"] * 3000, "x": [None] * 3000, "y": [2.0] * 3000}, variables=[C, X, Y])
    made = Completion(GAUSSIAN, Options(), bounds={"x": (0.0, 1.0), "no node": (5.0, 6.0)})
    drawn = made.draw(table, levels(GAUSSIAN, 3000))["x"]
    # the posterior of x given c and y is normal with mean 2/3 and variance 2/3
    deviation = np.sqrt(2 / 3)
    ends = (np.array([0.0, 1.0]) - 2 / 3) / deviation
    assert stats.kstest(drawn, stats.truncnorm(*ends, 2 / 3, deviation).cdf).pvalue > 1e-3


def test_expectations_and_modes_are_those_within_bounds() -> None:
    table = hb.Table({"c": ["a"] * 2, "x": [None, 7.0], "y": [2.0] * 2}, variables=[C, X, Y])
    made = Completion(GAUSSIAN, Options(), bounds={"x": (1.0, 3.0)})
    deviation = np.sqrt(2 / 3)
    ends = (np.array([1.0, 3.0]) - 2 / 3) / deviation
    mean = stats.truncnorm(*ends, 2 / 3, deviation).mean()
    assert made.choose_expected(table, made.expectations(table))["x"] == pytest.approx([mean, 7.0], rel=1e-9)
    assert made.find_most_probable(table)["x"] == pytest.approx([1.0, 7.0], abs=1e-6)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_probabilities_are_those_of_the_table_s_own_states(network: hb.Network) -> None:
    own = hb.Discrete("c", ("z", "b", "a"))
    table = hb.Table({"c": [None], "x": [2.0]}, variables=[own, X])
    made = Completion(network, Options())
    known = as_discrete(network.posterior("c", {"x": 2.0})).probabilities
    np.testing.assert_allclose(made.expectations(table)["c"], [[0, known[1], known[0]]], rtol=1e-9)
    assert made.translate_to_table(table, "c", np.array([0, 1]), np.zeros(2)).tolist() == [2, 1]


def test_impossible_rows_are_named_by_their_numbers_in_the_table() -> None:
    copy = hb.Discrete("copy", ("a", "b"))
    network = hb.Network([hb.Multinomial(C, table=[1.0, 0.0]), hb.Multinomial(copy, (C,), table=np.eye(2))])
    table = hb.Table({"c": ["a", None, None], "copy": ["a", "a", "b"]}, variables=[C, copy])
    made = Completion(network, Options())
    for fill in (lambda: made.draw(table, levels(network, 3)), lambda: made.expect(table)):
        with pytest.raises(ImpossibleEvidence, match="cells of row 2 have probability zero") as caught:
            fill()
        assert caught.value.rows == (2,)


def test_errors_of_parts_are_those_of_the_whole_and_pickled() -> None:
    error = ImpossibleEvidence("some rows", (0, 2, 2)).renumber(np.array([5, 6, 7]), lambda rows: f"rows {rows}")
    assert (str(error), error.rows) == ("rows [5, 7]", (5, 7))


def test_levels_belong_to_rows() -> None:
    table = holes(8)
    asked = RowLevels.draw(np.random.default_rng(0), table, hb.Network([*GAUSSIAN.potentials])).of(table, 0)
    np.testing.assert_array_equal(asked(0, np.array([3, 5]))["x"], asked(4, np.arange(8))["x"][[3, 5]])


@pytest.mark.parametrize("name", NETWORKS)
def test_blocks_that_threads_share_give_each_row_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion_module, "_MOST_ROWS", 7)
    table = holes()
    alone, shared = (Completion(NETWORKS[name], Options(n_jobs=jobs)) for jobs in (None, 3))
    for task in ("draw", "expect"):
        # tables that are compiled when they are first asked for may differ in their last digit
        getattr(alone, task)(table, levels(NETWORKS[name], 60))
        one, other = (getattr(made, task)(table, levels(NETWORKS[name], 60)) for made in (alone, shared))
        for column, values in one.items():
            np.testing.assert_array_equal(other[column], values)


@pytest.mark.parametrize("number", [0, -1, 2**63 - 1, -(2**63)])
def test_whole_numbers_stand_for_themselves_alone_and_in_arrays(number: int) -> None:
    listed, array = ([number, "a"], 2), (np.array([number]), 1)
    assert hash_identifiers(*listed)[0] == hash_identifiers(*array)[0]
