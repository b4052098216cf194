"""Time boosted naive Bayes beside scikit-learn, and boosted trees: python examples/benchmarks/boosting.py [rows,
2,000,000 by default].

100 rounds over 20 discrete columns in memory beside AdaBoostClassifier over CategoricalNB, which gets a few rounds and
is extrapolated, as its rounds all take the same; then the time for numbers of rows from a twentieth of that up, with
the slope of its logarithm, and the memory that boosting needs beyond the table, of which nine bytes a row are the
columns' codes. Last come naive Bayes trees of depth 3: ten three-fold cross-validations of 100 boosted ones on 1000
rows, and predictions by a single one for 100,000 rows with a fifth of the cells missing. CPU-seconds of this process;
set OMP_NUM_THREADS=1 where other processes run.
"""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
from rows import Report, parser, seconds

import hybridbn as hb
from hybridbn.structures import nb_tree

COLUMNS, STATES, ROUNDS, PEER_ROUNDS = 20, 5, 100, 3


def made(rows: int) -> dict[str, Any]:
    """Columns whose weighted sum decides on a class: boosting finds something in every round, so all sizes take as many
    passes.
    """
    rng = np.random.default_rng(0)
    columns = {f"x{j:02}": rng.integers(0, STATES, rows, dtype=np.int8) for j in range(COLUMNS)}
    total = np.zeros(rows, np.int32)
    for weight, column in enumerate(columns.values(), start=1):
        total += weight * column.astype(np.int32)
    return columns | {"y": (total > 420).astype(np.int8)}


def peer(data: dict[str, Any], rounds: int) -> tuple[float, Any]:
    from sklearn.ensemble import AdaBoostClassifier
    from sklearn.naive_bayes import CategoricalNB

    x, y = np.stack([column for name, column in data.items() if name != "y"], axis=1), data["y"]
    model = AdaBoostClassifier(CategoricalNB(alpha=1e-9, min_categories=STATES), n_estimators=rounds)
    return seconds(lambda: model.fit(x, y))


def bench_peer(report: Report, rows: int) -> None:
    data = made(rows)
    table = hb.Table(data, discrete=list(data))
    own, ensemble = seconds(lambda: hb.boost(table, "y", rounds=ROUNDS))
    name = f"boosted naive Bayes, {rows:,} x {COLUMNS}, {ROUNDS} rounds"
    if report.ours:
        return report.show(name, own)
    short, model = peer(data, PEER_ROUNDS)
    votes = np.asarray(model.estimator_weights_)
    apart = np.abs(votes - ensemble.votes[: len(votes)]).max()
    other = short * ROUNDS / PEER_ROUNDS
    print(f"AdaBoost over naive Bayes, {rows:,} x {COLUMNS}, {ROUNDS} rounds ({ensemble!r})")
    print(f"  hybridbn, measured                                      {own:9.2f} s")
    print(
        f"  scikit-learn, {PEER_ROUNDS} rounds measured ({short:.2f} s), extrapolated   {other:9.2f} s   "
        f"{other / own:6.1f}"
    )
    print(f"  greatest difference of the votes of {PEER_ROUNDS} rounds (estimates differ): {apart:.1g}")
    return report.add(name, own, other, 10, apart)


def bench_rows(report: Report, most: int) -> None:
    print(f"time by rows, {ROUNDS} rounds; memory beyond the table")
    numbers = [most // 20, most // 10, most // 5, most // 2, most]
    data = made(most)
    spent, peaks = [], []
    for rows in numbers:
        table = hb.Table({name: column[:rows] for name, column in data.items()}, discrete=list(data))
        least, ensemble = seconds(lambda table=table: hb.boost(table, "y", rounds=ROUNDS), 2 if rows < most else 1)
        spent.append(least)
        report.add(f"boosted naive Bayes by rows, {rows:,}", least)
        gc.collect()
        tracemalloc.start()
        hb.boost(table, "y", rounds=16)
        short = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        hb.boost(table, "y", rounds=80)
        peaks.append((short, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
        print(
            f"  {rows:>9,} rows {spent[-1]:9.2f} s   {peaks[-1][0] / 2**20:7.1f} MiB (16 rounds)  "
            f"{peaks[-1][1] / 2**20:7.1f} MiB (80 rounds)   {ensemble.restarts} "
            f"restarts"
        )
    slope = np.polyfit(np.log(numbers), np.log(spent), 1)[0]
    print(f"  slope of log time over log rows: {slope:.3f}")
    for place, rounds in enumerate((16, 80)):
        fit = np.polyfit(numbers, [peak[place] for peak in peaks], 1)
        print(f"  {rounds} rounds: {fit[0]:.1f} bytes a row and {fit[1] / 2**20:.1f} MiB")


def bench_trees(report: Report, turns: int) -> None:
    data = made(1000)
    table, y = hb.Table(data, discrete=list(data)), data["y"]
    rng = np.random.default_rng(0)

    def cross_validate() -> list[float]:
        errors = []
        for _ in range(turns):
            order = rng.permutation(1000)
            for fold in range(3):
                test = order[fold::3]
                training = table.take(np.setdiff1d(order, test))
                ensemble = hb.boost(training, "y", partial(nb_tree, max_depth=3), rounds=ROUNDS)
                errors.append(float(np.mean(ensemble.predict(table.take(test).drop("y")) != y[test])))
        return errors

    spent, errors = seconds(cross_validate)
    report.add("three-fold cross-validation of 100 naive Bayes trees", spent / turns)
    print(f"{turns} three-fold cross-validations of {ROUNDS} trees of depth 3, 1000 x {COLUMNS}")
    print(f"  hybridbn                                                {spent:9.2f} s   error {np.mean(errors):.3f}")
    data = made(100_000)
    holes = {name: np.where(rng.random(len(own)) < 0.2, np.nan, own) for name, own in data.items() if name != "y"}
    table = hb.Table(holes | {"y": data["y"]}, discrete=list(data))
    network, rows = nb_tree(table, "y", max_depth=3), table.drop("y")
    first, _ = seconds(lambda: network.posterior("y", rows))
    second, _ = seconds(lambda: hb.Ensemble([network], [1.0], "y").posterior(rows))
    report.add("predictions by a naive Bayes tree as a network, 100,000 rows", first)
    report.add("predictions by a naive Bayes tree as a member, 100,000 rows", second)
    print(f"predictions by one of {len(network.variable('y leaf'))} leaves, 100,000 rows, 20 % missing")
    print(f"  as a network, as a member of an ensemble                {first:9.2f} s  {second:9.2f} s")


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("rows", type=int, nargs="?", default=2_000_000)
    options = options_parser.parse_args()
    with Report(options) as report:
        report.run(bench_peer, 100_000 if options.ours else options.rows)
        if not options.ours:
            report.run(bench_rows, options.rows)
        report.run(bench_trees, 1 if options.ours else 10)


if __name__ == "__main__":
    main()
