"""Which potentials a question needs: barren and d-separated parts of the network are left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from hybridbn.inference.evidence import Finding

__all__ = ["Status", "ancestors", "find_requisite", "status_of"]

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
    from_children, from_parents = list(targets), list[str]()
    while from_children or from_parents:
        if from_children:
            name = from_children.pop()
            if name in bottom and name in top:
                continue
            known = status(name)
            if known == "hard":
                continue
            upward = True
        else:
            name = from_parents.pop()
            known = status(name)
            upward = known != "hidden"
        if upward and name not in top:
            top.add(name)
            from_children.extend(parents[name])
        if known != "hard" and name not in bottom:
            bottom.add(name)
            from_parents.extend(children[name])
    return top


def status_of(finding: Finding | None) -> Status:
    """Return whether a finding counts as "hidden", "hard" or "soft" for relevance."""
    return "hidden" if finding is None or finding.empty else "hard" if finding.hard else "soft"
