"""Networks in GeNIe's and SMILE's XDSL format: tables, and equation nodes as far as they are linear Gaussian.

In ``probabilities`` the states of the child run fastest, then those of the last parent. pyAgrum (3.3.1) lists the parents in the
same order but lets the first run fastest; its files are told by their extension block and read accordingly.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import unquote
from xml.sax.saxutils import escape, quoteattr

import networkx as nx
import numpy as np

from hybridbn.errors import FormatError, NetworkError
from hybridbn.formats.files import read_network_bytes, write_network_text
from hybridbn.formats.networks import register_format
from hybridbn.formats.networks.exchange import (
    binned,
    kept,
    labels,
    listed,
    network_of,
    plain_states,
    reserved,
    restored,
    table_of,
    told,
)
from hybridbn.formats.networks.xdsl_equations import Linear, Rule, State
from hybridbn.formats.networks.xml_tree import Element, parse_xml
from hybridbn.formats.parsing import Rows, numbers
from hybridbn.potentials.base import Potential, Regression
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["format_xdsl", "parse_xdsl", "read_xdsl", "write_xdsl"]

_CONFIGURATIONS = 20_000  # of the discrete parents of an equation
_DEEPEST = 20  # submodels inside each other


def read_xdsl(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None) -> Network:
    """Read a network from a file of GeNIe or SMILE.

    Chance nodes with tables and deterministic nodes become `Multinomial` potentials; equation nodes that are linear in their
    continuous parents with normal noise become `LinearGaussian`. Their bounds, which GeNIe uses to discretize, are not kept.

    Parameters
    ----------
    path : str or path
    normalize : bool, optional
        As in `hybridbn.formats.networks.bif.read_bif`.
    encoding : str, optional
        By default what the file declares.

    Raises
    ------
    FormatError
        Naming the file, the line and the reason: also for decisions, utilities, noisy nodes and other equations.
    """
    return parse_xdsl(read_network_bytes(path), normalize=normalize, source=str(path), encoding=encoding)


def parse_xdsl(data: bytes, *, normalize: bool = True, source: str = "<text>", encoding: str | None = None) -> Network:
    """Make a network from the bytes of an XDSL file; see `read_xdsl`.

    Examples
    --------
    >>> net = parse_xdsl(b'''<smile version="1.0"><nodes>
    ...   <cpt id="c"><state id="yes"/><state id="no"/><probabilities>0.25 0.75</probabilities></cpt>
    ...   <equation id="x"><parents>c</parents><definition>x=Normal(Choose(c,1,2),3)</definition></equation>
    ... </nodes></smile>''')
    >>> net.potential("x").intercept
    array([1., 2.])
    """
    return _Reader(parse_xml(data, source, encoding), source, normalize).network()


class _Reader:
    def __init__(self, root: Element, source: str, normalize: bool) -> None:
        self.root, self.source = root, source
        self.rows = Rows(source, normalize)
        self.variables: dict[str, Variable] = {}
        self.labels: dict[str, list[str]] = {}
        self.backwards = any(
            genie.attributes.get("app", "").startswith("aGrUM")
            for extensions in root.all("extensions")
            for genie in extensions.all("genie")
        )

    def fail(self, element: Element, reason: str) -> NoReturn:
        """Refuse the file, naming the line of an element."""
        raise FormatError(f"{self.source}, line {element.line}: {reason}")

    def network(self) -> Network:
        """Read all nodes and make the network."""
        nodes = self.root.first("nodes") if self.root.tag.lower() == "smile" else None
        if nodes is None:
            self.fail(self.root, f"expected <smile> with <nodes> inside, found <{self.root.tag[:40]}>")
        elements: dict[str, Element] = {}
        for element in self._flat(nodes, 0):
            name = element.attributes.get("id", "")
            if not name:
                self.fail(element, "a node without an id")
            if name in elements:
                self.fail(element, f"a second node with the id {name[:60]!r}")
            elements[name] = element
            self.variables[name] = self._variable(name, element)
        if len({variable.name for variable in self.variables.values()}) < len(self.variables):
            self.fail(nodes, "two nodes have the same name")
        potentials: dict[str, Potential] = {}
        for name, element in elements.items():
            potentials[self.variables[name].name] = self._potential(name, element)
        network = network_of(potentials, [variable.name for variable in self.variables.values()], self.source)
        self.rows.report(stacklevel=6)
        if self.backwards and any(len(potential.parents) > 1 for potential in potentials.values()):
            warnings.warn(
                f"{self.source}: the file was written by pyAgrum, whose tables list the parents backwards; it was read so",
                UserWarning,
                stacklevel=5,
            )
        return network

    def _flat(self, nodes: Element, depth: int) -> Iterator[Element]:
        for element in nodes.children:
            tag = element.tag.lower()
            if tag == "submodel":
                if depth == _DEEPEST:
                    self.fail(element, f"more than {_DEEPEST} submodels inside each other")
                for inner in element.all("nodes"):
                    yield from self._flat(inner, depth + 1)
                yield from (
                    inner for inner in element.children if inner.tag.lower() in ("cpt", "deterministic", "equation")
                )
            elif tag in ("cpt", "deterministic", "equation"):
                yield element
            else:
                name = element.attributes.get("id", "")
                self.fail(
                    element,
                    f"{name[:60]!r} is a node of the kind <{element.tag[:40]}>; only <cpt>, <deterministic> and <equation> can be read",
                )

    def _properties(self, element: Element) -> dict[str, str]:
        return {child.attributes.get("id", ""): child.text for child in element.all("property")}

    def _variable(self, name: str, element: Element) -> Variable:
        properties = self._properties(element)
        if element.tag.lower() == "equation":
            return Continuous(unquote(properties.get("hybridbn_name", "")) or name)
        states = [state.attributes.get("id", "") for state in element.all("state")]
        if not states or "" in states:
            self.fail(element, f"{name!r} has {'a state without an id' if states else 'no states'}")
        self.labels[name] = states
        try:
            return restored(name, states, properties)
        except ValueError as error:
            self.fail(element, told(name, error))

    # -- potentials ------------------------------------------------------------------------------------------------

    def _potential(self, name: str, element: Element) -> Potential:
        listed = element.first("parents")
        parents = listed.text.split() if listed is not None else []
        for parent in parents:
            if parent not in self.variables:
                self.fail(element, f"{name!r} has the parent {parent[:60]!r}, which is no node")
        if len({name, *parents}) <= len(parents):
            self.fail(element, f"{name!r} has a parent twice, or is its own")
        if element.tag.lower() == "equation":
            return self._gaussian(name, element, parents)
        child = self.variables[name]
        discrete = [v for v in (self.variables[parent] for parent in parents) if isinstance(v, Discrete)]
        if len(discrete) < len(parents) or not isinstance(child, Discrete):
            other = next(parent for parent in parents if isinstance(self.variables[parent], Continuous))
            self.fail(
                element, f"{name!r} has states, but its parent {other!r} is continuous; such tables can't be read"
            )
        sizes = [*map(len, discrete), len(child)]
        if element.tag.lower() == "deterministic":
            table = self._results(name, element, sizes)
        else:
            table = self._table(name, element, sizes)
        return Multinomial(child, parents=discrete, table=table)

    def _table(self, name: str, element: Element, sizes: list[int]) -> Values:
        listed = element.first("probabilities")
        if listed is None:
            self.fail(element, f"{name!r} has no <probabilities>")

        def fail(offset: int, reason: str) -> NoReturn:
            before = "".join(listed.parts).lstrip()[: max(offset, 0)]
            raise FormatError(f"{self.source}, line {listed.line + before.count(chr(10))}: {reason}")

        def refuse(reason: str) -> NoReturn:
            self.fail(listed, reason)

        values = self._forwards(numbers(listed.text, math.prod(sizes), fail, name), sizes)
        return self.rows.arranged(values, sizes, name, refuse)

    def _forwards(self, values: Values, sizes: list[int]) -> Values:
        if not self.backwards:
            return values
        shaped = values.reshape([*sizes[-2::-1], sizes[-1]])
        return shaped.transpose([*reversed(range(len(sizes) - 1)), len(sizes) - 1]).ravel()

    def _results(self, name: str, element: Element, sizes: list[int]) -> Values:
        listed = element.first("resultingstates")
        words = listed.text.split() if listed is not None else []
        count = math.prod(sizes[:-1])
        if len(words) != count:
            self.fail(element, f"{len(words)} resulting states where {count} are wanted for {name!r}")
        table = np.zeros((count, sizes[-1]))
        codes = {label: code for code, label in enumerate(self.labels[name])}
        for row, word in enumerate(words):
            if word not in codes:
                self.fail(element, f"{name!r} has no state {word[:40]!r}")
            table[row, codes[word]] = 1.0
        return self._forwards(table.ravel(), sizes).reshape(sizes)

    def _gaussian(self, name: str, element: Element, parents: Sequence[str]) -> LinearGaussian:
        definition = element.first("definition")
        if definition is None or not definition.text:
            self.fail(element, f"{name!r} has no <definition>")
        discrete = [parent for parent in parents if isinstance(self.variables[parent], Discrete)]
        others = [parent for parent in parents if parent not in discrete]
        sizes = [len(self.labels[parent]) for parent in discrete]
        if math.prod(sizes) > _CONFIGURATIONS:
            self.fail(element, f"the discrete parents of {name!r} have more than {_CONFIGURATIONS:,} configurations")
        values: dict[str, Linear | State] = {parent: Linear(0.0, {parent: 1.0}) for parent in others}
        intercept, variance = np.empty(sizes), np.empty(sizes)
        slopes = np.zeros([*sizes, len(others)])
        try:
            rule = Rule(definition.text)
            if rule.name != name:
                raise ValueError(f"the equation defines {rule.name!r}")
            for cell in np.ndindex(*sizes):
                states = {p: State(code, self.labels[p][code]) for p, code in zip(discrete, cell, strict=True)}
                found = rule({**values, **states})
                intercept[cell], variance[cell] = found.constant, found.variance
                for place, parent in enumerate(others):
                    slopes[(*cell, place)] = found.slopes.get(parent, 0.0)
            return _checked(self.variables, name, parents, intercept, slopes, variance)
        except (ValueError, ArithmeticError, TypeError, RecursionError) as error:
            self.fail(definition, told(name, error))


def _checked(
    variables: Mapping[str, Variable],
    name: str,
    parents: Sequence[str],
    intercept: Values,
    slopes: Values,
    variance: Values,
) -> LinearGaussian:
    child = variables[name]
    if not (variance > 0).all():
        raise NetworkError("the equation has no normal noise; deterministic equations can't be read")
    if not isinstance(child, Continuous):
        raise NetworkError("an equation defines it, but it has states")
    return LinearGaussian(
        child, parents=[variables[p] for p in parents], intercept=intercept, coefficients=slopes, variance=variance
    )


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


register_format((".xdsl",), read_xdsl, write_xdsl)
