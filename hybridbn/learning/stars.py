"""Naive Bayes networks of discrete variables as tables of logarithms: scored for many rows, and added up.

Such a network is a star: the target, which has no parents, and attributes that have no parents but the target. Its log
probability is a sum with one term for each observed cell, and so is any weighted sum of several of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.network import Network
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Discrete, Values

__all__ = ["Star", "collapsed", "network_of", "star_of", "why_no_star"]

_ROWS = 32768
"""Rows that are scored at a time, so that they stay in the cache."""


@dataclass(frozen=True)
class Star:
    """Naive Bayes in logarithms, or a weighted sum of such.

    Attributes
    ----------
    target : Discrete
    prior : ndarray (classes,)
    variables : mapping from attribute to its variable
    logs : mapping from attribute to ndarray (states, classes)
    """

    target: Discrete
    prior: Values
    variables: Mapping[str, Discrete]
    logs: Mapping[str, Values]

    def scores(self, codes: Mapping[str, NDArray[Any]], rows: int) -> Values:
        """Return the log joint probabilities (classes, rows) of the classes with the observed cells.

        Parameters
        ----------
        codes : mapping from attribute to integer array (rows,)
            ``-1`` where a cell is missing: its term is left out, which marginalizes it.
        rows : int

        Examples
        --------
        >>> c, x = Discrete("c", ("a", "b")), Discrete("x", ("p", "q"))
        >>> star = Star(c, np.zeros(2), {"x": x}, {"x": np.array([[1.0, 2.0], [3.0, 4.0]])})
        >>> star.scores({"x": np.array([1, -1])}, 2)
        array([[3., 0.],
               [4., 0.]])
        """
        classes = len(self.target)
        found = np.empty((classes, rows))
        # the last row is looked up by the code -1
        tables = {name: np.vstack([self.logs[name], np.zeros(classes)]).T.copy() for name in codes if name in self.logs}
        for start in range(0, rows, _ROWS):
            part = slice(start, start + _ROWS)
            block = found[:, part]
            block[:] = self.prior[:, None]
            for name, table in tables.items():
                own = codes[name][part]
                for code in range(classes):
                    block[code] += table[code].take(own, mode="wrap")
        return found


def star_of(network: Network, target: str) -> Star | None:
    """Return a network as a star, or None where it is none.

    Examples
    --------
    >>> c, x = Discrete("c", ("a", "b")), Discrete("x", ("p", "q"))
    >>> prior = Multinomial(c, table=[0.5, 0.5])
    >>> star_of(Network([prior, Multinomial(x, (c,), table=[[0.9, 0.1], [0.3, 0.7]])]), "c").logs["x"].round(2)
    array([[-0.11, -1.2 ],
           [-2.3 , -0.36]])
    """
    if why_no_star(network, target):
        return None
    own = network.potential(target)
    assert isinstance(own, Multinomial)
    variables, logs = {}, {}
    with np.errstate(divide="ignore"):
        for potential in map(network.potential, network):
            if potential.parents and isinstance(potential, Multinomial):
                variables[potential.child.name] = potential.child
                logs[potential.child.name] = np.log(potential.table.T)
        return Star(own.child, np.log(own.table), variables, logs)


def why_no_star(network: Network, target: str) -> str:
    """Say why a network is not naive Bayes over discrete variables; empty where it is.

    Examples
    --------
    >>> a, b = Discrete("a", (0, 1)), Discrete("b", (0, 1))
    >>> net = Network([Multinomial(a, table=[0.5, 0.5]), Multinomial(b, (a,), table=[[0.5, 0.5], [0.1, 0.9]])])
    >>> why_no_star(net, "a"), why_no_star(net, "b")
    ('', "the target 'b' has the parent 'a'")
    """
    for potential in map(network.potential, network):
        name = potential.child.name
        parents = [parent.name for parent in potential.parents]
        if name == target and parents:
            return f"the target {name!r} has the parent {parents[0]!r}"
        others = [parent for parent in parents if parent != target]
        if others:
            return f"{name!r} has the parent {others[0]!r} beside the target"
        if not isinstance(potential, Multinomial):
            return f"{name!r} has a {type(potential).__name__}, not a table of probabilities"
    return ""


def collapsed(stars: Iterable[tuple[float, Star]]) -> Star:
    r"""Return the weighted sum of stars, exact where all attributes are observed (eq. 7 of Ting and Zheng, 2003).

    .. math:: \sum_t \alpha_t \log P_t(c) + \sum_i \sum_t \alpha_t \log P_t(v_i \mid c)

    Where stars cut a number differently, the sum has the cuts of all of them.
    """
    listed = list(stars)
    target = listed[0][1].target
    variables: dict[str, Discrete] = {}
    for _, star in listed:
        for name, variable in star.variables.items():
            known = variables.setdefault(name, variable)
            if known is not variable and known != variable:
                variables[name] = _common(known, variable)
    logs = {name: np.zeros((len(variable), len(target))) for name, variable in variables.items()}
    prior = np.zeros(len(target))
    for weight, star in listed:
        prior += weight * star.prior
        for name, table in star.logs.items():
            own, wanted = star.variables[name], variables[name]
            same = own is wanted or own == wanted
            logs[name] += weight * (table if same else table[_places(wanted, own)])
    return Star(target, prior, variables, logs)


def _common(first: Discrete, second: Discrete) -> Discrete:
    """Return the variable with the cuts of two that discretize the same number."""
    if first.cuts is None or second.cuts is None:
        raise NetworkError(
            f"{first.name!r} has different states in the members of the ensemble, so no single network has room for all"
        )
    return Discrete(first.name, cuts=tuple(sorted({*first.cuts, *second.cuts})))


def _places(fine: Discrete, coarse: Discrete) -> NDArray[np.intp]:
    """Return the interval of a coarse discretization in which each interval of a fine one lies."""
    lows = np.array([-np.inf, *(fine.cuts or ())])
    return np.searchsorted(np.array(coarse.cuts or ()), lows, side="right")


def network_of(star: Star, spread: Mapping[str, Values]) -> Network:
    r"""Return the naive Bayes network whose log-odds are a star's in every row without missing cells.

    A factor of an attribute that is the same for all classes changes no odds, and a factor of a class that is the same for all
    states may go to the prior. So with s the star's term and any q(v) > 0

    .. math:: P(v \mid c) = q(v) e^{s(v, c) - \bar s(v)} / Z_c, \qquad P(c) \propto e^{s(c)} \prod_i Z_{ic}

    Parameters
    ----------
    star : Star
    spread : mapping from attribute to ndarray (states,)
        The q of each attribute.

    Raises
    ------
    NetworkError
        Where a probability would be too small for a number.
    """
    prior = star.prior.copy()
    potentials = []
    for name, table in star.logs.items():
        with np.errstate(invalid="ignore"):
            terms = (table - table.mean(axis=1, keepdims=True)).T + np.log(spread[name])
        top = terms.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", under="ignore"):
            norm = top + np.log(np.exp(terms - top).sum(axis=1, keepdims=True))
            probabilities = np.exp(terms - norm)
        _refuse_underflow(probabilities, name)
        prior += norm[:, 0]
        potentials.append(Multinomial(star.variables[name], (star.target,), table=probabilities))
    own = np.exp(prior - prior.max())
    _refuse_underflow(own, star.target.name)
    return Network([Multinomial(star.target, table=own, normalize=True), *potentials])


def _refuse_underflow(probabilities: Values, name: str) -> None:
    # smaller numbers have fewer digits
    if not (probabilities >= np.finfo(float).tiny).all():
        raise NetworkError(
            f"{name!r}: the collapsed network would need a probability that is zero or too small for a number; let the members "
            "have an estimate without zeros, such as MEstimate(2), or take fewer rounds"
        )
