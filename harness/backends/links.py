"""Links of a deployment: what can be asked of whoever carries them, and how an agent on this machine is asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from harness.backends.channel import Asked
from harness.backends.linkfaults import SeededFaults
from harness.protocols import Link, LinkFault
from harness.rng import Streams
from results.errors import BackendError

ALIVE_EVERY_S = 10.0


class Links(Protocol):
    """The links between the nodes of a deployment, as `harness.protocols.Deployment` describes what is done to them."""

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these drop everything, and all others pass."""
        ...

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Measure which of them carry something now."""
        ...

    async def dropped(self) -> Mapping[Link, int]:
        """What each cut link swallowed since it was cut."""
        ...

    async def disturb(self, faults: Mapping[Link, LinkFault], streams: Streams) -> None:
        """Give exactly these links these faults, with seeds from the streams, and all others none."""
        ...

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it."""
        ...

    async def keep_alive(self) -> None:
        """Keep cuts from expiring, until this is cancelled."""
        ...


class AgentLinks:
    """Links that one agent on this machine carries."""

    def __init__(self, agent: Asked) -> None:
        self._agent = agent
        self._seeded = SeededFaults()

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these drop everything, and all others pass.

        Where packets are dropped, a cut expires after a minute unless `keep_alive` refreshes it.
        """
        await self._agent.ask("cut", links=sorted(links))

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link, all at once; one that has not arrived after 150 ms does not pass."""
        passed = await self._agent.ask("passes", links=list(links))
        return dict(zip(links, passed, strict=True))

    async def dropped(self) -> Mapping[Link, int]:
        """What each cut link swallowed since it was cut: packets, or bytes where proxies carry them."""
        return {(source, destination): count for source, destination, count in await self._agent.ask("dropped")}

    async def disturb(self, faults: Mapping[Link, LinkFault], streams: Streams) -> None:
        """Give exactly these links these faults, with seeds from the streams, and all others none."""
        await self._agent.ask("disturb", faults=self._seeded.request(faults, streams))

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets, or of pieces of streams."""
        counts = await self._agent.ask("disturbed")
        return {(source, destination): counted for source, destination, counted in counts}

    async def keep_alive(self) -> None:
        """Keep cuts from expiring until this is cancelled, or the agent does not answer."""
        with contextlib.suppress(BackendError):  # whoever asks for something next is told
            while True:
                await asyncio.sleep(ALIVE_EVERY_S)
                await self._agent.ask("alive")
