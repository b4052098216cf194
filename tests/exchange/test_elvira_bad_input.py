"""Elvira files that are broken or hostile: a `FormatError` with file, line and reason, quickly and within little
memory.
"""

import math
import tracemalloc
import warnings

import numpy as np
import pytest
from costs import assert_linear, ended_if_it_hangs
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hybridbn as hb
from hybridbn.exchange.elvira import parse_elvira

GOOD = """bnet b {
node X(continuous) { min = 0; max = 2; }
node D(finite-states) { num-states = 2; states = (lo hi); }
link X D;
relation X { values = continuous-tree (
case X(0, 1, 2) { 0 = 0.25; 1 = 0.5 + 0.25*exp(0.0*X); } ); }
relation D X { values = continuous-tree (
case X(0, 1, 2) { 0 = case D { lo = 0.25; hi = 0.75; }
1 = case D { lo = 0.5; hi = 0.5; } } ); }
node E(finite-states) { states = (u v w); }
link D E;
relation E D { values = table (0.1 0.2
0.3 0.4 0.6 0.4); }
}
"""

BAD = [
    ("", "", "the file is empty"),
    ("bnet b", "bnet b b", r"line 1: expected `\{`, found 'b'"),
    ("bnet", "<?xml", r"line 1: expected `bnet` at the beginning \(is this a file of Elvira\?\), found '<\?xml'"),
    ("node E", "nodes E", r"line 10: expected `=` after 'nodes E', found '\('"),
    ("node E(finite-states)", "node X(finite-states)", "line 10: a second node named 'X'"),
    (
        "node E(finite-states)",
        "node E(infinite)",
        "line 10: a variable is continuous or finite-states here, not 'infinite'",
    ),
    ("states = (u v w);", "", "line 10: 'E' has no states"),
    ("states = (u v w);", "states = ();", "line 10: 'E' has no states"),
    ("(u v w)", "(u v v)", "line 10: 'E': .*equal"),
    ("num-states = 2", "num-states = 3", "line 3: 'D' is declared with 3 states, but 2 are listed"),
    ("num-states = 2", "kind-of-node = decision", "line 3: 'D' is a decision node; only chance nodes"),
    ("min = 0;", "min = low;", "line 2: 'X': min = 'low' is not a number"),
    ("min = 0;", "min = 0", "line 2: expected `;`|line 2: 'X': min = '0 max = 2'"),
    ("link D E;", "", "line 11: .*|the relation of 'E'"),
    ("link D E;", "link D Q;", "line 11: a link mentions 'Q', which is no node"),
    ("link D E;", "link X E;", "line 11: a link X -> E, but the relation of 'E' does not mention 'X'"),
    ("relation E D", "relation E Q", "line 12: the relation of 'E' mentions 'Q', which is not declared"),
    ("relation E D", "relation E D D", "line 12: the relation of 'E' mentions 'D' twice"),
    ("relation E D", "relation", "line 12: a relation without a variable"),
    ("relation E D", "relation D E", "line 12: a second relation for 'D'"),
    (
        "link D E;\nrelation E D",
        "link X E;\nrelation E X",
        "line 12: the relation of 'E' is a table, but 'X' is continuous",
    ),
    ("values = table (0.1", "deterministic = (0.1", "line 12: the relation of 'E' has no `values`"),
    ("table (0.1", "table (1); values = table (0.1", "line 12: a second `values` in one relation"),
    (
        "table (0.1 0.2\n0.3 0.4 0.6 0.4);",
        "tree (case E { u = 1.5; v = 0.1; w = 0.1; });",
        "line 12: expected a probability of 'E', found another term",
    ),
    ("table (0.1", "function (0.1", "line 12: values of the form 'function'; only table, tree"),
    (
        "{ values = table (0.1",
        "{ kind-of-relation = utility; values = table (0.1",
        "line 12: a relation of the kind 'utility'",
    ),
    ("0.3 0.4 0.6", "0.3 0.6", "line 12: 5 numbers where 6 are wanted for 'E'"),
    ("0.3 0.4 0.6", "0.3 0.4 0.4 0.6", "line 12: 7 numbers where 6 are wanted for 'E'"),
    ("0.3 0.4 0.6", "0.3 o.4 0.6", r"line 13: 'o\.4' is not a number"),
    ("0.3 0.4 0.6", "0.3 nan 0.6", r"line 13: 'nan' is not a number"),
    ("0.3 0.4 0.6", "0.3 4 0.6", r"line 13: '4' is not a probability"),
    ("0.3 0.4 0.6", "0.3 -0.4 0.6", r"line 13: '-0\.4' is not a probability"),
    ("0.3 0.4 0.6", "0.3 0.5 0.6", r"line 12: the probabilities of 'E' sum to 1\.1, not 1"),
    ("0.3 0.4 0.6 0.4);", "0.3 0.4 0.6 0.4;", r"line 13: expected `\)` after the numbers of a table, found ';'"),
    ("0.25; 1 = 0.5", "0.25; 2 = 0.5", "line 6: the case over 'X' has a branch '2'; its branches are 0, 1"),
    ("0.25; 1 = 0.5", "0.25; 0 = 0.5", "line 6: the case over 'X' has the branch '0' twice"),
    ("case X(0, 1, 2) { 0 = 0.25;", "case X(0, 1, 2) {", "line 6: the case over 'X' has no branch '0'"),
    ("case X(0, 1, 2) { 0 = 0.25;", "case X(0, 2, 1) { 0 = 0.25;", "line 6: the cut points of 'X' don't increase"),
    ("case X(0, 1, 2) { 0 = 0.25;", "case X(0, one, 2) { 0 = 0.25;", "line 6: expected a cut point, found 'one'"),
    ("case X(0, 1, 2) { 0 = 0.25;", "case X { 0 = 0.25;", "line 6: the case over 'X' needs two cut points"),
    ("case X(0, 1, 2) { 0 = 0.25;", "case X(0) { 0 = 0.25;", "line 6: the case over 'X' needs two cut points"),
    (
        "case X(0, 1, 2) { 0 = 0.25;",
        "case E(0, 1, 2) { 0 = 0.25;",
        "line 6: a case over 'E', which the relation of 'X' does not",
    ),
    ("case D { lo = 0.25", "case D(0, 1, 2) { lo = 0.25", "line 8: cut points for 'D', which has states"),
    ("lo = 0.25; hi = 0.75;", "lo = 0.25;", "line 8: the case over 'D' has no branch 'hi'"),
    (
        "lo = 0.25; hi = 0.75;",
        "lo = 0.25; hi = 0.5; mid = 0.25;",
        "line 8: the case over 'D' has a branch 'mid'; its branches are lo, hi",
    ),
    ("0.25*exp(0.0*X)", "0.25*exp(0.0*Y)", "line 6: 'Y' in an exponent is no continuous variable of this relation"),
    ("0.25*exp(0.0*X)", "0.25*exp(0.0*X X)", "line 6: expected a linear exponent"),
    ("0.25*exp(0.0*X)", "0.25*exp(1.0)", "line 6: expected a variable after the number in an exponent"),
    ("0.25*exp(0.0*X)", "0.25*exp()", "line 6: expected a variable in an exponent"),
    ("0.25*exp(0.0*X)", "0.25*exp(1*X*X)", "line 6: expected a linear exponent"),
    ("0.25*exp(0.0*X)", "0.25*exp(1*X^2)", "line 6: expected a linear exponent"),
    ("0.25*exp(0.0*X)", "0.25*exp(1*X+2*X)", "line 6: 'X' occurs twice in an exponent"),
    ("0.25*exp(0.0*X)", "0.25*gauss(X, 0, 1)", r"line 6: a term gauss\( \.\.\. \)"),
    ("0.25*exp(0.0*X)", "0.25*X", r"line 6: expected a number or exp"),
    ("0.25*exp(0.0*X)", "0.25*exp(1e5*X)", r"line 5: .*beyond"),
    ("0.25*exp(0.0*X)", "1e999999999*exp(-1e9*X)", r"line 5: .*beyond"),
    ("0.25*exp(0.0*X)", "0.25*exp(1e308*X)", r"line 5: .*beyond"),
    ("0.25*exp(0.0*X)", "1e999999999999999999999", r"line 5: .*beyond|line 5: .*number"),
    ("0.25*exp(0.0*X)", "1" + "0" * 400, "line 6: a number of 401 characters"),
    ("0 = 0.25; 1 = 0.5", "0 = 0.0; 1 = 0.0-0.5", "line 5: 'X' is negative: down to -0.25"),
    ("0.5 + 0.25*exp(0.0*X);", "0.5", "line 6: expected `\\+` or `-` or `;` in a density, found '}'"),
    ("0.3 0.4 0.6 0.4); }\n}", "0.3 0.4 0.6 0.4); }\n", "line 14|line 13: .*truncated"),
    ("0.3 0.4 0.6 0.4); }\n}", "0.3 0.4 0.6 0.4); }\n} }", "line 14: expected the end of the file after the network"),
    ("node E", "/* node E", "line 10: the comment that starts here is not closed"),
    ("node E", 'node "E', "line 10: the quoted text that starts here is not closed"),
    ("node E", "node \0", "line 10: there is a NUL character"),
    ("node E", 'node ""', "line 10: expected a node's name, found an empty text"),
    ("node X(continuous) {", 'node X(continuous) { comment = "hybridbn domain=5,1"; ', "line 2: .*'X': the domain"),
    ("node X(continuous) {", 'node X(continuous) { comment = "hybridbn domain=nan"; ', "line 2: 'X': "),
    (
        "node E(finite-states) {",
        'node E(finite-states) { comment = "hybridbn states=%5B1%5D"; ',
        "line 10: 'E': its states .* are not 3 texts or numbers",
    ),
    ("node E(finite-states) {", 'node E(finite-states) { comment = "hybridbn states=oops"; ', "line 10: 'E': "),
    (
        "node E(finite-states) {",
        'node E(finite-states) { comment = "hybridbn states=%5B%5B1%5D,2,%7B%7D%5D"; ',
        "line 10: 'E': ",
    ),
    ("node E(finite-states) {", 'node E(finite-states) { comment = "hybridbn cuts=1,2,3"; ', "line 10: 'E': "),
]


@pytest.mark.parametrize(("old", "new", "reason"), BAD)
def test_bad_text_is_refused_with_its_line(old, new, reason, tmp_path):
    assert old in GOOD
    path = tmp_path / "bad.elv"
    path.write_text(GOOD.replace(old, new) if old else "")
    if old == "link D E;" and not new:
        assert set(hb.read_network(path).edges) == {("X", "D"), ("D", "E")}  # the relation tells the parents
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(hb.FormatError, match=reason) as caught:
            hb.read_network(path)
    assert str(caught.value).startswith(str(path))


def test_cycles_are_refused():
    text = """bnet b { node a(finite-states) { states = (u v); } node b(finite-states) { states = (u v); }
    relation a b { values = table (1 0 0 1); } relation b a { values = table (1 0 0 1); } }"""
    with pytest.raises(hb.FormatError, match=r"(?i)cycle"):
        parse_elvira(text)


def test_the_good_text_is_good():
    good = parse_elvira(GOOD)
    assert set(good.edges) == {("X", "D"), ("D", "E")}
    longest = parse_elvira(GOOD.replace("0.25*exp(0.0*X)", "0.25" + "0" * 396 + "*exp(0.0*X)"))
    assert repr(longest.potential("X")) == repr(good.potential("X"))


def test_comments_stand_anywhere():
    commented = GOOD.replace("0.3 0.4 0.6", "0.3 /* of w */ 0.4 // and\n 0.6").replace("link D E;", "// no\nlink D E;")
    plain, read = (parse_elvira(text).potential("E").to_dict()["table"] for text in (GOOD, commented))
    np.testing.assert_array_equal(read, plain)


@pytest.mark.parametrize("length", range(1, len(GOOD) - 2, 3))
def test_every_truncation_is_refused(length):
    with pytest.raises(hb.FormatError):
        parse_elvira(GOOD[:length])


def test_bytes_that_are_no_text(tmp_path):
    for data in (b"\x80\x04\x95cos\nsystem\n", "bnet".encode("utf-16"), b"\x1f\x8b\x08\0\0", b"\xff\xfe{}", b"\0" * 99):
        (tmp_path / "bad.elv").write_bytes(data)
        with pytest.raises(hb.FormatError, match=r"line 1|truncated"):
            hb.read_network(tmp_path / "bad.elv")
    with pytest.raises(hb.FormatError, match="no encoding of text 'klingon'"):
        hb.read_network(tmp_path / "bad.elv", encoding="klingon")


MANY = 200_000
HEAD = "bnet b { node X(continuous) { min = 0; max = 1; } relation X { values = continuous-tree ("


def hostile(many):
    return {
        "braces": "bnet b {" + "{" * many,
        "cases": HEAD + "case X(0,1) { 0 = " * (many // 4),
        "parentheses": HEAD + "(" * many,
        "terms": HEAD + "1+" * (many // 2),
        "exponent": HEAD + "1*exp(" + "1*X+" * many,
        "exponents": HEAD + "1*exp(1*X)+" * (many // 10),
        "cuts": HEAD + "case X(" + ",".join(map(str, range(many))) + ") { 0 = 1; }",
        "branches": HEAD + "case X(0,1) {" + "0=1;" * (many // 2) + "} ); } }",
        "quotes": "bnet b {" + '"' * (many | 1),
        "quoted": "bnet b {" + ' "a" ' * many,
        "comments": "bnet b {" + "/*" * many,
        "closed comments": "bnet b {" + "/**/" * many,
        "nodes": "bnet b {" + "node X { }" * (many // 4),
        "many nodes": "bnet b {" + "".join(f"node X{i} {{ }}" for i in range(many // 8)) + "}",
        "links": "bnet b {" + "link X X;" * (many // 2) + "}",
        "states": "bnet b { node D { states = (" + "a " * many + "); } relation D { values = table (1); } }",
        "name": "bnet " + "b" * many * 5,
        "digits": HEAD + "1" * many * 5 + "; ); } }",
        "numbers": "bnet b { node D { states = (a b); } relation D { values = table (" + "1 " * many * 5 + "); } }",
        "parents": "bnet b {"
        + "".join(f"node X{i} {{ states = (a b c); }} " for i in range(60))
        + "relation "
        + " ".join(f"X{i}" for i in range(60))
        + " { values = table (1); }"
        + "".join(f"relation X{i} {{ values = table (.5 .25 .25); }}" for i in range(1, 60))
        + "}",
        "tree of many": "bnet b {"
        + "".join(f"node X{i} {{ states = (a b c); }} " for i in range(60))
        + "relation "
        + " ".join(f"X{i}" for i in range(60))
        + " { values = tree (0.5;); }"
        + "".join(f"relation X{i} {{ values = table (.5 .25 .25); }}" for i in range(1, 60))
        + "}",
        "grid": "bnet b {"
        + "".join(f"node X{i}(continuous) {{ min = 0; max = 1000; }} " for i in range(9))
        + "relation "
        + " ".join(f"X{i}" for i in range(9))
        + " { values = continuous-tree ("
        + "".join(
            f"case X{i}({','.join(map(str, range(9)))}) {{" + "".join(f"{j} = 1;" for j in range(7)) + "7="
            for i in range(9)
        )
        + "1;"
        + "}" * 9
        + "); }"
        + "".join(
            f"relation X{i} {{ values = continuous-tree (case X{i}(0,1000) {{0=0.001;}}); }}" for i in range(1, 9)
        )
        + "}",
    }


HOSTILE = hostile(MANY)


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_little(name):
    with ended_if_it_hangs(), pytest.raises(hb.FormatError) as caught:
        parse_elvira(HOSTILE[name])
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(name):
    def refuse(many):
        with pytest.raises(hb.FormatError):
            parse_elvira(hostile(many)[name])

    assert_linear(refuse, 4000)


@pytest.mark.parametrize(
    "name",
    ["numbers", "grid", *(pytest.param(name, marks=pytest.mark.slow) for name in ("terms", "many nodes", "cuts"))],
)
def test_hostile_text_takes_little_memory(name):
    tracemalloc.start()
    try:
        with pytest.raises(hb.FormatError):
            parse_elvira(HOSTILE[name])
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


PARTS = [
    "{",
    "}",
    "(",
    ")",
    ";",
    "=",
    '"',
    "case X(0,1)",
    "exp(",
    "-",
    "1e999",
    "nan",
    "node X { }",
    "relation",
    "\0",
    "é",
    "D",
    "X",
    "0",
]


@settings(max_examples=examples(150), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), st.sampled_from(["", *PARTS])), min_size=1, max_size=4
    )
)
def test_damaged_files_are_read_or_refused(edits):
    text = GOOD
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            net = parse_elvira(text)
        except hb.FormatError:
            return
    net.check()
    for node in net:
        potential = net.potential(node)
        assert not isinstance(potential, hb.MTE) or math.isfinite(potential.mass_error)
