"""Links of deployments: the requests to their carrier, and how an agent on this machine gets them.

Faults of links carry the seeds from which packets draw their fates. The connections of clients cross no link.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from splitbrain.harness.backends.shared.channel import Asked
from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Address, Link, NodeId
from splitbrain.harness.contract.rng import Streams
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.results.errors import BackendError

ALIVE_EVERY_S = 10.0
"""An agent refreshes cuts that are older than 20 s; after 60 s they expire. So several of these may be lost."""


class Links(Protocol):
    """The links between the nodes of a deployment, as `Deployment` describes what is done to them."""

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


class Refreshes:
    """What became of the refreshes without which cuts expire.

    One that fails is no more than that: the next may come in time. But if a link is no longer cut, the error mentions
    it.
    """

    def __init__(self) -> None:
        self._problem: BackendError | None = None

    def all_is_fresh(self) -> None:
        """The links have just been cut again."""
        self._problem = None

    def failed(self, problem: BackendError) -> None:
        """A refresh did not work. The first since the links were cut is remembered."""
        self._problem = self._problem or problem

    @contextlib.contextmanager
    def explain(self) -> Generator[None]:
        """To what fails in here, add why cuts may have expired.

        Raises:
            BackendError: it failed, and so had a refresh.
        """
        try:
            yield
        except BackendError as error:
            if self._problem is None:
                raise
            said = str(self._problem).rstrip(".")
            raise BackendError(f"{error} Cuts may have expired, for they were not refreshed: {said}.") from error


class AgentLinks:
    """Links that one agent on this machine carries."""

    def __init__(self, agent: Asked) -> None:
        self._agent = agent
        self._seeded = SeededFaults()
        self._refreshes = Refreshes()

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these drop everything, and all others pass.

        Where packets are dropped, a cut expires after a minute unless `keep_alive` refreshes it.
        """
        await self._agent.ask("cut", links=sorted(links))
        self._refreshes.all_is_fresh()

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a probe over each link, all at once. A probe has two to three seconds, over a cut link 150 ms."""
        passed = await self._agent.ask("passes", links=list(links))
        return dict(zip(links, passed, strict=True))

    async def dropped(self) -> Mapping[Link, int]:
        """What each cut link swallowed since it was cut: packets, or bytes where proxies carry them."""
        with self._refreshes.explain():
            return {(source, destination): count for source, destination, count in await self._agent.ask("dropped")}

    async def disturb(self, faults: Mapping[Link, LinkFault], streams: Streams) -> None:
        """Give exactly these links these faults, with seeds from the streams, and all others none."""
        await self._agent.ask("disturb", faults=self._seeded.request(faults, streams))

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets, or of pieces of streams."""
        counts = await self._agent.ask("disturbed")
        return {(source, destination): counted for source, destination, counted in counts}

    async def keep_alive(self) -> None:
        """Refresh cuts until this is cancelled. A failed refresh is reported together with its consequences."""
        while True:
            await asyncio.sleep(ALIVE_EVERY_S)
            try:
                await self._agent.ask("alive")
            except BackendError as error:
                self._refreshes.failed(error)


# --- faults, as an agent takes them -----------------------------------------------------------------------------------

SEEDS = 2**32


class SeededFaults:
    """Seeds for the faults of one deployment. A link that keeps its fault keeps its seed, and so its counts."""

    def __init__(self) -> None:
        self._seeded: dict[Link, tuple[LinkFault, int]] = {}

    def request(self, faults: Mapping[Link, LinkFault], streams: Streams) -> list[tuple[str, str, dict[str, Any]]]:
        """The faults as an agent takes them: source, destination, and the fields of the fault with its seed."""
        before, self._seeded = self._seeded, {}
        for link in sorted(faults):
            known = before.get(link)
            if known is None or known[0] != faults[link]:
                known = faults[link], streams["packets/{}>{}".format(*link)].below(SEEDS)
            self._seeded[link] = known
        return [
            (source, destination, {**msgspec.structs.asdict(fault), "seed": seed})
            for (source, destination), (fault, seed) in self._seeded.items()
        ]


# --- connections of clients -------------------------------------------------------------------------------------------

CONNECTS_WITHIN_S = 2.0


async def connected(found: socket.socket, node: NodeId, address: Address) -> socket.socket:
    """The given TCP socket, non-blocking and connected to the node's address; closed if that does not succeed.

    Raises:
        DefiniteError: the connection was refused, or the node took no connection within two seconds.
    """
    try:
        found.setblocking(False)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECTS_WITHIN_S):
            await asyncio.get_running_loop().sock_connect(found, address)
    except TimeoutError:
        found.close()
        raise DefiniteError(f"{node} took no connection within {CONNECTS_WITHIN_S:g} s") from None
    except OSError as error:
        found.close()
        reason = os.strerror(error.errno) if error.errno else error  # asyncio's own text says only that it failed
        raise DefiniteError(f"{node} cannot be reached: {reason}") from None
    except BaseException:
        found.close()
        raise
    return found
