"""Structural EM: alternate between completing a table and building a network from the completed one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError, TableError
from hybridbn.estimation.completion import (
    Completion,
    alternate,
    draw_alone,
    draw_levels,
    fill_at_random,
    fill_table,
    find_holes,
    log_likelihood,
)
from hybridbn.estimation.em import expectation_maximization, is_exact
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.structures.building import Build, Learner
from hybridbn.tables import Table
from hybridbn.variables import Values

__all__ = ["Structured", "structural_em"]


@dataclass(frozen=True)
class Structured:
    """What structural EM returns.

    Attributes
    ----------
    network : Network
        The one with the best score.
    history : ndarray (rounds + 1,)
        Score of the network from available cases, and of that of each round.
    converged : bool
        Whether it stopped because a round brought no other arcs or no better score.
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
    r"""Find a structure and its parameters from a table with holes, with a builder that wants complete tables.

    A first network is built from available cases. Then, in each round, the holes are filled `draws` times by exact joint
    draws given the row's observed cells, and a network is built from all completions together, each with its share of
    the row's weight. The network with the best score of the *observed* cells is kept:

    .. math:: \log L - \tfrac12 k \log n

    with k free parameters and n the rows' weight (BIC). It stops where the arcs stay the same or the score does not rise.

    Parameters
    ----------
    data, potentials, weights : as in `hybridbn.fit`
    target : str
    build : builder, partial of one, its name, Network, or list of arcs
        Such as `hybridbn.structures.tan`: a function of (data, target).
    rounds : int
        At most.
    draws : int
        Completions in a round.
    random_state : int, Generator, ...
    options : Options, optional
        Of inference.

    Returns
    -------
    Structured
        With `.network`, `.history` and `.converged`.

    Notes
    -----
    That is Friedman's algorithm with simulated expectations, which lets any builder do the search. Parameters of tables of
    probabilities and linear Gaussians are learned by `expectation_maximization` in each round; those of other
    families are the builder's, from the completions. Each family tells its own k (`Potential.free_parameters`), which for
    MTEs is rough: two numbers for each piece. Kernel densities are scored by how well each point is predicted by the others.

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
    >>> found = structural_em(data, "y", chain)
    >>> list(found.network.edges), len(found.history), found.converged
    ([('y', 'x')], 2, True)
    """
    for name, number in (("rounds", rounds), ("draws", draws)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise NetworkError(f"{name} must be a positive whole number, not {number!r}")
    options = options or Options()
    rng = np.random.default_rng(random_state)
    asked = Build.of(build)
    table = asked.read(data, weights)
    table = table.take(table.weights > 0).require_rows(1).require_values()
    learn = asked.make_learner(target, potentials)
    holes = find_holes(table)
    if not holes:
        network = learn(table)
        return Structured(network, np.array([_score(network, table, options)]), True)
    alone = asked.fit_marginals(table.select(holes), potentials)
    copies = _repeat_rows_with_holes(table, draws)
    best: Network | None = None
    history: list[float] = []
    converged = False

    def until(network: Network) -> bool:
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

    first = _relearn_parameters(_build_first(learn, table, alone, rng), table, options, rng)
    last = alternate(first, complete, relearn, until)
    return Structured(best or last, np.array(history), converged)


def _repeat_rows_with_holes(table: Table, draws: int) -> Table:
    """Return a table whose incomplete rows come several times, each with its share of the weight."""
    times = np.where(np.any([*find_holes(table).values()], axis=0), draws, 1)
    rows = np.repeat(np.arange(len(table)), times)
    return table.take(rows).with_weights((table.weights / times)[rows])


def _build_first(learn: Learner, table: Table, alone: Network, rng: np.random.Generator) -> Network:
    """Return a network from available cases, or from marginal draws where these don't suffice."""
    try:
        return learn(table)
    except TableError:
        return learn(fill_at_random(table, alone, rng))


def _relearn_parameters(network: Network, table: Table, options: Options, rng: np.random.Generator) -> Network:
    """Return the network with parameters learned from the observed cells, where that is exact."""
    if not is_exact(network):
        return network
    return expectation_maximization(network, table, start=network, random_state=rng, options=options).network


def _score(network: Network, table: Table, options: Options) -> float:
    half_log = 0.5 * math.log(max(float(table.weights.sum()), 1.0))
    price = sum(half_log * potential.free_parameters() + potential.optimism() for potential in network.potentials)
    return log_likelihood(network, table, options) - price
