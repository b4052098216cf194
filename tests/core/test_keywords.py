"""Every keyword of what learns and answers has an effect: one value of it changes the result.

The keywords are those of the signatures, so a new one fails here until a value of it is entered. What must change
nothing, such as the number of threads, is entered, too, as `Same`.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn import options
from hybridbn.structures import Knowledge, tan
from hybridbn.structures.building import BUILDERS
from hybridbn.structures.heldout import log_loss, misclassification
from hybridbn.structures.scores import BDeu

ROWS = 80


def tangle(seed: int, rows: int, count: int) -> pd.DataFrame:
    """Return states of which each depends on up to three before it, so that a search is led astray."""
    rng = np.random.default_rng(seed)
    columns: list[Any] = []
    for number in range(count):
        parents = rng.permutation(number)[: min(number, 3)]
        if not len(parents):
            columns.append(rng.integers(0, 2, rows))
            continue
        configuration = sum(columns[parent] * 2**power for power, parent in enumerate(parents))
        chances = rng.beta(0.3, 0.3, 8)
        columns.append((rng.random(rows) < chances[configuration]).astype(int))
    return pd.DataFrame({f"b{number}": np.where(column, "u", "v") for number, column in enumerate(columns)})


@cache
def frame(kind: str = "whole") -> pd.DataFrame:
    """Return a table; the kinds differ in what can be learned from them."""
    if kind.startswith("tangled"):
        return tangle(*map(int, kind.split()[1:]))
    rng = np.random.default_rng(11)
    code = rng.integers(0, 3, ROWS)
    x = code + rng.normal(size=ROWS)
    d = np.where(rng.random(ROWS) < 0.25 + 0.5 * (x > 1), "u", "v")
    z = rng.gamma(2.0, size=ROWS) + 0.8 * x
    columns = {
        "c": np.array(["low", "mid", "top"], dtype=object)[code],
        "x": x.round(2),
        "z": z.round(2),
        "d": d.astype(object),
        "k": rng.integers(0, 3, ROWS).astype(float),
        "t": rng.integers(0, 3, ROWS).astype(str).astype(object),
        "y": (x + 2.0 * (d == "u") + 0.5 * z + rng.normal(size=ROWS)).round(2),
    }
    if kind == "pieces":  # different lines on the two sides of a number
        columns["y"] = np.where(x < 1, 3 * z, 9 - 2 * z) + 0.1 * rng.normal(size=ROWS)
    elif kind == "skewed":
        columns["z"] = np.exp(1.2 * x + 0.2 * rng.normal(size=ROWS)).round(3)
    elif kind == "identifiers":
        columns["t"] = np.array([f"{hash_like:04x}" for hash_like in rng.permutation(ROWS) * 7919], dtype=object)
    elif kind == "deviations":  # classes that differ in their deviations only
        columns = {"c": columns["c"]} | {name: rng.normal(size=ROWS) * (0.2 + 2.0 * code) for name in "xzy"}
    elif kind == "codes":
        columns |= {"z": np.rint(3.0 * x + 10.0), "d": d == "u"}
    if kind in ("holes", "skewed", "identifiers", "odd"):
        for name in ("c", "x", "z", "d", "y", "t"):
            missing = rng.random(ROWS) < 0.15
            columns[name] = np.where(missing, None if columns[name].dtype == object else np.nan, columns[name])
    if kind == "odd":
        columns["d"][5] = "never"
    return pd.DataFrame(columns)


WEIGHTS = np.random.default_rng(12).integers(1, 5, ROWS).astype(float)


@dataclass(frozen=True)
class Effect:
    """A value that changes the result, given other options, the kind of data, and a target."""

    value: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    data: str = "whole"
    target: str = ""
    columns: tuple[str, ...] = ()
    asked: bool = False
    """Whether an estimator is asked about rows with holes and a state that is new."""


KINDS = {
    "discrete": Effect("z", data="codes"),
    "continuous": Effect("d", data="codes"),
    "ordered": Effect("z", data="codes"),
}
COLUMNS = {**KINDS, "missing": Effect({"z": [10.0]}, data="codes")}
"""What is said of columns to whatever learns from a table."""

OPTIONS = ("tolerance", "max_bytes")
QUICK = {"naive_bayes", "Table", "HybridClassifier-boost-potentials", "HybridClassifier-boost-max_bytes", "fit-missing"}
QUICK.update(f"{kind}-alone-{keyword}" for kind in ("HybridClassifier", "HybridRegressor") for keyword in OPTIONS)
"""What is tried every day; the rest is slow."""


def make_case(name: str, keyword: str, effect: Effect, *values: Any, suffix: str = "") -> Any:
    """Return a case of a test, slow unless it is of what is tried every day."""
    label = f"{name}{suffix}-{keyword}"
    marks = [] if {name, label} & QUICK else [pytest.mark.slow]
    return pytest.param(*values, keyword, effect, id=label, marks=marks)


class Same(Effect):
    """A value that changes nothing."""


Entries = dict[str, Effect]


# -- what is compared ----------------------------------------------------------------------------------------------


def flatten(thing: Any) -> list[Any]:
    """Return what a result holds, as plain values."""
    if isinstance(thing, hb.Network):
        return [
            part
            for name in sorted(map(str, thing.nodes))
            for part in (
                name,
                repr(thing.variable(name)),
                type(thing.potential(name)).__name__,
                *thing.potential(name).scope,
                *flatten(thing.potential(name).to_dict()),
            )
        ]
    if isinstance(thing, hb.Ensemble):
        return [part for network in thing.networks for part in flatten(network)] + flatten(thing.votes)
    if isinstance(thing, pd.DataFrame):
        return [part for name in thing for part in (name, *thing[name].map(repr))]
    if isinstance(thing, Mapping):
        return [part for key, value in thing.items() for part in (key, *flatten(value))]
    if isinstance(thing, np.ndarray):
        return [thing.shape, *thing.reshape(-1).tolist()]
    if isinstance(thing, list | tuple):
        return [part for value in thing for part in flatten(value)]
    return [thing]


def same(one: list[Any], other: list[Any]) -> bool:
    """Tell whether two results are the same but for rounding."""
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if isinstance(a, float) and isinstance(b, float):
            if not (a == b or np.isclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)):
                return False
        elif repr(a) != repr(b):
            return False
    return True


def describe(function: Callable[..., Any], *arguments: Any, **options: Any) -> list[Any]:
    """Return the result of a call, with what it warns of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            return flatten(function(*arguments, **options)) + sorted({str(each.message) for each in told})
        except hb.HybridBNError as error:
            return [type(error).__name__, str(error)]


# -- builders ------------------------------------------------------------------------------------------------------


class NoTest:
    """A criterion of trees to which no test is worth while."""

    def best(self, view: Any, nodes: Any, tests: Any) -> list[None]:
        return [None] * len(nodes)


def reward(posterior: Any, truth: Any) -> Any:
    """Return the opposite of a loss, so that what is worse is chosen."""
    return -log_loss(posterior, truth)


GIVEN = {"potentials": "gaussian"}
KNOWN = Knowledge(required=[("d", "z")])
NUMBERS = ("x", "z", "y")
LEARNED: Entries = {
    "potentials": Effect("gaussian"),
    "weights": Effect(WEIGHTS, {"potentials": "gaussian"}),
    "n_jobs": Same(2, {"potentials": "gaussian"}),
    **{name: replace(effect, given=GIVEN) for name, effect in COLUMNS.items()},
}
SEARCH: Entries = {
    "knowledge": Effect(KNOWN, {"potentials": "gaussian"}),
    "max_parents": Effect(1, {"potentials": "gaussian"}),
    "score": Effect(BDeu(100.0), {"potentials": "multinomial"}, data="tangled 2 200 10"),
    "tabu": Effect(0, {"restarts": 0, "turns": 0}, data="tangled 2 200 10"),
    "turns": Effect(0, {"potentials": "gaussian", "restarts": 0, "tabu": 0}),
    "restarts": Effect(0, {"tabu": 0, "turns": 0}, data="tangled 2 200 10"),
    "random_state": Effect(1, {"tabu": 0, "turns": 0, "restarts": 1}, data="tangled 2 200 10"),
}
BUILDER_ENTRIES: dict[str, Entries] = {
    "automatic": {
        "candidates": Effect(["naive_bayes"], {"potentials": "gaussian"}),
        "loss": Effect(misclassification, {"potentials": "gaussian"}),
        "folds": Effect(2, {"potentials": "gaussian"}),
        "effort": Effect(2, target="b7", data="tangled 0 80 8"),
        "seconds": Effect(1e-9, {"candidates": [[("c", "t")], [("c", "x"), ("c", "z")]], **GIVEN}),
        "random_state": Effect(1),
    },
    "chow_liu": {
        "root": Effect("z"),
        "threshold": Effect(0.5, {"potentials": "gaussian"}),
        "knowledge": Effect(KNOWN, {"potentials": "gaussian"}),
    },
    "class_clusters": {
        "build": Effect(tan, {"potentials": "gaussian"}),
        "clusters": Effect(3, {"potentials": "gaussian", "clusters": 2, "guard": False}),
        "assignment": Effect("hard", {"potentials": "gaussian", "clusters": 2, "guard": False}),
        "guard": Effect(False, {"potentials": "gaussian", "clusters": 3}),
        "loss": Effect(reward, {"potentials": "gaussian", "clusters": 3}),
        "name": Effect("group", {"potentials": "gaussian", "clusters": 2, "guard": False}),
        "criterion": Effect("bic", {"potentials": "gaussian", "guard": False}),
        "most": Effect(1, {"potentials": "gaussian", "guard": False}),
        "folds": Effect(2, {"potentials": "gaussian", "guard": False}),
        "random_state": Effect(1, {"potentials": "gaussian", "clusters": 2, "guard": False}),
    },
    "discriminant": {"potentials": Effect("multinomial"), "random_state": Effect(1, {"potentials": "gaussian"})},
    "hill_climb": {
        **SEARCH,
        "start": Effect([("b0", "b6")], {"tabu": 0, "turns": 0, "restarts": 0}, data="tangled 2 200 10"),
        "required": Effect([("d", "z")], {"potentials": "gaussian"}),
        "forbidden": Effect([("x", "y"), ("y", "x")], {"potentials": "gaussian"}),
        "missing": Effect("available", {"potentials": "gaussian"}, data="holes"),
    },
    "kdb": {"k": Effect(1, {"potentials": "gaussian"}), "threshold": Effect(0.5, {"potentials": "gaussian"})},
    "logistic": {
        "potentials": Effect("multinomial"),
        "correlated": Effect(True, GIVEN),
        "random_state": Effect(1, GIVEN),
    },
    "max_min_hill_climb": {
        **{key: replace(effect, given={**effect.given, "alpha": 0.3}) for key, effect in SEARCH.items()},
        "alpha": Effect(1e-6, {"potentials": "gaussian"}),
        "max_condition": Effect(0, {"potentials": "gaussian", "alpha": 0.3}),
    },
    "mixture": {
        "components": Effect(2),
        "potentials": Effect("kernel", {"components": 2}),
        "name": Effect("group", {"components": 2}),
        "covariance": Effect("full", {"components": 2}),
        "kernels": Effect(True, {"components": 2}),
        "criterion": Effect("bic"),
        "most": Effect(1),
        "starts": Effect(1, {"components": 5}),
        "folds": Effect(2),
        "random_state": Effect(1, {"components": 5}),
    },
    "model_tree": {
        "potentials": Effect("multinomial", data="pieces"),
        "trees": Effect(2),
        "max_depth": Effect(0, data="pieces"),
        "tested": Effect(0, data="pieces"),
        "name": Effect("leaf", data="pieces"),
        "random_state": Effect(1, {"trees": 2}),
    },
    "naive_bayes": {},
    "nb_tree": {
        "max_depth": Effect(0, {"potentials": "gaussian", "least": 5.0}),
        "criterion": Effect(NoTest(), {"potentials": "gaussian", "least": 5.0}),
        "least": Effect(5.0, {"potentials": "gaussian"}),
        "least_branch": Effect(20.0, {"potentials": "gaussian", "least": 5.0}),
        "binary": Effect(True, {"potentials": "gaussian", "least": 5.0}),
        "name": Effect("branch", {"potentials": "gaussian", "least": 5.0}),
    },
    "pc_stable": {
        "alpha": Effect(1e-6, {"potentials": "gaussian"}),
        "max_condition": Effect(0, {"potentials": "gaussian"}),
        "knowledge": Effect(KNOWN, {"potentials": "gaussian"}),
    },
    "random_forest": {
        "trees": Effect(3, {"trees": 2}),
        "name": Effect("leaf", {"trees": 2}),
        "random_state": Effect(1, {"trees": 2}),
        "weights": Effect(WEIGHTS, {"trees": 2}),
        "potentials": Effect("multinomial", {"trees": 2}),
    },
    "regression": {"potentials": Effect("multinomial")},
    "selective_naive_bayes": {
        "missing": Effect({"c": ["top"]}, GIVEN),
        "continuous": Effect("d", GIVEN, target="d", data="codes"),
        "ordered": Effect("z", data="codes"),
        "loss": Effect(reward, GIVEN),
        "folds": Effect(2, target="b9", data="tangled 2 200 10"),
        "random_state": Effect(1, target="b9", data="tangled 2 200 10"),
    },
    "tan": {
        "root": Effect("z", {"potentials": "gaussian"}),
        "threshold": Effect(0.5, {"potentials": "gaussian"}),
        "knowledge": Effect(KNOWN, {"potentials": "gaussian"}),
    },
}


def list_keywords(function: Any) -> set[str]:
    """Return what a signature has a default for, and the keys of a TypedDict behind ``**keywords``."""
    names = set()
    for parameter in inspect.signature(function).parameters.values():
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if unpacked:
            names |= set((vars(options) | vars(sys.modules[function.__module__]))[unpacked[1]].__annotations__)
        elif parameter.default is not parameter.empty:
            names.add(parameter.name)
    return names


def entries_of(name: str) -> Entries:
    own = {key: LEARNED[key] for key in LEARNED if key in list_keywords(BUILDERS[name])}
    return own | BUILDER_ENTRIES.get(name, {})


def build(builder: str, goal: str, table: pd.DataFrame, **options: Any) -> Any:
    function = BUILDERS[builder]
    return (
        function(table, goal, **options)
        if "target" in inspect.signature(function).parameters
        else function(table, **options)
    )


TARGETS = {"regression": "y", "model_tree": "y"}


def list_cases() -> list[Any]:
    return [
        make_case(name, keyword, effect, name)
        for name in sorted(BUILDERS)
        for keyword, effect in entries_of(name).items()
    ]


@pytest.mark.parametrize(("name", "keyword", "effect"), list_cases())
def test_keywords_of_builders(name: str, keyword: str, effect: Effect) -> None:
    table = frame(effect.data)
    run = partial(describe, build, name, effect.target or TARGETS.get(name, "c"), table)
    plain = run(**effect.given)
    assert same(plain, run(**{**effect.given, keyword: effect.value})) == isinstance(effect, Same)


def test_every_keyword_of_builders_is_entered() -> None:
    for name, function in BUILDERS.items():
        if function.__module__.startswith("hybridbn."):
            assert list_keywords(function) == set(entries_of(name)), name


# -- functions -----------------------------------------------------------------------------------------------------

REQUIRED = {"build"}
"""What has no default, and an entry nevertheless."""
ARCS = [("c", "x"), ("x", "z"), ("c", "d")]


def start_network() -> hb.Network:
    return hb.fit(ARCS, frame(), "gaussian").do()


def run_fit(table: pd.DataFrame, **options: Any) -> Any:
    return hb.fit(ARCS, table, **options)


def run_em(table: pd.DataFrame, **options: Any) -> Any:
    return hb.expectation_maximization(ARCS, table, **options).network


def run_boost(table: pd.DataFrame, goal: str = "c", **options: Any) -> Any:
    return hb.boost(table, goal, **{"rounds": 3, "potentials": "gaussian", **options})


def run_augment(table: pd.DataFrame, **options: Any) -> Any:
    augmented = hb.augment(table, "y", **{"potentials": "gaussian", "max_iterations": 2, **options})
    return [augmented.network, augmented.completed]


def run_bootstrap(table: pd.DataFrame, **options: Any) -> Any:
    options = {"build": "chow_liu", "replicates": 4, "potentials": "gaussian", **options}
    learned = hb.bootstrap(data=table, **options)
    return [learned.orientation, learned.network()]


def run_stack(table: pd.DataFrame, goal: str = "c", **options: Any) -> Any:
    return hb.stack(table, goal, **{"potentials": "gaussian", "candidates": ["naive_bayes", "tan"], **options})


def run_impute(table: pd.DataFrame, **options: Any) -> Any:
    completed = hb.impute(table, **{"random_state": 0, **options})
    return ["details", completed.tables] if isinstance(completed, hb.learning.Imputation) else completed


FUNCTIONS: dict[str, tuple[Callable[..., Any], Any, Entries]] = {
    "fit": (
        run_fit,
        hb.fit,
        {
            **LEARNED,
            "missing": Effect("em", GIVEN, data="holes"),
            "n_jobs": Same(2, {**GIVEN, "missing": "em"}, data="holes"),
        },
    ),
    "expectation_maximization": (
        run_em,
        hb.expectation_maximization,
        {
            "potentials": Effect("multinomial", {**GIVEN, "max_iterations": 2}, data="holes"),
            "weights": Effect(WEIGHTS, GIVEN, data="holes"),
            "start": Effect(start_network, {**GIVEN, "max_iterations": 1}, data="holes"),
            "tolerance": Effect(1.0, GIVEN, data="holes"),
            "max_iterations": Effect(1, GIVEN, data="holes"),
            "draws": Effect(3, {"potentials": "mte", "max_iterations": 1}, data="holes"),
            **{name: replace(effect, given=GIVEN) for name, effect in COLUMNS.items()},
            "random_state": Effect(1, {"potentials": "mte", "max_iterations": 1, "draws": 2}, data="holes"),
            "options": Same(hb.Options(n_jobs=2), GIVEN, data="holes"),
        },
    ),
    "boost": (
        run_boost,
        hb.boost,
        {
            **COLUMNS,
            "build": Effect("tan"),
            "rounds": Effect(1),
            "algorithm": Effect("real"),
            "potentials": Effect("multinomial"),
            "weights": Effect(WEIGHTS),
            "priors": Effect([0.6, 0.3, 0.1]),
            "refit_cuts": Effect(True, {"potentials": "multinomial"}),
            "validation": Effect(0.3, {"rounds": 6}),
            "patience": Effect(
                1,
                {"validation": 0.3, "rounds": 40, "goal": "b9", "potentials": "multinomial"},
                data="tangled 3 200 10",
            ),
            "max_restarts": Effect(0, {"rounds": 60}),
            "progress": Same(lambda _: None),
            "random_state": Effect(1, {"validation": 0.3}),
            "options": Same(hb.Options(n_jobs=2)),
            "tolerance": Same(1e-8),
            "max_bytes": Same(2.0**30),
            "n_jobs": Same(2),
            "beyond": Same("slice"),
            "seconds": Same(60.0),
        },
    ),
    "augment": (
        run_augment,
        hb.augment,
        {
            **COLUMNS,
            "build": Effect([("x", "y"), ("z", "y")], data="holes"),
            "potentials": Effect("mte", data="holes"),
            "weights": Effect(WEIGHTS, data="holes"),
            "response": Effect("simulation", {"random_state": 0}, data="holes"),
            "joint": Effect(True, {"random_state": 0}, data="holes"),
            "patience": Effect(3, {"max_iterations": 9, "response": "simulation", "random_state": 2}, data="holes"),
            "max_iterations": Effect(1, data="holes"),
            "random_state": Effect(1, {"response": "simulation"}, data="holes"),
            "options": Same(hb.Options(n_jobs=2), {"random_state": 0}, data="holes"),
            "tolerance": Effect(0.1, {"random_state": 0}, data="holes"),
            "max_bytes": Same(2.0**30, {"random_state": 0}, data="holes"),
            "n_jobs": Same(2, {"random_state": 0}, data="holes"),
            "beyond": Same("slice", {"random_state": 0}, data="holes"),
            "seconds": Same(60.0, {"random_state": 0}, data="holes"),
        },
    ),
    "bootstrap": (
        run_bootstrap,
        hb.bootstrap,
        {
            **COLUMNS,
            "build": Effect("pc_stable"),
            "replicates": Effect(5),
            "random_state": Effect(1),
            "target": Effect("c", {"build": "tan"}),
            "potentials": Effect("multinomial"),
            "weights": Effect(WEIGHTS),
            "executor": Same(ThreadPoolExecutor(2)),
        },
    ),
    "stack": (
        run_stack,
        hb.stack,
        {
            **COLUMNS,
            "potentials": Effect("multinomial"),
            "weights": Effect(WEIGHTS),
            "candidates": Effect(["naive_bayes"]),
            "folds": Effect(2),
            "effort": Effect(2, {"candidates": None, "goal": "b7", "potentials": "auto"}, data="tangled 0 80 8"),
            "seconds": Effect(1e-9),
            "random_state": Effect(1),
        },
    ),
    "impute": (
        run_impute,
        hb.impute,
        {
            "draws": Effect(2, data="holes"),
            "strategy": Effect("mean", data="holes"),
            "network": Effect(start_network, data="holes", columns=("c", "x", "z", "d")),
            "structure": Effect("naive_bayes", data="holes"),
            "target": Effect("d", {"structure": "naive_bayes"}, data="holes"),
            "discrete": Effect("k", data="holes"),
            "continuous": Effect("t", data="holes"),
            "ordered": Effect("z", {"potentials": "mte"}, data="holes"),
            "missing": Effect({"k": [0.0]}, data="holes"),
            "skip": Effect("x", data="holes"),
            "indicators": Effect(True, data="holes"),
            "details": Effect(True, {"draws": 2}, data="holes"),
            "keys": Effect(range(100, 100 + ROWS), data="holes"),
            "unknown": Effect("missing", {"network": start_network}, data="odd", columns=("c", "x", "z", "d")),
            "options": Effect(hb.Options(max_bytes=1), data="holes"),
            "potentials": Effect("mte", data="holes"),
            "include": Effect("t", data="identifiers"),
            "bounds": Effect({"x": (0.5, 0.6)}, data="holes"),
            "integers": Effect("x", data="holes"),
            "full_precision": Effect(True, data="holes"),
            "donors": Effect(False, data="skewed"),
            "rules": Effect(False, data="holes"),
            "rounds": Effect(1, data="holes"),
            "random_state": Effect(1, data="holes"),
            "tolerance": Same(1e-7, data="holes"),
            "max_bytes": Same(2.0**30, data="holes"),
            "n_jobs": Same(2, data="holes"),
            "beyond": Same("slice", data="holes"),
            "seconds": Same(60.0, data="holes"),
        },
    ),
}


def made(value: Any) -> Any:
    """Return a value that is made when it is needed."""
    return value() if value is start_network else value


def run_effect(function: Callable[..., Any], effect: Effect, keyword: str) -> bool:
    """Tell whether the result is the same with a keyword and without."""
    table = frame(effect.data)
    table = table[list(effect.columns)] if effect.columns else table
    given = {name: made(value) for name, value in effect.given.items()}
    plain = describe(function, table, **given)
    return same(plain, describe(function, table, **{**given, keyword: made(effect.value)}))


# -- estimators ----------------------------------------------------------------------------------------------------


def predict(kind: Any, goal: str, table: pd.DataFrame, *, asked: bool = False, **options: Any) -> Any:
    """Return what an estimator learned, and what it says of the rows; some have holes, and an unknown state."""
    options = {"builder": "naive_bayes", "potentials": "gaussian", **options}
    attributes, truth = table.drop(columns=goal), frame()[goal]
    model = kind(**options).fit(attributes, truth)
    if asked:
        odd = np.arange(ROWS) % 7 == 2
        attributes = attributes.assign(x=attributes["x"].mask(odd), d=np.where(odd, "never", attributes["d"]))
    told = model.predict_interval(attributes) if kind is hb.HybridRegressor else model.predict_proba(attributes)
    networks = model.ensemble_.networks if hasattr(model, "ensemble_") else [model.network_]
    return [*networks, model.predict(attributes), told]


LINES = [("c", "x"), ("x", "z"), ("c", "d"), ("x", "y")]
SHARED: Entries = {
    "builder": Effect("tan"),
    "potentials": Effect("multinomial"),
    **KINDS,
    "target": Effect("class"),
    "handle_unknown": Effect("error", asked=True),
    "missing": Effect("em", {"builder": LINES}, data="holes"),
    "tolerance": Effect(-1.0),
    "max_bytes": Effect(1.0),
    "n_jobs": Same(2),
}
ESTIMATORS: dict[str, tuple[Any, str, Entries]] = {
    "HybridClassifier": (
        hb.HybridClassifier,
        "c",
        {
            **SHARED,
            "priors": Effect([0.6, 0.3, 0.1]),
            "boost": Effect(3),
            "calibrated": Effect(False, {"boost": 3}),
        },
    ),
    "HybridRegressor": (
        hb.HybridRegressor,
        "y",
        {**SHARED, "point": Effect("median", {"potentials": "mte"}), "intervals": Effect("posterior")},
    ),
}
TOGETHER: dict[str, dict[str, Any]] = {"alone": {}, "boost": {"boost": 3, "calibrated": False}, "em": {"missing": "em"}}
ALREADY = {("boost", "boost"), ("em", "missing")}
"""The keyword is what it is combined with."""


def list_estimator_cases() -> list[Any]:
    return [
        make_case(name, keyword, effect, kind, target, together, suffix=f"-{together}")
        for name, (kind, target, entries) in ESTIMATORS.items()
        for keyword, effect in entries.items()
        for together in TOGETHER
        if (together, keyword) not in ALREADY and ("boost" in entries or together != "boost")
        if not (together == "boost" and keyword == "calibrated")
        if not (together == "em" and {"boost", "calibrated"} & {keyword, *effect.given})
    ]


@pytest.mark.parametrize(("kind", "target", "together", "keyword", "effect"), list_estimator_cases())
def test_keywords_of_estimators(kind: Any, target: str, together: str, keyword: str, effect: Effect) -> None:
    table = frame("holes" if together == "em" else effect.data)
    given = {**TOGETHER[together], **effect.given}
    run = partial(describe, predict, kind, target, table, asked=effect.asked)
    assert same(run(**given), run(**{**given, keyword: effect.value})) == isinstance(effect, Same)


def test_every_keyword_of_estimators_is_entered() -> None:
    for kind, _, entries in ESTIMATORS.values():
        assert list_keywords(kind) == set(entries)


def test_rounds_of_boosting_have_the_options_of_the_estimator() -> None:
    attributes, truth = frame("holes").drop(columns="c"), frame()["c"]
    model = hb.HybridClassifier(LINES, potentials="gaussian", boost=2, calibrated=False, max_bytes=1.0)
    with warnings.catch_warnings(action="ignore"), pytest.raises(hb.TooWide):
        model.fit(attributes, truth)
    with pytest.raises(hb.NetworkError, match="boost= and builder='auto' learn several"):
        model.set_params(max_bytes=2.0**31, missing="em").fit(attributes, truth)


def run_imputer(table: pd.DataFrame, strategy: str = "draw", **options: Any) -> Any:
    imputer = hb.Imputer(strategy, **{"random_state": 0, **options}).fit(table)  # type: ignore[arg-type]
    odd = table.assign(d=np.where(np.arange(ROWS) == 5, "never", table["d"]))
    return [imputer.network_, imputer.transform(table), imputer.transform(odd)]


IMPUTER: Entries = {
    **{
        name: effect
        for name, effect in FUNCTIONS["impute"][2].items()
        if name not in ("draws", "network", "details", "keys", "unknown", "options", "n_jobs", "beyond", "seconds")
    },
    "handle_unknown": Effect("error", data="holes"),
}


@pytest.mark.slow
@pytest.mark.parametrize("keyword", IMPUTER)
def test_keywords_of_imputer(keyword: str) -> None:
    assert run_effect(run_imputer, IMPUTER[keyword], keyword) == isinstance(IMPUTER[keyword], Same)


def test_every_keyword_of_the_imputer_is_entered() -> None:
    assert list_keywords(hb.Imputer) == set(IMPUTER)


# -- questions -----------------------------------------------------------------------------------------------------


@cache
def network() -> hb.Network:
    return hb.fit([("z", "x"), ("x", "d"), ("c", "d"), ("c", "x")], frame(), "gaussian")


def wide() -> hb.Network:
    """Return a grid of 6 x 6 tables."""
    rng = np.random.default_rng(0)
    nodes = {(i, j): hb.Discrete(f"n{i}{j}", (0, 1)) for i in range(6) for j in range(6)}
    made = hb.Network()
    for (i, j), node in nodes.items():
        parents = [nodes[place] for place in ((i - 1, j), (i, j - 1)) if place in nodes]
        made.add(hb.Multinomial(node, parents, table=rng.dirichlet([1, 1], [2] * len(parents))))
    return made


def ask_posterior(_: pd.DataFrame, net: Any = network, target: Any = "x", evidence: Any = None, **options: Any) -> Any:
    """Return moments or probabilities, with their bounds."""
    posterior = net().posterior(target, evidence, **options)
    if isinstance(target, list):
        return posterior.probabilities
    bounds = getattr(posterior, "bounds", None)
    told = posterior.mean() if target in NUMBERS else posterior.probabilities
    return [told, np.asarray(0.0 if bounds is None else bounds)]


def never() -> hb.Network:
    d, e = hb.Discrete("d", ("u", "v")), hb.Discrete("e", ("u", "v"))
    return hb.Network([hb.Multinomial(d, table=[0.5, 0.5]), hb.Multinomial(e, (d,), table=[[1, 0], [1, 0]])])


GRID = {"net": wide, "target": "n00", "evidence": {"n55": 1}}
QUESTIONS: dict[str, tuple[Callable[..., Any], Any, Entries]] = {
    "posterior": (
        ask_posterior,
        hb.Network.posterior,
        {
            "evidence": Effect({"d": "u"}),
            "options": Effect(hb.Options(max_bytes=1.0), GRID),
            "tolerance": Effect(0.3, {"evidence": {"d": "u"}, "target": "c"}),
            "max_bytes": Effect(1.0, GRID),
            "impossible": Effect("nan", {"net": never, "target": "d", "evidence": {"e": "v"}}),
            "n_jobs": Same(2),
            "beyond": Effect("slice", {**GRID, "max_bytes": 700.0}),
            "seconds": Effect(1e-3, {**GRID, "max_bytes": 300.0, "beyond": "bound"}),
        },
    ),
    "most_probable": (
        lambda _, net=network, **options: net().most_probable(**options),
        hb.Network.most_probable,
        {
            "evidence": Effect({"d": "u"}),
            "names": Effect(["c"]),
            "return_bounds": Effect(True, {"net": wide, "beyond": "bound", "max_bytes": 300.0}),
            "options": Effect(hb.Options(max_bytes=1.0), {"net": wide}),
            "tolerance": Same(1e-8),
            "max_bytes": Effect(1.0, {"net": wide}),
            "n_jobs": Same(2),
            "beyond": Effect("slice", {"net": wide, "max_bytes": 700.0}),
            "seconds": Same(60.0),
        },
    ),
    "sample": (
        lambda _, **options: network().sample(**{"n": 5, "random_state": 0, **options}),
        hb.Network.sample,
        {
            "n": Effect(6),
            "random_state": Effect(1),
            "evidence": Effect({"d": "u"}),
            "options": Same(hb.Options(n_jobs=2)),
            "tolerance": Same(1e-8),
            "max_bytes": Same(2.0**30),
            "n_jobs": Same(2),
            "beyond": Same("slice"),
            "seconds": Same(60.0),
        },
    ),
    "value_of_information": (
        lambda _, **options: network().value_of_information("c", **options),
        hb.Network.value_of_information,
        {
            "evidence": Effect({"d": "u"}),
            "costs": Effect({"x": 3.0}),
            "options": Same(hb.Options(n_jobs=2)),
            "tolerance": Same(1e-9),
            "max_bytes": Same(2.0**30),
            "n_jobs": Same(2),
            "beyond": Same("slice"),
            "seconds": Same(60.0),
        },
    ),
    "Table": (
        lambda table, **options: read(hb.Table(table, **options)),
        hb.Table,
        {
            **COLUMNS,
            "weights": Effect(WEIGHTS),
            "variables": Effect([hb.Discrete("d", ("v", "u"))], columns=("d",)),
            "unknown": Effect("missing", {"variables": [hb.Discrete("d", ("v", "w"))]}, columns=("d",)),
        },
    ),
    "scan": (
        lambda table, **options: scan(hb.scan(table, **options)),
        hb.scan,
        {
            "discrete": Effect("k"),
            "continuous": Effect("t"),
            "backend": Effect("no such backend"),
            "weights": Effect("k"),
            "columns": Effect(["x", "d"]),
            "ordered": Effect("z", data="codes"),
            "missing": Effect({"d": ["v"]}),
            "most_states": Effect(2),
            "sample": Effect(10),
        },
    ),
}


def read(table: hb.Table) -> Any:
    return [repr(table), *map(repr, table.variables), *(table.column(name) for name in table.names), table.weights]


def scan(rows: hb.Scan) -> Any:
    codes = [rows.scale(one.name).codes for one in rows.variables if isinstance(one, hb.Continuous)]
    return [*map(repr, rows.variables), codes, rows.sample().to_pandas(), rows.sample().weights]


@pytest.mark.parametrize(
    ("function", "keyword", "effect"),
    [
        make_case(name, keyword, effect, run)
        for name, (run, _, entries) in (FUNCTIONS | QUESTIONS).items()
        for keyword, effect in entries.items()
    ],
)
def test_keywords_of_functions(function: Callable[..., Any], keyword: str, effect: Effect) -> None:
    assert run_effect(function, effect, keyword) == isinstance(effect, Same)


def test_every_keyword_of_functions_is_entered() -> None:
    for name, (_, function, entries) in (FUNCTIONS | QUESTIONS).items():
        assert list_keywords(function) <= set(entries) <= list_keywords(function) | REQUIRED, name
