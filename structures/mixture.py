"""Model-based clustering by a naive Bayes mixture, which is a network with a hidden node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hybridbn.arguments import make_generator
from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.structures.building import builder
from hybridbn.structures.mixture_em import (
    MixtureFit,
    MixtureStatistics,
    compute_responsibilities,
    compute_statistics,
    fit_mixture,
    score_held_out,
)
from hybridbn.structures.training_data import TrainingData, read_data_without_target
from hybridbn.variables import Discrete, Values

__all__ = ["Criterion", "FittedMixture", "cluster_rows", "expand_by_component", "mixture"]

Criterion = Literal["held_out", "bic"]

FOLDS = 5
STARTS = 5
MOST_ROWS = 1500
"""The number of components is chosen, and the starts of EM are compared, on at most so many rows."""
PATIENCE = 2
"""The search stops when this many numbers of components in a row are no better than the best."""


@builder(takes_target=False, hidden=(Discrete,))
def mixture(
    data: Any,
    components: int | None = None,
    potentials: Potentials = "gaussian",
    weights: Any = None,
    *,
    name: str = "cluster",
    criterion: Criterion = "held_out",
    most: int = 20,
    starts: int = STARTS,
    folds: int = FOLDS,
    random_state: Any = 0,
) -> Network:
    r"""Cluster the rows of a mixed, incomplete table: a network with a hidden node above all columns.

    .. math:: f(x_1, \dots, x_m) = \sum_k P(k) \prod_i f(x_i \mid k)

    Parameters
    ----------
    data, weights : as in `naive_bayes`
    components : int, optional
        The states of the hidden node. By default the number is chosen by `criterion`.
    potentials : as in `hybridbn.fit`
        Number columns are normal in each component while the components are learned ("gaussian"; "auto" means the
        same); any other family is learned afterwards from the rows, weighted by their responsibilities. "multinomial"
        discretizes a number column first.
    name : str
        The name of the hidden node; its states are 1, 2, ..., the largest component first.
    criterion : {"held_out", "bic"}
        The number of components is chosen by the log-likelihood of held-out rows (cross-validation), or by BIC.
    most : int
        Greatest number of components that is tried.
    starts : int
        Number of starts of EM for each number of components; a start takes rows that are far apart (k-means++).
    folds : int
        Folds of the cross-validation. More folds take longer and lead to a few more components, because each fit has
        more rows.
    random_state : int, Generator or None

    Returns
    -------
    Network
        Its first node is the hidden one, the columns follow in the table's order. ``net.posterior(name, table)`` gives
        the responsibilities of the components for each row.

    Notes
    -----
    Missing cells are marginalized exactly, in learning and in queries. The prior of the parameters has the weight of
    one row, so that no component shrinks to a point; the log-likelihood plus the log prior never falls in EM. The
    number of components is chosen, and the starts are compared, on at most 1,500 rows; all rows are fitted then.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> group = rng.integers(2, size=300)
    >>> size, color = group * 5 + rng.normal(size=300), np.where(rng.random(300) < 0.1 + 0.8 * group, "red", "blue")
    >>> net = mixture({"size": np.where(rng.random(300) < 0.2, np.nan, size), "color": color})
    >>> net.variable("cluster").states
    (1, 2)
    >>> net.posterior("cluster", {"color": "red"}).probabilities.round(1)
    array([0.9, 0.1])
    """
    training_data = read_data_without_target(data, _replace_auto(potentials), weights, "mixtures")
    if name in training_data.roles:
        raise NetworkError(f"the table has a column {name!r}; call the hidden node something else: name=...")
    clustering = cluster_rows(training_data, components, criterion, most, starts, make_generator(random_state), folds)
    return clustering.build_network(name)


@dataclass(frozen=True)
class FittedMixture:
    """A mixture and the rows to which it was fitted.

    Attributes
    ----------
    data : TrainingData
    statistics : MixtureStatistics
    fit : MixtureFit, its components in descending order of size
    """

    data: TrainingData
    statistics: MixtureStatistics
    fit: MixtureFit

    @property
    def shares(self) -> Values:
        """The responsibilities of the components for each row (rows, components)."""
        return compute_responsibilities(self.statistics, self.fit)[0]

    def build_network(self, name: str) -> Network:
        """Return the mixture as a network with a hidden node of this name."""
        hidden = Discrete(name, tuple(range(1, self.fit.components + 1)))
        potentials: list[Potential] = [Multinomial(hidden, table=np.exp(self.fit.log_shares))]
        number = 0
        expanded = None
        for column, columns in zip(self.data.attributes, self.statistics.slices, strict=True):
            variable = self.data.variable(column)
            if isinstance(variable, Discrete):
                potentials.append(Multinomial(variable, (hidden,), table=np.exp(self.fit.natural[columns]).T))
                continue
            if self.data.fitter(column, ()).name == "gaussian":
                _, slope, curvature = self.fit.natural[columns]
                variance = -0.5 / curvature
                mean = slope * variance
                center, scale = self.statistics.centers[number], self.statistics.scales[number]
                potentials.append(
                    LinearGaussian(variable, (hidden,), intercept=center + scale * mean, variance=scale**2 * variance)
                )
            else:
                expanded = expanded or expand_by_component(self.data, self.shares, hidden)
                fitter = self.data.fitter(column, ())
                potentials.append(fitter.fit(expanded.table, variable, (hidden,)))
            number += 1
        return Network(potentials)


def cluster_rows(
    data: TrainingData,
    components: int | None,
    criterion: Criterion,
    most: int,
    starts: int,
    rng: np.random.Generator,
    folds: int = FOLDS,
) -> FittedMixture:
    """Fit a mixture with a given number of components, or with the best one if that is None."""
    for what, value in (("components", components), ("most", most), ("starts", starts)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise NetworkError(f"{what} must be a positive whole number, not {value!r}")
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise NetworkError(f"folds must be a whole number, at least 2, not {folds!r}")
    if criterion not in ("held_out", "bic"):
        raise NetworkError(f"criterion must be 'held_out' or 'bic', not {criterion!r}")
    names = data.attributes
    statistics = compute_statistics(
        [data.codes(name) for name in names],
        [len(v) if isinstance(v := data.variable(name), Discrete) else None for name in names],
        data.table.weights,
    )
    numbers = [name for name in names if not isinstance(data.variable(name), Discrete)]
    with np.errstate(over="ignore"):
        wide = [name for name, square in zip(numbers, statistics.scales**2, strict=True) if not square < np.inf]
    if wide:
        raise TableError(
            f"column {wide[0]!r} spreads so far that its variance is no double; divide it by a power of ten, or leave"
            " it out"
        )
    sample = np.sort(rng.permutation(len(statistics))[:MOST_ROWS]) if len(statistics) > MOST_ROWS else None
    if components is None:
        part = statistics if sample is None else statistics.take(sample)
        components = _choose_components(part, criterion, most, starts, rng, int(folds))
    fit = fit_mixture(statistics, int(components), starts, rng, sample)
    order = np.argsort(-fit.log_shares, kind="stable")
    fit = MixtureFit(fit.log_shares[order], fit.natural[:, order], fit.history, fit.log_likelihood)
    return FittedMixture(data, statistics, fit)


def expand_by_component(data: TrainingData, shares: Values, variable: Discrete) -> TrainingData:
    """Repeat each row for every component, with its responsibility as weight and the component as a further column."""
    rows, states = np.nonzero(shares > 1e-9)
    repeated = data.table.take(rows)
    weighted = repeated.with_weights(repeated.weights * shares[rows, states])
    labels = np.array(variable.states, dtype=object)[states]
    return TrainingData(weighted.with_column(variable.name, labels, variable), data.roles, data.target)


def _choose_components(
    statistics: MixtureStatistics, criterion: Criterion, most: int, starts: int, rng: np.random.Generator, folds: int
) -> int:
    """Return the best number of components by a criterion."""
    rows = len(statistics)
    parts = rng.permutation(rows) % min(folds, max(rows, 1))
    best, failures = 1, 0
    least = math.inf
    for components in range(1, min(most, rows) + 1):
        if criterion == "bic":
            fit = fit_mixture(statistics, components, starts, rng)
            loss = -2 * fit.log_likelihood + _count_parameters(statistics, components) * math.log(
                max(statistics.weights.sum(), 2)
            )
        elif rows < 2 * FOLDS:
            break
        else:
            loss = -float(statistics.weights @ score_held_out(statistics, components, parts, starts, rng))
        if loss < least - 1e-9 * abs(loss):
            best, least, failures = components, loss, 0
        else:
            failures += 1
            if failures == PATIENCE:
                break
    return best


def _count_parameters(statistics: MixtureStatistics, components: int) -> int:
    """Return the number of free parameters."""
    per_component = 2 * len(statistics.numbers) + sum(
        columns.stop - columns.start - 1 for columns in statistics.categories
    )
    return int(components * per_component + components - 1)


def _replace_auto(potentials: Any) -> Any:
    return "gaussian" if isinstance(potentials, str) and potentials == "auto" else potentials
