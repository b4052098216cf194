"""The types of columns in databases: what they can hold, and what a new table declares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hybridbn.formats.tables.base import Field

__all__ = ["bound", "ranges_of", "type_of"]

_BYTES = {"TINYINT": 1, "SMALLINT": 2, "SMALLSERIAL": 2, "MEDIUMINT": 3, "INTEGER": 4, "SERIAL": 4, "BIGINT": 8}


def type_of(sqlalchemy: Any, column: Field, dialect: str) -> Any:
    """Return the type of a new column: the one it comes from, in the same kind of database; else one for its kind.

    Examples
    --------
    >>> import sqlalchemy
    >>> type_of(sqlalchemy, Field("x", "decimal"), "postgresql")
    Numeric()
    """
    declared = column.declared
    if declared is not None and isinstance(declared.type, sqlalchemy.types.TypeEngine):
        if declared.dialect == dialect:
            return _unbound(sqlalchemy, declared.type)
        if column.kind in ("decimal", "float", "integer") and isinstance(declared.type, sqlalchemy.Numeric):
            return declared.type.as_generic()
    types = {
        "integer": sqlalchemy.BigInteger,
        "float": sqlalchemy.Double,
        "bool": sqlalchemy.Boolean,
        "decimal": sqlalchemy.Numeric,
        "date": sqlalchemy.Date,
        "time": sqlalchemy.Time,
        "interval": sqlalchemy.Interval,
        "uuid": sqlalchemy.Uuid,
        "bytes": sqlalchemy.LargeBinary,
    }
    if column.kind in ("datetime", "instant"):
        return sqlalchemy.DateTime(timezone=column.kind == "instant")
    if column.kind == "json":
        return sqlalchemy.JSON(none_as_null=True)
    return types.get(column.kind, sqlalchemy.Text)()


def _unbound(sqlalchemy: Any, found: Any) -> Any:
    """Return a type that was found in a database as one for a new table: types that have names are there already."""
    if isinstance(found, sqlalchemy.JSON):
        return type(found)(none_as_null=True)
    if hasattr(found, "create_type"):
        found = found.copy() if hasattr(found, "copy") else found
        found.create_type = False
    return found


def bound(sqlalchemy: Any, column: Field, found: Any, dialect: str) -> Any:
    """Return the type by which values are read and sent: the driver's own, unless it needs to be told or comes from elsewhere."""
    own = column.declared is not None and column.declared.dialect == dialect
    return found if not own or isinstance(found, _told(sqlalchemy)) else None


def _told(sqlalchemy: Any) -> tuple[type, ...]:
    """Return the types that drivers do not tell from others, as truth values held as numbers."""
    return sqlalchemy.Boolean, sqlalchemy.JSON, sqlalchemy.ARRAY


def ranges_of(sqlalchemy: Any, types: Mapping[str, Any], dialect: str) -> dict[str, tuple[float, float]]:
    """Return the least and the greatest number that each column of integers, or of numbers with so many digits, can hold.

    Examples
    --------
    >>> import sqlalchemy
    >>> ranges_of(sqlalchemy, {"k": sqlalchemy.SmallInteger(), "n": sqlalchemy.Numeric(4, 1)}, "postgresql")
    {'k': (-32768.0, 32767.0), 'n': (-999.9, 999.9)}
    """
    found: dict[str, tuple[float, float]] = {}
    for name, held in types.items():
        if isinstance(held, sqlalchemy.Integer) and dialect != "sqlite":  # where all integers have 64 bits
            size = 8 * _BYTES.get(held.__visit_name__.upper().replace("SMALL_INTEGER", "SMALLINT"), 8)
            unsigned = bool(getattr(held, "unsigned", False))
            # floats are too coarse for the greatest numbers of 64 bits, and nobody gets there
            high = float(2 ** (size - (not unsigned)) - 1) if size < 64 else math.inf
            found[name] = (0.0 if unsigned else -high - 1, high)
        elif isinstance(held, sqlalchemy.Numeric) and not isinstance(held, sqlalchemy.Float) and held.precision:
            scale = held.scale or 0
            high = (10**held.precision - 1) / 10**scale
            found[name] = (-high, high)
    return found
