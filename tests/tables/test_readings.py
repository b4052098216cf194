"""The same table through every door: `read_table`, `scan`, the command and frames read the same columns.

`read_table` is the reference for files, and `Table` of Python's lists for frames.
"""

from __future__ import annotations

import datetime
import gzip
import json
import re
import sqlite3
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.commands.table_input import TableRequest, open_input, read_profile
from hybridbn.commands.terminal import Terminal
from hybridbn.tables import read_rows
from hybridbn.tables.backends import sources
from hybridbn.tables.formats.base import name_file_in_errors

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
feather = pytest.importorskip("pyarrow.feather")
parquet = pytest.importorskip("pyarrow.parquet")

Reading = Any
"""Of each column its name, kind, states with their types or unit, count of missing cells and values; or an error."""


def make_rows(late: str, rows: int = 300) -> str:
    """A column of numbers with another cell at the end, and a column of states."""
    return "a,c\n" + "".join(f"{i % 7}.5,{'xy'[i % 2]}\n" for i in range(rows)) + f"{late},x\n"


def make_column(*cells: str) -> str:
    """A column of these cells, again and again, beside one of states."""
    return "a,c\n" + "".join(f"{cell},{'xy'[i % 2]}\n" for i, cell in enumerate(cells * 12))


TEXTS: dict[str, str | bytes] = {
    "plain.csv": make_rows("3.25"),
    "late text.csv": make_rows("oops"),
    "late text among whole numbers.csv": make_rows("oops").replace(".5", ""),
    "early text.csv": "a,c\noops,x\n" + make_rows("3.5").partition("\n")[2],
    "late thousands.csv": make_rows('"1,000"'),
    "thousands.csv": make_column('"1,000"', '"2,500"', '"12,000"'),
    "late question mark.csv": make_rows("?"),
    "late hexadecimal number.csv": make_rows("0x1f"),
    "hexadecimal numbers.csv": make_column("0x1f", "0x2f", "0x3f"),
    "late inf.csv": make_rows("inf"),
    "late -Infinity.csv": make_rows("-Infinity"),
    "late nan.csv": make_rows("nan"),
    "late NaN.csv": make_rows("NaN"),
    "late NA.csv": make_rows("NA"),
    "late na.csv": make_rows("na"),
    "late n a.csv": make_rows("n/a"),
    "late N A.csv": make_rows("N/A"),
    "late #N A.csv": make_rows("#N/A"),
    "late null.csv": make_rows("null"),
    "late NULL.csv": make_rows("NULL"),
    "late None.csv": make_rows("None"),
    "late hyphen.csv": make_rows("-"),
    "late stop.csv": make_rows("."),
    "late empty text.csv": make_rows('""'),
    "late empty.csv": make_rows(""),
    "late truth value.csv": make_rows("true"),
    "late date.csv": make_rows("2024-01-31"),
    "late comma.csv": make_rows('"1,5"'),
    "late unit.csv": make_rows("5 kg"),
    "late percent.csv": make_rows("5%"),
    "late large exponent.csv": make_rows("1e999"),
    "late fraction of whole numbers.csv": make_rows("0.5").replace(".5,", ","),
    "equal names.csv": "a,a,c\n" + "1.5,2.5,x\n3.5,4.5,y\n" * 9,
    "a name without letters.csv": "a,,c\n" + "1.5,2.5,x\n3.5,4.5,y\n" * 9,
    "names with spaces.csv": " a ,b c,c\n" + "1.5,2.5,x\n3.5,4.5,y\n" * 9,
    "a short row.csv": "a,b,c\n" + "1.5,2.5,x\n" * 9 + "3.5,4.5\n" + "1.5,2.5,y\n" * 9,
    "a long row.csv": "a,b,c\n" + "1.5,2.5,x\n" * 9 + "3.5,4.5,y,z\n" + "1.5,2.5,y\n" * 9,
    "a late short row.csv": make_rows("1.5") + "2.5\n",
    "a blank line.csv": "a,c\n" + "1.5,x\n" * 9 + "\n" + "2.5,y\n" * 9,
    "a blank line at the end.csv": make_rows("1.5") + "\n\n",
    "no end of the last line.csv": make_rows("1.5").removesuffix("\n"),
    "an empty column.csv": "a,b,c\n" + "1.5,,x\n2.5,,y\n" * 9,
    "an empty file.csv": "",
    "only a header.csv": "a,c\n",
    "one column.csv": "a\n" + "1.5\n2.5\n" * 9,
    "one column with a hole.csv": "a\n" + "1.5\n2.5\n" * 9 + '""\n3.5\n',
    "one row.csv": "a,c\n1.5,x\n",
    "byte order mark.csv": b"\xef\xbb\xbf" + make_rows("1.5").encode(),
    "quotes.csv": 'a,c\n"1.5","x, and y"\n2.5,"x ""quoted"""\n' * 1 + '3.5,"two\nlines"\n' * 5,
    "an open quote.csv": "a,c\n" + "1.5,x\n" * 9 + '2.5,"y\n1.5,x\n',
    "quoted numbers.csv": make_column('"1.5"', '"2.5"'),
    "quoted and bare numbers.csv": make_column('"1.5"', "2.5"),
    "spaces.csv": "a,c\n" + " 1.5 , x\n2.5,y\n 3.5,x \n" * 9,
    "spaces alone.csv": make_rows("  "),
    "tabs within.csv": "a,c\n" + "1.5,x\ty\n2.5,z\n" * 9,
    "windows lines.csv": make_rows("1.5").replace("\n", "\r\n"),
    "old lines.csv": make_rows("1.5").replace("\n", "\r"),
    "semicolons.csv": make_rows("1.5").replace(",", ";"),
    "semicolons and commas.csv": make_rows("1.5").replace(",", ";").replace(".", ","),
    "semicolons.tsv": make_rows("1.5").replace(",", ";"),
    "tabs.tsv": make_rows("1.5").replace(",", "\t"),
    "tabs.tab": make_rows("1.5").replace(",", "\t"),
    "tabs.csv": make_rows("1.5").replace(",", "\t"),
    "bars.csv": make_rows("1.5").replace(",", "|"),
    "commas.tsv": make_rows("1.5"),
    "late text.tsv": make_rows("oops").replace(",", "\t"),
    "latin-1.csv": make_column("1.5", "2.5").replace("x", "caf\xe9").encode("latin-1"),
    "late latin-1.csv": make_rows("1.5").encode() + "2.5,caf\xe9\n".encode("latin-1"),
    "utf-16.csv": make_rows("1.5").encode("utf-16"),
    "a zero byte.csv": make_rows("1.5").encode() + b"2.5,x\x00\n",
    "umlauts.csv": make_column("1.5", "2.5").replace("a,c", "größe,c").replace("x", "süß"),
    "packed.csv.gz": gzip.compress(make_rows("1.5").encode()),
    "late text, packed.csv.gz": gzip.compress(make_rows("oops").encode()),
    "dates.csv": make_column("2024-01-31", "2024-02-28", "1999-12-31"),
    "times.csv": make_column("2024-01-31 12:30:00", "2024-02-28 00:00:00", "1999-12-31 23:59:59"),
    "times with T.csv": make_column("2024-01-31T12:30:00", "2024-02-28T00:00:00"),
    "times with zones.csv": make_column("2024-01-31T12:30:00Z", "2024-02-28T00:00:00Z"),
    "hours.csv": make_column("12:30", "00:15", "23:59"),
    "seconds.csv": make_column("12:30:15", "00:15:00", "23:59:59"),
    "german dates.csv": make_column("31.01.2024", "28.02.2024"),
    "american dates.csv": make_column("01/31/2024", "02/28/2024"),
    "a date with a hole.csv": make_column("2024-01-31", "", "1999-12-31"),
    "a wrong date.csv": make_column("2024-01-31", "2024-02-28") + "2024-02-31,x\n",
    "a late text among dates.csv": make_column("2024-01-31", "2024-02-28") + "oops,x\n",
    "years.csv": make_column("1999", "2004", "2024"),
    "money.csv": make_column("$1.50", "$2.25", "$9.99"),
    "percents.csv": make_column("1.5%", "2%", "40%"),
    "units.csv": make_column("1.5 kg", "2 kg", "40 kg"),
    "truth values.csv": make_column("true", "false"),
    "Truth Values.csv": make_column("True", "False"),
    "TRUTH VALUES.csv": make_column("TRUE", "FALSE"),
    "truth values with a hole.csv": make_column("true", "false", ""),
    "truth values and a text.csv": make_column("true", "false") + "maybe,x\n",
    "yes and no.csv": make_column("yes", "no"),
    "zeros and ones.csv": make_column("0", "1"),
    "whole numbers.csv": make_column("1", "2", "3"),
    "whole numbers with a hole.csv": make_column("1", "", "3"),
    "whole numbers with points.csv": make_column("1.0", "2.0", "3.0"),
    "numbers and texts.csv": make_column("1", "low", "2"),
    "texts and numbers.csv": make_column("low", "1", "2"),
    "leading zeros.csv": make_column("007", "012", "100"),
    "signs.csv": make_column("+1.5", "-2.5"),
    "minus signs.csv": make_column("\u22121.5", "\u22122.5"),
    "exponents.csv": make_column("1e3", "2.5E-3"),
    "exponents of Fortran.csv": make_column("1d3", "2.5d-3"),
    "underscores.csv": make_column("1_000", "2_000"),
    "points alone.csv": make_column(".5", "1."),
    "huge whole numbers.csv": make_column("9007199254740993", "9007199254740992"),
    "larger than 64 bits.csv": make_column("18446744073709551617", "3"),
    "tiny numbers.csv": make_column("1e-320", "3e-310"),
    "identifiers.csv": "a,c\n" + "".join(f"row {i},{'xy'[i % 2]}\n" for i in range(60)),
    "marks.csv": make_column("1.5", "NA", "", "NaN", "2.5", "null"),
    "marks among states.csv": make_column("low", "NA", "", "nan", "None", "?"),
    "marks alone.csv": make_column("NA", "NaN"),
    "constant.csv": make_column("1.5"),
    "comments.csv": "# a comment\n" + make_rows("1.5"),
    "late comment.csv": make_rows("1.5") + "# the end\n",
    "records.jsonl": "".join(json.dumps({"a": i + 0.5, "c": "xy"[i % 2]}) + "\n" for i in range(20)),
    "late text.jsonl": "".join(json.dumps({"a": i + 0.5 if i < 300 else "oops", "c": "x"}) + "\n" for i in range(301)),
    "absent keys.jsonl": '{"a": 1.5, "c": "x"}\n{"c": "y"}\n{"a": 2.5, "c": null}\n' * 5,
    "a late key.jsonl": '{"a": 1.5, "c": "x"}\n' * 9 + '{"a": 2.5, "c": "y", "z": 3}\n',
    "whole numbers.jsonl": '{"a": 1, "c": "x"}\n{"a": 2, "c": "y"}\n' * 5,
    "whole numbers and others.jsonl": '{"a": 1, "c": "x"}\n{"a": 2.5, "c": "y"}\n' * 5,
    "truth values.jsonl": '{"a": true, "c": "x"}\n{"a": false, "c": null}\n' * 5,
    "numbers and texts.jsonl": '{"a": 1, "c": "x"}\n{"a": "low", "c": "y"}\n' * 5,
    "dates.jsonl": '{"a": "2024-01-31", "c": "x"}\n{"a": "2024-02-28", "c": "y"}\n' * 5,
    "marks.jsonl": '{"a": 1.5, "c": "NA"}\n{"a": 2.5, "c": ""}\n{"a": null, "c": "x"}\n' * 5,
    "nan.jsonl": '{"a": 1.5, "c": "x"}\n{"a": NaN, "c": "y"}\n' * 5,
    "huge.jsonl": '{"a": 18446744073709551617, "c": "x"}\n{"a": 3, "c": "y"}\n' * 5,
    "lists.jsonl": '{"a": [1, 2], "c": "x"}\n' * 5,
    "equal keys.jsonl": '{"a": 1.5, "a": 2.5, "c": "x"}\n' * 5,
    "damaged.jsonl": '{"a": 1.5, "c": "x"}\n' * 5 + '{"a": 1.5\n',
    "a blank line.jsonl": '{"a": 1.5, "c": "x"}\n' * 5 + "\n" + '{"a": 2.5, "c": "y"}\n' * 5,
    "an empty file.jsonl": "",
    "plain.arff": "@relation t\n@attribute a numeric\n@attribute c {x,y,z}\n@data\n" + "1.5,x\n?,y\n2.5,?\n" * 9,
    "late text.arff": "@relation t\n@attribute a numeric\n@attribute c {x,y}\n@data\n" + "1.5,x\n" * 300 + "oops,y\n",
    "a state too many.arff": "@relation t\n@attribute a numeric\n@attribute c {x,y}\n@data\n" + "1.5,x\n" * 9 + "2,z\n",
    "dates.arff": "@relation t\n@attribute a date yyyy-MM-dd\n@attribute c {x,y}\n@data\n" + "2024-01-31,x\n" * 9,
    "texts.arff": "@relation t\n@attribute a string\n@attribute c {x,y}\n@data\n" + "'a b',x\n'c',y\n" * 9,
    "integers.arff": "@relation t\n@attribute a integer\n@attribute c {1,2}\n@data\n" + "1,1\n2,2\n" * 9,
    "a short row.arff": "@relation t\n@attribute a numeric\n@attribute c {x,y}\n@data\n" + "1.5,x\n" * 9 + "2.5\n",
    "no rows.arff": "@relation t\n@attribute a numeric\n@attribute c {x,y}\n@data\n",
}
"""Files by their names."""

LIBRARIES = ("arrow", "pandas", "polars")

DAYS = [datetime.date(2024, 1, 1 + i % 28) for i in range(30)]
NAMES = ["x" if i % 2 else "y" for i in range(30)]
COLUMNS: dict[str, list[Any]] = {
    "floats": [i / 2 for i in range(30)],
    "floats with holes": [None if i % 5 == 0 else i / 2 for i in range(30)],
    "floats with nan": [float("nan") if i % 5 == 0 else i / 2 for i in range(30)],
    "floats with inf": [float("inf") if i == 20 else i / 2 for i in range(30)],
    "integers": [i % 7 for i in range(30)],
    "integers with holes": [None if i % 5 == 0 else i % 7 for i in range(30)],
    "huge integers": [2**53 + i for i in range(30)],
    "truth values": [i % 2 == 0 for i in range(30)],
    "truth values with holes": [None if i % 5 == 0 else i % 2 == 0 for i in range(30)],
    "texts": [f"s{i % 4}" for i in range(30)],
    "texts with holes": [None if i % 5 == 0 else f"s{i % 4}" for i in range(30)],
    "texts of marks": [["NA", "", "nan", "x"][i % 4] for i in range(30)],
    "texts of numbers": [f"{i % 7}" for i in range(30)],
    "texts with leading zeros": [f"00{i % 7}" for i in range(30)],
    "texts of dates": [str(day) for day in DAYS],
    "texts of truth values": [["true", "false"][i % 2] for i in range(30)],
    "dates": DAYS,
    "dates with holes": [None if i % 5 == 0 else day for i, day in enumerate(DAYS)],
    "times": [datetime.datetime(2024, 1, 1 + i % 28, i % 24, 30) for i in range(30)],
    "times with zones": [datetime.datetime(2024, 1, 1 + i, 12, tzinfo=datetime.UTC) for i in range(30)],
    "hours": [datetime.time(i % 24, 30) for i in range(30)],
    "durations": [datetime.timedelta(minutes=i) for i in range(30)],
    "decimals": [Decimal(i) / 4 for i in range(30)],
    "bytes": [b"ab" if i % 2 else b"c" for i in range(30)],
    "nothing": [None] * 30,
    "identifiers": [f"row {i}" for i in range(30)],
    "constant": ["x"] * 30,
}
"""Columns of frames and of files that keep types, each beside a column of states."""


def describe(table: Any) -> Reading:
    """Describe the columns of a table or a scan."""
    rows = table.sample() if isinstance(table, hb.Scan) else table
    return describe_columns(table.names, read_rows(table)[1], table.variable, table.missing, rows.column)


def describe_columns(
    names: Iterable[str],
    reasons: Mapping[str, str | None],
    find: Callable[[str], hb.Discrete | hb.Continuous],
    missing: Any,
    read_values: Callable[[str], Any],
) -> Reading:
    described: list[tuple[Any, ...]] = []
    for name in names:
        if reasons.get(name) is not None:
            described.append((name, reasons[name], missing[name]))
            continue
        try:
            variable = find(name)
        except hb.HybridBNError as error:
            described.append((name, type(error).__name__, str(error), missing[name]))
            continue
        if isinstance(variable, hb.Discrete):
            kind: Any = [(state, type(state).__name__) for state in variable.states]
        else:
            kind = repr(variable.unit)
        values = [None if value != value else value for value in read_values(name).tolist()]
        described.append((name, type(variable).__name__, kind, missing[name], values))
    return described


def read_by_command(path: Any, chunk: int | None = None) -> Reading:
    """Describe the columns as the command reads them, `chunk` rows at a time."""
    request, terminal = TableRequest(str(path), chunk=chunk), Terminal(quiet=True)
    with open_input(request) as (location, source):
        profile = read_profile(source, location.shown, request, terminal)
        sample = profile.sample
    for text in terminal.warnings:
        warnings.warn(text, UserWarning, stacklevel=1)
    reasons = {name: column.unusable for name, column in profile.columns.items()}
    missing = {name: column.missing for name, column in profile.columns.items()}

    return describe_columns(profile.columns, reasons, sample.variable, missing, sample.column)


@contextmanager
def read_in_small_batches() -> Iterator[None]:
    """Let scans read a few rows or bytes at a time."""
    make_options = csv.ReadOptions
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources.FileFragment.batches, "__defaults__", (7,))
        patch.setattr(csv, "ReadOptions", lambda **options: make_options(**{**options, "block_size": 256}))
        yield


def scan_in_small_batches(path: Any) -> Reading:
    with read_in_small_batches():
        return describe(hb.scan(path))


FILE_DOORS: dict[str, Callable[[Any], Reading]] = {
    "scan": lambda path: describe(hb.scan(path)),
    "scan in small batches": scan_in_small_batches,
    "command": read_by_command,
    "command in small blocks": partial(read_by_command, chunk=7),
}


def read_through(door: Callable[[Any], Reading], data: Any) -> Reading:
    """Read a table, and return its columns and the warnings, or the error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            reading = door(data)
        except Exception as error:
            return type(error).__name__, leave_out_the_door(str(error), str(data))
    return reading, sorted({str(one.message) for one in caught if issubclass(one.category, UserWarning)})


def leave_out_the_door(message: str, shown: str) -> str:
    """Return a message without the path, and with the options that Python has instead of those of the command.

    Examples
    --------
    >>> leave_out_the_door("t.csv: if it marks a missing cell, name it with --missing; say --discrete a", "t.csv")
    "FILE: if it marks a missing cell, add it to missing=[...]; read the column with discrete=['a']"
    """
    message = message.replace(shown, "FILE").replace("name it with --missing", "add it to missing=[...]")
    message = re.sub(r"say --(discrete|continuous) (\w+)", r"read the column with \1=['\2']", message)
    return re.sub(r"--(delimiter|decimal|encoding) ", r"\1=", message)


def write_text(folder: Path, name: str) -> Path:
    text = TEXTS[name]
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def make_frame(name: str) -> dict[str, list[Any]]:
    """Return a column of `COLUMNS` beside one of states."""
    return {"a": COLUMNS[name], "c": NAMES}


def write_typed(folder: Path, name: str, suffix: str) -> Path | str:
    """Write a column in a format that keeps types, by the format's own library."""
    path = folder / f"t.{suffix}"
    if suffix == "db":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (a, c TEXT)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", zip(*make_frame(name).values(), strict=True))
            connection.commit()
        return f"sqlite:///{path}?table=t"
    table = pa.table(make_frame(name))
    if suffix == "parquet":
        parquet.write_table(table, path, row_group_size=11)
    else:
        feather.write_feather(table, path)
    return path


def convert_to(library: str, data: dict[str, list[Any]]) -> Any:
    """Return columns as a frame of a library."""
    if library == "arrow":
        return pa.table(data)
    frames = pytest.importorskip(library)
    return frames.DataFrame(data)


def read_frame(library: str, data: dict[str, list[Any]]) -> Reading:
    return describe(hb.Table(convert_to(library, data)))


def scan_frame(library: str, data: dict[str, list[Any]]) -> Reading:
    return describe(hb.scan(convert_to(library, data)))


FRAME_DOORS: dict[str, Callable[[Any], Reading]] = {
    "lists scanned": lambda data: describe(hb.scan(data)),
    **{library: partial(read_frame, library) for library in LIBRARIES},
    **{f"{library} scanned": partial(scan_frame, library) for library in LIBRARIES},
}

TYPED = [
    f"{name}.{suffix}"
    for name in COLUMNS
    for suffix in ("parquet", "feather", "db")
    # SQLite's module takes no values of these types
    if suffix != "db" or name not in ("hours", "durations", "decimals")
]
# polars counts times by nanoseconds, and frames name the type of bytes in their own ways
FRAMES = [name for name in COLUMNS if name not in ("hours", "bytes")]


def pair(names: Iterable[str], doors: Iterable[str]) -> list[Any]:
    """Return all pairs of an input and a door."""
    return [
        pytest.param(name, door, id=f"{name}, {door}", marks=pytest.mark.slow if is_slow(name, door) else ())
        for name in names
        for door in doors
    ]


def is_slow(name: str, door: str) -> bool:
    # Feather files hold what Parquet files hold
    return name.endswith(".feather") or (name in TYPED and "small" in door)


def read_file(path: Any) -> Reading:
    return describe(hb.read_table(path))


def read_file_to_learn(path: Any) -> Reading:
    """Describe a file as a command reads it, which refuses one without rows."""
    with name_file_in_errors(str(path)):
        return describe(hb.read_table(path).require_rows())


@pytest.fixture(scope="module")
def references() -> dict[str, Reading]:
    """What the reference reads of each input, kept for the other doors."""
    return {}


@pytest.mark.parametrize(("name", "door"), pair(TEXTS, FILE_DOORS))
def test_text_files_are_read_as_read_table_reads_them(
    name: str, door: str, tmp_path: Path, references: dict[str, Reading]
) -> None:
    path = write_text(tmp_path, name)
    is_command = door.startswith("command")
    key = f"{name}, {is_command}"
    if key not in references:
        references[key] = read_through(read_file_to_learn if is_command else read_file, path)
    assert read_through(FILE_DOORS[door], path) == references[key]


@pytest.mark.parametrize(("name", "door"), pair(TYPED, FILE_DOORS))
def test_files_with_types_are_read_as_read_table_reads_them(
    name: str, door: str, tmp_path: Path, references: dict[str, Reading]
) -> None:
    path = write_typed(tmp_path, *name.rsplit(".", 1))
    if name not in references:
        references[name] = read_through(read_file, path)
    assert read_through(FILE_DOORS[door], path) == references[name]


# before its third version pandas counted times by nanoseconds, too
COUNTED = {"times", "times with zones", "durations"} if int(pandas.__version__.split(".")[0]) < 3 else set()


@pytest.mark.parametrize(
    ("name", "door"),
    [
        *pair(FRAMES, [door for door in FRAME_DOORS if "pandas" not in door]),
        *pair([name for name in FRAMES if name not in COUNTED], [door for door in FRAME_DOORS if "pandas" in door]),
    ],
)
def test_frames_are_read_as_lists_are(name: str, door: str, references: dict[str, Reading]) -> None:
    data = make_frame(name)
    if name not in references:
        references[name] = read_through(lambda given: describe(hb.Table(given)), data)
    assert read_through(FRAME_DOORS[door], data) == references[name]


def refuse_to_describe(table: hb.Table | hb.Scan) -> list[str]:
    """Return what is said of the variables of all columns."""
    said = []
    for name in table.names:
        try:
            said.append(repr(table.variable(name)))
        except hb.TableError as error:
            said.append(str(error))
    return said


UNUSABLE = ("an empty column.csv", "marks alone.csv", "only a header.csv", "no rows.arff", "lists.jsonl")


@pytest.mark.parametrize("name", [*UNUSABLE, "bytes.parquet", "bytes.db", "nothing.parquet", "nothing.db"])
def test_columns_that_cannot_be_used_are_kept_and_refused_when_they_are_asked_for(name: str, tmp_path: Path) -> None:
    path = write_text(tmp_path, name) if name in TEXTS else write_typed(tmp_path, *name.rsplit(".", 1))
    table, scan = hb.read_table(path), hb.scan(path)
    assert table.names == scan.names
    assert len(table) == len(scan)
    assert refuse_to_describe(table) == refuse_to_describe(scan)
    for rows in (table, scan) if len(table) else ():
        # learners say once what they leave out
        with pytest.warns(UserWarning, match=f"columns left alone: '{'b' if 'empty' in name else 'a'}'") as caught:
            hb.structures.chow_liu(rows)
        assert len([one for one in caught if "left alone" in str(one.message)]) == 1


@pytest.mark.parametrize("options", [(), ("--backend", "local")])
@pytest.mark.parametrize("name", ["only a header.csv", "no rows.arff"])
def test_tables_without_rows_are_read_and_refused_by_learners(
    name: str, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_text(tmp_path, name)
    message = "the table has no rows; at least 1 are needed"
    for rows in (hb.read_table(path), hb.scan(path)):
        assert len(rows) == len(rows.sample()) == 0
        assert rows.missing == {"a": 0, "c": 0}
        with pytest.raises(hb.TableError, match=message):
            hb.structures.naive_bayes(rows, "c")
    words = ["fit", str(path), str(tmp_path / "m.hbn"), "--structure", "naive_bayes", "--target", "c"]
    assert run([*words, *options]) == 2
    assert message in capsys.readouterr().err


WRITTEN: dict[str, str] = {
    "points": "4.0 1.5 2.50 3.0",
    "whole numbers": "4 1 2 3",
    "tenths": "0.1 2.0 7.3 5.5",
    "leading zeros": "007 012 100 001",
    "signs": "+1.5 -2.5 +3 -0.0",
    "exponents": "1e3 2.5E-3 1E+2 4e0",
    "points alone": ".5 1. 2. .25",
    "many digits": "0.1000000000000000055 0.30000000000000004 0.3 2.718281828459045235",
    "huge whole numbers": "9007199254740993 9007199254740992 9007199254740995 3",
    "quoted numbers": '"1.5" 2.5 "3.5" 4.5',
    "truth values": "TRUE FALSE TRUE FALSE",
    "small truth values": "true false true false",
    "dates": "2024-01-31 2024-02-28 1999-12-31 2000-01-01",
    "german dates": "31.01.2024 28.02.2024 31.12.1999 01.01.2000",
    "times": "2024-01-31T12:30:00 2024-02-28T00:00:00 1999-12-31T23:59:59 2000-01-01T01:01:01",
    "hours": "12:30 00:15 23:59 08:00",
    "states": "low high mid low",
    "quoted states": '"low" high "mid" low',
    "doubled quotes": '"lo""w" high "mi,d" low',
    "states of numbers with signs": "5% 7% 5% 9%",
}
"""Cells as a file spells them."""


def make_holes(cells: str) -> bytes:
    """A column of these cells beside one of states, both with holes."""
    lines = ["a,c"]
    for i in range(48):
        cell = "" if i % 12 == 7 else cells.split(" ")[i % 4]
        lines.append(f"{cell},{'' if i % 12 == 4 else 'xy'[i // 2 % 2]}")
    return "\n".join(lines).encode() + b"\n"


def keep_observed(old: bytes, new: bytes) -> bytes:
    """Return a written line without the cell that had no value."""
    a, comma, c = new.rpartition(b",")
    return comma + c if old.startswith(b",") else a + comma if old.endswith(b",") else new


def impute_by_scan(path: Path, output: Path) -> None:
    hb.impute(hb.scan(path), random_state=0).write(output)


def impute_by_command(path: Path, output: Path) -> None:
    assert run(["impute", str(path), str(output), "--seed", "0", "--quiet"]) == 0


@pytest.mark.parametrize("impute", [impute_by_scan, impute_by_command])
@pytest.mark.parametrize("end", [b"\n", pytest.param(b"\r\n", marks=pytest.mark.slow)], ids=["Unix", "Windows"])
@pytest.mark.parametrize("name", WRITTEN)
def test_observed_cells_are_written_as_they_were(
    name: str, end: bytes, impute: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    given = make_holes(WRITTEN[name]).replace(b"\n", end)
    (tmp_path / "t.csv").write_bytes(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        impute(tmp_path / "t.csv", tmp_path / "out.csv")
    before, after = (text.split(end) for text in (given, (tmp_path / "out.csv").read_bytes()))
    assert [keep_observed(old, new) for old, new in zip(before, after, strict=True)] == before


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("plain.csv", ()),
        ("plain.csv", ("--backend", "local")),
        ("a short row.csv", ("--backend", "local")),
        ("late text.csv", ()),
        ("late text.csv", ("--backend", "local")),
        ("equal names.csv", ()),
        ("equal names.csv", ("--backend", "local")),
        ("late comma.csv", ()),
        ("late comma.csv", ("--backend", "local")),
    ],
)
def test_the_command_refuses_what_read_table_refuses(name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    path = write_text(tmp_path, name)
    words = ["fit", str(path), str(tmp_path / "m.hbn"), "--structure", "naive_bayes", "--target", "c", "--quiet"]
    refused = read_through(read_file, path)[0] in ("TableError", "FormatError")
    assert run([*words, "--potentials", "gaussian", *options]) == (2 if refused else 0)
