"""`fit`: structures in, networks out."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind, known

import hybridbn as hb
from hybridbn.fitting import GaussianFitter, MaximumLikelihood, MultinomialFitter, fit


def some_frame(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    season = rng.choice(["dry", "wet"], rows)
    rain = np.where(rng.random(rows) < np.where(season == "wet", 0.7, 0.1), "yes", "no")
    level = np.where(rain == "yes", 5.0, 2.0) + rng.normal(size=rows)
    flow = 3 * level + rng.normal(size=rows)
    alarm = flow + rng.normal(size=rows) > 12
    return pd.DataFrame({"season": season, "rain": rain, "level": level, "flow": flow, "alarm": alarm})


ARCS = [("season", "rain"), ("rain", "level"), ("level", "flow"), ("flow", "alarm")]


def test_every_structure_gives_the_same_network():
    frame = some_frame()
    graph = nx.DiGraph(ARCS)
    networks = [
        fit(structure, frame, potentials="gaussian")
        for structure in (ARCS, [list(arc) for arc in ARCS], iter(ARCS), graph, hb.Network(ARCS))
    ]
    for net in networks:
        net.check()
        assert list(net) == list(frame.columns)
        assert set(net.edges) == set(ARCS)
        families = [potential.family for potential in net.potentials]
        assert sorted(families) == ["gaussian", "gaussian", "multinomial", "multinomial", "softmax"]
        for name in net:
            first, other = networks[0].potential(name).to_dict(), net.potential(name).to_dict()
            for key, value in first.items():
                np.testing.assert_array_equal(value, other[key])
    assert as_discrete(networks[0].posterior("alarm", {"season": "wet"})).probability(True) > 0.4


@pytest.mark.parametrize(
    "convert", [lambda f: f, hb.Table, lambda f: f.to_dict("list"), lambda f: f.to_dict("records")]
)
def test_any_data(convert):
    net = fit(ARCS, convert(some_frame()), potentials="gaussian")
    assert as_kind(hb.LinearGaussian, net.potential("flow")).coefficients[0] == pytest.approx(3, abs=0.2)


def test_columns_without_arcs_are_nodes():
    net = fit([], some_frame()[["season", "level"]], potentials="gaussian")
    assert (list(net), list(net.edges)) == (["season", "level"], [])


def test_weights_are_repeated_rows():
    frame = some_frame(60)
    weights = np.random.default_rng(1).integers(0, 3, 60)
    repeated = fit(ARCS, frame.loc[np.repeat(frame.index, weights)], potentials="gaussian")
    for net in (
        fit(ARCS, frame, potentials="gaussian", weights=weights),
        fit(ARCS, hb.Table(frame, weights=weights), potentials="gaussian"),
        fit(ARCS, hb.Table(frame), potentials="gaussian", weights=weights),
    ):
        for name in net:
            for key, value in net.potential(name).to_dict().items():
                np.testing.assert_allclose(value, repeated.potential(name).to_dict()[key], rtol=1e-10, atol=1e-11)


def test_each_node_uses_the_rows_it_can():
    frame = some_frame()
    frame.loc[:99, "season"] = None
    frame.loc[50:, "rain"] = None
    frame = frame.astype({"season": object, "rain": object})
    frame.loc[200:249, "rain"] = ["yes", "no"] * 25
    net = fit(
        ARCS,
        frame,
        potentials={
            "season": MultinomialFitter(estimate=MaximumLikelihood()),
            "level": "gaussian",
            "flow": "gaussian",
            "alarm": "gaussian",
        },
    )
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, net.potential("season")).table[0], (frame["season"].dropna() == "dry").mean()
    )
    both = frame.dropna(subset=["season", "rain"])
    assert len(both) == 50
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, net.potential("rain")).table,
        as_kind(hb.Multinomial, fit([("season", "rain")], both[["season", "rain"]]).potential("rain")).table,
    )


def test_a_network_keeps_variables_and_families():
    frame = some_frame()
    net = fit(ARCS, frame, potentials={"level": "gaussian", "flow": "gaussian", "alarm": "softmax"})
    season = hb.Discrete("season", states=("wet", "dry", "monsoon"))
    rain = hb.Discrete("rain", states=("yes", "no"))
    model = hb.Network(
        [
            hb.Multinomial(rain, parents=(season,), table=np.full((3, 2), 0.5)),
            hb.Multinomial(season, table=[0.5, 0.5, 0.0]),
            *(net.potential(name) for name in ("flow", "alarm")),
            hb.LinearGaussian(
                hb.Continuous("level"), parents=(rain,), intercept=[0, 0], coefficients=[[], []], variance=[1, 1]
            ),
        ]
    )
    again = fit(model, frame)
    assert again.variable("season") == season
    assert as_discrete(again.variable("rain")).states == ("yes", "no")
    assert list(again) == list(model)
    assert [again.potential(name).family for name in ("rain", "level", "flow", "alarm")] == [
        "multinomial",
        "gaussian",
        "gaussian",
        "softmax",
    ]
    assert as_kind(hb.Multinomial, again.potential("season")).table[2] > 0
    np.testing.assert_allclose(
        as_kind(hb.LinearGaussian, again.potential("level")).intercept,
        as_kind(hb.LinearGaussian, net.potential("level")).intercept[::-1],
    )
    assert list(as_kind(hb.LinearGaussian, model.potential("level")).intercept) == [0, 0]
    cut = fit(model, frame, potentials="multinomial")
    assert all(potential.family == "multinomial" for potential in cut.potentials)


def test_the_order_of_a_potentials_parents_is_kept():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(["u", "v"], 50) for name in "abc"})
    b, a, c = (hb.Discrete(name, states=("u", "v")) for name in "bac")
    model = hb.Network(
        [
            hb.Multinomial(a, table=[0.5, 0.5]),
            hb.Multinomial(b, table=[0.5, 0.5]),
            hb.Multinomial(c, parents=(b, a), table=np.full((2, 2, 2), 0.5)),
        ]
    )
    assert fit(model, frame).potential("c").scope == ("b", "a", "c")
    assert fit([("b", "c"), ("a", "c")], frame).potential("c").scope == ("b", "a", "c")


def test_discretized_numbers_and_raw_evidence():
    net = fit(ARCS, some_frame(), potentials="multinomial")
    assert len(known(as_discrete(net.variable("level")).cuts)) == 9
    posterior = net.posterior("rain", {"level": 6.0})
    assert as_discrete(posterior).probability("yes") > 0.8
    # a network with cut points is learned again from raw numbers
    again = fit(net, some_frame(seed=1))
    assert again.variable("level") == net.variable("level")


def test_a_cycle_an_unknown_column_and_other_bad_structures():
    frame = some_frame()
    with pytest.raises(hb.NetworkError, match=r"cycle"):
        fit([*ARCS, ("alarm", "season")], frame)
    with pytest.raises(hb.NetworkError, match=r"mentions 'rian', .*did you mean 'rain'\?"):
        fit([("rian", "season")], frame)
    with pytest.raises(hb.NetworkError, match="the columns are 'season'"):
        fit(nx.DiGraph([("qqq", "season")]), frame)
    with pytest.raises(hb.NetworkError, match="arcs without direction"):
        fit(nx.Graph(ARCS), frame)
    for structure in (["ab"], "ab", {"a": "b"}, 5, [("a", "b", "c")], list(fit([], frame[["rain"]]).potentials)):
        with pytest.raises(hb.NetworkError, match="a structure is a list of arcs"):
            fit(structure, frame)


def test_hopeless_columns():
    frame = some_frame()
    named = frame.assign(key=[f"k{i}" for i in range(300)], number=range(300))
    with pytest.warns(UserWarning, match=r"'key' \(a different value in each row\), 'number' \(row numbers\)"):
        assert {*fit(ARCS, named)} == {*fit(ARCS, frame)}
    assert "number" in fit([*ARCS, ("season", "number")], named.drop(columns="key"))
    with pytest.raises(hb.TableError, match="no observed value"):
        fit(ARCS, frame.assign(level=np.nan))
    with pytest.raises(hb.TableError, match="'level' is constant"):
        fit(ARCS, frame.assign(level=1.0), potentials="gaussian")
    floored = fit(ARCS, frame.assign(level=1.0), potentials=GaussianFitter(floor=0.1))
    assert floored.potential("alarm").family == "softmax"
    disjoint = frame.astype({"season": object, "rain": object})
    disjoint.loc[:149, "season"] = None
    disjoint.loc[150:, "rain"] = None
    with pytest.raises(hb.TableError, match="no row has values of all of 'rain' given 'season'"):
        fit(ARCS, disjoint, potentials="gaussian")


def test_a_table_that_would_not_fit_names_its_node():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{i}": rng.integers(0, 100, 500).astype(str) for i in range(6)})
    with pytest.raises(hb.TooWide, match=r"'c5' given 'c0', 'c1', .*GiB"):
        fit([(f"c{i}", "c5") for i in range(5)], frame)


def test_a_density_is_not_learned_again():
    x = hb.Continuous("level")
    model = hb.Network([hb.Density(x, function=lambda level: np.exp(-0.5 * level**2) / np.sqrt(2 * np.pi))])
    with pytest.raises(hb.NetworkError, match="'level' has a Density"):
        fit(model, some_frame()[["level"]])
    assert fit(model, some_frame()[["level"]], potentials={"level": "gaussian"}).potential("level").family == "gaussian"
