import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from hybridbn.errors import ImpossibleEvidence, NetworkError
from hybridbn.network import Network
from hybridbn.potentials import kernel as family
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.kernel import Kernel, sums
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.tables.table import Table
from hybridbn.variables import Continuous, Discrete

INF = math.inf
X, Y, W = Continuous("x"), Continuous("y", domain=(0, 10)), Continuous("w")
C, D = Discrete("c", ("u", "v")), Discrete("d", ("a", "b", "e"))
RNG = np.random.default_rng(1)
N = 30
POINTS = np.column_stack([RNG.uniform(0, 10, N), RNG.normal(size=N), RNG.normal(size=N) * 3])
WEIGHTS, LABELS = RNG.uniform(0.1, 2, N), np.arange(N) % 3
CONTINUOUS = Kernel(Y, (X, D, W), points=POINTS, bandwidths=[0.5, 0.3, 1], weights=WEIGHTS, labels={"d": LABELS})
DISCRETE = Kernel(
    C,
    (X, D, Y),
    points=POINTS[:, [1, 0]],
    bandwidths=RNG.uniform(0.2, 0.8, (3, 2, 2)),
    weights=WEIGHTS,
    labels={"d": LABELS, "c": RNG.integers(0, 2, N)},
)


def _bell(value, point, h, domain=(-INF, INF)):
    value, point, h = (mpmath.mpf(float(v)) for v in (value, point, h))
    if not domain[0] <= value <= domain[1]:
        return mpmath.mpf(0)
    low, high = (mpmath.mpf(end > 0) if math.isinf(end) else mpmath.ncdf((end - point) / h) for end in domain)
    return mpmath.npdf((value - point) / h) / h / (high - low)


@pytest.mark.parametrize("spread", [0.5, 3, 100, 1e5])
def test_continuous_child_against_50_digits(spread):
    """Equations 3, 4 and 6 of Frank et al., also where numerator and denominator are both below the least double."""
    rng = np.random.default_rng(7)
    with mpmath.workdps(50):
        for _ in range(8):
            y, x, w, d = rng.uniform(0, 10), rng.normal() * spread, rng.normal() * spread, int(rng.integers(3))
            mine = np.flatnonzero(d == LABELS)
            weights = [WEIGHTS[i] * _bell(x, POINTS[i, 1], 0.3) * _bell(w, POINTS[i, 2], 1) for i in mine]
            bells = [_bell(y, POINTS[i, 0], 0.5, Y.domain) for i in mine]
            exact = mpmath.fdot(weights, bells) / sum(weights)
            axes = {"y": np.array([y]), "x": np.array([x]), "d": np.array([d]), "w": np.array([w])}
            # two far parents pull towards different points: only their sum's digits are left
            tolerance = 1e-12 if spread < 1000 else 1e-6
            assert abs(CONTINUOUS.log_on(axes).item() - mpmath.log(exact)) < tolerance


@pytest.mark.parametrize("spread", [0.5, 3, 30])
def test_discrete_child_against_50_digits(spread):
    """Equations 7 to 9, with a bandwidth for each state and kernels truncated to a finite domain."""
    rng = np.random.default_rng(8)
    with mpmath.workdps(50):
        for _ in range(8):
            x, y, d = rng.normal() * spread, rng.uniform(0, 10), int(rng.integers(3))
            joint = [mpmath.mpf(0), mpmath.mpf(0)]
            for i in np.flatnonzero(d == LABELS):
                c = DISCRETE.codes[i, 1]
                h = DISCRETE.bandwidths[d, c]
                joint[c] += WEIGHTS[i] * _bell(x, POINTS[i, 1], h[0]) * _bell(y, POINTS[i, 0], h[1], Y.domain)
            for c in (0, 1):
                axes = {"x": np.array([x]), "d": np.array([d]), "y": np.array([y]), "c": np.array([c])}
                exact = mpmath.log(joint[c] / sum(joint))
                assert abs(DISCRETE.log_on(axes).item() - exact) < 1e-12 * max(1, abs(exact))


def test_root_is_a_weighted_kernel_density_estimate():
    points, weights = POINTS[:, 1], WEIGHTS
    grid = np.linspace(-5, 5, 101)
    expected = stats.norm.pdf(grid[:, None], points, 0.3) @ (weights / weights.sum())
    np.testing.assert_allclose(Kernel(X, points=points, bandwidths=0.3, weights=weights)(x=grid), expected, rtol=1e-12)


def test_far_from_all_points_the_nearest_decide_exactly():
    near = 1 + 2.7e-8
    potential = Kernel(X, (W,), points=[[0.0, 0.0], [1.0, 1.0], [2.0, near]], bandwidths=[0.1, 1.0])
    # the odds of the last two points depend on a digit that the squares of their distances have lost
    w = 1.23e8
    odds = math.exp((near - 1) * (w - 0.5 * (near + 1)))
    expected = (stats.norm.pdf(0) / 0.1) * np.array([1, odds]) / (1 + odds)
    np.testing.assert_allclose(potential(x=[1, 2], w=w), expected, rtol=1e-12)


def test_an_unlucky_product_is_summed_again_in_logarithms():
    """The points near x have no weight at w, so their matrix product underflows; the sum in logarithms does not."""
    potential = Kernel(X, (W,), points=[[0, 0], [100, 100]], bandwidths=[1.0, 1.0])
    logs = potential.log_on({"w": np.array([0.0, 100.0]), "x": np.array([0.0, 50.0, 100.0])})
    # x = 100 at w = 0: the near point has no weight there, the far one no density; they weigh the same
    bell, far = -0.5 * math.log(2 * math.pi), 5000 - math.log(2)
    np.testing.assert_allclose(logs, bell - np.array([[0, 1250, far], [far, 1250, 0]]), rtol=1e-14)


def test_blocks_make_no_difference(monkeypatch):
    rng = np.random.default_rng(2)
    axes = {
        "y": rng.uniform(0, 10, (4, 5)),
        "x": rng.normal(size=(3, 5)),
        "d": rng.integers(0, 3, (2, 5)),
        "w": rng.normal(size=2),
        "c": np.arange(2),
    }
    whole = [potential.log_on({name: axes[name] for name in potential.scope}) for potential in (CONTINUOUS, DISCRETE)]
    masses = CONTINUOUS.mass({name: axes[name] for name in ("x", "d", "w")}, np.linspace(0, 10, 7))
    given = {"x": axes["x"][0], "d": axes["d"][0], "w": np.zeros(5)}
    quantiles = CONTINUOUS.ppf(np.linspace(0.1, 0.9, 5), given)
    monkeypatch.setattr(sums, "CELLS", 100)
    monkeypatch.setattr(family, "CELLS", 100)
    for potential, expected in zip((CONTINUOUS, DISCRETE), whole, strict=True):
        np.testing.assert_allclose(
            potential.log_on({n: axes[n] for n in potential.scope}), expected, rtol=1e-12, atol=1e-12
        )
    again = CONTINUOUS.mass({name: axes[name] for name in ("x", "d", "w")}, np.linspace(0, 10, 7))
    np.testing.assert_allclose(again[0], masses[0], rtol=1e-12)
    np.testing.assert_array_equal(CONTINUOUS.ppf(np.linspace(0.1, 0.9, 5), given), quantiles)


def test_many_points_need_little_memory():
    import tracemalloc

    rng = np.random.default_rng(3)
    potential = Kernel(X, (W,), points=rng.normal(size=(20_000, 2)), bandwidths=[0.1, 0.1])
    grid = np.linspace(-3, 3, 60)
    tracemalloc.start()
    potential.on({"w": grid, "x": grid})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 120e6


def test_sums_in_blocks_of_points_are_rescaled(monkeypatch):
    rng = np.random.default_rng(5)
    points = rng.normal(size=(500, 2)) * [1, 5]
    potential = Kernel(X, (W,), points=points[np.argsort(-np.abs(points[:, 1]))], bandwidths=[0.2, 0.1])
    axes = {"w": np.linspace(-20, 20, 9), "x": np.linspace(-3, 3, 5)}
    expected = potential.log_on(axes)
    monkeypatch.setattr(sums, "CELLS", 100)
    np.testing.assert_allclose(potential.log_on(axes), expected, rtol=1e-11, atol=1e-12)


def test_half_normal_quantiles():
    potential = Kernel(Continuous("t", (0, INF)), points=[0.0], bandwidths=1)
    uniforms = np.array([0.0, 1e-12, 0.3, 0.99, 1 - 1e-12, 1.0])
    exact = [0, 1e-12 * math.sqrt(math.pi / 2), *stats.norm.isf(0.5 - 0.5 * uniforms[2:])]
    np.testing.assert_allclose(potential.ppf(uniforms, {}), exact, rtol=1e-12)


def test_truncated_kernels_are_zero_outside_and_whole_inside():
    potential = Kernel(Y, points=[0.1, 9.9], bandwidths=0.5)
    np.testing.assert_array_equal(potential(y=[-0.01, 10.01]), [0, 0])
    masses, scale = potential.mass({}, np.array([-INF, 0.0, 5.0, 10.0, INF]))
    np.testing.assert_allclose(masses * np.exp(scale), [0, 0.5, 0.5, 0], atol=1e-15)
    assert potential.support("y") == (0, 10)


def test_points_of_weight_zero_are_left_out_bitwise():
    potential = Kernel(X, points=[1, 2, 3], bandwidths=0.3, weights=[1, 0, 2])
    dropped = Kernel(X, points=[1, 3], bandwidths=0.3, weights=[1, 2])
    grid = np.linspace(0, 4, 50)
    np.testing.assert_array_equal(potential(x=grid), dropped(x=grid))
    assert repr(potential) == "<Kernel x: 2 points>"


def test_integer_weights_are_repetitions():
    grid = np.linspace(0, 4, 50)
    first = Kernel(X, points=[1, 3], bandwidths=0.3, weights=[2, 1])(x=grid)
    np.testing.assert_allclose(first, Kernel(X, points=[1, 1, 3], bandwidths=0.3)(x=grid), rtol=1e-14)


def test_labels_are_states_or_codes():
    expected = Kernel(X, (D,), points=[1, 2, 3], bandwidths=1, labels={"d": ["a", "e", "b"]})
    for labels in (np.array([0, 2, 1]), np.array(["a", "e", "b"]), ("a", "e", "b")):
        again = Kernel(X, (D,), points=[1, 2, 3], bandwidths=1, labels={"d": labels})
        np.testing.assert_array_equal(expected.codes, again.codes)
    # integer states are states, not codes
    digits = Discrete("d", (2, 1))
    np.testing.assert_array_equal(
        Kernel(X, (digits,), points=[1, 2], bandwidths=1, labels={"d": [1, 2]}).codes[:, 0], [1, 0]
    )


def test_evidence_of_a_state_without_points_contradicts_any_question():
    d, x = Discrete("d", ("u", "v")), Continuous("x")
    c = Discrete("c", ("a", "b", "e"))
    kernel = Kernel(c, (x,), points=[0.0, 1.0, 2.0], bandwidths=0.5, labels={"c": ["a", "b", "b"]})
    net = Network([kernel, LinearGaussian(x, intercept=0.0, variance=1.0), Multinomial(d, table=[0.3, 0.7])])
    assert net.posterior("d", {"c": "b"}).probability("u") == 0.3
    with pytest.raises(ImpossibleEvidence):
        net.posterior("d", {"c": "e"})
    with pytest.raises(ImpossibleEvidence):
        net.posterior("d", Table({"c": ["b", "e"]}))


def test_a_state_without_points_is_impossible():
    potential = Kernel(C, (X,), points=[0, 1], bandwidths=1, labels={"c": ["u", "u"]})
    np.testing.assert_array_equal(potential(c="v", x=[0, 1e9]), [0, 0])
    assert potential.log_on({"x": np.zeros(1), "c": np.array([1])}).item() == -INF


def test_bandwidths_for_each_state():
    potential = Kernel(C, (X,), points=[0, 1, 5], bandwidths=[0.5, 2.0], labels={"c": ["u", "u", "v"]})
    expected = 2 / 3 * 0.5 * (stats.norm.pdf(0.5, 0, 0.5) + stats.norm.pdf(0.5, 1, 0.5))
    expected /= expected + 1 / 3 * stats.norm.pdf(0.5, 5, 2)
    assert abs(potential(c="u", x=0.5) - expected) < 1e-14


def test_extreme_numbers():
    huge = Kernel(X, points=[1e308, -1e308, 5e307, 1.7e308, 0], bandwidths=1e307)
    assert np.isfinite(huge(x=[0, 1e308, -1.7e308])).all()
    assert np.isfinite(huge.breaks("x")).all()
    assert abs(huge.ppf(np.array([0.5]), {})[0] - 5e307) < 2e307
    shifted = Kernel(X, points=1e15 + np.arange(6.0), bandwidths=0.3)(x=1e15 + np.arange(0, 5, 0.5))
    np.testing.assert_array_equal(shifted, Kernel(X, points=np.arange(6.0), bandwidths=0.3)(x=np.arange(0, 5, 0.5)))
    outlier = Kernel(X, points=[0.0, 1, 2, 3, 4, 1e12], bandwidths=0.3)
    assert len(outlier.breaks("x")) < 20
    np.testing.assert_allclose(outlier.ppf(np.array([1e-9, 0.9]), {}), [-1.6, 1e12], rtol=0.1)


def test_breaks_of_a_parent_show_where_the_clusters_change_over():
    potential = Kernel(X, (W,), points=[[0, 0], [1, 100]], bandwidths=[0.1, 1.0])
    breaks = potential.breaks("w")
    np.testing.assert_allclose(breaks, [-5, 0, 5, 49.92, 50, 50.08, 95, 100, 105])
    assert potential(x=0, w=49.5) > 3
    assert potential(x=0, w=50.5) < 1e-15
    dense = Kernel(X, points=np.linspace(0, 1, 5000), bandwidths=0.01).breaks("x")
    assert len(dense) < 40


def test_sampling_is_by_components_and_agrees_with_the_quantiles():
    rng = np.random.default_rng(4)
    given = {"x": np.full(5000, 0.3), "d": np.full(5000, 1), "w": np.full(5000, -1.0)}
    drawn = CONTINUOUS.sample(given, rng)
    assert drawn.min() >= 0
    assert drawn.max() <= 10
    other = CONTINUOUS.ppf(rng.uniform(size=5000), given)
    assert stats.ks_2samp(drawn, other).pvalue > 1e-6


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Kernel(X, points=[], bandwidths=1), r"\(points, 1\), with the columns 'x' and at least one point"),
        (lambda: Kernel(X, (W,), points=[1, 2], bandwidths=[1, 1]), r"with the columns 'x', 'w' .* not \(2,\)"),
        (lambda: Kernel(X, points=[1, INF], bandwidths=1), "'x': point 1 has 'x' = inf, which is not a finite number"),
        (lambda: Kernel(X, points=[1, np.nan], bandwidths=1), "'x': point 1 has 'x' = nan"),
        (lambda: Kernel(Y, points=[1, 12], bandwidths=1), r"point 1 has 'y' = 12\.0, .*domain \[0\.0, 10\.0\].*widen"),
        (lambda: Kernel(X, points=["1", "2"], bandwidths=1), "array of points must be numbers"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=0), r"the bandwidth of 'x' is 0\.0; .*positive"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=np.nan), "bandwidths has nan at of 'x'|bandwidths has nan"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=[1, 2]), r"bandwidths must have shape \(1,\)"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=1, weights=[1, -1]), r"weight of point 1 is -1\.0"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=1, weights=[1, np.nan]), "weight of point 1 is nan"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=1, weights=[0, 0]), "all points have weight zero"),
        (lambda: Kernel(X, points=[1, 2], bandwidths=1, weights=[1]), r"2 points need as many weights, .* \(1,\)"),
        (lambda: Kernel(X, (D,), points=[1, 2], bandwidths=1), "labels must hold .* of 'd', not of no variable"),
        (lambda: Kernel(X, points=[1], bandwidths=1, labels={"q": ["a"]}), "of no variable, not of 'q'"),
        (
            lambda: Kernel(X, (D,), points=[1], bandwidths=1, labels={"d": ["z"]}),
            "'x', labels: row 0: 'd' has no state 'z'",
        ),
        (lambda: Kernel(X, (D,), points=[1], bandwidths=1, labels={"d": [None]}), "label of 'd' at point 0 is None"),
        (lambda: Kernel(X, (D,), points=[1], bandwidths=1, labels={"d": [3]}), "label of 'd' at point 0 is 3"),
        (
            lambda: Kernel(X, (D,), points=[1, 2], bandwidths=1, labels={"d": ["a"]}),
            "2 points need as many labels of 'd'",
        ),
        (
            lambda: Kernel(X, (D,), points=[1, 2], bandwidths=1, labels={"d": ["a", "e"]}),
            "no point .* has d='b'.*add points",
        ),
        (
            lambda: Kernel(X, (D,), points=[1, 2, 3], bandwidths=1, labels={"d": ["a", "e", "b"]}, weights=[1, 1, 0]),
            "no point of positive weight has d='b'",
        ),
        (
            lambda: Kernel(C, (D,), points=np.empty((3, 0)), bandwidths=1, labels={}),
            "needs a continuous variable; use a Multi",
        ),
    ],
)
def test_bad_kernels_are_refused(make, message):
    with pytest.raises(NetworkError, match=message):
        make()


def test_the_product_of_many_parents_is_refused_early():
    parents = [Discrete(f"p{i}", tuple(range(1000))) for i in range(8)]
    labels = {p.name: [0, 1] for p in parents}
    with pytest.raises(NetworkError, match="has p0=2"):
        Kernel(X, parents, points=[1, 2], bandwidths=1, labels=labels)
