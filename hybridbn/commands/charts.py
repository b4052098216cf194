"""The charts of a report as SVG: histograms, bars, rounds of a chain and patterns of missing cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

__all__ = [
    "draw_bars",
    "draw_histogram",
    "draw_patterns",
    "draw_rounds",
    "format_number",
    "format_range",
    "shorten_text",
]

_WIDTH, _HEIGHT = 360, 150
_LEFT, _BOTTOM, _TOP = 8, 20, 6
"""The size of a chart and its margins in pixels."""
_FEW = 20
"""Fewer imputed numbers than this are drawn as dots instead of shares."""


def format_number(value: float) -> str:
    """Return a number with four significant digits or so, for a label.

    Examples
    --------
    >>> format_number(1234567.0), format_number(0.123456), format_number(-2.0)
    ('1,234,567', '0.1235', '-2')
    """
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_range(low: float, high: float) -> tuple[str, str]:
    """Return the two ends of an axis as text, with enough digits to tell them apart.

    Examples
    --------
    >>> format_range(0.0, 12.5), format_range(9.97e11, 1.0031e12)
    (('0', '12.5'), ('9.9700e+11', '1.0031e+12'))
    """
    largest = max(abs(low), abs(high))
    digits = math.ceil(math.log10(largest / (high - low))) + 2 if high > low and largest else 0
    if digits <= 3 or largest / (high - low) > 1e13:
        return format_number(low), format_number(high)
    if 1e-4 <= largest < 1e9:
        places = max(0, digits - 1 - math.floor(math.log10(largest)))
        return f"{low:,.{places}f}", f"{high:,.{places}f}"
    return f"{low:.{digits - 1}e}", f"{high:.{digits - 1}e}"


def shorten_text(text: str, most: int) -> str:
    """Cut the middle out of a text longer than `most`, as long names often differ at their end.

    Examples
    --------
    >>> shorten_text("a very long name, number 7", 12)
    'a very…ber 7'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def _wrap_svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(parts)}</svg>'
    )


def _draw_text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}"'
        f' text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{escape(text)}</text>'
    )


def draw_histogram(
    ends: Sequence[float],
    observed: Sequence[float],
    imputed: Sequence[float],
    beyond: tuple[float, float],
    outside: tuple[float, float],
    labels: tuple[str, str] | None = None,
) -> str:
    """Draw the shares of observed numbers as an area and of imputed ones as a line.

    Parameters
    ----------
    ends : sequence of float
        The edges of the bins.
    observed, imputed : sequences of counts
        One count for each bin.
    beyond, outside : (below, above)
        How many observed and imputed numbers lie beyond the bins.
    labels : (first, last), optional
        What to write at the ends of the axis instead of numbers.
    """
    total = (sum(observed) + sum(beyond)) or 1.0
    others = (sum(imputed) + sum(outside)) or 1.0
    few = others < _FEW
    shares = [c / total for c in observed]
    lines = [0.0 if few else c / others for c in imputed]
    tails = [0.0 if few else c / others for c in outside]
    far = [c / total for c in beyond]
    highest = max([*shares, *lines, *tails, *far]) or 1.0
    below, above = (bool(beyond[side] or outside[side]) for side in (0, 1))
    margin = 34 if below or above else _LEFT
    step = (_WIDTH - 2 * margin) / len(shares)
    floor = _HEIGHT - _BOTTOM
    scale = (floor - _TOP) / highest
    parts = []
    for index, share in enumerate(shares):
        if share:
            x, y = margin + index * step, floor - share * scale
            parts.append(
                f'<rect class="o" x="{x:.2f}" y="{y:.2f}" width="{max(step - 0.6, 0.6):.2f}" height="{floor - y:.2f}"/>'
            )
    for share, x in ((far[0], 4.0), (far[1], _WIDTH - margin + 8.0)):
        if share:
            y = floor - max(share * scale, 1.0)
            parts.append(
                f'<rect class="o" x="{x:.1f}" y="{y:.2f}" width="{margin - 12:.1f}" height="{floor - y:.2f}"/>'
            )
    if few:
        centers = [8.0, *(margin + (index + 0.5) * step for index in range(len(shares))), _WIDTH - 8.0]
        for x, count in zip(centers, (outside[0], *imputed, outside[1]), strict=True):
            parts += [
                f'<circle class="dot" cx="{x:.2f}" cy="{floor - 4 - 7 * i:.2f}" r="3"/>' for i in range(round(count))
            ]
    else:
        parts.append(f'<path class="i" d="{_outline(lines, margin, step, floor, scale)}"/>')
        for share, x in ((tails[0], 4.0), (tails[1], _WIDTH - margin + 8.0)):
            if share:
                y = floor - max(share * scale, 1.5)
                parts.append(
                    f'<rect class="i" x="{x:.1f}" y="{y:.2f}" width="{margin - 12:.1f}" height="{floor - y:.2f}"/>'
                )
    if below:
        parts.append(_draw_text(3, _HEIGHT - 5, "below"))
    if above:
        parts.append(_draw_text(_WIDTH - 3, _HEIGHT - 5, "above", "end"))
    parts.append(f'<path class="axis" d="M{margin:.1f} {floor:.1f}H{_WIDTH - margin:.1f}"/>')
    inset = 8 if below or above else 0
    low, high = ends[0], ends[-1]
    if low % 1 == 0.5 and high % 1 == 0.5:
        low, high = low + 0.5, high - 0.5  # the bins are centered on whole numbers
    first, last = labels or format_range(low, high)
    parts.append(_draw_text(margin + inset, _HEIGHT - 5, first))
    parts.append(_draw_text(_WIDTH - margin - inset, _HEIGHT - 5, last, "end"))
    return _wrap_svg(_WIDTH, _HEIGHT, parts, "distribution of observed and imputed numbers")


def _outline(lines: Sequence[float], margin: float, step: float, floor: float, scale: float) -> str:
    """Return the outline of adjacent bars as an SVG path; bars of height zero are left out."""
    points, up = [], False
    for index, share in enumerate([*lines, 0.0]):
        x, y = margin + index * step, floor - share * scale
        if share and not up:
            points.append(f"M{x:.2f} {floor:.2f}")
        if share:
            points.append(f"L{x:.2f} {y:.2f}L{x + step:.2f} {y:.2f}")
        elif up:
            points.append(f"L{x:.2f} {floor:.2f}")
        up = bool(share)
    return "".join(points)


def draw_bars(labels: Sequence[str], observed: Sequence[float], imputed: Sequence[float]) -> str:
    """Draw the shares of states as pairs of bars, observed above imputed."""
    total, others = sum(observed) or 1.0, sum(imputed)
    highest = max([c / total for c in observed] + [c / others for c in imputed if others]) or 1.0
    row, left, right = 26, 120, 44
    scale = (_WIDTH - left - right) / highest
    parts = []
    for index, (label, observed_count, imputed_count) in enumerate(zip(labels, observed, imputed, strict=True)):
        y = 4 + index * row
        shown = _draw_text(left - 6, y + 14, shorten_text(label, 18), "end")
        parts.append(f"<g><title>{escape(label)}</title>{shown}</g>")
        share = observed_count / total
        parts.append(f'<rect class="o" x="{left}" y="{y}" width="{share * scale:.2f}" height="9"/>')
        parts.append(_draw_text(left + share * scale + 4, y + 8.5, f"{share:.1%}", kind="small"))
        if others:
            share = imputed_count / others
            parts.append(f'<rect class="b" x="{left}" y="{y + 10}" width="{share * scale:.2f}" height="9"/>')
            parts.append(_draw_text(left + share * scale + 4, y + 19, f"{share:.1%}", kind="small"))
    return _wrap_svg(_WIDTH, 6 + row * len(labels), parts, "shares of observed and imputed states")


def draw_rounds(values: Sequence[float], spreads: Sequence[float] | None, observed: float | None = None) -> str:
    """Draw what each round of learning drew: a line of means or shares, and a band of one standard deviation.

    `observed` is the mean of the observed numbers, a dashed line.
    """
    width, height = 258, _HEIGHT
    band = spreads or [0.0] * len(values)
    low = min(v - s for v, s in zip(values, band, strict=True))
    high = max(v + s for v, s in zip(values, band, strict=True))
    if observed is not None:
        low, high = min(low, observed), max(high, observed)
    if spreads is None:
        low, high = min(low, 0.0), max(high, 1.0)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    floor, left = height - _BOTTOM, 76
    step = (width - left - _LEFT) / max(len(values) - 1, 1)

    def at(index: int, value: float) -> str:
        return f"{left + index * step:.2f} {floor - (value - low) / (high - low) * (floor - _TOP):.2f}"

    parts = []
    if spreads is not None and len(values) > 1:
        upper = [at(i, v + s) for i, (v, s) in enumerate(zip(values, band, strict=True))]
        lower = [at(i, v - s) for i, (v, s) in enumerate(zip(values, band, strict=True))]
        parts.append(f'<path class="band" d="M{"L".join([*upper, *reversed(lower)])}Z"/>')
    if observed is not None:
        y = at(0, observed).split()[1]
        parts.append(f'<path class="dash" d="M{left} {y}H{width - _LEFT}"/>')
    if len(values) > 1:
        parts.append(f'<path class="i" d="M{"L".join(at(i, v) for i, v in enumerate(values))}"/>')
    parts += [
        f'<circle class="dot" cx="{x}" cy="{y}" r="2"/>' for x, y in (at(i, v).split() for i, v in enumerate(values))
    ]
    parts.append(f'<path class="axis" d="M{left:.1f} {_TOP}V{floor:.1f}H{width - _LEFT:.1f}"/>')
    least, most = format_range(low, high)
    parts.append(_draw_text(left - 5, _TOP + 8, most, "end"))
    parts.append(_draw_text(left - 5, floor, least, "end"))
    parts.append(_draw_text(left, height - 5, "round 1"))
    if len(values) > 1:
        parts.append(_draw_text(width - _LEFT, height - 5, str(len(values)), "end"))
    return _wrap_svg(width, height, parts, "what each round of learning drew")


def draw_patterns(names: Sequence[str], rows: Sequence[tuple[Sequence[bool], str]]) -> str:
    """Draw the patterns of missing cells: a line for each, with the number of rows that have it."""
    cell, top, right = 16, 98, 190
    width, height = len(names) * cell + right, top + len(rows) * cell + 4
    parts = []
    for index, name in enumerate(names):
        x, y = index * cell + cell * 0.7, top - 6
        shown = shorten_text(name, 15)
        parts.append(
            f'<g><title>{escape(name)}</title><text x="{x:.1f}" y="{y}" transform="rotate(-60 {x:.1f}'
            f' {y})">{escape(shown)}</text></g>'
        )
    for line, (missing, label) in enumerate(rows):
        y = top + line * cell
        for index, hole in enumerate(missing):
            kind = "hole" if hole else "full"
            parts.append(
                f'<rect class="{kind}" x="{index * cell + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}"/>'
            )
        parts.append(_draw_text(len(names) * cell + 8, y + 12, label))
    return _wrap_svg(width, height, parts, "which cells are missing together")
