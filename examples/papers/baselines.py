"""Plain regressors to compare with: linear regression, nearest neighbors, a model tree, as Frank et al. (1998, section
3.1) describe them.

Each is a function of a training table, a test table and the target's name.
"""

import warnings

import numpy as np

__all__ = ["Coding", "linear_regression", "model_tree", "nearest_neighbors"]

MOST_NEIGHBORS = 20
NOT_ZERO, TIED = 1e-3, 1e-12
"""Added to a distance before it is inverted, and how much distances may differ that count as equal."""
RIDGE = 1e-8
"""Keeps the equations of standardized columns solvable where columns depend on each other."""


class Coding:
    """Numbers for the attributes: missing ones get the mean or the most frequent state of the training table.

    A nominal attribute with n values gets n - 1 indicators (Wang & Witten 1997): its values are ordered by the mean of
    the target, and the indicators tell which of the places between neighbors a value lies above. A value that the
    training table lacks is put where the mean of all targets is.
    """

    def __init__(self, training, target):
        y = training.column(target)
        self.columns = []
        for name in training.names:
            if name == target:
                continue
            column = training.column(name)
            if training.is_discrete(name):
                self._add_states(name, column, y)
            else:
                self._add_numbers(name, column)

    def _add_numbers(self, name, column):
        known = column[~np.isnan(column)]
        if len(known) and known.min() < known.max():
            mean = float(known.mean())
            self.columns.append((name, lambda values: np.where(np.isnan(values), mean, values)[:, None]))

    def _add_states(self, name, column, y):
        known = column >= 0
        counts = np.bincount(column[known])
        seen = np.flatnonzero(counts)
        if len(seen) < 2:
            return
        means = np.array([y[column == state].mean() for state in seen])
        ranks = np.full(int(column.max()) + 1, int((means < y.mean()).sum()))
        ranks[seen[np.argsort(means, kind="stable")]] = np.arange(len(seen))
        usual, other = int(np.argmax(counts)), int((means < y.mean()).sum())

        def indicators(codes):
            codes = np.where(codes < 0, usual, codes)
            places = np.where(codes < len(ranks), ranks[np.minimum(codes, len(ranks) - 1)], other)
            return (places[:, None] >= np.arange(1, len(seen))).astype(float)

        self.columns.append((name, indicators))

    def __call__(self, table):
        """Return the attributes of a table as numbers (rows, columns)."""
        parts = [function(table.column(name)) for name, function in self.columns]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(table), 0))


def linear_regression(training, test, target):
    """Predict by least squares; the column of least standardized coefficient is eliminated as long as Akaike's
    criterion falls.
    """
    coding = Coding(training, target)
    y = training.column(target)
    numbers = coding(training)
    center, spread = numbers.mean(axis=0), numbers.std(axis=0)
    used = spread > 0
    standard = (numbers[:, used] - center[used]) / spread[used]
    chosen, slopes = _eliminated(standard, y - y.mean())
    tested = (coding(test)[:, used] - center[used]) / spread[used]
    return y.mean() + tested[:, chosen] @ slopes


def _eliminated(numbers, y):
    gram = numbers.T @ numbers + RIDGE * len(y) * np.eye(numbers.shape[1])
    products, squares = numbers.T @ y, float(y @ y)
    chosen = np.arange(numbers.shape[1])

    def solved(columns):
        slopes = np.linalg.solve(gram[np.ix_(columns, columns)], products[columns])
        return slopes, max(squares - float(slopes @ products[columns]), 1e-12 * squares)

    slopes, full = solved(chosen)
    free = max(len(y) - len(chosen) - 1, 1)
    criterion = free + 2 * (len(chosen) + 1)
    while len(chosen):
        fewer = np.delete(chosen, int(np.argmin(np.abs(slopes))))
        others, residual = solved(fewer)
        tried = residual / full * free + 2 * (len(fewer) + 1)
        if tried >= criterion:
            break
        chosen, slopes, criterion = fewer, others, tried
    return chosen, slopes


def nearest_neighbors(training, test, target):
    """Predict by the k nearest rows, weighted by the inverse of the distance, k = 1, ..., 20 by leaving one out.

    Returns predictions for the k of least squared and of least absolute error, "knn_rmse" and "knn_mae". Rows that are
    as near as the k-th count as well, so the order of rows doesn't matter; the published errors on `meta` need this.
    Distances are those of IB1: numbers in units of their range, 1 between different values of a nominal attribute, the
    greatest difference possible where one is missing.
    """
    y = training.column(target)
    names = [name for name in training.names if name != target]
    own = _by_neighbors(_distances(training, training, names, itself=True), y)
    predicted = _by_neighbors(_distances(test, training, names), y)
    errors = own - y[:, None]
    best = {"knn_rmse": np.argmin((errors**2).mean(axis=0)), "knn_mae": np.argmin(np.abs(errors).mean(axis=0))}
    return {name: predicted[:, min(k, predicted.shape[1] - 1)] for name, k in best.items()}


def _distances(left, right, names, itself=False):
    total = np.zeros((len(left), len(right)))
    for name in names:
        a, b = left.column(name)[:, None], right.column(name)[None]
        if left.is_discrete(name):
            total += (a != b) | (a < 0) | (b < 0)
            continue
        if np.isnan(b).all() or np.nanmin(b) == np.nanmax(b):
            continue
        low, high = np.nanmin(b), np.nanmax(b)
        a, b = (a - low) / (high - low), (b - low) / (high - low)
        farthest = np.where(np.isnan(a), np.where(np.isnan(b), 1.0, np.maximum(b, 1 - b)), np.maximum(a, 1 - a))
        total += np.where(np.isnan(a) | np.isnan(b), farthest, a - b) ** 2
    if itself:
        np.fill_diagonal(total, np.inf)
    return np.sqrt(total / max(len(names), 1))


def _by_neighbors(distances, y):
    """Return predictions for each number of neighbors, (rows, numbers); all rows count that are as near as the k-th."""
    order = np.argsort(distances, axis=1, kind="stable")
    distances = np.take_along_axis(distances, order, axis=1)
    # not infinite for rows that are equal; zero for a row itself, which is no neighbor of its own
    weights = 1 / (distances + NOT_ZERO)
    sums, totals = np.cumsum(weights * y[order], axis=1), np.cumsum(weights, axis=1)
    most = min(MOST_NEIGHBORS, int(np.isfinite(distances).sum(axis=1).min()))
    rows, predicted = np.arange(len(distances)), np.empty((len(distances), most))
    for k in range(most):
        last = (distances <= distances[:, k : k + 1] + TIED).sum(axis=1) - 1
        predicted[:, k] = sums[rows, last] / totals[rows, last]
    return predicted


def model_tree(smoothed=True):
    """Return the method "M5'" of the package m5py, or None where that is not installed or does not work with what is
    installed.
    """
    try:
        from m5py import M5Prime
    except ImportError:
        return None

    def predict(training, test, target):
        coding = Coding(training, target)
        numbers = coding(training)
        if not numbers.shape[1]:
            return np.full(len(test), training.column(target).mean())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = M5Prime(use_smoothing=smoothed, use_pruning=True, random_state=0)
            return np.ravel(tree.fit(numbers, training.column(target)).predict(coding(test)))

    return predict
