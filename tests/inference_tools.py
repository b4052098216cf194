"""Helpers of the inference tests: shared cases as networks, random hybrid networks, and quadrature that knows nothing
of the engine.

A `Spec` holds a node twice: as a potential of the library, and as a plain function of values. The reference answers use
the plain functions alone.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from known_answers import ANSWERS
from narrowing import as_discrete, as_kind, known
from scipy.special import ndtr
from sum_product import NamedTable, multiply

import hybridbn as hb
from hybridbn.potentials.cases import Case, Cases


def hybrid_case(name: str) -> dict[str, Any]:
    """Return a network with exact answers."""
    return json.loads((ANSWERS / "hybrid" / f"{name}.json").read_text())


def pgmpy_file(name: str) -> Path:
    """Return the path of a file that pgmpy ships with its example networks."""
    pgmpy = pytest.importorskip("pgmpy")
    path = Path(pgmpy.__file__).parent / "utils" / "example_models" / name
    if not path.is_file():
        pytest.skip(f"this pgmpy does not ship {name}")
    return path


# -- networks of the literature -----------------------------------------------------------------------------------


def crops() -> hb.Network:
    """Murphy (1999): subsidy, crop, price, and whether it is bought, a discrete child of a continuous parent."""
    subsidized, bought = hb.Discrete("S", (True, False)), hb.Discrete("B", (True, False))
    crop, price = hb.Continuous("C"), hb.Continuous("P")
    return hb.Network(
        [
            hb.Multinomial(subsidized, table=[0.3, 0.7]),
            hb.LinearGaussian(crop, intercept=5, variance=1),
            hb.LinearGaussian(
                price, (subsidized, crop), intercept=[10, 20], coefficients=[[-1], [-1]], variance=[1, 1]
            ),
            hb.Softmax(bought, (price,), intercept=[-5, 0], coefficients=[[1], [0]]),
        ]
    )


def clg_network(model: Mapping[str, Any]) -> hb.Network:
    """Make a network from the conditional linear Gaussian models of the shared cases."""
    variables: dict[str, Any] = {n: hb.Discrete(n, tuple(v["states"])) for n, v in model["discrete"].items()}
    variables |= {n: hb.Continuous(n) for n in model["order"]}
    potentials: list[Any] = []
    for name, node in model["discrete"].items():
        parents = [variables[p] for p in node["parents"]]
        rows = [
            [float(Fraction(x)) for x in node["cpt"][",".join(combo)]]
            for combo in itertools.product(*(p.states for p in parents))
        ]
        table = np.reshape(rows, [*map(len, parents), len(variables[name])])
        potentials.append(hb.Multinomial(variables[name], parents, table=table))
    for name in model["order"]:
        node = model["continuous"][name]
        discrete = [variables[p] for p in node["dparents"]]
        numbers = [variables[p] for p in node["parents"]]
        combos = itertools.product(*(p.states for p in discrete))
        rows = [node["reg"][",".join(combo)] for combo in combos]
        shape = [*map(len, discrete)]
        potentials.append(
            hb.LinearGaussian(
                variables[name],
                [*discrete, *numbers],
                intercept=np.reshape([r[0] for r in rows], shape),
                coefficients=np.reshape([r[1] for r in rows], [*shape, len(numbers)]),
                variance=np.reshape([r[2] for r in rows], shape),
            )
        )
    return hb.Network(potentials)


def mte_network(case: Mapping[str, Any]) -> hb.Network:
    """Make a network of MTEs from the decimal strings of a shared case, as they are (no normalization)."""
    variables = {
        name: hb.Discrete(name, tuple(v["states"]))
        if "states" in v
        else hb.Continuous(name, (float(v["domain"][0]), float(v["domain"][1])))
        for name, v in case["variables"].items()
    }
    potentials = []
    for name, leaves in case["potentials"].items():
        pieces = []
        for leaf in leaves:
            given = {k: g for k, g in leaf["given"].items() if not isinstance(g, list)}
            box = {k: tuple(g) for k, g in leaf["given"].items() if isinstance(g, list)}
            if "state" in leaf:
                given[name] = leaf["state"]
            else:
                box[name] = tuple(leaf["piece"])
            pieces.append(hb.Piece(box, given, leaf["const"], [(c, dict(rates)) for c, rates in leaf["terms"]]))
        parents = tuple(variables[p] for p in case["parents"][name])
        potentials.append(hb.MTE(variables[name], parents, pieces, normalize=None))
    return hb.Network(potentials)


def random_discrete(rng: np.random.Generator, nodes: int, zeros: bool = True, most_states: int = 4) -> hb.Network:
    """Make a random network of tables with up to three parents a node, some entries zero."""
    kinds = [("a", "b", "c", "d"), (0, 1, 2, 3), (True, False), ("yes", "no")]
    variables: list[hb.Discrete] = []
    potentials = []
    for i in range(nodes):
        states = kinds[rng.integers(len(kinds))]
        variable = hb.Discrete(f"v{i}", states[: rng.integers(2, min(len(states), most_states) + 1)])
        count = int(rng.integers(0, min(i, 3) + 1))
        parents = [variables[j] for j in rng.choice(i, count, replace=False)] if count else []
        table = rng.dirichlet(np.ones(len(variable)), size=[len(p) for p in parents])
        if zeros and rng.random() < 0.3:
            table = np.where(rng.random(table.shape) < 0.25, 0.0, table)
            table = np.where(table.sum(axis=-1, keepdims=True) > 0, table, 1.0)
            table /= table.sum(axis=-1, keepdims=True)
        variables.append(variable)
        potentials.append(hb.Multinomial(variable, parents, table=table))
    return hb.Network(potentials)


def joint_table(network: hb.Network) -> tuple[list[str], np.ndarray]:
    """Multiply all tables of a discrete network into one array."""
    names = list(network)
    tables = [
        NamedTable(potential.scope, as_kind(hb.Multinomial, potential).table)
        for potential in map(network.potential, names)
    ]
    return names, multiply(tables).sum_to(names).values


def discrete_weights(variable: hb.Discrete, value: Any) -> np.ndarray:
    """Return the likelihood of each state under a finding of any kind."""
    if value is None:
        return np.ones(len(variable))
    if isinstance(value, set | frozenset):
        return np.array([float(s in value) for s in variable.states])
    if isinstance(value, Mapping):
        return np.array([float(value.get(s, 0.0)) for s in variable.states])
    return np.array([float(i == variable.code(value)) for i in range(len(variable))])


def brute(network: hb.Network, evidence: Mapping[str, Any]) -> tuple[list[str], np.ndarray]:
    """Return the joint of a discrete network times the evidence, unnormalized."""
    names, total = joint_table(network)
    for i, name in enumerate(names):
        weights = discrete_weights(as_discrete(network.variable(name)), evidence.get(name))
        total = total * weights.reshape([-1 if j == i else 1 for j in range(len(names))])
    return names, total


def marginal(total: np.ndarray, axis: int) -> np.ndarray:
    return total.sum(axis=tuple(i for i in range(total.ndim) if i != axis))


# -- random hybrid networks ---------------------------------------------------------------------------------------


@dataclass(repr=False)
class Spec:
    """A node as the library sees it and as a plain function.

    `function` takes the node's own value and its parents' by keyword: states one at a time, numbers as arrays.
    `cuts` are the points where some function is not smooth along this variable; `reach` is where it has any mass.
    """

    name: str
    parents: tuple[str, ...]
    potential: Any
    function: Callable[..., Any]
    family: str
    states: tuple[Any, ...] | None = None
    reach: tuple[float, float] = (0.0, 0.0)
    cuts: list[float] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"{self.family}{'*' * self.discrete}({', '.join(self.parents)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def discrete(self) -> bool:
        return self.states is not None


def normal(x: Any, mean: Any, spread: Any) -> Any:
    return np.exp(-0.5 * ((x - mean) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))


class Maker:
    """Makes random nodes one after the other; every family with any parents that it can have."""

    FAMILIES = ("multinomial", "mte", "mte-slope", "kernel", "gaussian", "softmax", "density")

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.specs: dict[str, Spec] = {}

    def split(self, parents: Sequence[str]) -> tuple[list[Spec], list[Spec]]:
        found = [self.specs[p] for p in parents]
        return [s for s in found if s.discrete], [s for s in found if not s.discrete]

    def add(self, name: str, family: str, parents: Sequence[str], discrete: bool) -> Spec:
        """Add a node; the parents are reordered so that discrete ones come first."""
        above, numbers = self.split(parents)
        parents = tuple(s.name for s in (*above, *numbers))
        make = getattr(self, "_" + family.replace("-", "_") + ("_states" if discrete else ""))
        spec = make(name, above, numbers)
        assert spec.parents == parents, (spec.parents, parents)
        self.specs[name] = spec
        return spec

    def _variables(self, specs: Sequence[Spec]) -> tuple[Any, ...]:
        return tuple(s.potential.child for s in specs)

    def _states(self, name: str) -> hb.Discrete:
        kinds: list[tuple[Any, ...]] = [("a", "b"), ("u", "v", "w"), (0, 1), (True, False)]
        return hb.Discrete(name, kinds[self.rng.integers(len(kinds))])

    @staticmethod
    def _code(above: Sequence[Spec], values: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(s.states.index(values[s.name]) for s in above)  # type: ignore[union-attr]

    # -- discrete children

    def _multinomial_states(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        assert not numbers
        child = self._states(name)
        shape = [len(s.states) for s in above]  # type: ignore[arg-type]
        table = self.rng.dirichlet(np.ones(len(child)), size=shape or None)
        if self.rng.random() < 0.2:
            table = table.copy()
            table[..., 0] = 0.0
            table /= table.sum(axis=-1, keepdims=True)

        def function(v: Any, **given: Any) -> Any:
            return table[(*self._code(above, given), child.states.index(v))]

        potential = hb.Multinomial(child, self._variables(above), table=table)
        return Spec(name, tuple(s.name for s in above), potential, function, "multinomial", child.states)

    def _softmax_states(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        child = self._states(name)
        shape = [len(s.states) for s in above]  # type: ignore[arg-type]
        a = self.rng.normal(size=[*shape, len(child)])
        b = self.rng.normal(size=[*shape, len(child), len(numbers)]) * 1.5

        def function(v: Any, **given: Any) -> Any:
            at = self._code(above, given)
            logits = [
                a[(*at, k)] + sum(b[(*at, k, i)] * given[s.name] for i, s in enumerate(numbers))
                for k in range(len(child))
            ]
            mine = logits[child.states.index(v)]
            return 1 / sum(np.exp(np.clip(other - mine, -700, 700)) for other in logits)

        potential = hb.Softmax(child, self._variables([*above, *numbers]), intercept=a, coefficients=b)
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "softmax", child.states)

    def _density_states(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        child = hb.Discrete(name, ("lo", "hi"))
        shape = [len(s.states) for s in above]  # type: ignore[arg-type]
        a, b = self.rng.normal(size=shape), self.rng.normal(size=len(numbers))

        def chance(at: Any, given: Mapping[str, Any]) -> Any:
            return 0.5 + 0.45 * np.tanh(a[at] + sum(b[i] * given[s.name] for i, s in enumerate(numbers)))

        def function(v: Any, **given: Any) -> Any:
            p = chance(self._code(above, given), given)
            return p if v == "hi" else 1 - p

        def vectorized(**values: Any) -> Any:
            at = tuple(_codes_of(s, values[s.name]) for s in above)
            p = chance(at, values)
            return np.where(values[name] == "hi", p, 1 - p)

        potential = hb.Density(child, self._variables([*above, *numbers]), function=vectorized)
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "density", child.states)

    def _mte_states(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        """Constant probabilities in the cells of the continuous parents."""
        child = self._states(name)
        cells, cuts = self._parent_cells(numbers)
        leaves: dict[Any, np.ndarray] = {}
        pieces = []
        for combo in itertools.product(*(s.states for s in above)):  # type: ignore[arg-type]
            for number, box in enumerate(cells):
                leaves[(combo, number)] = p = self.rng.dirichlet(np.ones(len(child)))
                for state, value in zip(child.states, p, strict=True):
                    given = {**{s.name: x for s, x in zip(above, combo, strict=True)}, name: state}
                    pieces.append(hb.Piece(box, given, float(value), []))

        def function(v: Any, **given: Any) -> Any:
            combo, k = tuple(given[s.name] for s in above), child.states.index(v)
            total: Any = 0.0
            for number in range(len(cells)):
                total = total + leaves[(combo, number)][k] * self._in_cell(number, numbers, cuts, given)
            return total

        potential = hb.MTE(child, self._variables([*above, *numbers]), pieces)
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "mte", child.states)

    def _kernel_states(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        child = self._states(name)
        points, labels, h, weights, owner = self._points(above, numbers, len(child))
        labels[name] = [child.states[i % len(child)] for i in range(len(points))]

        def function(v: Any, **given: Any) -> Any:
            combo = tuple(given[s.name] for s in above)
            logs = {}
            for state in child.states:
                mine = [i for i in range(len(points)) if owner[i] == combo and labels[name][i] == state]
                logs[state] = [
                    math.log(weights[i])
                    + sum(_log_kernel(given[s.name], points[i, j], h[j], s) for j, s in enumerate(numbers))
                    for i in mine
                ]
            top = np.maximum.reduce(np.broadcast_arrays(*(x for found in logs.values() for x in found)))
            parts = {s: sum((np.exp(x - top) for x in found), np.zeros(np.shape(top))) for s, found in logs.items()}
            return parts[v] / sum(parts.values())

        potential = hb.Kernel(
            child,
            self._variables([*above, *numbers]),
            points=points,
            bandwidths=h,
            weights=weights,
            labels=labels,
        )
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "kernel", child.states)

    # -- continuous children

    def _gaussian(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        child = hb.Continuous(name)
        shape = [len(s.states) for s in above]  # type: ignore[arg-type]
        a = np.asarray(self.rng.uniform(-1, 1, size=shape))
        b = self.rng.uniform(-1, 1, size=[*shape, len(numbers)])
        spread = np.asarray(self.rng.uniform(0.4, 1.2, size=shape))

        def function(v: Any, **given: Any) -> Any:
            at = self._code(above, given)
            mean = a[at] + sum(b[(*at, i)] * given[s.name] for i, s in enumerate(numbers))
            return normal(v, mean, spread[at])

        low = high = 0.0
        widest = np.abs(b).reshape(-1, len(numbers)).max(axis=0) if numbers else []
        room = 0.0
        for s, most in zip(numbers, widest, strict=True):
            middle, half = sum(s.reach) / 2, (s.reach[1] - s.reach[0]) / 2
            low, high = low - most * abs(middle), high + most * abs(middle)
            room += most * half
        room += 8.5 * float(spread.max())
        reach = (float(a.min()) + low - room, float(a.max()) + high + room)
        potential = hb.LinearGaussian(
            child, self._variables([*above, *numbers]), intercept=a, coefficients=b, variance=spread**2
        )
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "gaussian", reach=reach)

    def _density(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        child = hb.Continuous(name)
        shape = [len(s.states) for s in above]  # type: ignore[arg-type]
        a, spread = np.asarray(self.rng.uniform(-1, 1, shape)), np.asarray(self.rng.uniform(0.4, 0.9, shape))
        b = self.rng.uniform(-1, 1, len(numbers))
        reach = (-2.0 - 8.5 * 0.9, 2.0 + 8.5 * 0.9)

        def value(at: Any, values: Mapping[str, Any]) -> Any:
            mean = a[at] + np.tanh(sum(b[i] * values[s.name] for i, s in enumerate(numbers)) + 0.0)
            return normal(values[name], mean, spread[at])

        def vectorized(**values: Any) -> Any:
            return value(tuple(_codes_of(s, values[s.name]) for s in above), values)

        def function(v: Any, **given: Any) -> Any:
            return value(self._code(above, given), {**given, name: v})

        potential = hb.Density(
            child,
            self._variables([*above, *numbers]),
            function=vectorized,
            breaks=np.linspace(-4, 4, 9),
            support=reach,
        )
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "density", reach=reach)

    def _kernel(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        child = hb.Continuous(name)
        points, labels, h, weights, owner = self._points(above, [None, *numbers], 1)

        def function(v: Any, **given: Any) -> Any:
            combo = tuple(given[s.name] for s in above)
            mine = [i for i in range(len(points)) if owner[i] == combo]
            logs = [
                math.log(weights[i])
                + sum(_log_kernel(given[s.name], points[i, 1 + j], h[1 + j], s) for j, s in enumerate(numbers))
                for i in mine
            ]
            top = np.maximum.reduce(np.broadcast_arrays(*logs))
            shares = [np.exp(x - top) for x in logs]
            density = sum(share * normal(v, points[i, 0], h[0]) for share, i in zip(shares, mine, strict=True))
            return density / sum(shares)

        reach = (-2 - 8.5 * float(h[0]), 2 + 8.5 * float(h[0]))
        potential = hb.Kernel(
            child,
            self._variables([*above, *numbers]),
            points=points,
            bandwidths=h,
            weights=weights,
            labels=labels or None,
        )
        return Spec(name, tuple(s.name for s in (*above, *numbers)), potential, function, "kernel", reach=reach)

    def _mte(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        """Two pieces of a constant and an exponential, for every state and cell of the parents."""
        child = hb.Continuous(name, (-3, 3))
        cells, cuts = self._parent_cells(numbers)
        edges = [-3.0, float(self.rng.uniform(-1, 1)), 3.0]
        leaves: dict[Any, list[tuple[float, float, float]]] = {}
        pieces = []
        for combo in itertools.product(*(s.states for s in above)):  # type: ignore[arg-type]
            for number, box in enumerate(cells):
                parts = [(self.rng.random(), self.rng.random(), self.rng.uniform(-1.5, 1.5)) for _ in range(2)]
                mass = sum(
                    k * (high - low) + c * (math.exp(r * high) - math.exp(r * low)) / r
                    for (k, c, r), low, high in zip(parts, edges[:-1], edges[1:], strict=True)
                )
                leaves[(combo, number)] = parts = [(k / mass, c / mass, r) for k, c, r in parts]
                for (k, c, r), low, high in zip(parts, edges[:-1], edges[1:], strict=True):
                    given = {s.name: x for s, x in zip(above, combo, strict=True)}
                    pieces.append(hb.Piece({**box, name: (low, high)}, given, k, [(c, {name: r})]))

        def function(v: Any, **given: Any) -> Any:
            combo = tuple(given[s.name] for s in above)
            total: Any = 0.0
            for number in range(len(cells)):
                for i, (k, c, r) in enumerate(leaves[(combo, number)]):
                    inside = (v >= edges[i]) & ((v < edges[i + 1]) if i == 0 else (v <= edges[2]))
                    value = np.where(inside, k + c * np.exp(r * np.clip(v, -3, 3)), 0.0)
                    total = total + value * self._in_cell(number, numbers, cuts, given)
            return total

        potential = hb.MTE(child, self._variables([*above, *numbers]), pieces)
        parents = tuple(s.name for s in (*above, *numbers))
        return Spec(name, parents, potential, function, "mte", reach=(-3.0, 3.0), cuts=edges)

    def _mte_slope(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        """Not cellwise: mass moves between two pieces as an exponential of the one
        continuous parent, itself bounded.
        """
        assert not above
        (parent,) = numbers
        low, high = parent.reach
        rate = float(self.rng.uniform(0.2, 0.5))
        child = hb.Continuous(name, (0, 2))
        anchor = math.exp(rate * low)
        pieces = [
            hb.Piece({parent.name: (low, high), name: (0, 1)}, {}, 0.0, [(anchor, {parent.name: -rate})]),
            hb.Piece({parent.name: (low, high), name: (1, 2)}, {}, 1.0, [(-anchor, {parent.name: -rate})]),
        ]

        def function(v: Any, **given: Any) -> Any:
            left = np.exp(-rate * (given[parent.name] - low))
            return np.where((v >= 0) & (v < 1), left, 0.0) + np.where((v >= 1) & (v <= 2), 1 - left, 0.0)

        potential = hb.MTE(child, self._variables(numbers), pieces)
        return Spec(name, (parent.name,), potential, function, "mte-slope", reach=(0.0, 2.0), cuts=[0.0, 1.0, 2.0])

    def _cases(self, name: str, above: list[Spec], numbers: list[Spec]) -> Spec:
        """A normal density for each state of the first parent, some of them cut to an interval."""
        child, inputs = hb.Continuous(name), self._variables(numbers)
        cases, parts, cuts = [], [], []
        for _ in above[0].states:  # type: ignore[union-attr]
            a, spread = float(self.rng.uniform(-1, 1)), float(self.rng.uniform(0.4, 1.2))
            b = self.rng.uniform(-0.5, 0.5, len(numbers))
            low, high = (-math.inf, math.inf) if self.rng.random() < 0.4 else (-2.0, float(self.rng.uniform(0, 2)))
            normal_density = hb.LinearGaussian(
                child, inputs, intercept=a, coefficients=b if numbers else None, variance=spread**2
            )
            cases.append(Case(normal_density, low, high))
            parts.append((a, b, spread, low, high))
            cuts += [end for end in (low, high) if math.isfinite(end)]

        def function(v: Any, **given: Any) -> Any:
            a, b, spread, low, high = parts[self._code(above[:1], given)[0]]
            mean = a + sum(b[i] * given[s.name] for i, s in enumerate(numbers))
            if low == -math.inf:
                return normal(v, mean, spread)
            # from the side on which the tail is small, so that the difference keeps its digits
            left, right = (low - mean) / spread, (high - mean) / spread
            mass = np.where(left > 0, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))
            with np.errstate(divide="ignore", invalid="ignore"):
                inside = np.where(mass > 0, normal(v, mean, spread) / mass, 0.0)
            return np.where((v >= low) & (v < high), inside, 0.0)

        room = sum(0.5 * max(map(abs, s.reach)) for s in numbers) + 1 + 8.5 * 1.2
        parents = tuple(s.name for s in (*above, *numbers))
        potential = Cases(child, self._variables([*above, *numbers]), cases)
        return Spec(name, parents, potential, function, "cases", reach=(-room, room), cuts=cuts)

    # -- parts

    def _parent_cells(self, numbers: list[Spec]) -> tuple[list[dict[str, tuple[float, float]]], list[float]]:
        cuts = [float(self.rng.uniform(max(-1, s.reach[0] + 0.1), min(1, s.reach[1] - 0.1))) for s in numbers]
        for s, cut in zip(numbers, cuts, strict=True):
            s.cuts.append(cut)
        sides = []
        for s, cut in zip(numbers, cuts, strict=True):
            domain = s.potential.child.domain
            sides.append([(s.name, (domain[0], cut)), (s.name, (cut, domain[1]))])
        return [dict(combo) for combo in itertools.product(*sides)], cuts

    @staticmethod
    def _in_cell(number: int, numbers: list[Spec], cuts: list[float], given: Mapping[str, Any]) -> Any:
        inside: Any = 1.0
        for i, (s, cut) in enumerate(zip(numbers, cuts, strict=True)):
            right = number >> (len(numbers) - 1 - i) & 1
            side = given[s.name] >= cut
            inside = inside * (side if right else ~np.asarray(side))
        return inside

    def _points(self, above: list[Spec], axes: Sequence[Spec | None], kinds: int) -> tuple[Any, ...]:
        combos = list(itertools.product(*(s.states for s in above)))  # type: ignore[arg-type]
        each = kinds * int(self.rng.integers(2, 4))
        owner = [combo for combo in combos for _ in range(each)]
        low = [-1.6 if s is None else max(-1.6, s.reach[0]) for s in axes]
        high = [1.6 if s is None else min(1.6, s.reach[1]) for s in axes]
        points = self.rng.uniform(low, high, size=(len(owner), len(axes)))
        labels = {s.name: [combo[i] for combo in owner] for i, s in enumerate(above)}
        h = self.rng.uniform(0.45, 0.8, size=len(axes))
        weights = self.rng.uniform(0.5, 2, size=len(owner))
        return points, labels, h, weights, owner


def _log_kernel(x: Any, center: float, width: float, spec: Spec) -> Any:
    """A kernel of a parent without its constant; truncated to the domain and divided by the mass inside."""
    low, high = ((end - center) / width for end in spec.potential.child.domain)
    return -0.5 * ((x - center) / width) ** 2 - math.log(ndtr(high) - ndtr(low))


def _codes_of(spec: Spec, values: Any) -> Any:
    codes = np.zeros(np.shape(values), dtype=int)
    for i, state in enumerate(spec.states):  # type: ignore[arg-type]
        codes[np.asarray(values) == state] = i
    return codes


def random_hybrid(
    rng: np.random.Generator, nodes: int, families: Sequence[str] | None = None, most_numbers: int = 2
) -> dict[str, Spec]:
    """Make a random hybrid network of so many nodes."""
    maker = Maker(rng)
    for i in range(nodes):
        family = (families or Maker.FAMILIES)[int(rng.integers(len(families or Maker.FAMILIES)))]
        count = int(rng.integers(0, min(i, 2) + 1))
        parents = [str(p) for p in rng.choice(list(maker.specs), count, replace=False)] if count else []
        above, numbers = maker.split(parents)
        numbers = numbers[:most_numbers]
        family, discrete, above, numbers = _possible(rng, family, above, numbers, maker)
        maker.add(f"n{i}", family, [s.name for s in (*above, *numbers)], discrete)
    return maker.specs


def _possible(rng: np.random.Generator, family: str, above: Any, numbers: Any, maker: Maker) -> Any:
    """Fit the wish to the parents: some families need continuous parents, some must not have any."""
    if family == "mte-slope":
        bounded = [s for s in maker.specs.values() if s.family.startswith("mte") and not s.discrete]
        return ("mte-slope", False, [], [bounded[-1]]) if bounded else ("mte", False, above, numbers)
    if family == "softmax":
        return ("softmax", True, above, numbers) if numbers else ("multinomial", True, above, [])
    if family == "multinomial":
        return family, True, above, []
    if family == "cases":
        # a normal density that is cut is known everywhere only where its parents are near
        near = [s for s in numbers if max(map(abs, s.reach)) <= 12]
        return (family, False, above, near) if above else ("gaussian", False, above, numbers)
    discrete = family in ("mte", "kernel", "density") and bool(numbers) and rng.random() < 0.4
    return family, discrete, above, numbers


def network_of(specs: Mapping[str, Spec]) -> hb.Network:
    return hb.Network([s.potential for s in specs.values()])


def drawn_case(specs: Mapping[str, Spec], rng: np.random.Generator) -> dict[str, Any]:
    """Draw a complete case from the potentials, by their own samplers."""
    codes: dict[str, Any] = {}
    for name, spec in specs.items():
        given = {p: codes[p] for p in spec.parents}
        codes[name] = spec.potential.sample(given, rng, size=1)
    return {
        name: specs[name].states[int(value[0])] if specs[name].discrete else float(value[0])  # type: ignore[index]
        for name, value in codes.items()
    }


@dataclass(frozen=True)
class Bump:
    """A likelihood function of a continuous variable; a class, so that it can be pickled and compared."""

    center: float
    width: float

    @property
    def cuts(self) -> list[float]:
        """Panel ends that tell its poles from the real line."""
        return [self.center + k * self.width for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)]

    def __call__(self, x: Any) -> Any:
        return 0.1 + 0.9 / (1 + ((np.asarray(x) - self.center) / self.width) ** 2)


def random_evidence(
    specs: Mapping[str, Spec], target: str, rng: np.random.Generator, kinds: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Draw evidence of every kind, around a case of positive probability. `kinds` fixes the kind for some nodes."""
    case = drawn_case(specs, rng)
    evidence: dict[str, Any] = {}
    for name, spec in specs.items():
        kind = (kinds or {}).get(name) or rng.choice(["none", "value", "soft", "missing"], p=[0.4, 0.3, 0.2, 0.1])
        if kind == "none" or name == target:
            continue
        value = case[name]
        if kind == "missing":
            evidence[name] = None
        elif kind == "value":
            evidence[name] = value
        elif spec.discrete:
            states: Any = spec.states
            if rng.random() < 0.5:
                evidence[name] = {value, states[int(rng.integers(len(states)))]}
            else:
                evidence[name] = {s: float(rng.random()) + (s == value) for s in states}
        else:
            width = float(rng.uniform(0.1, 1.5))
            evidence[name] = [
                hb.Interval(value - width, value + width / 2),
                hb.Interval(value - width),
                hb.Interval(-math.inf, value + width),
                Bump(value, width),
            ][int(rng.integers(4))]
    return evidence


# -- reference by quadrature --------------------------------------------------------------------------------------


@dataclass
class Reference:
    """The answer of the tensor quadrature: probabilities, or masses at nodes with panel ends."""

    log_evidence: float
    probabilities: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    edges: np.ndarray

    @property
    def mean(self) -> float:
        return float(self.points @ self.probabilities)

    @property
    def var(self) -> float:
        return float((self.points - self.mean) ** 2 @ self.probabilities)

    @property
    def cdf(self) -> np.ndarray:
        """At all but the first edge."""
        per_panel = self.probabilities.reshape(len(self.edges) - 1, -1).sum(axis=1)
        return np.cumsum(per_panel)

    @property
    def pdf(self) -> np.ndarray:
        return self.probabilities / self.weights


def _panels(spec: Spec, finding: Any, width: float, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = spec.reach
    if isinstance(finding, hb.Interval):
        low, high = max(low, finding.low), min(high, finding.high)
    found = [*spec.cuts, *(finding.cuts if isinstance(finding, Bump) else ())]
    cuts = sorted({low, high, *(c for c in found if low < c < high)})
    edges = [low]
    for left, right in itertools.pairwise(cuts):
        edges.extend(np.linspace(left, right, max(1, math.ceil((right - left) / width)) + 1)[1:])
    ends = np.array(edges)
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half = np.diff(ends) / 2
    x = (ends[:-1] + half)[:, None] + half[:, None] * nodes
    return x.ravel(), (half[:, None] * weights).ravel(), ends


def reference(
    specs: Mapping[str, Spec], target: str, evidence: Mapping[str, Any], width: float = 0.5, order: int = 16
) -> Reference:
    """Integrate the product of the plain functions over a fixed grid."""
    points: dict[str, Any] = {}
    weights: dict[str, np.ndarray] = {}
    ends, plain = np.empty(0), np.empty(0)
    for name, spec in specs.items():
        finding = evidence.get(name)
        hard = finding is not None and not isinstance(finding, hb.Interval | set | dict) and not callable(finding)
        if hard:
            points[name], weights[name] = [finding] if spec.discrete else np.array([float(known(finding))]), np.ones(1)
        elif spec.discrete:
            points[name] = list(spec.states)  # type: ignore[arg-type]
            weights[name] = discrete_weights(spec.potential.child, finding)
        else:
            x, w, edges = _panels(spec, finding, width, order)
            if name == target:
                ends, plain = edges, w
            points[name], weights[name] = x, w * finding(x) if callable(finding) else w
    relevant = relevant_to(specs, target, evidence)
    letters = {name: chr(97 + i) for i, name in enumerate(specs)}
    operands, subscripts, log_scale = [], [], 0.0
    for name in relevant:
        spec = specs[name]
        scope = (*spec.parents, name)
        array = _tabulated(spec, [points[n] for n in scope])
        top = array.max()
        if not top > 0:
            return Reference(-math.inf, np.full(len(points[target]), np.nan), np.empty(0), np.empty(0), ends)
        operands.append(array / top)
        log_scale += math.log(top)
        subscripts.append("".join(letters[n] for n in scope))
        operands.append(weights[name])
        subscripts.append(letters[name])
    table = np.einsum(f"{','.join(subscripts)}->{letters[target]}", *operands, optimize="greedy")
    total = table.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        return Reference(
            float(np.log(total)) + log_scale,
            table / total,
            np.asarray(points[target]) if not specs[target].discrete else np.empty(0),
            plain,
            ends,
        )


def relevant_to(specs: Mapping[str, Spec], target: str, evidence: Mapping[str, Any]) -> list[str]:
    """Return the nodes on which the answer depends."""
    return _above(specs, [target, *(n for n, v in evidence.items() if v is not None)])


def _above(specs: Mapping[str, Spec], names: Sequence[str]) -> list[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(specs[name].parents)
    return [name for name in specs if name in found]


def _tabulated(spec: Spec, axes: list[Any]) -> np.ndarray:
    scope = (*spec.parents, spec.name)
    result = np.empty([len(axis) for axis in axes])
    discrete = [i for i, axis in enumerate(axes) if not isinstance(axis, np.ndarray)]
    numbers = [i for i in range(len(axes)) if i not in discrete]
    for combo in itertools.product(*(range(len(axes[i])) for i in discrete)):
        values: dict[str, Any] = {scope[i]: axes[i][k] for i, k in zip(discrete, combo, strict=True)}
        for place, i in enumerate(numbers):
            values[scope[i]] = axes[i].reshape([-1 if j == place else 1 for j in range(len(numbers))])
        own = values.pop(spec.name)
        index = tuple(combo[discrete.index(i)] if i in discrete else slice(None) for i in range(len(axes)))
        result[index] = spec.function(own, **values)
    return result


def widest(specs: Mapping[str, Spec], evidence: Mapping[str, Any]) -> int:
    """Return the largest number of hidden continuous variables in one potential."""
    hidden = {
        n
        for n, s in specs.items()
        if not s.discrete and (evidence.get(n) is None or isinstance(evidence[n], hb.Interval) or callable(evidence[n]))
    }
    return max(len(hidden & {*s.parents, n}) for n, s in specs.items())


def largest_product(specs: Mapping[str, Spec], target: str, evidence: Mapping[str, Any]) -> float:
    """Estimate the cells of the largest array that `reference` makes: what one sum, of the cheapest order, is over."""
    sizes = {}
    for name in specs:
        finding = evidence.get(name)
        soft = finding is None or isinstance(finding, hb.Interval | set | dict) or callable(finding)
        spec = specs[name]
        sizes[name] = 1.0 if not soft else 4.0 if spec.discrete else 32 * (spec.reach[1] - spec.reach[0]) + 32
    scopes = [{n, *specs[n].parents} for n in relevant_to(specs, target, evidence)]
    hidden = {n for scope in scopes for n in scope} - {target}
    largest = max(math.prod(sizes[n] for n in scope) for scope in scopes)
    while hidden:
        unions = {n: set().union(*(scope for scope in scopes if n in scope)) for n in hidden}
        name = min(unions, key=lambda n: math.prod(sizes[m] for m in unions[n]))
        largest = max(largest, math.prod(sizes[m] for m in unions[name]))
        scopes = [scope for scope in scopes if name not in scope] + [unions[name] - {name}]
        hidden.discard(name)
    return largest


def oracle_nodes(specs: Mapping[str, Spec], evidence: Mapping[str, Any], oracle: Any) -> tuple[list[Any], dict]:
    """Turn a network and evidence of any kind into the shared oracle's nodes; soft evidence becomes a child."""
    nodes, known = [], {}
    for name, spec in specs.items():
        value = evidence.get(name)
        cuts = [*spec.cuts, *np.arange(math.ceil(spec.reach[0]), spec.reach[1])]
        if isinstance(value, hb.Interval):
            cuts += [value.low, value.high]
        if isinstance(value, Bump):
            cuts += value.cuts
        if spec.discrete:
            nodes.append(oracle.Node(name, spec.function, spec.parents, states=list(spec.states)))  # type: ignore[arg-type]
        else:
            nodes.append(oracle.Node(name, spec.function, spec.parents, domain=spec.reach, breaks=cuts))
        if value is None:
            continue
        if isinstance(value, hb.Interval | set | dict) or callable(value):
            known[f"e_{name}"] = "t"
            nodes.append(oracle.Node(f"e_{name}", _soft_child(name, value, spec), [name], states=["t", "f"]))
        else:
            known[name] = value
    return nodes, known


def soft_scale(specs: Mapping[str, Spec], evidence: Mapping[str, Any]) -> float:
    """Return the log of what `oracle_nodes` divides likelihoods by to make them probabilities."""
    return sum(math.log(max(v.values())) for v in evidence.values() if isinstance(v, dict))


def _soft_child(name: str, value: Any, spec: Spec) -> Callable[..., Any]:
    def function(v: Any, **given: Any) -> Any:
        x = given[name]
        if isinstance(value, hb.Interval):
            p = np.where((x >= value.low) & (x <= value.high), 1.0, 0.0)
        elif callable(value):
            p = value(x)
        else:
            state = spec.states.index(x)  # type: ignore[union-attr]
            weights = discrete_weights(spec.potential.child, value)
            p = weights[state] / weights.max()
        return p if v == "t" else 1 - p

    return function
