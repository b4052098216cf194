"""The command under faults: killed and resumed, two at a time, on a full disk, its input changed under it."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hybridbn.commands import cli
from hybridbn.commands.cli import run
from hybridbn.commands.locations import locate
from hybridbn.commands.terminal import NotShown, Terminated, keep_interrupts, raise_on_termination
from hybridbn.commands.verb import Verb
from hybridbn.commands.workspace import lock_output

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")
CHUNK = ("--chunk", "200")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_table(Path("t.csv"))
    return tmp_path


def write_table(path: Path, rows: int = 2000) -> None:
    rng = np.random.default_rng(3)
    x = rng.gamma(1, size=rows).round(3)  # far from normal, so that the model holds observed numbers, too
    y = (x + rng.normal(size=rows)).round(3)
    c = np.array(["a", "b"])[(y > 1).astype(int)]
    columns = [[str(v) for v in values] for values in (x.tolist(), y.tolist(), c.tolist())]
    for column in columns:
        for row in np.flatnonzero(rng.random(rows) < 0.2).tolist():
            column[row] = ""
    path.write_text("x,y,c\n" + "".join(f"{','.join(row)}\n" for row in zip(*columns, strict=True)))


# the process sends itself the signal, so that it is at the same place on every machine
STOPPED_AT = """
import os, signal, sys
name, number = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
waiting = True

def stop(event, arguments):
    global waiting
    if waiting and event == "os.rename" and os.path.basename(arguments[1]) == name:
        waiting = False
        signal.raise_signal(number)

sys.addaudithook(stop)
from hybridbn.commands.cli import main
main()
"""


def started(
    *arguments: str, prepared: Callable[[], None] | None = None, command: tuple[str, ...] = ("-m", "hybridbn")
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command, "impute", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=prepared,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=300)
    assert "Traceback" not in said
    return process.returncode, said


def stopped_at(name: str, number: signal.Signals, *arguments: str) -> tuple[int, str]:
    """Run the command, which gets a signal when it is about to put a file of this name in its place."""
    return ended(started(*arguments, command=("-c", STOPPED_AT, name, str(number.value))))


def killed_after(parts: int, *arguments: str, folder: str) -> int:
    """Kill a run when it has finished so many parts; return how many there are."""
    assert stopped_at(f"part-0-{parts}", signal.SIGKILL, *arguments)[0] == -signal.SIGKILL
    return sum(path.name.removeprefix("part-0-").isdigit() for path in Path(folder).glob("part-0-*"))


@posix
@pytest.mark.parametrize(
    "suffix", [pytest.param(suffix, marks=pytest.mark.slow) for suffix in ("csv", "parquet", "sqlite")]
)
def test_killed_and_resumed_the_result_is_the_same_bytes(suffix: str) -> None:
    goal, again, folder = f"out.{suffix}", f"again.{suffix}", f"out.{suffix}.parts"
    if suffix == "sqlite":
        goal, again, folder = "sqlite:///out.db?table=t", "sqlite:///again.db?table=t", "out.db-t.parts"
    options = (*CHUNK, "--report", "report.html", *(("--draws", "2") if suffix == "csv" else ()))
    assert run(["impute", "t.csv", again, *options, "--report", "again.html"]) == 0
    first = killed_after(2, "t.csv", goal, *options, folder=folder)
    assert first == 2
    if suffix == "csv":
        assert killed_after(4, "t.csv", goal, *options, folder=folder) == 4
    assert not Path("out.csv").exists()
    assert not Path("report.html").exists()
    assert not list(Path().glob("out.db"))
    assert run(["impute", "t.csv", goal, *options]) == 0
    if suffix == "sqlite":
        assert contents("out.db") == contents("again.db")
    else:
        assert Path(goal).read_bytes() == Path(again).read_bytes()
    report, expected = Path("report.html").read_text(), Path("again.html").read_text()
    assert report.replace("out.", "again.") == expected
    assert sorted(os.listdir()) == sorted(
        {"t.csv", "report.html", "again.html", *(("out.db", "again.db") if suffix == "sqlite" else (goal, again))}
    )


def contents(path: str) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def test_a_table_of_another_origin_is_not_taken_for_the_finished_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from hybridbn.commands.output import Output

    goal = "sqlite:///out.db?table=t"

    def ended(output: Output, parts: object, overwrite: bool, before: Callable[[], None]) -> None:
        before()
        raise KeyboardInterrupt

    def made(rows: int) -> None:
        with sqlite3.connect("out.db") as connection:
            connection.execute("CREATE TABLE t (x REAL)")
            connection.executemany("INSERT INTO t VALUES (?)", [(0.0,)] * rows)
        connection.close()

    for rows, code in ((2000, 0), (3, 73)):
        with monkeypatch.context() as patch:
            patch.setattr(Output, "assemble", ended)
            assert run(["impute", "t.csv", goal]) == 130
        made(rows)
        assert run(["impute", "t.csv", goal]) == code
        Path("out.db").unlink()


@posix
@pytest.mark.slow
def test_what_changed_since_is_refused_until_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["impute", "t.csv", "clean.csv"]) == 0
    assert killed_after(2, "t.csv", "out.csv", *CHUNK, folder="out.csv.parts") == 2
    assert run(["impute", "t.csv", "out.csv", *CHUNK, "--seed", "1"]) == 75
    assert "the options changed" in capsys.readouterr().err
    original = Path("t.csv").read_bytes()
    Path("t.csv").write_bytes(original[:-2] + b"x\n")
    assert run(["impute", "t.csv", "out.csv", *CHUNK]) == 75
    said = capsys.readouterr().err
    assert "the input changed" in said
    assert "--restart" in said
    assert not Path("out.csv").exists()
    Path("t.csv").write_bytes(original)
    assert run(["impute", "t.csv", "out.csv", "--restart"]) == 0
    assert Path("out.csv").read_bytes() == Path("clean.csv").read_bytes()
    assert not Path("out.csv.parts").exists()


def test_input_that_changes_while_it_is_read_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import hybridbn.commands.impute as command

    whole = command._learn

    def meanwhile(*arguments: object) -> None:
        whole(*arguments)  # type: ignore[arg-type]
        text = Path("t.csv").read_text()
        Path("t.csv").write_text(text)

    monkeypatch.setattr(command, "_learn", meanwhile)
    assert run(["impute", "t.csv", "out.csv"]) == 75
    assert "changed while it was read" in capsys.readouterr().err
    assert not Path("out.csv").exists()


@posix
@pytest.mark.slow
def test_interrupted_it_goes_on() -> None:
    options = [*CHUNK, "--draws", "2"]
    assert run(["impute", "t.csv", "clean.csv", "--draws", "2"]) == 0
    code, said = stopped_at("part-0-2", signal.SIGINT, "t.csv", "out.csv", *options)
    assert code == 130
    assert said.splitlines()[-1] == "hybridbn: interrupted; the same command goes on from there"
    assert Path("out.csv.parts").exists()
    assert not Path("out.csv").exists()
    assert run(["impute", "t.csv", "out.csv", *options]) == 0
    assert Path("out.csv").read_bytes() == Path("clean.csv").read_bytes()


class InterruptedAtItsEnd:
    """A file of which the last read sends the process an interrupt."""

    closed = False

    def __init__(self) -> None:
        self.text = b"a,b\n1,2\n"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def read(self, size: int = -1) -> bytes:
        if not self.text:
            os.kill(os.getpid(), signal.SIGINT)
        text, self.text = self.text, b""
        return text


@posix
def test_an_interrupt_while_pyarrow_parses_is_not_lost() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv

    # a process that was started in the background ignores interrupts, and then there is nothing to lose
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    keep_interrupts()
    try:
        with pytest.raises(KeyboardInterrupt):
            csv.read_csv(pyarrow.PythonFile(InterruptedAtItsEnd(), mode="r"))
    finally:
        pyarrow.enable_signal_handlers(True)
        signal.signal(signal.SIGINT, handler)


@posix
@pytest.mark.slow
def test_interrupted_into_a_pipe_nothing_is_promised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "temporary"))
    code, said = stopped_at("part-0-2", signal.SIGINT, "t.csv", "-", *CHUNK)
    assert code == 130
    assert said.splitlines()[-1] == "hybridbn: interrupted; nothing was written"
    assert not list(folder.glob("temporary/hybridbn-*"))


def test_the_second_of_two_writers_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    place = locate("out.csv", None, None, "OUTPUT")
    with lock_output(place.beside(), "out.csv"):
        assert run(["impute", "t.csv", "out.csv"]) == 73
        assert "another run is writing it" in capsys.readouterr().err
        assert run(["impute", "t.csv", "other.csv"]) == 0
    assert run(["impute", "t.csv", "out.csv"]) == 0


@pytest.mark.slow
@posix
def test_two_writers_at_once_make_one_whole_file() -> None:
    for seed in "01":
        assert run(["impute", "t.csv", f"{seed}.csv", "--seed", seed]) == 0
    both = [started("t.csv", "out.csv", "--seed", seed, *CHUNK) for seed in "01"]
    codes = [ended(process)[0] for process in both]
    assert sorted(codes) in ([0, 0], [0, 73])
    winners = [Path(f"{seed}.csv").read_bytes() for seed, code in zip("01", codes, strict=True) if code == 0]
    assert Path("out.csv").read_bytes() in winners


@posix
@pytest.mark.parametrize(
    "goal",
    [pytest.param(goal, marks=pytest.mark.slow) for goal in ("out.csv", "out.parquet", "sqlite:///out.db?table=t")],
)
def test_full_disk_leaves_nothing(goal: str) -> None:
    import resource

    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    before = Path("t.csv").read_bytes()
    code, said = ended(started("t.csv", goal, "--quiet", prepared=small))
    assert code == 74
    assert len(said.splitlines()) == 1
    assert os.listdir() == ["t.csv"]
    assert Path("t.csv").read_bytes() == before
    assert run(["impute", "t.csv", goal]) == 0


def test_a_failure_keeps_the_file_that_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.csv").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert run(["impute", "t.csv", "out.csv"]) == 74
    assert Path("out.csv").read_text() == "old"
    assert sorted(os.listdir()) == ["out.csv", "t.csv"]
    monkeypatch.undo()


def test_links_and_permissions_stay(tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("links and modes of POSIX")
    (tmp_path / "real.csv").write_text("old")
    os.chmod("real.csv", 0o640)
    os.symlink("real.csv", "out.csv")
    assert run(["impute", "t.csv", "out.csv"]) == 0
    assert Path("out.csv").is_symlink()
    assert Path("real.csv").stat().st_mode & 0o777 == 0o640
    assert Path("real.csv").read_text().startswith("x,y,c")


@pytest.mark.slow
@posix
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_ten_million_rows_take_less_than_a_gigabyte(suffix: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    rng, writer = np.random.default_rng(0), None
    for _ in range(20):
        x = rng.normal(size=500_000)
        columns = {
            "x": x.round(4),
            "y": (x + rng.normal(size=len(x))).round(4),
            "z": rng.gamma(2, size=len(x)).round(4),
            "k": rng.poisson(4, size=len(x)),
            "c": np.array(["a", "b", "c"])[rng.integers(3, size=len(x))],
            "d": np.array(["u", "v"])[(x > 0).astype(int)],
        }
        table = pyarrow.table({n: pyarrow.array(v, mask=rng.random(len(x)) < 0.1) for n, v in columns.items()})
        if writer is None:
            kind = parquet.ParquetWriter if suffix == "parquet" else csv.CSVWriter
            writer = kind(f"big.{suffix}", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    began = time.monotonic()
    process = started(f"big.{suffix}", f"out.{suffix}")
    _, status, usage = os.wait4(process.pid, 0)
    process.communicate()
    print(f"{suffix}: {usage.ru_maxrss / 1024:.0f} MB, {time.monotonic() - began:.0f} s")
    assert os.waitstatus_to_exitcode(status) == 0
    assert usage.ru_maxrss < 1024 * 1024
    for path in (Path(f"big.{suffix}"), Path(f"out.{suffix}")):
        path.unlink()


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (BrokenPipeError(), 0, ""),
        (NotShown("no room"), 74, "the output is there, complete, but its rows can't be shown: no room"),
        (MemoryError(), 2, "there is not enough memory; try a smaller --chunk or --sample"),
        (OSError(errno.ENOSPC, "No space left"), 74, "writing failed, and nothing is left of it"),
        (OSError(errno.EACCES, "Permission denied"), 73, "Permission denied"),
        (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_ends_of_verbs_have_codes_and_messages(
    error: BaseException, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    discarded: list[bool] = []

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(Verb.registry.find("check")), "run", fail)
    monkeypatch.setattr(cli, "discard_output", lambda: discarded.append(True))
    assert run(["check", "t.csv"]) == code
    told = capsys.readouterr().err
    assert message in told
    assert bool(told) == bool(message)
    # what can no longer be written must not fail once more at the end of the process
    assert bool(discarded) == (code in (0, 74))


@posix
def test_signals_end_the_command_once() -> None:
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        raise_on_termination()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(Terminated) as caught:
            signal.raise_signal(signal.SIGTERM)
        assert caught.value.number == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
