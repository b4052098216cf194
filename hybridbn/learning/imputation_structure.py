"""The structure that imputation uses by default: discrete columns first, numbers after, each number a regression.

A number's parents are at most one discrete column and as many numbers as Akaike's information criterion (AIC) allows, so the
numbers keep their correlations; discrete columns depend on each other and never on numbers, so that all missing cells of
a row can be drawn together in closed form. AIC, because a dependence that is left out biases whatever is computed from the
completed table, while a needless one costs some noise: with BIC, slopes near the threshold came out too small. What a number tells about a discrete column is not lost by that: the arc is the
other way round, and Bayes' rule turns it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from hybridbn.fitting.counts import joint_counts, pair_counts
from hybridbn.table import Table
from hybridbn.variables import Codes, Discrete, Values

__all__ = ["best_target", "conditional_gaussian_arcs"]

Arc = tuple[str, str]

_MOST_CONFIGURATIONS = 64
"""Of the discrete columns that are parents of numbers together: each row may have to weigh them all."""
_ROWS_A_STATE = 8
"""A discrete column with fewer rows for each state is no parent of numbers."""
_RIDGE = 1e-6
_PRICE = 1.0
"""Of one more parameter, in log-likelihood: AIC."""
_FLOOR = 1e-9


def conditional_gaussian_arcs(table: Table, most_parents: int = 10) -> list[Arc]:
    """Return the arcs for a complete table.

    Parameters
    ----------
    table : Table
        Without missing cells.
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
    moments = _Moments.of(table, numbers, discrete)
    ties = {name: float(moments.with_numbers(name).sum()) for name in discrete}
    arcs = _discrete_arcs(table, discrete, ties, most_parents > 1)
    return arcs + _number_arcs(moments, numbers, discrete, ties, most_parents)


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


def _discrete_arcs(table: Table, names: Sequence[str], ties: Mapping[str, float], second: bool) -> list[Arc]:
    """Return the best forest of the discrete columns, with second parents where BIC allows them."""
    codes = [table.column(name) for name in names]
    sizes = [_states(table, name) for name in names]
    graph = nx.Graph()
    graph.add_nodes_from(names)
    if len(names) > 1:
        for (i, j), counts in pair_counts(codes, sizes).items():
            gain = _log_likelihood(counts) - _log_likelihood(counts.sum(axis=0)[None])
            gain -= 0.5 * np.log(max(len(table), 2)) * (np.count_nonzero(counts.sum(1)) - 1) * (sizes[j] - 1)
            if gain > 0:
                graph.add_edge(names[i], names[j], weight=gain)
    forest = nx.maximum_spanning_tree(graph)
    parents: dict[str, list[str]] = {name: [] for name in names}
    order: list[str] = []
    for component in sorted(nx.connected_components(forest), key=lambda nodes: min(names.index(n) for n in nodes)):
        root = max(component, key=lambda name: (ties[name], -names.index(name)))
        order.append(root)
        for parent, child in nx.bfs_edges(forest, root):
            parents[child].append(parent)
            order.append(child)
    if second:
        place = {name: i for i, name in enumerate(names)}
        for position, child in enumerate(order):
            rivals = [name for name in order[:position] if graph.has_edge(name, child) and name not in parents[child]]
            scores: dict[tuple[str, ...], float] = {(): _family_score(child, parents[child], place, codes, sizes)}
            scores |= {(r,): _family_score(child, [*parents[child], r], place, codes, sizes) for r in rivals}
            parents[child].extend(max(scores.items(), key=lambda entry: entry[1])[0])
    return [(parent, child) for child in order for parent in parents[child]]


def _family_score(
    child: str, parents: Sequence[str], place: Mapping[str, int], codes: Sequence[Codes], sizes: Sequence[int]
) -> float:
    chosen = [place[name] for name in (*parents, child)]
    cells = float(np.prod([sizes[i] for i in chosen]))
    rows = len(codes[0])
    if cells > max(rows, 64):
        return -np.inf
    counts = joint_counts([codes[i] for i in chosen], [sizes[i] for i in chosen]).reshape(-1, sizes[place[child]])
    free = np.count_nonzero(counts.sum(axis=1)) * (counts.shape[1] - 1)
    return _log_likelihood(counts) - 0.5 * free * float(np.log(rows))


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
class _Moments:
    """Sums of products of 1 and the standardized numbers, for each state of each discrete column (None: all rows)."""

    tables: Mapping[str | None, Values]
    rows: int

    @classmethod
    def of(cls, table: Table, numbers: Sequence[str], discrete: Sequence[str]) -> _Moments:
        values = np.array([table.column(name) for name in numbers]).reshape(len(numbers), len(table))
        centered = values - values.mean(axis=1, keepdims=True)
        deviations = np.sqrt(np.square(centered).mean(axis=1, keepdims=True))
        rows = np.concatenate([np.ones((1, len(table))), centered / np.where(deviations > 0, deviations, 1.0)]).T
        tables: dict[str | None, Values] = {None: (rows.T @ rows)[None]}
        for name in discrete if numbers else ():
            codes = table.column(name)
            if _states(table, name) * _ROWS_A_STATE > len(table):
                continue
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=_states(table, name)))
            parts = np.split(rows[order], ends[:-1])
            tables[name] = np.array([part.T @ part for part in parts])
        return cls(tables, len(table))

    def scores(self, child: int, discrete: str | None, parents: Sequence[int], rivals: Sequence[int]) -> Values:
        """Return the score of a number given a discrete column, these numbers, and each rival in turn."""
        table = self.tables[discrete]
        chosen = np.array([[0, *(i + 1 for i in parents), rival + 1] for rival in rivals], dtype=np.intp)
        return self._criterion(table, child + 1, chosen)

    def score(self, child: int, discrete: str | None, parents: Sequence[int]) -> float:
        """Return the score of a number given a discrete column and these numbers."""
        return float(self._criterion(self.tables[discrete], child + 1, np.array([[0, *(i + 1 for i in parents)]]))[0])

    def with_numbers(self, name: str) -> Values:
        """Return the gain in score that a discrete column brings to each number alone; zeros where it brings none."""
        numbers = self.tables[None].shape[-1] - 1
        if name not in self.tables:
            return np.zeros(numbers)
        gains = [self.score(i, name, ()) - self.score(i, None, ()) for i in range(numbers)]
        return np.asarray(np.maximum(np.array(gains), 0.0))

    def _criterion(self, table: Values, child: int, chosen: Codes) -> Values:
        weights = table[:, 0, 0]
        pooled = table.sum(axis=0)[None]
        common, residual = self._regressed(pooled, np.array([float(self.rows)]), child, chosen)
        variance = np.maximum(residual[:, 0] / self.rows, _FLOOR)
        free = chosen.shape[1] + 1
        if len(table) == 1:
            return np.asarray(-0.5 * self.rows * np.log(variance) - 0.5 * self.rows - free * _PRICE)
        # a state of few rows gets the regression of all rows, as in the fitter
        enough = weights >= free
        _, own = self._regressed(table, np.where(enough, weights, 1.0), child, chosen)
        own = np.maximum(own / np.where(enough, weights, 1.0), _FLOOR)
        logs = -0.5 * weights * (np.log(own) + 1)
        within, across = self._systems(table, child, chosen)
        left = table[:, child, child] - 2 * np.einsum("rsi,ri->rs", across, common[:, 0])
        left += np.einsum("ri,rsij,rj->rs", common[:, 0], within, common[:, 0])
        shared = -0.5 * weights * np.log(variance)[:, None] - 0.5 * left / variance[:, None]
        occurring = enough & (weights > 0)
        count = free * (occurring.sum() + bool((~enough & (weights > 0)).any()))
        return np.asarray(np.where(enough, logs, shared).sum(axis=1) - count * _PRICE)

    def _systems(self, table: Values, child: int, chosen: Codes) -> tuple[Values, Values]:
        within = table[:, chosen[:, :, None], chosen[:, None, :]].transpose(1, 0, 2, 3)
        return within, table[:, chosen, child].transpose(1, 0, 2)

    def _regressed(self, table: Values, weights: Values, child: int, chosen: Codes) -> tuple[Values, Values]:
        """Return coefficients (rivals, states, chosen) and residual sums of squares (rivals, states)."""
        within, across = self._systems(table, child, chosen)
        damped = within + _RIDGE * np.maximum(weights, 1.0)[:, None, None] * np.eye(chosen.shape[1])
        found = np.linalg.solve(damped, across[..., None])[..., 0]
        explained = 2 * (found * across).sum(axis=-1) - np.einsum("rsi,rsij,rsj->rs", found, within, found)
        return np.asarray(found), np.asarray(np.maximum(table[:, child, child] - explained, 0.0))


def _number_arcs(
    moments: _Moments, numbers: Sequence[str], discrete: Sequence[str], ties: Mapping[str, float], most: int
) -> list[Arc]:
    """Return the parents of the numbers, those with most correlation being first in line."""
    candidates: list[str] = []
    configurations = 1
    for name in sorted(discrete, key=lambda name: (-ties[name], discrete.index(name))):
        states = len(moments.tables[name]) if name in moments.tables else 0
        if states and ties[name] > 0 and configurations * states <= _MOST_CONFIGURATIONS:
            candidates.append(name)
            configurations *= states
    correlations = np.abs(moments.tables[None][0, 1:, 1:])
    order = np.argsort(-correlations.sum(axis=1), kind="stable").tolist()
    arcs: list[Arc] = []
    for position, child in enumerate(order):
        earlier = order[:position]
        best: tuple[float, str | None, list[int]] = (-np.inf, None, [])
        alone = {name: moments.score(child, name, ()) for name in candidates}
        for given in dict.fromkeys((None, max(alone, key=lambda name: alone[name], default=None))):
            found = _selected(moments, child, given, earlier, most - (given is not None))
            best = max(best, (found[0], given, found[1]), key=lambda entry: entry[0])
        _, given, parents = best
        arcs += [] if given is None else [(given, numbers[child])]
        arcs += [(numbers[parent], numbers[child]) for parent in parents]
    return arcs


def _selected(
    moments: _Moments, child: int, given: str | None, earlier: Sequence[int], most: int
) -> tuple[float, list[int]]:
    """Add the number that raises the score most, as long as one does."""
    parents: list[int] = []
    score = moments.score(child, given, ())
    while len(parents) < most:
        rivals = [i for i in earlier if i not in parents]
        if not rivals:
            break
        scores = moments.scores(child, given, parents, rivals)
        best = int(np.argmax(scores))
        if not scores[best] > score:
            break
        parents.append(rivals[best])
        score = float(scores[best])
    return score, parents
