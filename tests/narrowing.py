"""Say what a test knows of a value whose type leaves it open, so that the types of tests can be checked, too."""

from __future__ import annotations

from typing import TypeVar, overload

import hybridbn as hb
from hybridbn.inference.posteriors import ContinuousPosterior, DiscretePosterior

T = TypeVar("T")


def as_kind(kind: type[T], value: object) -> T:
    """Return the value, which is of this class."""
    assert isinstance(value, kind), f"{value!r} is no {kind.__name__}"
    return value


def known(value: T | None) -> T:
    """Return the value, which is not None."""
    assert value is not None
    return value


@overload
def as_discrete(value: hb.Discrete | hb.Continuous) -> hb.Discrete: ...
@overload
def as_discrete(value: DiscretePosterior | ContinuousPosterior) -> DiscretePosterior: ...
def as_discrete(value: object) -> object:
    """Return the variable or posterior, which is one of states."""
    assert isinstance(value, hb.Discrete | DiscretePosterior), f"{value!r} is not discrete"
    return value


@overload
def as_continuous(value: hb.Discrete | hb.Continuous) -> hb.Continuous: ...
@overload
def as_continuous(value: DiscretePosterior | ContinuousPosterior) -> ContinuousPosterior: ...
def as_continuous(value: object) -> object:
    """Return the variable or posterior, which is one of numbers."""
    assert isinstance(value, hb.Continuous | ContinuousPosterior), f"{value!r} is not continuous"
    return value
