"""HTTP around the site: a thread for each connection, and not more of them than a machine can bear."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from splitbrain.results.errors import HarnessError, UsageError
from splitbrain.results.site.messages import SAFE, Request, Response
from splitbrain.results.site.routes import Site, loopback_hosts, split_path

IDLE_S: Final = 30.0
"""The idle timeout in seconds: a connection is closed that sends no whole request in that time, and one that
accepts no byte of an answer in that time."""

CONNECTIONS_MAX: Final = 128
"""The largest number of connections. For one more, the one that has been idle longest is closed."""

PARAMETERS_MAX: Final = 64
"""Parameters of a request."""

_CHUNK: Final = 1 << 16
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"


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
            UsageError: the host is none.
        """
        self.site = Site(root, loopback_hosts(host))
        self.host = host
        self._waiting: dict[socket.socket, float | None] = {}  # since when for a request; None while one is answered
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), _Handler)
        except socket.gaierror as error:
            raise UsageError(f"--host {host}: {error.strerror}. Name an address of this machine.") from error
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

    # --- connections --------------------------------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own, if there is room or some can be made."""
        with self._lock:
            full = len(self._waiting) >= CONNECTIONS_MAX
            if full and (waiting := [(since, one) for one, since in self._waiting.items() if since is not None]):
                _, longest = min(waiting, key=lambda pair: pair[0])
                del self._waiting[longest]
                _hang_up(longest)
                full = False
            if not full:
                self._waiting[request] = time.monotonic()
        if full:
            with contextlib.suppress(OSError):
                request.send(_FULL)
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that send no request in time. The loop that accepts connections calls this."""
        latest = time.monotonic() - IDLE_S
        with self._lock:
            for connection, since in self._waiting.items():
                if since is not None and since < latest:
                    _hang_up(connection)  # its thread reads the end and closes it

    def waits(self, connection: socket.socket, for_request: bool) -> None:
        """A connection's thread begins to wait for a request, or has got one."""
        with self._lock:
            if connection in self._waiting:
                self._waiting[connection] = time.monotonic() if for_request else None

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        with self._lock:
            self._waiting.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line what went wrong with a connection; a client that went away is no error."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            print(f"splitbrain: serve: unexpected {type(error).__name__}: {error}", file=sys.stderr)


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = IDLE_S

    @property
    def _site_server(self) -> SiteServer:
        assert isinstance(self.server, SiteServer)
        return self.server

    def handle_one_request(self) -> None:
        """Wait for a request and answer it."""
        self._site_server.waits(self.connection, True)
        super().handle_one_request()

    def _answer(self) -> None:
        self._site_server.waits(self.connection, False)
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # that body is not read: what follows it is no request
        try:
            target = urlsplit(self.path)
            query = parse_qsl(target.query, keep_blank_values=True, errors="replace", max_num_fields=PARAMETERS_MAX)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST, "Bad address")
            return
        request = Request(
            method=self.command,
            parts=tuple(split_path(target.path)),
            query=dict(query),
            host=self.headers.get("Host"),
            if_none_match=self.headers.get("If-None-Match"),
            fetch_site=self.headers.get("Sec-Fetch-Site"),
            fetch_mode=self.headers.get("Sec-Fetch-Mode"),
        )
        response = self._site_server.site.respond(request)
        try:
            self._send(response)
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the client has gone
        finally:
            response.close()

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer  # noqa: N815

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        for name, value in response.all_headers().items():
            self.send_header(name, value)
        length = len(response.body) if isinstance(response.body, bytes) else response.length
        if length is None and self.request_version == "HTTP/1.0":
            self.close_connection = True  # it knows no chunks: the end of the connection is the end of the body
        elif length is None:
            self.send_header("Transfer-Encoding", "chunked")
        elif response.status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(length))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "HEAD" or response.status == HTTPStatus.NOT_MODIFIED:
            return
        if isinstance(response.body, bytes):
            for start in range(0, len(response.body), _CHUNK):  # the time limit is for each write
                self.wfile.write(response.body[start : start + _CHUNK])
        else:
            self._send_chunks(response.body, length)

    def _send_chunks(self, body: Iterable[bytes], length: int | None) -> None:
        chunked = length is None and self.request_version != "HTTP/1.0"
        sent, whole = 0, False
        try:
            for chunk in body:
                if chunk:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
                    sent += len(chunk)
            if chunked:
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
        """Log nothing: reads of a store are not logged."""
