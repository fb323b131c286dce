"""The arguments of a node's command line that begin with --discovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from splitbrain.cluster.discovery.formation import RETRIES, RETRY_MS
from splitbrain.cluster.errors import ArgumentError
from splitbrain.cluster.runtime import Address

BACKENDS: Final = ("classic", "dns", "k8s", "k8s-api", "consul", "etcd")
MAX_NODES: Final = 1000

USAGE: Final = f"""
 peer discovery: a node without data finds the others by itself, and founds or joins a cluster (docs/discovery.md)
  --discovery     {" | ".join(BACKENDS)}
  --discovery-nodes
                  how many nodes the cluster begins with, the same on all (default with classic: this one and all
                  peers; needed with dns, k8s-api, consul and etcd): a majority of them must agree on its founder
  --discovery-address
                  HOST:PORT at which the others reach this node (default: that of --listen)
  --discovery-list
                  classic: names of the nodes that find each other (default: this one and all peers)
  --discovery-retries, --discovery-retry-ms
                  attempts after the first (default {RETRIES}), and the time between two (default {RETRY_MS})
  --discovery-endpoint
                  URL of etcd, Consul or the API server of Kubernetes; of etcd several, with commas
  --discovery-cluster
                  name of the cluster in etcd and Consul, which several may share (default "default")
  --discovery-hostname, --discovery-nameserver
                  dns: the name that has the addresses of all nodes; HOST[:PORT] of the name server (default: those of
                  this machine)
  --discovery-label, --discovery-namespace
                  k8s-api: selector of the pods; their namespace (default: that of this pod)
  --discovery-ordinal
                  k8s: the first ordinal of the StatefulSet (default 0)
  --discovery-service, --discovery-prefix, --discovery-ttl-s
                  consul: name of the service; etcd: of all keys; after so long without a word a node is not listed
  --discovery-token-file, --discovery-ca-file
                  consul, k8s-api: a file with the token; consul, etcd, k8s-api: one with certificates to trust
"""

_OPTIONS: Final = tuple(
    f"--discovery{rest}"
    for rest in (
        *("", "-nodes", "-address", "-retries", "-retry-ms", "-endpoint", "-cluster", "-hostname", "-nameserver"),
        *("-list", "-label", "-namespace", "-ordinal", "-service", "-prefix", "-ttl-s", "-token-file", "-ca-file"),
    )
)

_OF: Final = {
    "-list": ("classic",),
    "-endpoint": ("k8s-api", "consul", "etcd"),
    "-cluster": ("consul", "etcd"),
    "-hostname": ("dns",),
    "-nameserver": ("dns",),
    "-label": ("k8s-api",),
    "-namespace": ("k8s-api",),
    "-ordinal": ("k8s",),
    "-service": ("consul",),
    "-prefix": ("etcd",),
    "-ttl-s": ("consul", "etcd"),
    "-token-file": ("consul", "k8s-api"),
    "-ca-file": ("consul", "etcd", "k8s-api"),
}
"""Which backends an option is for; the others are for all."""


@dataclass(frozen=True)
class Options:
    """What the command line says of peer discovery.

    Attributes:
        backend: one of `BACKENDS`.
        given: the values of options, by the part of their names behind "--discovery".
    """

    backend: str
    given: dict[str, str]

    def text(self, option: str, default: str | None = None) -> str:
        """The value of an option.

        Raises:
            ArgumentError: it is not given, and has no default.
        """
        found = self.given.get(option, default)
        if found is None:
            raise ArgumentError(f"--discovery {self.backend} needs --discovery{option}.")
        return found

    def number(self, option: str, default: int, least: int, most: int) -> int:
        """The same as a whole number within limits.

        Raises:
            ArgumentError: it is none.
        """
        text = self.given.get(option, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
            raise ArgumentError(f"--discovery{option} takes a whole number from {least} to {most}, not {text!r}.")
        return int(text)

    def address(self, option: str, default: Address, default_port: int | None = None) -> Address:
        """The same as an address.

        Raises:
            ArgumentError: it is none.
        """
        text = self.given.get(option)
        if text is None:
            return default
        host, colon, port = text.rpartition(":")
        if default_port is not None and (not colon or text.endswith("]")):
            host, port = text, str(default_port)
        if not host or not (port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536):
            raise ArgumentError(f"--discovery{option} takes HOST:PORT, not {text!r}.")
        return host.strip("[]"), int(port)

    def listed(self, known: Sequence[str]) -> list[str]:
        """The names on the list of the classic backend, of those that are known.

        Raises:
            ArgumentError: there is no such name, or one is named twice, or the first of those known is missing.
        """
        if "-list" not in self.given:
            return list(known)
        found = self.given["-list"].split(",")
        unknown = sorted(set(found) - set(known))
        if unknown or len(set(found)) != len(found) or known[0] not in found:
            raise ArgumentError(
                f"--discovery-list names this node and nodes of --peer, each once, unlike {self.given['-list']!r}."
            )
        return found

    @property
    def nodes(self) -> int | None:
        """How many nodes the cluster is to have; None where that follows from the backend."""
        if "-nodes" in self.given or self.backend not in ("classic", "k8s"):
            self.text("-nodes")
            return self.number("-nodes", 0, 1, MAX_NODES)
        return None


def taken_out(arguments: Sequence[str]) -> tuple[list[str], Options | None]:
    """The arguments without those of peer discovery, and what these say; None without --discovery.

    Raises:
        ArgumentError: they are wrong; the message names the argument.
    """
    others: list[str] = []
    given: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if not option.startswith("--discovery"):
            others.append(argument)
            continue
        if option not in _OPTIONS:
            raise ArgumentError(f"there is no argument {argument!r}.")
        value = value if equals else next(rest, "")
        if not value:
            raise ArgumentError(f"{option} needs a value.")
        if option.removeprefix("--discovery") in given:
            raise ArgumentError(f"{option} is given twice.")
        given[option.removeprefix("--discovery")] = value
    if not given:
        return others, None
    return others, _options(given)


def _options(given: dict[str, str]) -> Options:
    backend = given.pop("", None)
    if backend is None:
        raise ArgumentError(f"--discovery{next(iter(given))} needs --discovery BACKEND.")
    if backend not in BACKENDS:
        raise ArgumentError(f"--discovery takes {', '.join(BACKENDS)}, not {backend!r}.")
    for option in given:
        if backend not in _OF.get(option, BACKENDS):
            raise ArgumentError(f"--discovery{option} is for {', '.join(_OF[option])}, not for {backend}.")
    return Options(backend, given)
