"""Choosing the number of components of a mixture, the covariance in them, or kernels, by held-out rows or BIC."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.fitting.cross_validation import deal_folds, is_clearly_less
from hybridbn.structures.mixture_em import (
    MixtureFit,
    compute_responsibilities,
    continue_fits,
    measure_correlations,
    score_held_out,
    score_kernels,
    start_fits,
)
from hybridbn.structures.mixture_statistics import PRIOR_VARIANCE, Covariance, MixtureStatistics, count_covariances
from hybridbn.variables import Values

__all__ = ["FORMS", "Criterion", "FormSearch", "MixtureForm", "list_forms"]

Criterion = Literal["held_out", "bic"]

PATIENCE = 2
"""The search stops when this many numbers of components in a row are no better than the best."""
CATCH_UP = 2.0
"""A covariance is given up when it would take more gains like its last one to be the best."""
CORRELATED = 4.0
"""Numbers are independent in the components if their correlations are fewer standard deviations from that."""
LEAST_PRIOR, MOST_PRIOR = 5e-7, 0.5
"""Between these is the variance of a covariance's prior, which is chosen by held-out rows."""
FORMS: dict[Covariance, int] = {"diagonal": 0, "tied": 2, "full": 2, "tree": 3, "factors": 5}
"""The covariances, and how many numbers there are at least if they differ from those before them."""


class MixtureForm(NamedTuple):
    """What a mixture is like.

    Attributes
    ----------
    components : int
    covariance : Covariance
    prior_variance : float
        Of the numbers with a common covariance.
    kernels : bool
        Whether kernels about the rows stand in the place of the components.
    """

    components: int
    covariance: Covariance
    prior_variance: float = PRIOR_VARIANCE
    kernels: bool = False


def list_forms(numbers: int) -> list[Covariance]:
    """Return the covariances that differ from each other for so many numbers.

    Examples
    --------
    >>> list_forms(2)
    ['diagonal', 'tied', 'full']
    """
    return [form for form, least in FORMS.items() if numbers >= least]


class FormSearch:
    """The search for the number of components and the covariance of greatest held-out likelihood or BIC.

    Parameters
    ----------
    statistics : MixtureStatistics
    joint : ndarray
        The numbers that may have a common covariance.
    criterion : Criterion
    starts : int
    rng : Generator
    folds : int
    """

    def __init__(
        self,
        statistics: MixtureStatistics,
        joint: NDArray[np.intp],
        criterion: Criterion,
        starts: int,
        rng: np.random.Generator,
        folds: int,
    ) -> None:
        rows = len(statistics)
        self.statistics: MixtureStatistics = statistics
        self.joint: NDArray[np.intp] = joint
        self.held_out: bool = criterion == "held_out"
        self.parts: NDArray[np.intp] = deal_folds(rows, folds, rng)
        self.weights: Values = statistics.weights[None]
        if self.held_out:
            self.weights = self.weights * (self.parts != np.arange(self.parts.max() + 1)[:, None])
        self._starts, self._rng = starts, rng
        self._started: dict[int, list[MixtureFit]] = {}

    def choose(self, forms: Sequence[Covariance], counts: Sequence[int], kernels: bool) -> MixtureForm:
        """Return the best number of components with one of some covariances, and whether kernels are better, if they
        are allowed.
        """
        best = self._choose_covariance(forms, counts)
        form = MixtureForm(best.components, best.form)
        if best.logs is None:
            return form
        if best.form != "diagonal":
            form = form._replace(prior_variance=self._choose_prior(best))
        if kernels:
            wanted = self.statistics.join_numbers(self.joint, best.form, prior_variance=form.prior_variance)
            fits = self._fit(wanted, best.components)
            components = [compute_responsibilities(wanted, fit)[1] for fit in fits]
            cells, shares = self.statistics.list_cells()
            logs = score_kernels(cells, self.statistics.weights, shares, self.parts, components, best.logs)
            form = form._replace(kernels=logs is not None and self._is_better(logs, best.logs))
        return form

    def _choose_covariance(self, forms: Sequence[Covariance], counts: Sequence[int]) -> _Best:
        """Return the best number of components and the best covariance.

        The other covariances are tried if the numbers are correlated in the components of the best diagonal one, from
        the same starts, and with no more components.
        """
        least = counts[0] if len(counts) == 1 else 1
        searches = [_Best(form, self.statistics.join_numbers(self.joint, form), least) for form in forms]
        simple, active = searches[0], searches
        if simple.form == "diagonal":
            for components in counts:
                self._try(simple, components)
                if not simple.may_win(simple.least):
                    break
            if (
                len(searches) == 1
                or simple.fit is None
                or measure_correlations(self.statistics, self.joint, simple.fit) < CORRELATED
            ):
                return simple
            active = searches[1:]
            counts = [components for components in counts if components <= simple.components]
        for components in counts:
            for search in active:
                if components == 1 and search.form == "tied" and "full" in forms:
                    continue  # with one component it is the full one
                self._try(search, components)
            least_loss = min(search.least for search in searches)
            active = [search for search in active if search.may_win(least_loss)]
            if not active:
                break
        best = min(searches, key=lambda search: search.least)
        # no arcs where they are worth no more than what the rows vary
        arcs = best.logs is None or simple.logs is None or self._is_better(best.logs, simple.logs)
        return best if arcs or simple.form != "diagonal" else simple

    def _try(self, search: _Best, components: int) -> None:
        """Try a covariance with so many components."""
        statistics, weights = self.statistics, self.weights
        if components not in self._started:
            self._started[components] = start_fits(statistics, weights, components, self._starts, self._rng)
        fits = self._fit(search.statistics, components)
        if self.held_out:
            logs = score_held_out(search.statistics, fits, self.parts)
            search.add(components, -float(statistics.weights @ logs), fits[0], logs)
        else:
            # the penalty is the same for all rows, so that these are losses of rows as well
            penalty = 0.5 * _count_parameters(search.statistics, components)
            penalty *= math.log(max(statistics.weights.sum(), 2))
            search.add(components, -fits[0].log_likelihood + penalty, fits[0])

    def _fit(self, statistics: MixtureStatistics, components: int) -> list[MixtureFit]:
        return continue_fits(self.statistics, self.weights, self._started[components], statistics)

    def _is_better(self, logs: Values, than: Values) -> bool:
        """Tell whether held-out rows are more likely by more than what they vary."""
        return is_clearly_less(-logs, -than, self.statistics.weights, errors=1.0)

    def _choose_prior(self, best: _Best) -> float:
        """Return the variance of the prior under which held-out rows are most likely; their densities are the best's
        then.
        """
        chosen = PRIOR_VARIANCE
        for factor in (0.1, 10.0):
            prior = PRIOR_VARIANCE * factor
            while LEAST_PRIOR < prior < MOST_PRIOR:
                wanted = self.statistics.join_numbers(self.joint, best.form, prior_variance=prior)
                logs = score_held_out(wanted, self._fit(wanted, best.components), self.parts)
                loss = -float(self.statistics.weights @ logs)
                if not loss < best.least:
                    break
                chosen, best.least, best.logs, prior = prior, loss, logs, prior * factor
            if chosen != PRIOR_VARIANCE:
                break
        return chosen


@dataclass
class _Best:
    """The best number of components with a covariance so far.

    Attributes
    ----------
    least : the smallest loss, with this number of components
    fit : the mixture with as many, fitted to the rows of the first fold
    logs : the held-out log-density of each row with as many
    """

    form: Covariance
    statistics: MixtureStatistics
    components: int
    least: float = math.inf
    fit: MixtureFit | None = None
    logs: Values | None = None
    last_gain: float = math.inf
    failures: int = 0

    def add(self, components: int, loss: float, fit: MixtureFit, logs: Values | None = None) -> None:
        """Record the loss with one more component."""
        if loss < self.least - 1e-9 * abs(loss):
            self.last_gain = self.least - loss
            self.components, self.least, self.failures, self.fit, self.logs = components, loss, 0, fit, logs
        else:
            self.failures += 1

    def may_win(self, best: float) -> bool:
        """Tell whether more components may give the least loss of all: gains get smaller with each."""
        return self.failures < PATIENCE and self.least - best <= CATCH_UP * self.last_gain


def _count_parameters(statistics: MixtureStatistics, components: int) -> int:
    """Return the number of free parameters."""
    block = statistics.block
    per_component = 2 * len(statistics.numbers) + sum(
        columns.stop - columns.start - 1 for columns in statistics.categories
    )
    joint = 0
    if block is not None:
        size = block.values.shape[1]
        joint = components * size + count_covariances(statistics.covariance, components, size, block.factors)
    return int(components * per_component + components - 1 + joint)
