"""Systems of linear regressions with normal residuals, conditioned on what is observed in each row.

Divided by their standard deviations, the regressions of some variables are the rows of a matrix: the log density of all
of them is ``-|A x + a|^2 / 2`` plus a constant. With the columns of the hidden variables in ``H`` and the residuals
``r`` of the observed ones (hidden variables at zero), the triangular factor of ``H`` integrates the hidden variables
out: it gives their conditional covariance, the projection of ``r`` on the columns of ``H`` their conditional mean, and
what remains of ``r`` the log density of what is observed.

Rows with equally many hidden variables are solved in one call of batched linear algebra, whichever these are, and equal
systems are solved once. The factor comes from the Cholesky decomposition of ``H' H`` where that keeps its digits, and
else from a QR decomposition of ``H``, which never squares a condition number. So it does where all of the variables are
hidden: what follows from the observed ones is then one linear function for all rows, which is kept.

All of this loses the digits of the distance of the numbers from zero, in standard deviations. So values are looked at
from a center, the expectations before anything is observed, where these are far from zero. Rows that are far from the
center are solved once more: residuals at the values that came out are summed up in twice the precision, and solved for
what is left (iterative refinement, Wilkinson 1963). A shift of the origin changes nothing then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials.base import Potential
from hybridbn.variables import Codes, Discrete, Values

BLOCK_NUMBERS = 1 << 20
"""Numbers in the largest temporary array, about."""
SHARED_ROWS = 32
"""From this many rows on, a matrix that they share is multiplied with all of them in one product."""
MOST_INFLATION = 1e3
"""Cholesky factors serve up to this variance inflation factor, where they lose three digits of sixteen."""

LARGE_TRIANGLE = 64
"""Triangles of more rows are inverted by LAPACK."""
FAR = 1e3
"""Farther from zero, in standard deviations, values lose three digits of sixteen."""
SPLITTER = 2.0**27 + 1
"""Times it, a double is cut into two halves of its digits (Veltkamp 1968)."""


@dataclass(frozen=True, eq=False)
class Regressions:
    """Regressions of several variables, for each configuration of discrete parents.

    Attributes
    ----------
    children : ndarray (equations,)
        The columns of the children.
    coefficients : ndarray (configurations, equations, columns)
        Of the residuals: one for the child, minus its slopes for the parents. The first `size` columns are of variables
        that may be hidden.
    intercept, spread : ndarray (configurations, equations)
    matrix : ndarray (kinds, equations, columns)
        Coefficients of the standardized residuals; constants have no effect on others here.
    log_scale : ndarray (kinds,)
        Minus the sum of the logarithms of the standard deviations.
    constants : ndarray (configurations, columns)
        The values of variables without variance, NaN for all others.
    kind : ndarray (configurations,)
        Configurations of one kind differ in their offsets only.
    size : int
    opened : int
        How many of the last columns are left open.
    kept : bool
        Whether these are used again, so that preparations pay.
    """

    children: Codes
    coefficients: Values
    intercept: Values
    spread: Values
    matrix: Values
    log_scale: Values
    constants: Values
    kind: Codes
    size: int
    opened: int
    kept: bool

    @classmethod
    def of(
        cls,
        potentials: Sequence[Potential],
        columns: Sequence[str],
        size: int,
        states: Mapping[str, Codes],
        shape: tuple[int, ...],
        *,
        opened: int = 0,
        kept: bool,
    ) -> Regressions:
        """Make the regressions that some potentials are.

        Where one has no variance, its child is a constant to all others. In its own equation the child is a normal
        variable whose density is one at its center, so that it changes neither integrals nor peaks.

        Parameters
        ----------
        potentials : sequence of Potential
        columns : sequence of str
            The continuous variables; the first `size` may be hidden.
        states : mapping from name to ndarray of int
            The codes of the discrete parents in the configurations; together they broadcast to the shape.
        """
        place = {name: column for column, name in enumerate(columns)}
        coefficients = np.zeros([*shape, len(potentials), len(columns)])
        intercept, spread = np.zeros([2, *shape, len(potentials)])
        constants = np.full([*shape, len(columns)], np.nan)
        for row, potential in enumerate(potentials):
            regression = potential.as_regression()
            assert regression is not None
            cell = tuple(states[p.name] for p in potential.parents if isinstance(p, Discrete))
            constant = regression.variance[cell] == 0
            spread[..., row] = np.where(constant, 1 / math.sqrt(2 * math.pi), np.sqrt(regression.variance[cell]))
            intercept[..., row] = regression.intercept[cell]
            constants[..., place[potential.child.name]] = np.where(constant, regression.intercept[cell], np.nan)
            coefficients[..., row, place[potential.child.name]] = 1.0
            slopes = regression.coefficients[cell]
            for i, name in enumerate(p.name for p in potential.parents if not isinstance(p, Discrete)):
                coefficients[..., row, place[name]] = -slopes[..., i]
        count, children = math.prod(shape), np.array([place[p.child.name] for p in potentials], dtype=np.intp)
        coefficients, intercept, spread, constants = (
            array.reshape(count, *array.shape[len(shape) :]) for array in (coefficients, intercept, spread, constants)
        )
        matrix = coefficients * np.isnan(constants)[:, None] / spread[..., None]
        matrix[:, np.arange(len(children)), children] = 1 / spread
        log_scale = -np.log(spread).sum(axis=1)
        kind: Codes = np.arange(count)
        if count > 1:
            numbers = np.ascontiguousarray(matrix.reshape(count, -1))
            bits = numbers.view(np.dtype((np.void, numbers.shape[1] * numbers.itemsize))).ravel()
            _, first, kind = np.unique(bits, return_index=True, return_inverse=True)
            matrix, log_scale = matrix[first], log_scale[first]
        given = children, coefficients, intercept, spread, matrix, log_scale, constants, kind.ravel()
        return cls(*given, size, opened, kept)

    @cached_property
    def means(self) -> Values:
        """The expectations of the children, where other columns are zero (configurations, equations)."""
        means = np.linalg.solve(self.coefficients[..., self.children], self.intercept[..., None])
        return np.asarray(means[..., 0], dtype=np.float64)

    @cached_property
    def origin(self) -> Origin:
        """From where values are looked at."""
        center, offset = np.zeros(self.matrix.shape[2]), -self.intercept / self.spread
        if (np.abs(offset) > FAR).any():
            center[self.children] = np.nan_to_num(self.means.mean(axis=0), posinf=0.0, neginf=0.0)
        free = np.isnan(self.constants)
        start = np.where(free, center, self.constants)
        if start.any():
            offset = self.compute_residuals(np.arange(len(start)), start)
            offset += (center - start)[:, self.children] / self.spread
        far = free[:, self.children] & (np.abs(offset) > FAR)
        reach = np.abs(self.matrix).max(axis=(0, 1), initial=1e-290)
        return Origin(center, offset, np.where(far.any(), -1.0, FAR / reach))

    def compute_residuals(self, configuration: Codes, values: Values) -> Values:
        """Return the standardized residuals (cases, equations), summed up in twice the precision."""
        result = np.empty((len(values), self.spread.shape[1]))
        which: Any = configuration if len(self.spread) > 1 else slice(None)
        for row, used in enumerate((self.coefficients != 0).any(axis=0)):
            terms = [-self.intercept[which, row]]
            for slopes in _halve(self.coefficients[which, row][:, used]):
                terms += [term for numbers in _halve(values[:, used]) for term in (slopes * numbers).T]
            result[:, row] = _sum_up(terms) / self.spread[which, row]
        return result

    @cached_property
    def by_column(self) -> Values:
        """The columns that may be hidden (kinds, size, equations)."""
        return np.ascontiguousarray(np.swapaxes(self.matrix[..., : self.size], -1, -2))

    @cached_property
    def gram(self) -> Values:
        """The products of the columns that may be hidden (kinds, size, size): precisions, where all of them are."""
        return np.asarray(self.by_column @ np.swapaxes(self.by_column, -1, -2))

    @cached_property
    def all_hidden(self) -> tuple[Values, Values, tuple[Values, Values], tuple[Values, Values]]:
        """What is made of the regressions where all variables that may be hidden are: roots of the covariances, their
        log determinants, and means and residuals as functions of the other columns.

        Such a function is a matrix of each kind and a constant of each configuration.
        """
        size = self.size
        turned, root = _decompose(self.matrix[..., :size], "complete")
        log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        to_mean, to_residual = -root @ turned[:, :size], turned[:, size:]
        rest, offset = self.matrix[..., size:], self.origin.offset[..., None]
        mean = to_mean @ rest, (to_mean[self.kind] @ offset)[..., 0] + self.origin.center[:size]
        return root, log_root, mean, (to_residual @ rest, (to_residual[self.kind] @ offset)[..., 0])

    @cached_property
    def one_system(self) -> OneSystem | None:
        """What is made of the regressions if there is one configuration; None otherwise."""
        if len(self.kind) > 1:
            return None
        root, log_root, (mean, center), (residual, rest) = self.all_hidden
        together = np.column_stack([residual[0], rest[0]])
        if len(together) > together.shape[1]:
            # no more equations than numbers that they are made of
            together = np.asarray(np.linalg.qr(together, mode="r"))
        log_scale = float(_log_scale(self, np.zeros(1, dtype=np.intp))[0])
        return OneSystem(
            root[0],
            log_scale,
            log_scale + float(log_root[0]) + 0.5 * self.size * math.log(2 * math.pi),
            (mean[0], center[0]),
            (together[:, :-1], together[:, -1]),
        )


class Origin(NamedTuple):
    """From where values are looked at.

    Attributes
    ----------
    center : ndarray (columns,)
        Zero where expectations are near zero.
    offset : ndarray (configurations, equations)
        The standardized residuals at the center; of a constant its own distance.
    limits : ndarray (columns,)
        Up to which distance from the center values lose no digits; negative where some configuration expects others.
    """

    center: Values
    offset: Values
    limits: Values


class OneSystem(NamedTuple):
    """The conditional distribution of all that may be hidden, which rows share but for what it is linear in.

    Attributes
    ----------
    root : ndarray (hidden, hidden)
        Times its transpose it is the covariance.
    log_scale, log_constant : float
        As in `Conditional`.
    mean, residual : tuple of ndarray
        Slopes and constants, as functions of how far the observed columns are from the center.
    """

    root: Values
    log_scale: float
    log_constant: float
    mean: tuple[Values, Values]
    residual: tuple[Values, Values]


@dataclass(frozen=True, eq=False)
class Conditional:
    """The distribution of the hidden variables in cases that have equally many of them.

    Means and residuals are linear functions of how far the columns that a case leaves open are from the values given
    for them: the first number of the last dimension is the constant, the others are the coefficients.

    Attributes
    ----------
    cases : ndarray (cases,)
        Which cases these are.
    system : ndarray (cases,)
        The system of each case.
    columns : ndarray (systems, hidden)
        The columns of the hidden variables, ascending.
    root : ndarray (systems, hidden, hidden)
        An upper triangle with a positive diagonal; times its transpose it is the covariance.
    compute_mean, compute_residual : callable
        What returns `mean` and `residual`, which are computed when somebody asks.
    log_scale : ndarray (cases,)
        The logarithm of the density of all variables where residuals are zero.
    log_root : ndarray (cases,)
        The logarithm of the determinant of the root.
    """

    cases: Codes
    system: Codes
    columns: Codes
    root: Values
    compute_mean: Callable[[], Values]
    compute_residual: Callable[[], Values]
    log_scale: Values
    log_root: Values

    @cached_property
    def mean(self) -> Values:
        """The conditional means (cases, hidden, 1 + open)."""
        return self.compute_mean()

    @cached_property
    def residual(self) -> Values:
        """Standardized residuals with the hidden variables at their conditional means (cases, equations, 1 + open)."""
        return self.compute_residual()

    @property
    def log_constant(self) -> Values:
        """The logarithm of the density of what is observed, where residuals are zero."""
        return np.asarray(self.log_scale + self.log_root + 0.5 * self.columns.shape[1] * math.log(2 * math.pi))

    def rows_of(self, column: int) -> tuple[NDArray[np.bool_], Codes]:
        """Tell the systems in which a column is hidden, and its number among the hidden ones there (any, elsewhere)."""
        same = self.columns == column
        return same.any(axis=1), same @ np.arange(same.shape[1])

    def draw(self, noise: Values) -> Values:
        """Return draws of the hidden variables (cases, hidden) from standard normal noise of the same shape.

        A later variable is drawn by its own noise alone, an earlier one given all later ones.
        """
        return np.asarray(
            self.mean[..., 0] + _multiply(self.root, self.system, noise[..., None], separately=True)[..., 0]
        )


def solve_conditionals(
    regressions: Regressions,
    configuration: Codes,
    row: Codes,
    values: Values,
    hidden: NDArray[np.bool_],
    *,
    separately: bool = False,
) -> Iterator[Conditional]:
    """Solve cases, those with equally many hidden variables together.

    Parameters
    ----------
    regressions : Regressions
    configuration, row : ndarray (cases,)
        The configuration and the row of values of each case; rows ascend where there is one configuration.
    values : ndarray (rows, columns)
        Observed values, anything in place of hidden ones, and any values of columns that are left open.
    hidden : ndarray (rows, size)
    separately : bool
        Whether not even rounding may depend on other cases.
    """
    size, kind, given = regressions.size, regressions.kind[configuration], values - regressions.origin.center
    near = np.abs(given[:, size:]) <= regressions.origin.limits[size:]
    if regressions.kept and not separately and hidden.all() and near.all():
        # any order of the cases will do, but equal kinds must stand together
        cases = np.arange(len(kind)) if len(regressions.matrix) == 1 else np.argsort(kind, kind="stable")
        if len(cases):
            known = given[:, size:]
            if len(regressions.kind) > 1 or len(cases) < len(values):
                known = known[row[cases]]
            yield _solve_all_hidden(regressions, cases, configuration[cases], known)
        return
    pattern = number_patterns(hidden)
    given[:, :size][hidden] = 0.0
    far = np.asarray((np.abs(given) > regressions.origin.limits).any(axis=1))
    counts = hidden.sum(axis=1)[row]
    equations = regressions.matrix.shape[1]
    key = kind * (int(pattern.max(initial=0)) + 1) + pattern[row]
    for count in np.flatnonzero(np.bincount(counts)).tolist():
        cases = np.flatnonzero(counts == count)
        if len(cases) > 1:
            cases = cases[np.argsort(key[cases], kind="stable")]
        step = max(BLOCK_NUMBERS // max(equations * (count + 1) + 3 * count * count, 1), 64)
        for part in np.split(cases, range(step, len(cases), step)):
            systems = part, configuration[part], key[part], row[part]
            yield _solve(regressions, *systems, hidden, values, given, far, count, separately)


def number_patterns(flags: NDArray[np.bool_]) -> Codes:
    """Number the distinct rows of an array of flags.

    Examples
    --------
    >>> number_patterns(np.array([[True, False], [False, False], [True, False]]))
    array([1, 0, 1])
    """
    number: Codes = np.zeros(len(flags), dtype=np.intp)
    for word in np.split(flags, range(32, flags.shape[1], 32), axis=1):
        code = number * (1 << word.shape[1]) + word @ (1 << np.arange(word.shape[1]))
        number = np.unique(code, return_inverse=True)[1].ravel()
    return number


def _solve(
    regressions: Regressions,
    cases: Codes,
    configuration: Codes,
    key: Codes,
    row: Codes,
    hidden: NDArray[np.bool_],
    values: Values,
    given: Values,
    distant: NDArray[np.bool_],
    count: int,
    separately: bool,
) -> Conditional:
    """Solve cases with equally many hidden variables, sorted by their systems."""
    kind = regressions.kind[configuration]
    first, system = _find_runs(key)
    columns = np.nonzero(hidden[row[first]])[1].reshape(len(first), count)
    residual = np.empty((len(cases), regressions.matrix.shape[1], 1 + regressions.opened))
    residual[..., :1] = _multiply(regressions.matrix, kind, given[row][..., None], separately)
    residual[..., 0] += regressions.origin.offset[configuration]
    if regressions.opened:
        residual[..., 1:] = regressions.matrix[kind][..., -regressions.opened :]
    # these lose digits with their distance from the center
    far = np.flatnonzero(distant[row])
    root, basis = _factorize(regressions, kind[first], columns)
    # once more for the digits that the first projection left
    inside = _multiply(basis, system, residual, separately)
    back = np.swapaxes(basis, 1, 2)
    residual = residual - _multiply(back, system, inside, separately)
    origin = (
        regressions.origin.center[columns[system]] if len(far) or regressions.origin.center.any() else np.zeros((1, 1))
    )
    if len(far):
        mean = origin[far] - _multiply(root, system[far], inside[far, :, :1], separately)[..., 0]
        constants = regressions.constants[configuration[far, None], columns[system[far]]]
        origin[far] = np.where(np.isnan(constants), mean, constants)
        complete = values[row[far]]
        np.put_along_axis(complete, columns[system[far]], origin[far], 1)
        residual[far, :, 0] = regressions.compute_residuals(configuration[far], complete)
        inside[far, :, 0] = 0.0
    again = _multiply(basis, system, residual, separately)
    residual -= _multiply(back, system, again, separately)
    inside += again

    def compute_mean() -> Values:
        mean = _multiply(root, system, -inside, separately)
        mean[..., 0] += origin
        return mean

    size = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return Conditional(
        cases,
        system,
        columns,
        root,
        compute_mean,
        lambda: residual,
        _log_scale(regressions, kind),
        size[system],
    )


def _solve_all_hidden(regressions: Regressions, cases: Codes, configuration: Codes, values: Values) -> Conditional:
    """Solve cases in which all variables that may be hidden are, sorted by their kinds."""
    root, log_root, mean, residual = regressions.all_hidden
    kind = regressions.kind[configuration]
    first, system = _find_runs(kind)

    def apply(matrices: Values, constant: Values) -> Values:
        result = constant[configuration][..., None]
        if values.shape[1]:
            result = result + _multiply(matrices, kind, values[..., None], separately=False)
        opened = regressions.opened
        return np.concatenate([result, matrices[kind][..., -opened:]], axis=2) if opened else result

    return Conditional(
        cases,
        system,
        np.broadcast_to(np.arange(regressions.size), (len(first), regressions.size)),
        root[kind[first]],
        lambda: apply(*mean),
        lambda: apply(*residual),
        _log_scale(regressions, kind),
        log_root[kind],
    )


def _find_runs(keys: Codes) -> tuple[Codes, Codes]:
    """Return where runs of equal keys begin, and the number of each key's run."""
    fresh = np.empty(len(keys), dtype=bool)
    fresh[:1], fresh[1:] = True, keys[1:] != keys[:-1]
    return np.flatnonzero(fresh), np.cumsum(fresh) - 1


def _log_scale(regressions: Regressions, kind: Codes) -> Values:
    return np.asarray(regressions.log_scale[kind] - 0.5 * regressions.matrix.shape[1] * math.log(2 * math.pi))


def _factorize(regressions: Regressions, kind: Codes, columns: Codes) -> tuple[Values, Values]:
    """Return a root of the covariance of the hidden variables, and an orthonormal basis (hidden, equations) of their
    columns.
    """
    equations, size = regressions.matrix.shape[1], regressions.size
    place = kind[:, None] * size + columns
    chosen = regressions.by_column.reshape(len(regressions.matrix) * size, equations).take(place, axis=0)
    gram = regressions.gram.reshape(-1).take(place[:, :, None] * size + columns[:, None, :])
    lengths = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
    gram = gram / (lengths[:, :, None] * lengths[:, None, :])
    inverse = _invert_triangles(gram)
    with np.errstate(invalid="ignore", over="ignore"):
        fine = np.einsum("sij,sij->sj", inverse, inverse).max(axis=1, initial=0.0) < MOST_INFLATION
    root = np.swapaxes(inverse / lengths[:, None, :], 1, 2)
    basis = np.swapaxes(root, 1, 2) @ chosen
    if not fine.all():
        poor = np.flatnonzero(~fine)
        basis[poor], root[poor] = _decompose(np.swapaxes(chosen[poor], 1, 2), "reduced")
    return root, basis


def _decompose(columns: Values, mode: Literal["complete", "reduced"]) -> tuple[Values, Values]:
    """Return an orthonormal basis (systems, vectors, equations) that begins with that of the columns, and the inverse
    triangle.
    """
    # rows of large numbers first, which would drown the small ones otherwise (Cox & Higham 1998)
    order = np.argsort(-np.abs(columns).max(axis=2, initial=0.0), axis=1, kind="stable")[..., None]
    rotation, triangle = np.linalg.qr(np.take_along_axis(columns, order, 1), mode=mode)
    basis = np.empty_like(rotation)
    np.put_along_axis(basis, order, rotation, 1)
    size = columns.shape[2]
    triangle = triangle[:, :size]
    sign = np.where(np.diagonal(triangle, axis1=1, axis2=2) < 0, -1.0, 1.0)
    basis[..., :size] *= sign[:, None, :]
    return np.swapaxes(basis, 1, 2), np.asarray(np.linalg.inv(triangle * sign[:, :, None]))


def _invert_triangles(gram: Values) -> Values:
    """Return the inverses of the Cholesky factors; NaN where there is none."""
    try:
        factors = np.linalg.cholesky(gram)
    except np.linalg.LinAlgError:
        if len(gram) == 1:
            return np.full_like(gram, np.nan)
        half = len(gram) // 2
        return np.concatenate([_invert_triangles(gram[:half]), _invert_triangles(gram[half:])])
    size = gram.shape[1]
    if size > LARGE_TRIANGLE:
        return np.asarray(np.linalg.inv(factors))
    inverse = np.zeros_like(factors)
    scale = 1 / np.diagonal(factors, axis1=1, axis2=2)
    for row in range(size):
        # several times faster than the general inverse of many small matrices
        inverse[:, row, row] = scale[:, row]
        if row:
            above = (factors[:, row, None, :row] @ inverse[:, :row, :row])[:, 0]
            inverse[:, row, :row] = -above * scale[:, row, None]
    return inverse


def _halve(numbers: Values) -> tuple[Values, Values]:
    """Return the first and the second half of the digits of numbers, whose products with others are exact."""
    with np.errstate(over="ignore", invalid="ignore"):
        first = SPLITTER * numbers - (SPLITTER * numbers - numbers)
    first = np.where(np.isfinite(first), first, numbers)
    return first, numbers - first


def _sum_up(terms: Sequence[Values]) -> Values:
    """Return the sum of arrays in twice the precision (Ogita, Rump & Oishi 2005).

    Examples
    --------
    >>> _sum_up([np.array([1e20]), np.array([0.5]), np.array([-1e20])])
    array([0.5])
    """
    total, rest = terms[0], np.zeros(1)
    for term in terms[1:]:
        last, total = total, total + term
        part = total - last
        rest = rest + ((last - (total - part)) + (term - part))
    return np.asarray(total + rest)


def _multiply(matrices: Values, which: Codes, vectors: Values, separately: bool) -> Values:
    """Return ``matrices[which] @ vectors``; equal matrices stand together."""
    count = len(which)
    if separately or count < SHARED_ROWS:
        return np.asarray((matrices[which] if len(matrices) > 1 else matrices) @ vectors)
    starts = np.flatnonzero(np.concatenate([[True], which[1:] != which[:-1]]))
    lengths = np.diff([*starts, count])
    result = np.empty((count, matrices.shape[1], vectors.shape[2]))
    single = np.ones(count, dtype=bool)
    for start, length in zip(
        starts[lengths >= SHARED_ROWS].tolist(), lengths[lengths >= SHARED_ROWS].tolist(), strict=True
    ):
        rows = slice(start, start + length)
        own = matrices[which[start]]
        for column in range(vectors.shape[2]):
            result[rows, :, column] = vectors[rows, :, column] @ own.T
        single[rows] = False
    if single.any():
        rest = np.flatnonzero(single)
        result[rest] = matrices[which[rest]] @ vectors[rest]
    return result
