"""Linear regression as a network: the target is the child of the attributes, which have densities of their own.

The parts are used by model trees as well: `Regressors` hold a table with filled cells and standardized regressors, and
`build_linear_network` makes a network of coefficients. Of a table that is read in passes, a sample settles all but the
coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting import GaussianFitter, Role
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import DealtRows, is_clearly_less
from hybridbn.fitting.ridge import Ridge, fit_sparse_ridge, refit_ridge
from hybridbn.fitting.trees import Route, TreeNode
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords
from hybridbn.potentials import Boxes, LinearGaussian, Multinomial, Potential
from hybridbn.structures.building import Built, HeldOut, builder
from hybridbn.structures.dependence import build_tree
from hybridbn.structures.heldout import (
    ResidualMixture,
    fit_residual_mixture,
    predict_held_out_numbers,
    score_residuals,
)
from hybridbn.structures.regression_splits import (
    LEAST_VARIANCE,
    ColumnTest,
    Growth,
    NodeRegression,
    RegressionBatch,
    RegressionRows,
    RegressionView,
    grow_regressions,
    predict_by_depth,
)
from hybridbn.structures.training_data import COARSE, TrainingData, read_data_with_target
from hybridbn.tables import Table
from hybridbn.variables import Continuous, Discrete, Values, find_observed, find_unused_name


@builder(takes_target=Continuous, hidden=(Discrete, Continuous), held_out=True)
def regression(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    **columns: Unpack[ColumnKeywords],
) -> Built:
    r"""Build a linear regression of a number on all other columns, as a network in which every cell may be missing.

    .. math:: f(y, x) = f(y \mid x) \prod_i f(x_i \mid x_{p(i)}), \quad y \mid x \sim N(a + b x, s^2)

    The target is the child of the attributes. Numbers have slopes, and each state of a category adds an effect. Given
    all attributes the target is normal around the prediction, or a mixture of two normal densities if the residuals
    have heavy tails; rows in the tails then count less for the slopes. A third density, with a share of one in a
    thousand, is that of a row that the attributes say nothing about. Missing attributes are averaged over, given the
    observed ones.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
        The families of the attributes; "auto" means "gaussian" for numbers. The target is linear Gaussian in any case.

    Returns
    -------
    Network
        The attributes, in the table's order, form a tree of numbers and another of categories, see `chow_liu`. Each
        category that has an influence has a hidden node for its effect. The target comes last.

    Notes
    -----
    Slopes and effects are shrunk by a ridge, whose strength is chosen by leave-one-out cross-validation; if that
    clearly lowers the error, small ones are shrunk more than large ones. The variance is that of the leave-one-out
    residuals, too. While the regression is learned, missing cells are filled with their expectation given the other
    attributes. Of a row of weight two, as of two equal rows, one is left out.

    Of a table that is read in passes, a sample settles the ridge, the effects of states and the residuals' density;
    attributes are learned from all rows, and so are the slopes, in one pass.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, c = rng.normal(size=200), rng.choice(["a", "b"], 200)
    >>> net = regression({"x": x, "c": c, "y": 2 * x + 3 * (c == "b") + 0.1 * rng.normal(size=200)}, "y")
    >>> complete, partial = net.posterior("y", {"x": 1.0, "c": "b"}), net.posterior("y", {"x": 1.0})
    >>> round(complete.mean(), 1), round(partial.mean(), 1), partial.std() > 5 * complete.std()
    (5.0, 3.5, True)
    """
    read = read_for_regression(data, target, potentials, weights, 1, np.random.default_rng(0), **columns)
    return build_regression_network(learn_regressors(*read))


def build_regression_network(regressors: Regressors) -> Built:
    """Build the network of the regression on all rows, with the predictions of rows left out.

    Where the rows are read in passes one pass sums up their products, and the rest is that of the sample.
    """
    residuals, root = regressors.whole.residuals, np.append(regressors.whole.intercept, regressors.slopes)
    rows, variance = np.arange(len(residuals)), np.array([_measure_variance(residuals, regressors.weights)])
    noise, variances, _ = judge_left_out(regressors)
    if regressors.source is not None:
        node = TreeNode(Route(), NodeRegression(root, float(variance[0]), 0.0, 0.0, np.empty(0)))
        trust = partial(trust_rows, tree=node, depth=0, noise=noise) if regressors.robust else None
        view = view_all_rows(regressors, trust=trust)
        (tree,) = grow_regressions(view, 1, Growth(0.0, depth=0), np.random.default_rng(0))
        root = tree.statistics.coefficients
    network = build_linear_network(regressors, root[None], variance, noise)
    return Built(network, predict_left_out(regressors, noise, regressors.target - residuals, variances, rows))


def judge_left_out(regressors: Regressors) -> tuple[ResidualMixture, Values, Values]:
    """Return the distribution of the residuals of rows that are left out of the regression on all rows, their variances
    before that, and the scores of the rows.
    """
    more = 0.0 if regressors.spread is None else regressors.spread @ regressors.slopes**2
    return _judge_residuals(regressors.whole.residuals, regressors.weights, more)


def _judge_residuals(
    residuals: Values, weights: Values, more: Values | float = 0.0
) -> tuple[ResidualMixture, Values, Values]:
    """Return the distribution of residuals whose variances are their mean square and more, these, and their scores."""
    variances, rows = np.full(len(residuals), _measure_variance(residuals, weights)) + more, np.arange(len(residuals))
    noise = fit_residual_mixture(residuals, variances, rows, weights)
    return noise, variances, score_residuals(noise, residuals, variances, rows, len(rows))


def predict_left_out(
    regressors: Regressors, noise: ResidualMixture, means: Values, variances: Values, rows: NDArray[np.intp]
) -> HeldOut:
    """Return what models that were not learned from a row predict for the target in it, in the target's own unit."""
    variable = regressors.data.variable(regressors.data.target or "")
    assert isinstance(variable, Continuous)
    unit, wide = regressors.encoding.unit, (SHARE, *_describe_target(regressors))
    return partial(
        predict_held_out_numbers,
        variable=variable,
        noise=noise,
        means=unit * means,
        variances=unit**2 * variances,
        predicted=regressors.dealt.distinct[rows],
        groups=regressors.dealt.groups,
        wide=wide,
    )


def _measure_variance(residuals: Values, weights: Values) -> float:
    """Return the mean square of residuals in units of the target's, which may be fitted exactly."""
    return max(float(np.average(residuals**2, weights=weights)), LEAST_VARIANCE)


LEAST_SLOPE = 0.25
"""The least slope of the effects of states that are learned without a row, regressed on those of all rows."""
LEAST_SPREAD = 1e-4
"""Attributes given another attribute have at least this standard deviation, relative to that of all rows."""


@dataclass(frozen=True)
class Encoding:
    """How attributes become regressors: standardized numbers, one for each column with an influence.

    Attributes
    ----------
    potentials : tuple of Potential
        The attributes' own densities, in the table's order.
    names : tuple of str
        The columns with an influence.
    unit : float
        The unit of the target, about its standard deviation.
    effects : mapping from discrete columns to ndarray (states,)
        The amount that each state adds to the target, in its unit.
    ridge : ndarray (regressors,)
        The penalties of the squares of slopes.
    centers, scales : ndarray (regressors,)
    """

    potentials: tuple[Potential, ...]
    names: tuple[str, ...]
    unit: float
    effects: Mapping[str, Values]
    ridge: Values
    centers: Values | float = 0.0
    scales: Values | float = 1.0

    def encode(
        self, filled: Mapping[str, Values], spreads: Mapping[str, Values], rows: int
    ) -> tuple[Values, Values | None]:
        """Return the regressors (rows, regressors), and the variances of those that were filled, None if none was.

        Parameters
        ----------
        filled, spreads : as returned by `fill_columns`
        rows : int
            Their number.
        """
        numbers, variances = np.empty((rows, len(self.names))), np.zeros((rows, len(self.names)))
        for place, name in enumerate(self.names):
            if name not in self.effects:
                numbers[:, place] = filled[name][:, 0]
                variances[:, place] = spreads.get(name, 0.0)
                continue
            numbers[:, place] = filled[name] @ self.effects[name]
            if name in spreads:
                variances[:, place] = filled[name] @ self.effects[name] ** 2 - numbers[:, place] ** 2
        numbers -= self.centers
        numbers /= self.scales
        return numbers, variances / self.scales**2 if spreads.keys() & self.names else None


@dataclass(frozen=True)
class Regressors:
    """Training data of a regression: filled cells and standardized regressors.

    Attributes
    ----------
    data : TrainingData
        The rows of positive weight with an observed target; of a sample, where there is a `source`.
    encoding : Encoding
    numbers : ndarray (rows, regressors)
        Standardized values; missing cells are filled with their expectation given the other attributes.
    slopes : ndarray (regressors,)
        Of the regression on all rows.
    whole : Ridge
        This regression, with a column for each state.
    filled : mapping from columns to numbers (rows, 1) or shares of states (rows, states)
    spread : ndarray (rows, regressors), optional
        The variances of regressors that were filled.
    left_out : ndarray (rows, regressors), optional
        The regressors as they would be if the effects of categories had been learned without the row; None where there
        are no categories.
    dealt : DealtRows
        The rows of the table that these are, and their folds.
    robust : bool
        Whether rows in the tails count less for the regression on all rows.
    source : TrainingData, optional
        All rows, where they are read in passes and the regressors are those of a sample.
    """

    data: TrainingData
    encoding: Encoding
    numbers: Values
    slopes: Values
    whole: Ridge
    filled: Mapping[str, Values]
    spread: Values | None
    left_out: Values | None
    dealt: DealtRows
    robust: bool
    source: TrainingData | None

    @property
    def target(self) -> Values:
        """The target of each row, in its unit."""
        assert self.data.target is not None
        return np.asarray(self.data.codes(self.data.target) / self.encoding.unit, dtype=np.float64)

    @property
    def weights(self) -> Values:
        """The weight of each row."""
        return self.data.table.weights


def read_for_regression(
    data: Any,
    target: str,
    potentials: Potentials,
    weights: Any,
    folds: int,
    rng: np.random.Generator,
    **columns: Unpack[ColumnKeywords],
) -> tuple[TrainingData, DealtRows, TrainingData | None]:
    """Read the data of a builder whose target is a number; "auto" means "gaussian" for attributes.

    Returned are the rows that have a target and count, equal ones together, and how they are dealt to folds. Of a table
    that is read in passes these are rows of a sample, and all rows come after them.

    Examples
    --------
    >>> read_for_regression({"x": [1.0, 2.0], "y": ["a", "b"]}, "y", "auto", None, 1, np.random.default_rng(0))
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the target 'y' is discrete, and a regression predicts a number; use naive_bayes, tan
    or nb_tree
    """
    read = read_data_with_target(data, target, potentials, weights, **columns)
    if isinstance(read.variable(target), Discrete):
        raise NetworkError(
            f"the target {target!r} is discrete, and a regression predicts a number; use naive_bayes, tan or nb_tree"
        )
    source = read if len(read.table) < len(read.rows) else None
    replace(read, rows=read.table).require_moments(read.roles)
    read, dealt = read.deal(folds, rng)
    read = replace(read, roles={name: _choose_role(read, name) for name in read.roles})
    if max(len(read.rows), read.rows.total_weight) < 3:
        raise TableError(
            f"a regression takes at least 3 rows that have a value of {target!r} and count; found {len(read.rows)}"
        )
    return read, dealt, None if source is None else replace(source, roles=read.roles)


def learn_regressors(data: TrainingData, dealt: DealtRows, source: TrainingData | None = None) -> Regressors:
    """Learn the densities of the attributes and the effects of states from what `read_for_regression` returns."""
    potentials = _learn_attributes(data, source)
    filled, spreads = fill_columns(potentials, data, data.attributes)
    assert data.target is not None
    target = data.codes(data.target)
    # a power of two, so that dividing by it rounds nothing
    weights, largest = data.table.weights / data.table.weights.sum(), np.abs(target).max()
    spread = np.sqrt(weights @ ((target - weights @ target) / largest) ** 2)
    unit = float(2.0 ** np.round(np.log2(spread) + np.log2(largest)))
    groups: list[int] = []
    names: list[str] = []
    for name, block in filled.items():
        centers = weights @ block
        spread = np.sqrt([weights @ (column - center) ** 2 for column, center in zip(block.T, centers, strict=True)])
        if (spread > 1e-12 * max(block.max(initial=0.0), -block.min(initial=0.0))).any():
            groups += [len(names)] * block.shape[1]
            names.append(name)
    columns = _join_columns(data, {name: filled[name] for name in names}, weights)
    whole, robust = _fit_robust_ridge(columns, target / unit, data.table.weights, np.array(groups, dtype=np.intp))
    del columns
    encoding, slopes, changes = _choose_encoding(data, {name: filled[name] for name in names}, whole)
    encoding = _standardize(replace(encoding, potentials=potentials, unit=unit), filled, spreads, weights)
    numbers, variances = encoding.encode(filled, spreads, len(weights))
    left_out = numbers + changes / encoding.scales if encoding.effects else None
    return Regressors(data, encoding, numbers, slopes, whole, filled, variances, left_out, dealt, robust, source)


MOST_ROBUST_STEPS = 5
"""The most steps of a regression whose residuals have heavy tails, each of which trusts the rows in these less."""


def _fit_robust_ridge(columns: Values, target: Values, weights: Values, groups: NDArray[np.intp]) -> tuple[Ridge, bool]:
    """Return a regression in which rows in the tails count less as long as that predicts left out rows clearly better,
    and whether they do.

    The intercept is the prediction where all columns are zero.
    """

    def judge(ridge: Ridge) -> tuple[Values, Values]:
        """Return how much to trust each row, and the scores of rows left out."""
        noise, variances, scores = _judge_residuals(ridge.residuals, weights)
        return noise.weigh_rows(ridge.residuals, variances), scores

    first = best = fit_sparse_ridge(columns, target, weights, groups)
    trust, scores = judge(best)
    for _ in range(MOST_ROBUST_STEPS):
        if not (trust < 1).any() or not columns.shape[1]:
            break
        robust, trusted = refit_ridge(best, columns, target, weights, trust), weights * trust
        robust = robust._replace(intercept=robust.intercept - trusted @ columns @ robust.slopes / trusted.sum())
        trust, own = judge(robust)
        if not is_clearly_less(own, scores, weights):
            break
        best, scores = robust, own
    return best, best is not first


def _join_columns(data: TrainingData, filled: Mapping[str, Values], weights: Values) -> Values:
    """Return centered columns side by side, numbers in units of their standard deviations."""
    columns = np.empty((len(weights), sum(block.shape[1] for block in filled.values())))
    start = 0
    for name, block in filled.items():
        part = columns[:, start : start + block.shape[1]]
        start += block.shape[1]
        np.subtract(block, weights @ block, out=part)
        if not isinstance(data.variable(name), Discrete):
            part /= np.sqrt(weights @ part**2)
    return columns


def _choose_encoding(data: TrainingData, filled: Mapping[str, Values], whole: Ridge) -> tuple[Encoding, Values, Values]:
    """Return how columns are encoded, without centers and scales; their slopes (regressors,); and by how much each
    row's regressors would differ if the effects of states had been learned without it (rows, regressors).
    """
    weights, start = data.table.weights / data.table.weights.sum(), 0
    effects: dict[str, Values] = {}
    slopes: dict[str, float] = {}
    penalties: list[float] = []
    changes: list[Values] = [np.zeros((len(weights), 0))]
    least = 1e-6 * float(np.sqrt(weights @ whole.residuals**2))
    for name, block in filled.items():
        columns = slice(start, start + block.shape[1])
        start = columns.stop
        own, slope, penalty = whole.slopes[columns], whole.slopes[columns.start], whole.penalties[columns.start]
        change = np.zeros(len(weights))
        if isinstance(data.variable(name), Discrete):
            effect = own - weights @ block @ own
            slope = np.sqrt(weights @ (block @ effect) ** 2)
            if not slope > least:
                continue
            effects[name], states = effect, np.argmax(block, axis=1)
            rest = (data.table.weights @ block + whole.penalties[columns])[states]
            moved = np.minimum(data.table.weights, 1.0) * whole.residuals / rest
            change = _leave_out_effects(effect, weights @ block, states, moved)
            # the penalty of the slopes of all states, as a function of their common factor
            penalty = float(penalty * (own @ own) / slope**2)
        slopes[name] = slope
        penalties.append(penalty)
        changes.append(change[:, None])
    encoding = Encoding((), tuple(slopes), 1.0, effects, np.array(penalties))
    return encoding, np.array([*slopes.values()]), np.concatenate(changes, axis=1)


def _standardize(
    encoding: Encoding, filled: Mapping[str, Values], spreads: Mapping[str, Values], weights: Values
) -> Encoding:
    """Return an encoding with the centers and the scales of these rows, whose weights add up to one."""
    numbers, _ = encoding.encode(filled, spreads, len(weights))
    centers = weights @ numbers
    numbers -= centers
    return replace(encoding, centers=centers, scales=np.sqrt([weights @ column**2 for column in numbers.T]))


def _leave_out_effects(effects: Values, shares: Values, states: NDArray[np.intp], moved: Values) -> Values:
    """Return by how much the effect of each row's state would differ if the effects had been learned without the row.

    Only differences of states among each other count, since trees fit a slope and an intercept to the effects: those
    learned without the row are brought to the same mean and slope. So nothing changes if there are two states. Effects
    that are next to nothing change by no more than their standard deviation.

    Parameters
    ----------
    effects, shares : ndarray (states,)
        The shares are those of the rows.
    states : ndarray (rows,)
    moved : ndarray (rows,)
        By how much each row has moved the effect of its own state.

    Examples
    --------
    >>> _leave_out_effects(np.arange(3.0), np.full(3, 1 / 3), np.array([0, 2, 2]), np.array([0.3, 0.3, -0.3])).round(2)
    array([-0.04, -0.06,  0.04])
    """
    if np.count_nonzero(shares) <= 2:
        return np.zeros(len(states))
    center = shares @ effects
    variance = shares @ (effects - center) ** 2
    own, share = effects[states] - center, shares[states]
    slope = np.maximum(1 - moved * share * own / variance, LEAST_SLOPE)
    most = np.maximum(np.abs(own), np.sqrt(variance))
    return np.asarray(np.clip((own - moved * (1 - share)) / slope - own, -most, most))


def _learn_attributes(data: TrainingData, source: TrainingData | None) -> tuple[Potential, ...]:
    """Learn the densities of the attributes, from all rows that have a target, in passes too.

    Numbers form one tree and categories another, so that normal densities of numbers given numbers stay linear.
    """
    assert data.target is not None
    rows = data.rows if source is None else source.rows
    if source is not None and rows.count_missing(data.target):
        rows = rows.keep_rows(data.variable(data.target))
    everything = replace(data, rows=rows, target=None)
    potentials: dict[str, Potential] = {}
    for discrete in (False, True):
        names = [name for name in data.attributes if isinstance(data.variable(name), Discrete) == discrete]
        if names:
            network = build_tree(everything.select(names))
            potentials |= {name: network.potential(name) for name in names}
    return tuple(potentials[name] for name in data.attributes)


def fill_columns(
    potentials: Sequence[Potential], data: TrainingData, names: Iterable[str]
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Return columns as numbers (rows, 1) or shares of states (rows, states), missing cells being expectations given
    the other attributes; and the variances of columns that have been filled (rows,).

    Parameters
    ----------
    potentials : sequence of Potential
        The attributes' own densities.
    data : TrainingData
    names : iterable of str
    """
    networks = {
        discrete: Network([own for own in potentials if isinstance(own.child, Discrete) == discrete])
        for discrete in (False, True)
    }
    filled: dict[str, Values] = {}
    spreads: dict[str, Values] = {}
    for name in names:
        filled[name], spread = _fill_column(networks[isinstance(data.variable(name), Discrete)], data, name)
        if spread is not None:
            spreads[name] = spread
    return filled, spreads


def _fill_column(network: Network, data: TrainingData, name: str) -> tuple[Values, Values | None]:
    """Return a column, its missing cells filled from the other columns of a network; see `fill_columns`."""
    variable, cells = data.variable(name), data.codes(name)
    holes = np.flatnonzero(~find_observed(cells))
    if isinstance(variable, Discrete):
        filled = (cells[:, None] == np.arange(len(variable))).astype(np.float64)
    else:
        filled = np.array(cells, dtype=np.float64)[:, None] if len(holes) else cells[:, None]
    if not len(holes):
        return np.asarray(filled), None
    names = [other for other in data.attributes if other in network]
    posterior = network.posterior(name, data.table.select(names).take(holes), options=COARSE)
    spread = np.zeros(len(cells))
    if isinstance(posterior, DiscretePosterior):
        filled[holes] = posterior.probabilities
    else:
        filled[holes], spread[holes] = posterior.numeric.mean()[:, None], posterior.var()
    return np.asarray(filled), spread


def _choose_role(data: TrainingData, name: str) -> Role:
    """Return the role of a column: normal densities for a number unless the user chose another family.

    They have a least variance, because one of two columns may be constant in the few rows where both are observed.
    """
    role = data.roles[name]
    density = role.fitter if isinstance(role.fitter, str) else role.fitter.density
    if density not in ("auto", "gaussian"):
        return role
    # normal densities of the attributes are regressions, which have no points
    role = role._replace(fitter=density)
    if not isinstance(role.variable, Continuous):
        return role
    moments = data.counter([name]).moments((name,))
    spread = LEAST_SPREAD * float(np.sqrt(moments.products[0, 0, 0] / moments.total)) if moments.total > 0 else 0.0
    return role._replace(fitter=GaussianFitter(floor=spread) if spread > 0 and np.isfinite(spread) else "gaussian")


KINDS = ("usual", "wide")
SHARE = 0.001
"""The share of rows that may have any target: little enough for moments, and seven nats below a wide density at the
worst.
"""
SPREAD = 1.5
"""Standard deviations of the target that such a row's is."""
EFFECT_SHARE = 0.01
"""The effects of categories have this share of the target's variance, so that no node is deterministic."""


def build_linear_network(
    regressors: Regressors, coefficients: Values, variances: Values, noise: ResidualMixture, leaf: Boxes | None = None
) -> Network:
    r"""Build the network of attributes, effects of categories, a leaf if there are several, and the target.

    The effect :math:`e_d` of a category is a normal node below it, :math:`e_d \mid d \sim N(E_d[d], v_d)`, and

    .. math:: y \mid l, k, x, e \sim N(a_l + B_l x + C_l e, \; c_k s^2_l - \sum_d C^2_{ld} v_d)

    so that given the attributes the target has the variance :math:`c_k s^2_l`, one percent of which comes from the
    effects. One in a thousand rows is of a kind in which the target does not depend on the attributes, and is as spread
    out as it is altogether. So no target within its usual range is ever taken for impossible.

    Parameters
    ----------
    regressors : Regressors
    coefficients : ndarray (leaves, 1 + regressors)
        Coefficients of the standardized regressors, in the target's unit.
    variances : ndarray (leaves,), in the square of the target's unit
    noise : ResidualMixture
    leaf : Boxes, optional
        The node of leaves; by default there is a single leaf and no node.
    """
    data, encoding = regressors.data, regressors.encoding
    assert data.target is not None
    target = data.variable(data.target)
    assert isinstance(target, Continuous)
    effects = np.array([name in encoding.effects for name in encoding.names], dtype=bool)
    # effects are in the target's unit already
    slopes = coefficients[:, 1:] / encoding.scales * np.where(effects, 1.0, encoding.unit)
    centers = np.where(effects, encoding.unit, 1.0) * encoding.centers
    intercept = coefficients[:, 0] * encoding.unit - slopes @ centers
    names = set(data.roles) | ({leaf.child.name} if leaf is not None else set())
    useful = np.abs(slopes).max(axis=0, initial=0.0) > 0
    total = encoding.unit**2 * variances[:, None] * noise.factors
    center, deviation = _describe_target(regressors)
    shares = np.append((1 - SHARE) * noise.shares, SHARE)
    parents: list[Continuous] = []
    potentials: list[Potential] = list(encoding.potentials)
    effect_variances = np.zeros(len(variances))
    effect_count = max(len(encoding.effects), 1)
    for index, name in enumerate(encoding.names):
        variable = data.variable(name)
        if not useful[index]:
            continue
        if isinstance(variable, Continuous):
            parents.append(variable)
            continue
        node = Continuous(find_unused_name(f"{name} effect", names))
        names.add(node.name)
        squares = slopes[:, index] ** 2
        variance = EFFECT_SHARE / effect_count * float((total.min(axis=1)[squares > 0] / squares[squares > 0]).min())
        effect_variances += squares * variance
        effect = encoding.effects[name] * encoding.unit
        potentials.append(LinearGaussian(node, (variable,), intercept=effect, variance=np.full(len(effect), variance)))
        parents.append(node)
    hidden: list[Discrete] = []
    if leaf is not None:
        potentials.append(leaf)
        hidden.append(leaf.child)
    kind = Discrete(find_unused_name(f"{target.name} noise", names), (*KINDS[: len(noise.shares)], "any"))
    potentials.append(Multinomial(kind, table=shares))
    hidden.append(kind)
    shape = [len(one) for one in hidden]
    # the last kind is the density of the target whatever else is known
    spreads = np.append(total - effect_variances[:, None], np.full((len(total), 1), deviation**2), axis=1)
    intercepts = np.append(
        np.repeat(intercept[:, None], len(noise.shares), axis=1), np.full_like(total[:, :1], center), 1
    )
    usual = np.append(np.ones(len(noise.shares)), 0.0)
    coefficients = slopes[:, None, useful] * usual[:, None]
    potentials.append(
        LinearGaussian(
            target,
            (*hidden, *parents),
            intercept=intercepts.reshape(shape),
            coefficients=coefficients.reshape(*shape, -1) if parents else None,
            variance=spreads.reshape(shape),
        )
    )
    return Network(potentials)


def _describe_target(regressors: Regressors) -> tuple[float, float]:
    """Return the center of the target, and the standard deviation of a row that nothing is known of."""
    shares = regressors.weights / regressors.weights.sum()
    center = float(shares @ regressors.target)
    spread = SPREAD * float(np.sqrt(shares @ (regressors.target - center) ** 2))
    return center * regressors.encoding.unit, spread * regressors.encoding.unit


def trust_rows(rows: RegressionRows, tree: TreeNode[NodeRegression], depth: int, noise: ResidualMixture) -> Values:
    """Return how much rows count, by how far they are from what a tree predicts; see `ResidualMixture.weigh_rows`.

    Parameters
    ----------
    rows : RegressionRows
    tree : TreeNode
    depth : int
        At which it is cut off.
    noise : ResidualMixture
    """
    means, variances = predict_by_depth(tree, rows, depth)
    return noise.weigh_rows(rows.target - means[-1], variances[-1])


def _read_regressors(
    table: Table,
    first: int,
    roles: Mapping[str, Role],
    target: str,
    encoding: Encoding,
    tests: Sequence[ColumnTest],
    trust: Callable[[RegressionRows], Values] | None,
) -> RegressionBatch:
    """Return the regressors, the target and the tests of the rows of a batch that have a target and count."""
    data = TrainingData(table, roles, target)
    labeled = data.find_labeled()
    if len(labeled) < len(table):
        data = data.take(labeled)
    filled, spreads = fill_columns(
        encoding.potentials, data, dict.fromkeys([*encoding.names, *(test.column for test in tests)])
    )
    numbers, spread = encoding.encode(filled, spreads, len(data.rows))
    codes = [test.find_codes(filled[test.column])[:, None] for test in tests]
    rows = RegressionRows(
        numbers,
        data.codes(target) / encoding.unit,
        np.concatenate([np.empty((len(numbers), 0), np.intp), *codes], axis=1),
        tuple(test.size for test in tests),
        encoding.ridge,
        spread,
    )
    weights = data.table.weights[None]
    return RegressionBatch(rows, weights if trust is None else weights * trust(rows))


def view_all_rows(
    regressors: Regressors,
    tests: Sequence[ColumnTest] = (),
    trust: Callable[[RegressionRows], Values] | None = None,
) -> RegressionView:
    """Return all rows, with the regressors of a sample of them.

    Parameters
    ----------
    regressors : Regressors
    tests : sequence of ColumnTest
    trust : callable, optional
        Returns by what the weights of some rows are multiplied, see `trust_rows`.
    """
    source = regressors.source
    assert source is not None
    assert source.target is not None
    read = partial(
        _read_regressors,
        roles=source.roles,
        target=source.target,
        encoding=regressors.encoding,
        tests=tuple(tests),
        trust=trust,
    )
    sizes, variance = tuple(test.size for test in tests), float(np.var(regressors.target))
    return RegressionView(source.rows, read, source.variables, sizes, regressors.encoding.ridge, variance)
