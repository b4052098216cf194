"""Classes that register themselves by name; those of the library are imported when their name is first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

__all__ = ["find_attribute", "find_registered", "import_modules"]

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


def find_attribute(package: str, homes: Mapping[str, str], registry: Mapping[str, type], name: str) -> Any:
    """Return a public name of a package from its home, or else the registered class of that name.

    A home is a module of the package, or the whole name of another module.

    Raises
    ------
    AttributeError
    """
    if name in homes:
        home = homes[name]
        return getattr(import_module(home if "." in home else f"{package}.{home}"), name)
    # classes only: Python asks for a module in the package by this way, too
    if name[:1].isupper():
        import_modules(package)
        for registered in registry.values():
            if registered.__name__ == name and registered.__module__.startswith(f"{package}."):
                return registered
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
