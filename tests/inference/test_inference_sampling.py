"""Draws from a network, against the distributions that they should have; fixed seeds, one
in a million each by chance.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import stattests
from inference_tools import brute, crops, network_of, random_discrete, random_hybrid
from narrowing import as_discrete
from scipy import stats

import hybridbn as hb

ALPHA = 1e-6


def pit(u, alpha=ALPHA, bins=20):
    """Values of a cdf at draws should be uniform: Kolmogorov-Smirnov, and chi-square on bins."""
    u = np.asarray(u)
    assert ((u >= 0) & (u <= 1)).all()
    assert stats.kstest(u, "uniform").pvalue >= alpha / 2
    assert stats.chisquare(np.histogram(u, bins, (0, 1))[0]).pvalue >= alpha / 2


def frequencies(counts, p, alpha=ALPHA):
    """Counts of draws against exact probabilities; small expectations pooled, none where the probability is zero."""
    counts, p = np.asarray(counts, float), np.asarray(p, float)
    assert counts[p <= 0].sum() == 0
    order = np.argsort(p)
    expected, counts = counts.sum() * p[order], counts[order]
    few = np.searchsorted(np.cumsum(expected), 5.0) + 1
    expected = np.r_[expected[:few].sum(), expected[few:]]
    counts = np.r_[counts[:few].sum(), counts[few:]]
    if len(expected) > 1:
        assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue >= alpha


def ranks_uniform(ranks, draws, alpha=ALPHA, bins=20):
    """Simulation-based calibration (Talts et al. 2018): ranks in 0..draws should be uniform."""
    assert (draws + 1) % bins == 0
    counts = np.histogram(ranks, bins, (-0.5, draws + 0.5))[0]
    assert stats.chisquare(counts).pvalue >= alpha


def check_marginals(net, frame, evidence):
    for name, post in net.posteriors(evidence).items():
        if hasattr(post, "probabilities"):
            counts = [(frame[name] == s).sum() for s in post.states]
            frequencies(counts, post.probabilities)
        else:
            pit(post.cdf(frame[name].to_numpy()))


def test_prior_draws():
    net = crops()
    frame = net.sample(20_000, 0)
    check_marginals(net, frame, {})
    assert list(frame.columns) == list(net)
    assert frame["B"].dtype == bool
    assert frame["C"].dtype == float
    # P given its parents, by its own residuals
    center = np.where(frame["S"], 10, 20) - frame["C"]
    pit(stats.norm.cdf(frame["P"] - center))


@pytest.mark.parametrize(
    "evidence", [{"B": False}, {"P": 9.0}, {"B": True, "C": hb.Interval(6)}, {"P": hb.Interval(4, 7), "S": True}]
)
def test_conditional_draws(evidence):
    net = crops()
    frame = net.sample(8_000, 1, evidence)
    check_marginals(net, frame, evidence)
    for name, value in evidence.items():
        if isinstance(value, hb.Interval):
            assert frame[name].between(value.low, value.high).all()
        else:
            assert (frame[name] == value).all()


def test_correlations_are_kept():
    """Mean, covariance and third-party conditionals of the draws are those of the joint posterior."""
    net, n = crops(), 20_000
    frame = net.sample(n, 2, {"B": False})
    joint = net.posterior(["C", "P"], {"B": False})
    values = frame[["C", "P"]].to_numpy()
    spread = np.sqrt(np.diag(joint.cov()))
    assert np.abs((values.mean(axis=0) - joint.mean()) / spread).max() < 5 / np.sqrt(n)
    correlation = joint.cov()[0, 1] / spread.prod()
    assert np.corrcoef(values.T)[0, 1] == pytest.approx(correlation, abs=5 / np.sqrt(n))
    # C given P and S is normal, whatever B is
    center = np.where(frame["S"], 10, 20) - frame["P"]
    pit(stats.norm.cdf(frame["C"], (5 + center) / 2, np.sqrt(0.5)))


def test_pairs_of_states():
    """Frequencies of whole configurations of a discrete network, some of them impossible."""
    a, b, c = hb.Discrete("a", (0, 1)), hb.Discrete("b", ("x", "y", "z")), hb.Discrete("c", (0, 1))
    net = hb.Network(
        [
            hb.Multinomial(a, table=[0.3, 0.7]),
            hb.Multinomial(b, (a,), table=[[0.5, 0.5, 0.0], [0.1, 0.0, 0.9]]),
            hb.Multinomial(
                c, (a, b), table=[[[1.0, 0.0], [0.2, 0.8], [0.5, 0.5]], [[0.6, 0.4], [0.5, 0.5], [0.0, 1.0]]]
            ),
        ]
    )
    frame = net.sample(30_000, 3)
    joint = net.posterior(["a", "b", "c"]).probabilities
    counts = [
        ((frame["a"] == i) & (frame["b"] == s) & (frame["c"] == k)).sum() for i in (0, 1) for s in "xyz" for k in (0, 1)
    ]
    frequencies(counts, joint.ravel())
    frame = net.sample(20_000, 4, {"c": 1})
    joint = net.posterior(["a", "b"], {"c": 1}).probabilities
    counts = [((frame["a"] == i) & (frame["b"] == s)).sum() for i in (0, 1) for s in "xyz"]
    frequencies(counts, joint.ravel())
    frame = net.sample(20_000, 5, {"b": {"x", "y"}, "c": {0: 0.1, 1: 0.9}})
    assert set(frame["b"]) <= {"x", "y"}
    frequencies(
        [(frame["a"] == i).sum() for i in (0, 1)],
        as_discrete(net.posterior("a", {"b": {"x", "y"}, "c": {0: 0.1, 1: 0.9}})).probabilities,
    )


@pytest.mark.parametrize("seed", [1, 3, 4, 6, 13])
def test_random_hybrid_networks(seed):
    """Every family, drawn from the prior: each variable has its marginal."""
    rng = np.random.default_rng(seed)
    specs = random_hybrid(rng, 5)
    net = network_of(specs)
    frame = net.sample(4000, seed)
    check_marginals(net, frame, {})
    # and each has its conditional: the log density of the rows is what the plain functions say
    rows = frame.head(50)
    expected = [
        sum(np.log(specs[n].function(row[n], **{p: row[p] for p in specs[n].parents})) for n in specs)
        for row in rows.to_dict("records")
    ]
    np.testing.assert_allclose(net.log_density(rows), expected, rtol=1e-9, atol=1e-9)


def test_reproducible_and_the_same_for_larger_samples():
    net = crops()
    for evidence in (None, {"B": False}, {"P": 8.0}):
        small = net.sample(40, 7, evidence)
        pd.testing.assert_frame_equal(small, net.sample(40, 7, evidence))
        pd.testing.assert_frame_equal(small, net.sample(300, 7, evidence).head(40), rtol=1e-9)
        assert not small.equals(net.sample(40, 8, evidence))


def test_the_same_for_any_size_of_chunk(monkeypatch):
    elimination = pytest.importorskip("hybridbn.inference.engines.elimination")
    net = crops()
    whole = net.sample(500, 9, {"B": False})
    monkeypatch.setattr(elimination, "CHUNK_BYTES", 1)
    monkeypatch.setattr(elimination, "MOST_ROWS", 64)
    parts = net.sample(500, 9, {"B": False})
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-9)


def test_tables_of_evidence():
    net = crops()
    table = pd.DataFrame({"B": [True, False, None], "P": [None, None, 6.0]})
    frame = net.sample(1500, 10, table)
    assert len(frame) == 4500
    blocks = [frame.iloc[i * 1500 : (i + 1) * 1500].reset_index(drop=True) for i in range(3)]
    check_marginals(net, blocks[0], {"B": True})
    check_marginals(net, blocks[1], {"B": False})
    check_marginals(net, blocks[2], {"P": 6.0})
    assert (blocks[2]["P"] == 6.0).all()
    assert len(net.sample(2, 0, table.head(0))) == 0
    assert len(net.sample(0, 0)) == 0


def test_a_generator_is_a_random_state():
    net = crops()
    rng = np.random.default_rng(5)
    first, second = net.sample(3, rng), net.sample(3, rng)
    assert not first.equals(second)
    pd.testing.assert_frame_equal(first, net.sample(3, np.random.default_rng(5)))


def test_simulation_based_calibration():
    """Parameters from the prior, data given them, then posterior draws: the rank of the truth is uniform."""
    net, draws, repeats = crops(), 39, 400
    truth = net.sample(repeats, 11)
    # the log-likelihood's rank sees errors of the joint that no single variable shows
    for given, hidden in ((["B"], ["C", "P"]), (["P"], ["C"])):
        frame = net.sample(draws, 12, truth[given])
        for name in hidden:
            drawn = frame[name].to_numpy().reshape(repeats, draws)
            ranks_uniform((drawn < truth[name].to_numpy()[:, None]).sum(axis=1), draws)
        full = net.log_density(frame).reshape(repeats, draws)
        mine = net.log_density(truth)
        ranks_uniform((full < mine[:, None]).sum(axis=1), draws)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_calibration_of_random_hybrid_networks(seed):
    """By the protocols of `stattests`: hidden numbers and the log-likelihood's rank in random networks."""
    rng = np.random.default_rng(1000 + seed)
    specs = random_hybrid(rng, 4)
    net = network_of(specs)
    draws, repeats = 39, 300
    truth = net.sample(repeats, seed)
    given = [n for n in specs if rng.random() < 0.5][:2] or [list(specs)[-1]]
    frame = net.sample(draws, seed + 1, truth[given])
    for name, spec in specs.items():
        if name in given or spec.discrete:
            continue
        drawn = frame[name].to_numpy().reshape(repeats, draws)
        ok, detail = stattests.sbc((drawn < truth[name].to_numpy()[:, None]).sum(axis=1), draws)
        assert ok, (name, detail)
    full, mine = net.log_density(frame).reshape(repeats, draws), net.log_density(truth)
    # equal densities (discrete networks) take a random rank among themselves
    below = (full < mine[:, None] - 1e-12).sum(axis=1)
    equal = (np.abs(full - mine[:, None]) <= 1e-12).sum(axis=1)
    ok, detail = stattests.sbc(below + rng.integers(0, equal + 1), draws)
    assert ok, detail


def chain(length: int, states: int = 3, seed: int = 0) -> hb.Network:
    rng = np.random.default_rng(seed)
    variables = [hb.Discrete(f"v{i}", tuple("abcd"[:states])) for i in range(length)]
    potentials = [hb.Multinomial(variables[0], table=rng.dirichlet(np.ones(states)))]
    for above, child in itertools.pairwise(variables):
        potentials.append(hb.Multinomial(child, (above,), table=rng.dirichlet(np.ones(states), states)))
    return hb.Network(potentials)


def test_draws_given_the_end_of_a_chain_take_one_elimination(monkeypatch):
    """However long the chain is: nothing is solved variable by variable."""
    sampling = pytest.importorskip("hybridbn.inference.sampling")
    solved = []
    for name in ("solve", "infer_posteriors"):
        ask = getattr(sampling, name)

        def noted(*given, f=ask, **k):
            solved.append(1)
            return f(*given, **k)

        monkeypatch.setattr(sampling, name, noted)
    for length in (20, 80):
        solved.clear()
        net = chain(length)
        frame = net.sample(4000, 3, {f"v{length - 1}": "a"})
        assert len(solved) == 1
        check_marginals(net, frame, {f"v{length - 1}": "a"})
        assert (frame[f"v{length - 1}"] == "a").all()


@pytest.mark.parametrize("seed", range(4))
def test_joint_frequencies_given_evidence_of_all_kinds(seed):
    rng = np.random.default_rng(seed)
    net = random_discrete(rng, 5)
    last = list(net)[-1]
    states = as_discrete(net.variable(last)).states
    cells = [{state: float(rng.random() + 0.1) for state in states}, states[0], None]
    table = pd.DataFrame({last: cells}, dtype=object)
    n = 6000
    frame = net.sample(n, seed, table)
    for row, cell in enumerate(cells):
        names, total = brute(net, {} if cell is None else {last: cell})
        part = frame.iloc[row * n : (row + 1) * n]
        codes = [[as_discrete(net.variable(name)).code(state) for state in part[name]] for name in names]
        counts = np.zeros(total.shape)
        np.add.at(counts, tuple(codes), 1)
        frequencies(counts.ravel(), total.ravel() / total.sum())


def test_impossible_rows_of_a_table_are_named():
    a, b = hb.Discrete("a", (0, 1)), hb.Discrete("b", (0, 1))
    net = hb.Network([hb.Multinomial(a, table=[1.0, 0.0]), hb.Multinomial(b, (a,), table=[[1.0, 0.0], [0.5, 0.5]])])
    with pytest.raises(hb.errors.ImpossibleEvidence) as raised:
        net.sample(3, 0, pd.DataFrame({"b": [0, 1, 0, 1]}))
    assert raised.value.rows == (1, 3)


def test_many_numbers_are_drawn_from_the_middle():
    sampling = pytest.importorskip("hybridbn.inference.sampling")
    names = [f"x{i}" for i in range(15)]
    order = sampling._halve_repeatedly(names)
    assert sorted(order) == sorted(names)
    assert order[:3] == ["x7", "x3", "x11"]
    assert sampling._halve_repeatedly(names[:5]) == names[:5]
