"""Adapters of frame libraries: each module of this package registers its own."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

__all__ = ["load_adapters"]


@cache
def load_adapters() -> None:
    """Import all modules of this package, whose classes register themselves."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
