"""Families of potentials, one file each."""

from hybridbn.potentials.base import Potential

__all__ = ["Potential"]
