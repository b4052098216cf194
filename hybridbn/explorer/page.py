"""The explorer's page: as a file that needs no server, from a server on this computer for the browser of the same user,
and as a widget in notebooks.

A file of a network of tables holds the tables and a junction tree, so that the page itself answers everything. For any
other network it holds answers that were computed before: for no finding, for each single one (a number has nine
values, its quantiles), for the rows of a table, and for pairs of findings as far as there is room.

The server listens on 127.0.0.1, and answers a browser that holds a cookie with a random token. The browser gets it by
an address that opens the page once; that is printed, or handed over in a file that only this user can read, because a
browser's command line and history are read by others. Requests that name another host or come from another origin are
refused, so neither other pages in the browser nor names that are rebound to this address reach it. All lies in a folder
of a random name, since browsers send cookies to every port of a host, but only to the folder that they are for. It
serves four things by name, and reads no path from a request.

The widget is one of anywidget (the extra ``notebook``), with a picture for where widgets vanish. It works wherever
anywidget does: Jupyter and marimo are tested; VS Code and Colab have the same contract.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import secrets
import socketserver
from collections import Counter
from collections.abc import Mapping, Sequence
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from itertools import chain, combinations, product
from typing import Any, ClassVar

import networkx as nx
import numpy as np

from hybridbn.errors import HybridBNError, TableError, TooWide
from hybridbn.explorer.responder import (
    LEVELS,
    OPTIONS,
    Case,
    Responder,
    list_findings,
    read_case,
    summarize,
    tabulate_cases,
)
from hybridbn.formatting import escape_markup
from hybridbn.inference.elimination.ordering import find_order, make_junction_tree
from hybridbn.inference.posteriors import DiscretePosterior
from hybridbn.jobs import track
from hybridbn.network import Network
from hybridbn.pictures.html import draw_network
from hybridbn.registry import LazyModule, import_library
from hybridbn.variables import Discrete, Values, Variable

traitlets: LazyModule = LazyModule("traitlets")

PAGE_STYLE = """html,body{height:100%;margin:0;background:#f5f6f8}#hybridbn-explorer{height:100%}
#hybridbn-explorer>.hbx{border-radius:0;height:100%}@media(prefers-color-scheme:dark){html,body{background:#161a20}}
@media(max-width:820px){html,body,#hybridbn-explorer{height:auto;min-height:100%}
#hybridbn-explorer>.hbx{height:100vh;height:100dvh}}noscript{font:16px system-ui;padding:2em;display:block}
"""
MOST_BYTES = 4_800_000
"""The largest file; an encoded number takes 10.7 bytes of it."""
MOST_CELLS = 2_000_000
"""The largest junction tree that a page computes with."""
_MOST_LISTED, _MOST_EXPLAINED, _MOST_GROUPED = 12, 12, 40
"""So many values with a probability are findings each; cases whose most probable values are found; nodes of which three
are known together.
"""
MOST_ANSWERS, MOST_ROWS = 20_000, 2_000
"""The most cases that are answered before, and the most rows of a table in a file."""
MOST_WORK = 5e9
"""The most cells of junction trees in all that are summed for them."""
BLOCK = 500
"""Cases that are answered together."""
_NUMBER_BYTES = 8 * 4 / 3
_NEEDS_SERVER = "Other findings together, measured numbers, interventions, and what to ask next need hybridbn explore."

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
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape_markup(title)}</title>\n<link rel="icon" href="data:,">\n{head}</head>\n<body>\n'
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
        about = f"This page answers every question itself, exactly; {len(responder.names)} nodes."
        content |= {"tables": tables, "offers": {"link": True}, "about": about}
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
    values: list[list[Plain] | None] = []
    findings: list[Plain] = []
    for node, belief in enumerate(content["prior"]):
        held = [] if belief is None else _list_findings(responder.network.variables[node], node, belief)
        values.append(None if belief is None or "p" in belief else held)
        findings += held
    points = [np.array([value for value, _ in (belief or {}).get("stems", ())]) for belief in content["prior"]]
    width = 1 + sum(map(_count_numbers, responder.network.variables)) + sum(map(len, points))
    most = int(min(MOST_ANSWERS, room / (width * _NUMBER_BYTES + 14), MOST_WORK / cells))
    cases = [[], *([i] for i in range(len(findings)))]
    if len(cases) > most:
        raise TooWide(
            f"a page has room for {most:,} answers, and there are {len(findings):,} single findings; hybridbn explore"
            " without --html answers everything"
        )
    rows = min(content["rows"], most - len(cases))
    content["rows"], content["rowFindings"] = rows, content["rowFindings"][:rows]
    combined = _combine_findings(responder, findings, most - len(cases) - rows)
    joined = Counter(len(nodes) for nodes in {tuple(findings[i]["node"] for i in case) for case in combined})
    nodes = len({finding["node"] for finding in findings})
    cases += combined
    plain = [[findings[i] for i in case] for case in cases] + content["rowFindings"]
    # a search for the most probable numbers takes a hundred times as long as an answer
    explained = [i for i, case in enumerate(plain[: 1 + len(findings)]) if not any("value" in each for each in case)]
    probable = {
        i: responder.answer({"ask": "probable", "case": plain[i]}).get("values") for i in explained[:_MOST_EXPLAINED]
    }
    numbers = _answer_all(responder, [read_case(responder.network, case) for case in plain], points)
    which = "".join(
        f", every {size} together" if joined[size] == (total := math.comb(nodes, size))
        else f", {size} together in {joined[size]:,} of {total:,} groups of nodes"
        for size in sorted(joined)
    )  # fmt: skip
    content |= {
        "lookups": {
            "findings": findings,
            "cases": cases,
            "rows": rows,
            "probable": probable,
            "values": _encode(numbers),
        },
        "offers": {"set": False, "next": False, "link": True, "values": values},
        "about": f"Computed before: beliefs given nothing, each single finding (of numbers some values){which}"
        f"{f', and {rows:,} rows' if rows else ''}. {_NEEDS_SERVER}",
    }


def _list_findings(variable: Variable, node: int, belief: Plain) -> list[Plain]:
    """Return the findings of one node that are answered: its states, or values with a mass and nine quantiles."""
    if "p" in belief:
        return [{"node": node, "state": state} for state, p in enumerate(belief["p"]) if p > 0]
    stems = [value for value, _ in belief.get("stems", ())]
    quantiles = [float(variable.round(np.array(float(f"{q:.4g}")))) for q in belief["q"]]
    if "x" not in belief:
        quantiles, stems = ([], stems) if len(stems) <= _MOST_LISTED else (quantiles, [])
    return [{"node": node, "value": value} for value in dict.fromkeys([*stems, *quantiles])]


def _combine_findings(responder: Responder, findings: Sequence[Plain], most: int) -> list[list[int]]:
    """Return pairs of findings, and groups of three, those of near nodes first; all of some nodes or none."""
    of_node: dict[int, list[int]] = {}
    for i, finding in enumerate(findings):
        of_node.setdefault(finding["node"], []).append(i)
    distances = dict(nx.all_pairs_shortest_path_length(responder.network.moral_graph()))
    names = responder.names

    def measure(nodes: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
        far = sum(distances[names[a]].get(names[b], len(names)) for a, b in combinations(nodes, 2))
        return len(nodes), far, nodes

    groups = chain(combinations(of_node, 2), combinations(of_node, 3) if len(of_node) <= _MOST_GROUPED else ())
    cases: list[list[int]] = []
    for nodes in sorted(groups, key=measure):
        if len(cases) + math.prod(len(of_node[node]) for node in nodes) > most:
            break
        cases += [list(case) for case in product(*(of_node[node] for node in nodes))]
    return cases


def _answer_all(responder: Responder, cases: Sequence[Case], points: Sequence[Values]) -> Values:
    """Return a row for each case: its log probability, and all probabilities, moments and quantiles."""
    blocks = []
    with track("answering", len(cases), unit="cases") as report:
        for start in range(0, len(cases), BLOCK):
            blocks.append(_answer_block(responder.network, cases[start : start + BLOCK], points))
            report(min(start + BLOCK, len(cases)), "")
    return np.concatenate(blocks)


def _answer_block(network: Network, cases: Sequence[Case], points: Sequence[Values]) -> Values:
    evidence = tabulate_cases(cases)
    columns = [network.log_evidence(evidence, tolerance=OPTIONS.tolerance)[:, None]]
    # targets that are named would not count as evidence in any row
    posteriors = network.posteriors(evidence, options=OPTIONS, impossible="nan")
    for variable, own in zip(network.variables, points, strict=True):
        posterior = posteriors.get(variable.name)
        if posterior is None:
            columns.append(np.full((len(cases), _count_numbers(variable) + len(own)), np.nan))
            continue
        values = (
            posterior.probabilities
            if isinstance(posterior, DiscretePosterior)
            else np.column_stack([summarize(posterior), *(posterior.probability(value) for value in own)])
        )
        is_known = np.array([variable.name in case.fixed for case in cases])
        columns.append(np.where(is_known[:, None], np.nan, values))
    return np.hstack(columns)


def _count_numbers(variable: Variable) -> int:
    """Return how many numbers tell the belief of a variable."""
    return len(variable) if isinstance(variable, Discrete) else 2 + len(LEVELS)


# -- the server -------------------------------------------------------------------------------------------------------

MOST_BODY = 2**20
"""The longest body of a request."""
SECONDS = 30.0
"""A connection that sends nothing for so long is closed."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ExplorerServer(ThreadingHTTPServer):
    """Serves the explorer's page and its answers until it is closed.

    Parameters
    ----------
    responder : Responder
    port : int
        0 for one that is free.

    Attributes
    ----------
    address : str
        What to open in a browser; it works once, and is another one each time.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.5, 0.5])])
    >>> with ExplorerServer(Responder(net)) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    def __init__(self, responder: Responder, port: int = 0) -> None:
        about = "Answers come from hybridbn on this computer."
        document = responder.describe() | {"about": about, "offers": {"link": True}}
        self.responder = responder
        self.token: str = secrets.token_urlsafe(24)
        self.folder: str = secrets.token_urlsafe(9)
        self._keys: set[str] = set()
        self.resources: dict[str, tuple[str, bytes]] = {
            "": ("text/html; charset=utf-8", make_server_page(responder.title).encode()),
            "page.css": ("text/css; charset=utf-8", PAGE_STYLE.encode()),
            "explorer.js": ("text/javascript; charset=utf-8", read_module().encode()),
            "document": ("application/json", json.dumps(document, allow_nan=False).encode()),
        }
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Bind the socket, without a look-up of this computer's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_port: int = self.server_address[1]

    @property
    def hosts(self) -> tuple[str, str]:
        """The names under which a browser may reach the server."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        """An address that opens the page in any browser, once; each time another one."""
        key = secrets.token_urlsafe(24)
        self._keys.add(key)
        return f"http://{self.hosts[0]}/{self.folder}/{_ENTRANCE}{key}"

    def admits(self, key: str) -> bool:
        """Return whether a key is that of an address which was not used yet; it is used then."""
        with contextlib.suppress(KeyError):
            self._keys.remove(key)
            return True
        return False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that close connections."""


_COOKIE = "hybridbn-explorer"
_ENTRANCE = "open/"
"""What stands before the key in an address that opens the page."""


class _RefusedRequest(Exception):
    """A request that is not answered, with the status that says why."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "hybridbn", ""
    timeout = SECONDS
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"
    server: ExplorerServer

    _TYPES: ClassVar[tuple[str, ...]] = ("application/json", "application/json; charset=utf-8")

    def do_GET(self) -> None:
        """Send the page, its module, its style, or the document."""
        resource = self._find_resource()
        if resource.startswith(_ENTRANCE):
            self._enter(resource.removeprefix(_ENTRANCE))
            return
        self._refuse_strangers()
        if resource not in self.server.resources:
            raise _RefusedRequest(HTTPStatus.METHOD_NOT_ALLOWED if resource == "ask" else HTTPStatus.NOT_FOUND)
        self._send(*self.server.resources[resource])

    def do_POST(self) -> None:
        """Answer a question."""
        resource = self._find_resource()
        self._refuse_strangers()
        if resource != "ask":
            is_known = resource in self.server.resources
            raise _RefusedRequest(HTTPStatus.METHOD_NOT_ALLOWED if is_known else HTTPStatus.NOT_FOUND)
        if (self.headers.get("Content-Type") or "").lower() not in self._TYPES:
            raise _RefusedRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        lengths = self.headers.get_all("Content-Length") or []
        if (
            len(lengths) != 1
            or not (lengths[0].isascii() and lengths[0].isdigit())
            or "Transfer-Encoding" in self.headers
        ):
            raise _RefusedRequest(HTTPStatus.LENGTH_REQUIRED)
        if len(lengths[0]) > 9 or int(lengths[0]) > MOST_BODY:
            raise _RefusedRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        try:
            question = json.loads(self.rfile.read(int(lengths[0])))
        except (ValueError, RecursionError):
            raise _RefusedRequest(HTTPStatus.BAD_REQUEST) from None
        self._send("application/json", json.dumps(self.server.responder.answer(question), allow_nan=False).encode())

    def handle_one_request(self) -> None:
        """Answer a request, or refuse it."""
        try:
            super().handle_one_request()
        except _RefusedRequest as refusal:
            self.send_error(*refusal.args)

    def _find_resource(self) -> str:
        """Return what a request asks for; refuse other hosts and origins, and whoever does not know the folder."""
        hosts = self.server.hosts
        named = self.headers.get_all("Host") or []
        origins = self.headers.get_all("Origin") or []
        if len(named) != 1 or named[0] not in hosts or any(origin != f"http://{named[0]}" for origin in origins):
            raise _RefusedRequest(HTTPStatus.FORBIDDEN)
        # a link to the page may be followed from anywhere
        is_followed = self.command == "GET" and self.headers.get("Sec-Fetch-Dest") == "document"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_followed:
            raise _RefusedRequest(HTTPStatus.FORBIDDEN)
        _, folder, *rest = (*self.path.split("/", 2), "")[:3] if self.path.startswith("/") else ("", "")
        if not compare_digest(folder.encode("utf-8", "replace"), self.server.folder.encode()):
            raise _RefusedRequest(HTTPStatus.NOT_FOUND)
        return rest[0] if rest else ""

    def _refuse_strangers(self) -> None:
        """Refuse a browser that doesn't hold the cookie."""
        cookies = "; ".join(self.headers.get_all("Cookie") or []).split("; ")
        held = [value for name, _, value in (cookie.partition("=") for cookie in cookies) if name == _COOKIE]
        if not any(compare_digest(one.encode("utf-8", "replace"), self.server.token.encode()) for one in held):
            raise _RefusedRequest(HTTPStatus.FORBIDDEN)

    def _enter(self, key: str) -> None:
        """Give the cookie to a browser that has a key, and send it on to the page."""
        if not self.server.admits(key):
            self._refuse_strangers()
        page = f"/{self.server.folder}/"
        # a strict cookie isn't sent after a redirection that began elsewhere, such as in a file
        is_typed = self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        self.send_response(HTTPStatus.SEE_OTHER if is_typed else HTTPStatus.OK)
        self.send_header(*(("Location", page) if is_typed else ("Refresh", f"0; url={page}")))
        scope = f"Path={page}; HttpOnly; SameSite=Strict"
        self.send_header("Set-Cookie", f"{_COOKIE}={self.server.token}; {scope}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request, in as many words as its code has, and close the connection."""
        self.close_connection = True
        super().send_error(code, HTTPStatus(code).phrase)

    def end_headers(self) -> None:
        """Add the headers that every response has."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *_: Any) -> None:
        """Keep silent: the address with its token belongs into no log."""


# -- the widget -------------------------------------------------------------------------------------------------------


def make_widget(network: Network, evidence: Mapping[str, Any] | None = None, data: Any = None) -> Any:
    """Return a widget in which findings are set and beliefs follow.

    Parameters
    ----------
    network : Network
    evidence : mapping, optional
        What is known at first.
    data : table, optional
        Rows to step through.

    Returns
    -------
    anywidget.AnyWidget
        Its `findings` are what is set now, and `evidence` the same as `Network.posterior` takes it; `scenarios` are
        those that were saved. Both sides may change them.

    Raises
    ------
    HybridBNError
        If anywidget is not installed.

    Examples
    --------
    >>> import hybridbn as hb
    >>> rain, wet = hb.Discrete("rain", states=("no", "yes")), hb.Discrete("wet", states=("no", "yes"))
    >>> net = hb.Network([
    ...     hb.Multinomial(rain, table=[0.7, 0.3]),
    ...     hb.Multinomial(wet, parents=(rain,), table=[[0.9, 0.1], [0.2, 0.8]]),
    ... ])
    >>> explorer = net.explore({"wet": "yes"})  # doctest: +SKIP
    >>> explorer.evidence  # doctest: +SKIP
    {'wet': 'yes'}
    >>> explorer.evidence = {"rain": "no"}  # doctest: +SKIP
    """
    needed = "the explorer in notebooks needs anywidget: pip install 'hybridbn[notebook]'"
    widgets: Any = import_library("anywidget", needed, HybridBNError)
    if evidence is not None and not isinstance(evidence, Mapping):
        raise TableError(f"the explorer begins with one case: its evidence is a mapping, not {evidence!r:.80}")
    responder = Responder(network, data, evidence=evidence)

    class Explorer(widgets.AnyWidget):
        """A network whose beliefs follow the findings that are set in it."""

        _esm = read_module()
        document: Any = traitlets.Dict().tag(sync=True)
        findings: Any = traitlets.List().tag(sync=True)
        scenarios: Any = traitlets.List().tag(sync=True)

        @property
        def evidence(self) -> dict[str, Any]:
            """What is known now, without interventions."""
            return dict(read_case(network, self.findings).evidence)

        @evidence.setter
        def evidence(self, evidence: Mapping[str, Any]) -> None:
            set_before = [finding for finding in self.findings if finding.get("set")]
            findings = list_findings(network, evidence)
            read_case(network, [*set_before, *findings])
            self.findings = [*set_before, *findings]

        @property
        def interventions(self) -> dict[str, Any]:
            """What is set now, as `Network.do` takes it."""
            return dict(read_case(network, self.findings).settings)

        def _answer(self, _: Any, question: Any, __: Any) -> None:
            self.send(responder.answer(question))

        def _repr_mimebundle_(self, **options: Any) -> Any:
            bundle = super()._repr_mimebundle_(**options)
            data = bundle[0] if isinstance(bundle, tuple) else bundle
            if data is not None:
                # for exports and viewers without a kernel
                data["text/html"] = self._draw_picture()
            return bundle

        def _draw_picture(self) -> str:
            case = read_case(network, self.findings)
            try:
                return draw_network(case.intervene(network), case.evidence)
            except HybridBNError:
                return network._repr_html_()

    document = responder.describe()
    widget = Explorer(document=document, findings=document["start"])
    widget.on_msg(widget._answer)
    return widget
