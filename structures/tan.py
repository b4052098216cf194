"""Tree-augmented naive Bayes: naive Bayes whose attributes depend on each other along a tree."""

from __future__ import annotations

from typing import Any

from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import Dependence, find_maximum_branching, find_maximum_spanning_tree
from hybridbn.structures.knowledge import Knowledge
from hybridbn.structures.training_data import check_threshold, fit_network, read_data_with_target
from hybridbn.variables import shorten

__all__ = ["tan"]


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
