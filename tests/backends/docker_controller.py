"""A controller of its own, for tests that kill it: `docker_controller.py RUN_DIR FAULTS`.

It deploys nodes in containers, puts the faults of that name in force, prints a line of JSON about them and waits.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from splitbrain.harness.backends.docker import DockerDeployment
from splitbrain.harness.backends.shared import channel, links
from splitbrain.harness.contract.faults import ClockFault, DiskFault, FaultKind, LinkFault
from splitbrain.harness.contract.nodes import Link, NodeId
from tests.backends.docker_support import ContainerGossip, deployed
from tests.backends.support import start_all, until_silent

CUTS_EXPIRE_S: Final = 3
"""How long a cut lasts here when nobody refreshes it: the backend's own time is too long for a test."""

PACKET_FAULTS: Final[Mapping[Link, tuple[LinkFault, str]]] = {
    ("n1", "n2"): (LinkFault(loss=1.0), "lost"),
    ("n1", "n3"): (LinkFault(delay_ms=100, jitter_ms=20), "delayed"),
    ("n1", "n4"): (LinkFault(duplicate=1.0), "duplicated"),
    ("n2", "n1"): (LinkFault(reorder=0.5), "reordered"),
    ("n2", "n3"): (LinkFault(corrupt=1.0), "corrupted"),
    ("n2", "n4"): (LinkFault(rate_kbit=8), "queued"),
    ("n3", "n1"): (LinkFault(mtu=20), "oversized"),
    ("n3", "n2"): (LinkFault(held=True), "held"),
}
"""Every fault of packets, each on a link of its own, and what it is counted as."""
RESETS: Final[Mapping[Link, tuple[LinkFault, str]]] = {("n1", "n2"): (LinkFault(resets=50), "reset")}
"""That of connections."""

CPU_SHARE: Final = 0.05
HOUR_MS: Final = 3.6e6

NodeFault = Callable[[DockerDeployment, NodeId], Awaitable[Any]]
Fault = Callable[[DockerDeployment], Awaitable[Any]]


async def cut(deployment: DockerDeployment) -> None:
    """Held for longer than it lasts by itself: it is refreshed for as long as there is a controller."""
    link = ("n1", "n2")
    await deployment.cut(frozenset({link}))
    await until_silent(deployment, [link])
    await asyncio.sleep(CUTS_EXPIRE_S + 1)
    await until_silent(deployment, [link])


def packets(faults: Mapping[Link, tuple[LinkFault, str]]) -> Fault:
    """These faults on these links, once each of them has struck."""

    async def disturb(deployment: DockerDeployment) -> None:
        await deployment.disturb({link: fault for link, (fault, _) in faults.items()})
        async with asyncio.timeout(120):
            while True:
                counts = await deployment.disturbed()
                if all(counts[link].get(word) for link, (_, word) in faults.items()):
                    return
                await asyncio.sleep(0.1)

    return disturb


async def kill(deployment: DockerDeployment, node: NodeId) -> Any:
    return (await deployment.kill(node)).evidence


async def stop(deployment: DockerDeployment, node: NodeId) -> Any:
    return (await deployment.stop(node)).evidence


async def pause(deployment: DockerDeployment, node: NodeId) -> Any:
    return (await deployment.pause(node)).evidence


async def throttle(deployment: DockerDeployment, node: NodeId) -> Any:
    await deployment.throttle(node, CPU_SHARE)
    return (await deployment.status(node)).evidence


async def lose_power(deployment: DockerDeployment, node: NodeId) -> Any:
    return (await deployment.power_off(node)).evidence


def disk(fault: DiskFault) -> NodeFault:
    async def spoil(deployment: DockerDeployment, node: NodeId) -> Any:
        if fault.rot or fault.truncate or fault.wipe:
            await deployment.kill(node)
        return await deployment.spoil(node, fault)

    return spoil


def clock(fault: ClockFault) -> NodeFault:
    return lambda deployment, node: deployment.skew(node, fault)


LINK_FAULTS: Final[Mapping[str, Fault]] = {
    "cut": cut,
    "packets": packets(PACKET_FAULTS),
    "resets": packets(RESETS),
}
NODE_FAULTS: Final[Mapping[str, Mapping[FaultKind, NodeFault]]] = {
    "processes": {"kill": kill, "cpu": throttle, "pause": pause, "stop": stop},
    "disks": {
        "disk-full": disk(DiskFault(full=True)),
        "disk-sync": disk(DiskFault(sync_fails=True)),
        "disk-read-only": disk(DiskFault(read_only=True)),
        "disk-fails": disk(DiskFault(fails=True)),
        "disk-slow": disk(DiskFault(slow_ms=HOUR_MS)),
        "disk-rot": disk(DiskFault(rot=1)),
        "disk-truncate": disk(DiskFault(truncate=1)),
        "membership": disk(DiskFault(wipe=True)),
        "power": lose_power,
    },
    "clocks": {
        "clock-jump": clock(ClockFault(offset_ms=HOUR_MS)),
        "clock-drift": clock(ClockFault(drift_ppm=100_000)),
        "clock-strobe": clock(ClockFault(offset_ms=HOUR_MS, strobe_ms=20)),
    },
}
"""Faults that are in force at the same time, each at a node of its own, in the nodes' order."""


def let_cuts_expire_soon() -> None:
    """Shorten the time after which a cut heals by itself, and those after which it is refreshed."""
    shorter = (
        f"import agent.receivers as r; r.CUT_EXPIRES_S = {CUTS_EXPIRE_S}; r.REFRESH_AFTER_S = 0.5; from agent.main"
    )
    run_agent: str = vars(channel)["_RUN_AGENT"]
    assert "from agent.main" in run_agent
    setattr(channel, "_RUN_AGENT", run_agent.replace("from agent.main", shorter))  # noqa: B010 - private to its module
    links.ALIVE_EVERY_S = 0.5


async def hold(run_dir: Path, name: str) -> None:
    if name == "cut":
        let_cuts_expire_soon()
    faults = NODE_FAULTS.get(name, {})
    count = len(faults) or (4 if name == "packets" else 2)
    nodes = [f"n{number + 1}" for number in range(count)]
    async with deployed(run_dir, ContainerGossip("tcp" if name == "resets" else "udp"), nodes, [*faults]) as deployment:
        await start_all(deployment)
        pid = (await deployment.status("n2")).evidence["pid"]
        listen = {node: place.listen for node, place in deployment.places.items()}
        found: dict[str, Any] = {}
        for node, (kind, begin) in zip(nodes, faults.items(), strict=False):
            found[kind] = {"node": node, **await begin(deployment, node)}
        if name in LINK_FAULTS:
            await LINK_FAULTS[name](deployment)
        print(json.dumps({"run": deployment.run, "pid of n2": pid, "listen": listen, "found": found}), flush=True)
        await asyncio.sleep(120)


if __name__ == "__main__":
    asyncio.run(hold(Path(sys.argv[1]), sys.argv[2]))
