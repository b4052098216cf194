"""Time a conditional linear Gaussian network on a table with holes: python examples/benchmarks/gaussian.py.

20 numbers, whose coefficients depend on 2 discrete columns, in 4,000 rows of which 30 % of the cells are missing, so that
hardly any two rows have the same holes. There is no peer: answers are checked against single cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from rows import Report, parser, seconds

import hybridbn as hb

NUMBERS, MISSING, CHECKED = 20, 0.3, 20


def build() -> hb.Network:
    """Each number depends on the three before it, and on neither, one or both of the discrete variables."""
    rng = np.random.default_rng(0)
    c, d = hb.Discrete("c", states=("a", "b", "c")), hb.Discrete("d", states=("u", "v"))
    potentials: list[Any] = [
        hb.Multinomial(c, table=rng.dirichlet(np.full(3, 5.0))),
        hb.Multinomial(d, parents=(c,), table=rng.dirichlet(np.full(2, 5.0), size=3)),
    ]
    numbers: list[hb.Continuous] = []
    for place in range(NUMBERS):
        number, above, given = hb.Continuous(f"x{place:02}"), numbers[-3:], [(), (c,), (c, d)][place % 3]
        shape = [len(parent) for parent in given]
        potentials.append(
            hb.LinearGaussian(
                number,
                parents=(*given, *above),
                intercept=rng.normal(size=shape),
                coefficients=0.5 * rng.normal(size=[*shape, len(above)]),
                variance=np.exp(0.3 * rng.normal(size=shape)),
            )
        )
        numbers.append(number)
    return hb.Network(potentials)


def make_holes(network: hb.Network, rows: int) -> pd.DataFrame:
    complete = network.sample(rows, random_state=0)
    return complete.mask(np.random.default_rng(1).random(complete.shape) < MISSING)


def bench_queries(report: Report, rows: int) -> None:
    network = build()
    table = make_holes(network, rows)
    network.posterior("x05", table[:2]), network.log_density(table[:2])  # imports are not timed
    cases = [
        {name: value for name, value in row.items() if pd.notna(value)} for row in table[:CHECKED].to_dict("records")
    ]
    size = f"{rows:,} x {NUMBERS + 2}"
    ours, logs = seconds(lambda: network.log_density(table))
    difference = max(abs(network.log_evidence(case) - logs[row]) for row, case in enumerate(cases))
    report.show(f"log_density, {size}", ours, difference=difference, unit="s")
    for target in ("x05", "d"):
        ours, posterior = seconds(lambda target=target: network.posterior(target, table))
        difference = 0.0
        for row, case in enumerate(cases):
            one = network.posterior(target, {name: value for name, value in case.items() if name != target})
            if target == "d":
                difference = max(difference, float(np.abs(one.probabilities - posterior.probabilities[row]).max()))
            else:
                difference = max(difference, abs(one.mean() - posterior.mean()[row]))
        report.show(f"posterior of {target}, {size}", ours, difference=difference, unit="s")


def bench_sample(report: Report, rows: int) -> None:
    network = build()
    table = make_holes(network, rows)
    network.sample(evidence=table[:2], random_state=0)
    ours, filled = seconds(lambda: network.sample(evidence=table, random_state=0))
    known = table.notna().to_numpy()
    assert (filled[table.columns].to_numpy()[known] == table.to_numpy()[known]).all()
    report.show(f"sample given a table, {rows:,} x {NUMBERS + 2}", ours, unit="s")


def bench_em(report: Report, rows: int) -> None:
    network = build()
    table = make_holes(network, rows)
    ours, _ = seconds(lambda: hb.expectation_maximization(network, table, max_iterations=2))
    report.show(f"expectation_maximization, two iterations, {rows:,} x {NUMBERS + 2}", ours, unit="s")


def bench_impute(report: Report, rows: int) -> None:
    network = build()
    table = make_holes(network, rows)
    hb.impute(table[:20], network=network, random_state=0)
    ours, _ = seconds(lambda: hb.impute(table, network=network, random_state=0), 3)
    report.show(f"impute with the network, {rows:,} x {NUMBERS + 2}", ours, unit="s")
    ours, _ = seconds(lambda: hb.impute(table, random_state=0))
    report.show(f"impute, structure learned, {rows:,} x {NUMBERS + 2}", ours, unit="s")


def main() -> None:
    options = parser(__doc__).parse_args()
    with Report(options) as report:
        report.run(bench_queries, 1000 if options.ours else 4000)
        report.run(bench_sample, 400 if options.ours else 4000)
        report.run(bench_em, 60 if options.ours else 1000)
        report.run(bench_impute, 1000 if options.ours else 4000)


if __name__ == "__main__":
    main()
