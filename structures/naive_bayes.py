"""Naive Bayes with all attributes or with those that improve prediction, and its augmentations.

Attributes may depend on each other along a tree (TAN), or on k others (KDB). Classes may be decomposed by clustering:
attributes are independent given the cluster of a class then, not given the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting import roles
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import deal_numbered_rows, is_clearly_less, split_folds
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_choice, check_count, make_generator
from hybridbn.potentials import Multinomial
from hybridbn.structures.arcs import Knowledge
from hybridbn.structures.building import Build, Structure, builder, name_hidden_node
from hybridbn.structures.dependence import Dependence, find_maximum_branching, find_maximum_spanning_tree, varies
from hybridbn.structures.heldout import Loss, log_loss, misclassification, squared_error
from hybridbn.structures.mixture import FOLDS, STARTS, Criterion, cluster_rows
from hybridbn.structures.training_data import COARSE, TrainingData, check_threshold, fit_network, read_data_with_target
from hybridbn.tables import Table
from hybridbn.tables.rows import find_rows
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten


def _arcs(target: str, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    return {target: (), **{name: (target,) for name in names if name != target}}


@builder(arcs=_arcs)
@share_passes
def naive_bayes(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    n_jobs: int | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    r"""Build naive Bayes: an arc from the target to each other column, for classification and regression alike.

    .. math:: f(y, x_1, \dots, x_m) = f(y) \prod_i f(x_i \mid y)

    Parameters
    ----------
    data : DataFrame, Table, mapping of arrays, ...
        Anything that `Table` accepts; all its columns are used.
    target : str
        A discrete or a continuous column; it may be the only one.
    potentials : "auto", "mte", "kernel", "gaussian", "multinomial", a Fitter, or a mapping from columns to these
        See `hybridbn.fit`. "multinomial" on a number column asks to discretize it: by the entropy criterion of
        Fayyad and Irani where the target is discrete, else by equal frequencies.
    weights : sequence of float, optional
        One for each row; they replace those of a `Table`. A row of weight 2 counts as two rows.
    discrete, continuous, ordered, missing : as in `hybridbn.Table`
        Columns that are something else than their types say, and values that mark missing cells.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its first node is the target, the others follow in the table's order.

    Notes
    -----
    An attribute is learned from the rows in which it and the target are observed, and the target from the rows in which
    it is observed (available cases). In prediction a missing cell is marginalized, which here means to leave its factor
    out.

    References
    ----------
    Frank, Trigg, Holmes & Witten (2000), "Naive Bayes for regression", Machine Learning 41.

    Examples
    --------
    >>> data = {"wind": ["weak", "strong", "strong", "weak"], "play": ["yes", "no", "no", "yes"]}
    >>> net = naive_bayes(data, "play")
    >>> list(net.edges)
    [('play', 'wind')]
    >>> net.posterior("play", {"wind": "strong"})
    <posterior of 'play': 'no': 0.75, 'yes': 0.25>
    """
    training_data = read_data_with_target(data, target, potentials, weights, **columns)
    return fit_network(training_data, _arcs(target, training_data.attributes))


@builder
@share_passes
def tan(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    root: str | None = None,
    threshold: float = 0.0,
    knowledge: Knowledge | None = None,
    n_jobs: int | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    r"""Build tree-augmented naive Bayes: each attribute has the target and at most one other attribute as parents.

    The attributes are joined by the tree that maximizes the sum of :math:`I(X_i; X_j \mid Y)`, the mutual information
    of two attributes given the target; that is the tree of greatest likelihood.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
    root : str, optional
        The attribute that has no other attribute as parent. By default the one with the greatest mutual information
        with the target (of equal ones the first by name).
    threshold : float
        In nats. Two attributes are joined only if their mutual information is greater, so that a higher threshold
        leaves several trees, each with its own root. By default all attributes of positive information are joined: for
        discrete, linear Gaussian and other densities without selection that is one tree, unless the sample is exactly
        independent; mixtures of truncated exponentials, which split a cell only if BIC improves, leave independent
        attributes unconnected.
    knowledge : Knowledge, optional
        Tiers, required and forbidden arcs, pairs that are joined, roots and leaves. The arcs from the target to each
        attribute are always there; what contradicts them, or no tree can have, is refused.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its first node is the target, the others follow in the table's order. The parents of an attribute are
        the target, then the other attribute.

    Notes
    -----
    The information of discrete columns is exact (Friedman et al. 1997, section 4.2). For a number column it is the
    average over the rows of :math:`\log f(x_i \mid x_j, y) - \log f(x_i \mid y)`, with fitted densities. Each value is
    learned from the rows in which all its columns are observed (available cases). Ties are broken by name, so the order
    of the columns doesn't matter.

    References
    ----------
    Friedman, Geiger & Goldszmidt (1997), "Bayesian network classifiers", Machine Learning 29. For mixtures of truncated
    exponentials and a continuous target: Fernandez & Salmeron (2008), "Extension of Bayesian network classifiers to
    regression problems".

    Examples
    --------
    >>> data = {
    ...     "sky": ["clear", "clear", "gray", "gray", "clear", "gray"],
    ...     "rain": ["no", "no", "yes", "yes", "no", "no"],
    ...     "wind": ["weak", "strong", "weak", "strong", "strong", "weak"],
    ...     "play": ["yes", "yes", "no", "no", "no", "no"],
    ... }
    >>> list(tan(data, "play").edges)
    [('play', 'sky'), ('play', 'rain'), ('play', 'wind'), ('sky', 'rain'), ('sky', 'wind')]
    """
    training_data = read_data_with_target(data, target, potentials, weights, **columns)
    attributes = training_data.attributes
    if root is not None and root not in attributes:
        raise NetworkError(f"root={root!r} is no attribute; choose one of {shorten(attributes)}")
    known = Knowledge.of(knowledge)
    limits = known.limit([*attributes, target])
    least = check_threshold(threshold)
    dependence = Dependence(training_data)
    pairs = dependence.measure_pairs()
    parents = (
        find_maximum_branching(attributes, pairs, limits, root, least)
        if known
        else find_maximum_spanning_tree(attributes, pairs, dependence.measure_with_target(), root, least)
    )
    families: dict[str, tuple[str, ...]] = {target: ()}
    families |= {name: (target, *parents[name]) for name in attributes}
    if known:
        known.refuse_violations(families, f"tree-augmented naive Bayes of {target!r}")
    return fit_network(training_data, families, dependence.reusable_potentials())


@builder
@share_passes
def kdb(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    k: int = 2,
    threshold: float = 0.0,
    n_jobs: int | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    r"""Build a k-dependence network: each attribute has the target and at most k other attributes as parents.

    The attributes are sorted by :math:`I(X_i; Y)`, those most informative about the target first. The parents of
    each are the k earlier ones with the greatest :math:`I(X_i; X_j \mid Y)`.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
    k : int
        With 0 it is naive Bayes. A table of probabilities grows as the (k + 1)-th power of the number of states.
    threshold : float
        In nats: an attribute becomes a parent only if its conditional mutual information is greater, see `tan`.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        Its first node is the target, the others follow in the table's order. The parents of an attribute are
        the target, then the others by their information.

    Notes
    -----
    See `tan` for how the information of each kind of pair is learned. Ties are broken by name, so the order of the
    columns doesn't matter.

    References
    ----------
    Sahami (1996), "Learning limited dependence Bayesian classifiers", KDD.

    Examples
    --------
    >>> data = {
    ...     "sky": ["clear", "clear", "gray", "gray", "clear", "gray"],
    ...     "rain": ["no", "no", "yes", "yes", "no", "no"],
    ...     "wind": ["weak", "strong", "weak", "strong", "strong", "weak"],
    ...     "play": ["yes", "yes", "no", "no", "no", "no"],
    ... }
    >>> list(kdb(data, "play", k=1).edges)
    [('play', 'sky'), ('play', 'rain'), ('play', 'wind'), ('sky', 'rain'), ('sky', 'wind')]
    """
    k = check_count(k, "k, the number of parents,", 0, NetworkError)
    least = check_threshold(threshold)
    training_data = read_data_with_target(data, target, potentials, weights, **columns)
    dependence = Dependence(training_data)
    pairs = dependence.measure_pairs() if k else {}
    importance = dependence.measure_with_target()
    order = sorted(training_data.attributes, key=lambda name: (-importance[name], name))
    families: dict[str, tuple[str, ...]] = dict.fromkeys((target, *training_data.attributes), ())
    for rank, name in enumerate(order):
        information = {earlier: pairs.get((min(name, earlier), max(name, earlier)), 0.0) for earlier in order[:rank]}
        candidates = [earlier for earlier in information if information[earlier] > least]
        families[name] = (target, *sorted(candidates, key=lambda earlier: (-information[earlier], earlier))[:k])
    return fit_network(training_data, families, dependence.reusable_potentials())


Deal: TypeAlias = Callable[[int, int], Codes]
"""A function of the number of the first of consecutive rows, and of how many these are, that returns their folds."""

_GAIN = 1e-9
"""A smaller relative difference of two losses counts as a rounding error."""


@builder
@share_passes
def selective_naive_bayes(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    loss: Loss | None = None,
    folds: int = 5,
    random_state: Any = 0,
    n_jobs: int | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    """Build naive Bayes with the attributes that improve prediction (a filter-wrapper).

    The attributes are ranked by their mutual information with the target. In this order each attribute is added if that
    lowers the loss in a cross-validation inside the data; attributes without information are not tried.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
    loss : callable, optional
        `log_loss` (the default for a discrete target), `misclassification`, `squared_error` (the default for a
        continuous one) or any function of (posterior, truth) that returns a number for each row; their mean is
        minimized.
    folds : int
        Number of folds. Each has rows of all classes, or of the whole range of a number, as far as possible.
    random_state : int, Generator or None
        Assigns the rows to folds.
    n_jobs : int, optional
        Threads that share the folds of a large table (-1: as many as there are processors), with the same result; by
        default one. They call `loss` at the same time.

    Returns
    -------
    Network
        Its first node is the target, the chosen attributes follow in the table's order. The other columns are left out.

    Notes
    -----
    For each fold potentials and cut points are learned from the other folds only. The final network is learned from all
    rows. Missing cells are treated as in `naive_bayes`.

    Of a scan of more rows than its sample, all are used: a pass for each fold and for each attribute that is tried.
    Rows are dealt to folds by their numbers then, whatever their classes; where other processes read them, `loss` must
    be a function that can be pickled.

    References
    ----------
    Langley & Sage (1994), "Induction of selective Bayesian classifiers"; Fernandez & Salmeron (2008), algorithm 3,
    whose program validates on the test set, which this function never sees.

    Examples
    --------
    >>> data = {"sky": ["clear", "gray"] * 10, "coin": ["head"] * 9 + ["tail"] * 11, "play": ["yes", "no"] * 10}
    >>> list(selective_naive_bayes(data, "play").edges)
    [('play', 'sky')]
    """
    folds = check_count(folds, "folds", 2, NetworkError)
    training_data = read_data_with_target(data, target, potentials, weights, **columns)
    loss = loss or (log_loss if isinstance(training_data.variable(target), Discrete) else squared_error)
    chosen = _choose_attributes(training_data, target, loss, folds, make_generator(random_state))
    attributes = [name for name in training_data.attributes if name in chosen]
    return fit_network(training_data, {target: (), **dict.fromkeys(attributes, (target,))})


def _choose_attributes(data: TrainingData, target: str, loss: Loss, folds: int, rng: np.random.Generator) -> set[str]:
    """Return the attributes that improve prediction in a cross-validation."""
    data, deal, training = _deal_rows(data, target, folds, rng)
    importance = Dependence(data).measure_with_target()
    ranked = sorted((name for name in importance if importance[name] > 0), key=lambda name: (-importance[name], name))
    ranked = [name for name in ranked if all(varies(part, name) for part in training)]
    parents = {target: (), **dict.fromkeys(ranked, (target,))}
    networks = list(data.rows.share(lambda part: fit_network(_discretize_again(part, target), parents), training))

    def measure(names: Sequence[str]) -> float:
        """Return the mean loss with these attributes over all held-out rows; infinite if a row is impossible."""
        kept = [Network([network.potential(name) for name in (target, *names)]) for network in networks]
        total, weight = data.rows.learn(
            partial(_sum_losses, networks=kept, deal=deal, variable=data.variable(target), loss=loss)
        )
        return float(total / weight) if np.isfinite(total) else np.inf

    return _add_attributes(ranked, measure)


def _deal_rows(
    data: TrainingData, target: str, folds: int, rng: np.random.Generator
) -> tuple[TrainingData, Deal, list[TrainingData]]:
    """Return the rows that have a target, what deals them to folds, and those outside of each fold."""
    if len(data.table) < len(data.rows):
        data = replace(data, rows=data.rows.keep_rows(data.rows.variable(target)))
        deal = partial(deal_numbered_rows, folds=folds, seed=int(rng.integers(2**62)))
        others = [partial(_weigh_others, deal=deal, fold=fold) for fold in range(folds)]
        return data, deal, [replace(data, rows=data.rows.weigh_rows(weigh)) for weigh in others]
    data, dealt = data.deal(folds, rng)
    parts = dealt.parts
    if len(data.rows) < 2:
        raise TableError(
            f"choosing attributes takes at least 2 rows that have a value of {target!r} and count; found"
            f" {len(data.rows)}"
        )
    return data, lambda first, rows: parts[first : first + rows], [data.take(rows) for rows, _ in split_folds(parts)]


def _add_attributes(ranked: Sequence[str], measure: Callable[[Sequence[str]], float]) -> set[str]:
    """Return the attributes that lower a loss, each added to those before it."""
    chosen: list[str] = []
    least = measure(chosen)
    for name in ranked:
        candidate = measure([*chosen, name])
        if candidate < least - _GAIN * abs(least):
            chosen.append(name)
            least = candidate
    return set(chosen)


def _weigh_others(table: Table, first: int, deal: Deal, fold: int) -> Values:
    """Return the weights of rows, zero in one of the folds."""
    return np.asarray(table.weights * (deal(first, len(table)) != fold))


def _sum_losses(
    table: Table, first: int, networks: Sequence[Network], deal: Deal, variable: Variable, loss: Loss
) -> Values:
    """Add up the losses of rows, each with the network of the other folds, and the weights."""
    dealt, table = deal(first, len(table)), table.select(list(networks[0]))

    def add_up(fold: int) -> Values:
        rows = table.take((dealt == fold) & (table.weights > 0))
        posterior = networks[fold].posterior(variable.name, rows, options=COARSE)
        return np.array([loss(posterior, rows.coded(variable)) @ rows.weights, rows.weights.sum()])

    return np.asarray(np.sum(list(table.share(add_up, range(len(networks)))), axis=0))


def _discretize_again(data: TrainingData, target: str) -> TrainingData:
    """Discretize attributes again, with discretized points learned from these rows only."""
    discretized = [
        name
        for name in data.attributes
        if isinstance(data.variable(name), Discrete) and isinstance(data.rows.variable(name), Continuous)
    ]
    if not discretized:
        return data
    # the target keeps its states
    table = data.rows.select([target, *discretized]).with_variables(
        [data.variable(target), *map(data.rows.variable, discretized)]
    )
    fresh = roles(table, target, {name: data.roles[name].fitter for name in discretized})
    return replace(
        data, roles={name: fresh[name] if name in discretized else role for name, role in data.roles.items()}
    )


GUARD_FOLDS = 5
CLEAR = 3.0
"""The guard skips the remaining folds when the losses differ by this many standard errors."""


@builder(hidden=(Discrete,))
def class_clusters(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    build: Structure = naive_bayes,
    clusters: int | Mapping[Any, int] | None = None,
    assignment: Literal["soft", "hard"] = "soft",
    guard: bool = True,
    loss: Loss | None = None,
    name: str | None = None,
    criterion: Criterion = "held_out",
    most: int = 10,
    folds: int = FOLDS,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    r"""Build a classifier with clusters within each class.

    The rows of each class are clustered by a naive Bayes mixture (`mixture`). A hidden node for the clusters of all
    classes replaces the class in the model that `build` learns, and the class is a function of it:

    .. math:: P(c \mid x) \propto \sum_{k \in c} P(k) f(x \mid k)

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
        The rows of a *continuous* target are clustered together with it, and it is an attribute of the model like the
        others.
    build : builder, partial of one, its name, Network, or list of arcs
        The builder of the model, with the clusters as target; any builder that takes weights.
    clusters : int or mapping from class to int, optional
        Number of clusters of each class. By default it is chosen for each class by `criterion`, see `mixture`.
    assignment : {"soft", "hard"}
        Whether a row counts for all clusters, weighted by its responsibilities, or only for the most probable cluster,
        as in the paper.
    guard : bool
        Keep the decomposition only if it lowers the loss in a cross-validation inside the data by more than the
        standard error; otherwise each class is one cluster. The paper has no such rule.
    loss : callable, optional
        The loss of the guard; by default `misclassification`, or `squared_error` of a continuous target.
    name : str, optional
        The name of the hidden node; by default that of the target followed by " cluster".
    criterion, most, folds, random_state : as in `mixture`

    Returns
    -------
    Network
        A node for the clusters, its child the class, and the attributes. The states of the clusters are texts such as
        "yes 1".

    Notes
    -----
    ``net.posterior(target, ...)`` sums over the clusters of a class. The paper predicts the class of the most probable
    cluster, see `best_cluster`. Of a scan the parameters are learned from all rows, and a sample decides how many
    clusters there are.

    References
    ----------
    Vilalta & Rish (2003), "A decomposition of classes via clustering to explain and improve naive Bayes", ECML.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> corner, x, y = rng.integers(4, size=400), rng.normal(size=400), rng.normal(size=400)
    >>> x, y = x + 6 * (corner % 2), y + 6 * (corner // 2)
    >>> data = {"x": x, "y": y, "odd": np.where((corner == 1) | (corner == 2), "yes", "no")}
    >>> net = class_clusters(data, "odd", "gaussian")
    >>> net.variable("odd cluster").states
    ('no 1', 'no 2', 'yes 1', 'yes 2')
    >>> net.posterior("odd", {"x": 6.0, "y": 6.0})["no"] > 0.99
    True
    """
    check_choice(assignment, "assignment", ("soft", "hard"), NetworkError)
    model = Build.of(build)
    training_data = read_data_with_target(data, target, potentials, weights, **columns)
    name = name_hidden_node(name, f"{target} cluster", training_data.roles)
    rng = make_generator(random_state)
    clustering = _ClassClustering(training_data, target, name, criterion, most, assignment == "soft", folds)
    counts = clustering.read_counts(clusters)
    classes = clustering.cluster(training_data, counts, rng)
    found, single = [len(kept) for _, kept in classes], [1] * len(counts)
    if guard and found != single:
        # of rows that are read in passes a sample decides
        labeled = training_data.take(training_data.find_labeled())
        loss = loss or (misclassification if isinstance(labeled.variable(target), Discrete) else squared_error)
        if not _lowers_loss(clustering, labeled, model, potentials, found, loss, rng):
            classes = clustering.cluster(training_data, single, rng)
    return clustering.build_network(training_data, classes, model, potentials)


def best_cluster(network: Network, target: str, evidence: Any, *, name: str | None = None) -> NDArray[Any]:
    """Return the class of the most probable cluster for each row of the evidence, which is how the paper decides.

    Examples
    --------
    >>> data = {"x": [0.0, 0.5, 9.0, 9.5, 4.0, 4.5, 5.0, 5.5], "c": list("aaaabbbb")}
    >>> net = class_clusters(data, "c", "gaussian", clusters={"a": 2, "b": 1}, guard=False)
    >>> best_cluster(net, "c", {"x": [0.0, 5.0, 9.0]}).tolist()
    ['a', 'b', 'a']
    """
    variable = network.variable(target)
    if not isinstance(variable, Discrete):
        raise NetworkError(f"{target!r} is continuous; its posterior is what to look at")
    hidden = name or f"{target} cluster"
    posterior = network.posterior(hidden, Table(evidence))
    assert isinstance(posterior, DiscretePosterior)
    probabilities = np.atleast_2d(posterior.probabilities)
    owner = network.potential(target).table.argmax(axis=1)  # type: ignore[attr-defined]
    states = np.array(variable.states, dtype=object)
    return np.asarray(states[owner[probabilities.argmax(axis=1)]])


_Clusters: TypeAlias = tuple[Callable[[Table], Values] | None, NDArray[np.intp]]
"""What tells the responsibilities of a class's clusters, None where there is one, and the clusters that there are."""


def _assign_clusters(table: Table, target: Variable, classes: Sequence[_Clusters], soft: bool) -> Values:
    """Return the shares of rows in the clusters of their classes (rows, clusters of all classes), zero in rows without
    a class.
    """
    shares = np.zeros((len(table), sum(len(kept) for _, kept in classes)))
    start = 0
    for code, (assign, kept) in enumerate(classes):
        chosen = find_rows(table, target, code if isinstance(target, Discrete) else None)
        rows = np.flatnonzero(chosen)
        own = np.ones((len(rows), 1)) if assign is None else assign(table.take(rows))
        if assign is not None and not soft:
            own = choose_cluster(own)
        shares[rows, start : start + len(kept)] = own[:, kept]
        start += len(kept)
    return shares


def choose_cluster(shares: Values) -> Values:
    """Return shares of one for the most probable cluster of each row."""
    return np.asarray(shares.argmax(axis=1)[:, None] == np.arange(shares.shape[1]), float)


def _count_clusters(table: Table, first: int, assign: Callable[[Table], Values]) -> Values:
    """Count the rows whose most probable cluster is each."""
    return np.asarray(choose_cluster(assign(table)).sum(axis=0))


class _ClassClustering:
    """The options of the clustering of the rows of each class."""

    def __init__(
        self, data: TrainingData, target: str, name: str, criterion: Criterion, most: int, soft: bool, folds: int
    ) -> None:
        self.target, self.name, self.criterion, self.most, self.soft = target, name, criterion, most, soft
        self.folds = folds
        variable = data.variable(target)
        self.classes: tuple[Any, ...] = variable.states if isinstance(variable, Discrete) else ("",)

    def read_counts(self, clusters: int | Mapping[Any, int] | None) -> list[int | None]:
        """Return the number of clusters of each class, None if it is to be chosen."""
        if not isinstance(clusters, Mapping):
            return [clusters] * len(self.classes)
        strange = [state for state in clusters if state not in self.classes]
        if strange:
            raise NetworkError(f"clusters names {strange[0]!r}, which is no state of {self.target!r}")
        return [clusters.get(state) for state in self.classes]

    def cluster(self, data: TrainingData, numbers: Sequence[int | None], rng: np.random.Generator) -> list[_Clusters]:
        """Cluster the rows of each class."""
        variable = data.variable(self.target)
        discrete, counter = isinstance(variable, Discrete), data.counter([self.target])
        masses = counter.joint((self.target,)) if discrete else np.array([counter.moments((self.target,)).total])
        if not masses.any():
            raise TableError(f"no row of positive weight has a value of {self.target!r}")
        names = [name for name in data.roles if name != self.target or not discrete]
        classes: list[_Clusters] = []
        seed = int(rng.integers(2**63))
        for code, number in enumerate(numbers):
            clusters: _Clusters = None, np.arange(1)
            if masses[code] > 0 and number != 1 and data.attributes:
                table = data.rows.keep_rows(variable, code if discrete else None)
                if len(table) > 1:
                    columns = TrainingData(table, data.roles, None).select(names)
                    clusters = self._cluster_class(columns, number, seed)
            classes.append(clusters)
        return classes

    def _cluster_class(self, data: TrainingData, number: int | None, seed: int) -> _Clusters:
        """Return what assigns the rows of a class to clusters, and the clusters that have some."""
        # the same for all classes, whose order tells nothing
        rng = np.random.default_rng(seed)
        clustering = cluster_rows(data, number, self.criterion, self.most, STARTS, rng, self.folds)
        if self.soft:
            return clustering.assign, np.arange(clustering.fit.components)
        counts = data.rows.learn(partial(_count_clusters, assign=clustering.assign), data.variables)
        return clustering.assign, np.flatnonzero(counts)

    def build_network(
        self, data: TrainingData, classes: Sequence[_Clusters], build: Build, potentials: Potentials
    ) -> Network:
        """Learn the network with the clusters in place of the class, and add the class as their child."""
        variable, counts = data.variable(self.target), [len(kept) for _, kept in classes]
        states = [
            f"{state} {number + 1}" for state, own in zip(self.classes, counts, strict=True) for number in range(own)
        ]
        hidden = Discrete(self.name, tuple(state.strip() for state in states))
        if len(hidden) == 1 and not isinstance(variable, Discrete):
            return build.learn(data.rows.keep_rows(variable), self.target, potentials)
        assign = partial(_assign_clusters, target=variable, classes=classes, soft=self.soft)
        table = data.rows.expand(hidden, assign)
        if not isinstance(variable, Discrete):
            return build.learn(table, hidden.name, potentials)
        rest = [name for name in table.names if name != self.target]
        if isinstance(potentials, Mapping):
            potentials = {column: choice for column, choice in potentials.items() if column != self.target}
        network = build.learn(table.select(rest), hidden.name, potentials)
        network.add(Multinomial(variable, (hidden,), table=np.repeat(np.eye(len(variable)), counts, axis=0)))
        return network


def _lowers_loss(
    clustering: _ClassClustering,
    data: TrainingData,
    build: Build,
    potentials: Potentials,
    counts: Sequence[int],
    loss: Loss,
    rng: np.random.Generator,
) -> bool:
    """Return whether clusters predict better than classes in a cross-validation, which stops when that is clear."""
    if len(data.rows) < 2 * GUARD_FOLDS:
        return False
    data, dealt = data.deal(GUARD_FOLDS, rng)
    truth = data.codes(clustering.target)
    gains, weights = np.empty(0), np.empty(0)
    for training, test in split_folds(dealt.parts):
        train, table = data.take(training), data.table.take(test)
        losses = []
        for candidate in ([1] * len(counts), counts):
            network = clustering.build_network(train, clustering.cluster(train, candidate, rng), build, potentials)
            names = [name for name in table.names if name in network]
            losses.append(
                loss(network.posterior(clustering.target, table.select(names), impossible="nan"), truth[test])
            )
        gains = np.append(gains, np.nan_to_num(losses[0] - losses[1]))
        weights = np.append(weights, table.weights)
        if any(is_clearly_less(0.0, sign * gains, weights, CLEAR) for sign in (1, -1)):
            break
    return is_clearly_less(0.0, gains, weights, errors=1.0)
