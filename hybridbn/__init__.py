"""Hybrid Bayesian networks: discrete and continuous variables in one network, exact posteriors, tables with holes.

The modules beside this one say what a variable and a network are, and hold options and errors; each folder is a room
with a sentence of its own. The public names are loaded when they are first used, so ``import hybridbn`` is cheap.
``__init__.pyi`` lists them.

Doors: `errors`, `formatting`, `jobs`, `network`, `network_description`, `options`, `registry`, `unit_texts`, `units`,
`variables`.
"""

__version__ = "0.1.0"

# nothing is imported outside of the functions: completion would offer it as if it were a name of the library


def __getattr__(name: str) -> object:
    from hybridbn.registry import find_attribute, read_stub

    if name == "__all__":
        return ["__version__", *sorted(name for name, home in read_stub(__name__).items() if home != __name__)]
    return find_attribute(__name__, name)


def __dir__() -> list[str]:
    from hybridbn.registry import read_stub

    return sorted({*read_stub(__name__), *(name for name in globals() if name.startswith("__"))})
