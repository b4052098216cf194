"""Everything that makes no Bayesian network is refused with a `NetworkError` that names the place and the remedy."""

import networkx as nx
import numpy as np
import pytest

from hybridbn.errors import NetworkError
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete

A, B, C = (Discrete(name, states=("no", "yes")) for name in "abc")


def table(child: Discrete, *parents: Discrete) -> Multinomial:
    return Multinomial(child, parents=parents, table=np.full([len(v) for v in (*parents, child)], 1 / len(child)))


def message(call, *arguments) -> str:
    with pytest.raises(NetworkError) as raised:
        call(*arguments)
    return str(raised.value)


@pytest.mark.parametrize("states", ["no", 5])
def test_states_are_a_sequence(states) -> None:
    assert message(Discrete, "a", states) == f"'a': states must be a sequence of states, not {states!r}"


# -- cycles -------------------------------------------------------------------------------------------------------


def test_cycle_in_a_list_is_listed() -> None:
    text = message(Network, [table(A, C), table(B, A), table(C, B)])
    assert text == "the arcs form a cycle: 'a' -> 'b' -> 'c' -> 'a'"


def test_cycle_by_adding_is_listed() -> None:
    net = Network([table(A), table(B, A), table(C, B)])
    assert message(net.add, table(A, C)) == "<Multinomial a | c: 2 x 2> would close a cycle: 'a' -> 'b' -> 'c' -> 'a'"


def test_cycle_among_nodes_without_potential_is_found_when_adding() -> None:
    net = Network([("a", "b"), ("b", "c")])
    assert "a cycle: 'a' -> 'b' -> 'c' -> 'a'" in message(net.add, table(A, C))


def test_replacing_the_arc_that_would_close_a_cycle_is_fine() -> None:
    net = Network([table(A), table(B, A)])
    net.add(table(B))
    net.add(table(A, B))
    net.check()


def test_self_loop() -> None:
    class Careless(Potential):
        def __init__(self) -> None:
            self.child, self.parents = A, (A,)

        def on(self, axes):
            return np.ones((2, 2)), 0.0

    assert "'a' can't be its own parent" in message(Network, [Careless()])
    assert "'a' can't be its own parent" in message(Network().add, Careless())
    net = Network([table(A)])
    net.add_edge("a", "a")
    assert message(net.check) == "node 'a' has an arc to itself; remove it"


def test_every_cycle_is_named_once() -> None:
    net = Network([(1, 2), (2, 1), (3, 4), (4, 5), (5, 3), (5, 1), (6, 6)])
    text = message(net.check)
    assert "a cycle: 1 -> 2 -> 1" in text
    assert "a cycle: 3 -> 4 -> 5 -> 3" in text
    assert "node 6 has an arc to itself" in text
    assert text.count("cycle") == 2


def test_potentials_of_a_cyclic_graph() -> None:
    net = Network([table(A), table(B, A)])
    net.add_edge("b", "a")
    assert "a cycle: 'a' -> 'b' -> 'a'" in message(lambda: net.potentials)


# -- lists of potentials ------------------------------------------------------------------------------------------


def test_two_potentials_for_one_node() -> None:
    assert "two potentials for 'a'" in message(Network, [table(A), table(B), table(A)])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Discrete("a", states=("yes", "no")), "'no', 'yes'"),
        (Discrete("a", states=("no", "yes", "maybe")), "'maybe'"),
        (Discrete("a", states=("no", "yes"), cuts=(1.5,)), "cuts 1.5"),
        (Continuous("a"), "continuous"),
    ],
)
def test_parent_that_differs(other: Discrete | Continuous, words: str) -> None:
    own: Multinomial | LinearGaussian
    if isinstance(other, Discrete):
        own = Multinomial(other, table=np.full(len(other), 1 / len(other)))
    else:
        own = LinearGaussian(other, intercept=0.0, coefficients=[], variance=1.0)
    for potentials in ([own, table(B, A)], [table(B, A), own]):
        net = Network()
        text = message(lambda listed, net=net: [net.add(p) for p in listed], potentials)
        assert text == message(Network, potentials)
        assert text.startswith("the potential of 'b' was built with another 'a' than the network has")
        assert words in text
        assert "build both with the same variable" in text


def test_types_of_states_count() -> None:
    ones, truths = Discrete("a", states=(0, 1)), Discrete("a", states=(False, True))
    text = message(Network, [table(ones), table(B, truths)])
    assert "states False, True, but discrete with states 0, 1" in text


def test_domains_count() -> None:
    x, y = Continuous("x"), Continuous("y")
    net = Network([LinearGaussian(y, parents=(x,), intercept=0.0, coefficients=[1.0], variance=1.0)])
    net.nodes["x"]["variable"] = Continuous("x", domain=(0, 1))
    assert "continuous, but continuous on [0.0, 1.0]" in message(net.check)


def test_the_first_state_that_differs_is_named() -> None:
    long, other = (Discrete("a", states=(*range(20), last)) for last in ("x", "y"))
    assert "where state 20 is 'y', but 'x'" in message(Network, [table(long), table(B, other)])


def test_two_children_that_disagree_about_a_parent_without_potential() -> None:
    other = Discrete("a", states=("yes", "no"))
    assert "the potential of 'c'" in message(Network, [table(B, A), table(C, other)])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (["a", "b"], "expected a potential, not 'a'"),
        (["ab", "cd"], "expected a potential, not 'ab'"),
        ([table(A), ("a", "b")], "expected a potential, not ('a', 'b')"),
        ([A], "expected a potential"),
        (table(A), "write Network([...])"),
        (3, "not of type int"),
        ("abc", "not of type str"),
        ({"a": table(A)}, "not of type dict"),
        ([("a",)], "arcs must be pairs"),
        ([("a", ["b"])], "arcs must be pairs"),
        ([("a", "b", 3)], "arcs must be pairs"),
        (nx.MultiDiGraph([("a", "b")]), "parallel arcs"),
        (nx.MultiGraph([("a", "b")]), "parallel arcs"),
        (nx.Graph([("a", "b")]), "without direction"),
    ],
)
def test_what_a_network_is_not_made_of(data, words: str) -> None:
    assert words in message(Network, data)


def test_missing_potential() -> None:
    assert message(Network([table(B, A)]).check) == "node 'a' has no potential; add one with net.add"
    assert "node 'a' has no potential" in message(Network([table(B, A)]).potential, "a")
    assert "has no potential" in message(lambda: Network([table(B, A)]).potentials)
    assert "node 'x' has no variable" in message(Network([("x", "y")]).variable, "x")


# -- check --------------------------------------------------------------------------------------------------------


def test_every_fault_is_named_at_once() -> None:
    net = Network([table(A), table(B, A), table(C, A, B)])
    net.add_edge("c", "a")
    net.add_edge("b", "b")
    net.add_edge("z", "b")
    net.remove_edge("b", "c")
    net.nodes["a"]["variable"] = Discrete("a", states=("yes", "no"))
    net.add_node("odd", variable="not a variable", potential=3)
    text = message(net.check)
    for fault in (
        "node 'b' has an arc to itself",
        "a cycle: 'a' -> 'c' -> 'a'",
        "node 'a' is discrete with states 'yes', 'no', but discrete with states 'no', 'yes' in its own potential",
        "potential of node 'a' lacks the parents 'c' that have arcs to it",
        "potential of node 'b' lacks the parents 'z'",
        "the potential of 'b' was built with another 'a'",
        "potential of node 'c' has parents without an arc to it: 'b'",
        "the potential of 'c' was built with another 'a'",
        "the variable of node 'odd' must be Discrete or Continuous, not 'not a variable'",
        "the potential of node 'odd' must be a Potential, not 3",
        "node 'z' has no variable and no potential",
    ):
        assert fault in text
    assert text.startswith(f"the network has {text.count(chr(10))} faults:")


def test_variable_without_its_potential_and_the_reverse() -> None:
    net = Network([table(A)])
    del net.nodes["a"]["variable"]
    assert message(net.check) == "node 'a' has no variable; set it to the potential's child"


def test_a_message_has_at_most_a_thousand_faults() -> None:
    text = message(Network([(i, i + 1) for i in range(5000)]).check)
    assert text.startswith("the network has 5001 faults:")
    assert text.endswith("... and 4001 more")


# -- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["é\u0301", "日本", "a\nb", "'\"", "a/b\\c", " ", "<b>", "\x00", "\ud800", "no"])
def test_any_text_is_a_name(name: str) -> None:
    # "no" is also the name of a state
    odd = Discrete(name, states=("no", name + "x"))
    net = Network([table(B, odd), table(odd)])
    net.check()
    assert net.variable(name) == odd
    assert net.rename({name: "plain"}).potential("b").scope == ("plain", "b")
    assert repr(net) == "<Network: 2 nodes (2 discrete), 1 arc>"
    assert isinstance(str(net), str)
    assert isinstance(net._repr_html_(), str)


def test_empty_name() -> None:
    assert "non-empty" in message(Discrete, "", ("a",))


@pytest.mark.parametrize("ask", [Network.variable, Network.potential, Network.markov_blanket])
def test_unknown_nodes_and_near_matches(ask) -> None:
    net = Network([("Weight", "height"), ("height", "age")])
    assert message(ask, net, "weight") == "the network has no node 'weight'; did you mean 'Weight'?"
    assert message(ask, net, "heigth").startswith("the network has no node 'heigth'; did you mean 'height'")
    assert message(ask, net, "zzz") == "the network has no node 'zzz'; its nodes are 'Weight', 'height', 'age'"
    assert "no node 3" in message(ask, net, 3)
    assert "no node ['age']" in message(ask, net, ["age"])
    assert message(ask, Network(), "a") == "the network has no node 'a'; it is empty"


def test_parent_order_may_differ_from_the_order_of_nodes() -> None:
    Network([table(C, B, A), table(A), table(B)]).check()
