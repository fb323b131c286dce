"""Triggers: stored procedures that run after changes of the tree (KH-13).

A command that changes what a trigger watches puts an event into a queue, which is part of the state. The leader then
puts `RunTriggered` into the log, and the members carry out what is first in the queue, as transactions, and take it out
of the queue: so an event is acknowledged in the same entry that carries it out. A leader that fails before leaves it in
the queue, and its successor begins with it. Khepri runs procedures outside of the log, and may run one twice; here the
entry may be in the log twice, and the second one finds nothing to do. One that fails is not tried again, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M54, M96, NO_BUGS, Bugs
from splitbrain.cluster.errors import InvalidPathError
from splitbrain.cluster.tree.messages import Action, Nodes, Refused, RegisterTrigger, Result
from splitbrain.cluster.tree.nodes import HASH_MASK, Before, hashed
from splitbrain.cluster.tree.paths import Path
from splitbrain.cluster.tree.patternindex import PatternIndex
from splitbrain.cluster.tree.patterns import Pattern, compiled, exact_path, loosened, matches_path
from splitbrain.cluster.tree.payloads import Properties
from splitbrain.cluster.tree.state import TreeState

MAX_TRIGGERS: Final = 1_024
MAX_PENDING: Final = 65_536
"""Events in the queue: a command that would make more is refused."""

MAX_CHAIN: Final = 8
"""How often a triggered procedure may lead to the next one: else one that triggers itself would never end."""

MAX_AT_ONCE: Final = 64
"""Events that one entry carries out."""

MAX_ID_LENGTH: Final = 255


class Event(msgspec.Struct, frozen=True, array_like=True):
    """A change that a trigger watches.

    Attributes:
        number: of the event, from 1 on.
        trigger: its id.
        action: what happened.
        path: to which node.
        procedure: where the procedure is stored.
        chain: how many triggered procedures led to it.
    """

    number: int
    trigger: str
    action: Action
    path: Path
    procedure: Pattern
    chain: int = 0


class _Dump(msgspec.Struct, frozen=True, array_like=True):
    triggers: list[RegisterTrigger]
    pending: list[Event]
    next_number: int


Lookup: TypeAlias = Callable[[Path], Properties | None]

_decoder = msgspec.msgpack.Decoder(_Dump)


class Triggers:
    """The triggers that are registered, and the events that wait: a part of the state."""

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self._bugs = bugs
        self._triggers: dict[str, RegisterTrigger] = {}
        self._index: PatternIndex[str] = PatternIndex()
        self._pending: dict[int, Event] = {}
        self._next_number = 1
        self._hash = 0

    @property
    def hash(self) -> int:
        """The sum, modulo 2**128, of a hash for each trigger and each event."""
        counted = 0 if self._next_number == 1 else hashed(["events", self._next_number])
        return (self._hash + counted) & HASH_MASK

    @property
    def last(self) -> int | None:
        """The number of the last event in the queue; None if it is empty."""
        return next(reversed(self._pending), None) if self._pending else None

    def registered(self) -> list[RegisterTrigger]:
        """The triggers, by their ids."""
        return [self._triggers[name] for name in sorted(self._triggers)]

    def pending(self) -> list[Event]:
        """The events that wait, in the order in which they are carried out."""
        return list(self._pending.values())

    def register(self, command: RegisterTrigger) -> Result:
        """Register a trigger, in the place of one of the same id."""
        try:
            pattern, procedure = compiled(command.path), compiled(command.procedure)
        except InvalidPathError as error:
            return Refused("invalid_path", detail=str(error))
        if exact_path(procedure) is None:
            return Refused("possibly_matching_many_nodes_denied", procedure)
        if not 0 < len(command.id) <= MAX_ID_LENGTH or not command.on_actions:
            return Refused(
                "invalid_options", detail=f"a trigger has an id of 1 to {MAX_ID_LENGTH} characters, and actions"
            )
        if command.id not in self._triggers and len(self._triggers) >= MAX_TRIGGERS:
            return Refused("limit_reached", detail=f"there are at most {MAX_TRIGGERS:,} triggers")
        self._forget(command.id)
        actions = tuple(sorted(set(command.on_actions)))
        self._add(RegisterTrigger(command.id, pattern, procedure, actions, command.priority))
        return Nodes((), 0)

    def unregister(self, ids: Iterable[str]) -> Result:
        """Forget triggers, and what they are still to run."""
        gone = dict.fromkeys(ids)
        for name in gone:
            self._forget(name)
        for event in [event for event in self._pending.values() if event.trigger in gone]:
            self._take(event)
        return Nodes((), 0)

    def notice(self, tree: TreeState, chain: int = 0) -> bool:
        """Queue the events of the command that the tree has just carried out; False if there are too many."""
        if not self._triggers or chain > MAX_CHAIN:
            return True
        found: list[tuple[RegisterTrigger, Action, Path]] = []
        for path, before in tree.changes().items():
            action = _action(before, tree.properties(path))
            candidates = self._index.matching(path) if action is not None else ()
            lookup = tree.properties_before if action == "delete" else tree.properties
            for name in candidates:
                trigger = self._triggers[name]
                if (
                    action is not None
                    and action in trigger.on_actions
                    and matches_path(self._matched(trigger.path), path, lookup)
                ):
                    found.append((trigger, action, path))
        if len(self._pending) + len(found) > MAX_PENDING:
            return False
        found.sort(key=lambda each: each[2], reverse=True)
        least_first = 1 if M96 in self._bugs else -1
        found.sort(key=lambda each: (least_first * each[0].priority, each[0].id))
        for trigger, action, path in found:
            self._put(Event(self._next_number, trigger.id, action, path, trigger.procedure, chain))
            self._next_number += 1
        return True

    def take(self, up_to: int) -> list[Event]:
        """Take the first events out of the queue, at most `MAX_AT_ONCE`, none behind this number."""
        taken = [event for event in self._pending.values() if event.number <= up_to][:MAX_AT_ONCE]
        for event in taken:
            self._take(event)
        return taken

    def take_all(self) -> None:
        """Take all events out of the queue."""
        for event in self.pending():
            self._take(event)

    def dump(self) -> bytes:
        """All of this part of the state; equal bytes for equal ones."""
        return msgspec.msgpack.encode(_Dump(self.registered(), self.pending(), self._next_number))

    @classmethod
    def load(cls, data: bytes, bugs: Bugs = NO_BUGS) -> Triggers:
        """The triggers whose `dump` this is.

        Raises:
            msgspec.DecodeError: these bytes are no dump (msgspec.ValidationError is one).
        """
        triggers, dump = cls(bugs), _decoder.decode(data)
        for trigger in dump.triggers:
            triggers._add(trigger)
        for event in dump.pending:
            triggers._put(event)
        triggers._next_number = dump.next_number
        return triggers

    def _add(self, trigger: RegisterTrigger) -> None:
        self._triggers[trigger.id] = trigger
        self._index.add(self._matched(trigger.path), trigger.id)
        self._hash = (self._hash + hashed(["trigger", trigger])) & HASH_MASK

    def _forget(self, name: str) -> None:
        trigger = self._triggers.pop(name, None)
        if trigger is not None:
            self._index.remove(self._matched(trigger.path), name)
            self._hash = (self._hash - hashed(["trigger", trigger])) & HASH_MASK

    def _matched(self, pattern: Pattern) -> Pattern:
        return pattern if M54 not in self._bugs else loosened(pattern)

    def _put(self, event: Event) -> None:
        self._pending[event.number] = event
        self._hash = (self._hash + hashed(["event", event])) & HASH_MASK

    def _take(self, event: Event) -> None:
        del self._pending[event.number]
        self._hash = (self._hash - hashed(["event", event])) & HASH_MASK


def _action(before: Before | None, now: Properties | None) -> Action | None:
    """What happened to a node; None if nothing that can be seen from outside."""
    if before is None:
        return None if now is None else "create"
    if now is None:
        return "delete"
    return None if before.properties() == now else "update"
