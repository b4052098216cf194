"""``hybridbn convert``: a network or a table from one format to another, by the suffixes."""

from __future__ import annotations

import os
import warnings
from typing import Any

from hybridbn.commands.places import Taken, UsageFault
from hybridbn.commands.terminal import Terminal, keep_interrupts
from hybridbn.formats.networks import is_network, read_network, write_network
from hybridbn.formats.tables import read_table, write_table

__all__ = ["convert"]


def convert(source: str, target: str, terminal: Terminal, *, bins: int | None = None, no_clobber: bool = False) -> None:
    """Read a file and write it in another format, whole or not at all.

    Parameters
    ----------
    source, target : str
        Both files of networks, or both of tables (or tables of databases), as their suffixes tell.
    bins : int, optional
        Cut the continuous variables of a network into so many bins, where the format holds none.
    no_clobber : bool
        Refuse to replace an existing file.
    """
    networks = is_network(source)
    if networks != is_network(target):
        kinds = ("a network", "a table") if networks else ("a table", "a network")
        raise UsageFault(f"{source} is {kinds[0]} by its suffix, and {target} {kinds[1]}; both must be of one kind")
    if bins is not None and not networks:
        raise UsageFault("--bins is for networks; leave it out")
    database = "://" in target
    if not database and os.path.exists(target):
        if no_clobber:
            raise Taken(f"there is {target} already")
        if os.path.exists(source) and os.path.samefile(source, target):
            raise UsageFault("input and output are the same file")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if networks:
            options: dict[str, Any] = {} if bins is None else {"bins": bins}
            write_network(read_network(source), target, **options)
        else:
            keep_interrupts()
            table = read_table(source)
            write_table(table, target, overwrite=not database, weights="weight" if table.weighted else None)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        terminal.warn(text)
