"""What the writers of discrete formats share: a network as tables, and states as text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hybridbn.errors import FormatError
from hybridbn.formats.binning import discretize
from hybridbn.potentials.base import Potential
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete

if TYPE_CHECKING:
    from hybridbn.formats.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["binned", "labels", "listed", "plain_states", "reserved", "table_of", "tables"]

_PLAIN = (str, int, float, bool)


def binned(network: Network, bins: Bins | None, name: str) -> Network:
    """Return a network with its continuous variables cut into bins if that is asked for, warning what it costs."""
    network.check()
    if bins is None or not any(isinstance(network.variable(node), Continuous) for node in network):
        return network
    found, binning = discretize(network, bins)
    warnings.warn(
        f"{name}: {len(binning.cuts)} continuous variables were cut into bins; no event has a probability further than about "
        f"{binning.total:.2g} from the network's",
        UserWarning,
        stacklevel=5,
    )
    return found


def table_of(potential: Potential) -> Multinomial | None:
    """Return a potential of discrete variables, of any family, as a table; None where a variable is continuous."""
    if isinstance(potential, Multinomial):
        return potential
    variables = [variable for variable in potential.variables if isinstance(variable, Discrete)]
    if len(variables) < len(potential.variables):
        return None
    values, log_scale = potential.on({variable.name: np.arange(len(variable)) for variable in variables})
    table = values * np.exp(log_scale)
    return Multinomial(variables[-1], parents=variables[:-1], table=table, normalize=True)


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
    """
    listed_names = list(names)
    word = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
    used = set(taken) | {name for name in listed_names if isinstance(name, str) and word.fullmatch(name)}
    found: dict[Hashable, str] = {}
    for name in listed_names:
        if isinstance(name, str) and word.fullmatch(name) and name not in taken:
            found[name] = name
            continue
        base = re.sub(r"[^A-Za-z0-9_]", "_", str(name))[:60]
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
