"""Cut the continuous variables of a network into bins, and estimate the error.

A binned conditional table holds ``P(child in bin | parents in bins)``. It is the average of the potential's own masses
over the parents inside their bins, computed by Gauss-Legendre quadrature over the probability of each parent inside its
bin; the quantiles come from an evenly spread forward sample of the network. Several continuous parents are treated as
independent inside their bins.

The error is measured: the forward sample gives, for each node, the mean total variation distance between the
conditional given the exact parents and the table's row for their bins. Replacing one conditional after the other
changes the joint distribution by at most their sum, which therefore bounds the error of every probability of events in
terms of bins (before evidence is entered; a posterior may be off by twice the bound over the evidence's probability).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TooWide
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.variables import Codes, Continuous, Discrete, Values, shorten

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = ["Binning", "discretize"]

_SAMPLE = 1 << 12
"""The forward sample has this number of rows, which gives the error to about two digits."""
_NODES = (6, 4, 3, 2, 1)
"""Each bin of a parent gets the first of these numbers of quadrature points that `_MOST` allows."""
_MOST = 4_000_000
"""The masses that are computed for one table are limited to this number, by fewer quadrature points."""
_WIDEST = 10_000_000
"""Tables with more numbers (80 MB) are refused."""
_ROWS = 4096
"""Rows are computed in blocks of this number, so that temporary arrays stay small."""


@dataclass(frozen=True)
class Binning:
    """The cut points of continuous variables, and how far the binned model may be from the network.

    Attributes
    ----------
    cuts : mapping from each continuous variable to its cut points
    error : mapping from each variable to the mean total variation distance between its conditional distribution
        (over bins) given the exact values of its parents and given their bins
    total : float
        The sum of `error`: no event in terms of states and bins has a probability further than that from the network's.
        Estimated from an evenly spread sample of 4096 rows, so to about two digits.
    """

    cuts: Mapping[str, tuple[float, ...]]
    error: Mapping[str, float]
    total: float


def discretize(network: Network, bins: int | Mapping[str, int | Sequence[float]]) -> tuple[Network, Binning]:
    """Return the network with its continuous variables cut into bins.

    Parameters
    ----------
    network : Network
    bins : int, or mapping from each continuous variable to an int or to cut points
        A number of bins gives bins of about equal probability.

    Returns
    -------
    binned : Network
        With `Multinomial` potentials; the binned variables are `Discrete` with `cuts`, so they accept raw numbers too.
    binning : Binning

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([
    ...     hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[1], variance=1),
    ... ])
    >>> binned, binning = discretize(net, {"x": 4, "y": [0]})
    >>> binned.variable("x").states
    ('< -0.674', '-0.674 to 0.0', '0.0 to 0.674', '>= 0.674')
    >>> binned.potential("y").table.round(1)
    array([[0.9, 0.1],
           [0.6, 0.4],
           [0.4, 0.6],
           [0.1, 0.9]])
    >>> coarse, fine = (discretize(net, count)[1].total for count in (5, 20))
    >>> bool(fine < coarse / 2)
    True
    """
    from hybridbn.network import Network

    wanted = _check_bins(network, bins)
    order: list[str] = list(nx.topological_sort(network))
    sample = _draw_sample(network, order)
    cut = {name: _choose_cuts(network.potential(name), sample[name], wanted[name]) for name in order if name in wanted}
    variables = {
        v.name: v if isinstance(v, Discrete) else Discrete(v.name, cuts=cut[v.name])
        for v in map(network.variable, order)
    }
    codes = {
        name: np.searchsorted(cut[name], values, side="right") if name in cut else values
        for name, values in sample.items()
    }
    tables, error = [], {}
    for name in network:
        table, error[name] = _bin_potential(network.potential(name), variables, sample, codes)
        *parents, child = (variables[each] for each in network.potential(name).scope)
        tables.append(Multinomial(child, parents=parents, table=table))
    return Network(tables), Binning(cut, error, math.fsum(error.values()))


def _check_bins(network: Network, bins: Any) -> dict[str, int | tuple[float, ...]]:
    continuous = {v.name: v for v in map(network.variable, network) if isinstance(v, Continuous)}
    if not isinstance(bins, Mapping):
        bins = dict.fromkeys(continuous, bins)
    unknown = [name for name in bins if name not in continuous]
    if unknown:
        raise NetworkError(f"bins for {shorten(unknown)}, but the continuous variables are {shorten(continuous)}")
    missing = [name for name in continuous if name not in bins]
    if missing:
        raise NetworkError(
            f"bins don't say how to cut {shorten(missing)}; give a number of bins or cut points for each"
        )
    return {name: _check_count(variable, bins[name]) for name, variable in continuous.items()}


def _check_count(variable: Continuous, given: Any) -> int | tuple[float, ...]:
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 2 <= given <= 10_000:
            raise NetworkError(f"{variable.name!r}: {given} bins; give a number from 2 to 10,000, or cut points")
        return int(given)
    if isinstance(given, str | bytes | float | bool) or not np.iterable(given):
        raise NetworkError(f"{variable.name!r}: bins are a whole number or a list of cut points, not {given!r}")
    cuts = Discrete(variable.name, cuts=tuple(given)).cuts or ()  # refuses numbers that aren't finite and increasing
    low, high = variable.domain
    if not cuts or cuts[0] <= low or cuts[-1] >= high:
        raise NetworkError(
            f"{variable.name!r}: cut points must lie inside the domain ({low}, {high}), not {list(cuts)}"
        )
    return cuts


def _draw_sample(network: Network, order: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Draw from the network by evenly spread uniforms (a Sobol' sequence with a random shift); the same rows every
    time.
    """
    from scipy.stats import qmc

    rng = np.random.default_rng(0)
    sobol = qmc.Sobol(min(len(order), qmc.Sobol.MAXDIM), scramble=False).random_base2(_SAMPLE.bit_length() - 1)
    sample: dict[str, NDArray[Any]] = {}
    for column, name in enumerate(order):
        potential = network.potential(name)
        spread = sobol[:, column] if column < sobol.shape[1] else rng.permutation(_SAMPLE) / _SAMPLE
        uniforms = np.clip((spread + rng.random()) % 1.0, 1e-9, 1 - 1e-9)  # the quantiles at 0 and 1 may be infinite
        sample[name] = potential.ppf(uniforms, {parent.name: sample[parent.name] for parent in potential.parents})
    return sample


def _choose_cuts(potential: Potential, values: Values, wanted: int | tuple[float, ...]) -> tuple[float, ...]:
    if isinstance(wanted, tuple):
        return wanted
    levels = np.arange(1, wanted) / wanted
    quantiles = np.quantile(values, levels) if potential.parents else potential.ppf(levels, {})
    # Bins need not be exactly equal: digits that matter less than a hundredth of a bin only make ugly names of states.
    gaps = np.diff(np.unique(quantiles))
    digits = 2 - math.floor(math.log10(gaps.min())) if len(gaps) else 15
    return tuple(np.unique(np.round(quantiles, digits)).tolist())


# -- tables -----------------------------------------------------------------------------------------------------------


def _bin_potential(
    potential: Potential,
    variables: Mapping[str, Discrete],
    sample: Mapping[str, NDArray[Any]],
    codes: Mapping[str, Codes],
) -> tuple[Values, float]:
    """Return the binned table (parents..., child), and the mean total variation distance from binning the parents."""
    exact = potential.probabilities()
    if exact is not None:
        return exact, 0.0
    child, parents = variables[potential.child.name], potential.parents
    sizes = [len(variables[parent.name]) for parent in parents]
    if math.prod(sizes) * len(child) > _WIDEST:
        raise TooWide(
            f"{child.name!r}: its table would have {' x '.join(map(str, [*sizes, len(child)]))} numbers; give fewer"
            f" bins for {shorten([p.name for p in (*parents, potential.child) if isinstance(p, Continuous)])}"
        )
    continuous = [parent for parent in parents if isinstance(parent, Continuous)]
    cells = math.prod(sizes) * len(child)
    nodes = next((n for n in _NODES if cells * n ** len(continuous) <= _MOST), 1)
    points: list[NDArray[Any]] = []
    weights = np.polynomial.legendre.leggauss(nodes)[1] / 2
    for parent in parents:
        if isinstance(parent, Continuous):
            points.append(_choose_points(sample[parent.name], variables[parent.name].cuts or (), parent, nodes))
        else:
            points.append(np.arange(len(parent)))
    grid = dict(zip((p.name for p in parents), map(np.ravel, np.meshgrid(*points, indexing="ij")), strict=True))
    masses = _compute_masses(potential, grid, child).reshape(*map(len, points), len(child))
    for axis, parent in enumerate(parents):
        if isinstance(parent, Continuous):
            shape = (*masses.shape[:axis], -1, nodes, *masses.shape[axis + 1 :])
            masses = np.moveaxis(masses.reshape(shape), axis + 1, -1) @ weights
    table = masses / masses.sum(axis=-1, keepdims=True)
    if not continuous:
        return table, 0.0
    exact = _compute_masses(potential, {parent.name: sample[parent.name] for parent in parents}, child)
    binned = table[tuple(codes[parent.name] for parent in parents)]
    return table, float(np.abs(exact - binned).sum(axis=1).mean() / 2)


def _choose_points(values: Values, cuts: Sequence[float], variable: Continuous, nodes: int) -> Values:
    """Return quadrature points in every bin, as quantiles of the variable inside it; evenly spaced in bins without a
    sample.
    """
    levels = (1 + np.polynomial.legendre.leggauss(nodes)[0]) / 2
    spread = float(np.ptp(values)) or 1.0
    points = []
    for low, high in pairwise((variable.domain[0], *cuts, variable.domain[1])):
        inside = values[(values >= low) & (values < high)]
        if len(inside):
            points.append(np.quantile(inside, levels))
            continue
        near = high - spread if math.isinf(low) else low
        points.append(near + levels * ((low + spread if math.isinf(high) else high) - near))
    return np.concatenate(points)


def _compute_masses(potential: Potential, given: Mapping[str, NDArray[Any]], child: Discrete) -> Values:
    """Return the probabilities (rows, states or bins of the child) for every row of the parents' codes or values.

    Scales are common to a row, and rows are divided by their sums, so that the scales cancel.
    """
    rows = len(next(iter(given.values()))) if given else 1
    result = np.empty((rows, len(child)))
    for start in range(0, rows, _ROWS):
        block = slice(start, start + _ROWS)
        some = {name: values[block] for name, values in given.items()}
        result[block] = _compute_block(potential, some, child)
    result /= result.sum(axis=1, keepdims=True)
    return result


def _compute_block(potential: Potential, given: Mapping[str, NDArray[Any]], child: Discrete) -> Values:
    axes = {name: values[None, :] for name, values in given.items()}
    if isinstance(potential.child, Discrete):
        values, _ = potential.on({**axes, child.name: np.arange(len(child))})
    else:
        low, high = potential.child.domain
        edges = np.array([low, *(child.cuts or ()), high])
        if not potential.exact_mass:
            return potential.integrate_bins(edges, given)
        values, _ = potential.mass(axes, edges)
    return np.asarray(np.reshape(values, (len(child), -1)).T)
