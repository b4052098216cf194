"""Learning potentials from (weighted, incomplete) columns: one fitter a family, sufficient statistics first.

A fitter is imported when it is first asked for, so that asking for one does not load them all.
"""

from __future__ import annotations

from typing import Any

from hybridbn.fitting.base import Fitter, Observed, Statistics, observed
from hybridbn.registry import find_attribute

_HOMES = {
    "Dirichlet": "multinomial",
    "GaussianFitter": "gaussian",
    "KernelFitter": "kernel",
    "MEstimate": "multinomial",
    "MTEFitter": "mte",
    "MaximumLikelihood": "multinomial",
    "MultinomialFitter": "multinomial",
    "Role": "fitter_choice",
    "SoftmaxFitter": "softmax",
    "equal_frequency": "discretize",
    "equal_width": "discretize",
    "fit": "hybridbn.estimation.fit",
    "fitter_of": "fitter_choice",
    "joint_counts": "counting",
    "mdl": "discretize",
    "pair_counts": "counting",
    "roles": "fitter_choice",
    "single_counts": "counting",
}

__all__ = ["Fitter", "Observed", "Statistics", "observed", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    return find_attribute(__name__, _HOMES, Fitter.fitters, name)
