"""Rows of one table that differ in which numbers are observed: those alike share a grid, and get what they would get
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous, as_discrete

import hybridbn as hb
from hybridbn.inference.compilation import Problem
from hybridbn.inference.engines import elimination
from hybridbn.inference.grids import refine_shared_grid

CLOSE = 1e-10


@pytest.fixture(scope="module")
def net() -> hb.Network:
    """Linear Gaussians x -> z with categories below them, and a number w that no closed form knows."""
    y, c, d = (hb.Discrete(name, ("n", "y")) for name in "ycd")
    x, z, w = (hb.Continuous(name) for name in "xzw")
    return hb.Network([
        hb.Multinomial(y, table=[0.3, 0.7]),
        hb.LinearGaussian(x, parents=(y,), intercept=[-1.0, 1.0], coefficients=np.zeros((2, 0)), variance=[1.0, 2.0]),
        hb.LinearGaussian(
            z, parents=(y, x), intercept=[0.0, 0.5], coefficients=[[1.0], [0.4]], variance=[0.5, 1.0]
        ),
        hb.Softmax(c, parents=(x,), intercept=[0.0, 0.3], coefficients=[[0.0], [1.5]]),
        hb.Softmax(d, parents=(z, x), intercept=[0.0, -0.2], coefficients=[[0.0, 0.0], [1.0, -0.5]]),
        hb.Kernel(w, parents=(x,), points=[[0.0, -1.0], [2.0, 0.5], [1.0, 2.0]], bandwidths=[0.5, 1.0]),
    ])  # fmt: skip


@pytest.fixture(scope="module")
def table(net: hb.Network) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    whole = net.sample(10, random_state=1)
    return whole.mask(rng.random(whole.shape) < 0.4)


def case(table: pd.DataFrame, row: int, *without: str) -> dict[str, object]:
    return {name: value for name, value in table.iloc[row].items() if name not in without and pd.notna(value)}


def test_rows_with_different_holes_need_no_nodes_of_their_own(
    net: hb.Network, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def place(*_: object) -> None:
        raise AssertionError("rows got nodes of their own")

    monkeypatch.setattr(elimination, "place_nodes", place)
    net.posteriors(table)


@pytest.mark.parametrize("target", ["y", "x", "z", "w", "c"])
def test_a_row_gets_what_it_gets_alone(net: hb.Network, table: pd.DataFrame, target: str) -> None:
    batch = net.posterior(target, table)
    for row in range(len(table)):
        alone = net.posterior(target, case(table, row, target))
        if target in "yc":
            np.testing.assert_allclose(
                as_discrete(batch).probabilities[row], as_discrete(alone).probabilities, atol=CLOSE
            )
        else:
            ours, theirs = batch[row], alone
            np.testing.assert_allclose([ours.mean(), ours.var()], [theirs.mean(), theirs.var()], rtol=CLOSE)
            np.testing.assert_allclose(ours.pdf([-1.0, 0.5]), as_continuous(theirs).pdf([-1.0, 0.5]), rtol=1e-8)


def test_a_row_has_the_evidence_that_it_has_alone(net: hb.Network, table: pd.DataFrame) -> None:
    alone = [net.log_evidence(case(table, row)) for row in range(len(table))]
    np.testing.assert_allclose(net.log_evidence(table), alone, rtol=0, atol=1e-9)


def test_a_number_that_only_some_rows_have_is_known_there(net: hb.Network, table: pd.DataFrame) -> None:
    every = net.posteriors(table)
    for name in ("x", "z", "w"):
        seen = table[name].notna().to_numpy()
        assert seen.any()
        assert not seen.all()
        np.testing.assert_array_equal(every[name].mean()[seen], table[name][seen])
        np.testing.assert_array_equal(every[name].var()[seen], 0.0)
        for row in np.flatnonzero(~seen).tolist():
            alone = net.posterior(name, case(table, row))
            assert every[name].mean()[row] == pytest.approx(alone.mean(), rel=CLOSE)


def test_joint_moments_and_intervals(net: hb.Network, table: pd.DataFrame) -> None:
    batch = net.posterior(["x", "z"], table)
    ranged = table.astype({"w": object})
    ranged.loc[[0, 3], "w"] = hb.Interval(0.0, 1.5)
    inside = net.posterior("y", ranged)
    for row in (0, 3, 5, 9):
        alone = net.posterior(["x", "z"], case(table, row, "x", "z"))
        np.testing.assert_allclose(batch.mean()[row], alone.mean(), rtol=CLOSE)
        np.testing.assert_allclose(batch.cov()[row], alone.cov(), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(
            as_discrete(inside).probabilities[row],
            as_discrete(net.posterior("y", case(ranged, row))).probabilities,
            atol=CLOSE,
        )


def test_impossible_rows_are_named_by_their_place(net: hb.Network) -> None:
    a, b = hb.Continuous("a"), hb.Discrete("b", ("n", "y"))
    step = hb.Multinomial(hb.Discrete("k", ("n", "y")), parents=(b,), table=[[1.0, 0.0], [0.0, 1.0]])
    small = hb.Network([
        hb.Kernel(a, points=[[0.0], [1.0]], bandwidths=[0.5]),
        hb.Softmax(b, parents=(a,), intercept=[0.0, 0.0], coefficients=[[0.0], [1.0]]),
        step,
    ])  # fmt: skip
    table = pd.DataFrame({"a": [None, 1.0, None, 0.5], "b": ["y", "y", "n", "n"], "k": ["y", "y", "y", "y"]})
    with pytest.raises(hb.ImpossibleEvidence) as caught:
        small.log_evidence(table), small.posteriors(table)
    assert caught.value.rows == (2, 3)
    assert np.isneginf(small.log_evidence(table)).tolist() == [False, False, True, True]


def test_no_pattern_of_holes_gets_an_order_of_its_own(
    net: hb.Network, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    def restrict(*_: object) -> None:
        raise AssertionError("rows were split by what they know")

    monkeypatch.setattr(Problem, "restrict_to_observed", restrict)
    net.posteriors(table), net.log_density(table)


def coupled(name: str, *parents: str) -> hb.Density:
    """A density on the unit interval that all parents bend."""

    def function(**values: np.ndarray) -> np.ndarray:
        bend = sum((np.cos(3 * values[parent]) for parent in parents), np.zeros_like(values[name]))
        return 1 + 0.7 / max(len(parents), 1) * bend * (2 * values[name] - 1)

    variables = [hb.Continuous(n, domain=(0, 1)) for n in (name, *parents)]
    return hb.Density(variables[0], parents=variables[1:], function=function)


def make_kernel(name: str, parent: str | None, rng: np.random.Generator) -> hb.Kernel:
    points = rng.normal(size=(12, 1 if parent is None else 2))
    parents = () if parent is None else (hb.Continuous(parent),)
    return hb.Kernel(hb.Continuous(name), parents=parents, points=points, bandwidths=[0.6] * points.shape[1])


@pytest.mark.parametrize("shape", ["chain", "ladder", "star", "kernels"])
def test_holes_of_every_pattern(shape: str) -> None:
    rng = np.random.default_rng(5)
    if shape == "kernels":
        potentials: list[hb.Potential] = [make_kernel("a", None, rng)]
        potentials += [make_kernel(child, parent, rng) for child, parent in ("ba", "cb", "da")]
    else:
        below = {"chain": "a ba cb dc", "ladder": "a ba cba dcb", "star": "a ba ca dab"}[shape]
        potentials = [coupled(*names) for names in below.split()]
    v = potentials[-1].child
    assert isinstance(v, hb.Continuous)
    s = hb.Discrete("s", ("n", "y"))
    potentials.append(hb.Softmax(s, parents=(v,), intercept=[0.0, 0.4], coefficients=[[0.0], [2.0]]))
    net = hb.Network(potentials)
    whole = net.sample(48, random_state=0)
    masks = np.array([[row >> column & 1 for column in range(5)] for row in range(32)] + [[0, 1, 0, 1, 1]] * 16)
    table = whole.mask(masks.astype(bool))
    every, log_evidence = net.posteriors(table), net.log_evidence(table)
    for row in (0, 6, 11, 26, 40):
        alone = case(table, row)
        assert log_evidence[row] == pytest.approx(net.log_evidence(alone), abs=1e-9)
        for name in set("abcd").difference(alone):
            one = net.posterior(name, alone)
            assert every[name].mean()[row] == pytest.approx(one.mean(), abs=1e-9)
            assert every[name].var()[row] == pytest.approx(one.var(), rel=1e-8)
        if "s" not in alone:
            np.testing.assert_allclose(
                as_discrete(every["s"]).probabilities[row],
                as_discrete(net.posterior("s", alone)).probabilities,
                atol=1e-9,
            )
    seen = table["b"].notna().to_numpy()
    np.testing.assert_array_equal(every["b"].mean()[seen], table["b"][seen])
    assert every["b"].error.max() < 1e-9


def test_rows_of_which_none_knows_a_number_that_others_know() -> None:
    """In these rows its cells have the same masses, and yet a factor with rows."""
    b, x, z = (hb.Continuous(name) for name in "bxz")
    narrow = hb.LinearGaussian(z, parents=(x,), intercept=0.0, coefficients=[1.0], variance=1e-6)
    net = hb.Network([
        hb.Kernel(b, points=[0.0, 1.0, 3.0], bandwidths=0.5),
        hb.Kernel(x, points=[0.0, 2.0, 5.0], bandwidths=0.5),
        narrow,
    ])  # fmt: skip
    table = pd.DataFrame({"b": [0.3, None, None], "x": [1.0, 2.0, None], "z": [None, None, 40.0]})
    every = net.posteriors(table)
    for row in range(3):
        for name in {"b", "x", "z"}.difference(case(table, row)):
            alone = net.posterior(name, case(table, row))
            assert every[name].mean()[row] == pytest.approx(alone.mean(), abs=1e-9)


def test_threads_share_grids_and_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grids are refined for some chunks, and some rows get nodes of their own; each run begins with a new network."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"b": rng.normal(size=60), "c": 2 * rng.normal(size=60), "d": rng.normal(size=60)})
    frame.loc[50, "c"] = 40.0
    holes = frame.mask(rng.random(frame.shape) < 0.3)
    monkeypatch.setattr(elimination, "GRID_CELLS", 2000)
    monkeypatch.setattr(elimination, "MOST_BYTES", 1 << 17)
    refined = []
    original = refine_shared_grid

    def count(*given: Any) -> Any:
        refined.append(original(*given))
        return refined[-1]

    monkeypatch.setattr(elimination, "refine_shared_grid", count)
    results = []
    for n_jobs in (None, 2, 3):
        seeded = np.random.default_rng(5)
        network = hb.Network([make_kernel(n, p, seeded) for n, p in (("a", None), ("b", "a"), ("c", "b"), ("d", "a"))])
        posteriors = [network.posterior("a", table, n_jobs=n_jobs) for table in (frame, holes)]
        results.append([p.mean() for p in posteriors] + [as_continuous(p).pdf([0.3, 1.0]) for p in posteriors])
    assert any(grid is not None for grid in refined)
    for one, two, three in zip(*results, strict=True):
        assert np.array_equal(one, two)
        assert np.array_equal(one, three)


def test_rows_of_a_chunk_that_all_know_a_number_refine_the_grid_of_another() -> None:
    """With little memory a chunk is one row, which may leave nothing to be told about the grid of what it knows."""
    x, y, z = (hb.Continuous(name) for name in "xyz")
    c = hb.Discrete("c", ("a", "b"))
    net = hb.Network([
        hb.LinearGaussian(x, intercept=0, variance=1),
        hb.Kernel(y, parents=(x,), points=[[0.0, -1.0], [2.0, 0.5], [1.0, 2.0]], bandwidths=[0.5, 1.0]),
        hb.Softmax(c, parents=(x, y), intercept=[0, 0.3], coefficients=[[0.0, 0.0], [1.0, 3.0]]),
        hb.LinearGaussian(z, parents=(y,), intercept=0, coefficients=[1], variance=0.02),
    ])  # fmt: skip
    frame = pd.DataFrame({"x": [-0.5, np.nan], "y": [np.nan, -1.1], "c": ["a", "a"], "z": [-0.4, np.nan]})
    together = net.log_density(frame, max_bytes=2**22)
    alone = [net.log_evidence(row.dropna().to_dict()) for _, row in frame.iterrows()]
    np.testing.assert_allclose(together, alone, atol=1e-9)


def make_chain(family: str) -> hb.Network:
    """A class, and three numbers of a family below it and below each other."""
    y = hb.Discrete("y", ("n", "y"))
    numbers = [hb.Continuous(f"v{i}") for i in range(3)]
    potentials: list[hb.Potential] = [hb.Multinomial(y, table=[0.3, 0.7])]
    for i, v in enumerate(numbers):
        parents: tuple[hb.Discrete | hb.Continuous, ...] = (y, *numbers[max(i - 1, 0) : i])
        slopes = np.full((2, len(parents) - 1), [[0.7], [-0.4]])
        normal = hb.LinearGaussian(v, parents, intercept=[0.5, -0.5], coefficients=slopes, variance=[1.0, 0.5])
        component, slopes_of_share = hb.Atoms.component_of(v, [0.0]), np.zeros((2, 2, len(parents) - 1))
        share = hb.Softmax(component, parents, intercept=[[-1.0, 0.0], [0.0, 0.0]], coefficients=slopes_of_share)
        potentials.append(
            hb.Atoms(v, parents, points=[0.0], probabilities=share, density=normal) if family == "atoms" else normal
        )
    return hb.Network(potentials)


@pytest.mark.parametrize("family", ["gaussian", "atoms"])
def test_intervals_give_nodes_to_their_own_rows_only(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, between = make_chain(family), hb.Interval
    nodes: list[tuple[str, ...]] = []
    solve = elimination._solve_with_nodes

    def note(problem: Problem, *given: Any) -> Any:
        nodes.append(problem.nodes)
        return solve(problem, *given)

    monkeypatch.setattr(elimination, "_solve_with_nodes", note)
    table = pd.DataFrame({
        "v0": [between(-1, 0.5), 0.3, None, 0.0, None, None, 0.7],
        "v1": [0.2, between(0, 2), None, None, 0.0, between(-1, 1), 1.5],
        "v2": [None, 0.0, between(1, 3), -0.4, lambda v: np.exp(-v * v), None, None],
    })  # fmt: skip
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    cases = [{str(name): value for name, value in row.items() if value is not None} for row in rows]
    logs = net.log_evidence(table)
    assert {len(own) for own in nodes} == {1}
    assert logs == pytest.approx([net.log_evidence(own) for own in cases], abs=CLOSE)
    classes, numbers = net.posterior("y", table), net.posterior("v2", table)
    for row, own in enumerate(cases):
        assert classes.probabilities[row] == pytest.approx(net.posterior("y", own).probabilities, abs=CLOSE)
        if isinstance(own.get("v2"), float):  # of a target, values do not count
            del own["v2"]
        assert numbers.mean()[row] == pytest.approx(as_continuous(net.posterior("v2", own)).mean(), abs=1e-9)
    some = net.posteriors(table.head(2))
    assert as_continuous(some["v2"]).mean() == pytest.approx(numbers.mean()[:2] * [1, 0], abs=1e-9)
