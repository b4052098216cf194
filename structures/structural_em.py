"""Structural EM (Friedman 1997): alternate between completing a table and building a network from the completed
table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.available_cases import draw_alone, fill_at_random
from hybridbn.estimation.completion import Completion
from hybridbn.estimation.em import expectation_maximization, is_exact, log_likelihood
from hybridbn.estimation.holes import alternate, draw_levels, fill_table, find_holes
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.options import Options, make_generator
from hybridbn.structures.building import Build, Learner
from hybridbn.tables import Table
from hybridbn.variables import Values

__all__ = ["Structured", "structural_em"]


@dataclass(frozen=True)
class Structured:
    """The result of structural EM.

    Attributes
    ----------
    network : Network
        The network with the best score.
    history : ndarray (rounds + 1,)
        The score of the network from available cases, then of the network of each round.
    converged : bool
        Whether it stopped because a round changed no arcs or didn't improve the score.
    """

    network: Network
    history: Values
    converged: bool

    def __repr__(self) -> str:
        return f"<Structured: {self.network!r}, score {self.history.max():.6g}, {len(self.history) - 1} rounds>"


def structural_em(
    data: Any,
    target: str,
    build: Any,
    potentials: Potentials | None = None,
    weights: Any = None,
    *,
    rounds: int = 10,
    draws: int = 5,
    random_state: Any = 0,
    options: Options | None = None,
) -> Structured:
    r"""Learn a structure and its parameters from a table with holes, by a builder for complete tables.

    A first network is built from available cases. Then, in each round, the holes are filled `draws` times by exact
    joint draws given the row's observed cells, and a network is built from all completions together, each with its
    share of the row's weight. The network with the best score of the *observed* cells is kept:

    .. math:: \log L - \tfrac12 k \log n

    with k free parameters and rows of total weight n (BIC). It stops when the arcs stay the same or the score does not
    rise.

    Parameters
    ----------
    data, potentials, weights : as in `hybridbn.fit`
    target : str
    build : builder, partial of one, its name, Network, or list of arcs
        Such as `hybridbn.structures.tan`: a function of (data, target).
    rounds : int
        Maximal number of rounds.
    draws : int
        Completions in a round.
    random_state : int, Generator, ...
    options : Options, optional
        Options of inference.

    Returns
    -------
    Structured
        With `.network`, `.history` and `.converged`.

    Notes
    -----
    This is Friedman's algorithm with simulated expectations, so that any builder can do the search. Parameters of
    tables of probabilities and linear Gaussians are learned by `expectation_maximization` in each round; those of other
    families are learned by the builder from the completions. Each family defines its own k
    (`Potential.free_parameters`); that of MTEs is an approximation, two for each piece. Kernel densities are scored by
    leaving out each point.

    References
    ----------
    Friedman (1997), "Learning belief networks in the presence of missing values and hidden variables", ICML'97.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=100)
    >>> data = {"x": x, "y": np.where(rng.random(100) < 0.3, np.nan, x + rng.normal(size=100))}
    >>> def chain(table, target):
    ...     return hb.fit([(target, "x")], table, "gaussian")
    >>> result = structural_em(data, "y", chain)
    >>> list(result.network.edges), len(result.history), result.converged
    ([('y', 'x')], 2, True)
    """
    for name, number in (("rounds", rounds), ("draws", draws)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise NetworkError(f"{name} must be a positive whole number, not {number!r}")
    options = options or Options()
    rng = make_generator(random_state)
    learning = Build.of(build)
    table = learning.read(data, weights, target).sample(purpose="networks by structural EM")
    table = table.take(table.weights > 0).require_rows(1).require_values()
    learn = learning.make_learner(target, potentials)
    holes = find_holes(table)
    if not holes:
        network = learn(table)
        return Structured(network, np.array([_score(network, table, options)]), True)
    marginals = learning.fit_marginals(table.select(holes), potentials)
    alone = Completion.of(marginals, table, Options())
    copies = _repeat_rows_with_holes(table, draws)
    best: Network | None = None
    history: list[float] = []
    converged = False

    def should_stop(network: Network) -> bool:
        nonlocal best, converged
        score = _score(network, table, options)
        better = best is None or score > max(history)
        converged = best is not None and (not better or set(network.edges) == set(best.edges))
        history.append(score)
        best = network if better else best
        return converged or len(history) > rounds

    def complete(network: Network) -> Table:
        levels = draw_levels(rng, copies, network)
        cells = Completion.of(network, copies, options).draw(copies, levels)
        return fill_table(copies, {**draw_alone(copies, alone, levels, network), **cells})

    def relearn(completed: Table) -> Network:
        return _relearn_parameters(learn(completed), table, options, rng)

    first = _relearn_parameters(_build_first(learn, table, marginals, rng), table, options, rng)
    last = alternate(first, complete, relearn, should_stop, "structural EM")
    return Structured(best or last, np.array(history), converged)


def _repeat_rows_with_holes(table: Table, draws: int) -> Table:
    """Return a table in which each incomplete row is repeated, and its weight divided among the copies."""
    times = np.where(np.any([*find_holes(table).values()], axis=0), draws, 1)
    rows = np.repeat(np.arange(len(table)), times)
    return table.take(rows).with_weights((table.weights / times)[rows])


def _build_first(learn: Learner, table: Table, marginals: Network, rng: np.random.Generator) -> Network:
    """Learn a network from available cases, or from marginal draws if these don't suffice."""
    try:
        return learn(table)
    except TableError:
        return learn(fill_at_random(table, marginals, rng))


def _relearn_parameters(network: Network, table: Table, options: Options, rng: np.random.Generator) -> Network:
    """Learn the parameters again from the observed cells, if that is exact."""
    if not is_exact(network):
        return network
    return expectation_maximization(network, table, start=network, random_state=rng, options=options).network


def _score(network: Network, table: Table, options: Options) -> float:
    """Return the BIC of the observed cells."""
    half_log = 0.5 * math.log(max(float(table.weights.sum()), 1.0))
    penalty = sum(half_log * potential.free_parameters() + potential.optimism() for potential in network.potentials)
    return log_likelihood(network, table, options) - penalty
