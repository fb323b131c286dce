"""Entities of a message broker on the table store: each is in tables, and others follow from these."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from splitbrain.cluster.client import ClientAddress
from splitbrain.cluster.tables_client import TablesClient
from splitbrain.cluster.tables_entities import TablesStore
from splitbrain.harness.contract.sessions import Answer
from splitbrain.harness.systems.broker_topology import LOOKED_AT, BrokerTopology, shown_at_one_moment


class _Timed:
    """A client whose requests end, all together, after some time."""

    def __init__(self, client: TablesClient, timeout_ms: int) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + timeout_ms / 1000

    async def run(self, procedure: str, arguments: Sequence[Any]) -> Any:
        """See `RunsProcedures`."""
        left_ms = max(1, round((self._ends_s - self._loop.time()) * 1000))
        return await self._client.run(procedure, arguments, left_ms)


class _Store(TablesStore):
    """There are no terms."""

    term: int | None = None


class TablesTopology(BrokerTopology):
    """Entities over one connection; errors of the client go through.

    Args:
        client: the connection.
        timeout_ms: how long an operation may take, all requests together.
    """

    def __init__(self, client: TablesClient, timeout_ms: int) -> None:
        super().__init__(self._tables, self._where)
        self._client = client
        self._timeout_ms = timeout_ms

    def _tables(self, timeout_ms: int | None = None) -> _Store:
        return _Store(_Timed(self._client, timeout_ms or self._timeout_ms))

    async def _where(self) -> ClientAddress:
        node, life, number = (await self._client.state()).client.rsplit(".", 2)
        return ClientAddress(node, int(life), int(number))

    async def projected(self, keys: Sequence[str]) -> Answer:
        """What the node holds at one moment: in its tables, in those that follow from these, and where they lead."""
        read, tables = await self._tables().at_one_moment(LOOKED_AT)
        return Answer(shown_at_one_moment(read, tables, keys))
