"""The zip archive of a ``.hbn`` file, and the values in it: exact in JSON, arrays apart, everything checked when it is
read.

The archive is written whole or not at all. JSON knows neither arrays, tuples, infinities nor keys that are not text;
these are written as an object with a single key that starts with ``$``. Arrays of one type are laid end to end, and
must be read in the order in which they were written: so a reader never allocates more than the file holds.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import reprlib
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

import hybridbn
from hybridbn.errors import FormatError
from hybridbn.tables.formats.files import write_atomically
from hybridbn.variables import shorten

__all__ = [
    "DTYPES",
    "VERSION",
    "Packer",
    "Unpacker",
    "abbreviate",
    "check_fields",
    "from_json",
    "read_archive",
    "to_json",
    "write_archive",
]

VERSION = 2

_MANIFEST = "manifest.json"
_NETWORK = "network.json"
_MAX_MANIFEST = 64 << 10
_MAX_NETWORK = 64 << 20
_MAX_MEMBERS = 64
"""Manifests and descriptions of networks with more bytes, and archives with more members, are refused."""
_END = struct.Struct("<4s4H2LH")
_NPY = re.compile(rb"\{'descr': '([^']{1,8})', 'fortran_order': False, 'shape': \((\d{1,15}),\), \}\s*")
_KNOWN_STARTS = {
    b"": "the file is empty",
    b"PK\x05\x06": "an empty zip archive",
    b"\x80": "a Python pickle, which could run any code and is never read",
    b"\x93NUMPY": "a bare array of numpy",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"{": "bare JSON",
    b"[": "bare JSON",
    b"<": "an XML file",
}

DTYPES = {"float64": "<f8", "int64": "<i8", "bool": "|b1"}
"""Arrays of these types are saved, each in a member named after the type."""
_ARRAYS = {f"{name}.npy": dtype for name, dtype in DTYPES.items()}
_NAMES = {np.dtype(dtype).type: name for name, dtype in DTYPES.items()}  # dtype.name does the same, but slowly

_MAX_DEPTH = 50
_MAX_BITS = 3000
"""Values that are nested deeper, and integers with more bits, are refused."""
_MAX_ITEMS = 5_000_000
"""Two bytes of JSON can cost 60 when they are read; this bounds it, and leaves room for networks of 100,000 nodes."""

_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxstring = _SHORT_REPR.maxother = 100


# -- values ---------------------------------------------------------------------------------------------------------


def to_json(value: Any) -> bytes:
    r"""Write plain values as JSON in ASCII; floats so that they come back bit for bit.

    Examples
    --------
    >>> to_json({"p": [0.1, -0.0, 5e-324], "name": "é"})
    b'{"p":[0.1,-0.0,5e-324],"name":"\\u00e9"}'
    """
    data = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    _refuse_many(data)
    return data


def from_json(data: bytes) -> Any:
    """Read JSON, refusing what Python's reader lets pass: NaN, 1e999, repeated keys, deep nesting, huge integers.

    Examples
    --------
    >>> from_json(b'{"p": 0.5}')
    {'p': 0.5}
    >>> from_json(b'{"p": 1, "p": 2}')
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: the key 'p' occurs twice
    """
    _refuse_many(data)
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_build_object,
            parse_constant=_refuse_constant,
            parse_float=_parse_float,
            parse_int=_parse_integer,
        )
    except RecursionError:
        raise FormatError("the JSON is nested too deeply") from None
    except UnicodeDecodeError as error:
        raise FormatError(f"the JSON is not UTF-8 text: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise FormatError(f"not JSON: {error}") from None


def _refuse_many(data: bytes) -> None:
    if data.count(b",") + data.count(b"[") + data.count(b"{") > _MAX_ITEMS:
        raise FormatError(f"more than {_MAX_ITEMS:,} values in JSON; large parameters belong in arrays")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise FormatError(f"the key {abbreviate(name)} occurs twice")
    return result


def _refuse_constant(text: str) -> NoReturn:
    raise FormatError(f"{text} is not a JSON number")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise FormatError(f"the number {text[:40]} is out of range")
    return number


def _parse_integer(text: str) -> int:
    if len(text) > _MAX_BITS // 3:
        raise FormatError(f"an integer of {len(text)} digits")
    return int(text)


class Packer:
    """Converts values to what JSON can hold, and collects the arrays.

    Examples
    --------
    >>> packer = Packer()
    >>> packer.pack({"table": np.array([[0.5, 0.5]]), "end": math.inf}, "node 'c'")
    {'table': {'$array': ['float64', 0, [1, 2]]}, 'end': {'$float': 'inf'}}
    >>> packer.join_arrays()
    {'float64': array([0.5, 0.5])}
    """

    def __init__(self) -> None:
        self._arrays: dict[str, list[NDArray[Any]]] = {name: [] for name in DTYPES}
        self._used = dict.fromkeys(DTYPES, 0)

    def pack(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return a JSON value; `where` says in messages whose value it is."""
        if depth > _MAX_DEPTH:
            raise FormatError(f"{where}: values nested more than {_MAX_DEPTH} deep can't be saved")
        if isinstance(value, np.generic):
            value = value.item()
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind is int and value.bit_length() <= _MAX_BITS:
            return value
        if kind is list:
            return [self.pack(item, where, depth + 1) for item in value]
        if kind is tuple:
            return {"$tuple": [self.pack(item, where, depth + 1) for item in value]}
        if kind is dict:
            if all(type(key) is str and not key.startswith("$") for key in value):
                return {key: self.pack(item, where, depth + 1) for key, item in value.items()}
            return {"$dict": [[self.pack(item, where, depth + 1) for item in pair] for pair in value.items()]}
        if isinstance(value, np.ndarray) and value.dtype.type in _NAMES:
            return self._pack_array(value)
        what = (
            f"an array of {value.dtype}" if isinstance(value, np.ndarray) else f"{abbreviate(value)} ({kind.__name__})"
        )
        raise FormatError(
            f"{where}: {what} can't be saved; files hold text, numbers, booleans, None, lists, tuples, dictionaries "
            f"and arrays of {', '.join(DTYPES)}"
        )

    def _pack_array(self, array: NDArray[Any]) -> dict[str, Any]:
        name = _NAMES[array.dtype.type]
        offset = self._used[name]
        self._used[name] += array.size
        self._arrays[name].append(array.ravel())
        return {"$array": [name, offset, list(array.shape)]}

    def join_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays of each type end to end; types without any are left out."""
        return {
            name: np.concatenate(arrays).astype(DTYPES[name], copy=False)
            for name, arrays in self._arrays.items()
            if self._used[name]
        }


class Unpacker:
    """Restores the values that `Packer` converted; arrays must be asked for in the order in which they were packed.

    Examples
    --------
    >>> unpacker = Unpacker({"float64": np.array([0.5, 0.5])})
    >>> unpacker.unpack({"table": {"$array": ["float64", 0, [1, 2]]}})
    {'table': array([[0.5, 0.5]])}
    >>> unpacker.finish()
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._used = dict.fromkeys(DTYPES, 0)

    def unpack(self, value: Any, depth: int = 0) -> Any:
        """Return the value that was packed."""
        if depth > _MAX_DEPTH:
            raise FormatError(f"values nested more than {_MAX_DEPTH} deep")
        if isinstance(value, list):
            return [self.unpack(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        if not any(key.startswith("$") for key in value):
            return {key: self.unpack(item, depth + 1) for key, item in value.items()}
        if len(value) == 1:
            tag, content = next(iter(value.items()))
            if tag == "$float" and content in ("inf", "-inf", "nan"):
                return float(content)
            if tag == "$array" and isinstance(content, list) and len(content) == 3:
                return self._unpack_array(*content)
            if tag == "$tuple" and isinstance(content, list):
                return tuple(self.unpack(item, depth + 1) for item in content)
            if tag == "$dict" and isinstance(content, list):
                return self._unpack_dict(content, depth)
        raise FormatError(f"{shorten(value)} is no value that a version 1 file can hold")

    def _unpack_dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        result = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise FormatError("a dictionary must be a list of pairs")
            key, item = (self.unpack(part, depth + 1) for part in pair)
            try:
                result[key] = item
            except TypeError:
                raise FormatError(f"a {type(key).__name__} can't be the key of a dictionary") from None
        if len(result) < len(pairs):
            raise FormatError("a key of a dictionary occurs twice")
        return result

    def _unpack_array(self, name: Any, offset: Any, shape: Any) -> NDArray[Any]:
        if not isinstance(name, str) or name not in DTYPES or not isinstance(shape, list):
            raise FormatError(f"a reference to an array of unknown type {abbreviate(name)}")
        if len(shape) > 32 or not all(type(n) is int and 0 <= n < 1 << 31 for n in (offset, *shape)):
            raise FormatError(f"a reference to an array of impossible shape {abbreviate(shape)}")
        used, size = self._used[name], math.prod(shape)
        array = self._arrays.get(name, np.empty(0, DTYPES[name]))
        if offset != used or used + size > len(array):
            raise FormatError(
                f"a reference to {size} values of {name}.npy from {offset} on, where {used} of {len(array)} are used"
            )
        self._used[name] = used + size
        try:
            return array[used : used + size].reshape(shape)
        except ValueError:
            raise FormatError(f"a reference to an array of impossible shape {abbreviate(shape)}") from None

    def finish(self) -> None:
        """Refuse arrays that nothing referred to."""
        for name, array in self._arrays.items():
            if self._used[name] < len(array):
                raise FormatError(f"only {self._used[name]} of the {len(array)} values of {name}.npy are used")


def abbreviate(value: Any) -> str:
    """Return the start of a value's repr, without making the whole of it, which may be huge.

    Examples
    --------
    >>> abbreviate(["a"] * 1_000_000)
    "['a', 'a', 'a', 'a', 'a', 'a', ...]"
    """
    return _SHORT_REPR.repr(value)


def check_fields(value: Any, where: str, needed: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Any]:
    """Return a JSON object that has exactly these fields.

    Examples
    --------
    >>> check_fields({"size": 3, "extra": 1}, "the manifest", ["size"])
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: the manifest: unknown field 'extra'
    """
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected an object, not {abbreviate(value)}")
    missing = [name for name in needed if name not in value]
    unknown = [name for name in value if name not in {*needed, *optional}]
    if missing or unknown:
        raise FormatError(f"{where}: {'field missing:' if missing else 'unknown field'} {shorten(missing or unknown)}")
    return value


# -- writing ------------------------------------------------------------------------------------------------------


def write_archive(
    path: str | os.PathLike[str], network: Any, arrays: Mapping[str, NDArray[Any]], version: int = 1
) -> None:
    """Write the members and their manifest; the same content always gives the same bytes.

    `version` is the first one of the format that has all that the content needs.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(f"{folder}/a.hbn", {"p": 1}, {"float64": np.array([0.5])})
    ...     with open(f"{folder}/a.hbn", "rb") as file:
    ...         read_archive(file)
    ({'p': 1}, {'float64': array([0.5])})
    """
    members = {_NETWORK: to_json(network)}
    if len(members[_NETWORK]) > _MAX_NETWORK:
        raise FormatError(f"the network's description takes more than {_MAX_NETWORK >> 20} MiB, too much for one file")
    listed: dict[str, dict[str, Any]] = {_NETWORK: {}}
    for name, array in arrays.items():
        members[f"{name}.npy"] = _format_npy(array, DTYPES[name])
        listed[f"{name}.npy"] = {"dtype": DTYPES[name], "shape": [len(array)]}
    for name, data in members.items():
        listed[name] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {"format": "hybridbn", "version": version, "library": hybridbn.__version__, "members": listed}
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_MANIFEST: to_json(manifest), **members}.items():
            # Time and system would make the bytes of equal networks differ.
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    write_atomically(path, whole.getvalue())


def _format_npy(array: NDArray[Any], dtype: str) -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({len(array)},), }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + array.tobytes()


# -- reading ------------------------------------------------------------------------------------------------------


def read_archive(file: BinaryIO) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read the network's JSON and the arrays, or raise `FormatError` saying what is wrong.

    Examples
    --------
    >>> import io
    >>> read_archive(io.BytesIO(b""))
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: the file is empty
    """
    size = _check_frame(file)
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_members(archive, size)
    except FormatError:
        raise
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, struct.error, ValueError, OverflowError) as error:
        # All that zipfile raises for archives that are damaged or use what it does not know.
        raise FormatError(f"the zip archive is damaged: {error}") from error


def _check_frame(file: BinaryIO) -> int:
    """Check both ends of the archive, so that zipfile needn't search, and return the file's size."""
    head = file.read(8)
    if not head.startswith(b"PK\x03\x04"):
        known = [text for start, text in _KNOWN_STARTS.items() if (head.startswith(start) if start else not head)]
        raise FormatError(known[0] if known else "not a hybridbn file, which starts as a zip archive does")
    size = file.seek(0, os.SEEK_END)
    if size < _END.size:
        raise FormatError("the file is cut off")
    file.seek(-_END.size, os.SEEK_END)
    signature, _, _, _, entries, directory, _, comment = _END.unpack(file.read(_END.size))
    if signature != b"PK\x05\x06" or comment:
        raise FormatError("the file is cut off, or something follows the end of the archive")
    if entries > _MAX_MEMBERS or directory > _MAX_MANIFEST:
        raise FormatError(f"an archive of {entries} members; a hybridbn file has at most {2 + len(_ARRAYS)}")
    file.seek(0)
    return size


def _read_members(archive: zipfile.ZipFile, size: int) -> tuple[Any, dict[str, NDArray[Any]]]:
    infos = {info.filename: info for info in archive.infolist()}
    if len(infos) < len(archive.infolist()):
        raise FormatError("the archive has two members of the same name")
    if _MANIFEST not in infos:
        raise FormatError(f"not a hybridbn file: {_MANIFEST} is missing among its members {shorten(infos)}")
    listed = _check_manifest(from_json(_read_member(archive, infos.pop(_MANIFEST), _MAX_MANIFEST)))
    unknown = [name for name in infos if name not in {_NETWORK, *_ARRAYS}]
    if unknown:
        raise FormatError(f"unknown members {shorten(unknown)}")
    for info in infos.values():
        _refuse_odd(info)
    if sum(info.file_size for info in infos.values()) > size:
        raise FormatError("the members claim more bytes than the file has")
    if listed.keys() != infos.keys() or _NETWORK not in infos:
        raise FormatError(f"the manifest lists {shorten(listed)}, but the archive has {shorten(infos)}")
    arrays = {}
    for name, entry in listed.items():
        keys = ("size", "sha256") if name == _NETWORK else ("size", "sha256", "dtype", "shape")
        check_fields(entry, f"the manifest's entry of {name}", keys)
        if infos[name].file_size != entry["size"]:
            raise FormatError(
                f"{name} has {infos[name].file_size} bytes, but its manifest says {abbreviate(entry['size'])}"
            )
        data = _read_member(archive, infos[name], _MAX_NETWORK if name == _NETWORK else size)
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise FormatError(f"{name} was changed: its sha256 is not the one in the manifest")
        if name == _NETWORK:
            network = from_json(data)
        else:
            arrays[name.removesuffix(".npy")] = _parse_array(name, data, entry)
    return network, arrays


def _check_manifest(manifest: Any) -> dict[str, Any]:
    if not isinstance(manifest, dict) or manifest.get("format") != "hybridbn":
        raise FormatError(f"not a hybridbn file: its {_MANIFEST} does not say so")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise FormatError(f"the format's version is {abbreviate(version)}, not a positive integer")
    if version > VERSION:
        raise FormatError(
            f"written in version {version} of the format by hybridbn {abbreviate(manifest.get('library'))}; this is"
            f" hybridbn {hybridbn.__version__}, which reads version {VERSION}: upgrade it"
        )
    check_fields(manifest, "the manifest", ("format", "version", "library", "members"))
    if not isinstance(manifest["library"], str):
        raise FormatError("the manifest's library is not text")
    members = manifest["members"]
    return check_fields(members, "the manifest's members", (_NETWORK,), _ARRAYS)


def _refuse_odd(info: zipfile.ZipInfo) -> None:
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise FormatError(f"{info.filename} is compressed; hybridbn's files are not, as that can inflate without limit")
    if info.flag_bits & 1:
        raise FormatError(f"{info.filename} is encrypted")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    _refuse_odd(info)
    if info.file_size > most:
        raise FormatError(f"{info.filename} has {info.file_size:,} bytes; the most is {most:,}")
    return archive.read(info)


def _parse_array(name: str, data: bytes, entry: Mapping[str, Any]) -> NDArray[Any]:
    """Read an array of one dimension; only the one way in which numpy writes these is understood."""
    start = 10 + int.from_bytes(data[8:10], "little")
    header = _NPY.fullmatch(data[10:start]) if data.startswith(b"\x93NUMPY\x01\x00") else None
    if header is None:
        raise FormatError(f"{name} is not a one-dimensional array of numpy (npy version 1.0)")
    dtype, length = header[1].decode("latin-1"), int(header[2])
    if dtype != _ARRAYS[name]:
        raise FormatError(f"{name} holds {dtype!r} instead of {_ARRAYS[name]!r}")
    if entry["dtype"] != dtype or entry["shape"] != [length]:
        raise FormatError(f"{name} does not have the type and shape that its manifest says")
    if length * np.dtype(dtype).itemsize != len(data) - start:
        raise FormatError(f"{name} declares {length:,} values, but has {len(data) - start:,} bytes")
    if dtype == DTYPES["bool"] and np.frombuffer(data, np.uint8, offset=start).max(initial=0) > 1:
        raise FormatError(f"{name} has bytes that are neither 0 nor 1")
    return np.frombuffer(data, np.dtype(dtype), offset=start)
