"""Boosting: AdaBoost.M1 against a plain reference, over any builder, and what an ensemble answers."""

from __future__ import annotations

import io
import math
import pickle
import warnings
from contextlib import redirect_stderr
from functools import partial
from pathlib import Path
from typing import Any

import boosting_reference as reference
import numpy as np
import pytest
from narrowing import as_discrete, as_kind, known
from numpy.typing import NDArray

import hybridbn as hb
from hybridbn.fitting import MultinomialFitter
from hybridbn.fitting.multinomial import MaximumLikelihood
from hybridbn.learning import sample_weights, weak_learners
from hybridbn.learning.sample_weights import BootstrapSample
from hybridbn.structures import class_clusters, naive_bayes, nb_tree, tan


def slow(data: Any, target: str, potentials: Any = "multinomial") -> hb.Network:
    """Naive Bayes as any other builder, which boosting does not know."""
    return naive_bayes(data, target, potentials)


def made(
    rows: int, classes: int, seed: int = 0, columns: int = 5, missing: float = 0.0, noise: float = 0.3
) -> tuple[hb.Table, NDArray[np.intp], NDArray[np.intp], list[int]]:
    rng = np.random.default_rng(seed)
    sizes = [2 + j % 3 for j in range(columns)]
    x = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    y = (x[:, 0] * x[:, 1] + x[:, 2] + (rng.random(rows) < noise) * rng.integers(0, classes, rows)) % classes
    x[rng.random(x.shape) < missing] = -1
    variables = [hb.Discrete(f"x{j}", tuple(range(size))) for j, size in enumerate(sizes)]
    variables.append(hb.Discrete("y", tuple(range(classes))))
    data = {f"x{j}": [None if v < 0 else int(v) for v in x[:, j]] for j in range(columns)} | {"y": y}
    return hb.Table(data, variables=variables), x, y, sizes


def test_bootstrap_samples_are_those_of_single_rows() -> None:
    """How often a row is drawn has mean and variance of a binomial number, and equal rows share it."""
    table = hb.Table({"x": ["p", "q", "q", "r"]}, weights=[2.0, 1.0, 1.0, 4.0])
    draw = reference.draws_of(table)
    drawn = np.array([draw() for _ in range(4000)])
    assert (drawn.sum(axis=1) == 8).all()
    assert (drawn[:, 1] == drawn[:, 2]).all()
    sums = np.stack([drawn[:, 0], drawn[:, 1] + drawn[:, 2], drawn[:, 3]], axis=1)
    shares = np.array([2, 2, 4]) / 8
    np.testing.assert_allclose(sums.mean(axis=0), 8 * shares, atol=4 * np.sqrt(2 / 4000))
    np.testing.assert_allclose(sums.var(axis=0), 8 * shares * (1 - shares), rtol=0.1)


def test_samples_of_more_rows_than_memory_has_are_drawn_by_numbers_that_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_weights, "_BLOCK", 7)
    table = hb.Table({"x": np.arange(50.0)})
    rows = hb.scan(table.to_pandas(), sample=10)
    for places in (None, {0: 20, 30: 0}):
        sample = BootstrapSample.draw(np.random.default_rng(3), rows, places)
        assert sample.drawn.sum() == 50
        assert sample.drawn.dtype == np.uint8
        assert 25 < np.count_nonzero(sample.drawn) < 40
        again = pickle.loads(pickle.dumps(sample))
        assert len(pickle.dumps(sample)) < 300
        for first, size in ((0, 20), (30, 10)):
            batch, place = table[first : first + size], first if places is None else places[first]
            for each in (sample, again):
                weights = each.weigh(batch, first)
                assert (weights == sample.drawn[place : place + size]).all()
                assert weights.dtype == np.float64
    with pytest.raises(hb.TableError, match="other batches than before"):
        again.weigh(table[:5], 5)
    known = BootstrapSample.draw(np.random.default_rng(3), table, {0: 5})
    again = pickle.loads(pickle.dumps(known))
    assert (again.drawn == known.drawn).all()
    assert again.places == {0: 5}


def same(ensemble: hb.Ensemble, other: hb.Ensemble, tolerance: float = 1e-9) -> None:
    assert len(ensemble) == len(other)
    assert ensemble.restarts == other.restarts
    np.testing.assert_allclose(ensemble.votes, other.votes, rtol=tolerance, atol=tolerance)
    for mine, yours in zip(ensemble.networks, other.networks, strict=True):
        assert list(mine) == list(yours)
        for name in mine:
            np.testing.assert_allclose(
                as_kind(hb.Multinomial, mine.potential(name)).table,
                as_kind(hb.Multinomial, yours.potential(name)).table,
                rtol=0,
                atol=tolerance,
            )


@pytest.mark.parametrize("build", [None, naive_bayes, slow], ids=["default", "counted", "general"])
@pytest.mark.parametrize(("classes", "missing"), [(2, 0.0), (2, 0.2), (4, 0.0), (4, 0.2)])
def test_weights_votes_and_networks_are_those_of_the_reference(build: Any, classes: int, missing: float) -> None:
    table, x, y, sizes = made(300, classes, missing=missing)
    weights: list[NDArray[np.float64]] = []
    found = hb.boost(table, "y", build=build, rounds=20, progress=lambda done: weights.append(done.weights))
    models, votes, errors, expected = reference.adaboost_m1(x, y, sizes, classes, 20, reference.draws_of(table))
    np.testing.assert_allclose(found.votes, votes, atol=1e-9)
    np.testing.assert_allclose(known(found.errors), errors, atol=1e-9)
    np.testing.assert_allclose(weights, expected, atol=1e-9)
    for network, (prior, tables) in zip(found.networks, models, strict=True):
        np.testing.assert_allclose(as_kind(hb.Multinomial, network.potential("y")).table, prior, atol=1e-9)
        for j, own in enumerate(tables):
            np.testing.assert_allclose(as_kind(hb.Multinomial, network.potential(f"x{j}")).table, own, atol=1e-9)
    assert (found.posterior(table).probabilities.argmax(axis=1) == reference.voted(models, votes, x, classes)).all()


@pytest.mark.parametrize("floor", [1e-8, 0.3, 0.7])
@pytest.mark.parametrize("rounds", [25, 70])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_floor_of_weights(floor: float, rounds: int, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # 1e-8 takes very good networks for many rounds, so it is put higher as well
    monkeypatch.setattr(reference, "FLOOR", floor)
    for module in (sample_weights, weak_learners):
        monkeypatch.setattr(module, "FLOOR", floor)
    table, x, y, sizes = made(200, 2, noise=0.05)
    own = np.random.default_rng(0).uniform(0.5, 2, 200) if weighted else None
    weights: list[NDArray[np.float64]] = []
    found = hb.boost(table, "y", rounds=rounds, weights=own, progress=lambda done: weights.append(done.weights))
    same(found, hb.boost(table, "y", build=slow, rounds=rounds, weights=own))
    if floor > 1e-8 and not weighted:
        assert np.min(weights) < floor
        assert max(np.unique(own, return_counts=True)[1].max() for own in weights) > 50
    if not weighted:
        _, votes, _, expected = reference.adaboost_m1(x, y, sizes, 2, rounds, reference.draws_of(table))
        np.testing.assert_allclose(found.votes, votes, atol=1e-9)
        np.testing.assert_allclose(weights, expected, atol=1e-9)


def test_weights_are_split_by_what_a_network_gets_wrong() -> None:
    rows = hb.Table({"x": [1.0, 2.0, 3.0]}, weights=[0.5, 2.0, 4.0])
    weights = sample_weights.SampleWeights(None)
    split = weak_learners._split(weights, 1, lambda _: np.array([1.0, -1.0, 1.0]), rows, 0)
    np.testing.assert_array_equal(split.sums, [[4.5, 2.0]])
    np.testing.assert_array_equal(split.least, [1.0, 1.0])


@pytest.mark.parametrize("seed", range(4))
def test_the_training_error_keeps_its_bound(seed: int) -> None:
    table, _, y, _ = made(400, 2, seed=seed, noise=0.1)
    weights = np.random.default_rng(seed).uniform(0.5, 2, len(y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the bound holds up to the first restart, which ends the run here
        found = hb.boost(table, "y", rounds=30, weights=None if seed % 2 else weights, max_restarts=0)
    own = np.ones(len(y)) if seed % 2 else weights
    staged = [np.average(p.probabilities.argmax(axis=1) != y, weights=own) for p in found.staged_posterior(table)]
    assert found.errors is not None
    assert len(found) >= 3
    bound = np.cumprod(2 * np.sqrt(found.errors * (1 - found.errors)))
    assert (np.array(staged) <= bound + 1e-7).all()


def test_a_row_of_weight_two_is_two_rows() -> None:
    table, *_ = made(120, 2, noise=0.2)
    weights = np.random.default_rng(0).integers(0, 3, 120)
    twice = hb.boost(table.take(np.repeat(np.arange(120), weights)), "y", rounds=4, max_restarts=0)
    for build in (None, slow):
        same(hb.boost(table, "y", rounds=4, build=build, weights=weights, max_restarts=0), twice)
    same(hb.boost(table.with_weights(weights), "y", rounds=4, max_restarts=0), twice)


def test_rows_without_a_class_or_weight_do_not_count() -> None:
    table, *_ = made(100, 2)
    rows = np.r_[np.arange(100), np.arange(30)]
    longer = table.take(rows)
    unknown = longer.with_column("y", [*table.to_dict()["y"].tolist(), *[None] * 30])
    same(hb.boost(unknown, "y", rounds=8), hb.boost(table, "y", rounds=8))
    same(hb.boost(longer, "y", rounds=8, weights=[1] * 100 + [0] * 30), hb.boost(table, "y", rounds=8))


def test_priors_weigh_the_classes() -> None:
    table, _, y, _ = made(200, 2)
    weights = np.where(y == 1, 0.9 / (y == 1).mean(), 0.1 / (y == 0).mean())
    same(hb.boost(table, "y", rounds=6, priors={1: 0.9, 0: 0.1}), hb.boost(table, "y", rounds=6, weights=weights))


@pytest.mark.parametrize("builder", [tan, partial(nb_tree, max_depth=2), partial(class_clusters, random_state=0)])
def test_any_builder(builder: Any) -> None:
    table, _, y, _ = made(250, 2, missing=0.1)
    found = hb.boost(table, "y", build=builder, rounds=4)
    assert len(found) == 4
    assert (found.predict(table) == y).mean() > 0.6
    again = hb.boost(table, "y", build=builder, rounds=4)
    assert (again.votes == found.votes).all()


def test_arcs_and_networks_keep_their_structure() -> None:
    table, *_ = made(200, 2)
    arcs = [("y", "x0"), ("y", "x1"), ("x0", "x1")]
    found = hb.boost(table, "y", build=arcs, rounds=3)
    assert all({*arcs} == set(network.edges) for network in found.networks)
    again = hb.boost(table, "y", build=found.networks[0], rounds=3)
    np.testing.assert_allclose(again.votes, found.votes)


def numbers(rows: int = 300) -> hb.Table:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    x = rng.normal(size=(3, rows)) + np.outer([1.5, 0.0, -1.0], y)
    x[:, ::7] = np.nan
    return hb.Table({"a": x[0], "b": x[1], "c": x[2], "y": np.where(y, "yes", "no")})


def test_numbers_are_cut_once_or_in_each_round() -> None:
    data = numbers()
    once = hb.boost(data, "y", rounds=6)
    cuts = {as_discrete(network.variable("a")).cuts for network in once.networks}
    assert cuts == {as_discrete(naive_bayes(data, "y", "multinomial").variable("a")).cuts}
    each = hb.boost(data, "y", rounds=6, refit_cuts=True)
    assert len({as_discrete(network.variable("a")).cuts for network in each.networks}) > 1
    for found in (once, each):
        assert (found.posterior(data).probabilities.argmax(axis=1) == data["y"]).mean() > 0.75
        assert found.predict({"a": 3.0}) == "yes"


def test_densities_can_be_boosted() -> None:
    data = numbers()
    found = hb.boost(data, "y", rounds=4, potentials="gaussian")
    assert isinstance(found.networks[0].potential("a"), hb.LinearGaussian)
    kept = hb.boost(data, "y", build=partial(naive_bayes, potentials="gaussian"), rounds=4)
    np.testing.assert_allclose(kept.votes, found.votes)
    assert (found.posterior(data).probabilities.argmax(axis=1) == data["y"]).mean() > 0.75


def test_restarts_are_counted_and_capped() -> None:
    rng = np.random.default_rng(0)
    coins = {"x": rng.integers(0, 2, 100).tolist(), "y": [0, 1] * 50}
    table = hb.Table(coins, discrete=["x", "y"])
    with pytest.warns(UserWarning, match="max_restarts=3 restarts were not enough"):
        found = hb.boost(table, "y", rounds=200, max_restarts=3)
    assert 0 < len(found) < 200
    assert found.restarts == 3
    easy = hb.Table({"x": [0, 1] * 20, "y": [0, 1] * 20}, discrete=["x", "y"])
    found = hb.boost(easy, "y", rounds=5)
    assert found.restarts == 5
    np.testing.assert_allclose(found.votes, math.log(1e10))
    assert len({tuple(as_kind(hb.Multinomial, network.potential("y")).table) for network in found.networks}) > 1


def test_restarts_leave_no_column_without_values() -> None:
    """Of 40 rows a sample takes 25 or so: a column that is observed in two of them is often not among these."""
    data = {"x": ["u", "v"] * 20, "rare": ["p", "q"] + [None] * 38, "c": ["a", "b"] * 20}
    ensemble = hb.boost(data, "c", "nb_tree", rounds=25, random_state=0)
    assert ensemble.restarts > 3
    assert all("rare" in network for network in ensemble.networks)


def test_where_nothing_works_the_first_network_remains() -> None:
    def contrary(data: hb.Table, target: str, potentials: Any = None) -> hb.Network:
        own = naive_bayes(data, target, "multinomial")
        own.add(
            hb.Multinomial(
                as_discrete(own.variable("x")),
                (as_discrete(own.variable("y")),),
                table=as_kind(hb.Multinomial, own.potential("x")).table[::-1],
            )
        )
        return own

    table = hb.Table({"x": [0, 1] * 20, "y": [0, 1] * 20}, discrete=["x", "y"])
    with pytest.warns(UserWarning, match="the first network alone, with a vote of 1"):
        found = hb.boost(table, "y", build=contrary, rounds=5, max_restarts=4)
    assert len(found) == 1
    assert found.votes.tolist() == [1.0]
    assert found.errors is not None
    assert found.errors[0] == 1.0


def test_early_stopping() -> None:
    table, _, y, _ = made(600, 2, noise=0.6)
    told: list[Any] = []
    found = hb.boost(table, "y", rounds=200, validation=0.3, patience=5, progress=told.append)
    held = [done.held_out for done in told]
    assert len(told) < 200
    assert len(found) == int(np.argmin(held)) + 1
    given = hb.boost(table[:400], "y", rounds=200, validation=table[400:], patience=5)
    errors = [np.mean(p.mode() != y[400:]) for p in given.staged_posterior(table[400:])]
    assert errors[-1] == min(errors)


def test_progress_as_a_bar() -> None:
    table, *_ = made(100, 2)
    written = io.StringIO()
    with redirect_stderr(written):
        hb.boost(table, "y", rounds=4, progress=True)
    assert "4/4" in written.getvalue()


def test_the_same_seed_gives_the_same_ensemble() -> None:
    table, *_ = made(150, 2, noise=0.9)
    assert hb.boost(table, "y", rounds=15).restarts > 0
    same(hb.boost(table, "y", rounds=15, random_state=4), hb.boost(table, "y", rounds=15, random_state=4), 0.0)


def test_answers_agree_with_votes_by_hand() -> None:
    table, x, _, _ = made(200, 3, missing=0.15)
    found = hb.boost(table, "y", rounds=7)
    totals = np.zeros((200, 3))
    for number, (network, vote) in enumerate(zip(found.networks, found.votes, strict=True)):
        best = as_discrete(network.posterior("y", table)).probabilities.argmax(axis=1)
        totals[np.arange(200), best] += vote
        staged = list(found.staged_posterior(table))[number]
        expected = np.exp(totals) / np.exp(totals).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(staged.probabilities, expected, atol=1e-12)
    np.testing.assert_allclose(found.scores(table), totals, atol=1e-12)
    case = {f"x{j}": int(v) for j, v in enumerate(x[0]) if v >= 0}
    np.testing.assert_allclose(found.scores(case), totals[0], atol=1e-12)
    assert found.predict(case) == found.classify(table)[0]
    assert found[:3].networks == found.networks[:3]
    assert len(found.posterior(table[:0])) == 0


def test_an_ensemble_holds_nothing_that_was_given_to_it() -> None:
    table, *_ = made(60, 2)
    networks, votes, errors = (
        [naive_bayes(table, "y"), naive_bayes(table, "y")],
        np.array([1.0, 2.0]),
        np.array([0.3, 0.2]),
    )
    ensemble = hb.Ensemble(networks, votes, "y", errors=errors)
    before = ensemble.scores({"x0": 1})
    networks.pop()
    votes[:], errors[:] = 7.0, 7.0
    assert len(ensemble) == 2
    assert (ensemble.scores({"x0": 1}) == before).all()
    assert (known(ensemble.errors) == [0.3, 0.2]).all()


def test_evidence_of_any_kind() -> None:
    table, *_ = made(200, 2)
    found = hb.boost(table, "y", rounds=5)
    sure, vague = found.scores({"x2": {1}}), found.scores({"x2": {0: 0.0, 1: 1.0}})
    np.testing.assert_allclose(sure, vague)
    np.testing.assert_allclose(sure, found.scores({"x2": 1}))
    with pytest.raises(hb.HybridBNError, match="no node"):
        found.predict({"nonsense": 1})


def test_impossible_rows() -> None:
    table = hb.Table({"x": ["p", "p", "q", "q"] * 5, "y": ["a", "a", "b", "a"] * 5}, variables=[
        hb.Discrete("x", ("p", "q", "never")), hb.Discrete("y", ("a", "b"))
    ])  # fmt: skip
    found = hb.boost(table, "y", rounds=3, potentials=MultinomialFitter(estimate=MaximumLikelihood()), max_restarts=50)
    with pytest.raises(hb.ImpossibleEvidence) as caught:
        found.posterior(hb.Table({"x": ["p", "never"]}))
    assert caught.value.rows == (1,)
    answer = found.posterior(hb.Table({"x": ["p", "never"]}), impossible="nan").probabilities
    assert np.isnan(answer[1]).all()
    assert not np.isnan(answer[0]).any()


def test_save_and_load(tmp_path: Path) -> None:
    table, *_ = made(150, 3, missing=0.1)
    for build in (None, partial(nb_tree, max_depth=1)):
        found = hb.boost(table, "y", build=build, rounds=4)
        found.save(tmp_path / "model.hbn")
        for again in (hb.load(tmp_path / "model.hbn"), hb.Ensemble.load(tmp_path / "model.hbn")):
            assert (again.scores(table) == found.scores(table)).all()  # type: ignore[union-attr]
            assert (again.restarts, again.algorithm, again.target) == (found.restarts, "m1", "y")  # type: ignore[union-attr]
    found.networks[0].save(tmp_path / "one.hbn")
    with pytest.raises(hb.TableError, match="holds a network"):
        hb.Ensemble.load(tmp_path / "one.hbn")


def test_bad_input() -> None:
    table, *_ = made(60, 3)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"rounds": 0}, "rounds must be"),
        ({"rounds": True}, "rounds must be"),
        ({"algorithm": "m2"}, "'m1' or 'real'"),
        ({"algorithm": "real"}, "two classes"),
        ({"patience": 0}, "patience"),
        ({"max_restarts": -1}, "max_restarts"),
        ({"progress": 3}, "progress"),
        ({"validation": 1.5}, "between 0 and 1"),
        ({"validation": table.drop("y")}, "no column 'y'"),
        ({"priors": {0: 1.0}}, "give one for each"),
        ({"priors": {0: 0.5, 1: 0.6, 2: 0.1}}, "add up to 1"),
        ({"weights": [1, 2]}, "weights"),
        ({"build": 3}, "build must be"),
        ({"potentials": "nonsense"}, "not known"),
    ]
    for options, text in wrong:
        with pytest.raises(hb.HybridBNError, match=text):
            hb.boost(table, "y", **options)
    for target, text in [("nonsense", "no column"), (3, "name of a column")]:
        with pytest.raises(hb.HybridBNError, match=text):
            hb.boost(table, target)  # type: ignore[arg-type]
    with pytest.raises(hb.TableError, match="continuous"):
        hb.boost({"x": [0, 1], "y": [0.5, 1.5]}, "y")
    with pytest.raises(hb.TableError, match="needs two classes"):
        hb.boost({"x": ["a", "b"], "y": ["c", "c"]}, "y")
    with pytest.raises(hb.TableError, match="no row"):
        hb.boost(hb.Table({"x": ["a", "b"], "y": [None, None]}, variables=[
            hb.Discrete("x", ("a", "b")), hb.Discrete("y", (0, 1))]), "y")  # fmt: skip
    network = hb.boost(table, "y", rounds=1).networks[0]
    for arguments, text in [
        (([], [], "y"), "at least one network"),
        (([network], [1, 2], "y"), "2 votes for 1"),
        (([network], [-1], "y"), "positive"),
        (([network], [1], "x9"), "no node"),
        (([network], [1], "y", "real"), "two classes"),
        (([network], [1], "y", "other"), "algorithm"),
    ]:
        with pytest.raises(hb.HybridBNError, match=text):
            hb.Ensemble(*arguments)  # type: ignore[arg-type]


def test_no_warnings_in_ordinary_use() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hb.boost(numbers(), "y", rounds=20)
