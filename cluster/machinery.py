"""How a member carries out what its machine asks for: timers, commands of its own, checkpoints (RA-23, RA-24)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from splitbrain.cluster.executor import Action, Executor, LookAt, StartTimer, StopTimer
from splitbrain.cluster.machine import (
    AppendCommand,
    Machine,
    MachineEffect,
    ReleaseCursor,
    SendToClient,
    WriteCheckpoint,
)
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import names
from splitbrain.cluster.place import Place
from splitbrain.cluster.raft import Entry, Raft
from splitbrain.cluster.requests import Requests
from splitbrain.cluster.runtime import Timer
from splitbrain.cluster.snapshotting import Snapshotting
from splitbrain.cluster.wire import Deliver, Failure, Outcome

_MS: Final = 1_000_000

RETRY_MS: Final = 100
"""After so long a busy leader is asked again to take a command of its machine. Commands behind it may overtake it."""


class Machinery:
    """The effects of one member, and the world that they need.

    Args:
        group: its name.
        place: the node.
        requests: of the group.
        snapshots: of the member.
        raft: of the member; it is only looked at.
    """

    def __init__(self, group: str, place: Place, requests: Requests, snapshots: Snapshotting, raft: Raft) -> None:
        self._group = group
        self._clock = place.runtime.clock
        self._links = place.links
        self._node = place.config.node
        self._requests = requests
        self._snapshots = snapshots
        self._deliver = place.deliver
        self._executor = Executor(self._node, raft.last_index, lambda node: node in names(raft.configuration.voters))
        self._timers: dict[str, Timer] = {}
        self._leads_in: int | None = None

    def role_changed(self, term: int, *, leads: bool) -> None:
        """The member leads this term from now on, or does not lead."""
        self._leads_in = term if leads else None
        self._act(self._executor.role_changed(leads=leads))

    def began_term(self, term: int, machine: Machine) -> None:
        """The no-op of a term was applied: a leader of that term has applied all that came before it."""
        if term == self._leads_in:
            self._act(self._executor.begin(machine.begin_leading()))

    def applied(self, entry: Entry, effects: Sequence[MachineEffect], dump: Callable[[], bytes]) -> None:
        """The machine applied an entry, with these effects; `dump` gives the state there.

        Raises:
            OSError: a checkpoint could not be written; the node must stop.
        """
        for action in self._executor.applied(entry.index, effects):
            if isinstance(action, WriteCheckpoint):
                self._snapshots.checkpoint(entry, dump)
            else:
                self._act([action])

    def node_changed(self, node: str) -> None:
        """The link to a node came up, or broke."""
        self._act(self._executor.node_changed(node, is_up=node == self._node or self._links.is_up(node)))

    def stop(self) -> None:
        """Do nothing any more."""
        self.role_changed(0, leads=False)

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case StartTimer(name, delay_ms):
                    self._stop_timer(name)
                    self._timers[name] = self._clock.call_later(delay_ms * _MS, partial(self._timed_out, name))
                case StopTimer(name):
                    self._stop_timer(name)
                case LookAt(node):
                    self.node_changed(node)
                case AppendCommand(data):
                    self._append(data)
                case SendToClient(client, data):
                    self._deliver(Deliver(client, data, self._group))
                case ReleaseCursor(index):
                    self._snapshots.release(index)
                case WriteCheckpoint():
                    raise AssertionError("only an entry has a state to write down")

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _timed_out(self, name: str) -> None:
        reached("timer of the machine ran out")
        del self._timers[name]
        self._act(self._executor.timed_out(name))

    def _append(self, data: bytes) -> None:
        self._requests.from_node(data, partial(self._answered, data))

    def _answered(self, data: bytes, outcome: Outcome) -> None:
        if isinstance(outcome, Failure) and outcome.reason == "busy":
            reached("command of the machine waited for a busy leader")
            self._clock.call_later(RETRY_MS * _MS, partial(self._append, data))
