"""HTTP/1.1 to a discovery service: one request on a connection of its own, with a bound on time and size.

Services are asked a few times at a start and every ten seconds or so later, so connections are not kept.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import h11
import msgspec

from splitbrain.cluster.discovery.reading import is_host, json_of
from splitbrain.cluster.errors import ArgumentError, DiscoveryError

TIMEOUT_S: Final = 5.0
_READ_BYTES: Final = 1 << 16
ANSWER_MAX_BYTES: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Answer:
    """What a service answered.

    Attributes:
        status: e.g. 200.
        body: its content.
    """

    status: int
    body: bytes

    def json(self, what: str) -> Any:
        """The content, which is JSON.

        Raises:
            DiscoveryError: the status is none of success, or it is no JSON; the message begins with `what`.
        """
        if not 200 <= self.status < 300:
            text = self.body[:200].decode(errors="replace").strip()
            raise DiscoveryError(f"{what}: status {self.status}: {text or 'no reason given'}")
        return json_of(self.body, what)


class Http(Protocol):
    """A service that is asked by HTTP."""

    async def ask(self, method: str, target: str, body: object = None, timeout_s: float = TIMEOUT_S) -> Answer:
        """What it answers to a request; a body is sent as JSON.

        Raises:
            DiscoveryError: there was no answer, or it makes no sense.
        """
        ...


class Endpoint:
    """One base URL.

    Args:
        url: http://HOST:PORT or https://HOST:PORT.
        headers: of each request.
        ca_file: certificates that are trusted beside those of the system.

    Attributes:
        url: the same.
        authority: HOST:PORT as requests name it (RFC 9110, 7.2).

    Raises:
        ArgumentError: it is no such URL, or the file cannot be read.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, ca_file: str | None = None) -> None:
        host, port = _host_and_port(url)
        self.url = url
        self._host = host
        self._port = port
        self.authority = f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"
        self._headers = dict(headers or {})
        self._tls: ssl.SSLContext | None = None
        if url.lower().startswith("https:"):
            try:
                self._tls = ssl.create_default_context(cafile=ca_file)
            except (OSError, ssl.SSLError) as error:
                raise ArgumentError(f"--discovery-ca-file {ca_file}: {error}.") from error

    async def ask(self, method: str, target: str, body: object = None, timeout_s: float = TIMEOUT_S) -> Answer:
        """See `Http.ask`."""
        path = target.partition("?")[0]
        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(method, target, None if body is None else msgspec.json.encode(body))
        except TimeoutError as error:
            raise DiscoveryError(f"{self.url}{path}: no answer within {timeout_s:g} s") from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise DiscoveryError(f"{self.url}{path}: {error}") from error

    async def _exchange(self, method: str, target: str, body: bytes | None) -> Answer:
        reader, writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        try:
            http = h11.Connection(h11.CLIENT)
            headers = [("Host", self.authority), ("Connection", "close"), *self._headers.items()]
            if body is not None:
                headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
            events: list[h11.Event] = [h11.Request(method=method, target=target, headers=headers)]
            events += [h11.Data(body)] if body else []
            writer.write(b"".join(http.send(event) or b"" for event in (*events, h11.EndOfMessage())))
            await writer.drain()
            return await _answer(reader, http)
        finally:
            writer.close()


def _host_and_port(url: str) -> tuple[str, int]:
    """Of a base URL. The error shows no user and no password, which would be for no log."""
    shown = url.rpartition("@")[2].partition("#")[0]
    if shown != url:  # before it is taken apart: an error about its port may show a part of a password
        raise ArgumentError(
            f"--discovery-endpoint takes no user, no password and no fragment, as that of {shown!r} has."
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ArgumentError(f"--discovery-endpoint takes URLs, not {shown!r}: {error}.") from error
    is_base = parts.scheme in ("http", "https") and not parts.path.strip("/") and not parts.query
    if not is_base or not host or not is_host(host):
        raise ArgumentError(f"--discovery-endpoint takes http://HOST:PORT or https://HOST:PORT, not {shown!r}.")
    return host, port or (443 if parts.scheme == "https" else 80)


async def _answer(reader: asyncio.StreamReader, http: h11.Connection) -> Answer:
    status, content = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            content += event.data
            if len(content) > ANSWER_MAX_BYTES:
                raise h11.RemoteProtocolError(f"the answer is longer than {ANSWER_MAX_BYTES:,} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, bytes(content))
        elif isinstance(event, h11.ConnectionClosed):
            raise h11.RemoteProtocolError("the connection was closed in place of an answer")


class Endpoints:
    """Several base URLs of one service: the first that answers, and the next time that one first.

    A request may reach more than one of them; those of backends may be repeated without harm.
    """

    def __init__(self, endpoints: tuple[Http, ...]) -> None:
        self._endpoints = endpoints

    async def ask(self, method: str, target: str, body: object = None, timeout_s: float = TIMEOUT_S) -> Answer:
        """See `Http.ask`. One that answers with a failure of its own (5xx) is as good as none.

        Each has an equal part of the time: callers wait for one answer only, and several may be without power.
        """
        problems: list[str] = []
        answer: Answer | None = None
        endpoints = self._endpoints
        for at, endpoint in enumerate(endpoints):
            try:
                answer = await endpoint.ask(method, target, body, timeout_s / len(endpoints))
            except DiscoveryError as error:
                problems.append(str(error))
                continue
            if answer.status < 500:
                self._endpoints = endpoints[at:] + endpoints[:at]
                return answer
        if answer is not None:
            return answer
        raise DiscoveryError("; ".join(problems))
