"""The status of a node of etcd, for the telemetry of a run.

Role, term, leader and commit index are those of /debug/vars, which Raft reports between two of its steps: they are
consistent. `maintenance/status` is not used for them. Its term is that of the last entry that was applied, and its
leader is read at another time: one who has just been elected would seem to lead in his predecessor's term
(`etcdserver/server.go`, `apply` and `setTerm`; 3.4 to 3.6).

The applied index is that of `maintenance/status` all the same, for Raft counts as applied what it has handed over to be
applied. It is asked for first: what was applied then is committed when the other question is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.observing import Observed
from splitbrain.harness.contract.sessions import DefiniteError
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import Member, MembersAnswer, Nothing, RaftStatus, StatusAnswer, Variables

GROUP: Final = "etcd"
_VARIABLES: Final = "/debug/vars"
_ROLES: Final = {
    "StateFollower": "follower",
    "StateCandidate": "candidate",
    "StatePreCandidate": "pre_candidate",
    "StateLeader": "leader",
}


class EtcdObserver:
    """Observes one process of one node: an `Observer`.

    Args:
        gateway: its own connection; it must not open another one after that has ended.
        named: maps ids of members to nodes.
    """

    def __init__(self, gateway: Gateway, named: Callable[[Iterable[Member]], Mapping[str, NodeId]]) -> None:
        self._gateway = gateway
        self._named = named

    async def look(self) -> Observed:
        """What the node says now.

        The list of members is the node's own, not a linearizable one: who votes as far as it has applied the log.

        Raises:
            DefiniteError, IndefiniteError: it does not say, or the process has ended.
        """
        status = await self._gateway.call("maintenance/status", Nothing(), StatusAnswer)
        raft = (await self._gateway.get(_VARIABLES, Variables)).raft
        if raft is None or raft.state not in _ROLES or raft.member == "0":
            raise DefiniteError("the node's Raft does not run")
        members = (await self._gateway.call("cluster/member/list", Nothing(), MembersAnswer)).members
        return self._observed(raft, members, status.applied_index)

    def _observed(self, raft: RaftStatus, members: Iterable[Member], applied: int) -> Observed:
        voters = self._named(member for member in members if not member.is_learner)
        return Observed(
            group=GROUP,
            term=raft.term,
            role=_ROLES[raft.state],
            leader=voters.get(raft.lead),
            commit=raft.commit,
            applied=applied,
            voters=tuple(sorted(voters.values())),
        )

    async def close(self) -> None:
        """Drop the connection."""
        await self._gateway.close()
