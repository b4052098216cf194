"""Names that are imported when they are first asked for: those that a package's stub lists, and classes that register
themselves by name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import Any, TypeVar

__all__ = ["find_attribute", "find_registered", "import_modules", "read_stub"]

Registered = TypeVar("Registered")


def find_registered(name: str, registry: Mapping[str, Registered], package: str) -> Registered | None:
    """Return what is registered under a name, or None, importing a package's modules until it is there.

    Nothing is imported for a name that is registered already, and the module of that very name comes first.

    Examples
    --------
    >>> from hybridbn.potentials.base import Potential
    >>> find_registered("gaussian", Potential.families, "hybridbn.potentials").__name__
    'LinearGaussian'
    >>> find_registered("cauchy", Potential.families, "hybridbn.potentials")
    """
    if name not in registry:
        modules = [module.name for module in iter_modules(import_module(package).__path__)]
        for module in sorted(modules, key=lambda module: module != name):
            import_module(f"{package}.{module}")
            if name in registry:
                break
    return registry.get(name)


def import_modules(package: str) -> None:
    """Import all modules of a package, so that all of its classes are registered."""
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


@cache
def read_stub(package: str) -> dict[str, str]:
    """Return the module of each public name of a package, as its ``__init__.pyi`` has it; of a module the package.

    Editors and type checkers read the same file.

    Examples
    --------
    >>> read_stub("hybridbn")["fit"], read_stub("hybridbn")["errors"]
    ('hybridbn.fitting', 'hybridbn')
    """
    return {
        alias.name: str(statement.module)
        for statement in ast.parse(get_data(package, "__init__.pyi") or b"").body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }


def find_attribute(package: str, name: str, registry: Mapping[str, type] | None = None) -> Any:
    """Return a public name of a package from its home, or else the registered class of that name.

    Raises
    ------
    AttributeError
    """
    home = read_stub(package).get(name)
    if home is not None:
        value = import_module(f"{home}.{name}") if home == package else getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value
    # classes only: Python asks for a module in the package by this way, too
    if registry is not None and name[:1].isupper():
        import_modules(package)
        for registered in registry.values():
            if registered.__name__ == name and registered.__module__.startswith(f"{package}."):
                return registered
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
