"""Networks in files: `read_network` and `write_network` choose the format by the file's suffix; `hbn` is our own.

A format is a reader and a writer in a module of this package, which gives both to `register_format`. A format of your
own works the same way, once its module is imported.

Doors: `hbn`, `pgmpy`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx

from hybridbn.errors import FormatError, NetworkError
from hybridbn.registry import Registry
from hybridbn.tables.formats.files import check_path, is_packed

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = ["NetworkFormat", "is_network", "network_suffixes", "read_network", "register_format", "write_network"]


class NetworkFormat(NamedTuple):
    """The functions of a file format.

    `read` is called with the path and the options of `read_network`, `write` with the network, the path and the options
    of `write_network`.
    """

    read: Callable[..., Network]
    write: Callable[..., None]


FORMATS: Registry[NetworkFormat] = Registry("format of networks", __name__)
"""The formats by suffix without its point, in lower case."""


def register_format(suffixes: Iterable[str], read: Callable[..., Network], write: Callable[..., None]) -> None:
    """Make a format known by its suffixes, such as ``.bif``; with ``.gz`` behind them, files are packed."""
    FORMATS.register(NetworkFormat(read, write), *(suffix.removeprefix(".") for suffix in suffixes), definition=read)


def network_suffixes() -> list[str]:
    """Return the suffixes of all formats, in alphabetical order.

    Examples
    --------
    >>> network_suffixes()
    ['.bif', '.bifxml', '.elv', '.hbn', '.net', '.uai', '.xdsl', '.xml', '.xmlbif']
    """
    return sorted(f".{name}" for name in FORMATS.load())


def read_network(path: str | os.PathLike[str], **options: Any) -> Network:
    """Read a network from a file of any known format, chosen by its suffix.

    Parameters
    ----------
    path : str or path
        ``.hbn`` (hybridbn's own files, exact), ``.bif``, ``.elv`` (Elvira), ``.xmlbif``, ``.bifxml`` or ``.xml``
        (XMLBIF), ``.xdsl`` (GeNIe), ``.net`` (Hugin), ``.uai``; all but the first also packed (``.bif.gz``).
    **options
        Options of the format's reader, such as ``normalize`` (default True: rows are divided by their sums, because
        published files carry rounded numbers) and ``encoding``; see `hybridbn.exchange.bif.read_bif` and its
        neighbors ``elvira.read_elvira``, ``xml_formats.read_xmlbif``, ``xml_formats.read_xdsl``, ``net.read_net``,
        ``uai.read_uai``.

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
    return _find_format(check_path(path)).read(path, **options)


def write_network(network: Network, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a network to a file in the format that the suffix names; an existing file is replaced at once.

    Parameters
    ----------
    network : Network
    path : str or path
        ``.hbn`` holds every network; ``.elv`` tables and mixtures of truncated exponentials; ``.xdsl`` and ``.net``
        tables and linear Gaussian nodes; ``.bif``, ``.xmlbif``, ``.bifxml``, ``.xml`` and ``.uai`` tables only. All but
        ``.hbn`` are packed if ``.gz`` stands behind.
    **options
        Options of the format's writer. All but ``.hbn`` have ``bins``, which cuts continuous variables into bins and
        warns how far that is from the network; see `hybridbn.exchange.discrete_networks.discretize`.

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
    form = _find_format(check_path(path))
    if not isinstance(network, nx.DiGraph):
        raise NetworkError(f"expected a network to write, not {network!r:.200}")
    form.write(network, path, **options)


def is_network(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds a network, by its suffix.

    Examples
    --------
    >>> is_network("alarm.bif.gz"), is_network("clouds.dbc"), is_network("sqlite:///f.db?table=t")
    (True, False, False)
    """
    return "?" not in os.fspath(path) and FORMATS.find(_suffix(path)) is not None


def _suffix(path: str | os.PathLike[str]) -> str:
    """Return a file's suffix in lower case, without its point and that of gzip where packed networks are read."""
    name = os.fspath(path).lower()
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix[1:] if suffix != ".hbn" or not is_packed(name) else "hbn.gz"


def _find_format(path: str | os.PathLike[str]) -> NetworkFormat:
    suffix = _suffix(path)
    if suffix == "hbn.gz":
        raise FormatError(f"{path}: hybridbn's own files are not packed; leave .gz out")
    network_format = FORMATS.find(suffix)
    if network_format is None:
        raise FormatError(
            f"{path}: no network format has this suffix; known are {', '.join(network_suffixes())}, all but .hbn also"
            " with .gz"
        )
    return network_format
