"""What the writers of discrete formats share: a network as tables, and states as text."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from hybridbn.errors import FormatError, NetworkError
from hybridbn.formats.networks.binning import discretize
from hybridbn.potentials.base import Potential
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = [
    "binned",
    "kept",
    "labels",
    "listed",
    "network_of",
    "plain_states",
    "reserved",
    "restored",
    "table_of",
    "tables",
    "told",
    "typed_states",
]

_PLAIN = (str, int, float, bool)
_READABLE = (
    ("<=", "le"),
    (">=", "ge"),
    ("<", "lt"),
    (">", "gt"),
    (r"-(?=[0-9])", "m"),
    (r"(?<=[0-9])\.(?=[0-9])", "p"),
)
"""What stands for signs in words, so that names of bins stay readable."""


def binned(network: Network, bins: Bins | None, name: str, stacklevel: int = 5) -> Network:
    """Return a network with its continuous variables cut into bins if that is asked for, warning what it costs."""
    network.check()
    if bins is None or not any(isinstance(network.variable(node), Continuous) for node in network):
        return network
    found, binning = discretize(network, bins)
    warnings.warn(
        f"{name}: {len(binning.cuts)} continuous variables were cut into bins; no event has a probability further than about "
        f"{binning.total:.2g} from the network's",
        UserWarning,
        stacklevel=stacklevel,
    )
    return found


def table_of(potential: Potential) -> Multinomial | None:
    """Return a potential of discrete variables, of any family, as a table; None where a variable is continuous."""
    if isinstance(potential, Multinomial):
        return potential
    variables = [variable for variable in potential.variables if isinstance(variable, Discrete)]
    table = potential.probabilities()
    return None if table is None else Multinomial(variables[-1], variables[:-1], table=table, normalize=True)


def tables(network: Network, name: str) -> list[Multinomial]:
    """Return the tables of a network, refusing what is none by its name.

    Examples
    --------
    >>> import hybridbn as hb
    >>> tables(hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)]), "UAI")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: UAI holds tables of discrete variables only, not the potentials of x (LinearGaussian); save the
    network as .hbn, or cut the continuous variables with bins=, for example write_network(net, path, bins=10)
    """
    found = [(network.potential(node), table_of(network.potential(node))) for node in network]
    refused = [potential for potential, table in found if table is None]
    if refused:
        raise FormatError(
            f"{name} holds tables of discrete variables only, not the potentials of {listed(refused)}; save the network as "
            ".hbn, or cut the continuous variables with bins=, for example write_network(net, path, bins=10)"
        )
    return [table for _, table in found if table is not None]


def listed(potentials: Sequence[Potential]) -> str:
    """Name nodes with the families of their potentials."""
    names = [f"{potential.child.name} ({type(potential).__name__})" for potential in potentials]
    return ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")


def plain_states(variable: Discrete, name: str) -> list[str]:
    """Return states as text, refusing types that no file can restore and states that would look the same."""
    wrong = [state for state in variable.states if type(state) not in _PLAIN]
    if wrong:
        raise FormatError(
            f"{variable.name!r}: the state {wrong[0]!r} is a {type(wrong[0]).__name__}; "
            "files hold only text, integers, floats and booleans as states"
        )
    texts = [state if isinstance(state, str) else repr(state) for state in variable.states]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise FormatError(
            f"{variable.name!r}: two states would both be written as {twice!r} in {name}; save the network as .hbn"
        )
    return texts


def labels(names: Iterable[Hashable], taken: Collection[str] = (), start: str = "s") -> dict[Hashable, str]:
    """Return a distinct plain word for each name: the name itself where it is one.

    Examples
    --------
    >>> labels(["yes", "no way", 1, "no_way", ""])
    {'yes': 'yes', 'no way': 'no_way_2', 1: 's1', 'no_way': 'no_way', '': 's'}
    >>> list(labels(["< -0.5", "-0.5 to 0.5", ">= 0.5"]).values())
    ['lt_m0p5', 'm0p5_to_0p5', 'ge_0p5']
    """
    listed_names = list(names)
    word = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
    used = set(taken) | {name for name in listed_names if isinstance(name, str) and word.fullmatch(name)}
    found: dict[Hashable, str] = {}
    for name in listed_names:
        if isinstance(name, str) and word.fullmatch(name) and name not in taken:
            found[name] = name
            continue
        base = str(name)
        for pattern, readable in _READABLE:
            base = re.sub(pattern, readable, base)
        base = re.sub(r"[^A-Za-z0-9_]+", "_", base)[:60]
        base = base if word.fullmatch(base) else start + base
        label, number = base, 2
        while label in used:
            label, number = f"{base}_{number}", number + 1
        used.add(label)
        found[name] = label
    return found


def reserved(words: str) -> frozenset[str]:
    """Return words as a set.

    Examples
    --------
    >>> sorted(reserved("node net"))
    ['net', 'node']
    """
    return frozenset(words.split())


def kept(variable: Variable, written: Sequence[str], name: str) -> dict[str, str]:
    """Return what the words of a file don't say about a variable, as properties without spaces, quotes and equals signs.

    Parameters
    ----------
    variable : Variable
    written : the states as they stand in the file
    name : the variable's name as it stands in the file

    Examples
    --------
    >>> kept(Discrete("my c", states=(1, "b")), ["1", "b"], "my_c")
    {'hybridbn_name': 'my%20c', 'hybridbn_states': '%5B1%2C%22b%22%5D'}
    """
    found = {}
    if variable.name != name:
        found["hybridbn_name"] = quote(variable.name, safe="")
    if isinstance(variable, Discrete):
        if list(variable.states) != list(written) or any(type(state) is not str for state in variable.states):
            found["hybridbn_states"] = quote(json.dumps(list(variable.states), separators=(",", ":")), safe="")
        if variable.cuts is not None:
            found["hybridbn_cuts"] = ",".join(map(repr, variable.cuts))
    return found


def restored(name: str, written: Sequence[str], properties: Mapping[str, str]) -> Discrete:
    """Return a discrete variable from a file, with what `kept` kept; a `ValueError` says what does not fit.

    Examples
    --------
    >>> restored("my_c", ["1", "b"], {"hybridbn_name": "my%20c", "hybridbn_states": "%5B1%2C%22b%22%5D"}).states
    (1, 'b')
    """
    states: list[Any] = list(written)
    if "hybridbn_states" in properties:
        states = typed_states(unquote(properties["hybridbn_states"]), len(written))
    cuts = properties.get("hybridbn_cuts")
    return Discrete(
        unquote(properties.get("hybridbn_name", "")) or name,
        tuple(states),
        None if cuts is None else tuple(map(float, cuts.split(","))),
    )


def told(name: str, error: Exception) -> str:
    """Return an error's message with the name before it, once.

    Examples
    --------
    >>> told("a", ValueError("'a' is odd")), told("a", ValueError("odd"))
    ("'a' is odd", "'a': odd")
    """
    text = str(error)
    return text if text.startswith(repr(name)) else f"{name[:60]!r}: {text}"


def typed_states(text: str, count: int) -> list[Any]:
    """Return states from JSON, refusing with a `ValueError` what is no list of `count` of them."""
    try:
        states = json.loads(text)
    except RecursionError:
        raise ValueError("its states are nested") from None
    if not isinstance(states, list) or len(states) != count or not all(isinstance(s, _PLAIN) for s in states):
        raise ValueError(f"its states {text[:60]!r} are not {count} texts or numbers")
    return states


def network_of(potentials: Mapping[str, Potential], names: Iterable[str], source: str) -> Network:
    """Return the network of a file, refusing nodes without a potential, and cycles."""
    from hybridbn.network import Network

    listed_names = list(names)
    if not listed_names:
        raise FormatError(f"{source}: there are no variables; is the file complete?")
    missing = [name for name in listed_names if name not in potentials]
    if missing:
        raise FormatError(f"{source}: no probabilities for {shorten(missing)}; is the file complete?")
    try:
        return Network([potentials[name] for name in listed_names])
    except NetworkError as error:
        raise FormatError(f"{source}: {error}") from None
