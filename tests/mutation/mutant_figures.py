"""What became of mutants, by room, with intervals, and whether the goals are reached."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

REASONS = ("equivalent", "cost", "cosmetic", "lives")
"""Why a mutant survives: no answer differs, only time or memory, only looks or words, or tests that are missing."""

GOAL, SILENT_GOAL, ROOM_GOAL = 0.92, 0.88, 0.85
"""Of the mutants that change behavior; of those of them that run through; what no room may be below beyond noise."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: "crash", "noticed", or one of the reasons for which it survives."""

    room: str
    place: str
    edit: str
    end: str
    note: str = ""


@dataclass(frozen=True)
class Rate:
    """How many of some mutants were killed."""

    killed: int
    number: int

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of Wilson (1927).

        Examples
        --------
        >>> [round(end, 4) for end in Rate(9, 10).interval()]
        [0.5958, 0.9821]
        """
        if not self.number:
            return 0.0, 1.0
        n, p, z = self.number, self.killed / self.number, 1.959964
        center, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (center - half) / (1 + z * z / n), (center + half) / (1 + z * z / n)

    def reaches(self, goal: float, within_noise: bool) -> bool:
        """Tell whether the rate is as high as a goal, or may be."""
        return not self.number or (self.interval()[1] if within_noise else self.killed / self.number) >= goal

    def __str__(self) -> str:
        if not self.number:
            return "none"
        low, high = self.interval()
        return f"{self.killed}/{self.number} = {self.killed / self.number:.0%} ({low:.0%}-{high:.0%})"


def rate(outcomes: Iterable[Outcome]) -> Rate:
    """Return how many were killed of those that change behavior."""
    ends = Counter(outcome.end for outcome in outcomes)
    killed = ends["crash"] + ends["noticed"]
    return Rate(killed, killed + ends["lives"])


def rate_silent(outcomes: Iterable[Outcome]) -> Rate:
    """Return how many were killed of those that run through with another result."""
    return rate(outcome for outcome in outcomes if outcome.end != "crash")


def read_survivors(path: Path) -> dict[tuple[str, str], str]:
    """Return the reason of each survivor that was read, by its place and edit."""
    reasons = {
        (entry["place"], entry["edit"]): entry["reason"] for entry in tomllib.loads(path.read_text())["survivor"]
    }
    unknown = set(reasons.values()) - set(REASONS)
    if unknown:
        raise ValueError(f"{path.name} has the reasons {sorted(unknown)}; they are {', '.join(REASONS)}")
    return reasons


def group_by_room(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each room."""
    return {room: [o for o in outcomes if o.room == room] for room in sorted({o.room for o in outcomes})}


def show_outcomes(outcomes: list[Outcome], seed: int) -> Iterator[str]:
    """Yield the lines of a report: a table by room, the survivors as entries of the list, and the pooled figures."""
    columns = ("crash", "noticed", *reversed(REASONS))
    yield (
        f"{'room':<11}{'mutants':>8}" + "".join(f"{column:>11}" for column in columns) + "  killed of those that matter"
    )
    for room, own in group_by_room(outcomes).items():
        ends = Counter(outcome.end for outcome in own)
        yield f"{room:<11}{len(own):>8}" + "".join(f"{ends[column]:>11}" for column in columns) + f"  {rate(own)}"
    for outcome in outcomes:
        if outcome.end == "lives":
            entry = {"place": outcome.place, "edit": outcome.edit, "reason": "lives", "why": outcome.note}
            yield "\n".join(
                ["", "[[survivor]]", f"seed = {seed}", *(f"{k} = {json.dumps(v)}" for k, v in entry.items())]
            )
    yield ""
    yield f"figures: {len(outcomes)} mutants of seed {seed}: killed {rate(outcomes)}; silent {rate_silent(outcomes)}"


def find_missed(outcomes: list[Outcome], within_noise: bool) -> list[str]:
    """Return the goals that are missed; for seeds that nobody wrote tests for, those that are missed beyond noise."""
    missed = []
    if not rate(outcomes).reaches(GOAL, within_noise):
        missed.append(f"{GOAL:.0%} of the mutants that change behavior: {rate(outcomes)}")
    if not rate_silent(outcomes).reaches(SILENT_GOAL, within_noise):
        missed.append(f"{SILENT_GOAL:.0%} of the silent ones: {rate_silent(outcomes)}")
    for room, own in group_by_room(outcomes).items():
        if not rate(own).reaches(ROOM_GOAL, within_noise=True):
            missed.append(f"{ROOM_GOAL:.0%} of {room}: {rate(own)}")
    return missed
