"""scikit-learn estimators: a Bayesian network as classifier, as regressor with the whole distribution, as imputer."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import partial
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from hybridbn.errors import NetworkError, TableError, gather_remarks, remark
from hybridbn.estimation.completion import hash_identifiers, hash_rows
from hybridbn.estimators.base import (
    HybridEstimator,
    Stream,
    TableEstimator,
    add_class_column,
    check_classes,
    check_number_targets,
    find_target_unit,
    open_features,
    read_usable_features,
)
from hybridbn.estimators.sklearn_bases import ClassifierMixin, RegressorMixin, TransformerMixin
from hybridbn.fitting import MultinomialFitter
from hybridbn.fitting.cross_validation import deal_table, split_folds
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior
from hybridbn.jobs import use_jobs
from hybridbn.learning.boosting import boost, read_priors
from hybridbn.learning.ensemble import Ensemble, calibrate_votes, stack
from hybridbn.learning.imputation.data_augmentation import Settings, fit_imputation
from hybridbn.learning.imputation.model import (
    Model,
    count_outside,
    integer_ranges,
    leave_out,
    read_rows,
    remark_on_outside,
)
from hybridbn.network import Network
from hybridbn.options import ImputationOptions, Marks, Options, Strategy, check_choice, check_level
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import take_logs
from hybridbn.structures.automatic import calibrate_intervals, select_usable, widen_level
from hybridbn.structures.building import Structure
from hybridbn.tables import Rows, Table
from hybridbn.tables.columns import Frame
from hybridbn.tables.scales import describe_cells, is_constant
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

_CALIBRATION_FOLDS = 3
"""The number of folds in which the scores of boosting are held out."""


@dataclass(eq=False, repr=False, kw_only=True)
class HybridClassifier(ClassifierMixin, HybridEstimator):
    """A Bayesian network as a classifier: any structure, any families, text and numbers, holes where they are.

    Frames of pandas, polars and pyarrow are read as they are: text, categories and truth values are discrete, numbers
    are continuous, None and NaN are missing. The columns of an array are called x0, x1, ...

    Parameters
    ----------
    builder : callable, name, Network, directed graph, list of arcs, or "auto"
        "auto", the default, is `hybridbn.stack`, of which a partial may be given, too, such as
        ``partial(hybridbn.stack, effort=2)``: a few networks, such as a random forest and a logistic regression, chosen
        and weighted by how well they predict held-out rows of the data. It is what usually predicts best, with
        calibrated probabilities, and takes one to six times as long as a random forest of 200 trees of scikit-learn.
        `hybridbn.structures.automatic` chooses a single network, and is what a scan gets.

        A builder of `hybridbn.structures`, its name or a partial of one, such as ``partial(kdb, k=1)``, or any function
        of a `Table`, the target's name and ``potentials=`` that returns a `Network`, learns that network. Of a Network,
        graph or list of arcs the structure is kept and the potentials are learned; a Network's nodes keep their
        variables, and their families where `potentials` leaves that open. "naive_bayes" takes the least time.
    potentials : "auto", "mte", "kernel", "gaussian", "multinomial", a Fitter, or a mapping from columns to these
        See `hybridbn.fit`. "auto" leaves a partial of a builder its own choice.
    priors : sequence or mapping of float, optional
        Probabilities of the classes, in the order of `classes_` or by class, in the place of the learned ones. The
        target must not have parents.
    boost : int, optional
        Boost this many networks by AdaBoost.M1, see `hybridbn.boost`, in the place of a single one; "auto" is naive
        Bayes then. Number columns are cut into intervals unless `potentials` says otherwise, and `priors` weigh the
        rows.
    calibrated : bool
        With `boost`, whether the votes are multiplied by what makes held-out rows most probable, as probabilities from
        many votes are too near to 0 and 1. That takes three more ensembles of two thirds of the rows, and changes no
        prediction. "auto" is calibrated anyway.
    discrete, continuous, ordered : str or iterable of str
        Columns that are something else than their types say, such as integer codes for categories; see `Table`.
    target : str, optional
        What y is called in the network. By default the node of a given structure that is no column of X, else the name
        of y if it has one, else "y" (with underscores while a column of X is called so).
    handle_unknown : {"missing", "error"}
        What to do with a category that was not seen in `fit`: treat the cell as missing, with a warning, or refuse it.
    missing : {"available", "em"}, or values that mark missing cells, such as {"sex": [9]}
        How holes of the features in `fit` are treated: each family is learned from the rows in which it is observed, or
        the arcs are found so and the parameters by expectation maximization. In prediction, missing cells are
        marginalized exactly. Marks count as missing in `fit` (as with "available") and in prediction.
    tolerance, max_bytes, n_jobs
        As in `Network.posterior`; the threads share passes over the rows in `fit`, too.

    Attributes
    ----------
    classes_ : ndarray
        The classes in sorted order.
    network_ : Network
        Saves, explains, samples, plots: see there. With `boost` or "auto" it is the first of the ensemble.
    ensemble_ : Ensemble
        Only with `boost` or "auto".
    target_name_ : str
        The target's node in `network_`.
    constant_features_ : ndarray of str
        Columns of numbers with a single value, which are left out of the network with a warning.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X has column names that are all text.

    Notes
    -----
    Rows of weight zero count as if they were not there; a row of weight 2 counts as two rows. A missing cell is
    marginalized in prediction, and in `fit` left out of what is learned about its column. Rows without a class are
    refused. `partial_fit` exists without `boost` only, for "naive_bayes" and "auto", and learns naive Bayes in either
    case: its structure doesn't depend on the data, so statistics add up. After `fit` it goes on with naive Bayes only,
    unless the families need the rows themselves (MTEs, kernels) and these take more than 1 MiB. With a single class
    other builders have nothing to find, and `network_` holds the target alone. With a given structure `classes_` are
    the states of its target where it has some.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({
    ...     "wind": ["weak", "strong", "strong", None, "weak", "strong"],
    ...     "heat": [21.0, 25.5, None, 18.0, 30.5, 19.0],
    ... })
    >>> y = pd.Series(["yes", "no", "no", "yes", "yes", "no"], name="play")
    >>> model = HybridClassifier("naive_bayes", potentials="gaussian").fit(X, y)
    >>> model.classes_, list(model.network_.edges)
    (array(['no', 'yes'], dtype=object), [('play', 'wind'), ('play', 'heat')])
    >>> model.predict(pd.DataFrame({"wind": ["strong", None], "heat": [None, 29.0]}))
    array(['no', 'yes'], dtype=object)
    """

    priors: Sequence[float] | Mapping[Any, float] | None = None
    boost: int | None = None
    calibrated: bool = True

    @gather_remarks()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the network from features and classes.

        Parameters
        ----------
        X : DataFrame or array (rows, columns), or Scan
        y : sequence of str, int or bool (rows,)
            Of a scan the name of its column.
        sample_weight : sequence of float (rows,), optional
            Of a scan the name of its column.
        """
        with use_jobs(self.n_jobs):
            if isinstance(X, Rows) and isinstance(y, str):
                if self.boost is not None:
                    raise TableError("boost is not for a scan here; use hybridbn.boost, which takes a pass a round")
                network, stream = self._learn_rows(X.declare(**self._columns), y, sample_weight, Discrete)
                self.classes_: NDArray[Any] = np.array(_require_discrete(network.variable(y)).states)
                return self._keep(self._with_priors(network), stream)
            features, labels, weights = self._opened(X, y, check_classes, sample_weight, reset=True)
            classes, codes = np.unique(labels, return_inverse=True)
            table = add_class_column(self._table(features, weights), self.target_name_, codes, classes)
            # that of an earlier call
            vars(self).pop("ensemble_", None)
            if len(classes) > 1 and (self.boost is not None or self._stacks()):
                if self._maximizes_expectations and any(table.missing.values()):
                    raise NetworkError(
                        "missing='em' learns the parameters of a single network, and boost= and builder='auto' learn"
                        " several; say missing='available', or choose a builder such as hybridbn.structures.tan"
                    )
                self.ensemble_: Ensemble = self._stacked(table) if self.boost is None else self._boosted(table)
                self.classes_ = np.unique(_like(labels, self.ensemble_.variable.states))
                return self._keep(self.ensemble_.networks[0], None)
            network, stream = self._network_of(table, classes)
            states = _require_discrete(network.variable(self.target_name_)).states
            # a given structure may know of classes that no row has
            self.classes_ = classes if len(states) == len(classes) else np.unique(_like(labels, states))
            return self._keep(self._with_priors(network), stream)

    @available_if(HybridEstimator._streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn naive Bayes from more rows; all batches together give what ``HybridClassifier("naive_bayes").fit``
        gives from all rows at once.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
        classes : sequence
            All classes that may ever come. The first call needs them.

        Notes
        -----
        The first rows fix each column's type, the states of discrete columns (declare more of them by a category type)
        and cut points where number columns are to be discretized. Later categories are handled as in prediction.
        """
        first = self._is_first_batch()
        if not hasattr(self, "classes_") and classes is None:
            raise TableError("classes must be passed on the first call to partial_fit")
        features, labels, weights = self._opened(X, y, check_classes, sample_weight, reset=first)
        known = np.asarray(unique_labels(classes) if first else self.classes_)
        if not first and classes is not None and not np.array_equal(unique_labels(classes), known):
            raise TableError(f"classes={classes!r:.80} are not those of the first call, {shorten(known.tolist())}")
        strange = ~np.isin(labels, known)
        if strange.any():
            row = int(np.argmax(strange))
            raise TableError(
                f"y, row {row}: {labels.tolist()[row]!r} is not among the classes {shorten(known.tolist())}"
            )
        add_classes = partial(
            add_class_column, name=self.target_name_, codes=np.searchsorted(known, labels), classes=known
        )
        stream = self._add_batch(features, weights, add_classes, first=first)
        self.classes_ = known
        return self._keep(self._with_priors(stream.network()), stream)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        probabilities = self.predict_proba(X)  # first: it tells what is not fitted
        return np.asarray(self.classes_[np.argmax(probabilities, axis=1)])

    def predict_proba(self, X: Any) -> Values:
        """Return the probabilities of the classes (rows, classes), in the order of `classes_`."""
        return self._probabilities(self._posterior(X))

    def predict_log_proba(self, X: Any) -> Values:
        """Return the logarithms of the probabilities of the classes; -inf where one is zero."""
        return take_logs(self.predict_proba(X))

    def predict_distribution(self, X: Any) -> DiscretePosterior:
        """Return the posterior of the class: probabilities, entropy, mode, samples of all rows."""
        posterior: DiscretePosterior = self._posterior(X)
        return posterior

    def _known_variables(self) -> dict[str, Variable]:
        """Return the variables of all stacked networks; one that cuts a number into intervals reads the number."""
        known = super()._known_variables()
        if hasattr(self, "ensemble_") and self.ensemble_.algorithm == "pool":
            for variable in (variable for network in self.ensemble_.networks for variable in network.variables):
                if isinstance(known.setdefault(variable.name, variable), Discrete):
                    known[variable.name] = variable
        return known

    def _stacks(self) -> bool:
        function = self.builder
        while isinstance(function, partial):
            function = function.func
        return self._is_automatic() or function is stack

    def _stacked(self, table: Any) -> Ensemble:
        table, _, potentials = self._prepare(table)
        learn: Any = stack if self._is_automatic() else self.builder
        options = {} if potentials is None else {"potentials": potentials}
        ensemble: Ensemble = learn(table, self.target_name_, **options)
        if self.priors is None:
            return ensemble
        states = list(ensemble.variable.states)
        sums = np.bincount(table.column(self.target_name_), table.weights, len(states))
        factors = read_priors(self.priors, states) / np.where(sums > 0, sums, 1.0)
        *networks, last = ensemble.networks
        posterior = last.posterior(self.target_name_)
        assert isinstance(posterior, DiscretePosterior)
        shifted = Multinomial(ensemble.variable, table=factors * posterior.probabilities, normalize=True)
        return Ensemble([*networks, Network([shifted])], ensemble.votes, ensemble.target, ensemble.algorithm)

    def _boosted(self, table: Any) -> Ensemble:
        table, build, potentials = self._prepare(table)
        states = _require_discrete(table.variable(self.target_name_)).states
        learn = partial(
            boost,
            target=self.target_name_,
            rounds=self.boost,  # type: ignore[arg-type]  # boost() refuses what is no number
            priors=self.priors,
            options=self._options,
        )
        ensemble = learn(table, build=build, potentials=potentials)
        dealt = deal_table(table, _CALIBRATION_FOLDS, np.random.default_rng(0), table.column(self.target_name_))
        table = dealt.take(table)
        codes = table.column(self.target_name_)
        if not self.calibrated or np.bincount(codes, minlength=len(states)).min() < _CALIBRATION_FOLDS:
            return ensemble
        scores = np.empty((len(table), len(states)))
        features = table.drop([self.target_name_])
        with warnings.catch_warnings(action="ignore"):  # those of all rows have been said
            for rows, test in split_folds(dealt.parts):
                training, own = select_usable(table.take(rows), self.target_name_, build)
                families = (
                    {name: potentials[name] for name in training.names if name in potentials}
                    if isinstance(potentials, Mapping)
                    else potentials
                )
                part_of_all = learn(training, build=own, potentials=families)
                scores[test] = part_of_all.scores(features.take(test), options=replace(self._options, impossible="nan"))
        return calibrate_votes(ensemble, scores, codes, table.weights)

    def _probabilities(self, posterior: DiscretePosterior) -> Values:
        states = posterior.states
        if len(states) < 2 or list(states) == self.classes_.tolist():
            return posterior.probabilities
        place = {state: code for code, state in enumerate(states)}
        return posterior.probabilities[:, [place[state] for state in self.classes_.tolist()]]

    def _network_of(self, table: Table, classes: NDArray[Any]) -> tuple[Network, Stream | None]:
        if len(classes) > 1 or self._learns_naive_bayes() or self._build().structure is not None:
            return self._learn(table)
        # nothing can be told apart, and builders would warn of it
        self.constant_features_: NDArray[Any] = np.array([], dtype=object)
        return Network([MultinomialFitter().fit(table, table.variable(self.target_name_))]), None

    def _with_priors(self, network: Network) -> Network:
        if self.priors is None:
            return network
        classes = self.classes_.tolist()
        array = read_priors(self.priors, classes)
        if any(network.predecessors(self.target_name_)):
            parents = shorten(network.predecessors(self.target_name_))
            raise NetworkError(
                f"priors can't be set: {self.target_name_!r} has the parents {parents}; leave priors out, or choose a"
                " structure in which the target has none"
            )
        variable = _require_discrete(network.variable(self.target_name_))
        place = {label: position for position, label in enumerate(classes)}
        changed: Network = network.copy()
        changed.add(Multinomial(variable, table=array[[place[state] for state in variable.states]], normalize=True))
        return changed


@dataclass(eq=False, repr=False, kw_only=True)
class HybridRegressor(RegressorMixin, HybridEstimator):
    """A Bayesian network as a regressor that tells the whole distribution of the target: any structure, any families.

    Frames of pandas, polars and pyarrow are read as they are: text, categories and truth values are discrete, numbers
    are continuous, None and NaN are missing. The columns of an array are called x0, x1, ...

    Parameters
    ----------
    builder, potentials, discrete, continuous, target, handle_unknown, missing, tolerance, max_bytes, n_jobs
        As in `HybridClassifier`. The target itself can't be discretized.
    point : {"mean", "median"}
        What `predict` returns: the mean has the least squared error, the median the least absolute one.
    intervals : {"conformal", "posterior"}
        What `predict_interval` returns. The network's own intervals hold less than they promise where few rows were
        there to choose it, or where its families don't fit. So by default networks are learned without some of the
        rows, and the intervals are made as wide as those of held-out rows had to be (cross-conformal prediction): 90 %
        intervals then hold about 90 % of new rows, whatever the builder. That takes five more fits, when intervals are
        asked for or the estimator is pickled (the training rows are kept until then); fewer from 2,500 rows on, and
        none with "auto", which has held out rows anyway. "posterior" saves them.

    Attributes
    ----------
    network_, target_name_, constant_features_, n_features_in_, feature_names_in_
        As in `HybridClassifier`.
    calibration_ : list of float
        The probabilities of the least central intervals that hold held-out rows, ascending; empty with
        ``intervals="posterior"``, after `partial_fit`, and where there are fewer than ten rows.

    Notes
    -----
    As in `HybridClassifier`, but that "auto" is `hybridbn.structures.automatic`: it compares model trees and linear
    regressions on held-out rows, and learns what predicts best. `predict_distribution` and `predict_quantile` are those
    of the network. A target that is the same in all rows is refused.

    Examples
    --------
    >>> import pandas as pd
    >>> X = pd.DataFrame({"kind": ["flat", "flat", "house", "house", None], "size": [50.0, 70.0, 90.0, 140.0, None]})
    >>> y = pd.Series([100.0, 150.0, 210.0, 290.0, 180.0], name="price")
    >>> model = HybridRegressor("naive_bayes", potentials="gaussian").fit(X, y)
    >>> new = pd.DataFrame({"kind": ["house", None], "size": [None, 60.0]})
    >>> model.predict(new).round(1)
    array([209.6, 130.2])
    >>> model.predict_interval(new, level=0.5).round(1)
    array([[169.9, 249.1],
           [123.1, 137.2]])
    """

    point: Literal["mean", "median"] = "mean"
    intervals: Literal["conformal", "posterior"] = "conformal"

    @gather_remarks()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the network from features and targets.

        Parameters
        ----------
        X : DataFrame or array (rows, columns), or Scan
        y : sequence of float, date, time or text of an amount (rows,)
            Of a scan the name of its column.
        sample_weight : sequence of float (rows,), optional
            Of a scan the name of its column.
        """
        with use_jobs(self.n_jobs):
            self._check_choices()
            self._levels: list[float] | None = []
            is_column = isinstance(X, Rows) and isinstance(y, str)
            self._unit = getattr(X.variable(y), "unit", None) if is_column else find_target_unit(y)
            self._training: Table | None = None
            if isinstance(X, Rows) and isinstance(y, str):
                X = X.declare(**self._columns)
                network, stream = self._learn_rows(X, y, sample_weight, Continuous)
                rows = X if sample_weight is None else X.with_weights(sample_weight)
                return self._keep_calibrated(network, rows.sample().keep_rows(rows.variable(y)), stream)
            read_targets = partial(check_number_targets, unit=self._unit)
            features, values, weights = self._opened(X, y, read_targets, sample_weight, reset=True)
            self._refuse_constant(values)
            table = self._with_target(self._table(features, weights), values)
            marks = describe_cells(table.marks(self.target_name_))
            remark(target=marks and f"y: {marks}; if they do, leave these rows out")
            network, stream = self._learn(table)
            return self._keep_calibrated(network, table, stream)

    def _keep_calibrated(self, network: Network, table: Table, stream: Stream | None) -> Self:
        # other builders than "auto" hold out rows when intervals are asked for
        levels = network.graph.get("calibration") if self.intervals == "conformal" else []
        self._levels = None if levels is None else list(levels)
        self._training = table if levels is None else None
        return self._keep(self._checked(network), stream)

    @available_if(HybridEstimator._streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn naive Bayes from more rows; all batches together give what ``HybridRegressor("naive_bayes").fit``
        gives from all rows at once.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`
            The first rows must have two different targets at least.

        Notes
        -----
        The first rows fix each column's type, the states of discrete columns (declare more of them by a category type)
        and cut points where number columns are to be discretized. Later categories are handled as in prediction.
        """
        self._check_choices()
        first = self._is_first_batch()
        self._unit = find_target_unit(y) if first else self._unit
        read_targets = partial(check_number_targets, unit=self._unit)
        features, values, weights = self._opened(X, y, read_targets, sample_weight, reset=first)
        if first:
            self._refuse_constant(values)
        stream = self._add_batch(features, weights, partial(self._with_target, values=values), first=first)
        # earlier rows are not there any more to be held out
        self._levels, self._training = [], None
        return self._keep(self._checked(stream.network()), stream)

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> Values: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[Values, Values]: ...

    def predict(self, X: Any, return_std: bool = False) -> Values | tuple[Values, Values]:
        """Return the mean or the median of the target for each row, as `point` says; dates where targets are.

        Parameters
        ----------
        X : DataFrame or array (rows, columns)
        return_std : bool
            Return the standard deviations of the target as well, which are what the other columns leave open.
        """
        posterior = self._posterior(X)
        points = self._choose_points(posterior)
        return (points, np.asarray(posterior.std())) if return_std else points

    def _choose_points(self, posterior: ContinuousPosterior) -> NDArray[Any]:
        return np.asarray(posterior.mean() if self.point == "mean" else posterior.median())

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination of the predictions."""
        predicted = self._choose_points(self._posterior(X).numeric)
        return float(r2_score(check_number_targets(y, self._unit), predicted, sample_weight=sample_weight))

    def predict_quantile(self, X: Any, q: ArrayLike) -> Values:
        """Return the value below which the target is with probability q: (rows,), or (rows, levels) for several
        levels.
        """
        return np.asarray(self._posterior(X).quantile(q))

    def predict_interval(self, X: Any, level: float = 0.9) -> Values:
        """Return the ends (rows, 2) of the central interval that holds the target with this probability.

        By default it is as wide as it had to be to hold this share of held-out rows, see `intervals`.
        """
        check_level(level)
        return np.asarray(self._posterior(X).interval(widen_level(self.calibration_, level)))

    def predict_distribution(self, X: Any) -> ContinuousPosterior:
        """Return the posterior of the target: density, cdf, moments, quantiles, samples of all rows."""
        posterior: ContinuousPosterior = self._posterior(X)
        return posterior

    def predict_log_density(self, X: Any, y: Any) -> Values:
        """Return the log density of the prediction at each row's true target; its mean is a score to compare by."""
        if self._options.beyond is not None:
            return np.asarray(self._posterior(X).log_score(check_number_targets(y, self._unit)))
        known: Any = self._evidence(X)
        both = self._with_target(known, check_number_targets(y, self._unit))
        ask = partial(self.network_.log_density, options=self._options)
        return np.asarray(ask(both) - ask(known))

    @property
    def calibration_(self) -> list[float]:
        """The probabilities of the least central intervals that hold held-out rows, ascending."""
        check_is_fitted(self, "network_")
        if self.intervals == "posterior":
            return []
        if self._levels is None:
            assert self._training is not None
            with warnings.catch_warnings(action="ignore"), use_jobs(self.n_jobs):
                table, build, potentials = self._prepare(self._training)
                self._levels = calibrate_intervals(
                    build, table, self.target_name_, "auto" if potentials is None else potentials
                )
            self._training = None
        return self._levels

    def __getstate__(self) -> Any:
        # what is saved holds no training rows
        if getattr(self, "_training", None) is not None:
            self._levels = self.calibration_ or []
            self._training = None
        return super().__getstate__()

    def _with_target(self, table: Table, values: Values) -> Table:
        return table.with_column(self.target_name_, values, Continuous(self.target_name_, unit=self._unit))

    def _refuse_constant(self, values: Values) -> None:
        if is_constant(float(values.min()), float(values.max())):
            rows = f"all {len(values)} samples that count" if len(values) > 1 else "the 1 sample that counts"
            raise TableError(
                f"y is {values[0]:g} in {rows}, so there is nothing to predict; give rows with different targets"
            )

    def _check_choices(self) -> None:
        check_choice(self.point, "point", ("mean", "median"))
        check_choice(self.intervals, "intervals", ("conformal", "posterior"))

    def _checked(self, network: Network) -> Network:
        if not isinstance(network.variable(self.target_name_), Continuous):
            raise NetworkError(
                f"the target {self.target_name_!r} was discretized or is declared discrete, so there is no number to"
                " predict; ask for another family for it: potentials={'column': 'multinomial', ...} for the other"
                " columns, or use HybridClassifier"
            )
        return network


def _require_discrete(variable: Variable) -> Discrete:
    if not isinstance(variable, Discrete):
        raise NetworkError(f"the target {variable.name!r} is declared continuous; use HybridRegressor for numbers")
    return variable


def _like(labels: NDArray[Any], states: Sequence[Any]) -> NDArray[Any]:
    """Return states as an array of the type that the labels have; text may be longer than theirs."""
    return np.array(states, dtype=None if labels.dtype.kind == "U" else labels.dtype)


@dataclass(eq=False, repr=False)
class Imputer(TransformerMixin, TableEstimator):
    """Completes tables of numbers and categories by a network that was learned from another, incomplete one.

    Parameters
    ----------
    strategy : {"draw", "most_probable", "mean"}
        As in `impute`. A draw of a row's missing cells depends on the row itself and on `random_state`, not on other
        rows, so that a transformed batch has the rows of its parts; rows with the very same cells get different draws,
        in their order.
    structure, target, potentials, discrete, continuous, ordered, missing, skip, include
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

    strategy: Strategy = "draw"
    _: KW_ONLY
    structure: Structure = "auto"
    missing: Marks = None
    skip: str | Iterable[str] = ()
    include: str | Iterable[str] = ()
    bounds: Mapping[str, Any] | str | None = None
    integers: str | Iterable[str] | None = None
    full_precision: bool = False
    donors: bool = True
    rules: bool = True
    indicators: bool = False
    rounds: int | None = None
    random_state: Any = None
    tolerance: float = 1e-6

    n_features_in_: int = field(init=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        # of the values, not of the number of columns; draws are the same for the same random_state
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @gather_remarks()
    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the network from an incomplete table; y is not used."""
        frame = self._open_frame(X, reset=True)
        table, unusable = read_usable_features(
            frame, discrete=self.discrete, continuous=self.continuous, ordered=self.ordered
        )
        settings = Settings(
            **{option.name: getattr(self, option.name) for option in fields(ImputationOptions)},
            options=Options(tolerance=self.tolerance, max_bytes=self.max_bytes),
        )
        fitted = fit_imputation(table, settings, integer_ranges(frame), unusable)
        model = fitted.model
        self.model_: Model = model
        model.columns.rules.tell()
        self._ranges = {name: table.value_range(name) for name in table.names if not table.is_discrete(name)}
        self._seed = fitted.seed
        self.network_: Network | None = None if model.completion is None else model.network
        self.history_: list[dict[str, Any]] = fitted.history
        self._indicated = tuple(
            n for n in frame.columns if n in model.columns.variables and table.cells(n).missing.any()
        )
        return self

    @gather_remarks()
    def transform(self, X: Any) -> Any:
        """Return a table of the same kind without holes.

        Columns that were left alone in `fit` (skipped ones and identifiers) keep theirs.
        """
        check_is_fitted(self, "model_")
        frame = self._open_frame(X, reset=False)
        rows = read_rows(frame, self.model_, self.handle_unknown)
        keys = hash_rows(rows.working) if rows.working.names else hash_identifiers(range(frame.rows), frame.rows)
        fills = self.model_.fill(rows, self.strategy, keys, self._seed)
        counts = count_outside([fills], self._ranges, usual=False)
        remark_on_outside(counts, self._ranges, self.model_.columns.variables)
        nowhere = np.zeros(frame.rows, dtype=bool)
        added = {f"{n}_imputed": rows.holes.get(n, nowhere) for n in self._indicated} if self.indicators else {}
        return self.model_.complete(rows, fills, added)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that `transform` returns."""
        check_is_fitted(self, "model_")
        names = _check_feature_names_in(self, input_features)
        added = [f"{name}_imputed" for name in self._indicated] if self.indicators else []
        return np.array([*names, *added], dtype=object)

    def _open_frame(self, X: Any, *, reset: bool) -> Frame:
        check_choice(self.strategy, "strategy", ("draw", "mean", "most_probable"))
        return leave_out(open_features(self._check_features(X, reset=reset)), self.skip).blank(self.missing)
