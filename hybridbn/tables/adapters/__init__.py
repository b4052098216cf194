"""Adapters of frame libraries: one module for each, found by being here."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

__all__ = ["load_adapters"]


@cache
def load_adapters() -> None:
    """Import the modules of this package, whose classes then are known."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
