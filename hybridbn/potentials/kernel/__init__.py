"""Conditional kernel densities: the family, and the fast evaluation of sums of kernels at many points."""

from __future__ import annotations

from hybridbn.potentials.kernel.potential import Kernel

__all__ = ["Kernel"]
