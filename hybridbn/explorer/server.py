"""A server of the explorer on this computer, for the browser of the same user alone.

It listens on 127.0.0.1. Its address holds a random token, without which it answers nothing; requests that name another
host or come from another origin are refused, so neither other pages in the browser nor names that are rebound to this
address reach it. It serves four things by name, and reads no path from a request.
"""

from __future__ import annotations

import json
import secrets
import socketserver
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from hybridbn.explorer.page import PAGE_STYLE, make_server_page, read_module
from hybridbn.explorer.responder import Responder

__all__ = ["ExplorerServer"]

MOST_BYTES = 2**20
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
        What to open in a browser.

    Examples
    --------
    >>> import hybridbn as hb
    >>> net = hb.Network([hb.Multinomial(hb.Discrete("c", states=("a", "b")), table=[0.5, 0.5])])
    >>> with ExplorerServer(Responder(net)) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    token: str
    resources: dict[str, tuple[str, bytes]]
    server_name: str
    server_port: int

    def __init__(self, responder: Responder, port: int = 0) -> None:
        document = responder.describe()
        document |= {
            "about": "Answers come from hybridbn on this computer.",
            "offers": {"link": True},
        }
        self.responder = responder
        self.token = secrets.token_urlsafe(24)
        self.resources = {
            "": ("text/html; charset=utf-8", make_server_page(responder.title).encode()),
            "page.css": ("text/css; charset=utf-8", PAGE_STYLE.encode()),
            "explorer.js": ("text/javascript; charset=utf-8", read_module().encode()),
            "document": ("application/json", json.dumps(document, allow_nan=False).encode()),
        }
        super().__init__(("127.0.0.1", port), _Handler)

    def server_bind(self) -> None:
        """Bind the socket, without a look-up of this computer's name, which may take seconds."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    @property
    def hosts(self) -> tuple[str, str]:
        """The names under which a browser may reach the server."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"

    @property
    def address(self) -> str:
        """The address to open in a browser."""
        return f"http://{self.hosts[0]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of browsers that close connections."""


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
        if resource is None:
            return
        entry = self.server.resources.get(resource)
        if entry is None:
            self.send_error(HTTPStatus.METHOD_NOT_ALLOWED if resource == "ask" else HTTPStatus.NOT_FOUND)
        else:
            self._send(*entry)

    def do_POST(self) -> None:
        """Answer a question."""
        resource = self._find_resource()
        if resource is None:
            return
        if resource != "ask":
            self.send_error(HTTPStatus.NOT_FOUND if resource not in self.server.resources else 405)
            return
        if (self.headers.get("Content-Type") or "").lower() not in self._TYPES:
            self.send_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
            return
        lengths = self.headers.get_all("Content-Length") or []
        if (
            len(lengths) != 1
            or not (lengths[0].isascii() and lengths[0].isdigit())
            or "Transfer-Encoding" in self.headers
        ):
            self.send_error(HTTPStatus.LENGTH_REQUIRED)
            return
        if len(lengths[0]) > 9 or int(lengths[0]) > MOST_BYTES:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        try:
            question = json.loads(self.rfile.read(int(lengths[0])))
        except (ValueError, RecursionError):
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        self._send("application/json", json.dumps(self.server.responder.answer(question), allow_nan=False).encode())

    def _find_resource(self) -> str | None:
        """Return what a request asks for; refuse other hosts and origins, and whoever does not know the token."""
        hosts = self.server.hosts
        named = self.headers.get_all("Host") or []
        origins = self.headers.get_all("Origin") or []
        if len(named) != 1 or named[0] not in hosts or any(origin != f"http://{named[0]}" for origin in origins):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        # a link to the page may be followed from anywhere, by whoever knows the token
        is_followed = self.command == "GET" and self.headers.get("Sec-Fetch-Dest") == "document"
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin") and not is_followed:
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        _, token, *rest = (*self.path.split("/", 2), "")[:3] if self.path.startswith("/") else ("", "")
        if not compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return rest[0] if rest else ""

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
