"""Small pictures in SVG for the report: distributions, courses over rounds, and patterns of missing cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

__all__ = ["bars", "course", "histogram", "patterns", "short", "shortened", "span"]

_WIDTH, _HEIGHT = 360, 150
_LEFT, _BOTTOM, _TOP = 8, 20, 6
_FEW = 20
"""So few numbers are dots, not shares."""


def short(value: float) -> str:
    """Return a number with as many digits as a label needs.

    Examples
    --------
    >>> short(1234567.0), short(0.123456), short(-2.0)
    ('1,234,567', '0.1235', '-2')
    """
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value)))) if value else 0
    text = f"{value:,.{min(digits, 6)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def span(low: float, high: float) -> tuple[str, str]:
    """Return the two ends of an axis with so many digits that they say where it lies.

    Examples
    --------
    >>> span(0.0, 12.5), span(9.97e11, 1.0031e12)
    (('0', '12.5'), ('9.9700e+11', '1.0031e+12'))
    """
    largest = max(abs(low), abs(high))
    digits = math.ceil(math.log10(largest / (high - low))) + 2 if high > low and largest else 0
    if digits <= 3 or largest / (high - low) > 1e13:
        return short(low), short(high)
    if 1e-4 <= largest < 1e9:
        places = max(0, digits - 1 - math.floor(math.log10(largest)))
        return f"{low:,.{places}f}", f"{high:,.{places}f}"
    return f"{low:.{digits - 1}e}", f"{high:.{digits - 1}e}"


def shortened(text: str, most: int) -> str:
    """Return a text without its middle where it is too long: what tells names apart is often at their end.

    Examples
    --------
    >>> shortened("a very long name, number 7", 12)
    'a very…ber 7'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def _svg(width: float, height: float, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(label)}"><title>{escape(label)}</title>{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{escape(text)}</text>'


def histogram(
    ends: Sequence[float],
    observed: Sequence[float],
    imputed: Sequence[float],
    beyond: tuple[float, float],
    outside: tuple[float, float],
) -> str:
    """Draw the shares of observed numbers as an area and of imputed ones as a line.

    Parameters
    ----------
    ends : sequence of float
        Of the bins.
    observed, imputed : sequences of counts
        One for each bin.
    beyond, outside : (below, above)
        How many observed and imputed numbers lie beyond the bins.
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
    for place, share in enumerate(shares):
        if share:
            x, y = margin + place * step, floor - share * scale
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
        centers = [8.0, *(margin + (place + 0.5) * step for place in range(len(shares))), _WIDTH - 8.0]
        for x, count in zip(centers, (outside[0], *imputed, outside[1]), strict=True):
            parts += [
                f'<circle class="dot" cx="{x:.2f}" cy="{floor - 4 - 7 * i:.2f}" r="3"/>' for i in range(round(count))
            ]
    else:
        parts.append(f'<path class="i" d="{_steps(lines, margin, step, floor, scale)}"/>')
        for share, x in ((tails[0], 4.0), (tails[1], _WIDTH - margin + 8.0)):
            if share:
                y = floor - max(share * scale, 1.5)
                parts.append(
                    f'<rect class="i" x="{x:.1f}" y="{y:.2f}" width="{margin - 12:.1f}" height="{floor - y:.2f}"/>'
                )
    if below:
        parts.append(_text(3, _HEIGHT - 5, "below"))
    if above:
        parts.append(_text(_WIDTH - 3, _HEIGHT - 5, "above", "end"))
    parts.append(f'<path class="axis" d="M{margin:.1f} {floor:.1f}H{_WIDTH - margin:.1f}"/>')
    inset = 8 if below or above else 0
    low, high = ends[0], ends[-1]
    if low % 1 == 0.5 and high % 1 == 0.5:
        low, high = low + 0.5, high - 0.5  # bins around whole numbers
    first, last = span(low, high)
    parts.append(_text(margin + inset, _HEIGHT - 5, first))
    parts.append(_text(_WIDTH - margin - inset, _HEIGHT - 5, last, "end"))
    return _svg(_WIDTH, _HEIGHT, parts, "distribution of observed and imputed numbers")


def _steps(lines: Sequence[float], margin: float, step: float, floor: float, scale: float) -> str:
    """Return the outline of bars that stand beside each other, nothing where there are none."""
    points, up = [], False
    for place, share in enumerate([*lines, 0.0]):
        x, y = margin + place * step, floor - share * scale
        if share and not up:
            points.append(f"M{x:.2f} {floor:.2f}")
        if share:
            points.append(f"L{x:.2f} {y:.2f}L{x + step:.2f} {y:.2f}")
        elif up:
            points.append(f"L{x:.2f} {floor:.2f}")
        up = bool(share)
    return "".join(points)


def bars(labels: Sequence[str], observed: Sequence[float], imputed: Sequence[float]) -> str:
    """Draw the shares of states, observed above imputed."""
    total, others = sum(observed) or 1.0, sum(imputed)
    highest = max([c / total for c in observed] + [c / others for c in imputed if others]) or 1.0
    row, left, right = 26, 120, 44
    scale = (_WIDTH - left - right) / highest
    parts = []
    for place, (label, seen, filled) in enumerate(zip(labels, observed, imputed, strict=True)):
        y = 4 + place * row
        shown = _text(left - 6, y + 14, shortened(label, 18), "end")
        parts.append(f"<g><title>{escape(label)}</title>{shown}</g>")
        share = seen / total
        parts.append(f'<rect class="o" x="{left}" y="{y}" width="{share * scale:.2f}" height="9"/>')
        parts.append(_text(left + share * scale + 4, y + 8.5, f"{share:.1%}", kind="small"))
        if others:
            share = filled / others
            parts.append(f'<rect class="b" x="{left}" y="{y + 10}" width="{share * scale:.2f}" height="9"/>')
            parts.append(_text(left + share * scale + 4, y + 19, f"{share:.1%}", kind="small"))
    return _svg(_WIDTH, 6 + row * len(labels), parts, "shares of observed and imputed states")


def course(values: Sequence[float], spreads: Sequence[float] | None, observed: float | None = None) -> str:
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

    def at(place: int, value: float) -> str:
        return f"{left + place * step:.2f} {floor - (value - low) / (high - low) * (floor - _TOP):.2f}"

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
    least, most = span(low, high)
    parts.append(_text(left - 5, _TOP + 8, most, "end"))
    parts.append(_text(left - 5, floor, least, "end"))
    parts.append(_text(left, height - 5, "round 1"))
    if len(values) > 1:
        parts.append(_text(width - _LEFT, height - 5, str(len(values)), "end"))
    return _svg(width, height, parts, "what each round of learning drew")


def patterns(names: Sequence[str], rows: Sequence[tuple[Sequence[bool], str]]) -> str:
    """Draw which cells are missing together: a line for each pattern, with how many rows have it."""
    cell, top, right = 16, 98, 190
    width, height = len(names) * cell + right, top + len(rows) * cell + 4
    parts = []
    for place, name in enumerate(names):
        x, y = place * cell + cell * 0.7, top - 6
        shown = shortened(name, 15)
        parts.append(
            f'<g><title>{escape(name)}</title><text x="{x:.1f}" y="{y}" transform="rotate(-60 {x:.1f} {y})">{escape(shown)}</text></g>'
        )
    for line, (missing, label) in enumerate(rows):
        y = top + line * cell
        for place, hole in enumerate(missing):
            kind = "hole" if hole else "full"
            parts.append(
                f'<rect class="{kind}" x="{place * cell + 1}" y="{y + 1}" width="{cell - 2}" height="{cell - 2}"/>'
            )
        parts.append(_text(len(names) * cell + 8, y + 12, label))
    return _svg(width, height, parts, "which cells are missing together")
