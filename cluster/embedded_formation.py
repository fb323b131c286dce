"""A node that finds its cluster by itself, inside another process, on a given runtime: for simulations.

As `splitbrain.cluster.embedded` is for nodes with founders. The services of discovery are not simulated here: who
simulates gives a backend.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import msgspec

from splitbrain.cluster.arguments import parse
from splitbrain.cluster.bugs import lines_of
from splitbrain.cluster.channel import MessageConnection
from splitbrain.cluster.discovery.arguments import BACKENDS, taken_out
from splitbrain.cluster.discovery.backend import Backend, Listing, Plain
from splitbrain.cluster.discovery.classic import Classic
from splitbrain.cluster.discovery.formation import RETRIES, RETRY_MS, Settings
from splitbrain.cluster.discovery.forming import Forming
from splitbrain.cluster.discovery.http import Endpoint
from splitbrain.cluster.discovery.messages import AskFormation, FormationState, decode_reply, encode
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import ArgumentError, DiscoveryError, UnavailableError
from splitbrain.cluster.runtime import STOPS, Runtime
from splitbrain.cluster.stream import StreamConnection

if TYPE_CHECKING:
    import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one

__all__ = [
    "BACKENDS",
    "BUGS",
    "RETRIES",
    "ArgumentError",
    "Backend",
    "Classic",
    "DiscoveryError",
    "FormationState",
    "Listing",
    "Peer",
    "Plain",
    "UnavailableError",
    "ask_formation",
    "check_arguments",
    "start",
]

BUGS: Final[Mapping[str, str]] = lines_of("formation")
"""What a node's `--bugs` takes: what is broken, its source, and the checkers that can see it."""


def check_arguments(arguments: Sequence[str], endpoints: Sequence[str]) -> None:
    """Refuse what a node would refuse of its arguments of discovery, and addresses of a service that are none.

    Raises:
        ArgumentError: the message names what is wrong.
    """
    taken_out(arguments)
    for url in endpoints:
        Endpoint(url)


async def start(argv: Sequence[str], runtime: Runtime, backend: Callable[[str, tuple[Peer, ...]], Backend]) -> None:
    """Start a node; returns when it listens. It lives in the tasks that it spawned.

    Args:
        argv: what would follow `python -m splitbrain.cluster`; `--data` has no effect.
        runtime: the node's world. A FormationError ends a task if the node gives up.
        backend: makes the backend of the node of that name; `peers` are all nodes that the arguments name,
            itself first.

    Raises:
        ArgumentError: `argv` is wrong.
        StorageError: what the disk holds cannot be used.
        OSError: the disk failed, or the address cannot be served.
    """
    others, options = taken_out(argv)
    if options is None:
        raise ArgumentError("--discovery is missing.")
    config, _ = parse(others)
    peers = (Peer(config.node, config.listen), *(Peer(name, at) for name, at in sorted(config.peers.items())))
    settings = Settings(
        config.node,
        options.nodes or len(peers),
        retries=options.number("-retries", RETRIES, 0, 1_000_000),
        retry_ms=options.number("-retry-ms", RETRY_MS, 100, 600_000),
        bugs=config.bugs,
    )
    node = Forming(config, settings, runtime, backend(config.node, peers), config.listen)

    async def stop() -> None:
        await node.stop()
        runtime.log(STOPS)

    await node.start()
    runtime.log(f"serves {config.listen[0]}:{config.listen[1]}")
    runtime.stops(stop)


async def ask_formation(endpoint: socket.socket | MessageConnection) -> FormationState:
    """What a node says of the cluster that it is in, or looks for; the connection is used up.

    Raises:
        UnavailableError: it does not answer, or what it says makes no sense.
    """
    connection = await _connection(endpoint)
    try:
        connection.send(encode(AskFormation()))
        reply = decode_reply(await connection.receive())
    except (OSError, msgspec.DecodeError) as error:
        raise UnavailableError(f"no answer about formation: {error}.") from error
    finally:
        connection.close()
    if not isinstance(reply, FormationState):
        raise UnavailableError(f"the answer does not fit the request: {type(reply).__name__}.")
    return reply


async def _connection(endpoint: socket.socket | MessageConnection) -> MessageConnection:
    if hasattr(endpoint, "receive"):
        return cast("MessageConnection", endpoint)
    sock = cast("socket.socket", endpoint)
    try:
        _, connection = await asyncio.get_running_loop().create_connection(StreamConnection, sock=sock)
    except OSError as error:
        raise UnavailableError(f"the connection cannot be used: {error}.") from error
    return connection
