"""Time builders beside peers: python examples/benchmarks/structures.py [file.arff, the target last].

Naive Bayes with its predictions beside scikit-learn's CategoricalNB (100,000 rows, 20 discrete columns); tree-augmented naive
Bayes beside the counting alone, done by hand with grouped and with plain bincounts (2,000,000 rows, 20 columns); and with
mixtures of truncated exponentials on the table of the file, if one is given. CPU-seconds of this process, the best of
several turns; set OMP_NUM_THREADS=1 where other processes run. Searches for structures are compared by recovery.py.
"""

from __future__ import annotations

import gc
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.naive_bayes import CategoricalNB

import hybridbn as hb
from hybridbn.fitting import Dirichlet, MultinomialFitter
from hybridbn.structures import naive_bayes, selective_naive_bayes, tan

COLUMNS = 20


def made(rows: int, states: int, classes: int) -> dict[str, NDArray[Any]]:
    """Columns along a chain, given a class."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    data = {"y": y}
    above = y
    for j in range(COLUMNS):
        above = (rng.integers(0, states, rows) + above * (rng.random(rows) < 0.4)) % states
        data[f"x{j:02}"] = above
    return data


def timed(jobs: dict[str, Callable[[], Any]], repeats: int = 5) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the best CPU time and the result of each job; they take turns, so that a busy machine slows all alike."""
    best, results = dict.fromkeys(jobs, float("inf")), {}
    for _ in range(repeats):
        for name, job in jobs.items():
            gc.collect()
            start = time.process_time()
            results[name] = job()
            best[name] = min(best[name], time.process_time() - start)
    return best, results


def shown(title: str, best: dict[str, float]) -> None:
    first = next(iter(best.values()))
    print(title)
    for name, seconds in best.items():
        print(f"  {name:44} {seconds:8.4f} s   {first / seconds:5.2f}")


def bench_naive_bayes(rows: int) -> None:
    data = made(rows, 8, 4)
    table = hb.Table(data, discrete=list(data))
    x, y = np.stack([column for name, column in data.items() if name != "y"], axis=1), data["y"]
    fitter = MultinomialFitter(estimate=Dirichlet(1))
    net, peer = naive_bayes(table, "y", fitter), CategoricalNB().fit(x, y)
    best, results = timed({
        "hybridbn: fit": lambda: naive_bayes(table, "y", fitter),
        "scikit-learn: fit": lambda: CategoricalNB().fit(x, y),
        "hybridbn: predict": lambda: net.posterior("y", table).probabilities,
        "scikit-learn: predict": lambda: peer.predict_proba(x),
    })  # fmt: skip
    apart = np.abs(results["hybridbn: predict"] - results["scikit-learn: predict"]).max()
    both = {
        "hybridbn": best["hybridbn: fit"] + best["hybridbn: predict"],
        "scikit-learn": best["scikit-learn: fit"] + best["scikit-learn: predict"],
    }
    shown(f"naive Bayes, {rows:,} x {COLUMNS}, fit and predict (greatest difference {apart:.1g})", both | best)


def grouped(
    columns: list[NDArray[Any]], size: int, y: NDArray[Any], classes: int
) -> dict[tuple[int, int], NDArray[Any]]:
    """Count all pairs by the design of 45 blocks: pairs of attributes, two by two, in rows that stay in the cache."""
    groups = [(j, j + 1) for j in range(0, len(columns), 2)]
    blocks = list(itertools.combinations(groups, 2))
    counts = [np.zeros(classes * size**4) for _ in blocks]
    for start in range(0, len(y), 32768):
        part = slice(start, start + 32768)
        joint = {group: columns[group[0]][part] * size + columns[group[1]][part] for group in groups}
        head = {group: y[part] * size**2 + joint[group] for group in groups}
        for (first, second), total in zip(blocks, counts, strict=True):
            total += np.bincount(head[first] * size**2 + joint[second], minlength=len(total))
    pairs = {}
    for block, total in zip(blocks, counts, strict=True):
        table = total.reshape(classes, *[size] * 4)
        members = [*block[0], *block[1]]
        for a, b in itertools.combinations(range(4), 2):
            summed = tuple(1 + other for other in range(4) if other not in (a, b))
            pairs.setdefault((members[a], members[b]), table.sum(axis=summed))
    return pairs


def plain(columns: list[NDArray[Any]], size: int, y: NDArray[Any], classes: int) -> dict[tuple[int, int], NDArray[Any]]:
    """Count each pair for itself."""
    heads = [(y * size + column) * size for column in columns]
    return {
        (i, j): np.bincount(heads[i] + columns[j], minlength=classes * size**2).reshape(classes, size, size)
        for i, j in itertools.combinations(range(len(columns)), 2)
    }


def bench_tan(rows: int) -> None:
    size, classes = 5, 4
    data = made(rows, size, classes)
    table = hb.Table(data, discrete=list(data))
    columns = [table[name] for name in table.names if name != "y"]
    best, results = timed({
        "hybridbn: structure and parameters": lambda: tan(table, "y"),
        "grouped bincounts, counting only": lambda: grouped(columns, size, table["y"], classes),
        "190 bincounts, counting only": lambda: plain(columns, size, table["y"], classes),
    }, repeats=3)  # fmt: skip
    net = results["hybridbn: structure and parameters"]
    for arc in net.edges:
        if "y" in arc:
            continue
        i, j = sorted(int(name[1:]) for name in arc)
        counts = [results[name][i, j] for name in results if name.endswith("only")]
        potential = net.potential(arc[1])
        table_of_arc = counts[0] if arc[1] > arc[0] else counts[0].transpose(0, 2, 1)
        assert np.array_equal(*counts)
        np.testing.assert_allclose(potential.table, MultinomialFitter().estimate(table_of_arc), rtol=1e-12)
    shown(f"tree-augmented naive Bayes, {rows:,} x {COLUMNS}", best)


def bench_file(path: str) -> None:
    table = hb.read_table(path)
    target = table.names[-1]
    builders = {"naive_bayes": naive_bayes, "tan": tan, "selective_naive_bayes": selective_naive_bayes}
    best, _ = timed({name: lambda build=build: build(table, target) for name, build in builders.items()}, repeats=2)
    shown(f"mixtures of truncated exponentials, {len(table)} x {len(table.names) - 1}", best)


if __name__ == "__main__":
    bench_naive_bayes(100_000)
    bench_tan(2_000_000)
    for path in sys.argv[1:]:
        bench_file(path)
