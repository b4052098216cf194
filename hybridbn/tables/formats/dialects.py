"""How a delimited file is written: its encoding, what stands between cells and within numbers, and the order of dates.

What nobody tells is found from the first bytes of the file, by all that reads such files. What two conventions could
read is refused.
"""

from __future__ import annotations

import codecs
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from hybridbn.errors import TableError
from hybridbn.tables.formats.delimited_scanner import MARKS, DelimitedRecord, Scanner
from hybridbn.unit_texts import PatternFinder
from hybridbn.units import order_of_pattern

SNIFFED = 1 << 16
"""So many bytes at the beginning of a file tell how it is written."""
_ROWS = 1000
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_SPACES, _QUOTES = " \u00a0\u202f", "'\u2019"
_GROUP = re.compile(f"[{_SPACES}{_QUOTES}][0-9]{{3}}")
_QUOTED_COMMA = re.compile(r'"\s*[-+]?[0-9][0-9.]*,[0-9]')
_DATE = re.compile(r"(?<![0-9])[0-9]{1,2}([-/.])[0-9]{1,2}\1[0-9]{2,4}(?![0-9])")
_HEADER = re.compile(r'[\r\n]*((?:[^"\r\n]|"[^"]*")*)')
_LIKE_NUMBER = re.compile(rf"\s*[-+]?[0-9]+(?:[.,{_SPACES}{_QUOTES}][0-9]{{3}})*(?:[.,][0-9]*)?\s*")
_ORDERS = {"dmy": "day before month", "mdy": "month before day", "ymd": "year, month and day"}


@dataclass(frozen=True)
class Dialect:
    """How a delimited file is written.

    Parameters
    ----------
    delimiter, encoding : str
    decimal : str
        What stands before decimals.
    thousands : str
        What may stand between thousands; nothing, if none may.
    dates : str, optional
        The order of day, month and year where texts leave it open: "dmy", "mdy" or "ymd". Dates that could be either
        are refused where it is empty, and warned of where it is None.
    grouped : frozenset of str
        Columns with something between thousands.
    places : mapping from column to int
        The number of decimals, where all numbers of the column have as many.
    found : str
        What was found and not told, in words; nothing of what is usual.
    suffix : str
        That of the file.

    Examples
    --------
    >>> german = Dialect(";", decimal=",", thousands=".", grouped=frozenset("a"), places={"b": 2})
    >>> german.plain("-1.234,5"), german.plain("1.5"), german.spell("a", "1234.5"), german.spell("b", "1234.5")
    ('-1234.5', None, '1.234,5', '1234,50')
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    thousands: str = ""
    dates: str | None = None
    grouped: frozenset[str] = frozenset()
    places: Mapping[str, int] = field(default_factory=dict)
    found: str = ""
    suffix: str = ""

    def __post_init__(self) -> None:
        """Refuse what tells nothing of a delimited file."""
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n\0':
            text = "a delimiter must be one ASCII character other than a quote or line end"
            raise TableError(f"{text}, not {self.delimiter!r}")
        thousands = {"", ".", ",", *_SPACES, *_QUOTES} - {self.decimal}
        for name, signs in (("decimal", (".", ",")), ("thousands", thousands), ("dates", (None, "", *_ORDERS))):
            if getattr(self, name) not in signs:
                known = ", ".join(sorted(map(repr, filter(None, signs))))
                raise TableError(f"{name} must be one of {known}, not {getattr(self, name)!r}")

    def writing(self, suffix: str) -> dict[str, str]:
        """Return the options with which another delimited file is written as this one is."""
        return {"encoding": self.encoding} | ({"delimiter": self.delimiter} if suffix == self.suffix else {})

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written as in programs."""
        return self.decimal == "." and not self.thousands

    @property
    def between(self) -> str:
        """What matches a sign between thousands: one kind of spaces or apostrophes is as good as another."""
        sign = self.thousands
        return next((f"[{kind}]" for kind in (_SPACES, _QUOTES) if sign and sign in kind), re.escape(sign))

    @functools.cached_property
    def number(self) -> re.Pattern[str]:
        """What matches a number."""
        point = re.escape(self.decimal)
        grouped = f"|[1-9][0-9]{{0,2}}(?:{self.between}[0-9]{{3}})+" if self.thousands else ""
        decimals = f"(?:(?:[0-9]+{grouped})(?:{point}[0-9]*)?|{point}[0-9]+)"
        return re.compile(rf"\s*[-+]?{decimals}(?:[eE][-+]?[0-9]+)?\s*", re.ASCII)

    def plain(self, text: str) -> str | None:
        """Return a number as programs write it, None for a text that is none."""
        if self.number.fullmatch(text) is None:
            return None
        text = re.sub(self.between, "", text.strip()) if self.thousands else text
        return text.replace(self.decimal, ".")

    def spell(self, name: str, text: str) -> str:
        """Return a number that is written as in programs as a column writes it."""
        whole, point, decimals = text.partition(".")
        if name in self.grouped and whole.lstrip("-").isdigit():
            whole = f"{int(whole):,}".replace(",", self.thousands)
        return f"{whole}{point and self.decimal}{decimals.ljust(self.places.get(name, 0), '0') if point else ''}"


PLAIN = Dialect()
_KNOWN = [Dialect(decimal=d, thousands=t) for d in ".," for t in ("", ".", ",", "'", " ") if d != t]
"""How numbers are written in the world, the simplest first."""


def describe_readings(text: str, dialects: Iterable[Dialect] = _KNOWN) -> str:
    """Return what options make of a text that looks like a number; nothing for any other.

    Examples
    --------
    >>> describe_readings("1,234")
    "thousands=',' reads it as 1234, decimal=',' as 1.234"
    """
    readings: dict[str, str] = {}
    for one in dialects if _LIKE_NUMBER.fullmatch(text) else ():
        # a sign between thousands tells that before decimals, but for spaces and apostrophes
        decimal = "" if one.thousands in (".", ",") else f"decimal={one.decimal!r}"
        options = " and ".join(filter(None, (decimal, one.thousands and f"thousands={one.thousands!r}")))
        if (plain := one.plain(text)) is not None:
            readings.setdefault(plain.strip(), options)
    return ", ".join(f"{options} as {plain}" for plain, options in readings.items()).replace(" as ", " reads it as ", 1)


def default_delimiter(suffix: str) -> str:
    r"""Return the delimiter that a suffix tells.

    Examples
    --------
    >>> default_delimiter(".tsv")
    '\t'
    """
    return "\t" if suffix in (".tsv", ".tab") else ","


def sniff_dialect(
    head: bytes, suffix: str, missing: Collection[str], given: Mapping[str, str | None], states: Collection[str] = ()
) -> Dialect:
    r"""Return how a file is written, by its first bytes.

    Parameters
    ----------
    head : bytes
        The whole file, if it has fewer than `SNIFFED`.
    given : mapping from str to str or None
        What is known: "delimiter", "encoding", "decimal", "thousands", "dates".
    states : collection of str
        Columns whose cells are no numbers.

    Examples
    --------
    >>> dialect = sniff_dialect(b"a;b\n1,5;x\n2.000,25;y\n", ".csv", [""], {})
    >>> dialect.found, dialect.thousands
    ("';' between cells, decimal comma, '.' between thousands", '.')
    """
    whole, default = len(head) < SNIFFED, default_delimiter(suffix)
    known = {name: value for name, value in given.items() if value is not None}
    encoding = known.get("encoding") or _sniff_encoding(head, whole)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head, whole).removeprefix("\ufeff")
    delimiter = known.get("delimiter") or _sniff_delimiter(text, whole, default)
    usual = {"decimal": "," if known.get("thousands") == "." else ".", "dates": "", "suffix": suffix}
    dialect = Dialect(**{**usual, **known, "encoding": encoding, "delimiter": delimiter})  # type: ignore[arg-type]
    if dialect.thousands or _is_odd(text, delimiter):
        dialect = _sniff_numbers(_list_columns(text, whole, delimiter, missing, states), dialect, known)
    names = dict.fromkeys(_SPACES, "spaces") | {"\t": "tabs"}
    between = dialect.thousands and names.get(dialect.thousands, repr(dialect.thousands))
    parts = {
        "delimiter": "" if delimiter == default else f"{names.get(delimiter, repr(delimiter))} between cells",
        "decimal": "decimal comma" if dialect.decimal == "," else "",
        "thousands": between and f"{between} between thousands",
        "dates": _ORDERS.get(dialect.dates or "", ""),
        "encoding": "" if encoding.startswith("utf-8") else encoding,
    }
    return replace(dialect, found=", ".join(part for name, part in parts.items() if part and name not in known))


def _sniff_encoding(head: bytes, whole: bool) -> str:
    """Return the encoding of a text: by its mark, UTF-8 if it is that, else that of Windows in the west."""
    marked = next((name for mark, name in MARKS.items() if head.startswith(mark)), None)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, whole)
    except UnicodeDecodeError:
        # a file of which some is UTF-8, or that has control signs, is damaged or no text; its reader says where
        is_text = head.decode("utf-8", "ignore").isascii() and _CONTROL.search(head) is None
        return marked or ("cp1252" if is_text else "utf-8")
    return marked or "utf-8"


def _sniff_delimiter(text: str, whole: bool, default: str) -> str:
    """Return the sign that divides most records as the header; refuse a file that two signs divide equally well."""
    match = _HEADER.match(text)
    header = re.sub(r'"[^"]*"', "", match[1] if match is not None else "")
    signs = [sign for sign in ";\t|," if sign in header]
    if signs in ([], [default]):
        return default
    shares = {}
    for sign in signs:
        first, *widths = [len(record.cells) for record in _split(text, whole, sign)] or [0]
        shares[sign] = sum(width == first for width in widths) / max(len(widths), 1) if first > 1 else 0.0
    best = [sign for sign in signs if shares[sign] == max(shares.values())]
    if len(best) > 1 and default not in best:
        raise TableError(
            f"line 1: both {best[0]!r} and {best[1]!r} could stand between cells; give delimiter={best[0]!r} or"
            f" delimiter={best[1]!r}"
        )
    return default if default in best else best[0]


def _split(text: str, whole: bool, delimiter: str) -> Iterator[DelimitedRecord]:
    """Give the first records; none beyond one that is damaged."""
    try:
        yield from islice(Scanner(text.encode(), delimiter).split_records(text, whole=whole), 1 + _ROWS)
    except TableError:
        return


# -- numbers and dates -------------------------------------------------------------------------------------------------


def _is_odd(text: str, delimiter: str) -> bool:
    """Tell whether numbers may not be written as in programs, or the order of dates may be open."""
    if (delimiter != "," and any(sign in text for sign in ",./-")) or _DATE.search(text[: 4 * _ROWS]):
        return True
    if '"' in text and _QUOTED_COMMA.search(text):
        return True
    return any(sign in text for sign in _SPACES + _QUOTES) and _GROUP.search(text) is not None


def _list_columns(
    text: str, whole: bool, delimiter: str, missing: Collection[str], states: Collection[str]
) -> dict[str, dict[str, int]]:
    """Return the columns with their texts, each with the first of its lines."""
    records = list(_split(text, whole, delimiter))
    columns: dict[str, dict[str, int]] = {}
    for place, name in enumerate(records[0].cells if records else ()):
        cells = columns.setdefault(name.removeprefix("\0"), {})
        for record in records[1:] if name.removeprefix("\0") not in states else ():
            if place < len(record.cells) and record.cells[place] not in missing:
                cells.setdefault(record.cells[place].removeprefix("\0"), record.line)
    return columns


def _sniff_numbers(columns: Mapping[str, Mapping[str, int]], dialect: Dialect, known: Collection[str]) -> Dialect:
    """Return the dialect by which the numbers of all columns are read; refuse those that several ones read."""
    fitting = [
        one
        for one in _KNOWN
        if ("decimal" not in known or one.decimal == dialect.decimal)
        and ("thousands" not in known or one.between == dialect.between)
    ]
    telling: list[tuple[str, str, int]] = []
    for name, cells in columns.items():
        like = [text for text in cells if _LIKE_NUMBER.fullmatch(text)]
        odd = [(text, name, cells[text]) for text in like if not text.strip().lstrip("+-").isdigit()]
        reading = [one for one in _KNOWN if all(one.plain(text) is not None for text, *_ in odd)]
        if not odd or not reading or 2 * len(like) < len(cells):
            continue
        both = [one for one in fitting if one in reading]
        clash = [cell for cell in telling if not both and not any(one.plain(cell[0]) for one in reading)]
        if clash:
            raise TableError(
                f"column {name!r}, line {odd[0][2]}: {odd[0][0]!r} is written by another convention than"
                f" {clash[0][0]!r} in column {clash[0][1]!r}, line {clash[0][2]}; if one of them is no number, read the"
                f" column as text with discrete=[{name!r}] or discrete=[{clash[0][1]!r}]"
            )
        fitting, telling = both or fitting, telling + odd
    readings = {tuple(one.plain(text) for text, *_ in telling): one for one in reversed(fitting)}
    distinct = [one for one in fitting if one in readings.values()]
    # commas between cells leave points for decimals
    chosen = [one for one in distinct if dialect.delimiter == "," and one.decimal == "."] or distinct
    if len(chosen) > 1:
        text, name, line = next(cell for cell in telling if len({one.plain(cell[0]) for one in chosen}) > 1)
        raise TableError(
            f"column {name!r}, line {line}: {text!r} can be read in two ways, and no other cell tells which is meant:"
            f" {describe_readings(text, chosen)}"
        )
    (one,) = chosen
    grouped = {name: text for text, name, _ in telling if one.thousands and re.search(one.between, text.strip())}
    places: dict[str, set[int]] = {}
    for text, name, _ in telling:
        places.setdefault(name, set()).add(len(str(one.plain(text)).strip().partition(".")[2]))
    sign = re.search(one.between, next(iter(grouped.values()), "").strip())
    return replace(
        dialect,
        decimal=one.decimal,
        thousands=sign[0] if sign else one.thousands,
        grouped=frozenset(grouped),
        places={name: max(counts) for name, counts in places.items() if len(counts) == 1},
        dates=dialect.dates or _sniff_order(columns.values()),
    )


def _sniff_order(columns: Iterable[Iterable[str]]) -> str:
    """Return the order of day, month and year that some dates tell for others; nothing where all tell it themselves."""
    finders = [PatternFinder() for _ in columns]
    dated = [finder for finder, cells in zip(finders, columns, strict=True) if finder.add(cells) and finder.pattern]
    orders = {order_of_pattern(str(finder.pattern)) for finder in dated if not finder.ambiguous} & {"dmy", "mdy"}
    return orders.pop() if len(orders) == 1 and any(finder.ambiguous for finder in dated) else ""
