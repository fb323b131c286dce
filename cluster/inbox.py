"""What a group handles next: events in the order in which they happened, and turns of commands of low priority."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TypeAlias

from splitbrain.cluster.marks import reached
from splitbrain.cluster.priorities import LowCommands
from splitbrain.cluster.raft.events import ElectionTimeout, Event, HeartbeatTick, Propose, ProposeAll, Received
from splitbrain.cluster.timers import ElectionTimer, Heartbeat


@dataclass(frozen=True, slots=True)
class FromTimer:
    """An event that did not happen if its timer was stopped, or started anew, before it is handled."""

    event: ElectionTimeout | HeartbeatTick
    timer: ElectionTimer | Heartbeat
    token: int


class LowTurn:
    """Stands in the inbox where commands of low priority have their turn."""


Item: TypeAlias = Event | FromTimer | LowTurn


class Inbox:
    """What waits to be handled.

    Args:
        low: the commands of low priority that wait for a turn.
    """

    def __init__(self, low: LowCommands) -> None:
        self._items: deque[Item] = deque()
        self._low = low
        self._idle: asyncio.Future[None] | None = None  # while nothing is in the inbox

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._items)

    def add(self, item: Item) -> None:
        """Something happened; it is handled in its turn."""
        self._items.append(item)
        self.wake()

    def wake(self) -> None:
        """End a wait: there is something to do, here or elsewhere."""
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def wait(self) -> None:
        """Wait until there is something to do."""
        self._idle = asyncio.get_running_loop().create_future()
        await self._idle

    def next(self) -> Event | None:
        """The next event that did happen, None if there is none."""
        items = self._items
        while items:
            event = items.popleft()
            if isinstance(event, Received):  # most are messages
                return event
            if isinstance(event, Propose):
                return self._with_those_behind(event)
            if isinstance(event, LowTurn):
                self._let_low_go()
                continue
            if not isinstance(event, FromTimer):
                return event
            # Asked now: a message before it in the inbox may have restarted the timer.
            if event.timer.holds(event.token):
                return event.event
        return None

    def _with_those_behind(self, first: Propose) -> Propose | ProposeAll:
        """A command and those that follow it in the inbox, as one event."""
        commands = [first]
        while self._items and isinstance(command := self._items[0], Propose):
            commands.append(command)
            self._items.popleft()
        return first if len(commands) == 1 else ProposeAll(commands)

    def _let_low_go(self) -> None:
        commands, more = self._low.batch()
        self._items.extendleft(reversed(commands))
        if more:
            reached("low commands waited for their turn")
            self._items.append(LowTurn())
