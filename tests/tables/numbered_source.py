"""A source without rows whose fragments are known by their numbers, for tests of backends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hybridbn.tables.backends import Fragment, Source
from hybridbn.tables.backends.base import Batch


@dataclass(frozen=True)
class Number(Fragment):
    number: int

    def batches(self, columns: Any, rows: int = 9) -> Iterator[Batch]:
        yield Batch(self.number, None)


class Numbers(Source):
    def __init__(self, count: int) -> None:
        self.size = count

    def fragments(self) -> list[Fragment]:
        return [Number(number) for number in range(self.size)]
