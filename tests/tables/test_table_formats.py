"""What holds for every format of tables, whichever are registered, and what a new one has to do."""

from __future__ import annotations

import gzip
import io
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from narrowing import as_discrete

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.errors import FormatError, TableError
from hybridbn.tables.cells import Cells
from hybridbn.tables.formats.base import FileFormat, TableSource, cell_values, fields_of, suffixes
from hybridbn.tables.formats.database_base import Database, database_of
from hybridbn.tables.formats.typed_columns import WantedColumns, type_objects

pytest.importorskip("pyarrow")

TABLE = hb.Table(
    {
        "x": [1.5, None, -2.25, 0.0, 1e-300, None, 7.0],
        "k": np.array([3, 1, 2**40, 0, -5, 2, 2]),
        "größe, c": ["a", 'q "r"', None, "ü,\n;", "a", "?", "a b"],
        "b": [True, None, False, True, True, False, None],
    }
)
STATES = ("größe, c", "b")
KINDS: dict[str, Any] = dict.fromkeys(STATES, "text")
WRITABLE = [suffix for suffix, form in suffixes().items() if not form.unwritable]


def values_of(cells: Cells) -> list[Any]:
    """Return cells as values: states as text, None where one is missing."""
    if cells.states is None:
        return [None if np.isnan(value) else value for value in cells.array.tolist()]
    return [None if code < 0 else str(cells.states[code]) for code in cells.array.tolist()]


def written(suffix: str, folder: Path, table: hb.Table = TABLE) -> Path:
    path = folder / f"t{suffix}"
    hb.write_table(table, path, overwrite=True)
    return path


def source_of(path: Path, suffix: str) -> TableSource:
    return suffixes()[suffix].source(path, str(path), suffix)


def kinds_for(source: TableSource) -> dict[str, Any]:
    return KINDS if source.spelled else {}


@pytest.mark.parametrize("suffix", WRITABLE)
class TestEveryFormat:
    def test_what_is_written_is_read(self, suffix: str, tmp_path: Path) -> None:
        assert hb.read_table(written(suffix, tmp_path)).equals(TABLE)

    @pytest.mark.parametrize("rows", [1, 3, 100])
    def test_blocks_make_the_table(self, suffix: str, rows: int, tmp_path: Path) -> None:
        source = source_of(written(suffix, tmp_path), suffix)
        joined: dict[str, list[Any]] = {name: [] for name in TABLE.names}
        starts = []
        for block in source.blocks(rows):
            starts.append((block.start, block.rows))
            for name, cells in block.cells(TABLE.names, kinds_for(source)).items():
                joined[name] += values_of(cells)
        whole = hb.read_table(tmp_path / f"t{suffix}")
        assert joined == {name: values_of(whole.cells(name)) for name in TABLE.names}
        assert starts == [(start, min(rows, 7 - start)) for start in range(0, 7, rows)]
        assert source.names == list(TABLE.names)

    def test_reading_begins_at_any_block(self, suffix: str, tmp_path: Path) -> None:
        path = written(suffix, tmp_path)

        def read(source: TableSource, first: int) -> list[tuple[int, list[Any]]]:
            found = [(b.start, [*map(values_of, b.cells(["x", "k"], {}).values())]) for b in source.blocks(2, first)]
            return found

        source = source_of(path, suffix)
        before = read(source, 0)
        begun = source_of(path, suffix)
        next(iter(begun.blocks(2)))
        for first in (1, 0, 3, 2, 4):
            assert read(source, first) == before[first:]
            assert read(begun, first) == before[first:]
            assert read(source_of(path, suffix), first) == before[first:]

    def test_values_are_what_is_written_again(self, suffix: str, tmp_path: Path) -> None:
        source = source_of(written(suffix, tmp_path), suffix)
        (block,) = source.blocks(100)
        for name, values in block.values(TABLE.names).items():
            texts = ["?" if value is None else str(value) for value in cell_values(TABLE, name)]
            assert [v is None for v in values] == [v is None for v in cell_values(TABLE, name)]
            if name in STATES or source.textual:
                assert ["?" if value is None else str(value) for value in values] == texts
            else:
                assert values == cell_values(TABLE, name)

    def test_parts_make_the_file(self, suffix: str, tmp_path: Path) -> None:
        form, path = suffixes()[suffix], tmp_path / f"parts{suffix}"
        writer = form.writer(fields_of(TABLE, "a file"), suffix)
        parts = [TABLE[start : start + 2] for start in range(0, 7, 2)]
        with open(path, "wb") as file:
            writer.join((writer.make_part({n: cell_values(part, n) for n in part.names}) for part in parts), file)
        assert hb.read_table(path).equals(TABLE)
        if form.text:
            assert path.read_bytes() == written(suffix, tmp_path).read_bytes()

    def test_a_counter_comes_first(self, suffix: str, tmp_path: Path) -> None:
        form, path = suffixes()[suffix], tmp_path / f"draws{suffix}"
        writer = form.writer(fields_of(TABLE, "a file"), suffix, counter="m")
        columns = {name: cell_values(TABLE, name) for name in TABLE.names}
        with open(path, "wb") as file:
            writer.join([writer.make_part(dict(columns), draw) for draw in (0, 1)], file)
        table = hb.read_table(path)
        assert table.names == ("m", *TABLE.names)
        assert table["m"].tolist() == [1.0] * 7 + [2.0] * 7
        assert table[7:].drop("m").equals(TABLE)

    def test_a_table_without_rows(self, suffix: str, tmp_path: Path) -> None:
        empty = TABLE.select(["x", "k"])[:0]
        path = written(suffix, tmp_path, empty)
        try:
            table = hb.read_table(path)
        except TableError as error:
            assert "empty" in str(error)  # noqa: PT017
        else:
            assert table.names == ("x", "k")
            assert len(table) == 0

    def test_packed_or_refused(self, suffix: str, tmp_path: Path) -> None:
        path = tmp_path / f"t{suffix}.gz"
        if not suffixes()[suffix].packable:
            with pytest.raises(FormatError, match="known format"):
                hb.write_table(TABLE, path)
            return
        hb.write_table(TABLE, path)
        assert gzip.decompress(path.read_bytes()) == written(suffix, tmp_path).read_bytes()
        assert hb.read_table(path).equals(TABLE)
        assert sum(block.rows for block in suffixes()[suffix].source(path, str(path), suffix).blocks(2)) == 7

    def test_what_it_cannot_hold_is_refused_by_name(self, suffix: str, tmp_path: Path) -> None:
        cells = Cells(np.array([0, 1]), (("a", 1), ("b", 2)))
        odd = hb.Table.from_cells({"c": cells})
        with pytest.raises(FormatError, match="column 'c'"):
            hb.write_table(odd, tmp_path / f"odd{suffix}")
        assert not list(tmp_path.iterdir())

    def test_a_change_is_seen(self, suffix: str, tmp_path: Path) -> None:
        path = written(suffix, tmp_path)
        source = source_of(path, suffix)
        digest = source.digest()
        assert source.is_unchanged()
        written(suffix, tmp_path, TABLE[:5])
        assert not source.is_unchanged()
        assert source_of(path, suffix).digest() != digest

    def test_impute_and_convert_know_it(self, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
        rng = np.random.default_rng(0)
        x = rng.normal(size=60).round(2)
        table = hb.Table(
            {"x": [None if i % 7 == 0 else v for i, v in enumerate(x.tolist())], "c": np.where(x > 0, "a", "b")}
        )
        hb.write_table(table, f"t{suffix}")
        assert run(["impute", f"t{suffix}", "a.csv", "--quiet"]) == 0
        assert run(["convert", f"t{suffix}", "again.jsonl"]) == 0
        assert run(["impute", f"t{suffix}", f"o{suffix}", "--quiet"]) == 0
        assert run(["convert", f"o{suffix}", "b.csv"]) == 0
        first, second = hb.read_table("a.csv"), hb.read_table("b.csv")
        assert first.equals(second)
        assert not np.isnan(first["x"]).any()
        kept = ~np.isnan(table["x"])
        assert (first["x"][kept] == table["x"][kept]).all()


def test_formats_that_are_only_read_say_why(tmp_path: Path) -> None:
    for suffix, form in suffixes().items():
        if form.unwritable:
            with pytest.raises(FormatError, match=form.unwritable[:20]):
                hb.write_table(TABLE, tmp_path / f"t{suffix}")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "sqlite:///{}/a.db?table=t"])
def test_no_encoding_is_the_usual_one(name: str, tmp_path: Path) -> None:
    path, table = f"{tmp_path}/{name}" if name.startswith("a") else name.format(tmp_path), hb.Table({"x": [1.5]})
    hb.write_table(table, path, encoding=None)
    assert hb.read_table(path, encoding=None).equals(table)


def test_encodings_have_one_mark_of_byte_order(tmp_path: Path) -> None:
    for suffix in (".csv", ".arff"):
        path = tmp_path / f"t{suffix}"
        table = hb.Table({"c": ["ä", "b"]})
        hb.write_table(table, path, encoding="utf-16")
        assert path.read_bytes().count("\ufeff".encode("utf-16-le")) == 1
        assert hb.read_table(path, encoding="utf-16").equals(table)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
    return tmp_path


TEXT = "x;c\n1.5;TRUE\n;FALSE\n2.5;TRUE\n3.5;\n4;TRUE\n"


def test_packed_text_in_another_encoding_is_completed(folder: Path) -> None:
    (folder / "t.csv.gz").write_bytes(gzip.compress(TEXT.replace("TRUE", "größer").encode("utf-16")))
    options = ["--delimiter", ";", "--encoding", "utf-16", "--quiet"]
    assert run(["impute", "t.csv.gz", "o.csv.gz", *options]) == 0
    completed = hb.read_table("o.csv.gz", delimiter=";", encoding="utf-16")
    assert as_discrete(completed.variable("c")).states == ("FALSE", "größer")
    assert not any(completed.missing.values())


def test_states_are_declared_as_they_are_written(folder: Path) -> None:
    (folder / "t.csv").write_text(TEXT)
    assert run(["impute", "t.csv", "o.arff", "--delimiter", ";", "--quiet"]) == 0
    assert as_discrete(hb.read_table("o.arff").variable("c")).states == (False, True)


def test_options_that_a_format_does_not_have(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(".parquet", folder)
    assert run(["convert", "t.parquet", "o.csv", "--delimiter", ";"]) == 2
    assert "--delimiter says nothing of Parquet" in capsys.readouterr().err


# -- a format of one's own ---------------------------------------------------------------------------------------------


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> type[FileFormat]:
    """Define a format as a user would: a class that reads and writes whole tables."""
    registry = FileFormat.registry.load()
    monkeypatch.setattr(FileFormat, "registry", copy(registry))

    class Archive(FileFormat):
        """NumPy's archives, with NaN and "" where a cell is missing."""

        title = "NumPy's archives"
        suffixes = (".npz",)

        def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str) -> hb.Table:
            with np.load(file, allow_pickle=False) as arrays:
                columns = {name: arrays[name].tolist() for name in wanted.names(arrays.files)}
            return type_objects(
                {n: [None if v in ("", None) or v != v else v for v in c] for n, c in columns.items()}, wanted
            )

        def write(self, table: hb.Table, file: IO[bytes], suffix: str, **options: Any) -> None:
            kinds = {field.name: field.states is None for field in fields_of(table, self.title, mixed=False)}
            empty = {True: np.nan, False: ""}
            columns = {n: [empty[kinds[n]] if v is None else v for v in cell_values(table, n)] for n in table.names}
            np.savez(file, **{name: np.array(values) for name, values in columns.items()})  # type: ignore[arg-type]

    return Archive


def test_a_format_is_one_class(
    archives: type[FileFormat], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYBRIDBN_TRACEBACK", "1")
    rng = np.random.default_rng(1)
    x = rng.normal(size=80).round(3)
    c = np.where(x > 0, "high", "low").astype(object)
    c[::9] = None
    table = hb.Table({"x": [None if i % 5 == 0 else v for i, v in enumerate(x.tolist())], "c": c})
    hb.write_table(table, "t.npz")
    assert hb.read_table("t.npz").equals(table)
    with pytest.raises(FormatError, match="exists already"):
        hb.write_table(table, "t.npz")
    assert run(["convert", "t.npz", "t.csv"]) == run(["convert", "t.csv", "again.npz"]) == 0
    assert hb.read_table("again.npz").equals(table)
    chunks = ["--chunk", "17", "--quiet"]
    assert run(["impute", "t.csv", "o.csv", *chunks]) == run(["impute", "t.npz", "from.csv", *chunks]) == 0
    assert run(["impute", "t.csv", "to.npz", *chunks]) == run(["impute", "t.npz", "o.npz", *chunks]) == 0
    completed = hb.read_table("o.csv")
    assert not any(completed.missing.values())
    for name in ("from.csv", "to.npz", "o.npz"):
        assert hb.read_table(name).equals(completed)
    assert run(["impute", "t.npz", "draws.npz", "--draws", "2", "--quiet"]) == 0
    assert hb.read_table("draws.npz").names == ("draw", "x", "c")
    assert run(["impute", "t.npz", "named.out", "--to", "npz", "--quiet"]) == 0
    assert run(["impute", "t.npz.gz", "o.csv"]) == 2
    assert "leave .gz out" in capsys.readouterr().err


def test_a_format_that_is_only_read(archives: type[FileFormat], tmp_path: Path) -> None:
    class Constant(FileFormat):
        title = "constants"
        suffixes = (".one",)

        def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str) -> hb.Table:
            return type_objects({name: [1.0] for name in wanted.names(["x"])}, wanted)

    (tmp_path / "t.one").write_bytes(b"")
    assert hb.read_table(tmp_path / "t.one")["x"].tolist() == [1.0]
    with pytest.raises(FormatError, match="read, and not written"):
        hb.write_table(TABLE, tmp_path / "u.one")
    assert Constant.position == 100


def test_addresses_find_their_databases() -> None:
    addresses = ("sqlite:///", "mysql://", "mysql+pymysql://", "postgresql://", "postgresql+psycopg://")
    kinds = {scheme: database_of(f"{scheme}h/b?table=t") for scheme in addresses}
    assert len({type(kind) for kind in kinds.values()}) == 2
    assert all(isinstance(kind, Database) for kind in kinds.values())
    assert [scheme for scheme in addresses if type(kinds[scheme]) is not type(kinds["mysql://"])] == ["sqlite:///"]


def test_cells_of_a_table_in_memory_are_those_of_their_rows(archives: type[FileFormat], tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    hb.write_table(TABLE.select(["k", "x"]), path)
    source = archives().source(path, "t.npz", ".npz")
    whole = hb.read_table(path, discrete=["k"]).cells("k")
    for block in source.blocks(3):
        part = block.cells(["k"], {"k": "discrete"})["k"]
        expected = replace(whole, array=whole.array[block.start : block.start + block.rows])
        assert values_of(part) == values_of(expected)


def test_bytes_are_enough_to_read(tmp_path: Path) -> None:
    for suffix in (".csv", ".jsonl", ".arff"):
        data = written(suffix, tmp_path).read_bytes()
        read = suffixes()[suffix].read(io.BytesIO(data), WantedColumns(), suffix)
        assert read.names == TABLE.names
