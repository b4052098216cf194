"""Elvira's networks and data bases: what its files mean, exact round trips, and what is repaired."""

import itertools
import math
import os
import re
import warnings
from typing import Any

import numpy as np
import pytest
from known_answers import ANSWERS
from narrowing import as_continuous, as_discrete, as_kind

import hybridbn as hb
from hybridbn.exchange.elvira import format_elvira, parse_elvira

CASES = ("asia", "chain_n10_i3", "chain_n4_i3_fullprec", "continua", "dag2mix_n7_i2", "NB_cloud_i3")

MIXED = """// Bayesian Network
bnet "mixed" {
kindofgraph = "directed"; version = 1.0;
default node states = ("present" , "absent");
node X(continuous) { title = "a; b"; kind-of-node = chance; type-of-variable = continuous; pos_x =201;
  min = -1; max = 1.414; }
node D(finite-states) { kind-of-node = chance; type-of-variable = finite-states; num-states = 3; states = (lo mid hi); }
node Y(continuous) { min = 0.0; max = 2.0; precision = 4; }
node E(finite-states) { comment = "two
lines"; }
link X D; link X Y; link D Y; link D E; /* a
comment */
relation X { values = continuous-tree ( case X(-1.0, 0.25, 1.4142135) { 0 = 0.4;
  1 = 0.1 + .2*exp(0.5*X) - 1.0E-2exp(-1*X); } ); }
relation D X { kind-of-relation = potential; deterministic=false; values = continuous-tree (
  case X(-1.0, 0.5, 1.4142135) { 0 = case D { lo = 0.25; mid = 0.5; hi = 0.25; }
    1 = case D { mid = 0.125; lo = 0.75; hi = 0.125; } } ); }
relation Y X D { values = continuous-tree ( case D {
   lo = case Y(0, 2) { 0 = 0.5; }
   mid = case X(-1.0, 0.0, 1.4142135) { 0 = case Y(0, 1) { 0 = 1.0; } 1 = case Y(1, 2) { 0 = 1.0; } }
   hi = case Y(0, 1, 2) { 0 = 0.25; 1 = 0.75; } } ); }
relation E D { values = table (0.1 0.2 0.3 0.9 0.8 0.7); }
}
"""


def shared(name):
    return ANSWERS / "elv" / f"{name}.elv"


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return function(*arguments, **options)


def pieces(potential):
    """The pieces of an MTE without their order, terms with equal rates added up."""
    found = set()
    for piece in potential.pieces:
        sums: dict[Any, float] = {}
        for size, rates, anchors in piece.terms:
            key = tuple(sorted(rates.items())), tuple(sorted(anchors.items()))
            sums[key] = sums.get(key, 0.0) + size
        found.add(
            (
                tuple(sorted(piece.box.items())),
                tuple(sorted(piece.given.items())),
                piece.constant,
                frozenset(sums.items()),
            )
        )
    return found


def same(left, right):
    """Same variables, parents and, bit for bit, numbers."""
    assert list(left) == list(right)
    for node in left:
        one, other = left.potential(node), right.potential(node)
        assert one.variables == other.variables
        assert [type(s) for v in one.variables for s in getattr(v, "states", ())] == [
            type(s) for v in other.variables for s in getattr(v, "states", ())
        ]
        if isinstance(one, hb.Multinomial):
            assert np.array_equal(one.table, other.table)
        else:
            assert pieces(one) == pieces(other)


def posteriors(net, evidence=None):
    for node in net:
        if node in (evidence or {}):
            continue
        posterior = net.posterior(node, evidence or {})
        yield (
            posterior.probabilities
            if isinstance(net.variable(node), hb.Discrete)
            else np.array([posterior.mean(), posterior.var(), posterior.cdf(0.3)])
        )


# -- reading ----------------------------------------------------------------------------------------------------------


def mixed():
    return quietly(parse_elvira, MIXED)


def test_a_mixed_network_means_what_it_says():
    net = mixed()
    assert set(net.edges) == {("X", "D"), ("X", "Y"), ("D", "Y"), ("D", "E")}
    assert net.variable("X").domain == (-1.0, 1.4142135)  # the cut point, which max rounds
    assert net.variable("D").states == ("lo", "mid", "hi")
    assert net.variable("E").states == ("present", "absent")
    np.testing.assert_array_equal(net.potential("E").table, [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]])
    assert net.potential("D")(X=0.7, D="lo") == 0.75
    assert net.potential("Y")(X=0.7, D="mid", Y=1.5) == 1.0
    assert net.potential("Y")(X=-0.7, D="mid", Y=1.5) == 0.0
    x = net.potential("X")
    assert x(X=1.0) / x(X=-0.5) == pytest.approx((0.1 + 0.2 * math.exp(0.5) - 0.01 * math.exp(-1)) / 0.4, rel=1e-14)


def test_masses_are_repaired_with_a_warning(tmp_path):
    (tmp_path / "m.elv").write_text(MIXED)
    with pytest.warns(UserWarning, match=r"m\.elv: the mass of 'X' was 0\.9691 and was made 1") as caught:
        net = hb.read_network(tmp_path / "m.elv")
    assert caught[0].filename == __file__
    assert as_kind(hb.MTE, net.potential("X")).mass_error < 1e-14
    kept = hb.read_network(tmp_path / "m.elv", normalize=False)
    assert kept.potential("X")(X=-0.5) == 0.4
    assert as_kind(hb.MTE, kept.potential("X")).mass_error == pytest.approx(0.0309, abs=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_files_of_elvira_become_networks_of_mass_one(name):
    net = quietly(hb.read_network, shared(name))
    net.check()
    for node in net:
        potential = net.potential(node)
        if isinstance(potential, hb.MTE):
            assert potential.mass_error < 1e-9
    assert net.log_evidence({}) == pytest.approx(0.0, abs=1e-8)


def test_asia_knows_its_answers():
    net = hb.read_network(shared("asia"))
    np.testing.assert_allclose(as_discrete(net.posterior("D", {})).probabilities, [0.11029004, 0.88970996], atol=1e-12)
    np.testing.assert_allclose(net.posterior("B", {"D": "yes", "G": "yes"})["yes"], 0.3715, atol=2e-3)


def test_a_hole_is_filled_by_the_nearest_cell():
    path = shared("dag2mix_n7_i2")
    with pytest.warns(UserWarning, match="repairs"):
        net = hb.read_network(path)
    assert net.potential("D2")(X0=-1.0, X1=-2.5, D2="lo") == pytest.approx(0.195, abs=1e-3)  # X1 starts at -1.48 there
    text = MIXED.replace("case X(-1.0, 0.5, 1.4142135) { 0 = case D", "case X(-0.5, 0.5, 1.4142135) { 0 = case D")
    with pytest.warns(UserWarning, match=r"'D' had no density for some values of 'X' \(on up to 0\.21 of its range\)"):
        net = parse_elvira(text)
    assert net.potential("D")(X=-0.9, D="mid") == 0.5


def test_negative_densities_are_lifted():
    text = MIXED.replace("0 = 0.4;", "0 = 0.4 - 0.41*exp(-3*X) + 0.39*exp(-3*X);")
    with pytest.warns(
        UserWarning, match=r"the density of 'X' was negative in places \(down to .* of its peak\) and was lifted"
    ):
        net = parse_elvira(text)
    x = np.linspace(-1, 1.41, 101)
    assert all(net.potential("X")(X=value) >= 0 for value in x)
    with pytest.raises(hb.FormatError, match=r"line 13: 'X', piece 0 .* is negative"):
        parse_elvira(text, normalize=False)


def test_configurations_without_mass_become_uniform():
    text = MIXED.replace(
        "1 = case D { mid = 0.125; lo = 0.75; hi = 0.125; }", "1 = case D { mid = 0.0; lo = 0; hi = 0.0; }"
    )
    with pytest.warns(UserWarning, match=r"'D' had no mass at all for some values of its parents; a uniform one"):
        net = parse_elvira(text)
    assert net.potential("D")(X=1.0, D="lo") == pytest.approx(1 / 3)
    assert net.potential("D")(X=0.0, D="lo") == 0.25


def test_signs_hyphens_and_links_with_properties_are_read():
    text = MIXED.replace("0 = 0.4;", "0 = - -0.4 + -0.0*exp(- -1*X);").replace(
        "link X D;", "link X D { directed = true; }"
    )
    text = text.replace("version = 1.0;", "version = 1.0; some-new-thing = 3;").replace(
        "pos_x", "a-new-thing = 1; pos_x"
    )
    same(quietly(parse_elvira, text), mixed())


def test_an_exponent_without_coefficient_is_asked_about():
    text = (
        "bnet b { node x(continuous) { min = 0; max = 1; } relation x { values = continuous-tree (case x(0, 1) { 0 = "
        "exp(x); }); } "
        "}"
    )
    with pytest.warns(
        UserWarning, match=r"exponents without a coefficient, such as exp\(x\), .* Elvira takes 2 \(bare_rate"
    ):
        net = parse_elvira(text)
    assert net.potential("x")(x=0.5) == pytest.approx(math.exp(0.5) / (math.e - 1))
    twice = quietly(parse_elvira, text, bare_rate=2)
    assert twice.potential("x")(x=0.5) == pytest.approx(2 * math.exp(1) / (math.e**2 - 1))
    minus = quietly(parse_elvira, text.replace("exp(x)", "exp(-x)"), bare_rate=1.0)
    assert minus.potential("x")(x=0.5) == pytest.approx(math.exp(-0.5) / (1 - 1 / math.e))


def test_exponents_may_mention_parents():
    text = """bnet b { node x(continuous) { min = 0; max = 1; } node y(continuous) { min = 0; max = 1; } link x y;
      relation x { values = continuous-tree (case x(0, 1) { 0 = 1; }); }
      relation y x { values = continuous-tree (case y(0, 1) {
        0 = 1.0 + 0.5*exp(1.0*x-2*y) - 0.21616617919*exp(1.0*x); }); } }"""
    net = parse_elvira(text)
    assert net.potential("y")(x=0.25, y=0.5) == pytest.approx(
        1 + 0.5 * math.exp(-0.75) - 0.21616617919 * math.exp(0.25)
    )
    with pytest.raises(hb.FormatError, match=r"line 3: .*the mass varies .*normalize=False reads"):
        parse_elvira(text.replace("1.0 +", "1.1 +").replace("0.21616617919", "0.2"))
    assert as_kind(
        hb.MTE, parse_elvira(text.replace("1.0 +", "1.1 +"), normalize=False).potential("y")
    ).mass_error == pytest.approx(0.1, abs=1e-9)


def test_trees_of_probabilities_are_tables():
    text = """bnet b { node c(finite-states) { states = ("a b", 1); }
      node d(finite-states) { states = (u v); } link c d;
      relation c { values = tree (case c { "a b" = 0.25; 1 = 0.75; }); }
      relation d c { values = tree (case c { "a b" = case d { u = 0.5; v = 0.5; }
        1 = case d { v = 1.0; u = 0.0; } }); } }"""
    net = parse_elvira(text)
    assert as_discrete(net.variable("c")).states == ("a b", "1")
    np.testing.assert_array_equal(as_kind(hb.Multinomial, net.potential("d")).table, [[0.5, 0.5], [0.0, 1.0]])
    with pytest.raises(hb.FormatError, match=r"line 3: the probabilities of 'c' sum to 0\.85"):
        parse_elvira(text.replace("0.25;", "0.1;"))


def test_rounded_tables_are_normalized_as_in_bif():
    text = "bnet b { node c(finite-states) { states = (u v w); } relation c { values = table (0.333, 0.333, 0.333); } }"
    with pytest.warns(UserWarning, match="rows were normalized; the worst, of 'c', was off by 0.001"):
        net = parse_elvira(text)
    np.testing.assert_allclose(as_kind(hb.Multinomial, net.potential("c")).table, 1 / 3, rtol=1e-15)


def test_files_in_latin_1_are_read(tmp_path):
    text = (
        MIXED.replace("a; b", "Representación")
        .replace("node E", 'node "Señal"')
        .replace("relation E", 'relation "Señal"')
    )
    text = text.replace("link D E", 'link D "Señal"')
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        (tmp_path / "m.elv").write_bytes(text.encode(encoding))
        assert "Señal" in quietly(hb.read_network, tmp_path / "m.elv")


# -- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*CASES, None])
def test_round_trips_are_exact(name, tmp_path):
    net = mixed() if name is None else quietly(hb.read_network, shared(name))
    hb.write_network(net, tmp_path / "again.elv")
    again = hb.read_network(tmp_path / "again.elv")  # without a warning: nothing is left to repair
    same(net, again)
    for one, other in zip(posteriors(net), posteriors(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-15)
    hb.write_network(again, tmp_path / "third.elv")
    same(again, hb.read_network(tmp_path / "third.elv"))


def odd_network():
    """Endless densities, discretized numbers, states of all types, names that are no words, a domain beyond the
    density.
    """
    c = hb.Discrete("my class", states=(1, 2, 30))
    b = hb.Discrete("case", states=(True, False))
    t = hb.Discrete("t", states=("no way", "no_way", "1", "", "données", "exp"))
    cut = hb.Discrete("cut", states=("low", "high"), cuts=(1.5,))
    x, y = hb.Continuous("X 1"), hb.Continuous("y", domain=(0, 10))
    tail = [
        hb.Piece({"X 1": (-math.inf, 0)}, given={"my class": s}, terms=[(0.5, {"X 1": 1.0})]) for s in (1, 2, 30)
    ] + [hb.Piece({"X 1": (0, math.inf)}, given={"my class": s}, terms=[(0.25 * 2, {"X 1": -1.0})]) for s in (1, 2, 30)]
    flat = [
        hb.Piece({"y": (0, 9.9996), "X 1": (-math.inf, 3)}, constant=1 / 9.9996),
        hb.Piece({"y": (1, 2), "X 1": (3, math.inf)}, constant=1),
    ]
    return hb.Network(
        [
            hb.Multinomial(c, table=[0.1, 0.2, 0.7]),
            hb.Multinomial(b, parents=(c,), table=[[0.1, 0.9], [1 / 3, 2 / 3], [1e-300, 1]]),
            hb.Multinomial(t, table=np.full(6, 1 / 6)),
            hb.Multinomial(cut, parents=(t, b), table=np.random.default_rng(1).dirichlet(np.ones(2), (6, 2))),
            hb.MTE(x, parents=(c,), pieces=tail),
            hb.MTE(y, parents=(x,), pieces=flat),
        ]
    )


def test_odd_networks_make_the_trip():
    net = odd_network()
    text = format_elvira(net)
    assert "states = (s1 s2 s30);" in text
    assert 'node "my class"(finite-states)' in text
    assert 'node "case"(finite-states)' in text
    assert "1.7976931348623157E308" in text
    again = parse_elvira(text)
    same(net, again)
    assert as_discrete(again.variable("cut")).cuts == (1.5,)
    assert as_continuous(again.variable("y")).domain == (0, 10)
    assert format_elvira(again) == text


def test_pieces_that_no_tree_can_hold_are_cut_where_they_must():
    """A pinwheel: whatever is split first cuts a piece."""
    x, y = hb.Continuous("x", domain=(0, 3)), hb.Continuous("y", domain=(0, 3))
    boxes = [((0, 2), (0, 1)), ((2, 3), (0, 2)), ((1, 3), (2, 3)), ((0, 1), (1, 3)), ((1, 2), (1, 2))]
    f = hb.MTE(
        y,
        parents=(x,),
        pieces=[hb.Piece({"x": a, "y": b}, terms=[(1 / 3, {"y": 1e-9, "x": -1e-9})]) for a, b in boxes],
        normalize=None,
    )
    net = hb.Network([hb.MTE(x, pieces=[hb.Piece({"x": (0, 3)}, constant=1 / 3)]), f])
    again = parse_elvira(format_elvira(net))
    for a, b in itertools.product(np.linspace(0, 3, 31), repeat=2):
        assert again.potential("y")(x=a, y=b) == pytest.approx(f(x=a, y=b), rel=1e-15)


@pytest.mark.parametrize("shift", [0.0, 5.0, -40.0, 300.0])
def test_learned_networks_make_the_trip(shift):
    rng = np.random.default_rng(5)
    n = 400
    c = rng.integers(0, 3, n)
    x = rng.normal(c, 1.0 + 0.5 * c) + shift
    d = np.where(rng.random(n) < 1 / (1 + np.exp(-(x - shift))), "up", "down")
    data = {"c": np.array(["a", "b", "c"])[c], "x": x, "d": d, "y": rng.exponential(1 + c)}
    net = hb.fit(
        [("c", "x"), ("x", "d"), ("c", "y"), ("x", "y")], data, potentials={"x": "mte", "y": "mte", "d": "mte"}
    )
    again = parse_elvira(format_elvira(net, beyond_doubles=True))
    same(net, again)
    for evidence in ({}, {"y": 1.0}, {"c": "b", "x": shift}):
        for one, other in zip(posteriors(net, evidence), posteriors(again, evidence), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_every_exponent_has_its_coefficient_and_17_digits():
    x = hb.Continuous("x", domain=(0, 1))
    f = hb.MTE(x, pieces=[hb.Piece({"x": (0, 1)}, terms=[(1, {"x": 1})])], normalize=True)
    text = format_elvira(hb.Network([f]))
    assert re.search(r"0 = 5\.819767068693264[0-9]E-1\*exp\(1\.0\*x\);", text)


def test_coefficients_beyond_doubles_are_refused_by_name(tmp_path):
    x = hb.Continuous("far", domain=(2000, 2010))
    f = hb.MTE(x, pieces=[hb.Piece({"far": (2000, 2010)}, terms=[(1, {"far": 2.0}, {"far": 2010})])], normalize=True)
    net = hb.Network([f])
    with pytest.raises(
        hb.FormatError, match=r"'far' have coefficients beyond the range of doubles .*E-1746.*beyond_doubles=True"
    ):
        hb.write_network(net, tmp_path / "far.elv")
    assert os.listdir(tmp_path) == []
    hb.write_network(net, tmp_path / "far.elv", beyond_doubles=True)
    same(net, hb.read_network(tmp_path / "far.elv"))


def test_other_potentials_are_refused_by_name_or_binned(tmp_path):
    x, d = hb.Continuous("x"), hb.Discrete("d", states=("u", "v"))
    net = hb.Network(
        [
            hb.LinearGaussian(x, intercept=0, variance=1),
            hb.Softmax(d, parents=(x,), intercept=[0, 1], coefficients=[[0], [1]]),
        ]
    )
    with pytest.raises(hb.FormatError, match=r"not the potentials of x \(LinearGaussian\), d \(Softmax\).*bins="):
        hb.write_network(net, tmp_path / "g.elv")
    with pytest.warns(
        UserWarning,
        match=r"1 continuous variables were cut into bins; no event has a probability further than about 0\.\d+ from",
    ):
        hb.write_network(net, tmp_path / "g.elv", bins=20)
    again = hb.read_network(tmp_path / "g.elv")
    assert len(as_discrete(again.variable("x"))) == 20
    assert as_discrete(again.variable("x")).code(-50.0) == 0
    expected = as_discrete(net.posterior("d", {})).probabilities
    np.testing.assert_allclose(as_discrete(again.posterior("d", {})).probabilities, expected, atol=0.01)


def test_names_that_no_quote_can_hold_are_refused():
    for name in ('a"b', "a\nb"):
        net = hb.Network([hb.Multinomial(hb.Discrete(name, states=(1, 2)), table=[0.5, 0.5])])
        with pytest.raises(hb.FormatError, match=r"can't be written for Elvira.*net\.rename"):
            format_elvira(net)
    net = hb.Network([hb.Multinomial(hb.Discrete("c", states=((1, 2), "b")), table=[0.5, 0.5])])
    with pytest.raises(hb.FormatError, match=r"'c': the state \(1, 2\) is a tuple"):
        format_elvira(net)


# -- data bases -------------------------------------------------------------------------------------------------------

DBC = """data-base "clouds" { number-of-cases = 3;
node period(continuous) { kind-of-node = chance; type-of-variable = continuous; min = 1.0; max = 194.0; }
node seeded(finite-states) { type-of-variable = finite-states; num-states = 2; states = (sS sU); }
node season(finite-states) { states = ("in autumn" winter); }
relation { memory = true; cases = ( [ 1.0, sS, "in autumn" ]
[ 2.5E1, ?, 1 ]
[ ?, 1, winter ] ); } }
"""


def test_data_bases_are_tables(tmp_path):
    path = tmp_path / "clouds.dbc"
    path.write_text(DBC)
    table = hb.read_table(path)
    assert list(table.names) == ["period", "seeded", "season"]
    np.testing.assert_array_equal(table["period"], [1.0, 25.0, np.nan])
    assert table.raw("seeded").tolist() == ["sS", None, "sU"]
    assert table.raw("season").tolist() == ["in autumn", "winter", "winter"]
    assert hb.read_table(path, columns=["season"]).names[0] == "season"
    assert hb.Table(table, variables=[hb.Discrete("seeded", ("sS", "sU"))])["seeded"].tolist() == [0, -1, 1]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("2.5E1, ?", "2.5E1 ", r"line 6: 2 values in a case, but 3 nodes"),
        ("number-of-cases = 3", "number-of-cases = 4", r"4 cases are announced \(number-of-cases\), but there are 3"),
        ("2.5E1", "2,5E1", r"line 6: 4 values"),
        ("2.5E1", "lots", r"line 6: 'period': 'lots' is not a number"),
        ("2.5E1", "1e999", r"line 6: 'period': '1e999' is beyond"),
        ("[ ?, 1,", "[ ?, sX,", r"line 7: 'seeded': 'sX' is no state; its states are 'sS', 'sU'"),
        ("[ ?, 1,", "[ ?, 2,", r"line 7: 'seeded': '2' is no state"),
        (" ); } }", "", r"line 7: expected a case .* truncated"),
        ("num-states = 2", "num-states = 3", r"line 3: 'seeded' is declared with 3 states, but 2 are listed"),
        (
            "data-base",
            "bnet",
            r"line 1: expected `data-base` at the beginning \(is this a file of Elvira\?\), found 'bnet'",
        ),
        ("cases = (", "cases = [", r"line 5: expected `\(` before the cases"),
        ("winter)", "winter winter)", r"line 4: 'season': .*equal"),
    ],
)
def test_damaged_data_bases_are_refused(old, new, reason, tmp_path):
    path = tmp_path / "clouds.dbc"
    path.write_text(DBC.replace(old, new, 1))
    with pytest.raises(hb.FormatError, match=reason):
        hb.read_table(path)


def test_data_bases_are_not_written(tmp_path):
    with pytest.raises(hb.FormatError, match=r"write \.csv"):
        hb.Table({"x": [1.0]}).write(tmp_path / "d.dbc")
    assert os.listdir(tmp_path) == []
