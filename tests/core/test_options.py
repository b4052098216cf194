"""The options of inference: one object or single keywords, wherever something is asked."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb

C = hb.Discrete("c", states=("a", "b"))
D = hb.Discrete("d", states=("a", "b"))
X = hb.Continuous("x")
NETWORK = hb.Network(
    [
        hb.Multinomial(C, table=[1.0, 0.0]),
        hb.Multinomial(D, parents=(C,), table=[[1.0, 0.0], [0.0, 1.0]]),
        hb.LinearGaussian(X, parents=(C,), intercept=[0, 1], variance=[1, 1]),
    ]
)
TABLE = pd.DataFrame({"c": ["a", "b"] * 10, "x": np.linspace(0, 1, 20)})
ENSEMBLE = hb.boost(TABLE, "c", rounds=1)

ASKED: dict[str, Callable[..., Any]] = {
    "posterior": lambda **options: NETWORK.posterior("c", **options),
    "joint posterior": lambda **options: NETWORK.posterior(["c", "x"], **options),
    "posteriors": NETWORK.posteriors,
    "log_evidence": NETWORK.log_evidence,
    "log_density": lambda **options: NETWORK.log_density(TABLE[["x"]], **options),
    "most_probable": NETWORK.most_probable,
    "sample": NETWORK.sample,
    "value_of_information": lambda **options: NETWORK.value_of_information("c", {"x": 0.3}, **options),
    "sensitivity": lambda **options: NETWORK.sensitivity("c", {"x": 0.3}, **options),
    "ensemble.posterior": lambda **options: ENSEMBLE.posterior(TABLE, **options),
    "ensemble.staged_posterior": lambda **options: list(ENSEMBLE.staged_posterior(TABLE, **options)),
    "ensemble.scores": lambda **options: ENSEMBLE.scores(TABLE, **options),
    "ensemble.classify": lambda **options: ENSEMBLE.classify(TABLE, **options),
    "boost": lambda **options: hb.boost(TABLE, "c", rounds=1, **options),
    "augment": lambda **options: hb.augment(TABLE, "x", potentials="gaussian", max_iterations=1, **options),
    "impute": lambda **options: hb.impute(TABLE, **options),
}  # fmt: skip


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_options_are_an_object_or_keywords(ask: Callable[..., Any]) -> None:
    ask(options=hb.Options(tolerance=1e-6))
    ask(tolerance=1e-6, max_bytes=1e9)
    with pytest.raises(TypeError, match=r"\(\) got an unexpected keyword argument 'tolerence'"):
        ask(tolerence=1e-6)
    with pytest.raises(hb.TableError, match="tolerance must lie between 0 and 1; found 2"):
        ask(tolerance=2)
    with pytest.raises(TypeError, match=r"must be hybridbn\.Options, not dict"):
        ask(options={"tolerance": 1e-6})


@pytest.mark.parametrize("name", [name for name in ASKED if not re.match("sample|ensemble|boost|impute", name)])
def test_the_memory_is_that_of_the_options(name: str) -> None:
    with pytest.raises(hb.TooWide, match="exact inference needs a table of"):
        ASKED[name](max_bytes=1)


@pytest.mark.parametrize("name", ["log_evidence", "most_probable", "sample", "ensemble.scores", "boost", "impute"])
def test_some_have_no_choice_about_impossible_rows(name: str) -> None:
    with pytest.raises(TypeError, match=r"\(\) got an unexpected keyword argument 'impossible'"):
        ASKED[name](impossible="nan")


def test_defaults_of_a_method_stay_with_an_object() -> None:
    quiet = hb.Options(impossible="nan")
    assert np.isnan(NETWORK.posterior("x", {"d": "b"}, options=quiet).mean())
    assert NETWORK.log_evidence({"d": "b"}, options=hb.Options()) == -np.inf
    for ask in (NETWORK.sample, NETWORK.most_probable):
        with pytest.raises(hb.ImpossibleEvidence):
            ask(evidence={"d": "b"}, options=quiet)


def test_keywords_count_more_than_the_object() -> None:
    with pytest.raises(hb.ImpossibleEvidence):
        NETWORK.posterior("x", {"d": "b"}, options=hb.Options(impossible="nan"), impossible="raise")


@pytest.mark.parametrize(
    "wrong", [{"tolerance": 0}, {"tolerance": float("nan")}, {"max_bytes": 0}, {"impossible": "no"}]
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(hb.TableError, match=next(iter(wrong))):
        hb.Options(**wrong)


def test_editors_complete_what_comes_back() -> None:
    """What is asked for decides about the type: a name or several, a case or a table."""
    returned = {
        name: {str(inspect.signature(overload).return_annotation) for overload in typing.get_overloads(method)}
        for name, method in vars(hb.Network).items()
        if inspect.isfunction(method)
    }
    assert {name: kinds for name, kinds in returned.items() if kinds} == {
        "posterior": {"DiscretePosterior | ContinuousPosterior", "JointPosterior"},
        "sample": {"pandas.DataFrame", "Frame"},
        "most_probable": {"dict[str, Any]", "Frame", "tuple[Any, tuple[Any, Any]]"},
    }


def test_threads_share_the_rows_of_a_table_with_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    names = [hb.Discrete(name, states=("a", "b", "c")) for name in "uvwxyz"]
    chain = [hb.Multinomial(names[0], table=rng.dirichlet(np.ones(3)))]
    for place in range(1, 6):
        parents = names[max(place - 2, 0) : place]
        chain.append(
            hb.Multinomial(names[place], parents=parents, table=rng.dirichlet(np.ones(3), (3,) * len(parents)))
        )
    star = [chain[0], *(hb.Multinomial(v, parents=names[:1], table=rng.dirichlet(np.ones(3), 3)) for v in names[1:])]
    for network in (hb.Network(chain), hb.Network(star)):
        table = network.sample(70_000, random_state=1)
        table = table.mask(rng.random(table.shape) < 0.2)
        table["u"] = None
        variables = [variable for variable in names if variable.name != "u"]
        evidence = hb.Table(table, variables=variables)
        threads: list[Any] = []
        for n_jobs in (None, 2, 3):
            options = hb.Options(n_jobs=n_jobs)
            threads.append(
                [
                    as_discrete(network.posterior("u", evidence, options=options)).probabilities,
                    as_discrete(network.posteriors(evidence, n_jobs=n_jobs)["w"]).probabilities,
                    network.log_density(evidence, n_jobs=n_jobs),
                    network.most_probable(table.iloc[:20_000], n_jobs=n_jobs)["u"].to_numpy(),
                    network.sample(140_000, random_state=3, n_jobs=n_jobs)["z"].to_numpy(),
                ]
            )
        for one, two, three in zip(*threads, strict=True):
            assert np.array_equal(one, two)
            assert np.array_equal(one, three)


def test_only_whole_numbers_of_threads() -> None:
    for wrong in (0, 1.5, "two", True):
        with pytest.raises(hb.TableError, match="n_jobs must be a whole number"):
            hb.Options(n_jobs=wrong)  # type: ignore[arg-type]
    assert hb.Options(n_jobs=-1).jobs >= 1


def test_options_of_imputation_are_one_list() -> None:
    """The keywords of `impute`, the parameters of `Imputer` and the command's options are those of one class."""
    from hybridbn.commands.verb import make_parser
    from hybridbn.learning.imputation.impute import LearningKeywords
    from hybridbn.options import ImputationOptions, PrecisionKeywords

    options = {option.name: option.default for option in dataclasses.fields(ImputationOptions)}
    types = {option.name: option.type for option in dataclasses.fields(ImputationOptions)}
    named = inspect.signature(hb.impute).parameters
    keywords = {name: hint.__forward_arg__ for name, hint in LearningKeywords.__annotations__.items()}
    assert {*keywords} - {*PrecisionKeywords.__annotations__} == {*options} - {*named}
    assert all(named[name].default == options[name] for name in options if name in named)
    own = {"bounds", "potentials", "structure"}  # which have types of their own, from rooms above
    assert all(keywords[name] == types[name] for name in keywords if name in options and name not in own)

    parameters = inspect.signature(hb.Imputer).parameters
    assert {name: parameters[name].default for name in options} == options
    imputer = {parameter.name: parameter.type for parameter in dataclasses.fields(hb.Imputer)}
    assert all(imputer[name] == types[name] for name in {*options} - own)
    documented = str(hb.impute.__doc__)
    assert all(f"\n    {name} : " in documented for name in options)

    [commands] = [action for action in make_parser()._actions if action.dest == "verb" or action.choices is not None]
    actions = {action.dest: action for action in as_kind(dict, commands.choices)["impute"]._actions}
    for option in dataclasses.fields(ImputationOptions):
        if option.metadata:
            assert actions[option.name].help == option.metadata["help"]
            assert actions[option.name].default in (option.default, [])
    assert {*options} - {*actions} == {"integers"}
