"""Queries against pyAgrum and pgmpy, in one process run, with the answers compared.

Run ``python examples/benchmarks/inference.py`` (about two minutes). Times are CPU seconds; a ratio above one means that
hybridbn is faster. Peers work row by row, so they are timed on few rows and scaled. A query is cold where its pattern
of evidence has not been asked for before, so that nothing can be reused.
"""

from __future__ import annotations

import gzip
from itertools import pairwise
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

    path = Path(folder) / f"{name}.bif"
    path.write_bytes(gzip.decompress(shipped(name).read_bytes()))
    return pyagrum.loadBN(str(path))


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


def ask_pyagrum(peer: Any, target: str, evidence: dict[str, Any]) -> Any:
    import pyagrum

    engine = pyagrum.LazyPropagation(peer)
    engine.addTarget(target)
    engine.setEvidence(evidence)
    engine.makeInference()
    return engine.posterior(target).toarray()


def singles(report: Report, folder: str) -> None:
    for name in ("alarm", "hailfinder", "win95pts", "andes"):
        network = hb.read_network(shipped(name))
        peer = None if report.ours else pyagrum_network(folder, name)
        leaves = [node for node in network if network.out_degree(node) == 0][:5]
        evidence = {leaf: network.variable(leaf).states[0] for leaf in leaves}
        target = next(node for node in network if network.in_degree(node) == 0)

        def ask(network: Any = network, target: str = target, evidence: Any = evidence) -> Any:
            return [network.posterior(target, evidence).probabilities for _ in range(50)][-1]

        def ask_peer(peer: Any = peer, target: str = target, evidence: Any = evidence) -> Any:
            return [ask_pyagrum(peer, target, evidence) for _ in range(50)][-1]

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


def cold_singles(report: Report, folder: str) -> None:
    """Ask each question once, given findings at a fifth of the nodes, which the network produces; other nodes each
    time.
    """
    for name, count in (("asia", 20), ("alarm", 20), ("hailfinder", 20), ("win95pts", 20), ("munin1", 8)):
        network = hb.read_network(shipped(name))
        peer = None if report.ours else pyagrum_network(folder, name)
        rng = np.random.default_rng(0)
        cases = network.sample(count, random_state=0).to_dict("records")
        questions: list[tuple[str, dict[str, Any]]] = []
        for case in cases:
            target, *given = rng.permutation(list(network))[: 1 + max(1, len(network) // 5)].tolist()
            questions.append((target, {node: case[node] for node in given}))

        def ask(name: str = name, questions: Any = tuple(questions)) -> Any:
            network = hb.read_network(shipped(name))  # plans belong to the potentials
            return seconds(lambda: [network.posterior(*question).probabilities for question in questions])

        network.posterior(*questions[0])
        ours, answers = min((ask() for _ in range(3)), key=lambda pair: pair[0])
        if peer is None:
            report.show(f"{name}, one query, cold", ours / count)
            continue
        theirs, expected = seconds(lambda: [ask_pyagrum(peer, *question) for question in questions], 3)  # noqa: B023
        difference = max(float(np.abs(a - b).max()) for a, b in zip(answers, expected, strict=True))
        report.show(f"{name}, one query, cold", ours / count, theirs / count, difference=difference)


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


def main() -> None:
    options = parser(__doc__).parse_args()
    with Report(options) as report, TemporaryDirectory() as folder:
        report.run(batches, folder)
        report.run(singles, folder)
        report.run(cold_singles, folder)
        report.run(against_pgmpy)
        report.run(naive_bayes_regression)
        report.run(hybrid)


if __name__ == "__main__":
    main()
