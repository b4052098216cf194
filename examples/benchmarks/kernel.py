"""Time kernel densities of hybridbn and scikit-learn on the same work, in one process, and compare their answers.

    python examples/benchmarks/kernel.py [--points 1000 10000 100000] [--rows 1000] [--grid 100] [--peer-rows 10]

*Prediction*: log p(x | y) for every row's x at every node of a grid of y, which is what one attribute of a naive Bayes
regression costs. `Kernel.log_on` does all rows; `KernelDensity` (rtol=0, and rtol=1e-6) scores as many as `--peer-rows`
of them, whose time is scaled up. Once with a grid that all rows share, and once with a grid of its own for every row.
Answers are compared with the direct sum everywhere, relative to 1 or to the logarithm, and with the peer where its
logarithm is above -12: even with rtol=0 it loses small densities to cancellation, by 1e-4 at -30 and by tens at -60.
With a shared grid, the limit is a matrix product over windows of the sorted points, a third of whose speed is wanted.
*Naive Bayes*: the posterior of a number given ten others, beside the sums on a fixed grid.
*Bandwidths*: leave-one-out cross-entropy on the paper's 5 x 5 grid and with the grid extended, against the direct sum
over all pairs of points, which is done for a few rows and scaled up.

Times are seconds of the process; ratios are peer over hybridbn. Restrict BLAS to one thread for times of one core.
"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rows import Report, parser, seconds
from scipy.special import logsumexp

import hybridbn as hb
from hybridbn.fitting import KernelFitter

Values = NDArray[np.float64]


def sample(size: int, rng: np.random.Generator) -> tuple[Values, Values]:
    y = rng.normal(size=size)
    return np.sin(2 * y) + 0.3 * rng.normal(size=size), y


def peer_logs(
    density: Any, points: Values, widths: Values, rows: Values, grids: Values, tolerance: float
) -> tuple[Values, Values]:
    """Return the logarithms of joint density and conditional by two of scikit-learn's densities, (grid, rows)."""
    joint = density(rtol=tolerance).fit(points / widths)
    marginal = density(rtol=tolerance).fit(points[:, 1:] / widths[1])
    places = np.stack([np.broadcast_to(rows, grids.shape), grids], axis=-1) / widths
    logs = joint.score_samples(places.reshape(-1, 2)).reshape(grids.shape)
    shared = np.ptp(grids, axis=1).max() == 0
    nodes = grids[:, :1] if shared else grids
    below = marginal.score_samples((nodes / widths[1]).reshape(-1, 1)).reshape(nodes.shape)
    return logs, logs - below - np.log(widths[0])


def direct_logs(points: Values, widths: Values, rows: Values, grids: Values) -> Values:
    """Return the logarithm of the conditional by direct sums."""
    logs = np.empty(grids.shape)
    for place in np.ndindex(logs.shape):
        given = -0.5 * ((grids[place] - points[:, 1]) / widths[1]) ** 2
        both = given - 0.5 * ((rows[place[1]] - points[:, 0]) / widths[0]) ** 2
        logs[place] = logsumexp(both) - logsumexp(given)
    return logs - np.log(widths[0] * np.sqrt(2 * np.pi))


def window_sums(points: Values, widths: Values, rows: Values, grid: Values) -> Values:
    """Return the conditional by matrix products over windows of 8.5 bandwidths, which lose small densities."""
    ordered = points[np.argsort(points[:, 0])]
    weights = np.exp(-0.5 * ((grid[:, None] - ordered[:, 1]) / widths[1]) ** 2)
    sums = np.empty((len(grid), len(rows)))
    by_size = np.argsort(rows)
    for start in range(0, len(rows), 64):
        block = by_size[start : start + 64]
        own = rows[block]
        ends = np.searchsorted(ordered[:, 0], [own[0] - 8.5 * widths[0], own[-1] + 8.5 * widths[0]])
        near = slice(*ends)
        bells = np.exp(-0.5 * ((own[:, None] - ordered[near, 0]) / widths[0]) ** 2)
        sums[:, block] = weights[:, near] @ bells.T
    return np.asarray(sums / weights.sum(axis=1)[:, None] / (widths[0] * np.sqrt(2 * np.pi)))


def naive_bayes(report: Report, size: int, rows: int, peer_rows: int, rng: np.random.Generator) -> None:
    """Posterior of a number given ten others, each of which has a kernel conditional on it.

    The peer evaluates the same sums on a fixed grid of 100 nodes, which gives the mean to a few digits; answers are
    checked against a grid of 20,000 nodes.
    """
    y = hb.Continuous("y")
    known = rng.normal(size=size)
    factor = 0.6 / np.sqrt(size)
    potentials = [hb.Kernel(y, points=known, bandwidths=factor * np.ptp(known))]
    clouds, table, own = [], {}, rng.normal(size=rows)
    for number in range(10):
        x = np.sin((1 + number / 3) * known) + 0.5 * rng.normal(size=size)
        points = np.column_stack([x, known])
        widths = factor * np.ptp(points, axis=0)
        name = f"x{number}"
        potentials.append(hb.Kernel(hb.Continuous(name), (y,), points=points, bandwidths=widths))
        clouds.append((points, widths))
        table[name] = np.sin((1 + number / 3) * own) + 0.5 * rng.normal(size=rows)
    network = hb.Network(potentials)
    frame = hb.Table(table)
    network.posterior("y", hb.Table({name: values[:1] for name, values in table.items()})).mean()
    ours, means = seconds(lambda: network.posterior("y", frame).mean(), 3)
    grid = np.linspace(known.min() - 1, known.max() + 1, 20_000)
    difference = 0.0
    for row in range(2):
        logs = potentials[0].log_on({"y": grid})
        for potential, values in zip(potentials[1:], table.values(), strict=True):
            logs = logs + potential.log_on({"y": grid, potential.child.name: values[row : row + 1]})[:, 0]
        weights = np.exp(logs - logs.max())
        difference = max(difference, abs(float(weights @ grid / weights.sum()) - means[row]))
    name = f"naive Bayes, 10 attributes, {size} points, {rows} rows, a row (limit 1 ms)"
    if report.ours:
        report.show(name, ours / rows, difference=difference)
        return
    from sklearn.neighbors import KernelDensity

    nodes = np.linspace(known.min(), known.max(), 100)

    def peer() -> None:
        for (points, widths), values in zip(clouds, table.values(), strict=True):
            some = values[:peer_rows]
            peer_logs(KernelDensity, points, widths, some, np.repeat(nodes[:, None], len(some), axis=1), 1e-6)

    theirs, _ = seconds(peer)
    report.show(name, ours / rows, theirs / peer_rows, 25, difference)


def prediction(report: Report, size: int, options: argparse.Namespace, rng: np.random.Generator) -> None:
    x, y = sample(size, rng)
    widths = 0.6 / np.sqrt(size) * np.array([np.ptp(x), np.ptp(y)])
    points = np.column_stack([x, y])
    potential = hb.Kernel(hb.Continuous("x"), (hb.Continuous("y"),), points=points, bandwidths=widths)
    rows, own = sample(options.rows, rng)
    grid = np.linspace(y.min(), y.max(), options.grid)
    near = own + np.linspace(-0.5, 0.5, options.grid)[:, None]
    some = slice(options.peer_rows)
    if not report.ours:
        least, values = seconds(partial(window_sums, points, widths, rows, grid), 3)
        ours, logs = seconds(partial(potential.log_on, {"y": grid, "x": rows[None]}), 3)
        large = values > 1e-6 * values.max()
        difference = np.abs(logs[:, 0][large] - np.log(values[large])).max()
        report.show(f"prediction, {size} points, shared grid, beside windows", ours, least, 1 / 3, difference)
    for kind, axis in (("shared", grid), ("per row", near)):
        ours, logs = seconds(partial(potential.log_on, {"y": axis, "x": rows[None]}), 3)
        logs = logs[:, 0, some]
        grids = np.broadcast_to(axis.reshape(options.grid, -1), (options.grid, options.rows))[:, some]
        exact = direct_logs(points, widths, rows[some], grids)
        error = (np.abs(logs - exact) / np.maximum(1, np.abs(exact))).max()
        print(f"{size:>8} {kind:<8}{ours:>9.3f}{error:>9.0e} |", end="" if not report.ours else "\n", flush=True)
        name = f"prediction, {size} points, grid {kind}"
        if report.ours:
            report.add(name, ours, difference=error)
            continue
        from sklearn.neighbors import KernelDensity

        for tolerance in (0.0, 1e-6):
            theirs, (joint, expected) = seconds(
                partial(peer_logs, KernelDensity, points, widths, rows[some], grids, tolerance)
            )
            theirs *= options.rows / options.peer_rows
            worst = np.abs(logs - expected)[joint > -12].max()
            print(f"{theirs:>9.2f}{theirs / ours:>8.0f}{worst:>9.0e} |", end="")
        print(flush=True)
        report.add(name, ours, theirs, difference=error)


def direct_entropy(points: Values, widths: list[Values], some: NDArray[np.int_]) -> Values:
    """Return each chosen row's part of the cross-entropy for all pairs of bandwidths."""
    squares = [(points[some, j, None] - points[:, j]) ** 2 for j in (0, 1)]
    parts = np.empty((len(some), len(widths[0]), len(widths[1])))
    for a, first in enumerate(widths[0]):
        for b, second in enumerate(widths[1]):
            logs = -0.5 * (squares[0] / first**2 + squares[1] / second**2)
            logs[np.arange(len(some)), some] = -np.inf
            parts[:, a, b] = logsumexp(logs, axis=1) - np.log((len(points) - 1) * 2 * np.pi * first * second)
    return -parts.mean(axis=0)


def bandwidths(report: Report, size: int, rng: np.random.Generator) -> None:
    from hybridbn.fitting.kernel import PAPER, leave_one_out, search_constants

    x, y = sample(size, rng)
    points = np.column_stack([(x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)])
    weights, widths = np.ones(size), [np.array(PAPER) / np.sqrt(size)] * 2
    paper, entropy = seconds(partial(leave_one_out, points, weights, widths), 2)
    extended, chosen = seconds(partial(search_constants, points, weights, size))
    table = hb.Table({"x": x, "y": y})
    fit, _ = seconds(partial(KernelFitter().fit, table, table.variable("x"), (table.variable("y"),)))
    report.add(f"bandwidths, {size} points, extended grid", extended)
    report.add(f"bandwidths, {size} points, fit", fit)
    print(f"{size:>8}{paper:>9.3f}{extended:>10.3f}{fit:>9.3f} |", end="")
    if report.ours:
        report.add(f"bandwidths, {size} points, paper's grid", paper)
        return print(f"   c = {chosen[0]:.2f}, {chosen[1]:.2f}", flush=True)
    rows = size if size <= 2000 else 20
    direct, expected = seconds(partial(direct_entropy, points, widths, np.arange(rows)))
    direct *= size / rows
    difference = np.abs(entropy - expected).max() if rows == size else None
    report.add(f"bandwidths, {size} points, paper's grid", paper, direct, difference=difference)
    print(f"{direct:>10.2f}{direct / paper:>8.0f}{'-' if difference is None else format(difference, '.0e'):>9}", end="")
    return print(f"   c = {chosen[0]:.2f}, {chosen[1]:.2f}", flush=True)


def main() -> None:
    options_parser = parser(__doc__)
    options_parser.add_argument("--points", type=int, nargs="+")
    options_parser.add_argument("--rows", type=int, default=1000)
    options_parser.add_argument("--grid", type=int, default=100)
    options_parser.add_argument("--peer-rows", type=int, default=10)
    options = options_parser.parse_args()
    sizes = options.points or ([1000, 10000] if options.ours else [1000, 10000, 100000])
    rng = np.random.default_rng(0)
    print(f"prediction: {options.rows} rows x {options.grid} nodes")
    print(
        f"{'points':>8} {'grid':<8}{'hybridbn':>9}{'error':>9} |{'rtol 0':>9}{'ratio':>8}{'differ':>9} "
        f"|{'rtol 1e-6':>9}",
        end="",
    )
    print(f"{'ratio':>8}{'differ':>9} |")
    with Report(options) as report:
        for size in sizes:
            report.run(prediction, size, options, rng)
        report.run(naive_bayes, 1000, 100 if options.ours else 1000, options.peer_rows, rng)
        print("\nbandwidths: leave-one-out cross-entropy, 5 x 5")
        print(f"{'points':>8}{'paper':>9}{'extended':>10}{'fit':>9} |{'direct':>10}{'ratio':>8}{'differ':>9}")
        for size in sizes:
            report.run(bandwidths, size, rng)


if __name__ == "__main__":
    main()
