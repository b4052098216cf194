"""Naive Bayes trees: routing by hand agrees with the network, with and without missing cells; criteria, families,
targets.
"""

from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete, as_kind
from scipy import stats

import hybridbn as hb
from hybridbn.structures import naive_bayes, nb_tree
from hybridbn.structures.column_splits import GainRatio, Utility, Variance


def mixed_data(rows: int = 600, seed: int = 0, missing: float = 0.0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(3, size=rows), rng.integers(2, size=rows)
    x, z = rng.normal(size=rows), rng.normal(size=rows)
    score = np.where(a == 0, 2 * b - 1, np.where(a == 1, x, -x)) + 0.3 * rng.normal(size=rows)
    data = {
        "a": np.array(["p", "q", "r"], dtype=object)[a],
        "b": np.array(["u", "v"], dtype=object)[b],
        "x": x,
        "z": z,
        "y": np.array(["no", "yes"], dtype=object)[(score > 0).astype(int)],
        "s": score,
    }
    for name in ("a", "x"):
        holes = rng.random(rows) < missing
        data[name][holes] = None if name == "a" else np.nan
    return data


def classified(**change):
    data = mixed_data(**change)
    return {name: data[name] for name in ("a", "b", "x", "z", "y")}


def test_depth_zero_is_naive_bayes():
    data = classified()
    tree, plain = nb_tree(data, "y", "gaussian", max_depth=0), naive_bayes(data, "y", "gaussian")
    assert as_discrete(tree.variable("y leaf")).states == ("all",)
    rows = hb.Table(data).drop("y")
    np.testing.assert_allclose(
        as_discrete(tree.posterior("y", rows)).probabilities,
        as_discrete(plain.posterior("y", rows)).probabilities,
        atol=1e-12,
    )


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("potentials", ["multinomial", "gaussian"])
def test_complete_rows_belong_to_one_leaf(depth, potentials):
    data = classified()
    net = nb_tree(data, "y", potentials, max_depth=depth)
    rows = hb.Table(data).drop("y")
    belongs = as_discrete(net.posterior("y leaf", rows)).probabilities
    np.testing.assert_allclose(belongs.max(axis=1), 1, atol=1e-12)
    leaf = belongs.argmax(axis=1)
    states = as_discrete(net.variable("y leaf")).states
    for row in range(0, 600, 37):
        for told in states[leaf[row]].split("; "):
            name, _, value = told.partition(": ")
            if name in ("a", "b"):
                assert data[name][row] == value
    # within its leaf, a row is classified by naive Bayes over what was not tested
    for row in range(0, 600, 53):
        found = as_kind(hb.Multinomial, net.potential("y")).table[leaf[row]].copy()
        for name in ("a", "b", "x", "z"):
            case = net.potential(name)
            tested = f"{name}: " in states[leaf[row]]
            if not tested:
                value = data[name][row]
                found *= [
                    case(
                        **{
                            "y leaf": states[leaf[row]],
                            "y": label,
                            name: value if isinstance(value, str) else float(value),
                        }
                    )
                    if not isinstance(net.variable(name), hb.Discrete) or isinstance(value, str)
                    else as_kind(hb.Multinomial, case).table[
                        leaf[row], code, as_discrete(net.variable(name)).code(float(value))
                    ]
                    for code, label in enumerate(("no", "yes"))
                ]
        np.testing.assert_allclose(
            as_discrete(net.posterior("y", rows)).probabilities[row], found / found.sum(), atol=1e-9
        )


def test_missing_tests_are_averaged_by_bayes_rule():
    data = classified(missing=0.2)
    net = nb_tree(data, "y", "multinomial", max_depth=2)
    leaves = len(as_discrete(net.variable("y leaf")))
    known = {"b": "v", "z": 0.3}
    weights = (
        as_kind(hb.Multinomial, net.potential("y leaf")).table[:, None]
        * as_kind(hb.Multinomial, net.potential("y")).table
    )
    for name, value in known.items():
        weights = (
            weights
            * as_kind(hb.Multinomial, net.potential(name)).table[:, :, as_discrete(net.variable(name)).code(value)]
        )
    assert weights.shape == (leaves, 2)
    expected = weights.sum(axis=0) / weights.sum()
    np.testing.assert_allclose(as_discrete(net.posterior("y", known)).probabilities, expected, atol=1e-12)


def test_trees_beat_naive_bayes_where_tests_matter():
    data, fresh = classified(rows=2000), classified(rows=2000, seed=1)
    rows, truth = hb.Table(fresh).drop("y"), fresh["y"] == "yes"

    def errors(net):
        return np.mean((net.posterior("y", rows).probabilities[:, 1] > 0.5) != truth)

    plain = errors(naive_bayes(data, "y", "gaussian"))
    for options in ({}, {"criterion": Utility(), "max_depth": 2}, {"binary": True}):
        assert errors(nb_tree(data, "y", "gaussian", **options)) < plain - 0.1


def test_the_gain_ratio_prefers_what_tells_most():
    rng = np.random.default_rng(4)
    y = rng.integers(2, size=400)
    good = np.where(rng.random(400) < 0.9, y, 1 - y)
    data = {
        "many": [f"s{i}" for i in rng.integers(40, size=400)],
        "good": np.array(["l", "r"])[good],
        "weak": np.array(["l", "r"])[np.where(rng.random(400) < 0.6, y, 1 - y)],
        "y": np.array(["n", "p"])[y],
    }
    net = nb_tree(data, "y", criterion=GainRatio(), max_depth=1)
    assert as_discrete(net.variable("y leaf")).states == ("good: l", "good: r")


@pytest.mark.parametrize("potentials", ["mte", "kernel", "gaussian", "multinomial"])
@pytest.mark.parametrize("binary", [False, True])
def test_leaves_of_any_family(potentials, binary, tmp_path):
    data = classified(rows=300, missing=0.1)
    net = nb_tree(data, "y", potentials, max_depth=2, binary=binary)
    net.check()
    rows = hb.Table(data).drop("y")
    found = as_discrete(net.posterior("y", rows)).probabilities
    assert np.isfinite(found).all()
    plain = as_discrete(naive_bayes(data, "y", potentials).posterior("y", rows)).probabilities
    right, base = (np.mean((table[:, 1] > 0.5) == (data["y"] == "yes")) for table in (found, plain))
    assert right > base - 0.02
    net.save(tmp_path / "tree.hbn")
    again = as_kind(hb.Network, hb.load(tmp_path / "tree.hbn"))
    np.testing.assert_array_equal(as_discrete(again.posterior("y", rows)).probabilities, found)
    drawn = net.sample(500, random_state=0)
    assert np.isfinite(net.log_density(drawn)).all()


@pytest.mark.parametrize("potentials", ["gaussian", "mte"])
def test_a_number_as_target(potentials):
    data = {name: column for name, column in mixed_data(rows=300, missing=0.05).items() if name != "y"}
    net = nb_tree(data, "s", potentials, max_depth=2)
    plain = naive_bayes(data, "s", potentials)
    rows = hb.Table(data).drop("s")
    error, base = (np.sqrt(np.mean((m.posterior("s", rows).mean() - data["s"]) ** 2)) for m in (net, plain))
    assert len(as_discrete(net.variable("s leaf"))) > 1
    assert error < 0.8 * base


def test_empty_branches_and_unseen_states():
    c = hb.Discrete("c", ("seen", "also", "never"))
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=200)
    table = hb.Table(
        {"c": np.array(["seen", "also"])[codes], "y": np.where(codes == 1, "t", "f"), "z": rng.normal(size=200)},
        variables=[c, hb.Discrete("y", ("f", "t")), hb.Continuous("z")],
    )
    net = nb_tree(table, "y", "gaussian", max_depth=1)
    assert len(as_discrete(net.variable("y leaf"))) == 3
    found = as_discrete(net.posterior("y", {"c": "never", "z": 0.1})).probabilities
    assert np.isfinite(found).all()
    assert 0.2 < found[0] < 0.8
    assert (as_kind(hb.Multinomial, net.potential("y leaf")).table > 0).all()


def test_weights_are_repetitions():
    data = classified(rows=200, missing=0.1)
    weights = np.random.default_rng(1).integers(0, 4, 200)
    repeated = {name: np.repeat(column, weights) for name, column in data.items()}
    first = nb_tree(data, "y", "multinomial", weights.astype(float), max_depth=2)
    second = nb_tree(repeated, "y", "multinomial", max_depth=2)
    assert as_discrete(first.variable("y leaf")).states == as_discrete(second.variable("y leaf")).states
    rows = hb.Table(data).drop("y")
    np.testing.assert_allclose(
        as_discrete(first.posterior("y", rows)).probabilities,
        as_discrete(second.posterior("y", rows)).probabilities,
        atol=1e-9,
    )


def test_variance_splits_where_the_mean_jumps():
    rng = np.random.default_rng(3)
    group = rng.choice(["l", "m", "h"], 300)
    data = {
        "noise": rng.choice(["1", "2"], 300),
        "g": group,
        "y": np.select([group == "l", group == "m"], [0.0, 5.0], 9.0) + rng.normal(size=300),
    }
    net = nb_tree(data, "y", "gaussian", criterion=Variance(), max_depth=1)
    assert all(as_kind(str, state).startswith("g: ") for state in as_discrete(net.variable("y leaf")).states)
    assert stats.norm(5, 1).cdf(net.posterior("y", {"g": "m"}).mean()) == pytest.approx(0.5, abs=0.1)


def test_two_branches_of_a_leveled_tree_hold_as_much_as_a_node_that_is_split():
    rng = np.random.default_rng(0)
    # 25 rows tell the class for sure, and another column of two halves tells it a little
    few, kind = np.where(np.arange(145) < 25, "p", "q"), np.array(["x", "z"])[np.arange(145) % 2]
    y = np.where(few == "p", 1, rng.random(145) < np.where(kind == "x", 0.3, 0.5)).astype(int)
    data = {"few": few, "kind": kind, "y": np.array(["n", "p"])[y]}
    cases: list[tuple[dict[str, Any], str]]
    cases = [({}, "kind: "), ({"least_branch": 20}, "few: "), ({"least_branch": 73}, "all")]
    for options, tested in cases:
        states = as_discrete(nb_tree(data, "y", max_depth=1, **options).variable("y leaf")).states
        assert all(as_kind(str, state).startswith(tested) for state in states)
    assert len(as_discrete(nb_tree(data, "y", max_depth=1, least=73).variable("y leaf"))) == 1
    with pytest.raises(hb.NetworkError, match="least_branch must be"):
        nb_tree(data, "y", max_depth=1, least_branch=-1)
    with pytest.raises(hb.NetworkError, match="least must be"):
        nb_tree(data, "y", max_depth=1, least="many")  # type: ignore[arg-type]


def test_a_state_that_no_row_of_a_leaf_has_tells_nothing_about_the_class():
    rng = np.random.default_rng(0)
    side = np.repeat(["l", "r"], 100)
    y = np.where(rng.random(200) < np.where(side == "l", 0.05, 0.9), "p", "n")
    other = np.where((side == "l") & (rng.random(200) < 0.5), "only left", rng.choice(["u", "v"], 200))
    data = {"side": side, "other": other, "y": y}
    net = nb_tree(data, "y", max_depth=1)
    assert as_discrete(net.variable("y leaf")).states == ("side: l", "side: r")
    without, unseen = (net.posterior("y", {"side": "r", **more})["p"] for more in ({}, {"other": "only left"}))
    assert unseen == pytest.approx(without, abs=1e-12)
    assert net.posterior("y", {"side": "r", "other": "u"})["p"] != pytest.approx(without, abs=1e-6)
    table, classes = (
        as_kind(hb.Multinomial, net.potential("other")).table,
        as_kind(hb.Multinomial, net.potential("y")).table,
    )
    np.testing.assert_allclose(table.sum(axis=-1), 1, atol=1e-12)
    # the share of each state in a leaf is that of the estimate, which has no state without any
    plain = naive_bayes({name: column[side == "r"] for name, column in data.items()}, "y")
    assert (classes[1] @ table[1])[as_discrete(net.variable("other")).code("only left")] > 0
    seen = [as_discrete(net.variable("other")).code(state) for state in ("u", "v")]
    own = table[1][:, seen] / table[1][:, seen].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(own, as_kind(hb.Multinomial, plain.potential("other")).table, atol=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"max_depth": -1}, "max_depth"), ({"max_depth": True}, "max_depth"), ({"name": "a"}, "has a column 'a'")],
)
def test_bad_requests(change, message):
    with pytest.raises(hb.HybridBNError, match=message):
        nb_tree(classified(rows=60), "y", **change)
