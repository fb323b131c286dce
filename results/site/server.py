"""HTTP around the site: a thread for each connection."""

from __future__ import annotations

import socket
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from results.errors import HarnessError
from results.site.messages import SAFE, Request, Response
from results.site.routes import Site, loopback_hosts, split_path

IDLE_S: Final = 30.0
"""A connection on which nothing moves for so long is closed."""


class SiteServer(ThreadingHTTPServer):
    """A site on an address. `serve_forever` until `shutdown`; then `server_close`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, root: Path, host: str, port: int) -> None:
        """Bind.

        Args:
            root: the store.
            host: the address; only loopback ones keep others away.
            port: 0 for one that is free.

        Raises:
            HarnessError: the address cannot be had.
        """
        self.site = Site(root, loopback_hosts(host))
        self.host = host
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise HarnessError(f"cannot serve on {host} port {port}: {why}. Choose another with --port.") from error

    @property
    def url(self) -> str:
        """Where the site is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.server_address[1]}/"

    def server_bind(self) -> None:
        """Bind, without a look-up of this machine's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.host, self.server_address[1]


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    def _answer(self) -> None:
        assert isinstance(self.server, SiteServer)
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # nobody reads that body: what follows it is no request
        try:
            target = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "Bad address")
            return
        request = Request(
            method=self.command,
            parts=tuple(split_path(target.path)),
            query=dict(parse_qsl(target.query, keep_blank_values=True, errors="replace")),
            host=self.headers.get("Host"),
            if_none_match=self.headers.get("If-None-Match"),
        )
        response = self.server.site.respond(request)
        try:
            self._send(response)
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # whoever asked has gone
        finally:
            response.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.all_headers().items():
            self.send_header(name, value)
        length = len(response.body) if isinstance(response.body, bytes) else response.length
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        elif response.status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD" or response.status == HTTPStatus.NOT_MODIFIED:
            return
        if isinstance(response.body, bytes):
            self.wfile.write(response.body)
        else:
            self._send_chunks(response, length)

    def _send_chunks(self, response: Response, length: int | None) -> None:
        assert not isinstance(response.body, bytes)
        sent, whole = 0, False
        try:
            for chunk in response.body:
                if chunk:
                    self.wfile.write(chunk if length is not None else b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    sent += len(chunk)
            if length is None:
                self.wfile.write(b"0\r\n\r\n")
            whole = length is None or sent == length
        finally:
            # A file that became shorter: the end of the connection is the only way to say so now.
            self.close_connection = self.close_connection or not whole

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no request at all."""
        self.close_connection = True
        body = f"{code}: {message or HTTPStatus(code).phrase}\n".encode("utf-8", "backslashreplace")
        self.send_response(code)
        for name, value in SAFE.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """What the header Server says."""
        return "splitbrain"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: who reads a store is nobody's business."""
