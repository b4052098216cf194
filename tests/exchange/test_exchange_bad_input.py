"""XMLBIF, XDSL, NET and UAI files that are broken or hostile: a `FormatError` with file, line and reason, at little
cost.
"""

import tracemalloc
import warnings

import numpy as np
import pytest
from costs import assert_linear, count_lines, ended_if_it_hangs
from effort import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.exchange import xml_formats
from hybridbn.exchange.xml_formats import LinearRule

XMLBIF = """<?xml version="1.0"?>
<BIF VERSION="0.3"><NETWORK><NAME>n</NAME>
<VARIABLE TYPE="nature"><NAME>a</NAME><OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME></VARIABLE>
<VARIABLE TYPE="nature"><NAME>b</NAME><OUTCOME>x</OUTCOME><OUTCOME>y</OUTCOME><OUTCOME>z</OUTCOME></VARIABLE>
<DEFINITION><FOR>a</FOR><TABLE>0.5 0.5</TABLE></DEFINITION>
<DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN><TABLE>
0.1 0.2 0.7
0.2 0.3 0.5</TABLE></DEFINITION>
</NETWORK></BIF>
"""
XDSL = """<?xml version="1.0" encoding="UTF-8"?>
<smile version="1.0" id="m"><nodes>
<cpt id="a"><state id="no" /><state id="yes" /><probabilities>0.5 0.5</probabilities></cpt>
<cpt id="b"><state id="x" /><state id="y" /><state id="z" /><parents>a</parents><probabilities>0.1 0.2 0.7
0.2 0.3 0.5</probabilities></cpt>
<equation id="X"><definition>X=Normal(1,2)</definition></equation>
<equation id="Y"><parents>X a</parents><definition>Y=Choose(a,1,2)*X+Normal(0,1)</definition></equation>
<deterministic id="d"><state id="u" /><state id="v" /><parents>a</parents>
<resultingstates>v u</resultingstates></deterministic>
</nodes></smile>
"""
NET = """net { node_size = (10 20); }
node a { states = ("no" "yes"); }
node b { states = ("x" "y" "z"); }
continuous node X { }
continuous node Y { }
potential (a) { data = (0.5 0.5); }
potential (b | a) { data = ((0.1 0.2 0.7)
(0.2 0.3 0.5)); }
potential (X) { data = (normal(0, 1)); }
potential (Y | a X) { data = (normal(1 + 2 * X, 1) normal(0, 2)); }
"""
UAI = """BAYES
2
2 3
2
1 0
2 0 1

2
0.5 0.5

6
0.1 0.2 0.7
0.2 0.3 0.5
"""
GOOD = {".xmlbif": XMLBIF, ".xdsl": XDSL, ".net": NET, ".uai": UAI}

BAD = [
    # -- XMLBIF
    (".xmlbif", None, "", "the file is empty"),
    (".xmlbif", "<BIF", "<SMILE", "line 9: this is not well-formed XML: mismatched tag"),
    (
        ".xmlbif",
        "</NETWORK></BIF>",
        "",
        r"line 10: this is not well-formed XML: no element found; is the file truncated",
    ),
    (".xmlbif", "<?xml version", "BAYES <?xml version", "line 1: this is not well-formed XML"),
    (".xmlbif", "NETWORK>", "NETZ>", r"line 2: expected <BIF> with a <NETWORK> inside, found <BIF>"),
    (".xmlbif", "<NAME>b</NAME>", "<NAME>a</NAME>", "line 4: a second variable named 'a'"),
    (".xmlbif", "<NAME>b</NAME>", "<NAME> </NAME>", "line 4: a variable without a name"),
    (".xmlbif", "<NAME>b</NAME>", "", "line 4: a variable without a name"),
    (".xmlbif", 'TYPE="nature"><NAME>b', 'TYPE="utility"><NAME>b', "line 4: 'b' is of the type 'utility'; only chance"),
    (".xmlbif", "<OUTCOME>y</OUTCOME>", "<OUTCOME>x</OUTCOME>", "line 4: 'b': .*equal"),
    (".xmlbif", "<OUTCOME>no</OUTCOME><OUTCOME>yes</OUTCOME>", "", "line 3: 'a': .*at least one state"),
    (".xmlbif", "<FOR>b</FOR>", "<FOR>q</FOR>", "line 6: the definition of 'q' mentions 'q', which is not declared"),
    (
        ".xmlbif",
        "<GIVEN>a</GIVEN>",
        "<GIVEN>A</GIVEN>",
        "line 6: the definition of 'b' mentions 'A', which is not declared; did you mean 'a'",
    ),
    (".xmlbif", "<GIVEN>a</GIVEN>", "<GIVEN>b</GIVEN>", "line 6: the definition of 'b' mentions 'b' twice"),
    (".xmlbif", "<FOR>b</FOR>", "<FOR>a</FOR>", "line 6: "),
    (".xmlbif", "<FOR>b</FOR><GIVEN>a</GIVEN>", "<FOR>a</FOR><GIVEN>b</GIVEN>", "line 6: a second definition for 'a'"),
    (".xmlbif", "<FOR>b</FOR>", "", "line 6: a definition for 0 variables; expected one <FOR>"),
    (".xmlbif", "<TABLE>0.5 0.5</TABLE>", "", "line 5: the definition of 'a' has no <TABLE>"),
    (
        ".xmlbif",
        "<DEFINITION><FOR>a</FOR><TABLE>0.5 0.5</TABLE></DEFINITION>",
        "",
        "no probabilities for 'a'; is the file complete",
    ),
    (".xmlbif", "0.1 0.2 0.7", "0.1 0.9", "line 7: 5 numbers where 6 are wanted for 'b'|line 6: 5 numbers"),
    (".xmlbif", "0.3 0.5<", "0.3 o.5<", r"line 8: 'o\.5' is not a number"),
    (".xmlbif", "0.3 0.5<", "0.3 nan<", "line 8: 'nan' is not a number"),
    (".xmlbif", "0.3 0.5<", "0.3 1e999<", "line 8: '1e999' is not a probability"),
    (".xmlbif", "0.3 0.5<", "-0.3 0.5<", r"line 8: '-0\.3' is not a probability"),
    (".xmlbif", "0.3 0.5<", "0.3 0.9<", r"line 6: the probabilities of 'b' sum to 1\.4, not 1, in row 2"),
    (".xmlbif", "<NAME>n</NAME>", "<NAME>&lol;</NAME>", "line 2: .*(undefined entity|does not declare)"),
    (
        ".xmlbif",
        '<?xml version="1.0"?>',
        '<?xml version="1.0" encoding="klingon"?>',
        r"line 1: .*unknown encoding: klingon",
    ),
    (
        ".xmlbif",
        "<NAME>n</NAME>",
        "<PROPERTY>" * 80 + "</PROPERTY>" * 80,
        "line 2: more than 60 elements inside each other",
    ),
    (
        ".xmlbif",
        "</VARIABLE>\n<VAR",
        "<PROPERTY>hybridbn_states = 7</PROPERTY></VARIABLE>\n<VAR",
        "line 3: 'a': its states '7' are not 2",
    ),
    (
        ".xmlbif",
        "</VARIABLE>\n<VAR",
        "<PROPERTY>hybridbn_cuts = 1,2</PROPERTY></VARIABLE>\n<VAR",
        "line 3: 'a': 2 cuts make 3 states",
    ),
    # -- XDSL
    (".xdsl", "<smile", "<BIF", "not well-formed XML: mismatched tag"),
    (".xdsl", "<nodes>\n", "<noodles>\n", "mismatched tag"),
    (".xdsl", '<cpt id="b">', "<cpt>", "line 4: a node without an id"),
    (".xdsl", '<cpt id="b">', '<cpt id="a">', "line 4: a second node with the id 'a'"),
    (
        ".xdsl",
        "<parents>a</parents><prob",
        "<parents>q</parents><prob",
        "line 4: the definition of 'b' mentions 'q', which is not declared",
    ),
    (
        ".xdsl",
        "<parents>a</parents><prob",
        "<parents>b</parents><prob",
        "line 4: the definition of 'b' mentions 'b' twice",
    ),
    (
        ".xdsl",
        "<parents>a</parents><prob",
        "<parents>X</parents><prob",
        "line 4: 'b' has states, but its parent 'X' is continuous",
    ),
    (".xdsl", '<state id="y" />', '<state id="x" />', "line 4: 'b': .*equal"),
    (".xdsl", '<state id="y" />', "<state />", "line 4: 'b' has a state without an id"),
    (".xdsl", "<probabilities>0.5 0.5</probabilities>", "", "line 3: 'a' has no <probabilities>"),
    (".xdsl", "0.3 0.5<", "0.3<", "line 4: 5 numbers where 6 are wanted for 'b'"),
    (".xdsl", "0.3 0.5<", "0.3 0,5<", "line 4: 7 numbers|line 5: '5' is not a probability"),
    (".xdsl", "0.3 0.5<", "0.3 x<", "line 5: 'x' is not a number"),
    (".xdsl", "v u<", "v<", "line 8: 1 resulting states where 2 are wanted for 'd'"),
    (".xdsl", "v u<", "v w<", "line 8: 'd' has no state 'w'"),
    (".xdsl", "<deterministic", "<noisymax", "mismatched tag"),
    (
        ".xdsl",
        '<equation id="X"><definition>X=Normal(1,2)</definition></equation>',
        '<mau id="X" />',
        "line 6: 'X' is a node of the kind <mau>",
    ),
    (".xdsl", "X=Normal(1,2)", "", "line 6: 'X' has no <definition>"),
    (".xdsl", "X=Normal(1,2)", "Z=Normal(1,2)", "line 6: 'X': the equation defines 'Z'"),
    (".xdsl", "X=Normal(1,2)", "X=1", "line 6: 'X': the equation has no normal noise"),
    (".xdsl", "X=Normal(1,2)", "X=Uniform(1,2)", "line 6: 'X': the function 'uniform' with 2 arguments"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(1,-2)", "line 6: 'X': a standard deviation must be"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(1,2", r"line 6: 'X': expected `,` or `\)`, found the end of the equation"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(1,2))", r"line 6: 'X': expected the end of the equation, found '\)'"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(Y,2)", "line 6: 'X': the equation mentions 'Y', which is no parent"),
    (".xdsl", "X=Normal(1,2)", "X=" + "(" * 500, "line 6: 'X': the equation is nested more than 100 times"),
    (".xdsl", "X=Normal(1,2)", "X=" + "-" * 500, "line 6: 'X': the equation is nested more than 100 times"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(1/0,1)", "line 6: 'X': .*zero"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(9^9^9,1)", "line 6: 'X': "),
    (".xdsl", "X=Normal(1,2)", "X=Normal((0-1)^0.5,1)", "line 6: 'X': a root of a negative number"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(1e999,1)", "line 6: 'X': .*finite"),
    (".xdsl", "X=Normal(1,2)", "X=Normal(0,1e200)", "line 6: 'X': "),
    (".xdsl", "*X+Normal", "*X*X+Normal", "line 7: 'Y': the equation is not linear"),
    (".xdsl", "<parents>X a</parents>", "<parents>X a b d</parents>", ""),
    # -- NET
    (".net", None, "", "the file is empty"),
    (".net", "net {", "bnet {", "line 1: expected `net` or `class` at the beginning; is this a NET file"),
    (".net", "node b", "node a", "line 3: a second node named 'a'"),
    (".net", "node b", "utility b", "line 3: a utility; only networks of chance nodes"),
    (".net", "node b", "nude b", "line 3: expected node or potential, found 'nude'"),
    (".net", '"y"', '"x"', "line 3: 'b': .*equal"),
    (".net", '("x" "y" "z")', "()", "line 3: 'b' has no states"),
    (".net", '("x" "y" "z");', '("x" "y" "z")', "line 3: expected `;` after the value of 'states', found '}'"),
    (".net", '"z"', '"z', "line 3: the quoted text that starts here is not closed"),
    (".net", "(b | a)", "(b | q)", "line 7: the potential of 'b' mentions 'q', which is not declared"),
    (".net", "(b | a)", "(b | b)", "line 7: the potential of 'b' mentions 'b' twice"),
    (".net", "(b | a)", "(a | b)", "line 7: a second potential for 'a'"),
    (".net", "(b | a)", "(b a)", "line 7: expected `|` or `\\)`; only conditional"),
    (".net", "(b | a)", "(b | X)", "line 7: 'b' is discrete, but has continuous parents"),
    (
        ".net",
        "(X) { data = (normal(0, 1))",
        "(X) { data = (0.5)",
        "line 9: 0 normal distributions where 1 are wanted for 'X'",
    ),
    (
        ".net",
        "(a) { data = (0.5 0.5)",
        "(a) { data = (normal(0, 1))",
        "line 6: 'a' is discrete, but has normal distributions",
    ),
    (".net", "data = (0.5 0.5); ", "", "line 6: the potential of 'a' has no `data`"),
    (".net", "data = (0.5 0.5); ", "data = (0.5 0.5); data = (1 0); ", "line 6: a second `data`"),
    (".net", "0.3 0.5))", "0.3 0.5)", "line 7: the parentheses in the data of 'b' don't match"),
    (".net", "0.3 0.5))", "0.3))", "line 7: 5 numbers where 6 are wanted for 'b'"),
    (".net", "0.3 0.5))", "0.3 -0.5))", r"line 8: '-0\.5' is not a probability"),
    (".net", "0.3 0.5))", "0.3 0.5.5))", r"line 8: '0\.5\.5' is not a number"),
    (".net", "0.3 0.5))", "0.3 half))", "line 7: expected `normal` or `\\(` in the data, found '0.1'"),
    (".net", "normal(0, 2)", "", "line 10: 1 normal distributions where 2 are wanted for 'Y'"),
    (".net", "normal(0, 2)", "normal(0, 0)", "line 10: 'Y': the variance .*positive"),
    (".net", "normal(0, 2)", "normal(0, X)", "line 10: a variance that depends on a variable"),
    (".net", "normal(0, 2)", "normal(b, 2)", "line 10: the mean of 'Y' mentions 'b', no continuous parent"),
    (".net", "normal(0, 2)", "normal(X * X, 2)", "line 10: expected a number or a continuous parent, found 'X'"),
    (".net", "normal(0, 2)", "normal(0 2)", "line 10: expected `,` between mean and variance"),
    (".net", "normal(0, 2)", "normal(1e999, 2)", "line 10: .*finite"),
    (".net", "normal(0, 2)", "(" * 100 + ")" * 100, "line 10: more than 60 parentheses inside each other"),
    (
        ".net",
        "continuous node X { }",
        'continuous node X { hybridbn_name = "Y"; }',
        "line 1: two nodes have the same name",
    ),
    # -- UAI
    (".uai", None, "", "the file is empty"),
    (".uai", "BAYES", "LIMID", "line 1: expected BAYES or MARKOV, found 'LIMID'"),
    (".uai", "2\n2 3\n2", "2\n2 3 3\n2", "line 9: expected the number of a variable, .* found '0.5'"),
    (".uai", "BAYES\n2", "BAYES\n-2", "line 2: expected the number of variables"),
    (".uai", "BAYES\n2", "BAYES\n2000000000", "line 2: expected the number of variables"),
    (".uai", "2 3\n", "2 99999999\n", "line 3: expected the number of states"),
    (".uai", "2 3\n", "0 3\n", "line 3: the numbers of states"),
    (".uai", "2 0 1\n", "2 0 7\n", "line 6: expected the number of a variable"),
    (".uai", "2 0 1\n", "0\n", "line 8: a function without variables"),
    (".uai", "2 0 1\n", "2 1 1\n", "line 6: a function with a variable twice"),
    (".uai", "2 0 1\n", "2 1 0\n", "line 5: a second function for 'var_0'|line 6: a second function"),
    (".uai", "\n6\n", "\n7\n", "line 11: 7 numbers are announced where 6 are wanted for 'var_1'"),
    (".uai", "0.3 0.5\n", "0.3", "line 13: expected a number of 'var_1', found the end of the file; is it truncated"),
    (".uai", "0.3 0.5\n", "0.3 0.5 0.7", r"line 13: expected the end of the file, found '0\.7'"),
    (".uai", "0.3 0.5\n", "0.3 zero", "line 13: 'zero' is not a number"),
    (".uai", "0.3 0.5\n", "0.3 5", "line 13: '5' is not a probability"),
    (".uai", "0.3 0.5\n", "0.3 0.4", r"line 11: the probabilities of 'var_1' sum to 0\.9"),
]


def read(suffix, text, tmp_path):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return hb.read_network(path)


def nest_submodels(depth):
    start = XDSL.index("<cpt id=")
    end = XDSL.index("</nodes>")
    return (
        XDSL[:start] + '<submodel id="s"><nodes>' * depth + XDSL[start:end] + "</nodes></submodel>" * depth + XDSL[end:]
    )


NESTED = {
    "parentheses of data": (".net", 60, lambda n: NET.replace("(normal(0, 1))", "(" * n + "normal(0, 1)" + ")" * n)),
    "equation": (".xdsl", 99, lambda n: XDSL.replace("Normal(1,2)", "(" * n + "Normal(1,2)" + ")" * n)),
    "signs": (".xdsl", 99, lambda n: XDSL.replace("Normal(1,2)", f"Normal({'-' * n}1,2)")),
    "submodels": (".xdsl", 20, nest_submodels),
    "elements": (".xmlbif", 58, lambda n: XMLBIF.replace("<VARIABLE", "<x>" * n + "</x>" * n + "<VARIABLE", 1)),
}


@pytest.mark.parametrize("kind", NESTED)
def test_so_many_are_read_inside_each_other_and_no_more(kind, tmp_path):
    suffix, deepest, nest = NESTED[kind]
    plain = read(suffix, GOOD[suffix], tmp_path)
    assert set(read(suffix, nest(deepest), tmp_path)) == set(plain)
    with pytest.raises(hb.FormatError, match=r"nested more than \d+ times|more than \d+ .* inside each other"):
        read(suffix, nest(deepest + 1), tmp_path)


@pytest.mark.parametrize(("suffix", "old", "new", "reason"), BAD)
def test_bad_text_is_refused_with_its_line(suffix, old, new, reason, tmp_path):
    text = new if old is None else GOOD[suffix].replace(old, new)
    assert old is None or old in GOOD[suffix]
    if not reason:
        assert len(read(suffix, text, tmp_path)) > 2
        return
    with pytest.raises(hb.FormatError, match=reason) as caught:
        read(suffix, text, tmp_path)
    assert str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize("suffix", GOOD)
def test_the_good_texts_are_good(suffix, tmp_path):
    net = read(suffix, GOOD[suffix], tmp_path)
    net.check()
    assert len(net.edges) == {".xmlbif": 1, ".xdsl": 4, ".net": 3, ".uai": 1}[suffix]


@pytest.mark.parametrize("suffix", GOOD)
def test_every_truncation_is_refused(suffix, tmp_path):
    text = GOOD[suffix].rstrip()
    last = len(text) - (3 if suffix == ".uai" else 1)  # 0. and 0.5 are both numbers, but rows must sum to 1
    for length in range(1, last, 5):
        with pytest.raises(hb.FormatError):
            read(suffix, text[:length], tmp_path)


CYCLES = {
    ".xmlbif": XMLBIF.replace("<FOR>a</FOR><TABLE>0.5 0.5<", "<FOR>a</FOR><GIVEN>b</GIVEN><TABLE>.5 .5 .5 .5 .5 .5<"),
    ".xdsl": XDSL.replace("<probabilities>0.5 0.5<", "<parents>b</parents><probabilities>.5 .5 .5 .5 .5 .5<"),
    ".net": NET.replace("(a) { data = (0.5 0.5)", "(a | b) { data = (.5 .5 .5 .5 .5 .5)"),
    ".uai": UAI.replace("1 0\n", "2 1 0\n").replace("\n2\n0.5 0.5", "\n6\n.5 .5 .5 .5 .5 .5"),
}


@pytest.mark.parametrize("suffix", GOOD)
def test_cycles_are_refused(suffix, tmp_path):
    with pytest.raises(hb.FormatError, match=r"(?i)cycle"):
        read(suffix, CYCLES[suffix], tmp_path)


@pytest.mark.parametrize("suffix", GOOD)
def test_bytes_that_are_no_text(suffix, tmp_path):
    for data in (b"\x80\x04\x95cos\nsystem\n", b"\x1f\x8b\x08\0\0", b"\xff\xfe{}", b"\0" * 99, b"\xff" * 9):
        with pytest.raises(hb.FormatError):
            read(suffix, data, tmp_path)


@pytest.mark.parametrize("suffix", [".xmlbif", ".xdsl"])
def test_encodings_of_xml(suffix, tmp_path):
    text = GOOD[suffix].split("?>", 1)[1].replace("yes", "oui é")
    for encoding in ("latin-1", "utf-16", "utf-8", "cp1252"):
        head = f'<?xml version="1.0" encoding="{encoding}"?>'
        assert "oui é" in read(suffix, (head + text).encode(encoding), tmp_path).variable("a").states
    with pytest.raises(hb.FormatError, match=r"line 3: .*not well-formed"):
        read(suffix, ('<?xml version="1.0"?>' + text).encode("latin-1"), tmp_path)
    assert as_discrete(hb.read_network(tmp_path / f"bad{suffix}", encoding="latin-1").variable("a")).states == (
        "no",
        "oui é",
    )
    with pytest.raises(hb.FormatError, match="encoding"):
        hb.read_network(tmp_path / f"bad{suffix}", encoding="klingon")


# -- XML that reaches out or explodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".xmlbif", ".xdsl"])
@pytest.mark.parametrize(
    ("document", "use"),
    [
        ('<!DOCTYPE x [<!ENTITY secret SYSTEM "{file}">]>', "&secret;"),
        ('<!DOCTYPE x [<!ENTITY secret SYSTEM "http://127.0.0.1:9/x">]>', "&secret;"),
        ('<!DOCTYPE x [<!ENTITY % remote SYSTEM "{file}"> %remote;]>', "n"),
        ('<!DOCTYPE x [<!ENTITY secret "text">]>', "&secret;"),
        (
            '<!DOCTYPE x [<!ENTITY l0 "lol">'
            + "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12)) + "]>",
            "&l11;",
        ),
        ('<!DOCTYPE x [<!ENTITY big "' + "a" * 100_000 + '">]>', "&big;" * 10_000),
    ],
    ids=["file", "web", "parameter", "inner", "laughs", "quadratic"],
)  # fmt: skip
def test_entities_are_refused(suffix, document, use, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    head, rest = GOOD[suffix].split("?>", 1)
    text = (
        head
        + "?>"
        + document.replace("{file}", secret.as_uri())
        + rest.replace(">no<", f">{use}<").replace('"no"', f'"{use}"')
    )
    refusals = []

    def refuse():
        with pytest.raises(hb.FormatError, match=r"line 1: the file declares an entity .*refused") as caught:
            read(suffix, text, tmp_path)
        refusals.append(str(caught.value))

    # one that is expanded has a hundred million characters, or comes with the lines of urllib
    assert count_lines(refuse) < 5000
    assert "secret.txt" not in refusals[0]


def test_a_document_type_elsewhere_is_not_fetched(tmp_path):
    text = XMLBIF.replace("?>\n", '?>\n<!DOCTYPE BIF SYSTEM "http://127.0.0.1:9/bif.dtd">\n', 1)
    assert len(read(".xmlbif", text, tmp_path)) == 2
    with pytest.raises(hb.FormatError, match=r"line 3: the file uses an entity 'lol'|does not declare"):
        read(".xmlbif", text.replace("<NAME>n<", "<NAME>&lol;<"), tmp_path)


# -- hostile input ----------------------------------------------------------------------------------------------------

MANY = 200_000
VARIABLES = "".join(f"node X{i} {{ states = (a b c); }} " for i in range(60))


def hostile(many):
    return [
        (".xmlbif", "elements", "<BIF>" * many),
        (".xmlbif", "empty elements", "<BIF><NETWORK>" + "<NAME/>" * many * 2),
        (".xmlbif", "attributes", "<BIF " + " ".join(f'a{i}="{i}"' for i in range(many // 4)) + "/>"),
        (".xmlbif", "text", "<BIF>" + "x" * many * 10),
        (".xmlbif", "comments", "<BIF>" + "<!-- -->" * many + "</BIF>"),
        (
            ".xmlbif",
            "outcomes",
            "<BIF><NETWORK><VARIABLE><NAME>a</NAME>"
            + "<OUTCOME>b</OUTCOME>" * (many // 2)
            + "</VARIABLE></NETWORK></BIF>",
        ),
        (".xmlbif", "numbers", XMLBIF.replace("0.1 0.2 0.7", "0.1 " * many * 3)),
        (".xmlbif", "digits", XMLBIF.replace("0.1 0.2 0.7", "1" * many * 5)),
        (
            ".xdsl",
            "submodels",
            "<smile><nodes>" + "<submodel><nodes>" * 29 + "</nodes></submodel>" * 29 + "</nodes></smile>",
        ),
        (".xdsl", "states", XDSL.replace('<state id="x" />', '<state id="x" />' * (many // 2))),
        (".xdsl", "equation", XDSL.replace("X=Normal(1,2)", "X=Normal(1,2)" + "+1" * many)),
        (".xdsl", "signs", XDSL.replace("X=Normal(1,2)", "X=" + "+-" * many)),
        (".xdsl", "functions", XDSL.replace("X=Normal(1,2)", "X=" + "sqrt(" * many)),
        (".xdsl", "arguments", XDSL.replace("X=Normal(1,2)", "X=Choose(" + "1," * (many // 2) + "1)")),
        (".xdsl", "powers", XDSL.replace("X=Normal(1,2)", "X=" + "9^" * many + "9")),
        (".net", "braces", "net {" * many),
        (".net", "attributes", "net {" + "a = 1;" * (many // 4)),
        (".net", "nodes", "net { }" + "node a { }" * (many // 8)),
        (".net", "parentheses", NET.replace("data = (normal(0, 1))", "data = " + "(" * many)),
        (".net", "numbers", NET.replace("(0.5 0.5)", "(" + "0.5 " * many * 3 + ")")),
        (".net", "comments", NET.replace("(0.5 0.5)", "%\n" * many)),
        (".net", "slashes", NET.replace("(0.5 0.5)", "/" * many)),
        (".net", "quotes", 'net { a = "' + 'b"c"' * many),
        (".net", "normals", NET.replace("normal(0, 2)", "normal(0, 2) " * (many // 8))),
        (".net", "terms", NET.replace("normal(0, 2)", "normal(0" + "+X" * (many // 4) + ", 2")),
        (
            ".net",
            "parents",
            "net {} " + VARIABLES + "potential (X0 | " + " ".join(f"X{i}" for i in range(1, 60)) + ") { data = (1); }",
        ),
        (".uai", "variables", f"BAYES {many // 8} " + "2 " * (many // 8) + "1 1 0 2 0.5 0.5"),
        (".uai", "one large variable", f"BAYES 1 {many} 1 1 0 {many} " + "0.5 " * many),
        (".uai", "scopes", f"BAYES 2 2 2 {many} " + "1 0 " * many),
        (
            ".uai",
            "scope",
            f"BAYES {many // 8} " + "2 " * (many // 8) + f"1 {many // 8} " + " ".join(map(str, range(many // 8))),
        ),
        (".uai", "comments", "BAYES " + "#\n" * many),
        (".uai", "hashes", "BAYES " + "#" * many * 5),
        (".uai", "states beyond the file", "BAYES 3 90 90 90 3 1 0 1 1 1 2 90"),
    ]


HOSTILE = hostile(MANY)
IDS = [f"{suffix}-{name}" for suffix, name, _ in HOSTILE]


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "text"), [(s, t) for s, _, t in HOSTILE], ids=IDS)
def test_hostile_text_costs_little(suffix, text, tmp_path):
    with ended_if_it_hangs(), pytest.raises(hb.FormatError) as caught:
        read(suffix, text, tmp_path)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("index", range(len(HOSTILE)), ids=IDS)
def test_hostile_text_costs_no_more_than_its_length(index, tmp_path):
    def refuse(many):
        suffix, _, text = hostile(many)[index]
        with pytest.raises(hb.FormatError):
            read(suffix, text, tmp_path)

    assert_linear(refuse, 4000)


@pytest.mark.parametrize(
    "name",
    [
        "numbers",
        "text",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("empty elements", "outcomes", "states", "attributes")),
    ],
)
def test_hostile_text_takes_little_memory(name, tmp_path):
    for suffix, what, text in HOSTILE:
        if what == name:
            tracemalloc.start()
            try:
                with pytest.raises(hb.FormatError):
                    read(suffix, text, tmp_path)
                assert tracemalloc.get_traced_memory()[1] < 200e6
            finally:
                tracemalloc.stop()


PARTS = [
    "<",
    ">",
    "</cpt>",
    '"',
    "&lt;",
    "&x;",
    "(",
    ")",
    "{",
    "}",
    ";",
    "=",
    "|",
    "-",
    "1e999",
    "nan",
    "0",
    "a",
    "X",
    "\0",
    "é",
    "normal(",
    "*",
]


@pytest.mark.parametrize("suffix", GOOD)
@settings(max_examples=examples(120), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(["", *PARTS])), min_size=1, max_size=4
    )
)
def test_damaged_files_are_read_or_refused(suffix, edits, tmp_path):
    text = GOOD[suffix]
    for place, length, new in edits:
        start = int(place * len(text))
        text = text[:start] + new + text[start + length :]
    try:
        net = read(suffix, text, tmp_path)
    except hb.FormatError:
        return
    net.check()


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(
    st.lists(
        st.sampled_from(
            ["x", "=", "1", ".5", "(", ")", ",", "+", "-", "*", "/", "^", "Normal(", "Choose(", "If(", '"a"', "y"]
        ),
        max_size=14,
    )
)
def test_equations_are_read_or_refused(parts):
    from hybridbn.exchange.discrete_networks import LinearValue

    try:
        LinearRule("x=" + "".join(parts))({"y": LinearValue(0.0, {"y": 1.0})})
    except (ValueError, ArithmeticError):
        return


def test_equations_have_a_limit_of_configurations(tmp_path, monkeypatch):
    monkeypatch.setattr(xml_formats, "_CONFIGURATIONS", 2)
    assert len(read(".xdsl", XDSL, tmp_path)) == 5
    monkeypatch.setattr(xml_formats, "_CONFIGURATIONS", 1)
    with pytest.raises(hb.FormatError, match="line 7: the discrete parents of 'Y' have more than 1 configurations"):
        read(".xdsl", XDSL, tmp_path)


def test_sums_in_equations_have_all_their_terms(tmp_path):
    other = '<equation id="Z"><definition>Z=Normal(0,1)</definition></equation>\n<equation id="Y">'
    text = XDSL.replace('<equation id="Y">', other).replace("<parents>X a</parents>", "<parents>X Z a</parents>")
    text = text.replace("Choose(a,1,2)*X+Normal(0,1)", "1-(2*X+3*Z)+Normal(0,1)+(Z-X)/2")
    line = read(".xdsl", text, tmp_path).potential("Y")
    assert {"X", "Z"} < set(line.scope)
    np.testing.assert_allclose(line.coefficients, np.broadcast_to([-2.5, -2.5], line.coefficients.shape))
    np.testing.assert_allclose(line.intercept, np.ones_like(line.intercept))
