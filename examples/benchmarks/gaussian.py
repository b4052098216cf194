"""Time a conditional linear Gaussian network on a table with holes: python examples/benchmarks/gaussian.py.

20 numbers, whose coefficients depend on 2 discrete columns, in 4,000 rows of which 30 % of the cells are missing, so
that hardly any two rows have the same holes. There is no peer: answers are checked against single cases.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from rows import Report, parser, seconds, take_turns

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
    pair = ["x05", "x07"]
    ours, joint = seconds(lambda: network.posterior(pair, table))
    one = [network.posterior(pair, {name: v for name, v in case.items() if name not in pair}).mean() for case in cases]
    difference = float(np.abs(np.array(one) - joint.mean()[:CHECKED]).max())
    report.show(f"joint posterior of {' and '.join(pair)}, {size}", ours, difference=difference, unit="s")
    ours, _ = seconds(lambda: network.most_probable(table))
    report.show(f"most_probable, {size}", ours, unit="s")


def chain(nodes: int) -> hb.Network:
    """Each number depends on the one before it."""
    numbers = [hb.Continuous(f"x{place:03}") for place in range(nodes)]
    return hb.Network(
        [
            hb.LinearGaussian(
                number,
                parents=numbers[max(place - 1, 0) : place],
                intercept=0.3,
                coefficients=[0.7] * (place > 0),
                variance=1.0,
            )
            for place, number in enumerate(numbers)
        ]
    )


def bench_chain(report: Report, rows: int) -> None:
    network = chain(25)
    complete = network.sample(rows, random_state=0)
    holes = complete.mask(np.random.default_rng(1).random(complete.shape) < 0.4)
    network.log_density(holes[:2]), network.posterior("x012", holes[:2])
    size = f"chain of 25, {rows:,} patterns"
    ours, _ = seconds(lambda: network.log_density(holes))
    report.show(f"log_density, {size}", ours, unit="s")
    ours, _ = seconds(lambda: network.posterior("x012", holes).mean())
    report.show(f"posterior of one, {size}", ours, unit="s")
    ours, _ = seconds(lambda: {name: post.mean() for name, post in network.posteriors(holes).items()})
    report.show(f"posteriors of all, {size}", ours, unit="s")
    long = chain(200)
    ours, _ = seconds(lambda: long.sample(5, 0, {"x199": 1.0}))
    report.show("sample(5) given the end of a chain of 200", ours, unit="s")


def bench_solve(report: Report, rows: int) -> None:
    """Complete rows beside one solve with the covariances, and rows with holes beside batched solves of their
    precisions.
    """
    for nodes in (20, 50):
        network = chain(nodes)
        complete = network.sample(rows, random_state=0)
        table = complete.mask(np.random.default_rng(1).random(complete.shape) < MISSING)
        precision = np.diag(np.r_[np.full(nodes - 1, 1.49), 1.0])
        precision -= 0.7 * (np.eye(nodes, k=1) + np.eye(nodes, k=-1))
        center = network.posteriors({})
        mean = np.array([center[name].mean() for name in network])
        network.log_density(complete[:2]), network.log_density(table[:2])

        covariance = np.linalg.inv(precision)

        def solve(covariance: Any = covariance, mean: Any = mean, complete: Any = complete) -> Any:
            apart = (complete.to_numpy() - mean).T
            logs = np.linalg.slogdet(covariance)[1] + len(mean) * np.log(2 * np.pi)
            return -0.5 * (np.einsum("ir,ir->r", np.linalg.solve(covariance, apart), apart) + logs)

        def solves(precision: Any = precision, mean: Any = mean, table: Any = table) -> Any:
            apart = table.to_numpy() - mean
            hidden = np.isnan(apart)
            force = np.where(hidden, 0.0, apart) @ precision
            result = np.empty(len(apart))
            for count in np.unique(hidden.sum(axis=1)):
                own = np.flatnonzero(hidden.sum(axis=1) == count)
                columns = np.nonzero(hidden[own])[1].reshape(len(own), count)
                inner = precision[columns[:, :, None], columns[:, None, :]]
                pull = np.take_along_axis(force[own], columns, 1)
                shift = np.linalg.solve(inner, pull[..., None])[..., 0]
                known = np.where(hidden[own], 0.0, apart[own])
                squares = (known * force[own]).sum(axis=1) - (pull * shift).sum(axis=1)
                logs = np.linalg.slogdet(inner)[1]
                result[own] = -0.5 * (squares + logs + (len(mean) - count) * np.log(2 * np.pi))
            return result

        values = complete.to_numpy()

        def residuals(values: Any = values) -> Any:
            result = np.zeros(len(values))
            for column in range(values.shape[1]):
                apart = values[:, column] - 0.3 - (0.7 * values[:, column - 1] if column else 0.0)
                result -= 0.5 * apart**2 + 0.5 * np.log(2 * np.pi)
            return result

        rest, name = complete.drop(columns="x010"), "x010"
        known = rest.to_numpy()
        slopes = -np.delete(precision[10], 10) / precision[10, 10]
        offset = mean[10] - np.delete(mean, 10) @ slopes

        def regress(known: Any = known, slopes: Any = slopes, offset: float = offset) -> Any:
            return known @ slopes + offset

        def ours_regression(network: Any = network, rest: Any = rest, name: str = name) -> Any:
            return network.posterior(name, rest).mean()

        for what, ours, peer, bound in (
            ("log_density, beside local residuals", partial(network.log_density, complete), residuals, 1 / 2),
            ("posterior of one, beside one regression", ours_regression, regress, 1 / 3),
        ):
            least, answers = take_turns({"ours": ours, "numpy": peer}, 3)
            difference = float(np.abs(answers["ours"] - answers["numpy"]).max())
            label = f"{what}, {rows:,} x {nodes}"
            report.show(label, least["ours"], least["numpy"], bound, difference, "ms")
        for label, peer, rows_of in (("complete rows", solve, complete), ("30 % holes", solves, table)):
            least, answers = take_turns({"ours": partial(network.log_density, rows_of), "numpy": peer}, 3)
            difference = float(np.abs(answers["ours"] - answers["numpy"]).max())
            report.show(
                f"log_density, {label}, {rows:,} x {nodes}", least["ours"], least["numpy"], 1 / 3, difference, "ms"
            )


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
        report.run(bench_chain, 500 if options.ours else 20_000)
        report.run(bench_solve, 1000 if options.ours else 4000)
        if not options.ours:
            report.run(bench_solve, 100_000)
        report.run(bench_sample, 400 if options.ours else 4000)
        report.run(bench_em, 60 if options.ours else 1000)
        report.run(bench_impute, 1000 if options.ours else 4000)


if __name__ == "__main__":
    main()
