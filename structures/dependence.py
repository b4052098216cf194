"""(Conditional) mutual information of columns, in nats, for every kind of pair, and the maximum spanning tree over it.

Of two discrete columns it is exact, from counts of all pairs in one pass. Where a column is continuous it is the
average over the rows of the log ratio of two densities, one with and one without the other column. Both are the
increase in log-likelihood per row that an arc brings, so values of different kinds of pairs can be compared, and the
maximum spanning tree is the tree of greatest likelihood (Chow and Liu 1968).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, Unpack

import networkx as nx
import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.fitting import GaussianStatistics, equal_frequency, fitter_of
from hybridbn.fitting.base import Potentials, moments_suffice, split_by_kind
from hybridbn.fitting.counting import RowCounter
from hybridbn.fitting.cross_validation import evaluate_rows
from hybridbn.fitting.mte import cells_suffice
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords
from hybridbn.potentials.base import Potential
from hybridbn.structures.arcs import Knowledge, Limits
from hybridbn.structures.building import builder
from hybridbn.structures.training_data import TrainingData, check_threshold, fit_network, read_data_without_target
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values, Variable, shorten, slice_blocks

Pair: TypeAlias = tuple[str, str]
"""Two columns in the order of their names."""

_ROWS = 65536
"""Densities are evaluated at this many rows at a time, which bounds the memory."""
_SPARSE, _LEAST_SPARSE = 4, 2**18
"""Of tables with so many times more cells than rows, and so many at least, only the cells that occur are counted."""
_CONSTANT = 1e-24
"""A column with less variance, in units of its own, in some of the rows is constant there."""
_DECIMALS = 12
"""Values are rounded to this many decimals, so that rounding errors don't decide between ties."""


def measure_occurring(keys: Codes, counts: Values, shape: tuple[int, ...]) -> float:
    r"""Return the mutual information of the configurations (condition, first, second) that occur, times their weight.

    .. math:: I(A; B \mid C) = \sum_{cab} \frac{n_{cab}}{n} \log \frac{n_{cab}\,n_c}{n_{ca}\,n_{cb}}

    Examples
    --------
    >>> round(measure_occurring(np.array([0, 3]), np.array([2.0, 2.0]), (1, 2, 2)) / 4, 6)
    0.693147
    """
    _, rows, columns = shape
    within, above = keys // (rows * columns), keys // columns
    aside = within * columns + keys % columns
    ratio = counts * np.bincount(within, counts)[within]
    ratio /= np.bincount(above, counts)[above] * np.bincount(aside, counts)[aside]
    return max(float(counts @ np.log(ratio)), 0.0)


class Dependence:
    r"""Mutual information of the attributes with the target, and of pairs given the target where there is one.

    Parameters
    ----------
    data : TrainingData

    Notes
    -----
    A value is learned from the rows in which all its columns are observed, and divided by the weight of all rows,
    because a column that is often missing is of little use as a parent.

    For mixtures of truncated exponentials the log ratio is that of the cells of the parents (`CellGains`), so that no
    density is fitted. For two continuous columns it is the average over both directions, :math:`f(a \mid b, c)` and
    :math:`f(b \mid a, c)`; for a mixed pair it comes from the density of the continuous column. An instance-based
    density (a kernel density) is too high at its own points, so mixtures of truncated exponentials take its place here.
    Two discrete columns given a continuous target are counted within cells of the target that hold equally many rows.

    Examples
    --------
    >>> from hybridbn.structures.training_data import read_data_with_target
    >>> data = {"a": ["x", "x", "y", "y"], "b": ["u", "u", "v", "v"], "c": ["n", "p", "n", "p"]}
    >>> dependence = Dependence(read_data_with_target(data, "c", "auto", None))
    >>> {pair: round(value, 3) for pair, value in dependence.measure_pairs().items()}
    {('a', 'b'): 0.693}
    >>> dependence.measure_with_target()
    {'a': 0.0, 'b': 0.0}
    """

    def __init__(self, data: TrainingData) -> None:
        self.data = data
        self._fits: dict[tuple[str, ...], Potential] = {}
        self._total = data.rows.total_weight
        self._discrete = [name for name in data.attributes if isinstance(data.variable(name), Discrete)]
        self._counter = data.counter([name for name in data.roles if isinstance(data.variable(name), Discrete)])

    # -- results --------------------------------------------------------------------------------------------------

    def measure_with_target(self) -> dict[str, float]:
        """Return the mutual information of each attribute with the target."""
        target = self.data.target
        if target is None:
            return {}
        information: dict[str, float] = {}
        if isinstance(self.data.variable(target), Discrete):
            tables = self._counter.with_target(self._discrete, (target,))
            information = {name: self._scale_to_all_rows(table[None]) for (_, name), table in tables.items()}
        for name in self.data.attributes:
            if name not in information:
                # with a continuous child no regression of states on numbers has to be fitted
                child, parent = (target, name) if name in self._discrete else (name, target)
                information[name] = self._measure_gain(child, (), parent)
        return {name: round(information[name], _DECIMALS) for name in self.data.attributes}

    def measure_pairs(self) -> dict[Pair, float]:
        """Return the mutual information of every two attributes, given the target where there is one."""
        given = () if self.data.target is None else (self.data.target,)
        for name in self.data.attributes:
            if not varies(self.data, name):
                # no pair fits a constant column, so that what its fitter refuses would be refused after hours only
                self.data.fit(name, given)
        information = self._count_pairs()
        if not given:
            information |= self._measure_linear_pairs()
        pairs = itertools.combinations(sorted(self.data.attributes), 2)
        directions = {pair: self._choose_directions(pair) for pair in pairs if pair not in information}
        # one pass tells the moments of all that has a normal column
        self.data.prepare((child, (*given, parent)) for listed in directions.values() for child, parent in listed)
        for pair, listed in directions.items():
            gains = [self._measure_gain(child, given, parent) for child, parent in listed]
            information[pair] = sum(gains) / len(gains)
        return {pair: round(value, _DECIMALS) for pair, value in sorted(information.items())}

    def reusable_potentials(self) -> dict[tuple[str, ...], Potential]:
        """Return the potentials fitted so far that a network can use, by child and parents in their order."""
        return {
            family: potential
            for family, potential in self._fits.items()
            if self._choose_fitter(family[0], family[1:]) == self.data.fitter(family[0], family[1:])
        }

    # -- discrete pairs -------------------------------------------------------------------------------------------

    def _scale_to_all_rows(self, counts: Values) -> float:
        occurring = np.flatnonzero(counts)
        return measure_occurring(occurring, counts.ravel()[occurring], counts.shape) / self._total

    def _count_pairs(self) -> dict[Pair, float]:
        names = sorted(self._discrete)
        if len(names) < 2:
            return {}
        target = self.data.target
        given = () if target is None else (target,)
        counter = (
            self._counter if target is None or target in self._counter.sizes else self._count_by_target_cells(target)
        )
        cells = math.prod(counter.shape(given))
        # a table with many more cells than rows is mostly empty
        most = max(_SPARSE * len(self.data.rows), _LEAST_SPARSE)
        narrow = [name for name in names if cells * counter.sizes[name] ** 2 <= most]
        information: dict[Pair, float] = {
            (first, second): self._scale_to_all_rows(table if given else table[None])
            for counts in counter.pair_batches(narrow, given)
            for (*_, first, second), table in counts.items()
        }
        for pair in itertools.combinations(names, 2):
            if pair not in information:
                shape = cells, *(counter.sizes[name] for name in pair)
                information[pair] = measure_occurring(*counter.occurring((*given, *pair)), shape) / self._total
        return information

    def _count_by_target_cells(self, target: str) -> RowCounter:
        """Return a counter in which a continuous target is cut into cells that hold equally many rows."""
        data = self.data
        values, _, weights = data.rows.points(data.variable(target))
        # so few cells that each holds enough rows for a table of pairs
        counts = np.ones(len(values)) if weights is None else weights
        bins = int(np.clip(counts[~np.isnan(values)].sum() ** 0.25, 2, 10))
        cuts = equal_frequency(values, None, weights, bins=bins)
        return RowCounter(data.rows, (Discrete(target, cuts=cuts), *map(data.variable, self._discrete)))

    # -- linear pairs ---------------------------------------------------------------------------------------------

    def _measure_linear_pairs(self) -> dict[Pair, float]:
        """Return what `_measure_gain` does for all pairs of numbers with normal densities, from their moments."""
        data, fitters = self.data, {}
        for name in sorted(set(data.attributes) - set(self._discrete)):
            fitter = self.data.fitter(name, ())
            if moments_suffice(fitter) and not fitter.ridge:
                fitters[name] = fitter
        names = list(fitters)
        if len(names) < 2:
            return {}
        counter = data.counter(names)
        counter.prepare([], [((name,), ()) for name in names])
        moments = [counter.moments((name,)) for name in names]
        if not all(one.total > 0 for one in moments):
            return {}
        centers = np.array([one.means[0, 0] for one in moments])
        scales = np.array([np.sqrt(one.products[0, 0, 0] / one.total) for one in moments])
        if not (np.isfinite(scales) & (scales > 0)).all():
            return {}
        variables = [data.variable(name) for name in names]
        task = partial(_sum_pairs, variables=variables, centers=centers, scales=scales)
        mass, sums, squares, products = data.rows.learn(task, variables)
        with np.errstate(divide="ignore", invalid="ignore"):
            # of the first of two columns where the other one is observed
            means = sums / mass
            variances = squares / mass - means**2
            left = np.maximum(variances - (products / mass - means * means.T) ** 2 / variances.T, 0.0)
            floors = np.stack(
                [
                    fitters[name].least_variance(own, unit)
                    for name, own, unit in zip(names, variances, scales, strict=True)
                ]
            )
            before, after = np.maximum(variances, floors), np.maximum(left, floors)
            gains = mass * 0.5 * (np.log(before / after) + variances / before - left / after) / self._total
        known = (mass > 0) & (np.minimum(variances, variances.T) > _CONSTANT)
        gains = np.where(known, gains, 0.0)
        return {(names[i], names[j]): float(gains[i, j]) for i, j in itertools.combinations(range(len(names)), 2)}

    # -- pairs with a continuous column ---------------------------------------------------------------------------

    def _choose_directions(self, pair: Pair) -> list[tuple[str, str]]:
        """Return the pairs (child, parent) over which the gain is averaged."""
        a, b = pair
        if a in self._discrete or b in self._discrete:
            return [(b, a) if a in self._discrete else (a, b)]
        linear = all(moments_suffice(self._choose_fitter(*family)) for family in ((a, (b,)), (b, (a,))))
        # the gain of a linear regression is the same in both directions
        return [(a, b)] if linear else [(a, b), (b, a)]

    def _choose_fitter(self, child: str, parents: Sequence[str]) -> Any:
        fitter = self.data.fitter(child, parents)
        measured = "mte" if fitter.instance_based else fitter.measured_by
        return fitter_of(measured, self.data.variable(child), tuple(map(self.data.variable, parents)))

    def _measure_gain(self, child: str, given: tuple[str, ...], parent: str) -> float:
        """Return the increase in log-likelihood per row when the child gets one more parent."""
        fitter = self._choose_fitter(child, (*given, parent))
        if moments_suffice(fitter) and moments_suffice(self._choose_fitter(child, given)):
            return self._measure_normal_gain(child, given, parent)
        whole = self.data.in_memory
        total = whole.table.total_weight
        complete = whole.find_complete((child, *given, parent))
        data = whole if complete.all() else whole.select((child, *given, parent)).take(np.flatnonzero(complete))
        if not (varies(data, child) and varies(data, parent)):
            return 0.0
        if cells_suffice(fitter):
            own, *others = map(data.variable, (child, *given, parent))
            gains = [self.data.cell_gains.measure(fitter, own, used, (own, *others)) for used in (others, others[:-1])]
            return max(gains[0].likelihood - gains[1].likelihood, 0.0) / total
        with_parent = self._fit(whole, child, (*given, parent), keep=True)
        same_rows = bool((complete == whole.find_complete((child, *given))).all())
        without = self._fit(whole if same_rows else data, child, given, keep=same_rows)
        above, below = (evaluate_rows(potential, data.table)[0] for potential in (with_parent, without))
        return float(_log_ratio(above, below) @ data.table.weights) / total

    def _measure_normal_gain(self, child: str, given: tuple[str, ...], parent: str) -> float:
        """Return the gain of a regression, which follows from the moments of the rows where all are observed."""
        own, *others = map(self.data.variable, (child, *given, parent))
        fitter = self._choose_fitter(child, (*given, parent))
        statistics = fitter.statistics(self.data.rows, own, tuple(others))
        if not statistics.total > 0 or not _spreads(statistics, own) or not _spreads(statistics, others[-1]):
            return 0.0
        shorter = statistics.without(others[-1])
        potential = fitter.potential(statistics)
        if not any(map(self.data.rows.count_missing, (child, *given, parent))):
            self._fits[child, *given, parent] = potential
        without = self._choose_fitter(child, given).potential(shorter)
        return float(statistics.log_likelihood(potential) - shorter.log_likelihood(without)) / self._total

    def _fit(self, data: TrainingData, child: str, parents: tuple[str, ...], keep: bool) -> Potential:
        potential = self._fits.get((child, *parents)) if keep else None
        if potential is None:
            potential = data.fit(child, parents, self._choose_fitter(child, parents))
            if keep:
                self._fits[child, *parents] = potential
        return potential


def _sum_pairs(table: Table, first: int, variables: Sequence[Variable], centers: Values, scales: Values) -> Values:
    """Return sums over pairs of standardized numbers, where the other one is observed: weights, numbers, squares,
    products (4, variables, variables).
    """
    result, weights = np.zeros((4, len(variables), len(variables))), table.weights
    for part in slice_blocks(len(weights), _ROWS):
        block = np.stack([table.coded(variable)[part] for variable in variables], axis=1)
        observed = ~np.isnan(block)
        block = np.where(observed, (block - centers) / scales, 0.0)
        counted = observed * weights[part, None]
        weighted = block * weights[part, None]
        result += observed.T @ counted, block.T @ counted, (block**2).T @ counted, block.T @ weighted
    return result


def varies(data: TrainingData, name: str) -> bool:
    """Return whether a column has at least two values in rows of positive weight."""
    if isinstance(data.variable(name), Discrete):
        return int(np.count_nonzero(data.counter([name]).joint((name,)))) > 1
    low, high = data.rows.value_range(name)
    return low < high


def _spreads(statistics: GaussianStatistics, variable: Variable) -> bool:
    """Return whether a variable of a family of regressions has at least two values."""
    discrete, continuous = split_by_kind(statistics.parents)
    if isinstance(variable, Discrete):
        axis = discrete.index(variable)
        shaped = statistics.weights.reshape([len(one) for one in discrete])
        return int(np.count_nonzero(np.moveaxis(shaped, axis, 0).reshape(len(variable), -1).sum(axis=1))) > 1
    place = [statistics.child, *continuous].index(variable)
    mean, products = statistics.pool()
    return bool(products[place, place] > (8 * np.finfo(float).eps * abs(mean[place])) ** 2 * statistics.total)


def _log_ratio(above: Values, below: Values) -> Values:
    """Return the difference of log densities; where only one density is zero, the ratio is limited to a finite value.

    The limit is set for the ratio and not for the densities, which depend on the units.
    """
    both = np.isneginf(above) & np.isneginf(below)
    ratio = np.subtract(above, below, out=np.zeros_like(above), where=~both)
    least = np.log(np.finfo(float).tiny)
    return np.where(np.isinf(ratio), np.clip(ratio, least, -least), ratio)


def find_maximum_spanning_tree(
    names: Sequence[str],
    information: Mapping[Pair, float],
    importance: Mapping[str, float],
    root: str | None,
    threshold: float,
) -> dict[str, tuple[str, ...]]:
    """Return the parent of each node in the maximum spanning tree (or forest); roots have none.

    Parameters
    ----------
    names : sequence of str
        The nodes.
    information : mapping from pairs to weights
        Pairs of no more than `threshold` are not joined. Of equal weights the pair that comes first in alphabetical
        order is preferred.
    importance : mapping from node to number
        In each tree the node of greatest importance becomes the root, unless it holds `root`; of equal ones the first
        in alphabetical order.

    Examples
    --------
    >>> pairs = {("a", "b"): 3.0, ("a", "c"): 2.0, ("b", "c"): 1.0, ("a", "d"): 0.0}
    >>> find_maximum_spanning_tree("dcba", pairs, {"a": 0, "b": 1, "c": 0, "d": 9}, None, 0.0)
    {'d': (), 'c': ('a',), 'b': (), 'a': ('b',)}
    """
    graph = nx.Graph()
    graph.add_nodes_from(sorted(names))
    # Kruskal's algorithm takes equal weights in the order in which they were added
    graph.add_weighted_edges_from((*pair, weight) for pair, weight in sorted(information.items()) if weight > threshold)
    tree = nx.maximum_spanning_tree(graph, algorithm="kruskal")
    parents: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    for nodes in nx.connected_components(tree):
        top = root if root in nodes else min(nodes, key=lambda node: (-importance[node], node))
        parents.update((child, (parent,)) for parent, child in nx.bfs_edges(tree, top))
    return parents


def find_maximum_branching(
    names: Sequence[str], information: Mapping[Pair, float], limits: Limits, root: str | None, threshold: float
) -> dict[str, tuple[str, ...]]:
    """Return the parent of each node in the tree (or forest) of greatest weight whose arcs keep within limits.

    Where directions matter, this is a branching (Edmonds 1967) and not a spanning tree.

    Parameters
    ----------
    names, information, threshold : as in `find_maximum_spanning_tree`
    limits : Limits
        Of the same nodes. Required arcs, and one of each undirected pair, are preferred to all others.
    root : str or None
        A node that gets no parent.

    Examples
    --------
    >>> from hybridbn.structures.arcs import Knowledge
    >>> pairs = {("a", "b"): 3.0, ("a", "c"): 2.0, ("b", "c"): 1.0}
    >>> find_maximum_branching("abc", pairs, Knowledge(roots=["b"], leaves=["a"]).limit("abc"), None, 0.0)
    {'a': ('b',), 'b': (), 'c': ('b',)}
    """
    index = {name: i for i, name in enumerate(names)}
    # more than all other arcs together
    bonus = 1.0 + sum(abs(value) for value in information.values())
    graph = nx.DiGraph()
    graph.add_nodes_from(sorted(names))
    for pair, value in sorted(information.items()):
        for parent, child in (pair, pair[::-1]):
            position = index[child], index[parent]
            needed = bool(limits.kept[position])
            if child != root and limits.allowed[position] and (needed or value > threshold):
                weight = value + bonus * (needed + bool(limits.required[position]))
                graph.add_edge(parent, child, weight=weight)
    tree = nx.maximum_branching(graph)
    return {name: tuple(tree.predecessors(name)) if name in tree else () for name in names}


@builder(takes_target=False)
@share_passes
def chow_liu(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    root: str | None = None,
    *,
    threshold: float = 0.0,
    knowledge: Knowledge | None = None,
    n_jobs: int | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    r"""Build the tree of greatest likelihood, for a table without a target.

    It maximizes the sum of :math:`I(X_i; X_j)`, the mutual information of the columns that it joins.

    Parameters
    ----------
    data, potentials, weights, **columns : as in `naive_bayes`
        "multinomial" on a number column discretizes it by equal frequencies.
    root : str, optional
        The column without a parent; the tree's likelihood doesn't depend on it. By default the column whose mutual
        information with the others has the greatest sum (of equal ones the first by name).
    threshold : float
        In nats: only columns whose mutual information is greater are joined, see `tan`.
    knowledge : Knowledge, optional
        Tiers, required and forbidden arcs, pairs that are joined, roots and leaves. What no tree can have is refused.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    See `tan` for how the information of each kind of pair is learned; here it is not conditional.

    References
    ----------
    Chow & Liu (1968), "Approximating discrete probability distributions with dependence trees", IEEE Transactions on
    Information Theory 14.

    Examples
    --------
    >>> data = {"a": [0, 0, 1, 1, 0, 1], "b": [0, 0, 1, 1, 0, 0], "c": [0, 1, 1, 1, 0, 0]}
    >>> import hybridbn as hb
    >>> list(chow_liu(hb.Table(data, discrete=["a", "b", "c"])).edges)
    [('b', 'a'), ('b', 'c')]
    """
    training_data = read_data_without_target(data, potentials, weights, **columns)
    if root is not None and root not in training_data.attributes:
        raise NetworkError(f"root={root!r} is no column; choose one of {shorten(training_data.attributes)}")
    return build_tree(training_data, root, check_threshold(threshold), Knowledge.of(knowledge))


def build_tree(
    data: TrainingData, root: str | None = None, threshold: float = 0.0, knowledge: Knowledge | None = None
) -> Network:
    """Build the tree over all columns of training data."""
    limits = knowledge.limit(data.attributes, 1) if knowledge else None
    dependence = Dependence(data)
    pairs = dependence.measure_pairs()
    sums = dict.fromkeys(data.attributes, 0.0)
    for pair, value in pairs.items():
        for name in pair:
            sums[name] += value
    # sums are rounded, so that the order of their terms doesn't decide between equal ones
    importance = {name: round(value, 9) for name, value in sums.items()}
    if limits is None:
        families = find_maximum_spanning_tree(data.attributes, pairs, importance, root, threshold)
    else:
        families = find_maximum_branching(data.attributes, pairs, limits, root, threshold)
        Knowledge.of(knowledge).refuse_violations(families, "a tree")
    return fit_network(data, families, dependence.reusable_potentials())
