"""Learning potentials from (weighted, incomplete) columns: one fitter a family, sufficient statistics first.

A fitter is imported when it is first asked for, so that asking for one does not load them all.

Doors: `base`, `counting`, `cross_validation`, `mte`, `ridge`, `trees`.
"""

from __future__ import annotations

from typing import Any

from hybridbn.fitting.base import Fitter
from hybridbn.registry import find_attribute, read_stub

__all__ = sorted(read_stub(__name__))


def __getattr__(name: str) -> Any:
    return find_attribute(__name__, name, Fitter.registry)
