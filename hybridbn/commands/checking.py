"""Which columns take part, and what is wrong with the others."""

from __future__ import annotations

from typing import Any

from hybridbn.commands.filling import Filling, wishes_of
from hybridbn.commands.profile import Profile
from hybridbn.commands.request import Request
from hybridbn.commands.terminal import Terminal
from hybridbn.errors import NetworkError, TableError
from hybridbn.network import Network
from hybridbn.variables import shorten

__all__ = ["modeled", "refuse_unknown"]


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
    if profile.blank and len(profile.columns) > 1:
        terminal.warn(f"rows without any observed cell ({profile.blank:,}) are drawn from the distribution of all rows")
    names = [name for name in profile.columns if name not in alone]
    if not names:
        raise TableError("no column is left to complete")
    return names


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
