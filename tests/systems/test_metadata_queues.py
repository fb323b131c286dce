"""Queues of the metadata cluster as the workload `queue` uses them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from splitbrain.cluster.client import Client, QueueNotFoundError, QueueOptions, UnavailableError
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.metadata_declared import DECLARE_S
from splitbrain.harness.systems.metadata_queues import MetadataQueues
from tests.cluster.queuegroups.support import in_cluster, queues_on
from tests.cluster.support import World, eventually, in_virtual_time

PREPARED_S = 10.0
"""After so long the harness gives up a workload that is not prepared."""

QUEUES = ("q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7")


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

    async def find(self, name: str, *, timeout_ms: int) -> None:
        """Whether it is there is found out by what is done with it."""

    async def purge(self, name: str, *, timeout_ms: int) -> int:
        raise QueueNotFoundError(f"there is no queue {name}.", 1)


def of(client: NoQueues) -> MetadataQueues:
    return MetadataQueues(cast(Client, client), 1500, {})


def test_a_session_that_cannot_make_its_queues_gives_up_before_the_harness_does() -> None:
    async def declares() -> float:
        queues, loop = of(NoQueues()), asyncio.get_running_loop()
        began = loop.time()
        for name in QUEUES:
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


def test_to_find_a_queue_takes_no_time_from_what_is_done_with_it() -> None:
    class Slow(NoQueues):
        """Answers after a second, as long as the time of the request lasts; who does not know the queue asks twice."""

        is_known = False

        async def find(self, name: str, *, timeout_ms: int) -> None:
            await self._answered(timeout_ms)
            self.is_known = True

        async def purge(self, name: str, *, timeout_ms: int) -> int:
            await self._answered(timeout_ms if self.is_known else timeout_ms - 1000)
            return 5

        async def _answered(self, timeout_ms: int) -> None:
            await asyncio.sleep(min(1.0, timeout_ms / 1000))
            if timeout_ms < 1000:
                raise UnavailableError("no answer in time.", 1)

    async def purges() -> None:
        assert (await of(Slow()).purge("q0")).value == 5

    in_virtual_time(purges())


# --- consumers, on nodes in memory ------------------------------------------------------------------------------------


async def sessions(world: World, count: int) -> list[MetadataQueues]:
    """Sessions of one run, with n1."""
    options: dict[str, QueueOptions] = {}
    return [MetadataQueues(await world.client("n1"), 1500, options) for _ in range(count)]


async def given_to(session: MetadataQueues) -> Any:
    return (await session.consume("sa0")).value


def test_one_session_at_a_time_is_given_messages_one_by_one_until_it_leaves() -> None:
    async def check(world: World) -> None:
        first, second = await sessions(world, 2)
        await first.declare("sa0", single_active=True)
        assert await given_to(first) is None
        assert await given_to(second) is None
        for value in (1, 2, 3):
            await second.publish("sa0", value)
        one = await eventually(lambda: given_to(first))
        assert (one["value"], one["redelivered"]) == (1, False)
        assert await given_to(first) is None, "the one before is not acknowledged"
        first.ack(one["tag"])
        assert (await eventually(lambda: given_to(first)))["value"] == 2
        assert await given_to(second) is None
        await first.leave("sa0")
        two = await eventually(lambda: given_to(second))
        assert (two["value"], two["redelivered"]) == (2, True)

    in_cluster(check)


def test_a_session_that_is_no_consumer_any_more_hears_so_once_and_any_session_makes_the_queue_as_it_was() -> None:
    async def check(world: World) -> None:
        first, second = await sessions(world, 2)
        await first.declare("sa0", single_active=True)
        assert await given_to(first) is None
        await (await queues_on(world, "n1")).delete("sa0")

        async def is_over() -> bool | None:
            try:
                await first.consume("sa0")
            except DefiniteError:
                return True
            return None

        await eventually(is_over)
        await second.publish("sa0", 1)
        record = (await (await queues_on(world, "n2")).declare("sa0")).record
        assert record.config.single_active_consumer
        assert (await eventually(lambda: given_to(first)))["value"] == 1

    in_cluster(check)


def test_a_limited_queue_publishes_its_dead_letters_at_least_once_with_their_reason() -> None:
    async def check(world: World) -> None:
        [session] = await sessions(world, 1)
        await session.declare("dead")
        await session.declare_limited("p0", 1, "dead")
        await session.publish("p0", 4)
        for _ in range(2):
            taken = (await session.take("p0")).value
            assert "reason" not in taken
            session.reject(taken["tag"], requeue=True)

        async def letter() -> Any:
            return (await session.take("dead")).value

        found = await eventually(letter)
        assert (found["value"], found["reason"]) == (4, "delivery_limit")

    in_cluster(check)
