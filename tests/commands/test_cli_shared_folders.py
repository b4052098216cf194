"""Locks, parts and outputs in folders that hold other people's files: nothing is taken over, removed or followed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.commands.workspace import Workspace, lock_output
from hybridbn.tables.formats.files import resolve_links, write_atomically

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, owners and modes of POSIX")
ROOT = Path(__file__).resolve().parents[2]
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
NOBODY = 65534
OPTIONS = ("--chunk", "100", "--rounds", "1", "--quiet")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("x,y\n" + "".join(f"{i % 7},{'' if i % 4 == 0 else i % 5}\n" for i in range(400)))
    return tmp_path


def contents() -> dict[str, object]:
    """Return all files below the current folder with their content and their modes."""
    held: dict[str, object] = {}
    for path in sorted(Path().rglob("*")):
        status = path.lstat()
        held[str(path)] = (
            stat.S_IFMT(status.st_mode),
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None,
        )
    return held


def put_a_folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("precious")


def put_parts_of_a_user(path: Path) -> None:
    put_a_folder(path)
    for name in ("manifest.json", "part-0-0", "part-0-0.tmp", "history.json"):
        (path / name).write_text("{}")


def put_a_link(path: Path) -> None:
    Path("victim").mkdir()
    Path("victim/draft.tmp").write_text("precious")
    Path("victim/part-0-0.tmp").write_text("precious")
    path.symlink_to("victim")


def put_a_dangling_link(path: Path) -> None:
    path.symlink_to("elsewhere")


def put_a_file(path: Path) -> None:
    path.write_text("precious")


def put_an_empty_folder_of_another(path: Path) -> None:
    path.mkdir()
    os.chown(path, NOBODY, NOBODY)


def put_a_planted_part(path: Path) -> None:
    """Put a folder of a real run in which one part is a link."""
    workspace = Workspace(Path("out.csv"))
    workspace.begin(restart=False)
    Path("elsewhere").write_text("precious")
    (path / "part-0-0").symlink_to(Path("elsewhere").absolute())


IN_THE_WAY: tuple[Callable[[Path], None], ...] = (
    put_a_folder,
    put_parts_of_a_user,
    put_a_link,
    put_a_dangling_link,
    put_a_file,
    put_a_planted_part,
)


@pytest.mark.parametrize("put", [*IN_THE_WAY, pytest.param(put_an_empty_folder_of_another, marks=needs_root)])
def test_parts_that_are_not_ours_are_left_alone(
    put: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("out.csv.parts"))
    before = contents()
    for more in ((), ("--restart",), ("--unknown", "missing")):
        assert run(["impute", "t.csv", "out.csv", *OPTIONS, *more]) == 73
        assert "out.csv.parts" in (said := capsys.readouterr().err)
        assert "is in the way" in said
        assert contents() == before
    assert run(["impute", "nowhere.csv", "out.csv", *OPTIONS]) in (2, 73)
    assert contents() == before


def put_a_lock_of_another(path: Path) -> None:
    path.write_text("")
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "put",
    [put_a_file, put_a_dangling_link, put_a_folder, os.mkfifo, pytest.param(put_a_lock_of_another, marks=needs_root)],
)
def test_locks_that_are_not_ours_are_left_alone(
    put: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    put(Path("out.csv.lock"))
    before = contents()
    assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 73
    assert "is in the way" in capsys.readouterr().err
    assert contents() == before


def test_an_empty_lock_is_used_and_left() -> None:
    Path("out.csv.lock").touch()
    assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    assert Path("out.csv.lock").read_text() == ""
    assert sorted(os.listdir()) == ["out.csv", "out.csv.lock", "t.csv"]


def test_what_a_killed_run_left_is_ours() -> None:
    with lock_output(Path("out.csv"), "out.csv"):
        left = Path("out.csv.lock").read_bytes()
    Path("out.csv.lock").write_bytes(left)
    Path("out.csv.parts").mkdir()  # killed before the folder was marked
    assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    assert sorted(os.listdir()) == ["out.csv", "t.csv"]


def test_what_others_put_beside_the_parts_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Workspace.put

    def put(workspace: Workspace, name: str, data: bytes) -> None:
        whole(workspace, name, data)
        (workspace.folder / "thesis.txt").write_text("precious")

    monkeypatch.setattr(Workspace, "put", put)
    assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    assert os.listdir("out.csv.parts") == ["thesis.txt"]


def test_nobody_else_reads_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    whole = Workspace.put

    def put(workspace: Workspace, name: str, data: bytes) -> None:
        whole(workspace, name, data)
        modes.extend([workspace.folder.stat().st_mode & 0o777, (workspace.folder / name).stat().st_mode & 0o777])

    monkeypatch.setattr(Workspace, "put", put)
    Path("out.csv").write_text("old")
    os.chmod("out.csv", 0o600)
    mask = os.umask(0)
    try:
        assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    finally:
        os.umask(mask)
    assert set(modes) == {0o700, 0o600}
    assert Path("out.csv").stat().st_mode & 0o777 == 0o600


def test_options_do_not_name_what_the_run_itself_makes(capsys: pytest.CaptureFixture[str]) -> None:
    for path in ("out.csv.lock", "out.csv.parts", "out.csv.parts/report.html"):
        for option in ("--report", "--save-model"):
            assert run(["impute", "t.csv", "out.csv", option, path]) == 2
            assert "choose another name" in capsys.readouterr().err
    assert os.listdir() == ["t.csv"]


def test_special_files_are_not_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe.csv")
    os.mkfifo("pipe.hbn")
    before = contents()
    for words in (
        ("impute", "t.csv", "pipe.csv"),
        ("impute", "t.csv", "out.csv", "--report", "pipe.csv"),
        ("impute", "t.csv", "out.csv", "--save-model", "pipe.hbn"),
        ("convert", "t.csv", "pipe.csv"),
    ):
        assert run(words) == 2
        assert "no ordinary file" in capsys.readouterr().err
        assert contents() == before
    with pytest.raises(hb.FormatError, match="no ordinary file"):
        hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])]).save("pipe.hbn")
    with pytest.raises(hb.FormatError, match="no ordinary file"):
        hb.read_table("t.csv").write("pipe.csv", overwrite=True)
    assert contents() == before


@needs_root
def test_links_of_others_in_shared_folders_are_not_followed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("victim.csv").write_text("precious")
    Path("shared").mkdir()
    os.chmod("shared", 0o1777)
    os.symlink("../victim.csv", "shared/out.csv")
    assert resolve_links("shared/out.csv") == Path("victim.csv").absolute()
    os.chown("shared/out.csv", NOBODY, NOBODY, follow_symlinks=False)
    os.symlink("shared/out.csv", "link.csv")
    for words in (
        ("impute", "t.csv", "shared/out.csv"),
        ("impute", "t.csv", "link.csv"),
        ("impute", "t.csv", "out.csv", "--report", "shared/out.csv"),
        ("convert", "t.csv", "shared/out.csv"),
    ):
        assert run(words) == 73
        assert "a link of another user" in capsys.readouterr().err
    with pytest.raises(PermissionError):
        write_atomically("shared/out.csv", b"new")
    assert Path("victim.csv").read_text() == "precious"
    os.chmod("shared", 0o755)
    write_atomically("link.csv", b"new")
    assert Path("victim.csv").read_text() == "new"


def test_links_are_resolved_as_the_system_does(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    os.symlink("a/b", "to_b")
    os.symlink(tmp_path / "to_b", "a/absolute")
    os.symlink("../t.csv", "a/b/up")
    os.symlink("circle", "circle")
    for path in ("t.csv", "to_b/../x.csv", "a/absolute/up", "a/./b/up", "/", "../.."):
        assert resolve_links(path) == Path(os.path.realpath(path)), path
    with pytest.raises(OSError, match="circle"):
        resolve_links("circle")


# -- ends at any moment -----------------------------------------------------------------------------------------------

KILLED_AT = """
import os, signal, sys
place, number = int(sys.argv[1]), int(sys.argv[2])
del sys.argv[1:3]
count = 0

def stop(event, arguments):
    global count
    if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "os.chmod"):
        count += 1
        if count == place:
            signal.raise_signal(number)

sys.addaudithook(stop)
from hybridbn.commands.cli import main
main()
"""


def run_killed_at(place: int, number: int, *words: str, given: bytes = b"", **environment: str) -> int:
    """Run the command, which gets a signal before its change of the file system of this number."""
    return subprocess.run(
        [sys.executable, "-c", KILLED_AT, str(place), str(number), *words],
        input=given,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=300,
    ).returncode


@pytest.mark.slow
@pytest.mark.parametrize("goal", ["out.csv", "sqlite:///out.db?table=t", "no-clobber"])
def test_killed_before_any_change_of_the_file_system(goal: str) -> None:
    words = ["impute", "t.csv", goal, *OPTIONS, "--report", "r.html", "--save-model", "m.hbn"]
    if goal == "no-clobber":
        words = ["impute", "t.csv", "out.csv", *OPTIONS, "--no-clobber"]
    names = ("out.csv", "out.db", "r.html", "m.hbn")
    output, parts = ("out.db", "out.db-t.parts") if goal.startswith("sqlite") else ("out.csv", "out.csv.parts")
    assert run(words) == 0
    whole = contents()
    place, code = 0, -1
    while code:
        for name in names:
            Path(name).unlink(missing_ok=True)
        assert contents().keys() == {"t.csv"}
        place += 1 if goal == "out.csv" else 2
        code = run_killed_at(place, signal.SIGKILL, *words)
        assert code in (0, -signal.SIGKILL)
        if code:
            # what is there, without a manifest that tells whose it is, looks like the output of a finished run
            is_whole = not Path(parts, "manifest.json").exists() and Path(output).exists()
            assert run(words) == (73 if is_whole and goal != "out.csv" else 0), place
        now = {name: value for name, value in contents().items() if not name.startswith(parts)}
        shutil.rmtree(parts, ignore_errors=True)
        assert now.keys() == whole.keys(), place
        assert {n: v for n, v in now.items() if n != "out.db"} == {n: v for n, v in whole.items() if n != "out.db"}
    assert place > 10


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_told_to_end_it_leaves_no_copies(number: int, tmp_path: Path) -> None:
    given = Path("t.csv").read_bytes()
    (tmp_path / "temporary").mkdir()
    Path("t.csv").unlink()
    place, code = 0, -1
    while code:
        place += 3
        code = run_killed_at(
            place, number, "impute", "-", "-", *OPTIONS, "--format", "csv", given=given, TMPDIR=f"{tmp_path}/temporary"
        )
        assert code in (0, 128 + number)
        assert contents().keys() == {"temporary"}
    code, place = -1, 0
    while code:
        place += 3
        code = run_killed_at(
            place,
            number,
            "impute",
            "-",
            "out.csv",
            *OPTIONS,
            "--format",
            "csv",
            given=given,
            TMPDIR=f"{tmp_path}/temporary",
        )
        assert code in (0, 128 + number)
        left = {path.name for path in Path().rglob("*") if path.is_file()}
        assert not {name for name in left if name.startswith("input.") or name.endswith((".tmp", ".lock"))}


@pytest.mark.slow
def test_told_to_end_while_it_waits_for_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "hybridbn", "impute", "-", "-", "--format", "csv"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": f"{tmp_path}/temporary"},
    )
    assert process.stdin is not None
    process.stdin.write(b"x,y\n" + b"1,2\n" * 600_000)
    process.stdin.flush()
    while not list((tmp_path / "temporary").rglob("input.csv")):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert said.decode() == "hybridbn: interrupted; nothing was written\n"
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_cleanup_that_was_broken_off_is_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    whole = os.unlink
    left = 0

    def unlink(path: object, *rest: object, **more: object) -> None:
        nonlocal left
        if "parts" in str(path) and not str(path).endswith(".tmp"):
            left -= 1
            if left <= 0:  # and nothing more is done
                raise Killed
        whole(path, *rest, **more)  # type: ignore[arg-type]

    for place in (1, 3, 7):
        left = place
        Path("out.csv").unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(os, "unlink", unlink)
            with pytest.raises(Killed):
                run(["impute", "t.csv", "out.csv", *OPTIONS])
        manifest = json.loads(Path("out.csv.parts", "manifest.json").read_text())
        assert manifest["cleared"]
        written = Path("out.csv").stat().st_mtime_ns
        assert run(["impute", "t.csv", "out.csv", *OPTIONS, "--no-clobber"]) == 0
        assert Path("out.csv").stat().st_mtime_ns == written
        assert sorted(os.listdir()) == ["out.csv", "t.csv"]


def test_an_output_that_is_gone_after_its_cleanup_began_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            Workspace,
            "clear",
            lambda workspace: workspace.put_json("manifest.json", {**workspace.json("manifest.json"), "cleared": True}),
        )
        assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    expected = Path("out.csv").read_bytes()
    Path("out.csv").unlink()
    Path("out.csv.parts", "model-0.hbn").unlink()
    assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    assert Path("out.csv").read_bytes() == expected
    assert sorted(os.listdir()) == ["out.csv", "t.csv"]


def test_pipes_of_other_runs_stay(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "temporary" / "hybridbn-other").mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    assert run(["impute", "t.csv", "out.csv", *OPTIONS]) == 0
    assert (tmp_path / "temporary" / "hybridbn-other").is_dir()
