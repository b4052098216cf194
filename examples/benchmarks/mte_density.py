"""Learned mixtures of truncated exponentials against their forerunners and other density estimators.

For samples of eight densities, the median Kullback-Leibler divergence from the truth over a few seeds, of

* ``mte``: `hybridbn.fitting.MTEFitter`;
* ``elvira``: the approach of Elvira (Rumi, Salmeron and Moral 2006) with three pieces, re-implemented in short;
* ``motbf``: the approach of the R package MoTBFs with exponentials, re-implemented in short;
* ``kde``: scipy's `gaussian_kde`; ``gmm``: scikit-learn's `GaussianMixture`, components by BIC.

Divergences are integrals by Gauss-Legendre quadrature between the truth's quantiles, from 1e-13 to 1 - 1e-13. The
forerunners' densities end with the data; there they count as 1e-9, which flatters them. ``mte / kde`` and so on are
ratios of medians: below one, hybridbn is better.

Run ``python examples/benchmarks/mte_density.py [sizes ...] [--seeds 10]``.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rows import Report, parser
from rows import seconds as take_seconds
from scipy import stats
from scipy.integrate import trapezoid
from scipy.linalg import null_space
from scipy.optimize import nnls

import hybridbn as hb
from hybridbn.fitting import MTEFitter

Values = NDArray[np.float64]
LogDensity = Callable[[Values], Values]

OUTSIDE = 1e-9
"""What the 2013 version of Elvira says of values outside of a density's domain; the forerunners' own answer is zero."""


@dataclass(frozen=True)
class NormalMixture:
    """A mixture of normal densities with the methods of scipy's frozen distributions that are used here."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]

    def rvs(self, size: int, random_state: int) -> Values:
        """Draw a sample."""
        rng = np.random.default_rng(random_state)
        which = rng.choice(len(self.weights), size, p=self.weights)
        return rng.normal(np.array(self.means)[which], np.array(self.deviations)[which])

    def ppf(self, q: Values) -> Values:
        """Return the quantiles of all components."""
        places = [
            mean + deviation * stats.norm.ppf(q) for mean, deviation in zip(self.means, self.deviations, strict=True)
        ]
        return np.sort(np.concatenate(places))

    def logpdf(self, x: Values) -> Values:
        """Return the log-density."""
        parts = stats.norm.logpdf(x[:, None], self.means, self.deviations) + np.log(self.weights)
        return np.asarray(np.logaddexp.reduce(parts, axis=1))


TRUTHS: dict[str, Any] = {
    "normal": stats.norm(),
    "t(5)": stats.t(5),
    "log-normal": stats.lognorm(1.0),
    "exponential": stats.expon(),
    "beta(2,5)": stats.beta(2, 5),
    "uniform": stats.uniform(),
    "bimodal": NormalMixture((0.5, 0.5), (-2, 2), (1, 1)),
    "trimodal": NormalMixture((0.3, 0.4, 0.3), (-4, 0, 4), (1, 0.7, 1)),
}


def nodes(truth: Any) -> tuple[Values, Values]:
    """Return points and weights for means under a density: Gauss-Legendre nodes between its quantiles, closer in the
    tails.
    """
    tail = np.geomspace(1e-13, 1e-3, 160)
    shares = np.concatenate([tail, np.linspace(1e-3, 1 - 1e-3, 1200)[1:-1], 1 - tail[::-1]])
    ends = np.unique(truth.ppf(shares))
    if not isinstance(truth, NormalMixture):
        support = np.array(truth.support())
        ends = np.union1d(ends, support[np.isfinite(support)])
    x, w = np.polynomial.legendre.leggauss(4)
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * np.diff(ends)
    points = (middle[:, None] + half[:, None] * x).ravel()
    logs = truth.logpdf(points)
    kept = np.isfinite(logs)  # there may be poles
    weights = (half[:, None] * w).ravel()[kept] * np.exp(logs[kept])
    return points[kept], weights / weights.sum()


def divergence(truth: Any, log_density: LogDensity) -> float:
    """Return the Kullback-Leibler divergence of a density from the truth."""
    points, weights = nodes(truth)
    return float(weights @ (truth.logpdf(points) - log_density(points)))


# -- hybridbn -----------------------------------------------------------------------------------------------------


def mte(sample: Values) -> LogDensity:
    table = hb.Table({"x": sample})
    density = MTEFitter().fit(table, table.variable("x"))
    return lambda x: density.log_on({"x": x})


def parameters(sample: Values) -> int:
    """Return the number of parameters of the learned density: cuts, rates, and levels where there are several terms.

    Neighboring pieces meet and the mass is one, so that no other level is free.
    """
    table = hb.Table({"x": sample})
    return 2 * sum(len(piece.terms) for piece in MTEFitter().fit(table, table.variable("x")).pieces) - 1


# -- the forerunners ----------------------------------------------------------------------------------------------


def elvira(sample: Values, pieces: int = 3) -> LogDensity:
    """Cut a kernel density where it turns or bends, and fit ``k + a exp(b x) + c exp(d x)`` to each part.

    The kernel is the biweight of the 2007 version with the bandwidth 2.623 * 1.059 sd n**(-1/5), on 1001 points.
    """
    low, high = sample.min(), sample.max()
    grid = np.linspace(low, high, 1001)
    bandwidth = 2.623 * 1.059 * sample.std() * len(sample) ** -0.2
    smooth = np.zeros(len(grid))
    for part in np.array_split(sample, max(1, len(sample) // 500)):
        u = np.clip((grid[:, None] - part) / bandwidth, -1, 1)
        smooth += (15 / 16 * (1 - u * u) ** 2).sum(axis=1) / (len(sample) * bandwidth)
    cuts = _elvira_cuts(grid, smooth, pieces)
    fitted = np.empty(len(grid))
    for a, b in itertools.pairwise(cuts):
        part = slice(a, b + 1)
        fitted[part] = _elvira_piece(grid[part], smooth[part])
    fitted = np.maximum(fitted, OUTSIDE)
    fitted /= trapezoid(fitted, grid)
    return lambda x: np.log(np.where((x >= low) & (x <= high), np.interp(x, grid, fitted), OUTSIDE))


def _elvira_cuts(x: Values, y: Values, pieces: int) -> list[int]:
    turns = np.flatnonzero(np.diff(np.sign(np.diff(y))) != 0) + 1
    bends = np.flatnonzero(np.diff(np.sign(np.diff(y, 2))) != 0) + 2
    cuts = sorted({0, len(x) - 1, *turns.tolist(), *bends.tolist()})
    while len(cuts) > pieces + 1:
        misses = [
            abs(y[c] - np.interp(x[c], [x[a], x[b]], [y[a], y[b]]))
            for a, c, b in zip(cuts, cuts[1:], cuts[2:], strict=False)
        ]
        del cuts[1 + int(np.argmin(misses))]
    return cuts


def _log_regression(x: Values, z: Values) -> Values:
    """Fit one exponential to values of any sign by a line through logarithms; the shift that makes them positive is
    lost.
    """
    sign, shift = 1.0, 0.0
    if (z <= 0).all():
        sign, z = -1.0, -z
    if (z <= 0).any():
        z = z + 1.0 - z.min()
    if z[len(z) // 2] > 0.5 * (z[0] + z[-1]):
        sign, z = -sign, 1.0 - z + z.max()
    slope, level = np.polyfit(x, np.log(np.maximum(z, 1e-300)), 1)
    return sign * np.exp(np.clip(level + slope * x, -500, 500)) + shift


def _elvira_piece(x: Values, y: Values) -> Values:
    """Alternate between two exponential terms and the constant, as long as the error
    falls and both ends stay positive.
    """
    if len(x) < 4:
        return y
    x = (x - x[0]) / (x[-1] - x[0])  # kinder than the original, whose result depends on the units
    unit = y.max()
    y = y / unit
    first, second = _log_regression(x, y), np.zeros(len(x))
    constant = (y - first).mean()
    best = math.inf
    for _ in range(100):
        proposals = []
        rest = _log_regression(x, y - first - constant)
        proposals.append((first, rest * ((y - first - constant) @ rest) / (rest @ rest), constant))
        rest = _log_regression(x, y - second - constant)
        proposals.append((rest * ((y - second - constant) @ rest) / (rest @ rest), second, constant))
        proposals.append((first, second, (y - first - second).mean()))
        before = best
        for one, two, level in proposals:
            total = one + two + level
            error = float(np.sqrt(((y - total) ** 2).mean()))
            if error < best and total[0] > 0 and total[-1] > 0:
                best, first, second, constant = error, one, two, level
        if not best < before:
            break
    result = first + second + constant if best < math.inf else y
    return unit * result


def motbf(sample: Values) -> LogDensity:
    """Fit a distribution function ``c x + sum_k (a_k exp(k x / s) + b_k exp(-k x / s))`` to the empirical one by least
    squares.

    It is 0 and 1 at the ends, its density at least 1e-3 on a grid; the number of terms is chosen by BIC, where one step
    without improvement is tolerated.
    """
    x = np.unique(sample)
    low, high = x[0], x[-1]
    empirical = np.searchsorted(np.sort(sample), x, side="right") / len(sample)
    scale = min((0.5, 5.0, 50.0), key=lambda s: abs(s - round((high - low) / 2)))
    grid = np.linspace(low, high, 501)
    best: tuple[float, Values, int] | None = None
    failures = 0
    for terms in range(0, 9):
        solved = _motbf_coefficients(x, empirical, grid, scale, terms)
        if solved is None:
            failures += 1
        else:
            density = np.maximum(_motbf_basis(sample, scale, terms, low)[1] @ solved, OUTSIDE)
            bic = float(np.log(density).sum()) - 0.5 * (2 * terms + 2) * math.log(len(sample))
            if best is None or bic > best[0]:
                best, failures = (bic, solved, terms), 0
            else:
                failures += 1
        if failures >= 2 and best is not None:
            break
    if best is None:
        return lambda x: np.full(len(x), math.log(OUTSIDE))
    _, coefficients, terms = best

    def log_density(points: Values) -> Values:
        inside = (points >= low) & (points <= high)
        values = _motbf_basis(np.clip(points, low, high), scale, terms, low)[1] @ coefficients
        return np.log(np.where(inside, np.maximum(values, OUTSIDE), OUTSIDE))

    return log_density


def _motbf_basis(x: Values, scale: float, terms: int, low: float) -> tuple[Values, Values]:
    """Return the basis of the distribution function and its derivative."""
    t = (x - low) / scale
    powers = [k for j in range(1, terms + 1) for k in (j, -j)]
    function = [np.ones(len(x)), t, *(np.exp(np.clip(k * t, -500, 500)) for k in powers)]
    derivative = [
        np.zeros(len(x)),
        np.full(len(x), 1 / scale),
        *(k / scale * np.exp(np.clip(k * t, -500, 500)) for k in powers),
    ]
    return np.stack(function, axis=1), np.stack(derivative, axis=1)


def _motbf_coefficients(x: Values, wanted: Values, grid: Values, scale: float, terms: int) -> Values | None:
    """Solve the quadratic program as a least distance problem (Lawson and Hanson), after taking the equalities out."""
    function, _ = _motbf_basis(x, scale, terms, grid[0])
    _, slope = _motbf_basis(grid, scale, terms, grid[0])
    size = np.abs(function).max(axis=0)
    function, slope = function / size, slope / size
    ends = function[[0, -1]]
    start = np.linalg.lstsq(ends, np.array([0.0, 1.0]), rcond=None)[0]
    free = null_space(ends)
    if not free.shape[1]:
        return start / size if (slope @ start >= 1e-3).all() else None
    q, r = np.linalg.qr(function @ free)
    if np.abs(np.diag(r)).min() < 1e-9 * np.abs(np.diag(r)).max():
        return None  # the normal equations are singular: the original's solver gives up, too
    center = q.T @ (wanted - function @ start)
    rows = np.linalg.solve(r.T, (slope @ free).T).T
    bounds = 1e-3 - slope @ start - rows @ center
    try:
        dual = nnls(np.vstack([rows.T, bounds]), np.append(np.zeros(len(center)), 1.0), maxiter=5000)[0]
    except RuntimeError:
        return None
    residual = np.vstack([rows.T, bounds]) @ dual - np.append(np.zeros(len(center)), 1.0)
    if abs(residual[-1]) < 1e-12:
        return None
    shift = -residual[:-1] / residual[-1]
    return np.asarray((start + free @ np.linalg.solve(r, shift + center)) / size)


# -- other estimators ---------------------------------------------------------------------------------------------


def kde(sample: Values) -> LogDensity:
    density = stats.gaussian_kde(sample)
    return lambda x: np.maximum(density.logpdf(x), -700.0)


def gmm(sample: Values) -> LogDensity:
    from sklearn.mixture import GaussianMixture

    column = sample[:, None]
    fits = [GaussianMixture(k, random_state=0).fit(column) for k in range(1, min(8, len(sample)))]
    best = min(fits, key=lambda fit: fit.bic(column))
    return lambda x: np.asarray(best.score_samples(x[:, None]))


METHODS: dict[str, Callable[[Values], LogDensity]] = {
    "mte": mte,
    "elvira": elvira,
    "motbf": motbf,
    "kde": kde,
    "gmm": gmm,
}


class Measured(NamedTuple):
    """Median divergences and times in CPU-seconds of some methods for one truth, and the most parameters of a learned
    MTE.
    """

    divergences: dict[str, float]
    seconds: dict[str, float]
    parameters: int


def measured(truth: Any, size: int, seeds: int, methods: Sequence[str] = tuple(METHODS)) -> Measured:
    """Fit samples of a truth by all methods, on the same samples."""
    samples = [np.asarray(truth.rvs(size, random_state=seed)) for seed in range(seeds)]
    divergences: dict[str, float] = {}
    seconds: dict[str, float] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in methods:
            found, times = [], []
            for sample in samples:
                spent, fit = take_seconds(partial(METHODS[name], sample))
                times.append(spent)
                found.append(divergence(truth, fit))
            divergences[name], seconds[name] = float(np.median(found)), float(np.median(times))
    return Measured(divergences, seconds, max(parameters(sample) for sample in samples))


def bench(report: Report, size: int, seeds: int) -> None:
    methods = ["mte"] if report.ours else list(METHODS)
    peers = methods[1:]
    print(f"\nn = {size}: median divergence over {seeds} seeds, and the ratio to each of the others'")
    heads = [*methods, *(f"mte/{name}" for name in peers), *(["mte/best"] if peers else []), "parameters"]
    print(f"{'':>12}" + "".join(f"{head:>11}" for head in heads))
    times: dict[str, list[float]] = {name: [] for name in methods}
    for name, truth in TRUTHS.items():
        found, seconds, most = measured(truth, size, seeds, methods)
        ratios = [found["mte"] / found[peer] for peer in peers]
        if peers:
            ratios.append(found["mte"] / min(found["kde"], found["gmm"]))
        print(
            f"{name:>12}" + "".join(f"{found[method]:11.5f}" for method in methods)
            + "".join(f"{ratio:11.3f}" for ratio in ratios) + f"{most:11d}",
            flush=True,
        )  # fmt: skip
        for method, second in seconds.items():
            times[method].append(second)
    print(f"{'ms a fit':>12}" + "".join(f"{1e3 * np.median(times[method]):11.1f}" for method in methods), flush=True)
    report.add(f"fit of eight densities, n = {size}", sum(times["mte"]), sum(times["gmm"]) if peers else None)


def main() -> None:
    """Print the tables."""
    options_parser = parser(__doc__)
    options_parser.add_argument("sizes", type=int, nargs="*", default=[50, 250, 1000, 10_000])
    options_parser.add_argument("--seeds", type=int)
    options = options_parser.parse_args()
    mte(np.random.default_rng(0).normal(size=100))  # imports and first calls are not timed
    with Report(options) as report:
        for size in options.sizes:
            report.run(bench, size, options.seeds or (1 if options.ours else 10))


if __name__ == "__main__":
    main()
