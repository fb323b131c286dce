"""How the leader of a system is asked to hand leadership over."""

from __future__ import annotations

from typing import Protocol

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId


class Transfer(Protocol):
    """How leadership of a system is handed over while it runs."""

    async def transfer(self, deployment: Deployment, asked: NodeId, to: NodeId) -> None:
        """Ask a node to have another one lead; returns when the leader has agreed to it, or when it has happened.

        Raises:
            DefiniteError: it was refused, or there is no leader.
            IndefiniteError: the outcome is unknown.
        """
        ...
