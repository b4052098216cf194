"""Every way to write a delimited file x every door: what is read is what the plain file says, and told in one line."""

from __future__ import annotations

import datetime
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from test_readings import FILE_DOORS, describe, leave_out_the_door

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.tables.formats.dialects import Dialect, describe_readings, sniff_dialect

pytest.importorskip("pyarrow")

ROWS = 60


class Style(NamedTuple):
    """How a file is written, and what is told of it."""

    found: str
    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    end: str = "\n"
    dates: str = "%Y-%m-%d"
    suffix: str = ".csv"


STYLES = {
    "plain": Style(""),
    "German Excel": Style(
        "';' between cells, decimal comma, '.' between thousands, cp1252",
        *(";", ",", ".", "cp1252", "\r\n", "%d.%m.%Y"),
    ),
    "UTF-8 with a mark": Style("';' between cells, decimal comma", ";", ",", "", "utf-8-sig", "\r\n"),
    "French": Style(
        "';' between cells, decimal comma, spaces between thousands", ";", ",", "\u202f", "utf-8", "\n", "%d/%m/%Y"
    ),
    "French cp1252": Style(
        "';' between cells, decimal comma, spaces between thousands, cp1252", ";", ",", "\u00a0", "cp1252", "\r\n"
    ),
    "American": Style("',' between thousands", ",", ".", ",", "utf-8", "\r\n", "%m/%d/%Y"),
    "quoted decimal commas": Style("decimal comma", ",", ","),
    "Swiss": Style("';' between cells, \"'\" between thousands", ";", ".", "'"),
    "tabs of Unicode": Style(
        "decimal comma, '.' between thousands, utf-16-le", "\t", ",", ".", "utf-16", "\r\n", "%d.%m.%Y", ".tsv"
    ),
    "tabs in CSV": Style("tabs between cells", "\t"),
    "bars": Style("'|' between cells, ',' between thousands", "|", ".", ","),
    "commas in TSV": Style("',' between cells, ',' between thousands", ",", ".", ",", suffix=".tsv"),
    "packed": Style("';' between cells, decimal comma, cp1252", ";", ",", "", "cp1252", suffix=".csv.gz"),
}


def make_records() -> Iterator[list[Any]]:
    """Give a header and records of text, codes, dates, amounts, whole numbers and nothing, some with holes."""
    yield ["Straße", "PLZ", "Tag", "Betrag", "Anzahl", "leer"]
    for i in range(ROWS):
        day = datetime.date(2023, 1, 1) + datetime.timedelta(days=7 * i % 360)
        amount = None if i % 7 == 3 else round(17.25 * i * i + i / 8, 2)
        yield [
            ["Süd", "Nord", "West"][i % 3],
            f"{'01' if i % 2 else '80'}{331 + i % 3}",
            day,
            amount,
            i * 40 % 1999,
            None,
        ]


def write(path: Path, style: Style, records: Any = None) -> Path:
    """Write records in a style."""

    def spell(value: Any) -> str:
        if isinstance(value, datetime.date):
            return value.strftime(style.dates)
        text = "" if value is None else f"{value:,}" if isinstance(value, int | float) else value
        if isinstance(value, int | float):
            text = text.replace(",", "_").replace(".", style.decimal).replace("_", style.thousands)
        return f'"{text}"' if style.delimiter in text else text

    lines = [style.delimiter.join(map(spell, record)) for record in records or make_records()]
    data = (style.end.join(lines) + style.end).encode(style.encoding)
    if path.name.endswith(".gz"):
        import gzip

        data = gzip.compress(data)
    path.write_bytes(data)
    return path


def read_in_parts(path: Path, style: Style) -> Any:
    header, *records = make_records()
    folder = path.with_name("parts")
    folder.mkdir()
    for number in range(3):
        write(folder / f"{number}{style.suffix}", style, [header, *records[number * 20 : number * 20 + 20]])
    return describe(hb.scan(folder))


@pytest.fixture(scope="module")
def workers() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


DOORS = ("read_table", "scanner", *FILE_DOORS, "workers", "duckdb", "parts")


def open_door(door: str, path: Path, style: Style, workers: Executor) -> Any:
    if door == "parts":
        return read_in_parts(path, style)
    if door in ("workers", "duckdb"):
        return describe(hb.scan(path, backend=workers if door == "workers" else "duckdb"))
    if door in ("read_table", "scanner"):
        return describe(hb.read_table(path, engine=None if door == "read_table" else door))
    return FILE_DOORS[door](path)


def drop_patterns(reading: Any) -> Any:
    return [tuple(re.sub(r"pattern='.*'", "", str(part)) for part in column) for column in reading]


@pytest.mark.parametrize(
    ("name", "door"),
    [
        pytest.param(
            name,
            door,
            marks=[
                *([pytest.mark.slow] if name != "German Excel" and door not in ("read_table", "scan") else []),
                *([pytest.mark.skip("no DuckDB")] if door == "duckdb" and not find_spec("duckdb") else []),
            ],
        )
        for name in STYLES
        for door in DOORS
    ],
)
def test_each_door_reads_each_style(name: str, door: str, tmp_path: Path, workers: Executor) -> None:
    style = STYLES[name]
    plain = describe(hb.read_table(write(tmp_path / "plain.csv", STYLES["plain"])))
    path = write(tmp_path / f"given{style.suffix}", style)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reading = open_door(door, path, style, workers)
    assert drop_patterns(reading) == drop_patterns(plain)
    assert [str(one.message) for one in caught] == ([f"read as: {style.found}"] if style.found else [])


def test_what_is_told_is_not_told_again(tmp_path: Path) -> None:
    style = STYLES["French cp1252"]
    path = write(tmp_path / "t.csv", style)
    given: dict[str, Any] = {name: getattr(style, name) for name in ("delimiter", "decimal", "thousands", "encoding")}
    assert describe(hb.read_table(path, **given)) == describe(hb.scan(path, **given))
    with pytest.raises(hb.TableError, match=r"column 'Betrag', line 10: '1.*105,0' looks like a number"):
        hb.read_table(path, **{**given, "thousands": ""})
    with pytest.raises(hb.TableError, match="delimiter= is for text files"):
        hb.scan({"x": [1.5]}, delimiter=";")


def impute_by_scan(path: Path, output: Path) -> None:
    hb.impute(hb.scan(path), random_state=0).write(output)


def impute_by_command(path: Path, output: Path) -> None:
    assert run(["impute", str(path), str(output), "--quiet"]) == 0


@pytest.mark.filterwarnings("ignore:read as", "ignore:columns left alone")
@pytest.mark.parametrize("impute", [impute_by_scan, impute_by_command])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "German Excel" else pytest.mark.slow) for name in STYLES]
)
def test_holes_are_filled_in_the_style_of_the_file(name: str, impute: Any, tmp_path: Path) -> None:
    style = STYLES[name]
    path, output = write(tmp_path / f"a{style.suffix}", style), tmp_path / f"b{style.suffix}"
    if style.suffix.endswith(".gz") and impute is impute_by_scan:
        pytest.skip("scans are not packed")
    impute(path, output)
    data = [one.read_bytes() if style.suffix != ".csv.gz" else unpack(one) for one in (path, output)]
    assert data[1][:3] == data[0][:3]
    before, after = (one.decode(style.encoding).split(style.end) for one in data)
    decimal, thousands = re.escape(style.decimal), re.escape(style.thousands)
    number = rf"-?\d{{1,3}}({thousands}\d{{3}})*({decimal}\d+)?"
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        cells = split(new, style.delimiter)
        if split(old, style.delimiter)[3:4] == [""]:
            assert re.fullmatch(number, cells[3])
            cells[3] = ""
        assert cells == split(old, style.delimiter)


def unpack(path: Path) -> bytes:
    import gzip

    return gzip.decompress(path.read_bytes())


def split(line: str, delimiter: str) -> list[str]:
    return [
        cell.strip('"')
        for cell in re.findall(rf'(?:^|{re.escape(delimiter)})("[^"]*"|[^{re.escape(delimiter)}]*)', line)
    ]


@pytest.mark.parametrize("door", FILE_DOORS)
@pytest.mark.parametrize("header", ["a,c,leer,,", ",a,,c,leer"])
def test_empty_columns_are_left_alone_with_or_without_a_name(header: str, door: str, tmp_path: Path) -> None:
    path, output = tmp_path / "t.csv", tmp_path / "o.csv"
    values = {"a": "1.5", "c": "x"}
    row = ",".join(values.get(name, "") for name in header.split(","))
    path.write_text(f"{header}\n" + f"{row}\n{row.replace('1.5', '')}\n{row.replace('1.5', '2')}\n" * 12)
    unnamed = [f"unnamed_{place}" for place, name in enumerate(header.split(",")) if not name]
    reading = FILE_DOORS[door](path)
    assert reading == describe(hb.read_table(path)) == describe(hb.read_table(path, engine="scanner"))
    assert {name: said for name, said, *_ in reading if said == "no value"} == dict.fromkeys(
        [*unnamed, "leer"], "no value"
    )
    if door == "command":
        assert run(["impute", str(path), str(output)]) == 0
        lines = output.read_text().splitlines()
        assert lines[0] == header
        assert [line.count(",") for line in lines] == [4] * 37
    path.write_text(f"{header}\n" + f"{row.replace('x', 'y')}\n1,2,3,4,5\n")
    with pytest.raises(hb.TableError, match=r"column \d has no name"):
        FILE_DOORS[door](path)


# -- what two conventions could read -----------------------------------------------------------------------------------

OPEN = {
    "thousands or decimals": ("k;v\na;1.234\nb;5.678\n", {"decimal": ".", "thousands": "."}),
    "whole numbers beside": ("k;v\n1;1.234\n2;56\n", {"decimal": ".", "thousands": "."}),
    "decimals or thousands": ("k;v\na;1,234\nb;5,678\n", {"thousands": ",", "decimal": ","}),
    "tabs": ("k\tv\na\t12.345\nb\t1.000\n", {"decimal": ".", "thousands": "."}),
    "dates": ("k,v\na,01/02/03\nb,04/05/06\n", {"dates": "mdy dmy"}),
    "dates with years": ("k,v\na,1/2/2023\nb,11/12/2024\n", {"dates": "mdy dmy"}),
    "dates with hyphens": ("k,v\na,01-02-2023\nb,11-12-2024\n", {"dates": "dmy mdy"}),
    "two delimiters": ("a;b|c;d\n1;2|3;4\n", {"delimiter": "; |"}),
}


def list_remedies(message: str, pattern: str) -> list[tuple[str, str]]:
    return [(name, sign) for name, sign in re.findall(pattern, message) if name != "discrete"]


@pytest.mark.filterwarnings("ignore:read as")
@pytest.mark.parametrize("name", OPEN)
def test_what_two_conventions_read_is_refused_and_each_remedy_works(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, remedies = OPEN[name]
    path = tmp_path / "t.csv"
    path.write_text(text)
    messages = []
    for read in (hb.read_table, lambda given: hb.scan(given).sample()):
        with pytest.raises(hb.TableError) as refused:
            read(path)
        messages.append(leave_out_the_door(str(refused.value), str(path)))
    assert run(["check", str(path)]) == 2
    said = capsys.readouterr().err.replace("hybridbn: ", "").strip()
    assert messages[0] == messages[1]
    told = list_remedies(messages[0], r"(\w+)='([^']+)'")
    assert {key: " ".join(sign for one, sign in told if one == key) for key in remedies} == remedies
    assert list_remedies(said, r"--(\w+) '([^']+)'") == told
    readings = []
    for option, sign in told:
        given: dict[str, Any] = {option: sign}
        table, scan = hb.read_table(path, **given), hb.scan(path, **given)
        assert describe(table) == describe(scan)
        assert run(["check", str(path), f"--{option}", sign]) == 0
        readings.append(drop_patterns(describe(table)))
    assert len(readings) == 2
    assert readings[0] != readings[1]


SETTLED = {
    "decimals elsewhere": ("k;v\n2,5;1.234\n", 1234.0),
    "points elsewhere": ("k;v\n2.5;1.234\n", 1.234),
    "points before commas elsewhere": ("k;v\n2.5;1,234\n", 1234.0),
    "two groups": ("k;v\n1;1.234.567\n", 1234567.0),
    "a leading zero": ("k;v\n1;0.234\n1;1.234\n", 1.234),
    "commas between cells": ("k,v\n1,1.234\n", 1.234),
    "commas between cells and thousands": ('k,v\n1,"1,234"\n', 1234.0),
    "spaces": ("k;v\n1;1 234\n", 1234.0),
    "dates by another column": ("k,v\n31/12/2023,01/02/2023\n", 19389.0),
    "dates by a late cell": ("k,v\nx,01/02/2023\nx,31/12/2023\nx,01/02/2023\n", 19389.0),
    "dates with points": ("k;v\nx;01.02.2023\n", 19389.0),
}


@pytest.mark.filterwarnings("ignore:read as")
@pytest.mark.parametrize("name", SETTLED)
def test_other_cells_settle_what_is_meant(name: str, tmp_path: Path) -> None:
    text, value = SETTLED[name]
    (tmp_path / "t.csv").write_text(text)
    for read in (hb.read_table, hb.scan):
        rows = read(tmp_path / "t.csv")
        assert rows.sample().column("v")[-1] == value


def test_columns_of_two_conventions_are_refused_unless_one_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("version;price\n1.2;9,5\n1.3;8,25\n")
    for read in (hb.read_table, hb.scan):
        with pytest.raises(hb.TableError, match=r"discrete=\['price'\] or discrete=\['version'\]"):
            read(path)
        with pytest.warns(UserWarning, match="read as: ';' between cells, decimal comma$"):
            rows = read(path, discrete=["version"])
        assert rows.sample().column("price").tolist() == [9.5, 8.25]


# -- codes -------------------------------------------------------------------------------------------------------------

CODES = {
    "postal codes": (["02139", "10001", "94103"], True),
    "of few digits": (["00", "01", "10"], True),
    "without zeros": (["10115", "80331", "99999"], False),
    "numbers": (["0", "7", "120"], False),
    "fractions": (["0.5", "00.5", "12"], False),
    "signs": (["-01", "12", "13"], False),
    "beside others": (["02139", "02139-4307", "10001"], True),
    "quoted": (['"02139"', '"10001"', '"94103"'], True),
    "with other widths": (["007", "12", "3"], True),
}


@pytest.mark.parametrize(
    ("name", "late"),
    [*((name, False) for name in CODES), *((name, True) for name in ("postal codes", "without zeros", "quoted"))],
)
def test_a_leading_zero_makes_states(name: str, late: bool, tmp_path: Path) -> None:
    cells, are_states = CODES[name]
    path = tmp_path / "t.csv"
    path.write_text("z,c\n" + f"{cells[1]},x\n" * (9_000 if late else 1) + "".join(f"{cell},y\n" for cell in cells))
    for read in (hb.read_table, partial(hb.read_table, engine="scanner"), hb.scan):
        rows: Any = read(path)
        assert rows.is_discrete("z") == are_states
        if are_states:
            assert rows.variable("z").states == tuple(sorted(cell.strip('"') for cell in cells))
        assert not read(path, continuous=["z"] if name != "beside others" else []).is_discrete("z") or "-" in str(cells)


# -- pieces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"a,b\n", "utf-8"),
        ("ä,b\n".encode(), "utf-8"),
        ("ä,b\n".encode("cp1252"), "cp1252"),
        ("ä,b\nü\n".encode() + b"\xe4", "utf-8"),
        (b"\x1f\x8b\x08\xff", "utf-8"),
        ("ä\n".encode("utf-16-be"), "utf-8"),
        (b"\xfe\xff" + "ä\n".encode("utf-16-be"), "utf-16-be"),
        (("a" * 65535 + "ä").encode()[:65536], "utf-8"),
    ],
)
def test_encodings_are_found_by_bytes(head: bytes, encoding: str) -> None:
    assert sniff_dialect(head, ".csv", [""], {}).encoding == encoding


@pytest.mark.parametrize("text", ["1,5", "1.234,5", "1 234", "1'234.5", "-1.234.567", "0,123", "12"])
def test_a_number_comes_back_as_it_was_written(text: str) -> None:
    dialects = [
        Dialect(decimal=d, thousands=t, grouped=frozenset("x")) for d in ".," for t in (".", ",", " ", "'") if d != t
    ]
    reading = [one for one in dialects if one.plain(text) is not None]
    assert reading
    assert all(one.spell("x", str(one.plain(text))) == text for one in reading)
    assert describe_readings(text)
