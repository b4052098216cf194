"""The options that say who reads a table and who computes: `--backend`, `--scheduler` and `--workers`."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import tee
from typing import Any, TypeVar

from hybridbn.commands.locations import UsageFault
from hybridbn.commands.table_input import (
    TableRequest,
    refuse_clashing_engines,
    refuse_contradictions,
    refuse_unknown_columns,
)
from hybridbn.errors import TableError
from hybridbn.tables.backends import Backend, Scan, scan
from hybridbn.tables.formats.delimited import MISSING
from hybridbn.variables import shorten

__all__ = ["open_engine", "open_scan", "share_blocks"]


Item = TypeVar("Item")
Kept = TypeVar("Kept")
Result = TypeVar("Result")


@contextmanager
def open_engine(request: TableRequest) -> Iterator[Backend]:
    """Open the backend that a request names, with its workers, which end with the statement."""
    refuse_clashing_engines(request)
    name = request.backend or ("local" if request.scheduler is None else "dask")
    kind = Backend.registry.find(name)
    if kind is None:
        raise UsageFault(f"there is no backend {name!r}; choose one of {shorten(sorted(Backend.registry), 9)}")
    with kind.start(request.workers, request.scheduler) as backend:
        yield backend


def share_blocks(
    engine: Backend, function: Callable[[Item], Result], blocks: Iterable[tuple[Kept, Item]]
) -> Iterator[tuple[Kept, Result]]:
    """Yield what stays in this process of each block, and the result of a function of what is sent of it, in order.

    Examples
    --------
    >>> list(share_blocks(Backend.registry["local"](), len, [(1, "a"), (2, "bc")]))
    [(1, 1), (2, 2)]
    """
    here, there = tee(blocks)
    run: Any = engine.map  # of anything that can be sent, as of fragments, and few of them at a time
    results = run(function if engine.in_process else PackedFunction(function), (sent for _, sent in there))
    for (kept, _), result in zip(here, results, strict=True):
        yield kept, result


class PackedFunction:
    """A function that is sent along with each item, and unpacked once by each thread that is sent many."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        try:
            self._packed = pickle.dumps(function)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise TableError(f"the model can't be sent to other processes ({error}); leave --workers out") from error

    def __call__(self, item: Any) -> Any:
        """Return the function of an item."""
        known = getattr(_UNPACKED, "known", None)
        if known is None or known[0] != self._packed:
            known = _UNPACKED.known = self._packed, pickle.loads(self._packed)  # what the same call packed
        return known[1](item)


_UNPACKED = threading.local()


def open_scan(request: TableRequest, engine: Backend) -> Scan:
    """Return the scan of the table that a request names."""
    given = {
        "--delimiter": request.delimiter is not None,
        "--missing": tuple(request.missing or MISSING) != tuple(MISSING),
        "--decimal": request.decimal != ".",
        "--encoding": request.encoding.lower() not in ("utf-8", "utf8"),
        "--format": request.format is not None or request.from_format is not None,
    }
    told = next((option for option, is_given in given.items() if is_given), None)
    if request.input == "-":
        what = "a pipe can't be read by several workers"
    else:
        what = f"{told} is not for tables that are shared" if told is not None else ""
    if what:
        raise UsageFault(
            f"{what}: --backend and --workers read files and tables of databases as they are; make a file with"
            " hybridbn convert"
        )
    refuse_contradictions(request)
    made = scan(request.input, request.discrete, request.continuous, backend=engine, sample=max(request.sample, 2))
    refuse_unknown_columns(request, made.names)
    return made.drop(request.keep) if request.keep else made
