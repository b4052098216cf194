"""The explorer's pages: the one that the server sends, and the file that needs no server.

A file of a network of tables holds the tables and a junction tree, so that the page itself answers everything. For any
other network it holds answers that were computed before: for no finding, for each single one (a number has nine
values, its quantiles), for the rows of a table, and for pairs of findings as far as there is room.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import product
from typing import Any

import networkx as nx
import numpy as np

from hybridbn.errors import TooWide
from hybridbn.explorer.cases import LEVELS, Case, read_case, summarize, tabulate_cases
from hybridbn.explorer.responder import OPTIONS, Responder
from hybridbn.inference.elimination.ordering import find_order, make_junction_tree
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.jobs import track
from hybridbn.variables import Discrete, Values

__all__ = ["PAGE_STYLE", "make_page", "make_server_page", "read_module"]

PAGE_STYLE = """html,body{height:100%;margin:0;background:#f5f6f8}#hybridbn-explorer{height:100%}
#hybridbn-explorer>.hbx{border-radius:0;height:100%}@media(prefers-color-scheme:dark){html,body{background:#161a20}}
@media(max-width:820px){html,body,#hybridbn-explorer{height:auto;min-height:100%}
#hybridbn-explorer>.hbx{height:100vh;height:100dvh}}noscript{font:16px system-ui;padding:2em;display:block}
"""
MOST_BYTES = 4_800_000
"""The largest file; an encoded number takes 10.7 bytes of it."""
MOST_CELLS = 2_000_000
"""The largest junction tree that a page computes with."""
MOST_ANSWERS, MOST_ROWS = 20_000, 2_000
"""The most cases that are answered before, and the most rows of a table in a file."""
MOST_WORK = 5e9
"""The most cells of junction trees in all that are summed for them."""
BLOCK = 500
"""Cases that are answered together."""
_NUMBER_BYTES = 8 * 4 / 3
_NEEDS_SERVER = "Intervals, soft evidence, interventions, and what to ask next need hybridbn explore."

Plain = dict[str, Any]


def read_module() -> str:
    """Return the ECMAScript module.

    Examples
    --------
    >>> len(read_module().encode()) < 120_000
    True
    """
    return files("hybridbn.explorer").joinpath("explorer.js").read_text(encoding="utf-8")


def _wrap(title: str, head: str, body: str) -> str:
    from html import escape

    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n{head}</head>\n<body>\n'
        '<div id="hybridbn-explorer"></div>\n<noscript>The explorer needs JavaScript.</noscript>\n'
        f"{body}</body>\n</html>\n"
    )


def make_server_page(title: str) -> str:
    """Return the page of the server, which loads everything from beside itself.

    Examples
    --------
    >>> "<b>" in make_server_page("<b>")
    False
    """
    head = '<link rel="stylesheet" href="page.css">\n<script type="module" src="explorer.js"></script>\n'
    return _wrap(title, head, "")


def make_page(responder: Responder) -> str:
    """Return a page that holds everything: the module, the network, and what it needs to answer.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("</script>", "b")), table=[0.5, 0.5])])
    >>> make_page(Responder(net)).count("</script>")
    2
    """
    content = responder.describe()
    content["key"] = hashlib.sha256(json.dumps([content["title"], content["nodes"]]).encode()).hexdigest()[:16]
    if not content["boxes"]:
        content["neighborhoods"] = [responder.lay_out_neighborhood(node) for node in range(len(responder.names))]
    content["rows"] = min(content["rows"], MOST_ROWS)
    content["rowFindings"] = [responder.read_row(row) for row in range(content["rows"])]
    room = MOST_BYTES - len(read_module().encode()) - len(_as_json(content))
    cells, tables = _list_tables(responder, room)
    if tables is not None:
        count = len(responder.names)
        content["tables"] = tables
        content["offers"] = {"link": True}
        content["about"] = f"This page answers every question itself, exactly; {count} nodes."
    else:
        _add_lookups(responder, content, room, cells)
    # esbuild writes no "</script" into a module
    script, style = read_module(), PAGE_STYLE
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    body = (
        f'<script type="application/json" id="hybridbn-document">{_as_json(content)}</script>\n'
        f'<script type="module">{script}</script>\n'
    )
    return _wrap(responder.title, head, body)


def _as_json(content: Plain) -> str:
    """Return JSON that holds no markup, whatever names there are."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _encode(numbers: Values) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f8").tobytes()).decode()


# -- tables -----------------------------------------------------------------------------------------------------------


def _list_tables(responder: Responder, room: float) -> tuple[float, Plain | None]:
    """Return the cells of a junction tree of tables, and the tree with the tables.

    None instead of it where there is more than tables, or too much of them.
    """
    potentials = [responder.network.potential(name) for name in responder.names]
    tables = [kept.table for potential in potentials if (kept := potential.as_table()) is not None]
    if len(tables) < len(potentials):
        return 1.0, None
    sizes = {variable.name: len(variable) for potential in potentials for variable in potential.variables}  # type: ignore[arg-type]
    scopes = [potential.scope for potential in potentials]
    order = find_order(scopes, sizes, keep=())
    if order.total > MOST_CELLS or sum(table.size for table in tables) * _NUMBER_BYTES > room:
        return order.total, None
    cliques = make_junction_tree(scopes, order.names, ())
    number = responder.number
    return order.total, {
        "values": [_encode(table) for table in tables],
        "cliques": [{"nodes": [number[name] for name in clique.names], "parent": clique.parent} for clique in cliques],
    }


# -- answers that are computed before ---------------------------------------------------------------------------------


def _add_lookups(responder: Responder, content: Plain, room: float, cells: float) -> None:
    """Add the answers that there is room for, and what the page offers with them."""
    values: list[list[float] | None] = []
    findings: list[Plain] = []
    for node, belief in enumerate(content["prior"]):
        held = [] if belief is None else _list_values(node, belief)
        values.append(None if belief is None or "p" in belief else [finding["value"] for finding in held])
        findings += held
    width = 1 + sum(len(node["states"]) if "states" in node else 2 + len(LEVELS) for node in content["nodes"])
    most = int(min(MOST_ANSWERS, room / (width * _NUMBER_BYTES + 14), MOST_WORK / cells))
    cases = [[], *([i] for i in range(len(findings)))]
    if len(cases) > most:
        raise TooWide(
            f"a page has room for {most:,} answers, and there are {len(findings):,} single findings; hybridbn explore"
            " without --html answers everything"
        )
    rows = min(content["rows"], most - len(cases))
    content["rows"], content["rowFindings"] = rows, content["rowFindings"][:rows]
    pairs = _list_pairs(responder, findings, most - len(cases) - rows)
    joined = len({tuple(findings[i]["node"] for i in pair) for pair in pairs})
    nodes = len({finding["node"] for finding in findings})
    cases += pairs
    plain = [[findings[i] for i in case] for case in cases] + content["rowFindings"]
    numbers = _answer_all(responder, [read_case(responder.network, case) for case in plain], width)
    content["lookups"] = {"findings": findings, "cases": cases, "rows": rows, "values": _encode(numbers)}
    no = dict.fromkeys(("between", "soft", "not", "set", "next", "probable"), False)
    content["offers"] = no | {"link": True, "values": values}
    total = nodes * (nodes - 1) // 2
    which = (
        "every pair of findings" if joined == total else f"pairs of findings in {joined:,} of {total:,} pairs of nodes"
    )
    content["about"] = (
        f"Computed before: beliefs without findings, given each single one (a number has nine values) and given {which}"
        f"{f', and {rows:,} rows' if rows else ''}. {_NEEDS_SERVER}"
    )


def _list_values(node: int, belief: Plain) -> list[Plain]:
    """Return the findings of one node that are answered: its states, or nine quantiles."""
    if "p" in belief:
        return [{"node": node, "state": state} for state, p in enumerate(belief["p"]) if p > 0]
    if not belief["sd"] > 0:
        return []
    return [{"node": node, "value": value} for value in dict.fromkeys(float(f"{q:.4g}") for q in belief["q"])]


def _list_pairs(responder: Responder, findings: Sequence[Plain], most: int) -> list[list[int]]:
    """Return pairs of findings, those of near nodes first, all of two nodes or none."""
    of_node: dict[int, list[int]] = {}
    for i, finding in enumerate(findings):
        of_node.setdefault(finding["node"], []).append(i)
    distances = dict(nx.all_pairs_shortest_path_length(responder.network.moral_graph()))
    names = responder.names

    def distance(pair: tuple[int, int]) -> tuple[int, int, int]:
        return (distances[names[pair[0]]].get(names[pair[1]], len(names)), *pair)

    pairs: list[list[int]] = []
    for a, b in sorted(((a, b) for a in of_node for b in of_node if a < b), key=distance):
        if len(pairs) + len(of_node[a]) * len(of_node[b]) > most:
            break
        pairs += [list(pair) for pair in product(of_node[a], of_node[b])]
    return pairs


def _answer_all(responder: Responder, cases: Sequence[Case], width: int) -> Values:
    """Return a row for each case: its log probability, and all probabilities, moments and quantiles."""
    numbers = np.full((len(cases), width), np.nan)
    with track("answering", len(cases), unit="cases") as report:
        for start in range(0, len(cases), BLOCK):
            block = cases[start : start + BLOCK]
            part = numbers[start : start + len(block)]
            for column, values in _answer_block(responder, block):
                part[:, column : column + values.shape[1]] = values
            report(start + len(block), "")
    return numbers


def _answer_block(responder: Responder, cases: Sequence[Case]) -> Iterator[tuple[int, Values]]:
    network = responder.network
    evidence = tabulate_cases(cases)
    yield 0, network.log_evidence(evidence, tolerance=OPTIONS.tolerance)[:, None]
    # targets that are named would not count as evidence in any row
    posteriors = network.posteriors(evidence, options=OPTIONS, impossible="nan")
    column = 1
    for variable in network.variables:
        posterior = posteriors.get(variable.name)
        if posterior is not None:
            is_known = np.array([variable.name in case.fixed for case in cases])
            values = posterior.probabilities if isinstance(posterior, DiscretePosterior) else summarize(posterior)
            yield column, np.where(is_known[:, None], np.nan, values)
        column += len(variable) if isinstance(variable, Discrete) else 2 + len(LEVELS)
