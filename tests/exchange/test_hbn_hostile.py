"""Damaged and hostile files: a `FormatError` naming the file and the reason, at little cost, and nothing else.

Files of `badinputs` are among them.
"""

import hashlib
import io
import json
import os
import pickle
import re
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import badinputs
import numpy as np
import pytest
from costs import ended_if_it_hangs
from narrowing import as_kind

import hybridbn as hb
from hybridbn.errors import FormatError
from hybridbn.exchange.hbn import load, save
from hybridbn.network import Network
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete

C = Discrete("c", states=("a", "b"))
X = Continuous("x", domain=(-np.inf, np.inf))
Y = Continuous("y")


def example() -> Network:
    net = Network(
        [
            Multinomial(C, table=[0.25, 0.75]),
            LinearGaussian(X, parents=(C,), intercept=[0.5, 1.5], coefficients=np.empty((2, 0)), variance=[1.0, 2.0]),
            LinearGaussian(Y, parents=(X,), intercept=0.0, coefficients=[3.0], variance=1.0),
        ]
    )
    net.graph["flags"] = np.array([True, False])
    net.graph["counts"] = np.array([3, 4])
    return net


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("valid") / "m.hbn"
    save(example(), path)
    return path.read_bytes()


def state(net: Network) -> list[Any]:
    return [
        [(name, repr(net.variable(name)), repr(net.potential(name).to_dict())) for name in net],
        list(net.edges(data=True)),
        repr(net.graph),
    ]


def outcome(path: Path) -> list[Any] | None:
    """Load a file that may be good or bad; None where it is refused, as it should be if it is bad."""
    try:
        net = load(path)
    except FormatError:
        return None
    as_kind(hb.Network, net).check()
    return state(as_kind(hb.Network, net))


def refused(path: Path, data: bytes) -> str:
    """Load the bytes, check what is promised of every refusal, and return the reason."""
    path.write_bytes(data)
    before = sorted(os.listdir(path.parent))
    tracemalloc.start()
    try:
        with ended_if_it_hangs(), pytest.raises(FormatError) as raised:
            load(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 << 20
    assert sorted(os.listdir(path.parent)) == before
    assert path.read_bytes() == data
    text = str(raised.value)
    assert text.startswith(f"can't load {str(path)!r}: ")
    assert len(text) < len(str(path)) + 1000
    return text


# -- taking files apart and putting them together again -----------------------------------------------------------


def parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def joined(members: list[tuple[str, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", compression) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return whole.getvalue()


def signed(members: dict[str, bytes], change: Callable[[Any], Any] | None = None) -> bytes:
    """Make a file whose manifest agrees with its members, as an attacker would."""
    manifest = json.loads(members["manifest.json"])
    for name, data in members.items():
        if name != "manifest.json":
            entry = manifest["members"].setdefault(name, {})
            entry |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if change:
        change(manifest)
    members = {**members, "manifest.json": json.dumps(manifest).encode()}
    return joined(list(members.items()))


def with_network(data: bytes, change: Callable[[Any], Any]) -> bytes:
    members = parts(data)
    network = json.loads(members["network.json"])
    members["network.json"] = json.dumps(change(network) or network).encode()
    return signed(members)


def with_text(data: bytes, old: bytes, new: bytes) -> bytes:
    members = parts(data)
    assert old in members["network.json"]
    members["network.json"] = members["network.json"].replace(old, new)
    return signed(members)


def npy(dtype: str, shape: str, content: bytes, version: bytes = b"\x01\x00") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + version + struct.pack("<H", len(header)) + header + content


def test_the_tools_of_these_tests(valid: bytes, tmp_path: Path) -> None:
    for data in (signed(parts(valid)), with_network(valid, lambda network: None)):
        (tmp_path / "m.hbn").write_bytes(data)
        assert state(as_kind(hb.Network, load(tmp_path / "m.hbn"))) == state(example())


# -- what is no hybridbn file at all ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b'{"nodes": [', "bare JSON"),
        (b"[" * 100_000, "bare JSON"),
        (b'{"p": NaN}', "bare JSON"),
        (b'{"p": 1e999}', "bare JSON"),
        (b'{"p":1,"p":2}', "bare JSON"),
        (b"9" * 5000, "not a hybridbn file"),
        (b"\x80\x04\x95cos\nsystem\n", "a Python pickle, which could run any code and is never read"),
        (pickle.dumps(example()), "a Python pickle"),
        (b"\xff\xfe{}", "not a hybridbn file"),
        ('{"format":"hybridbn"}'.encode("utf-16"), "not a hybridbn file"),
        (b'{"format":"hybridbn","version":99}', "bare JSON"),
        (npy("<f8", "(10000000000,)", b""), "a bare array of numpy"),
        (b"\x1f\x8b\x08\x00", "a gzip file"),
        (b"<?xml version='1.0'?>", "an XML file"),
        (b"PK\x05\x06" + bytes(18), "an empty zip archive"),
        (b"PK\x03\x04", "cut off"),
        (b"PK\x03\x04" + bytes(100), "cut off"),
        (b"\x00" * 1000, "not a hybridbn file"),
    ],
)
def test_other_files(data: bytes, reason: str, tmp_path: Path) -> None:
    assert reason in refused(tmp_path / "m.hbn", data)


def test_nothing_is_executed(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    refused(tmp_path / "m.hbn", pickle.dumps(Evil()))
    object_array = npy("|O", "(1,)", pickle.dumps(Evil()))
    refused(tmp_path / "m.hbn", joined([("manifest.json", b"{}"), ("float64.npy", object_array)]))
    assert not (tmp_path / "executed").exists()


# -- archives -----------------------------------------------------------------------------------------------------


def test_zip_bombs(valid: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bomb.hbn"
    bomb = npy("<f8", f"({(100 << 20) // 8},)", bytes(100 << 20))
    assert "manifest.json is missing" in refused(path, joined([("a.npy", bomb)], zipfile.ZIP_DEFLATED))
    members = list(parts(valid).items())
    inflating = joined([*members[:2], ("float64.npy", bomb)], zipfile.ZIP_DEFLATED)
    assert "is compressed" in refused(path, inflating)
    assert "is compressed" in refused(path, joined(members, zipfile.ZIP_DEFLATED))


@pytest.mark.parametrize(
    "name", ["../../evil", "/etc/evil", "..\\evil", "network.json/", "sub/float64.npy", "float32.npy", "x.pkl"]
)
def test_unknown_members_and_zip_slip(name: str, valid: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.hbn"
    assert "manifest.json is missing" in refused(path, joined([(name, b"x")]))
    assert "the manifest lists" in refused(path, joined([*parts(valid).items(), (name, b"x")]))
    assert "unknown field" in refused(path, signed({**parts(valid), name: b"x"}))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_repeated_members(valid: bytes, tmp_path: Path) -> None:
    members = list(parts(valid).items())
    for twice in members:
        assert "two members of the same name" in refused(tmp_path / "m.hbn", joined([*members, twice]))


def test_missing_members(valid: bytes, tmp_path: Path) -> None:
    for name in parts(valid):
        rest = [(other, data) for other, data in parts(valid).items() if other != name]
        assert "missing" in (text := refused(tmp_path / "m.hbn", joined(rest))) or "the manifest lists" in text


def test_many_members(valid: bytes, tmp_path: Path) -> None:
    many = [(f"m{i}", b"") for i in range(5000)]
    assert "an archive of" in refused(tmp_path / "m.hbn", joined([*parts(valid).items(), *many]))


def test_something_before_or_after(valid: bytes, tmp_path: Path) -> None:
    assert "something follows" in refused(tmp_path / "m.hbn", valid + b"x")
    assert "not a hybridbn file" in refused(tmp_path / "m.hbn", b"#!/bin/sh\n" + valid)


def test_claimed_sizes(valid: bytes, tmp_path: Path) -> None:
    central = valid.rindex(b"PK\x01\x02")
    for size in (0, 1, 1 << 20, 0xFFFFFFFE):
        data = bytearray(valid)
        data[central + 20 : central + 28] = struct.pack("<LL", size, size)
        refused(tmp_path / "m.hbn", bytes(data))


def test_members_that_overlap(valid: bytes, tmp_path: Path) -> None:
    """Let every member of the directory claim the whole file."""
    data, start = bytearray(valid), valid.index(b"PK\x01\x02")
    while data[start : start + 4] == b"PK\x01\x02":
        if data[start + 46 : start + 54] != b"manifest":
            data[start + 20 : start + 28] = struct.pack("<LL", len(valid), len(valid))
        start += 46 + data[start + 28]
    assert "claim more bytes than the file has" in refused(tmp_path / "m.hbn", bytes(data))


def test_encrypted_members(valid: bytes, tmp_path: Path) -> None:
    data = bytearray(valid)
    data[valid.index(b"PK\x01\x02") + 8] |= 1
    assert "is encrypted" in refused(tmp_path / "m.hbn", bytes(data))


# -- the manifest -------------------------------------------------------------------------------------------------


def _set(*path: str | int, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for name in path[:-1]:
            value = value[name]
        value[path[-1]] = to

    return change


def _drop_member(name: str, manifest: Any) -> None:
    del manifest["members"][name]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("format", to="other"), "not a hybridbn file"),
        (
            _set("version", to=4),
            "written in version 4 of the format by hybridbn '0.1.0'; this is hybridbn .* upgrade it",
        ),
        (_set("version", to=10**30), "written in version 10+ of the format"),
        (_set("version", to=0), "version is 0, not a positive integer"),
        (_set("version", to=True), "version is True"),
        (_set("version", to="1"), "version is '1'"),
        (_set("version", to=None), "version is None"),
        (_set("author", to="x"), "the manifest: unknown field 'author'"),
        (_set("library", to=3), "library is not text"),
        (_set("members", to=[]), "expected an object"),
        (_set("members", to={}), "field missing: 'network.json'"),
        (_set("members", "network.json", to=None), "expected an object"),
        (_set("members", "network.json", "sha256", to="0" * 64), "network.json was changed"),
        (_set("members", "network.json", "sha256", to=None), "network.json was changed"),
        (_set("members", "network.json", "size", to=1), "its manifest says 1"),
        (_set("members", "network.json", "extra", to=1), "unknown field 'extra'"),
        (_set("members", "float64.npy", "dtype", to="<f4"), "does not have the type and shape"),
        (_set("members", "float64.npy", "shape", to=[1 << 60]), "does not have the type and shape"),
        (_set("members", "float64.npy", "shape", to="x"), "does not have the type and shape"),
    ],
)
def test_manifests(change: Callable[[Any], None], reason: str, valid: bytes, tmp_path: Path) -> None:
    assert re.search(reason, refused(tmp_path / "m.hbn", signed(parts(valid), change)))


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"3", b"null", b"{", b"\xff\xfe{}", b"[" * 60_000, b" " * (65 << 10), b'{"format": "hybridbn"}'],
)
def test_manifests_that_are_none(data: bytes, valid: bytes, tmp_path: Path) -> None:
    refused(tmp_path / "m.hbn", joined(list({**parts(valid), "manifest.json": data}.items())))


def test_a_newer_version_says_so_whatever_its_members_are(tmp_path: Path) -> None:
    manifest = json.dumps({"format": "hybridbn", "version": 99, "library": "7.0", "shiny": {}}).encode()
    text = refused(tmp_path / "m.hbn", joined([("manifest.json", manifest), ("network.arrow", b"x")]))
    assert "written in version 99 of the format by hybridbn '7.0'" in text


# -- JSON ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b'{"nodes": [', "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"p": NaN}', "NaN is not a JSON number"),
        (b'{"p": -Infinity}', "-Infinity is not a JSON number"),
        (b'{"p": 1e999}', "the number 1e999 is out of range"),
        (b'{"p":1,"p":2}', "the key 'p' occurs twice"),
        (b'{"%s":1,"%s":2}' % (b"p" * 100_000, b"p" * 100_000), "the key 'ppp"),
        (b"9" * 5000, "an integer of 5000 digits"),
        (b"\xff\xfe{}", "not UTF-8 text"),
        ('{"nodes": [], "arcs": []}'.encode("utf-16"), "not UTF-8 text"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b"null", "expected an object"),
        (b"[]", "expected an object"),
        (b"{}", "field missing: 'nodes', 'arcs'"),
        (b'{"nodes": [], "arcs": [], "code": "import os"}', "unknown field 'code'"),
        (b'{"nodes": {}, "arcs": []}', "the nodes must be a list"),
        (b'{"nodes": [], "arcs": 3}', "the arcs must be a list"),
        (b'{"nodes": [], "arcs": [["a", "b"]]}', "the arcs are not those"),
        (b'{"nodes": [], "arcs": [], "attributes": []}', "attributes must be an object"),
        (b'{"nodes": [3], "arcs": []}', "node 0: expected an object"),
        (b"[" + b"[]," * 2_600_000 + b"[]]", "more than 5,000,000 values"),
    ],
)
def test_json(data: bytes, reason: str, valid: bytes, tmp_path: Path) -> None:
    assert reason in refused(tmp_path / "m.hbn", signed({**parts(valid), "network.json": data}))


# -- networks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"name":"c"', b'"name":""', "non-empty string"),
        (b'"name":"c"', b'"name":"x"', "two nodes are named 'x'"),
        (b'"name":"c"', b'"name":["c"]', "variable of node 0"),
        (b'"name":"c"', b'"name":"d"', "its parents 'c' are no nodes"),
        (b'"states":["a","b"]', b'"states":["a","a"]', "states must differ"),
        (b'"states":["a","b"]', b'"states":[]', "at least one state"),
        (b'"states":["a","b"]', b'"states":"ab"', "states must be a list"),
        (b'"states":["a","b"]', b'"states":["a",null]', "missing value"),
        (b'"states":["a","b"]', b'"states":["a",{}]', "not hashable"),
        (b'"states":["a","b"]', b'"states":["a",{"$tuple":[]}]', "states must be text"),
        (b'"states":["a","b"]', b'"states":["a","b","c"]', "node 'c': the parameters"),
        (b'"states":["a","b"]', b'"states":["a","b"],"cuts":[0,1]', "cuts"),
        (b'"states":["a","b"]', b'"states":["a","b"],"color":1', "unknown field 'color'"),
        (b'"domain":["-inf","inf"]', b'"domain":["nan","inf"]', "empty"),
        (b'"domain":["-inf","inf"]', b'"domain":["-inf"]', "variable of node 1"),
        (b'"domain":["-inf","inf"]', b'"domain":["0","1"]', "node 'x': the parameters"),
        (b'"parents":["c"]', b'"parents":"c"', "must be a list"),
        (b'"parents":["c"]', b'"parents":["x"]', "node 'x'"),
        (b'"parents":["c"]', b'"parents":[["c"]]', "are no nodes"),
        (b'"parents":["x"]', b'"parents":["c"]', "node 'y': the parameters"),
        (b'"family":"gaussian"', b'"family":"os"', "there is no family of potentials 'os'"),
        (b'"family":"gaussian"', b'"family":null', "there is no family of potentials None"),
        (b'"family":"gaussian"', b'"family":["gaussian"]', "there is no family"),
        (b'"family":"gaussian"', b'"family":"multinomial"', "parameters of its multinomial potential are wrong"),
        (b'"parameters":{', b'"parameters":{"new":1,', "unknown parameters 'new'"),
        (b'"parameters":{"table":', b'"parameters":{"tables":', "parameters of its multinomial potential are wrong"),
        (b'"arcs":[["c","x"]', b'"arcs":[["x","c"]', "the arcs are not those"),
        (b'"arcs":[["c","x"]', b'"arcs":[["c","x"],["c","x"]', "the arcs are not those"),
        (b'"arcs":[["c","x"]', b'"arcs":[["c","x",{},{}]', "an arc must be a pair"),
        (b'"arcs":[["c","x"]', b'"arcs":["cx"', "an arc must be a pair"),
        (b'"arcs":', b'"attributes":{"a":{"$what":1}},"arcs":', "occurs twice"),
        (b'["float64",0,[2]]', b'["float64",1,[2]]', "a reference to 2 values of float64.npy from 1 on, where 0"),
        (b'["float64",0,[2]]', b'["float64",0,[1]]', "must have shape"),
        (b'["float64",0,[2]]', b'["float64",0,[2,1]]', "parameters of its multinomial potential"),
        (b'["float64",0,[2]]', b'["float64",0,[2000000000,2000000000]]', "a reference to 4000000000000000000 values"),
        (b'["float64",0,[2]]', b'["float64",0,[0,2000000000,2000000000,2000000000]]', "impossible shape"),
        (b'["float64",0,[2]]', b'["float64",0,[9000000000000000000]]', "impossible shape"),
        (b'["float64",0,[2]]', b'["float64",0,[-2]]', "impossible shape"),
        (b'["float64",0,[2]]', b'["float64",-2,[2]]', "impossible shape"),
        (b'["float64",0,[2]]', b'["float64",false,[2]]', "impossible shape"),
        (b'["float64",0,[2]]', b'["float64",0,[2.0]]', "impossible shape"),
        (b'["float64",0,[2]]', b'["float64",0,2]', "unknown type"),
        (b'["float64",0,[2]]', b'["object",0,[2]]', "unknown type 'object'"),
        (b'["float64",0,[2]]', b'[["float64"],0,[2]]', "unknown type"),
        (b'["float64",0,[2]]', b'["bool",0,[2]]', "node 'c'|float64|bool"),
        (b'["float64",0,[2]]', b'["float64"]', "no value that a version 1 file can hold"),
        (b'{"$array":["float64",0,[2]]}', b'"text"', "parameters of its multinomial potential"),
        (b'{"$array":["float64",0,[2]]}', b'{"$pickle":"gASV"}', "no value that a version 1 file can hold"),
        (b'{"$array":["float64",0,[2]]}', b"[" * 60 + b"]" * 60, "nested more than 50 deep"),
        (b'"flags":', b'"a":{"$float":"1"},"flags":', "no value that"),
        (b'"flags":', b'"a":{"$float":{}},"flags":', "no value that"),
        (b'"flags":', b'"a":{"$tuple":1},"flags":', "no value that"),
        (b'"flags":', b'"a":{"$dict":[[1]]},"flags":', "list of pairs"),
        (b'"flags":', b'"a":{"$dict":[[1,2],[1,3]]},"flags":', "occurs twice"),
        (b'"flags":', b'"a":{"$dict":[[[],3]]},"flags":', "can't be the key"),
        (b'"flags":', b'"a":{"b":1,"$c":2},"flags":', "no value that"),
    ],
)
def test_networks(old: bytes, new: bytes, reason: str, valid: bytes, tmp_path: Path) -> None:
    assert re.search(reason, refused(tmp_path / "m.hbn", with_text(valid, old, new)))


def test_attributes_can_not_replace_potentials(valid: bytes, tmp_path: Path) -> None:
    for name in ("variable", "potential"):
        data = with_network(valid, _set("nodes", 1, "attributes", to={name: 1}))
        assert "are not the file's to give" in refused(tmp_path / "m.hbn", data)


def test_cycles(valid: bytes, tmp_path: Path) -> None:
    def turn(network: Any) -> None:
        first, second = network["nodes"][1:]
        first["parents"], first["parameters"] = ["y"], second["parameters"]
        network["nodes"][1]["parameters"] = {
            "intercept": {"$array": ["float64", 2, []]},
            "coefficients": {"$array": ["float64", 3, [1]]},
            "variance": {"$array": ["float64", 4, []]},
        }
        second["parameters"] = {
            "intercept": {"$array": ["float64", 5, []]},
            "coefficients": {"$array": ["float64", 6, [1]]},
            "variance": {"$array": ["float64", 7, []]},
        }

    assert "a cycle: 'x' -> 'y' -> 'x'" in refused(tmp_path / "m.hbn", with_network(valid, turn))


# -- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "data", "reason"),
    [
        ("float64.npy", b"", "not a one-dimensional array"),
        ("float64.npy", b"\x93NUMPY\x01\x00", "not a one-dimensional array"),
        ("float64.npy", npy("<f8", "(10000000000,)", b""), "type and shape|declares 10,000,000,000 values"),
        ("float64.npy", npy("<f8", "(9,)", bytes(8)), "type and shape|declares 9 values"),
        ("float64.npy", npy("<f8", "(3, 3)", bytes(72)), "not a one-dimensional array"),
        ("float64.npy", npy("<f8", "()", bytes(8)), "not a one-dimensional array"),
        ("float64.npy", npy("<f8", "(-1,)", b""), "not a one-dimensional array"),
        ("float64.npy", npy("<f8", "(" * 1000 + "9" + ")" * 1000, bytes(72)), "not a one-dimensional array"),
        ("float64.npy", npy("<f8", "(9,)", bytes(72), b"\x02\x00"), "not a one-dimensional array"),
        ("float64.npy", npy("<f4", "(9,)", bytes(36)), "holds '<f4' instead of '<f8'"),
        ("float64.npy", npy(">f8", "(9,)", bytes(72)), "holds '>f8'"),
        ("float64.npy", npy("<c16", "(9,)", bytes(144)), "holds '<c16'"),
        ("float64.npy", npy("|O", "(9,)", pickle.dumps([1])), r"holds '\|O'"),
        ("float64.npy", npy("<i8", "(9,)", bytes(72)), "holds '<i8'"),
        ("bool.npy", npy("|b1", "(2,)", b"\x01\x02"), "neither 0 nor 1"),
        ("int64.npy", npy("<i8", "(3,)", bytes(24)), "only 2 of the 3 values of int64.npy are used"),
        ("float64.npy", npy("<f8", "(9,)", struct.pack("<9d", np.nan, *[1] * 8)), "node 'c': the parameters"),
        ("float64.npy", npy("<f8", "(9,)", struct.pack("<9d", -1, 2, *[1] * 7)), "node 'c': the parameters"),
    ],
)
def test_arrays(member: str, data: bytes, reason: str, valid: bytes, tmp_path: Path) -> None:
    members = {**parts(valid), member: data}
    shape = re.search(rb"'shape': \((\d+),\)", data)

    def agree(manifest: Any) -> None:
        if shape:
            manifest["members"][member]["shape"] = [int(shape[1])]

    assert re.search(reason, refused(tmp_path / "m.hbn", signed(members, agree)))
    assert "was changed" in refused(tmp_path / "m.hbn", joined(list({**members, **_padded(valid, member)}.items())))


def _padded(valid: bytes, member: str) -> dict[str, bytes]:
    """Return a member of the right size with its last bit flipped."""
    data = bytearray(parts(valid)[member])
    data[-1] ^= 1
    return {member: bytes(data)}


def test_the_same_array_can_not_be_used_many_times(valid: bytes, tmp_path: Path) -> None:
    def repeat(network: Any) -> None:
        network["attributes"]["many"] = [{"$array": ["int64", 0, [2]]}] * 10_000

    assert "where 2 of 2 are used" in refused(tmp_path / "m.hbn", with_network(valid, repeat))


# -- at random ----------------------------------------------------------------------------------------------------


def test_flipped_and_lost_bytes(valid: bytes, tmp_path: Path) -> None:
    path, wanted, same = tmp_path / "m.hbn", state(example()), 0
    rng = np.random.default_rng(2)
    for position in np.linspace(0, len(valid) - 1, 150).astype(int).tolist():
        damaged = bytearray(valid)
        damaged[position] ^= int(rng.integers(1, 256))
        for data in (bytes(damaged), valid[:position], valid[:position] + valid[position + 1 :]):
            path.write_bytes(data)
            found = outcome(path)
            assert found in (None, wanted)
            same += found is not None
    # times and permissions in the zip headers do not matter; all the rest must
    assert same < 40


def test_every_byte_of_the_zip_directory(valid: bytes, tmp_path: Path) -> None:
    path, wanted = tmp_path / "m.hbn", state(example())
    for position in range(valid.index(b"PK\x01\x02"), len(valid)):
        for value in (0, 0xFF):
            damaged = bytearray(valid)
            damaged[position] = value
            path.write_bytes(damaged)
            assert outcome(path) in (None, wanted)


def test_json_with_parts_replaced(valid: bytes, tmp_path: Path) -> None:
    """Replace every value in the network's JSON by others of every type: refused, or a network that is checked."""
    path = tmp_path / "m.hbn"
    network = json.loads(parts(valid)["network.json"])

    def places(value: Any) -> list[tuple[Any, Any]]:
        items = (
            list(value.items())
            if isinstance(value, dict)
            else list(enumerate(value))
            if isinstance(value, list)
            else []
        )
        return [place for key, item in items for place in [(value, key), *places(item)]]

    others: tuple[Any, ...] = (None, True, -1, 0.5, "", "x", [], {}, [[]], {"": 1}, 10**30)
    for container, key in places(network):
        kept = container[key]
        for other in others:
            container[key] = other
            path.write_bytes(signed({**parts(valid), "network.json": json.dumps(network).encode()}))
            outcome(path)
        container[key] = kept


# -- the catalogue -----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # its own files
def test_the_catalogue_of_bad_files(tmp_path: Path) -> None:
    cases = [(name, factory, ideal) for name, area, factory, ideal in badinputs.CASES if area == "file"]
    assert len(cases) >= 13
    for i, (name, factory, ideal) in enumerate(cases):
        folder = tmp_path / str(i)
        folder.mkdir()
        path = Path(factory(folder))
        assert ideal.startswith("E:FormatError"), name
        refused(path, path.read_bytes())


def test_references_to_arrays_that_are_absent(valid: bytes, tmp_path: Path) -> None:
    members = parts(valid)
    arrays = [name for name in members if name.endswith(".npy")]
    assert arrays
    for name in arrays:
        rest = {other: data for other, data in members.items() if other != name}
        reason = refused(tmp_path / "m.hbn", signed(rest, partial(_drop_member, name)))
        assert f"values of {name} from 0 on, where 0 of 0 are used" in reason
