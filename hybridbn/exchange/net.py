"""Networks in Hugin's NET format: tables, and linear Gaussian nodes, which Hugin calls continuous.

::

    net { }
    node c { states = ("yes" "no"); }
    continuous node x { }
    potential (c) { data = (0.25 0.75); }
    potential (x | c y) { data = (normal(1 + 2 * y, 0.5) normal(0, 1)); }

In ``data`` the states of the child run fastest, then those of the last discrete parent. ``normal`` takes a mean that is
linear in the continuous parents, and a variance.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from hybridbn.errors import NetworkError
from hybridbn.exchange import register_format
from hybridbn.exchange.discrete_networks import (
    Bins,
    LinearValue,
    build_network,
    check_text,
    convert_potentials,
    encode_properties,
    find_free_word,
    format_normals,
    format_states,
    make_regression,
    name_nodes,
    restore_name,
    restore_variable,
    table_or_regression,
    write_text,
)
from hybridbn.exchange.parsing import (
    UNSIGNED,
    RowNormalizer,
    SourceText,
    Token,
    Tokens,
    check_scope,
    decode_source,
    read_source,
    remove_quotes,
)
from hybridbn.network import Network
from hybridbn.potentials import LinearGaussian, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Variable

_BETWEEN = r"(?:\s++|%[^\n]*+|//[^\n]*+|/\*[\s\S]*?\*/)*+"
_TOKEN = re.compile(
    rf"""{_BETWEEN}
    (?:(?P<quoted>"[^"]*+")
    |(?P<number>{UNSIGNED}(?![^\s(){{}}=;|"%,*+\-]))
    |(?P<sign>[(){{}}=;|,*+\-])
    |(?P<word>[^\s(){{}}=;|"%,*+]+)
    |(?P<odd>[\s\S]))?""",
    re.VERBOSE,
)
_NO_WORDS = r"[^;\"{}%/a-df-zA-DF-Z]*+"
_DATA = re.compile(rf"{_NO_WORDS}(?:(?:%|//)[^\n]*+{_NO_WORDS})*+(?=;)")
_DEEPEST = 60
"""Parentheses that are nested deeper are refused, before Python's own limit of recursion is reached."""


class _NetPotential(NamedTuple):
    """What stands in a file of a potential: the text of its table and where that starts, or normal distributions."""

    scope: list[str]
    at: int
    data: tuple[str, int] | list[LinearValue]


def read_net(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None) -> Network:
    """Read a network from a file of Hugin.

    Parameters and errors are those of `hybridbn.exchange.bif.read_bif`; by default, text that is not UTF-8 is
    read as Latin-1. Decisions, utilities and object-oriented networks are refused.
    """
    return _NetParser(read_source(path, encoding), normalize).parse()


def parse_net(text: str, *, normalize: bool = True, source: str = "<text>") -> Network:
    """Make a network from text; see `read_net`.

    Examples
    --------
    >>> net = parse_net("net {} node c { states = (yes no); } continuous node x { } "
    ...     "potential (c) { data = (0.25 0.75); } potential (x | c) { data = (normal(1, 4) normal(2, 9)); }")
    >>> net.potential("x").variance
    array([4., 9.])
    """
    return _NetParser(decode_source(text.encode(), source, None), normalize).parse()


class _NetParser:
    def __init__(self, source: SourceText, normalize: bool) -> None:
        self.source, self.tokens = source, Tokens(source.text, source.fail, _TOKEN)
        self.rows = RowNormalizer(source.name, normalize)
        self.variables: dict[str, Variable] = {}
        self.potentials: list[_NetPotential] = []

    # -- syntax ----------------------------------------------------------------------------------------------------

    def parse(self) -> Network:
        """Read the whole file."""
        self.tokens.expect("net", "class", after="at the beginning; is this a NET file?")
        self.take_attributes()
        while self.tokens.now.kind != "end":
            token = self.take_word("node, potential or the end of the file")
            match token.text:
                case "discrete" | "continuous":
                    self.tokens.expect("node", after=f"after {token.text!r}")
                    self.parse_node(token.text == "continuous")
                case "node":
                    self.parse_node(False)
                case "potential":
                    self.parse_potential(token.at)
                case "decision" | "utility" | "class" | "function" | "instance":
                    self.source.fail(token.at, f"a {token.text}; only networks of chance nodes can be read")
                case _:
                    self.source.fail(token.at, f"expected node or potential, found {token.text[:40]!r}")
        return self.build()

    def take_word(self, what: str) -> Token:
        return self.tokens.take_kind("word", "number", wanted=what)

    def take_attributes(self) -> tuple[list[str], dict[str, str]]:
        """Take a block, and return the states that it declares, and the texts of its other attributes."""
        states: list[str] = []
        attributes: dict[str, str] = {}
        self.tokens.expect("{")
        while not self.tokens.skip("}"):
            key = self.take_word("an attribute, or `}`").text
            self.tokens.expect("=", after=f"after {key[:40]!r}")
            if key == "states":
                states = self.tokens.take_states(self.take_state)
            else:
                attributes[key] = remove_quotes(self.tokens.take_value(key))
        return states, attributes

    def take_state(self) -> str:
        return remove_quotes(self.tokens.take_kind("quoted", "word", "number", wanted="a state, or `)`").text)

    def parse_node(self, continuous: bool) -> None:
        name = self.take_word("a node's name")
        if name.text in self.variables:
            self.source.fail(name.at, f"a second node named {name.text[:60]!r}")
        states, properties = self.take_attributes()
        if continuous:
            self.variables[name.text] = Continuous(restore_name(name.text, properties))
            return
        if not states:
            self.source.fail(name.at, f"{name.text!r} has no states")
        fail = partial(self.source.fail, name.at)
        self.variables[name.text] = restore_variable(name.text, states, properties, fail)

    def parse_potential(self, at: int) -> None:
        self.tokens.expect("(", after="after potential")
        scope = [self.take_word("a variable of a potential").text]
        bar = self.tokens.skip("|")
        while not self.tokens.skip(")"):
            if not bar:
                self.tokens.fail("`|` or `)`; only conditional distributions of one variable can be read,")
            scope.append(self.take_word("a parent, or `)`").text)
            self.tokens.skip(",")
        self.tokens.expect("{")
        data: tuple[str, int] | list[LinearValue] | None = None
        while not self.tokens.skip("}"):
            key = self.take_word("an attribute of the potential, or `}`")
            start = self.tokens.expect("=", after=f"after {key.text[:40]!r}").at + 1
            if key.text != "data":
                self.tokens.take_value(key.text)
                continue
            if data is not None:
                self.source.fail(key.at, "a second `data` in one potential")
            match = _DATA.match(self.source.text, start)
            if match is None:
                data = self.parse_normals(0)
            else:
                data = match[0], start
                self.tokens.jump(match.end())
            self.tokens.expect(";", after="after the data")
        if data is None:
            self.source.fail(at, f"the potential of {scope[0][:60]!r} has no `data`")
        self.potentials.append(_NetPotential(scope, at, data))

    def parse_normals(self, depth: int) -> list[LinearValue]:
        """Take normal distributions, nested in parentheses to any depth."""
        if depth > _DEEPEST:
            self.source.fail(self.tokens.now.at, f"more than {_DEEPEST} parentheses inside each other")
        normals: list[LinearValue] = []
        if self.tokens.skip("("):
            while not self.tokens.skip(")"):
                normals += self.parse_normals(depth + 1)
                self.tokens.skip(",")
            return normals
        self.tokens.expect("normal", "(", after="in the data")
        at = self.tokens.expect("(", after="after normal").at
        mean, slopes = self.parse_linear()
        self.tokens.expect(",", after="between mean and variance")
        variance, others = self.parse_linear()
        self.tokens.expect(")", after="after the variance")
        if others:
            self.source.fail(at, "a variance that depends on a variable; it must be a number")
        return [LinearValue(mean, slopes, variance)]

    def parse_linear(self) -> tuple[float, dict[str, float]]:
        """Take a sum of terms, and return the constant and the slopes of the variables."""
        slopes: dict[str, float] = {}
        while True:
            size, name = -1.0 if self.tokens.now.text == "-" else 1.0, ""
            self.tokens.skip("+", "-")
            for _ in range(2):
                if self.tokens.now.kind == "number":
                    size *= float(self.tokens.take().text)
                elif self.tokens.now.kind == "word" and not name:
                    name = self.tokens.take().text
                else:
                    self.tokens.fail("a number or a continuous parent")
                if not self.tokens.skip("*"):
                    break
            slopes[name] = slopes.get(name, 0.0) + size
            if self.tokens.now.text not in ("+", "-"):
                return slopes.pop("", 0.0), slopes

    # -- meaning ---------------------------------------------------------------------------------------------------

    def build(self) -> Network:
        if len({variable.name for variable in self.variables.values()}) < len(self.variables):
            self.source.fail(0, "two nodes have the same name")
        potentials: dict[str, Potential] = {}
        for potential in self.potentials:
            fail = partial(self.source.fail, potential.at)
            check_scope(potential.scope, self.variables, potentials, "potential", fail)
            child, *parents = (self.variables[name] for name in potential.scope)
            potentials[potential.scope[0]] = self.make_potential(potential, child, parents)
        return build_network(potentials, self.variables, self.rows)

    def make_potential(self, potential: _NetPotential, child: Variable, parents: Sequence[Variable]) -> Potential:
        discrete = [v for v in parents if isinstance(v, Discrete)]
        sizes = [len(v) for v in discrete]
        if isinstance(child, Continuous):
            return self.make_gaussian(potential, child, parents, sizes)
        if len(discrete) < len(parents) or isinstance(potential.data, list):
            other = "continuous parents" if len(discrete) < len(parents) else "normal distributions"
            self.source.fail(potential.at, f"{child.name!r} is discrete, but has {other}")
        sizes.append(len(child))
        text, start = potential.data
        # Comments become spaces, so that the positions of numbers stay.
        plain = re.sub(r"%[^\n]*|//[^\n]*", lambda comment: " " * len(comment[0]), text)
        plain = plain.replace("(", " ").replace(")", " ")
        if text.count("(") != text.count(")"):
            self.source.fail(potential.at, f"the parentheses in the data of {child.name!r} don't match")
        table = self.rows.parse_table(plain, sizes, child.name, partial(self.source.fail_at, start))
        return Multinomial(child, parents=discrete, table=table)

    def make_gaussian(
        self, potential: _NetPotential, child: Continuous, parents: Sequence[Variable], sizes: list[int]
    ) -> LinearGaussian:
        count = math.prod(sizes)
        normals = potential.data if isinstance(potential.data, list) else []
        names = [name for name in potential.scope[1:] if isinstance(self.variables[name], Continuous)]
        if len(normals) != count:
            self.source.fail(
                potential.at,
                f"{len(normals)} normal distributions where {count} are wanted for {child.name!r}",
            )
        for name in (name for normal in normals for name in normal.slopes if name not in names):
            self.source.fail(
                potential.at, f"the mean of {child.name!r} mentions {name[:60]!r}, no continuous parent of it"
            )
        try:
            return make_regression(child, parents, names, normals)
        except NetworkError as error:
            self.source.fail(potential.at, str(error))


_AWKWARD = re.compile(r"[ (),]|[^\x20-\x7e]")
_WORDS = (
    "net class node potential data states label position discrete continuous decision utility normal function instance"
    " name inputs outputs subtype state_values model_nodes samples_per_interval node_size experience fading title"
)
_KEYWORDS = frozenset(_WORDS.split())
"""Names that mean something in the format, so nodes can't have them."""


def format_net(network: Network, *, bins: Bins | None = None) -> str:
    """Return a network of tables and `LinearGaussian` potentials as the text of a file of Hugin, every number as it is.

    Names that are not plain words, and spaces, commas and parentheses in states, are replaced by what all programs
    read. The label of a node keeps its name, and `read_net` restores names and states. Parameters and errors are those
    of `hybridbn.exchange.bif.format_bif`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=1, coefficients=[-0.5], variance=2)])
    >>> print(format_net(net).partition("potential (y")[2].splitlines()[2])
      data = (normal(1.0 - 0.5 * x, 2.0));
    """
    holds = "NET files hold tables and linear Gaussian nodes"
    held: list[Multinomial | LinearGaussian] = convert_potentials(network, bins, "NET", table_or_regression, holds)
    words = name_nodes(held, _KEYWORDS)
    nodes = [line for potential in held for line in _format_node(potential.child, words[potential.child.name])]
    lines = ["net", "{", "}", *nodes]
    for potential in held:
        child, *parents = (words[v.name] for v in (potential.child, *potential.parents))
        given = f" | {' '.join(parents)}" if parents else ""
        lines += [f"potential ({child}{given})", "{", f"  data = {_format_data(potential, words)};", "}"]
    return "\n".join([*lines, ""])


def _format_node(variable: Variable, word: str) -> list[str]:
    texts = [] if isinstance(variable, Continuous) else _simplify_states(variable)
    properties = [f'  {key} = "{text}";' for key, text in encode_properties(variable, texts, word).items()]
    if word != variable.name:
        properties.insert(0, f'  label = "{check_text(variable.name, "the name", "to NET")}";')
    if isinstance(variable, Continuous):
        return [f"continuous node {word}", "{", *properties, "}"]
    states = " ".join(f'"{text}"' for text in texts)
    return [f"node {word}", "{", f"  states = ({states});", *properties, "}"]


def _simplify_states(variable: Discrete) -> list[str]:
    """Return states without spaces, parentheses, commas and non-ASCII signs, which pgmpy or pyAgrum misread."""
    texts = format_states(variable, "NET")
    used = {text for text in texts if not _AWKWARD.search(text)}
    words = [text if text in used else find_free_word(_AWKWARD.sub("_", text), used) for text in texts]
    return [check_text(word, f"{variable.name!r}: the state", "to NET") for word in words]


def _format_data(potential: Multinomial | LinearGaussian, words: dict[str, str]) -> str:
    if isinstance(potential, Multinomial):
        return _format_nested(potential.table.tolist())
    texts = format_normals(potential, words, "normal({}, {!r})")
    return _format_nested(texts if isinstance(texts, list) else [texts])


def _format_nested(rows: object) -> str:
    """Return nested lists as text in parentheses."""
    if not isinstance(rows, list):
        return rows if isinstance(rows, str) else repr(rows)
    between = "\n   " if rows and isinstance(rows[0], list) else " "
    return f"({between.join(map(_format_nested, rows))})"


register_format((".net",), read_net, partial(write_text, format_net))
