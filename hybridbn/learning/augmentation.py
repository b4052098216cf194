"""`augment`: a regression or classification model from a table with holes, by a variant of data augmentation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from hybridbn.arguments import check_count, make_generator
from hybridbn.errors import TableError
from hybridbn.estimation.available_cases import draw_alone, fill_at_random
from hybridbn.estimation.completion import Completion
from hybridbn.estimation.em import log_likelihood
from hybridbn.estimation.holes import alternate, draw_levels, fill_table, find_holes
from hybridbn.estimation.row_uniforms import Levels, hash_identifiers, levels_of
from hybridbn.fitting.column_groups import find_observed
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.inference.queries import posterior
from hybridbn.network import Network
from hybridbn.options import Options, PrecisionKeywords, resolve_options
from hybridbn.structures.building import Build
from hybridbn.tables import Rows, Table
from hybridbn.variables import Values, shorten

__all__ = ["Augmented", "History", "Step", "augment"]


@dataclass(frozen=True)
class Augmented:
    """The result of `augment`.

    Attributes
    ----------
    network : Network
        The model with the smallest error.
    completed : table of the same kind as the data
        The data with all holes filled from that model.
    history : History
        The srmse and log-likelihood of every model, including the rejected last one; `history.best` is the one kept.
    converged : bool
        Whether the error stopped falling before the greatest number of iterations was reached.
    """

    network: Network
    completed: Any
    history: History
    converged: bool

    def plot(self, ax: Any = None) -> Any:
        """Draw the history with matplotlib; returns the axes."""
        return self.history.plot(ax)

    def __repr__(self) -> str:
        best = self.history[self.history.best]
        reached = f"srmse {best.srmse:.4g} at iteration {best.iteration} of {len(self.history) - 1}"
        return f"<Augmented: {self.network!r}, {reached}>"


def augment(
    data: Any,
    target: str,
    build: Any = None,
    potentials: Potentials | None = None,
    weights: Any = None,
    *,
    response: Literal["expectation", "simulation"] = "expectation",
    joint: bool = False,
    patience: int = 1,
    max_iterations: int = 100,
    random_state: Any = None,
    options: Options | None = None,
    **keywords: Unpack[PrecisionKeywords],
) -> Augmented:
    r"""Learn a model of a response from a table with holes, and fill them (Algorithm 1 of Fernandez et al., 2008).

    At first the holes are filled from a density of each column alone, learned from its observed values, and a first
    model is learned. Then, in turn: fill the holes *of the original table* from the model, learn a new model, and go on
    as long as

    .. math:: \mathrm{srmse} = \sqrt{\frac1m \sum_{i=1}^m (y_i - \hat y_i)^2} \qquad (5)

    over the m rows with known response gets smaller, :math:`\hat y_i` being the response's expectation given the
    observed cells among the others in its row. Holes of the other columns are filled by simulation, those of the
    response by its expectation: by Proposition 1 a simulated response has twice the mean square error.

    Parameters
    ----------
    data : DataFrame, Table, mapping of arrays, ...
        Whatever `Table` takes.
    target : str
        The response, a continuous or a discrete column.
    build : builder, partial of one, its name, Network, or list of arcs, optional
        How a model is learned from a filled table. A builder is a function of (data, target), such as
        `hybridbn.structures.tan`; it may find other arcs each time. A `Network` keeps its arcs and families. By
        default: naive Bayes.
    potentials : as in `hybridbn.fit`, optional
        Passed to the builder or to `hybridbn.fit`, whose defaults apply otherwise. The starting densities have the same
        families.
    weights : sequence of float, optional
        One for each row; they replace those of a `Table`.
    response : {"expectation", "simulation"}
        How the response's holes are filled.
    joint : bool
        Draw the holes of a row together. The algorithm, line 15, draws each given the observed cells alone, and
        so does the default; that is the same for naive Bayes where the response is known, but elsewhere it loses the
        correlation of cells that are missing together.
    patience : int
        The number of successive models without improvement after which it stops; 1 in the paper.
    max_iterations : int
        The greatest number of times that the holes are filled from a model.
    random_state : int, Generator, ...
        Whatever `numpy.random.default_rng` takes.
    options : Options, optional
        The options of posteriors; or its attributes as keywords, `tolerance` and `max_bytes`.

    Returns
    -------
    Augmented
        With `.network`, `.completed` and `.history`.

    Notes
    -----
    With ``joint=True``, ``response="simulation"`` and great patience it is data augmentation as Tanner and Wong have
    it, with one draw and estimated parameters.

    A *discrete* response is filled with its most probable state, and Eq. (5) has the indicators of the states for
    :math:`y_i` and their probabilities for :math:`\hat y_i`: the root of the Brier score. A column that a model
    *discretizes* is filled with an observed number of the interval that was drawn, and a response with the mean of the
    observed numbers in the intervals, weighted with their probabilities. Columns that a model leaves out are filled
    from their own density. Integers become floats where a hole was.

    References
    ----------
    Fernandez, Nielsen & Salmeron (2008), "Learning naive Bayes regression models with missing data using mixtures of
    truncated exponentials", PGM'08. Tanner & Wong (1987), "The calculation of posterior distributions by data
    augmentation", JASA 82.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=200)
    >>> data = {"x": y + rng.normal(size=200), "y": np.where(rng.random(200) < 0.3, np.nan, y)}
    >>> data["x"][::4] = np.nan
    >>> result = augment(data, "y", potentials="gaussian", random_state=0)
    >>> result
    <Augmented: <Network: 2 nodes (2 continuous), 1 arc>, srmse 0.7813 at iteration 4 of 5>
    >>> bool(np.isnan(result.completed["y"]).any()), result.history.srmse.round(3)
    (False, array([0.822, 0.796, 0.783, 0.782, 0.781, 0.782]))
    """
    builder = Build.of(build)
    table: Any = builder.read(data, weights, target)
    patience = check_count(patience, "patience", 1)
    max_iterations = check_count(max_iterations, "max_iterations", 1)
    _check(table, target, response)
    rng = make_generator(random_state)
    precision = resolve_options("augment", options, keywords, impossible="raise")
    learn = builder.make_learner(target, potentials)
    holes = [name for name in table.names if table.count_missing(name)]
    if not holes:
        single = _score(learn(table), table, target, 0, precision)
        return Augmented(single.network, _native(data, table), History((single.step,)), True)
    marginals = builder.fit_marginals(table.select(holes), potentials)
    steps: list[Step] = []
    best: _Scored | None = None
    scored: _Scored | None = None
    completed: Table | None = None
    failures = 0

    def until(network: Network) -> bool:
        nonlocal scored, best, completed, failures
        scored = _score(network, table, target, len(steps), precision)
        steps.append(scored.step)
        if best is None or scored.step.srmse < best.step.srmse:
            best, completed, failures = scored, None, 0
        else:
            failures += 1
        return failures >= patience or len(steps) > max_iterations

    def complete(network: Network) -> Table:
        # lines 12 to 24; the model just learned is the best one unless patience goes on with a worse one
        nonlocal completed
        assert scored is not None
        filled = _complete(
            scored, table, target, marginals, rng, precision, joint=joint, simulated=response == "simulation"
        )
        if scored is best:
            completed = filled
        return filled

    # lines 4 to 8
    if table.is_scanned:
        first = learn(table.fill_holes(_FillAtRandom(marginals, int(rng.integers(2**62)))))
    else:
        first = learn(fill_at_random(table, marginals, rng))
    alternate(first, complete, learn, until, "augment")
    assert best is not None
    if completed is None:
        scored = best
        completed = complete(best.network)
    return Augmented(best.network, _native(data, completed), History(tuple(steps)), failures >= patience)


@dataclass(frozen=True)
class _Scored:
    """A model, its expectation of the response in every row, and its scores."""

    network: Network
    expected: Values
    step: Step


def _score(network: Network, table: Table, target: str, iteration: int, options: Options) -> _Scored:
    """Score a model by Eq. (5) on the rows of the original table with known response."""
    if table.is_scanned:
        squares, mass, likelihood = table.learn(_ScorePart(network, target, options))
        return _Scored(network, np.empty(0), Step(iteration, math.sqrt(squares / mass), float(likelihood)))
    expected = _expect_response(network, table, target, Completion.of(network, table, options), options)
    squares, mass = _sum_squares(table, target, expected)
    return _Scored(
        network, expected, Step(iteration, math.sqrt(squares / mass), log_likelihood(network, table, options))
    )


def _expect_response(network: Network, table: Table, target: str, completion: Completion, options: Options) -> Values:
    """Return the expectation of the response in every row: numbers, or probabilities of its states."""
    response = posterior(network, target, table.select([n for n in table.names if n in network]), options)
    return completion.expectation(table, response)


def _sum_squares(table: Table, target: str, expected: Values) -> tuple[float, float]:
    """Return the weighted squares of the errors where the response is known, and the weight of these rows."""
    column = table.column(target)
    if expected.ndim == 1:
        known = ~np.isnan(column)
        squares = (column[known] - expected[known]) ** 2
    else:
        known = column >= 0
        indicators = column[known, None] == np.arange(expected.shape[1])
        squares = ((indicators - expected[known]) ** 2).sum(axis=1)
    weights = table.weights[known]
    return float(weights @ squares), float(weights.sum())


@dataclass(frozen=True)
class _ScorePart:
    """Scores some rows of a table that is read in passes."""

    network: Network
    target: str
    options: Options

    def __call__(self, table: Table, first: int) -> Values:
        """Return squares of errors, weight and log-likelihood."""
        completion = Completion.of(self.network, table, self.options)
        expected = _expect_response(self.network, table, self.target, completion, self.options)
        likelihood = log_likelihood(self.network, table, self.options)
        return np.array([*_sum_squares(table, self.target, expected), likelihood])


@dataclass(frozen=True)
class _FillAtRandom:
    """Fills each hole of some rows from the density of its column alone."""

    marginals: Network
    seed: int

    def __call__(self, table: Table, first: int) -> Mapping[str, Any]:
        """Return whole columns."""
        return draw_alone(table, self.marginals, _levels_of_rows(table, first, self.seed, table.names))


def _levels_of_rows(table: Table, first: int, seed: int, names: Iterable[str]) -> Levels:
    """Return random numbers of rows that depend on their places and the seed alone."""
    rows = np.arange(first, first + len(table))
    return levels_of(hash_identifiers(rows, len(rows)), list(names), seed)


@dataclass(frozen=True)
class _CompleteRows:
    """Completes some rows of a table that is read in passes."""

    completion: Completion
    target: str
    marginals: Network
    seed: int
    options: Options
    joint: bool
    simulated: bool

    def __call__(self, table: Table, first: int) -> Mapping[str, Any]:
        """Return whole columns."""
        network = self.completion.network
        hidden = [name for name in network if name not in table]
        levels = _levels_of_rows(table, first, self.seed, (*table.names, *hidden))
        expected = None
        if not self.simulated and table.count_missing(self.target):
            expected = _expect_response(network, table, self.target, self.completion, self.options)
        cells = _draw_cells(self.completion, table, self.target, levels, expected, self.joint)
        return {**draw_alone(table, self.marginals, levels, network), **cells}


def _draw_cells(
    completion: Completion, table: Table, target: str, levels: Levels, expected: Values | None, joint: bool
) -> dict[str, Any]:
    """Return drawn cells of the columns with holes; the response is as it is expected, if that is given."""
    if joint:
        cells = completion.draw(table, levels)
    else:
        cells = completion.draw_separately(table, levels, skip=target if expected is not None else "")
    if expected is not None:
        missing = find_holes(table).get(target, False)
        own = expected if expected.ndim == 1 else expected.argmax(axis=1)
        cells[target] = np.where(missing, own, table.column(target))
    return cells


def _complete(
    model: _Scored,
    table: Table,
    target: str,
    marginals: Network,
    rng: np.random.Generator,
    options: Options,
    *,
    joint: bool,
    simulated: bool,
) -> Table:
    """Fill the holes of the original table from a model, those of a scan while it is read."""
    network = model.network
    if table.is_scanned:
        # observed numbers of intervals are those of a sample
        completion = Completion.of(network, table.sample(), options)
        seed = int(rng.integers(2**62))
        return table.fill_holes(_CompleteRows(completion, target, marginals, seed, options, joint, simulated))
    levels = draw_levels(rng, table, network)
    expected = None if simulated else model.expected
    cells = _draw_cells(Completion.of(network, table, options), table, target, levels, expected, joint)
    return fill_table(table, {**draw_alone(table, marginals, levels, network), **cells})


def _check(table: Table, target: str, response: str) -> None:
    table.variable(target)
    if response not in ("expectation", "simulation"):
        raise TableError(f"response must be 'expectation' or 'simulation', not {response!r}")
    table.require_rows(1).require_values()
    table = table.sample()
    column = table.column(target)
    if not (find_observed(column) & (table.weights > 0)).any():
        raise TableError(
            f"the response {target!r} is not known in any row of positive weight; the columns are "
            f"{shorten(table.names)}"
        )


def _native(data: Any, table: Any) -> Any:
    return table if isinstance(data, Rows) else table.to_native()


class Step(NamedTuple):
    """The number of a model, from 0, with its error and its log-likelihood on the original data."""

    iteration: int
    srmse: float
    log_likelihood: float


@dataclass(frozen=True)
class History:
    """The models of a run in order: a sequence of `Step`, whose columns are arrays.

    Examples
    --------
    >>> history = History((Step(0, 2.5, -40.0), Step(1, 2.0, -38.0), Step(2, 2.25, -37.0)))
    >>> history.srmse, history.best, history[-1].log_likelihood
    (array([2.5 , 2.  , 2.25]), 1, -37.0)
    """

    steps: tuple[Step, ...]

    @property
    def srmse(self) -> Values:
        """The error of each model on the rows with known response."""
        return np.array([step.srmse for step in self.steps])

    @property
    def log_likelihood(self) -> Values:
        """The log-likelihood of the observed cells under each model."""
        return np.array([step.log_likelihood for step in self.steps])

    @property
    def best(self) -> int:
        """The number of the model with the smallest error, the first of several."""
        return int(np.argmin(self.srmse))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, key: Any) -> Any:
        """Return a step by number, or a column by name."""
        if isinstance(key, str):
            return np.array([getattr(step, key) for step in self.steps])
        return self.steps[key]

    def to_pandas(self) -> Any:
        """Return the steps as a DataFrame."""
        import pandas

        return pandas.DataFrame(list(self.steps), columns=list(Step._fields)).set_index("iteration")

    def plot(self, ax: Any = None) -> Any:
        """Draw srmse (left axis) and log-likelihood (right axis) by iteration; returns the left axes."""
        from hybridbn.pictures.learning import plot_augmentation

        return plot_augmentation(self, ax)
