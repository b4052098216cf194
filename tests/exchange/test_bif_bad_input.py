"""BIF files that are broken or hostile: a `FormatError` that names the file, the line and the reason, quickly and
within little memory.
"""

import gzip
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from costs import assert_linear, ended_if_it_hangs
from narrowing import as_discrete, as_kind, known

import hybridbn as hb
from hybridbn.exchange.bif import format_bif, parse_bif

A = "variable a {\n  type discrete [ 2 ] { no, yes };\n}\n"
B = "variable b {\n  type discrete [ 3 ] { x, y, z };\n}\n"
P_A = "probability ( a ) {\n  table 0.5, 0.5;\n}\n"
P_B = "probability ( b | a ) {\n  (no) 0.1, 0.2, 0.7;\n  (yes) 0.2, 0.3, 0.5;\n}\n"
GOOD = A + B + P_A + P_B

BAD = {
    "empty": ("", "the file is empty"),
    "blank": (" \n\n", "the file is empty"),
    "no variables": ("network x {\n}\n", "there are no variables; is the file complete"),
    "another format": ('<?xml version="1.0"?>\n<BIF/>', "line 1: expected network, variable or probability"),
    "rubbish behind": (GOOD + "}\n", "line 14: expected network, variable or probability .* found '}'"),
    "truncated in a row": (GOOD[:-20], "line 10: the probability block .* is the file truncated"),
    "truncated in a variable": (A[:-3], "line 1: the variable block .* is the file truncated"),
    "truncated between blocks": (A + B + P_A, "no probabilities for 'b'; is the file complete"),
    "semicolon missing": (
        GOOD.replace("0.7;", "0.7").replace("0.5;\n}\np", "0.5\n}\np"),
        "line 8: expected `;` after 'table 0.5, 0.5'",
    ),
    "rows run together": (
        GOOD.replace("0.7;", "0.7"),
        r"line 11: .*'\(no'|line 11: a row of 'b' names|line 11: 'a' has no state",
    ),
    "too few numbers": (GOOD.replace("0.1, 0.2, 0.7", "0.3, 0.7"), "line 11: 2 numbers where 3 are wanted .*'b'"),
    "too many numbers": (GOOD.replace("0.1, 0.2, 0.7", "0.1, 0.1, 0.1, 0.7"), "line 11: 4 numbers where 3 are wanted"),
    "one too few, one too many": (
        GOOD.replace("0.1, 0.2, 0.7", "0.3, 0.7").replace("0.2, 0.3, 0.5", "0.1 0.1, 0.3, 0.5"),
        "line 11: 2 numbers",
    ),
    "no numbers": (GOOD.replace("table 0.5, 0.5", "table"), "line 8: 0 numbers where 2 are wanted"),
    "table too short": (
        GOOD.replace(P_B, "probability ( b | a ) {\n  table 0.1 0.2 0.2 0.3 0.7;\n}\n"),
        "line 11: 5 numbers where 6 are wanted",
    ),
    "word": (GOOD.replace("0.2, 0.7", "o.2, 0.7"), "line 11: 'o.2' is not a number"),
    "hyphen": (GOOD.replace("0.2, 0.7", "-, 0.7"), "line 11: '-' is not a number"),
    "nan": (GOOD.replace("0.2, 0.7", "nan, 0.7"), "line 11: 'nan' is not a number"),
    "inf": (GOOD.replace("0.2, 0.7", "Infinity, 0.7"), "line 11: 'Infinity' is not a number"),
    "overflow": (GOOD.replace("0.2, 0.7", "1e999, 0.7"), "line 11: '1e999' is not a probability"),
    "underscore": (GOOD.replace("0.2, 0.7", "0.2_0, 0.7"), "line 11: '0.2_0' is not a number"),
    "foreign digits": (GOOD.replace("0.2, 0.7", "٠.٢, 0.7"), "line 11: '٠.٢' is not a number"),
    "decimal commas": (GOOD.replace("0.5, 0.5", "0,5 0,5"), "line 8: 4 numbers where 2 are wanted"),
    "negative": (GOOD.replace("0.2, 0.3, 0.5", "-0.2, 0.7, 0.5"), "line 12: '-0.2' is not a probability"),
    "sum": (
        GOOD.replace("0.2, 0.3, 0.5", "0.2, 0.3, 0.9"),
        r"line 12: the probabilities of 'b' given \(yes\) sum to 1.4, not 1",
    ),
    "all zero": (GOOD.replace("0.2, 0.3, 0.5", "0, 0, 0"), r"line 12: .* given \(yes\) sum to 0, not 1"),
    "unknown state": (GOOD.replace("(yes)", "(Yes)"), "line 12: 'a' has no state 'Yes'"),
    "state count": (GOOD.replace("(yes)", "(yes, no)"), "line 12: a row of 'b' names 2 states for 1 parents"),
    "row twice": (GOOD.replace("(yes)", "(no)"), r"line 12: a second row of 'b' given \(no\)"),
    "row thrice": (GOOD.replace("(yes)", "(yes) 1 0 0; (yes)"), r"line 12: a second row of 'b' given \(yes\)"),
    "row missing": (
        GOOD.replace("  (yes) 0.2, 0.3, 0.5;\n", ""),
        r"'b' has 1 rows where its parents have 2 .*missing is the row given \(yes\)",
    ),
    "rows without parents": (
        GOOD.replace("table 0.5, 0.5", "(no) 0.5, 0.5"),
        "line 8: 'a' has no parents; expected `table`",
    ),
    "no rows at all": (GOOD.replace("  table 0.5, 0.5;\n", ""), "line 7: 'a' has no numbers"),
    "two tables": (GOOD.replace("table 0.5, 0.5;", "table 0.5, 0.5;\n table 1 0;"), "line 9: a second `table` for 'a'"),
    "table and rows": (GOOD.replace("(yes)", "table 1 1 0 0 0 0; (yes)"), "line 12: a `table` beside other rows"),
    "unknown statement": (GOOD.replace("table 0.5", "function 0.5"), "line 8: expected .* found 'function 0.5, 0.5'"),
    "variable twice": (A + GOOD, "line 4: a second variable named 'a'"),
    "probability twice": (GOOD + P_A, "line 14: a second probability block for 'a'"),
    "unknown child": (
        GOOD.replace("( a )", "( q )"),
        "line 7: the probability block of 'q' mentions 'q', which is not declared",
    ),
    "unknown parent": (
        GOOD.replace("b | a", "b | A"),
        "line 10: .* mentions 'A', which is not declared; did you mean 'a'",
    ),
    "no child": (GOOD.replace("( a )", "( )"), "line 7: a probability block without a variable|line 7: .*mentions ''"),
    "no parentheses": (GOOD.replace("( a )", "a"), "line 7: expected probability"),
    "own parent": (GOOD.replace("b | a", "b | b"), "line 10: the probability block of 'b' mentions 'b' twice"),
    "parent twice": (GOOD.replace("b | a", "b | a, a"), "line 10: the probability block of 'b' mentions 'a' twice"),
    "cycle": (
        A + A.replace("a {", "c {") + "probability (a | c) { table 1 0 0 1; } probability (c | a) { table 1 0 0 1; }",
        "(?i)cycle",
    ),
    "continuous": (
        GOOD.replace("type discrete [ 2 ] { no, yes }", "type continuous"),
        "line 1: 'a' is of type 'continuous'",
    ),
    "no type": (GOOD.replace("  type discrete [ 2 ] { no, yes };\n", ""), "line 1: 'a' has no `type"),
    "two types": (GOOD.replace("yes };", "yes }; type discrete [ 2 ] { no, yes };"), "line 1: 'a': expected one `type"),
    "no states": (GOOD.replace("[ 2 ] { no, yes }", "[ 0 ] { }"), "line 1: 'a' has no states"),
    "empty state": (GOOD.replace("no, yes", "no,, yes").replace("[ 2 ]", ""), "line 1: 'a' has an empty state"),
    "declared count": (GOOD.replace("[ 2 ]", "[ 3 ]"), "line 1: 'a' is declared with 3 states, but 2 are listed"),
    "huge count": (GOOD.replace("[ 2 ]", "[ 999999999 ]"), "line 1: 'a' is declared with 999999999 states"),
    "state twice": (GOOD.replace("no, yes", "no, no"), "line 1: 'a' lists the state 'no' twice"),
    "state twice, quoted": (GOOD.replace("no, yes", 'no, "no"'), "line 1: 'a' lists the state 'no' twice"),
    "nameless": (GOOD.replace("variable a", "variable "), "line 1: a variable without a name"),
    "comment open": (GOOD.replace("0.5, 0.5", "0.5, /* 0.5"), "line 8: the comment that starts here is not closed"),
    "quote open": (
        GOOD.replace("no, yes", 'no, "yes'),
        "line 2: the quoted name that starts here is not closed on its line",
    ),
    "NUL": (GOOD.replace("0.7", "0.\0"), "line 11: there is a NUL character"),
    "wrong types": (
        A.replace("};", "};\n property hybridbn_states = int ;") + P_A,
        "line 1: 'a': its properties don't fit",
    ),
    "unknown types": (A.replace("};", "};\n property hybridbn_states = tuple ;") + P_A, "line 1: 'a': its properties"),
    "wrong number of types": (
        A.replace("};", '};\n property hybridbn_states = "str str int" ;') + P_A,
        "line 1: 'a': its properties",
    ),
    "wrong cuts": (
        A.replace("};", '};\n property hybridbn_cuts = "1 2 3" ;') + P_A,
        "line 1: 'a': its properties don't fit",
    ),
}


@pytest.mark.parametrize(("text", "reason"), BAD.values(), ids=BAD.keys())
def test_bad_text_is_refused_with_its_line(text, reason, tmp_path):
    path = tmp_path / "bad.bif"
    path.write_bytes(text.encode())
    with pytest.raises(hb.FormatError, match=reason) as caught:
        hb.read_network(path)
    assert str(caught.value).startswith(str(path))


def test_the_good_text_is_good():
    assert list(parse_bif(GOOD).edges) == [("a", "b")]


@pytest.mark.parametrize("length", range(1, len(GOOD) - 2, 3))
def test_every_truncation_is_refused(length):
    with pytest.raises(hb.FormatError):
        parse_bif(GOOD[:length])


def test_bytes_that_are_no_text(tmp_path):
    for name, data in {
        "pickle": b"\x80\x04\x95cos\nsystem\n",
        "utf-16": "variable".encode("utf-16"),
        "bytes": b"\xff\xfe{}",
    }.items():
        (tmp_path / "bad.bif").write_bytes(data)
        with pytest.raises(hb.FormatError, match="line 1: the text is not utf-8"):
            hb.read_network(tmp_path / "bad.bif")
        assert name
    with pytest.raises(hb.FormatError, match="no encoding of text 'klingon'"):
        hb.read_network(tmp_path / "bad.bif", encoding="klingon")


def test_damaged_compressed_files(tmp_path):
    path = tmp_path / "bad.bif.gz"
    good = gzip.compress(GOOD.encode())
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 0xFF
    for data in (good[:-12], good[:30], bytes(flipped), good + b"more", good[:2]):
        path.write_bytes(data)
        with pytest.raises(hb.FormatError, match=r"bad\.bif\.gz: (the compressed file is|something follows)"):
            hb.read_network(path)
    path.write_bytes(GOOD.encode())  # not compressed, whatever its name says
    assert len(hb.read_network(path)) == 2


def test_unknown_suffix_and_missing_file(tmp_path):
    with pytest.raises(
        hb.FormatError, match=r"no network format has this suffix; known are \.bif, \.bifxml.*also with \.gz"
    ):
        hb.read_network(tmp_path / "net.docx")
    with pytest.raises(FileNotFoundError):
        hb.read_network(tmp_path / "net.bif")
    with pytest.raises(TypeError):
        hb.read_network(tmp_path / "net.bif", normalise=True)


# -- hostile input ----------------------------------------------------------------------------------------------------

MANY = 200_000
NAMES = ", ".join(f"p{i}" for i in range(300))


def hostile(many):
    return {
        "braces": "variable a {" + "{" * many,
        "closed braces": "variable a " + "{}" * many,
        "pairs of braces": "variable a {" + "{}" * many + "}",
        "parentheses": A + "probability ( a ) { " + "(" * many + "; }",
        "parentheses in a header": A + "probability " + "(" * many + "a" + ")" * many + " { table .5 .5; }",
        "comments": "/*" * many,
        "closed comments": "/**/" * many,
        "quotes": '"\n' * many,
        "quoted names": " ".join(f'"a {i}"' for i in range(many // 4)),
        "space": A + "probability ( a ) {" + " " * many * 5 + "}",
        "space in a type": "variable a { type discrete" + " " * many + "x; }",
        "space in a property": "variable a { property " + " " * many + "x; type discrete [ 2 ] {} }",
        "semicolons": A + "probability ( a ) {" + ";" * many + "}",
        "properties": "variable a {" + "property x = y;" * many + "}",
        "commas": "variable a { type discrete [ 2 ] {" + "," * many + "}; }",
        "one state many times": "variable a { type discrete [ 2 ] {" + "a," * many + "a}; }",
        "many states, one twice": "variable a { type discrete [] {" + ",".join(map(str, range(many))) + ",0}; }",
        "many tiny blocks": "network x {}" * (many // 4),
        "long name": f"variable {'a' * many} {{ }}",
        "long number": A + "probability ( a ) { table " + "1" * many + ", 0; }",
        "long integer state": A.replace("no, yes };", "no, " + "9" * many + "}; property hybridbn_states = int ;"),
        "many parents": "".join(f"variable p{i} {{ type discrete [2] {{ x, y }}; }}\n" for i in range(300))
        + (
            f"variable a {{ type discrete [2] {{ x, y }}; }} probability ( a | {NAMES} ) {{ "
            f"({NAMES.replace('p', 'x')}) 0 1; "
            f"}}"
        ),
        "many parents by default": "".join(f"variable p{i} {{ type discrete [2] {{ x, y }}; }}\n" for i in range(300))
        + f"variable a {{ type discrete [2] {{ x, y }}; }} probability ( a | {NAMES} ) {{ default 0 1; }}",
        "many large defaults": "".join(f"variable p{i} {{ type discrete [2] {{ x, y }}; }}\n" for i in range(40))
        + "".join(
            f"probability ( p{i} | {', '.join(f'p{j}' for j in range(20))} ) {{ default 0 1; }}\n"
            for i in range(20, 40)
        )
        + "".join(f"probability ( p{i} ) {{ default 0 1; }}\n" for i in range(19)),
    }


HOSTILE = hostile(MANY)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_little(name):
    with ended_if_it_hangs(), pytest.raises(hb.FormatError) as caught:
        parse_bif(HOSTILE[name])
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_no_more_than_its_length(name):
    def refuse(many):
        with pytest.raises(hb.FormatError):
            parse_bif(hostile(many)[name])

    assert_linear(refuse, 4000)


@pytest.mark.parametrize("name", ["many large defaults", "properties", "quoted names", "pairs of braces", "commas"])
def test_hostile_text_takes_little_memory(name):
    tracemalloc.start()
    try:
        with pytest.raises(hb.FormatError):
            parse_bif(HOSTILE[name])
        assert tracemalloc.get_traced_memory()[1] < 150e6
    finally:
        tracemalloc.stop()


def test_a_compressed_bomb_is_not_inflated(tmp_path):
    (tmp_path / "bomb.bif.gz").write_bytes(gzip.compress(b" " * (100 << 20), 1))
    (tmp_path / "bomb2.bif.gz").write_bytes(gzip.compress(b" " * (300 << 20), 9)[:-8])
    for name in ("bomb.bif.gz", "bomb2.bif.gz"):
        tracemalloc.start()
        with pytest.raises(hb.FormatError, match=r"inflates to more than|is empty"):
            hb.read_network(tmp_path / name)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 200e6


# -- what can't be written --------------------------------------------------------------------------------------------


def one(states=("a", "b"), name="c"):
    return hb.Network([hb.Multinomial(hb.Discrete(name, states=states), table=np.full(len(states), 1 / len(states)))])


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (one(("a,", "b")), "'c': the state 'a,' can't be written to BIF.*Rename it.*hbn"),
        (one(('"', "b")), "'c': the state"),
        (one(("(0, 1]", "b")), "'c': the state"),
        (one((" a", "b")), "starts or ends with a space"),
        (one(("", "b")), "is empty"),
        (one(("a\nb", "b")), "line break"),
        (one(("a\0", "b")), "can't be printed"),
        (one(((1, 2), "b")), r"'c': the state \(1, 2\) is a tuple"),
        (one((0, 1, "1")), "'c': two states would both be written as '1'"),
        (one(name="x{"), "the name 'x{' can't be written"),
        (one(name="x|y"), r"the name 'x\|y' can't be written"),
    ],
)
def test_what_bif_cannot_hold_is_refused_by_name(net, reason, tmp_path):
    with pytest.raises(hb.FormatError, match=reason):
        hb.write_network(net, tmp_path / "c.bif")
    assert os.listdir(tmp_path) == []


def test_continuous_nodes_are_refused_by_name():
    x = hb.Continuous("x")
    gaussian = hb.LinearGaussian(x, intercept=0, variance=1)
    with pytest.raises(hb.FormatError, match=r"discrete variables only, not the potentials of x \(Lin.*hbn"):
        format_bif(hb.Network([gaussian]))


@pytest.mark.parametrize("suffix", ["bif", "xmlbif", "uai", "net", "xdsl", "elv"])
def test_discrete_nodes_of_any_family_are_written_as_their_tables(suffix, tmp_path):
    c, d = hb.Discrete("c", states=("a", "b")), hb.Discrete("d", states=("u", "v"))
    softmax = hb.Softmax(d, parents=(c,), intercept=[[0, 1], [0, -1]], coefficients=np.zeros((2, 2, 0)))
    hb.write_network(hb.Network([hb.Multinomial(c, table=[0.4, 0.6]), softmax]), tmp_path / f"n.{suffix}")
    read = as_kind(hb.Multinomial, hb.read_network(tmp_path / f"n.{suffix}").potential("d"))
    np.testing.assert_allclose(read.table, known(softmax.probabilities()), rtol=1e-15)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "c.bif"
    hb.write_network(one(), path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        hb.write_network(one(("x", "y")), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.bif"]


def test_writing_keeps_links_and_permissions(tmp_path):
    target, link = tmp_path / "target.bif", tmp_path / "link.bif"
    hb.write_network(one(), target)
    target.chmod(0o640)
    link.symlink_to(target)
    hb.write_network(one(("x", "y")), link)
    assert link.is_symlink()
    assert as_discrete(hb.read_network(target).variable("c")).states == ("x", "y")
    assert target.stat().st_mode & 0o777 == 0o640
    assert Path(tmp_path / "link.bif").resolve() == target.resolve()
