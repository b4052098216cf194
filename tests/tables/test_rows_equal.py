"""What is learned from rows does not depend on how they are read: in memory, in batches, or by several workers.

Every builder of the registry is run, and what stands on top of builders. The table in memory is the reference.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.structures import GainRatio, Utility
from hybridbn.structures.building import BUILDERS, declaration_of
from hybridbn.tables import Rows
from hybridbn.tables.backends.workers import open_pool

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = 150
WEIGHTS = "w"


def make_columns(kind: str) -> dict[str, list[Any]]:
    """Return states and numbers that depend on each other, some of them missing, and weights, if asked for."""
    rng = np.random.default_rng(7)
    c = rng.integers(2, size=ROWS)
    d = np.where(rng.random(ROWS) < 0.8, c, rng.integers(3, size=ROWS))
    t = (c + d + (rng.random(ROWS) < 0.2)) % 2
    x = 2.0 * c + rng.normal(size=ROWS)
    y = x - d + 0.5 * rng.normal(size=ROWS)
    columns: dict[str, list[Any]] = {
        "c": [("n", "p")[code] for code in c],
        "d": [("u", "v", "w")[code] for code in d],
        "t": [bool(code) for code in t],
        "x": x.tolist(),
        "y": y.tolist(),
    }
    if kind == "holes":
        for name in columns:
            holes = rng.random(ROWS) < (0.05 if name in ("c", "y") else 0.15)
            columns[name] = [None if hole else cell for hole, cell in zip(holes, columns[name], strict=True)]
    if kind == "weights":
        columns[WEIGHTS] = rng.choice([0.0, 0.5, 1.0, 2.25], ROWS).tolist()
    return columns


KINDS = ("complete", "holes", "weights")
TABLES = {kind: pa.table(make_columns(kind)) for kind in KINDS}


def read_into_memory(kind: str) -> hb.Table:
    table = TABLES[kind]
    if kind != "weights":
        return hb.Table(table)
    return hb.Table(table.drop_columns([WEIGHTS]), weights=table[WEIGHTS].to_numpy())


def divide(kind: str, pieces: int) -> list[Any]:
    """Return consecutive rows of a table."""
    rows = ROWS // pieces
    return [TABLES[kind].slice(start, rows) for start in range(0, ROWS, rows)]


def scan_batches(kind: str, batches: int) -> hb.Scan:
    return hb.scan(pa.concat_tables(divide(kind, batches)), weights=WEIGHTS if kind == "weights" else None)


def scan_by_workers(kind: str, folder: Path, pool: Executor) -> hb.Scan:
    """Let workers read three files."""
    for number, piece in enumerate(divide(kind, 3)):
        parquet.write_table(piece, folder / f"{number}.parquet")
    return hb.scan(str(folder / "*.parquet"), backend=pool, weights=WEIGHTS if kind == "weights" else None)


def learn_by_builder(name: str, potentials: str, data: hb.Table) -> hb.Network:
    function = BUILDERS[name]
    takes = declaration_of(function).takes_target
    target = "y" if takes is hb.Continuous else "c"
    return function(data, *([target] if takes else []), potentials=potentials)


def impute_by_row_numbers(data: hb.Table, **options: Any) -> hb.Table:
    """Impute rows as the command does."""
    completed: hb.Table = hb.impute(data, keys=range(len(data)), random_state=0, **options)
    return completed


ARCS = [("c", "x"), ("x", "y"), ("c", "d"), ("d", "t")]
FAMILIES = ("auto", "gaussian", "multinomial")
trees = partial(hb.structures.nb_tree, max_depth=1, least=10.0)
LEARNERS: dict[str, Callable[[Any], Any]] = {
    **{f"{name} {family}": partial(learn_by_builder, name, family) for name in sorted(BUILDERS) for family in FAMILIES},
    **{f"fit {family}": partial(hb.fit, ARCS, potentials=family) for family in FAMILIES},  # type: ignore[arg-type]
    "nb_tree, grown": partial(hb.structures.nb_tree, target="c", potentials="gaussian", max_depth=2, least=10.0),
    "nb_tree of a number": partial(hb.structures.nb_tree, target="y", potentials="gaussian", max_depth=2, least=10.0),
    "nb_tree by utility": partial(hb.structures.nb_tree, target="c", criterion=Utility(), binary=True, least=3.0),
    "nb_tree by gain ratio": partial(hb.structures.nb_tree, target="c", criterion=GainRatio(), least=10.0),
    "model_tree, several": partial(hb.structures.model_tree, target="y", trees=3, max_depth=2),
    "mixture, given": partial(hb.structures.mixture, components=3, covariance="full"),
    "class_clusters of a number": partial(
        hb.structures.class_clusters, target="y", potentials="gaussian", clusters=2, guard=False
    ),
    "class_clusters, hard": partial(
        hb.structures.class_clusters, target="c", potentials="gaussian", clusters=2, assignment="hard", guard=False
    ),
    "expectation_maximization": partial(hb.expectation_maximization, ARCS, potentials="gaussian"),
    "boost m1": partial(hb.boost, target="c", rounds=5),
    "boost real": partial(hb.boost, target="c", rounds=5, algorithm="real"),
    "boost m1, normal": partial(hb.boost, target="c", rounds=3, potentials="gaussian"),
    "boost real, normal": partial(hb.boost, target="c", rounds=3, algorithm="real", potentials="gaussian"),
    "boost of trees": partial(hb.boost, target="c", rounds=2, build=trees),
    "boost with new cuts": partial(hb.boost, target="c", rounds=2, refit_cuts=True),
    "augment by expectations": partial(hb.augment, target="y", potentials="gaussian", random_state=0),
    "augment by draws": partial(hb.augment, target="y", potentials="gaussian", response="simulation", random_state=0),
    "augment a class": partial(hb.augment, target="c", potentials="gaussian", random_state=0),
    "impute": partial(hb.impute, random_state=0),
    "impute by numbers of rows": impute_by_row_numbers,
    "impute by numbers of rows, tan": partial(impute_by_row_numbers, structure="tan", target="c"),
    "impute means": partial(hb.impute, strategy="mean", random_state=0),
    "no such target": partial(hb.structures.naive_bayes, target="z"),
    "a number as class": partial(BUILDERS["logistic"], target="y"),
    "a class as number": partial(hb.structures.regression, target="c"),
    "boost a number": partial(hb.boost, target="y"),
    "no such node": partial(hb.fit, [("c", "z")]),
    "states without table": partial(hb.fit, [("x", "c")], potentials={"c": "gaussian"}),
    "no such family": partial(hb.structures.tan, target="c", potentials="normal"),  # type: ignore[arg-type]
    "augment without target": partial(hb.augment, target="z"),
    "impute without target": partial(hb.impute, structure="tan", target="z"),
}
"""What learns from rows, by its name and that of its densities; the last ones are refused."""
REFUSED = [*LEARNERS][[*LEARNERS].index("no such target") :]
COSTLY = {
    *(f"{name} auto" for name in BUILDERS if name not in ("naive_bayes", "tan", "chow_liu")),
    *(f"{name} {family}" for name in ("automatic", "logistic") for family in FAMILIES),
    *(f"{name} multinomial" for name in ("class_clusters", "mixture")),
    *("class_clusters gaussian", "mixture gaussian", "augment by expectations"),
    "impute by numbers of rows, tan",
}
COSTLY_WITH_HOLES = {
    *(f"{name} gaussian" for name in ("hill_climb", "max_min_hill_climb")),
    *(f"random_forest {family}" for family in FAMILIES),
    *("augment by draws", "augment a class", "impute means", "expectation_maximization"),
    "nb_tree by gain ratio",
}


def describe(learned: Any) -> Any:
    """Return what was learned as plain values."""
    if isinstance(learned, hb.Network):
        return {"arcs": sorted(learned.edges), **{name: learned.potential(name).to_dict() for name in learned}}
    if isinstance(learned, hb.Ensemble):
        networks = {str(number): describe(network) for number, network in enumerate(learned.networks)}
        return {"votes": np.asarray(learned.votes), "errors": np.asarray(learned.errors), **networks}
    if isinstance(learned, Rows):
        rows = learned.sample() if isinstance(learned, hb.Scan) else as_kind(hb.Table, learned)
        return {name: rows.column(name) for name in rows.names}
    described = {"network": describe(learned.network)}
    if hasattr(learned, "completed"):
        described |= {"srmse": list(learned.history.srmse), "completed": describe(learned.completed)}
    else:
        described["history"] = list(learned.history)
    return described


def learn(name: str, data: Rows) -> Any:
    """Return what is learned, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return LEARNERS[name](data)
        except hb.HybridBNError as error:
            return f"{type(error).__name__}: {error}"


@cache
def learn_from_memory(name: str, kind: str) -> Any:
    return learn(name, read_into_memory(kind))


def measure(one: Any, other: Any) -> float:
    """Return the largest difference between the numbers of two descriptions; infinity where anything else differs."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if set(one) != set(other):
            return math.inf
        return max((measure(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, str | bool | None) or isinstance(other, str | bool | None):
        return 0.0 if one == other else math.inf
    try:
        mine, yours = (np.asarray(value, dtype=np.float64) for value in (one, other))
    except (TypeError, ValueError):
        if not isinstance(one, list | tuple) or not isinstance(other, list | tuple) or len(one) != len(other):
            return 0.0 if one == other else math.inf
        return max(map(measure, one, other), default=0.0)
    if mine.shape != yours.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        gaps = np.abs(mine - yours) / np.maximum(1, np.maximum(np.abs(mine), np.abs(yours)))
    equal = (mine == yours) | (np.isnan(mine) & np.isnan(yours))
    return float(np.where(equal, 0, np.nan_to_num(gaps, nan=math.inf)).max(initial=0))


ORDER_OF_DRAWS = "rows of a scan are filled by draws of their own, rows in memory in their order"
DIFFERENCES: dict[tuple[str, str], str] = {}
"""What differs from the table in memory however a scan is read."""


def compare(learned: Any, name: str, kind: str) -> None:
    """Hold what was learned against what is learned from memory."""
    known = learn_from_memory(name, kind)
    if isinstance(learned, str) or isinstance(known, str):
        assert learned == known
        return
    assert measure(describe(learned), describe(known)) < 1e-12


def pair() -> Iterator[Any]:
    """Give all pairs of a learner and a kind of rows, those that differ today as expected failures."""
    for name in LEARNERS:
        for kind in KINDS[:1] if name in REFUSED else KINDS:
            marks = []
            if name in COSTLY or (name in COSTLY_WITH_HOLES and kind != "complete"):
                marks.append(pytest.mark.slow)
            if (name, kind) in DIFFERENCES:
                marks.append(pytest.mark.xfail(reason=DIFFERENCES[name, kind], strict=True))
            yield pytest.param(name, kind, marks=marks, id=f"{name}, {kind}")


@pytest.mark.parametrize(("name", "kind"), list(pair()))
def test_three_batches_are_the_table(name: str, kind: str) -> None:
    compare(learn(name, scan_batches(kind, 3)), name, kind)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), list(pair()))
def test_one_batch_is_the_table(name: str, kind: str) -> None:
    compare(learn(name, scan_batches(kind, 1)), name, kind)


@pytest.fixture(scope="module")
def pool() -> Iterator[Executor]:
    with open_pool(2) as executor:
        yield executor


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), list(pair()))
def test_two_workers_read_the_table(name: str, kind: str, tmp_path: Path, pool: Executor) -> None:
    compare(learn(name, scan_by_workers(kind, tmp_path, pool)), name, kind)
