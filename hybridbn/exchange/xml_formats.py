"""Networks in XML formats: XMLBIF (version 0.3), which Weka, JavaBayes, GeNIe, pgmpy and pyAgrum read, and XDSL, of
GeNIe and SMILE, with tables, and equation nodes as far as they are linear Gaussian.

In ``TABLE`` and ``probabilities`` the states of the child run fastest, then those of the last parent. pyAgrum (3.3.1)
lists the parents of XDSL in the same order but lets the first run fastest; its files are recognized by their extension
block and read accordingly. Types of states and the cuts of discretized numbers are kept as properties, which other
programs skip.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn
from xml.sax.saxutils import escape, quoteattr

import networkx as nx
import numpy as np

from hybridbn.errors import NetworkError, warn_user
from hybridbn.exchange import register_format
from hybridbn.exchange.discrete_networks import (
    Bins,
    LinearValue,
    build_network,
    check_text,
    collect_tables,
    convert_potentials,
    describe_fault,
    encode_properties,
    format_normals,
    format_states,
    make_regression,
    make_words,
    name_nodes,
    restore_name,
    restore_variable,
    table_or_regression,
    write_text,
)
from hybridbn.exchange.parsing import Element, RowNormalizer, Tokens, check_scope, parse_xml, reverse_parents
from hybridbn.network import Network
from hybridbn.potentials import LinearGaussian, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.tables.formats.files import read_network_bytes
from hybridbn.variables import Continuous, Discrete, Values, Variable

# -- XMLBIF -----------------------------------------------------------------------------------------------------------


def read_xmlbif(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None) -> Network:
    """Read a network from an XMLBIF file.

    Parameters and errors are those of `hybridbn.exchange.bif.read_bif`; the default encoding is the one that
    the file declares.
    """
    return parse_xmlbif(read_network_bytes(path), normalize=normalize, source=str(path), encoding=encoding)


def parse_xmlbif(
    data: bytes, *, normalize: bool = True, source: str = "<text>", encoding: str | None = None
) -> Network:
    """Make a network from the bytes of an XMLBIF file; see `read_xmlbif`.

    Examples
    --------
    >>> parse_xmlbif(b'''<BIF VERSION="0.3"><NETWORK>
    ...   <VARIABLE TYPE="nature"><NAME>c</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
    ...   <DEFINITION><FOR>c</FOR><TABLE>0.25 0.75</TABLE></DEFINITION></NETWORK></BIF>''').potential("c").table
    array([0.25, 0.75])
    """
    root = parse_xml(data, source, encoding)
    network = root.first("network") if root.tag.lower() == "bif" else None
    if network is None:
        root.fail(f"expected <BIF> with a <NETWORK> inside, found <{root.tag[:40]}>")
    variables: dict[str, Discrete] = {}
    for element in network.all("variable"):
        name = element.need("name", "a variable without a name").text
        if name in variables:
            element.fail(f"a second variable named {name[:60]!r}")
        kind = element.attributes.get("TYPE", "nature")
        if kind != "nature":
            element.fail(f"{name[:60]!r} is of the type {kind[:20]!r}; only chance nodes (nature) can be read")
        states = [outcome.text for outcome in element.all("outcome", "value")]
        properties = [p.text.partition("=") for p in element.all("property")]
        stripped = {key.strip(): text.strip() for key, _, text in properties}
        variables[name] = restore_variable(name, states, stripped, element.fail)
    rows = RowNormalizer(source, normalize)
    potentials: dict[str, Potential] = {}
    for element in network.all("definition", "probability"):
        owners = [child.text for child in element.all("for")]
        if len(owners) != 1:
            element.fail(f"a definition for {len(owners)} variables; expected one <FOR>")
        owner, *parents = scope = [*owners, *(child.text for child in element.all("given"))]
        check_scope(scope, variables, potentials, "definition", element.fail)
        table = element.need("table", f"the definition of {owner!r} has no <TABLE>")
        sizes = [len(variables[name]) for name in (*parents, owner)]
        potentials[owner] = Multinomial(
            variables[owner],
            parents=[variables[parent] for parent in parents],
            table=rows.parse_table(table.text, sizes, owner, table.fail_at),
        )
    return build_network(potentials, variables, rows)


def format_xmlbif(network: Network, *, bins: Bins | None = None) -> str:
    """Return a discrete network as the text of an XMLBIF file, every number as it is.

    Parameters and errors are those of `hybridbn.exchange.bif.format_bif`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=(1, 2)), table=[0.25, 0.75])])
    >>> parse_xmlbif(format_xmlbif(net).encode()).variable("c").states
    (1, 2)
    """
    tables = collect_tables(network, bins, "XMLBIF")
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>", "<NAME>hybridbn</NAME>"]
    for variable in (table.child for table in tables):
        texts = [
            check_text(text, f"{variable.name!r}: the state", "to XMLBIF", "", trimmed=True)
            for text in format_states(variable, "XMLBIF")
        ]
        properties = encode_properties(variable, texts, variable.name)
        lines += [
            '<VARIABLE TYPE="nature">',
            f"  <NAME>{escape(check_text(variable.name, 'the name', 'to XMLBIF', '', trimmed=True))}</NAME>",
            *(f"  <OUTCOME>{escape(text)}</OUTCOME>" for text in texts),
            *(f"  <PROPERTY>{key} = {text}</PROPERTY>" for key, text in properties.items()),
            "</VARIABLE>",
        ]
    for table in tables:
        rows = table.table.reshape(-1, len(table.child)).tolist()
        lines += [
            "<DEFINITION>",
            f"  <FOR>{escape(table.child.name)}</FOR>",
            *(f"  <GIVEN>{escape(parent.name)}</GIVEN>" for parent in table.parents),
            "  <TABLE>",
            *("    " + " ".join(map(repr, row)) for row in rows),
            "  </TABLE>",
            "</DEFINITION>",
        ]
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""])


# -- XDSL -------------------------------------------------------------------------------------------------------------

_CONFIGURATIONS = 20_000
"""Equations whose discrete parents have more configurations are refused, because each configuration is evaluated."""
_DEEPEST = 20
"""Submodels that are nested deeper are refused."""


def read_xdsl(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None) -> Network:
    """Read a network from a file of GeNIe or SMILE.

    Chance nodes with tables and deterministic nodes become `Multinomial` potentials; equation nodes that are linear in
    their continuous parents with normal noise become `LinearGaussian`. Their bounds, which GeNIe uses to discretize,
    are not kept.

    Parameters and errors are those of `hybridbn.exchange.bif.read_bif`; the default encoding is the one that
    the file declares. Decisions, utilities, noisy nodes and other equations are refused.
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
    return _XdslReader(parse_xml(data, source, encoding), source, normalize).build()


class _XdslReader:
    def __init__(self, root: Element, source: str, normalize: bool) -> None:
        self.root, self.source = root, source
        self.rows = RowNormalizer(source, normalize)
        self.variables: dict[str, Variable] = {}
        self.labels: dict[str, list[str]] = {}
        self.backwards = any(
            genie.attributes.get("app", "").startswith("aGrUM")
            for extensions in root.all("extensions")
            for genie in extensions.all("genie")
        )

    def build(self) -> Network:
        """Read all nodes and make the network."""
        nodes = self.root.first("nodes") if self.root.tag.lower() == "smile" else None
        if nodes is None:
            self.root.fail(f"expected <smile> with <nodes> inside, found <{self.root.tag[:40]}>")
        elements: dict[str, Element] = {}
        for element in self._iterate_nodes(nodes, 0):
            name = element.attributes.get("id", "")
            if not name:
                element.fail("a node without an id")
            if name in elements:
                element.fail(f"a second node with the id {name[:60]!r}")
            elements[name] = element
            self.variables[name] = self._make_variable(name, element)
        if len({variable.name for variable in self.variables.values()}) < len(self.variables):
            nodes.fail("two nodes have the same name")
        potentials = {name: self._make_potential(name, element) for name, element in elements.items()}
        network = build_network(potentials, self.variables, self.rows)
        if self.backwards and any(len(potential.parents) > 1 for potential in potentials.values()):
            warn_user(
                f"{self.source}: the file was written by pyAgrum, whose tables list the parents backwards; it was"
                " read so",
            )
        return network

    def _iterate_nodes(self, nodes: Element, depth: int) -> Iterator[Element]:
        for element in nodes.children:
            tag = element.tag.lower()
            if tag == "submodel":
                if depth == _DEEPEST:
                    element.fail(f"more than {_DEEPEST} submodels inside each other")
                for inner in element.all("nodes"):
                    yield from self._iterate_nodes(inner, depth + 1)
                yield from (
                    inner for inner in element.children if inner.tag.lower() in ("cpt", "deterministic", "equation")
                )
            elif tag in ("cpt", "deterministic", "equation"):
                yield element
            else:
                name = element.attributes.get("id", "")
                element.fail(
                    f"{name[:60]!r} is a node of the kind <{element.tag[:40]}>; only <cpt>, <deterministic> and"
                    " <equation> can be read",
                )

    def _make_variable(self, name: str, element: Element) -> Variable:
        properties = {child.attributes.get("id", ""): child.text for child in element.all("property")}
        if element.tag.lower() == "equation":
            return Continuous(restore_name(name, properties))
        states = [state.attributes.get("id", "") for state in element.all("state")]
        if not states or "" in states:
            element.fail(f"{name!r} has {'a state without an id' if states else 'no states'}")
        self.labels[name] = states
        return restore_variable(name, states, properties, element.fail)

    # -- potentials ------------------------------------------------------------------------------------------------

    def _make_potential(self, name: str, element: Element) -> Potential:
        parent_names = element.first("parents")
        parents = parent_names.text.split() if parent_names is not None else []
        check_scope([name, *parents], self.variables, (), "definition", element.fail)
        child = self.variables[name]
        if isinstance(child, Continuous):
            return self._parse_equation(name, child, element, parents)
        discrete = [v for v in (self.variables[parent] for parent in parents) if isinstance(v, Discrete)]
        if len(discrete) < len(parents):
            other = next(parent for parent in parents if isinstance(self.variables[parent], Continuous))
            element.fail(f"{name!r} has states, but its parent {other!r} is continuous; such tables can't be read")
        sizes = [*map(len, discrete), len(child)]
        parse = self._parse_results if element.tag.lower() == "deterministic" else self._parse_table
        return Multinomial(child, parents=discrete, table=parse(name, element, sizes))

    def _parse_table(self, name: str, element: Element, sizes: list[int]) -> Values:
        probabilities = element.need("probabilities", f"{name!r} has no <probabilities>")
        return self.rows.parse_table(probabilities.text, sizes, name, probabilities.fail_at, reverse=self.backwards)

    def _parse_results(self, name: str, element: Element, sizes: list[int]) -> Values:
        states = element.first("resultingstates")
        words = states.text.split() if states is not None else []
        count = math.prod(sizes[:-1])
        if len(words) != count:
            element.fail(f"{len(words)} resulting states where {count} are wanted for {name!r}")
        codes = {label: code for code, label in enumerate(self.labels[name])}
        for word in words:
            if word not in codes:
                element.fail(f"{name!r} has no state {word[:40]!r}")
        table = np.equal.outer([codes[word] for word in words], np.arange(sizes[-1])).astype(np.float64)
        return (reverse_parents(table.ravel(), sizes) if self.backwards else table).reshape(sizes)

    def _parse_equation(self, name: str, child: Continuous, element: Element, parents: Sequence[str]) -> LinearGaussian:
        definition = element.need("definition", f"{name!r} has no <definition>")
        discrete = [parent for parent in parents if parent in self.labels]
        others = [parent for parent in parents if parent not in self.labels]
        sizes = [len(self.labels[parent]) for parent in discrete]
        if math.prod(sizes) > _CONFIGURATIONS:
            element.fail(f"the discrete parents of {name!r} have more than {_CONFIGURATIONS:,} configurations")
        values: dict[str, LinearValue] = {parent: LinearValue(0.0, {parent: 1.0}) for parent in others}
        normals = []
        try:
            rule = LinearRule(definition.text)
            if rule.name != name:
                raise ValueError(f"the equation defines {rule.name!r}")
            for cell in np.ndindex(*sizes):
                states = {
                    p: LinearValue(float(code), state=self.labels[p][code])
                    for p, code in zip(discrete, cell, strict=True)
                }
                normals.append(rule({**values, **states}))
                if not normals[-1].variance > 0:
                    raise NetworkError("the equation has no normal noise; deterministic equations can't be read")
            return make_regression(child, [self.variables[parent] for parent in parents], others, normals)
        except (ValueError, ArithmeticError, TypeError, RecursionError) as error:
            definition.fail(describe_fault(name, error))


_WORDS = (
    "If Switch Choose Normal Sqrt Abs Exp Ln Log Log10 Pow Power10 Min Max Sum Round Trunc Ceil Floor Sign And Or Not"
    " Xor Uniform Bernoulli Beta Binomial Triangular Gamma Poisson Lognormal Exponential Weibull TruncNormal Steps Sin"
    " Cos Tan Atan Asin Acos"
)
_FUNCTIONS = frozenset(_WORDS.split())
"""Names that mean something in the format, so nodes can't have them."""
_PER_ROW = 6
"""The picture has this number of nodes beside each other."""


def format_xdsl(network: Network, *, bins: Bins | None = None) -> str:
    """Return a network of tables and `LinearGaussian` potentials as the text of a file of GeNIe, every number as it is.

    A linear Gaussian node becomes an equation node, as ``x=Normal(1.0+2.0*y,Sqrt(0.5))``, with ``Choose`` over discrete
    parents. Names and states that are no identifiers are replaced by identifiers; GeNIe shows the names, and
    `read_xdsl` restores both. pyAgrum (3.3.1) misreads nodes with several parents, as it takes the first for the one
    that runs fastest, where GeNIe takes the last; a file says nothing of it, so none can be right for both. pyAgrum
    reads ``.bifxml`` files, with every number as it is. Parameters and errors are those of
    `hybridbn.exchange.bif.format_bif`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[-0.5], variance=2)])
    >>> print(format_xdsl(net).splitlines()[8].strip())
    <definition lower="-inf" upper="inf">y=Normal(1.0-0.5*x,Sqrt(2.0))</definition>
    """
    holds = "XDSL files hold tables and linear Gaussian equations"
    held: list[Multinomial | LinearGaussian] = convert_potentials(network, bins, "XDSL", table_or_regression, holds)
    # SMILE wants parents before their children; otherwise the order stays.
    position = {potential.child.name: number for number, potential in enumerate(held)}
    held = [held[position[name]] for name in nx.lexicographical_topological_sort(network, key=position.__getitem__)]
    words = name_nodes(held, _FUNCTIONS)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<smile version="1.0" id="hybridbn" numsamples="10000" discsamples="10000">',
        "  <nodes>",
    ]
    for potential in held:
        lines += (
            _format_table(potential, words)
            if isinstance(potential, Multinomial)
            else _format_equation(potential, words)
        )
    lines += ["  </nodes>", "  <extensions>", '    <genie version="1.0" app="hybridbn" name="hybridbn">']
    for number, potential in enumerate(held):
        left, top = 40 + 160 * (number % _PER_ROW), 40 + 100 * (number // _PER_ROW)
        lines += [
            f'      <node id="{words[potential.child.name]}">',
            f"        <name>{escape(check_text(potential.child.name, 'the name', 'to XDSL', ''))}</name>",
            '        <interior color="e5f6f7" />',
            '        <outline color="000080" />',
            '        <font color="000000" name="Arial" size="8" />',
            f"        <position>{left} {top} {left + 110} {top + 50}</position>",
            "      </node>",
        ]
    return "\n".join([*lines, "    </genie>", "  </extensions>", "</smile>", ""])


def _format_parents(potential: Potential, words: Mapping[str, str]) -> list[str]:
    names = " ".join(words[parent.name] for parent in potential.parents)
    return [f"      <parents>{names}</parents>"] if names else []


def _format_properties(properties: Mapping[str, str]) -> list[str]:
    return [f'      <property id="{key}">{escape(text)}</property>' for key, text in properties.items()]


def _format_table(potential: Multinomial, words: Mapping[str, str]) -> list[str]:
    child = potential.child
    format_states(child, "XDSL")
    states = list(make_words(child.states).values())
    return [
        f'    <cpt id="{words[child.name]}">',
        *_format_properties(encode_properties(child, states, words[child.name])),
        *(f"      <state id={quoteattr(state)} />" for state in states),
        *_format_parents(potential, words),
        f"      <probabilities>{' '.join(map(repr, potential.table.ravel().tolist()))}</probabilities>",
        "    </cpt>",
    ]


def _format_equation(regression: LinearGaussian, words: Mapping[str, str]) -> list[str]:
    word = words[regression.child.name]
    discrete = [words[parent.name] for parent in regression.parents if isinstance(parent, Discrete)]
    choices = _format_choices(discrete, format_normals(regression, words, "Normal({},Sqrt({!r}))")).replace(" ", "")
    return [
        f'    <equation id="{word}">',
        *_format_properties(encode_properties(regression.child, (), word)),
        *_format_parents(regression, words),
        f'      <definition lower="-inf" upper="inf">{word}={choices}</definition>',
        "    </equation>",
    ]


def _format_choices(discrete: Sequence[str], texts: Any) -> str:
    """Return one ``Choose`` for each discrete parent, inside each other."""
    if not discrete:
        return str(texts)
    return f"Choose({discrete[0]},{','.join(_format_choices(discrete[1:], text) for text in texts)})"


# -- linear Gaussian equations ----------------------------------------------------------------------------------------


_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r'|(?P<quoted>"[^"]*")|(?P<sign><>|==|[-+*/^(),=])|(?P<odd>\S))?'
)
_DEEPEST_EXPRESSION = 100
"""Expressions that are nested deeper are refused, before Python's own limit of recursion is reached."""
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "=": 0, "==": 0, "<>": 0, "^": 4}
_COMPUTED: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "abs": abs}


def _refuse_equation(position: int, reason: str) -> NoReturn:
    raise ValueError(reason)


class LinearRule:
    """A parsed equation; text that is none raises `ValueError`.

    Examples
    --------
    >>> rule = LinearRule("x = 2*y + Choose(c, 1, 5) + Normal(0, 3)")
    >>> rule.name, rule({"y": LinearValue(0.0, {"y": 1.0}), "c": LinearValue(1.0, state="high")})
    ('x', LinearValue(constant=5.0, slopes={'y': 2.0}, variance=9.0, square=None, state=None))
    """

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text, _refuse_equation, _TOKEN, "equation")
        self.name: str = self._tokens.take_kind("name", wanted="name = expression").text
        self._tokens.expect("=", after="after the name of an equation")
        self._tree = self._parse_expression(0, 0)
        self._tokens.take_kind("end", wanted="the end of the equation")

    # -- parsing ---------------------------------------------------------------------------------------------------

    def _parse_expression(self, precedence: int, depth: int) -> tuple[Any, ...]:
        if depth > _DEEPEST_EXPRESSION:
            raise ValueError(f"the equation is nested more than {_DEEPEST_EXPRESSION} times")
        left = self._parse_operand(depth)
        while _PRECEDENCE.get(self._tokens.now.text, -1) >= precedence:
            sign = self._tokens.take().text
            left = (sign, left, self._parse_expression(_PRECEDENCE[sign] + (sign != "^"), depth + 1))
        return left

    def _parse_operand(self, depth: int) -> tuple[Any, ...]:
        tokens = self._tokens
        if tokens.skip("("):
            inner = self._parse_expression(0, depth + 1)
            tokens.expect(")")
            return inner
        if tokens.now.text in ("-", "+"):
            minus = tokens.take().text == "-"
            inner = self._parse_expression(3, depth + 1)
            return ("*", ("number", -1.0), inner) if minus else inner
        kind, text, _ = tokens.take_kind("number", "quoted", "name", wanted="a number or a name")
        match kind:
            case "number":
                return ("number", float(text))
            case "quoted":
                return ("text", text[1:-1])
        return ("call", text.lower(), self._parse_arguments(depth)) if tokens.skip("(") else ("name", text)

    def _parse_arguments(self, depth: int) -> list[tuple[Any, ...]]:
        arguments: list[tuple[Any, ...]] = []
        while not self._tokens.skip(")"):
            if arguments:
                self._tokens.expect(",", ")")
            arguments.append(self._parse_expression(0, depth + 1))
        return arguments

    # -- evaluation ------------------------------------------------------------------------------------------------

    def __call__(self, values: Mapping[str, LinearValue]) -> LinearValue:
        """Return the value of the equation for given states of the discrete parents."""
        return _check_linear(_evaluate(self._tree, values))


def _evaluate(tree: tuple[Any, ...], values: Mapping[str, LinearValue]) -> LinearValue | str:
    match tree:
        case "number", number:
            return LinearValue(number)
        case "text", text:
            return str(text)
        case "name", name:
            if name not in values:
                raise ValueError(f"the equation mentions {name!r}, which is no parent")
            return values[name]
        case "call", name, arguments:
            return _call_function(name, arguments, values)
    kind, *parts = tree
    left, right = _evaluate(parts[0], values), _evaluate(parts[1], values)
    if kind in ("=", "==", "<>"):
        return LinearValue(float(_are_equal(left, right) != (kind == "<>")))
    return _combine(kind, _check_linear(left), _check_linear(right))


def _check_linear(value: LinearValue | str) -> LinearValue:
    if isinstance(value, str):
        raise ValueError(f"the text {value[:40]!r} where a number is wanted")
    return value


def _check_number(value: LinearValue | str, what: str) -> float:
    number = _check_linear(value)
    if not number.plain:
        raise ValueError(f"{what} must be a number for given states of the discrete parents")
    return number.constant


def _are_equal(left: LinearValue | str, right: LinearValue | str) -> bool:
    for value, text in ((left, right), (right, left)):
        if isinstance(text, str) and isinstance(value, LinearValue) and value.state is not None:
            return value.state == text
    return _check_number(left, "what is compared") == _check_number(right, "what is compared")


def _combine(sign: str, left: LinearValue, right: LinearValue) -> LinearValue:
    if sign in "+-":
        factor = 1.0 if sign == "+" else -1.0
        slopes = {
            name: left.slopes.get(name, 0.0) + factor * right.slopes.get(name, 0.0)
            for name in {**left.slopes, **right.slopes}
        }
        return LinearValue(left.constant + factor * right.constant, slopes, left.variance + right.variance)
    if sign == "*" and left.plain:
        left, right = right, left
    if not right.plain:
        raise ValueError("the equation is not linear in the continuous parents")
    if sign == "^":
        power = _check_number(left, "a base") ** right.constant
        if isinstance(power, complex):
            raise ValueError("a root of a negative number")
        return LinearValue(power)
    factor = right.constant if sign == "*" else 1.0 / right.constant
    slopes = {name: slope * factor for name, slope in left.slopes.items()}
    return LinearValue(left.constant * factor, slopes, left.variance * factor * factor)


def _call_function(name: str, arguments: list[tuple[Any, ...]], values: Mapping[str, LinearValue]) -> LinearValue | str:
    count = len(arguments)
    match name:
        case "normal" if count == 2:
            mean, deviation = (_check_linear(_evaluate(argument, values)) for argument in arguments)
            if not deviation.plain or deviation.constant < 0:
                raise ValueError("a standard deviation must be a number, and not negative")
            square = deviation.constant**2 if deviation.square is None else deviation.square
            return LinearValue(mean.constant, mean.slopes, mean.variance + square)
        case _ if name in _COMPUTED and count == 1:
            inner = _check_number(_evaluate(arguments[0], values), f"the argument of {name}")
            return LinearValue(float(_COMPUTED[name](inner)), square=inner if name == "sqrt" else None)
        case "choose" if count > 1:
            index = int(_check_number(_evaluate(arguments[0], values), "the first argument of Choose"))
            return _evaluate(arguments[1 + min(max(index, 0), count - 2)], values)
        case "if" if count == 3:
            condition = _check_number(_evaluate(arguments[0], values), "a condition")
            return _evaluate(arguments[1 if condition else 2], values)
        case "switch" if count > 2:
            return _choose_case(arguments, values)
    raise ValueError(f"the function {name!r} with {count} arguments; only linear Gaussian equations can be read")


def _choose_case(arguments: list[tuple[Any, ...]], values: Mapping[str, LinearValue]) -> LinearValue | str:
    """Return the value of ``Switch``: pairs of a case and its value, and maybe that of all other cases."""
    chosen, *rest = arguments
    value = _evaluate(chosen, values)
    for case, result in zip(rest[::2], rest[1::2], strict=False):
        if _are_equal(value, _evaluate(case, values)):
            return _evaluate(result, values)
    if len(rest) % 2:
        return _evaluate(rest[-1], values)
    raise ValueError("no case of Switch fits")


register_format((".xmlbif", ".bifxml", ".xml"), read_xmlbif, partial(write_text, format_xmlbif))
register_format((".xdsl",), read_xdsl, partial(write_text, format_xdsl))
