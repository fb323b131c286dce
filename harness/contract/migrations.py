"""How a system moves its metadata from one store to another while it runs."""

from __future__ import annotations

from typing import Protocol

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId


class Migrations(Protocol):
    """A system with two stores for its metadata: an operator has it move from the first one to the second.

    Attributes:
        second: the name of the second store, as `store_of` gives it.
    """

    second: str

    async def migrate(self, deployment: Deployment, asked: NodeId) -> None:
        """Ask a node to have everything moved; returns once that is done. To ask again does no harm.

        The caller may give up waiting: the system goes on.

        Raises:
            DefiniteError: it was refused, or the node cannot be reached.
            IndefiniteError: the outcome is unknown.
        """
        ...

    async def store_of(self, deployment: Deployment, node: NodeId) -> str | None:
        """The name of the store that is in force, as a node says; None if it does not say within a second."""
        ...
