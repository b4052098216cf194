"""How the files beside this one were made, once, by version 0.1.0 at commit 77e1acc; it is here to be read, not to be
run again.

Every network is asked for the log density of a few rows with holes, and for the posterior of each column given the
others; ensembles for the posterior of the target, imputation models for the table that they complete.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from narrowing import as_discrete, as_kind

import hybridbn as hb
from hybridbn.potentials import Case

HERE = Path(__file__).parent
HEART = ["age", "sex", "pain", "cholesterol", "rate", "disease"]


def heart() -> pd.DataFrame:
    return pd.read_csv(HERE.parents[2] / "examples" / "data" / "heart.csv")[HEART]


def fixed_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return six rows of which some have holes."""
    rows = frame.iloc[[3, 40, 90, 150, 200, 250]].reset_index(drop=True).astype(object)
    for row, column in ((1, 0), (2, 1), (2, 3), (3, len(frame.columns) - 1), (4, 4 % len(frame.columns))):
        rows.iloc[row, column] = None
    return rows


# -- families -----------------------------------------------------------------------------------------------------


def families() -> dict[str, hb.Network]:
    """Return a network of each family of potentials, and one of several."""
    rng = np.random.default_rng(7)
    c, d = hb.Discrete("c", states=("a", "b", "c")), hb.Discrete("d", states=(1, 2.5, True + 2, "x"))
    cut = hb.Discrete("cut", cuts=(-0.5, 1 / 3))
    x, y, z, w = map(hb.Continuous, ("x", "y", "z", "w"))
    leaf = hb.Discrete("leaf", states=("low", "high a", "high rest"))
    start = hb.Multinomial(c, table=[0.2, 0.3, 0.5])
    normal = hb.LinearGaussian(x, parents=(c,), intercept=[-1, 0, 1 / 3], variance=[1, 2, 0.5])
    inf = math.inf
    piece = hb.Piece
    exponential = hb.MTE(
        y,
        parents=(c,),
        pieces=[
            piece({"y": (-inf, 0)}, given={"c": "a"}, terms=[(0.5, {"y": 1.0})]),
            piece({"y": (0, inf)}, given={"c": "a"}, terms=[(0.5, {"y": -1.0})]),
            piece({"y": (0, 2)}, given={"c": "b"}, constant=0.1, terms=[(0.3, {"y": 0.7})]),
            piece({"y": (-1, 3)}, given={"c": "c"}, constant=0.25),
        ],
        normalize=True,
    )
    kernel = hb.Kernel(
        y,
        parents=(x, c),
        points=rng.normal(size=(30, 2)),
        bandwidths=[[0.4, 0.5]] * 3,
        labels={"c": ["a", "b", "c"] * 10},
    )
    boxes = hb.Boxes(leaf, (x, c), [[[-inf, 0.2], [0.2, inf], [0.2, inf]], [[1, 1, 1], [1, 0, 0], [0, 1, 1]]])
    cases = hb.Cases(
        z,
        (leaf, x),
        [
            Case(hb.LinearGaussian(z, intercept=0, variance=1), high=1.0),
            hb.Kernel(z, points=rng.normal(size=9), bandwidths=0.6),
            hb.LinearGaussian(z, parents=(x,), intercept=1, coefficients=[0.5], variance=0.7),
        ],
    )
    softmax = hb.Softmax(
        cut, parents=(c, x), intercept=rng.normal(size=(3, 3)), coefficients=rng.normal(size=(3, 3, 1))
    )
    below = hb.LinearGaussian(w, parents=(x, z), intercept=0.1, coefficients=[0.3, -0.7], variance=0.4)
    return {
        "multinomial": hb.Network([start, hb.Multinomial(d, parents=(c,), table=rng.dirichlet(np.ones(4), size=3))]),
        "gaussian": hb.Network(
            [
                start,
                normal,
                hb.LinearGaussian(w, parents=(c, x), intercept=[1, 2, 3], coefficients=[[0.5]] * 3, variance=[1, 1, 2]),
            ]
        ),
        "mte": hb.Network([start, exponential]),
        "kernel": hb.Network([start, normal, kernel]),
        "softmax": hb.Network([start, normal, softmax]),
        "boxes": hb.Network([start, normal, boxes]),
        "cases": hb.Network([start, normal, boxes, cases]),
        "mixed": hb.Network([start, normal, exponential, boxes, cases, softmax, below]),
    }


def rows_of(net: hb.Network) -> pd.DataFrame:
    """Return four drawn rows of a network, rounded; the last three have holes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = net.sample(4, random_state=0).astype(object)
    for name in rows:
        if isinstance(net.variable(name), hb.Continuous):
            rows[name] = [round(float(value), 3) for value in rows[name]]
    names = list(rows)
    rows.loc[1, names[-1]] = None
    rows.loc[2, names[0]] = None
    rows.loc[3, names[1:]] = None
    return rows


def broken() -> hb.Table:
    """Return a table whose number y is linear in x on either side of a step."""
    rng = np.random.default_rng(11)
    x, c = rng.uniform(-1, 1, 300).round(3), rng.choice(["u", "v"], 300)
    y = np.where(x > 0.2, 5 - 3 * x, np.where(c == "u", x, -8 + 2 * x)) + 0.1 * rng.normal(size=300)
    return hb.Table({"x": x, "c": c.tolist(), "y": y.round(3)})


def broken_rows() -> pd.DataFrame:
    return pd.DataFrame(
        {"x": [-0.5, 0.1, 0.7, None, 0.3], "c": ["u", "v", None, "u", "v"], "y": [-0.4, -7.5, 3.0, 0.2, None]},
        dtype=object,
    )


# -- builders and what learns of tables with holes ----------------------------------------------------------------


def builders() -> dict[str, Any]:
    """Return a network of every builder, and of augmentation and expectation maximization."""
    from hybridbn import structures as s

    table = hb.Table(heart().iloc[::2])
    whole = hb.Table(heart().dropna())
    gaussian: dict[str, Any] = {"potentials": "gaussian"}
    return {
        "automatic": s.automatic(table, "disease", folds=2),
        "chow_liu": s.chow_liu(table, "multinomial"),
        "class_clusters": s.class_clusters(whole, "disease", "gaussian", clusters=2),
        "hill_climb": s.hill_climb(whole, "gaussian", restarts=1),
        "kdb": s.kdb(table, "disease", "multinomial"),
        "mixture": s.mixture(table, 3, starts=1),
        "model_tree": s.model_tree(broken(), "y", max_depth=2),
        "model_trees": s.model_tree(broken(), "y", trees=3, max_depth=2),
        "naive_bayes": s.naive_bayes(table, "disease"),
        "naive_bayes_of_a_number": s.naive_bayes(table.select(["cholesterol", "age", "sex"]), "cholesterol"),
        "naive_bayes_with_kernels": s.naive_bayes(table.take(range(0, len(table), 4)), "disease", "kernel"),
        "nb_tree": s.nb_tree(table, "disease", "gaussian", max_depth=2),
        "regression": s.regression(table, "cholesterol"),
        "selective_naive_bayes": s.selective_naive_bayes(table, "disease", "gaussian"),
        "tan": s.tan(table, "disease"),
        "tan_of_kernels": s.tan(whole.take(range(0, len(whole), 4)), "disease", "kernel"),
        "augmented": hb.augment(table, "cholesterol", **gaussian, random_state=0, max_iterations=3).network,
        "expectation_maximization": hb.fit([("disease", "age"), ("disease", "rate"), ("age", "rate")],
                                           table.select(["disease", "age", "rate"]), "gaussian", missing="em"),
        "structural_em": hb.structural_em(table.select(["sex", "pain", "disease"]), "disease", s.tan, rounds=2).network,
    }  # fmt: skip


# -- answers ------------------------------------------------------------------------------------------------------


def answers(net: hb.Network, rows: pd.DataFrame) -> dict[str, Any]:
    """Return what a network says of rows: log densities, and posteriors of every node given the rest of the row."""
    said: dict[str, Any] = {"log_density": net.log_density(rows[[n for n in rows if n in net]]).tolist()}
    for name in net if not {"w", "cut"} <= {*net} else ("c", "y", "w"):  # the network of all families takes longest
        rest = rows[[other for other in rows if other != name and other in net]]
        posterior = net.posterior(name, rest, impossible="nan")
        if isinstance(net.variable(name), hb.Discrete):
            said[f"probabilities of {name}"] = as_discrete(posterior).probabilities.tolist()
        else:
            said[f"mean of {name}"] = posterior.mean().tolist()
            said[f"sd of {name}"] = posterior.std().tolist()
    return said


def written(rows: pd.DataFrame) -> dict[str, list[Any]]:
    return {name: [None if pd.isna(value) else value for value in rows[name]] for name in rows}


ROWS, OPTIONS = 60, ("--chunk", "6", "--draws", "2")
"""Of the run that was killed."""


def write_table(path: Path) -> None:
    """Write the table of which an unfinished run left its parts."""
    rng = np.random.default_rng(3)
    x = rng.gamma(1, size=ROWS).round(3)
    y = (x + rng.normal(size=ROWS)).round(3)
    columns = [x.astype(str), y.astype(str), np.array(["a", "b"])[(y > 1).astype(int)]]
    for column in columns:
        column[rng.random(ROWS) < 0.2] = ""
    path.write_text("x,y,c\n" + "".join(f"{','.join(row)}\n" for row in zip(*columns, strict=True)))


def write_parts() -> None:
    """Kill a run when it has finished three parts, and write what a whole run gives."""
    folder = HERE / "unfinished"
    folder.mkdir()
    write_table(folder / "t.csv")
    command = [sys.executable, "-m", "hybridbn", "impute", "t.csv"]
    subprocess.run([*command, "whole.csv", *OPTIONS], cwd=folder, check=True)
    process = subprocess.Popen([*command, "out.csv", *OPTIONS], cwd=folder)
    while len(list(folder.glob("out.csv.parts/part-0-?"))) < 3:
        time.sleep(0.0005)
    process.kill()
    process.wait()


def write_all() -> None:
    """Write all files and the answers to them."""
    expected: dict[str, Any] = {"networks": {}}
    rows = fixed_rows(heart())
    for name, net in families().items():
        asked = rows_of(net)
        net.save(HERE / f"family_{name}.hbn")
        expected["networks"][f"family_{name}"] = {"rows": written(asked), "answers": answers(net, asked)}
    for name, net in builders().items():
        asked = broken_rows() if "y" in net else rows[[column for column in rows if column in net]]
        net.save(HERE / f"{name}.hbn")
        expected["networks"][name] = {"rows": written(asked), "answers": answers(net, asked)}
    table = hb.Table(heart().iloc[::2])
    discrete = table.select(["sex", "pain", "disease"])
    expected["ensembles"] = {"rows": written(rows), "answers": {}}
    for name, ensemble in {
        "ensemble_m1": hb.boost(table, "disease", potentials="gaussian", rounds=5),
        "ensemble_real": hb.boost(discrete, "disease", algorithm="real", rounds=5),
    }.items():
        ensemble.save(HERE / f"{name}.hbn")
        asked = rows[[column for column in rows if column in ensemble.networks[0] and column != "disease"]]
        expected["ensembles"]["answers"][name] = {
            "votes": ensemble.votes.tolist(),
            "errors": None if ensemble.errors is None else ensemble.errors.tolist(),
            "probabilities": ensemble.posterior(asked).probabilities.tolist(),
        }
    learned = heart()
    learned["skewed"] = np.random.default_rng(5).gamma(1, size=len(learned)).round(3)
    learned.loc[::7, "skewed"] = None
    asked = learned.iloc[[3, 40, 42, 49, 150, 200, 250]].reset_index(drop=True)
    for row, column in ((1, "cholesterol"), (2, "disease"), (3, "sex"), (5, "rate"), (6, "age")):
        asked.loc[row, column] = None
    expected["imputation"] = {"rows": written(asked), "completed": {}}
    (HERE / "learned.csv").write_text(learned.iloc[::2].to_csv(index=False))
    for name, options in {"imputation": (), "imputation_tan": ("--structure", "tan", "--target", "disease")}.items():
        subprocess.run([sys.executable, "-m", "hybridbn", "impute", "learned.csv", "filled.csv", "--save-model",
                        f"{name}.hbn", "--rounds", "3", *options], cwd=HERE, check=True)  # fmt: skip
        net = as_kind(hb.Network, hb.load(HERE / f"{name}.hbn"))
        for strategy in ("draw", "mean", "most_probable"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                filled = hb.impute(asked, None, strategy, network=net, random_state=0, full_precision=True)
            expected["imputation"]["completed"][f"{name}, {strategy}"] = written(filled)
    for name in ("learned.csv", "filled.csv"):
        (HERE / name).unlink()
    (HERE / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.rmtree(HERE / "unfinished", ignore_errors=True)
    write_parts()


if __name__ == "__main__":
    write_all()
