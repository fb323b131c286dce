"""How groups of nodes are made and deleted: clusters of their own in the processes of a system that has several."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId


class Groups(Protocol):
    """How nodes of a system take part in further groups while it runs.

    A group has a name, and an incarnation: how many groups of that name there were before it.
    """

    async def members(self, deployment: Deployment, nodes: Collection[NodeId]) -> Collection[str]:
        """The ids under which these nodes would found a group now."""
        ...

    async def listed(self, deployment: Deployment, node: NodeId) -> Mapping[str, int]:
        """The groups that a node takes part in, by name, with their incarnations; without that of the clients.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        ...

    async def make(
        self, deployment: Deployment, node: NodeId, name: str, incarnation: int, founders: Collection[str]
    ) -> None:
        """Have a node take part in a group from now on; each founder is asked so. May be repeated after any outcome.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown.
        """
        ...

    async def delete(self, deployment: Deployment, node: NodeId, name: str) -> None:
        """Have a node forget its member of a group, with all its data. May be repeated after any outcome.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown.
        """
        ...

    async def put(self, deployment: Deployment, node: NodeId, name: str, value: int) -> None:
        """Have a group store a number, asked through a node.

        Raises:
            DefiniteError: it was refused.
            IndefiniteError: the outcome is unknown.
        """
        ...

    async def get(self, deployment: Deployment, node: NodeId, name: str) -> int | None:
        """The number that a group has stored last, asked through a node; None if it has stored none.

        Raises:
            DefiniteError, IndefiniteError: no answer.
        """
        ...
