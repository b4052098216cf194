"""Weighted sums of naive Bayes networks of discrete variables, and the network that such a sum is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError
from hybridbn.inference.engines.naive_bayes import NaiveBayesTables
from hybridbn.network import Network
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Discrete, Values

__all__ = ["collapsed", "network_of"]


def collapsed(stars: Iterable[tuple[float, NaiveBayesTables]]) -> NaiveBayesTables:
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
    return NaiveBayesTables(target, prior, variables, logs)


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


def network_of(star: NaiveBayesTables, spread: Mapping[str, Values]) -> Network:
    r"""Return the naive Bayes network whose log-odds are a star's in every row without missing cells.

    A factor of an attribute that is the same for all classes changes no odds, and a factor of a class that is the same for all
    states may go to the prior. So with s the star's term and any q(v) > 0

    .. math:: P(v \mid c) = q(v) e^{s(v, c) - \bar s(v)} / Z_c, \qquad P(c) \propto e^{s(c)} \prod_i Z_{ic}

    Parameters
    ----------
    star : NaiveBayesTables
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
