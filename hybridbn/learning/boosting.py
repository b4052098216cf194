"""`boost`: AdaBoost over Bayesian networks, each learned with more weight on rows that earlier ones misclassified."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Unpack

import numpy as np

from hybridbn.errors import TableError, warn_user
from hybridbn.fitting import Role, fitter_of, roles
from hybridbn.fitting.base import Potentials, counts_suffice
from hybridbn.fitting.counting import RowCounter, count_columns
from hybridbn.fitting.cross_validation import collapse_rows
from hybridbn.jobs import progress_if, track
from hybridbn.learning.ensemble import ClassScorer, Ensemble, LazyNetwork, LazyNetworks, vote_scores
from hybridbn.learning.sample_weights import SampleWeights
from hybridbn.learning.weak_learners import BuiltLearner, CountedLearner
from hybridbn.network import Network
from hybridbn.options import (
    Marks,
    Options,
    PrecisionKeywords,
    as_numbers,
    check_choice,
    check_count,
    make_generator,
    resolve_options,
)
from hybridbn.structures.building import Build, Learner, Structure
from hybridbn.tables import Rows, Table
from hybridbn.variables import Discrete, Values, shorten

_ROUNDING = 1e-9
"""A share of the rows that is less than a whole number by this is that number."""


def boost(
    data: Any,
    target: str,
    build: Structure | Build | None = None,
    rounds: int = 100,
    algorithm: Literal["m1", "real"] = "m1",
    potentials: Potentials | None = None,
    weights: Any = None,
    *,
    priors: Sequence[float] | Mapping[Any, float] | None = None,
    refit_cuts: bool = False,
    validation: Any = None,
    patience: int = 10,
    max_restarts: int | None = None,
    progress: bool | Callable[[Round], Any] = False,
    random_state: Any = 0,
    discrete: str | Iterable[str] = (),
    continuous: str | Iterable[str] = (),
    ordered: str | Iterable[str] = (),
    missing: Marks = None,
    options: Options | None = None,
    **keywords: Unpack[PrecisionKeywords],
) -> Ensemble:
    r"""Learn an ensemble of networks that vote on a class, by AdaBoost.

    "m1" is AdaBoost.M1 as Ting and Zheng (2003, section 2) have it: with the share of the weight that a network gets
    wrong,

    .. math:: \epsilon_t = \frac1N \sum_n w_t(n) \delta(n) \quad (1)

    the weights of the wrong rows are divided by :math:`2\epsilon_t` (2), those of the others by :math:`2(1-\epsilon_t)`
    (3); none falls below 1e-8, and they sum to N. A network's vote is :math:`\log((1-\epsilon_t)/\epsilon_t)`, or
    log(1e10) for one without errors. After that one, and after one with :math:`\epsilon_t \ge 1/2`, which is thrown
    away, the weights start anew from a bootstrap sample of the rows.

    "real" is Real AdaBoost (Schapire and Singer, 1999) for two classes: the log-odds :math:`h_t` of a network count,
    with the vote :math:`\alpha_t` that minimizes :math:`\sum_n w_t(n) e^{-y_n \alpha_t h_t(n) / 2}`, which are the next
    weights. Over naive Bayes of tables the ensemble is again a naive Bayes network: see `Ensemble.collapse`.

    Parameters
    ----------
    data : DataFrame, Table, mapping of arrays, ...
        Whatever `Table` takes; holes are allowed. Rows without a class can't be boosted and do not count, like rows of
        weight zero.
    target : str
        A discrete column.
    build : builder, partial of one, its name, Network, or list of arcs, optional
        How a network is learned from a weighted table: a function of (data, target, potentials=), such as
        ``partial(nb_tree, max_depth=3)``. A `Network` keeps its arcs and families. By default: naive Bayes.
    rounds : int
        How many networks to learn.
    algorithm : {"m1", "real"}
    potentials : as in `hybridbn.fit`, optional
        By default a partial's own choice and a Network's families are kept, and otherwise all is tables of
        probabilities (m-estimate, m = 2), number columns being cut into intervals by Fayyad and Irani's entropy
        criterion.
    weights : sequence of float, optional
        One for each row; they replace those of a `Table`. A row of weight 2 counts as two rows, and their sum is the N
        above.
    priors : sequence or mapping from class to probability, optional
        The rows of each class are weighted so that the classes, in the order of their states, have these shares.
    refit_cuts : bool
        Cut number columns anew in each round, by the weights of the round.
    validation : float or table, optional
        For early stopping: rows that are held out, or the share of them to take at random from each class. The ensemble
        that errs least on them is returned, and boosting ends when `patience` more networks did not make it better.
    patience : int
    max_restarts : int, optional
        Most starts from a bootstrap sample; boosting ends with a warning where they are not enough. Twice the rounds
        and 20 more by default.
    progress : callable or bool
        Called with a `Round` after each round; True draws a bar.
    random_state : int, Generator, ...
        Whatever `numpy.random.default_rng` takes: for bootstrap samples and held-out rows.
    discrete, continuous, ordered, missing : as in `hybridbn.Table`
    options : Options, optional
        Of posteriors; or its attributes as keywords, `tolerance`, `max_bytes` and `n_jobs`: threads that share a pass
        over the rows where naive Bayes over discrete columns is boosted. One round needs the last, so nothing else runs
        at the same time.

    Returns
    -------
    Ensemble

    Notes
    -----
    A row whose cells are missing is marginalized by each network; one that is impossible for a network counts as wrong.
    Naive Bayes over discrete columns is boosted with one pass over the data a round (Elkan, 1997, section 4): O(rows x
    columns) time, and in memory at most 64 bits a row beside the coded data. The result is that of the general way.

    A scan is boosted by passes that its backend makes: those by which the builder learns, one that classifies, about
    two for the vote of Real AdaBoost, and one more where a weight falls below the floor. For naive Bayes over discrete
    columns it is one in all. Weights are noted in a temporary folder, 16 bytes a row, and computed anew from the
    networks since the last start by whoever does not see it, such as another machine; a start from a bootstrap sample
    takes a byte a row in memory. Ensembles with weights, priors or held-out rows are learned from a sample.

    References
    ----------
    Ting & Zheng (2003), "A study of AdaBoost with naive Bayesian classifiers: weakness and improvement", Computational
    Intelligence 19. Elkan (1997), "Boosting and naive Bayesian learning", Technical Report CS97-557, UCSD. Schapire &
    Singer (1999), "Improved boosting algorithms using confidence-rated predictions", Machine Learning 37.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> a, b, c = rng.integers(0, 2, (3, 300))
    >>> table = Table({"a": a, "b": b, "c": c, "most": np.where(a + b + c > 1, "yes", "no")}, discrete=["a", "b", "c"])
    >>> ensemble = boost(table, "most", rounds=10)
    >>> ensemble
    <Ensemble of 10 networks for 'most': AdaBoost.M1, 10 restarts>
    >>> ensemble.predict({"a": 1, "b": 0, "c": 1})
    'yes'
    """
    rng = make_generator(random_state)
    _check(rounds, algorithm, patience, max_restarts, progress)
    builder = Build.of(build)
    rows: Rows = builder.read(
        data, weights, target, discrete=discrete, continuous=continuous, ordered=ordered, missing=missing
    )
    variable = _check_target(rows, target, algorithm)
    families = builder.potentials if potentials is None else potentials
    if families is None and not builder.keeps_families:
        families = "multinomial"
    precision = resolve_options("boost", options, keywords, impossible="nan")
    max_restarts = 2 * int(rounds) + 20 if max_restarts is None else int(max_restarts)
    run = BoostingRun(int(rounds), max_restarts, progress if callable(progress) else None)
    if rows.weighted or priors is not None or validation is not None:
        rows = rows.sample(purpose="ensembles with weights, priors or held-out rows")
    rows.expect(target, count_columns)
    filtered = rows.weighted or rows.count_missing(target) > 0
    rows = _keep_usable_rows(rows, variable)
    if validation is not None:
        held_out, kept = _hold_out(rows.sample(), variable, validation, rng)
        run.stopping = EarlyStopping(ClassScorer(target, held_out, precision), algorithm == "real", held_out, patience)
        rows = rows if kept is None else kept
    _require_two_classes(rows, variable)
    # what is remembered of these rows is boosting's own
    rows = rows.with_weights(_initial_weights(rows, variable, priors))
    with (
        progress_if(progress is True),
        track("boost", run.rounds) as run.report,
        rows.open_notes() as folder,
    ):
        roles_of_columns = None if families is None else roles(rows, target, families)
        learner: CountedLearner | BuiltLearner | None = None
        if roles_of_columns is not None and not refit_cuts:
            rows = rows.with_variables([role.variable for role in roles_of_columns.values()])
            if algorithm == "m1" and builder.is_naive_bayes(target, list(roles_of_columns)):
                learner = _make_counted_learner(rows, roles_of_columns, target, precision)
        if learner is None:
            # families that a structure leaves open follow from the columns, which are cut by now
            learn = partial(
                builder.learn, target=target, potentials=families if builder.structure is None else potentials
            )
            if refit_cuts and families is not None:
                learn = partial(_cut_and_learn, learn=learn, target=target, potentials=families)
            learner = BuiltLearner(rows, target, learn, precision, algorithm == "real")
        run_rounds(rows, learner, SampleWeights.of(rows, folder, filtered), run, rng)
        networks, errors, votes = zip(*run.finish(), strict=True)
        return Ensemble(LazyNetworks(networks), np.array(votes), target, algorithm, np.array(errors), run.restarts)


def run_rounds(
    rows: Rows,
    learner: CountedLearner | BuiltLearner,
    weights: SampleWeights,
    run: BoostingRun,
    rng: np.random.Generator,
) -> None:
    """Run AdaBoost; `run` gets the networks."""
    while run.has_more:
        network, error, vote, following = learner.learn(weights)
        if vote <= 0 and run.first_rejected is None:
            # in case that no other follows
            run.first_rejected = network, error, 1.0
        if following is None:
            run.needed_restarts += 1
        weights = weights.restart(rows, rng) if following is None else following
        if vote > 0:
            run.add(network, error, vote, partial(weights.list_all, rows))


def _cut_and_learn(table: Table, *, learn: Learner, target: str, potentials: Potentials) -> Network:
    """Learn from number columns cut by the weights of the round."""
    columns = roles(table, target, potentials).values()
    return learn(table.with_variables([role.variable for role in columns]))


@dataclass(frozen=True)
class Round:
    """The state of boosting after a round, for progress callbacks.

    Attributes
    ----------
    number, rounds : int
        The number of the round, from 1, and the number of rounds in all.
    network : Network
    error : float
        The weighted share of rows that the network classifies wrongly.
    vote : float
    restarts : int
        The number of restarts so far.
    held_out : float or None
        The ensemble's error on the held-out rows, where there are any.
    """

    number: int
    rounds: int
    network: Network
    error: float
    vote: float
    restarts: int
    held_out: float | None
    _weights: Callable[[], Values] = field(repr=False)

    @property
    def weights(self) -> Values:
        """The weights with which the next network is learned; rows that don't count have none."""
        return self._weights()


@dataclass
class EarlyStopping:
    """The ensemble's error on held-out rows after each network, for early stopping."""

    scorer: ClassScorer
    real: bool
    rows: Table
    patience: int
    total: Values | None = None
    errors: list[float] = field(default_factory=list)

    def add(self, network: Network, vote: float) -> float:
        """Add a network's scores and return the error."""
        scores = vote_scores(self.scorer.log_joint(network), vote, self.real)
        self.total = scores if self.total is None else self.total + scores
        wrong = self.total.argmax(axis=0) != self.rows.column(self.scorer.target)
        self.errors.append(float(np.average(wrong, weights=self.rows.weights)))
        return self.errors[-1]

    @property
    def best(self) -> int:
        """The number of networks with the least error."""
        return int(np.argmin(self.errors)) + 1

    @property
    def is_over(self) -> bool:
        """Whether the error has not fallen for as many rounds as `patience` allows."""
        return bool(self.errors) and len(self.errors) - self.best >= self.patience


@dataclass
class BoostingRun:
    """The networks of a run so far, with their errors and votes."""

    rounds: int
    max_restarts: int
    progress: Callable[[Round], Any] | None = None
    stopping: EarlyStopping | None = None
    members: list[tuple[LazyNetwork, float, float]] = field(default_factory=list)
    needed_restarts: int = 0
    first_rejected: tuple[LazyNetwork, float, float] | None = None
    report: Callable[[int, str], None] | None = None

    @property
    def has_more(self) -> bool:
        """Whether another round follows."""
        full = len(self.members) >= self.rounds or (self.stopping is not None and self.stopping.is_over)
        return not full and self.needed_restarts <= self.max_restarts

    @property
    def restarts(self) -> int:
        """The number of starts from a bootstrap sample; boosting ends where one more is needed than it may take."""
        return min(self.needed_restarts, self.max_restarts)

    def add(self, network: LazyNetwork, error: float, vote: float, weights: Callable[[], Values]) -> None:
        """Add a network, or a function that makes it."""
        if not isinstance(network, Network) and (self.stopping or self.progress):
            network = network()
        self.members.append((network, error, vote))
        if self.report is not None:
            self.report(len(self.members), f"error {error:.4f}")
        if isinstance(network, Network):
            held_out = None if self.stopping is None else self.stopping.add(network, vote)
            if self.progress is not None:
                number = len(self.members)
                self.progress(Round(number, self.rounds, network, error, vote, self.restarts, held_out, weights))

    def finish(self) -> list[tuple[LazyNetwork, float, float]]:
        """Return networks, errors and votes; warn if the restarts were not enough."""
        if self.needed_restarts > self.max_restarts:
            warn_user(
                f"boosting ended after {len(self.members)} of {self.rounds} rounds, as "
                f"max_restarts={self.max_restarts} restarts "
                "were not enough: networks err on half of the weight or more, or never"
                + ("" if self.members else "; the ensemble is the first network alone, with a vote of 1"),
            )
        if not self.members and self.first_rejected is not None:
            return [self.first_rejected]
        return self.members if self.stopping is None else self.members[: self.stopping.best]


# -- checks and preparations ------------------------------------------------------------------------------------------


def _make_counted_learner(
    rows: Rows, roles_of_columns: Mapping[str, Role], target: str, options: Options
) -> CountedLearner | None:
    """Return what learns naive Bayes from counts alone; None where it takes more than tables of discrete columns."""
    variables = {name: r.variable for name, r in roles_of_columns.items() if isinstance(r.variable, Discrete)}
    if len(variables) < max(len(roles_of_columns), 2):
        return None
    fitters = {
        name: fitter_of(role.fitter, role.variable, () if name == target else (variables[target],))
        for name, role in roles_of_columns.items()
    }
    counted = {name: fitter for name, fitter in fitters.items() if counts_suffice(fitter)}
    if len(counted) < len(fitters):
        return None
    variable = variables.pop(target)
    return CountedLearner(rows, variables, variable, counted, options.jobs)


def _keep_usable_rows(rows: Rows, target: Discrete) -> Rows:
    """Return the rows that have a class and weight."""
    if not RowCounter(rows, [target]).joint((target.name,)).any():
        raise TableError(f"no row of positive weight has a value of {target.name!r}")
    return rows.keep_rows(target) if rows.weighted or rows.count_missing(target.name) else rows


def _require_two_classes(rows: Rows, target: Discrete) -> None:
    occurring = np.flatnonzero(RowCounter(rows, [target]).joint((target.name,)))
    if len(occurring) < 2:
        raise TableError(
            f"the target {target.name!r} has one value in the rows that count, {target.states[occurring[0]]!r};"
            " boosting needs two classes"
        )


def _hold_out(
    table: Table, variable: Discrete, validation: Any, rng: np.random.Generator
) -> tuple[Table, Table | None]:
    """Return rows for early stopping, and the other rows; None for all rows."""
    target = variable.name
    if isinstance(validation, bool) or not isinstance(validation, float | int | np.number):
        validation_table = Table(validation, variables=table.variables)
        if target not in validation_table:
            raise TableError(
                f"validation: the held-out rows have no column {target!r}; its columns are "
                f"{shorten(validation_table.names)}"
            )
        return _keep_usable_rows(validation_table, variable).sample(), None
    if not 0 < validation < 1:
        raise TableError(f"validation must be a table, or a share of the rows between 0 and 1, not {validation!r}")
    distinct = collapse_rows(table)
    _, first, codes = np.unique(table.column(target)[distinct.rows], return_index=True, return_inverse=True)
    # one class after the other, in an order that is not that of their names
    order = np.lexsort((rng.permutation(len(codes)), first[codes]))
    weights = distinct.weights[order]
    unit = min(float(weights.mean()), 1.0)
    # rows are taken at equal distances from each class, so that classes keep their shares
    ends = np.floor(np.cumsum(np.append(0.0, weights)) / unit * float(validation) + _ROUNDING)
    held_out = np.minimum(np.diff(ends) * unit, weights)
    parts = [(order[part > 0], part[part > 0]) for part in (held_out, weights - held_out)]
    if not all(len(chosen) for chosen, _ in parts):
        raise TableError(f"validation={validation!r} of {len(table)} rows leaves no row on one side")
    held, kept = (table.take(distinct.rows[chosen]).with_weights(part) for chosen, part in parts)
    return held, kept


def _initial_weights(rows: Rows, variable: Discrete, priors: Any) -> Values | None:
    """Return weights with which the classes have the given shares; without these the rows' own, None where they have
    none.
    """
    if priors is None:
        return rows.sample().weights if rows.weighted else None
    shares, table = read_priors(priors, variable.states), rows.sample()
    codes, weights = table.column(variable.name), table.weights
    sums = np.bincount(codes, weights, len(variable))
    if ((sums == 0) & (shares > 0)).any() or ((sums > 0) & (shares == 0)).any():
        raise TableError(f"priors must be positive for the classes that occur, and zero for others: {priors!r:.200}")
    factors = np.divide(shares * sums.sum(), sums, out=np.zeros(len(sums)), where=sums > 0)
    return np.asarray(weights * factors[codes])


def read_priors(priors: Any, classes: Sequence[Any]) -> Values:
    """Return the prior probabilities in the order of the classes.

    Examples
    --------
    >>> read_priors({"yes": 0.9, "no": 0.1}, ["no", "yes"])
    array([0.1, 0.9])
    """
    given = priors
    if isinstance(priors, Mapping):
        if set(priors) != set(classes):
            raise TableError(
                f"priors names {shorten(priors)}, but the classes are {shorten(classes)}; give one for each"
            )
        given = [priors[label] for label in classes]
    array = as_numbers(given, "priors")
    if array.shape != (len(classes),) or not (array >= 0).all() or not abs(array.sum() - 1) <= 1e-6:
        raise TableError(
            f"priors must be {len(classes)} non-negative numbers that add up to 1, one for each of"
            f" {shorten(classes)}, not {priors!r}"
        )
    return array


def _check_target(rows: Rows, target: Any, algorithm: str) -> Discrete:
    if not isinstance(target, str):
        raise TableError(f"the target must be the name of a column, not {target!r}")
    variable = rows.variable(target)
    if not isinstance(variable, Discrete):
        raise TableError(
            f"the target {target!r} is continuous, and boosting is for classes; say Table(data, "
            f"discrete=[{target!r}]) if its numbers "
            "are codes"
        )
    if algorithm == "real" and len(variable) != 2:
        raise TableError(
            f"Real AdaBoost is for two classes, and {target!r} has {len(variable)}; algorithm='m1' takes any number"
        )
    return variable


def _check(rounds: Any, algorithm: Any, patience: Any, max_restarts: Any, progress: Any) -> None:
    check_choice(algorithm, "algorithm", ("m1", "real"))
    check_count(rounds, "rounds", 1)
    check_count(patience, "patience", 1)
    check_count(0 if max_restarts is None else max_restarts, "max_restarts")
    if not isinstance(progress, bool) and not callable(progress):
        raise TableError(f"progress must be a function of a Round, or True for a bar, not {progress!r}")
