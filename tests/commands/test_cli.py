"""The command ``hybridbn impute``: what goes in and what comes out."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import re
import sqlite3
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.tables.formats.text_blocks import make_delimited_splitter, make_line_splitter, read_chunks

HEART = Path(__file__).resolve().parents[2] / "examples" / "data" / "heart.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
    return tmp_path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HEART.parents[2])}


def frame(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.normal(size=rows)
    made = pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(rows)],
            "x": x,
            "k": pd.array(rng.poisson(3, rows), dtype="Int64"),
            "c": np.where(x > 0, "a, b", "it's"),
            "b": (rng.random(rows) < 0.5).astype(object),
            "code": pd.array(rng.integers(1, 4, rows), dtype="Int64"),
        }
    )
    for name in ("x", "k", "c", "b", "code"):
        made.loc[rng.random(rows) < 0.15, name] = None
    return made


FORMATS = {
    "csv": "t.csv",
    "tsv": "t.tsv",
    "csv.gz": "t.csv.gz",
    "arff": "t.arff",
    "parquet": "t.parquet",
    "feather": "t.feather",
    "jsonl": "t.jsonl",
    "sqlite": "sqlite:///t.db?table=t",
}


def completed(source: str, goal: str, *options: str) -> hb.Table:
    assert run(["impute", source, goal, "--quiet", *options]) == 0
    return hb.read_table(goal, discrete=["code"])


def cells(table: hb.Table) -> list[list[object]]:
    return [[None if value is None else value for value in table.raw(name)] for name in ("x", "k", "c", "b", "code")]


@pytest.mark.slow
def test_every_format_goes_to_every_other_with_equal_cells() -> None:
    table = hb.Table(frame(), discrete=["code"])
    for place in FORMATS.values():
        hb.write_table(table, place)
    expected = None
    for (start, source), (end, _) in itertools.product(FORMATS.items(), FORMATS.items()):
        if (
            start != end
            and "csv" not in (start, end)
            and (start, end) not in (("parquet", "sqlite"), ("sqlite", "arff"))
        ):
            continue  # one hub and some spokes say as much as all pairs
        goal = f"sqlite:///{start}.db?table=out" if end == "sqlite" else f"{start}.out.{end}"
        found = completed(source, goal, "--discrete", "code", "--chunk", "64")
        assert found.names == table.names
        assert not any(found.missing.values()), (start, end)
        for name in table.names:
            observed = [value is not None for value in table.raw(name)]
            kept = [value for value, seen in zip(found.raw(name), observed, strict=True) if seen]
            assert kept == [value for value in table.raw(name) if value is not None], (start, end, name)
        expected = expected or cells(found)
        assert cells(found) == expected, (start, end)
    assert not list(Path().glob("*.parts"))
    assert not list(Path().glob("*.lock"))
    assert not list(Path().glob(".*"))


def test_only_holes_change_in_a_text_file() -> None:
    odd = 'x,"c, d",n\r\n1.50,"a ""q""",007\r\n,b,010\r\n\r\n3e0,"b\r\nb",\r\n-0.0,,1\r\n2.25,b,0\r\n1,b,3'
    Path("t.csv").write_bytes(odd.encode("utf-8-sig"))
    assert run(["impute", "t.csv", "out.csv", "--discrete", "n"]) == 0
    before, after = Path("t.csv").read_bytes(), Path("out.csv").read_bytes()
    assert before.startswith(b"\xef\xbb\xbf")
    assert after.startswith(before[: before.index(b",b,010")])
    for part in (b'1.50,"a ""q""",007\r\n', b",b,010\r\n\r\n3e0,", b'"b\r\nb",', b"\r\n2.25,b,0\r\n1,b,3"):
        assert part in after
    table = hb.read_table("out.csv", discrete=["n"])
    assert not any(table.missing.values())
    assert after.endswith(b"\r\n1,b,3")


def test_only_holes_change_in_json_lines_and_arff() -> None:
    Path("t.jsonl").write_text(
        '{"x": 1.50, "c": "é"}\n\n{"c": null,  "x": 2e0}\n{"x": null, "c": "b"}\n{"c": "b"}\n{"x":7.0,"c":"b"}'
    )
    assert run(["impute", "t.jsonl", "out.jsonl", "--strategy", "most_probable", "--quiet"]) == 0
    out = Path("out.jsonl").read_text().split("\n")
    assert out[0] == '{"x": 1.50, "c": "é"}'
    assert out[1] == ""
    assert out[2].startswith('{"c": "')
    assert out[2].endswith(', "x": 2e0}')
    assert set(json.loads(out[4])) == {"x", "c"}
    assert out[5] == '{"x":7.0,"c":"b"}'
    arff = (
        "% note\n@relation r\n@attribute x numeric\n@attribute c {a,'b b',z}\n@data\n1.50,a\n?, 'b b'\n% within\n{0 "
        "3,1 "
        "?}\n2.0,?\n"
    )
    Path("t.arff").write_text(arff)
    assert run(["impute", "t.arff", "out.arff", "--quiet"]) == 0
    text = Path("out.arff").read_text()
    assert text.startswith(arff[: arff.index("?")])
    assert ", 'b b'\n% within\n{0 3,1 " in text
    assert "?" not in text
    assert as_discrete(hb.read_table("out.arff").variable("c")).states == ("a", "b b", "z")


def test_parquet_keeps_types_metadata_and_what_is_left_alone() -> None:
    made = frame().assign(when=pd.date_range("2020", periods=300), c=lambda f: f["c"].astype("category"))
    made = made.drop(columns="b")  # with holes a column of objects, without one of truth values
    made["small"] = pd.array([None, *range(299)], dtype="Int16")
    made.loc[3, "when"] = pd.NaT
    made.to_parquet("t.parquet")
    assert run(["impute", "t.parquet", "out.parquet", "--keep", "when,id"]) == 0
    found = pd.read_parquet("out.parquet")
    assert found.dtypes.to_dict() == pd.read_parquet("t.parquet").dtypes.to_dict()
    assert found["when"].equals(made["when"])
    assert found.drop(columns="when").notna().all().all()


def test_draws_stand_one_after_the_other() -> None:
    frame().drop(columns="id").to_csv("t.csv", index=False)
    frame().drop(columns="id").to_parquet("t.parquet")
    for suffix in ("csv", "parquet"):
        found = completed(
            f"t.{suffix}", f"out.{suffix}", "--draws", "3", "--chunk", "100", "--discrete", "code"
        ).to_pandas()
        assert list(found.columns) == ["draw", "x", "k", "c", "b", "code"]
        assert found["draw"].tolist() == np.repeat([1, 2, 3], 300).tolist()
        one, two, three = (part["x"].to_numpy() for _, part in found.groupby("draw"))
        holes = frame()["x"].isna().to_numpy()
        assert (one[~holes] == two[~holes]).all()
        assert not np.isin(one[holes], np.concatenate([two, three])).any()


def test_result_does_not_depend_on_the_chunk_and_does_on_the_seed() -> None:
    frame(300).to_csv("t.csv", index=False)
    outputs = []
    for name, options in {"a": (), "b": ("--chunk", "7"), "c": ("--chunk", "299"), "d": ("--seed", "1")}.items():
        completed("t.csv", f"{name}.csv", *options)
        outputs.append(Path(f"{name}.csv").read_bytes())
    assert outputs[0] == outputs[1] == outputs[2] != outputs[3]


def test_saved_model_gives_the_same_cells_and_knows_constants() -> None:
    made = frame().assign(one=1.5, same="s").drop(columns="id")
    made.loc[5:9, ["one", "same"]] = None
    made.to_csv("t.csv", index=False)
    options = ("--discrete", "code")
    completed("t.csv", "a.csv", *options, "--save-model", "m.hbn")
    completed("t.csv", "b.csv", "--model", "m.hbn")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert as_discrete(as_kind(hb.Network, hb.load("m.hbn")).variable("code")).states == (1, 2, 3)
    completed("t.csv", "c.csv", "--model", "m.hbn", "--draws", "2")


@pytest.mark.filterwarnings("ignore:columns 'one' have the same value")
@pytest.mark.parametrize("draws", [None, 2])
def test_python_gives_what_the_command_gives(draws: int | None) -> None:
    made = frame().assign(skewed=lambda f: np.round(np.exp(f["x"]), 2), one=1.5).drop(columns=["id", "code"])
    made.loc[5:60:5, ["skewed", "one"]] = None
    made.to_csv("t.csv", index=False)
    options = () if draws is None else ("--draws", str(draws))
    assert run(["impute", "t.csv", "a.csv", *options, "--save-model", "m.hbn", "--seed", "3", "--quiet"]) == 0
    table, keys = hb.read_table("t.csv"), range(len(made))
    found = hb.impute(table, draws=draws, random_state=3, keys=keys)
    assert isinstance(found, list) is (draws is not None)
    tables = found if isinstance(found, list) else [found]
    expected = hb.read_table("a.csv").to_pandas().drop(columns="draw", errors="ignore")
    pd.testing.assert_frame_equal(pd.concat([t.to_pandas() for t in tables], ignore_index=True), expected)
    # what goes along with the network is honored too: constants, donors, decimals
    again = hb.impute(table, network=as_kind(hb.Network, hb.load("m.hbn")), random_state=3, keys=keys)
    pd.testing.assert_frame_equal(again.to_pandas(), tables[0].to_pandas())


def test_a_network_of_ones_own() -> None:
    c, x = hb.Discrete("c", states=("a", "b")), hb.Continuous("x")
    network = hb.Network(
        [
            hb.Multinomial(c, table=[0.5, 0.5]),
            hb.LinearGaussian(x, parents=(c,), intercept=[0, 100], coefficients=[[], []], variance=[1e-6, 1e-6]),
        ]
    )
    network.save("m.hbn")
    Path("t.csv").write_text("x,c,z\n100.0,,1\n,a,2\n0.0,b,3\n".replace("0.0,b", "100.0,b"))
    assert run(["impute", "t.csv", "out.csv", "--model", "m.hbn"]) == 0
    found = hb.read_table("out.csv")
    assert found.raw("c").tolist() == ["b", "a", "b"]
    assert abs(found["x"][1]) < 0.1


@pytest.mark.slow
def test_pipes() -> None:
    data = HEART.read_bytes()
    command = [sys.executable, "-m", "hybridbn", "impute", "-", "-", "--format", "csv"]
    piped = subprocess.run(command, input=data, capture_output=True, check=True, env=environment())
    assert run(["impute", str(HEART), "out.csv"]) == 0
    assert piped.stdout == Path("out.csv").read_bytes()
    assert piped.stderr == b""
    assert run(["impute", str(HEART), "packed.csv.gz"]) == 0
    assert gzip.decompress(Path("packed.csv.gz").read_bytes()) == piped.stdout
    # whoever reads may stop early
    early = subprocess.Popen(
        [*command[:-1], "jsonl", "--from", "csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert early.stdin is not None
    assert early.stdout is not None
    assert early.stderr is not None
    early.stdin.write(data)
    early.stdin.close()
    early.stdout.read(1)
    early.stdout.close()
    assert early.stderr.read() == b""
    early.stderr.close()
    assert early.wait() == 0


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_named_pipe_is_read_once() -> None:
    os.mkfifo("pipe.csv")
    feeding = subprocess.Popen(["cp", str(HEART), "pipe.csv"])
    assert run(["impute", "pipe.csv", "out.csv"]) == 0
    assert feeding.wait() == 0
    assert run(["impute", str(HEART), "same.csv"]) == 0
    assert Path("out.csv").read_bytes() == Path("same.csv").read_bytes()
    assert run(["impute", str(HEART), "pipe.csv"]) == 2


def test_encoding_delimiter_and_markers() -> None:
    text = "größe;art\n1,5;ä\n-99;ö\n2,5;\n3,5;ö\n".replace(",", ".")
    Path("t.csv").write_bytes(text.encode("latin-1"))
    options = ("--delimiter", ";", "--missing", "-99", "--encoding", "latin-1")
    assert run(["impute", "t.csv", "out.csv", *options]) == 0
    out = Path("out.csv").read_bytes().decode("latin-1").splitlines()
    assert out[0] == "größe;art"
    assert out[1] == "1.5;ä"
    assert "-99" not in out[2]
    assert out[3] in ("2.5;ä", "2.5;ö")
    assert run(["impute", "t.csv", "out.tsv", *options, "--quiet"]) == 0
    assert Path("out.tsv").read_bytes().decode("latin-1").splitlines()[1] == "1.5\tä"


def test_decimal_commas() -> None:
    made = frame(60).drop(columns=["id", "code"])
    made["x"] = made["x"].round(2)
    made.to_csv("points.csv", index=False, sep=";")
    made.to_csv("commas.csv", index=False, sep=";", decimal=",")
    for name, decimal in (("points", "."), ("commas", ",")):
        options = ("--delimiter", ";", "--decimal", decimal, "--quiet")
        for suffix in ("csv", "parquet", "tsv"):
            assert run(["impute", f"{name}.csv", f"{name}.out.{suffix}", *options]) == 0
    assert Path("commas.out.parquet").read_bytes() == Path("points.out.parquet").read_bytes()
    for suffix, sign in (("csv", ";"), ("tsv", "\t")):
        found = hb.read_table(f"commas.out.{suffix}", decimal=",", delimiter=sign)
        assert found.equals(hb.read_table(f"points.out.{suffix}", delimiter=sign))
        assert not any(found.missing.values())
    texts = [Path(f"{name}.csv").read_text().splitlines() for name in ("commas", "commas.out")]
    assert all(before == after for before, after in zip(*texts, strict=True) if ";;" not in f";{before};")


def test_sqlite_in_one_database_keeps_declarations() -> None:
    with sqlite3.connect("t.db") as connection:
        connection.execute("CREATE TABLE t (x DOUBLE PRECISION, b BOOLEAN, raw BLOB)")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?)",
            [(0.5 * i if i % 4 else None, i % 2 if i % 5 else None, b"\0") for i in range(40)],
        )
    connection.close()
    assert run(["impute", "sqlite:///t.db?table=t", "sqlite:///t.db?table=new", "--keep", "raw"]) == 0
    connection = sqlite3.connect("t.db")
    assert connection.execute("SELECT count(*), count(x), count(b), min(raw) FROM new").fetchone() == (
        40,
        40,
        40,
        b"\0",
    )
    assert [row[2] for row in connection.execute("PRAGMA table_info(new)")] == ["DOUBLE PRECISION", "BOOLEAN", "BLOB"]
    connection.close()


def test_a_sample_of_a_larger_table_is_learned_from() -> None:
    frame(2000).to_csv("t.csv", index=False)
    found = completed("t.csv", "a.csv", "--sample", "300")
    assert not any(found.missing.values())
    completed("t.csv", "b.csv", "--sample", "300", "--chunk", "111")
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()


def test_structures_bounds_and_strategies() -> None:
    frame(200).drop(columns="id").to_csv("t.csv", index=False)
    found = completed("t.csv", "out.csv", "--bounds", "x=-0.5:0.5", "--bounds", "k=1:")
    holes = frame(200)["x"].isna().to_numpy()
    assert np.abs(found["x"][holes]).max() <= 0.5
    completed("t.csv", "tan.csv", "--structure", "tan", "--target", "c", "--potentials", "gaussian")
    completed("t.csv", "mean.csv", "--strategy", "mean")
    observed = completed("t.csv", "o.csv", "--bounds", "observed")["x"]
    assert np.nanmin(frame(200)["x"]) <= observed.min()


class Page(HTMLParser):
    """Checks that what is opened is closed, and collects what is asked of elsewhere."""

    void = frozenset({"meta", "br", "link", "img"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.asked: list[str] = []
        self.pictures = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pictures += tag == "svg"
        self.asked += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_report_is_one_page_with_every_column() -> None:
    frame().assign(**{"<b>&": frame()["c"]}).to_csv("t.csv", index=False)
    completed("t.csv", "out.csv", "--report", "r.html", "--draws", "2", "--chunk", "100")
    text = Path("r.html").read_text()
    page = Page()
    page.feed(text)
    assert page.open == []
    assert page.asked == []
    assert page.pictures == 1 + 2 * 6
    assert "&lt;b&gt;&amp;" in text
    assert "<b>" not in text
    for name in ("x", "k", "c", "b", "code"):
        assert f"<h3>{name}</h3>" in text
    completed("t.csv", "other.csv", "--report", "s.html", "--draws", "2", "--chunk", "77")
    assert Path("s.html").read_text().replace("other.csv", "out.csv") == text


def test_report_of_skewed_numbers_and_long_names() -> None:
    rng = np.random.default_rng(1)
    made = pd.DataFrame(
        {
            "even": rng.normal(size=400),
            "skewed": np.where(rng.random(400) < 0.6, 0, rng.lognormal(3, 2, 400)),
            "huge": rng.normal(1e12, 1e9, 400),
            "state": [f"one of the states with long names, {i % 20}" for i in range(400)],
        }
    )
    made = made.mask(rng.random(made.shape) < 0.2)
    made.to_csv("t.csv", index=False)
    assert run(["impute", "t.csv", "out.csv", "--report", "r.html"]) == 0
    text = Path("r.html").read_text()
    cards = dict(zip(made.columns, text.split('<div class="card">')[1:], strict=True))
    assert "above" not in cards["even"]  # the greatest number lies in the last bin
    assert "above" in cards["skewed"]
    assert "few of them far from the others" in cards["skewed"]
    assert "9.97" in cards["huge"]
    assert re.search(r">one of th…(ames, 1\d|names, \d)<", cards["state"])


def test_show_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["impute", str(HEART), "out.csv", "--show", "3"]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert [line.split()[0] for line in shown.out.splitlines()] == ["row", "1", "2", "3", "*"]
    assert shown.out.count("*") == 5
    for arguments, expected in ((["--version"], f"hybridbn {hb.__version__}\n"), (["impute", "--help"], "exit codes:")):
        with pytest.raises(SystemExit) as ended:
            run(arguments)
        assert ended.value.code == 0
        assert expected in capsys.readouterr().out


def test_the_guide_names_all_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(["impute", "--help"])
    told = capsys.readouterr().out
    page = (Path(__file__).resolve().parents[2] / "examples" / "guide" / "howto" / "impute.rst").read_text()
    for code in ("0", "2", "70", "73", "74", "75", "130"):
        assert f"\n  {code} " in told
        assert re.search(rf"^{code} {{2,}}\w", page, re.MULTILINE)


def test_command_starts_without_the_heavy_libraries() -> None:
    code = """
import sys, hybridbn.commands.cli
try:
    hybridbn.commands.cli.run(["--version"])
except SystemExit:
    print([name for name in ("numpy", "pandas", "scipy", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment())
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_records_are_the_same_wherever_reading_stops(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import hybridbn.tables.formats.text_blocks as records

    texts = [
        '"a","b"\n"1","x"\n"""",2\n\n3,""\n',
        'a,b\n1,"x\ny"\n\n2,"q""q"\r\n3,\r4,z',
        "a\nb\n\n\nc",
        'a\r\nb\r\n"c\r\nd"\r\n',
        "x\ry\rz",
        "",
        "\n\n",
        "a",
    ]
    for text in texts:
        data = text.encode()
        whole = make_delimited_splitter(",")(data, True)
        expected = [data[s:e] for s, e in zip(*whole, strict=True)]
        for step in (1, 2, 7):
            monkeypatch.setattr(records, "_SIZE", step)
            found = list(read_chunks(io.BytesIO(data), make_delimited_splitter(","), size, 0, 1))
            got = [p.data[s:e] for p in found for s, e in zip(p.starts, p.ends, strict=True)]
            assert got == expected
            assert all(len(p.starts) == size for p in found[:-1])
            if expected:
                assert b"".join(p.data for p in found) == data
                assert [data[p.offset : p.offset + len(p.data)] for p in found] == [p.data for p in found]
                starts = [
                    data[: p.offset].decode().replace("\r\n", "\n").replace("\r", "\n").count("\n") for p in found
                ]
                assert [p.line for p in found] == [1 + count for count in starts]
    assert make_line_splitter(b"%")(b"% no\n yes\n\n", True)[0].tolist() == [5]
    assert os.sep


def test_dates_in_blocks_follow_the_pattern_of_all_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(np.arange(200) % 90, unit="D")
    made = pd.DataFrame(
        {
            # the first cell that tells the day from the month stands in the last block
            "us": [
                f"{day:%d/%m/%Y}" if day.day <= 12 or row > 180 else f"01/02/{2000 + row % 9}"
                for row, day in enumerate(days)
            ],
            "almost": [f"{day:%Y-%m-%d}" for day in days[:-1]] + ["soon"],
            "end": days + pd.to_timedelta(np.arange(200) % 7, unit="D"),
            "start": days,
            "late": [None] * 150 + [f"{day:%H:%M}" for day in days[150:]],
        }
    )
    made.loc[::9, ["us", "almost", "end"]] = None
    source, goal = tmp_path / "t.csv", tmp_path / "o.csv"
    made.to_csv(source, index=False)
    assert run(["impute", str(source), str(goal), "--chunk", "40"]) == 0
    filled = pd.read_csv(goal)
    assert pd.to_datetime(filled["us"], format="%d/%m/%Y").notna().all()
    assert filled["almost"][::9].isin(made["almost"]).all()
    assert pd.to_datetime(filled["end"], format="%Y-%m-%d").notna().all()
    assert pd.to_datetime(filled["late"], format="%H:%M").notna().all()
    assert ((filled == made.astype({"end": str, "start": str})) | made.isna())[["us", "almost", "start"]].all(axis=None)
    whole = tmp_path / "whole.csv"
    assert run(["impute", str(source), str(whole)]) == 0
    assert whole.read_bytes() == goal.read_bytes()
    assert run(["impute", str(source), str(goal), "--bounds", "end=2023-02-01:2023-02-09"]) == 0
    drawn = pd.read_csv(goal)["end"][made["end"].isna()]
    assert drawn.between("2023-02-01", "2023-02-09").all()
