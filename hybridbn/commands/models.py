"""The models of the command: they are learned from tables of any size, read and written, and know their nodes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hybridbn.commands.column_profiles import TableProfile, profile_columns
from hybridbn.commands.locations import refuse_replacement
from hybridbn.commands.table_input import (
    TableRequest,
    choose_columns,
    is_shared,
    open_engine,
    open_input,
    open_scan,
    read_profile,
)
from hybridbn.commands.terminal import Terminal, UsageFault, parse_number
from hybridbn.errors import TableError
from hybridbn.exchange import is_network, network_suffixes, read_network, write_network
from hybridbn.fitting.counting import count_columns
from hybridbn.network import Network
from hybridbn.network_description import as_line
from hybridbn.tables.formats.base import name_file_in_errors
from hybridbn.variables import Continuous, Variable, hint_at_names, shorten

if TYPE_CHECKING:
    from hybridbn.structures.building import Build
    from hybridbn.tables.formats.typed_columns import DeclaredKind


def learn_model(
    request: TableRequest, build: Build, potentials: Any, path: str, terminal: Terminal, *, bins: int | None = None
) -> None:
    """Learn a network from a table, and write it to a file, continuous nodes cut into `bins`.

    It is learned from a sample of the rows, or from all of them where the request says who reads the table.

    Raises
    ------
    HybridBNError, OSError
        If the table or an option can't be used, or the system refuses a file operation.
    """
    began = time.monotonic()
    terminal.show_step("reading")
    shared, nodes = is_shared(request), list(build.structure or ())
    with (
        _open_profile(request, nodes, terminal) as profile,
        name_file_in_errors(request.input),
        terminal.forward_warnings(),
    ):
        included = "learns from identifiers and texts, too"
        names = choose_columns(profile, request, terminal, included, nodes if shared else ())
        _refuse_unknown_nodes(nodes, names, request.input)
        if not names:
            raise TableError("no column is left to learn from")
        if request.target is not None and request.target not in names:
            alone = "the column is left alone, as said above"
            raise TableError(f"--target {request.target}: {alone}; --include {included}")
        rows = profile.usable if shared else profile.sample
        if len(rows) < profile.rows:
            terminal.warn(f"learned from {len(rows):,} of {profile.rows:,} rows; --sample takes more")
        terminal.show_step("learning")
        learned = rows.select(names).keep_columns({*request.include, *nodes})
        network = build.learn(learned, request.target, potentials)
    with terminal.forward_warnings():
        write_network(network, path, **({} if bins is None else {"bins": bins}))
    terminal.note(f"{path}: {as_line(network)}; {len(rows):,} rows ({time.monotonic() - began:.1f} s)")


@contextmanager
def _open_profile(request: TableRequest, nodes: Sequence[str], terminal: Terminal) -> Iterator[TableProfile]:
    """Open the table that a request names, or let the backend that it names open it."""
    if not is_shared(request):
        with open_input(request) as (location, source):
            if source.knows_names:
                _refuse_unknown_nodes(nodes, source.names, location.shown)
            leave = source.frame_index - {*request.discrete, *request.continuous, *request.include}
            yield read_profile(source, location.shown, request, terminal, leave=leave)
        return
    with open_engine(request) as engine, name_file_in_errors(request.input):
        with terminal.forward_warnings():
            scan = open_scan(request, engine, terminal)
            _refuse_unknown_nodes(nodes, scan.names, request.input)
            scan.expect(request.target, count_columns)
            usable, unusable = scan.read_usable()
            profile = profile_columns(usable, scan.names, unusable, request.sample)
        yield profile


def _refuse_unknown_nodes(nodes: Iterable[str], names: Sequence[str], shown: str) -> None:
    """Refuse arcs between columns that the table doesn't have, or that can't be learned from."""
    for name in nodes:
        if name not in names:
            raise TableError(f"--structure: {shown} has no column {name!r} to learn from; {hint_at_names(name, names)}")


# -- models that are given ---------------------------------------------------------------------------------------------


def find_structure(structure: str) -> Build:
    """Return the builder or the arcs that a structure stands for; refuse one that stands for none.

    Examples
    --------
    >>> find_structure("tann")
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: structure='tann' is not known; did you mean 'tan'?
    """
    from hybridbn.structures.building import Build

    return Build.of(structure, "structure")


def refuse_model_output(source: str, path: str, no_clobber: bool) -> None:
    """Refuse to write a model to a file of no known format, over the table, or over any file with `no_clobber`."""
    if not is_network(path):
        raise UsageFault(
            f"{path}: the suffix tells no format of networks; known are {', '.join(network_suffixes())}, and .hbn"
            " holds every network"
        )
    refuse_replacement(source, path, no_clobber)


def read_model(path: str) -> Network:
    """Read a network, and refuse one that has faults."""
    network = read_network(path)
    network.check()
    return network


def kinds_of(network: Network) -> dict[str, DeclaredKind]:
    """Return how the columns of a network's variables must be read."""
    from hybridbn.learning.imputation.model import has_metadata, read_columns
    from hybridbn.tables.formats.typed_columns import WantedColumns

    variables = [network.variable(name) for name in network]
    if has_metadata(network):
        variables += [v for n, v in read_columns(network).variables.items() if n not in network]
    return WantedColumns.of((), (), None, None, variables).kinds


def find_node(network: Network, name: str) -> Variable:
    """Return the variable of a node; refuse a name that no node has.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("rain", states=("no", "yes")), table=[0.8, 0.2])])
    >>> find_node(net, "rian")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the model has no node 'rian'; did you mean 'rain'?
    """
    if name in network:
        return network.variable(name)
    hint = hint_at_names(name, network, f"its nodes are {shorten(network)}")
    raise TableError(f"the model has no node {name!r}; {hint}")


def parse_evidence(network: Network, words: Sequence[str]) -> dict[str, Any]:
    """Return what words such as ``age=62``, ``age=40:60`` and ``ward={a,b}`` say of the nodes of a network.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x = hb.Discrete("c", states=("a", "b", "d")), hb.Continuous("x")
    >>> net = hb.Network([hb.Multinomial(c, table=[0.5, 0.3, 0.2]), hb.LinearGaussian(x, intercept=0, variance=1)])
    >>> parse_evidence(net, ["c={a,d}", "x=1:"]) == {"c": {"a", "d"}, "x": hb.Interval(1)}
    True
    >>> parse_evidence(net, ["c={a:0.5,b:1}"])
    {'c': {'a': 0.5, 'b': 1.0}}
    >>> parse_evidence(net, ["c=e"])
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: c=e: 'c' has no state 'e'; its states are 'a', 'b', 'd'
    """
    evidence: dict[str, Any] = {}
    for word in words:
        if "=" not in word:
            raise UsageFault(
                f"{word!r}: write what is known as name=value, name=low:high for an interval or name={{a,b}} for some"
                " states"
            )
        # a name may hold an equals sign, too
        splits = _split_at("=", word)
        name, text = next((split for split in splits if split[0] in network), splits[0])
        variable = find_node(network, name)
        if name in evidence:
            raise UsageFault(f"{name!r} is given twice; leave one out")
        read = _read_number if isinstance(variable, Continuous) else _read_state
        evidence[name] = read(variable, text, word)
    return evidence


def _read_state(variable: Any, text: str, word: str) -> Any:
    known = {str(state): state for state in variable.states}
    if text in known:
        return known[text]
    if text.startswith("{") and text.endswith("}"):
        items = [item.strip() for item in re.findall(r'(?:"[^"]*"|[^,])+', text[1:-1])]
        items = [item[1:-1] if item[:1] == item[-1:] == '"' and len(item) > 1 else item for item in items]
        if all(item in known for item in items) and items:
            return {known[item] for item in items}
        pairs = [item.rpartition(":") for item in items]
        if pairs and all(colon and parse_number(weight) is not None for _, colon, weight in pairs):
            return {_find_state(variable, known, s.strip(), word): float(weight) for s, _, weight in pairs}
        for item in items:
            _find_state(variable, known, item, word)
    if variable.cuts is not None and parse_number(text) is not None:
        return float(text)
    return _find_state(variable, known, text, word)


def _find_state(variable: Any, known: dict[str, Any], text: str, word: str) -> Any:
    if text in known:
        return known[text]
    hint = hint_at_names(text, variable.states, f"its states are {shorten(variable.states)}")
    raise TableError(f"{word}: {variable.name!r} has no state {text!r}; {hint}")


def _read_number(variable: Any, text: str, word: str) -> Any:
    from hybridbn.inference.evidence import Interval

    number = _count_end(variable, text)
    if number is not None:
        return number
    for low, high in _split_at(":", text):
        ends = {name: _count_end(variable, end) for name, end in (("low", low), ("high", high)) if end}
        if ends and None not in ends.values():
            return Interval(**ends)
    what = "a number" if variable.unit is None else f"a {variable.unit.kind}"
    raise TableError(f"{word}: {variable.name!r} takes {what}, or low:high (either end may be left out)")


def _split_at(sign: str, text: str) -> list[tuple[str, str]]:
    """Return what stands before and behind each such sign of a text."""
    return [(text[:place], text[place + 1 :]) for place, one in enumerate(text) if one == sign]


def _count_end(variable: Any, text: str) -> float | None:
    """Return a number, or a date or time as one of its variable's unit; None for any other text."""
    if parse_number(text) is not None:
        return float(text)
    try:
        return None if variable.unit is None else float(variable.unit.number(text))
    except (ValueError, TypeError):
        return None
