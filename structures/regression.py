"""Linear regression as a network: the target below the attributes, which have densities of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridbn.fitting.choice import Potentials
from hybridbn.network import Network
from hybridbn.structures.building import builder
from hybridbn.structures.linear_network import linear_network
from hybridbn.structures.noise import noise_of
from hybridbn.structures.regressors import Regressors, read_for_regression, regressors_of
from hybridbn.variables import Continuous

__all__ = ["regression", "regression_network"]


@builder(takes_target=Continuous, hidden=(Continuous,))
def regression(data: Any, target: str, potentials: Potentials = "auto", weights: Any = None) -> Network:
    r"""Build a linear regression of a number on all other columns, as a network in which every cell may be missing.

    .. math:: f(y, x) = f(y \mid x) \prod_i f(x_i \mid x_{p(i)}), \quad y \mid x \sim N(a + b x, s^2)

    The target is the child of the attributes. Numbers have slopes, and each state of a category has an effect that is added. Given all
    attributes the target is normal around the prediction, or a mixture of two normal densities where
    errors are of two kinds. Missing attributes are averaged over, given those that are known.

    Parameters
    ----------
    data, target, potentials, weights : as in `naive_bayes`
        The families of the attributes; "auto" means "gaussian" for numbers. The target is linear Gaussian in any case.

    Returns
    -------
    Network
        The attributes, in the table's order, form a tree of numbers and another of categories, see `chow_liu`. Each category
        that has a say has a hidden node for its effect. The target comes last.

    Notes
    -----
    Slopes and effects are shrunk by a ridge, whose strength leaves single rows out best; where it clearly leaves rows out better, small ones
    are shrunk more than large ones. The variance is that of rows left out, too. Missing cells are filled with what the other
    attributes lead to expect while the regression is learned. A weighted row is left out as a whole.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x, c = rng.normal(size=200), rng.choice(["a", "b"], 200)
    >>> net = regression({"x": x, "c": c, "y": 2 * x + 3 * (c == "b") + 0.1 * rng.normal(size=200)}, "y")
    >>> known, partly = net.posterior("y", {"x": 1.0, "c": "b"}), net.posterior("y", {"x": 1.0})
    >>> round(known.mean(), 1), round(partly.mean(), 1), round(partly.std() / known.std(), 0) > 10
    (5.0, 3.5, True)
    """
    return regression_network(regressors_of(read_for_regression(data, target, potentials, weights)))


def regression_network(regressors: Regressors) -> Network:
    """Return the network of the regression of all rows."""
    left_out = regressors.whole.residuals[None]
    noise = noise_of(left_out, np.ones_like(left_out) * np.mean(left_out**2), np.isfinite(left_out), regressors.weights)
    return linear_network(regressors, regressors.root[None], np.array([np.mean(left_out**2)]), noise)
