"""Whether evidence is possible at all: a search for states to which no table gives the probability zero.

Each variable has a domain, the states that nothing has excluded yet, as the bits of an integer. A table whose variables
are almost all observed excludes states of the others; what it excludes is propagated to the tables that share them.
Then the variables that are left are given a state each, one after the other, and propagation tells early where that
can't be (maintaining arc consistency). Evidence is possible most of the time, and then the first states that are tried
will mostly do; this is several times faster than multiplying the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

_MOST_CONFIGURATIONS = 500
"""A table with more configurations of the hidden parents excludes nothing before some of them have fewer states."""
_MOST_TRIALS = 200
"""The search gives up after so many states that could not be, and more in proportion to the variables."""
_BITS = 64


class Supports(NamedTuple):
    """The states of a child that are possible given its parents.

    Attributes
    ----------
    states : as bits, for each configuration of the parents
    strides : the distance between configurations in which a parent has one state and the next
    """

    states: list[int]
    strides: tuple[int, ...]

    def estimate_bytes(self) -> int:
        """Return about how many bytes are held."""
        return 40 * len(self.states)


class _Constraint(NamedTuple):
    """A family some of whose parents are hidden.

    Attributes
    ----------
    states, offset : the supports, and where those begin that belong to the observed parents
    parents : the hidden parents and their strides
    child : the child if other constraints mention it too, else nothing
    known : the states of the child that its evidence, and what is below it, have left
    """

    states: list[int]
    offset: int
    parents: tuple[tuple[str, int], ...]
    child: str
    known: int


def find_supports(table: Values) -> Supports:
    """Return the states that a conditional table gives a probability above zero; the child is the last dimension.

    Examples
    --------
    >>> find_supports(np.array([[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]))
    Supports(states=[2, 5], strides=(1,))
    """
    positive: NDArray[np.bool_] = (table > 0).reshape(-1, table.shape[-1])
    packed = np.packbits(positive, axis=-1, bitorder="little")
    if table.shape[-1] <= _BITS:
        words = np.zeros((len(packed), _BITS // 8), dtype=np.uint8)
        words[:, : packed.shape[1]] = packed
        states = words.view("<u8")[:, 0].tolist()
    else:
        states = [int.from_bytes(row.tobytes(), "little") for row in packed]
    lengths = table.shape[:-1]
    return Supports(states, tuple([math.prod(lengths[place + 1 :]) for place in range(len(lengths))]))


def join_bits(states: Iterable[int]) -> int:
    """Return a set of states as the bits of an integer.

    Examples
    --------
    >>> join_bits([0, 2])
    5
    """
    return sum([1 << state for state in states])


@lru_cache(maxsize=10_000)
def _list_bits(mask: int) -> list[int]:
    return [place for place in range(mask.bit_length()) if mask >> place & 1]


def is_possible(
    families: Iterable[tuple[Sequence[str], Supports]],
    codes: Mapping[str, int],
    soft: Mapping[str, int],
    sizes: Mapping[str, int],
) -> bool | None:
    """Tell whether some states of the hidden variables are possible; None where the search would take too long.

    Parameters
    ----------
    families : the parents and the child, and the supports of the table; children before their parents
    codes : the observed states
    soft : for other variables, as bits, the states that evidence has not excluded
    sizes : the number of states of each variable

    Examples
    --------
    >>> copy, sizes = find_supports(np.eye(2)), {"a": 2, "b": 2, "c": 2}
    >>> families = [(("b", "c"), copy), (("a", "b"), copy)]
    >>> is_possible(families, {"a": 0, "c": 1}, {}, sizes), is_possible(families, {"a": 0, "c": 0}, {}, sizes)
    (False, True)
    """
    domains = dict(soft)
    constraints: list[_Constraint] = []
    touching: dict[str, list[int]] = {}
    waiting: dict[int, None] = {}
    for scope, (states, strides) in families:
        child = scope[-1]
        entangled = child in touching
        if child in codes:
            known = 1 << codes[child]
        elif child in domains and (entangled or domains[child] + 1 != 1 << sizes[child]):
            known = domains[child]
        else:
            continue  # a hidden child of which nothing else excludes states has a possible one anyway
        offset, parents = 0, []
        for name, stride in zip(scope, strides, strict=False):
            if name in codes:
                offset += codes[name] * stride
            else:
                parents.append((name, stride))
                if name not in domains:
                    domains[name] = (1 << sizes[name]) - 1
        if not parents:
            known &= states[offset]
            if not known:
                return False
            if entangled and known != domains[child]:
                domains[child] = known
                waiting.update(dict.fromkeys(touching[child]))
            continue
        constraint = _Constraint(states, offset, tuple(parents), child if entangled else "", known)
        changed, always = _revise(constraint, domains)
        if changed is None:
            return False
        for name in changed:
            waiting.update(dict.fromkeys(touching.get(name, ())))
        if not always:
            for name in (*[name for name, _ in parents], *([child] if entangled else ())):
                touching.setdefault(name, []).append(len(constraints))
            constraints.append(constraint)
    if not constraints:
        return True
    return _search(constraints, domains, touching, waiting)


def _search(
    constraints: Sequence[_Constraint],
    domains: dict[str, int],
    touching: dict[str, list[int]],
    waiting: Iterable[int],
) -> bool | None:
    """Give each variable a state, depth first; parents come before their children."""
    fulfilled: set[int] = set()
    if not _propagate(constraints, waiting, domains, touching, fulfilled):
        return False
    order: dict[str, None] = {}
    for number in range(len(constraints) - 1, -1, -1):
        if number not in fulfilled:
            order.update(dict.fromkeys([name for name, _ in constraints[number].parents]))
            if constraints[number].child:
                order[constraints[number].child] = None
    names = list(order)
    left = {name: [number for number in touching[name] if number not in fulfilled] for name in names}
    branches = [({name: domains[name] for name in names}, 0, "")]
    trials = _MOST_TRIALS + len(names)
    while branches:
        domains, place, changed = branches.pop()
        if changed and not _propagate(constraints, left[changed], domains, left):
            continue
        while place < len(names) and not (mask := domains[names[place]]) & (mask - 1):
            place += 1
        if place == len(names):
            return True
        if trials <= 0:
            return None
        trials -= 1
        name = names[place]
        first = domains[name] & -domains[name]
        branches.append(({**domains, name: domains[name] ^ first}, place, name))
        domains[name] = first
        branches.append((domains, place, name))
    return False


def _propagate(
    constraints: Sequence[_Constraint],
    numbers: Iterable[int],
    domains: dict[str, int],
    touching: Mapping[str, Sequence[int]],
    fulfilled: set[int] | None = None,
) -> bool:
    """Exclude what some constraints exclude, and what follows from that, from the domains; tell whether states are
    left.

    Constraints that all states fulfill are added to `fulfilled`.
    """
    waiting = dict.fromkeys(numbers)
    while waiting:
        number, _ = waiting.popitem()
        changed, always = _revise(constraints[number], domains)
        if changed is None:
            return False
        if always and fulfilled is not None:
            fulfilled.add(number)
        for name in changed:
            for other in touching.get(name, ()):
                if other != number and (fulfilled is None or other not in fulfilled):
                    waiting[other] = None
    return True


def _revise(constraint: _Constraint, domains: dict[str, int]) -> tuple[list[str] | None, bool]:
    """Exclude states that a constraint excludes from the domains of its variables.

    Returns the names of those whose domain has changed, None if it is empty, and whether all states that are left
    fulfill the constraint.
    """
    states, offset, parents, child, known = constraint
    if child:
        known = domains[child]
    changed: list[str] = []
    lists = [_list_bits(domains[name]) for name, _ in parents]
    if math.prod(map(len, lists)) > _MOST_CONFIGURATIONS:
        return changed, False
    starts = [offset]
    for (_, stride), own in zip(parents[:-1], lists, strict=False):
        starts = [start + stride * state for start in starts for state in own]
    steps = [parents[-1][1] * state for state in lists[-1]]
    rows = [states[start + step] & known for start in starts for step in steps]
    always = 0 not in rows
    if not always:
        left = [place for place, row in enumerate(rows) if row]
        if not left:
            return None, False
        for (name, _), own in zip(reversed(parents), reversed(lists), strict=True):
            count = len(own)
            kept = {place % count for place in left}
            if len(kept) < count:
                domains[name] = join_bits([own[place] for place in kept])
                changed.append(name)
            left = [place // count for place in left]
        # a table of one variable tells nothing more than its domain
        always = len(parents) == 1
    if not child:
        return changed, always
    possible = reduce(or_, rows)
    if possible != known:
        domains[child] = possible
        changed.append(child)
    return changed, always and rows.count(possible) + rows.count(0) == len(rows)
