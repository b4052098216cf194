"""Evidence other than values on the variables that are asked for: it counts, in mappings and in tables alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from inference_tools import brute, random_discrete
from narrowing import as_discrete
from scipy import integrate, stats

import hybridbn as hb
from hybridbn.errors import NetworkError, TableError

SETTINGS = settings(max_examples=examples(25), derandomize=True, deadline=None)
A, X = hb.Discrete("a", ("0", "1")), hb.Continuous("x")
MEANS = (0.0, 3.0)


def network(p: float = 0.4) -> hb.Network:
    return hb.Network(
        [hb.Multinomial(A, table=[1 - p, p]), hb.LinearGaussian(X, (A,), intercept=MEANS, variance=[1.0, 1.0])]
    )


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_soft_evidence_on_every_target_of_a_discrete_network(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_discrete(rng, nodes)
    cells: dict[str, Any] = {}
    for name in net:
        states = as_discrete(net.variable(name)).states
        kind = rng.integers(3)
        if kind == 0:
            cells[name] = {state: float(rng.random() + 0.01) for state in states}
        elif kind == 1:
            cells[name] = set(rng.permutation(np.array(states, dtype=object))[: rng.integers(1, len(states) + 1)])
    names, total = brute(net, cells)
    if not cells or total.sum() <= 0:
        return
    table = pd.DataFrame({name: [cell, None] for name, cell in cells.items()}, dtype=object)
    for name in net:
        right = total.sum(axis=tuple(i for i, other in enumerate(names) if other != name)) / total.sum()
        single = net.posterior(name, cells).probabilities
        np.testing.assert_allclose(single, right, atol=1e-12)
        np.testing.assert_allclose(net.posterior(name, table).probabilities[0], right, atol=1e-12)
        np.testing.assert_allclose(as_discrete(net.posteriors(table, [name])[name]).probabilities[0], right, atol=1e-12)
        # a column of nothing but values is ignored, and so are values among other evidence
        values = table.assign(**{name: [as_discrete(net.variable(name)).states[0]] * 2})
        rest = {other: cell for other, cell in cells.items() if other != name}
        np.testing.assert_allclose(
            net.posterior(name, values).probabilities[0], net.posterior(name, rest).probabilities, atol=1e-12
        )
    joint = net.posterior(list(names), table)
    np.testing.assert_allclose(joint.probabilities[0], total / total.sum(), atol=1e-12)
    best = net.most_probable(table.head(1), list(names))
    at = tuple(as_discrete(net.variable(name)).code(best[name].iloc[0]) for name in names)
    assert total[at] == pytest.approx(total.max(), rel=1e-9)
    assert net.most_probable(cells, list(names)).keys() == set(names)


@pytest.mark.parametrize("cell", [hb.Interval(2, 3), hb.Interval(1.5), lambda x: np.exp(-((x - 1) ** 2))])
def test_soft_evidence_on_a_number(cell: Any) -> None:
    net = network()
    weight = cell if callable(cell) else lambda x: 1.0 * ((x >= cell.low) & (x <= cell.high))
    low, high = (-12.0, 15.0) if callable(cell) else (max(cell.low, -12), min(cell.high, 15))

    def density(x: float) -> float:
        return sum(p * stats.norm.pdf(x, mean) for p, mean in zip((0.6, 0.4), MEANS, strict=True)) * float(weight(x))

    mass = integrate.quad(density, low, high, limit=200)[0]
    mean = integrate.quad(lambda x: x * density(x), low, high, limit=200)[0] / mass
    table = pd.DataFrame({"x": [cell, None, 2.5]}, dtype=object)
    assert net.posterior("x", {"x": cell}).mean() == pytest.approx(mean, abs=1e-8)
    np.testing.assert_allclose(net.posterior("x", table).mean(), [mean, 1.2, 1.2], atol=1e-8)
    joint = net.posterior(["a", "x"], table)
    assert joint.mean()[0, 0] == pytest.approx(mean, abs=1e-8)
    at = 2.25
    right = np.log(0.4 * stats.norm.pdf(at, 3) * float(weight(at)) / mass)
    assert net.posterior(["a", "x"], {"x": cell}).log_pdf(a="1", x=at) == pytest.approx(right, abs=1e-8)
    if not callable(cell):
        assert net.posterior(["a", "x"], {"x": cell}).pdf(a="1", x=cell.low - 0.5) == 0


@pytest.mark.parametrize("names", [None, ["x"]])
def test_the_most_probable_number_stays_within_its_evidence(names: list[str] | None) -> None:
    """Also where the density is known by its values alone, so that the peak is found by a search."""
    net = hb.Network([hb.Density(X, function=lambda x: stats.norm.pdf(x))])
    assert net.most_probable({"x": hb.Interval(1, 2)}, names)["x"] == pytest.approx(1, abs=1e-9)
    peak = net.most_probable({"x": lambda x: np.exp(-((x - 1) ** 2))}, names)["x"]
    assert peak == pytest.approx(2 / 3, abs=1e-8)


def test_a_value_of_a_target_is_refused_in_a_mapping() -> None:
    with pytest.raises(TableError, match="'a' is asked for, so its value '1' can't be part of the evidence"):
        network().posterior("a", {"a": "1"})


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "records", "Table"])
def test_frames_of_every_library(kind: str) -> None:
    cells = [{"0": 0.1, "1": 0.9}, None]
    frames = {
        "pandas": lambda: pd.DataFrame({"a": cells}),
        "polars": lambda: pytest.importorskip("polars").DataFrame({"a": cells}),
        "arrow": lambda: pytest.importorskip("pyarrow").table({"a": cells}),
        "records": lambda: [{"a": cell} for cell in cells],
        "Table": lambda: hb.Table({"a": cells}, variables=[A]),
    }
    probabilities = as_discrete(network(0.5).posterior("a", frames[kind]())).probabilities
    np.testing.assert_allclose(probabilities, [[0.1, 0.9], [0.5, 0.5]], atol=1e-15)


def test_weights_of_evidence_on_the_target_itself() -> None:
    explanation = network(0.5).explain("a", {"x": 2.0, "a": {"0": 0.1, "1": 0.9}}, "1")
    assert explanation.weights["a"] == pytest.approx(np.log(9))
    assert explanation.log_odds == pytest.approx(1.5 + np.log(9))


def test_no_network_with_other_names_in_its_potentials_is_asked(tmp_path: Any) -> None:
    import networkx as nx

    b = hb.Discrete("b", ("0", "1"))
    net = hb.Network([hb.Multinomial(A, table=[0.9, 0.1]), hb.Multinomial(b, (A,), table=[[0.8, 0.2], [0.3, 0.7]])])
    swapped = nx.relabel_nodes(net, {"a": "b", "b": "a"})
    table = pd.DataFrame({"a": ["0", "1"], "b": ["0", "1"]})
    for ask in (
        lambda: swapped.posterior("a"),
        lambda: swapped.posterior("a", {"b": "1"}),
        lambda: swapped.posterior(["a", "b"]),
        lambda: swapped.posteriors(),
        lambda: swapped.log_evidence({"a": "1"}),
        lambda: swapped.log_density(table),
        lambda: swapped.most_probable(),
        lambda: swapped.sample(2),
        lambda: swapped.explain("a", {"b": "1"}),
        lambda: swapped.save(tmp_path / "net.hbn"),
        lambda: hb.fit(swapped, table),
        lambda: swapped.potentials,
        lambda: swapped.check(),
    ):
        with pytest.raises(NetworkError, match=r"use net.rename\(\{'a': 'b', 'b': 'a'\}\) on the network as it was"):
            ask()
    right = net.rename({"a": "b", "b": "a"})
    np.testing.assert_allclose(as_discrete(right.posterior("a")).probabilities, [0.75, 0.25], atol=1e-15)


def test_ensembles_heed_it_in_tables_as_in_mappings() -> None:
    rng = np.random.default_rng(0)
    y, x = rng.integers(0, 2, 80), rng.integers(0, 3, 80)
    data = pd.DataFrame({"y": y, "x": np.where(rng.random(80) < 0.6, y, x), "z": rng.normal(y)})
    data = data.assign(y=data["y"].astype(str), x=data["x"].astype(str))
    ensemble = hb.boost(data, "y", rounds=3)
    case = {"y": {"0": 0.05, "1": 0.95}, "x": "0"}
    single = ensemble.posterior(case).probabilities
    table = pd.DataFrame([case, {"y": "1", "x": "0"}], dtype=object)
    np.testing.assert_allclose(ensemble.posterior(table).probabilities[0], single, atol=1e-12)
    plain = ensemble.posterior({"x": "0"}).probabilities
    np.testing.assert_allclose(ensemble.posterior(table).probabilities[1], plain, atol=1e-12)
    assert np.abs(single - plain).max() > 0.01
