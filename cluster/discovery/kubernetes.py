"""Two backends for Kubernetes (PD-2): by the names of a StatefulSet's pods, and by the API server.

`Seed` is as RabbitMQ's since 4.1: the pod with the first ordinal is the only one that may found a cluster, and each
pod knows its name from its own; no service is asked. `Pods` is the way of before: the API server lists the pods with a
label, and votes decide. Neither has a lock.
"""

from __future__ import annotations

from typing import Any, Final, cast
from urllib.parse import quote

from splitbrain.cluster.discovery.backend import Listing, Plain
from splitbrain.cluster.discovery.http import Http
from splitbrain.cluster.discovery.reading import a_list, an_address, field
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import ArgumentError, DiscoveryError

_PAGE: Final = 500
_PAGES_MAX: Final = 100


class Seed(Plain):
    """The pod of the first ordinal.

    Args:
        peer: this node: its name is that of its pod, and its host begins with that name ("n-2.nodes.default.svc").
        ordinal_start: the first ordinal of the StatefulSet.
        nodes: how many pods it has. With it they are all listed, so that a seed that lost its data finds the cluster
            that is there; without it only the seed and this node are.

    Raises:
        ArgumentError: name or host are not so.
    """

    name = "k8s"

    def __init__(self, peer: Peer, ordinal_start: int = 0, nodes: int | None = None) -> None:
        of_set, dash, ordinal = peer.name.rpartition("-")
        if not dash or not of_set or not (ordinal.isascii() and ordinal.isdecimal()):
            raise ArgumentError(
                f"--discovery k8s needs a node with the name of its pod, which ends in an ordinal (rabbit-0), "
                f"not {peer.name!r}."
            )
        host, port = peer.address
        if not host.startswith(f"{peer.name}."):
            raise ArgumentError(
                f"--discovery k8s needs --discovery-address with the pod's own host name "
                f"({peer.name}.SERVICE.NAMESPACE.svc.cluster.local:{port}), not {host!r}."
            )
        pods = [f"{of_set}-{ordinal_start + number}" for number in range(nodes or 1)]
        listed = (Peer(pod, (pod + host.removeprefix(peer.name), port)) for pod in pods)
        self._listing = Listing(tuple(dict.fromkeys((*listed, peer))), pods[0])

    async def list_nodes(self) -> Listing:
        """The seed, and this node."""
        return self._listing


class Pods(Plain):
    """The pods with a label, as the API server lists them.

    Args:
        http: to the API server, with the token of the pod's service account.
        namespace: of the pods.
        label: a selector, e.g. "app=splitbrain".
        port: of all nodes.
    """

    name = "k8s-api"

    def __init__(self, http: Http, namespace: str, label: str, port: int) -> None:
        self._http = http
        self._namespace = namespace
        self._label = label
        self._port = port

    async def list_nodes(self) -> Listing:
        """All pods that have an address and do not end, ready or not: none is ready before it has a cluster."""
        found: list[Peer] = []
        more, what = "", "the list of pods"
        for _ in range(_PAGES_MAX):
            target = (
                f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods"
                f"?labelSelector={quote(self._label, safe='')}&limit={_PAGE}"
            )
            if more:
                target += f"&continue={quote(more, safe='')}"
            answer = (await self._http.ask("GET", target)).json(what)
            for pod in a_list(field(answer, "items", list, what), what):
                peer = self._peer(pod, what)
                if peer is not None:
                    found.append(peer)
            more = _continues(answer)
            if not more:
                return Listing(tuple(found))
        raise DiscoveryError(f"the list of pods has more than {_PAGES_MAX} pages")

    def _peer(self, pod: Any, what: str) -> Peer | None:
        metadata = field(pod, "metadata", dict, what)
        status = field(pod, "status", dict, what)
        host = status.get("podIP")
        over = metadata.get("deletionTimestamp") or status.get("phase") in ("Succeeded", "Failed")
        if over or not isinstance(host, str) or not host:
            return None
        return Peer(field(metadata, "name", str, what), an_address(host, self._port, what))


def _continues(answer: Any) -> str:
    """What the next page is asked for with; nothing behind the last one."""
    metadata: Any = answer.get("metadata") or {}
    more = cast(dict[str, Any], metadata).get("continue") if isinstance(metadata, dict) else None
    return more if isinstance(more, str) else ""
