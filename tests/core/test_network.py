"""`Network` keeps its variables and potentials through everything that networkx does with graphs."""

import copy
import pickle
import random

import networkx as nx
import numpy as np
import pytest
from costs import assert_linear
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.errors import NetworkError
from hybridbn.network import Network
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete

C = Discrete("c", states=("a", "b"))
D = Discrete("d", states=(1, 2, 3))
X = Continuous("x")
Y = Continuous("y")

P_C = Multinomial(C, table=[0.4, 0.6])
P_D = Multinomial(D, parents=(C,), table=[[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]])
P_X = LinearGaussian(
    X, parents=(D,), intercept=[1.0, 2.0, 3.0], coefficients=np.empty((3, 0)), variance=[1.0, 1.0, 2.0]
)
P_Y = LinearGaussian(Y, parents=(C, X), intercept=[0.0, 1.0], coefficients=[[1.0], [-1.0]], variance=[1.0, 0.5])
ALL = (P_Y, P_C, P_X, P_D)


@pytest.fixture
def net() -> Network:
    return Network(ALL)


def carries(graph: nx.Graph, names: str = "ycxd") -> bool:
    """Tell whether the nodes carry the variables and potentials of the example."""
    own = {p.child.name: p for p in ALL}
    return set(graph) == set(names) and all(
        graph.nodes[name]["variable"] == own[name].child
        and graph.nodes[name]["potential"].family == own[name].family
        and str(graph.nodes[name]["potential"].to_dict()) == str(own[name].to_dict())
        for name in names
    )


# -- building -----------------------------------------------------------------------------------------------------


def test_arcs_follow_from_the_parents_in_their_order(net: Network) -> None:
    assert list(net.predecessors("y")) == ["c", "x"]
    assert set(net.edges) == {("c", "d"), ("d", "x"), ("c", "y"), ("x", "y")}
    assert list(net) == ["y", "c", "x", "d"]
    net.check()
    assert carries(net)


@pytest.mark.parametrize("seed", range(5))
def test_any_order_gives_the_same_network(seed: int) -> None:
    potentials = list(ALL)
    random.Random(seed).shuffle(potentials)
    listed, added = Network(iter(potentials)), Network()
    for potential in potentials:
        added.add(potential)
    for network in (listed, added):
        network.check()
        assert carries(network)
        assert set(network.edges) == set(Network(ALL).edges)
        order = [potential.child.name for potential in network.potentials]
        assert all(order.index(start) < order.index(end) for start, end in network.edges)


def test_potentials_are_in_topological_order_and_variables_in_node_order(net: Network) -> None:
    assert [potential.child.name for potential in net.potentials] == ["c", "d", "x", "y"]
    assert net.variables == (Y, C, X, D)
    assert net.variable("x") is X
    assert net.potential("x") is P_X


def test_empty_network() -> None:
    net = Network()
    net.check()
    assert (len(net), net.potentials, net.variables) == (0, (), ())
    assert len(Network([])) == 0
    assert repr(net) == "<Network: 0 nodes, 0 arcs>"


def test_graph_attributes_and_plain_structures() -> None:
    net = Network([("a", "b"), ("b", "c")], name="plain")
    assert net.graph == {"name": "plain"}
    assert list(net.edges) == [("a", "b"), ("b", "c")]
    assert nx.from_edgelist([("a", "b")], create_using=Network).__class__ is Network
    assert Network(name="n").name == "n"


def test_add_replaces_the_potential_and_its_arcs(net: Network) -> None:
    net.add(Multinomial(D, table=[0.2, 0.3, 0.5]))
    assert list(net.predecessors("d")) == []
    assert net.potential("d").parents == ()
    net.add(LinearGaussian(X, intercept=0.0, coefficients=[], variance=1.0))
    net.add(Multinomial(D, parents=(C,), table=np.full((2, 3), 1 / 3)))
    assert list(net.predecessors("d")) == ["c"]
    net.check()


def test_add_may_give_a_childless_node_another_variable(net: Network) -> None:
    net.add(LinearGaussian(Continuous("y"), parents=(X,), intercept=0.0, coefficients=[1.0], variance=1.0))
    net.add(Multinomial(Discrete("y", states=(True, False)), parents=(C,), table=np.full((2, 2), 0.5)))
    assert as_discrete(net.variable("y")).states == (True, False)
    net.check()


def test_add_that_is_refused_leaves_the_network_as_it_was(net: Network) -> None:
    before = list(net.edges)
    wrong = Continuous("x", domain=(0, 1))
    for potential in (
        Multinomial(C, parents=(D,), table=np.full((3, 2), 0.5)),
        Multinomial(Discrete("d", states=(1, 2)), parents=(C,), table=np.full((2, 2), 0.5)),
        Multinomial(Discrete("e", states=(1, 2)), parents=(Discrete("c", ("b", "a")),), table=np.full((2, 2), 0.5)),
    ):
        with pytest.raises(NetworkError):
            net.add(potential)
    with pytest.raises(NetworkError):
        net.add(wrong)  # type: ignore[arg-type]
    assert list(net.edges) == before
    assert carries(net)


def test_a_parent_without_potential_leaves_a_node_with_a_variable() -> None:
    net = Network([P_D])
    assert net.variable("c") == C
    with pytest.raises(NetworkError, match="node 'c' has no potential"):
        net.check()
    net.add(P_C)
    net.check()


def test_a_network_costs_no_more_than_its_nodes() -> None:
    def build(count: int) -> None:
        rng = random.Random(1)
        variables = [Discrete(f"v{i}", ("a", "b")) for i in range(count)]
        potentials = []
        for i, variable in enumerate(variables):
            parents = [variables[j] for j in rng.sample(range(max(0, i - 20), i), min(i, 2))]
            potentials.append(Multinomial(variable, parents=parents, table=np.full((2,) * (len(parents) + 1), 0.5)))
        rng.shuffle(potentials)
        net = Network(potentials)
        net.check()
        assert net.number_of_edges() == 2 * count - 3

    assert_linear(build, 500)


def test_a_long_chain_meets_no_recursion_limit() -> None:
    count = 3_000  # Python allows 1,000 calls within each other
    nodes = [Continuous(f"x{i}") for i in range(count)]
    chain = [LinearGaussian(nodes[0], intercept=0.0, coefficients=[], variance=1.0)]
    chain += [
        LinearGaussian(nodes[i], parents=nodes[i - 1 : i], intercept=0.0, coefficients=[1.0], variance=1.0)
        for i in range(1, count)
    ]
    net = Network(reversed(chain))
    net.check()
    assert net.potentials[0].child.name == "x0"
    assert net.d_separated("x0", f"x{count - 1}", given="x5")
    assert len(net.copy()) == count
    closing = LinearGaussian(nodes[0], parents=nodes[-1:], intercept=0.0, coefficients=[1.0], variance=1.0)
    with pytest.raises(NetworkError, match=r"'x0' -> 'x1' .* -> 'x0'$"):
        net.add(closing)
    with pytest.raises(NetworkError, match="a cycle: 'x"):
        Network([*chain[1:], closing])


# -- everything networkx does -------------------------------------------------------------------------------------


def test_copy(net: Network) -> None:
    twin = net.copy()
    assert type(twin) is Network
    assert carries(twin)
    twin.remove_node("y")
    assert "y" in net


@pytest.mark.parametrize("pack", [lambda net: pickle.loads(pickle.dumps(net)), copy.deepcopy, copy.copy])
def test_pickle_and_deepcopy(net: Network, pack) -> None:
    twin = pack(net)
    assert type(twin) is Network
    assert carries(twin)
    twin.check()


def test_constructor_of_networks_and_graphs(net: Network) -> None:
    plain = nx.DiGraph(net)
    assert type(plain) is nx.DiGraph
    assert carries(plain)
    for twin in (Network(net), Network(plain), net.__class__(net), Network(incoming_graph_data=plain)):
        assert type(twin) is Network
        assert carries(twin)
        twin.check()


def test_subgraph(net: Network) -> None:
    view = net.subgraph(["c", "d"])
    assert type(view) is Network
    assert carries(view, "cd")
    view.check()
    assert view.variable("c") is C
    assert [p.child.name for p in view.potentials] == ["c", "d"]
    assert carries(net.edge_subgraph([("c", "d")]), "cd")
    with pytest.raises(NetworkError, match=r"'y' has parents without an arc to it: 'c', 'x'"):
        net.subgraph(["y"]).check()
    with pytest.raises(NetworkError, match=r"copy\(\)"):
        view.add(P_X)
    grown = view.copy()
    grown.add(P_X)
    assert carries(grown, "cdx")


def test_freeze(net: Network) -> None:
    frozen = nx.freeze(net)
    assert carries(frozen)
    frozen.check()
    with pytest.raises(NetworkError, match="frozen"):
        frozen.add(P_C)
    assert carries(pickle.loads(pickle.dumps(frozen)))


def test_compose_and_union() -> None:
    both = nx.compose(Network([P_C, P_D]), Network([P_C, P_D, P_X]))
    assert type(both) is Network
    assert carries(both, "cdx")
    both.check()
    assert carries(nx.compose_all([Network([P_C]), Network([P_C, P_D]), Network(ALL)]))
    other = Multinomial(Discrete("e", states=("a",)), table=[1.0])
    union = nx.union(Network([P_C]), Network([other]))
    assert union.potential("e") is other


def test_compose_of_disagreeing_networks_is_reported() -> None:
    swapped = Discrete("c", states=("b", "a"))
    net = nx.compose(Network([P_C, P_D]), Network([Multinomial(swapped, table=[0.5, 0.5])]))
    with pytest.raises(NetworkError, match=r"potential of 'd' .* 'c' .*'a', 'b', but discrete with states 'b', 'a'"):
        net.check()


@pytest.mark.parametrize("in_place", [False, True])
def test_relabel_nodes_keeps_potentials_and_check_names_the_remedy(net: Network, in_place: bool) -> None:
    renamed = nx.relabel_nodes(net, {"x": "z"}, copy=not in_place)
    assert type(renamed) is Network
    assert renamed.nodes["z"]["potential"] is P_X
    with pytest.raises(NetworkError) as raised:
        renamed.check()
    assert "use net.rename({'x': 'z'}) on the network as it was before" in str(raised.value)
    assert "node 'y' lacks the parents 'z' that have arcs to it and has parents without an arc to it: 'x'" in str(
        raised.value
    )


@pytest.mark.parametrize("copied", [True, False])
def test_reverse(net: Network, copied: bool) -> None:
    back = net.reverse(copy=copied)
    assert carries(back)
    assert set(back.edges) == {(end, start) for start, end in net.edges}
    with pytest.raises(NetworkError, match="faults"):
        back.check()


def test_directed_and_undirected_copies(net: Network) -> None:
    assert type(net.to_directed()) is Network
    assert carries(net.to_directed())
    assert type(net.to_undirected()) is nx.Graph
    assert carries(net.to_undirected())
    assert carries(nx.transitive_closure(net))


def test_algorithms_of_networkx(net: Network) -> None:
    assert nx.is_directed_acyclic_graph(net)
    assert nx.ancestors(net, "x") == {"c", "d"}
    assert nx.dag_longest_path(net) == ["c", "d", "x", "y"]
    assert nx.node_link_data(net)["nodes"][0]["variable"] is Y
    assert nx.is_isomorphic(net, net.rename({"x": "z"}))
    assert nx.utils.graphs_equal(net, net.copy())


# -- structure ----------------------------------------------------------------------------------------------------

ASIA = Network(
    [
        ("asia", "tub"),
        ("smoke", "lung"),
        ("smoke", "bronc"),
        ("tub", "either"),
        ("lung", "either"),
        ("either", "xray"),
        ("either", "dysp"),
        ("bronc", "dysp"),
    ]
)


def test_markov_blanket_separates_from_the_rest() -> None:
    assert ASIA.markov_blanket("either") == {"tub", "lung", "xray", "dysp", "bronc"}
    for node in ASIA:
        blanket = ASIA.markov_blanket(node)
        rest = set(ASIA) - blanket - {node}
        assert not rest or ASIA.d_separated(node, rest, blanket)


def test_d_separation() -> None:
    assert ASIA.d_separated("asia", "smoke")
    assert not ASIA.d_separated("asia", "smoke", given="dysp")
    assert ASIA.d_separated({"asia", "tub"}, ["smoke", "bronc"], given=())
    with pytest.raises(NetworkError, match="did you mean 'smoke'"):
        ASIA.d_separated("asia", "smoek")
    with pytest.raises(NetworkError, match="disjoint"):
        ASIA.d_separated("asia", "asia")


def test_moral_graph(net: Network) -> None:
    graph = net.moral_graph()
    assert type(graph) is nx.Graph
    assert {frozenset(edge) for edge in graph.edges} == {frozenset(pair) for pair in ("cd", "dx", "cy", "xy", "cx")}


# -- renaming -----------------------------------------------------------------------------------------------------


def test_rename_is_consistent_and_leaves_the_original(net: Network) -> None:
    net.nodes["x"]["pos"] = (0, 1)
    net.edges["c", "y"]["color"] = "red"
    renamed = net.rename({"x": "weight\n/é", "c": "class"})
    renamed.check()
    assert list(renamed) == ["y", "class", "weight\n/é", "d"]
    assert renamed.potential("y").scope == ("class", "weight\n/é", "y")
    assert renamed.nodes["weight\n/é"]["pos"] == (0, 1)
    assert renamed.edges["class", "y"]["color"] == "red"
    assert carries(net)
    assert renamed.potential("d").to_dict()["table"] is net.potential("d").to_dict()["table"]


def test_rename_swaps(net: Network) -> None:
    swapped = net.rename({"x": "y", "y": "x"})
    swapped.check()
    assert swapped.potential("x").scope == ("c", "y", "x")
    assert carries(swapped.rename({"x": "y", "y": "x"}))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"x": "y"}, "the name 'y'"),
        ({"x": "q", "y": "q"}, "the name 'q'"),
        ({"nothing": "q"}, "no node 'nothing'"),
        ({"x": ""}, "non-empty string"),
        ({"x": 3}, "non-empty string"),
    ],
)
def test_rename_refuses(net: Network, names, message: str) -> None:
    with pytest.raises(NetworkError, match=message):
        net.rename(names)


# -- showing ------------------------------------------------------------------------------------------------------


def test_repr_and_str(net: Network) -> None:
    assert repr(net) == "<Network: 4 nodes (2 discrete, 2 continuous), 4 arcs>"
    lines = str(net).splitlines()
    assert lines[1] == "  y: continuous; LinearGaussian; from 'c', 'x'"
    assert lines[2] == "  c: discrete with states 'a', 'b'; Multinomial"
    long = str(Network([(f"n{i}", f"n{i + 1}") for i in range(100)]))
    assert len(long.splitlines()) == 22
    assert long.endswith("(101 nodes in all)")
    many = Discrete("d", states=tuple(range(10_000)))
    assert len(str(Network([Multinomial(many, table=np.full(10_000, 1e-4))]))) < 300


def test_html_is_escaped_and_abbreviated() -> None:
    evil = "<script>alert('x')</script>&\"\n"
    variable = Discrete(evil, states=(evil, "<b>"))
    child = Discrete("child", states=("a", "b"))
    net = Network(
        [Multinomial(variable, table=[0.5, 0.5]), Multinomial(child, parents=(variable,), table=[[0.5, 0.5]] * 2)],
        name=evil,
    )
    html = net._repr_html_()
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<tr>") == 3
    big = Network([(f"n{i}", f"n{i + 1}") for i in range(1000)])._repr_html_()
    assert big.count("<tr>") == 52
    assert "and 951 more nodes" in big


def test_a_text_of_arrows_is_a_structure() -> None:
    net = Network("age->disease <- blood sugar; ward\n disease -> age at death")
    assert list(net) == ["age", "disease", "blood sugar", "ward", "age at death"]
    assert list(net.edges) == [("age", "disease"), ("disease", "age at death"), ("blood sugar", "disease")]
    data = {"a": [1.0, 2.0, 4.0, 3.0], "b": ["u", "v", "v", "u"]}
    assert list(hb.fit("b->a", data).edges) == [("b", "a")]
    assert list(hb.fit(Network("a->b"), data).edges) == [("a", "b")]
    with pytest.raises(NetworkError, match="cycle"):
        hb.fit("a->b->a", data)
    with pytest.raises(NetworkError, match="no name at an end"):
        Network("a->->b")
