"""Class decomposition by clustering: attributes are independent given the cluster of a class, not given the class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import deal_folds, is_clearly_less, split_folds
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import make_generator
from hybridbn.potentials import Multinomial
from hybridbn.structures.building import Build, builder, name_hidden_node
from hybridbn.structures.heldout import Loss, misclassification, squared_error
from hybridbn.structures.mixture import FOLDS, STARTS, AssignComponents, Criterion, cluster_rows
from hybridbn.structures.naive_bayes import naive_bayes
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.tables.rows import find_rows
from hybridbn.variables import Discrete, Values, Variable

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
    build: Any = naive_bayes,
    clusters: int | Mapping[Any, int] | None = None,
    assignment: Literal["soft", "hard"] = "soft",
    guard: bool = True,
    loss: Loss | None = None,
    name: str | None = None,
    criterion: Criterion = "held_out",
    most: int = 10,
    folds: int = FOLDS,
    random_state: Any = 0,
) -> Network:
    r"""Build a classifier with clusters within each class.

    The rows of each class are clustered by a naive Bayes mixture (`mixture`). A hidden node for the clusters of all
    classes replaces the class in the model that `build` learns, and the class is a function of it:

    .. math:: P(c \mid x) \propto \sum_{k \in c} P(k) f(x \mid k)

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
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
    if assignment not in ("soft", "hard"):
        raise NetworkError(f"assignment must be 'soft' or 'hard', not {assignment!r}")
    model = Build.of(build)
    training_data = read_data_with_target(data, target, potentials, weights)
    name = name_hidden_node(name, f"{target} cluster", training_data.roles)
    rng = make_generator(random_state)
    clustering = _ClassClustering(training_data, target, name, criterion, most, assignment == "soft", folds)
    counts = clustering.read_counts(clusters)
    result = clustering.cluster(training_data, counts, rng)
    single = dict.fromkeys(counts, 1)
    if guard and result.counts != single:
        # of rows that are read in passes a sample decides
        labeled = training_data.sampled.take(training_data.sampled.find_labeled())
        loss = loss or (misclassification if isinstance(labeled.variable(target), Discrete) else squared_error)
        if not _lowers_loss(clustering, labeled, model, potentials, result.counts, loss, rng):
            result = clustering.cluster(training_data, single, rng)
    return result.build_network(model, potentials)


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


@dataclass(frozen=True)
class _AssignClusters:
    """Assigns rows to the clusters of their classes.

    Attributes
    ----------
    target : Variable
    classes : sequence of callable or None
        From a table to the responsibilities of the class's clusters; None where there is one.
    kept : sequence of ndarray
        The clusters of each class that there are.
    soft : bool
    """

    target: Variable
    classes: Sequence[AssignComponents | None]
    kept: Sequence[NDArray[np.intp]]
    soft: bool

    def __call__(self, table: Table) -> Values:
        """Return the shares (rows, clusters of all classes), zero in rows without a class."""
        shares = np.zeros((len(table), sum(map(len, self.kept))))
        start = 0
        for code, (assign, kept) in enumerate(zip(self.classes, self.kept, strict=True)):
            chosen = find_rows(table, self.target, code if isinstance(self.target, Discrete) else None)
            rows = np.flatnonzero(chosen)
            own = np.ones((len(rows), 1)) if assign is None else assign(table.take(rows))
            if assign is not None and not self.soft:
                own = choose_cluster(own)
            shares[rows, start : start + len(kept)] = own[:, kept]
            start += len(kept)
        return shares


def choose_cluster(shares: Values) -> Values:
    """Return shares of one for the most probable cluster of each row."""
    return np.asarray(shares.argmax(axis=1)[:, None] == np.arange(shares.shape[1]), float)


def _count_clusters(table: Table, first: int, assign: AssignComponents) -> Values:
    """Count the rows whose most probable cluster is each."""
    return np.asarray(choose_cluster(assign(table)).sum(axis=0))


@dataclass(frozen=True)
class _ClusteredClasses:
    """The clusters of some rows, and the class of each cluster."""

    data: TrainingData
    target: str
    hidden: Discrete
    owner: NDArray[np.intp]
    assign: _AssignClusters
    counts: dict[Any, int]

    def build_network(self, build: Build, potentials: Potentials) -> Network:
        """Learn the network with the clusters in place of the class, and add the class as their child."""
        variable = self.data.variable(self.target)
        if len(self.hidden) == 1 and not isinstance(variable, Discrete):
            return build.learn(self.data.rows.keep_rows(variable), self.target, potentials)
        table = self.data.rows.expand(self.hidden, self.assign)
        if not isinstance(variable, Discrete):
            return build.learn(table, self.hidden.name, potentials)
        rest = [name for name in table.names if name != self.target]
        if isinstance(potentials, Mapping):
            potentials = {column: choice for column, choice in potentials.items() if column != self.target}
        network = build.learn(table.select(rest), self.hidden.name, potentials)
        certain = np.zeros((len(self.hidden), len(variable)))
        certain[np.arange(len(self.hidden)), self.owner] = 1.0
        network.add(Multinomial(variable, (self.hidden,), table=certain))
        return network


class _ClassClustering:
    """The options of the clustering of the rows of each class."""

    def __init__(
        self, data: TrainingData, target: str, name: str, criterion: Criterion, most: int, soft: bool, folds: int
    ) -> None:
        self.target, self.name, self.criterion, self.most, self.soft = target, name, criterion, most, soft
        self.folds = folds
        variable = data.variable(target)
        self.classes: tuple[Any, ...] = variable.states if isinstance(variable, Discrete) else ("",)

    def read_counts(self, clusters: int | Mapping[Any, int] | None) -> dict[Any, int | None]:
        """Return the number of clusters of each class, None if it is to be chosen."""
        if isinstance(clusters, Mapping):
            strange = [state for state in clusters if state not in self.classes]
            if strange:
                raise NetworkError(f"clusters names {strange[0]!r}, which is no state of {self.target!r}")
            return {state: clusters.get(state) for state in self.classes}
        return dict.fromkeys(self.classes, clusters)

    def cluster(
        self, data: TrainingData, numbers: Mapping[Any, int | None], rng: np.random.Generator
    ) -> _ClusteredClasses:
        """Cluster the rows of each class."""
        variable = data.variable(self.target)
        discrete, counter = isinstance(variable, Discrete), data.counter([self.target])
        masses = counter.joint((self.target,)) if discrete else np.array([counter.moments((self.target,)).total])
        if not masses.any():
            raise TableError(f"no row of positive weight has a value of {self.target!r}")
        names = [name for name in data.roles if name != self.target or not discrete]
        classes, kept, owner, states, counts = [], [], [], [], {}
        for code, state in enumerate(self.classes):
            assign, own = None, np.arange(1)
            if masses[code] > 0 and numbers[state] != 1 and data.attributes:
                table = data.rows.keep_rows(variable, code if discrete else None)
                if len(table) > 1:
                    columns = TrainingData(table, data.roles, None).select(names)
                    assign, own = self._cluster_class(columns, numbers[state], rng)
            counts[state] = len(own)
            classes.append(assign)
            kept.append(own)
            owner += [code] * len(own)
            states += [f"{state} {number}".strip() for number in range(1, len(own) + 1)]
        hidden = Discrete(self.name, tuple(states))
        assigned = _AssignClusters(variable, classes, kept, self.soft)
        return _ClusteredClasses(data, self.target, hidden, np.array(owner), assigned, counts)

    def _cluster_class(
        self, data: TrainingData, number: int | None, rng: np.random.Generator
    ) -> tuple[AssignComponents, NDArray[np.intp]]:
        """Return what assigns the rows of a class to clusters, and the clusters that have some."""
        assign = cluster_rows(data, number, self.criterion, self.most, STARTS, rng, self.folds).assign
        if self.soft:
            return assign, np.arange(assign.fit.components)
        return assign, np.flatnonzero(data.rows.learn(partial(_count_clusters, assign=assign), data.variables))


def _lowers_loss(
    clustering: _ClassClustering,
    data: TrainingData,
    build: Build,
    potentials: Potentials,
    counts: Mapping[Any, int],
    loss: Loss,
    rng: np.random.Generator,
) -> bool:
    """Return whether clusters predict better than classes in a cross-validation, which stops when that is clear."""
    if len(data.rows) < 2 * GUARD_FOLDS:
        return False
    truth = data.codes(clustering.target)
    gains, weights = np.empty(0), np.empty(0)
    for training, test in split_folds(deal_folds(len(truth), GUARD_FOLDS, rng, truth)):
        train, table = data.take(training), data.table.take(test)
        losses = []
        for candidate in (dict.fromkeys(counts, 1), counts):
            network = clustering.cluster(train, candidate, rng).build_network(build, potentials)
            names = [name for name in table.names if name in network]
            losses.append(
                loss(network.posterior(clustering.target, table.select(names), impossible="nan"), truth[test])
            )
        gains = np.append(gains, np.nan_to_num(losses[0] - losses[1]))
        weights = np.append(weights, table.weights)
        if any(is_clearly_less(0.0, sign * gains, weights, CLEAR) for sign in (1, -1)):
            break
    return is_clearly_less(0.0, gains, weights, errors=1.0)
