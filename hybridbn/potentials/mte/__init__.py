"""Mixtures of truncated exponentials (MTE): potentials that are sums of exponentials on boxes, and their algebra."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Axes, Interval, Potential, check_parents, draw_codes, exponentiate, spread
from hybridbn.potentials.mte import algebra
from hybridbn.potentials.mte.algebra import integrate_all, integrate_product_cells, multiply_out
from hybridbn.potentials.mte.evaluation import evaluate, evaluate_log, integrate_cells, inverse_cdf
from hybridbn.potentials.mte.pieces import (
    TOLERANCE,
    Factors,
    Piece,
    blocks_from_dict,
    blocks_to_dict,
    check_cover,
    check_masses,
    check_sign,
    check_tails,
    columns_of,
    compile_pieces,
    compute_masses,
    divide_by_masses,
    format_formula,
    format_head,
    pieces_of,
    widen,
)
from hybridbn.potentials.mte.terms import Terms
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

__all__ = ["MTE", "Piece"]


def _common_ends(blocks: Sequence[Terms]) -> Values:
    """Return the ends of the interval in which all blocks have pieces."""
    low = max(float(block.low.min(initial=np.inf)) for block in blocks)
    high = min(float(block.high.max(initial=-np.inf)) for block in blocks)
    return np.array([low, high]) if low < high else np.array([0.0, 0.0])


def _moments(blocks: Sequence[Terms], order: int, center: float) -> Values:
    """Return the moments of the normalized density about a center."""
    integrals = integrate_product_cells(blocks, _common_ends(blocks), order, np.asarray(center))[:, 0]
    if not 0 < integrals[0] < math.inf:
        raise NetworkError(f"the density has the mass {integrals[0]}; it has no moments")
    return np.asarray(integrals / integrals[0])


def mean_and_variance(blocks: Sequence[Terms]) -> tuple[float, float]:
    """Return mean and variance, computed about the mean so that a distant origin costs no digits."""
    ends = np.concatenate([block.cuts[0] for block in blocks])
    center = float(np.median(ends[np.isfinite(ends)])) if np.isfinite(ends).any() else 0.0
    for _ in range(2):
        center += float(_moments(blocks, 1, center)[1])
    first, second = _moments(blocks, 2, center)[1:]
    return center + float(first), max(float(second - first**2), 0.0)


def _check_values(x: ArrayLike) -> Values:
    points = np.asarray(x, dtype=float)
    if np.isnan(points).any():
        raise NetworkError("a value is missing (NaN)")
    return points


def find_column_support(
    terms: Terms, column: int, tail: float, ranges: Sequence[tuple[int, float, float]], bounded: bool
) -> tuple[float, float]:
    """Return the interval of a column that has all but `tail` of the mass, if other columns lie in known ranges.

    If `bounded`, an infinite end of a piece is moved inwards until the integral of the terms' absolute values beyond it
    reaches the tail.
    """
    in_ranges = np.ones(len(terms.codes), dtype=bool)
    for other_column, low, high in ranges:
        in_ranges &= (terms.low[:, other_column] <= high) & (terms.high[:, other_column] >= low)
    pieces = np.flatnonzero(in_ranges)
    low, high = terms.low[pieces, column].min(initial=np.inf), terms.high[pieces, column].max(initial=-np.inf)
    if bounded and len(pieces):
        ends = [_cut_tails(terms, int(p), column, tail / 2) for p in pieces]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    return float(low), float(high)


def _cut_tails(terms: Terms, piece: int, column: int, tail: float) -> tuple[float, float]:
    low, high = float(terms.low[piece, column]), float(terms.high[piece, column])
    if math.isfinite(low) and math.isfinite(high):
        return low, high
    t = slice(terms.starts[piece], terms.starts[piece + 1])
    sizes, rates = np.abs(terms.coefficient[t]), np.abs(terms.rates[t, column])
    sizes, rates = sizes[rates > 0], rates[rates > 0]
    with np.errstate(divide="ignore"):
        lengths = np.log(sizes * max(len(sizes), 1) / (rates * tail)) / rates
    reach = float(max(lengths.max(initial=0.0), 0.0)) or 1.0
    return (low, low + reach) if math.isfinite(low) else (high - reach, high)


_READABLE = 20_000
"""A product with more terms is not multiplied out to be printed."""
_TINY = 1e-200
"""Smaller values are computed in logarithms, because products of them would underflow."""


@dataclass(frozen=True, eq=False, repr=False, init=False)
class MTE(Potential):
    """A mixture of truncated exponentials: on each piece, ``a_0 + sum_i a_i exp(sum_j b_ij z_j)``.

    Any mix of discrete and continuous variables: the child may be discrete with continuous parents. MTEs are closed
    under product, marginalization and restriction, so all of these return MTEs.

    Parameters
    ----------
    child : Variable
    parents : sequence of Variable
    pieces : sequence of Piece
        Boxes are [low, high); the last one is closed if the domain ends there or has no end. For every
        configuration of the parents the child's pieces must fill an interval, without gaps and overlaps; the density is
        zero outside of it.
    normalize : bool or None
        False: the mass must be 1 (within 1e-6) for every configuration of the parents. True: make it so.
        None: keep the pieces as given, as for published coefficients that are rounded; see `mass_error`.

    Attributes
    ----------
    mass_error : float
        Largest difference of a conditional mass from 1, in the pieces as given.
    max_error : float or None
        Of an MTE that approximates another density: the largest difference between the two, in the units of the
        density.

    Examples
    --------
    >>> y = Continuous("y")
    >>> pieces = [Piece({"y": (0, 1)}, terms=[(1, {"y": 1})]), Piece({"y": (1, 3)}, constant=0.5)]
    >>> f = MTE(y, pieces=pieces, normalize=True)
    >>> f
    f(y) =
      0.367879 exp(y)  if 0 <= y < 1
      0.18394          if 1 <= y < 3
    >>> round(f.mean(), 12), round(f(y=2.0), 6)
    (1.103638323514, 0.18394)
    """

    family: ClassVar[str] = "mte"

    max_error: float | None
    _blocks: tuple[Terms, ...]
    _mass_error: float | None

    def __init__(
        self,
        child: Variable,
        parents: Sequence[Variable] = (),
        pieces: Iterable[Piece] = (),
        normalize: bool | None = False,
    ) -> None:
        variables = (*check_parents(child, parents), child)
        if not isinstance(pieces, Iterable | Piece):
            raise NetworkError(f"{child.name!r}: pieces must be a sequence of Piece, not {pieces!r:.80}")
        piece_list = [pieces] if isinstance(pieces, Piece) else list(pieces)
        if not piece_list:
            raise NetworkError(f"{child.name!r}: an MTE needs at least one piece")
        terms = compile_pieces(variables, piece_list, child.name)
        check_cover(terms, variables)
        check_tails(terms, variables)
        check_sign(terms, variables)
        masses = compute_masses(terms, variables)
        if normalize:
            terms = divide_by_masses(terms, variables, masses)
        elif normalize is not None:
            check_masses(masses, variables)
        self._set(child=child, parents=variables[:-1], _blocks=(terms,), _mass_error=masses.error, max_error=None)

    @classmethod
    def _of(
        cls,
        variables: Sequence[Variable],
        blocks: Sequence[Terms],
        mass_error: float | None = None,
        max_error: float | None = None,
    ) -> Self:
        *parents, child = variables
        return cls.__new__(cls)._set(
            child=child, parents=tuple(parents), _blocks=tuple(blocks), _mass_error=mass_error, max_error=max_error
        )

    def _with_errors(self, mass_error: float, max_error: float) -> Self:
        return self._of(self.variables, self._blocks, mass_error=mass_error, max_error=max_error)

    @classmethod
    def from_gaussian(cls, variable: Continuous, mean: float, variance: float, **options: Any) -> MTE:
        """Return a normal density as an MTE with a stated error; see `conversions.mte_from_gaussian`."""
        from hybridbn.potentials.mte.conversions import mte_from_gaussian

        return mte_from_gaussian(variable, mean, variance, **options)

    @classmethod
    def from_density(
        cls, variable: Continuous, function: Callable[[Values], Values], support: tuple[float, float], **options: Any
    ) -> MTE:
        """Return any density of one variable as an MTE with a stated error; see `conversions.mte_from_density`."""
        from hybridbn.potentials.mte.conversions import mte_from_density

        return mte_from_density(variable, function, support, **options)

    @classmethod
    def from_potential(cls, potential: Potential, **options: Any) -> MTE:
        """Return a potential of one variable as an MTE with a stated error; see `conversions.mte_from_potential`."""
        from hybridbn.potentials.mte.conversions import mte_from_potential

        return mte_from_potential(potential, **options)

    @classmethod
    def from_rounded(
        cls, child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece], normalize: bool = True
    ) -> tuple[MTE, list[str]]:
        """Return pieces with rounded coefficients as an MTE of mass 1, with a description of each repair; see
        `conversions.repair_mixture`.
        """
        from hybridbn.potentials.mte.conversions import repair_mixture

        return repair_mixture(child, parents, pieces, normalize)

    # -- pieces and their mass ------------------------------------------------------------------------------------

    @property
    def _columns(self) -> list[Variable]:
        return columns_of(self.variables)

    @property
    def _factors(self) -> Factors:
        return self.variables, self._blocks

    @cached_property
    def _terms(self) -> Terms:
        """The terms, multiplied out."""
        return algebra.multiply_out(self._blocks)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The pieces, every term with its anchor (the corner of the piece where it is largest)."""
        columns = self._columns
        discrete = [v for v in columns if isinstance(v, Discrete)]
        return pieces_of(self._terms, discrete, [v for v in columns if isinstance(v, Continuous)])

    @property
    def normalized(self) -> bool:
        """Whether the mass is one for every configuration of the parents."""
        return self.mass_error <= TOLERANCE

    @property
    def mass_error(self) -> float:
        """Largest difference of a conditional mass from 1."""
        if self._mass_error is None:
            return compute_masses(self._terms, self.variables).error
        return self._mass_error

    @cached_property
    def condition(self) -> float:
        """Condition number of the integral: how much larger the terms are than their sum, through all operations so
        far.

        The relative error of `integral` is about 1e-16 times this number.
        """
        try:
            value, magnitude = algebra.integrate_all(self._blocks)
        except NetworkError:  # some parents are unbounded, and are left out
            return math.prod(algebra.cancellation(block) for block in self._blocks)
        return magnitude / abs(value) if value else math.inf if magnitude else 1.0

    def __repr__(self) -> str:
        title = format_head(self.child, self.parents)
        if math.prod(len(block.owner) for block in self._blocks) > _READABLE:
            return f"{title} = product of {len(self._blocks)} MTEs, not multiplied out"
        return format_formula(self._terms, self._columns, title)

    # -- protocol: values -----------------------------------------------------------------------------------------

    def _evaluate_blocks(self, axes: Axes, function: Callable[[Terms, Sequence[NDArray[Any]]], Values]) -> list[Values]:
        """Evaluate every block; dimensions in the order of the scope, 1 where a block doesn't depend on a variable."""
        columns = [v.name for v in self._columns]
        per_row = any(axes[name].ndim == 2 for name in columns)
        order = [columns.index(name) for name in self.scope]
        results = []
        for block in self._blocks:
            used = [axes[n] if block.mentions(j) else np.zeros(1, axes[n].dtype) for j, n in enumerate(columns)]
            result = function(block, used)
            if result.ndim == len(columns) and per_row:
                result = result[..., None]
            results.append(result.transpose([*order, len(columns)] if per_row else order))
        return results

    def on(self, axes: Axes) -> tuple[Values, Values | float]:
        """Evaluate on given points of each variable; see `Potential.on`."""
        result: Values = np.ones(self._shape(axes))
        for block in self._evaluate_blocks(axes, evaluate):
            result *= block
        top = result.max(axis=tuple(range(len(self.scope))), initial=0.0)
        if not (top < _TINY).any():
            return result, 0.0
        if top.ndim == 0:
            return exponentiate(self.log_on(axes), len(self.scope))
        rows = np.flatnonzero(top < _TINY)
        logs = self.log_on({name: axes[name][:, rows] if axes[name].ndim == 2 else axes[name] for name in self.scope})
        log_scale = np.zeros(result.shape[-1])
        result[..., rows], log_scale[rows] = exponentiate(logs, len(self.scope))
        return result, log_scale

    def log_on(self, axes: Axes) -> Values:
        """Evaluate the logarithm; accurate where the density itself would underflow."""
        logs: Values = np.zeros(self._shape(axes))
        for block in self._evaluate_blocks(axes, evaluate_log):
            logs = logs + block
        return logs

    def _shape(self, axes: Axes) -> tuple[int, ...]:
        return np.broadcast_shapes(*(array.shape for array in spread(axes, self.scope)))

    # -- protocol: support and breaks -----------------------------------------------------------------------------

    def _continuous(self, name: str) -> int:
        """Return the continuous column of a variable."""
        if not isinstance(self.variable(name), Continuous):
            raise NetworkError(f"{name!r} is discrete")
        return [v.name for v in self._columns if isinstance(v, Continuous)].index(name)

    def breaks(self, name: str, within: Mapping[str, Interval] | None = None) -> Values:
        """Return the finite ends of the pieces along a variable."""
        column = self._continuous(name)
        ends = np.unique(np.concatenate([block.cuts[column] for block in self._blocks]))
        return np.asarray(ends[np.isfinite(ends)])

    def scale(self, name: str) -> float:
        """Return one over the largest rate along a variable: exponentials have no features below that."""
        column = self._continuous(name)
        fastest = max((float(np.abs(block.rates[:, column]).max(initial=0.0)) for block in self._blocks), default=0.0)
        return 1.0 / fastest if fastest > 0 else math.inf

    def support(self, name: str, tail: float = 1e-12, within: Mapping[str, Interval] | None = None) -> Interval:
        """Return an interval of a variable outside which less than `tail` of the mass lies."""
        variable = self.variable(name)
        if isinstance(variable, Discrete):
            return 0.0, len(variable) - 1.0
        ranges = [
            (self._continuous(other), float(np.min(low)), float(np.max(high)))
            for other, (low, high) in (within or {}).items()
            if other != name and other in self.scope and isinstance(self.variable(other), Continuous)
        ]
        mass = self.integral() if not self.parents else 1.0
        low, high = find_column_support(
            self._terms, self._continuous(name), tail * (mass or 1.0), ranges, name == self.child.name
        )
        return (low, high) if low < high else variable.domain

    def cellwise(self, name: str) -> bool:
        """Tell whether no exponent mentions this continuous parent."""
        if name == self.child.name or isinstance(self.variable(name), Discrete):
            return False
        column = self._continuous(name)
        return not any((block.rates[:, column] != 0).any() for block in self._blocks)

    # -- protocol: integrals along the child ----------------------------------------------------------------------

    def mass(self, axes: Axes, edges: Values) -> tuple[Values, Values | float]:
        """Integrate over cells of the child in closed form; see `Potential.mass`."""
        result, scale = self.moments(axes, edges, 0)
        return np.maximum(result[0], 0.0), scale

    def moments(
        self, axes: Axes, edges: Values, order: int = 2, center: ArrayLike = 0.0
    ) -> tuple[Values, Values | float]:
        """Integrate ``(z - center)**k`` times the density over cells of the child z, in closed form.

        Parameters
        ----------
        axes : axes of the parents, as in `on`
        edges : ndarray (cells + 1,) or (cells + 1, rows), increasing; the ends may be infinite
        order : the largest k
        center : number, or array (cells,) or (cells, rows); near the mass, no digits are lost to the shift

        Returns
        -------
        values : ndarray (order + 1, ...)
            Then as `mass`.
        log_scale : float
        """
        if not self.exact_mass:
            raise NetworkError(f"{self.child.name!r} is discrete: it has no masses of cells")
        columns = [v.name for v in self._columns[:-1]]
        given = [axes[name] for name in columns]
        result = integrate_cells(self._terms, given, np.asarray(edges, float), order, np.asarray(center, dtype=float))
        order_of = [0, *(1 + columns.index(parent.name) for parent in self.parents)]
        return result.transpose([*order_of, *range(len(order_of), result.ndim)]), 0.0

    def ppf(self, uniforms: Values, given: Axes) -> NDArray[Any]:
        """Return the child's values (codes if discrete) at which its cdf reaches probabilities; exact to rounding."""
        uniforms = np.asarray(uniforms, dtype=float)
        rows = {parent.name: np.asarray(given[parent.name]) for parent in self.parents}
        if isinstance(self.child, Discrete):
            axes: dict[str, Any] = {name: array[None] for name, array in rows.items()}
            values = self.on({**axes, self.child.name: np.arange(len(self.child))})[0]
            table = np.broadcast_to(values.reshape(len(self.child), -1), (len(self.child), len(uniforms))).T
            self._refuse_undefined(np.asarray(table.any(axis=1)), rows)
            return draw_codes(table, np.arange(len(uniforms)), uniforms)
        result = inverse_cdf(self._terms, uniforms, [rows[v.name] for v in self._columns[:-1]])
        self._refuse_undefined(~np.isnan(result), rows)
        return result

    def _refuse_undefined(self, defined: NDArray[np.bool_], rows: Mapping[str, NDArray[Any]]) -> None:
        if not defined.all():
            row = int(np.flatnonzero(~defined)[0])
            where = ", ".join(
                f"{v.name} ="
                f" {v.states[int(rows[v.name][row])] if isinstance(v, Discrete) else float(rows[v.name][row])!r}"
                for v in self.parents
            )
            raise NetworkError(f"{self.child.name!r} has no density at {where or 'all'} (row {row})")

    # -- algebra --------------------------------------------------------------------------------------------------

    def __mul__(self, other: MTE | Potential | float) -> MTE:
        """Multiply by another potential or a number >= 0.

        The product's child is the left factor's, unless that occurs in the right one and the right one's does not occur
        in the left: so ``p(x) * p(y | x)`` has the child y either way round. Factors with discrete variables only may
        be of any family.
        """
        if isinstance(other, int | float | np.number) and not isinstance(other, bool):
            factor = float(other)
            if not 0 <= factor < math.inf:
                raise NetworkError(f"a potential can be multiplied by finite numbers >= 0, not by {factor}")
            return self._of(self.variables, [self._blocks[0].multiply_by(factor), *self._blocks[1:]])
        if not isinstance(other, Potential):
            return NotImplemented
        other_factors = other._factors if isinstance(other, MTE) else algebra.as_constants(other)
        variables = algebra.product_scope(self.variables, other_factors[0])
        return self._of(variables, [*widen(self._factors, variables), *widen(other_factors, variables)])

    __rmul__ = __mul__

    def marginalize(self, *names: str | Iterable[str]) -> MTE | float:
        """Integrate or sum variables out; a number if none is left.

        Where the child goes, the last remaining variable takes its place.

        Examples
        --------
        >>> x, c = Continuous("x"), Discrete("c", ("a", "b"))
        >>> f = MTE(x, (c,), [Piece({"x": (0, 1)}, {"c": "a"}, 1), Piece({"x": (0, 2)}, {"c": "b"}, 0.5)])
        >>> p = MTE(c, (), [Piece(given={"c": "a"}, constant=0.3), Piece(given={"c": "b"}, constant=0.7)])
        >>> (p * f).marginalize("c")
        f(x) =
          0.65  if 0 <= x < 1
          0.35  if 1 <= x < 2
        """
        removed = [n for name in names for n in ([name] if isinstance(name, str) else name)]
        for name in removed:
            self.variable(name)
        return self._result(*algebra.marginalize(self._factors, removed))

    def _result(self, variables: Sequence[Variable], blocks: Sequence[Terms]) -> MTE | float:
        if variables:
            return self._of(variables, blocks)
        return math.prod(float(block.coefficient.sum()) for block in blocks)

    def restrict(self, evidence: Mapping[str, Any]) -> MTE | float:
        """Restrict to evidence: a value or state removes its variable, an interval or a set of states keeps it.

        Parameters
        ----------
        evidence : mapping
            A number or a state; a pair (low, high) or an object with `low` and `high`; a set of states.

        Examples
        --------
        >>> f = MTE(Continuous("x"), (), [Piece({"x": (0, 2)}, constant=0.5)])
        >>> f.restrict({"x": 1.0}), f.restrict({"x": (0.5, 9)}).integral()
        (0.5, 0.75)
        """
        for name in evidence:
            self.variable(name)
        return self._result(*algebra.restrict(self._factors, evidence))

    def integral(self) -> float:
        """Integrate over all continuous and sum over all discrete variables."""
        return algebra.integrate_all(self._blocks)[0]

    def normalize(self, given: str | Iterable[str] = ()) -> MTE:
        """Return the potential with total mass one, or with mass one for every configuration of the variables
        `given`.
        """
        names = [given] if isinstance(given, str) else list(given)
        if not names:
            mass = self.integral()
            if not 0 < mass < math.inf:
                raise NetworkError(
                    f"the potential of {shorten(self.scope)} has the mass {mass}; it can't be normalized"
                )
            return self * (1.0 / mass)
        others = [v for v in self.variables if v.name not in names]
        if not others:
            raise NetworkError("normalize(given=...) needs a variable that is not given")
        variables = (*(self.variable(name) for name in names), *others)
        masses = algebra.marginalize(self._factors, [v.name for v in others])
        inverse = masses[0], (algebra.reciprocal(masses, self.child.name),)
        return self._of(variables, [*widen(self._factors, variables), *widen(inverse, variables)])

    # -- of one continuous variable: the normalized density, whatever the mass is ---------------------------------

    def _single(self) -> tuple[Terms, ...]:
        if self.parents or not isinstance(self.child, Continuous):
            names = shorten(v.name for v in (*self.parents, self.child))
            raise NetworkError(
                f"this needs a density of one continuous variable, not of {names}; restrict or marginalize the others"
            )
        return self._blocks

    @cached_property
    def has_zeros(self) -> bool:
        """Whether the density may be zero: outside all pieces, or in an empty piece."""
        if isinstance(self.child, Continuous):
            low, high = self.support(self.child.name, 0.0)
            if np.any(low > self.child.domain[0]) or np.any(high < self.child.domain[1]):
                return True
        return any(not piece.constant and not piece.terms for piece in self.pieces)

    def reweighted(self, edges: Values, factors: Values) -> MTE | None:
        """Return the child's density after multiplying by a constant in each cell and summing discrete parents out.

        None where a parent is continuous; see `Potential.reweighted`.
        """
        parents = [parent for parent in self.parents if isinstance(parent, Discrete)]
        if len(parents) < len(self.parents):
            return None
        # a constant piece can't be infinite, so infinite tails are cut where they are negligible
        low, high = self.support(self.child.name, 1e-300)
        ends = np.clip(edges, low, high)
        pieces = [
            Piece(
                box={self.child.name: (float(ends[index[-1]]), float(ends[index[-1] + 1]))},
                given={parent.name: parent.states[code] for parent, code in zip(parents, index, strict=False)},
                constant=float(value),
            )
            for index, value in np.ndenumerate(factors)
            if ends[index[-1]] < ends[index[-1] + 1]
        ]
        product = self * MTE(self.child, parents=parents, pieces=pieces, normalize=None)
        marginal = product.marginalize([parent.name for parent in parents]) if parents else product
        return marginal if isinstance(marginal, MTE) else None

    def mean(self) -> float:
        """Return the mean."""
        return mean_and_variance(self._single())[0]

    def var(self) -> float:
        """Return the variance."""
        return mean_and_variance(self._single())[1]

    def std(self) -> float:
        """Return the standard deviation."""
        return math.sqrt(self.var())

    def moment(self, order: int, center: float = 0.0) -> float:
        """Return the mean of ``(x - center)**order``."""
        return float(_moments(self._single(), order, center)[order])

    def pdf(self, x: ArrayLike) -> Values | float:
        """Return the normalized density; `f(x=...)` gives it as it is."""
        points = _check_values(x)
        result: Values = np.ones(points.size)
        for block in self._single():
            result = result * evaluate(block, [points.reshape(-1)])
        result = np.asarray(result / integrate_all(self._blocks)[0]).reshape(points.shape)
        return result if result.ndim else float(result)

    def cdf(self, x: ArrayLike) -> Values | float:
        """Return the distribution function."""
        blocks, values = self._single(), _check_values(x)
        low, high = _common_ends(blocks)
        points, position = np.unique(np.clip(values, low, high), return_inverse=True)
        masses = integrate_product_cells(blocks, np.concatenate([[low], points, [high]]), 0, np.zeros(()))[0]
        cumulative = np.cumsum(masses)
        if not cumulative[-1] > 0:
            raise NetworkError("the density has no mass")
        result = np.clip(cumulative[:-1] / cumulative[-1], 0.0, 1.0)[position].reshape(values.shape)
        return result if result.ndim else float(result)

    def quantile(self, probability: ArrayLike) -> Values | float:
        """Return the inverse of `cdf`."""
        wanted = np.asarray(probability, dtype=float)
        if not ((wanted >= 0) & (wanted <= 1)).all():
            raise NetworkError(f"probabilities lie between 0 and 1, unlike {probability!r}")
        result = inverse_cdf(multiply_out(self._single()), wanted.ravel(), []).reshape(wanted.shape)
        return result if result.ndim else float(result)

    # -- files ----------------------------------------------------------------------------------------------------

    def free_parameters(self) -> int:
        """Return two numbers for each piece, which is a rough count."""
        return 2 * len(self._terms.codes)

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as plain lists and float arrays; exact."""
        return blocks_to_dict(self._blocks, self._mass_error, self.max_error)

    @classmethod
    def from_dict(cls, child: Variable, parents: Sequence[Variable], state: Mapping[str, Any]) -> Self:
        """Make the potential again from what `to_dict` returned."""
        variables = (*check_parents(child, parents), child)
        return cls._of(variables, *blocks_from_dict(state, variables))
