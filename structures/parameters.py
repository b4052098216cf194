"""What all builders do last: learn the potentials of the structure that they found, with as few passes as possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from hybridbn.fitting.base import Fitter
from hybridbn.fitting.counts import single_counts
from hybridbn.fitting.multinomial import MultinomialFitter, MultinomialStatistics
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.structures.preparing import Prepared
from hybridbn.variables import Discrete, Values

__all__ = ["Counts", "counted", "fitted"]

Counts: TypeAlias = Mapping[tuple[str, ...], Values]
"""Tables of counts by the names of their dimensions, over the rows in which all of these are observed."""


def fitted(
    data: Prepared,
    parents: Mapping[str, Sequence[str]],
    counts: Counts | None = None,
    potentials: Mapping[tuple[str, ...], Potential] | None = None,
) -> Network:
    """Return the network with these parents, its potentials learned from the data.

    Parameters
    ----------
    data : Prepared
    parents : mapping from column to its parents
        Columns that are no keys are left out of the network.
    counts : mapping, optional
        Tables that are known already. A table of probabilities is made of one with the same names, in whatever order.
    potentials : mapping, optional
        Potentials that are learned already, by child and parents in their order.

    Notes
    -----
    Each potential is learned from the rows in which its child and parents are all observed (available cases). The
    tables of columns with nothing but a discrete target as parent are counted together in one pass.

    Examples
    --------
    >>> from hybridbn.structures.preparing import prepared
    >>> data = prepared({"a": ["x", "y", "y"], "c": ["n", "n", "p"]}, "c", "auto", None)
    >>> fitted(data, {"c": (), "a": ("c",)}).potential("a").table.round(2)
    array([[0.45, 0.55],
           [0.27, 0.73]])
    """
    known = {frozenset(names): (names, table) for names, table in (counts or {}).items()}
    alone = [
        child
        for child, given in parents.items()
        if tuple(given) == (data.target,)
        and frozenset((child, *given)) not in known
        and _is_counted(data, child, given)
    ]
    known |= {frozenset(names): (names, table) for names, table in counted(data, alone).items()}
    learned: list[Potential] = []
    for child, given in parents.items():
        ready = (potentials or {}).get((child, *given))
        if ready is not None:
            learned.append(ready)
            continue
        names, table = known.get(frozenset((child, *given)), ((), None))
        if table is None or not _is_counted(data, child, given):
            learned.append(data.fit(child, given))
            continue
        statistics = MultinomialStatistics(
            child=data.variable(child),
            parents=tuple(map(data.variable, given)),
            total=float(table.sum()),
            counts=np.ascontiguousarray(table.transpose([names.index(name) for name in (*given, child)])),
        )
        learned.append(data.fitter(child, given).potential(statistics))
    return Network(learned)


def counted(data: Prepared, names: Sequence[str]) -> dict[tuple[str, ...], Values]:
    """Return the table of each discrete column with the discrete target, in one pass.

    Examples
    --------
    >>> from hybridbn.structures.preparing import prepared
    >>> counted(prepared({"a": ["x", "y", "y"], "c": ["n", "n", "p"]}, "c", "auto", None), ["a"])
    {('c', 'a'): array([[1., 1.],
           [0., 1.]])}
    """
    if not names or data.target is None:
        return {}
    codes = [data.codes(name) for name in names]
    tables = single_counts(
        codes, [data.states(name) for name in names], data.codes(data.target), data.states(data.target), data.weights
    )
    return {(data.target, name): table for name, table in zip(names, tables, strict=True)}


def _is_counted(data: Prepared, child: str, given: Sequence[str]) -> bool:
    """Tell whether a family's fitter needs nothing but counts; a subclass may look at more."""
    if not all(isinstance(data.variable(name), Discrete) for name in (child, *given)):
        return False
    fitter: Fitter = data.fitter(child, given)
    cells = math.prod(data.states(name) for name in (child, *given))
    # one that is too wide is left to its fitter, which refuses it
    return type(fitter) is MultinomialFitter and 8 * cells <= fitter.max_bytes
