"""A separate subnet for every run: a free one, or the next one if another run was faster."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

import docker
import docker.errors
import msgspec
from docker.types import IPAMConfig, IPAMPool

from splitbrain.results.errors import BackendError

RANGE = ipaddress.IPv4Network("10.204.0.0/14")
PREFIX = 24
FIRST_HOST = 10
MOST_NODES = 200
MOST_TRIES = 64
_ROUTES = Path("/proc/net/route")


class _Pool(msgspec.Struct, rename={"subnet": "Subnet"}):
    subnet: str


class _Ipam(msgspec.Struct, rename={"config": "Config"}):
    config: list[_Pool] | None = None


class _Network(msgspec.Struct, rename={"ipam": "IPAM"}):
    ipam: _Ipam


def address_in(subnet: ipaddress.IPv4Network, number: int) -> str:
    """The address of the node of that number, from 0; the first few belong to the engine and its bridge."""
    return str(subnet[FIRST_HOST + number])


def create_network(
    api: docker.APIClient, name: str, labels: Mapping[str, str], routes: Callable[[], str] = _ROUTES.read_text
) -> ipaddress.IPv4Network:
    """Make a bridge network with a free subnet; the subnet.

    The network is internal: its nodes reach each other and this machine reaches them, nothing leads elsewhere, so that
    runs do not meet.

    Raises:
        BackendError: no free subnet was found.
        docker.errors.APIError: the engine refused for another reason.
    """
    taken = [*_subnets_of(cast(object, api.networks())), *routed(routes())]
    refused = ""
    tried = 0
    for subnet in free_subnets(taken, start=os.getpid()):
        tried += 1
        if tried > MOST_TRIES:
            break
        try:
            api.create_network(
                name,
                driver="bridge",
                internal=True,
                labels=dict(labels),
                ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))]),
            )
        except docker.errors.APIError as error:
            if "overlap" not in str(error).lower():
                raise
            refused = f" (the last one, {subnet}, overlaps with another network)"
            continue
        return subnet
    raise BackendError(
        f"there is no free /{PREFIX} in {RANGE} for the nodes{refused}: `docker network ls` lists the networks in use."
    )


def free_subnets(taken: Iterable[ipaddress.IPv4Network], *, start: int) -> Iterator[ipaddress.IPv4Network]:
    """Subnets that overlap with none that is taken; two controllers begin to look at different places."""
    busy = list(taken)
    subnets = list(RANGE.subnets(new_prefix=PREFIX))
    for number in range(len(subnets)):
        subnet = subnets[(start + number) % len(subnets)]
        if not any(subnet.overlaps(other) for other in busy):
            yield subnet


def routed(table: str) -> list[ipaddress.IPv4Network]:
    """The networks that this machine has routes to (the text of /proc/net/route), the default route left out."""
    found: list[ipaddress.IPv4Network] = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        destination, mask = (int.from_bytes(bytes.fromhex(field), "little") for field in (fields[1], fields[7]))
        if mask != 0:
            found.append(ipaddress.IPv4Network((destination, mask.bit_count())))
    return found


def _subnets_of(networks: object) -> Iterator[ipaddress.IPv4Network]:
    for network in msgspec.convert(networks, list[_Network]):
        for pool in network.ipam.config or []:
            subnet = ipaddress.ip_network(pool.subnet, strict=False)
            if isinstance(subnet, ipaddress.IPv4Network):
                yield subnet
