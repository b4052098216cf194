"""Which columns take part, and what is wrong with the others."""

from __future__ import annotations

import re
from typing import Any

from numpy.typing import NDArray

from hybridbn.commands.filling import Filling, wishes_of
from hybridbn.commands.profile import ColumnProfile, Profile
from hybridbn.commands.request import Request
from hybridbn.commands.terminal import Terminal
from hybridbn.errors import NetworkError, TableError
from hybridbn.network import Network
from hybridbn.variables import shorten

__all__ = ["marker", "modeled", "numbers_as_text", "refuse_unknown"]

_MANY_STATES = 10
_UNIT = re.compile(r"\s*([$€£¥]?)\s*[-+]?[0-9][0-9.,']*\s*([%$€£¥°]?[a-zA-Zµ/]{0,6})\s*")
_MARKERS = {sign * value for sign in (-1.0, 1.0) for value in (9.0, 99.0, 999.0, 9999.0, 99999.0)}


def modeled(profile: Profile, model: Network | None, request: Request, terminal: Terminal) -> list[str]:
    """Return the columns to learn from, having told what is left alone."""
    empty = [name for name, column in profile.columns.items() if column.kind is None]
    known = set() if model is None else set(wishes_of(model)) | set(model)
    if model is not None:
        if not known & set(profile.columns):
            raise NetworkError(
                f"the model and the table have no column in common: {shorten(sorted(known))} against {shorten(profile.columns)}"
            )
        absent = [name for name in model if name not in profile.columns]
        if absent and "imputation" not in model.graph:
            terminal.warn(
                f"the model has columns {shorten(absent)} that the table hasn't; they count as unknown in each row"
            )
        strays = [n for n, c in profile.columns.items() if c.missing and n not in known and not c.identifier]
        if strays:
            raise NetworkError(
                f"columns {shorten(strays)} have missing cells, but the model doesn't know them; --keep them, or learn a model that does"
            )
        return [name for name in profile.columns if name in known]
    if empty:
        raise TableError(
            f"no value is observed in {shorten(empty)}, so nothing tells what is missing there; --keep {','.join(empty[:3])} leaves "
            "it as it is"
        )
    alone = [name for name, column in profile.columns.items() if column.identifier and name not in request.include]
    for name in request.include:
        if profile.columns[name].overflowing:
            raise TableError(f"--include {name}: the column has too many different values")
    if alone:
        holes = sum(profile.columns[name].missing for name in alone)
        left = f"; what is missing there ({holes:,}) stays missing" if holes else ""
        terminal.warn(
            f"left alone as identifiers, with a value of their own in each row or too many different ones: {shorten(alone)}{left}; "
            "--keep says so, --include completes them from their own values"
        )
    for name, column in profile.columns.items():
        if remark := numbers_as_text(column) or marker(column, profile.sample[name]):
            terminal.warn(remark)
    if profile.blank and len(profile.columns) > 1:
        terminal.warn(f"rows without any observed cell ({profile.blank:,}) are drawn from the distribution of all rows")
    names = [name for name in profile.columns if name not in alone]
    if not names:
        raise TableError("no column is left to complete")
    return names


def numbers_as_text(column: ColumnProfile) -> str | None:
    """Return what to say of a column of numbers that all have the same unit or currency, which makes them states.

    Examples
    --------
    >>> made = ColumnProfile("x", kind="states", states=tuple(f"{i}.5%" for i in range(20)))
    >>> numbers_as_text(made)
    "column 'x' holds numbers with a sign or unit, such as '0.5%', which makes them states; write plain numbers if they are to be numbers"
    """
    if column.kind != "states" or len(column.states) < _MANY_STATES:
        return None
    units = set()
    for state in column.states:
        found = _UNIT.fullmatch(state) if isinstance(state, str) else None
        if found is None or not (found[1] or found[2]):
            return None
        units.add((found[1], found[2]))
        if len(units) > 1:
            return None
    return (
        f"column {column.name!r} holds numbers with a sign or unit, such as {column.states[0]!r}, which makes them states; "
        "write plain numbers if they are to be numbers"
    )


def marker(column: ColumnProfile, sample: NDArray[Any]) -> str | None:
    """Return what to say of a number such as -99 that stands apart from all others and occurs again: a missing cell, maybe.

    Examples
    --------
    >>> import numpy as np
    >>> made = ColumnProfile("x", kind="number", low=-99.0, high=5.0)
    >>> marker(made, np.array([1.0, -99.0, 3.0, 5.0, -99.0, np.nan])) is None
    False
    """
    if column.kind != "number":
        return None
    for value, rest in ((column.low, sample[sample > column.low]), (column.high, sample[sample < column.high])):
        if value not in _MARKERS or len(rest) < 2 or (sample == value).sum() < 2:
            continue
        if min(abs(rest.min() - value), abs(rest.max() - value)) > rest.max() - rest.min():
            return (
                f"column {column.name!r} holds {value:g} again and again, far from all its other numbers; if that marks a missing "
                f"cell, say --missing {value:g} (CSV and TSV), or empty such cells"
            )
    return None


def refuse_unknown(profile: Profile, filling: Filling, request: Request, terminal: Terminal) -> None:
    """Refuse states that the user's model doesn't know, or say that they tell nothing."""
    strange: dict[str, list[Any]] = {}
    for name, variable in filling.models[0].columns.variables.items():
        column = profile.columns.get(name)
        known = getattr(variable, "states", None)
        if column is not None and column.kind == "states" and known is not None:
            unknown = [state for state in column.states if state not in known]
            if unknown:
                strange[name] = unknown
    for name, unknown in strange.items():
        text = f"column {name!r} holds {shorten(unknown)}, which the model has never seen"
        if request.unknown == "error":
            raise TableError(f"{text}; --unknown missing leaves such cells as they are and lets them tell nothing")
        terminal.warn(f"{text}; such cells stay as they are, and count as unknown for the others of their rows")
