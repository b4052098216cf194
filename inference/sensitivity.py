"""How a posterior depends on the tables of a network: derivatives by every parameter, and how far each may move.

The probability of evidence is linear in each entry of a table, so a posterior is a ratio of linear functions of a
parameter (Castillo, Gutiérrez and Hadi 1997; Laskey 1995). One pass backward through the program that computed the
posterior gives the slopes of all of these functions (Darwiche 2003).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridbn.errors import NetworkError, TableError, TooWide
from hybridbn.inference.compilation import Question
from hybridbn.inference.elimination.factors import PotentialSource
from hybridbn.inference.elimination.program import Program
from hybridbn.inference.engines import Solution
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.inference.queries import find_contradictions
from hybridbn.inference.relevance import Snapshot
from hybridbn.inference.solutions import solve
from hybridbn.network import Network
from hybridbn.options import Options, check_count
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import freeze
from hybridbn.variables import Discrete, Values

if TYPE_CHECKING:
    import pandas

__all__ = ["Sensitivity", "analyze_sensitivity", "differentiate"]

_SMALL = 1e-50
"""Products whose largest number is smaller are scaled, so that long ones do not underflow."""
_LARGE = 20_000
"""Products of so many cells are left to BLAS."""


def analyze_sensitivity(
    network: Network, target: str, evidence: Any = None, options: Options | None = None
) -> Sensitivity:
    """Return how the posterior of a discrete variable depends on every parameter of every table, for one case.

    Examples
    --------
    >>> import hybridbn as hb
    >>> sick, cough = hb.Discrete("sick", states=("no", "yes")), hb.Discrete("cough", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(sick, table=[0.9, 0.1]),
    ...     hb.Multinomial(cough, parents=(sick,), table=[[0.8, 0.2], [0.1, 0.9]]),
    ... ])
    >>> sensitivity = net.sensitivity("sick", {"cough": "yes"})
    >>> sensitivity.derivatives("sick", "yes").round(4)
    array([-2.4691,  2.4691])
    >>> low, high = sensitivity.ranges("sick")  # above this prior, the most probable state would be another one
    >>> round(float(high[1]), 4)
    0.1818
    >>> sensitivity.predict("cough", {"sick": "no", "cough": "yes"}, 0.1).round(4)
    array([0.5, 0.5])
    """
    variable = network.variable(target)
    if not isinstance(variable, Discrete):
        raise TableError(
            f"{target!r} is continuous; a sensitivity analysis is about the probabilities of a discrete variable"
        )
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"a sensitivity analysis is about one case: its evidence is a mapping, not {evidence!r:.80}")
    options, snapshot = options or Options(), Snapshot.of(network)
    reader = EvidenceReader(network, evidence, [target])
    collector = _SolutionCollector()
    answer = solve(snapshot, Question((target,)), reader.evidence(), options, lambda *_: [collector])
    answer.refuse(find_contradictions(snapshot, answer.problem, reader, options), options)
    tables = {name: table for name in network if (table := snapshot.potential(name).as_table())}
    if collector.solution is None or math.isnan(collector.solution.tables[0].sum()):
        raise TableError("a sensitivity analysis needs evidence that is possible; impossible='nan' is of no use here")
    probabilities, gradients = _differentiate_tables(collector.solution, len(variable), options.max_bytes)
    return Sensitivity(variable, probabilities, tables, gradients)


class _SolutionCollector:
    """Keeps the solution of the one case."""

    solution: Solution | None = None

    def add(self, part: Solution) -> None:
        """Store the solution."""
        self.solution = part


def _differentiate_tables(solution: Solution, states: int, max_bytes: float) -> tuple[Values, dict[str, Values]]:
    """Return the posterior (states,), and the derivatives of the joint probabilities of evidence and target.

    The derivatives are divided by the probability of the evidence, and have the dimensions of each table and the
    target's states; tables on which the posterior does not depend are left out.
    """
    problem = solution.problem
    needed = 8 * (problem.order.total + 2 * states * problem.order.largest)
    if needed > max_bytes:
        raise TooWide(
            f"a sensitivity analysis needs {needed / 2**30:.3g} GiB for this evidence; at most {max_bytes / 2**30:.3g}"
            " GiB are allowed. Observe more variables, or raise max_bytes"
        )
    arrays = []
    for source in problem.sources:
        table = source.potential.as_table() if isinstance(source, PotentialSource) else None
        if source.static and table is not None:
            arrays.append(table.table)
            continue
        array, _ = source.values(solution.axes, solution.evidence)
        arrays.append(array[..., 0] if source.rows else array)
    joint, slopes = differentiate(problem.program, arrays)
    total = joint.sum()
    gradients = {}
    for source, slope in zip(problem.sources, slopes, strict=True):
        if isinstance(source, PotentialSource) and (table := source.potential.as_table()):
            gradients[table.child.name] = _insert_observed(table, source.hard, solution, slope / total)
    return joint / total, gradients


def _insert_observed(table: Multinomial, hard: Collection[str], solution: Solution, slope: Values) -> Values:
    """Return the derivatives by a whole table; those where it contradicts the evidence are zero."""
    full = np.zeros((*table.table.shape, slope.shape[-1]))
    findings = solution.evidence.findings
    full[tuple(findings[n].values[0] if n in hard else slice(None) for n in table.scope)] = slope
    return full


def differentiate(program: Program, arrays: Sequence[Values]) -> tuple[Values, list[Values]]:
    """Return the one table of a program, and the derivatives of all its cells by every cell of every factor.

    Parameters
    ----------
    arrays : sequence of ndarray
        The factors, without rows.

    Returns
    -------
    table : ndarray (states,)
        Divided by a positive number that keeps it within range.
    derivatives : list of ndarray (*factor, states)
        Of that table.

    Examples
    --------
    >>> from hybridbn.inference.elimination.compilers import compile_program
    >>> from hybridbn.inference.elimination.program import Factor
    >>> program = compile_program([Factor(("a",)), Factor(("a", "b"))], [("b",)], {"a": 2, "b": 2})
    >>> table, (by_a, _) = differentiate(program, [np.array([0.4, 0.6]), np.array([[0.9, 0.1], [0.5, 0.5]])])
    >>> (by_a[:, 0] / table.sum()).round(9).tolist()
    [0.9, 0.5]
    """
    slots: dict[int, Values] = dict(enumerate(arrays))
    factors = []
    for step in program.steps:
        assert not step.divide  # with one scope, messages go one way
        subscripts = step.subscripts.replace("Z", "")
        product = _multiply(subscripts, [slots[slot] for slot in step.inputs])
        largest = float(product.max(initial=0.0))
        scale = largest if 0 < largest < _SMALL else 1.0
        slots[step.output] = product if scale == 1 else product / scale
        factors.append((step, subscripts, scale))
    (output,) = program.outputs
    table = slots[output]
    slopes: dict[int, Values] = {output: np.eye(len(table))}
    for step, subscripts, scale in reversed(factors):
        above = slopes.pop(step.output, None)
        if above is None:
            continue
        if scale != 1:
            above = above / scale
        for slot, (backward, alone) in zip(step.inputs, _turn_back(subscripts), strict=True):
            slope = _multiply(backward, [above, *(slots[other] for other in step.inputs if other != slot)])
            if alone:
                slope = np.broadcast_to(np.expand_dims(slope, alone), (*slots[slot].shape, slope.shape[-1]))
            slopes[slot] = slopes[slot] + slope if slot in slopes else slope
    return table, [slopes.get(slot, np.zeros((*array.shape, len(table)))) for slot, array in enumerate(arrays)]


@lru_cache(maxsize=256)
def _select_others(states: int) -> Values:
    """Return the matrix that adds up, for each state, the numbers of all other states."""
    return freeze(1.0 - np.eye(states))


@lru_cache(maxsize=4096)
def _turn_back(subscripts: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return, for each input of a product, the product that its derivatives are, and the dimensions along which they
    are constant, because the input alone was summed over them.

    Examples
    --------
    >>> _turn_back("abd,bc->ac")
    [('acZ,bc->abZ', (2,)), ('acZ,abd->bcZ', ())]
    """
    parts, out = subscripts.split("->")
    names, result = parts.split(","), []
    for place, own in enumerate(names):
        others = names[:place] + names[place + 1 :]
        alone = tuple(i for i, letter in enumerate(own) if letter not in "".join([out, *others]))
        kept = "".join(letter for i, letter in enumerate(own) if i not in alone)
        result.append((f"{','.join([f'{out}Z', *others])}->{kept}Z", alone))
    return result


def _multiply(subscripts: str, operands: Sequence[Values]) -> Values:
    large = len(operands) > 1 and math.prod(operand.size for operand in operands) > _LARGE**2
    product: Values = np.einsum(subscripts, *operands, optimize=large)
    return product


@dataclass(frozen=True, repr=False)
class Sensitivity:
    """How the posterior of a discrete variable depends on the parameters of the network's tables.

    A parameter moves with the others of its row: they keep their ratios, so that the row still sums to one (where it
    is one, the others share the rest evenly). With ``alone=True`` the others stay as they are.

    Attributes
    ----------
    target : Discrete
    probabilities : ndarray (states,)
        The posterior.
    tables : dict of Multinomial
        By node.
    gradients : dict of ndarray (*parents, states, states of the target)
        Derivatives of the joint probability of evidence and target by each entry alone, divided by the probability of
        the evidence; nodes on which the posterior does not depend are left out.
    """

    target: Discrete
    probabilities: Values
    tables: Mapping[str, Multinomial]
    gradients: Mapping[str, Values]

    @property
    def state(self) -> Hashable:
        """The most probable state."""
        return self.target.states[int(self.probabilities.argmax())]

    def derivatives(self, node: str, state: Any = None, *, alone: bool = False) -> Values:
        """Return the derivatives of the posterior by each entry of a node's table.

        They have the dimensions of the table, and the target's states last unless one `state` is named.
        """
        slopes = self._slopes(node, alone)
        derivatives = slopes - self.probabilities * slopes.sum(axis=-1, keepdims=True)
        return np.asarray(derivatives if state is None else derivatives[..., self._code(state)])

    def ranges(self, node: str) -> tuple[Values, Values]:
        """Return the ends of the range in which each entry of a node's table may be, the others moving with it, while
        the most probable state stays the same.
        """
        table, slopes = self._table(node).table, self._slopes(node)
        best = int(self.probabilities.argmax())
        lead = self.probabilities[best] - np.delete(self.probabilities, best)
        gain = slopes[..., best : best + 1] - np.delete(slopes, best, axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(gain == 0, np.inf, -lead / gain)
        down = np.where((gain > 0), away, -np.inf).max(axis=-1, initial=-np.inf)
        up = np.where((gain < 0), away, np.inf).min(axis=-1, initial=np.inf)
        return np.clip(table + down, 0.0, table), np.clip(table + up, table, 1.0)

    def predict(self, node: str, states: Mapping[str, Any], value: float) -> Values:
        """Return the posterior if a parameter had another value, the others of its row moving with it.

        Parameters
        ----------
        states : mapping
            The states of the node and of its parents.
        value : float
        """
        potential = self._table(node)
        if not isinstance(states, Mapping) or set(states) != set(potential.scope):
            raise TableError(f"name the states of {potential.scope} in a mapping, not {states!r:.80}")
        cell = tuple(v.code(states[v.name]) for v in (*potential.parents, potential.child))
        if min(cell) < 0 or not isinstance(value, Real) or not 0 <= value <= 1:
            raise TableError(
                f"a parameter has known states and a value between 0 and 1, not {dict(states)} and {value}"
            )
        return self._move(self._slopes(node)[cell], value - potential.table[cell])

    def _move(self, slopes: Values, change: Any) -> Values:
        """Return the posterior after changes (...,) of parameters with some slopes (..., states)."""
        joint = np.maximum(self.probabilities + slopes * np.asarray(change)[..., None], 0.0)
        with np.errstate(invalid="ignore"):
            return np.asarray(joint / joint.sum(axis=-1, keepdims=True))

    def to_frame(self, state: Any = None, most: int | None = None) -> pandas.DataFrame:
        """Return a DataFrame of the parameters, those that change the probability of a state most first.

        Columns are the parameter as text, its node, its value, the derivative, and the ends `low` and `high` of the
        range in which it may be while the most probable state stays the same.

        Parameters
        ----------
        state : optional
            A state of the target; by default the most probable one.
        most : int, optional
            How many parameters to return; by default all.
        """
        import pandas

        code = self._code(state)
        derivatives = {node: self.derivatives(node)[..., code] for node in self.tables}
        chosen = self._rank(derivatives, most)
        ranges = {node: self.ranges(node) for node in {node for node, _ in chosen}}
        rows = [
            (
                self.describe(node, cell),
                node,
                self.tables[node].table[cell],
                derivatives[node][cell],
                ranges[node][0][cell],
                ranges[node][1][cell],
            )
            for node, cell in chosen
        ]
        return pandas.DataFrame(rows, columns=["parameter", "node", "value", "derivative", "low", "high"])

    def find_swings(self, state: Any = None, change: float = 0.1, most: int = 12) -> list[tuple[str, float, float]]:
        """Return the parameters that matter most, each as text with the probability of a state where the parameter is
        smaller, and where it is larger, by a share of its value.
        """
        if not isinstance(change, Real) or not 0 < change <= 1:
            raise TableError(f"the share by which parameters change is above 0 and at most 1; found {change!r}")
        code, ends = self._code(state), {}
        for node in self.gradients:
            table, slopes = self.tables[node].table, self._slopes(node)
            lower, upper = -change * table, np.minimum((1 + change) * table, 1.0) - table
            ends[node] = [self._move(slopes, step)[..., code] for step in (lower, upper)]
        swings = {node: np.nan_to_num(np.abs(upper - lower)) for node, (lower, upper) in ends.items()}
        return [
            (self.describe(node, cell), float(ends[node][0][cell]), float(ends[node][1][cell]))
            for node, cell in self._rank(swings, most)
        ]

    def plot(self, state: Any = None, change: float = 0.1, ax: Any = None, most: int = 12) -> Any:
        """Draw a tornado with matplotlib: the probability of a state where each parameter is smaller, or larger, by a
        share of its value, those that matter most on top; returns the axes.
        """
        from hybridbn.pictures import plot_sensitivity

        return plot_sensitivity(self, state, change, ax, most)

    def describe(self, node: str, cell: Sequence[int]) -> str:
        """Return a parameter as text, such as ``P(cough = yes | ill = no)``."""
        potential = self._table(node)
        named = zip(potential.scope, potential.variables, cell, strict=True)
        *above, own = [f"{name} = {v.states[code]}" for name, v, code in named if isinstance(v, Discrete)]
        given = f" | {', '.join(above)}" if above else ""
        return f"P({own}{given})"

    def _rank(self, scores: Mapping[str, Values], most: int | None) -> list[tuple[str, tuple[int, ...]]]:
        """Return the nodes and cells with the largest scores, whatever their signs."""
        if most is not None:
            most = check_count(most, "the number of parameters")
        if not scores:
            return []
        nodes, sizes = list(scores), [score.size for score in scores.values()]
        order = np.argsort(-np.abs(np.concatenate([score.reshape(-1) for score in scores.values()])), kind="stable")
        ends = np.cumsum(sizes)
        result = []
        for place in order[:most].tolist():
            number = int(np.searchsorted(ends, place, side="right"))
            flat = place - (ends[number] - sizes[number])
            result.append((nodes[number], tuple(int(i) for i in np.unravel_index(flat, scores[nodes[number]].shape))))
        return result

    def _slopes(self, node: str, alone: bool = False) -> Values:
        """Return the slopes (*table, states of the target) of the joint probabilities along each entry."""
        table, own = self._table(node).table, self.gradients.get(node)
        if own is None:
            return np.zeros((*table.shape, len(self.target)))
        if alone:
            return own
        states = table.shape[-1]
        others = _select_others(states)
        rest, shares = others @ (table[..., None] * own), (table @ others)[..., None]
        if shares.all():
            return own - rest / shares
        even = others @ own / max(states - 1, 1)
        moved = np.divide(rest, shares, out=even, where=shares > 0)
        return own - moved if states > 1 else np.zeros_like(own)

    def _table(self, node: str) -> Multinomial:
        if not isinstance(node, str) or node not in self.tables:
            raise NetworkError(f"{node!r} is no node with a table of probabilities")
        return self.tables[node]

    def _code(self, state: Any) -> int:
        code = int(self.probabilities.argmax()) if state is None else self.target.code(state)
        if code < 0:
            raise TableError(f"{self.target.name!r}: {state!r} is not a state")
        return code

    def __repr__(self) -> str:
        count = sum(table.table.size for table in self.tables.values())
        return f"<sensitivity of {self.target.name!r} to {count} parameters in {len(self.tables)} tables>"
