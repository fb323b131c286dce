"""One node asks another, or a backend, something, and waits for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from splitbrain.cluster.discovery.messages import Reply, Request, decode_reply, encode
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Address, Connection, Runtime

T = TypeVar("T")
_MS = 1_000_000


async def within(
    runtime: Runtime,
    what: str,
    timeout_ms: int,
    begin: Callable[[], Awaitable[T]],
    late: Callable[[T], None] = lambda _: None,
) -> T:
    """What `begin` gives, which is not waited for longer than this; it goes on, and `late` gets a late result.

    Raises:
        DiscoveryError: it failed with this or an OSError, or took too long; the message begins with `what`.
    """
    outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            result = await begin()
        except (OSError, DiscoveryError) as error:
            if not outcome.done():
                outcome.set_exception(DiscoveryError(f"{what}: {error}"))
            return
        if outcome.done():
            late(result)
        else:
            outcome.set_result(result)

    def give_up() -> None:
        if not outcome.done():
            outcome.set_exception(DiscoveryError(f"{what}: no answer within {timeout_ms} ms"))

    timer = runtime.clock.call_later(timeout_ms * _MS, give_up)
    runtime.spawn(run(), what)
    try:
        return await outcome
    finally:
        timer.cancel()


class Held:
    """A connection whose other side does something for as long as it lasts."""

    def __init__(self, connection: Connection, reply: Reply) -> None:
        self._connection = connection
        self.reply = reply

    def stay(self) -> None:
        """Say that it is to last."""
        self._connection.send(b"")

    def close(self) -> None:
        """End it."""
        self._connection.close()


async def hold(runtime: Runtime, address: Address, request: Request, timeout_ms: int) -> Held:
    """Ask a node, and keep the connection.

    Raises:
        DiscoveryError: it does not answer in time, or what it says makes no sense.
    """
    opened: list[Connection] = []

    async def exchange() -> Held:
        connection = await runtime.network.connect(address)
        opened.append(connection)
        connection.send(encode(request))
        try:
            return Held(connection, decode_reply(await connection.receive()))
        except msgspec.DecodeError as error:
            raise DiscoveryError(str(error)) from error

    try:
        return await within(runtime, f"{address[0]}:{address[1]}", timeout_ms, exchange, Held.close)
    except DiscoveryError:
        for connection in opened:
            connection.close()
        raise


async def ask(runtime: Runtime, address: Address, request: Request, timeout_ms: int) -> Reply:
    """What a node answers.

    Raises:
        DiscoveryError: it does not answer in time, or what it says makes no sense.
    """
    held = await hold(runtime, address, request, timeout_ms)
    held.close()
    return held.reply


async def ask_all(
    runtime: Runtime, addresses: dict[str, Address], request: Request, timeout_ms: int
) -> dict[str, Reply | DiscoveryError]:
    """What several nodes answer, asked at the same time, by name and in their order; or why one does not."""
    found: dict[str, Reply | DiscoveryError] = {}
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def one(name: str, address: Address) -> None:
        try:
            found[name] = await ask(runtime, address, request, timeout_ms)
        except DiscoveryError as error:
            found[name] = error
        if len(found) == len(addresses) and not done.done():
            done.set_result(None)

    for name, address in addresses.items():
        runtime.spawn(one(name, address), f"ask {name}")
    if addresses:
        await done
    return {name: found[name] for name in addresses}
