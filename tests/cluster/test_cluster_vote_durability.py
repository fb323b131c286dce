"""What a restarted node has read of its vote is durable: it may be asked about it, and then the power may fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from splitbrain.cluster.raft import Recovered
from splitbrain.cluster.storage import Storage, open_storage
from splitbrain.harness.contract.rng import Rng
from splitbrain.harness.simulation.clock import TrueClock
from splitbrain.harness.simulation.disk import DiskLatency, SimDisk
from splitbrain.harness.simulation.loop import SimLoop
from tests.cluster.support import Draws

MS = 1_000_000


@pytest.mark.parametrize("seed", range(40))
def test_a_vote_that_a_second_life_has_read_survives_a_loss_of_power(seed: int) -> None:
    """The first life is killed somewhere in storing its vote: what the cache has of it, the disk may not."""
    loop, rng = SimLoop(Rng(seed)), Rng(seed + 1)
    clock, disk = TrueClock(loop), SimDisk(rng, DiskLatency(1 * MS, 2 * MS))

    async def life(work: Callable[[Callable[[], Awaitable[Recovered]]], Awaitable[None]]) -> None:
        alive = [True]
        mounted = disk.mount(clock.sleep_ns, lambda: alive[0])

        async def opened() -> Recovered:
            found = await open_storage(mounted, "n1", Draws(0), lambda _: None)
            storage, recovered = found.storage, found.recovered
            storages.append(storage)
            return recovered

        storages.clear()
        await work(opened)
        alive[0] = False
        disk.process_died()

    async def vote_and_die(opened: Callable[[], Awaitable[Recovered]]) -> None:
        await opened()
        saving = asyncio.ensure_future(storages[0].save_vote(7, "n2"))
        await clock.sleep_ns(rng.between(0, 6 * MS))
        saving.cancel()

    async def look(opened: Callable[[], Awaitable[Recovered]]) -> None:
        recovered = await opened()
        seen.append((recovered.term, recovered.voted_for))

    async def main() -> None:
        await life(vote_and_die)
        await life(look)
        disk.power_loss()
        await life(look)

    storages: list[Storage] = []
    seen: list[tuple[int, str | None]] = []
    loop.run(main())
    assert seen[0] == seen[1]
