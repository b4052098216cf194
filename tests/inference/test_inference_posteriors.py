"""What posteriors promise: scipy's method names and conventions, one case or a batch, slicing, pickling, sampling."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from inference_tools import Bump, crops
from narrowing import as_continuous, as_discrete, as_kind
from scipy import integrate, stats

import hybridbn as hb
from hybridbn.errors import HybridBNError, TableError
from hybridbn.inference.posteriors import mixtures
from hybridbn.inference.posteriors.mixtures import GaussianPosterior


def mixed() -> hb.Network:
    """One variable for every kind of continuous posterior, under one discrete cause."""
    c = hb.Discrete("c", ("a", "b"))
    cells, nodes, closed = hb.Continuous("cells", (0, 4)), hb.Continuous("nodes"), hb.Continuous("closed")
    d, s = hb.Discrete("d", (1, 2, 5)), hb.Discrete("s", (False, True))
    pieces = [
        hb.Piece({"cells": (0, 1)}, {"c": "a"}, 0.5, [(0.5 / math.expm1(1), {"cells": 1.0})]),
        hb.Piece({"cells": (1, 3)}, {"c": "a"}, 0.0, []),
        hb.Piece({"cells": (3, 4)}, {"c": "a"}, 0.0, []),
        hb.Piece({"cells": (0, 2)}, {"c": "b"}, 0.0, []),
        hb.Piece({"cells": (2, 4)}, {"c": "b"}, 0.0, [(1 / -math.expm1(-2), {"cells": -1.0}, {"cells": 2.0})]),
    ]
    return hb.Network(
        [
            hb.Multinomial(c, table=[0.4, 0.6]),
            hb.MTE(cells, (c,), pieces),
            hb.Kernel(nodes, (c,), points=[-2.0, 0.0, 1.0, 3.0], bandwidths=0.4, labels={"c": ["a", "a", "b", "b"]}),
            hb.LinearGaussian(closed, (c,), intercept=[-1, 2], variance=[0.5, 2]),
            hb.Multinomial(d, (c,), table=[[0.2, 0.3, 0.5], [0.6, 0.4, 0.0]]),
            hb.Softmax(s, (nodes,), intercept=[0, 1], coefficients=[[0.0], [-1.0]]),
        ]
    )


EVIDENCE = {"d": 2, "s": True}
TABLE = pd.DataFrame({"d": [2, None, 5, 1], "s": [True, False, None, None]}, dtype=object)
NUMBERS = ["cells", "nodes", "closed"]


@pytest.fixture(scope="module")
def net():
    return mixed()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("evidence", [{}, EVIDENCE, {"c": "b", "s": False}])
class TestDensities:
    @pytest.fixture
    def post(self, net, name, evidence):
        return net.posterior(name, evidence)

    def integral(self, post, function):
        ends = (0, 4) if post.variable.name == "cells" else (-9, 14)
        cuts = [x for x in range(-9, 15) if ends[0] <= x <= ends[1]]
        nodes, weights = np.polynomial.legendre.leggauss(40)
        total = 0.0
        for low, high in itertools.pairwise(cuts):
            x = (low + high) / 2 + (high - low) / 2 * nodes
            total += (high - low) / 2 * weights @ function(x)
        return total

    def test_moments(self, post):
        assert self.integral(post, post.pdf) == pytest.approx(1, abs=1e-10)
        mean = self.integral(post, lambda x: x * post.pdf(x))
        assert post.mean() == pytest.approx(mean, rel=1e-10)
        variance = self.integral(post, lambda x: (x - mean) ** 2 * post.pdf(x))
        assert post.var() == pytest.approx(variance, rel=1e-10)
        assert post.std() == pytest.approx(math.sqrt(variance), rel=1e-10)
        assert isinstance(post.mean(), float)
        assert isinstance(post.error, float)

    def test_entropy(self, post):
        def integrand(x):
            p = post.pdf(x)
            return -p * np.log(p, where=p > 0, out=np.zeros_like(p))

        assert post.entropy() == pytest.approx(self.integral(post, integrand), abs=1e-8)

    def test_cdf_and_quantiles(self, post):
        levels = np.array([1e-6, 0.01, 0.2, 0.37, 0.5, 0.75, 0.999, 1 - 1e-6])
        x = post.quantile(levels)
        np.testing.assert_allclose(post.cdf(x), levels, rtol=0, atol=1e-12)
        # where the cdf is steep enough that the way back is determined
        inside = x[post.pdf(x) > 1e-3]
        np.testing.assert_allclose(post.quantile(post.cdf(inside)), inside, rtol=0, atol=1e-9)
        assert (np.diff(x) > 0).all()
        assert post.median() == pytest.approx(post.quantile(0.5))
        low, high = post.interval(0.9)
        assert [low, high] == pytest.approx(list(post.quantile([0.05, 0.95])))
        low, high = post.interval(0.98)
        cuts = np.linspace(low, high, 5)
        for a, b in itertools.pairwise(cuts):
            area = integrate.quad(post.pdf, a, b, points=[c for c in (1, 2, 3) if a < c < b] or None)[0]
            assert post.cdf(b) - post.cdf(a) == pytest.approx(area, abs=1e-8)

    def test_mode(self, post):
        mode = post.mode()
        grid = np.linspace(-6, 10, 8001)
        assert post.pdf(mode) >= post.pdf(grid).max() * (1 - 1e-9)

    def test_outside_the_support(self, post):
        finite = post.variable.domain != (-math.inf, math.inf)
        far = [-1e6, 1e6]
        assert post.pdf(far).tolist() == [0, 0]
        assert post.cdf(far).tolist() == [0, 1]
        assert post.cdf([-math.inf, math.inf]).tolist() == [0, 1]
        assert post.pdf([-math.inf, math.inf]).tolist() == [0, 0]
        if finite:
            assert post.log_pdf(far).tolist() == [-math.inf, -math.inf]
            assert post.pdf([-1e-9, 4 + 1e-9]).tolist() == [0, 0]
            assert post.quantile(0) >= 0
            assert post.quantile(1) <= 4
        assert math.isnan(post.pdf(math.nan))
        assert math.isnan(post.cdf(math.nan))

    def test_log_pdf(self, post):
        x = np.linspace(-3, 4, 29)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(post.log_pdf(x), np.log(post.pdf(x)), rtol=1e-12, atol=1e-12)

    def test_bad_levels(self, post):
        for level in (-0.1, 1.1, math.nan):
            with pytest.raises(TableError, match="between 0 and 1"):
                post.quantile(level)
        with pytest.raises(TableError, match="between 0 and 1"):
            post.interval(1.5)
        with pytest.raises(TableError, match="list of points"):
            post.pdf(np.zeros((2, 2)))

    def test_shapes(self, post):
        assert isinstance(post.pdf(1.0), float)
        assert post.pdf([1.0]).shape == (1,)
        assert post.cdf(np.arange(3)).shape == (3,)
        assert post.pdf([]).shape == (0,)
        with pytest.raises(TypeError):
            len(post)
        with pytest.raises(TableError):
            post[0]

    def test_sampling(self, post):
        draws = post.sample(4000, 0)
        assert draws.shape == (4000,)
        u = post.cdf(draws)
        assert stats.kstest(u, "uniform").pvalue > 1e-6
        np.testing.assert_array_equal(draws, post.sample(4000, 0))
        np.testing.assert_allclose(draws[:10], post.sample(10, 0), rtol=1e-14)
        assert isinstance(post.sample(random_state=0), float)
        assert post.pdf(draws).min() > 0

    def test_pickle(self, post):
        copy = pickle.loads(pickle.dumps(post))
        assert copy.mean() == post.mean()
        assert copy.log_evidence == post.log_evidence
        np.testing.assert_array_equal(copy.sample(5, 0), post.sample(5, 0))


@pytest.mark.parametrize("name", NUMBERS)
def test_batches_of_densities(net, name):
    post = net.posterior(name, TABLE)
    assert len(post) == 4
    x = [0.5, 1.0, 2.5]
    assert post.pdf(x).shape == (4, 3)
    assert post.pdf(0.5).shape == (4,)
    assert post.quantile([0.1, 0.9]).shape == (4, 2)
    assert post.interval(0.9).shape == (4, 2)
    assert post.mean().shape == post.mode().shape == post.entropy().shape == post.error.shape == (4,)
    assert post.sample(7, 0).shape == (4, 7)
    assert post.sample(random_state=0).shape == (4,)
    single = [net.posterior(name, {k: v for k, v in row.items() if v is not None}) for row in TABLE.to_dict("records")]
    for row, alone in enumerate(single):
        mine = post[row]
        for method in ("mean", "var", "std", "median", "entropy"):
            assert getattr(mine, method)() == pytest.approx(getattr(alone, method)(), rel=1e-9), method
            assert getattr(post, method)()[row] == pytest.approx(getattr(alone, method)(), rel=1e-9), method
        np.testing.assert_allclose(post.pdf(x)[row], alone.pdf(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(post.cdf(x)[row], alone.cdf(x), atol=1e-12)
        assert alone.pdf(post.mode()[row]) == pytest.approx(alone.pdf(alone.mode()), rel=1e-9)
        assert mine.log_evidence == pytest.approx(alone.log_evidence, abs=1e-12)
    # slices, masks, lists, negative numbers
    np.testing.assert_allclose(post[1:3].mean(), post.mean()[1:3])
    np.testing.assert_allclose(post[[3, 0]].mean(), post.mean()[[3, 0]])
    np.testing.assert_allclose(post[np.array([True, False, False, True])].mean(), post.mean()[[0, 3]])
    assert post[-1].mean() == pytest.approx(post.mean()[-1], rel=1e-14)
    assert len(post[:0]) == 0
    assert post[:0].mean().shape == (0,)
    np.testing.assert_allclose(post[1:][1:].log_evidence, post.log_evidence[2:])
    assert [p.mean() for p in post] == pytest.approx(post.mean().tolist(), rel=1e-14)
    with pytest.raises(IndexError):
        post[4]
    copy = pickle.loads(pickle.dumps(post[1:3]))
    np.testing.assert_array_equal(copy.mean(), post.mean()[1:3])
    np.testing.assert_allclose(copy.log_evidence, post.log_evidence[1:3])
    assert "4 rows" in repr(post)
    assert "mean" in repr(post[0])


def test_soft_evidence_on_the_variable_itself(net):
    """Asked for all at once, a variable with an interval or a likelihood has a posterior too."""
    for name in NUMBERS:
        plain = net.posterior(name, EVIDENCE)
        inside = net.posteriors({**EVIDENCE, name: hb.Interval(0.5, 2.2)})[name]
        mass = plain.cdf(2.2) - plain.cdf(0.5)
        x = np.array([0.7, 0.9, 2.1])
        np.testing.assert_allclose(inside.cdf(x), (plain.cdf(x) - plain.cdf(0.5)) / mass, atol=1e-10)
        np.testing.assert_allclose(inside.pdf(x), plain.pdf(x) / mass, rtol=1e-9, atol=1e-9)
        assert inside.pdf([0.4, 2.3]).tolist() == [0, 0]
        bump = Bump(1.2, 0.5)
        tilted = net.posteriors({**EVIDENCE, name: bump})[name]
        ratio = tilted.pdf(x) / (plain.pdf(x) * bump(x))
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)


@pytest.mark.parametrize("name", NUMBERS)
def test_observed_rows_in_posteriors_of_all(net, name):
    """A column with holes: where the value is known, the posterior is that value."""
    table = pd.DataFrame({name: [0.7, np.nan, 3.5], "c": ["a", None, "b"]})
    found = net.posteriors(table)
    post = found[name]
    alone = net.posterior(name)
    assert post.mean()[1] == pytest.approx(alone.mean(), rel=1e-9)
    assert post.var()[1] == pytest.approx(alone.var(), rel=1e-9)
    np.testing.assert_allclose(post.mean()[[0, 2]], [0.7, 3.5], rtol=1e-9)
    np.testing.assert_allclose(post.var()[[0, 2]], 0, atol=1e-9)
    np.testing.assert_allclose(post.cdf([0.6, 0.8, 3.4, 3.6])[[0, 2]], [[0, 1, 1, 1], [0, 0, 0, 1]], atol=1e-9)
    np.testing.assert_allclose(post.sample(3, 0)[[0, 2]], [[0.7] * 3, [3.5] * 3], rtol=1e-9)
    assert found["c"].probabilities[0] == pytest.approx([1, 0])


# -- discrete -----------------------------------------------------------------------------------------------------


def test_discrete_posteriors(net):
    post = net.posterior("d", {"closed": 1.0})
    p = post.probabilities
    assert p.sum() == pytest.approx(1)
    assert post.states == (1, 2, 5)
    assert post.probability(5) == p[2]
    assert post.mean() == pytest.approx(p @ [1, 2, 5])
    assert post.var() == pytest.approx(p @ np.square([1, 2, 5]) - post.mean() ** 2)
    assert post.std() == pytest.approx(math.sqrt(post.var()))
    assert post.entropy() == pytest.approx(stats.entropy(p))
    assert post.mode() == (1, 2, 5)[p.argmax()]
    assert net.posterior("c", {"closed": 1.0})["a"] == net.posterior("c", {"closed": 1.0}).probability("a")
    draws = post.sample(20_000, 1)
    counts = [(draws == s).sum() for s in (1, 2, 5)]
    assert stats.chisquare(counts, 20_000 * p).pvalue > 1e-6
    assert type(post.sample(random_state=0)) is int
    np.testing.assert_array_equal(post.sample(5, 1), draws[:5])
    copy = pickle.loads(pickle.dumps(post))
    np.testing.assert_array_equal(copy.probabilities, p)
    assert copy.log_evidence == pytest.approx(net.log_evidence({"closed": 1.0}))
    with pytest.raises(HybridBNError):
        post.probability(3)
    with pytest.raises(TableError, match="not numbers"):
        net.posterior("c").mean()


def test_batches_of_discrete_posteriors(net):
    table = pd.DataFrame({"closed": [1.0, None, -2.0]})
    post = net.posterior("c", table)
    assert post.probabilities.shape == (3, 2)
    assert post["a"].shape == (3,)
    np.testing.assert_allclose(post["a"] + post["b"], 1)
    np.testing.assert_array_equal(post[1:]["a"], post["a"][1:])
    assert post.mode().tolist() == [post[i].mode() for i in range(3)]
    assert post.sample(4, 0).shape == (3, 4)
    assert len(post[post["a"] > 0.5]) == (post["a"] > 0.5).sum()
    assert post[0].probabilities.shape == (2,)
    np.testing.assert_allclose(post.log_evidence, net.log_evidence(table))
    assert net.posterior("d", table).mean().shape == (3,)


def test_draws_never_have_probability_zero(net):
    post = net.posterior("d", {"c": "b"})
    assert post.probability(5) == 0
    assert set(post.sample(5000, 0)) == {1, 2}
    assert post.entropy() == pytest.approx(stats.entropy([0.6, 0.4]))


# -- joint --------------------------------------------------------------------------------------------------------


def test_joint_of_numbers():
    net = crops()
    joint = net.posterior(["C", "P"], {"B": False})
    single = net.posteriors({"B": False})
    np.testing.assert_allclose(joint.mean(), [single["C"].mean(), single["P"].mean()], rtol=1e-9)
    np.testing.assert_allclose(np.diag(joint.cov()), [single["C"].var(), single["P"].var()], rtol=1e-9)
    nodes, weights = np.polynomial.legendre.leggauss(80)
    c, p = 5 + 9 * nodes, 7 + 16 * nodes
    grid_c, grid_p = (g.ravel() for g in np.meshgrid(c, p, indexing="ij"))
    density = np.array([float(d) for d in joint.pdf(C=grid_c, P=grid_p)]).reshape(80, 80)
    w = np.outer(9 * weights, 16 * weights)
    assert (w * density).sum() == pytest.approx(1, abs=1e-6)
    cov = (w * density * np.outer(c - joint.mean()[0], p - joint.mean()[1])).sum()
    assert joint.cov()[0, 1] == pytest.approx(cov, abs=1e-6)
    assert joint.marginal("P").mean() == pytest.approx(single["P"].mean(), rel=1e-12)
    assert joint.log_pdf(C=5.0, P=4.0) == pytest.approx(math.log(joint.pdf(C=5.0, P=4.0)))
    assert joint.log_evidence == pytest.approx(net.log_evidence({"B": False}))
    with pytest.raises(TableError, match="continuous"):
        joint.probabilities  # noqa: B018
    draws = joint.sample(5, 0)
    assert list(draws.columns) == ["C", "P"]
    assert len(draws) == 5


def test_joint_of_states_and_numbers(net):
    joint = net.posterior(["c", "nodes"], {"d": 2})
    single = net.posteriors({"d": 2})
    for state in "ab":
        for x in (-1.5, 0.2, 2.0):
            given = net.posterior("nodes", {"d": 2, "c": state}).pdf(x)
            assert joint.pdf(c=state, nodes=x) == pytest.approx(single["c"][state] * given, rel=1e-8)
    assert joint.marginal("c")["a"] == pytest.approx(single["c"]["a"], abs=1e-12)
    np.testing.assert_allclose(joint.mean(), [single["nodes"].mean()], rtol=1e-10)
    with pytest.raises(HybridBNError):
        joint.marginal("d")
    with pytest.raises(HybridBNError):
        joint.pdf(c="a")


def test_joint_of_states_in_a_batch(net):
    joint = net.posterior(["c", "d"], TABLE[["s"]])
    assert joint.probabilities.shape == (4, 2, 3)
    assert len(joint) == 4
    np.testing.assert_allclose(joint.probabilities.sum(axis=(1, 2)), 1)
    np.testing.assert_allclose(joint.probability(c="a", d=2), joint.probabilities[:, 0, 1])
    single = net.posterior(["c", "d"], {"s": True})
    np.testing.assert_allclose(joint.probabilities[0], single.probabilities, atol=1e-12)
    np.testing.assert_allclose(joint.marginal("d").probabilities, joint.probabilities.sum(axis=1), atol=1e-12)
    one_way = net.posterior(["d", "c"], {"s": True})
    np.testing.assert_allclose(one_way.probabilities, single.probabilities.T, atol=1e-14)
    pickle.loads(pickle.dumps(single))


def test_joint_moments_in_a_batch(net):
    joint = net.posterior(["nodes", "closed"], TABLE)
    assert joint.mean().shape == (4, 2)
    assert joint.cov().shape == (4, 2, 2)
    for row, values in enumerate(TABLE.to_dict("records")):
        alone = net.posterior(["nodes", "closed"], {k: v for k, v in values.items() if v is not None})
        np.testing.assert_allclose(joint.mean()[row], alone.mean(), rtol=1e-10)
        np.testing.assert_allclose(joint.cov()[row], alone.cov(), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(joint.mean()[:, 0], net.posterior("nodes", TABLE).mean(), rtol=1e-10)


@pytest.mark.parametrize("name", ["cells", "closed", "nodes"])
def test_plots_of_numbers_show_their_density(net, name):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    posterior = net.posterior(name, {"c": "a"})
    x, y = posterior.plot(figure.add_subplot()).lines[0].get_data()
    np.testing.assert_allclose(y, posterior.pdf(x))
    assert posterior.cdf(x.max()) - posterior.cdf(x.min()) > 0.99


def test_discrete_numbers_have_quantiles():
    k = hb.Discrete("k", (3, 1, 2))
    d = hb.Discrete("d", ("a", "b"))
    net = hb.Network(
        [hb.Multinomial(d, table=[0.5, 0.5]), hb.Multinomial(k, (d,), table=[[0.3, 0.2, 0.5], [0.0, 1.0, 0.0]])]
    )
    post = net.posterior("k", {"d": "a"})
    assert post.median() == 2
    assert post.cdf(1) == pytest.approx(0.2)
    np.testing.assert_allclose(post.cdf([0, 2.5, 3]), [0, 0.7, 1])
    np.testing.assert_array_equal(post.quantile([0, 0.2, 0.21, 0.7, 1]), [1, 1, 2, 2, 3])
    np.testing.assert_array_equal(post.interval(0.9), [1, 3])
    batch = net.posterior("k", pd.DataFrame({"d": ["a", "b"]}))
    np.testing.assert_array_equal(batch.median(), [2, 1])
    np.testing.assert_array_equal(batch.quantile([0.5, 1.0]), [[2, 3], [1, 1]])
    np.testing.assert_allclose(batch.cdf([1, 2]), [[0.2, 0.7], [1.0, 1.0]])
    np.testing.assert_array_equal(batch.interval(), [[1, 3], [1, 1]])
    with pytest.raises(TableError, match="not numbers"):
        net.posterior("d").median()


def test_batches_are_drawn():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    c, x = hb.Discrete("c", ("a", "b")), hb.Continuous("x")
    net = hb.Network(
        [hb.Multinomial(c, table=[0.3, 0.7]), hb.LinearGaussian(x, (c,), intercept=[0, 3], variance=[1, 1])]
    )
    for name, frame in (("c", {"x": [0.0, 1.0, 2.0]}), ("x", {"c": ["a", "b", None]})):
        figure, ax = pyplot.subplots()
        assert net.posterior(name, pd.DataFrame(frame)).plot(ax) is ax
        figure.canvas.draw()
        pyplot.close(figure)
    with pytest.raises(TableError, match=r"posterior\[0\]"):
        net.posterior("c", pd.DataFrame({"x": np.zeros(1000)})).plot()


def test_the_mode_before_a_jump():
    """The density is largest right before a cut point, where it jumps down: no point of the posterior's own grid."""
    x, c = hb.Continuous("x", domain=(-3, 3)), hb.Discrete("c", ("a", "b"))
    pieces = [
        hb.Piece({"x": (-3, 0.3)}, {}, 0.0, [(0.2, {"x": 1.0})]),
        hb.Piece({"x": (0.3, 3)}, {}, 0.24, []),
    ]
    net = hb.Network(
        [hb.MTE(x, (), pieces, normalize=True), hb.Softmax(c, (x,), intercept=[0, 0], coefficients=[[0], [1]])]
    )
    for post in (net.posterior("x"), net.posterior("x", {"c": "a"})):
        mode = post.mode()
        assert mode == pytest.approx(0.3, abs=1e-9)
        assert as_continuous(post).pdf(mode) >= as_continuous(post).pdf(np.linspace(-3, 3, 3001)).max()


@pytest.mark.parametrize("parts", [150, 900])
def test_scores_of_many_parts_are_those_of_all_pairs(parts):
    """Parts that hardly differ are merged, which must not show in the score."""
    rng = np.random.default_rng(parts)
    rows = 5
    weights = rng.dirichlet(np.ones(parts), rows).T
    means, variances = 3 * rng.normal(size=(parts, rows)), np.exp(rng.choice([-2.0, 0.0, 1.0], (parts, rows)))
    weights[:, 3] = np.nan
    weights[: parts // 2, 4], variances[parts // 2 :, 4] = 0.0, 0.0
    weights[:, 4] /= weights[:, 4].sum()
    truth = rng.normal(size=rows)
    posterior = GaussianPosterior(hb.Continuous("x"), weights, means, variances, False, np.zeros(rows), None)
    for row in (0, 1, 2, 4):
        w, m, s = weights[:, row], means[:, row], np.sqrt(variances[:, row])

        def expect_distance(mean, spread):
            scale = np.maximum(spread, 1e-12)
            return mean * (2 * stats.norm.cdf(mean / scale) - 1) + 2 * scale * stats.norm.pdf(mean / scale)

        pairs = w @ expect_distance(m[:, None] - m, np.hypot(s[:, None], s)) @ w
        expected = w @ expect_distance(truth[row] - m, s) - pairs / 2
        assert posterior.crps(truth)[row] == pytest.approx(expected, rel=1e-5)
    assert np.isnan(posterior.crps(truth)[3])


@pytest.mark.parametrize("parts", [1, 3, 40])
@pytest.mark.parametrize("least", [1.0, 1e-2, 1e-4, 1e-7])
def test_entropy_and_mode_of_mixtures_of_unequal_widths(parts, least):
    """Parts may be far narrower than others; their entropy is an integral around each of them."""
    rng = np.random.default_rng(parts)
    shares, means = rng.dirichlet(np.ones(parts)), rng.normal(size=parts)
    deviations = least ** rng.random(parts)
    state, number = hb.Discrete("state", tuple(range(parts))), hb.Continuous("number")
    density = hb.LinearGaussian(number, (state,), intercept=means, variance=deviations**2)
    net = hb.Network([hb.Multinomial(state, table=shares), density])
    edges = np.unique((means[:, None] + deviations[:, None] * np.linspace(-10, 10, 161)).ravel())
    nodes, weights = np.polynomial.legendre.leggauss(16)
    points = edges[:-1, None] + np.diff(edges)[:, None] * (1 + nodes) / 2

    def mix(points):
        return sum(p * stats.norm.pdf(points, m, s) for p, m, s in zip(shares, means, deviations, strict=True))

    logs = np.log(np.maximum(mix(points), 1e-300))
    expected = -float((mix(points) * logs @ weights * np.diff(edges) / 2).sum())
    post = net.posterior("number")
    assert post.entropy() == pytest.approx(expected, abs=1e-9)
    assert mix(post.mode()) == pytest.approx(mix(points).max(), rel=1e-3)


@pytest.mark.parametrize("points", [None, 50.0])
def test_many_parts_are_merged_without_a_change_of_mean_and_variance(points, monkeypatch):
    monkeypatch.setattr(mixtures, "MOST_PARTS", 50)
    rng = np.random.default_rng(0)
    weights, variances, means = *rng.random((2, 5, 40)), rng.normal(size=(5, 40))
    scales = np.array([0.0, 700.0, 701.0, 699.0, 700.0])  # what comes first counts for nothing beside the others
    mixture = mixtures.WeightedMixture(hb.Continuous("x"), sampled=False)
    for part in zip(weights, means, variances, scales, strict=True):
        mixture.add(*part)
    found = mixture.posterior(points)
    weights *= np.exp(scales - 701)[:, None]
    mean = np.average(means, weights=weights)
    assert found.mean() == pytest.approx(mean, rel=1e-9)
    assert found.var() == pytest.approx(np.average(variances + (means - mean) ** 2, weights=weights), rel=1e-9)
    assert np.isnan(mixtures.WeightedMixture(hb.Continuous("x"), sampled=False).posterior().mean()).all()


def make_mte(name: str, parents: tuple[hb.Discrete, ...], shift: float = 0.0) -> hb.MTE:
    """Return a density of two pieces for each state of the parents, of which the first falls and the second is even."""
    variable, pieces = hb.Continuous(name, (0, 6)), []
    for codes in itertools.product(*(parent.states for parent in parents)):
        rate = 0.5 + 0.3 * len(str(codes[0])) + 0.4 * sum(as_kind(int, code) for code in codes[1:]) + shift
        given = {parent.name: state for parent, state in zip(parents, codes, strict=True)}
        pieces.append(hb.Piece({name: (0, 2)}, given, 0.1, [(1.0, {name: -rate})]))
        pieces.append(hb.Piece({name: (2, 6)}, given, 0.1 + 0.02 * len(str(codes[0])), []))
    return hb.MTE(variable, parents, pieces, normalize=True)


@pytest.mark.parametrize(
    "evidence",
    [{}, {"y": 1.2}, {"y": 1.2, "c": "bb"}, {"y": hb.Interval(1, 3)}, {"k": 3}, {"k": 1, "c": "ccc"}],
)
def test_densities_as_mixtures_of_truncated_exponentials(evidence):
    """In closed form, of one and of two discrete parents, and below a child that sees its cells."""
    c, d = hb.Discrete("c", ("a", "bb", "ccc")), hb.Discrete("d", (0, 1))
    x = hb.Continuous("x", (0, 6))
    k = hb.Discrete("k", (1, 2, 3))
    cells = [
        hb.Piece({"x": ends}, {"k": state}, share)
        for ends, shares in (((0, 1), (0.5, 0.2, 0.3)), ((1, 4), (0.1, 0.6, 0.3)), ((4, 6), (0.2, 0.2, 0.6)))
        for state, share in zip(k.states, shares, strict=True)
    ]
    net = hb.Network(
        [
            hb.Multinomial(c, table=[0.2, 0.3, 0.5]),
            hb.Multinomial(d, (c,), table=[[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]]),
            make_mte("x", (c, d)),
            make_mte("y", (c,), 0.2),
            hb.MTE(k, (x,), cells),
        ]
    )
    post = as_continuous(net.posterior("x", evidence))
    closed = post.as_mte()
    assert closed.scope == ("x",)
    assert closed.integral() == pytest.approx(1, rel=1e-9)
    grid = np.linspace(0, 6, 62)[1:-1]
    np.testing.assert_allclose(closed(x=grid), post.pdf(grid), rtol=1e-9)
    # against the joint density, summed over the states and integrated over what is hidden
    weights = np.zeros(len(grid))
    for state, code in itertools.product(c.states, d.states):
        if evidence.get("c", state) != state:
            continue
        tables = [as_kind(hb.Multinomial, net.potential(name)).table for name in "cd"]
        share = tables[0][c.code(state)] * tables[1][c.code(state), as_kind(int, code)]
        y = evidence.get("y")
        if isinstance(y, hb.Interval):
            share *= integrate.quad(lambda v, s=state: net.potential("y")(y=v, c=s), y.low, y.high, points=[2])[0]
        elif y is not None:
            share *= net.potential("y")(y=y, c=state)
        own = net.potential("x")(x=grid, c=state, d=code)
        weights += share * own * (net.potential("k")(k=evidence["k"], x=grid) if "k" in evidence else 1)
    np.testing.assert_allclose(post.pdf(grid) / post.pdf(grid[7]), weights / weights[7], rtol=1e-8)
    assert closed.mean() == pytest.approx(post.mean(), rel=1e-8)
    # what has no closed form is approximated
    within = as_continuous(net.posterior("x", evidence | {"x": hb.Interval(1.5, 4)}))
    inside = np.linspace(1.5, 4, 27)[1:-1]
    np.testing.assert_allclose(within.as_mte(breaks=[2.0])(x=inside), within.pdf(inside), rtol=1e-4)
    alone = hb.Network([hb.LinearGaussian(hb.Continuous("z"), intercept=1, variance=4)]).posterior("z")
    normal = as_continuous(alone).as_mte()
    assert normal.mean() == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(normal(z=np.linspace(-4, 6, 9)), stats.norm.pdf(np.linspace(-4, 6, 9), 1, 2), atol=1e-3)
    with pytest.raises(TableError, match="choose a row"):
        as_continuous(net.posterior("x", pd.DataFrame({"y": [1.0, 2.0]}))).as_mte()


def test_joint_modes_and_entropies_are_those_of_the_table():
    rng = np.random.default_rng(5)
    a, b, c = hb.Discrete("a", ("u", "v")), hb.Discrete("b", (3, 1, 2)), hb.Discrete("c", (False, True))
    tables = rng.dirichlet(np.ones(2)), rng.dirichlet(np.ones(3), 2), rng.dirichlet(np.ones(2), (3, 2))
    net = hb.Network(
        [
            hb.Multinomial(a, table=tables[0]),
            hb.Multinomial(b, (a,), table=tables[1]),
            hb.Multinomial(c, (b, a), table=tables[2]),
        ]
    )
    joint = np.einsum("a,ab,bac->abc", *tables)
    for names, order in ((["b", "a"], "ba"), (["a", "c", "b"], "acb")):
        post = net.posterior(names)
        expected = np.einsum(f"abc->{order}", joint)
        assert post.entropy() == pytest.approx(-(expected * np.log(expected)).sum())
        codes = np.unravel_index(expected.argmax(), expected.shape)
        states = [as_discrete(net.variable(name)).states[code] for name, code in zip(names, codes, strict=True)]
        assert post.mode() == dict(zip(names, states, strict=True))
    rows = pd.DataFrame({"c": [True, False, None]}, dtype=object)
    batch = net.posterior(["b", "a"], rows)
    modes, entropies = batch.mode(), batch.entropy()
    for row, given in enumerate((joint[:, :, 1], joint[:, :, 0], joint.sum(axis=2))):
        share = given.T / given.sum()
        assert entropies[row] == pytest.approx(-(share * np.log(share)).sum())
        b_code, a_code = np.unravel_index(share.argmax(), share.shape)
        assert (modes["b"][row], modes["a"][row]) == (b.states[b_code], a.states[a_code])
        assert batch[row].mode() == {"b": b.states[b_code], "a": a.states[a_code]}
        assert batch[row].entropy() == pytest.approx(entropies[row])
    certain = hb.Network([hb.Multinomial(a, table=[0.0, 1.0]), hb.Multinomial(b, (a,), table=[[1, 0, 0], [0, 0, 1]])])
    assert certain.posterior(["a", "b"]).entropy() == 0
    assert certain.posterior(["a", "b"]).mode() == {"a": "v", "b": 2}


def test_quantiles_of_impossible_rows_are_nan_without_a_warning():
    c, d = hb.Discrete("c", ("a", "b")), hb.Discrete("d", ("a", "b"))
    dose = hb.LinearGaussian(hb.Continuous("dose"), (c,), intercept=[0, 1], variance=[1, 1])
    network = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), hb.Multinomial(d, (c,), table=np.eye(2)), dose])
    rows = pd.DataFrame({"c": ["a", "a", None], "d": ["a", "b", None]})
    found = network.posterior("dose", rows, impossible="nan")
    np.testing.assert_allclose(found.median(), [0, np.nan, 0.5], atol=1e-9)
    np.testing.assert_allclose(found.quantile([0.1, 0.5])[:, 1], [0, np.nan, 0.5], atol=1e-9)


def test_a_parent_at_a_cut_is_in_the_cell_above_it():
    x, y = hb.Continuous("x", (0, 3)), hb.Continuous("y", (0, 2))
    boxes = [((0, 1), 0.2), ((1, 2), 0.7), ((2, 3), 0.4)]
    child = hb.MTE(y, (x,), pieces=[
        hb.Piece({"x": box, "y": side}, constant=share if side == (0, 1) else 1 - share)
        for box, share in boxes for side in ((0, 1), (1, 2))
    ])  # fmt: skip
    net = hb.Network([hb.MTE(x, pieces=[hb.Piece({"x": (0, 3)}, constant=1 / 3)]), child])
    values = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 0.0])
    rows = net.posterior("y", pd.DataFrame({"x": values}))
    np.testing.assert_allclose(rows.cdf(1.0), [0.2, 0.7, 0.7, 0.4, 0.4, 0.2])
    for value, share in zip(values, (0.2, 0.7, 0.7, 0.4, 0.4, 0.2), strict=True):
        posterior = as_continuous(net.posterior("y", {"x": value}))
        assert posterior.cdf(1.0) == pytest.approx(share)
        assert posterior.pdf(0.5) == pytest.approx(float(child(x=value, y=0.5)))
