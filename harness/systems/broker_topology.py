"""Entities of a message broker over a store of them: each operation is one transaction of `cluster.entities`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from splitbrain.cluster.client import ClientAddress, ClientError
from splitbrain.cluster.entities import bindings, exchanges, permissions, policies, queues, topology, users, vhosts
from splitbrain.cluster.entities.errors import EntityExistsError, EntityNotFoundError
from splitbrain.cluster.entities.names import decoded_arguments
from splitbrain.cluster.entities.routing import TABLES, route, routed
from splitbrain.cluster.entities.store import MetadataStore, encoded
from splitbrain.cluster.entities.topology import Topology
from splitbrain.cluster.lives import owner_of, place_of
from splitbrain.harness.contract.brokers import Entity
from splitbrain.harness.contract.sessions import Answer, IndefiniteError
from splitbrain.harness.systems import metadata_entities
from splitbrain.harness.systems.metadata_entities import NUMBER
from splitbrain.results.errors import ProtocolError

HEADERS: Final = {NUMBER: 0}
"""Of all messages."""

POLICY: Final = {"max-length": 10}
"""What policies set."""

CLOSE_MS: Final = 300
"""How long the end of a session may take."""

LOOKED_AT: Final = tuple(dict.fromkeys((*topology.TABLES, *TABLES)))
"""The tables of `projected`: of entities, and of routes."""


class Store(MetadataStore, Protocol):
    """A store that knows the term of its last answer; None where it has no terms."""

    @property
    def term(self) -> int | None:
        """The term."""
        ...


class BrokerTopology:
    """Entities over one connection; errors of the client go through.

    Args:
        store: gives the store for one operation, which takes so many milliseconds at most; None for the usual time.
        address: says which connection this is, as all nodes know it.
    """

    def __init__(self, store: Callable[[int | None], Store], address: Callable[[], Awaitable[ClientAddress]]) -> None:
        self._new_store = store
        self._address = address
        self._connection: ClientAddress | None = None
        self._owner: str | None = None
        self._owners = 0

    def _store(self, timeout_ms: int | None = None) -> Store:
        return self._new_store(timeout_ms)

    async def declare(self, entity: Entity) -> Answer:
        """Make an entity, if it is not there."""
        store = self._store()
        match entity:
            case ["vhost", v]:
                await vhosts.declare(store, v)
            case ["user", u]:
                try:
                    await users.add(store, u)
                except EntityExistsError as error:
                    return Answer(None, error.term)
            case ["permission", v, u]:
                await permissions.grant(store, v, u, read=".*")
            case ["exchange", v, x, kind, *goes]:
                await exchanges.declare(store, v, x, kind, auto_delete=goes == [True])
            case ["policy", v, name]:
                await policies.put(store, v, name, f"^{name}", POLICY)
            case ["queue", v, q]:
                await queues.declare(store, v, q)
            case ["binding", v, x, kind, end, key, number]:
                await bindings.add(store, v, x, kind, end, key, arguments={NUMBER: number})
            case _:
                raise ProtocolError(f"there is no entity {entity!r}.")
        return Answer(None, store.term)

    async def delete(self, entity: Entity) -> Answer:
        """Remove an entity; whether it was there."""
        store = self._store()
        try:
            was_there = await metadata_entities.delete(store, entity)
        except EntityNotFoundError as error:
            return Answer(False, error.term)
        return Answer(was_there, store.term)

    async def claim(self, vhost: str, queue: str) -> Answer:
        """Make a queue that is exclusive to this session's connection; whose it is."""
        connection = self._connection = self._connection or await self._address()
        if self._owner is None:
            self._owners += 1
            self._owner = owner_of(connection, self._owners)
        store = self._store()
        await queues.declare(store, vhost, queue, durable=False, owner=self._owner, node=place_of(connection))
        return Answer(self._owner, store.term)

    async def owned(self) -> Answer:
        """Who this session is as an owner, or None, and which queues it has."""
        store = self._store()
        found = await queues.of_owner(store, self._owner or "")  # without an owner it finds none
        return Answer([self._owner, sorted([each.vhost, each.name] for each in found)], store.term)

    async def disconnect(self) -> Answer:
        """End the connection: its queues go; whose they were.

        Raises:
            IndefiniteError: some may have gone.
        """
        owner, self._owner = self._owner, None
        store = self._store()
        try:
            await queues.delete_exclusive(store, owner or "")  # without an owner it finds none
        except ClientError as error:
            raise IndefiniteError(str(error)) from error
        return Answer(owner, store.term)

    async def close(self) -> None:
        """The same at the end of the session, as far as its node can still do it."""
        if self._owner is not None:
            with suppress(ClientError):
                await queues.delete_exclusive(self._store(CLOSE_MS), self._owner)

    async def entities(self) -> Answer:
        """All entities at one moment, those left out that every virtual host begins with."""
        store = self._store()
        return Answer(_listed(await topology.read(store)), store.term)


def shown_at_one_moment(
    read: Any, tables: Mapping[str, Sequence[Sequence[Any]]], keys: Sequence[str]
) -> dict[str, list[Any]]:
    """What a node holds at one moment: in its store, in the tables that follow from that, and where these lead.

    Args:
        read: what `topology.READ` gave.
        tables: all records of `LOOKED_AT`.
        keys: of messages that are routed.
    """
    by_key = {name: _by_key(every) for name, every in tables.items()}

    def records(table: str, key: Any) -> list[Any]:
        return by_key[table].get(encoded(key), [])

    projected = topology.of_tables(tables)
    routes = [
        [found.vhost, found.name, key, routed(route(found.vhost, found.name, key, HEADERS), records)]
        for found in projected.exchanges
        if not found.name.startswith(exchanges.RESERVED)
        for key in keys
    ]
    return {"tree": _listed(topology.of_read(read)), "tables": _listed(projected), "routes": sorted(routes)}


def _by_key(records: Sequence[Sequence[Any]]) -> dict[bytes, list[Any]]:
    found: dict[bytes, list[Any]] = {}
    for record in records:
        found.setdefault(encoded(record[0]), []).append(record)
    return found


def _listed(found: Topology) -> list[Entity]:
    entities: list[Entity] = [
        *(["vhost", each.name] for each in found.vhosts),
        *(["user", each.name] for each in found.users),
        *(["permission", each.vhost, each.user] for each in found.permissions),
        *(["policy", each.vhost, each.name] for each in found.policies),
        *(
            ["exchange", each.vhost, each.name, each.type, *([True] if each.auto_delete else [])]
            for each in found.exchanges
            if not each.name.startswith(exchanges.RESERVED)
        ),
        *(
            ["queue", each.vhost, each.name] if each.owner is None else ["exclusive", each.vhost, each.name, each.owner]
            for each in found.queues
        ),
        *(
            ["binding", *(each.vhost, each.source, each.kind, each.destination, each.key), number]
            for each in found.bindings
            for number in [decoded_arguments(each.arguments).get(NUMBER)]
        ),
    ]
    return sorted(entities)
