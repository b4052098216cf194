"""k-dependence Bayesian classifiers: between naive Bayes (k = 0) and the full network."""

from __future__ import annotations

from typing import Any

from hybridbn.arguments import check_count
from hybridbn.errors import NetworkError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import Dependence
from hybridbn.structures.training_data import check_threshold, fit_network, read_data_with_target

__all__ = ["kdb"]


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
