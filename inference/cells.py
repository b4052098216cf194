"""Posteriors of variables that inference saw through their cells only: the prior's shape in each cell, reweighted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridbn.inference.axes import ORDER, CellAxis, cell_points, legendre
from hybridbn.inference.evidence import Evidence
from hybridbn.inference.posteriors.grid import CellPosterior
from hybridbn.inference.problem import Problem
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["cell_posterior"]

TAIL = 1e-17
ENOUGH = 1e-13
ROUNDS = 12


def cell_posterior(
    problem: Problem,
    name: str,
    axis: CellAxis,
    table: Values,
    evidence: Evidence,
    single: bool,
    error: Values,
    log_evidence: Any,
) -> CellPosterior:
    """Return the posterior whose probabilities of hidden parents and cells are `table` (*parents, cells, rows)."""
    potential = problem.potentials[name]
    child = potential.child
    assert isinstance(child, Continuous)
    points: dict[str, Any] = {}
    for position, parent in enumerate(potential.parents):
        if parent.name not in problem.hard:
            points[parent.name] = problem.axes[parent.name].points
            continue
        # an observed parent gets a dimension in which each row has one place
        values = evidence.findings[parent.name].values
        if isinstance(parent, Discrete):
            points[parent.name], chosen = np.arange(len(parent)), values
        else:
            inner = potential.breaks(parent.name)
            inner = inner[(inner > parent.domain[0]) & (inner < parent.domain[1])]
            points[parent.name] = cell_points(np.concatenate([parent.domain[:1], inner, parent.domain[1:]]))
            chosen = np.searchsorted(inner, values, side="right")
        places = np.arange(len(points[parent.name]))[:, None] == chosen
        shape = [len(places) if i == position else 1 for i in range(table.ndim)]
        table = np.expand_dims(table, position) * places.reshape([*shape, len(chosen)])
    low, high, shapes = _shapes(potential, points, axis)
    weights = table.reshape(-1, table.shape[-1])
    closed_form = _ClosedForm(potential, axis.edges, points)
    own = evidence.findings.get(name)
    observed = own.values if own is not None and own.observed.any() else None
    low, high = low[:, None], high[:, None]
    return CellPosterior(child, low, high, shapes, weights, closed_form, single, error, log_evidence, observed)


@dataclass(frozen=True)
class _ClosedForm:
    """The posterior as the variable's own potential times a function that is constant in each cell, parents summed out."""

    potential: Potential
    edges: Values
    points: Mapping[str, Any]

    def __call__(self, weights: Values) -> Potential | None:
        if any(isinstance(parent, Continuous) for parent in self.potential.parents):
            return None
        mass, scale = self.potential.mass(self.points, self.edges)
        found = weights.reshape(mass.shape)
        factors = np.divide(found, mass * np.exp(scale), out=np.zeros_like(found), where=found > 0)
        return self.potential.reweighted(self.edges, factors)


def _shapes(potential: Potential, points: dict[str, Any], axis: CellAxis) -> tuple[Values, Values, Values]:
    """Return fine cells and, for each combination of parents and cell, the probability at every node given that cell.

    The fine cells cut the axis' cells at the potential's own breaks, and are halved until the density is a polynomial in each.
    """
    name = potential.child.name
    support = potential.support(name, TAIL)
    low_end, high_end = float(np.min(support[0])), float(np.max(support[1]))
    inner = np.concatenate([axis.edges, potential.breaks(name)])
    edges = np.unique(np.clip(inner[np.isfinite(inner)], low_end, high_end))
    edges = np.unique(np.concatenate([[low_end], edges, [high_end]]))
    nodes, weights, transform = legendre()
    for _ in range(ROUNDS):
        low, high = edges[:-1], edges[1:]
        half = (high - low) / 2
        x = ((low + half)[:, None] + half[:, None] * nodes).ravel()
        density, scale = potential.on({**points, name: x})
        values = density.reshape(-1, len(low), ORDER) * np.exp(np.max(scale)) * half[:, None]
        coefficients = np.einsum("kq,pcq->pck", transform, values)
        rough = (np.abs(coefficients[..., -2:]).max(axis=-1) > ENOUGH).any(axis=0)
        if not rough.any():
            break
        edges = np.sort(np.concatenate([edges, (low + half)[rough]]))
    masses = (values * weights).reshape(values.shape[0], -1)
    cell = np.clip(np.searchsorted(axis.edges, (low + half), side="right") - 1, 0, axis.size - 1)
    inside = np.repeat(cell, ORDER)[:, None] == np.arange(axis.size)
    per_cell = masses[:, :, None] * inside
    total = per_cell.sum(axis=1, keepdims=True)
    shapes = np.divide(per_cell, total, out=np.zeros_like(per_cell), where=total > 0)
    return low, high, np.moveaxis(shapes, 1, 0).reshape(len(x), -1)
