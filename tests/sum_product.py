"""Sum-product over named axes, as textbooks have it: a loop of products and sums.

The posterior of a variable in a discrete network is a sum over all other variables of a product of tables. Summing out
one variable after the other, each from the product of the tables that mention it, keeps the products small. Whatever
`hybridbn.inference.elimination.compilers` does beyond this loop is for speed: an order that is searched for, messages
in both directions, rows of evidence, products of matrices, and sums that are stored. Readers may begin here, and tests
compare with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hybridbn.variables import Values


class NamedTable(NamedTuple):
    """A table with a name for each of its axes."""

    names: tuple[str, ...]
    values: Values

    def sum_to(self, names: Sequence[str]) -> NamedTable:
        """Sum out all names but the given ones, which become the axes in this order."""
        kept = [name for name in self.names if name in names]
        values = self.values.sum(axis=tuple(i for i, name in enumerate(self.names) if name not in kept))
        return NamedTable(tuple(names), values.transpose([kept.index(name) for name in names]))

    def observe(self, codes: Mapping[str, int]) -> NamedTable:
        """Slice the table at the states that are observed."""
        index = tuple(codes.get(name, slice(None)) for name in self.names)
        return NamedTable(tuple(name for name in self.names if name not in codes), self.values[index])


def multiply(tables: Iterable[NamedTable]) -> NamedTable:
    """Return the product of tables, over all of their names.

    Examples
    --------
    >>> multiply([NamedTable(("a",), np.array([2.0, 3.0])), NamedTable(("b",), np.array([1.0, 10.0]))]).values
    array([[ 2., 20.],
           [ 3., 30.]])
    """
    tables = list(tables)
    names = tuple(dict.fromkeys(name for table in tables for name in table.names))
    product = np.ones([1] * len(names))
    for table in tables:
        own = table.values.transpose(sorted(range(len(table.names)), key=lambda i: names.index(table.names[i])))
        sizes = iter(own.shape)
        product = product * own.reshape([next(sizes) if name in table.names else 1 for name in names])
    return NamedTable(names, product)


def sum_product(tables: Iterable[NamedTable], keep: Sequence[str], order: Iterable[str] | None = None) -> NamedTable:
    """Return the sum of a product of tables over all names but those to keep.

    Parameters
    ----------
    tables : iterable of NamedTable
    keep : names of the result's axes, which some table has to mention
    order : in which the other names are summed out; it changes the work, not the result

    Examples
    --------
    >>> prior = NamedTable(("rain",), np.array([0.2, 0.8]))
    >>> wet = NamedTable(("rain", "wet"), np.array([[0.9, 0.1], [0.3, 0.7]]))
    >>> joint = sum_product([prior, wet.observe({"wet": 0})], ["rain"])
    >>> (joint.values / joint.values.sum()).round(3)
    array([0.429, 0.571])
    """
    waiting = list(tables)
    mentioned = dict.fromkeys(name for table in waiting for name in table.names)
    for name in mentioned if order is None else order:
        if name in mentioned and name not in keep:
            touching = [table for table in waiting if name in table.names]
            product = multiply(touching)
            waiting = [table for table in waiting if name not in table.names]
            waiting.append(product.sum_to([other for other in product.names if other != name]))
    return multiply(waiting).sum_to(keep)
