"""What every backend of peer discovery offers (PD-1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from splitbrain.cluster.discovery.seen import Peer


@dataclass(frozen=True, slots=True)
class Listing:
    """What a backend answers.

    Attributes:
        peers: the nodes that it knows, with this one if it knows it.
        founder: the only node that may found a cluster; None if votes decide.
    """

    peers: tuple[Peer, ...]
    founder: str | None = None


class Backend(Protocol):
    """Knows where the nodes of a cluster are.

    Every method may raise a DiscoveryError or an OSError, and may take long: callers bound the time.

    Attributes:
        name: as `--discovery` takes it.
        registers: whether a node must register before it is listed.
        refresh_ms: how often it is to hear of a registered node; 0 for never.
    """

    name: str
    registers: bool
    refresh_ms: int

    async def init(self) -> None:
        """Prepare; called once, before everything else."""
        ...

    async def list_nodes(self) -> Listing:
        """The nodes that it knows now."""
        ...

    async def register(self) -> None:
        """Have this node listed."""
        ...

    async def post_registration(self) -> None:
        """Say that this node lives: after its registration, and then every `refresh_ms`."""
        ...

    async def unregister(self) -> None:
        """Have this node listed no more."""
        ...

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """Take the lock that only one node holds while it joins. False: this backend has none."""
        ...

    async def unlock(self) -> None:
        """Give the lock back, if it is held."""
        ...


class Plain:
    """A backend without registration and lock, to be inherited from."""

    registers = False
    refresh_ms = 0

    async def init(self) -> None:
        """Nothing is to be prepared."""

    async def register(self) -> None:
        """Nothing registers here."""

    async def post_registration(self) -> None:
        """Nothing registers here."""

    async def unregister(self) -> None:
        """Nothing registers here."""

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """It has no lock."""
        return False

    async def unlock(self) -> None:
        """There is nothing to give back."""
