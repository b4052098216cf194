"""What users see of the library, for `test_kept_answers`: printed tables, pictures, the command's words, the explorer's
answers, and completed tables of columns of all kinds.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import hybridbn as hb
from hybridbn.commands.cli import run
from hybridbn.explorer.responder import Responder
from hybridbn.pictures.posteriors import chart_explanation, chart_posterior
from hybridbn.pictures.tables import chart_histogram, chart_shares


def make_frame(rows: int = 90) -> pd.DataFrame:
    """Return columns of all kinds as texts, with holes, marks and signs of units."""
    rng = np.random.default_rng(21)
    age, group = rng.integers(18, 88, rows), rng.integers(0, 3, rows)
    days = pd.Timestamp("2021-03-05") + pd.to_timedelta(rng.integers(0, 500, rows), unit="D")
    pay = np.where(rng.random(rows) < 0.25, 0.0, rng.lognormal(6, 0.7, rows) * (1 + group))
    frame = pd.DataFrame(
        {
            "id": [f"K-{number:04d}" for number in rng.permutation(rows)],
            "zip": [f"{number:05d}" for number in rng.integers(1067, 9999, rows)],
            "age": age,
            "group": np.array(["low", "mid", "high"])[group],
            "day": days.strftime("%d.%m.%Y"),
            "hour": [f"{7 + hour}:{minute:02d}" for hour, minute in rng.integers(0, [12, 60], (rows, 2))],
            "pay": [f"{amount:,.2f} EUR" for amount in pay],
            "share": [f"{share:.1f} %" for share in rng.beta(2 + group, 3) * 100],
            "weight": [f"{weight:.1f} kg" for weight in rng.normal(60 + 5 * group, 9)],
            "stars": np.clip(1 + group + rng.integers(0, 3, rows), 1, 5),
            "children": rng.poisson(1 + group / 2),
            "height": rng.normal(170, 8, rows).round(1),
        }
    ).astype(object)
    frame.loc[rng.random(rows) < 0.1, "stars"] = 99
    holes = rng.random(frame.shape) < 0.12
    holes[:, :2] = False
    return frame.mask(holes, None)


def describe_columns(_: str) -> dict[str, Any]:
    """Return what is found out about columns, as tables print it, and their texts in files of several formats."""
    frame = make_frame()
    told: dict[str, Any] = {}
    with in_folder():
        for suffix in ("csv", "tsv", "arff", "jsonl", "parquet"):
            path = Path(f"t.{suffix}")
            hb.Table(frame).write(path)
            told[suffix] = [repr(hb.read_table(path)), *([] if suffix == "parquet" else path.read_text().splitlines())]
        frame.to_csv("german.csv", sep=";", decimal=",", index=False, encoding="cp1252")
        told["german"] = repr(hb.read_table("german.csv", missing={"stars": [99]}, discrete=["children"]))
        told["chosen"] = repr(hb.read_table("t.csv", continuous=["stars"], ordered=["age"]))
        told["page"] = hb.read_table("t.csv")._repr_html_()
        told["scanned"] = repr(hb.scan("t.csv"))
    return told


@contextlib.contextmanager
def in_folder() -> Iterator[None]:
    """Work in an empty folder."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


def complete_tables(_: str) -> dict[str, Any]:
    """Return tables that are completed in all ways, and what was found on the way."""
    table = hb.Table(make_frame().drop(columns=["id", "zip", "hour", "share", "weight"])[:40], missing={"stars": [99]})
    told: dict[str, Any] = {}
    ways: dict[str, dict[str, Any]] = {
        "plain": {},
        "probable": {"strategy": "most_probable", "donors": False},
        "drawn": {"draws": 2, "structure": "tan", "target": "group", "potentials": "gaussian", "rounds": 1},
        "bounded": {"bounds": {"height": (165, 175)}, "rounds": 0},
    }
    for name, options in ways.items():
        found = hb.impute(table, details=True, random_state=2, **options)
        told[name] = [repr(each) for each in found.tables]
        told[name] += [each.raw(column).tolist() for each in found.tables for column in each.names]
        if name == "plain":
            told["cells"] = [found.cells(), found.history]
    return told


def draw_pictures(_: str) -> dict[str, Any]:
    """Return charts as texts."""
    from test_kept_answers import make_networks

    nets = make_networks()
    tables, lines, mixed = nets["tables"], nets["lines"], nets["mixed"]
    rows = lines.sample(4, random_state=1)
    posteriors = {
        "states": (tables.posterior("e", {"c": "a"}), tables.posterior("e")),
        "number": (lines.posterior("z", {"d": "u"}), lines.posterior("z")),
        "batch": (lines.posterior("y", rows[["x", "d"]]), None),
        "states of rows": (tables.posterior("e", pd.DataFrame({"c": ["a", "b"]})), None),
        "pieces": (mixed.posterior("x", {"e": 2}), None),
    }
    told: dict[str, Any] = {
        name: [split(chart_posterior(now, before).to_svg()), split(now._repr_html_())]
        for name, (now, before) in posteriors.items()
    }
    explanation = tables.explain("c", {"d": "u", "e": 2}, "e")
    told["explanation"] = [split(chart_explanation(explanation).to_svg()), split(explanation._repr_html_())]
    told["networks"] = [split(net._repr_html_()) for net in nets.values()]
    for kind, counts in {"few": [0, 2, 1, 0, 3, 1], "many": [4, 12, 31, 25, 3, 0]}.items():
        histogram = chart_histogram("x", [0.0, 1.0, 2.0, 3.5, 5.0], [1, 7, 12, 9, 4, 2], counts)
        shares = chart_shares("d", list("abcdef"), [9, 7, 12, 1, 4, 2], counts, 4)
        told[f"{kind} imputed"] = [split(histogram.to_svg()), split(shares.to_svg())]
    return told


def split(text: str) -> list[str | float]:
    """Return the words and numbers of a text."""
    return [float(part) if re.fullmatch(r"-?\d+(\.\d+)?", part) else part for part in re.split(r"[\s\"<>,;]+", text)]


COMMANDS = {
    "check": "check t.csv",
    "fit": "fit t.csv m.hbn --structure tan --target group --potentials gaussian",
    "show": "show m.hbn",
    "no file of tables": "fit t.csv n.bif --structure 'group -> stars' --discrete stars",
    "query": "query m.hbn group age=40 height=165:175",
    "number": "query m.hbn height group=low stars=3",
    "predict": "predict m.hbn t.csv p.csv --target group",
    "impute": "impute t.csv o.csv --seed 3 --rounds 1",
    "convert": "convert t.csv t.arff",
    "refused": "query m.hbn nobody",
}


def run_commands(_: str) -> dict[str, Any]:
    """Return what commands say, and what they write."""
    told: dict[str, Any] = {}
    with in_folder():
        make_frame(70).to_csv("t.csv", index=False)
        for name, words in COMMANDS.items():
            said, complained = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
                code = run(shlex.split(words))
            told[name] = [code, *map(split, (said.getvalue() + complained.getvalue()).splitlines())]
        told["files"] = [split(Path(name).read_text()) for name in ("p.csv", "o.csv", "t.arff")]
    return told


QUESTIONS: dict[str, dict[str, Any]] = {
    "beliefs": {"ask": "beliefs", "cases": [[{"node": 1, "state": 0}], [{"node": 2, "between": [0.0, 1.5]}], []]},
    "about": {"ask": "beliefs", "cases": [[{"node": 3, "about": [1.0, 0.5]}, {"node": 0, "weights": [1, 0.5, 0]}]]},
    "set": {"ask": "beliefs", "cases": [[{"node": 2, "value": 0.7, "set": True}]]},
    "why": {"ask": "why", "case": [{"node": 3, "value": 1.0}, {"node": 4, "value": 2.5}], "node": 1, "state": 0},
    "why a number": {"ask": "why", "case": [{"node": 1, "state": 0}, {"node": 4, "value": 2.5}], "node": 2},
    "next": {"ask": "next", "case": [{"node": 4, "value": 2.5}], "node": 1},
    "probable": {"ask": "probable", "case": [{"node": 0, "states": [0, 1]}]},
    "row": {"ask": "row", "row": 1},
    "neighborhood": {"ask": "neighborhood", "node": 2},
    "wrong": {"ask": "beliefs", "cases": [[{"node": 2, "state": 7}]]},
}


def explore(_: str) -> dict[str, Any]:
    """Return what the explorer's page is told."""
    from test_kept_answers import make_networks

    net = make_networks()["lines"]
    responder = Responder(net, net.sample(3, random_state=2))
    told = {name: read_plain(responder.answer(question)) for name, question in QUESTIONS.items()}
    return told | {"document": read_plain(responder.describe())}


def read_plain(answer: Any) -> Any:
    """Return an answer as JSON would bring it to the page."""
    return json.loads(json.dumps(answer, allow_nan=False))


FACES = {
    "columns": describe_columns,
    "completed tables": complete_tables,
    "pictures": draw_pictures,
    "commands": run_commands,
    "explorer": explore,
}
