"""The verbs of the command that learn, ask, predict, show and check, and what all verbs have in common."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous, as_discrete, as_kind

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.commands.models import parse_evidence
from hybridbn.commands.verb import Verb, list_verbs, make_parser

ROOT = Path(__file__).resolve().parents[2]
VERBS = ("check", "fit", "show", "explore", "query", "predict", "impute", "convert", "completion")

C = hb.Discrete("c", states=("no", "yes"))
K = hb.Discrete("k", states=(1, 2, 3))
DAY = hb.Continuous("day", unit=hb.Unit("date", pattern="%Y-%m-%d"))


def make_network() -> hb.Network:
    x, odd = hb.Continuous("x"), hb.Discrete("a=b", states=("p", "q,r", "12:30"))
    return hb.Network(
        [
            hb.Multinomial(C, table=[0.3, 0.7]),
            hb.Multinomial(K, parents=(C,), table=[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]),
            hb.LinearGaussian(x, parents=(C,), intercept=[0, 2], variance=[1, 1]),
            hb.LinearGaussian(DAY, parents=(C,), intercept=[19000, 19100], variance=[400, 400]),
            hb.Multinomial(odd, parents=(C,), table=[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]),
        ]
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, the working directory of the test, with a model and a table."""
    monkeypatch.chdir(tmp_path)
    make_network().save("model.hbn")
    rng = np.random.default_rng(3)
    c = rng.random(60) < 0.7
    frame = pd.DataFrame(
        {
            "id": [f"P{i:03d}" for i in range(60)],
            "c": np.where(c, "yes", "no"),
            "k": np.where(c, 3, 1),
            "x": np.round(rng.normal(2 * c, 1), 3),
            "day": [f"2022-{1 + i % 12:02d}-{1 + i % 27:02d}" for i in range(60)],
        }
    )
    frame.loc[::7, "x"] = np.nan
    frame.loc[::5, "k"] = np.nan
    frame["k"] = frame["k"].astype("Int64")
    frame.to_csv("table.csv", index=False)
    return tmp_path


def said_by(capsys: pytest.CaptureFixture[str], command: str, *words: str, code: int = 0) -> tuple[str, str]:
    """Run a command and return what it wrote on standard output and standard error."""
    capsys.readouterr()
    try:
        ended: object = run([*shlex.split(command), *words])
    except SystemExit as error:
        ended = error.code
    said = capsys.readouterr()
    assert ended == code, said.err
    assert "Traceback" not in said.err
    return said.out, said.err


# -- what all verbs have in common -------------------------------------------------------------------------------------


def test_verbs_are_found_by_name() -> None:
    assert set(VERBS) <= set(list_verbs())
    assert all(Verb.registry.find(name) is not None for name in VERBS)
    assert Verb.registry.find("no such verb") is None


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_before_options_and_they_parse(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = said_by(capsys, verb, "--help")
    assert text.index("\nexamples:\n") < text.index("\noptions:\n") < text.index("\nexit codes:\n")
    examples = text.partition("\nexamples:\n")[2].partition("\n\n")[0].splitlines()
    assert examples
    for line in examples:
        words = shlex.split(line.replace("$(", " ").replace(")", " ").replace('"', " ").partition("  in ~")[0])
        words = words[words.index("hybridbn") + 1 :]
        for stop in ("|", ">"):
            words = words[: words.index(stop)] if stop in words else words
        assert make_parser().parse_args(words).verb is Verb.registry.find(verb)


def test_shared_options_mean_the_same_everywhere() -> None:
    [commands] = [action for action in make_parser()._actions if hasattr(action, "choices") and action.choices]
    options: dict[str, set[tuple[object, ...]]] = {}
    for command in as_kind(dict, commands.choices).values():
        for action in command._actions:
            for name in action.option_strings:
                options.setdefault(name, set()).add((action.nargs, str(action.default), action.metavar))
    assert {name for name, kinds in options.items() if len(kinds) > 1} == set()


def test_help_imports_no_heavy_library() -> None:
    code = """
import sys
from hybridbn.commands.cli import run
for words in (["--help"], *([verb, "--help"] for verb in ("query", "predict", "show", "check", "convert"))):
    try:
        run(words)
    except SystemExit:
        pass
print([name for name in ("numpy", "pandas", "scipy", "pyarrow") if name in sys.modules], file=sys.stderr)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("fitt table.csv m.hbn", "did you mean fit?"),
        ("fit table.csv m.hbn --structre tan", "did you mean --structure?"),
        ("fit table.csv m.hbn --structure tann", "did you mean 'tan'?"),
        ("fit table.csv m.hbn --potentials gausian", "did you mean 'gaussian'?"),
        ("fit table.csv m.hbn --structure tan", "name it with --target"),
        ("fit table.csv m.hbn --structure tan --target cc", "did you mean 'c'?"),
        ("fit table.csv m.hbn --structure 'c -> xx'", "did you mean 'x'?"),
        ("fit table.csv m.txt", ".hbn"),
        ("fit nowhere.csv m.hbn", "there is no file"),
        ("fit table.csv nowhere/m.hbn", "there is no folder"),
        ("fit table.csv m.hbn --frmat csv", "did you mean --format?"),
        ("query model.hbn cc", "did you mean 'c'?"),
        ("query model.hbn c kk=1", "did you mean 'k'?"),
        ("query model.hbn c k=4", "its states are 1, 2, 3"),
        ("query model.hbn c x=abc", "takes a number"),
        ("query model.hbn c x=3:1", "low < high"),
        ("query model.hbn c day=noon", "takes a date"),
        ("query model.hbn c x", "name=value"),
        ("query model.hbn c x=1 x=2", "given twice"),
        ("query model.hbn c --level 2", "between 0 and 1"),
        ("query nowhere.hbn c", "there is no file"),
        ("query table.csv c", "no network format"),
        ("predict model.hbn table.csv out.csv", "--target"),
        ("predict model.hbn table.csv out.csv --target y", "its nodes are"),
        ("predict model.hbn table.csv table.csv --target c", "is the input"),
        ("predict model.hbn table.csv model.hbn --target c --to csv", "is the model"),
        ("predict model.hbn table.csv out.csv --target c --unknown drop", "choose from"),
        ("show model.hbn --jsn", "did you mean --json?"),
        ("check nowhere.csv", "there is no file"),
        ("completion bsh", "did you mean bash?"),
        ("impute table.csv out.csv --structure tann", "did you mean 'tan'?"),
        ("impute table.csv out.csv --structure tan --target cc", "did you mean 'c'?"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_mistakes_are_told_with_a_remedy(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(os.listdir())
    _, err = said_by(capsys, words, code=2)
    assert hint in " ".join(err.split())
    assert sorted(os.listdir()) == before


@pytest.mark.usefixtures("folder")
def test_options_on_models_are_checked_before_the_table_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the table was read")

    monkeypatch.setattr("hybridbn.commands.table_input.profile_columns", refuse)
    for words in (
        "fit table.csv m.hbn --structure tann --target c",
        "fit table.csv m.hbn --structure tan --target cc",
        "fit table.csv m.hbn --structure 'c -> xx'",
        "impute table.csv out.csv --structure tann",
        "impute table.csv out.csv --keep zz",
        "impute table.csv out.csv --potentials gausian",
    ):
        said_by(capsys, words, code=2)


# -- fit and check -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_fit_learns_what_the_library_learns(capsys: pytest.CaptureFixture[str]) -> None:
    from hybridbn.structures import tan

    out, err = said_by(capsys, "fit table.csv m.hbn --structure tan --target c --potentials gaussian --discrete k")
    assert out == ""
    assert "columns left alone: 'id'" in err
    network = as_kind(hb.Network, hb.load("m.hbn"))
    table = hb.read_table("table.csv", discrete=["k"]).drop("id")
    expected = tan(table, "c", potentials="gaussian")
    assert set(network.edges) == set(expected.edges)
    assert network.log_density(table) == pytest.approx(expected.log_density(table))
    assert as_continuous(network.variable("day")).unit is not None


@pytest.mark.usefixtures("folder")
def test_fit_takes_arcs_pipes_and_other_formats(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said_by(capsys, "fit table.csv m.xdsl --structure 'c -> x; k' --potentials gaussian --discrete k --keep day,id")
    assert set(hb.read_network("m.xdsl").edges) == {("c", "x")}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("table.csv").read_bytes())))
    said_by(capsys, "fit - m.hbn --format csv --structure hill_climb --potentials gaussian")
    assert set(as_kind(hb.Network, hb.load("m.hbn"))) == {"c", "k", "x", "day"}
    _, err = said_by(capsys, "fit table.csv m.bif --structure tan --target c --keep day", code=2)
    assert "--bins" in err
    said_by(capsys, "fit table.csv m.bif --structure tan --target c --keep day --bins 4")
    assert len(as_discrete(hb.read_network("m.bif").variable("x")).states) == 4
    said_by(capsys, "fit table.csv m.hbn --no-clobber --structure chow_liu", code=73)


@pytest.mark.usefixtures("folder")
def test_check_tells_what_is_odd_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.read_csv("table.csv").assign(one="s", nothing=None, share=[f"{i} %" for i in range(60)])
    frame["marked"] = np.where(np.arange(60) % 6 == 0, -99.0, np.linspace(0, 1, 60))
    frame.to_csv("odd.csv", index=False)
    out, _ = said_by(capsys, "check", "odd.csv", "--json")
    told = json.loads(out)
    columns = {column["column"]: column for column in told["columns"]}
    assert told["rows"] == 60
    kinds = {"id": "states", "c": "states", "x": "number", "share": "percent", "day": "date", "nothing": "nothing"}
    assert {name: columns[name]["kind"] for name in kinds} == kinds
    assert columns["x"]["missing"] == 9
    for name, word in (
        ("id", "left alone"),
        ("one", "only one value"),
        ("nothing", "no value"),
        ("marked", "-99"),
    ):
        assert word in columns[name]["remark"], name
    assert columns["c"]["remark"] == ""
    out, _ = said_by(capsys, "check", "odd.csv")
    assert out.splitlines()[0] == "column,kind,missing,values,remark"
    out, _ = said_by(capsys, "check", "model.hbn")
    assert out.splitlines() == ["nodes,arcs,faults", "5,4,0"]
    Path("bad.hbn").write_bytes(Path("model.hbn").read_bytes()[:-50])
    said_by(capsys, "check", "bad.hbn", code=2)


# -- query and show ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "evidence"),
    [
        ([], {}),
        (["k=3"], {"k": 3}),
        (["x=1.5", "k=1"], {"x": 1.5, "k": 1}),
        (["x=0:1"], {"x": hb.Interval(0, 1)}),
        (["x=1e0:"], {"x": hb.Interval(1)}),
        (["x=:-1"], {"x": hb.Interval(high=-1)}),
        (["k={1,2}"], {"k": {1, 2}}),
        (["k={1:0.5,3:2}"], {"k": {1: 0.5, 3: 2.0}}),
        (["a=b=p"], {"a=b": "p"}),
        (["a=b=q,r"], {"a=b": "q,r"}),
        (["a=b=12:30"], {"a=b": "12:30"}),
        (['a=b={"q,r",12:30}'], {"a=b": {"q,r", "12:30"}}),
        (["day=2022-03-01"], {"day": "2022-03-01"}),
        (["day=2022-03-01:"], {"day": hb.Interval("2022-03-01")}),
        (["day=2022-03-01:2022-04-01"], {"day": hb.Interval("2022-03-01", "2022-04-01")}),
    ],
)
@pytest.mark.usefixtures("folder")
def test_query_is_the_posterior(
    words: list[str], evidence: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    network = make_network()
    exact = network.posterior("c", evidence)
    out, _ = said_by(capsys, "query", "model.hbn", "c", *words, "--json")
    told = json.loads(out)
    assert told["states"] == ["no", "yes"]
    assert told["probabilities"] == pytest.approx(as_discrete(exact).probabilities.tolist(), abs=1e-12)
    assert told["log_evidence"] == pytest.approx(exact.log_evidence, abs=1e-9)
    if "x" not in evidence:
        out, _ = said_by(capsys, "query", "model.hbn", "x", *words, "--level", "0.8")
        header, *lines = [line.split(",") for line in out.splitlines()]
        assert header == ["variable", "statistic", "state", "value"]
        number = network.posterior("x", evidence)
        told = {statistic: float(value) for _, statistic, _, value in lines}
        low, high = number.interval(0.8)
        wanted = {"mean": number.mean(), "sd": number.std(), "low": low, "median": number.median(), "high": high}
        assert told == pytest.approx(wanted, abs=1e-9)


def test_words_mean_the_states_of_their_variables() -> None:
    truth = hb.Discrete("t", states=(True, False))
    cut = hb.Discrete("z", states=("low", "high"), cuts=(2.0,))
    network = hb.Network([hb.Multinomial(truth, table=[0.5, 0.5]), hb.Multinomial(cut, table=[0.5, 0.5])])
    assert parse_evidence(network, ["t=True", "z=1.5"]) == {"t": True, "z": 1.5}
    assert parse_evidence(network, ["z=high"]) == {"z": "high"}


@pytest.mark.usefixtures("folder")
def test_impossible_evidence_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    c, d = hb.Discrete("c", states=("a", "b")), hb.Discrete("d", states=("a", "b"))
    tables = [hb.Multinomial(c, table=[1, 0]), hb.Multinomial(d, parents=(c,), table=[[1, 0], [0, 1]])]
    hb.Network(tables).save("sure.hbn")
    _, err = said_by(capsys, "query", "sure.hbn", "c", "d=b", code=2)
    assert "impossible" in err or "probability zero" in err


@pytest.mark.usefixtures("folder")
def test_show_lists_nodes_and_beliefs(capsys: pytest.CaptureFixture[str]) -> None:
    network = make_network()
    out, _ = said_by(capsys, "show", "model.hbn", "--text")
    assert str(network) in out
    assert "yes  " in out
    assert "\x1b" not in out
    told = {node["name"]: node for node in json.loads(said_by(capsys, "show", "model.hbn", "--json")[0])["nodes"]}
    assert told["k"]["parents"] == ["c"]
    assert told["k"]["probabilities"] == pytest.approx(as_discrete(network.posterior("k")).probabilities.tolist())
    assert told["day"]["mean"].startswith("2022-")
    out, _ = said_by(capsys, "show", "model.hbn")
    assert len(out.splitlines()) == 1 + 2 + 3 + 5 + 5 + 3


# -- predict -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "jsonl", "feather", "arff"])
@pytest.mark.usefixtures("folder")
def test_predict_adds_the_posterior_of_each_row(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    network = make_network()
    evidence = hb.read_table("table.csv", discrete=["k"]).select(["k", "x", "day"])
    _, err = said_by(capsys, f"predict model.hbn table.csv out.{suffix} --target c --chunk 7")
    assert "a=b" in err
    made = hb.read_table(f"out.{suffix}")
    exact = network.posterior("c", evidence)
    added = ("c_predicted", "c_probability_no", "c_probability_yes")
    assert made.names == ("id", "c", "k", "x", "day", *added)
    assert made["c_probability_yes"] == pytest.approx(as_discrete(exact).probabilities[:, 1], abs=1e-12)
    assert list(made.raw("c_predicted")) == list(exact.mode())
    assert made["x"] == pytest.approx(hb.read_table("table.csv")["x"], nan_ok=True)
    said_by(capsys, f"predict model.hbn table.csv number.{suffix} --target x --level 0.5 --prefix p.")
    made = hb.read_table(f"number.{suffix}")
    given = hb.read_table("table.csv", discrete=["k"]).select(["c", "k", "day"])
    exact = network.posterior("x", given)
    assert made["p.mean"] == pytest.approx(exact.mean(), abs=1e-9)
    assert made["p.sd"] == pytest.approx(exact.std(), abs=1e-9)
    assert np.stack([made["p.low"], made["p.high"]], axis=1) == pytest.approx(exact.interval(0.5), abs=1e-9)


@pytest.mark.usefixtures("folder")
def test_predictions_do_not_depend_on_blocks_and_keep_every_cell(capsys: pytest.CaptureFixture[str]) -> None:
    for chunk in (1, 13, 1000):
        said_by(capsys, f"predict model.hbn table.csv {chunk}.csv --target day --chunk {chunk}")
    assert Path("1.csv").read_bytes() == Path("13.csv").read_bytes() == Path("1000.csv").read_bytes()
    lines, given = Path("1.csv").read_text().splitlines(), Path("table.csv").read_text().splitlines()
    assert all(line.startswith(f"{row},") for line, row in zip(lines, given, strict=True))
    assert lines[0].endswith(",day_mean,day_sd,day_low,day_high")
    assert lines[1].split(",")[5].startswith("202")


@pytest.mark.usefixtures("folder")
def test_predict_goes_through_databases_and_pipes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said_by(capsys, "predict model.hbn table.csv sqlite:///s.db?table=p --target c")
    said_by(capsys, "predict model.hbn table.csv sqlite:///s.db?table=p --target c", code=73)
    out, _ = said_by(capsys, "predict model.hbn sqlite:///s.db?table=p - --to csv --target x")
    assert len(out.splitlines()) == 61
    assert out.splitlines()[0].endswith("c_probability_yes,x_mean,x_sd,x_low,x_high")
    said_by(capsys, "predict model.hbn table.csv out.csv --target c")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("table.csv").read_bytes())))
    out, _ = said_by(capsys, "predict model.hbn - - --format csv --target c")
    assert out == Path("out.csv").read_text()


@pytest.mark.usefixtures("folder")
def test_predict_says_what_rows_and_states_it_cannot_use(capsys: pytest.CaptureFixture[str]) -> None:
    c, d = hb.Discrete("c", states=("a", "b")), hb.Discrete("d", states=("a", "b"))
    tables = [hb.Multinomial(c, table=[1, 0]), hb.Multinomial(d, parents=(c,), table=[[1, 0], [0, 1]])]
    hb.Network(tables).save("sure.hbn")
    Path("d.csv").write_text("d\na\nb\na\n")
    _, err = said_by(capsys, "predict sure.hbn d.csv out.csv --target c")
    assert "(1): line 3" in err
    made = pd.read_csv("out.csv")
    assert made["c_predicted"].isna().tolist() == [False, True, False]
    Path("e.csv").write_text("d\na\nz\n")
    _, err = said_by(capsys, "predict sure.hbn e.csv e_out.csv --target c", code=2)
    assert "never seen" in err
    numbers = hb.Multinomial(hb.Discrete("d", states=(1, 2)), parents=(c,), table=[[1, 0], [0, 1]])
    hb.Network([tables[0], numbers]).save("numbers.hbn")
    Path("f.csv").write_text("d\n1\n7\n")
    _, err = said_by(capsys, "predict numbers.hbn f.csv f_out.csv --target c", code=2)
    assert "column 'd' holds 7, which the model has never seen" in err
    said_by(capsys, "predict sure.hbn e.csv e_out.csv --target c --unknown missing")
    assert pd.read_csv("e_out.csv")["c_probability_a"].tolist() == [1.0, 1.0]
    said_by(capsys, "predict sure.hbn out.csv again.csv --target c", code=2)
    said_by(capsys, "predict model.hbn d.csv again.csv --target c", code=2)


@pytest.mark.usefixtures("folder")
def test_predict_refuses_numbers_outside_of_a_domain(capsys: pytest.CaptureFixture[str]) -> None:
    share = hb.Continuous("share", domain=(0, 1))
    density = hb.MTE(share, pieces=[hb.Piece({"share": (0, 1)}, constant=1.0)])
    hb.Network([density, hb.Softmax(C, parents=(share,), intercept=[0, 1], coefficients=[[1], [0]])]).save("share.hbn")
    Path("s.csv").write_text("share\n0.5\n\n0.25\n1.5\n")
    _, err = said_by(capsys, "predict share.hbn s.csv out.csv --target c --chunk 1", code=2)
    assert "column 'share' holds numbers from 0.25 to 1.5" in err
    assert not Path("out.csv").exists()


@pytest.mark.usefixtures("folder")
def test_numbers_that_trees_test_are_drawn_where_rows_lack_them(capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(150, 3)), columns=["a", "b", "d"])
    frame["y"] = np.where(frame["a"] * frame["b"] > 0, frame["d"], -3.0) + 0.1 * rng.normal(size=150)
    network = hb.structures.model_tree(frame, "y", trees=2, random_state=0)
    network.save("trees.hbn")
    rows = frame[["a", "b", "d"]].head(5).mask(rng.random((5, 3)) < 0.5)
    rows.to_csv("holes.csv", index=False)
    exact = network.posterior("y", rows, beyond="bound")
    said_by(capsys, "predict trees.hbn holes.csv out.csv --target y")
    assert pd.read_csv("out.csv")["y_mean"].to_numpy() == pytest.approx(exact.mean())
    told = json.loads(said_by(capsys, "query trees.hbn y d=0.5 --json")[0])
    assert told["mean"] == pytest.approx(network.posterior("y", {"d": 0.5}, beyond="bound").mean())


# -- terminals and shells ----------------------------------------------------------------------------------------------


def show_on_terminal(folder: Path, command: str, **variables: str) -> str:
    """Return what a command writes on a terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **variables}
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "hybridbn", *shlex.split(command)],
        cwd=folder,
        env=environment,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    said = b""
    try:
        while data := os.read(main, 65536):
            said += data
    except OSError:  # Linux ends so
        pass
    os.close(main)
    assert process.wait() == 0
    return said.decode()


def test_a_terminal_gets_text_and_progress(folder: Path) -> None:
    colored = show_on_terminal(folder, "query model.hbn c k=3")
    assert "\x1b[1mc\x1b[0m" in colored
    assert "█" in colored
    told = show_on_terminal(folder, "predict model.hbn table.csv out.csv --target c --chunk 10")
    assert "predicting: [" in told
    assert "60/60 rows" in told
    assert "predicted 'c' in 60 rows: out.csv" in told


@pytest.mark.usefixtures("folder")
def test_colors_can_be_refused(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    colored, _ = said_by(capsys, "query model.hbn c k=3")
    monkeypatch.setenv("NO_COLOR", "1")
    plain, _ = said_by(capsys, "query model.hbn c k=3")
    assert "\x1b" not in plain
    assert plain == colored.replace("\x1b[1m", "").replace("\x1b[0m", "")


@pytest.mark.usefixtures("folder")
def test_names_send_no_control_sequences_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = hb.Discrete("\x1b[2Jc", states=("\x1b]0;t\x07", "b"))
    hb.Network([hb.Multinomial(hostile, table=[0.5, 0.5])]).save("hostile.hbn")
    Path("hostile.csv").write_text("\x1b[2Jc,d\n\x1b]0;t\x07,1\nb,2\n")
    for words in (
        ("show", "hostile.hbn", "--text"),
        ("query", "hostile.hbn", "\x1b[2Jc"),
        ("query", "hostile.hbn", "\x1b[2Jd"),
        ("check", "hostile.csv", "--text"),
    ):
        out, err = said_by(capsys, *words, code=2 if words[-1].endswith("d") else 0)
        assert "\x1b" not in out + err


def test_completion_of_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, _ = said_by(capsys, "completion", "bash")
    script += """
ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _hybridbn; echo "${COMPREPLY[*]}"; }
ask hybridbn pre
ask hybridbn fit --struc
ask hybridbn fit --structure ta
ask hybridbn fit t.csv m.hbn --potentials gau
ask hybridbn completion z
ask hybridbn fit t
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["predict", "--structure", "tan", "gaussian gaussian_mixture", "zsh", ""]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_lists_verbs_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script, _ = said_by(capsys, "completion", shell)
    for word in (*VERBS, "structure", "no-clobber", "naive_bayes"):
        assert word in script
    if shell == "fish":
        lines = [line for line in script.splitlines() if line.startswith("complete")]
        assert all((" -d '" in line) == (" -l " in line or "not __fish" in line) for line in lines)


def test_a_failure_leaves_the_output_of_the_program_that_called_the_command_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(Verb.registry.find("show")), "run", fail)
    with open(tmp_path / "log.txt", "w", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        assert run(["show", "model.hbn"]) == 74
        print("still here")
    assert (tmp_path / "log.txt").read_text(encoding="utf-8") == "still here\n"


def test_remarks_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"far": np.append(rng.normal(50, 1, 199).round(2), 1e6)})
    frame["c"] = rng.choice(["up hill", "up  hill", "on"], 200)
    frame["thin"] = np.where(np.arange(200) < 50, rng.normal(size=200).round(3), np.nan)
    frame["one"] = 4
    frame = pd.concat([frame, pd.DataFrame(index=[200, 201])])
    frame.to_csv(tmp_path / "odd.csv", index=False)
    out, _ = said_by(capsys, "check --text", str(tmp_path / "odd.csv"))
    assert "odd.csv: 202 rows, 4 columns, 158 missing cells, 2 rows without any value" in out
    remarks = dict(line.strip().split(": ", 1) for line in out.split("\nremarks\n")[1].splitlines())
    assert "a few far from these" in remarks["far"]
    assert "nearly all values lie between 4" in remarks["far"]
    assert "'up  hill'" in remarks["c"]
    assert "'up hill'" in remarks["c"]
    assert "75% of the cells are missing" in remarks["thin"]
    assert "only one value" in remarks["one"]


def test_models_of_a_sample_say_so(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = said_by(capsys, "fit table.csv small.hbn --sample 40")
    assert "learned from 40 of 60 rows; --sample takes more" in said
    assert said_by(capsys, "fit table.csv all.hbn")[1].count("--sample") == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("c={no,yes}", {"no", "yes"}),
        ("c={no:0.25,yes:1}", {"no": 0.25, "yes": 1.0}),
        ('a=b={p,"q,r"}', {"p", "q,r"}),
        ("k={1,3}", {1, 3}),
    ],
)
def test_sets_and_likelihoods_of_states(text: str, value: Any) -> None:
    (found,) = parse_evidence(make_network(), [text]).values()
    assert found == value


@pytest.mark.parametrize("text", ["c={no,maybe}", "c={no:0.25,maybe:1}", "c={}", "k={1,4}"])
def test_sets_of_other_states_are_refused(text: str) -> None:
    with pytest.raises(hb.TableError, match="has no state"):
        parse_evidence(make_network(), [text])
