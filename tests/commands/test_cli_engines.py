"""Options that say who reads a table and who computes: the results are the same whoever does."""

from __future__ import annotations

import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.tables.backends import workers

pytest.importorskip("pyarrow")

FIT = "fit 'part*.parquet' model.hbn --structure tan --target play --potentials gaussian --quiet"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, the working directory of the test, with a table in three files and one file of it all."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    wind = np.where(rng.random(900) < 0.4, "weak", "strong")
    play = np.where(rng.random(900) < np.where(wind == "weak", 0.8, 0.3), "yes", "no")
    heat = rng.normal(15 + 5 * (play == "yes"), 4).round(2)
    heat[rng.random(900) < 0.1] = np.nan
    data: dict[str, Any] = {"id": [f"p{i}" for i in range(900)], "wind": wind, "play": play, "heat": heat}
    for number in range(3):
        rows = slice(300 * number, 300 * (number + 1))
        hb.Table({name: column[rows] for name, column in data.items()}).write(f"part{number}.parquet")
    hb.Table(data).write("all.parquet")
    hb.Table(data).write("all.csv")
    return tmp_path


def do(command: str, code: int = 0) -> None:
    try:
        ended = run(shlex.split(command))
    except SystemExit as error:
        ended = error.code  # type: ignore[assignment]
    assert ended == code


def fit(options: str, command: str = FIT) -> bytes:
    do(f"{command} {options}")
    return Path("model.hbn").read_bytes()


def test_fit_is_exact_whoever_reads() -> None:
    known = fit("--backend local")
    assert fit("--workers 1") == known
    table = hb.read_table("all.parquet").drop("id")
    net, other = hb.load("model.hbn"), hb.structures.tan(table, "play", potentials="gaussian")
    assert sorted(as_kind(hb.Network, net).edges) == sorted(other.edges)
    np.testing.assert_allclose(as_kind(hb.Network, net).log_density(table), other.log_density(table), rtol=1e-9)


def test_fit_counts_by_duckdb() -> None:
    pytest.importorskip("duckdb")
    known = fit("--backend local --keep heat")
    assert fit("--backend duckdb --workers 1 --keep heat") == known
    query = "fit \"SELECT * FROM read_parquet('part*.parquet')\" model.hbn" + FIT.partition("model.hbn")[2]
    assert fit("--backend duckdb --keep heat", query) == known
    for source in ("nowhere.csv", "nowhere", "'SELECT nothing'"):
        do(f"fit {source} model.hbn --backend duckdb", code=2)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "command", ["predict model.hbn all.{0} out.{0} --target play", "impute all.{0} out.{0} --draws 2 --rounds 2"]
)
def test_rows_are_the_same_whoever_computes(command: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fit("--backend local")
    command = f"{command.format(form)} --chunk 250 --quiet"
    do(command)
    known = Path(f"out.{form}").read_bytes()
    # all but the processes: what is sent is packed, sent ahead, and answered in order
    monkeypatch.setattr(workers, "open_pool", lambda workers: ThreadPoolExecutor(workers))
    do(f"{command} --workers 2")
    assert Path(f"out.{form}").read_bytes() == known


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--workers 2", "--backend dask --workers 2"])
def test_processes_and_workers_of_dask(options: str) -> None:
    if "dask" in options:
        pytest.importorskip("distributed")
    known = fit("--backend local")
    assert fit(options) == known
    for command in ("predict model.hbn all.csv out.csv --target heat", "impute all.csv out.csv --draws 2"):
        do(f"{command} --chunk 200 --quiet")
        rows = Path("out.csv").read_bytes()
        do(f"{command} --chunk 100 --quiet {options}")
        assert Path("out.csv").read_bytes() == rows


@pytest.mark.slow
def test_a_scheduler_that_runs_already() -> None:
    distributed = pytest.importorskip("distributed")
    known = fit("--backend local")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        assert fit(f"--scheduler {cluster.scheduler_address}") == known
    with distributed.LocalCluster(n_workers=0, dashboard_address=None) as cluster:
        do(f"{FIT} --scheduler {cluster.scheduler_address}", code=2)


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "jsonl", "arff", "db"])
def test_ranges_of_rows_are_answered_like_the_whole_table(form: str) -> None:
    """By a learned model, each range by itself; the first row of the second range is not that of a block."""
    if form == "db":
        do("convert all.csv 'sqlite:///all.db?table=t'")
    elif form not in ("csv", "parquet"):
        do(f"convert all.csv all.{form}")
    source = "'sqlite:///all.db?table=t'" if form == "db" else f"all.{form}"
    fit("--backend local")
    do("impute all.parquet all.out.parquet --keep id --quiet --save-model made.hbn")
    for command in ("predict model.hbn {0} {1} --target play", "impute {0} {1} --model made.hbn --keep id --draws 2"):
        tables = []
        for name, rows in (
            ("whole", ""),
            ("first", "--rows :250"),
            ("second", "--rows 250:601"),
            ("last", "--rows 601:"),
        ):
            do(f"{command.format(source, name + '.csv')} --chunk 200 --quiet {rows}")
            tables.append(Path(f"{name}.csv").read_bytes().splitlines())
        whole, *ranges = tables
        assert [len(one) - 1 for one in ranges] == [size * (2 if "draws" in command else 1) for size in (250, 351, 299)]
        assert sorted(whole) == sorted([whole[0], *(line for one in ranges for line in one[1:])])
    do(f"predict model.hbn {source} o.csv --target play --rows 900:", code=2)


def read_folder(name: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(name).iterdir())}


def test_files_of_a_pattern_are_predicted_into_a_folder() -> None:
    fit("--backend local")
    for number in range(3):
        do(f"predict model.hbn part{number}.parquet one{number}.parquet --target play --quiet")
    do("predict model.hbn 'part*.parquet' whole --target play --quiet")
    known = {f"part{number}.parquet": Path(f"one{number}.parquet").read_bytes() for number in range(3)}
    assert read_folder("whole") == known
    # what is there is left, so that a run that was ended goes on
    Path("whole/part1.parquet").unlink()
    Path("whole/part2.parquet").write_text("left")
    do("predict model.hbn 'part*.parquet' whole --target play --quiet --no-clobber")
    assert read_folder("whole") == known | {"part2.parquet": b"left"}


@pytest.mark.parametrize("given", ["", pytest.param("--model made.hbn", marks=pytest.mark.slow)])
def test_files_of_a_folder_are_imputed_by_one_model(given: str) -> None:
    Path("days").mkdir()
    for number in range(3):
        Path(f"part{number}.parquet").rename(f"days/part{number}.parquet")
    if given:
        do("impute all.parquet all.out.parquet --keep id --quiet --save-model made.hbn")
    do(f"impute days whole --keep id --quiet {given}")
    before, after = (hb.scan(name) for name in ("days", "whole"))
    assert before.missing["heat"] > 0
    assert not any(after.missing.values())
    assert len(after) == len(before) == 900
    first, second = (
        hb.read_table(f"whole/part{number}.parquet")["heat"][
            np.isnan(hb.read_table(f"days/part{number}.parquet")["heat"])
        ]
        for number in (0, 1)
    )
    assert len({*first} & {*second}) < min(len(first), len(second)) / 2


def test_files_of_the_same_name_are_drawn_independently() -> None:
    do("impute all.parquet all.out.parquet --keep id --quiet --save-model made.hbn")
    for day in ("day=1", "day=2"):
        Path("days", day).mkdir(parents=True)
        Path("days", day, "0.parquet").write_bytes(Path("part0.parquet").read_bytes())
    do("impute days whole --keep id --quiet --model made.hbn")
    first, second = (hb.read_table(f"whole/{day}/0.parquet")["heat"] for day in ("day=1", "day=2"))
    missing = np.isnan(hb.read_table("part0.parquet")["heat"])
    assert (first == second)[~missing].all()
    assert (first != second)[missing].mean() > 0.5


@pytest.mark.parametrize("output", ["days", "days/deep/out"])
def test_a_folder_is_not_answered_into_itself(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    fit("--backend local")
    Path("days").mkdir()
    Path("part0.parquet").rename("days/part0.parquet")
    do(f"predict model.hbn days {output} --target play", code=2)
    assert "lies in the input days" in capsys.readouterr().err
    assert [*read_folder("days")] == ["part0.parquet"]


def test_duckdb_reads_what_is_predicted() -> None:
    pytest.importorskip("duckdb")
    fit("--backend local")
    do("predict model.hbn part0.parquet known.csv --target play --quiet")
    do("predict model.hbn part0.parquet made.csv --target play --quiet --backend duckdb")
    query = "SELECT * FROM read_parquet('part*.parquet') WHERE wind = 'weak'"
    do(f'predict model.hbn "{query}" weak.csv --target play --quiet --backend duckdb')
    assert Path("made.csv").read_text() == Path("known.csv").read_text()
    weak = hb.read_table("weak.csv")
    assert as_discrete(weak.variable("wind")).states == ("weak",)
    assert len(weak) == int((hb.read_table("all.csv")["wind"] == 1).sum())


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("fit all.csv m.hbn --backend dask", "--scheduler tcp://host:8786, or start some on this machine"),
        ("fit all.csv m.hbn --backend local --scheduler tcp://h:1", "leave one of the two out"),
        ("fit all.csv m.hbn --workers 2 --scheduler tcp://h:1", "leave --workers out"),
        ("fit all.csv m.hbn --workers 1 --format csv", "hybridbn convert"),
        ("fit - m.hbn --format csv --workers 1", "a pipe can't be read by several workers"),
        ("fit 'sqlite:///a.db?table=t' m.hbn --workers 1", "there is no file a.db"),
        ("fit nowhere.csv m.hbn --workers 1", "there is no file"),
        ("fit all.csv m.hbn --workers 1 --target pay", "did you mean 'play'?"),
        ("fit all.csv m.hbn --workers 1 --target id", "--include learns from identifiers"),
        ("fit all.csv m.hbn --workers 1 --structure 'win -> play'", "did you mean 'wind'?"),
        ("fit all.csv m.hbn --backend spork", "invalid choice"),
        ("predict m.hbn all.csv o.csv --target play --rows 9:9", "write 100:200"),
        ("predict m.hbn 'part*.parquet' o --target play --rows 5:", "--rows are of one table"),
        ("predict m.hbn 'part*.parquet' o.csv --target play", "name a folder for the output"),
        ("impute 'part*.parquet' o --draws 3", "are for one table"),
        ("impute 'nothing*.parquet' o", "there is no table file"),
        ("impute all.csv o.csv --rows 5:", "name it with --model"),
        ("impute all.csv o.csv --backend dask", "--workers 2"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(
    command: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    do(command, code=2)
    assert hint in capsys.readouterr().err
