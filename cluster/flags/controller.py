"""How a member enables a feature flag (FF-2): the steps before it is decided. Pure.

Inventory of all members; what the flag depends on first; the mark at the first member, which is the lock of the whole
cluster; the marks at all others. Then comes the decision (`splitbrain.cluster.flags.proposal`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from splitbrain.cluster.flags.effects import Failed
from splitbrain.cluster.flags.messages import AskInventory, Inventory, Mark, Marked, Refused
from splitbrain.cluster.flags.record import OpId
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.messages import NodeId

INVENTORY_MS: Final = 1_000
"""A member that says nothing for so long is taken for missing."""

Stage: TypeAlias = Literal["inventory", "locking", "marking", "deciding"]


class ProblemError(Exception):
    """The flag is not enabled: why, and the same in words."""

    def __init__(self, reason: Failed, detail: str) -> None:
        super().__init__(detail)
        self.reason: Failed = reason
        self.detail = detail


class Operation:
    """What this member is doing to enable a flag, and what it depends on.

    Args:
        request: of the client; it is answered once.
        flags: what is to be enabled, each behind what it depends on.
        members: all members, sorted; the first one keeps the lock.
        now_ms: the time.
        deadline_ms: when it is given up, if it is not decided.
        token: of the question for the inventory.

    Attributes:
        stage: which step it is at.
        op: the change of the flag at which it is; None before the first one begins.
    """

    def __init__(
        self,
        request: int,
        flags: Sequence[str],
        members: tuple[NodeId, ...],
        now_ms: int,
        deadline_ms: int,
        token: int,
    ) -> None:
        self.request: int | None = request
        self.members = members
        self.deadline_ms = deadline_ms
        self.stage: Stage = "inventory"
        self.op: OpId | None = None
        self._todo = deque(flags)
        self._token = token
        self._began_ms = now_ms
        self._inventories: dict[NodeId, Inventory] = {}
        self._ready: dict[NodeId, None] = {}
        self._refused = ""

    @property
    def flag(self) -> str:
        """The flag at which it is."""
        return self._todo[0]

    def asks(self) -> list[tuple[NodeId, AskInventory | Mark]]:
        """What is to be sent now, and again until it is answered.

        Marks go to all members, also to those that are ready: they know from them that the controller is there.
        """
        if self.stage == "inventory":
            missing = [member for member in self.members if member not in self._inventories]
            return [(member, AskInventory(self._token)) for member in missing]
        if self.stage == "deciding" or self.op is None:
            return []
        mark = Mark(self.op, self.flag, self.members)
        return [(member, mark) for member in (self.members[:1] if self.stage == "locking" else self.members)]

    def began(self, op: OpId) -> None:
        """The change of the next flag has a number, which is durable once anything of it is sent."""
        self.op, self.stage, self._ready, self._refused = op, "locking", {}, ""

    def heard_inventory(self, member: NodeId, inventory: Inventory) -> bool:
        """A member answered; whether all have.

        Raises:
            ProblemError: a member does not know a flag, or has not joined yet.
        """
        if self.stage != "inventory" or inventory.token != self._token or member not in self.members:
            return False
        self._inventories[member] = inventory
        if len(self._inventories) < len(self.members):
            return False
        reached("flag inventory taken")
        for flag in self._todo:
            lacking = [each for each in self.members if flag not in self._inventories[each].known]
            if lacking:
                raise ProblemError(
                    "unsupported", f"{flag} is not known on {', '.join(lacking)}: start a later program there"
                )
        joining = [each for each in self.members if not self._inventories[each].synchronised]
        if joining:
            raise ProblemError("not_synchronised", f"{', '.join(joining)} has not joined completely: try again")
        return True

    def heard_marked(self, member: NodeId, answer: Marked) -> bool:
        """A member agreed; whether all have, and are ready."""
        if answer.op != self.op or self.stage not in ("locking", "marking"):
            return False
        if self.stage == "locking":
            reached("flag lock taken")
            self.stage = "marking"
        if answer.ready:
            self._ready[member] = None
        return all(each in self._ready for each in self.members)

    def heard_refused(self, member: NodeId, answer: Refused) -> None:
        """A member did not agree. One that has another change under way is asked again.

        Raises:
            ProblemError: it is of no use to ask again.
        """
        if answer.op != self.op or self.stage not in ("locking", "marking"):
            return
        self._refused = f"{member}: {answer.detail}"
        if answer.reason == "unsupported":
            raise ProblemError("unsupported", self._refused)
        if answer.reason != "busy":
            raise ProblemError("undone", self._refused)
        reached("flag change waited for another one")

    def tick(self, now_ms: int) -> None:
        """Time passes.

        Raises:
            ProblemError: too much of it; nothing is proposed yet.
        """
        silent = [member for member in self.members if member not in self._inventories]
        if self.stage == "inventory" and now_ms >= min(self.deadline_ms, self._began_ms + INVENTORY_MS):
            raise ProblemError("missing_nodes", f"{', '.join(silent)} did not answer: all members must run")
        if self.stage in ("locking", "marking") and now_ms >= self.deadline_ms:
            unready = ", ".join(member for member in self.members if member not in self._ready)
            reason: Failed = "busy" if self._refused else "missing_nodes"
            raise ProblemError(reason, self._refused or f"{unready} did not answer, or was not ready, in time")

    @property
    def flags(self) -> tuple[str, ...]:
        """What is left to be enabled, the present one included."""
        return tuple(self._todo)

    def next_flag(self) -> bool:
        """The flag is enabled; whether there is another one."""
        self._todo.popleft()
        self.op = None
        return bool(self._todo)
