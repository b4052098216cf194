"""Parts without a scheduler: any number of machines run the same script, and share what they count by a folder."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from hybridbn.backends.base import Backend, Fragment, Source, Task, merge
from hybridbn.backends.builds import hash_build
from hybridbn.backends.profiles import ColumnTally, Profile
from hybridbn.backends.sampling import RowSample
from hybridbn.backends.scan_counter import Occurring, Tallies
from hybridbn.backends.transformed import TransformedSource
from hybridbn.errors import FormatError, PartsMissing, TableError
from hybridbn.fitting.counting import Counts, Moments
from hybridbn.fitting.trees.column_splits import TargetSums
from hybridbn.formats.files import write_atomically
from hybridbn.learning.boosting.passes import RowArrays, Split
from hybridbn.learning.boosting.rounds import MarginSums
from hybridbn.learning.boosting.scanned_counts import RoundCounts
from hybridbn.structures.mixture_em import MixtureSums
from hybridbn.structures.mixture_statistics import Measures
from hybridbn.units import Unit
from hybridbn.variables import shorten

__all__ = ["Parts", "decode_statistics", "encode_statistics"]

Result = TypeVar("Result")

_CLASSES: Mapping[str, type[Any]] = {
    one.__name__: one
    for one in (
        ColumnTally,
        MarginSums,
        Measures,
        MixtureSums,
        Moments,
        Occurring,
        Profile,
        RoundCounts,
        RowArrays,
        RowSample,
        Split,
        Tallies,
        TargetSums,
        Unit,
    )
}
_MOST_BYTES = 1 << 31
_STEP = 0.2
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What a damaged file may raise."""


class Parts(Backend):
    """Reads one of several parts of a table; the others are read by the same script with other numbers.

    Each pass over the table is done when all parts have written what they counted into the folder. A script that finds
    a part missing waits for it, or ends with an error that names it; run again it goes on from there, because passes
    that were made are read from the folder. Parts that another build of hybridbn has made, or that are of another table
    or another user, are refused.

    Parameters
    ----------
    folder : path
        One that all machines see; it is made if it is not there.
    part, of : int
        Which part this is, from 1, and how many there are.
    wait : float
        Seconds to wait for the other parts of a pass; `math.inf` waits for ever.

    Examples
    --------
    >>> import tempfile, hybridbn as hb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for number in range(2):
    ...         hb.Table({"c": ["a", "b", "b"]}).write(f"{folder}/{number}.parquet")
    ...     for part in (1, 2, 1):
    ...         scan = hb.scan(f"{folder}/*.parquet", backend=Parts(f"{folder}/job", part, 2))
    ...         try:
    ...             print(hb.fit([], scan).potential("c").table)
    ...         except hb.TableError as error:
    ...             print(error)
    pass 1: part 2 of 2 is missing; run the same script for it, and then this one again
    [0.375 0.625]
    [0.375 0.625]
    """

    folder: Path
    part: int
    of: int
    wait: float

    def __init__(self, folder: str | os.PathLike[str], part: int, of: int, *, wait: float = 0.0) -> None:
        whole = all(isinstance(number, int) and not isinstance(number, bool) for number in (part, of))
        if not whole or not 1 <= part <= of:
            raise TableError(f"part {part!r} of {of!r}: parts are numbered from 1, as in part 3 of 40")
        self.folder, self.part, self.of, self.wait = Path(folder), part, of, wait
        self._made = 0

    def map(self, function: Callable[[Fragment], Result], items: Sequence[Fragment]) -> Iterable[Result]:
        """Refused: a part knows its own rows only."""
        self._refuse_answers()

    def merge(self, task: Task, source: Source) -> Any:
        """Return the sum of what all parts have counted, after reading this part if that is not done yet."""
        self._made += 1
        fragments = source.fragments()
        manifest = self._check_manifest(source)
        folder = self.folder / f"pass-{self._made:04}"
        folder.mkdir(parents=True, exist_ok=True)
        stamp = {"manifest": manifest, "task": type(task).__name__, "columns": list(task.columns)}
        if not self._is_there(folder, self.part):
            own = fragments[self.part - 1 :: self.of]
            data = encode_statistics(merge(map(task.learn_fragment, own)))
            write_atomically(folder / f"part-{self.part}.npz", data)
            known = stamp | {"sha256": hashlib.sha256(data).hexdigest()}
            write_atomically(folder / f"part-{self.part}.json", json.dumps(known).encode())
        deadline = time.monotonic() + self.wait
        while absent := [part for part in range(1, self.of + 1) if not self._is_there(folder, part)]:
            if time.monotonic() >= deadline:
                named = f"part {absent[0]}" if len(absent) == 1 else f"parts {shorten(absent)}"
                verb = "is" if len(absent) == 1 else "are"
                raise PartsMissing(
                    f"pass {self._made}: {named} of {self.of} {verb} missing; run the same script for"
                    f" {'it' if len(absent) == 1 else 'them'}, and then this one again"
                )
            time.sleep(_STEP)
        return merge(self._read(folder, part, stamp) for part in range(1, self.of + 1))

    def _is_there(self, folder: Path, part: int) -> bool:
        return (folder / f"part-{part}.json").exists()

    def _read(self, folder: Path, part: int, stamp: Mapping[str, Any]) -> Any:
        path = folder / f"part-{part}.npz"
        for file in (path, path.with_suffix(".json")):
            _refuse_other_owner(file)
        try:
            known = json.loads(path.with_suffix(".json").read_bytes())
            data = path.read_bytes()
            if known.pop("sha256") != hashlib.sha256(data).hexdigest():
                raise FormatError(f"{path}: the part is damaged; remove its two files, and run it again")
        except (ValueError, KeyError, AttributeError, OSError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"{path}: the part can't be read ({error}); remove it, and run it again") from None
        if known != stamp:
            raise TableError(
                f"{path}: the part is of another script, table or build of hybridbn; give each job a folder of its own"
            )
        return decode_statistics(data, str(path))

    def _check_manifest(self, source: Source) -> str:
        """Write down what the job is, or refuse a folder that holds another one; return the manifest's hash."""
        while isinstance(source, TransformedSource):
            # the rows of some passes are others than those that are read
            source = source.real
        manifest = {
            "build": hash_build(),
            "of": self.of,
            "columns": [f"{one.name}: {one.type}" for one in source.schema],
            "fragments": [_describe(fragment) for fragment in source.fragments()],
        }
        text = json.dumps(manifest, sort_keys=True)
        path = self.folder / "manifest.json"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_atomically(path, text.encode())
        _refuse_other_owner(path)
        held: Any = None
        with contextlib.suppress(ValueError):
            held = json.loads(path.read_bytes())
        if held != manifest:
            differing = [name for name in manifest if not isinstance(held, dict) or held.get(name) != manifest[name]]
            what = {"build": "another build of hybridbn", "of": "another number of parts"}.get(differing[0])
            raise TableError(
                f"{path}: the folder holds parts of {what or 'another table'}; give each job a folder of its own, and"
                " install the same build on all machines"
            )
        return hashlib.sha256(text.encode()).hexdigest()

    def answer(self, task: Task, source: Source) -> NoReturn:
        """Refused: a part knows its own rows only."""
        self._refuse_answers()

    def _refuse_answers(self) -> NoReturn:
        raise TableError(
            "parts are for learning from counts: what is asked of each row, such as a posterior or a step of EM, comes"
            " from another backend, or from a scan of some of the files"
        )


def _describe(fragment: Fragment) -> list[Any]:
    path, state = getattr(fragment, "path", type(fragment).__name__), getattr(fragment, "state", None)
    # times differ between copies of a file, names of folders between machines
    return [os.path.basename(path), getattr(fragment, "start", 0), fragment.rows, state[0] if state else None]


def _refuse_other_owner(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if hasattr(os, "getuid") and os.stat(path).st_uid != os.getuid():
            raise TableError(f"{path} belongs to another user, whose counts are not merged; take another folder")


# -- statistics as files, without pickle -------------------------------------------------------------------------------


def encode_statistics(statistics: Any) -> bytes:
    """Return statistics as an npz file: their arrays, and JSON for what is between them.

    Examples
    --------
    >>> decode_statistics(encode_statistics(Counts({("a",): np.array([1.0, 2.0])})))["a",]
    array([1., 2.])
    """
    arrays: dict[str, Any] = {}

    def encode(value: Any) -> Any:
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, np.ndarray):
            arrays[f"a{len(arrays)}"] = value
            return {"array": f"a{len(arrays) - 1}"}
        if isinstance(value, int | np.integer):
            return int(value)
        if isinstance(value, float | np.floating):
            return {"float": float(value).hex()}
        if isinstance(value, tuple | list):
            return {"tuple": [encode(item) for item in value]}
        if isinstance(value, Counts):
            return {"counts": [[encode(names), encode(table)] for names, table in value.items()]}
        if isinstance(value, Mapping):
            return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
        if type(value).__name__ in _CLASSES:
            held = {field.name: encode(getattr(value, field.name)) for field in fields(value)}
            return {"class": type(value).__name__, "fields": held}
        raise TableError(f"statistics of type {type(value).__name__} are not written to files; use another backend")

    tree = json.dumps(encode(statistics))
    file = io.BytesIO()
    np.savez_compressed(file, tree=np.frombuffer(tree.encode(), np.uint8), **arrays)
    return file.getvalue()


def decode_statistics(data: bytes, shown: str = "the part") -> Any:
    """Return the statistics that `encode_statistics` wrote; refuse anything else.

    Examples
    --------
    >>> decode_statistics(b"nothing")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: the part holds no statistics: File is not a zip file
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            if sum(one.file_size for one in packed.infolist()) > _MOST_BYTES:
                raise FormatError("more bytes than statistics have")
        with np.load(io.BytesIO(data), allow_pickle=False) as opened:
            arrays = {name: opened[name] for name in opened.files}
        return _decode(json.loads(arrays.pop("tree").tobytes()), arrays)
    except _DAMAGE as error:
        raise FormatError(f"{shown} holds no statistics: {error}") from None


def _decode(tree: Any, arrays: Mapping[str, Any]) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[tree["array"]]
    if "float" in tree:
        return float.fromhex(tree["float"])
    if "tuple" in tree:
        return tuple(_decode(item, arrays) for item in tree["tuple"])
    pairs = tree.get("counts", tree.get("dict"))
    if pairs is not None:
        made = {_decode(key, arrays): _decode(item, arrays) for key, item in pairs}
        return Counts(made) if "counts" in tree else made
    return _CLASSES[tree["class"]](**{name: _decode(item, arrays) for name, item in tree["fields"].items()})
