"""Arguments of public functions that mean nothing: errors of the library's own, and nothing else, at every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from narrowing import as_continuous

import hybridbn as hb

A, B, X = hb.Discrete("a", ("0", "1")), hb.Discrete("b", ("0", "1")), hb.Continuous("x")
NET = hb.Network(
    [
        hb.Multinomial(A, table=[0.9, 0.1]),
        hb.Multinomial(B, (A,), table=[[0.8, 0.2], [0.3, 0.7]]),
        hb.LinearGaussian(X, (A,), intercept=[0, 1], variance=[1, 1]),
    ]
)
TABLE = NET.sample(20, 0)
NOTHING: list[Any] = [-1, 2.5, float("nan"), "zz", b"a", ["a", "zz"], object(), 1j, 10**400, int, pd.NaT]
NO_NAMES: list[Any] = [None, 5, 2.5, "zz", b"a", ["a", "zz"], [1], object(), int, pd.NaT, np.array("a")]
NO_NUMBERS: list[Any] = ["", "zz", b"a", ["a"], object(), 1j, 10**400, int]
JOINT, POSTERIOR = NET.posterior(["a", "x"]), NET.posterior("x")

DOORS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "sample": (NET.sample, [None, "3", *NOTHING]),
    "sample: random_state": (lambda it: NET.sample(2, it), [it for it in NOTHING if it != 10**400]),
    "sample: evidence": (lambda it: NET.sample(2, 0, it), [5, "zz", object()]),
    "posterior": (NET.posterior, NO_NAMES),
    "posterior: evidence": (lambda it: NET.posterior("a", it), [5, "zz", object()]),
    "posterior: a number": (lambda it: NET.posterior("a", {"x": it}), NO_NUMBERS),
    "posterior: a function": (lambda it: NET.posterior("a", {"x": it}), [lambda: 0, lambda x: "zz", lambda x: 1 / 0]),
    "posteriors": (lambda it: NET.posteriors({}, it), NO_NAMES[1:]),
    "most_probable": (lambda it: NET.most_probable({}, it), NO_NAMES[1:]),
    "explain": (lambda it: NET.explain(it, {"b": "0"}), NO_NAMES),
    "tolerance": (lambda it: NET.posterior("a", tolerance=it), [None, "3", [1], 5, True, object()]),
    "max_bytes": (lambda it: NET.posterior("a", max_bytes=it), [None, "3", [1], -5, True, object()]),
    "variable": (NET.variable, NO_NAMES),
    "rename": (NET.rename, NO_NAMES),
    "d_separated": (lambda it: NET.d_separated("a", "b", it), NO_NAMES),
    "plot": (NET.plot, [5, "zz", [1]]),
    "load": (hb.load, [None, 5, 1.5, True, b"a", [], object(), "", "a\0b"]),
    "save": (NET.save, [None, 5, b"a", [], "", "a\0b"]),
    "read_network": (hb.read_network, [None, 5, b"a.bif", [], "a\0b.bif"]),
    "write_network": (lambda it: hb.write_network(it, "net.bif"), [None, 5, "zz"]),
    "read_table": (hb.read_table, [None, 5, b"a.csv", [], "a\0b.csv"]),
    "Table: discrete": (lambda it: hb.Table(TABLE, discrete=it), NO_NAMES),
    "parents": (lambda it: hb.Multinomial(B, it, table=[0.5, 0.5]), NO_NAMES),
    "pieces": (lambda it: hb.MTE(X, pieces=it), [None, 5, object(), int]),
    "interval": (hb.Interval, ["zz", 10**400, [1], object()]),
    "intercept": (lambda it: hb.LinearGaussian(X, intercept=it, variance=1), NO_NUMBERS),
    "pdf": (as_continuous(POSTERIOR).pdf, NO_NUMBERS),
    "cdf": (POSTERIOR.cdf, NO_NUMBERS),
    "quantile": (POSTERIOR.quantile, [*NO_NUMBERS, 2]),
    "level": (POSTERIOR.interval, [None, "zz", 2, object()]),
    "draws": (POSTERIOR.sample, NOTHING),
    "draws together": (JOINT.sample, [None, *NOTHING]),
    "marginal": (JOINT.marginal, NO_NAMES),
}


@pytest.mark.parametrize("door", DOORS)
def test_errors_are_our_own(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    call, values = DOORS[door]
    for value in values:
        with pytest.raises(hb.HybridBNError) as raised:
            call(value)
        assert str(raised.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("encoding", ["rot13", "base64", "zip", "nothing", 5, "utf-8\0"])
def test_encodings(encoding: Any, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("x\n1\n")
    (tmp_path / "d.bif").write_text("")
    for read in (
        lambda: hb.read_table(tmp_path / "d.csv", encoding=encoding),
        lambda: hb.read_network(tmp_path / "d.bif", encoding=encoding),
        lambda: hb.read_table(tmp_path / "d.csv").write(tmp_path / "new.csv", encoding=encoding),
    ):
        with pytest.raises(hb.FormatError, match="there is no encoding of text"):
            read()
    assert not (tmp_path / "new.csv").exists()
