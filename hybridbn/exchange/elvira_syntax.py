"""The grammar of Elvira's text formats: networks (``.elv``), and data bases (``.dbc``), which are tables.

The parts are returned as they are written, numbers as text, with positions for messages. The trees of a relation::

    tree    := case VARIABLE ( c0 , ... , cn ) { 0 = tree ... n-1 = tree }
             | case VARIABLE { state = tree ... }
             | density ;
    density := [sign] term (sign term)*
    term    := NUMBER | [NUMBER [*]] exp ( [sign] [NUMBER [*]] VARIABLE (sign [NUMBER [*]] VARIABLE)* )

Elvira's own parser takes a missing coefficient inside ``exp()`` for 2. Here it is an empty text. A data base declares
its variables, then it has one bracket of values for each case.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, ClassVar, NamedTuple, TypeAlias

import numpy as np

from hybridbn.errors import FormatError
from hybridbn.exchange.parsing import NUMBER, UNSIGNED, SourceText, Token, Tokens, decode_source, remove_quotes
from hybridbn.tables import Table
from hybridbn.tables.cells import Cells, check_numbers, label_codes
from hybridbn.tables.formats.base import FileFormat
from hybridbn.tables.formats.typed_columns import WantedColumns
from hybridbn.variables import shorten

ENDLESS = 1.7976931348623157e308
"""Infinity in files: the largest double, because Elvira reads no infinite number."""

_DEEPEST = 150
"""Cases that are nested deeper are refused, before Python's own limit of recursion is reached."""
_LONGEST = 400
"""Numbers with more characters are refused."""

_KEYWORDS = (
    "kind-of-node|type-of-variable|num-states|finite-states|kind-of-relation|continuous-tree|data-base|number-of-cases"
    "|name-of-relation|infinite-discrete|utility-combination"
)
_TOKEN = re.compile(
    rf"""(?:\s++|//[^\n]*+|/\*[\s\S]*?\*/)*+
    (?:(?P<quoted>"[^"]*+")
    |(?P<number>{UNSIGNED}(?:(?=exp\s*\()|(?![^\s+\-*/=,;|()\[\]{{}}"^])))
    |(?P<word>(?:{_KEYWORDS})(?![^\s+\-*/=,;|()\[\]{{}}"^])|[^\s+\-*/=,;|()\[\]{{}}"^]+)
    |(?P<sign>[-+*=,;|()\[\]{{}}^])
    |(?P<odd>[\s\S]))?""",
    re.VERBOSE,
)
_BRANCH = re.compile(rf"\s*([A-Za-z0-9_.]+)\s*=\s*(-?{UNSIGNED})\s*;", re.ASCII)
_NUMBERS = re.compile(r"[^()\[\]{};\"=]*")


class ElviraDensity(NamedTuple):
    """A sum of terms (coefficient, rates), coefficient and rates as text; a constant has no rates."""

    terms: list[tuple[str, dict[str, str]]]
    at: int


class ElviraCase(NamedTuple):
    """A branching: cells between `cuts` (as text), or states."""

    name: str
    cuts: list[str] | None
    branches: list[tuple[str, ElviraTree]]
    at: int


ElviraTree: TypeAlias = ElviraCase | ElviraDensity


@dataclass
class ElviraNode:
    """A node as declared: `states` is None for a continuous one."""

    name: str
    at: int
    continuous: bool = False
    states: list[str] | None = None
    properties: dict[str, str] = field(default_factory=dict)


class ElviraRelation(NamedTuple):
    """The names that a relation mentions, child first, and its values: a table's numbers, or a tree."""

    names: list[str]
    table: str | None
    tree: ElviraTree | None
    at: int


@dataclass
class ElviraSyntax:
    """A whole network as written."""

    nodes: dict[str, ElviraNode] = field(default_factory=dict)
    links: list[tuple[str, str, int]] = field(default_factory=list)
    relations: list[ElviraRelation] = field(default_factory=list)
    states: list[str] | None = None
    cases: str | None = None


class _ElviraParser:
    def __init__(self, source: SourceText) -> None:
        self.source, self.tokens = source, Tokens(source.text, source.fail, _TOKEN)

    # -- small parts -----------------------------------------------------------------------------------------------

    def take_name(self, what: str) -> Token:
        """Take a word, a number (as a name) or a quoted text."""
        token = self.tokens.take_kind("word", "quoted", "number", wanted=what)
        text = remove_quotes(token.text)
        if not text:
            self.source.fail(token.at, f"expected {what}, found an empty text")
        return Token(token.kind, text, token.at)

    def take_key(self, what: str) -> Token:
        """Take the name of a property, whose words may be joined by hyphens, and the sign before its value."""
        token = self.take_name(what)
        while self.tokens.skip("-"):
            token = token._replace(text=f"{token.text}-{self.take_name('a word after the hyphen').text}")
        self.tokens.expect("=", after=f"after {token.text!r}")
        return token

    def take_number(self, what: str, sign: str = "") -> str:
        token = self.tokens.take_kind("number", wanted=what)
        if len(token.text) > _LONGEST:
            self.source.fail(token.at, f"a number of {len(token.text)} characters")
        return sign + token.text

    def take_states(self) -> list[str]:
        return self.tokens.take_states(lambda: self.take_name("a state, or `)`").text)

    # -- blocks ----------------------------------------------------------------------------------------------------

    def take_opening(self, word: str) -> None:
        self.tokens.expect(word, after="at the beginning (is this a file of Elvira?)")
        if self.tokens.now.kind in ("word", "quoted", "number"):
            self.tokens.take()
        self.tokens.expect("{")

    def parse_network(self) -> ElviraSyntax:
        syntax = ElviraSyntax()
        self.take_opening("bnet")
        while not self.tokens.skip("}"):
            token = self.tokens.take_kind("word", wanted="node, link, relation, a property or `}`")
            match token.text:
                case "node":
                    self.parse_node(syntax)
                case "link":
                    self.parse_link(syntax)
                case "relation":
                    syntax.relations += self.parse_relation(token.at)
                case _:
                    self.parse_property(token, syntax)
        self.tokens.take_kind("end", wanted="the end of the file after the network")
        return syntax

    def parse_property(self, token: Token, syntax: ElviraSyntax) -> None:
        words = [token.text]
        while self.tokens.now.kind == "word" or self.tokens.now.text == "-":
            words.append(self.tokens.take().text)
        self.tokens.expect("=", after=f"after {' '.join(words)!r}")
        match words:
            case ["default", "node", "states"]:
                syntax.states = self.take_states()
            case ["number-of-cases"]:
                syntax.cases = self.tokens.take_value(words[0])
            case _:
                self.tokens.take_value(words[0])

    def parse_node(self, syntax: ElviraSyntax) -> None:
        name = self.take_name("a node's name")
        node = ElviraNode(name.text, name.at)
        if self.tokens.skip("("):
            node.continuous = self.check_type(self.take_name("a type"))
            self.tokens.expect(")")
        self.tokens.expect("{", after=f"after the name of the node {name.text!r}")
        while not self.tokens.skip("}"):
            key = self.take_key("a property of the node, or `}`")
            if key.text == "states":
                node.states = self.take_states()
                continue
            value = self.tokens.take_value(key.text)
            node.properties[key.text] = value
            if key.text == "type-of-variable":
                node.continuous = self.check_type(Token("word", value, key.at))
        if node.name in syntax.nodes:
            self.source.fail(node.at, f"a second node named {node.name!r}")
        syntax.nodes[node.name] = node

    def check_type(self, token: Token) -> bool:
        if token.text not in ("continuous", "finite-states"):
            self.source.fail(token.at, f"a variable is continuous or finite-states here, not {token.text[:40]!r}")
        return token.text == "continuous"

    def parse_link(self, syntax: ElviraSyntax) -> None:
        parent, child = self.take_name("a link's parent"), self.take_name("a link's child")
        if self.tokens.now.text != "{":
            self.tokens.expect(";", after="after a link")
        else:
            self.skip_body()
            self.tokens.skip(";")
        syntax.links.append((parent.text, child.text, parent.at))

    def skip_body(self) -> None:
        """Skip a block in braces, whose content is not used."""
        depth = 0
        while True:
            if self.tokens.now.kind == "end":
                self.tokens.fail("`}`")
            depth += {"{": 1, "}": -1}.get(self.tokens.take().text, 0)
            if not depth:
                return

    def parse_relation(self, at: int) -> list[ElviraRelation]:
        names: list[str] = []
        while not self.tokens.skip("{"):
            names.append(self.take_name("a name, or `{`").text)
        active, table, tree = True, None, None
        while not self.tokens.skip("}"):
            key = self.take_key("a property of the relation, or `}`")
            if key.text != "values":
                value = self.tokens.take_value(key.text)
                active = active and (key.text, value) != ("active", "false")
                if key.text == "kind-of-relation" and value not in ("potential", "conditional-prob"):
                    self.source.fail(
                        key.at, f"a relation of the kind {value[:40]!r}; only conditional distributions can be read"
                    )
                continue
            if table is not None or tree is not None:
                self.source.fail(key.at, "a second `values` in one relation")
            form = self.take_name("table, tree or continuous-tree")
            if form.text not in ("table", "tree", "continuous-tree"):
                self.source.fail(
                    form.at, f"values of the form {form.text[:40]!r}; only table, tree and continuous-tree can be read"
                )
            self.tokens.expect("(")
            if form.text == "table":
                table = self.take_table()
            else:
                tree = self.parse_tree(0)
                self.tokens.expect(")", after="after the values")
            self.tokens.expect(";", after="after the values")
        return [ElviraRelation(names, table, tree, at)] if active else []

    def take_table(self) -> str:
        match = _NUMBERS.match(self.source.text, self.tokens.now.at)
        end = self.tokens.now.at if match is None else match.end()
        text = self.source.text[self.tokens.now.at : end]
        if "/" in text:  # comments among the numbers
            text = re.sub(r"//[^\n]*|/\*[\s\S]*?\*/", lambda comment: "\n" * comment[0].count("\n") or " ", text)
        self.tokens.jump(end)
        self.tokens.expect(")", after="after the numbers of a table")
        return text

    # -- trees -----------------------------------------------------------------------------------------------------

    def parse_tree(self, depth: int) -> ElviraTree:
        if self.tokens.now.text != "case":
            return self.parse_density()
        at = self.tokens.take().at
        if depth == _DEEPEST:
            self.source.fail(at, f"more than {_DEEPEST} cases inside each other")
        name = self.take_name("a variable after `case`").text
        cuts: list[str] | None = None
        if self.tokens.skip("("):
            cuts = [self.take_number("a cut point", self.take_sign())]
            while self.tokens.skip(","):
                cuts.append(self.take_number("a cut point", self.take_sign()))
            self.tokens.expect(")", ",")
        self.tokens.expect("{", after="after the variable of a case")
        branches: list[tuple[str, ElviraTree]] = []
        text, start = self.source.text, self.tokens.now.at
        while plain := _BRANCH.match(text, start):  # most branches are one number
            if len(plain[2]) > _LONGEST:
                break
            branches.append((plain[1], ElviraDensity([(plain[2], {})], plain.start(2))))
            start = plain.end()
        self.tokens.jump(start)
        while not self.tokens.skip("}"):
            label = self.take_name("a branch, or `}`").text
            self.tokens.expect("=", after="after the name of a branch")
            branches.append((label, self.parse_tree(depth + 1)))
        self.tokens.skip(";")
        return ElviraCase(name, cuts, branches, at)

    def take_sign(self) -> str:
        """Take the signs before a number or a variable, and return a minus or nothing."""
        minus = False
        while self.tokens.now.text in ("-", "+"):
            minus ^= self.tokens.take().text == "-"
        return "-" if minus else ""

    def parse_density(self) -> ElviraDensity:
        at = self.tokens.now.at
        terms = [self.parse_term(self.take_sign())]
        while not self.tokens.skip(";"):
            if self.tokens.now.text not in ("+", "-"):
                self.tokens.expect("+", "-", ";", after="in a density")
            terms.append(self.parse_term(self.take_sign()))
        return ElviraDensity(terms, at)

    def parse_term(self, sign: str) -> tuple[str, dict[str, str]]:
        coefficient = f"{sign}1"
        if self.tokens.now.kind == "number":
            coefficient = self.take_number("a number", sign)
            if not self.tokens.skip("*") and self.tokens.now.text not in ("exp", "gauss"):
                return coefficient, {}
        if self.tokens.now.text == "gauss":
            self.source.fail(self.tokens.now.at, "a term gauss( ... ); only sums of exponentials (MTE) can be read")
        if self.tokens.now.text != "exp":
            self.tokens.fail("a number or exp( ... )")
        self.tokens.take()
        self.tokens.expect("(", after="after exp")
        rates: dict[str, str] = {}
        while not (rates and self.tokens.skip(")")):
            self.parse_rate(rates)
        return coefficient, rates

    def parse_rate(self, rates: dict[str, str]) -> None:
        if rates and self.tokens.now.text not in ("+", "-"):
            self.tokens.fail("`+`, `-` or `)` in an exponent")
        sign, size = self.take_sign(), ""
        if self.tokens.now.kind == "number":
            size = self.take_number("a number")
            if not self.tokens.skip("*") and self.tokens.now.text == ")":
                self.tokens.fail("a variable after the number in an exponent, where no constant may stand")
        variable = self.take_name("a variable in an exponent")
        if self.tokens.now.text in ("*", "^") or self.tokens.now.kind in ("word", "quoted", "number"):
            self.tokens.fail("a linear exponent; squares and products of variables are not those of an MTE;")
        if variable.text in rates:
            self.source.fail(variable.at, f"{variable.text!r} occurs twice in an exponent")
        # Without a number, the text holds the sign only.
        rates[variable.text] = sign + size


def parse_syntax(source: SourceText) -> ElviraSyntax:
    """Return the parts of a network, as they are written."""
    return _ElviraParser(source).parse_network()


def parse_head(source: SourceText) -> tuple[ElviraSyntax, int]:
    """Return the nodes of a data base, and the position where its cases begin."""
    parser, syntax = _ElviraParser(source), ElviraSyntax()
    parser.take_opening("data-base")
    while (token := parser.tokens.take_kind("word", wanted="node, relation or a property")).text != "relation":
        if token.text == "node":
            parser.parse_node(syntax)
        else:
            parser.parse_property(token, syntax)
    while not parser.tokens.skip("{"):
        parser.take_name("`{` after relation")
    while (key := parser.take_key("a property of the relation, or cases")).text != "cases":
        parser.tokens.take_value(key.text)
    return syntax, parser.tokens.expect("(", after="before the cases").at + 1


_ROW = re.compile(r"\s*\[([^\[\]]*)\]\s*,?")
_CELL = re.compile(r'"[^"]*"|[^,\s]+')


class ElviraCases(FileFormat):
    """Elvira's data bases, which are only read: Elvira reads comma-separated files, too."""

    title = "Elvira's data bases"
    position = 6
    suffixes: ClassVar[tuple[str, ...]] = (".dbc",)
    packable = True
    text = True
    unwritable = "tables are not written as .dbc; write .csv, which Elvira imports, or .arff"

    def read(self, file: Path | IO[bytes], wanted: WantedColumns, suffix: str, *, encoding: str | None = None) -> Table:
        """Read a data base; ``?`` is a missing value, and the values of discrete variables are states or their
        indices.
        """
        raw = file.read_bytes() if isinstance(file, Path) else file.read()
        text = decode_source(raw, str(file) if isinstance(file, Path) else "<dbc>", encoding)
        syntax, start = parse_head(text)
        nodes = list(syntax.nodes.values())
        if not nodes:
            raise FormatError(f"{text.name}: no node is declared")
        rows, starts = _parse_cases(text, start, len(nodes))
        if syntax.cases is not None and syntax.cases != str(len(rows)):
            raise FormatError(
                f"{text.name}: {syntax.cases[:20]} cases are announced (number-of-cases), but there are {len(rows)}; is"
                " the file complete?"
            )
        names = wanted.names([node.name for node in nodes])
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(nodes)
        cells = {
            node.name: _read_column(node, column, text, starts, wanted, syntax.states)
            for node, column in zip(nodes, columns, strict=True)
            if node.name in names
        }
        return Table.from_cells({name: cells[name] for name in names})


def _read_column(
    node: ElviraNode,
    column: tuple[str, ...],
    text: SourceText,
    starts: list[int],
    wanted: WantedColumns,
    default: list[str] | None,
) -> Cells:
    kind, other = ("continuous", "discrete") if node.continuous else ("finite-states", "continuous")
    if wanted.kind(node.name) == other:
        raise FormatError(f"{text.name}: {node.name!r} is declared {kind}; it can't be read as {other}")
    known: dict[str, float] = {}
    if node.continuous:
        known |= {cell: float(cell) for cell in set(column) if NUMBER.fullmatch(cell)}
        fault = "is not a number; write ? for a missing value"
    else:
        from hybridbn.exchange.elvira import discrete_of  # which imports all potentials

        states = discrete_of(node, text, default).states
        known |= {str(code): code for code in range(len(states))}
        known |= {remove_quotes(label): code for code, label in enumerate(node.states or default or ())}
        fault = f"is no state; its states are {shorten(node.states or default or ())}"
    known["?"] = np.nan if node.continuous else -1
    for row, cell in enumerate(column):
        if cell not in known or math.isinf(known[cell]):
            beyond = "is beyond the range of numbers" if cell in known else fault
            text.fail(starts[row], f"{node.name!r}: {cell[:40]!r} {beyond}")
    values = np.array([known[cell] for cell in column])
    if node.continuous:
        return check_numbers(node.name, values)
    return label_codes(node.name, values.astype(np.intp), list(states), declared=True)


def _parse_cases(text: SourceText, start: int, width: int) -> tuple[list[list[str]], list[int]]:
    """Return the cells of each case, and where it starts."""
    rows: list[list[str]] = []
    starts: list[int] = []
    position = start
    while match := _ROW.match(text.text, position):
        inner = match[1]
        row = (
            [remove_quotes(cell) for cell in _CELL.findall(inner)] if '"' in inner else inner.replace(",", " ").split()
        )
        if len(row) != width:
            text.fail(match.start(1), f"{len(row)} values in a case, but {width} nodes are declared")
        rows.append(row)
        starts.append(match.start(1))
        position = match.end()
    rest = re.compile(r"\s*\)\s*;?").match(text.text, position)
    if rest is None:
        excerpt = text.text[position : position + 40].strip().split("\n")[0]
        text.fail(
            min(position, len(text.text.rstrip())),
            f"expected a case [ ... ] or `)`, found {excerpt!r}; is the file truncated?",
        )
    return rows, starts
