"""The links between hosts: cut by each receiver, disturbed by each sender, measured by both ends together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from splitbrain.harness.backends.agent.tools import ended
from splitbrain.harness.backends.shared.links import Refreshes, SeededFaults
from splitbrain.harness.backends.ssh.connection import HostError
from splitbrain.harness.backends.ssh.machine import RemoteAgent
from splitbrain.harness.contract.faults import LinkFault
from splitbrain.harness.contract.nodes import Link, NodeId
from splitbrain.harness.contract.rng import Streams
from splitbrain.results.errors import BackendError, SeveralFailedError

ALIVE_EVERY_S: Final = 8.0
"""An agent that hears nothing for 45 s ends (`agent.remote`). So several of these may be lost."""
PROBE_WAITS_S: Final = 0.3
PROBE_ATTEMPTS: Final = 10

T = TypeVar("T")


class HostLinks:
    """The links between the nodes of a deployment.

    Args:
        agents: on the hosts of all nodes, each with its host laid out.
    """

    def __init__(self, agents: Mapping[NodeId, RemoteAgent]) -> None:
        self._agents = agents
        self._seeded = SeededFaults()
        self._refreshes = Refreshes()
        self._cut: frozenset[Link] = frozenset()
        self._held: frozenset[Link] = frozenset()
        self._measuring = asyncio.Lock()
        self._round = 0

    async def cut(self, links: frozenset[Link]) -> None:
        """Make exactly these directed links drop everything, and all others pass: on every host in one transaction.

        Hosts change at the same time, but not in the same instant. A cut expires after a minute unless this
        controller refreshes it, which it does by itself.
        """

        async def cut(node: NodeId) -> None:
            await self._agents[node].ask("cut", sources=sorted(source for source, to in links if to == node))

        await self._on_all(cut)
        self._refreshes.all_is_fresh()
        self._cut = links

    async def passes(self, links: Sequence[Link]) -> Mapping[Link, bool]:
        """Send a datagram over each link, all at once, and see which arrive.

        One that is expected to arrive is sent up to ten times. One over a link that is cut has 0.3 s to prove that it
        is not.
        """
        async with self._measuring:
            passed = await self._measure(links)
            for _ in range(PROBE_ATTEMPTS - 1):
                missing = [link for link in links if link not in passed | self._cut | self._held]
                if not missing:
                    break
                passed |= await self._measure(missing)
        return {link: link in passed for link in links}

    async def _measure(self, links: Sequence[Link]) -> set[Link]:
        self._round += 1
        tokens = {f"{self._round} {source} {to}": (source, to) for source, to in links}

        async def send(source: NodeId) -> None:
            probes = [(token, link[1], link in self._held) for token, link in tokens.items() if link[0] == source]
            await self._agents[source].ask("send_probes", probes=probes)

        async def hear(node: NodeId) -> list[str]:
            wanted = {token: link[0] for token, link in tokens.items() if link[1] == node}
            return await self._agents[node].ask("heard_probes", tokens=wanted, within_s=PROBE_WAITS_S)

        await self._on_all(send, [node for node in self._agents if any(link[0] == node for link in links)])
        heard = await self._on_all(hear, [node for node in self._agents if any(link[1] == node for link in links)])
        return {tokens[token] for each in heard for token in each}

    async def dropped(self) -> Mapping[Link, int]:
        """Packets that each cut link swallowed since it was cut, the backend's own probes left out."""
        with self._refreshes.explain():
            counts = await self._on_all(lambda node: self._agents[node].ask("dropped"))
        return {
            (source, node): count
            for node, counted in zip(self._agents, counts, strict=True)
            for source, count in counted.items()
        }

    async def disturb(self, faults: Mapping[Link, LinkFault], streams: Streams) -> None:
        """Give exactly these directed links these faults, and all others none, on every sending host at the same time.

        They hit packets where these leave their host.
        """
        request = self._seeded.request(faults, streams)

        async def disturb(node: NodeId) -> None:
            wanted = [(to, fault) for source, to, fault in request if source == node]
            await self._agents[node].ask("disturb", faults=wanted)

        await self._on_all(disturb)
        self._held = frozenset(link for link, fault in faults.items() if fault.held)

    async def disturbed(self) -> Mapping[Link, Mapping[str, int]]:
        """For each link with a fault what it did since it has it: counts of packets (`agent.packets`)."""
        counts = await self._on_all(lambda node: self._agents[node].ask("disturbed"))
        return {
            (node, to): counted
            for node, of_node in zip(self._agents, counts, strict=True)
            for to, counted in of_node.items()
        }

    async def keep_alive(self) -> None:
        """Keep the agents, and with them their nodes and cuts, from ending, until this is cancelled.

        A failed refresh is reported together with its consequences.
        """
        while True:
            await asyncio.sleep(ALIVE_EVERY_S)
            # At the same time, so that a host that is gone does not keep the others waiting.
            await asyncio.gather(*map(self._refresh, self._agents.values()))

    async def _refresh(self, agent: RemoteAgent) -> None:
        try:
            await agent.ask("alive")
        except BackendError as error:
            self._refreshes.failed(error)

    async def _on_all(
        self, work: Callable[[NodeId], Awaitable[T]], nodes: Sequence[NodeId] | None = None
    ) -> Sequence[T]:
        return await together([work(node) for node in (self._agents if nodes is None else nodes)])


async def together(work: Sequence[Awaitable[T]]) -> Sequence[T]:
    """Results in order. All of it is brought to its end; then failures are raised, those of hosts in one message.

    Raises:
        HostError: one host failed.
        SeveralFailedError: several did.
    """
    results = await ended(work)
    failures = [result for result in results if isinstance(result, BaseException)]
    of_hosts = [failure for failure in failures if isinstance(failure, HostError)]
    for failure in failures:
        if not isinstance(failure, HostError):
            raise failure
    if len(of_hosts) == 1:
        raise of_hosts[0]
    if of_hosts:
        raise SeveralFailedError(of_hosts)
    return [result for result in results if not isinstance(result, BaseException)]
