"""Hybrid networks of the literature with exact answers; those of `tests/data`, and some that stand here."""

from __future__ import annotations

import math

import clg_exact
import numpy as np
import pandas as pd
import pytest
from inference_tools import clg_network, crops, hybrid_case, mte_network
from known_answers import ANSWERS
from narrowing import as_continuous, as_discrete
from scipy import integrate, stats

import hybridbn as hb
from hybridbn.potentials.cases import Case, Cases

FOLDER = ANSWERS / "hybrid"
CLG = ("waste_incinerator", "waste_simplified")
MTES = sorted(p.stem for pattern in ("mte_*.json", "stress_*.json") for p in FOLDER.glob(pattern))
CLOSE = 1e-9


def test_the_cases_are_there():
    assert len(MTES) >= 9
    assert all((FOLDER / f"{name}.json").is_file() for name in (*CLG, "crops"))


def check_honest(post, true: float) -> None:
    assert true <= post.error
    assert post.error <= max(1000 * true, 1e-11)


# -- conditional linear Gaussian ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLG)
def test_clg_cases(name):
    case = hybrid_case(name)
    net = clg_network(case["model"])
    for query in case["queries"]:
        evidence, exact = query["evidence"], query["exact"]
        together = net.posteriors(evidence)
        for node, expected in exact.items():
            if node in evidence:
                continue
            for post in (together[node], net.posterior(node, evidence)):
                if "mean" not in expected:
                    found = dict(zip(as_discrete(post).states, as_discrete(post).probabilities, strict=True))
                    assert found == pytest.approx(expected, abs=CLOSE, rel=1e-12)
                    check_honest(post, max(abs(found[s] - p) for s, p in expected.items()))
                    continue
                assert post.mean() == pytest.approx(expected["mean"], rel=CLOSE)
                assert post.var() == pytest.approx(expected["var"], rel=CLOSE)
                weights, means, variances = np.array(expected["mixture"]).T
                x = expected["mean"] + expected["sd"] * np.linspace(-3, 3, 13)
                cdf = stats.norm.cdf(x[:, None], means, np.sqrt(variances)) @ weights
                pdf = stats.norm.pdf(x[:, None], means, np.sqrt(variances)) @ weights
                np.testing.assert_allclose(post.cdf(x), cdf, rtol=0, atol=CLOSE)
                np.testing.assert_allclose(as_continuous(post).pdf(x), pdf, rtol=CLOSE, atol=CLOSE)
                check_honest(post, float(np.abs(post.cdf(x) - cdf).max()))
        assert net.log_evidence(evidence) == pytest.approx(query["log_evidence_density"], rel=CLOSE, abs=CLOSE)


def test_random_clg_networks_against_enumeration():
    """Enumeration in 50 digits, on random evidence of the incinerator."""
    model = hybrid_case("waste_incinerator")["model"]
    net = clg_network(model)
    rng = np.random.default_rng(3)
    for row in net.sample(4, 3).to_dict("records"):
        evidence = {k: v for k, v in row.items() if rng.random() < 0.4}
        exact, log_evidence = clg_exact.posterior(model, evidence)
        together = net.posteriors(evidence)
        assert net.log_evidence(evidence) == pytest.approx(log_evidence, rel=CLOSE, abs=CLOSE)
        for node, post in together.items():
            if "mean" in exact[node]:
                assert post.mean() == pytest.approx(exact[node]["mean"], rel=CLOSE)
                assert post.var() == pytest.approx(exact[node]["var"], rel=CLOSE)
            else:
                assert [exact[node][s] for s in as_discrete(post).states] == pytest.approx(
                    list(as_discrete(post).probabilities), abs=CLOSE
                )


def test_the_incinerator_as_lauritzen_printed_it():
    """Lauritzen (1992), p. 1105 and 1107; the parameters stand here, so that this runs anywhere."""
    burn, filter_, waste = (
        hb.Discrete("B", ("stable", "unstable")),
        hb.Discrete("F", ("intact", "defect")),
        hb.Discrete("W", ("industrial", "household")),
    )
    e, c, d, light, m_in, m_out = map(hb.Continuous, ("E", "C", "D", "L", "Min", "Mout"))
    net = hb.Network(
        [
            hb.Multinomial(burn, table=[0.85, 0.15]),
            hb.Multinomial(filter_, table=[0.95, 0.05]),
            hb.Multinomial(waste, table=[2 / 7, 5 / 7]),
            hb.LinearGaussian(
                e, (filter_, waste), intercept=[[-3.9, -3.2], [-0.4, -0.5]], variance=[[2e-5, 2e-5], [1e-4, 1e-4]]
            ),
            hb.LinearGaussian(c, (burn,), intercept=[-2, -1], variance=[0.1, 0.3]),
            hb.LinearGaussian(
                d,
                (burn, waste, e),
                intercept=[[6.5, 6.0], [7.5, 7.0]],
                coefficients=np.ones((2, 2, 1)),
                variance=[[0.03, 0.04], [0.1, 0.1]],
            ),
            hb.LinearGaussian(m_in, (waste,), intercept=[0.5, -0.5], variance=[0.01, 0.005]),
            hb.LinearGaussian(m_out, (d, m_in), intercept=0, coefficients=[1, 1], variance=0.002),
            hb.LinearGaussian(light, (d,), intercept=3, coefficients=[-0.5], variance=0.25),
        ]
    )
    prior = net.posteriors()
    means = {"E": -3.25, "D": 3.04, "C": -1.85, "L": 1.48, "Min": -0.214, "Mout": 2.83}
    spreads = {"E": 0.709, "D": 0.77, "C": 0.507, "L": 0.631, "Min": 0.459, "Mout": 0.86}
    for name, mean in means.items():
        assert prior[name].mean() == pytest.approx(mean, abs=0.006)
        assert prior[name].std() == pytest.approx(spreads[name], abs=0.006)
    after = net.posteriors({"W": "industrial", "L": 1.1, "C": -0.9})
    assert after["B"]["stable"] == pytest.approx(0.012252759819409247, abs=1e-12)
    assert after["F"]["intact"] == pytest.approx(0.9995, abs=5e-5)
    assert after["E"].mean() == pytest.approx(-3.8983382137132603, rel=1e-12)
    assert after["E"].std() == pytest.approx(0.07628564528018761, rel=1e-10)
    assert after["D"].mean() == pytest.approx(3.61, abs=0.005)
    assert after["Mout"].mean() == pytest.approx(4.11, abs=0.005)


# -- crops --------------------------------------------------------------------------------------------------------

CROPS = [
    ({}, {"P_B_true": 0.8499136914025476, "P_mean": 12.0, "P_var": 23.0}),
    ({"B": False}, {"P_evidence": 0.15008630859745245, "S_subsidised": 0.9994249402343293, "P_mean": 4.278695501993447,
                    "P_var": 1.5165381810384626, "C_mean": 5.36352754783163, "C_var": 0.8684212334572828}),
    ({"B": True}, {"P_evidence": 0.8499136914025476, "S_subsidised": 0.17648850879489478, "P_mean": 13.363505614023381,
                   "P_var": 14.406576192153127, "C_mean": 4.935804649013836, "C_var": 0.9957776804841597}),
    ({"C": 6, "B": False}, {"P_evidence_given_C": 0.2091627502447442, "S_subsidised": 0.9993194333050571,
                            "P_mean": 3.7509030999326898}),
]  # fmt: skip


def check_crops(evidence, exact):
    net = crops()
    found = net.posteriors(evidence)
    log_evidence = net.log_evidence(evidence)
    for key, value in exact.items():
        if key == "P_B_true":
            got = as_discrete(found["B"]).probability(True)
        elif key == "S_subsidised":
            got = as_discrete(found["S"]).probability(True)
        elif key == "P_evidence":
            got = math.exp(log_evidence)
        elif key == "P_evidence_given_C":
            got = math.exp(log_evidence - stats.norm.logpdf(evidence["C"], 5, 1))
        elif key.endswith("_mean"):
            got = found[key[0]].mean()
        else:
            got = found[key[0]].var()
        assert got == pytest.approx(value, rel=CLOSE), key
    for post in found.values():
        assert post.error < 1e-11


@pytest.mark.parametrize(("evidence", "exact"), CROPS)
def test_crops(evidence, exact):
    check_crops(evidence, exact)


def test_crops_as_shared():
    for query in hybrid_case("crops")["queries"]:
        check_crops(query["evidence"], {k: v for k, v in query.items() if k != "evidence"})


def test_crops_by_one_integral():
    """The price's density is known but for one normalization."""
    net = crops()
    post = net.posterior("P", {"B": True})

    def joint(p):
        return (0.3 * stats.norm.pdf(p, 5, math.sqrt(2)) + 0.7 * stats.norm.pdf(p, 15, math.sqrt(2))) / (
            1 + np.exp(5 - p)
        )

    total = integrate.quad(joint, -10, 40, points=[5, 15], epsabs=1e-13, epsrel=1e-13)[0]
    x = np.linspace(0, 20, 41)
    np.testing.assert_allclose(as_continuous(post).pdf(x), joint(x) / total, rtol=1e-10)
    part = integrate.quad(joint, -10, 12, points=[5], epsabs=1e-13, epsrel=1e-13)[0]
    assert post.cdf(12) == pytest.approx(part / total, abs=1e-12)


# -- mixtures of truncated exponentials ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", MTES)
def test_mte_cases(name):
    case = hybrid_case(name)
    net = mte_network(case)
    discrete = {n for n, v in case["variables"].items() if "states" in v}
    for query in case["queries"]:
        evidence = {n: v if n in discrete else float(v) for n, v in query["evidence"].items()}
        expected = query["expected"]
        for post in (net.posterior(query["target"], evidence), net.posteriors(evidence)[query["target"]]):
            if "p" in expected:
                found = dict(zip(as_discrete(post).states, as_discrete(post).probabilities, strict=True))
                assert found == pytest.approx({s: float(p) for s, p in expected["p"].items()}, abs=CLOSE)
                assert net.log_evidence(evidence) == pytest.approx(
                    float(expected["log_evidence"]), rel=CLOSE, abs=CLOSE
                )
                continue
            assert post.mean() == pytest.approx(float(expected["mean"]), rel=CLOSE)
            assert post.var() == pytest.approx(float(expected["var"]), rel=CLOSE)
            grid, pdf = (np.array(expected[k], float) for k in ("grid", "pdf"))
            np.testing.assert_allclose(as_continuous(post).pdf(grid), pdf, rtol=CLOSE, atol=CLOSE * pdf.max())


def test_an_mte_naive_bayes_by_hand():
    """Two classes, two exponential densities on [0, 1]; all integrals are known."""
    y, x1, x2 = hb.Discrete("y", ("a", "b")), hb.Continuous("x1", (0, 1)), hb.Continuous("x2", (0, 1))

    def exponential(x, rates):
        pieces = [
            hb.Piece({x.name: (0, 1)}, {"y": s}, 0, [(r / math.expm1(r), {x.name: r})])
            for s, r in zip("ab", rates, strict=True)
        ]
        return hb.MTE(x, (y,), pieces)

    net = hb.Network([hb.Multinomial(y, table=[0.25, 0.75]), exponential(x1, (2, -1)), exponential(x2, (0.5, 3))])

    def density(rate, x):
        return rate * math.exp(rate * x) / math.expm1(rate)

    a, b = 0.25 * density(2, 0.8) * density(0.5, 0.1), 0.75 * density(-1, 0.8) * density(3, 0.1)
    assert net.posterior("y", {"x1": 0.8, "x2": 0.1})["a"] == pytest.approx(a / (a + b), rel=1e-13)
    assert net.log_evidence({"x1": 0.8, "x2": 0.1}) == pytest.approx(math.log(a + b), rel=1e-13)
    a, b = 0.25 * math.expm1(1) / math.expm1(2), 0.75 * math.expm1(-0.5) / math.expm1(-1)
    found = net.posterior("y", {"x1": hb.Interval(-math.inf, 0.5)})
    assert found["a"] == pytest.approx(a / (a + b), rel=1e-13)
    # mean of the exponential density with that rate on [0, 1]
    mean = {r: 1 / -math.expm1(-r) - 1 / r for r in (0.5, 3)}
    a, b = 0.25 * density(2, 0.8), 0.75 * density(-1, 0.8)
    expected = (a * mean[0.5] + b * mean[3]) / (a + b)
    assert net.posterior("x2", {"x1": 0.8}).mean() == pytest.approx(expected, rel=1e-12)
    assert net.posterior("x2", {"y": "a", "x1": 0.8}).mean() == pytest.approx(mean[0.5], rel=1e-12)


@pytest.mark.slow
def test_cases_that_are_cut_and_have_other_parents():
    """A range of a cut child with a hidden parent in nodes, in a batch whose cells differ row by row."""
    d, x, y = hb.Discrete("d", ("u", "v")), hb.Continuous("x"), hb.Continuous("y")
    below = hb.LinearGaussian(y, (x,), intercept=0.5, coefficients=[0.7], variance=0.8)
    net = hb.Network(
        [
            hb.Multinomial(d, table=[0.3, 0.7]),
            hb.Kernel(x, points=np.array([-1.0, 0.4, 1.5]), bandwidths=0.6),
            Cases(y, (d, x), [Case(below, low=-0.4, high=1.0), hb.LinearGaussian(y, intercept=0, variance=1)]),
        ]
    )
    limits = [(0.2, math.inf), (-math.inf, 0.5), (-2.0, 0.1)]
    evidence = pd.DataFrame({"y": pd.Series([hb.Interval(*limit) for limit in limits], dtype=object)})
    batch, chances = net.posterior("x", evidence), as_discrete(net.posterior("d", evidence)).probabilities
    for row, (low, high) in enumerate(limits):
        single = net.posterior("x", {"y": hb.Interval(low, high)})
        assert batch[row].mean() == pytest.approx(single.mean(), abs=1e-11)

        def chance(at, low=low, high=high):
            a, b, c, e = (
                stats.norm(0.5 + 0.7 * at, math.sqrt(0.8)).cdf(np.clip(v, -0.4, 1.0)) for v in (low, high, -0.4, 1.0)
            )
            return (b - a) / (e - c) * sum(stats.norm(m, 0.6).pdf(at) for m in (-1.0, 0.4, 1.5)) / 3

        first = 0.3 * integrate.quad(chance, -8, 8, limit=400, epsabs=1e-13)[0]
        second = 0.7 * (stats.norm.cdf(high) - stats.norm.cdf(low))
        assert chances[row, 0] == pytest.approx(first / (first + second), abs=CLOSE)


@pytest.mark.slow
def test_a_cut_far_from_where_the_parent_puts_the_child():
    """Masses inside the cut from 1 down to 1e-600 along one hidden parent; none of them
    may get lost beside the others.
    """
    d, x, y = hb.Discrete("d", ("u", "v")), hb.Continuous("x"), hb.Continuous("y")
    line = hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1.0], variance=0.01)
    net = hb.Network(
        [
            hb.Multinomial(d, table=[0.5, 0.5]),
            hb.LinearGaussian(x, intercept=0, variance=4),
            Cases(y, (d, x), [Case(line, high=0.0), Case(line, low=0.0)]),
        ]
    )

    def exact(low, high, inside):
        def height(at):
            logs = [stats.norm(at, 0.1).logpdf(inside), -stats.norm(at, 0.1).logcdf(0.0)]
            return math.exp(sum(logs) + stats.norm(0, 2).logpdf(at))

        return [
            integrate.quad(lambda at, k=k: at**k * height(at), low, high, points=[0], limit=900, epsabs=1e-14)[0]
            for k in (0, 1)
        ]

    mass, first = exact(-20, 20, -0.05)
    post = net.posterior("x", {"y": -0.05})
    assert post.mean() == pytest.approx(first / mass, abs=CLOSE)
    assert post.log_evidence == pytest.approx(math.log(mass / 2), abs=CLOSE)
    ranged = net.posterior("x", {"y": hb.Interval(-1.0, 0.0), "d": "u"})

    def inside(at):
        line = stats.norm(at, 0.1)
        return -math.expm1(line.logcdf(-1.0) - line.logcdf(0.0)) * stats.norm(0, 2).pdf(at)

    whole, part = (integrate.quad(inside, a, b, points=[-1, 0], limit=900)[0] for a, b in ((-3, 20), (4, 6)))
    assert ranged.cdf(6.0) - ranged.cdf(4.0) == pytest.approx(part / whole, abs=CLOSE)
