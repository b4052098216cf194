"""Terms as plain lists and float arrays, for files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridbn.errors import NetworkError
from hybridbn.potentials.mte.terms import ANY, Terms
from hybridbn.variables import Values

__all__ = ["from_dict", "to_dict"]

_KEYS = {
    "blocks", "codes", "counts", "limits", "low", "high", "coefficient", "magnitude", "rates", "mass_error", "max_error",
}  # fmt: skip


def to_dict(blocks: Sequence[Terms], mass_error: float | None, max_error: float | None) -> dict[str, Any]:
    """Put the arrays of all blocks one after the other."""

    def joined(name: str) -> Values:
        return np.concatenate([getattr(block, name) for block in blocks])

    return {
        "blocks": [len(block.codes) for block in blocks],
        "codes": joined("codes").tolist(),
        "counts": [int(n) for block in blocks for n in np.diff(block.starts)],
        "limits": np.array([block.limits for block in blocks], dtype=float).reshape(len(blocks), -1),
        **{name: joined(name) for name in ("low", "high", "coefficient", "magnitude", "rates")},
        "mass_error": mass_error,
        "max_error": max_error,
    }


def from_dict(
    state: Mapping[str, Any], sizes: tuple[int, ...], continuous: int, owner: str
) -> tuple[list[Terms], tuple[float | None, float | None]]:
    """Make blocks again, refusing what they could not have been."""
    if set(state) != _KEYS:
        raise NetworkError(f"{owner!r}: an MTE is saved as {sorted(_KEYS)}, not {sorted(state)}")
    try:
        numbers = [int(n) for n in state["blocks"]]
        counts = np.array([int(n) for n in state["counts"]], dtype=np.intp)
        pieces, terms = sum(numbers), int(counts.sum())
        codes = np.asarray(state["codes"], dtype=np.intp).reshape(pieces, len(sizes))
        limits = np.asarray(state["limits"], dtype=float).reshape(len(numbers), continuous)
        low, high = (np.asarray(state[name], dtype=float).reshape(pieces, continuous) for name in ("low", "high"))
        coefficient, magnitude = (
            np.asarray(state[n], dtype=float).reshape(terms) for n in ("coefficient", "magnitude")
        )
        rates = np.asarray(state["rates"], dtype=float).reshape(terms, continuous)
        errors = [None if state[name] is None else float(state[name]) for name in ("mass_error", "max_error")]
    except (TypeError, ValueError, OverflowError) as error:
        raise NetworkError(f"{owner!r}: the saved MTE is damaged: {error}") from None
    wrong = (
        len(counts) != pieces
        or not numbers
        or any(n < 0 for n in numbers)
        or bool((counts < 0).any() or (codes < ANY).any() or (codes >= np.array(sizes, dtype=np.intp)).any())
        or not (low < high).all()
        or np.isnan(limits).any()
        or not all(np.isfinite(array).all() for array in (coefficient, magnitude, rates))
    )
    blocks = []
    if not wrong:
        pieces_from = np.concatenate([[0], np.cumsum(numbers)])
        terms_from = np.concatenate([[0], np.cumsum(counts)])[pieces_from]
        for k in range(len(numbers)):
            p, t = slice(pieces_from[k], pieces_from[k + 1]), slice(terms_from[k], terms_from[k + 1])
            blocks.append(
                Terms(
                    sizes, tuple(map(float, limits[k])), codes[p], low[p], high[p],
                    np.repeat(np.arange(numbers[k]), counts[p]), coefficient[t], magnitude[t], rates[t],
                )
            )  # fmt: skip
        wrong = any(not np.isfinite(block.anchors).all() for block in blocks)
    if wrong:
        raise NetworkError(f"{owner!r}: the saved MTE is damaged: its arrays don't belong together")
    return blocks, (errors[0], errors[1])
