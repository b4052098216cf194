"""Compilers of elimination: from the scopes of factors to the steps of a program.

`compile_program` makes a program for any number of rows: an elimination order first, then messages in a junction tree.

A question about one case is often asked once. Then choosing an order, compiling a program and running it would each
take longer than the arithmetic. So `CaseCompiler` does all three in one pass over the tables; the program that it
leaves answers the same question about other cases.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from hybridbn.inference.elimination.ordering import (
    Clique,
    EliminationOrder,
    find_cliques,
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
_MOST_APART = 6
"""A wide clique sends so many messages without its own table where only this would have rows."""
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
    return Compiler(factors, sizes, order, frozenset(partly_observed)).compile(scopes)


class TooManyCells(Exception):
    """A table would have too many cells; `total` is about how many all tables would have."""

    def __init__(self, total: float = math.inf) -> None:
        super().__init__(total)
        self.total = total


class Compiler:
    """Appends the steps of a program: messages from the leaves of a junction tree to its root, and back where several
    tables are wanted.

    Parameters
    ----------
    factors : the names of the tables, whether they have rows, and which of them do not depend on the evidence
    sizes : the number of states of each name
    order : the names to eliminate
    partly_observed : names that are observed in some rows
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        sizes: Mapping[str, int],
        order: EliminationOrder | None,
        partly_observed: frozenset[str] = frozenset(),
    ) -> None:
        self.program: Program = Program(tuple(factors), (), order or EliminationOrder((), 0.0, 0.0, ()))
        self.sizes = sizes
        self.order = order
        self.partly_observed = partly_observed
        # with one table at the end, each array is read by one step
        self.read_once: bool = True
        self.program.names = [factor.names for factor in factors]
        self.program.rows = [factor.rows for factor in factors]
        self.program.static = [factor.static for factor in factors]
        self.cliques: list[Clique] = []

    def compile(self, scopes: Sequence[tuple[str, ...]]) -> Program:
        """Return the program for the tables over some scopes."""
        program = self.program
        program.scopes = tuple(scopes)
        self.read_once = len(scopes) == 1
        self._eliminate(scopes)
        if self.read_once:
            program.outputs.append(self.multiply(self.cliques[-1].inputs, scopes[0]))
        else:
            self._distribute(scopes)
        return self._finish()

    # -- steps ----------------------------------------------------------------------------------------------------

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
        slot, static = len(program.names), self.program.static
        done_with = inputs if self.read_once else ()
        program.steps.append(ProgramStep(inputs, slot, subscripts, divide, blas, product, done_with))
        program.names.append(out)
        program.rows.append(with_rows)
        static.append(not differ and False not in [static[i] for i in inputs])
        return slot

    def multiply(self, inputs: Sequence[int], out: tuple[str, ...]) -> int:
        """Multiply pairwise, static inputs first, then small before large, and sum out as early as possible.

        The result has those names of `out` that the inputs mention.
        """
        names = self.program.names
        if 2 < len(inputs) <= _FEW and self.cells(dict.fromkeys(n for i in inputs for n in names[i])) >= ENOUGH:
            inputs = self._multiply_best_pairs(list(inputs), out)
        rows, static = self.program.rows, self.program.static
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
                static = self.program.static[one] and self.program.static[other]
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

    def _finish(self) -> Program:
        """Return the program; record after which step each array is no longer read, so that its memory is released."""
        program = self.program
        moving = (step for step in program.steps if not program.static[step.output])
        program.read = {slot for step in moving for slot in step.inputs}.union(program.outputs)
        if self.read_once:
            return program
        last = {slot: number for number, step in enumerate(program.steps) for slot in step.inputs}
        kept = set(program.outputs)
        done: list[list[int]] = [[] for _ in program.steps]
        for slot, number in last.items():
            if slot not in kept:
                done[number].append(slot)
        program.steps = [step._replace(done_with=tuple(slots)) for step, slots in zip(program.steps, done, strict=True)]
        return program

    # -- from the leaves to the root ----------------------------------------------------------------------------------

    def _eliminate(self, scopes: Sequence[tuple[str, ...]]) -> None:
        """Sum out all names, but those of a single scope."""
        assert self.order is not None
        self._follow_order(self.order, range(len(self.program.names)), scopes)

    def _follow_order(self, order: EliminationOrder, slots: Collection[int], scopes: Sequence[tuple[str, ...]]) -> None:
        """Send messages of some tables to the root of a junction tree."""
        names = self.program.names
        keep = scopes[0] if self.read_once else ()
        if self.read_once and not order.names:
            self.cliques.append(Clique(keep, None, inputs=list(slots)))
            return
        own = [names[slot] for slot in slots]
        cliques = make_junction_tree([*own, *scopes], order.names, keep)
        for slot, number in zip(slots, find_cliques(cliques, own), strict=True):
            cliques[number].inputs.append(slot)
        for clique in cliques:
            if clique.parent is not None and clique.inputs:
                clique.message = self.multiply(clique.inputs, clique.separator)
                cliques[clique.parent].inputs.append(clique.message)
        self.cliques += cliques

    # -- from the root to the leaves ----------------------------------------------------------------------------------

    def _distribute(self, scopes: Sequence[tuple[str, ...]]) -> None:
        """Send messages back to the leaves, and compute the table over each scope."""
        names = self.program.names
        sender = {clique.message: number for number, clique in enumerate(self.cliques)}
        asked: dict[int, list[int]] = defaultdict(list)
        for scope, number in enumerate(find_cliques(self.cliques, scopes)):
            asked[number].append(scope)
        upper: dict[int, int] = {}
        outputs: dict[int, int] = {}
        for number in range(len(self.cliques) - 1, -1, -1):
            clique = self.cliques[number]
            inputs = [*clique.inputs, *([upper[number]] if number in upper else [])]
            below = [sender[slot] for slot in clique.inputs if slot in sender]
            belief = -1
            if self._pays(clique, inputs, len(asked[number]) + len(below)):
                union = dict.fromkeys([name for slot in inputs for name in names[slot]])
                belief = self.multiply(inputs, tuple(union))
            for scope in asked[number]:
                outputs[scope] = self.multiply(inputs if belief < 0 else [belief], scopes[scope])
            for child in below:
                message, separator = self.cliques[child].message, self.cliques[child].separator
                if belief >= 0 and len(inputs) > _FEW_INPUTS:
                    both = self.multiply([belief], separator)
                    upper[child] = self.emit((both, message), names[both], divide=True)
                else:
                    others = [slot for slot in inputs if slot != message]
                    if others:
                        upper[child] = self.multiply(others, separator)
            self.release(inputs, upper, outputs)
        self.program.outputs.extend([outputs[number] for number in range(len(scopes))])

    def _pays(self, clique: Clique, inputs: Sequence[int], uses: int) -> bool:
        """Tell whether to make the table of a clique, which is used so many times."""
        cells = self.cells(clique.names)
        if not uses or len(inputs) <= 2 or cells > _MOST_BELIEF:
            return False
        rows = [self.program.rows[slot] for slot in inputs]
        large = [self.cells(self.program.names[slot]) >= ENOUGH for slot in inputs]
        fixed = any(rows) and any(big and not has for big, has in zip(large, rows, strict=True))
        if cells >= ENOUGH and uses <= _MOST_APART and (self.partly_observed or fixed):
            return False
        return len(inputs) > _FEW_INPUTS or (uses > 2 and cells < _AT_ONCE)

    def release(self, slots: Sequence[int], upper: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """Release tables that are neither messages nor outputs, where results are computed."""


class CaseCompiler(Compiler):
    """Appends the steps of a program and computes their results.

    Parameters
    ----------
    factors, sizes : as for any compiler
    tables : the values of the factors
    most_cells : a larger table raises `TooManyCells` before it is made
    order : the names to eliminate, if it is known; else they are chosen by the size of the table that they leave
    """

    def __init__(
        self,
        factors: Sequence[Factor],
        tables: Sequence[Values],
        sizes: Mapping[str, int],
        most_cells: float = math.inf,
        order: EliminationOrder | None = None,
    ) -> None:
        super().__init__(factors, sizes, order)
        self.tables: list[Any] = list(tables)
        self.most_cells = most_cells
        self.lasting: bool = True
        """Whether the program is worth its memory."""
        self._first_inner = 0
        self._eliminated: list[str] = []
        self._cost = self._widest = 0.0

    def compute(self, scopes: Sequence[tuple[str, ...]]) -> tuple[Program, list[Values]]:
        """Return the program for the tables over some scopes, and these tables."""
        program = self.compile(scopes)
        results = [self.tables[slot] for slot in program.outputs]
        program.order = EliminationOrder(tuple(self._eliminated), self._cost, self._widest, ())
        program.keep_evidence_free(self.tables)
        return program, results

    # -- steps ----------------------------------------------------------------------------------------------------

    def emit(self, inputs: tuple[int, ...], out: tuple[str, ...], *, divide: bool = False, small: bool = False) -> int:
        """Add a step, and compute its result."""
        output = super().emit(inputs, out, divide=divide, small=small)
        self.tables.append(self.program.apply(self.program.steps[-1], self.tables))
        # tables that neither this run nor a later one will read again are released
        static = self.program.static
        for slot in inputs:
            # messages between cliques are read again on the way back
            if (self.read_once or slot >= self._first_inner) and (static[output] or not static[slot]):
                self.tables[slot] = None
        return output

    def release(self, slots: Sequence[int], upper: Mapping[int, int], outputs: Mapping[int, int]) -> None:
        """Release tables that are neither messages nor outputs, unless later cases will read them."""
        if not self.lasting:
            for slot in set(slots).difference(upper.values(), outputs.values()):
                self.tables[slot] = None

    def multiply(self, inputs: Sequence[int], out: tuple[str, ...]) -> int:
        """Multiply tables and sum out the names that `out` lacks: small ones all at once."""
        self._first_inner = len(self.program.names)
        return self._multiply_at_once(inputs, out)

    def _multiply_at_once(self, inputs: Sequence[int], out: tuple[str, ...]) -> int:
        names = self.program.names
        union = dict.fromkeys([name for slot in inputs for name in names[slot]])
        count = len(inputs)
        if count > _MOST_OPERANDS:
            half = count // 2
            kept = tuple([name for name in union if any(name in names[slot] for slot in inputs[half:]) or name in out])
            # halves keep the names of the other half, so that nothing is summed out too early
            wanted = tuple([name for name in kept if any(name in names[slot] for slot in inputs[:half])])
            return self._multiply_at_once([self._multiply_at_once(inputs[:half], wanted), *inputs[half:]], out)
        if count > 1 and self.cells(union) * count > _AT_ONCE and not (count == 2 and self.cells(union) < _AT_ONCE):
            return super().multiply(inputs, out)
        wanted = tuple([name for name in out if name in union])
        if count == 1 and names[inputs[0]] == wanted:
            return inputs[0]
        return self.emit(tuple(inputs), wanted, small=True)

    # -- from the leaves to the root ----------------------------------------------------------------------------------

    def _eliminate(self, scopes: Sequence[tuple[str, ...]]) -> None:
        """Sum out all names, but those of a single scope: at once, in a known order, or in one that is found here."""
        count = len(self.tables)
        union = {name for names in self.program.names for name in names}
        joint = self.cells(union)
        if count <= _MOST_OPERANDS and joint * count <= _AT_ONCE:
            self._note_cost((), joint)
            self.cliques.append(Clique(tuple(union), None, inputs=list(range(count))))
        elif self.order is not None:
            self._note_cost(self.order.names, self.order.largest, self.order.total)
            self._follow_order(self.order, range(count), scopes)
        else:
            self._eliminate_greedily(scopes)

    def _note_cost(self, names: Iterable[str], largest: float, total: float | None = None) -> None:
        """Note the cost of eliminations, and refuse a table that is too large."""
        if largest > self.most_cells:
            raise TooManyCells
        self._eliminated += names
        self._cost += largest if total is None else total
        self._widest = max(self._widest, largest)

    def _eliminate_greedily(self, scopes: Sequence[tuple[str, ...]]) -> None:
        """Sum out the name that leaves the smallest table, again and again."""
        keep = scopes[0] if self.read_once else ()
        around: dict[str, set[str]] = defaultdict(set)
        holding: dict[str, set[int]] = defaultdict(set)
        for slot, names in enumerate(self.program.names):
            for name in names:
                around[name].update(names)
                holding[name].add(slot)
        for name in keep:
            around[name].update(keep)
        live = set(range(len(self.tables)))
        logs = {name: _log_size(self.sizes[name]) for name in around}
        log_of = logs.__getitem__
        scores = {name: sum(map(log_of, others)) for name, others in around.items()}
        alive = around.keys() - keep
        # of equal scores, what stands first in the network goes first
        rank = {name: place for place, name in enumerate(around)}
        heap = [(score, rank[name], name) for name, score in scores.items() if name in alive]
        heapq.heapify(heap)
        while alive:
            score, _, vertex = heapq.heappop(heap)
            if vertex not in alive or score != scores[vertex]:
                continue
            if score > _WIDE:
                self._follow_order(self._order_rest(live, keep), sorted(live), scopes)
                return
            clique, slots, score = self._enlarge(vertex, around, holding, scores, logs, alive)
            # the order of a set differs from one process to another, and with it rounding would
            inner = sorted([name for name in clique if name in alive and holding[name] <= slots])
            rest = clique.difference(inner)
            outer = tuple(sorted(rest))
            alive.difference_update(inner)
            self._note_cost(inner, math.exp(min(score / _LOG_UNIT, 700.0)))
            inputs = sorted(slots)
            message = self.multiply(inputs, outer)
            self.cliques.append(Clique((*inner, *outer), None, outer, inputs, message))
            live -= slots
            live.add(message)
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
                held.add(message)
                if other in alive:
                    heapq.heappush(heap, (scores[other], rank[other], other))
        if self.read_once:
            self.cliques.append(Clique(keep, None, (), sorted(live)))

    def _enlarge(
        self,
        vertex: str,
        around: Mapping[str, set[str]],
        holding: Mapping[str, set[int]],
        scores: Mapping[str, int],
        logs: Mapping[str, int],
        alive: set[str],
    ) -> tuple[set[str], set[int], int]:
        """Add the tables of neighbors to those of a vertex as long as einsum multiplies all of them in one go."""
        clique, slots, score = around[vertex], holding[vertex], scores[vertex]
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

    def _order_rest(self, slots: Collection[int], keep: tuple[str, ...]) -> EliminationOrder:
        """Return the order in which to eliminate what is left, by the best of all heuristics."""
        scopes = [self.program.names[slot] for slot in slots]
        count = len(set().union(*scopes))
        order = find_order(scopes, self.sizes, keep, max(1e5, _CELLS_PER_TRIAL * count), 100 * self.most_cells)
        if order.largest > self.most_cells:
            raise TooManyCells(order.total)
        self.lasting = self.read_once or order.total < MOST_LASTING
        self._note_cost(order.names, order.largest, order.total)
        return order
