"""Learning a network from an incomplete table by data augmentation: draw the missing cells and learn again, in turn.

A network learned from available cases only is biased where cells are missing depending on other cells (MAR). Draws
given all observed cells of a row, and learning from the tables that they complete, remove the bias (Tanner & Wong
1987). With weights of the Bayesian bootstrap (Rubin 1981) in each round the parameters are draws from their posterior,
which makes multiple imputations proper.

How many rounds that takes depends on the information that is missing: a round leaves as large a share of an error as
the share of rows that tell nothing about it. Where much is missing, rounds go on until the statistics of the draws no
longer drift.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import HybridBNError, TableError
from hybridbn.estimation.available_cases import fit_available, fit_families
from hybridbn.estimation.completion import (
    Bounds,
    Cells,
    Completion,
    Keys,
    collect_observed_numbers,
    fill_table,
    find_holes,
    find_open_rows,
    hash_identifiers,
    levels_of,
    seed_of,
)
from hybridbn.fitting import MEstimate, MultinomialFitter
from hybridbn.fitting.base import Potentials, check_spec
from hybridbn.jobs import advance, track, use_jobs
from hybridbn.learning.imputation.default_network import ImputationRegression, best_target, conditional_gaussian_arcs
from hybridbn.learning.imputation.model import (
    Fills,
    IncompleteRows,
    Model,
    build_model,
    check_unmodeled_columns,
    classify_columns,
    has_metadata,
    integer_ranges,
    read_rows,
)
from hybridbn.learning.imputation.predictive_mean_matching import LearnedMatching, add_matching, fit_matching
from hybridbn.learning.imputation.rules import Rules, find_rules
from hybridbn.network import Network
from hybridbn.options import ImputationOptions, Options, check_count
from hybridbn.structures.building import Build
from hybridbn.tables import Table
from hybridbn.tables.columns import Frame, open_frame
from hybridbn.variables import Discrete, Values, shorten

DRAW_OPTIONS = Options(tolerance=1e-6)
"""The default options of imputation: draws need no more digits."""

_FINAL_TABLES = 5
"""The final network is learned from this many completed tables, so that no single draw decides."""
_REMAINING_ERROR = 0.02
"""Rounds go on until at most this share of the first network's error is left,"""
_LEAST_ROUNDS, _MOST_ROUNDS = 6, 60
"""with so many at least and at most,"""
_MORE_ROUNDS = 1.5
"""so many times more as long as drawn cells and residual variances still drift,"""
_ARCS_EVERY = 5
"""After the least number of rounds arcs are learned anew in one of so many, which is what takes most of the time."""
_FIRST_ROWS, _LEAST_DIFFERING = 5000, 25
"""Of many rows, so many are enough for the first rounds, where in each column so many cells are not the first one;"""
_REMAINING_CHANCE = 0.25
"""rounds with all rows go on until an error by chance in these few is so small a share of the one in all."""
_DRIFT = 4.0
"""that is as long as the square of a change is this many times what chance explains."""
_LOST = 0.3
"""Where a smaller share of the information is missing, a drift would be over before it could be told from chance."""
_REMAINING_IN_SWEEPS, _MOST_SWEEPS = 0.1, 8
"""Matched columns are drawn in turn until so little of what the network has drawn is left, but so often at most."""
_REMAINING_CORRELATION = 0.15
"""The parameters of two successive draws have at most this correlation."""


@dataclass(frozen=True)
class DefaultLearner:
    """Learns conditional Gaussian networks, the default of imputation.

    Attributes
    ----------
    observed : mapping from column to float
        The number of observed cells in each column.
    """

    observed: Mapping[str, float]

    def learn_first(self, table: Table, filled: Table) -> Network:
        """Return a tree, fitted to the available cases."""
        arcs = conditional_gaussian_arcs(filled, self.observed, most_parents=1)
        try:
            return _fit_default(table, arcs)
        except HybridBNError:
            return _fit_default(filled, arcs)

    @classmethod
    def of(cls, table: Table) -> Self:
        """Return a learner for an incomplete table."""
        return cls({name: float((~table.cells(name).missing).sum()) for name in table.names})

    def learn_again(self, network: Network, completed: Table, settled: bool, bootstrap: bool = False) -> Network:
        """Return a network with the arcs that AIC chooses, or with its present ones where they are settled.

        With `bootstrap` the completed table has random weights.
        """
        arcs = network.edges if settled else conditional_gaussian_arcs(completed, self.observed)
        return _fit_default(completed, arcs, price=2.0 if bootstrap else 1.0)


@dataclass(frozen=True)
class BuilderLearner:
    """Learns networks with a user's builder.

    Attributes
    ----------
    build : callable from Table to Network
    potentials : as in `hybridbn.fit`, optional
        The families for learning again; without them the nodes keep theirs.
    """

    build: Callable[[Table], Network]
    potentials: Potentials = "auto"

    def learn_first(self, table: Table, filled: Table) -> Network:
        """Return the builder's network of the available cases, or of the filled table where these are too few."""
        try:
            return self.build(table)
        except HybridBNError:
            return self.build(filled)

    def learn_again(self, network: Network, completed: Table, settled: bool, bootstrap: bool = False) -> Network:
        """Return a network with new potentials; where there are hidden nodes, a new network.

        Where a family can't be learned from these draws, the network stays as it is until the next ones.
        """
        try:
            has_hidden = any(name not in completed for name in network)
            return self.build(completed) if has_hidden else fit_available(network, completed, self.potentials)
        except TableError:
            return network


Learner: TypeAlias = DefaultLearner | BuilderLearner


@dataclass
class DataAugmentation:
    """The rounds of drawing and learning.

    Attributes
    ----------
    table : Table
        The incomplete table.
    learner : DefaultLearner or BuilderLearner
    bounds : mapping
    options : Options
    rng : Generator
    rounds : int, optional
    matching : bool
        Whether numbers that are far from normal are drawn by predictive mean matching.
    rules : Rules
        What draws keep. In learning they keep sums only: limits would shift means, as normal distributions ignore them.
    network : Network
        The network that was learned last.
    history : list of dict
        For each round and column with holes, mean and standard deviation of the drawn numbers, or the share of the
        state that is drawn most.
    """

    table: Table
    learner: Learner
    bounds: Bounds
    options: Options
    rng: np.random.Generator
    rounds: int | None = None
    matching: bool = True
    rules: Rules = field(default_factory=Rules)
    network: Network = field(init=False)
    history: list[dict[str, Any]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self._holes = find_holes(self.table)
        self.observed: dict[str, Values] = collect_observed_numbers(self.table)
        self._completed = self.table
        self._matching: LearnedMatching | None = None
        if not self._holes:
            self.network = self.learner.learn_again(
                self.learner.learn_first(self.table, self.table), self.table, settled=False
            )
            return
        self._completed = fill_table(self.table, self.rules.settle_sums(self.table, self._fill_at_random()))
        wanted = self._learn_first()
        tables: deque[Table] = deque(maxlen=_FINAL_TABLES)
        trace: list[Values] = []
        with track("learn to impute", self.rounds):
            while len(trace) < wanted:
                self._completed = self._draw(self.network)
                tables.append(self._completed)
                number = len(trace) + 1
                is_settled = number + 1 >= wanted or (number > _LEAST_ROUNDS and number % _ARCS_EVERY > 0)
                self.network = self.learner.learn_again(self.network, self._completed, is_settled)
                trace.append(_trace(self.history[-1], self.network))
                advance()
                is_asked = number == wanted and self.rounds is None and self._find_lost_information() > _LOST
                if is_asked and has_drift(np.array(trace)):
                    wanted = min(math.ceil(_MORE_ROUNDS * wanted), _MOST_ROUNDS)
        if trace:
            kept = min(_FINAL_TABLES, (len(trace) + 1) // 2)
            self.network = self.learner.learn_again(self.network, self._stack([*tables][-kept:]), settled=True)

    def _learn_first(self) -> int:
        """Learn the first network, of many rows from converged rounds with some; return how many rounds follow."""
        if self.rounds is None and len(self.table) >= 2 * _FIRST_ROWS:
            rows = np.sort(self.rng.choice(len(self.table), _FIRST_ROWS, replace=False))
            part = self.table.take(rows)
            differ = all(_count_differing(part, name) >= _LEAST_DIFFERING for name in part.names)
            # a user's builder decides on the arcs by all rows
            if differ and isinstance(self.learner, DefaultLearner):
                learner = DefaultLearner.of(part)
                first = DataAugmentation(part, learner, self.bounds, self.options, self.rng, rules=self.rules)
                self.network, self.history = first.network, first.history
                # arcs are learned once more in the first of three rounds at least
                share = _REMAINING_CHANCE * math.sqrt(_FIRST_ROWS / len(self.table))
                return self._count_rounds(share, 3, _MOST_ROUNDS)
        self.network = self.learner.learn_first(self.table, self._completed)
        rounds = self.rounds
        return self._count_rounds(_REMAINING_ERROR, _LEAST_ROUNDS, _MOST_ROUNDS) if rounds is None else rounds

    def draw_networks(self) -> Iterator[Network]:
        """Yield networks whose parameters are nearly independent draws from their posterior."""
        rows = len(self.table)
        # the bootstrap's variance of a mean becomes that of its posterior: n - 3 in place of n + 1
        shape = min(max((rows - 4) / rows, 0.25), 1.0)
        spacing = self._count_rounds(_REMAINING_CORRELATION, 1, 8) if self._holes else 1
        completed = self._draw(self.network) if self._holes else self.table
        network = self.network
        while True:
            for _ in range(spacing):
                weights = self.rng.gamma(shape, size=rows) * self.table.weights
                network = self.learner.learn_again(
                    network, completed.with_weights(weights), settled=True, bootstrap=True
                )
                if self._holes:
                    completed = self._completed = self._draw(network)
            yield network

    def completion_of(self, network: Network) -> Completion:
        """Return the completion by a network, with predictive mean matching of numbers that are far from normal.

        That by the network that was learned last comes first, as it chooses what is matched, and by which regressions.
        """
        rules = self.rules
        completion = Completion(network, self.options, self.observed, self.bounds, rules.supports, rules.orders)
        # with hidden nodes the expectation of a number is not a function of the other cells
        if completion.closed is None or not self.matching or any(name not in self.table for name in network):
            return completion
        if any(self._completed.missing[name] for name in network):
            # the network that was drawn from last had left out a column
            self._completed = self._draw(network)
        if network is self.network:
            sweeps = self._count_rounds(_REMAINING_IN_SWEEPS, 1, _MOST_SWEEPS) if self._holes else 1
            self._matching = fit_matching(completion, self._completed, self._holes, self.rng, self.rules, sweeps)
            matcher = self._matching.matching if self._matching else None
        else:
            matcher = self._matching.redraw(self._completed, self._holes, self.rng) if self._matching else None
        return add_matching(completion, matcher, self.rules)

    def _count_rounds(self, remaining: float, least: int, most: int) -> int:
        """Return the number of rounds after which at most this share of a deviation remains, in the slowest arc."""
        lost = self._find_lost_information()
        rounds = math.ceil(math.log(remaining) / math.log(max(lost, 1e-9))) if lost < 1 else most
        return int(np.clip(rounds, least, most))

    def _find_lost_information(self) -> float:
        """Return the greatest share of rows in which a column, or one of the two columns of an arc, is missing.

        The rows with both tell how the two depend on each other. A round lets so much of an error about it remain as
        is missing.
        """
        counted = self.table.weights > 0
        if not self._holes or not counted.any():
            return 0.0
        holes = {name: missing[counted] for name, missing in self._holes.items()}
        nowhere = np.zeros(int(counted.sum()), dtype=bool)
        arcs = ((a, b) for a, b in self.network.edges if a in holes or b in holes)
        of_arcs = max((float((holes.get(a, nowhere) | holes.get(b, nowhere)).mean()) for a, b in arcs), default=0.0)
        return max(of_arcs, *(float(missing.mean()) for missing in holes.values()))

    def _draw(self, network: Network) -> Table:
        keys = self.rng.integers(2**64, size=len(self.table), dtype=np.uint64)
        completion = Completion(network, self.options, self.observed, self.bounds)
        cells = completion.draw(self.table, levels_of(keys, list(network), 0))
        cells = self.rules.settle_sums(self.table, cells)
        self.history.append(self._summarize(cells))
        return fill_table(self.table, cells)

    def _fill_at_random(self) -> Cells:
        """Draw the holes of each column from its own observed cells."""
        cells = {}
        for name, holes in self._holes.items():
            column = np.array(self.table.column(name))
            column[holes] = self.rng.choice(column[~holes], size=int(holes.sum()))
            cells[name] = column
        return cells

    def _stack(self, tables: list[Table]) -> Table:
        """Return one table with the incomplete rows of several completed tables; complete rows occur once."""
        incomplete_rows = find_open_rows(self.table)
        complete_rows = np.delete(np.arange(len(self.table)), incomplete_rows)
        stacked = self.table.take(np.concatenate([complete_rows, np.tile(incomplete_rows, len(tables))]))
        for name in self._holes:
            column = np.concatenate(
                [self.table.column(name)[complete_rows], *(table.column(name)[incomplete_rows] for table in tables)]
            )
            stacked = stacked.with_array(name, column)
        weights = self.table.weights
        shared = np.tile(weights[incomplete_rows] / len(tables), len(tables))
        return stacked.with_weights(np.concatenate([weights[complete_rows], shared]))

    def _summarize(self, cells: Cells) -> dict[str, Any]:
        drawn = {name: cells[name][holes] for name, holes in self._holes.items() if name in cells}
        return {
            name: float(np.bincount(values).max() / len(values))
            if self.table.is_discrete(name)
            else (float(values.mean()), float(values.std()))
            for name, values in drawn.items()
        }


def has_drift(trace: Values) -> bool:
    """Return whether statistics still move: whether their means over the last two thirds of the rounds differ.

    Parameters
    ----------
    trace : ndarray (rounds, statistics)

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=(30, 5))
    >>> has_drift(noise), has_drift(noise + 0.3 * np.arange(30)[:, None])
    (False, True)
    """
    window = len(trace) // 3
    if window < 3 or not trace.shape[1]:
        return False
    earlier, later = trace[-2 * window : -window], trace[-window:]
    noise = (earlier.var(axis=0, ddof=1) + later.var(axis=0, ddof=1)) / window
    squares = (later.mean(axis=0) - earlier.mean(axis=0)) ** 2
    told = noise > 1e-12 * np.maximum(np.square(trace).mean(axis=0), 1e-300)
    if not told.any():
        return False
    # the mean of the square of Student's t
    by_chance = (window - 1) / (window - 2)
    return bool((squares[told] / noise[told]).mean() > _DRIFT * by_chance)


def _trace(summary: Mapping[str, Any], network: Network) -> Values:
    """Return the statistics of a round: those of drawn cells, and the logarithms of residual variances."""
    statistics = [np.ravel(one) for one in summary.values()]
    regressions = (network.potential(name).as_regression() for name in network)
    variances = [np.log(one.variance.mean()) for one in regressions if one is not None]
    return np.concatenate([np.zeros(0), *statistics, np.array(variances)])


def _count_differing(table: Table, name: str) -> int:
    """Return how many observed cells of a column differ from the first one."""
    observed = table.column(name)[~table.cells(name).missing]
    return int((observed != observed[:1]).sum())


def _fit_default(table: Table, arcs: Container[tuple[str, str]], price: float = 1.0) -> Network:
    """Return a network of tables of probabilities and regressions, with nodes and parents in the table's order."""
    table_of_states, regression = MultinomialFitter(estimate=MEstimate(m=1.0)), ImputationRegression(price=price)
    return fit_families(
        table,
        [
            (
                table_of_states if isinstance(variable, Discrete) else regression,
                variable,
                tuple(parent for parent in table.variables if (parent.name, variable.name) in arcs),
            )
            for variable in table.variables
        ],
    )


@dataclass(frozen=True, kw_only=True)
class Settings(ImputationOptions):
    """The options of imputation, with those of inference."""

    options: Options = DRAW_OPTIONS


@dataclass(frozen=True, eq=False)
class FittedImputation:
    """A model that completes rows, and how it was learned.

    Attributes
    ----------
    model : Model
    seed : int
        The seed with which the rows' keys are mixed.
    augmentation : DataAugmentation, optional
        The source of further draws of the parameters.
    history : list of dict
        A summary of the draws in each round of learning.
    """

    model: Model
    seed: int
    augmentation: DataAugmentation | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    def models(self, draws: int | None) -> Iterator[Model]:
        """Yield a model for each draw; where parameters were learned, they are draws from their posterior."""
        if draws is None or self.augmentation is None:
            yield from [self.model] * (draws or 1)
            return
        for network, _ in zip(self.augmentation.draw_networks(), range(draws), strict=False):
            yield Model(self.model.columns, self.augmentation.completion_of(network))


@dataclass(frozen=True)
class Filler:
    """Fills holes by models, one for each draw; `history` has what each round of learning drew."""

    models: Sequence[Model]
    strategy: str
    seed: int
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, fitted: FittedImputation, strategy: str, draws: int | None) -> Filler:
        """Return the filler of what was learned."""
        return cls(list(fitted.models(draws)), strategy, fitted.seed, list(fitted.history))

    @property
    def names(self) -> list[str]:
        """The columns whose missing cells are imputed."""
        return list(self.models[0].columns.variables)

    def read(self, frame: Frame, declared: Table | None = None) -> IncompleteRows:
        """Return some rows as the models read them; what is to be said of all rows was said of the sample."""
        with warnings.catch_warnings(action="ignore"):
            return read_rows(frame, self.models[0], "missing", declared)

    def fill(self, rows: IncompleteRows, keys: Keys, draw: int = 0) -> Fills:
        """Return the values that fill the holes of each column."""
        with warnings.catch_warnings(action="ignore"):
            return self.models[draw].fill(rows, self.strategy, keys, self.seed + draw)

    def fill_table(self, draw: int, table: Table, first: int) -> dict[str, tuple[NDArray[np.intp], list[Any]]]:
        """Return the rows with a hole in each column, and what fills it, of rows that are known by their numbers."""
        open_rows = find_open_rows(table)
        rows = self.read(open_frame(table.take(open_rows)))
        fills = self.fill(rows, hash_identifiers(open_rows + first, len(open_rows)), draw)
        return {name: (open_rows[rows.holes[name]], values.tolist()) for name, values in fills.items()}


def fit_imputation(
    table: Table, settings: Settings, ranges: Bounds, unusable: Mapping[str, str] | None = None
) -> FittedImputation:
    """Learn the model that completes an incomplete table.

    Parameters
    ----------
    ranges : mapping from column to (low, high)
        The ranges of columns with integer types.
    unusable : mapping from column to reason
        Columns that are not in the table because nothing can be done with them.
    """
    seed = seed_of(settings.random_state)
    columns = classify_columns(
        table,
        settings.include,
        settings.integers,
        settings.bounds,
        ranges,
        settings.full_precision,
        unusable,
    )
    rounds = None if settings.rounds is None else check_count(settings.rounds, "rounds")
    if not columns.modeled:
        return FittedImputation(Model(columns, None), seed)
    working = Table(table.select(columns.modeled), variables=[columns.variables[name] for name in columns.modeled])
    if settings.rules:
        rules = find_rules(working, [name for name in working.names if not working.is_discrete(name)])
        columns, working = columns.with_rules(rules), rules.encode(working)
    learner = _choose_learner(settings.structure, settings.target, settings.potentials, working)
    rng = np.random.default_rng(seed)
    with use_jobs(settings.options.n_jobs):
        augmentation = DataAugmentation(
            working,
            learner,
            columns.widen(columns.bounds),
            settings.options,
            rng,
            rounds,
            settings.donors,
            replace(columns.rules, supports=columns.widen(columns.rules.supports)),
        )
    model = Model(columns, augmentation.completion_of(augmentation.network))
    return FittedImputation(model, seed, augmentation, augmentation.history)


def use_network(network: Network, frame: Frame, settings: Settings) -> FittedImputation:
    """Return the model of a given network: the one in its metadata, if it has any, or the one of its nodes."""
    options, integers = settings.options, settings.integers
    if isinstance(network, Network) and has_metadata(network):
        if settings.bounds is not None:
            raise TableError(
                "the model has bounds of its own, as it was learned by imputation; bounds are for learning"
            )
        named = {integers} if isinstance(integers, str) else set(integers or ())
        ranges = integer_ranges(frame)
        model = Model.from_metadata(network, options, ranges, {*named, *ranges})
    else:
        model = build_model(network, frame, settings.bounds, integers, options)
    check_unmodeled_columns(frame, model.columns.variables)
    return FittedImputation(model, seed_of(settings.random_state))


def _choose_learner(structure: Any, target: str | None, potentials: Potentials, table: Table) -> Learner:
    """Return the way of learning that the user's options ask for."""
    if isinstance(potentials, Mapping):
        potentials = {name: spec for name, spec in potentials.items() if name in table}
        for name, spec in potentials.items():
            check_spec(spec, name)
    else:
        check_spec(potentials, "all columns")
    automatic = isinstance(potentials, str) and potentials == "auto"
    if target is not None and target not in table:
        raise TableError(f"target={target!r} is no column that can be modeled; these are {shorten(table.names)}")
    if isinstance(structure, str) and structure == "auto":
        if automatic and target is None:
            return DefaultLearner.of(table)
        structure = "chow_liu" if target is None else "tan"
    build = Build.of(structure, "structure")
    return BuilderLearner(partial(_learn_with_target, build, target, None if automatic else potentials), potentials)


def _learn_with_target(build: Build, target: str | None, potentials: Potentials | None, table: Table) -> Network:
    """Learn a network; a builder that needs a target gets the column with the most information about the others."""
    kind = build.declaration.takes_target
    if build.structure is not None or not kind:
        return build.learn(table, None, potentials)
    if target is None:
        names = [name for name in table.names if kind is True or isinstance(table.variable(name), kind)]
        target = best_target(_without_holes(table), names)
    return build.learn(table, target, potentials)


def _without_holes(table: Table) -> Table:
    """Return the complete rows, or the table with holes filled by the most frequent state and the mean."""
    for name in table.names:
        holes = table.cells(name).missing
        if holes.any():
            column = np.array(table.column(name))
            seen = column[~holes]
            column[holes] = np.bincount(seen).argmax() if table.is_discrete(name) else seen.mean()
            table = table.with_array(name, column)
    return table
