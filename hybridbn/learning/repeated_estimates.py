"""What repeated analyses tell together: one estimate with its uncertainty from several completed tables, by Rubin's
rules (`pool`), and the bias and variance of a classifier's error from several cross-validations (`bias_variance`).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import TableError, gather_remarks
from hybridbn.fitting.cross_validation import deal_folds, split_folds
from hybridbn.jobs import check_jobs, run_in_processes, track_items
from hybridbn.options import as_numbers, check_count, check_level, make_generator
from hybridbn.potentials.base import freeze
from hybridbn.variables import Values


@dataclass(frozen=True, eq=False, repr=False)
class Pooled:
    """An estimate pooled over completed tables; numbers, or arrays where vectors were pooled.

    Attributes
    ----------
    estimate : float or ndarray
        The mean of the estimates.
    variance : float or ndarray
        Its variance: `within` + (1 + 1 / `draws`) `between`.
    df : float or ndarray
        Degrees of freedom of Student's t distribution, after Barnard and Rubin (1999).
    missing_information : float or ndarray
        The fraction of the information about the quantity that is lost by missing cells.
    within, between : float or ndarray
        The mean of the variances, and the variance of the estimates.
    draws : int
    """

    estimate: Any
    variance: Any
    df: Any
    missing_information: Any
    within: Any
    between: Any
    draws: int

    @property
    def standard_error(self) -> Any:
        """The square root of the variance."""
        return _unwrap_scalar(np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> Any:
        """Return the interval that holds the quantity with this probability: (low, high), or an array (..., 2).

        Examples
        --------
        >>> low, high = pool([1.0, 1.2, 1.1], [0.04, 0.05, 0.04]).interval(0.9)
        >>> round(low, 3), round(high, 3)
        (0.698, 1.502)
        """
        from scipy.stats import t as student

        check_level(level)
        half = student.ppf(0.5 + level / 2, self.df) * np.sqrt(self.variance)
        low, high = _unwrap_scalar(self.estimate - half), _unwrap_scalar(self.estimate + half)
        return (low, high) if isinstance(low, float) else np.stack([low, high], axis=-1)

    def __repr__(self) -> str:
        if isinstance(self.estimate, float):
            return (
                f"<pooled over {self.draws} draws: {self.estimate:.6g} +- {self.standard_error:.3g}, "
                f"df {self.df:.4g}, missing information {self.missing_information:.3f}>"
            )
        estimates = np.array2string(self.estimate, precision=4)
        return f"<pooled over {self.draws} draws: {self.estimate.size} estimates {estimates}>"


def pool(estimates: ArrayLike, variances: ArrayLike, *, complete_df: float = math.inf) -> Pooled:
    r"""Pool the estimates of several completed tables by Rubin's rules.

    With the mean :math:`\bar U` of the variances, the variance B of the m estimates and :math:`T = \bar U + (1 + 1/m)
    B`,

    .. math:: \lambda = \frac{(1 + 1/m) B}{T}, \quad \nu_\infty = \frac{m - 1}{\lambda^2}, \quad
              \nu_o = \frac{\nu_c + 1}{\nu_c + 3} \nu_c (1 - \lambda), \quad
              \nu = \frac{\nu_\infty \nu_o}{\nu_\infty + \nu_o},

    where :math:`\nu_c` are the degrees of freedom that the complete table would give.

    Parameters
    ----------
    estimates : array_like (draws,) or (draws, ...)
        One estimate of each completed table; at least two.
    variances : array_like of the same shape
        Their squared standard errors.
    complete_df : float
        Degrees of freedom of the analysis if no cell were missing, such as rows minus coefficients. Without it the
        intervals of small tables come out too short.

    Returns
    -------
    Pooled
        With estimate, variance, df, interval(level) and missing_information.

    References
    ----------
    Rubin (1987), "Multiple Imputation for Nonresponse in Surveys"; Barnard & Rubin (1999), "Small-sample degrees of
    freedom with multiple imputation", Biometrika 86.

    Examples
    --------
    >>> pooled = pool([1.0, 1.2, 1.1], [0.04, 0.05, 0.04], complete_df=50)
    >>> pooled
    <pooled over 3 draws: 1.1 +- 0.238, df 18.23, missing information 0.307>
    >>> pool([[1.0, 5.0], [1.2, 5.5]], [[0.1, 0.2], [0.1, 0.2]]).estimate
    array([1.1 , 5.25])
    """
    values, squared_errors = _check_numbers("estimates", estimates), _check_numbers("variances", variances)
    if values.shape != squared_errors.shape:
        raise TableError(
            f"estimates have the shape {values.shape}, variances {squared_errors.shape}; "
            "each estimate needs its variance"
        )
    if not values.ndim or len(values) < 2:
        raise TableError(
            f"pooling needs the estimates of at least two completed tables, not {values.size}: impute(..., draws=20)"
        )
    if (squared_errors < 0).any():
        raise TableError(
            f"variances can't be negative; found {squared_errors[squared_errors < 0][0]} (give squared standard errors)"
        )
    if not complete_df > 0:
        raise TableError(f"complete_df must be a positive number of degrees of freedom, not {complete_df!r}")
    draws = len(values)
    estimate, within, between = values.mean(axis=0), squared_errors.mean(axis=0), values.var(axis=0, ddof=1)
    added = (1 + 1 / draws) * between
    total = within + added
    share = np.divide(added, total, out=np.zeros_like(total), where=total > 0)
    with np.errstate(divide="ignore", over="ignore"):
        df = (draws - 1) / np.square(share)
        if math.isfinite(complete_df):
            observed = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - share)
            # the harmonic form allows an infinite df; without any observed information df is nearly zero
            df = 1 / (1 / df + 1 / np.maximum(observed, 1e-9))
    # with the relative increase r in variance, the share is r / (1 + r), and one minus the share 1 / (1 + r)
    missing = share + 2 / (df + 3) * (1 - share) * (added > 0)
    estimate, total, df, missing, within, between = (
        _unwrap_scalar(freeze(np.asarray(figure, dtype=np.float64)))
        for figure in (estimate, total, df, missing, within, between)
    )
    return Pooled(estimate, total, df, missing, within, between, draws)


def _check_numbers(what: str, values: ArrayLike) -> Values:
    array = as_numbers(values, what)
    if not np.isfinite(array).all():
        raise TableError(f"{what} must be finite; found {array[~np.isfinite(array)][0]}")
    return array


def _unwrap_scalar(values: Any) -> Any:
    return float(values) if np.ndim(values) == 0 else values


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


@gather_remarks()
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
    predict_fold = partial(_predict_fold, (classifier, X, y))
    answers = run_in_processes(predict_fold, splits, jobs, "the classifier and its data")
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
    takes_rows = hasattr(data, "shape") or type(data).__module__.startswith("polars")
    return data[rows] if takes_rows else [data[row] for row in rows]
