"""Networks in the BIF format (Bayesian Interchange Format), the plain text of the public collections.

The reader is written for tables of a million numbers: no Python statement runs for each number. Quoted names and
comments are masked first, so that the rest splits at its punctuation; labels, counts and numbers are then converted
block by block.

The grammar, as the programs of the field write it::

    network name { ... }
    variable c { type discrete [ 2 ] { yes, no }; property key = value ; }
    probability ( c | a, b ) { (a1, b1) 0.1, 0.9; ... default 0.5, 0.5; }
    probability ( c | a ) { table 0.1, 0.2, 0.9, 0.8; }

In a ``table`` the last parent varies fastest and the states of the child slowest. Commas between numbers are white
space. BIF knows states as text only; those of other types, and the cuts of discretized numbers, are written as the
properties ``hybridbn_states`` and ``hybridbn_cuts``, which other programs skip.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import product
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from hybridbn.exchange import register_format
from hybridbn.exchange.discrete_networks import (
    Bins,
    build_network,
    check_text,
    collect_tables,
    format_states,
    write_text,
)
from hybridbn.exchange.parsing import (
    RowNormalizer,
    SourceText,
    check_scope,
    convert_numbers,
    decode_source,
    read_source,
)
from hybridbn.network import Network
from hybridbn.potentials import Multinomial
from hybridbn.variables import Discrete, Values

_MASKED = re.compile(r'"[^"\n]*(?:"|\n|\Z)|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)')
_SIGNS = ",;{}()|[]" + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())
_HIDE = {ord(sign): 0xDC00 + number for number, sign in enumerate(_SIGNS)}
_SHOW = {hidden: sign for sign, hidden in _HIDE.items()}
"""Within names, signs of the grammar and white space stand as others, which no text holds, until all is split."""
_OPENING = re.compile(r"\s*(network|variable|probability)\b([^{}]*)\{")
_BODY = re.compile(r"([^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)\}")
_TYPE = re.compile(r"type\s+([^\s\[{]+)\s*+(?:\[\s*([0-9]{1,9})\s*\])?+\s*+(?:\{([^{}]*)\})?")
_PROPERTY = re.compile(r"property\s+(hybridbn_states|hybridbn_cuts)\s*=([\s\S]*)")

_DEFAULTED = 8_000_000
"""Files whose `default` rows stand for more numbers (64 MB) are refused: a small file can name a huge table."""

_TYPES: dict[str, Callable[[str], Hashable]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": {"True": True, "False": False}.__getitem__,
}


def read_bif(path: str | os.PathLike[str], *, normalize: bool = True, encoding: str = "utf-8") -> Network:
    """Read a network from a BIF file, plain or compressed (``.gz``).

    Parameters
    ----------
    path : str or path
    normalize : bool, optional
        Published files carry rounded numbers, so their rows sum to 1 only within about 1e-6. By default each row is
        divided by its sum (a row that sums to 1 within rounding is kept as it is); rows further off than 1e-6 are
        reported in one warning. With False the numbers are kept as given, and rows further off than 1e-6 are refused.
    encoding : str, optional
        The file's text encoding.

    Returns
    -------
    Network
        Variables, states and parents in the file's order. The network's name and properties are not kept.

    Raises
    ------
    FormatError
        Naming the file, the line and the reason.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> text = "variable c { type discrete [ 2 ] { yes, no }; } probability ( c ) { table 0.25, 0.75; }"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "coin.bif")
    ...     _ = path.write_text(text)
    ...     print(read_bif(path).potential("c").table)
    [0.25 0.75]
    """
    return _BifParser(read_source(path, encoding), normalize).parse()


def parse_bif(text: str, *, normalize: bool = True, source: str = "<text>") -> Network:
    """Make a network from BIF text; `source` is what error messages call it. See `read_bif`.

    Examples
    --------
    >>> net = parse_bif("variable c { type discrete [ 2 ] { 1, 2 }; } probability ( c ) { table .5, .5; }")
    >>> net.variable("c").states
    ('1', '2')
    """
    return _BifParser(decode_source(text.encode(), source, "utf-8"), normalize).parse()


def _convert_states(states: list[str], types: str | None) -> tuple[Hashable, ...]:
    """Return states with their types, one for each of them or one for all."""
    words = ["str"] if types is None else types.split()
    each = words * len(states) if len(words) == 1 else words
    return tuple(_TYPES[word](state) for word, state in zip(each, states, strict=True))


def _show_names(names: list[str]) -> list[str]:
    """Return names of a masked text as they are, whether quoted there or not."""
    return names if "".join(names).isascii() else [name.translate(_SHOW) for name in names]


class _BifParser:
    """One pass over a text; the attributes hold the parts that were read so far."""

    def __init__(self, source: SourceText, normalize: bool) -> None:
        self.source, self.rows = source, RowNormalizer(source.name, normalize)
        self.variables: dict[str, Discrete] = {}
        self.codes: dict[str, dict[str, int]] = {}
        self.potentials: dict[str, Multinomial] = {}
        self.defaulted = 0

    def parse(self) -> Network:
        """Read all blocks and make the network."""
        text, name = self.source
        if '"' in text or "/" in text:
            self.source = SourceText(_MASKED.sub(self._mask, text), name)
        for scope, body, start, position in self._parse_blocks():
            check_scope(scope, self.variables, self.potentials, "probability block", partial(self.source.fail, start))
            self.potentials[scope[0]] = self._make_potential(scope, body, position)
        return build_network(self.potentials, self.variables, self.rows)

    # -- text ------------------------------------------------------------------------------------------------------

    def _mask(self, match: re.Match[str]) -> str:
        """Replace a comment by white space, and a quoted name by a placeholder or, where it is a plain word, by
        itself.
        """
        text = match[0]
        if text[0] == "/":
            if text[1] == "*" and (len(text) < 4 or text[-2:] != "*/"):
                self.source.fail(match.start(), "the comment that starts here is not closed")
            return " " + "\n" * text.count("\n")
        if len(text) < 2 or text[-1] != '"':
            self.source.fail(match.start(), "the quoted name that starts here is not closed on its line")
        return f" {text[1:-1].translate(_HIDE)} "

    def _split_list(self, text: str, wanted: int | None = None) -> list[str]:
        """Split a list of names at its commas; where that isn't the wanted number, at white space too (old files have
        no commas).
        """
        items = list(map(str.strip, text.split(","))) if text.strip() else []
        words = text.replace(",", " ").split() if wanted not in (None, len(items)) else items
        return _show_names(words if len(words) == wanted else items)

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _parse_blocks(self) -> list[tuple[list[str], str, int, int]]:
        """Read the variables, and return (child and parents, body, position, position of the body) of each probability
        block.
        """
        headers = []
        text = self.source.text
        position, end = 0, len(text.rstrip())
        while position < end:
            opening = _OPENING.match(text, position)
            if opening is None:
                start = end - len(text[position:end].lstrip())
                line = text[start : start + 40].split("\n")[0]
                self.source.fail(start, f"expected network, variable or probability {{ ... }}, found {line!r}")
            kind, head = opening[1], opening[2].strip()
            start = opening.start(1)
            body = _BODY.match(text, opening.end())
            if body is None:
                self.source.fail(start, f"the {kind} block that starts here is not closed; is the file truncated?")
            if kind == "variable":
                self._parse_variable(head, body[1], start)
            elif kind == "probability":
                headers.append((head, body[1], start, body.start()))
            position = body.end()
        return [(self._parse_header(head, start), body, start, at) for head, body, start, at in headers]

    def _split_statements(self, body: str, position: int) -> list[str]:
        *statements, rest = body.split(";")
        if rest.strip():
            at = position + len(body) - len(rest.lstrip())
            self.source.fail(at, f"expected `;` after {rest.strip()[:40]!r}")
        return statements

    def _parse_variable(self, name: str, body: str, position: int) -> None:
        name = name.translate(_SHOW)
        if not name:
            self.source.fail(position, "a variable without a name")
        if name in self.variables:
            self.source.fail(position, f"a second variable named {name[:60]!r}")
        statements = list(map(str.strip, self._split_statements(body, position)))
        noted = filter(None, map(_PROPERTY.fullmatch, statements))
        properties = {match[1]: match[2].strip().translate(_SHOW) for match in noted}
        types = [statement for statement in statements if not statement.startswith("property")]
        if not types:
            self.source.fail(position, f"{name[:60]!r} has no `type discrete [ n ] {{ ... }};`")
        declared = _TYPE.fullmatch(types[0]) if len(types) == 1 else None
        if declared is None:
            self.source.fail(
                position, f"{name[:60]!r}: expected one `type discrete [ n ] {{ ... }};`, found {types[-1][:40]!r}"
            )
        if declared[1] != "discrete":
            self.source.fail(
                position, f"{name[:60]!r} is of type {declared[1]!r}; BIF files hold discrete variables only"
            )
        states = self._parse_states(name, declared[2], declared[3], position)
        try:
            cuts = tuple(map(float, properties["hybridbn_cuts"].split())) if "hybridbn_cuts" in properties else None
            self.variables[name] = Discrete(name, _convert_states(states, properties.get("hybridbn_states")), cuts)
        except (ValueError, KeyError) as error:
            self.source.fail(position, f"{name[:60]!r}: its properties don't fit its states: {error}")
        self.codes[name] = {state: code for code, state in enumerate(states)}

    def _parse_states(self, name: str, count: str | None, listed: str | None, position: int) -> list[str]:
        wanted = None if count is None else int(count)
        states = self._split_list(listed or "", wanted)
        if not states or "" in states:
            self.source.fail(position, f"{name[:60]!r} has {'an empty state name' if states else 'no states'}")
        if wanted is not None and len(states) != wanted:
            self.source.fail(position, f"{name[:60]!r} is declared with {wanted} states, but {len(states)} are listed")
        if len(set(states)) != len(states):
            twice = Counter(states).most_common(1)[0][0]
            self.source.fail(position, f"{name[:60]!r} lists the state {twice[:60]!r} twice")
        return states

    def _parse_header(self, head: str, position: int) -> list[str]:
        """Return the child and its parents."""
        if head[:1] != "(" or head[-1:] != ")":
            self.source.fail(
                position, f"expected probability ( child | parents ), found {head.translate(_SHOW)[:60]!r}"
            )
        child, bar, given = head[1:-1].partition("|")
        first = _show_names([child.strip()])
        scope = [*first, *self._split_list(given)] if bar or first[0] in self.variables else self._split_list(child)
        if not all(name in self.variables for name in scope):
            scope = _show_names(f"{child} {given}".replace(",", " ").split())
        if not scope:
            self.source.fail(position, "a probability block without a variable")
        return scope

    # -- tables ----------------------------------------------------------------------------------------------------

    def _make_potential(self, scope: list[str], body: str, position: int) -> Multinomial:
        child, *parents = scope
        block = _ProbabilityBlock(self, child, parents, self._split_statements(body, position), position)
        rows = block.parse_table()
        table = self.rows.divide_rows(
            rows,
            lambda row: f"{child[:60]!r}{block.show_parents(row)}",
            lambda row: block.refuse_sum(rows, row),
        )
        variables = [self.variables[name] for name in parents]
        table = table.reshape([*block.sizes, block.width])
        return Multinomial(self.variables[child], parents=variables, table=table, normalize=False)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_STATE = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*|-?[0-9]+")
_KEYWORDS = frozenset({"network", "variable", "probability", "property", "type", "discrete", "default", "table"})


def format_bif(network: Network, *, bins: Bins | None = None) -> str:
    """Return a network of tables as the text of a BIF file.

    Every number is written so that it is read back as the same double, and the same network gives the same bytes. Names
    that are not plain words are quoted: hybridbn reads these, pgmpy replaces the quotes by spaces (so it fails on a
    variable with a space and no parents), and pyAgrum reads plain words only. States that are not text are written as
    text, with their types in a property that `read_bif` restores them from.

    Parameters
    ----------
    network : Network
    bins : int or mapping, optional
        Cut continuous variables into bins; see `hybridbn.exchange.discrete_networks.discretize`. A warning reports the
        error.

    Raises
    ------
    FormatError
        Naming the nodes that BIF can't hold: continuous ones, those whose potential is not a table, and names with
        characters that other programs would misread.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, d = hb.Discrete("c", states=(1, 2)), hb.Discrete("d", states=("no way", "yes"))
    >>> prior, conditional = [0.5, 0.5], [[1, 0], [0.1, 0.9]]
    >>> net = hb.Network([hb.Multinomial(c, table=prior), hb.Multinomial(d, parents=(c,), table=conditional)])
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
    tables = collect_tables(network, bins, "BIF")
    states = {
        child.name: [_format_name(text, _STATE, f"{child.name!r}: the state") for text in format_states(child, "BIF")]
        for child in (table.child for table in tables)
    }
    variables = [_format_variable(table.child, states[table.child.name]) for table in tables]
    potentials = [_format_potential(table, states) for table in tables]
    return "".join(["network unknown {\n}\n", *variables, *potentials])


def bif_properties_of(variable: Discrete) -> dict[str, str]:
    """Return as properties what BIF itself can't hold: the types of states and the cuts of a discretized number.

    Examples
    --------
    >>> bif_properties_of(Discrete("c", states=(1, 2))), bif_properties_of(Discrete("c", states=("1", "2")))
    ({'hybridbn_states': '"int"'}, {})
    """
    properties = {}
    types = [type(state).__name__ for state in variable.states]
    if set(types) != {"str"} and _TYPES.keys() >= set(types):
        properties["hybridbn_states"] = f'"{" ".join(types if len(set(types)) > 1 else types[:1])}"'
    if variable.cuts is not None:
        properties["hybridbn_cuts"] = f'"{" ".join(map(repr, variable.cuts))}"'
    return properties


def _format_name(text: str, plain: re.Pattern[str], what: str) -> str:
    """Return a name as it is written, quoted where it isn't a plain word; refuse what other programs can't read."""
    if plain.fullmatch(text) and text not in _KEYWORDS:
        return text
    signs = ',;{}()"' + ("|" if plain is _NAME else "")
    return f'"{check_text(text, what, "to BIF", signs, trimmed=True)}"'


def _format_variable(variable: Discrete, states: list[str]) -> str:
    name = _format_name(variable.name, _NAME, "the name")
    states_text = f"  type discrete [ {len(states)} ] {{ {', '.join(states)} }};"
    properties = [f"  property {key} = {value} ;" for key, value in bif_properties_of(variable).items()]
    return "\n".join([f"variable {name} {{", states_text, *properties, "}", ""])


def _format_potential(potential: Multinomial, states: dict[str, list[str]]) -> str:
    name, *parents = (_format_name(v.name, _NAME, "the name") for v in (potential.child, *potential.parents))
    given = f" | {', '.join(parents)}" if parents else ""
    rows = potential.table.reshape(-1, len(potential.child)).tolist()
    configurations = product(*(states[parent.name] for parent in potential.parents))
    labels = [f"({', '.join(row)})" if row else "table" for row in configurations]
    lines = [f"  {label} {', '.join(map(repr, row))};" for label, row in zip(labels, rows, strict=True)]
    return "\n".join([f"probability ( {name}{given} ) {{", *lines, "}", ""])


# -- numbers of a probability block -----------------------------------------------------------------------------------


_KEYWORD = re.compile(r"(table|default|property)\b")
_OTHER_ORDER = 1e-2
"""Rows whose sums are within this of 1 in the other order get a hint that they may be written in it."""


class _ProbabilityBlock:
    """One ``probability ( child | parents ) { ... }``: `statements` is its body split at the semicolons."""

    def __init__(
        self, names: _BifParser, child: str, parents: Sequence[str], statements: Sequence[str], position: int
    ) -> None:
        self.names, self.child, self.parents = names, child, parents
        self.statements, self.position = statements, position
        self.width = len(names.codes[child])
        self.sizes = [len(names.codes[parent]) for parent in parents]
        self.size = math.prod(self.sizes)
        self.statement_of: NDArray[np.intp] = np.empty(0, np.intp)
        """For each row of the table, the statement that gives it."""

    def parse_table(self) -> Values:
        """Return the table as (configurations of the parents, states of the child); the last parent varies fastest."""
        bodies = [statement.lstrip() for statement in self.statements]
        rows = [number for number, body in enumerate(bodies) if body[:1] == "("]
        special = {} if len(rows) == len(bodies) else self._find_special(bodies)
        if "table" in special:
            if rows or "default" in special:
                self._fail(special["table"], "a `table` beside other rows; which of them holds?")
            return self._convert_whole(special["table"], bodies[special["table"]])
        labels, numbers = self._split_rows(bodies, rows)
        configurations = self._find_configurations(labels, rows)
        if "default" not in special and len(rows) < self.size:
            self._refuse_missing(configurations, rows)
        values = self._convert_numbers(numbers, rows)
        default: Values | float = np.nan
        if "default" in special:
            self.names.defaulted += self.size * self.width
            if self.names.defaulted > _DEFAULTED:
                reason = f"`default` stands for more than {_DEFAULTED:,} numbers; no table of that size is made from it"
                self._fail(special["default"], reason)
            default = self._convert_numbers([bodies[special["default"]][7:]], [special["default"]])
        table = np.full((self.size, self.width), default)
        self.statement_of = np.full(self.size, special.get("default", -1), np.intp)
        # Nearly all blocks have one row for each configuration.
        if np.bincount(configurations, minlength=1).max() > 1:
            self._refuse_twice(configurations, rows)
        table[configurations] = values
        self.statement_of[configurations] = rows
        return table

    def show_parents(self, row: int) -> str:
        """Return the parents' states in a row of the table, as messages show them."""
        if not self.parents:
            return ""
        codes = np.unravel_index(row, self.sizes)
        names = [list(self.names.codes[parent])[int(code)] for parent, code in zip(self.parents, codes, strict=True)]
        states = [repr(name[:60])[1:-1] for name in names]
        return f" given ({', '.join(states)})"

    def refuse_sum(self, table: Values, row: int) -> NoReturn:
        """Refuse a row that is not a distribution."""
        hint = ""
        if self.parents and self.statements[self.statement_of[row]].lstrip().startswith("table"):
            other = table.T.reshape(self.size, self.width)
            if np.abs(other.sum(axis=1) - 1.0).max() < _OTHER_ORDER:
                hint = "; they would if the child's states varied fastest, but in BIF the last parent does"
        self._fail(
            int(self.statement_of[row]),
            f"the probabilities of {self.child[:60]!r}{self.show_parents(row)} sum to {table[row].sum():.7g},"
            f" not 1{hint}",
        )

    # -- statements ------------------------------------------------------------------------------------------------

    def _fail(self, number: int, reason: str) -> NoReturn:
        before = sum(len(statement) + 1 for statement in self.statements[:number])
        statement = self.statements[number]
        self.names.source.fail(self.position + before + len(statement) - len(statement.lstrip()), reason)

    def _find_special(self, bodies: Sequence[str]) -> dict[str, int]:
        """Return the statement of each keyword, `table` and `default`, refusing other words."""
        special: dict[str, int] = {}
        for number, body in enumerate(bodies):
            if body[:1] == "(":
                continue
            keyword = _KEYWORD.match(body)
            if keyword is None:
                self._fail(number, f"expected (states) numbers, table or default, found {body[:40]!r}")
            if keyword[1] in special:
                self._fail(number, f"a second `{keyword[1]}` for {self.child[:60]!r}")
            if keyword[1] != "property":
                special[keyword[1]] = number
        return special

    def _split_rows(self, bodies: Sequence[str], rows: Sequence[int]) -> tuple[list[str], list[str]]:
        """Split ``(states) numbers`` at the last parenthesis, as states may hold parentheses and numbers can't."""
        parts = [bodies[row].rpartition(")") for row in rows]
        for row, (_, closing, _) in zip(rows, parts, strict=True):
            if not closing:
                self._fail(row, f"expected (states) numbers, found {bodies[row][:40]!r}")
        return [label[1:] for label, _, _ in parts], [numbers for _, _, numbers in parts]

    def _find_configurations(self, labels: list[str], rows: Sequence[int]) -> NDArray[np.intp]:
        """Return the row of the table for each row of the file."""
        count = len(self.parents)
        if not count:
            if rows:
                self._fail(rows[0], f"{self.child[:60]!r} has no parents; expected `table` or `default`")
            return np.empty(0, np.intp)
        if {label.count(",") for label in labels} - {count - 1}:
            labels = [self._add_commas(label, row) for label, row in zip(labels, rows, strict=True)]
        cells = _show_names(list(map(str.strip, ",".join(labels).split(",")))) if labels else []
        configurations = np.zeros(len(labels), np.intp)
        for column, parent in enumerate(self.parents):
            codes = list(map(self.names.codes[parent].get, cells[column::count]))
            if None in codes:
                row = codes.index(None)
                self._fail(
                    rows[row],
                    f"{parent[:60]!r} has no state {cells[row * count + column][:60]!r} "
                    f"(in a row of {self.child[:60]!r})",
                )
            configurations = configurations * self.sizes[column] + np.array(codes, np.intp)
        return configurations

    def _add_commas(self, label: str, row: int) -> str:
        items = label.split(",")
        if len(items) != len(self.parents):
            items = label.replace(",", " ").split()
        if len(items) != len(self.parents):
            self._fail(
                row,
                f"a row of {self.child[:60]!r} names {len(items)} states for {len(self.parents)} parents",
            )
        return ",".join(items)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _convert_numbers(self, texts: list[str], rows: Sequence[int], width: int | None = None) -> Values:
        """Convert the numbers of many rows in one go."""
        return convert_numbers(
            texts, width or self.width, lambda row, _, reason: self._fail(rows[row], reason), self.child
        )

    def _convert_whole(self, number: int, body: str) -> Values:
        """Return a `table`: the states of the child vary slowest, the last parent fastest."""
        values = self._convert_numbers([body[5:]], [number], self.width * self.size)
        self.statement_of = np.full(self.size, number, np.intp)
        return np.ascontiguousarray(values.reshape(self.width, self.size).T)

    # -- rows that are missing or given twice ----------------------------------------------------------------------

    def _refuse_missing(self, configurations: NDArray[np.intp], rows: Sequence[int]) -> NoReturn:
        name = repr(self.child[:60])
        if not self.parents:
            self.names.source.fail(self.position, f"{name} has no numbers; expected `table`")
        wanted = str(self.size) if self.size < 10**15 else "more than 10**15"
        mismatch = f"{name} has {len(rows)} rows where its parents have {wanted} configurations"
        if self.size >= 1 << 62:
            self.names.source.fail(self.position, f"{mismatch}; is the file truncated?")
        self._refuse_twice(configurations, rows)
        present = set(configurations.tolist())
        first = next(row for row in range(self.size) if row not in present)
        self.names.source.fail(self.position, f"{mismatch}; missing is the row{self.show_parents(first)}")

    def _refuse_twice(self, configurations: NDArray[np.intp], rows: Sequence[int]) -> None:
        first = np.unique(configurations, return_index=True)[1]
        for row in np.setdiff1d(np.arange(len(rows)), first)[:1].tolist():
            self._fail(rows[row], f"a second row of {self.child[:60]!r}{self.show_parents(configurations[row])}")


register_format((".bif",), read_bif, partial(write_text, format_bif))
