"""The Consul backend (PD-2): a service with a TTL check for each node; the lock is a key that a session acquires.

Calls are those of Consul's HTTP API, version 1: agent/service, agent/check, health/service, session and kv.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from splitbrain.cluster.discovery.backend import Listing
from splitbrain.cluster.discovery.http import Http
from splitbrain.cluster.discovery.reading import a_list, an_address, field
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError
from splitbrain.cluster.runtime import Clock

SERVICE: Final = "splitbrain"
TTL_S: Final = 30
LOCK_TTL_S: Final = 30
LOCK_ATTEMPTS: Final = 16
_LOCK_PAUSE_MS: Final = 500
_GONE_AFTER_S: Final = 600
_MS: Final = 1_000_000


class Consul:
    """A node's way to the Consul agent beside it.

    Args:
        http: to the agent, with a token if it needs one.
        clock: for pauses between attempts to take the lock.
        peer: this node.
        cluster: name of the cluster: a tag of its services, and a part of the lock's key.
        service: name of the service.
        ttl_s: after so long without a sign of life the agent takes a node for down.
    """

    name = "consul"
    registers = True

    def __init__(
        self,
        http: Http,
        clock: Clock,
        peer: Peer,
        cluster: str = "default",
        service: str = SERVICE,
        ttl_s: int = TTL_S,
    ) -> None:
        self._http = http
        self._clock = clock
        self._peer = peer
        self._cluster = cluster
        self._service = service
        self._ttl_s = ttl_s
        self._id = f"{service}-{cluster}-{peer.name}"
        self._session: str | None = None
        self.refresh_ms = ttl_s * 1000 // 3

    async def init(self) -> None:
        """Nothing is to be prepared."""

    async def list_nodes(self) -> Listing:
        """The nodes whose checks pass."""
        what = "health/service"
        target = f"/v1/health/service/{quote(self._service, safe='')}?passing=true&tag={quote(self._cluster, safe='')}"
        answer = (await self._http.ask("GET", target)).json(what)
        return Listing(tuple(_peer(each, what) for each in a_list(answer, what)))

    async def register(self) -> None:
        """Register the service with the agent; the check passes from the beginning."""
        host, port = self._peer.address
        check = {
            "Notes": "kept passing by the node itself",
            "TTL": f"{self._ttl_s}s",
            "Status": "passing",
            "DeregisterCriticalServiceAfter": f"{_GONE_AFTER_S}s",
        }
        service = {
            "ID": self._id,
            "Name": self._service,
            "Address": host,
            "Port": port,
            "Tags": [self._cluster],
            "Meta": {"node": self._peer.name},
            "Check": check,
        }
        await self._put("/v1/agent/service/register", service)

    async def post_registration(self) -> None:
        """Have the check pass."""
        await self._put(f"/v1/agent/check/pass/{quote(f'service:{self._id}', safe=':')}")

    async def unregister(self) -> None:
        """Have the agent forget the service."""
        await self._put(f"/v1/agent/service/deregister/{quote(self._id, safe='')}")

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """Take the lock: a session acquires a key, which only one can.

        Raises:
            DiscoveryError: another node's session had it each time, or the agent gave no answer.
        """
        try:
            if await self._acquired():
                return True
        except DiscoveryError:
            with suppress(DiscoveryError):  # the first error says why
                await self.unlock()  # or the session has the lock whose answer was lost
            raise
        await self.unlock()
        raise DiscoveryError(f"another node had the lock in all {LOCK_ATTEMPTS} attempts")

    async def _acquired(self) -> bool:
        request = {"Name": f"{self._id} joins", "TTL": f"{LOCK_TTL_S}s", "Behavior": "release", "LockDelay": "1s"}
        answer = (await self._http.ask("PUT", "/v1/session/create", request)).json("session/create")
        self._session = field(answer, "ID", str, "session/create")
        for attempt in range(LOCK_ATTEMPTS):
            if attempt:
                await self._clock.sleep(_LOCK_PAUSE_MS * _MS)
            target = f"{self._key}?acquire={quote(self._session, safe='')}"
            taken = (await self._http.ask("PUT", target, self._peer.name)).json("kv acquire")
            if taken is True:
                return True
        return False

    async def unlock(self) -> None:
        """Give the key back, and end the session; its end alone gives the key back, too."""
        session, self._session = self._session, None
        if session is not None:
            try:
                await self._put(f"{self._key}?release={quote(session, safe='')}", self._peer.name)
            finally:
                await self._put(f"/v1/session/destroy/{quote(session, safe='')}")

    @property
    def _key(self) -> str:
        return f"/v1/kv/{quote(f'{self._service}/{self._cluster}/lock')}"

    async def _put(self, target: str, body: object = None) -> None:
        answer = await self._http.ask("PUT", target, body)
        if not 200 <= answer.status < 300:
            text = answer.body[:200].decode(errors="replace").strip()
            raise DiscoveryError(f"{target.partition('?')[0]}: status {answer.status}: {text}")


def _peer(entry: Any, what: str) -> Peer:
    service = field(entry, "Service", dict, what)
    name = field(field(service, "Meta", dict, what), "node", str, what)
    host = service.get("Address")
    if not isinstance(host, str) or not host:  # one without an address of its own is at that of its agent
        host = field(field(entry, "Node", dict, what), "Address", str, what)
    return Peer(name, an_address(host, field(service, "Port", int, what), what))
