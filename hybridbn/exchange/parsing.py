"""What the readers of text formats share: decoding, tokens, XML, probabilities, and messages that name the line."""

from __future__ import annotations

import codecs
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, NoReturn, TypeAlias
from xml.parsers import expat

import numpy as np

from hybridbn.errors import FormatError, warn_user
from hybridbn.tables.formats.files import check_encoding, read_network_bytes
from hybridbn.variables import Values

UNSIGNED = r"(?:[0-9]++\.?+[0-9]*+|\.[0-9]++)(?:[eE][-+]?[0-9]++)?"
NUMBER = re.compile(rf"[-+]?{UNSIGNED}", re.ASCII)
SUM_TOLERANCE = 1e-6
"""Rows whose sum is nearer to 1 are normalized without a warning: the digits that programs print explain that much."""
SUM_LIMIT = 1e-2
"""Rows whose sum is further from 1 are refused: rounding does not explain that."""


Fail: TypeAlias = Callable[[int, str], NoReturn]
"""What refuses a file at an offset in a part of it, for a reason."""


class SourceText(NamedTuple):
    """A text, and the name by which messages call it."""

    text: str
    name: str

    def fail(self, position: int, reason: str) -> NoReturn:
        """Refuse the file, naming the line of this position."""
        raise FormatError(f"{self.name}, line {self.text.count(chr(10), 0, position) + 1}: {reason}")

    def fail_at(self, start: int, offset: int, reason: str) -> NoReturn:
        """Refuse the file, naming the line at an offset from a position."""
        self.fail(start + max(offset, 0), reason)


def decode_source(data: bytes, source: str, encoding: str | None) -> SourceText:
    r"""Return bytes as text with plain line ends; without an `encoding`, UTF-8 where it is that, else Latin-1.

    Examples
    --------
    >>> decode_source("né\r\n".encode("latin-1"), "f", None).text
    'né\n'
    """
    chosen = "utf-8" if encoding is None else codecs.lookup(check_encoding(encoding)).name
    try:
        text = data.decode("utf-8-sig" if chosen == "utf-8" else chosen)
    except UnicodeDecodeError as error:
        if encoding is None and data[:2] not in (b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b"):
            text = data.decode("latin-1")
        else:
            line = data.count(b"\n", 0, error.start) + 1
            raise FormatError(
                f"{source}, line {line}: the text is not {encoding or 'utf-8'}; if it was written in another encoding, "
                "name it, for example encoding='latin-1'"
            ) from None
    decoded = SourceText(text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text, source)
    if not text.strip():
        raise FormatError(f"{source}: the file is empty")
    if "\0" in text:
        decoded.fail(decoded.text.index("\0"), "there is a NUL character; this is not a text file")
    return decoded


def read_source(path: str | os.PathLike[str], encoding: str | None) -> SourceText:
    """Return the text of a file, which may be packed with gzip; see `decode_source`."""
    return decode_source(read_network_bytes(path), str(path), encoding)


class Token(NamedTuple):
    """A piece of text; `kind` names the group of the pattern that it matched."""

    kind: str
    text: str
    at: int


class Tokens:
    """The tokens of a text, one at a time.

    Parameters
    ----------
    text : str
    refuse : Fail
    pattern : compiled pattern of named groups
        White space and comments are matched before the groups; text that matches the group ``odd`` is refused.
    whole : str, optional
        What the text is, for messages.
    """

    def __init__(self, text: str, refuse: Fail, pattern: re.Pattern[str], whole: str = "file") -> None:
        self._text, self._fail, self._match, self._whole = text, refuse, pattern.match, whole
        self.jump(0)

    def _refuse(self, at: int) -> NoReturn:
        if self._text[at] == '"':
            self._fail(at, "the quoted text that starts here is not closed")
        if self._text.startswith("/*", at):
            self._fail(at, "the comment that starts here is not closed")
        self._fail(at, f"can't read {self._text[at : at + 20]!r}")

    def jump(self, at: int) -> None:
        """Continue at a position."""
        match = self._match(self._text, at)
        kind = match.lastgroup if match is not None else None
        if match is None or kind is None:
            self._end = len(self._text)
            self.now: Token = Token("end", "", self._end)
            return
        if kind == "odd":
            self._refuse(match.start("odd"))
        self._end = match.end()
        self.now = Token(kind, match[kind], match.start(kind))

    def fail(self, wanted: str) -> NoReturn:
        """Refuse the text, because something else was expected here."""
        here = f"the end of the {self._whole}; is it truncated?" if self.now.kind == "end" else repr(self.now.text[:40])
        self._fail(min(self.now.at, len(self._text.rstrip())), f"expected {wanted}, found {here}")

    def take(self) -> Token:
        """Return this token and move to the next one."""
        token = self.now
        self.jump(self._end)
        return token

    def skip(self, *texts: str) -> bool:
        """Move to the next token if this one is among the texts; return whether it is."""
        if self.now.text in texts and self.now.kind != "quoted":
            self.take()
            return True
        return False

    def take_kind(self, *kinds: str, wanted: str) -> Token:
        """Take a token of one of these kinds, or refuse the file."""
        if self.now.kind not in kinds:
            self.fail(wanted)
        return self.take()

    def expect(self, *texts: str, after: str = "") -> Token:
        """Take one of these tokens, or refuse the file."""
        if self.now.text not in texts or self.now.kind == "quoted":
            self.fail(" or ".join(f"`{text}`" for text in texts) + (f" {after}" if after else ""))
        return self.take()

    def take_value(self, key: str) -> str:
        """Take everything up to the next ``;`` behind the name of a property, and return it as text."""
        start = end = self.now.at
        while not self.skip(";"):
            if self.now.text in "{}":  # or nothing is left
                self.fail(f"`;` after the value of {key[:40]!r}")
            token = self.take()
            end = token.at + len(token.text)
        return self._text[start:end]

    def take_states(self, take: Callable[[], str]) -> list[str]:
        """Take what stands between parentheses, with or without commas, and the ``;`` behind; `take` takes a state."""
        self.expect("(", after="before the states")
        states: list[str] = []
        while not self.skip(")"):
            states.append(take())
            self.skip(",")
        self.expect(";", after="after the value of 'states'")
        return states


def remove_quotes(text: str) -> str:
    """Return a word without the quotes around it, if it has any."""
    return text[1:-1] if text[:1] == '"' else text


def parse_probabilities(text: str, wanted: int, fail: Fail, owner: str, *, most: float = 1.0) -> Values:
    """Return the probabilities in a text, separated by white space or commas.

    Parameters
    ----------
    text : str
    wanted : int
        The number of probabilities.
    fail : Fail
    owner : str
        The variable, for messages.
    most : float, optional
        1, or infinity for the values of a factor, which are no probabilities.

    Examples
    --------
    >>> parse_probabilities("0.25, 0.75", 2, print, "c")
    array([0.25, 0.75])
    """
    return convert_numbers([text], wanted, lambda row, offset, reason: fail(offset, reason), owner, most=most).ravel()


def convert_numbers(
    texts: Sequence[str], width: int, fail: Callable[[int, int, str], NoReturn], owner: str, *, most: float = 1.0
) -> Values:
    """Return the numbers in several texts, `width` in each, as an array (texts, width).

    `fail` refuses the file at an offset in one of the texts, given by its number. No Python statement runs for each
    number: tables have millions of them.
    """
    words = [text.replace(",", " ").split() for text in texts]
    joined = "".join(texts)
    # float() also takes "nan", "inf" and "1_0", which all hold one of these letters, and foreign digits
    is_odd = "_" in joined or "n" in joined or "N" in joined or not joined.isascii()
    try:
        values = np.fromiter(map(float, chain.from_iterable(words)), float)
    except ValueError:
        is_odd = True
    for row, line in enumerate(words if is_odd else ()):
        for word in line:
            if not NUMBER.fullmatch(word):
                fail(row, texts[row].find(word), f"{word[:40]!r} is not a number (in the probabilities of {owner!r})")
    if set(map(len, words)) - {width}:
        row = next(row for row, line in enumerate(words) if len(line) != width)
        fail(row, 0, f"{len(words[row])} numbers where {width} are wanted for {owner!r}")
    wrong = np.flatnonzero(~((values >= 0) & (values <= min(most + SUM_LIMIT, sys.float_info.max))))
    if len(wrong):
        row, column = divmod(int(wrong[0]), width)
        what = "a probability" if most == 1.0 else "a finite number of 0 or more"
        word = words[row][column]
        fail(row, texts[row].find(word), f"{word[:40]!r} is not {what} (of {owner!r})")
    return values.reshape(-1, width)


def check_scope(
    scope: Sequence[str], declared: Collection[str], defined: Container[str], what: str, fail: Callable[[str], NoReturn]
) -> None:
    """Refuse what defines a variable, the first of its scope, where one is not declared or occurs twice."""
    for name in scope:
        if name not in declared:
            close = [other for other in declared if other.lower() == name.lower()]
            hint = f"; did you mean {close[0]!r}?" if close else ""
            fail(f"the {what} of {scope[0][:60]!r} mentions {name[:60]!r}, which is not declared{hint}")
    if len(set(scope)) < len(scope):
        twice = Counter(scope).most_common(1)[0][0]
        fail(f"the {what} of {scope[0][:60]!r} mentions {twice[:60]!r} twice")
    if scope[0] in defined:
        fail(f"a second {what} for {scope[0][:60]!r}")


def reverse_parents(values: Values, sizes: Sequence[int]) -> Values:
    """Return the numbers of a table whose first parent runs fastest among the parents, as pyAgrum writes it, in our
    order.

    Examples
    --------
    >>> reverse_parents(np.arange(8), (2, 2, 2))
    array([0, 1, 4, 5, 2, 3, 6, 7])
    """
    parents = len(sizes) - 1
    return values.reshape([*sizes[-2::-1], sizes[-1]]).transpose([*reversed(range(parents)), parents]).ravel()


@dataclass
class RowNormalizer:
    """Normalizes the rows of all tables of a file, and reports the worst deviation in one warning."""

    source: str
    normalize: bool
    worst: tuple[float, str] = (0.0, "")

    def normalize_rows(self, table: Values, owner: str, fail: Callable[[str], NoReturn]) -> Values:
        """Return a table (..., states) whose rows sum to 1; rows that do within rounding stay bit for bit."""
        flat = table.reshape(-1, table.shape[-1])

        def refuse(row: int) -> NoReturn:
            fail(f"the probabilities of {owner!r} sum to {flat[row].sum():.6g}, not 1, in row {row + 1} of its table")

        return self.divide_rows(flat, lambda row: f"of {owner!r}", refuse).reshape(table.shape)

    def divide_rows(self, rows: Values, describe: Callable[[int], str], refuse: Callable[[int], NoReturn]) -> Values:
        """Return rows that sum to 1; `describe` says of which row a warning tells, and `refuse` refuses one."""
        off = np.abs(rows.sum(axis=1) - 1.0)
        row = int(off.argmax())
        worst = float(off[row])
        if not worst <= (SUM_LIMIT if self.normalize else SUM_TOLERANCE):
            refuse(row)
        if not self.normalize:
            return rows
        if worst > self.worst[0]:
            self.worst = worst, describe(row)
        # A row that sums to 1 as nearly as doubles can tell stays as it is, so files that we write are read bit for
        # bit.
        rounded = off > rows.shape[1] * np.finfo(float).eps
        if rounded.any():
            rows = rows.copy()
            rows[rounded] /= rows[rounded].sum(axis=1, keepdims=True)
        return rows

    def arrange_rows(
        self,
        values: Values,
        sizes: Sequence[int],
        owner: str,
        fail: Callable[[str], NoReturn],
        *,
        parents_backwards: bool = False,
    ) -> Values:
        """Return numbers as a table (parents, states), the states running fastest.

        Some programs let the states run slowest, and of these some list the parents backwards. That order is assumed
        only where the rows sum to 1 in it and not in ours.
        """
        table = values.reshape(sizes)
        off = np.abs(table.sum(axis=-1) - 1.0).max()
        if len(sizes) > 1 and not off <= SUM_LIMIT:
            *parents, states = sizes
            turned = (
                values.reshape([states, *reversed(parents)]).T
                if parents_backwards
                else np.moveaxis(values.reshape([states, *parents]), 0, -1)
            )
            if np.abs(turned.sum(axis=-1) - 1.0).max() <= SUM_LIMIT:
                table = np.ascontiguousarray(turned)
        return self.normalize_rows(table, owner, fail)

    def parse_table(self, text: str, sizes: Sequence[int], owner: str, fail: Fail, *, reverse: bool = False) -> Values:
        """Return a table (parents, states) from its numbers, the states running fastest, then the last parent, or the
        first one in a file that lists them in `reverse`.
        """
        values = parse_probabilities(text, math.prod(sizes), fail, owner)
        values = reverse_parents(values, sizes) if reverse else values
        return self.arrange_rows(values, sizes, owner, partial(fail, 0))

    def warn(self) -> None:
        """Warn if the sum of a row was further from 1 than printed digits explain."""
        if self.worst[0] > SUM_TOLERANCE:
            warn_user(
                f"{self.source}: rows were normalized; the worst, {self.worst[1]}, was off by {self.worst[0]:.3g}",
            )


# -- XML --------------------------------------------------------------------------------------------------------------


_DEEPEST_ELEMENT = 60
"""Elements that are nested deeper are refused, because the tree is walked recursively."""
_MOST_ELEMENTS = 300_000
"""Files with more elements are refused."""


@dataclass(slots=True, eq=False)
class Element:
    """An element of a source: its tag, attributes, children, text (without that of the children), and line."""

    source: str
    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text, without white space around it."""
        return "".join(self.parts).strip()

    def all(self, *tags: str) -> Iterator[Element]:
        """Yield the children that have one of these tags, in upper or lower case."""
        return (child for child in self.children if child.tag.lower() in tags)

    def first(self, tag: str) -> Element | None:
        """Return the first child that has this tag."""
        return next(self.all(tag), None)

    def need(self, tag: str, fault: str) -> Element:
        """Return the first child that has this tag, and text; refuse the file for a fault where there is none."""
        child = self.first(tag)
        if child is None or not child.text:
            self.fail(fault)
        return child

    def fail(self, reason: str) -> NoReturn:
        """Refuse the file, naming the line of the element."""
        self.fail_at(0, reason)

    def fail_at(self, offset: int, reason: str) -> NoReturn:
        """Refuse the file, naming the line of a position in the text."""
        text = "".join(self.parts)
        before = text[: len(text) - len(text.lstrip()) + offset] if offset > 0 else ""
        raise FormatError(f"{self.source}, line {self.line + before.count(chr(10))}: {reason}")


class _XmlBuilder:
    """Builds the tree below `document`, which is no element of the file."""

    def __init__(self, source: str, parser: Any) -> None:
        self.source, self.parser = source, parser
        self.document = Element(source, "", {}, 1)
        self.open = [self.document]
        self.count = 0

    def fail(self, reason: str) -> NoReturn:
        raise FormatError(f"{self.source}, line {self.parser.CurrentLineNumber}: {reason}")

    def open_element(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > _MOST_ELEMENTS:
            self.fail(f"more than {_MOST_ELEMENTS:,} elements; no network has so many")
        if len(self.open) > _DEEPEST_ELEMENT:
            self.fail(f"more than {_DEEPEST_ELEMENT} elements inside each other")
        element = Element(self.source, tag, attributes, self.parser.CurrentLineNumber)
        self.open[-1].children.append(element)
        self.open.append(element)


def parse_xml(data: bytes, source: str, encoding: str | None = None) -> Element:
    """Return the root of an XML text.

    Raises
    ------
    FormatError
        If the text is not well-formed, declares entities, refers to other files or is nested deeply; it names the line.

    Examples
    --------
    >>> parse_xml(b"<a x='1'><b>text</b></a>", "f").first("b").text
    'text'
    >>> parse_xml(b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", "f.xml")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: f.xml, line 1: the file declares an entity ('e'); entities are refused, because they
    can reach outside or explode
    """
    if not data.strip(b" \t\r\n\0\xef\xbb\xbf"):
        raise FormatError(f"{source}: the file is empty")
    parser = expat.ParserCreate(None if encoding is None else check_encoding(encoding))
    parser.buffer_text = True
    builder = _XmlBuilder(source, parser)
    parser.StartElementHandler = builder.open_element
    parser.EndElementHandler = lambda _: builder.open.pop()
    parser.CharacterDataHandler = lambda text: builder.open[-1].parts.append(text)
    parser.EntityDeclHandler = lambda name, *_: builder.fail(
        f"the file declares an entity ({name!r}); entities are refused, because they can reach outside or explode"
    )
    parser.ExternalEntityRefHandler = lambda *_: builder.fail("the file refers to another file; that is refused")
    parser.SkippedEntityHandler = lambda name, _: builder.fail(
        f"the file uses an entity ({name!r}) that it does not declare"
    )
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        if "no element found" in reason or "unclosed" in reason:
            reason += "; is the file truncated?"
        raise FormatError(f"{source}, line {error.lineno}: this is not well-formed XML: {reason}") from None
    except (LookupError, ValueError, UnicodeError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{source}, line {parser.ErrorLineNumber}: the text can't be decoded: {error}") from None
    return builder.document.children[0]
