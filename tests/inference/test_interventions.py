"""Interventions: what is set cuts arcs and counts as observed, and effects are those of closed forms."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind
from scipy.stats import norm

import hybridbn as hb
from hybridbn.inference.interventions import Effect

AGE, DOSE, PRESSURE = hb.Continuous("age"), hb.Continuous("dose"), hb.Continuous("pressure")
ILL = hb.Discrete("ill", states=("no", "yes"))
SEX = hb.Discrete("sex", states=("f", "m"))


def make_mixed(slope: float = -1.5) -> hb.Network:
    """Return a network with confounders of both kinds, and outcomes of both kinds."""
    return hb.Network(
        [
            hb.Multinomial(SEX, table=[0.4, 0.6]),
            hb.LinearGaussian(AGE, intercept=50, variance=100),
            hb.LinearGaussian(
                DOSE, parents=(SEX, AGE), intercept=[1, 2], coefficients=[[0.1], [0.05]], variance=[1, 2]
            ),
            hb.LinearGaussian(
                PRESSURE,
                parents=(SEX, AGE, DOSE),
                intercept=[90, 95],
                coefficients=[[0.8, slope], [0.6, slope]],
                variance=[25, 25],
            ),
            hb.Softmax(ILL, parents=(PRESSURE, DOSE), intercept=[0, -12], coefficients=[[0.0, 0.0], [0.1, -0.2]]),
        ]
    )


def make_discrete(rng: np.random.Generator) -> tuple[hb.Network, dict[str, np.ndarray]]:
    """Return a confounded network of tables z -> x -> w -> y <- z, and its tables."""
    z, x, w, y = (hb.Discrete(name, states=tuple(range(k))) for name, k in zip("zxwy", (3, 2, 3, 2), strict=True))
    tables = {
        "z": rng.dirichlet(np.ones(3)),
        "x": rng.dirichlet(np.ones(2), 3),
        "w": rng.dirichlet(np.ones(3), 2),
        "y": rng.dirichlet(np.ones(2), (3, 3)),
    }
    return hb.Network(
        [
            hb.Multinomial(z, table=tables["z"]),
            hb.Multinomial(x, parents=(z,), table=tables["x"]),
            hb.Multinomial(w, parents=(x,), table=tables["w"]),
            hb.Multinomial(y, parents=(w, z), table=tables["y"]),
        ]
    ), tables


# -- networks after an intervention -------------------------------------------------------------------------------


def test_tables_agree_with_the_truncated_factorization() -> None:
    net, tables = make_discrete(np.random.default_rng(1))
    for x in (0, 1):
        expected = np.einsum("z,w,wzy->y", tables["z"], tables["w"][x], tables["y"])
        done = net.do(x=x)
        np.testing.assert_allclose(as_discrete(done.posterior("y")).probabilities, expected, atol=1e-14)
        np.testing.assert_allclose(as_discrete(done.posterior("z", {"x": x})).probabilities, tables["z"], atol=1e-14)
        joint = np.einsum("z,w,wzy->yz", tables["z"], tables["w"][x], tables["y"])
        for y in (0, 1):
            expected = joint[y] / joint[y].sum()
            np.testing.assert_allclose(as_discrete(done.posterior("z", {"y": y})).probabilities, expected, atol=1e-14)
    assert list(net.in_edges("x")) == [("z", "x")]


def test_tables_agree_with_pyagrum() -> None:
    gum = pytest.importorskip("pyagrum")
    causal = pytest.importorskip("pyagrum.causal")
    net, tables = make_discrete(np.random.default_rng(2))
    other = gum.fastBN("z[3]->x[2]->w[3]->y[2]<-z")
    other.cpt("z").fillWith(tables["z"].tolist())
    for name, parents in (("x", "z"), ("w", "x"), ("y", "wz")):
        cpt = other.cpt(name)
        sizes = [len(as_discrete(net.variable(parent))) for parent in parents]
        for codes in np.ndindex(*sizes):
            cpt[dict(zip(parents, codes, strict=True))] = tables[name][codes].tolist()
    model = causal.CausalModel(other)
    for x in (0, 1):
        _, answer, _ = causal.causalImpact(model, on="y", doing="x", values={"x": x})
        np.testing.assert_allclose(as_discrete(net.do(x=x).posterior("y")).probabilities, answer.toarray(), atol=1e-12)


def test_a_continuous_variable_that_is_set_counts_as_observed() -> None:
    net = make_mixed()
    done = net.do(dose=4.0)
    assert set(net.edges) - set(done.edges) == {("sex", "dose"), ("age", "dose")}
    for sex, (intercept, slope) in {"f": (90, 0.8), "m": (95, 0.6)}.items():
        pressure = done.posterior("pressure", {"sex": sex})
        assert pressure.mean() == pytest.approx(intercept + slope * 50 - 6, abs=1e-9)
        assert pressure.var() == pytest.approx(slope**2 * 100 + 25, abs=1e-9)
    assert done.posterior("age", {"dose": 4.0}).mean() == pytest.approx(50)
    # a network that never had the arcs, given the value, is the same
    free = hb.Network(
        [p for p in net.potentials if p.child != DOSE] + [hb.LinearGaussian(DOSE, intercept=0, variance=1)]
    )
    table = pd.DataFrame({"ill": ["yes", None, "no"], "pressure": [None, 140.0, 120.0], "sex": ["f", None, "m"]})
    given = table.assign(dose=4.0)
    for name in ("age", "pressure", "ill"):
        rest = table.drop(columns=name, errors="ignore")
        mine, theirs = done.posterior(name, rest), free.posterior(name, rest.assign(dose=4.0))
        if name == "ill":
            np.testing.assert_allclose(as_discrete(mine).probabilities, as_discrete(theirs).probabilities, atol=1e-12)
        else:
            np.testing.assert_allclose(mine.mean(), theirs.mean(), rtol=1e-12)
    np.testing.assert_allclose(done.log_density(table), free.log_density(given) - norm.logpdf(4.0), rtol=1e-9)
    best, known = done.most_probable({"ill": "yes"}), free.most_probable({"ill": "yes", "dose": 4.0})
    assert best.keys() == known.keys()
    assert best["pressure"] == pytest.approx(known["pressure"], rel=1e-6)


def test_evidence_on_what_is_set() -> None:
    done = make_mixed().do(dose=4.0)
    table = pd.DataFrame({"dose": [4.0, 3.0, None], "sex": ["f", "f", "f"]})
    np.testing.assert_allclose(done.log_density(table), [np.log(0.4), -np.inf, np.log(0.4)])
    assert done.log_evidence({"dose": hb.Interval(3, 5)}) == 0
    assert done.log_evidence({"dose": hb.Interval(5, 7)}) == -np.inf
    assert done.log_evidence({"dose": lambda x: np.exp(-x)}) == pytest.approx(-4.0)
    same = [done.posterior("ill", e)["yes"] for e in ({}, {"dose": 4}, {"dose": lambda x: np.exp(-x)})]
    np.testing.assert_allclose(same, same[0], rtol=1e-9)
    for value in (3.0, hb.Interval(5, 7)):
        with pytest.raises(hb.ImpossibleEvidence):
            done.posterior("ill", {"dose": value})
    posterior = done.posterior("dose", {"ill": "yes"})
    assert (posterior.mean(), posterior.std(), posterior.median(), posterior.mode()) == (4.0, 0.0, 4.0, 4.0)
    np.testing.assert_array_equal(done.posterior("dose", table).cdf([3.9, 4.0]), [[0, 1]] * 3)
    joint = done.posterior(["dose", "pressure"], {"sex": "f"})
    np.testing.assert_allclose(joint.mean(), [4.0, 90 + 40 - 6])
    np.testing.assert_allclose(joint.cov(), [[0, 0], [0, 89]], atol=1e-9)
    assert joint.sample(3, 0)["dose"].tolist() == [4.0] * 3
    assert done.explain("ill", {"pressure": 150.0}).weights.keys() == {"pressure"}
    assert done.most_probable({"ill": "yes"}, ["dose", "sex"])["dose"] == 4.0


def test_draws_are_those_of_the_intervention(tmp_path) -> None:
    done = make_mixed().do(dose=4.0, sex="f")
    rows = done.sample(2000, random_state=1)
    assert set(rows["dose"]) == {4.0}
    assert set(rows["sex"]) == {"f"}
    assert rows["pressure"].mean() == pytest.approx(124, abs=4 * np.sqrt(89 / 2000))
    assert set(done.sample(5, random_state=1, evidence={"ill": "yes"})["dose"]) == {4.0}
    done.save(tmp_path / "done.hbn")
    again = hb.load(tmp_path / "done.hbn")
    assert as_kind(hb.PointMass, as_kind(hb.Network, again).potential("dose")).value == 4.0
    assert again.posterior("ill")["yes"] == done.posterior("ill")["yes"]
    with pytest.raises(hb.FormatError, match="PointMass"):
        hb.write_network(done.subgraph(["dose"]), tmp_path / "done.xdsl")


def test_distributions_and_policies() -> None:
    net = make_mixed()
    even = net.do(sex=hb.Multinomial(SEX, table=[0.5, 0.5]))
    assert as_discrete(even.posterior("sex")).probabilities.tolist() == [0.5, 0.5]
    policy = hb.LinearGaussian(DOSE, parents=(AGE,), intercept=1, coefficients=[0.2], variance=1)
    done = net.do({"dose": policy})
    assert set(done.predecessors("dose")) == {"age"}
    assert done.posterior("dose").mean() == pytest.approx(11)
    with pytest.raises(hb.NetworkError, match="cycle"):
        net.do(age=hb.LinearGaussian(AGE, parents=(PRESSURE,), intercept=0, coefficients=[1], variance=1))
    other = hb.Continuous("other")
    with pytest.raises(hb.NetworkError, match="no node 'other'"):
        net.do(age=hb.LinearGaussian(AGE, parents=(other,), intercept=0, coefficients=[1], variance=1))
    # the arcs of both go first, so that two variables may swap the direction of an arc between them
    swapped = net.do(dose=3.0, age=hb.LinearGaussian(AGE, parents=(DOSE,), intercept=0, coefficients=[1], variance=1))
    assert swapped.posterior("age").mean() == pytest.approx(3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dose": None}, "set to a value or to a potential"),
        ({"dose": "much"}, "dose"),
        ({"sex": "x"}, "sex"),
        ({"sex": {"f", "m"}}, "set to a value or to a potential"),
        ({"age": hb.PointMass(DOSE, value=1)}, "a potential of 'dose'"),
        ({"wage": 1}, "no node 'wage'"),
    ],
)
def test_what_can_not_be_set_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(hb.HybridBNError, match=message):
        make_mixed().do(settings)


def test_point_masses_in_bins_and_refusals() -> None:
    x = hb.Continuous("x", domain=(0, 10))
    potential = hb.PointMass(x, value=10)
    assert potential.mass({}, np.array([0.0, 5.0, 10.0]))[0].tolist() == [0, 1]
    assert potential.mass({}, np.array([0.0, 10.0, np.inf]))[0].tolist() == [0, 1]
    assert hb.Network([potential]).to_pgmpy(bins={"x": [5.0]}).get_cpds("x").values.tolist() == [0, 1]
    assert potential.free_parameters() == 0
    assert potential.renamed({"x": "z"}).scope == ("z",)
    for value in (11, float("nan"), "a"):
        with pytest.raises(hb.HybridBNError):
            hb.PointMass(x, value=value)  # type: ignore[arg-type]
    with pytest.raises(hb.NetworkError, match="Multinomial"):
        hb.PointMass(SEX, value=1)  # type: ignore[arg-type]
    with pytest.raises(hb.NetworkError, match="no parents"):
        hb.PointMass(x, (SEX,), value=1)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_graph_goes_to_libraries_for_identification() -> None:
    base, inference = pytest.importorskip("pgmpy.base"), pytest.importorskip("pgmpy.inference")
    net = make_mixed()
    (adjustment,) = inference.CausalInference(base.DAG(net.edges)).get_all_backdoor_adjustment_sets("dose", "ill")
    assert adjustment == {"sex", "age"}
    # standardizing over these gives the effect that cutting the arcs gives
    rows = net.sample(4000, random_state=3)[["sex", "age"]]
    adjusted = net.posterior("ill", rows.assign(dose=4.0))["yes"].mean()
    assert hb.effect(net, of="dose", on="ill", values=[4.0]).outcomes[0, 1] == pytest.approx(adjusted, abs=0.01)


# -- effects ------------------------------------------------------------------------------------------------------


def test_effects_of_discrete_variables_adjust_for_the_confounder() -> None:
    net, tables = make_discrete(np.random.default_rng(3))
    effect = hb.effect(net, of="x", on="y")
    expected = np.array([np.einsum("z,w,wzy->y", tables["z"], w, tables["y"]) for w in tables["w"]])
    np.testing.assert_allclose(effect.outcomes, expected, atol=1e-14)
    assert effect.difference()[1] == pytest.approx(expected[1, 1] - expected[0, 1])
    assert effect.difference(0, 1)[1] == pytest.approx(expected[0, 1] - expected[1, 1])
    conditional = hb.effect(net, of="x", on="y", given={"z": 2})
    np.testing.assert_allclose(conditional.outcomes, tables["w"] @ tables["y"][:, 2], atol=1e-14)
    rows = hb.effect(net, of="x", on="y", given=pd.DataFrame({"z": [2, 0, None]}))
    np.testing.assert_allclose(rows.outcomes[[0, 2]], [conditional.outcomes, effect.outcomes], atol=1e-14)
    assert rows.difference()[0].shape == (3,)


def test_effects_of_linear_gaussian_variables_are_sums_over_paths() -> None:
    net = make_mixed(slope=-1.5)
    effect = hb.effect(net, of="dose", on="pressure", values=[0, 1, 4])
    assert effect.difference(1, 0) == pytest.approx(-1.5, abs=1e-9)
    assert effect.difference() == pytest.approx(-6, abs=1e-9)
    total = hb.effect(net, of="age", on="pressure", given={"sex": "f"}, values=[40, 41])
    assert total.difference() == pytest.approx(0.8 - 1.5 * 0.1, abs=1e-9)
    assert hb.effect(net, of="pressure", on="dose", values=[100, 150]).difference() == pytest.approx(0, abs=1e-9)


def test_curves_of_a_continuous_treatment_and_a_discrete_outcome() -> None:
    net = make_mixed()
    effect = hb.effect(net, of="dose", on="ill")
    assert len(effect.values) == 25
    assert effect.outcomes.shape == (25, 2)
    for value, probabilities in list(zip(effect.values, effect.outcomes, strict=True))[::8]:
        np.testing.assert_allclose(
            as_discrete(net.do(dose=value).posterior("ill")).probabilities, probabilities, atol=1e-9
        )
    frame = effect.to_frame()
    assert list(frame.columns) == ["dose", "ill = no", "ill = yes"]
    assert "effect of 'dose' on 'ill' from" in repr(effect)


def test_several_networks_give_intervals() -> None:
    networks = [make_mixed(slope) for slope in np.linspace(-2, -1, 21)]
    effect = hb.effect(networks, of="dose", on="pressure", values=[0, 1])
    assert isinstance(effect, Effect)
    assert effect.draws.shape == (21, 2)
    assert effect.difference() == pytest.approx(-1.5)
    np.testing.assert_allclose(effect.interval(0.9), [-1.95, -1.05])
    assert {"mean of pressure 5%", "mean of pressure 95%"} < set(effect.to_frame().columns)
    given = pd.DataFrame({"age": [40.0, 60.0], "dose": 2.0})
    discrete = hb.effect(networks[:3], of="sex", on="ill", given=given)
    assert discrete.interval()["yes"].shape == (2, 2)
    for show in (discrete.to_frame, discrete.plot):
        with pytest.raises(hb.TableError, match="in several rows; ask for one case"):
            show()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": "dose", "on": "dose"}, "on itself"),
        ({"of": "dose", "on": "pulse"}, "no node 'pulse'"),
        ({"of": "dose", "on": "ill", "given": {"dose": 3.0}}, "leave it out"),
        ({"of": "dose", "on": "ill", "given": {"ill": "yes"}}, "asked for"),
        ({"of": "dose", "on": "ill", "values": []}, "at least one"),
        ({"of": "dose", "on": "ill", "values": "ab"}, "as a list"),
        ({"of": "sex", "on": "ill", "values": [None]}, "none missing"),
    ],
)
def test_effects_that_make_no_sense_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(hb.HybridBNError, match=message):
        hb.effect(make_mixed(), **arguments)  # type: ignore[arg-type]


def test_effects_refuse_what_was_not_computed() -> None:
    effect = hb.effect(make_mixed(), of="dose", on="ill", values=[0, 1])
    with pytest.raises(hb.TableError, match="not computed"):
        effect.difference(2)
    with pytest.raises(hb.TableError, match="several networks"):
        effect.interval()
    wrong: tuple[Any, ...] = ([], 3, "ab")
    for networks in wrong:
        with pytest.raises(hb.NetworkError, match="sequence of networks"):
            hb.effect(networks, of="dose", on="ill")
    for settings in (3, [("dose", 1)]):
        with pytest.raises(hb.NetworkError, match="a mapping from names"):
            make_mixed().do(settings)  # type: ignore[arg-type]


def test_pictures_of_effects() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    networks = [make_mixed(slope) for slope in (-2, -1)]
    for of, values in (("dose", [0, 2, 4]), ("sex", None)):
        axes = hb.effect(networks, of=of, on="ill", values=values).plot(pyplot.figure().gca())
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ill = no", "ill = yes"]
    done = networks[0].do(dose=4.0)
    done.plot()
    assert ">4</text>" in done._repr_html_()
    assert done.posterior("dose").plot(pyplot.figure().gca()).lines
    pyplot.close("all")
