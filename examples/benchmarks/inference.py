"""Queries against pyAgrum and pgmpy, in one process run, with the answers compared.

Run ``python examples/benchmarks/inference.py`` (about two minutes). Times are CPU seconds; a ratio above one means that
hybridbn is faster. Peers work row by row, so they are timed on few rows and scaled. A query is cold where its pattern
of evidence has not been asked for before, so that nothing can be reused.
"""

from __future__ import annotations

import gzip
from itertools import pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from rows import Report, parser, seconds, shipped

import hybridbn as hb

ROWS = 100_000
PEER_ROWS = 200


def pyagrum_network(folder: str, name: str) -> Any:
    import pyagrum

    return pyagrum.loadBN(str(unpacked(folder, name)))


def unpacked(folder: str, name: str) -> Path:
    """Return the file of a network, which is written if it comes with pgmpy."""
    path = Path(folder) / f"{name}.bif"
    if not path.exists():
        path.write_bytes(gzip.decompress(shipped(name).read_bytes()))
    return path


def row_by_row(peer: Any, frame: pd.DataFrame, targets: list[str]) -> dict[str, np.ndarray]:
    """Ask pyAgrum for every row in turn."""
    import pyagrum

    engine = pyagrum.LazyPropagation(peer)
    for target in targets:
        engine.addTarget(target)
    found: dict[str, list[np.ndarray]] = {target: [] for target in targets}
    for row in frame.to_dict("records"):
        engine.setEvidence({name: value for name, value in row.items() if isinstance(value, str)})
        engine.makeInference()
        for target in targets:
            found[target].append(engine.posterior(target).toarray())
    return {target: np.array(rows) for target, rows in found.items()}


def furthest(answers: Any, expected: Any) -> float:
    """Return the greatest difference of probabilities, of as many rows as the peer did."""
    return max(
        float(np.abs(answers[name].probabilities[: len(expected[name])] - expected[name]).max()) for name in expected
    )


def batches(report: Report, folder: str) -> None:
    network = hb.read_network(shipped("alarm"))
    peer = None if report.ours else pyagrum_network(folder, "alarm")
    rng = np.random.default_rng(0)
    rows = ROWS // 5 if report.ours else ROWS
    complete = network.sample(rows, random_state=0)
    half = complete.mask(rng.random(complete.shape) < 0.5)
    third = complete.mask(rng.random(complete.shape) < 0.3)
    names = list(network)
    # pyAgrum's file reader keeps single precision, so answers agree to about 1e-6
    report.compare(
        "alarm, all 37 posteriors, half the cells missing",
        lambda: network.posteriors(half),
        lambda: row_by_row(peer, half[:PEER_ROWS], names),
        furthest,
        bound=60,
        unit="us/row",
        size=rows,
        peer_size=PEER_ROWS,
    )
    leaves = [name for name in names if network.out_degree(name) == 0]
    for what, frame, bound in (
        ("complete rows", complete, 150),
        ("leaves observed", complete[leaves], 150),
        ("30 % missing", third, 25),
    ):
        for target in ("LVFAILURE", "INTUBATION"):
            known = frame.drop(columns=target, errors="ignore")
            report.compare(
                f"alarm, {target}, {what}",
                lambda t=target, k=known: {t: network.posterior(t, k)},
                lambda t=target, k=known: row_by_row(peer, k[:PEER_ROWS], [t]),
                furthest,
                bound=bound,
                unit="us/row",
                size=rows,
                peer_size=PEER_ROWS,
                repeats=3,
                peer_repeats=1,
            )


def ask_pyagrum(peer: Any, targets: list[str], evidence: dict[str, Any], engine: str = "LazyPropagation") -> Any:
    import pyagrum

    asked = getattr(pyagrum, engine)(peer)
    for target in targets:
        asked.addTarget(target)
    asked.setEvidence(evidence)
    asked.makeInference()
    return {target: asked.posterior(target).toarray() for target in targets}


def singles(report: Report, folder: str) -> None:
    for name in ("asia", "cancer", "earthquake", "alarm", "hailfinder", "win95pts", "andes"):
        network = hb.read_network(shipped(name))
        peer = None if report.ours else pyagrum_network(folder, name)
        leaves = [node for node in network if network.out_degree(node) == 0][:5]
        evidence = {leaf: network.variable(leaf).states[0] for leaf in leaves}
        target = next(node for node in network if network.in_degree(node) == 0)

        def ask(network: Any = network, target: str = target, evidence: Any = evidence) -> Any:
            return [network.posterior(target, evidence).probabilities for _ in range(50)][-1]

        def ask_peer(peer: Any = peer, target: str = target, evidence: Any = evidence) -> Any:
            return [ask_pyagrum(peer, [target], evidence)[target] for _ in range(50)][-1]

        ask()
        apart = lambda answer, expected: float(np.abs(answer - expected).max())  # noqa: E731
        report.compare(f"{name}, one query, warm", ask, ask_peer, apart, bound=1, size=50, peer_size=50, repeats=5)
    for name in ("alarm", "hailfinder", "win95pts", "andes", "pigs"):
        network = hb.read_network(shipped(name))
        peer = None if report.ours else pyagrum_network(folder, name)

        def all_of_peer(peer: Any = peer, names: Any = tuple(network)) -> Any:
            import pyagrum

            engine = pyagrum.LazyPropagation(peer)
            engine.makeInference()
            return {node: engine.posterior(node).toarray() for node in names}

        network.posteriors()
        report.compare(
            f"{name}, all marginals, warm",
            network.posteriors,
            all_of_peer,
            furthest,
            bound=1,
            repeats=5,
            peer_repeats=3,
        )


_SMALL = ("asia", "cancer", "earthquake", "sachs", "survey", "insurance")
_MIDDLE = ("alarm", "barley", "hailfinder", "hepar2", "mildew", "water", "win95pts")
_LARGE = ("andes", "diabetes", "link", "munin", "munin1", "munin2", "munin3", "munin4", "pathfinder", "pigs")
PUBLIC = (*_SMALL, *_MIDDLE, *_LARGE)
"""The networks of the public collection that pyAgrum can read."""
LARGE = 30
"""Smaller networks are to be answered within a time of their own."""


def make_networks(folder: str) -> list[str]:
    """Write networks of other shapes, of which some have many zeros, and return their names."""
    names = []
    for nodes, states, zeros in ((40, 3, 0.3), (100, 2, 0.0), (100, 5, 0.3), (400, 3, 0.3)):
        rng = np.random.default_rng(nodes + states)
        near = [
            rng.choice(np.arange(max(i - 12, 0), max(i, 1)), min(i, int(rng.integers(3))), False) for i in range(nodes)
        ]
        names.append(
            write_random(folder, f"random {nodes} x {states}", [sorted(own.tolist()) for own in near], states, zeros)
        )
    for nodes in (40, 400):
        names.append(write_random(folder, f"naive {nodes}", [[0] * (i > 0) for i in range(nodes)], 3, 0.0))
        names.append(write_random(folder, f"chain {nodes}", [[i - 1] * (i > 0) for i in range(nodes)], 3, 0.2))
    grid = [[j for j, there in ((i - 1, i % 5), (i - 5, i >= 5)) if there] for i in range(100)]
    return [*names, write_random(folder, "grid 5 x 20", grid, 2, 0.1)]


def write_random(folder: str, name: str, parents: list[list[int]], states: int, zeros: float) -> str:
    """Write a network with random tables, in which about a share of the probabilities is zero."""
    rng = np.random.default_rng(len(parents))
    nodes = [hb.Discrete(f"n{i}", states=[f"s{k}" for k in range(states)]) for i in range(len(parents))]
    potentials = []
    for node, above in zip(nodes, parents, strict=True):
        table = rng.dirichlet(np.ones(states), size=[states] * len(above))
        if above:
            table[(rng.random(table.shape) < zeros) & (table < table.max(axis=-1, keepdims=True))] = 0.0
        potentials.append(hb.Multinomial(node, [nodes[i] for i in above], table=table, normalize=True))
    hb.write_network(hb.Network(potentials), Path(folder) / f"{name}.bif")
    return name


def ask_cold(path: Path, questions: list[tuple[list[str], dict[str, Any]]]) -> tuple[float, float, list[Any]]:
    """Return the seconds of the first question and of the others, none of them asked before, and their answers."""
    network = hb.read_network(path)  # plans belong to the potentials
    first, _ = seconds(lambda: network.posterior(questions[0][0][0], questions[0][1]).probabilities)
    spent, answers = seconds(lambda: [network.posteriors(given, targets) for targets, given in questions[1:]])
    return first, spent, answers


def cold(report: Report, folder: str) -> None:
    """Ask each question once, of one target and of all, with other findings each time, which the network produces.

    pyAgrum's engines are built afresh for every question, and the better one of both counts.
    """
    made = [] if report.ours else make_networks(folder)
    ratios: dict[str, list[float]] = {"one": [], "all": [], "one, other shapes": []}
    for name in PUBLIC[:9] if report.ours else (*PUBLIC, *made):
        path = unpacked(folder, name)
        network = hb.read_network(path)
        names = list(network)
        peer = None if report.ours else pyagrum_network(folder, name)
        for share, (what, count) in product((0.0, 0.2, 0.5), (("one", 8), ("all", 1))):
            if what == "all" and (name in made or (share == 0 and name in TOO_WIDE_AT_ONCE) or share == 0.5):
                continue
            rng = np.random.default_rng(0)
            questions: list[tuple[list[str], dict[str, Any]]] = []
            for case in network.sample(count + 1, random_state=0).to_dict("records"):
                target, *rest = rng.permutation(names).tolist()
                given = {node: case[node] for node in rest[: round(share * len(names))]}
                targets = [target] if what == "one" else [node for node in names if node not in given]
                questions.append((targets, given))
            runs = [ask_cold(path, questions) for _ in range(3)]
            first, ours = (min(run[k] for run in runs) for k in (0, 1))
            row = f"{name}, {what}, cold, {share:.0%} findings"
            if peer is None:
                report.show(row, ours / count)
                continue
            theirs = float("inf")
            for engine in ("LazyPropagation", "VariableElimination"):
                spent, expected = seconds(
                    lambda e=engine, p=peer, q=questions: [ask_pyagrum(p, *each, e) for each in q[1:]],  # type: ignore[misc]
                    2 if len(names) < 300 else 1,
                )
                theirs = min(theirs, spent)
            apart = max(furthest_single(a, b) for a, b in zip(runs[0][2], expected, strict=True))
            report.show(row, ours / count, theirs / count, difference=apart)
            if what == "one" and share == 0.2:
                report.show(f"{name}, the very first query", first)
            if what == "all" or len(names) >= LARGE:
                ratios[what + ", other shapes" * (name in made)].append(theirs / ours)
    for what, values in ratios.items():
        if values:
            mean = float(np.exp(np.log(values).mean()))
            print(f"cold, {what}: {len(values)} rows, geometric mean {mean:.2f}x, least {min(values):.2f}x")


TOO_WIDE_AT_ONCE = {"munin1", "link", "munin2", "munin3", "munin4", "water", "diabetes"}
"""pyAgrum does not answer all targets of these without findings, or takes minutes."""


def furthest_single(answers: Any, expected: Any) -> float:
    """Return the greatest difference of the probabilities of single cases."""
    return max(float(np.abs(answers[name].probabilities - table).max()) for name, table in expected.items())


def against_pgmpy(report: Report) -> None:
    if report.ours:
        return  # the same work as that beside pyAgrum
    from pgmpy.inference import VariableElimination

    network = hb.read_network(shipped("alarm"))
    engine = VariableElimination(network.to_pgmpy())
    complete = network.sample(ROWS, random_state=0).drop(columns="LVFAILURE")
    rows = complete[:20].to_dict("records")
    report.compare(
        "alarm, LVFAILURE, complete rows, pgmpy",
        lambda: network.posterior("LVFAILURE", complete),
        lambda: [engine.query(["LVFAILURE"], row, show_progress=False).values for row in rows],
        lambda answer, expected: float(np.abs(answer.probabilities[:20] - np.array(expected)).max()),
        bound=1000,
        unit="us/row",
        size=ROWS,
        peer_size=20,
        repeats=3,
        peer_repeats=1,
    )


def naive_bayes_regression(report: Report) -> None:
    """Mean and variance of an MTE response given 13 attributes, a fifth of the cells missing; the peer is a loop over
    rows.
    """
    rng = np.random.default_rng(0)
    y = hb.Continuous("y", domain=(0, 5))
    potentials: list[Any] = [
        hb.MTE(
            y,
            pieces=[hb.Piece({"y": (i, i + 1)}, constant=0.1, terms=[(0.2, {"y": -0.3})]) for i in range(5)],
            normalize=True,
        )
    ]
    for number in range(13):
        name = f"x{number}"
        pieces = [
            hb.Piece({"y": (i, i + 1), name: ends}, constant=0.05, terms=[(rng.random(), {name: -rng.random()})])
            for i in range(5)
            for ends in ((0, 3), (3, 6), (6, 10))
        ]
        potentials.append(hb.MTE(hb.Continuous(name, domain=(0, 10)), parents=(y,), pieces=pieces, normalize=True))
    network = hb.Network(potentials)
    rows = 100_000 if report.ours else 1_000_000
    frame = pd.DataFrame({f"x{j}": np.where(rng.random(rows) < 0.2, np.nan, rng.random(rows) * 10) for j in range(13)})

    def ours_work() -> Any:
        found = network.posterior("y", frame)
        return found.mean(), found.var()

    ours, (mean, variance) = seconds(ours_work, 2)
    one_by_one = [network.posterior("y", row) for row in frame[:50].to_dict("records")]
    difference = max(abs(p.mean() - mean[i]) + abs(p.var() - variance[i]) for i, p in enumerate(one_by_one))
    verdict = "ok" if rows / ours >= 1e6 else "SLOWER THAN THE BOUND"
    report.add("naive Bayes over MTEs, 13 attributes, a row", ours / rows, difference=difference)
    print(
        f"naive Bayes over MTEs, {rows:,} x 13: {rows / ours / 1e6:.2f} million rows a CPU second (bound 1) {verdict}  "
        f"|diff| "
        f"{difference:.1e}"
    )


def hybrid(report: Report) -> None:
    """Warm single queries in networks that no peer answers, in milliseconds against a bound."""
    rng = np.random.default_rng(0)

    def coupled(**values: Any) -> Any:
        (first, second) = (values[name] for name in sorted(values))
        return 1 + 0.8 * (2 * first - 1) * (2 * second - 1)

    chain: list[Any] = []
    variables = [hb.Continuous(f"x{i:02d}", domain=(0, 1)) for i in range(20)]
    chain.append(hb.Density(variables[0], function=lambda x00: np.ones_like(x00)))
    chain += [hb.Density(b, parents=(a,), function=coupled) for a, b in pairwise(variables)]
    ladder = treewidth_two(rng)
    for what, network, target, evidence in (
        ("20-node continuous chain", hb.Network(chain), "x00", {"x19": 0.3}),
        ("treewidth 2, 12 nodes, hybrid", ladder, "v00", {"v11": ladder.variable("v11").states[0], "v10": 0.4}),
    ):
        network.posterior(target, evidence)
        ours, found = seconds(lambda n=network, t=target, e=evidence: n.posterior(t, e), 20)
        report.add(f"{what}, warm", ours, difference=found.error)
        verdict = "ok" if ours < 5e-3 else "SLOWER THAN THE BOUND"
        print(f"{what:<58} {ours * 1e3:10.3f} ms (bound 5 ms) {verdict}  error {found.error:.1e}")


def treewidth_two(rng: np.random.Generator) -> hb.Network:
    """Each node depends on the two before it: continuous ones as MTEs, every third one discrete through a softmax."""
    variables: list[Any] = []
    potentials: list[Any] = []
    for number in range(12):
        name = f"v{number:02d}"
        parents = tuple(variables[-2:])
        if number % 3 == 2:
            variable: Any = hb.Discrete(name, states=("a", "b"))
            below = sum(isinstance(p, hb.Continuous) for p in parents)
            shape = [len(p) for p in parents if isinstance(p, hb.Discrete)]
            potentials.append(
                hb.Softmax(
                    variable,
                    parents=parents,
                    intercept=rng.normal(size=[*shape, 2]),
                    coefficients=rng.normal(size=[*shape, 2, below]),
                )
            )
        else:
            variable = hb.Continuous(name, domain=(0, 1))
            states = [p for p in parents if isinstance(p, hb.Discrete)]
            numbers = [p for p in parents if isinstance(p, hb.Continuous)]
            pieces = [
                hb.Piece(
                    {name: (0, 1)},
                    given={p.name: s for p in states},
                    constant=0.2,
                    terms=[(1.0, {name: float(rng.normal())})],
                )
                for s in (("a", "b") if states else (None,))
            ]
            potentials.append(hb.MTE(variable, parents=(*states, *numbers), pieces=pieces, normalize=True))
        variables.append(variable)
    return hb.Network(potentials)


def holes(report: Report) -> None:
    """Posteriors in hybrid networks for rows with 30 % of the cells missing, beside a loop over single cases."""
    rng = np.random.default_rng(0)
    for what, network, rows, bound in (
        ("kernels, chain of 5", kernel_chain(5, rng), 1000, 20),
        ("kernels, chain of 10", kernel_chain(10, rng), 1000, 20),
        ("densities, chain of 20", density_chain(20, 1), 2000, 20),
        ("densities, treewidth 2, 10 nodes", density_chain(10, 2), 1000, 20),
        ("MTEs and softmax, treewidth 2, 12 nodes", treewidth_two(rng), 2000, 20),
    ):
        frame = network.sample(rows, random_state=1)
        frame = frame.mask(np.random.default_rng(2).random(frame.shape) < 0.3).drop(columns="v00")
        cases = [{n: v for n, v in row.items() if pd.notna(v)} for row in frame[:20].to_dict("records")]
        network.posterior("v00", frame[:1])

        def loop(network: Any = network, cases: Any = cases) -> list[float]:
            return [network.posterior("v00", case).mean() for case in cases]

        ours, means = seconds(lambda n=network, f=frame: n.posterior("v00", f).mean())
        theirs, expected = seconds(loop)
        difference = float(np.abs(means[: len(cases)] - np.array(expected)).max())
        report.show(f"{what}, 30 % missing, a row", ours / rows, theirs / len(cases), bound, difference)


def draws(report: Report) -> None:
    """Draw rows from a chain of densities, given its last number."""
    network = density_chain(5, 1)
    network.sample(10, random_state=0, evidence={"v04": 0.3})
    rows = 1000 if report.ours else 10_000
    ours, frame = seconds(lambda: network.sample(rows, random_state=0, evidence={"v04": 0.3}), 3)
    exact = network.posterior("v00", {"v04": 0.3})
    apart = abs(frame["v00"].mean() - exact.mean()) / (exact.std() / np.sqrt(rows))
    report.show(f"densities, chain of 5, draw {rows:,} rows given the last (limit .3 s)", ours, unit="s")
    print(f"  the mean is {apart:.1f} standard errors from the exact one")


def kernel_chain(nodes: int, rng: np.random.Generator) -> hb.Network:
    """Kernel conditionals of 300 points, each node given the one before it."""
    columns = [rng.normal(size=300)]
    for _ in range(nodes - 1):
        columns.append(np.sin(1.3 * columns[-1]) + 0.6 * rng.normal(size=300))
    variables = [hb.Continuous(f"v{i:02d}") for i in range(nodes)]
    potentials = []
    for i, variable in enumerate(variables):
        points = np.column_stack(columns[i : i + 1] + columns[max(i - 1, 0) : i])
        widths = points.std(axis=0) * 300 ** (-1 / (4 + points.shape[1]))
        potentials.append(hb.Kernel(variable, variables[max(i - 1, 0) : i], points=points, bandwidths=widths))
    return hb.Network(potentials)


def density_chain(nodes: int, width: int) -> hb.Network:
    """Densities on the unit interval, each given the `width` before it."""
    variables = [hb.Continuous(f"v{i:02d}", domain=(0, 1)) for i in range(nodes)]
    potentials = []
    for i, variable in enumerate(variables):
        parents = variables[max(i - width, 0) : i]

        def bend(name: str = variable.name, count: int = len(parents), **values: Any) -> Any:
            total = sum((2 * values[other] - 1 for other in values if other != name), np.zeros_like(values[name]))
            return 1 + 0.8 / max(count, 1) * (2 * values[name] - 1) * total

        potentials.append(hb.Density(variable, parents=parents, function=bend))
    return hb.Network(potentials)


def main() -> None:
    options = parser(__doc__).parse_args()
    with Report(options) as report, TemporaryDirectory() as folder:
        report.run(batches, folder)
        report.run(singles, folder)
        report.run(cold, folder)
        report.run(against_pgmpy)
        report.run(naive_bayes_regression)
        report.run(hybrid)
        report.run(holes)
        report.run(draws)


if __name__ == "__main__":
    main()
