"""An MTE as the formula that papers print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from hybridbn.potentials.mte.checks import place
from hybridbn.potentials.mte.pieces import unanchored
from hybridbn.potentials.mte.terms import Terms
from hybridbn.variables import Continuous, Discrete, Values, Variable

__all__ = ["formula"]

_MOST_PIECES = 8
_MOST_TERMS = 8
_LARGEST, _SMALLEST = Decimal("1e9"), Decimal("1e-9")


def formula(terms: Terms, columns: Sequence[Variable], head: str) -> str:
    """Write pieces one below the other, each with its terms and where it holds.

    Coefficients have six digits, and stand for terms with their anchor at zero as in papers; where that would make them
    very large or very small, a term is written with its anchor, as ``2.1 exp(50 (x - 20))``.
    """
    names = [v.name for v in columns if isinstance(v, Continuous)]
    lines, places = [], []
    shown = min(len(terms.codes), _MOST_PIECES)
    for p in range(shown):
        lines.append(_sum(terms, p, names))
        places.append(place(columns, list(terms.codes[p]), list(terms.low[p]), list(terms.high[p])))
    width = min(max((len(line) for line in lines), default=0), 60)
    body = [f"  {line:<{width}}  if {where}" for line, where in zip(lines, places, strict=True)]
    if len(terms.codes) > shown:
        body.append(f"  ... ({len(terms.codes)} pieces in all)")
    return "\n".join([f"{head} =", *body]) if body else f"{head} = 0"


def _sum(terms: Terms, piece: int, names: Sequence[str]) -> str:
    t = list(range(terms.starts[piece], terms.starts[piece + 1]))
    t.sort(key=lambda i: bool(terms.rates[i].any()))  # the constant first
    text = ""
    for i in t[:_MOST_TERMS]:
        number, wave = _term(float(terms.coefficient[i]), terms.rates[i], terms.anchors[i], names)
        size = f"{abs(number):.6g}" + (f" {wave}" if wave else "")
        negative = number < 0
        text += (f" {'-' if negative else '+'} " if text else "-" if negative else "") + size
    return (text or "0") + (f" + ... ({len(t)} terms)" if len(t) > _MOST_TERMS else "")


def _term(coefficient: float, rates: Values, anchors: Values, names: Sequence[str]) -> tuple[float, str]:
    moving = np.flatnonzero(rates).tolist()
    if not moving:
        return coefficient, ""
    at_zero = unanchored(coefficient, rates[moving], anchors[moving])
    plain = not at_zero or _SMALLEST <= at_zero.copy_abs() <= _LARGEST
    parts = []
    for j in moving:
        anchor = 0.0 if plain else float(anchors[j])
        what = names[j] if anchor == 0 else f"({names[j]} {'-' if anchor > 0 else '+'} {abs(anchor):.10g})"
        parts.append((float(rates[j]), what))
    inner = ""
    for rate, what in parts:
        size = "" if math.isclose(abs(rate), 1.0, rel_tol=1e-6) else f"{abs(rate):.6g} "
        sign = (" - " if rate < 0 else " + ") if inner else ("-" if rate < 0 else "")
        inner += f"{sign}{size}{what}"
    return (float(at_zero) if plain else coefficient), f"exp({inner})"


def head(child: Variable, parents: Sequence[Variable]) -> str:
    """Return ``f(y | c, x)``, with P for a discrete child."""
    given = f" | {', '.join(p.name for p in parents)}" if parents else ""
    return f"{'P' if isinstance(child, Discrete) else 'f'}({child.name}{given})"
