"""How a change of a feature flag is decided and made known: one attempt of one member. Pure.

The controller's own attempt begins with the proposal to enable the flag, as no other one can have been accepted. A
member that takes over asks a majority first what was accepted, and proposes the latest, or to undo it if nothing was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from splitbrain.cluster.flags.messages import Accept, Decided, Prepare, Promise
from splitbrain.cluster.flags.record import Ballot, OpId, Pending, Vote
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.messages import NodeId

Phase: TypeAlias = Literal["preparing", "accepting", "announcing", "over"]


class Proposal:
    """An attempt.

    Args:
        pending: the change.
        ballot: which attempt.
        enable: what is proposed; None: what may have been decided.

    Attributes:
        op: the change.
        phase: what it does.
        enable: what is proposed, or decided.
        members: those that take part.
    """

    def __init__(self, pending: Pending, ballot: Ballot, enable: bool | None) -> None:
        self.op: OpId = pending.op
        self.ballot = ballot
        self.enable = enable
        self.phase: Phase = "preparing" if enable is None else "accepting"
        self._flag = pending.flag
        self.members = pending.members
        self._heard: dict[NodeId, Vote | None] = {}
        self._left: list[NodeId] = []

    @property
    def _majority(self) -> bool:
        return 2 * len(self._heard) > len(self.members)

    def asks(self) -> list[tuple[NodeId, Prepare | Accept | Decided]]:
        """What is to be sent now, and again until it is answered."""
        match self.phase:
            case "preparing":
                prepare = Prepare(self.op, self._flag, self.members, self.ballot)
                return [(member, prepare) for member in self.members if member not in self._heard]
            case "accepting":
                assert self.enable is not None, "nothing is proposed before it is known what was accepted"
                accept = Accept(self.op, self._flag, self.members, self.ballot, self.enable)
                return [(member, accept) for member in self.members if member not in self._heard]
            case "announcing":
                return [(member, self.decided) for member in self._left]
            case "over":
                return []

    @property
    def decided(self) -> Decided:
        """The decision, once there is one."""
        assert self.phase == "announcing", "nothing is decided yet"
        assert self.enable is not None, "what was decided is known"
        return Decided(self.op, self._flag, self.enable)

    def promised(self, member: NodeId, promise: Promise) -> bool:
        """A member answered; whether a majority has, so that something is proposed from now on."""
        if self.phase != "preparing" or promise.ballot != self.ballot or member not in self.members:
            return False
        self._heard[member] = promise.vote
        if not self._majority:
            return False
        votes = [vote for vote in self._heard.values() if vote is not None]
        self.enable = max(votes).enable if votes else False
        self.phase, self._heard = "accepting", {}
        return True

    def accepted(self, member: NodeId, ballot: Ballot) -> bool:
        """A member accepted; whether a majority has, so that it is decided."""
        if self.phase != "accepting" or ballot != self.ballot or member not in self.members:
            return False
        self._heard[member] = None
        if not self._majority:
            return False
        assert self.enable is not None, "nothing is accepted that was not proposed"
        self.announce(self.enable)
        return True

    def announce(self, enable: bool) -> None:
        """It is decided, here or elsewhere."""
        reached("flag change decided")
        self.enable, self.phase = enable, "announcing"
        self._left = list(self.members)

    def closed(self, member: NodeId) -> bool:
        """A member knows the decision; whether all do."""
        if self.phase != "announcing":
            return False
        self._left = [each for each in self._left if each != member]
        if not self._left:
            self.phase = "over"
        return not self._left

    def left_by(self, gone: Sequence[NodeId]) -> None:
        """These are no members any more: they need not know."""
        if self.phase == "announcing":
            self._left = [each for each in self._left if each not in gone]
            if not self._left:
                self.phase = "over"
