"""How leadership of the metadata cluster is handed over: as `splitbrain cluster ctl transfer` asks for it (RA-31)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from splitbrain.cluster.client import Client, ClientError, node_of
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError

TRANSFER_TIMEOUT_MS: Final = 800
"""How long a node tries; a nemesis gives up after a second."""


class MetadataTransfer:
    """Has a leader ask another member to stand for election: a `Transfer`.

    Args:
        connect: opens a client to a node; a DefiniteError where it cannot be reached.
    """

    def __init__(self, connect: Callable[[Deployment, NodeId], Awaitable[Client]]) -> None:
        self._connect = connect

    async def transfer(self, deployment: Deployment, asked: NodeId, to: NodeId) -> None:
        """Ask a node to have another one lead, by the id under which it lists it; learners, too.

        Raises:
            DefiniteError: it was refused, or the node lists no such member.
            IndefiniteError: the outcome is unknown.
        """
        client = await self._connect(deployment, asked)
        try:
            members = [member for member in await client.members(learners=True) if node_of(member) == to]
            if not members:
                raise DefiniteError(f"not_member: {asked} does not list {to}")
            await client.transfer_leadership(members[-1], timeout_ms=TRANSFER_TIMEOUT_MS)
        except ClientError as error:
            raise (DefiniteError if error.definite else IndefiniteError)(str(error)) from error
        finally:
            await client.close()
