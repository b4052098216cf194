"""The suffix of hybridbn's own files, whose reader and writer are in `hybridbn.formats.hbn`."""

import os

from hybridbn.errors import FormatError
from hybridbn.formats.hbn import load, save
from hybridbn.formats.networks import register_format
from hybridbn.network import Network

__all__ = ["load_network"]


def load_network(path: str | os.PathLike[str]) -> Network:
    """Read a network that `hybridbn.formats.hbn.save` wrote; refuse an ensemble.

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


register_format((".hbn",), load_network, save)
