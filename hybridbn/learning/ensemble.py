"""`Ensemble`: networks whose votes or log probabilities are added up, with the posteriors of a single network.

Evidence is read once for all networks that share their variables, and networks may be made when they are first used. A
weighted sum of naive Bayes networks of discrete variables is one network. `stack` weighs a few networks of different
kinds by how well they predict held-out rows together.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, ClassVar, Literal, Self, TypeAlias, Unpack, overload

import numpy as np
import scipy
from numpy.typing import NDArray

from hybridbn.errors import NetworkError, TableError
from hybridbn.fitting.base import Potentials
from hybridbn.inference.engines.naive_bayes import NaiveBayesTables, mixture_of, naive_bayes_of, why_not_naive_bayes
from hybridbn.inference.evidence import EvidenceReader
from hybridbn.inference.explanations import Explanation
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.inference.queries import impossible_evidence, posterior
from hybridbn.jobs import run_in_threads
from hybridbn.network import Network
from hybridbn.options import ColumnKeywords, OptionKeywords, Options, PrecisionKeywords, check_choice, resolve_options
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import freeze, take_logs
from hybridbn.structures.automatic import compare_candidates
from hybridbn.tables import Table, read_rows
from hybridbn.variables import Codes, Discrete, Values, Variable, code_state

LazyNetwork: TypeAlias = "Network | Callable[[], Network]"

_Codes: TypeAlias = dict[str, NDArray[Any]]
_TITLES = {"m1": "AdaBoost.M1", "real": "Real AdaBoost", "pool": "a logarithmic pool"}
_LEAST_PROBABILITY = 1e-300
"""Probabilities of zero count as this where logarithms are added up."""
_LEAST_POOLED = 1e-5
"""In a pool, probabilities below this share of the greatest one count as this share, so that no member that is sure of
itself, and may be wrong, overrules the others.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Ensemble:
    r"""Networks that vote on the class, as `hybridbn.boost` and `hybridbn.stack` learn them.

    The score of a class is the sum of the votes for it ("m1"), or of the members' votes times their log probabilities
    of it ("real" and "pool"); the log-odds of two classes are the difference of their scores, so that

    .. math:: P(c \mid v) = e^{s_c(v)} / \sum_k e^{s_k(v)}

    Parameters
    ----------
    networks : sequence of Network
        Each has the target, with the same states. Those that `hybridbn.boost` learned may be made when they are first
        used.
    votes : sequence of float
        One for each network; positive.
    target : str
    algorithm : {"m1", "real", "pool"}
        Which kind of votes these are: of AdaBoost.M1, of Real AdaBoost, which is for two classes, or the exponents of a
        weighted product of the members' probabilities (a logarithmic opinion pool).
    errors : sequence of float, optional
        The weighted errors of the networks in their rounds.
    restarts : int
        The number of restarts from a bootstrap sample.

    Notes
    -----
    Missing cells are marginalized in each member. A member for which a row is impossible abstains in it. In a pool no
    class is less probable for a member than 1e-5 times its most probable one. With two
    classes these are the probabilities of additive logistic regression (Friedman, Hastie & Tibshirani, 2000); after
    many rounds they are overconfident: nearer to 0 and 1 than the share of errors warrants, as is known of AdaBoost.

    Examples
    --------
    >>> import hybridbn as hb
    >>> c, x = hb.Discrete("c", ("no", "yes")), hb.Discrete("x", (0, 1))
    >>> likelihood = hb.Multinomial(x, (c,), table=[[0.9, 0.1], [0.2, 0.8]])
    >>> first = hb.Network([hb.Multinomial(c, table=[0.5, 0.5]), likelihood])
    >>> second = hb.Network([hb.Multinomial(c, table=[0.7, 0.3]), hb.Multinomial(x, table=[0.5, 0.5])])
    >>> ensemble = hb.Ensemble([first, second], [1.5, 0.5], "c")
    >>> ensemble
    <Ensemble of 2 networks for 'c': AdaBoost.M1>
    >>> ensemble.predict({"x": 1}), ensemble.posterior({"x": 1})
    ('yes', <posterior of 'c': 'no': 0.2689, 'yes': 0.7311>)
    """

    networks: Sequence[Network]
    votes: Values
    target: str
    algorithm: Literal["m1", "real", "pool"] = "m1"
    errors: Values | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        # the networks of `boost` need no checks, which would make them all
        learned = isinstance(self.networks, LazyNetworks)
        if not learned:
            object.__setattr__(self, "networks", tuple(self.networks))
        object.__setattr__(self, "votes", freeze(np.asarray(self.votes, dtype=np.float64)))
        if self.errors is not None:
            object.__setattr__(self, "errors", freeze(np.asarray(self.errors, dtype=np.float64)))
        if not self.networks or not (learned or all(isinstance(network, Network) for network in self.networks)):
            raise NetworkError("an ensemble needs at least one network, and nothing but networks")
        check_choice(self.algorithm, "algorithm", tuple(_TITLES), NetworkError)
        for what, numbers in (("votes", self.votes), ("errors", self.errors)):
            if numbers is not None and numbers.shape != (len(self.networks),):
                raise NetworkError(
                    f"there are {numbers.size} {what} for {len(self.networks)} networks; give one for each"
                )
        if not (np.isfinite(self.votes) & (self.votes > 0)).all():
            raise NetworkError(f"votes must be positive numbers, not {self.votes!r:.200}")
        variable = self.variable
        for number, network in enumerate(() if learned else self.networks):
            if self.target not in network or network.variable(self.target) != variable:
                raise NetworkError(
                    f"network {number} of the ensemble does not have {self.target!r} as the first one has it"
                )
        if self.algorithm == "real" and len(variable) != 2:
            raise NetworkError(f"Real AdaBoost is for two classes; {self.target!r} has {len(variable)}")

    @property
    def variable(self) -> Discrete:
        """The target's variable."""
        variable = self.networks[0].variable(self.target)
        if not isinstance(variable, Discrete):
            raise NetworkError(f"{self.target!r} is continuous; an ensemble votes on a discrete target")
        return variable

    def __len__(self) -> int:
        return len(self.networks)

    def __getitem__(self, key: slice) -> Self:
        """Return the ensemble of some of the rounds: ``ensemble[:10]``."""
        if not isinstance(key, slice):
            raise TableError(
                f"give a slice of rounds, such as ensemble[:10], not {key!r}; ensemble.networks has the members"
            )
        errors = None if self.errors is None else self.errors[key]
        return replace(self, networks=self.networks[key], votes=self.votes[key], errors=errors)

    def _repr_html_(self) -> str:
        from hybridbn.pictures.html import show_ensemble

        return show_ensemble(self)

    def __repr__(self) -> str:
        name = _TITLES[self.algorithm]
        count = f"{len(self)} network{'s' * (len(self) > 1)}"
        restarts = f", {self.restarts} restart{'s' * (self.restarts > 1)}" if self.restarts else ""
        return f"<Ensemble of {count} for {self.target!r}: {name}{restarts}>"

    # --- asking -----------------------------------------------------------------------------------------------------

    def scores(
        self,
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Values:
        """Return the scores of the classes (rows, classes), or (classes,) for a mapping; differences are log-odds."""
        chosen = resolve_options("scores", options, keywords, impossible="raise")
        last = deque(self._add_scores(evidence, chosen), maxlen=1).pop()
        return np.asarray(last[:, 0] if self._is_single(evidence) else last.T)

    def posterior(
        self,
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> DiscretePosterior:
        """Return the posterior of the class given evidence, a mapping or a table, as `Network.posterior` does.

        With `n_jobs`, members are asked in so many threads at the same time, with the same result.
        """
        chosen = resolve_options("posterior", options, keywords)
        return self._posterior(deque(self._add_scores(evidence, chosen), maxlen=1).pop(), evidence)

    def staged_posterior(
        self,
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[OptionKeywords],
    ) -> Iterator[DiscretePosterior]:
        """Yield the posteriors after one network, after two, and so on."""
        for total in self._add_scores(evidence, resolve_options("staged_posterior", options, keywords)):
            yield self._posterior(total.copy(), evidence)

    def classify(
        self,
        evidence: Any = None,
        *,
        options: Options | None = None,
        **keywords: Unpack[PrecisionKeywords],
    ) -> Any:
        """Return the class with the highest score: a state for a mapping, an array for a table."""
        chosen = resolve_options("classify", options, keywords, impossible="raise")
        return self.posterior(evidence, options=chosen).mode()

    predict = classify

    def _add_scores(self, evidence: Any, options: Options) -> Iterator[Values]:
        """Yield the scores (classes, rows) after each network, always in the same array."""
        real, shared = self.algorithm != "m1", frozenset[str]()
        if self.algorithm == "pool":
            shared = frozenset(name for network in self.networks for name in network)
        scorer = ClassScorer(self.target, evidence, replace(options, n_jobs=None), shared)
        total: Values | None = None
        possible: Any = False
        answers = run_in_threads(scorer.log_joint, self.networks, options.jobs)
        for network, log_joint, vote in zip(self.networks, answers, self.votes, strict=True):
            possible = possible | ~np.isnan(log_joint[0])
            # a network of the class alone is no opinion, and may rule out classes
            least = _LEAST_POOLED if self.algorithm == "pool" and len(network) > 1 else _LEAST_PROBABILITY
            added = vote_scores(log_joint, float(vote), real, least)
            total = added if total is None else np.add(total, added, out=total)
            yield total if possible.all() else np.where(possible, total, np.nan)
        if options.impossible != "nan" and not possible.all():
            raise impossible_evidence(np.flatnonzero(~possible).tolist(), self._is_single(evidence))

    def _posterior(self, total: Values, evidence: Any) -> DiscretePosterior:
        shares, error = scipy.special.softmax(total, axis=0), np.full(total.shape[1], 1e-12)
        return DiscretePosterior(self.variable, shares, self._is_single(evidence), error, None)

    @staticmethod
    def _is_single(evidence: Any) -> bool:
        return evidence is None or isinstance(evidence, Mapping)

    # --- one network ------------------------------------------------------------------------------------------------

    def collapse(self) -> Network:
        r"""Return one naive Bayes network that replaces all.

        Exact for "real": in every row without missing cells its log-odds are those of the ensemble, which are
        linear in the members' (eq. 7 of Ting and Zheng):

        .. math:: \sum_t \alpha_t \log \frac{P_t(c_1)}{P_t(c_0)}
            + \sum_i \sum_t \alpha_t \log \frac{P_t(v_i \mid c_1)}{P_t(v_i \mid c_0)}

        For "m1", where votes count and not probabilities, it is the nearest of this form by the Taylor approximation of
        Ridgeway et al. (1998): each vote for a class is replaced by the vote times its probability, and that by the
        linear term in the log probabilities. `disagreement` measures how often it decides otherwise.

        Raises
        ------
        NetworkError
            If a member is not naive Bayes over discrete variables.

        Notes
        -----
        With missing cells no single network has the same posteriors: the ensemble marginalizes a cell in each of its
        members, a network only once, and sums don't commute with the product. The probability of the evidence has no
        meaning: a factor of an attribute that is the same for all classes is free, and is chosen such that the
        attributes' states are distributed as in the members.

        Examples
        --------
        >>> import hybridbn as hb
        >>> data = {"x": [0, 0, 1, 1, 1, 0], "z": [0, 1, 1, 0, 1, 1], "c": ["a", "a", "b", "b", "b", "b"]}
        >>> ensemble = hb.boost(hb.Table(data, discrete=["x", "z"]), "c", rounds=5, algorithm="real")
        >>> one, case = ensemble.collapse(), {"x": 1, "z": 0}
        >>> abs(one.posterior("c", case)["a"] - ensemble.posterior(case)["a"]) < 1e-12
        True
        """
        tables = self.sum_tables()
        distributions = {}
        for name, variable in tables.variables.items():
            own_tables = [network.potential(name).table for network in self.networks if name in network]  # type: ignore[attr-defined]
            sizes_agree = all(table.shape[-1] == len(variable) for table in own_tables)
            distributions[name] = (
                np.mean([table.reshape(-1, table.shape[-1]).mean(axis=0) for table in own_tables], axis=0)
                if sizes_agree
                else np.full(len(variable), 1 / len(variable))
            )
        return network_of_sum(tables, distributions)

    def sum_tables(self) -> NaiveBayesTables:
        """Return the weighted sum of the members' log tables, from which `collapse` makes a network."""
        weighted_tables = []
        share = 1 / len(self.variable) if self.algorithm == "m1" else 1.0
        for number, (network, vote) in enumerate(zip(self.networks, self.votes, strict=True)):
            tables = naive_bayes_of(network, self.target)
            if tables is None:
                raise NetworkError(
                    f"only naive Bayes networks of discrete variables collapse into one, and in network {number} of "
                    f"this ensemble {why_not_naive_bayes(network, self.target)}"
                )
            if not all(np.isfinite(table).all() for table in (tables.prior, *tables.logs.values())):
                raise NetworkError(
                    f"network {number} of the ensemble has a probability of zero, whose logarithm can't be added up; "
                    "boost with an estimate without zeros, such as MEstimate(2)"
                )
            weighted_tables.append((float(vote) * share, tables))
        return sum_tables(weighted_tables)

    def disagreement(self, network: Network, data: Any) -> float:
        """Return the weighted share of a table's rows for which a network decides otherwise than the ensemble.

        Examples
        --------
        >>> import hybridbn as hb
        >>> data = {"x": [0, 0, 1, 1, 1, 0], "z": [0, 1, 1, 0, 1, 1], "c": ["a", "a", "b", "b", "b", "b"]}
        >>> table = hb.Table(data, discrete=["x", "z"])
        >>> ensemble = hb.boost(table, "c", rounds=5)
        >>> ensemble.disagreement(ensemble.collapse(), table)
        0.0
        """
        table = read_rows(data)[0].sample(purpose="shares of other decisions")
        ensemble_posterior, network_posterior = self.posterior(table), network.posterior(self.target, table)
        if (
            not isinstance(network_posterior, DiscretePosterior)
            or network_posterior.states != ensemble_posterior.states
        ):
            raise NetworkError(f"the network does not have {self.target!r} with the states of the ensemble")
        differs = ensemble_posterior.probabilities.argmax(axis=1) != network_posterior.probabilities.argmax(axis=1)
        return float(np.average(differs, weights=table.weights))

    # --- explaining -------------------------------------------------------------------------------------------------

    def explain(self, evidence: Mapping[str, Any], state: Hashable = None) -> Explanation:
        """Return what each finding adds to the log-odds of a state (the most probable one by default) against the rest.

        A finding's weight is what it changes given those before it, so the weights always add up. For Real AdaBoost
        over naive Bayes the order does not matter: weights are sums over the members (eq. 2 of Elkan, 1997, and eq. 7
        of Ting and Zheng).

        Examples
        --------
        >>> import hybridbn as hb
        >>> data = {"x": [0, 0, 1, 1, 1, 0], "z": [0, 1, 1, 0, 1, 1], "c": ["a", "a", "b", "b", "b", "b"]}
        >>> ensemble = hb.boost(hb.Table(data, discrete=["x", "z"]), "c", rounds=5, algorithm="real")
        >>> found = ensemble.explain({"x": 1, "z": 0})
        >>> found.state, abs(found.prior + sum(found.weights.values()) - found.log_odds) < 1e-12
        ('b', True)
        """
        if not isinstance(evidence, Mapping):
            raise TableError(
                "explain() takes the evidence of one case as a mapping, in the order in which it is to be weighed"
            )
        names = list(evidence)
        steps = [self.scores({name: evidence[name] for name in names[:count]}) for count in range(len(names) + 1)]
        code = int(np.argmax(steps[-1])) if state is None else code_state(self.variable, state)
        odds = [float(step[code] - np.logaddexp.reduce(np.delete(step, code))) for step in steps]
        weights = {name: after - before for name, before, after in zip(names, odds[:-1], odds[1:], strict=True)}
        return Explanation(self.target, self.variable.states[code], odds[0], weights, odds[-1])

    def plot(self, evidence: Mapping[str, Any] | None = None, state: Hashable = None, ax: Any = None) -> Any:
        """Draw a nomogram: what each state of each attribute adds to the log-odds of a class; return matplotlib's axes.

        For two classes and naive Bayes of tables. Exact for "real"; for "m1" it shows the network that `collapse`
        makes, whose scale is that of the Taylor approximation. A case given as evidence is marked and added up.
        """
        from hybridbn.pictures import plot_nomogram

        return plot_nomogram(self, evidence, state, ax)

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to a ``.hbn`` file, exactly; `hybridbn.load` reads it again."""
        from hybridbn.exchange.hbn import save_ensemble

        save_ensemble(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an ensemble that `save` wrote."""
        from hybridbn.exchange.hbn import load

        loaded: Any = load(path)
        if not isinstance(loaded, cls):
            raise TableError(f"{os.fspath(path)!r} holds a network, not an ensemble; read it with hybridbn.load")
        return loaded


class ClassScorer:
    """Evidence from which several networks compute the log probabilities of the target's classes.

    Parameters
    ----------
    target : str
    evidence : mapping, table or None
        As in `Network.posterior`.
    options : Options, optional
        Rows that are impossible for a network never raise an error here.
    shared : frozenset of str
        Nodes of some of the networks, of which a case may tell the others.
    """

    def __init__(
        self, target: str, evidence: Any, options: Options | None = None, shared: frozenset[str] = frozenset()
    ) -> None:
        self.target = target
        self._evidence, self._shared = evidence, shared
        self.options: Options = replace(options or Options(), impossible="nan")
        self.single: bool = evidence is None or isinstance(evidence, Mapping)
        self._variables: dict[str, Variable] = {}
        self._table: Table | None = None
        self._absent: set[str] = set()
        self._lock = Lock()
        self._read: tuple[Mapping[str, Variable], tuple[_Codes, int] | None] | None = None

    def log_joint(self, network: Network) -> Values:
        """Return the log probabilities of the classes (classes, rows) up to a term that is the same for all classes.

        A row that is impossible for the network has NaN.
        """
        tables = naive_bayes_of(network, self.target) or mixture_of(network, self.target)
        with self._lock:
            codes = None if tables is None else self._read_codes(network, tables.variables)
        if tables is not None and codes is not None:
            log_joint = tables.scores(*codes)
            log_joint[:, (log_joint == -np.inf).all(axis=0)] = np.nan
            return log_joint
        with self._lock:
            evidence = self._evidence_for(network)
        answer = posterior(network, self.target, evidence, self.options)
        assert isinstance(answer, DiscretePosterior)
        table = answer.probabilities
        return np.atleast_2d(take_logs(table)).T

    def _evidence_for(self, network: Network) -> Any:
        if not self.single:
            return self._table_for(network)
        case = self._evidence or {}
        return {name: value for name, value in case.items() if name in network or name not in self._shared}

    def _table_for(self, network: Network) -> Table:
        """Return the evidence as a table of the network's variables, reusing the last one if these are the same."""
        wanted = {variable.name: variable for variable in network.variables}
        # nodes without a column, such as the leaf of a tree, may differ from network to network
        columns = {name: variable for name, variable in wanted.items() if name not in self._absent}
        if self._table is None or any(self._variables.get(name) != variable for name, variable in columns.items()):
            self._variables = {**self._variables, **columns}
            self._table = Table(self._evidence, variables=self._variables.values())
            self._absent |= set(self._variables) - set(self._table.names)
            self._variables = {name: self._variables[name] for name in self._table.names}
        return self._table

    def _read_codes(self, network: Network, attributes: Mapping[str, Variable]) -> tuple[_Codes, int] | None:
        """Read the evidence as codes and the number of rows; None for evidence other than values of the attributes."""
        if self._read is None or self._read[0] != attributes:
            evidence = self._evidence_for(network)
            findings = EvidenceReader(network, evidence, [self.target]).evidence()
            is_plain = all(finding.plain and name in attributes for name, finding in findings.findings.items())
            codes = {name: finding.values for name, finding in findings.findings.items()}
            self._read = attributes, (codes, findings.rows) if is_plain else None
        return self._read[1]


def vote_scores(log_joint: Values, vote: float, real: bool, least: float = _LEAST_PROBABILITY) -> Values:
    r"""Return the scores that a member adds to the classes (classes, rows).

    For M1 its vote for the most probable class, for Real AdaBoost its vote times the log joint probabilities (eq. 6 of
    Ting and Zheng), none of which is less than `least` relative to the greatest. A member for which a row is impossible
    abstains.

    Examples
    --------
    >>> vote_scores(np.log([[0.2, 0.7], [0.8, 0.3]]), 1.5, real=False)
    array([[0. , 1.5],
           [1.5, 0. ]])
    """
    abstains = np.isnan(log_joint[0])
    if real:
        relative = np.maximum(log_joint - log_joint.max(axis=0), np.log(least))
        return np.where(abstains, 0.0, vote * relative)
    votes: Values = np.zeros_like(log_joint)
    # argmax would return a NaN
    best = np.where(abstains, 0.0, log_joint).argmax(axis=0)
    votes[best, np.arange(log_joint.shape[-1])] = np.where(abstains, 0.0, vote)
    return votes


class LazyNetworks(Sequence[Network]):
    """A sequence of networks, each made at its first use, as making a hundred takes longer than a round of boosting.

    It equals any sequence of the same networks, and pickling makes all of them.

    Examples
    --------
    >>> import hybridbn as hb
    >>> networks = LazyNetworks([lambda: hb.Network([hb.Multinomial(hb.Discrete("c", (0, 1)), table=[0.5, 0.5])])])
    >>> len(networks), networks[0] is networks[0], networks[:1] == (networks[0],)
    (1, True, True)
    """

    def __init__(self, networks: Iterable[LazyNetwork]) -> None:
        self._networks = list(networks)

    def __len__(self) -> int:
        return len(self._networks)

    @overload
    def __getitem__(self, key: int) -> Network: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[Network, ...]: ...
    def __getitem__(self, key: int | slice) -> Network | tuple[Network, ...]:
        if isinstance(key, slice):
            return tuple(self[place] for place in range(len(self))[key])
        network = self._networks[key]
        if not isinstance(network, Network):
            network = self._networks[key] = network()
        return network

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, LazyNetworks | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine is yours for mine, yours in zip(self, other, strict=True))

    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} networks>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


def sum_tables(weighted_tables: Iterable[tuple[float, NaiveBayesTables]]) -> NaiveBayesTables:
    r"""Return the weighted sum of log tables, exact where all attributes are observed (eq. 7 of Ting and Zheng, 2003).

    .. math:: \sum_t \alpha_t \log P_t(c) + \sum_i \sum_t \alpha_t \log P_t(v_i \mid c)

    Where the networks cut a number differently, the sum has the cuts of all.
    """
    listed = list(weighted_tables)
    target = listed[0][1].target
    variables: dict[str, Discrete] = {}
    for _, tables in listed:
        for name, variable in tables.variables.items():
            known = variables.setdefault(name, variable)
            if known is not variable and known != variable:
                variables[name] = _common_refinement(known, variable)
    logs = {name: np.zeros((len(variable), len(target))) for name, variable in variables.items()}
    prior = np.zeros(len(target))
    for weight, tables in listed:
        prior += weight * tables.prior
        for name, table in tables.logs.items():
            own, common = tables.variables[name], variables[name]
            same = own is common or own == common
            logs[name] += weight * (table if same else table[_intervals_within(common, own)])
    return NaiveBayesTables(target, prior, variables, logs)


def _common_refinement(first: Discrete, second: Discrete) -> Discrete:
    """Return the variable with the cuts of both, which discretize the same number."""
    if first.cuts is None or second.cuts is None:
        raise NetworkError(
            f"{first.name!r} has different states in the members of the ensemble, so no single network has room for all"
        )
    return Discrete(first.name, cuts=tuple(sorted({*first.cuts, *second.cuts})))


def _intervals_within(fine: Discrete, coarse: Discrete) -> NDArray[np.intp]:
    """Return the interval of a coarse discretization in which each interval of a fine one lies."""
    lows = np.array([-np.inf, *(fine.cuts or ())])
    return np.searchsorted(np.array(coarse.cuts or ()), lows, side="right")


def network_of_sum(tables: NaiveBayesTables, distributions: Mapping[str, Values]) -> Network:
    r"""Return the naive Bayes network with the log-odds of the tables in every row without missing cells.

    A factor of an attribute that is the same for all classes changes no odds, and a factor of a class that is the same
    for all states may go to the prior. So with s the term in the tables and any q(v) > 0

    .. math:: P(v \mid c) = q(v) e^{s(v, c) - \bar s(v)} / Z_c, \qquad P(c) \propto e^{s(c)} \prod_i Z_{ic}

    Parameters
    ----------
    tables : NaiveBayesTables
    distributions : mapping from attribute to ndarray (states,)
        The q of each attribute.
    """
    prior = tables.prior.copy()
    potentials = []
    for name, table in tables.logs.items():
        with np.errstate(invalid="ignore", under="ignore"):
            terms = (table - table.mean(axis=1, keepdims=True)).T + np.log(distributions[name])
            norm = scipy.special.logsumexp(terms, axis=1, keepdims=True)
            probabilities = np.exp(terms - norm)
        _refuse_underflow(probabilities, name)
        prior += norm[:, 0]
        potentials.append(Multinomial(tables.variables[name], (tables.target,), table=probabilities))
    prior_probabilities = np.exp(prior - prior.max())
    _refuse_underflow(prior_probabilities, tables.target.name)
    return Network([Multinomial(tables.target, table=prior_probabilities, normalize=True), *potentials])


def _refuse_underflow(probabilities: Values, name: str) -> None:
    # smaller numbers have fewer digits
    if not (probabilities >= np.finfo(float).tiny).all():
        raise NetworkError(
            f"{name!r}: the collapsed network would need a probability that is zero or too small for a number; let "
            "the members have an estimate without zeros, such as MEstimate(2), or take fewer rounds"
        )


# -- stacking --------------------------------------------------------------------------------------------------------

LEAST_VOTE = 0.02
"""A network of less weight is left out."""
VOTE_ROWS = 5.0
"""The weight, in rows, of the squared differences of the votes from equal ones."""
LOG_FACTORS = (-8.0, 2.0)
"""The range of logarithms of what the votes of boosting are multiplied by."""
BIAS_ROWS = 3.0
"""The weight, in rows, of the squared logarithms of the factors of classes."""


def stack(
    data: Any,
    target: str,
    potentials: Potentials = "auto",
    weights: Any = None,
    *,
    candidates: Sequence[Any] | None = None,
    folds: int = 5,
    effort: int = 1,
    seconds: float | None = None,
    random_state: Any = 0,
    **columns: Unpack[ColumnKeywords],
) -> Ensemble:
    r"""Learn several networks for a class, and weigh them by how well they predict held-out rows together.

    .. math:: P(c \mid x) \propto e^{b_c} \prod_m P_m(c \mid x)^{w_m}, \quad w_m \ge 0

    The weights and the factors of the classes are those of the greatest likelihood in rows that the networks have not
    seen, so that probabilities which are too near to 0 and 1, or not near enough, are put right: a single network with
    its weight is what is known as temperature scaling, with the factors as vector scaling.

    Parameters
    ----------
    data, target, potentials, weights, **columns : as in `naive_bayes`
    candidates, folds, effort, seconds, random_state : as in `hybridbn.structures.automatic`

    Returns
    -------
    Ensemble
        With "pool" as its algorithm, the network of the greatest weight first. The last one is the class alone, with
        the factors as its probabilities.

    Notes
    -----
    Candidates are compared, and dropped, as in `automatic`, by their log losses. Those that are left, and all that
    predict held-out rows themselves at little cost, such as random forests, are weighted; the ones of next to no weight
    are left out.

    Missing cells are marginalized in each network.

    References
    ----------
    Wolpert (1992), "Stacked generalization"; Guo, Pleiss, Sun & Weinberger (2017), "On calibration of modern neural
    networks".

    Examples
    --------
    >>> import hybridbn as hb
    >>> rng = np.random.default_rng(0)
    >>> x, z = rng.normal(size=(2, 200))
    >>> data = {"x": x, "z": z, "c": np.where(x * z + 0.3 * rng.normal(size=200) > 0, "same", "different")}
    >>> ensemble = hb.stack(data, "c")
    >>> ensemble.algorithm, len(ensemble) > 1, ensemble.posterior({"x": 1.0, "z": 1.0}).probability("same") > 0.9
    ('pool', True, True)
    """
    race = compare_candidates(
        data,
        target,
        potentials,
        weights,
        candidates=candidates,
        folds=folds,
        effort=effort,
        seconds=seconds,
        random_state=random_state,
        **columns,
    )
    variable = race.data.variable(target)
    assert isinstance(variable, Discrete)
    predictions = race.list_predictions()
    if not predictions:
        return Ensemble([race.learn_best()], np.ones(1), target, "pool")
    names = list(predictions)
    truth, own_weights = race.data.codes(target)[race.rows], race.weights
    shares = np.stack([predictions[name] for name in names])
    logs = np.log(np.maximum(shares / shares.max(axis=2, keepdims=True), _LEAST_POOLED))
    votes, bias = fit_pool(logs, truth, own_weights)
    kept = np.flatnonzero(votes >= LEAST_VOTE)
    if len(kept) < len(votes):
        votes, bias = fit_pool(logs[kept], truth, own_weights)
    order = np.argsort(-votes, kind="stable")
    networks = [race.learn(names[kept[number]]) for number in order]
    shift = np.exp(bias - bias.max())
    prior = Network([Multinomial(variable, table=shift / shift.sum())])
    return Ensemble([*networks, prior], np.append(votes[order], 1.0), target, "pool")


def fit_pool(logs: Values, truth: Codes, weights: Values) -> tuple[Values, Values]:
    """Return the exponents of networks (networks,) and the log factors of classes (classes,) that predict best.

    Parameters
    ----------
    logs : ndarray (networks, rows, classes)
        The networks' log probabilities of rows that they have not seen.
    truth : ndarray (rows,)
    weights : ndarray (rows,)

    Examples
    --------
    >>> sure = np.log([[0.99, 0.01], [0.01, 0.99]]).repeat(100, axis=0)
    >>> votes, _ = fit_pool(sure[None], np.tile([0, 0, 0, 1, 1, 0, 1, 1, 1, 0], 20), np.ones(200))
    >>> votes.round(1)
    array([0.])
    """
    count, rows, classes = logs.shape
    shares = weights / weights.sum()
    # what networks tell beyond the shares of the classes, so that no findings give these, whatever the votes
    counts = np.bincount(truth, weights, classes) + 0.5
    prior = np.log(counts / counts.sum())
    logs = logs - logs.max(axis=2, keepdims=True) - prior
    size = float(weights.sum())

    def objective(flat: Values) -> tuple[float, Values]:
        votes, bias = flat[:count], flat[count:]
        told = scipy.special.softmax(np.tensordot(votes, logs, 1) + prior + bias, axis=1)
        picked = np.arange(rows), truth
        loss = -float(shares @ np.log(np.maximum(told[picked], 1e-300)))
        apart = votes - 1 / count
        loss += (VOTE_ROWS * float(apart @ apart) + BIAS_ROWS * float(bias @ bias)) / size
        told[picked] -= 1.0
        told *= shares[:, None]
        slopes = np.tensordot(logs, told, ([1, 2], [0, 1])) + 2 * VOTE_ROWS * apart / size
        return loss, np.append(slopes, told.sum(axis=0) + 2 * BIAS_ROWS * bias / size)

    start = np.append(np.full(count, 1 / count), np.zeros(classes))
    bounds = [(0.0, None)] * count + [(None, None)] * classes
    solution = scipy.optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-10}
    ).x
    votes, bias = solution[:count], solution[count:]
    return np.asarray(votes), np.asarray(bias + (1 - votes.sum()) * prior)


def calibrate_votes(ensemble: Ensemble, scores: Values, truth: Codes, weights: Values) -> Ensemble:
    """Return the ensemble with all votes multiplied by what makes held-out rows most probable (temperature scaling).

    No decision changes, as the order of the scores stays.

    Parameters
    ----------
    ensemble : Ensemble
    scores : ndarray (rows, classes)
        Scores that such ensembles give to rows that they have not seen; a row with NaN is left out.
    truth : ndarray (rows,)
    weights : ndarray (rows,)

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", ("a", "b")), table=[0.4, 0.6])])
    >>> scores, truth = np.tile([0.0, 10.0], (100, 1)), np.arange(100) % 4 > 0
    >>> ensemble = hb.Ensemble([net], np.array([10.0]), "c")
    >>> calibrate_votes(ensemble, scores, truth.astype(int), np.ones(100)).votes.round(1)
    array([1.1])
    """
    kept = np.flatnonzero(np.isfinite(scores).all(axis=1))
    relative = scores[kept] - scores[kept].max(axis=1, keepdims=True, initial=-np.inf)

    def measure_loss(log_factor: float) -> float:
        scaled = np.exp(log_factor) * relative
        return float(weights[kept] @ (np.log(np.exp(scaled).sum(axis=1)) - scaled[np.arange(len(kept)), truth[kept]]))

    if not len(kept):
        return ensemble
    factor = float(np.exp(scipy.optimize.minimize_scalar(measure_loss, bounds=LOG_FACTORS, method="bounded").x))
    return replace(ensemble, votes=ensemble.votes * factor)
