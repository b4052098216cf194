"""Model-based clustering by a naive Bayes mixture, which is a network with a hidden node.

The number of components, the covariance in them, or kernels in their place are chosen by held-out rows or BIC.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting import Fitter, Role
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import deal_folds, is_clearly_less
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_choice, check_count, make_generator
from hybridbn.potentials import LinearGaussian, Multinomial, Potential
from hybridbn.structures.building import builder, name_hidden_node
from hybridbn.structures.mixture_em import (
    CONSTANT,
    MixtureFit,
    MixtureParameters,
    MixtureSums,
    RowKernels,
    compute_responsibilities,
    continue_fits,
    fit_kernels,
    fit_mixture,
    measure_correlations,
    score_held_out,
    score_kernels,
    start_fits,
    sum_expected,
)
from hybridbn.structures.mixture_statistics import (
    PRIOR_VARIANCE,
    WIDE,
    Covariance,
    Measures,
    MixtureStatistics,
    NormalParameters,
    compute_statistics,
    count_covariances,
    measure_columns,
    regress_along,
    select_parents,
)
from hybridbn.structures.training_data import TrainingData, read_data_without_target
from hybridbn.tables import Table
from hybridbn.variables import Codes, Discrete, Values, find_unused_name, shorten, slice_blocks

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
    parts : ndarray (rows,)
        The folds of the rows.
    """

    def __init__(
        self,
        statistics: MixtureStatistics,
        joint: NDArray[np.intp],
        criterion: Criterion,
        starts: int,
        rng: np.random.Generator,
        parts: Codes,
    ) -> None:
        self.statistics: MixtureStatistics = statistics
        self.joint: NDArray[np.intp] = joint
        self.held_out: bool = criterion == "held_out"
        self.parts: Codes = parts
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


FOLDS = 5
STARTS = 5
PART_ROWS = 1 << 13
"""Rows of a batch whose responsibilities are computed at a time."""
MOST_ROWS = 1500
"""The number of components is chosen, and the starts of EM are compared, on at most so many rows."""
MOST_NUMBERS = 40
"""Most numbers that have a common covariance."""


@builder(takes_target=False, hidden=(Discrete,))
def mixture(
    data: Any,
    components: int | None = None,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    name: str = "cluster",
    covariance: Covariance | None = None,
    kernels: bool | None = None,
    criterion: Criterion = "held_out",
    most: int = 20,
    starts: int = STARTS,
    folds: int = FOLDS,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Network:
    r"""Cluster the rows of a mixed, incomplete table: a network with a hidden node above all columns.

    .. math:: f(x_1, \dots, x_m) = \sum_k P(k) \prod_i f(x_i \mid k)

    with arcs among the numbers, given the component, where their covariance is not diagonal.

    Parameters
    ----------
    data, weights, **columns : as in `naive_bayes`
    components : int, optional
        The states of the hidden node. By default the number is chosen by `criterion`.
    potentials : as in `hybridbn.fit`
        Number columns are normal in each component while the components are learned ("gaussian"; "auto" means the
        same, and tables of the probabilities of codes); any other family is learned afterwards from the rows, weighted
        by their responsibilities. "multinomial" discretizes a number column first.
    name : str
        The name of the hidden node; its states are 1, 2, ..., the largest component first.
    covariance : {"diagonal", "full", "tied", "factors", "tree"}, optional
        That of the numbers given the component: "tied" is the same in all components, "factors" has a few common
        factors (Kaiser's rule) beside unique variances, "tree" lets each number depend on one other. By default it is
        chosen by `criterion` with the number of components, of tables of up to 40 normal columns.
    kernels : bool, optional
        Whether most of a component is a kernel about each of its rows (at most 1,500), normal with one covariance for
        all, and with smoothed states, in the place of its own density, which keeps a share. By default complete tables
        of up to 1,500 rows have kernels if held-out rows are clearly more likely with them, as where there are many
        small groups of rows, unless `covariance` is given. Answers take longer with kernels.
    criterion : {"held_out", "bic"}
        Number of components and covariance are chosen by the log-likelihood of held-out rows (cross-validation), or by
        BIC.
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
        the responsibilities of the components for each row. With kernels there is a second hidden node above
        the columns, whose states are the kernels and the components; its name is `name` and "_kernel".

    Notes
    -----
    Missing cells are marginalized exactly, in learning and in queries. The prior of the parameters has the weight of
    one row, so that no component shrinks to a point; the log-likelihood plus the log prior never falls in EM. A
    covariance that is chosen by held-out rows has a prior of the size that is best for them, too. The
    number of components is chosen, and the starts are compared, on at most 1,500 rows; all rows are fitted then. Where
    a scan has more than its sample, these are fitted last, by a pass for each of at most 50 steps. A covariance that is
    not diagonal becomes arcs: each number is a linear regression on those before it (in a tree, on one of them) in each
    component. Numbers with heavy points (`hybridbn.fitting.find_heavy_points`) are independent of the other columns,
    given the component.

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
    training_data = read_data_without_target(data, potentials, weights, **columns)
    if isinstance(potentials, str) and potentials == "auto":
        training_data = replace(training_data, roles={n: _make_normal(r) for n, r in training_data.roles.items()})
    name = name_hidden_node(name, "cluster", training_data.roles)
    if covariance is not None and covariance not in FORMS:
        raise NetworkError(f"covariance must be one of {shorten(FORMS)}, or None to have it chosen, not {covariance!r}")
    rng = make_generator(random_state)
    clustering = cluster_rows(training_data, components, criterion, most, starts, rng, folds, covariance, kernels)
    return clustering.build_network(name)


def _make_normal(role: Role) -> Role:
    """Return a role in which nothing says what a number is, besides its points, with a normal density."""
    fitter = role.fitter.with_density("gaussian") if isinstance(role.fitter, Fitter) else "gaussian"
    return role if isinstance(role.variable, Discrete) else Role(role.variable, fitter)


@dataclass(frozen=True)
class FittedMixture:
    """A mixture and the rows to which it was fitted.

    Attributes
    ----------
    data : TrainingData
    statistics : MixtureStatistics
        Of a sample of the rows, where these are read in passes.
    joint : ndarray
        The numbers with a common covariance.
    assign : callable
        Returns the responsibilities of the components (rows, components) for the rows of any table with the same
        columns.
    fit : MixtureFit, its components in descending order of size
    kernels : tuple or None
        `RowKernels`, and the responsibilities of the components for the row of each (kernels, components).
    """

    data: TrainingData
    statistics: MixtureStatistics
    joint: NDArray[np.intp]
    assign: Callable[[Table], Values]
    fit: MixtureFit
    kernels: tuple[RowKernels, Values] | None = None

    def build_network(self, name: str) -> Network:
        """Return the mixture as a network with a hidden node of this name."""
        hidden = Discrete(name, tuple(range(1, self.fit.components + 1)))
        if self.kernels is not None:
            return self._build_kernels(hidden, *self.kernels)
        potentials: list[Potential] = [Multinomial(hidden, table=np.exp(self.fit.log_shares))]
        normal, expanded = self._build_normal(hidden, self.fit.normal, self.statistics.covariance), None
        tables = dict(zip(_list_parts(self.data), self.statistics.slices, strict=True))
        for column in self.data.attributes:
            variable, fitter = self.data.variable(column), self.data.fitter(column, ())
            part = tables.get((column, True))
            table = np.empty(0) if part is None else np.exp(self.fit.natural[part]).T
            if isinstance(variable, Discrete):
                potentials.append(Multinomial(variable, (hidden,), table=table))
            elif column not in normal:
                expanded = expanded or self.data.in_memory.table.expand(hidden, self.assign)
                potentials.append(fitter.fit(expanded, variable, (hidden,)))
            else:
                potentials.append(fitter.join_points(normal[column], table))
        return Network(potentials)

    def _build_kernels(self, hidden: Discrete, kernels: RowKernels, shares: Values) -> Network:
        """Return the network with a second hidden node, whose states are the kernels, each of which belongs to the
        components by their responsibilities for its row, and the components themselves.
        """
        name = find_unused_name(f"{hidden.name}_kernel", self.data.roles)
        size, components = shares.shape
        kernel = Discrete(name, tuple(range(1, size + components + 1)))
        mass = np.concatenate(
            [
                kernels.share * shares * kernels.weights[:, None] / kernels.weights.sum(),
                (1 - kernels.share) * np.diag(np.exp(self.fit.log_shares)),
            ]
        )
        own = self._list_moments()
        means = np.concatenate([kernels.centers.numbers[:, None], own.means])
        about = np.broadcast_to(kernels.covariance, (size, 1, *kernels.covariance.shape))
        joint = NormalParameters(means, np.concatenate([about, own.covariances]))
        potentials = self._build_normal(kernel, joint, "full") | self._build_tables(kernel, kernels)
        return Network(
            [
                Multinomial(hidden, table=mass.sum(axis=0)),
                Multinomial(kernel, (hidden,), table=(mass / mass.sum(axis=0)).T),
                *(potentials[column] for column in self.data.attributes),
            ]
        )

    def _build_tables(self, kernel: Discrete, kernels: RowKernels) -> dict[str, Potential]:
        """Return the tables of the categories given the kernels and the components."""
        slices = self.statistics.slices
        parts = [
            (column, part) for (column, is_state), part in zip(_list_parts(self.data), slices, strict=True) if is_state
        ]
        result: dict[str, Potential] = {}
        for (column, part), table, codes in zip(parts, kernels.tables, kernels.centers.codes.T, strict=True):
            rows = np.concatenate([table[codes], np.exp(self.fit.natural[part]).T])
            result[column] = Multinomial(self.data.variable(column), (kernel,), table=rows)  # type: ignore[arg-type]
        return result

    def _list_moments(self) -> NormalParameters:
        """Return means and covariances of the numbers in the components, all of them normal."""
        if self.fit.normal is not None:
            return self.fit.normal
        positions = self.statistics.numbers
        variances = -0.5 / self.fit.natural[positions + 2].T
        means = self.fit.natural[positions + 1].T * variances
        return NormalParameters(means[:, None], variances[:, None, None] * np.eye(len(positions)))

    def _build_normal(
        self, hidden: Discrete, joint: NormalParameters | None, covariance: Covariance
    ) -> dict[str, LinearGaussian]:
        """Return the normal densities of the columns that have one, in the columns' units."""
        parts = list(zip(_list_parts(self.data), self.statistics.slices, strict=True))
        numbers = [(column, part) for (column, is_state), part in parts if not is_state]
        joined = self.joint.tolist() if joint is not None else []
        result = {}
        for number, (column, part) in enumerate(numbers):
            if not self.data.fitter(column, ()).is_normal:
                continue
            given: tuple[int, ...] = ()
            if number in joined:
                assert joint is not None
                means, covariances = joint.means[:, 0], joint.covariances[:, 0]
                parents = select_parents(covariances, np.exp(self.fit.log_shares), covariance)
                place = joined.index(number)
                mean, slopes, variance = regress_along(means, covariances, place, parents[place])
                given = tuple(joined[parent] for parent in parents[place])
            else:
                _, slope, curvature = self.fit.natural[part]
                variance = -0.5 / curvature
                mean, slopes = slope * variance, np.empty((len(slope), 0))
            others = list(given)
            scale = self.statistics.scales[number]
            coefficients = slopes * scale / self.statistics.scales[others]
            center = self.statistics.centers[number] - coefficients @ self.statistics.centers[others]
            result[column] = LinearGaussian(
                self.data.variable(column),  # type: ignore[arg-type]
                (hidden, *(self.data.variable(numbers[other][0]) for other in given)),
                intercept=center + scale * mean,
                coefficients=coefficients if given else None,
                variance=scale**2 * variance,
            )
        return result


def _list_parts(data: TrainingData) -> list[tuple[str, bool]]:
    """Return the columns as EM sees them, and whether as states: numbers with points are both states and numbers."""
    parts: list[tuple[str, bool]] = []
    for column in data.attributes:
        discrete = isinstance(data.variable(column), Discrete)
        has_states = discrete or bool(data.fitter(column, ()).points)
        parts += [(column, True)] * has_states + [(column, False)] * (not discrete)
    return parts


def _list_joint(data: TrainingData) -> list[int]:
    """Return which of the numbers may have a common covariance: normal ones without points, unless they are many."""
    numbers = [column for column, is_state in _list_parts(data) if not is_state]
    joint = [
        place
        for place, column in enumerate(numbers)
        if (fitter := data.fitter(column, ())).is_normal and not fitter.points
    ]
    return joint if 2 <= len(joint) <= MOST_NUMBERS else []


def cluster_rows(
    data: TrainingData,
    components: int | None,
    criterion: Criterion,
    most: int,
    starts: int,
    rng: np.random.Generator,
    folds: int = FOLDS,
    covariance: Covariance | None = "diagonal",
    kernels: bool | None = False,
) -> FittedMixture:
    """Fit a mixture with a given number of components and covariance, with kernels or without, or what is best where
    they are None.
    """
    if components is not None:
        components = check_count(components, "components", 1, NetworkError)
    most, starts = check_count(most, "most", 1, NetworkError), check_count(starts, "starts", 1, NetworkError)
    folds = check_count(folds, "folds", 2, NetworkError)
    check_choice(criterion, "criterion", ("held_out", "bic"), NetworkError)
    parts = None
    if len(data.table) == len(data.rows):
        data, dealt = data.deal(folds, rng)
        parts = dealt.parts
    measures = _measure(data)
    statistics = compute_statistics(*_read_cells(data), data.table.weights, measures)
    sample = np.sort(rng.permutation(len(statistics))[:MOST_ROWS]) if len(statistics) > MOST_ROWS else None
    varies = statistics.narrow[:, statistics.numbers + 2].sum(axis=0) > CONSTANT * len(statistics)
    joint = np.array([place for place in _list_joint(data) if varies[place]], dtype=np.intp)
    joint = joint if len(joint) > 1 else joint[:0]
    able = [form for form, least in FORMS.items() if len(joint) >= least] if covariance is None else [covariance]
    forms: list[Covariance] = able if len(joint) else ["diagonal"]
    complete = 0 < len(joint) == len(statistics.numbers) and statistics.is_complete
    if kernels and not complete:
        raise NetworkError(
            "kernels need at least two normal columns, and no missing cells, heavy points, or categories of more than"
            f" {WIDE} states"
        )
    form = MixtureForm(components or 1, forms[0])
    part = statistics if sample is None else statistics.take(sample)
    if (components is None or len(forms) > 1) and (criterion == "bic" or len(part) >= 2 * FOLDS):
        counts = range(1, min(most, len(part)) + 1) if components is None else [int(components)]
        if parts is None:
            parts = deal_folds(len(statistics), folds, rng)
        search = FormSearch(part, joint, criterion, starts, rng, parts if sample is None else parts[sample])
        form = search.choose(forms, counts, kernels is None and covariance is None and complete and sample is None)
    joined = statistics.join_numbers(joint, form.covariance, prior_variance=form.prior_variance)
    read = partial(
        _read_statistics,
        roles=data.roles,
        measures=measures,
        joint=joint,
        covariance=form.covariance,
        factors=1 if joined.block is None else joined.block.factors,
    )

    def expect(parameters: MixtureParameters, _: NDArray[np.intp]) -> MixtureSums:
        return data.rows.learn(partial(_expect_part, read=read, parameters=parameters), data.variables)

    whole = expect if len(statistics) < len(data.rows) else None
    fit = fit_mixture(statistics, int(form.components), starts, rng, sample, joined, whole)
    fit = fit.reorder(np.argsort(-fit.log_shares, kind="stable"))
    mixture = FittedMixture(data, joined, joint, partial(_assign_components, read=read, fit=fit), fit)
    if not (kernels or form.kernels):
        return mixture
    centers = part.take(part.weights > 0)
    shares, logs = compute_responsibilities(centers.join_numbers(joint, form.covariance), fit)
    cells, states = centers.list_cells()
    return replace(mixture, kernels=(fit_kernels(cells, centers.weights, states, logs), shares))


def _read_cells(data: TrainingData) -> tuple[list[NDArray[Any]], list[int | None]]:
    """Return all columns as EM sees them, and the numbers of states; a number with points is a state, and a number
    where it is at none.
    """
    cells, states = [], []
    for column, is_state in _list_parts(data):
        variable, fitter, values = data.variable(column), data.fitter(column, ()), data.codes(column)
        if fitter.points and not isinstance(variable, Discrete):
            codes = fitter.locate_points(values)
            values = codes if is_state else np.where(codes == len(fitter.points), values, np.nan)
        cells.append(values)
        size = len(variable) if isinstance(variable, Discrete) else 0
        states.append((size or len(fitter.points) + 1) if is_state else None)
    return cells, states


def _measure(data: TrainingData) -> Measures:
    """Return what columns are standardized by, from all rows."""
    data.require_moments(data.attributes)
    ranges = [data.rows.value_range(column) for column, is_state in _list_parts(data) if not is_state]
    units = np.array([(max(abs(low), abs(high)) if low <= high else 0.0) or 1.0 for low, high in ranges])
    return data.rows.learn(partial(_measure_part, roles=data.roles, units=units), data.variables)


def _measure_part(table: Table, first: int, roles: Mapping[str, Role], units: Values) -> Measures:
    """Measure the columns of some rows."""
    cells, states = _read_cells(TrainingData(table, roles, None))
    return measure_columns(cells, states, table.weights, units)


def _read_statistics(
    table: Table,
    roles: Mapping[str, Role],
    measures: Measures,
    joint: NDArray[np.intp],
    covariance: Covariance,
    factors: int,
) -> Iterator[MixtureStatistics]:
    """Yield the statistics of the rows of a table, a few thousand at a time; see `MixtureStatistics.join_numbers`."""
    cells, states = _read_cells(TrainingData(table, roles, None))
    weights = table.weights
    for part in slice_blocks(len(weights), PART_ROWS):
        statistics = compute_statistics([own[part] for own in cells], states, weights[part], measures)
        yield statistics.join_numbers(joint, covariance, factors)


def _assign_components(table: Table, read: Callable[[Table], Iterator[MixtureStatistics]], fit: MixtureFit) -> Values:
    """Return the responsibilities of the components (rows, components) for the rows of a table."""
    parts = [compute_responsibilities(statistics, fit)[0] for statistics in read(table)]
    return np.concatenate([np.empty((0, fit.components)), *parts])


def _expect_part(
    table: Table, first: int, read: Callable[[Table], Iterator[MixtureStatistics]], parameters: MixtureParameters
) -> MixtureSums:
    """Return the expected statistics of some rows."""
    return reduce(add, (sum_expected(part, parameters, part.weights[None]) for part in read(table)))
