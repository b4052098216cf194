"""A builder that tries several builders and families, and keeps the one that predicts best on rows that it has not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import HybridBNError, NetworkError
from hybridbn.fitting.choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.naive_bayes import naive_bayes
from hybridbn.structures.nb_tree import nb_tree
from hybridbn.structures.preparing import Prepared, prepared
from hybridbn.structures.selective import Loss, dealt, log_loss, selective_naive_bayes, squared_error
from hybridbn.structures.tan import tan
from hybridbn.variables import Discrete

__all__ = ["Candidate", "automatic"]

Candidate: TypeAlias = tuple[Callable[..., Network], Any]
"""A builder, and the potentials that it is called with."""

ENOUGH = 4000
"""Candidates are compared on so many rows at most."""
TOLERANCE = 1e-6


def automatic(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    candidates: Sequence[Candidate | Callable[..., Network]] | None = None,
    loss: Loss | None = None,
    folds: int = 5,
    random_state: Any = 0,
) -> Network:
    """Build with whichever builder and family predicts the target best, by a cross-validation inside the data.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
        With "auto" families are chosen too; otherwise builders only, unless a candidate names its own.
    candidates : sequence of builders, or of pairs (builder, potentials), optional
        By default naive Bayes, TAN, selective naive Bayes and naive Bayes trees over mixtures of truncated exponentials, kernels, normal
        densities and tables, as far as the columns give reason.
    loss : callable, optional
        `log_loss` for a discrete target, `squared_error` for a continuous one, or any function of (posterior, truth) that returns a
        number for each row.
    folds : int
    random_state : int, Generator or None
        Deals the rows to the folds.

    Returns
    -------
    Network
        Built from all rows. Its ``graph["chosen"]`` tells which candidate it is of, and ``graph["losses"]`` the losses of all.

    Notes
    -----
    The comparison takes 4,000 rows at most. A candidate that can't be built from the data does not take part.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=200)
    >>> net = automatic({"x": x, "copy": x + 0.1 * rng.normal(size=200), "y": x + rng.normal(size=200)}, "y")
    >>> net.graph["chosen"], len(net.graph["losses"]) > 3
    ('tan, gaussian', True)
    """
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise NetworkError(f"folds must be a whole number, at least 2, not {folds!r}")
    read = prepared(data, target, potentials, weights)
    listed = _listed(read, target, potentials) if candidates is None else [_pair(c, potentials) for c in candidates]
    if not listed:
        raise NetworkError("candidates must hold a builder at least")
    table = read.table
    discrete = isinstance(read.variable(target), Discrete)
    loss = loss or (log_loss if discrete else squared_error)
    cells = read.codes(target)
    rng = np.random.default_rng(random_state)
    seen = np.flatnonzero((cells >= 0 if discrete else ~np.isnan(cells)) & (table.weights > 0))
    losses: dict[str, float] = {}
    failures: list[HybridBNError] = []
    if len(seen) >= 2 * folds and len(listed) > 1:
        chosen = rng.permutation(seen)[:ENOUGH]
        parts = dealt(cells[chosen], folds, rng)
        for builder, family in listed:
            try:
                losses[_named(builder, family)] = _loss(read, target, builder, family, chosen, parts, loss)
            except HybridBNError as error:
                failures.append(error)
        if not losses:
            raise failures[0]
    order = sorted(listed, key=lambda c: losses.get(_named(*c), np.inf))
    for builder, family in order:
        try:
            network = builder(table, target, family)
        except HybridBNError as error:
            failures.append(error)
            continue
        network.graph["chosen"] = _named(builder, family)
        network.graph["losses"] = losses
        return network
    raise failures[0]


def _loss(
    data: Prepared, target: str, builder: Callable[..., Network], family: Any, rows: Any, parts: Any, loss: Loss
) -> float:
    """Return the mean loss on rows that the network was not learned from."""
    total = weight = 0.0
    truth = data.codes(target)
    for part in range(parts.max() + 1):
        train, test = rows[parts != part], rows[parts == part]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is told of every fold would be told again of the whole
            network = builder(data.table.take(train), target, family)
            table = data.table.take(test)
            inside = table.select([name for name in table.names if name in network])
            found = loss(network.posterior(target, inside, impossible="nan", tolerance=TOLERANCE), truth[test])
        mine = data.table.weights[test]
        # a row that is impossible under the network counts as much as the worst of the others
        found = np.where(np.isnan(found), np.nanmax(found, initial=0.0), found)
        total += float(mine @ found)
        weight += float(mine.sum())
    return total / weight


def _listed(data: Prepared, target: str, potentials: Any) -> list[Candidate]:
    """Return the candidates that the columns give reason for."""
    discrete = isinstance(data.variable(target), Discrete)
    numbers = any(not isinstance(data.variable(name), Discrete) for name in data.attributes)
    families: list[Any] = [potentials]
    if isinstance(potentials, str) and potentials == "auto" and (numbers or not discrete):
        families = ["mte", "kernel", "gaussian", *(["multinomial"] if discrete else [])]
    found: list[Candidate] = []
    for family in families:
        found.append((naive_bayes, family))
        if len(data.attributes) > 1 and not (family == "gaussian" and _costly(data)):
            found.append((selective_naive_bayes, family) if family == "kernel" else (tan, family))
        if family in ("gaussian", "multinomial") or len(families) == 1:
            found.append((nb_tree if discrete else partial(nb_tree, max_depth=2), family))
    return found


def _costly(data: Prepared) -> bool:
    """Tell whether trees of normal and logistic densities would be slow to ask: categories below numbers that are missing."""
    kinds = {name: isinstance(data.variable(name), Discrete) for name in data.attributes}
    return any(kinds.values()) and any(data.table.missing[name] for name, discrete in kinds.items() if not discrete)


def _pair(candidate: Any, potentials: Any) -> Candidate:
    if isinstance(candidate, tuple) and len(candidate) == 2 and callable(candidate[0]):
        return candidate
    if callable(candidate):
        return candidate, potentials
    raise NetworkError(f"a candidate is a builder or a pair (builder, potentials), not {candidate!r:.80}")


def _named(builder: Callable[..., Network], family: Any) -> str:
    plain = builder.func if isinstance(builder, partial) else builder
    options = "".join(f" {key}={value!r}" for key, value in getattr(builder, "keywords", {}).items())
    name = getattr(plain, "__name__", type(plain).__name__)
    return f"{name}{options}, {family if isinstance(family, str) else getattr(family, 'name', 'mixed')}"
