from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind
from scipy import stats

import hybridbn as hb
from hybridbn.estimation.completion import Completion, RowLevels, fill_table, find_holes
from hybridbn.fitting import MTEFitter, fit
from hybridbn.learning.augmentation import History, Step, augment
from hybridbn.options import Options
from hybridbn.structures import naive_bayes, tan
from hybridbn.structures.building import Build

OPTIONS = Options()


def with_holes(frame: pd.DataFrame, rate: float, seed: int = 0) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < rate)


def regression_data(n: int = 150, seed: int = 0) -> pd.DataFrame:
    """Two numbers and a class that depend on a number, the response."""
    rng = np.random.default_rng(seed)
    y = rng.normal(10, 2, n)
    return pd.DataFrame({
        "u": y + rng.normal(0, 1, n),
        "v": -2 * y + rng.normal(0, 3, n),
        "c": np.where(y + rng.normal(0, 2, n) > 10, "high", "low"),
        "y": y,
    })  # fmt: skip


def numbers(n: int = 150, seed: int = 0) -> pd.DataFrame:
    return regression_data(n, seed).drop(columns="c")


def gaussian_reference(data: Any, target: int, random_state: int) -> tuple[list[float], Any]:
    """Algorithm 1 for Gaussian naive Bayes, in closed form and with loops over the cells, as the paper writes it."""
    rng = np.random.default_rng(random_state)
    n, columns = data.shape
    holes = np.isnan(data)
    with_any = [j for j in range(columns) if holes[:, j].any()]
    others = [j for j in range(columns) if j != target]

    def normals() -> Any:
        table = np.full(data.shape, np.nan)
        table[:, with_any] = stats.norm.ppf(rng.random((n, len(with_any))))
        return table

    def learn(d: Any) -> Any:
        y = d[:, target]
        lines = {j: np.polyfit(y, d[:, j], 1) for j in others}
        return (
            y.mean(),
            y.var(),
            {j: (line, np.mean((d[:, j] - np.polyval(line, y)) ** 2)) for j, line in lines.items()},
        )

    def response(model: Any, row: Any) -> tuple[float, float]:
        mean, variance, lines = model
        precision, total = 1 / variance, mean / variance
        for j, ((slope, intercept), noise) in lines.items():
            if not np.isnan(row[j]):
                precision += slope**2 / noise
                total += slope * (row[j] - intercept) / noise
        return total / precision, 1 / precision

    def srmse(model: Any) -> float:
        known = [i for i in range(n) if not holes[i, target]]
        return math.sqrt(np.mean([(data[i, target] - response(model, data[i])[0]) ** 2 for i in known]))

    filled, z = data.copy(), normals()
    for j in with_any:
        seen = data[~holes[:, j], j]
        filled[holes[:, j], j] = seen.mean() + seen.std() * z[holes[:, j], j]
    model = learn(filled)
    errors, best, completed = [srmse(model)], math.inf, filled
    while errors[-1] < best:
        best, completed, z = errors[-1], data.copy(), normals()
        for i in range(n):
            mean, variance = response(model, data[i])
            for j in others:
                if holes[i, j]:
                    (slope, intercept), noise = model[2][j]
                    y = data[i, target]
                    m, v = (y, 0.0) if not holes[i, target] else (mean, variance)
                    completed[i, j] = slope * m + intercept + math.sqrt(slope**2 * v + noise) * z[i, j]
            if holes[i, target]:
                completed[i, target] = mean
        model = learn(completed)
        errors.append(srmse(model))
    return errors, completed


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_algorithm_1_step_by_step(seed: int) -> None:
    frame = with_holes(numbers(seed=seed), 0.3, seed)
    result = augment(frame, "y", potentials="gaussian", random_state=seed)
    errors, completed = gaussian_reference(frame.to_numpy(), 2, seed)
    assert result.history.srmse == pytest.approx(errors, rel=1e-9)
    np.testing.assert_allclose(result.completed.to_numpy(), completed, rtol=1e-7)
    assert result.history.best == len(errors) - 2
    assert result.converged


def test_the_network_returned_is_the_best_one() -> None:
    frame = with_holes(numbers(), 0.3)
    result = augment(frame, "y", potentials="gaussian", random_state=0, patience=3)
    best, table = result.history.best, hb.Table(frame)
    assert result.history.srmse[best] == result.history.srmse.min()
    assert len(result.history) == best + 4
    known = ~frame["y"].isna()
    gap = (result.network.posterior("y", table).mean() - frame["y"])[known]
    assert math.sqrt(np.mean(gap**2)) == pytest.approx(result.history.srmse[best], rel=1e-9)
    assert result.network.log_density(table).sum() == pytest.approx(result.history.log_likelihood[best])
    missing = ~known
    expected = result.network.posterior("y", table).mean()[missing]
    np.testing.assert_allclose(result.completed["y"][missing], expected)
    assert "srmse" in repr(result)


@pytest.mark.parametrize("family", ["gaussian", "mte"])
def test_proposition_1(family: str) -> None:
    # a simulated response has twice the mean square error of the conditional expectation: Eq. (4) and its proof
    network = naive_bayes(numbers(500), "y", family)  # type: ignore[arg-type]
    test = network.sample(4000, random_state=0)
    drawn = network.posterior("y", test).sample(random_state=1)
    expected = network.posterior("y", test).mean()
    by_draw, by_mean = np.mean((test["y"] - drawn) ** 2), np.mean((test["y"] - expected) ** 2)
    assert by_draw == pytest.approx(2 * by_mean, rel=0.1)


def test_expectation_against_simulation_of_the_response() -> None:
    full = numbers(600)
    holes = with_holes(full[["y"]], 0.4, 3)["y"]
    frame, missing = full.assign(y=holes), holes.isna()
    errors = {
        response: np.mean(
            (augment(frame, "y", potentials="gaussian", response=response, random_state=0).completed["y"] - full["y"])[
                missing
            ]
            ** 2
        )
        for response in ("expectation", "simulation")
    }
    assert errors["expectation"] < 0.7 * errors["simulation"]


def test_simulated_cells_follow_the_exact_conditionals() -> None:
    frame = regression_data(3000, seed=5)
    table = hb.Table(with_holes(frame, 0.4))
    network = fit([("y", "u"), ("u", "v"), ("y", "c")], frame, "mte")
    cells = Completion(network, OPTIONS).draw_separately(
        table, RowLevels.draw(np.random.default_rng(2), table).of(table, 0)
    )
    drawn = {name: cells[name][missing] for name, missing in find_holes(table).items()}
    for name in ("u", "y"):
        rows = np.flatnonzero(find_holes(table)[name])[:400]
        part = table.drop(name).take(rows)
        levels = [
            post.cdf(value) for post, value in zip(network.posterior(name, part), drawn[name][: len(rows)], strict=True)
        ]
        assert stats.kstest(levels, "uniform").pvalue > 1e-4
    rows = np.flatnonzero(find_holes(table)["c"])
    probability = as_discrete(network.posterior("c", table.drop("c").take(rows))).probabilities[:, 0]
    z = ((drawn["c"] == 0) - probability).sum() / math.sqrt((probability * (1 - probability)).sum())
    assert abs(z) < 4


def test_filling_a_row_does_not_depend_on_the_others() -> None:
    frame = with_holes(regression_data(400), 0.4)
    network = fit([("y", "u"), ("u", "v"), ("y", "v")], frame[["u", "v", "y"]], "gaussian")
    for count in (50, 400):
        holes = hb.Table(frame[["u", "v", "y"]][:count])
        levels, completion = RowLevels.draw(np.random.default_rng(0), holes).of(holes, 0), Completion(network, OPTIONS)
        for fill in (completion.draw, completion.draw_separately):
            table = fill_table(holes, fill(holes, levels)).to_pandas()[:50]
            if count == 50:
                kept = {**locals().get("kept", {}), fill.__name__: table}
            else:
                pd.testing.assert_frame_equal(kept[fill.__name__], table)


def drift(joint: bool, sweeps: int = 25) -> tuple[float, float]:
    """Start data augmentation at the truth; return the largest z of the parameters' means over the sweeps."""
    a, x, y = hb.Discrete("a", ("n", "y")), hb.Continuous("x"), hb.Continuous("y")
    b = hb.Discrete("b", ("n", "y"))
    truth = hb.Network([
        hb.Multinomial(a, table=[0.6, 0.4]),
        hb.Multinomial(b, parents=(a,), table=[[0.9, 0.1], [0.2, 0.8]]),
        hb.LinearGaussian(x, parents=(a,), intercept=[0, 2], variance=[1, 1]),
        hb.LinearGaussian(y, parents=(b, x), intercept=[0, 1], coefficients=[[1], [-1]], variance=[0.5, 0.5]),
    ])  # fmt: skip
    n = 5000
    frame = truth.sample(n, random_state=1)
    table = hb.Table(with_holes(frame, 0.3, 2))
    rng = np.random.default_rng(3)
    network, slopes, tables = truth, [], []
    for _sweep in range(sweeps):
        completion = Completion(network, OPTIONS)
        cells = (completion.draw if joint else completion.draw_separately)(
            table, RowLevels.draw(rng, table).of(table, 0)
        )
        network = fit(list(truth.edges), fill_table(table, cells), "gaussian")
        slopes.append(as_kind(hb.LinearGaussian, network.potential("y")).coefficients.ravel())
        tables.append(as_kind(hb.Multinomial, network.potential("b")).table[:, 0])
    # standard errors of the rows whose family is complete, .7 ** 3 or .7 ** 2 of all
    slope_error = np.sqrt(0.5 / (n * 0.5 * 0.34 * 1.0))
    table_error = np.sqrt(np.array([0.09, 0.16]) / (n * np.array([0.6, 0.4]) * 0.49))
    return (
        float(np.abs((np.mean(slopes, axis=0) - [1, -1]) / slope_error).max()),
        float(np.abs((np.mean(tables, axis=0) - [0.9, 0.2]) / table_error).max()),
    )


def test_data_augmentation_is_stationary_at_the_truth() -> None:
    assert max(drift(joint=True)) < 5


def test_cells_drawn_one_by_one_lose_correlation() -> None:
    # what the docstring says of joint=False, and the proof that the test above would notice
    assert max(drift(joint=False, sweeps=10)) > 8


def test_joint_draws_keep_correlation() -> None:
    x, y = hb.Continuous("x"), hb.Continuous("y")
    network = hb.Network([
        hb.LinearGaussian(x, intercept=0, variance=1),
        hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[0.9], variance=0.19),
    ])  # fmt: skip
    table = hb.Table({"x": [None] * 2000 + [0.0], "y": [None] * 2000 + [0.0]})
    levels, completion = RowLevels.draw(np.random.default_rng(0), table).of(table, 0), Completion(network, OPTIONS)
    drawn = completion.draw(table, levels)
    assert np.corrcoef(drawn["x"], drawn["y"])[0, 1] == pytest.approx(0.9, abs=0.02)
    apart = completion.draw_separately(table, levels)
    assert abs(np.corrcoef(apart["x"], apart["y"])[0, 1]) < 0.1


# -- every kind of build= and of column -------------------------------------------------------------------------------


def selecting(data: Any, target: str) -> hb.Network:
    table = hb.Table(data)
    return naive_bayes(table.drop("v"), target, "gaussian")


BUILDS = {
    "default": None,
    "naive_bayes": naive_bayes,
    "partial": partial(naive_bayes, potentials="gaussian"),
    "tan": partial(tan, potentials="mte"),
    "selecting": selecting,
    "edges": [("u", "y"), ("y", "v"), ("c", "y")],
    "Network": fit([("u", "y"), ("c", "v")], regression_data(), "gaussian"),
    "discretized": partial(naive_bayes, potentials="multinomial"),
    "mixed": partial(naive_bayes, potentials={"u": MTEFitter(), "v": "gaussian", "y": "gaussian", "c": "mte"}),
}


@pytest.mark.parametrize(
    "build",
    [pytest.param(build, id=name, marks=[pytest.mark.slow] * (name == "mixed")) for name, build in BUILDS.items()],
)
@pytest.mark.parametrize("target", ["y", pytest.param("c", marks=pytest.mark.slow)])
def test_builders_networks_and_arcs(build: Any, target: str) -> None:
    frame = with_holes(regression_data(70), 0.25)
    before = frame.copy()
    result = augment(frame, target, build, random_state=0, max_iterations=3)
    pd.testing.assert_frame_equal(frame, before)
    assert isinstance(result.completed, pd.DataFrame)
    assert not result.completed.isna().any().any()
    seen = frame.notna()
    pd.testing.assert_frame_equal(result.completed.where(seen), frame)
    assert target in result.network
    assert np.isfinite(result.history.srmse).all()
    assert np.isfinite(result.history.log_likelihood).all()
    if isinstance(build, hb.Network):
        assert list(result.network.edges) == list(build.edges)
    if build is selecting:
        assert "v" not in result.network


def test_potentials_are_handed_over() -> None:
    frame = with_holes(numbers(), 0.2)
    for build in (None, naive_bayes, [("y", "u")]):
        result = augment(frame, "y", build, "gaussian", random_state=0)
        assert result.network.potential("u").family == "gaussian"
    own = augment(frame, "y", potentials="gaussian", random_state=0)
    builders = augment(frame, "y", naive_bayes, "gaussian", random_state=0)
    pd.testing.assert_frame_equal(own.completed, builders.completed)


def test_default_build_is_naive_bayes_discretization_included() -> None:
    frame = regression_data()
    own, builders = Build.of(None).learn(hb.Table(frame), "c", "multinomial"), naive_bayes(frame, "c", "multinomial")
    assert {n: own.variable(n) for n in own} == {n: builders.variable(n) for n in builders}
    assert set(own.edges) == set(builders.edges)
    np.testing.assert_allclose(
        as_kind(hb.Multinomial, own.potential("u")).table, as_kind(hb.Multinomial, builders.potential("u")).table
    )


def test_discrete_response_gets_its_most_probable_state() -> None:
    frame = with_holes(regression_data(), 0.3)
    result = augment(frame, "c", potentials="gaussian", random_state=0)
    rows = np.flatnonzero(frame["c"].isna())
    post = result.network.posterior("c", hb.Table(frame))
    assert result.completed["c"].to_numpy()[rows].tolist() == post.mode()[rows].tolist()
    known = np.flatnonzero(frame["c"].notna())
    indicators = frame["c"].to_numpy()[known, None] == np.array(as_discrete(post).states)
    brier = math.sqrt(np.mean(((indicators - as_discrete(post).probabilities[known]) ** 2).sum(axis=1)))
    assert result.history.srmse[result.history.best] == pytest.approx(brier)


def test_discretized_columns_are_filled_with_numbers_that_were_seen() -> None:
    frame = with_holes(regression_data(), 0.3)
    result = augment(frame, "y", partial(naive_bayes, potentials="multinomial"), random_state=0)
    for name in ("u", "v"):
        filled = result.completed[name][frame[name].isna()]
        assert set(filled) <= set(frame[name].dropna())
        assert filled.nunique() > 10
    low, high = frame["y"].min(), frame["y"].max()
    assert result.completed["y"].between(low, high).all()


def test_hidden_nodes_are_summed_out_and_drawn_along() -> None:
    kind, x, y = hb.Discrete("kind", (0, 1)), hb.Continuous("x"), hb.Continuous("y")
    hidden = hb.Network([
        hb.Multinomial(kind, table=[0.5, 0.5]),
        hb.LinearGaussian(x, parents=(kind,), intercept=[-3, 3], variance=[1, 1]),
        hb.LinearGaussian(y, parents=(kind,), intercept=[-3, 3], variance=[1, 1]),
    ])  # fmt: skip
    frame = hidden.sample(300, random_state=0)[["x", "y"]]
    for joint in (False, True):
        result = augment(with_holes(frame, 0.3), "y", lambda data, target: hidden, random_state=0, joint=joint)
        assert "kind" not in result.completed
        both = with_holes(frame, 0.3).isna().all(axis=1)
        assert both.sum() > 10
        if joint:
            same = np.sign(result.completed["x"]) == np.sign(result.completed["y"])
            drawn = with_holes(frame, 0.3)["x"].isna()
            assert same[drawn & ~both].mean() > 0.95


def test_kinds_of_tables() -> None:
    frame = with_holes(regression_data(), 0.2).astype({"c": "category"})
    result = augment(frame, "y", potentials="gaussian", random_state=0)
    assert result.completed["c"].dtype == frame["c"].dtype
    table = augment(hb.Table(frame), "y", potentials="gaussian", random_state=0).completed
    assert isinstance(table, hb.Table)
    assert not any(table.missing.values())
    mapping = {name: frame[name].to_numpy() for name in ("u", "y")}
    assert set(augment(mapping, "y", potentials="gaussian", random_state=0).completed) == {"u", "y"}


def test_a_complete_table_is_learned_once() -> None:
    frame = numbers()
    result = augment(frame, "y", potentials="gaussian")
    assert len(result.history) == 1
    assert result.converged
    pd.testing.assert_frame_equal(result.completed, frame)
    expected = as_kind(hb.LinearGaussian, naive_bayes(frame, "y", "gaussian").potential("u")).coefficients
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, result.network.potential("u")).coefficients, expected)


def test_weights_count_rows() -> None:
    frame = with_holes(numbers(), 0.3)
    some = np.arange(len(frame)) % 3 > 0
    weighted = augment(frame, "y", potentials="gaussian", weights=some.astype(float), random_state=0)
    assert len(weighted.completed) == len(frame)
    assert not weighted.completed.isna().any().any()
    known = some & frame["y"].notna().to_numpy()
    gap = weighted.network.posterior("y", hb.Table(frame)).mean() - frame["y"].to_numpy()
    assert weighted.history.srmse.min() == pytest.approx(math.sqrt(np.mean(gap[known] ** 2)))


def test_the_same_random_state_gives_the_same_result() -> None:
    frame = with_holes(numbers(), 0.3)
    first, second, other = (augment(frame, "y", potentials="gaussian", random_state=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.completed, second.completed)
    assert not first.completed.equals(other.completed)


def test_history() -> None:
    history = History((Step(0, 2.0, -9.0), Step(1, 1.5, -8.0)))
    assert [step.srmse for step in history] == [2.0, 1.5]
    assert history["log_likelihood"].tolist() == [-9.0, -8.0]
    assert history.to_pandas()["srmse"].tolist() == [2.0, 1.5]


def test_history_is_plotted() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    result = augment(with_holes(numbers(), 0.3), "y", potentials="gaussian", random_state=0)
    for plot in (result.plot, result.history.plot):
        axes = plot()
        assert axes.get_ylabel() == "srmse"
        assert len(axes.lines[0].get_xdata()) == len(result.history)
        axes.figure.canvas.draw()
        pyplot.close(axes.figure)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "q"}, "no column 'q'"),
        ({"response": "mean"}, "response must be"),
        ({"patience": 0}, "patience must be a whole number of at least 1"),
        ({"max_iterations": 1.5}, "max_iterations must be"),
        ({"build": 3}, "build must be a builder"),
        ({"build": lambda data, target: 1}, "must return a Network"),
        ({"build": lambda data, target: fit([], hb.Table(data).drop("y"), "gaussian")}, "without the target"),
        ({"build": [("y", "q")]}, "no such column"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    frame = with_holes(regression_data(40), 0.2)
    with pytest.raises(hb.HybridBNError, match=message):
        augment(frame, **{"target": "y", "potentials": None if "build" in options else "gaussian", **options})


def test_bad_data() -> None:
    frame = with_holes(regression_data(40), 0.2)
    with pytest.raises(hb.TableError, match="'y' has no observed value"):
        augment(frame.assign(y=np.nan), "y")
    with pytest.warns(UserWarning, match="'u' \\(no value\\); the network has no such node"):
        assert "u" not in augment(frame.assign(u=np.nan), "y", max_iterations=2).network
    with pytest.raises(hb.TableError, match="not known in any row of positive weight"):
        augment(frame, "y", weights=frame["y"].isna().astype(float))
    with pytest.raises(hb.TableError, match="the table has no rows"):
        augment(frame[:0], "y")


def test_rows_without_any_value_and_impossible_rows() -> None:
    frame = with_holes(numbers(60), 0.2)
    frame.loc[7] = None
    assert not augment(frame, "y", potentials="gaussian", random_state=0).completed.isna().any().any()
    a, b = hb.Discrete("a", (0, 1)), hb.Discrete("b", (0, 1))
    copy = hb.Network([
        hb.Multinomial(a, table=[1.0, 0.0]), hb.Multinomial(b, parents=(a,), table=[[1.0, 0.0], [0.0, 1.0]])
    ])  # fmt: skip
    table, completion = hb.Table({"a": [0, None, None], "b": [None, 0, 1]}, variables=(a, b)), Completion(copy, OPTIONS)
    for fill in (completion.draw, completion.draw_separately):
        with pytest.raises(hb.ImpossibleEvidence, match="row 2 have probability zero") as caught:
            fill(table, RowLevels.draw(np.random.default_rng(0), table).of(table, 0))
        assert caught.value.rows == (2,)


def test_a_model_without_numbers_is_refused() -> None:
    frame = with_holes(numbers(60), 0.2)[["u", "y"]]

    def broken(data: Any, target: str) -> hb.Network:
        network = naive_bayes(data, target, "gaussian")
        potential = network.potential("u")
        object.__setattr__(potential, "intercept", np.array(np.nan))
        return network

    with pytest.raises(
        hb.NetworkError, match=r"rows 0, 1, 2, .* no density \(NaN\); the potentials of 'u' are at fault"
    ):
        augment(frame, "y", broken)


# -- errors that are not known ----------------------------------------------------------------------------------------


def test_the_best_model_is_none_whose_error_is_not_known() -> None:
    def best_of(*errors: float) -> int:
        return History(tuple(Step(number, error, -1.0) for number, error in enumerate(errors))).best

    assert (best_of(2.5, math.nan, 2.0, math.nan), best_of(math.nan, 3.0, 3.0), best_of(math.nan)) == (2, 1, 0)


@pytest.mark.parametrize("share", [0.2, 0.27, 0.6])
def test_heavy_points_do_not_take_the_mean_from_exponential_tails(share: float) -> None:
    rng = np.random.default_rng(5)
    values = stats.t(2).rvs(400, random_state=rng)
    values[: int(share * 400)] = 0.125
    net = hb.fit([], {"y": values}, potentials="mte")
    posterior = net.posterior("y")
    draws = net.sample(200_000, random_state=1)["y"].to_numpy()
    assert abs(posterior.mean() - draws.mean()) < 5 * draws.std() / math.sqrt(len(draws))
    assert posterior.std() == pytest.approx(draws.std(), rel=0.1)


def test_no_error_of_a_run_with_exponential_tails_is_unknown() -> None:
    rng = np.random.default_rng(1)
    size = 200
    a, b = rng.standard_t(3, size), np.exp(rng.normal(size=size))
    frame = pd.DataFrame(
        {"a": a, "b": b, "y": a + rng.standard_t(2, size) * b * 0.5, "g": rng.choice(["a", "b"], size)}
    )
    for name in ("a", "b", "y"):
        frame.loc[rng.random(size) < 0.2, name] = np.nan
    result = augment(frame, "y", "hill_climb", potentials="mte", random_state=0)
    assert np.isfinite(result.history.srmse).all()
    assert result.completed.notna().all(axis=None)


def test_the_median_is_expected_where_there_is_no_mean() -> None:
    y = hb.Continuous("y")
    net = hb.Network([hb.Density(y, function=lambda y: stats.cauchy.pdf(y, 0.5, 0.25))])
    table = hb.Table({"y": [np.nan, 1.0]}, variables=[y])
    model, posterior = Completion.of(net, table, Options()), net.posterior("y", hb.Table({"y": [2.0, 1.0]}))
    with pytest.warns(UserWarning, match="has no mean"):
        expected = model.expectation(table, posterior)
    assert expected == pytest.approx(0.5, abs=1e-6)
