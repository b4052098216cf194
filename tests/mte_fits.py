"""What the tests of learned mixtures of truncated exponentials have in common."""

import math

import numpy as np

import hybridbn as hb
from hybridbn.fitting import MTEFitter


def fitted(values, weights=None, domain=(-math.inf, math.inf), fitter=None):
    variable = hb.Continuous("x", domain)
    table = hb.Table({"x": values}, weights=weights, variables=[variable])
    return (fitter or MTEFitter()).fit(table, variable)


def conditional(table, child, *parents, fitter=None):
    return (fitter or MTEFitter()).fit(table, table.variable(child), tuple(table.variable(p) for p in parents))


def divergence(truth, density, points):
    """The Kullback-Leibler divergence on equally spaced points, from the truth's and the learned density there."""
    p = truth(points)
    return float(np.sum(p * np.log(p / density(points))) * (points[1] - points[0]))
