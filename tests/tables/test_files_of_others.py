"""Databases that somebody else made, and temporary files that a killed process left."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hybridbn.commands import impute
from hybridbn.commands.cli import run
from hybridbn.tables.formats import read_table
from hybridbn.tables.formats.files import open_scratch, replace_file, write_atomically

posix = pytest.mark.skipif(os.name != "posix", reason="locks and modes of POSIX")

# -- SQLite -----------------------------------------------------------------------------------------------------------

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT sum(x) AS s FROM r"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
@pytest.mark.parametrize("raised", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
@pytest.mark.parametrize("what", ["table=v", "query=SELECT s FROM v"])
def test_a_view_that_never_ends_is_interrupted(
    tmp_path: Path, scheme: str, what: str, raised: type[BaseException]
) -> None:
    if "+" in scheme:
        pytest.importorskip("sqlalchemy")
    with closing(sqlite3.connect(tmp_path / "e.db")) as connection:
        connection.execute(f"CREATE VIEW v AS {ENDLESS}")

    def interrupt(*_: object) -> None:
        raise raised

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(raised):
            read_table(f"{scheme}:///{tmp_path}/e.db?{what}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


DECLARED = ["VARCHAR(10)", "DOUBLE PRECISION", "", "INT CHECK(0)", "INT NOT NULL", "TEXT DEFAULT (1)", "UNIQUE", "a'b"]
DECLARED += ["TEXT, evil TEXT", "TEXT) --", "A COLLATE nocase UNIQUE ;", "INT GENERATED ALWAYS AS (1)", "[x], [y"]


@pytest.mark.parametrize("declared", DECLARED)
def test_declared_types_are_types_and_nothing_else(tmp_path: Path, declared: str) -> None:
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute(f'CREATE TABLE t (a "{declared}", b REAL)' if declared else "CREATE TABLE t (a, b REAL)")
        connection.execute("INSERT INTO t VALUES ('x', 1.5), (NULL, 2)")
        connection.commit()
    source, output = f"sqlite:///{tmp_path}/s.db?table=t", f"sqlite:///{tmp_path}/o.db?table=o"
    assert run(["impute", source, output, "--quiet", "--keep", "a"]) == 0
    with closing(sqlite3.connect(tmp_path / "o.db")) as connection:
        columns = connection.execute("PRAGMA table_xinfo(o)").fetchall()
        assert columns == [(0, "a", declared, 0, None, 0, 0), (1, "b", "REAL", 0, None, 0, 0)]
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)


# -- what is temporary ------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from hybridbn.tables.formats.files import open_scratch, replace_file
with open_scratch() as folder, replace_file(Path(sys.argv[1])) as file:
    (folder / "part").write_text("rows")
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@posix
def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path, temporary: Path) -> None:
    target = tmp_path / "model.hbn"
    target.write_text("old")
    kept = [
        temporary / "hybridbn-mine",
        tmp_path / ".model.hbn.mine.tmp",
        tmp_path / ".other.hbn.hybridbn-unfinished.tmp",
    ]
    kept[0].mkdir()
    (kept[0] / "hybridbn.lock").write_text("somebody's own")
    for path in kept[1:]:
        path.write_text("mine")
    subprocess.run([sys.executable, "-c", KILLED, str(target)], check=False)
    (left,) = (one for one in tmp_path.glob(".model.hbn.*") if one not in kept)
    (folder,) = (one for one in temporary.iterdir() if one not in kept)
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (left, folder, folder / "hybridbn.lock")]
    assert modes == [0o600, 0o700, 0o600]
    assert target.read_text() == "old"
    with open_scratch() as own:
        write_atomically(target, b"new")
        assert {*temporary.iterdir()} == {kept[0], own}
    assert target.read_text() == "new"
    assert not left.exists()
    assert all(path.exists() for path in kept)


@posix
def test_what_another_one_uses_is_left_alone(tmp_path: Path, temporary: Path) -> None:
    target = tmp_path / "model.hbn"
    with open_scratch() as first, replace_file(target) as file:
        file.write(b"first")
        with open_scratch() as second:
            write_atomically(target, b"second")
            assert {*temporary.iterdir()} == {first, second}
        assert target.read_text() == "second"
    assert target.read_text() == "first"
    assert [*tmp_path.glob(".model*")] == [*temporary.iterdir()] == []


@posix
def test_links_and_folders_in_the_place_of_temporary_files_are_left_alone(tmp_path: Path, temporary: Path) -> None:
    target, victim = tmp_path / "model.hbn", tmp_path / "victim"
    victim.write_text("a temporary folder of hybridbn\n")
    (tmp_path / ".model.hbn.hybridbn-unfinished.tmp").symlink_to(victim)
    (temporary / "hybridbn-a").mkdir()
    (temporary / "hybridbn-a" / "hybridbn.lock").symlink_to(victim)
    with open_scratch():
        write_atomically(target, b"new")
    assert target.read_text() == "new"
    assert victim.read_text() == "a temporary folder of hybridbn\n"
    assert (temporary / "hybridbn-a" / "hybridbn.lock").is_symlink()


def test_after_the_input_changed_the_same_command_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("x,c\n" + "1.5,a\n2.5,b\n,a\n4,\n" * 8)
    command = ["impute", str(source), str(output), "--quiet"]
    learn = impute._learn

    def change(*given: Any) -> None:
        learn(*given)
        source.write_text("x,c\n" + "1.5,a\n3.5,b\n,b\n4,\n" * 9)

    with monkeypatch.context() as patched:
        patched.setattr(impute, "_learn", change)
        assert run(command) == 75
    assert "run the command again" in capsys.readouterr().err
    assert not output.exists()
    assert run(command) == 0
    assert output.read_text().count("\n") == 1 + 4 * 9
