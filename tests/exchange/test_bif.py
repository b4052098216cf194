"""BIF files: every network that pgmpy ships, the grammar's variants, and the trip through our own writer."""

import gzip
import itertools
import json
import os
import re
import string
from pathlib import Path

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from known_answers import ANSWERS
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.exchange.bif import format_bif, parse_bif

pgmpy = pytest.importorskip("pgmpy", reason="the networks of the public BIF collection come with pgmpy")

NETWORKS = Path(pgmpy.__file__).parent / "utils" / "example_models"

QUICK = ["asia", "cancer", "child", "earthquake", "insurance", "sachs", "survey"]
SLOW = [
    "alarm",
    "andes",
    "barley",
    "diabetes",
    "hepar2",
    "link",
    "mildew",
    "munin",
    "munin1",
    "munin2",
    "munin3",
    "munin4",
]
SLOW += ["pathfinder", "pigs", "hailfinder", "water", "win95pts"]
ALL = sorted(QUICK + SLOW)
MARKED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in ALL]

COIN = "variable c {{ type discrete [ 2 ] {{ {states} }}; }}\nprobability ( c ) {{ table 0.25, 0.75; }}\n"
PAIR = """network pair {{ }}
variable a {{ type discrete [ 2 ] {{ no, yes }}; }}
variable b {{ type discrete [ 2 ] {{ lo, hi }}; }}
variable c {{ type discrete [ 3 ] {{ x, y, z }}; }}
probability ( a ) {{ table 0.5, 0.5; }}
probability ( b ) {{ table 0.5, 0.5; }}
probability ( c | a, b ) {{ {rows} }}
"""
ROWS = [
    "(no, lo) 0.1, 0.2, 0.7;",
    "(no, hi) 0.2, 0.3, 0.5;",
    "(yes, lo) 0.3, 0.3, 0.4;",
    "(yes, hi) 0.6, 0.4, 0;",
]
TABLE = np.array([[[0.1, 0.2, 0.7], [0.2, 0.3, 0.5]], [[0.3, 0.3, 0.4], [0.6, 0.4, 0.0]]])


def shipped(name):
    return NETWORKS / f"{name}.bif.gz"


def text_of(name):
    return gzip.decompress(shipped(name).read_bytes()).decode()


def same(left, right):
    """Same variables, parents and, bit for bit, tables."""
    assert list(left) == list(right)
    for node in left:
        assert left.potential(node).variables == right.potential(node).variables
        assert np.array_equal(left.potential(node).table, right.potential(node).table)


# -- the public collection --------------------------------------------------------------------------------------------


def test_the_collection_is_complete():
    assert sorted(path.name.removesuffix(".bif.gz") for path in NETWORKS.glob("*.bif.gz")) == ALL


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKED)
def test_every_table_is_what_pgmpy_reads(name):
    from pgmpy.readwrite import BIFReader

    theirs = BIFReader(string=text_of(name))
    net = hb.read_network(shipped(name), normalize=False)
    assert set(net) == set(theirs.variable_names)
    for node in net:
        potential = net.potential(node)
        assert list(as_discrete(potential.child).states) == theirs.variable_states[node]
        assert [parent.name for parent in potential.parents] == theirs.variable_parents[node]
        assert np.array_equal(
            as_kind(hb.Multinomial, potential).table.reshape(-1, len(as_discrete(potential.child))).T,
            theirs.variable_cpds[node],
        )


@pytest.mark.parametrize("name", [name for name in MARKED if name != "child"])  # pyAgrum can't read Asy/Patch
def test_every_table_is_what_pyagrum_reads(name, tmp_path):
    gum = pytest.importorskip("pyagrum")
    path = tmp_path / f"{name}.bif"
    path.write_text(text_of(name))
    theirs = gum.loadBN(str(path))
    net = hb.read_network(path, normalize=False)
    assert set(net) == set(theirs.names())
    for node in net:
        potential, table = net.potential(node), theirs.cpt(node)
        assert tuple(theirs.variable(node).labels()) == as_discrete(potential.child).states
        assert [child.name for child in (potential.child, *potential.parents)] == list(table.names)
        found = table.toarray()  # dimensions are the names backwards
        mine = as_kind(hb.Multinomial, potential).table.transpose(
            *reversed(range(as_kind(hb.Multinomial, potential).table.ndim - 1)),
            as_kind(hb.Multinomial, potential).table.ndim - 1,
        )
        np.testing.assert_allclose(mine, found, rtol=1e-7, atol=1e-38)


@pytest.mark.parametrize("name", MARKED)
def test_what_is_written_is_read_bit_for_bit(name, tmp_path):
    net = hb.read_network(shipped(name))
    assert (
        max(np.abs(as_kind(hb.Multinomial, net.potential(node)).table.sum(axis=-1) - 1).max() for node in net) < 1e-15
    )
    hb.write_network(net, tmp_path / "again.bif.gz")
    same(net, hb.read_network(tmp_path / "again.bif.gz"))


def test_files_are_the_same_every_time_and_leave_nothing_beside_them(tmp_path):
    net = hb.read_network(shipped("asia"))
    for name in ("one.bif.gz", "two.bif.gz", "two.bif.gz"):
        hb.write_network(net, tmp_path / name)
    assert (tmp_path / "one.bif.gz").read_bytes() == (tmp_path / "two.bif.gz").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["one.bif.gz", "two.bif.gz"]


@pytest.mark.parametrize("name", ["asia", "cancer", "earthquake", "survey"])
def test_joint_probabilities_of_known_answers(name):
    path = ANSWERS / "bif_marginals" / f"{name}.json.gz"
    case = json.loads(gzip.decompress(path.read_bytes()))
    net = hb.read_network(shipped(name))
    letters = dict(zip(net, string.ascii_letters, strict=False))
    terms = ["".join(letters[node] for node in net.potential(node).scope) for node in net]
    joint = np.einsum(
        f"{','.join(terms)}->{''.join(letters.values())}",
        *(as_kind(hb.Multinomial, net.potential(node)).table for node in net),
    )
    for evidence in case["evidence_sets"]:
        index = tuple(
            as_discrete(net.variable(node)).code(evidence["evidence"][node])
            if node in evidence["evidence"]
            else slice(None)
            for node in net
        )
        part = joint[index]
        assert part.sum() == pytest.approx(evidence["p_evidence"], rel=1e-12)
        free = [node for node in net if node not in evidence["evidence"]]
        for axis, node in enumerate(free):
            marginal = part.sum(axis=tuple(other for other in range(part.ndim) if other != axis)) / part.sum()
            np.testing.assert_allclose(marginal, evidence["marginals"][node], atol=1e-13)


# -- the grammar ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_rows_come_in_any_order(order):
    net = parse_bif(PAIR.format(rows=" ".join(ROWS[i] for i in order)))
    assert np.array_equal(as_kind(hb.Multinomial, net.potential("c")).table, TABLE)


@pytest.mark.parametrize(
    "rows",
    [
        "table 0.1 0.2 0.3 0.6 0.2 0.3 0.3 0.4 0.7 0.5 0.4 0.0;",
        "table 0.1, 0.2, 0.3, 0.6,\n 0.2, 0.3, 0.3, 0.4,\n 0.7, 0.5, 0.4, 0.0 ;",
        "default 0.3 0.3 0.4; (no, lo) 0.1 0.2 0.7; (yes hi) .6 .4 0.; (no,hi)2e-1,3E-1,+.5;",
        "(no, lo) 0.1 0.2 0.7; (no, hi) 0.2 0.3 0.5; property note = (no; default 0.3 0.3 0.4; (yes, hi) 0.6 0.4 0;",
        '( no,lo )0.1,0.2,0.7,; ("no" "hi") .2 .3 .5; ("yes", lo) .3 .3 .4; // (yes, hi) 1 0 0;\n (yes /* or no */, '
        "hi) .6 .4 "
        "0;",
    ],
)
def test_forms_of_rows(rows):
    assert np.array_equal(as_kind(hb.Multinomial, parse_bif(PAIR.format(rows=rows)).potential("c")).table, TABLE)


@pytest.mark.parametrize(
    "header", ["c | a, b", "c|a b", "c a b", "c, a, b", '"c" | "a", "b"', '"c" "a" "b"', "c | a , b"]
)
def test_forms_of_headers(header):
    net = parse_bif(PAIR.format(rows=" ".join(ROWS)).replace("c | a, b", header))
    assert net.potential("c").scope == ("a", "b", "c")
    assert np.array_equal(as_kind(hb.Multinomial, net.potential("c")).table, TABLE)


def test_blocks_come_in_any_order():
    blocks = re.split(r"\n(?=variable|probability)", PAIR.format(rows=" ".join(ROWS)))
    net = parse_bif("\n".join(reversed(blocks)))
    assert list(net) == ["c", "b", "a"]
    assert np.array_equal(as_kind(hb.Multinomial, net.potential("c")).table, TABLE)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("a, b", ("a", "b")),
        ("a b", ("a", "b")),
        ('"a" "b"', ("a", "b")),
        ("1, 2", ("1", "2")),
        ("<5, >=5", ("<5", ">=5")),
        ("Asy/Patch, 12+", ("Asy/Patch", "12+")),
        ("not at all, a lot", ("not at all", "a lot")),
        ('"[0, 1)", "{x; y}"', ("[0, 1)", "{x; y}")),
        ('"// no", "/* comment"', ("// no", "/* comment")),
        ('"a  b", é', ("a  b", "é")),
        ("table, default", ("table", "default")),
    ],
)
def test_names_of_states(states, expected):
    net = parse_bif(COIN.format(states=states))
    assert as_discrete(net.variable("c")).states == expected
    first = states.split('"')[1] if states.startswith('"') else expected[0]
    child = f'variable d {{ type discrete [2] {{ u, v }}; }} probability ( d | c ) {{ default 1 0; ("{first}") 0 1; }}'
    assert np.array_equal(
        as_kind(hb.Multinomial, parse_bif(COIN.format(states=states) + child).potential("d")).table, [[0, 1], [1, 0]]
    )


def test_states_with_parentheses():
    text = COIN.format(states="mild (5-50), none") + "variable d { type discrete [2] { u, v }; }"
    net = parse_bif(text + " probability ( d | c ) { (mild (5-50)) 0 1; (none) 1 0; }")
    assert np.array_equal(as_kind(hb.Multinomial, net.potential("d")).table, [[0, 1], [1, 0]])


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_and_byte_order_mark(newline, tmp_path):
    text = PAIR.format(rows="\n".join(ROWS)).replace("\n", newline)
    (tmp_path / "pair.bif").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert np.array_equal(as_kind(hb.Multinomial, hb.read_network(tmp_path / "pair.bif").potential("c")).table, TABLE)


def test_encoding_is_the_users_to_name(tmp_path):
    (tmp_path / "coin.bif").write_bytes(COIN.format(states="é, ü").encode("latin-1"))
    with pytest.raises(hb.FormatError, match=r"line 1.*not utf-8.*encoding='latin-1'"):
        hb.read_network(tmp_path / "coin.bif")
    assert as_discrete(hb.read_network(tmp_path / "coin.bif", encoding="latin-1").variable("c")).states == ("é", "ü")


def test_network_names_and_properties_are_skipped():
    text = 'network "my // net" { property version = 1; }\n' + COIN.format(states="a, b").replace(
        "type", "property position = (73, 165) ; property note = anything at all, really ;\n type"
    )
    assert list(parse_bif(text)) == ["c"]


def test_a_name_quoted_in_one_place_is_the_same_name():
    text = 'variable "c" { type discrete [ 2 ] { "a b", d }; }\nprobability ( c ) { table 0.25, 0.75; }'
    assert as_discrete(parse_bif(text).variable("c")).states == ("a b", "d")


def test_numbers_keep_all_their_digits():
    text = COIN.format(states="a, b").replace("0.25, 0.75", "0.12345678901234567, 0.8765432109876543")
    assert as_kind(hb.Multinomial, parse_bif(text).potential("c")).table.tolist() == [
        0.12345678901234567,
        0.8765432109876543,
    ]


# -- normalization ----------------------------------------------------------------------------------------------------


def test_rounded_rows_are_normalized_unless_told_otherwise():
    text = COIN.format(states="a, b").replace("0.25, 0.75", "0.3333333, 0.6666666")
    assert as_kind(hb.Multinomial, parse_bif(text).potential("c")).table.sum() == 1
    assert as_kind(hb.Multinomial, parse_bif(text, normalize=False).potential("c")).table.tolist() == [
        0.3333333,
        0.6666666,
    ]


def test_rows_further_off_are_reported_once_naming_the_worst():
    text = PAIR.format(rows=" ".join([*ROWS[:2], "(yes, lo) 0.3 0.3 0.3999;", "(yes, hi) 0.6 0.401 0;"]))
    with pytest.warns(UserWarning, match=r"^<text>: .*the worst, 'c' given \(yes, hi\), was off by 0.001$") as caught:
        net = parse_bif(text)
    assert len(caught) == 1
    np.testing.assert_allclose(as_kind(hb.Multinomial, net.potential("c")).table.sum(axis=-1), 1, atol=1e-15)
    with pytest.raises(hb.FormatError, match=r"line 7: the probabilities of 'c' given \(yes, hi\) sum to 1.001, not 1"):
        parse_bif(text, normalize=False)


def test_rows_that_are_no_distributions_are_refused():
    text = COIN.format(states="a, b").replace("0.25, 0.75", "0.25, 0.95")
    with pytest.raises(hb.FormatError, match=r"line 2: the probabilities of 'c' sum to 1\.2, not 1"):
        parse_bif(text)


def test_a_table_in_the_other_order_is_recognized():
    rows = f"table {' '.join(map(str, TABLE.ravel()))};"
    with pytest.raises(hb.FormatError, match="if the child's states varied fastest, but in BIF the last parent does"):
        parse_bif(PAIR.format(rows=rows))


# -- our own files ----------------------------------------------------------------------------------------------------


def chain(states, child=("no", "yes"), name="c"):
    """Return a network c -> d with these states of c."""
    rng = np.random.default_rng(1)
    c, d = hb.Discrete(name, states=states), hb.Discrete("d", states=child)
    first, second = rng.dirichlet(np.ones(len(states))), rng.dirichlet(np.ones(len(child)), len(states))
    return hb.Network([hb.Multinomial(d, parents=(c,), table=second), hb.Multinomial(c, table=first)])


@pytest.mark.parametrize(
    "states",
    [
        (1, 2, 3),
        (True, False),
        (1.5, -0.25, 1e300),
        ("1", 2),
        (False, 1, "one", 0.5),
        ("a b", "é", "x|y", "true", "[0]", "a//b"),
    ],
)
def test_types_and_names_of_states_survive(states):
    net = chain(states)
    again = parse_bif(format_bif(net))
    same(net, again)
    assert [type(state) for state in as_discrete(again.variable("c")).states] == [type(state) for state in states]


def test_cuts_survive():
    dose = hb.Discrete("dose", cuts=(-1.5, 1e-5, 3))
    net = hb.Network([hb.Multinomial(dose, table=[0.1, 0.2, 0.3, 0.4])])
    assert parse_bif(format_bif(net)).variable("dose") == dose


@pytest.mark.parametrize("name", ["my variable", "é", "variable", "1", "x+1", "a[1]", "table"])
def test_odd_names_of_variables_survive(name):
    net = chain(("a", "b"), name=name)
    same(net, parse_bif(format_bif(net)))


@pytest.mark.parametrize("states", [("a", "b", "c"), (1, 2, 3), (True, False), ("-1", "x.y-z", "_")])
def test_pgmpy_and_pyagrum_read_what_we_write(states, tmp_path):
    from pgmpy.readwrite import BIFReader

    gum = pytest.importorskip("pyagrum")
    net = chain(states)
    hb.write_network(net, tmp_path / "chain.bif")
    theirs = BIFReader(str(tmp_path / "chain.bif"))
    agrum = gum.loadBN(str(tmp_path / "chain.bif"))
    for node in net:
        potential = net.potential(node)
        assert theirs.variable_states[node] == list(map(str, potential.child.states))
        assert list(agrum.variable(node).labels()) == list(map(str, potential.child.states))
        assert np.array_equal(theirs.variable_cpds[node], potential.table.reshape(-1, len(potential.child)).T)
        np.testing.assert_allclose(agrum.cpt(node).toarray(), potential.table, rtol=1e-6)


def test_pgmpy_reads_quoted_names(tmp_path):
    from pgmpy.readwrite import BIFReader

    net = chain(("< 1.5", "1.5 to 3", "Asy/Patch"), child=("not at all", "é"))
    hb.write_network(net, tmp_path / "chain.bif")
    theirs = BIFReader(str(tmp_path / "chain.bif"))
    assert theirs.variable_states == {"c": ["< 1.5", "1.5 to 3", "Asy/Patch"], "d": ["not at all", "é"]}
    assert np.array_equal(theirs.variable_cpds["d"], net.potential("d").table.T)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(names, min_size=1, max_size=4, unique=True), names.filter(lambda name: name != "d"))
def test_any_name_survives_or_is_refused(states, name):
    net = chain(tuple(states), name=name)
    try:
        text = format_bif(net)
    except hb.FormatError as error:
        refused = str(error)
    else:
        same(net, parse_bif(text))
        return
    assert "can't be written to BIF" in refused
    assert not all(text.isalnum() for text in (*states, name))


def test_replacing_a_file_keeps_it_when_refused(tmp_path):
    path = tmp_path / "c.bif"
    hb.write_network(chain(("a", "b")), path)
    before = path.read_bytes()
    with pytest.raises(hb.FormatError):
        hb.write_network(chain(("a", "b;")), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.bif"]


def test_the_suffix_names_the_format(tmp_path):
    net = chain((1, 2))
    for name in ("c.hbn", "C.BIF", "c.bif.gz", "my.bif.net.bif"):
        hb.write_network(net, tmp_path / name)
        same(net, hb.read_network(str(tmp_path / name)))
    assert (tmp_path / "c.bif.gz").read_bytes()[:2] == b"\x1f\x8b"
    assert (tmp_path / "C.BIF").read_bytes().startswith(b"network unknown")
