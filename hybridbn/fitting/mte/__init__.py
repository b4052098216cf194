"""Learning mixtures of truncated exponentials: splines first, a few exponential pieces after."""

from hybridbn.fitting.mte.fitter import MTEFitter, MTEStatistics

__all__ = ["MTEFitter", "MTEStatistics"]
