"""What learns a network in each round of AdaBoost, and how the weights change after it.

`BuiltLearner` takes any builder, by passes over the rows. `CountedLearner` is AdaBoost.M1 over naive Bayes of discrete
columns, with a single pass over the data in each round.

A round's pass classifies the rows with the present network and counts them, with the present weights, by (value, class,
wrong). Eqs. 2 and 3 of Ting and Zheng multiply the weights of all wrong rows by one number and those of the others by
another. So the next round's counts are the two halves of the present ones times these numbers, and the error is a
margin of the counts. Where a weight falls below the floor, one more pass counts what the floor adds to such rows.

Columns are put together in groups whose joint codes are made once, in two bytes a row. A network becomes one table of
log-odds for each group, so that both classifying and counting take one look-up in a row and group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hybridbn.fitting import MultinomialFitter, MultinomialStatistics
from hybridbn.fitting.base import refuse_empty
from hybridbn.fitting.counting import Groups, NumpyCounter, RowCounter
from hybridbn.learning.ensemble import ClassScorer, LazyNetwork
from hybridbn.learning.sample_weights import FLOOR, Exponent, Factors, Margins, SampleWeights, Step, initial_weights
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import take_logs
from hybridbn.tables import Rows, Table
from hybridbn.variables import Codes, Discrete, Values, slice_blocks

PERFECT = math.log(1e10)
"""The vote of a network without errors (Ting and Zheng, section 2)."""
HALF = 0.5 - 1e-12
"""Errors from here on count as one half, which a network has on the weights that its own errors led to."""
NO_LOG_ODDS = 1e-9
"""Mean log-odds below this are rounding errors, as they remain when there is nothing left to learn."""
_ORDERS = 9
"""The slope of a sum of exponentials is continued by a Taylor series of so many terms."""
_FACTORIALS = np.array([math.factorial(order) for order in range(_ORDERS)], dtype=float)
_NEAR, _FAR = 0.02, 2.0
"""The series is exact up to rounding errors within the former, and is of use within the latter, divided by what the
exponentials multiply.
"""
_SCORER = "scorer of boosted rows"
_MOST_LOG_ODDS = 690.0
"""Log-odds are clipped to this, which is that of a probability of 1e-300."""
_MOST_CELLS = 2**15
"""A group has at most this many counts, so that they stay in the second-level cache."""
_BLOCK_ROWS = 32768
"""Weights that fall below the floor are looked for in blocks of this many rows, to save memory."""


Outcome: TypeAlias = "tuple[LazyNetwork, float, float, SampleWeights | None]"
"""What becomes of a round: a network or a function that makes it, the share of the weight that it gets wrong, its vote,
which is not positive where it does not count, and the weights of the next round; None where boosting starts anew.
"""


def vote_of(error: float) -> float:
    r"""Return the vote of a network: :math:`\log((1-\epsilon)/\epsilon)`, and none of one that errs on half the weight.

    Examples
    --------
    >>> round(vote_of(0.25), 4), vote_of(0.0) == PERFECT, vote_of(0.5)
    (1.0986, True, 0.0)
    """
    return 0.0 if error >= HALF else PERFECT if error == 0 else math.log1p(-error) - math.log(error)


# -- any builder ------------------------------------------------------------------------------------------------------


@dataclass
class BuiltLearner:
    """Any builder. A round is what the builder needs, and a pass for the margins; Real AdaBoost searches for its vote
    in a few passes over what was noted, and both take one more where a weight falls below the floor.

    Attributes
    ----------
    rows : Rows
    target : str
    build : callable
        From weighted rows to a network.
    options : Options
    real : bool
        Whether margins are log-odds, and not signs.
    """

    rows: Rows
    target: str
    build: Callable[[Any], Network]
    options: Options
    real: bool
    number: int = 0

    def learn(self, weights: SampleWeights) -> Outcome:
        """Build a network from the weighted rows."""
        network = self.build(self.rows.weigh_rows(weights))
        self.number += 1
        margins = partial(compute_margins, network, self.target, self.options, self.real)
        advance = self._advance_real if self.real else self._advance_m1
        return network, *advance(weights, margins)

    def _advance_m1(self, weights: SampleWeights, margins: Margins) -> tuple[float, float, SampleWeights | None]:
        split = self.rows.learn(partial(_split, weights, self.number, margins))
        right, wrong = split.sums[0].tolist()
        total = self.rows.total_weight
        error = wrong / total
        if error == 0 or error >= HALF:
            return error, vote_of(error), None
        change = Factors.of(error)
        following = weights.add(Step(self.number, margins, change))
        low = min(split.least[0] * change.down, split.least[1] * change.up) < FLOOR
        share = following.find_share(self.rows) if low else total / (wrong * change.up + right * change.down)
        return error, vote_of(error), following.scale(share)

    def _advance_real(self, weights: SampleWeights, margins: Margins) -> tuple[float, float, SampleWeights | None]:
        total = self.rows.total_weight
        vote, sums = line_search(lambda vote: self.rows.learn(partial(_measure, weights, self.number, margins, vote)))
        error = float(sums.sums[3]) / total
        if vote <= 0 or sums.margins[0] >= 0:
            return error, vote, None
        constant = sums.log_sum(vote) - float(np.log(total))
        following = weights.add(Step(self.number, margins, Exponent(vote, constant)))
        if sums.bound_weights(vote) - constant < np.log(FLOOR):
            following = following.scale(following.find_share(self.rows))
        return error, vote, following


def compute_margins(network: Network, target: str, options: Options, real: bool, batch: Table) -> Values:
    """Return the margins of a network, or their signs unless `real`, with a sign bit where the network is wrong."""
    scorer = batch.remembered.get(_SCORER)
    if scorer is None:
        # one reads the rows for all networks
        scorer = batch.remembered[_SCORER] = ClassScorer(target, batch.with_weights(None), options)
    log_joint, truth = scorer.log_joint(network), batch.column(target)
    impossible = np.isnan(log_joint[0])
    wrong = impossible | (np.where(impossible, 0.0, log_joint).argmax(axis=0) != truth)
    if not real:
        return np.where(wrong, -1.0, 1.0)
    odds = np.clip(np.nan_to_num(log_joint[1] - log_joint[0], nan=0.0), -_MOST_LOG_ODDS, _MOST_LOG_ODDS)
    return np.asarray(np.copysign(odds, np.where(wrong, -1.0, 1.0)))


@dataclass(frozen=True)
class WeightSums:
    """Sums of weights, and the least weights among them, relative to the initial ones."""

    sums: Sequence[Values]
    least: Values

    def __add__(self, other: WeightSums) -> WeightSums:
        sums = [mine + yours for mine, yours in zip(self.sums, other.sums, strict=True)]
        return WeightSums(sums, np.minimum(self.least, other.least))


def _split(weights: SampleWeights, number: int, margins: Margins, batch: Table, first: int) -> WeightSums:
    """Return the weights by whether a network is right."""
    own, outcome = weights.judge(batch, first, number, margins)
    initial, wrong = initial_weights(batch), np.signbit(outcome)
    halves = [(own[rows], initial[rows]) for rows in (~wrong, wrong)]
    least = [(present / before).min(initial=np.inf) for present, before in halves]
    return WeightSums([np.array([half.sum() for half, _ in halves])], np.array(least))


def _measure(
    weights: SampleWeights, number: int, margins: Margins, vote: float, batch: Table, first: int
) -> MarginSums:
    own, outcome = weights.judge(batch, first, number, margins)
    return measure_margins(own, initial_weights(batch), outcome, vote)


# -- the vote of Real AdaBoost ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginSums:
    r"""What the search for a vote asks of rows: sums that add up.

    Attributes
    ----------
    vote : float
        The :math:`\alpha` at which the moments are taken.
    shift : float
        The greatest exponent :math:`-\alpha m / 2`.
    moments : ndarray (orders,)
        The sums of :math:`w (-m/2)^k e^{-\alpha m / 2}`, divided by the exponential of the shift.
    sums : ndarray (4,)
        Of the weights, of weighted margins, of their sizes, and of the weights of wrong rows.
    margins : tuple of float
        The least and the greatest margin of rows with weight.
    least : float
        The logarithm of the least of :math:`e^{-\alpha m / 2} w`, in units of the initial weights.
    """

    vote: float
    shift: float
    moments: Values
    sums: Values
    margins: tuple[float, float]
    least: float

    def __add__(self, other: MarginSums) -> MarginSums:
        shift = max(self.shift, other.shift)
        parts = [one.moments * math.exp(one.shift - shift) for one in (self, other) if one.shift > -np.inf]
        moments = sum(parts, np.zeros(_ORDERS))
        margins = min(self.margins[0], other.margins[0]), max(self.margins[1], other.margins[1])
        return MarginSums(self.vote, shift, moments, self.sums + other.sums, margins, min(self.least, other.least))

    @property
    def radius(self) -> float:
        """How large -m/2 is in the rows that matter."""
        return math.pow(self.moments[-1] / self.moments[0], 1 / (_ORDERS - 1))

    def _slope(self, step: float) -> float:
        return float(np.polynomial.polynomial.polyval(step, self.moments[1:] / _FACTORIALS[:-1]))

    def find_step(self) -> float:
        """Return how far the minimum is from the vote, in units of the radius, by a Taylor series; or the limit of what
        the series can tell.
        """
        from scipy.optimize import brentq

        most = _FAR / self.radius
        if self._slope(-most) >= 0:
            return -_FAR
        if self._slope(most) <= 0:
            return _FAR
        return float(brentq(self._slope, -most, most, xtol=1e-15, rtol=1e-14)) * self.radius

    def log_sum(self, vote: float) -> float:
        """Return log Z at a vote near by."""
        powers = self.moments / _FACTORIALS
        return self.shift + math.log(float(np.polynomial.polynomial.polyval(vote - self.vote, powers)))

    def bound_weights(self, vote: float) -> float:
        """Return a lower bound of the logarithms of the next weights before they are scaled."""
        return self.least - abs(vote - self.vote) * max(map(abs, self.margins)) / 2


def measure_margins(weights: Values, base: Values, margins: Values, vote: float) -> MarginSums:
    """Return the sums that the search for a vote needs; a sign bit tells that a row is wrong."""
    kept = weights > 0
    own, halves = weights[kept], margins[kept] / -2
    wrong = float(own[np.signbit(margins[kept])].sum())
    sums = np.array([own.sum(), -2 * (own @ halves), 2 * (own @ np.abs(halves)), wrong])
    exponents = vote * halves
    shift = float(exponents.max(initial=-np.inf))
    tilted = own * np.exp(exponents - shift)
    moments = np.empty(_ORDERS)
    for order in range(_ORDERS):
        moments[order] = tilted.sum()
        tilted *= halves
    extremes = -2 * float(halves.max(initial=-np.inf)), -2 * float(halves.min(initial=np.inf))
    least = float((np.log(own / base[kept]) + exponents).min(initial=np.inf)) if kept.all() else -np.inf
    return MarginSums(vote, shift, moments, sums, extremes, least)


def line_search(measure: Callable[[float], MarginSums]) -> tuple[float, MarginSums]:
    r"""Return the vote that minimizes :math:`Z(\alpha) = \sum w e^{-\alpha m / 2}`, m being the margins :math:`y h`.

    Zero where no positive vote lowers Z, or where margins are mere rounding errors, which a vote would only enlarge.
    Where no margin is negative, Z has no minimum; then the mean weighted margin becomes the vote of a perfect network.

    Parameters
    ----------
    measure : callable
        From a vote to its `MarginSums`: a pass over the rows, of which few are needed, because the slope is continued
        by a Taylor series.

    Returns
    -------
    vote : float
    sums : MarginSums
        The last that were measured, at a vote near by where the vote is a minimum.

    Examples
    --------
    >>> def measure(vote, weights=np.array([3.0, 1.0]), margins=np.array([2.0, -2.0])):
    ...     return measure_margins(weights, np.ones(2), margins, vote)
    >>> round(line_search(measure)[0], 6)  # log(3) / 2
    0.549306
    """
    sums = measure(1.0)
    total, mean, size, _ = sums.sums
    if not mean > 1e-12 * size or size < NO_LOG_ODDS * total:
        return 0.0, sums
    limit = PERFECT / float(size / total)
    if sums.margins[0] >= 0:
        return limit, sums
    low, high, reach = 0.0, limit, 1.0
    while True:
        if sums.moments[1] < 0:
            low = max(low, sums.vote)
        else:
            high = min(high, sums.vote)
        if low >= limit or high - low <= 1e-13 * high:
            return min(low, limit), sums
        step = sums.find_step()
        # where the minimum is farther than the series tells, steps grow
        reach = 4 * reach if abs(step) == _FAR else 1.0
        vote = sums.vote + reach * step / sums.radius
        if low <= vote <= high and abs(step) <= _NEAR:
            return vote, sums
        if not low < vote < high:
            # beyond the limit nothing is sought, but perhaps there
            vote = limit if vote >= high == limit else (low + high) / 2
        sums = measure(vote)


# -- naive Bayes by counts --------------------------------------------------------------------------------------------


class CountedLearner:
    """Naive Bayes over discrete columns and a target without holes, learned from counts.

    Parameters
    ----------
    rows : Rows
    variables : mapping from column to its variable
    target : Discrete
    fitters : mapping from the target and each column to its fitter
    jobs : int
        Threads that share the pass over a batch.
    """

    def __init__(
        self,
        rows: Rows,
        variables: Mapping[str, Discrete],
        target: Discrete,
        fitters: Mapping[str, MultinomialFitter],
        jobs: int,
    ) -> None:
        self._rows, self._fitters = rows, fitters
        every = (*variables.values(), target)
        self.columns: ColumnGroups = ColumnGroups(variables, target, RowCounter(rows, every), jobs)
        self._number, self._least = 0, 0.0
        self._total = rows.total_weight
        self._counts: list[Values] = []

    def learn(self, weights: SampleWeights) -> Outcome:
        """Learn from the counts of the rows, and classify and count these."""
        if not weights.steps:
            started = self._rows.learn(partial(count_round, self.columns, weights, 0, None)).sums
            self._counts = [table.sum(axis=1) for table in started]
            self._least = 1.0 if weights.start is None else 0.0
        network, tables = self.columns.learn(self._counts, self._fitters)
        self._number += 1
        split = self._rows.learn(partial(count_round, self.columns, weights, self._number, tables)).sums
        error = float(split[0][:, 1].sum()) / self._total
        ends = error == 0 or error >= HALF
        following = None if ends else self._advance(weights, split, tables, Factors.of(error))
        return network, error, vote_of(error), following

    def _advance(
        self, weights: SampleWeights, split: Sequence[Values], tables: Sequence[Values], change: Factors
    ) -> SampleWeights:
        """Return the next weights; the counts are those with them then."""
        self._counts = [table[:, 1] * change.up + table[:, 0] * change.down for table in split]
        self._least *= change.down
        step = Step(self._number, partial(count_margins, self.columns, tables), change, floored=False)
        if self._least >= FLOOR:
            return weights.add(step)
        self._number += 1
        added = self._rows.learn(partial(count_added, self.columns, weights.add(step), self._number))
        counts = [table + more for table, more in zip(self._counts, added.sums, strict=True)]
        share = self._total / float(counts[0].sum())
        self._counts = [table * share for table in counts]
        self._least = max(float(added.least), FLOOR) * share
        return weights.add(replace(step, number=self._number, share=share, floored=True, noted=True))


class ColumnGroups:
    """Groups of columns, which are counted by their joint configurations.

    Parameters
    ----------
    variables : mapping from column to its variable
    target : Discrete
    counter : RowCounter
        Of all rows.
    jobs : int

    Attributes
    ----------
    groups : list of tuple of str
    """

    def __init__(self, variables: Mapping[str, Discrete], target: Discrete, counter: RowCounter, jobs: int) -> None:
        self.variables: Mapping[str, Discrete] = variables
        self.target: Discrete = target
        self._incomplete, self._jobs = counter.incomplete, jobs
        self.groups: list[tuple[str, ...]] = counter.group(tuple(variables), max(_MOST_CELLS // (2 * len(target)), 1))
        self._shapes = [counter.shape(names, holes=True) for names in self.groups]

    def count(self, batch: Table, groups: Groups) -> list[Values]:
        """Return for each group of columns the weight by group of rows and joint code."""
        # joint codes are made once for all requests
        every = (*self.variables.values(), self.target)
        counter = batch.keep(
            self, lambda: NumpyCounter.of(batch.with_weights(None), every, self._jobs, self._incomplete).persist()
        )
        return list(counter.by_group(groups, self.groups))

    def learn(
        self, counts: Sequence[Values], fitters: Mapping[str, MultinomialFitter]
    ) -> tuple[Callable[[], Network], list[Values]]:
        """Return the probabilities and each group's table of log probabilities, given counts (classes, cells) by group.

        The tables have the shape (classes, cells), or for two classes (1, cells) with the log-odds of the second.
        """
        classes, target = len(self.target), self.target.name
        prior = fitters[target].tables(counts[0].sum(axis=1)[None])[0]
        probabilities, tables = {target: prior}, []
        prior_logs = take_logs(prior)[:, None]
        for group, shape, table in zip(self.groups, self._shapes, counts, strict=True):
            logs = prior_logs
            for name, margin in zip(group, _margins_of(table, shape), strict=True):
                states, size = len(self.variables[name]), margin.shape[1]
                counts_of_states = margin[:, :states]
                if not counts_of_states.any():
                    child, parents = self.variables[name], (self.target,)
                    empty = MultinomialStatistics(child=child, parents=parents, total=0.0, counts=counts_of_states)
                    refuse_empty(empty)
                probabilities[name] = fitters[name].tables(counts_of_states[None])[0]
                terms = take_logs(probabilities[name])
                if states < size:
                    # the last state stands for missing cells and adds nothing
                    terms = np.hstack([terms, np.zeros((classes, 1))])
                logs = (logs[:, :, None] + terms[:, None, :]).reshape(classes, -1)
            tables.append(logs)
            prior_logs = np.zeros((classes, 1))
        network = partial(_make_naive_bayes, self.target, self.variables, probabilities)
        # a probability of zero makes log-odds meaningless
        finite = all(np.isfinite(table).all() for table in tables)
        return network, [table[1:] - table[:1] for table in tables] if finite and classes == 2 else tables


def count_round(
    columns: ColumnGroups,
    weights: SampleWeights,
    number: int,
    tables: Sequence[Values] | None,
    batch: Table,
    first: int,
) -> WeightSums:
    """Return the weights of a batch by class, by whether the tables of a network are wrong, and by joint code.

    The weights and where the network is wrong are noted with its number. At a start, where there are no tables, weights
    are counted alone.
    """
    noted, step = weights.resume(batch, first)
    numbers, initial = noted[0], initial_weights(batch)

    def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, Values]:
        own, truth = numbers[block], observed[0]
        if step is not None:
            own = step.resume(np.abs(own), own, initial[block])
        if tables is None:
            return 2 * truth, own
        wrong = _classify(tables, codes) != truth
        np.copysign(own, 0.5 - wrong, out=numbers[block])
        return 2 * truth + wrong, own if step is not None else np.abs(own)

    classes = len(columns.target)
    counts = columns.count(batch, Groups(2 * classes, assign, (columns.target.name,)))
    if tables is not None:
        weights.note(batch, first, number, noted)
    return WeightSums([table.reshape(classes, 2, -1) for table in counts], np.array(np.inf))


def count_added(columns: ColumnGroups, weights: SampleWeights, number: int, batch: Table, first: int) -> WeightSums:
    """Return what the floor adds to the weights of a batch in the last step, by class and joint code, and note the
    weights after it.
    """
    *earlier, last = weights.steps
    noted = weights.recall(batch, first, last.number)
    if noted is None:
        before = replace(weights, steps=tuple(earlier))
        noted = np.copysign(before(batch, first), last.margins(batch))[None]
    numbers, initial = noted[0], initial_weights(batch)
    least, low, added = np.inf, [np.empty(0, np.intp)], [np.empty(0)]
    for block in slice_blocks(len(numbers), _BLOCK_ROWS):
        following = last.change(np.abs(numbers[block]), numbers[block])
        lowest = FLOOR * initial[block]
        rows = np.flatnonzero(following < lowest)
        low.append(rows + block.start)
        added.append(lowest[rows] - following[rows])
        least = min(least, float((following / initial[block]).min()))
        following[rows] = lowest[rows]
        numbers[block] = following
    # what was noted are the weights after the step now, but for the share
    weights.note(batch, first, number, noted)
    more = np.concatenate(added)

    def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, Values]:
        return observed[0], more[block]

    groups = Groups(len(columns.target), assign, (columns.target.name,), np.concatenate(low))
    return WeightSums(columns.count(batch, groups), np.array(least))


def count_margins(columns: ColumnGroups, tables: Sequence[Values], batch: Table) -> Values:
    """Return the signs of the margins of a network, given its tables of log-odds: negative where it is wrong."""
    signs = np.empty(len(batch))

    def assign(block: Any, codes: Sequence[Codes], observed: Sequence[Codes]) -> tuple[Codes, None]:
        signs[block] = 0.5 - (_classify(tables, codes) != observed[0])
        return observed[0], None

    columns.count(batch, Groups(len(columns.target), assign, (columns.target.name,)))
    return signs


def _make_naive_bayes(target: Discrete, variables: Mapping[str, Discrete], tables: Mapping[str, Values]) -> Network:
    """Return the network with these tables of probabilities."""
    attributes = (Multinomial(variable, (target,), table=tables[name]) for name, variable in variables.items())
    return Network([Multinomial(target, table=tables[target.name]), *attributes])


def _margins_of(counts: Values, sizes: Sequence[int]) -> list[Values]:
    """Return the counts (classes, size) of each column of a group from those of its joint codes (classes, cells).

    Examples
    --------
    >>> [margin.tolist() for margin in _margins_of(np.array([[1.0, 2.0, 3.0, 4.0]]), (2, 2))]
    [[[3.0, 7.0]], [[4.0, 6.0]]]
    """
    margins = []
    if len(sizes) == 1:
        return [counts]
    for size in reversed(sizes):
        # products with ones are the fastest sums over short axes
        cube = counts.reshape(len(counts), -1, size)
        margins.append(np.ones(cube.shape[1]) @ cube)
        counts = cube @ np.ones(size)
    return margins[::-1]


def _classify(tables: Sequence[Values], codes: Sequence[Codes]) -> Codes:
    """Return the class with the highest score for each row, the first of several; -1 where all are impossible."""
    totals = []
    for class_ in range(len(tables[0])):
        total = tables[0][class_].take(codes[0])
        for table, code in zip(tables[1:], codes[1:], strict=True):
            total += table[class_].take(code)
        totals.append(total)
    if len(totals) == 1:
        return np.asarray(totals[0] > 0, dtype=np.intp)
    stacked = np.array(totals)
    return np.asarray(np.where(np.isneginf(stacked).all(axis=0), -1, stacked.argmax(axis=0)), dtype=np.intp)
