"""Queries against pyAgrum and pgmpy, in one process run, with the answers compared.

Run ``python examples/benchmarks/inference.py`` (about two minutes). Times are CPU seconds; a ratio above one means that
hybridbn is faster. Peers work row by row, so they are timed on few rows and scaled.
"""

from __future__ import annotations

import gzip
import importlib.util
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

import hybridbn as hb

ROWS = 100_000
PEER_ROWS = 200


def models() -> Path:
    spec = importlib.util.find_spec("pgmpy")
    return Path(str(spec and spec.origin)).parent / "utils" / "example_models"


def seconds(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the best CPU time of some runs, and the result."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return float(best), result


def show(what: str, ours: float, peer: float, bound: float, unit: str, difference: float) -> None:
    verdict = "ok" if peer / ours >= bound else "SLOWER THAN THE BOUND"
    print(
        f"{what:<58} {ours:10.3f} {peer:10.3f} {unit:<8} {peer / ours:9.1f}x (bound {bound:g}x) {verdict}  |diff| {difference:.1e}"
    )


def pyagrum_network(folder: str, name: str) -> Any:
    import pyagrum

    path = Path(folder) / f"{name}.bif"
    path.write_bytes(gzip.decompress((models() / f"{name}.bif.gz").read_bytes()))
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


def batches(folder: str) -> None:
    network = hb.read_network(models() / "alarm.bif.gz")
    peer = pyagrum_network(folder, "alarm")
    rng = np.random.default_rng(0)
    complete = network.sample(ROWS, random_state=0)
    half = complete.mask(rng.random(complete.shape) < 0.5)
    third = complete.mask(rng.random(complete.shape) < 0.3)
    names = list(network)

    ours, found = seconds(lambda: network.posteriors(half))
    theirs, expected = seconds(lambda: row_by_row(peer, half[:PEER_ROWS], names))
    # pyAgrum's file reader keeps single precision, so answers agree to about 1e-6
    difference = max(float(np.abs(found[name].probabilities[:PEER_ROWS] - expected[name]).max()) for name in names)
    show(
        "alarm, all 37 posteriors, half the cells missing",
        ours / ROWS * 1e6,
        theirs / PEER_ROWS * 1e6,
        60,
        "us/row",
        difference,
    )

    leaves = [name for name in names if network.out_degree(name) == 0]
    for what, frame, bound in (
        ("complete rows", complete, 150),
        ("leaves observed", complete[leaves], 150),
        ("30 % missing", third, 25),
    ):
        for target in ("LVFAILURE", "INTUBATION"):
            known = frame.drop(columns=target, errors="ignore")
            ours, post = seconds(lambda t=target, k=known: network.posterior(t, k), repeats=3)
            theirs, expected = seconds(lambda t=target, k=known: row_by_row(peer, k[:PEER_ROWS], [t]))
            difference = float(np.abs(post.probabilities[:PEER_ROWS] - expected[target]).max())
            show(f"alarm, {target}, {what}", ours / ROWS * 1e6, theirs / PEER_ROWS * 1e6, bound, "us/row", difference)


def singles(folder: str) -> None:
    import pyagrum

    for name in ("alarm", "hailfinder", "win95pts", "andes"):
        network, peer = hb.read_network(models() / f"{name}.bif.gz"), pyagrum_network(folder, name)
        leaves = [node for node in network if network.out_degree(node) == 0][:5]
        evidence = {leaf: network.variable(leaf).states[0] for leaf in leaves}
        target = next(node for node in network if network.in_degree(node) == 0)

        def ask(network: Any = network, target: str = target, evidence: Any = evidence) -> Any:
            for _ in range(50):
                found = network.posterior(target, evidence).probabilities
            return found

        def ask_peer(peer: Any = peer, target: str = target, evidence: Any = evidence) -> Any:
            for _ in range(50):
                engine = pyagrum.LazyPropagation(peer)
                engine.addTarget(target)
                engine.setEvidence(evidence)
                engine.makeInference()
                found = engine.posterior(target).toarray()
            return found

        ask()
        ours, found = seconds(ask, 5)
        theirs, expected = seconds(ask_peer, 5)
        show(f"{name}, one query, warm", ours * 20, theirs * 20, 1, "ms", float(np.abs(found - expected).max()))
    for name in ("alarm", "hailfinder", "win95pts", "andes", "pigs"):
        network, peer = hb.read_network(models() / f"{name}.bif.gz"), pyagrum_network(folder, name)

        def all_of_peer(peer: Any = peer, names: Any = tuple(network)) -> Any:
            engine = pyagrum.LazyPropagation(peer)
            engine.makeInference()
            return {node: engine.posterior(node).toarray() for node in names}

        network.posteriors()
        ours, found = seconds(network.posteriors, 5)
        theirs, expected = seconds(all_of_peer, 3)
        difference = max(float(np.abs(found[node].probabilities - expected[node]).max()) for node in network)
        show(f"{name}, all marginals, warm", ours * 1e3, theirs * 1e3, 1, "ms", difference)


def against_pgmpy(folder: str) -> None:
    from pgmpy.inference import VariableElimination

    network = hb.read_network(models() / "alarm.bif.gz")
    model = network.to_pgmpy()
    complete = network.sample(ROWS, random_state=0).drop(columns="LVFAILURE")
    engine = VariableElimination(model)
    rows = complete[:20].to_dict("records")
    theirs, expected = seconds(lambda: [engine.query(["LVFAILURE"], row, show_progress=False).values for row in rows])
    ours, post = seconds(lambda: network.posterior("LVFAILURE", complete), 3)
    difference = float(np.abs(post.probabilities[:20] - np.array(expected)).max())
    show("alarm, LVFAILURE, complete rows, pgmpy", ours / ROWS * 1e6, theirs / 20 * 1e6, 1000, "us/row", difference)


def naive_bayes_regression() -> None:
    """Mean and variance of an MTE response given 13 attributes, a fifth of the cells missing; the peer is a loop over rows."""
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
    rows = 1_000_000
    frame = pd.DataFrame({f"x{j}": np.where(rng.random(rows) < 0.2, np.nan, rng.random(rows) * 10) for j in range(13)})

    def ours_work() -> Any:
        found = network.posterior("y", frame)
        return found.mean(), found.var()

    ours, (mean, variance) = seconds(ours_work, 2)
    one_by_one = [network.posterior("y", row) for row in frame[:50].to_dict("records")]
    difference = max(abs(p.mean() - mean[i]) + abs(p.var() - variance[i]) for i, p in enumerate(one_by_one))
    verdict = "ok" if rows / ours >= 1e6 else "SLOWER THAN THE BOUND"
    print(
        f"naive Bayes over MTEs, 1,000,000 x 13: {rows / ours / 1e6:.2f} million rows a CPU second (bound 1) {verdict}  |diff| {difference:.1e}"
    )


def hybrid() -> None:
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
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as folder:
        batches(folder)
        singles(folder)
        against_pgmpy(folder)
    naive_bayes_regression()
    hybrid()


if __name__ == "__main__":
    main()
