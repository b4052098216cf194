"""Class decomposition: classes that lie in several places, the guard, and decisions by cluster or by sum."""

import numpy as np
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.structures import class_clusters, naive_bayes, tan
from hybridbn.structures.naive_bayes import best_cluster


def corners(rows: int = 400, seed: int = 0, missing: float = 0.0):
    rng = np.random.default_rng(seed)
    corner = rng.integers(4, size=rows)
    x, y = rng.normal(size=rows) + 6 * (corner % 2), rng.normal(size=rows) + 6 * (corner // 2)
    color = np.where(rng.random(rows) < 0.8, np.array(["red", "blue", "red", "green"])[corner], "gray")
    data = {"x": x, "y": y, "color": color.astype(object)}
    for name, hole in (("x", np.nan), ("color", None)):
        data[name][rng.random(rows) < missing] = hole
    return {**data, "odd": np.where((corner == 1) | (corner == 2), "yes", "no")}


def accuracy(net, data, target="odd"):
    found = net.posterior(target, hb.Table(data))
    states = np.array(net.variable(target).states, dtype=object)
    return np.mean(states[found.probabilities.argmax(axis=1)] == data[target])


@pytest.mark.parametrize("assignment", ["soft", "hard"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_classes_in_several_places(assignment, missing):
    data, fresh = corners(missing=missing), corners(seed=1, missing=missing)
    plain = naive_bayes(data, "odd", "gaussian")
    net = class_clusters(data, "odd", "gaussian", assignment=assignment)
    assert accuracy(net, fresh) > accuracy(plain, fresh) + 0.2
    assert as_discrete(net.variable("odd cluster")).states[:2] == ("no 1", "no 2")
    assert list(net.predecessors("odd")) == ["odd cluster"]
    net.check()


def test_the_class_is_the_sum_of_its_clusters():
    data = corners(missing=0.2)
    net = class_clusters(data, "odd", "gaussian")
    evidence = hb.Table(data).select(["x", "y", "color"])
    clusters = as_discrete(net.posterior("odd cluster", evidence)).probabilities
    owner = as_kind(hb.Multinomial, net.potential("odd")).table
    np.testing.assert_allclose(as_discrete(net.posterior("odd", evidence)).probabilities, clusters @ owner, atol=1e-12)
    assert set(np.unique(owner)) == {0.0, 1.0}
    expected = np.array(["no", "yes"])[owner.argmax(axis=1)[clusters.argmax(axis=1)]]
    assert best_cluster(net, "odd", evidence).tolist() == expected.tolist()


def test_the_guard_keeps_what_does_not_pay():
    rng = np.random.default_rng(2)
    label = np.array(["a", "b"], dtype=object)[rng.integers(2, size=300)]
    # skewed attributes look like several normal clusters, but the classes are one each
    data = {f"x{i}": rng.exponential(size=300) + 0.7 * (label == "a") for i in range(4)} | {"y": label}
    open_ended = class_clusters(data, "y", "gaussian", guard=False)
    guarded = class_clusters(data, "y", "mte")
    assert len(as_discrete(open_ended.variable("y cluster"))) > 2
    assert len(as_discrete(guarded.variable("y cluster"))) == 2
    plain = naive_bayes(data, "y", "mte")
    rows = hb.Table(data).drop("y")
    np.testing.assert_allclose(
        as_discrete(guarded.posterior("y", rows)).probabilities,
        as_discrete(plain.posterior("y", rows)).probabilities,
        atol=1e-9,
    )


def test_numbers_of_clusters_can_be_given():
    net = class_clusters(corners(), "odd", "gaussian", clusters={"yes": 3}, guard=False)
    assert sum(as_kind(str, state).startswith("yes") for state in as_discrete(net.variable("odd cluster")).states) == 3


def test_other_builders_and_weights():
    data = corners(200)
    net = class_clusters(data, "odd", "gaussian", build=tan, clusters=2)
    assert any(u in ("x", "y", "color") for u, _ in net.edges)
    halved = class_clusters(data, "odd", "gaussian", np.full(200, 0.5), clusters=2)
    assert accuracy(halved, data) > 0.9


def test_rows_without_a_class_do_not_count():
    data = corners(200)
    data["odd"] = data["odd"].astype(object)
    short = {name: values[:150] for name, values in data.items()}
    data["odd"][150:] = None
    first, second = (class_clusters(d, "odd", "gaussian", clusters=2, guard=False) for d in (data, short))
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, first.potential("odd cluster")).table,
        as_kind(hb.Multinomial, second.potential("odd cluster")).table,
        atol=0.02,
    )


def test_a_number_as_target():
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=300)
    x = rng.normal(size=300) * 0.5 + 4 * group
    data = {"x": x, "y": np.where(group == 0, 2.0, -1.0) + 0.3 * rng.normal(size=300)}
    net = class_clusters(data, "y", "gaussian")
    assert abs(net.posterior("y", {"x": 0.0}).mean() - 2) < 0.2
    assert abs(net.posterior("y", {"x": 4.0}).mean() + 1) < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assignment": "fuzzy"}, "assignment must be"),
        ({"clusters": {"maybe": 2}}, "no state of 'odd'"),
        ({"clusters": 0}, "whole number of at least 1"),
        ({"name": "x"}, "has a column 'x'"),
    ],
)
def test_bad_requests(change, message):
    with pytest.raises(hb.HybridBNError, match=message):
        class_clusters(corners(60), "odd", "gaussian", **change)
