"""Make a conditional density of pieces whose coefficients were rounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.mte import MTE, Piece
from hybridbn.potentials.mte.exponentials import minimum_on_box
from hybridbn.potentials.mte.pieces import compiled
from hybridbn.variables import Variable

__all__ = ["repaired"]

_DEEPEST = 0.1  # of the peak; three digits leave less than a fifth of that
_KEPT = 1e-6  # masses this near to 1 are kept as they are


def repaired(
    child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece], normalize: bool
) -> tuple[MTE, list[str]]:
    """Return pieces as an MTE of mass 1, and what had to be done for it.

    Where the child has no mass at all it becomes uniform. Pieces that are negative somewhere are lifted by a constant until they are not; then each configuration of the parents
    is divided by its mass.

    Examples
    --------
    >>> from hybridbn.variables import Continuous
    >>> x = Continuous("x", domain=(0, 1))
    >>> repaired(x, (), [Piece({"x": (0, 1)}, constant=0.998)], True)
    (f(x) =
      1  if everywhere, ["the mass of 'x' was 0.998 and was made 1"])
    """
    told: list[str] = []
    if not normalize:
        return MTE(child, parents=parents, pieces=pieces, normalize=None), told
    empty = _without_mass(child, pieces)
    if empty:
        told.append(f"{child.name!r} had no mass at all for some values of its parents; a uniform one was taken there")
        pieces = [replace(piece, constant=1.0, terms=()) if p in empty else piece for p, piece in enumerate(pieces)]
    try:
        found = MTE(child, parents=parents, pieces=pieces, normalize=None)
    except NetworkError as error:
        if "is negative" not in str(error):
            raise
        pieces, depth = _lifted(child, parents, pieces)
        told.append(
            f"the density of {child.name!r} was negative in places (down to {depth:.3g} of its peak) and was lifted"
        )
        found = MTE(child, parents=parents, pieces=pieces, normalize=None)
    if found.mass_error <= _KEPT:
        return found, told
    try:
        normal = MTE(child, parents=parents, pieces=pieces, normalize=True)
    except NetworkError as error:
        raise NetworkError(f"{error}; normalize=False reads the network with the densities as given") from None
    off = f"off by up to {found.mass_error:.3g}" if parents else f"{found.integral():.4g}"
    told.append(f"the mass of {child.name!r} was {off} and was made 1")
    # From its terms, so that the error that it tells is its own, not that of the file.
    return MTE._of(normal.variables, normal._blocks), told


def _without_mass(child: Variable, pieces: Sequence[Piece]) -> set[int]:
    """Return the pieces of the configurations of the parents for which all pieces are zero."""
    groups: dict[object, list[int]] = {}
    alive = set()
    for p, piece in enumerate(pieces):
        parts = [(n, v) for part in (piece.given, piece.box) for n, v in part.items() if n != child.name]
        key = tuple(sorted(parts, key=lambda item: item[0]))
        groups.setdefault(key, []).append(p)
        # By its digits, as a coefficient may be too small for a float.
        sizes = (str(size).lower().partition("e")[0] for size in (piece.constant, *(term[0] for term in piece.terms)))
        if any(size.strip("+-0.") for size in sizes):
            alive.add(key)
    return {p for key, members in groups.items() if key not in alive for p in members}


def _lifted(child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece]) -> tuple[list[Piece], float]:
    """Add a constant to each piece that is negative somewhere; return the pieces and how far they were, relatively."""
    terms = compiled((*parents, child), pieces, child.name)
    result, worst, peak = list(pieces), 0.0, 0.0
    for p, piece in enumerate(pieces):
        t = slice(terms.starts[p], terms.starts[p + 1])
        if not (terms.coefficient[t] < 0).any():
            peak = max(peak, float(terms.coefficient[t].max(initial=0.0)))
            continue
        least, _, most = minimum_on_box(terms.coefficient[t], terms.rates[t], terms.low[p], terms.high[p])
        peak = max(peak, most)
        if least < 0:
            worst = max(worst, -least)
            # A hair more than needed, so that rounding leaves no negative value; as a term, to keep what is given exact.
            lift = -least * (1 + 1e-9) + 1e-15 * float(np.abs(terms.coefficient[t]).sum())
            result[p] = replace(piece, terms=(*piece.terms, (lift, {})))
    if not worst <= _DEEPEST * peak:
        raise NetworkError(
            f"{child.name!r} is negative: down to {-worst:.4g}, and its peak is {peak:.4g}; rounding does not explain that"
        )
    return result, worst / peak
