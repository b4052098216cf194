"""Write networks of tables and mixtures of truncated exponentials in Elvira's format (``.elv``)."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from hybridbn.errors import FormatError
from hybridbn.formats.files import write_network_text
from hybridbn.formats.networks.elvira_syntax import ENDLESS
from hybridbn.formats.networks.exchange import bin_network, convert_potentials, format_states, make_words, table_of
from hybridbn.potentials import MTE, Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.potentials.mte.pieces import coefficient_at_zero
from hybridbn.potentials.mte.terms import ANY, Terms
from hybridbn.variables import Codes, Continuous, Discrete, Values, Variable

if TYPE_CHECKING:
    from hybridbn.formats.networks.pgmpy import Bins
    from hybridbn.network import Network

__all__ = ["format_elvira", "write_elvira"]

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


def write_elvira(
    network: Network, path: str | os.PathLike[str], *, bins: Bins | None = None, beyond_doubles: bool = False
) -> None:
    """Write a network of `Multinomial` and `MTE` potentials to a file of Elvira.

    Numbers have 17 digits, and every exponent its coefficient. Elvira has no infinite numbers, so the largest double
    stands for an infinite end of a density. Names that are not plain words are quoted; states that are not become words
    (``s1`` for the number 1), and `read_elvira` restores them from a comment.

    Parameters
    ----------
    network : Network
    path : str or path
    bins : int or mapping, optional
        Cut the continuous variables into bins; see `hybridbn.formats.networks.binning.discretize`. Needed where a
        potential is neither a table nor an MTE.
    beyond_doubles : bool, optional
        In Elvira a term is ``c exp(b X)``, so ``c`` may lie beyond the range of doubles where ``X`` is far from zero.
        Such a network is refused unless this is True; then hybridbn reads the file, but Elvira does not.

    Raises
    ------
    FormatError
        Naming the nodes that can't be written, and the remedy.
    """
    write_network_text(path, format_elvira(network, bins=bins, beyond_doubles=beyond_doubles))


def format_elvira(network: Network, *, bins: Bins | None = None, beyond_doubles: bool = False) -> str:
    """Return a network as text; see `write_elvira`.

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
    network = bin_network(network, bins, "Elvira")
    held: list[Multinomial | MTE] = convert_potentials(
        map(network.potential, network),
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
    ]
    lines += [line for potential in held for line in writer.format_node(potential.child)]
    lines += ["// Links", ""]
    lines += [
        f"link {writer.names[parent.name]} {writer.names[potential.child.name]};\n"
        for potential in held
        for parent in potential.parents
    ]
    lines += ["// Relations", ""]
    for potential in held:
        lines += writer.format_relation(potential)
    writer.refuse_distant()
    return "\n".join([*lines, "}", ""])


def _table_or_mixture(potential: Potential) -> Multinomial | MTE | None:
    if isinstance(potential, MTE) and any(isinstance(variable, Continuous) for variable in potential.variables):
        return potential
    return table_of(potential)


def _quote(name: str) -> str:
    if _WORD.fullmatch(name) and name not in _KEYWORDS:
        return name
    if '"' in name or not name.isprintable():
        raise FormatError(
            f"the name {name!r} can't be written for Elvira: it holds a quote or what can't be printed. "
            "Rename it (net.rename), or save the network as .hbn"
        )
    return f'"{name}"'


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
        properties = []
        if tuple(words) != tuple(words.values()) or any(not isinstance(state, str) for state in variable.states):
            properties.append(f"states={quote(json.dumps(list(variable.states)), safe='')}")
        if variable.cuts is not None:
            properties.append(f"cuts={','.join(map(repr, variable.cuts))}")
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
        if column < n:
            variable = self.discrete[column]
            yield f"{indent}{head}case {self.writer.names[variable.name]} {{"
            for code, label in enumerate(self.writer.states[variable.name].values()):
                inside = pieces[np.isin(self.terms.codes[pieces, column], (code, ANY))]
                below = [code if j == column else c for j, c in enumerate(codes)]
                yield from self._format_tree(inside, below, box, f"{label} = ", indent + "  ")
        else:
            j = column - n
            yield (
                f"{indent}{head}case"
                f" {self.writer.names[self.continuous[j].name]}({', '.join(map(_format_number, edges))}) {{"
            )
            for number in range(len(edges) - 1):
                low, high = edges[number], edges[number + 1]
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
            coefficient = coefficient_at_zero(value, rates[moving], self.terms.anchors[t, moving])
            size = f"{coefficient:.16E}".replace("E+", "E")
            if coefficient and not _SMALLEST < coefficient.copy_abs() < _LARGEST:
                self.writer.distant.setdefault(self.child, f"{coefficient:.3E}")
            names = [self.writer.names[self.continuous[j].name] for j in moving]
            inner = "+".join(f"{_format_number(float(rates[j]))}*{name}" for j, name in zip(moving, names, strict=True))
            parts.append(f"{size}*exp({inner.replace('+-', '-')})")
        return "+".join(parts).replace("+-", "-") or "0.0"
