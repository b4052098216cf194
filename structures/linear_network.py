"""Networks whose target is linear in the other columns: one regression, or one for each leaf of some trees."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.potentials.boxes import Boxes
from hybridbn.potentials.gaussian import LinearGaussian
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.structures.noise import Noise
from hybridbn.structures.regressors import Regressors
from hybridbn.variables import Continuous, Discrete, Values

__all__ = ["linear_network", "unused"]

OWN_SHARE = 0.01
"""Of the target's variance, the part that the effects of categories bring along."""


def linear_network(
    regressors: Regressors, coefficients: Values, variances: Values, noise: Noise, leaf: Boxes | None = None
) -> Network:
    r"""Return the network of attributes, effects of categories, maybe a leaf, and the target.

    The effect :math:`e_d` of a category is a normal node below it, :math:`e_d \mid d \sim N(E_d[d], v_d)`, and

    .. math:: y \mid l, k, x, e \sim N(a_l + B_l x + C_l e, \; c_k s^2_l - \sum_d C^2_{ld} v_d)

    so given the attributes the target has the variance :math:`c_k s^2_l`, of which the effects bring one percent.

    Parameters
    ----------
    regressors : Regressors
    coefficients : ndarray (leaves, 1 + regressors)
        Of the standardized regressors, in the target's unit.
    variances : ndarray (leaves,), in the square of the target's unit
    noise : Noise
    leaf : Boxes, optional
        Without it there is one leaf.
    """
    data = regressors.data
    assert data.target is not None
    target = data.variable(data.target)
    assert isinstance(target, Continuous)
    effects = np.array([name in regressors.effects for name in regressors.names], dtype=bool)
    # effects are in the target's unit already
    slopes = coefficients[:, 1:] / regressors.scales * np.where(effects, 1.0, regressors.unit)
    lifted = np.where(effects, regressors.unit, 1.0) * regressors.centers
    intercept = coefficients[:, 0] * regressors.unit - slopes @ lifted
    taken = set(data.roles) | ({leaf.child.name} if leaf is not None else set())
    useful = np.abs(slopes).max(axis=0, initial=0.0) > 0
    total = regressors.unit**2 * variances[:, None] * noise.factors
    parents: list[Continuous] = []
    potentials: list[Potential] = list(regressors.potentials)
    spent = np.zeros(len(variances))
    kinds = max(len(regressors.effects), 1)
    for place, name in enumerate(regressors.names):
        variable = data.variable(name)
        if not useful[place]:
            continue
        if isinstance(variable, Continuous):
            parents.append(variable)
            continue
        node = Continuous(unused(f"{name} effect", taken))
        taken.add(node.name)
        squares = slopes[:, place] ** 2
        own = OWN_SHARE / kinds * float((total.min(axis=1)[squares > 0] / squares[squares > 0]).min())
        spent += squares * own
        effect = regressors.effects[name] * regressors.unit
        potentials.append(LinearGaussian(node, (variable,), intercept=effect, variance=np.full(len(effect), own)))
        parents.append(node)
    hidden: list[Discrete] = []
    shape: list[int] = []
    if leaf is not None:
        potentials.append(leaf)
        hidden.append(leaf.child)
        shape.append(len(leaf.child))
    if len(noise.shares) > 1:
        kind = Discrete(unused(f"{target.name} noise", taken), ("usual", "wide"))
        potentials.append(Multinomial(kind, table=noise.shares))
        hidden.append(kind)
        shape.append(len(kind))
    wide = (len(variances), len(noise.factors))
    potentials.append(
        LinearGaussian(
            target,
            (*hidden, *parents),
            intercept=np.broadcast_to(intercept[:, None], wide).reshape(shape),
            coefficients=np.broadcast_to(slopes[:, None, useful], (*wide, int(useful.sum()))).reshape(*shape, -1)
            if parents
            else None,
            variance=(total - spent[:, None]).reshape(shape),
        )
    )
    return Network(potentials)


def unused(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken, with underscores after it if need be.

    Examples
    --------
    >>> unused("a", ["b"]), unused("a", ["a", "a_"])
    ('a', 'a__')
    """
    while name in taken:
        name += "_"
    return name
