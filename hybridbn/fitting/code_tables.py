"""Probabilities of the codes of a column: how often each occurs, and what the density of its numbers tells of it.

A density learns from neighbors: of a code that few rows have, those beside it tell more. Frequencies are shrunk to the
masses of the density between the middles of neighboring codes: in each configuration of discrete parents, or in each
cell of continuous ones in which the density is the same. What the density is worth maximizes the evidence, as of
Dirichlet priors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from scipy.special import gammaln

from hybridbn.fitting.mte import Leaf, MTEStatistics
from hybridbn.fitting.mte.pieces import assemble_terms, write_probabilities
from hybridbn.potentials import MTE, Binned, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.variables import Codes, Continuous, Discrete, Values

STRENGTHS = 2.0 ** np.arange(-2, 7.5, 0.5)
"""What the density may be worth, in rows."""
EVEN_SHARE = 0.05
"""The share of the same probability for all codes in what frequencies are shrunk to, as a density may miss some."""


def find_rest(counts: Values) -> float:
    """Return the probability of a number at none of some points, given how many rows are at each: about the share of
    rows that are the only ones at a point (Good and Turing).

    Examples
    --------
    >>> find_rest(np.array([40.0, 58.0, 1.0]))
    0.015
    """
    return float(((counts > 0) & (counts <= 1)).sum() + 0.5) / (float(counts.sum()) + 1.0)


def tabulate(component: Discrete, points: Values, density: Potential, counts: Values | None, rest: float) -> Potential:
    """Return the probabilities of points, and of a number at none of them, given the parents of a density.

    Parameters
    ----------
    component : Discrete
        Which point a number is at.
    points : ndarray (points,)
    density : Potential
        Of the number given the parents.
    counts : ndarray (configurations ..., points + 1), optional
        Given discrete parents; without them, the density alone tells the probabilities.
    rest : float
        The probability of a number at none of the points.
    """
    binned = Binned(component, density=density, edges=(points[1:] + points[:-1]) / 2, rest=rest)
    smooth = binned.probabilities()
    if smooth is None or counts is None:
        return binned
    parents = cast(Sequence[Discrete], density.parents)
    return Multinomial(component, parents, table=_shrink(counts, smooth, binned.rest), normalize=True)


def tabulate_cells(
    component: Discrete,
    points: Values,
    statistics: MTEStatistics,
    leaves: Sequence[Leaf],
    codes: Codes,
    rest: float,
) -> Potential:
    """Return the probabilities of points, and of a number at none of them, in the cells of a density's parents.

    Parameters
    ----------
    component, points, rest : as in `tabulate`
    statistics : MTEStatistics
        That the density was learned from.
    leaves : sequence of Leaf
        With the density in each.
    codes : ndarray (rows,)
        The component.
    """
    child, parents = cast(Continuous, statistics.child), statistics.parents
    densities = [MTE._of((child,), (leaf.content,), mass_error=0.0) for leaf in leaves]
    smooth = np.array([tabulate(component, points, density, None, rest).probabilities() for density in densities])
    counts = np.array(
        [np.bincount(codes[leaf.rows], statistics.weights[leaf.rows], len(component)) for leaf in leaves], np.float64
    )
    contents = map(write_probabilities, _shrink(counts, smooth, rest))
    parts = [(box, content) for leaf, content in zip(leaves, contents, strict=True) for box in leaf.boxes]
    return MTE._of((*parents, component), (assemble_terms(parents, component, parts),), mass_error=0.0)


def _shrink(counts: Values, smooth: Values, rest: float) -> Values:
    """Return counts (..., points + 1) shrunk to probabilities, those of the points; the last one stays as it is."""
    states = counts.shape[-1] - 1
    own = counts[..., :-1].reshape(-1, states)
    prior = (1 - EVEN_SHARE) / (1 - rest) * smooth[..., :-1].reshape(-1, states) + EVEN_SHARE / states
    table = own + _find_strength(own, prior) * prior
    table *= (1 - rest) / table.sum(axis=1, keepdims=True)
    return np.concatenate([table, np.full((len(table), 1), rest)], axis=1).reshape(counts.shape)


def _find_strength(counts: Values, prior: Values) -> float:
    """Return the number of rows that a prior (configurations, points) is most likely worth."""
    totals = counts.sum(axis=1)
    evidence = [
        (gammaln(worth) - gammaln(worth + totals)).sum()
        + (gammaln(counts + worth * prior) - gammaln(worth * prior)).sum()
        for worth in STRENGTHS
    ]
    return float(STRENGTHS[int(np.argmax(evidence))])
