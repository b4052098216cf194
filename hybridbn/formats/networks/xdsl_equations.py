"""The equations of continuous nodes in GeNIe, as far as they say that a node is linear Gaussian.

``x = Normal(1 + 2*y, 3)`` and ``x = 2*y + Choose(c, 1, 5) + Normal(0, 3)`` are linear in the continuous parents, for each state of
the discrete ones. An equation is parsed once into a tree and then evaluated for each configuration, to a constant, slopes and
the variance of its noise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Linear", "Rule", "State"]

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r'|(?P<text>"[^"]*")|(?P<sign><>|==|[-+*/^(),=])|(?P<odd>\S))'
)
_DEEPEST = 100
_POWERS = {"+": 1, "-": 1, "*": 2, "/": 2, "=": 0, "==": 0, "<>": 0, "^": 4}
_FUNCTIONS: dict[str, Callable[[float], float]] = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "abs": abs}


@dataclass(frozen=True)
class State:
    """A state of a discrete parent: its number, and what it is called."""

    code: int
    name: str


@dataclass(frozen=True)
class Linear:
    """A linear function with normal noise: ``constant + sum of slopes * variables + N(0, variance)``.

    `square` is the number that this is the square root of, so that a variance written as ``Sqrt(v)`` keeps its digits.
    """

    constant: float
    slopes: Mapping[str, float] = field(default_factory=dict)
    variance: float = 0.0
    square: float | None = None

    @property
    def plain(self) -> bool:
        """Whether this is a number."""
        return not self.slopes and self.variance == 0


class Rule:
    """An equation, parsed; `ValueError` says what is wrong with it.

    Examples
    --------
    >>> rule = Rule("x = 2*y + Choose(c, 1, 5) + Normal(0, 3)")
    >>> rule.name, rule({"y": Linear(0.0, {"y": 1.0}), "c": State(1, "high")})
    ('x', Linear(constant=5.0, slopes={'y': 2.0}, variance=9.0, square=None))
    """

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
        self._tree = self._expression(0, 0)
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

    def _expression(self, power: int, depth: int) -> tuple[Any, ...]:
        if depth > _DEEPEST:
            raise ValueError(f"the equation is nested more than {_DEEPEST} times")
        left = self._operand(depth)
        while (sign := self._peek()) in _POWERS and _POWERS[sign] >= power:
            self._take()
            left = (sign, left, self._expression(_POWERS[sign] + (sign != "^"), depth + 1))
        return left

    def _operand(self, depth: int) -> tuple[Any, ...]:
        kind, text = self._take()
        if kind == "number":
            return ("number", float(text))
        if kind == "text":
            return ("text", text[1:-1])
        if text == "(":
            inner = self._expression(0, depth + 1)
            self._close()
            return inner
        if text in ("-", "+"):
            inner = self._expression(3, depth + 1)
            return ("*", ("number", -1.0), inner) if text == "-" else inner
        if kind != "name":
            raise ValueError(f"expected a number or a name, found {text!r}")
        if self._peek() != "(":
            return ("name", text)
        self._take()
        arguments = [self._expression(0, depth + 1)] if self._peek() != ")" else []
        while self._peek() == ",":
            self._take()
            arguments.append(self._expression(0, depth + 1))
        self._close()
        return ("call", text.lower(), arguments)

    def _close(self) -> None:
        if (found := self._take()[1]) != ")":
            raise ValueError(f"expected `)`, found {found!r}")

    # -- evaluation ------------------------------------------------------------------------------------------------

    def __call__(self, values: Mapping[str, Linear | State]) -> Linear:
        """Return what the equation is for given states of the discrete parents."""
        return _linear(_value(self._tree, values))


def _value(tree: tuple[Any, ...], values: Mapping[str, Linear | State]) -> Linear | State | str:
    kind, *parts = tree
    if kind == "number":
        return Linear(parts[0])
    if kind == "text":
        return str(parts[0])
    if kind == "name":
        if parts[0] not in values:
            raise ValueError(f"the equation mentions {parts[0]!r}, which is no parent")
        return values[parts[0]]
    if kind == "call":
        return _called(parts[0], parts[1], values)
    left, right = _value(parts[0], values), _value(parts[1], values)
    if kind in ("=", "==", "<>"):
        return Linear(float(_equal(left, right) != (kind == "<>")))
    return _combined(kind, _linear(left), _linear(right))


def _linear(value: Linear | State | str) -> Linear:
    if isinstance(value, str):
        raise ValueError(f"the text {value[:40]!r} where a number is wanted")
    return Linear(float(value.code)) if isinstance(value, State) else value


def _number(value: Linear | State | str, what: str) -> float:
    found = _linear(value)
    if not found.plain:
        raise ValueError(f"{what} must be a number for given states of the discrete parents")
    return found.constant


def _equal(left: Linear | State | str, right: Linear | State | str) -> bool:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, State) and isinstance(other, str):
            return one.name == other
    return _number(left, "what is compared") == _number(right, "what is compared")


def _combined(sign: str, left: Linear, right: Linear) -> Linear:
    if sign in "+-":
        factor = 1.0 if sign == "+" else -1.0
        slopes = dict(left.slopes)
        for name, slope in right.slopes.items():
            slopes[name] = slopes.get(name, 0.0) + factor * slope
        return Linear(left.constant + factor * right.constant, slopes, left.variance + right.variance)
    if sign == "*" and left.plain:
        left, right = right, left
    if not right.plain:
        raise ValueError("the equation is not linear in the continuous parents")
    if sign == "^":
        power = _number(left, "a base") ** right.constant
        if isinstance(power, complex):
            raise ValueError("a root of a negative number")
        return Linear(power)
    factor = right.constant if sign == "*" else 1.0 / right.constant
    slopes = {name: slope * factor for name, slope in left.slopes.items()}
    return Linear(left.constant * factor, slopes, left.variance * factor * factor)


def _called(name: str, arguments: list[tuple[Any, ...]], values: Mapping[str, Linear | State]) -> Linear | State | str:
    count = len(arguments)
    if name == "normal" and count == 2:
        mean, deviation = (_linear(_value(argument, values)) for argument in arguments)
        if not deviation.plain or deviation.constant < 0:
            raise ValueError("a standard deviation must be a number, and not negative")
        square = deviation.constant**2 if deviation.square is None else deviation.square
        return Linear(mean.constant, mean.slopes, mean.variance + square)
    if name in _FUNCTIONS and count == 1:
        inner = _number(_value(arguments[0], values), f"the argument of {name}")
        return Linear(float(_FUNCTIONS[name](inner)), square=inner if name == "sqrt" else None)
    if name == "choose" and count > 1:
        index = int(_number(_value(arguments[0], values), "the first argument of Choose"))
        return _value(arguments[1 + min(max(index, 0), count - 2)], values)
    if name == "if" and count == 3:
        return _value(arguments[1 if _number(_value(arguments[0], values), "a condition") else 2], values)
    if name == "switch" and count > 2:
        chosen = _value(arguments[0], values)
        for place in range(1, count - 1, 2):
            if _equal(chosen, _value(arguments[place], values)):
                return _value(arguments[place + 1], values)
        if count % 2 == 0:
            return _value(arguments[-1], values)
        raise ValueError("no case of Switch fits")
    raise ValueError(f"the function {name!r} with {count} arguments; only linear Gaussian equations can be read")
