"""Linear Gaussian networks beside PyBNesian, and counting beside DuckDB: python examples/benchmarks/peers.py [--rows
200000].

*PyBNesian*: parameters of a chain of ten numbers, and the log density of all rows, which differs a little because the
peer divides variances by the degrees of freedom. Its kernel densities need OpenCL and are left out. *DuckDB*: the
counts of all pairs of ten discrete columns, by a GROUP BY for each pair, as a program that learns trees from a database
would ask for them.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from rows import Report, parser, seconds

import hybridbn as hb

COLUMNS, STATES = 10, 4


def make_numbers(rows: int, columns: int = COLUMNS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, columns))
    for column in range(1, columns):
        values[:, column] += 0.7 * values[:, column - 1]
    return pd.DataFrame({f"x{column}": values[:, column] for column in range(columns)})


def bench_gaussian(report: Report, rows: int) -> None:
    frame = make_numbers(rows)
    arcs = list(pairwise(frame.columns))
    fit = partial(hb.fit, arcs, frame, "gaussian")
    if report.ours:
        report.show("fit a linear Gaussian chain of 10", seconds(fit, 3)[0])
        network = fit()
        report.show("its log density of all rows", seconds(lambda: network.log_density(frame), 3)[0])
        return
    import pybnesian

    def fit_peer() -> Any:
        model = pybnesian.GaussianNetwork(list(frame.columns), arcs)
        model.fit(frame)
        return model

    def distance(network: hb.Network, model: Any) -> float:
        beta = model.cpd("x3").beta
        potential = network.potential("x3")
        return float(np.abs([potential.intercept - beta[0], potential.coefficients[0] - beta[1]]).max())  # type: ignore[attr-defined]

    report.compare(f"fit a linear Gaussian chain of 10, {rows:,} rows", fit, fit_peer, distance, repeats=3)
    network, model = fit(), fit_peer()
    report.compare(
        "its log density of all rows",
        lambda: network.log_density(frame),
        lambda: model.logl(frame),
        lambda ours, theirs: float(np.abs(ours - theirs).max()),
        repeats=3,
    )


def bench_counts(report: Report, rows: int) -> None:
    rng = np.random.default_rng(0)
    names = [f"c{column}" for column in range(COLUMNS)]
    frame = pd.DataFrame({name: np.array(list("abcd"))[rng.integers(STATES, size=rows)] for name in names})
    table = hb.Table(frame)
    codes = [table.column(name) for name in names]

    def count() -> np.ndarray:
        counts = hb.fitting.pair_counts(codes, [STATES] * COLUMNS)
        return np.array([counts[pair].sum() for pair in combinations(range(COLUMNS), 2)])

    if report.ours:
        report.show("count all pairs of 10 columns", seconds(count, 3)[0])
        return
    import duckdb

    base = duckdb.connect()
    base.execute("set threads to 1")
    base.register("frame", frame)
    base.execute("create table t as select * from frame")

    def count_peer() -> np.ndarray:
        return np.array(
            [
                sum(row[0] for row in base.execute(f"select count(*) from t group by {a}, {b}").fetchall())
                for a, b in combinations(names, 2)
            ]
        )

    report.compare(
        f"count all pairs of 10 columns, {rows:,} rows, beside DuckDB",
        count,
        count_peer,
        lambda ours, theirs: float(np.abs(ours - theirs).max()),
        repeats=3,
    )


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--rows", type=int, default=200_000)
    options = options_parser.parse_args()
    with Report(options) as report:
        report.run(bench_gaussian, options.rows)
        report.run(bench_counts, options.rows)


if __name__ == "__main__":
    main()
