"""What all builders do last: learn the potentials of the structure that they found, with as few passes as possible."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hybridbn.fitting.base import Fitter
from hybridbn.fitting.counting import Counter
from hybridbn.fitting.multinomial import MultinomialStatistics, counts_suffice
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.structures.preparing import Prepared
from hybridbn.variables import Discrete

__all__ = ["count_families", "fitted"]


def fitted(
    data: Prepared,
    parents: Mapping[str, Sequence[str]],
    counter: Counter | None = None,
    potentials: Mapping[tuple[str, ...], Potential] | None = None,
) -> Network:
    """Return the network with these parents, its potentials learned from the data.

    Parameters
    ----------
    data : Prepared
    parents : mapping from column to its parents
        Columns that are no keys are left out of the network.
    counter : Counter, optional
        One that knows some tables already.
    potentials : mapping, optional
        Potentials that are learned already, by child and parents in their order.

    Notes
    -----
    Each potential is learned from the rows in which its child and parents are all observed (available cases). All
    tables of counts are one request.

    Examples
    --------
    >>> from hybridbn.structures.preparing import prepared
    >>> data = prepared({"a": ["x", "y", "y"], "c": ["n", "n", "p"]}, "c", "auto", None)
    >>> fitted(data, {"c": (), "a": ("c",)}).potential("a").table.round(2)
    array([[0.45, 0.55],
           [0.27, 0.73]])
    """
    known = potentials or {}
    unknown = {child: given for child, given in parents.items() if (child, *given) not in known}
    statistics = count_families(data, unknown, counter)
    return Network(
        [
            known[child, *given]
            if child not in unknown
            else data.fitter(child, given).potential(statistics[child])
            if child in statistics
            else data.fit(child, given)
            for child, given in parents.items()
        ]
    )


def count_families(
    data: Prepared, parents: Mapping[str, Sequence[str]], counter: Counter | None = None
) -> dict[str, MultinomialStatistics]:
    """Return the counts of those families whose fitters need nothing else, in one request.

    Examples
    --------
    >>> from hybridbn.structures.preparing import prepared
    >>> data = prepared({"a": ["x", "y", "y"], "c": ["n", "n", "p"]}, "c", "auto", None)
    >>> count_families(data, {"a": ("c",)})["a"].counts
    array([[1., 1.],
           [0., 1.]])
    """
    families = {child: (*given, child) for child, given in parents.items() if _is_counted(data, child, given)}
    if counter is None:
        counter = data.counter(list(dict.fromkeys(name for family in families.values() for name in family)))
    counts = counter.count(families.values())
    return {
        child: MultinomialStatistics(
            child=data.variable(child),
            parents=tuple(map(data.variable, family[:-1])),
            total=float(counts[family].sum()),
            counts=counts[family],
        )
        for child, family in families.items()
    }


def _is_counted(data: Prepared, child: str, given: Sequence[str]) -> bool:
    """Tell whether a family's fitter needs nothing but counts; a subclass may look at more."""
    if not all(isinstance(data.variable(name), Discrete) for name in (child, *given)):
        return False
    fitter: Fitter = data.fitter(child, given)
    cells = math.prod(data.states(name) for name in (child, *given))
    # one that is too wide is left to its fitter, which refuses it
    return counts_suffice(fitter) and 8 * cells <= fitter.max_bytes
