"""`read_network` and `write_network`: files of networks, told apart by their suffix."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridbn.errors import FormatError
from hybridbn.formats.files import is_packed

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = ["FORMATS", "NetworkFormat", "is_network", "read_network", "write_network"]


@dataclass(frozen=True)
class NetworkFormat:
    """Where the functions of a file format are: ``"module:function"``, imported when first used.

    `read` is called with the path and the options of `read_network`, `write` with the network, the path and the options
    of `write_network`.
    """

    name: str
    read: str
    write: str


def _format_of(name: str, module: str) -> NetworkFormat:
    return NetworkFormat(
        name,
        f"hybridbn.formats.networks.{module}:read_{module}",
        f"hybridbn.formats.networks.{module}:write_{module}",
    )


_XMLBIF = NetworkFormat(
    "XMLBIF", "hybridbn.formats.networks.xmlbif:read_xmlbif", "hybridbn.formats.networks.xmlbif:write_xmlbif"
)

FORMATS: dict[str, NetworkFormat] = {
    ".hbn": NetworkFormat("hybridbn", "hybridbn.formats.hbn:load", "hybridbn.formats.hbn:save"),
    ".bif": _format_of("BIF", "bif"),
    ".elv": NetworkFormat(
        "Elvira",
        "hybridbn.formats.networks.elvira:read_elvira",
        "hybridbn.formats.networks.elvira_writer:write_elvira",
    ),
    ".xmlbif": _XMLBIF,
    ".bifxml": _XMLBIF,
    ".xml": _XMLBIF,
    ".xdsl": _format_of("XDSL", "xdsl"),
    ".net": _format_of("NET", "net"),
    ".uai": NetworkFormat("UAI", "hybridbn.formats.networks.uai:read_uai", "hybridbn.formats.networks.uai:write_uai"),
}
"""The formats by suffix (lower case); with ``.gz`` behind, all but ``.hbn`` are packed."""


def read_network(path: str | os.PathLike[str], **options: Any) -> Network:
    """Read a network from a file of any known format, told by its suffix.

    Parameters
    ----------
    path : str or path
        ``.hbn`` (hybridbn's own files, exact), ``.bif``, ``.elv`` (Elvira), ``.xmlbif``, ``.bifxml`` or ``.xml`` (XMLBIF),
        ``.xdsl`` (GeNIe), ``.net`` (Hugin), ``.uai``; all but the first also packed (``.bif.gz``).
    **options
        Options of the format's reader, such as ``normalize`` (default True: rows are divided by their sums, because
        published files carry rounded numbers) and ``encoding``; see `hybridbn.formats.networks.bif.read_bif` and its neighbors
        ``elvira.read_elvira``, ``xmlbif.read_xmlbif``, ``xdsl.read_xdsl``, ``net.read_net``, ``uai.read_uai``.

    Raises
    ------
    FormatError
        If the suffix is not known, or the file is damaged; it names the file, the line and the reason.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> text = "variable c { type discrete [ 2 ] { yes, no }; } probability ( c ) { table 0.25, 0.75; }"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "coin.bif")
    ...     _ = path.write_text(text)
    ...     read_network(path).variable("c").states
    ('yes', 'no')
    """
    network: Network = _function(_format(path).read)(path, **options)
    return network


def write_network(network: Network, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a network to a file in the format that the suffix names; an existing file is replaced at once.

    Parameters
    ----------
    network : Network
    path : str or path
        ``.hbn`` holds every network; ``.elv`` tables and mixtures of truncated exponentials; ``.xdsl`` and ``.net`` tables
        and linear Gaussian nodes; ``.bif``, ``.xmlbif``, ``.bifxml``, ``.xml`` and ``.uai`` tables only. All but ``.hbn`` are
        packed if ``.gz`` stands behind.
    **options
        Options of the format's writer. All but ``.hbn`` have ``bins``, which cuts continuous variables into bins and warns
        how far that is from the network; see `hybridbn.formats.networks.binning.discretize`.

    Raises
    ------
    FormatError
        If the suffix is not known, or the format can't hold the network; it names the nodes and the remedy. Nothing is
        written then.

    Examples
    --------
    >>> import tempfile, pathlib, hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=(1, 2)), table=[0.25, 0.75])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_network(net, pathlib.Path(folder, "coin.bif.gz"))
    ...     read_network(pathlib.Path(folder, "coin.bif.gz")).variable("c").states
    (1, 2)
    """
    _function(_format(path).write)(network, path, **options)


def is_network(path: str | os.PathLike[str]) -> bool:
    """Tell by its suffix whether a file is one of a network.

    Examples
    --------
    >>> is_network("alarm.bif.gz"), is_network("clouds.dbc"), is_network("sqlite:///f.db?table=t")
    (True, False, False)
    """
    return "?" not in os.fspath(path) and _suffix(path) in FORMATS


def _suffix(path: str | os.PathLike[str]) -> str:
    """Return a file's suffix in lower case, without that of gzip where packed networks are read."""
    name = os.fspath(path).lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix if suffix != ".hbn" or not is_packed(name) else ".hbn.gz"


def _format(path: str | os.PathLike[str]) -> NetworkFormat:
    suffix = _suffix(path)
    if suffix == ".hbn.gz":
        raise FormatError(f"{path}: hybridbn's own files are not packed; leave .gz out")
    if suffix not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        raise FormatError(f"{path}: no network format has this suffix; known are {known}, all but .hbn also with .gz")
    return FORMATS[suffix]


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
