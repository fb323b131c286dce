"""How a node is started: its files, its command, and the numbers that a test may choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from splitbrain.harness.contract.nodes import Address, NodeId
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.systems.zookeeper.connection import SESSION_MS

TICK: Final = "tick-time"
SYNC_LIMIT: Final = "sync-limit"
SNAPSHOTS: Final = "snap-count"
BARRIER: Final = "barrier"

BARRIERS: Final = ("write", "sync")

SETTINGS: Final = {
    TICK: Setting(line="a tick, in ms (ZooKeeper's usual one: 2000)", default=500, least=50, most=60_000),
    SYNC_LIMIT: Setting(line="ticks for which a leader and a follower may hear nothing of each other", default=4),
    BARRIER: Setting.of_words(
        "what stands in front of a synced read: a refused write, which needs a majority, or sync",
        BARRIERS,
    ),
    SNAPSHOTS: Setting(line="committed changes between two snapshots", default=100_000, least=2),
}

FORM_MS: Final = 10_000
"""How long nodes may take to follow a leader who was just elected."""

JAR: Final = "/usr/share/java/zookeeper.jar"
LOGGER: Final = "/usr/share/java/slf4j-simple.jar"
CONFIGURATION: Final = "zoo.cfg"
ID: Final = "myid"

QUORUM_PORT, ELECTION_PORT = 1, 2
"""How far behind the clients' port nodes serve each other."""


def configuration(address: Address, members: Sequence[Address], data: str, chosen: Mapping[str, int]) -> bytes:
    """The contents of zoo.cfg.

    Args:
        address: where the node serves clients.
        members: the same of all nodes, in the order of the test.
        data: the node's directory.
        chosen: the settings of the test.
    """
    host, port = address
    tick_ms = chosen[TICK]
    values: dict[str, str | int] = {
        "tickTime": tick_ms,
        "initLimit": max(1, FORM_MS // tick_ms),
        "syncLimit": chosen[SYNC_LIMIT],
        "dataDir": data,
        "clientPort": port,
        "clientPortAddress": host,
        "maxClientCnxns": 0,
        "maxSessionTimeout": SESSION_MS,
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
    }
    for number, (peer, clients) in enumerate(members, 1):
        values[f"server.{number}"] = f"{peer}:{clients + QUORUM_PORT}:{clients + ELECTION_PORT}"
    return "".join(f"{name}={value}\n" for name, value in values.items()).encode()


def id_of(node: NodeId, nodes: Sequence[NodeId]) -> bytes:
    """The contents of myid."""
    return f"{nodes.index(node) + 1}\n".encode()


def command(data: str, chosen: Mapping[str, int]) -> tuple[str, ...]:
    """How a node is started. The JVM is kept small, and starts fast."""
    properties = {
        "zookeeper.preAllocSize": 1024,
        "zookeeper.snapCount": chosen[SNAPSHOTS],
        "org.slf4j.simpleLogger.showDateTime": "true",
        "org.slf4j.simpleLogger.dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
    }
    return (
        "java",
        "-Xmx192m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"-D{name}={value}" for name, value in properties.items()),
        "-cp",
        f"{JAR}:{LOGGER}",
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        f"{data}/{CONFIGURATION}",
    )
