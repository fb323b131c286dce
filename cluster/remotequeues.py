"""Requests to queues of which this node has no member: they are passed on to the leader that the metadata name (QQ-9).

A request goes to one member at a time. One that says for certain that it did nothing, since it does not lead or has no
such group, is followed by another one: that which it names, or the next of the record. One that does not answer is not:
the request may have been carried out. So a command happens at most once, as with a member of the node's own; if the
node gets one meanwhile, that does what was not sent yet. A command that wants no answer is passed on in the same way,
as one that is lost would leave a message with its consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from splitbrain.cluster.links import Links
from splitbrain.cluster.marks import reached
from splitbrain.cluster.pending import Answering
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Clock, Timer
from splitbrain.cluster.tree import AskMachine
from splitbrain.cluster.wire import Failure, Forward, Forwarded, Outcome, QueueOp, encode_peer

PAUSE_MS: Final = 100
"""Before the next member is asked."""

_MS: Final = 1_000_000
_MAY_GO_ON: Final = frozenset({"not_leader", "no_group"})

Passable: TypeAlias = QueueOp | AskMachine
"""What is passed on: commands of queues, and questions about them."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A request under way.

    Attributes:
        group: of the queue.
        body: what is wanted.
        answer: called once.
        order: the members, in the order in which they are asked.
        ends_ns: when it is given up.
        asked: the one that was asked last and has not answered; None while none is.
        number: of the last message about it.
        timer: of its end.
        pause: before the next member is asked.
        is_here: whether the node's own member has it.
        is_over: whether it was answered.
    """

    group: str
    body: Passable
    answer: Answering
    order: list[NodeId]
    ends_ns: int
    asked: NodeId | None = None
    number: int = 0
    timer: Timer | None = None
    pause: Timer | None = None
    is_here: bool = False
    is_over: bool = False


class RemoteQueues:
    """The requests of one node to queues that are elsewhere.

    Args:
        node: its name.
        life: of the node, as its messages to others say it.
        links: to the other nodes.
        clock: of the node.
        here: has the node's own member of a group do it, if it has one by now; whether it does.
        members: of the group of a queue, its leader first as far as that is known; none if the queue is not known.
        most: requests that may be under way.
        follows: whether a member that leads is asked if another one names it.

    Attributes:
        last_number: of the messages that were sent. A member that the node gets later numbers its own after it, as
            others tell repetitions by numbers.
    """

    def __init__(
        self,
        node: str,
        life: int,
        links: Links,
        clock: Clock,
        here: Callable[[str, Passable, int, Answering], bool],
        members: Callable[[str], Sequence[NodeId]],
        most: int,
        *,
        follows: bool = True,
    ) -> None:
        self._follows = follows
        self._node = node
        self._life = life
        self._links = links
        self._clock = clock
        self._here = here
        self._members = members
        self._most = most
        self.last_number = 0
        self._under_way: dict[int, _Asked] = {}
        self._count = 0

    def begin_after(self, number: int) -> None:
        """Number messages after those of a member that the node had, and has no more: it may have stopped alone."""
        self.last_number = max(self.last_number, number)

    def knows(self, group: str) -> bool:
        """Whether there is a member to be asked."""
        return bool(self._members(group))

    def ask(self, group: str, body: Passable, timeout_ms: int, answer: Answering) -> None:
        """Have a queue carry out a command, or answer a question; `answer` is called once, now or later."""
        if self._count >= self._most:
            answer(0, Failure("busy", True, f"{self._node} has {self._most} requests under way: try again later"), 0)
            return
        self._count += 1
        ends_ns = self._clock.monotonic_ns() + timeout_ms * _MS
        asked = _Asked(group, body, answer, [*self._members(group)], ends_ns)
        asked.timer = self._clock.call_later(timeout_ms * _MS, lambda: self._time_out(asked))
        self._send(asked)

    def answered(self, peer: NodeId, message: Forwarded) -> bool:
        """A member answered; whether that was asked for here. What comes too late, or for an earlier life, is not."""
        asked = self._under_way.get(message.ref) if message.life == self._life else None
        if asked is None or asked.asked != peer or asked.group != message.group:
            return False
        del self._under_way[message.ref]
        outcome = message.outcome
        if isinstance(outcome, Failure) and outcome.definite and outcome.reason in _MAY_GO_ON:
            self._go_on(asked, outcome.leader)
        else:
            self._finish(asked, message.term, outcome, message.index)
        return True

    def _send(self, asked: _Asked) -> None:
        asked.pause = None
        left_ms = max(1, (asked.ends_ns - self._clock.monotonic_ns()) // _MS)
        if self._here(asked.group, asked.body, left_ms, partial(self._finish, asked)):
            asked.is_here = True
            return
        if not asked.order:
            asked.order = [*self._members(asked.group)]
        member = asked.order.pop(0) if asked.order else None
        asked.number = self._next_number()
        if member is None or not self._links.send_if_up(member, self._message(asked)):
            self._go_on(asked, None)
            return
        reached("request passed on to another node's queue")
        asked.asked = member
        self._under_way[asked.number] = asked

    def _go_on(self, asked: _Asked, leader: NodeId | None) -> None:
        """Ask the next member, or the leader if one was named, in a moment."""
        asked.asked = None
        if leader is not None and self._follows:
            asked.order = [leader, *(member for member in asked.order if member != leader)]
        asked.pause = self._clock.call_later(PAUSE_MS * _MS, lambda: self._send(asked))

    def _message(self, asked: _Asked) -> bytes:
        return encode_peer(Forward(self._life, asked.number, asked.body, asked.group))

    def _next_number(self) -> int:
        self.last_number += 1
        return self.last_number

    def _time_out(self, asked: _Asked) -> None:
        asked.timer = None
        if asked.is_here:  # which may carry it out at this moment
            unchanged = isinstance(asked.body, AskMachine)
            failure = Failure("timeout", unchanged, f"the member on {self._node} did not answer in time")
        elif asked.asked is None:
            detail = f"{self._node} has no member of it, and reached none that leads it in time"
            failure = Failure("no_leader", True, detail)
        else:
            unchanged = isinstance(asked.body, AskMachine)
            failure = Failure("timeout", unchanged, f"{self._node} passed it on and got no answer in time")
        self._finish(asked, 0, failure, 0)

    def _finish(self, asked: _Asked, term: int, outcome: Outcome, index: int) -> None:
        if asked.is_over:  # the node's own member answered, as its time ran out, too
            return
        asked.is_over = True
        self._count -= 1
        self._under_way.pop(asked.number, None)
        for timer in (asked.timer, asked.pause):
            if timer is not None:
                timer.cancel()
        asked.answer(term, outcome, index)
