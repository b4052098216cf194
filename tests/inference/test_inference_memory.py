"""Large published networks within stated limits of memory, each in a process of its own; run with -s to see the
figures.
"""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import textwrap
import tracemalloc
import warnings

import numpy as np
import pytest
from inference_tools import pgmpy_file

import hybridbn as hb
from hybridbn.errors import TooWide
from hybridbn.inference import solutions
from hybridbn.inference.posteriors import continuous

HEADER = """
import json, resource, sys, time
import numpy as np
import hybridbn as hb
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
net = hb.read_network(sys.argv[1])
before = peak()
start = time.perf_counter()
"""
FOOTER = """
report.update(seconds=time.perf_counter() - start, before=before, peak=peak())
print(json.dumps(report))
"""


def limited(path, gigabytes: float, body: str) -> dict:
    """Run statements with the address space limited; they leave what they found in `report`."""
    resource = pytest.importorskip("resource")

    def limit() -> None:
        # the interpreter and its libraries reserve some address space that they never use
        space = int((gigabytes + 0.75) * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (space, space))

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEADER + textwrap.dedent(body) + FOOTER, str(path)],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=1200,
        env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": ""},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    print(path.name, {k: round(v, 2) if isinstance(v, float) else v for k, v in report.items()})
    return report


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pigs", "munin1"])
def test_all_marginals_within_two_gigabytes(name):
    report = limited(
        pgmpy_file(f"{name}.bif.gz"),
        2,
        """
        found = net.posteriors()
        report = {"nodes": len(found), "worst": max(abs(p.probabilities.sum() - 1) for p in found.values())}
        """,
    )
    assert report["worst"] < 1e-9
    assert report["peak"] < 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["link", "diabetes"])
def test_single_queries_within_four_gigabytes(name):
    report = limited(
        pgmpy_file(f"{name}.bif.gz"),
        4,
        """
        rng = np.random.default_rng(0)
        names = list(net)
        case = net.sample(1, 0).iloc[0].to_dict()
        leaves = [n for n in names if not net.out_degree(n)]
        evidence = {str(n): case[n] for n in rng.choice(leaves, min(5, len(leaves)), replace=False)}
        worst = 0.0
        times = []
        for target in rng.choice([n for n in names if n not in evidence], 4, replace=False):
            began = time.perf_counter()
            prior, post = net.posterior(str(target)), net.posterior(str(target), evidence)
            times.append(time.perf_counter() - began)
            worst = max(worst, abs(prior.probabilities.sum() - 1), abs(post.probabilities.sum() - 1))
        report = {"worst": worst, "slowest": max(times)}
        """,
    )
    assert report["worst"] < 1e-9
    assert report["peak"] < 4


@pytest.mark.slow
def test_a_lower_budget_is_kept():
    net = hb.read_network(pgmpy_file("munin1.bif.gz"))

    def ask() -> None:
        with pytest.raises(TooWide):
            net.posteriors(max_bytes=1e6)

    # what it takes to plan, and nothing of what it would take to run the plan
    assert traced(ask) < 0.02


@pytest.mark.slow
def test_a_grid_is_refused_before_anything_is_allocated():
    resource = pytest.importorskip("resource")
    variables = {(i, j): hb.Discrete(f"x{i}_{j}", (0, 1)) for i in range(30) for j in range(30)}
    rng = np.random.default_rng(0)
    potentials = []
    for (i, j), variable in variables.items():
        parents = [variables[p] for p in ((i - 1, j), (i, j - 1)) if p in variables]
        potentials.append(hb.Multinomial(variable, parents, table=rng.dirichlet([1, 1], size=[2] * len(parents))))
    net = hb.Network(potentials)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for ask in (net.posteriors, lambda: net.posterior("x15_15", {"x29_29": 0})):
        with pytest.raises(TooWide):
            ask()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@pytest.mark.slow
def test_a_million_rows_stay_below_a_gigabyte():
    report = limited(
        pgmpy_file("alarm.bif.gz"),
        4,
        """
        import pandas as pd
        rng = np.random.default_rng(0)
        frame = net.sample(1_000_000, 0)
        frame = frame.mask(rng.random(frame.shape) < 0.3).astype("category")
        before = peak()
        start = time.perf_counter()
        post = net.posterior("LVFAILURE", frame)
        assert np.isfinite(post.probabilities).all()
        report = {"added": peak() - before}
        """,
    )
    assert report["added"] < 1


def kernel_and_class(rng):
    """A hidden number that needs nodes, seen through a class and another number."""
    x, y, c = hb.Continuous("x"), hb.Continuous("y"), hb.Discrete("c", ("a", "b"))
    places = np.column_stack([rng.normal(size=8), rng.normal(size=8)])
    return hb.Network(
        [
            hb.Kernel(x, points=rng.normal(size=(8, 1)), bandwidths=[0.4]),
            hb.Kernel(y, parents=(x,), points=places, bandwidths=[0.4, 0.4]),
            hb.Softmax(c, parents=(x,), intercept=[0, 0], coefficients=[[1], [-1]]),
        ]
    )


def rows_of_kernels(rng, rows):
    values = rng.normal(size=rows)
    values[::7] = np.nan
    values[3::50] = values[3]
    return hb.Table({"y": values, "c": rng.choice(["a", "b", None], rows)})


@pytest.mark.slow
def test_densities_that_are_not_kept_are_worked_out_again(monkeypatch):
    rng = np.random.default_rng(0)
    net, frame = kernel_and_class(rng), rows_of_kernels(rng, 200)
    kept = net.posterior("x", frame)
    monkeypatch.setattr(solutions, "KEPT_BYTES", 1000)
    monkeypatch.setattr(solutions, "BLOCK_ROWS", 64)
    again = net.posterior("x", frame)
    assert isinstance(again, continuous.LazyPosterior)
    assert not isinstance(kept, continuous.LazyPosterior)
    points = [-1.0, 0.3, 2.0]
    for ask in (
        lambda post: post.mean(),
        lambda post: post.var(),
        lambda post: post.pdf(points),
        lambda post: post.cdf(points),
        lambda post: post.quantile([0.1, 0.9]),
        lambda post: post.entropy(),
        lambda post: post.sample(2, random_state=0),
        lambda post: post[[5, 3, 5]].quantile(0.3),
        lambda post: post[np.arange(150)].cdf(0.1),
        lambda post: [post[7].mean(), post[7].pdf(0.2), post[7].quantile(0.5)],
        lambda post: post.error,
        lambda post: post[3:9].log_evidence,
    ):
        np.testing.assert_allclose(ask(again), ask(kept), rtol=1e-12, atol=1e-14)
    # heights tell a peak's place to the square root of their precision
    np.testing.assert_allclose(again.mode(), kept.mode(), rtol=1e-6)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(again)).median(), kept.median(), rtol=1e-12, atol=1e-14)


def test_impossible_rows_of_densities_that_are_not_kept(monkeypatch):
    x, y = hb.Continuous("x"), hb.Continuous("y", domain=(0, 10))
    parts = [hb.Piece({"y": (0, 5)}, constant=0.2)]
    net = hb.Network(
        [
            hb.MTE(y, pieces=parts),
            hb.Density(x, parents=(y,), function=lambda x, y: np.exp(-((x - y) ** 2) / 2) / np.sqrt(2 * np.pi)),
        ]
    )
    frame = hb.Table({"y": [1.0, 7.0, 2.0, 1.0]})
    kept = net.posterior("x", frame, impossible="nan")
    monkeypatch.setattr(solutions, "KEPT_BYTES", 10)
    post = net.posterior("x", frame, impossible="nan")
    assert isinstance(post, continuous.LazyPosterior)
    for one in (kept, post):
        for values in (one.mean(), one.cdf(-90.0), one.cdf(1.0), one.median(), one.mode(), one.entropy()):
            np.testing.assert_array_equal(np.isnan(values), [False, True, False, False])
        assert np.isnan(one[np.array([1, 0])].mean()).tolist() == [True, False]
        assert one.mean()[0] == pytest.approx(1.0, abs=1e-9)


def test_mixtures_on_nodes_are_digested_too(monkeypatch):
    rng = np.random.default_rng(1)
    x, y, z = hb.Continuous("x"), hb.Continuous("y"), hb.Continuous("z")
    net = hb.Network(
        [
            hb.Kernel(x, points=rng.normal(size=(8, 1)), bandwidths=[0.4]),
            hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[1], variance=0.5),
            hb.LinearGaussian(z, parents=(x, y), intercept=1, coefficients=[1, 2], variance=0.5),
        ]
    )
    frame = hb.Table({"x": np.full(200, np.nan), "z": rng.normal(size=200)})
    kept = net.posteriors(frame)
    monkeypatch.setattr(solutions, "KEPT_BYTES", 1000)
    again = net.posteriors(frame)
    for name in ("x", "y"):
        assert isinstance(again[name], continuous.LazyPosterior)
        np.testing.assert_allclose(again[name].mean(), kept[name].mean(), rtol=1e-12)
        np.testing.assert_allclose(again[name].quantile(0.2), kept[name].quantile(0.2), rtol=1e-10)


def traced(work) -> float:
    """Return the most memory in GB that some work took at a time, beyond what there was."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**30
    finally:
        tracemalloc.stop()


def test_chunks_are_not_kept():
    """Rows that share a grid: 8,000 densities of some 20 cells each would be 0.02 GB; everything beside it is one
    chunk.
    """
    rng = np.random.default_rng(0)
    net, frame = kernel_and_class(rng), rows_of_kernels(rng, 8000)
    net.posterior("x", {"c": "a"})
    assert traced(lambda: net.posterior("c", frame.select(["y"]))) < 0.03
    assert traced(lambda: net.log_evidence(frame.select(["y"]))) < 0.03


@pytest.mark.slow
def test_a_hundred_thousand_rows_with_nodes_stay_below_half_a_gigabyte():
    rng = np.random.default_rng(0)
    net, frame = kernel_and_class(rng), rows_of_kernels(rng, 100_000)

    def ask():
        post = net.posterior("x", frame)
        assert np.isfinite(post.mean()).all()
        assert np.isfinite(post.var()).all()

    used = traced(ask)
    print("100,000 rows with nodes took", round(used, 2), "GB")
    assert used < 0.7


@pytest.mark.parametrize("method", ["entropy", "mode"])
def test_integrals_over_all_cells_take_little_memory(method):
    state, number, seen = hb.Discrete("state", ("a", "b")), hb.Continuous("number"), hb.Continuous("seen")
    net = hb.Network(
        [
            hb.Multinomial(state, table=[0.4, 0.6]),
            hb.LinearGaussian(number, (state,), intercept=[0, 1], variance=[1, 0.1]),
            hb.LinearGaussian(seen, (number,), intercept=0, coefficients=[1], variance=1),
        ]
    )
    posterior = net.posterior("number", hb.Table({"seen": np.linspace(-3, 3, 3000)}))
    answers = []
    assert traced(lambda: answers.append(getattr(posterior, method)())) < 0.2
    assert answers[0][2700] == pytest.approx(getattr(posterior[2700], method)(), rel=1e-9)


def numbers_and_classes(count: int, pairs: bool) -> hb.Network:
    """A chain of numbers with a class below each, or with classes below pairs of three, which close a ring."""
    numbers = [hb.Continuous(f"z{i}") for i in range(count)]
    potentials: list[hb.Potential] = [hb.LinearGaussian(numbers[0], intercept=0, variance=1)]
    for parent, child in itertools.pairwise(numbers):
        potentials.append(hb.LinearGaussian(child, (parent,), intercept=0, coefficients=[0.6], variance=1))
    for i in range(count):
        parents = [numbers[i], numbers[(i + 1) % count]][: 1 + pairs]
        slopes = [[0, 0], [6, -4]] if pairs else [[0], [2]]
        potentials.append(hb.Softmax(hb.Discrete(f"s{i}", (0, 1)), parents, intercept=[0, 0], coefficients=slopes))
    return hb.Network(potentials)


@pytest.mark.parametrize(
    ("count", "pairs", "rows", "megabytes"),
    [(4, False, 20, 32), *(pytest.param(3, True, *case, marks=pytest.mark.slow) for case in ((40, 128), (9, 2048)))],
)
def test_rows_with_holes_take_no_more_than_they_may(count, pairs, rows, megabytes):
    """Rows that hide all numbers need a table over them, which is too large to be kept for all rows."""
    net = numbers_and_classes(count, pairs)
    net.posterior("z0", {"z1": 0.0})
    table = net.sample(rows, random_state=0)
    table = table.mask(np.random.default_rng(2).random(table.shape) < 0.4).drop(columns="z0")
    found = {}

    def ask() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["means"] = net.posterior("z0", table, max_bytes=megabytes * 2**20).mean()

    assert traced(ask) < 1.2 * min(megabytes, 512) / 2**10
    alone = [net.posterior("z0", table.iloc[row].dropna().to_dict(), tolerance=1e-3).mean() for row in (0, 3)]
    np.testing.assert_allclose(found["means"][[0, 3]], alone, atol=1e-5)
