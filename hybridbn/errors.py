"""The library's errors, one family, so that ``except hb.HybridBNError`` catches whatever it refuses; and what messages
show: no passwords, no control signs, and no more of a cell or name than helps to find it.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HybridBNError(ValueError):
    """Base of every error that the library raises on purpose.

    Its text is fit to be printed and logged, whatever cells and names it speaks of; see `tidy_message`.
    """

    @property
    def text(self) -> str:
        """The whole message, for whoever puts another one around it; nothing of it is cut or masked."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return tidy_message(self.text)


class TableError(HybridBNError):
    """A table, column, weight or item of evidence that cannot be used as it is."""


class NetworkError(HybridBNError):
    """A variable, potential or graph that does not make a Bayesian network."""


class ImpossibleEvidence(HybridBNError):
    """Evidence of probability zero.

    Attributes
    ----------
    rows : tuple of int
        The rows of the evidence table that are impossible; ``(0,)`` for a single case.
    """

    def __init__(self, message: str, rows: tuple[int, ...] = (0,)) -> None:
        super().__init__(message)
        self.rows = rows

    def renumber(self, numbers: NDArray[Any], describe: Callable[[Sequence[int]], str]) -> ImpossibleEvidence:
        """Return the error of some rows of a table as that of the whole table.

        Parameters
        ----------
        numbers : ndarray of int
            For each row of the part its number in the whole.
        describe : callable
            From the impossible rows' numbers to the message.
        """
        rows = sorted({int(numbers[row]) for row in self.rows})
        return type(self)(describe(rows), tuple(rows))

    def __reduce__(self) -> tuple[type, tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.rows)


@contextlib.contextmanager
def renumber_rows(numbers: NDArray[Any], describe: Callable[[Sequence[int]], str]) -> Iterator[None]:
    """Let errors of impossible rows of a part of a table name them as rows of the whole table, see
    `ImpossibleEvidence.renumber`.
    """
    try:
        yield
    except ImpossibleEvidence as problem:
        raise problem.renumber(numbers, describe) from None


class TooWide(HybridBNError):
    """An exact computation that would need more memory than it was allowed."""


class FormatError(HybridBNError):
    """A file that is damaged, hostile, of a newer version, or cannot hold what it was asked to hold."""


class Canceled(HybridBNError):
    """A long call that was ended by `hybridbn.progress.cancel`."""


logger: logging.Logger = logging.getLogger("hybridbn")  # of each warning, too, and of what is not worth one
_NOT_THE_USER = {"hybridbn", "concurrent", "contextlib", "functools", "threading"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as from the line outside of the library that called it, however deep in the library this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
        level, frame = level + 1, frame.f_back
    logger.info(tidy_message(message))
    warnings.warn(tidy_message(message), category, stacklevel=level)


_REMARKS: ContextVar[dict[str, str] | None] = ContextVar("remarks", default=None)


def remark(**texts: str) -> None:
    """Warn of what the data of a call are or have, by subject: once in the call, whatever it calls in turn and however
    often; what is said of a subject again is logged only.
    """
    remarks = _REMARKS.get()
    told = {subject: text for subject, text in texts.items() if text}
    if remarks is None and told:
        warn_user("; ".join(told.values()))
    elif remarks is not None:
        logger.debug("%s", told)
        remarks.update({**told, **remarks})


@contextlib.contextmanager
def gather_remarks() -> Iterator[None]:
    """Let what is remarked in a call be one warning, given where it ends.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True, action="always") as told, gather_remarks():
    ...     for fold in range(3):
    ...         remark(constants=f"x is constant in fold {fold}")
    ...     remark(marks="9 may be a mark")
    >>> [str(one.message) for one in told]
    ['x is constant in fold 0; 9 may be a mark']
    """
    if _REMARKS.get() is not None:
        yield
        return
    remarks: dict[str, str] = {}
    token = _REMARKS.set(remarks)
    try:
        yield
    finally:
        _REMARKS.reset(token)
    if remarks:
        warn_user("; ".join(remarks.values()))


# -- what messages show of cells and names ----------------------------------------------------------------------------

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Signs that move the cursor, turn the direction of writing, or are none; ends of lines and tabs are not among them."""
_QUOTED = re.compile(r"""(?<![\w\\])(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")""", re.DOTALL)
_WORD = re.compile(r"\S+")
_QUOTED_SIGNS, _WORD_SIGNS, _MESSAGE_SIGNS = 160, 320, 2400
"""How long a quotation, a word such as the path of a file, and a whole message may be."""


def tidy_message(text: str) -> str:
    r"""Return a message without passwords of addresses, with control signs escaped, and with long cells and names cut.

    Every message of the library and of its command goes through here.

    Examples
    --------
    >>> print(tidy_message("there is no file ftp://me:secret@host/a\x1b[2Jb.csv"))
    there is no file ftp://me:***@host/a\x1b[2Jb.csv
    >>> len(tidy_message(f"column 'x', row 3: {80_000 * 'a'!r} is not a number"))
    184
    """
    text = escape_controls(mask_secrets(text), lines=True)
    if len(text) > _QUOTED_SIGNS:
        text = _QUOTED.sub(lambda match: _cut(match[0], _QUOTED_SIGNS), text)
        text = _WORD.sub(lambda match: _cut(match[0], _WORD_SIGNS), text)
    return _cut(text, _MESSAGE_SIGNS)


def escape_controls(text: str, *, lines: bool = False) -> str:
    r"""Return a text in which a terminal finds no control sequence; with `lines`, ends of lines and tabs stay.

    Examples
    --------
    >>> print(escape_controls("a\x1b[2Jb\u202ec"))
    a\x1b[2Jb\u202ec
    """
    text = _CONTROLS.sub(lambda match: repr(match[0])[1:-1], text)
    return text if lines else text.replace("\n", r"\n").replace("\t", r"\t")


def _cut(text: str, most: int) -> str:
    """Cut the middle out of a text longer than `most`, as long names often differ at their end."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}...{text[-(most // 4) :]}"


# -- secrets in messages ----------------------------------------------------------------------------------------------

_MASK = "***"
_SCHEME = re.compile(r"\s*(?:jdbc:)?[a-zA-Z][\w+.-]*:/+", re.IGNORECASE)
_PLACE = re.compile(r"[?&](?:table|query)=")
_KEY = re.compile(
    r"pass|pwd|secret|token|credential|api_?key|access_?key|account_?key|private_?key|signature|\bsig\b", re.IGNORECASE
)
"""What the name of a parameter holds that is a secret."""
_PARAMETER = re.compile(r"(?:^|[?&;,{\s])([\w.\-]+)\s*=\s*")
_VALUE = re.compile(r"{[^}]*}|[^&;]*")
_SHOWN_PARAMETER = re.compile(r"([?&;]([\w.\-]+)=)[^&;\s'\"]*")
_SHOWN_USER = re.compile(r"(?<=[\w+.-]):/{1,3}[^/@:\s]*:")
"""Addresses that are part of a message, in the forms that have no spaces."""
_LONGEST, _MOST_PARTS = 4_000, 64
"""What is longer is no password, and is searched for as a whole and in so many parts only."""
_SHORT = 4
"""A shorter secret is masked only where the address shows it, as any word may contain it."""


def mask_secrets(text: str, addresses: Iterable[str] = ()) -> str:
    """Return a text without the secrets of some addresses, whatever their form, and of those that the text shows.

    Examples
    --------
    >>> mask_secrets("postgresql://me:se/cr et@host/base: refused", ["postgresql://me:se/cr et@host/base?table=t"])
    'postgresql://me:***@host/base: refused'
    >>> mask_secrets("can't reach mssql://host/b?user=me&PWD=secret")
    "can't reach mssql://host/b?user=me&PWD=***"
    """
    shown: dict[str, str] = {}
    for address in addresses:
        for before, secret, behind in _find_secrets(address):
            for form in _spell(secret):
                shown[before + form + behind] = before + _MASK + behind
                if len(form) >= _SHORT:
                    shown.setdefault(form, _MASK)
    for form in sorted((form for form in shown if form in text), key=len, reverse=True):
        # not inside of longer words: a password may be "post"
        first, last = (
            (r"(?:(?<!\w)|(?<=%[0-9A-F]{2}))" if form[0].isalnum() else ""),
            (r"(?!\w)" if form[-1].isalnum() else ""),
        )
        text = re.sub(f"{first}{re.escape(form)}{last}", shown[form].replace("\\", r"\\"), text)
    text = re.sub(r"\S+", lambda match: _mask_users(match[0]), text) if ":/" in text else text
    return _SHOWN_PARAMETER.sub(lambda match: f"{match[1]}{_MASK}" if _KEY.search(match[2]) else match[0], text)


def _mask_users(word: str) -> str:
    """Return a word without the passwords of the addresses that it holds, in time proportional to its length."""
    pieces, done, blank = [], 0, 0
    for match in _SHOWN_USER.finditer(word):
        start = match.end()
        if start < max(done, blank):
            continue
        place = _PLACE.search(word, start)
        stop = len(word) if place is None else place.start()
        at = word.rfind("@", start, stop)
        if at < 0:
            blank = stop  # nor is there a sign behind what begins later before the stop
        elif word[start:at] != _MASK:
            pieces += [word[done:start], _MASK]
            done = at
    return "".join([*pieces, word[done:]])


@contextlib.contextmanager
def hide_secrets(address: str | os.PathLike[str]) -> Iterator[None]:
    """Let no error of the library show the secrets of an address.

    Examples
    --------
    >>> with hide_secrets("ftp://me:secret@host/f.csv"):
    ...     raise HybridBNError("no such host in ftp://me:secret@host/f.csv")
    Traceback (most recent call last):
    hybridbn.errors.HybridBNError: no such host in ftp://me:***@host/f.csv
    """
    try:
        yield
    except HybridBNError as error:
        error.args = (mask_secrets(error.text, [str(address)]), *error.args[1:])
        raise


def _find_secrets(address: str) -> Iterator[tuple[str, str, str]]:
    """Give each secret of an address with the signs around it."""
    for password in _find_passwords(address):
        yield ":", password, "@"
        # what a driver takes for the password may end earlier, and the rest for a host
        ends = re.finditer(r"[@:/?#&=]", password) if len(password) <= _LONGEST else ()
        for match in itertools.islice(ends, _MOST_PARTS):
            yield "", password[match.end() :], "@"
        parts = re.split(r"[@:/?#&=\s]", password, maxsplit=_MOST_PARTS)
        yield from (("", part, "") for part in parts if len(part) >= _SHORT)
    # parameters may be quoted once more inside of another one
    for text in dict.fromkeys((address, unquote(address), unquote(unquote(address)))):
        for name, value in _list_parameters(_cut_place(text)):
            for secret in dict.fromkeys((value, value.strip("{}"))):
                if secret:
                    yield f"{name}=", secret, ""


def _list_parameters(address: str) -> Iterator[tuple[str, str]]:
    """Give the names and values of the secret parameters of an address."""
    end = 0
    for match in _PARAMETER.finditer(address):
        if match.start() >= end and _KEY.search(match[1]) and (value := _VALUE.match(address, match.end())):
            end = value.end()
            yield match[1], value[0]


def _cut_place(address: str) -> str:
    """Return an address without its table or query, which are no secrets."""
    match = re.search(r"[?&](?:table=[^&]*|query=[\s(]*(?:select|with|values|table)\b.*)$", address, re.I | re.S)
    return address if match is None else address[: match.start()]


def _find_passwords(address: str) -> Iterator[str]:
    """Give what may be the password before the host; it may hold any sign, and so may the name before it."""
    if re.match(r"[a-zA-Z]:\\", address):  # a file of Windows
        return
    scheme = _SCHEME.match(address)
    rest = address if scheme is None else address[scheme.end() :]
    ends = [match.start() for match in _PLACE.finditer(rest)] or [len(rest)]
    # usually before the first "?table=", unless the password itself holds that
    for end in (ends[0], ends[-1]):
        _, colon, password = rest[: max(rest.rfind("@", 0, end), 0)].partition(":")
        if colon and password:
            yield password
            return


def _spell(secret: str) -> set[str]:
    """Return the forms in which a message may show a secret."""
    plain = {secret, unquote(secret), unquote_plus(secret), " ".join(secret.split())}
    forms = plain | {repr(form)[1:-1] for form in plain}
    forms |= {quote(form) for form in plain} | {quote(form, safe="") for form in plain} | set(map(quote_plus, plain))
    return forms - {""}
