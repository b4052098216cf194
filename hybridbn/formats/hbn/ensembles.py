"""Ensembles in ``.hbn`` files: the members as in the file of a network, with their votes.

In the place of a network's description, `network.json` holds the ``ensemble``: its ``target``, ``algorithm``, ``votes``, ``errors`` and
``restarts``, and the ``networks`` in order.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hybridbn.errors import FormatError, HybridBNError
from hybridbn.formats.hbn import pack_network, unpack_network
from hybridbn.formats.hbn.archive import write_archive
from hybridbn.formats.hbn.values import Packer, Unpacker, brief, fields

if TYPE_CHECKING:
    from hybridbn.learning.ensemble import Ensemble

__all__ = ["save_ensemble", "unpack_ensemble"]


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
    content: dict[str, Any] = {
        "target": ensemble.target,
        "algorithm": ensemble.algorithm,
        "restarts": ensemble.restarts,
        "votes": packer.pack(ensemble.votes, "the votes"),
        "errors": packer.pack(ensemble.errors, "the errors"),
        "networks": [],
    }
    for network in ensemble.networks:
        network.check()
        content["networks"].append(pack_network(network, packer))
    write_archive(path, {"ensemble": content}, packer.arrays())


def unpack_ensemble(content: Any, unpacker: Unpacker) -> Ensemble:
    """Return the ensemble that a file describes, refusing what is none."""
    from hybridbn.learning.ensemble import Ensemble

    fields(content, "the ensemble", ("target", "algorithm", "restarts", "votes", "errors", "networks"))
    restarts, listed = content["restarts"], content["networks"]
    if type(restarts) is not int or restarts < 0:
        raise FormatError(f"the ensemble: restarts must be a whole number, not {brief(restarts)}")
    if not isinstance(content["target"], str) or not isinstance(listed, list):
        raise FormatError("the ensemble: expected the name of a target and a list of networks")
    votes, errors = unpacker.unpack(content["votes"]), unpacker.unpack(content["errors"])
    networks = tuple(unpack_network(network, unpacker) for network in listed)
    try:
        return Ensemble(networks, votes, content["target"], content["algorithm"], errors, restarts)
    except (HybridBNError, TypeError, ValueError) as error:
        raise FormatError(f"the ensemble: {error}") from error
