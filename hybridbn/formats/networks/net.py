"""Networks in Hugin's NET format: tables, and linear Gaussian nodes, which Hugin calls continuous.

::

    net { }
    node c { states = ("yes" "no"); }
    continuous node x { }
    potential (c) { data = (0.25 0.75); }
    potential (x | c y) { data = (normal(1 + 2 * y, 0.5) normal(0, 1)); }

In ``data`` the states of the child run fastest, then those of the last discrete parent. ``normal`` takes a mean that is linear
in the continuous parents, and a variance.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, NoReturn
from urllib.parse import unquote

import numpy as np

from hybridbn.errors import FormatError, NetworkError
from hybridbn.formats.files import write_network_text
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
from hybridbn.formats.parsing import Rows, Source, Token, Tokens, decoded, numbers, read_source
from hybridbn.potentials.base import Potential
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["format_net", "parse_net", "read_net", "write_net"]

_BETWEEN = r"(?:\s++|%[^\n]*+|//[^\n]*+|/\*[\s\S]*?\*/)*+"
_TOKEN = re.compile(
    rf"""{_BETWEEN}
    (?:(?P<quoted>"[^"]*+")
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?(?![^\s(){{}}=;|"%,*+\-]))
    |(?P<sign>[(){{}}=;|,*+\-])
    |(?P<word>[^\s(){{}}=;|"%,*+]+)
    |(?P<odd>[\s\S]))?""",
    re.VERBOSE,
)
_NO_WORDS = r"[^;\"{}%/a-df-zA-DF-Z]*+"
_DATA = re.compile(rf"{_NO_WORDS}(?:(?:%|//)[^\n]*+{_NO_WORDS})*+(?=;)")
_DEEPEST = 60


@dataclass
class _Node:
    name: str
    at: int
    continuous: bool
    states: list[str] | None = None
    properties: dict[str, str] = field(default_factory=dict)


class _Normal(NamedTuple):
    mean: float
    slopes: dict[str, float]
    variance: float


class _Potential(NamedTuple):
    scope: list[str]
    at: int
    table: tuple[str, int] | None
    normals: list[_Normal]


def read_net(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None) -> Network:
    """Read a network from a file of Hugin.

    Parameters
    ----------
    path : str or path
    normalize : bool, optional
        As in `hybridbn.formats.networks.bif.read_bif`.
    encoding : str, optional
        By default UTF-8, or Latin-1 where the text is not UTF-8.

    Raises
    ------
    FormatError
        Naming the file, the line and the reason: also for decisions, utilities and object-oriented networks.
    """
    return _Parser(read_source(path, encoding), normalize).network()


def parse_net(text: str, *, normalize: bool = True, source: str = "<text>") -> Network:
    """Make a network from text; see `read_net`.

    Examples
    --------
    >>> net = parse_net("net {} node c { states = (yes no); } continuous node x { } "
    ...     "potential (c) { data = (0.25 0.75); } potential (x | c) { data = (normal(1, 4) normal(2, 9)); }")
    >>> net.potential("x").variance
    array([4., 9.])
    """
    return _Parser(decoded(text.encode(), source, None), normalize).network()


class _Parser:
    def __init__(self, source: Source, normalize: bool) -> None:
        self.source, self.tokens = source, Tokens(source, _TOKEN)
        self.rows = Rows(source.name, normalize)
        self.nodes: dict[str, _Node] = {}
        self.potentials: list[_Potential] = []

    # -- syntax ----------------------------------------------------------------------------------------------------

    def network(self) -> Network:
        """Read the whole file."""
        self.tokens.expect("net", "class", after="at the beginning; is this a NET file?")
        self.attributes()
        while self.tokens.now.kind != "end":
            token = self.word("node, potential or the end of the file")
            if token.text in ("discrete", "continuous"):
                self.tokens.expect("node", after=f"after {token.text!r}")
                self.node(token.text == "continuous")
            elif token.text == "node":
                self.node(False)
            elif token.text == "potential":
                self.potential(token.at)
            elif token.text in ("decision", "utility", "class", "function", "instance"):
                self.source.fail(token.at, f"a {token.text}; only networks of chance nodes can be read")
            else:
                self.source.fail(token.at, f"expected node or potential, found {token.text[:40]!r}")
        return self.assembled()

    def word(self, what: str) -> Token:
        if self.tokens.now.kind not in ("word", "number"):
            self.tokens.fail(what)
        return self.tokens.take()

    def attributes(self) -> dict[str, list[str]]:
        """Return the attributes of a block: for each, its words."""
        found: dict[str, list[str]] = {}
        self.tokens.expect("{")
        while not self.tokens.skip("}"):
            key = self.word("an attribute, or `}`")
            self.tokens.expect("=", after=f"after {key.text[:40]!r}")
            words: list[str] = []
            while not self.tokens.skip(";"):
                if self.tokens.now.kind == "end" or self.tokens.now.text in ("{", "}"):
                    self.tokens.fail(f"`;` after the value of {key.text[:40]!r}")
                token = self.tokens.take()
                if token.kind != "sign":
                    words.append(token.text[1:-1] if token.kind == "quoted" else token.text)
                elif token.text in "+-":
                    words.append(token.text)
            found[key.text] = words
        return found

    def node(self, continuous: bool) -> None:
        name = self.word("a node's name")
        if name.text in self.nodes:
            self.source.fail(name.at, f"a second node named {name.text[:60]!r}")
        attributes = self.attributes()
        node = _Node(name.text, name.at, continuous, attributes.get("states"))
        node.properties = {key: words[0] for key, words in attributes.items() if key.startswith("hybridbn_") and words}
        self.nodes[name.text] = node

    def potential(self, at: int) -> None:
        self.tokens.expect("(", after="after potential")
        scope = [self.word("a variable of a potential").text]
        bar = self.tokens.skip("|")
        while not self.tokens.skip(")"):
            if not bar:
                self.tokens.fail("`|` or `)`; only conditional distributions of one variable can be read,")
            scope.append(self.word("a parent, or `)`").text)
            self.tokens.skip(",")
        self.tokens.expect("{")
        table: tuple[str, int] | None = None
        normals: list[_Normal] = []
        found = False
        while not self.tokens.skip("}"):
            key = self.word("an attribute of the potential, or `}`")
            start = self.tokens.expect("=", after=f"after {key.text[:40]!r}").at + 1
            if key.text != "data":
                self.skipped(key)
                continue
            if found:
                self.source.fail(key.at, "a second `data` in one potential")
            found = True
            match = _DATA.match(self.source.text, start)
            if match is None:
                normals = self.normals(0)
                self.tokens.expect(";", after="after the data")
            else:
                table = match[0], start
                self.tokens.jump(match.end())
                self.tokens.expect(";", after="after the data")
        if not found:
            self.source.fail(at, f"the potential of {scope[0][:60]!r} has no `data`")
        self.potentials.append(_Potential(scope, at, table, normals))

    def skipped(self, key: Token) -> None:
        while not self.tokens.skip(";"):
            if self.tokens.now.kind == "end" or self.tokens.now.text in ("{", "}"):
                self.tokens.fail(f"`;` after the value of {key.text[:40]!r}")
            self.tokens.take()

    def normals(self, depth: int) -> list[_Normal]:
        """Return the normal distributions of a list, however it is nested."""
        if depth > _DEEPEST:
            self.source.fail(self.tokens.now.at, f"more than {_DEEPEST} parentheses inside each other")
        found: list[_Normal] = []
        if self.tokens.skip("("):
            while not self.tokens.skip(")"):
                found += self.normals(depth + 1)
                self.tokens.skip(",")
            return found
        self.tokens.expect("normal", "(", after="in the data")
        at = self.tokens.expect("(", after="after normal").at
        mean, slopes = self.linear()
        self.tokens.expect(",", after="between mean and variance")
        variance, others = self.linear()
        self.tokens.expect(")", after="after the variance")
        if others:
            self.source.fail(at, "a variance that depends on a variable; it must be a number")
        return [_Normal(mean, slopes, variance)]

    def linear(self) -> tuple[float, dict[str, float]]:
        constant, slopes, first = 0.0, dict[str, float](), True
        while first or self.tokens.now.text in ("+", "-"):
            sign = -1.0 if self.tokens.now.text == "-" else 1.0
            self.tokens.skip("+", "-")
            first = False
            size, name = sign, ""
            for _ in range(2):
                if self.tokens.now.kind == "number":
                    size *= float(self.tokens.take().text)
                elif self.tokens.now.kind == "word" and not name:
                    name = self.tokens.take().text
                else:
                    self.tokens.fail("a number or a continuous parent")
                if not self.tokens.skip("*"):
                    break
            if name:
                slopes[name] = slopes.get(name, 0.0) + size
            else:
                constant += size
        return constant, slopes

    # -- meaning ---------------------------------------------------------------------------------------------------

    def assembled(self) -> Network:
        variables: dict[str, Variable] = {}
        labels: dict[str, str] = {}
        for node in self.nodes.values():
            variables[node.name] = self.variable(node)
            labels[variables[node.name].name] = node.name
        if len(labels) < len(variables):
            self.source.fail(0, "two nodes have the same name")
        found: dict[str, Potential] = {}
        for potential in self.potentials:
            child = potential.scope[0]
            for name in potential.scope:
                if name not in variables:
                    self.source.fail(potential.at, f"a potential mentions {name[:60]!r}, which is no node")
            if len(set(potential.scope)) < len(potential.scope):
                self.source.fail(potential.at, f"the potential of {child!r} mentions a variable twice")
            if variables[child].name in found:
                self.source.fail(potential.at, f"a second potential for {child!r}")
            child_variable, *parents = (variables[name] for name in potential.scope)
            found[child_variable.name] = self.distribution(potential, child_variable, parents)
        network = network_of(found, [variable.name for variable in variables.values()], self.source.name)
        self.rows.report(stacklevel=5)
        return network

    def variable(self, node: _Node) -> Variable:
        if node.continuous:
            return Continuous(unquote(node.properties.get("hybridbn_name", "")) or node.name)
        if not node.states:
            self.source.fail(node.at, f"{node.name!r} has no states")
        try:
            return restored(node.name, node.states, node.properties)
        except ValueError as error:
            self.source.fail(node.at, told(node.name, error))

    def distribution(self, potential: _Potential, child: Variable, parents: Sequence[Variable]) -> Potential:
        discrete = [v for v in parents if isinstance(v, Discrete)]
        sizes = [len(v) for v in discrete]
        if isinstance(child, Continuous):
            return self.gaussian(potential, child, parents, sizes)
        if len(discrete) < len(parents) or potential.table is None:
            other = "continuous parents" if len(discrete) < len(parents) else "normal distributions"
            self.source.fail(potential.at, f"{child.name!r} is discrete, but has {other}")
        sizes.append(len(child))
        text, start = potential.table
        # Of the same length, so that places stay what they are.
        plain = re.sub(r"%[^\n]*|//[^\n]*", lambda comment: " " * len(comment[0]), text)
        plain = plain.replace("(", " ").replace(")", " ")

        def fail(offset: int, reason: str) -> NoReturn:
            self.source.fail(start + max(offset, 0), reason)

        def refuse(reason: str) -> NoReturn:
            self.source.fail(potential.at, reason)

        if text.count("(") != text.count(")"):
            refuse(f"the parentheses in the data of {child.name!r} don't match")
        values = numbers(plain, math.prod(sizes), fail, child.name)
        return Multinomial(child, parents=discrete, table=self.rows.arranged(values, sizes, child.name, refuse))

    def gaussian(
        self, potential: _Potential, child: Continuous, parents: Sequence[Variable], sizes: list[int]
    ) -> LinearGaussian:
        count = math.prod(sizes)
        names = {potential.scope[i + 1]: v for i, v in enumerate(parents) if isinstance(v, Continuous)}
        if len(potential.normals) != count:
            self.source.fail(
                potential.at,
                f"{len(potential.normals)} normal distributions where {count} are wanted for {child.name!r}",
            )
        slopes: Values = np.zeros((count, len(names)))
        for row, normal in enumerate(potential.normals):
            for name, slope in normal.slopes.items():
                if name not in names:
                    self.source.fail(
                        potential.at, f"the mean of {child.name!r} mentions {name[:60]!r}, no continuous parent of it"
                    )
                slopes[row, list(names).index(name)] = slope
        try:
            return LinearGaussian(
                child,
                parents=parents,
                intercept=np.array([normal.mean for normal in potential.normals]).reshape(sizes),
                coefficients=slopes.reshape([*sizes, len(names)]),
                variance=np.array([normal.variance for normal in potential.normals]).reshape(sizes),
            )
        except NetworkError as error:
            self.source.fail(potential.at, str(error))


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


register_format((".net",), read_net, write_net)
