"""The library's own files, ``.hbn``: they restore every number exactly, and are safe to open wherever they come from.

A file is one zip archive whose members are stored as they are, so nothing can inflate:

``manifest.json``
    ``format``, ``version``, the ``library`` that wrote it, and for every other member its ``size`` and ``sha256``, and
    for arrays ``dtype`` and ``shape``.
``network.json``
    The ``nodes`` in order (``variable``, since version 2 with the ``unit`` of dates and times, since version 3 with the
    ``grid`` of numbers, ``parents``, ``family`` and ``parameters`` of the potential), the ``arcs`` in order, and the
    ``attributes`` that the user gave to graph, nodes and arcs.
``float64.npy``, ``int64.npy``, ``bool.npy``
    All arrays of that type end to end; `network.json` refers to them by offset and shape.

In the file of an ensemble, `network.json` holds an ``ensemble`` instead: its ``target``, ``algorithm``, ``votes``,
``errors`` and ``restarts``, and in ``networks`` a description of each network, in order.

JSON knows neither arrays, tuples, infinities nor keys that are not text; these are written as an object with a single
key that starts with ``$``. Arrays must be read in the order in which they were written, so a reader never allocates
more than the file holds: reading takes memory in proportion to the size of the file, whatever its content claims.
The archive is written whole or not at all. Each version of the format stays readable by all later releases of the same
major version of the library.
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
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import hybridbn
from hybridbn.errors import FormatError, HybridBNError
from hybridbn.exchange import register_format
from hybridbn.network import Network
from hybridbn.potentials.base import Potential, variable_from_dict, variable_to_dict
from hybridbn.tables.formats.files import check_path, write_atomically
from hybridbn.variables import Discrete, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.learning.ensemble import Ensemble

Kind = TypeVar("Kind")

VERSION = 3
_OURS = ("variable", "potential")
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

_TITLES: dict[type, str] = {list: "a list", dict: "an object", str: "text"}
"""What messages call the types of JSON."""
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
        if value is None or kind in (str, bool) or (kind is int and value.bit_length() <= _MAX_BITS):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if kind in (list, tuple):
            items = [self.pack(item, where, depth + 1) for item in value]
            return items if kind is list else {"$tuple": items}
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
        match value:
            case list():
                return [self.unpack(item, depth + 1) for item in value]
            case dict() if not any(key.startswith("$") for key in value):
                return {key: self.unpack(item, depth + 1) for key, item in value.items()}
            case {"$float": "inf" | "-inf" | "nan" as number, **rest} if not rest:
                return float(number)
            case {"$array": [name, offset, shape], **rest} if not rest:
                return self._unpack_array(name, offset, shape)
            case {"$tuple": list(items), **rest} if not rest:
                return tuple(self.unpack(item, depth + 1) for item in items)
            case {"$dict": list(pairs), **rest} if not rest:
                return self._unpack_dict(pairs, depth)
            case dict():
                raise FormatError(f"{shorten(value)} is no value that a version 1 file can hold")
        return value

    def _unpack_dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        result = {}
        for pair in pairs:
            _require(isinstance(pair, list) and len(pair) == 2, "a dictionary must be a list of pairs")
            key, item = (self.unpack(part, depth + 1) for part in pair)
            try:
                result[key] = item
            except TypeError:
                raise FormatError(f"a {type(key).__name__} can't be the key of a dictionary") from None
        _require(len(result) == len(pairs), "a key of a dictionary occurs twice")
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


def _require(condition: bool, reason: str) -> None:
    """Refuse a file for a reason unless a condition holds."""
    if not condition:
        raise FormatError(reason)


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
    text = to_json(network)
    if len(text) > _MAX_NETWORK:
        raise FormatError(f"the network's description takes more than {_MAX_NETWORK >> 20} MiB, too much for one file")
    members = {_NETWORK: text} | {f"{name}.npy": _format_npy(array, DTYPES[name]) for name, array in arrays.items()}
    types = {f"{name}.npy": {"dtype": DTYPES[name], "shape": [len(array)]} for name, array in arrays.items()}
    listed = {
        name: types.get(name, {}) | {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
    }
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
    _require(size >= _END.size, "the file is cut off")
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
    _require(len(infos) == len(archive.infolist()), "the archive has two members of the same name")
    _require(_MANIFEST in infos, f"not a hybridbn file: {_MANIFEST} is missing among its members {shorten(infos)}")
    for info in infos.values():
        _refuse_odd(info)
    listed = _check_manifest(from_json(_read_member(archive, infos.pop(_MANIFEST), _MAX_MANIFEST)))
    _require(sum(info.file_size for info in infos.values()) <= size, "the members claim more bytes than the file has")
    if listed.keys() != infos.keys():
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
    _require(isinstance(manifest["library"], str), "the manifest's library is not text")
    return check_fields(manifest["members"], "the manifest's members", (_NETWORK,), _ARRAYS)


def _refuse_odd(info: zipfile.ZipInfo) -> None:
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise FormatError(f"{info.filename} is compressed; hybridbn's files are not, as that can inflate without limit")
    _require(not info.flag_bits & 1, f"{info.filename} is encrypted")


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    _require(info.file_size <= most, f"{info.filename} has {info.file_size:,} bytes; the most is {most:,}")
    return archive.read(info)


def _parse_array(name: str, data: bytes, entry: Mapping[str, Any]) -> NDArray[Any]:
    """Read an array of one dimension; only the one way in which numpy writes these is understood."""
    start = 10 + int.from_bytes(data[8:10], "little")
    header = _NPY.fullmatch(data[10:start]) if data.startswith(b"\x93NUMPY\x01\x00") else None
    if header is None:
        raise FormatError(f"{name} is not a one-dimensional array of numpy (npy version 1.0)")
    dtype, length = header[1].decode("latin-1"), int(header[2])
    _require(dtype == _ARRAYS[name], f"{name} holds {dtype!r} instead of {_ARRAYS[name]!r}")
    if entry["dtype"] != dtype or entry["shape"] != [length]:
        raise FormatError(f"{name} does not have the type and shape that its manifest says")
    if length * np.dtype(dtype).itemsize != len(data) - start:
        raise FormatError(f"{name} declares {length:,} values, but has {len(data) - start:,} bytes")
    if dtype == DTYPES["bool"] and np.frombuffer(data, np.uint8, offset=start).max(initial=0) > 1:
        raise FormatError(f"{name} has bytes that are neither 0 nor 1")
    return np.frombuffer(data, np.dtype(dtype), offset=start)


# -- networks and ensembles -------------------------------------------------------------------------------------------


def save(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network to a file, whole or not at all; `load` gives bitwise the same results.

    The same network always gives the same bytes. An existing file is replaced only when the new one is on disk.

    Parameters
    ----------
    network : Network
        Must pass `Network.check`. Attributes that were given to the graph, its nodes and arcs through networkx
        (positions, say) are saved too: text, numbers, booleans, None, lists, tuples, dictionaries and arrays of floats,
        integers and booleans; a scalar of numpy comes back as the Python number it is.
    path : path-like

    Raises
    ------
    NetworkError
        For faults of the network, and for potentials and states that no file can hold, such as a `Density`.
    FormatError
        For parameters and attributes of other types, naming the node.

    Examples
    --------
    >>> import tempfile, hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(net, f"{folder}/model.hbn")
    ...     load(f"{folder}/model.hbn")
    <Network: 1 node (1 discrete), 0 arcs>
    """
    packer = Packer()
    content = pack_network(network, packer)
    write_archive(check_path(path), content, packer.join_arrays(), _version_of([network]))


def load(path: str | os.PathLike[str]) -> Network:
    """Read a network or an ensemble that `save` wrote; files that are damaged, hostile or too new raise `FormatError`.

    Nothing in the file is ever executed. A family of potentials of your own must have been imported before. Editors and
    type checkers take the result for a network; that of `hybridbn.Ensemble.load` is an ensemble.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/model.hbn", "wb") as file:
    ...         _ = file.write(b"not a network")
    ...     try:
    ...         load(f"{folder}/model.hbn")
    ...     except FormatError as error:
    ...         print(str(error).replace(folder, ""))
    can't load '/model.hbn': not a hybridbn file, which starts as a zip archive does
    """
    with open(check_path(path), "rb") as file:
        try:
            content, arrays = read_archive(file)
            unpacker = Unpacker(arrays)
            is_ensemble = isinstance(content, dict) and "ensemble" in content
            loaded: Any = unpack_ensemble(content, unpacker) if is_ensemble else unpack_network(content, unpacker)
            unpacker.finish()
        except FormatError as error:
            # The reason may quote the file, which may hold a name of megabytes.
            raise FormatError(f"can't load {os.fsdecode(path)!r}: {error!s:.800}") from error.__cause__
    return cast(Network, loaded)


def load_network(path: str | os.PathLike[str]) -> Network:
    """Read a network that `save` wrote; refuse an ensemble.

    Examples
    --------
    >>> import tempfile, hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     net.save(f"{folder}/model.hbn")
    ...     load_network(f"{folder}/model.hbn")
    <Network: 1 node (1 discrete), 0 arcs>
    """
    loaded = load(path)
    if not isinstance(loaded, Network):
        raise FormatError(f"{os.fspath(path)!r} holds an ensemble, not a network; read it with hybridbn.load")
    return loaded


def pack_network(network: Network, packer: Packer) -> dict[str, Any]:
    """Return the description of a network for a file, once it is checked; the arrays go to the packer."""
    network.check()
    content: dict[str, Any] = {
        "nodes": [_pack_node(network, name, packer) for name in network],
        "arcs": [
            [start, end, packer.pack(attributes, f"the arc {start!r} -> {end!r}")] if attributes else [start, end]
            for start, end, attributes in network.edges(data=True)
        ],
    }
    if network.graph:
        content["attributes"] = packer.pack(network.graph, "the network's attributes")
    return content


def _version_of(networks: Sequence[Network]) -> int:
    """Return the first version of the format that can hold networks: units of variables came with the second, grids
    with the third.
    """
    variables = [network.variable(name) for network in networks for name in network]
    if any(getattr(variable, "grid", None) is not None for variable in variables):
        return 3
    notes = [network.graph.get("imputation") for network in networks]
    has_noted = any(isinstance(note, Mapping) and "units" in note for note in notes)
    return 2 if has_noted or any(getattr(variable, "unit", None) is not None for variable in variables) else 1


def _pack_node(network: Network, name: str, packer: Packer) -> dict[str, Any]:
    potential = network.potential(name)
    parameters = potential.to_dict()
    registered = Potential.families.get(potential.family)
    if registered is None or registered.__qualname__ != type(potential).__qualname__:
        raise FormatError(
            f"node {name!r}: {type(potential).__name__} potentials could not be found again when the file is loaded; "
            f"give the class a `family` name of its own (it has {potential.family!r})"
        )
    node = {
        "variable": packer.pack(variable_to_dict(network.variable(name)), f"node {name!r}"),
        "parents": [parent.name for parent in potential.parents],
        "family": potential.family,
        "parameters": packer.pack(dict(parameters), f"node {name!r}, its {potential.family} potential"),
    }
    attributes = {key: value for key, value in network.nodes[name].items() if key not in _OURS}
    if attributes:
        node["attributes"] = packer.pack(attributes, f"node {name!r}, its attributes")
    return node


def unpack_network(content: Any, unpacker: Unpacker) -> Network:
    """Return the network that a file describes, refusing anything else."""
    check_fields(content, "the network", ("nodes", "arcs"), ("attributes",))
    nodes = _check_type(content["nodes"], list, "the nodes")
    for i, node in enumerate(nodes):
        check_fields(node, f"node {i}", ("variable", "parents", "family", "parameters"), ("attributes",))
    variables = _unpack_variables([node["variable"] for node in nodes], unpacker)
    potentials, extras = [], []
    for node, variable in zip(nodes, variables.values(), strict=True):
        potentials.append(_unpack_potential(node, variable, variables, unpacker))
        extras.append(_unpack_attributes(node.get("attributes", {}), unpacker))
        if not extras[-1].keys().isdisjoint(_OURS):
            raise FormatError(f"node {variable.name!r}: attributes named {shorten(_OURS)} are not the file's to give")
    try:
        derived = Network(potentials)
        derived.check()
    except HybridBNError as error:
        raise FormatError(str(error)) from error
    arcs = [_unpack_arc(arc, unpacker) for arc in _check_type(content["arcs"], list, "the arcs")]
    if {arc[:2] for arc in arcs} != set(derived.edges) or len(arcs) != derived.number_of_edges():
        raise FormatError("the arcs are not those from the potentials' parents")
    # The graph is built anew because algorithms follow the order of the arcs: results must not depend on the detour.
    network = Network()
    network.add_nodes_from(
        (name, {**derived.nodes[name], **extra}) for name, extra in zip(derived, extras, strict=True)
    )
    network.add_edges_from(arcs)
    network.graph.update(_unpack_attributes(content.get("attributes", {}), unpacker))
    return network


def _unpack_variables(states: list[Any], unpacker: Unpacker) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for i, packed in enumerate(states):
        state = unpacker.unpack(packed)
        kind = ("domain",) if isinstance(state, dict) and "domain" in state else ("states",)
        check_fields(
            state, f"the variable of node {i}", ("name", *kind), ("cuts",) if kind == ("states",) else ("unit", "grid")
        )
        if "unit" in state:
            check_fields(state["unit"], f"the unit of node {i}", ("kind", "step", "zone", "pattern"))
        for field in state.keys() - {"name", "unit"}:
            _check_type(state[field], list, f"the variable of node {i}: {field}")
        try:
            variable = variable_from_dict(state)
        except (HybridBNError, TypeError, ValueError, OverflowError) as error:
            raise FormatError(f"the variable of node {i}: {error}") from error
        if isinstance(variable, Discrete) and not all(type(s) in (str, int, float, bool) for s in variable.states):
            raise FormatError(f"the variable of node {i}: states must be text, integers, floats or booleans")
        if variable.name in variables:
            raise FormatError(f"two nodes are named {variable.name!r}")
        variables[variable.name] = variable
    return variables


def _unpack_potential(
    node: Mapping[str, Any], variable: Variable, variables: Mapping[str, Variable], unpacker: Unpacker
) -> Potential:
    where = f"node {variable.name!r}"
    family = _find_family(node["family"], where)
    names = _check_type(node["parents"], list, f"{where}, its parents")
    unknown = [name for name in names if not isinstance(name, str) or name not in variables]
    if unknown:
        raise FormatError(f"{where}: its parents {shorten(unknown)} are no nodes")
    if len(set(names)) < len(names):
        raise FormatError(f"{where}: a parent occurs twice among {shorten(names)}")
    parameters = _check_type(unpacker.unpack(node["parameters"]), dict, f"{where}, its parameters")
    try:
        potential = family.from_dict(variable, tuple(variables[name] for name in names), parameters)
        surplus = [name for name in parameters if name not in potential.to_dict()]
    except Exception as error:
        # A family, maybe a user's, may fail in any way on parameters that are not what it wrote.
        raise FormatError(f"{where}: the parameters of its {node['family']} potential are wrong: {error!r}") from error
    if surplus:
        raise FormatError(f"{where}: unknown parameters {shorten(surplus)}")
    return potential


def _unpack_arc(arc: Any, unpacker: Unpacker) -> tuple[Any, ...]:
    if not isinstance(arc, list) or len(arc) not in (2, 3) or not all(isinstance(name, str) for name in arc[:2]):
        raise FormatError(f"an arc must be a pair of names, not {abbreviate(arc)}")
    return (*arc[:2], *(_unpack_attributes(packed, unpacker) for packed in arc[2:]))


def _find_family(name: Any, where: str) -> type[Potential]:
    # The name chooses among the library's own modules; nothing else is imported by a name from the file.
    family = Potential.families.find(name) if isinstance(name, str) else None
    if family is None:
        raise FormatError(
            f"{where}: there is no family of potentials {abbreviate(name)}, only"
            f" {shorten(sorted(Potential.families), 20)}; import the module that defines it before loading"
        )
    return family


def _unpack_attributes(packed: Any, unpacker: Unpacker) -> dict[Any, Any]:
    return _check_type(unpacker.unpack(packed), dict, "attributes")


def _check_type(value: Any, kind: type[Kind], what: str) -> Kind:
    if not isinstance(value, kind):
        raise FormatError(f"{what} must be {_TITLES[kind]}, not {abbreviate(value)}")
    return value


def save_ensemble(ensemble: Ensemble, path: str | os.PathLike[str]) -> None:
    """Write an ensemble to a file, whole or not at all; `load` gives bitwise the same results.

    Examples
    --------
    >>> import tempfile, hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.4, 0.6])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_ensemble(hb.Ensemble([net], [1.5], "c"), f"{folder}/model.hbn")
    ...     hb.load(f"{folder}/model.hbn")
    <Ensemble of 1 network for 'c': AdaBoost.M1>
    """
    packer = Packer()
    content = {
        "target": ensemble.target,
        "algorithm": ensemble.algorithm,
        "restarts": ensemble.restarts,
        "votes": packer.pack(ensemble.votes, "the votes"),
        "errors": packer.pack(ensemble.errors, "the errors"),
        "networks": [pack_network(network, packer) for network in ensemble.networks],
    }
    write_archive(check_path(path), {"ensemble": content}, packer.join_arrays(), _version_of(ensemble.networks))


def unpack_ensemble(content: Any, unpacker: Unpacker) -> Ensemble:
    """Return the ensemble that a file describes, refusing anything else."""
    from hybridbn.learning.ensemble import Ensemble

    content = check_fields(content, "the file", ("ensemble",))["ensemble"]
    check_fields(content, "the ensemble", ("target", "algorithm", "restarts", "votes", "errors", "networks"))
    restarts, listed = content["restarts"], content["networks"]
    if type(restarts) is not int or restarts < 0:
        raise FormatError(f"the ensemble: restarts must be a whole number, not {abbreviate(restarts)}")
    _check_type(content["target"], str, "the ensemble: its target")
    votes, errors = unpacker.unpack(content["votes"]), unpacker.unpack(content["errors"])
    networks = tuple(
        unpack_network(network, unpacker) for network in _check_type(listed, list, "the ensemble: its networks")
    )
    try:
        return Ensemble(networks, votes, content["target"], content["algorithm"], errors, restarts)
    except (HybridBNError, TypeError, ValueError) as error:
        raise FormatError(f"the ensemble: {error}") from error


register_format((".hbn",), load_network, save)
