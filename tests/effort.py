"""How much is tried: fewer examples every day than in `.ci/slow`, which asks for all of them; and which are new."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import numpy as np

SHARE = float(os.environ.get("HYBRIDBN_SHARE_OF_EXAMPLES", "0.25"))


def examples(most: int) -> int:
    """Return the share of the most examples that this run tries, and eight at least."""
    return min(most, max(8, round(SHARE * most)))


def report(*figures: object) -> None:
    """Print figures, which `.ci/slow` repeats at its end."""
    print("figures:", os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[2].rpartition(" ")[0], *figures)


def fresh_seed() -> int:
    """Return another seed in each run, and print it; HYBRIDBN_SEED repeats a run."""
    seed = int(os.environ.get("HYBRIDBN_SEED") or secrets.randbits(32))
    report(f"HYBRIDBN_SEED={seed}")
    return seed


def fresh_generators(count: int) -> Iterator[tuple[int, np.random.Generator]]:
    """Give so many numbered generators, each of which is the same whatever the others were used for."""
    seed = fresh_seed()
    for number in range(count):
        yield number, np.random.default_rng([seed, number])
