"""Names that stand for things defined elsewhere: libraries, what is registered, and what a package's stub lists.

Families of potentials, fitters, builders, formats of tables and of networks, databases, engines, backends, commands and
adapters of frames are all registered by the same function, `Registry.register`. A module of a registry's package is
imported when one of its names is first asked for; whoever defines something elsewhere imports that module first.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Sequence
from functools import cache
from importlib import import_module
from pkgutil import get_data, iter_modules
from typing import Any, ClassVar, Self, TypeVar

from hybridbn.errors import HybridBNError, TableError

Value = TypeVar("Value")


class Registry(dict[str, Value]):
    """What is known by name, which includes whatever the modules of a package register.

    Parameters
    ----------
    kind : str
        What messages call a value.
    package : str
        Its modules are imported when a name is not known yet.
    attribute : str
        Where subclasses of a `Registered` class say their name, or a tuple of names; by default each is known by the
        name of the class.
    instances : bool
        Whether a subclass stands for the object that is made of it without arguments.
    reserved : collection of str
        Names that nothing may have, as they stand for a choice among all.
    others : sequence of str
        Modules of other packages that are imported with those of the package.
    error : kind of exception
        What a name that is taken raises.

    Examples
    --------
    >>> from hybridbn.potentials.base import Potential
    >>> Potential.families.find("gaussian").__name__
    'LinearGaussian'
    >>> Potential.families.find("cauchy")
    >>> Potential.families.register(int, "gaussian")
    Traceback (most recent call last):
        ...
    TypeError: there is a family called 'gaussian' already, that of hybridbn.potentials.gaussian; choose another name
    """

    def __init__(
        self,
        kind: str,
        package: str,
        attribute: str | None = None,
        *,
        instances: bool = False,
        reserved: Collection[str] = (),
        others: Sequence[str] = (),
        error: type[Exception] = TypeError,
    ) -> None:
        super().__init__()
        self.package = package
        self._kind, self._attribute = kind, attribute
        self._instances, self._reserved, self._others, self._error = instances, reserved, others, error
        self._origins: dict[str, tuple[str, str]] = {}
        self._owners: dict[type, Value | None] = {}
        self._loaded = False

    def register(self, value: Value, *names: str, definition: Any = None) -> None:
        """Make a value known by names; one that another definition has is refused.

        A class or function is registered again when its module, or its cell of a notebook, is run again.

        Parameters
        ----------
        definition : class or function, optional
            What defines the value; by default the value itself, or the class of an object.
        """
        origin = _find_origin(value if definition is None else definition)
        for name in names:
            if name in self._reserved:
                raise self._error(
                    f"{name!r} stands for a choice among all and can't be a {self._kind}; choose another name"
                )
            if name in self and self._origins[name] != origin:
                module, _ = self._origins[name]
                raise self._error(
                    f"there is a {self._kind} called {name!r} already, that of {module}; choose another name"
                )
        self._owners.clear()
        self.update(dict.fromkeys(names, value))
        self._origins.update(dict.fromkeys(names, origin))

    def register_class(self, kind: type) -> None:
        """Register a class by its own attribute, if it has it, as a class without it is a base of others."""
        names = kind.__name__ if self._attribute is None else vars(kind).get(self._attribute)
        if names:
            value: Any = kind() if self._instances else kind
            self.register(value, *([names] if isinstance(names, str) else names))

    def find(self, name: str) -> Value | None:
        """Return the value of a name, or None, importing the package's modules until it is there.

        Nothing is imported for a name that is known already, and the module of that very name comes first.
        """
        if name not in self:
            self.load(name)
        return self.get(name)

    def load(self, name: str = "") -> Self:
        """Import all modules of the package, so that all names are known, or as many as make one name known."""
        for module in () if self._loaded else self._list_modules(name):
            import_module(module)
            if name and name in self:
                return self
        self._loaded = True
        return self

    def find_owner(self, thing: Any) -> Value | None:
        """Return the first value that `owns` a thing, as the type of the thing alone decides; None where none does.

        Examples
        --------
        >>> from hybridbn.tables.columns import FrameAdapter
        >>> FrameAdapter.registry.find_owner({"x": [1.5]}).kind
        'dict'
        """
        if type(thing) not in self._owners:
            values: Collection[Any] = self.load().values()
            self._owners[type(thing)] = next((value for value in values if value.owns(thing)), None)
        return self._owners[type(thing)]

    def _list_modules(self, first: str = "") -> list[str]:
        names = [module.name for module in iter_modules(import_module(self.package).__path__)]
        return [*(f"{self.package}.{name}" for name in sorted(names, key=lambda name: name != first)), *self._others]


def _find_origin(value: Any) -> tuple[str, str]:
    """Return the module and the name of the class or function that a value is, or that it was made of."""
    definition = value if hasattr(value, "__qualname__") else type(value)
    return definition.__module__, definition.__qualname__


class Registered:
    """A class whose subclasses are known by name as soon as they are defined.

    Attributes
    ----------
    registry : Registry
    """

    registry: ClassVar[Registry[Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "registry" not in vars(cls):
            cls.registry.register_class(cls)


class LazyModule:
    """A module that is imported when something of it is first used.

    Examples
    --------
    >>> json = LazyModule("json")
    >>> json.dumps([1.5, None])
    '[1.5, null]'
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__wrapped__":  # inspection asks this of all that a module holds, installed or not
            raise AttributeError(attribute)
        # not kept: import_module looks the module up, and what it holds may be replaced
        return getattr(import_module(self.__name__), attribute)


def import_library(name: str, needed: str, error: type[HybridBNError] = TableError) -> Any:
    """Return a library that need not be installed, or raise an error with this text, and with the reason where the
    library is there but broken.

    Examples
    --------
    >>> import_library("nosuch", "backend='nosuch' needs nosuch: pip install nosuch")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: backend='nosuch' needs nosuch: pip install nosuch
    """
    try:
        return import_module(name)
    except ImportError as absence:
        is_absent = isinstance(absence, ModuleNotFoundError) and absence.name in (name, name.partition(".")[0])
        raise error(needed if is_absent else f"{needed} ({absence})") from absence


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


def find_attribute(package: str, name: str, registry: Registry[type[Any]] | None = None) -> Any:
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
        for registered in registry.load().values():
            if registered.__name__ == name and registered.__module__.startswith(f"{package}."):
                return registered
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
