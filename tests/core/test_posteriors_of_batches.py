"""Posteriors of rows that are read in passes have the methods, the types and the answers of those in memory."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.inference.posteriors.base import DiscretePosterior, Posterior
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.posteriors.joint import JointPosterior

pa = pytest.importorskip("pyarrow")

ROWS = 24
MASK = np.arange(ROWS) % 7 == 0


def make_table() -> Any:
    rng = np.random.default_rng(3)
    c = rng.integers(2, size=ROWS)
    x = 2.0 * c + rng.normal(size=ROWS)
    holes = rng.random((3, ROWS)) < 0.2
    columns = {
        "c": [("n", "p")[code] for code in c],
        "x": x.tolist(),
        "y": (x - c + rng.normal(size=ROWS)).tolist(),
    }
    return pa.table(
        {
            name: [None if hole else cell for cell, hole in zip(cells, gaps, strict=True)]
            for (name, cells), gaps in zip(columns.items(), holes, strict=True)
        }
    )


TABLE = make_table()
SCAN = hb.scan(pa.concat_tables([TABLE.slice(start, 8) for start in range(0, ROWS, 8)]))
NETWORKS = {
    "gaussian": hb.fit([("c", "x"), ("x", "y"), ("c", "y")], TABLE, "gaussian"),
    "mte": hb.structures.naive_bayes(TABLE, "c", potentials="mte"),
    "softmax": hb.fit([("x", "c"), ("x", "y")], TABLE, {"c": "softmax", "x": "gaussian", "y": "gaussian"}),
}
COMMON: dict[str, Callable[[Any], Any]] = {
    "length": lambda post: len(post),
    "error": lambda post: post.error,
    "log_evidence": lambda post: post.log_evidence,
    "limits of log_evidence": lambda post: post.log_evidence_bounds,
    "mode": lambda post: post.mode(),
    "entropy": lambda post: post.entropy(),
    "draw": lambda post: post.sample(random_state=1),
    "draws": lambda post: post.sample(3, random_state=1),
    "a row": lambda post: post[14].mode(),
    "type of a row": lambda post: (type(post[14]), post[14].single),
    "last row": lambda post: post[-1].mode(),
    "mask": lambda post: post[MASK].mode(),
    "slice": lambda post: post[5:20].log_evidence,
    "list": lambda post: post[[20, 3, 10, 3]].entropy(),
    "no rows": lambda post: len(post[[]]),
    "iteration": lambda post: [type(row) for row in post],
}
DISCRETE: dict[str, Callable[[Any], Any]] = {
    "probabilities": lambda post: post.probabilities,
    "probability": lambda post: post["p"],
    "states": lambda post: post.states,
    "bounds": lambda post: post.bounds,
    "confidence": lambda post: post.confidence,
}
CONTINUOUS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda post: post.mean(),
    "std": lambda post: post.std(),
    "median": lambda post: post.median(),
    "interval": lambda post: post.interval(0.8),
    "pdf": lambda post: post.pdf([0.0, 1.5]),
    "cdf": lambda post: post.cdf(0.5),
    "nothing": lambda post: post.pdf([]),
    "pit": lambda post: post.pit(np.linspace(-1, 2, ROWS)),
    "crps": lambda post: post.crps(np.linspace(-1, 2, ROWS)),
    "log_score": lambda post: post.log_score(np.linspace(-1, 2, ROWS)),
    "means of some": lambda post: post[MASK].mean(),
    "selection of a selection": lambda post: post[MASK][3:].quantile([0.2, 0.7]),
}
CASES = [
    *((name, "c", ask) for name in NETWORKS for ask in COMMON | DISCRETE),
    *((name, "x", ask) for name in NETWORKS for ask in COMMON | CONTINUOUS),
]


@functools.cache
def infer(name: str, target: str) -> tuple[Posterior, Posterior]:
    """Return posteriors of the rows in passes and in memory, inferred together.

    What other tests have asked of a network of the same potentials may have refined its cells, and so the estimated
    error.
    """
    batches, memory = (NETWORKS[name].posterior(target, rows) for rows in (SCAN, hb.Table(TABLE)))
    return batches, memory


@pytest.mark.parametrize(("name", "target", "ask"), CASES)
def test_batches_answer_as_memory_does(name: str, target: str, ask: str) -> None:
    lazy, known = infer(name, target)
    assert isinstance(lazy, Posterior)
    assert isinstance(lazy, DiscretePosterior if target == "c" else ContinuousPosterior)
    question = (COMMON | DISCRETE | CONTINUOUS)[ask]
    mine, memory = question(lazy), question(known)
    # the search for a maximum ends within the square root of rounding
    compare(mine, memory, rtol=1e-6 if "mode" in question.__code__.co_names else 1e-10)


def compare(mine: Any, known: Any, rtol: float) -> None:
    """Hold answers against each other, their types too."""
    assert type(mine) is type(known)
    if isinstance(known, list | tuple):
        assert len(mine) == len(known)
        for one, other in zip(mine, known, strict=True):
            compare(one, other, rtol)
    elif isinstance(known, float) or getattr(known, "dtype", np.dtype(object)).kind == "f":
        np.testing.assert_allclose(mine, known, rtol=rtol, atol=1e-12)
    else:
        np.testing.assert_array_equal(mine, known)


def test_joint_posteriors_of_batches_answer_as_memory_does() -> None:
    network = NETWORKS["gaussian"]
    lazy, known = (network.posterior(["c", "x"], rows) for rows in (SCAN, hb.Table(TABLE)))
    assert isinstance(lazy, JointPosterior)
    assert len(lazy) == len(known)
    np.testing.assert_allclose(lazy.mean(), known.mean(), rtol=1e-12)
    np.testing.assert_allclose(lazy.cov(), known.cov(), rtol=1e-12)
    np.testing.assert_allclose(lazy.log_evidence, known.log_evidence, rtol=1e-12)
    np.testing.assert_allclose(lazy[3:30].pdf(c="p", x=1.0), known[3:30].pdf(c="p", x=1.0), rtol=1e-12)
    assert lazy.sample(2, random_state=0).equals(known.sample(2, random_state=0))
    one, other = (network.posterior(["c"], rows).probabilities for rows in (SCAN, hb.Table(TABLE)))
    np.testing.assert_allclose(one, other, rtol=1e-12)


def test_strange_names_are_refused_at_once() -> None:
    with pytest.raises(hb.HybridBNError, match="'z'"):
        NETWORKS["gaussian"].posterior("z", SCAN)
    with pytest.raises(AttributeError):
        as_discrete(NETWORKS["gaussian"].posterior("c", SCAN)).such  # type: ignore[attr-defined]  # noqa: B018  it is looked up
