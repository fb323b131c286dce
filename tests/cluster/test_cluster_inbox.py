"""The inbox of a group: events in their order, commands together, low ones in turns, and timers that still hold."""

from __future__ import annotations

from typing import Any, cast

from splitbrain.cluster.inbox import FromTimer, Inbox, LowTurn
from splitbrain.cluster.priorities import LOW_BATCH, LowCommands
from splitbrain.cluster.raft.events import ElectionTimeout, Propose, ProposeAll, Received


class Timer:
    """A timer that holds one token."""

    def __init__(self, token: int) -> None:
        self.token = token

    def holds(self, token: int) -> bool:
        """Whether it was not started anew since."""
        return token == self.token


def refs(event: Any) -> list[Any]:
    return [each.ref for each in event.commands] if isinstance(event, ProposeAll) else [event.ref]


def test_low_commands_come_in_their_order_when_their_turn_comes() -> None:
    low = LowCommands()
    inbox = Inbox(low)
    for number in range(LOW_BATCH + 1):
        if low.add(Propose(number, b"")):
            inbox.add(LowTurn())
    inbox.add(Propose(100, b""))
    found: list[Any] = []
    while inbox:
        found += refs(inbox.next())
    assert found == [*range(LOW_BATCH), 100, LOW_BATCH]


def test_commands_that_follow_each_other_are_one_event_and_a_message_parts_them() -> None:
    inbox = Inbox(LowCommands())
    message = Received("n2", cast("Any", None))
    for item in (Propose(1, b""), Propose(2, b""), message, Propose(3, b"")):
        inbox.add(item)
    assert refs(inbox.next()) == [1, 2]
    assert inbox.next() is message
    assert refs(inbox.next()) == [3]
    assert inbox.next() is None


def test_the_event_of_a_timer_that_was_started_anew_did_not_happen() -> None:
    inbox = Inbox(LowCommands())
    timer: Any = Timer(token=2)
    past, present = ElectionTimeout(), ElectionTimeout()
    inbox.add(FromTimer(past, timer, 1))
    inbox.add(FromTimer(present, timer, 2))
    assert inbox.next() is present
    assert not inbox


def test_a_turn_is_asked_for_once_until_the_group_rests() -> None:
    inbox = Inbox(LowCommands())
    asked: list[None] = []
    inbox.begins(lambda: asked.append(None))
    inbox.add(Propose(1, b""))
    assert not asked, "the group is at work"
    inbox.rests()
    inbox.add(Propose(2, b""))
    inbox.wake()
    assert len(asked) == 1
    inbox.rests()
    inbox.wake()
    assert len(asked) == 2
