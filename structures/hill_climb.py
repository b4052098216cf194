"""Greedy search for a network without restrictions on its arcs: the one that a step at a time makes better by BIC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.fitting.choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.arc_search import Limits, acyclic, arcs_of, climbed, graph_of
from hybridbn.structures.building import builder
from hybridbn.structures.family_scores import FamilyScores
from hybridbn.structures.parameters import fitted
from hybridbn.structures.preparing import Prepared, prepared_whole
from hybridbn.structures.structural_em import structural_em
from hybridbn.tables import Table
from hybridbn.variables import shorten

__all__ = ["hill_climb"]


@builder(takes_target=False)
def hill_climb(
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    start: Iterable[tuple[str, str]] = (),
    required: Iterable[tuple[str, str]] = (),
    forbidden: Iterable[tuple[str, str]] = (),
    max_parents: int | None = None,
    tabu: int = 10,
    turns: int = 10,
    restarts: int = 10,
    missing: Literal["em", "available"] = "em",
    random_state: Any = 0,
) -> Network:
    r"""Search for the network of greatest BIC, adding, removing or reversing one arc at a time.

    .. math:: \mathrm{BIC} = \sum_i \log L(x_i \mid \mathrm{parents}_i) - \frac{k_i}{2} \log n

    Arcs go in any direction: a category may depend on numbers. The score is a sum over families, each computed once.

    Parameters
    ----------
    data, potentials, weights : as in `hybridbn.fit`
        Any family: the score of one that has no formula is that of its fitted density ("auto": mixtures of truncated exponentials
        for numbers). "gaussian" is by far the fastest for numbers.
    start : iterable of (from, to), optional
        Arcs to start from.
    required, forbidden : iterable of (from, to), optional
        Arcs that stay, and arcs that never come.
    max_parents : int, optional
        Of any node.
    tabu : int
        When no step is an improvement, the search goes on with the best of the others for as many steps, never back to one of
        the last so many networks. 0 stops at the summit.
    turns : int
        After each step so many arcs are turned around, drawn from those that make no difference to the score: networks of equal
        score have different neighbors. With 0 the search depends on which of two equivalent networks comes first.
    restarts : int
        So many times the search starts again from the best network without three tenths of its arcs.
    missing : {"em", "available"}
        What an incomplete table is scored by: structural EM (see Notes), or the rows observed in each family.
    random_state : int, Generator or None
        Of the turns, restarts, and structural EM's draws.

    Returns
    -------
    Network
        Its nodes are in the table's order.

    Notes
    -----
    Structural EM fills the holes by exact joint draws from the network found so far and searches again, until the BIC of the
    observed cells stops rising (Friedman 1997). Turned arcs are those of Castelo and Kočka (2003), "repeated covered arc reversal".

    References
    ----------
    Chickering (2002), "Optimal structure identification with greedy search", JMLR 3. Castelo & Kočka (2003), "On
    inclusion-driven learning of Bayesian networks", JMLR 4.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> a = rng.integers(2, size=500)
    >>> b = np.where(rng.random(500) < 0.9, a, 1 - a)
    >>> x = 2.0 * b + rng.normal(size=500)
    >>> data = {"a": a.astype(str), "b": b.astype(str), "x": x, "y": rng.normal(size=500)}
    >>> net = hill_climb(data, "gaussian")
    >>> sorted(sorted(arc) for arc in net.edges)
    [['a', 'b'], ['b', 'x']]
    """
    read = prepared_whole(data, potentials, weights)
    if missing not in ("em", "available"):
        raise NetworkError(f"missing must be 'em' or 'available', not {missing!r}")
    limits, options = _limits(read, required, forbidden, max_parents), _Options.of(tabu, turns, restarts, random_state)
    begin = _checked(read, start, "start")
    if missing == "available" or not any(read.table.missing[name] for name in read.attributes):
        return _searched(read, limits, begin, options)

    def build(table: Any, _: str) -> Network:
        return _searched(Prepared(_as_read(table, read), read.roles, None), limits, begin, options)

    first = read.attributes[0]
    return structural_em(read.table, first, build, random_state=options.seed).network


def _as_read(data: Any, read: Prepared) -> Table:
    return data if isinstance(data, Table) else Table(data, variables=list(read.table.variables))


def _limits(data: Prepared, required: Any, forbidden: Any, most: int | None) -> Limits:
    size = len(data.attributes)
    if most is not None and (isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1):
        raise NetworkError(f"max_parents must be a positive whole number, not {most!r}")
    stays, allowed = np.zeros((size, size), dtype=bool), ~np.eye(size, dtype=bool)
    for a, b in _checked(data, required, "required"):
        stays[b, a] = True
    for a, b in _checked(data, forbidden, "forbidden"):
        allowed[b, a] = False
    clash = np.argwhere(stays & ~allowed)
    if len(clash):
        b, a = (data.attributes[place] for place in clash[0])
        raise NetworkError(f"the arc {a!r} -> {b!r} is both required and forbidden")
    if not acyclic(graph_of(stays)):
        raise NetworkError("the required arcs make a cycle")
    return Limits(stays, allowed, size if most is None else int(most))


def _checked(data: Prepared, arcs: Any, what: str) -> list[tuple[int, int]]:
    place = {name: i for i, name in enumerate(data.attributes)}
    found = []
    for arc in arcs:
        if not isinstance(arc, tuple | list) or len(arc) != 2 or arc[0] == arc[1]:
            raise NetworkError(f"{what} must hold arcs (from, to) between two columns, not {arc!r}")
        strange = [name for name in arc if name not in place]
        if strange:
            raise NetworkError(f"{what} names {shorten(strange)}, but the columns are {shorten(place)}")
        found.append((place[arc[0]], place[arc[1]]))
    return found


class _Options(NamedTuple):
    """How a search climbs."""

    tabu: int
    turns: int
    restarts: int
    seed: int

    @classmethod
    def of(cls, tabu: Any, turns: Any, restarts: Any, random_state: Any) -> _Options:
        for what, value in (("tabu", tabu), ("turns", turns), ("restarts", restarts)):
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 0
            if not whole:
                raise NetworkError(f"{what} must be a whole number that is not negative, not {value!r}")
        seed = int(np.random.default_rng(random_state).integers(2**63))
        return cls(int(tabu), int(turns), int(restarts), seed)


def _searched(data: Prepared, limits: Limits, start: list[tuple[int, int]], options: _Options) -> Network:
    scores = FamilyScores(data)
    # of two arcs that are equally good the one from what is less certain comes first
    order = sorted(range(len(data.attributes)), key=lambda i: scores(data.attributes[i], ()))
    place = {column: i for i, column in enumerate(order)}
    names = [data.attributes[column] for column in order]
    limits = limits.ordered(order)
    arcs = limits.required.copy()
    for a, b in start:
        arcs[place[b], place[a]] |= limits.allowed[place[b], place[a]]
    if not acyclic(graph_of(arcs)):
        raise NetworkError("the arcs to start from, with the required ones, make a cycle")
    best = climbed(
        names,
        scores,
        limits,
        graph_of(arcs),
        tabu=options.tabu,
        turns=options.turns,
        restarts=options.restarts,
        rng=np.random.default_rng(options.seed),
    )
    found = arcs_of(best)
    parents = {
        name: tuple(given for j, given in enumerate(data.attributes) if found[place[i], place[j]])
        for i, name in enumerate(data.attributes)
    }
    return fitted(data, parents)
