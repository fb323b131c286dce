"""Backends of peer discovery on the operating system, made of what a node's command line says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from splitbrain.cluster.discovery.arguments import Options
from splitbrain.cluster.discovery.backend import Backend
from splitbrain.cluster.discovery.classic import Classic
from splitbrain.cluster.discovery.consul import SERVICE, Consul
from splitbrain.cluster.discovery.consul import TTL_S as CONSUL_TTL_S
from splitbrain.cluster.discovery.dns import Dns
from splitbrain.cluster.discovery.etcd import PREFIX, Etcd
from splitbrain.cluster.discovery.etcd import TTL_S as ETCD_TTL_S
from splitbrain.cluster.discovery.formation import RETRIES, RETRY_MS, Settings
from splitbrain.cluster.discovery.forming import Forming
from splitbrain.cluster.discovery.http import Endpoint, Endpoints
from splitbrain.cluster.discovery.kubernetes import Pods, Seed
from splitbrain.cluster.discovery.nameservers import PORT, NameServers, of_this_machine
from splitbrain.cluster.discovery.seen import Peer
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.nodeconfig import NodeConfig
from splitbrain.cluster.runtime import Runtime

_TTL_S: Final = (10, 86400)
_RETRIES_MAX: Final = 1_000_000
_RETRY_MS: Final = (100, 600_000)

CONSUL: Final = "http://127.0.0.1:8500"
ETCD: Final = "http://127.0.0.1:2379"
KUBERNETES: Final = "https://kubernetes.default.svc.cluster.local:443"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its account, its namespace, and the certificate of the API server."""


def forming(config: NodeConfig, options: Options, runtime: Runtime) -> Forming:
    """A node that finds its cluster by itself.

    Raises:
        ArgumentError: an option is missing or wrong; the message names it.
    """
    address = options.address("-address", config.listen)
    if address[0] in ("0.0.0.0", "::"):
        raise ArgumentError(
            f"--listen {address[0]}:{address[1]} is every address of this machine: say with --discovery-address "
            f"HOST:PORT at which one the other nodes reach it."
        )
    settings = Settings(
        config.node,
        options.nodes or len(options.listed([config.node, *config.peers])),
        retries=options.number("-retries", RETRIES, 0, _RETRIES_MAX),
        retry_ms=options.number("-retry-ms", RETRY_MS, *_RETRY_MS),
        bugs=config.bugs,
    )
    peer = Peer(config.node, address)
    return Forming(config, settings, runtime, _MAKERS[options.backend](options, config, peer, runtime), address)


def _classic(options: Options, config: NodeConfig, peer: Peer, runtime: Runtime) -> Backend:
    known = {peer.name: peer.address, **config.peers}
    return Classic(runtime, peer.name, tuple(Peer(name, known[name]) for name in options.listed(list(known))))


def _dns(options: Options, _: NodeConfig, peer: Peer, runtime: Runtime) -> Backend:
    servers = of_this_machine()
    if "-nameserver" in options.given:
        servers = (options.address("-nameserver", ("", 0), PORT),)
    if not servers:
        raise ArgumentError("this machine names no name server: say --discovery-nameserver HOST.")
    return Dns(NameServers(servers, runtime.rng), options.text("-hostname"), peer.address[1])


def _seed(options: Options, _: NodeConfig, peer: Peer, *__: Runtime) -> Backend:
    return Seed(peer, options.number("-ordinal", 0, 0, 10**6), options.nodes)


def _pods(options: Options, _: NodeConfig, peer: Peer, *__: Runtime) -> Backend:
    token = _token(options.text("-token-file", str(ACCOUNT / "token")))
    namespace = options.given.get("-namespace") or _read(str(ACCOUNT / "namespace"), "-namespace")
    authority = ACCOUNT / "ca.crt"
    ca_file = options.given.get("-ca-file") or (str(authority) if authority.exists() else None)
    server = Endpoint(options.text("-endpoint", KUBERNETES), {"Authorization": f"Bearer {token}"}, ca_file)
    return Pods(server, namespace, options.text("-label"), peer.address[1])


def _consul(options: Options, _: NodeConfig, peer: Peer, runtime: Runtime) -> Backend:
    token = options.given.get("-token-file")
    headers = {} if token is None else {"X-Consul-Token": _token(token)}
    agent = Endpoint(options.text("-endpoint", CONSUL), headers, options.given.get("-ca-file"))
    cluster, service = options.text("-cluster", "default"), options.text("-service", SERVICE)
    return Consul(agent, runtime.clock, peer, cluster, service, options.number("-ttl-s", CONSUL_TTL_S, *_TTL_S))


def _etcd(options: Options, _: NodeConfig, peer: Peer, *__: Runtime) -> Backend:
    urls = options.text("-endpoint", ETCD).split(",")
    servers = Endpoints(tuple(Endpoint(url, ca_file=options.given.get("-ca-file")) for url in urls))
    cluster, prefix = options.text("-cluster", "default"), options.text("-prefix", PREFIX)
    return Etcd(servers, peer, cluster, prefix, options.number("-ttl-s", ETCD_TTL_S, *_TTL_S))


def _token(path: str) -> str:
    """A token in a file. No message shows it."""
    found = _read(path, "-token-file")
    if not found or not all("!" <= each <= "~" for each in found):
        raise ArgumentError(
            f"--discovery-token-file: {path} holds no token: that is one line of printable ASCII without spaces."
        )
    return found


def _read(path: str, option: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"--discovery{option}: {path} cannot be read: {error}.") from error


_MAKERS: Final[dict[str, Callable[[Options, NodeConfig, Peer, Runtime], Backend]]] = {
    "classic": _classic,
    "dns": _dns,
    "k8s": _seed,
    "k8s-api": _pods,
    "consul": _consul,
    "etcd": _etcd,
}
