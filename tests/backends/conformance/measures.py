"""What tests measure with: messages over links, writes to disks, looks at clocks, by nodes and their clients only.

Each measurement sees that all is well, injects, measures the effect, heals, and measures that it is gone. What takes
long under a fault is compared with the fastest of several tries without it: a busy machine makes nothing faster.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from splitbrain.harness.contract.nodes import Link, NodeId
from tests.backends.conformance.nodes import Nodes

LINK: Final[Link] = ("n1", "n2")
BYSTANDERS: Final[tuple[Link, ...]] = (("n2", "n1"), ("n1", "n3"))
"""The way back, and the way to somebody else."""

SETTLES_S: Final = 0.25
WITHIN_S: Final = 60.0
_rounds = itertools.count()


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


async def silent_links(nodes: Nodes) -> list[Link]:
    """The links over which nothing arrives of what is sent over all of them."""
    rounds = {link: Round(nodes, link) for link in nodes.links}
    await asyncio.gather(*(each.send(5) for each in rounds.values()))
    arrived = dict(zip(rounds, await asyncio.gather(*(each.settled() for each in rounds.values())), strict=True))
    return [link for link, numbers in arrived.items() if not numbers]


async def until_silent(nodes: Nodes, wanted: Sequence[Link]) -> None:
    """Wait until messages cross all links but the wanted ones, and none of those."""

    async def holds() -> bool:
        return await silent_links(nodes) == sorted(wanted)

    await until(f"silence over {sorted(wanted)} only", holds)


async def not_passing(nodes: Nodes) -> list[Link]:
    """The links over which the probes of the backend do not pass."""
    return sorted(link for link, passed in (await nodes.deployment.passes(nodes.links)).items() if not passed)


async def stores(nodes: Nodes, node: NodeId = "n1") -> int:
    """See that a node can write and sync; the size of its file."""
    said = await nodes.ask(node, "write")
    assert (said["wrote"], said["synced"]) == (None, None)
    return said["size"]


async def ahead_s(nodes: Nodes, node: NodeId = "n1") -> float:
    """How far a node's wall clock is ahead of the true one."""
    return (await nodes.ask(node, "time"))["wall_s"] - nodes.wall_s()
