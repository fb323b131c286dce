"""What nodes may convert: alarms, thresholds and the table (CQ-7), and what an orderly stop writes (CQ-5)."""

from __future__ import annotations

import asyncio
import random

import pytest

from splitbrain.cluster.classic.transformations import MESSAGE_PROPERTIES, NAME
from splitbrain.cluster.classicclient import ClassicQueues
from splitbrain.cluster.errors import (
    InvalidRequestError,
    OutcomeUnknownError,
    QueueConversionRefusedError,
    UnavailableError,
)
from splitbrain.cluster.marks import counted
from splitbrain.cluster.permits import Thresholds
from tests.cluster.classicqueues.test_classic_nodes import SEGMENT, converted, queues_on, taken
from tests.cluster.queuegroups.support import in_cluster
from tests.cluster.support import World, eventually


async def files_of(queues: ClassicQueues, name: str = "c") -> set[int]:
    return set((await queues.look(name)).versions.values())


async def is_held(queues: ClassicQueues, name: str = "c") -> None:
    async def look() -> bool | None:
        try:
            await queues.look(name)
        except UnavailableError:
            return None
        return True

    await eventually(look)


async def given_back(queues: ClassicQueues, times: int, name: str = "c") -> None:
    for _ in range(times):
        message = await queues.take(name)
        assert message is not None
        await queues.settle(name, message, "requeue")


@pytest.mark.parametrize("asked", ["n1", "n2"])
def test_cq_7_a_node_with_an_alarm_refuses_to_convert_and_says_why(asked: str) -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, asked)
        await queues.declare("c", node="n2")
        await queues.put("c", b"1")
        assert (await queues.set_alarm("n2", "disk")).alarms == ("disk",)
        with pytest.raises(QueueConversionRefusedError, match=r"while there is an alarm \(disk\): clear it") as refusal:
            await queues.convert("c")
        assert (refusal.value.reason, refusal.value.definite) == ("alarm", True)
        assert await files_of(queues) == {1}
        assert (await queues.set_alarm("n2", "disk", is_active=False)).alarms == ()
        assert await queues.convert("c")
        await converted(queues)
        with pytest.raises(InvalidRequestError, match="has no node n9"):
            await queues.set_alarm("n9", "disk")

    in_cluster(check)


def test_cq_7_an_alarm_that_comes_before_the_conversion_has_it_wait_and_nothing_is_half_converted() -> None:
    async def check(world: World) -> None:
        queues, other = await queues_on(world, "n1"), await queues_on(world, "n2")
        await queues.declare("c", node="n2")
        await queues.put("c", b"1")
        world.cut |= {("n1", "n2"), ("n3", "n2")}  # n2 hears of the record late: the alarm is there by then
        record = await (await world.client("n1")).get("/classic_queues/c")
        await (await world.client("n1")).put("/classic_queues/c", {**record.value, "version": 2})
        await other.set_alarm("n2", "memory")
        world.cut.clear()
        await asyncio.sleep(5)
        assert await files_of(queues) == {1}
        await queues.put("c", b"2")
        await other.set_alarm("n2", "memory", is_active=False)
        await converted(queues)
        assert await taken(queues) == [b"1", b"2"]

    with counted() as marks:
        in_cluster(check)
    assert marks["conversion of a classic queue refused"] >= 2
    assert marks["classic queue converted"] == 1


def test_cq_7_more_messages_than_the_threshold_are_not_converted() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2")
        for body in (b"1", b"2", b"3"):
            await queues.put("c", body)
        with pytest.raises(QueueConversionRefusedError, match="3 messages to convert, and at most 2") as refusal:
            await queues.convert("c")
        assert refusal.value.reason == "threshold"
        await queues.purge("c")
        for name in ("d", "e"):
            await queues.declare(name, node="n2")
            await queues.put(name, b"x")
        with pytest.raises(QueueConversionRefusedError, match="2 queues to convert, and at most 1"):
            await queues.enable(MESSAGE_PROPERTIES)

    async def limited(world: World) -> None:
        world.conversions = Thresholds(messages=2, queues=1)
        await world.kill("n2")
        await world.start("n2")
        await check(world)

    in_cluster(limited)


def test_cq_7_a_new_node_begins_with_all_transformations_and_one_with_files_only_with_none() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2", delivery_limit=5)
        await queues.put("c", b"1")
        assert (await queues.look_at_node("n2")).transformations == {MESSAGE_PROPERTIES: 2}
        await world.kill("n2")
        world.disks["n2"].remove(NAME)  # as an earlier program left it
        await world.start("n2")
        await is_held(queues)
        assert (await queues.look_at_node("n2")).transformations == {}
        with pytest.raises(QueueConversionRefusedError, match="no such transformation") as refusal:
            await queues.enable("nothing")
        assert refusal.value.reason == "unknown"
        await queues.set_alarm("n3", "memory")
        with pytest.raises(QueueConversionRefusedError, match="memory"):
            await queues.enable(MESSAGE_PROPERTIES)
        assert (await queues.look_at_node("n2")).transformations == {}  # one refused: none began
        await queues.set_alarm("n3", "memory", is_active=False)
        assert await queues.enable(MESSAGE_PROPERTIES)
        assert not await queues.enable(MESSAGE_PROPERTIES)
        await world.kill("n2")
        world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
        await world.start("n2")
        await is_held(queues)
        assert (await queues.look_at_node("n2")).transformations == {MESSAGE_PROPERTIES: 2}
        assert await files_of(queues) == {1}  # nothing is converted for that

    in_cluster(check)


def test_cq_7_a_transformation_is_begun_on_no_node_while_one_cannot_be_asked() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await world.kill("n3")
        with pytest.raises(UnavailableError, match="n3"):
            await queues.enable(MESSAGE_PROPERTIES)
        with pytest.raises(UnavailableError, match="n3"):
            await queues.look_at_node("n3")

    in_cluster(check)


def test_cq_7_it_is_not_known_where_a_transformation_was_begun_if_a_node_fails_after_it_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        asked = ClassicQueues._ask_node  # pyright: ignore[reportPrivateUsage]
        calls = iter([None] * 5)

        async def ask(*arguments: object) -> object:
            if next(calls, False) is False:
                raise UnavailableError("gone.", None)
            return await asked(*arguments)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(ClassicQueues, "_ask_node", ask)
        with pytest.raises(OutcomeUnknownError, match=r"not all nodes began message_properties: gone\. Ask again"):
            await queues.enable(MESSAGE_PROPERTIES)

    in_cluster(check)


@pytest.mark.parametrize(("is_orderly", "left"), [(True, 1), (False, 2)])
def test_cq_5_an_orderly_stop_writes_counts_and_a_kill_forgets_them(is_orderly: bool, left: int) -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2", delivery_limit=2)
        await queues.put("c", b"1")
        await given_back(queues, 2)  # one redelivery
        if is_orderly:
            await world.nodes["n2"].stop_queues()
            with pytest.raises(UnavailableError, match="stops"):
                await queues.look("c")
        await world.kill("n2")
        world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
        await world.start("n2")
        await is_held(queues)
        assert (await files_of(queues) == {2}) is is_orderly
        await given_back(queues, left)
        assert await queues.take("c") is None
        assert (await queues.look("c")).dropped == 1

    in_cluster(check)


def test_cq_5_an_orderly_stop_writes_no_counts_where_nothing_may_be_converted() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2", delivery_limit=5)
        await queues.put("c", b"1")
        await given_back(queues, 3)
        await queues.set_alarm("n2", "disk")
        await world.nodes["n2"].stop_queues()
        await world.kill("n2")
        await world.start("n2")
        await is_held(queues)
        assert await files_of(queues) == {1}
        assert (await queues.look_at_node("n2")).alarms == ()  # of the process before
        assert await taken(queues) == [b"1"]

    in_cluster(check)


def test_what_a_stop_finds_taken_is_there_again_and_a_segment_keeps_its_name() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2", dead_letter_to="dead")
        for body in (b"1", b"2"):
            await queues.put("c", body)
        first = await queues.take("c")
        second = await queues.take("c")
        assert first is not None
        assert second is not None
        await queues.settle("c", first, "discard")  # it waits: there is no queue for it
        await world.nodes["n2"].stop_queues()
        await world.kill("n2")
        await world.start("n2")
        await is_held(queues)
        assert SEGMENT in (await queues.look("c")).versions
        assert await taken(queues) == [b"1", b"2"]

    in_cluster(check)
