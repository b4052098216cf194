"""What the classifier and the regressor share: from features and targets to a network, and from features to
posteriors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import wraps
from typing import Any, Literal, Self, TypeAlias, TypeVar

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from hybridbn.errors import NetworkError, TableError, warn_user
from hybridbn.estimation.available_cases import read_as_declared
from hybridbn.estimation.em import expectation_maximization
from hybridbn.estimators.inputs import (
    HandleUnknown,
    check_features,
    choose_target,
    find_constant_columns,
    is_constant,
    name_columns,
    read_against,
    read_usable_features,
)
from hybridbn.estimators.sklearn_bases import BaseEstimator
from hybridbn.fitting import Fitter, Statistics, fitter_of, roles
from hybridbn.fitting.fitter_choice import Potentials
from hybridbn.inference.queries import allow_draws
from hybridbn.jobs import use_jobs
from hybridbn.learning.imputation.columns import reason_alone
from hybridbn.network import Network
from hybridbn.options import Options
from hybridbn.structures.building import BUILDERS, Build
from hybridbn.structures.training_data import CollectStatistics
from hybridbn.tables import Rows, Table, read_rows
from hybridbn.tables.columns import describe_left_alone
from hybridbn.variables import Values, Variable, shorten

__all__ = ["Builder", "HybridEstimator", "Stream", "share_fit"]


@dataclass(frozen=True)
class Stream:
    """All that naive Bayes has to know of the rows so far.

    Attributes
    ----------
    target : str
    roles : mapping from column to Role
        Fixed by the first rows: states, cut points and heavy points of later ones are read against these variables.
    fitters : mapping from column to Fitter
    statistics : mapping from column to Statistics
        Of the target, then of each column given the target.
    ranges : mapping from column to (low, high)
        Of the columns of numbers but the target; (inf, -inf) where no cell was observed.

    Examples
    --------
    >>> tables = [Table({"x": [1.0, 2.0], "c": ["a", "b"]}), Table({"x": [4.0, 7.0], "c": ["b", "a"]})]
    >>> stream = Stream.of(tables[0], "c", "gaussian").plus(tables[1])
    >>> stream.network().potential("x").intercept
    array([4., 3.])
    >>> stream.ranges
    {'x': (1.0, 7.0)}
    """

    target: str
    roles: Mapping[str, Any]
    fitters: Mapping[str, Fitter]
    statistics: Mapping[str, Statistics]
    ranges: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, table: Table, target: str, potentials: Potentials) -> Self:
        """Return the stream that begins with these rows."""
        found = roles(table, target, potentials)
        # the target first, as the builder has it
        ordered = {target: found[target], **found}
        given = (found[target].variable,)
        fitters = {
            name: fitter_of(role.fitter, role.variable, () if name == target else given)
            for name, role in ordered.items()
        }
        empty = cls(target, ordered, fitters, {}, {})
        return replace(empty, statistics=empty._read(table), ranges=empty._ranges(table))

    def plus(self, table: Table) -> Self:
        """Return the stream with more rows, which must have been read against `variables`."""
        more, ranges = self._read(table), self._ranges(table)
        return replace(
            self,
            statistics={name: statistics + more[name] for name, statistics in self.statistics.items()},
            ranges={
                name: (min(low, ranges[name][0]), max(high, ranges[name][1])) if name in ranges else (low, high)
                for name, (low, high) in self.ranges.items()
            },
        )

    @property
    def variables(self) -> dict[str, Variable]:
        """The variable of each column."""
        return {name: role.variable for name, role in self.roles.items()}

    @property
    def constant(self) -> list[str]:
        """The columns of numbers that have had a single value so far."""
        return [name for name, ends in self.ranges.items() if is_constant(*ends)]

    @property
    def nbytes(self) -> int:
        """The memory of all statistics: little for tables and moments, that of the rows for families that need
        these.
        """
        return sum(array.nbytes for statistics in self.statistics.values() for array in _arrays(statistics))

    def network(self) -> Network:
        """Return naive Bayes as the builder would make it of all rows together, without the constant columns."""
        constant = set(self.constant)
        kept = {name: statistics for name, statistics in self.statistics.items() if name not in constant}
        return Network([self.fitters[name].potential(statistics) for name, statistics in kept.items()])

    def _read(self, table: Table) -> dict[str, Statistics]:
        parents = {name: () if name == self.target else (self.target,) for name in self.fitters}
        statistics: Mapping[str, Statistics] = table.learn(CollectStatistics(self.roles, parents))
        return {name: statistics[name] for name in self.fitters}

    def _ranges(self, table: Table) -> dict[str, tuple[float, float]]:
        names = [name for name in self.roles if name != self.target and not table.is_discrete(name)]
        return {name: table.value_range(name) for name in names}


def _arrays(statistics: Statistics) -> Iterator[np.ndarray[Any, Any]]:
    for one in fields(statistics):
        value = getattr(statistics, one.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, np.ndarray):
                yield item


Fit = TypeVar("Fit", bound=Callable[..., Any])

Builder: TypeAlias = "Callable[..., Network] | nx.DiGraph[Any] | Iterable[tuple[str, str]] | str"
"""A builder such as `tan`, a partial of one or its name; or a structure that is kept: a Network, any directed graph or
a list of arcs.
"""


_KEPT = 2**20
"""Bytes of statistics that `fit` keeps for `partial_fit`: any tables and moments, but not the rows of a large table."""


def share_fit(fit: Fit) -> Fit:
    """Let the passes of an estimator's method be shared by as many threads as its parameter `n_jobs` tells."""

    @wraps(fit)
    def call(self: HybridEstimator, *args: Any, **keywords: Any) -> Any:
        with use_jobs(self.n_jobs):
            return fit(self, *args, **keywords)

    return call  # type: ignore[return-value]  # the same arguments


@dataclass(eq=False, repr=False)
class HybridEstimator(BaseEstimator):
    """The common part of `HybridClassifier` and `HybridRegressor`.

    Its parameters are fields, as scikit-learn wants each of them stored as it is; subclasses add their own.
    """

    builder: Builder = "auto"
    _: KW_ONLY
    potentials: Potentials = "auto"
    discrete: str | Iterable[str] = ()
    continuous: str | Iterable[str] = ()
    target: str | None = None
    handle_unknown: HandleUnknown = "missing"
    missing: Literal["available", "em"] = "available"
    tolerance: float = 1e-9
    max_bytes: float = 2.0 * 2**30
    n_jobs: int | None = None

    network_: Network = field(init=False)
    feature_names_in_: NDArray[Any] = field(init=False)
    target_name_: str = field(init=False)
    constant_features_: NDArray[Any] = field(init=False)
    n_features_in_: int = field(init=False)
    _stream: Stream = field(init=False)
    _left_alone: dict[str, str] = field(init=False)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = str(super().__repr__(N_CHAR_MAX))
        if "missing=" in text or not text.endswith(")"):
            return text
        # what becomes of holes is shown even where it is the default
        return f"{text[:-1]}{'' if text.endswith('()') else ', '}missing={self.missing!r})"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # --- learning ---------------------------------------------------------------------------------------------------

    def _opened(self, X: Any, y: Any, read_target: Callable[[Any], NDArray[Any]], weights: Any, *, reset: bool) -> Any:
        """Return features, targets and weights of the rows that count, all checked."""
        if self.handle_unknown not in ("missing", "error"):
            raise TableError(f"handle_unknown must be 'missing' or 'error', not {self.handle_unknown!r}")
        if self.missing not in ("available", "em"):
            raise TableError(f"missing must be 'available' or 'em', not {self.missing!r}")
        features = check_features(X)
        validate_data(self, features, y, reset=reset, skip_check_array=True)
        if reset:
            self.target_name_ = choose_target(self.target, y, name_columns(features), self._build().structure or ())
        targets = read_target(y)
        check_consistent_length(features, targets)
        if weights is None:
            return features, targets, None
        weights = _check_sample_weight(weights, features, dtype=np.float64, ensure_non_negative=True)
        kept = weights > 0
        if not kept.all():
            # as if the others had never been there: no states, cut points or ranges of theirs
            features = _safe_indexing(features, np.flatnonzero(kept))
            targets, weights = targets[kept], weights[kept]
        return features, targets, weights

    def _table(self, features: Any, weights: Values | None) -> Table:
        """Read the features of `fit`, or of the first call of `partial_fit`."""
        table, self._left_alone = read_usable_features(features, self.discrete, self.continuous)
        for name in table.names:
            if (reason := reason_alone(table, name)) is not None:
                self._left_alone[name] = reason
        if self._left_alone:
            warn_user(f"{describe_left_alone(self._left_alone)}; the network has no such nodes")
            table = table.drop(name for name in self._left_alone if name in table)
        return table if weights is None else table.with_weights(weights)

    def _learn(self, table: Any) -> tuple[Network, Stream | None]:
        """Return the network of a table that holds the target, and what `partial_fit` could go on from."""
        table, build, left_out = self._looked_through(table)
        if self._learns_naive_bayes():
            stream = Stream.of(table, self.target_name_, self.potentials)
            return stream.network(), stream if stream.nbytes <= _KEPT else None
        table, build, potentials = self._without(table, build, left_out)
        network = build.learn(table, self.target_name_, potentials)
        if self.missing == "em" and any(table.missing.values()):
            network = expectation_maximization(network, table, options=self._options).network
        return network, None

    def _build(self) -> Build:
        # boosting has a default of its own
        boosts = self._is_automatic() and getattr(self, "boost", None) is not None
        return Build.of(None if boosts else self.builder, "builder")

    def _looked_through(self, table: Rows) -> tuple[Rows, Build, list[str]]:
        """Read the table as a structure says, and find columns of a single number, warning of them."""
        target, build = self.target_name_, self._build()
        if build.structure is not None and target not in build.structure:
            raise NetworkError(
                f"the structure given as builder has no node {target!r}, as y is called; its nodes are "
                f"{shorten(build.structure)}: say which of them y is with target="
            )
        table = read_as_declared(table, build.structure)
        names = [name for name in table.names if name != target]
        if len(table) == 1 and not all(map(table.is_discrete, names)):
            raise TableError(
                "X has 1 sample that counts; columns of numbers need two different values at least, to tell how they"
                " vary"
            )
        left_out = find_constant_columns(table.require_values(names), names)
        if left_out:
            warn_user(
                f"columns {shorten(left_out)} have the same value in all {len(table)} rows that count; they say nothing"
                " about the target and are left out of the network",
            )
        self.constant_features_ = np.array(left_out, dtype=object)
        return table, build, left_out

    def _without(self, table: Rows, build: Build, left_out: list[str]) -> tuple[Rows, Build, Potentials | None]:
        """Take columns out of the table, the structure and the potentials; potentials that are left open become
        None.
        """
        # a partial of a builder may have its own choice, which "auto" leaves alone
        potentials = None if isinstance(self.potentials, str) and self.potentials == "auto" else self.potentials
        absent = {*left_out, *self._left_alone}
        if isinstance(potentials, Mapping):
            potentials = {name: spec for name, spec in potentials.items() if name not in absent}
        return table.drop(left_out), build.drop(sorted(absent)), potentials

    def _is_automatic(self) -> bool:
        return isinstance(self.builder, str) and self.builder == "auto"

    def _learns_naive_bayes(self) -> bool:
        """Tell whether `fit` learns naive Bayes from statistics that add up."""
        named = isinstance(self.builder, str) and self.builder == "naive_bayes"
        plain = getattr(self, "boost", None) is None and self.missing == "available"
        return (named or self.builder is BUILDERS.find("naive_bayes")) and plain

    def _streams(self) -> bool:
        """Tell whether there is a `partial_fit`: the structure must be known, and naive Bayes is; "auto" chooses it."""
        if self._learns_naive_bayes():
            return True
        if hasattr(self, "network_") and not hasattr(self, "_stream"):
            # the error of the attribute that is not there names this one as its cause
            raise NetworkError(
                f"partial_fit can't go on from fit, where builder={self.builder!r:.80} needs all rows at once; start"
                " anew with partial_fit on a clone, which learns naive Bayes if builder is 'auto'"
            )
        return self._is_automatic() and getattr(self, "boost", None) is None and self.missing == "available"

    def _batch(self, features: Any, weights: Values | None) -> Table:
        """Read the features of a later call of `partial_fit`."""
        variables = self._stream.variables.items()
        read = [variable for name, variable in variables if name != self.target_name_]
        table = read_against(features, read, self.handle_unknown)
        return table if weights is None else table.with_weights(weights)

    def _is_first_batch(self) -> bool:
        if hasattr(self, "_stream"):
            return False
        if hasattr(self, "network_"):
            raise NetworkError(
                "partial_fit can't go on from this fit: the families chosen need the rows themselves, which were too"
                " many to keep; start anew with partial_fit on a clone of this estimator"
            )
        return True

    def _keep(self, network: Network, stream: Stream | None) -> Self:
        """Keep what was learned, and what `partial_fit` goes on from."""
        self.network_ = network
        if stream is not None:
            self.constant_features_ = np.array(stream.constant, dtype=object)
            self._stream = stream
        elif hasattr(self, "_stream"):
            del self._stream
        return self

    def _learn_rows(self, rows: Rows, y: str, weights: Any, kind: type[Variable]) -> tuple[Network, Stream | None]:
        """Return what `_learn` does of rows, of which y names a column."""
        if y not in rows or self.target not in (None, y):
            raise TableError(f"y={y!r} must be the name of a column of X, which is the target")
        self.target_name_ = y
        table, reasons = read_rows(rows, self.discrete, self.continuous, weights)
        self._left_alone = {name: reason for name, reason in reasons.items() if name != y}
        if not isinstance(table.variable(y), kind):
            raise TableError(f"y={y!r} is {'discrete' if table.is_discrete(y) else 'a column of numbers'}")
        names = [name for name in rows.names if name != y]
        self.n_features_in_, self.feature_names_in_ = len(names), np.array(names, dtype=object)
        return self._learn(table)

    # --- asking -----------------------------------------------------------------------------------------------------

    def _evidence(self, X: Any) -> Rows:
        check_is_fitted(self, "network_")
        if isinstance(X, Rows):
            return X.answer_when_asked(self._read_features, self._select_features)
        return self._read_features(X)

    def _read_features(self, X: Any) -> Table:
        features = check_features(X)
        validate_data(self, features, reset=False, skip_check_array=True)
        variables = self._known_variables()
        read = [variables[name] for name in name_columns(features) if name in variables]
        return read_against(features, read, self.handle_unknown)

    def _select_features(self, rows: Rows) -> Rows:
        known = self._known_variables()
        return rows.select(name for name in rows.names if name in known and name != self.target_name_)

    def _known_variables(self) -> dict[str, Variable]:
        """Return the variables as which the features are read."""
        return {variable.name: variable for variable in self.network_.variables}

    def _posterior(self, X: Any) -> Any:
        check_is_fitted(self, "network_")
        if hasattr(self, "ensemble_"):
            return self.ensemble_.posterior(self._evidence(X), options=self._options)
        return self.network_.posterior(self.target_name_, self._evidence(X), options=self._options)

    @property
    def _options(self) -> Options:
        options = Options(tolerance=self.tolerance, max_bytes=self.max_bytes, n_jobs=self.n_jobs)
        network: Network = self.network_ if hasattr(self, "network_") else Network()
        return allow_draws(network, self.target_name_, options)
