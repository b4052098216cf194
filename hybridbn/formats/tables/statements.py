"""Which queries are one statement that only reads, told by the way that databases take text apart.

A query is refused where any way in which its database may read it ends the statement before the end. So backslashes in
quotes are tried as escapes and as signs, because a setting of the server decides that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from hybridbn.errors import TableError

__all__ = ["refuse_statements"]

_READING = ("SELECT", "WITH", "VALUES", "TABLE")
_CHANGING = re.compile(
    r"\b(alter|backup|begin|bulk|commit|create|dbcc|delete|deny|drop|exec|execute|grant|insert|into|kill|merge|reconfigure"
    r"|restore|revoke|rollback|save|set|shutdown|truncate|update|use|waitfor|writetext)\b",
    re.IGNORECASE,
)
"""Words that begin statements of SQL Server, which needs no semicolon between two."""
_LETTER = r"A-Za-z_\u0080-\U0010ffff"


class _Grammar(NamedTuple):
    """How a database may take a query apart."""

    dollars: bool
    """Whether text may stand between dollar signs, as in PostgreSQL."""
    nested: bool
    """Whether comments may hold comments."""
    backslashes: bool
    """Whether a backslash escapes a quote, even without an E in front."""
    mysql: bool
    """Whether there are comments after ``#``, quotes that lean, and no comments after ``--`` without a space."""


_POSTGRESQL = ("postgresql", "postgres", "redshift", "cockroachdb", "greenplum", "yugabyte", "duckdb")
_MYSQL = ("mysql", "mariadb", "tidb", "starrocks", "doris")
_UNNESTED = ("sqlite", "oracle")


def _list_grammars(dialect: str) -> Iterator[_Grammar]:
    """Give the ways in which a kind of database may read a query."""
    both: tuple[bool, ...] = (False, True)
    choices: tuple[tuple[bool, ...], ...]
    if dialect in _POSTGRESQL:
        choices = ((True,), (True,), both, (False,))
    elif dialect in _MYSQL:
        choices = ((False,), (False,), both, (True,))
    elif dialect in _UNNESTED:
        choices = ((False,), (False,), (False,), (False,))
    elif dialect == "mssql":
        choices = ((False,), (True,), (False,), (False,))
    else:
        choices = (both, both, both, both)
    return itertools.starmap(_Grammar, itertools.product(*choices))


def refuse_statements(query: str, dialect: str) -> None:
    """Refuse what is not one statement that only reads.

    Parameters
    ----------
    dialect : str
        The kind of database, as in an address; what is not known is read in all ways.

    Examples
    --------
    >>> refuse_statements("SELECT 'a;b' FROM t -- ;", "postgresql")
    >>> refuse_statements("SELECT 1; DROP TABLE t", "postgresql")
    Traceback (most recent call last):
    hybridbn.errors.TableError: the query is not one SELECT statement: 'SELECT 1; DROP TABLE t'
    """
    refusal = TableError(f"the query is not one SELECT statement: {query[:60]!r}")
    readings = 0
    for grammar in _list_grammars(dialect):
        plain, is_whole = _remove_quoted(query, grammar)
        first = re.match(r"[\s(]*(\w+)", plain)
        is_reading = first is not None and first[1].upper() in _READING
        changes = dialect == "mssql" and _CHANGING.search(plain) is not None
        if ";" in plain.strip().rstrip(";") or not is_reading or changes or "\0" in query:
            raise refusal
        readings += is_whole
    if not readings:
        raise refusal


def _remove_quoted(query: str, grammar: _Grammar) -> tuple[str, bool]:
    """Return a query with a space in place of each comment, text and quoted name, and whether all of these end.

    Where one does not, what stands before it is returned.
    """
    kept, position = list[str](), 0
    pattern = _compile(grammar)
    while position < len(query):
        match = pattern.match(query, position)
        if match is None:
            return "".join(kept), False
        kind, end = match.lastgroup, match.end()
        if kind == "comment":
            end = _end_of_comment(query, match.start(), grammar)
        elif kind == "dollar":
            end = query.find(match[0], end)
            end = end + len(match[0]) if end >= 0 else -1
        if end < 0:
            return "".join(kept), False
        kept.append(match[0] if kind in ("word", "sign") else " ")
        position = end
    return "".join(kept), True


def _compile(grammar: _Grammar) -> re.Pattern[str]:
    """Return the pattern of what a query consists of."""
    escaped, plain = r"(?:[^'\\]|''|\\[\s\S])*+'", r"(?:[^']|'')*+'"
    usual = escaped if grammar.backslashes else plain
    name = escaped if grammar.mysql and grammar.backslashes else plain
    name = name.replace("'", '"')
    # in PostgreSQL, text goes on after the end of a line, and is read as it began
    gap = r"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:\s|--[^\n\r]*+[\n\r])*+"
    leaning = r"|`(?:[^`]|``)*+`" if grammar.mysql else ""
    line = r"--(?=\s|$)[^\n]*|#[^\n]*" if grammar.mysql else r"--[^\n\r]*"
    parts = [
        rf"(?P<escaped>[eE]'{escaped}(?:{gap}'{escaped})*)",
        rf"(?P<quoted>'{usual}|\"{name}{leaning})",
        rf"(?P<line>{line})",
        r"(?P<comment>/\*)",
        *([rf"(?P<dollar>\$(?:[{_LETTER}][\w]*)?\$)"] if grammar.dollars else []),
        rf"(?P<word>[{_LETTER}][\w$]*|\$?\d+)",
        r"(?P<sign>[^'\"`])" if grammar.mysql else r"(?P<sign>[^'\"])",
    ]
    return re.compile("|".join(parts))


def _end_of_comment(query: str, start: int, grammar: _Grammar) -> int:
    """Return where a comment ends; -1 where it does not, and its start where MySQL carries out what it holds."""
    if grammar.mysql and re.compile(r"/\*M?!").match(query, start):
        return start + 2
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(query, start):
        depth = 0 if not grammar.nested and match[0] == "*/" else depth + (1 if match[0] == "/*" else -1)
        if depth == 0:
            return match.end()
    return -1
