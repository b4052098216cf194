"""Rows of a database in a file: one JSON array a line, in which what JSON has no values for is tagged with its type."""

from __future__ import annotations

import datetime
import decimal
import ipaddress
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from hybridbn.errors import TableError

_TAG = "\0"  # no text of a database begins so
_KINDS: dict[type, str] = {
    int: "integer",
    float: "float",
    bool: "bool",
    str: "text",
    decimal.Decimal: "decimal",
    datetime.datetime: "datetime",
    datetime.date: "date",
    datetime.time: "time",
    datetime.timedelta: "interval",
    uuid.UUID: "uuid",
    bytes: "bytes",
    bytearray: "bytes",
    memoryview: "bytes",
    dict: "json",
    list: "json",
}
_AS_TEXT: tuple[type, ...] = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)


def kind_of_types(types: Iterable[type]) -> str:
    """Return what values of these types are, in the words of `hybridbn.tables.formats.database_base.NewColumn`.

    Examples
    --------
    >>> kind_of_types([int, float, type(None)]), kind_of_types([bool]), kind_of_types([int, str])
    ('float', 'bool', 'other')
    """
    kinds = {_KINDS.get(held, "text" if held in _AS_TEXT else "other") for held in types if held is not type(None)}
    for widest in ("decimal", "float"):
        if widest in kinds and kinds <= {"integer", "float", "decimal"}:
            return widest
    return kinds.pop() if len(kinds) == 1 else "other"


def encode_rows(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> bytes:
    r"""Return rows as lines.

    Examples
    --------
    >>> encode_rows([(1, None), (2.5, "a")], ["x", "c"])
    b'[1, null]\n[2.5, "a"]\n'
    """
    encoded = []
    for row in rows:
        try:
            encoded.append(json.dumps(row, default=_tag))
        except (TypeError, ValueError):
            # one cell after the other tells which it is
            for name, value in zip(names, row, strict=True) if len(row) > 1 else ():
                encode_rows([[value]], [name])
            raise TableError(
                f"column {names[0]!r} holds values of type {type(row[0]).__name__}; cast it to text in a query"
            ) from None
    return "".join(f"{line}\n" for line in encoded).encode()


def _tag(value: Any) -> Any:
    if isinstance(value, _AS_TEXT):
        return str(value)
    kind = next((kind for held, kind in _KINDS.items() if isinstance(value, held)), None)
    if kind is None:
        raise TypeError(type(value).__name__)
    if kind == "bytes":
        return {_TAG: [kind, bytes(value).hex()]}
    if kind == "interval":
        return {_TAG: [kind, [value.days, value.seconds, value.microseconds]]}
    return {_TAG: [kind, value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)]}


_DECODERS: dict[str, Any] = {
    "bytes": bytes.fromhex,
    "interval": lambda parts: datetime.timedelta(*parts),
    "decimal": decimal.Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "uuid": uuid.UUID,
}


def _untag(value: dict[str, Any]) -> Any:
    if value.keys() == {_TAG}:
        kind, text = value[_TAG]
        return _DECODERS[kind](text)
    return value


def decode_rows(data: bytes) -> list[list[Any]]:
    """Return the rows of some lines.

    Examples
    --------
    >>> decode_rows(encode_rows([(decimal.Decimal("1.50"), b"x", datetime.date(2020, 1, 2))], ["n", "b", "d"]))
    [[Decimal('1.50'), b'x', datetime.date(2020, 1, 2)]]
    """
    return list(json.loads(b"[%s]" % b",".join(data.splitlines()), object_hook=_untag))
