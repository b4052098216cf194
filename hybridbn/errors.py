"""The library's errors, one family, so that ``except hb.HybridBNError`` catches whatever it refuses; and the passwords
in addresses, which no message may show.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HybridBNError(ValueError):
    """Base of every error that the library raises on purpose."""


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


class TooWide(HybridBNError):
    """An exact computation that would need more memory than it was allowed."""


class FormatError(HybridBNError):
    """A file that is damaged, hostile, of a newer version, or cannot hold what it was asked to hold."""


class Canceled(HybridBNError):
    """A long call that was ended by `hybridbn.progress.cancel`."""


_NOT_THE_USER = {"hybridbn", "concurrent", "contextlib", "functools", "threading"}


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn as from the line outside of the library that called it, however deep in the library this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


# -- secrets in messages ----------------------------------------------------------------------------------------------

_MASK = "***"
_SCHEME = re.compile(r"\s*(?:jdbc:)?[a-zA-Z][\w+.-]*:/+", re.IGNORECASE)
_PLACE = re.compile(r"[?&](?:table|query)=")
_NAME = (
    r"[\w.\-]*(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credential|api_?key|access_?key|account_?key"
    r"|private_?key|signature|\bsig\b)[\w.\-]*"
)
_PARAMETER = re.compile(rf"(?:^|[?&;,{{\s])\s*({_NAME})\s*=\s*({{[^}}]*}}|[^&;]*)", re.IGNORECASE)
_IN_TEXT = (
    (re.compile(r"([a-zA-Z][\w+.-]*:/{1,3}[^/@:\s]*:)(?!\*{3}@)(?:(?![?&](?:table|query)=)\S)*@"), rf"\1{_MASK}@"),
    (re.compile(rf"([?&;]{_NAME}=)[^&;\s'\"]*", re.IGNORECASE), rf"\1{_MASK}"),
)
"""Addresses that are part of a message, in the forms that have no spaces."""
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
    for form in sorted(shown, key=len, reverse=True):
        # not inside of longer words: a password may be "post"
        first, last = (
            (r"(?:(?<!\w)|(?<=%[0-9A-F]{2}))" if form[0].isalnum() else ""),
            (r"(?!\w)" if form[-1].isalnum() else ""),
        )
        text = re.sub(f"{first}{re.escape(form)}{last}", shown[form].replace("\\", r"\\"), text)
    for pattern, masked in _IN_TEXT:
        text = pattern.sub(masked, text)
    return text


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
        masked = mask_secrets(str(error), [str(address)])
        if masked != str(error):
            error.args = (masked, *error.args[1:])
        raise


def _find_secrets(address: str) -> Iterator[tuple[str, str, str]]:
    """Give each secret of an address with the signs around it."""
    for password in _find_passwords(address):
        yield ":", password, "@"
        # what a driver takes for the password may end earlier, and the rest for a host
        for start in (match.end() for match in re.finditer(r"[@:/?#&=]", password)):
            yield "", password[start:], "@"
        yield from (("", part, "") for part in re.split(r"[@:/?#&=\s]", password) if len(part) >= _SHORT)
    # parameters may be quoted once more inside of another one
    for text in dict.fromkeys((address, unquote(address), unquote(unquote(address)))):
        for name, value in _PARAMETER.findall(_cut_place(text)):
            for secret in dict.fromkeys((value, value.strip("{}"))):
                if secret:
                    yield f"{name}=", secret, ""


def _cut_place(address: str) -> str:
    """Return an address without its table or query, which are no secrets."""
    match = re.search(r"[?&](?:table=[^&]*|query=\s*\(*\s*(?:select|with|values|table)\b.*)$", address, re.I | re.S)
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
