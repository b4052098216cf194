"""The scikit-learn face of imputation: learn from one table, complete others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data

from hybridbn.errors import TableError
from hybridbn.estimation.holes import hash_identifiers, hash_rows
from hybridbn.estimators.inputs import check_features, open_features, read_usable_features
from hybridbn.estimators.sklearn_bases import BaseEstimator, TransformerMixin
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.learning.imputation.columns import integer_ranges, leave_out
from hybridbn.learning.imputation.data_augmentation import Settings, fit_imputation
from hybridbn.learning.imputation.model import Model, read_rows
from hybridbn.network import Network
from hybridbn.options import ImputationOptions, Options

__all__ = ["Imputer"]


@dataclass(eq=False, repr=False)
class Imputer(TransformerMixin, BaseEstimator):
    """Completes tables of numbers and categories by a network that was learned from another, incomplete one.

    Parameters
    ----------
    strategy : {"draw", "most_probable", "mean"}
        As in `impute`. A draw of a row's missing cells depends on the row itself and on `random_state`, not on other
        rows, so that a transformed batch has the rows of its parts; rows with the very same cells get different draws,
        in their order.
    structure, target, potentials, discrete, continuous, skip, include
        As in `impute`; the columns of an array are called x0, x1, ...
    bounds, integers, full_precision, donors, rules, rounds
        As in `impute`.
    indicators : bool
        Add a column of truth values ``<name>_imputed`` for each column that had holes in `fit`.
    handle_unknown : {"missing", "error"}
        What `transform` does with categories that `fit` has not seen: leave them as they are, tell so in a warning, and
        let them say nothing about the other cells of their rows; or refuse them.
    random_state : int, RandomState, Generator or None
    tolerance, max_bytes : float
        As in `Network.posterior`.

    Attributes
    ----------
    network_ : Network or None
        Of all columns but constants, identifiers and skipped ones; None where there are no others.
    history_ : list of dict
        What was drawn in each round of learning.
    n_features_in_ : int
    feature_names_in_ : ndarray
        Where X is a frame.

    Notes
    -----
    What comes back is of the kind that came in: an array, or a frame with the same dtypes. A category that a column's
    dtype does not list, because the frame holds a subset of those in `fit`, is added to the dtype where it is imputed.
    A column of numbers that were whole in `fit` gets whole numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> train = pd.DataFrame({"size": [1.0, 2.1, 2.9, 4.2, None, 5.0], "kind": ["a", "a", "a", "b", "b", None]})
    >>> imputer = Imputer(random_state=0).fit(train)
    >>> new = pd.DataFrame({"size": [None, 4.8], "kind": ["a", None]})
    >>> imputer.transform(new).isna().sum().tolist()
    [0, 0]
    >>> imputer.transform(new)[1:].equals(imputer.transform(new[1:]))
    True
    """

    strategy: str = "draw"
    _: KW_ONLY
    structure: Any = "auto"
    target: str | None = None
    potentials: Potentials = "auto"
    discrete: str | Iterable[str] = ()
    continuous: str | Iterable[str] = ()
    skip: str | Iterable[str] = ()
    include: str | Iterable[str] = ()
    bounds: Mapping[str, Any] | str | None = None
    integers: str | Iterable[str] | None = None
    full_precision: bool = False
    donors: bool = True
    rules: bool = True
    indicators: bool = False
    handle_unknown: str = "missing"
    rounds: int | None = None
    random_state: Any = None
    tolerance: float = 1e-6
    max_bytes: float = 2.0 * 2**30

    model_: Model = field(init=False)
    network_: Network | None = field(init=False)
    history_: list[dict[str, Any]] = field(init=False)
    n_features_in_: int = field(init=False)
    _seed: int = field(init=False)
    _indicated: tuple[str, ...] = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        # of the values, not of the number of columns; draws are the same for the same random_state
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the network from an incomplete table; y is not used."""
        self._check_options()
        features = check_features(X)
        validate_data(self, features, reset=True, skip_check_array=True)
        frame = leave_out(open_features(features), self.skip)
        table, unusable = read_usable_features(frame, self.discrete, self.continuous)
        frame = frame.select(table.names)
        settings = Settings(
            **{option.name: getattr(self, option.name) for option in fields(ImputationOptions)},
            options=Options(tolerance=self.tolerance, max_bytes=self.max_bytes),
        )
        fitted = fit_imputation(table, settings, integer_ranges(frame), unusable)
        model = self.model_ = fitted.model
        model.columns.rules.tell()
        self._seed = fitted.seed
        self.network_ = None if model.completion is None else model.network
        self.history_ = fitted.history
        self._indicated = tuple(
            n for n in frame.columns if n in model.columns.variables and table.cells(n).missing.any()
        )
        return self

    def transform(self, X: Any) -> Any:
        """Return a table of the same kind without holes.

        Columns that were left alone in `fit` (skipped ones and identifiers) keep theirs.
        """
        check_is_fitted(self, "model_")
        self._check_options()
        features = check_features(X)
        validate_data(self, features, reset=False, skip_check_array=True)
        frame = leave_out(open_features(features), self.skip)
        unknown = "error" if self.handle_unknown == "error" else "missing"
        rows = read_rows(frame, self.model_, unknown)
        keys = hash_rows(rows.working) if rows.working.names else hash_identifiers(range(frame.rows), frame.rows)
        fills = self.model_.fill(rows, self.strategy, keys, self._seed)
        nowhere = np.zeros(frame.rows, dtype=bool)
        added = {f"{n}_imputed": rows.holes.get(n, nowhere) for n in self._indicated} if self.indicators else {}
        return self.model_.complete(rows, fills, added)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns."""
        check_is_fitted(self, "model_")
        names = _check_feature_names_in(self, input_features)
        added = [f"{name}_imputed" for name in self._indicated] if self.indicators else []
        return np.array([*names, *added], dtype=object)

    def _check_options(self) -> None:
        if self.strategy not in ("draw", "mean", "most_probable"):
            raise TableError(f"strategy must be 'draw', 'mean' or 'most_probable', not {self.strategy!r}")
        if self.handle_unknown not in ("missing", "error"):
            raise TableError(f"handle_unknown must be 'missing' or 'error', not {self.handle_unknown!r}")
