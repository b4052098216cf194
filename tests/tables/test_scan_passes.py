"""How many passes over a scan each question and learner takes, exactly; what is known of it takes none again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn import structures

pytest.importorskip("pyarrow")


def make_data(holes: float = 0.0) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    c = rng.integers(0, 3, 200)
    x = c + rng.normal(size=200)
    columns = {
        "c": np.array(["a", "b", "d"])[c],
        "x": x,
        "d": np.where(x > 1, "u", "v"),
        "y": 2 * x + rng.normal(size=200),
    }
    return {
        name: [None if name != "c" and rng.random() < holes else cell for cell in column]
        for name, column in columns.items()
    }


ARCS = [("c", "x"), ("x", "y"), ("c", "d")]
NETWORK = hb.fit(ARCS, make_data(), "gaussian")

# a first pass finds the states of columns and the ranges of numbers; where holes and weights have to be known, another
# one counts the missing cells
PASSES: dict[str, tuple[Callable[[hb.Scan], Any], int, int]] = {
    "length": (len, 1, 0),
    "log density": (NETWORK.log_density, 1, 0),
    "posterior": (lambda scan: as_discrete(NETWORK.posterior("c", scan.drop("c"))).probabilities, 1, 0),
    "naive_bayes": (lambda scan: structures.naive_bayes(scan, "c", "gaussian"), 3, 0),
    "tan": (lambda scan: structures.tan(scan, "c", "gaussian"), 3, 0),
    "kdb": (lambda scan: structures.kdb(scan, "c", "gaussian"), 3, 0),
    "fit": (lambda scan: hb.fit(ARCS, scan, "gaussian"), 3, 0),
    "regression": (lambda scan: structures.regression(scan, "y", "gaussian"), 2, 0),
    "logistic": (lambda scan: structures.logistic(scan, "c", "gaussian"), 2, 0),
}


@pytest.mark.parametrize("name", PASSES)
def test_passes(name: str) -> None:
    work, first, again = PASSES[name]
    scan = hb.scan(make_data())
    assert scan.passes.made == 0
    made = []
    for _ in range(2):
        before = scan.passes.made
        work(scan)
        made.append(scan.passes.made - before)
    assert made == [first, again]


@pytest.mark.parametrize("rounds", [1, 3])
def test_each_round_is_one_pass(rounds: int) -> None:
    made = []
    for work in (
        lambda scan: hb.boost(scan, "c", "naive_bayes", rounds=rounds, potentials="gaussian"),
        lambda scan: hb.expectation_maximization(ARCS, scan, "gaussian", max_iterations=rounds, tolerance=1e-300),
    ):
        scan = hb.scan(make_data(holes=0.1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work(scan)
        made.append(scan.passes.made)
    # of EM all but these: what columns are, their holes, and a start from the available cases
    assert made == [rounds + 2, rounds + 5]
