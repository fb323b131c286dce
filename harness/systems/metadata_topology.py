"""Entities of a message broker on the metadata cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from splitbrain.cluster.client import Client, ClientAddress, ClientError
from splitbrain.cluster.entities import topology
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.harness.contract.brokers import Entity
from splitbrain.harness.contract.sessions import Answer, DefiniteError
from splitbrain.harness.systems import metadata_entities
from splitbrain.harness.systems.broker_topology import LOOKED_AT, BrokerTopology, shown_at_one_moment
from splitbrain.harness.systems.metadata_errors import refused
from splitbrain.results.telemetry import TERM_OF_TABLES


class MetadataTopology(BrokerTopology):
    """Entities over one connection; errors of the client go through.

    Args:
        client: the connection.
        timeout_ms: how long an operation may take, all requests together.
    """

    def __init__(self, client: Client, timeout_ms: int) -> None:
        super().__init__(self._client_store, self._where)
        self._client = client
        self._timeout_ms = timeout_ms

    def _client_store(self, timeout_ms: int | None = None) -> ClientStore:
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + (timeout_ms or self._timeout_ms) / 1000
        return ClientStore(self._client, lambda: max(1, round((ends_s - loop.time()) * 1000)))

    async def _where(self) -> ClientAddress:
        """Which connection this is.

        Raises:
            DefiniteError: the node did not say so. Nothing has changed.
        """
        try:
            return await self._client.address()
        except ClientError as error:
            raise refused(error) from error

    async def prepare(self) -> Answer:
        """Have the cluster keep the projections of entities."""
        store = self._client_store()
        await store.register()
        return Answer(None, store.term)

    async def declare_with_value(self, entity: Entity) -> Answer:
        """Make an entity with its value, or give the one that is there this value."""
        store = self._store()
        await metadata_entities.declare(store, entity)
        return Answer(None, store.term)

    async def entities_with_values(self) -> Answer:
        """The same of every kind, and with their values."""
        store = self._store()
        return Answer(metadata_entities.shown(await topology.read_all(store)), store.term)

    async def projected(self, keys: Sequence[str]) -> Answer:
        """What the node holds at one moment: in its tree, in its projections, and where these lead.

        Raises:
            DefiniteError: the tables are in force, which answer each request by itself.
        """
        store = self._client_store()
        tree, tables = await store.at_one_moment(topology.READ, LOOKED_AT)
        if store.term == TERM_OF_TABLES:
            raise DefiniteError("unavailable: the tables are in force, and have no projections")
        return Answer(shown_at_one_moment(tree, tables, keys), store.term)
