"""The library's own files, ``.hbn``: they restore every number exactly, and are safe to open wherever they come from.

A file is one zip archive whose members are stored as they are, so nothing can inflate:

``manifest.json``
    ``format``, ``version``, the ``library`` that wrote it, and for every other member its ``size`` and ``sha256``, and
    for arrays ``dtype`` and ``shape``.
``network.json``
    The ``nodes`` in order (``variable``, since version 2 with the ``unit`` of dates and times, ``parents``, ``family``
    and ``parameters`` of the potential), the ``arcs`` in order, and the ``attributes`` that the user gave to graph,
    nodes and arcs.
``float64.npy``, ``int64.npy``, ``bool.npy``
    All arrays of that type end to end; `network.json` refers to them by offset and shape.

In the file of an ensemble, `network.json` holds an ``ensemble`` instead: its ``target``, ``algorithm``, ``votes``,
``errors`` and ``restarts``, and in ``networks`` a description of each network, in order.

Each version of the format stays readable by all later releases of the same major version of the library. Reading
takes memory in proportion to the size of the file, whatever its content claims.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hybridbn.errors import FormatError, HybridBNError
from hybridbn.exchange import register_format
from hybridbn.exchange.hbn.archive import Packer, Unpacker, abbreviate, check_fields, read_archive, write_archive
from hybridbn.network import Network
from hybridbn.potentials.base import Potential, variable_from_dict, variable_to_dict
from hybridbn.tables.formats.files import check_path
from hybridbn.variables import Discrete, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.learning.ensemble import Ensemble

__all__ = ["load", "load_network", "pack_network", "save", "save_ensemble", "unpack_ensemble", "unpack_network"]

_OURS = ("variable", "potential")


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
    network.check()
    packer = Packer()
    content = pack_network(network, packer)
    write_archive(check_path(path), content, packer.join_arrays(), _version_of([network]))


def load(path: str | os.PathLike[str]) -> Network | Ensemble:
    """Read a network or an ensemble that `save` wrote; files that are damaged, hostile or too new raise `FormatError`.

    Nothing in the file is ever executed. A family of potentials of your own must have been imported before.

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
            if isinstance(content, dict) and "ensemble" in content:
                check_fields(content, "the file", ("ensemble",))
                loaded: Network | Ensemble = unpack_ensemble(content["ensemble"], unpacker)
            else:
                loaded = unpack_network(content, unpacker)
            unpacker.finish()
        except FormatError as error:
            # The reason may quote the file, which may hold a name of megabytes.
            raise FormatError(f"can't load {os.fsdecode(path)!r}: {error!s:.800}") from error.__cause__
    return loaded


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


# -- writing ------------------------------------------------------------------------------------------------------


def pack_network(network: Network, packer: Packer) -> dict[str, Any]:
    """Return the description of a network for a file; the arrays go to the packer."""
    content: dict[str, Any] = {"nodes": [_pack_node(network, name, packer) for name in network]}
    content["arcs"] = [
        [start, end, packer.pack(attributes, f"the arc {start!r} -> {end!r}")] if attributes else [start, end]
        for start, end, attributes in network.edges(data=True)
    ]
    if network.graph:
        content["attributes"] = packer.pack(network.graph, "the network's attributes")
    return content


def _version_of(networks: Iterable[Network]) -> int:
    """Return the first version of the format that can hold networks: units of variables came with the second."""
    for network in networks:
        noted = network.graph.get("imputation")
        if isinstance(noted, Mapping) and "units" in noted:
            return 2
        if any(getattr(network.variable(name), "unit", None) is not None for name in network):
            return 2
    return 1


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


# -- reading ------------------------------------------------------------------------------------------------------


def unpack_network(content: Any, unpacker: Unpacker) -> Network:
    """Return the network that a file describes, refusing anything else."""
    check_fields(content, "the network", ("nodes", "arcs"), ("attributes",))
    nodes = _check_list(content["nodes"], "the nodes")
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
    arcs = [_unpack_arc(arc, unpacker) for arc in _check_list(content["arcs"], "the arcs")]
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
            state, f"the variable of node {i}", ("name", *kind), ("cuts",) if kind == ("states",) else ("unit",)
        )
        if "unit" in state:
            check_fields(state["unit"], f"the unit of node {i}", ("kind", "step", "zone", "pattern"))
        for field in state.keys() - {"name", "unit"}:
            _check_list(state[field], f"the variable of node {i}: {field}")
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
    names = _check_list(node["parents"], f"{where}, its parents")
    unknown = [name for name in names if not isinstance(name, str) or name not in variables]
    if unknown:
        raise FormatError(f"{where}: its parents {shorten(unknown)} are no nodes")
    if len(set(names)) < len(names):
        raise FormatError(f"{where}: a parent occurs twice among {shorten(names)}")
    parameters = unpacker.unpack(node["parameters"])
    if not isinstance(parameters, dict):
        raise FormatError(f"{where}: its parameters are not an object")
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
    attributes = unpacker.unpack(packed)
    if not isinstance(attributes, dict):
        raise FormatError(f"attributes must be an object, not {abbreviate(attributes)}")
    return attributes


def _check_list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"{what} must be a list, not {abbreviate(value)}")
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
    write_archive(check_path(path), {"ensemble": content}, packer.join_arrays(), _version_of(ensemble.networks))


def unpack_ensemble(content: Any, unpacker: Unpacker) -> Ensemble:
    """Return the ensemble that a file describes, refusing anything else."""
    from hybridbn.learning.ensemble import Ensemble

    check_fields(content, "the ensemble", ("target", "algorithm", "restarts", "votes", "errors", "networks"))
    restarts, listed = content["restarts"], content["networks"]
    if type(restarts) is not int or restarts < 0:
        raise FormatError(f"the ensemble: restarts must be a whole number, not {abbreviate(restarts)}")
    if not isinstance(content["target"], str) or not isinstance(listed, list):
        raise FormatError("the ensemble: expected the name of a target and a list of networks")
    votes, errors = unpacker.unpack(content["votes"]), unpacker.unpack(content["errors"])
    networks = tuple(unpack_network(network, unpacker) for network in listed)
    try:
        return Ensemble(networks, votes, content["target"], content["algorithm"], errors, restarts)
    except (HybridBNError, TypeError, ValueError) as error:
        raise FormatError(f"the ensemble: {error}") from error


register_format((".hbn",), load_network, save)
