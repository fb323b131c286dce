"""Classic queues in nodes: declared, published to, taken from, converted, and what is left after kills."""

from __future__ import annotations

import asyncio
import random

import pytest

from splitbrain.cluster.bugs import M79, Bugs
from splitbrain.cluster.classicclient import ClassicQueues
from splitbrain.cluster.classicqueues.held import TAKEN_MS
from splitbrain.cluster.errors import CorruptStorageError, InvalidRequestError, UnavailableError
from splitbrain.cluster.marks import counted
from tests.cluster.queuegroups.support import in_cluster
from tests.cluster.support import World, eventually

SEGMENT = "0.idx"


async def queues_on(world: World, name: str) -> ClassicQueues:
    return await (await world.client(name)).classic_queues()


async def taken(queues: ClassicQueues, name: str = "c") -> list[bytes]:
    bodies: list[bytes] = []
    while (message := await queues.take(name)) is not None:
        await queues.settle(name, message)
        bodies.append(message.body)
    return bodies


async def converted(queues: ClassicQueues, name: str = "c") -> None:
    async def look() -> bool | None:
        return (await queues.look(name)).versions.get(SEGMENT) == 2 or None

    await eventually(look)


def test_a_queue_is_declared_once_and_every_node_reaches_it() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        assert await queues.declare("c", node="n2")
        other = await queues_on(world, "n3")
        assert not await other.declare("c", node="n3")
        await queues.put("c", b"1")
        await other.put("c", b"2")
        assert (await other.look("c")).ready == 2
        assert await taken(await queues_on(world, "n2")) == [b"1", b"2"]
        await queues.put("c", b"3")
        assert await other.purge("c") == 1
        with pytest.raises(InvalidRequestError, match="has no node n9"):
            await queues.declare("d", node="n9")
        with pytest.raises(UnavailableError, match="knows no classic queue 'd'"):
            await queues.put("d", b"")

    with counted() as marks:
        in_cluster(check)
    assert marks["request passed on to the node that holds a classic queue"] >= 4


def test_what_was_confirmed_is_there_after_a_kill_and_after_a_loss_of_power() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2")
        for body in (b"1", b"2", b"3"):
            await queues.put("c", body)
        first = await queues.take("c")
        assert first is not None
        await queues.settle("c", first)
        second = await queues.take("c")  # which is not settled
        assert second is not None
        for power in (False, True):
            await world.kill("n2")
            with pytest.raises(UnavailableError):
                await queues.put("c", b"x")
            if power:
                world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
            await world.start("n2")

            async def holds() -> bool | None:
                try:
                    return (await queues.look("c")).ready == 2
                except UnavailableError:
                    return None

            await eventually(holds)
        with pytest.raises(UnavailableError, match="went back before"):
            await queues.settle("c", second)  # the tag is of an earlier life
        assert await taken(queues) == [b"2", b"3"]

    in_cluster(check)


def test_what_is_not_settled_in_time_goes_back_and_counts_as_redelivered() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c")
        await queues.put("c", b"1")
        first = await queues.take("c")
        assert first is not None
        assert not first.redelivered
        assert await queues.take("c") is None
        await asyncio.sleep(TAKEN_MS / 1000 + 1)
        again = await queues.take("c")
        assert again is not None
        assert (again.redelivered, again.redeliveries) == (True, 1)
        with pytest.raises(UnavailableError):
            await queues.settle("c", first)
        await queues.settle("c", again)
        assert await queues.take("c") is None

    in_cluster(check)


def test_a_message_that_is_given_back_too_often_is_dropped() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", delivery_limit=2)
        await queues.put("c", b"1")
        for _ in range(3):
            message = await queues.take("c")
            assert message is not None
            await queues.settle("c", message, "requeue")
        assert await queues.take("c") is None
        seen = await queues.look("c")
        assert (seen.ready, seen.dropped) == (0, 1)

    in_cluster(check)


def test_files_are_converted_once_and_stay_so_over_a_restart() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2")
        await queues.put("c", b"1")
        assert await queues.convert("c")
        assert not await queues.convert("c")
        await converted(queues)
        await queues.put("c", b"2")
        await world.kill("n2")
        world.disks["n2"] = world.disks["n2"].crash(random.Random(1))
        await world.start("n2")

        async def both() -> list[bytes] | None:
            try:
                return await taken(queues)
            except UnavailableError:
                return None

        assert await eventually(both) == [b"1", b"2"]

    in_cluster(check)


def test_a_queue_that_is_deleted_leaves_no_files_and_one_of_its_name_is_another() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2")
        await queues.put("c", b"1")
        await queues.delete("c")

        async def gone() -> bool | None:
            return not any(name.startswith("classic-") for name in world.disks["n2"].names()) or None

        await eventually(gone)
        await queues.declare("c", node="n2")
        assert await queues.take("c") is None

    in_cluster(check)


def test_m79_leaves_a_torn_segment_that_its_node_refuses() -> None:
    async def check(world: World) -> None:
        queues = await queues_on(world, "n1")
        await queues.declare("c", node="n2")
        for number in range(20):
            await queues.put("c", str(number).encode())
        await queues.convert("c")
        await converted(queues)
        await world.kill("n2")
        disk, name = world.disks["n2"], next(name for name in world.disks["n2"].names() if name.endswith(SEGMENT))
        written = disk.read(name) or b""
        disk.put(name, written[: len(written) // 2])  # what was not synced may be there in part
        await world.start("n2")
        await eventually(lambda: _first(world))
        assert isinstance(world.failures[0], CorruptStorageError)
        world.failures.clear()

    async def _first(world: World) -> BaseException | None:
        return next(iter(world.failures), None)

    in_cluster(check, bugs=Bugs([M79.id]))
