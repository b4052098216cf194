"""Why an ensemble decides as it does: weights of evidence, and the nomogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.structures import naive_bayes, tan


def weights_of_evidence(tables: Any, state: int) -> tuple[float, dict[str, Any]]:
    """Return the prior log-odds of one of two classes, and what each state of each attribute adds."""
    logs = {name: table[:, state] - table[:, 1 - state] for name, table in tables.logs.items()}
    return tables.prior[state] - tables.prior[1 - state], logs


def made(classes: int = 2) -> hb.Table:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, (3, 300))
    y = (x[0] + (x[1] > 0) + (rng.random(300) < 0.3)) % classes
    return hb.Table({"a": x[0], "b": x[1], "c": x[2], "y": y}, discrete=["a", "b", "c", "y"])


def test_weights_of_real_ensembles_are_sums_over_the_members() -> None:
    ensemble = hb.boost(made(), "y", rounds=12, algorithm="real")
    case = {"b": 2, "a": 0}
    found = ensemble.explain(case, 1)
    expected = {
        name: sum(
            vote
            * np.log(
                as_kind(hb.Multinomial, network.potential(name)).table[1, case[name]]
                / as_kind(hb.Multinomial, network.potential(name)).table[0, case[name]]
            )
            for vote, network in zip(ensemble.votes, ensemble.networks, strict=True)
        )
        for name in case
    }
    assert found.weights == pytest.approx(expected, abs=1e-9)
    assert list(found.weights) == ["b", "a"]
    turned = ensemble.explain(dict(reversed(case.items())), 1)
    assert turned.weights == pytest.approx(found.weights, abs=1e-9)
    assert found.log_odds == pytest.approx(ensemble.scores(case) @ [-1, 1])
    assert found.probability == pytest.approx(ensemble.posterior(case).probability(1))
    prior, weights = weights_of_evidence(ensemble.sum_tables(), 1)
    assert prior == pytest.approx(found.prior)
    assert weights["a"][0] == pytest.approx(expected["a"])
    opposite = weights_of_evidence(ensemble.sum_tables(), 0)[1]
    np.testing.assert_allclose(opposite["a"], -weights["a"])


def test_one_network_is_explained_as_it_explains_itself() -> None:
    table = made()
    network = naive_bayes(table, "y")
    ensemble = hb.Ensemble([network], np.ones(1), "y", "real")
    case = {"a": 1, "c": 2}
    own, other = ensemble.explain(case, 0), network.explain("y", case, 0)
    assert (own.prior, own.log_odds) == pytest.approx((other.prior, other.log_odds))
    assert own.weights == pytest.approx(other.weights)


@pytest.mark.parametrize("build", [None, tan])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_add_up_whatever_the_ensemble(build: object, classes: int) -> None:
    ensemble = hb.boost(made(classes), "y", build=build, rounds=5)  # type: ignore[arg-type]
    case = {"a": 1, "b": 0, "c": 2}
    found = ensemble.explain(case)
    assert found.state == ensemble.predict(case)
    assert found.prior + sum(found.weights.values()) == pytest.approx(found.log_odds)
    probabilities = ensemble.posterior(case).probabilities
    assert found.probability == pytest.approx(probabilities.max())


def test_bad_questions() -> None:
    ensemble = hb.boost(made(), "y", rounds=2)
    with pytest.raises(hb.TableError, match="as a mapping"):
        ensemble.explain(made())  # type: ignore[arg-type]
    with pytest.raises(hb.HybridBNError, match="no state"):
        ensemble.explain({"a": 1}, 7)
    with pytest.raises(hb.HybridBNError, match="no node"):
        ensemble.explain({"nonsense": 1})


def test_nomogram() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for algorithm in ("real", "m1"):
        ensemble = hb.boost(made(), "y", rounds=6, algorithm=algorithm)
        axes = ensemble.plot({"a": 1, "b": None}, state=0)
        assert axes.get_yticklabels()[0].get_text() == "without evidence"
        assert "y = 0" in axes.get_xlabel()
        prior, weights = weights_of_evidence(ensemble.sum_tables(), 0)
        told = [text.get_text() for text in axes.texts]
        assert any(text.startswith(f"{prior + weights['a'][1]:+.2f}: probability") for text in told)
        pyplot.close(axes.figure)
    _, given = pyplot.subplots()
    assert ensemble.plot(ax=given) is given
    pyplot.close("all")
    with pytest.raises(hb.TableError, match="no attribute"):
        ensemble.plot({"nonsense": 1})
    with pytest.raises(hb.NetworkError, match="3 classes"):
        hb.boost(made(3), "y", rounds=2).plot()
    with pytest.raises(hb.NetworkError, match="beside the target"):
        hb.boost(made(), "y", build=tan, rounds=2).plot()
