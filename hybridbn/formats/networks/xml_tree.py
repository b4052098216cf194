"""XML as a tree with line numbers, read safely from untrusted files: no entities, no other files, limited depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn
from xml.parsers import expat

from hybridbn.errors import FormatError

__all__ = ["Element", "parse_xml"]

_DEEPEST = 60
"""Elements that are nested deeper are refused, because the tree is walked recursively."""
_MOST = 300_000
"""Files with more elements are refused."""


class Element:
    """An element: its tag, attributes, children, text (without that of the children), and line."""

    __slots__ = ("attributes", "children", "line", "parts", "tag")
    tag: str
    attributes: dict[str, str]
    line: int

    def __init__(self, tag: str, attributes: dict[str, str], line: int) -> None:
        self.tag, self.attributes, self.line = tag, attributes, line
        self.children: list[Element] = []
        self.parts: list[str] = []

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


class _XmlBuilder:
    def __init__(self, source: str, parser: Any) -> None:
        self.source, self.parser = source, parser
        self.open: list[Element] = []
        self.root: Element | None = None
        self.count = 0

    def fail(self, reason: str) -> NoReturn:
        raise FormatError(f"{self.source}, line {self.parser.CurrentLineNumber}: {reason}")

    def open_element(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > _MOST:
            self.fail(f"more than {_MOST:,} elements; no network has so many")
        if len(self.open) == _DEEPEST:
            self.fail(f"more than {_DEEPEST} elements inside each other")
        element = Element(tag, attributes, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def close_element(self, tag: str) -> None:
        self.open.pop()

    def add_text(self, text: str) -> None:
        self.open[-1].parts.append(text)

    def refuse_declaration(self, name: str, *rest: Any) -> None:
        self.fail(
            f"the file declares an entity ({name!r}); entities are refused, because they can reach outside or explode"
        )

    def refuse_reference(self, *rest: Any) -> int:
        self.fail("the file refers to another file; that is refused")

    def refuse_entity(self, name: str, *rest: Any) -> None:
        self.fail(f"the file uses an entity ({name!r}) that it does not declare")


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
    try:
        parser = expat.ParserCreate(encoding)
    except (LookupError, ValueError, TypeError):
        raise FormatError(f"{source}: there is no encoding {encoding!r}; try encoding='latin-1'") from None
    parser.buffer_text = True
    builder = _XmlBuilder(source, parser)
    parser.StartElementHandler, parser.EndElementHandler = builder.open_element, builder.close_element
    parser.CharacterDataHandler = builder.add_text
    parser.EntityDeclHandler = builder.refuse_declaration
    parser.ExternalEntityRefHandler = builder.refuse_reference
    parser.SkippedEntityHandler = builder.refuse_entity
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
    if builder.root is None:
        raise FormatError(f"{source}: there is no element")
    return builder.root
