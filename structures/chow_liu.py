"""Chow and Liu's tree: the best network in which each column has at most one parent."""

from __future__ import annotations

from typing import Any

from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import Dependence, find_maximum_spanning_tree
from hybridbn.structures.training_data import TrainingData, check_threshold, fit_network, read_data_without_target
from hybridbn.variables import shorten

__all__ = ["build_tree", "chow_liu"]


@builder(takes_target=False)
def chow_liu(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    root: str | None = None,
    *,
    threshold: float = 0.0,
) -> Network:
    r"""Build the tree of greatest likelihood, for a table without a target.

    It maximizes the sum of :math:`I(X_i; X_j)`, the mutual information of the columns that it joins.

    Parameters
    ----------
    data, potentials, weights : as in `naive_bayes`
        "multinomial" on a number column discretizes it by equal frequencies.
    root : str, optional
        The column without a parent; the tree's likelihood doesn't depend on it. By default the column that tells
        most about the others together (the sum of its mutual information with each; of equal ones the first by name).
    threshold : float
        In nats: only columns that tell more than this about each other are joined, see `tan`.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    How the information of each kind of pair is learned is said at `tan`; here it is not conditional.

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
    read = read_data_without_target(data, potentials, weights)
    if root is not None and root not in read.attributes:
        raise NetworkError(f"root={root!r} is no column; choose one of {shorten(read.attributes)}")
    return build_tree(read, root, check_threshold(threshold))


def build_tree(data: TrainingData, root: str | None = None, threshold: float = 0.0) -> Network:
    """Build the tree over all columns of data that are read already."""
    dependence = Dependence(data)
    pairs = dependence.measure_pairs()
    told = dict.fromkeys(data.attributes, 0.0)
    for pair, value in pairs.items():
        for name in pair:
            told[name] += value
    # sums are rounded as their terms are, so that their order doesn't decide between equal ones
    importance = {name: round(value, 9) for name, value in told.items()}
    families = find_maximum_spanning_tree(data.attributes, pairs, importance, root, threshold)
    return fit_network(data, families, dependence.counter, dependence.reusable_potentials())
