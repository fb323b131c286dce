"""Superstreams: streams that are declared, spread over the nodes, kept and deleted together (S001)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from splitbrain.cluster.errors import ClientError, InvalidRequestError
from splitbrain.cluster.streamclient import Streams, StreamStatus
from splitbrain.cluster.streamclient.connection import StreamNotFoundError
from splitbrain.cluster.streams.commands import Accepted, NewStream, StreamRefused
from splitbrain.cluster.streams.coordinator import Coordinator
from splitbrain.cluster.streams.state import State, decode_state, encode_state
from tests.cluster.queuegroups.support import THREE
from tests.cluster.streams.test_stream_replicas import FOUR, WITHIN_S, in_cluster, tried
from tests.cluster.support import World, eventually

FIVE = [*FOUR, "n5"]


async def orders(streams: Streams) -> list[StreamStatus]:
    return list(await streams.partitions("orders"))


def test_a_partition_is_not_taken_for_a_stream_of_its_name_nor_the_other_way_round() -> None:
    coordinator = Coordinator(State())
    one = NewStream("orders-0", ("n1",), part_of="orders")
    assert coordinator.apply(1, 0, one)[0] == Accepted(1, is_new=True)
    assert coordinator.apply(2, 0, one)[0] == Accepted(1)
    for other in (NewStream("orders-0", ("n1",)), NewStream("orders-0", ("n1",), part_of="others")):
        refused = coordinator.apply(3, 0, other)[0]
        assert refused == StreamRefused("invalid", "stream 'orders-0' is there, as a partition of 'orders'")
    coordinator.apply(4, 0, NewStream("events", ("n1",)))
    refused = coordinator.apply(5, 0, NewStream("events", ("n1",), part_of="orders"))[0]
    assert refused == StreamRefused("invalid", "stream 'events' is there, as a partition of none")
    again = decode_state(encode_state(coordinator.state))
    assert {each.name: each.part_of for each in again.streams.values()} == {"orders-0": "orders", "events": None}


def test_partitions_are_spread_over_the_nodes_and_declared_and_deleted_together() -> None:
    async def check(world: World) -> None:
        streams = await (await world.client("n1")).streams()
        await tried(lambda: streams.declare("events"))
        assert await streams.declare_super("orders", partitions=5, replicas=3, timeout_ms=60_000)
        found = await orders(streams)
        assert [each.name for each in found] == [f"orders-{number}" for number in range(5)]
        assert sorted(str(each.writer) for each in found) == FIVE
        assert [sum(name in each.voters for each in found) for name in FIVE] == [3] * 5
        await streams.publisher("orders-3", "p").publish(b"a message")
        assert (await streams.read("orders-3", 0)).bodies == (b"a message",)
        assert not await streams.declare_super("orders", partitions=5), "all are there"
        with pytest.raises(InvalidRequestError, match="more partitions: orders-4"):
            await streams.declare_super("orders", partitions=4)
        await streams.delete("orders-1")
        assert await streams.declare_super("orders", partitions=5, timeout_ms=60_000), "the one that was missing"
        assert await streams.delete_super("orders") == 5
        assert [each.name for each in await streams.status()] == ["events"]
        with pytest.raises(StreamNotFoundError, match="no superstream orders"):
            await streams.delete_super("orders")

    in_cluster(check, FIVE, FIVE)


def test_a_stream_with_the_name_of_a_partition_is_refused_and_stays() -> None:
    async def check(world: World) -> None:
        streams = await (await world.client("n1")).streams()
        await tried(lambda: streams.declare("orders-1"))
        with pytest.raises(InvalidRequestError, match="orders-1: there are streams"):
            await streams.declare_super("orders", timeout_ms=60_000)
        assert {each.name: each.part_of for each in await streams.status()} == {"orders-1": None}
        with pytest.raises(InvalidRequestError, match="name"):
            await streams.declare_super("o" * 128)

    in_cluster(check, THREE, THREE)


@pytest.mark.slow
def test_each_partition_keeps_its_copies_when_a_node_fails() -> None:
    async def check(world: World) -> None:
        streams = await (await world.client("n1")).streams()
        await tried(lambda: streams.declare_super("orders", replicas=3, target_group_size=3, timeout_ms=60_000))
        assert ["n3" in each.voters for each in await orders(streams)] == [True, True, True]
        await world.kill("n3")

        async def kept() -> bool | None:
            with suppress(ClientError):
                found = await orders(streams)
                live = [{name for name in each.voters if each.members[name] == "running"} for each in found]
                return all(len(each) == 3 and "n3" not in each for each in live) or None

        await eventually(kept, WITHIN_S)

    in_cluster(check, FIVE, FIVE)
