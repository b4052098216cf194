"""Posteriors of single variables and of several, with the method names of scipy.

A kind of posterior is imported when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from hybridbn.registry import find_attribute, read_stub

__all__ = sorted(read_stub(__name__))


def __getattr__(name: str) -> Any:
    return find_attribute(__name__, name)
