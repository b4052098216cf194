"""The potentials of a network at one time, and which of them a question needs: without barren and d-separated parts.

What was compiled for questions is kept here, too, as long as it fits in some bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from weakref import ref

from hybridbn.errors import NetworkError
from hybridbn.network import Network
from hybridbn.potentials.base import Potential
from hybridbn.variables import Discrete, Variable

if TYPE_CHECKING:
    from hybridbn.inference.evidence import Finding

ENTRY_BYTES = 1000
"""The approximate memory of an entry, or of a factor source and its factor, without tables."""
_FILL_AFTER_CLEANUP = 0.9
"""A full cache is emptied to this part of its capacity, so that not every new problem makes it full again."""


Identities: TypeAlias = tuple[int, ...]
"""The identities of the potentials of a network."""


class Cached(ABC):
    """What is compiled for a question."""

    on_growth: Callable[[], None] | None = None

    def note_growth(self) -> None:
        """Let the cache measure this again, after more tables were stored."""
        if self.on_growth is not None:
            self.on_growth()

    @abstractmethod
    def estimate_bytes(self) -> int:
        """Return about how many bytes are held, without the potentials' own tables."""

    def release(self) -> None:  # noqa: B027 (there may be none)
        """Drop the stored tables."""


class ProblemCache:
    """The compiled problems that were used last, as many as fit in `most_bytes`, of networks that are still there.

    A problem that grows too large loses its tables first and stays in the cache without them: choosing the elimination
    order takes longest, and the tables can be computed again. Problems belong to the identities of the potentials they
    are compiled from, and go when the last network goes that asked with these.
    """

    def __init__(self, most_bytes: float = 256 * 2**20) -> None:
        self.most_bytes = most_bytes
        self.total: int = 0
        """About how many bytes all problems hold together."""
        self._groups: dict[Identities, _Group] = {}
        self._ended: deque[tuple[Identities, int]] = deque()
        self._clock = count()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self.entries())

    def entries(self) -> list[_CacheEntry]:
        """Return what is kept of all networks."""
        return [entry for group in list(self._groups.values()) for entry in list(group.entries.values())]

    def get(self, potentials: Identities, question: Any) -> Any:
        """Return the problem of some potentials and a question, None if there is none."""
        group = self._groups.get(potentials)
        entry = None if group is None else group.entries.get(question)
        if entry is None:
            return None
        entry.used = next(self._clock)
        return entry.problem

    def put(self, potentials: Identities, question: Any, problem: Cached) -> Any:
        """Return the problem stored for potentials and a question: this one, unless another thread stored one before.

        A problem refers to its potentials, so that no other object can get their identities, which are part of the key.
        """
        problem.on_growth = partial(self.measure, potentials, question)
        entry = _CacheEntry(potentials, question, problem, next(self._clock))
        with self._lock:
            kept = self._groups.setdefault(potentials, _Group()).entries.setdefault(question, entry)
        self.measure(potentials, question)
        return kept.problem

    def follow(self, network: Network, potentials: Identities) -> None:
        """Keep the problems of some potentials until this network is gone, and all others that were asked with them."""
        group = self._groups.get(potentials)
        if group is not None and id(network) not in group.networks:
            group.networks[id(network)] = ref(network, partial(self._end, potentials, id(network)))

    def _end(self, potentials: Identities, network: int, _: ref[Network]) -> None:
        # this may run at any moment, also while this thread has the lock; who has it will then forget
        self._ended.append((potentials, network))
        if self._lock.acquire(blocking=False):
            try:
                self._forget_ended()
            finally:
                self._lock.release()

    def _forget_ended(self) -> None:
        while self._ended:
            potentials, network = self._ended.popleft()
            group = self._groups.get(potentials, _Group())
            group.networks.pop(network, None)
            if not group.networks:
                for entry in list(group.entries.values()):
                    self._remove(entry)

    def measure(self, potentials: Identities, question: Any) -> None:
        """Measure a problem whose tables have grown, and make room for it."""
        with self._lock:
            self._forget_ended()
            entry = self._groups.get(potentials, _Group()).entries.get(question)
            if entry is None:
                return
            self._measure(entry)
            if entry.held > self.most_bytes:
                self._release(entry)
            if self.total > self.most_bytes:
                self._make_room()

    def _make_room(self) -> None:
        """Drop the tables, then the problems, that were used least recently, and some more than needed."""
        oldest = sorted(self.entries(), key=lambda entry: entry.used)
        for drop in (self._release, self._remove):
            for entry in oldest:
                if self.total <= _FILL_AFTER_CLEANUP * self.most_bytes:
                    return
                drop(entry)

    def clear(self) -> None:
        """Forget all problems."""
        with self._lock:
            self._groups.clear()
            self.total = 0

    def _remove(self, entry: _CacheEntry) -> None:
        self.total -= entry.held
        entries = self._groups[entry.potentials].entries
        del entries[entry.question]
        if not entries:
            del self._groups[entry.potentials]

    def _release(self, entry: _CacheEntry) -> None:
        entry.problem.release()
        self._measure(entry)

    def _measure(self, entry: _CacheEntry) -> None:
        held = entry.problem.estimate_bytes() + ENTRY_BYTES
        self.total += held - entry.held
        entry.held = held


@dataclass
class _CacheEntry:
    potentials: Identities
    question: Any
    problem: Cached
    used: int
    held: int = 0


@dataclass
class _Group:
    """The networks that asked with the same potentials, by identity, and what is kept for their questions."""

    networks: dict[int, ref[Network]] = field(default_factory=dict)
    entries: dict[Any, _CacheEntry] = field(default_factory=dict)


CACHE = ProblemCache()


Status = Literal["hidden", "soft", "hard"]


def ancestors(parents: Mapping[str, Collection[str]], names: Iterable[str]) -> set[str]:
    """Return the names and all their ancestors."""
    result: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in result:
            result.add(name)
            waiting.extend(parents[name])
    return result


def find_requisite(
    parents: Mapping[str, Collection[str]],
    children: Mapping[str, Collection[str]],
    targets: Iterable[str],
    status: Callable[[str], Status],
) -> set[str]:
    """Return the nodes whose potentials the posterior of the targets depends on (Shachter's Bayes ball, 1998).

    Parameters
    ----------
    status : function
        Of a node that the ball visits: "hard" if it is observed in every row, which stops the ball; "soft" if it has a
        likelihood or is observed in some rows only, which is like an observed child of it.
    """
    top: set[str] = set()
    bottom: set[str] = set()
    from_children, from_parents = list(targets), list[str]()
    while from_children or from_parents:
        from_child = bool(from_children)
        name = (from_children or from_parents).pop()
        known = status(name)
        if from_child and known == "hard":
            continue
        if (from_child or known != "hidden") and name not in top:
            top.add(name)
            from_children.extend(parents[name])
        if known != "hard" and name not in bottom:
            bottom.add(name)
            from_parents.extend(children[name])
    return top


def status_of(finding: Finding | None) -> Status:
    """Return whether a finding counts as "hidden", "hard" or "soft" for relevance."""
    return "hidden" if finding is None or finding.empty else "hard" if finding.hard else "soft"


_NODE_BYTES = 1000
"""The approximate memory of what is known of a node."""


@dataclass(eq=False)
class Snapshot(Cached):
    """The potentials of a network at one time; later questions use them even if the network has changed since.

    The one that was asked last is cached, so that questions share what follows from the potentials alone.
    """

    by_name: Mapping[str, Potential]

    @classmethod
    def of(cls, network: Network | Snapshot) -> Snapshot:
        """Take the potentials of a network, which must have one for every node, and that of the node."""
        if isinstance(network, Snapshot):
            return network
        try:
            snapshot = cls({name: node["potential"] for name, node in network._node.items()})
            kept: Snapshot | None = CACHE.get(snapshot.key, cls)
            if kept is not None and list(kept.by_name) == list(snapshot.by_name):
                CACHE.follow(network, snapshot.key)
                return kept
            stale = any(potential.child.name != name for name, potential in snapshot.by_name.items())
        except (KeyError, AttributeError):
            network.check()
            raise
        if stale:
            network.check()
        for name, parents in snapshot.pred.items():
            for parent in parents:
                if parent not in snapshot.by_name:
                    raise NetworkError(f"{parent!r}, a parent of {name!r}, is no node of the network")
        if kept is None:
            snapshot = CACHE.put(snapshot.key, cls, snapshot)
            CACHE.follow(network, snapshot.key)
        return snapshot

    def __reduce__(self) -> tuple[Any, ...]:
        # what is cached, the identities above all, belongs to this process
        return Snapshot, (dict(self.by_name),)

    @cached_property
    def key(self) -> Identities:
        """The identities of the potentials."""
        return tuple(map(id, self.by_name.values()))

    def estimate_bytes(self) -> int:
        """Return about how many bytes are held, without the potentials' own tables."""
        return _NODE_BYTES * len(self.by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def potential(self, name: str) -> Potential:
        """Return the potential of a node."""
        return self.by_name[name]

    def variable(self, name: str) -> Variable:
        """Return the variable of a node."""
        return self.by_name[name].child

    @cached_property
    def pred(self) -> Mapping[str, tuple[str, ...]]:
        """The parents of each node."""
        return {name: scope[:-1] for name, scope in self.scopes.items()}

    @cached_property
    def scopes(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each node's potential: the parents, then the node."""
        return {name: potential.scope for name, potential in self.by_name.items()}

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The number of states of each discrete variable."""
        return {
            name: len(potential.child)
            for name, potential in self.by_name.items()
            if isinstance(potential.child, Discrete)
        }

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """A number for each node that is larger than those of its parents."""
        waiting = {name: len(parents) for name, parents in self.pred.items()}
        order = [name for name, count in waiting.items() if not count]
        for name in order:
            for child in self.succ[name]:
                waiting[child] -= 1
                if not waiting[child]:
                    order.append(child)
        return {name: number for number, name in enumerate(order)}

    @cached_property
    def succ(self) -> Mapping[str, list[str]]:
        """The children of each node."""
        children: dict[str, list[str]] = {name: [] for name in self.by_name}
        for name, above in self.pred.items():
            for parent in above:
                children[parent].append(name)
        return children
