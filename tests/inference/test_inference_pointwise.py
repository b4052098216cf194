"""Nodes of the only hidden number: each cell is evaluated once, for all rows together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous, as_discrete

import hybridbn as hb
from hybridbn.inference.elimination import factors
from hybridbn.inference.engines import elimination


@pytest.fixture
def net() -> hb.Network:
    """A number with a hidden class above it and two narrow kernel conditionals below."""
    rng = np.random.default_rng(3)
    y, c = hb.Continuous("y"), hb.Discrete("c", ("n", "y"))
    known = rng.normal(size=60)
    attributes = [
        hb.Kernel(
            hb.Continuous(name),
            (y,),
            points=np.column_stack([np.sin(k * known) + 0.3 * rng.normal(size=60), known]),
            bandwidths=[0.05, 0.02],
        )
        for k, name in enumerate("uv", start=1)
    ]
    return hb.Network([
        hb.Multinomial(c, table=[0.4, 0.6]),
        hb.Kernel(y, (c,), points=known, bandwidths=0.02, labels={"c": ["n", "y"] * 30}),
        *attributes,
    ])  # fmt: skip


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame({"u": rng.uniform(-1.2, 1.2, 12), "v": rng.uniform(-1.2, 1.2, 12)})


def test_each_cell_of_a_row_is_evaluated_once(
    net: hb.Network, table: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells: Counter[tuple[float, ...]] = Counter()
    rounds = 0
    original = factors.PointwiseMarginal._evaluate_cells

    def count(self: Any, axes: Any, evidence: Any, rows: Any) -> Any:
        nonlocal rounds
        rounds += 1
        cells.update(zip(axes["y"].low[0], evidence.findings["u"].values, axes["y"].high[0], strict=True))
        return original(self, axes, evidence, rows)

    monkeypatch.setattr(factors.PointwiseMarginal, "_evaluate_cells", count)
    # as where no grid is fine enough for all rows
    monkeypatch.setattr(elimination, "make_shared_grid", lambda *_: None)
    net.posterior("y", table)
    assert rounds > 1
    assert set(cells.values()) == {1}


def test_against_adaptive_integration(net: hb.Network, table: pd.DataFrame) -> None:
    posterior = net.posterior("y", table)
    prior, first, second = (net.potential(name) for name in "yuv")
    assert posterior.error.max() < 1e-9
    marks = np.linspace(-4, 4, 801)
    for row in (0, 5, 11):
        u, v = table.iloc[row]

        def density(y: float, u: float = u, v: float = v) -> float:
            weight = 0.4 * prior(c="n", y=y) + 0.6 * prior(c="y", y=y)
            return float(weight * first(u=u, y=y) * second(v=v, y=y))

        # a sum of narrow bells: many panels of Gauss-Legendre nodes are exact
        nodes, weights = np.polynomial.legendre.leggauss(20)
        half = np.diff(marks)[:, None] / 2
        points = (marks[:-1, None] + half + half * nodes).ravel()
        values = np.array(0.4 * prior(c="n", y=points) + 0.6 * prior(c="y", y=points))
        values = values * first(u=np.full(len(points), u), y=points) * second(v=np.full(len(points), v), y=points)
        values = values * (half * weights).ravel()
        mean = values @ points / values.sum()
        assert posterior.mean()[row] == pytest.approx(mean, abs=1e-9)
        assert posterior.var()[row] == pytest.approx(values @ (points - mean) ** 2 / values.sum(), rel=1e-7)
        assert posterior.log_evidence[row] == pytest.approx(np.log(values.sum()), abs=1e-9)
        place = float(posterior.median()[row])
        assert as_continuous(posterior).pdf([place])[row, 0] == pytest.approx(density(place) / values.sum(), rel=1e-6)


def test_a_row_gets_what_it_gets_alone(net: hb.Network, table: pd.DataFrame) -> None:
    holes = table.astype({"u": object})
    holes.loc[3, "u"] = None
    holes.loc[4, "u"] = hb.Interval(0.0, 0.2)
    batch = net.posterior("y", holes)
    classes = net.posterior("c", holes)
    for row in (3, 4, 7):
        evidence = {name: value for name, value in holes.iloc[row].items() if value is not None}
        alone = net.posterior("y", evidence)
        assert batch.mean()[row] == pytest.approx(alone.mean(), abs=1e-10)
        assert batch.log_evidence[row] == pytest.approx(alone.log_evidence, abs=1e-10)
        np.testing.assert_allclose(
            as_discrete(classes).probabilities[row], as_discrete(net.posterior("c", evidence)).probabilities, atol=1e-10
        )
