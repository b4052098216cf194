"""The equations of continuous nodes in GeNIe, as far as they are linear Gaussian.

``x = Normal(1 + 2*y, 3)`` and ``x = 2*y + Choose(c, 1, 5) + Normal(0, 3)`` are linear in the continuous parents, for
each state of the discrete ones. An equation is parsed once into a tree and then evaluated for each configuration, to a
constant, slopes and the variance of its noise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["LinearRule", "LinearValue", "ParentState"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r'|(?P<text>"[^"]*")|(?P<sign><>|==|[-+*/^(),=])|(?P<odd>\S))'
)
_DEEPEST = 100
"""Expressions that are nested deeper are refused, before Python's own limit of recursion is reached."""
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "=": 0, "==": 0, "<>": 0, "^": 4}
_FUNCTIONS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "abs": abs}


@dataclass(frozen=True)
class ParentState:
    """A state of a discrete parent: its code and its name."""

    code: int
    name: str


@dataclass(frozen=True)
class LinearValue:
    """A linear function with normal noise: ``constant + sum of slopes * variables + N(0, variance)``.

    `square` is the square of a constant that was written as ``Sqrt(v)``, so that a variance keeps its digits.
    """

    constant: float
    slopes: Mapping[str, float] = field(default_factory=dict)
    variance: float = 0.0
    square: float | None = None

    @property
    def plain(self) -> bool:
        """Whether this is a number."""
        return not self.slopes and self.variance == 0


class LinearRule:
    """A parsed equation; text that is none raises `ValueError`.

    Examples
    --------
    >>> rule = LinearRule("x = 2*y + Choose(c, 1, 5) + Normal(0, 3)")
    >>> rule.name, rule({"y": LinearValue(0.0, {"y": 1.0}), "c": ParentState(1, "high")})
    ('x', LinearValue(constant=5.0, slopes={'y': 2.0}, variance=9.0, square=None))
    """

    name: str

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        for match in _TOKEN.finditer(text.strip()):
            kind = match.lastgroup or "odd"
            if kind == "odd":
                raise ValueError(f"can't read {match[kind]!r} in the equation")
            self._tokens.append((kind, match[kind]))
        self._at = 0
        kind, self.name = self._take()
        if kind != "name" or self._take()[1] != "=":
            raise ValueError("an equation is written as: name = expression")
        self._tree = self._parse_expression(0, 0)
        if self._at < len(self._tokens):
            raise ValueError(f"expected the end of the equation, found {self._tokens[self._at][1]!r}")

    # -- parsing ---------------------------------------------------------------------------------------------------

    def _take(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise ValueError("the equation ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _parse_expression(self, precedence: int, depth: int) -> tuple[Any, ...]:
        if depth > _DEEPEST:
            raise ValueError(f"the equation is nested more than {_DEEPEST} times")
        left = self._parse_operand(depth)
        while (sign := self._peek()) in _PRECEDENCE and _PRECEDENCE[sign] >= precedence:
            self._take()
            left = (sign, left, self._parse_expression(_PRECEDENCE[sign] + (sign != "^"), depth + 1))
        return left

    def _parse_operand(self, depth: int) -> tuple[Any, ...]:
        kind, text = self._take()
        if kind == "number":
            return ("number", float(text))
        if kind == "text":
            return ("text", text[1:-1])
        if text == "(":
            inner = self._parse_expression(0, depth + 1)
            self._close()
            return inner
        if text in ("-", "+"):
            inner = self._parse_expression(3, depth + 1)
            return ("*", ("number", -1.0), inner) if text == "-" else inner
        if kind != "name":
            raise ValueError(f"expected a number or a name, found {text!r}")
        if self._peek() != "(":
            return ("name", text)
        self._take()
        arguments = [self._parse_expression(0, depth + 1)] if self._peek() != ")" else []
        while self._peek() == ",":
            self._take()
            arguments.append(self._parse_expression(0, depth + 1))
        self._close()
        return ("call", text.lower(), arguments)

    def _close(self) -> None:
        if (text := self._take()[1]) != ")":
            raise ValueError(f"expected `)`, found {text!r}")

    # -- evaluation ------------------------------------------------------------------------------------------------

    def __call__(self, values: Mapping[str, LinearValue | ParentState]) -> LinearValue:
        """Return the value of the equation for given states of the discrete parents."""
        return _check_linear(_evaluate(self._tree, values))


def _evaluate(
    tree: tuple[Any, ...], values: Mapping[str, LinearValue | ParentState]
) -> LinearValue | ParentState | str:
    kind, *parts = tree
    if kind == "number":
        return LinearValue(parts[0])
    if kind == "text":
        return str(parts[0])
    if kind == "name":
        if parts[0] not in values:
            raise ValueError(f"the equation mentions {parts[0]!r}, which is no parent")
        return values[parts[0]]
    if kind == "call":
        return _call_function(parts[0], parts[1], values)
    left, right = _evaluate(parts[0], values), _evaluate(parts[1], values)
    if kind in ("=", "==", "<>"):
        return LinearValue(float(_are_equal(left, right) != (kind == "<>")))
    return _combine(kind, _check_linear(left), _check_linear(right))


def _check_linear(value: LinearValue | ParentState | str) -> LinearValue:
    if isinstance(value, str):
        raise ValueError(f"the text {value[:40]!r} where a number is wanted")
    return LinearValue(float(value.code)) if isinstance(value, ParentState) else value


def _check_number(value: LinearValue | ParentState | str, what: str) -> float:
    number = _check_linear(value)
    if not number.plain:
        raise ValueError(f"{what} must be a number for given states of the discrete parents")
    return number.constant


def _are_equal(left: LinearValue | ParentState | str, right: LinearValue | ParentState | str) -> bool:
    for state, name in ((left, right), (right, left)):
        if isinstance(state, ParentState) and isinstance(name, str):
            return state.name == name
    return _check_number(left, "what is compared") == _check_number(right, "what is compared")


def _combine(sign: str, left: LinearValue, right: LinearValue) -> LinearValue:
    if sign in "+-":
        factor = 1.0 if sign == "+" else -1.0
        slopes = dict(left.slopes)
        for name, slope in right.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + factor * slope
        return LinearValue(left.constant + factor * right.constant, slopes, left.variance + right.variance)
    if sign == "*" and left.plain:
        left, right = right, left
    if not right.plain:
        raise ValueError("the equation is not linear in the continuous parents")
    if sign == "^":
        power = _check_number(left, "a base") ** right.constant
        if isinstance(power, complex):
            raise ValueError("a root of a negative number")
        return LinearValue(power)
    factor = right.constant if sign == "*" else 1.0 / right.constant
    slopes = {name: slope * factor for name, slope in left.slopes.items()}
    return LinearValue(left.constant * factor, slopes, left.variance * factor * factor)


def _call_function(
    name: str, arguments: list[tuple[Any, ...]], values: Mapping[str, LinearValue | ParentState]
) -> LinearValue | ParentState | str:
    count = len(arguments)
    if name == "normal" and count == 2:
        mean, deviation = (_check_linear(_evaluate(argument, values)) for argument in arguments)
        if not deviation.plain or deviation.constant < 0:
            raise ValueError("a standard deviation must be a number, and not negative")
        square = deviation.constant**2 if deviation.square is None else deviation.square
        return LinearValue(mean.constant, mean.slopes, mean.variance + square)
    if name in _FUNCTIONS and count == 1:
        inner = _check_number(_evaluate(arguments[0], values), f"the argument of {name}")
        return LinearValue(float(_FUNCTIONS[name](inner)), square=inner if name == "sqrt" else None)
    if name == "choose" and count > 1:
        index = int(_check_number(_evaluate(arguments[0], values), "the first argument of Choose"))
        return _evaluate(arguments[1 + min(max(index, 0), count - 2)], values)
    if name == "if" and count == 3:
        return _evaluate(arguments[1 if _check_number(_evaluate(arguments[0], values), "a condition") else 2], values)
    if name == "switch" and count > 2:
        chosen = _evaluate(arguments[0], values)
        for index in range(1, count - 1, 2):
            if _are_equal(chosen, _evaluate(arguments[index], values)):
                return _evaluate(arguments[index + 1], values)
        if count % 2 == 0:
            return _evaluate(arguments[-1], values)
        raise ValueError("no case of Switch fits")
    raise ValueError(f"the function {name!r} with {count} arguments; only linear Gaussian equations can be read")
