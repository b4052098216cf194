"""Models of pgmpy, to and from; binning of hybrid networks, and whether its stated error is true."""

import importlib
import itertools
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from costs import assert_linear
from narrowing import as_discrete, as_kind, known
from scipy import stats

import hybridbn as hb
from hybridbn.exchange.bif import parse_bif
from hybridbn.exchange.discrete_networks import discretize

pgmpy = pytest.importorskip("pgmpy", reason="pgmpy is not installed (pip install 'hybridbn[pgmpy]')")

from pgmpy.factors.continuous import LinearGaussianCPD  # noqa: E402
from pgmpy.factors.discrete import TabularCPD  # noqa: E402
from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork, LinearGaussianBayesianNetwork  # noqa: E402

with warnings.catch_warnings():
    # pgmpy's inference imports a module of its own that it has deprecated
    warnings.filterwarnings("ignore", "`pgmpy.estimators.StructureScore` is deprecated", FutureWarning)
    from pgmpy.inference import VariableElimination


def discrete_network():
    rng = np.random.default_rng(3)
    a = hb.Discrete("a", states=(0, 1))
    b = hb.Discrete("b", states=("x", "y", "z"))
    c = hb.Discrete("c", states=(True, False))
    states: tuple[Any, ...] = ((1, 2), None.__class__, 0.5, "half")
    d = hb.Discrete("d", states=states)
    return hb.Network(
        [
            hb.Multinomial(d, parents=(b, a, c), table=rng.dirichlet(np.ones(4), (3, 2, 2))),
            hb.Multinomial(b, parents=(a,), table=rng.dirichlet(np.ones(3), 2)),
            hb.Multinomial(a, table=[0.25, 0.75]),
            hb.Multinomial(c, parents=(b,), table=rng.dirichlet(np.ones(2), 3)),
        ]
    )


def gaussian_network():
    x, y, z = map(hb.Continuous, "xyz")
    return hb.Network(
        [
            hb.LinearGaussian(z, parents=(y, x), intercept=0.5, coefficients=[3, -0.5], variance=0.3**2),
            hb.LinearGaussian(x, intercept=1, variance=4),
            hb.LinearGaussian(y, parents=(x,), intercept=-2, coefficients=[1.5], variance=0.7**2),
        ]
    )


def hybrid_network():
    """c -> x -> y, (c, x) -> y, x -> d: a mixture, a discrete child of a continuous parent."""
    c, d = hb.Discrete("c", states=(0, 1)), hb.Discrete("d", states=("no", "yes"))
    x, y = hb.Continuous("x"), hb.Continuous("y")
    return hb.Network(
        [
            hb.Multinomial(c, table=[0.3, 0.7]),
            hb.LinearGaussian(x, parents=(c,), intercept=[0, 3], variance=[1, 2]),
            hb.LinearGaussian(y, parents=(x, c), intercept=[0, 1], coefficients=[[1.0], [-0.5]], variance=[0.5, 0.25]),
            hb.Softmax(d, parents=(x,), intercept=[0, 1], coefficients=[[0.0], [-1.5]]),
        ]
    )


def same_tables(left, right):
    assert list(left) == list(right)
    for node in left:
        assert left.potential(node).variables == right.potential(node).variables
        assert np.array_equal(left.potential(node).table, right.potential(node).table)


# -- discrete models --------------------------------------------------------------------------------------------------


def test_discrete_networks_make_the_trip_exactly():
    net = discrete_network()
    model = net.to_pgmpy()
    assert isinstance(model, DiscreteBayesianNetwork)
    assert model.check_model()
    assert set(model.edges) == set(net.edges)
    assert model.get_cpds("a").state_names == {"a": [0, 1]}
    assert model.get_cpds("d").variables == ["d", "b", "a", "c"]
    again = hb.from_pgmpy(model)
    same_tables(net, again)
    assert [type(state) for state in as_discrete(again.variable("c")).states] == [bool, bool]


def test_every_probability_is_where_pgmpy_looks_for_it():
    net = discrete_network()
    cpd = net.to_pgmpy().get_cpds("d")
    for b in "xyz":
        for a in (0, 1):
            for c in (True, False):
                for d in net.variable("d").states:
                    assert cpd.get_value(d=d, b=b, a=a, c=c) == net.potential("d")(d=d, b=b, a=a, c=c)


def test_posteriors_of_pgmpy_are_those_of_the_joint():
    net = discrete_network()
    tables = [net.potential(name).table for name in "abcd"]
    joint = np.einsum("a,ab,bc,bacd->abcd", *tables)
    found = VariableElimination(net.to_pgmpy()).query(["a"], evidence={"d": "half", "c": True}, show_progress=False)
    expected = joint[:, :, 0, 3].sum(axis=1)
    np.testing.assert_allclose(found.values, expected / expected.sum(), rtol=1e-12)
    assert found.state_names["a"] == [0, 1]


def test_pgmpys_models_make_the_trip_exactly():
    model = DiscreteBayesianNetwork([("a", "c"), ("b", "c")])
    rng = np.random.default_rng(0)
    model.add_cpds(
        TabularCPD("b", 3, [[0.2], [0.3], [0.5]]),  # no names: states are 0, 1, 2
        TabularCPD("a", 2, [[0.4], [0.6]], state_names={"a": ["no", "yes"]}),
        TabularCPD(
            "c", 2, rng.dirichlet([1, 1], 6).T, ["b", "a"], [3, 2], {"c": [0, 1], "b": [0, 1, 2], "a": ["no", "yes"]}
        ),
    )
    net = hb.from_pgmpy(model)
    assert as_discrete(net.variable("b")).states == (0, 1, 2)
    assert net.potential("c").scope == ("b", "a", "c")
    assert net.potential("c")(b=2, a="yes", c=1) == model.get_cpds("c").get_value(b=2, a="yes", c=1)
    again = net.to_pgmpy()
    assert all(again.get_cpds(name) == model.get_cpds(name) for name in "abc")
    assert all(np.array_equal(again.get_cpds(name).values, model.get_cpds(name).values) for name in "abc")


def test_other_discrete_potentials_become_tables():
    c, d = hb.Discrete("c", states=(0, 1)), hb.Discrete("d", states=("no", "yes"))
    softmax = hb.Softmax(d, parents=(c,), intercept=[[0, 1], [0, -2]], coefficients=np.zeros((2, 2, 0)))
    model = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), softmax]).to_pgmpy()
    np.testing.assert_allclose(model.get_cpds("d").get_value(d="yes", c=1), 1 / (1 + np.exp(2)), rtol=1e-14)


def test_types_and_cuts_survive_a_file_that_pgmpy_writes():
    from pgmpy.readwrite import BIFWriter

    c, dose = hb.Discrete("c", states=(1, 2)), hb.Discrete("dose", cuts=(-1.5, 3))
    net = hb.Network(
        [hb.Multinomial(c, table=[0.25, 0.75]), hb.Multinomial(dose, parents=(c,), table=[[0.5, 0.25, 0.25]] * 2)]
    )
    same_tables(net, hb.from_pgmpy(net.to_pgmpy()))
    same_tables(net, parse_bif(str(BIFWriter(net.to_pgmpy()))))


def chain(nodes):
    c = [hb.Discrete(f"c{i}", states=("a", "b")) for i in range(nodes)]
    links = [hb.Multinomial(v, parents=(u,), table=[[0.5, 0.5], [0.25, 0.75]]) for u, v in itertools.pairwise(c)]
    return hb.Network([*reversed(links), hb.Multinomial(c[0], table=[0.5, 0.5])])


def test_the_trip_takes_time_in_proportion_to_the_nodes():
    networks = {nodes: chain(nodes) for nodes in (50, 100)}
    assert_linear(lambda nodes: hb.from_pgmpy(networks[nodes].to_pgmpy()), 50)
    same_tables(networks[100], hb.from_pgmpy(networks[100].to_pgmpy()))


# -- linear Gaussian models -------------------------------------------------------------------------------------------


def test_gaussian_networks_make_the_trip():
    net = gaussian_network()
    model = net.to_pgmpy()
    assert isinstance(model, LinearGaussianBayesianNetwork)
    assert model.check_model()
    cpd = model.get_cpds("z")
    assert (cpd.beta.tolist(), cpd.evidence) == ([0.5, 3.0, -0.5], ["y", "x"])
    assert model.get_cpds("x").std == 2.0
    again = hb.from_pgmpy(model)
    for name in net:
        mine, theirs = net.potential(name), again.potential(name)
        assert mine.scope == theirs.scope
        assert np.array_equal(mine.intercept, as_kind(hb.LinearGaussian, theirs).intercept)
        assert np.array_equal(mine.coefficients, as_kind(hb.LinearGaussian, theirs).coefficients)
        # a square root is not always undone by a square: the last digit may differ
        np.testing.assert_allclose(as_kind(hb.LinearGaussian, theirs).variance, mine.variance, rtol=4e-16)


def test_pgmpys_gaussian_models_make_the_trip_exactly():
    rng = np.random.default_rng(5)
    model = LinearGaussianBayesianNetwork([("x", "z"), ("y", "z"), ("x", "y")])
    model.add_cpds(
        LinearGaussianCPD("z", rng.normal(size=3), rng.random(), ["y", "x"]),
        LinearGaussianCPD("x", [1], 2),
        LinearGaussianCPD("y", rng.normal(size=2), rng.random(), ["x"]),
    )
    again = hb.from_pgmpy(model).to_pgmpy()
    for cpd in model.cpds:
        other = again.get_cpds(cpd.variable)
        assert (other.beta.tolist(), other.std, other.evidence) == (cpd.beta.tolist(), cpd.std, cpd.evidence)


def test_pgmpys_joint_gaussian_is_ours():
    net = gaussian_network()
    mean, covariance = net.to_pgmpy().to_joint_gaussian()  # in topological order: x, y, z
    joint = stats.multivariate_normal(mean, covariance)
    for x, y, z in [(1.0, 0.0, 0.5), (3.0, 2.0, 5.0), (-1.0, -3.0, -8.0)]:
        density = net.potential("x")(x=x) * net.potential("y")(x=x, y=y) * net.potential("z")(x=x, y=y, z=z)
        assert joint.pdf((x, y, z)) == pytest.approx(density, rel=1e-6)  # pgmpy rounds to 8 digits


# -- hybrid networks --------------------------------------------------------------------------------------------------


def truth(name, cuts):
    """Marginal of one variable of `hybrid_network` over its bins, by brute force."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    x, weights = 1.5 + 12 * nodes, 12 * weights
    prior = np.array([0.3 * stats.norm.pdf(x, 0, 1), 0.7 * stats.norm.pdf(x, 3, np.sqrt(2))]) * weights
    if name == "d":
        yes = 1 / (1 + np.exp(-(1 - 1.5 * x)))
        return np.array([(prior * (1 - yes)).sum(), (prior * yes).sum()])
    means, sds = np.array([x, 1 - 0.5 * x]), np.sqrt([[0.5], [0.25]])
    edges = np.array([-np.inf, *cuts, np.inf])
    below = [(prior * stats.norm.cdf((edge - means) / sds)).sum() for edge in edges]
    return np.diff(below)


@pytest.mark.parametrize("bins", [4, 10, 40])
def test_binned_marginals_are_within_the_stated_error(bins):
    model = hybrid_network().to_pgmpy(bins=bins)
    assert isinstance(model, DiscreteBayesianNetwork)
    assert model.check_model()
    inference = VariableElimination(model)
    for name in ("d", "y"):
        found = inference.query([name], show_progress=False).values
        error = np.abs(found - truth(name, model.binning.cuts.get(name))).sum() / 2
        assert error <= model.binning.total
        assert error < 0.3 / bins  # the bound is cautious: marginals are better


def test_the_stated_error_falls_with_the_width_of_bins():
    totals = [discretize(hybrid_network(), bins)[1].total for bins in (5, 10, 20, 40)]
    assert all(0.4 < fine / coarse < 0.7 for coarse, fine in itertools.pairwise(totals))
    errors = discretize(hybrid_network(), 10)[1].error
    assert errors["c"] == errors["x"] == 0  # no continuous parents: nothing is lost
    assert 0 < errors["d"] < errors["y"]


def test_bins_are_about_equally_likely():
    binned, binning = discretize(hybrid_network(), 8)
    assert len(binning.cuts["y"]) == 7
    np.testing.assert_allclose(truth("y", binning.cuts["y"]), 1 / 8, atol=0.005)
    assert [len(str(cut)) < 8 for cut in binning.cuts["y"]] == [True] * 7
    assert as_discrete(binned.variable("x")).cuts == binning.cuts["x"]


def test_tables_of_one_parent_are_conditional_means():
    cuts = (-1.0, 0.0, 2.0)
    binned, _ = discretize(gaussian_network(), {"x": cuts, "y": (-2.0, 1.0), "z": 3})
    edges = [-np.inf, *cuts, np.inf]
    for row, (low, high) in enumerate(itertools.pairwise(edges)):
        x = stats.truncnorm.ppf((np.arange(4000) + 0.5) / 4000, (low - 1) / 2, (high - 1) / 2, 1, 2)
        below = stats.norm.cdf((np.array([[-2.0], [1.0]]) + 2 - 1.5 * x) / 0.7).mean(axis=1)
        np.testing.assert_allclose(
            as_kind(hb.Multinomial, binned.potential("y")).table[row], np.diff([0, *below, 1]), atol=0.004
        )


def test_cut_points_and_numbers_may_be_mixed():
    model = hybrid_network().to_pgmpy(bins={"x": [0, 1.5], "y": 3})
    assert model.get_cpds("x").state_names["x"] == ["< 0.0", "0.0 to 1.5", ">= 1.5"]
    assert model.get_cpds("y").cardinality.tolist() == [3, 3, 2]
    np.testing.assert_allclose(model.get_cpds("x").values[:, 0], [0.5, 0.43319280, 0.06680720], atol=1e-8)
    assert as_discrete(hb.from_pgmpy(model).variable("x")).code(1.0) == 1


def test_bins_where_nothing_comes_do_no_harm():
    binned, _ = discretize(hybrid_network(), {"x": [-500, -400, 0, 900], "y": [-1e3, 0, 1e3]})
    table = as_kind(hb.Multinomial, binned.potential("y")).table
    assert np.isfinite(table).all()
    np.testing.assert_allclose(table.sum(axis=-1), 1, atol=1e-12)


def test_results_are_the_same_every_time():
    one, other = (discretize(hybrid_network(), 6) for _ in range(2))
    same_tables(one[0], other[0])
    assert one[1] == other[1]


def test_densities_without_exact_masses_are_integrated():
    x, y = hb.Continuous("x"), hb.Continuous("y")
    narrow = hb.Density(y, parents=(x,), function=lambda x, y: stats.norm.pdf(y, x, 0.01))
    exact = hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[1], variance=1e-4)
    root = hb.LinearGaussian(x, intercept=0, variance=1)
    bins: dict[str, int | Sequence[float]] = {"x": 4, "y": [-1, 0, 2]}
    found, expected = (discretize(hb.Network([root, child]), bins) for child in (narrow, exact))
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, found[0].potential("y")).table,
        as_kind(hb.Multinomial, expected[0].potential("y")).table,
        atol=1e-9,
    )
    assert found[1].total == pytest.approx(expected[1].total, abs=1e-9)


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_a_hybrid_network_wants_bins():
    with pytest.raises(
        hb.NetworkError, match=r"'x', 'y' are continuous, other variables discrete.*to_pgmpy\(bins=10\)"
    ):
        hybrid_network().to_pgmpy()


@pytest.mark.parametrize(
    ("bins", "reason"),
    [
        ({"x": 3}, "bins don't say how to cut 'y'"),
        ({"x": 3, "y": 3, "c": 2}, "bins for 'c', but the continuous variables are 'x', 'y'"),
        (1, "'x': 1 bins; give a number from 2"),
        (10**6, "'x': 1000000 bins"),
        (True, "whole number or a list of cut points"),
        (2.5, "whole number or a list of cut points"),
        ("ten", "whole number or a list of cut points"),
        ({"x": [1, 0], "y": 2}, "'x': cuts must be finite and increasing"),
        ({"x": [], "y": 2}, "'x': cut points must lie inside"),
        ({"x": ["a"], "y": 2}, "'x': cuts must be numbers"),
    ],
)
def test_bad_bins_are_refused(bins, reason):
    with pytest.raises(hb.NetworkError, match=reason):
        hybrid_network().to_pgmpy(bins=bins)


def test_tables_too_large_are_refused_before_they_are_made():
    with pytest.raises(
        hb.TooWide, match=r"'z': its table would have 5000 x 5000 x 5000 numbers; give fewer bins for 'y', 'x', 'z'"
    ):
        gaussian_network().to_pgmpy(bins={"x": 5000, "y": 5000, "z": 5000})


def complete():
    model = DiscreteBayesianNetwork([("a", "b")])
    states = {"a": ["no", "yes"], "b": ["u", "v"]}
    b = TabularCPD("b", 2, [[0.1, 0.2], [0.9, 0.8]], ["a"], [2], states)
    model.add_cpds(TabularCPD("a", 2, [[0.4], [0.6]], state_names={"a": states["a"]}), b)
    return model


def without_cpd():
    model = complete()
    model.remove_cpds("b")
    return model


def stranger():
    model = complete()
    model.cpds.append(TabularCPD("q", 2, [[0.4], [0.6]]))
    return model


def twice():
    model = complete()
    model.cpds.append(model.cpds[0])
    return model


def lost_arc():
    model = complete()
    model.remove_edge("a", "b")
    return model


def other_states():
    model = complete()
    model.add_cpds(TabularCPD("a", 2, [[0.4], [0.6]], state_names={"a": ["yes", "no"]}))
    return model


def loose():
    model = complete()
    model.add_cpds(TabularCPD("a", 2, [[0.4], [0.605]], state_names={"a": ["no", "yes"]}))
    return model


def numbered():
    model = DiscreteBayesianNetwork()
    model.add_node(7)
    model.add_cpds(TabularCPD(7, 2, [[0.4], [0.6]]))
    return model


def gaussian(beta, std):
    model = LinearGaussianBayesianNetwork([("x", "y")])
    model.add_cpds(LinearGaussianCPD("x", [0], 1), LinearGaussianCPD("y", beta, std, ["x"]))
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (without_cpd, "no CPD for 'b'"),
        (stranger, "a CPD for 'q', which is not a node"),
        (twice, "'a' has two CPDs"),
        (lost_arc, "the CPD of 'b' is given 'a', but its parents in the graph are none"),
        (other_states, "the CPD of 'b' has the states 'no', 'yes' for its parent 'a', whose own are 'yes', 'no'"),
        (loose, "'a': .*sum to 1.005.*normalize=True"),
        (numbered, "names of variables must be text, but the model has the nodes 7"),
        (lambda: gaussian([0], 1), r"'y': beta must hold the intercept and a coefficient for each of 1 parents"),
        (lambda: gaussian([0, 1], -1), "'y': the standard deviation must be positive and finite, not -1"),
        (lambda: gaussian([0, 1], float("nan")), "'y': the standard deviation"),
        (lambda: gaussian([0, float("inf")], 1), "'y'.*finite"),
        (lambda: gaussian([0, 1], None), "'y': beta and std must be numbers"),
        (lambda: "model", "expected a DiscreteBayesianNetwork or LinearGaussianBayesianNetwork of pgmpy, not a str"),
        (DiscreteMarkovNetwork, "not a DiscreteMarkovNetwork"),
    ],
)
def test_bad_models_are_refused(make, reason):
    with pytest.raises(hb.NetworkError, match=reason):
        hb.from_pgmpy(make())


def test_loose_rows_are_normalized_on_request():
    assert as_kind(hb.Multinomial, hb.from_pgmpy(loose(), normalize=True).potential("a")).table.sum() == 1


def test_without_pgmpy_the_extra_is_named(monkeypatch):
    for module in [name for name in sys.modules if name.partition(".")[0] == "pgmpy"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pgmpy", None)
    with pytest.raises(hb.HybridBNError, match=re.escape("install it with: pip install 'hybridbn[pgmpy]'")):
        gaussian_network().to_pgmpy()


def test_the_module_does_not_import_pgmpy():
    source = importlib.import_module("hybridbn.exchange.pgmpy").__file__
    with open(known(source), encoding="utf-8") as file:
        assert not re.search(r"^(import|from) pgmpy", file.read(), re.MULTILINE)


def test_every_family_can_be_binned():
    """A kernel density, an MTE given it in two cells, and a discrete MTE given that one; the answers are known."""
    x, y = hb.Continuous("x"), hb.Continuous("y", domain=(0, 2))
    d = hb.Discrete("d", states=(0, 1))
    kernel = hb.Kernel(x, points=[[-1.0], [2.0]], bandwidths=[0.5])
    cells = [(-np.inf, 0.5), (0.5, np.inf)]
    falling = [
        hb.Piece(box={"x": cells[0], "y": (0, 2)}, constant=0.5),
        hb.Piece(box={"x": cells[1], "y": (0, 2)}, terms=[(1 / (1 - np.exp(-2)), {"y": -1.0})]),
    ]
    likely = [
        hb.Piece(box={"y": cell}, given={"d": state}, constant=probability if state else 1 - probability)
        for cell, probability in [((0, 1), 0.25), ((1, 2), 0.875)]
        for state in (0, 1)
    ]
    net = hb.Network([kernel, hb.MTE(y, parents=(x,), pieces=falling), hb.MTE(d, parents=(y,), pieces=likely)])
    model = net.to_pgmpy(bins={"x": [0.5], "y": [1]})  # bins are the cells, so that nothing is lost
    assert model.binning.total < 1e-9
    np.testing.assert_allclose(model.get_cpds("x").values, [0.5, 0.5], atol=1e-3)
    upper = (np.exp(-1) - np.exp(-2)) / (1 - np.exp(-2))
    np.testing.assert_allclose(model.get_cpds("y").values, [[0.5, 1 - upper], [0.5, upper]], rtol=1e-12)
    np.testing.assert_allclose(model.get_cpds("d").values, [[0.75, 0.125], [0.25, 0.875]], rtol=1e-12)
