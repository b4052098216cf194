"""The structure that imputation uses by default: discrete columns first, numbers after, each number a regression.

A number's parents are the discrete columns and the numbers before it that Akaike's information criterion (AIC) allows, each
discrete column with one effect for each state; discrete columns depend on each other and never on numbers, so that all
missing cells of a row can be drawn together in closed form. What a number tells about a discrete column is not lost by that:
the arc is the other way round, and Bayes' rule turns it. AIC, because a dependence that is left out biases whatever is
computed from the completed table, while a needless one costs some noise: with BIC, slopes near the threshold came out too
small.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hybridbn.fitting.counts import joint_counts
from hybridbn.table import Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["best_target", "conditional_gaussian_arcs"]

Arc = tuple[str, str]

_MOST_CONFIGURATIONS = 512
"""Of the discrete columns that are parents of numbers together: a row may have to weigh all of them."""
_MOST_GIVEN = 6
"""Of these columns: each combination of them that is missing somewhere takes a pass."""
_ROWS_A_STATE = 8
"""A discrete column with fewer rows for each state is no parent of numbers."""
_MOST_DISCRETE = 3
"""Parents of a discrete column, at most."""
_PRICE = 1.0
"""Of one more parameter, in log-likelihood: AIC."""
_SAME = 1e-9
"""A column of which others leave less than this share is a combination of them."""


def conditional_gaussian_arcs(
    table: Table, observed: Mapping[str, float] | None = None, most_parents: int = 20
) -> list[Arc]:
    """Return the arcs for a complete table.

    Parameters
    ----------
    table : Table
        Without missing cells.
    observed : mapping from column to float, optional
        How many cells of a column count as evidence, where some have been filled in.
    most_parents : int
        The most parents of a number; 1 makes a tree.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(2, 200))
    >>> c = np.where(x + rng.normal(size=200) > 0, "b", "a")
    >>> sorted(conditional_gaussian_arcs(Table({"x": x, "y": x + noise, "z": rng.normal(size=200), "c": c})))
    [('c', 'x'), ('c', 'y'), ('y', 'x'), ('y', 'z')]
    """
    discrete = [name for name in table.names if table.is_discrete(name)]
    numbers = [name for name in table.names if not table.is_discrete(name)]
    design = _Design.of(table, numbers, discrete, observed or {})
    ties = dict.fromkeys(discrete, 0.0)
    for name in set(discrete) & set(design.places):
        ties[name] = sum(max(float(design.gains(child, [name], design.products)[0]), 0.0) for child in numbers)
    arcs = _discrete_arcs(table, discrete, ties, min(most_parents, _MOST_DISCRETE))
    return arcs + _number_arcs(design, numbers, discrete, ties, most_parents)


def best_target(table: Table) -> str:
    """Return the column of a complete table that tells most about all the others together, of equals the first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, a, b = rng.normal(size=(3, 200))
    >>> best_target(Table({"a": x + a, "x": x, "b": x + b}))
    'x'
    """
    names = list(table.names)
    columns = [_indicators(table, name) for name in names]
    told = np.zeros(len(names))
    for i, j in itertools.combinations(range(len(names)), 2):
        told[[i, j]] += _association(columns[i], columns[j])
    return names[int(np.argmax(told))]


def _indicators(table: Table, name: str) -> Values:
    """Return a column as an orthonormal basis: of its ranks, or of its states."""
    variable, cells = table.variable(name), table.column(name)
    if isinstance(variable, Discrete):
        found = np.eye(len(variable))[cells]
    else:
        found = np.argsort(np.argsort(cells, kind="stable"), kind="stable").astype(np.float64)[:, None]
    u, s, _ = np.linalg.svd(found - found.mean(axis=0), full_matrices=False)
    return np.asarray(u[:, s > 1e-9 * max(float(s.max(initial=0.0)), 1.0)])


def _association(a: Values, b: Values) -> float:
    """Return the mutual information of the canonical variables, were they normal, less what chance makes of it."""
    correlations = np.linalg.svd(a.T @ b, compute_uv=False)
    told = -0.5 * np.log1p(-(np.minimum(correlations, 0.9999) ** 2)).sum()
    return float(max(told - 0.5 * a.shape[1] * b.shape[1] / len(a), 0.0))


# -- discrete columns -----------------------------------------------------------------------------------------------


def _discrete_arcs(table: Table, names: Sequence[str], ties: Mapping[str, float], most: int) -> list[Arc]:
    """Return the parents of the discrete columns, those that tell most about others being first in line."""
    codes = {name: table.column(name) for name in names}
    sizes = {name: _states(table, name) for name in names}
    scores = {name: _family_score([name], codes, sizes) for name in names}
    told = dict(ties)
    for first, second in itertools.combinations(names, 2):
        gain = _family_score([first, second], codes, sizes) - scores[second]
        told[first] += max(gain, 0.0)
        told[second] += max(gain, 0.0)
    order = sorted(names, key=lambda name: (-told[name], names.index(name)))
    arcs: list[Arc] = []
    for position, child in enumerate(order):
        parents: list[str] = []
        best = scores[child]
        while len(parents) < most:
            rivals = [name for name in order[:position] if name not in parents]
            found = {rival: _family_score([*parents, rival, child], codes, sizes) for rival in rivals}
            rival = max(found, key=lambda name: found[name], default="")
            if not found or found[rival] <= best:
                break
            parents.append(rival)
            best = found[rival]
        arcs += [(parent, child) for parent in parents]
    return arcs


def _family_score(names: Sequence[str], codes: Mapping[str, Codes], sizes: Mapping[str, int]) -> float:
    """Return the greatest log-likelihood of the last column given the others, less the price of its parameters."""
    rows = len(codes[names[0]])
    if float(np.prod([sizes[name] for name in names])) > max(rows, 64):
        return -np.inf
    counts = joint_counts([codes[name] for name in names], [sizes[name] for name in names])
    counts = counts.reshape(-1, sizes[names[-1]])
    free = np.count_nonzero(counts.sum(axis=1)) * (counts.shape[1] - 1)
    return _log_likelihood(counts) - free * _PRICE


def _log_likelihood(counts: Values) -> float:
    """Return the greatest log-likelihood of a table of counts, the child last."""
    total = counts.sum(axis=-1, keepdims=True)
    ratio = np.divide(counts, total, out=np.ones_like(counts, dtype=np.float64), where=counts > 0)
    return float((counts * np.log(ratio)).sum())


def _states(table: Table, name: str) -> int:
    variable = table.variable(name)
    return len(variable.states) if isinstance(variable, Discrete) else 0


# -- numbers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Design:
    """Products of centered columns: standardized numbers, and an indicator for each state of the discrete columns.

    Attributes
    ----------
    products : ndarray (columns, columns)
    places : mapping from name to ndarray
        The columns of a number (one) or of the states of a discrete column (all of them, so one too many).
    observed : mapping from name to float
        How many observed cells speak for a number's parents.
    """

    products: Values
    places: Mapping[str, Codes]
    observed: Mapping[str, float]

    @classmethod
    def of(
        cls, table: Table, numbers: Sequence[str], discrete: Sequence[str], observed: Mapping[str, float]
    ) -> _Design:
        columns: list[Values] = []
        places = {}
        for name in numbers:
            values = table.column(name) - table.column(name).mean()
            deviation = float(np.sqrt(np.square(values).mean()))
            places[name] = np.array([len(columns)])
            columns.append(values / (deviation or 1.0))
        for name in discrete:
            codes, size = table.column(name), _states(table, name)
            # a state of few rows would get whatever effect these have
            if numbers and size * _ROWS_A_STATE <= len(table):
                places[name] = np.arange(len(columns), len(columns) + size)
                columns.extend((codes == code) - np.mean(codes == code) for code in range(size))
        stacked = np.array(columns).reshape(len(columns), len(table))
        return cls(stacked @ stacked.T, places, {name: observed.get(name, float(len(table))) for name in numbers})

    def gains(self, child: str, rivals: Sequence[str], left: Values) -> Values:
        """Return how much each rival raises the score of a number, given the products that are left."""
        place = self.places[child][0]
        sizes = np.array([max(len(self.places[rival]) - 1, 1) for rival in rivals])
        explained = np.zeros(len(rivals))
        single = np.array([len(self.places[rival]) == 1 for rival in rivals], dtype=bool)
        columns = np.array([self.places[rival][0] for rival in rivals], dtype=np.intp)
        own = left[columns, columns]
        usable = single & (own > _SAME * self.products[columns, columns])
        explained[usable] = left[columns[usable], place] ** 2 / own[usable]
        for i in np.flatnonzero(~single).tolist():
            group = self.places[rivals[i]]
            across = left[group, place]
            explained[i] = across @ np.linalg.pinv(left[np.ix_(group, group)], rcond=_SAME, hermitian=True) @ across
        rest = max(float(left[place, place]), _SAME * self.products[place, place])
        share = np.clip(explained / rest, 0.0, 1 - _SAME)
        rows = self.observed[child]
        return np.asarray(-0.5 * rows * np.log1p(-share) - sizes * _PRICE)

    def without(self, name: str, left: Values) -> Values:
        """Return the products of what a column leaves unexplained of all others."""
        group = self.places[name]
        across = left[:, group]
        inverse = np.linalg.pinv(left[np.ix_(group, group)], rcond=_SAME, hermitian=True)
        return np.asarray(left - across @ inverse @ across.T)


def _number_arcs(
    design: _Design, numbers: Sequence[str], discrete: Sequence[str], ties: Mapping[str, float], most: int
) -> list[Arc]:
    """Return the parents of the numbers, those with most correlation being first in line."""
    candidates: list[str] = []
    configurations = 1
    for name in sorted(discrete, key=lambda name: (-ties[name], discrete.index(name))):
        states = len(design.places.get(name, ()))
        if ties[name] > 0 and configurations * states <= _MOST_CONFIGURATIONS and len(candidates) < _MOST_GIVEN:
            candidates.append(name)
            configurations *= states
    size = len(numbers)
    correlations = np.abs(design.products[:size, :size]).sum(axis=1)
    order = [numbers[i] for i in np.argsort(-correlations, kind="stable")]
    return [
        (parent, child)
        for position, child in enumerate(order)
        for parent in _selected(design, child, [*candidates, *order[:position]], most)
    ]


def _selected(design: _Design, child: str, rivals: Sequence[str], most: int) -> list[str]:
    """Add the column that raises the score most, as long as one does."""
    parents: list[str] = []
    left = design.products
    rest = list(rivals)
    while rest and len(parents) < most:
        gains = design.gains(child, rest, left)
        best = int(np.argmax(gains))
        if not gains[best] > 0:
            break
        left = design.without(rest[best], left)
        parents.append(rest.pop(best))
    return parents
