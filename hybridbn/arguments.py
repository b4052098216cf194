"""Checks of arguments of public functions: counts, random states, sequences of names, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from hybridbn.errors import HybridBNError, TableError
from hybridbn.variables import Values

__all__ = ["as_numbers", "check_count", "check_level", "list_items", "make_generator"]

_MOST = 2**40
"""A larger count can't be meant: nothing of that size fits into memory."""


def check_count(number: Any, what: str, least: int = 0, error: type[HybridBNError] = TableError) -> int:
    """Return a whole number that is not too small; raise an error for anything else.

    Examples
    --------
    >>> check_count(3.0, "the number of rows")
    3
    >>> check_count("3", "the number of rows")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the number of rows must be a whole number of at least 0, not '3'
    """
    is_number = isinstance(number, int | float | np.integer | np.floating) and not isinstance(number, bool)
    if not is_number or not least <= number <= _MOST or number != int(number):
        raise error(f"{what} must be a whole number of at least {least}, not {number!r:.80}")
    return int(number)


def check_level(level: object) -> None:
    """Refuse what is no probability of an interval."""
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise TableError(f"the probability of an interval lies between 0 and 1; found {level!r}")


def make_generator(random_state: Any) -> np.random.Generator:
    """Return the generator that a random state stands for; raise `TableError` where numpy takes it for none.

    Examples
    --------
    >>> make_generator(3).integers(10)
    np.int64(8)
    >>> make_generator("3")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: random_state must be a whole number that is not negative, a numpy Generator or None, \
not '3'
    """
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise TableError(
            "random_state must be a whole number that is not negative, a numpy Generator or None, not "
            f"{random_state!r:.80}"
        ) from None


def list_items(items: Any, what: str) -> list[Any]:
    """Return a sequence as a list, a text as its only item; raise `TableError` for what is no sequence.

    Examples
    --------
    >>> list_items(("a", "b"), "names"), list_items("ab", "names")
    (['a', 'b'], ['ab'])
    >>> list_items(None, "the names of the targets")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the names of the targets must be text or a sequence of it, not None
    """
    if isinstance(items, str):
        return [items]
    try:
        if isinstance(items, Iterable) and not isinstance(items, bytes | Mapping):
            return list(items)
    except TypeError:
        pass  # an array without dimensions
    raise TableError(f"{what} must be text or a sequence of it, not {items!r:.80}")


def as_numbers(values: Any, what: str) -> Values:
    """Return an array of numbers; raise `TableError` for text, complex numbers and lists of uneven lengths.

    Examples
    --------
    >>> as_numbers([1, 2.5], "the points")
    array([1. , 2.5])
    >>> as_numbers("zz", "the points")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: the points must be numbers, not 'zz'
    """
    try:
        array = np.asarray(values)
        texts = array.dtype == object and any(isinstance(item, str | bytes) for item in array.flat)
        if array.dtype.kind in "biufO" and not texts:
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise TableError(f"{what} must be numbers, not {values!r:.80}")
