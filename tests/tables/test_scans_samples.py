"""What is learned from a sample of the rows of a scan says so, and of how many."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import hybridbn as hb
from hybridbn.pictures.learning import plot_boosting
from hybridbn.structures import discriminant, hill_climb, logistic, naive_bayes
from hybridbn.structures.building import structural_em

pytest.importorskip("pyarrow")


@cache
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    c = rng.integers(0, 2, 60)
    x = c + rng.normal(size=60)
    columns = {"c": np.array(["n", "p"])[c], "d": np.where(rng.random(60) < 0.3, "u", "v"), "x": x}
    return pd.DataFrame(columns | {"y": np.where(rng.random(60) < 0.2, np.nan, x + rng.normal(size=60))})


@cache
def network() -> hb.Network:
    return hb.fit([("c", "x"), ("x", "y"), ("c", "d")], frame(), "gaussian")


@cache
def ensemble() -> hb.Ensemble:
    return hb.boost(frame(), "c", "naive_bayes", rounds=2, potentials="gaussian")


ARCS = [("c", "x"), ("x", "y")]
LEARNED: dict[str, Callable[[Any], Any]] = {
    "kernel densities": lambda rows: hb.fit(ARCS, rows, "kernel"),
    "gaussian_mixture densities": lambda rows: hb.fit(ARCS, rows, "gaussian_mixture"),
    "parameters of simulated expectations": lambda rows: hb.expectation_maximization(
        ARCS, rows, "mte", max_iterations=1, random_state=0
    ),
    "networks by structural EM": lambda rows: structural_em(rows, "c", "naive_bayes", "gaussian", rounds=1),
    "imputation models": lambda rows: hb.impute(rows, random_state=0, rounds=1),
    "ensembles with weights, priors or held-out rows": lambda rows: hb.boost(
        rows, "c", "naive_bayes", rounds=1, potentials="gaussian", priors=[0.5, 0.5]
    ),
    "shares of other decisions": lambda rows: ensemble().disagreement(network(), rows),
    "errors of the networks": lambda rows: plot_boosting(ensemble(), rows, ax=Figure().add_subplot()),
    "replicates of a bootstrap": lambda rows: hb.bootstrap(naive_bayes, rows, 2, target="c", potentials="gaussian"),
    "log densities": lambda rows: hb.compare(network(), network(), rows),
    "densities that are neither tables nor normal": lambda rows: hill_climb(rows.select(["c", "x"]), "kernel"),
    "discriminant functions": lambda rows: discriminant(rows, "c", "gaussian"),
    "logistic regressions": lambda rows: logistic(rows, "c", "gaussian"),
}


@pytest.mark.parametrize("purpose", LEARNED)
def test_what_is_learned_from_a_sample_says_so(purpose: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        LEARNED[purpose](hb.scan(frame(), sample=20))
    words = [str(each.message) for each in told]
    wanted = re.escape(f"{purpose} are learned from a sample of 20 of 60 rows; scan(..., sample=n)")
    assert any(re.match(wanted, each) for each in words), words
