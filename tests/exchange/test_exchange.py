"""XMLBIF, XDSL, NET and UAI: exact round trips, and what pgmpy and pyAgrum make of our files and we of theirs."""

import json
import os
import warnings

import numpy as np
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.exchange.discrete_networks import LinearValue
from hybridbn.exchange.net import parse_net
from hybridbn.exchange.uai import parse_uai
from hybridbn.exchange.xml_formats import LinearRule, parse_xdsl, parse_xmlbif

SUFFIXES = (".xmlbif", ".bifxml", ".xml", ".xdsl", ".net", ".uai")


def plain_network():
    """Three parents of different sizes, whose order shows; tiny numbers; a chain below."""
    rng = np.random.default_rng(8)
    a = hb.Discrete("a", states=("no", "yes"))
    b = hb.Discrete("b", states=("x", "y", "z"))
    c = hb.Discrete("c", states=("u", "v", "w", "q"))
    d = hb.Discrete("d", states=("lo", "hi"))
    e = hb.Discrete("e", states=("s1", "s2", "s3"))
    table = rng.dirichlet(np.ones(2), (3, 2, 4))
    table[0, 0, 0] = [1e-20, 1 - 1e-20]
    return hb.Network(
        [
            hb.Multinomial(d, parents=(b, a, c), table=table),
            hb.Multinomial(a, table=[1 / 3, 2 / 3]),
            hb.Multinomial(b, parents=(a,), table=rng.dirichlet(np.ones(3), 2)),
            hb.Multinomial(c, table=rng.dirichlet(np.ones(4))),
            hb.Multinomial(e, parents=(d,), table=[[0.0, 1.0, 0.0], [0.1, 0.2, 0.7]]),
        ]
    )


def odd_network():
    """States of all types, discretized numbers, names and states that are no words."""
    rng = np.random.default_rng(9)
    a = hb.Discrete("my class", states=(1, 2, 30))
    b = hb.Discrete("node", states=(True, False))
    c = hb.Discrete("données <&>", states=("no way", "no_way", "1", "<b>&amp;", "é"))
    d = hb.Discrete("cut", states=("low", "high"), cuts=(1.5,))
    e = hb.Discrete("my_class", states=(0.5, -1e-30))
    return hb.Network(
        [
            hb.Multinomial(a, table=[0.1, 0.2, 0.7]),
            hb.Multinomial(b, parents=(a,), table=rng.dirichlet(np.ones(2), 3)),
            hb.Multinomial(c, parents=(b, a), table=rng.dirichlet(np.ones(5), (2, 3))),
            hb.Multinomial(d, parents=(c,), table=rng.dirichlet(np.ones(2), 5)),
            hb.Multinomial(e, parents=(d,), table=rng.dirichlet(np.ones(2), 2)),
        ]
    )


def gaussian_network():
    """Discrete and linear Gaussian nodes, names that are no words, and one named as a function."""
    c, d = hb.Discrete("my c", states=(0, 1, 2)), hb.Discrete("d", states=("no", "yes"))
    x, y, z = hb.Continuous("x"), hb.Continuous("the y"), hb.Continuous("Sqrt")
    return hb.Network(
        [
            hb.Multinomial(c, table=[0.2, 0.3, 0.5]),
            hb.Multinomial(d, parents=(c,), table=[[0.1, 0.9], [0.5, 0.5], [1 / 3, 2 / 3]]),
            hb.LinearGaussian(x, intercept=1 / 3, variance=0.3),
            hb.LinearGaussian(
                y, parents=(x, c), intercept=[1, -2, 3e-10], coefficients=[[1.5], [-0.1], [0.0]], variance=[0.7, 2, 1e6]
            ),
            hb.LinearGaussian(
                z,
                parents=(d, x, c, y),
                intercept=np.arange(6.0).reshape(2, 3) / 7,
                coefficients=np.linspace(-1, 1, 12).reshape(2, 3, 2),
                variance=np.full((2, 3), 0.1),
            ),
        ]
    )


def same(left, right, order=True):
    """Same variables, parents and, bit for bit, numbers."""
    assert list(left) == list(right) if order else set(left) == set(right)
    for node in left:
        one, other = left.potential(node), right.potential(node)
        assert one.variables == other.variables
        assert [list(map(type, getattr(v, "states", ()))) for v in one.variables] == [
            list(map(type, getattr(v, "states", ()))) for v in other.variables
        ]
        if isinstance(one, hb.Multinomial):
            assert np.array_equal(one.table, other.table)
        else:
            for what in ("intercept", "coefficients", "variance"):
                assert np.array_equal(getattr(one, what), getattr(other, what))


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("make", [plain_network, odd_network])
def test_round_trips_are_exact(make, suffix, tmp_path):
    net = make()
    hb.write_network(net, tmp_path / f"n{suffix}")
    again = hb.read_network(tmp_path / f"n{suffix}")
    same(net, again, order=suffix != ".xdsl")
    before = (tmp_path / f"n{suffix}").read_bytes()
    hb.write_network(again, tmp_path / f"n{suffix}")
    assert (tmp_path / f"n{suffix}").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == (
        [f"n{suffix}", f"n{suffix}.names.json"] if suffix == ".uai" else [f"n{suffix}"]
    )


@pytest.mark.parametrize("suffix", [".xdsl", ".net"])
def test_linear_gaussian_nodes_make_the_trip(suffix, tmp_path):
    net = gaussian_network()
    hb.write_network(net, tmp_path / f"g{suffix}")
    same(net, hb.read_network(tmp_path / f"g{suffix}"))


# -- peers ------------------------------------------------------------------------------------------------------------


def pgmpy_reader(suffix):
    readwrite = pytest.importorskip("pgmpy.readwrite", reason="pgmpy is not installed (pip install 'hybridbn[pgmpy]')")
    readers = {".xmlbif": readwrite.XMLBIFReader, ".xdsl": readwrite.XDSLReader, ".net": readwrite.NETReader}
    return readers[suffix]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".xmlbif", ".xdsl", ".net"])
def test_pgmpy_reads_what_we_write(suffix, tmp_path):
    net = plain_network()
    path = tmp_path / f"n{suffix}"
    hb.write_network(net, path)
    same(net, hb.from_pgmpy(reordered(pgmpy_reader(suffix)(str(path)).get_model(), net)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".xmlbif", ".net", ".xdsl"])
def test_pgmpy_reads_what_we_write_of_odd_networks(suffix, tmp_path):
    """The properties that keep types and names are no hindrance."""
    net = odd_network().rename({"my class": "a", "node": "b", "données <&>": "c", "my_class": "e"})
    path = tmp_path / f"n{suffix}"
    hb.write_network(net, path)
    model = pgmpy_reader(suffix)(str(path)).get_model()
    for node in net:
        table = net.potential(node).table
        np.testing.assert_array_equal(model.get_cpds(node).get_values(), table.reshape(-1, table.shape[-1]).T)


def reordered(model, net):
    """A model of pgmpy with the nodes in the order of a network."""
    fresh = type(model)()
    fresh.add_nodes_from(list(net))
    fresh.add_edges_from(model.edges)
    fresh.add_cpds(*model.cpds)
    return fresh


def agrum_table(bn, net, node, names, backwards=False):
    """pyAgrum's table of a node as (parents, states); `backwards` undoes that the first parent runs fastest for it."""
    potential = net.potential(node)
    scope = [names[variable.name] for variable in potential.variables]
    table = bn.cpt(names[node])
    found = np.empty(potential.table.shape)
    for cell in np.ndindex(*found.shape):
        found[cell] = table[dict(zip(scope, cell, strict=True))]
    if backwards:
        sizes = found.shape
        listed = list(table.names)[1:]  # as it holds them, the first running fastest
        assert sorted(listed) == sorted(scope[:-1])
        flat = found.transpose([*reversed(range(len(sizes) - 1)), len(sizes) - 1]).ravel()
        found = flat.reshape(sizes)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".bifxml", ".net", ".xdsl"])
def test_peers_open_binned_networks(suffix, tmp_path):
    net = gaussian_network()
    path = tmp_path / f"n{suffix}"
    hb.write_network(net, path, bins=4)
    again = hb.read_network(path)
    assert as_kind(str, as_discrete(again.variable("x")).states[0]).startswith("< -")
    bn = pytest.importorskip("pyagrum").loadBN(str(path))
    assert sorted(bn.variable(name).domainSize() for name in bn.names()) == [2, 3, 4, 4, 4]
    assert all(all(bn.variable(name).labels()) for name in bn.names())
    model = pgmpy_reader(suffix.replace(".bifxml", ".xmlbif"))(str(path)).get_model()
    assert model.check_model()
    assert sorted(map(len, (model.get_cpds(node).state_names[node] for node in model))) == [2, 3, 4, 4, 4]


@pytest.mark.parametrize("suffix", [".bifxml", ".net", ".xdsl", ".uai"])
def test_pyagrum_reads_what_we_write(suffix, tmp_path):
    gum = pytest.importorskip("pyagrum")
    net = plain_network()
    path = tmp_path / f"n{suffix}"
    hb.write_network(net, path)
    bn = gum.loadBN(str(path))
    names = {node: str(i) if suffix == ".uai" else node for i, node in enumerate(net)}
    assert set(bn.names()) == set(names.values())
    for node in net:
        if suffix != ".uai":
            assert tuple(bn.variable(node).labels()) == net.variable(node).states
        expected = net.potential(node).table
        found = agrum_table(bn, net, node, names)
        if suffix in (".xdsl", ".uai") and expected.ndim > 2 and not np.allclose(found, expected, atol=1e-6):
            # pyAgrum 3.3.1 takes the first parent for the one that runs fastest; GeNIe and the UAI format the last.
            found = agrum_table(bn, net, node, names, backwards=True)
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("suffix", [".bifxml", ".net", ".xdsl", ".uai"])
def test_we_read_what_pyagrum_writes(suffix, tmp_path):
    gum = pytest.importorskip("pyagrum")
    net = plain_network()
    bn = gum.BayesNet("t")
    for node in net:
        bn.add(gum.LabelizedVariable(node, "", list(net.variable(node).states)))
    for node in net:
        for parent in net.potential(node).parents:
            bn.addArc(parent.name, node)
    for node in net:
        potential = net.potential(node)
        for cell in np.ndindex(*potential.table.shape[:-1]):
            given = dict(zip([p.name for p in potential.parents], cell, strict=True))
            if given:
                bn.cpt(node)[given] = potential.table[cell].tolist()
            else:
                bn.cpt(node)[:] = potential.table.tolist()
    path = tmp_path / f"n{suffix}"
    gum.saveBN(bn, str(path))
    if suffix == ".xdsl":
        with pytest.warns(UserWarning, match=r"written by pyAgrum, whose tables list the parents backwards") as caught:
            again = hb.read_network(path)
        assert caught[0].filename == __file__
    else:
        with warnings.catch_warnings():  # six digits: rows are off by 1e-6
            warnings.simplefilter("ignore", UserWarning)
            again = hb.read_network(path, **({"parents_backwards": True} if suffix == ".uai" else {}))
    assert len(again) == len(net)
    for i, node in enumerate(net):
        found = again.potential(f"var_{i}" if suffix == ".uai" else node)
        names = {f"var_{i}": node for i, node in enumerate(net)} if suffix == ".uai" else {node: node for node in net}
        order = [names[v.name] for v in found.variables]
        mine = [v.name for v in net.potential(node).variables]
        np.testing.assert_allclose(
            as_kind(hb.Multinomial, found).table.transpose([order.index(name) for name in mine]),
            net.potential(node).table,
            atol=2e-6,
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", [".xmlbif", ".xdsl", ".net"])
def test_we_read_what_pgmpy_writes(suffix, tmp_path):
    readwrite = pytest.importorskip("pgmpy.readwrite")
    writers = {".xmlbif": readwrite.XMLBIFWriter, ".xdsl": readwrite.XDSLWriter, ".net": readwrite.NETWriter}
    net = plain_network()
    path = tmp_path / f"n{suffix}"
    writers[suffix](net.to_pgmpy()).write(str(path))
    again = hb.read_network(path)
    for node in net:
        found, expected = again.potential(node), net.potential(node)
        order = [v.name for v in found.variables]
        table = as_kind(hb.Multinomial, found).table.transpose([order.index(v.name) for v in expected.variables])
        np.testing.assert_allclose(table, expected.table, atol=1e-8)  # eight digits in NET


@pytest.mark.filterwarnings("ignore")
def test_we_read_uai_files_of_pgmpy(tmp_path):
    """pgmpy lets the child run slowest, lists the parents backwards, and sorts the sizes of variables.

    So only networks whose sizes are sorted like their names come out right.
    """
    readwrite = pytest.importorskip("pgmpy.readwrite")
    a, b, c = hb.Discrete("a", states=(1, 2)), hb.Discrete("b", states=(1, 2, 3)), hb.Discrete("c", states=(1, 2, 3, 4))
    rng = np.random.default_rng(3)
    net = hb.Network(
        [
            hb.Multinomial(a, table=[0.3, 0.7]),
            hb.Multinomial(b, table=[0.5, 0.2, 0.3]),
            hb.Multinomial(c, parents=(a, b), table=rng.dirichlet(np.ones(4), (2, 3))),
        ]
    )
    readwrite.UAIWriter(net.to_pgmpy()).write(str(tmp_path / "n.uai"))
    found = hb.read_network(tmp_path / "n.uai").potential("var_2")
    table = (
        as_kind(hb.Multinomial, found).table
        if found.parents[0].name == "var_0"
        else as_kind(hb.Multinomial, found).table.transpose(1, 0, 2)
    )
    np.testing.assert_allclose(table, as_kind(hb.Multinomial, net.potential("c")).table, rtol=1e-15)


# -- XMLBIF -----------------------------------------------------------------------------------------------------------

WEKA = b"""<?xml version="1.0"?>
<!-- DTD for the XMLBIF 0.3 format -->
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
        <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
  <!ELEMENT NAME (#PCDATA)>
]>
<BIF VERSION="0.3">
<NETWORK>
<NAME>weather</NAME>
<VARIABLE TYPE="nature">
<NAME>play</NAME>
<OUTCOME>yes</OUTCOME>
<OUTCOME>no</OUTCOME>
<PROPERTY>position = (0,0)</PROPERTY>
</VARIABLE>
<VARIABLE TYPE="nature"><NAME>windy &amp; cold</NAME>
<OUTCOME>'\\'(-inf-1]\\''</OUTCOME><OUTCOME>&lt;1</OUTCOME></VARIABLE>
<DEFINITION><FOR>play</FOR><TABLE>
0.633 0.367
</TABLE></DEFINITION>
<DEFINITION><FOR>windy &amp; cold</FOR><GIVEN>play</GIVEN><TABLE>
0.35 <!-- yes --> 0.65
0.58 0.42
</TABLE></DEFINITION>
</NETWORK></BIF>
"""


def test_xmlbif_of_other_programs():
    net = parse_xmlbif(WEKA)
    assert as_discrete(net.variable("windy & cold")).states == ("'\\'(-inf-1]\\''", "<1")
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, net.potential("windy & cold")).table, [[0.35, 0.65], [0.58, 0.42]]
    )
    again = parse_xmlbif(WEKA.decode().replace('"1.0"?', '"1.0" encoding="utf-16"?').encode("utf-16"))
    same(net, again)


def test_tables_whose_child_runs_slowest_are_told_by_their_sums():
    text = WEKA.replace(b"0.35 <!-- yes --> 0.65\n0.58 0.42", b"0.35 0.58 0.65 0.42")
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, parse_xmlbif(text).potential("windy & cold")).table, [[0.35, 0.65], [0.58, 0.42]]
    )


# -- XDSL -------------------------------------------------------------------------------------------------------------

GENIE = b"""<?xml version="1.0" encoding="UTF-8"?>
<!-- made by hand after what GeNIe writes -->
<smile version="1.0" id="m" numsamples="10000" discsamples="10000">
  <nodes>
    <cpt id="season" ><state id="Spring" /><state id="Summer" /><probabilities>0.5 0.5</probabilities></cpt>
    <submodel id="inner"><nodes>
      <deterministic id="warm"><state id="no" /><state id="yes" /><parents>season</parents>
        <resultingstates>no yes</resultingstates></deterministic>
    </nodes></submodel>
    <equation id="A"><definition lower="-inf" upper="inf">A=Normal(1,1)</definition></equation>
    <equation id="B"><parents>season warm A</parents>
      <definition lower="-20" upper="20">B = If(season = "Summer", 3, -A)*2 + Switch(warm, "no", 0.5, 1.5)
        + Normal(2, 0.5) + (1+1)*A/4</definition>
    </equation>
  </nodes>
  <extensions><genie version="1.0" app="GeNIe 4.1" name="m"><node id="A"><name>alpha</name></node></genie></extensions>
</smile>
"""


def test_equations_of_genie():
    net = parse_xdsl(GENIE)
    assert list(net) == ["season", "warm", "A", "B"]
    np.testing.assert_array_equal(as_kind(hb.Multinomial, net.potential("warm")).table, [[1, 0], [0, 1]])
    b = net.potential("B")
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, b).intercept, [[0.5 + 2, 1.5 + 2], [6.5 + 2, 7.5 + 2]])
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, b).coefficients[..., 0], [[-1.5, -1.5], [0.5, 0.5]])
    np.testing.assert_allclose(as_kind(hb.LinearGaussian, b).variance, 0.25)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=1+2*3-4/2", 5.0),
        ("x=-2^2", -4.0),
        ("x=2^3^2", 512.0),
        ("x=(1+2)*-3", -9.0),
        ("x=Sqrt(16)+Exp(0)+Ln(1)+Abs(-2)", 7.0),
        ("x=1-2-3", -4.0),
        ("x=8/4/2", 1.0),
        ("x=Choose(c,10,20,30)", 20.0),
        ('x=If(c<>"high",1,2)', 2.0),
        ("x=If(c==1,1,2)", 1.0),
        ("x=Switch(c,0,5,1,6)", 6.0),
        ("x=1e-3+.5+2.", 2.501),
    ],
)
def test_numbers_in_equations(text, expected):
    assert LinearRule(text)({"c": LinearValue(1.0, state="high")}).constant == pytest.approx(expected, rel=1e-15)


def test_noise_in_equations():
    y = LinearValue(0.0, {"y": 1.0})
    found = LinearRule("x=Normal(y, 3)*2 - Normal(1, Sqrt(0.1))")({"y": y})
    assert found.slopes == {"y": 2.0}
    assert found.variance == 36.1
    assert found.constant == -1.0
    assert LinearRule("x=Normal(0,Sqrt(0.1))")({}).variance == 0.1  # exactly


# -- NET --------------------------------------------------------------------------------------------------------------

HUGIN = """net
{
    node_size = (80 40);
    HR_Desc = "a; {b}";
}
node C { label = "the c"; position = (10 -20); states = ("yes" "no"); subtype = label; }
discrete node D { states = (s1 2 "s 3"); }
continuous node X { label = ""; }
continuous node Y { }
potential (C) { data = ( 0.3 0.7 ); }  % a comment; with a semicolon
potential (D | C) {
    model_nodes = (); data = (( 0.1 0.2 0.7 )	% C=yes; here
              ( 0.5 0.5 0 )); }
potential (X | C) { data = ( normal(-1, 2) normal ( 1.5, .5 ) ); }
potential (Y | X C D) { data = (( normal(1 + 2 * X, 1) normal(X, 1) normal(-X + 2, 1) )
  ( normal(0, 1) normal(0, 2) normal(-1 - X * 3, 4) )); }
"""


def test_net_of_hugin():
    net = parse_net(HUGIN)
    assert as_discrete(net.variable("D")).states == ("s1", "2", "s 3")
    np.testing.assert_array_equal(as_kind(hb.Multinomial, net.potential("D")).table, [[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    y = net.potential("Y")
    np.testing.assert_array_equal(as_kind(hb.LinearGaussian, y).intercept, [[1, 0, 2], [0, 0, -1]])
    np.testing.assert_array_equal(as_kind(hb.LinearGaussian, y).coefficients[..., 0], [[2, 1, -1], [0, 0, -3]])
    np.testing.assert_array_equal(as_kind(hb.LinearGaussian, y).variance, [[1, 1, 1], [1, 2, 4]])


# -- UAI --------------------------------------------------------------------------------------------------------------


def test_uai_without_its_names(tmp_path):
    net = odd_network()
    hb.write_network(net, tmp_path / "n.uai")
    (tmp_path / "n.uai.names.json").unlink()
    again = hb.read_network(tmp_path / "n.uai")
    assert list(again) == ["var_0", "var_1", "var_2", "var_3", "var_4"]
    assert as_discrete(again.variable("var_2")).states == (0, 1, 2, 3, 4)
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, again.potential("var_2")).table, net.potential("données <&>").table
    )


def test_uai_whose_names_are_of_another_network(tmp_path):
    hb.write_network(odd_network(), tmp_path / "n.uai")
    text = (tmp_path / "n.uai").read_text()
    (tmp_path / "n.uai").write_text(text.replace("0.1 0.2 0.7", "0.2 0.1 0.7"))
    with pytest.warns(UserWarning, match=r"n\.uai\.names\.json: the network has changed since its names were written"):
        assert as_kind(hb.Multinomial, hb.read_network(tmp_path / "n.uai").potential("my class")).table[0] == 0.2
    (tmp_path / "n.uai").write_text("BAYES 1 2 1 1 0 2 0.5 0.5")
    with (
        pytest.warns(UserWarning, match="has changed since"),
        pytest.raises(hb.FormatError, match="the file of names beside it belongs to another network; delete"),
    ):
        hb.read_network(tmp_path / "n.uai")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda names: "[" * 5000, "names can't be read"),
        (lambda names: "{", "names can't be read"),
        (lambda names: "[]", "no file of names"),
        (lambda names: json.dumps({**names, "variables": names["variables"][0]}), "names can't be read"),
        (lambda names: json.dumps({**names, "variables": [names["variables"][0]] * 5}), "a name occurs twice"),
        (
            lambda names: json.dumps({**names, "variables": [{"name": 1, "states": [1], "cuts": None}]}),
            "names can't be read",
        ),
        (
            lambda names: json.dumps({**names, "variables": [{"name": "a", "states": [[1]], "cuts": None}]}),
            "names can't be read",
        ),
        (
            lambda names: json.dumps({**names, "variables": [{"name": "a", "states": [1, 1], "cuts": None}]}),
            "names can't be read",
        ),
        (
            lambda names: json.dumps({**names, "variables": [{"name": "a", "states": ["a", "b"], "cuts": "c"}]}),
            "names can't be read",
        ),
    ],
)
def test_damaged_names_are_refused(change, reason, tmp_path):
    hb.write_network(odd_network(), tmp_path / "n.uai")
    path = tmp_path / "n.uai.names.json"
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(hb.FormatError, match=reason) as caught:
        hb.read_network(tmp_path / "n.uai")
    assert str(caught.value).startswith(str(path))


def test_uai_with_comments():
    net = parse_uai("BAYES\n# two\n2\n2 2\n2\n1 0 # a\n2 0 1\n\n2\n .25 .75\n4\n1 0\n0 1 # last")
    np.testing.assert_array_equal(as_kind(hb.Multinomial, net.potential("var_1")).table, np.eye(2))


# -- what can't be held -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".bif"])
def test_mixed_networks_want_bins(suffix, tmp_path):
    x, d = hb.Continuous("x"), hb.Discrete("d", states=("u", "v"))
    softmax = hb.Softmax(d, parents=(x,), intercept=[0, 1], coefficients=[[0], [1]])
    net = hb.Network([hb.MTE.from_gaussian(x, 0, 1), softmax])
    path = tmp_path / f"n{suffix}"
    with pytest.raises(hb.FormatError, match=r"x|'x'"):
        hb.write_network(net, path)
    assert os.listdir(tmp_path) == []
    with pytest.warns(
        UserWarning, match=r"1 continuous variables were cut into bins; .* further than about 0\.\d+ from the"
    ) as caught:
        hb.write_network(net, path, bins={"x": 30})
    assert caught[0].filename == __file__
    again = hb.read_network(path)
    assert as_discrete(again.variable("x")).cuts is not None
    np.testing.assert_allclose(
        as_discrete(again.posterior("d", {})).probabilities,
        as_discrete(net.posterior("d", {})).probabilities,
        atol=0.01,
    )


@pytest.mark.parametrize("suffix", [".xmlbif", ".net", ".xdsl"])
def test_names_that_can_not_be_printed_are_refused(suffix, tmp_path):
    net = hb.Network([hb.Multinomial(hb.Discrete("a\nb", states=("u", "v")), table=[0.5, 0.5])])
    with pytest.raises(hb.FormatError, match=r"'a\\nb' can't be written to .*net\.rename"):
        hb.write_network(net, tmp_path / f"n{suffix}")
    net = hb.Network([hb.Multinomial(hb.Discrete("a", states=((1, 2), "v")), table=[0.5, 0.5])])
    with pytest.raises(hb.FormatError, match=r"'a': the state \(1, 2\) is a tuple"):
        hb.write_network(net, tmp_path / f"n{suffix}")
    assert os.listdir(tmp_path) == []


def test_tables_of_other_families_are_written(tmp_path):
    c, d = hb.Discrete("c", states=("u", "v")), hb.Discrete("d", states=("no", "yes"))
    softmax = hb.Softmax(d, parents=(c,), intercept=[[0, 1], [2, 0]], coefficients=np.zeros((2, 2, 0)))
    net = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), softmax])
    for suffix in SUFFIXES:
        hb.write_network(net, tmp_path / f"n{suffix}")
        table = as_kind(hb.Multinomial, hb.read_network(tmp_path / f"n{suffix}").potential("d")).table
        np.testing.assert_allclose(table[:, 1], [1 / (1 + np.exp(-1)), 1 / (1 + np.exp(2))], rtol=1e-14)


def test_a_format_of_ones_own_is_read_and_written(tmp_path):
    from hybridbn import exchange as networks

    def coin(name):
        return hb.Network([hb.Multinomial(hb.Discrete(name, ("a", "b")), table=[0.5, 0.5])])

    assert not networks.is_network("n.coin")
    networks.register_format(
        [".coin"],
        lambda path: coin(path.read_text()),
        lambda network, path, end: path.write_text(next(iter(network)) + end),
    )
    try:
        hb.write_network(coin("c"), tmp_path / "n.coin", end="!")
        assert list(hb.read_network(tmp_path / "n.coin")) == ["c!"]
        assert networks.is_network("n.coin")
        assert ".coin" in networks.network_suffixes()
    finally:
        networks.FORMATS.pop("coin")


@pytest.mark.parametrize("suffix", [".net", ".xdsl", ".xmlbif", ".bif"])
def test_numbers_cut_into_one_state(suffix, tmp_path):
    net = hb.Network([hb.Multinomial(hb.Discrete("x", ("any",), cuts=()), table=[1.0])])
    hb.write_network(net, tmp_path / f"n{suffix}")
    assert hb.read_network(tmp_path / f"n{suffix}").variable("x") == net.variable("x")
