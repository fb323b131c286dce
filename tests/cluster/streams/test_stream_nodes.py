"""Streams on whole nodes: declared, written, read, with writers that go and copies that come and go."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial

import pytest

from splitbrain.cluster import queueoperators
from splitbrain.cluster.client import Streams
from splitbrain.cluster.errors import InvalidRequestError, UnavailableError
from splitbrain.cluster.groupnames import STREAM_COORDINATOR
from splitbrain.cluster.marks import counted
from splitbrain.cluster.streamclient import StreamStatus
from splitbrain.cluster.streams.commands import MemberDown, encode
from splitbrain.cluster.wire import Failure, QueueOp, Request
from tests.cluster.queuegroups.support import FIVE, THREE, in_cluster
from tests.cluster.support import World, eventually


async def streams_on(world: World, name: str) -> Streams:
    return await (await world.client(name)).streams()


async def status_of(streams: Streams, name: str = "s") -> StreamStatus:
    return next(each for each in await streams.status() if each.name == name)


async def all_running(streams: Streams, members: int = 3) -> StreamStatus:
    async def look() -> StreamStatus | None:
        found = await status_of(streams)
        phases = list(found.members.values())
        return found if phases == ["running"] * members and len(found.voters) == members else None

    return await eventually(look)


async def read_all(streams: Streams, count: int) -> list[bytes]:
    """All messages, once this node's copy has so many."""

    async def look() -> list[bytes] | None:
        found = await streams.read("s", 0)
        return list(found.bodies) if found.committed >= count else None

    return await eventually(look)


def test_a_stream_is_declared_written_and_read_on_each_node() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n2")
        assert await streams.declare("s")
        assert not await streams.declare("s")
        status = await all_running(streams)
        assert (status.epoch, status.writer) == (1, "n2")
        publisher = (await streams_on(world, "n1")).publisher("s", "p")
        offsets = [(await publisher.publish(f"m{number}".encode())).offset for number in range(5)]
        assert offsets == [0, 1, 2, 3, 4]
        for name in THREE:
            assert await read_all(await streams_on(world, name), 5) == [b"m0", b"m1", b"m2", b"m3", b"m4"]

    with counted() as marks:
        in_cluster(check)
    assert marks["coordinator of streams begun"] == 3
    assert marks["request passed on to the writer of a stream"] >= 5


def test_a_node_without_a_copy_passes_on_what_is_published_and_read() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await streams.declare("s")
        status = await all_running(streams)
        outside = next(name for name in FIVE if name not in status.members)
        elsewhere = await streams_on(world, outside)

        async def publish() -> bool:
            await elsewhere.publisher("s", "p").publish(b"x")
            return True

        await eventually(publish)
        assert await read_all(elsewhere, 1) == [b"x"]

    in_cluster(check, FIVE)


def test_confirmed_messages_outlive_their_writer_and_a_restart_of_all() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await streams.declare("s")
        await all_running(streams)
        publisher = streams.publisher("s", "p")
        for number in range(3):
            await publisher.publish(str(number).encode())
        await world.kill("n1")
        second = await streams_on(world, "n2")

        async def moved() -> bool:
            found = await status_of(second)
            return found.is_running and found.writer != "n1"

        await eventually(moved)
        assert (await second.publisher("s", "q").publish(b"3")).offset == 3
        await world.start("n1")
        await all_running(second)
        assert await read_all(await streams_on(world, "n1"), 4) == [b"0", b"1", b"2", b"3"]
        for name in THREE:
            await world.kill(name)
        await world.start()
        again = await streams_on(world, "n3")
        await all_running(again)
        assert (await again.publisher("s", "r").publish(b"4")).offset == 4
        assert await read_all(again, 5) == [b"0", b"1", b"2", b"3", b"4"]

    in_cluster(check)


def test_what_is_sent_again_under_its_number_is_there_once() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await streams.declare("s")
        first = await streams.publisher("s", "p").publish(b"x")
        assert await streams.publisher("s", "p").publish(b"x") == first
        assert (await streams.publisher("s", "p", 1).publish(b"y")).offset == 1
        assert await read_all(streams, 2) == [b"x", b"y"]

    in_cluster(check)


def test_large_messages_that_come_at_once_are_copied_and_read_in_parts() -> None:
    """Together they are more than a connection carries in one message."""

    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await streams.declare("s")
        status = await all_running(streams)
        publishers = [streams.publisher("s", f"p{number}") for number in range(180)]
        offsets = await asyncio.gather(*(each.publish(b"x" * 100_000) for each in publishers))
        assert sorted(each.offset or 0 for each in offsets) == list(range(180))
        outside = next(name for name in FIVE if name not in status.members)
        for name in (outside, *status.members):
            elsewhere = await streams_on(world, name)
            await eventually(partial(has_committed, elsewhere, 180))
            read = 0
            while read < 180:
                found = (await elsewhere.read("s", read)).bodies
                assert 0 < len(found) < 20
                read += len(found)

    in_cluster(check, FIVE)


async def has_committed(streams: Streams, count: int) -> bool | None:
    return (await streams.read("s", 0, most=1)).committed >= count or None


def test_what_clients_may_not_say_is_refused() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        streams = await client.streams()
        await streams.declare("s")
        before = await all_running(streams)
        down = encode(MemberDown(1, before.writer or "", before.epoch))
        channel = client._channel  # pyright: ignore[reportPrivateUsage]
        refused = await channel.ask(Request(0, 1000, QueueOp(down), group=STREAM_COORDINATOR))
        assert isinstance(refused.outcome, Failure)
        assert refused.outcome.reason == "invalid_request"
        with pytest.raises(InvalidRequestError, match="n9 is no member of the coordinator"):
            await streams.add_replica("s", "n9")
        with pytest.raises(InvalidRequestError, match="a publisher has a name"):
            streams.publisher("s", "")
        assert await status_of(streams) == before

    in_cluster(check)


def test_copies_are_added_and_removed_and_streams_deleted() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await streams.declare("s")
        before = await all_running(streams)
        await streams.publisher("s", "p").publish(b"x")
        outside = next(name for name in FIVE if name not in before.members)

        async def changed(change: str, member: str) -> bool | None:
            with suppress(UnavailableError):  # the epoch of the last change may not have begun
                await getattr(streams, change)("s", member)
                return True

        await eventually(lambda: changed("add_replica", outside))
        assert outside in (await all_running(streams, 4)).members
        assert await read_all(await streams_on(world, outside), 1) == [b"x"]
        await eventually(lambda: changed("delete_replica", "n1"))
        after = await all_running(streams)
        assert "n1" not in after.members
        assert after.writer != "n1"
        assert not [name for name in world.disks["n1"].names() if name.startswith("stream-")]
        await streams.delete("s")

        async def gone() -> bool:
            names = [name for disk in world.disks.values() for name in disk.names()]
            return not any(name.startswith("stream-") for name in names)

        await eventually(gone)
        assert await streams.status() == []

    in_cluster(check, FIVE)


def test_operators_see_no_streams_before_the_first_one_and_then_their_copies() -> None:
    async def check(world: World) -> None:
        client = await world.client("n1")
        assert await queueoperators.every_stream(client) == []
        streams = await streams_on(world, "n1")
        await streams.declare("s")
        await all_running(streams)
        (seen,) = await queueoperators.every_stream(client)
        assert (seen.name, seen.writer, set(seen.members)) == ("s", "n1", set(THREE))

    in_cluster(check)
