"""Linear regression as a network: the target below the attributes, which have densities of their own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.fitter_choice import Potentials, Role
from hybridbn.fitting.gaussian import GaussianFitter
from hybridbn.fitting.ridge import Ridge, fit_sparse_ridge
from hybridbn.inference.posteriors.base import DiscretePosterior
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials.base import Potential
from hybridbn.potentials.boxes import Boxes
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.structures.building import builder
from hybridbn.structures.chow_liu import build_tree
from hybridbn.structures.training_data import TrainingData, read_data_with_target
from hybridbn.variables import Continuous, Discrete, Values

__all__ = [
    "Regressors",
    "ResidualMixture",
    "build_linear_network",
    "build_regression_network",
    "find_unused_name",
    "fit_residual_mixture",
    "learn_regressors",
    "read_for_regression",
    "regression",
]


@builder(takes_target=Continuous, hidden=(Continuous,))
def regression(data: Any, target: str, potentials: Potentials = "auto", weights: Any = None) -> Network:
    r"""Build a linear regression of a number on all other columns, as a network in which every cell may be missing.

    .. math:: f(y, x) = f(y \mid x) \prod_i f(x_i \mid x_{p(i)}), \quad y \mid x \sim N(a + b x, s^2)

    The target is the child of the attributes. Numbers have slopes, and each state of a category has an effect that is added. Given all
    attributes the target is normal around the prediction, or a mixture of two normal densities where
    errors are of two kinds. Missing attributes are averaged over, given those that are known.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
        The families of the attributes; "auto" means "gaussian" for numbers. The target is linear Gaussian in any case.

    Returns
    -------
    Network
        The attributes, in the table's order, form a tree of numbers and another of categories, see `chow_liu`. Each category
        that has a say has a hidden node for its effect. The target comes last.

    Notes
    -----
    Slopes and effects are shrunk by a ridge, whose strength leaves single rows out best; where it clearly leaves rows out better, small ones
    are shrunk more than large ones. The variance is that of rows left out, too. Missing cells are filled with what the other
    attributes lead to expect while the regression is learned. A weighted row is left out as a whole.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, c = rng.normal(size=200), rng.choice(["a", "b"], 200)
    >>> net = regression({"x": x, "c": c, "y": 2 * x + 3 * (c == "b") + 0.1 * rng.normal(size=200)}, "y")
    >>> known, partly = net.posterior("y", {"x": 1.0, "c": "b"}), net.posterior("y", {"x": 1.0})
    >>> round(known.mean(), 1), round(partly.mean(), 1), round(partly.std() / known.std(), 0) > 10
    (5.0, 3.5, True)
    """
    return build_regression_network(learn_regressors(read_for_regression(data, target, potentials, weights)))


def build_regression_network(regressors: Regressors) -> Network:
    """Return the network of the regression of all rows."""
    left_out = regressors.whole.residuals[None]
    noise = fit_residual_mixture(
        left_out, np.ones_like(left_out) * np.mean(left_out**2), np.isfinite(left_out), regressors.weights
    )
    return build_linear_network(regressors, regressors.root[None], np.array([np.mean(left_out**2)]), noise)


LEAST_SPREAD = 1e-4
"""Least standard deviation of an attribute given another one, relative to that of all rows."""
_OPTIONS = Options(tolerance=1e-6, impossible="nan")
"""Of what missing cells are filled with while learning."""


@dataclass(frozen=True)
class Regressors:
    """A table as a regression sees it.

    Attributes
    ----------
    data : TrainingData
        The rows that have a target and count.
    potentials : tuple of Potential
        The attributes' own densities, in the table's order.
    names : tuple of str
        The columns that have a say, one regressor each.
    unit : float
        What the target is measured in: about its standard deviation.
    effects : mapping from discrete columns to ndarray (states,)
        What a state adds to the target, in its unit.
    numbers : ndarray (rows, regressors)
        Standardized; missing cells are filled with what the other attributes lead to expect.
    centers, scales : ndarray (regressors,)
    slopes, ridge : ndarray (regressors,)
        Of the regression of all rows, and the penalties of their squares.
    whole : Ridge
        That regression, with all states as columns of their own.
    filled : mapping from columns to numbers (rows, 1) or shares of states (rows, states)
    """

    data: TrainingData
    potentials: tuple[Potential, ...]
    names: tuple[str, ...]
    unit: float
    effects: Mapping[str, Values]
    numbers: Values
    centers: Values
    scales: Values
    slopes: Values
    ridge: Values
    whole: Ridge
    filled: Mapping[str, Values]

    @property
    def target(self) -> Values:
        """The target of each row, in its unit."""
        assert self.data.target is not None
        return np.asarray(self.data.codes(self.data.target) / self.unit, dtype=np.float64)

    @property
    def weights(self) -> Values:
        """The weight of each row."""
        return self.data.table.weights

    @property
    def root(self) -> Values:
        """Intercept and slopes of the regression of all rows, as coefficients of the standardized regressors."""
        return np.concatenate(([self.whole.intercept], self.slopes))


def read_for_regression(data: Any, target: str, potentials: Potentials, weights: Any) -> TrainingData:
    """Read the data of a builder whose target is a number; "auto" means "gaussian" for attributes.

    Examples
    --------
    >>> read_for_regression({"x": [1.0, 2.0], "y": ["a", "b"]}, "y", "auto", None)
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: the target 'y' is discrete, and a regression predicts a number; use naive_bayes, tan or nb_tree
    """
    read = read_data_with_target(data, target, potentials, weights)
    if isinstance(read.variable(target), Discrete):
        raise NetworkError(
            f"the target {target!r} is discrete, and a regression predicts a number; use naive_bayes, tan or nb_tree"
        )
    read = read.take(np.flatnonzero(~np.isnan(read.codes(target)) & (read.table.weights > 0)))
    read = replace(read, roles={name: _choose_role(read, name) for name in read.roles})
    if len(read.table) < 3:
        raise TableError(
            f"a regression takes at least 3 rows that have a value of {target!r} and count; found {len(read.table)}"
        )
    return read


def learn_regressors(data: TrainingData) -> Regressors:
    """Learn the attributes' densities and the effects of their states."""
    potentials, filled = _learn_attributes(data)
    assert data.target is not None
    target = data.codes(data.target)
    # a power of two, so that nothing is rounded
    unit = 2.0 ** np.round(np.log2(np.std(target / np.abs(target).max())) + np.log2(np.abs(target).max()))
    blocks: list[Values] = []
    groups: list[int] = []
    used: list[str] = []
    for name, block in filled.items():
        centered = block - data.table.weights @ block / data.table.weights.sum()
        spread = np.sqrt(data.table.weights @ centered**2 / data.table.weights.sum())
        if not (spread > 1e-12 * np.abs(block).max(initial=0.0)).any():
            continue
        if not isinstance(data.variable(name), Discrete):
            centered = centered / spread
        groups += [len(used)] * block.shape[1]
        blocks.append(centered)
        used.append(name)
    columns = np.concatenate([np.empty((len(target), 0)), *blocks], axis=1)
    whole = fit_sparse_ridge(columns, target / unit, data.table.weights, np.array(groups, dtype=np.intp))
    return _standardize_columns(data, potentials, filled, tuple(used), whole, float(unit))


def _standardize_columns(
    data: TrainingData,
    potentials: tuple[Potential, ...],
    filled: Mapping[str, Values],
    used: tuple[str, ...],
    whole: Ridge,
    unit: float,
) -> Regressors:
    """Make one standardized number of each column that has a say."""
    weights, place = data.table.weights / data.table.weights.sum(), 0
    effects: dict[str, Values] = {}
    numbers, slopes, penalties, names = [], [], [], []
    least = 1e-6 * float(np.sqrt(np.mean(whole.residuals**2)))
    for name in used:
        block = filled[name]
        part = slice(place, place + block.shape[1])
        place = part.stop
        number, slope, penalty = block[:, 0], whole.slopes[part.start], whole.penalties[part.start]
        if isinstance(data.variable(name), Discrete):
            effect = whole.slopes[part] - weights @ block @ whole.slopes[part]
            number = block @ effect
            scale = np.sqrt(weights @ number**2)
            if not scale > least:
                continue
            effects[name], slope = effect, scale
            # the penalty of all states' slopes, as a function of what their common factor is multiplied by
            penalty = float(penalty * (whole.slopes[part] @ whole.slopes[part]) / scale**2)
        names.append(name)
        numbers.append(number)
        slopes.append(slope)
        penalties.append(penalty)
    matrix = np.stack(numbers, axis=1) if numbers else np.empty((len(weights), 0))
    centers = weights @ matrix
    scales = np.sqrt(weights @ (matrix - centers) ** 2)
    return Regressors(
        data,
        potentials,
        tuple(names),
        unit,
        effects,
        (matrix - centers) / scales,
        centers,
        scales,
        np.array(slopes),
        np.array(penalties),
        whole,
        filled,
    )


def _learn_attributes(data: TrainingData) -> tuple[tuple[Potential, ...], dict[str, Values]]:
    """Return the attributes' densities, and their columns without holes: numbers (rows, 1) or shares of states (rows, states).

    Numbers form one tree and categories another: densities of numbers given numbers stay linear where they are normal.
    """
    found: dict[str, Potential] = {}
    filled: dict[str, Values] = {}
    for discrete in (False, True):
        names = [name for name in data.attributes if isinstance(data.variable(name), Discrete) == discrete]
        if not names:
            continue
        network = build_tree(TrainingData(data.table.select(names), {name: data.roles[name] for name in names}, None))
        for name in names:
            found[name] = network.potential(name)
            filled[name] = _fill_column(network, data, name, names)
    return tuple(found[name] for name in data.attributes), {name: filled[name] for name in data.attributes}


def _fill_column(network: Network, data: TrainingData, name: str, names: list[str]) -> Values:
    variable, own = data.variable(name), data.codes(name)
    holes: NDArray[np.intp] = np.flatnonzero(own < 0 if isinstance(variable, Discrete) else np.isnan(own))
    if isinstance(variable, Discrete):
        whole = (own[:, None] == np.arange(len(variable))).astype(np.float64)
    else:
        whole = np.array(own, dtype=np.float64)[:, None]
    if len(holes):
        posterior = network.posterior(name, data.table.select(names).take(holes), options=_OPTIONS)
        whole[holes] = (
            posterior.probabilities if isinstance(posterior, DiscretePosterior) else posterior.mean()[:, None]
        )
    return np.asarray(whole)


def _choose_role(data: TrainingData, name: str) -> Role:
    """Return the role of a column; where nothing else was asked for a number, normal densities.

    These have a least variance, since in the few rows that two columns share one of them may be constant.
    """
    role = data.roles[name]
    if not isinstance(role.variable, Continuous) or role.fitter not in ("auto", "gaussian"):
        return role
    values = data.codes(name)
    values = values[~np.isnan(values)]
    spread = LEAST_SPREAD * float(values.std()) if len(values) else 0.0
    return role._replace(fitter=GaussianFitter(floor=spread) if spread > 0 and np.isfinite(spread) else "gaussian")


OWN_SHARE = 0.01
"""Of the target's variance, the part that the effects of categories bring along."""


def build_linear_network(
    regressors: Regressors, coefficients: Values, variances: Values, noise: ResidualMixture, leaf: Boxes | None = None
) -> Network:
    r"""Return the network of attributes, effects of categories, maybe a leaf, and the target.

    The effect :math:`e_d` of a category is a normal node below it, :math:`e_d \mid d \sim N(E_d[d], v_d)`, and

    .. math:: y \mid l, k, x, e \sim N(a_l + B_l x + C_l e, \; c_k s^2_l - \sum_d C^2_{ld} v_d)

    so given the attributes the target has the variance :math:`c_k s^2_l`, of which the effects bring one percent.

    Parameters
    ----------
    regressors : Regressors
    coefficients : ndarray (leaves, 1 + regressors)
        Of the standardized regressors, in the target's unit.
    variances : ndarray (leaves,), in the square of the target's unit
    noise : ResidualMixture
    leaf : Boxes, optional
        Without it there is one leaf.
    """
    data = regressors.data
    assert data.target is not None
    target = data.variable(data.target)
    assert isinstance(target, Continuous)
    effects = np.array([name in regressors.effects for name in regressors.names], dtype=bool)
    # effects are in the target's unit already
    slopes = coefficients[:, 1:] / regressors.scales * np.where(effects, 1.0, regressors.unit)
    lifted = np.where(effects, regressors.unit, 1.0) * regressors.centers
    intercept = coefficients[:, 0] * regressors.unit - slopes @ lifted
    taken = set(data.roles) | ({leaf.child.name} if leaf is not None else set())
    useful = np.abs(slopes).max(axis=0, initial=0.0) > 0
    total = regressors.unit**2 * variances[:, None] * noise.factors
    parents: list[Continuous] = []
    potentials: list[Potential] = list(regressors.potentials)
    spent = np.zeros(len(variances))
    kinds = max(len(regressors.effects), 1)
    for place, name in enumerate(regressors.names):
        variable = data.variable(name)
        if not useful[place]:
            continue
        if isinstance(variable, Continuous):
            parents.append(variable)
            continue
        node = Continuous(find_unused_name(f"{name} effect", taken))
        taken.add(node.name)
        squares = slopes[:, place] ** 2
        own = OWN_SHARE / kinds * float((total.min(axis=1)[squares > 0] / squares[squares > 0]).min())
        spent += squares * own
        effect = regressors.effects[name] * regressors.unit
        potentials.append(LinearGaussian(node, (variable,), intercept=effect, variance=np.full(len(effect), own)))
        parents.append(node)
    hidden: list[Discrete] = []
    shape: list[int] = []
    if leaf is not None:
        potentials.append(leaf)
        hidden.append(leaf.child)
        shape.append(len(leaf.child))
    if len(noise.shares) > 1:
        kind = Discrete(find_unused_name(f"{target.name} noise", taken), ("usual", "wide"))
        potentials.append(Multinomial(kind, table=noise.shares))
        hidden.append(kind)
        shape.append(len(kind))
    wide = (len(variances), len(noise.factors))
    potentials.append(
        LinearGaussian(
            target,
            (*hidden, *parents),
            intercept=np.broadcast_to(intercept[:, None], wide).reshape(shape),
            coefficients=np.broadcast_to(slopes[:, None, useful], (*wide, int(useful.sum()))).reshape(*shape, -1)
            if parents
            else None,
            variance=(total - spent[:, None]).reshape(shape),
        )
    )
    return Network(potentials)


def find_unused_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken, with underscores after it if need be.

    Examples
    --------
    >>> find_unused_name("a", ["b"]), find_unused_name("a", ["a", "a_"])
    ('a', 'a__')
    """
    while name in taken:
        name += "_"
    return name


STEPS = 60
SHARES = np.array([0.9, 0.1])
SPREADS = np.array([0.7, 5.0])
"""Where the search for two kinds of errors starts: most of them smaller, some of them wider."""
PRIOR_ROWS = 1.0
"""As if so many rows spoke for the start, so that no kind shrinks to nothing."""


class ResidualMixture(NamedTuple):
    """A mixture of normal errors.

    Attributes
    ----------
    shares : ndarray (kinds,)
    factors : ndarray (kinds,), ascending
        What each prediction's own variance is multiplied by.
    """

    shares: Values
    factors: Values


def fit_residual_mixture(
    residuals: Values, variances: Values, known: NDArray[np.bool_], weights: Values
) -> ResidualMixture:
    r"""Return the errors' mixture under which held-out rows are likeliest, of one kind or, if BIC says so, of two.

    .. math:: f(y_i) = \frac{1}{|T_i|} \sum_{t \in T_i} \sum_k \pi_k\, N(y_i; m_{ti}, c_k s^2_{ti})

    Parameters
    ----------
    residuals, variances : ndarray (models, rows)
    known : ndarray (models, rows)
        Which models did not learn from the row.
    weights : ndarray (rows,)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> errors = rng.normal(size=2000) * np.where(rng.random(2000) < 0.2, 6.0, 1.0)
    >>> found = fit_residual_mixture(errors[None], np.ones((1, 2000)), np.ones((1, 2000), dtype=bool), np.ones(2000))
    >>> found.shares.round(1), np.sqrt(found.factors).round(0)
    (array([0.8, 0.2]), array([1., 6.]))
    """
    rows = known.any(axis=0) & (weights > 0)
    residuals, variances, known, weights = residuals[:, rows], variances[:, rows], known[:, rows], weights[rows]
    one, first = _fit_scales(residuals, variances, known, weights, np.ones(1), np.ones(1))
    two, second = _fit_scales(residuals, variances, known, weights, SHARES, SPREADS * one.factors[0])
    return two if second - first > math.log(max(float(weights.sum()), 2.0)) else one


def _fit_scales(
    residuals: Values, variances: Values, known: NDArray[np.bool_], weights: Values, shares: Values, factors: Values
) -> tuple[ResidualMixture, float]:
    """Return the mixture that expectation maximization finds, and its log-likelihood."""
    squares = residuals**2 / variances
    with np.errstate(divide="ignore"):
        base = np.where(known, -0.5 * np.log(2 * math.pi * variances), -np.inf) - np.log(known.sum(axis=0))
    start_shares, start_factors, likelihood = shares, factors, -math.inf
    for _ in range(STEPS):
        terms = (
            base[None]
            + (np.log(shares) - 0.5 * np.log(factors))[:, None, None]
            - 0.5 * squares[None] / factors[:, None, None]
        )
        top = terms.max(axis=(0, 1))
        parts = np.exp(terms - top)
        total = parts.sum(axis=(0, 1))
        likelihood = float(weights @ (top + np.log(total)))
        belongs = parts * (weights / total)
        mass = belongs.sum(axis=(1, 2))
        shares = (mass + PRIOR_ROWS * start_shares) / (mass.sum() + PRIOR_ROWS)
        factors = ((belongs * squares).sum(axis=(1, 2)) + PRIOR_ROWS * start_factors) / (mass + PRIOR_ROWS)
    order = np.argsort(factors)
    return ResidualMixture(shares[order], factors[order]), likelihood
