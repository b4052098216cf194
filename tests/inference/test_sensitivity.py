"""Sensitivity of posteriors: against finite differences, closed forms and networks with changed tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.inference.elimination.compilers import compile_program
from hybridbn.inference.elimination.program import Factor
from hybridbn.inference.explanations import differentiate


def change(net: hb.Network, node: str, cell: tuple[int, ...], value: float, alone: bool = False) -> hb.Network:
    """Return a network in which a parameter has another value, the others of its row in proportion or as they are."""
    potential = net.potential(node)
    table = potential.table.copy()  # type: ignore[attr-defined]
    *above, own = cell
    row = table[tuple(above)]
    if not alone:
        others = np.arange(len(row)) != own
        rest = row[others].sum()
        row[others] = row[others] / rest * (1 - value) if rest > 0 else (1 - value) / others.sum()
    row[own] = value
    changed = net.copy()
    changed.add(hb.Multinomial(potential.child, potential.parents, table=table))  # type: ignore[arg-type]
    return changed


def check_derivatives(net: hb.Network, target: str, evidence: dict, cells_of_each: int = 4) -> None:
    """Compare derivatives with finite differences, for some cells of each table."""
    sensitivity = net.sensitivity(target, evidence)
    np.testing.assert_allclose(
        sensitivity.probabilities, as_discrete(net.posterior(target, evidence)).probabilities, atol=1e-12
    )
    rng, step = np.random.default_rng(5), 1e-6
    for node, potential in sensitivity.tables.items():
        derivatives, alone = (sensitivity.derivatives(node, alone=alone) for alone in (False, True))
        cells = list(itertools.product(*map(range, potential.table.shape)))
        for number in rng.permutation(len(cells))[:cells_of_each]:
            cell = cells[number]
            value = potential.table[cell]
            ends = [min(value + step, 1.0), max(value - step, 0.0)]
            after = [
                as_discrete(change(net, node, cell, end).posterior(target, evidence)).probabilities for end in ends
            ]
            numeric = (after[0] - after[1]) / (ends[0] - ends[1])
            np.testing.assert_allclose(derivatives[cell], numeric, atol=1e-6 * max(1.0, np.abs(numeric).max()) + 2e-6)
            after = [
                as_discrete(change(net, node, cell, end, alone=True).posterior(target, evidence)).probabilities
                for end in (value + 4e-7, max(value - 4e-7, 0.0))
            ]
            numeric = (after[0] - after[1]) / (4e-7 + min(4e-7, value))
            np.testing.assert_allclose(alone[cell], numeric, atol=1e-5 * max(1.0, np.abs(numeric).max()))


def make_random(seed: int, zeros: bool = False) -> hb.Network:
    """Return a random network of seven tables."""
    rng = np.random.default_rng(seed)
    variables = [hb.Discrete(f"v{i}", states=tuple(range(rng.integers(2, 4)))) for i in range(7)]
    potentials = []
    for i, variable in enumerate(variables):
        parents = [variables[j] for j in rng.permutation(i)[: rng.integers(0, 3)]]
        table = rng.dirichlet(np.ones(len(variable)), tuple(map(len, parents)))
        if zeros:
            table = np.where(table < 0.2, 0.0, table)
        potentials.append(hb.Multinomial(variable, parents, table=table, normalize=True))
    return hb.Network(potentials)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_derivatives_of_random_networks_are_finite_differences(seed: int) -> None:
    check_derivatives(make_random(seed), "v1", {"v6": 1, "v4": {0: 0.2, 1: 0.7}})
    check_derivatives(make_random(seed), "v6", {})


def test_derivatives_by_parameters_that_are_zero_or_one() -> None:
    a, b = hb.Discrete("a", states=("x", "y")), hb.Discrete("b", states=("u", "v", "w"))
    net = hb.Network(
        [hb.Multinomial(a, table=[0.3, 0.7]), hb.Multinomial(b, (a,), table=[[1.0, 0.0, 0.0], [0.25, 0.0, 0.75]])]
    )
    check_derivatives(net, "a", {"b": "u"}, cells_of_each=6)
    sensitivity = net.sensitivity("a", {"b": "u"})
    # P(a = x | u) = .3 t / (.3 t + .175) in the parameter t = P(u | x) = 1
    assert sensitivity.derivatives("b", "x")[0, 0] == pytest.approx(0.3 * 0.175 / 0.475**2)
    assert sensitivity.predict("b", {"a": "x", "b": "u"}, 0.5)[0] == pytest.approx(0.15 / 0.325)
    low, high = sensitivity.ranges("b")
    assert low[0, 0] == pytest.approx(0.175 / 0.3)
    assert high[0, 0] == 1
    assert high[1, 0] == pytest.approx(0.3 / 0.7)


def test_posteriors_at_other_values_and_ranges_are_those_of_changed_networks() -> None:
    net, evidence = make_random(11), {"v5": 0, "v2": 1}
    sensitivity = net.sensitivity("v0", evidence)
    for node, potential in sensitivity.tables.items():
        low, high = sensitivity.ranges(node)
        for cell in list(itertools.product(*map(range, potential.table.shape)))[::3]:
            states = {v.name: v.states[code] for v, code in zip(potential.variables, cell, strict=True)}  # type: ignore[union-attr]
            for value in (0.0, 0.35, 1.0):
                expected = as_discrete(
                    change(net, node, cell, value).posterior("v0", evidence, impossible="nan")
                ).probabilities
                np.testing.assert_allclose(sensitivity.predict(node, states, value), expected, atol=1e-12)
            for end, outside in ((low[cell], -1e-4), (high[cell], 1e-4)):
                if 1e-3 < end < 1 - 1e-3:
                    before, after = (sensitivity.predict(node, states, end + step) for step in (-outside, outside))
                    assert sensitivity.target.states[before.argmax()] == sensitivity.state
                    assert sensitivity.target.states[after.argmax()] != sensitivity.state
            assert low[cell] <= potential.table[cell] <= high[cell]


def test_tables_of_mixed_networks() -> None:
    sick, sex = hb.Discrete("sick", states=("no", "yes")), hb.Discrete("sex", states=("f", "m"))
    fever, pulse = hb.Continuous("fever"), hb.Continuous("pulse")
    alarm = hb.Discrete("alarm", states=("off", "on"))
    net = hb.Network(
        [
            hb.Multinomial(sex, table=[0.4, 0.6]),
            hb.Multinomial(sick, (sex,), table=[[0.9, 0.1], [0.7, 0.3]]),
            hb.LinearGaussian(fever, parents=(sick,), intercept=[36.8, 38.5], variance=[0.1, 0.5]),
            hb.LinearGaussian(pulse, (fever, sex), intercept=[-300, -290], coefficients=[[10], [10]], variance=[9, 9]),
            hb.Softmax(alarm, parents=(pulse,), intercept=[0, -40], coefficients=[[0.0], [0.5]]),
        ]
    )  # fmt: skip
    for evidence in ({"alarm": "on"}, {"fever": hb.Interval(37.5), "alarm": "on"}, {"pulse": 85.0}, {"fever": 38.0}):
        check_derivatives(net, "sick", evidence)
    wide = hb.Network(
        [hb.LinearGaussian(hb.Continuous(f"x{i}"), (sick,), intercept=[0, 1], variance=[1, 1]) for i in range(400)]
    )
    wide.add(hb.Multinomial(sick, table=[0.5, 0.5]))
    sensitivity = wide.sensitivity("sick", {f"x{i}": 0.5 + 40 * (-1) ** i for i in range(400)})
    np.testing.assert_allclose(sensitivity.derivatives("sick", "yes"), [-1, 1], atol=1e-9)


def test_much_evidence_does_not_underflow() -> None:
    root = hb.Discrete("root", states=("a", "b"))
    leaves = [hb.Discrete(f"leaf{i}", states=tuple(range(20))) for i in range(300)]
    rng = np.random.default_rng(8)
    net = hb.Network([hb.Multinomial(root, table=[0.5, 0.5])])
    for leaf in leaves:
        net.add(hb.Multinomial(leaf, (root,), table=rng.dirichlet(np.full(20, 300.0), 2)))
    check_derivatives(net.subgraph(["root", *(leaf.name for leaf in leaves[:3])]), "root", {"leaf1": 2})
    evidence = {leaf.name: 3 for leaf in leaves}
    sensitivity = net.sensitivity("root", evidence)
    p = net.posterior("root", evidence)["a"]
    theta = net.potential("leaf7").table[0, 3]  # type: ignore[attr-defined]
    assert sensitivity.derivatives("leaf7", "a")[0, 3] == pytest.approx(p * (1 - p) / theta, rel=1e-9)


def test_products_in_which_an_input_alone_is_summed_over() -> None:
    factors = [Factor(("a",)), Factor(("b", "c")), Factor(("a", "d"))]
    program = compile_program(factors, [("a",)], dict.fromkeys("abcd", 3))
    rng = np.random.default_rng(4)
    arrays = [rng.random((3,) * len(factor.names)) for factor in factors]
    table, slopes = differentiate(program, arrays)
    full = arrays[0] * arrays[1].sum() * arrays[2].sum(axis=1)
    scale = table.sum() / full.sum()
    np.testing.assert_allclose(table, full * scale)
    np.testing.assert_allclose(slopes[1] / scale, np.broadcast_to(full / arrays[1].sum(), (3, 3, 3)))


def test_frames_and_refusals() -> None:
    net = make_random(2)
    sensitivity = net.sensitivity("v1", {"v6": 1})
    frame = sensitivity.to_frame()
    assert len(frame) == sum(potential.table.size for potential in sensitivity.tables.values())
    assert frame["derivative"].abs().is_monotonic_decreasing
    assert ((frame["low"] <= frame["value"]) & (frame["value"] <= frame["high"])).all()
    assert len(sensitivity.to_frame(0, most=3)) == 3
    assert "parameters in 7 tables" in repr(sensitivity)
    # where the target does not depend on the evidence, nothing but its ancestors matters
    assert not net.sensitivity("v0").derivatives("v6").any()
    for call, message in (
        (lambda: net.sensitivity("v9"), "no node"),
        (lambda: net.sensitivity("v1", [{"v6": 1}]), "a mapping"),  # type: ignore[arg-type]
        (lambda: sensitivity.derivatives("v9"), "no node with a table"),
        (lambda: sensitivity.derivatives("v1", 7), "no state 7"),
        (lambda: sensitivity.derivatives(["v1"]), "no node with a table"),  # type: ignore[arg-type]
        (lambda: sensitivity.to_frame(most="a"), "whole number"),  # type: ignore[arg-type]
        (lambda: sensitivity.predict("v1", 3, 0.5), "in a mapping"),  # type: ignore[arg-type]
        (lambda: sensitivity.predict("v1", {"v6": 1}, 0.5), "name the states"),
        (lambda: sensitivity.predict("v0", {"v0": 1}, 1.5), "between 0 and 1"),
        (lambda: sensitivity.find_swings(change=2.0), "at most 1"),
        (lambda: net.sensitivity("v1", {"v6": 1}, max_bytes=8), "GiB"),
        (lambda: hb.Network([hb.PointMass(hb.Continuous("x"), value=0)]).sensitivity("x"), "continuous"),
    ):
        with pytest.raises(hb.HybridBNError, match=message):
            call()
    a, b = hb.Discrete("a", states=("x", "y")), hb.Discrete("b", states=("u", "v"))
    pair = hb.Network([hb.Multinomial(a, table=[0.3, 0.7]), hb.Multinomial(b, (a,), table=[[1, 0], [1, 0]])])
    with pytest.raises(hb.ImpossibleEvidence):
        pair.sensitivity("a", {"b": "v"})


def test_tornado() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    net = make_random(3)
    sensitivity = net.sensitivity("v1", {"v6": 1})
    swings = sensitivity.find_swings(most=5)
    widths = [abs(upper - lower) for _, lower, upper in swings]
    assert widths == sorted(widths, reverse=True)
    axes = sensitivity.plot(most=5, ax=pyplot.figure().gca())
    assert len(axes.patches) == 2 * len(swings)
    assert [label.get_text() for label in axes.get_yticklabels()] == [name for name, _, _ in swings]
    pyplot.close("all")


@pytest.mark.slow
def test_alarm() -> None:
    models = pytest.importorskip("pgmpy").__path__[0]
    net = hb.read_network(f"{models}/utils/example_models/alarm.bif.gz")
    evidence = {"HRBP": "HIGH", "CVP": "LOW", "PRESS": "HIGH"}
    for target in ("LVFAILURE", "INTUBATION", "BP"):
        check_derivatives(net, target, evidence, cells_of_each=6)
