"""Write networks of tables and linear Gaussian nodes in Hugin's NET format."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import numpy as np

from hybridbn.errors import FormatError
from hybridbn.formats.networks.tabular import binned, kept, labels, listed, plain_states, reserved, table_of
from hybridbn.formats.packing import write_network_text
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Variable

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["format_net", "write_net"]

_AWKWARD = re.compile(r"[ (),]|[^\x20-\x7e]")
_KEYWORDS = reserved(
    "net class node potential data states label position discrete continuous decision utility normal function instance name "
    "inputs outputs subtype state_values model_nodes samples_per_interval node_size experience fading title"
)


def write_net(network: Network, path: str | os.PathLike[str], *, bins: Bins | None = None) -> None:
    """Write a network of tables and `LinearGaussian` potentials to a file of Hugin, every number as it is.

    Names that are no plain words, and spaces, commas and parentheses in states, are replaced by such as all programs read; the
    name itself is the node's label, and `read_net` restores both.

    Parameters
    ----------
    network : Network
    path : str or path
    bins : int or mapping, optional
        Cut continuous variables into bins, all of them; see `hybridbn.formats.networks.binning.discretize`. A warning tells what
        that costs.

    Raises
    ------
    FormatError
        Naming the nodes that can't be written, and the remedy.
    """
    write_network_text(path, format_net(network, bins=bins))


def format_net(network: Network, *, bins: Bins | None = None) -> str:
    """Return a network as NET text; see `write_net`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[-0.5], variance=2)])
    >>> print(format_net(net).partition("potential (y")[2].splitlines()[2])
      data = (normal(1.0 - 0.5 * x, 2.0));
    """
    network = binned(network, bins, "NET")
    potentials = [network.potential(node) for node in network]
    held: list[Potential] = []
    refused = []
    for potential in potentials:
        found = table_of(potential) if potential.regression() is None else potential
        held += [] if found is None else [found]
        refused += [potential] if found is None else []
    if refused:
        raise FormatError(
            f"NET files hold tables and linear Gaussian nodes, not the potentials of {listed(refused)}; save the network as .hbn, "
            "or cut the continuous variables with bins="
        )
    words = {str(name): word for name, word in labels([p.child.name for p in held], _KEYWORDS, "n_").items()}
    lines = ["net", "{", "}"]
    for potential in held:
        lines += _node(potential.child, words[potential.child.name])
    for potential in held:
        child, *parents = (words[v.name] for v in (potential.child, *potential.parents))
        given = f" | {' '.join(parents)}" if parents else ""
        lines += [f"potential ({child}{given})", "{", f"  data = {_data(potential, words)};", "}"]
    return "\n".join([*lines, ""])


def _node(variable: Variable, word: str) -> list[str]:
    label = [f"  label = {_quoted(variable.name, 'the name')};"] if word != variable.name else []
    if isinstance(variable, Continuous):
        if word != variable.name:
            label += [f'  {key} = "{text}";' for key, text in kept(variable, (), word).items()]
        return [f"continuous node {word}", "{", *label, "}"]
    texts = _simple(plain_states(variable, "NET"))
    states = " ".join(_quoted(text, f"{variable.name!r}: the state") for text in texts)
    properties = [f'  {key} = "{text}";' for key, text in kept(variable, texts, word).items()]
    return [f"node {word}", "{", f"  states = ({states});", *label, *properties, "}"]


def _simple(texts: list[str]) -> list[str]:
    """Return states without spaces, parentheses, commas and signs beyond ASCII, at which pgmpy or pyAgrum stumble."""
    found: list[str] = []
    kept_texts = {text for text in texts if not _AWKWARD.search(text)}
    for text in texts:
        simple, number = _AWKWARD.sub("_", text), 2
        while simple != text and (simple in kept_texts or simple in found):
            simple, number = f"{_AWKWARD.sub('_', text)}_{number}", number + 1
        found.append(simple)
    return found


def _quoted(text: str, what: str) -> str:
    if '"' in text or not text.isprintable() or not text:
        raise FormatError(
            f"{what} {text!r} can't be written to NET: it is empty, or holds a quote or a character that can't be printed. "
            "Rename it (net.rename), or save the network as .hbn"
        )
    return f'"{text}"'


def _data(potential: Potential, words: dict[str, str]) -> str:
    table, regression = potential.probabilities(), potential.regression()
    if table is not None:
        return _nested(table.tolist())
    if regression is None:
        raise FormatError(f"{potential!r} is neither a table nor linear Gaussian")
    names = [words[parent.name] for parent in potential.parents if isinstance(parent, Continuous)]
    sizes = [len(parent) for parent in potential.parents if isinstance(parent, Discrete)]
    texts = np.empty(sizes, dtype=object)
    for cell in np.ndindex(*sizes):
        mean = repr(float(regression.intercept[cell]))
        for slope, name in zip(regression.coefficients[cell].tolist(), names, strict=True):
            mean += f" {'-' if slope < 0 else '+'} {abs(slope)!r} * {name}"
        texts[cell] = f"normal({mean}, {float(regression.variance[cell])!r})"
    return _nested(texts.tolist() if sizes else [texts.item()])


def _nested(rows: object) -> str:
    """Write nested lists with parentheses."""
    if not isinstance(rows, list):
        return rows if isinstance(rows, str) else repr(rows)
    if rows and isinstance(rows[0], list):
        return "(" + "\n   ".join(map(_nested, rows)) + ")"
    return "(" + " ".join(map(_nested, rows)) + ")"
