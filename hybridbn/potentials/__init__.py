"""Densities: values, masses and draws, one family each.

A family is imported when it is first asked for, so that asking for one does not load them all.

Doors: `base`, `kernel.sums`, `mode_search`, `mte.terms`.
"""

from __future__ import annotations

from typing import Any

from hybridbn.potentials.base import Potential
from hybridbn.registry import find_attribute, read_stub

__all__ = sorted(read_stub(__name__))


def __getattr__(name: str) -> Any:
    return find_attribute(__name__, name, Potential.families)
