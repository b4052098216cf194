"""Model-based clustering: a naive Bayes mixture, which is a network with a hidden node."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

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
PATIENCE = 2
"""So many more components in a row may fail to be better before the search stops."""


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
        Number columns are normal in each component while the components are found ("gaussian"; "auto" means the same);
        any other family is learned afterwards, from rows that belong to components in the shares found. "multinomial" asks
        to discretize a number column first.
    name : str
        Of the hidden node; its states are 1, 2, ..., the largest component first.
    criterion : {"held_out", "bic"}
        The number of components has the greatest log-likelihood on held-out rows (cross-validation), or the
        smallest BIC.
    most : int
        Greatest number of components tried.
    starts : int
        How many starts EM has for each number of components: rows that lie far apart.
    folds : int
        Parts of the cross-validation. More of them take longer and allow a few more components, since fits miss fewer rows.
    random_state : int, Generator or None

    Returns
    -------
    Network
        Its first node is the hidden one, the columns follow in the table's order. ``net.posterior(name, table)`` gives
        the shares in which rows belong to components.

    Notes
    -----
    Missing cells are marginalized exactly, in learning as in queries. Parameters have a prior worth one row (that a component can't
    shrink to a point); the log-likelihood plus the log prior never falls in EM.

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
    read = read_data_without_target(data, _replace_auto(potentials), weights)
    if name in read.roles:
        raise NetworkError(f"the table has a column {name!r}; call the hidden node something else: name=...")
    found = cluster_rows(read, components, criterion, most, starts, np.random.default_rng(random_state), folds)
    return found.network(name)


@dataclass(frozen=True)
class FittedMixture:
    """A mixture found for some rows.

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
        """In which shares each row belongs to the components (rows, components)."""
        return compute_responsibilities(self.statistics, self.fit)[0]

    def network(self, name: str) -> Network:
        """Return the mixture as a network with a hidden node of this name."""
        hidden = Discrete(name, tuple(range(1, self.fit.components + 1)))
        potentials: list[Potential] = [Multinomial(hidden, table=np.exp(self.fit.log_shares))]
        number = 0
        spread = None
        for column, place in zip(self.data.attributes, self.statistics.places, strict=True):
            variable = self.data.variable(column)
            if isinstance(variable, Discrete):
                potentials.append(Multinomial(variable, (hidden,), table=np.exp(self.fit.natural[place]).T))
                continue
            if self.data.fitter(column, ()).name == "gaussian":
                _, slope, curvature = self.fit.natural[place]
                variance = -0.5 / curvature
                mean = slope * variance
                center, scale = self.statistics.centers[number], self.statistics.scales[number]
                potentials.append(
                    LinearGaussian(variable, (hidden,), intercept=center + scale * mean, variance=scale**2 * variance)
                )
            else:
                spread = spread or expand_by_component(self.data, self.shares, hidden)
                fitter = self.data.fitter(column, ())
                potentials.append(fitter.fit(spread.table, variable, (hidden,)))
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
    """Fit a mixture to rows, with a number of components that is given or chosen."""
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
            f"column {wide[0]!r} spreads so far that its variance is no double; divide it by a power of ten, or leave it out"
        )
    if components is None:
        components = _choose_components(statistics, criterion, most, starts, rng, int(folds))
    fit = fit_mixture(statistics, int(components), starts, rng)
    order = np.argsort(-fit.log_shares, kind="stable")
    fit = MixtureFit(fit.log_shares[order], fit.natural[:, order], fit.history, fit.log_likelihood)
    return FittedMixture(data, statistics, fit)


def expand_by_component(data: TrainingData, shares: Values, variable: Discrete) -> TrainingData:
    """Return every row once for each component that it belongs to, with its share as weight and the component as a column."""
    rows, states = np.nonzero(shares > 1e-9)
    repeated = data.table.take(rows)
    weighted = repeated.with_weights(repeated.weights * shares[rows, states])
    labels = np.array(variable.states, dtype=object)[states]
    return TrainingData(weighted.with_column(variable.name, labels, variable), data.roles, data.target)


def _choose_components(
    statistics: MixtureStatistics, criterion: Criterion, most: int, starts: int, rng: np.random.Generator, folds: int
) -> int:
    """Return the number of components that the criterion prefers."""
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
    each = 2 * len(statistics.numbers) + sum(part.stop - part.start - 1 for part in statistics.categories)
    return int(components * each + components - 1)


def _replace_auto(potentials: Any) -> Any:
    return "gaussian" if isinstance(potentials, str) and potentials == "auto" else potentials
