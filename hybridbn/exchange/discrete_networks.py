"""What the exchange formats of networks share: networks as tables, continuous variables cut into bins, plain words for
names, and states with their types.

A binned conditional table holds ``P(child in bin | parents in bins)``. It is the average of the potential's own masses
over the parents inside their bins, computed by Gauss-Legendre quadrature over the probability of each parent inside its
bin; the quantiles come from an evenly spread forward sample of the network. Several continuous parents are treated as
independent inside their bins.

The error is measured: the forward sample gives, for each node, the mean total variation distance between the
conditional given the exact parents and the table's row for their bins. Replacing one conditional after the other
changes the joint distribution by at most their sum, which therefore bounds the error of every probability of events in
terms of bins (before evidence is entered; a posterior may be off by twice the bound over the evidence's probability).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, pairwise
from typing import Any, NoReturn, TypeAlias, TypeVar
from urllib.parse import quote, unquote

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from hybridbn.errors import FormatError, NetworkError, TooWide, warn_user
from hybridbn.exchange.parsing import RowNormalizer
from hybridbn.network import Network
from hybridbn.potentials import Atoms, LinearGaussian, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.tables.formats.files import encode_text, write_network_text
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten, slice_blocks

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


def write_text(
    format_network: Callable[..., str], network: Network, path: str | os.PathLike[str], **options: Any
) -> None:
    """Write a network to a file as the text that a function makes of it, whose options these are."""
    write_network_text(path, format_network(network, **options))


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


def table_or_regression(potential: Potential) -> Multinomial | LinearGaussian | None:
    """Return a linear Gaussian potential as it is, and any other as its table, if it has one."""
    return potential.as_regression() or table_of(potential)


def convert_potentials(
    network: Network,
    bins: Bins | None,
    name: str,
    convert: Callable[[Potential], Written | None],
    holds: str,
    remedy: str = "save the network as .hbn, or cut the continuous variables with bins=",
) -> list[Written]:
    """Convert all potentials to what a format holds, with continuous variables cut into `bins`; refuse the network,
    naming the nodes, where `convert` returns None.
    """
    binned = bin_network(network, bins, name)
    pairs = [(potential, convert(potential)) for potential in map(binned.potential, binned)]
    points = [p.child.name for p, written in pairs if written is None and isinstance(p, Atoms)]
    if points:
        remedy = f"learn {shorten(points)}, of which single values are frequent, as discrete, too; {remedy}"
    refused = [f"{p.child.name} ({type(p).__name__})" for p, written in pairs if written is None]
    if refused:
        names = ", ".join(refused[:8]) + (f", ... ({len(refused)} in all)" if len(refused) > 8 else "")
        raise FormatError(f"{holds}, not the potentials of {names}; {remedy}")
    return [written for _, written in pairs if written is not None]


def collect_tables(network: Network, bins: Bins | None, name: str) -> list[Multinomial]:
    """Return the tables of a network, with continuous variables cut into `bins`, refusing potentials that are none.

    Examples
    --------
    >>> import hybridbn as hb
    >>> collect_tables(hb.Network([hb.LinearGaussian(hb.Continuous("x"), intercept=0, variance=1)]), None, "UAI")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: UAI holds tables of discrete variables only, not the potentials of x (LinearGaussian);
    save the network as .hbn, or cut the continuous variables with bins=, for example write_network(net, path, bins=10)
    """
    return convert_potentials(
        network,
        bins,
        name,
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


def check_text(text: str, what: str, place: str, signs: str = '"', *, trimmed: bool = False) -> str:
    """Return a name or a state; refuse one that would not be read as it is.

    Parameters
    ----------
    text : str
    what, place : str
        What is written where, for messages.
    signs : str, optional
        Those that would end it.
    trimmed : bool, optional
        Whether readers drop spaces around it.

    Examples
    --------
    >>> check_text("a|b", "the name", "to BIF", "|")
    Traceback (most recent call last):
        ...
    hybridbn.errors.FormatError: the name 'a|b' can't be written to BIF: it holds one of |, which programs would take
    for its end. Rename it (net.rename), or save the network as .hbn
    """
    faults = {
        "is empty": not text,
        "starts or ends with a space": trimmed and text != text.strip(),
        "holds a line break or another character that can't be printed": not text.isprintable(),
        f"holds one of {' '.join(signs)}, which programs would take for its end": not {*signs}.isdisjoint(text),
    }
    for fault in (fault for fault, is_there in faults.items() if is_there):
        raise FormatError(
            f"{what} {text!r} can't be written {place}: it {fault}. Rename it (net.rename), or save the network as .hbn"
        )
    return text


def format_normals(regression: LinearGaussian, words: Mapping[str, str], pattern: str) -> Any:
    """Return the text of the normal distribution in each configuration of the discrete parents, as lists in each other;
    `pattern` has places for a mean over the words of the continuous parents and for a variance.
    """
    names = [words[parent.name] for parent in regression.parents if isinstance(parent, Continuous)]
    texts = np.empty(regression.variance.shape, dtype=object)
    for cell in np.ndindex(texts.shape):
        slopes = zip(regression.coefficients[cell].tolist(), names, strict=True)
        terms = [f" {'-' if slope < 0 else '+'} {abs(slope)!r} * {name}" for slope, name in slopes]
        mean = "".join([repr(float(regression.intercept[cell])), *terms])
        texts[cell] = pattern.format(mean, float(regression.variance[cell]))
    return texts.tolist()


def find_free_word(base: str, used: set[str]) -> str:
    """Return a word that is not used yet, with a number behind it where it must be, and note it as used.

    Examples
    --------
    >>> used = {"a", "a_2"}
    >>> find_free_word("a", used), find_free_word("b", used), find_free_word("a", used)
    ('a_3', 'b', 'a_4')
    """
    numbered = (f"{base}_{number}" for number in count(2))
    word = next(word for word in chain([base], numbered) if word not in used)
    used.add(word)
    return word


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
        words[name] = find_free_word(base if pattern.fullmatch(base) else start + base, used)
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
        properties["hybridbn_name"] = quote(encode_text(variable.name), safe="")
    if isinstance(variable, Discrete):
        if list(variable.states) != list(written) or any(type(state) is not str for state in variable.states):
            properties["hybridbn_states"] = quote(json.dumps(list(variable.states), separators=(",", ":")), safe="")
        if variable.cuts is not None:
            properties["hybridbn_cuts"] = ",".join(map(repr, variable.cuts))
    return properties


# -- what is read -----------------------------------------------------------------------------------------------------


def restore_variable(
    name: str, written: Sequence[str], properties: Mapping[str, str], fail: Callable[[str], NoReturn]
) -> Discrete:
    """Return a discrete variable from a file with its `encode_properties`; refuse these where they don't fit.

    Examples
    --------
    >>> properties = {"hybridbn_name": "my%20c", "hybridbn_states": "%5B1%2C%22b%22%5D"}
    >>> restore_variable("my_c", ["1", "b"], properties, print).states
    (1, 'b')
    """
    listed, cuts = properties.get("hybridbn_states"), properties.get("hybridbn_cuts")
    try:
        return Discrete(
            restore_name(name, properties),
            tuple(written if listed is None else parse_states(unquote(listed), len(written))),
            None if cuts is None else tuple(map(float, filter(None, cuts.split(",")))),
        )
    except ValueError as error:
        fail(describe_fault(name, error))


def restore_name(name: str, properties: Mapping[str, str]) -> str:
    """Return the name of a variable that has a name in a file and its `encode_properties`."""
    return unquote(properties.get("hybridbn_name", "")) or name


@dataclass(frozen=True)
class LinearValue:
    """A linear function with normal noise: ``constant + sum of slopes * variables + N(0, variance)``.

    `square` is the square of a constant that was written as ``Sqrt(v)``, so that a variance keeps its digits; `state`
    is the name of the state whose code a constant is.
    """

    constant: float
    slopes: Mapping[str, float] = field(default_factory=dict)
    variance: float = 0.0
    square: float | None = None
    state: str | None = None

    @property
    def plain(self) -> bool:
        """Whether this is a number."""
        return not self.slopes and self.variance == 0


def make_regression(
    child: Continuous, parents: Sequence[Variable], names: Sequence[str], normals: Sequence[LinearValue]
) -> LinearGaussian:
    """Return the potential that is normal in each configuration of the discrete parents; `names` are those of the
    continuous parents in the file.
    """
    sizes = [len(parent) for parent in parents if isinstance(parent, Discrete)]
    slopes = [normal.slopes.get(name, 0.0) for normal in normals for name in names]
    return LinearGaussian(
        child,
        parents=parents,
        intercept=np.array([normal.constant for normal in normals]).reshape(sizes),
        coefficients=np.array(slopes).reshape([*sizes, len(names)]),
        variance=np.array([normal.variance for normal in normals]).reshape(sizes),
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


def build_network(
    potentials: Mapping[str, Potential], variables: Mapping[str, Variable], rows: RowNormalizer
) -> Network:
    """Return the network of a file from the potentials and variables by their names in it, refusing nodes without a
    potential and cycles; warn where rows were normalized.
    """
    if not variables:
        raise FormatError(
            f"{rows.source}: there are no variables; is the file complete, and of the format that its suffix says?"
        )
    missing = [name for name in variables if name not in potentials]
    if missing:
        raise FormatError(f"{rows.source}: no probabilities for {shorten(missing)}; is the file complete?")
    try:
        network = Network([potentials[name] for name in variables])
    except NetworkError as error:
        raise FormatError(f"{rows.source}: {error}") from None
    rows.warn()
    return network


# -- bins -------------------------------------------------------------------------------------------------------------

_SAMPLE = 1 << 12
"""The forward sample has this number of rows, which gives the error to about two digits."""
_NODES = (6, 4, 3, 2, 1)
"""Each bin of a parent gets the first of these numbers of quadrature points that `_MOST` allows."""
_MOST = 4_000_000
"""The masses that are computed for one table are limited to this number, by fewer quadrature points."""
_WIDEST = 10_000_000
"""Tables with more numbers (80 MB) are refused."""
_ROWS = 4096
"""Rows are computed in blocks of this number, so that temporary arrays stay small."""


@dataclass(frozen=True)
class Binning:
    """The cut points of continuous variables, and how far the binned model may be from the network.

    Attributes
    ----------
    cuts : mapping from each continuous variable to its cut points
    error : mapping from each variable to the mean total variation distance between its conditional distribution
        (over bins) given the exact values of its parents and given their bins
    total : float
        The sum of `error`: no event in terms of states and bins has a probability further than that from the network's.
        Estimated from an evenly spread sample of 4096 rows, so to about two digits.
    """

    cuts: Mapping[str, tuple[float, ...]]
    error: Mapping[str, float]
    total: float


def discretize(network: Network, bins: int | Mapping[str, int | Sequence[float]]) -> tuple[Network, Binning]:
    """Return the network with its continuous variables cut into bins.

    Parameters
    ----------
    network : Network
    bins : int, or mapping from each continuous variable to an int or to cut points
        A number of bins gives bins of about equal probability.

    Returns
    -------
    binned : Network
        With `Multinomial` potentials; the binned variables are `Discrete` with `cuts`, so they accept raw numbers too.
    binning : Binning

    Examples
    --------
    >>> import hybridbn as hb
    >>> x, y = hb.Continuous("x"), hb.Continuous("y")
    >>> net = hb.Network([
    ...     hb.LinearGaussian(x, intercept=0, variance=1),
    ...     hb.LinearGaussian(y, parents=(x,), intercept=0, coefficients=[1], variance=1),
    ... ])
    >>> binned, binning = discretize(net, {"x": 4, "y": [0]})
    >>> binned.variable("x").states
    ('< -0.674', '-0.674 to 0.0', '0.0 to 0.674', '>= 0.674')
    >>> binned.potential("y").table.round(1)
    array([[0.9, 0.1],
           [0.6, 0.4],
           [0.4, 0.6],
           [0.1, 0.9]])
    >>> coarse, fine = (discretize(net, count)[1].total for count in (5, 20))
    >>> bool(fine < coarse / 2)
    True
    """
    wanted = _check_bins(network, bins)
    order: list[str] = list(nx.topological_sort(network))
    sample = _draw_sample(network, order)
    cut = {name: _choose_cuts(network.potential(name), sample[name], wanted[name]) for name in order if name in wanted}
    variables = {
        v.name: v if isinstance(v, Discrete) else Discrete(v.name, cuts=cut[v.name])
        for v in map(network.variable, order)
    }
    codes = {
        name: np.searchsorted(cut[name], values, side="right") if name in cut else values
        for name, values in sample.items()
    }
    tables, error = [], {}
    for name in network:
        table, error[name] = _bin_potential(network.potential(name), variables, sample, codes)
        *parents, child = (variables[each] for each in network.potential(name).scope)
        tables.append(Multinomial(child, parents=parents, table=table))
    return Network(tables), Binning(cut, error, math.fsum(error.values()))


def _check_bins(network: Network, bins: Any) -> dict[str, int | tuple[float, ...]]:
    continuous = {v.name: v for v in map(network.variable, network) if isinstance(v, Continuous)}
    if not isinstance(bins, Mapping):
        bins = dict.fromkeys(continuous, bins)
    unknown = [name for name in bins if name not in continuous]
    if unknown:
        raise NetworkError(f"bins for {shorten(unknown)}, but the continuous variables are {shorten(continuous)}")
    missing = [name for name in continuous if name not in bins]
    if missing:
        raise NetworkError(
            f"bins don't say how to cut {shorten(missing)}; give a number of bins or cut points for each"
        )
    return {name: _check_count(variable, bins[name]) for name, variable in continuous.items()}


def _check_count(variable: Continuous, given: Any) -> int | tuple[float, ...]:
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        if not 2 <= given <= 10_000:
            raise NetworkError(f"{variable.name!r}: {given} bins; give a number from 2 to 10,000, or cut points")
        return int(given)
    if isinstance(given, str | bytes | float | bool) or not np.iterable(given):
        raise NetworkError(f"{variable.name!r}: bins are a whole number or a list of cut points, not {given!r}")
    cuts = Discrete(variable.name, cuts=tuple(given)).cuts or ()  # refuses numbers that aren't finite and increasing
    low, high = variable.domain
    if not cuts or cuts[0] <= low or cuts[-1] >= high:
        raise NetworkError(
            f"{variable.name!r}: cut points must lie inside the domain ({low}, {high}), not {list(cuts)}"
        )
    return cuts


def _draw_sample(network: Network, order: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Draw from the network by evenly spread uniforms (a Sobol' sequence with a random shift); the same rows every
    time.
    """
    from scipy.stats import qmc

    rng = np.random.default_rng(0)
    sobol = qmc.Sobol(min(len(order), qmc.Sobol.MAXDIM), scramble=False).random_base2(_SAMPLE.bit_length() - 1)
    sample: dict[str, NDArray[Any]] = {}
    for column, name in enumerate(order):
        potential = network.potential(name)
        spread = sobol[:, column] if column < sobol.shape[1] else rng.permutation(_SAMPLE) / _SAMPLE
        uniforms = np.clip((spread + rng.random()) % 1.0, 1e-9, 1 - 1e-9)  # the quantiles at 0 and 1 may be infinite
        sample[name] = potential.ppf(uniforms, {parent.name: sample[parent.name] for parent in potential.parents})
    return sample


def _choose_cuts(potential: Potential, values: Values, wanted: int | tuple[float, ...]) -> tuple[float, ...]:
    if isinstance(wanted, tuple):
        return wanted
    levels = np.arange(1, wanted) / wanted
    quantiles = np.quantile(values, levels) if potential.parents else potential.ppf(levels, {})
    # Bins need not be exactly equal: digits that matter less than a hundredth of a bin only make ugly names of states.
    gaps = np.diff(np.unique(quantiles))
    digits = 2 - math.floor(math.log10(gaps.min())) if len(gaps) else 15
    return tuple(np.unique(np.round(quantiles, digits)).tolist())


# -- tables -----------------------------------------------------------------------------------------------------------


def _bin_potential(
    potential: Potential,
    variables: Mapping[str, Discrete],
    sample: Mapping[str, NDArray[Any]],
    codes: Mapping[str, Codes],
) -> tuple[Values, float]:
    """Return the binned table (parents..., child), and the mean total variation distance from binning the parents."""
    exact = potential.probabilities()
    if exact is not None:
        return exact, 0.0
    child, parents = variables[potential.child.name], potential.parents
    sizes = [len(variables[parent.name]) for parent in parents]
    cells = math.prod(sizes) * len(child)
    if cells > _WIDEST:
        raise TooWide(
            f"{child.name!r}: its table would have {' x '.join(map(str, [*sizes, len(child)]))} numbers; give fewer"
            f" bins for {shorten([p.name for p in (*parents, potential.child) if isinstance(p, Continuous)])}"
        )
    continuous = [parent for parent in parents if isinstance(parent, Continuous)]
    nodes = next((n for n in _NODES if cells * n ** len(continuous) <= _MOST), 1)
    points = [
        _choose_points(sample[parent.name], variables[parent.name].cuts or (), parent, nodes)
        if isinstance(parent, Continuous)
        else np.arange(len(parent))
        for parent in parents
    ]
    weights = np.polynomial.legendre.leggauss(nodes)[1] / 2
    grid = dict(zip((p.name for p in parents), map(np.ravel, np.meshgrid(*points, indexing="ij")), strict=True))
    masses = _compute_masses(potential, grid, child).reshape(*map(len, points), len(child))
    for axis, parent in enumerate(parents):
        if isinstance(parent, Continuous):
            shape = (*masses.shape[:axis], -1, nodes, *masses.shape[axis + 1 :])
            masses = np.moveaxis(masses.reshape(shape), axis + 1, -1) @ weights
    table = masses / masses.sum(axis=-1, keepdims=True)
    if not continuous:
        return table, 0.0
    exact = _compute_masses(potential, {parent.name: sample[parent.name] for parent in parents}, child)
    binned = table[tuple(codes[parent.name] for parent in parents)]
    return table, float(np.abs(exact - binned).sum(axis=1).mean() / 2)


def _choose_points(values: Values, cuts: Sequence[float], variable: Continuous, nodes: int) -> Values:
    """Return quadrature points in every bin, as quantiles of the variable inside it; evenly spaced in bins without a
    sample.
    """
    levels = (1 + np.polynomial.legendre.leggauss(nodes)[0]) / 2
    spread = float(np.ptp(values)) or 1.0
    points = []
    for low, high in pairwise((variable.domain[0], *cuts, variable.domain[1])):
        inside = values[(values >= low) & (values < high)]
        if len(inside):
            points.append(np.quantile(inside, levels))
            continue
        near = high - spread if math.isinf(low) else low
        points.append(near + levels * ((low + spread if math.isinf(high) else high) - near))
    return np.concatenate(points)


def _compute_masses(potential: Potential, given: Mapping[str, NDArray[Any]], child: Discrete) -> Values:
    """Return the probabilities (rows, states or bins of the child) for every row of the parents' codes or values.

    Scales are common to a row, and rows are divided by their sums, so that the scales cancel.
    """
    rows = len(next(iter(given.values()))) if given else 1
    blocks = ({name: values[block] for name, values in given.items()} for block in slice_blocks(rows, _ROWS))
    masses = np.concatenate([_compute_block(potential, block, child) for block in blocks])
    return np.asarray(masses / masses.sum(axis=1, keepdims=True))


def _compute_block(potential: Potential, given: Mapping[str, NDArray[Any]], child: Discrete) -> Values:
    axes = {name: values[None, :] for name, values in given.items()}
    if isinstance(potential.child, Discrete):
        values, _ = potential.on({**axes, child.name: np.arange(len(child))})
    else:
        low, high = potential.child.domain
        edges = np.array([low, *(child.cuts or ()), high])
        if not potential.exact_mass:
            return potential.integrate_bins(edges, given)
        values, _ = potential.mass(axes, edges)
    return np.asarray(np.reshape(values, (len(child), -1)).T)
