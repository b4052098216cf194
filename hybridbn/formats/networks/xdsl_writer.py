"""Write networks of tables and linear Gaussian nodes in GeNIe's XDSL format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

import networkx as nx

from hybridbn.errors import FormatError
from hybridbn.formats.networks.tabular import binned, kept, labels, listed, plain_states, reserved, table_of
from hybridbn.formats.packing import write_network_text
from hybridbn.potentials.base import Potential, Regression
from hybridbn.variables import Continuous, Discrete

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["format_xdsl", "write_xdsl"]

_FUNCTIONS = reserved(
    "If Switch Choose Normal Sqrt Abs Exp Ln Log Log10 Pow Power10 Min Max Sum Round Trunc Ceil Floor Sign And Or Not Xor Uniform "
    "Bernoulli Beta Binomial Triangular Gamma Poisson Lognormal Exponential Weibull TruncNormal Steps Sin Cos Tan Atan Asin Acos"
)
_PER_ROW = 6  # nodes beside each other in the picture


def write_xdsl(network: Network, path: str | os.PathLike[str], *, bins: Bins | None = None) -> None:
    """Write a network of tables and `LinearGaussian` potentials to a file of GeNIe, every number as it is.

    A linear Gaussian node becomes an equation node, as ``x=Normal(1.0+2.0*y,Sqrt(0.5))``, with ``Choose`` over discrete
    parents. Names and states that are no identifiers are replaced by such; GeNIe shows the names, and `read_xdsl` restores
    both. pyAgrum (3.3.1) misreads nodes with several parents, as it takes the first for the one that runs fastest.

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
    write_network_text(path, format_xdsl(network, bins=bins))


def format_xdsl(network: Network, *, bins: Bins | None = None) -> str:
    """Return a network as XDSL; see `write_xdsl`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[-0.5], variance=2)])
    >>> print(format_xdsl(net).splitlines()[8].strip())
    <definition lower="-inf" upper="inf">y=Normal(1.0-0.5*x,Sqrt(2.0))</definition>
    """
    network = binned(network, bins, "XDSL")
    held: list[Potential] = []
    refused = []
    # SMILE wants parents before their children; otherwise the order stays.
    place = {node: number for number, node in enumerate(network)}
    for node in nx.lexicographical_topological_sort(network, key=place.__getitem__):
        potential = network.potential(node)
        found = table_of(potential) if potential.regression() is None else potential
        held += [] if found is None else [found]
        refused += [potential] if found is None else []
    if refused:
        raise FormatError(
            f"XDSL files hold tables and linear Gaussian equations, not the potentials of {listed(refused)}; save the network as "
            ".hbn, or cut the continuous variables with bins="
        )
    words = {str(name): word for name, word in labels([p.child.name for p in held], _FUNCTIONS, "n_").items()}
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines += ['<smile version="1.0" id="hybridbn" numsamples="10000" discsamples="10000">', "  <nodes>"]
    for potential in held:
        regression, child = potential.regression(), potential.child
        if regression is not None:
            lines += _equation(potential, regression, words)
        elif isinstance(child, Discrete):
            lines += _table(child, potential, words)
    lines += ["  </nodes>", "  <extensions>", '    <genie version="1.0" app="hybridbn" name="hybridbn">']
    for number, potential in enumerate(held):
        left, top = 40 + 160 * (number % _PER_ROW), 40 + 100 * (number // _PER_ROW)
        lines += [
            f'      <node id="{words[potential.child.name]}">', f"        <name>{_text(potential.child.name)}</name>",
            '        <interior color="e5f6f7" />', '        <outline color="000080" />',
            '        <font color="000000" name="Arial" size="8" />',
            f"        <position>{left} {top} {left + 110} {top + 50}</position>", "      </node>",
        ]  # fmt: skip
    return "\n".join([*lines, "    </genie>", "  </extensions>", "</smile>", ""])


def _text(name: str) -> str:
    if not name.isprintable():
        raise FormatError(
            f"the name {name!r} can't be written to XDSL: it holds a character that can't be printed. "
            "Rename it (net.rename), or save the network as .hbn"
        )
    return escape(name)


def _parents(potential: Potential, words: Mapping[str, str]) -> list[str]:
    names = " ".join(words[parent.name] for parent in potential.parents)
    return [f"      <parents>{names}</parents>"] if names else []


def _properties(properties: Mapping[str, str]) -> list[str]:
    return [f'      <property id="{key}">{escape(text)}</property>' for key, text in properties.items()]


def _table(child: Discrete, potential: Potential, words: Mapping[str, str]) -> list[str]:
    table = potential.probabilities()
    numbers = [] if table is None else table.ravel().tolist()
    plain_states(child, "XDSL")
    states = list(labels(child.states, (), "s").values())
    return [
        f'    <cpt id="{words[child.name]}">',
        *_properties(kept(child, states, words[child.name])),
        *(f"      <state id={quoteattr(state)} />" for state in states),
        *_parents(potential, words),
        f"      <probabilities>{' '.join(map(repr, numbers))}</probabilities>",
        "    </cpt>",
    ]


def _equation(potential: Potential, regression: Regression, words: Mapping[str, str]) -> list[str]:
    word = words[potential.child.name]
    discrete = [parent for parent in potential.parents if isinstance(parent, Discrete)]
    names = [words[parent.name] for parent in potential.parents if isinstance(parent, Continuous)]

    def normal(cell: tuple[int, ...]) -> str:
        mean = repr(float(regression.intercept[cell]))
        for slope, name in zip(regression.coefficients[cell].tolist(), names, strict=True):
            mean += f"{'-' if slope < 0 else '+'}{abs(slope)!r}*{name}"
        return f"Normal({mean},Sqrt({float(regression.variance[cell])!r}))"

    return [
        f'    <equation id="{word}">',
        *_properties(kept(potential.child, (), word)),
        *_parents(potential, words),
        f'      <definition lower="-inf" upper="inf">{word}={_chosen(discrete, words, normal, ())}</definition>',
        "    </equation>",
    ]


def _chosen(
    discrete: Sequence[Discrete],
    words: Mapping[str, str],
    normal: Callable[[tuple[int, ...]], str],
    cell: tuple[int, ...],
) -> str:
    """Write one ``Choose`` for each discrete parent, inside each other."""
    if len(cell) == len(discrete):
        return normal(cell)
    parent = discrete[len(cell)]
    inner = (_chosen(discrete, words, normal, (*cell, code)) for code in range(len(parent)))
    return f"Choose({words[parent.name]},{','.join(inner)})"
