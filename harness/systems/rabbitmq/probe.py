"""Asks the probe of a node (`splitbrain_probe.erl`): a connection that stays open, a line for a line."""

from __future__ import annotations

import asyncio
import socket  # noqa: TID251 - for the type of a dialled connection; nothing here opens one
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId, NodeView
from splitbrain.harness.contract.observing import Observed
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.rabbitmq.settings import PROBE_BEHIND, node_of
from splitbrain.harness.systems.sockets import tcp

T = TypeVar("T")

READ_BYTES: Final = 1 << 16

KHEPRI: Final = "khepri"
"""The store whose group has a leader that matters; while Mnesia is in force the group may be there as well."""


class Status(msgspec.Struct, frozen=True):
    """What a node says of itself: as in the probe. Names are Erlang's."""

    node: str
    connected: tuple[str, ...]
    partitions: tuple[str, ...]
    store: str
    metadata_leader: str | None
    queues: Mapping[str, str | None]
    members: Mapping[str, tuple[str, ...]] = {}
    metadata_members: tuple[str, ...] = ()


class Probe:
    """A connection to the probe of one node, which ends with the node's process; made by `open`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, deployment: Deployment, node: NodeId) -> Probe:
        """Connect to the probe of a node.

        Raises:
            DefiniteError: it could not be reached.
        """
        try:
            return cls(tcp(await deployment.dial(node, PROBE_BEHIND), node, "RabbitMQ"))
        except DefiniteError as error:
            raise DefiniteError(f"the probe does not answer: {error}") from error

    async def status(self) -> Status:
        """What the node says now; as `request`."""
        return await self.request("status", Status)

    async def request(self, words: str, kind: type[T]) -> T:
        """The answer to one line; the caller sets the limit in time, and closes the probe if that is over.

        Raises:
            DefiniteError: the node does not say, or the process has ended.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self._connection, f"{words}\n".encode())
            line = bytearray()
            while not line.endswith(b"\n"):
                part = await loop.sock_recv(self._connection, READ_BYTES)
                if not part:
                    raise DefiniteError("the probe closed the connection")
                line += part
            return msgspec.json.decode(line, type=kind)
        except (OSError, msgspec.DecodeError) as error:
            raise DefiniteError(f"the probe does not answer: {error}") from error

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()


async def ask(deployment: Deployment, node: NodeId) -> Status:
    """What a node says now, asked once; the caller sets the limit in time.

    Raises:
        DefiniteError: it does not say.
    """
    probe = await Probe.open(deployment, node)
    try:
        return await probe.status()
    finally:
        probe.close()


class Asked:
    """Asks the probe of one node, on a connection that is made anew where a question was given up.

    Args:
        deployment: has the node.
        node: which node.
        once: make no other connection where the first one has ended.
    """

    def __init__(self, deployment: Deployment, node: NodeId, *, once: bool = False) -> None:
        self._deployment = deployment
        self._node = node
        self._once = once
        self._opened = False
        self._probe: Probe | None = None

    async def request(self, words: str, kind: type[T]) -> T:
        """The answer to one line.

        Raises:
            DefiniteError: the node does not say.
        """
        probe = await self._taken()
        try:
            found = await probe.request(words, kind)
        except BaseException:
            probe.close()
            raise
        self._probe = probe
        return found

    async def change(self, words: str) -> bool:
        """Have the node change something; whether it did, False if that depended on what was there.

        Raises:
            DefiniteError: the node was not reached, or refused before it did anything.
            IndefiniteError: it gave no answer, or another error.
        """
        probe = await self._taken()
        try:
            answer = await probe.request(words, list[str])
        except DefiniteError as silence:
            probe.close()
            raise IndefiniteError(str(silence)) from silence
        except BaseException:
            probe.close()
            raise
        self._probe = probe
        if answer not in ([], ["unchanged"]):
            how, why = answer
            raise (DefiniteError if how == "refused" else IndefiniteError)(f"{words}: {why}")
        return not answer

    async def _taken(self) -> Probe:
        """The connection, which a question gives back once it is answered.

        Raises:
            DefiniteError: there is none.
        """
        probe, self._probe = self._probe, None
        if probe is None and self._once and self._opened:
            raise DefiniteError("the connection to the probe has ended")
        probe = probe or await Probe.open(self._deployment, self._node)
        self._opened = True
        return probe

    def close(self) -> None:
        """Drop the connection."""
        if self._probe is not None:
            self._probe.close()


class RabbitmqObserver:
    """Observes one process of one node: an `Observer`.

    Args:
        probe: a connection to the process.
        node: which node it is.
        nodes: how many nodes the cluster has.
    """

    def __init__(self, probe: Probe, node: NodeId, nodes: int) -> None:
        self._probe = probe
        self._node = node
        self._nodes = nodes

    async def look(self) -> Observed:
        """Whether the node leads the first queue, as `view_of` has it, and else who does.

        A row has no term: no node knows the terms of queues without asking others.

        Raises:
            DefiniteError: the node does not say, or the process has ended.
        """
        seen = view_of(self._node, await self._probe.status(), self._nodes)
        return Observed(group="rabbitmq", role=seen.role, leader=seen.leader)

    async def close(self) -> None:
        """Drop the connection."""
        self._probe.close()


def view_of(node: NodeId, status: Status, nodes: int) -> NodeView:
    """What the status of a node says of leadership.

    RabbitMQ has no leader of all. It leads, for nemeses that aim at one, who leads the first queue, by name; without
    queues the leader of the metadata, if there is one, else the first node. A node that is not connected to a majority
    knows none. For nemeses that aim at the leader of any queue, or of the store, it says all these leaders.

    Args:
        node: which node.
        status: its answer.
        nodes: how many nodes the cluster has.
    """
    leaders = [status.queues[name] for name in sorted(status.queues)]
    leaders += [status.metadata_leader] if status.store == KHEPRI else []
    known = next((name for name in leaders if name is not None), status.connected[0])
    if 2 * len(status.connected) <= nodes:
        return NodeView(node, role="follower", term=0, leader=None)
    leader = node_of(known)
    of_queues = {node_of(name) for name in status.queues.values()}
    return NodeView(
        node,
        role="leader" if leader == node else "follower",
        term=0,
        leader=leader,
        queue_leaders=tuple(sorted(each for each in of_queues if each is not None)),
        store_leader=node_of(status.metadata_leader) if status.store == KHEPRI else None,
    )
