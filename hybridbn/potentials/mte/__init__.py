"""Mixtures of truncated exponentials (MTE): the family, its algebra, and the conversion of other densities."""

from __future__ import annotations

from hybridbn.potentials.mte.pieces import Piece
from hybridbn.potentials.mte.potential import MTE

__all__ = ["MTE", "Piece"]
