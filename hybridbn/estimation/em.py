"""`fit`, the potentials of a network whose arcs are given, and expectation maximization from tables with holes.

Of tables of probabilities and linear Gaussians the expected sufficient statistics are exact, all families in one pass:
a junction tree over the hidden discrete variables gives, for each row with holes, the joint posterior of what each
family needs; hidden numbers come in closed form given these. Rows are the last axis of every array, as in the engine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, NetworkError, TableError, warn_user
from hybridbn.estimation.available_cases import (
    fill_at_random,
    fit_available,
    fit_marginals,
    read_as_declared,
    structure_of,
)
from hybridbn.estimation.completion import Completion, RowLevels, fill_table, find_holes, find_open_rows
from hybridbn.fitting import (
    Dirichlet,
    Fitter,
    GaussianStatistics,
    MEstimate,
    MultinomialStatistics,
    Statistics,
    fitter_of,
)
from hybridbn.fitting.base import Potentials, Spec, counts_suffice, moments_suffice, spec_of
from hybridbn.inference.compilation import Problem, Question, problem_of
from hybridbn.inference.engines import Solution, choose_plan
from hybridbn.inference.evidence import Evidence, EvidenceReader, find_distinct_rows
from hybridbn.inference.queries import name_impossible_rows
from hybridbn.jobs import share_passes, track_items
from hybridbn.network import Network
from hybridbn.options import (
    ColumnKeywords,
    KindKeywords,
    Marks,
    Options,
    check_count,
    make_generator,
    split_missing,
)
from hybridbn.potentials.base import Potential, take_logs
from hybridbn.tables import Rows, Table, declare_rows
from hybridbn.variables import Continuous, Discrete, Values, Variable, encode_configurations, shorten, slice_blocks

_NOISE = 1e-3
"""The least rise of the log-likelihood, for each row, that counts where expectations are simulated."""
_PATIENCE = 3
"""Iterations without a rise after which simulated expectations are given up to be improved."""
_SMOOTHING = 0.02
"""Share of the uniform distribution that is added to a starting table with zeros: EM never leaves a zero."""


@dataclass(frozen=True)
class Learned:
    """What expectation maximization returns.

    Attributes
    ----------
    network : Network
    history : ndarray (iterations + 1,)
        What is maximized, under the starting parameters and after each iteration: the log-likelihood of the observed
        cells and, where tables are estimated with a prior, the logarithm of the prior density up to a constant. Exact
        expectations never let it fall.
    converged : bool
    log_likelihood : ndarray (iterations + 1,)
        The log-likelihood of the observed cells alone.
    """

    network: Network
    history: Values
    converged: bool
    log_likelihood: Values

    def __repr__(self) -> str:
        reached = self.log_likelihood[np.argmax(self.history)]
        return f"<Learned: {self.network!r}, log-likelihood {reached:.6g}, {len(self.history) - 1} iterations>"


@share_passes
def fit(
    structure: Any,
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    missing: Literal["available", "em"] | Marks = "available",
    n_jobs: int | None = None,
    **kinds: Unpack[KindKeywords],
) -> Network:
    """Learn the potentials of a network with given arcs.

    Parameters
    ----------
    structure : iterable of (from, to), directed graph of networkx, or Network
        Its names are columns of the data; columns that it does not mention become nodes without arcs. The nodes of a
        `Network` keep their variables, and their families where `potentials` leaves that open.
    data : DataFrame, Table, mapping of arrays, ...
        Whatever `Table` takes.
    potentials : "auto", "mte", "kernel", "gaussian", "multinomial", a Fitter, or a mapping from columns to these
        "auto", which columns left out of a mapping get too: tables of probabilities where a node and its parents are
        all discrete, mixtures of truncated exponentials otherwise. "multinomial" asks to discretize number columns
        (by equal frequencies). See `hybridbn.fitting.fitter_of`.
    weights : sequence of float, optional
        One for each row; they replace those of a `Table`.
    missing : {"available", "em"}, or values that mark missing cells, such as {"sex": [9]}
        "available", also where marks are given: each node is learned from the rows in which it and its parents are
        observed. That is right where cells are missing regardless of all values (completely at random).
        "em": expectation maximization, which is right where cells are missing depending on observed ones, too, and
        learns hidden variables; see `hybridbn.expectation_maximization`, which has more options and takes marks.
    discrete, continuous, ordered : str or iterable of str
        Columns that are something else than their types say, as in `Table`.
    n_jobs : int, optional
        Threads that share the passes over the rows (-1: as many as there are processors), with the same result; by
        default one.

    Returns
    -------
    Network
        A new one.

    Examples
    --------
    >>> import hybridbn as hb
    >>> data = {"rain": ["no", "no", "no", "yes"], "wet": ["no", "no", "yes", "yes"], "hour": [1.0, 2.0, 3.0, 6.0]}
    >>> net = fit([("rain", "wet")], data, potentials="gaussian")
    >>> net
    <Network: 3 nodes (2 discrete, 1 continuous), 1 arc>
    >>> net.potential("wet").table.round(3)
    array([[0.6  , 0.4  ],
           [0.333, 0.667]])
    >>> net.potential("hour")
    <LinearGaussian hour: N(3, 3.5)>
    >>> data["wet"][0] = None
    >>> fit([("rain", "wet")], data, potentials="gaussian", missing="em")
    <Network: 3 nodes (2 discrete, 1 continuous), 1 arc>
    """
    strategy, marks = split_missing(missing, ("available", "em"), NetworkError)
    rows = declare_rows(data, weights, **kinds, missing=marks)
    if strategy == "em":
        return expectation_maximization(structure, rows, potentials, options=Options(n_jobs=n_jobs)).network
    return fit_available(structure, rows, potentials)


def expectation_maximization(
    structure: Any,
    data: Any,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    start: Network | None = None,
    tolerance: float = 1e-7,
    max_iterations: int = 500,
    draws: int = 10,
    random_state: Any = 0,
    options: Options | None = None,
    **columns: Unpack[ColumnKeywords],
) -> Learned:
    r"""Learn the potentials of a network with given arcs from all cells of a table with holes.

    Each iteration computes the sufficient statistics that are expected of the whole table, given its observed cells and
    the parameters so far, and learns the parameters from these (Dempster, Laird & Rubin 1977; for networks Lauritzen
    1995). Where cells are missing at random this finds a maximum of the likelihood of the observed cells; available
    cases do not.

    Parameters
    ----------
    structure, data, potentials, weights : as in `hybridbn.fit`
        Nodes of a `Network` with potentials that are no columns of the data are hidden variables.
    start : Network, optional
        With the same arcs: the parameters to start from. By default those of the available cases, tables without zeros;
        where there are hidden variables, the structure's own.
    tolerance : float
        Stop where the log-likelihood changes by less than this for each row.
    max_iterations : int
        Reaching it warns. A scan takes a pass for each iteration.
    draws : int
        How many times incomplete rows are completed where expectations have to be simulated.
    random_state : int, Generator, ...
        For these draws, and for a start where available cases don't suffice.
    options : Options, optional
        Of inference.
    discrete, continuous, ordered, missing : as in `Table`

    Returns
    -------
    Learned
        With `.network`, `.history` and `.converged`.

    Notes
    -----
    *Tables of probabilities and linear Gaussians* alone, also mixed, have exact expectations:

    .. math:: E[n_{dc}] = \sum_i w_i P(d, c \mid \text{row}_i), \qquad
              E\Bigl[\sum_{i \in d} v_i v_i'\Bigr] = \sum_i w_i P(d \mid \text{row}_i)\, E[v v' \mid d, \text{row}_i]

    with v the child and its continuous parents, in closed form. Then what is maximized never falls: the likelihood for
    ``MultinomialFitter(estimate=MaximumLikelihood())`` and `GaussianFitter`, as long as each configuration has enough
    weight for its own regression; with `Dirichlet` or `MEstimate`, whose prior is added to the expected counts
    :math:`n_{dc}`, the likelihood times :math:`\prod \theta_{dc}^{\alpha_{dc}}`, so the result is a posterior mode. The
    default `MEstimate` takes the prior of the first expected counts, and keeps it: a prior that moved with the
    parameters would leave nothing that is maximized. With an estimate of your own the history is the likelihood, which
    may fall. On a complete table the result is that of `hybridbn.fit`.

    *Any other family*, or a logistic regression, in the network: expectations are averages over `draws` exact joint
    completions of each incomplete row, made from the same random numbers in each iteration (Wei & Tanner 1990). It
    stops where the log-likelihood no longer rises, and returns the best parameters.

    References
    ----------
    Dempster, Laird & Rubin (1977), "Maximum likelihood from incomplete data via the EM algorithm", JRSS B 39. Lauritzen
    (1995), "The EM algorithm for graphical association models with missing data", CSDA 19. Wei & Tanner (1990), "A
    Monte Carlo implementation of the EM algorithm", JASA 85.

    Examples
    --------
    >>> from hybridbn.fitting import MaximumLikelihood, MultinomialFitter
    >>> data = {"a": ["n"] * 60 + ["y"] * 40, "b": ["n"] * 20 + [None] * 40 + ["y"] * 10 + ["n"] * 30}
    >>> learned = expectation_maximization([("a", "b")], data, MultinomialFitter(estimate=MaximumLikelihood()))
    >>> learned.network.potential("b").table.round(4)
    array([[1.  , 0.  ],
           [0.75, 0.25]])
    >>> bool((np.diff(learned.history) >= 0).all()), learned.converged
    (True, True)
    """
    _check_arguments(tolerance, max_iterations, draws)
    options = options or Options()
    rng = make_generator(random_state)
    graph = structure_of(structure)
    rows = read_as_declared(declare_rows(data, weights, **columns).leave_alone(graph)[0], graph, keep_numbers=True)
    first = _check_start(graph, start, rows) if start is not None else _choose_start(graph, rows, potentials, rng)
    families = _list_families(first, graph, potentials)
    exact = {name for name, (fitter, *_) in families.items() if moments_suffice(fitter) or counts_suffice(fitter)}
    closed = {name for name, holes in rows.missing.items() if not holes}
    settled = frozenset(
        name for name, (_, child, parents) in families.items() if closed.issuperset(v.name for v in (child, *parents))
    )
    is_exact_family = families.keys() <= exact | settled
    if not is_exact_family:
        rows, settled = rows.sample(purpose="parameters of simulated expectations"), frozenset()
    divider = _RowDivider(families, first, options, settled)
    variables = [first.variable(name) for name in first if name in rows]
    known = rows.learn(divider.sum_complete, variables)
    if known is None:
        raise TableError("the table has 0 rows of positive weight; at least 1 is needed")

    def expect_exactly(network: Network) -> Expected:
        return rows.learn(partial(divider.expect, network), variables)

    expect: Expectation = expect_exactly
    patience = None
    if not known.open_rows:
        first = _maximize(families, known.statistics, None, {})
    elif not is_exact_family:
        read = _read_table(first, rows.sample())
        expect, patience = _simulate_expectation(read, families, draws, rng, options), _PATIENCE
    learned = _iterate(
        first, families, known.statistics, expect, rows.total_weight, tolerance, max_iterations, patience
    )
    if not learned.converged:
        warn_user(
            f"expectation maximization has not converged in {max_iterations} iterations: what it maximizes still"
            f" changes by {float(np.diff(learned.history)[-1]):.2g}; raise max_iterations or tolerance",
        )
    return learned


Families: TypeAlias = Mapping[str, tuple[Fitter, Variable, tuple[Variable, ...]]]
"""For each node what learns its potential, the node's variable and those of its parents."""
Expectation: TypeAlias = "Callable[[Network], Expected]"
"""From a network to the expected statistics of the rows with holes, and the log-likelihood of all rows."""


def _iterate(
    first: Network,
    families: Families,
    known: Mapping[str, Statistics],
    expect: Expectation,
    rows: float,
    tolerance: float,
    max_iterations: int,
    patience: int | None,
) -> Learned:
    """Alternate expectation and maximization; without `patience` until nothing changes or is expected, with it while
    it gets better.
    """
    least = rows * (tolerance if patience is None else max(tolerance, _NOISE))
    network = best = first
    history: list[float] = []
    likelihoods: list[float] = []
    priors: Mapping[str, Values] | None = None
    top, failures, converged = -np.inf, 0, False
    for _ in track_items(itertools.count(), "expectation maximization"):
        expected = expect(network)
        statistics, likelihood = _add(known, expected.statistics), expected.log_likelihood
        likelihoods.append(likelihood)
        if patience is None:
            priors = _find_priors(families, statistics) if priors is None else priors
            history.append(likelihood + _log_prior(network, priors))
            best = network
            converged = not expected.statistics or (len(history) > 1 and bool(abs(history[-1] - history[-2]) <= least))
        else:
            history.append(likelihood)
            failures = 0 if likelihood > top + least else failures + 1
            if likelihood > top:
                top, best = likelihood, network
            converged = failures >= patience
        if converged or len(history) > max_iterations:
            break
        # what has no holes stays as it was learned first
        kept = [] if network is first else [name for name in families if name not in expected.statistics]
        network = _maximize(families, statistics, priors, {name: network.potential(name) for name in kept})
    return Learned(best, np.array(history), converged, np.array(likelihoods))


def _add(known: Mapping[str, Statistics], expected: Mapping[str, Statistics]) -> dict[str, Statistics]:
    """Return statistics of all rows, those of nodes that are in one of both only as they are."""
    both = known.keys() & expected.keys()
    return {**known, **expected, **{name: known[name] + expected[name] for name in both}}


def _find_priors(families: Families, statistics: Mapping[str, Statistics]) -> dict[str, Values]:
    """Return what the estimate of each table adds to its counts, where it says so."""
    priors = {}
    for name, (fitter, *_) in families.items():
        estimate = getattr(fitter, "estimate", None)
        if isinstance(estimate, Dirichlet | MEstimate):
            priors[name] = estimate.prior_counts(statistics[name].counts)  # type: ignore[attr-defined]
    return priors


def _log_prior(network: Network, priors: Mapping[str, Values]) -> float:
    """Return the log density of tables of probabilities under Dirichlet priors, up to a constant."""
    tables: Any = {name: network.potential(name) for name in priors}
    return float(sum(np.sum(counts * take_logs(tables[name].table)) for name, counts in priors.items()))


def _maximize(
    families: Families,
    statistics: Mapping[str, Statistics],
    priors: Mapping[str, Values] | None,
    kept: Mapping[str, Potential],
) -> Network:
    """Learn every potential that is not kept, tables with the priors that are given instead of their own."""
    potentials: list[Potential] = []
    for name, family in families.items():
        fitter: Any = family[0]
        if priors is not None and name in priors:
            fitter = replace(fitter, estimate=partial(_add_prior, priors[name]))
        potentials.append(kept[name] if name in kept else fitter.potential(statistics[name]))
    return Network(potentials)


def _add_prior(prior: Values, counts: Values) -> Values:
    total = counts + prior
    return np.asarray(total / total.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Expected:
    """Statistics of some rows; ``a + b`` are those of the rows of both.

    Attributes
    ----------
    statistics : mapping from each node to those of its family
    log_likelihood : float
    open_rows : int
        How many rows have missing cells.
    """

    statistics: Mapping[str, Statistics]
    log_likelihood: float = 0.0
    open_rows: int = 0

    def __add__(self, other: Expected) -> Expected:
        return Expected(
            _add(self.statistics, other.statistics),
            self.log_likelihood + other.log_likelihood,
            self.open_rows + other.open_rows,
        )


@dataclass(frozen=True)
class _DividedRows:
    """Complete rows, and the evidence of the distinct rows with holes; rows without weight are in neither.

    Attributes
    ----------
    complete : Table
    evidence : Evidence
    weights : ndarray
    rows : ndarray
        The numbers of the distinct rows.
    """

    complete: Table
    evidence: Evidence
    weights: Values
    rows: NDArray[np.intp]

    @classmethod
    def of(cls, network: Network, batch: Table) -> _DividedRows:
        """Divide the rows of a batch."""
        counts = batch.weights > 0
        hidden = any(name not in batch for name in network)
        is_open = np.any([np.full(len(batch), hidden), *find_holes(batch).values()], axis=0)
        rows = np.flatnonzero(counts & is_open)
        complete = batch.take(np.flatnonzero(counts & ~is_open))
        weights = np.asarray(batch.weights[rows])
        evidence = EvidenceReader(network, batch).evidence().take(rows, len(rows))
        same = find_distinct_rows(evidence, continuous=False) if len(rows) else None
        if same is not None:
            evidence, rows = evidence.take(same.first, len(same.first)), rows[same.first]
            weights = np.bincount(same.inverse, weights, len(same.first)).astype(np.float64)
        return cls(complete, evidence, weights, rows)


@dataclass(frozen=True, eq=False)
class _RowDivider:
    """Tells complete rows from those with holes.

    Attributes
    ----------
    families : mapping from each node to its family
    first : Network
        From which the rows are read.
    options : Options
    settled : set of str, the nodes of which no cell is missing, nor of their parents: their statistics are not expected
    """

    families: Families
    first: Network
    options: Options
    settled: frozenset[str] = frozenset()

    def divide(self, batch: Table) -> _DividedRows:
        """Return the complete rows of a batch, and the others, which are divided once where the batch stays."""
        return batch.keep(self, partial(_DividedRows.of, self.first, batch))

    def sum_complete(self, batch: Table, first: int) -> Expected | None:
        """Return the statistics of complete rows, and how many others there are; None without any row of weight."""
        divided, counted = self.divide(batch), batch.take(np.flatnonzero(batch.weights > 0))
        if not len(counted):
            return None
        tables = {name: counted if name in self.settled else divided.complete for name in self.families}
        return Expected(_sum_up(self.families, tables), open_rows=len(divided.rows))

    def expect(self, network: Network, batch: Table, first: int) -> Expected:
        """Return exact expectations over the rows with holes, and the log-likelihood of all rows."""
        divided = self.divide(batch)
        likelihood = log_likelihood(network, divided.complete, self.options) if len(divided.complete) else 0.0
        if not len(divided.rows):
            return Expected({}, likelihood)
        with name_impossible_rows(first + divided.rows, False):
            statistics, logs = expect_statistics(network, divided.evidence, divided.weights, self.options, self.settled)
        return Expected(statistics, float(divided.weights @ logs) + likelihood)


def _sum_up(families: Families, tables: Mapping[str, Table]) -> dict[str, Statistics]:
    """Return the statistics of complete rows, those of each node of a table of its own, unless that has no rows."""
    return {
        name: fitter.statistics(tables[name], child, parents)
        for name, (fitter, child, parents) in families.items()
        if len(tables[name])
    }


def _simulate_expectation(
    table: Table,
    families: Families,
    draws: int,
    rng: np.random.Generator,
    options: Options,
) -> Expectation:
    """Return what averages over completions drawn with the same random numbers every time."""
    repeated = np.repeat(find_open_rows(table), draws)
    copies = table.take(repeated).with_weights(np.asarray(table.weights[repeated]) / draws)
    levels = RowLevels.draw(rng, copies).of(copies, 0)

    def expect(network: Network) -> Expected:
        drawn = fill_table(copies, Completion.of(network, copies, options).draw(copies, levels))
        return Expected(_sum_up(families, dict.fromkeys(families, drawn)), log_likelihood(network, table, options))

    return expect


# -- getting ready ------------------------------------------------------------------------------------------------


def _check_arguments(tolerance: float, max_iterations: int, draws: int) -> None:
    if not 0 < tolerance < np.inf:
        raise NetworkError(f"tolerance must be a positive number, not {tolerance!r}")
    check_count(max_iterations, "max_iterations", 1, NetworkError)
    check_count(draws, "draws", 1, NetworkError)


def _choose_start(structure: Network, table: Rows, potentials: Potentials, rng: np.random.Generator) -> Network:
    """Return parameters to start from: of available cases where they suffice, without zeros in tables."""
    bare = [name for name in structure if not isinstance(structure.nodes[name].get("potential"), Potential)]
    if not bare and any(name not in table for name in structure):
        return _check_start(structure, structure, table)
    try:
        first = fit_available(structure, table, potentials)
    except TableError:
        # some family is never observed as a whole; if it was something else, the same error comes again
        sample = table.sample()
        holes = find_holes(sample)
        if not holes:
            raise
        alone = fit_marginals(sample.select(holes), structure, potentials)
        first = fit_available(structure, fill_at_random(sample, alone, rng), potentials)
    return Network([first.potential(name).smooth(_SMOOTHING) for name in first])


def _check_start(structure: Network, start: Network, table: Rows) -> Network:
    start.check()
    differing = set(structure.edges) ^ set(start.edges)
    if differing:
        raise NetworkError(f"start has other arcs than the structure: {shorten(sorted(differing))} differ")
    seen = [name for name in start if name in table]
    if not seen:
        raise NetworkError(f"no node of the network is a column of the data; the columns are {shorten(table.names)}")
    return start


def _list_families(start: Network, structure: Network, potentials: Potentials) -> Families:
    """Return each node's family; nodes of a network keep their kind of potential where nothing else was asked for."""
    families = {}
    for name in start:
        potential = start.potential(name)
        spec: Spec = potentials.get(name, "auto") if isinstance(potentials, Mapping) else potentials
        if isinstance(spec, str):
            own = structure.nodes[name].get("potential") if name in structure else None
            kept = own if isinstance(own, Potential) and spec == "auto" else potential
            like = spec_of(kept) or kept.family
            # a family that is asked for by its name has the points of the start
            spec = like if spec == "auto" else like.with_density(spec) if isinstance(like, Fitter) else spec
        child, parents = potential.child, potential.parents
        families[name] = fitter_of(spec, child, parents), child, parents
    return families


def _read_table(start: Network, table: Table) -> Table:
    """Return the rows of positive weight read against the network's variables, hidden ones as columns of holes."""
    read = Table(table, variables=[start.variable(name) for name in start if name in table])
    for name in start:
        if name not in table:
            read = read.with_column(name, [None] * len(table), start.variable(name))
    return read.take(table.weights > 0)


def is_exact(network: Network) -> bool:
    """Tell whether a network's expectations are exact: tables of probabilities and linear Gaussians only.

    Examples
    --------
    >>> import hybridbn as hb
    >>> is_exact(hb.fit([("x", "c")], {"x": [1.0, 2.0, 4.0], "c": ["a", "b", "a"]}, "gaussian"))
    False
    """
    return all(potential.as_table() or potential.as_regression() for potential in network.potentials)


def log_likelihood(network: Network, table: Table, options: Options) -> float:
    """Return the weighted sum of the rows' log densities, missing cells marginalized.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.5, 0.5])])
    >>> round(log_likelihood(net, Table({"c": ["a", None, "b"]}), Options()), 6)
    -1.386294
    """
    kept = table.select([name for name in table.names if name in network])
    logs = network.log_density(kept, options=options)
    counts = table.weights > 0
    if np.isnan(logs).any():
        faulty = [p.child.name for p in network.potentials if not _is_finite(p)]
        raise NetworkError(
            f"the learned network gives rows {shorten(np.flatnonzero(np.isnan(logs)).tolist(), 3)} no density"
            f" (NaN){f'; the potentials of {shorten(faulty)} are at fault' if faulty else ''}: learn them as another"
            " family, by potentials={...}"
        )
    return float(table.weights[counts] @ logs[counts])


def _is_finite(potential: Potential) -> bool:
    """Tell whether all parameters of a potential are numbers, as far as they can be looked at."""
    try:
        return _numbers_in(potential.to_dict())
    except NetworkError:
        return True


def _numbers_in(state: Any) -> bool:
    if isinstance(state, dict | list | tuple):
        return all(map(_numbers_in, state.values() if isinstance(state, dict) else state))
    array = np.asarray(state) if isinstance(state, float | np.ndarray) else np.zeros(0)
    return array.dtype.kind != "f" or not np.isnan(array).any()


_NUMBERS = 1 << 22
"""Numbers in the posteriors of a block of rows, about."""


# -- exact expectations -------------------------------------------------------------------------------------------


def expect_statistics(
    network: Network, evidence: Evidence, weights: Values, options: Options, settled: Container[str] = ()
) -> tuple[dict[str, Statistics], Values]:
    r"""Return the expected statistics of families of a conditional linear Gaussian network, and the log density of
    what is observed in each row.

    Parameters
    ----------
    network : Network
        Of tables of probabilities and linear Gaussians.
    evidence : Evidence
        Rows with nothing but observed and missing values.
    weights : ndarray (rows,)
    options : Options
    settled : set of str, nodes whose families are left out

    Notes
    -----
    For a table of probabilities these are :math:`\sum_i w_i P(c, d \mid \text{row } i)`; for a linear Gaussian weight,
    mean and centered products of child and continuous parents in each configuration d of the discrete parents, where
    :math:`E[v v'] = E[v] E[v]' + \mathrm{Cov}[v]` given the row and the hidden configurations.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from hybridbn.inference.evidence import EvidenceReader
    >>> a, b = hb.Discrete("a", ("n", "y")), hb.Discrete("b", ("n", "y"))
    >>> net = hb.Network([
    ...     hb.Multinomial(a, table=[0.8, 0.2]), hb.Multinomial(b, parents=(a,), table=[[0.9, 0.1], [0.4, 0.6]])
    ... ])
    >>> known = EvidenceReader(net, hb.Table({"a": [None, "y"], "b": ["y", None]}, variables=(a, b))).evidence()
    >>> statistics, log_likelihood = expect_statistics(net, known, np.ones(2), Options())
    >>> statistics["b"].counts, log_likelihood.round(3)
    (array([[0. , 0.4],
           [0.4, 1.2]]), array([-1.609, -1.609]))
    """
    findings = evidence.findings
    hidden = [name for name in network if name not in findings or not findings[name].hard]
    question = Question(tuple(hidden), all_of=True, whole=True)
    problem = problem_of(network, question, evidence)
    families = {name: _FamilyStatistics(network.potential(name), problem) for name in network if name not in settled}
    scopes = [scope for scope in dict.fromkeys(family.scope for family in families.values()) if scope] or [()]
    sizes = {name: axis.size for name, axis in problem.axes.items()}
    question = replace(question, over=tuple(scopes))
    problem = problem_of(network, question, evidence)
    cells = sum(math.prod(sizes[name] for name in scope) for scope in scopes)
    block = int(min(max(_NUMBERS / max(cells, 1), 256), evidence.rows))
    logs, impossible = np.empty(evidence.rows), []
    for some in slice_blocks(evidence.rows, block):
        part = evidence.take(some, some.stop - some.start)
        for found in choose_plan(problem, part, options).solve(part):
            rows = some.start + found.rows
            logs[rows] = found.log_norm
            if np.isneginf(found.log_norm).any():
                impossible += rows[np.isneginf(found.log_norm)].tolist()
                continue
            tables = {(): np.ones(len(rows)), **dict(zip(scopes, found.tables, strict=True))}
            for family in families.values():
                family.add(tables[family.scope], found, weights[rows])
    if impossible:
        raise ImpossibleEvidence("some rows have probability zero under the network", tuple(impossible))
    return {name: family.statistics for name, family in families.items()}, logs


class _FamilyStatistics:
    """A child with its parents, and what has been added up of its rows."""

    def __init__(self, potential: Potential, problem: Problem) -> None:
        self.child, self.parents = potential.child, potential.parents
        members = [v for v in potential.variables if isinstance(v, Discrete)]
        self.known = [v for v in members if v.name in problem.hard]
        self.open = [v for v in members if v.name not in problem.hard]
        self.numbers = [v.name for v in (self.child, *self.parents) if isinstance(v, Continuous)]
        needed = dict.fromkeys(v.name for v in self.open)
        for name in self.numbers:
            if name in problem.component_of:
                needed.update(dict.fromkeys(problem.component_of[name].names))
        # the open members first
        self.scope = tuple(needed)
        # one dimension for each discrete member: the known ones, then the open ones
        self.order = [v.name for v in (*self.known, *self.open)]
        self.shape = [len(v) for v in (*self.known, *self.open)]
        self.statistics: Any = None

    def add(self, table: Values, found: Solution, weights: Values) -> None:
        """Add some rows; the table is their posterior over the scope."""
        groups = _ObservedConfigurations(self.known, found, weights)
        fresh = self._count(table, groups) if not self.numbers else self._compute_moments(table, found, groups)
        self.statistics = fresh if self.statistics is None else self.statistics + fresh

    def _count(self, table: Values, groups: _ObservedConfigurations) -> Statistics:
        counts = self._arrange(groups.sum(self._sum_out(table)), [v.name for v in (*self.parents, self.child)])
        return MultinomialStatistics(
            child=self.child, parents=self.parents, total=float(groups.weights.sum()), counts=counts
        )

    def _compute_moments(self, table: Values, found: Solution, groups: _ObservedConfigurations) -> Statistics:
        values, spreads = found.expect_numbers(self.numbers, self.scope)
        weights = groups.sum(self._sum_out(table))
        safe = np.where(weights > 0, weights, 1.0)
        means, centered = [], []
        for value in values:
            mean = groups.sum(self._sum_out(table * value)) / safe
            gap = value - self._look_up(mean, groups)
            # the second pass removes what rounding of the first left in the mean
            shift = groups.sum(self._sum_out(table * gap)) / safe
            means.append(mean + shift)
            centered.append(gap - self._look_up(shift, groups))
        count = len(values)
        products = np.empty((count, count, *weights.shape))
        for i, j in itertools.combinations_with_replacement(range(count), 2):
            inner = centered[i] * centered[j] + spreads[i, j] if (i, j) in spreads else centered[i] * centered[j]
            products[i, j] = products[j, i] = groups.sum(self._sum_out(table * inner))
        order = [v.name for v in self.parents if isinstance(v, Discrete)]
        return GaussianStatistics(
            child=self.child,
            parents=self.parents,
            total=float(groups.weights.sum()),
            weights=self._arrange(weights, order).ravel(),
            means=np.stack([self._arrange(mean, order).ravel() for mean in means], axis=-1),
            products=np.stack(
                [np.stack([self._arrange(cell, order).ravel() for cell in row], axis=-1) for row in products], axis=-2
            ),
        )

    def _sum_out(self, table: Values) -> Values:
        """Sum out what is no discrete member of the family: (cells of the open members, rows)."""
        return np.asarray(table.sum(axis=tuple(range(len(self.open), len(self.scope))))).reshape(-1, table.shape[-1])

    def _look_up(self, array: Values, groups: _ObservedConfigurations) -> Values:
        """Return a value of each configuration (known cells, open cells) for each row, over the scope."""
        others = [1] * (len(self.scope) - len(self.open))
        return array[groups.cells].T.reshape([*(len(v) for v in self.open), *others, len(groups.cells)])

    def _arrange(self, array: Values, names: Sequence[str]) -> Values:
        """Turn (known cells, open cells) into one dimension a name."""
        return array.reshape(self.shape).transpose([self.order.index(name) for name in names])


class _ObservedConfigurations:
    """The configuration of those of a family's members that are observed in all rows."""

    def __init__(self, known: Sequence[Discrete], found: Solution, weights: Values) -> None:
        self.weights = weights
        self.count = math.prod(len(v) for v in known)
        observed = [found.evidence.findings[variable.name].values for variable in known]
        self.cells = encode_configurations(observed, [len(variable) for variable in known], len(weights))

    def sum(self, table: Values) -> Values:
        """Return the weighted sums of an array (cells, rows) in each configuration (configurations, cells)."""
        from scipy import sparse

        if self.count == 1:
            return np.asarray(table @ self.weights)[None]
        rows = len(self.weights)
        chosen = sparse.csr_array((self.weights, (self.cells, np.arange(rows))), shape=(self.count, rows))
        return np.asarray(chosen @ table.T)
