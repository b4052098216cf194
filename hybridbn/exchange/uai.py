"""Networks in the format of the UAI competitions: numbers only, and a file of names beside them.

A scope lists the parents and then the child; in its table the last variable runs fastest. The format has no names, so
`write_uai` keeps them, with the states, in a file of the same name with ``.names.json`` behind it.

A Markov network is read as a Bayesian one with the same posteriors: its variables are uniform, and every factor f is a
binary child of its scope whose state 1 has the probability f / max f, and is observed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from hybridbn.errors import FormatError, warn_user
from hybridbn.exchange import register_format
from hybridbn.exchange.discrete_networks import (
    Bins,
    build_network,
    collect_tables,
    format_states,
    parse_states,
)
from hybridbn.exchange.parsing import (
    RowNormalizer,
    SourceText,
    Tokens,
    decode_source,
    parse_probabilities,
    read_source,
    reverse_parents,
)
from hybridbn.network import Network
from hybridbn.potentials import Multinomial
from hybridbn.potentials.base import Potential
from hybridbn.tables.formats.files import encode_text, write_atomically, write_network_text
from hybridbn.variables import Discrete, Values

_WORD = re.compile(r"(?:\s+|#[^\n]*)*+(?:(?P<word>[^\s#]+))?")
_MOST = 50_000
"""Files that announce more variables are refused."""
_MOST_FACTORS = 1_000_000
"""Markov networks that announce more factors are refused."""
_NAMES = "hybridbn names"


def read_uai(path: str | os.PathLike[str], *, normalize: bool = True, parents_backwards: bool = False) -> Network:
    """Read a network from a UAI file, with the names of the file beside it if there is one.

    The factors of a Markov network (``MARKOV``) become nodes ``factor_0``, ``factor_1``, ... behind the variables, and
    three entries of ``net.graph`` say what they mean: ``"factors"`` has their names; ``"evidence"`` the findings that
    every question must include, ``{"factor_0": 1, ...}``, and those of the file ``<path>.evid`` where there is one; and
    ``"log_constant"`` is what is added to ``net.log_evidence(net.graph["evidence"])`` for the logarithm of the
    partition function. Questions without the finding of a factor raise `NetworkError`.

    Parameters
    ----------
    path : str or path
        Without ``<path>.names.json`` the variables are called ``var_0``, ``var_1``, ... and their states 0, 1, ...
    normalize : bool, optional
        As in `hybridbn.exchange.bif.read_bif`.
    parents_backwards : bool, optional
        True reads tables whose first parent runs faster than the others, as pyAgrum (3.3.1) writes them, because
        nothing in the file shows that. Tables whose child runs slowest, as pgmpy (1.1) writes them with the parents
        listed backwards, are recognized by the sums of their rows.

    Raises
    ------
    FormatError
        Naming the file, the line and the reason.
    """
    source = read_source(path, None)
    beside = Path(f"{os.fspath(path)}.names.json")
    named = _read_names(beside, source) if beside.exists() else None
    network = _UaiReader(source, normalize, parents_backwards, named).build()
    observed = Path(f"{os.fspath(path)}.evid")
    if "factors" in network.graph and observed.exists():
        network.graph["evidence"].update(read_uai_evidence(observed, network))
    return network


def read_uai_evidence(path: str | os.PathLike[str], network: Network) -> dict[str, Any]:
    """Return the findings in an evidence file of the UAI competitions for a network that was read from a UAI file.

    The numbers in the file are the number of findings, then a variable and its state for each. A leading 1 for "one
    case", as older competitions have it, is skipped.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> net = parse_uai("MARKOV 2  2 2  1  2 0 1  4 3 1 1 3")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.uai.evid")
    ...     _ = path.write_text("1 1 0")
    ...     net.graph["evidence"] | read_uai_evidence(path, net)
    {'factor_0': 1, 'var_1': 0}
    """
    source = read_source(path, None)
    words = source.text.split()
    if not all(re.fullmatch(r"[0-9]{1,12}", word) for word in words):
        source.fail(0, "expected whole numbers only: the number of findings, then a variable and its state for each")
    numbers = [int(word) for word in words]
    if len(numbers) > 1 and numbers[0] == 1 and len(numbers) == 2 + 2 * numbers[1]:
        del numbers[0]
    if numbers and len(numbers) != 1 + 2 * numbers[0]:
        source.fail(0, f"{numbers[0]} findings are announced, and {len(numbers) - 1} numbers follow")
    factors = frozenset(network.graph.get("factors", ()))
    names = [name for name in network if name not in factors]
    findings = {}
    for position, code in zip(numbers[1::2], numbers[2::2], strict=True):
        variable = network.variable(names[position]) if position < len(names) else None
        if not isinstance(variable, Discrete) or code >= len(variable):
            source.fail(0, f"the network has no variable {position} with a state {code}; both count from 0")
        findings[variable.name] = variable.states[code]
    return findings


def parse_uai(text: str, *, normalize: bool = True, source: str = "<text>") -> Network:
    """Make a network from text; see `read_uai`.

    Examples
    --------
    >>> net = parse_uai("BAYES 2  2 3  2  1 0  2 0 1  2 0.25 0.75  6 .1 .2 .7 .5 .5 0")
    >>> net.potential("var_1").table
    array([[0.1, 0.2, 0.7],
           [0.5, 0.5, 0. ]])
    """
    return _UaiReader(decode_source(text.encode(), source, None), normalize, False, None).build()


class _UaiReader:
    def __init__(self, source: SourceText, normalize: bool, backwards: bool, named: list[Discrete] | None) -> None:
        self.source, self.backwards, self.named = source, backwards, named
        self.tokens = Tokens(source.text, source.fail, _WORD)
        self.rows = RowNormalizer(source.name, normalize)

    def take_count(self, what: str, most: int) -> int:
        text = self.tokens.now.text
        if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) > most:
            self.tokens.fail(f"{what}, a whole number of {most} at most")
        return int(self.tokens.take().text)

    def _take_scopes(self, variables: Sequence[Discrete], most: int) -> Iterator[tuple[list[Discrete], int]]:
        """Take the variables of all functions, at most so many, each with the position where these begin."""
        for _ in range(self.take_count("the number of functions", min(most, len(self.source.text)))):
            width = self.take_count("the number of variables of a function", len(variables))
            position = self.tokens.now.at
            numbers = [self.take_count("the number of a variable", len(variables) - 1) for _ in range(width)]
            if len(set(numbers)) < width:
                self.source.fail(position, "a function with a variable twice")
            yield [variables[number] for number in numbers], position

    def build(self) -> Network:
        if self.tokens.now.text not in ("BAYES", "MARKOV"):
            self.tokens.fail("BAYES or MARKOV")
        kind = self.tokens.take().text
        most = min(_MOST, len(self.source.text))
        names = range(self.take_count("the number of variables", most))
        position = self.tokens.now.at
        variables = self._make_variables(
            [self.take_count("the number of states of a variable", most) for _ in names], position
        )
        if kind == "MARKOV":
            return self._build_markov(variables)
        scopes: dict[str, list[Discrete]] = {}
        for scope, position in self._take_scopes(variables, _MOST):
            if not scope:
                self.source.fail(position, "a function without variables")
            if scope[-1].name in scopes:
                self.source.fail(position, f"a second function for {scope[-1].name!r}, the last of its variables")
            scopes[scope[-1].name] = scope
        potentials = {name: self._parse_table(scope) for name, scope in scopes.items()}
        self.tokens.take_kind("end", wanted="the end of the file")
        return build_network(potentials, {variable.name: variable for variable in variables}, self.rows)

    def _build_markov(self, variables: list[Discrete]) -> Network:
        """Return the network of uniform variables and observed factors."""
        scopes = [scope for scope, _ in self._take_scopes(variables, _MOST_FACTORS)]
        potentials: dict[str, Potential] = {
            variable.name: Multinomial(variable, table=np.full(len(variable), 1 / len(variable)))
            for variable in variables
        }
        log_constant = sum(math.log(len(variable)) for variable in variables)
        factors: list[str] = []
        for scope in scopes:
            name = next(n for n in map("factor_{}".format, count(len(factors))) if n not in potentials)
            values = self._parse_values(scope, name, np.inf)
            top = float(values.max())
            log_constant += math.log(top) if top > 0 else 0.0
            share = (values / (top or 1.0)).reshape([len(variable) for variable in scope])
            potentials[name] = Multinomial(Discrete(name, (0, 1)), scope, table=np.stack([1 - share, share], axis=-1))
            factors.append(name)
        self.tokens.take_kind("end", wanted="the end of the file")
        network = build_network(potentials, {name: p.child for name, p in potentials.items()}, self.rows)
        network.graph.update(factors=tuple(factors), evidence=dict.fromkeys(factors, 1), log_constant=log_constant)
        return network

    def _make_variables(self, sizes: list[int], position: int) -> list[Discrete]:
        if sum(sizes) > 4 * len(self.source.text) or 0 in sizes:
            self.source.fail(position, "the numbers of states don't fit the file")
        if self.named is None:
            return [Discrete(f"var_{i}", tuple(range(size))) for i, size in enumerate(sizes)]
        if [len(variable) for variable in self.named] != sizes:
            self.source.fail(
                0, "the file of names beside it belongs to another network; delete it to read without names"
            )
        return self.named

    def _parse_table(self, scope: Sequence[Discrete]) -> Multinomial:
        *parents, owner = scope
        sizes = [len(variable) for variable in scope]
        fail = partial(self.source.fail, self.tokens.now.at)
        values = self._parse_values(scope, owner.name, 1.0)
        values = reverse_parents(values, sizes) if self.backwards else values
        # pgmpy lists the parents backwards where it lets the child run slowest
        table = self.rows.arrange_rows(values, sizes, owner.name, fail, parents_backwards=not self.backwards)
        return Multinomial(owner, parents=parents, table=table)

    def _parse_values(self, scope: Sequence[Discrete], owner: str, most: float) -> Values:
        """Return the announced numbers of a function, each of `most` at most."""
        wanted = math.prod(map(len, scope))
        position = self.tokens.now.at
        announced = self.take_count(f"the number of numbers of {owner!r}", len(self.source.text))
        if announced != wanted:
            self.source.fail(position, f"{announced} numbers are announced where {wanted} are wanted for {owner!r}")
        start = self.tokens.now.at
        words = islice(_WORD.finditer(self.source.text, start), announced)
        ends = [match.end() for match in words if match["word"] is not None]
        end = ends[-1] if len(ends) == announced else len(self.source.text)
        self.tokens.jump(end)
        if len(ends) < announced:
            self.tokens.fail(f"a number of {owner!r}")
        # Comments become spaces, so that the positions of numbers stay.
        text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), self.source.text[start:end])
        return parse_probabilities(text, announced, partial(self.source.fail_at, start), owner, most=most)


def _read_names(path: Path, source: SourceText) -> list[Discrete]:
    """Return the variables in a file of names."""
    try:
        if path.stat().st_size > 64 << 20:
            raise ValueError("it is too large")
        listed: Any = json.loads(path.read_bytes())
        if not isinstance(listed, dict) or listed.get("format") != _NAMES:
            raise ValueError("it is no file of names")
        variables = [
            Discrete(
                entry["name"],
                tuple(parse_states(json.dumps(entry["states"]), len(entry["states"]))),
                entry["cuts"] and tuple(entry["cuts"]),
            )
            for entry in listed["variables"]
        ]
        if len({variable.name for variable in variables}) < len(variables):
            raise ValueError("a name occurs twice")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(
            f"{path}: the names can't be read: {error}; delete the file to read the network without names"
        ) from None
    if listed.get("sha256") != _compute_digest(source.text):
        warn_user(f"{path}: the network has changed since its names were written")
    return variables


def _compute_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write_uai(network: Network, path: str | os.PathLike[str], *, bins: Bins | None = None) -> None:
    """Write a discrete network to a UAI file, and its names to ``<path>.names.json`` beside it.

    pgmpy (1.1) takes tables for ones whose child runs slowest, pyAgrum (3.3) for ones whose first parent runs faster
    than the others, so both misread networks with several parents; the file is as the format says. Parameters and
    errors are those of `hybridbn.exchange.bif.format_bif`.
    """
    text, names = format_uai(network, bins=bins)
    write_atomically(f"{os.fspath(path)}.names.json", encode_text(names))
    write_network_text(path, text)


def format_uai(network: Network, *, bins: Bins | None = None) -> tuple[str, str]:
    """Return a network as UAI text, and its names as JSON; see `write_uai`.

    Examples
    --------
    >>> import hybridbn as hb
    >>> print(format_uai(hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.25, 0.75])]))[0])
    BAYES
    1
    2
    1
    1 0
    <BLANKLINE>
    2
    0.25 0.75
    <BLANKLINE>
    """
    tables = collect_tables(network, bins, "UAI")
    numbers = {table.child.name: i for i, table in enumerate(tables)}
    lines = ["BAYES", str(len(tables)), " ".join(str(len(table.child)) for table in tables), str(len(tables))]
    scopes = ([numbers[name] for name in table.scope] for table in tables)
    lines += [" ".join(map(str, [len(scope), *scope])) for scope in scopes]
    for table in tables:
        lines += ["", str(table.table.size)]
        # Without exponents, which pgmpy can't read.
        rows = table.table.reshape(-1, len(table.child)).tolist()
        lines += [" ".join(np.format_float_positional(value, trim="0") for value in row) for row in rows]
    text = "\n".join([*lines, ""])
    children = [table.child for table in tables]
    for child in children:
        format_states(child, "UAI")
    variables = [{"name": child.name, "states": list(child.states), "cuts": child.cuts} for child in children]
    names = {"format": _NAMES, "version": 1, "sha256": _compute_digest(text), "variables": variables}
    return text, json.dumps(names, indent=1, ensure_ascii=False) + "\n"


register_format((".uai",), read_uai, write_uai)
