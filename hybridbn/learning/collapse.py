"""Weighted sums of naive Bayes networks of discrete variables: their tables, their network, and what states weigh."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.inference.engines.naive_bayes import NaiveBayesTables
from hybridbn.network import Network
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Discrete, Values

__all__ = ["network_of_sum", "sum_tables", "weights_of_evidence"]


def sum_tables(weighted_tables: Iterable[tuple[float, NaiveBayesTables]]) -> NaiveBayesTables:
    r"""Return the weighted sum of log tables, exact where all attributes are observed (eq. 7 of Ting and Zheng, 2003).

    .. math:: \sum_t \alpha_t \log P_t(c) + \sum_i \sum_t \alpha_t \log P_t(v_i \mid c)

    Where the networks cut a number differently, the sum has the cuts of all.
    """
    listed = list(weighted_tables)
    target = listed[0][1].target
    variables: dict[str, Discrete] = {}
    for _, tables in listed:
        for name, variable in tables.variables.items():
            known = variables.setdefault(name, variable)
            if known is not variable and known != variable:
                variables[name] = _common_refinement(known, variable)
    logs = {name: np.zeros((len(variable), len(target))) for name, variable in variables.items()}
    prior = np.zeros(len(target))
    for weight, tables in listed:
        prior += weight * tables.prior
        for name, table in tables.logs.items():
            own, common = tables.variables[name], variables[name]
            same = own is common or own == common
            logs[name] += weight * (table if same else table[_intervals_within(common, own)])
    return NaiveBayesTables(target, prior, variables, logs)


def _common_refinement(first: Discrete, second: Discrete) -> Discrete:
    """Return the variable with the cuts of both, which discretize the same number."""
    if first.cuts is None or second.cuts is None:
        raise NetworkError(
            f"{first.name!r} has different states in the members of the ensemble, so no single network has room for all"
        )
    return Discrete(first.name, cuts=tuple(sorted({*first.cuts, *second.cuts})))


def _intervals_within(fine: Discrete, coarse: Discrete) -> NDArray[np.intp]:
    """Return the interval of a coarse discretization in which each interval of a fine one lies."""
    lows = np.array([-np.inf, *(fine.cuts or ())])
    return np.searchsorted(np.array(coarse.cuts or ()), lows, side="right")


def network_of_sum(tables: NaiveBayesTables, distributions: Mapping[str, Values]) -> Network:
    r"""Return the naive Bayes network with the log-odds of the tables in every row without missing cells.

    A factor of an attribute that is the same for all classes changes no odds, and a factor of a class that is the same
    for all states may go to the prior. So with s the term in the tables and any q(v) > 0

    .. math:: P(v \mid c) = q(v) e^{s(v, c) - \bar s(v)} / Z_c, \qquad P(c) \propto e^{s(c)} \prod_i Z_{ic}

    Parameters
    ----------
    tables : NaiveBayesTables
    distributions : mapping from attribute to ndarray (states,)
        The q of each attribute.

    Raises
    ------
    NetworkError
        Where a probability would be too small for a number.
    """
    prior = tables.prior.copy()
    potentials = []
    for name, table in tables.logs.items():
        with np.errstate(invalid="ignore"):
            terms = (table - table.mean(axis=1, keepdims=True)).T + np.log(distributions[name])
        top = terms.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", under="ignore"):
            norm = top + np.log(np.exp(terms - top).sum(axis=1, keepdims=True))
            probabilities = np.exp(terms - norm)
        _refuse_underflow(probabilities, name)
        prior += norm[:, 0]
        potentials.append(Multinomial(tables.variables[name], (tables.target,), table=probabilities))
    prior_probabilities = np.exp(prior - prior.max())
    _refuse_underflow(prior_probabilities, tables.target.name)
    return Network([Multinomial(tables.target, table=prior_probabilities, normalize=True), *potentials])


def _refuse_underflow(probabilities: Values, name: str) -> None:
    # smaller numbers have fewer digits
    if not (probabilities >= np.finfo(float).tiny).all():
        raise NetworkError(
            f"{name!r}: the collapsed network would need a probability that is zero or too small for a number; let "
            "the members "
            "have an estimate without zeros, such as MEstimate(2), or take fewer rounds"
        )


def weights_of_evidence(tables: NaiveBayesTables, state: Hashable = None) -> tuple[float, dict[str, Values]]:
    r"""Return the prior log-odds of a class and the weights of evidence of all states (eq. 2 of Elkan, 1997).

    .. math:: w_{jv} = \log P(A_j = v \mid c_1) - \log P(A_j = v \mid c_0)

    Parameters
    ----------
    tables : NaiveBayesTables
        The tables of two classes.
    state : Hashable, optional
        The class c1; the second one by default.
    """
    if len(tables.target) != 2:
        raise NetworkError(
            f"{tables.target.name!r} has {len(tables.target)} classes, and weights of evidence add up to log-odds of "
            "two; explain() takes any number"
        )
    code = 1 if state is None else tables.target.code(state)
    if code < 0:
        raise TableError(f"{tables.target.name!r}: {state!r} is not a state")
    return float(tables.prior[code] - tables.prior[1 - code]), {
        name: np.asarray(table[:, code] - table[:, 1 - code]) for name, table in tables.logs.items()
    }
