"""What happened while a model was learned from holes, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hybridbn.variables import Values

__all__ = ["History", "Step"]


class Step(NamedTuple):
    """One model: its number from 0, its error and its log-likelihood, both on the original data."""

    iteration: int
    srmse: float
    log_likelihood: float


@dataclass(frozen=True)
class History:
    """The models of a run in order; a sequence of `Step` whose columns are arrays.

    Examples
    --------
    >>> history = History((Step(0, 2.5, -40.0), Step(1, 2.0, -38.0), Step(2, 2.25, -37.0)))
    >>> history.srmse, history.best, history[-1].log_likelihood
    (array([2.5 , 2.  , 2.25]), 1, -37.0)
    """

    steps: tuple[Step, ...]

    @property
    def srmse(self) -> Values:
        """The error of each model on the rows with known response."""
        return np.array([step.srmse for step in self.steps])

    @property
    def log_likelihood(self) -> Values:
        """The log-likelihood of the observed cells under each model."""
        return np.array([step.log_likelihood for step in self.steps])

    @property
    def best(self) -> int:
        """The number of the model with the smallest error, the first of several."""
        return int(np.argmin(self.srmse))

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, key: Any) -> Any:
        """Return a step by number, or a column by name."""
        if isinstance(key, str):
            return np.array([getattr(step, key) for step in self.steps])
        return self.steps[key]

    def to_pandas(self) -> Any:
        """Return the steps as a DataFrame."""
        import pandas

        return pandas.DataFrame(list(self.steps), columns=list(Step._fields)).set_index("iteration")

    def plot(self, ax: Any = None) -> Any:
        """Draw srmse (left axis) and log-likelihood (right axis) by iteration with matplotlib; returns the left axes."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(layout="constrained")[1]
        iterations = np.arange(len(self))
        ax.plot(iterations, self.srmse, "o-", color="C0")
        ax.plot([self.best], [self.srmse[self.best]], "o", color="C0", markersize=11, fillstyle="none")
        ax.set_xlabel("iteration")
        ax.set_xticks(iterations)
        ax.set_ylabel("srmse", color="C0")
        other = ax.twinx()
        other.plot(iterations, self.log_likelihood, "s--", color="C1")
        other.set_ylabel("log-likelihood of the observed cells", color="C1")
        return ax
