"""Selective naive Bayes: naive Bayes with the attributes that improve prediction in a cross-validation; losses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting import roles
from hybridbn.fitting.cross_validation import deal_folds, deal_numbered_rows, split_folds
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import check_count, make_generator
from hybridbn.structures.building import builder
from hybridbn.structures.dependence import Dependence, varies
from hybridbn.structures.training_data import COARSE, TrainingData, fit_network, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable

__all__ = ["Loss", "crps", "log_loss", "misclassification", "selective_naive_bayes", "squared_error"]

Loss: TypeAlias = Callable[[Any, NDArray[Any]], Values]
"""A function of the posterior of the target and its true codes or values that returns the loss of each row (rows,)."""
Deal: TypeAlias = Callable[[int, int], Codes]
"""A function of the number of the first of consecutive rows, and of how many these are, that returns their folds."""

_GAIN = 1e-9
"""A smaller relative difference of two losses counts as a rounding error."""


@builder
@share_passes
def selective_naive_bayes(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    loss: Loss | None = None,
    folds: int = 5,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> Network:
    """Build naive Bayes with the attributes that improve prediction (a filter-wrapper).

    The attributes are ranked by their mutual information with the target. In this order each attribute is added if that
    lowers the loss in a cross-validation inside the data; attributes without information are not tried.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
    loss : callable, optional
        `log_loss` (the default for a discrete target), `misclassification`, `squared_error` (the default for a
        continuous one) or any function of (posterior, truth) that returns a number for each row; their mean is
        minimized.
    folds : int
        Number of folds. Each has rows of all classes, or of the whole range of a number, as far as possible.
    random_state : int, Generator or None
        Assigns the rows to folds.
    n_jobs : int, optional
        Threads that share the folds of a large table (-1: as many as there are processors), with the same result; by
        default one. They call `loss` at the same time.

    Returns
    -------
    Network
        Its first node is the target, the chosen attributes follow in the table's order. The other columns are left out.

    Notes
    -----
    For each fold potentials and cut points are learned from the other folds only. The final network is learned from all
    rows. A weighted row belongs to one fold as a whole, so that (unlike in other builders) a row of weight 2 may lead
    to another choice than two equal rows. Missing cells are treated as in `naive_bayes`.

    Of a scan of more rows than its sample, all are used: a pass for each fold and for each attribute that is tried.
    Rows are dealt to folds by their numbers then, whatever their classes; where other processes read them, `loss` must
    be a function that can be pickled.

    References
    ----------
    Langley & Sage (1994), "Induction of selective Bayesian classifiers"; Fernandez & Salmeron (2008), algorithm 3,
    whose program validates on the test set, which this function never sees.

    Examples
    --------
    >>> data = {"sky": ["clear", "gray"] * 10, "coin": ["head"] * 9 + ["tail"] * 11, "play": ["yes", "no"] * 10}
    >>> list(selective_naive_bayes(data, "play").edges)
    [('play', 'sky')]
    """
    folds = check_count(folds, "folds", 2, NetworkError)
    training_data = read_data_with_target(data, target, potentials, weights)
    loss = loss or _default_loss(training_data, target)
    chosen = _choose_attributes(training_data, target, loss, folds, make_generator(random_state))
    attributes = [name for name in training_data.attributes if name in chosen]
    return fit_network(training_data, {target: (), **dict.fromkeys(attributes, (target,))})


def log_loss(posterior: DiscretePosterior, truth: Codes) -> Values:
    """Return minus the logarithm of the probability of each row's state.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.5, 0.5])])
    >>> log_loss(net.posterior("c", hb.Table({"c": ["a", "b"]})), np.array([0, 1])).round(3)
    array([0.693, 0.693])
    """
    probabilities = np.take_along_axis(posterior.probabilities, truth[:, None], axis=1)[:, 0]
    return np.asarray(-np.log(np.maximum(probabilities, np.finfo(float).tiny)))


def misclassification(posterior: DiscretePosterior, truth: Codes) -> Values:
    """Return 1 for each row whose most probable state is not the true one, else 0."""
    return np.asarray(posterior.probabilities.argmax(axis=1) != truth, dtype=np.float64)


def squared_error(posterior: ContinuousPosterior, truth: Values) -> Values:
    """Return the squared difference of each row's mean from the truth."""
    return np.asarray((posterior.mean() - truth) ** 2)


def crps(posterior: ContinuousPosterior, truth: Values) -> Values:
    """Return the continuous ranked probability score of each row, see `ContinuousPosterior.crps`."""
    return np.asarray(posterior.crps(truth))


def _default_loss(data: TrainingData, target: str) -> Loss:
    return log_loss if isinstance(data.variable(target), Discrete) else squared_error


def _choose_attributes(data: TrainingData, target: str, loss: Loss, folds: int, rng: np.random.Generator) -> set[str]:
    """Return the attributes that improve prediction in a cross-validation."""
    data, deal, training = _deal_rows(data, target, folds, rng)
    importance = Dependence(data).measure_with_target()
    ranked = sorted((name for name in importance if importance[name] > 0), key=lambda name: (-importance[name], name))
    ranked = [name for name in ranked if all(varies(part, name) for part in training)]
    parents = {target: (), **dict.fromkeys(ranked, (target,))}
    networks = list(data.rows.share(lambda part: fit_network(_discretize_again(part, target), parents), training))

    def measure(names: Sequence[str]) -> float:
        """Return the mean loss with these attributes over all held-out rows; infinite if a row is impossible."""
        kept = [Network([network.potential(name) for name in (target, *names)]) for network in networks]
        total, weight = data.rows.learn(_SumLosses(kept, deal, target, tuple(names), data.variable(target), loss))
        return float(total / weight) if np.isfinite(total) else np.inf

    return _add_attributes(ranked, measure)


def _deal_rows(
    data: TrainingData, target: str, folds: int, rng: np.random.Generator
) -> tuple[TrainingData, Deal, list[TrainingData]]:
    """Return the rows that have a target, what deals them to folds, and those outside of each fold."""
    if len(data.sampled.rows) < len(data.rows):
        data = replace(data, rows=data.rows.keep_rows(data.rows.variable(target)))
        deal = partial(deal_numbered_rows, folds=folds, seed=int(rng.integers(2**62)))
        return data, deal, [replace(data, rows=data.rows.weigh_rows(_Others(deal, fold))) for fold in range(folds)]
    data = data.sampled.take(data.sampled.find_labeled())
    if len(data.rows) < 2:
        raise TableError(
            f"choosing attributes takes at least 2 rows that have a value of {target!r} and count; found"
            f" {len(data.rows)}"
        )
    parts = deal_folds(len(data.rows), folds, rng, data.codes(target))
    return data, lambda first, rows: parts[first : first + rows], [data.take(rows) for rows, _ in split_folds(parts)]


def _add_attributes(ranked: Sequence[str], measure: Callable[[Sequence[str]], float]) -> set[str]:
    """Return the attributes that lower a loss, each added to those before it."""
    chosen: list[str] = []
    least = measure(chosen)
    for name in ranked:
        candidate = measure([*chosen, name])
        if candidate < least - _GAIN * abs(least):
            chosen.append(name)
            least = candidate
    return set(chosen)


@dataclass(frozen=True)
class _Others:
    """Weighs the rows of all folds but one, so that those of that one do not count."""

    deal: Deal
    fold: int

    def __call__(self, table: Table, first: int) -> Values:
        return np.asarray(table.weights * (self.deal(first, len(table)) != self.fold))


@dataclass(frozen=True)
class _SumLosses:
    """Adds up the losses of rows, each with the network of the other folds, and the weights."""

    networks: Sequence[Network]
    deal: Deal
    target: str
    names: tuple[str, ...]
    variable: Variable
    loss: Loss

    def __call__(self, table: Table, first: int) -> Values:
        dealt, table = self.deal(first, len(table)), table.select([self.target, *self.names])
        sums = table.share(lambda fold: self._add_up(table.take(dealt == fold), fold), range(len(self.networks)))
        return np.asarray(np.sum(list(sums), axis=0))

    def _add_up(self, rows: Table, fold: int) -> Values:
        """Return the sums of the rows of a fold."""
        rows = rows.take(rows.weights > 0)
        if not len(rows):
            return np.zeros(2)
        posterior = self.networks[fold].posterior(self.target, rows, options=COARSE)
        return np.array([self.loss(posterior, rows.coded(self.variable)) @ rows.weights, rows.weights.sum()])


def _discretize_again(data: TrainingData, target: str) -> TrainingData:
    """Discretize attributes again, with discretized points learned from these rows only."""
    discretized = [
        name
        for name in data.attributes
        if isinstance(data.variable(name), Discrete) and isinstance(data.rows.variable(name), Continuous)
    ]
    if not discretized:
        return data
    # the target keeps its states
    table = data.rows.select([target, *discretized]).with_variables(
        [data.variable(target), *map(data.rows.variable, discretized)]
    )
    fresh = roles(table, target, {name: data.roles[name].fitter for name in discretized})
    return replace(
        data, roles={name: fresh[name] if name in discretized else role for name, role in data.roles.items()}
    )
