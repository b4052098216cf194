"""The leaves of grown trees as states of a hidden variable: their parts of the columns' ranges, and their names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridbn.potentials import Boxes
from hybridbn.variables import Discrete, Variable

__all__ = ["describe_interval", "find_interval", "make_boxes", "make_distinct"]


def make_boxes(
    leaf: Discrete,
    columns: Sequence[tuple[Variable, Sequence[float], NDArray[np.bool_]]],
    overlap: int | None = None,
) -> Boxes:
    """Return the leaves of trees as boxes.

    Parameters
    ----------
    leaf : Discrete
        Its states are the leaves.
    columns : sequence of (variable, cuts, inside)
        The columns that are tested, the cuts between the intervals of numbers, and which states or intervals are in
        each leaf (leaves, states).
    overlap : int, optional
        The number of trees, where that is known.

    Examples
    --------
    >>> from hybridbn.variables import Continuous
    >>> leaf, x = Discrete("leaf", ("low", "high")), Continuous("x")
    >>> boxes = make_boxes(leaf, [(x, (1.0, 2.0), np.array([[True, False, False], [False, True, True]]))])
    >>> boxes.sides[0].tolist()
    [[-inf, 1.0], [1.0, inf]]
    """
    sides: list[NDArray[Any]] = []
    for variable, cuts, inside in columns:
        edges = np.array((-math.inf, *cuts, math.inf))
        last = inside.shape[1] - inside[:, ::-1].argmax(axis=1)
        is_state = isinstance(variable, Discrete)
        sides.append(inside if is_state else np.stack([edges[inside.argmax(axis=1)], edges[last]], axis=1))
    return Boxes(leaf, [variable for variable, _, _ in columns], sides, overlap=overlap)


def find_interval(cuts: Sequence[float], codes: NDArray[np.intp]) -> tuple[float, float]:
    """Return the interval of numbers that some neighboring codes stand for."""
    edges = (-math.inf, *cuts, math.inf)
    return float(edges[codes[0]]), float(edges[codes[-1] + 1])


def describe_interval(low: float, high: float, digits: int) -> str:
    """Return an interval as text.

    Examples
    --------
    >>> describe_interval(-math.inf, 2.0, 4), describe_interval(1.0, math.inf, 4), describe_interval(1.0, 2.0, 4)
    ('< 2', '>= 1', '1 to 2')
    """
    if low == -math.inf:
        return f"< {high:.{digits}g}"
    return f">= {low:.{digits}g}" if high == math.inf else f"{low:.{digits}g} to {high:.{digits}g}"


def make_distinct(labels: Sequence[str]) -> tuple[str, ...]:
    """Return names of the leaves, all different.

    Examples
    --------
    >>> make_distinct(["x < 1", "x < 1", "x >= 1"])
    ('x < 1 (0)', 'x < 1 (1)', 'x >= 1')
    """
    counts = Counter(labels)
    return tuple(label if counts[label] == 1 else f"{label} ({number})" for number, label in enumerate(labels))
