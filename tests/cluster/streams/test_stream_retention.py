"""What is dropped from the beginning of a stream, by each copy, and what readers and publishers see of that."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from splitbrain.cluster import queueoperators
from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.client import Streams
from splitbrain.cluster.entities import policies, vhosts
from splitbrain.cluster.entities.client import ClientStore
from splitbrain.cluster.errors import ClientError, InvalidRequestError
from splitbrain.cluster.marks import counted
from splitbrain.cluster.streams.chunks import Chunk, ChunkLog, StreamMessage, chunks_in, record_of
from splitbrain.cluster.streams.frames import Confirmed, ReadFrom
from splitbrain.cluster.streams.member import AnswerTo, Meta, StreamMember
from splitbrain.cluster.streams.position import BEGIN, Position
from splitbrain.cluster.streams.retention import Retention, age_ms
from splitbrain.cluster.tree import NEWEST_VERSION
from tests.cluster.queuegroups.support import THREE
from tests.cluster.streams.pure import Pure
from tests.cluster.streams.test_stream_nodes import streams_on
from tests.cluster.streams.test_stream_replicas import WITHIN_S, in_cluster, settled, tried
from tests.cluster.support import World, eventually

NOTHING = Retention(max_length_bytes=0)
"""Drops all that may go."""


def message(number: int, publisher: str = "p") -> StreamMessage:
    return StreamMessage(publisher, number, str(number).encode())


def log_of(count: int) -> ChunkLog:
    """A chunk of one message each second, behind the one that begins the epoch."""
    return ChunkLog([Chunk(1, 0, ()), *(Chunk(1, at, (message(at + 1),), 1000 * at) for at in range(count))])


def test_whole_chunks_go_from_the_front_until_the_limit_of_bytes_holds() -> None:
    log, whole = log_of(10), log_of(10)
    limit = sum(len(record_of(chunk)) for chunk in whole.chunks[-5:])
    assert log.drop(Retention(max_length_bytes=limit), 10, 0)
    assert log.start == 5
    assert [number for number, _ in log.messages(0, 10, 99)] == [5, 6, 7, 8, 9]
    assert log.end == whole.end
    assert log.ends() == whole.ends()


def test_what_is_not_committed_stays_and_so_does_the_last_chunk() -> None:
    log = log_of(10)
    assert log.drop(NOTHING, 7, 0)
    assert log.start == 7
    assert log.drop(NOTHING, 10, 0)
    assert log.start == 9


def test_what_is_older_goes() -> None:
    log = log_of(10)
    assert not log.drop(Retention(max_age_ms=20_000), 10, 15_000)
    assert log.drop(Retention(max_age_ms=6000), 10, 10_000)
    assert log.start == 4


def test_little_is_not_worth_to_write_the_rest_anew() -> None:
    log = log_of(100)
    assert not log.drop(Retention(max_length_bytes=log.size - 1), 100, 0)
    assert log.drop(Retention(max_length_bytes=log.size // 2), 100, 0)


def test_a_message_whose_first_copy_was_dropped_is_not_taken_again_also_in_later_epochs_and_from_disk() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    copy.write(1, ("n1",))
    for number in range(1, 6):
        copy.publish([(message(number, f"p{number}"), number)])
    copy.retain(NOTHING, 0)
    assert copy.log.start == 4
    copy.retain(NOTHING, 0)
    again = StreamMember(copy.meta, chunks_in("log", copy.log.content)[0])
    assert (again.log.start, again.log.end, again.committed) == (4, Position(1, 5), 4)
    again.write(2, ("n1",))
    effects = again.publish([(message(2, "p2"), "again")])
    assert [each.reply for each in effects if isinstance(each, AnswerTo)] == [Confirmed(1, 2)]
    assert again.log.end == Position(2, 5)


def test_a_reader_of_what_is_gone_begins_at_the_first_message_there_is() -> None:
    copy = StreamMember(Meta("n1", 1, "s", 1))
    copy.write(1, ("n1",))
    for number in range(1, 6):
        copy.publish([(message(number), number)])
    copy.retain(NOTHING, 0)
    found = copy.read(ReadFrom("s", 0, 10))
    assert (found.first, found.bodies, found.committed) == (4, (b"5",), 5)
    assert copy.read(ReadFrom("s", 5, 10)).first == 5


def test_a_log_is_asked_for_what_it_dropped() -> None:
    log = log_of(10)
    log.drop(Retention(max_length_bytes=log.size // 2), 10, 0)
    assert log.reaches(Position(1, 2))
    assert log.reaches(BEGIN)
    behind = list(log.after(Position(1, 2)))
    assert behind == log.chunks
    late = log_of(2)
    for chunk in behind:
        late.append(chunk)
    assert late.chunks == log.chunks
    assert late.size == log.size == len(log.content)


class Retaining(Pure):
    """Copies that drop, each as it likes, and publishers that say their last message again."""

    def __init__(self, seed: int, bugs: Bugs) -> None:
        super().__init__(seed, 3 + seed % 2, bugs)
        self.last: dict[str, int] = {}
        self.dropped = 0
        self.again = 0

    def step(self) -> None:
        if self.draw.random() < 0.7:  # much has to be committed before anything can be dropped
            self.draw.choice([self.publish, self.deliver, self.deliver])()
        else:
            super().step()
        if self.copies and self.draw.random() < 0.2:
            name = self.draw.choice(sorted(self.copies))
            effects = self.copies[name].retain(Retention(self.draw.choice([0, 100, 300])), 0)
            self.dropped += bool(effects)
            self.carry_out(name, effects)

    def publish(self) -> None:
        writers = [name for name, copy in self.copies.items() if copy.role == "writer"]
        if not writers:
            return
        name, publisher = self.draw.choice(writers), self.draw.choice("abcdefgh")
        if publisher in self.last and self.draw.random() < 0.5:
            value = self.last[publisher]
            self.again += 1
        else:
            self.value += 1
            value = self.last[publisher] = self.value
        self.carry_out(name, self.copies[name].publish([(message(value, publisher), value)]))

    def check(self) -> None:
        super().check()
        assert len(set(self.confirmed.values())) == len(self.confirmed), "a message is confirmed at two offsets"


def test_what_was_confirmed_and_is_kept_stays_in_every_order_of_events_and_no_message_is_taken_twice() -> None:
    dropped = again = 0
    with counted() as marks:
        for seed in range(40):
            run = Retaining(seed, Bugs())
            for _ in range(400):
                run.step()
                run.check()
            dropped += run.dropped
            again += run.again
    late = marks["beginning of a stream's log dropped by its writer"]
    assert (dropped > 100, again > 100, late > 5) == (True, True, True), (dropped, again, late)


def test_ages_are_said_as_in_rabbitmq() -> None:
    assert [age_ms(each) for each in ("1Y", "2D", "3h", "4m", "5s")] == [
        31_536_000_000, 172_800_000, 10_800_000, 240_000, 5000
    ]  # fmt: skip
    assert [age_ms(each) for each in ("", "1", "1W", "-1s", 7, None)] == [None] * 6
    assert Retention(10, None).within({"max-length-bytes": 20, "max-age": "1s"}) == Retention(10, 1000)


async def starts(world: World) -> list[int]:
    """The first offset that each node has of the stream."""
    found: list[int] = []
    for name in THREE:
        with suppress(ClientError):  # a node that starts knows no stream yet
            found.append((await (await streams_on(world, name)).read("s", 0)).first)
    return found


async def filled(streams: Streams, count: int = 40) -> None:
    publisher = streams.publisher("s", "p")
    for _ in range(count):
        await publisher.publish(b"x" * 1000)


def test_nodes_drop_what_the_declaration_says_and_a_node_that_was_away_goes_on_behind_it() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        await tried(lambda: streams.declare("s", max_length_bytes=10_000))
        await settled(streams, THREE)
        await world.kill("n3")
        await filled(streams)
        await asyncio.sleep(3)
        sizes = [len(world.disks[name].read("stream-2.log") or b"") for name in ("n1", "n2")]
        await world.start("n3")

        async def everywhere() -> bool | None:
            found = await starts(world)
            return (len(found) == 3 and all(25 < each < 40 for each in found)) or None

        await eventually(everywhere, WITHIN_S)
        for name in THREE:
            found = await (await streams_on(world, name)).read("s", 0)
            assert found.first + len(found.bodies) == found.committed == 40
        await world.kill("n1")
        await world.start("n1")
        await eventually(everywhere, WITHIN_S)
        assert all(0 < size < 15_000 for size in sizes), sizes

    in_cluster(check, THREE, THREE)


@pytest.mark.slow
def test_a_policy_limits_the_age_from_the_moment_it_is_set_on() -> None:
    async def check(world: World) -> None:
        await world.in_force(NEWEST_VERSION)
        client = await world.client("n1")
        streams = await client.streams()
        await tried(lambda: streams.declare("s"))
        await filled(streams)
        await asyncio.sleep(5)
        assert await starts(world) == [0, 0, 0]
        store = ClientStore(client, 5000)
        await vhosts.declare(store, queueoperators.VHOST)
        with pytest.raises(InvalidRequestError, match="max-age"):
            await policies.put(store, queueoperators.VHOST, "short", "^s$", {"max-age": "1 day"})
        await policies.put(store, queueoperators.VHOST, "short", "^s$", {"max-age": "3s"})

        async def everywhere() -> bool | None:
            return await starts(world) == [39, 39, 39] or None

        await eventually(everywhere, WITHIN_S)

    in_cluster(check, THREE, THREE)


def test_limits_that_make_no_sense_are_refused() -> None:
    async def check(world: World) -> None:
        streams = await streams_on(world, "n1")
        with pytest.raises(InvalidRequestError, match="limit"):
            await streams.declare("s", max_length_bytes=-1)
        with pytest.raises(InvalidRequestError, match="limit"):
            await streams.declare_super("s", max_age_ms=-5)

    in_cluster(check, THREE, THREE)
