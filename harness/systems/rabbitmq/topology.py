"""Entities of a broker on RabbitMQ: exchanges, queues and bindings over AMQP, all others by the probe in the node's VM.

A connection of AMQP belongs to one virtual host. A session has one for each that it uses, and these count as one: if
one of them ends, all are ended, and an operation is answered only while those are open that have exclusive queues. So
an answer shows that the session's queues have an owner still.

Refusals (404, 405) come from what the node itself holds, which may be older than what was acknowledged elsewhere, so
they do not begin with the words that the contract has for a consistent answer. 406 does: no age of a copy explains a
conflict with what no client declared.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from splitbrain.harness.contract.brokers import Entity
from splitbrain.harness.contract.sessions import Answer, DefiniteError, IndefiniteError
from splitbrain.harness.systems.rabbitmq.connection import USER, Connection
from splitbrain.harness.systems.rabbitmq.probe import Asked
from splitbrain.results.errors import ProtocolError

NUMBER: Final = "number"
"""The argument of a binding, which the probe shows."""

OWNER: Final = "owner"
"""The argument of an exclusive queue that names its owner, which the probe shows: the broker knows a process."""

BY_PROBE: Final = ("vhost", "user", "permission", "policy")
"""Kinds of entities that AMQP does not know."""

_FIRST_USERS: Final = ("guest", USER)
_FIRST_VHOST: Final = "/"


class RabbitmqTopology:
    """Entities, as one session works on them.

    Args:
        connect: opens a connection to a virtual host.
        probe: of the node.
        how: reads are "local" or "consistent".
        arguments: of queues.
        name: of the session, as no other one has it.
    """

    def __init__(
        self,
        connect: Callable[[str], Awaitable[Connection]],
        probe: Asked,
        how: str,
        arguments: Mapping[str, Any],
        name: str,
    ) -> None:
        self._connect = connect
        self._probe = probe
        self._how = how
        self._arguments = dict(arguments)
        self._names = (f"{name}.{number}" for number in itertools.count())
        self._connections: dict[str, Connection] = {}
        self._owner: str | None = None
        self._owning: dict[str, None] = {}

    async def declare(self, entity: Entity) -> Answer:
        """Make an entity, if it is not there."""
        with _refusals():
            match entity:
                case ["exchange", v, x, kind, *goes]:
                    await (await self._on(v)).declare_exchange(x, kind, auto_delete=goes == [True])
                case ["queue", v, q]:
                    await (await self._on(v)).declare(q, self._arguments)
                case ["binding", v, x, kind, end, key, number]:
                    await (await self._on(v)).bind(x, kind, end, key, {NUMBER: number})
                case [kind, *names] if kind in BY_PROBE:
                    await self._probe.change(" ".join(("make", kind, *names)))
                case _:
                    raise ProtocolError(f"there is no entity {entity!r}.")
        await self._confirm_owner()
        return Answer(None)

    async def delete(self, entity: Entity) -> Answer:
        """Remove an entity. Whether it was there AMQP does not say.

        RabbitMQ removes a virtual host step by step, not in one transaction, so that is refused.
        """
        with _refusals():
            match entity:
                case ["vhost", v]:
                    raise DefiniteError(f"virtual host {v!r} stays: RabbitMQ does not remove one at one moment")
                case ["exchange", v, x, *_]:
                    await (await self._on(v)).delete_exchange(x)
                case ["queue", v, q]:
                    await (await self._on(v)).delete(q)
                case ["binding", v, x, kind, end, key, number]:
                    await (await self._on(v)).unbind(x, kind, end, key, {NUMBER: number})
                case [kind, *names] if kind in BY_PROBE:
                    await self._probe.change(" ".join(("remove", kind, *names)))
                case _:
                    raise ProtocolError(f"there is no entity {entity!r}.")
        await self._confirm_owner()
        return Answer(None)

    async def claim(self, vhost: str, queue: str) -> Answer:
        """Declare a queue that is exclusive to this session's connection; whose it is."""
        connection = await self._on(vhost)
        self._owner = owner = self._owner or next(self._names)
        self._owning[vhost] = None
        with _refusals():
            await connection.declare(queue, {OWNER: owner}, exclusive=True)
        await self._confirm_owner()
        return Answer(owner)

    async def disconnect(self) -> Answer:
        """End the connections: the node removes their queues before it says goodbye; whose they were.

        Raises:
            IndefiniteError: the node did not say so.
        """
        owner = self._owner
        lost = [vhost for vhost in self._owning if self._connections[vhost].is_lost]
        refused = [vhost for vhost in await self._end() if vhost not in lost]
        if lost or refused:
            raise IndefiniteError(f"disconnect: the node did not say goodbye in {', '.join((*lost, *refused))}")
        return Answer(owner)

    async def entities(self) -> Answer:
        """All entities at one moment, those left out that the broker begins with."""
        found = await self._probe.request(f"entities {self._how}", list[list[Any]])
        await self._confirm_owner()
        return Answer(sorted(each for each in found if not _was_there_at_first(each)))

    async def close(self) -> None:
        """End the connections."""
        await self._end()

    def drop(self) -> None:
        """Break the connections at once."""
        for connection in self._connections.values():
            connection.drop()

    async def _on(self, vhost: str) -> Connection:
        """The connection to a virtual host.

        Raises:
            DefiniteError: there is none, and none could be opened; or one of the others has ended.
        """
        if any(connection.is_lost for connection in self._connections.values()):
            await self._end()
            raise DefiniteError("a connection to the node has ended; nothing was sent on another one")
        if vhost not in self._connections:
            self._connections[vhost] = await self._connect(vhost)
        return self._connections[vhost]

    async def _confirm_owner(self) -> None:
        """Have the node show that all connections that own queues are open.

        Raises:
            IndefiniteError: one is not, or may not be. All are ended.
        """
        try:
            for vhost in self._owning:
                await self._connections[vhost].confirm_open()
        except (DefiniteError, IndefiniteError) as error:
            await self._end()
            raise IndefiniteError(f"done, but a connection that may own queues has ended: {error}") from error

    async def _end(self) -> list[str]:
        """End all connections; those owners' virtual hosts of which the node did not say that they ended."""
        connections, self._connections = self._connections, {}
        owning, self._owning, self._owner = self._owning, {}, None
        try:
            said = await asyncio.gather(*(connection.close() for connection in connections.values()))
        except BaseException:  # given up, maybe before any has begun: they would go on, and keep their queues
            for connection in connections.values():
                connection.drop()
            raise
        return [vhost for vhost, goodbye in zip(connections, said, strict=True) if not goodbye and vhost in owning]


@contextmanager
def _refusals() -> Generator[None]:
    """A refusal because there is one that differs, in the words of the contract."""
    try:
        yield
    except DefiniteError as error:
        if "406 PRECONDITION_FAILED - inequivalent" not in str(error):
            raise
        raise DefiniteError(f"precondition_failed: {error}") from error


def _was_there_at_first(entity: Entity) -> bool:
    match entity:
        case ["vhost", v]:
            return v == _FIRST_VHOST
        case ["user", u] | ["permission", _, u]:
            return u in _FIRST_USERS
        case ["exchange", v, x, *_]:
            return v == _FIRST_VHOST or x == "" or x.startswith("amq.")
        case [_, v, *_]:
            return v == _FIRST_VHOST
        case _:
            return False
