"""What a node writes down of its store, apart from the rest of the node."""

from __future__ import annotations

import asyncio

import pytest

from splitbrain.cluster.raft import Raft, Recovered
from splitbrain.cluster.raft.events import Received
from splitbrain.cluster.raft.membership import Configuration, encode_configurations
from splitbrain.cluster.raft.messages import SnapshotChunk
from splitbrain.cluster.snapshotting import Snapshotting
from splitbrain.cluster.storage import open_storage
from tests.cluster.support import Draws, FakeDisk, entry

THREE = ("n1", "n2", "n3")


@pytest.mark.parametrize(("snapshot_interval", "checkpoint_interval"), [(1, 0), (1, 1), (100, 1)])
def test_ra42_entries_applied_while_a_later_snapshot_is_taken_over_are_not_written_down(
    snapshot_interval: int, checkpoint_interval: int
) -> None:
    """A log in memory that begins behind them has neither their terms nor their configurations."""

    async def main() -> None:
        disk, spawned = FakeDisk(), list[str]()
        opened = await open_storage(disk, "n1", Draws(0), lambda _: None)
        raft = Raft("n1", THREE, Recovered(1, None, [entry(index, data=b"x") for index in range(1, 11)]))
        configurations = encode_configurations([(0, Configuration(THREE))])
        raft.handle(Received("n2", SnapshotChunk(2, 0, 20, 2, configurations, 0, 5, b"state")))
        assert raft.log.base_index == 20
        snapshots = Snapshotting(
            opened.storage,
            raft,
            lambda _, task: spawned.append(task),
            lambda _: None,
            snapshot_interval,
            checkpoint_interval,
            lambda _, __, ___, ____: None,
        )
        snapshots.applied(entry(7, data=b"x"), lambda: b"state of 7")
        snapshots.checkpoint(entry(8, data=b"x"), lambda: b"state of 8")
        assert spawned == []
        assert [name for name in disk.names() if name.startswith(("snapshot-", "checkpoint-"))] == []

    asyncio.run(main())


def test_at_each_checkpoint_a_node_says_behind_which_entry_its_log_begins_and_whether_the_state_there_is_left() -> None:
    said: list[tuple[int, int, int, bool]] = []

    async def main() -> None:
        disk = FakeDisk()
        storage = (await open_storage(disk, "n1", Draws(0), lambda _: None)).storage
        entries = [entry(index, data=b"x") for index in range(1, 9)]
        snapshots = Snapshotting(
            storage,
            Raft("n1", THREE, Recovered(1, None, entries)),
            lambda _, __: None,
            lambda _: None,
            100,
            1,
            lambda index, term, base, has_base: said.append((index, term, base, has_base)),
        )
        snapshots.checkpoint(entries[3], lambda: b"state of 4")
        await storage.promote(4)
        snapshots.checkpoint(entries[5], lambda: b"state of 6")
        [base] = [name for name in disk.names() if name.startswith("snapshot-")]
        disk.remove(base)
        snapshots.checkpoint(entries[7], lambda: b"state of 8")

    asyncio.run(main())
    assert said == [(4, 1, 0, True), (6, 1, 4, True), (8, 1, 4, False)]
