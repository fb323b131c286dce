"""Where nodes are: what a node knows of it, what it says to others, how it learns of nodes that joined elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from splitbrain.cluster.discovery.calls import ask
from splitbrain.cluster.discovery.messages import Addresses, AskAddresses, Done, Introduce, Refused, Reply, Request
from splitbrain.cluster.discovery.record import Kept
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Address, Runtime

_ASK_MS: Final = 800


class Book:
    """The addresses of all other nodes that a node knows. What it has once is kept over restarts, and never changes.

    Attributes:
        addresses: by name, without this node. The node behind it looks into the same mapping.
    """

    def __init__(self, runtime: Runtime, kept: Kept, own: Peer, known: Mapping[str, Address]) -> None:
        self._runtime = runtime
        self._kept = kept
        self._own = own
        self._asked = 0
        self.addresses: dict[str, Address] = dict(known)
        for peer in kept.record.addresses:
            self.addresses.setdefault(peer.name, peer.address)

    def learn(self, peers: Iterable[Peer]) -> None:
        """Add those that are not known, and write them down."""
        new = [peer for peer in peers if peer.name != self._own.name and peer.name not in self.addresses]
        if new:
            self.addresses.update((peer.name, peer.address) for peer in new)
            # At once: a node must not have joined a cluster of which it knows no node.
            self._kept.know(tuple(Peer(name, address) for name, address in self.addresses.items()))
            self._runtime.spawn(self._kept.write(), "addresses")

    async def learn_from(self, peer: Peer) -> None:
        """Ask a node for all that it knows.

        Raises:
            DiscoveryError: it does not answer.
        """
        reply = await ask(self._runtime, peer.address, AskAddresses(), _ASK_MS)
        if isinstance(reply, Addresses):
            self.learn(reply.peers)

    async def complete(self, members: Iterable[str]) -> None:
        """If there is a member whose address is not known, ask one other node for it, each time the next one."""
        missing = [name for name in members if name != self._own.name and name not in self.addresses]
        if not missing or not self.addresses:
            return
        names = sorted(self.addresses)
        self._asked += 1
        name = names[self._asked % len(names)]
        try:
            await self.learn_from(Peer(name, self.addresses[name]))
        except DiscoveryError as error:
            self._runtime.log(f"the address of {', '.join(missing)} is not known, and {name} cannot be asked: {error}")

    def answer(self, request: Request) -> Reply:
        """What the node says about addresses."""
        match request:
            case AskAddresses():
                known = (Peer(name, address) for name, address in self.addresses.items())
                return Addresses((self._own, *known))
            case Introduce(peers):
                self.learn(peers)
                return Done()
            case _:
                return Refused("this is no request about addresses")
