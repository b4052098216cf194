"""What users get wrong, and what they get for it: an error that names it, never a NaN and never a bare KeyError."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from costs import count_lines
from inference_tools import crops
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.errors import HybridBNError, ImpossibleEvidence, NetworkError, TableError, TooWide


@pytest.fixture(scope="module")
def net():
    x = hb.Continuous("x", (0, 10))
    y, c = hb.Continuous("y"), hb.Discrete("c", ("a", "b"))
    return hb.Network(
        [
            hb.MTE(x, pieces=[hb.Piece({"x": (0, 10)}, {}, 0.1, [])]),
            hb.Density(y, (x,), function=lambda y, x: np.exp(-0.5 * (y - x) ** 2) / math.sqrt(2 * math.pi)),
            hb.Softmax(c, (y,), intercept=[0, 1], coefficients=[[0.0], [-0.3]]),
        ]
    )


SINGLE: dict[str, tuple[dict[Any, Any], type[Exception], str]] = {
    "unknown node": ({"z": 1}, NetworkError, "'z'"),
    "unknown node of another type": ({3: 1}, NetworkError, "3"),
    "case": ({"C": "a"}, NetworkError, "'C'"),
    "unknown state": ({"c": "q"}, TableError, "'c'.*'q'"),
    "number for a state": ({"c": 1}, TableError, "'c'"),
    "outside the domain": ({"x": 11.0}, TableError, "'x'.*11"),
    "infinite": ({"y": math.inf}, TableError, "'y'.*inf"),
    "text for a number": ({"x": "abc"}, TableError, "'x'.*'abc'"),
    "a pair for an interval": ({"x": (1, 2)}, TableError, "'x'.*Interval"),
    "a set of numbers": ({"x": {1, 2}}, TableError, "'x'.*continuous"),
    "a list": ({"c": ["a"]}, TableError, "'c'"),
    "an interval of states": ({"c": hb.Interval(0, 1)}, TableError, "'c'.*discrete"),
    "a function of states": ({"c": lambda v: v}, TableError, "'c'"),
    "an interval beside the domain": ({"x": hb.Interval(11, 12)}, TableError, "'x'.*domain"),
    "unknown state in a set": ({"c": {"a", "q"}}, TableError, "'q'"),
    "empty set": ({"c": set()}, TableError, "'c'"),
    "negative likelihood": ({"c": {"a": -1, "b": 1}}, TableError, "'c'.*non-negative"),
    "NaN likelihood": ({"c": {"a": math.nan, "b": 1}}, TableError, "'c'"),
    "infinite likelihood": ({"c": {"a": math.inf, "b": 1}}, TableError, "'c'"),
    "zero likelihood": ({"c": {"a": 0, "b": 0}}, TableError, "'c'.*positive"),
    "text likelihood": ({"c": {"a": "much", "b": 1}}, TableError, "'much'"),
    "a negative function": ({"x": lambda v: -v}, TableError, "'x'.*non-negative"),
    "a function of NaN": ({"x": lambda v: v * math.nan}, TableError, "'x'.*finite"),
}


def asks(net):
    """Return every question that takes evidence, but for a target among it."""
    return {
        "posteriors": lambda e: net.posteriors(e),
        "log_evidence": lambda e: net.log_evidence(e),
        "most_probable": lambda e: net.most_probable(e),
        "sample": lambda e: net.sample(2, 0, e),
    }


@pytest.mark.parametrize("question", ["posteriors", "log_evidence", "most_probable", "sample"])
@pytest.mark.parametrize("case", SINGLE)
def test_bad_findings(net, case, question):
    evidence, error, message = SINGLE[case]
    with pytest.raises(error, match=message):
        asks(net)[question](evidence)


@pytest.mark.parametrize("case", SINGLE)
def test_bad_findings_in_a_posterior(net, case):
    evidence, error, message = SINGLE[case]
    target = "y" if "y" not in evidence else "x"
    with pytest.raises(error, match=message):
        net.posterior(target, evidence)


@pytest.mark.parametrize("case", ["unknown state", "outside the domain", "text for a number", "a set of numbers"])
def test_bad_cells_name_their_row(net, case):
    evidence, error, message = SINGLE[case]
    ((name, value),) = evidence.items()
    good = "a" if name == "c" else 5.0
    table = pd.DataFrame({name: pd.Series([good, good, value, good], dtype=object)})
    for ask in (net.posterior, lambda target, e: net.log_evidence(e)):
        with pytest.raises(error, match=message) as caught:
            ask("y", table)
        assert "row 2" in str(caught.value)


def test_unknown_columns(net):
    """A typing error in a column must not pass for missing evidence."""
    table = pd.DataFrame({"x": [1.0], "zz": [3.0]})
    try:
        post = net.posterior("y", table)
    except HybridBNError as error:
        assert "zz" in str(error)  # noqa: PT017
    else:  # extra columns may be ignored, as long as the rest counts
        assert post.mean()[0] == pytest.approx(net.posterior("y", {"x": 1.0}).mean(), rel=1e-9)


def test_unknown_targets(net):
    for ask in (
        lambda: net.posterior("z"),
        lambda: net.posteriors({}, ["x", "z"]),
        lambda: net.posterior(["x", "z"]),
        lambda: net.most_probable({}, ["z"]),
        lambda: net.explain("z", {}),
    ):
        with pytest.raises(NetworkError, match="'z'"):
            ask()
    with pytest.raises(TableError, match="twice"):
        net.posterior(["x", "x"])
    with pytest.raises(TableError, match="twice"):
        net.posteriors({}, ["x", "x"])


def test_targets_among_the_evidence(net):
    for ask in (
        lambda e: net.posterior("x", e),
        lambda e: net.posteriors(e, ["y", "x"]),
        lambda e: net.posterior(["x", "c"], e),
        lambda e: net.most_probable(e, ["x"]),
    ):
        with pytest.raises(TableError, match="'x'"):
            ask({"x": 1.0})
    # a column of a table is ignored
    table = pd.DataFrame({"x": [1.0, 2.0], "c": ["a", "b"]})
    np.testing.assert_allclose(net.posterior("x", table).mean(), net.posterior("x", table[["c"]]).mean(), rtol=1e-12)
    # what is unknown is no evidence
    assert net.posterior("x", {"x": None}).mean() == pytest.approx(5)


def test_missing_is_unknown(net):
    plain = net.posterior("y", {"c": "a"}).mean()
    for nothing in (None, math.nan, np.nan, pd.NA, pd.NaT, np.float64("nan")):
        assert net.posterior("y", {"c": "a", "x": nothing}).mean() == pytest.approx(plain, rel=1e-12)
        assert net.log_evidence({"x": nothing, "c": nothing}) == 0
    table = pd.DataFrame({"x": [np.nan, np.nan], "c": ["a", None]})
    assert net.posterior("y", table).mean()[0] == pytest.approx(plain, rel=1e-12)


def test_no_rows(net):
    """A table without rows has posteriors of length zero, with all their methods."""
    table = pd.DataFrame({"x": np.empty(0), "c": np.empty(0, dtype=object)})
    for name in ("y", "x", "c"):
        post = net.posterior(name, table)
        assert len(post) == 0
        assert post.error.shape == (0,)
        assert post.log_evidence.shape == (0,)
        assert post.sample(3, 0).shape == (0, 3)
        assert list(post) == []
        assert len(post[:]) == 0
        if name == "c":
            assert post.probabilities.shape == (0, 2)
            assert post.mode().shape == (0,)
        else:
            assert post.mean().shape == post.var().shape == post.median().shape == post.mode().shape == (0,)
            assert post.pdf([1.0, 2.0]).shape == (0, 2)
            assert post.cdf(1.0).shape == (0,)
            assert post.interval().shape == (0, 2)
    assert net.log_evidence(table).shape == (0,)
    assert net.log_density(table).shape == (0,)
    assert all(len(post) == 0 for post in net.posteriors(table).values())
    assert len(net.sample(2, 0, table)) == 0
    assert len(net.most_probable(table)) == 0
    joint = net.posterior(["x", "y"], table)
    assert len(joint) == 0
    assert joint.mean().shape == (0, 2)


def test_an_empty_table(net):
    """A table without columns has no rows either that anything could be said about."""
    for table in (pd.DataFrame(), pd.DataFrame(index=range(3))):
        with pytest.raises(TableError, match="no columns"):
            net.posterior("c", table)


def test_no_evidence_at_all(net):
    neither: tuple[dict[str, Any] | None, ...] = (None, {})
    for nothing in neither:
        assert net.log_evidence(nothing) == 0
        assert net.posterior("x", nothing).mean() == pytest.approx(5)
    assert set(net.posteriors()) == {"x", "y", "c"}
    assert net.posteriors({"x": 1.0, "y": 2.0, "c": "a"}) == {}


def test_bad_options(net):
    for options in ({"tolerance": 0}, {"tolerance": -1}, {"tolerance": 2}, {"impossible": "ignore"}):
        with pytest.raises(TableError, match=next(iter(options))):
            net.posterior("x", {"c": "a"}, **options)


def test_bad_kinds_of_evidence(net):
    for evidence in (3, "c", [("c", "a")], {"c"}):
        with pytest.raises((HybridBNError, TypeError)):
            net.posterior("x", evidence)


def test_evidence_is_not_changed(net):
    evidence = {"x": 1.0, "c": {"a": 0.2, "b": 0.8}}
    copy = {"x": 1.0, "c": {"a": 0.2, "b": 0.8}}
    net.posterior("y", evidence)
    assert evidence == copy
    table = pd.DataFrame({"x": [1.0, np.nan], "c": ["a", None]})
    before = table.copy()
    net.posteriors(table)
    pd.testing.assert_frame_equal(table, before)


def test_impossible_rows_are_named():
    a, b = hb.Discrete("a", (0, 1)), hb.Discrete("b", (0, 1))
    net = hb.Network([hb.Multinomial(a, table=[1.0, 0.0]), hb.Multinomial(b, (a,), table=[[0.5, 0.5], [1.0, 0.0]])])
    table = pd.DataFrame({"a": [0, 1, 0, 1]})
    with pytest.raises(ImpossibleEvidence, match="1, 3") as caught:
        net.posterior("b", table)
    assert caught.value.rows == (1, 3)
    probabilities = as_discrete(net.posterior("b", table, impossible="nan")).probabilities
    assert np.isnan(probabilities).all(axis=1).tolist() == [False, True, False, True]
    many = pd.DataFrame({"a": [1] * 5000})
    with pytest.raises(ImpossibleEvidence) as caught:
        net.posterior("b", many)
    assert len(caught.value.rows) == 5000
    assert len(str(caught.value)) < 1000


def test_networks_without_potentials():
    net = hb.Network(crops().potentials[:1])
    net.add_node("loose")
    with pytest.raises(NetworkError, match="loose"):
        net.posterior("S")
    broken = crops()
    broken.remove_node("C")
    with pytest.raises(NetworkError, match="'C'"):
        broken.posterior("P")


def grid(side: int) -> hb.Network:
    variables = [[hb.Discrete(f"x{i}_{j}", (0, 1)) for j in range(side)] for i in range(side)]
    rng = np.random.default_rng(0)
    potentials = []
    for i in range(side):
        for j in range(side):
            parents = [variables[i - 1][j]] * (i > 0) + [variables[i][j - 1]] * (j > 0)
            table = rng.dirichlet([1, 1], size=[2] * len(parents))
            potentials.append(hb.Multinomial(variables[i][j], parents, table=table))
    return hb.Network(potentials)


def test_too_wide():
    net = grid(30)
    evidence = {"x29_29": 0}
    with pytest.raises(TooWide):
        net.posterior("x0_1", evidence)
    refusals = []

    def refuse():
        with pytest.raises(TooWide, match=r"GiB.*x") as caught:
            net.posteriors(evidence)
        refusals.append(str(caught.value))

    # what it takes to plan 900 nodes and to predict what slices and bounds would cost, and nothing of running a plan
    assert count_lines(refuse) < 6_000_000
    assert "max_bytes" in refusals[0]
    with pytest.raises(TooWide):
        net.posterior("x0_0", evidence)
    with pytest.raises(TooWide):
        net.log_evidence(evidence)
    with pytest.raises(TooWide):
        net.most_probable(evidence)
    with pytest.raises(TooWide):
        net.sample(1, 0, evidence)
    # without evidence below, forward sampling and the first node need no table
    assert len(net.sample(10, 0)) == 10
    assert as_discrete(net.posterior("x0_0")).probabilities.sum() == pytest.approx(1)


def test_a_lower_budget():
    net = grid(8)
    assert as_discrete(net.posterior("x0_0", {"x7_7": 0})).probabilities.sum() == pytest.approx(1)
    with pytest.raises(TooWide):
        net.posterior("x0_0", {"x7_7": 0}, max_bytes=1000)


def test_too_many_numbers_at_once():
    """Six hidden numbers under one discrete child would need a table of 288^6 cells: refused, not allocated."""
    numbers = [hb.Continuous(f"x{i}") for i in range(6)]
    c = hb.Discrete("c", (0, 1))
    net = hb.Network(
        [
            *(hb.Kernel(x, points=[0.0, 1.0], bandwidths=0.5) for x in numbers),
            hb.Softmax(c, numbers, intercept=[0, 0], coefficients=[[0.0] * 6, [1.0] * 6]),
        ]
    )
    for ask in (
        lambda: net.posterior("x0", {"c": 1}),
        lambda: net.log_evidence({"c": 1}),
        lambda: net.posterior("c"),
        lambda: net.most_probable({"c": 1}),
    ):
        with pytest.raises(TooWide):
            ask()


def test_numbers_and_states_of_a_discretized_number_in_one_column():
    size, seen = hb.Discrete("size", ("low", "high"), cuts=(1.5,)), hb.Discrete("seen", ("n", "y"))
    net = hb.Network(
        [hb.Multinomial(size, table=[0.4, 0.6]), hb.Multinomial(seen, (size,), table=[[0.9, 0.1], [0.2, 0.8]])]
    )
    column = pd.Series([0.3, "high", None, 7, "low"], dtype=object)
    found = net.posterior("seen", pd.DataFrame({"size": column}))["y"]
    np.testing.assert_allclose(found, [0.1, 0.8, 0.52, 0.8, 0.1])
    with pytest.raises(TableError):
        net.posterior("seen", pd.DataFrame({"size": pd.Series([0.3, "huge"], dtype=object)}))


@pytest.mark.parametrize("make", [list, np.array, pd.Series])
def test_a_mapping_of_columns_is_no_case(make):
    c, x = hb.Discrete("c", ("a", "b")), hb.Continuous("x")
    net = hb.Network(
        [hb.Multinomial(c, table=[0.5, 0.5]), hb.LinearGaussian(x, parents=(c,), intercept=[0, 1], variance=[1, 1])]
    )
    with pytest.raises(hb.TableError, match="mapping is one case, but 3 values are given"):
        net.posterior("c", {"x": make([1.0, 2.0, 3.0])})
