"""Networks that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeAlias, overload

from hybridbn.network import Network

__all__ = ["Member", "Members"]

Member: TypeAlias = "Network | Callable[[], Network]"


class Members(Sequence[Network]):
    """A sequence of networks, each made when it is first asked for: a hundred of them take longer than a round of boosting does.

    Equal to any sequence of the same networks; pickled with all of them made.

    Parameters
    ----------
    given : iterable of Network or function that returns one

    Examples
    --------
    >>> import hybridbn as hb
    >>> members = Members([lambda: hb.Network([hb.Multinomial(hb.Discrete("c", (0, 1)), table=[0.5, 0.5])])])
    >>> len(members), members[0] is members[0], members[:1] == (members[0],)
    (1, True, True)
    """

    def __init__(self, given: Iterable[Member]) -> None:
        self._cells = [own if isinstance(own, _Cell) else _Cell(own) for own in given]

    def __len__(self) -> int:
        return len(self._cells)

    @overload
    def __getitem__(self, key: int) -> Network: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    def __getitem__(self, key: int | slice) -> Network | Self:
        # a slice shares what is made of it later
        return type(self)(self._cells[key]) if isinstance(key, slice) else self._cells[key].network()

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Members | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(mine is yours for mine, yours in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self)} networks>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)


class _Cell:
    """One network, made or not."""

    def __init__(self, given: Member) -> None:
        self._given = given

    def __call__(self) -> Network:
        return self.network()

    def network(self) -> Network:
        if not isinstance(self._given, Network):
            self._given = self._given()
        return self._given
