"""Pictures: the layout of graphs, plots with matplotlib, and drawings that notebooks and reports show.

A plot is imported when it is first asked for, so that notebooks and reports need no matplotlib.

Doors: `chart`, `html`, `layout`, `tables`.
"""

from __future__ import annotations

from typing import Any

from hybridbn.registry import find_attribute, read_stub

__all__ = sorted(read_stub(__name__))


def __getattr__(name: str) -> Any:
    return find_attribute(__name__, name)
