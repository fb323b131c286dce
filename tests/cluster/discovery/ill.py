"""What every backend of peer discovery bears: services that fail, are silent, answer in part, and lie."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Sequence
from typing import Any

import pytest

from splitbrain.cluster.discovery import nameservers
from splitbrain.cluster.discovery.consul import Consul
from splitbrain.cluster.discovery.http import Endpoint
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.real import RealClock
from tests.cluster.discovery.services import (
    Handler,
    Served,
)

N1, N2 = Peer("n1", ("10.0.0.1", 7101)), Peer("n2", ("10.0.0.2", 7102))

Listed = Callable[[], Coroutine[Any, Any, Any]]


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


LIES: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b"{}",
    b"null",
    b"7",
    b'[{"Service": 1}]',
    b'{"items": [{}]}',
    b'{"kvs": [{}]}',
    b"\xff",
    b'"\xff"',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    *(b"[" * depth + b"]" * depth for depth in (900, 5000)),
    *(b'{"a":' * depth + b"1" + b"}" * depth for depth in (900, 5000)),
]


async def suffers(service: Served, call: Listed, lies: Sequence[bytes]) -> None:
    """A call to a service that is ill raises what says so, and works again after that."""
    service.ills.status = 500
    with pytest.raises(DiscoveryError, match="status 500: it is ill"):
        await call()
    service.ills.status, service.ills.half = 0, True
    with pytest.raises(DiscoveryError, match="without sending complete message body"):
        await call()
    service.ills.half, service.ills.silent = False, True
    with impatience(), pytest.raises(DiscoveryError, match="no answer within"):
        await call()
    service.ills.silent = False
    for lie in lies:
        service.ills.raw = lie
        with pytest.raises(DiscoveryError):
            await call()
    service.ills.raw = None
    await call()


@contextlib.contextmanager
def impatience() -> Generator[None]:
    """A service is given up soon: only where it is silent, as any other may be slow on a busy machine."""
    exchange = Endpoint.ask

    async def ask(self: Endpoint, method: str, target: str, body: object = None, timeout_s: float = 0.1) -> Any:
        return await exchange(self, method, target, body, min(timeout_s, 0.1))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Endpoint, "ask", ask)
        patched.setattr(nameservers, "TIMEOUT_S", 0.1)
        yield


def of_consul(service: Served, peer: Peer, **more: Any) -> Consul:
    return Consul(Endpoint(service.url, more.pop("headers", None)), RealClock(asyncio.get_running_loop()), peer, **more)


def says(answer: object) -> Handler:
    """A service that always answers this."""

    def handler(*_: object) -> tuple[int, object]:
        return 200, answer

    return handler
