"""How each kind of fault is measured, once for all backends: by what nodes and their clients see of it.

Each measurement sees that all is well, injects, measures the effect, heals, and measures that it is gone. What takes
long under a fault is compared with the fastest of several tries without it: a busy machine makes nothing faster.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind, LinkFault
from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.harness.contract.sessions import DefiniteError
from tests.backends.matrix_rows import Nodes

LINK: Final[Link] = ("n1", "n2")
BYSTANDERS: Final[tuple[Link, ...]] = (("n2", "n1"), ("n1", "n3"))
"""The way back, and the way to somebody else."""

SETTLES_S: Final = 0.25
WITHIN_S: Final = 60.0
_rounds = itertools.count()


# --- messages -----------------------------------------------------------------------------------------------------


class Round:
    """Messages that were sent over a link, and what came of them."""

    def __init__(self, nodes: Nodes, link: Link) -> None:
        self._nodes = nodes
        self._link = link
        self._name = f"round-{next(_rounds)}"

    async def send(self, count: int, size: int = 100, how: str = "") -> Round:
        source, to = self._link
        how = how or ("packets" if self._nodes.packets else "stream")
        await self._nodes.ask(source, "send", to=to, round=self._name, count=count, size=size, how=how)
        return self

    async def arrived(self) -> list[int]:
        """Their numbers in the order of arrival. None of them was garbled."""
        got = await self._nodes.ask(self._link[1], "got", round=self._name)
        assert got["garbled"] == 0
        return got["numbers"]

    async def settled(self) -> list[int]:
        """What arrived once nothing has arrived for a while."""
        seen: list[int] | None = None
        while (now := await self.arrived()) != seen:
            seen = now
            await asyncio.sleep(SETTLES_S)
        return now


async def until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds, which is tried again and again."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WITHIN_S
    while not await holds():
        assert loop.time() < deadline, f"not seen within {WITHIN_S:g} s: {what}"
        await asyncio.sleep(0.02)


async def took_s(work: Callable[[], Awaitable[object]]) -> float:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    await work()
    return loop.time() - begun_s


async def crosses(nodes: Nodes, link: Link = LINK, count: int = 1, size: int = 100, how: str = "") -> None:
    """Send messages, and wait until all of them have arrived."""
    sent = await Round(nodes, link).send(count, size, how)

    async def all_there() -> bool:
        return sorted(set(await sent.arrived())) == list(range(count))

    await until(f"{count} messages over {link}", all_there)


async def is_well(nodes: Nodes, *links: Link, size: int = 100, how: str = "") -> None:
    """Wait until everything that is sent over a link arrives, once and in order."""

    async def whole(link: Link) -> bool:
        return await (await Round(nodes, link).send(20, size, how)).settled() == list(range(20))

    async def wait(link: Link) -> None:
        await until(f"all of 20 messages over {link}, once and in order", lambda: whole(link))

    await asyncio.gather(*map(wait, links))


async def healed_link(nodes: Nodes) -> None:
    await nodes.deployment.disturb({})
    assert await nodes.deployment.disturbed() == {}
    await is_well(nodes, LINK)


async def cut(nodes: Nodes) -> None:
    await is_well(nodes, LINK, *BYSTANDERS)  # connections that are there take no handshake over the link
    await nodes.deployment.cut(frozenset({LINK}))
    lost = await Round(nodes, LINK).send(20)
    await is_well(nodes, *BYSTANDERS)
    assert await lost.settled() == []
    dropped = (await nodes.deployment.dropped())[LINK]
    assert dropped == 20 if nodes.packets else dropped > 0
    await nodes.deployment.cut(frozenset())
    await is_well(nodes, LINK)
    if nodes.packets:
        assert await lost.arrived() == []


def some_vanish(fault: LinkFault, word: str) -> Callable[[Nodes], Awaitable[None]]:
    async def measure(nodes: Nodes) -> None:
        await is_well(nodes, LINK)
        await nodes.deployment.disturb({LINK: fault})
        left = await (await Round(nodes, LINK).send(200)).settled()
        assert 0 < len(left) < 200
        assert left == sorted(set(left))
        assert (await nodes.deployment.disturbed())[LINK][word] == 200 - len(left)
        await is_well(nodes, *BYSTANDERS)
        await healed_link(nodes)

    return measure


async def duplicate(nodes: Nodes) -> None:
    await is_well(nodes, LINK)
    await nodes.deployment.disturb({LINK: LinkFault(duplicate=0.5)})
    seen = await (await Round(nodes, LINK).send(200)).settled()
    assert set(seen) == set(range(200))
    assert (await nodes.deployment.disturbed())[LINK]["duplicated"] == len(seen) - 200 > 0
    await is_well(nodes, *BYSTANDERS)
    await healed_link(nodes)


async def reorder(nodes: Nodes) -> None:
    await is_well(nodes, LINK)
    await nodes.deployment.disturb({LINK: LinkFault(reorder=0.5)})
    seen = await (await Round(nodes, LINK).send(200)).settled()
    assert sorted(seen) == list(range(200))
    assert seen != sorted(seen)
    assert (await nodes.deployment.disturbed())[LINK]["reordered"] > 0
    await is_well(nodes, *BYSTANDERS)
    await healed_link(nodes)


def slow(fault: LinkFault, word: str, count: int, size: int, least_s: float) -> Callable[[Nodes], Awaitable[None]]:
    async def measure(nodes: Nodes) -> None:
        async def quick(link: Link) -> None:
            async def tried() -> bool:
                return await took_s(lambda: crosses(nodes, link, count, size)) < least_s

            await until(f"messages over {link} in less than {least_s} s", tried)

        await quick(LINK)
        await nodes.deployment.disturb({LINK: fault})
        assert await took_s(lambda: crosses(nodes, LINK, count, size)) >= least_s
        assert (await nodes.deployment.disturbed())[LINK][word] > 0
        for link in BYSTANDERS:
            await quick(link)
        await nodes.deployment.disturb({})
        await quick(LINK)

    return measure


async def mtu(nodes: Nodes) -> None:
    await is_well(nodes, LINK, size=1000)
    await nodes.deployment.disturb({LINK: LinkFault(mtu=600)})
    await is_well(nodes, LINK, size=100)
    assert await (await Round(nodes, LINK).send(20, 1000)).settled() == []
    counted = (await nodes.deployment.disturbed())[LINK]["oversized"]
    assert counted == 20 if nodes.packets else counted > 0
    await is_well(nodes, *BYSTANDERS, size=1000)
    await nodes.deployment.disturb({})
    await is_well(nodes, LINK, size=1000)


async def reset(nodes: Nodes) -> None:
    await is_well(nodes, LINK, ("n1", "n3"), how="stream")
    before = await nodes.ask("n1", "breaks")
    await nodes.deployment.disturb({LINK: LinkFault(resets=10)})

    async def broke() -> bool:
        await Round(nodes, LINK).send(1, how="stream")
        return (await nodes.ask("n1", "breaks"))["n2"] >= before["n2"] + 3

    await until("streams that break", broke)
    assert (await nodes.deployment.disturbed())[LINK]["reset"] >= 3
    await nodes.deployment.disturb({})
    await is_well(nodes, LINK, ("n1", "n3"), how="stream")
    after = await nodes.ask("n1", "breaks")
    await is_well(nodes, LINK, how="stream")
    assert await nodes.ask("n1", "breaks") == after, "no stream breaks without the fault"
    assert after["n3"] == before["n3"]


async def hold(nodes: Nodes) -> None:
    await is_well(nodes, LINK, *BYSTANDERS)  # connections that are there take no handshake over the link
    await nodes.deployment.disturb({LINK: LinkFault(held=True)})
    held = await Round(nodes, LINK).send(20)
    assert await held.settled() == []
    await is_well(nodes, *BYSTANDERS)
    assert (await nodes.deployment.disturbed())[LINK]["held"] > 0
    await nodes.deployment.disturb({})

    async def all_there() -> bool:
        return await held.arrived() == list(range(20))

    await until("what was held, in order", all_there)
    await is_well(nodes, LINK)


# --- processes ----------------------------------------------------------------------------------------------------


async def kill(nodes: Nodes) -> None:
    await is_well(nodes, LINK)
    life = (await nodes.deployment.status("n1")).life
    assert (await nodes.deployment.kill("n1")).state == "stopped"
    with pytest.raises(DefiniteError):
        await nodes.deployment.dial("n1")
    await is_well(nodes, ("n2", "n3"))
    assert (await nodes.deployment.start("n1")).life == life + 1
    await is_well(nodes, LINK)


async def pause(nodes: Nodes) -> None:
    with await nodes.line("n1") as line:
        line.send({"do": "time"})
        await line.answer()
        assert (await nodes.deployment.pause("n1")).state == "paused"
        line.send({"do": "time"})
        answer = asyncio.ensure_future(line.answer())
        await is_well(nodes, ("n2", "n3"))
        await asyncio.sleep(SETTLES_S)
        assert not answer.done()
        assert (await nodes.deployment.resume("n1")).state == "running"
        async with asyncio.timeout(WITHIN_S):
            await answer
    await is_well(nodes, LINK)


async def cpu(nodes: Nodes) -> None:
    async def works(node: NodeId) -> bool:
        return await took_s(lambda: nodes.ask(node, "work")) < 3.0

    await until("work that is done at once", lambda: works("n1"))
    await nodes.deployment.throttle("n1", 0.05)
    assert not await works("n1")
    await until("work of another node", lambda: works("n2"))
    assert (await nodes.deployment.throttle("n1", None))["throttled"] > 0
    await until("work that is done at once", lambda: works("n1"))


# --- disks --------------------------------------------------------------------------------------------------------


async def stores(nodes: Nodes, node: NodeId = "n1") -> int:
    """See that a node can write and sync; the size of its file."""
    said = await nodes.ask(node, "write")
    assert (said["wrote"], said["synced"]) == (None, None)
    return said["size"]


async def healed_disk(nodes: Nodes) -> Mapping[str, Any]:
    """Heal the disk of n1, which may cost its node; it runs and writes afterwards."""
    did = await nodes.deployment.spoil("n1", None)
    if (await nodes.deployment.status("n1")).state == "stopped":
        await nodes.deployment.start("n1")
    await stores(nodes)
    return did


async def met(nodes: Nodes) -> bool | None:
    """Heal the disk of n1; whether the node met its fault, None where the backend says that it could not count."""
    did = await healed_disk(nodes)
    if did.get("uncounted"):
        return None
    counts = [did[name] for name in ("failed_calls", "refused_writes", "failed_syncs", "failed_writes") if name in did]
    assert counts
    return any(counts)


def refuses(fault: DiskFault, wrote: str | None, synced: str | None = None) -> Callable[[Nodes], Awaitable[None]]:
    async def measure(nodes: Nodes) -> None:
        await stores(nodes)
        await nodes.deployment.spoil("n1", fault)
        assert not await met(nodes), "the node does nothing"
        await nodes.deployment.spoil("n1", fault)
        said = await nodes.ask("n1", "write")
        assert said["wrote"] == wrote
        assert wrote is not None or said["synced"] == synced
        await stores(nodes, "n2")
        assert await met(nodes) is not False

    return measure


async def disk_slow(nodes: Nodes) -> None:
    async def is_slow() -> bool:
        return await took_s(lambda: stores(nodes)) >= 0.5

    async def is_quick(node: NodeId = "n1") -> bool:
        return await took_s(lambda: stores(nodes, node)) < 0.5

    await until("a sync that does not wait", is_quick)
    await nodes.deployment.spoil("n1", DiskFault(slow_ms=1000))
    await until("a sync that waits", is_slow)
    await until("a sync of another node", lambda: is_quick("n2"))
    did = await healed_disk(nodes)
    assert did["slowed_syncs"] >= 1
    for _ in range(3):
        await until("a sync that does not wait", is_quick)


async def disk_rot(nodes: Nodes) -> None:
    await stores(nodes)
    before = await nodes.ask("n1", "read")
    await nodes.deployment.kill("n1")
    assert (await nodes.deployment.spoil("n1", DiskFault(rot=1)))["rotten"]
    await nodes.deployment.start("n1")
    rotten = await nodes.ask("n1", "read")
    assert rotten["size"] == before["size"]
    assert rotten["checksum"] != before["checksum"]
    await nodes.deployment.kill("n1")
    await nodes.deployment.spoil("n1", None)
    await nodes.deployment.start("n1")
    assert await nodes.ask("n1", "read") == before


async def disk_truncate(nodes: Nodes) -> None:
    size = await stores(nodes)
    await nodes.deployment.kill("n1")
    assert (await nodes.deployment.spoil("n1", DiskFault(truncate=1)))["truncated"]
    await nodes.deployment.start("n1")
    left = (await nodes.ask("n1", "read"))["size"]
    assert size - 512 <= left < size
    await nodes.deployment.spoil("n1", None)
    assert await stores(nodes) == left + 5000, "what was cut off is gone, what is written stays"


async def membership(nodes: Nodes) -> None:
    """What backends do of it: a node that is stopped loses all that it wrote, and no loss of power brings it back."""
    await stores(nodes)
    await nodes.deployment.kill("n1")
    assert (await nodes.deployment.spoil("n1", DiskFault(wipe=True)))["wiped"] >= 1
    await nodes.deployment.power_off("n1")
    await nodes.deployment.spoil("n1", None)
    await nodes.deployment.start("n1")
    assert (await nodes.ask("n1", "read"))["size"] == 0
    assert await stores(nodes) == 5000
    assert await stores(nodes, "n2") > 0


async def power(nodes: Nodes) -> None:
    async def loses() -> bool:
        size = await stores(nodes)
        assert (await nodes.ask("n1", "append"))["size"] == size + 100
        assert (await nodes.deployment.power_off("n1")).state == "stopped"
        await nodes.deployment.start("n1")
        left = (await nodes.ask("n1", "read"))["size"]
        assert size <= left <= size + 100, "what was synced stays"
        return left < size + 100

    size = await stores(nodes)
    assert (await nodes.ask("n1", "append"))["size"] == size + 100
    await nodes.deployment.kill("n1")
    await nodes.deployment.start("n1")
    assert (await nodes.ask("n1", "read"))["size"] == size + 100, "a kill alone loses nothing"
    await until("a loss of what was not synced", loses)
    await stores(nodes)


# --- clocks -------------------------------------------------------------------------------------------------------


async def ahead_s(nodes: Nodes, node: NodeId = "n1") -> float:
    """How far a node's wall clock is ahead of the true one."""
    return (await nodes.ask(node, "time"))["wall_s"] - nodes.wall_s()


async def clock_jump(nodes: Nodes) -> None:
    assert abs(await ahead_s(nodes)) < 60
    await nodes.deployment.skew("n1", ClockFault(offset_ms=3_600_000))
    assert abs(await ahead_s(nodes) - 3600) < 60
    assert abs(await ahead_s(nodes, "n2")) < 60
    did = await nodes.deployment.skew("n1", None)
    assert did["before"]["offset_ms"] - did["after"]["offset_ms"] == pytest.approx(3_600_000, abs=1000)
    assert abs(await ahead_s(nodes)) < 60


async def clock_drift(nodes: Nodes) -> None:
    async def rates(node: NodeId) -> tuple[float, float]:
        """Bounds of the rate at which a node's clock goes, by what the true one shows around two looks at it."""
        seen: list[tuple[float, float, float]] = []
        for wait_s in (0.0, 0.3):
            await asyncio.sleep(wait_s)
            before_s = nodes.wall_s()
            shown_s = (await nodes.ask(node, "time"))["wall_s"]
            seen.append((before_s, shown_s, nodes.wall_s()))
        (first, shown_s, second), (third, later_s, fourth) = seen
        return (later_s - shown_s) / (fourth - first), (later_s - shown_s) / (third - second)

    async def is_true(node: NodeId = "n1") -> bool:
        return (await rates(node))[1] < 1.4

    async def is_fast() -> bool:
        return (await rates("n1"))[0] > 1.4

    await until("a clock at its rate", is_true)
    await nodes.deployment.skew("n1", ClockFault(drift_ppm=1_000_000))
    await until("a clock at twice its rate", is_fast)
    await until("the clock of another node at its rate", lambda: is_true("n2"))
    await nodes.deployment.skew("n1", None)
    await until("a clock at its rate", is_true)


async def clock_strobe(nodes: Nodes) -> None:
    seen: list[bool] = []

    async def jumps() -> bool:
        ahead = await ahead_s(nodes) > 1800
        if seen[-1:] != [ahead]:
            seen.append(ahead)
        return len(seen) >= 4

    assert abs(await ahead_s(nodes)) < 60
    await nodes.deployment.skew("n1", ClockFault(offset_ms=3_600_000, strobe_ms=50))
    await until("a clock that jumps to and fro", jumps)
    assert abs(await ahead_s(nodes, "n2")) < 60
    assert (await nodes.deployment.skew("n1", None))["jumps"] >= 1
    for _ in range(20):
        assert abs(await ahead_s(nodes)) < 60
        await asyncio.sleep(0.01)


MEASUREMENTS: Final[Mapping[FaultKind, Callable[[Nodes], Awaitable[None]]]] = {
    "cut": cut,
    "delay": slow(LinkFault(delay_ms=800, jitter_ms=100), "delayed", count=1, size=100, least_s=0.8),
    "loss": some_vanish(LinkFault(loss=0.5), "lost"),
    "duplicate": duplicate,
    "reorder": reorder,
    "corrupt": some_vanish(LinkFault(corrupt=0.5), "corrupted"),
    "rate": slow(LinkFault(rate_kbit=100), "queued", count=12, size=1000, least_s=0.8),
    "mtu": mtu,
    "reset": reset,
    "hold": hold,
    "kill": kill,
    "pause": pause,
    "cpu": cpu,
    "disk-full": refuses(DiskFault(full=True), "ENOSPC"),
    "disk-read-only": refuses(DiskFault(read_only=True), "EROFS"),
    "disk-fails": refuses(DiskFault(fails=True), "EIO"),
    "disk-sync": refuses(DiskFault(sync_fails=True), None, "EIO"),
    "disk-slow": disk_slow,
    "disk-rot": disk_rot,
    "disk-truncate": disk_truncate,
    "power": power,
    "membership": membership,
    "clock-jump": clock_jump,
    "clock-drift": clock_drift,
    "clock-strobe": clock_strobe,
}
"""The columns of the matrix."""
