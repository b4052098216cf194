"""The library's messages in the words of the command line."""

from __future__ import annotations

import re

__all__ = ["in_options"]

_LISTED = r"\[?('[^']*'|\"[^\"]*\"|[^\s\],;)]+)\]?"
_WORDS = (
    (r"add it to missing=\[\.\.\.\]", "name it with --missing"),
    (rf"read the column (?:as text )?with (discrete|continuous)={_LISTED}", r"say --\1 \2"),
    (rf"declare it with (discrete|continuous)={_LISTED}", r"say --\1 \2"),
    (
        r"name them in skip to say so, or in include to complete them from their own values",
        "--keep says so, --include completes them from their own values",
    ),
    (r"name them in skip to leave them as they are", "--keep leaves them as they are"),
    (r"name them in skip to say so", "--keep says so"),
    (r"replace it with None to have it imputed", "name it with --missing to have it imputed"),
    (r"cut the continuous variables with bins=", "cut the continuous variables with --bins"),
    (r"for example write_network\(net, path, bins=(\d+)\)", r"for example --bins \1"),
    (r"say integers=\(\)", "leave them out"),
    (r"cast it to text in a query( first)?", "--keep leaves it as it is, or cast it to text in a query"),
    (
        rf"\b(encoding|delimiter|decimal|structure|target|potentials|strategy|rounds|bounds|include|unknown)={_LISTED}",
        r"--\1 \2",
    ),
    (rf"\bskip={_LISTED}", r"--keep \1"),
    (r"(to text \(its month\)|for example its seconds)", r"\1; or --keep it as it is"),
)


def in_options(text: str) -> str:
    """Return a message with the options of the command line instead of Python's, on one line.

    Examples
    --------
    >>> in_options("if these are states, read the column with discrete=['x']")
    "if these are states, say --discrete 'x'"
    >>> in_options("give another encoding='latin-1'")
    "give another --encoding 'latin-1'"
    """
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return " ".join(text.split())
