"""Which potentials a question needs: barren and d-separated parts of the network are left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Literal

__all__ = ["Status", "ancestors", "find_requisite"]

Status = Literal["hidden", "soft", "hard"]


def ancestors(parents: Mapping[str, Collection[str]], names: Iterable[str]) -> set[str]:
    """Return the names and all their ancestors."""
    result: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in result:
            result.add(name)
            waiting.extend(parents[name])
    return result


def find_requisite(
    parents: Mapping[str, Collection[str]],
    children: Mapping[str, Collection[str]],
    targets: Iterable[str],
    status: Callable[[str], Status],
) -> set[str]:
    """Return the nodes whose potentials the posterior of the targets depends on (Shachter's Bayes ball, 1998).

    Parameters
    ----------
    status : function
        Of a node that the ball visits: "hard" if it is observed in every row, which stops the ball; "soft" if it has a
        likelihood or is observed in some rows only, which is like an observed child of it.
    """
    top: set[str] = set()
    bottom: set[str] = set()
    waiting = [(name, True) for name in targets]
    while waiting:
        name, from_child = waiting.pop()
        known = status(name)
        observed = known == "hard"
        if from_child and observed:
            continue
        upward = from_child or known != "hidden"
        if upward and name not in top:
            top.add(name)
            waiting.extend((parent, True) for parent in parents[name])
        if not observed and name not in bottom:
            bottom.add(name)
            waiting.extend((child, False) for child in children[name])
    return top
