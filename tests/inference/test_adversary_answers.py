"""Answers under attack: networks, likelihoods and pairs of questions that no run has seen before.

Each run has a seed of its own, which is printed; `HYBRIDBN_SEED` repeats it. What is printed beside it are the figures
that a change of the engine may move: how many were tried, the worst errors, the slowest case.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import test_circle
import test_inference_metamorphic as metamorphic
from costs import ended_if_it_hangs
from effort import examples, fresh_generators, fresh_seed, report
from hypothesis import HealthCheck, given, seed, settings
from inference_tools import (
    Bump,
    Maker,
    largest_product,
    network_of,
    random_discrete,
    random_evidence,
    random_hybrid,
    reference,
    widest,
)
from narrowing import as_discrete, as_kind, known

import hybridbn as hb
from hybridbn.errors import HybridBNError, ImpossibleEvidence

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning")]
ALL_FAMILIES = (*Maker.FAMILIES, "cases")
CLOSE = 1e-9


def make_problem(rng: np.random.Generator, most_nodes: int, families: Sequence[str] = ALL_FAMILIES) -> Any:
    """Return specs, a target and evidence that the reference can answer, too."""
    while True:
        nodes = int(rng.integers(2, most_nodes + 1))
        specs = random_hybrid(rng, nodes, families)
        target = f"n{rng.integers(nodes)}"
        evidence = random_evidence(specs, target, rng)
        if widest(specs, evidence) <= 2 and largest_product(specs, target, evidence) <= 3e7:
            return specs, target, evidence


def measure_error(post: Any, exact: Any, discrete: bool) -> float:
    """Return the largest error of probabilities."""
    if discrete:
        return float(np.abs(post.probabilities - exact.probabilities).max())
    return float(np.abs(post.cdf(exact.edges[1:]) - exact.cdf).max())


def test_random_networks_of_all_families() -> None:
    """Every claimed error is honest and below 1e-6."""
    failures: list[tuple[Any, ...]] = []
    families, seconds = Counter[str](), []
    worst, claimed, impossible = 0.0, 0.0, 0
    count = examples(400)
    for number, rng in fresh_generators(count):
        specs, target, evidence = make_problem(rng, most_nodes=8)
        families.update(spec.family for spec in specs.values())
        exact = reference(specs, target, evidence)
        began = time.process_time()
        try:
            with ended_if_it_hangs(60):
                post = network_of(specs).posterior(target, evidence)
        except ImpossibleEvidence:
            impossible += 1
            if exact.log_evidence > -600:
                failures.append((number, "impossible", exact.log_evidence))
            continue
        finally:
            seconds.append(time.process_time() - began)
        if exact.log_evidence < -600:
            continue
        error = measure_error(post, exact, specs[target].discrete)
        off = abs(post.log_evidence - exact.log_evidence)
        worst, claimed = max(worst, error), max(claimed, post.error)
        if not (error <= post.error + 1e-11 and post.error < 1e-6 and off <= 1e-8 * max(1, abs(exact.log_evidence))):
            failures.append((number, specs, target, evidence, error, post.error, off))
    slow = sum(s > 2 for s in seconds)
    report(f"{count} networks: worst error {worst:.1e}, largest claim {claimed:.1e}, {impossible} impossible")
    report(f"slowest {max(seconds):.2f} CPU seconds, {slow} above 2, median {np.median(seconds):.4f}")
    report(dict(families))
    assert failures == []


# -- sharp and kinked likelihoods --------------------------------------------------------------------------------------


def integrate(function: Callable[..., Any], edges: Any) -> float:
    """Integrate between edges by Gauss' rule, halving the panels in which halves disagree with the whole."""
    nodes, weights = np.polynomial.legendre.leggauss(8)

    def apply(low: Any, high: Any) -> Any:
        half = (high - low) / 2
        return function(low[:, None] + half[:, None] * (1 + nodes)) @ weights * half

    low, high = np.asarray(edges)[:-1], np.asarray(edges)[1:]
    total, scale = 0.0, float(np.abs(apply(low, high)).sum())
    for _ in range(60):
        middle = (low + high) / 2
        whole, halves = apply(low, high), apply(low, middle) + apply(middle, high)
        rough = (np.abs(whole - halves) > 1e-16 * scale) & (middle > low) & (middle < high)
        total += float(halves[~rough].sum())
        if not rough.any():
            break
        left, right = (low[rough], middle[rough]), (middle[rough], high[rough])
        low, high = np.concatenate([left[0], right[0]]), np.concatenate([left[1], right[1]])
    return total


def edges_around(points: Sequence[float], scales: Sequence[float]) -> Any:
    """Return panel ends: a grid over [-12, 12], and finer ones towards points of these scales."""
    finer = [
        point + sign * scale * 2.0**k
        for point, scale in zip(points, scales, strict=True)
        for sign in (-1, 1)
        for k in range(-3, 24)
        if scale * 2.0**k < 12
    ]
    ends = np.unique([*np.linspace(-12, 12, 2049), *points, *finer])
    return ends[(ends >= -12) & (ends <= 12)]


def make_likelihood(kind: str, rng: np.random.Generator) -> tuple[Callable[[Any], Any], Any, float]:
    """Return a likelihood function of a number near zero, panel ends for it, and how wide its narrowest feature is."""
    a, b = sorted(rng.uniform(-2.5, 2.5, 2).tolist())
    w = float(10 ** rng.uniform(-4, 0))
    match kind:
        case "steps":
            jumps = np.sort(rng.uniform(-2.5, 2.5, int(rng.integers(1, 6))))
            levels = rng.uniform(0.1, 1, len(jumps) + 1)
            return (
                lambda z: levels[np.searchsorted(jumps, z, side="right")],
                edges_around(jumps.tolist(), [1e-3] * len(jumps)),
                1,
            )
        case "box":
            return lambda z: ((z > a) & (z < a + w)) * 1.0, edges_around([a, a + w], [w, w]), w
        case "cusp":
            return lambda z: np.exp(-np.abs(z - a) / w), edges_around([a], [w]), w
        case "hat":
            return lambda z: np.maximum(0, 1 - np.abs(z - a) / w), edges_around([a - w, a, a + w], [w] * 3), w
        case "root":
            return lambda z: np.sqrt(np.maximum(0, z - a)), edges_around([a], [1e-9]), 1
        case "kink":
            return lambda z: 0.2 + np.abs(z - a) + 0.5 * np.maximum(0, z - b), edges_around([a, b], [1, 1]), 1
        case "spike":
            return lambda z: np.exp(-0.5 * ((z - a) / w) ** 2), edges_around([a], [w]), w
        case "two spikes":
            v = float(10 ** rng.uniform(-4, 0))
            return (
                lambda z: np.exp(-0.5 * ((z - a) / w) ** 2) + 0.5 * np.exp(-0.5 * ((z - b) / v) ** 2),
                edges_around([a, b], [w, v]),
                min(v, w),
            )
        case "spike on a floor":
            floor = float(10 ** rng.uniform(-4, 0))
            return lambda z: floor + np.exp(-0.5 * ((z - a) / w) ** 2), edges_around([a], [w]), w
        case _:
            rate = float(rng.uniform(1, 30))
            return lambda z: 1 + 0.9 * np.sin(rate * z + a), edges_around([], []), 1 / rate


KINDS = ("steps", "box", "cusp", "hat", "root", "kink", "spike", "two spikes", "spike on a floor", "wave")
X, Y = hb.Continuous("x"), hb.Continuous("y")
C = hb.Discrete("c", ("a", "b"))


def density(x: Any, mean: Any, sd: Any) -> Any:
    return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))


def judge(net: hb.Network, evidence: Mapping[str, Any], masses: Sequence[float]) -> tuple[str, float]:
    """Ask for the class; return the verdict, and the error of the posterior and of its evidence.

    Right is what has an error of at most 1e-9 and claims one below 1e-6; told is a larger one that the claim covers,
    and an error of the library that says so.
    """
    try:
        post = net.posterior("c", evidence)
    except HybridBNError as refusal:
        return ("told" if "in steps of" in str(refusal) else "wrong"), 1.0
    error = abs(float(post["a"]) - masses[0] / sum(masses))
    log_error = abs(post.log_evidence - math.log(sum(masses)))
    largest = max(error, min(1.0, log_error))
    if largest <= CLOSE and post.error < 1e-6:
        return "right", largest
    return ("told" if largest <= 4 * post.error + CLOSE else "wrong"), largest


@pytest.mark.parametrize("kind", KINDS)
def test_sharp_and_kinked_likelihoods(kind: str) -> None:
    """All that is no narrower than 1e-4 is right, or its error is told."""
    verdicts, failures, worst = Counter[str](), [], 0.0
    for number, rng in fresh_generators(examples(40)):
        means, sds = rng.normal(size=2), rng.uniform(0.5, 1.5, 2)
        net = hb.Network(
            [hb.Multinomial(C, table=[0.4, 0.6]), hb.LinearGaussian(X, (C,), intercept=means, variance=sds**2)]
        )
        function, edges, width = make_likelihood(kind, rng)
        masses = [
            share * integrate(lambda z, m=mean, s=sd, f=function: density(z, m, s) * f(z), edges)
            for share, mean, sd in zip((0.4, 0.6), means, sds, strict=True)
        ]
        verdict, error = judge(net, {"x": function}, masses)
        verdicts[verdict] += 1
        worst = max(worst, error * (verdict == "right"))
        if verdict == "wrong":
            failures.append((number, width, error))
    report(dict(verdicts), f"worst error of the right ones {worst:.1e}")
    assert failures == []
    assert verdicts["right"] >= 0.9 * verdicts.total()


BENDS: dict[str, Callable[..., Any]] = {
    "square": lambda x, p: p * x**2,
    "cubic": lambda x, p: x**3 - 2 * p * x,
    "wave": lambda x, p: np.sin(5 * p * x),
    "bump": lambda x, p: 3 * p * np.exp(-(x**2)),
    "fold": lambda x, p: np.abs(x - p + 1),
    "swing": lambda x, p: x * np.cos(3 * p * x),
}


@pytest.mark.parametrize("name", BENDS)
def test_means_that_bend_in_a_hidden_parent(name: str) -> None:
    """All modes along the parent of an observed child count, however small its noise."""
    verdicts, failures, worst = Counter[str](), [], 0.0
    for number, rng in fresh_generators(examples(40)):
        p, sd = float(rng.uniform(0.6, 1.4)), float(10 ** rng.uniform(-4, 0))
        bend = BENDS[name]
        observed = float(bend(rng.normal(), p) + sd * rng.normal())
        grid = np.linspace(-12, 12, 400_001)
        gap = bend(grid, p) - observed
        roots = grid[:-1][np.sign(gap[1:]) != np.sign(gap[:-1])]
        slopes = np.abs(np.gradient(gap, grid))[:-1][np.sign(gap[1:]) != np.sign(gap[:-1])]
        scales = np.maximum(sd / np.maximum(slopes, 1e-3), 6e-5)
        # the reference must have an edge at the kink; the library has to find it
        edges = edges_around([*roots, p - 1], [*scales, sd])
        net = hb.Network(
            [
                hb.LinearGaussian(X, intercept=0, variance=1),
                hb.Density(Y, (X,), function=lambda x, y, p=p, sd=sd, f=bend: density(y, f(x, p), sd), check=False),
                hb.Softmax(C, (X,), intercept=[0, 0], coefficients=[[0], [3]]),
            ]
        )
        masses = [
            integrate(
                lambda x, s=sign, y=observed, p=p, sd=sd, f=bend: (
                    density(x, 0, 1) * density(y, f(x, p), sd) / (1 + np.exp(s * 3 * x))
                ),
                edges,
            )
            for sign in (1, -1)
        ]
        verdict, error = judge(net, {"y": observed}, masses)
        verdicts[verdict] += 1
        worst = max(worst, error * (verdict == "right"))
        if verdict == "wrong":
            failures.append((number, p, sd, observed, error))
    report(dict(verdicts), f"worst error of the right ones {worst:.1e}")
    assert failures == []
    assert verdicts["right"] >= 0.9 * verdicts.total()


# -- metamorphic pairs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "relation",
    [
        metamorphic.test_chain_rule,
        metamorphic.test_barren_nodes_change_nothing,
        metamorphic.test_the_order_of_nodes_does_not_matter,
        metamorphic.test_names_do_not_matter,
        metamorphic.test_likelihoods_split_in_two,
        metamorphic.test_total_probability,
    ],
)
def test_relations_between_answers(relation: Any) -> None:
    tried = 0

    def check(problem: Any) -> None:
        nonlocal tried
        relation.hypothesis.inner_test(problem)
        tried += 1

    limits = settings(
        max_examples=examples(100),
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    seed(fresh_seed())(limits(given(problem=metamorphic.problems())(check)))()
    report(f"{tried} pairs")


def rebuild(
    potential: Any, variables: Mapping[str, Any], parents: Sequence[str], units: Mapping[str, float] | None = None
) -> Any:
    """Return the same potential over other variables: the states and the parents in another order, and every
    continuous variable as a number of smaller units.
    """
    scale = dict.fromkeys(variables, 1.0) | dict(units or {})
    child, name = variables[potential.child.name], potential.child.name
    above = [variables[p] for p in parents]
    discrete = [v.name for v in potential.parents if isinstance(v, hb.Discrete)]
    numbers = [v.name for v in potential.parents if isinstance(v, hb.Continuous)]
    new_discrete, new_numbers = ([p for p in parents if p in kind] for kind in (discrete, numbers))
    own_state = [name] if isinstance(potential.child, hb.Discrete) else []

    def rearrange(array: Any, old: Sequence[str], new: Sequence[str]) -> Any:
        """Turn the axes, and reorder the states along the discrete ones."""
        turned = np.transpose(array, [old.index(n) for n in new])
        for axis, other in enumerate(new):
            if isinstance(variables[other], hb.Discrete):
                before = potential.variable(other).states
                turned = np.take(turned, [before.index(s) for s in variables[other].states], axis=axis)
        return turned

    sides, new_sides = [*discrete, *own_state], [*new_discrete, *own_state]
    match potential.family:
        case "multinomial":
            return hb.Multinomial(child, above, table=rearrange(potential.table, sides, new_sides))
        case "softmax":
            slopes = rearrange(potential.coefficients, [*sides, *numbers[:1]], [*new_sides, *numbers[:1]])
            slopes = slopes[..., [numbers.index(n) for n in new_numbers]] / [scale[n] for n in new_numbers]
            return hb.Softmax(
                child, above, intercept=rearrange(potential.intercept, sides, new_sides), coefficients=slopes
            )
        case "linear_gaussian" | "gaussian":
            own = scale[name]
            slopes = np.moveaxis(potential.coefficients, -1, 0)[[numbers.index(n) for n in new_numbers]]
            slopes = np.array(
                [own / scale[n] * rearrange(s, sides, new_sides) for n, s in zip(new_numbers, slopes, strict=True)]
            )
            return hb.LinearGaussian(
                child,
                above,
                intercept=own * rearrange(potential.intercept, sides, new_sides),
                coefficients=np.moveaxis(slopes, 0, -1) if new_numbers else None,
                variance=own**2 * rearrange(potential.variance, sides, new_sides),
            )
        case "kernel":
            columns = [*([] if own_state else [name]), *numbers]
            wanted = [*([] if own_state else [name]), *new_numbers]
            places, factors = [columns.index(n) for n in wanted], np.array([scale[n] for n in wanted])
            labels = {
                n: [potential.variable(n).states[k] for k in codes]
                for n, codes in zip(sides, potential.codes.T, strict=True)
            }
            return hb.Kernel(
                child,
                above,
                points=potential.points[:, places] * factors,
                bandwidths=potential.bandwidths[..., places] * factors,
                weights=potential.weights,
                labels=labels or None,
            )
        case "mte":
            own = 1.0 if own_state else scale[name]
            pieces = [
                hb.Piece(
                    {n: (low * scale[n], high * scale[n]) for n, (low, high) in piece.box.items()},
                    piece.given,
                    piece.constant / own,
                    [
                        (
                            term[0] / own,
                            {n: r / scale[n] for n, r in term[1].items()},
                            *({n: at * scale[n] for n, at in anchors.items()} for anchors in term[2:]),
                        )
                        for term in piece.terms
                    ],
                )
                for piece in potential.pieces
            ]
            return hb.MTE(child, above, pieces)
    raise NotImplementedError(potential.family)


def reorder(variable: Any, rng: np.random.Generator, unit: float = 1.0) -> Any:
    """Return the variable with its states in another order, or its domain in another unit."""
    if isinstance(variable, hb.Discrete):
        return replace(variable, states=tuple(variable.states[i] for i in rng.permutation(len(variable))))
    return replace(variable, domain=tuple(end * unit for end in variable.domain))


def test_the_order_of_states_and_parents_does_not_matter() -> None:
    worst = 0.0
    for number, rng in fresh_generators(examples(100)):
        specs, target, evidence = make_problem(rng, 6, [f for f in Maker.FAMILIES if f != "density"])
        variables = {name: reorder(spec.potential.child, rng) for name, spec in specs.items()}
        net = network_of(specs)
        other = hb.Network(
            [rebuild(s.potential, variables, [str(p) for p in rng.permutation(s.parents)]) for s in specs.values()]
        )
        off = compare_pair(net, other, target, evidence, evidence)
        worst = max(worst, off)
        assert off < CLOSE, (number, specs, target, evidence, off)
    report(f"worst difference {worst:.1e}")


def convert(value: Any, factor: float) -> Any:
    """Return evidence of a continuous variable in units of which there are `factor` in the old one."""
    if isinstance(value, hb.Interval):
        return hb.Interval(value.low * factor, value.high * factor)
    if isinstance(value, Bump):
        return Bump(value.center * factor, value.width * factor)
    return None if value is None else value * factor


@pytest.mark.parametrize("factor", [1e6, 1e-6])
def test_units_do_not_matter(factor: float) -> None:
    """Some variables a million times as large, or as small."""
    worst = 0.0
    for number, rng in fresh_generators(examples(100)):
        specs, target, evidence = make_problem(rng, 6, [f for f in Maker.FAMILIES if f != "density"])
        units = {n: factor if rng.random() < 0.5 else 1.0 for n, s in specs.items() if not s.discrete}
        variables = {
            n: s.potential.child if s.discrete else reorder(s.potential.child, rng, units[n]) for n, s in specs.items()
        }
        other = hb.Network([rebuild(s.potential, variables, s.parents, units) for s in specs.values()])
        converted = {n: convert(v, units[n]) if n in units else v for n, v in evidence.items()}
        off = compare_pair(network_of(specs), other, target, evidence, converted, units)
        worst = max(worst, off)
        assert off < CLOSE, (number, specs, target, evidence, units, off)
    report(f"worst difference {worst:.1e}")


def compare_pair(
    net: hb.Network,
    other: hb.Network,
    target: str,
    evidence: Mapping[str, Any],
    converted: Mapping[str, Any],
    units: Mapping[str, float] | None = None,
) -> float:
    """Return the largest difference between what two networks say of a target, in the first one's units."""
    try:
        one = net.posterior(target, evidence)
    except ImpossibleEvidence:
        with pytest.raises(ImpossibleEvidence):
            other.posterior(target, converted)
        return 0.0
    two = other.posterior(target, converted)
    measured = [n for n in units or {} if isinstance(evidence.get(n), float)]
    shift = sum(math.log((units or {})[n]) for n in measured)
    off = abs(two.log_evidence + shift - one.log_evidence) / max(1.0, abs(one.log_evidence))
    if hasattr(one, "probabilities"):
        return max(
            off,
            *(abs(as_discrete(one).probability(s) - as_discrete(two).probability(s)) for s in as_discrete(one).states),
        )
    unit, sd = (units or {}).get(target, 1.0), one.std()
    x = one.quantile([0.02, 0.3, 0.5, 0.9])
    return float(
        max(
            off,
            abs(two.mean() / unit - one.mean()) / (1 + sd),
            abs(two.std() / unit - sd) / (1 + sd),
            np.abs(two.cdf(x * unit) - one.cdf(x)).max(),
        )
    )


def test_the_order_of_rows_and_columns_does_not_matter() -> None:
    """Neither for what is learned, nor for what is answered."""
    worst = 0.0
    for number, rng in fresh_generators(examples(12)):
        specs = random_hybrid(rng, 5, [f for f in Maker.FAMILIES if f != "density"])
        data = network_of(specs).sample(300, int(rng.integers(2**31))).astype(object)
        data = data.loc[:, data.nunique() > 2]
        if len(data.columns) < 2:
            continue
        target = str(rng.choice(list(data)))
        turned = data.iloc[rng.permutation(len(data))]
        turned = turned[[target, *(str(c) for c in rng.permutation([c for c in data if c != target]))]]
        one, two = (hb.structures.naive_bayes(frame, target) for frame in (data, turned))
        asked = data.drop(columns=[target]).mask(rng.random((len(data), len(data.columns) - 1)) < 0.3)
        places = rng.permutation(len(asked))
        first, second = one.posterior(target, asked), two.posterior(target, asked.iloc[places][asked.columns[::-1]])
        if specs[target].discrete:
            left = np.column_stack([as_discrete(first).probability(s) for s in known(specs[target].states)])[places]
            right = np.column_stack([as_discrete(second).probability(s) for s in known(specs[target].states)])
        else:
            left, right = first.mean()[places], second.mean()
        off = float(np.nanmax(np.abs(left - right) / (1 + np.abs(left))))
        worst = max(worst, off)
        assert off < 1e-8, (number, specs, target, off)
    report(f"worst difference {worst:.1e}")


def test_files_keep_random_networks_to_the_last_bit(tmp_path: Path) -> None:
    for number, rng in fresh_generators(examples(60)):
        specs, target, evidence = make_problem(rng, 6, [f for f in ALL_FAMILIES if f != "density"])
        net = network_of(specs)
        net.save(tmp_path / "n.hbn")
        again = hb.load(tmp_path / "n.hbn")
        assert compare_pair(net, as_kind(hb.Network, again), target, evidence, evidence) == 0, (
            number,
            specs,
            target,
            evidence,
        )
        before = (tmp_path / "n.hbn").read_bytes()
        again.save(tmp_path / "n.hbn")
        assert (tmp_path / "n.hbn").read_bytes() == before, number


def test_formats_keep_random_tables_around_the_circle(tmp_path: Path) -> None:
    for number, rng in fresh_generators(examples(12)):
        net = random_discrete(rng, int(rng.integers(1, 9)))
        suffixes = [str(suffix) for suffix in rng.permutation(test_circle.DISCRETE)]
        again = test_circle.around(net, suffixes, tmp_path)
        for name in itertools.islice(net, 3):
            assert compare_pair(net, again, name, {}, {}) < 1e-12, (number, suffixes)
