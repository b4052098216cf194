"""Model trees: tests at the nodes and a linear regression in each leaf, as a network; one tree, or several at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.fitting import equal_frequency
from hybridbn.fitting.base import Potentials
from hybridbn.fitting.cross_validation import draw_bootstrap, is_clearly_less
from hybridbn.fitting.trees import TreeNode, leaves, make_boxes, make_distinct
from hybridbn.inference.posteriors import GaussianPosterior
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, check_count, make_generator
from hybridbn.structures.building import Built, builder, name_hidden_node
from hybridbn.structures.heldout import (
    ResidualMixture,
    fit_residual_mixture,
    score_residuals,
)
from hybridbn.structures.regression import (
    Regressors,
    build_linear_network,
    build_regression_network,
    judge_left_out,
    learn_regressors,
    predict_left_out,
    read_for_regression,
    trust_rows,
    view_all_rows,
)
from hybridbn.structures.regression_splits import (
    LEAST_VARIANCE,
    ColumnTest,
    Growth,
    NodeRegression,
    RegressionRows,
    RegressionView,
    grow_regressions,
    predict_by_depth,
)
from hybridbn.variables import Continuous, Discrete, Values

INTERVALS = 24
"""The number of intervals of a column of numbers, between which tests cut."""
RIDGES = (8.0, 2.0, 0.5)
"""How strongly the regressions of nodes are drawn to those above, the strongest first."""
NORMAL_KURTOSIS = 3.0
FOLDS = 10
GAIN = 0.01
"""A deeper tree, or weaker ridge, must lower the score of held-out rows by this share."""
WIDTHS = (1.0, 0.5, 0.2, 0.05)
"""Factors of variances that are tried where depths are compared, as a few residuals may be far out."""
ENTRIES = 1 << 16
"""Trees grow together as long as their samples have at most so many rows."""
SHARE = 0.7
"""The share of the tests that is tried at each node of several trees, so that these differ."""
TESTED_NUMBERS = (3, 8)
"""No more numbers are tested, unless it lowers the score of held-out rows by the share above."""
TESTED_CATEGORIES = 4
"""No more of them are tested, so that the leaf of a row that lacks them all can still be averaged over."""
SHARES = (0.3, 0.6, 1.0)
"""The shares of the tests that are tried for several trees without regressions."""
NEARLY = 0.05
"""No more of these are grown if a few make the score worse by this share."""
PLAIN_DEPTH = 2
"""These may be so many times as deep."""
CHOICE_DEPTH = 2
"""Columns are chosen for what the first tests gain."""
PRIOR_ROWS = 3.0
FEW_ROWS = 20
"""A row of a state that fewer rows have may decide on which side of a cut the state is."""


@builder(takes_target=Continuous, hidden=(Discrete, Continuous), held_out=True)
def model_tree(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    trees: int = 1,
    max_depth: int = 4,
    tested: int | None = None,
    name: str | None = None,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Built:
    r"""Build a model tree of a number: tests at the nodes, and in each leaf a linear regression on all other columns.

    As a network it has a hidden node for the leaf, which is a function of the attributes tested:

    .. math:: f(y, x) = \prod_i f(x_i \mid x_{p(i)}) \sum_l P(l \mid x) f(y \mid l, x),
              \quad y \mid l, x \sim N(a_l + b_l x, s^2_l)

    A complete row is in one leaf, so its prediction is that leaf's regression. A row whose tested cells are missing is
    averaged over the leaves, given what is known of it. With several `trees` the leaves of all of them are the states
    of one node, and a complete row is in one leaf of each: the density of the target is the average of the trees'.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `regression`
    trees : int
        One tree grows from all rows. Several grow from samples of the rows with replacement, and from random parts of
        the tests at each node (bagging): less legible, and usually more exact.
    max_depth : int
        Greatest number of tests on the way to a leaf. The depth itself is what predicts held-out rows best; where that
        is 0, the network is that of `regression`.
    tested : int, optional
        Greatest number of number columns that are tested, see the notes; by default 3, or 8 if these predict held-out
        rows better.
    name : str, optional
        Of the hidden node; by default the target's with " leaf" after it.
    random_state : int, Generator or None
        Deals rows to folds, and draws the samples.

    Returns
    -------
    Network
        As of `regression`, with the leaf before the target.

    Notes
    -----
    The regression of a node is drawn towards that of the node above as if a few more rows spoke for that, which is
    what smoothing does in M5, and more of them for a slope along a column with heavy tails. The strength and the
    depth are those of the least score (CRPS) of held-out rows (ten folds for one tree, the rows that a sample
    lacks for several). A test cuts a number in two between two dozen intervals, or the states of a category ordered
    by the mean of the target. The columns that lower the squared error most are tested, at most four categories and
    `tested` numbers; more than three numbers if that lowers the score by a percent. Where several trees predict
    held-out rows better so, some of them have a mean in each leaf in the place of a regression, and are up to twice as
    deep: means and spreads that change abruptly are theirs. The variances are scaled, and the errors' shape is learned,
    on held-out rows.

    A row that lacks one tested number is averaged over in closed form but for this number. If it lacks several, these
    are dimensions of a grid, which may take seconds or be too wide: ``net.posterior(..., beyond="bound")`` draws them
    in the place of that, in milliseconds, as `HybridRegressor` does. A single tree tests only one number, if possible
    one without holes, in a table in which any attribute has holes, and so do all with ``tested=1``: any cells may then
    be missing at little cost. Untested columns cost nothing.

    Of a table that is read in passes, a sample settles which columns are tested and where they may be cut, the effects
    of states, the depth, the smoothing, the errors' shape and how far it trusts rows. Then the tree grows from all
    rows, each level in one pass, which sums up products by interval. Several trees are those of the sample, and a
    warning tells its size.

    References
    ----------
    Quinlan (1992), "Learning with continuous classes"; Wang & Witten (1997), "Induction of model trees for predicting
    continuous classes"; Breiman (1996), "Bagging predictors".

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 400))
    >>> y = np.where(x < 0, z, 5 - 2 * z) + 0.1 * rng.normal(size=400)
    >>> net = model_tree({"x": x, "z": z, "y": y}, "y", max_depth=1)
    >>> [state.split()[:2] for state in net.variable("y leaf").states]
    [['x', '<'], ['x', '>=']]
    >>> [round(net.posterior("y", known).mean()) for known in ({"x": -1.0, "z": 1.0}, {"z": 1.0})]
    [1, 2]
    """
    rng = make_generator(random_state)
    read, dealt, source = read_for_regression(data, target, potentials, weights, FOLDS, rng, **columns)
    trees, max_depth = (
        check_count(trees, "trees", 1, NetworkError),
        check_count(max_depth, "max_depth", 0, NetworkError),
    )
    most = TESTED_NUMBERS if tested is None else (check_count(tested, "tested", 0, NetworkError),)
    name = name_hidden_node(name, f"{target} leaf", read.roles)
    regressors = learn_regressors(read, dealt, source)
    share, tails = SHARE if trees > 1 else 1.0, _measure_tails(regressors)
    growths = [Growth(ridge * tails, depth=max_depth, share=share) for ridge in RIDGES]
    return _Forest(regressors, trees, growths, most, rng).build(name)


_HeldOut: TypeAlias = tuple[Values, Values, NDArray[np.intp]]
"""Means and variances that models predict for rows they have not seen, and the rows."""


class _TunedForest(NamedTuple):
    """Trees, how deep they are best, what they predict for rows they have not seen (means, variances and rows), how
    far off that is, how much each row was trusted, and what tells that of other rows.
    """

    growth: Growth
    depth: int
    trees: list[TreeNode[NodeRegression]]
    held_out: _HeldOut
    noise: ResidualMixture
    scores: Values
    trust: Values
    judge: Callable[[RegressionRows], Values] | None = None


_Group: TypeAlias = tuple[Sequence[TreeNode[NodeRegression]], int, Sequence[ColumnTest]]
"""Trees, the depth at which they are cut off, and what their tests are."""


class _Forest:
    """Trees on their way to a network.

    Parameters
    ----------
    regressors : Regressors
    trees : int
    growths : sequence of Growth
        How trees may grow, all to the same depth at most; what is best by held-out rows is taken.
    tested : tuple of int
        How many numbers are tested: so many, or more if that is better.
    rng : Generator
    regressed : slice
        The regressors that count in the nodes.
    """

    def __init__(
        self,
        regressors: Regressors,
        trees: int,
        growths: Sequence[Growth],
        tested: tuple[int, ...],
        rng: np.random.Generator,
        regressed: slice = slice(None),
    ) -> None:
        self.regressors, self.growths, self.tested, self.rng = regressors, growths, tested, rng
        self.several, self.regressed, self.depth = trees > 1, regressed, growths[0].depth
        self.target, self.weights = regressors.target, regressors.weights
        self.names = regressors.data.attributes
        # some are tried at random, whatever the order of the table
        columns = [name for name in regressors.dealt.columns if name in self.names]
        tests = [_choose_cuts(regressors, name) for name in columns]
        self.tests = [test for test in tests if test.size > 1]
        self.samples = self._draw_samples(trees)

    def build(self, name: str) -> Built:
        """Return the network, with what trees that have not seen it predict for each row."""
        if not self.depth or not self.tests or not self.regressors.encoding.names:
            return build_regression_network(self.regressors)
        rows = self._read_rows()
        choices = self._list_choices(rows)
        if not choices[0]:
            return build_regression_network(self.regressors)
        tuned, rows = self._tune(rows, choices)
        if self.several:
            mixed = self._mix(tuned, rows)
            if mixed is not None:
                groups, noise, held_out = mixed
                network = self._join_leaves(groups, noise, name)
                return Built(network, predict_left_out(self.regressors, noise, *held_out))
        if not tuned.depth:
            return build_regression_network(self.regressors)
        trees = tuned.trees
        source = self.regressors.source
        if source is not None and self.several:
            # the residuals' density is that of these very trees; others with it predict less well
            source.rows.sample(purpose="several model trees")
        elif source is not None:
            trees = self._grow_from_all_rows(tuned)
        elif not self.several:
            trees = self._grow(rows, (self.weights * tuned.trust)[None], tuned.growth)
        network = self._join_leaves([(trees, tuned.depth, self.tests)], tuned.noise, name)
        return Built(network, predict_left_out(self.regressors, tuned.noise, *tuned.held_out))

    def _mix(self, tuned: _TunedForest, rows: RegressionRows) -> tuple[list[_Group], ResidualMixture, _HeldOut] | None:
        """Return trees some of which have no regressions, if these together predict held-out rows better."""
        count, few = len(self.samples), FOLDS // 2
        # the rows of a node have a mean in the place of a regression
        constant = Growth(0.0, level=1.0, depth=PLAIN_DEPTH * self.depth, least=3.0, gain=0.0, share=0.5)
        plain = _Forest(self.regressors, count, [constant], self.tested[-1:], self.rng, slice(0))
        plain.samples, everything = self.samples, plain._read_rows()
        growth, depth, constants, plain_rows = plain._choose(everything, plain._list_choices(everything)[-1:])
        if not depth or count < FOLDS:
            return None
        own, rest = list(tuned.trees), replace(tuned.growth, depth=tuned.depth)
        own += self._grow(rows, self.samples[len(own) :] * (self.weights * tuned.trust), rest)
        told, told_plainly = self._predict(rows, own, tuned.depth), plain._predict(plain_rows, constants, depth)
        mixed, alone = self._score([*told_plainly[:few], *told[few:FOLDS]])[1], self._score(told[:FOLDS])[1]
        if not self._is_less(mixed, alone, -NEARLY):
            return None
        constants += self._grow(plain_rows, self.samples[FOLDS:] * self.weights, growth)
        told_plainly = plain._predict(plain_rows, constants, depth)
        least = tuned.scores if tuned.depth else judge_left_out(self.regressors)[2]
        best: tuple[list[_Group], ResidualMixture, _HeldOut] | None = None
        for share in SHARES:
            first = round(share * count)
            noise, scores, held_out = self._score([*told_plainly[:first], *told[first:]])
            if self._is_less(scores, least, GAIN if best is None else 0.0):
                groups = (constants[:first], depth, plain.tests), (own[first:], tuned.depth, self.tests)
                best, least = ([group for group in groups if group[0]], noise, held_out), scores
        return best

    def _predict(self, rows: RegressionRows, trees: Sequence[TreeNode[NodeRegression]], depth: int) -> list[_HeldOut]:
        """Return what each tree, cut off at a depth, predicts for the rows that its sample lacks."""
        rows, predictions = self._leave_out(rows), []
        for tree, sample in zip(trees, self.samples, strict=False):
            test = np.flatnonzero(sample == 0)
            means, variances = predict_by_depth(tree, rows, depth, test)
            predictions.append((means[depth], variances[depth], test))
        return predictions

    def _score(self, predictions: Sequence[_HeldOut]) -> tuple[ResidualMixture, Values, _HeldOut]:
        """Return the distribution of the residuals of trees, the score of each row, and all predictions together."""
        means, variances, entries = (np.concatenate(arrays) for arrays in zip(*predictions, strict=True))
        residuals = self.target[entries] - means
        noise = fit_residual_mixture(residuals, variances, entries, self.weights)
        scores = score_residuals(noise, residuals, variances, entries, len(self.target))
        return noise, scores, (means, variances, entries)

    def _is_less(self, first: Values, second: Values, gain: float = 0.0) -> bool:
        """Return whether scores are less than others by a share of these on average; NaN is left out."""
        known = np.isfinite(first) & np.isfinite(second)
        return float(self.weights[known] @ first[known]) < (1 - gain) * float(self.weights[known] @ second[known])

    def _grow_from_all_rows(self, tuned: _TunedForest) -> list[TreeNode[NodeRegression]]:
        """Return the tree that is grown in passes, with the tests and the depth that are best by a sample."""
        # what is known of the sample's own rows is not needed elsewhere
        none = np.empty(0, dtype=np.intp)
        tests = [test._replace(codes=none, left_out=none) for test in self.tests]
        view = view_all_rows(self.regressors, tests, tuned.judge)
        return grow_regressions(view, 1, replace(tuned.growth, depth=tuned.depth), self.rng)

    def _grow(self, rows: RegressionRows, weights: Values, growth: Growth) -> list[TreeNode[NodeRegression]]:
        """Grow trees from the rows of the sample, which count so much in each tree (trees, rows)."""
        together = max(1, ENTRIES // len(self.target))
        trees: list[TreeNode[NodeRegression]] = []
        for first in range(0, len(weights), together):
            part = weights[first : first + together]
            view = RegressionView.of(rows, part, self.regressors.data.table)
            trees += grow_regressions(view, len(part), growth, self.rng)
        return trees

    def _draw_samples(self, trees: int) -> NDArray[np.float32]:
        """Return by what the weights of rows are multiplied in the samples that trees for tuning grow from, (models,
        rows).
        """
        if not self.several:
            parts = self.regressors.dealt.parts
            return np.asarray(parts != np.arange(parts.max() + 1)[:, None], dtype=np.float32)
        drawn = (draw_bootstrap(self.weights, self.rng) for _ in range(trees))
        scaled = (counts / self.weights * (self.weights.sum() / counts.sum()) for counts in drawn)
        samples = np.stack([shares.astype(np.float32) for shares in scaled])
        # rows that are in all of few samples are each left out of one, so that every row has a prediction
        common = np.flatnonzero(samples.all(axis=0))
        reduced = samples.copy()
        reduced[np.arange(len(common)) % trees, common] = 0
        return np.where(reduced.any(axis=1, keepdims=True), reduced, samples)

    def _read_rows(self) -> RegressionRows:
        """Return the rows with all tests."""
        codes = np.stack([test.codes for test in self.tests], axis=1)
        sizes = tuple(test.size for test in self.tests)
        numbers, ridge = self.regressors.numbers[:, self.regressed], self.regressors.encoding.ridge[self.regressed]
        return RegressionRows(numbers, self.target, codes, sizes, ridge)

    def _list_choices(self, rows: RegressionRows) -> list[list[int]]:
        """Return the tests of the columns that lower the squared error most: few of them, and more if there are any."""
        gains = np.zeros(len(self.tests))
        growth = replace(self.growths[0], depth=min(self.depth, CHOICE_DEPTH))
        for tree in self._grow(rows, self.samples[:FOLDS] * self.weights, growth):
            _add_gains(tree, gains)
        order = np.argsort(-gains, kind="stable").tolist()
        categories = [i for i in order if isinstance(self.tests[i].variable, Discrete)][:TESTED_CATEGORIES]
        numbers = [i for i in order if not isinstance(self.tests[i].variable, Discrete)]
        # in a table with holes other rows will have some too, maybe in columns that are complete here
        exact = not self.several and any(self.regressors.data.rows.missing[n] for n in self.names)
        if exact:
            numbers.sort(key=lambda i: self.tests[i].holes)
        sizes = {min(len(numbers), most, 1 if exact else most) for most in self.tested}
        return [sorted(categories + numbers[:most]) for most in sorted(sizes)]

    def _leave_out(self, rows: RegressionRows) -> RegressionRows:
        """Return rows to be predicted by trees that have not seen them: categories tell nothing of their own target."""
        regressors = self.regressors
        if regressors.left_out is None and regressors.spread is None:
            return rows
        codes = np.stack([test.left_out for test in self.tests], axis=1)
        numbers = regressors.numbers if regressors.left_out is None else regressors.left_out
        spread = None if regressors.spread is None else regressors.spread[:, self.regressed]
        return replace(rows, numbers=numbers[:, self.regressed], codes=codes, spread=spread)

    def _tune(self, rows: RegressionRows, choices: Sequence[list[int]]) -> tuple[_TunedForest, RegressionRows]:
        """Return the trees, and the depth at which to cut them, that predict held-out rows best, and the rows with the
        tests of these trees.

        Where the residuals have heavy tails, trees are grown again with the rows in these counting less, if that
        predicts held-out rows clearly better.
        """
        growth, depth, trees, rows = self._choose(rows, choices)
        if depth:
            trees += self._grow(rows, self.samples[FOLDS:] * self.weights, growth)
        tuned, trust = self._judge(rows, growth, depth, trees, np.ones(len(self.target)))
        if depth and (trust < 1).any():
            trees = self._grow(rows, self.samples * (self.weights * trust), growth)
            robust, _ = self._judge(rows, growth, depth, trees, trust)
            if is_clearly_less(robust.scores, tuned.scores, self.weights):
                # folds deal out each row once, so that one tree of them judges rows that are in none
                tuned = robust._replace(judge=partial(trust_rows, tree=tuned.trees[0], depth=depth, noise=tuned.noise))
        return tuned, rows

    def _choose(
        self, rows: RegressionRows, choices: Sequence[list[int]]
    ) -> tuple[Growth, int, list[TreeNode[NodeRegression]], RegressionRows]:
        """Return how trees grow and how deep they are best, the first of them, and the rows with their tests."""
        some, tests = self.samples[:FOLDS], self.tests
        best: tuple[Growth, int, list[TreeNode[NodeRegression]], list[int]] | None = None
        least = math.inf
        for kept in choices:
            own, self.tests = rows.take(kept), [tests[i] for i in kept]
            for growth in self.growths if best is None else best[:1]:
                trees = self._grow(own, some * self.weights, growth)
                for depth, loss in enumerate(self._measure_losses(own, trees)):
                    if best is None or loss < least * (1 - GAIN):
                        least, best = loss, (growth, depth, trees, kept)
        assert best is not None
        growth, depth, trees, kept = best
        self.tests = [tests[i] for i in kept]
        return growth, depth, trees, rows.take(kept)

    def _measure_losses(self, rows: RegressionRows, trees: Sequence[TreeNode[NodeRegression]]) -> Values:
        """Return the score of held-out rows for each depth: of normal densities, of the width that suits them best."""
        sums, counts = np.zeros((3, self.depth + 1, len(self.target))), np.zeros(len(self.target))
        rows = self._leave_out(rows)
        for tree, sample in zip(trees, self.samples, strict=False):
            test = np.flatnonzero(sample == 0)
            means, variances = predict_by_depth(tree, rows, self.depth, test)
            sums[:, :, test] += means, variances, means**2
            counts[test] += 1
        seen = np.flatnonzero(counts)
        means, variances, squares = sums[:, :, seen] / counts[seen]
        weights, errors = self.weights[seen], means - self.target[seen]
        variances += np.maximum(squares - means**2, LEAST_VARIANCE * np.var(self.target))
        variances *= np.average(errors**2 / variances, axis=1, weights=weights)[:, None]
        losses = []
        for factor in WIDTHS:
            parts = np.ones((1, errors.size)), errors.reshape(1, -1), factor * variances.reshape(1, -1)
            scores = GaussianPosterior.of(Continuous("residual"), *parts).crps(np.zeros(errors.size))
            losses.append(scores.reshape(errors.shape) @ weights)
        return np.asarray(np.min(losses, axis=0))

    def _judge(
        self,
        rows: RegressionRows,
        growth: Growth,
        depth: int,
        trees: list[TreeNode[NodeRegression]],
        trust: Values,
    ) -> tuple[_TunedForest, Values]:
        """Return trees with the distribution of their residuals, and how much this trusts each row."""
        noise, scores, held_out = self._score(self._predict(rows, trees, depth))
        means, variances, entries = held_out
        residuals = self.target[entries] - means
        sums = np.bincount(entries, noise.weigh_rows(residuals, variances), len(self.target))
        counts = np.bincount(entries, minlength=len(self.target))
        own = np.where(counts, sums / np.maximum(counts, 1), 1.0)
        return _TunedForest(growth, depth, trees, held_out, noise, scores, trust), own

    def _join_leaves(self, groups: Sequence[_Group], noise: ResidualMixture, name: str) -> Network:
        """Put the leaves of all trees into one node."""
        cut = [(tree, depth, tried) for trees, depth, tried in groups for tree in trees]
        joined, parts, tests = [], [], dict[str, ColumnTest]()
        for number, (tree, depth, tried) in enumerate(cut):
            for node in leaves(tree, depth):
                joined.append((number, node))
                parts.append({tried[i].column: codes for i, codes in node.boxes.items()})
                tests |= {tried[i].column: tried[i] for i in node.boxes}
        used = [test for test in (tests.get(column) for column in self.names) if test is not None]
        labels, inside = [], [np.ones((len(joined), test.size), dtype=bool) for test in used]
        for row, ((number, _), part) in enumerate(zip(joined, parts, strict=True)):
            path = "; ".join(test.describe(part[test.column]) for test in used if test.column in part) or "all"
            labels.append(f"{number + 1}. {path}" if self.several else path)
            for test, places in zip(used, inside, strict=True):
                if test.column in part:
                    places[row] = False
                    places[row, test.decode(part[test.column])] = True
        columns = [(test.variable, test.cuts, places) for test, places in zip(used, inside, strict=True)]
        leaf = make_boxes(Discrete(name, make_distinct(labels)), columns)
        coefficients = np.zeros((len(joined), 1 + len(self.regressors.encoding.names)))
        for own, (_, node) in zip(coefficients, joined, strict=True):
            own[: len(node.statistics.coefficients)] = node.statistics.coefficients
        variances = np.array([node.statistics.variance for _, node in joined])
        return build_linear_network(self.regressors, coefficients, variances, noise, leaf)


def _measure_tails(regressors: Regressors) -> Values:
    """Return the kurtosis of each regressor relative to that of a normal density, at least one.

    Where a few values lie far out, a slope that the rows of a node suggest would say much about these.
    """
    squares = regressors.numbers**2
    moments = regressors.weights @ squares**2 / regressors.weights.sum()
    return np.asarray(np.maximum(moments / NORMAL_KURTOSIS, 1.0))


def _choose_cuts(regressors: Regressors, name: str) -> ColumnTest:
    data, filled = regressors.data, regressors.filled[name]
    variable, none, holes = data.variable(name), np.empty(0, dtype=np.intp), bool(data.rows.missing[name])
    if not isinstance(variable, Discrete):
        cuts = equal_frequency(filled[:, 0], None, data.table.weights, bins=INTERVALS)
        test = ColumnTest(name, variable, cuts, none, none, none, holes)
        codes = test.find_codes(filled)
        return test._replace(codes=codes, left_out=codes)
    mass, mean = regressors.weights @ filled, regressors.weights @ regressors.target / regressors.weights.sum()
    own = regressors.weights * regressors.target
    sums = own @ filled
    means = (sums + PRIOR_ROWS * mean) / (mass + PRIOR_ROWS)
    order = np.argsort(means, kind="stable")
    test = ColumnTest(name, variable, (), order, none, none, holes)
    states, codes = np.argmax(filled, axis=1), test.find_codes(filled)
    # where a state stands among the others, without the row
    rest = np.maximum(mass[states] - regressors.weights, 0.0) + PRIOR_ROWS
    others = (sums[states] - own + PRIOR_ROWS * mean) / rest
    below = np.searchsorted(means[order], others)
    left_out = np.where(mass[states] < FEW_ROWS, np.minimum(below - (below > codes), len(order) - 1), codes)
    left_out = codes if len(order) == 2 else left_out  # the only cut separates them in either order
    return test._replace(codes=codes, left_out=left_out)


def _add_gains(node: TreeNode[NodeRegression], gains: Values) -> None:
    """Add to each test by how much it lowers the squared error in a tree."""
    if node.split is not None:
        left = sum(child.statistics.residual for child in node.children)
        gains[node.split.column] += max(node.statistics.residual - left, 0.0)
    for child in node.children:
        _add_gains(child, gains)
