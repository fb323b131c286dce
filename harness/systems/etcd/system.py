"""etcd as a system under test: how to start a node, how to talk to it, how to find the leader."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path  # noqa: TID251 - says where files of a node are; touches none
from socket import socket  # noqa: TID251 - for the type of a dialled connection
from typing import Final

from splitbrain.harness.contract.capabilities import Capabilities
from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.elections import Elections
from splitbrain.harness.contract.faultkinds import CLOCK_KINDS
from splitbrain.harness.contract.nodes import Address, NodeCommand, NodeId, NodePlace, NodeView
from splitbrain.harness.contract.read_modes import (
    LINEARIZABLE,
    READ,
    READ_LOCAL,
    SERIALIZABLE,
    ReadMode,
    ReadPromise,
    answered_alone,
)
from splitbrain.harness.contract.realtime import RealClock
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.contract.settings import Setting
from splitbrain.harness.contract.test import REQUEST_TIMEOUT_MS, Test
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.membership import EtcdMembership
from splitbrain.harness.systems.etcd.messages import MembersAnswer, Nothing, StatusAnswer
from splitbrain.harness.systems.etcd.observer import EtcdObserver
from splitbrain.harness.systems.etcd.session import EtcdSession
from splitbrain.harness.systems.etcd.transfer import EtcdTransfer
from splitbrain.harness.systems.sockets import tcp
from splitbrain.results.errors import BackendError

VIEW_TIMEOUT_S: Final = 0.5
HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 1000
"""etcd's defaults. Nodes wait for a random time from this to twice this before they stand for election."""

RECOVERY_S: Final = 4 * (2 * ELECTION_MS / 1000)
"""A leader without contact may stay leader for two seconds, the others become candidates within two more, and votes may
split. Measured on a busy machine, from when links were cut until every node of a core had answered: 1.7 s at worst, of
15 cuts of five shapes."""

RECOVERY_PER_OUTAGE: Final = 1.0
"""Nodes go on with the connections that they had before a cut (etcd issues 18052 and 19143), and these are silent until
TCP retransmits, which it does after 0.2, 0.6, 1.4, ... 12.6, 25.4, 51.0 s: an outage may double. Measured until all
nodes had answered, from when links were open again: 4.8 to 6.4 s after each of 15 cuts of 8 s, 14 s after one of 40 s,
28 s after one of 27 s."""

OUTAGE_LIMIT_S: Final = 120.0
"""TCP waits no longer than that between two retransmissions (Linux's TCP_RTO_MAX)."""

READS: Final = {
    READ: ReadPromise(
        line="the node answers, once it has applied what a majority had committed (linearizable)",
        linearizable="always",
        follows=("write", READ, READ_LOCAL),
        needs_quorum=True,
    ),
    READ_LOCAL: ReadPromise(
        line="the node of the client answers, from what it has applied (serializable)",
        follows=("write", READ),
    ),
}
"""The node of the client answers writes and linearizable reads, once it has applied them: its serializable reads follow
both. That holds across a restart, too: a node serves no client before it has applied an entry of its own (`publish` in
`etcdserver/server.go`)."""

NO_FAKETIME: Final = "a Go program asks the kernel for the time itself, so that libfaketime does not reach it"


class Etcd:
    """etcd 3.4 or later, over its JSON gateway. A node serves its peers on the port behind its clients'.

    Args:
        read_mode: "linearizable", or "serializable": reads are answered by the node alone. etcd promises no
            linearizable answer then, and workloads still demand one.
        request_timeout_ms: how long a node may try to carry out a request (etcd's default is 7 s); None for as long as
            each test says (`Test.request_timeout_ms`).
        clock: by which clients keep their leases alive; the machine's unless given.
    """

    name = "etcd"
    bugs: Mapping[str, str] = {}
    election_timeout_s = 2 * ELECTION_MS / 1000

    def __init__(
        self,
        read_mode: ReadMode = LINEARIZABLE,
        request_timeout_ms: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._serializable = read_mode == SERIALIZABLE
        self._given_timeout_ms = request_timeout_ms
        self._request_timeout_ms = request_timeout_ms or REQUEST_TIMEOUT_MS
        self._clock = clock or RealClock()
        self._members = EtcdMembership(self._gateway)
        elections = Elections(
            timeout_s=self.election_timeout_s,
            recovery_s=RECOVERY_S,
            recovery_per_outage=RECOVERY_PER_OUTAGE,
            outage_limit_s=OUTAGE_LIMIT_S,
            local=answered_alone(READS) | frozenset((READ,) if self._serializable else ()),
        )
        self.capabilities = Capabilities(
            operations=frozenset(
                {"key-value", "read-modes", "collections", "locks", "lease-locks", "transactions", "predicates"}
            ),
            read_modes=(LINEARIZABLE, SERIALIZABLE),
            session_reads=READS,
            elections=elections,
            membership=self._members,
            transfer=EtcdTransfer(self._gateway, lambda answer: self._members.named(answer.members)),
            image="etcd",
            programs={"etcd": "etcd-server"},
            one_address=True,
            immune=dict.fromkeys(CLOCK_KINDS, NO_FAKETIME),
            settings={"snapshot-count": Setting(line="committed entries between two snapshots", default=100_000)},
            observation=self,
        )

    def command(self, test: Test, place: NodePlace) -> NodeCommand:
        """How to start the node that lives at `place`.

        Raises:
            BackendError: there is no etcd there, or peers cannot use the same address for a node.
            NodeStartError: the node left the cluster.
        """
        self._request_timeout_ms = self._given_timeout_ms or test.request_timeout_ms
        if place.home == "here" and shutil.which("etcd") is None:
            raise BackendError(
                "there is no 'etcd' on this machine (Debian and Ubuntu: apt install etcd-server). Install it, or use "
                "--backend docker, whose image brings its own."
            )
        if place.peers and ip_address(place.listen[0]).is_loopback:
            raise BackendError(
                f"all peers must know an etcd node by the same address, but {place.node} reaches its peers through "
                "proxies on loopback. Use network namespaces (splitbrain doctor shows what is missing here), or "
                "--backend docker."
            )
        peers = {node: _peer_url(address) for node, address in {place.node: place.listen, **place.peers}.items()}
        state, cluster = self._members.initial_cluster(place.node, peers)
        clients, own = _url(place.listen), _peer_url(place.listen)
        options = {
            "name": place.node,
            "data-dir": f"{place.data_dir}/etcd",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": own,
            "initial-advertise-peer-urls": own,
            "initial-cluster": cluster,
            "initial-cluster-token": f"splitbrain-{test.seed}",
            "initial-cluster-state": state,  # a node with data continues with them
            "heartbeat-interval": str(HEARTBEAT_MS),
            "election-timeout": str(ELECTION_MS),
            "logger": "zap",
            "log-outputs": "stderr",
            **{setting: str(value) for setting, value in test.settings.items()},
        }
        return NodeCommand(("etcd", *(word for name, value in options.items() for word in (f"--{name}", value))))

    async def connect(self, deployment: Deployment, node: NodeId) -> EtcdSession:
        """A session with one node.

        Raises:
            DefiniteError: the node could not be reached.
        """

        async def another() -> Gateway:
            return await self._gateway(deployment, node)

        return EtcdSession(
            await another(),
            another=another,
            clock=self._clock,
            timeout_ms=self._request_timeout_ms,
            serializable=self._serializable,
        )

    async def view(self, deployment: Deployment, node: NodeId) -> NodeView | None:
        """What the node says of itself, None if it takes more than half a second, or knows no members yet."""
        gateway: Gateway | None = None
        try:
            async with asyncio.timeout(VIEW_TIMEOUT_S):
                gateway = await self._gateway(deployment, node)
                status = await gateway.call("maintenance/status", Nothing(), StatusAnswer)
                members = await gateway.call("cluster/member/list", Nothing(), MembersAnswer)
        except (DefiniteError, IndefiniteError, TimeoutError):
            return None
        finally:
            if gateway is not None:
                await gateway.close()
        names = {member.member: member.name for member in members.members}
        return NodeView(
            node,
            role="leader" if status.leader == status.header.member_id else "follower",
            term=status.term,
            leader=names.get(status.leader) or None,
            commit_index=status.commit_index,
            applied_index=status.applied_index,
        )

    def telemetry(self, test: Test, node_dir: Path) -> Path | None:
        """Its nodes write none: they are asked (`Capabilities.observation`)."""
        return None

    async def observe(self, deployment: Deployment, node: NodeId) -> EtcdObserver:
        """A connection to a process of the node, for looking at it only.

        Raises:
            DefiniteError: the node could not be reached.
        """
        dialled: list[socket] = []

        async def once() -> socket:
            if dialled:
                raise DefiniteError(f"{node} closed the connection")
            dialled.append(tcp(await deployment.dial(node), node, "etcd"))
            return dialled[0]

        return EtcdObserver(await Gateway.open(once, self._request_timeout_ms), self._members.named)

    async def _gateway(self, deployment: Deployment, node: NodeId) -> Gateway:
        async def dial() -> socket:
            return tcp(await deployment.dial(node), node, "etcd")

        return await Gateway.open(dial, self._request_timeout_ms)


def _url(address: Address) -> str:
    host, port = address
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _peer_url(address: Address) -> str:
    """Where a node that serves clients at `address` serves its peers."""
    host, port = address
    return _url((host, port + 1))
