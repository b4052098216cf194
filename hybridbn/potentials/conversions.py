"""Other densities as MTEs, with a stated error: the normal, any density of one variable, a potential of another family.

A density is interpolated piece by piece by ``sum_j c_j exp(j s t)``, j = -3 .. 3, where t runs from -1 to 1 over the piece,
at seven Chebyshev points including the ends, so that the result is continuous (j = -5 .. 5 for errors below 1e-7 of the
peak). As s -> 0 that is the polynomial of degree six (errors fall 128-fold when a piece is halved), but its coefficients grow and cancel; so the largest s that is accurate enough
is taken, and pieces are halved sooner than condition numbers are let above 100. (The two-piece normal of Cobb and
Shenoy has 800.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.base import Potential
from hybridbn.potentials.exponentials import minimum_on_box
from hybridbn.potentials.mte import MTE, Piece
from hybridbn.variables import Continuous, Values

__all__ = ["mte_from_density", "mte_from_gaussian", "mte_from_potential"]

Function: TypeAlias = Callable[[Values], Values]

# Cobb and Shenoy (IJAR 41, 2006): the standard normal on [-3, 0); mirrored on [0, 3]
_COBB_SHENOY_CONSTANT = -0.010564
_COBB_SHENOY_TERMS = ((197.055720, 2.2568434), (-461.439251, 2.3434117), (264.793037, 2.4043270))

_STEEPNESS = (1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.125)
_WORST = 100.0  # condition number of a piece
_CHECKED = 0.5 - 0.5 * np.cos(np.linspace(0.0, math.pi, 64))  # where errors are measured, as fractions of a piece
_SAFETY = 1.05  # between the points where it is measured, an error may be this much larger
_MOST_PIECES = 5000


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
        Interpolation has exponential tails without end, and any accuracy. The published approximation of Cobb and Shenoy has
        two pieces of three exponential terms and a constant within three standard deviations.
    max_error : float, optional
        Largest error of the density, in its own units; by default 1e-6 of its peak. Interpolation only.
    normalize : bool or None
        As for `MTE`; None gives the published coefficients, whose mass is 0.9973.

    Returns
    -------
    MTE
        Its `max_error` tells the error that was measured.

    Examples
    --------
    >>> f = mte_from_gaussian(Continuous("x"), 0, 1)
    >>> f.max_error < 1e-6 * 0.4, len(f.pieces), round(f.var(), 5)
    (True, 18, 1.0)
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
                f"{variable.name!r}: the approximation reaches to {mean - 3 * sd} and {mean + 3 * sd}, beyond the domain"
            )
        return _cobb_shenoy(variable, mean, sd, normalize)
    if method != "interpolation":
        raise NetworkError(f"the method is 'interpolation' or 'cobb-shenoy', not {method!r}")
    inside = min(max(mean, low), high)
    peak = math.exp(-0.5 * ((inside - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
    wanted = 1e-6 * peak if max_error is None else float(max_error)
    reach = 3.0
    while 0.3 / reach**2 * math.exp(-0.5 * reach**2) / (sd * math.sqrt(2 * math.pi)) > 0.1 * wanted:
        reach += 0.25  # an exponential tail from here differs by less than a tenth of the error

    def normal(x: Values) -> Values:
        return np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))

    ends = max(low, mean - reach * sd), min(high, mean + reach * sd)
    if not ends[0] < ends[1]:
        raise NetworkError(
            f"{variable.name!r}: the domain [{low}, {high}] is too far from the mean {mean} of the normal"
        )
    tails = (reach / sd if low == -math.inf else 0.0, reach / sd if high == math.inf else 0.0)
    return _converted(variable, normal, np.linspace(*ends, 5), np.empty(0), wanted, tails, normalize)


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
        Where the density jumps, has a kink or a narrow feature. What lies between the points that are looked at and is not
        declared may be missed.
    tails : bool
        Go on beyond the support as exponentials.

    Returns
    -------
    MTE
        Its `max_error` tells the error that was measured, against the function divided by its integral.

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
            f"{variable.name!r}: the support must be a finite interval, not {support!r}; take one outside which the density "
            "is negligible"
        )
    low, high = max(low, variable.domain[0]), min(high, variable.domain[1])
    given = np.unique(np.asarray(breaks, dtype=float))
    given = given[(given > low) & (given < high)]
    start = np.linspace(low, high, 9)
    seen = _called(function, np.unique(np.concatenate([np.linspace(low, high, 1025), given])), variable.name)
    peak = float(seen.max())
    if not peak > 0:
        raise NetworkError(f"{variable.name!r}: the density is zero wherever it was looked at")
    rates = [0.0, 0.0]
    if tails:
        step = 1e-3 * (high - low)
        inner = _called(function, np.array([low + step, high - step]), variable.name)
        outer = _called(function, np.array([low, high]), variable.name)
        for i in (0, 1):
            unbounded = math.isinf(variable.domain[i])
            rates[i] = math.log(inner[i] / outer[i]) / step if unbounded and inner[i] > outer[i] > 0 else 0.0
    # relative to the function as given, whose integral is not known yet
    sampled = float(np.trapezoid(seen, np.unique(np.concatenate([np.linspace(low, high, 1025), given]))))
    wanted = (1e-6 * peak) if max_error is None else float(max_error) * sampled
    return _converted(
        variable, partial(_called, function, name=variable.name), start, given, wanted, (rates[0], rates[1]), True
    )


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
        Instead of what the potential says; beyond it the result has exponential tails.
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


# -- how ----------------------------------------------------------------------------------------------------------


def _called(function: Function, x: Values, name: str) -> Values:
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
    return result._with_max_error(_SAFETY * error)


def _converted(
    variable: Continuous, function: Function, edges: Values, breaks: Values, wanted: float, tails: tuple[float, float],
    normalize: bool | None,
) -> MTE:  # fmt: skip
    """Halve pieces until every one is as accurate as wanted; add tails; make the mass one; measure the error."""
    if not wanted > 0:
        raise NetworkError(f"{variable.name!r}: the largest error must be positive, not {wanted}")
    name, mass = variable.name, 0.0
    pieces: list[Piece] = []
    bounds: list[tuple[float, float]] = []
    sampled = function(np.linspace(edges[0], edges[-1], 257))
    most = 3 if wanted > 1e-7 * float(sampled.max()) else 5
    queue = [(float(a), float(b)) for a, b in itertools.pairwise(edges)][::-1]
    x16, w16 = np.polynomial.legendre.leggauss(16)
    narrowest = 1e-13 * max(abs(float(edges[0])), abs(float(edges[-1])), float(edges[-1] - edges[0]))
    while queue:
        low, high = queue.pop()
        inside = breaks[(breaks > low) & (breaks < high)]
        terms = _fitted(function, low, high, inside, 0.4 * wanted, most, name)
        if terms is None:
            middle = 0.5 * (low + high)
            cut = float(inside[np.abs(inside - middle).argmin()]) if len(inside) else middle
            if high - low <= narrowest or len(queue) + len(pieces) > _MOST_PIECES:
                raise NetworkError(
                    f"{name!r}: the error {wanted:.3g} is out of reach near {middle:.6g}; allow more with max_error=, or "
                    "declare where the density jumps with breaks="
                )
            queue += [(cut, high), (low, cut)]
            continue
        pieces.append(Piece({name: (low, high)}, terms=terms))
        bounds.append((low, high))
        half = 0.5 * (high - low)
        mass += half * float(w16 @ function(low + half * (1 + x16)))
    order = np.argsort([low for low, _ in bounds])
    pieces, bounds = [pieces[i] for i in order], [bounds[i] for i in order]
    outside = []
    for i, (end, rate) in enumerate(zip((edges[0], edges[-1]), tails, strict=True)):
        value = float(function(np.array([float(end)]))[0])
        if rate > 0 and value > 0:
            box = (-math.inf, float(end)) if i == 0 else (float(end), math.inf)
            slope = rate if i == 0 else -rate
            pieces.append(Piece({name: box}, terms=[(value, {name: slope}, {name: float(end)})]))
            reach = 40.0 / rate
            outside.append(float(end) - reach * _CHECKED if i == 0 else float(end) + reach * _CHECKED)
            mass += float(np.trapezoid(function(np.sort(outside[-1])), np.sort(outside[-1])))
    result = MTE(variable, pieces=pieces, normalize=normalize)
    points = np.concatenate([low + (high - low) * _CHECKED for low, high in bounds] + outside)
    exact = function(points) / mass
    # a jump is met at its break, where left and right values differ: look just inside the pieces
    ends = np.zeros(len(points), dtype=bool)
    ends[: len(bounds) * len(_CHECKED)] = np.tile(np.arange(len(_CHECKED)) % (len(_CHECKED) - 1) == 0, len(bounds))
    inner = points[~ends]
    error = float(np.abs(np.asarray(result(**{name: inner})) - exact[~ends]).max())
    return result._with_max_error(_SAFETY * error)


@lru_cache(maxsize=4)
def _interpolation(most: int) -> tuple[Values, Values, list[Values]]:
    """Return orders, points and, for each steepness, the matrix from coefficients to values at the points."""
    orders = np.arange(-most, most + 1.0)
    # the ends from within, so that a jump at an end belongs to the next piece
    points = -np.cos(np.linspace(0.0, math.pi, len(orders))) * (1 - 1e-9)
    return orders, points, [np.exp(s * points[:, None] * orders) for s in _STEEPNESS]


def _fitted(
    function: Function, low: float, high: float, inside: Values, wanted: float, most: int, name: str
) -> list[tuple[float, dict[str, float], dict[str, float]]] | None:
    """Return the terms of a non-negative interpolant, or None if it isn't accurate enough."""
    half, width = 0.5 * (high - low), high - low
    orders, points, matrices = _interpolation(most)
    nodes = np.minimum(np.maximum(low + half * (1 + points), low), high)
    given = function(nodes)
    checked = np.concatenate([low + width * _CHECKED[1:-1], inside])
    exact = function(checked)
    anchors = np.where(orders > 0, high, low)
    for steepness, matrix in zip(_STEEPNESS, matrices, strict=True):
        rates = steepness * orders / half
        anchored = np.linalg.solve(matrix, given) * np.exp(steepness * np.abs(orders))
        if np.abs(anchored).sum() > _WORST * max(given.max(), wanted):
            return None
        values = np.exp(rates * (checked[:, None] - anchors)) @ anchored
        if np.abs(values - exact).max() > wanted:
            continue
        least = minimum_on_box(anchored, rates[:, None], np.array([low]), np.array([high]))[0]
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
