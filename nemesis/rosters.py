"""The members of a cluster as its nodes list them: which of them it can spare, and which can be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from splitbrain.harness.contract.membership import Membership
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import NemesisContext
from splitbrain.harness.running.deadlines import together, within
from splitbrain.nemesis.grudges import majority

ANSWER_S: Final = 1.0
"""Timeout for one node to list the members."""

Members = Mapping[str, NodeId]
"""Members by their ids."""


class Roster(msgspec.Struct, frozen=True):
    """What nodes listed at about the same time, without nodes that did not answer.

    Attributes:
        lists: by node the members that it lists.
    """

    lists: Mapping[NodeId, Members]

    def agreed(self) -> Members | None:
        """The list that a majority of those who are on it give; None if there is no such list.

        It need not be the one that most nodes give: as many as stay may have been removed, and not know it.
        """
        for found, _ in Counter(frozenset(listed.items()) for listed in self.lists.values()).most_common():
            members = dict(sorted(found))
            if len([node for node in members.values() if self.lists.get(node) == members]) >= majority(len(members)):
                return members
        return None

    def without(self, member: str) -> list[NodeId]:
        """The nodes that do not list the member of this id."""
        return [node for node, listed in self.lists.items() if member not in listed]

    def as_evidence(self) -> dict[NodeId, list[str]]:
        """As evidence: by node the ids that it lists."""
        return {node: sorted(listed) for node, listed in self.lists.items()}


async def roster(context: NemesisContext, membership: Membership, nodes: Collection[NodeId]) -> Roster:
    """Ask nodes, all at once, who the members are."""
    clock, deployment = context.runtime.clock, context.deployment

    async def listed(node: NodeId) -> Members:
        return await membership.members(deployment, node)

    answers = await together([within(clock, ANSWER_S, listed(node)) for node in nodes])
    return Roster({node: found for node, found in zip(nodes, answers, strict=True) if not isinstance(found, Exception)})


def can_spare(node: NodeId, members: Collection[NodeId], healthy: Collection[NodeId]) -> bool:
    """Whether the members without this one have a majority that is healthy."""
    left = [member for member in members if member != node]
    return len([member for member in left if member in healthy]) >= majority(len(left))


def takes_another(node: NodeId, listed: Members, alive: Collection[NodeId]) -> bool:
    """Whether, by this list, a change that adds the node is committed by members that run: it does not run yet."""
    others = [member for member in listed.values() if member != node]
    return len([member for member in others if member in alive]) >= majority(len(others) + 1)


async def running(context: NemesisContext) -> list[NodeId]:
    """The nodes that run, in the order of the test's."""
    nodes = context.deployment.nodes
    return [node for node in nodes if (await context.deployment.status(node)).state == "running"]


async def cut_off(context: NemesisContext) -> frozenset[NodeId]:
    """The nodes of which a link is cut, in either direction."""
    return frozenset(node for link in await context.deployment.dropped() for node in link)


async def reachable(context: NemesisContext, node: NodeId, out: Collection[NodeId]) -> list[NodeId]:
    """The nodes that run, but for those that are `out`, and have links to and from this one."""
    cut = await context.deployment.dropped()
    return [
        peer
        for peer in await running(context)
        if peer not in out and peer != node and (node, peer) not in cut and (peer, node) not in cut
    ]


async def with_majority(context: NemesisContext, out: Collection[NodeId]) -> list[NodeId]:
    """Nodes that run and have links, in both directions, to a majority of the members that run with them.

    Other nodes could accept a request for a change, and its outcome would be unknown.

    Args:
        context: of the nemesis.
        out: nodes that are not members, or may not be.
    """
    members = [node for node in context.deployment.nodes if node not in out]
    alive = [node for node in await running(context) if node not in out]
    needed = majority(len(members)) - 1
    return [node for node in alive if len(await reachable(context, node, out)) >= needed]
