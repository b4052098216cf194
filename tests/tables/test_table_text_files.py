"""CSV, TSV and ARFF: types of columns, quotes, markers, two engines with one answer, and named faults."""

from __future__ import annotations

import csv
import gzip
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from known_answers import TABLES

from hybridbn.errors import FormatError, HybridBNError, TableError
from hybridbn.tables import Table
from hybridbn.tables.formats import read_table
from hybridbn.tables.formats.delimited_scanner import Scanner
from hybridbn.variables import Discrete


class TestDelimited:
    def read(self, tmp_path: Path, text: str | bytes, **options: Any) -> Table:
        path = tmp_path / options.pop("name", "d.csv")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        arrow = read_table(path, **options)
        scanned = read_table(path, engine="scanner", **options)
        assert arrow.equals(scanned)
        assert arrow.to_pandas().dtypes.equals(scanned.to_pandas().dtypes)
        for name in arrow.names:
            assert arrow.raw(name).tolist() == scanned.raw(name).tolist()
        return arrow

    @pytest.mark.filterwarnings("ignore:read as")
    def test_decimal_commas(self, tmp_path: Path) -> None:
        text = "x;i;c;q\n1,5;1;a,b;1,5\n-,25e2;2;;x\n;3;b;\n"
        table = self.read(tmp_path, text, delimiter=";", decimal=",", discrete=["q"])
        assert table["x"].tolist()[:2] == [1.5, -25.0]
        assert table["i"].tolist() == [1, 2, 3]
        assert table.raw("c").tolist() == ["a,b", None, "b"]
        assert table.raw("q").tolist() == ["1,5", "x", None]
        for cells, thousands in (("1.500", None), ("1.500", "."), ("1,5;1.500", None)):
            given = self.read(
                tmp_path, "x\n" + cells.replace(";", "\n") + "\n", delimiter=";", decimal=",", thousands=thousands
            )
            assert given["x"][-1] == 1500.0
            with pytest.raises(
                TableError, match=r"'1\.500' looks like a number that is written in another way than 1234,5"
            ):
                self.read(tmp_path, "x\n" + cells.replace(";", "\n") + "\n", delimiter=";", decimal=",", thousands="")
        for name, sign in (("decimal", ";"), ("thousands", "_"), ("dates", "day"), ("delimiter", ";;")):
            with pytest.raises(TableError, match=f"{name}.* must be"):
                self.read(tmp_path, text, **{name: sign})
        with pytest.raises(TableError, match=r"decimal=',' reads it as 1\.5"):
            self.read(tmp_path, "x;c\n1,5;a\n2,5;b\n", delimiter=";", decimal=".")

    def test_types(self, tmp_path: Path) -> None:
        table = self.read(tmp_path, "x,i,c,b,d\n1.5,1,a,True,2020-01-01\n,,,,\n-2e3,3,NA,False,2020-01-02\n")
        assert [table.is_discrete(name) for name in table.names] == [False, False, True, True, False]
        assert table.raw("d").tolist() == ["2020-01-01", None, "2020-01-02"]
        assert table.to_pandas()["i"].tolist() == [1, pd.NA, 3]
        assert table.variable("b").states == (False, True)  # type: ignore[union-attr]
        assert table["c"].tolist() == [0, -1, -1]

    @pytest.mark.parametrize(
        "text",
        [
            "\ufeffa,b\n1,2\n3,4\n",
            "a,b\r\n1,2\r3,4\n",
            "a,b\n1,2\n3,4",
            "\n\na,b\n\n1,2\n\n3,4\n\n",
            '"a","b"\n"1","2"\n"3","4"\n',
            "a,b\n 1,2 \n+3,4.0\n",
            '"a",b\n1,2\n3,4\n',
        ],
    )
    def test_shapes_of_the_same_table(self, tmp_path: Path, text: str) -> None:
        table = self.read(tmp_path, text)
        assert {name: values.tolist() for name, values in zip("ab", map(table.column, "ab"), strict=True)} == {
            "a": [1.0, 3.0],
            "b": [2.0, 4.0],
        }

    def test_quotes(self, tmp_path: Path) -> None:
        table = self.read(tmp_path, 'c,x\n"a ""b"", c",1\n"two\nlines",2\n"",3\n"NA",4\nNA,5\n,6\n5" pipe,7\n')
        assert table.to_dict()["c"].tolist() == ['a "b", c', "two\nlines", "", "NA", None, None, '5" pipe']
        assert self.read(tmp_path, 'x,c\n"1","u"\n"","v"\n"2.5","w"\n')["x"].tolist()[::2] == [1.0, 2.5]

    def test_states(self, tmp_path: Path) -> None:
        text = "k,z,m,f\n1,01,1,1.0\n10,02,more,\n2,10,2,3.0\n"
        table = self.read(tmp_path, text, discrete=["k", "z", "m", "f"])
        assert [v.states for v in table.variables] == [(1, 2, 10), ("01", "02", "10"), ("1", "2", "more"), (1, 3)]  # type: ignore[union-attr]

    def test_markers_delimiter_encoding(self, tmp_path: Path) -> None:
        table = self.read(tmp_path, "x;c\n1;NA\n?;b\n", missing=["?"], delimiter=";")
        assert np.isnan(table["x"][1])
        assert table.variable("c").states == ("NA", "b")  # type: ignore[union-attr]
        assert self.read(tmp_path, "c\ncaf\u00e9\n".encode("latin-1"), encoding="latin-1").raw("c").tolist() == [
            "caf\u00e9"
        ]
        assert self.read(tmp_path, "c\ncaf\u00e9\n".encode("utf-16"), encoding="utf-16").raw("c").tolist() == [
            "caf\u00e9"
        ]
        assert self.read(tmp_path, "x\tc\n1\ta,b\n", name="d.tsv").raw("c").tolist() == ["a,b"]
        assert self.read(tmp_path, gzip.compress(b"x\n1\n"), name="d.csv.gz")["x"].tolist() == [1.0]
        with pytest.raises(FormatError, match="no encoding of text 'nonsense'"):
            self.read(tmp_path, "x\n1\n", encoding="nonsense")
        with pytest.raises(TableError, match="delimiter must be one"):
            self.read(tmp_path, "x\n1\n", delimiter=";;")

    def test_header_only(self, tmp_path: Path) -> None:
        table = self.read(tmp_path, "a,b\n", continuous=["b"])
        assert len(table) == 0
        assert table.names == ("a", "b")
        assert not table.is_discrete("b")
        table.write(tmp_path / "out.csv")
        assert (tmp_path / "out.csv").read_text() == "a,b\n"

    def test_types_that_only_later_rows_tell(self, tmp_path: Path) -> None:
        many = "1,1,,1\n" * 60_000
        table = self.read(tmp_path, f"a,b,c,d\n{many}1.5,+2,7,{2**60}\n")
        assert table["a"][-1] == 1.5
        assert table["b"][-1] == 2.0
        assert table["c"][-1] == 7.0
        assert table.raw("d")[-1] == 2**60
        assert self.read(tmp_path, f"a,b,c,d\n{many}1,1,x,1\n").is_discrete("c")

    def test_many_lines_in_cells(self, tmp_path: Path) -> None:
        text = "c,x\n" + "".join(f'"line {i % 7}\nnext",{i}\n' for i in range(40_000))
        table = self.read(tmp_path, text)
        assert len(table) == 40_000
        assert len(table.variable("c")) == 7  # type: ignore[arg-type]

    @settings(max_examples=examples(150), deadline=None)
    @given(st.text(st.sampled_from('a1.,"\n\r NA+-e'), max_size=24))
    def test_both_engines_agree_on_anything(self, text: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "d.csv")
            path.write_bytes(f"x,y\n{text}".encode())
            results: list[Any] = []
            for engine in (None, "scanner"):
                try:
                    table = read_table(path, engine=engine)
                    results.append({name: table.raw(name).tolist() for name in table.names} | {"rows": len(table)})
                except TableError as error:
                    results.append(str(error))
            assert results[0] == results[1]

    def test_without_pyarrow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "d.csv").write_text("x,c\n1,a\n")
        monkeypatch.setitem(sys.modules, "pyarrow.csv", None)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        assert read_table(tmp_path / "d.csv").raw("c").tolist() == ["a"]
        with pytest.raises(FormatError, match="need pyarrow"):
            read_table(tmp_path / "d.parquet")

    def test_written_text(self, tmp_path: Path) -> None:
        Table({"x": [0.1, None], "c": ["NA", " a"]}).write(tmp_path / "d.csv")
        assert (tmp_path / "d.csv").read_text() == 'x,c\n0.1,"NA"\n," a"\n'
        Table({"x": [0.1, None]}).write(tmp_path / "one.csv")
        assert (tmp_path / "one.csv").read_text() == "x\n0.1\nNA\n"
        with pytest.raises(TableError, match="can't be written in ascii"):
            Table({"c": ["\u00e9"]}).write(tmp_path / "no.csv", encoding="ascii")
        assert not (tmp_path / "no.csv").exists()


class TestArff:
    def read(self, tmp_path: Path, text: str, **options: Any) -> Table:
        path = tmp_path / "d.arff"
        path.write_text(text)
        return read_table(path, **options)

    def test_dense(self, tmp_path: Path) -> None:
        table = self.read(
            tmp_path,
            "% a comment\n@RELATION 'r s'\n\n@Attribute 'two words' {b, a, 'c d', '?'}\n@attribute x\tREAL\n"
            '@attribute "q\'" integer [0, 5]\n@attribute n {0,1}\n@DATA\n'
            "b , 1.5,2 ,0\n% between\n'c d',?,?,?\n\n'?',-1e3, 7,1\n?,0,0,1\n",
        )
        assert table.names == ("two words", "x", "q'", "n")
        assert table.variable("two words") == Discrete("two words", states=("b", "a", "c d", "?"))
        assert table["two words"].tolist() == [0, 2, 3, -1]
        assert table.variable("n").states == ("0", "1")  # type: ignore[union-attr]
        np.testing.assert_array_equal(table["x"], [1.5, np.nan, -1000, 0])
        assert self.read(tmp_path, (tmp_path / "d.arff").read_text(), continuous="n")["n"].tolist()[::2] == [0.0, 1.0]
        assert self.read(tmp_path, (tmp_path / "d.arff").read_text(), discrete="q'").variable("q'").states == (0, 2, 7)  # type: ignore[union-attr]

    def test_sparse_and_weights(self, tmp_path: Path) -> None:
        table = self.read(
            tmp_path,
            "@relation r\n@attribute x numeric\n@attribute c {no,'ye s'}\n@attribute z numeric\n@data\n"
            "{0 2.5, 1 'ye s'}\n{ }\n{2 ?}, {0.5}\n",
        )
        np.testing.assert_array_equal(table["x"], [2.5, 0, 0])
        assert table["c"].tolist() == [1, 0, 0]
        np.testing.assert_array_equal(table["z"], [0, 0, np.nan])
        assert table.weights.tolist() == [1, 1, 0.5]

    @pytest.mark.parametrize(
        ("header", "data", "message"),
        [
            ("@attribute d date 'yyyy-QQ'", "", "line 2: attribute 'd': the letters 'QQ' of the date format"),
            ("@attribute d date 'yyyy-MM-dd'", "2020-13-01", "column 'd', line 4: '2020-13-01' is not a date such as"),
            ("@attribute r relational", "", "line 2: attribute 'r' is of type 'relational'"),
            ("@attribute r wrong", "", "line 2: attribute 'r' is of type 'wrong'"),
            ("@attribute c {a,b", "", "line 2: the values of attribute 'c' don't end"),
            ("@attribute c {a,a}", "", "line 2: attribute 'c' has a value twice"),
            ("@attribute c {}", "", "line 2: attribute 'c' has no values"),
            ("@attribute x real\n@attribute x real", "", "line 3: attribute 'x' is declared already in line 2"),
            ("@nonsense", "", "line 2: '@nonsense' is no part"),
            ("@attribute x real", "1,2", "line 4: 2 values, but 1 attributes"),
            ("@attribute x real", "\n\none", "column 'x', line 6: 'one' is not a number; write \\?"),
            ("@attribute x real", "inf", "column 'x', line 4: inf is infinite"),
            ("@attribute c {a}", "a\nb", "column 'c', line 5: 'b' is not among the values declared in line 2: 'a'"),
            ("@attribute c {a}", "'a", "line 4: an open quote"),
            ("@attribute c {a}", "{1 a}", "line 4: attribute number 1 is out of order"),
            ("@attribute c {a}", "{0 a, 0 a}", "line 4: attribute number 0 is out of order"),
            ("@attribute c {a}", "{c a}", "line 4: 'c a' is no pair"),
            ("@attribute c {a}", "a, {x}", "line 4: the weight 'x' is not a number"),
        ],
    )
    def test_faults(self, tmp_path: Path, header: str, data: str, message: str) -> None:
        with pytest.raises(HybridBNError, match=message) as caught:
            self.read(tmp_path, f"@relation r\n{header}\n@data\n{data}\n")
        assert "d.arff" in str(caught.value)

    @pytest.mark.parametrize("text", ["", "x,y\n1,2\n", "@relation r\n@attribute x real\n", "@relation r\n@data\n"])
    def test_no_arff_at_all(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(FormatError, match=r"d\.arff"):
            self.read(tmp_path, text)

    def test_every_dataset_of_the_manifest(self) -> None:
        with open(TABLES / "manifest.csv", encoding="utf-8", newline="") as file:
            entries = list(csv.DictReader(file))
        assert sorted(entry["file"] for entry in entries) == sorted(path.name for path in TABLES.glob("*.arff"))
        for entry in entries:
            table = read_table(TABLES / entry["file"])
            assert len(table) == int(entry["rows"]), entry["file"]
            attributes = int(entry["numeric"]) + int(entry["nominal"]) + 1 + len(entry["drop"].split())
            assert len(table.names) == attributes, entry["file"]
            holes = 100 * sum(table.missing.values()) / (len(table) * len(table.names))
            assert abs(holes - float(entry["missing_pct"])) < 0.06, entry["file"]
            assert table.is_discrete(entry["target"]) == (entry["task"] == "classification")


@pytest.mark.parametrize(
    ("text", "rows", "plain"),
    [
        ('x,c\n1,"a"\n2,b\n', 2, True),
        ('x,c\n1,"a ""b"""\n2,"b"', 2, True),
        ('x,c\n1,a"b\n2,b\n', 2, False),
        ('x,c\n1,"a"b\n2,b\n', 2, False),
        ('x,c\n1,"a\n2",b\n', 1, False),
        ('x,c\n1,"a\n2,b\n', 2, False),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_odd_quotes_are_seen(text: str, rows: int, plain: bool, end: str) -> None:
    assert Scanner(text.replace("\n", end).encode(), ",").quotes_are_plain(rows) == plain


def test_each_column_that_can_not_be_used_says_in_which_line(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1, "b": 2, "c": 3}\n\n{"a": [1], "b": {"u": 1}, "c": 4}\n')
    table = read_table(path)
    assert table.column("c").tolist() == [3.0, 4.0]
    for name in "ab":
        with pytest.raises(TableError, match=rf"'{name}'.*line 3|line 3.*'{name}'"):
            table.column(name)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('"a"b,2', "line 6002: text after a closing quote"),
        ('"a,2', "line 6002: a quote is opened and never closed"),
        ('a"b,2,3', "line 6002: 3 cells, but the header names 2 columns"),
    ],
)
def test_faults_late_in_a_file_are_named(line: str, reason: str, tmp_path: Path) -> None:
    lines = ["name,x", *(f'"text, {row % 7}",{row}.25' for row in range(6000)), line, "b,3"]
    (tmp_path / "late.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(TableError, match=reason):
        read_table(tmp_path / "late.csv")
