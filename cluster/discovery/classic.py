"""The classic backend: a list of nodes in the configuration, and a lock that the nodes on it hold themselves (PD-2).

RabbitMQ takes a global lock of Erlang over the nodes of the list, which is asked of those that are connected. Here the
lock is a connection to each node of the list that answers, in the order of names, so that two nodes cannot each hold a
half for ever; it ends with its owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.cluster.discovery.backend import Listing, Plain
from splitbrain.cluster.discovery.calls import Held, hold
from splitbrain.cluster.discovery.messages import Refused, TakeLock
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Runtime

LOCK_RETRIES: Final = 10
_LOCK_PAUSE_MS: Final = 200
_ASK_MS: Final = 500
_STAY_MS: Final = 1000
_MS: Final = 1_000_000


class Classic(Plain):
    """A list of nodes.

    Args:
        runtime: of this node.
        node: its name.
        peers: the list, this node included.
        retries: how often the lock is tried again (RabbitMQ: `internal_lock_retries`).
    """

    name = "classic"

    def __init__(self, runtime: Runtime, node: str, peers: tuple[Peer, ...], retries: int = LOCK_RETRIES) -> None:
        self._runtime = runtime
        self._node = node
        self._peers = peers
        self._retries = retries
        self._held: list[Held] = []

    @property
    def holds(self) -> bool:
        """Whether this node has the lock, or a part of it."""
        return bool(self._held)

    async def list_nodes(self) -> Listing:
        """The list."""
        return Listing(self._peers)

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """Take the lock at all nodes that answer.

        Raises:
            DiscoveryError: another node held it each time.
        """
        problem = ""
        for attempt in range(self._retries + 1):
            if attempt:
                pause_ms = self._runtime.rng.between(_LOCK_PAUSE_MS // 2, _LOCK_PAUSE_MS)
                await self._runtime.clock.sleep(pause_ms * _MS)
            problem = await self._try(sorted(peers, key=lambda peer: peer.name))
            if not problem:
                self._runtime.spawn(self._stay(self._held), "lock")
                return True
        raise DiscoveryError(f"the lock was not to be had in {self._retries + 1} attempts: {problem}")

    async def unlock(self) -> None:
        """Give it back everywhere."""
        held, self._held = self._held, []
        for each in held:
            each.close()

    async def _stay(self, held: list[Held]) -> None:
        """While it is held: say so to the nodes that hold it."""
        while self._held is held:
            for each in held:
                each.stay()
            await self._runtime.clock.sleep(_STAY_MS * _MS)

    async def _try(self, peers: Sequence[Peer]) -> str:
        """One attempt; why it failed, or nothing."""
        await self.unlock()
        for peer in peers:
            try:
                held = await hold(self._runtime, peer.address, TakeLock(self._node), _ASK_MS)
            except DiscoveryError:
                continue
            if isinstance(held.reply, Refused):
                held.close()
                await self.unlock()
                return f"at {peer.name} {held.reply.reason}"
            self._held.append(held)
        return "" if self._held else "no node of the list answers"
