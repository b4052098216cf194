"""What the exchange formats of networks share: networks as tables, plain words for names, and states with their
types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from hybridbn.errors import FormatError, NetworkError, warn_user
from hybridbn.exchange.binning import discretize
from hybridbn.potentials import Atoms, LinearGaussian, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = [
    "Bins",
    "bin_network",
    "build_network",
    "collect_tables",
    "convert_potentials",
    "describe_fault",
    "encode_properties",
    "format_mean",
    "format_states",
    "make_words",
    "name_nodes",
    "parse_states",
    "refuse_factors",
    "restore_variable",
    "reverse_parents",
    "table_of",
    "table_or_regression",
]

_STATE_TYPES = (str, int, float, bool)
_READABLE = (
    ("<=", "le"),
    (">=", "ge"),
    ("<", "lt"),
    (">", "gt"),
    (r"-(?=[0-9])", "m"),
    (r"(?<=[0-9])\.(?=[0-9])", "p"),
)
"""Words replace these signs, so that the names of bins stay readable."""

Bins: TypeAlias = "int | Mapping[str, int | Sequence[float]]"
"""The number of bins for all continuous variables, or for each variable a number of bins or the cut points."""
Written = TypeVar("Written")


# -- what is written --------------------------------------------------------------------------------------------------


def bin_network(network: Network, bins: Bins | None, name: str) -> Network:
    """Return the network with its continuous variables cut into bins where `bins` is given, warning what it costs."""
    network.check()
    refuse_factors(network, name)
    if bins is None or not any(isinstance(network.variable(node), Continuous) for node in network):
        return network
    binned, binning = discretize(network, bins)
    warn_user(
        f"{name}: {len(binning.cuts)} continuous variables were cut into bins; no event has a probability further than"
        f" about {binning.total:.2g} from the network's",
    )
    return binned


def refuse_factors(network: Network, name: str) -> None:
    """Raise `FormatError` for a network with factors, whose findings other formats than .hbn do not hold."""
    if network.graph.get("factors"):
        raise FormatError(
            f"{name} can't say that the factors in net.graph['factors'] are always observed, so whoever reads the file"
            " would get wrong answers; save the network as .hbn"
        )


def table_of(potential: Potential) -> Multinomial | None:
    """Return a potential of discrete variables, of any family, as a table; None where a variable is continuous."""
    if isinstance(potential, Multinomial):
        return potential
    variables = [variable for variable in potential.variables if isinstance(variable, Discrete)]
    table = potential.probabilities()
    return None if table is None else Multinomial(variables[-1], variables[:-1], table=table, normalize=True)


def table_or_regression(potential: Potential) -> Potential | None:
    """Return a linear Gaussian potential as it is, and any other as its table, if it has one."""
    return table_of(potential) if potential.as_regression() is None else potential


def convert_potentials(
    potentials: Iterable[Potential], convert: Callable[[Potential], Written | None], holds: str, remedy: str
) -> list[Written]:
    """Convert all potentials to what a format holds; refuse the network, naming the nodes, where `convert` returns
    None.
    """
    pairs = [(potential, convert(potential)) for potential in potentials]
    points = [p.child.name for p, written in pairs if written is None and isinstance(p, Atoms)]
    if points:
        remedy = f"learn {shorten(points)}, of which single values are frequent, as discrete, too; {remedy}"
    refused = [f"{p.child.name} ({type(p).__name__})" for p, written in pairs if written is None]
    if refused:
        names = ", ".join(refused[:8]) + (f", ... ({len(refused)} in all)" if len(refused) > 8 else "")
        raise FormatError(f"{holds}, not the potentials of {names}; {remedy}")
    return [written for _, written in pairs if written is not None]


def collect_tables(network: Network, name: str) -> list[Multinomial]:
    """Return the tables of a network, refusing potentials that are none.

    Examples
    --------
    >>> import hybridbn as hb
    >>> collect_tables(hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)]), "UAI")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: UAI holds tables of discrete variables only, not the potentials of x (LinearGaussian);
    save the network as .hbn, or cut the continuous variables with bins=, for example write_network(net, path, bins=10)
    """
    return convert_potentials(
        map(network.potential, network),
        table_of,
        f"{name} holds tables of discrete variables only",
        "save the network as .hbn, or cut the continuous variables with bins=, for example write_network(net, path,"
        " bins=10)",
    )


def format_states(variable: Discrete, name: str) -> list[str]:
    """Return states as text, refusing types that no file can restore and states that would look the same."""
    wrong = [state for state in variable.states if type(state) not in _STATE_TYPES]
    if wrong:
        raise FormatError(
            f"{variable.name!r}: the state {wrong[0]!r} is a {type(wrong[0]).__name__}; "
            "files hold only text, integers, floats and booleans as states"
        )
    texts = [state if isinstance(state, str) else repr(state) for state in variable.states]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise FormatError(
            f"{variable.name!r}: two states would both be written as {twice!r} in {name}; save the network as .hbn"
        )
    return texts


def format_mean(regression: LinearGaussian, cell: tuple[int, ...], names: Iterable[str]) -> str:
    """Return the mean of a linear regression in a cell of its discrete parents, over names of the continuous ones."""
    mean = repr(float(regression.intercept[cell]))
    for slope, name in zip(regression.coefficients[cell].tolist(), names, strict=True):
        mean += f" {'-' if slope < 0 else '+'} {abs(slope)!r} * {name}"
    return mean


def make_words(names: Iterable[Hashable], taken: Collection[str] = (), start: str = "s") -> dict[Hashable, str]:
    """Return a distinct plain word for each name: the name itself where it is one.

    Examples
    --------
    >>> make_words(["yes", "no way", 1, "no_way", ""])
    {'yes': 'yes', 'no way': 'no_way_2', 1: 's1', 'no_way': 'no_way', '': 's'}
    >>> list(make_words(["< -0.5", "-0.5 to 0.5", ">= 0.5"]).values())
    ['lt_m0p5', 'm0p5_to_0p5', 'ge_0p5']
    """
    all_names = list(names)
    pattern = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
    used = set(taken) | {name for name in all_names if isinstance(name, str) and pattern.fullmatch(name)}
    words: dict[Hashable, str] = {}
    for name in all_names:
        if isinstance(name, str) and pattern.fullmatch(name) and name not in taken:
            words[name] = name
            continue
        base = str(name)
        for sign, readable in _READABLE:
            base = re.sub(sign, readable, base)
        base = re.sub(r"[^A-Za-z0-9_]+", "_", base)[:60]
        base = base if pattern.fullmatch(base) else start + base
        word, number = base, 2
        while word in used:
            word, number = f"{base}_{number}", number + 1
        used.add(word)
        words[name] = word
    return words


def name_nodes(potentials: Iterable[Potential], keywords: Collection[str]) -> dict[str, str]:
    """Return a distinct plain word for each node, none of which is a keyword of the format."""
    return {str(name): word for name, word in make_words([p.child.name for p in potentials], keywords, "n_").items()}


def encode_properties(variable: Variable, written: Sequence[str], name: str) -> dict[str, str]:
    """Return what the words of a file lose of a variable, as properties without spaces, quotes and equals signs.

    Parameters
    ----------
    variable : Variable
    written : the states as they stand in the file
    name : the variable's name as it stands in the file

    Examples
    --------
    >>> encode_properties(Discrete("my c", states=(1, "b")), ["1", "b"], "my_c")
    {'hybridbn_name': 'my%20c', 'hybridbn_states': '%5B1%2C%22b%22%5D'}
    """
    properties = {}
    if variable.name != name:
        properties["hybridbn_name"] = quote(variable.name, safe="")
    if isinstance(variable, Discrete):
        if list(variable.states) != list(written) or any(type(state) is not str for state in variable.states):
            properties["hybridbn_states"] = quote(json.dumps(list(variable.states), separators=(",", ":")), safe="")
        if variable.cuts is not None:
            properties["hybridbn_cuts"] = ",".join(map(repr, variable.cuts))
    return properties


# -- what is read -----------------------------------------------------------------------------------------------------


def restore_variable(name: str, written: Sequence[str], properties: Mapping[str, str]) -> Discrete:
    """Return a discrete variable from a file with its `encode_properties`; raise `ValueError` where these don't fit.

    Examples
    --------
    >>> restore_variable("my_c", ["1", "b"], {"hybridbn_name": "my%20c", "hybridbn_states": "%5B1%2C%22b%22%5D"}).states
    (1, 'b')
    """
    states: list[Any] = list(written)
    if "hybridbn_states" in properties:
        states = parse_states(unquote(properties["hybridbn_states"]), len(written))
    cuts = properties.get("hybridbn_cuts")
    return Discrete(
        unquote(properties.get("hybridbn_name", "")) or name,
        tuple(states),
        None if cuts is None else tuple(map(float, cuts.split(","))),
    )


def parse_states(text: str, count: int) -> list[Any]:
    """Return states from JSON; raise `ValueError` unless they are a list of `count` texts or numbers."""
    try:
        states = json.loads(text)
    except RecursionError:
        raise ValueError("its states are nested") from None
    if not isinstance(states, list) or len(states) != count or not all(isinstance(s, _STATE_TYPES) for s in states):
        raise ValueError(f"its states {text[:60]!r} are not {count} texts or numbers")
    return states


def describe_fault(name: str, error: Exception) -> str:
    """Return an error's message with the name before it, once.

    Examples
    --------
    >>> describe_fault("a", ValueError("'a' is odd")), describe_fault("a", ValueError("odd"))
    ("'a' is odd", "'a': odd")
    """
    text = str(error)
    return text if text.startswith(repr(name)) else f"{name[:60]!r}: {text}"


def reverse_parents(values: Values, sizes: Sequence[int]) -> Values:
    """Return the numbers of a table whose first parent runs fastest among the parents, as pyAgrum writes it, in our
    order.

    Examples
    --------
    >>> import numpy as np
    >>> reverse_parents(np.arange(8), (2, 2, 2))
    array([0, 1, 4, 5, 2, 3, 6, 7])
    """
    parents = len(sizes) - 1
    return values.reshape([*sizes[-2::-1], sizes[-1]]).transpose([*reversed(range(parents)), parents]).ravel()


def build_network(potentials: Mapping[str, Potential], names: Iterable[str], source: str) -> Network:
    """Return the network of a file, refusing nodes without a potential, and cycles."""
    from hybridbn.network import Network

    nodes = list(names)
    if not nodes:
        raise FormatError(f"{source}: there are no variables; is the file complete?")
    missing = [name for name in nodes if name not in potentials]
    if missing:
        raise FormatError(f"{source}: no probabilities for {shorten(missing)}; is the file complete?")
    try:
        return Network([potentials[name] for name in nodes])
    except NetworkError as error:
        raise FormatError(f"{source}: {error}") from None
