"""Which values of a column are heavy points, and what is learned from such columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.fitting import AtomsFitter, GaussianFitter, KernelFitter, SemiparametricFitter, find_heavy_points
from hybridbn.structures import CrossValidation, hill_climb, mixture, naive_bayes, tan


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.sampled_from([30, 200, 1500]),
    deviation=st.floats(1.5, 40),
    kind=st.sampled_from(["normal", "uniform", "exponential"]),
)
def test_rounded_numbers_have_no_points(seed, rows, deviation, kind):
    values = deviation * getattr(np.random.default_rng(seed), kind)(size=rows)
    assert len(find_heavy_points((values * (4 if kind == "uniform" else 1)).round())) in (0, 2, 3)
    assert find_heavy_points(values) == ()
    again = np.random.default_rng(seed).choice(values, rows)
    assert find_heavy_points(again) == ()


def test_heaps_at_tens_are_no_points():
    rng = np.random.default_rng(5)
    pressure = rng.normal(130, 17, 600)
    heaped = np.where(rng.random(600) < 0.8, (pressure / 10).round() * 10, pressure.round())
    assert find_heavy_points(heaped) == ()
    assert find_heavy_points(np.where(rng.random(600) < 0.6, 0.0, heaped)) == (0.0,)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.sampled_from([100, 2000]), share=st.floats(0.2, 0.9), step=st.floats(0, 0.5))
def test_points_beside_a_density_are_found_whatever_the_units(seed, rows, share, step):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random(rows) < share, 1.5, rng.normal(0, 20, rows))
    values = (values / step).round() * step if step > 0.25 else values
    distinct, counts = np.unique(values, return_counts=True)
    expected = (distinct[counts.argmax()],)
    assert find_heavy_points(values) == expected
    np.testing.assert_allclose(find_heavy_points(7.0 * values - 3), 7.0 * np.array(expected) - 3)
    assert find_heavy_points(values, np.full(rows, 2.0)) == expected


@pytest.mark.parametrize("share", [0.0, 0.02, 0.06])
def test_points_of_long_columns(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=3000).round(3), rng.integers(3, size=3000).astype(float)
    values[rng.random(3000) < share] = -0.0
    values[rng.random(3000) < share / 2] = 0.0
    found = find_heavy_points(values), find_heavy_points(values, weights)
    assert bool(found[0]) == (share > 0)
    monkeypatch.setattr("hybridbn.tables.scales.MANY_ROWS", 10**9)
    assert found == (find_heavy_points(values), find_heavy_points(values, weights))


def ecoli_like(rows=300):
    """Return classes with five normal columns, and two columns of two values each."""
    rng = np.random.default_rng(1)
    label = rng.integers(3, size=rows)
    data = {f"x{i}": 0.6 * rng.normal(size=3)[label] + 0.3 * rng.normal(size=rows) for i in range(4)}
    data["lip"] = np.where(rng.random(rows) < np.where(label == 2, 0.4, 0.01), 1.0, 0.48)
    data["charge"] = np.where(np.arange(rows) % 75 == 0, 1.0, 0.5)
    return data, np.array(["a", "b", "c"])[label]


@pytest.mark.parametrize(("build", "family"), [(tan, "gaussian"), (naive_bayes, "kernel"), (naive_bayes, "mte")])
def test_columns_of_two_values_do_no_harm(family, build):
    data, label = ecoli_like()
    correct = []
    for names in (list(data), [name for name in data if name.startswith("x")]):
        table = hb.Table({**{name: data[name] for name in names}, "y": label})
        net = build(table.take(np.arange(0, 300, 2)), "y", family)
        posterior = net.posterior("y", table.select(names).take(np.arange(1, 300, 2)))
        correct.append((np.array(posterior.states)[posterior.probabilities.argmax(axis=1)] == label[1::2]).mean())
        if len(names) > 4:
            assert {net.potential(name).family for name in ("lip", "charge")} == {"atoms"}
            assert net.variable("lip") == hb.Continuous("lip")
            unseen = hb.Table({**{name: [0.1] for name in data}, "lip": [0.7], "y": ["a"]})
            assert np.isfinite(net.log_density(unseen)).all()
    assert correct[0] >= correct[1] - 0.01


@pytest.mark.parametrize(
    "family", ["gaussian", "kernel", pytest.param("mte", marks=pytest.mark.slow), "semiparametric"]
)
def test_parts_are_learned_from_their_rows(family):
    rng = np.random.default_rng(2)
    wet = rng.random(600) < 0.6
    cloud = 2.0 * wet + rng.normal(size=600)
    rain = np.where(wet, 5 + cloud + 0.1 * rng.normal(size=600), 0.0)
    net = hb.fit([("cloud", "rain")], {"rain": rain, "cloud": cloud}, family)
    potential = as_kind(hb.Atoms, net.potential("rain"))
    assert potential.points.tolist() == [0.0]
    dry = as_kind(np.ndarray, potential(rain=np.zeros(2), cloud=np.array([-1.0, 3.5])))
    assert dry[0] > 0.8 > 0.3 > dry[1]
    again = hb.fit(net, {"rain": rain, "cloud": cloud})
    assert as_kind(hb.Atoms, again.potential("rain")).density.family == potential.density.family
    fitter = AtomsFitter((0.0,), family)
    table = hb.Table({"rain": rain, "cloud": cloud})
    child, parent = table.variables
    parts = [fitter.statistics(part, child, (parent,)) for part in (table[:250], table[250:])]
    joined = fitter.potential(parts[0] + parts[1])
    axes = {"rain": np.array([0.0, 6.0, 9.0]), "cloud": np.array([0.5, 2.0])}
    whole = fitter.fit(table, child, (parent,))
    if family != "semiparametric":  # the folds are those of the order of rows
        np.testing.assert_allclose(joined.log_on(axes), whole.log_on(axes), rtol=1e-6, atol=1e-6)


def test_a_fitter_is_taken_as_it_is():
    data = {"x": [0.0, 1.0] * 20, "c": ["a", "b", "b", "a"] * 10}
    assert naive_bayes(data, "c", "gaussian").potential("x").family == "atoms"
    assert naive_bayes(data, "c", GaussianFitter()).potential("x").family == "gaussian"


def test_clusters_have_points():
    rng = np.random.default_rng(3)
    group = rng.integers(2, size=400)
    data = {
        "amount": np.where(rng.random(400) < 0.2 + 0.6 * group, 0.0, 10 + 3 * group + rng.normal(size=400)),
        "x": 5 * group + rng.normal(size=400),
    }
    net = mixture(data, 2)
    potential = as_kind(hb.Atoms, net.potential("amount"))
    assert potential.points.tolist() == [0.0]
    np.testing.assert_allclose(sorted(as_kind(hb.Multinomial, potential.component).table[:, 0]), [0.2, 0.8], atol=0.08)
    found = as_discrete(net.posterior("cluster", hb.Table(data))).probabilities.argmax(axis=1)
    assert max((found == group).mean(), (found != group).mean()) > 0.97


def test_families_are_chosen_node_by_node():
    rng = np.random.default_rng(4)
    x = rng.normal(size=120)
    data = {"x": x, "line": x + 0.5 * rng.normal(size=120), "bend": np.abs(x) + 0.1 * rng.normal(size=120)}
    fitter = SemiparametricFitter(("gaussian", KernelFitter(bandwidths="normal")), folds=3)
    net = hill_climb(
        data, fitter, score=CrossValidation(3), restarts=0, tabu=0, turns=0, required=[("x", "line"), ("x", "bend")]
    )
    assert net.potential("bend").family == "kernel"
    plain = hill_climb(data, "gaussian", restarts=0)
    fresh = rng.normal(size=200)
    test = hb.Table(
        {"x": fresh, "line": fresh + 0.5 * rng.normal(size=200), "bend": np.abs(fresh) + 0.1 * rng.normal(size=200)}
    )
    assert net.log_density(test).mean() > plain.log_density(test).mean() + 0.2
    weighted = hb.Table(data, weights=np.full(120, 0.5))
    assert fitter.fit(weighted, weighted.variable("line")).family == "gaussian"
    with pytest.raises(hb.NetworkError, match="families must be a tuple"):
        SemiparametricFitter("gaussian")  # type: ignore[arg-type]


@pytest.mark.parametrize("slope", [0.0, 1.5])
def test_points_depend_on_a_number_only_where_that_gains_enough(slope):
    rng = np.random.default_rng(5)
    y = rng.normal(size=500)
    at = rng.random(500) < 1 / (1 + np.exp(1 - slope * y))
    net = hb.fit("y -> x", hb.Table({"y": y, "x": np.where(at, 0.5, y + rng.normal(size=500))}), potentials="gaussian")
    component = as_kind(hb.Softmax, as_kind(hb.Atoms, net.potential("x")).component)
    assert component.coefficients.any() == (slope > 0)
    assert component.free_parameters() == (2 if slope else 1)
    closed = type(net.posterior("y", {"x": 0.5})).__name__ == "GaussianPosterior"
    assert closed == (slope == 0)
