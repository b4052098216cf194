"""Hybrid Bayesian networks: discrete and continuous variables in one network, exact posteriors, tables with holes.

The public names are loaded when they are first used, so ``import hybridbn`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "hybridbn.errors": ("FormatError", "HybridBNError", "ImpossibleEvidence", "NetworkError", "TableError", "TooWide"),
    "hybridbn.estimators": ("HybridClassifier", "HybridRegressor"),
    "hybridbn.fitting": ("fit",),
    "hybridbn.formats.hbn": ("load",),
    "hybridbn.formats.networks": ("read_network", "write_network"),
    "hybridbn.formats.networks.pgmpy": ("from_pgmpy",),
    "hybridbn.formats.tables": ("read_table", "write_table"),
    "hybridbn.imputer": ("Imputer",),
    "hybridbn.inference.cell_evidence": ("Interval",),
    "hybridbn.learning": ("Augmented", "augment", "expectation_maximization", "impute", "pool", "structural_em"),
    "hybridbn.learning.bias_variance": ("bias_variance",),
    "hybridbn.learning.boosting": ("boost",),
    "hybridbn.learning.ensemble": ("Ensemble",),
    "hybridbn.network": ("Network",),
    "hybridbn.options": ("Options",),
    "hybridbn.potentials": (
        "MTE",
        "Boxes",
        "Cases",
        "Density",
        "Kernel",
        "LinearGaussian",
        "Multinomial",
        "Piece",
        "Potential",
        "Softmax",
    ),
    "hybridbn.tables": ("Table",),
    "hybridbn.variables": ("Continuous", "Discrete"),
}
_PUBLIC = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_PUBLIC)]


def __getattr__(name: str) -> Any:
    home = _PUBLIC.get(name)
    if home is None:
        raise AttributeError(f"module 'hybridbn' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
