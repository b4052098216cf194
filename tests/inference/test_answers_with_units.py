"""Answers are what the values of a variable are: dates of dates, durations of durations, numbers of amounts."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous

import hybridbn as hb
from hybridbn.estimators import HybridRegressor
from hybridbn.units import DAY

RNG = np.random.default_rng(8)
ROWS, GIVEN = 80, 6
EARLY = RNG.integers(0, 300, ROWS)
LATE = EARLY + RNG.integers(1, 20, ROWS)
START = pd.Timestamp("2024-01-01")


class Kind(NamedTuple):
    """A kind of values: how a column holds k of its steps, and the types of values and of differences among answers."""

    make: Callable[[int], Any]
    values: str
    differences: str = "m"


KINDS = {
    "date": Kind(lambda k: (START + pd.Timedelta(days=k)).date(), "M"),
    "timestamp": Kind(lambda k: START + pd.Timedelta(days=k), "M"),
    "text of a date": Kind(lambda k: f"{START + pd.Timedelta(days=k):%d.%m.%Y}", "M"),
    "hour": Kind(lambda k: START + pd.Timedelta(hours=k), "M"),
    "zone": Kind(lambda k: (START + pd.Timedelta(hours=k)).tz_localize("Europe/Berlin", ambiguous=True), "M"),
    "time of day": Kind(lambda k: datetime.time(k // 60, k % 60), "m"),
    "duration": Kind(lambda k: datetime.timedelta(days=k), "m"),
    "text of hours": Kind(lambda k: f"{k}:30", "m"),
    "dollars": Kind(lambda k: f"${k * 10:,.2f}", "f", "f"),
    "per cent": Kind(lambda k: f"{k / 10:.1f} %".replace(".", ","), "f", "f"),
    "plain": Kind(float, "f", "f"),
}


@pytest.fixture(scope="module")
def known() -> dict[str, tuple[pd.DataFrame, hb.Network]]:
    result = {}
    for name, kind in KINDS.items():
        frame = pd.DataFrame({"a": [kind.make(int(k)) for k in EARLY], "b": [kind.make(int(k)) for k in LATE]})
        frame["x"] = RNG.normal(size=ROWS)
        result[name] = frame, hb.fit([("a", "b"), ("b", "x")], frame, potentials="gaussian")
    return result


def days_of(answer: Any, variable: hb.Continuous) -> np.ndarray[Any, Any]:
    """Return values, or differences, as numbers."""
    array = np.asarray(answer)
    return array / np.timedelta64(1, "D") if array.dtype.kind == "m" else variable.values(array)


VALUES: dict[str, Callable[[Any], Any]] = {
    "mean": lambda posterior: posterior.mean(),
    "median": lambda posterior: posterior.median(),
    "mode": lambda posterior: posterior.mode(),
    "quantile": lambda posterior: posterior.quantile(0.25),
    "quantiles": lambda posterior: posterior.quantile([0.1, 0.7]),
    "interval": lambda posterior: posterior.interval(0.8),
    "sample": lambda posterior: posterior.sample(random_state=0),
    "samples": lambda posterior: posterior.sample(4, random_state=0),
}
NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "var": lambda posterior, at: posterior.var(),
    "entropy": lambda posterior, at: posterior.entropy(),
    "pdf": lambda posterior, at: posterior.pdf(at[0]),
    "log_pdf": lambda posterior, at: posterior.log_pdf(list(at)),
    "cdf": lambda posterior, at: posterior.cdf(list(at)),
    "log_score": lambda posterior, at: posterior.log_score(at[0] if posterior.single else list(at)),
    "crps": lambda posterior, at: posterior.crps(at[0] if posterior.single else list(at)),
    "pit": lambda posterior, at: posterior.pit(at[0] if posterior.single else list(at)),
    "central_level": lambda posterior, at: posterior.central_level(at[0] if posterior.single else list(at)),
}
FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "single": lambda frame: {"a": frame["a"][0]},
    "table": lambda frame: frame[["a"]].head(GIVEN),
    "scan": lambda frame: hb.scan(frame[["a"]].head(GIVEN)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KINDS)
def test_answers_are_what_values_are(name: str, form: str, known: Any) -> None:
    frame, network = known[name]
    kind, variable = KINDS[name], as_continuous(network.variable("b"))
    posterior = network.posterior("b", FORMS[form](frame))
    for answer, ask in VALUES.items():
        value, number = ask(posterior), ask(posterior.numeric)
        assert np.asarray(value).dtype.kind == kind.values, answer
        assert np.asarray(number).dtype.kind == "f", answer
        assert np.shape(value) == np.shape(number)
        # those that there are, next to the numbers
        assert np.abs(days_of(value, variable) - number).max() <= 0.51 * variable_step(variable), answer
        assert isinstance(value, float | np.generic | np.ndarray)
    std = posterior.std()
    assert np.asarray(std).dtype.kind == kind.differences
    assert days_of(std, variable) == pytest.approx(posterior.numeric.std(), abs=1e-5)
    at = frame["b"].tolist()[:GIVEN]
    for answer, judge in NUMBERS.items():
        number = judge(posterior, at)
        assert np.asarray(number).dtype.kind == "f", answer
        assert number == pytest.approx(judge(posterior.numeric, variable.values(at).tolist())), answer
    if form != "single":
        assert posterior[1].mean() == posterior.mean()[1]
        assert posterior.numeric[1].mean() == posterior.numeric.mean()[1]


def variable_step(variable: hb.Continuous) -> float:
    unit = variable.time_unit
    return 1e-9 if unit is None else max(unit.step / DAY, 1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_the_repr_tells_values(name: str, known: Any) -> None:
    frame, network = known[name]
    shown = repr(network.posterior("b", {"a": frame["a"][0]}))
    words = {"text of a date": r"mean \d\d\.\d\d\.2024, sd [\d.]+ days", "dollars": r"mean \$[\d,.]+, sd [\d.]+ \$"}
    pattern = words.get(name, r"mean \S.*, sd [\d.]+")
    assert pd.Series([shown]).str.contains(pattern).all(), shown
    drawn = network.posterior("b", {"a": frame["a"][0]})._repr_html_()
    unit = as_continuous(network.variable("b")).unit
    assert ("days" in drawn) == (unit is not None and unit.is_time)
    assert unit is None or unit.name.split()[0] in drawn


@pytest.mark.parametrize("name", KINDS)
def test_several_variables_are_answered_in_their_own_values(name: str, known: Any) -> None:
    frame, network = known[name]
    kind, variable = KINDS[name], as_continuous(network.variable("b"))
    for evidence in ({"x": 0.5}, frame[["x"]].head(2)):
        joint = network.posterior(["a", "b"], evidence)
        assert joint.mean().dtype.kind == kind.values
        assert joint.std().dtype.kind == kind.differences
        assert joint.cov().dtype.kind == "f"
        alone = [network.posterior(one, evidence).mean() for one in ("a", "b")]
        assert np.abs(days_of(joint.mean(), variable) - days_of(np.stack(alone, -1), variable)).max() < 1e-9
    mixed = network.posterior(["b", "x"], {"a": frame["a"][0]})
    value, number = mixed.mean()
    assert np.asarray(value).dtype.kind == kind.values
    assert np.asarray(number).dtype.kind == "f"
    assert (
        value == pytest.approx(network.posterior("b", {"a": frame["a"][0]}).mean())
        if kind.values == "f"
        else (value == network.posterior("b", {"a": frame["a"][0]}).mean())
    )
    at = frame["b"][0]
    assert mixed.log_pdf(b=at, x=0.0) == mixed.log_pdf(b=variable.value(at), x=0.0)
    best = network.most_probable({"x": 0.5})
    assert {np.asarray(best[one]).dtype.kind for one in ("a", "b")} == {kind.values}
    assert network.most_probable({"a": best["a"], "x": 0.5}).keys() == {"b"}


@pytest.mark.parametrize("name", KINDS)
def test_frames_hold_values_as_the_data_did(name: str, known: Any) -> None:
    frame, network = known[name]
    variable = as_continuous(network.variable("b"))
    drawn = network.sample(20, random_state=0)
    joint = network.posterior(["a", "b"], {"x": 0.5}).sample(5, random_state=0)
    completed = network.most_probable(frame[["a"]].head(3))
    given = hb.Table(frame).variable("b")
    for column in (drawn["b"], joint["b"], completed["b"]):
        assert hb.Table({"b": column.tolist()}).variable("b").unit is None or given.unit is not None  # type: ignore[union-attr]
        numbers = variable.values(column)
        assert np.abs(variable.round(numbers) - numbers).max() < 1e-9
        if isinstance(frame["b"][0], str):
            assert all(isinstance(value, str) for value in column)


@pytest.mark.parametrize("name", KINDS)
def test_explanations_and_effects_tell_values(name: str, known: Any) -> None:
    frame, network = known[name]
    kind, variable = KINDS[name], as_continuous(network.variable("b"))
    early, late = sorted(frame["a"], key=as_continuous(network.variable("a")).value)[:: ROWS - 1]
    shares = hb.shapley_values(network, "b", {"a": late, "x": 0.1})
    assert {np.asarray(share).dtype.kind for share in shares.values()} == {kind.differences}
    gain = network.posterior("b", {"a": late, "x": 0.1}).numeric.mean() - network.posterior("b").numeric.mean()
    assert sum(days_of(share, variable) for share in shares.values()) == pytest.approx(gain, abs=1e-4)
    effect = hb.effect(network, of="a", on="b", values=[early, late])
    assert {np.asarray(value).dtype.kind for value in (*effect.values, *effect.outcomes)} == {kind.values}
    assert np.asarray(effect.difference(late, early)).dtype.kind == kind.differences
    assert days_of(effect.difference(), variable) > 0
    assert effect.to_frame()["mean of b"].dtype.kind == kind.values
    assert "effect of 'a' on 'b' from" in repr(effect)
    assert "mean of b from" in effect.plot().get_label()
    changed = hb.counterfactual(network, on="b", evidence={"a": early, "b": frame["b"][0]}, do={"a": late})
    answers = (changed.mean(), changed.quantile(0.5), changed.interval(), changed.std())
    kinds = [np.asarray(answer).dtype.kind for answer in answers]
    assert kinds == [*[kind.values] * 3, kind.differences]
    assert "counterfactual 'b': mean" in repr(changed)


@pytest.mark.parametrize("name", KINDS)
def test_intervals_and_texts_are_evidence(name: str, known: Any) -> None:
    frame, network = known[name]
    variable = as_continuous(network.variable("b"))
    low, high = sorted(frame["b"], key=variable.value)[20:40:19]
    inside = network.posterior("a", {"b": hb.Interval(low, high)})
    numbers = network.posterior("a", {"b": hb.Interval(variable.value(low), variable.value(high))})
    assert inside.mean() == numbers.mean()
    assert network.posterior("a", {"b": low}).mean() == network.posterior("a", {"b": variable.value(low)}).mean()
    ends = network.posterior("b", {"b": hb.Interval(low, high)}).interval()
    assert (variable.value(low) <= variable.values(ends)).all()
    assert (variable.values(ends) <= variable.value(high)).all()


@pytest.mark.parametrize("name", KINDS)
def test_estimators_predict_values(name: str, known: Any) -> None:
    frame, _ = known[name]
    kind = KINDS[name]
    X, y = frame[["a", "x"]], frame["b"]
    model = HybridRegressor("naive_bayes", potentials="gaussian", intervals="posterior").fit(X, y)
    variable = as_continuous(model.network_.variable("b"))
    points, spread = model.predict(X.head(3), return_std=True)
    predictions = (points, model.predict_interval(X.head(3)), model.predict_quantile(X.head(3), [0.2, 0.5]))
    assert {answer.dtype.kind for answer in predictions} == {kind.values}
    assert spread.dtype.kind == kind.differences
    assert model.predict_log_density(X.head(3), y.head(3)).dtype.kind == "f"
    assert 0.9 < model.score(X, y) < 1
    assert np.abs(variable.values(points) - variable.values(y.head(3))).max() < 0.2 * np.ptp(variable.values(y))


@pytest.mark.parametrize("name", ["timestamp", "text of hours", "dollars"])
def test_reports_of_imputed_cells_tell_values(name: str, known: Any) -> None:
    frame, _ = known[name]
    holed = frame.assign(b=frame["b"].where(np.arange(ROWS) > 2, None))
    told = hb.impute(holed, rounds=0, rules=False, details=True, random_state=0).cells()
    told = told[told["column"] == "b"]
    assert len(told) == 3
    types = {"M": pd.Timestamp, "m": pd.Timedelta, "f": float}
    assert all(isinstance(value, types[KINDS[name].values]) for key in ("mean", "low", "high") for value in told[key])
    assert all(isinstance(value, types[KINDS[name].differences]) for value in told["sd"])
