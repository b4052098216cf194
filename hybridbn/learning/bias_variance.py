"""`bias_variance`: what a classifier's error is made of, by repeated cross-validation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.jobs import check_jobs, run_in_processes
from hybridbn.tables import Table
from hybridbn.variables import Codes, Values

__all__ = ["BiasVariance", "bias_variance"]


@dataclass(frozen=True)
class BiasVariance:
    """What `bias_variance` returns; bias and variance add up to the error.

    Attributes
    ----------
    error : float
        Mean share of errors.
    bias : float
        Squared bias with the noise in it, which can't be told apart where each case is seen with one class only.
    variance : float
    errors : ndarray (repeats,)
        The error of each cross-validation.
    """

    error: float
    bias: float
    variance: float
    errors: Values

    @classmethod
    def of(cls, truth: Any, predicted: Any) -> Self:
        """Take the error of predictions apart: classes (cases,), and those given to the cases in each cross-validation (repeats, cases).

        Examples
        --------
        >>> BiasVariance.of(["a", "b"], [["a", "a"], ["a", "b"]])
        <error 0.25 = bias 0.125 + variance 0.125>
        """
        labels, found = np.asarray(truth), np.asarray(predicted)
        if labels.ndim != 1 or found.ndim != 2 or found.shape[1] != len(labels) or not found.size:
            raise TableError(f"predicted must be (repeats, cases) for as many cases as truth has, not {found.shape}")
        classes, places = np.unique(np.concatenate([labels, found.ravel()]), return_inverse=True)
        own, codes = places[: len(labels)], places[len(labels) :].reshape(found.shape)
        # a case's share of the classes: one class after the other, as all together would be large
        shares = [(codes == code).mean(axis=0) for code in range(len(classes))]
        bias = sum(float((((own == code) - share) ** 2).mean()) for code, share in enumerate(shares)) / 2
        variance = max((1 - sum(float((share**2).mean()) for share in shares)) / 2, 0.0)
        errors = (codes != own).mean(axis=1)
        return cls(float(errors.mean()), bias, variance, errors)

    def __repr__(self) -> str:
        return f"<error {self.error:.4g} = bias {self.bias:.4g} + variance {self.variance:.4g}>"


def bias_variance(
    classifier: Any,
    X: Any,
    y: Any,
    *,
    repeats: int = 10,
    folds: int = 3,
    stratified: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> BiasVariance:
    r"""Take a classifier's error apart into bias and variance (Kohavi and Wolpert, 1996; eq. 5 of Ting and Zheng, 2003).

    Each case is classified once in every cross-validation, by a classifier that did not see it. With :math:`P(c \mid v)` the share of the
    cross-validations in which case v of class y is given to c

    .. math:: \mathrm{bias}^2_v = \tfrac12 \sum_c \left([c = y] - P(c \mid v)\right)^2 \qquad
        \mathrm{variance}_v = \tfrac12 \left(1 - \sum_c P(c \mid v)^2\right)

    and both are averaged over the cases.

    Parameters
    ----------
    classifier : object with fit(X, y) and predict(X), or callable
        Copied for each fit; a callable without arguments makes one.
    X : DataFrame, array, Table or list of rows
    y : sequence
        The classes.
    repeats, folds : int
        How many cross-validations of how many folds.
    stratified : bool
        Whether each fold gets about the same share of each class.
    random_state : int, Generator, ...
        Whatever `numpy.random.default_rng` takes.
    n_jobs : int, optional
        Processes among which the folds are shared (-1: as many as there are processors); the result is the same for any number, unless
        the classifier draws random numbers from a state that lasts from one fit to the next.

    Returns
    -------
    BiasVariance

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 90)
    >>> X = np.stack([y + rng.normal(size=90), rng.normal(size=90)], axis=1)
    >>> found = bias_variance(hb.HybridClassifier(potentials="gaussian"), X, y, repeats=4)
    >>> abs(found.bias + found.variance - found.error) < 1e-12, found.variance < found.bias
    (True, True)
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(X):
        raise TableError(f"y must have one class for each of the {len(X)} rows of X, not the shape {labels.shape}")
    for name, number, least in (("repeats", repeats, 1), ("folds", folds, 2)):
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < least:
            raise TableError(f"{name} must be a whole number of at least {least}, not {number!r}")
    if folds > len(labels):
        raise TableError(f"{len(labels)} rows can't be put into {folds} folds")
    if not _is_classifier(classifier) and not callable(classifier):
        raise TableError(
            f"a classifier has fit and predict, or makes one when it is called; {classifier!r:.80} does neither"
        )
    classes, truth = np.unique(labels, return_inverse=True)
    rng = np.random.default_rng(random_state)
    jobs = check_jobs(n_jobs)
    parts = [part for _ in range(repeats) for part in _folds(truth, folds, stratified, rng)]
    predicted = np.empty((repeats, len(labels)), dtype=labels.dtype)
    found = run_in_processes(_predicted, (classifier, X, y), parts, jobs, "the classifier and its data")
    for place, ((_, test), own) in enumerate(zip(parts, found, strict=True)):
        predicted[place // folds, test] = classes[_codes(own, classes)]
    return BiasVariance.of(labels, predicted)


def _is_classifier(classifier: Any) -> bool:
    return hasattr(classifier, "fit") and hasattr(classifier, "predict") and not isinstance(classifier, type)


def _predicted(given: tuple[Any, Any, Any], part: tuple[NDArray[np.intp], NDArray[np.intp]]) -> NDArray[Any]:
    """Return the classes of the rows to test on, by a classifier that learned from the others."""
    (classifier, X, y), (training, test) = given, part
    model = copy.deepcopy(classifier) if _is_classifier(classifier) else classifier()
    fitted = model.fit(_taken(X, training), _taken(y, training))
    return np.asarray((model if fitted is None else fitted).predict(_taken(X, test)))


def _folds(
    truth: Codes, folds: int, stratified: bool, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield the rows to learn from and those to test on, each row being tested on once."""
    order = rng.permutation(len(truth))
    if stratified:
        order = order[np.argsort(truth[order], kind="stable")]
    for fold in range(folds):
        test = np.sort(order[fold::folds])
        yield np.setdiff1d(np.arange(len(truth)), test), test


def _taken(data: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of whatever holds them."""
    if isinstance(data, Table):
        return data.take(rows)
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if hasattr(data, "take") and not isinstance(data, np.ndarray):
        return data.take(rows)
    if hasattr(data, "shape") or type(data).__module__.startswith("polars"):
        return data[rows]
    return [data[row] for row in rows]


def _codes(found: NDArray[Any], classes: NDArray[Any]) -> Codes:
    places = np.minimum(np.searchsorted(classes, found), len(classes) - 1)
    if not (classes[places] == found).all():
        raise TableError(
            f"the classifier predicts {found[classes[places] != found][0]!r}, which is not among the classes"
        )
    return np.asarray(places, dtype=np.intp)
