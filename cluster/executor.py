"""What a member does about the effects of its machine: a pure state machine.

Nothing is done about an entry that was in the log when the node started: it may have been applied before. What such an
entry asked for, and no leader has done, is for the machine's `begin_leading` to ask for again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from splitbrain.cluster.machine import (
    AppendCommand,
    AttachWorker,
    ClientDown,
    DemonitorClient,
    DemonitorNode,
    DownReason,
    EffectCommand,
    ForgetQueue,
    MachineEffect,
    MonitorClient,
    MonitorNode,
    NodeDown,
    NodeUp,
    PublishDeadLetters,
    PutIntoQueue,
    ReadLog,
    ReleaseCursor,
    SendToClient,
    SetTimer,
    SetTimerAt,
    Timeout,
    WantConfiguration,
    WriteCheckpoint,
)
from splitbrain.cluster.tree import encode_command
from splitbrain.cluster.wire import ClientAddress


class StartTimer(msgspec.Struct, frozen=True):
    """Call `timed_out` with this name after so many ms; a timer of the name that runs is stopped."""

    name: str
    delay_ms: int


class StartTimerAt(msgspec.Struct, frozen=True):
    """The same at this time of the wall clock, in ms since the Unix epoch, or at once."""

    name: str
    at_ms: int


class StopTimer(msgspec.Struct, frozen=True):
    """Stop the timer of this name."""

    name: str


class LookAt(msgspec.Struct, frozen=True):
    """Call `node_changed` for this node now, and whenever the leader's view of it changes."""

    node: str


class LookAtClient(msgspec.Struct, frozen=True):
    """Call `client_down` for this client if it is away, and `look_again` after a while."""

    client: ClientAddress


Action: TypeAlias = (
    StartTimer
    | StartTimerAt
    | StopTimer
    | LookAt
    | LookAtClient
    | AppendCommand
    | SendToClient
    | ReadLog
    | PutIntoQueue
    | AttachWorker
    | PublishDeadLetters
    | WantConfiguration
    | ForgetQueue
    | ReleaseCursor
    | WriteCheckpoint
)


class Executor:
    """The effects of one member.

    Args:
        node: name of this node.
        recovered: index of the last entry that the log had when the node started.
        votes: whether a voter of this name is in the configuration in force.
    """

    def __init__(self, node: str, recovered: int, votes: Callable[[str], bool]) -> None:
        self._node = node
        self._votes = votes
        self._recovered = recovered
        self._leads = False
        self._has_begun = False
        self._timers: dict[str, None] = {}
        self._down: dict[str, bool] = {}  # of the nodes that are monitored: what the log says of each
        self._clients: dict[ClientAddress, None] = {}  # those that are monitored

    def begin(self, effects: Sequence[MachineEffect]) -> list[Action]:
        """This member leads, and has applied the no-op of its term; what its machine wants done then."""
        self._has_begun = True
        return [action for effect in effects for action in self._carry_out(effect)]

    def read(self, effects: Sequence[MachineEffect]) -> list[Action]:
        """The entries of a `ReadLog` were read, and this is to be done."""
        return [action for effect in effects for action in self._carry_out(effect)]

    def role_changed(self, *, leads: bool) -> list[Action]:
        """This member leads from now on, or does not any more: timers and monitors end."""
        self._leads, self._has_begun = leads, False
        timers, self._timers, self._down, self._clients = self._timers, {}, {}, {}
        return [StopTimer(name) for name in timers]

    def applied(self, index: int, effects: Sequence[MachineEffect]) -> list[Action]:
        """The machine applied the entry of this index, with these effects."""
        if index <= self._recovered:
            return []
        return [action for effect in effects for action in self._carry_out(effect)]

    def timed_out(self, name: str) -> list[Action]:
        """A timer ran out."""
        del self._timers[name]
        return [_command(Timeout(name))]

    def node_changed(self, node: str, *, is_up: bool) -> list[Action]:
        """A node is up or down, in the eyes of this member."""
        actions: list[Action] = []
        if node in self._down and self._down[node] == is_up:
            self._down[node] = not is_up
            actions.append(_word(node, is_up=is_up))
        if not is_up:
            for client in [client for client in self._clients if client.node == node]:
                actions += self.client_down(client, "no_connection")
        return actions

    def client_down(self, client: ClientAddress, reason: DownReason) -> list[Action]:
        """A client is away, whether it is monitored or not."""
        if client not in self._clients:
            return []
        del self._clients[client]
        return [_command(ClientDown(client, reason))]

    def again(self, command: bytes) -> list[Action]:
        """A command that the leader was too busy to append is due again, in the same term.

        What the log says of a node last must be true: a word that was taken back meanwhile is not said any more.
        """
        void = [_word(node, is_up=is_down).data for node, is_down in self._down.items()]
        return [] if command in void else [AppendCommand(command)]

    def look_again(self) -> list[Action]:
        """Look at all clients that are monitored; nothing to do if there are none."""
        return [LookAtClient(client) for client in self._clients]

    def _carry_out(self, effect: MachineEffect) -> list[Action]:
        if isinstance(effect, (ReleaseCursor, WriteCheckpoint)):
            return [effect]
        if isinstance(effect, SendToClient) and effect.local and self._votes(effect.client.node):
            return [effect] if effect.client.node == self._node else []
        if not self._leads:
            return []
        match effect:
            case PutIntoQueue() if not self._has_begun:
                return []  # of an entry that a former leader may have applied: it is done once, or not at all
            case SetTimer():
                return self._set_timer(effect.name, effect.delay_ms)
            case SetTimerAt(name, at_ms):
                self._timers[name] = None
                return [StartTimerAt(name, at_ms)]
            case MonitorNode(node, is_down):
                if is_down:
                    self._down[node] = True
                self._down.setdefault(node, False)
                return [LookAt(node)]
            case DemonitorNode(node):
                self._down.pop(node, None)
                return []
            case MonitorClient(client):
                self._clients[client] = None
                return [LookAtClient(client)]
            case DemonitorClient(client):
                self._clients.pop(client, None)
                return []
            case _:
                return [effect]

    def _set_timer(self, name: str, delay_ms: int | None) -> list[Action]:
        if delay_ms is not None:
            self._timers[name] = None
            return [StartTimer(name, delay_ms)]
        if name not in self._timers:
            return []
        del self._timers[name]
        return [StopTimer(name)]


def _word(node: str, *, is_up: bool) -> AppendCommand:
    return _command(NodeUp(node) if is_up else NodeDown(node))


def _command(command: EffectCommand) -> AppendCommand:
    return AppendCommand(encode_command(command))
