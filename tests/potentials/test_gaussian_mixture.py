"""Linear regressions with residuals that are mixtures: their inference, and learning them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_kind

import hybridbn as hb
from hybridbn.errors import NetworkError
from hybridbn.fitting import GaussianFitter, LinearGaussianMixtureFitter
from hybridbn.structures import CrossValidation, hill_climb

C, D, K = hb.Discrete("c", ("a", "b")), hb.Discrete("d", (0, 1)), hb.Discrete("k", (0, 1, 2))
X, Y, Z = (hb.Continuous(name) for name in "xyz")


def make_networks(seed):
    """Return a network with a mixture, and the same one in which its component is a node."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), 2)
    numbers = {
        "intercept": rng.normal(0, 3, (2, 3)),
        "coefficients": rng.normal(size=(2, 3, 1)),
        "variance": rng.uniform(0.1, 2, (2, 3)),
    }
    others = [
        hb.Multinomial(C, table=rng.dirichlet(np.ones(2))),
        hb.LinearGaussian(X, (C,), intercept=rng.normal(size=2), variance=[1, 2]),
        hb.LinearGaussian(Z, (Y,), intercept=0, coefficients=[rng.normal()], variance=1),
    ]
    mixed = hb.LinearGaussianMixture(Y, (X, C), probabilities=shares, **numbers)
    nodes = [hb.Multinomial(K, (C,), table=shares), hb.LinearGaussian(Y, (X, C, K), **numbers)]
    return hb.Network([*others, mixed]), hb.Network([*others, *nodes])


@pytest.mark.parametrize(
    ("target", "evidence"), [("x", {"z": 1.0}), ("y", {}), ("y", {"c": "b", "z": -1.0}), ("c", {"y": 2.5})]
)
def test_answers_are_those_of_a_network_with_the_component(target, evidence, tmp_path):
    net, full = make_networks(3)
    net.save(tmp_path / "net.hbn")
    loaded = as_kind(hb.Network, hb.load(tmp_path / "net.hbn"))
    own, other = loaded.posterior(target, evidence), full.posterior(target, evidence)
    assert net.log_evidence(evidence) == pytest.approx(full.log_evidence(evidence), abs=1e-8)
    if target == "c":
        np.testing.assert_allclose(own.probabilities, other.probabilities, atol=1e-8)
    else:
        assert own.mean() == pytest.approx(other.mean(), abs=1e-7)
        np.testing.assert_allclose(own.quantile([0.01, 0.5, 0.99]), other.quantile([0.01, 0.5, 0.99]), atol=1e-6)


def test_holes_are_marginalized_in_a_batch():
    net, full = make_networks(4)
    rows = hb.Table({"x": [0.5, None, None], "y": [None, 1.0, None], "z": [0.1, None, -2.0], "c": ["a", None, "b"]})
    np.testing.assert_allclose(net.log_density(rows), full.log_density(rows), atol=1e-8)


def test_renamed_parts_and_a_parent_of_the_component_s_name():
    parent = hb.Discrete("component of y", (0, 1))
    potential = hb.LinearGaussianMixture(
        Y, (parent,), probabilities=np.full((2, 2), 0.5), intercept=[[0, 1], [2, 3]], variance=np.ones((2, 2))
    )
    renamed = potential.renamed({"y": "number", "component of y": "c"})
    assert renamed.scope == ("c", "number")
    assert renamed(c=[0, 1], number=[0.3, 0.4]) == pytest.approx(
        potential(**{"component of y": [0, 1], "y": [0.3, 0.4]})
    )
    assert potential.free_parameters() == 2 + 4 + 4


def test_breaks_lie_at_the_centers_and_some_standard_deviations_beside_them():
    regressions = {"intercept": [[1.0, 5.0], [-3.0, 0.0]], "variance": [[0.25, 4.0], [9.0, 0.01]]}
    mixture = hb.LinearGaussianMixture(
        Y, (X, C), probabilities=np.full((2, 2), 0.5), coefficients=np.full((2, 2, 1), 2.0), **regressions
    )
    plain = hb.LinearGaussian(Y, (X, C, D), coefficients=np.full((2, 2, 1), 2.0), **regressions)
    for potential, reaches in ((plain, (0, 4)), (mixture, (0, 4, 8))):
        for name, slope in (("y", 1.0), ("x", 2.0)):
            given, offset = ({"x": (0.75, 0.75)}, 1.5) if name == "y" else ({"y": (0.5, 0.5)}, -0.5)
            centers = (np.ravel(regressions["intercept"]) + offset) * (1.0 if name == "y" else -1.0)
            reach = np.outer(
                np.sqrt(np.ravel(regressions["variance"])), [side * r for r in reaches for side in (-1, 1)]
            )
            wanted = np.unique(((centers[:, None] + reach) / slope).round(9))
            np.testing.assert_allclose(np.unique(potential.breaks(name, given).round(9)), wanted)


def test_shapes_are_checked():
    with pytest.raises(NetworkError, match="probability for each component"):
        hb.LinearGaussianMixture(Y, probabilities=0.5, intercept=[0], variance=[1])
    with pytest.raises(NetworkError, match="intercept"):
        hb.LinearGaussianMixture(Y, probabilities=[0.5, 0.5], intercept=[0], variance=[1, 1])
    with pytest.raises(NetworkError, match="positive"):
        hb.LinearGaussianMixture(Y, probabilities=[0.5, 0.5], intercept=[0, 0], variance=[1, 0])


def evaluate(potential, table):
    """Return the log density of each row."""
    return potential.log_on({v.name: table.coded(v)[None] for v in potential.variables}).reshape(-1)


def draw_table(rows, seed=0):
    """Return rows with residuals that are exponential, and that have two modes where c is b."""
    rng = np.random.default_rng(seed)
    x, b = rng.normal(size=rows), rng.random(rows) < 0.5
    residuals = np.where(b, rng.choice([-3, 3], size=rows) + 0.3 * rng.normal(size=rows), rng.exponential(size=rows))
    return hb.Table({"x": x, "y": np.where(b, -1, 2) * x + residuals, "c": np.where(b, "b", "a")})


def test_residuals_are_learned_for_each_configuration():
    train, test = draw_table(1000), draw_table(1000, 1)
    x, y, c = train.variables
    potential = LinearGaussianMixtureFitter().fit(train, y, (x, c))
    gain = evaluate(potential, test) - evaluate(GaussianFitter().fit(train, y, (x, c)), test)
    assert gain[test.coded(c) == 0].mean() > 0.2
    assert gain[test.coded(c) == 1].mean() > 1
    slopes = as_kind(hb.LinearGaussianMixture, potential).density.coefficients
    np.testing.assert_allclose(slopes[:, 0, 0], [2, -1], atol=0.1)
    assert (slopes == slopes[:, :1]).all()


@settings(max_examples=10, deadline=None)
@given(st.floats(-3, 3), st.floats(-1e3, 1e3), st.integers(0, 5))
def test_units_and_repeated_rows(power, shift, seed):
    table = draw_table(60, seed)
    x, y, c = table.variables
    fitter, factor = LinearGaussianMixtureFitter(), 10.0**power
    potential = fitter.fit(table, y, (x, c))
    scaled = hb.Table(
        {
            "x": table.coded(x) / factor,
            "y": factor * table.coded(y) + shift,
            "c": np.array(["a", "b"])[table.coded(c)],
        }
    )
    other = evaluate(fitter.fit(scaled, y, (x, c)), scaled)
    np.testing.assert_allclose(other + np.log(factor), evaluate(potential, table), atol=1e-4)
    doubled = fitter.fit(table.take(np.repeat(np.arange(60), 2)), y, (x, c))
    weighted = fitter.fit(table.with_weights(np.full(60, 2.0)), y, (x, c))
    np.testing.assert_allclose(evaluate(weighted, table), evaluate(doubled, table), atol=1e-6)


def test_few_rows_have_a_normal_density():
    table = draw_table(20)
    x, y, c = table.variables
    potential = LinearGaussianMixtureFitter(components=9).fit(table, y, (x, c))
    normal = GaussianFitter().fit(table, y, (x, c))
    np.testing.assert_allclose(evaluate(potential, table), evaluate(normal, table), atol=1e-9)


def test_a_search_chooses_a_mixture_where_residuals_have_two_modes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=300)
    data = {"x": x, "y": 3 * x + rng.choice([-1, 1], size=300) + 0.1 * rng.normal(size=300)}
    net = hill_climb(data, "semiparametric", score=CrossValidation())
    assert net.number_of_edges() == 1
    assert "gaussian_mixture" in {net.potential(name).family for name in data}
