"""Networks and tables packed with gzip, and files that would inflate without end."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from narrowing import as_kind

import hybridbn as hb
from hybridbn.commands.cli import run

NETWORKS = (".bif", ".xdsl", ".elv", ".net", ".uai", ".xmlbif")


def coin():
    c, d = hb.Discrete("c", ("a", "b")), hb.Discrete("d", ("u", "v", "w"))
    return hb.Network(
        [hb.Multinomial(c, table=[0.3, 0.7]), hb.Multinomial(d, (c,), table=[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])]
    )


@pytest.mark.parametrize("suffix", NETWORKS)
def test_networks_are_packed_and_unpacked(suffix, tmp_path):
    net, path = coin(), tmp_path / f"n{suffix}.gz"
    hb.write_network(net, path)
    hb.write_network(net, tmp_path / f"n{suffix}")
    assert gzip.decompress(path.read_bytes()) == (tmp_path / f"n{suffix}").read_bytes()
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, hb.read_network(path).potential("d")).table, net.potential("d").table
    )
    first = path.read_bytes()
    hb.write_network(net, path)
    assert path.read_bytes() == first
    path.write_bytes(first[:-9])
    with pytest.raises(hb.FormatError, match="truncated"):
        hb.read_network(path)


def test_hybridbns_own_files_are_not_packed(tmp_path):
    with pytest.raises(hb.FormatError, match=r"leave \.gz out"):
        hb.write_network(coin(), tmp_path / "n.hbn.gz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".arff", ".jsonl"])
def test_tables_are_packed_and_unpacked(suffix, tmp_path):
    table = hb.Table({"x": [1.5, None, 2.0], "c": ["a", "b", None]})
    path = tmp_path / f"t{suffix}.gz"
    table.write(path)
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert hb.read_table(path).equals(table)
    assert run(["convert", str(path), str(tmp_path / "again.csv.gz")]) == 0
    assert hb.read_table(tmp_path / "again.csv.gz").missing == {"x": 1, "c": 1}


def test_a_data_base_of_elvira_may_be_packed(tmp_path):
    text = (
        "data-base d {\nnumber-of-cases = 2;\nnode c(finite-states) { states = (a b); }\nrelation {\nmemory = "
        "2;\ncases = ( [a] [?] "
        ");\n}\n}\n"
    )
    (tmp_path / "t.dbc").write_text(text)
    (tmp_path / "t.dbc.gz").write_bytes(gzip.compress(text.encode()))
    try:
        plain = hb.read_table(tmp_path / "t.dbc")
    except hb.FormatError as error:
        with pytest.raises(hb.FormatError, match=str(error).split(": ", 1)[1][:20]):
            hb.read_table(tmp_path / "t.dbc.gz")
    else:
        assert hb.read_table(tmp_path / "t.dbc.gz").equals(plain)


def bomb(path: Path, start: bytes, unit: bytes, size: int) -> None:
    with gzip.open(path, "wb", 6) as file:
        file.write(start)
        block = unit * ((1 << 20) // len(unit))
        for _ in range(size >> 20):
            file.write(block)


BOMBS = [
    ("n.bif.gz", b"network n {}\n", b" "),
    ("n.xdsl.gz", b"<smile><nodes>", b"<a/>"),
    ("n.xml.gz", b"<BIF><NETWORK>", b"x"),
    ("n.elv.gz", b'bnet "n" {', b"//\n"),
    ("n.net.gz", b"net {}", b"%\n"),
    ("n.uai.gz", b"BAYES 2 ", b"2 "),
    ("t.csv.gz", b"x,c\n", b"1.5,abc\n"),
    ("t.csv.gz", b"x,c\n", b"\n"),
    ("t.csv.gz", b"x,c\n", b"a"),
    ("t.arff.gz", b"@relation r\n@attribute x numeric\n@data\n", b"1\n"),
    ("t.jsonl.gz", b"", b'{"x":1}\n'),
    ("t.dbc.gz", b"data-base d {", b"//\n"),
]
DAILY = ("n.xml.gz", "t.arff.gz")
"""The bombs of every day; the others are slow tests."""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of memory is read from Linux")
@pytest.mark.parametrize(
    ("name", "start", "unit"),
    [pytest.param(*bomb, marks=() if bomb[0] in DAILY else pytest.mark.slow) for bomb in BOMBS],
)
def test_bombs_take_no_memory(name, start, unit, tmp_path):
    path = tmp_path / name
    bomb(path, start, unit, 48 << 20)
    assert path.stat().st_size < 3 << 20
    reader = "read_network" if name.startswith("n") else "read_table"
    code = f"""
import re, hybridbn as hb
import hybridbn.tables.formats, hybridbn.exchange, hybridbn.tables.formats.delimited
def peak():
    return int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
before = peak()
try:
    hb.{reader}({str(path)!r})
except hb.HybridBNError as error:
    print(type(error).__name__, peak() - before, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    kind, memory, *words = done.stdout.split()
    print(name, kind, int(memory) >> 10, "MB", *words)
    assert kind in ("FormatError", "TableError")
    assert int(memory) < 200 << 10
