"""Models of the services by which nodes find each other, for simulations, with what may be wrong with them.

What is tested with them is what nodes make of a service that is slow, incomplete or down; backends themselves are
tested against services.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from splitbrain.cluster.embedded import Rng, Runtime
from splitbrain.cluster.embedded_formation import Backend, DiscoveryError, Listing, Peer, Plain
from splitbrain.harness.contract.discovery import DiscoveryTrouble

REGISTERING: Final = ("consul", "etcd")
"""Services with which nodes register, and which have a lock."""

TTL_S: Final = 6.0
_DOWN_MS: Final = 300
_LOCK_TRIES: Final = 20
_LOCK_PAUSE_MS: Final = 300
_MS: Final = 1_000_000

WELL: Final = DiscoveryTrouble()


@dataclass
class Service:
    """What one service holds, and what is wrong with it. Times are those of the loop, in seconds.

    Attributes:
        trouble: what is wrong.
        asked: how often nodes asked since that changed.
        harmed: how many of these were answered otherwise than by a service that is well.
        listed: until when each node is registered.
        owner: who has the lock, until `owned_until_s`.
    """

    trouble: DiscoveryTrouble = WELL
    asked: int = 0
    harmed: int = 0
    listed: dict[str, float] = field(default_factory=dict[str, float])
    owner: str | None = None
    owned_until_s: float = 0.0

    def changes(self, trouble: DiscoveryTrouble) -> dict[str, int | bool]:
        """From now on this is wrong; what came of what was wrong before."""
        found: dict[str, int | bool] = {"asked": self.asked, "bit": self.harmed > 0}
        self.trouble, self.asked, self.harmed = trouble, 0, 0
        if trouble.forgets_lock and self.owner is not None:
            self.owner, self.harmed = None, 1
        return found

    async def reached(self, runtime: Runtime) -> None:
        """A node's way to it and back.

        Raises:
            DiscoveryError: it is down.
        """
        self.asked += 1
        slow_ms = int(self.trouble.slow_ms)
        self.harmed += slow_ms > 0 or self.trouble.down
        await runtime.clock.sleep(runtime.rng.between(1, max(1, slow_ms)) * _MS)
        if self.trouble.down:
            await runtime.clock.sleep(_DOWN_MS * _MS)
            raise DiscoveryError("the service is down")

    def seen(self, peers: Sequence[Peer], rng: Rng) -> tuple[Peer, ...]:
        """Those of these nodes that an answer names."""
        share = int(self.trouble.left_out * 1000)
        found = tuple(peer for peer in peers if rng.between(0, 999) >= share)
        self.harmed += len(found) < len(peers)
        return found


class Model(Plain):
    """One node's way to a service.

    Args:
        kind: the name of the backend.
        service: what is asked.
        runtime: of the node.
        peers: all nodes, this one first.
    """

    def __init__(self, kind: str, service: Service, runtime: Runtime, peers: tuple[Peer, ...]) -> None:
        self.name = kind
        self.registers = kind in REGISTERING
        self.refresh_ms = int(TTL_S * 1000) // 3 if self.registers else 0
        self._service = service
        self._runtime = runtime
        self._node = peers[0].name
        self._peers = tuple(sorted(peers, key=lambda peer: peer.name))

    async def list_nodes(self) -> Listing:
        """What the service answers; with `k8s` nothing is asked."""
        if self.name == "k8s":
            return Listing(self._peers, self._peers[0].name)
        await self._service.reached(self._runtime)
        now_s = _now_s()
        listed = [
            peer for peer in self._peers if not self.registers or self._service.listed.get(peer.name, 0.0) > now_s
        ]
        return Listing(self._service.seen(listed, self._runtime.rng))

    async def register(self) -> None:
        """Be listed for a while."""
        await self._service.reached(self._runtime)
        self._service.listed[self._node] = _now_s() + TTL_S

    async def post_registration(self) -> None:
        """Be listed for longer."""
        await self.register()

    async def unregister(self) -> None:
        """Be listed no more."""
        await self._service.reached(self._runtime)
        self._service.listed.pop(self._node, None)

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """Take the lock, which ends by itself after a while.

        Raises:
            DiscoveryError: another node had it each time.
        """
        del peers
        if not self.registers:
            return False
        service = self._service
        for _ in range(_LOCK_TRIES):
            await service.reached(self._runtime)
            if service.owner in (None, self._node) or service.owned_until_s <= _now_s():
                service.owner, service.owned_until_s = self._node, _now_s() + TTL_S
                return True
            await self._runtime.clock.sleep(_LOCK_PAUSE_MS * _MS)
        raise DiscoveryError(f"{service.owner} has the lock")

    async def unlock(self) -> None:
        """Give it back."""
        if self._service.owner == self._node:
            self._service.owner = None


class Late:
    """A backend whose node begins to look for a cluster a while after its start: nodes do not boot at one moment."""

    def __init__(self, backend: Backend, runtime: Runtime, delay_ms: int) -> None:
        self._backend = backend
        self._runtime = runtime
        self._delay_ms = delay_ms
        self.name = backend.name
        self.registers = backend.registers
        self.refresh_ms = backend.refresh_ms

    async def init(self) -> None:
        """Wait, then prepare."""
        await self._runtime.clock.sleep(self._delay_ms * _MS)
        await self._backend.init()

    async def list_nodes(self) -> Listing:
        """As the backend."""
        return await self._backend.list_nodes()

    async def register(self) -> None:
        """As the backend."""
        await self._backend.register()

    async def post_registration(self) -> None:
        """As the backend."""
        await self._backend.post_registration()

    async def unregister(self) -> None:
        """As the backend."""
        await self._backend.unregister()

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """As the backend."""
        return await self._backend.lock(peers)

    async def unlock(self) -> None:
        """As the backend."""
        await self._backend.unlock()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
