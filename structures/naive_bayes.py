"""Naive Bayes, and its augmentations: attributes depend on each other along a tree (TAN), or on k others (KDB)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import check_count
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import Dependence, find_maximum_branching, find_maximum_spanning_tree
from hybridbn.structures.knowledge import Knowledge
from hybridbn.structures.training_data import check_threshold, fit_network, read_data_with_target
from hybridbn.variables import shorten

__all__ = ["kdb", "naive_bayes", "tan"]


def _arcs(target: str, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    return {target: (), **{name: (target,) for name in names if name != target}}


@builder(arcs=_arcs)
@share_passes
def naive_bayes(
    data: Any, target: str, potentials: Potentials = "auto", weights: Any = None, *, n_jobs: int | None = None
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
    training_data = read_data_with_target(data, target, potentials, weights)
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
) -> Network:
    r"""Build tree-augmented naive Bayes: each attribute has the target and at most one other attribute as parents.

    The attributes are joined by the tree that maximizes the sum of :math:`I(X_i; X_j \mid Y)`, the mutual information
    of two attributes given the target; that is the tree of greatest likelihood.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
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
    training_data = read_data_with_target(data, target, potentials, weights)
    attributes = training_data.attributes
    if root is not None and root not in attributes:
        raise NetworkError(f"root={root!r} is no attribute; choose one of {shorten(attributes)}")
    known = Knowledge.of(knowledge)
    limits = known.limit([*attributes, target])
    least = check_threshold(threshold)
    dependence = Dependence(training_data)
    pairs = dependence.measure_pairs()
    if known:
        parents = find_maximum_branching(attributes, pairs, limits, root, least)
    else:
        parents = find_maximum_spanning_tree(attributes, pairs, dependence.measure_with_target(), root, least)
    families: dict[str, tuple[str, ...]] = {target: ()}
    families |= {name: (target, *parents[name]) for name in attributes}
    if known:
        known.refuse_violations(families, f"tree-augmented naive Bayes of {target!r}")
    return fit_network(training_data, families, dependence.counter, dependence.reusable_potentials())


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
) -> Network:
    r"""Build a k-dependence network: each attribute has the target and at most k other attributes as parents.

    The attributes are sorted by :math:`I(X_i; Y)`, those most informative about the target first. The parents of
    each are the k earlier ones with the greatest :math:`I(X_i; X_j \mid Y)`.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
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
    training_data = read_data_with_target(data, target, potentials, weights)
    dependence = Dependence(training_data)
    pairs = dependence.measure_pairs() if k else {}
    importance = dependence.measure_with_target()
    order = sorted(training_data.attributes, key=lambda name: (-importance[name], name))
    families: dict[str, tuple[str, ...]] = dict.fromkeys((target, *training_data.attributes), ())
    for rank, name in enumerate(order):
        information = {earlier: pairs.get((min(name, earlier), max(name, earlier)), 0.0) for earlier in order[:rank]}
        candidates = [earlier for earlier in information if information[earlier] > least]
        families[name] = (target, *sorted(candidates, key=lambda earlier: (-information[earlier], earlier))[:k])
    return fit_network(training_data, families, dependence.counter, dependence.reusable_potentials())
