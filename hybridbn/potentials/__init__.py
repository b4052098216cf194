"""Families of potentials, one file each.

A family is imported when it is first asked for, so that asking for one does not load them all.
"""

from __future__ import annotations

from typing import Any

from hybridbn.potentials.base import Potential
from hybridbn.registry import find_attribute

__all__ = [
    "MTE",
    "Boxes",
    "Case",
    "Cases",
    "Density",
    "Kernel",
    "LinearGaussian",
    "Multinomial",
    "Piece",
    "PointMass",
    "Potential",
    "Softmax",
]

_HOMES = {
    "MTE": "mte",
    "Boxes": "boxes",
    "Case": "cases",
    "Cases": "cases",
    "Density": "density",
    "Kernel": "kernel",
    "LinearGaussian": "gaussian",
    "Multinomial": "multinomial",
    "Piece": "mte",
    "PointMass": "point_mass",
    "Softmax": "softmax",
}


def __getattr__(name: str) -> Any:
    return find_attribute(__name__, _HOMES, Potential.families, name)
