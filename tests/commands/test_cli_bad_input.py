"""What ``hybridbn impute`` does with input that can't be right: one clear line, exit code
2, no traceback, no debris.
"""

from __future__ import annotations

import gzip
import os
import sqlite3
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hybridbn.commands.cli import run

GOOD = "x,c,k\n" + "".join(f"{'' if i % 5 == 0 else i * 1.5},{'ab'[i % 2]},{3 * i}\n" for i in range(40))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
    Path("good.csv").write_text(GOOD)
    Path("a folder.csv").mkdir()
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    """Return what the command says when it refuses."""
    before = sorted(os.listdir())
    assert run(["impute", *arguments]) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert sorted(os.listdir()) == before
    lines = said.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("hybridbn: ")
    return lines[0]


TEXTS = {
    "empty": ("", "is empty"),
    "no rows": ("x,y\n", "no rows"),
    "repeated names": ("x,x\n1,2\n", "several columns are called 'x'"),
    "no name": ("x,\n1,2\n", "column 2 has no name"),
    "ragged": ("x,c\n1,a\n2,b,3\n", "line 3: 3 cells"),
    "open quote": ('x,c\n1,a\n2,"b\n3,a\n', "line 3: a quote is opened"),
    "open quote in the header": ('x,"c\n1,a\n', "line 1: a quote is opened"),
    "numbers and text": ("x,c\n" + "1,a\n" * 30 + "oops,b\n", "'oops' in line 32"),
    "text and numbers": ("x,c\n" + "oops,a\n" * 30 + "1,b\n", "'1' in line 32"),
    "infinity": ("x,c\n1,a\n2,b\ninf,a\n", "column 'x', line 4: inf is infinite"),
    "two delimiters": ("x;c|d;e\n1;a|2;b\n", "give --delimiter ';' or --delimiter '|'"),
    "nothing is left": ("id\n" + "".join(f"p{i}\n" for i in range(30)), "no column is left"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TEXTS)
def test_tables_that_are_wrong(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, expected = TEXTS[name]
    Path("t.csv").write_text(text)
    if name == "nothing is left":
        assert run(["impute", "t.csv", "out.csv"]) == 2
        assert expected in capsys.readouterr().err
        return
    said = refused(capsys, "t.csv", "out.csv")
    assert expected in said
    assert "t.csv" in said
    assert "=[" not in said


def test_errors_name_the_line_in_every_block(capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("x,c\n" + "1,a\n" * 30 + "oops,b\n" * 30)
    assert "'oops' in line 32" in refused(capsys, "t.csv", "out.csv", "--chunk", "10")
    Path("t.csv").write_text("x,c\n" + "1,a\n" * 35 + "inf,b\n")
    assert "line 37" in refused(capsys, "t.csv", "out.csv", "--chunk", "10")
    Path("t.jsonl").write_text('{"x": 1}\n' * 25 + '{"x": }\n')
    assert "line 26 is not JSON" in refused(capsys, "t.jsonl", "out.csv", "--chunk", "10")
    pd.DataFrame({"x": [1.0] * 25 + [np.inf]}).to_parquet("t.parquet")
    assert "row 25" in refused(capsys, "t.parquet", "out.csv", "--chunk", "10")


def test_files_that_are_not_what_they_seem(capsys: pytest.CaptureFixture[str]) -> None:
    cases: dict[str, tuple[bytes, str]] = {
        "a.parquet": (b"hello", "not a whole Parquet file"),
        "a.feather": (b"hello", "not a whole Feather file"),
        "a.jsonl": (b'{"x": 1}\n{"x": NaN}\n', "NaN is no JSON value"),
        "a.arff": (b"@relation r\n@attribute a foo\n@data\n", "'foo'"),
        "w.arff": (b"@relation r\n@attribute a numeric\n@data\n1,{2}\n?,{1}\n", "rows have weights"),
        "a.csv": (bytes(range(256)), "NUL byte"),
        "c.csv": ("x,c\n1,ö\n".encode() + "2,ä\n".encode("latin-1"), "--encoding 'cp1252'"),
        "a.csv.gz": (b"x,c\n1,a\n", "not a gzip file"),
        "b.csv.gz": (gzip.compress(b"x,c\n" + b"1,a\n" * 9999)[:-20], "not a whole gzip file"),
        "a.txt": (b"x\n1\n", "--format"),
    }
    for name, (data, expected) in cases.items():
        Path(name).write_bytes(data)
        assert expected in refused(capsys, name, "out.csv")
    Path("junk.db").write_bytes(b"junk" * 999)
    assert "not a database" in refused(capsys, "sqlite:///junk.db?table=t", "out.csv")
    with sqlite3.connect("t.db") as connection:
        connection.execute("CREATE TABLE t (x REAL)")
        connection.execute("INSERT INTO t VALUES (1)")
    connection.close()
    assert "the tables are 't'" in refused(capsys, "sqlite:///t.db?table=u", "out.csv")
    assert "is the input" in refused(capsys, "sqlite:///t.db?table=t", "sqlite:///t.db?table=t")
    assert "only a SELECT is allowed" in refused(capsys, "sqlite:///t.db?query=DROP TABLE t", "out.csv")
    assert "?table=name" in refused(capsys, "good.csv", "sqlite:///t.db?query=SELECT 1")
    assert "such a table already" in refused(capsys, "good.csv", "sqlite:///t.db?table=T", code=73)


def test_places_that_can_not_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no file" in refused(capsys, "nowhere.csv", "out.csv")
    assert "a folder.csv: there is no table file" in refused(capsys, "a folder.csv", "out.csv")
    assert "is a folder" in refused(capsys, "good.csv", "a folder.csv")
    assert "no folder" in refused(capsys, "good.csv", "nowhere/out.csv")
    assert "is the input" in refused(capsys, "good.csv", "./good.csv")
    os.symlink("good.csv", "link.csv")
    assert "is the input" in refused(capsys, "good.csv", "link.csv")
    assert "download it first" in refused(capsys, "https://example.org/t.csv", "out.csv")
    assert "pipe" in refused(capsys, "-", "out.csv")
    assert "--report" in refused(capsys, "good.csv", "out.csv", "--report", "out.csv")
    assert "--save-model" in refused(capsys, "good.csv", "out.csv", "--save-model", "good.csv")
    assert "--no-clobber" in refused(capsys, "good.csv", "link.csv.tsv", "--report", "good.csv", code=2).replace(
        "is INPUT", "--no-clobber"
    )
    Path("there.csv").write_text("precious")
    assert "exists already" in refused(capsys, "good.csv", "there.csv", "--no-clobber", code=73)
    assert Path("there.csv").read_text() == "precious"
    assert "no such column" in refused(capsys, "good.csv", "there.csv", "--keep", "q")
    assert Path("there.csv").read_text() == "precious"


OPTIONS = {
    "--target q": "--target q: there is no such column",
    "--discrete q": "--discrete q",
    "--bounds q=0:1": "--bounds q",
    "--bounds c=0:1": "'c' is discrete",
    "--bounds x=1:0": "low < high",
    "--structure q": "--structure 'q' is not known",
    "--potentials q": "--potentials",
    "--continuous c": "column 'c', line 2: 'a' is not a number",
    "--keep x --discrete x": "both --discrete and --keep",
    "--strategy mean --draws 2": "leave one of the two out",
    "--model good.csv": "not a hybridbn file",
    "--model nowhere.hbn": "no file nowhere.hbn",
    "--model m.hbn --target c": "--target is for learning",
    "--encoding klingon": "no encoding of text 'klingon'",
    "--delimiter ab": "a delimiter must be one",
    "--bounds observed --bounds x=0:1": "leave the others out",
}


@pytest.mark.parametrize("options", OPTIONS)
def test_options_that_can_not_be(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert OPTIONS[options] in refused(capsys, "good.csv", "out.csv", *options.split())


@pytest.mark.parametrize(
    "options", ["--draws 0", "--seed -1", "--bounds x", "--strategy q", "--nonsense", "--keep x,,c"]
)
def test_options_that_the_parser_refuses(options: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(["impute", "good.csv", "out.csv", *options.split()])
    assert ended.value.code == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_model_of_another_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["impute", "good.csv", "out.csv", "--save-model", "m.hbn"]) == 0
    # x is k / 2, and k = 0 is only observed where x is missing: right is what lies below all observed numbers
    assert "x (1 outside of 1.5 to 58.5)" in capsys.readouterr().err
    assert float(Path("out.csv").read_text().splitlines()[1].split(",")[0]) < 1.5
    cases = {
        "u\n1\n": "no column in common",
        "x,c\n1,a\n,b\n": "'k'",
        "x,c,k,new\n1,a,1,2\n2,b,2,\n": "'new'",
        "x,c,k\noops,a,1\n": "'oops' is not a number",
        "x,c,k\n1,zz,3\n,a,4\n": "'zz', which the model has never seen; --unknown missing",
    }
    for text, expected in cases.items():
        Path("t.csv").write_text(text)
        assert expected in refused(capsys, "t.csv", "new.csv", "--model", "m.hbn")
    assert run(["impute", "t.csv", "new.csv", "--model", "m.hbn", "--unknown", "missing"]) == 0
    assert "warning: column 'c' holds 'zz'" in capsys.readouterr().err
    assert Path("new.csv").read_text().splitlines()[1] == "1,zz,3"


def told(capsys: pytest.CaptureFixture[str], text: str, *options: str) -> tuple[list[str], str]:
    """Return the warnings, but for numbers outside of the observed range, and the output for an odd table."""
    Path("t.csv").write_text(text)
    assert run(["impute", "t.csv", "out.csv", *options]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    lines = [line for line in said.err.splitlines() if "outside of the observed range" not in line]
    assert all(line.startswith("hybridbn: warning: ") for line in lines)
    return lines, Path("out.csv").read_text()


def test_one_clear_warning(capsys: pytest.CaptureFixture[str]) -> None:
    warned, out = told(capsys, "x,c\n1,a\n2,b\n,\n3,a\n4,\n")
    assert len(warned) == 1
    assert "without any observed cell (1)" in warned[0]
    assert out.count("\n") == 6
    ids = "id,x\n" + "".join(f"p{i},{i % 7 if i % 3 else ''}\n" for i in range(30)) + ",3\n"
    warned, out = told(capsys, ids)
    assert len(warned) == 1
    assert "'id'" in warned[0]
    assert "whose 1 missing cells stay missing" in warned[0]
    assert out.endswith("\n,3\n")
    assert told(capsys, ids, "--keep", "id")[0] == []
    warned, out = told(capsys, ids, "--include", "id")
    assert warned == []
    assert not out.endswith("\n,3\n")
    warned, out = told(capsys, "x,c\n1,a\n1,a\n,a\n1,a\n1,\n")
    assert len(warned) == 1
    assert "same value" in warned[0]
    assert out == "x,c\n1,a\n1,a\n1,a\n1,a\n1,a\n"
    warned, out = told(capsys, "x,c\n1,a\nnan,b\n2,NA\n3,?\n4,a\n")
    assert len(warned) == 1
    assert "'?'" in warned[0]
    assert "--missing" in warned[0]
    warned, _ = told(capsys, GOOD, "--strategy", "mean")
    assert len(warned) == 1
    assert "variances too small" in warned[0]
    assert told(capsys, GOOD, "--strategy", "mean", "--quiet")[0] == []
    assert told(capsys, "x,c\n1,a\n2,b\n3,a\n") == ([], "x,c\n1,a\n2,b\n3,a\n")
    assert told(capsys, "x,c\n,a\n,b\n", "--keep", "x") == ([], "x,c\n,a\n,b\n")


def test_types_that_are_no_data_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"l": [[1], [2], None, [], [3]], "b": [b"a"] * 5, "e": [None] * 5, "x": [1, 2, None, 4, 5.0]})
    frame.to_parquet("t.parquet")
    for options in ((), ("--keep", "l,b,e")):
        assert run(["impute", "t.parquet", "out.csv", *options]) == 0
        alone = [line for line in capsys.readouterr().err.splitlines() if "left alone" in line]
        assert len(alone) == (not options)
        filled = pd.read_csv("out.csv")
        assert filled["x"].notna().all()
        assert filled["l"].tolist()[:2] == ["[1]", "[2]"]


def test_a_folder_that_can_not_be_written_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if os.name == "posix" and os.geteuid():
        (tmp_path / "sealed").mkdir(mode=0o500)
        assert "sealed" in refused(capsys, "good.csv", "sealed/out.csv", code=73)

    def sealed(path: object, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", sealed)
    said = refused(capsys, "good.csv", "out.csv", code=73)
    assert "out.csv.lock: Permission denied" in said


def test_a_fault_of_the_program_is_one_line_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import hybridbn.commands.impute as command

    def faulty(*_: object) -> None:
        raise ZeroDivisionError("no\nway")

    monkeypatch.setattr(command, "_profile", faulty)
    with pytest.raises(ZeroDivisionError):
        run(["impute", "good.csv", "out.csv"])
    monkeypatch.delenv("HYBRIDBN_TRACEBACK")
    assert "please report it" in refused(capsys, "good.csv", "out.csv", code=70)


def test_numbers_that_may_not_be_what_they_seem_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{i}.5%,{-99 if i % 9 == 0 else i},{i % 5 + 1 if i % 7 else 9},{i * 9},P{i % 12}" for i in range(40)]
    Path("t.csv").write_text("\n".join(["share,x,scale,nine,code", *rows, ",1,1,1,"]))
    assert run(["impute", "t.csv", "out.csv", "--chunk", "7"]) == 0
    said = capsys.readouterr().err
    assert "'share'" not in said
    assert "values that may stand for missing cells: -99 in 'x' (5 cells)" in said
    assert "--missing x=-99" in said
    assert "'nine'" not in said
    assert "'code'" not in said
    assert Path("out.csv").read_text().splitlines()[-1].split(",")[0].endswith("%")
    assert run(["impute", "t.csv", "out.csv", "--missing", "-99", "--keep", "share"]) == 0
    assert "'x'" not in capsys.readouterr().err


def test_data_bases_of_elvira_go_in_and_not_out(capsys: pytest.CaptureFixture[str]) -> None:
    head = "data-base d {\nnumber-of-cases = 3;\nnode x(finite-states) {\nkind-of-node = chance;\n"
    head += (
        'type-of-variable = finite-states;\nnum-states = 2;\nstates = ("a" "b");\n}\nrelation {\nmemory = true;\ncases'
        " = (\n"
    )
    Path("t.dbc").write_text(head + "[a]\n[?]\n[b]\n);\n}\n}\n")
    assert run(["impute", "t.dbc", "out.csv"]) == 0
    assert Path("out.csv").read_text().splitlines()[:2] == ["x", "a"]
    assert run(["impute", "t.dbc", "out.dbc"]) == 2
    assert "write .csv, which Elvira imports" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("t.xlsx", "o.csv"), "save the sheet as CSV"),
        (("t.csv", "o.json"), ".jsonl"),
        (("t.db", "o.csv"), "sqlite:///file.db?table=name"),
        (("t.csv", "."), ". is a folder"),
    ],
)
def test_hints_on_suffixes(names: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("t.csv").write_text("x\n1\n\n")
    assert run(["impute", *names]) == 2
    assert message in capsys.readouterr().err


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 2
    assert "fill the holes of a table" in capsys.readouterr().out


def test_a_tab_can_be_named_and_a_pipe_has_the_format_of_the_input(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Path("t.csv").write_text("x\tc\n1\ta\n\tb\n3\ta\n")
    for sign in ("\\t", "tab", "\t"):
        assert run(["impute", "t.csv", "out.csv", "--delimiter", sign, "--quiet"]) == 0
        assert Path("out.csv").read_text().startswith("x\tc\n1\ta\n")
    assert run(["impute", "t.csv", "-", "--delimiter", "tab", "--quiet"]) == 0
    assert capsysbinary.readouterr().out == Path("out.csv").read_bytes()


def test_returns_within_lines_of_json_are_spaces() -> None:
    Path("t.jsonl").write_bytes(b'{"x": 1.5,\r"c": "a"}\n\r\n{"x":\r null, "c": "b"}\r\n{"x": 2.5, "c": "a"}')
    assert run(["impute", "t.jsonl", "out.jsonl", "--quiet"]) == 0
    text = Path("out.jsonl").read_bytes()
    assert text.startswith(b'{"x": 1.5,\r"c": "a"}\n\r\n{"x": ')
    assert text.endswith(b', "c": "b"}\r\n{"x": 2.5, "c": "a"}')
    assert b"null" not in text
