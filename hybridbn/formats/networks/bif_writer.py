"""Write a discrete network as BIF text, so that every program that reads BIF reads what it can."""

from __future__ import annotations

import os
import re
from itertools import product
from typing import TYPE_CHECKING

from hybridbn.errors import FormatError
from hybridbn.formats.networks.tabular import binned, plain_states, table_of
from hybridbn.formats.packing import write_network_text
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Discrete, shorten

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["format_bif", "properties", "write_bif"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_STATE = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|-?[0-9]+")
_KEYWORDS = frozenset({"network", "variable", "probability", "property", "type", "discrete", "default", "table"})
_PLAIN = (str, int, float, bool)


def write_bif(network: Network, path: str | os.PathLike[str], *, bins: Bins | None = None) -> None:
    """Write a network of `Multinomial` potentials to a BIF file, compressed if the name ends with ``.gz``.

    Every number is written so that it is read back as the same double, and the same network gives the same bytes. An
    existing file is replaced at once, or not at all. Names that are not plain words are quoted: hybridbn reads these and
    pgmpy takes the quotes for spaces (so it fails on a variable with a space and no parents); pyAgrum reads plain words
    only. States that are not text are written as text, with their types in a property that `read_bif` restores them from.

    Parameters
    ----------
    network : Network
    path : str or path
    bins : int or mapping, optional
        Cut continuous variables into bins; see `hybridbn.formats.networks.binning.discretize`. A warning tells what that costs.

    Raises
    ------
    FormatError
        Naming the nodes that BIF can't hold: continuous ones, those whose potential is not a table, and names with
        characters that other programs would misread.

    Examples
    --------
    >>> import tempfile, pathlib, hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.25, 0.75])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bif(net, pathlib.Path(folder, "coin.bif"))
    ...     print(pathlib.Path(folder, "coin.bif").read_text().splitlines()[-2])
      table 0.25, 0.75;
    """
    write_network_text(path, format_bif(binned(network, bins, "BIF", stacklevel=4)))


def format_bif(network: Network) -> str:
    """Return a network as BIF text; see `write_bif`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, d = hb.Discrete("c", states=(1, 2)), hb.Discrete("d", states=("no way", "yes"))
    >>> net = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), hb.Multinomial(d, parents=(c,), table=[[1, 0], [0.1, 0.9]])])
    >>> print(format_bif(net))
    network unknown {
    }
    variable c {
      type discrete [ 2 ] { 1, 2 };
      property hybridbn_states = "int" ;
    }
    variable d {
      type discrete [ 2 ] { "no way", yes };
    }
    probability ( c ) {
      table 0.5, 0.5;
    }
    probability ( d | c ) {
      (1) 1.0, 0.0;
      (2) 0.1, 0.9;
    }
    <BLANKLINE>
    """
    network.check()
    tables = _tables(network)
    states = {table.child.name: _states(table.child) for table in tables}
    blocks = ["network unknown {\n}\n"]
    blocks += [_variable_block(table.child, states[table.child.name]) for table in tables]
    blocks += [_probability_block(table, states) for table in tables]
    return "".join(blocks)


def properties(variable: Discrete) -> dict[str, str]:
    """Return what BIF has no place for, the types of states and the cuts of a discretized number, as properties.

    Examples
    --------
    >>> properties(Discrete("c", states=(1, 2))), properties(Discrete("c", states=("1", "2")))
    ({'hybridbn_states': '"int"'}, {})
    """
    kept = {}
    types = [type(state).__name__ for state in variable.states]
    if set(types) != {"str"} and set(types) <= {plain.__name__ for plain in _PLAIN}:
        kept["hybridbn_states"] = f'"{" ".join(types if len(set(types)) > 1 else types[:1])}"'
    if variable.cuts is not None:
        kept["hybridbn_cuts"] = f'"{" ".join(map(repr, variable.cuts))}"'
    return kept


def _tables(network: Network) -> list[Multinomial]:
    potentials = [network.potential(name) for name in network]
    continuous = [p.child.name for p in potentials if not isinstance(p.child, Discrete)]
    if continuous:
        raise FormatError(
            f"BIF holds discrete variables only; {shorten(continuous)} {'is' if len(continuous) == 1 else 'are'} continuous. "
            "Save the network as .hbn, or cut these into bins, for example write_network(net, path, bins=10)"
        )
    tables = [table for p in potentials if (table := table_of(p)) is p]
    if len(tables) < len(potentials):
        other = [f"{p.child.name} ({type(p).__name__})" for p in potentials if p not in tables]
        raise FormatError(
            f"BIF holds tables only, not the potentials of {', '.join(other[:8])}; save the network as .hbn"
        )
    return tables


def _word(text: str, plain: re.Pattern[str], what: str) -> str:
    """Return a name as it is written, quoted where it isn't a plain word; refuse what nobody else could read."""
    if plain.fullmatch(text) and text not in _KEYWORDS:
        return text
    if not text.isprintable() or text != text.strip() or not text:
        reason = (
            "is empty, starts or ends with a space, or holds a line break or another character that can't be printed"
        )
    elif set(text) & set(',;{}()"') or ("|" in text and plain is _NAME):
        reason = 'holds one of , ; { } ( ) | ", which other programs would take for the end of it'
    else:
        return f'"{text}"'
    raise FormatError(
        f"{what} can't be written to BIF: it {reason}. Rename it (net.rename), or save the network as .hbn"
    )


def _states(variable: Discrete) -> list[str]:
    texts = plain_states(variable, "BIF")
    return [_word(text, _STATE, f"{variable.name!r}: the state {text!r}") for text in texts]


def _variable_block(variable: Discrete, states: list[str]) -> str:
    name = _word(variable.name, _NAME, f"the name {variable.name!r}")
    lines = [f"variable {name} {{", f"  type discrete [ {len(states)} ] {{ {', '.join(states)} }};"]
    lines += [f"  property {key} = {value} ;" for key, value in properties(variable).items()]
    return "\n".join([*lines, "}", ""])


def _probability_block(potential: Multinomial, states: dict[str, list[str]]) -> str:
    name, *parents = (_word(v.name, _NAME, v.name) for v in (potential.child, *potential.parents))
    given = f" | {', '.join(parents)}" if parents else ""
    rows = potential.table.reshape(-1, len(potential.child)).tolist()
    if parents:
        labels = [f"({', '.join(row)})" for row in product(*(states[parent.name] for parent in potential.parents))]
    else:
        labels = ["table"]
    lines = [f"  {label} {', '.join(map(repr, row))};" for label, row in zip(labels, rows, strict=True)]
    return "\n".join([f"probability ( {name}{given} ) {{", *lines, "}", ""])
