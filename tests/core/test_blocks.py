"""Limits of what is held or done at a time change no answer: with small ones, work falls into many parts.

Each task is done twice, with the limits as they are and with all of them small, so that loops over blocks, their first
and last ones, and what takes over where something is too large to be kept have to give the same numbers.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_kept_answers import is_kept, sum_up

import hybridbn as hb
from hybridbn import structures

ROWS = 90

SMALL = {
    "hybridbn.exchange.discrete_networks": {"_ROWS": 7},
    "hybridbn.fitting.contingency_tables": {"ROWS": 16, "_FEW_ROWS": 2, "_PAIR_CELLS": 16, "_SINGLE_CELLS": 8}
    | {"_FEW_CELLS": 16, "_CROSSED_CELLS": 8},
    "hybridbn.fitting.counting": {"_PICKED": 7, "_BLOCK": 16, "_PASS_CELLS": 40, "_LARGE_TABLE": 5},
    "hybridbn.fitting.cross_validation": {"BATCH": 7},
    "hybridbn.fitting.mte": {"_CHUNK": 2},
    "hybridbn.fitting.mte.univariate": {"_CACHED_VALUES": 2},
    "hybridbn.fitting.ridge": {"_ROWS": 16, "_EXPANDED_ROWS": 16, "_BLOCK": 7},
    "hybridbn.inference.compilation": {"_MOST_GROUPS": 2},
    "hybridbn.inference.elimination.compilers": {"_BLAS_CELLS": 2},
    "hybridbn.inference.engines.elimination": {"CHUNK_BYTES": 1, "MOST_BYTES": 2000, "GRID_CELLS": 500, "MOST_ROWS": 8},
    "hybridbn.inference.engines.naive_bayes": {"_TERMS": 8},
    "hybridbn.inference.engines.single_case": {"MOST_KNOWN": 2},
    "hybridbn.inference.evidence": {"_FEW_PAIRS": 1, "FEWEST_ROWS": 2},
    "hybridbn.inference.explanations": {"_LARGE": 1},
    "hybridbn.inference.gaussian_component": {"MOST_KEPT_NUMBERS": 1, "BLOCK_NUMBERS": 40},
    "hybridbn.inference.gaussian_conditioning": {"BLOCK_NUMBERS": 40, "SHARED_ROWS": 2, "LARGE_TRIANGLE": 1},
    "hybridbn.inference.modes": {"BLOCK": 3},
    "hybridbn.inference.posteriors.continuous": {"BLOCK": 500},
    "hybridbn.inference.posteriors.mixtures": {"BLOCK": 50},
    "hybridbn.inference.sampling": {"BLOCK": 7, "_CHUNK": 10},
    "hybridbn.inference.solutions": {"KEPT_BYTES": 100, "BLOCK_ROWS": 4},
    "hybridbn.learning.weak_learners": {"_MOST_CELLS": 8, "_BLOCK_ROWS": 7},
    "hybridbn.potentials.cell_quadrature": {"CELLS": 16, "ROWS": 2, "EDGES": 16, "MOST_KEPT": 1, "LARGEST_KEPT": 2},
    "hybridbn.potentials.density": {"CHUNK": 7},
    "hybridbn.potentials.gaussian": {"BLOCK": 16},
    "hybridbn.potentials.kernel": {"CELLS": 500},
    "hybridbn.potentials.kernel.evaluation": {"MOST_KERNELS": 50, "MOST_WEIGHTS": 50, "CELLS": 500, "MOST_TARGETS": 16},
    "hybridbn.potentials.kernel.sums": {"AT_ONCE": 5, "CELLS": 500, "CELLS_IN_CACHE": 50},
    "hybridbn.potentials.mte.evaluation": {"_BLOCK": 16, "_CHUNK": 7, "_SMALL": 2},
    "hybridbn.potentials.softmax": {"_MOST_LOGITS": 20},
    "hybridbn.structures.column_splits": {"_BATCH_CELLS": 8, "MOST_CELLS": 64, "LEAST_CELLS": 8},
    "hybridbn.structures.constraint_based": {"_KEPT_CELLS": 4},
    "hybridbn.structures.dependence": {"_ROWS": 7},
    "hybridbn.structures.heldout": {"_ROWS": 7},
    "hybridbn.structures.mixture": {"PART_ROWS": 7},
    "hybridbn.structures.mixture_statistics": {"ROWS": 7, "CELLS": 9},
    "hybridbn.structures.nb_tree": {"MOST_FAMILIES": 1},
    "hybridbn.structures.random_forest": {"BLOCK": 7, "_CHUNK": 7},
    "hybridbn.structures.regression_splits": {"_ROWS": 7},
    "hybridbn.structures.scores": {"CELLS": 4, "KEPT_CELLS": 4},
    "hybridbn.tables.backends.profiles": {"_OPEN_CELLS": 3},
    "hybridbn.tables.backends.batches": {"BATCH_ROWS": 16},
    "hybridbn.tables.backends.sources": {"_FRAGMENT_ROWS": 20},
    "hybridbn.tables.backends.sql": {"_MOST_COLUMNS": 3, "_FEW_FAMILIES": 1},
    "hybridbn.tables.formats.base": {"ROWS_OF_BATCH": 7},
    "hybridbn.tables.formats.columnar": {"_GROUP": 10, "_GROUP_BYTES": 500},
    "hybridbn.tables.formats.database_base": {"BATCH": 7},
    "hybridbn.tables.formats.delimited": {"_BLOCK": 500},
    "hybridbn.tables.formats.delimited_scanner": {"_BATCH": 7, "_WINDOW": 50},
    "hybridbn.tables.formats.sqlite": {"BATCH": 7},
    "hybridbn.tables.formats.text_blocks": {"_SIZE": 200},
    "hybridbn.tables.frames.arrow": {"_BATCH": 7},
    "hybridbn.tables.table": {"_SHARED_ROWS": 2},
}


@contextmanager
def small_limits(only: str = "") -> Iterator[None]:
    """Make all limits small, or those of one module."""
    with pytest.MonkeyPatch.context() as patch:
        for name, limits in SMALL.items():
            if only in ("", name):
                for limit, value in limits.items():
                    patch.setattr(import_module(name), limit, value)
        yield


@cache
def table(holes: bool = False) -> hb.Table:
    rng = np.random.default_rng(41)
    code, d = rng.integers(0, 3, ROWS), rng.integers(0, 2, ROWS)
    x = (code + rng.normal(size=ROWS)).round(2)
    z = rng.gamma(2.0, size=ROWS) + 0.5 * x
    columns: dict[str, Any] = {
        "c": np.array(["low", "mid", "top"], dtype=object)[code],
        "d": np.where((d == 1) | (x > 2), "u", "v").astype(object),
        "e": np.where(rng.random(ROWS) < 0.2 + 0.5 * d, "u", "v").astype(object),
        "x": x,
        "z": z,
        "y": x + 2.0 * d + 0.3 * z + rng.normal(size=ROWS),
    }
    for name in columns if holes else ():
        missing = rng.random(ROWS) < 0.12
        columns[name] = np.where(missing, None if name in "cde" else np.nan, columns[name])
    return hb.Table(columns)


ARCS = [("c", "x"), ("d", "x"), ("x", "y"), ("d", "y"), ("x", "e"), ("c", "e")]


@cache
def network(family: Any) -> hb.Network:
    return hb.fit(ARCS, table().select(["c", "d", "e", "x", "y"]), potentials=family)


def flatten(thing: Any) -> np.ndarray[Any, Any]:
    """Return the numbers of a result, and of texts whether they are the same."""
    if isinstance(thing, hb.Network):
        return flatten([[sorted(map(str, thing.edges))], [thing.potential(name).to_dict() for name in sorted(thing)]])
    if isinstance(thing, hb.Table):
        return flatten(thing.to_pandas())
    if isinstance(thing, pd.DataFrame):
        return flatten([[name, list(thing[name])] for name in thing])
    if isinstance(thing, dict):
        return flatten([[str(key), thing[key]] for key in sorted(thing, key=repr)])
    if isinstance(thing, list | tuple):
        return np.concatenate([np.zeros(0), *map(flatten, thing)])
    if thing is None:
        return np.full(1, np.nan)
    if isinstance(thing, str):
        return np.array([float(int.from_bytes(thing.encode()[-6:], "big"))])
    return np.atleast_1d(np.asarray(thing, dtype=float)).ravel()


def renew(net: hb.Network) -> hb.Network:
    """Return a network of which nothing is known yet."""
    renewed: hb.Network = pickle.loads(pickle.dumps(net))
    return renewed


def fit(family: Any, folder: Path) -> Any:
    net = hb.fit(ARCS, table().select(["c", "d", "e", "x", "y"]), potentials=family)
    return [net, net.log_density(table())]


def build(name: str, options: dict[str, Any], folder: Path) -> Any:
    own = {key: value for key, value in options.items() if key not in ("holes", "target")}
    net = getattr(structures, name)(table(options.get("holes", False)), *options.get("target", []), **own)
    return [net, net.log_density(table())]


def boost(folder: Path) -> Any:
    ensemble = hb.boost(table(), "c", rounds=3, potentials="multinomial")
    return [[list(ensemble.networks)], ensemble.votes, ensemble.posterior(table()).probabilities]


def ask(family: str, folder: Path) -> Any:
    net, rows = renew(network(family)), table(holes=True).take(np.arange(12))
    numbers, states = net.posterior("x", rows), net.posterior("c", rows)
    places = [-1.0, 0.5, 2.0]
    some = numbers[np.arange(12) % 3 == 0]
    return [
        [states.probabilities, states.log_evidence, net.posterior(["c", "e"], rows).probabilities],
        [numbers.mean(), numbers.std(), numbers.cdf(places), numbers.pdf(places), numbers.quantile([0.1, 0.9])],
        [numbers.sample(3, random_state=1), some.median(), some.mode(), numbers[4].pdf(places)],
    ]


def expect_numbers(folder: Path) -> Any:
    """Return means of many rows in which the same numbers are hidden."""
    net, rows = renew(network("gaussian")), table().select(["c", "d"])
    return [net.posterior(name, rows).mean() for name in "xy"]


def draw(family: str, folder: Path) -> Any:
    net, rows = renew(network(family)), table(holes=True).take(np.arange(30))
    return [net.sample(40, random_state=2), net.sample(random_state=2, evidence=rows)]


def ask_singly(family: str, folder: Path) -> Any:
    net = renew(network(family))
    cases = [{"d": d, "e": e} for d in "uv" for e in "uv"]
    return [[net.posterior("c", case).probabilities, net.log_evidence(case)] for case in [{}, *cases]]


def read(suffix: str, folder: Path) -> Any:
    path = f"sqlite:///{folder}/rows.db?table=rows" if suffix == "database" else str(folder / f"rows{suffix}")
    table(holes=True).write(path, overwrite=True)
    rows, scan = hb.read_table(path), hb.scan(path)
    return [rows, hb.fit(ARCS, scan, potentials="gaussian")]


TASKS: dict[str, Callable[[Path], Any]] = {
    **{f"fit {family}": partial(fit, family) for family in ("mte", "kernel", "gaussian", "multinomial", "auto")},
    **{f"ask {family}": partial(ask, family) for family in ("gaussian",)},
    **{f"draw {family}": partial(draw, family) for family in ("gaussian", "multinomial")},
    **{f"single {family}": partial(ask_singly, family) for family in ("multinomial", "gaussian")},
    **{
        f"read {suffix}": partial(read, suffix)
        for suffix in (".csv", ".arff", ".jsonl", ".parquet", ".feather", "database")
    },
    "boost": boost,
    "expect": expect_numbers,
}
BUILT: dict[str, dict[str, Any]] = {
    "kdb": {"target": ["c"], "potentials": "gaussian"},
    "nb_tree": {"target": ["c"], "least": 5.0, "potentials": "gaussian"},
    "selective_naive_bayes": {"target": ["c"], "potentials": "gaussian"},
    "class_clusters": {"target": ["c"], "clusters": 2, "guard": False, "potentials": "gaussian"},
    "chow_liu": {"potentials": "gaussian"},
    "hill_climb": {"potentials": "multinomial"},
    "pc_stable": {"potentials": "gaussian", "alpha": 0.3},
    "mixture": {"holes": True, "components": 2, "covariance": "full"},
    "random_forest": {"target": ["c"], "trees": 3},
    "discriminant": {"target": ["c"]},
    "regression": {"target": ["y"]},
}
TASKS |= {f"build {name}": partial(build, name, options) for name, options in BUILT.items()}


@pytest.mark.parametrize("name", TASKS)
def test_limits_change_no_answer(name: str, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = flatten(TASKS[name](tmp_path / "one"))
        with small_limits():
            parts = flatten(TASKS[name](tmp_path / "other"))
    np.testing.assert_allclose(parts, whole, rtol=1e-7, atol=1e-9)
    assert is_kept("tasks", name, sum_up(whole)), "another result; see test_kept_answers"
