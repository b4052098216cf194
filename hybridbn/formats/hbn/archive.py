"""The zip archive of a ``.hbn`` file: written whole or not at all, read with every size checked beforehand."""

from __future__ import annotations

import hashlib
import io
import os
import re
import struct
import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import hybridbn
from hybridbn.errors import FormatError
from hybridbn.formats.atomic import write_atomically
from hybridbn.formats.hbn.values import DTYPES, brief, fields, from_json, to_json
from hybridbn.variables import shorten

__all__ = ["VERSION", "read_archive", "write_archive"]

VERSION = 1

_MANIFEST = "manifest.json"
_NETWORK = "network.json"
_ARRAYS = {f"{name}.npy": dtype for name, dtype in DTYPES.items()}
_MAX_MANIFEST = 64 << 10
_MAX_NETWORK = 64 << 20
_MAX_MEMBERS = 64
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


# -- writing ------------------------------------------------------------------------------------------------------


def write_archive(path: str | os.PathLike[str], network: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the members and their manifest; the same content always gives the same bytes.

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
        members[f"{name}.npy"] = _npy(array, DTYPES[name])
        listed[f"{name}.npy"] = {"dtype": DTYPES[name], "shape": [len(array)]}
    for name, data in members.items():
        listed[name] |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {"format": "hybridbn", "version": VERSION, "library": hybridbn.__version__, "members": listed}
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, data in {_MANIFEST: to_json(manifest), **members}.items():
            # Time and system would make the bytes of equal networks differ.
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    write_atomically(path, whole.getvalue())


def _npy(array: NDArray[Any], dtype: str) -> bytes:
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
    size = _checked_frame(file)
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_members(archive, size)
    except FormatError:
        raise
    except (zipfile.BadZipFile, RuntimeError, EOFError, OSError, struct.error, ValueError, OverflowError) as error:
        # All that zipfile raises for archives that are damaged or use what it does not know.
        raise FormatError(f"the zip archive is damaged: {error}") from error


def _checked_frame(file: BinaryIO) -> int:
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
    listed = _checked_manifest(from_json(_read(archive, infos.pop(_MANIFEST), _MAX_MANIFEST)))
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
        fields(entry, f"the manifest's entry of {name}", keys)
        if infos[name].file_size != entry["size"]:
            raise FormatError(f"{name} has {infos[name].file_size} bytes, but its manifest says {brief(entry['size'])}")
        data = _read(archive, infos[name], _MAX_NETWORK if name == _NETWORK else size)
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise FormatError(f"{name} was changed: its sha256 is not the one in the manifest")
        if name == _NETWORK:
            network = from_json(data)
        else:
            arrays[name.removesuffix(".npy")] = _array(name, data, entry)
    return network, arrays


def _checked_manifest(manifest: Any) -> dict[str, Any]:
    if not isinstance(manifest, dict) or manifest.get("format") != "hybridbn":
        raise FormatError(f"not a hybridbn file: its {_MANIFEST} does not say so")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise FormatError(f"the format's version is {brief(version)}, not a positive integer")
    if version > VERSION:
        raise FormatError(
            f"written in version {version} of the format by hybridbn {brief(manifest.get('library'))}; this is hybridbn "
            f"{hybridbn.__version__}, which reads version {VERSION}: upgrade it"
        )
    fields(manifest, "the manifest", ("format", "version", "library", "members"))
    if not isinstance(manifest["library"], str):
        raise FormatError("the manifest's library is not text")
    members = manifest["members"]
    return fields(members, "the manifest's members", (_NETWORK,), _ARRAYS)


def _refuse_odd(info: zipfile.ZipInfo) -> None:
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise FormatError(f"{info.filename} is compressed; hybridbn's files are not, as that can inflate without limit")
    if info.flag_bits & 1:
        raise FormatError(f"{info.filename} is encrypted")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    _refuse_odd(info)
    if info.file_size > most:
        raise FormatError(f"{info.filename} has {info.file_size:,} bytes; the most is {most:,}")
    return archive.read(info)


def _array(name: str, data: bytes, entry: Mapping[str, Any]) -> NDArray[Any]:
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
