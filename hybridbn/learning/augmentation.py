"""`augment`: a regression or classification model from a table with holes, by a variant of data augmentation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np

from hybridbn.errors import TableError
from hybridbn.estimation.available_cases import draw_alone, fill_at_random
from hybridbn.estimation.completion import Completion, RowLevels
from hybridbn.estimation.em import log_likelihood
from hybridbn.fitting.base import Potentials
from hybridbn.inference.queries import posterior
from hybridbn.jobs import track_items
from hybridbn.network import Network
from hybridbn.options import (
    Marks,
    Options,
    PrecisionKeywords,
    check_choice,
    check_count,
    make_generator,
    resolve_options,
)
from hybridbn.structures.building import Build, Structure
from hybridbn.tables import Rows, Table
from hybridbn.variables import Values, find_observed, shorten


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
    build: Structure | None = None,
    potentials: Potentials | None = None,
    weights: Any = None,
    *,
    response: Literal["expectation", "simulation"] = "expectation",
    joint: bool = False,
    patience: int = 1,
    max_iterations: int = 100,
    random_state: Any = None,
    discrete: str | Iterable[str] = (),
    continuous: str | Iterable[str] = (),
    ordered: str | Iterable[str] = (),
    missing: Marks = None,
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
    discrete, continuous, ordered, missing : as in `hybridbn.Table`
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
    rows: Rows = builder.read(
        data, weights, target, discrete=discrete, continuous=continuous, ordered=ordered, missing=missing
    )
    patience = check_count(patience, "patience", 1)
    max_iterations = check_count(max_iterations, "max_iterations", 1)
    _check(rows, target, response)
    rng = make_generator(random_state)
    precision = resolve_options("augment", options, keywords, impossible="raise")
    learn: Callable[[Any], Network] = partial(builder.learn, target=target, potentials=potentials)
    holes = [name for name in rows.names if rows.count_missing(name)]
    steps: list[Step] = []

    def score(network: Network) -> Completion:
        model = Completion.of(network, rows.sample(), precision)
        squares, mass, likelihood = rows.learn(partial(_score, model, target))
        steps.append(Step(len(steps), math.sqrt(squares / mass), float(likelihood)))
        return model

    if not holes:
        network = score(learn(rows)).network
        return Augmented(network, _native(data, rows), History(tuple(steps)), True)
    marginals = builder.fit_marginals(rows.select(holes), potentials)
    alone = Completion.of(marginals, rows.sample(), Options())
    completed: Rows | None = None
    failures = 0

    def complete(model: Completion) -> Rows:
        levels = RowLevels.draw(rng, rows, model.network)
        expected = None if response == "simulation" else target
        return rows.fill_holes(partial(_complete_rows, model, alone, levels, joint, expected))

    # lines 4 to 8
    model = best = score(learn(fill_at_random(rows, marginals, rng)))
    for _ in track_items(itertools.count(), "augment"):
        if failures >= patience or len(steps) > max_iterations:
            break
        # lines 12 to 24; the model just learned is the best one unless patience goes on with a worse one
        filled = complete(model)
        if model is best:
            completed = filled
        model = score(learn(filled))
        if History(tuple(steps)).best == len(steps) - 1:
            best, completed, failures = model, None, 0
        else:
            failures += 1
    if completed is None:
        completed = complete(best)
    return Augmented(best.network, _native(data, completed), History(tuple(steps)), failures >= patience)


def _expect_response(model: Completion, target: str, batch: Table) -> Values:
    """Return the expectation of the response in every row: numbers, or probabilities of its states; computed once where
    the rows stay.
    """

    def expect() -> Values:
        known = batch.select([name for name in batch.names if name in model.network])
        return model.expectation(batch, posterior(model.network, target, known, model.options))

    return batch.keep(model, expect)


def _score(model: Completion, target: str, batch: Table, first: int) -> Values:
    """Return the weighted squares of the errors where the response is known, the weight of these rows, and the
    log-likelihood: what Eq. (5) takes.
    """
    column, expected = batch.column(target), _expect_response(model, target, batch)
    known = find_observed(column)
    true = column[known] if expected.ndim == 1 else column[known, None] == np.arange(expected.shape[1])
    squares = ((true - expected[known]) ** 2).sum(axis=tuple(range(1, expected.ndim)))
    weights = batch.weights[known]
    likelihood = log_likelihood(model.network, batch, model.options)
    return np.array([float(weights @ squares), float(weights.sum()), likelihood])


def _complete_rows(
    model: Completion, alone: Completion, levels: RowLevels, joint: bool, expected: str | None, batch: Table, first: int
) -> Mapping[str, Any]:
    """Return whole columns, their holes filled from a model, and those that it leaves out from their densities alone.

    Parameters
    ----------
    alone : Completion
        Of a network without arcs.
    joint : bool
        Draw the holes of a row together.
    expected : str, optional
        The response, where it is filled as it is expected and not drawn.
    """
    uniforms = levels.of(batch, first)
    cells = model.draw(batch, uniforms) if joint else model.draw_separately(batch, uniforms, skip=expected)
    if expected is not None and batch.cells(expected).missing.any():
        column, means = batch.column(expected), _expect_response(model, expected, batch)
        cells[expected] = np.where(find_observed(column), column, means if means.ndim == 1 else means.argmax(axis=1))
    return {**draw_alone(batch, alone, uniforms, model.network), **cells}


def _check(rows: Rows, target: str, response: str) -> None:
    rows.variable(target)
    check_choice(response, "response", ("expectation", "simulation"))
    table = rows.require_rows(1).require_values().sample()
    if not (find_observed(table.column(target)) & (table.weights > 0)).any():
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
        """The number of the model with the smallest error, the first of several; none whose error is not known."""
        return int(np.argmin(np.nan_to_num(self.srmse, nan=np.inf)))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, key: Any) -> Any:
        """Return a step by number, or a column by name."""
        return np.array([getattr(step, key) for step in self.steps]) if isinstance(key, str) else self.steps[key]

    def to_pandas(self) -> Any:
        """Return the steps as a DataFrame."""
        import pandas

        return pandas.DataFrame(list(self.steps), columns=list(Step._fields)).set_index("iteration")

    def plot(self, ax: Any = None) -> Any:
        """Draw srmse (left axis) and log-likelihood (right axis) by iteration; returns the left axes."""
        from hybridbn.pictures import plot_augmentation

        return plot_augmentation(self, ax)
