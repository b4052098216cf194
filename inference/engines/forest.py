"""The class below the leaf of trees: looked up where a row's cells are known, averaged where some are missing.

The leaf of `Boxes` is found for many rows at once, by one bit for each box that says whether a cell is inside. Where
all parents of the leaf are observed that is the whole answer, whatever the rest of the network is. Where cells are
missing, the parents must be independent, or independent given one discrete variable: the probability of a box is then a
product. Elimination would need a table over all missing cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hybridbn.inference.engines import Engine, EngineRequest, Plan, Solution
from hybridbn.inference.evidence import Evidence, Finding
from hybridbn.inference.problem import Question
from hybridbn.inference.snapshot import Snapshot
from hybridbn.jobs import run_in_threads
from hybridbn.potentials.base import Potential
from hybridbn.potentials.boxes import Boxes
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["BoxIndex", "Forest", "find_box_index"]

_BLOCK = 2**23
"""Bits that are looked at together."""


class Forest(Engine):
    """Posteriors of a class whose only parent is the leaf of trees, or a rule, given values of attributes."""

    rank = 8

    def plan(self, request: EngineRequest) -> Plan | None:
        """Return a plan where the class depends on boxes, and nothing but values of attributes is known."""
        question, findings = request.question, request.evidence.findings
        if len(question.targets) != 1 or question != Question(question.targets):
            return None
        snapshot, target = Snapshot.of(request.network), question.targets[0]
        own = snapshot.by_name[target]
        if not isinstance(own, Multinomial) or len(own.parents) != 1 or request.problem.scopes != ((target,),):
            return None
        boxes = snapshot.by_name[own.parents[0].name]
        if not isinstance(boxes, Boxes) or len(snapshot.succ[boxes.child.name]) != 1 or snapshot.succ[target]:
            return None
        if not all(finding.plain for finding in findings.values()) or {target, boxes.child.name} & set(findings):
            return None
        densities: list[Potential] = []
        if not all(parent.name in findings and findings[parent.name].hard for parent in boxes.parents):
            names = [parent.name for parent in boxes.parents]
            densities = [snapshot.by_name[name] for name in dict.fromkeys([*names, *findings])]
            if boxes.overlap is None or not _are_independent(densities, snapshot, findings):
                return None
        return ForestPlan(request, snapshot, boxes, own, densities)


def _are_independent(densities: Sequence[Potential], snapshot: Snapshot, findings: Mapping[str, Finding]) -> bool:
    """Return whether attributes are independent given at most one hidden discrete variable without parents."""
    common = {parent.name for density in densities for parent in density.parents}
    if any(len(density.parents) > 1 for density in densities) or len(common) > 1 or common & set(findings):
        return False
    if any(not isinstance(snapshot.by_name[name], Multinomial) or snapshot.by_name[name].parents for name in common):
        return False
    return all(isinstance(density.child, Discrete) or density.exact_mass for density in densities)


class ForestPlan(Plan):
    """Looking up the boxes of all rows."""

    distinct = False

    def __init__(
        self, request: EngineRequest, snapshot: Snapshot, boxes: Boxes, target: Multinomial, densities: list[Potential]
    ) -> None:
        self._request, self._boxes, self._target, self._densities = request, boxes, target, densities
        common = [parent for density in densities for parent in density.parents]
        root = snapshot.by_name[common[0].name] if common else None
        self._root: Values | None = None
        self._given: dict[str, NDArray[Any]] = {}
        if isinstance(root, Multinomial):
            self._root, self._given = root.table, {root.child.name: np.arange(len(root.table))}
        self.cells: float = float(len(boxes.child) * (len(target.child) + len(densities)))
        self.clique: Sequence[str] = (boxes.child.name, target.child.name)
        self.operations: float = float(len(boxes.child) / 64 * len(boxes.parents) * request.evidence.rows)
        self.held_bytes: float = 8 * self.cells + _BLOCK + 8.0 * len(target.child) * request.evidence.rows

    def solve(self, evidence: Evidence) -> Iterator[Solution]:
        """Yield the solutions of blocks of rows."""
        problem, boxes = self._request.problem, self._boxes
        index = find_box_index(boxes)
        tables = self._target.table
        averages = None
        if self._densities:
            averages = _Averages(boxes, self._densities, self._root, self._given)
        block = max(_BLOCK // len(boxes.child), 1)

        def solve_block(start: int) -> Solution:
            rows = np.arange(start, min(start + block, evidence.rows))
            part = evidence.take(slice(start, start + block), len(rows))
            row, box = index.find(part)
            logs = np.zeros(len(rows))
            if averages is None:
                shares = boxes.weights[box]
            else:
                logs, shares = averages.weigh(part, row, box)
            sums: Values = np.stack([np.bincount(row, shares * column[box], len(rows)) for column in tables.T])
            with np.errstate(invalid="ignore", divide="ignore"):
                table = np.asarray(sums / sums.sum(axis=0))
            table[:, logs == -np.inf] = np.nan
            return Solution(problem, rows, part, dict(problem.axes), [table], logs, np.full(len(rows), 1e-12))

        return run_in_threads(solve_block, range(0, max(evidence.rows, 1), block), self._request.options.jobs)


@dataclass(frozen=True, eq=False)
class BoxIndex:
    """For each cell of each parent the boxes that it is inside of, one bit each; the last cell is a missing one."""

    boxes: int
    parents: Sequence[str]
    edges: Sequence[Values | None]
    bits: Sequence[NDArray[np.uint64]]

    @classmethod
    def of(cls, boxes: Boxes) -> BoxIndex:
        """Return the cells of all parents, and which boxes they are inside of."""
        count = len(boxes.child)
        edges, bits = [], []
        for parent, side in zip(boxes.parents, boxes.sides, strict=True):
            if isinstance(parent, Discrete):
                cuts, inside = None, side.T
            else:
                cuts = np.unique(side[np.isfinite(side)])
                # of cell i the low end is cuts[i - 1]
                low = np.searchsorted(cuts, side[:, 0], side="right") * np.isfinite(side[:, 0])
                high = np.where(np.isfinite(side[:, 1]), np.searchsorted(cuts, side[:, 1], side="left"), len(cuts))
                cell = np.arange(len(cuts) + 1)[:, None]
                inside = (cell >= low) & (cell <= high)
            packed = np.zeros((len(inside) + 1, -(-count // 64) * 8), np.uint8)
            packed[:-1, : -(-count // 8)] = np.packbits(inside, axis=1)
            packed[-1] = 255
            edges.append(cuts)
            bits.append(packed.view(np.uint64))
        return cls(count, [parent.name for parent in boxes.parents], edges, bits)

    def find(self, evidence: Evidence) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the pairs of rows and boxes in which the row may be, in the order of the rows.

        A row that is in none may be in any, as `Boxes` has it.
        """
        words = np.full((evidence.rows, -(-self.boxes // 64)), np.iinfo(np.uint64).max, np.uint64)
        for name, cuts, bits in zip(self.parents, self.edges, self.bits, strict=True):
            finding = evidence.finding(name)
            if finding is None:
                continue
            cells = finding.values
            if cuts is not None:
                cells = np.where(np.isnan(cells), -1, np.searchsorted(cuts, cells, side="right"))
            words &= bits.take(cells, axis=0, mode="wrap")
        inside = np.unpackbits(words.view(np.uint8), axis=1, count=self.boxes)
        outside = ~words.any(axis=1)
        if outside.any():
            inside[outside] = 1
        row, box = np.divmod(np.flatnonzero(inside.view(bool)), self.boxes)
        return row, box


_INDEXES: WeakKeyDictionary[Boxes, BoxIndex] = WeakKeyDictionary()


def find_box_index(boxes: Boxes) -> BoxIndex:
    """Return the index of boxes, which is made once."""
    index = _INDEXES.get(boxes)
    if index is None:
        index = _INDEXES[boxes] = BoxIndex.of(boxes)
    return index


class _Averages:
    """The probabilities of boxes where cells are missing."""

    def __init__(
        self, boxes: Boxes, densities: Sequence[Potential], root: Values | None, given: Mapping[str, NDArray[Any]]
    ) -> None:
        self.boxes, self.densities, self.root, self.given = boxes, densities, root, given
        self.types = 1 if root is None else len(root)
        self.masses: dict[str, Values] = {}

    @cached_property
    def sides(self) -> dict[str, NDArray[Any]]:
        return {parent.name: side for parent, side in zip(self.boxes.parents, self.boxes.sides, strict=True)}

    def weigh(self, evidence: Evidence, row: NDArray[np.intp], box: NDArray[np.intp]) -> tuple[Values, Values]:
        """Return the log probability of each row's evidence, and that of each pair's box given it."""
        logs = np.zeros((self.types, evidence.rows))
        with np.errstate(divide="ignore"):
            if self.root is not None:
                logs += np.log(self.root)[:, None]
            for density in self.densities:
                finding = evidence.finding(density.child.name)
                if finding is not None and finding.observed.any():
                    logs += np.where(finding.observed, self._log_density(density, finding.fill()), 0.0)
        top = logs.max(axis=0)
        with np.errstate(invalid="ignore"):
            types = np.exp(logs - np.where(np.isfinite(top), top, 0.0))
        total = types.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            types /= total
            log_norm = np.where(total > 0, top + np.log(total), -np.inf)
        weights = types[:, row]
        for density in self.densities:
            name = density.child.name
            if name not in self.sides:
                continue
            finding = evidence.finding(name)
            if finding is None:
                weights *= self._mass_of(density)[:, box]
            elif not finding.hard:
                missing = np.flatnonzero(~finding.observed[row])
                weights[:, missing] *= self._mass_of(density)[:, box[missing]]
        return log_norm, weights.sum(axis=0)

    def _log_density(self, density: Potential, values: NDArray[Any]) -> Values:
        """Return the logarithms at one value in each row: (types, rows) or (1, rows)."""
        if not density.parents:
            return density.log_on({density.child.name: values[None]})
        return density.log_on({**self.given, density.child.name: values[None]})[:, 0]

    def _mass_of(self, density: Potential) -> Values:
        """Return the probability of each box's side along an attribute: (types, boxes) or (1, boxes)."""
        name = density.child.name
        if name not in self.masses:
            given = self.given if density.parents else {}
            side = self.sides[name]
            if isinstance(density.child, Continuous):
                edges = np.unique(np.append(side, (-np.inf, np.inf)))
                values, scale = density.mass(given, edges)
                cells = np.atleast_2d(values * np.exp(scale))
                cumulative = np.concatenate([np.zeros((len(cells), 1)), cells.cumsum(axis=1)], axis=1)
                low, high = np.searchsorted(edges, side).T
                self.masses[name] = cumulative[:, high] - cumulative[:, low]
            else:
                values, scale = density.on({**given, name: np.arange(len(density.child))})
                self.masses[name] = np.atleast_2d(values * np.exp(scale)) @ side.T.astype(np.float64)
        return self.masses[name]
