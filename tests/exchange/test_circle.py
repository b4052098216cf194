"""Networks around the circle of formats and back: the posteriors are those of the start within 1e-9."""

import itertools
import warnings
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from narrowing import as_discrete
from test_elvira import CASES, mixed, quietly, shared
from test_exchange import gaussian_network, plain_network

import hybridbn as hb

SMALL = ["asia", "cancer", "child", "earthquake", "insurance", "sachs", "survey"]
LARGE = [
    "alarm",
    "andes",
    "barley",
    "diabetes",
    "hailfinder",
    "hepar2",
    "link",
    "mildew",
    "munin",
    "munin1",
    "munin2",
    "munin3",
]
LARGE += ["munin4", "pathfinder", "pigs", "water", "win95pts"]
DISCRETE = (
    ".bif",
    ".elv",
    ".xmlbif",
    ".xdsl",
    ".net",
    ".uai",
    ".bif.gz",
    ".xdsl.gz",
    ".elv.gz",
    ".net.gz",
    ".uai.gz",
    ".xml.gz",
    ".hbn",
)


def around(net, suffixes, folder):
    """Write and read a network in each format, one after the other."""
    for number, suffix in enumerate(suffixes):
        path = folder / f"step{number}{suffix}"
        hb.write_network(net, path)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is left to repair in what we write
            net = hb.read_network(path)
    return net


def same_tables(left, right):
    assert set(left) == set(right)
    for node in left:
        assert left.potential(node).variables == right.potential(node).variables
        assert np.array_equal(left.potential(node).table, right.potential(node).table)


def same_posteriors(left, right, evidence):
    for node in left:
        if node in evidence:
            continue
        one, other = (net.posterior(node, evidence) for net in (left, right))
        if isinstance(left.variable(node), hb.Discrete):
            np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=0, atol=1e-9)
        else:
            points = np.linspace(one.quantile(0.01), one.quantile(0.99), 7)
            np.testing.assert_allclose(one.cdf(points), other.cdf(points), rtol=0, atol=1e-9)
            np.testing.assert_allclose(one.mean(), other.mean(), rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(one.var(), other.var(), rtol=1e-9)


def shipped(name):
    pgmpy = pytest.importorskip("pgmpy", reason="the networks of the public BIF collection come with pgmpy")
    return Path(pgmpy.__file__).parent / "utils" / "example_models" / f"{name}.bif.gz"


@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_networks_of_the_public_collection(name, tmp_path):
    net = hb.read_network(shipped(name))
    again = around(net, DISCRETE, tmp_path)
    same_tables(net, again)  # bit for bit, so the posteriors are too
    if name in SMALL:
        first, *_, last = net
        same_posteriors(net, again, {})
        same_posteriors(net, again, {last: as_discrete(net.variable(last)).states[0]})
        same_posteriors(net, again, {first: as_discrete(net.variable(first)).states[-1]})


@pytest.mark.parametrize("order", [DISCRETE[::-1], DISCRETE[3:] + DISCRETE[:3]])
def test_the_order_does_not_matter(order, tmp_path):
    net = plain_network()
    same_tables(net, around(net, order, tmp_path))


@pytest.mark.parametrize("name", [*CASES, None])
def test_networks_of_elvira(name, tmp_path):
    net = mixed() if name is None else quietly(hb.read_network, shared(name))
    suffixes = DISCRETE if name == "asia" else (".elv", ".hbn", ".elv", ".hbn", ".elv")
    again = around(net, suffixes, tmp_path)
    same_posteriors(net, again, {})
    last = list(net)[-1]
    variable = net.variable(last)
    value = variable.states[0] if isinstance(variable, hb.Discrete) else net.posterior(last, {}).mean()
    same_posteriors(net, again, {last: value})


def test_linear_gaussian_networks(tmp_path):
    net = gaussian_network()
    again = around(net, (".xdsl", ".net", ".hbn", ".net", ".xdsl"), tmp_path)
    for evidence in ({}, {"the y": 0.3}, {"Sqrt": 1.0, "d": "yes"}):
        same_posteriors(net, again, evidence)


def binned(net, suffixes, folder):
    path = folder / f"binned{suffixes[0]}"
    with pytest.warns(UserWarning, match="continuous variables were cut into bins"):
        hb.write_network(net, path, bins=6)
    return hb.read_network(path)


def test_binned_networks_are_the_same_in_all_formats(tmp_path):
    net = gaussian_network()
    nets = [binned(net, (suffix,), tmp_path) for suffix in DISCRETE[:-1]]
    for one, other in itertools.pairwise(nets):
        same_tables(one, other)
    same_tables(nets[0], around(nets[0], DISCRETE, tmp_path))


def test_learned_mixtures(tmp_path):
    rng = np.random.default_rng(2)
    n = 300
    c = rng.integers(0, 2, n)
    x = rng.normal(2.0 * c, 1.0)
    d = np.where(x + rng.normal(size=n) > 1, "up", "down")
    y = np.where(d == "up", x, -x) + rng.normal(size=n)
    data = {"c": np.array(["a", "b"])[c], "x": x, "d": d, "y": y}
    kinds = {"x": "mte", "y": "mte", "d": "mte"}
    net = hb.fit([("c", "x"), ("x", "d"), ("x", "y"), ("d", "y")], data, potentials=kinds)  # type: ignore[arg-type]
    again = around(net, (".elv", ".hbn", ".elv"), tmp_path)
    for evidence in ({}, {"y": 0.5}, {"d": "up"}, {"c": "b", "y": -2.0}):
        same_posteriors(net, again, evidence)


STATE = st.one_of(
    st.text(max_size=5),
    st.integers(-5, 5),
    st.booleans(),
    st.floats(allow_nan=False),
    st.sampled_from(["a b", "1", "-1", "exp", "node", "é", "1e5"]),
)
NAMES = st.one_of(
    st.text(min_size=1, max_size=6),
    st.sampled_from(["x", "node", "If", "e", "a b", "a-b", "1", "nb,", "x;", "<&>", "%", "°"]),
)


@pytest.mark.parametrize("suffix", DISCRETE)
@settings(max_examples=examples(60), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_discrete_network_is_kept_or_refused(suffix, data, tmp_path):
    names = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    potentials: list[hb.Multinomial] = []
    variables: list[hb.Discrete] = []
    for name in names:
        states = data.draw(st.lists(STATE, min_size=1, max_size=4, unique=True))
        try:
            variable = hb.Discrete(name, states=tuple(states))
        except hb.NetworkError:  # 1 and True are equal
            variable = hb.Discrete(name, states=("u", "v"))
        parents = [v for v in variables if rng.random() < 0.6]
        shape = [len(v) for v in parents]
        potentials.append(
            hb.Multinomial(variable, parents=parents, table=rng.dirichlet(np.full(len(variable), 0.2), shape))
        )
        variables.append(variable)
    net = hb.Network(potentials)
    path = tmp_path / f"n{suffix}"
    try:
        hb.write_network(net, path)
    except hb.FormatError:
        return
    again = hb.read_network(path)
    same_tables(net, again)
    for variable in variables:
        assert list(map(type, as_discrete(again.variable(variable.name)).states)) == list(map(type, variable.states))
