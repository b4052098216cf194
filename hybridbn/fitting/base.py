"""What every fitter promises: statistics of a table's rows first, the potential from them after.

Statistics of disjoint sets of rows add up, so streaming, weights, boosting and many machines are one code path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError, TooWide
from hybridbn.fitting.contingency_tables import select_complete_rows
from hybridbn.fitting.counting import Names, RowCounter
from hybridbn.potentials.base import PointCells, Potential, check_parents
from hybridbn.registry import Registered, Registry
from hybridbn.variables import Continuous, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.tables import Rows, Table

__all__ = [
    "Fitter",
    "Observed",
    "RowStatistics",
    "Statistics",
    "learns_as",
    "observed",
    "prepare_families",
]

Item = TypeVar("Item")
Result = TypeVar("Result")
F = TypeVar("F", bound="Fitter")

_SHARED_ROWS = 2**15
"""With fewer rows, threads would wait for each other longer than they save."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics(ABC):
    """What a fitter has to know about some rows: the same for all that can be learned from them.

    ``a + b`` are the statistics of the rows of both. A subclass adds its arrays and implements `merged`.

    Attributes
    ----------
    child : Variable
    parents : tuple of Variable
    total : float
        The weight of the rows that were used, which are those where child and parents are all observed.
    """

    child: Variable
    parents: tuple[Variable, ...]
    total: float

    @abstractmethod
    def merged(self, other: Self) -> Self:
        """Return the statistics of the rows of both; the variables are known to be the same."""

    def __add__(self, other: Any) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        if (self.child, *self.parents) != (other.child, *other.parents):
            mine, yours = _describe_family(self.child, self.parents), _describe_family(other.child, other.parents)
            detail = " with different states or domains" if mine == yours else ""
            raise NetworkError(
                f"can't merge statistics of {mine} with those of {yours}{detail}; read both tables against the same "
                "variables: Table(data, variables=...)"
            )
        return self.merged(other)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {_describe_family(self.child, self.parents)}: total weight {self.total:g}>"


class Fitter(Registered, ABC):
    """Learns one family of potentials; a subclass is a small frozen dataclass whose fields are its options.

    A subclass with a `name` can be asked for by that name wherever potentials are chosen, as soon as it is defined;
    then its options need defaults.

    Attributes
    ----------
    name : str
        What the fitter is called where a name is enough, such as "gaussian" or "mte".
    family : str
        The family of potentials that it learns, by default of the same name as the fitter.
    fallbacks : tuple of str
        The names of the fitters that take its place, the first one that fits, where it doesn't fit itself.
    instance_based : bool
        Whether its potentials keep the rows as points, so that their density at these rows is too high to compare
        models.
    asks_counter : bool
        Whether its statistics ask a counter of the table and never the rows, so that it learns from tables of any size.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from hybridbn.fitting import MultinomialFitter
    >>> table = hb.Table({"c": ["a", "a", "b", None]})
    >>> fitter, c = MultinomialFitter(), table.variable("c")
    >>> halves = [fitter.statistics(half, c) for half in (table[:2], table[2:])]
    >>> halves[0] + halves[1]
    <MultinomialStatistics of 'c': total weight 3>
    >>> fitter.potential(halves[0] + halves[1]).table
    array([0.6, 0.4])
    """

    name: ClassVar[str] = ""
    family: ClassVar[str] = ""
    fallbacks: ClassVar[tuple[str, ...]] = ("multinomial", "mte")
    instance_based: ClassVar[bool] = False
    asks_counter: ClassVar[bool] = False
    registry: ClassVar[Registry[type[Fitter]]] = Registry("fitter", "hybridbn.fitting", "name", reserved=("auto",))

    def __init_subclass__(cls, **options: Any) -> None:
        if "name" in vars(cls) and "family" not in vars(cls):
            cls.family = cls.name
        super().__init_subclass__(**options)

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Tell whether the family is made for such a child given such parents; by default for any.

        Where it is not, one of the `fallbacks` is learned instead: a family of numbers asked for all columns leaves a
        discrete class to a table of probabilities.
        """
        return True

    @classmethod
    def like(cls, potential: Potential) -> str | Fitter:
        """Return what to ask for where a potential of its family is to be learned again; by default its name."""
        return cls.name

    @property
    def points(self) -> tuple[float, ...]:
        """The values of a number that have mass beside a density; by default there are none."""
        return ()

    def locate_points(self, values: Values) -> NDArray[np.intp]:
        """Return the number of the point that each value is at, that of points where it is at none, and -1 where it is
        missing.

        Examples
        --------
        >>> from hybridbn.fitting import AtomsFitter
        >>> AtomsFitter((0.0, 1.0)).locate_points(np.array([1.0, 0.5, np.nan]))
        array([ 1,  2, -1])
        """
        cells = np.array(self.points)
        nearest, exact, _ = PointCells(cells, cells, cells).locate(values)
        return np.where(np.isnan(values), -1, np.where(exact, nearest, len(cells)))

    @property
    def density(self) -> str | Fitter:
        """What is learned of the values at none of the points: by default itself."""
        return self

    @property
    def is_normal(self) -> bool:
        """Whether it learns normal densities of the values at none of the points."""
        return False

    @property
    def searches(self) -> bool:
        """Whether learning takes a search that is too slow to compare families by."""
        return False

    def join_points(self, density: Potential, probabilities: Values) -> Potential:
        """Return a density with the points, and the probabilities of these and of anything else (parents, points + 1);
        by default the density alone.
        """
        return density

    def list_fitters(self, child: Variable, parents: tuple[Variable, ...] = (), *, quick: bool = False) -> list[Fitter]:
        """Return the fitters that it chooses from, without those that search if there are `quick` ones; by default
        itself.
        """
        return [self]

    @abstractmethod
    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Statistics:
        """Read what there is to know about the rows of a table.

        The columns are read as codes or values of these variables, and each row counts with its weight. A row that
        lacks the child or one of the parents is left out (available cases).
        """

    def requests(
        self, child: Variable, parents: tuple[Variable, ...] = ()
    ) -> tuple[list[Names], list[tuple[Names, Names]]]:
        """Return the families whose counts its statistics ask for, and the numbers and conditions of moments."""
        return [], []

    @abstractmethod
    def potential(self, statistics: Any) -> Potential:
        """Return the potential that the statistics speak for."""

    def fit(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Potential:
        """Return the potential that rows speak for: all of them if the fitter asks a counter only, else a sample of
        those that are read in passes.
        """
        if not self.asks_counter:
            table = table.sample(purpose=f"{self.family} densities")
        return self.potential(self.statistics(table, child, parents))


class Observed(NamedTuple):
    """The rows of a table in which some variables are all observed and whose weight is not zero.

    Attributes
    ----------
    columns : tuple of ndarray (rows,)
        Codes or values of each variable, in their order.
    weights : ndarray (rows,) or None
        None where no weights were given: every row counts once.
    total : float
        The sum of the weights.
    """

    columns: tuple[NDArray[Any], ...]
    weights: Values | None
    total: float


def observed(table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Observed:
    """Return the child's column and then those of the parents, without the rows where one is missing or the weight
    zero.

    The arrays are the table's own, not copies, where all rows stay.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"x": [1.5, None, 3.0], "c": ["b", "a", "a"]}, weights=[2, 1, 1])
    >>> observed(table, table.variable("x"), (table.variable("c"),))
    Observed(columns=(array([1.5, 3. ]), array([1, 0])), weights=array([2., 1.]), total=3.0)
    """
    checked, rows = check_parents(child, parents), table.sample()
    columns, weights = select_complete_rows(
        [rows.coded(variable) for variable in (child, *checked)], rows.weights if rows.weighted else None
    )
    total = float(len(columns[0])) if weights is None else float(weights.sum())
    return Observed(tuple(columns), weights, total)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RowStatistics(Statistics):
    """The rows in which child and parents are observed, for fitters that look at them again and again.

    Attributes
    ----------
    columns : tuple of ndarray (rows,)
        Codes or values of the child, then of the parents.
    weights : ndarray (rows,) or None
    """

    columns: tuple[NDArray[Any], ...]
    weights: Values | None

    def merged(self, other: Self) -> Self:
        """Put the rows of both together."""
        weights = None
        if self.weights is not None or other.weights is not None:
            weights = np.concatenate(
                [np.ones(len(own.columns[0])) if own.weights is None else own.weights for own in (self, other)]
            )
        columns = tuple(np.concatenate(pair) for pair in zip(self.columns, other.columns, strict=True))
        return replace(self, total=self.total + other.total, columns=columns, weights=weights)

    @cached_property
    def table(self) -> Table:
        """The rows as a table."""
        from hybridbn.tables import Table

        variables = (self.child, *self.parents)
        arrays = {variable.name: column for variable, column in zip(variables, self.columns, strict=True)}
        return Table.from_arrays(variables, arrays).with_weights(self.weights)

    @classmethod
    def of(cls, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Self:
        """Collect them from a table."""
        columns, weights, total = observed(table, child, parents)
        return cls(child=child, parents=tuple(parents), total=total, columns=columns, weights=weights)


def prepare_families(rows: Rows, families: Iterable[tuple[Fitter, Variable, tuple[Variable, ...]]]) -> None:
    """Count in one pass what the statistics of some families will ask for.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from hybridbn.fitting import MultinomialFitter
    >>> scan = hb.scan({"c": ["a", "b"], "d": ["u", "u"]})
    >>> c, d = scan.variables
    >>> prepare_families(scan, [(MultinomialFitter(), c, ()), (MultinomialFitter(), d, (c,))])
    >>> scan.passes.made
    2
    >>> MultinomialFitter().fit(scan, d, (c,)), scan.passes.made
    (<Multinomial d | c: 2 x 1>, 2)
    """
    counts: list[Names] = []
    moments: list[tuple[Names, Names]] = []
    variables: dict[str, Variable] = {}
    for fitter, child, parents in families:
        own_counts, own_moments = fitter.requests(child, parents)
        counts += own_counts
        moments += own_moments
        variables |= {variable.name: variable for variable in (child, *parents)}
    RowCounter(rows, variables.values()).prepare(counts, moments)


def refuse_empty(statistics: Statistics) -> None:
    """Raise `TableError` where no row has a say.

    Examples
    --------
    >>> import hybridbn as hb
    >>> from hybridbn.fitting import MultinomialFitter
    >>> a, b = hb.Discrete("a", (0, 1)), hb.Discrete("b", (0, 1))
    >>> MultinomialFitter().fit(hb.Table({"a": [0, None], "b": [None, 1]}), a, (b,))
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: no row has values of all of 'a' given 'b' and a positive weight, so nothing can be
    learned; leave out a column or an arc, or fill the missing cells first
    """
    if not statistics.total > 0:
        raise TableError(
            f"no row has values of all of {_describe_family(statistics.child, statistics.parents)} and a positive"
            " weight, so nothing can be learned; leave out a column or an arc, or fill the missing cells first"
        )


def has_numbers(child: Variable, parents: tuple[Variable, ...]) -> bool:
    """Tell whether a child or one of its parents is continuous.

    Examples
    --------
    >>> c, x = Discrete("c", states=("a", "b")), Continuous("x")
    >>> has_numbers(c, (x,)), has_numbers(c, ())
    (True, False)
    """
    return any(isinstance(variable, Continuous) for variable in (child, *parents))


def split_by_kind(parents: tuple[Variable, ...]) -> tuple[tuple[Discrete, ...], tuple[Continuous, ...]]:
    """Return the discrete and the continuous parents, each in the parents' order.

    Examples
    --------
    >>> c, x = Discrete("c", states=("a", "b")), Continuous("x")
    >>> [[v.name for v in kind] for kind in split_by_kind((x, c))]
    [['c'], ['x']]
    """
    return (
        tuple(parent for parent in parents if isinstance(parent, Discrete)),
        tuple(parent for parent in parents if isinstance(parent, Continuous)),
    )


def _describe_family(child: Variable, parents: tuple[Variable, ...]) -> str:
    given = f" given {', '.join(repr(parent.name) for parent in parents)}" if parents else ""
    return f"{child.name!r}{given}"


def learns_as(fitter: Fitter, kind: type[F]) -> TypeGuard[F]:
    """Tell whether a fitter learns as those of a kind do; a subclass may read more, or learn otherwise."""
    own = type(fitter)
    return isinstance(fitter, kind) and own.statistics is kind.statistics and own.potential is kind.potential


def refuse_too_wide(child: Variable, parents: Sequence[Variable], cells: int, max_bytes: int, what: str) -> None:
    """Raise `TooWide` where a family's arrays would need more memory than allowed, before any is allocated.

    Examples
    --------
    >>> from hybridbn.variables import Discrete
    >>> many = [Discrete(f"d{i}", tuple(range(50))) for i in range(6)]
    >>> refuse_too_wide(many[0], many[1:], 50**6, 2**31, "table")
    Traceback (most recent call last):
        ...
    hybridbn.errors.TooWide: 'd0' given 'd1', 'd2', 'd3', 'd4', 'd5': the table would have 1.56e+10 numbers (116 GiB),
    more than max_bytes=2147483648 allows; give the node fewer parents, or merge states
    """
    if 8 * cells > max_bytes:
        given = f" given {', '.join(repr(parent.name) for parent in parents)}" if parents else ""
        raise TooWide(
            f"{child.name!r}{given}: the {what} would have {float(cells):.3g} numbers ({8 * cells / 2**30:.3g} GiB),"
            f" more than max_bytes={max_bytes} allows; give the node fewer parents, or merge states"
        )


def effective_size(weights: Values) -> float:
    """Return how many equally weighted rows are worth as much as these (Kish): the n of h = c / sqrt(n).

    Examples
    --------
    >>> effective_size(np.array([2.0, 2.0, 2.0])), effective_size(np.array([1.0, 0.0, 1.0]))
    (3.0, 2.0)
    """
    shares = weights / weights.max()
    return float(shares.sum() ** 2 / (shares @ shares))
