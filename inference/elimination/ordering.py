"""Elimination orders: greedy heuristics on bit sets, the cheapest of several is kept."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Order", "best_order"]

HOPELESS = 1e13
"""Cells beyond which other heuristics are not tried."""
MOST_TRIES = 300
WORTH_A_TRY = 2e4
"""Cells, for each vertex, that pay for one more try: about the time it takes to eliminate them."""
PATIENCE = 40
"""So many tries in a row may bring nothing."""
NOISE = 0.3


class Order(NamedTuple):
    """An elimination order and what it costs, in table cells."""

    names: tuple[str, ...]
    total: float
    largest: float
    clique: tuple[str, ...]


Score = Callable[[int, list[int], list[float]], float]


def _bits(mask: int) -> Iterable[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _fill(vertex: int, around: list[int], logs: list[float]) -> float:
    """Count the edges that eliminating the vertex would add."""
    clique = around[vertex]
    size = clique.bit_count()
    inside = sum((around[other] & clique).bit_count() for other in _bits(clique))
    return size * (size - 1) - inside


def _weight(vertex: int, around: list[int], logs: list[float]) -> float:
    """Log size of the table that eliminating the vertex would make."""
    return logs[vertex] + sum(logs[other] for other in _bits(around[vertex]))


def _weighted_fill(vertex: int, around: list[int], logs: list[float]) -> float:
    """Sum over the edges added of the products of their ends' log sizes."""
    clique = around[vertex]
    score = 0.0
    for other in _bits(clique):
        missing = clique & ~around[other] & ~(1 << other)
        score += logs[other] * sum(logs[end] for end in _bits(missing))
    return score


def best_order(
    scopes: Iterable[Sequence[str]], sizes: Mapping[str, int], keep: Iterable[str], enough: float = 1e5
) -> Order:
    """Return a good order in which to sum out all variables of the scopes but those to keep.

    Parameters
    ----------
    scopes : the variables of each factor
    sizes : number of nodes of each variable
    keep : variables that stay (the targets); their clique is counted as the last one
    enough : stop trying other heuristics when the total cost is below this

    Examples
    --------
    >>> best_order([("a", "b"), ("b", "c")], {"a": 2, "b": 3, "c": 4}, keep=["c"]).names
    ('a', 'b')
    """
    scopes = [tuple(scope) for scope in scopes]
    names = sorted({name for scope in scopes for name in scope} | set(keep))
    place = {name: i for i, name in enumerate(names)}
    logs = [math.log(max(sizes[name], 1)) for name in names]
    around = [0] * len(names)
    kept = [place[name] for name in keep]
    for scope in [*scopes, [names[i] for i in kept]]:
        mask = 0
        for name in scope:
            mask |= 1 << place[name]
        for name in scope:
            around[place[name]] |= mask & ~(1 << place[name])
    best = _greedy(_weight, list(around), logs, names, kept)
    for score in (_fill, _weighted_fill):
        # cheap enough already, or so dear that no order will help
        if enough < best.total < HOPELESS:
            best = min(best, _greedy(score, list(around), logs, names, kept), key=_total)
    tries = int(min(MOST_TRIES, best.total / (WORTH_A_TRY * max(len(names), 1)))) if best.total < HOPELESS else 0
    generator = random.Random(0)
    found = 0
    for number in range(tries):
        shaken = _shaken(_weight if number % 3 else _fill, generator)
        order = _greedy(shaken, list(around), logs, names, kept)
        if order.total < best.total:
            best, found = order, number
        elif number - found >= PATIENCE:
            break
    return best


def _total(order: Order) -> float:
    return order.total


def _shaken(score: Score, generator: random.Random) -> Score:
    """Return the score with noise, which breaks ties and finds orders that the greedy choice misses."""

    def shaken(vertex: int, around: list[int], logs: list[float]) -> float:
        return score(vertex, around, logs) * (1 + NOISE * generator.random())

    return shaken


def _greedy(score: Score, around: list[int], logs: list[float], names: list[str], kept: list[int]) -> Order:
    alive = ((1 << len(names)) - 1) & ~sum(1 << k for k in kept)
    current = {vertex: score(vertex, around, logs) for vertex in _bits(alive)}
    heap = [(value, vertex) for vertex, value in current.items()]
    heapq.heapify(heap)
    order: list[str] = []
    total = largest = 0.0
    widest: tuple[str, ...] = ()
    local = score is not _weight
    while heap:
        value, vertex = heapq.heappop(heap)
        if not alive >> vertex & 1 or value != current[vertex]:
            continue
        clique = around[vertex]
        cells = math.exp(min(logs[vertex] + sum(logs[other] for other in _bits(clique)), 700.0))
        total += cells
        if cells > largest:
            largest, widest = cells, (names[vertex], *(names[other] for other in _bits(clique)))
        order.append(names[vertex])
        alive &= ~(1 << vertex)
        touched = clique
        for other in _bits(clique):
            before = around[other]
            around[other] = (before | clique) & ~(1 << other) & ~(1 << vertex)
            if local and around[other] & ~before:
                touched |= around[other]
        for other in _bits(touched & alive):
            fresh = score(other, around, logs)
            if fresh != current[other]:
                current[other] = fresh
                heapq.heappush(heap, (fresh, other))
    last = math.exp(min(sum(logs[k] for k in kept), 700.0))
    if last > largest:
        largest, widest = last, tuple(names[k] for k in kept)
    return Order(tuple(order), total + last, largest, widest)
