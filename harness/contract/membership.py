"""How nodes leave and join the cluster of a system that runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId


class Membership(Protocol):
    """How nodes of a system leave its cluster and join it again while it runs.

    It remembers what became of each node: `System.command` starts a node that joins in another way than the first
    members, and refuses to start one that left. It belongs to one run at a time.
    """

    def begin(self) -> None:
        """Forget everything: in a new deployment every node is a member from the start, or all founders are."""
        ...

    def unsettled(self, node: NodeId) -> bool:
        """Whether the node was asked to leave, or never was a member, and was not settled since.

        It may end by itself meanwhile, and need not answer.
        """
        ...

    def settle(self, node: NodeId) -> None:
        """Note that the node is a member which serves: it has joined again, or was refused to leave."""
        ...

    async def members(self, deployment: Deployment, node: NodeId) -> Mapping[str, NodeId]:
        """The members as this node lists them: by the id of each, which node it is, also of one that never ran.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        ...

    async def remove(self, deployment: Deployment, asked: NodeId, node: NodeId, member: str) -> None:
        """Ask a node to remove another one, the member of this id. The request may be repeated after any outcome.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be removed later.
        """
        ...

    async def add(self, deployment: Deployment, asked: NodeId, node: NodeId) -> str:
        """Ask a node to add another one, which has no data; returns the id of the new member.

        The request may be repeated after any outcome. From now on the node is started as one that joins.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be added later.
        """
        ...


class Learners(Protocol):
    """How nodes join as learners, which have no vote, and get one later. For systems that have a `Membership`, too."""

    async def add(self, deployment: Deployment, asked: NodeId, node: NodeId) -> str:
        """Ask a node to add another one as a learner that stays one until it is promoted; as `Membership.add`.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be added later.
        """
        ...

    async def promote(self, deployment: Deployment, asked: NodeId, member: str) -> None:
        """Ask a node to give the learner of this id a vote. The request may be repeated after any outcome.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown; it may still be promoted later.
        """
        ...

    async def listed(self, deployment: Deployment, node: NodeId) -> Mapping[str, bool]:
        """The learners as this node lists them: by the id of each, whether it is to get a vote by itself.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        ...
