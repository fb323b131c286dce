"""How nodes leave a cluster of etcd and join it again: `member remove` and `member add`, asked of any other member.

A member is an id. One that was removed never comes back: a node that joins again does so as another member, with no
data of its own, and finds the others by the list of members that came with its admission (etcd's runtime
reconfiguration).
etcd refuses a change that could cost it its majority (`--strict-reconfig-check`, its default): a member is added only
while all others have been connected for five seconds, and removed only if the rest keeps a majority that has been. A
member that learns of its removal ends by itself, a second later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeVar

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import (
    AddMemberRequest,
    Member,
    MembersAnswer,
    Message,
    Nothing,
    RemoveMemberRequest,
)
from splitbrain.results.errors import NodeStartError

A = TypeVar("A", bound=Message)

_NOT_FOUND: Final = "NOT_FOUND"
_EXISTS: Final = "Peer URLs already exists"


class EtcdMembership:
    """Who is a member, who leaves, and who joins: a `Membership`.

    Args:
        connect: opens a gateway to a node; a DefiniteError where it cannot be reached.
    """

    def __init__(self, connect: Callable[[Deployment, NodeId], Awaitable[Gateway]]) -> None:
        self._connect = connect
        self._urls: dict[NodeId, str] = {}
        self._unsettled: dict[NodeId, None] = {}
        self._joined: dict[NodeId, str] = {}

    def begin(self) -> None:
        """Forget everything: in a new deployment every node is a member from the start."""
        self._urls.clear()
        self._unsettled.clear()
        self._joined.clear()

    def initial_cluster(self, node: NodeId, urls: Mapping[NodeId, str]) -> tuple[str, str]:
        """What the options initial-cluster-state and initial-cluster of a node that starts must be.

        Args:
            node: the node.
            urls: where all nodes of the test serve their peers.

        Raises:
            NodeStartError: it left. Started as a first member it would take itself for the one that was removed.
        """
        self._urls.update(urls)
        if node in self._joined:
            return "existing", self._joined[node]
        if node in self._unsettled:
            raise NodeStartError(f"{node} cannot be started: it left the cluster, and was not taken in again.")
        return "new", ",".join(f"{name}={urls[name]}" for name in sorted(urls))

    def unsettled(self, node: NodeId) -> bool:
        """Whether the node was asked to leave, and was not settled since."""
        return node in self._unsettled

    def settle(self, node: NodeId) -> None:
        """Note that the node is a member which serves."""
        self._unsettled.pop(node, None)

    async def members(self, deployment: Deployment, node: NodeId) -> dict[str, NodeId]:
        """The members as this node has them, in its own state: what it has not applied yet is not in them.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        answer = await self._ask(deployment, node, "list", Nothing(), MembersAnswer)
        return self.named(answer.members)

    def named(self, members: Iterable[Member]) -> dict[str, NodeId]:
        """Members by their ids, as etcd shows these: which node each is."""
        return {_shown(member.member): self._node_of(member) for member in members}

    async def remove(self, deployment: Deployment, asked: NodeId, node: NodeId, member: str) -> None:
        """Remove the member of this id, which is `node`. If it is already removed, that is a success.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be removed later.
        """
        self._unsettled[node] = None
        self._joined.pop(node, None)
        request = RemoveMemberRequest(int(member, 16))
        try:
            await self._ask(deployment, asked, "remove", request, MembersAnswer)
        except DefiniteError as refusal:
            if not str(refusal).startswith(_NOT_FOUND):
                raise

    async def add(self, deployment: Deployment, asked: NodeId, node: NodeId) -> str:
        """Have the node taken in; the id of the new member. That it was taken in already is as good.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be added later.
        """
        try:
            answer = await self._ask(deployment, asked, "add", AddMemberRequest((self._urls[node],)), MembersAnswer)
        except DefiniteError as refusal:
            if _EXISTS not in str(refusal):
                raise
            answer = await self._ask(deployment, asked, "list", Nothing(), MembersAnswer)
        found = [member for member in answer.members if self._node_of(member) == node]
        if not found:
            raise IndefiniteError(f"{asked} took {node} in and does not list it")
        self._joined[node] = ",".join(
            f"{self._node_of(member)}={url}" for member in answer.members for url in member.peer_urls
        )
        return _shown(found[0].member)

    def _node_of(self, member: Member) -> NodeId:
        """By where it serves its peers: a member that never ran has no name yet."""
        nodes = {url: node for node, url in self._urls.items()}
        return next((nodes[url] for url in member.peer_urls if url in nodes), member.name)

    async def _ask(self, deployment: Deployment, node: NodeId, what: str, request: Message, answer: type[A]) -> A:
        gateway = await self._connect(deployment, node)
        try:
            return await gateway.call(f"cluster/member/{what}", request, answer)
        finally:
            await gateway.close()


def _shown(member: int) -> str:
    """An id as etcd's own tools and logs show it."""
    return f"{member:x}"
