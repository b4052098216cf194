"""Markov networks of the UAI 2014 competition, exactly, in slices or with bounds, beside their published marginals.

Run ``python examples/benchmarks/wide.py FOLDER [PROBLEM ...]`` with a folder that holds ``NAME.uai.xz``, ``NAME.evid``
and ``NAME.mar.xz`` (task MAR). Every problem is asked in a process of its own, within ``--seconds`` of CPU time and
``--gib`` of memory. "exact" fits, "slice" is exact, too, and "bound" is sampled: then the table says how many of the
published marginals lie within the intervals (of 95 %) and how wide these are, first for those that hold for any number
of draws, then for the asymptotic ones. Hellinger distances are means over the variables, beside those of loopy belief
propagation on the same factors; with ``--peers`` the mean and largest errors of pyAgrum's loopy belief propagation,
Gibbs sampling and importance sampling follow. What is in the file of ``--results`` is not asked again.

``python examples/benchmarks/wide.py --mixed 1e7`` asks three families of mixed networks instead, beside as many draws
weighted by their likelihood: a 30 x 30 grid of tables, Gaussians and logistic nodes, a conditional Gaussian network of
50 nodes with parents among the 12 nodes before, and three layers of softmax nodes with Gaussians between them.
"""

from __future__ import annotations

import argparse
import json
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
from hybridbn.exchange.uai import parse_uai, read_uai_evidence

HEADER = (
    "problem             regime seconds    MiB  largest     mean hellinger    loopy coverage width"
    " asymptotic coverage width"
)
PEERS = ("LoopyBeliefPropagation", "GibbsSampling", "ImportanceSampling")
PEER_SECONDS = 60.0
SLICE_SECONDS = 90.0
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


def ask(
    network: hb.Network, evidence: dict[str, Any], targets: list[str], allowed: float, gib: float, *, exact: bool = True
) -> Any:
    """Return the regime that answers, and the posteriors; tables take a part of the memory of the process only.

    Without `exact`, what fits is answered as with slices, if that is predicted to be fast enough.
    """
    for regime, part in ((None, 0.25), ("slice", 0.5), ("bound", 0.5))[not exact :]:
        seconds = {"slice": SLICE_SECONDS, "bound": 0.7 * allowed}.get(str(regime))
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
    row: dict[str, Any] = {"name": name, "regime": regime, "seconds": spent, "mib": memory}
    if posteriors:
        loopy = propagate_loopily(network, evidence)
        errors = [float(np.abs(posteriors[n].probabilities - m).max()) for n, m in published.items()]
        row["largest"], row["mean"] = max(errors), float(np.mean(errors))
        row["hellinger"] = float(np.mean([hellinger(posteriors[n].probabilities, m) for n, m in published.items()]))
        row["loopy"] = float(np.mean([hellinger(loopy[n], m) for n, m in published.items()]))
        for kind in ("", "asymptotic_"):
            limits = [(*getattr(posteriors[n], kind + "bounds"), m) for n, m in published.items() if len(m) > 1]
            # published digits are rounded
            inside = np.concatenate([(low - 1e-5 <= m) & (m <= high + 1e-5) for low, high, m in limits])
            row[kind + "coverage"] = float(inside.mean())
            row[kind + "width"] = float(np.concatenate([high - low for low, high, _ in limits]).mean())
    print(json.dumps(row))


def report_peer(folder: Path, name: str, engine: str) -> None:
    """Print the largest and mean error of one of pyAgrum's approximations."""
    import pyagrum

    network, evidence, marginals = read_problem(folder, name)
    peer = pyagrum.BayesNet()
    for node in network:
        peer.add(pyagrum.RangeVariable(node, "", 0, len(network.variable(node)) - 1))  # type: ignore[arg-type]
    for node in network:
        potential = network.potential(node)
        for parent in potential.scope[:-1]:
            peer.addArc(parent, node)
        axes = [*reversed(range(len(potential.scope) - 1)), len(potential.scope) - 1]
        peer.cpt(node)[:] = np.ascontiguousarray(potential.table.transpose(axes))  # type: ignore[attr-defined]
    inference = getattr(pyagrum, engine)(peer)
    inference.setEvidence(evidence)
    if hasattr(inference, "setMaxTime"):
        inference.setMaxTime(PEER_SECONDS)
    inference.makeInference()
    errors = [
        float(np.abs(inference.posterior(f"var_{i}").toarray() - marginal).max())
        for i, marginal in enumerate(marginals)
        if f"var_{i}" not in evidence
    ]
    print(json.dumps({f"{engine}_mean": float(np.mean(errors)), f"{engine}_largest": max(errors)}))


def format_row(row: dict[str, Any]) -> str:
    """Return a line of the table."""
    if "failed" in row:
        return f"{row['name']:20} failed: {row['failed']}"
    line = f"{row['name']:20} {row['regime']:>5} {row['seconds']:7.1f} {row['mib']:6.0f}"
    if "mean" in row:
        line += (
            f" {row['largest']:8.2g} {row['mean']:8.2g} {row['hellinger']:9.2g} {row['loopy']:8.2g}"
            f" {row['coverage']:8.3f} {row['width']:5.3f} {row['asymptotic_coverage']:19.3f}"
            f" {row['asymptotic_width']:5.3f}"
        )
    for engine in PEERS:
        if f"{engine}_mean" in row:
            line += f"  {engine} {row[engine + '_mean']:.2g} {row[engine + '_largest']:.2g}"
        elif engine in row:
            line += f"  {engine} {row[engine]}"
    return line


def run_alone(command: list[str], seconds: float, gib: float) -> dict[str, Any]:
    """Return what a process of this script prints, within limits of time and memory, or how it failed."""

    def limit() -> None:
        cpu, memory = int(1.5 * seconds) + 60, int(gib * 2**30)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    command = [sys.executable, __file__, *command]
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
    if done.stdout.strip():
        row: dict[str, Any] = json.loads(done.stdout)
        return row
    return {"failed": (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]}


def ask_problem(folder: Path, name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a problem, with those of the peers that are wanted."""
    command = [str(folder), name, "--seconds", str(given.seconds), "--gib", str(given.gib), "--alone"]
    row = {"name": name, **run_alone([*command, "hybridbn"], given.seconds, given.gib)}
    for engine in PEERS if given.peers else ():
        answer = run_alone([*command, engine], given.seconds, given.gib)
        row |= {engine: answer["failed"]} if "failed" in answer else answer
    return row


def make_gaussian(rng: np.random.Generator, name: str, parents: list[Any]) -> Any:
    discrete = [parent for parent in parents if isinstance(parent, hb.Discrete)]
    numbers = [parent for parent in parents if not isinstance(parent, hb.Discrete)]
    shape = [len(parent) for parent in discrete]
    return hb.LinearGaussian(
        hb.Continuous(name),
        (*discrete, *numbers),
        intercept=rng.normal(size=shape),
        coefficients=rng.uniform(-0.7, 0.7, size=(*shape, len(numbers))),
        variance=rng.uniform(0.3, 1.5, size=shape),
    )


def make_discrete(rng: np.random.Generator, name: str, parents: list[Any], states: int) -> Any:
    variable = hb.Discrete(name, tuple(range(states)))
    shape = [*(len(parent) for parent in parents if isinstance(parent, hb.Discrete)), states]
    numbers = sum(not isinstance(parent, hb.Discrete) for parent in parents)
    if not numbers:
        return hb.Multinomial(variable, parents, table=rng.gamma(1.0, size=shape) + 1e-3, normalize=True)
    ordered = sorted(parents, key=lambda parent: not isinstance(parent, hb.Discrete))
    coefficients = rng.normal(size=(*shape, numbers))
    return hb.Softmax(variable, ordered, intercept=rng.normal(size=shape), coefficients=coefficients)


def make_grid(rng: np.random.Generator, side: int = 30) -> hb.Network:
    potentials: dict[tuple[int, int], Any] = {}
    for row in range(side):
        for column in range(side):
            above = [potentials[k].child for k in ((row - 1, column), (row, column - 1)) if k in potentials]
            name = f"g{row}_{column}"
            gaussian = rng.random() < 0.3
            potentials[row, column] = (
                make_gaussian(rng, name, above) if gaussian else make_discrete(rng, name, above, 2)
            )
    return hb.Network(list(potentials.values()))


def make_conditional_gaussian(rng: np.random.Generator, count: int = 50, reach: int = 12) -> hb.Network:
    potentials: list[Any] = []
    for number in range(count):
        near = [potential.child for potential in potentials[-reach:]]
        above = [near[i] for i in sorted(rng.choice(len(near), min(len(near), 4), replace=False))]
        if rng.random() < 0.4:
            potentials.append(make_gaussian(rng, f"x{number}", above))
        else:
            above = [parent for parent in above if isinstance(parent, hb.Discrete)]
            potentials.append(make_discrete(rng, f"d{number}", above, int(rng.integers(2, 4))))
    return hb.Network(potentials)


def make_softmax_layers(rng: np.random.Generator, width: int = 8) -> hb.Network:
    potentials = [make_gaussian(rng, f"z0_{i}", []) for i in range(width)]
    layer = [potential.child for potential in potentials]
    for depth in range(1, 4):
        fresh = [make_discrete(rng, f"s{depth}_{i}", _choose(rng, layer, 3), 3) for i in range(width)]
        potentials += fresh
        layer = [potential.child for potential in fresh]
        if depth < 3:
            fresh = [make_gaussian(rng, f"z{depth}_{i}", _choose(rng, layer, 2)) for i in range(width)]
            potentials += fresh
            layer = [potential.child for potential in fresh]
    return hb.Network(potentials)


def _choose(rng: np.random.Generator, variables: list[Any], count: int) -> list[Any]:
    return [variables[i] for i in sorted(rng.choice(len(variables), count, replace=False))]


MIXED = {"grid": make_grid, "gaussian": make_conditional_gaussian, "softmax": make_softmax_layers}


def weigh_by_likelihood(
    network: hb.Network, evidence: dict[str, Any], count: int, block: int = 20_000
) -> tuple[dict[str, np.ndarray], float]:
    """Return probabilities of states, or first and second moments, from weighted draws, and the effective sample."""
    rng = np.random.default_rng(0)
    sums: dict[str, np.ndarray] = {}
    total = squares = 0.0
    for _ in range(max(count // block, 1)):
        drawn: dict[str, Any] = {}
        logs = np.zeros(block)
        for name in network:
            potential, variable = network.potential(name), network.variable(name)
            given = {parent.name: drawn[parent.name] for parent in potential.parents}
            if name in evidence:
                known = variable.code(evidence[name]) if isinstance(variable, hb.Discrete) else evidence[name]
                drawn[name] = np.full(block, known)
                points = {other: values[None] for other, values in {**given, name: drawn[name]}.items()}
                logs += potential.log_on(points).reshape(block)
            else:
                drawn[name] = potential.ppf(rng.random(block), given)
        weights = np.exp(logs)
        total, squares = total + weights.sum(), squares + weights @ weights
        for name, values in drawn.items():
            variable = network.variable(name)
            if isinstance(variable, hb.Discrete):
                own = np.bincount(values, weights, len(variable))
            else:
                own = np.array([weights @ values, weights @ values**2])
            sums[name] = sums.get(name, 0.0) + own
    return {name: own / total for name, own in sums.items()}, total**2 / squares


def report_mixed(family: str, seed: int, observed: int, draws: int, allowed: float, gib: float) -> None:
    """Print how far answers are from weighted draws; limits are widened by three standard errors of these."""
    rng = np.random.default_rng(seed)
    network = MIXED[family](rng)
    row = network.sample(1, random_state=seed).iloc[0]
    evidence = {name: row[name] for name in rng.choice(list(network)[len(network) // 3 :], observed, replace=False)}
    hidden = [name for name in network if name not in evidence]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(effective sample|estimate)")
        regime, posteriors = ask(network, evidence, hidden, allowed, gib, exact=False)
    spent = time.process_time() - start
    reference, effective = weigh_by_likelihood(network, evidence, draws)
    errors, inside, width, shifts = [], [], [], []
    for name in hidden:
        ours, theirs = posteriors[name], reference[name]
        if isinstance(network.variable(name), hb.Discrete):
            low, high = ours.bounds
            slack = 3 * np.sqrt(theirs * (1 - theirs) / effective)
            errors.append(float(np.abs(ours.probabilities - theirs).max()))
            inside.append(np.mean((low - slack <= theirs) & (theirs <= high + slack)))
            width.append(np.mean(high - low))
        else:
            shifts.append(abs(ours.mean() - theirs[0]) / math.sqrt(theirs[1] - theirs[0] ** 2))
    print(
        f"{family:10} {seed:4} {regime:>6} {spent:8.1f} {effective:9.0f} {max(errors):8.2g} {np.mean(errors):8.2g}"
        f" {np.mean(inside):9.3f} {np.mean(width):6.3f} {max(shifts):8.2g}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--gib", type=float, default=2.0)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--results", type=Path, help="a file of rows that are known; new ones are added")
    parser.add_argument("--alone", choices=["hybridbn", *PEERS], help=argparse.SUPPRESS)
    parser.add_argument("--mixed", type=float, metavar="DRAWS")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--observed", type=int, default=6)
    given = parser.parse_intermixed_args()
    if given.mixed:
        print("family     seed regime  seconds effective  largest     mean  coverage  width  largest shift")
        for family in MIXED:
            for seed in range(given.seeds):
                report_mixed(family, seed, given.observed, int(given.mixed), given.seconds, given.gib)
        return
    if given.folder is None:
        parser.error("name the folder of the problems, or ask for --mixed networks")
    if given.alone == "hybridbn":
        report(given.folder, given.problems[0], given.seconds, given.gib)
        return
    if given.alone:
        report_peer(given.folder, given.problems[0], given.alone)
        return
    known: dict[str, dict[str, Any]] = {}
    if given.results is not None and given.results.exists():
        known = {row["name"]: row for row in map(json.loads, given.results.read_text().splitlines())}
    print(HEADER, flush=True)
    for name in given.problems or sorted(path.name.removesuffix(".uai.xz") for path in given.folder.glob("*.uai.xz")):
        if name not in known:
            known[name] = ask_problem(given.folder, name, given)
            if given.results is not None:
                with given.results.open("a") as file:
                    file.write(json.dumps(known[name]) + "\n")
        print(format_row(known[name]), flush=True)


if __name__ == "__main__":
    main()
