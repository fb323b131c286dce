"""The ways from a node to all others: one link to each, as the member that it is now."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

from splitbrain.cluster.bugs import Bugs
from splitbrain.cluster.knownfunctions import KnownFunctions
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import incarnation_of, node_of
from splitbrain.cluster.peers import PeerLink
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Address, Runtime


class Links:
    """Links to other members. They are dialled as soon as they are opened, and until they are closed.

    A link stays when its member leaves: that member may lead until the change is committed. It is closed when the
    node is added again, as another member: then no member with the former id is left.

    Args:
        runtime: of this node.
        member: this node's id.
        addresses: where other nodes are reached, by name.
        changed: called with the name of a node each time when a connection to it has been made, or broke.
        bugs: what is broken on purpose.
        knows: the registered functions of this node.
    """

    def __init__(
        self,
        runtime: Runtime,
        member: NodeId,
        addresses: Mapping[str, Address],
        changed: Callable[[str], None],
        bugs: Bugs,
        knows: KnownFunctions | None = None,
    ) -> None:
        self._runtime = runtime
        self._member = member
        self._addresses = addresses
        self._changed = changed
        self._bugs = bugs
        self._knows = knows
        self._by_node: dict[str, tuple[NodeId, PeerLink]] = {}
        self._by_member: dict[NodeId, PeerLink] = {}

    def __iter__(self) -> Iterator[PeerLink]:
        return (link for _, link in self._by_node.values())

    def __len__(self) -> int:
        return len(self._by_node)

    def knows(self, member: NodeId) -> bool:
        """Whether it is known where the node of this member is."""
        return node_of(member) in self._addresses

    def states(self) -> dict[str, bool]:
        """Each node to which there is a link, and whether it is connected."""
        return {node: link.is_up for node, (_, link) in self._by_node.items()}

    def is_up(self, node: str) -> bool:
        """Whether there is a connection to a node."""
        return node in self._by_node and self._by_node[node][1].is_up

    def up_until_ns(self, node: str) -> int | None:
        """Until when there was a connection to a node: now, if there is one; None if there never was one."""
        return self._by_node[node][1].up_until_ns if node in self._by_node else None

    def is_refused(self, node: str) -> bool:
        """Whether the last attempt to reach a node found no process at its address."""
        return node in self._by_node and self._by_node[node][1].refused

    def open(self, members: Collection[NodeId]) -> None:
        """Have a link to each of these members, this node itself aside."""
        by_node = {node_of(member): member for member in members if member != self._member}
        for node in self._addresses:
            if node in by_node:
                self._link(by_node[node])

    def send(self, to: NodeId, frame: bytes) -> None:
        """Send a frame now, or when there is a connection. It may get lost, as it does for a member of the past."""
        link = self._by_member.get(to) or self._link(to)
        if link is not None:
            link.send(frame)

    def send_to_node(self, node: str, frame: bytes) -> None:
        """Send a frame to the member that a node is, if there is a connection. It may get lost."""
        if node in self._by_node:
            self._by_node[node][1].send_if_up(frame)

    def send_if_up(self, to: NodeId, frame: bytes) -> bool:
        """Send a frame now, or not at all; whether it was sent. It may get lost."""
        link = self._link(to)
        return link is not None and link.send_if_up(frame)

    def _link(self, member: NodeId) -> PeerLink | None:
        """The link to a member, opened if need be; None for one whose node is another member now, or is not known."""
        present = self._by_member.get(member)
        if present is not None:
            return present
        node = node_of(member)
        known = self._by_node.get(node)
        if node not in self._addresses or (known and incarnation_of(member) < incarnation_of(known[0])):
            return None
        if known is not None:
            reached("link to a former member closed")
            known[1].close()
            del self._by_member[known[0]]
        changed = partial(self._changed, node)
        link = PeerLink(self._runtime, self._member, member, self._addresses[node], changed, self._bugs)
        self._by_node[node] = (member, link)
        self._by_member[member] = link
        link.knows = self._knows
        self._runtime.spawn(link.run(), f"link to {member}")
        return link
