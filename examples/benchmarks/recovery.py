"""Find structures again: python examples/benchmarks/recovery.py [--networks asia alarm ...] [--rows 5000] [--pgmpy].

Rows are sampled from networks of the public BIF collection (those that come with pgmpy). `hill_climb`, pyAgrum's greedy
hill climbing and, if asked for (it takes minutes), pgmpy's hill climbing search for the structure by the same score,
BIC. Printed are CPU-seconds, the BIC that hybridbn computes of each structure and of the true one, precision and recall
of the skeleton (arcs whatever their direction), and the structural Hamming distance: the least number of arcs that
come, go, or change direction between the two equivalence classes. Max-min hill climbing and the PC algorithm are there
too, and with --numbers FOLDER Gaussian networks (NAME.json with "arcs", NAME_200.csv.xz, NAME_2000.csv.xz and
NAME_test.csv.xz). Then clusters of mixed tables with holes, beside
scikit-learn's mixtures of normal densities.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rows import Report, parser, seconds, shipped

import hybridbn as hb
from hybridbn.structures import BGe, hill_climb, max_min_hill_climb, mixture, pc_stable
from hybridbn.structures.arcs import find_essential_graph, matrix_of, structural_distance

NETWORKS = ("asia", "sachs", "child", "insurance", "alarm", "win95pts")
Arcs = set[tuple[str, str]]


# -- measures ----------------------------------------------------------------------------------------------------------


def distance(found: Arcs, true: Arcs) -> int:
    """Return the structural Hamming distance of two equivalence classes."""
    names = sorted({name for arc in found | true for name in arc})
    return structural_distance(*(find_essential_graph(matrix_of(arcs, names)).arcs for arcs in (found, true)))


def skeleton(arcs: Iterable[tuple[str, str]]) -> set[frozenset[str]]:
    return {frozenset(arc) for arc in arcs}


def bic(table: hb.Table, arcs: Arcs) -> float:
    from hybridbn.structures.scores import FamilyScores
    from hybridbn.structures.training_data import read_data_without_target

    scores = FamilyScores(read_data_without_target(table, "gaussian", None))
    return sum(scores(name, tuple(a for a, b in arcs if b == name)) for name in table.names)


# -- peers -------------------------------------------------------------------------------------------------------------


def by_pyagrum(table: hb.Table) -> Callable[[], Arcs]:
    import pyagrum

    codes = pd.DataFrame({name: table[name].astype(int).astype(str) for name in table.names})
    template = pyagrum.BayesNet()
    for name in table.names:
        template.add(pyagrum.LabelizedVariable(name, "", [str(code) for code in range(len(table.variable(name)))]))

    def learned() -> Arcs:
        learner = pyagrum.BNLearner(codes, template)
        learner.useGreedyHillClimbing()
        learner.useScoreBIC()
        learner.setNumberOfThreads(1)
        return {(table.names[a], table.names[b]) for a, b in learner.learnDAG().arcs()}

    return learned


def by_pgmpy(table: hb.Table) -> Callable[[], Arcs]:
    from pgmpy.estimators import HillClimbSearch

    frame = table.to_pandas().astype("category")

    def learned() -> Arcs:
        return set(HillClimbSearch(frame).estimate(scoring_method="bic-d", show_progress=False).edges())

    return learned


def bench_recovery(report: Report, name: str, rows: int, seed: int, with_pgmpy: bool) -> None:
    network = hb.read_network(shipped(name))
    frame = network.sample(rows, random_state=seed)
    table = hb.Table(frame, variables=[network.variable(column) for column in frame])
    true = set(network.edges)
    jobs: dict[str, Callable[[], Arcs]] = {
        "hybridbn": lambda: set(hill_climb(table).edges),
        "max-min": lambda: set(max_min_hill_climb(table).edges),
        "PC": lambda: set(pc_stable(table).edges),
    }
    row = f"hill_climb, {name}, {rows:,} rows, seed {seed}"
    if report.ours:
        return report.show(row, seconds(jobs["hybridbn"])[0])
    jobs["pyAgrum"] = by_pyagrum(table)
    if with_pgmpy:
        jobs["pgmpy"] = by_pgmpy(table)
    times = {}
    print(
        f"{name}: {len(network)} nodes, {len(true)} arcs, {rows:,} rows, BIC of the true structure "
        f"{bic(table, true):.0f}"
    )
    for who, job in jobs.items():
        times[who], found = seconds(job)
        common = len(skeleton(found) & skeleton(true))
        print(
            f"  {who:9} {times[who]:8.3f} s   BIC {bic(table, found):12.0f}   precision "
            f"{common / max(len(found), 1):.2f}   "
            f""
            f"recall {common / len(true):.2f}   distance {distance(found, true):3d}",
            flush=True,
        )
    return report.add(row, times["hybridbn"], times["pyAgrum"])


# -- numbers -----------------------------------------------------------------------------------------------------------


def bench_numbers(report: Report, folder: Path) -> None:
    """Find Gaussian networks again, and look at the likelihood of rows that were held out.

    The empty network has a distance of its number of arcs.
    """
    for path in sorted(folder.glob("*.json")):
        true = {(str(a), str(b)) for a, b in json.loads(path.read_text())["arcs"]}
        held_out = pd.read_csv(path.with_name(f"{path.stem}_test.csv.xz")).astype(float)
        for rows in (200, 2000):
            frame = pd.read_csv(path.with_name(f"{path.stem}_{rows}.csv.xz")).astype(float)
            jobs: dict[str, Callable[[], hb.Network]] = {
                "empty": lambda f=frame: hb.fit([], f, "gaussian"),
                "hill_climb": lambda f=frame: hill_climb(f, "gaussian"),
                "hill_climb, BGe": lambda f=frame: hill_climb(f, "gaussian", score=BGe()),
                "max-min": lambda f=frame: max_min_hill_climb(f, "gaussian"),
                "max-min, BGe": lambda f=frame: max_min_hill_climb(f, "gaussian", score=BGe()),
                "PC": lambda f=frame: pc_stable(f, "gaussian"),
            }
            print(f"{path.stem}: {frame.shape[1]} numbers, {len(true)} arcs, {rows:,} rows")
            for who, job in jobs.items():
                spent, net = seconds(job)
                if who != "empty":
                    report.add(f"{path.stem}, {rows:,} rows, {who}", spent)
                likelihood = float(np.mean(net.log_density(held_out[list(net)])))
                print(
                    f"  {who:16} {spent:7.3f} s   {net.number_of_edges():4d} arcs   distance"
                    f" {distance(set(net.edges), true):4d}   held-out log likelihood {likelihood:8.2f}",
                    flush=True,
                )


# -- clusters ----------------------------------------------------------------------------------------------------------


def simulated(rows: int, groups: int, apart: float, missing: float, seed: int) -> tuple[dict[str, Any], np.ndarray]:
    """Return ten numbers and ten categories of rows in groups, with holes."""
    rng = np.random.default_rng(seed)
    group = rng.integers(groups, size=rows)
    data: dict[str, Any] = {}
    for number in range(10):
        column = apart * rng.normal(size=groups)[group] + rng.normal(size=rows) * rng.uniform(0.5, 1.5, groups)[group]
        data[f"x{number}"] = np.where(rng.random(rows) < missing, np.nan, column)
    for number in range(10):
        shares = rng.dirichlet(np.full(5, 0.5), size=groups)[group].cumsum(axis=1)
        codes = (shares[:, :-1] < rng.random(rows)[:, None]).sum(axis=1)
        column = np.array(list("abcde"), dtype=object)[codes]
        column[rng.random(rows) < missing] = None
        data[f"c{number}"] = column
    return data, group


def indicators(data: dict[str, Any], numbers_only: bool) -> np.ndarray:
    """Return the table with means in the holes of numbers, and an indicator for each state."""
    columns = []
    for column in data.values():
        if column.dtype != object:
            columns.append(np.nan_to_num((column - np.nanmean(column)) / np.nanstd(column)))
        elif not numbers_only:
            columns += [(column == state).astype(float) for state in "abcde"]
    return np.stack(columns, axis=1)


def bench_clusters(report: Report, rows: int, groups: int = 5) -> None:
    from sklearn.metrics import adjusted_rand_score
    from sklearn.mixture import GaussianMixture

    for apart, missing in ((1.5, 0.0), (1.5, 0.2), (0.7, 0.2)):
        data, group = simulated(rows, groups, apart, missing, 0)
        table = hb.Table(data)

        def ours(table: hb.Table = table, **options: Any) -> tuple[np.ndarray, int]:
            net = mixture(table, **options)
            return net.posterior("cluster", table).probabilities.argmax(axis=1), len(net.variable("cluster"))

        def peer(numbers_only: bool, data: dict[str, Any] = data) -> tuple[np.ndarray, int]:
            columns = indicators(data, numbers_only)
            model = GaussianMixture(groups, covariance_type="diag", n_init=5, reg_covar=1e-3, random_state=0)
            return model.fit_predict(columns), groups

        jobs: dict[str, Callable[[], tuple[np.ndarray, int]]] = {
            f"hybridbn, {groups} components": lambda f=ours: f(components=groups),
            "hybridbn, number by held-out rows": ours,
            "hybridbn, number by BIC": lambda f=ours: f(criterion="bic"),
            "GaussianMixture, indicators": lambda f=peer: f(False),
            "GaussianMixture, numbers only": lambda f=peer: f(True),
        }
        print(f"clusters: {rows:,} x 20, {groups} groups {apart} apart, {missing:.0%} of the cells missing")
        for who, job in jobs.items():
            if report.ours and not who.startswith("hybridbn, 5"):
                continue
            spent, (found, number) = seconds(job)
            if who.startswith("hybridbn"):
                report.add(f"clusters, {rows:,} rows, {apart} apart, {missing:.0%} missing, {who[10:]}", spent)
            print(f"  {who:34} {spent:7.3f} s   {number} found   adjusted Rand {adjusted_rand_score(group, found):.3f}")


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--networks", nargs="*", default=NETWORKS)
    options_parser.add_argument("--rows", type=int, default=5000)
    options_parser.add_argument("--seeds", type=int, default=1)
    options_parser.add_argument("--numbers", type=Path, help="a folder of Gaussian networks with samples")
    options_parser.add_argument("--pgmpy", action="store_true", help="pgmpy's hill climbing too")
    options = options_parser.parse_args()
    with Report(options) as report:
        for name in options.networks:
            for seed in range(options.seeds):
                report.run(bench_recovery, name, options.rows, seed, options.pgmpy)
        if options.numbers is not None:
            report.run(bench_numbers, options.numbers)
        report.run(bench_clusters, 2000 if options.ours else 10_000)


if __name__ == "__main__":
    main()
