"""`fit`: the potentials of a network whose arcs are given."""

from __future__ import annotations

from typing import Any

from hybridbn.errors import NetworkError
from hybridbn.estimation.available_cases import fit_available
from hybridbn.estimation.em import expectation_maximization
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import Options

__all__ = ["fit"]


@share_passes
def fit(
    structure: Any,
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    missing: str = "available",
    n_jobs: int | None = None,
) -> Network:
    """Learn the potentials of a network with given arcs.

    Parameters
    ----------
    structure : iterable of (from, to), directed graph of networkx, or Network
        Its names are columns of the data; columns that it does not mention become nodes without arcs. The nodes of a
        `Network` keep their variables, and their families where `potentials` leaves that open.
    data : DataFrame, Table, mapping of arrays, ...
        Whatever `Table` takes.
    potentials : "auto", "mte", "kernel", "gaussian", "multinomial", a Fitter, or a mapping from columns to these
        "auto", which columns left out of a mapping get too: tables of probabilities where a node and its parents are
        all discrete, mixtures of truncated exponentials otherwise. "multinomial" asks to discretize number columns
        (by equal frequencies). See `hybridbn.fitting.fitter_of`.
    weights : sequence of float, optional
        One for each row; they replace those of a `Table`.
    missing : {"available", "em"}
        "available": each node is learned from the rows in which it and its parents are observed. That is right where
        cells are missing regardless of all values (completely at random).
        "em": expectation maximization, which is right where cells are missing depending on observed ones, too, and
        learns hidden variables; see `hybridbn.expectation_maximization`, which has more options.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        A new one.

    Examples
    --------
    >>> import hybridbn as hb
    >>> data = {"rain": ["no", "no", "no", "yes"], "wet": ["no", "no", "yes", "yes"], "hour": [1.0, 2.0, 3.0, 6.0]}
    >>> net = fit([("rain", "wet")], data, potentials="gaussian")
    >>> net
    <Network: 3 nodes (2 discrete, 1 continuous), 1 arc>
    >>> net.potential("wet").table.round(3)
    array([[0.6  , 0.4  ],
           [0.333, 0.667]])
    >>> net.potential("hour")
    <LinearGaussian hour: N(3, 3.5)>
    >>> data["wet"][0] = None
    >>> fit([("rain", "wet")], data, potentials="gaussian", missing="em")
    <Network: 3 nodes (2 discrete, 1 continuous), 1 arc>
    """
    if missing not in ("available", "em"):
        raise NetworkError(f"missing must be 'available' or 'em', not {missing!r}")
    if missing == "em":
        return expectation_maximization(structure, data, potentials, weights, options=Options(n_jobs=n_jobs)).network
    return fit_available(structure, data, potentials, weights)
