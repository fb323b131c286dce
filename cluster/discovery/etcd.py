"""The etcd backend (PD-2): a key with a lease for each node, below a prefix; the lock is etcd's own.

It speaks to the JSON gateway of etcd 3.4 and later. A node whose lease ran out, since it was down or cut off, is
listed no more, and registers again with its next sign of life.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from splitbrain.cluster.discovery.backend import Listing
from splitbrain.cluster.discovery.http import TIMEOUT_S, Http
from splitbrain.cluster.discovery.reading import a_list, a_number, an_address, field, json_of
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import DiscoveryError

PREFIX: Final = "/splitbrain/discovery"
TTL_S: Final = 30
LOCK_TTL_S: Final = 30
"""The lock ends so long after its owner took it: longer than any node takes to join."""

LOCK_WAIT_S: Final = 8.0


class Etcd:
    """A node's way to etcd.

    Args:
        http: to its clients' address.
        peer: this node.
        cluster: name of the cluster: several may share one etcd.
        prefix: of all keys.
        ttl_s: of a node's lease.
    """

    name = "etcd"
    registers = True

    def __init__(
        self, http: Http, peer: Peer, cluster: str = "default", prefix: str = PREFIX, ttl_s: int = TTL_S
    ) -> None:
        self._http = http
        self._peer = peer
        self._base = f"{prefix.rstrip('/')}/clusters/{cluster}"
        self._ttl_s = ttl_s
        self._lease: str | None = None
        self._lock_lease: str | None = None
        self._lock_key: str | None = None
        self.refresh_ms = ttl_s * 1000 // 3

    async def init(self) -> None:
        """Nothing is to be prepared."""

    async def list_nodes(self) -> Listing:
        """The nodes below the prefix."""
        start = f"{self._base}/nodes/".encode()
        end = start[:-1] + bytes([start[-1] + 1])
        answer = await self._call("kv/range", {"key": _coded(start), "range_end": _coded(end)})
        found = (_peer(entry) for entry in a_list(answer.get("kvs", []), "kv/range"))
        return Listing(tuple(found))

    async def register(self) -> None:
        """Write this node's key, with a lease of its own.

        Raises:
            DiscoveryError: a node at another address has the key, which it keeps until its lease is over.
        """
        lease = self._lease = await self._grant(self._ttl_s)
        host, port = self._peer.address
        value = msgspec.json.encode({"name": self._peer.name, "host": host, "port": port})
        key = f"{self._base}/nodes/{self._peer.name}".encode()
        put = {"key": _coded(key), "value": _coded(value), "lease": lease}
        is_new = {"result": "EQUAL", "target": "CREATE", "key": _coded(key), "createRevision": "0"}
        look = {"requestRange": {"key": _coded(key)}}
        answer = await self._call("kv/txn", {"compare": [is_new], "success": [{"requestPut": put}], "failure": [look]})
        if answer.get("succeeded") is True:
            return
        former = _first_of(answer)
        if former != self._peer:
            await self.unregister()
            host, port = former.address
            raise DiscoveryError(
                f"another node is registered as {former.name}, at {host}:{port}: give each its own name"
            )
        await self._call("kv/put", put)

    async def post_registration(self) -> None:
        """Keep the lease.

        Raises:
            DiscoveryError: it ran out: the node is to register again.
        """
        if self._lease is None:
            raise DiscoveryError("this node has no lease")
        answer = await self._call("lease/keepalive", {"ID": self._lease})
        result = field(answer, "result", dict, "lease/keepalive")
        if "TTL" not in result or a_number(result, "TTL", "lease/keepalive") <= 0:
            self._lease = None
            raise DiscoveryError("the lease of this node ran out")

    async def unregister(self) -> None:
        """Give the lease up, and the key with it."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await self._call("lease/revoke", {"ID": lease})

    async def lock(self, peers: Sequence[Peer]) -> bool:
        """Take etcd's lock, which waits for its owner.

        Raises:
            DiscoveryError: it was not to be had in time.
        """
        lease = self._lock_lease = await self._grant(LOCK_TTL_S)
        try:
            answer = await self._call(
                "lock/lock", {"name": _coded(f"{self._base}/lock".encode()), "lease": lease}, LOCK_WAIT_S
            )
        except DiscoveryError:
            with suppress(DiscoveryError):  # the first error says why
                await self.unlock()  # or the request, which may wait there still, gets the lock later
            raise
        self._lock_key = field(answer, "key", str, "lock/lock")
        return True

    async def unlock(self) -> None:
        """Give the lock back, and its lease up."""
        key, self._lock_key = self._lock_key, None
        lease, self._lock_lease = self._lock_lease, None
        try:
            if key is not None:
                await self._call("lock/unlock", {"key": key})
        finally:
            if lease is not None:
                await self._call("lease/revoke", {"ID": lease})

    async def _grant(self, ttl_s: int) -> str:
        return field(await self._call("lease/grant", {"TTL": ttl_s}), "ID", str, "lease/grant")

    async def _call(self, method: str, request: object, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
        answer = (await self._http.ask("POST", f"/v3/{method}", request, timeout_s)).json(method)
        return field({"answer": answer}, "answer", dict, method)


def _coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _first_of(answer: dict[str, Any]) -> Peer:
    """The node in the answer to a transaction whose only request was a range."""
    what = "kv/txn"
    responses = a_list(answer.get("responses"), what)
    found = field(responses[0] if responses else None, "response_range", dict, what)
    entries = field(found, "kvs", list, what)
    return _peer(entries[0] if entries else None)


def _peer(entry: Any) -> Peer:
    what = "kv/range"
    try:
        content = base64.b64decode(field(entry, "value", str, what))
    except ValueError as error:
        raise DiscoveryError(f"{what}: the key of a node has no value that this program wrote: {error}") from error
    value = json_of(content, f"{what}: the value of a node's key")
    address = an_address(field(value, "host", str, what), field(value, "port", int, what), what)
    return Peer(field(value, "name", str, what), address)
