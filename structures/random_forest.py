"""Random forests of classification trees as one network: the leaves of all trees are the states of a hidden node."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting import equal_frequency
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import deal_folds, split_folds
from hybridbn.fitting.trees.growth import make_boxes
from hybridbn.fitting.trees.randomized_trees import Forest, Questions, grow_class_forest
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import check_count, make_generator
from hybridbn.potentials import Multinomial, Potential
from hybridbn.structures.building import Built, builder, find_unused_name, name_hidden_node
from hybridbn.structures.heldout import HeldOutClasses
from hybridbn.structures.training_data import COARSE, TrainingData, read_labeled_data
from hybridbn.variables import Codes, Discrete, Values, Variable, find_observed

__all__ = ["random_forest"]

INTERVALS = 64
"""Of a number column, between which tests cut."""
FOLDS = 5
"""In which rows are held out to draw their missing cells."""
COPIES = 8
"""Missing cells of the training rows are drawn this often, for different trees."""
QUESTIONS = (16, 40, 100)
"""Tried for each node: as few as predict held-out rows nearly best in some trees."""
NEARLY = 0.01
"""A log loss that is higher by this share counts as equal."""
PILOT = 15
"""Trees that are grown with each number of questions."""
MOST_LEAVES = 400_000
"""Of all trees: with more rows a leaf has several at least, as the network would become too large."""
SAMPLE = 20000
"""Rows of a tree, at most."""
BLOCK = 4096
"""Rows whose leaves in all trees are looked up together."""
STRENGTHS = (0.05, 0.2, 0.5, 1.0, 2.0, 5.0)
"""As how many rows the class probabilities of the node above count in those of a node."""


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
) -> Built:
    r"""Build a random forest for classes: many trees of tests, whose leaves tell how probable the classes are.

    As a network it has a hidden node for the leaf, which is a function of the attributes for each tree; the leaves of
    all trees are its states, so a complete row is in one leaf of each, and the probabilities of its classes are the
    mean of what these leaves say:

    .. math:: P(c \mid x) = \sum_l P(l \mid x) P(c \mid l) = \frac1T \sum_t P(c \mid l_t(x))

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
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
    labeled, rows, count = read_labeled_data(data, target, potentials, weights, "random forests")
    trees = check_count(trees, "trees", 1, NetworkError)
    variable = labeled.variable(target)
    assert isinstance(variable, Discrete)
    leaf = name_hidden_node(name, f"{target} leaf", labeled.roles)
    types = Discrete(find_unused_name(f"{target} type", [*labeled.roles, leaf]), variable.states)
    forest = _ClassForest(labeled, variable, types, trees, make_generator(random_state))
    held_out = HeldOutClasses.of(variable, forest.grown.held_out, rows, count)
    return Built(forest.build_network(leaf), held_out)


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
        self, data: TrainingData, target: Discrete, types: Discrete, trees: int, rng: np.random.Generator
    ) -> None:
        self.data, self.target, self.types, self.rng = data, target, types, rng
        self.classes = data.codes(target.name)
        weights = data.table.weights
        self.shares = weights / weights.sum()
        self.prior = (np.bincount(self.classes, weights, len(target)) + 0.5) / (weights.sum() + 0.5 * len(target))
        self.densities = self._fit_densities(data)
        self.columns = [self._choose_features(name) for name in data.attributes]
        features = self._code_features()
        count = len(self.classes)
        picked = rng.choice(count, size=(trees, min(count, SAMPLE)), p=self.shares)
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
        forest = grow_class_forest(features, self.copied, len(self.target), sample, questions, self.rng, least)
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
        return _Column(variable, (), np.eye(size, dtype=np.uint8))

    def _code_features(self) -> NDArray[np.uint8]:
        """Return the features of the rows; where cells are missing, of several copies with different cells drawn."""
        holes = any(self.data.rows.missing[name] for name in self.data.attributes)
        types = self._predict_types() if holes else None
        return np.concatenate([self._code_copy(types) for _ in range(COPIES if holes else 1)])

    def _code_copy(self, probabilities: Values | None) -> NDArray[np.uint8]:
        types = None if probabilities is None else self._draw_types(probabilities)
        blocks = []
        for column, density in zip(self.columns, self.densities, strict=True):
            cells = self.data.codes(column.variable.name)
            missing = ~find_observed(cells)
            if missing.any():
                assert types is not None
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
        for rows, test in split_folds(deal_folds(len(self.classes), FOLDS, self.rng, self.classes)):
            network = self._describe_attributes(rows)
            posterior = network.posterior(self.types.name, attributes.take(test), options=COARSE)
            assert isinstance(posterior, DiscretePosterior)
            probabilities[test] = posterior.probabilities
        return np.where(np.isnan(probabilities), self.prior, probabilities)

    def _draw_types(self, probabilities: Values) -> Codes:
        uniforms = self.rng.random((len(probabilities), 1))
        return np.asarray((probabilities.cumsum(axis=1) < uniforms).sum(axis=1).clip(max=len(self.types) - 1))

    def _describe_attributes(self, rows: Codes) -> Network:
        """Return the attributes given the type, learned from some of the rows where these suffice."""
        try:
            densities = self._fit_densities(self.data.take(rows))
        except HybridBNError:
            densities = self.densities
        return Network([Multinomial(self.types, table=self.prior), *densities])

    def _fit_densities(self, data: TrainingData) -> tuple[Potential, ...]:
        assert data.target is not None
        return tuple(data.fit(name, (data.target,)).renamed({data.target: self.types.name}) for name in data.attributes)

    def _smooth(
        self, forest: Forest, features: NDArray[np.uint8], unseen: NDArray[np.bool_], copies: Codes
    ) -> _GrownTrees:
        """Choose the strength of smoothing that gives held-out rows the most probable classes."""
        count, classes = len(self.classes), len(self.target)
        tables = [self._tabulate(forest, strength) for strength in STRENGTHS]
        told = np.zeros((len(STRENGTHS), count, classes))
        for start in range(0, count, BLOCK):
            part = slice(start, min(start + BLOCK, count))
            leaf = np.empty((len(forest.roots), part.stop - start), dtype=np.intp)
            for copy in range(len(features) // count):
                own = np.flatnonzero(copies == copy)
                leaf[own] = forest.find_leaves(features[copy * count + start : copy * count + part.stop], own)
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
        return Network([Multinomial(self.types, table=self.prior), *self.densities, boxes, classes])

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
