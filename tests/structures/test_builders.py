"""Every registered builder, and every way to say `build=`: each works everywhere, or refuses with an error that says
why.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.learning.boosting import boost
from hybridbn.learning.weak_learners import CountedLearner
from hybridbn.structures import automatic, builder, class_clusters, naive_bayes, tan
from hybridbn.structures.building import BUILDERS, Build, Built, declaration_of
from hybridbn.structures.heldout import predict_held_out_classes
from hybridbn.variables import Continuous, Discrete

NAMES = sorted(BUILDERS)
COLUMNS = ["c", "d", "x", "y"]


def frame(rows: int = 24) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    c = rng.integers(2, size=rows)
    d = np.where(rng.random(rows) < 0.8, c, 1 - c)
    x = 2.0 * c + rng.normal(size=rows)
    return pd.DataFrame(
        {"c": np.array(["n", "p"])[c], "d": np.array(["u", "v"])[d], "x": x, "y": x + rng.normal(size=rows)}
    )


def with_holes() -> pd.DataFrame:
    data = frame()
    data.loc[::6, "x"] = np.nan
    data.loc[3::7, "d"] = None
    data.loc[4::8, "y"] = np.nan
    return data


# -- what builders declare --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_declarations_hold(name: str) -> None:
    function, declared = BUILDERS[name], declaration_of(BUILDERS[name])
    target = "y" if declared.takes_target is Continuous else "c"
    network = function(with_holes(), *([target] if declared.takes_target else []), potentials="gaussian")
    hidden = {type(network.variable(node)) for node in network if node not in COLUMNS}
    assert hidden <= set(declared.hidden)
    assert target in network
    if declared.arcs is not None:
        parents = declared.arcs(target, COLUMNS)
        assert {(a, b) for b, above in parents.items() for a in above} == set(network.edges)
    if isinstance(declared.takes_target, type):
        other = "c" if declared.takes_target is Continuous else "y"
        with pytest.raises(hb.HybridBNError):
            function(frame(), other)


def tangle() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    c = rng.integers(2, size=50)
    d = np.where(rng.random(50) < 0.8, c, 1 - c)
    e = np.where(rng.random(50) < 0.7, d, rng.integers(3, size=50))
    x = 2.0 * c + rng.normal(size=50)
    y = x + d + rng.normal(size=50)
    states = {"c": np.array(["n", "p"])[c], "d": np.array(["u", "v"])[d], "e": np.array(["k", "l", "m"])[e]}
    return pd.DataFrame(states | {"x": x, "y": y, "z": y - 2 * x * (e == 1) + rng.normal(size=50)})


SLOW_TWICE = {"automatic", "class_clusters", "mixture", "random_forest"}
CLIMBERS = {"hill_climb", "max_min_hill_climb"}
"""Of changes that are scored alike they make the first."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW_TWICE)) for n in NAMES if n not in CLIMBERS],
)
def test_names_units_and_the_order_of_columns_tell_nothing(name: str) -> None:
    names, units = dict(zip("cdexyz", "tsrwva", strict=True)), {"x": 1e3, "y": 1e-3, "z": 5.0}
    data, declared = tangle(), declaration_of(BUILDERS[name])
    moved = data.assign(**{column: data[column] * unit + 7 for column, unit in units.items()})
    moved = moved.rename(columns=names)[list(names.values())]
    target = "y" if declared.takes_target is Continuous else "c" if declared.takes_target else None
    results = []
    for table, goal in ((data, target), (moved, target and names[target])):
        network = Build.of(name).learn(hb.Table(table), goal, "gaussian")
        kept = [column for column in table if column in network]
        arcs = {frozenset(arc) for arc in network.edges if set(arc) <= set(kept)}
        results.append((kept, arcs, network.log_evidence(table[kept])))
    (kept, arcs, logs), (other_kept, other_arcs, other_logs) = results
    assert sorted(names[column] for column in kept) == sorted(other_kept)
    assert {frozenset(names[end] for end in arc) for arc in arcs} == other_arcs
    scale = sum(np.log(unit) for column, unit in units.items() if column in kept)
    np.testing.assert_allclose(logs, other_logs + scale, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_builders_are_plain_functions(name: str) -> None:
    function = BUILDERS[name]
    assert getattr(hb.structures, name) is function
    assert name in hb.structures.__all__
    assert pickle.loads(pickle.dumps(function)) is function
    assert "Examples" in str(function.__doc__)
    # called twice, by its name or as a partial it learns the same, and the data stay as they are
    data, target = frame(), declaration_of(function).takes_target
    arguments = [] if not target else ["y" if target is Continuous else "c"]
    options = {"trees": 2} if name == "random_forest" else {"candidates": ["tan"]} if name == "automatic" else {}
    before = data.copy()
    learned = function(data, *arguments, potentials="gaussian", **options)
    again = Build.of(partial(function, **options)).learn(
        hb.Table(data), arguments[0] if arguments else None, "gaussian"
    )
    pd.testing.assert_frame_equal(data, before)
    assert sorted(again.edges) == sorted(learned.edges)
    observed = hb.Table(data.head(9))
    np.testing.assert_allclose(again.log_density(observed), learned.log_density(observed), rtol=1e-9)


# -- every builder, everywhere ----------------------------------------------------------------------------------------

USES: dict[str, Callable[[str, str], Any]] = {
    "fit": lambda name, target: hb.fit(Build.of(name).learn(hb.Table(frame()), target, "gaussian"), frame()),
    "boost": lambda name, target: hb.boost(frame(), target, name, rounds=2, potentials="gaussian").posterior(frame()),  # type: ignore[arg-type]
    "augment": lambda name, target: (
        hb.augment(with_holes(), target, name, potentials="gaussian", max_iterations=1, random_state=0).completed  # type: ignore[arg-type]
    ),
    "impute": lambda name, target: hb.impute(  # type: ignore[call-overload]
        with_holes(), structure=name, target=target, potentials="gaussian", rounds=1, random_state=0
    ),
    "automatic": lambda name, target: automatic(frame(), target, "gaussian", candidates=[name, "tan"], folds=2),
    "class_clusters": lambda name, target: class_clusters(
        frame(),
        target,
        "gaussian",
        build=name,  # type: ignore[arg-type]
        clusters=2,
        guard=False,
    ),
    "estimator": lambda name, target: (
        (hb.HybridClassifier if target == "c" else hb.HybridRegressor)(name, potentials="gaussian")  # type: ignore[arg-type]
        .fit(frame()[["d", "x"]], frame()[target])
        .predict(frame()[["d", "x"]])
    ),
}

REFUSES = {
    ("boost", "y"): "boosting is for classes",
}
"""What no builder can do."""


SLOW = {("automatic", "augment"), ("automatic", "automatic"), ("automatic", "impute"), ("kdb", "augment")}


@pytest.mark.parametrize("target", ["c", "y"])
@pytest.mark.parametrize(
    ("name", "use"),
    [
        pytest.param(name, use, marks=[pytest.mark.slow] * ((name, use) in SLOW), id=f"{name}-{use}")
        for name in NAMES
        for use in USES
    ],
)
def test_each_builder_works_everywhere_or_says_why_not(name: str, use: str, target: str) -> None:
    declared = declaration_of(BUILDERS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reason = REFUSES.get((use, target))
        if reason is None and declared.takes_target is Continuous and (target == "c" or use == "class_clusters"):
            # clusters are states, whatever they are clusters of; `automatic` takes the other candidate
            reason = None if use == "automatic" else "is discrete, and a regression predicts a number"
        if reason is None and declared.takes_target is Discrete and target == "y" and use != "class_clusters":
            reason = None if use == "automatic" else "is continuous, and this builder predicts a class"
        if reason is None and use == "fit":
            network = Build.of(name).learn(hb.Table(frame()), target, "gaussian")
            reason = "but the data has no such column" if set(network) - set(COLUMNS) else None
        if reason is not None:
            with pytest.raises(hb.HybridBNError, match=reason):
                USES[use](name, target)
            return
        result = USES[use](name, target)
    if use in ("impute", "augment"):
        assert not result.isna().any().any()


@pytest.mark.parametrize("name", NAMES)
def test_the_command_takes_each_builder(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_holes().to_csv(tmp_path / "in.csv", index=False)
    options = ["--structure", name, "--potentials", "gaussian", "--rounds", "1", "--quiet"]
    assert run(["impute", str(tmp_path / "in.csv"), str(tmp_path / "out.csv"), *options]) == 0, capsys.readouterr()
    assert not pd.read_csv(tmp_path / "out.csv").isna().any().any()


@pytest.mark.parametrize("name", ["mixture", "regression", "model_tree"])
def test_imputation_with_hidden_nodes(name: str) -> None:
    completed = hb.impute(with_holes(), structure=name, rounds=1, random_state=0)  # type: ignore[arg-type]
    assert not completed.isna().any().any()
    assert list(completed) == COLUMNS


def test_imputation_chooses_a_target_of_the_kind_that_is_wanted() -> None:
    categories = with_holes()[["c", "d"]]
    with pytest.raises(hb.TableError, match="no column is of the kind"):
        hb.impute(categories, structure="regression", rounds=0)


# -- what build= may be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        tan,
        "tan",
        partial(tan, potentials="gaussian"),
        [("c", "d"), ("c", "x"), ("c", "y"), ("x", "y")],
        hb.Network([("c", "d"), ("c", "x"), ("c", "y"), ("x", "y")]),
    ],
)
def test_all_kinds_of_build_are_taken_everywhere(build: Any) -> None:
    data, learned = with_holes(), set()
    networks = [
        hb.boost(data, "c", build, rounds=1, potentials="gaussian").networks[0],
        hb.augment(data, "c", build, potentials="gaussian", max_iterations=1, random_state=0).network,
        hb.HybridClassifier(build, potentials="gaussian").fit(frame()[["d", "x", "y"]], frame()["c"]).network_,
        automatic(frame(), "c", "gaussian", candidates=[build]),
        hb.structural_em(frame(), "c", build, "gaussian").network,
    ]
    for network in networks:
        learned |= {frozenset(arc) for arc in network.edges}
    assert {frozenset("cd"), frozenset("cx"), frozenset("cy")} <= learned
    assert not hb.impute(data, structure=build, target="c", rounds=1, random_state=0).isna().any().any()


@pytest.mark.parametrize("build", [3, [("x", "y", "z")], "tann", {"x": "y"}])
def test_what_is_no_build_is_refused_everywhere(build: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: hb.boost(frame(), "c", build),
        lambda: hb.augment(frame(), "c", build),
        lambda: hb.impute(with_holes(), structure=build),
        lambda: hb.structural_em(frame(), "c", build),
        lambda: class_clusters(frame(), "c", build=build),
        lambda: automatic(frame(), "c", candidates=[build]),
        lambda: hb.HybridClassifier(build).fit(frame()[["x"]], frame()["c"]),
    ]
    for call in calls:
        with pytest.raises(hb.NetworkError, match=r"must be a builder such as|did you mean 'tan'"):
            call()


def test_a_plain_function_is_a_builder() -> None:
    def chain(data: Any, target: str, potentials: Any = "auto", weights: Any = None) -> hb.Network:
        return hb.fit([(target, "x"), ("x", "y")], data, potentials, weights)

    arcs = {("c", "x"), ("x", "y")}
    boosted = hb.boost(frame(), "c", chain, rounds=2, potentials="gaussian")
    assert all(set(network.edges) == arcs for network in boosted.networks)
    # the first one is what the function learns from rows of equal weight
    plain, rows = chain(frame(), "c", "gaussian"), hb.Table(frame().head(7))
    np.testing.assert_allclose(boosted.networks[0].log_density(rows), plain.log_density(rows), rtol=1e-9)
    assert set(hb.augment(with_holes(), "c", chain, "gaussian", max_iterations=1).network.edges) == arcs
    assert automatic(frame(), "c", "gaussian", candidates=[chain]).graph["chosen"] == "chain, gaussian"


def test_a_builder_of_ones_own_is_known_by_its_name() -> None:
    @builder(takes_target=False)
    def pairs(data: Any, potentials: Any = "auto", weights: Any = None) -> hb.Network:
        return hb.fit([("x", "y"), ("c", "d")], data, potentials, weights)

    try:
        assert ("x", "y") in hb.HybridClassifier("pairs").fit(frame()[["d", "x", "y"]], frame()["c"]).network_.edges  # type: ignore[arg-type]
        assert not hb.impute(with_holes(), structure="pairs", rounds=1).isna().any().any()  # type: ignore[arg-type]
        with pytest.raises(hb.NetworkError, match="did you mean 'pairs'"):
            hb.impute(with_holes(), structure="pairz")  # type: ignore[arg-type]
    finally:
        del BUILDERS["pairs"]


def test_a_name_that_is_taken_is_refused() -> None:
    def own(data: Any, target: str) -> None: ...

    own.__name__ = "naive_bayes"
    with pytest.raises(hb.NetworkError, match="there is a builder called 'naive_bayes' already"):
        builder(own)
    assert BUILDERS["naive_bayes"] is naive_bayes


def test_what_a_builder_does_not_take_is_refused_or_filled_first() -> None:
    @builder(takes_weights=False, takes_holes=False)
    def strict(data: hb.Table, target: str, potentials: Any = "auto") -> hb.Network:
        assert not data.weighted
        assert not any(data.missing.values())
        return naive_bayes(data, target, potentials)

    try:
        with pytest.raises(hb.NetworkError, match="the builder strict takes no weighted rows"):
            hb.boost(frame(), "c", strict, rounds=2)
        with pytest.raises(hb.TableError, match="takes no missing cells, and there are some in 'd', 'x', 'y'"):
            Build.of("strict").learn(hb.Table(with_holes()), "c")
        completed = hb.augment(with_holes(), "c", strict, "gaussian", max_iterations=1).completed
        assert not completed.isna().any().any()
    finally:
        del BUILDERS["strict"]


def test_what_a_builder_returns_is_looked_at() -> None:
    with pytest.raises(hb.NetworkError, match="must return a Network, not 3"):
        hb.augment(frame(), "c", lambda data, target: 3)
    with pytest.raises(hb.NetworkError, match="returned a network without the target 'c'"):
        hb.augment(frame(), "c", lambda data, target: hb.fit([], data.drop("c")))


def test_only_naive_bayes_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    learn = CountedLearner.learn

    def noted(own: CountedLearner, weights: Any) -> Any:
        counted.append(own)
        return learn(own, weights)

    monkeypatch.setattr(CountedLearner, "learn", noted)
    star = [("c", "d"), ("c", "x"), ("c", "y")]
    for build, expected in [
        (None, 1),
        (naive_bayes, 1),
        (partial(naive_bayes, potentials="multinomial"), 1),
        ("naive_bayes", 1),
        (star, 1),
        (tan, 0),
        (star[:2], 0),
        (partial(naive_bayes, weights=None), 0),
    ]:
        counted.clear()
        boost(frame(), "c", build, rounds=1)  # type: ignore[arg-type]
        assert bool(counted) == expected, build


def test_kinds_of_hidden_nodes_are_kinds_of_variables() -> None:
    assert all(set(declaration_of(BUILDERS[name]).hidden) <= {Discrete, Continuous} for name in NAMES)


def test_builders_of_users_may_predict_held_out_rows() -> None:
    """One function makes the network and the predictions; the builder keeps its signature, and comparisons ask it."""

    @builder(takes_target=Discrete, held_out=True)
    def shares(data: Any, target: str, potentials: Any = "auto", weights: Any = None, *, sure: float = 0.9) -> Built:
        table = hb.Table(data)
        truth = table.column(target)[:, None] == np.arange(2)
        variable = table.variable(target)
        assert isinstance(variable, Discrete)
        network = hb.fit([(target, "d")], table.select([target, "d"]))
        told = np.where(truth, sure, 1 - sure)
        return Built(network, partial(predict_held_out_classes, variable=variable, probabilities=told))

    try:
        assert isinstance(shares(frame(), "c"), hb.Network)
        assert list(signature(shares).parameters) == ["data", "target", "potentials", "weights", "sure"]
        assert signature(shares).return_annotation == "Network"
        build = Build.of(partial(shares, sure=0.99))
        built = build.learn_held_out(hb.Table(frame()), "c", "multinomial")
        assert built.held_out is not None
        np.testing.assert_allclose(built.held_out(np.arange(3)).probabilities.max(axis=1), 0.99)
        # such predictions can't be beaten
        chosen = automatic(frame(), "c", candidates=["naive_bayes", build.function])
        assert chosen.graph["losses"][chosen.graph["chosen"]] == pytest.approx(-np.log(0.99))
        assert Build.of("naive_bayes").learn_held_out(hb.Table(frame()), "c").held_out is None
    finally:
        del BUILDERS["shares"]
