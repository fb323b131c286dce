"""How leadership of a cluster of etcd is handed over: `MoveLeader`, which only the leader takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import Answered, MembersAnswer, MoveLeaderRequest, Nothing


class EtcdTransfer:
    """Has a leader hand leadership to another member: a `Transfer`.

    Args:
        connect: opens a gateway to a node; a DefiniteError where it cannot be reached.
        named: members by their ids in hexadecimal digits, from a list of them.
    """

    def __init__(
        self,
        connect: Callable[[Deployment, NodeId], Awaitable[Gateway]],
        named: Callable[[MembersAnswer], Mapping[str, NodeId]],
    ) -> None:
        self._connect = connect
        self._named = named

    async def transfer(self, deployment: Deployment, asked: NodeId, to: NodeId) -> None:
        """Ask a leader to have another node lead; returns once it does.

        Raises:
            DefiniteError: it was refused, or the node that was asked lists no such member.
            IndefiniteError: the outcome is unknown.
        """
        gateway = await self._connect(deployment, asked)
        try:
            members = self._named(await gateway.call("cluster/member/list", Nothing(), MembersAnswer))
            found = [member for member, node in members.items() if node == to]
            if not found:
                raise DefiniteError(f"{asked} does not list {to}")
            await gateway.call("maintenance/transfer-leadership", MoveLeaderRequest(int(found[-1], 16)), Answered)
        finally:
            await gateway.close()
