"""Networks in Elvira's format (``.elv``): tables, and mixtures of truncated exponentials as trees.

Elvira rounds coefficients to three digits, so its files need repair: masses are not 1, densities are negative in
places, and a relation gives no density for some cells of the parents. Each repair is reported.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from hybridbn.errors import FormatError, HybridBNError, NetworkError, warn_user
from hybridbn.formats.networks import register_format
from hybridbn.formats.networks.elvira_syntax import (
    ENDLESS,
    ElviraCase,
    ElviraDensity,
    ElviraNode,
    ElviraRelation,
    ElviraSyntax,
    ElviraTree,
    parse_syntax,
)
from hybridbn.formats.networks.elvira_writer import write_elvira
from hybridbn.formats.networks.exchange import describe_fault, parse_states
from hybridbn.formats.parsing import NUMBER, RowNormalizer, SourceText, decode_source, parse_probabilities, read_source
from hybridbn.potentials import MTE, Multinomial, Piece
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte.pieces import compile_pieces
from hybridbn.potentials.mte.terms import minimize_on_box
from hybridbn.variables import Continuous, Discrete, Values, Variable, shorten

if TYPE_CHECKING:
    from hybridbn.network import Network

__all__ = ["discrete_of", "parse_elvira", "read_elvira", "repair_mixture"]

_CELLS = 5_000_000
"""A relation whose pieces make a larger grid of cells is refused: a small file can name a grid that fills the memory.
"""
_LARGEST_TABLE = 8_000_000
"""A table with more numbers (64 MB) is refused, unless the file has as many characters: a small tree can name a huge
one.
"""
_ROUNDING = 5.1e-4
"""Differences up to this come from rounding: Elvira prints min and max with three decimals."""
_DEEPEST = 0.1
"""A density whose minimum is further below zero, relative to its peak, is refused; three digits leave less than a
fifth.
"""
_MASS_TOLERANCE = 1e-6
"""Densities whose mass is this near to 1 are not normalized."""


def read_elvira(
    path: str | os.PathLike[str], *, normalize: bool = True, encoding: str | None = None, bare_rate: float | None = None
) -> Network:
    """Read a network of discrete and continuous variables from a file of Elvira.

    Parameters
    ----------
    path : str or path
    normalize : bool, optional
        Elvira prints three digits, so masses are not 1, and densities may be negative in places. By default these are
        lifted to zero and divided by their mass, and a warning says how far off they were. With False everything is
        kept as given; negative densities, and probabilities whose sum differs from 1 by more than 1e-6, are refused.
    encoding : str, optional
        By default UTF-8, or Latin-1 where the text is not UTF-8.
    bare_rate : float, optional
        The coefficient of ``X`` in ``exp(X)``, where none is written. By default it is 1, with a warning, because
        Elvira's own parser takes it for 2; give 1 or 2 to say which is meant.

    Returns
    -------
    Network
        With `Multinomial` potentials for tables and `MTE` for trees of densities. The domain of a continuous variable
        is where its own relation is defined.

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
    return _ElviraReader(read_source(path, encoding), normalize, bare_rate).build()


def parse_elvira(
    text: str, *, normalize: bool = True, bare_rate: float | None = None, source: str = "<text>"
) -> Network:
    """Make a network from text; `source` is what error messages call it. See `read_elvira`.

    Examples
    --------
    >>> node = "node c(finite-states) { states = (no yes); }"
    >>> net = parse_elvira(f"bnet b {{ {node} relation c {{ values = table (0.25 0.75); }} }}")
    >>> net.potential("c").table
    array([0.25, 0.75])
    """
    return _ElviraReader(decode_source(text.encode(), source, None), normalize, bare_rate).build()


class _ElviraLeaf(NamedTuple):
    """A density with the states and the box for which it holds."""

    given: dict[str, int]
    box: dict[str, tuple[float, float]]
    density: ElviraDensity


def _read_comment(node: ElviraNode) -> dict[str, str]:
    """Return the properties that hybridbn wrote into a node's comment."""
    head, *words = node.comment.split()[:8] or [""]
    parts = [word.partition("=") for word in words] if head == "hybridbn" else []
    return {key: value for key, _, value in parts}


def discrete_of(node: ElviraNode, source: SourceText, default: list[str] | None) -> Discrete:
    """Return the variable of a node with states, with the types and cuts that hybridbn wrote into its comment."""
    states = node.states or default
    if not states:
        source.fail(node.at, f"{node.name!r} has no states")
    if node.count is not None and node.count != str(len(states)):
        source.fail(node.at, f"{node.name!r} is declared with {node.count[:20]} states, but {len(states)} are listed")
    comment = _read_comment(node)
    try:
        typed: Sequence[Any] = states
        if "states" in comment:
            typed = parse_states(unquote(comment["states"]), len(states))
        cuts = tuple(map(float, comment["cuts"].split(","))) if "cuts" in comment else None
        return Discrete(node.name, tuple(typed), cuts)
    except ValueError as error:
        source.fail(node.at, describe_fault(node.name, error))


class _ElviraReader:
    """Turns the syntax of a file into a network."""

    def __init__(self, source: SourceText, normalize: bool, bare_rate: float | None) -> None:
        self.source, self.normalize, self.bare_rate = source, normalize, bare_rate
        self.rows = RowNormalizer(source.name, normalize)
        self.repairs: list[str] = []
        self.bare: tuple[str, int] | None = None
        self.syntax: ElviraSyntax = parse_syntax(source)
        self.variables: dict[str, Variable] = {}
        self.labels: dict[str, dict[str, int]] = {}

    def build(self) -> Network:
        """Read all relations and make the network."""
        from hybridbn.network import Network

        relations = self._check_relations()
        for node in self.syntax.nodes.values():
            if node.kind != "chance":
                self.source.fail(node.at, f"{node.name!r} is a {node.kind[:20]} node; only chance nodes can be read")
            self.variables[node.name] = (
                self._make_continuous(node, relations[node.name])
                if node.continuous
                else discrete_of(node, self.source, self.syntax.states)
            )
            if not node.continuous:
                self.labels[node.name] = {
                    label: code for code, label in enumerate(node.states or self.syntax.states or ())
                }
        potentials = [self._make_potential(relations[name]) for name in self.variables]
        self._report_repairs()
        try:
            return Network(potentials)
        except HybridBNError as error:
            raise FormatError(f"{self.source.name}: {error}") from None

    def _report_repairs(self) -> None:
        if self.bare is not None:
            self.repairs.append(
                f"{self.bare[1]} exponents without a coefficient, such as exp({self.bare[0]}), were taken for"
                " coefficient 1, while Elvira takes 2 (bare_rate=1 or bare_rate=2 says which is meant)"
            )
        if self.repairs:
            more = f"; and {len(self.repairs) - 4} other repairs" if len(self.repairs) > 4 else ""
            warn_user(f"{self.source.name}: {'; '.join(self.repairs[-4:])}{more}")
        self.rows.warn()

    # -- nodes and relations -----------------------------------------------------------------------------------------

    def _check_relations(self) -> dict[str, ElviraRelation]:
        """Return the relation of each node, refusing what does not fit together."""
        nodes, relations = self.syntax.nodes, dict[str, ElviraRelation]()
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
            if child in relations:
                self.source.fail(relation.at, f"a second relation for {child!r}")
            if relation.table is None and relation.tree is None:
                self.source.fail(relation.at, f"the relation of {child!r} has no `values`")
            relations[child] = relation
        missing = [name for name in nodes if name not in relations]
        if missing:
            raise FormatError(f"{self.source.name}: no relation for {shorten(missing)}; is the file complete?")
        for parent, child, at in self.syntax.links:
            for name in (parent, child):
                if name not in nodes:
                    self.source.fail(at, f"a link mentions {name[:60]!r}, which is no node")
            if parent not in relations[child].names[1:]:
                self.source.fail(
                    at, f"a link {parent} -> {child}, but the relation of {child!r} does not mention {parent!r}"
                )
        return relations

    def _make_continuous(self, node: ElviraNode, relation: ElviraRelation) -> Continuous:
        """Return a variable with the domain on which its own relation is defined."""
        comment = _read_comment(node)
        try:
            if "domain" in comment:
                low, high = map(float, comment["domain"].split(","))
                return Continuous(node.name, (low, high))
        except ValueError as error:
            self.source.fail(node.at, describe_fault(node.name, error))
        ends = dict[str, float]()
        for key, text in node.ends.items():
            if not NUMBER.fullmatch(text):
                self.source.fail(node.at, f"{node.name!r}: {key} = {text[:40]!r} is not a number")
            ends[key] = _restore_infinity(float(text))
        low, high = _hull(relation.tree, node.name) if relation.tree is not None else (math.inf, -math.inf)
        # Elvira rounds min and max to three decimals, but not the cut points, so these are preferred where both agree.
        if "min" in ends and not abs(ends["min"] - low) <= _ROUNDING:
            low = min(low, ends["min"])
        if "max" in ends and not abs(ends["max"] - high) <= _ROUNDING:
            high = max(high, ends["max"])
        if not low < high:
            self.source.fail(node.at, f"{node.name!r} has no range: neither min and max nor cut points give one")
        return Continuous(node.name, (low, high))

    # -- potentials ------------------------------------------------------------------------------------------------

    def _make_potential(self, relation: ElviraRelation) -> Potential:
        child, *parents = (self.variables[name] for name in relation.names)
        discrete = [v for v in (child, *parents) if isinstance(v, Discrete)]
        if relation.tree is not None and len(discrete) <= len(parents):
            return self._make_mixture(relation, relation.tree, child, parents)
        if len(discrete) <= len(parents):
            other = next(v.name for v in (child, *parents) if isinstance(v, Continuous))
            self.source.fail(relation.at, f"the relation of {child.name!r} is a table, but {other!r} is continuous")
        sizes = [len(v) for v in discrete]
        if math.prod(sizes) > max(_LARGEST_TABLE, len(self.source.text)):
            self.source.fail(relation.at, f"the table of {child.name!r} would have {math.prod(sizes):.3g} numbers")
        if relation.table is not None:
            at = self.source.text.find(relation.table, relation.at)
            table = parse_probabilities(
                relation.table,
                math.prod(sizes),
                lambda offset, reason: self.source.fail(max(at, relation.at) + max(offset, 0), reason),
                child.name,
            ).reshape(sizes)
        else:
            table = self._fill_table(relation, [v.name for v in discrete], sizes)
        table = self.rows.normalize_rows(
            np.moveaxis(table, 0, -1), child.name, lambda reason: self.source.fail(relation.at, reason)
        )
        return Multinomial(discrete[0], parents=discrete[1:], table=np.ascontiguousarray(table))

    def _fill_table(self, relation: ElviraRelation, names: list[str], sizes: list[int]) -> Values:
        """Return the table that a tree over states stands for."""
        table = np.full(sizes, np.nan)
        for leaf in self._collect_leaves(relation):
            (coefficient, rates), *more = leaf.density.terms
            value = float(coefficient)
            if more or rates or not 0 <= value <= 1.01:
                self.source.fail(leaf.density.at, f"expected a probability of {names[0]!r}, found another term")
            table[tuple(leaf.given.get(name, slice(None)) for name in names)] = value
        return table

    def _make_mixture(
        self, relation: ElviraRelation, tree: ElviraTree, child: Variable, parents: Sequence[Variable]
    ) -> Potential:
        leaves = self._collect_leaves(relation)
        grid = math.prod(len(v) for v in (child, *parents) if isinstance(v, Discrete))
        for variable in (child, *parents):
            ends = {end for leaf in leaves for end in leaf.box.get(variable.name, ())}
            grid *= max(len(ends) - 1, 1) if isinstance(variable, Continuous) else 1
        if grid > _CELLS:
            self.source.fail(relation.at, f"the pieces of {child.name!r} make a grid of {grid:.3g} cells")
        states = {v.name: v.states for v in (child, *parents) if isinstance(v, Discrete)}
        continuous = {v.name for v in (child, *parents) if isinstance(v, Continuous)}
        try:
            pieces = [self._make_piece(leaf, states, continuous) for leaf in leaves]
            potential, repairs = repair_mixture(child, parents, pieces, self.normalize)
        except FormatError:
            raise
        except HybridBNError as error:
            self.source.fail(relation.at, str(error))
        except ArithmeticError:
            self.source.fail(relation.at, f"the coefficients or exponents of {child.name!r} are beyond all numbers")
        self.repairs += repairs
        return potential

    def _make_piece(self, leaf: _ElviraLeaf, states: dict[str, tuple[Any, ...]], continuous: set[str]) -> Piece:
        given = {name: states[name][code] for name, code in leaf.given.items()}
        terms = [(size, self._convert_rates(rates, continuous, leaf.density)) for size, rates in leaf.density.terms]
        constants: list[Any] = [size for size, rates in terms if not rates] or [0.0]
        exponentials = [(size, rates) for size, rates in terms if rates]
        # Several constants in one sum are added up as terms without rates.
        return Piece(leaf.box, given, constants[0], (*exponentials, *((size, {}) for size in constants[1:])))

    def _convert_rates(self, rates: dict[str, str], continuous: set[str], density: ElviraDensity) -> dict[str, Any]:
        coefficients: dict[str, Any] = {}
        for name, size in rates.items():
            if name not in continuous:
                self.source.fail(density.at, f"{name[:60]!r} in an exponent is no continuous variable of this relation")
            if size in ("", "-"):
                if self.bare_rate is None:
                    self.bare = (name, 1 + (self.bare[1] if self.bare else 0))
                coefficients[name] = (-1 if size else 1) * (1.0 if self.bare_rate is None else self.bare_rate)
            else:
                coefficients[name] = float(
                    size
                )  # as stored, so that the anchored coefficient belongs to this very rate
        return coefficients

    # -- trees -----------------------------------------------------------------------------------------------------

    def _collect_leaves(self, relation: ElviraRelation) -> list[_ElviraLeaf]:
        """Return the densities of a tree with the states and boxes for which they hold."""
        leaves: list[_ElviraLeaf] = []
        names = relation.names
        # In files of hybridbn, values without a density are meant.
        whole = any("domain" in _read_comment(self.syntax.nodes[name]) for name in names)
        holes: dict[str, tuple[float, float]] = {}

        def walk(tree: ElviraTree, given: dict[str, int], box: dict[str, tuple[float, float]]) -> None:
            if isinstance(tree, ElviraDensity):
                leaves.append(_ElviraLeaf(given, box, tree))
                return
            if tree.name not in names:
                self.source.fail(
                    tree.at, f"a case over {tree.name[:60]!r}, which the relation of {names[0]!r} does not mention"
                )
            variable = self.variables[tree.name]
            if isinstance(variable, Discrete):
                if tree.cuts is not None:
                    self.source.fail(tree.at, f"cut points for {tree.name!r}, which has states")
                for code, branch in self._check_branches(tree, self.labels[tree.name]):
                    if given.get(tree.name, code) == code:
                        walk(branch, {**given, tree.name: code}, box)
                return
            edges = self._check_edges(tree)
            low, high = box.get(tree.name, variable.domain)
            if tree.name != names[0] and not whole:
                hole = max(edges[0] - low, high - edges[-1])
                if hole > 1e-3 * (high - low) and hole > holes.get(tree.name, (0.0, 0.0))[0]:
                    holes[tree.name] = (hole, variable.domain[1] - variable.domain[0])
                edges = [min(edges[0], low), *edges[1:-1], max(edges[-1], high)]
            cells = {str(number): number for number in range(len(edges) - 1)}
            for number, branch in self._check_branches(tree, cells):
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
        return leaves

    def _check_branches(self, tree: ElviraCase, labels: dict[str, int]) -> list[tuple[int, ElviraTree]]:
        """Return the branches of a case by code, one for each label."""
        branches: dict[int, ElviraTree] = {}
        for label, branch in tree.branches:
            if label not in labels:
                known = shorten(list(labels)).replace("'", "")
                self.source.fail(
                    tree.at, f"the case over {tree.name!r} has a branch {label[:40]!r}; its branches are {known}"
                )
            if labels[label] in branches:
                self.source.fail(tree.at, f"the case over {tree.name!r} has the branch {label!r} twice")
            branches[labels[label]] = branch
        if len(branches) < len(labels):
            missing = [label for label, code in labels.items() if code not in branches]
            self.source.fail(
                tree.at, f"the case over {tree.name!r} has no branch {shorten(missing)}; is the file complete?"
            )
        return list(branches.items())

    def _check_edges(self, tree: ElviraCase) -> list[float]:
        if tree.cuts is None or len(tree.cuts) < 2:
            self.source.fail(tree.at, f"the case over {tree.name!r} needs two cut points at least, as it is continuous")
        edges = [_restore_infinity(float(cut)) for cut in tree.cuts]
        if any(not a < b for a, b in itertools.pairwise(edges)):
            self.source.fail(tree.at, f"the cut points of {tree.name!r} don't increase")
        return edges


def _restore_infinity(number: float) -> float:
    """Return a number, infinite where the file has the largest double instead."""
    return math.copysign(math.inf, number) if abs(number) >= ENDLESS else number


def _hull(tree: ElviraTree, name: str) -> tuple[float, float]:
    """Return the lowest and the highest cut point of a variable."""
    if isinstance(tree, ElviraDensity):
        return math.inf, -math.inf
    ends = [_hull(branch, name) for _, branch in tree.branches]
    if tree.name == name and tree.cuts:
        ends.append((_restore_infinity(float(tree.cuts[0])), _restore_infinity(float(tree.cuts[-1]))))
    return min((low for low, _ in ends), default=math.inf), max((high for _, high in ends), default=-math.inf)


def repair_mixture(
    child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece], normalize: bool
) -> tuple[MTE, list[str]]:
    """Return pieces as an MTE of mass 1, with a description of each repair.

    Where the child has no mass at all it becomes uniform. A constant is added to pieces that are negative somewhere;
    then each configuration of the parents is divided by its mass.

    Examples
    --------
    >>> from hybridbn.variables import Continuous
    >>> x = Continuous("x", domain=(0, 1))
    >>> repair_mixture(x, (), [Piece({"x": (0, 1)}, constant=0.998)], True)
    (f(x) =
      1  if everywhere, ["the mass of 'x' was 0.998 and was made 1"])
    """
    repairs: list[str] = []
    if not normalize:
        return MTE(child, parents=parents, pieces=pieces, normalize=None), repairs
    massless = _find_massless(child, pieces)
    if massless:
        repairs.append(
            f"{child.name!r} had no mass at all for some values of its parents; a uniform one was taken there"
        )
        pieces = [replace(piece, constant=1.0, terms=()) if p in massless else piece for p, piece in enumerate(pieces)]
    try:
        mixture = MTE(child, parents=parents, pieces=pieces, normalize=None)
    except NetworkError as error:
        if "is negative" not in str(error):
            raise
        pieces, depth = _lift(child, parents, pieces)
        repairs.append(
            f"the density of {child.name!r} was negative in places (down to {depth:.3g} of its peak) and was lifted"
        )
        mixture = MTE(child, parents=parents, pieces=pieces, normalize=None)
    if mixture.mass_error <= _MASS_TOLERANCE:
        return mixture, repairs
    try:
        normal = MTE(child, parents=parents, pieces=pieces, normalize=True)
    except NetworkError as error:
        raise NetworkError(f"{error}; normalize=False reads the network with the densities as given") from None
    off = f"off by up to {mixture.mass_error:.3g}" if parents else f"{mixture.integral():.4g}"
    repairs.append(f"the mass of {child.name!r} was {off} and was made 1")
    # Made from its terms, so that its mass error is its own, not that of the file.
    return MTE._of(normal.variables, normal._blocks), repairs


def _find_massless(child: Variable, pieces: Sequence[Piece]) -> set[int]:
    """Return the pieces of the configurations of the parents for which all pieces are zero."""
    groups: dict[object, list[int]] = {}
    positive = set()
    for p, piece in enumerate(pieces):
        parts = [(n, v) for part in (piece.given, piece.box) for n, v in part.items() if n != child.name]
        key = tuple(sorted(parts, key=lambda item: item[0]))
        groups.setdefault(key, []).append(p)
        # By its digits, as a coefficient may be too small for a float.
        sizes = (str(size).lower().partition("e")[0] for size in (piece.constant, *(term[0] for term in piece.terms)))
        if any(size.strip("+-0.") for size in sizes):
            positive.add(key)
    return {p for key, numbers in groups.items() if key not in positive for p in numbers}


def _lift(child: Variable, parents: Sequence[Variable], pieces: Sequence[Piece]) -> tuple[list[Piece], float]:
    """Add a constant to each piece that is negative somewhere; return the pieces and the lowest value relative to the
    peak.
    """
    terms = compile_pieces((*parents, child), pieces, child.name)
    lifted, worst, peak = list(pieces), 0.0, 0.0
    for p, piece in enumerate(pieces):
        t = slice(terms.starts[p], terms.starts[p + 1])
        if not (terms.coefficient[t] < 0).any():
            peak = max(peak, float(terms.coefficient[t].max(initial=0.0)))
            continue
        least, _, most = minimize_on_box(terms.coefficient[t], terms.rates[t], terms.low[p], terms.high[p])
        peak = max(peak, most)
        if least < 0:
            worst = max(worst, -least)
            # Slightly more than needed, so that rounding leaves no negative value; as a term, so that the others stay
            # exact.
            lift = -least * (1 + 1e-9) + 1e-15 * float(np.abs(terms.coefficient[t]).sum())
            lifted[p] = replace(piece, terms=(*piece.terms, (lift, {})))
    if not worst <= _DEEPEST * peak:
        raise NetworkError(
            f"{child.name!r} is negative: down to {-worst:.4g}, and its peak is {peak:.4g}; rounding does not explain"
            " that"
        )
    return lifted, worst / peak


register_format((".elv",), read_elvira, write_elvira)
