"""What every fitter promises: statistics of a table's rows first, the potential from them after; and which fitter a
column gets, and which columns are discretized for it.

Statistics of disjoint sets of rows add up, so streaming, weights, boosting and many machines are one code path.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError, TableError, TooWide
from hybridbn.fitting.contingency_tables import select_complete_rows
from hybridbn.fitting.counting import Names, RowCounter
from hybridbn.fitting.discretize import equal_frequency, mdl
from hybridbn.potentials.base import PointCells, Potential, check_parents, freeze
from hybridbn.registry import Registered, Registry
from hybridbn.tables import Rows, Table
from hybridbn.tables.scales import FEW_VALUES, MOST_LISTED, Scale
from hybridbn.variables import (
    Codes,
    Continuous,
    Discrete,
    Values,
    Variable,
    encode_configurations,
    hint_at_names,
    shorten,
)

if TYPE_CHECKING:
    from hybridbn.fitting import GaussianFitter, MultinomialFitter

F = TypeVar("F", bound="Fitter")


@dataclass(frozen=True, eq=False, kw_only=True)
class Statistics:
    """What a fitter has to know about some rows: the same for all that can be learned from them.

    ``a + b`` are the statistics of the rows of both. A subclass adds its arrays, and implements `merged` if
    these don't just add up.

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

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, freeze(value))

    def merged(self, other: Self) -> Self:
        """Return the statistics of the rows of both; the variables are known to be the same, and by default anything
        else adds up.
        """
        names = {own.name for own in fields(self)} - {"child", "parents"}
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})

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
    for_numbers : bool
        Whether the child has to be a number.
    asks_counter : bool
        Whether its statistics ask a counter of the table and never the rows, so that it learns from tables of any size.
    is_normal : bool
        Whether it learns normal densities of the values at none of the points.
    searches : bool
        Whether learning takes a search that is too slow to compare families by.
    points : tuple of float
        The values of a number that have mass beside a density; by default there are none.

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
    for_numbers: ClassVar[bool] = False
    asks_counter: ClassVar[bool] = False
    is_normal: ClassVar[bool] = False
    searches: ClassVar[bool] = False
    points: tuple[float, ...] = ()
    registry: ClassVar[Registry[type[Fitter]]] = Registry("fitter", "hybridbn.fitting", "name", reserved=("auto",))

    def __init_subclass__(cls, **options: Any) -> None:
        if "name" in vars(cls) and "family" not in vars(cls):
            cls.family = cls.name
        super().__init_subclass__(**options)

    def with_density(self, density: Spec) -> Spec:
        """Return the fitter with another family of densities beside its points: that family where it has none."""
        return density

    @property
    def measured_by(self) -> Spec:
        """What is learned in its place where parents are chosen: by default the same."""
        return self

    @classmethod
    def fits(cls, child: Variable, parents: tuple[Variable, ...] = ()) -> bool:
        """Tell whether the family is made for such a child given such parents; by default for any, or any number.

        Where it is not, one of the `fallbacks` is learned instead: a family of numbers asked for all columns leaves a
        discrete class to a table of probabilities.
        """
        return isinstance(child, Continuous) or not cls.for_numbers

    @classmethod
    def like(cls, potential: Potential) -> str | Fitter:
        """Return what to ask for where a potential of its family is to be learned again; by default its name."""
        return cls.name

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

    def statistics(self, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Statistics:
        """Read what there is to know about the rows of a table; by default the rows themselves.

        The columns are read as codes or values of these variables, and each row counts with its weight. A row that
        lacks the child or one of the parents is left out (available cases).
        """
        return RowStatistics.of(table, child, parents)

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
    weights : ndarray (rows,)
    """

    columns: tuple[NDArray[Any], ...]
    weights: Values

    def merged(self, other: Self) -> Self:
        """Put the rows of both together."""
        weights = np.concatenate([self.weights, other.weights])
        columns = tuple(np.concatenate(pair) for pair in zip(self.columns, other.columns, strict=True))
        return replace(self, total=self.total + other.total, columns=columns, weights=weights)

    @cached_property
    def cells(self) -> Codes:
        """The configuration of the discrete parents in each row."""
        given = zip(self.parents, self.columns[1:], strict=True)
        discrete = [(column, len(parent)) for parent, column in given if isinstance(parent, Discrete)]
        return encode_configurations([one[0] for one in discrete], [one[1] for one in discrete], len(self.columns[0]))

    @cached_property
    def numbers(self) -> Values:
        """The continuous parents (rows, continuous parents)."""
        given = zip(self.parents, self.columns[1:], strict=True)
        numbers = [column for parent, column in given if isinstance(parent, Continuous)]
        return np.stack(numbers, axis=1) if numbers else np.zeros((len(self.columns[0]), 0))

    def split_rows(self) -> list[Codes]:
        """Return the rows of each configuration of the discrete parents."""
        size = math.prod(len(parent) for parent in self.parents if isinstance(parent, Discrete))
        # short integers are sorted by their digits
        order = np.argsort(self.cells.astype(np.min_scalar_type(size)), kind="stable")
        return np.split(order, np.cumsum(np.bincount(self.cells, minlength=size))[:-1])

    @cached_property
    def table(self) -> Table:
        """The rows as a table."""
        variables = (self.child, *self.parents)
        arrays = {variable.name: column for variable, column in zip(variables, self.columns, strict=True)}
        return Table.from_arrays(variables, arrays).with_weights(self.weights)

    def log_likelihood(self, potential: Potential) -> float:
        """Return the logarithm of the probability that a potential gives to the rows."""
        variables = (self.child, *self.parents)
        axes = {variable.name: column[None] for variable, column in zip(variables, self.columns, strict=True)}
        return float(self.weights @ potential.log_on(axes).reshape(-1))

    @classmethod
    def of(cls, table: Rows, child: Variable, parents: tuple[Variable, ...] = ()) -> Self:
        """Collect them from a table."""
        columns, given, total = observed(table, child, parents)
        weights = np.ones(len(columns[0])) if given is None else given
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


def _describe_family(child: Variable, parents: Sequence[Variable]) -> str:
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
        raise TooWide(
            f"{_describe_family(child, parents)}: the {what} would have {float(cells):.3g} numbers"
            f" ({8 * cells / 2**30:.3g} GiB), more than max_bytes={max_bytes} allows; give the node fewer parents, or"
            " merge states"
        )


def refuse_overflow(names: Iterable[str], squares: Iterable[ArrayLike]) -> None:
    """Refuse columns whose squares, and so whose variance, floats can't hold.

    Examples
    --------
    >>> refuse_overflow(["x", "y"], [4.0, np.inf])
    Traceback (most recent call last):
        ...
    hybridbn.errors.TableError: column 'y': the values lie so far apart, or so close together, that their variance
    leaves the range of floats; measure them in another unit
    """
    for name, own in zip(names, squares, strict=True):
        if not np.isfinite(own).all():
            raise TableError(
                f"column {name!r}: the values lie so far apart, or so close together, that their variance leaves the"
                " range of floats; measure them in another unit"
            )


def effective_size(weights: Values) -> float:
    """Return how many rows these are worth: the n of h = c / sqrt(n).

    A row of weight two is two rows; of rows that count less than one, as many equal ones as are worth as much (Kish).

    Examples
    --------
    >>> effective_size(np.array([2.0, 2.0, 2.0])), effective_size(np.array([0.5, 0.0, 0.5]))
    (6.0, 2.0)
    """
    shares = weights / weights.max()
    return float(shares.sum() ** 2 / (shares @ np.minimum(shares, 1.0 / weights.max())))


FamilyName: TypeAlias = Literal[
    "auto", "atoms", "gaussian", "gaussian_mixture", "kernel", "mte", "multinomial", "semiparametric", "softmax"
]
"""The names of the library's own fitters; one's own are given as objects, or cast, where types are checked."""
Spec: TypeAlias = "str | Fitter"
Potentials: TypeAlias = "FamilyName | Fitter | Mapping[str, FamilyName | Fitter]"
"""What builders take as `potentials`: one choice for all columns, or one for each (a column left out: "auto")."""

_AUTO = ("multinomial", "mte")
"""What "auto" stands for: the first of them that fits."""


class Role(NamedTuple):
    """What a column is in a model: its variable, and the name of a family or the fitter that was asked for it."""

    variable: Variable
    fitter: Spec


def fitter_of(spec: Spec, child: Variable, parents: tuple[Variable, ...] = ()) -> Fitter:
    """Return the fitter of a child given its parents that a name stands for.

    Parameters
    ----------
    spec : "auto", "mte", "kernel", "gaussian", "softmax", "multinomial" or Fitter
        Or the name of any other fitter that is defined. "auto" is "mte". All of them mean a table of probabilities
        (`MultinomialFitter`) where child and parents are all discrete. "gaussian" means a logistic regression
        (`SoftmaxFitter`) for a discrete child of continuous parents. A fitter stands for its name with its options: it
        is returned unless it doesn't fit here, and then one of its `fallbacks` is.
    child : Variable
    parents : tuple of Variable

    Examples
    --------
    >>> c, x = Discrete("c", states=("a", "b")), Continuous("x")
    >>> fitter_of("gaussian", x, (c,))
    GaussianFitter(ridge=0.0, floor=None, max_bytes=2147483648)
    >>> [fitter_of("gaussian", *family).name for family in ((c, (x,)), (c, ()))]
    ['softmax', 'multinomial']
    """
    name = check_spec(spec, child.name)
    asked = type(spec) if isinstance(spec, Fitter) else None if spec == "auto" else _require_fitter(spec)
    # tables of probabilities are right for any discrete variables, and don't need what else there is to be imported
    candidates = _AUTO if asked is None else asked.fallbacks
    if asked is not None and asked.fits(child, parents):
        return spec if isinstance(spec, Fitter) else asked()
    for candidate in candidates:
        fitter = _require_fitter(candidate)
        if fitter.fits(child, parents):
            return fitter()
    raise NetworkError(_describe_unfit(name, child, parents))


def spec_of(potential: Potential) -> Spec | None:
    """Return what to ask for where such a potential is to be learned again, None where no fitter learns its family.

    Examples
    --------
    >>> from hybridbn.potentials import LinearGaussian, PointMass
    >>> x = Continuous("x")
    >>> spec_of(LinearGaussian(x, intercept=0, variance=1)), spec_of(PointMass(x, value=0))
    ('gaussian', None)
    """
    Fitter.registry.find(potential.family)
    fitters = (fitter for fitter in Fitter.registry.values() if fitter.family == potential.family)
    return next((fitter.like(potential) for fitter in fitters), None)


def list_fitter_names() -> list[str]:
    """Return the names that potentials are asked for by, "auto" first.

    Examples
    --------
    >>> list_fitter_names()[:4]
    ['auto', 'atoms', 'gaussian', 'gaussian_mixture']
    """
    return ["auto", *sorted(Fitter.registry.load())]


def _require_fitter(name: str) -> type[Fitter]:
    fitter = Fitter.registry.find(name)
    if fitter is None:
        raise NetworkError(f"there is no fitter {name!r}")
    return fitter


def _describe_unfit(name: str, child: Variable, parents: tuple[Variable, ...]) -> str:
    """Return the message for a family that is asked for where it makes no sense, and has no fallback that does."""
    if name != "multinomial":
        given = f" given {shorten([parent.name for parent in parents])}" if parents else ""
        return f"{child.name!r}: {name!r} can't be learned for it{given}; choose another family for {child.name!r}"
    number = next(variable.name for variable in (child, *parents) if isinstance(variable, Continuous))
    return (
        f"{child.name!r}: a table of probabilities was asked for, but {number!r} is continuous; roles() discretizes the"
        f" columns for which 'multinomial' is asked: ask it for {number!r} too, or choose another family for"
        f" {child.name!r}"
    )


def check_spec(spec: Any, column: str | None = None) -> str:
    """Return the name of a choice, for a column or for all of them, refusing what is none.

    Examples
    --------
    >>> check_spec("gausian", "x")
    Traceback (most recent call last):
        ...
    hybridbn.errors.NetworkError: 'x': potentials='gausian' is not known; did you mean 'gaussian'?
    """
    if isinstance(spec, Fitter):
        return spec.name
    if isinstance(spec, str) and (spec == "auto" or Fitter.registry.find(spec) is not None):
        return spec
    names = list_fitter_names()
    hint = hint_at_names(spec, names, f"choose one of {shorten(names)}, or give a fitter")
    if isinstance(spec, type) and issubclass(spec, Fitter):
        hint = f"give an object: {spec.__name__}()"
    raise NetworkError(f"{f'{column!r}: ' if column is not None else ''}potentials={spec!r} is not known; {hint}")


def roles(table: Rows, target: str | None = None, potentials: Spec | Mapping[str, Spec] = "auto") -> dict[str, Role]:
    """Return what each column of a table is in a model; number columns for which tables are asked are discretized.

    Parameters
    ----------
    table : Table
    target : str, optional
        A discrete one guides the discretization of the others.
    potentials : choice, or mapping from columns to choices
        As in `fitter_of`; columns that a mapping leaves out get "auto". "multinomial" on a number column is the request
        to discretize it: by `mdl` where there is a discrete target, else by `equal_frequency`, unless the
        `MultinomialFitter` names another discretizer. A family of numbers that is asked for by its name gets the
        heavy points of the column (`find_heavy_points`) by an `AtomsFitter`, unless it is the target; a fitter object
        is taken as it is.

    Returns
    -------
    dict from column to Role
        In the table's order. Read the table with ``Table(table, variables=[role.variable for role in ...])``, or
        ``table.coded(role.variable)``.

    Examples
    --------
    >>> import hybridbn as hb
    >>> table = hb.Table({"x": [1, 2, 3, 11, 12, 13], "y": [1, 2, 3, 4, 5, 6], "c": ["a"] * 3 + ["b"] * 3})
    >>> found = roles(table, "c", {"x": "multinomial", "y": "gaussian"})
    >>> found["x"].variable.cuts, found["y"].variable, found["c"].fitter
    ((7.0,), Continuous(name='y', domain=(-inf, inf)), 'auto')
    """
    if target is not None:
        table.variable(target)
    wanted = _resolve_specs(table, potentials)
    table.require_rows(1).require_values()
    variables: dict[str, Variable] = {}
    guide: Discrete | None = None
    # the target first: where it is discretized itself, its intervals guide the others
    for name in sorted(table.names, key=lambda name: name != target):
        variable, spec = table.variable(name), wanted[name]
        if isinstance(variable, Continuous) and check_spec(spec, name) == "multinomial":
            chosen = getattr(spec, "discretizer", None)
            values, codes, weights = table.points(variable, None if name == target else guide)
            discretizer = chosen or (equal_frequency if codes is None else mdl)
            variable = Discrete(name, cuts=tuple(discretizer(values, codes, weights)))
        if isinstance(variable, Continuous):
            variable = table.scaled(name)
            if isinstance(spec, str) and name != target:
                wanted[name] = _add_points(table.scale(name), spec, table.is_ordered(name))
        if name == target and isinstance(variable, Discrete):
            guide = variable
        variables[name] = variable
    return {name: Role(variables[name], wanted[name]) for name in table.names}


def _resolve_specs(table: Rows, potentials: Any) -> dict[str, Spec]:
    if not isinstance(potentials, Mapping):
        check_spec(potentials, "all columns")
        return dict.fromkeys(table.names, potentials)
    for name, spec in potentials.items():
        if name not in table:
            raise TableError(f"potentials: there is no column {name!r}; the columns are {shorten(table.names)}")
        check_spec(spec, name)
    return {name: potentials.get(name, "auto") for name in table.names}


def _add_points(scale: Scale, spec: str, ordered: bool | None) -> Spec:
    """Return a family with the points of a column that have a mass of their own, if it has some.

    A column of few codes, marks aside, is learned as a table of all of them unless a family is asked for, one of
    declared codes in any case.
    """
    from hybridbn.fitting.atoms import AtomsFitter

    is_table = ordered or (spec == "auto" and len(scale.codes) - len(scale.marks) <= MOST_LISTED)
    if is_table and len(scale.codes) > FEW_VALUES:
        return AtomsFitter(scale.codes, spec, scale.codes[-1] - scale.codes[0], grid=True)
    return AtomsFitter(scale.points, spec, scale.points[-1] - scale.points[0] or None) if scale.points else spec


def moments_suffice(fitter: Fitter) -> TypeGuard[GaussianFitter]:
    """Tell whether a fitter learns from nothing but the means and products of its variables; a subclass may read more,
    or learn otherwise.

    Examples
    --------
    >>> from hybridbn.fitting import GaussianFitter
    >>> moments_suffice(GaussianFitter())
    True
    """
    from hybridbn.fitting import GaussianFitter

    return learns_as(fitter, GaussianFitter)


def counts_suffice(fitter: Fitter) -> TypeGuard[MultinomialFitter]:
    """Tell whether a fitter learns from nothing but joint counts of its variables; a subclass may read more, or learn
    otherwise.

    Examples
    --------
    >>> from hybridbn.fitting import MultinomialFitter
    >>> counts_suffice(MultinomialFitter())
    True
    """
    from hybridbn.fitting import MultinomialFitter

    return learns_as(fitter, MultinomialFitter)
