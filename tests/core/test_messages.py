"""What messages never show: passwords, and signs that a terminal obeys."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.commands.terminal import escape_controls
from hybridbn.errors import mask_secrets

ROOT = Path(__file__).resolve().parents[2]
SECRET = "Hunter2x"
ADDRESSES = (
    "http://me:%s@host/f.csv",
    "s3://key:%s@bucket/f.csv",
    "ftp://me:%s@host/f.csv",
    "postgresql://me:%s@host/b?table=t",
    "POSTGRESQL://ME:%s@HOST/B?table=t",
    "postgresql+psycopg://me:%s@host:5432/b?schema=s&table=t",
    "postgresql://me:%s and more@host/b?table=t",
    "postgresql://me:%s\nand more@host/b?table=t",
    "postgresql://my name:%s@host/b?table=t",
    "postgresql://my/name:%s@host/b?table=t",
    "postgresql://me:a@%s@host/b?table=t",
    "postgresql://me:a/%s@host/b?table=t",
    "postgresql://me:a?table=%s@host/b?table=t",
    "postgresql://me:%%20%s@host/b?table=t",
    "postgresql://me:%s#@host/b?table=t",
    "postgresql://me:%s@host/b?query=SELECT '@'",
    "postgresql:/me:%s@host/b?table=t",
    "postgresql:me:%s@host/b",
    "me:%s@host/b?table=t",
    "postgresql://me:%s@host/b",
    "postgresql://host/b?PASSWORD=%s&table=t",
    "postgresql://host/b?sslpassword=%s&table=t",
    "postgresql://host/b?passwd={%s}&table=t",
    "postgresql://host/b?table=t&password=%s",
    "postgresql://host/b?options=-c%%20password%%3D%s&table=t",
    "bigquery://project?token=%s&table=t",
    "bigquery://project?credentials_base64=%s&table=t",
    "https://host/f.csv?access_token=%s",
    "https://host/f.csv?AWSAccessKeyId=a&Signature=%s",
    "https://host/f.csv?sv=2020&sig=%s",
    "mssql+pyodbc:///?odbc_connect=DRIVER%%3D%%7BX%%7D%%3BPWD%%3D%s%%3BUID%%3Dme&table=t",
    "mssql+pyodbc:///?odbc_connect=DRIVER={X};PWD=%s;UID=me&table=t",
    "jdbc:postgresql://host/b?user=me&password=%s&table=t",
    "jdbc:sqlserver://host;user=me;password=%s",
    "sqlite+pysqlcipher://:%s@/f.db?table=t",
    "adbc+nowhere://me:%s@host/b?table=t",
    "mysql://me:#%s@host/b?table=t",
)


@pytest.mark.parametrize("form", ADDRESSES)
def test_no_message_shows_a_password(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=OSError("no network")))  # drivers may be installed
    Path("t.csv").write_text("x,c\n1,a\n,b\n3,a\n")
    address = form % SECRET
    with pytest.raises((hb.HybridBNError, OSError)) as caught:
        hb.read_table(address)
    assert SECRET not in str(caught.value)
    with pytest.raises((hb.HybridBNError, OSError)) as caught:
        hb.read_table("t.csv").write(address)
    assert SECRET not in str(caught.value)
    calls = (
        ("impute", address, "out.csv"),
        ("impute", "t.csv", address),
        ("convert", address, "out.csv"),
        ("convert", "t.csv", address),
        ("convert", address, address),
        ("impute", "t.csv", "out.csv", "--report", f"{address}/none/r.html"),
    )
    for words in calls:
        assert run(words) in (2, 73)
        assert SECRET not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        run(["impute", "t.csv", "out.csv", "--unknown-option", address])
    assert SECRET not in capsys.readouterr().err


def test_messages_stay_readable() -> None:
    for address, shown in (
        ("postgresql://me:pw@host/b?table=t", "postgresql://me:***@host/b?table=t"),
        ("postgresql://post:post@host/b?table=posts", "postgresql://***:***@host/b?table=posts"),
        ("sqlite:///my@file.db?query=SELECT token FROM t WHERE c = 'a:b@c'", None),
        ("postgresql://me@host/b?query=SELECT 1 AS password", None),
        ("data/a b@home.csv", None),
        (r"C:\data\a@b.csv", None),
    ):
        assert mask_secrets(address, [address]) == (shown or address)
    assert mask_secrets("refused: 'mysql://a:b@h/x' and PWD", ()) == "refused: 'mysql://a:***@h/x' and PWD"


# -- terminals --------------------------------------------------------------------------------------------------------


def test_control_sequences_are_shown_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = "\x1b[2J\x07\x9b\u202e"
    lines = (f"{hostile},y,c", f"1,,{hostile}", "2,3,b", f",4,{hostile}", "5,5,b", "1,2,b", "3,,b")
    Path("t.csv").write_text("\n".join(lines) + "\n")
    name = "t\x1b]0;title\x07.csv"
    Path(name).write_text(Path("t.csv").read_text())
    assert run(["impute", "t.csv", "out.csv", "--show"]) == 0
    assert run(["impute", name, "out.csv", "--keep", f"z{hostile}"]) == 2
    assert run(["impute", name.replace(".csv", ".odd"), "out.csv"]) == 2
    assert run(["convert", name, f"{hostile}.odd"]) == 2
    Path("t.csv").write_text(f"{hostile},c\n,a\n,b\n")
    assert run(["impute", "t.csv", "out.csv"]) == 0  # a column without any value is left alone, and named
    with pytest.raises(SystemExit):
        run(["impute", hostile, "--sample", hostile])
    said = capsys.readouterr()
    assert "\\x1b[2J" in said.out
    assert "\\x1b[2J" in said.err
    for text in (said.out, said.err):
        assert escape_controls(text, lines=True) == text


def run_with(redirection: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = " ".join(f"'{word}'" for word in (sys.executable, "-m", "hybridbn", *words))
    return subprocess.run(
        ["sh", "-c", f"{command} {redirection}"],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=300,
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="redirections of a shell")
def test_closed_and_full_streams(tmp_path: Path) -> None:
    table = "x,c\n" + "".join(f"{'' if i % 4 == 0 else i % 5},{'ab'[i % 2]}\n" for i in range(40))
    (tmp_path / "t.csv").write_text(table)
    done = run_with("<&-", "impute", "-", "out.csv", "--format", "csv", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "hybridbn: INPUT is a pipe, but standard input is closed\n")
    done = run_with(">&-", "impute", "t.csv", "-", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "hybridbn: OUTPUT is a pipe, but standard output is closed\n")
    done = run_with("2>&-", "impute", "nowhere.csv", "-", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert os.listdir(tmp_path) == ["t.csv"]
    if Path("/dev/full").exists():
        done = run_with(">/dev/full", "impute", "t.csv", "out.csv", "--show", folder=tmp_path)
        assert done.returncode == 74
        assert done.stderr == (
            "hybridbn: the output is there, complete, but its rows can't be shown: No space left on device\n"
        )
        assert (tmp_path / "out.csv").read_text().count("\n") == 41
        done = run_with(">/dev/full", "impute", "t.csv", "-", folder=tmp_path)
        assert done.returncode == 74
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("encoding", ["rot13", "base64", "zip", "hex", "undefined", "nonsense", "a\0b"])
def test_what_is_no_encoding_of_text(
    encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = hb.Table({"x": [1.0, None, 3.0], "c": ["a", "b", "a"]})
    for name in ("t.csv", "t.arff"):
        table.write(name)
        with pytest.raises(hb.FormatError, match="no encoding"):
            hb.read_table(name, encoding=encoding)
        with pytest.raises(hb.FormatError, match="no encoding"):
            table.write(f"new-{name}", encoding=encoding)
        assert run(["impute", name, "out.csv", "--encoding", encoding]) == 2
        assert run(["convert", name, "out.csv", "--encoding", encoding]) == 2
        assert capsys.readouterr().err.count("no encoding") == 2
    with pytest.raises(hb.FormatError, match="no encoding"):
        hb.read_table(Path("t.dbc") if Path("t.dbc").write_text("data-base t {}") else "", encoding=encoding)
    assert sorted(os.listdir()) == ["t.arff", "t.csv", "t.dbc"]
