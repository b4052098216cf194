"""Densities of continuous variables as sums of weighted parts, one for each slice or draw of other variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.engines import EngineRequest, Solution
from hybridbn.inference.posteriors.continuous import ContinuousPosterior
from hybridbn.inference.posteriors.weighted_mixture import WeightedMixture
from hybridbn.variables import Continuous, Values

__all__ = ["DensitySums"]


class DensitySums:
    """The densities of the targets that have no table: sums of weighted parts.

    Attributes
    ----------
    numbers : of these targets
    """

    def __init__(self, request: EngineRequest, cut: Collection[str], *, sampled: bool) -> None:
        problem, question = request.problem, request.question
        self.numbers: dict[int, str] = {}
        if not question.joint and not question.over:
            self.numbers = {
                number: name
                for number, name in enumerate(question.targets)
                if name in problem.component_of or (sampled and name in problem.nodes)
            }
        self._drawn = frozenset(cut)
        self._sums = {}
        for number, name in self.numbers.items():
            variable = problem.potentials[name].child
            assert isinstance(variable, Continuous)
            self._sums[number] = WeightedMixture(variable, sampled=sampled)

    def add(self, part: Solution, values: Mapping[str, NDArray[Any]], weights: Values, log_scale: float) -> None:
        """Add the slices in a solution, with a weight for each of its rows."""
        components: dict[int, list[int]] = {}
        for number, name in self.numbers.items():
            if name in values:
                own = values[name][part.rows]
                self._sums[number].add(weights, own, np.zeros(len(own)), log_scale)
            else:
                components.setdefault(id(part.problem.component_of[name]), []).append(number)
        for numbers in components.values():
            names = tuple(self.numbers[number] for number in numbers)
            component = part.problem.component_of[names[0]]
            means, variances = component.marginals(names, part.axes, part.evidence)
            for number, mean, variance in zip(numbers, means, variances, strict=True):
                table = part.tables[number] * weights
                mean, variance = np.broadcast_to(mean, table.shape), np.broadcast_to(variance, table.shape)
                self._sums[number].add(table.ravel(), mean.ravel(), variance.ravel(), log_scale)

    def posteriors(self, effective: float | None = None) -> dict[int, ContinuousPosterior]:
        """Return the densities; of variables that were drawn, with the size of the effective sample."""
        return {
            number: self._sums[number].posterior(effective if name in self._drawn else None)
            for number, name in self.numbers.items()
        }
