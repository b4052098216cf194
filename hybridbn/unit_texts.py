"""The units of texts: amounts such as $1,200.50, 38,5 % and 6.4 kg, and the pattern that all texts of a column follow.

The patterns of amounts are those of spreadsheets: in ``$#,##0.00`` commas separate thousands, and there are two
decimals after a point; in ``0,0# kg`` there are one or two after a comma; in ``#,##,##0`` digits are grouped as in
India. A minus stands in front of all, unless the pattern has one, ``$-0.00``, or shows after a semicolon that negative
amounts have parentheses in its place: ``$0.00;($0.00)``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hybridbn.units import (
    KINDS,
    Unit,
    compile_pattern,
    convert_parts,
    has_directives,
    order_of_pattern,
    parse_all_days,
    propose_patterns,
    unit_of_pattern,
)

Shape: TypeAlias = tuple[str, int, str]
"""How an amount is written: see `read_amount`."""
_SYMBOLS = {
    "currency": "USD EUR GBP CHF JPY CNY INR AUD CAD NZD SEK NOK DKK ISK PLN CZK HUF RON BGN TRY RUB UAH BRL MXN ARS"
    " CLP COP PEN ZAR KRW SGD HKD TWD THB MYR IDR PHP VND ILS AED SAR EGP NGN KES MAD PKR Euro Fr Fr. Rs Rs. kr zł Kč",
    "percent": "% ‰",
    "mass": "kg g mg µg ug ng t lb lbs oz",
    "length": "km m dm cm mm µm nm mi ft in yd",
    "area": "km² km2 m² m2 cm² cm2 mm² mm2 ha ft² ft2 sqft sqm",
    "volume": "hl L l dL dl cl mL ml µL µl m³ m3 cm³ cm3 cc gal",
    "period": "h hrs min s sec ms yr yrs",
    "temperature": "°C °F °",
    "energy": "J kJ MJ cal kcal Wh kWh MWh GWh",
    "power": "W kW MW GW hp PS",
    "pressure": "Pa hPa kPa MPa bar mbar mmHg psi",
    "frequency": "Hz kHz MHz GHz bpm rpm",
    "voltage": "mV V kV",
    "substance": "mol mmol µmol nmol IU U mEq",
    "other": "mph kph kn kB KB MB GB TB k K M bn pts",
}
"""Signs and words that may stand right behind digits, by what they measure; those of currencies before them, too."""
_MEASURES = {symbol: kind for kind, symbols in _SYMBOLS.items() for symbol in symbols.split()}
_CURRENCY = re.compile(r"[A-Za-z]{0,3}[$¢£¥฿\u20a0-\u20cf][A-Za-z]{0,3}")
_WORD = re.compile(r"\s[^\W\d_]{2,12}\.?")
"""Any other word stands behind a space; without one, it could be a part of a code."""

_TEXT = re.compile(
    r"(?P<outer>\()?(?P<before>[-−]?)(?P<prefix>\D*?)(?P<inner>\()?(?P<minus>[-−]?)"
    r"(?P<digits>\d(?:[\d.,'’\u00a0\u202f ]*\d)?)(?(inner)\))(?P<suffix>.{0,20}?)(?(outer)\))",
    re.ASCII,
)
_PATTERN = re.compile(
    r"(?P<prefix>[^#0]*?)(?P<minus>-?)(?:#(?P<group>.(?:##,)?)##)?0"
    r"(?:(?P<decimal>[.,])(?P<always>0*)(?P<sometimes>#*))?(?P<suffix>[^;]*)(?:;(?P<negative>.*\(.*))?"
)
_DIGITS = {
    sign: re.compile(
        rf"(?:0|[1-9]\d*|[1-9]\d?\d?(?P<group>[{other}'’\u00a0\u202f ])\d{{3}}(?:(?P=group)\d{{3}})*"
        rf"|[1-9]\d?(?:(?P<pairs>[{other}])\d\d)+(?P=pairs)\d{{3}})"
        rf"(?:[{sign}](?P<decimals>\d+))?",
        re.ASCII,
    )
    for sign, other in ((".", ","), (",", "."))
}
"""Numbers by the sign before their decimals. Leading zeros are those of codes."""
_UNLIKE_CODES = re.compile(r"\(.*\)|.*\d[.,'’\u00a0\u202f ]\d{2,3}[.,]\d.*")
"""Text without a symbol that is a number all the same: 1,234.50, 1,23,456 or (5)."""


def find_kind(affixed: re.Match[str]) -> str | None:
    """Return what amounts with the prefix and suffix of a text or a pattern measure; None where they are none."""
    return _find_kind(affixed["prefix"], affixed["suffix"])


@functools.lru_cache(maxsize=512)
def _find_kind(prefix: str, suffix: str) -> str | None:
    symbol = (prefix + suffix).strip()
    is_currency = _CURRENCY.fullmatch(symbol) or _MEASURES.get(symbol.upper()) == "currency"
    kind = "currency" if is_currency else _MEASURES.get(symbol)
    if not symbol:
        return "number"
    if prefix:
        return kind if kind == "currency" and not suffix else None
    each, _, per = symbol.partition("/")
    is_rate = each and per and _find_kind("", each) and _find_kind("", per)
    return kind or ("amount" if is_rate or _WORD.fullmatch(suffix) else None)


def split_amount(text: str) -> re.Match[str] | None:
    """Return the parts of a text that is an amount.

    Examples
    --------
    >>> split_amount("-$12.00")["digits"], split_amount("A12"), split_amount("12 apples")["suffix"]
    ('12.00', None, ' apples')
    """
    match = _TEXT.fullmatch(text.strip())
    return match if match is not None and find_kind(match) is not None else None


@functools.lru_cache(maxsize=512)
def read_pattern(pattern: str) -> re.Match[str]:
    """Return the parts of a pattern."""
    match = _PATTERN.fullmatch(pattern)
    if match is None or find_kind(match) is None:
        raise ValueError(f"a pattern is like %Y-%m-%d, $#,##0.00 or 0,0 kg; found {pattern!r}")
    return match


def name_symbol(affixed: re.Match[str]) -> str:
    """Return what stands beside the digits of a text or a pattern.

    Examples
    --------
    >>> name_symbol(read_pattern("0,0 %")), name_symbol(split_amount("$1"))
    ('%', '$')
    """
    return str(affixed["prefix"] + affixed["suffix"]).strip()


def propose_amounts(text: str) -> list[str]:
    """Return the stripped patterns that a text may follow.

    Examples
    --------
    >>> propose_amounts("12.5 %"), propose_amounts("12"), propose_amounts("(12)")
    (['0.# %', '0,# %'], [], ['0.#', '0,#'])
    """
    parts = split_amount(text)
    if parts is None or not (name_symbol(parts) or _UNLIKE_CODES.fullmatch(text)):
        return []
    return [f"{parts['prefix']}0{sign}#{parts['suffix']}" for sign in _DIGITS]


def read_amount(pattern: str, text: str) -> tuple[float, Shape] | None:
    """Return a text with the symbol and the decimals of a pattern as a number, and how it is written: the sign between
    thousands, in a pattern, how many decimals, and what is right before the digits or around all of it in the place of
    a minus in front; None for others.

    Examples
    --------
    >>> read_amount("0,# €", "-1.234,50 €"), read_amount("0.# €", "-1.234,50 €"), read_amount("$0.#", "($1,23,456)")
    ((-1234.5, ('.', 2, '')), None, (-123456.0, (',##,', 0, '()')))
    """
    parts, form = split_amount(text), read_pattern(pattern)
    if parts is None or name_symbol(parts) != name_symbol(form):
        return None
    sign = form["decimal"] or "."
    match = _DIGITS[sign].fullmatch(parts["digits"])
    signs = {"": parts["before"], "-": parts["minus"], "()": parts["outer"], "(": parts["inner"]}
    used = [style for style, sign in signs.items() if sign]
    if match is None or len(used) > 1:
        return None
    group, decimals = match["group"] or match["pairs"] or "", match["decimals"] or ""
    number = float(parts["digits"].replace(group or " ", "").replace(sign, "."))
    token = f"{group}##{group}" if match["pairs"] else group
    return (-number if used else number), (token, len(decimals), "".join(used))


def complete_pattern(stripped: str, shapes: Collection[Shape]) -> str:
    """Return a pattern with the decimals and the signs that texts have.

    Examples
    --------
    >>> complete_pattern("0,# kg", {(".", 1, ""), ("", 2, "")}), complete_pattern("$0.#", {("", 2, ""), ("", 2, "()")})
    ('#.##0,0# kg', '$0.00;($0.00)')
    """
    parts = read_pattern(stripped)
    groups, decimals, styles = zip(*shapes, strict=True)
    thousands = f"#{max(groups)}##" if any(groups) else ""
    places = "0" * min(decimals) + "#" * (max(decimals) - min(decimals))
    digits = f"{thousands}0{parts['decimal'] if places else ''}{places}"
    negatives = {style: _surround(style, parts, digits) for style in ("()", "(") if style in styles}
    whole = _surround("-" if "-" in styles else "", parts, digits)
    return ";".join([whole, *negatives.values()][:2])


def _surround(style: str, affixed: re.Match[str], digits: str) -> str:
    """Return digits between a prefix and a suffix, with signs of a style."""
    inner = {"-": f"-{digits}", "(": f"({digits})"}.get(style, digits)
    whole = f"{affixed['prefix']}{inner}{affixed['suffix']}"
    return f"({whole})" if style == "()" else whole


# -- units -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Amount(Unit):
    """What the numbers of a continuous variable count, and how texts write them.

    Parameters
    ----------
    kind : str
        What is measured, such as "currency", "percent" or "mass", or "amount" of anything else.
    pattern : str
        As in ``$#,##0.00``; see the top of this module. The step and the zone mean nothing.

    Examples
    --------
    >>> price = Amount("currency", pattern="#.##0,00 €")
    >>> price.number("1.234,50 €"), price.number("7.5 €"), price.text(-1234.5), price.name
    (1234.5, 7.5, '-1.234,50 €', '€')
    """

    is_time: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or not isinstance(self.pattern, str):
            raise ValueError(f"an amount has a kind and a pattern such as $#,##0.00, not {self.pattern!r}")
        read_pattern(self.pattern)

    @property
    def name(self) -> str:
        """What is counted."""
        return name_symbol(read_pattern(str(self.pattern)))

    def _guess(self, text: str) -> Iterable[Unit]:
        """Return units of the patterns that a text may follow."""
        return map(make_amount, propose_amounts(text))

    def parse(self, text: str) -> float | None:
        """Return the number of a text that follows the pattern; None for any other."""
        found = read_amount(str(self.pattern), text)
        return None if found is None else found[0]

    @property
    def _decimals(self) -> int:
        parts = read_pattern(str(self.pattern))
        return len((parts["always"] or "") + (parts["sometimes"] or ""))

    @property
    def spacing(self) -> float:
        """The last decimal that texts have."""
        return 10.0**-self._decimals

    def round(self, numbers: Any) -> NDArray[np.float64]:
        """Return numbers with the decimals that texts have."""
        return np.asarray(np.round(np.asarray(numbers, dtype=np.float64), self._decimals) + 0.0)

    def text(self, number: float) -> str:
        """Return a number as text.

        Examples
        --------
        >>> make_amount("#.##0,00 €").text(-1234.5), make_amount("$0.0#").text(2.0), make_amount("$-0").text(-2.0)
        ('-1.234,50 €', '$2.0', '$-2')
        """
        parts = read_pattern(str(self.pattern))
        least, most, group = len(parts["always"] or ""), self._decimals, parts["group"] or ""
        whole, _, decimals = f"{abs(round(number, most)):.{most}f}".partition(".")
        decimals = decimals[:least] + decimals[least:].rstrip("0")
        thousands = re.compile(rf"(?<=\d)(?=(?:\d{{{3 if len(group) < 2 else 2}}})*\d{{3}}$)")
        digits = thousands.sub(group[:1], whole) + (decimals and parts["decimal"] + decimals)
        is_negative, negative, style = bool(round(number, most) < 0), parts["negative"], parts["minus"]
        if negative:
            style = "()" if negative.startswith("(") and negative.endswith(")") else "("
        return "-" * (is_negative and not style) + _surround(style if is_negative else "", parts, digits)


def make_amount(pattern: str) -> Amount:
    """Return the unit of amounts that follow a pattern.

    Examples
    --------
    >>> make_amount("0.0 kg").describe()
    'mass, 0.0 kg'
    """
    return Amount(find_kind(read_pattern(pattern)) or "amount", pattern=pattern)


def unit_of_texts(pattern: str, zone: str | None = None) -> Unit:
    """Return the unit of texts that follow a pattern, of dates and times or of amounts."""
    return unit_of_pattern(pattern, zone) if has_directives(pattern) else make_amount(pattern)


def read_unit(plain: Mapping[str, Any]) -> Unit:
    """Make a unit again from what `to_dict` returned.

    Examples
    --------
    >>> read_unit(make_amount("0 kg").to_dict()).name, read_unit(Unit("date").to_dict()).name
    ('kg', 'days since 1970-01-01')
    """
    return (Unit if plain["kind"] in KINDS else Amount).from_dict(plain)


# -- columns ---------------------------------------------------------------------------------------------------------


class PatternFinder:
    """Finds the pattern that all texts of a column follow, whatever blocks they come in.

    Parameters
    ----------
    preferred : str, optional
        The pattern that comes first where texts allow several, or its order of day, month and year, such as "dmy".

    Attributes
    ----------
    ambiguous : bool
        Whether the texts could have day and month in either order, or amounts either decimals or thousands.
    example : str
        The first text.
    zone : str or None
        The first offset from UTC.

    Examples
    --------
    >>> finder = PatternFinder()
    >>> finder.add(["1/2/2024"]), finder.ambiguous, finder.add(["28/2/2024"]), finder.ambiguous
    (True, True, True, False)
    >>> finder.pattern, PatternFinder().add(["1/2/2024", "unknown"])
    ('%-d/%-m/%Y', False)
    >>> finder = PatternFinder()
    >>> finder.add(["$295.99", "-$1,200.50"]), finder.pattern, finder.numbers
    (True, '$#,##0.00', [295.99, -1200.5])
    """

    def __init__(self, preferred: str | None = None) -> None:
        self._preferred = None if preferred is None else _plain(preferred)
        self._candidates: list[str] | None = None
        self._unpadded: dict[str, set[str]] = {}
        self._shapes: dict[str, set[Shape]] = {}
        self._numbers: dict[str, list[float]] = {}
        self._decimals = 0
        self.zone: str | None = None
        self.example: str = ""

    def add(self, texts: Iterable[str]) -> bool:
        """Add texts; return whether there is still a pattern that all texts follow."""
        listed = [text.strip() for text in texts]
        if self._candidates is None and listed:
            is_number = any(form.fullmatch(listed[0].lstrip("-")) for form in _DIGITS.values())
            self.example = next(filter(_UNLIKE_CODES.fullmatch, listed if is_number else ()), listed[0])
            self._candidates = propose_patterns(self.example) or propose_amounts(self.example)
        if listed:
            left = [candidate for candidate in self._candidates or () if self._follow(candidate, listed)]
            self._candidates = sorted(left, key=self._rank)
        return bool(self._candidates)

    def _rank(self, candidate: str) -> tuple[bool, int, int]:
        """Return less for likelier candidates: amounts have all as many decimals, and currencies hardly three."""
        decimals = {decimals for _, decimals, _ in self._shapes.get(candidate, ())}
        most = max(decimals) if decimals and find_kind(read_pattern(candidate)) == "currency" else 0
        is_preferred = self._preferred in (candidate, order_of_pattern(candidate) or candidate)
        return not is_preferred, len(decimals), most

    def _follow_amounts(self, candidate: str, texts: Sequence[str]) -> bool:
        numbers = self._numbers[candidate] = []
        shapes = self._shapes.setdefault(candidate, set())
        for text in texts:
            amount = read_amount(candidate, text)
            if amount is None:
                return False
            numbers.append(amount[0])
            shapes.add(amount[1])
        # without a symbol, parentheses around all are those of footnotes
        is_amount = candidate.strip("0.,#") or any(style != "()" for *_, style in shapes)
        return bool(is_amount) and len({group[:1] for group, _, _ in shapes} - {""}) <= 1

    def _follow(self, candidate: str, texts: Sequence[str]) -> bool:
        if not has_directives(candidate):
            return self._follow_amounts(candidate, texts)
        compiled, directives, signed = compile_pattern(candidate)
        unpadded = self._unpadded.setdefault(candidate, set())
        parsed = parse_all_days(candidate, texts)
        numbers = self._numbers[candidate] = parsed or []
        if parsed is not None:
            return True
        for text in texts:
            match = compiled.fullmatch(text)
            number = None if match is None else convert_parts(directives, match.groups(), signed)
            if match is None or number is None:
                return False
            numbers.append(number)
            for directive, part in zip(directives, match.groups(), strict=True):
                if directive in "mdHIT" and f"%{directive}" in candidate:
                    if len(part) == 1:
                        unpadded.add(directive)
                        if ".%y" in candidate:  # such as 1.2.10, which numbers a version
                            return False
                elif directive == "S":
                    self._decimals = max(self._decimals, len(part.partition(".")[2]))
                elif directive in ("z", ":z", "Z") and self.zone is None:
                    self.zone = "UTC" if directive == "Z" else part
        return True

    @property
    def ambiguous(self) -> bool:
        """Whether the texts could be read in either of two ways, and no preferred pattern decides it.

        Nobody writes the month before the day with points between them.
        """
        rivals = [rival for rival in self._candidates or () if rival in self._shapes or "." not in rival]
        orders = {order_of_pattern(rival) or frozenset(self._shapes.get(rival, ())) for rival in rivals}
        return len(orders) > 1 and self._rank(rivals[0]) == self._rank(rivals[1])

    @property
    def candidates(self) -> list[str]:
        """The patterns that all texts follow, the likeliest first."""
        return [
            complete_pattern(one, self._shapes[one]) if one in self._shapes else one for one in self._candidates or ()
        ]

    @property
    def numbers(self) -> list[float]:
        """The texts that were added last as numbers, by the pattern."""
        return self._numbers[self._candidates[0]] if self._candidates else []

    @property
    def unit(self) -> Unit | None:
        """The unit of the texts; None where there is no pattern."""
        return None if self.pattern is None else unit_of_texts(self.pattern, self.zone)

    @property
    def pattern(self) -> str | None:
        """The pattern of the texts; None where there is none, or no text yet."""
        if not self._candidates:
            return None
        pattern = self.candidates[0]
        if self._decimals:
            pattern = re.sub(r"(%-?S)", rf"\1.%{min(self._decimals, 9)}f", pattern)
        for directive in self._unpadded.get(self._candidates[0], ()):
            pattern = pattern.replace(f"%{directive}", f"%-{directive}")
        return pattern


def _plain(pattern: str) -> str:
    if "0" in pattern and not has_directives(pattern):
        parts = read_pattern(pattern)
        return f"{parts['prefix']}0{parts['decimal'] or '.'}#{parts['suffix']}"
    return re.sub(r"\.%\df", "", pattern).replace("%-", "%")


def describe_mixture(texts: Sequence[str]) -> str | None:
    """Return in which ways the amounts of a column are written that is not one; None where they are no such amounts.

    Examples
    --------
    >>> describe_mixture(["5 kg", "300 g"]), describe_mixture(["5,2 kg", "6.1 kg"]), describe_mixture(["5 kg", "a"])
    ("of mass in 'g' and 'kg'", "of mass in 'kg' with different signs before decimals", None)
    """
    amounts = [parts for parts in map(split_amount, texts if split_amount(texts[0]) else ()) if parts is not None]
    symbols, kinds = sorted(set(map(name_symbol, amounts))), set(map(find_kind, amounts))
    if len(amounts) < len(texts) or len(kinds) != 1 or kinds <= {"amount", "other", "number"}:
        return None
    signs = " with different signs before decimals" if len(symbols) < 2 else ""
    return f"of {kinds.pop()} in {' and '.join(map(repr, symbols))}{signs}"
