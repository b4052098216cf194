"""What the readers of text formats share: decoding, tokens, probabilities, and messages that name the line."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from hybridbn.errors import FormatError, warn_user
from hybridbn.formats.files import check_encoding, read_network_bytes
from hybridbn.variables import Values

__all__ = [
    "NUMBER",
    "SUM_LIMIT",
    "SUM_TOLERANCE",
    "RowNormalizer",
    "SourceText",
    "Token",
    "Tokens",
    "decode_source",
    "parse_probabilities",
    "read_source",
]

NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_PLAIN_NUMBERS = re.compile(r"[0-9eE+\-.\s]*", re.ASCII)
SUM_TOLERANCE = 1e-6
"""Rows whose sum is nearer to 1 are normalized without a warning: the digits that programs print explain that much."""
SUM_LIMIT = 1e-2
"""Rows whose sum is further from 1 are refused: rounding does not explain that."""


class SourceText(NamedTuple):
    """A text, and the name by which messages call it."""

    text: str
    name: str

    def fail(self, position: int, reason: str) -> NoReturn:
        """Refuse the file, naming the line of this position."""
        raise FormatError(f"{self.name}, line {self.text.count(chr(10), 0, position) + 1}: {reason}")


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
    source : Source
    pattern : compiled pattern of named groups
        White space and comments are matched before the groups; text that matches the group ``odd`` is refused.
    """

    source: SourceText
    now: Token

    def __init__(self, source: SourceText, pattern: re.Pattern[str], at: int = 0) -> None:
        self.source, self._match = source, pattern.match
        self.jump(at)

    def _refuse(self, at: int) -> NoReturn:
        if self.source.text[at] == '"':
            self.source.fail(at, "the quoted text that starts here is not closed")
        if self.source.text.startswith("/*", at):
            self.source.fail(at, "the comment that starts here is not closed")
        self.source.fail(at, f"can't read {self.source.text[at : at + 20]!r}")

    def jump(self, at: int) -> None:
        """Continue at a position."""
        match = self._match(self.source.text, at)
        kind = match.lastgroup if match is not None else None
        if match is None or kind is None:
            self._end, self.now = len(self.source.text), Token("end", "", len(self.source.text))
            return
        if kind == "odd":
            self._refuse(match.start("odd"))
        self._end = match.end()
        self.now = Token(kind, match[kind], match.start(kind))

    def fail(self, wanted: str) -> NoReturn:
        """Refuse the file, because something else was expected here."""
        here = "the end of the file; is it truncated?" if self.now.kind == "end" else repr(self.now.text[:40])
        self.source.fail(min(self.now.at, len(self.source.text.rstrip())), f"expected {wanted}, found {here}")

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

    def expect(self, *texts: str, after: str = "") -> Token:
        """Take one of these tokens, or refuse the file."""
        if self.now.text not in texts or self.now.kind == "quoted":
            self.fail(" or ".join(f"`{text}`" for text in texts) + (f" {after}" if after else ""))
        return self.take()


def parse_probabilities(
    text: str, wanted: int, fail: Callable[[int, str], NoReturn], owner: str, *, most: float = 1.0
) -> Values:
    """Return the probabilities in a text, separated by white space or commas.

    Parameters
    ----------
    text : str
    wanted : int
        The number of probabilities.
    fail : function of an offset in the text and a reason
    owner : str
        The variable, for messages.
    most : float, optional
        1, or infinity for the values of a factor, which are no probabilities.

    Examples
    --------
    >>> parse_probabilities("0.25, 0.75", 2, print, "c")
    array([0.25, 0.75])
    """
    words = text.replace(",", " ").split()
    try:
        if not _PLAIN_NUMBERS.fullmatch(text.replace(",", " ")):
            raise ValueError
        values = np.array(words, dtype=np.float64)
    except ValueError:
        bad = next((word for word in words if not NUMBER.fullmatch(word)), "?")
        fail(text.find(bad), f"{bad[:40]!r} is not a number (in the probabilities of {owner!r})")
    wrong = ~((values >= 0) & (values <= most + SUM_LIMIT) & np.isfinite(values))
    if wrong.any():
        bad, what = words[int(wrong.argmax())], "a probability" if most == 1.0 else "a finite number of 0 or more"
        fail(text.find(bad), f"{bad[:40]!r} is not {what} (of {owner!r})")
    if len(values) != wanted:
        fail(0, f"{len(values)} numbers where {wanted} are wanted for {owner!r}")
    return values


class RowNormalizer:
    """Normalizes the rows of all tables of a file, and reports the worst deviation in one warning."""

    source: str
    normalize: bool

    def __init__(self, source: str, normalize: bool) -> None:
        self.source, self.normalize = source, normalize
        self.worst: tuple[float, str] = (0.0, "")

    def normalize_rows(self, table: Values, owner: str, fail: Callable[[str], NoReturn]) -> Values:
        """Return a table (..., states) whose rows sum to 1; rows that do within rounding stay bit for bit."""
        flat = table.reshape(-1, table.shape[-1])
        off = np.abs(flat.sum(axis=1) - 1.0)
        row = int(off.argmax())
        worst = float(off[row])
        if not worst <= (SUM_LIMIT if self.normalize else SUM_TOLERANCE):
            fail(f"the probabilities of {owner!r} sum to {flat[row].sum():.6g}, not 1, in row {row + 1} of its table")
        if not self.normalize:
            return table
        self.worst = max(self.worst, (worst, repr(owner)))
        rounded = off > table.shape[-1] * np.finfo(float).eps
        if rounded.any():
            flat = flat.copy()
            flat[rounded] /= flat[rounded].sum(axis=1, keepdims=True)
        return flat.reshape(table.shape)

    def arrange_rows(self, values: Values, sizes: Sequence[int], owner: str, fail: Callable[[str], NoReturn]) -> Values:
        """Return numbers as a table (parents, states), the states running fastest.

        Some programs let the states run slowest. That order is assumed only where the rows sum to 1 in it and not in
        ours.
        """
        table = values.reshape(sizes)
        off = np.abs(table.sum(axis=-1) - 1.0).max()
        if len(sizes) > 1 and not off <= SUM_LIMIT:
            other = np.moveaxis(values.reshape([sizes[-1], *sizes[:-1]]), 0, -1)
            if np.abs(other.sum(axis=-1) - 1.0).max() <= SUM_LIMIT:
                table = np.ascontiguousarray(other)
        return self.normalize_rows(table, owner, fail)

    def warn(self) -> None:
        """Warn if the sum of a row was further from 1 than printed digits explain."""
        if self.worst[0] > SUM_TOLERANCE:
            warn_user(
                f"{self.source}: rows were normalized; the worst, of {self.worst[1]}, was off by {self.worst[0]:.3g}",
            )
