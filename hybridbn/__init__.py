"""Hybrid Bayesian networks: discrete and continuous variables in one network, exact posteriors, tables with holes.

The public names are loaded when they are first used, so ``import hybridbn`` is cheap. ``__init__.pyi`` lists them.
"""

from __future__ import annotations

import ast
import pkgutil
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    alias.name: str(statement.module)
    for statement in ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
}
"""The module of each public name; of a public module the package."""

__all__ = ["__version__", *sorted(name for name, home in _HOMES.items() if home != __name__)]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'hybridbn' has no attribute {name!r}")
    value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
