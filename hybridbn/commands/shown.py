"""A look at the first rows that had holes, for the terminal."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np

from hybridbn.commands.filling import Filling
from hybridbn.commands.profile import Profile
from hybridbn.commands.sources import Source
from hybridbn.tables import Table

__all__ = ["preview"]

_WIDTH = 118
_CELL = 16
_ROWS = 200


def preview(source: Source, profile: Profile, filling: Filling, kinds: dict[str, Any], most: int) -> str:
    """Return some rows as text, what was imputed with a star."""
    lines: list[list[str]] = []
    names = [name for name in source.names if name in profile.columns]
    for block in itertools.islice(source.blocks(_ROWS), 50):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = block.cells(filling.names, kinds)
        cells = {name: profile.aligned(name, found.get(name), block.rows) for name in filling.names}
        fills = filling.fills(Table.from_cells(cells, stateless=True), block.start, 0)
        given = {
            (int(row), name): v for name, (rows, values) in fills.items() for row, v in zip(rows, values, strict=True)
        }
        values = block.values(names)
        for row in np.unique([row for row, _ in given]).tolist():
            line = [str(block.start + row + 1)]
            for name in names:
                value, star = values[name][row], ""
                if (row, name) in given:
                    value, star = given[row, name], "*"
                line.append(_short(value, profile.columns[name].whole) + star)
            lines.append(line)
            if len(lines) >= most:
                return _laid_out(["row", *names], lines)
    return _laid_out(["row", *names], lines) if lines else "no cell was missing"


def _short(value: Any, whole: bool) -> str:
    if value is None:
        return "?"
    if isinstance(value, float):
        value = int(value) if whole and value == int(value) else f"{value:.4g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _CELL else f"{text[: _CELL - 1]}…"


def _laid_out(names: list[str], lines: list[list[str]]) -> str:
    heads = [_short(name, False) for name in names]
    columns = [[head, *(line[place] for line in lines)] for place, head in enumerate(heads)]
    widths = [max(map(len, column)) for column in columns]
    count = len(widths)
    while count > 1 and sum(widths[:count]) + 2 * (count - 1) > _WIDTH:
        count -= 1
    rows = [
        "  ".join(text.rjust(width) for text, width in zip(row, widths[:count], strict=False)).rstrip()
        for row in zip(*columns[:count], strict=True)
    ]
    more = f" ({len(names) - count} more columns)" if count < len(names) else ""
    return "\n".join([*rows, f"* imputed{more}"])
