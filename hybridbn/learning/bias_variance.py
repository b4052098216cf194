"""`bias_variance`: decompose a classifier's error into bias and variance, by repeated cross-validation."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import TableError
from hybridbn.fitting.cross_validation import deal_folds, split_folds
from hybridbn.jobs import check_jobs, run_in_processes, track_items
from hybridbn.options import check_count, make_generator
from hybridbn.variables import Values

__all__ = ["BiasVariance", "bias_variance"]


@dataclass(frozen=True)
class BiasVariance:
    """The error of a classifier as the sum of bias and variance.

    Attributes
    ----------
    error : float
        The mean share of errors.
    bias : float
        The squared bias including noise, which can't be separated where each case is seen with one class only.
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
        """Decompose the error of predictions (repeats, cases), a row per cross-validation, of classes (cases,).

        Examples
        --------
        >>> BiasVariance.of(["a", "b"], [["a", "a"], ["a", "b"]])
        <error 0.25 = bias 0.125 + variance 0.125>
        """
        labels, predictions = np.asarray(truth), np.asarray(predicted)
        if labels.ndim != 1 or predictions.ndim != 2 or predictions.shape[1] != len(labels) or not predictions.size:
            raise TableError(
                f"predicted must be (repeats, cases) for as many cases as truth has, not {predictions.shape}"
            )
        classes, positions = np.unique(np.concatenate([labels, predictions.ravel()]), return_inverse=True)
        true_codes, predicted_codes = positions[: len(labels)], positions[len(labels) :].reshape(predictions.shape)
        # one class after the other, as the shares of all together would be large
        shares = [(predicted_codes == code).mean(axis=0) for code in range(len(classes))]
        bias = sum(float((((true_codes == code) - share) ** 2).mean()) for code, share in enumerate(shares)) / 2
        variance = max((1 - sum(float((share**2).mean()) for share in shares)) / 2, 0.0)
        errors = (predicted_codes != true_codes).mean(axis=1)
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
    r"""Decompose a classifier's error into bias and variance (Kohavi and Wolpert, 1996; eq. 5 of Ting and Zheng, 2003).

    Each case is classified once in every cross-validation, by a classifier that was not trained on it. With
    :math:`P(c \mid v)` the share of the cross-validations in which case v of class y is classified as c

    .. math:: \mathrm{bias}^2_v = \tfrac12 \sum_c \left([c = y] - P(c \mid v)\right)^2 \qquad
        \mathrm{variance}_v = \tfrac12 \left(1 - \sum_c P(c \mid v)^2\right)

    and both are averaged over the cases.

    Parameters
    ----------
    classifier : object with fit(X, y) and predict(X), or callable
        An object is copied for each fit; a callable without arguments makes one.
    X : DataFrame, array, Table or list of rows
    y : sequence
        The classes.
    repeats, folds : int
        The number of cross-validations, and the number of their folds.
    stratified : bool
        Whether each fold gets about the same share of each class.
    random_state : int, Generator, ...
        Whatever `numpy.random.default_rng` takes.
    n_jobs : int, optional
        The number of processes (-1: one for each processor); the result is the same for any number, unless the
        classifier draws random numbers from a state that lasts from one fit to the next.

    Returns
    -------
    BiasVariance

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 90)
    >>> X = np.stack([y + rng.normal(size=90), rng.normal(size=90)], axis=1)
    >>> found = bias_variance(hb.HybridClassifier("naive_bayes", potentials="gaussian"), X, y, repeats=4)
    >>> abs(found.bias + found.variance - found.error) < 1e-12, found.variance < found.bias
    (True, True)
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(X):
        raise TableError(f"y must have one class for each of the {len(X)} rows of X, not the shape {labels.shape}")
    repeats, folds = check_count(repeats, "repeats", 1), check_count(folds, "folds", 2)
    if folds > len(labels):
        raise TableError(f"{len(labels)} rows can't be put into {folds} folds")
    if not _is_classifier(classifier) and not callable(classifier):
        raise TableError(
            f"a classifier has fit and predict, or makes one when it is called; {classifier!r:.80} does neither"
        )
    classes, truth = np.unique(labels, return_inverse=True)
    rng = make_generator(random_state)
    jobs = check_jobs(n_jobs)
    strata = truth if stratified else None
    splits = [split for _ in range(repeats) for split in split_folds(deal_folds(len(truth), folds, rng, strata))]
    predicted = np.empty((repeats, len(labels)), dtype=labels.dtype)
    answers = run_in_processes(_predict_fold, (classifier, X, y), splits, jobs, "the classifier and its data")
    answers = track_items(answers, "bias_variance", len(splits))
    for index, ((_, test), answer) in enumerate(zip(splits, answers, strict=True)):
        strange = ~np.isin(answer, classes)
        if strange.any():
            raise TableError(f"the classifier predicts {answer[strange][0]!r}, which is not among the classes")
        predicted[index // folds, test] = answer
    return BiasVariance.of(labels, predicted)


def _is_classifier(classifier: Any) -> bool:
    return hasattr(classifier, "fit") and hasattr(classifier, "predict") and not isinstance(classifier, type)


def _predict_fold(study: tuple[Any, Any, Any], split: tuple[NDArray[np.intp], NDArray[np.intp]]) -> NDArray[Any]:
    """Return the predicted classes of the test rows, by a classifier trained on the others."""
    (classifier, X, y), (training, test) = study, split
    model = copy.deepcopy(classifier) if _is_classifier(classifier) else classifier()
    fitted = model.fit(_select_rows(X, training), _select_rows(y, training))
    return np.asarray((model if fitted is None else fitted).predict(_select_rows(X, test)))


def _select_rows(data: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of a table, frame, array or list."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if hasattr(data, "take") and not isinstance(data, np.ndarray):
        return data.take(rows)
    if hasattr(data, "shape") or type(data).__module__.startswith("polars"):
        return data[rows]
    return [data[row] for row in rows]
