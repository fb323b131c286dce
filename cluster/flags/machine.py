"""Feature flags of one node: a pure state machine. Events are its methods; `taken` gives what it wants done.

Everything that it wants done is done once `record` is durable as it was then: a member never says what it might forget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import structs

from splitbrain.cluster.bugs import M67, NO_BUGS, Bugs
from splitbrain.cluster.flags import participant
from splitbrain.cluster.flags.controller import Operation, ProblemError
from splitbrain.cluster.flags.effects import (
    Answer,
    Effect,
    Failed,
    RunCallback,
    Say,
    Send,
    StopNode,
    UndoCallback,
)
from splitbrain.cluster.flags.joining import Joining, refusal, unknown_of
from splitbrain.cluster.flags.messages import (
    Accept,
    Accepted,
    AskInventory,
    Closed,
    Decided,
    Inventory,
    Mark,
    Marked,
    Message,
    Outbid,
    Prepare,
    Promise,
    Refused,
)
from splitbrain.cluster.flags.proposal import Proposal
from splitbrain.cluster.flags.record import Ballot, OpId, Pending, Record, is_changing
from splitbrain.cluster.flags.registry import FlagState, Registry
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.messages import NodeId

TICK_MS: Final = 200
"""What is not answered is sent again so often."""

TAKEOVER_MS: Final = 2_000
"""A member that hears nothing of a change for so long, and up to twice as long, finishes it."""

MAX_WAITING: Final = 64
"""Requests that wait for their turn in one node."""


class Flags:
    """The feature flags of a node.

    Args:
        member: the id of this node's member.
        registry: the flags that it knows.
        record: what it has on disk; None for nothing.
        founder: whether it is one of the members with which the cluster begins.
        between: a random number in a range, both ends included.
        bugs: that are switched on.

    Attributes:
        record: what is to be durable.
        voters: of the configuration that the node has in force, sorted; kept up to date by the caller.
        members: all of its members, sorted; likewise.
        belongs: whether this member is one of them by an entry that is committed; likewise.
        now_ms: the time of the node's clock; likewise.
    """

    def __init__(
        self,
        member: NodeId,
        registry: Registry,
        record: Record | None,
        founder: bool,
        between: Callable[[int, int], int],
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self._bugs = bugs
        self.record = record or Record(enabled=registry.required, synchronised=founder)
        self.voters: tuple[NodeId, ...] = ()
        self.members: tuple[NodeId, ...] = ()
        self.belongs = False
        self._member = member
        self._registry = registry
        self._between = between
        self.now_ms = 0
        self._effects: list[Effect] = []
        self._to_itself: list[Message] = []
        self._operation: Operation | None = None
        self._waiting: list[tuple[int, str, int]] = []
        self._proposal: Proposal | None = None
        self._heard_ms: dict[OpId, int] = {}
        self._ready: dict[OpId, bool] = {}
        self._token = 0
        self._joining: Joining | None = None
        self._adopting: list[str] | None = None
        self._awaited: dict[int, tuple[str, int]] = {}

    # --- what clients ask for ---------------------------------------------------------------------------------

    def state(self, flag: str, record: Record | None = None) -> FlagState:
        """What the flag is here now, or by an earlier record."""
        by = record or self.record
        if flag in by.enabled:
            return "enabled"
        return "state_changing" if is_changing(by, flag) else "disabled"

    def unknown(self) -> tuple[str, ...]:
        """Flags that are enabled here, and that this program does not know: it must not run."""
        return unknown_of(self.record.enabled, self._registry)

    def enable(self, request: int, flag: str, timeout_ms: int, *, experimental: bool = False) -> None:
        """A client wants a flag enabled; answered once, by an `Answer`."""
        if flag not in self._registry:
            self._answer(request, "unknown_flag", f"{self._member} knows no feature flag {flag!r}")
        elif flag in self.record.enabled:
            self._answer(request)
        elif self._registry[flag].stability == "experimental" and not experimental:
            self._answer(request, "experimental", f"{flag} is experimental: say that this is meant (--experimental)")
        elif not self.record.synchronised or self._member not in self.members:
            self._answer(request, "not_synchronised", f"{self._member} has not joined completely: try again")
        elif len(self._waiting) >= MAX_WAITING:
            self._answer(request, "busy", f"{self._member} has {MAX_WAITING} such requests under way: try again later")
        else:
            self._waiting.append((request, flag, self.now_ms + timeout_ms))
            self._begin_next()

    def is_enabled(self, request: int, flag: str, timeout_ms: int) -> None:
        """A client asks for a flag, and waits while it changes (FF-1); answered once, by an `Answer`."""
        if flag not in self._registry:
            self._answer(request, "unknown_flag", f"{self._member} knows no feature flag {flag!r}")
            return
        self._awaited[request] = (flag, self.now_ms + timeout_ms)
        self._answer_awaited()

    @property
    def needs_time(self) -> bool:
        """Whether `tick` is to be called: something is under way."""
        under_way = self._operation or self._proposal or self.record.pending or self._waiting or self._awaited
        return bool(under_way) or not self.record.synchronised

    # --- time -------------------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        """Time has passed: send again what was not answered, give up what takes too long, take over what stands."""
        self.now_ms = now_ms
        self._tick_joining()
        self._tick_operation()
        if self._proposal is not None:
            self._proposal.left_by([member for member in self._proposal.members if member not in self.members])
            self._ask_all(self._proposal)
            if self._proposal.phase == "over":
                self._proposal = None
        for pending in self.record.pending:
            due_ms = self._heard_ms.setdefault(pending.op, now_ms + self._between(TAKEOVER_MS, 2 * TAKEOVER_MS))
            if now_ms >= due_ms and not self._is_mine(pending.op):
                self._take_over(pending)
        self._tick_waiting()
        self._answer_awaited()
        self._begin_next()
        self._decide_alone()
        self._settle()

    def _tick_waiting(self) -> None:
        """Give up what had no turn in time: nothing of it has begun."""
        late = [each for each in self._waiting if self.now_ms >= each[2]]
        self._waiting = [each for each in self._waiting if each not in late]
        for request, flag, _ in late:
            self._answer_failed(request, (flag,), "busy", f"{self._member} was busy with another change: try again")

    def _decide_alone(self) -> None:
        """The only member decides what is left of changes with others, which are gone: it was shrunk by force."""
        if self.members != (self._member,):
            return
        for pending in self.record.pending:
            if pending.members != self.members:
                self._close(Decided(pending.op, pending.flag, pending.vote is not None and pending.vote.enable))

    def _tick_operation(self) -> None:
        operation = self._operation
        if operation is None:
            return
        try:
            operation.tick(self.now_ms)
        except ProblemError as problem:
            self._fail(operation, problem)
            return
        if operation.request is not None and operation.stage == "deciding" and self.now_ms >= operation.deadline_ms:
            self._end_late(operation)
        if self._operation is None:
            return
        op, proposal = operation.op, self._proposal
        if op is not None and self._is_decided(op) and (proposal is None or proposal.op != op):
            self._decided(
                operation, enable=operation.flag in self.record.enabled
            )  # a member that took over has announced it
            return
        for member, message in operation.asks():
            self._send(member, message)

    def _end_late(self, operation: Operation) -> None:
        """The time is up, and the change may have been decided."""
        if operation.op is not None and self._is_decided(operation.op) and len(operation.flags) == 1:
            self._answer_operation(operation, "undone", f"another member undid the change of {operation.flag}")
            self._operation = None  # the proposal goes on to announce it, and the next request has its turn
        else:
            self._answer_operation(operation, "timeout", f"it is not known yet how {operation.flag} was decided")

    def _is_decided(self, op: OpId) -> bool:
        return self.record.of(op) is None and self.record.closed.get(op.controller, 0) >= op.number

    def _is_mine(self, op: OpId) -> bool:
        """Whether this member's controller takes care of a change."""
        operation = self._operation
        return operation is not None and operation.op == op and operation.stage != "deciding"

    def _take_over(self, pending: Pending) -> None:
        """Nothing is heard of a change: finish it."""
        self._hear_of(pending.op)
        if self._proposal is not None and self._proposal.op != pending.op and self._proposal.phase != "announcing":
            return  # one after the other
        reached("flag change taken over")
        self._effects.append(Say(f"nothing is heard of the change of {pending.flag}: {self._member} finishes it"))
        ballot = Ballot(pending.promised.number + 1, self._member)
        self._proposal = Proposal(pending, ballot, None)
        self._ask_all(self._proposal)

    def _ask_all(self, proposal: Proposal) -> None:
        asks = proposal.asks()
        if M67 in self._bugs and proposal.phase == "announcing":
            asks = sorted(asks, key=lambda each: each[0] != self._member)[:1]
        for member, message in asks:
            self._send(member, message)

    def _hear_of(self, op: OpId) -> None:
        self._heard_ms[op] = self.now_ms + self._between(TAKEOVER_MS, 2 * TAKEOVER_MS)

    # --- joining ----------------------------------------------------------------------------------------------

    def _tick_joining(self) -> None:
        if self.record.synchronised or self._adopting is not None or not self.belongs:
            return
        if self._joining is None:
            self._token += 1
            self._joining = Joining(self._token)
        for member, message in self._joining.asks(self.voters):
            self._send(member, message)

    def _heard_while_joining(self, member: NodeId, inventory: Inventory) -> None:
        if self._joining is None or self._adopting is not None:
            return
        self._joining.heard(member, inventory)
        enabled = self._joining.enabled(self.voters)
        if enabled is None:
            return
        unknown = unknown_of(enabled, self._registry)
        if unknown:
            reached("flags refused a node")
            self._effects.append(StopNode(refusal(self._member, unknown)))
            return
        self._adopting = [*self._registry.all_in_order(set(enabled) - set(self.record.enabled))]
        self._adopt()

    def _adopt(self) -> None:
        """Do what the next flag takes; or be a part of the cluster, if there is none."""
        assert self._adopting is not None, "nothing is taken over"
        if self._adopting:
            self._effects.append(RunCallback(self._adopting[0], None))
            return
        reached("flags synchronised")
        self.record = structs.replace(self.record, synchronised=True)
        self._joining = self._adopting = None

    def _adopted(self, flag: str, error: str | None) -> None:
        if self._adopting is None or self._adopting[:1] != [flag]:
            return
        if error is not None:
            self._effects.append(StopNode(f"feature flag {flag} is enabled in this cluster, and fails here: {error}"))
            return
        del self._adopting[0]
        self.record = structs.replace(self.record, enabled=tuple(sorted({*self.record.enabled, flag})))
        self._adopt()

    # --- what is heard ----------------------------------------------------------------------------------------

    def received(self, sender: NodeId, message: Message) -> None:
        """A member says something."""
        self._receive(sender, message)
        self._settle()

    def callback_done(self, effect: RunCallback, error: str | None = None) -> None:
        """What a flag takes was done here, or failed."""
        if effect.op is None:
            self._adopted(effect.flag, error)
        elif self.record.of(effect.op) is not None:
            answer = Marked(effect.op, True) if error is None else Refused(effect.op, "failed", error)
            if error is None:
                reached("flag callback done")
                self._ready[effect.op] = True
            else:
                del self._ready[effect.op]
            self._send(effect.op.controller, answer)
        elif error is None:
            self._undo(effect.flag)  # its change was undone meanwhile
        self._settle()

    def _receive(self, sender: NodeId, message: Message) -> None:
        match message:
            case AskInventory(token):
                self._send(sender, self._inventory(token, sender))
            case Inventory():
                self._heard_inventory(sender, message)
            case Mark():
                self._mark(sender, message)
            case Prepare():
                self._answer_step(sender, message, participant.promised(self.record, message))
            case Accept():
                self._answer_step(sender, message, participant.accepted(self.record, message))
            case Decided():
                self._close(message)
                self._send(sender, Closed(message.op))
            case _:
                self._answered(sender, message)

    def _inventory(self, token: int, asker: NodeId) -> Inventory:
        changing = tuple(pending.flag for pending in self.record.pending if pending.marked)
        record = self.record
        sees = asker in self.members
        return Inventory(token, self._registry.names, record.enabled, changing, record.synchronised, sees)

    def _heard_inventory(self, sender: NodeId, inventory: Inventory) -> None:
        self._heard_while_joining(sender, inventory)
        operation = self._operation
        if operation is None:
            return
        try:
            if operation.heard_inventory(sender, inventory):
                self._begin_change(operation)
        except ProblemError as problem:
            self._fail(operation, problem)

    def _mark(self, sender: NodeId, message: Mark) -> None:
        op = message.op
        is_ready = self._ready.get(op, False)
        step = participant.marked(self.record, message, self._registry, self.members, is_ready=is_ready)
        if isinstance(step.answer, Marked) and op not in self._ready:
            reached("flag marked")
            self._ready[op] = False
            self._effects.append(RunCallback(message.flag, op))
        self._answer_step(sender, message, step)

    def _answer_step(self, sender: NodeId, message: Mark | Prepare | Accept, step: participant.Step) -> None:
        if step.record.of(message.op) is not None and not isinstance(step.answer, Outbid):
            self._hear_of(message.op)
        self.record = step.record
        self._send(sender, step.answer)

    def _answered(self, sender: NodeId, message: Message) -> None:
        proposal, operation = self._proposal, self._operation
        match message:
            case Marked() if operation is not None:
                self._heard_marked(operation, sender, message)
            case Refused() if operation is not None:
                try:
                    operation.heard_refused(sender, message)
                except ProblemError as problem:
                    self._fail(operation, problem)
            case Promise(op) if proposal is not None and proposal.op == op:
                if proposal.promised(sender, message):
                    self._ask_all(proposal)
            case Accepted(op, ballot) if proposal is not None and proposal.op == op:
                if proposal.accepted(sender, ballot):
                    self._ask_all(proposal)
            case Outbid(op) if proposal is not None and proposal.op == op and proposal.phase != "announcing":
                reached("flag change outbid")
                self._proposal = None
                self._hear_of(op)
            case Closed(op) if proposal is not None and proposal.op == op:
                self._heard_closed(proposal, sender)
            case _:
                pass

    # --- changes ----------------------------------------------------------------------------------------------

    def _begin_next(self) -> None:
        """Begin with the next request, if no other one is under way, nor a decision.

        A decision that is only announced yet may be replaced: who has not heard of it asks, as soon as it runs.
        """
        while self._waiting and self._operation is None and self._is_free:
            request, flag, deadline_ms = self._waiting.pop(0)
            if self._member not in self.members:
                self._answer_failed(request, (flag,), "not_synchronised", f"{self._member} is no member any more")
                continue
            todo = [each for each in self._registry.in_order(flag) if each not in self.record.enabled]
            if not todo:
                self._answer(request)
                continue
            self._token += 1
            self._operation = Operation(request, todo, self.members, self.now_ms, deadline_ms, self._token)
            for member, message in self._operation.asks():
                self._send(member, message)

    @property
    def _is_free(self) -> bool:
        return self._proposal is None or self._proposal.phase == "announcing"

    def _begin_change(self, operation: Operation) -> None:
        """The next flag of an operation; one that was enabled meanwhile is done."""
        while operation.flag in self.record.enabled:
            if not operation.next_flag():
                self._answer_operation(operation)
                self._operation = None
                return
        number = self.record.last_op + 1
        self.record = structs.replace(self.record, last_op=number)
        operation.began(OpId(number, self._member))
        for member, message in operation.asks():
            self._send(member, message)

    def _heard_marked(self, operation: Operation, sender: NodeId, message: Marked) -> None:
        was_locking = operation.stage == "locking"
        if operation.heard_marked(sender, message):
            self._propose(operation)
        elif was_locking and operation.stage == "marking":
            for member, mark in operation.asks():
                self._send(member, mark)

    def _propose(self, operation: Operation) -> None:
        """All members agreed, and are ready: propose to enable the flag."""
        assert operation.op is not None, "a change has begun"
        operation.stage = "deciding"
        pending = self.record.of(operation.op)
        if pending is None:
            return  # it was decided meanwhile, by a member that took over
        reached("flag change proposed")
        self._proposal = Proposal(pending, participant.first_ballot(operation.op), True)
        if M67 in self._bugs:
            self._proposal.announce(True)
        self._ask_all(self._proposal)

    def _fail(self, operation: Operation, problem: ProblemError) -> None:
        """This controller has proposed nothing, so nothing but to undo its change can be decided.

        The flag may be enabled nevertheless: by the change of another controller.
        """
        self._answer_operation(operation, problem.reason, problem.detail)
        self._operation = None
        if operation.op is None:
            return
        pending = Pending(
            operation.op, operation.flag, operation.members, False, participant.first_ballot(operation.op)
        )
        self._proposal = Proposal(pending, pending.promised, False)
        self._proposal.announce(False)
        self._ask_all(self._proposal)

    def _close(self, decided: Decided) -> None:
        """It is known here how a change was decided."""
        op, record = decided.op, self.record
        pending = record.of(op)
        if pending is None and record.closed.get(op.controller, 0) >= op.number:
            return
        reached("flag change closed")
        self.record = participant.closed(record, decided)
        self._heard_ms.pop(op, None)
        self._ready.pop(op, None)
        if pending is not None and pending.marked and not decided.enable:
            reached("flag change undone")
            self._undo(decided.flag)
        if self._proposal is not None and self._proposal.op == op and self._proposal.phase != "announcing":
            self._proposal.announce(decided.enable)
        self._answer_awaited()

    def _undo(self, flag: str) -> None:
        """Undo what a flag takes, unless it is enabled, or another change may enable it."""
        if self.state(flag) == "disabled":
            self._effects.append(UndoCallback(flag))

    def _heard_closed(self, proposal: Proposal, sender: NodeId) -> None:
        if not proposal.closed(sender):
            return
        self._proposal = None
        operation = self._operation
        if operation is not None and operation.op == proposal.op:
            self._decided(operation, enable=bool(proposal.enable))

    def _decided(self, operation: Operation, *, enable: bool) -> None:
        """The change of an operation was decided, and every member knows, or a member that took over announces it."""
        if not enable:
            self._answer_operation(operation, "undone", f"another member undid the change of {operation.flag}")
        elif operation.next_flag():
            self._begin_change(operation)
            return
        else:
            self._answer_operation(operation)
        self._operation = None

    # --- inside -----------------------------------------------------------------------------------------------

    def _answer(self, request: int, failed: Failed | None = None, detail: str = "", *, enabled: bool = True) -> None:
        self._effects.append(Answer(request, failed, detail, enabled))

    def _answer_failed(self, request: int, flags: Sequence[str], failed: Failed, detail: str) -> None:
        """A request did not enable flags; that is no failure if another one has."""
        if all(flag in self.record.enabled for flag in flags):
            self._answer(request)
        else:
            self._answer(request, failed, detail)

    def _answer_operation(self, operation: Operation, failed: Failed | None = None, detail: str = "") -> None:
        """Answer once; a failure only if the flags that are left are not enabled."""
        request, operation.request = operation.request, None
        if request is None:
            return
        if failed is None or failed == "timeout":
            self._answer(request, failed, detail)
        else:
            self._answer_failed(request, operation.flags, failed, detail)

    def _answer_awaited(self) -> None:
        for request, (flag, until_ms) in list(self._awaited.items()):
            state = self.state(flag)
            if state != "state_changing" and self.record.synchronised:
                del self._awaited[request]
                self._answer(request, enabled=state == "enabled")
            elif self.now_ms >= until_ms:
                del self._awaited[request]
                self._answer(request, "timeout", f"{flag} still changes on {self._member}")

    def _send(self, to: NodeId, message: Message) -> None:
        if to == self._member:
            self._to_itself.append(message)
        else:
            self._effects.append(Send(to, message))

    def _settle(self) -> None:
        while self._to_itself:
            self._receive(self._member, self._to_itself.pop(0))

    def taken(self) -> list[Effect]:
        """What is to be done, in this order, once the record is durable."""
        self._settle()
        effects, self._effects = self._effects, []
        return effects
