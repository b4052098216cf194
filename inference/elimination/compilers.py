"""Compilers of elimination: from the scopes of factors to the steps of a program.

`compile_program` makes a program for any number of rows: an elimination order first, then messages in a junction tree.

A question about one case is often asked once. Then choosing an order, compiling a program and running it would each
take longer than the arithmetic. So `CaseCompiler` does all three in one pass over the tables; the program that it
leaves answers the same question about other cases.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from hybridbn.inference.elimination.ordering import (
    Clique,
    EliminationOrder,
    assign_factors,
    find_order,
    make_junction_tree,
)
from hybridbn.inference.elimination.program import (
    ENOUGH,
    Factor,
    Program,
    ProgramStep,
    plan_matrix_product,
    write_subscripts,
)
from hybridbn.variables import Values

_BLAS_CELLS = 20_000
"""Larger products without rows are left to BLAS, where einsum can."""
_MOST_EVIDENCE_FREE = 2**22
"""A larger product is not computed before others only because it does not depend on the evidence."""
_FEW = 8
"""A product of at most this many inputs is ordered by the smallest results; the search is quadratic in the inputs."""

_MOST_APART = 6
"""A wide clique sends so many messages without its own table where that would have rows, and most of its inputs have
none.
"""
_LOG_UNIT = 2**20
"""Logarithms of sizes are whole numbers of this part of one, so that the order in which they are added does not
matter."""


@lru_cache
def _log_size(size: float) -> int:
    return round(_LOG_UNIT * math.log(max(size, 1)))


_SMALL = _log_size(500)
"""Tables with fewer cells (log) are multiplied by einsum faster than they can be ordered."""
_WIDE = _log_size(3e4)
"""Where the next table has more cells (log), all heuristics are asked for the order of what is left."""
_CELLS_PER_TRIAL = 5e4
"""With fewer cells for each variable, a better order would save less time than it takes to find."""
_AT_ONCE = 16_000
"""Tables are multiplied all at once where that takes at most this many multiplications, else two by two."""
_FEW_INPUTS = 6
"""With at most so many tables in a bucket, the products of all but one of them are cheaper than divisions."""
_MOST_BELIEF = 1e6
"""The product of all tables of a larger bucket is not made."""
MOST_LASTING = 2e7
"""What comes of eliminations of more cells takes too much memory to be kept for other cases."""
_MOST_OPERANDS = 12
"""Einsum multiplies at most this many tables at once."""


def choose_order(
    factors: Sequence[Factor], scopes: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> EliminationOrder:
    """Return the elimination order, with the cost that the program will have."""
    keep = scopes[0] if len(scopes) == 1 else ()
    if all(set(keep).issuperset(names) for names in (*(factor.names for factor in factors), *scopes)):
        cells = math.prod([float(sizes[name]) for name in keep])
        return EliminationOrder((), cells, cells, keep)
    return find_order([*(factor.names for factor in factors), *scopes], sizes, keep)


def compile_program(
    factors: Sequence[Factor],
    scopes: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
    order: EliminationOrder | None = None,
    partly_observed: Iterable[str] = (),
) -> Program:
    """Return the program for the tables over some scopes, in a given elimination order or the best that is found.

    With one scope, its variables are eliminated last; with several, messages are sent both ways through a junction
    tree. Where a variable is observed in some rows, tables that it was summed out of depend on the row.

    Examples
    --------
    >>> import numpy as np
    >>> program = compile_program([Factor(("a",)), Factor(("a", "b"))], [("b",)], {"a": 2, "b": 2})
    >>> program.run({0: np.array([0.4, 0.6]), 1: np.array([[0.9, 0.1], [0.5, 0.5]])})
    [array([0.66, 0.34])]
    """
    if order is None:
        order = choose_order(factors, scopes, sizes)
    if not factors:
        return Program((), tuple(scopes), order)
    compiler = Compiler(Program(tuple(factors), tuple(scopes), order), sizes, frozenset(partly_observed))
    if not order.names and len(scopes) == 1:
        compiler.program.outputs.append(compiler.product(range(len(factors)), scopes[0]))
        return compiler.program
    keep = scopes[0] if len(scopes) == 1 else ()
    cliques = make_junction_tree([*(factor.names for factor in factors), *scopes], order.names, keep)
    assign_factors(cliques, [factor.names for factor in factors], scopes)
    compiler.collect(cliques)
    if len(scopes) == 1:
        compiler.program.outputs.append(compiler.product(cliques[-1].inputs, scopes[0]))
    else:
        compiler.distribute(cliques)
    return compiler.finish()


class Compiler:
    """Appends the steps of a program."""

    def __init__(
        self, program: Program, sizes: Mapping[str, int], partly_observed: frozenset[str] = frozenset()
    ) -> None:
        self.program = program
        self.sizes = sizes
        self.partly_observed = partly_observed
        self.static: list[bool] = [factor.static for factor in program.factors]
        # with one table at the end, each array is read by one step
        self.read_once: bool = len(program.scopes) == 1
        program.names = [factor.names for factor in program.factors]
        program.rows = [factor.rows for factor in program.factors]

    def emit(self, inputs: tuple[int, ...], out: tuple[str, ...], *, divide: bool = False, small: bool = False) -> int:
        """Add a step that multiplies (or divides) and sums out the names not in `out`; return the slot of its result.

        Small products are left to einsum, which does them without any preparation.
        """
        program = self.program
        names = [program.names[i] for i in inputs]
        rows = [program.rows[i] for i in inputs]
        differ = bool(self.partly_observed) and not self.partly_observed.isdisjoint(set().union(*names).difference(out))
        with_rows = differ or True in rows
        subscripts = write_subscripts(names, rows, out, with_rows)
        product, blas = None, False
        if len(inputs) == 2 and not divide and not small and sum(cells := list(map(self.cells, names))) >= ENOUGH:
            product = plan_matrix_product(names, rows, out, cells)
            blas = not with_rows and product is None and self.cells(set().union(*names)) > _BLAS_CELLS
        slot, static = len(program.names), self.static
        done_with = inputs if self.read_once else ()
        program.steps.append(ProgramStep(inputs, slot, subscripts, divide, blas, product, done_with))
        program.names.append(out)
        program.rows.append(with_rows)
        static.append(not differ and False not in [static[i] for i in inputs])
        return slot

    def product(self, inputs: Sequence[int], out: tuple[str, ...]) -> int:
        """Multiply pairwise, static inputs first, then small before large, and sum out as early as possible.

        The result has those names of `out` that the inputs mention.
        """
        names = self.program.names
        if 2 < len(inputs) <= _FEW and self.cells(dict.fromkeys(n for i in inputs for n in names[i])) >= ENOUGH:
            inputs = self._multiply_best_pairs(list(inputs), out)
        rows, static = self.program.rows, self.static
        ranked = sorted([(not static[i], rows[i], self.cells(names[i]), n, i) for n, i in enumerate(inputs)])
        rank = [slot for *_, slot in ranked]
        current = rank[0]
        kept = set(out)
        uses = Counter(name for slot in rank[1:] for name in names[slot])
        for position, other in enumerate(rank[1:], start=2):
            union = dict.fromkeys(names[current] + names[other])
            if position == len(rank):
                return self.emit((current, other), tuple(n for n in out if n in union))
            uses.subtract(names[other])
            current = self.emit((current, other), tuple(n for n in union if n in kept or uses[n]))
        final = tuple(n for n in out if n in names[current])
        return current if names[current] == final else self.emit((current,), final)

    def _multiply_best_pairs(self, inputs: list[int], out: tuple[str, ...]) -> list[int]:
        """Multiply until two inputs are left, static pairs first, then the pair with the smallest result."""
        names = self.program.names
        while len(inputs) > 2:
            best: tuple[Any, ...] = ()
            for one, other in combinations(inputs, 2):
                kept = set(out).union(*(names[i] for i in inputs if i not in (one, other)))
                result = tuple(n for n in dict.fromkeys(names[one] + names[other]) if n in kept)
                static = self.static[one] and self.static[other]
                cells = self.cells(result)
                rank = (not static or cells > _MOST_EVIDENCE_FREE, cells, one, other)
                if not best or rank < best[0]:
                    best = rank, one, other, result
            _, one, other, result = best
            inputs = [i for i in inputs if i not in (one, other)] + [self.emit((one, other), result)]
        return inputs

    def cells(self, names: Iterable[str]) -> float:
        """Return the size of a table over these names."""
        return math.prod(map(self.sizes.__getitem__, names), start=1.0)

    def collect(self, cliques: list[Clique]) -> None:
        """Send messages from the leaves to the root."""
        for clique in cliques:
            clique.inputs += [cliques[c].message for c in clique.children if cliques[c].message >= 0]
            if clique.parent is not None and clique.inputs:
                clique.message = self.product(clique.inputs, clique.separator)

    def distribute(self, cliques: list[Clique]) -> None:
        """Send messages from the root to the leaves and compute the tables over the scopes."""
        names, outputs = self.program.names, dict[int, int]()
        upper = [-1] * len(cliques)
        for i in range(len(cliques) - 1, -1, -1):
            clique = cliques[i]
            inputs = clique.inputs + [upper[i]] * (upper[i] >= 0)
            if not inputs or not (clique.scopes or clique.children):
                continue
            # a table of the clique would have rows, but not most of its inputs
            rows = [self.program.rows[slot] for slot in inputs]
            wide = [self.cells(names[slot]) >= ENOUGH for slot in inputs]
            fixed = any(rows) and any(big and not has for big, has in zip(wide, rows, strict=True))
            most = _MOST_APART if self.partly_observed or fixed else 2
            if len(clique.scopes) + len(clique.children) <= most and self.cells(clique.names) >= ENOUGH:
                self._distribute_apart(cliques, clique, inputs, upper, outputs)
                continue
            available = {name for slot in inputs for name in names[slot]}
            belief = self.product(inputs, tuple(name for name in clique.names if name in available))
            for number in clique.scopes:
                outputs[number] = self.product([belief], self.program.scopes[number])
            for child in clique.children:
                message = cliques[child].message
                down = self.product([belief], cliques[child].separator)
                if message >= 0:
                    aligned = self.product([message], tuple(n for n in names[down] if n in names[message]))
                    down = self.emit((down, aligned), names[down], divide=True)
                upper[child] = down
        self.program.outputs.extend(outputs[number] for number in range(len(self.program.scopes)))

    def _distribute_apart(
        self, cliques: list[Clique], clique: Clique, inputs: list[int], upper: list[int], outputs: dict[int, int]
    ) -> None:
        """Send messages from a wide clique with few neighbors, each from the other inputs, without the table of the
        clique.
        """
        below: list[tuple[int, int]] = []
        for child in clique.children:
            message = cliques[child].message
            others = [slot for slot in inputs if slot != message]
            if others:
                upper[child] = self.product(others, cliques[child].separator)
                below.append((upper[child], message))
        for number in clique.scopes:
            scope = self.program.scopes[number]
            near = [pair for pair in below if pair[1] >= 0 and set(scope) <= set(self.program.names[pair[0]])]
            outputs[number] = self.product(near[0] if near else inputs, scope)

    def finish(self) -> Program:
        """Return the program; record after which step each array is no longer read, so that its memory is released."""
        program = self.program
        if self.read_once:
            return program
        last: dict[int, int] = {}
        for number, step in enumerate(program.steps):
            for slot in step.inputs:
                last[slot] = number
        kept = set(program.outputs)
        done: list[list[int]] = [[] for _ in program.steps]
        for slot, number in last.items():
            if slot not in kept:
                done[number].append(slot)
        program.steps = [step._replace(done_with=tuple(slots)) for step, slots in zip(program.steps, done, strict=True)]
        return program


class TooManyCells(Exception):
    """A table would have too many cells; `total` is about how many all tables would have."""

    def __init__(self, total: float = math.inf) -> None:
        super().__init__(total)
        self.total = total


class _Bucket(NamedTuple):
    """An elimination: the tables that were multiplied, the names summed out, and the result."""

    inputs: tuple[int, ...]
    summed: tuple[str, ...]
    output: int
    cells: float


class CaseCompiler(Compiler):
    """Appends the steps of a program and computes their results.

    Parameters
    ----------
    factors : the names of the tables, and which of them do not depend on the evidence
    tables : their values
    sizes : the number of states of each name
    most_cells : a larger table raises `TooManyCells` before it is made
    order : the names to eliminate first, in order; the others are chosen by the size of the table that they leave
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        tables: Sequence[Values],
        sizes: Mapping[str, int],
        most_cells: float = math.inf,
        order: Sequence[str] = (),
    ) -> None:
        super().__init__(Program(tuple(factors), (), EliminationOrder((), 0.0, 0.0, ())), sizes)
        self.most_cells = most_cells
        self.tables: list[Any] = list(tables)
        self.order = order
        self._lasting = True
        self._first_inner = 0
        self.eliminated: list[str] = []
        self.cost: float = 0.0
        self.widest: float = 0.0
        self.buckets: list[_Bucket] = []

    def compile(self, scopes: Sequence[tuple[str, ...]]) -> tuple[Program, list[Values]]:
        """Return the program for the tables over some scopes, and these tables."""
        keep = scopes[0] if len(scopes) == 1 else ()
        self.read_once = len(scopes) == 1
        count = len(self.tables)
        names = self.program.names
        union = {name for scope in names for name in scope}
        joint = self.cells(union)
        if count <= _MOST_OPERANDS and joint * count <= _AT_ONCE:
            rest, self.widest = list(range(count)), joint
            self.buckets.append(_Bucket(tuple(rest), tuple(union), -1, joint))
            if joint > self.most_cells:
                raise TooManyCells
        else:
            rest = self._eliminate(keep)
        program = self.program
        program.scopes = tuple(scopes)
        if len(scopes) == 1:
            program.outputs.append(self.multiply(rest, keep))
        else:
            self._distribute(scopes)
        program.order = EliminationOrder(tuple(self.eliminated), self.cost, self.widest, ())
        results = [self.tables[slot] for slot in program.outputs]
        self.finish()
        program.keep_evidence_free(self.static, self.tables)
        return program, results

    @property
    def lasting(self) -> bool:
        """Whether the program is worth its memory."""
        return self.read_once or self._lasting

    # -- steps ----------------------------------------------------------------------------------------------------

    def emit(self, inputs: tuple[int, ...], out: tuple[str, ...], *, divide: bool = False, small: bool = False) -> int:
        """Add a step, and compute its result."""
        output = super().emit(inputs, out, divide=divide, small=small)
        self.tables.append(self.program.apply(self.program.steps[-1], self.tables))
        # tables that neither this run nor a later one will read again are released
        static = self.static
        for slot in inputs:
            # messages between buckets are read again on the way back
            if (self.read_once or slot >= self._first_inner) and (static[output] or not static[slot]):
                self.tables[slot] = None
        return output

    def multiply(self, inputs: Sequence[int], out: tuple[str, ...]) -> int:
        """Multiply tables and sum out the names that `out` lacks: small ones all at once."""
        names = self.program.names
        union = dict.fromkeys([name for slot in inputs for name in names[slot]])
        count = len(inputs)
        if count > _MOST_OPERANDS:
            half = count // 2
            kept = tuple([name for name in union if any(name in names[slot] for slot in inputs[half:]) or name in out])
            # halves keep the names of the other half, so that nothing is summed out too early
            first = self.multiply(inputs[:half], tuple([n for n in kept if any(n in names[s] for s in inputs[:half])]))
            return self.multiply([first, *inputs[half:]], out)
        if count > 1 and self.cells(union) * count > _AT_ONCE and not (count == 2 and self.cells(union) < _AT_ONCE):
            return self.product(inputs, out)
        wanted = tuple([name for name in out if name in union])
        if count == 1 and names[inputs[0]] == wanted:
            return inputs[0]
        return self.emit(tuple(inputs), wanted, small=True)

    # -- from the leaves to the root ----------------------------------------------------------------------------------

    def _eliminate(self, keep: tuple[str, ...]) -> list[int]:
        """Sum out all names but those to keep; return the slots of the tables that are left."""
        slot_names = self.program.names
        around: dict[str, set[str]] = {}
        holding: dict[str, set[int]] = {}
        for slot, scope in enumerate(slot_names):
            for name in scope:
                if name in around:
                    around[name].update(scope)
                    holding[name].add(slot)
                else:
                    around[name] = set(scope)
                    holding[name] = {slot}
        for name in keep:
            around.setdefault(name, {name}).update(keep)
            holding.setdefault(name, set())
        live = set(range(len(slot_names)))
        logs = {name: _log_size(self.sizes[name]) for name in around}
        log_of = logs.__getitem__
        scores = {name: sum(map(log_of, others)) for name, others in around.items()}
        alive = around.keys() - keep
        given = [name for name in reversed(self.order) if name in alive]
        chosen = bool(given)
        # of equal scores, what stands first in the network goes first
        rank = {name: place for place, name in enumerate(around)}
        heap = [] if chosen else [(score, rank[name], name) for name, score in scores.items() if name in alive]
        heapq.heapify(heap)
        while alive:
            if given:
                vertex = given.pop()
                if vertex not in alive:
                    continue
            else:
                score, _, vertex = heapq.heappop(heap)
                if vertex not in alive or score != scores[vertex]:
                    continue
                if score > _WIDE and not chosen:
                    chosen = True
                    given = [*reversed(self._order_rest(holding, keep))]
                    continue
            clique, slots, score = around[vertex], holding[vertex], scores[vertex]
            if not chosen:
                clique, slots, score = self._enlarge(vertex, clique, slots, around, holding, scores, logs, alive)
            # the order of a set differs from one process to another, and with it rounding would
            inner = sorted([name for name in clique if name in alive and holding[name] <= slots])
            rest = clique.difference(inner)
            outer = sorted(rest)
            alive.difference_update(inner)
            cells = math.exp(min(score / _LOG_UNIT, 700.0))
            if cells > self.most_cells:
                raise TooManyCells
            self.cost += cells
            self.widest = max(self.widest, cells)
            self.eliminated += inner
            inputs = tuple(sorted(slots))
            self._first_inner = len(slot_names)
            output = self.multiply(inputs, tuple(outer))
            self.buckets.append(_Bucket(inputs, tuple(inner), output, cells))
            live -= slots
            live.add(output)
            for name in inner:
                holding[name] = set()
            for other in outer:
                before = around[other]
                added, removed = rest - before, before.intersection(inner)
                before |= added
                before -= removed
                if added or removed:
                    scores[other] += sum(map(log_of, added)) - sum(map(log_of, removed))
                held = holding[other]
                held -= slots
                held.add(output)
                if not chosen and other in alive:
                    heapq.heappush(heap, (scores[other], rank[other], other))
        return sorted(live)

    def _enlarge(
        self,
        vertex: str,
        clique: set[str],
        slots: set[int],
        around: Mapping[str, set[str]],
        holding: Mapping[str, set[int]],
        scores: Mapping[str, int],
        logs: Mapping[str, int],
        alive: set[str],
    ) -> tuple[set[str], set[int], int]:
        """Add the tables of neighbors to those of a vertex as long as einsum multiplies all of them in one go."""
        score = scores[vertex]
        if score >= _SMALL or len(slots) >= _MOST_OPERANDS:
            return clique, slots, score
        waiting = sorted([name for name in clique if name != vertex and name in alive])
        while waiting:
            other = waiting.pop()
            if scores[other] >= _SMALL:
                continue  # it may have many neighbors, which are not looked at
            added = around[other] - clique
            larger = score + sum(map(logs.__getitem__, added))
            if larger < _SMALL:
                more = slots | holding[other]
                if len(more) <= _MOST_OPERANDS:
                    slots, score = more, larger
                    if added:
                        clique = clique | added
                        waiting += sorted(added & alive)
        return clique, slots, score

    def _order_rest(self, holding: Mapping[str, set[int]], keep: tuple[str, ...]) -> tuple[str, ...]:
        """Return the order in which to eliminate what is left, by the best of all heuristics."""
        slots = set().union(*holding.values())
        scopes = [self.program.names[slot] for slot in slots]
        count = len({name for scope in scopes for name in scope})
        order = find_order(scopes, self.sizes, keep, max(1e5, _CELLS_PER_TRIAL * count), 100 * self.most_cells)
        if order.largest > self.most_cells:
            raise TooManyCells(order.total)
        self._lasting = order.total < MOST_LASTING
        return order.names

    # -- from the root to the leaves ----------------------------------------------------------------------------------

    def _distribute(self, scopes: Sequence[tuple[str, ...]]) -> None:
        """Send messages back through the buckets, and compute the table over each name that is asked for."""
        names = self.program.names
        wanted = {name for scope in scopes for name in scope}
        producer = {bucket.output: number for number, bucket in enumerate(self.buckets)}
        upper: dict[int, int] = {}
        outputs: dict[str, int] = {}
        for number in range(len(self.buckets) - 1, -1, -1):
            bucket = self.buckets[number]
            inputs = [*bucket.inputs, *([upper[number]] if number in upper else [])]
            targets = [name for name in bucket.summed if name in wanted]
            below = [slot for slot in bucket.inputs if slot in producer]
            belief = -1
            pays = len(inputs) > 2 and len(targets) + len(below) > 2 and bucket.cells < _AT_ONCE
            if pays or (len(inputs) > _FEW_INPUTS and bucket.cells <= _MOST_BELIEF):
                self._first_inner = len(names)
                clique = tuple(dict.fromkeys([name for slot in inputs for name in names[slot]]))
                belief = self.multiply(inputs, clique)
            for name in targets:
                self._first_inner = len(names)
                outputs[name] = self.multiply(inputs if belief < 0 else [belief], (name,))
            for slot in below:
                self._first_inner = len(names)
                if belief >= 0 and len(inputs) > _FEW_INPUTS:
                    both = self.multiply([belief], names[slot])
                    upper[producer[slot]] = self.emit((both, slot), names[slot], divide=True)
                else:
                    others = [other for other in inputs if other != slot]
                    if others:
                        upper[producer[slot]] = self.multiply(others, names[slot])
            if not self._lasting:
                # a message may be one of the tables itself
                for slot in set(inputs).difference(upper.values(), outputs.values()):
                    self.tables[slot] = None
        self.program.outputs.extend([outputs[scope[0]] for scope in scopes])
