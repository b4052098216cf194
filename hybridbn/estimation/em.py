"""`fit`, the potentials of a network whose arcs are given, and expectation maximization from tables with holes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import ImpossibleEvidence, NetworkError, TableError, warn_user
from hybridbn.estimation.available_cases import (
    fill_at_random,
    fit_available,
    fit_marginals,
    leave_unusable,
    read_as_declared,
    structure_of,
)
from hybridbn.estimation.completion import Completion
from hybridbn.estimation.expected_statistics import expect_statistics
from hybridbn.estimation.holes import alternate, draw_levels, fill_table, find_holes
from hybridbn.fitting import Dirichlet, Fitter, MEstimate, Statistics, fitter_of
from hybridbn.fitting.fitter_choice import Potentials, counts_suffice, moments_suffice, spec_of
from hybridbn.inference.evidence import Evidence, EvidenceReader, find_distinct_rows
from hybridbn.inference.queries import impossible_evidence
from hybridbn.jobs import share_passes
from hybridbn.network import Network
from hybridbn.options import Options, make_generator
from hybridbn.potentials.base import Potential
from hybridbn.tables import Rows, Table
from hybridbn.variables import Values, Variable, shorten

__all__ = ["Learned", "expectation_maximization", "fit", "log_likelihood"]

_NOISE = 1e-3
"""Least rise of the log-likelihood, for each row, that counts where expectations are simulated."""
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
    missing: str = "available",
    n_jobs: int | None = None,
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
    missing : {"available", "em"}
        "available": each node is learned from the rows in which it and its parents are observed. That is right where
        cells are missing regardless of all values (completely at random).
        "em": expectation maximization, which is right where cells are missing depending on observed ones, too, and
        learns hidden variables; see `hybridbn.expectation_maximization`, which has more options.
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
    if missing not in ("available", "em"):
        raise NetworkError(f"missing must be 'available' or 'em', not {missing!r}")
    if missing == "em":
        return expectation_maximization(structure, data, potentials, weights, options=Options(n_jobs=n_jobs)).network
    return fit_available(structure, data, potentials, weights)


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
    rows = read_as_declared(leave_unusable(data, graph), graph, weights, keep_numbers=True)
    first = _check_start(graph, start, rows) if start is not None else _choose_start(graph, rows, potentials, rng)
    families = _list_families(first, graph, potentials)
    is_exact_family = all(
        moments_suffice(family.fitter) or counts_suffice(family.fitter) for family in families.values()
    )
    if not is_exact_family:
        rows = rows.sample(purpose="parameters of simulated expectations")
    divider = _RowDivider(families, first, options)
    variables = [first.variable(name) for name in first if name in rows]
    try:
        known = rows.learn(partial(_sum_complete, divider), variables)
        if known is None:
            raise TableError("the table has 0 rows of positive weight; at least 1 is needed")
        if not known.open_rows:
            network = _maximize(families, known.statistics)
            likelihood = rows.learn(partial(_expect_rows, divider, network), variables).log_likelihood
            priors = _find_priors(families, known.statistics)
            return Learned(network, np.array([likelihood + _log_prior(network, priors)]), True, np.array([likelihood]))

        def expect_exactly(network: Network) -> tuple[Mapping[str, Statistics], float]:
            expected = rows.learn(partial(_expect_rows, divider, network), variables)
            return expected.statistics, expected.log_likelihood

        expect: Expectation = expect_exactly
        patience = None
        if not is_exact_family:
            read = _read_table(first, rows.sample())
            expect, patience = _simulate_expectation(read, families, draws, rng, options), _PATIENCE
        learned = _iterate(
            first, families, known.statistics, expect, rows.total_weight, tolerance, max_iterations, patience
        )
    finally:
        rows.remembered.pop(divider.key, None)
    return _warn_of_divergence(learned, max_iterations)


def _warn_of_divergence(found: Learned, max_iterations: int) -> Learned:
    if not found.converged:
        warn_user(
            f"expectation maximization has not converged in {max_iterations} iterations: what it maximizes still"
            f" changes by {float(np.diff(found.history)[-1]):.2g}; raise max_iterations or tolerance",
        )
    return found


@dataclass(frozen=True)
class _FamilyFitter:
    """A node with its parents, and what learns its potential."""

    child: Variable
    parents: tuple[Variable, ...]
    fitter: Fitter

    @property
    def variables(self) -> tuple[Variable, tuple[Variable, ...]]:
        return self.child, self.parents


Expectation: TypeAlias = Callable[[Network], tuple[Mapping[str, Statistics], float]]
"""From a network to the expected statistics of the rows with holes, and the log-likelihood of all rows."""


def _iterate(
    first: Network,
    families: Mapping[str, _FamilyFitter],
    known: Mapping[str, Statistics],
    expect: Expectation,
    rows: float,
    tolerance: float,
    max_iterations: int,
    patience: int | None,
) -> Learned:
    """Alternate expectation and maximization; without `patience` until nothing changes, with it while it gets
    better.
    """
    least = rows * (tolerance if patience is None else max(tolerance, _NOISE))
    best = first
    history: list[float] = []
    likelihoods: list[float] = []
    expected: Mapping[str, Statistics] = {}
    priors: Mapping[str, Values] | None = None
    top, failures, converged = -np.inf, 0, False

    def until(network: Network) -> bool:
        nonlocal best, expected, priors, top, failures, converged
        expected, likelihood = expect(network)
        likelihoods.append(likelihood)
        if patience is None:
            if priors is None:
                priors = _find_priors(families, _add(known, expected))
            history.append(likelihood + _log_prior(network, priors))
            best = network
            converged = len(history) > 1 and bool(abs(history[-1] - history[-2]) <= least)
        else:
            history.append(likelihood)
            failures = 0 if likelihood > top + least else failures + 1
            if likelihood > top:
                top, best = likelihood, network
            converged = failures >= patience
        return converged or len(history) > max_iterations

    def learn(statistics: Mapping[str, Statistics]) -> Network:
        return _maximize(families, _add(known, statistics), priors)

    alternate(first, lambda _: expected, learn, until, "expectation maximization")
    return Learned(best, np.array(history), converged, np.array(likelihoods))


def _add(known: Mapping[str, Statistics], expected: Mapping[str, Statistics]) -> dict[str, Statistics]:
    return {name: known[name] + statistics if name in known else statistics for name, statistics in expected.items()}


def _find_priors(families: Mapping[str, _FamilyFitter], statistics: Mapping[str, Statistics]) -> dict[str, Values]:
    """Return what the estimate of each table adds to its counts, where it says so."""
    priors = {}
    for name, family in families.items():
        estimate = getattr(family.fitter, "estimate", None)
        if isinstance(estimate, Dirichlet | MEstimate):
            priors[name] = estimate.prior_counts(statistics[name].counts)  # type: ignore[attr-defined]
    return priors


def _log_prior(network: Network, priors: Mapping[str, Values]) -> float:
    """Return the log density of tables of probabilities under Dirichlet priors, up to a constant."""
    total = 0.0
    with np.errstate(divide="ignore"):
        for name, counts in priors.items():
            total += float(np.sum(counts * np.log(network.potential(name).table)))  # type: ignore[attr-defined]
    return total


def _maximize(
    families: Mapping[str, _FamilyFitter],
    statistics: Mapping[str, Statistics],
    priors: Mapping[str, Values] | None = None,
) -> Network:
    """Learn every potential, tables with the priors that are given instead of their own."""
    potentials = []
    for name, family in families.items():
        fitter: Any = family.fitter
        if priors is not None and name in priors:
            fitter = replace(fitter, estimate=partial(_add_prior, priors[name]))
        potentials.append(fitter.potential(statistics[name]))
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
            {**self.statistics, **_add(self.statistics, other.statistics)},
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


@dataclass(frozen=True)
class _RowDivider:
    """Tells complete rows from those with holes.

    Attributes
    ----------
    families : mapping from each node to its family
    first : Network
        From which the rows are read.
    options : Options
    """

    families: Mapping[str, _FamilyFitter]
    first: Network
    options: Options

    @property
    def key(self) -> tuple[str, tuple[Variable, ...]]:
        """What divided rows are remembered by."""
        return "rows divided by holes", self.first.variables

    def divide(self, batch: Table) -> _DividedRows:
        """Return the complete rows of a batch, and the others, which are divided once where the batch stays."""
        divided: _DividedRows | None = batch.remembered.get(self.key)
        if divided is None:
            divided = batch.remembered[self.key] = _DividedRows.of(self.first, batch)
        return divided


def _sum_complete(divider: _RowDivider, batch: Table, first: int) -> Expected | None:
    """Return the statistics of complete rows, and how many others there are; None without any row of weight."""
    divided, families = divider.divide(batch), divider.families
    if not len(divided.complete):
        return Expected({}, open_rows=len(divided.rows)) if len(divided.rows) else None
    statistics = {
        name: family.fitter.statistics(divided.complete, *family.variables) for name, family in families.items()
    }
    return Expected(statistics, open_rows=len(divided.rows))


def _expect_rows(divider: _RowDivider, network: Network, batch: Table, first: int) -> Expected:
    """Return exact expectations over the rows with holes, and the log-likelihood of all rows."""
    divided = divider.divide(batch)
    likelihood = log_likelihood(network, divided.complete, divider.options) if len(divided.complete) else 0.0
    if not len(divided.rows):
        return Expected({}, likelihood)
    try:
        found = expect_statistics(network, divided.evidence, divided.weights, divider.options)
    except ImpossibleEvidence as problem:
        raise problem.renumber(first + divided.rows, lambda rows: str(impossible_evidence(rows, False))) from None
    return Expected(found.statistics, float(divided.weights @ found.log_likelihood) + likelihood)


def _simulate_expectation(
    table: Table,
    families: Mapping[str, _FamilyFitter],
    draws: int,
    rng: np.random.Generator,
    options: Options,
) -> Expectation:
    """Return what averages over completions drawn with the same random numbers every time."""
    rows = np.flatnonzero(np.any([*find_holes(table).values()], axis=0))
    repeated = np.repeat(rows, draws)
    copies = table.take(repeated).with_weights(np.asarray(table.weights[repeated]) / draws)
    levels = draw_levels(rng, copies)

    def expect(network: Network) -> tuple[Mapping[str, Statistics], float]:
        drawn = fill_table(copies, Completion.of(network, copies, options).draw(copies, levels))
        statistics = {name: family.fitter.statistics(drawn, *family.variables) for name, family in families.items()}
        return statistics, log_likelihood(network, table, options)

    return expect


# -- getting ready ------------------------------------------------------------------------------------------------


def _check_arguments(tolerance: float, max_iterations: int, draws: int) -> None:
    if not 0 < tolerance < np.inf:
        raise NetworkError(f"tolerance must be a positive number, not {tolerance!r}")
    for name, number in (("max_iterations", max_iterations), ("draws", draws)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1:
            raise NetworkError(f"{name} must be a positive whole number, not {number!r}")


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


def _list_families(start: Network, structure: Network, potentials: Potentials) -> dict[str, _FamilyFitter]:
    """Return each node's family; nodes of a network keep their kind of potential where nothing else was asked for."""
    families = {}
    for name in start:
        potential = start.potential(name)
        spec = potentials.get(name, "auto") if isinstance(potentials, Mapping) else potentials
        if isinstance(spec, str) and spec == "auto":
            own = structure.nodes[name].get("potential") if name in structure else None
            kept = own if isinstance(own, Potential) else potential
            spec = spec_of(kept) or kept.family
        families[name] = _FamilyFitter(
            potential.child, potential.parents, fitter_of(spec, potential.child, potential.parents)
        )
    return families


def _read_table(start: Network, table: Table) -> Table:
    """Return the rows of positive weight read against the network's variables, hidden ones as columns of holes."""
    read = Table(table, variables=[start.variable(name) for name in start if name in table])
    for name in start:
        if name not in table:
            read = read.with_column(name, [None] * len(table), start.variable(name))
    rows: NDArray[np.bool_] = table.weights > 0
    return read if rows.all() else read.take(rows)


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
