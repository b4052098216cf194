"""Random forests of classification trees as one network: the leaves of all trees are the states of a hidden node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.arguments import make_generator
from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.discretize import equal_frequency
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.fitting.trees.randomized_trees import Forest, Questions, grow_class_forest
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.potentials.boxes import Boxes
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.structures.building import builder
from hybridbn.structures.regression import find_unused_name
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.variables import Codes, Discrete, Values, Variable

__all__ = ["random_forest"]

INTERVALS = 64
"""Of a number column, between which tests cut."""
COPIES = 8
"""Missing cells of the training rows are drawn this often, for different trees."""
SAMPLE = 20000
"""Rows of a tree, at most."""
STRENGTHS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
"""As how many rows the class probabilities of the node above count in those of a node."""
_OPTIONS = Options(tolerance=1e-6, impossible="nan")


def learn_random_forest(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    trees: int = 100,
    name: str | None = None,
    random_state: Any = 0,
) -> tuple[Network, Values]:
    """Return a random forest, and the class probabilities (rows, classes) that trees give to rows they have not seen."""
    read = read_data_with_target(data, target, potentials, weights, "random forests")
    variable = read.variable(target)
    if not isinstance(variable, Discrete):
        raise NetworkError(
            f"the target {target!r} is continuous, and a random forest predicts a class; use model_tree(trees=20)"
        )
    if isinstance(trees, bool) or not isinstance(trees, int | np.integer) or trees < 1:
        raise NetworkError(f"trees must be a whole number, at least 1, not {trees!r}")
    if name is not None and name in read.roles:
        raise NetworkError(f"the table has a column {name!r}; call the hidden node something else: name=...")
    rng = make_generator(random_state)
    used = np.flatnonzero((read.codes(target) >= 0) & (read.table.weights > 0))
    kept = read if len(used) == len(read.table) else read.take(used)
    leaf = name or find_unused_name(f"{target} leaf", read.roles)
    types = Discrete(find_unused_name(f"{target} type", [*read.roles, leaf]), variable.states)
    forest = _ClassForest(kept, variable, types, int(trees), rng)
    held_out = np.full((len(read.table), len(variable)), np.nan)
    held_out[used] = forest.held_out
    return forest.build_network(leaf), held_out


@builder(takes_target=Discrete, held_out=learn_random_forest, hidden=(Discrete,))
def random_forest(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    trees: int = 100,
    name: str | None = None,
    random_state: Any = 0,
) -> Network:
    network, _ = learn_random_forest(data, target, potentials, weights, trees=trees, name=name, random_state=random_state)
    return network


class _Column(NamedTuple):
    """What is asked about a column: an order of its states or intervals for each feature (features, states)."""

    variable: Variable
    cuts: tuple[float, ...]
    ranks: NDArray[np.uint8]

    @property
    def ordered(self) -> bool:
        """Whether a test says that the code is below a bound."""
        return not isinstance(self.variable, Discrete) or self.variable.cuts is not None

    @property
    def size(self) -> int:
        return self.ranks.shape[1]

    def encode(self, cells: NDArray[Any]) -> Codes:
        """Return the codes of cells without holes."""
        return cells if isinstance(self.variable, Discrete) else np.searchsorted(self.cuts, cells, side="right")


class _ClassForest:
    """Trees on their way to a network."""

    def __init__(
        self, data: TrainingData, target: Discrete, types: Discrete, trees: int, rng: np.random.Generator
    ) -> None:
        self.data, self.target, self.types, self.rng = data, target, types, rng
        self.classes = data.codes(target.name)
        weights = data.table.weights
        self.shares = weights / weights.sum()
        self.prior = (np.bincount(self.classes, weights, len(target)) + 0.5) / (weights.sum() + 0.5 * len(target))
        assert data.target is not None
        self.densities = tuple(data.fit(name, (data.target,)).renamed({data.target: types.name}) for name in data.attributes)
        self.columns = [self._choose_features(name) for name in data.attributes]
        features = self._code_features()
        count = len(self.classes)
        picked = rng.choice(count, size=(trees, min(count, SAMPLE)), p=self.shares)
        copies = np.arange(trees) % (len(features) // count)
        sizes = np.array([len(column.ranks) for column in self.columns])
        questions = Questions(np.cumsum(sizes) - sizes, sizes)
        everything = np.tile(self.classes, len(features) // count)
        self.forest = grow_class_forest(
            features, everything, len(target), picked + count * copies[:, None], questions, rng
        )
        unseen = np.ones((trees, count), dtype=bool)
        np.put_along_axis(unseen, picked, False, axis=1)
        self._smooth(features, unseen, copies)

    def _choose_features(self, name: str) -> _Column:
        """Return the features of a column: the order of numbers, or an indicator for each state."""
        variable, cells = self.data.variable(name), self.data.codes(name)
        if not isinstance(variable, Discrete):
            cuts = equal_frequency(cells, weights=self.data.table.weights, bins=INTERVALS)
            return _Column(variable, cuts, np.arange(len(cuts) + 1, dtype=np.uint8)[None])
        size = len(variable)
        if variable.cuts is not None or size < 3:
            return _Column(variable, (), np.arange(size, dtype=np.uint8)[None])
        return _Column(variable, (), np.eye(size, dtype=np.uint8))

    def _code_features(self) -> NDArray[np.uint8]:
        """Return the features of the rows; where cells are missing, of several copies with different cells drawn."""
        holes = any(self.data.table.missing[name] for name in self.data.attributes)
        return np.concatenate([self._code_copy(holes) for _ in range(COPIES if holes else 1)])

    def _code_copy(self, holes: bool) -> NDArray[np.uint8]:
        types = self._draw_types() if holes else None
        blocks = []
        for column, density in zip(self.columns, self.densities, strict=True):
            cells = self.data.codes(column.variable.name)
            missing = cells < 0 if isinstance(column.variable, Discrete) else np.isnan(cells)
            if missing.any():
                assert types is not None
                cells = np.array(cells)
                given = {self.types.name: types[missing]} if density.parents else {}
                cells[missing] = density.sample(given, self.rng, size=int(missing.sum()))
            blocks.append(column.ranks[:, column.encode(cells)].T)
        return np.ascontiguousarray(np.concatenate(blocks, axis=1))

    def _draw_types(self) -> Codes:
        network = self._describe_attributes()
        attributes = self.data.table.select(self.data.attributes)
        probabilities = network.posterior(self.types.name, attributes, options=_OPTIONS).probabilities
        probabilities = np.where(np.isnan(probabilities), self.prior, probabilities)
        uniforms = self.rng.random((len(probabilities), 1))
        return np.asarray((probabilities.cumsum(axis=1) < uniforms).sum(axis=1).clip(max=len(self.types) - 1))

    def _describe_attributes(self) -> Network:
        return Network([Multinomial(self.types, table=self.prior), *self.densities])

    def _smooth(self, features: NDArray[np.uint8], unseen: NDArray[np.bool_], copies: Codes) -> None:
        """Choose the strength of smoothing that gives held-out rows the most probable classes."""
        count, classes = len(self.classes), len(self.target)
        tree, row = np.nonzero(unseen)
        if len(features) == count:
            leaf = self.forest.find_leaves(features)[tree, row]
        else:
            leaf = np.empty(len(tree), dtype=np.intp)
            for copy in range(len(features) // count):
                own = np.flatnonzero(copies[tree] == copy)
                found = self.forest.find_leaves(features[copy * count : (copy + 1) * count])
                leaf[own] = found[tree[own], row[own]]
        times = np.bincount(row, minlength=count)
        seen = times > 0
        best = np.inf
        for strength in STRENGTHS:
            tables = self._tabulate(strength)
            told = np.stack(
                [np.bincount(row, tables[:, code].take(leaf), count) for code in range(classes)], axis=1
            ) / np.maximum(times, 1)[:, None]
            own = told[np.arange(count), self.classes]
            loss = float(-np.log(own[seen]) @ self.shares[seen])
            if loss < best:
                best, self.strength, self.tables = loss, strength, tables
                self.held_out = np.where(seen[:, None], told, self.prior)

    def _tabulate(self, strength: float) -> Values:
        """Return the class probabilities of all nodes, those of the node above counting as some rows."""
        counts, above = self.forest.value, self.forest.parents
        totals = counts.sum(axis=1, keepdims=True)
        tables = np.empty(counts.shape)
        roots = self.forest.roots
        tables[roots] = (counts[roots] + strength * self.prior) / (totals[roots] + strength)
        start = len(roots)
        while start < len(counts):
            # a level's nodes come after those of the level above
            stop = int(np.searchsorted(above, start))
            own = slice(start, stop)
            tables[own] = (counts[own] + strength * tables[above[own]]) / (totals[own] + strength)
            start = stop
        return tables

    def build_network(self, name: str) -> Network:
        """Return the network."""
        forest = self.forest
        leaves = np.flatnonzero(~np.isfinite(forest.cut))
        sides = [self._find_sides(number, leaves) for number in range(len(self.columns))]
        used = [number for number, side in enumerate(sides) if side is not None]
        leaf = Discrete(name, range(len(leaves)))
        boxes = Boxes(
            leaf,
            [self.columns[number].variable for number in used],
            [sides[number] for number in used],
            overlap=len(forest.roots),
        )
        classes = Multinomial(self.target, (leaf,), table=self.tables[leaves])
        return Network([Multinomial(self.types, table=self.prior), *self.densities, boxes, classes])

    def _find_sides(self, number: int, leaves: Codes) -> NDArray[Any] | None:
        """Return which part of a column's range the leaves are for, None where it is the whole of all."""
        column = self.columns[number]
        first = sum(len(other.ranks) for other in self.columns[:number])
        forest, above = self.forest, self.forest.parents
        feature = forest.column - first
        tests = np.isfinite(forest.cut) & (feature >= 0) & (feature < len(column.ranks))
        if not tests.any():
            return None
        # for each node the node nearest above that splits on the column, so that only few are looked at
        inside = np.ones((len(forest.cut), column.size), dtype=bool)
        start = len(forest.roots)
        while start < len(above):
            stop = int(np.searchsorted(above, start))
            parent = above[start:stop]
            inside[start:stop] = inside[parent]
            asked = np.flatnonzero(tests[parent])
            node = parent[asked]
            left = column.ranks[feature[node]] <= forest.cut[node, None]
            goes_right = (np.arange(start, stop)[asked] != forest.left[node])[:, None]
            inside[start + asked] &= left ^ goes_right
            start = stop
        inside = inside[leaves]
        if isinstance(column.variable, Discrete):
            return inside
        edges = np.array((-np.inf, *column.cuts, np.inf))
        low = inside.argmax(axis=1)
        high = column.size - inside[:, ::-1].argmax(axis=1)
        return np.stack([edges[low], edges[high]], axis=1)
