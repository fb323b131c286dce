"""What a node does with its copies: when it applies the log again, and with what a killed process left on disk."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from splitbrain.cluster.bugs import NO_BUGS
from splitbrain.cluster.machinestore import stamped
from splitbrain.cluster.raft import Entry
from splitbrain.cluster.store import Store
from splitbrain.cluster.streams.chunks import Chunk, StreamMessage, record_of
from splitbrain.cluster.streams.commands import (
    AddReplica,
    DeleteReplica,
    Established,
    Gone,
    Logged,
    NewStream,
    Started,
    Stopped,
    encode,
)
from splitbrain.cluster.streams.copies import CopyFiles, found_copies
from splitbrain.cluster.streams.frames import Publish, ReadFrom
from splitbrain.cluster.streams.frames import encode as encode_frame
from splitbrain.cluster.streams.host import StreamHost
from splitbrain.cluster.streams.member import Meta
from splitbrain.cluster.streams.position import BEGIN, Position
from splitbrain.cluster.streams.store import StreamStore
from splitbrain.cluster.tree import Result
from splitbrain.cluster.wire import Failure, Outcome
from tests.cluster.support import FakeDisk, World, in_virtual_time


class NoLinks:
    """No other node can be reached."""

    def send_if_up(self, to: str, frame: bytes) -> bool:
        return False


def no_policies(store: Store, stream: str) -> Mapping[str, Any]:
    return {}


def host_on(world: World, said: list[bytes]) -> StreamHost:
    async def begin(founders: Sequence[str]) -> None:
        raise AssertionError(f"the group is there, not to be begun with {founders}")

    runtime = world.runtime("n1")
    return StreamHost("n1", "n1", 1, runtime, NoLinks(), said.append, lambda: True, begin, NO_BUGS, no_policies)


LOG: tuple[Logged, ...] = (
    NewStream("s", ("n1", "n2", "n3"), "n2"),
    Stopped(1, "n2", 1, BEGIN),
    Stopped(1, "n1", 1, BEGIN),  # n2 writes epoch 1
    Started(1, "n2", 3),
    Started(1, "n1", 4),
    Established(1, 1),
    DeleteReplica("s", "n1"),
    Stopped(1, "n2", 7, Position(1, 0)),
    Stopped(1, "n3", 7, Position(1, 0)),  # n2 writes epoch 2, and n1 is to give its copy up
    Gone(1, "n1", 9),
    Started(1, "n2", 9),
    Established(1, 2),
    AddReplica("s", "n1"),  # n1 is to begin another copy
)


def test_a_copy_outlives_that_its_node_applies_again_that_a_former_one_was_given_up() -> None:
    async def check() -> None:
        world = World(["n1"])
        for last in (len(LOG), 12):  # the second time the node stands still before it is given the copy
            store, said = StreamStore(), list[bytes]()
            host = host_on(world, said)
            await host.start()
            for index, command in enumerate(LOG[:last], 1):
                answer = store.apply(Entry(index, 1, "command", stamped(encode(command), 0)))
                assert answer is not None
                host.applied(store)
                await asyncio.sleep(0.01)
            copies = await found_copies(world.disks["n1"], "n1")
            assert [meta.born for meta, _, _ in copies] == [13]
        await world.close()

    in_virtual_time(check())


def test_a_copy_says_only_of_what_is_durable_that_it_has_it() -> None:
    """A process may be killed between a write and its sync: what the next one finds is not durable yet."""

    async def check() -> None:
        disk = FakeDisk()
        chunk = Chunk(1, 0, (StreamMessage("p", 1, b"x" * 100),))
        await CopyFiles(disk, 1).create(Meta("n1", 1, "s", 1))
        disk.open("stream-1.log").append(record_of(chunk))
        ((_, found, _),) = await found_copies(disk, "n1")
        assert list(found) == [chunk]
        ((_, left, _),) = await found_copies(disk.crash(random.Random(1)), "n1")
        assert list(left) == [chunk]

    in_virtual_time(check())


@pytest.mark.parametrize(
    "wanted",
    [ReadFrom("s", -1, 10), ReadFrom("s", 0, 0), Publish("s", StreamMessage("p", 0, b"x"))],
    ids=["before the first message", "no message", "number 0"],
)
def test_requests_that_make_no_sense_are_refused(wanted: ReadFrom | Publish) -> None:
    async def check() -> None:
        outcomes: list[Outcome | Result] = []
        host = host_on(World(["n1"]), [])
        host.serve(encode_frame(wanted), 100, lambda _, outcome, __: outcomes.append(outcome))
        (outcome,) = outcomes
        assert isinstance(outcome, Failure)
        assert (outcome.reason, outcome.definite) == ("invalid_request", True)

    in_virtual_time(check())
