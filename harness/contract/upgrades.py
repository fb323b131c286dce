"""How nodes of a system come to run a later version of its state machine while the cluster runs."""

from __future__ import annotations

from typing import Protocol

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId


class Upgrades(Protocol):
    """Which version of its state machine each node of a system supports, as `System.command` starts it.

    It belongs to one run at a time.
    """

    @property
    def newest(self) -> int:
        """The latest version that there is."""
        ...

    def begin(self, *, old: bool) -> None:
        """Forget everything: in a new deployment all nodes support the latest version, or the one before (`old`)."""
        ...

    def version(self, node: NodeId) -> int:
        """The version that the node supports when it is started next."""
        ...

    def choose(self, node: NodeId, version: int) -> None:
        """Have the node support this version from its next start on."""
        ...

    async def in_force(self, deployment: Deployment, node: NodeId) -> int:
        """The version that is in force, as this node knows it.

        Raises:
            DefiniteError, IndefiniteError: it does not answer.
        """
        ...
