"""The numbers of one probability block of a BIF file, as a table with a row for each configuration of the parents."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from hybridbn.variables import Values

__all__ = ["BifNames", "ProbabilityBlock"]

_NOT_A_NUMBER = re.compile(r"[^0-9eE+\-.\s,]")
_KEYWORD = re.compile(r"(table|default|property)\b")
_OTHER_ORDER = 1e-2
"""Rows whose sums are within this of 1 in the other order get a hint that they may be written in it."""


class BifNames(Protocol):
    """What a block needs from the parser of the whole file."""

    @property
    def codes(self) -> Mapping[str, Mapping[str, int]]:
        """Each variable's states with their codes."""

    def fail(self, position: int, reason: str) -> NoReturn:
        """Refuse the file, naming the line of this position."""

    def keys_of(self, names: list[str]) -> list[str]:
        """Return the keys of names as they stand in the text."""

    def show(self, key: str) -> str:
        """Return a name as messages show it."""

    def count_defaults(self, position: int, numbers: int) -> None:
        """Refuse the file if `default` stands for more numbers than is reasonable."""


class ProbabilityBlock:
    """One ``probability ( child | parents ) { ... }``: `statements` is its body split at the semicolons."""

    names: BifNames
    child: str
    parents: Sequence[str]
    statements: Sequence[str]
    position: int

    def __init__(
        self, names: BifNames, child: str, parents: Sequence[str], statements: Sequence[str], position: int
    ) -> None:
        self.names, self.child, self.parents = names, child, parents
        self.statements, self.position = statements, position
        self.width: int = len(names.codes[child])
        self.sizes: list[int] = [len(names.codes[parent]) for parent in parents]
        self.size: int = math.prod(self.sizes)
        self.statement_of: NDArray[np.intp] = np.empty(0, np.intp)
        """For each row of the table, the statement that gives it."""

    def parse_table(self) -> Values:
        """Return the table as (configurations of the parents, states of the child); the last parent varies fastest."""
        bodies = [statement.lstrip() for statement in self.statements]
        rows = [number for number, body in enumerate(bodies) if body[:1] == "("]
        special = {} if len(rows) == len(bodies) else self._find_special(bodies)
        if "table" in special:
            if rows or "default" in special:
                self._fail(special["table"], "a `table` beside other rows; which of them holds?")
            return self._convert_whole(special["table"], bodies[special["table"]])
        if "default" not in special and len(rows) < self.size:
            self._refuse_missing(bodies, rows)
        labels, numbers = self._split_rows(bodies, rows)
        configurations = self._find_configurations(labels, rows)
        values = self._convert_numbers(numbers, rows)
        if "default" in special:
            self.names.count_defaults(self._position_of(special["default"]), self.size * self.width)
            default = self._convert_numbers([bodies[special["default"]][7:]], [special["default"]])
            table = np.repeat(default, self.size, axis=0)
            self.statement_of = np.full(self.size, special["default"], np.intp)
        else:
            table = np.empty((self.size, self.width))
            self.statement_of = np.full(self.size, -1, np.intp)
        # Nearly all blocks have one row for each configuration.
        if np.bincount(configurations, minlength=1).max() > 1:
            self._refuse_twice(configurations, rows)
        table[configurations] = values
        self.statement_of[configurations] = rows
        return table

    def show_parents(self, row: int) -> str:
        """Return the parents' states in a row of the table, as messages show them."""
        if not self.parents:
            return ""
        states = []
        for parent, code in zip(self.parents, np.unravel_index(row, self.sizes), strict=True):
            states.append(self.names.show(list(self.names.codes[parent])[int(code)])[1:-1])
        return f" given ({', '.join(states)})"

    def refuse_sum(self, table: Values, row: int) -> NoReturn:
        """Refuse a row that is not a distribution."""
        hint = ""
        if self.parents and self.statements[self.statement_of[row]].lstrip().startswith("table"):
            other = table.T.reshape(self.size, self.width)
            if np.abs(other.sum(axis=1) - 1.0).max() < _OTHER_ORDER:
                hint = "; they would if the child's states varied fastest, but in BIF the last parent does"
        self._fail(
            int(self.statement_of[row]),
            f"the probabilities of {self.names.show(self.child)}{self.show_parents(row)} sum to {table[row].sum():.7g},"
            f" not 1{hint}",
        )

    # -- statements ------------------------------------------------------------------------------------------------

    def _position_of(self, number: int) -> int:
        before = sum(len(statement) + 1 for statement in self.statements[:number])
        statement = self.statements[number]
        return self.position + before + len(statement) - len(statement.lstrip())

    def _fail(self, number: int, reason: str) -> NoReturn:
        self.names.fail(self._position_of(number), reason)

    def _find_special(self, bodies: Sequence[str]) -> dict[str, int]:
        """Return the statement of each keyword, `table` and `default`, refusing other words."""
        special: dict[str, int] = {}
        for number, body in enumerate(bodies):
            if body[:1] == "(":
                continue
            keyword = _KEYWORD.match(body)
            if keyword is None:
                self._fail(number, f"expected (states) numbers, table or default, found {body[:40]!r}")
            if keyword[1] in special:
                self._fail(number, f"a second `{keyword[1]}` for {self.names.show(self.child)}")
            if keyword[1] != "property":
                special[keyword[1]] = number
        return special

    def _split_rows(self, bodies: Sequence[str], rows: Sequence[int]) -> tuple[list[str], list[str]]:
        """Split ``(states) numbers`` at the last parenthesis, as states may hold parentheses and numbers can't."""
        labels, numbers = [], []
        for row in rows:
            label, closing, rest = bodies[row].rpartition(")")
            if not closing:
                self._fail(row, f"expected (states) numbers, found {bodies[row][:40]!r}")
            labels.append(label[1:])
            numbers.append(rest)
        return labels, numbers

    def _find_configurations(self, labels: list[str], rows: Sequence[int]) -> NDArray[np.intp]:
        """Return the row of the table for each row of the file."""
        count = len(self.parents)
        if not count:
            if rows:
                self._fail(rows[0], f"{self.names.show(self.child)} has no parents; expected `table` or `default`")
            return np.empty(0, np.intp)
        if {label.count(",") for label in labels} - {count - 1}:
            labels = [self._add_commas(label, row) for label, row in zip(labels, rows, strict=True)]
        cells = self.names.keys_of(list(map(str.strip, ",".join(labels).split(",")))) if labels else []
        configurations = np.zeros(len(labels), np.intp)
        for column, parent in enumerate(self.parents):
            codes = list(map(self.names.codes[parent].get, cells[column::count]))
            if None in codes:
                row = codes.index(None)
                self._fail(
                    rows[row],
                    f"{self.names.show(parent)} has no state {self.names.show(cells[row * count + column])} "
                    f"(in a row of {self.names.show(self.child)})",
                )
            configurations = configurations * self.sizes[column] + np.array(codes, np.intp)
        return configurations

    def _add_commas(self, label: str, row: int) -> str:
        items = label.split(",")
        if len(items) != len(self.parents):
            items = label.replace(",", " ").split()
        if len(items) != len(self.parents):
            self._fail(
                row,
                f"a row of {self.names.show(self.child)} names {len(items)} states for {len(self.parents)} parents",
            )
        return ",".join(items)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _convert_numbers(self, texts: list[str], rows: Sequence[int], width: int | None = None) -> Values:
        """Convert the numbers of many rows in one go, each correctly rounded."""
        width = width or self.width
        joined = ";".join(texts).replace(",", " ")
        # float() also takes "nan", "inf" and "1_0", which all hold one of these letters, and foreign digits.
        words = list(map(str.split, joined.split(";")))
        if "_" in joined or "n" in joined or "N" in joined or not joined.isascii():
            self._refuse_word(texts, rows)
        if set(map(len, words)) - {width}:
            if not texts:
                return np.empty((0, width))
            self._refuse_word(texts, rows)
            row = next(number for number, cells in enumerate(words) if len(cells) != width)
            self._fail(
                rows[row],
                f"{len(words[row])} numbers where {width} are wanted (the states of {self.names.show(self.child)}"
                f"{'' if width == self.width else ' in every configuration of its parents'})",
            )
        try:
            values = np.fromiter(map(float, chain.from_iterable(words)), float, len(texts) * width)
        except ValueError:
            self._refuse_word(texts, rows)
            raise
        if not (values.min() >= 0.0 and values.max() < np.inf):
            wrong = int(np.flatnonzero(~((values >= 0) & (values < np.inf)))[0])
            self._fail(
                rows[wrong // width],
                f"{self.names.show(words[wrong // width][wrong % width])} is not a probability (of"
                f" {self.names.show(self.child)})",
            )
        return values.reshape(len(texts), width)

    def _refuse_word(self, texts: list[str], rows: Sequence[int]) -> None:
        """Refuse the first word that isn't a plain decimal number, if there is one."""
        for text, row in zip(texts, rows, strict=True):
            for word in text.replace(",", " ").split():
                try:
                    bad = _NOT_A_NUMBER.search(word) is not None
                    float(word)
                except ValueError:
                    bad = True
                if bad:
                    self._fail(
                        row, f"{self.names.show(word)} is not a number (in a row of {self.names.show(self.child)})"
                    )

    def _convert_whole(self, number: int, body: str) -> Values:
        """Return a `table`: the states of the child vary slowest, the last parent fastest."""
        values = self._convert_numbers([body[5:]], [number], self.width * self.size)
        self.statement_of = np.full(self.size, number, np.intp)
        return np.ascontiguousarray(values.reshape(self.width, self.size).T)

    # -- rows that are missing or given twice ----------------------------------------------------------------------

    def _refuse_missing(self, bodies: Sequence[str], rows: Sequence[int]) -> NoReturn:
        name = self.names.show(self.child)
        if not self.parents:
            self.names.fail(self.position, f"{name} has no numbers; expected `table`")
        labels, _ = self._split_rows(bodies, rows)
        wanted = str(self.size) if self.size < 10**15 else "more than 10**15"
        mismatch = f"{name} has {len(rows)} rows where its parents have {wanted} configurations"
        if self.size >= 1 << 62:
            self.names.fail(self.position, f"{mismatch}; is the file truncated?")
        configurations = self._find_configurations(labels, rows)
        self._refuse_twice(configurations, rows)
        present = set(configurations.tolist())
        first = next(row for row in range(self.size) if row not in present)
        self.names.fail(self.position, f"{mismatch}; missing is the row{self.show_parents(first)}")

    def _refuse_twice(self, configurations: NDArray[np.intp], rows: Sequence[int]) -> None:
        seen: set[int] = set()
        for configuration, row in zip(configurations.tolist(), rows, strict=True):
            if configuration in seen:
                self._fail(row, f"a second row of {self.names.show(self.child)}{self.show_parents(configuration)}")
            seen.add(configuration)
