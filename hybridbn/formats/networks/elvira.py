"""Networks in Elvira's format (``.elv``): tables, and mixtures of truncated exponentials as trees.

What Elvira writes needs repair, because it rounds coefficients to three digits: masses that are not 1, densities that
dip below zero, and cells of the parents for which a relation gives no density. Each repair is reported.
"""

from __future__ import annotations

import itertools
import math
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from hybridbn.errors import FormatError, HybridBNError, NetworkError
from hybridbn.formats.networks import register_format
from hybridbn.formats.networks.elvira_syntax import ENDLESS, Case, Density, Node, Relation, Syntax, Tree, parse
from hybridbn.formats.networks.elvira_writer import write_elvira
from hybridbn.formats.networks.exchange import told, typed_states
from hybridbn.formats.parsing import NUMBER, Rows, Source, numbers, read_source
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte import MTE, Piece
from hybridbn.potentials.mte.exponentials import minimize_on_box
from hybridbn.potentials.mte.pieces import compile_pieces
from hybridbn.potentials.multinomial import Multinomial
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = ["discrete_of", "parse_elvira", "read_elvira", "repaired"]

_CELLS = 5_000_000  # cells in the grid of one relation
_LARGEST_TABLE = 8_000_000  # numbers that a tree may stand for
_PRINTED = 5.1e-4  # Elvira prints min and max with three decimals


def read_elvira(
    path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None, bare_rate: float | None = None
) -> Network:
    """Read a network of discrete and continuous variables from a file of Elvira.

    Parameters
    ----------
    path : str or path
    normalize : bool, optional
        Elvira prints three digits, so masses are not 1, and densities may be negative in places. By default these are
        lifted to zero and divided by their mass, and a warning says by how much they were off. With False everything is kept
        as given, and what is negative, or sums of probabilities that are further off than 1e-6, are refused.
    encoding : str, optional
        By default UTF-8, or Latin-1 where the text is not UTF-8.
    bare_rate : float, optional
        What ``exp(X)`` means, written without a coefficient: Elvira's parser takes it for ``exp(2 X)``. By default it is
        ``exp(1 X)``, as anyone would read it, with a warning; 1 or 2 says which is meant.

    Returns
    -------
    Network
        Of `Multinomial` potentials for tables and `MTE` for trees of densities. A continuous variable's domain is where its
        own relation is defined.

    Raises
    ------
    FormatError
        Naming the file, the line and the reason.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> text = '''bnet "b" { node x(continuous) { min = 0; max = 2; }
    ...   relation x { values = continuous-tree (case x(0, 1, 2) { 0 = 0.25; 1 = 0.75; }); } }'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "b.elv")
    ...     _ = path.write_text(text)
    ...     print(read_elvira(path).potential("x"))
    f(x) =
      0.25  if 0 <= x < 1
      0.75  if 1 <= x < 2
    """
    return _Reader(read_source(path, encoding), normalize, bare_rate).network()


def parse_elvira(
    text: str, *, normalize: bool = True, bare_rate: float | None = None, source: str = "<text>"
) -> Network:
    """Make a network from text; `source` is what error messages call it. See `read_elvira`.

    Examples
    --------
    >>> net = parse_elvira("bnet b { node c(finite-states) { states = (no yes); } relation c { values = table (0.25 0.75); } }")
    >>> net.potential("c").table
    array([0.25, 0.75])
    """
    from hybridbn.formats.parsing import decoded

    return _Reader(decoded(text.encode(), source, None), normalize, bare_rate).network()


class _Leaf(NamedTuple):
    """A density with the states and the box where it holds."""

    given: dict[str, int]
    box: dict[str, tuple[float, float]]
    density: Density


def _kept(node: Node) -> dict[str, str]:
    """Return what hybridbn wrote into a node's comment."""
    head, *words = node.comment.split()[:8] or [""]
    parts = [word.partition("=") for word in words] if head == "hybridbn" else []
    return {key: value for key, _, value in parts}


def discrete_of(node: Node, source: Source, default: list[str] | None) -> Discrete:
    """Return the variable of a node with finitely many states, as hybridbn knew it if its comment tells."""
    states = node.states or default
    if not states:
        source.fail(node.at, f"{node.name!r} has no states")
    if node.count is not None and node.count != str(len(states)):
        source.fail(node.at, f"{node.name!r} is declared with {node.count[:20]} states, but {len(states)} are listed")
    kept = _kept(node)
    try:
        given: Sequence[Any] = states
        if "states" in kept:
            given = typed_states(unquote(kept["states"]), len(states))
        cuts = tuple(map(float, kept["cuts"].split(","))) if "cuts" in kept else None
        return Discrete(node.name, tuple(given), cuts)
    except ValueError as error:
        source.fail(node.at, told(node.name, error))


class _Reader:
    """Turns the syntax of a file into a network."""

    def __init__(self, source: Source, normalize: bool, bare_rate: float | None) -> None:
        self.source, self.normalize, self.bare_rate = source, normalize, bare_rate
        self.rows = Rows(source.name, normalize)
        self.repairs: list[str] = []
        self.bare: tuple[str, int] | None = None
        self.syntax: Syntax = parse(source)
        self.variables: dict[str, Variable] = {}
        self.labels: dict[str, dict[str, int]] = {}

    def network(self) -> Network:
        """Read all relations and make the network."""
        from hybridbn.network import Network

        relations = self._relations()
        for node in self.syntax.nodes.values():
            if node.kind != "chance":
                self.source.fail(node.at, f"{node.name!r} is a {node.kind[:20]} node; only chance nodes can be read")
            self.variables[node.name] = (
                self._continuous(node, relations[node.name])
                if node.continuous
                else discrete_of(node, self.source, self.syntax.states)
            )
            if not node.continuous:
                self.labels[node.name] = {
                    label: code for code, label in enumerate(node.states or self.syntax.states or ())
                }
        potentials = [self._potential(relations[name]) for name in self.variables]
        self._warn()
        try:
            return Network(potentials)
        except HybridBNError as error:
            raise FormatError(f"{self.source.name}: {error}") from None

    def _warn(self) -> None:
        if self.bare is not None:
            self.repairs.append(
                f"{self.bare[1]} exponents without a coefficient, such as exp({self.bare[0]}), were taken for coefficient 1, "
                "while Elvira takes 2 (bare_rate=1 or bare_rate=2 says which is meant)"
            )
        if self.repairs:
            more = f"; and {len(self.repairs) - 4} other repairs" if len(self.repairs) > 4 else ""
            warnings.warn(f"{self.source.name}: {'; '.join(self.repairs[-4:])}{more}", UserWarning, stacklevel=5)
        self.rows.report(stacklevel=5)

    # -- what there is ---------------------------------------------------------------------------------------------

    def _relations(self) -> dict[str, Relation]:
        nodes, found = self.syntax.nodes, dict[str, Relation]()
        if not nodes:
            raise FormatError(f"{self.source.name}: there is no node; is the file complete?")
        for relation in self.syntax.relations:
            if not relation.names:
                self.source.fail(relation.at, "a relation without a variable")
            for name in relation.names:
                if name not in nodes:
                    self.source.fail(relation.at, f"a relation mentions {name[:60]!r}, which is no node")
            child = relation.names[0]
            if len(set(relation.names)) < len(relation.names):
                self.source.fail(relation.at, f"the relation of {child!r} mentions a variable twice")
            if child in found:
                self.source.fail(relation.at, f"a second relation for {child!r}")
            if relation.table is None and relation.tree is None:
                self.source.fail(relation.at, f"the relation of {child!r} has no `values`")
            found[child] = relation
        missing = [name for name in nodes if name not in found]
        if missing:
            raise FormatError(f"{self.source.name}: no relation for {shorten(missing)}; is the file complete?")
        for parent, child, at in self.syntax.links:
            for name in (parent, child):
                if name not in nodes:
                    self.source.fail(at, f"a link mentions {name[:60]!r}, which is no node")
            if parent not in found[child].names[1:]:
                self.source.fail(
                    at, f"a link {parent} -> {child}, but the relation of {child!r} does not mention {parent!r}"
                )
        return found

    def _continuous(self, node: Node, relation: Relation) -> Continuous:
        """Return a variable with the domain on which its own relation is defined."""
        kept = _kept(node)
        try:
            if "domain" in kept:
                low, high = map(float, kept["domain"].split(","))
                return Continuous(node.name, (low, high))
        except ValueError as error:
            self.source.fail(node.at, told(node.name, error))
        ends = dict[str, float]()
        for key, text in node.ends.items():
            if not NUMBER.fullmatch(text):
                self.source.fail(node.at, f"{node.name!r}: {key} = {text[:40]!r} is not a number")
            ends[key] = _endless(float(text))
        low, high = _hull(relation.tree, node.name) if relation.tree is not None else (math.inf, -math.inf)
        # Elvira rounds min and max to three decimals, but not the cut points, so these tell the truth where both agree.
        if "min" in ends and not abs(ends["min"] - low) <= _PRINTED:
            low = min(low, ends["min"])
        if "max" in ends and not abs(ends["max"] - high) <= _PRINTED:
            high = max(high, ends["max"])
        if not low < high:
            self.source.fail(node.at, f"{node.name!r} has no range: neither min and max nor cut points give one")
        return Continuous(node.name, (low, high))

    # -- potentials ------------------------------------------------------------------------------------------------

    def _potential(self, relation: Relation) -> Potential:
        child, *parents = (self.variables[name] for name in relation.names)
        discrete = [v for v in (child, *parents) if isinstance(v, Discrete)]
        if relation.tree is not None and len(discrete) <= len(parents):
            return self._mixture(relation, relation.tree, child, parents)
        if len(discrete) <= len(parents):
            other = next(v.name for v in (child, *parents) if isinstance(v, Continuous))
            self.source.fail(relation.at, f"the relation of {child.name!r} is a table, but {other!r} is continuous")
        sizes = [len(v) for v in discrete]
        if math.prod(sizes) > max(_LARGEST_TABLE, len(self.source.text)):
            self.source.fail(relation.at, f"the table of {child.name!r} would have {math.prod(sizes):.3g} numbers")
        if relation.table is not None:
            at = self.source.text.find(relation.table, relation.at)
            table = numbers(
                relation.table,
                math.prod(sizes),
                lambda offset, reason: self.source.fail(max(at, relation.at) + max(offset, 0), reason),
                child.name,
            ).reshape(sizes)
        else:
            table = self._filled(relation, [v.name for v in discrete], sizes)
        table = self.rows.checked(
            np.moveaxis(table, 0, -1), child.name, lambda reason: self.source.fail(relation.at, reason)
        )
        of = [v for v in parents if isinstance(v, Discrete)]
        return Multinomial(discrete[0], parents=of, table=np.ascontiguousarray(table))

    def _filled(self, relation: Relation, names: list[str], sizes: list[int]) -> Values:
        """Return the table that a tree over states stands for."""
        table = np.full(sizes, np.nan)
        for leaf in self._leaves(relation):
            (coefficient, rates), *more = leaf.density.terms
            value = float(coefficient)
            if more or rates or not 0 <= value <= 1.01:
                self.source.fail(leaf.density.at, f"expected a probability of {names[0]!r}, found another term")
            table[tuple(leaf.given.get(name, slice(None)) for name in names)] = value
        return table

    def _mixture(self, relation: Relation, tree: Tree, child: Variable, parents: Sequence[Variable]) -> Potential:
        leaves = self._leaves(relation)
        grid = math.prod(len(v) for v in (child, *parents) if isinstance(v, Discrete))
        for variable in (child, *parents):
            ends = {end for leaf in leaves for end in leaf.box.get(variable.name, ())}
            grid *= max(len(ends) - 1, 1) if isinstance(variable, Continuous) else 1
        if grid > _CELLS:
            self.source.fail(relation.at, f"the pieces of {child.name!r} make a grid of {grid:.3g} cells")
        states = {v.name: v.states for v in (child, *parents) if isinstance(v, Discrete)}
        continuous = {v.name for v in (child, *parents) if isinstance(v, Continuous)}
        try:
            pieces = [self._piece(leaf, states, continuous) for leaf in leaves]
            potential, told = repaired(child, parents, pieces, self.normalize)
        except FormatError:
            raise
        except HybridBNError as error:
            self.source.fail(relation.at, str(error))
        except ArithmeticError:
            self.source.fail(relation.at, f"the coefficients or exponents of {child.name!r} are beyond all numbers")
        self.repairs += told
        return potential

    def _piece(self, leaf: _Leaf, states: dict[str, tuple[Any, ...]], continuous: set[str]) -> Piece:
        given = {name: states[name][code] for name, code in leaf.given.items()}
        terms = [(size, self._rates(rates, continuous, leaf.density)) for size, rates in leaf.density.terms]
        constants: list[Any] = [size for size, rates in terms if not rates] or [0.0]
        waves = [(size, rates) for size, rates in terms if rates]
        # Several constants in one sum are added up as terms without rates.
        return Piece(leaf.box, given, constants[0], (*waves, *((size, {}) for size in constants[1:])))

    def _rates(self, rates: dict[str, str], continuous: set[str], density: Density) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, size in rates.items():
            if name not in continuous:
                self.source.fail(density.at, f"{name[:60]!r} in an exponent is no continuous variable of this relation")
            if size in ("", "-"):
                if self.bare_rate is None:
                    self.bare = (name, 1 + (self.bare[1] if self.bare else 0))
                found[name] = (-1 if size else 1) * (1.0 if self.bare_rate is None else self.bare_rate)
            else:
                found[name] = float(size)  # as stored, so that the anchored coefficient belongs to this very rate
        return found

    # -- trees -----------------------------------------------------------------------------------------------------

    def _leaves(self, relation: Relation) -> list[_Leaf]:
        """Return the densities of a tree with the states and boxes where they hold."""
        found: list[_Leaf] = []
        names = relation.names
        # hybridbn leaves no holes unless it means them.
        whole = any("domain" in _kept(self.syntax.nodes[name]) for name in names)
        holes: dict[str, tuple[float, float]] = {}

        def walk(tree: Tree, given: dict[str, int], box: dict[str, tuple[float, float]]) -> None:
            if isinstance(tree, Density):
                found.append(_Leaf(given, box, tree))
                return
            if tree.name not in names:
                self.source.fail(
                    tree.at, f"a case over {tree.name[:60]!r}, which the relation of {names[0]!r} does not mention"
                )
            variable = self.variables[tree.name]
            if isinstance(variable, Discrete):
                if tree.cuts is not None:
                    self.source.fail(tree.at, f"cut points for {tree.name!r}, which has states")
                for code, branch in self._branches(tree, self.labels[tree.name]):
                    if given.get(tree.name, code) == code:
                        walk(branch, {**given, tree.name: code}, box)
                return
            edges = self._edges(tree)
            low, high = box.get(tree.name, variable.domain)
            if tree.name != names[0] and not whole:
                hole = max(edges[0] - low, high - edges[-1])
                if hole > 1e-3 * (high - low) and hole > holes.get(tree.name, (0.0, 0.0))[0]:
                    holes[tree.name] = (hole, variable.domain[1] - variable.domain[0])
                edges = [min(edges[0], low), *edges[1:-1], max(edges[-1], high)]
            cells = {str(number): number for number in range(len(edges) - 1)}
            for number, branch in self._branches(tree, cells):
                inside = max(edges[number], low), min(edges[number + 1], high)
                if inside[0] < inside[1]:
                    walk(branch, given, {**box, tree.name: inside})

        if relation.tree is not None:
            walk(relation.tree, {}, {})
        for name, (hole, width) in holes.items():
            self.repairs.append(
                f"{names[0]!r} had no density for some values of {name!r} (on up to {hole / width:.2g} of its range); "
                "that of the nearest cell was taken"
            )
        return found

    def _branches(self, tree: Case, labels: dict[str, int]) -> list[tuple[int, Tree]]:
        found: dict[int, Tree] = {}
        for label, branch in tree.branches:
            if label not in labels:
                known = shorten(list(labels)).replace("'", "")
                self.source.fail(
                    tree.at, f"the case over {tree.name!r} has a branch {label[:40]!r}; its branches are {known}"
                )
            if labels[label] in found:
                self.source.fail(tree.at, f"the case over {tree.name!r} has the branch {label!r} twice")
            found[labels[label]] = branch
        if len(found) < len(labels):
            missing = [label for label, code in labels.items() if code not in found]
            self.source.fail(
                tree.at, f"the case over {tree.name!r} has no branch {shorten(missing)}; is the file complete?"
            )
        return list(found.items())

    def _edges(self, tree: Case) -> list[float]:
        if tree.cuts is None or len(tree.cuts) < 2:
            self.source.fail(tree.at, f"the case over {tree.name!r} needs two cut points at least, as it is continuous")
        edges = [_endless(float(cut)) for cut in tree.cuts]
        if any(not a < b for a, b in itertools.pairwise(edges)):
            self.source.fail(tree.at, f"the cut points of {tree.name!r} don't increase")
        return edges


def _endless(number: float) -> float:
    return math.copysign(math.inf, number) if abs(number) >= ENDLESS else number


def _hull(tree: Tree, name: str) -> tuple[float, float]:
    """Return the lowest and the highest cut point of a variable."""
    if isinstance(tree, Density):
        return math.inf, -math.inf
    ends = [_hull(branch, name) for _, branch in tree.branches]
    if tree.name == name and tree.cuts:
        ends.append((_endless(float(tree.cuts[0])), _endless(float(tree.cuts[-1]))))
    return min((low for low, _ in ends), default=math.inf), max((high for _, high in ends), default=-math.inf)


_DEEPEST = 0.1  # of the peak; three digits leave less than a fifth of that
_KEPT = 1e-6  # masses this near to 1 are kept as they are


def repaired(
    child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece], normalize: bool
) -> tuple[MTE, list[str]]:
    """Return pieces as an MTE of mass 1, and what had to be done for it.

    Where the child has no mass at all it becomes uniform. Pieces that are negative somewhere are lifted by a constant until they are not; then each configuration of the parents
    is divided by its mass.

    Examples
    --------
    >>> from hybridbn.variables import Continuous
    >>> x = Continuous("x", domain=(0, 1))
    >>> repaired(x, (), [Piece({"x": (0, 1)}, constant=0.998)], True)
    (f(x) =
      1  if everywhere, ["the mass of 'x' was 0.998 and was made 1"])
    """
    told: list[str] = []
    if not normalize:
        return MTE(child, parents=parents, pieces=pieces, normalize=None), told
    empty = _without_mass(child, pieces)
    if empty:
        told.append(f"{child.name!r} had no mass at all for some values of its parents; a uniform one was taken there")
        pieces = [replace(piece, constant=1.0, terms=()) if p in empty else piece for p, piece in enumerate(pieces)]
    try:
        found = MTE(child, parents=parents, pieces=pieces, normalize=None)
    except NetworkError as error:
        if "is negative" not in str(error):
            raise
        pieces, depth = _lifted(child, parents, pieces)
        told.append(
            f"the density of {child.name!r} was negative in places (down to {depth:.3g} of its peak) and was lifted"
        )
        found = MTE(child, parents=parents, pieces=pieces, normalize=None)
    if found.mass_error <= _KEPT:
        return found, told
    try:
        normal = MTE(child, parents=parents, pieces=pieces, normalize=True)
    except NetworkError as error:
        raise NetworkError(f"{error}; normalize=False reads the network with the densities as given") from None
    off = f"off by up to {found.mass_error:.3g}" if parents else f"{found.integral():.4g}"
    told.append(f"the mass of {child.name!r} was {off} and was made 1")
    # From its terms, so that the error that it tells is its own, not that of the file.
    return MTE._of(normal.variables, normal._blocks), told


def _without_mass(child: Variable, pieces: Sequence[Piece]) -> set[int]:
    """Return the pieces of the configurations of the parents for which all pieces are zero."""
    groups: dict[object, list[int]] = {}
    alive = set()
    for p, piece in enumerate(pieces):
        parts = [(n, v) for part in (piece.given, piece.box) for n, v in part.items() if n != child.name]
        key = tuple(sorted(parts, key=lambda item: item[0]))
        groups.setdefault(key, []).append(p)
        # By its digits, as a coefficient may be too small for a float.
        sizes = (str(size).lower().partition("e")[0] for size in (piece.constant, *(term[0] for term in piece.terms)))
        if any(size.strip("+-0.") for size in sizes):
            alive.add(key)
    return {p for key, members in groups.items() if key not in alive for p in members}


def _lifted(child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece]) -> tuple[list[Piece], float]:
    """Add a constant to each piece that is negative somewhere; return the pieces and how far they were, relatively."""
    terms = compile_pieces((*parents, child), pieces, child.name)
    result, worst, peak = list(pieces), 0.0, 0.0
    for p, piece in enumerate(pieces):
        t = slice(terms.starts[p], terms.starts[p + 1])
        if not (terms.coefficient[t] < 0).any():
            peak = max(peak, float(terms.coefficient[t].max(initial=0.0)))
            continue
        least, _, most = minimize_on_box(terms.coefficient[t], terms.rates[t], terms.low[p], terms.high[p])
        peak = max(peak, most)
        if least < 0:
            worst = max(worst, -least)
            # A hair more than needed, so that rounding leaves no negative value; as a term, to keep what is given exact.
            lift = -least * (1 + 1e-9) + 1e-15 * float(np.abs(terms.coefficient[t]).sum())
            result[p] = replace(piece, terms=(*piece.terms, (lift, {})))
    if not worst <= _DEEPEST * peak:
        raise NetworkError(
            f"{child.name!r} is negative: down to {-worst:.4g}, and its peak is {peak:.4g}; rounding does not explain that"
        )
    return result, worst / peak


register_format((".elv",), read_elvira, write_elvira)
