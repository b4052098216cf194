"""Where `Table` was before it moved to `hybridbn.tables`."""

from __future__ import annotations

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "Table":
        raise AttributeError(f"module 'hybridbn.table' has no attribute {name!r}")
    from hybridbn.tables import Table

    warnings.warn("hybridbn.table is deprecated; import Table from hybridbn", DeprecationWarning, stacklevel=2)
    return Table
