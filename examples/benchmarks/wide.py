"""Markov networks of the UAI 2014 competition, exactly, in slices or with bounds, beside their published marginals.

Run ``python examples/benchmarks/wide.py FOLDER [PROBLEM ...]`` with a folder that holds ``NAME.uai.xz``, ``NAME.evid``
and ``NAME.mar.xz`` (task MAR). Every problem is asked in a process of its own, within ``--seconds`` of CPU time and
``--gib`` of memory. "exact" fits, "slice" is exact, too, and "bound" is sampled: then the table says how many of the
published marginals lie within the intervals (of 95 %) and how wide these are. Hellinger distances are means over the
variables, beside those of loopy belief propagation on the same factors; with ``--peers`` pyAgrum's approximations
follow.
"""

from __future__ import annotations

import argparse
import lzma
import math
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import hybridbn as hb
from hybridbn.formats.networks.uai import parse_uai, read_uai_evidence

HEADER = "problem              regime  seconds    MiB  largest     mean  hellinger    loopy  coverage  width"
SLICE_SECONDS = 60.0
"""Slices that are predicted to take longer are left to sampling."""


def read_problem(folder: Path, name: str) -> tuple[hb.Network, dict[str, Any], list[np.ndarray]]:
    with lzma.open(folder / f"{name}.uai.xz", "rt") as file:
        network = parse_uai(file.read(), source=name)
    evidence = {**network.graph["evidence"], **read_uai_evidence(folder / f"{name}.evid", network)}
    with lzma.open(folder / f"{name}.mar.xz", "rt") as file:
        words = file.read().split()[1:]
    marginals, at = [], 1
    for _ in range(int(words[0])):
        size = int(words[at])
        marginals.append(np.array(words[at + 1 : at + 1 + size], dtype=float))
        at += 1 + size
    return network, evidence, marginals


def propagate_loopily(network: hb.Network, evidence: dict[str, Any], rounds: int = 200) -> dict[str, np.ndarray]:
    """Return the beliefs of loopy belief propagation with damped messages, or after that many rounds."""
    sizes = {name: len(network.variable(name)) for name in network}  # type: ignore[arg-type]
    factors = []
    for name in network.graph["factors"]:
        potential = network.potential(name)
        table = potential.table[..., 1]  # type: ignore[attr-defined]
        codes = [network.variable(n).code(evidence[n]) if n in evidence else slice(None) for n in potential.scope[:-1]]  # type: ignore[union-attr]
        hidden = [n for n in potential.scope[:-1] if n not in evidence]
        if hidden:
            factors.append((hidden, np.maximum(table[tuple(codes)], 1e-300)))
    messages = {(i, n): np.full(sizes[n], 1 / sizes[n]) for i, (scope, _) in enumerate(factors) for n in scope}
    logs = {name: np.zeros(size) for name, size in sizes.items()}
    for _ in range(rounds):
        for name in logs:
            logs[name] = np.zeros(sizes[name])
        for (_, name), message in messages.items():
            logs[name] = logs[name] + np.log(message)
        change = 0.0
        for i, (scope, table) in enumerate(factors):
            incoming = []
            for name in scope:
                belief = logs[name] - np.log(messages[i, name])
                incoming.append(np.exp(belief - belief.max()))
            for place, name in enumerate(scope):
                product = table
                for other, vector in enumerate(incoming):
                    if other != place:
                        product = product * vector.reshape([-1 if d == other else 1 for d in range(len(scope))])
                fresh = product.sum(axis=tuple(d for d in range(len(scope)) if d != place))
                fresh = np.maximum(fresh / fresh.sum(), 1e-300)
                change = max(change, float(np.abs(fresh - messages[i, name]).max()))
                messages[i, name] = np.maximum(np.sqrt(fresh) * np.sqrt(messages[i, name]), 1e-150)
                messages[i, name] /= messages[i, name].sum()
        if change < 1e-6:
            break
    beliefs = {name: np.exp(log - log.max()) for name, log in logs.items()}
    return {name: belief / belief.sum() for name, belief in beliefs.items()}


def hellinger(one: np.ndarray, other: np.ndarray) -> float:
    return math.sqrt(max(1 - float(np.sqrt(one * other).sum()), 0.0))


def ask(network: hb.Network, evidence: dict[str, Any], targets: list[str], allowed: float, gib: float) -> Any:
    """Return the regime that answers, and the posteriors; tables take a part of the memory of the process only."""
    for regime, part in ((None, 0.25), ("slice", 0.5), ("bound", 0.5)):
        seconds = {"slice": SLICE_SECONDS, "bound": 0.5 * allowed}.get(str(regime))
        options = hb.Options(max_bytes=part * gib * 2**30, beyond=regime, seconds=seconds)  # type: ignore[arg-type]
        try:
            return regime or "exact", network.posteriors(evidence, targets, options=options)
        except hb.TooWide:
            continue
    return "none", {}


def report(folder: Path, name: str, allowed: float, gib: float) -> None:
    network, evidence, marginals = read_problem(folder, name)
    published = {f"var_{i}": marginal for i, marginal in enumerate(marginals) if f"var_{i}" not in evidence}
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(effective sample|estimate)")
        regime, posteriors = ask(network, evidence, list(published), allowed, gib)
    spent = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if not posteriors:
        print(f"{name:20} {'too wide':>8} {spent:7.1f} {memory:6.0f}")
        return
    loopy = propagate_loopily(network, evidence)
    errors = [float(np.abs(posteriors[n].probabilities - m).max()) for n, m in published.items()]
    ours = np.mean([hellinger(posteriors[n].probabilities, m) for n, m in published.items()])
    theirs = np.mean([hellinger(loopy[n], m) for n, m in published.items()])
    limits = [(*posteriors[n].bounds, m) for n, m in published.items() if len(m) > 1]
    # published digits are rounded
    inside = np.concatenate([(low - 1e-5 <= m) & (m <= high + 1e-5) for low, high, m in limits])
    width = np.concatenate([high - low for low, high, _ in limits])
    print(
        f"{name:20} {regime:>6} {spent:8.1f} {memory:6.0f} {max(errors):8.2g} {np.mean(errors):8.2g} {ours:10.2g}"
        f" {theirs:8.2g} {inside.mean():9.3f} {width.mean():6.3f}"
    )


def report_peers(folder: Path, name: str) -> None:
    """Print the largest and mean errors of pyAgrum's approximations."""
    import pyagrum

    network, evidence, marginals = read_problem(folder, name)
    peer = pyagrum.BayesNet()
    for node in network:
        peer.add(pyagrum.RangeVariable(node, "", 0, len(network.variable(node)) - 1))  # type: ignore[arg-type]
    for node in network:
        potential = network.potential(node)
        for parent in potential.scope[:-1]:
            peer.addArc(parent, node)
        peer.cpt(node)[:] = potential.table.transpose(  # type: ignore[attr-defined]
            [*reversed(range(len(potential.scope) - 1)), len(potential.scope) - 1]
        )
    for engine in (pyagrum.LoopyBeliefPropagation, pyagrum.GibbsSampling, pyagrum.ImportanceSampling):
        inference = engine(peer)
        inference.setEvidence(evidence)
        if hasattr(inference, "setMaxTime"):
            inference.setMaxTime(60)
        inference.makeInference()
        errors = [
            float(np.abs(inference.posterior(f"var_{i}").toarray() - marginal).max())
            for i, marginal in enumerate(marginals)
            if f"var_{i}" not in evidence
        ]
        print(f"  {engine.__name__:24} largest {max(errors):.2g} mean {np.mean(errors):.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.alone:
        report(given.folder, given.problems[0], given.seconds, given.gib)
        return
    print(HEADER, flush=True)
    for name in given.problems or sorted(path.name.removesuffix(".uai.xz") for path in given.folder.glob("*.uai.xz")):
        command = [sys.executable, __file__, str(given.folder), name, "--alone"]
        command += ["--seconds", str(given.seconds), "--gib", str(given.gib)]

        def limit() -> None:
            cpu, memory = int(1.5 * given.seconds) + 60, int(given.gib * 2**30)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

        done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
        print(done.stdout.rstrip() or f"{name:20} failed: {done.stderr.strip().splitlines()[-1:]}", flush=True)
        if given.peers:
            report_peers(given.folder, name)


if __name__ == "__main__":
    main()
