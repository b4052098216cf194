"""Boosting on random data: the reference step by step, the bound on the training error, and the same result however the
work is shared.
"""

from __future__ import annotations

import copy
import pickle
import tracemalloc
import warnings
from functools import partial
from typing import Any

import boosting_reference as reference
import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from narrowing import as_discrete, known

import hybridbn as hb
from hybridbn.inference.engines.naive_bayes import mixture_of
from hybridbn.inference.queries import posteriors
from hybridbn.learning.boosting import Round
from hybridbn.learning.ensemble import ClassScorer, LazyNetworks
from hybridbn.structures import naive_bayes, nb_tree


def slow(data: Any, target: str, potentials: Any = "multinomial") -> hb.Network:
    """Naive Bayes as any other builder, which boosting does not know."""
    return naive_bayes(data, target, potentials)


def drawn(
    seed: int, rows: int, columns: int, classes: int, missing: float, noise: float
) -> tuple[hb.Table, Any, Any, list[int]]:
    """Draw a table whose classes depend on two columns, with holes and noise."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, columns).tolist()
    x = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    y = (x[:, 0] + x[:, 1] * x[:, -1] + (rng.random(rows) < noise) * rng.integers(0, classes, rows)) % classes
    y[:classes] = np.arange(classes)
    x[rng.random(x.shape) < missing] = -1
    x[0] = 0
    variables = [hb.Discrete(f"x{j}", tuple(range(size))) for j, size in enumerate(sizes)]
    data = {f"x{j}": [None if v < 0 else int(v) for v in x[:, j]] for j in range(columns)}
    return hb.Table(data | {"y": y}, variables=[*variables, hb.Discrete("y", tuple(range(classes)))]), x, y, sizes


cases = given(
    seed=st.integers(0, 10**6),
    rows=st.integers(40, 200),
    columns=st.integers(3, 8),
    classes=st.integers(2, 4),
    missing=st.sampled_from([0.0, 0.2]),
    noise=st.sampled_from([0.0, 0.4, 1.0]),
)


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@cases
def test_m1_is_the_reference_through_its_restarts(**shape: Any) -> None:
    table, x, y, sizes = drawn(**shape)
    classes = shape["classes"]
    models, votes, errors, expected = reference.adaboost_m1(
        x, y, sizes, classes, 15, reference.draws_of(table), most=12
    )
    for build in (None, slow):
        rounds: list[Round] = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = hb.boost(table, "y", build, rounds=15, max_restarts=12, progress=rounds.append)
        if not models:
            assert found.votes.tolist() == [1.0]
            continue
        np.testing.assert_allclose(found.votes, votes, atol=1e-9)
        np.testing.assert_allclose(known(found.errors), errors, atol=1e-9)
        np.testing.assert_allclose([done.weights for done in rounds], expected, atol=1e-9)
        assert (found.predict(table) == reference.voted(models, votes, x, classes)).all()
        assert found.restarts <= 12


@settings(max_examples=examples(30), deadline=None, derandomize=True)
@cases
def test_the_training_error_never_exceeds_the_product_of_normalizers(**shape: Any) -> None:
    table, _, y, _ = drawn(**shape | {"classes": 2})
    own = np.random.default_rng(shape["seed"]).uniform(0.5, 2, len(y))
    for build in (None, partial(nb_tree, max_depth=1)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the bound holds up to the first restart, which ends the run here
            found = hb.boost(table, "y", build, rounds=20, weights=own, max_restarts=0)
        if found.votes.tolist() == [1.0]:
            continue
        assert found.errors is not None
        bound = np.cumprod(2 * np.sqrt(found.errors * (1 - found.errors)))
        for normalizer, posterior in zip(bound, found.staged_posterior(table), strict=True):
            wrong = posterior.probabilities.argmax(axis=1) != y
            assert np.average(wrong, weights=own) <= normalizer + 1e-7


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@cases
def test_the_error_of_real_adaboost_never_exceeds_the_product_of_normalizers(**shape: Any) -> None:
    table, _, y, _ = drawn(**shape | {"classes": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = hb.boost(table, "y", algorithm="real", rounds=10, max_restarts=0)
    if found.votes.tolist() == [1.0]:
        return
    scores = np.zeros(len(y))
    for network, vote in zip(found.networks, found.votes, strict=True):
        tables = as_discrete(network.posterior("y", table)).probabilities
        scores += vote * (np.log(tables[:, 1]) - np.log(tables[:, 0]))
        # the product of the normalizers is the mean of the weights that were never normalized
        bound = np.exp(-np.where(y == 1, scores, -scores) / 2).mean()
        assert ((scores > 0) != y).mean() <= bound + 1e-12


@settings(max_examples=examples(25), deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 4),
    missing=st.sampled_from([0.0, 0.3]),
    depth=st.sampled_from([0, 1, 2, 8]),
    binary=st.booleans(),
)
def test_trees_are_scored_as_their_networks_answer(
    seed: int, classes: int, missing: float, depth: int, binary: bool
) -> None:
    table, *_ = drawn(seed, 150, 5, classes, missing, 0.3)
    network = nb_tree(table, "y", max_depth=depth, binary=binary, least=10)
    mixture = mixture_of(network, "y")
    assert mixture is not None
    assert mixture.leaves == len(as_discrete(network.variable("y leaf")))
    found = np.exp(ClassScorer("y", table).log_joint(network))
    evidence = table.drop("y")
    np.testing.assert_allclose(found.sum(axis=0), np.exp(network.log_evidence(evidence)), rtol=1e-9)
    # by elimination, which two questions at once are answered by
    expected = as_discrete(posteriors(network, evidence, ["y", "y leaf"])["y"]).probabilities
    np.testing.assert_allclose((found / found.sum(axis=0)).T, expected, atol=1e-10)
    answer = network.posterior("y", evidence)
    np.testing.assert_allclose(as_discrete(answer).probabilities, expected, atol=1e-10)
    np.testing.assert_allclose(answer.log_evidence, network.log_evidence(evidence), rtol=1e-12)
    assert (answer.error < 1e-11).all()
    leafless = network.posterior("y leaf", evidence)
    np.testing.assert_allclose(as_discrete(leafless).probabilities.sum(axis=1), 1, atol=1e-12)


def test_impossible_rows_are_impossible_for_mixtures_too() -> None:
    leaf, y, x = (hb.Discrete(name, (0, 1)) for name in ("leaf", "y", "x"))
    network = hb.Network(
        [
            hb.Multinomial(leaf, table=[1.0, 0.0]),
            hb.Multinomial(y, (leaf,), table=[[0.5, 0.5], [0.5, 0.5]]),
            hb.Multinomial(x, (leaf, y), table=[[[1, 0], [1, 0]], [[0, 1], [0, 1]]]),
        ]
    )
    general = hb.Network(
        [*network.potentials, hb.LinearGaussian(hb.Continuous("z"), (x,), intercept=[0, 1], variance=[1, 1])]
    )
    for own in (network, general):
        found = ClassScorer("y", hb.Table({"x": [0, 1, None]}, discrete=["x"])).log_joint(own)
        np.testing.assert_allclose(np.exp(found[:, [0, 2]]), 0.5)
        assert np.isnan(found[:, 1]).all()
    rows = hb.Table({"x": [0, 1, None]}, discrete=["x"])
    with pytest.raises(hb.ImpossibleEvidence) as caught:
        network.posterior("y", rows)
    assert caught.value.rows == (1,)
    answer = as_discrete(network.posterior("y", rows, impossible="nan")).probabilities
    assert np.isnan(answer[1]).all()
    np.testing.assert_allclose(answer[[0, 2]], 0.5)


def test_evidence_on_the_leaf_itself_and_sets_of_states_count() -> None:
    table, *_ = drawn(0, 200, 4, 2, 0.0, 0.2)
    network = nb_tree(table, "y", max_depth=1)
    ensemble = hb.Ensemble([network], np.ones(1), "y", "real")
    state = as_discrete(network.variable("y leaf")).states[1]
    for case in ({"y leaf": state, "x1": 1}, {"x0": {0, 1}, "x2": 1}):
        expected = as_discrete(network.posterior("y", case)).probabilities
        np.testing.assert_allclose(ensemble.posterior(case).probabilities, expected, atol=1e-12)
        rows = {name: [value] for name, value in case.items()}
        np.testing.assert_allclose(
            as_discrete(network.posterior("y", pd.DataFrame(rows))).probabilities[0], expected, atol=1e-12
        )


@pytest.mark.parametrize("build", [None, slow, partial(nb_tree, max_depth=2)], ids=["counted", "general", "trees"])
def test_the_same_for_any_number_of_jobs(build: Any) -> None:
    # more rows than go through in one block
    table, *_ = drawn(1, 70_000 if build is None else 400, 4, 3, 0.1, 0.3)
    one, two = (hb.boost(table, "y", build, rounds=6, n_jobs=n_jobs) for n_jobs in (None, 2))
    assert (one.votes == two.votes).all()
    assert (one.scores(table) == two.scores(table, n_jobs=3)).all()
    assert (one.predict(table) == one.predict(table, n_jobs=-1)).all()
    for first, second in zip(one.staged_posterior(table), one.staged_posterior(table, n_jobs=2), strict=True):
        assert (first.probabilities == second.probabilities).all()
    with pytest.raises(hb.TableError, match="n_jobs must be"):
        one.predict(table, n_jobs=0)
    with pytest.raises(hb.TableError, match="n_jobs must be"):
        hb.boost(table, "y", n_jobs=1.5)  # type: ignore[arg-type]


def test_cross_validations_are_the_same_for_any_number_of_jobs() -> None:
    table, _, y, _ = drawn(2, 120, 4, 2, 0.0, 0.2)
    X, classifier = table.drop("y").to_pandas(), hb.HybridClassifier(boost=3)
    one = hb.bias_variance(classifier, X, y, repeats=2)
    two = hb.bias_variance(classifier, X, y, repeats=2, n_jobs=2)
    assert (one.errors == two.errors).all()
    assert (one.bias, one.variance) == (two.bias, two.variance)
    with pytest.raises(hb.TableError, match="can't be sent to other processes"):
        hb.bias_variance(lambda: classifier, X, y, repeats=1, n_jobs=2)


def test_members_are_made_once_and_travel() -> None:
    table, *_ = drawn(3, 100, 3, 2, 0.0, 0.2)
    ensemble = hb.boost(table, "y", rounds=5)
    assert isinstance(ensemble.networks, LazyNetworks)
    assert ensemble.networks[1] is ensemble.networks[1] is ensemble[1:3].networks[0]
    assert ensemble.networks[-1] is list(ensemble.networks)[4]
    assert ensemble[:2].networks == ensemble.networks[:2] == tuple(ensemble.networks)[:2]
    assert ensemble.networks != ensemble.networks[:2]
    assert repr(ensemble.networks) == "<5 networks>"
    fresh = hb.boost(table, "y", rounds=5)
    for other in (pickle.loads(pickle.dumps(fresh)), copy.deepcopy(fresh)):
        assert (other.scores(table) == ensemble.scores(table)).all()


def test_memory_is_a_weight_a_row_beside_the_coded_data() -> None:
    rng = np.random.default_rng(0)
    peaks = {}
    for rows in (100_000, 200_000):
        x = rng.integers(0, 4, (8, rows), dtype=np.int8)
        data = {f"x{j}": column for j, column in enumerate(x)} | {"y": np.arange(1, 9) @ x > 54}
        table = hb.Table(data, discrete=list(data))
        hb.boost(table, "y", rounds=1)
        for rounds in (8, 16):
            tracemalloc.start()
            found = hb.boost(table, "y", rounds=rounds)
            peaks[rows, rounds] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert found.restarts == 0
    slopes = [(peaks[200_000, rounds] - peaks[100_000, rounds]) / 100_000 for rounds in (8, 16)]
    # the codes of eight columns of four states take four bytes, the class one, and the weight eight
    assert max(slopes) < 5 + 8 + 1
    # nothing else grows with the rounds but the members' tables
    assert peaks[200_000, 16] - peaks[200_000, 8] < 300_000
