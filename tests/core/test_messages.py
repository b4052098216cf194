"""What messages never show: passwords, signs that a terminal obeys, and more of a cell than helps to find it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from narrowing import as_continuous, as_discrete, as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.errors import escape_controls, hide_secrets, mask_secrets, tidy_message
from hybridbn.explorer.responder import as_number
from hybridbn.tables.formats.base import name_file_in_errors

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


@pytest.mark.parametrize("length", [100, 140, 155, 160, 250, 310, 320, 400])
def test_long_addresses_are_cut_after_they_are_masked(length: int) -> None:
    for address in (
        f"postgresql:me:{SECRET * 12}@host/b",
        f"postgresql://my name:{SECRET * 12} and more@host/b?table=t",
        f"mysql://host/b?PWD={SECRET * 12}&table=t",
    ):
        with pytest.raises(hb.TableError) as caught, hide_secrets(address), name_file_in_errors("t.csv"):
            raise hb.TableError(f"{length * 'a'}: {address!r}: {address}: refused")
        assert SECRET[:4] not in str(caught.value)
        assert str(caught.value).startswith("t.csv: aaaa")


REPEATED = (
    "a",
    "a.",
    ":/a:",
    ":/a:b@",
    "?pass",
    "?pass=",
    "'",
    "'\"",
    "\\'",
    "\\",
    " ",
    "pass=",
    "&table=x",
    "http://a:b?table=",
)


@pytest.mark.parametrize("repeated", REPEATED)
def test_messages_of_a_megabyte(repeated: str) -> None:
    """Whatever takes longer than in proportion to the length does not come back here for minutes."""
    text = repeated * (1_000_000 // len(repeated))
    assert len(tidy_message(text)) <= MOST
    assert len(str(hb.TableError(f"column 'x', row 3: {text!r} is not a number"))) <= MOST
    assert len(mask_secrets(text[:50_000], [text[:50_000]])) <= 100_000


# -- cells and names in messages --------------------------------------------------------------------------------------

MOST = 2400
ODD_TEXTS = {
    "huge": "a" * 80_000,
    "huge text": 'it\'s a "b", ' * 8_000,
    "huge number": "9" * 80_000 + "x",
    "huge space": "a" + " " * 80_000 + "b",
    "control": "a\x1b[2J\x07\x9b\u202e",
    "not UTF-8": "a\udcff",
    "secret": f"http://me:{SECRET}@host/b",
    "huge address": f"http://me:{SECRET}@host/{'b' * 80_000}",
}
D, X = hb.Discrete("d", ("a", "b")), hb.Continuous("x")
NET = hb.Network([hb.Multinomial(D, table=[0.5, 0.5]), hb.LinearGaussian(X, (D,), intercept=[0, 1], variance=[1, 1])])


def write_file(name: str, text: str) -> str:
    Path(name).write_bytes(text.encode("utf-8", "surrogateescape"))
    return name


def fill_arff(name: str, cell: str) -> str:
    return write_file("t.arff", f"@relation r\n@attribute '{name}' numeric\n@data\n1\n{cell}\n")


def quote(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def fill_csv(name: str, cell: str) -> str:
    return write_file("t.csv", f"{quote(name)},d\n1,a\n2,b\n{quote(cell)},a\n")


def fill_lines(name: str, cell: str) -> str:
    return write_file("t.jsonl", "".join(json.dumps({name: value}) + "\n" for value in (1, cell)))


REFUSALS: dict[str, Callable[[str], object]] = {
    "cell of CSV": lambda text: hb.read_table(fill_csv("x", text)),
    "cell of CSV wanted as number": lambda text: hb.read_table(fill_csv("x", text), continuous=["x"]),
    "cell of a scan": lambda text: hb.scan(fill_csv("x", text), continuous=["x"]).variable("x"),
    "cell of ARFF": lambda text: hb.read_table(fill_arff("x", text)),
    "states of ARFF": lambda text: hb.read_table(
        write_file("t.arff", f"@relation r\n@attribute '{text}' {{a,{' ' * 80_000}\n@data\n")
    ),
    "cell of JSON lines": lambda text: hb.read_table(fill_lines("x", text)),
    "cell of a mapping": lambda text: hb.Table({"x": [1.0, text]}),
    "cell known to a variable": lambda text: NET.log_density({"d": ["a", text], "x": [1, 2]}),
    "column of CSV": lambda text: hb.read_table(fill_csv(text, "zz")),
    "column of ARFF": lambda text: hb.read_table(fill_arff(text, "zz")),
    "column of JSON lines": lambda text: hb.read_table(fill_lines(text, "zz")),
    "column of a mapping": lambda text: hb.Table({text: [1.0, "a"]}),
    "column that is not there": lambda text: hb.Table({"x": [1.0]}).select([text]),
    "node that is not there": lambda text: NET.posterior(text),
    "evidence on a state": lambda text: NET.posterior("x", {"d": text}),
    "evidence on a number": lambda text: NET.posterior("d", {"x": text}),
    "evidence in a table": lambda text: NET.log_evidence({"d": ["a", text]}),
    "name in evidence": lambda text: NET.posterior("d", {text: 1}),
    "end of an interval": lambda text: hb.Interval(0, text),
    "state asked for": lambda text: as_discrete(NET.posterior("d")).probability(text),
    "states of a variable": lambda text: hb.Discrete("c", (text, text)),
    "name of a variable": lambda text: hb.Discrete(text, ()),
    "domain of a variable": lambda text: hb.Continuous(text, domain=(1, 0)),
    "edges": lambda text: hb.fit(f"{text}->d", {"x": [1.0], "d": ["a"]}),
    "option": lambda text: hb.impute({"x": [1.0, None]}, strategy=text),  # type: ignore[call-overload]
    "file to read": lambda text: hb.read_table(f"none/{text}.odd"),
    "file to write": lambda text: hb.Table({"x": [1.0]}).write(f"{text}.odd"),
    "BIF": lambda text: hb.read_network(write_file("n.bif", text)),
    "XDSL": lambda text: hb.read_network(write_file("n.xdsl", f"<smile><cpt id={quote(text)}/></smile>")),
    "NET": lambda text: hb.read_network(write_file("n.net", f"net {{}} node {text} {{}}")),
}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
def test_messages_show_cells_and_names_cut_and_escaped(
    refuse: Callable[[str], object], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(hb.HybridBNError) as error:
            refuse(text)
    for said in (str(error.value), *(str(warning.message) for warning in caught)):
        assert len(said) <= MOST
        assert said.encode().decode() == escape_controls(said, lines=True) == said
        assert SECRET not in said


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
def test_the_command_shows_them_cut_and_escaped(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fill_csv("x", text)
    for words in (
        ("impute", "t.csv", "out.csv"),
        ("impute", "t.csv", "out.csv", "--keep", text),
        ("impute", f"{text}.odd", "out.csv"),
        ("impute", "t.csv", f"{text}.odd"),
        ("convert", "t.csv", "n.net"),
        ("check", f"{text}.odd"),
    ):
        assert run(words) in (2, 73)
        said = capsys.readouterr().err
        assert len(said) <= MOST + 20
        assert said.encode().decode() == escape_controls(said, lines=True)
        assert SECRET not in said


HUGE = 10**400
LARGE_NUMBERS: dict[str, Callable[[], object]] = {
    "domain": lambda: hb.Continuous("y", domain=(0, HUGE)),
    "cuts": lambda: hb.Discrete("c", ("a", "b"), cuts=(HUGE,)),
    "evidence": lambda: NET.posterior("d", {"x": HUGE}),
    "evidence on a state": lambda: NET.posterior("x", {"d": HUGE}),
    "interval": lambda: NET.posterior("d", {"x": hb.Interval(0, HUGE)}),
    "likelihood": lambda: NET.posterior("x", {"d": {"a": HUGE, "b": 1}}),
    "column of numbers": lambda: hb.Table({"x": [1.0, HUGE]}, continuous=["x"]),
    "weights": lambda: hb.fit([], {"x": [1.0, 2.0]}, weights=[1, HUGE]),
    "parameter": lambda: hb.LinearGaussian(X, intercept=HUGE, variance=1),
    "table": lambda: hb.Multinomial(D, table=[HUGE, 1]),
    "point of a density": lambda: as_continuous(NET.posterior("x")).pdf(HUGE),
    "quantile": lambda: NET.posterior("x").quantile(HUGE),
    "count": lambda: NET.sample(HUGE),
    "probability of an interval": lambda: as_continuous(NET.posterior("x")).interval(HUGE),
    "bounds": lambda: hb.impute({"x": [1.0, None, 2.0]}, bounds={"x": (0, HUGE)}),
    "explorer's number": lambda: as_number(HUGE, "a number"),
}


@pytest.mark.parametrize("use", LARGE_NUMBERS.values(), ids=LARGE_NUMBERS)
def test_integers_larger_than_any_float_are_refused(use: Callable[[], object]) -> None:
    with pytest.raises((hb.HybridBNError, MemoryError)) as error:
        use()
    assert len(str(error.value)) < 600


@pytest.mark.skipif(sys.platform != "linux", reason="file systems whose names are any bytes")
def test_names_of_files_that_are_not_utf_8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"n\xff\xe9")
    rows = [f"{'' if i % 4 == 0 else i},{'ab'[i % 2]}" for i in range(12)]
    Path(f"{odd}.csv").write_text("\n".join(["x,c", *rows, ""]))
    for words in (
        ("fit", f"{odd}.csv", f"{odd}.hbn", "--target", "c"),
        ("impute", f"{odd}.csv", f"{odd}.parquet", "--report", f"{odd}.html", "--save-model", f"{odd}2.hbn"),
        ("explore", f"{odd}.hbn", "--html", f"{odd}2.html"),
        ("query", f"{odd}.hbn", "c"),
        ("convert", f"{odd}.csv", f"{odd}.arff"),
        ("convert", f"{odd}.csv", f"sqlite:///{odd}.db?table=t"),
        ("check", f"sqlite:///{odd}.db?table=t"),
    ):
        assert run(words) == 0, capsys.readouterr().err
    for page in (f"{odd}.html", f"{odd}2.html"):
        assert r"n\udcff\udce9" in Path(page).read_text("utf-8")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.arff", "t.jsonl", "t.parquet", "t.feather"])
def test_tables_that_have_no_form_in_utf_8(name: str, tmp_path: Path) -> None:
    for table in (hb.Table({"a\udcff": ["b", "c"]}), hb.Table({"a": ["b\udcff", "c"]})):
        with pytest.raises(hb.HybridBNError, match=r"(?i)utf-8"):
            table.write(tmp_path / name)


@pytest.mark.parametrize("name", ["n.bif", "n.xmlbif", "n.xdsl", "n.net", "n.uai", "n.elv", "n.hbn"])
def test_networks_that_have_no_form_in_utf_8(name: str, tmp_path: Path) -> None:
    odd = hb.Discrete("a\udcff", ("b\udcfe", "c"))
    net = hb.Network([hb.Multinomial(odd, table=[0.25, 0.75])])
    if name == "n.hbn":
        net.save(tmp_path / name)
        assert as_kind(hb.Network, hb.load(tmp_path / name)).variable(odd.name) == odd
    else:
        with pytest.raises(hb.HybridBNError, match=r"can't be (written|printed)"):
            hb.write_network(net, tmp_path / name)
    assert r"a\udcff" in net._repr_html_().encode().decode()
    assert r"a\udcff" in net.posterior(odd.name)._repr_html_().encode().decode()


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
