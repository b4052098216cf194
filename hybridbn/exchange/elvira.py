"""Networks in Elvira's format (``.elv``): tables, and mixtures of truncated exponentials as trees.

Elvira rounds coefficients to three digits, so its files need repair: masses are not 1, densities are negative in
places, and a relation gives no density for some cells of the parents. Each repair is reported.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from hybridbn.errors import FormatError, HybridBNError, warn_user
from hybridbn.exchange import register_format
from hybridbn.exchange.discrete_networks import (
    Bins,
    build_network,
    check_text,
    convert_potentials,
    describe_fault,
    encode_properties,
    format_states,
    make_words,
    restore_variable,
    table_of,
    write_text,
)
from hybridbn.exchange.elvira_syntax import (
    ENDLESS,
    ElviraCase,
    ElviraDensity,
    ElviraNode,
    ElviraRelation,
    ElviraTree,
    parse_syntax,
)
from hybridbn.exchange.parsing import (
    NUMBER,
    RowNormalizer,
    SourceText,
    check_scope,
    decode_source,
    parse_probabilities,
    read_source,
    remove_quotes,
)
from hybridbn.network import Network
from hybridbn.potentials import MTE, Multinomial, Piece
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte.terms import ANY, Terms
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable, shorten

_CELLS = 5_000_000
"""A relation whose pieces make a larger grid of cells is refused: a small file can name a grid that fills the memory.
"""
_LARGEST_TABLE = 8_000_000
"""A table with more numbers (64 MB) is refused, unless the file has as many characters: a small tree can name a huge
one.
"""
_ROUNDING = 5.1e-4
"""Differences up to this come from rounding: Elvira prints min and max with three decimals."""


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


_ElviraLeaf: TypeAlias = tuple[dict[str, int], dict[str, tuple[float, float]], ElviraDensity]
"""The states and the box for which a density holds, and the density."""


def _read_comment(node: ElviraNode) -> dict[str, str]:
    """Return the properties that hybridbn wrote into a node's comment."""
    head, *words = remove_quotes(node.properties.get("comment", "")).split()[:8] or [""]
    parts = [word.partition("=") for word in words] if head == "hybridbn" else []
    return {key: value for key, _, value in parts}


def discrete_of(node: ElviraNode, source: SourceText, default: list[str] | None) -> Discrete:
    """Return the variable of a node with states, with the types and cuts that hybridbn wrote into its comment."""
    states = node.states or default
    if not states:
        source.fail(node.at, f"{node.name!r} has no states")
    count = node.properties.get("num-states", str(len(states)))
    if count != str(len(states)):
        source.fail(node.at, f"{node.name!r} is declared with {count[:20]} states, but {len(states)} are listed")
    properties = {f"hybridbn_{key}": value for key, value in _read_comment(node).items()}
    return restore_variable(node.name, states, properties, partial(source.fail, node.at))


class _ElviraReader:
    """Turns the syntax of a file into a network."""

    def __init__(self, source: SourceText, normalize: bool, bare_rate: float | None) -> None:
        self.source, self.normalize, self.bare_rate = source, normalize, bare_rate
        self.rows = RowNormalizer(source.name, normalize)
        self.repairs: list[str] = []
        self.bare: tuple[str, int] | None = None
        self.syntax = parse_syntax(source)
        self.variables: dict[str, Variable] = {}

    def build(self) -> Network:
        """Read all relations and make the network."""
        relations = self._check_relations()
        for node in self.syntax.nodes.values():
            kind = node.properties.get("kind-of-node", "chance")
            if kind != "chance":
                self.source.fail(node.at, f"{node.name!r} is a {kind[:20]} node; only chance nodes can be read")
            self.variables[node.name] = (
                self._make_continuous(node, relations[node.name])
                if node.continuous
                else discrete_of(node, self.source, self.syntax.states)
            )
        potentials = {name: self._make_potential(relations[name]) for name in self.variables}
        self._report_repairs()
        return build_network(potentials, self.variables, self.rows)

    def _report_repairs(self) -> None:
        if self.bare is not None:
            self.repairs.append(
                f"{self.bare[1]} exponents without a coefficient, such as exp({self.bare[0]}), were taken for"
                " coefficient 1, while Elvira takes 2 (bare_rate=1 or bare_rate=2 says which is meant)"
            )
        if self.repairs:
            more = f"; and {len(self.repairs) - 4} other repairs" if len(self.repairs) > 4 else ""
            warn_user(f"{self.source.name}: {'; '.join(self.repairs[-4:])}{more}")

    # -- nodes and relations -----------------------------------------------------------------------------------------

    def _check_relations(self) -> dict[str, ElviraRelation]:
        """Return the relation of each node, refusing what does not fit together."""
        nodes, relations = self.syntax.nodes, dict[str, ElviraRelation]()
        for relation in self.syntax.relations:
            if not relation.names:
                self.source.fail(relation.at, "a relation without a variable")
            fail = partial(self.source.fail, relation.at)
            check_scope(relation.names, nodes, relations, "relation", fail)
            child = relation.names[0]
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
        for key in node.properties.keys() & {"min", "max"}:
            text = node.properties[key]
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
            fail = partial(self.source.fail_at, max(at, relation.at))
            table = parse_probabilities(relation.table, math.prod(sizes), fail, child.name).reshape(sizes)
        else:
            table = self._fill_table(relation, [v.name for v in discrete], sizes)
        table = self.rows.normalize_rows(np.moveaxis(table, 0, -1), child.name, partial(self.source.fail, relation.at))
        return Multinomial(discrete[0], parents=discrete[1:], table=np.ascontiguousarray(table))

    def _fill_table(self, relation: ElviraRelation, names: list[str], sizes: list[int]) -> Values:
        """Return the table that a tree over states stands for."""
        table = np.full(sizes, np.nan)
        for given, _, density in self._collect_leaves(relation):
            (coefficient, rates), *more = density.terms
            value = float(coefficient)
            if more or rates or not 0 <= value <= 1.01:
                self.source.fail(density.at, f"expected a probability of {names[0]!r}, found another term")
            table[tuple(given.get(name, slice(None)) for name in names)] = value
        return table

    def _make_mixture(
        self, relation: ElviraRelation, tree: ElviraTree, child: Variable, parents: Sequence[Variable]
    ) -> Potential:
        leaves = self._collect_leaves(relation)
        grid = math.prod(len(v) for v in (child, *parents) if isinstance(v, Discrete))
        for variable in (child, *parents):
            ends = {end for _, box, _ in leaves for end in box.get(variable.name, ())}
            grid *= max(len(ends) - 1, 1) if isinstance(variable, Continuous) else 1
        if grid > _CELLS:
            self.source.fail(relation.at, f"the pieces of {child.name!r} make a grid of {grid:.3g} cells")
        states = {v.name: v.states for v in (child, *parents) if isinstance(v, Discrete)}
        continuous = {v.name for v in (child, *parents) if isinstance(v, Continuous)}
        try:
            pieces = [self._make_piece(leaf, states, continuous) for leaf in leaves]
            potential, repairs = MTE.from_rounded(child, parents, pieces, self.normalize)
        except FormatError:
            raise
        except HybridBNError as error:
            self.source.fail(relation.at, str(error))
        except ArithmeticError:
            self.source.fail(relation.at, f"the coefficients or exponents of {child.name!r} are beyond all numbers")
        self.repairs += repairs
        return potential

    def _make_piece(self, leaf: _ElviraLeaf, states: dict[str, tuple[Any, ...]], continuous: set[str]) -> Piece:
        codes, box, density = leaf
        given = {name: states[name][code] for name, code in codes.items()}
        terms = [(size, self._convert_rates(rates, continuous, density)) for size, rates in density.terms]
        constants: list[Any] = [size for size, rates in terms if not rates] or [0.0]
        exponentials = [(size, rates) for size, rates in terms if rates]
        # Several constants in one sum are added up as terms without rates.
        return Piece(box, given, constants[0], (*exponentials, *((size, {}) for size in constants[1:])))

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
                leaves.append((given, box, tree))
                return
            if tree.name not in names:
                self.source.fail(
                    tree.at, f"a case over {tree.name[:60]!r}, which the relation of {names[0]!r} does not mention"
                )
            variable = self.variables[tree.name]
            if isinstance(variable, Discrete):
                if tree.cuts is not None:
                    self.source.fail(tree.at, f"cut points for {tree.name!r}, which has states")
                labels = self.syntax.nodes[tree.name].states or self.syntax.states or ()
                for code, branch in self._check_branches(tree, labels):
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
            for number, branch in self._check_branches(tree, list(map(str, range(len(edges) - 1)))):
                inside = max(edges[number], low), min(edges[number + 1], high)
                if inside[0] < inside[1]:
                    walk(branch, given, {**box, tree.name: inside})

        if relation.tree is not None:
            walk(relation.tree, {}, {})
        self.repairs += [
            f"{names[0]!r} had no density for some values of {name!r} (on up to {hole / width:.2g} of its range); "
            "that of the nearest cell was taken"
            for name, (hole, width) in holes.items()
        ]
        return leaves

    def _check_branches(self, tree: ElviraCase, known: Sequence[str]) -> list[tuple[int, ElviraTree]]:
        """Return the branches of a case by code, one for each known label."""
        labels = {label: code for code, label in enumerate(known)}
        branches: dict[int, ElviraTree] = {}
        for label, branch in tree.branches:
            if label not in labels:
                listed = shorten(known).replace("'", "")
                self.source.fail(
                    tree.at, f"the case over {tree.name!r} has a branch {label[:40]!r}; its branches are {listed}"
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


# -- writing ----------------------------------------------------------------------------------------------------------


_WORDS = (
    "bnet node link relation case exp gauss table tree values states default title comment min max precision true false"
    " continuous chance decision utility potential deterministic version kindofgraph visualprecision relevance purpose"
    " active"
)
_KEYWORDS = frozenset(_WORDS.split())
"""Names that mean something in the format, so nodes can't have them."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LARGEST, _SMALLEST = 1e308, 1e-307
"""Coefficients beyond these would be infinite or zero when Elvira reads them as doubles."""


def format_elvira(network: Network, *, bins: Bins | None = None, beyond_doubles: bool = False) -> str:
    """Return a network of `Multinomial` and `MTE` potentials as the text of a file of Elvira.

    Numbers have 17 digits, and every exponent its coefficient. Elvira has no infinite numbers, so the largest double
    stands for an infinite end of a density. Names that are not plain words are quoted; states that are not become words
    (``s1`` for the number 1), and `read_elvira` restores them from a comment.

    Parameters
    ----------
    network : Network
    bins : int or mapping, optional
        Cut the continuous variables into bins; see `hybridbn.exchange.discrete_networks.discretize`. Needed where a
        potential is neither a table nor an MTE.
    beyond_doubles : bool, optional
        In Elvira a term is ``c exp(b X)``, so ``c`` may lie beyond the range of doubles where ``X`` is far from zero.
        Such a network is refused unless this is True; then hybridbn reads the file, but Elvira does not.

    Raises
    ------
    FormatError
        Naming the nodes that can't be written, and the remedy.

    Examples
    --------
    >>> import hybridbn as hb
    >>> x = hb.Continuous("x")
    >>> f = hb.MTE(x, pieces=[hb.Piece({"x": (0, float("inf"))}, terms=[(0.5, {"x": -0.5})])])
    >>> print(format_elvira(hb.Network([f])).partition("relation")[2])
     x {
    kind-of-relation = potential;
    deterministic=false;
    values= continuous-tree (
    case x(0.0, 1.7976931348623157E308) {
      0 = 5.0000000000000000E-1*exp(-0.5*x);
    }
    );
    }
    <BLANKLINE>
    }
    <BLANKLINE>
    """
    held: list[Multinomial | MTE] = convert_potentials(
        network,
        bins,
        "Elvira",
        _table_or_mixture,
        "Elvira's files hold tables and MTEs",
        "learn them as MTEs (potentials='mte'), save the network as .hbn, or cut the continuous variables with bins=",
    )
    writer = _ElviraWriter([potential.child for potential in held], beyond_doubles)
    lines = [
        "// Bayesian Network",
        "// Elvira format",
        "",
        'bnet "hybridbn" {',
        "",
        "// Network Properties",
        "",
        'kindofgraph = "directed";',
        'visualprecision = "0.00";',
        "version = 1.0;",
        'default node states = ("present" , "absent");',
        "",
        "// Variables",
        "",
        *(line for potential in held for line in writer.format_node(potential.child)),
        "// Links",
        "",
        *(
            f"link {writer.names[parent.name]} {writer.names[potential.child.name]};\n"
            for potential in held
            for parent in potential.parents
        ),
        "// Relations",
        "",
        *(line for potential in held for line in writer.format_relation(potential)),
    ]
    writer.refuse_distant()
    return "\n".join([*lines, "}", ""])


def _table_or_mixture(potential: Potential) -> Multinomial | MTE | None:
    if isinstance(potential, MTE) and any(isinstance(variable, Continuous) for variable in potential.variables):
        return potential
    return table_of(potential)


def _quote(name: str) -> str:
    if _WORD.fullmatch(name) and name not in _KEYWORDS:
        return name
    return f'"{check_text(name, "the name", "for Elvira")}"'


def _format_number(value: float) -> str:
    """Return a number as Java writes it, with the largest double for infinity."""
    if math.isinf(value):
        value = math.copysign(ENDLESS, value)
    mantissa, e, exponent = repr(float(value)).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


class _ElviraWriter:
    """Formats the parts of a network; `names` and `states` hold the words that stand for them in the file."""

    def __init__(self, variables: Sequence[Variable], beyond_doubles: bool) -> None:
        self.names = {variable.name: _quote(variable.name) for variable in variables}
        self.states: dict[str, dict[Hashable, str]] = {}
        self.beyond_doubles = beyond_doubles
        self.distant: dict[str, str] = {}

    def refuse_distant(self) -> None:
        """Refuse coefficients that Elvira would read as infinite or as zero."""
        if self.distant and not self.beyond_doubles:
            name, coefficient = next(iter(self.distant.items()))
            raise FormatError(
                f"the densities of {', '.join(map(repr, list(self.distant)[:8]))} have coefficients beyond the range of"
                f" doubles when written for Elvira (such as {coefficient} for {name!r}), because the variables lie far"
                " from zero; shift them nearer, save the network as .hbn, or write with beyond_doubles=True what"
                " hybridbn can read but Elvira can't"
            )

    # -- nodes -----------------------------------------------------------------------------------------------------

    def format_node(self, variable: Variable) -> list[str]:
        """Return the lines of a node."""
        name = self.names[variable.name]
        if isinstance(variable, Continuous):
            low, high = variable.domain
            return [
                f"node {name}(continuous) {{",
                f'comment = "hybridbn domain={low!r},{high!r}";',
                "kind-of-node = chance;",
                "type-of-variable = continuous;",
                "relevance = 7.0;",
                f"min = {_format_number(low)};",
                f"max = {_format_number(high)};",
                "precision = 4;",
                "}",
                "",
            ]
        format_states(variable, "Elvira")
        words = make_words(variable.states, _KEYWORDS)
        self.states[variable.name] = words
        encoded = encode_properties(variable, list(words.values()), variable.name)
        properties = [f"{key.removeprefix('hybridbn_')}={value}" for key, value in encoded.items()]
        return [
            f"node {name}(finite-states) {{",
            *([f'comment = "hybridbn {" ".join(properties)}";'] if properties else []),
            "kind-of-node = chance;",
            "type-of-variable = finite-states;",
            "relevance = 7.0;",
            f"num-states = {len(variable)};",
            f"states = ({' '.join(words.values())});",
            "}",
            "",
        ]

    # -- relations -------------------------------------------------------------------------------------------------

    def format_relation(self, potential: Multinomial | MTE) -> list[str]:
        """Return the lines of a relation."""
        scope = " ".join(self.names[v.name] for v in (potential.child, *potential.parents))
        head = [f"relation {scope} {{", "kind-of-relation = potential;", "deterministic=false;"]
        if isinstance(potential, Multinomial):
            rows = np.moveaxis(potential.table, -1, 0).reshape(len(potential.child), -1).tolist()
            body = [" ".join(map(_format_number, row)) for row in rows]
            return [*head, "values= table (", *body, ");", "}", ""]
        tree = _ElviraTreeWriter(self, potential)
        return [*head, "values= continuous-tree (", *tree.format_tree(), ");", "}", ""]


class _ElviraTreeWriter:
    """Formats the pieces of an MTE as a tree, splitting where no piece is cut as long as that is possible."""

    def __init__(self, writer: _ElviraWriter, potential: MTE) -> None:
        self.writer, self.child = writer, potential.child.name
        self.terms: Terms = potential._terms
        columns = potential._columns
        self.discrete = [v for v in columns if isinstance(v, Discrete)]
        self.continuous = [v for v in columns if isinstance(v, Continuous)]
        order = [v.name for v in potential.variables]
        self.order = sorted(range(len(columns)), key=lambda column: order.index(columns[column].name))
        self.ends = [(v.domain if v.name != self.child else (math.nan, math.nan)) for v in self.continuous]

    def format_tree(self) -> list[str]:
        """Return the lines of the whole tree."""
        codes = [ANY] * len(self.discrete)
        return list(self._format_tree(np.arange(len(self.terms.codes)), codes, list(self.ends), "", ""))

    def _format_tree(
        self, pieces: Codes, codes: list[int], box: list[tuple[float, float]], head: str, indent: str
    ) -> Iterator[str]:
        split = self._choose_split(pieces, codes, box)
        if split is None:
            yield f"{indent}{head}{self._format_density(int(pieces[0])) if len(pieces) else '0.0'};"
            return
        column, edges = split
        n = len(self.discrete)
        name = self.discrete[column].name if column < n else self.continuous[column - n].name
        cuts = f"({', '.join(map(_format_number, edges))})" if column >= n else ""
        yield f"{indent}{head}case {self.writer.names[name]}{cuts} {{"
        if column < n:
            for code, label in enumerate(self.writer.states[name].values()):
                inside = pieces[np.isin(self.terms.codes[pieces, column], (code, ANY))]
                below = [code if j == column else c for j, c in enumerate(codes)]
                yield from self._format_tree(inside, below, box, f"{label} = ", indent + "  ")
        else:
            j = column - n
            for number, (low, high) in enumerate(itertools.pairwise(edges)):
                inside = pieces[(self.terms.low[pieces, j] < high) & (self.terms.high[pieces, j] > low)]
                within = [(float(low), float(high)) if i == j else ends for i, ends in enumerate(box)]
                yield from self._format_tree(inside, codes, within, f"{number} = ", indent + "  ")
        yield f"{indent}}}"

    def _choose_split(
        self, pieces: Codes, codes: list[int], box: list[tuple[float, float]]
    ) -> tuple[int, Values] | None:
        """Return the column to split next and the edges of its cells, preferring splits that cut no piece."""
        n, fallback = len(self.discrete), None
        empty = np.empty(0)
        for column in self.order:
            if column < n:
                piece_codes = self.terms.codes[pieces, column]
                if codes[column] != ANY or not (piece_codes != ANY).any():
                    continue
                if (piece_codes != ANY).all():
                    return column, empty
                fallback = fallback or (column, empty)
                continue
            low, high = self.terms.low[pieces, column - n], self.terms.high[pieces, column - n]
            if not len(pieces):
                continue
            known = box[column - n]
            outer = max(float(low.min()), known[0]), min(float(high.max()), known[1])
            inner = np.unique(np.concatenate([low, high]))
            inner = inner[(inner > outer[0]) & (inner < outer[1])]
            clean = inner[~((low[:, None] < inner) & (high[:, None] > inner)).any(axis=0)]
            if len(clean) or outer != known:
                return column, np.array([outer[0], *clean, outer[1]])
            if len(inner):
                fallback = fallback or (column, np.array([outer[0], *inner, outer[1]]))
        return fallback

    def _format_density(self, piece: int) -> str:
        """Return a sum of terms, each with the coefficient that it has with its anchor at zero, in 17 digits."""
        parts: list[str] = []
        for t in range(self.terms.starts[piece], self.terms.starts[piece + 1]):
            rates = self.terms.rates[t]
            moving = np.flatnonzero(rates).tolist()
            value = float(self.terms.coefficient[t])
            if not moving:
                parts.append(_format_number(value))
                continue
            coefficient = self.terms.coefficient_at_zero(t)
            size = f"{coefficient:.16E}".replace("E+", "E")
            if coefficient and not _SMALLEST < coefficient.copy_abs() < _LARGEST:
                self.writer.distant.setdefault(self.child, f"{coefficient:.3E}")
            names = [self.writer.names[self.continuous[j].name] for j in moving]
            inner = "+".join(f"{_format_number(float(rates[j]))}*{name}" for j, name in zip(moving, names, strict=True))
            parts.append(f"{size}*exp({inner.replace('+-', '-')})")
        return "+".join(parts).replace("+-", "-") or "0.0"


register_format((".elv",), read_elvira, partial(write_text, format_elvira))
