"""How a member carries out what its machine asks for: timers, monitors, commands, checkpoints (RA-23, RA-24)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from splitbrain.cluster.executor import Action, Executor, LookAt, LookAtClient, StartTimer, StartTimerAt, StopTimer
from splitbrain.cluster.machine import (
    AppendCommand,
    AttachWorker,
    ForgetQueue,
    Machine,
    MachineEffect,
    PublishDeadLetters,
    PutIntoQueue,
    ReadLog,
    ReleaseCursor,
    SendToClient,
    WantConfiguration,
    WriteCheckpoint,
)
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import names
from splitbrain.cluster.place import Place
from splitbrain.cluster.queuegroups.log import encode
from splitbrain.cluster.queuegroups.worker import DeadLetterWorker
from splitbrain.cluster.queues.commands import SettleDeadLetters
from splitbrain.cluster.raft import Entry, Raft
from splitbrain.cluster.reach import Reach
from splitbrain.cluster.requests import Requests
from splitbrain.cluster.runtime import Timer
from splitbrain.cluster.snapshotting import Snapshotting
from splitbrain.cluster.wire import AskForClient, ClientAddress, Deliver, Failure, Outcome, encode_peer

_MS: Final = 1_000_000

RETRY_MS: Final = 100
"""After so long a busy leader is asked again to take a command of its machine.

Commands behind it may overtake it, but for what is said of nodes (`Executor.again`).
"""

LOOK_MS: Final = 200
"""How often a leader looks whether the clients that its machine monitors are there."""


class Machinery:
    """The effects of one member, and the world that they need.

    Args:
        group: its address (`splitbrain.cluster.groupnames`).
        place: the node.
        requests: of the group.
        snapshots: of the member.
        raft: of the member; it is only looked at.
    """

    def __init__(self, group: str, place: Place, requests: Requests, snapshots: Snapshotting, raft: Raft) -> None:
        self._group = group
        self._clock = place.runtime.clock
        self._links = place.links
        self._reach = Reach(place.config.node, place.links, place.detector)
        self._node = place.config.node
        self._requests = requests
        self._snapshots = snapshots
        self._raft = raft
        self._deliver = place.deliver
        self._queues = place.queues
        self._is_connected = place.is_connected
        self._executor = Executor(self._node, raft.last_index, lambda node: node in names(raft.configuration.voters))
        self._timers: dict[str, Timer] = {}
        self._looking: Timer | None = None  # while clients are monitored
        self._leads_in: int | None = None
        self._worker: DeadLetterWorker | None = None
        self._bugs = place.config.bugs

    def role_changed(self, term: int, *, leads: bool) -> None:
        """The member leads this term from now on, or does not lead."""
        self._leads_in = term if leads else None
        self._end_worker()
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
        """The link to a node came up, or broke, or the node is taken for down, or no longer (RA-4)."""
        self._act(self._executor.node_changed(node, is_up=self._reach.is_up(node)))

    def client_gone(self, client: ClientAddress) -> None:
        """A client's connection is no more, as its node says."""
        self._act(self._executor.client_down(client, "gone"))

    def stop(self) -> None:
        """Do nothing any more."""
        self.role_changed(0, leads=False)

    def _act(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case StartTimer() | StartTimerAt() | StopTimer():
                    self._act_on_timer(action)
                case LookAt(node):
                    self.node_changed(node)
                case LookAtClient(client):
                    self._look_at(client)
                case AppendCommand(data):
                    self._append(data)
                case SendToClient(client, data):
                    self._deliver(Deliver(client, data, self._group))
                case ReadLog():
                    self._read(action)
                case PutIntoQueue() | AttachWorker() | PublishDeadLetters() | WantConfiguration() | ForgetQueue():
                    self._act_for_queue(action)
                case ReleaseCursor(index):
                    self._snapshots.release(index)
                case WriteCheckpoint():
                    raise AssertionError("only an entry has a state to write down")

    def _act_on_timer(self, action: StartTimer | StartTimerAt | StopTimer) -> None:
        match action:
            case StartTimer(name, delay_ms):
                self._start_timer(name, delay_ms * _MS)
            case StartTimerAt(name, at_ms):
                self._start_timer(name, max(0, at_ms * _MS - self._clock.wall_ns()))
            case StopTimer(name):
                self._stop_timer(name)

    def _act_for_queue(
        self, action: PutIntoQueue | AttachWorker | PublishDeadLetters | WantConfiguration | ForgetQueue
    ) -> None:
        match action:
            case AttachWorker(name, command):
                self._attach_worker(name, command)
            case PublishDeadLetters(worker, queue, letters):
                if self._worker is not None and self._worker.name == worker:
                    self._worker.take(queue, letters)
            case PutIntoQueue(queue, command):
                self._queues.publish(queue, command)
            case WantConfiguration():
                self._configure(self._leads_in)
            case ForgetQueue():
                self._queues.forget(self._group)

    def _attach_worker(self, name: str, command: bytes) -> None:
        self._end_worker()
        self._worker = DeadLetterWorker(
            name,
            self._queues.publish_confirmed,
            lambda number: self._append(encode(SettleDeadLetters((number,)))),
            lambda ms, call: self._clock.call_later(ms * _MS, call),
            self._bugs,
        )
        self._append(command)

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _start_timer(self, name: str, delay_ns: int) -> None:
        self._stop_timer(name)
        self._timers[name] = self._clock.call_later(delay_ns, partial(self._timed_out, name))

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _timed_out(self, name: str) -> None:
        reached("timer of the machine ran out")
        del self._timers[name]
        self._act(self._executor.timed_out(name))

    def _look_at(self, client: ClientAddress) -> None:
        if self._looking is None:
            self._looking = self._clock.call_later(LOOK_MS * _MS, self._look_again)
        if client.node == self._node:
            if not self._is_connected(client):
                self.client_gone(client)
        elif self._reach.is_up(client.node):
            self._links.send_to_node(client.node, encode_peer(AskForClient(client, self._group)))
        else:
            self._act(self._executor.client_down(client, "no_connection"))

    def _read(self, effect: ReadLog) -> None:
        log, commit = self._raft.log, self._raft.commit_index
        there = [index for index in effect.indexes if log.base_index < index <= commit]
        entries = tuple(entry for index in there for entry in log.slice(index, index))
        self._act(self._executor.read(effect.then(entries)))

    def _configure(self, term: int | None) -> None:
        """Put the configuration into the log, as soon as this node has it; in a later term its leader does."""
        if term is None or term != self._leads_in:
            return
        command = self._queues.configuration(self._group)
        if command is None:
            reached("queue waited for its record")
            self._clock.call_later(RETRY_MS * _MS, partial(self._configure, term))
        else:
            self._append(command)

    def _look_again(self) -> None:
        self._looking = None
        self._act(self._executor.look_again())

    def _append(self, data: bytes) -> None:
        self._requests.from_node(data, partial(self._answered, data))

    def _answered(self, data: bytes, outcome: Outcome) -> None:
        if isinstance(outcome, Failure) and outcome.reason == "busy":
            reached("command of the machine waited for a busy leader")
            self._clock.call_later(RETRY_MS * _MS, partial(self._append_again, data, self._leads_in))

    def _append_again(self, data: bytes, term: int | None) -> None:
        if term is not None and term == self._leads_in:  # else it ended with its leader
            self._act(self._executor.again(data))
