"""What learning from holes costs, counted in cells of the factors that inference evaluates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hybridbn as hb
from hybridbn.fitting import MTEFitter
from hybridbn.inference.elimination.factors import PotentialSource
from hybridbn.inference.gaussian_component import GaussianComponent
from hybridbn.structures import hill_climb, naive_bayes, tan
from hybridbn.structures.building import structural_em

Draw = Callable[[np.random.Generator, Any], Any]
KINDS: dict[str, Draw] = {
    "numbers": lambda rng, signal: signal + rng.normal(size=len(signal)),
    "codes": lambda rng, signal: (signal + rng.normal(size=len(signal)) > 0).astype(float),
    "counts": lambda rng, signal: rng.poisson(np.exp(0.4 * signal)).astype(float),
    "zeros": lambda rng, signal: np.where(rng.random(len(signal)) < 0.4, 0.0, signal + rng.normal(size=len(signal))),
}
LEARNERS: dict[str, tuple[Callable[[hb.Table], hb.Network], float]] = {
    "hill_climb": (lambda table: hill_climb(table.select(table.names[1:]), "gaussian"), 2e4),
    "tan": (lambda table: structural_em(table, "c", tan, "gaussian").network, 1e4),
    "naive_bayes": (lambda table: structural_em(table, "c", naive_bayes, "gaussian").network, 1e3),
    "fit": (lambda table: hb.fit("c->x0->x1->x2->x3", table, "gaussian", missing="em"), 4e4),
}


def make_table(draw: Draw, rows: int = 150) -> hb.Table:
    """Draw a class and five numbers, three of them of a kind, with a tenth of the cells missing."""
    rng = np.random.default_rng(5)
    columns: dict[str, Any] = {"c": np.where(rng.random(rows) < 0.4, "a", "b")}
    signal = np.where(columns["c"] == "a", -1.0, 1.0)
    for number in range(5):
        column = (KINDS["numbers"] if number == 1 else draw)(rng, signal)
        columns[f"x{number}"] = column
        signal = 0.5 * signal + 0.7 * (column - column.mean()) / column.std()
    holes = {name: rng.random(rows) < 0.1 for name in columns}
    return hb.Table({
        name: np.where(holes[name], None if name == "c" else np.nan, column.astype(object if name == "c" else float))
        for name, column in columns.items()
    })  # fmt: skip


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the cells of factors that are evaluated."""
    counted: list[int] = []
    for source in (PotentialSource, GaussianComponent):
        inner = source.logs

        def logs(self: Any, *given: Any, inner: Any = inner, **options: Any) -> Any:
            result = inner(self, *given, **options)
            counted.append(result.size)
            return result

        monkeypatch.setattr(source, "logs", logs)
    return counted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_tables_with_holes_take_few_cells_a_row(learner: str, kind: str, cells: list[int]) -> None:
    learn, most = LEARNERS[learner]
    table = make_table(KINDS[kind])
    network = learn(table)
    assert {type(network.potential(name)) is hb.Atoms for name in ("x0", "x2")} == {kind in ("codes", "zeros")}
    assert sum(cells) / len(table) < most


def test_families_without_holes_are_learned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    inner = MTEFitter.potential

    def learn(self: Any, statistics: Any) -> Any:
        counted.append(statistics.child.name)
        return inner(self, statistics)

    monkeypatch.setattr(MTEFitter, "potential", learn)
    rng = np.random.default_rng(0)
    x, y, v = rng.normal(size=(3, 300)).cumsum(axis=0)
    table = hb.Table({"x": x, "y": np.where(rng.random(300) < 0.3, np.nan, y), "v": v, "z": x**2})
    families: dict[str, Any] = {"x": "mte", "y": "gaussian", "v": "gaussian", "z": "mte"}
    learned = hb.expectation_maximization([("x", "y"), ("y", "v"), ("x", "z")], table, families)
    assert learned.converged
    assert len(learned.history) > 3
    # for the start, and from it
    assert sorted(counted) == ["x", "x", "z", "z"]
