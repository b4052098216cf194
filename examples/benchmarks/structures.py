"""Time builders beside peers: python examples/benchmarks/structures.py [file.arff, the target last].

Naive Bayes with its predictions beside scikit-learn's CategoricalNB (100,000 rows, 20 discrete columns); tree-augmented
naive Bayes beside the counting alone, done by hand with grouped and with plain bincounts (2,000,000 rows, 20 columns);
all builders on a mixed table; and with mixtures of truncated exponentials on the table of the file, if one is given.
CPU-seconds of this process, the best of several turns; set OMP_NUM_THREADS=1 where other processes run. Searches for
structures are compared by recovery.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rows import Report, parser, seconds, take_turns

import hybridbn as hb
from hybridbn import structures
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


def shown(title: str, best: dict[str, float]) -> None:
    first = next(iter(best.values()))
    print(title)
    for name, spent in best.items():
        print(f"  {name:44} {spent:8.4f} s   {first / spent:5.2f}")


def bench_naive_bayes(report: Report, rows: int) -> None:
    data = made(rows, 8, 4)
    table = hb.Table(data, discrete=list(data))
    x, y = np.stack([column for name, column in data.items() if name != "y"], axis=1), data["y"]
    fitter = MultinomialFitter(estimate=Dirichlet(1))
    net = naive_bayes(table, "y", fitter)
    jobs: dict[str, Callable[[], Any]] = {
        "hybridbn: fit": lambda: naive_bayes(table, "y", fitter),
        "hybridbn: predict": lambda: net.posterior("y", table).probabilities,
    }
    if not report.ours:
        from sklearn.naive_bayes import CategoricalNB

        peer = CategoricalNB().fit(x, y)
        jobs["scikit-learn: fit"] = lambda: CategoricalNB().fit(x, y)
        jobs["scikit-learn: predict"] = lambda: peer.predict_proba(x)
    best, results = take_turns(jobs, 5)
    for work in ("fit", "predict"):
        report.add(
            f"naive Bayes, {work}, {rows:,} x {COLUMNS}", best[f"hybridbn: {work}"], best.get(f"scikit-learn: {work}")
        )
    if report.ours:
        return shown(f"naive Bayes, {rows:,} x {COLUMNS}", best)
    apart = np.abs(results["hybridbn: predict"] - results["scikit-learn: predict"]).max()
    both = {
        "hybridbn": best["hybridbn: fit"] + best["hybridbn: predict"],
        "scikit-learn": best["scikit-learn: fit"] + best["scikit-learn: predict"],
    }
    return shown(f"naive Bayes, {rows:,} x {COLUMNS}, fit and predict (greatest difference {apart:.1g})", both | best)


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


def bench_tan(report: Report, rows: int) -> None:
    size, classes = 5, 4
    data = made(rows, size, classes)
    table = hb.Table(data, discrete=list(data))
    columns = [table[name] for name in table.names if name != "y"]
    jobs: dict[str, Callable[[], Any]] = {"hybridbn: structure and parameters": lambda: tan(table, "y")}
    if not report.ours:
        jobs["grouped bincounts, counting only"] = lambda: grouped(columns, size, table["y"], classes)
        jobs["190 bincounts, counting only"] = lambda: plain(columns, size, table["y"], classes)
    best, results = take_turns(jobs, 3)
    ours, *others = best.values()
    report.add(f"tree-augmented naive Bayes, {rows:,} x {COLUMNS}", ours, min(others, default=None))
    if report.ours:
        return shown(f"tree-augmented naive Bayes, {rows:,} x {COLUMNS}", best)
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
    return shown(f"tree-augmented naive Bayes, {rows:,} x {COLUMNS}", best)


def make_mixed(rows: int) -> hb.Table:
    """Six numbers and five categories that depend on three factors; so does the class
    ``c``, and a last number ``y``.
    """
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, 13)) + rng.normal(size=(rows, 13))
    data: dict[str, Any] = {f"x{i}": values[:, i] for i in range(6)}
    data |= {f"k{i}": np.array(list("uvw"))[np.digitize(values[:, 6 + i], (-1, 1))] for i in range(5)}
    return hb.Table(data | {"c": np.array(list("ab"))[(values[:, 11] > 0).astype(int)], "y": values[:, 12]})


def make_states(rows: int, columns: int, states: int) -> hb.Table:
    """Independent columns, the first of two states."""
    rng = np.random.default_rng(0)
    sizes = [2, *[states] * (columns - 1)]
    return hb.Table({f"k{i}": rng.integers(size, size=rows).astype(str) for i, size in enumerate(sizes)})


def bench_builders(report: Report, rows: int) -> None:
    """A builder that this version doesn't have leaves its row out."""
    table = make_mixed(rows)
    small, numbers = table.take(np.arange(rows // 5)), table.select([f"x{i}" for i in range(6)] + ["c"])
    codes = table.select([f"k{i}" for i in range(5)] + ["c"])
    jobs: dict[str, tuple[str, hb.Table, dict[str, Any]]] = {
        "naive_bayes, multinomial": ("naive_bayes", codes, {"target": "c"}),
        "naive_bayes, mte": ("naive_bayes", table, {"target": "c", "potentials": "mte"}),
        "naive_bayes, mte, a number": ("naive_bayes", table, {"target": "y", "potentials": "mte"}),
        "naive_bayes, kernel": ("naive_bayes", small, {"target": "c", "potentials": "kernel"}),
        "naive_bayes, gaussian": ("naive_bayes", table, {"target": "c", "potentials": "gaussian"}),
        "tan, multinomial": ("tan", codes, {"target": "c"}),
        "tan, gaussian": ("tan", table, {"target": "c", "potentials": "gaussian"}),
        "tan, mte": ("tan", small, {"target": "c", "potentials": "mte"}),
        "kdb, multinomial": ("kdb", codes, {"target": "c"}),
        "chow_liu, gaussian": ("chow_liu", table, {"potentials": "gaussian"}),
        "hill_climb, multinomial": ("hill_climb", codes, {}),
        "hill_climb, gaussian": ("hill_climb", table, {"potentials": "gaussian"}),
        "hill_climb, mte": ("hill_climb", small, {"potentials": "mte"}),
        "nb_tree": ("nb_tree", table, {"target": "c"}),
        "model_tree": ("model_tree", table, {"target": "y"}),
        "regression": ("regression", table, {"target": "y"}),
        "selective_naive_bayes": ("selective_naive_bayes", small, {"target": "c"}),
        "class_clusters, 2 a class": ("class_clusters", small, {"target": "c", "clusters": 2}),
        "mixture, 3 components": ("mixture", numbers, {"components": 3}),
        "mixture": ("mixture", numbers, {}),
        "automatic, a number": ("automatic", table, {"target": "y"}),
        "tan, 400 columns of 5 states": ("tan", make_states(rows // 5, 400, 5), {"target": "k0"}),
        "tan, 10 columns of 1,000 states": ("tan", make_states(rows, 10, 1000), {"target": "k0"}),
        "nb_tree, 10 columns of 1,000 states": ("nb_tree", make_states(rows, 10, 1000), {"target": "k0"}),
    }
    print(f"builders, mixed table of {rows:,} rows")
    for name, (builder, data, options) in jobs.items():
        report.run(bench_builder, name, builder, data, options)
    report.run(bench_boost, table)


def bench_builder(report: Report, name: str, builder: str, data: hb.Table, options: dict[str, Any]) -> None:
    ours, _ = seconds(partial(getattr(structures, builder), data, **options), at_least=0.2)
    report.show(f"{name}, {len(data):,} x {len(data.names)}", ours)


def bench_boost(report: Report, table: hb.Table) -> None:
    for name, build in (("naive Bayes", None), ("naive Bayes trees", partial(structures.nb_tree, max_depth=2))):
        ours, _ = seconds(partial(hb.boost, table, "c", build, rounds=10), at_least=0.2)
        report.show(f"boost, 10 rounds, {name}, {len(table):,} x {len(table.names)}", ours)


def bench_file(report: Report, path: str) -> None:
    table = hb.read_table(path)
    target = table.names[-1]
    builders = {"naive_bayes": naive_bayes, "tan": tan, "selective_naive_bayes": selective_naive_bayes}
    best, _ = take_turns({name: partial(build, table, target) for name, build in builders.items()}, 2)
    for name, spent in best.items():
        report.add(f"{name}, {path}", spent)
    shown(f"mixtures of truncated exponentials, {len(table)} x {len(table.names) - 1}", best)


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("paths", nargs="*", metavar="file.arff")
    options = options_parser.parse_args()
    with Report(options) as report:
        report.run(bench_naive_bayes, 100_000)
        report.run(bench_tan, 200_000 if options.ours else 2_000_000)
        report.run(bench_builders, 2000 if options.ours else 10_000)
        for path in options.paths:
            report.run(bench_file, path)


if __name__ == "__main__":
    main()
