"""``hybridbn convert``, as it is run."""

import numpy as np
import pandas as pd
import pytest
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.commands.cli import run


@pytest.fixture
def network(tmp_path):
    c, x = hb.Discrete("c", ("a", "b")), hb.Continuous("x")
    d = hb.Discrete("d", ("u", "v", "w"))
    tables = [hb.Multinomial(c, table=[0.3, 0.7]), hb.Multinomial(d, (c,), table=[[0.2, 0.3, 0.5], [1.0, 0.0, 0.0]])]
    hb.Network(tables).save(tmp_path / "tables.hbn")
    mixed = [*tables, hb.LinearGaussian(x, parents=(c,), intercept=[0, 1], variance=[1, 2])]
    hb.Network(mixed).save(tmp_path / "mixed.hbn")
    return tmp_path


def test_around_the_formats(network, capsys):
    before = network / "tables.hbn"
    for suffix in ("bif", "xdsl", "elv", "net", "uai", "xmlbif", "bif.gz", "hbn"):
        after = network / f"next.{suffix}"
        assert run(["convert", str(before), str(after)]) == 0
        before = after
    found = hb.read_network(before)
    np.testing.assert_array_equal(
        as_kind(hb.Multinomial, found.potential("d")).table,
        as_kind(hb.Multinomial, as_kind(hb.Network, hb.load(network / "tables.hbn")).potential("d")).table,
    )
    assert capsys.readouterr().err == ""


def test_what_a_format_can_not_hold(network, capsys):
    assert run(["convert", str(network / "mixed.hbn"), str(network / "mixed.bif")]) == 2
    assert "'x'" in (said := capsys.readouterr().err) or "x" in said
    assert not (network / "mixed.bif").exists()
    assert run(["convert", str(network / "mixed.hbn"), str(network / "mixed.bif"), "--bins", "12"]) == 0
    assert "warning" in capsys.readouterr().err
    assert len(as_discrete(hb.read_network(network / "mixed.bif").variable("x"))) >= 12
    assert run(["convert", str(network / "mixed.hbn"), str(network / "mixed.xdsl")]) == 0


def test_tables(tmp_path, capsys):
    frame = pd.DataFrame({"x": [1.5, None, 2.0], "c": ["a", None, "b"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    database = f"sqlite:///{tmp_path / 'f.db'}?table=t"
    assert run(["convert", str(tmp_path / "t.csv"), database]) == 0
    assert run(["convert", database, str(tmp_path / "t.arff")]) == 0
    assert hb.read_table(tmp_path / "t.arff").missing == {"x": 1, "c": 1}
    assert run(["convert", str(tmp_path / "t.csv"), database]) == 73
    assert capsys.readouterr().err.endswith("there is such a table already; choose a new name\n")


@pytest.mark.parametrize(
    ("names", "code", "message"),
    [
        (("tables.hbn", "t.csv"), 2, "both must be of one kind"),
        (("nowhere.bif", "t.hbn"), 2, "there is no file"),
        (("tables.hbn", "tables.hbn"), 2, "same file"),
        (("tables.hbn", "mixed.hbn", "--no-clobber"), 73, "already"),
        (("tables.hbn", "t.what"), 2, "t.what: the suffix tells no known format"),
        (("tables.hbn", "t.bif", "--delimiter", ";"), 2, "--delimiter is for tables"),
        (("tables.hbn", "nowhere/t.bif"), 2, "there is no folder"),
        (("tables.hbn", "t.hbn.gz"), 2, "leave .gz out"),
        (("mixed.hbn", "t.bif"), 2, "--bins 10"),
    ],
)
def test_bad_requests(network, capsys, names, code, message):
    arguments = [str(network / name) if name.count(".") else name for name in names]
    assert run(["convert", *arguments]) == code
    assert message in capsys.readouterr().err


def test_pipes_are_not_converted(network, capsys):
    assert run(["convert", str(network / "tables.hbn"), "-"]) == 2
    assert "not pipes" in capsys.readouterr().err


def test_tables_with_other_signs(tmp_path, capsys):
    source, target = str(tmp_path / "t.csv"), str(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes("größe;k\n1.5;1\n-99;2\n".encode("latin-1"))
    assert run(["convert", source, target]) == 0
    assert capsys.readouterr().err == "hybridbn: read as: ';' between cells, cp1252\n"
    assert hb.read_table(target)["größe"].tolist() == [1.5, -99]
    options = ["--encoding", "latin-1", "--delimiter", ";", "--missing", "-99", "--discrete", "k"]
    assert run(["convert", source, target, *options]) == 0
    table = hb.read_table(target)
    assert table.missing == {"größe": 1, "k": 0}
    assert as_discrete(table.variable("k")).states == (1, 2)


def test_passwords_are_not_shown(network, capsys):
    assert run(["convert", str(network / "tables.hbn"), "postgresql://me:secret@host/b?table=t"]) == 2
    assert "secret" not in capsys.readouterr().err
