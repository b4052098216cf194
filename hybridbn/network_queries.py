"""The questions that a network answers, as methods; the work is done in `hybridbn.inference`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from hybridbn.inference.explain import Explanation
    from hybridbn.inference.posterior import Posterior
    from hybridbn.network import Network

__all__ = ["Queries"]


class Queries:
    """What can be asked of a network; a mixin of `Network`.

    Evidence is a mapping (one case) or a table (a case a row: DataFrame, `Table`, mapping of columns made a Table). A
    value is a state or a number, an `Interval`, a set of states, a likelihood (mapping of states to numbers, or a function
    of a continuous variable), or None and NaN for unknown.

    Options shared by all: `tolerance`, the wanted error of probabilities where quadrature is needed (closed forms are
    exact up to rounding); `max_bytes`, the largest table that elimination may make before `TooWide` is raised.
    """

    def posterior(
        self,
        target: str | Sequence[str],
        evidence: Any = None,
        *,
        tolerance: float = 1e-9,
        impossible: str = "raise",
        max_bytes: float = 2.0 * 2**30,
    ) -> Any:
        """Return the posterior of one variable, or the joint posterior of several.

        Parameters
        ----------
        target : name, or sequence of names for a joint posterior
        evidence : mapping or table, optional
        impossible : {"raise", "nan"}
            Rows whose evidence has probability zero raise `ImpossibleEvidence`, or get NaN.

        Examples
        --------
        >>> import hybridbn as hb
        >>> sick = hb.Discrete("sick", states=("no", "yes"))
        >>> fever = hb.Continuous("fever")
        >>> net = hb.Network([
        ...     hb.Multinomial(sick, table=[0.9, 0.1]),
        ...     hb.LinearGaussian(fever, parents=(sick,), intercept=[36.8, 38.5], variance=[0.1, 0.5]),
        ... ])
        >>> net.posterior("sick", {"fever": 38.0})
        <posterior of 'sick': 'no': 0.01893, 'yes': 0.9811>
        >>> round(net.posterior("sick", {"fever": hb.Interval(37.5)})["yes"], 4)
        0.884
        >>> import pandas as pd
        >>> net.posterior("sick", pd.DataFrame({"fever": [36.5, None, 39.0]}))["yes"].round(3)
        array([0.001, 0.1  , 1.   ])
        """
        from hybridbn.inference.joint import joint_posterior
        from hybridbn.inference.queries import Options, posterior

        options = Options(tolerance, impossible, max_bytes)
        if isinstance(target, str):
            return posterior(self._network, target, evidence, options)
        return joint_posterior(self._network, target, evidence, options)

    def posteriors(
        self,
        evidence: Any = None,
        targets: Sequence[str] | None = None,
        *,
        tolerance: float = 1e-9,
        impossible: str = "raise",
        max_bytes: float = 2.0 * 2**30,
    ) -> dict[str, Posterior]:
        """Return the posteriors of several variables in one pass; of all that are not observed in every row by default."""
        from hybridbn.inference.queries import Options, posteriors

        return posteriors(self._network, evidence, targets, Options(tolerance, impossible, max_bytes))

    def log_evidence(self, evidence: Any = None, *, tolerance: float = 1e-9, max_bytes: float = 2.0 * 2**30) -> Any:
        """Return the logarithm of the probability (density) of the evidence; -inf where it is impossible.

        Examples
        --------
        >>> import hybridbn as hb
        >>> net = hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)])
        >>> round(net.log_evidence({"x": hb.Interval(0, 1)}), 6), net.log_evidence({})
        (-1.074862, 0.0)
        """
        from hybridbn.inference.queries import Options, log_evidence

        return log_evidence(self._network, evidence, Options(tolerance, "nan", max_bytes))

    def log_density(self, table: Any, *, tolerance: float = 1e-9, max_bytes: float = 2.0 * 2**30) -> Any:
        """Return the log density of every row, missing cells marginalized."""
        return self.log_evidence(table, tolerance=tolerance, max_bytes=max_bytes)

    def most_probable(
        self,
        evidence: Any = None,
        names: Sequence[str] | None = None,
        *,
        tolerance: float = 1e-9,
        max_bytes: float = 2.0 * 2**30,
    ) -> Any:
        """Return the most probable values of all hidden variables together, or of some with the others summed out.

        A dict for a mapping of evidence, for a table the same kind of frame (pandas, polars, arrow, `Table`). Exact for discrete and linear Gaussian networks; where other
        continuous variables are hidden it is a search around the posterior's mass.

        Examples
        --------
        >>> import hybridbn as hb
        >>> a, b = hb.Discrete("a", states=(0, 1)), hb.Discrete("b", states=(0, 1))
        >>> net = hb.Network([
        ...     hb.Multinomial(a, table=[0.6, 0.4]),
        ...     hb.Multinomial(b, parents=(a,), table=[[0.5, 0.5], [0.1, 0.9]]),
        ... ])
        >>> net.most_probable(), net.most_probable(names=["a"])
        ({'a': 1, 'b': 1}, {'a': 0})
        """
        from hybridbn.inference.mode import most_probable
        from hybridbn.inference.queries import Options

        return most_probable(self._network, evidence, names, Options(tolerance, "raise", max_bytes))

    def sample(
        self,
        n: int = 1,
        random_state: Any = None,
        evidence: Any = None,
        *,
        tolerance: float = 1e-9,
        max_bytes: float = 2.0 * 2**30,
    ) -> Any:
        """Draw rows from the network, exactly conditional on the evidence.

        `n` rows for a mapping of evidence, as a DataFrame; `n` for each row of a table, as the same kind of frame. Row by row the random numbers are its own, so
        the first rows of a larger sample are the smaller sample.
        """
        from hybridbn.inference.queries import Options
        from hybridbn.inference.sampling import sample

        return sample(self._network, n, random_state, evidence, Options(tolerance, "raise", max_bytes))

    def explain(self, target: str, evidence: Mapping[str, Any], state: Any = None) -> Explanation:
        """Return what each finding says about a state (the most probable one by default): weights of evidence.

        Examples
        --------
        >>> import hybridbn as hb
        >>> sick = hb.Discrete("sick", states=("no", "yes"))
        >>> cough = hb.Discrete("cough", states=("no", "yes"))
        >>> net = hb.Network([
        ...     hb.Multinomial(sick, table=[0.9, 0.1]),
        ...     hb.Multinomial(cough, parents=(sick,), table=[[0.8, 0.2], [0.1, 0.9]]),
        ... ])
        >>> print(net.explain("sick", {"cough": "yes"}, state="yes"))
        log-odds of sick = 'yes' against the rest
          without evidence     -2.1972
          cough                +1.5041
          in all               -0.6931   probability 0.3333
        """
        from hybridbn.inference.explain import explain

        return explain(self._network, target, evidence, state)

    def plot(self, evidence: Mapping[str, Any] | None = None, ax: Any = None, *, size: float = 1.0) -> Any:
        """Draw the graph with belief bars and density curves in its nodes, observed values marked; returns the axes."""
        from hybridbn.inference.plots import plot_network

        return plot_network(self._network, evidence, ax, size)

    @property
    def _network(self) -> Network:
        return cast("Network", self)
