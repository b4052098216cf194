"""Naive Bayes trees against calculation by hand: rows routed down the tree, Bayes' rule over the leaves, and a known
truth.
"""

from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete, as_kind
from scipy import stats
from scipy.integrate import trapezoid

import hybridbn as hb
from hybridbn.potentials.cases import Cases
from hybridbn.structures import naive_bayes, nb_tree
from hybridbn.structures.column_splits import GainRatio


def data_of(rows: int = 800, seed: int = 0, missing: float = 0.0):
    """Return categories a, b, c, numbers x, z, a class y and a number s that depend on them differently for each a."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.integers(3, size=rows), rng.integers(2, size=rows), rng.integers(4, size=rows)
    x, z = rng.normal(size=rows), rng.normal(size=rows)
    score = np.choose(a, [2 * b - 1, x + 0.5 * z, (c > 1) - x]) + 0.3 * rng.normal(size=rows)
    data = {
        "a": np.array(["p", "q", "r"], dtype=object)[a],
        "b": np.array(["u", "v"], dtype=object)[b],
        "c": np.array(["k", "l", "m", "n"], dtype=object)[c],
        "x": x,
        "z": z,
        "y": np.array(["no", "yes"], dtype=object)[(score > 0.2).astype(int)],
        "s": score,
    }
    for name in ("a", "b", "c", "x", "z"):
        holes = rng.random(rows) < missing
        data[name][holes] = np.nan if name in "xz" else None
    return data


def without(data, *names):
    return {name: column for name, column in data.items() if name not in names}


def boxes(net, hidden, columns):
    """Return, for each leaf, what each tested column has to be: states, or an interval."""
    found: list[dict[str, Any]] = [{} for _ in net.variable(hidden).states]
    for name in columns:
        potential = net.potential(name)
        for leaf, box in enumerate(found):
            if isinstance(net.variable(name), hb.Discrete):
                possible = (potential.table[leaf] > 0).reshape(-1, len(net.variable(name))).any(axis=0)
                if not possible.all():
                    box[name] = possible
            elif isinstance(potential, Cases) and potential.cases[leaf].cut:
                box[name] = (potential.cases[leaf].low, potential.cases[leaf].high)
    return found


def routed(net, hidden, data, columns):
    """Return the leaf of each complete row."""
    rows = len(data[columns[0]])
    owner = np.full(rows, -1)
    for leaf, box in enumerate(boxes(net, hidden, columns)):
        inside = np.ones(rows, dtype=bool)
        for name, wanted in box.items():
            variable = net.variable(name)
            if isinstance(variable, hb.Discrete):
                values = data[name] if variable.cuts is None else data[name].astype(float)
                inside &= wanted[[variable.code(value) for value in values]]
            else:
                inside &= (data[name] >= wanted[0]) & (data[name] < wanted[1])
        assert (owner[inside] == -1).all()
        owner[inside] = leaf
    assert (owner >= 0).all()
    return owner


def density(net, name, leaf, given, value):
    """Return the density of a cell in a leaf for each of some values of the target."""
    potential = net.potential(name)
    hidden = potential.parents[0]
    variable = net.variable(name)
    count = len(given)
    if isinstance(variable, hb.Discrete) and not isinstance(value, str):
        value = variable.states[variable.code(float(value))]
    told = {hidden.name: [hidden.states[leaf]] * count, name: [value] * count}
    if len(potential.parents) > 1:
        told[potential.parents[1].name] = given
    return np.asarray(potential(**told), dtype=float)


def by_bayes_rule(net, target, row, values):
    """Return the joint density of what a row has with each value of the target: a sum over the leaves, one cell at a
    time.
    """
    hidden = f"{target} leaf"
    total = np.zeros(len(values))
    for leaf, share in enumerate(net.potential(hidden).table):
        state = net.variable(hidden).states[leaf]
        part = share * np.asarray(net.potential(target)(**{hidden: [state] * len(values), target: values}))
        for name, value in row.items():
            if value is not None and value == value:
                part = part * density(net, name, leaf, values, value)
        total += part
    return total


ATTRIBUTES = ["a", "b", "c", "x", "z"]


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("potentials", ["multinomial", "gaussian"])
def test_a_complete_row_has_the_posterior_of_naive_bayes_in_its_leaf(depth, potentials):
    data, fresh = without(data_of(), "s"), without(data_of(seed=1), "s", "y")
    net = nb_tree(data, "y", potentials, max_depth=depth, criterion=GainRatio(), binary=False)
    learned, owner = (routed(net, "y leaf", rows, ATTRIBUTES) for rows in (data, fresh))
    found = as_discrete(net.posterior("y", hb.Table(fresh))).probabilities
    tests = boxes(net, "y leaf", ATTRIBUTES)
    assert len(tests) > 1
    variables = [net.variable(name) for name in data]
    for leaf, box in enumerate(tests):
        rest = [name for name in ATTRIBUTES if name not in box]
        mine, seen = learned == leaf, owner == leaf
        if not seen.any() or len(set(data["y"][mine])) < 2:
            continue
        kept = [variable for variable in variables if variable.name in (*rest, "y")]
        inside = hb.Table({name: data[name][mine] for name in (*rest, "y")}, variables=kept)
        alone = naive_bayes(inside, "y", potentials)
        rows = hb.Table({name: fresh[name][seen] for name in rest}, variables=[v for v in kept if v.name != "y"])
        np.testing.assert_allclose(found[seen], as_discrete(alone.posterior("y", rows)).probabilities, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("potentials", ["multinomial", "gaussian", "mte"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_classes_by_bayes_rule_over_the_leaves(binary, potentials, missing):
    data, fresh = without(data_of(missing=0.1), "s"), without(data_of(15, 2, missing), "s", "y")
    net = nb_tree(data, "y", potentials, max_depth=3, binary=binary)
    found = as_discrete(net.posterior("y", hb.Table(fresh))).probabilities
    evidence = net.log_evidence(hb.Table(fresh))
    for row in range(15):
        joint = by_bayes_rule(net, "y", {name: fresh[name][row] for name in ATTRIBUTES}, ["no", "yes"])
        np.testing.assert_allclose(found[row], joint / joint.sum(), atol=1e-9)
        assert evidence[row] == pytest.approx(np.log(joint.sum()), abs=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("potentials", ["gaussian", "mte"])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_numbers_by_bayes_rule_over_the_leaves(binary, potentials, missing):
    data, fresh = without(data_of(missing=0.05), "y"), without(data_of(3, 3, missing), "s", "y")
    net = nb_tree(data, "s", potentials, max_depth=2, binary=binary)
    assert len(as_discrete(net.variable("s leaf"))) > 1
    posterior = net.posterior("s", hb.Table(fresh))
    # tails may be long
    far = np.geomspace(0.01, 3000, 400)
    low, high = data["s"].min() - 2, data["s"].max() + 2
    grid = np.concatenate([low - far[::-1], np.linspace(low, high, 4001), high + far])
    for row in range(3):
        joint = by_bayes_rule(net, "s", {name: fresh[name][row] for name in ATTRIBUTES}, grid)
        curve = joint / trapezoid(joint, grid)
        mean = trapezoid(grid * curve, grid)
        assert posterior.mean()[row] == pytest.approx(mean, abs=2e-3)
        assert posterior.var()[row] == pytest.approx(trapezoid((grid - mean) ** 2 * curve, grid), abs=4e-3)
        inside = curve > 1e-3 * curve.max()
        places = grid[inside][:: max(1, inside.sum() // 50)]
        expected = curve[inside][:: max(1, inside.sum() // 50)]
        near = np.abs(posterior[row].pdf(places) - expected) <= 2e-3 * curve.max()
        # a density jumps where pieces end, and the grid has these between two of its points
        assert near.mean() > 0.95


def test_tested_numbers_are_normal_within_their_part_of_the_range():
    data = without(data_of(3000), "s", "b", "c", "z")
    likely = np.where(data["x"] > 0.4, 0.9, 0.2)
    data["y"] = np.where(np.random.default_rng(5).random(3000) < likely, "yes", "no")
    net = nb_tree(data, "y", "gaussian", max_depth=2, binary=True, criterion=GainRatio())
    cases = as_kind(Cases, net.potential("x")).cases
    leaves = as_discrete(net.variable("y leaf")).states
    cut = [leaf for leaf, case in enumerate(cases) if case.cut]
    assert cut
    rows = routed(net, "y leaf", data, ["a", "x"])
    for leaf in cut:
        low, high = cases[leaf].low, cases[leaf].high
        for label in ("no", "yes"):
            # where a single interval is left the attribute tells nothing more of the class
            counts = not cases[leaf].potential.parents or data["y"] == label
            mine = data["x"][(rows == leaf) & counts]
            if len(mine) < 3:
                continue
            normal = stats.norm(mine.mean(), mine.std())
            places = np.linspace(max(low, -3), min(high, 3), 7)[1:-1]
            expected = normal.pdf(places) / (normal.cdf(high) - normal.cdf(low))
            found = net.potential("x")(**{"y leaf": [leaves[leaf]] * 5, "y": [label] * 5, "x": places})
            np.testing.assert_allclose(found, expected, rtol=1e-9)
            outside = [value for value in (low - 0.1, high + 0.1) if np.isfinite(value)]
            count = len(outside)
            beyond = net.potential("x")(**{"y leaf": [leaves[leaf]] * count, "y": [label] * count, "x": outside})
            assert (np.asarray(beyond) == 0).all()


def test_leaves_weigh_as_many_rows_as_they_have():
    data = without(data_of(4000), "s")
    net = nb_tree(data, "y", "multinomial", max_depth=2)
    owner = routed(net, "y leaf", data, ATTRIBUTES)
    shares = np.bincount(owner, minlength=len(as_discrete(net.variable("y leaf")))) / 4000
    np.testing.assert_allclose(as_kind(hb.Multinomial, net.potential("y leaf")).table, shares, atol=2e-3)


def discrete_truth(seed: int):
    """Return a network in which a tells the leaf: every other attribute depends on the class within it."""
    rng = np.random.default_rng(seed)
    a, y = hb.Discrete("a", ("p", "q", "r")), hb.Discrete("y", ("no", "yes"))
    others = [hb.Discrete(f"v{i}", ("k", "l", "m")) for i in range(4)]
    return hb.Network(
        [
            hb.Multinomial(a, table=[0.5, 0.3, 0.2]),
            hb.Multinomial(y, (a,), table=[[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]]),
            *(hb.Multinomial(v, (a, y), table=rng.dirichlet(np.ones(3), size=(3, 2))) for v in others),
        ]
    )


def number_truth(seed: int):
    rng = np.random.default_rng(seed)
    a, y = hb.Discrete("a", ("p", "q", "r")), hb.Continuous("y")
    return hb.Network(
        [
            hb.Multinomial(a, table=[0.5, 0.3, 0.2]),
            hb.LinearGaussian(y, (a,), intercept=[-4.0, 0.0, 5.0], variance=[1.0, 2.0, 0.5]),
            *(
                hb.LinearGaussian(
                    hb.Continuous(f"v{i}"),
                    (a, y),
                    intercept=rng.normal(size=3),
                    coefficients=rng.normal(size=(3, 1)),
                    variance=rng.uniform(0.5, 2, 3),
                )
                for i in range(3)
            ),
        ]
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("truth", [discrete_truth, number_truth])
def test_the_tree_comes_closer_to_a_known_truth_with_more_rows(truth, seed):
    network = truth(seed)
    potentials = "multinomial" if truth is discrete_truth else "gaussian"
    fresh = network.sample(5000, random_state=100)
    test = hb.Table(fresh, variables=[network.variable(name) for name in network])
    apart = []
    for rows in (200, 2000, 20_000):
        frame = network.sample(rows, random_state=seed)
        table = hb.Table(frame, variables=[network.variable(name) for name in network])
        net = nb_tree(table, "y", potentials, max_depth=1)  # type: ignore[arg-type]
        joint = np.mean(network.log_density(test) - net.log_evidence(test))
        attributes = test.drop("y")
        alone = np.mean(network.log_evidence(attributes) - net.log_evidence(attributes))
        # of the whole table, and of the target given the attributes
        apart.append((joint, joint - alone))
    divergences = np.array(apart)
    assert (divergences > -1e-3).all()
    assert (divergences[0] > 2 * divergences[2]).all()
    assert divergences[2, 0] < 0.01
    assert divergences[2, 1] < 0.005


def test_a_number_above_is_left_out_where_no_leaf_looks_at_it():
    # else the evidence of attributes alone takes quadrature where closed forms would do
    net = nb_tree(number_truth(0).sample(500, random_state=0), "y", "gaussian", max_depth=1)
    assert list(net.predecessors("a")) == ["y leaf"]
    assert {potential.family for potential in net.potentials} == {"multinomial", "gaussian"}
