"""Progress of long calls: quiet by default, shown and canceled on request."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hybridbn as hb
from hybridbn.jobs import ProgressLine, Task, progress_if, track, track_items
from hybridbn.structures import automatic, hill_climb, naive_bayes, tan

DATA = {"x": [0, 1, 1, 0] * 9, "c": ["a", "b", "a", "a"] * 9}


def boost(**options: Any) -> hb.Ensemble:
    return hb.boost(hb.Table(DATA, discrete=["x"]), "c", rounds=5, **options)


def test_calls_are_silent_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    boost()
    assert capsys.readouterr() == ("", "")
    with hb.progress():
        boost()
    shown = capsys.readouterr().err
    assert "boost: [" in shown
    assert "5/5" in shown
    boost(progress=True)
    assert "5/5" in capsys.readouterr().err


def test_tasks_within_tasks_are_shown_from_the_outermost() -> None:
    seen: list[list[str]] = []

    def show(tasks: Sequence[Task]) -> None:
        seen.append([f"{task.name} {task.done}" for task in tasks])

    with hb.progress(show), track("outer", 2) as report:
        list(track_items("ab", "inner", 2))
        report(1, "")
    assert seen == [["outer 0", "inner 1"], ["outer 0", "inner 2"], ["outer 1"]]


def test_a_call_can_be_canceled_and_the_next_one_goes_on() -> None:
    def show(tasks: Sequence[Task]) -> None:
        if tasks[0].done == 2:
            shown.cancel()

    shown = hb.progress(show)
    with shown, pytest.raises(hb.Canceled):
        boost()
    with hb.progress(lambda tasks: None):
        assert len(boost().networks) == 5


def test_a_context_around_a_call_stays_in_force() -> None:
    counts = []
    with hb.progress(lambda tasks: counts.append(tasks[0].done)), progress_if(True), track("task") as report:
        report(3, "")
    assert counts == [3]


def test_the_line_is_erased_at_the_end() -> None:
    stream = io.StringIO()
    with hb.progress(ProgressLine(stream)), track("task", 2) as report:
        report(2, "a long detail")
    *_, shown, blank, end = stream.getvalue().split("\r")
    assert "a long detail" in shown
    assert blank.strip() == end == ""
    assert len(blank) == len(shown)


def test_long_calls_tell_how_far_they_are() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame({"x": x, "y": x + rng.normal(size=60), "c": np.where(x > 0, "a", "b")})
    holes = frame.mask(rng.random(frame.shape) < 0.1)
    calls = {
        "hill_climb": lambda: hill_climb(frame, "gaussian"),
        "automatic": lambda: automatic(frame, "c", candidates=[naive_bayes, tan], potentials="gaussian"),
        "learn to impute": lambda: hb.impute(holes, random_state=0),
        "expectation maximization": lambda: hb.fit("c->x; x->y", holes, "gaussian", missing="em"),
        "structural EM": lambda: hb.structural_em(holes, "c", tan, random_state=0),
    }
    seen: set[str] = set()
    for name, call in calls.items():
        seen.clear()
        with hb.progress(lambda tasks: seen.update(task.name for task in tasks)):
            call()
        assert name in seen
