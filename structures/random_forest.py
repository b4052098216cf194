"""Random forests: of classification trees as one network, and of extremely randomized trees for numbers.

All trees grow at once, level by level, each from its own sample of the rows. A node is split by the best of some random
questions "is this feature at most that?", halfway between two of the node's rows, so that neither outliers nor units
matter (Geurts, Ernst & Wehenkel 2006). In the network the leaves of all trees are the states of a hidden node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting import equal_frequency
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import DealtRows, split_folds
from hybridbn.fitting.trees import make_boxes
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_count, make_generator
from hybridbn.potentials import Multinomial, Potential
from hybridbn.structures.building import Built, builder, name_hidden_node
from hybridbn.structures.heldout import predict_held_out_classes
from hybridbn.structures.training_data import COARSE, TrainingData, read_data_with_class
from hybridbn.variables import Codes, Discrete, Values, Variable, find_observed, find_unused_name, slice_blocks

INTERVALS = 64
"""The number of intervals of a column of numbers, between which tests cut."""
FOLDS = 5
"""The number of folds in which rows are held out to draw their missing cells."""
COPIES = 8
"""Missing cells of the training rows are drawn this often, for different trees."""
QUESTIONS = (16, 40, 100)
"""Tried for each node: as few as predict held-out rows nearly best in some trees."""
NEARLY = 0.01
"""A log loss that is higher by this share counts as equal."""
PILOT = 15
"""Trees that are grown with each number of questions."""
MOST_LEAVES = 400_000
"""The most leaves of all trees: with more rows a leaf has several at least, as the network would become too large."""
SAMPLE = 20000
"""Rows of a tree, at most."""
BLOCK = 4096
"""Rows whose leaves in all trees are looked up together."""
STRENGTHS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
"""The weight, in rows, of the class probabilities of the node above in those of a node."""


@builder(takes_target=Discrete, held_out=True, hidden=(Discrete,))
def random_forest(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    trees: int = 100,
    name: str | None = None,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Built:
    r"""Build a random forest for classes: many trees of tests, whose leaves tell how probable the classes are.

    As a network it has a hidden node for the leaf, which is a function of the attributes for each tree; the leaves of
    all trees are its states, so a complete row is in one leaf of each, and the probabilities of its classes are the
    mean of what these leaves say:

    .. math:: P(c \mid x) = \sum_l P(l \mid x) P(c \mid l) = \frac1T \sum_t P(c \mid l_t(x))

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
        The potentials are those of the attributes, which count where cells are missing and in sampling.
    trees : int
        Each grows from a sample of the rows with replacement, and each test is the best of a few random ones, until the
        rows of a leaf are of one class or can't be told apart.
    name : str, optional
        Of the hidden node; by default the target's with " leaf" after it.
    random_state : int, Generator or None
        Draws samples, tests, and missing cells of the training rows.

    Returns
    -------
    Network
        The class, below the leaf, below the attributes, below a hidden node for the type of a row.

    Notes
    -----
    A number is tested against one of 63 cuts of equal frequency, a category for one of its states. The probabilities
    in a leaf are smoothed: those of the node above count as some more rows. How many is what predicts best the rows
    that a tree's sample lacks.

    Attributes are independent given the type, which is distributed as the classes are. A row with missing cells is
    averaged over the leaves that it may be in, given what is known of it; that takes little more time than a complete
    row. Missing cells of training rows are drawn from the same distribution, anew for several groups of trees.

    References
    ----------
    Breiman (2001), "Random forests"; Geurts, Ernst & Wehenkel (2006), "Extremely randomized trees".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 300))
    >>> net = random_forest({"x": x, "z": z, "c": np.where(x * z > 0, "same", "different")}, "c", "gaussian", trees=30)
    >>> net.posterior("c", {"x": 1.0, "z": 1.0}).mode(), round(net.posterior("c", {"x": 1.0}).probability("same"), 1)
    ('same', 0.5)
    """
    read, variable = read_data_with_class(data, target, potentials, weights, "random forests", **columns)
    trees = check_count(trees, "trees", 1, NetworkError)
    leaf = name_hidden_node(name, f"{target} leaf", read.roles)
    types = Discrete(find_unused_name(f"{target} type", [*read.roles, leaf]), variable.states)
    rng = make_generator(random_state)
    labeled, dealt = read.deal(FOLDS, rng)
    forest = _ClassForest(labeled, dealt, variable, types, trees, rng)
    told = dealt.average(forest.grown.held_out)
    held_out = partial(predict_held_out_classes, variable=variable, probabilities=told)
    return Built(forest.build_network(leaf), held_out)


class _Column(NamedTuple):
    """What is asked about a column: an order of its states or intervals for each feature (features, states)."""

    variable: Variable
    cuts: tuple[float, ...]
    ranks: NDArray[np.uint8]

    @property
    def size(self) -> int:
        return int(self.ranks.shape[1])

    def encode(self, cells: NDArray[Any]) -> Codes:
        """Return the codes of cells without holes."""
        return cells if isinstance(self.variable, Discrete) else np.searchsorted(self.cuts, cells, side="right")


class _GrownTrees(NamedTuple):
    """A forest with the class probabilities of its nodes, and those of rows in trees that have not seen them."""

    forest: Forest
    tables: Values
    held_out: Values
    loss: float


class _ClassForest:
    """Trees on their way to a network."""

    def __init__(
        self,
        data: TrainingData,
        dealt: DealtRows,
        target: Discrete,
        types: Discrete,
        trees: int,
        rng: np.random.Generator,
    ) -> None:
        self.data, self.parts, self.target, self.types, self.rng = data, dealt.parts, target, types, rng
        # random numbers choose columns and states, whose order must not matter
        self.attributes = [name for name in dealt.columns if name != target.name]
        self.classes = data.codes(target.name)
        weights = data.table.weights
        self.shares = weights / weights.sum()
        self.prior = (np.bincount(self.classes, weights, len(target)) + 0.5) / (weights.sum() + 0.5 * len(target))
        self.densities = self._fit_densities(data)
        self.columns = [self._choose_features(name) for name in self.attributes]
        features = self._code_features()
        count = len(self.classes)
        size = min(max(count, round(weights.sum())), SAMPLE)
        picked = rng.choice(count, size=(trees, size), p=self.shares)
        self.entries = picked.size
        copies = np.arange(trees) % (len(features) // count)
        self.copied = np.tile(self.classes, len(features) // count)
        if trees > PILOT:
            pilots = [self._grow(features, picked[:PILOT], copies[:PILOT], number) for number in QUESTIONS]
            least = min(pilot.loss for pilot in pilots)
            number = QUESTIONS[[pilot.loss <= (1 + NEARLY) * least for pilot in pilots].index(True)]
        else:
            number = QUESTIONS[1]
        self.grown = self._grow(features, picked, copies, number)

    def _grow(self, features: NDArray[np.uint8], picked: Codes, copies: Codes, number: int) -> _GrownTrees:
        """Return trees that grow from samples of the rows, with a number of questions at each node."""
        count = len(self.classes)
        sizes = np.array([len(column.ranks) for column in self.columns])
        questions = Questions(np.cumsum(sizes) - sizes, sizes, number)
        sample = picked + count * copies[:, None]
        least = max(1, self.entries // MOST_LEAVES)
        classes = _Classes(self.copied, len(self.target))
        forest = _grow_trees(features, classes, sample, questions, least, self.rng)
        unseen = np.ones((*picked.shape[:1], count), dtype=bool)
        np.put_along_axis(unseen, picked, False, axis=1)
        return self._smooth(forest, features, unseen, copies)

    def _choose_features(self, name: str) -> _Column:
        """Return the features of a column: the order of numbers, or an indicator for each state."""
        variable, cells = self.data.variable(name), self.data.codes(name)
        if not isinstance(variable, Discrete):
            cuts = equal_frequency(cells, weights=self.data.table.weights, bins=INTERVALS)
            return _Column(variable, cuts, np.arange(len(cuts) + 1, dtype=np.uint8)[None])
        size = len(variable)
        if variable.cuts is not None or size < 3:
            return _Column(variable, (), np.arange(size, dtype=np.uint8)[None])
        return _Column(variable, (), np.eye(size, dtype=np.uint8)[_list_states(cells, size)])

    def _code_features(self) -> NDArray[np.uint8]:
        """Return the features of the rows; where cells are missing, of several copies with different cells drawn."""
        holes = any(self.data.rows.missing[name] for name in self.data.attributes)
        types = self._predict_types() if holes else None
        return np.concatenate([self._code_copy(types) for _ in range(COPIES if holes else 1)])

    def _code_copy(self, probabilities: Values | None) -> NDArray[np.uint8]:
        types = np.zeros(len(self.classes), dtype=np.intp)
        if probabilities is not None:
            uniforms, order = self.rng.random((len(probabilities), 1)), _list_states(self.classes, len(self.types))
            below = (probabilities[:, order].cumsum(axis=1) < uniforms).sum(axis=1)
            types = order[below.clip(max=len(self.types) - 1)]
        blocks = []
        for column, density in zip(self.columns, self.densities, strict=True):
            cells = self.data.codes(column.variable.name)
            missing = ~find_observed(cells)
            if missing.any():
                cells = np.array(cells)
                given = {self.types.name: types[missing]} if density.parents else {}
                cells[missing] = density.sample(given, self.rng, size=int(missing.sum()))
            blocks.append(column.ranks[:, column.encode(cells)].T)
        return np.ascontiguousarray(np.concatenate(blocks, axis=1))

    def _predict_types(self) -> Values:
        """Return the probabilities of the types of rows (rows, classes), by densities that have not seen them.

        Otherwise the cells that are drawn would tell the class of a row that trees are tested with.
        """
        attributes = self.data.table.select(self.data.attributes)
        probabilities = np.empty((len(self.classes), len(self.types)))
        for rows, test in split_folds(self.parts):
            network = self._describe_attributes(rows)
            posterior = network.posterior(self.types.name, attributes.take(test), options=COARSE)
            assert isinstance(posterior, DiscretePosterior)
            probabilities[test] = posterior.probabilities
        return np.where(np.isnan(probabilities), self.prior, probabilities)

    def _describe_attributes(self, rows: Codes) -> Network:
        """Return the attributes given the type, learned from some of the rows where these suffice."""
        try:
            densities = self._fit_densities(self.data.take(rows))
        except HybridBNError:
            densities = self.densities
        return Network([Multinomial(self.types, table=self.prior), *densities])

    def _fit_densities(self, data: TrainingData) -> tuple[Potential, ...]:
        assert data.target is not None
        return tuple(data.fit(name, (data.target,)).renamed({data.target: self.types.name}) for name in self.attributes)

    def _smooth(
        self, forest: Forest, features: NDArray[np.uint8], unseen: NDArray[np.bool_], copies: Codes
    ) -> _GrownTrees:
        """Choose the strength of smoothing that gives held-out rows the most probable classes."""
        count, classes = len(self.classes), len(self.target)
        tables = [self._tabulate(forest, strength) for strength in STRENGTHS]
        told = np.zeros((len(STRENGTHS), count, classes))
        for part in slice_blocks(count, BLOCK):
            leaf = np.empty((len(forest.roots), part.stop - part.start), dtype=np.intp)
            for copy in range(len(features) // count):
                own = np.flatnonzero(copies == copy)
                leaf[own] = forest.find_leaves(features[copy * count + part.start : copy * count + part.stop], own)
            away = unseen[:, part]
            # a row that all trees have seen gets the mean of none, and the shares of the classes below
            times = np.maximum(away.sum(axis=0), 1)[:, None]
            for number, table in enumerate(tables):
                sums = [np.where(away, table[:, code].take(leaf), 0.0).sum(axis=0) for code in range(classes)]
                told[number, part] = np.stack(sums, axis=1) / times
        told = np.where(np.asarray(unseen.any(axis=0))[:, None], told, self.prior)
        losses = -np.log(told[:, np.arange(count), self.classes]) @ self.shares
        best = int(np.argmin(losses))
        return _GrownTrees(forest, tables[best], told[best], float(losses[best]))

    def _tabulate(self, forest: Forest, strength: float) -> Values:
        """Return the class probabilities of all nodes, those of the node above counting as some rows."""
        counts, start = forest.value, len(forest.roots)
        totals = counts.sum(axis=1, keepdims=True)
        tables = np.empty(counts.shape)
        tables[:start] = (counts[:start] + strength * self.prior) / (totals[:start] + strength)
        for own, above in forest.list_levels():
            tables[own] = (counts[own] + strength * tables[above]) / (totals[own] + strength)
        return tables

    def build_network(self, name: str) -> Network:
        """Return the network."""
        forest = self.grown.forest
        leaves = np.flatnonzero(~np.isfinite(forest.cut))
        found = [(column, self._find_inside(number, leaves)) for number, column in enumerate(self.columns)]
        leaf = Discrete(name, tuple(range(len(leaves))))
        tested = [(column.variable, column.cuts, inside) for column, inside in found if not inside.all()]
        boxes = make_boxes(leaf, tested, len(forest.roots))
        classes = Multinomial(self.target, (leaf,), table=self.grown.tables[leaves])
        densities = sorted(self.densities, key=lambda density: self.data.attributes.index(density.child.name))
        return Network([Multinomial(self.types, table=self.prior), *densities, boxes, classes])

    def _find_inside(self, number: int, leaves: Codes) -> NDArray[np.bool_]:
        """Return which states or intervals of a column are in each leaf (leaves, states)."""
        column = self.columns[number]
        first = sum(len(other.ranks) for other in self.columns[:number])
        forest = self.grown.forest
        feature = forest.column - first
        tests = np.isfinite(forest.cut) & (feature >= 0) & (feature < len(column.ranks))
        inside = np.ones((len(forest.cut), column.size), dtype=bool)
        for own, above in forest.list_levels():
            inside[own] = inside[above]
            asked = np.flatnonzero(tests[above])
            node, child = above[asked], own.start + asked
            left = column.ranks[feature[node]] <= forest.cut[node, None]
            inside[child] &= left ^ (child != forest.left[node])[:, None]
        return inside[leaves]


def _list_states(cells: Codes, size: int) -> Codes:
    """Return states in the order of the first rows that have them, which is that of no names."""
    states, first = np.unique(np.append(cells, np.arange(size)), return_index=True)
    return np.asarray(states[states >= 0][np.argsort(first[states >= 0])])


# forests of numbers

_TREES = 40
_LEAST = 3
"""Rows of a leaf, at least,"""
_LEAVES = 200
"""and one row for so many of a tree."""
_QUESTIONS = (8, 16)
"""Tried for each node: one for every other column, but so many at least and at most."""
_ROWS = 1000
"""The most rows that a tree is grown from."""
_CHUNK = 2048
_STEPS = 4
"""Rows go down so many levels before those that are in leaves are sorted out."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in arrays of all their nodes.

    Attributes
    ----------
    roots : ndarray (trees,)
    column, cut : ndarray (nodes,)
        A row goes left if its cell of the column is at most the cut, which is infinite in leaves.
    left : ndarray (nodes,)
        The left child, the right one standing next to it; of a leaf itself.
    value : ndarray (nodes,) or (nodes, classes)
        Mean of the target, or how many rows of each class reach the node.
    """

    roots: Codes
    column: Codes
    cut: Values
    left: Codes
    value: Values

    def find_leaves(self, features: NDArray[Any], trees: slice | Codes = slice(None)) -> Codes:
        """Return the leaf of each row in each tree, or in some: (trees, rows)."""
        roots = self.roots[trees]
        flat, first = features.ravel(), np.tile(np.arange(len(features)) * features.shape[1], len(roots))
        node = np.repeat(roots, len(features))
        leaf, pending = node.copy(), np.arange(len(node))
        while len(pending):
            # a row that is in its leaf stays there, so it need not be sorted out at each step
            for _ in range(_STEPS):
                node = self.left.take(node) + (flat.take(self.column.take(node) + first) > self.cut.take(node))
            leaf[pending] = node
            inner = np.isfinite(self.cut.take(node))
            pending, node, first = pending[inner], node[inner], first[inner]
        return np.asarray(leaf.reshape(len(roots), len(features)))

    def list_levels(self) -> Iterator[tuple[slice, Codes]]:
        """Yield the nodes of each level below the roots, and the nodes above them."""
        above, start = self.parents, len(self.roots)
        while start < len(above):
            stop = int(np.searchsorted(above, start))
            yield slice(start, stop), above[start:stop]
            start = stop

    @property
    def parents(self) -> Codes:
        """The node above each node, -1 above the roots; a node comes after its parent."""
        above = np.full(len(self.left), -1)
        inner = np.flatnonzero(np.isfinite(self.cut))
        above[self.left[inner]] = above[self.left[inner] + 1] = inner
        return above

    def predict(self, features: Values) -> Values:
        """Return the mean of the trees for each row: (rows,) or (rows, outputs).

        Examples
        --------
        >>> x = np.linspace(-1, 1, 400)
        >>> forest, _ = grow_forest(x[:, None], x**2, np.random.default_rng(0))
        >>> bool(abs(forest.predict(np.array([[0.5]]))[0] - 0.25) < 0.05)
        True
        """
        result = np.empty((len(features), *self.value.shape[1:]))
        # of few rows at a time, whose nodes stay in the cache
        for start in range(0, len(features), _CHUNK):
            leaves = self.find_leaves(features[start : start + _CHUNK])
            # along what is contiguous, so that rounding doesn't depend on how many rows there are
            result[start : start + _CHUNK] = self.value.take(leaves.T, axis=0).mean(axis=1)
        return result

    def predict_unseen(self, features: Values, counts: Codes) -> Values:
        """Return the mean of those trees that haven't seen the row; of all, where each has.

        Parameters
        ----------
        counts : ndarray (rows, trees)
            How often each tree has seen each row.
        """
        each, unseen = self.value.take(self.find_leaves(features).T, axis=0), counts == 0
        unseen[~unseen.any(axis=1)] = True
        weighted = np.einsum("rt...,rt->r...", each, unseen.astype(np.float64))
        return np.asarray(weighted / unseen.sum(axis=1).reshape(-1, *[1] * (each.ndim - 2)))

    def reweigh(self, features: Values, target: Values, counts: Values) -> Self:
        """Return the same trees with means of other rows, or of rows with other weights, in their leaves.

        Parameters
        ----------
        features : ndarray (rows, columns)
        target : ndarray (rows, outputs)
        counts : ndarray (rows, trees)
            How often each row counts in each tree; leaves without any row stay as they are.
        """
        leaf, counted = self.find_leaves(features).ravel(), counts.T.ravel()
        total = np.bincount(leaf, counted, len(self.left))
        told, value = total > 0, np.array(self.value)
        for output, own in enumerate(target.T):
            sums = np.bincount(leaf, counted * np.tile(own, len(self.roots)), len(self.left))
            value[told, output] = sums[told] / total[told]
        return replace(self, value=value)


def grow_forest(
    features: Values, target: Values, rng: np.random.Generator, weights: Values | None = None
) -> tuple[Forest, Codes]:
    """Return a forest, and how often each tree has seen each row (rows, trees).

    Parameters
    ----------
    features : ndarray (rows, columns)
    target : ndarray (rows,) or (rows, outputs)
        Several outputs, in comparable units, share the trees.
    weights : ndarray (rows,), optional
        How often each row counts.
    """
    size = min(len(target), _ROWS)
    picked = rng.choice(len(target), (_TREES, size), p=None if weights is None else weights / weights.sum())
    outputs = _Numbers(np.ascontiguousarray(target.T.reshape(-1, len(target))))
    least = max(_LEAST, size // _LEAVES)
    columns = features.shape[1]
    count = int(np.clip(columns // 2, *_QUESTIONS))
    questions = Questions(np.arange(columns), np.ones(columns, dtype=np.intp), count)
    forest = _grow_trees(features, outputs, picked, questions, least, rng)
    key = (picked + len(target) * np.arange(_TREES)[:, None]).ravel()
    counts = np.bincount(key, minlength=_TREES * len(target)).reshape(_TREES, -1).T
    return replace(forest, value=forest.value.reshape(-1, *target.shape[1:])), counts


@dataclass(frozen=True)
class Questions:
    """Which features are asked about: one of a random group, such as the indicators of a category's states.

    Attributes
    ----------
    starts, sizes : ndarray (groups,)
        Of each group its first feature and how many there are.
    count : int
        Tried for each node.
    """

    starts: Codes
    sizes: Codes
    count: int

    def draw(self, nodes: int, rng: np.random.Generator) -> Codes:
        """Return a feature for each node."""
        group = rng.integers(len(self.starts), size=nodes)
        if len(self.starts) == self.sizes.sum():
            return np.asarray(self.starts[group])
        return np.asarray(self.starts[group] + np.floor(rng.random(nodes) * self.sizes[group]).astype(np.intp))


_CountLeft: TypeAlias = Callable[[NDArray[np.bool_]], tuple[Codes, Values]]
"""Returns for each node how many rows go left, and their sums (nodes, outputs)."""


@dataclass(frozen=True)
class _Numbers:
    """Sums of numbers (outputs, rows) over nodes; their squares over the counts tell how much of the squared error is
    explained.
    """

    targets: Values

    def sum_nodes(self, rows: Codes, starts: Codes, node: Codes) -> Values:
        return np.add.reduceat(self.targets[:, rows], starts, axis=1).T

    def count_left(self, rows: Codes, starts: Codes, node: Codes) -> _CountLeft:
        own = self.targets[:, rows]

        def count(goes_left: NDArray[np.bool_]) -> tuple[Codes, Values]:
            left = np.add.reduceat(goes_left.astype(np.intp), starts)
            return left, np.add.reduceat(np.where(goes_left, own, 0.0), starts, axis=1).T

        return count

    def can_split(self, sums: Values, counts: Codes) -> NDArray[np.bool_]:
        return np.ones(len(counts), dtype=bool)

    def summarize(self, sums: Values, counts: Codes) -> Values:
        return np.asarray(sums / counts[:, None])


@dataclass(frozen=True)
class _Classes:
    """Counts of classes in nodes, whose squares over the counts of rows tell how pure the nodes are (Gini)."""

    classes: Codes
    count: int

    def sum_nodes(self, rows: Codes, starts: Codes, node: Codes) -> Values:
        key = node * self.count + self.classes[rows]
        return np.asarray(np.bincount(key, minlength=len(starts) * self.count).reshape(-1, self.count), np.float64)

    def count_left(self, rows: Codes, starts: Codes, node: Codes) -> _CountLeft:
        key, nodes = node * self.count + self.classes[rows], len(starts)

        def count(goes_left: NDArray[np.bool_]) -> tuple[Codes, Values]:
            told = np.bincount(key[goes_left], minlength=nodes * self.count).reshape(-1, self.count)
            return told.sum(axis=1), told.astype(np.float64)

        return count

    def can_split(self, sums: Values, counts: Codes) -> NDArray[np.bool_]:
        return np.asarray(sums.max(axis=1) < counts)

    def summarize(self, sums: Values, counts: Codes) -> Values:
        return sums


def _grow_trees(
    features: NDArray[Any],
    target: _Numbers | _Classes,
    picked: Codes,
    questions: Questions,
    least: int,
    rng: np.random.Generator,
) -> Forest:
    """Grow a tree from each row of `picked`, which has the numbers of its rows."""
    trees, size = picked.shape
    rows, starts = picked.ravel(), np.arange(trees) * size
    levels: list[tuple[Codes, Values, Codes, Values]] = []
    total = trees
    while True:
        # the rows of a node stand together
        counts = np.diff(starts, append=len(rows))
        node = np.repeat(np.arange(len(starts)), counts)
        sums = target.sum_nodes(rows, starts, node)
        column, cut = np.zeros(len(starts), dtype=np.intp), np.full(len(starts), np.inf)
        mixed = target.can_split(sums, counts)
        asked = np.flatnonzero(mixed)
        if len(asked):
            inside, own = mixed[node], counts[asked]
            column[asked], cut[asked] = _choose_cuts(
                features,
                target,
                rows[inside],
                np.cumsum(own) - own,
                own,
                sums[asked],
                np.repeat(np.arange(len(asked)), own),
                questions,
                least,
                rng,
            )
        splits = np.isfinite(cut)
        place = np.cumsum(splits) - 1
        own = np.arange(total - len(starts), total)
        levels.append((column, cut, np.where(splits, total + 2 * place, own), target.summarize(sums, counts)))
        if not splits.any():
            break
        kept = splits[node]
        rows, node = rows[kept], node[kept]
        side = 2 * place[node] + (features[rows, column[node]] > cut[node])
        order = np.argsort(side, kind="stable")
        rows, side = rows[order], side[order]
        starts = np.searchsorted(side, np.arange(2 * int(splits.sum())))
        total += len(starts)
    column, cut, left, value = (np.concatenate(part) for part in zip(*levels, strict=True))
    return Forest(np.arange(trees), column, cut, left, value)


def _choose_cuts(
    features: NDArray[Any],
    target: _Numbers | _Classes,
    rows: Codes,
    starts: Codes,
    counts: Codes,
    sums: Values,
    node: Codes,
    questions: Questions,
    least: int,
    rng: np.random.Generator,
) -> tuple[Codes, Values]:
    """Return the column and the cut of each node; the cut is infinite where no question leaves enough rows on both
    sides.
    """
    nodes = len(starts)
    whole = (sums**2).sum(axis=1) / counts
    best = whole * (1 + 1e-9)
    column, cut = np.zeros(nodes, dtype=np.intp), np.full(nodes, np.inf)
    flat, first = features.ravel(), rows * features.shape[1]
    count_left = target.count_left(rows, starts, node)
    for _ in range(questions.count):
        asked = questions.draw(nodes, rng)
        one, other = (rows[starts + np.floor(rng.random(nodes) * counts).astype(np.intp)] for _ in range(2))
        halfway = 0.5 * features[one, asked] + 0.5 * features[other, asked]
        # whole numbers are compared as such, several times faster
        bound = halfway if features.dtype.kind == "f" else halfway.astype(features.dtype)
        goes_left = flat.take(first + np.repeat(asked, counts)) <= np.repeat(bound, counts)
        left, told = count_left(goes_left)
        right = counts - left
        enough = (left >= least) & (right >= least)
        score = (told**2).sum(axis=1) / np.maximum(left, 1) + ((sums - told) ** 2).sum(axis=1) / np.maximum(right, 1)
        better = enough & (score > best)
        best, column, cut = (
            np.where(better, new, old) for new, old in ((score, best), (asked, column), (halfway, cut))
        )
    return column, cut
