"""Most probable completions against brute force and optimization, and weights of evidence that add up."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_tools import brute, crops, discrete_weights, network_of, random_discrete, random_hybrid
from narrowing import as_discrete, as_kind, known
from scipy import optimize

import hybridbn as hb
from hybridbn.errors import TableError

SETTINGS = settings(max_examples=examples(60), derandomize=True, deadline=None)


def random_findings(net, rng, soft=True):
    evidence = {}
    for name in net:
        states = net.variable(name).states
        kind = rng.integers(5 if soft else 3)
        if kind == 0:
            evidence[name] = states[rng.integers(len(states))]
        elif kind == 1:
            evidence[name] = None
        elif kind == 3:
            evidence[name] = {s: float(rng.random()) for s in states}
        elif kind == 4:
            evidence[name] = {states[0], states[-1]}
    return evidence


def likelihood_of(net, completion, evidence):
    total = 1.0
    names, joint = brute(net, {})
    at = tuple(net.variable(n).code(completion[n]) for n in names)
    for name, value in evidence.items():
        total *= discrete_weights(net.variable(name), value)[net.variable(name).code(completion[name])]
    return joint[at] * total


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(1, 7))
def test_completions_of_discrete_networks(seed, nodes):
    rng = np.random.default_rng(seed)
    net = random_discrete(rng, nodes)
    evidence = random_findings(net, rng)
    _, total = brute(net, evidence)
    if total.sum() == 0:
        return
    found = net.most_probable(evidence)
    hard = {n for n, v in evidence.items() if v is not None and not isinstance(v, set | dict)}
    assert set(found) == set(net) - hard
    completion = {**{n: evidence[n] for n in hard}, **found}
    assert likelihood_of(net, completion, evidence) == pytest.approx(total.max(), rel=1e-12)


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_completions_of_some_variables(seed, nodes):
    """MAP: the maximum of the joint posterior of the variables asked for, not of their marginals."""
    rng = np.random.default_rng(seed)
    net = random_discrete(rng, nodes)
    wanted = [str(n) for n in rng.permutation(list(net))[: rng.integers(1, nodes + 1)]]
    evidence = {n: v for n, v in random_findings(net, rng).items() if n not in wanted}
    _, total = brute(net, evidence)
    if total.sum() == 0:
        return
    found = net.most_probable(evidence, wanted)
    assert set(found) == set(wanted)
    table = net.posterior(wanted, evidence)
    assert table.probability(**found) == pytest.approx(table.probabilities.max(), rel=1e-12)


def test_ties():
    """Where several completions are equally probable, one of them, as a whole."""
    a, b, c = (hb.Discrete(n, (0, 1)) for n in "abc")
    same = [[1.0, 0.0], [0.0, 1.0]]
    net = hb.Network(
        [hb.Multinomial(a, table=[0.5, 0.5]), hb.Multinomial(b, (a,), table=same), hb.Multinomial(c, (b,), table=same)]
    )
    found = net.most_probable()
    assert found["a"] == found["b"] == found["c"]
    other = net.most_probable({"c": 1})
    assert other == {"a": 1, "b": 1}
    exclusive = hb.Network(
        [hb.Multinomial(a, table=[0.5, 0.5]), hb.Multinomial(b, (a,), table=[[0.0, 1.0], [1.0, 0.0]])]
    )
    found = exclusive.most_probable()
    assert found["a"] != found["b"]
    frame = exclusive.most_probable(pd.DataFrame({"a": [0, 1, None]}, dtype=object))
    assert (frame["a"] != frame["b"]).all()


@SETTINGS
@given(st.integers(0, 2**32 - 1))
def test_ties_of_random_networks(seed):
    """Tables with few distinct numbers, so that ties are the rule."""
    rng = np.random.default_rng(seed)
    variables = [hb.Discrete(f"v{i}", (0, 1)) for i in range(5)]
    potentials = []
    for i, v in enumerate(variables):
        parents = [variables[j] for j in range(i) if rng.random() < 0.5]
        ones = rng.integers(0, 3, size=[2] * len(parents)) / 2
        potentials.append(hb.Multinomial(v, parents, table=np.stack([ones, 1 - ones], axis=-1)))
    net = hb.Network(potentials)
    _, total = brute(net, {})
    found = net.most_probable()
    assert likelihood_of(net, found, {}) == pytest.approx(total.max(), rel=1e-12)


@SETTINGS
@given(st.integers(0, 2**32 - 1))
def test_gaussian_networks(seed):
    """The mode is the mean."""
    rng = np.random.default_rng(seed)
    variables = [hb.Continuous(f"x{i}") for i in range(6)]
    potentials = []
    for i, v in enumerate(variables):
        parents = [variables[j] for j in range(i) if rng.random() < 0.5]
        potentials.append(
            hb.LinearGaussian(
                v,
                parents,
                intercept=rng.normal(),
                coefficients=rng.normal(size=len(parents)),
                variance=rng.uniform(0.1, 2),
            )
        )
    net = hb.Network(potentials)
    evidence = {"x1": float(rng.normal()), "x5": float(rng.normal() * 2)}
    found = net.most_probable(evidence)
    means = {n: p.mean() for n, p in net.posteriors(evidence).items()}
    assert found == pytest.approx(means, rel=1e-8, abs=1e-8)
    some = net.most_probable(evidence, ["x0", "x3"])
    assert some == pytest.approx({n: means[n] for n in ("x0", "x3")}, rel=1e-8, abs=1e-8)


def test_conditional_gaussian_network():
    """The component whose peak is highest, not the most probable one: a narrow unlikely state wins."""
    c, x = hb.Discrete("c", ("wide", "narrow")), hb.Continuous("x")
    net = hb.Network(
        [hb.Multinomial(c, table=[0.9, 0.1]), hb.LinearGaussian(x, (c,), intercept=[0, 5], variance=[4.0, 1e-4])]
    )
    assert net.most_probable() == {"c": "narrow", "x": pytest.approx(5, abs=1e-9)}
    assert net.most_probable(names=["c"]) == {"c": "wide"}
    frame = net.most_probable(pd.DataFrame({"x": [5.0, 1.0, None], "c": [None, None, "wide"]}))
    assert frame["c"].tolist() == ["narrow", "wide", "wide"]
    np.testing.assert_allclose(frame["x"], [5, 1, 0], atol=1e-8)


def best_by_optimizer(net, evidence, numbers, states, starts):
    """Try every configuration of the states, from several starts; Nelder-Mead, then Newton-like polish."""
    best: tuple[float, Any] = (-math.inf, None)
    for combo in itertools.product(*states.values()):
        fixed = {**evidence, **dict(zip(states, combo, strict=True))}

        def loss(v, fixed=fixed):
            value = net.log_density({**fixed, **dict(zip(numbers, map(float, v), strict=True))})
            return -value if math.isfinite(value) else 1e10

        for start in starts:
            result = optimize.minimize(
                loss,
                start,
                method="Nelder-Mead",
                options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 2000, "maxfev": 2000},
            )
            if -result.fun > best[0]:
                best = (
                    -result.fun,
                    {**dict(zip(states, combo, strict=True)), **dict(zip(numbers, result.x, strict=True))},
                )
    return best


@pytest.mark.parametrize("evidence", [{"B": False}, {"B": True}, {"B": False, "C": 7.0}, {}])
def test_crops(evidence):
    net = crops()
    numbers = [n for n in ("C", "P") if n not in evidence]
    states = {n: (True, False) for n in ("S", "B") if n not in evidence}
    height, best = best_by_optimizer(net, evidence, numbers, states, [np.full(len(numbers), v) for v in (4.0, 10.0)])
    found = net.most_probable(evidence)
    assert net.log_density({**evidence, **found}) >= height - 1e-12
    for name, value in best.items():
        assert found[name] == (pytest.approx(value, abs=1e-7) if name in numbers else value)


@pytest.mark.parametrize("name", ["C", "P"])
@pytest.mark.parametrize("evidence", [{"B": False}, {"B": True}])
def test_map_of_one_number_is_its_mode(name, evidence):
    net = crops()
    post = net.posterior(name, evidence)
    found = net.most_probable(evidence, [name])[name]
    exact = optimize.minimize_scalar(
        lambda v: -post.log_pdf(v), bounds=(found - 0.5, found + 0.5), method="bounded", options={"xatol": 1e-12}
    )
    assert post.pdf(found) >= post.pdf(exact.x) * (1 - 1e-13)
    assert post.pdf(found) >= post.pdf(np.linspace(-2, 25, 5001)).max() * (1 - 1e-13)
    assert found == pytest.approx(exact.x, abs=1e-6)


@pytest.mark.slow
def test_small_hybrid_networks():
    """No completion on a fine grid, and none that an optimizer finds, is more probable than the one returned."""
    checked = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        specs = random_hybrid(rng, 4, ["kernel", "gaussian", "softmax", "density", "multinomial"])
        numbers = [n for n, s in specs.items() if not s.discrete]
        if not 1 <= len(numbers) <= 2:
            continue
        net = network_of(specs)
        evidence = {n: known(s.states)[0] for n, s in specs.items() if s.discrete and rng.random() < 0.4}
        if net.log_evidence(evidence) == -math.inf:
            continue
        states = {n: s.states for n, s in specs.items() if s.discrete and n not in evidence}
        found = net.most_probable(evidence)
        mine = net.log_density({**evidence, **found})
        starts = [[found[n] for n in numbers], np.zeros(len(numbers)), np.ones(len(numbers))]
        height, _ = best_by_optimizer(net, evidence, numbers, states, starts)
        assert mine >= height - 1e-9, (seed, specs, evidence, found)
        checked += 1
        if checked == 3:
            break
    assert checked == 3


def test_intervals_and_likelihoods_bind_the_mode():
    x, y = hb.Continuous("x"), hb.Continuous("y")
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0, variance=1),
            hb.LinearGaussian(y, (x,), intercept=0, coefficients=[1], variance=1),
        ]
    )
    found = net.most_probable({"x": hb.Interval(1, 2)})
    assert found == pytest.approx({"x": 1.0, "y": 1.0}, abs=1e-7)
    # within (2, 3), y pulls x to y/2
    found = net.most_probable({"y": hb.Interval(2, 3)})
    assert found == pytest.approx({"x": 1.0, "y": 2.0}, abs=1e-7)
    found = net.most_probable({"x": lambda v: np.exp(-((v - 3) ** 2) / 2)})
    assert found == pytest.approx({"x": 1.5, "y": 1.5}, abs=1e-7)


def test_tables_of_evidence():
    net = crops()
    table = pd.DataFrame({"B": [True, False, None, False], "C": [None, None, 5.0, 7.0]})
    frame = net.most_probable(table)
    for row, values in enumerate(table.to_dict("records")):
        case = {k: v for k, v in values.items() if not pd.isna(v)}
        alone = net.most_probable(case)
        for name, value in alone.items():
            got = frame[name].iloc[row]
            assert got == (pytest.approx(value, abs=1e-7) if isinstance(value, float) else value)
        for name, value in case.items():
            assert frame[name].iloc[row] == value


# -- explanations -------------------------------------------------------------------------------------------------


def test_weights_add_up():
    net = crops()
    evidence = {"C": 5.5, "B": False, "P": 6.0}
    found = net.explain("S", evidence, True)
    p, rest = as_discrete(net.posterior("S", evidence)).probabilities
    assert list(found.weights) == ["C", "B", "P"]
    assert found.log_odds == pytest.approx(math.log(p / rest), abs=1e-9)
    assert found.prior == pytest.approx(math.log(0.3 / 0.7), abs=1e-12)
    assert found.prior + sum(found.weights.values()) == pytest.approx(found.log_odds, abs=1e-9)
    assert found.probability == pytest.approx(p, abs=1e-12)
    assert found.weights["C"] == pytest.approx(0, abs=1e-9)  # says nothing before the price is known
    other = net.explain("S", {"P": 6.0, "B": False, "C": 5.5}, True)
    assert list(other.weights) == ["P", "B", "C"]
    assert other.log_odds == pytest.approx(found.log_odds, abs=1e-9)
    assert other.weights["B"] == pytest.approx(0, abs=1e-9)  # says nothing once the price is known
    assert "S" in str(found)
    assert net.explain("S", evidence).state is True


@SETTINGS
@given(st.integers(0, 2**32 - 1))
def test_each_weight_is_a_likelihood_ratio(seed):
    rng = np.random.default_rng(seed)
    net = random_discrete(rng, 5, zeros=False)
    target, *others = (str(n) for n in rng.permutation(list(net)))
    evidence: dict[str, object] = {
        n: as_discrete(net.variable(n)).states[rng.integers(len(as_discrete(net.variable(n))))] for n in others[:3]
    }
    evidence[others[3]] = {s: float(rng.random() + 0.1) for s in as_discrete(net.variable(others[3])).states}
    state = as_discrete(net.variable(target)).states[0]
    found = net.explain(target, evidence, state)
    assert list(found.weights) == list(evidence)
    names, _ = brute(net, {})

    def mass(part, states):
        _, total = brute(net, part)
        return total.take([as_discrete(net.variable(target)).code(s) for s in states], axis=names.index(target)).sum()

    rest = as_discrete(net.variable(target)).states[1:]
    before: dict = {}
    for name, value in evidence.items():
        after = {**before, name: value}
        ratio = mass(after, [state]) / mass(before, [state]) / (mass(after, rest) / mass(before, rest))
        assert found.weights[name] == pytest.approx(math.log(ratio), abs=1e-9)
        before = after
    assert found.prior + sum(found.weights.values()) == pytest.approx(found.log_odds, abs=1e-9)


def test_extreme_odds_keep_their_digits():
    """Odds of e^400: the probability of the rest is far below what 1 - p can show."""
    c = hb.Discrete("c", ("a", "b"))
    potentials = [hb.Multinomial(c, table=[0.5, 0.5])]
    evidence = {}
    for i in range(40):
        x = hb.Discrete(f"x{i}", (0, 1))
        p = 1 / (1 + math.exp(10))
        potentials.append(hb.Multinomial(x, (c,), table=[[1 - p, p], [p, 1 - p]]))
        evidence[f"x{i}"] = 0
    found = hb.Network(potentials).explain("c", evidence, "a")
    assert found.log_odds == pytest.approx(400, rel=1e-9)
    assert list(found.weights.values()) == pytest.approx([10.0] * 40, rel=1e-9)


def test_what_can_not_be_explained():
    net = crops()
    with pytest.raises(TableError, match="continuous"):
        net.explain("C", {"B": True})
    with pytest.raises(TableError, match="mapping"):
        net.explain("S", pd.DataFrame({"B": [True]}))
    with pytest.raises(TableError, match="'S'"):
        net.explain("S", {"S": True})
    with pytest.raises(TableError, match="state"):
        net.explain("S", {"B": True}, "maybe")


def test_equally_good_points_are_not_mixed():
    """Peaks at (-1, 1) and (1, -1): each variable alone may have either value, both together not (-1, -1)."""
    x, y = hb.Continuous("x", domain=(-3, 3)), hb.Continuous("y", domain=(-3, 3))

    def two_peaks(x, y):
        # odd in y, so it integrates to one
        near = np.exp(-((np.abs(x) - 1) ** 2) - (np.abs(y) - 1) ** 2)
        return 1 / 6 - 0.1 * np.tanh(4 * x) * np.tanh(4 * y) * near

    net = hb.Network(
        [hb.Density(x, function=lambda x: np.full_like(x, 1 / 6)), hb.Density(y, parents=(x,), function=two_peaks)]
    )
    found = net.most_probable()
    assert found["x"] * found["y"] < 0
    best = net.log_density(pd.DataFrame([{"x": 1.0, "y": -1.0}]))[0]
    assert net.log_density(pd.DataFrame([found]))[0] >= best


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "records", "table"])
def test_rows_come_back_in_the_frame_they_came_in(kind):
    c, k, x = hb.Discrete("c", ("a", "b")), hb.Discrete("k", (1, 2)), hb.Continuous("x")
    net = hb.Network(
        [
            hb.Multinomial(c, table=[0.3, 0.7]),
            hb.Multinomial(k, (c,), table=[[0.9, 0.1], [0.2, 0.8]]),
            hb.LinearGaussian(x, (c,), intercept=[0, 3], variance=[1, 1]),
        ]
    )
    rows = [{"x": 0.1, "c": None}, {"x": 3.0, "c": "b"}]
    frame = pd.DataFrame(rows, index=[7, 9])
    if kind == "polars":
        frame = pytest.importorskip("polars").DataFrame(rows)
    elif kind == "arrow":
        frame = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    elif kind == "records":
        frame = rows
    elif kind == "table":
        frame = hb.Table(frame)
    found, drawn = net.most_probable(frame), net.sample(3, 0, frame)
    assert type(found) is type(frame)
    assert type(drawn) is type(frame)
    assert len(drawn) == 6
    shown = hb.Table(found, variables=net.variables).to_pandas()
    assert shown["c"].tolist() == ["a", "b"]
    assert shown["k"].tolist() == [1, 2]
    np.testing.assert_allclose(shown["x"], [0.1, 3.0])
    if kind == "pandas":
        assert found.index.tolist() == [7, 9]


def test_a_completion_before_a_jump_is_not_polished_away():
    """What looks like curvature beside a jump is none."""
    x, c = hb.Continuous("x", domain=(-3, 3)), hb.Discrete("c", ("a", "b"))
    pieces = [
        hb.Piece({"x": (-3, 0.3)}, {}, 0.0, [(0.2, {"x": 1.0})]),
        hb.Piece({"x": (0.3, 3)}, {}, 0.1, []),
    ]
    net = hb.Network(
        [hb.MTE(x, (), pieces, normalize=True), hb.Softmax(c, (x,), intercept=[0, 0], coefficients=[[0], [1]])]
    )
    for evidence in ({}, {"c": "b"}):
        found = net.most_probable(evidence)
        assert found["x"] == pytest.approx(0.3, abs=1e-8)
        best = net.log_density(pd.DataFrame([{**evidence, **found}]))[0]
        near = net.log_density(pd.DataFrame([{**evidence, **found, "x": found["x"] - d} for d in (1e-2, 1e-4, 1e-6)]))
        assert (best > near).all()


def test_ties_between_rows_with_different_holes() -> None:
    """A variable that is observed in every tied row, but not in all rows."""
    b, c = hb.Discrete("b", ("x", "y")), hb.Discrete("c", (0, 1))
    net = hb.Network(
        [hb.Multinomial(b, table=[0.3, 0.7]), hb.Multinomial(c, (b,), table=[[0.5, 0.5], [0.9, 0.1]])],
    )
    completed = net.most_probable(pd.DataFrame({"b": ["x", None]}))
    assert completed.to_dict("list") == {"b": ["x", "y"], "c": [0, 0]}


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_tables_with_ties_and_holes(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_discrete(rng, nodes)
    flat = hb.Network()
    for potential in net.potentials:
        table = (
            np.round(2 * as_kind(hb.Multinomial, potential).table) + 1
        )  # few different numbers, so that many completions tie
        flat.add(
            hb.Multinomial(
                as_discrete(potential.child),
                [as_discrete(parent) for parent in potential.parents],
                table=table / table.sum(axis=-1, keepdims=True),
            )
        )
    frame = flat.sample(12, seed % 1000).astype(object)
    frame = frame.mask(rng.random(frame.shape) < 0.5, None)
    completed = flat.most_probable(frame)
    reached = flat.log_density(completed)
    for row, (_, cells) in enumerate(frame.iterrows()):
        single = {name: value for name, value in cells.items() if value is not None}
        best = flat.most_probable(single)
        assert reached[row] == pytest.approx(flat.log_evidence({**single, **best}), abs=1e-9)


@pytest.mark.slow
def test_ties_of_several_numbers_belong_together() -> None:
    """Two pairs of numbers with two equally high peaks, where both have the same sign, or different ones."""
    network = hb.Network()
    for letter, slope in (("a", 1.0), ("b", -1.0)):
        first, second = hb.Continuous(f"{letter}1"), hb.Continuous(f"{letter}2")
        network.add(hb.LinearGaussianMixture(first, probabilities=[0.5, 0.5], intercept=[-2, 2], variance=[0.25, 0.25]))
        network.add(
            hb.LinearGaussianMixture(
                second,
                (first,),
                probabilities=[0.5, 0.5],
                intercept=[0.0, 0.0],
                coefficients=[[slope], [slope]],
                variance=[0.09, 0.09],
            )
        )
    best = network.most_probable()
    for letter, slope in (("a", 1.0), ("b", -1.0)):
        one, other = best[f"{letter}1"], best[f"{letter}2"]
        assert abs(one) == pytest.approx(2, abs=1e-3)
        assert other == pytest.approx(slope * one, abs=1e-3)
    peak = {"a1": [2.0], "a2": [2.0], "b1": [2.0], "b2": [-2.0]}
    highest = float(network.log_density(pd.DataFrame(peak))[0])
    assert float(network.log_density(pd.DataFrame([best]))[0]) == pytest.approx(highest, abs=1e-6)
    table = network.most_probable(pd.DataFrame({"a1": [None, -2.0, None], "b2": [2.0, None, None]}, dtype=float))
    np.testing.assert_allclose(table["a1"], table["a2"], atol=1e-3)
    np.testing.assert_allclose(table["b1"], -table["b2"], atol=1e-3)
