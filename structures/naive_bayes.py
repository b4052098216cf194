"""Naive Bayes: all attributes are independent given the target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.training_data import fit_network, read_data_with_target

__all__ = ["naive_bayes"]


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
