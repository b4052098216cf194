"""Junction trees: which names meet in one table, and which tables exchange messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

__all__ = ["Clique", "assign", "junction_tree"]


@dataclass
class Clique:
    """Names that meet in one table, its parent and the names shared with it, and what is multiplied here."""

    names: tuple[str, ...]
    parent: int | None
    separator: tuple[str, ...] = ()
    inputs: list[int] = field(default_factory=list)
    scopes: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    message: int = -1


def junction_tree(scopes: Iterable[tuple[str, ...]], order: Sequence[str], keep: tuple[str, ...]) -> list[Clique]:
    """Make cliques in elimination order, children before parents; the last one is the only root."""
    around: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            around.setdefault(name, set()).update(scope)
    cliques: list[Clique] = []
    home: dict[str, int] = {}
    place = {name: i for i, name in enumerate([*order, *keep])}
    for name in order:
        members = around.pop(name, {name})
        rest = members - {name}
        for other in rest:
            around[other] |= rest
            around[other].discard(name)
        home[name] = len(cliques)
        ranked = tuple(sorted(members, key=place.__getitem__))
        cliques.append(Clique(ranked, None, ranked[1:]))
    cliques.append(Clique(keep, None))
    last = len(cliques) - 1
    for clique in cliques[:-1]:
        first = next((name for name in clique.separator if name in home), None)
        clique.parent = last if first is None else home[first]
    # a clique whose parent holds nothing but their separator takes the parent's place
    into = list(range(len(cliques)))
    for i, clique in enumerate(cliques[:-1]):
        parent = clique.parent
        assert parent is not None
        if parent != last and into[parent] == parent and set(cliques[parent].names) == set(clique.separator):
            into[parent] = i

    def final(i: int) -> int:
        while into[i] != i:
            i = into[i]
        return i

    merged: dict[int, Clique] = {}
    for i, clique in enumerate(cliques):
        if into[i] != i:
            absorber = cliques[final(i)]
            absorber.parent, absorber.separator = clique.parent, clique.separator
    for i, clique in enumerate(cliques):
        if into[i] == i:
            if clique.parent is not None:
                clique.parent = final(clique.parent)
            merged[i] = clique
    return _children_first(merged, last)


def _children_first(cliques: dict[int, Clique], root: int) -> list[Clique]:
    below: dict[int, list[int]] = {i: [] for i in cliques}
    for i, clique in cliques.items():
        if clique.parent is not None:
            below[clique.parent].append(i)
    visited, waiting = [], [root]
    while waiting:
        i = waiting.pop()
        visited.append(i)
        waiting.extend(below[i])
    visited.reverse()
    number = {i: k for k, i in enumerate(visited)}
    ordered = [cliques[i] for i in visited]
    for i, clique in zip(visited, ordered, strict=True):
        clique.parent = None if clique.parent is None else number[clique.parent]
        clique.children = [number[child] for child in below[i]]
    return ordered


def assign(cliques: list[Clique], factors: Sequence[tuple[str, ...]], scopes: Sequence[tuple[str, ...]]) -> None:
    """Put every factor and every scope asked for into a clique that holds its names."""
    holding: dict[str, list[int]] = {}
    for i, clique in enumerate(cliques):
        for name in clique.names:
            holding.setdefault(name, []).append(i)

    def find(names: tuple[str, ...]) -> int:
        if not names:
            return len(cliques) - 1
        wanted = set(names)
        rarest = min(names, key=lambda name: len(holding[name]))
        return min((i for i in holding[rarest] if wanted <= set(cliques[i].names)), key=lambda i: len(cliques[i].names))

    for slot, factor in enumerate(factors):
        cliques[find(factor)].inputs.append(slot)
    if len(scopes) > 1:
        for number, scope in enumerate(scopes):
            cliques[find(scope)].scopes.append(number)
