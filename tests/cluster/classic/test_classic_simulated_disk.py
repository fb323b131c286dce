"""The index on the disk of simulated nodes: a loss of power at any change of it loses nothing synced (CQ-1)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from splitbrain.cluster.classic import Index, open_index
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.disk import DiskLatency, Left, SimDisk
from tests.cluster.classic.disk import done
from tests.cluster.classic.support import Said, content, message, opened


async def at_once(delay_ns: int) -> None:
    """Sleep for no time."""


LEFT: tuple[Left, ...] = ("nothing", "drawn", "drawn", "all but a gap")


def test_cq_1_cq_8_a_loss_of_power_at_every_change_of_a_simulated_disk_loses_nothing_that_was_synced() -> None:
    disk = SimDisk(Rng(1), DiskLatency(1, 1), sector=64)
    mounted = disk.mount(at_once, lambda: True)
    index: Index = done(open_index(mounted))
    moments: list[list[Said]] = [[]]
    tried = 0

    def watch(_: str) -> None:
        nonlocal tried
        for left in LEFT:
            image = disk.image(Rng(tried), left)
            found = content(opened({name: bytes(data) for name, data in image.items()}))
            assert found in moments, f"it was never {found}"
            tried += 1

    def step(work: Coroutine[Any, Any, None], expected: list[Said]) -> None:
        """Carry out something durable: until it is, what was before may be found, then nothing else."""
        moments.append(expected)
        done(work)
        del moments[:-1]
        watch("")

    async def publish(first: int, last: int, count: int) -> None:
        await index.publish_all(
            message(number, body=b"%d" % number, redeliveries=count) for number in range(first, last)
        )
        await index.sync()

    def row(number: int, *, delivered: bool = False, count: int = 0) -> Said:
        return (number, b"%016d" % number, None, 1000 + number, b"%d" % number, True, delivered, count)

    async def settle() -> None:
        await index.deliver([0, 1, 2])
        await index.ack([1])
        await index.sync()

    async def count() -> None:
        await index.recount(0, message(0, redeliveries=4))
        await index.sync()

    async def end() -> None:
        await index.ack([0, 2, 3, 4])
        await index.flush()

    disk.watch = watch
    step(publish(0, 4, 0), rows := [row(number) for number in range(4)])
    step(index.flush(), rows)
    # What is delivered and acknowledged is durable together here, or in order: nothing in between is synced.
    step(settle(), rows := [row(0, delivered=True), row(2, delivered=True), row(3)])
    step(index.flush(), rows)
    step(count(), rows := [row(0, delivered=True, count=4), *rows[1:]])
    step(index.convert(), rows)
    step(publish(4, 5, 2), rows := [*rows, row(4, count=2)])
    step(index.flush(), rows)
    step(end(), [])
    assert tried > 200
