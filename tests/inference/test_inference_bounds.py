"""Bounds: what is too wide is sampled, and told with intervals that hold."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, known
from test_inference_slices import make_grid, make_mixed

import hybridbn as hb
from hybridbn.inference.elimination.ordering import choose_cut, find_order
from hybridbn.inference.engines import bounds
from hybridbn.inference.proposals import LogTable, bound_from_above, bound_within

BOUND = hb.Options(max_bytes=500, beyond="bound", seconds=0.2)


@pytest.fixture(autouse=True)
def _expect_warnings():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(estimate|effective sample)")
        yield


@st.composite
def products(draw):
    """Return log tables over a few names, some cells zero, and the sizes of the names."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = {name: int(rng.integers(1, 4)) for name in "abcdef"}
    tables = []
    for _ in range(draw(st.integers(1, 9))):
        names = tuple(rng.choice(list(sizes), rng.integers(1, 4), replace=False))
        values = rng.gamma(0.5, size=[sizes[name] for name in names]) * (rng.random([sizes[n] for n in names]) > 0.15)
        with np.errstate(divide="ignore"):
            tables.append(LogTable(names, np.log(values)))
    return tables, sizes


def multiply(tables, sizes):
    names = tuple(sizes)
    total = np.zeros([sizes[name] for name in names])
    for table in tables:
        turned = table.logs.transpose(sorted(range(len(table.names)), key=lambda i: names.index(table.names[i])))
        dims = iter(turned.shape)
        total = total + turned.reshape([next(dims) if name in table.names else 1 for name in names])
    return np.exp(total)


@settings(max_examples=40, deadline=None)
@given(products(), st.integers(1, 40), st.integers(0, 6))
def test_mini_buckets_bound_the_sum_and_every_weight(case, most_cells, count):
    tables, sizes = case
    names = list(sizes)
    order, drawn = names[count:], names[:count]
    product = multiply(tables, sizes)
    proposal = bound_from_above(tables, sizes, order, drawn, most_cells)
    with np.errstate(divide="ignore"):
        assert np.log(product.sum()) <= proposal.log_bound + 1e-9
        exact = bound_from_above(tables, sizes, order, drawn, 1e9)
        np.testing.assert_allclose(np.exp(exact.log_bound), product.sum(), rtol=1e-9, atol=1e-300)
        codes, log_probability = proposal.draw(50, np.random.default_rng(0))
        mass = product.sum(axis=tuple(range(count, len(names))))
        weights = np.log(mass[tuple(codes[name] for name in drawn)]) - log_probability
    assert (weights <= proposal.log_bound + 1e-9).all()


def test_draws_have_the_probabilities_that_they_report():
    rng = np.random.default_rng(0)
    tables = [LogTable(names, np.log(rng.gamma(1, size=(2, 3)))) for names in (("a", "b"), ("c", "b"), ("a", "d"))]
    proposal = bound_from_above(tables, {"a": 2, "b": 3, "c": 2, "d": 3}, ["d"], ["a", "b", "c"], 6)
    codes, log_probability = proposal.draw(40_000, rng)
    numbers = np.ravel_multi_index([codes[name] for name in "abc"], (2, 3, 2))
    for number in np.unique(numbers):
        share = np.exp(log_probability[numbers == number])
        assert np.ptp(share) < 1e-12
        assert abs((numbers == number).mean() - share[0]) < 5 * np.sqrt(share[0] / 40_000)


def test_intervals_hold_the_exact_probabilities():
    inside, widths = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        net = make_grid(rng, 4, zeros=0.1 * (seed % 2))
        evidence = net.sample(1, random_state=seed)[["g33", "g12"]].iloc[0].to_dict()
        targets = [name for name in net if name not in evidence]
        exact, sampled = net.posteriors(evidence, targets), net.posteriors(evidence, targets, options=BOUND)
        for name in targets:
            low, high = sampled[name].bounds
            probabilities = exact[name].probabilities
            assert sampled[name].confidence == 0.95
            assert exact[name].confidence == 1.0
            assert (low <= sampled[name].probabilities + 1e-12).all()
            assert (sampled[name].probabilities <= high + 1e-12).all()
            inside.append(((low <= probabilities) & (probabilities <= high)).all())
            widths.append((high - low).max())
            assert sum(sampled[name].probabilities) == pytest.approx(1)
    assert np.mean(inside) >= 0.95
    assert np.mean(widths) < 0.35


def test_rows_have_bounds_of_their_own_and_can_be_selected():
    net = make_grid(np.random.default_rng(5), 4)
    table = pd.DataFrame({"g33": [0, 1, 0], "g00": [None, 1, None]})
    posterior = net.posterior("g22", table, options=BOUND)
    low, high = posterior.bounds
    assert low.shape == high.shape == posterior.probabilities.shape
    assert (posterior[1].bounds[0] == low[1]).all()
    assert (posterior[1:].bounds[1] == high[1:]).all()
    assert (low[0] == low[2]).all()
    exact = net.posterior("g22", table).probabilities
    assert ((low <= exact) & (exact <= high)).all()


def test_the_same_question_has_the_same_answer():
    net = make_grid(np.random.default_rng(6), 4)
    answers = [net.posterior("g22", {"g33": 1}, options=BOUND).probabilities for _ in range(2)]
    assert (answers[0] == answers[1]).all()


def test_what_fits_is_exact_with_the_option_too():
    net = make_grid(np.random.default_rng(7), 4)
    posterior = net.posterior("g22", {"g33": 1}, options=hb.Options(beyond="bound"))
    assert posterior.confidence == 1.0
    np.testing.assert_allclose(posterior.bounds, [posterior.probabilities] * 2, atol=1e-11)


def ask_one(net, evidence, targets):
    return {name: net.posterior(name, evidence, options=BOUND) for name in targets}


def ask_together(net, evidence, targets):
    return net.posteriors(evidence, targets, options=BOUND)


def ask_table(net, evidence, targets):
    answers = net.posteriors(pd.DataFrame([evidence] * 2), targets, options=BOUND)
    return {name: answer[1:][0] for name, answer in answers.items()}


def ask_scan(net, evidence, targets):
    table = hb.scan(pd.DataFrame([evidence]))
    return {name: net.posterior(name, table, options=BOUND)[0] for name in targets}


def ask_exactly(net, evidence, targets):
    return net.posteriors(evidence, targets)


def ask_slices(net, evidence, targets):
    return net.posteriors(evidence, targets, options=hb.Options(max_bytes=5000, beyond="slice"))


@pytest.mark.parametrize("ask", [ask_exactly, ask_slices, ask_one, ask_together, ask_table, ask_scan])
@pytest.mark.parametrize("seed", [22])
def test_the_error_covers_the_truth_however_one_asks(ask, seed):
    net = make_grid(np.random.default_rng(seed), 4)
    evidence = {name: int(value) for name, value in net.sample(1, random_state=seed)[["g33", "g12"]].iloc[0].items()}
    targets = ["g00", "g32"]
    for name, answer in ask(net, evidence, targets).items():
        off = np.abs(answer.probabilities - enumerate_grid(net, evidence, name)).max()
        assert off <= answer.error
        assert answer.error < (1 if ask.__name__ not in ("ask_exactly", "ask_slices") else 1e-11)
        low, high = answer.bounds
        assert answer.error >= (high - low).max() / 2 - 1e-11


def enumerate_grid(net, evidence, target):
    """Return the probabilities of a target by one sum over the whole joint table."""
    numbers = {name: number for number, name in enumerate(net)}
    operands = []
    for name in net:
        potential = net.potential(name)
        operands += [potential.table, [numbers[parent.name] for parent in potential.parents] + [numbers[name]]]
    for name, value in evidence.items():
        operands += [np.eye(len(net.variable(name)))[net.variable(name).code(value)], [numbers[name]]]
    mass = np.einsum(*operands, [numbers[target]], optimize="greedy")
    return mass / mass.sum()


def test_what_is_sampled_without_bounds_has_no_error():
    net = make_mixed(np.random.default_rng(9), 4)
    evidence = {"x1": 0.3, "x2": 0.1}
    for target in ("x3", ["g00", "g11"], ["g00", "x3"]):
        assert np.isnan(net.posterior(target, evidence, options=BOUND).error)
    assert np.isnan(net.posterior("x3", pd.DataFrame([evidence]), options=BOUND).error).all()


def test_log_probabilities_are_marked_as_estimates():
    net = make_grid(np.random.default_rng(8), 4)
    with pytest.warns(UserWarning, match="log probability of the evidence is an estimate: it lies between"):
        value = net.log_evidence({"g33": 1}, options=BOUND)
    assert value == pytest.approx(net.log_evidence({"g33": 1}), abs=0.1)


def test_mixed_networks_are_sampled_and_marked():
    net = make_mixed(np.random.default_rng(9), 4)
    evidence = {"x1": 0.3, "x2": 0.1}
    exact = net.posterior("g00", evidence).probabilities
    low, high = net.posterior("g00", evidence, options=BOUND).bounds
    assert ((low <= exact) & (exact <= high)).all()
    with pytest.warns(UserWarning, match="estimates without bounds"):
        sampled = net.posterior("x3", evidence, options=BOUND)
    assert sampled.mean() == pytest.approx(net.posterior("x3", evidence).mean(), abs=0.3)


def weigh_by_likelihood(net, evidence, count):
    """Return the means of indicators and numbers over draws weighted by their likelihood, and the effective sample."""
    rng, logs = np.random.default_rng(0), np.zeros(count)
    drawn: dict[str, np.ndarray] = {}
    for name in net:
        potential, variable = net.potential(name), net.variable(name)
        given = {parent.name: drawn[parent.name] for parent in potential.parents}
        if name in evidence:
            value = variable.code(evidence[name]) if isinstance(variable, hb.Discrete) else evidence[name]
            drawn[name] = np.full(count, value)
            logs += potential.log_on({n: v[None] for n, v in {**given, name: drawn[name]}.items()}).reshape(count)
        else:
            drawn[name] = potential.ppf(rng.random(count), given)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    means = {
        name: np.bincount(values, weights) if isinstance(net.variable(name), hb.Discrete) else weights @ values
        for name, values in drawn.items()
    }
    return means, 1 / (weights @ weights)


@pytest.mark.slow
def test_networks_whose_factors_have_no_tables_are_sampled_whole():
    """Discrete variables have four continuous parents each: not even two such factors together fit."""
    rng = np.random.default_rng(12)
    roots = [hb.Continuous(f"x{i}") for i in range(5)]
    potentials: list[hb.Potential] = [
        hb.LinearGaussian(x, intercept=rng.normal(), variance=rng.uniform(0.5, 2)) for x in roots
    ]
    for i in range(4):
        c = hb.Discrete(f"c{i}", (0, 1, 2))
        above = [x for j, x in enumerate(roots) if j != i]
        potentials.append(hb.Softmax(c, above, intercept=rng.normal(size=3), coefficients=rng.normal(size=(3, 4))))
        y = hb.Continuous(f"y{i}")
        potentials.append(
            hb.LinearGaussian(
                y,
                (c, roots[i]),
                intercept=rng.normal(size=3),
                coefficients=np.ones((3, 1)),
                variance=rng.uniform(0.5, 1, 3),
            )
        )
    net = hb.Network(potentials)
    evidence = {"y0": 0.3, "y1": -1.0, "c3": 2}
    with pytest.raises(hb.TooWide, match="beyond='bound'"):
        net.posterior("c0", evidence)
    answer = net.posteriors(evidence, beyond="bound", seconds=1)
    means, effective = weigh_by_likelihood(net, evidence, 200_000)
    assert effective > 10_000
    for name in answer:
        if isinstance(net.variable(name), hb.Discrete):
            slack = 3 * np.sqrt(means[name] * (1 - means[name]) / effective)
            for low, high in (as_discrete(answer[name]).bounds, as_discrete(answer[name]).asymptotic_bounds):
                assert ((low - slack <= means[name]) & (means[name] <= high + slack)).all()
            assert (high - low).max() < 0.05
        else:
            assert answer[name].mean() == pytest.approx(means[name], abs=0.05 * answer[name].std())


def test_wide_bounds_stay_and_asymptotic_ones_stand_beside_them(monkeypatch):
    net = make_grid(np.random.default_rng(5), 4)
    table = pd.DataFrame({"g33": [1, 0]})
    monkeypatch.setattr(bounds, "LOOSE", np.inf)
    certain = net.posterior("g22", table, options=BOUND)
    np.testing.assert_array_equal(certain.asymptotic_bounds, certain.bounds)
    monkeypatch.setattr(bounds, "LOOSE", 0.0)
    with pytest.warns(UserWarning, match=r"bounds are wide.*asymptotic_bounds"):
        posterior = net.posterior("g22", {"g33": 1}, options=BOUND)
    exact = net.posterior("g22", {"g33": 1})
    low, high = posterior.asymptotic_bounds
    assert ((low <= exact.probabilities) & (exact.probabilities <= high) & (high - low < 0.1)).all()
    np.testing.assert_array_equal(posterior.bounds, [limits[0] for limits in certain.bounds])
    np.testing.assert_array_equal(exact.asymptotic_bounds, exact.bounds)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_intervals_cover_over_seeds(monkeypatch, number):
    """Those that hold for any number of draws always, the asymptotic ones in 95 % of the seeds, for each variable."""
    net = [make_grid(np.random.default_rng(20), 4), make_grid(np.random.default_rng(21), 5, zeros=0.2)][number % 2]
    if number == 2:
        net = make_mixed(np.random.default_rng(22), 4)
    evidence = {"x1": 0.3, "g12": 0} if number == 2 else {"g33": 1, "g12": 0}
    targets = [name for name in net if name not in evidence and isinstance(net.variable(name), hb.Discrete)]
    exact = net.posteriors(evidence, targets)
    value = exact[targets[0]].log_evidence
    monkeypatch.setattr(bounds, "LOOSE", 0.0)
    asymptotic: list[bool] = []
    certain: list[bool] = []
    for seed in range(20):
        monkeypatch.setattr(bounds, "_SEED", seed)
        sampled = net.posteriors(evidence, targets, options=BOUND)
        for name in targets:
            true = exact[name].probabilities
            for kept, (low, high) in ((asymptotic, sampled[name].asymptotic_bounds), (certain, sampled[name].bounds)):
                kept.append(((low - 1e-9 <= true) & (true <= high + 1e-9)).all())
        low, high = sampled[targets[0]].log_evidence_bounds
        assert low <= value <= high
    assert np.mean(certain) >= 0.99
    assert np.mean(asymptotic) >= 0.95


def test_the_log_probability_of_the_evidence_has_bounds():
    net = make_grid(np.random.default_rng(8), 4)
    table = pd.DataFrame({"g33": [0, 1, 0], "g00": [None, 1, None]})
    exact, sampled = (net.posterior("g22", table, options=options) for options in (None, BOUND))
    low, high = sampled.log_evidence_bounds
    assert ((low <= exact.log_evidence) & (exact.log_evidence <= high) & (high - low < 4.2)).all()
    assert ((low <= sampled.log_evidence) & (sampled.log_evidence <= high)).all()
    np.testing.assert_array_equal(exact.log_evidence_bounds, [exact.log_evidence] * 2)
    one = net.posterior("g22", {"g33": 1, "g00": 1}, options=BOUND)
    assert one.log_evidence_bounds == (low[1], high[1]) == sampled[1].log_evidence_bounds


def test_a_small_effective_sample_is_said(monkeypatch):
    monkeypatch.setattr(bounds, "FEW_EFFECTIVE", 1e9)
    net = make_grid(np.random.default_rng(10), 4)
    with pytest.warns(UserWarning, match=r"effective sample has the size \d+.* look at their bounds"):
        net.posterior("g00", {"g33": 1}, options=BOUND)


def test_the_error_offers_both_ways_with_what_they_cost():
    net = make_grid(np.random.default_rng(11), 4)
    with pytest.raises(hb.TooWide, match=r"beyond='slice' \(exact.*a row.*MiB.*beyond='bound' \(sampled.*draws.*MiB"):
        net.posteriors({"g33": 1}, max_bytes=700)


def test_draws_where_bounds_are_asked_for_have_the_joint_distribution():
    net = make_grid(np.random.default_rng(13), 4)
    evidence = {"g33": 1, "g12": 0}
    drawn = net.sample(4000, random_state=0, evidence=evidence, options=BOUND)
    assert (drawn["g33"] == 1).all()
    exact = net.posterior(["g00", "g22"], evidence).probabilities
    shares = np.histogram2d(drawn["g00"], drawn["g22"], bins=[range(len(axis) + 1) for axis in (exact, exact.T)])[0]
    np.testing.assert_allclose(shares / len(drawn), exact, atol=0.05)


def test_expectation_maximization_with_bounds():
    net = make_grid(np.random.default_rng(14), 3)
    table = net.sample(20, random_state=0)
    table.loc[:1, ["g00", "g01", "g11", "g12", "g21"]] = None
    table = table.astype("category")
    few = hb.Options(max_bytes=100, beyond="bound", seconds=0.05)
    learned = [hb.expectation_maximization(net, table, options=o, tolerance=0.5) for o in (None, few)]
    assert learned[1].history[-1] == pytest.approx(learned[0].history[-1], abs=0.5)
    assert learned[1].history[-1] != learned[0].history[-1]


def test_mini_buckets_keep_to_the_memory():
    rng = np.random.default_rng(0)
    names = [f"v{i}" for i in range(12)]
    tables = [LogTable((a, b), rng.normal(size=(2, 2))) for i, a in enumerate(names) for b in names[:i]]
    sizes = dict.fromkeys(names, 2)
    wide = bound_within(tables, sizes, [], names, 1024, (), 1e9)
    narrow = bound_within(tables, sizes, [], names, 1024, (), 1500)
    held = [sum(part.table.logs.size for _, parts in p.buckets for part in parts) for p in (wide, narrow)]
    assert held[1] < 1500 < held[0]
    assert wide.log_bound <= narrow.log_bound


def test_mini_buckets_keep_to_the_work():
    rng = np.random.default_rng(0)
    names = [f"v{i}" for i in range(12)]
    tables = [LogTable((a, b), rng.normal(size=(2, 2))) for i, a in enumerate(names) for b in names[:i]]
    sizes = dict.fromkeys(names, 2)
    free, limited = (bound_from_above(tables, sizes, [], names, 1024, most_work=work) for work in (1e9, 1200))
    work = [sum(part.table.logs.size for _, parts in p.buckets for part in parts) for p in (free, limited)]
    # tables that come from earlier mini-buckets may be larger than the share of a variable
    assert work[1] < 1.5 * 1200 < work[0]
    exact = bound_from_above(tables, sizes, [], names, 1e9).log_bound
    assert exact - 1e-9 <= free.log_bound <= limited.log_bound


def test_cuts_that_certainly_give_too_many_slices_are_not_searched_for():
    names = [f"v{i}" for i in range(40)]
    scopes, sizes = [(a, b) for i, a in enumerate(names) for b in names[:i]], dict.fromkeys(names, 2)
    order = find_order(scopes, sizes, ())
    cut = choose_cut(scopes, sizes, names, 16, order)
    assert cut is not None
    assert (len(cut.names), cut.slices) == (36, 2.0**36)
    assert cut.order.largest == pytest.approx(16)
    assert choose_cut(scopes, sizes, names, 16, order, most_slices=2**35) is None


def record_draws(monkeypatch):
    """Let few draws be enough, and return a list to which each answer adds how many it took."""
    counts, solution = [], bounds.SampleSums.solution
    monkeypatch.setattr(bounds, "FEWEST", 16)

    def noted(sums, *given):
        counts.append(sums.draws)
        return solution(sums, *given)

    monkeypatch.setattr(bounds.SampleSums, "solution", noted)
    return counts


def test_draws_stop_when_the_time_is_over(monkeypatch):
    net, counts = make_grid(np.random.default_rng(5), 4), record_draws(monkeypatch)
    net.posterior("g22", {"g33": 1}, options=BOUND)
    ticks = iter(range(1000))
    monkeypatch.setattr(time, "process_time", lambda: 1e6 + next(ticks))
    net.posterior("g22", {"g33": 1}, options=BOUND)
    # the first chunk is all that there is
    assert counts[1] < counts[0] / 2


def test_cuts_go_on_until_all_tables_together_are_small():
    scopes = [(f"a{i}", f"b{i}") for i in range(6)]
    sizes = {name: 4 for scope in scopes for name in scope}
    order = find_order(scopes, sizes, ())
    assert known(choose_cut(scopes, sizes, set(sizes), 16, order)).names == ()
    cut = choose_cut(scopes, sizes, set(sizes), 16, order, most_total=60)
    assert len(known(cut).names) >= 4
    assert known(cut).order.total <= 60


def test_draws_stop_when_the_wanted_error_is_reached(monkeypatch):
    net, counts = make_grid(np.random.default_rng(5), 4), record_draws(monkeypatch)
    exact = net.posterior("g22", {"g33": 1}).probabilities
    long = hb.Options(max_bytes=700, beyond="bound", seconds=2)
    for tolerance in (0.2, 0.06):
        posterior = net.posterior("g22", {"g33": 1}, options=long, tolerance=tolerance)
        low, high = posterior.bounds
        assert ((low <= exact) & (exact <= high)).all()
        assert max((high - posterior.probabilities).max(), (posterior.probabilities - low).max()) <= tolerance
    assert counts[0] < counts[1]


def test_tables_know_states_that_are_drawn_from_potentials(monkeypatch):
    """d has no table, because of x, and is drawn for y; g is drawn from the table that it has with d."""
    rng = np.random.default_rng(0)
    x, y = hb.Continuous("x"), hb.Continuous("y")
    d, k, g, h = (hb.Discrete(name, (0, 1)) for name in "dkgh")
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0.0, variance=1.0),
            hb.Softmax(d, (x,), intercept=[0.0, 0.5], coefficients=[[0.0], [1.0]]),
            hb.LinearGaussian(y, (d,), intercept=[0.0, 1.0], variance=[1.0, 2.0]),
            hb.Softmax(k, (y,), intercept=[0.0, 0.5], coefficients=[[0.0], [1.0]]),
            hb.Multinomial(g, (d,), table=rng.dirichlet(np.ones(2), size=2)),
            hb.Multinomial(h, (g, d), table=rng.dirichlet(np.ones(2), size=(2, 2))),
        ]
    )
    evidence = {"h": 1, "k": 0}
    exact = as_discrete(net.posterior("d", evidence)).probabilities
    monkeypatch.setattr(bounds, "CELLS_PER_DRAW", 1)
    low, high = as_discrete(net.posterior("d", evidence, max_bytes=3000, beyond="bound", seconds=0.2)).bounds
    assert ((low <= exact) & (exact <= high) & (high - low < 0.2)).all()


def test_linear_gaussian_components_take_time_too():
    rng, net = np.random.default_rng(0), make_mixed(np.random.default_rng(9), 4)
    numbers = [hb.Continuous(f"w{i}") for i in range(30)]
    for i, number in enumerate(numbers):
        above = [net.variable("g00"), net.variable("g22"), *numbers[max(i - 1, 0) : i]]
        slopes = rng.normal(size=(2, 2, len(above) - 2))
        net.add(
            hb.LinearGaussian(number, above, intercept=np.zeros((2, 2)), coefficients=slopes, variance=np.ones((2, 2)))
        )
    with pytest.raises(hb.TooWide, match="takes about"):
        net.posterior("g22", {"w29": 0.3}, beyond="slice", seconds=3e-5)
    assert net.posterior("g22", {"g33": 1}, beyond="slice", seconds=3e-5).confidence == 1.0


def test_rows_that_are_exact_stand_beside_rows_that_are_sampled() -> None:
    """What is known differs from row to row, and so do the tables that are needed."""
    rng, side = np.random.default_rng(2), range(5)
    cells = {(i, j): hb.Discrete(f"g{i}{j}", (0, 1)) for i in side for j in side}
    above = {cell: [cells[c] for c in ((cell[0] - 1, cell[1]), (cell[0], cell[1] - 1)) if c in cells] for cell in cells}
    network = hb.Network(
        hb.Multinomial(own, above[cell], table=rng.dirichlet([1, 1], size=(2,) * len(above[cell])))
        for cell, own in cells.items()
    )
    table = hb.Table({"g44": [1, None, 1], "g04": [0, None, 0]})
    with warnings.catch_warnings(action="ignore"):
        answer = as_discrete(network.posterior("g00", table, beyond="bound", max_bytes=600, seconds=0.05))
    exact = as_discrete(network.posterior("g00", table))
    for low, high in (answer.bounds, answer.asymptotic_bounds):
        assert (low - 1e-9 <= exact.probabilities).all()
        assert (exact.probabilities <= high + 1e-9).all()
        assert ((high - low).max(axis=1) > 1e-9).tolist() == [False, True, False]
