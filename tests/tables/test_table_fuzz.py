"""Damaged tables of every format: bytes of good files change at random, and only errors of the library come out."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import io
import multiprocessing
import os
import random
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.errors import HybridBNError

READINGS, COMMANDS, BATCH = 5000, 200, 250
MEMORY = 6 << 30
"""Bytes of address space; a damaged length may ask for any number."""

PIECES = (b"\0", b"\xff", b'"', b"'", b",", b"\t", b"\n", b"\r", b"{", b"}", b"?", b"%", b"-", b"@data", b"NaN")
NUMBERS = (b"1e999", b"-9223372036854775809", b"9" * 5000, b"\x80\0\0\0", b"\xff\xff\xff\x7f")
DEEP, SURROGATE = b"[" * 2000, b"\xed\xa0\x80"
DBC = """data-base "clouds" { number-of-cases = 4;
node x(continuous) { kind-of-node = chance; type-of-variable = continuous; min = 0; max = 9; }
node c(finite-states) { states = ("a" "b"); }
relation { memory = true;
cases = ( [1.5, "a"] [?, "b"] [2.5, ?] [3.25, 0] ); } }
"""


def make_table(rows: int = 40) -> pa.Table:
    rng = np.random.default_rng(5)
    holes = [rng.random(rows) < 0.2 for _ in range(4)]
    return pa.table(
        {
            "x": pa.array(rng.normal(size=rows).round(3), mask=holes[0]),
            "k": pa.array(rng.integers(0, 9, rows), mask=holes[1]),
            "c": pa.array(rng.choice(["a", "bb", "c d"], rows), mask=holes[2]),
            "t": pa.array(rng.random(rows) < 0.5, mask=holes[3]),
        }
    )


def make_rich_table(rows: int = 40) -> pa.Table:
    """Return a table with columns of types that are copied as they are, too."""
    table, day = make_table(rows), datetime.date(2020, 2, 28)
    days = [day + datetime.timedelta(i) for i in range(rows)]
    more = {
        "category": table["c"].combine_chunks().dictionary_encode(),
        "large": pa.array([f"text {i}" for i in range(rows)], pa.large_string()),
        "view": pa.array([f"longer than twelve bytes {i}" for i in range(rows)], pa.string_view()),
        "day": pa.array(days),
        "instant": pa.array([datetime.datetime(2020, 1, 1) + i * datetime.timedelta(1) for i in range(rows)]),
        "list": pa.array([[i, None] for i in range(rows)]),
        "record": pa.array([{"a": i, "b": "x"} for i in range(rows)]),
        "exact": pa.array([decimal.Decimal(i) / 8 for i in range(rows)], pa.decimal128(9, 3)),
        "bytes": pa.array([b"\0" * i for i in range(rows)]),
    }
    for name, column in more.items():
        table = table.append_column(name, column)
    return table


def write_originals(folder: Path) -> dict[str, list[Path]]:
    """Write good files of each format."""
    table, rich = make_table(), make_rich_table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for suffix in ("csv", "csv.gz", "tsv", "arff", "jsonl", "parquet", "feather"):
            hb.write_table(hb.Table(table), folder / f"plain.{suffix}")
        hb.write_table(hb.Table(table), f"sqlite:///{folder / 'plain.sqlite'}?table=t")
    (folder / "plain.dbc").write_text(DBC)
    parquet.write_table(rich.drop_columns(["view"]), folder / "rich.parquet")
    parquet.write_table(
        table, folder / "flat.parquet", use_dictionary=False, compression="none", write_statistics=False
    )
    feather.write_feather(rich, folder / "rich.feather", compression="uncompressed")
    feather.write_feather(rich, folder / "packed.feather", compression="lz4")
    originals: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        originals.setdefault(path.name.partition(".")[2], []).append(path)
    return originals


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return data with a few places changed, cut out, repeated or overwritten."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at, length = rng.randrange(len(changed) + 1), rng.choice((1, 1, 2, 8, 60))
        match rng.randrange(7):
            case 0 | 1:
                changed[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                changed[at : at + 1] = bytes(byte ^ 1 << rng.randrange(8) for byte in changed[at : at + 1])
            case 3:
                del changed[at : at + length]
            case 4:
                changed[at:at] = changed[at : at + length]
            case 5:
                piece = rng.choice((*PIECES, *NUMBERS, DEEP, SURROGATE))
                changed[at : at + (len(piece) if rng.random() < 0.5 else 0)] = piece
            case 6:
                if rng.random() < 0.2:
                    del changed[at:]
    return bytes(changed)


def mutations(paths: list[Path], seeds: range) -> Iterator[tuple[int, Path]]:
    """Give mutated files, each under the same name of this process."""
    originals = [(path, path.read_bytes()) for path in paths]
    for seed in seeds:
        path, data = originals[seed % len(originals)]
        target = path.with_name(f"{os.getpid()}.{path.name.partition('.')[2]}")
        target.write_bytes(mutate(data, random.Random(seed)))
        yield seed, target


def address_of(path: Path) -> str:
    return f"sqlite:///{path}?table=t" if path.suffix == ".sqlite" else str(path)


def read_mutations(paths: list[Path], seeds: range) -> list[str]:
    """Return how reading fails otherwise than by an error of the library."""
    failures = []
    for seed, path in mutations(paths, seeds):
        try:
            table = hb.read_table(address_of(path))
            for name in table.names:
                table.cells(name)
                table.raw(name)
        except HybridBNError:
            pass
        except Exception as error:
            failures.append(f"seed {seed}: {error!r:.200}")
    return failures


def impute_mutations(paths: list[Path], seeds: range) -> list[str]:
    """Return how the command ends otherwise than complete or with an input that it refuses."""
    failures = []
    for seed, path in mutations(paths, seeds):
        suffix = ".csv" if path.suffix == ".dbc" else f".{path.name.partition('.')[2]}"
        goal = address_of(path.with_name(f"{os.getpid()}-completed{suffix}"))
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = run(["impute", address_of(path), goal, "--rounds", "1", "--quiet"])
        for made in path.parent.glob(f"{os.getpid()}-*"):
            made.unlink()
        if code not in (0, 2):
            failures.append(f"seed {seed}: exit {code}, {said.getvalue():.200}")
    return failures


def limit_memory() -> None:
    with contextlib.suppress(ImportError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")


def run_in_pool(work: Callable[[list[Path], range], list[str]], paths: list[Path], count: int) -> list[str]:
    """Return all failures; a process that crashes breaks the pool, and the test."""
    seeds = [range(start, min(start + BATCH, count)) for start in range(0, count, BATCH)]
    workers = min(os.cpu_count() or 1, 4)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), limit_memory) as pool:
        return [failure for failures in pool.map(partial(work, paths), seeds) for failure in failures]


FORMATS = ("csv", "csv.gz", "tsv", "arff", "jsonl", "parquet", "feather", "sqlite", "dbc")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_mutated_files_are_read_or_refused(suffix: str, tmp_path: Path) -> None:
    assert run_in_pool(read_mutations, write_originals(tmp_path)[suffix], READINGS) == []


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_mutated_files_are_imputed_or_refused(suffix: str, tmp_path: Path) -> None:
    assert run_in_pool(impute_mutations, write_originals(tmp_path)[suffix], COMMANDS) == []


@pytest.mark.filterwarnings("ignore:read as")
def test_a_few_mutations_of_each_format(tmp_path: Path) -> None:
    for suffix, paths in write_originals(tmp_path).items():
        for path in paths:
            if path.name.startswith("plain"):
                assert len(hb.read_table(address_of(path))) >= 4
        assert read_mutations(paths, range(READINGS, READINGS + 10)) == [], suffix
