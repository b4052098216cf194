"""Chow and Liu's tree: the best network in which each column has at most one parent."""

from __future__ import annotations

from typing import Any

from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import Dependence, find_maximum_branching, find_maximum_spanning_tree
from hybridbn.structures.knowledge import Knowledge
from hybridbn.structures.training_data import TrainingData, check_threshold, fit_network, read_data_without_target
from hybridbn.variables import shorten

__all__ = ["build_tree", "chow_liu"]


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
) -> Network:
    r"""Build the tree of greatest likelihood, for a table without a target.

    It maximizes the sum of :math:`I(X_i; X_j)`, the mutual information of the columns that it joins.

    Parameters
    ----------
    data, potentials, weights : as in `naive_bayes`
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
    training_data = read_data_without_target(data, potentials, weights)
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
    return fit_network(data, families, dependence.counter, dependence.reusable_potentials())
