"""The DNS backend (PD-2): the addresses of one name, and for each the name of its host. No lock.

The first label of a host's name is the name of its node: n1.nodes.example is n1. The name is one of all nodes, as that
of a headless service of Kubernetes.
"""

from __future__ import annotations

from typing import Final, Protocol

from splitbrain.cluster.discovery.backend import Listing, Plain
from splitbrain.cluster.discovery.dnswire import Type, reverse
from splitbrain.cluster.discovery.reading import an_address
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError

_KINDS: Final[tuple[Type, ...]] = ("A", "AAAA")


class Resolver(Protocol):
    """Asks name servers."""

    async def resolve(self, name: str, kind: Type) -> list[str]:
        """The records of a name; none if there are none.

        Raises:
            DiscoveryError: no server answers, or what it says makes no sense.
        """
        ...


class Dns(Plain):
    """The nodes behind one name.

    Args:
        resolver: of names.
        hostname: the name of all nodes, complete: search domains are not tried.
        port: of all nodes.
    """

    name = "dns"

    def __init__(self, resolver: Resolver, hostname: str, port: int) -> None:
        self._resolver = resolver
        self._hostname = hostname
        self._port = port

    async def _addresses(self) -> list[str]:
        """Those of one kind are enough: a server that has the others nowhere to ask refuses to answer about them."""
        addresses: list[str] = []
        refused: DiscoveryError | None = None
        for kind in _KINDS:
            try:
                addresses += await self._resolver.resolve(self._hostname, kind)
            except DiscoveryError as error:
                refused = refused or error
        if not addresses:
            raise refused or DiscoveryError(f"{self._hostname} has no address")
        return addresses

    async def list_nodes(self) -> Listing:
        """The nodes whose addresses lead back to a name; one whose address does not yet is left out."""
        addresses = await self._addresses()
        found: dict[str, Peer] = {}
        for address in addresses:
            for host in await self._resolver.resolve(reverse(address), "PTR"):
                name = host.partition(".")[0]
                if name and host.rstrip(".").lower() != self._hostname.rstrip(".").lower():
                    found.setdefault(name, Peer(name, an_address(host, self._port, self._hostname)))
        if not found:
            raise DiscoveryError(f"of {len(addresses)} addresses of {self._hostname} none leads back to a host's name")
        return Listing(tuple(found.values()))
