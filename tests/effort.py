"""How many examples a property is tried on: fewer every day than in `.ci/slow`, which asks for all of them."""

from __future__ import annotations

import os

SHARE = float(os.environ.get("HYBRIDBN_SHARE_OF_EXAMPLES", "0.35"))


def examples(most: int) -> int:
    """Return the share of the most examples that this run tries, and eight at least."""
    return min(most, max(8, round(SHARE * most)))
