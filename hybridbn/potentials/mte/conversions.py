"""Other densities as MTEs with a measured error: the normal, any density of one variable, potentials of other families.

A density is interpolated piece by piece by ``sum_j c_j exp(j s t)``, j = -3 .. 3, where t runs from -1 to 1 over the
piece, at seven Chebyshev points including the ends, so that the result is continuous (j = -5 .. 5 for errors below 1e-7
of the mode's density). As s -> 0 that is the polynomial of degree six, whose error falls 128-fold when a piece is
halved, but its coefficients grow and cancel. So the largest s that is accurate enough is chosen, and a piece is halved
rather than given a condition number above 100. (The two-piece normal of Cobb and Shenoy has 800.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte import MTE
from hybridbn.potentials.mte.pieces import TOLERANCE, Piece, compile_pieces
from hybridbn.potentials.mte.terms import NEGLIGIBLE, minimize_on_box
from hybridbn.variables import Continuous, Values, Variable

Function: TypeAlias = Callable[[Values], Values]

_COBB_SHENOY_CONSTANT = -0.010564
_COBB_SHENOY_TERMS = ((197.055720, 2.2568434), (-461.439251, 2.3434117), (264.793037, 2.4043270))
"""The standard normal on [-3, 0) by Cobb and Shenoy (IJAR 41, 2006); mirrored on [0, 3]."""

_STEEPNESS = (1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.125)
"""The values of s that are tried, the best conditioned first."""
_WORST_CONDITION = 100.0
"""A piece whose terms have a larger condition number is halved, so that at most two digits are lost."""
_CHECKED = 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, 64))
"""Errors are measured at these fractions of a piece."""
_ABSCISSAS = 0.5 + 0.5 * np.polynomial.legendre.leggauss(32)[0]
_WEIGHTS = 0.5 * np.polynomial.legendre.leggauss(32)[1]
_SAFETY = 1.05
"""Between the points where it is measured, an error may be larger by this factor."""
_MOST_PIECES = 5000
"""A density that needs more pieces has a jump or a pole, and the accuracy is out of reach."""
_ATTEMPTS = 12
"""The pieces are fitted at most this often, with ever smaller tolerances."""
_ROOT = math.sqrt(2 * math.pi)


def mte_from_gaussian(
    variable: Continuous,
    mean: float,
    variance: float,
    *,
    method: str = "interpolation",
    max_error: float | None = None,
    normalize: bool | None = True,
) -> MTE:
    """Return a normal density as an MTE.

    Parameters
    ----------
    variable : Continuous
        Where its domain is finite, the normal is truncated to it.
    mean, variance : float
    method : "interpolation" or "cobb-shenoy"
        Interpolation has exponential tails without end, and any accuracy. The published approximation of Cobb and
        Shenoy has two pieces of three exponential terms and a constant within three standard deviations.
    max_error : float, optional
        Largest error of the density, in its own units; by default 1e-6 of its peak. Interpolation only.
    normalize : bool or None
        As for `MTE`; None gives the published coefficients, whose mass is 0.9973.

    Returns
    -------
    MTE
        Its `max_error` is the error that was measured.

    Examples
    --------
    >>> f = mte_from_gaussian(Continuous("x"), 0, 1)
    >>> f.max_error < 1e-6 * 0.4, len(f.pieces), round(f.var(), 5)
    (True, 16, 1.0)
    >>> mte_from_gaussian(Continuous("x"), 0, 1, method="cobb-shenoy", normalize=None)
    f(x) =
      -0.010564 + 197.056 exp(2.25684 x) - 461.439 exp(2.34341 x) + 264.793 exp(2.40433 x)     if -3 <= x < 0
      -0.010564 + 264.793 exp(-2.40433 x) - 461.439 exp(-2.34341 x) + 197.056 exp(-2.25684 x)  if 0 <= x < 3
    """
    mean, variance = float(mean), float(variance)
    if not (math.isfinite(mean) and 0 < variance < math.inf):
        raise NetworkError(
            f"{variable.name!r}: a normal needs a finite mean and a positive variance, not {mean}, {variance}"
        )
    sd = math.sqrt(variance)
    low, high = variable.domain
    if method == "cobb-shenoy":
        if not (low <= mean - 3 * sd and mean + 3 * sd <= high):
            raise NetworkError(
                f"{variable.name!r}: the approximation reaches to {mean - 3 * sd} and {mean + 3 * sd}, beyond the"
                " domain"
            )
        return _cobb_shenoy(variable, mean, sd, normalize)
    if method != "interpolation":
        raise NetworkError(f"the method is 'interpolation' or 'cobb-shenoy', not {method!r}")
    standard = Continuous(variable.name, ((low - mean) / sd, (high - mean) / sd))
    wanted = None if max_error is None else float(max_error) * sd
    return _rescale(_standard_normal(standard, wanted, normalize), variable, mean, sd)


def _standard_normal(variable: Continuous, wanted: float | None, normalize: bool | None) -> MTE:
    low, high = variable.domain
    inside = min(max(0.0, low), high)
    peak = math.exp(-0.5 * inside**2) / _ROOT
    tolerance = 1e-6 * peak if wanted is None else wanted
    if peak < 1e-280:
        raise NetworkError(
            f"{variable.name!r}: the domain is too far from the mean: {abs(inside):.3g} standard deviations"
        )
    if not tolerance > 0:
        raise NetworkError(f"{variable.name!r}: the largest error must be positive, not {wanted}")
    reach = 3.0
    while 0.3 / reach**2 * math.exp(-0.5 * reach**2) / _ROOT > 0.1 * tolerance:
        reach += 0.25  # an exponential tail from there on differs by less than a tenth of the error
    reach = max(reach, abs(inside) + 3.0)
    ends = max(low, -reach), min(high, reach)

    def normal(x: Values) -> Values:
        return np.asarray(np.exp(-0.5 * x**2) / _ROOT)

    tails = (reach if low == -math.inf else 0.0, reach if high == math.inf else 0.0)
    return _fit_pieces(variable, normal, np.linspace(*ends, 5), np.empty(0), wanted, tails, normalize)


def _rescale(standard: MTE, variable: Continuous, mean: float, sd: float) -> MTE:
    """Return the density of ``mean + sd * z``; anchors are moved exactly, so that a distant mean costs no digits."""
    name, exact_mean, exact_sd = variable.name, Decimal(mean), Decimal(sd)
    pieces = [
        Piece(
            {name: np.clip(mean + sd * np.array(piece.box[name], dtype=float), *variable.domain).tolist()},
            constant=float(piece.constant) / sd,
            terms=[
                (c / sd, {name: Decimal(b[name]) / exact_sd}, {name: exact_mean + exact_sd * Decimal(a[name])})
                for c, b, a in piece.terms
            ],
        )
        for piece in standard.pieces
    ]
    return MTE(variable, pieces=pieces, normalize=None)._with_errors(
        standard.mass_error, (standard.max_error or 0) / sd
    )


def mte_from_density(
    variable: Continuous,
    function: Function,
    support: tuple[float, float],
    *,
    max_error: float | None = None,
    breaks: Sequence[float] | Values = (),
    tails: bool = False,
) -> MTE:
    """Return any density of one variable as an MTE that is non-negative and has mass one.

    Parameters
    ----------
    variable : Continuous
    function : callable
        The density, or anything proportional to it; takes and returns an array.
    support : (float, float)
        A finite interval; outside of it the result is zero, but for `tails`.
    max_error : float, optional
        Largest error of the density, in its own units; by default 1e-6 of its peak.
    breaks : sequence of float, optional
        Where the density jumps, has a kink or a narrow feature. An undeclared feature between the points where the
        function is evaluated may be missed.
    tails : bool
        Continue beyond the support with exponentials.

    Returns
    -------
    MTE
        Its `max_error` is the error that was measured, against the function divided by its integral.

    Examples
    --------
    >>> x = Continuous("x", domain=(0, 1))
    >>> f = mte_from_density(x, lambda x: x**2 * (1 - x), (0, 1), max_error=1e-8)
    >>> f.max_error < 1e-8, round(f.mean(), 7)
    (True, 0.6)
    """
    low, high = float(support[0]), float(support[1])
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise NetworkError(
            f"{variable.name!r}: the support must be a finite interval, not {support!r}; take one outside which the"
            " density is negligible"
        )
    low, high = max(low, variable.domain[0]), min(high, variable.domain[1])
    inner_breaks = np.unique(np.asarray(breaks, dtype=float))
    inner_breaks = inner_breaks[(inner_breaks > low) & (inner_breaks < high)]
    edges = np.linspace(low, high, 9)
    sampled = _evaluate_checked(
        function, np.unique(np.concatenate([np.linspace(low, high, 1025), inner_breaks])), variable.name
    )
    peak = float(sampled.max())
    if not peak > 0:
        raise NetworkError(f"{variable.name!r}: the density is zero wherever it was looked at")
    rates = [0.0, 0.0]
    if tails:
        step = 1e-3 * (high - low)
        inner = _evaluate_checked(function, np.array([low + step, high - step]), variable.name)
        outer = _evaluate_checked(function, np.array([low, high]), variable.name)
        for i in (0, 1):
            unbounded = math.isinf(variable.domain[i])
            rates[i] = math.log(inner[i] / outer[i]) / step if unbounded and inner[i] > outer[i] > 0 else 0.0
    checked_function = partial(_evaluate_checked, function, name=variable.name)
    wanted = None if max_error is None else float(max_error)
    return _fit_pieces(variable, checked_function, edges, inner_breaks, wanted, (rates[0], rates[1]), True)


def mte_from_potential(
    potential: Potential, *, max_error: float | None = None, support: tuple[float, float] | None = None
) -> MTE:
    """Return a potential of one continuous variable, such as a kernel density, as an MTE.

    Parameters
    ----------
    potential : Potential without parents
    max_error : float, optional
        Largest error of the density, in its own units; by default 1e-6 of its peak.
    support : (float, float), optional
        By default that of the potential; beyond it the result has exponential tails.
    """
    variable = potential.child
    if potential.parents or not isinstance(variable, Continuous):
        raise NetworkError(f"{potential!r} is not a density of one continuous variable")
    ends = potential.support(variable.name, 1e-12) if support is None else support
    low, high = float(np.min(ends[0])), float(np.max(ends[1]))
    if not math.isfinite(high - low):
        raise NetworkError(f"the support of {potential!r} is not known; give support=(low, high)")

    def function(x: Values) -> Values:
        return np.asarray(potential(**{variable.name: x}), dtype=float)

    breaks = potential.breaks(variable.name).ravel()
    return mte_from_density(variable, function, (low, high), max_error=max_error, breaks=breaks, tails=True)


# -- interpolation ------------------------------------------------------------------------------------------------


def _evaluate_checked(function: Function, x: Values, name: str) -> Values:
    values = np.asarray(function(x), dtype=float)
    if values.shape != x.shape:
        raise NetworkError(
            f"{name!r}: the density must return an array like its argument, {x.shape}, not {values.shape}"
        )
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        raise NetworkError(f"{name!r}: the density is {values[bad][0]} at {x[bad][0]}; it must be finite and >= 0")
    return values


def _cobb_shenoy(variable: Continuous, mean: float, sd: float, normalize: bool | None) -> MTE:
    name = variable.name
    left = [(c / sd, {name: b / sd}, {name: mean}) for c, b in _COBB_SHENOY_TERMS]
    right = [(c / sd, {name: -b / sd}, {name: mean}) for c, b in _COBB_SHENOY_TERMS]
    constant = _COBB_SHENOY_CONSTANT / sd
    result = MTE(
        variable,
        pieces=[
            Piece({name: (mean - 3 * sd, mean)}, constant=constant, terms=left),
            Piece({name: (mean, mean + 3 * sd)}, constant=constant, terms=right),
        ],
        normalize=normalize,
    )
    x = np.linspace(-4, 4, 4001)
    exact = np.exp(-0.5 * x**2) / (sd * math.sqrt(2 * math.pi))
    error = float(np.abs(np.asarray(result(**{name: mean + sd * x})) - exact).max())
    return result._with_errors(result.mass_error, _SAFETY * error)


def _fit_pieces(
    variable: Continuous,
    function: Function,
    edges: Values,
    breaks: Values,
    max_error: float | None,
    tails: tuple[float, float],
    normalize: bool | None,
) -> MTE:
    """Fit pieces and tails, make the mass one and measure the error; repeat with a smaller tolerance if it is too
    large.

    Small errors over a wide support add up to an error of the mass, by which the density is divided.
    """
    name = variable.name
    if max_error is not None and not max_error > 0:
        raise NetworkError(f"{name!r}: the largest error must be positive, not {max_error}")
    points = np.unique(np.concatenate([np.linspace(edges[0], edges[-1], 1025), breaks]))
    sampled = function(points)
    peak = float(sampled.max())
    mass = float(np.diff(points) @ (sampled[1:] + sampled[:-1])) / 2
    tolerance = 1e-6 * peak if max_error is None else max_error * mass
    for _ in range(_ATTEMPTS):
        pieces, mass = _halve_pieces(function, edges, breaks, tolerance, 3 if tolerance > 1e-7 * peak else 5, name)
        bounds = [(float(piece.box[name][0]), float(piece.box[name][1])) for piece in pieces]
        # without the ends, where a density that jumps has two values
        checked = [low + (high - low) * _CHECKED[1:-1] for low, high in bounds]
        for end, rate, sign in ((edges[0], tails[0], -1.0), (edges[-1], tails[1], 1.0)):
            value = float(function(np.array([end]))[0])
            if rate > 0 and value > 0:
                box = (-math.inf, float(end)) if sign < 0 else (float(end), math.inf)
                pieces.append(Piece({name: box}, terms=[(value, {name: -sign * rate}, {name: float(end)})]))
                checked.append(end + sign * NEGLIGIBLE / rate * _CHECKED[1:])
                mass += float(_WEIGHTS @ function(end + sign * NEGLIGIBLE / rate * _ABSCISSAS)) * NEGLIGIBLE / rate
        result = MTE(variable, pieces=pieces, normalize=normalize)
        x = np.concatenate(checked)
        error = _SAFETY * float(np.abs(np.asarray(result(**{name: x})) - function(x) / mass).max())
        wanted = 1e-6 * peak / mass if max_error is None else max_error
        if error <= wanted:
            return result._with_errors(result.mass_error, error)
        tolerance *= max(0.1, 0.7 * wanted / error)
    raise _accuracy_error(name, wanted, float(x[np.abs(np.asarray(result(**{name: x})) - function(x) / mass).argmax()]))


def _accuracy_error(name: str, error: float, where: float) -> NetworkError:
    return NetworkError(
        f"{name!r}: the error {error:.3g} is out of reach near {where:.6g}; allow more with max_error=, or declare"
        " where the density jumps with breaks="
    )


def _halve_pieces(
    function: Function, edges: Values, breaks: Values, tolerance: float, most: int, name: str
) -> tuple[list[Piece], float]:
    """Halve pieces until each is accurate enough; also return the function's integral by quadrature."""
    pieces: list[tuple[float, Piece]] = []
    mass = 0.0
    queue = [(float(a), float(b)) for a, b in itertools.pairwise(edges)]
    narrowest = 1e-13 * max(abs(float(edges[0])), abs(float(edges[-1])))
    while queue:
        low, high = queue.pop()
        inner_breaks = breaks[(breaks > low) & (breaks < high)]
        terms = _interpolate(function, low, high, inner_breaks, 0.4 * tolerance, most, name)
        middle = 0.5 * (low + high)
        if terms is None:
            if high - low <= narrowest or len(queue) + len(pieces) > _MOST_PIECES:
                raise _accuracy_error(name, tolerance, middle)
            cut = float(inner_breaks[np.abs(inner_breaks - middle).argmin()]) if len(inner_breaks) else middle
            queue += [(cut, high), (low, cut)]
            continue
        pieces.append((low, Piece({name: (low, high)}, terms=terms)))
        mass += (high - low) * float(_WEIGHTS @ function(low + (high - low) * _ABSCISSAS))
    return [piece for _, piece in sorted(pieces, key=lambda item: item[0])], mass


@lru_cache(maxsize=4)
def _interpolation(most: int) -> tuple[Values, Values, list[Values]]:
    """Return orders, points and, for each steepness, the matrix from coefficients to values at the points."""
    orders = np.arange(-most, most + 1.0)
    # the ends from within, so that a jump at an end belongs to the next piece
    points = -np.cos(np.linspace(0.0, math.pi, len(orders))) * (1 - 1e-9)
    return orders, points, [np.exp(s * points[:, None] * orders) for s in _STEEPNESS]


def _interpolate(
    function: Function, low: float, high: float, inner_breaks: Values, wanted: float, most: int, name: str
) -> list[tuple[float, dict[str, float], dict[str, float]]] | None:
    """Return the terms of a non-negative interpolant, or None if it is not accurate enough."""
    half, width = 0.5 * (high - low), high - low
    orders, points, matrices = _interpolation(most)
    nodes = np.minimum(np.maximum(low + half * (1 + points), low), high)
    values_at_nodes = function(nodes)
    checked = np.concatenate([low + width * _CHECKED[1:-1], inner_breaks])
    exact = function(checked)
    anchors = np.where(orders > 0, high, low)
    for steepness, matrix in zip(_STEEPNESS, matrices, strict=True):
        rates = steepness * orders / half
        anchored = np.linalg.solve(matrix, values_at_nodes) * np.exp(steepness * np.abs(orders))
        if np.abs(anchored).sum() > _WORST_CONDITION * max(values_at_nodes.max(), wanted):
            return None
        values = np.exp(rates * (checked[:, None] - anchors)) @ anchored
        if np.abs(values - exact).max() > wanted:
            continue
        least = minimize_on_box(np.asarray(anchored), np.asarray(rates[:, None]), np.array([low]), np.array([high]))[0]
        if least >= -wanted:
            anchored[len(orders) // 2] -= min(least, 0.0) * (1 + 1e-9)
            break
    else:
        return None
    return [
        (float(c), {name: float(b)} if b else {}, {name: float(a)} if b else {})
        for c, b, a in zip(anchored, rates, anchors, strict=True)
        if c
    ]


# -- coefficients that were rounded -----------------------------------------------------------------------------------

_LOWEST = 0.1
"""A density whose minimum is further below zero, relative to its peak, is refused; three digits leave less than a
fifth.
"""


def repair_mixture(
    child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece], normalize: bool
) -> tuple[MTE, list[str]]:
    """Return pieces as an MTE of mass 1, with a description of each repair.

    Where the child has no mass at all it becomes uniform. A constant is added to pieces that are negative somewhere;
    then each configuration of the parents is divided by its mass.

    Examples
    --------
    >>> x = Continuous("x", domain=(0, 1))
    >>> repair_mixture(x, (), [Piece({"x": (0, 1)}, constant=0.998)], True)
    (f(x) =
      1  if everywhere, ["the mass of 'x' was 0.998 and was made 1"])
    """
    repairs: list[str] = []
    if not normalize:
        return MTE(child, parents=parents, pieces=pieces, normalize=None), repairs
    massless = _find_massless(child, pieces)
    if massless:
        repairs.append(
            f"{child.name!r} had no mass at all for some values of its parents; a uniform one was taken there"
        )
        pieces = [replace(piece, constant=1.0, terms=()) if p in massless else piece for p, piece in enumerate(pieces)]
    try:
        mixture = MTE(child, parents=parents, pieces=pieces, normalize=None)
    except NetworkError as error:
        if "is negative" not in str(error):
            raise
        pieces, depth = _lift(child, parents, pieces)
        repairs.append(
            f"the density of {child.name!r} was negative in places (down to {depth:.3g} of its peak) and was lifted"
        )
        mixture = MTE(child, parents=parents, pieces=pieces, normalize=None)
    if mixture.mass_error <= TOLERANCE:
        return mixture, repairs
    try:
        normal = MTE(child, parents=parents, pieces=pieces, normalize=True)
    except NetworkError as error:
        raise NetworkError(f"{error}; normalize=False reads the network with the densities as given") from None
    off = f"off by up to {mixture.mass_error:.3g}" if parents else f"{mixture.integral():.4g}"
    repairs.append(f"the mass of {child.name!r} was {off} and was made 1")
    # Made from its terms, so that its mass error is its own, not that of the file.
    return MTE._of(normal.variables, normal._blocks), repairs


def _find_massless(child: Variable, pieces: Sequence[Piece]) -> set[int]:
    """Return the pieces of the configurations of the parents for which all pieces are zero."""
    groups: dict[object, list[int]] = {}
    positive = set()
    for p, piece in enumerate(pieces):
        parts = [(n, v) for part in (piece.given, piece.box) for n, v in part.items() if n != child.name]
        key = tuple(sorted(parts, key=lambda item: item[0]))
        groups.setdefault(key, []).append(p)
        # By its digits, as a coefficient may be too small for a float.
        sizes = (str(size).lower().partition("e")[0] for size in (piece.constant, *(term[0] for term in piece.terms)))
        if any(size.strip("+-0.") for size in sizes):
            positive.add(key)
    return {p for key, numbers in groups.items() if key not in positive for p in numbers}


def _lift(child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece]) -> tuple[list[Piece], float]:
    """Add a constant to each piece that is negative somewhere; return the pieces and the lowest value relative to the
    peak.
    """
    terms = compile_pieces((*parents, child), pieces, child.name)
    lifted, worst, peak = list(pieces), 0.0, 0.0
    for p, piece in enumerate(pieces):
        t = slice(terms.starts[p], terms.starts[p + 1])
        if not (terms.coefficient[t] < 0).any():
            peak = max(peak, float(terms.coefficient[t].max(initial=0.0)))
            continue
        least, _, most = minimize_on_box(terms.coefficient[t], terms.rates[t], terms.low[p], terms.high[p])
        peak = max(peak, most)
        if least < 0:
            worst = max(worst, -least)
            # Slightly more than needed, so that rounding leaves no negative value; as a term, so that the others stay
            # exact.
            lift = -least * (1 + 1e-9) + 1e-15 * float(np.abs(terms.coefficient[t]).sum())
            lifted[p] = replace(piece, terms=(*piece.terms, (lift, {})))
    if not worst <= _LOWEST * peak:
        raise NetworkError(
            f"{child.name!r} is negative: down to {-worst:.4g}, and its peak is {peak:.4g}; rounding does not explain"
            " that"
        )
    return lifted, worst / peak
