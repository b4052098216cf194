"""Naive Bayes trees: a tree of tests with a naive Bayes model in each leaf, as a network with a hidden node for the
leaf.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.arguments import check_count
from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Statistics
from hybridbn.fitting.counting import Counts
from hybridbn.fitting.discretize import equal_frequency, mdl
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.fitting.multinomial import counts_suffice
from hybridbn.fitting.trees.column_splits import (
    CodedColumns,
    ColumnCriterion,
    ColumnView,
    GainRatio,
    ScannedColumns,
    Utility,
    Variance,
    choose_grain,
    grow_by_tests,
    mass_of,
)
from hybridbn.fitting.trees.growth import Route, Sample, TreeNode, leaves
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.potentials.cases import Case, Cases
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.structures.building import builder, name_hidden_node
from hybridbn.structures.training_data import CollectStatistics, TrainingData, read_data_with_target
from hybridbn.structures.tree_leaves import describe_interval, find_interval, make_distinct
from hybridbn.tables import Rows, Table
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["nb_tree"]

INTERVALS = 8
"""Of a number column, for tests in a tree with a continuous target."""
LEAST_ROWS = 2.0
"""At least two branches have so much weight, unless it is said how much."""
_DENSE = 4
"""Counts of which one in so many is not zero are kept as they are."""


@builder(hidden=(Discrete,))
@share_passes
def nb_tree(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    max_depth: int | None = None,
    criterion: ColumnCriterion | None = None,
    least: float = 30.0,
    least_branch: float | None = None,
    binary: bool | None = None,
    name: str | None = None,
    n_jobs: int | None = None,
) -> Network:
    r"""Build a naive Bayes tree: tests at the nodes, and in each leaf naive Bayes over the attributes that were not
    tested.

    As a network it has a hidden node for the leaf, above the target and, with the target, above the attributes:

    .. math:: f(y, x) = \sum_l P(l) f(y \mid l) \prod_i f(x_i \mid l, y)

    In a leaf, an attribute that was tested on the way has no density outside of the leaf's part of its range. So a
    complete row belongs to one leaf, as in any tree; a row whose tested cells are missing belongs to several leaves, by
    Bayes' rule.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
    max_depth : int, optional
        Greatest number of tests on the way to a leaf. A number makes the *leveled* tree of Ting and Zheng, whose tests
        have the greatest gain ratio; 0 is naive Bayes. Without it the tree grows by Kohavi's utility.
    criterion : GainRatio, Utility or Variance, optional
        Which test is best, and when none is worth while; the last one is for a continuous target and its default.
    least : float
        Nodes of less weight are not split.
    least_branch : float, optional
        At least two branches of a test have so much weight. By default as much as a node that is split where the gain
        ratio decides, as in C4.5, on which Ting and Zheng's tree is built; and 2 otherwise.
    binary : bool, optional
        Cut numbers in two at a test, and let the attribute count in the leaf within its part of the range. Otherwise
        each interval is a branch, like each state of a category. By default numbers are cut in two for a continuous
        target.
    name : str, optional
        Of the hidden node; by default the target's with " leaf" after it.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its first node is the leaf, then comes the target; the attributes follow in the table's order. The states of the
        leaf tell the tests on the way to it.

    Notes
    -----
    Numbers are tested by intervals: those of Fayyad and Irani's entropy criterion for a discrete target, eight of
    equal frequency for a continuous one (and, by utility, where that criterion finds none). While growing, a row whose
    tested cell is missing goes down all branches with their shares of its weight (C4.5). A branch without rows takes
    its densities from the nearest node above that has some; every leaf keeps some mass. There is no pruning.

    In the tables of a leaf below a test, a state that none of its rows has is as probable in all classes, so it tells
    nothing about the class. An estimate such as the m-estimate by itself makes it the more probable the fewer rows a
    class has there, and in small leaves with many attributes that would decide.

    References
    ----------
    Kohavi (1996), "Scaling up the accuracy of naive-Bayes classifiers: a decision-tree hybrid", KDD. Ting & Zheng
    (2003), "A study of AdaBoost with naive Bayesian classifiers: weakness and improvement", section 3.2, Computational
    Intelligence 19.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = (rng.choice(["no", "yes"], 300) for _ in range(3))
    >>> data = {"a": a, "b": b, "c": c, "same": np.where(a == b, "same", "other")}
    >>> net = nb_tree(data, "same")
    >>> net.variable("same leaf").states
    ('a: no', 'a: yes')
    >>> net.posterior("same", {"a": "yes", "b": "yes"})["same"] > 0.95
    True
    >>> 0.4 < net.posterior("same", {"b": "yes"})["same"] < 0.6
    True
    """
    read = read_data_with_target(data, target, potentials, weights)
    name = name_hidden_node(name, f"{target} leaf", read.roles)
    depth = None if max_depth is None else check_count(max_depth, "max_depth", 0, NetworkError)
    for option, weight in (("least", least), ("least_branch", 0.0 if least_branch is None else least_branch)):
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not weight >= 0:
            raise NetworkError(f"{option} must be a weight of rows that is not negative, not {weight!r}")
    discrete = isinstance(read.variable(target), Discrete)
    if criterion is None:
        criterion = Variance() if not discrete else Utility() if max_depth is None else GainRatio()
    tests = {column: _choose_intervals(read, column, isinstance(criterion, Utility)) for column in read.attributes}
    reader = _read_columns(read, tests)
    view = reader.view(read.rows)
    binary = not discrete if binary is None else binary
    if least_branch is None:
        least_branch = max(float(least), LEAST_ROWS) if isinstance(criterion, GainRatio) else LEAST_ROWS
    root = grow_by_tests(view, criterion, depth, float(least), float(least_branch), binary)
    if not mass_of(root) > 0:
        raise TableError(f"no row of positive weight has a value of {target!r}")
    return _TreeNetwork(read, name, reader, root).build_network()


def _choose_intervals(data: TrainingData, column: str, always: bool) -> Discrete:
    """Return what tests look at: the column's own states, or intervals of its numbers.

    Numbers that tell nothing of the target by themselves have no intervals, unless they are wanted `always`: the
    utility of other tests may be that such a number tells something in their branches.
    """
    variable = data.variable(column)
    if isinstance(variable, Discrete):
        return variable
    assert data.target is not None
    target = data.variable(data.target)
    seen = data.sampled.find_labeled()
    values, guide = (data.sampled.codes(name)[seen] for name in (column, data.target))
    counted = data.sampled.table.weights[seen] if data.rows.weighted else None
    cuts: tuple[float, ...] = ()
    if isinstance(target, Discrete):
        cuts = mdl(values, guide, counted)
    if not isinstance(target, Discrete) or (always and not cuts):
        cuts = equal_frequency(values, None, counted, bins=INTERVALS)
    return Discrete(column, cuts=cuts) if cuts else Discrete(column, ("any",))


@dataclass(frozen=True)
class _ReadColumns:
    """Reads what tests look at.

    Attributes
    ----------
    variables : mapping from column to Variable
    tests : mapping from attribute to Discrete
        What is tested of it.
    target : str
    grain : float
    """

    variables: Mapping[str, Variable]
    tests: Mapping[str, Discrete]
    target: str
    grain: float

    def __call__(self, table: Table, first: int) -> CodedColumns:
        """Return the columns of consecutive rows."""
        codes = []
        for column, variable in self.tests.items():
            own = table.coded(self.variables[column])
            if not isinstance(self.variables[column], Discrete):
                own = np.where(np.isnan(own), -1, np.searchsorted(np.array(variable.cuts or ()), own, side="right"))
            codes.append(own)
        target = table.coded(self.variables[self.target])
        counted = (target >= 0 if self.classes else ~np.isnan(target)) & (table.weights > 0)
        whole = bool(counted.all())
        return CodedColumns(
            codes,
            self.sizes,
            self.ordered,
            target,
            self.classes,
            table.weights,
            None if whole else counted,
            grain=self.grain,
            first=first,
        )

    @property
    def sizes(self) -> list[int]:
        """The numbers of what is told apart."""
        return [len(variable) for variable in self.tests.values()]

    @property
    def ordered(self) -> list[bool]:
        """Which of them are intervals."""
        return [variable.cuts is not None for variable in self.tests.values()]

    @property
    def classes(self) -> int:
        """The number of classes, 0 of a number."""
        target = self.variables[self.target]
        return len(target) if isinstance(target, Discrete) else 0

    def view(self, table: Rows) -> ColumnView:
        """Return the columns of a table, which may be read in passes."""
        if not table.is_scanned:
            return self(table.sample(), 0)
        variables = list(self.variables.values())
        return ScannedColumns(table, variables, self, self.sizes, self.ordered, self.classes, self.grain)


def _read_columns(data: TrainingData, tests: Mapping[str, Discrete]) -> _ReadColumns:
    assert data.target is not None
    variables = {name: data.variable(name) for name in (*tests, data.target)}
    return _ReadColumns(variables, tests, data.target, choose_grain(data.rows.total_weight, len(data.rows)))


@dataclass(frozen=True)
class _CollectInNodes:
    """Collects the statistics of columns in the rows of a batch at each of some nodes."""

    read: _ReadColumns
    routes: tuple[Route, ...]
    collect: CollectStatistics

    def __call__(self, table: Table, first: int) -> Any:
        """Return the statistics by the numbers of the nodes."""
        names = dict.fromkeys(name for child, given in self.collect.parents.items() for name in (child, *given))
        variables = [self.read.variables[name] for name in names]
        collected: dict[Any, Any] = {}
        for place, (rows, weights) in enumerate(self.read(table, first).locate(self.routes)):
            columns = {variable.name: table.coded(variable)[rows] for variable in variables}
            collected[place] = self.collect(Table.from_arrays(variables, columns, weights=weights))
        return Counts(collected)


class _TreeNetwork:
    """A grown tree on its way to a network."""

    def __init__(
        self,
        data: TrainingData,
        name: str,
        read: _ReadColumns,
        root: TreeNode[Values],
    ) -> None:
        self.data, self.read, self.target, self.tests = data, read, read.target, read.tests
        self.starts = np.concatenate([[0], np.cumsum(read.sizes, dtype=np.intp)])
        # of columns in nodes of a table that is read in passes
        self.statistics: dict[tuple[int, tuple[str, ...]], Statistics] = {}
        self.columns = list(self.tests)
        self.leaves = leaves(root)
        self.counts = _LeafCounts(self.leaves)
        # for each column that is tested the leaves below its tests, with their parts of its range
        self.boxes: dict[int, list[tuple[int, NDArray[np.intp]]]] = {}
        for number, leaf in enumerate(self.leaves):
            for place, box in leaf.boxes.items():
                self.boxes.setdefault(place, []).append((number, box))
        self.hidden = Discrete(name, make_distinct([self._describe_path(leaf) for leaf in self.leaves]))

    def build_network(self) -> Network:
        """Return the network."""
        mass = np.array([_estimate_mass(leaf) for leaf in self.leaves])
        potentials: list[Potential] = [Multinomial(self.hidden, table=mass / mass.sum())]
        target, fitter = self.data.variable(self.target), self.data.fitter(self.target, ())
        if isinstance(target, Discrete) and counts_suffice(fitter):
            counts = self.counts.collect(slice(self.starts[-1], None))[:, :, 0]
            own = Multinomial(target, (self.hidden,), table=fitter.tables(counts))
            potentials += [own, *(self._tabulate(place, own.table) for place in range(len(self.columns)))]
        else:
            potentials.append(self._join_leaves(self.target, lambda leaf: self._fit_in_leaf(leaf, self.target, ())))
            potentials += [self._build_cases(place) for place in range(len(self.columns))]
        return Network(potentials)

    def _tabulate(self, place: int, classes: Values) -> Potential:
        """Return the densities of an attribute in all leaves: as one table where they are tables of what was
        counted.
        """
        column = self.columns[place]
        variable, target = self.data.variable(column), self.data.variable(self.target)
        fitter = self.data.fitter(column, (self.target,))
        if not (isinstance(variable, Discrete) and counts_suffice(fitter)):
            return self._build_cases(place)
        own = self.counts.collect(slice(*self.starts[place : place + 2]))
        if not own.any(axis=(1, 2)).all():
            return self._build_cases(place)
        below = np.array([bool(leaf.boxes) for leaf in self.leaves])
        unseen = ~own.any(axis=1, keepdims=True) & below[:, None, None]
        table = fitter.tables(own)
        if unseen.any():
            table = _make_uninformative(table, unseen, classes)
        assert isinstance(target, Discrete)
        return Multinomial(variable, (self.hidden, target), table=self._confine_to_boxes(table, place))

    def _build_cases(self, place: int) -> Potential:
        return self._join_leaves(self.columns[place], lambda leaf: self._fit_attribute(leaf, place))

    def _confine_to_boxes(self, table: Values, place: int) -> Values:
        """Confine the densities of a tested attribute to the leaves' parts of its range (leaves, classes, states)."""
        for number, box in self.boxes.get(place, ()):
            if len(box) == 1:
                table[number] = 0.0
                table[number, ..., box[0]] = 1.0
            else:
                table[number] = _confine(table[number], box)
        return table

    def _describe_path(self, leaf: TreeNode[Values]) -> str:
        parts = []
        for place, box in leaf.boxes.items():
            variable = self.tests[self.columns[place]]
            told = f"{variable.states[box[0]]}"
            if variable.cuts is not None:
                told = describe_interval(*find_interval(variable.cuts, box), 4)
            parts.append(f"{variable.name}: {told}")
        return "; ".join(parts) or "all"

    def _fit_attribute(self, leaf: TreeNode[Values], place: int) -> Case:
        """Return the density of an attribute in a leaf: confined to the leaf's part of its range where it was
        tested.
        """
        column, box = self.columns[place], leaf.boxes.get(place)
        if box is None:
            return self._fit_in_leaf(leaf, column, (self.target,))
        variable = self.data.variable(column)
        parents = (self.target,) if len(box) > 1 else ()
        if isinstance(variable, Discrete):
            if len(box) == 1:
                return Case(Multinomial(variable, table=np.eye(len(variable))[box[0]]))
            table = self._fit_in_leaf(leaf, column, parents).potential.table  # type: ignore[attr-defined]
            given = tuple(v for v in map(self.data.variable, parents) if isinstance(v, Discrete))
            return Case(Multinomial(variable, given, table=_confine(table, box)))
        low, high = find_interval(self.tests[column].cuts or (), box)
        fitted = self._fit_in_leaf(leaf, column, parents)
        return Case(fitted.potential, low, high)

    def _fit_in_leaf(self, leaf: TreeNode[Values], column: str, parents: tuple[str, ...]) -> Case:
        """Learn a potential from the rows of a leaf, or of the nearest node above where that is possible."""
        node: TreeNode[Values] | None = leaf
        failure: TableError | None = None
        while node is not None:
            if mass_of(node) > 0:
                try:
                    return Case(self._fit_in_node(node, column, parents))
                except TableError as error:  # a column may be constant, or nowhere observed, in a leaf
                    failure = failure or error
            node = node.parent
        assert failure is not None
        raise failure

    def _fit_in_node(self, node: TreeNode[Values], column: str, parents: tuple[str, ...]) -> Potential:
        names = (*parents, column)
        variables = [self.data.variable(name) for name in names]
        fitter = self.data.fitter(column, parents)
        if self.data.rows.is_scanned and fitter.asks_counter:
            if (id(node), names) not in self.statistics:
                self._collect_statistics(node, names)
            return fitter.potential(self.statistics[id(node), names])
        sample = self._samples[id(node)] if self.data.rows.is_scanned else node.sample
        rows = self.data.in_memory.table.select(names).take(sample.rows).with_weights(sample.weights)
        return fitter.fit(rows, variables[-1], tuple(variables[:-1]))

    @cached_property
    def _samples(self) -> dict[int, Sample]:
        """The rows of each node in a sample of all rows."""
        nodes = [*{id(node): node for leaf in self.leaves for node in _list_way_up(leaf)}.values()]
        block = self.read(self.data.in_memory.table, 0)
        return dict(zip(map(id, nodes), block.locate([node.sample for node in nodes]), strict=True))

    def _collect_statistics(self, node: TreeNode[Values], names: tuple[str, ...]) -> None:
        """Learn in a pass what some columns have in all leaves, or, where a leaf has nothing, in all nodes above."""
        above = {id(other): other for leaf in self.leaves for other in _list_way_up(leaf)[1:]}
        nodes = self.leaves if node.split is None else [*above.values()]
        parents = {names[-1]: names[:-1]}
        for column in self.columns:
            target = isinstance(self.data.variable(self.target), Discrete)
            is_table = target and isinstance(self.data.variable(column), Discrete)
            given = names[:-1] if names[-1] == column else (self.target,)
            if not is_table and self.data.fitter(column, given).asks_counter:
                parents[column] = given
        collect = CollectStatistics(self.data.roles, parents)
        variables = [self.data.variable(name) for name in (*self.columns, self.target)]
        routes = tuple(one.sample for one in nodes)
        collected: Any = self.data.rows.learn(_CollectInNodes(self.read, routes, collect), variables)
        for place, statistics in collected.items():
            for child, given in parents.items():
                self.statistics[id(nodes[place]), (*given, child)] = statistics[child]

    def _join_leaves(self, column: str, make: Callable[[TreeNode[Values]], Case]) -> Potential:
        """Put the densities of all leaves together: in one table where they are tables."""
        cases = [make(leaf) for leaf in self.leaves]
        variable = self.data.variable(column)
        parents = () if column == self.target else (self.data.variable(self.target),)
        if not any(isinstance(parent, Discrete) or case.potential.parents for case in cases for parent in parents):
            # tested on the way to every leaf: a number above it that no density looks at would cost quadrature
            parents = ()
        tables = [table for case in cases if (table := case.potential.probabilities()) is not None]
        given = [parent for parent in parents if isinstance(parent, Discrete)]
        if isinstance(variable, Discrete) and len(tables) == len(cases) and len(given) == len(parents):
            shape = (*map(len, given), len(variable))
            return Multinomial(
                variable, (self.hidden, *given), table=np.stack([np.broadcast_to(table, shape) for table in tables])
            )
        regressions = [
            (case.potential.scope, regression)
            for case in cases
            if (regression := case.potential.as_regression()) is not None and not case.cut
        ]
        if (
            isinstance(variable, Continuous)
            and len(regressions) == len(cases)
            and len({scope for scope, _ in regressions}) == 1
        ):
            return LinearGaussian(
                variable,
                (self.hidden, *parents),
                intercept=np.stack([r.intercept for _, r in regressions]),
                coefficients=np.stack([r.coefficients for _, r in regressions]),
                variance=np.stack([r.variance for _, r in regressions]),
            )
        return Cases(variable, (self.hidden, *parents), cases)


class _LeafCounts:
    """The counts of all states at each leaf (classes, states).

    Where few are not zero, they alone are kept, and the leaves lose theirs but for the masses of the classes.
    """

    def __init__(self, tree_leaves: list[TreeNode[Values]]) -> None:
        self.leaves = tree_leaves
        self.shape = (len(tree_leaves), *tree_leaves[0].statistics.shape)
        self.entries: tuple[NDArray[Any], ...] | None = None
        occurring = sum(np.count_nonzero(leaf.statistics) for leaf in tree_leaves)
        if _DENSE * occurring > math.prod(self.shape):
            return
        places = [np.nonzero(leaf.statistics) for leaf in tree_leaves]
        owner = np.repeat(np.arange(len(places)), [len(classes) for classes, _ in places])
        classes, states = (np.concatenate(part) for part in zip(*places, strict=True))
        own = [leaf.statistics[place] for leaf, place in zip(tree_leaves, places, strict=True)]
        self.entries = owner, classes, states, np.concatenate(own)
        for leaf in tree_leaves:
            leaf.statistics = leaf.statistics[:, -1:].copy()
        # the nodes of a level share memory
        for node in {id(node): node for leaf in tree_leaves for node in _list_way_up(leaf)[1:]}.values():
            node.statistics = node.statistics.copy()

    def collect(self, part: slice) -> Values:
        """Return the counts of some states that each leaf's tables are learned from (leaves, classes, states).

        They are those of the leaf, or, if none of its rows has a value of the column, those of the nearest node above
        that has some.
        """
        if self.entries is None:
            counts = np.stack([leaf.statistics[:, part] for leaf in self.leaves])
        else:
            begin, end, _ = part.indices(self.shape[-1])
            owner, classes, states, own = self.entries
            inside = (states >= begin) & (states < end)
            counts = np.zeros((*self.shape[:2], end - begin))
            counts[owner[inside], classes[inside], states[inside] - begin] = own[inside]
        for number in np.flatnonzero(counts.sum(axis=(1, 2)) <= 0):
            node = self.leaves[number].parent
            while node is not None and counts[number].sum() <= 0:
                counts[number] = node.statistics[:, part]
                node = node.parent
        return counts


def _make_uninformative(table: Values, unseen: NDArray[np.bool_], classes: Values) -> Values:
    """Make some states as probable in all classes as they are on the whole; the other states keep their proportions.

    Parameters
    ----------
    table : ndarray (leaves, classes, states)
    unseen : ndarray of bool (leaves, 1, states)
    classes : ndarray (leaves, classes)

    Examples
    --------
    >>> table = np.array([[[0.5, 0.4, 0.1], [0.2, 0.6, 0.2]]])
    >>> _make_uninformative(table, np.array([[[False, False, True]]]), np.array([[0.5, 0.5]])).round(3)
    array([[[0.472, 0.378, 0.15 ],
            [0.213, 0.638, 0.15 ]]])
    """
    common = np.where(unseen, (classes[:, None] @ table), 0.0)
    kept = np.where(unseen, 0.0, table)
    scale = (1 - common.sum(axis=-1, keepdims=True)) / kept.sum(axis=-1, keepdims=True)
    return np.asarray(common + kept * scale)


def _confine(table: Values, box: NDArray[np.intp]) -> Values:
    """Return probabilities given that the state is one of some (..., states)."""
    inside = np.zeros_like(table)
    inside[..., box] = table[..., box]
    return np.asarray(inside / inside.sum(axis=-1, keepdims=True))


def _estimate_mass(leaf: TreeNode[Values]) -> float:
    """Return the probability of a leaf.

    Every branch can be reached: as if two more rows were spread as the branches are, halfway to evenly.
    """
    probability, node = 1.0, leaf
    while node.parent is not None and node.parent.split is not None:
        split = node.parent.split
        mass, share = split.masses[node.branch], split.shares()[node.branch]
        known = float(np.cumsum(split.masses)[-1])
        probability *= float((mass + 2 * (0.5 * share + 0.5 / len(split.masses))) / (known + 2))
        node = node.parent
    return probability


def _list_way_up(leaf: TreeNode[Values]) -> list[TreeNode[Values]]:
    """Return a node and those above it, up to the root."""
    nodes = [leaf]
    while nodes[-1].parent is not None:
        nodes.append(nodes[-1].parent)
    return nodes
