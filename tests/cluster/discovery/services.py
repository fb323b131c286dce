"""Discovery services on this machine: Consul and the API server of Kubernetes as backends use them, and a name server.

Each can answer late, in part, with a failure, or with something else than it should.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import h11

Handler = Callable[[str, str, dict[str, str], bytes, dict[str, str]], tuple[int, Any]]
"""Takes method, path, query, body and headers; gives status and what becomes the JSON of the answer."""


@dataclass
class Ills:
    """How a service is ill.

    Attributes:
        silent: it takes requests and answers none.
        status: it answers each with this status, and nothing of use.
        raw: it answers each with these bytes as the content.
        half: it announces more than it sends, and closes.
    """

    silent: bool = False
    status: int = 0
    raw: bytes | None = None
    half: bool = False


@dataclass
class Served:
    """A running service.

    Attributes:
        url: of it.
        ills: of it.
        asked: method and path of each request.
    """

    url: str
    ills: Ills = field(default_factory=Ills)
    asked: list[str] = field(default_factory=list[str])


@contextlib.asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Served]:
    service = Served("")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, h11.RemoteProtocolError):
            await _serve(service, handler, reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    service.url = f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()


async def _serve(service: Served, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    http = h11.Connection(h11.SERVER)
    request, body = None, b""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            break
        else:
            return
    assert request is not None
    parts = urlsplit(request.target.decode())
    service.asked.append(f"{request.method.decode()} {parts.path}")
    if service.ills.silent:
        await reader.read()
        return
    query = {key: values[0] for key, values in parse_qs(parts.query, keep_blank_values=True).items()}
    headers = {name.decode(): value.decode() for name, value in request.headers}
    status, said = handler(request.method.decode(), unquote(parts.path), query, body, headers)
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    if service.ills.status:
        status, content = service.ills.status, b"it is ill"
    if service.ills.raw is not None:
        content = service.ills.raw
    length = len(content) + (10 if service.ills.half else 0)
    writer.write(
        (http.send(h11.Response(status_code=status, headers=[("Content-Length", str(length))])) or b"")
        + (http.send(h11.Data(content)) or b"")
    )
    await writer.drain()


class ConsulAgent:
    """Consul's HTTP API as its documentation describes it: agent/service, agent/check, health/service, session, kv."""

    def __init__(self, token: str | None = None) -> None:
        self.services: dict[str, dict[str, Any]] = {}
        self.critical: set[str] = set()
        self.sessions: dict[str, dict[str, Any]] = {}
        self.locks: dict[str, str] = {}
        self._token = token
        self._made = 0

    def __call__(
        self, method: str, path: str, query: dict[str, str], body: bytes, headers: dict[str, str]
    ) -> tuple[int, Any]:
        if self._token is not None and headers.get("x-consul-token") != self._token:
            return 403, b"Permission denied"
        match method, path.strip("/").split("/"):
            case "PUT", ["v1", "agent", "service", "register"]:
                service = json.loads(body)
                assert service["Check"]["TTL"].endswith("s")
                self.services[service["ID"]] = service
                self.critical.discard(service["ID"])
                return 200, b""
            case "PUT", ["v1", "agent", "service", "deregister", name]:
                return (200, b"") if self.services.pop(name, None) else (404, b"Unknown service ID")
            case "PUT", ["v1", "agent", "check", "pass", check]:
                name = check.removeprefix("service:")
                if name not in self.services:
                    return 404, f'Unknown check ID "{check}"'.encode()
                self.critical.discard(name)
                return 200, b""
            case "GET", ["v1", "health", "service", name]:
                return 200, [self._entry(each) for each in self.services.values() if self._fits(each, name, query)]
            case "PUT", ["v1", "session", "create"]:
                self._made += 1
                self.sessions[f"session-{self._made}"] = json.loads(body)
                return 200, {"ID": f"session-{self._made}"}
            case "PUT", ["v1", "session", "destroy", session]:
                self.sessions.pop(session, None)
                self.locks = {key: owner for key, owner in self.locks.items() if owner != session}
                return 200, True
            case "PUT", ["v1", "kv", *key]:
                return self._put("/".join(key), query)
            case _:
                return 404, b"no such call"

    def _put(self, key: str, query: dict[str, str]) -> tuple[int, Any]:
        if "acquire" in query:
            if query["acquire"] not in self.sessions:
                return 500, b"invalid session"
            return 200, self.locks.setdefault(key, query["acquire"]) == query["acquire"]
        if self.locks.get(key) == query["release"]:
            del self.locks[key]
            return 200, True
        return 200, False

    def _fits(self, service: dict[str, Any], name: str, query: dict[str, str]) -> bool:
        passes = "passing" not in query or service["ID"] not in self.critical
        return service["Name"] == name and passes and query.get("tag", service["Tags"][0]) in service["Tags"]

    @staticmethod
    def _entry(service: dict[str, Any]) -> dict[str, Any]:
        seen = {"Service": service["Name"], **{key: service[key] for key in ("ID", "Address", "Port", "Tags", "Meta")}}
        node = {"Node": "host", "Address": "10.0.0.9"}
        return {"Node": node, "Service": seen, "Checks": [{"CheckID": "serfHealth", "Status": "passing"}]}


class ApiServer:
    """The list of pods of the API server of Kubernetes (core/v1), in pages of two."""

    def __init__(self, token: str, namespace: str, pods: list[dict[str, Any]]) -> None:
        self._token = token
        self._namespace = namespace
        self.pods = pods

    def __call__(
        self, method: str, path: str, query: dict[str, str], body: bytes, headers: dict[str, str]
    ) -> tuple[int, Any]:
        if headers.get("authorization") != f"Bearer {self._token}":
            return 401, {"kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401}
        if (method, path) != ("GET", f"/api/v1/namespaces/{self._namespace}/pods"):
            return 404, {"kind": "Status", "status": "Failure", "code": 404}
        key, _, value = query["labelSelector"].partition("=")
        fit = [pod for pod in self.pods if pod["metadata"]["labels"].get(key) == value]
        start = int(query.get("continue", "0"))
        more = {"continue": str(start + 2)} if start + 2 < len(fit) else {}
        return 200, {"kind": "PodList", "metadata": more, "items": fit[start : start + 2]}


def pod(name: str, host: str | None, **more: Any) -> dict[str, Any]:
    status = {"phase": more.pop("phase", "Running"), **({"podIP": host} if host else {})}
    return {"metadata": {"name": name, "labels": {"app": "splitbrain"}, **more}, "status": status}


# --- a name server --------------------------------------------------------------------------------------

_TYPES = {1: "A", 12: "PTR", 28: "AAAA"}


class NameServer(asyncio.DatagramProtocol):
    """Answers from a table over UDP, and over TCP on the same port; records follow a CNAME, and names are compressed.

    Attributes:
        table: records by name and type, as their data.
        code: the response code of all answers.
        silent: whether it answers nothing.
        truncates: whether answers over UDP are truncated.
        garbage: what it sends instead of answers, behind the question's number.
        over_tcp, asked: how many questions came, over TCP and in datagrams.
    """

    def __init__(self, table: dict[tuple[str, str], list[bytes]]) -> None:
        self.table = table
        self.code = 0
        self.silent = False
        self.truncates = False
        self.garbage: bytes | None = None
        self.over_tcp = 0
        self.asked = 0
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.asked += 1
        if not self.silent and self._transport is not None:
            self._transport.sendto(b"\0\0 not this one", addr)  # an answer to another question is not taken
            self._transport.sendto(self.answer(data, truncates=self.truncates), addr)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
        self.over_tcp += 1
        answer = self.answer(data, truncates=False)
        writer.write(len(answer).to_bytes(2, "big") + answer)
        writer.close()

    def answer(self, data: bytes, *, truncates: bool) -> bytes:
        if self.garbage is not None:
            return data[:2] + self.garbage
        labels: list[str] = []
        at = 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        question = data[12 : at + 5]
        kind = _TYPES[int.from_bytes(data[at + 1 : at + 3], "big")]
        found = self.table.get((".".join(labels), kind))
        code = self.code or (0 if any(name == ".".join(labels) for name, _ in self.table) else 3)
        records = [] if truncates else found or []
        flags = 0x8180 | code | (0x0200 if truncates else 0)
        head = data[:2] + flags.to_bytes(2, "big") + b"\0\1" + len(records).to_bytes(2, "big") + b"\0\0\0\0"
        number = data[at + 1 : at + 3]
        body = b"".join(
            b"\xc0\x0c" + number + b"\0\1\0\0\0\x05" + len(record).to_bytes(2, "big") + record for record in records
        )
        return head + question + body


def as_name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"


@contextlib.asynccontextmanager
async def name_server(table: dict[tuple[str, str], list[bytes]]) -> AsyncGenerator[tuple[NameServer, tuple[str, int]]]:
    loop = asyncio.get_running_loop()
    found = NameServer(table)
    server = await asyncio.start_server(found.connected, "127.0.0.1", 0)
    address = ("127.0.0.1", int(server.sockets[0].getsockname()[1]))
    transport, _ = await loop.create_datagram_endpoint(lambda: found, local_addr=address)
    try:
        yield found, address
    finally:
        transport.close()
        server.close()
