"""Naive Bayes trees: a tree of tests with a naive Bayes model in each leaf, as a network with a hidden node for the
leaf.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting import Role, Statistics, equal_frequency, mdl
from hybridbn.fitting.base import Potentials, counts_suffice
from hybridbn.fitting.counting import Counts, Names
from hybridbn.fitting.trees import (
    Route,
    TreeNode,
    describe_interval,
    find_interval,
    leaves,
    locate_rows,
    make_distinct,
)
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_count
from hybridbn.potentials import Case, Cases, LinearGaussian, Multinomial, Potential
from hybridbn.structures.building import builder, name_hidden_node
from hybridbn.structures.column_splits import (
    FOLDS,
    ColumnCriterion,
    ColumnReader,
    ColumnView,
    GainRatio,
    Utility,
    Variance,
    grow_by_tests,
    mass_of,
)
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Values

INTERVALS = 8
"""The number of intervals of a column of numbers, for tests in a tree with a continuous target."""
LEAST_ROWS = 2.0
"""The least weight of two branches at least, where none is given."""
MOST_FAMILIES = 2**17
"""Densities of all leaves together that are learned in a pass, before they are joined."""


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
    **columns: Unpack[ColumnKeywords],
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
    data, target, potentials, weights, **columns : as in `naive_bayes`
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
    read = read_data_with_target(data, target, potentials, weights, **columns)
    name = name_hidden_node(name, f"{target} leaf", read.roles)
    depth = None if max_depth is None else check_count(max_depth, "max_depth", 0, NetworkError)
    for option, weight in (("least", least), ("least_branch", 0.0 if least_branch is None else least_branch)):
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not weight >= 0:
            raise NetworkError(f"{option} must be a weight of rows that is not negative, not {weight!r}")
    discrete = isinstance(read.variable(target), Discrete)
    read.require_moments([target])
    if criterion is None:
        criterion = Variance() if not discrete else Utility() if max_depth is None else GainRatio()
    tests = {column: _choose_intervals(read, column, isinstance(criterion, Utility)) for column in read.attributes}
    parts = None
    if len(read.table) == len(read.rows):
        read, dealt = read.deal(FOLDS, np.random.default_rng(0), labeled=False)
        parts = dealt.parts
    reader = ColumnReader({column: read.variable(column) for column in (*tests, target)}, tests, target, parts)
    view = ColumnView(read.rows, reader)
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
    seen = data.find_labeled()
    values, guide = (data.codes(name)[seen] for name in (column, data.target))
    counted = data.table.weights[seen]
    cuts = mdl(values, guide, counted) if isinstance(target, Discrete) else ()
    if not isinstance(target, Discrete) or (always and not cuts):
        cuts = equal_frequency(values, None, counted, bins=INTERVALS)
    return Discrete(column, cuts=cuts)


def _collect_in_nodes(
    table: Table, first: int, read: ColumnReader, roles: Mapping[str, Role], families: Mapping[Route, Iterable[Names]]
) -> Any:
    """Collect the statistics of families in the rows of a batch at each of some nodes, by the numbers of the nodes and
    by families, whose children are their last columns.
    """
    collected = Counts()
    _, samples = locate_rows(read, table, first, list(families))
    for place, (own, (rows, weights)) in enumerate(zip(families.values(), samples, strict=True)):
        variables = [read.variables[name] for name in dict.fromkeys(itertools.chain(*own))]
        columns = {variable.name: table.coded(variable)[rows] for variable in variables}
        data = TrainingData(Table.from_arrays(variables, columns, weights=weights), roles, None)
        for names in own:
            collected[place, names] = data.collect(names[-1], names[:-1])
    return collected


class _TreeNetwork:
    """A grown tree on its way to a network."""

    def __init__(
        self,
        data: TrainingData,
        name: str,
        read: ColumnReader,
        root: TreeNode[Values],
    ) -> None:
        self.data, self.read, self.target, self.tests = data, read, read.target, read.tests
        self.starts = np.concatenate([[0], np.cumsum(read.sizes, dtype=np.intp)])
        # of families in leaves
        self.fitted: dict[tuple[Route, Names], Potential] = {}
        self.columns = list(self.tests)
        self.leaves = leaves(root)
        self.counts = self._keep_counts()
        self.hidden = Discrete(name, make_distinct([self._describe_path(leaf) for leaf in self.leaves]))

    def build_network(self) -> Network:
        """Return the network."""
        mass = np.array([_estimate_mass(leaf) for leaf in self.leaves])
        potentials: list[Potential] = [Multinomial(self.hidden, table=mass / mass.sum())]
        target, fitter = self.data.variable(self.target), self.data.fitter(self.target, ())
        if isinstance(target, Discrete) and counts_suffice(fitter):
            counts = self._collect_counts(slice(self.starts[-1], None))[:, :, 0]
            classes = Multinomial(target, (self.hidden,), table=fitter.tables(counts))
            tables = [self._tabulate(place, classes.table) for place in range(len(self.columns))]
            potentials.append(classes)
        else:
            self._fit_in_leaves([(leaf, (self.target,)) for leaf in self.leaves])
            cases = [Case(self.fitted.pop((leaf.route, (self.target,)))) for leaf in self.leaves]
            potentials.append(self._join_leaves(self.target, cases))
            tables = [None] * len(self.columns)
        together = max(1, MOST_FAMILIES // len(self.leaves))
        for first in range(0, len(self.columns), together):
            places = range(first, min(first + together, len(self.columns)))
            listed = [
                (leaf, self._find_family(leaf, place))
                for place in places
                if tables[place] is None
                for leaf in self.leaves
            ]
            self._fit_in_leaves([(leaf, names) for leaf, names in listed if names])
            potentials += [
                tables[place]
                or self._join_leaves(self.columns[place], [self._confine_to_box(leaf, place) for leaf in self.leaves])
                for place in places
            ]
        return Network(potentials)

    def _keep_counts(self) -> scipy.sparse.csc_array:
        """Return the counts at the leaves (leaves * classes, states), few of which are not zero; the leaves keep only
        the masses of the classes.
        """
        classes, states = self.leaves[0].statistics.shape
        places = [np.nonzero(leaf.statistics) for leaf in self.leaves]
        rows = [number * classes + own for number, (own, _) in enumerate(places)]
        counts = [leaf.statistics[place] for leaf, place in zip(self.leaves, places, strict=True)]
        where = np.concatenate(rows), np.concatenate([own for _, own in places])
        for leaf in self.leaves:
            leaf.statistics = leaf.statistics[:, -1:].copy()
        # the nodes of a level share memory
        for node in {id(node): node for leaf in self.leaves for node in leaf.climb() if node is not leaf}.values():
            node.statistics = node.statistics.copy()
        return scipy.sparse.csc_array((np.concatenate(counts), where), shape=(len(self.leaves) * classes, states))

    def _collect_counts(self, part: slice) -> Values:
        """Return the counts of some states that each leaf's tables are learned from (leaves, classes, states).

        They are those of the leaf, or, if none of its rows has a value of the column, those of the nearest node above
        that has some.
        """
        own = self.counts[:, part].toarray()
        counts: Values = own.reshape(len(self.leaves), -1, own.shape[1])
        for number in np.flatnonzero(counts.sum(axis=(1, 2)) <= 0):
            node = self.leaves[number].parent
            while node is not None and counts[number].sum() <= 0:
                counts[number] = node.statistics[:, part]
                node = node.parent
        return counts

    def _tabulate(self, place: int, classes: Values) -> Multinomial | None:
        """Return the densities of an attribute in all leaves as one table, None where they are not tables of what was
        counted.
        """
        column = self.columns[place]
        variable, target = self.data.variable(column), self.data.variable(self.target)
        fitter = self.data.fitter(column, (self.target,))
        if not (isinstance(variable, Discrete) and counts_suffice(fitter)):
            return None
        own = self._collect_counts(slice(*self.starts[place : place + 2]))
        if not own.any(axis=(1, 2)).all():
            return None
        below = np.array([bool(leaf.boxes) for leaf in self.leaves])
        unseen = ~own.any(axis=1, keepdims=True) & below[:, None, None]
        table = fitter.tables(own)
        if unseen.any():
            table = _make_uninformative(table, unseen, classes)
        for number, leaf in enumerate(self.leaves):
            if place in leaf.boxes:
                table[number] = _confine(table[number], leaf.boxes[place])
        assert isinstance(target, Discrete)
        return Multinomial(variable, (self.hidden, target), table=table)

    def _describe_path(self, leaf: TreeNode[Values]) -> str:
        parts = []
        for place, box in leaf.boxes.items():
            variable = self.tests[self.columns[place]]
            cuts = variable.cuts
            told = variable.states[box[0]] if cuts is None else describe_interval(*find_interval(cuts, box), 4)
            parts.append(f"{variable.name}: {told}")
        return "; ".join(parts) or "all"

    def _find_family(self, leaf: TreeNode[Values], place: int) -> Names:
        """Return the family whose density an attribute has in a leaf; none where it has a single state."""
        column, box = self.columns[place], leaf.boxes.get(place)
        if box is not None and len(box) == 1:
            return () if isinstance(self.data.variable(column), Discrete) else (column,)
        return self.target, column

    def _confine_to_box(self, leaf: TreeNode[Values], place: int) -> Case:
        """Return the density of an attribute in a leaf: confined to the leaf's part of its range where it was
        tested.
        """
        column, box = self.columns[place], leaf.boxes.get(place)
        variable, names = self.data.variable(column), self._find_family(leaf, place)
        if not names:
            assert isinstance(variable, Discrete)
            assert box is not None
            return Case(Multinomial(variable, table=np.eye(len(variable))[box[0]]))
        potential = self.fitted.pop((leaf.route, names))
        if box is None:
            return Case(potential)
        if isinstance(variable, Discrete):
            table = potential.table  # type: ignore[attr-defined]
            given = tuple(v for v in map(self.data.variable, names[:-1]) if isinstance(v, Discrete))
            return Case(Multinomial(variable, given, table=_confine(table, box)))
        return Case(potential, *find_interval(self.tests[column].cuts or (), box))

    def _fit_in_leaves(self, wanted: Sequence[tuple[TreeNode[Values], Names]]) -> None:
        """Learn the potentials of families in leaves, from the rows of the leaf, or of the nearest node above where
        that is possible; in one pass for the leaves, and one more as long as some must be learned further above.
        """
        failures: dict[tuple[Route, Names], TableError] = {}
        pending: list[tuple[TreeNode[Values], TreeNode[Values] | None, Names]] = [
            (leaf, leaf, names) for leaf, names in wanted
        ]
        while pending:
            tried = [
                (leaf, _find_node_with_rows(node, failures.get((leaf.route, names))), names)
                for leaf, node, names in pending
            ]
            statistics = self._collect_statistics([(node, names) for _, node, names in tried])
            pending = []
            for leaf, node, names in tried:
                try:
                    self.fitted[leaf.route, names] = self._fit_in_node(node, names, statistics.get((node.route, names)))
                except TableError as error:  # a column may be constant, or nowhere observed, in a leaf
                    failures.setdefault((leaf.route, names), error)
                    pending.append((leaf, node.parent, names))

    def _fit_in_node(self, node: TreeNode[Values], names: Names, statistics: Statistics | None) -> Potential:
        *parents, child = map(self.data.variable, names)
        fitter = self.data.fitter(names[-1], names[:-1])
        if statistics is not None:
            return fitter.potential(statistics)
        table = self.data.in_memory.table
        _, (sample,) = locate_rows(self.read, table, 0, [node.route])
        rows = table.select(names).take(sample.rows).with_weights(sample.weights)
        return fitter.fit(rows, child, tuple(parents))

    def _collect_statistics(
        self, wanted: Sequence[tuple[TreeNode[Values], Names]]
    ) -> dict[tuple[Route, Names], Statistics]:
        """Return in a pass what fitters that ask a counter only need of families in nodes."""
        families: dict[Route, dict[Names, None]] = {}
        for node, names in wanted:
            if self.data.fitter(names[-1], names[:-1]).asks_counter:
                families.setdefault(node.route, {})[names] = None
        if not families:
            return {}
        task = partial(_collect_in_nodes, read=self.read, roles=self.data.roles, families=families)
        collected = self.data.rows.learn(task, [self.data.variable(name) for name in (*self.tests, self.target)])
        routes = list(families)
        return {(routes[place], names): statistics for (place, names), statistics in collected.items()}

    def _join_leaves(self, column: str, cases: Sequence[Case]) -> Potential:
        """Put the densities of all leaves together: in one table where they are tables."""
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
    inside[..., box] = table[..., box] if len(box) > 1 else 1.0
    return np.asarray(inside / inside.sum(axis=-1, keepdims=True))


def _estimate_mass(leaf: TreeNode[Values]) -> float:
    """Return the probability of a leaf.

    Every branch can be reached: as if two more rows were spread as the branches are, halfway to evenly.
    """
    probability = 1.0
    for node in leaf.climb():
        if node.parent is not None and (split := node.parent.split) is not None:
            mass, share = split.masses[node.route.branch], split.shares()[node.route.branch]
            known = float(np.cumsum(split.masses)[-1])
            probability *= float((mass + 2 * (0.5 * share + 0.5 / len(split.masses))) / (known + 2))
    return probability


def _find_node_with_rows(node: TreeNode[Values] | None, failure: TableError | None) -> TreeNode[Values]:
    """Return a node, or the nearest one above, that rows reach, or raise the error of those below."""
    reached = None if node is None else next((one for one in node.climb() if mass_of(one) > 0), None)
    if reached is None:
        assert failure is not None
        raise failure
    return reached
