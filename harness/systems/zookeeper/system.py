"""ZooKeeper as a system under test: how to start a node, how to talk to it, how to find the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path  # noqa: TID251 - says where files of a node are
from typing import Final

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.nodes import NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.read_modes import (
    LINEARIZABLE,
    READ,
    READ_LOCAL,
    SERIALIZABLE,
    ReadMode,
    ReadPromise,
    answered_alone,
)
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.contract.test import Test
from splitbrain.harness.systems.sockets import tcp
from splitbrain.harness.systems.zookeeper import settings, status
from splitbrain.harness.systems.zookeeper.connection import Connection
from splitbrain.harness.systems.zookeeper.session import ZookeeperSession
from splitbrain.harness.systems.zookeeper.settings import BARRIER, BARRIERS, SETTINGS, SYNC_LIMIT, TICK
from splitbrain.results.errors import BackendError

VIEW_TIMEOUT_S: Final = 0.5

RECOVERY_S: Final = 15.0
"""After the sync limit a node looks for a leader. It waits up to five seconds for a connection to a peer
(`zookeeper.cnxTimeout`), and a JVM that was stopped takes seconds to start."""

RECOVERY_PER_OUTAGE: Final = 1.0
"""A node that finds no leader asks again after pauses that double, up to a minute (`FastLeaderElection`). Connections
outlive a cut, and TCP retransmits after times that double as well. So an outage may double. Measured of a node that
had heard nothing for 29 s: it had joined 26 s after links were open again."""

READS: Final = {
    READ: ReadPromise(
        line="the node of the client, once it has applied what a majority had committed (a barrier)",
        linearizable="always",
        follows=("write", READ, READ_LOCAL),
        needs_quorum=True,
    ),
    READ_LOCAL: ReadPromise(
        line="the node of the client, from what it has applied",
        follows=("write", READ, READ_LOCAL),
    ),
}
"""ZooKeeper's guarantees of one session (the Programmer's Guide, "Consistency Guarantees"): its requests take effect in
their order, and it never sees an older state than before. A session of a test is one connection."""


class Zookeeper:
    """ZooKeeper 3.5 or later.

    Args:
        read_mode: "linearizable" for reads that are synced; "serializable" for plain reads, which nodes answer alone.
    """

    name = "zookeeper"
    bugs: Mapping[str, str] = {}
    election_timeout_s = SETTINGS[TICK].default * SETTINGS[SYNC_LIMIT].default / 1000 + 1

    def __init__(self, read_mode: ReadMode = LINEARIZABLE) -> None:
        self._synced = read_mode != SERIALIZABLE
        self._by_sync = False
        alone = answered_alone(READS) | frozenset(() if self._synced else (READ,))
        elections = Elections(
            timeout_s=self.election_timeout_s,
            recovery_s=RECOVERY_S,
            recovery_per_outage=RECOVERY_PER_OUTAGE,
            # `sync` is answered by a leader that has not noticed yet that its followers are gone.
            lease_s=self.election_timeout_s,
            lease_setting=BARRIER,
            local=alone,
            scaled_by={name: SETTINGS[name].default for name in (TICK, SYNC_LIMIT)},
        )
        self.capabilities = Capabilities(
            operations=frozenset({"key-value", "read-modes", "collections", "locks"}),
            read_modes=(LINEARIZABLE, SERIALIZABLE),
            session_reads=READS,
            elections=elections,
            image="zookeeper",
            programs={
                "java": "default-jre-headless",
                settings.JAR: "libzookeeper-java",
                settings.LOGGER: "libslf4j-java",
            },
            one_address=True,
            start_s=60.0,
            settings=SETTINGS,
            observation=self,
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            BackendError: peers cannot use the same address for a node.
        """
        if place.peers and ip_address(place.listen[0]).is_loopback:
            raise BackendError(
                f"all peers must know a node of ZooKeeper by the same address, but {place.node} reaches its peers "
                "through proxies on loopback. Use network namespaces (splitbrain doctor shows what is missing here), "
                "or --backend docker."
            )
        chosen = {name: test.settings.get(name, setting.default) for name, setting in SETTINGS.items()}
        self._by_sync = BARRIERS[chosen[BARRIER]] == "sync"
        addresses = {place.node: place.listen, **place.peers}
        members = [addresses[node] for node in test.nodes] if place.peers else []
        files = {
            settings.CONFIGURATION: settings.configuration(place.listen, members, place.data_dir, chosen),
            settings.ID: settings.id_of(place.node, test.nodes),
        }
        return NodeCommand(settings.command(place.data_dir, chosen), files=files)

    async def connect(self, deployment: Deployment, node: NodeId) -> ZookeeperSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached, or grants no session.
        """
        return ZookeeperSession(await Connection.open(deployment, node), synced=self._synced, by_sync=self._by_sync)

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it takes more than half a second, or does not serve."""
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                return await status.view(deployment, node)
        except (DefiniteError, TimeoutError):
            return None

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Its nodes write none: they are asked (`Capabilities.observation`)."""
        return None

    async def observe(self, deployment: Deployment, node: NodeId) -> status.ZookeeperObserver:
        """Looks at one process of the node, as long as a connection to it lasts.

        Raises:
            DefiniteError: the node could not be reached.
        """
        held = tcp(await deployment.dial(node), node, "ZooKeeper")
        return status.ZookeeperObserver(deployment, node, held)
