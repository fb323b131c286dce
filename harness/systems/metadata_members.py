"""How nodes leave the metadata cluster and join it again: changes of members, asked of any other member.

A node that left has lost its data when it joins again, so that it does as another member: the number in its id, its
incarnation, is one higher (see `splitbrain.cluster.members`). It is started with that, and waits until the leader
speaks to it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final

from splitbrain.cluster.client import (
    ChangeRefusedError,
    Client,
    ClientError,
    MemberRole,
    incarnation_of,
    member_id,
    node_of,
)
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.metadata_sparing import Sparing
from splitbrain.results.errors import NodeStartError

CHANGE_TIMEOUT_MS: Final = 2500
"""How long a node tries; a nemesis gives up after three seconds."""


class MetadataMembership:
    """Who is a member, who leaves, and who joins: a `Membership`.

    Args:
        connect: opens a client to a node; a DefiniteError where it cannot be reached.
        founders: the nodes with which the cluster begins; the others run and wait. All of them if none are given.

    Attributes:
        sparing: asked before a member is removed, each of which may refuse it (`metadata_sparing`).
    """

    def __init__(
        self, connect: Callable[[Deployment, NodeId], Awaitable[Client]], founders: Sequence[NodeId] = ()
    ) -> None:
        self._connect = connect
        self._founders = tuple(founders)
        self.sparing: tuple[Sparing, ...] = ()
        self._incarnations: dict[NodeId, int] = {}
        self._next: dict[NodeId, int] = {}
        self._gone: dict[NodeId, None] = {}
        self._unsettled: dict[NodeId, None] = {}
        self._settled: dict[NodeId, None] = {}

    def begin(self) -> None:
        """Forget everything: in a new deployment the founders are members from the start."""
        for each in (self._incarnations, self._next, self._gone, self._unsettled, self._settled):
            each.clear()

    def arguments(self, node: NodeId, nodes: Collection[NodeId]) -> list[str]:
        """The arguments of a starting node, beside the addresses of the others.

        Raises:
            NodeStartError: it left. Started as a first member it would take itself for the one that was removed.
        """
        if node in self._gone:
            raise NodeStartError(f"{node} cannot be started: it left the cluster, and was not taken in again.")
        founders = [each for each in nodes if each in self._founders]
        flags = ["--founders", ",".join(founders)] if 0 < len(founders) < len(nodes) else []
        incarnation = self._incarnations.get(node, 0)
        return [*flags, "--incarnation", str(incarnation)] if incarnation else flags

    def member(self, node: NodeId) -> str:
        """The id with which a node is started now."""
        return member_id(node, self._incarnations.get(node, 0))

    def unsettled(self, node: NodeId) -> bool:
        """Whether the node was asked to leave, or never was a member, and was not settled since."""
        waits = bool(self._founders) and node not in self._founders and node not in self._settled
        return waits or node in self._unsettled

    def settle(self, node: NodeId) -> None:
        """Note that the node is a member which serves."""
        self._settled[node] = None
        self._unsettled.pop(node, None)
        self._gone.pop(node, None)

    async def members(self, deployment: Deployment, node: NodeId) -> dict[str, NodeId]:
        """The members of the configuration that this node has in force, committed or not; learners, too.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        found = await self.ask(deployment, node, lambda client: client.members(learners=True))
        return {member: node_of(member) for member in found}

    async def remove(self, deployment: Deployment, asked: NodeId, node: NodeId, member: str) -> None:
        """Remove the member of this id, which is `node`. If it is already removed, that is a success.

        Raises:
            DefiniteError: it was refused, or queues or streams have not followed yet.
            IndefiniteError: the outcome is unknown; it may still be removed later.
        """

        async def leave(client: Client) -> tuple[str, ...]:
            for refuse_early in self.sparing:
                await refuse_early(client, member)
            return await client.remove_member(member, timeout_ms=CHANGE_TIMEOUT_MS)

        self._unsettled[node] = None
        self._gone[node] = None
        self._next[node] = max(self._next.get(node, 0), incarnation_of(member) + 1)
        await self.ask(deployment, asked, leave, as_good="not_member")

    async def add(self, deployment: Deployment, asked: NodeId, node: NodeId) -> str:
        """Have the node taken in; the id of the new member. That it was taken in already is as good.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be added later.
        """
        return await self.add_as(deployment, asked, node, None)

    async def add_as(self, deployment: Deployment, asked: NodeId, node: NodeId, role: MemberRole | None) -> str:
        """As `add`, with a role that is not the cluster's default."""
        member = member_id(node, self._next.get(node, 0))
        members = await self.ask(
            deployment,
            asked,
            lambda client: client.add_member(member, role=role, learners=True, timeout_ms=CHANGE_TIMEOUT_MS),
            as_good="already_member",
        )
        self._incarnations[node] = incarnation_of(member)
        self._gone.pop(node, None)
        # What the leader made of it: with a bug that is another id.
        return next((each for each in members if node_of(each) == node), member)

    async def ask(
        self,
        deployment: Deployment,
        node: NodeId,
        what: Callable[[Client], Awaitable[tuple[str, ...]]],
        as_good: str = "",
    ) -> tuple[str, ...]:
        """Ask a node; a refusal for the reason `as_good` counts as success.

        Raises:
            DefiniteError, IndefiniteError: it refuses, or the outcome is unknown.
        """
        client = await self._connect(deployment, node)
        try:
            return await what(client)
        except ChangeRefusedError as refusal:
            if refusal.reason != as_good:
                raise DefiniteError(str(refusal)) from refusal
            return ()
        except ClientError as error:
            raise (DefiniteError if error.definite else IndefiniteError)(str(error)) from error
        finally:
            await client.close()


class MetadataLearners:
    """How nodes join without a vote: a `Learners`.

    Args:
        members: who joins and leaves.
    """

    def __init__(self, members: MetadataMembership) -> None:
        self._members = members

    async def add(self, deployment: Deployment, asked: NodeId, node: NodeId) -> str:
        """Have the node taken in as a learner; the id of the new member. That it was taken in already is as good.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be added later.
        """
        return await self._members.add_as(deployment, asked, node, "learner")

    async def promote(self, deployment: Deployment, asked: NodeId, member: str) -> None:
        """Give the learner of this id a vote. That it has one is as good.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be promoted later.
        """
        await self._members.ask(
            deployment,
            asked,
            lambda client: client.add_member(member, role="voter", timeout_ms=CHANGE_TIMEOUT_MS),
            as_good="already_member",
        )

    async def listed(self, deployment: Deployment, node: NodeId) -> dict[str, bool]:
        """The learners of the configuration that this node has in force, and whether each gets a vote by itself.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        learners = await self._members.ask(deployment, node, lambda client: client.learners())
        promotable = await self._members.ask(deployment, node, lambda client: client.promotable()) if learners else ()
        return {member: member in promotable for member in learners}
