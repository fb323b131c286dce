"""The queue above the index, item by item (CQ-4 to CQ-6, D8), and beside a naive one."""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import pytest

from splitbrain.cluster.classic import (
    ClassicQueue,
    DeadLetter,
    IndexOptions,
    delivery_limit,
    open_index,
    open_queue,
)
from splitbrain.cluster.entities.policies import effective
from splitbrain.cluster.entities.records import Policy
from splitbrain.cluster.errors import ConversionRefusedError, InvalidRequestError, UnknownMessageError
from tests.cluster.classic.disk import MemoryDisk, done
from tests.cluster.classic.support import message, publish_v1


class Clock:
    def __init__(self) -> None:
        self.now_us = 1_000

    def __call__(self) -> int:
        return self.now_us


class World:
    """A queue on a disk, and what it dropped."""

    def __init__(self, limit: int | None = None, max_in_memory: int = 1_000, **options: Any) -> None:
        self.disk = MemoryDisk()
        self.clock = Clock()
        self.dropped: list[DeadLetter] = []
        self.limit, self.max_in_memory, self.options = limit, max_in_memory, IndexOptions(**options)
        self.open()

    def open(self) -> ClassicQueue:
        index = done(open_index(self.disk, self.options))
        self.queue = done(
            open_queue(
                index, self.dropped.append, now_us=self.clock, limit=self.limit, max_in_memory=self.max_in_memory
            )
        )
        return self.queue

    def restart(self, *, clean: bool) -> ClassicQueue:
        done(self.queue.close() if clean else self.queue.confirm())
        self.disk = MemoryDisk(self.disk.killed())
        return self.open()

    def publish(self, count: int, **how: Any) -> list[int]:
        return [done(self.queue.publish(message(number, **how))) for number in range(count)]

    def taken(self) -> tuple[int, bool, int] | None:
        """Sequence id, whether it was delivered before, and the count of the message that is next."""
        found = done(self.queue.deliver())
        return None if found is None else (found.seq, found.redelivered, found.record.redeliveries)


def test_cq_5_each_redelivery_counts_and_the_first_delivery_does_not() -> None:
    world = World()
    world.publish(1)
    for expected in ((0, False, 0), (0, True, 1), (0, True, 2)):
        assert world.taken() == expected
        done(world.queue.requeue(0))


def test_cq_5_delivery_on_arrival_counts_for_nothing() -> None:
    world = World()
    found = done(world.queue.publish_delivered(message(1)))
    assert (found.redelivered, found.record.redeliveries) == (False, 0)
    assert world.taken() is None
    done(world.queue.requeue(found.seq))
    assert world.taken() == (0, True, 1)


def test_cq_5_d8_a_message_above_the_limit_is_dropped_with_reason_expired_and_the_others_are_delivered() -> None:
    world = World(limit=2)
    world.publish(2)
    for _ in range(3):
        assert world.taken() is not None
        done(world.queue.requeue(0))
    assert [(letter.seq, letter.reason, letter.record.redeliveries) for letter in world.dropped] == [(0, "expired", 2)]
    assert (world.taken(), world.taken(), world.queue.ready) == ((1, False, 0), None, 0)


def test_cq_5_a_limit_of_0_delivers_once_and_none_for_ever() -> None:
    world = World(limit=0)
    world.publish(1)
    assert world.taken() == (0, False, 0)
    done(world.queue.requeue(0))
    assert [letter.seq for letter in world.dropped] == [0]
    world = World(limit=None)
    world.publish(1)
    for _ in range(50):
        assert world.taken() is not None
        done(world.queue.requeue(0))
    assert world.dropped == []


def test_cq_6_a_limit_below_0_is_none_wherever_it_is_given() -> None:
    world = World(limit=-1)
    world.publish(1)
    for _ in range(3):
        assert world.taken() is not None
        done(world.queue.requeue(0))
        assert done(world.queue.set_limit(-2)) == 0
    assert (world.queue.limit, world.dropped) == (None, [])


def test_cq_5_one_pass_drops_what_is_too_old_and_what_is_above_the_limit() -> None:
    world = World()
    world.publish(2)
    done(world.queue.publish(message(2, expiry=2_000)))
    done(world.queue.publish(message(3, expiry=9_000)))
    for _ in range(3):
        assert world.taken() is not None
        done(world.queue.requeue(0))
    world.clock.now_us = 2_000
    assert done(world.queue.set_limit(2)) == 2
    assert [(letter.seq, letter.reason) for letter in world.dropped] == [(0, "expired"), (2, "expired")]
    assert done(world.queue.expire()) == 0
    assert [world.taken(), world.taken(), world.taken()] == [(1, False, 0), (3, False, 0), None]


def test_cq_2_a_message_of_rabbitmq_is_too_old_at_the_microsecond_that_its_file_says() -> None:
    """`rabbit_amqqueue_process` of 3.8 adds a time to live to `os:system_time(micro_seconds)`."""
    published_us, ttl_ms = 1_700_000_000_000_000, 5_000
    expiry = published_us + ttl_ms * 1_000
    world = World()
    world.disk = MemoryDisk({"0.idx": struct.pack(">H16sQII", 0xC000, b"%016d" % 1, expiry, 10, 0)})
    world.clock.now_us = expiry - 1
    world.open()
    assert done(world.queue.deliver()) is not None
    done(world.queue.requeue(0))
    assert done(world.queue.expire()) == 0
    world.clock.now_us += 1
    assert (done(world.queue.expire()), [letter.seq for letter in world.dropped]) == (1, [0])


def test_cq_5_the_dead_letter_is_there_before_the_message_is_gone() -> None:
    world = World(limit=0)
    world.publish(1)
    world.taken()
    world.disk.calls.clear()
    found: list[int] = []

    def note(letter: DeadLetter) -> None:
        found.append(world.queue.ready)

    world.queue._dead_letter = note  # pyright: ignore[reportPrivateUsage]
    done(world.queue.requeue(0))
    assert (found, world.queue.ready) == ([1], 0)


@pytest.mark.parametrize("way", ["requeue", "deliver", "expire"])
def test_cq_5_a_message_whose_dead_letter_is_not_taken_stays(way: str) -> None:
    world = World(limit=None if way == "expire" else 0)
    world.publish(3)

    def refuse(letter: DeadLetter) -> None:
        raise ValueError(letter.seq)

    take = world.queue._dead_letter  # pyright: ignore[reportPrivateUsage]
    world.queue._dead_letter = refuse  # pyright: ignore[reportPrivateUsage]
    for seq in (0, 1):
        assert done(world.queue.deliver()) is not None
        if way == "expire":
            continue
        with pytest.raises(ValueError, match=str(seq)):
            done(world.queue.requeue(seq))
        if way == "deliver":
            with pytest.raises(ValueError, match="0"):
                done(world.queue.deliver())
        break
    if way == "expire":
        for seq in (0, 1):
            done(world.queue.requeue(seq))
        with pytest.raises(ValueError, match="0"):
            done(world.queue.set_limit(0))
    assert (world.queue.ready, world.dropped) == (3, [])
    world.queue._dead_letter = take  # pyright: ignore[reportPrivateUsage]
    rest = [found.seq for _ in range(4) if (found := done(world.queue.deliver())) is not None]
    assert sorted([*rest, *(letter.seq for letter in world.dropped)]) == [0, 1, 2]


def test_cq_5_a_message_that_is_rejected_is_a_dead_letter_with_that_reason() -> None:
    world = World()
    world.publish(2)
    world.taken()
    done(world.queue.reject(0))
    assert [(letter.seq, letter.reason) for letter in world.dropped] == [(0, "rejected")]
    assert (world.queue.ready, world.taken()) == (1, (1, False, 0))
    with pytest.raises(UnknownMessageError):
        done(world.queue.reject(0))


@pytest.mark.parametrize("way", ["requeue", "expire", "reject"])
def test_cq_5_a_dead_letter_that_is_handed_over_later_stays_for_no_consumer_until_it_was(way: str) -> None:
    world = World(limit=None if way == "expire" else 0)
    letters: list[DeadLetter] = []

    def later(letter: DeadLetter) -> bool:
        letters.append(letter)
        return True

    world.queue._dead_letter = later  # pyright: ignore[reportPrivateUsage]
    world.publish(1)
    world.taken()
    done(world.queue.reject(0) if way == "reject" else world.queue.requeue(0))
    if way == "expire":
        assert done(world.queue.set_limit(0)) == 1
    assert [letter.seq for letter in letters] == [0]
    assert (world.queue.ready, world.queue.dead, world.taken(), done(world.queue.expire())) == (0, 1, None, 0)
    for call in (world.queue.ack, world.queue.requeue):
        with pytest.raises(UnknownMessageError):
            done(call(0))
    world.restart(clean=False)  # a kill: it was not handed over, and is there
    assert world.queue.ready == 1
    world.queue._dead_letter = later  # pyright: ignore[reportPrivateUsage]
    done(world.queue.set_limit(0))
    assert (world.taken(), world.queue.dead) == (None, 1)
    done(world.queue.drop(0))
    assert (world.queue.ready, world.queue.dead) == (0, 0)
    with pytest.raises(UnknownMessageError):
        done(world.queue.drop(0))
    assert world.restart(clean=False).ready == 0


@pytest.mark.parametrize(("clean", "count"), [(True, 2), (False, 0)])
def test_cq_5_counts_survive_an_orderly_stop_and_a_kill_forgets_them_but_no_message(clean: bool, count: int) -> None:
    world = World(limit=5)
    world.publish(3)
    done(world.queue.confirm())
    for _ in range(3):
        world.taken()
        done(world.queue.requeue(0))
    world.restart(clean=clean)
    # It is known that it was delivered before, so that this is a redelivery in any case.
    assert [world.taken(), world.taken(), world.taken(), world.taken()] == [
        (0, True, count + 1),
        (1, False, 0),
        (2, False, 0),
        None,
    ]


def test_cq_5_what_a_consumer_had_at_a_stop_is_there_again_and_counts() -> None:
    world = World()
    world.publish(2)
    assert world.taken() == (0, False, 0)
    world.restart(clean=True)
    assert [world.taken(), world.taken()] == [(0, True, 1), (1, False, 0)]


def test_cq_4_what_leaves_memory_takes_its_count_to_the_disk_and_keeps_its_place() -> None:
    world = World(max_in_memory=3)
    world.publish(8)
    had = [world.taken() for _ in range(6)]
    assert [each[0] for each in had if each] == list(range(6))
    for seq in reversed(range(6)):
        done(world.queue.requeue(seq))
    again = [world.taken() for _ in range(9)]
    assert again == [*((seq, True, 1) for seq in range(6)), (6, False, 0), (7, False, 0), None]
    for seq in range(8):
        done(world.queue.requeue(seq))
    last = [world.taken() for _ in range(8)]
    assert [each[2] for each in last if each] == [2] * 6 + [1, 1]


class Gated(MemoryDisk):
    """A disk on which a file is replaced only once that is let through."""

    gate: asyncio.Event | None = None

    async def replace(self, name: str, data: bytes) -> None:
        if self.gate is not None:
            await self.gate.wait()
        await super().replace(name, data)


def test_cq_4_while_files_are_converted_publishers_wait_and_nothing_is_lost() -> None:
    async def main() -> None:
        disk = Gated()
        index = await open_index(disk)
        queue = await open_queue(index, lambda _: None, Clock())
        for number in range(3):
            await queue.publish(message(number))
        disk.gate = asyncio.Event()
        converting = asyncio.ensure_future(index.convert())
        publishing = asyncio.ensure_future(queue.publish(message(3)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert (converting.done(), publishing.done()) == (False, False)
        disk.gate.set()
        await converting
        assert await publishing == 3
        assert set(index.versions.values()) == {2}
        assert [each.seq for each in await index.read()] == [0, 1, 2, 3]

    asyncio.run(main())


@pytest.mark.parametrize("step", ["deliver", "read", "page out", "drop", "ack"])
def test_cq_4_a_call_that_is_given_up_while_it_waits_for_files_loses_no_message(step: str) -> None:
    """A consumer does not wait for a conversion to end. Nothing was done, so that the message is there for the next."""

    async def deliver(queue: ClassicQueue, count: int) -> list[int]:
        return [found.seq for _ in range(count) if (found := await queue.deliver()) is not None]

    async def main() -> None:
        disk, dropped = Gated(), set[int]()
        index = await open_index(disk)
        limit = 0 if step == "drop" else None
        queue = await open_queue(index, lambda letter: dropped.add(letter.seq), Clock(), limit=limit, max_in_memory=2)
        for number in range(4):
            await queue.publish(message(number))
        if step == "page out":
            for seq in await deliver(queue, 4):
                await queue.requeue(seq)
            await deliver(queue, 4)
            await queue.requeue(0)
            await queue.requeue(1)
        elif step != "deliver":
            await deliver(queue, 2)
        calls = {"page out": queue.requeue(2), "drop": queue.requeue(1), "ack": queue.ack(1)}
        disk.gate = asyncio.Event()
        flushing = asyncio.ensure_future(index.flush())
        given_up = asyncio.ensure_future(calls.pop(step, None) or queue.deliver())
        for each in calls.values():
            each.close()
        for _ in range(10):
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        assert (given_up.cancelled(), flushing.done()) == (True, False)
        disk.gate.set()
        await flushing
        # What consumers had besides is given back; the ack that was given up is repeated.
        for seq in {"deliver": [], "read": [0, 1], "page out": [3]}.get(step, []):
            await queue.requeue(seq)
        for seq in {"drop": [0], "ack": [0, 1]}.get(step, []):
            await queue.ack(seq)
        rest = await deliver(queue, 5)
        assert rest == ([2, 3] if step in ("drop", "ack") else [0, 1, 2, 3])
        for seq in rest:
            await queue.ack(seq)
        assert (len(index), queue.ready, dropped) == (0, 0, {1} if step == "drop" else set())

    asyncio.run(main())


def test_cq_4_a_message_that_comes_back_stays_behind_those_that_left_memory_before_it() -> None:
    world = World(max_in_memory=2)
    world.publish(4)
    for seq in range(4):
        assert world.taken() == (seq, False, 0)
    for seq in range(3):
        done(world.queue.requeue(seq))  # 2 leaves memory
    assert world.taken() == (0, True, 1)
    done(world.queue.requeue(3))
    assert [found[0] for _ in range(4) if (found := world.taken()) is not None] == [1, 2, 3]


def test_cq_4_messages_that_are_far_apart_are_read_without_what_is_between_them() -> None:
    world = World(max_in_memory=1)
    far = [5, 2**40 + 1, 2**62 - 1]
    files = {f"{seq // 16_384}.idx": publish_v1(seq % 16_384, 1) for seq in far}
    world.disk = MemoryDisk(files)
    world.open()
    assert [world.taken() for _ in range(4)] == [*((seq, False, 0) for seq in far), None]
    for seq in far:
        done(world.queue.requeue(seq))
    assert [found[0] for _ in range(3) if (found := world.taken()) is not None] == far


def test_cq_7_where_no_file_may_be_converted_counts_are_lost_and_no_message() -> None:
    def refuse(messages: int) -> None:
        raise ConversionRefusedError(f"not now: {messages}", "alarm")

    world = World(max_in_memory=1, permit=refuse)
    world.publish(3)
    for _ in range(3):
        had = [world.taken() for _ in range(3)]
        assert [each[0] for each in had if each] == [0, 1, 2]
        for seq in range(3):
            done(world.queue.requeue(seq))
    assert world.queue.lost_counts > 0
    world.restart(clean=True)
    assert [each[0] for each in [world.taken() for _ in range(3)] if each] == [0, 1, 2]


def test_transient_messages_end_with_the_process_and_persistent_ones_do_not() -> None:
    world = World()
    for number in range(6):
        done(world.queue.publish(message(number), persistent=number % 2 == 0))
    world.restart(clean=True)
    assert [world.taken() for _ in range(4)] == [(0, False, 0), (2, False, 0), (4, False, 0), None]
    assert world.queue.ready == 0


def test_transient_messages_that_left_memory_are_read_back_in_the_same_life() -> None:
    world = World(max_in_memory=1)
    for number in range(4):
        done(world.queue.publish(message(number), persistent=False))
    assert [world.taken() for _ in range(5)] == [*((seq, False, 0) for seq in range(4)), None]
    for seq in range(4):
        done(world.queue.requeue(seq))
    assert [world.taken() for _ in range(5)] == [*((seq, True, 1) for seq in range(4)), None]


def test_a_message_that_no_consumer_has_cannot_be_settled() -> None:
    world = World()
    world.publish(1)
    with pytest.raises(UnknownMessageError, match="message 0 is with no consumer"):
        done(world.queue.ack(0))
    world.taken()
    done(world.queue.ack(0))
    with pytest.raises(UnknownMessageError, match="message 0 is with no consumer"):
        done(world.queue.requeue(0))


# --- CQ-6 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "policy", "operator", "limit"),
    [
        ({}, {}, {}, None),
        ({"x-delivery-limit": 10}, {}, {}, 10),
        ({}, {"delivery-limit": 7}, {}, 7),
        ({}, {}, {"delivery-limit": 3}, 3),
        ({"x-delivery-limit": 10}, {"delivery-limit": 7}, {"delivery-limit": 9}, 7),
        ({"x-delivery-limit": 2}, {"delivery-limit": 7}, {"delivery-limit": 9}, 2),
        ({"x-delivery-limit": 0}, {"delivery-limit": 7}, {}, 0),
        ({"x-delivery-limit": -1}, {"delivery-limit": 7}, {}, 7),
        ({"x-delivery-limit": -1}, {"delivery-limit": -1}, {}, None),
        ({"x-queue-mode": "lazy"}, {"delivery-limit": 7}, {}, None),
        ({"x-queue-mode": "default", "x-delivery-limit": 4}, {}, {}, 4),
        ({"x-delivery-limit": 4}, {"queue-mode": "lazy"}, {"delivery-limit": 3}, None),
        ({}, {"queue-mode": "lazy", "delivery-limit": 7}, {}, None),
        ({"x-queue-mode": "default"}, {"queue-mode": "lazy", "delivery-limit": 7}, {}, 7),
        ({}, {"queue-mode": "default", "delivery-limit": 7}, {}, 7),
    ],
)
def test_cq_6_the_lowest_limit_of_argument_policy_and_operator_policy_counts(
    arguments: Mapping[str, Any], policy: Mapping[str, Any], operator: Mapping[str, Any], limit: int | None
) -> None:
    assert delivery_limit(arguments, policy, operator) == limit
    # As the store of policies joins them.
    given = [[Policy("/", "p", ".*", dict(each), 0, "queues")] if each else [] for each in (policy, operator)]
    assert delivery_limit(arguments, effective("queue", "q", *given)) == limit


@pytest.mark.parametrize(
    "arguments",
    [{"x-delivery-limit": "10"}, {"x-delivery-limit": True}, {"x-delivery-limit": 1, "x-queue-mode": "lazy"}],
)
def test_cq_6_an_argument_that_is_no_number_or_is_of_a_lazy_queue_is_refused(arguments: Mapping[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="x-delivery-limit"):
        delivery_limit(arguments)


# --- a naive queue ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_a_queue_delivers_in_order_and_each_message_is_acknowledged_dropped_or_there(seed: int) -> None:
    """Random steps with restarts. The naive queue is a list of messages in the order of their ids."""
    rng = random.Random(seed)
    limit = rng.choice([None, 0, 2, 3])
    world = World(limit, max_in_memory=rng.choice([1, 2, 5, 100]), max_journal_entries=rng.choice([3, 20, 1_000]))
    ready, unsettled = deque[int](), set[int]()
    counts, delivered, given = Counter[int](), set[int](), 0
    gone, deliveries = set[int](), Counter[int]()
    for _ in range(rng.randint(20, 120)):
        step = rng.random()
        if step < 0.35:
            assert done(world.queue.publish(message(given))) == given
            ready.append(given)
            given += 1
        elif step < 0.65:
            found = done(world.queue.deliver())
            seq = ready.popleft() if ready else None
            assert (None if found is None else found.seq) == seq
            if found is not None and seq is not None:
                counts[seq] += seq in delivered
                deliveries[seq] += 1
                assert (found.redelivered, found.record.redeliveries) == (seq in delivered, counts[seq])
                delivered.add(seq)
                unsettled.add(seq)
        elif step < 0.75 and unsettled:
            seq = rng.choice(sorted(unsettled))
            unsettled.remove(seq)
            gone.add(seq)
            done(world.queue.ack(seq))
        elif step < 0.95 and unsettled:
            seq = rng.choice(sorted(unsettled))
            unsettled.remove(seq)
            done(world.queue.requeue(seq))
            if limit is not None and counts[seq] >= limit:
                gone.add(seq)
                assert world.dropped[-1].seq == seq
            else:
                ready = deque(sorted([*ready, seq]))
        elif step >= 0.95:
            world.restart(clean=True)
            ready, unsettled = deque(sorted([*ready, *unsettled])), set[int]()
            for seq in [seq for seq in ready if limit is not None and seq in delivered and counts[seq] >= limit]:
                ready.remove(seq)  # it is dropped when its turn comes
                gone.add(seq)
        assert world.queue.ready >= len(ready)
    assert limit is None or max(deliveries.values(), default=0) <= limit + 1
    world.restart(clean=True)
    rest = list[int]()
    while (found := done(world.queue.deliver())) is not None:
        rest.append(found.seq)
    above = {letter.seq for letter in world.dropped}
    assert sorted([*rest, *(gone | above)]) == list(range(given)), "a message is lost, or there twice"


@pytest.mark.parametrize("seed", range(40))
def test_a_queue_that_is_killed_loses_counts_and_never_a_confirmed_message(seed: int) -> None:
    """A message is dropped, acknowledged or delivered to the end; the limit holds within each life of the queue."""
    rng = random.Random(seed)
    limit = rng.choice([1, 2, 4])
    world = World(limit, max_in_memory=rng.choice([1, 3, 100]), max_journal_entries=rng.choice([3, 1_000]))
    given, acked, lives = 0, set[int](), 1
    deliveries, here = Counter[int](), Counter[int]()
    for _ in range(150):
        step = rng.random()
        if step < 0.2:
            done(world.queue.publish(message(given)))
            given += 1
        elif step < 0.95:
            found = done(world.queue.deliver())
            if found is not None:
                deliveries[found.seq] += 1
                here[found.seq] += 1
                assert here[found.seq] <= limit + 1, "the limit is exceeded within one life"
                if rng.random() < 0.2:
                    done(world.queue.ack(found.seq))
                    acked.add(found.seq)
                else:
                    done(world.queue.requeue(found.seq))
        else:
            world.restart(clean=False)
            lives += 1
            here.clear()
    world.restart(clean=False)
    rest = list[int]()
    while (found := done(world.queue.deliver())) is not None:
        rest.append(found.seq)
    dropped = {letter.seq for letter in world.dropped}
    assert sorted({*rest, *acked, *dropped}) == list(range(given)), "a message is lost"
    assert (len(set(rest)), set(rest) & acked) == (len(rest), set())
    assert max(deliveries.values(), default=0) <= (limit + 1) * lives
