"""Queues of the metadata cluster as the workload `queue` uses them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.client import Client, QueueNotFoundError, UnavailableError
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.metadata_queues import DECLARE_S, MetadataQueues
from tests.cluster.support import in_virtual_time

PREPARED_S = 10.0
"""After so long the harness gives up a workload that is not prepared."""

THREE = ("q0", "q1", "q2")


class NoQueues:
    """A cluster that cannot make queues yet, and answers after a second and a half."""

    def __init__(self) -> None:
        self.declared: list[str] = []

    async def queues(self) -> NoQueues:
        return self

    async def declare(self, name: str, _: Any, *, timeout_ms: int) -> Any:
        self.declared.append(name)
        await asyncio.sleep(timeout_ms / 1000)
        raise UnavailableError("not yet.", 1)

    async def purge(self, name: str, *, timeout_ms: int) -> int:
        raise QueueNotFoundError(f"there is no queue {name}.", 1)


def of(client: NoQueues) -> MetadataQueues:
    return MetadataQueues(cast(Client, client), 1500, {})


def test_a_session_that_cannot_make_its_queues_gives_up_before_the_harness_does() -> None:
    async def declares() -> float:
        queues, loop = of(NoQueues()), asyncio.get_running_loop()
        began = loop.time()
        for name in THREE:
            await queues.declare(name)  # no error: the first op that finds no queue makes it
        return loop.time() - began

    took_s: list[float] = []

    async def measured() -> None:
        took_s.append(await declares())

    in_virtual_time(measured())
    assert DECLARE_S <= took_s[0] < PREPARED_S


def test_a_node_that_does_not_say_its_address_yet_leaves_the_queues_to_later_ops() -> None:
    class Mute(NoQueues):
        asked = 0

        async def queues(self) -> NoQueues:
            self.asked += 1
            raise UnavailableError("not yet.", 1)

    client = Mute()

    async def declares() -> None:
        await of(client).declare("q0")

    in_virtual_time(declares())
    assert client.asked > 1


def test_what_is_asked_of_a_queue_that_cannot_be_made_yet_has_failed_for_certain() -> None:
    client = NoQueues()

    async def purges() -> None:
        with pytest.raises(DefiniteError, match="there is no queue q0"):
            await of(client).purge("q0")

    in_virtual_time(purges())
    assert client.declared == ["q0"]


def test_a_queue_that_is_not_there_is_made_and_asked_again() -> None:
    class Late(NoQueues):
        async def declare(self, name: str, _: Any, *, timeout_ms: int) -> Any:
            self.declared.append(name)
            return SimpleNamespace(term=2)

        async def purge(self, name: str, *, timeout_ms: int) -> int:
            return 5 if self.declared else await super().purge(name, timeout_ms=timeout_ms)

    client = Late()

    async def purges() -> None:
        assert (await of(client).purge("q0")).value == 5

    in_virtual_time(purges())
    assert client.declared == ["q0"]
