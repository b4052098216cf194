"""What a function has no keyword for is refused, also where it is one of the options of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from test_keywords import FUNCTIONS, QUESTIONS, frame

import hybridbn as hb

FIELDS = [field.name for field in dataclasses.fields(hb.Options)]


@pytest.mark.parametrize("name", FUNCTIONS | QUESTIONS)
def test_other_keywords_are_refused_by_name(name: str) -> None:
    run, _, entries = (FUNCTIONS | QUESTIONS)[name]
    for keyword in ("nonsense", *FIELDS):
        if keyword in entries:
            continue
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'"):
            run(frame(), **{keyword: getattr(hb.Options(), keyword, None)})


C, D = hb.Discrete("c", (0, 1)), hb.Discrete("d", (0, 1))
NETWORK = hb.Network([hb.Multinomial(C, table=[0.5, 0.5]), hb.Multinomial(D, (C,), table=[[0.9, 0.1], [0.2, 0.8]])])
ENSEMBLE = hb.Ensemble([NETWORK], np.ones(1), "c")
ASKED: dict[str, Callable[..., Any]] = {
    "log_evidence": partial(NETWORK.log_evidence, {"d": 1}),
    "log_density": partial(NETWORK.log_density, hb.Table({"c": [0], "d": [1]}, variables=[C, D])),
    "most_probable": partial(NETWORK.most_probable, {"d": 1}),
    "sample": partial(NETWORK.sample, 3, 0, {"d": 1}),
    "sensitivity": partial(NETWORK.sensitivity, "c", {"d": 1}),
    "value_of_information": partial(NETWORK.value_of_information, "c"),
    "scores": partial(ENSEMBLE.scores, {"d": 1}),
    "classify": partial(ENSEMBLE.classify, {"d": 1}),
}


@pytest.mark.parametrize("name", ASKED)
def test_methods_have_no_choice_about_impossible_rows(name: str) -> None:
    for value in ("raise", "nan"):
        with pytest.raises(TypeError, match=rf"{name}\(\) got an unexpected keyword argument 'impossible'"):
            ASKED[name](impossible=value)
    # in options it may stand, without an effect
    told = [repr(ASKED[name](options=hb.Options(impossible=value))) for value in ("raise", "nan")]
    assert told[0] == told[1] == repr(ASKED[name]())
