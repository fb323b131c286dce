"""What a group handles next: events in the order in which they happened, and turns of commands of low priority."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from splitbrain.cluster.marks import reached
from splitbrain.cluster.priorities import LowCommands
from splitbrain.cluster.raft.events import (
    ElectionTimeout,
    Event,
    HeartbeatTick,
    Propose,
    ProposeAll,
    Received,
    Written,
)
from splitbrain.cluster.timers import ElectionTimer, Heartbeat


@final
@dataclass(frozen=True, slots=True)
class FromTimer:
    """An event that did not happen if its timer was stopped, or started anew, before it is handled."""

    event: ElectionTimeout | HeartbeatTick
    timer: ElectionTimer | Heartbeat
    token: int


@final
class LowTurn:
    """Stands in the inbox where commands of low priority have their turn."""


Item: TypeAlias = Event | FromTimer | LowTurn


class Inbox:
    """What waits to be handled.

    Args:
        low: the commands of low priority that wait for a turn.

    Attributes:
        items: what happened and waits, in order; others only look whether there is any.
    """

    def __init__(self, low: LowCommands) -> None:
        self.items: deque[Item] = deque()
        self._low = low
        self._ask_for_turn: Callable[[], None] = _nothing
        self._has_turn = False  # whether a turn was asked for, or what handles the items is at work

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self.items)

    def add(self, item: Item) -> None:
        """Something happened; it is handled in its turn."""
        self.items.append(item)
        if not self._has_turn:  # `wake`, in place: most that happens comes here
            self._has_turn = True
            self._ask_for_turn()

    def begins(self, ask_for_turn: Callable[[], None]) -> None:
        """What handles the items is at work from now on; once it rests, `ask_for_turn` has it take a turn."""
        self._has_turn = True
        self._ask_for_turn = ask_for_turn

    def rests(self) -> None:
        """What handles the items has nothing to do, until it is woken."""
        self._has_turn = False

    def wake(self) -> None:
        """Ask for a turn, unless there is one: there is something to do, here or elsewhere."""
        if not self._has_turn:
            self._has_turn = True
            self._ask_for_turn()

    def next(self) -> Event | None:
        """The next event that did happen, None if there is none."""
        items = self.items
        while items:
            event = items.popleft()
            # Not `isinstance`, to which a struct of another type says no slowly.
            if type(event) is Received or type(event) is Written:  # most are
                return event
            if type(event) is FromTimer:
                # Asked now: a message before it in the inbox may have restarted the timer.
                if event.timer.holds(event.token):
                    return event.event
            elif type(event) is LowTurn:
                self._let_low_go()
            elif type(event) is Propose:
                return self._with_those_behind(event)
            else:
                return event
        return None

    def _with_those_behind(self, first: Propose) -> Propose | ProposeAll:
        """A command and those that follow it in the inbox, as one event."""
        commands = [first]
        while self.items and type(command := self.items[0]) is Propose:
            commands.append(command)
            self.items.popleft()
        return first if len(commands) == 1 else ProposeAll(commands)

    def _let_low_go(self) -> None:
        commands, more = self._low.batch()
        self.items.extendleft(reversed(commands))
        if more:
            reached("low commands waited for their turn")
            self.items.append(LowTurn())


def _nothing() -> None:
    """There is no turn to be asked for before a group runs."""
