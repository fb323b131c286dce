"""The coordinator of streams (ST-1): who writes a stream, in which epoch, and who copies it.

When a writer is down all members are stopped, which ends the epoch: a member that was stopped takes no part in it any
more. Once a majority has said where its log ends, the member with the longest one (`Position`) writes the next epoch,
and the others follow it. A majority had every committed chunk, so one of those that were asked has it, and no log is
further that lacks it (see `splitbrain.cluster.streams.member`).

Members change by such a choice, too: those that are stopped are of the old set, the next epoch is of the new one. The
next change waits until the beginning of that epoch is committed. A further member copies the stream first, without a
vote: else nothing could be committed before it has what the others have, if one of those has failed.

What a member is to do stands in the state. Each node does what its own copy of the state asks of its members, so that
nothing is lost with a leader. Results name the entry that asked; what is about another one is ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, TypeAlias

from splitbrain.cluster.bugs import M77, NO_BUGS, Bugs
from splitbrain.cluster.machine import ClientDown, MachineEffect, MonitorNode, NodeDown, NodeUp, SetTimer, Timeout
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import node_of
from splitbrain.cluster.streams.commands import (
    Accepted,
    AddReplica,
    Answered,
    CaughtUp,
    DeleteReplica,
    DeleteStream,
    Established,
    Failed,
    Gone,
    Ignored,
    Logged,
    MemberDown,
    NewStream,
    OfClients,
    OfMembers,
    SetPolicy,
    Started,
    Stopped,
    StreamRefused,
)
from splitbrain.cluster.streams.position import BEGIN
from splitbrain.cluster.streams.state import Action, Kind, Member, Phase, State, Stream

TICK: Final = "tick"
TICK_MS: Final = 30_000
"""How often everything is looked at again."""

RESTART: Final = "restart"
RESTART_MS: Final = 1000
"""After so long a replica that failed is begun again."""

RETRY: Final = "retry"
RETRY_MS: Final = 10_000
"""After so long without a result an action is asked for anew."""

STALE_MS: Final = 10_000
"""No replica is added while another one has not run for so long."""

MAX_STREAMS: Final = 1000

Applied: TypeAlias = tuple[Answered, Sequence[MachineEffect]]

_CHANGES_MEMBERS: Final = "members change one at a time, once the epoch of the last change has begun: try again later"


def majority(count: int) -> int:
    """How many of so many members are a majority."""
    return count // 2 + 1


def _found(stream: Stream, command: NewStream) -> Accepted | StreamRefused:
    """The answer to a declaration of a stream that is there."""
    if stream.part_of == command.part_of:
        return Accepted(stream.id)
    what = "a partition of none" if stream.part_of is None else f"a partition of {stream.part_of!r}"
    return StreamRefused("invalid", f"stream {stream.name!r} is there, as {what}")


class Coordinator:
    """The machine. Deterministic: its state and an entry say what comes of it.

    Args:
        state: where it goes on.
        bugs: those that are switched on.
    """

    def __init__(self, state: State, bugs: Bugs = NO_BUGS) -> None:
        self.state = state
        self._bugs = bugs
        self._index = self._now = 0

    def apply(self, index: int, now: int, command: Logged) -> Applied:
        """Apply an entry.

        Args:
            index: of the entry.
            now: in ms since the Unix epoch, by the leader that took it; it may go back.
            command: what it says.
        """
        self._index, self._now = index, now
        match command:
            case NewStream() | DeleteStream() | AddReplica() | DeleteReplica() | SetPolicy():
                return self._of_client(command)
            case Stopped() | Started() | Failed() | Gone() | MemberDown() | Established() | CaughtUp():
                stream = self.state.streams.get(command.stream)
                return (Ignored(), ()) if stream is None else self._of_member(stream, command)
            case NodeDown(node):
                self.state.down.add(node)
                return Accepted(0), self._node_changed(node)
            case NodeUp(node):
                self.state.down.discard(node)
                return Accepted(0), self._node_changed(node)
            case Timeout(name):
                return Accepted(0), self._timed_out(name)
            case ClientDown():
                return Ignored(), ()

    def begin_leading(self) -> Sequence[MachineEffect]:
        """Timers and monitors, for a new leader."""
        streams = self.state.streams.values()
        nodes = sorted({node for stream in streams for node in stream.nodes})
        monitors = [MonitorNode(node, node in self.state.down) for node in nodes]
        timers = [SetTimer(f"{name} {stream.id}", ms) for stream in streams for name, ms in _TIMERS]
        return (*monitors, *timers, *([SetTimer(TICK, TICK_MS)] if monitors else []))

    # --- clients --------------------------------------------------------------------------------------------------

    def _of_client(self, command: OfClients) -> Applied:
        stream = self.state.named(command.name)
        match command:
            case NewStream():
                return self._new(command) if stream is None else (_found(stream, command), ())
            case _ if stream is None:
                return StreamRefused("not_found", f"there is no stream {command.name!r}"), ()
            case DeleteStream():
                stream.is_deleted = True
                return Accepted(stream.id), self._evaluate(stream)
            case SetPolicy(_, preferred):
                stream.preferred = preferred
                return Accepted(stream.id), ()
            case AddReplica(_, _, epoch) | DeleteReplica(_, _, epoch) if epoch is not None and epoch != stream.epoch:
                return StreamRefused("not_now", f"epoch {epoch} is over: {stream.epoch} was chosen"), ()
            case AddReplica(_, member, _, failed):
                return self._add(stream, member, failed)
            case DeleteReplica(_, member, epoch):
                return self._remove(stream, member, by_operator=epoch is None)

    def _new(self, command: NewStream) -> Applied:
        if not command.members or len(set(command.members)) != len(command.members):
            return StreamRefused("invalid", "a stream has members, each once"), ()
        if len(self.state.streams) >= MAX_STREAMS:
            return StreamRefused("invalid", f"there are at most {MAX_STREAMS} streams"), ()
        first = not self.state.streams
        known = {node for stream in self.state.streams.values() for node in stream.nodes}
        members = {member: Member(since_ms=self._now) for member in sorted(command.members)}
        stream = Stream(self._index, command.name, members, tuple(members), command.preferred)
        stream.size, stream.target = max(command.size, len(members)), command.target
        stream.part_of = command.part_of
        stream.max_length_bytes, stream.max_age_ms = command.max_length_bytes, command.max_age_ms
        self.state.streams[stream.id] = stream
        monitors = self._monitors(node for node in stream.nodes if node not in known)
        tick = [SetTimer(TICK, TICK_MS)] if first else []
        return Accepted(stream.id, is_new=True), [*monitors, *tick, *self._evaluate(stream)]

    def _add(self, stream: Stream, member: str, failed: Collection[str]) -> Applied:
        if member in stream.members:
            leaves = stream.members[member].leaves
            return (
                StreamRefused("not_now", f"{member} leaves: try again later") if leaves else Accepted(stream.id)
            ), ()
        refusal = self._change_refusal(stream)
        if refusal is None:
            stale = (name for name, each in stream.members.items() if not each.leaves and self._is_stale(each))
            late = [name for name in stale if name not in failed]
            if late:
                refusal = StreamRefused("not_now", f"{', '.join(late)} must run first: it has not for 10 s")
        if refusal is not None:
            return refusal, ()
        members = {**stream.members, member: Member(since_ms=self._now, learns=True)}
        stream.members = dict(sorted(members.items()))
        return Accepted(stream.id, is_new=True), [*self._monitors([node_of(member)]), *self._evaluate(stream)]

    def _remove(self, stream: Stream, member: str, *, by_operator: bool) -> Applied:
        found = stream.members.get(member)
        if found is None or found.leaves:
            return Accepted(stream.id), ()
        refusal = None if found.learns else self._change_refusal(stream)
        stay = sum(1 for each in stream.members.values() if not each.leaves) - 1
        if refusal is None and not stay:
            refusal = StreamRefused("invalid", "a stream has at least one member: delete it instead")
        if refusal is not None:
            return refusal, ()
        found.leaves = True
        if by_operator:
            stream.size = min(stream.size, stay)
        return Accepted(stream.id), self._evaluate(stream) if found.learns else self._choose_anew(stream)

    def _change_refusal(self, stream: Stream) -> StreamRefused | None:
        if stream.is_settled and not stream.learners:
            return None
        return StreamRefused("not_now", _CHANGES_MEMBERS)

    def _is_stale(self, member: Member) -> bool:
        return member.phase != "running" and self._now - member.since_ms > STALE_MS

    def _choose_anew(self, stream: Stream) -> list[MachineEffect]:
        """End the epoch, so that the next one is of other members."""
        assert stream.writer is not None, "it runs"
        self._enter(stream.members[stream.writer], "down", stream.epoch)
        return self._evaluate(stream)

    def _monitors(self, nodes: Iterable[str]) -> list[MachineEffect]:
        return [MonitorNode(node, node in self.state.down) for node in nodes]

    # --- members --------------------------------------------------------------------------------------------------

    def _of_member(self, stream: Stream, command: OfMembers) -> Applied:
        if isinstance(command, Established):
            if command.epoch != stream.epoch:
                return Ignored(), ()
            stream.established = True
            return Accepted(stream.id), ()
        member = stream.members.get(command.member)
        if member is None:
            return Ignored(), ()
        if isinstance(command, MemberDown):
            return self._member_down(stream, command, member)
        if isinstance(command, CaughtUp):
            return self._caught_up(stream, command, member)
        action = member.action
        if action is None or action.index != command.action or action.kind not in _RESULTS[type(command)]:
            return Ignored(), ()
        member.action = None
        effects = self._done(stream, command, member, action)
        if isinstance(command, Failed) and action.kind != "write":
            return Accepted(stream.id), effects  # it is asked again in a moment
        return Accepted(stream.id), [*effects, *self._evaluate(stream)]

    def _done(
        self, stream: Stream, command: Stopped | Started | Failed | Gone, member: Member, action: Action
    ) -> list[MachineEffect]:
        match command:
            case Stopped():
                self._enter(member, "stopped", action.epoch)
                member.tail = command.tail
            case Started():
                self._enter(member, "running" if action.epoch == stream.epoch else "down", action.epoch)
            case Failed():
                self._enter(member, "down", action.epoch)
                return [SetTimer(f"{RESTART} {stream.id}", RESTART_MS)]
            case Gone():
                del stream.members[command.member]
        return []

    def _member_down(self, stream: Stream, command: MemberDown, member: Member) -> Applied:
        if member.phase not in ("running", "disconnected") or member.epoch != command.epoch:
            return Ignored(), ()
        self._enter(member, "down", member.epoch)
        if command.member == stream.writer:
            return Accepted(stream.id), self._evaluate(stream)
        return Accepted(stream.id), [SetTimer(f"{RESTART} {stream.id}", RESTART_MS)]

    def _caught_up(self, stream: Stream, command: CaughtUp, member: Member) -> Applied:
        if not member.learns or member.leaves or command.epoch != stream.epoch or not stream.is_settled:
            return Ignored(), ()  # it says so again
        reached("copy of a stream given a vote")
        member.learns = False
        return Accepted(stream.id), self._choose_anew(stream)

    def _enter(self, member: Member, phase: Phase, epoch: int) -> None:
        member.phase, member.epoch, member.since_ms = phase, epoch, self._now

    # --- nodes and time -------------------------------------------------------------------------------------------

    def _node_changed(self, node: str) -> list[MachineEffect]:
        is_down = node in self.state.down
        effects: list[MachineEffect] = []
        for stream in list(self.state.streams.values()):
            for name, member in stream.members.items():
                if node_of(name) != node:
                    continue
                if is_down and member.phase == "running":
                    self._enter(member, "disconnected", member.epoch)
                elif not is_down and member.phase == "disconnected":
                    # A writer whose node was out of reach is being replaced. A replica may have gone on; if its process
                    # is another one, its node says so.
                    still = member.epoch == stream.epoch and name != stream.writer
                    self._enter(member, "running" if still else "down", member.epoch)
            effects += self._evaluate(stream)
        return effects

    def _timed_out(self, timer: str) -> list[MachineEffect]:
        name, _, number = timer.partition(" ")
        if name == TICK:
            effects = [effect for stream in list(self.state.streams.values()) for effect in self._evaluate(stream)]
            return [*effects, *([SetTimer(TICK, TICK_MS)] if self.state.streams else [])]
        stream = self.state.streams.get(int(number))
        if stream is None:
            return []
        if name == RETRY:
            self._ask_anew(stream)
        return self._evaluate(stream)

    def _ask_anew(self, stream: Stream) -> None:
        for name, member in stream.members.items():
            action = member.action
            if action is not None and node_of(name) not in self.state.down and self._is_old(action):
                self._ask(member, action.kind, action.epoch)

    def _is_old(self, action: Action) -> bool:
        return not 0 <= self._now - action.since_ms < RETRY_MS

    # --- what is to be done ---------------------------------------------------------------------------------------

    def _evaluate(self, stream: Stream) -> list[MachineEffect]:
        """Ask members for what the state of the stream takes."""
        before = [member.action for member in stream.members.values()]
        if stream.is_deleted:
            for member in stream.members.values():
                self._want(member, "delete", stream.epoch)
            if not stream.members:
                del self.state.streams[stream.id]
        else:
            self._evaluate_epoch(stream)
        for member in stream.members.values():
            if member.leaves and not stream.is_deleted and self._has_left(stream, member):
                self._want(member, "delete", stream.epoch)
        asked = [member.action for member in stream.members.values()]
        has_asked = any(action is not None and action not in before for action in asked)
        return [SetTimer(f"{RETRY} {stream.id}", RETRY_MS)] if has_asked else []

    def _evaluate_epoch(self, stream: Stream) -> None:
        if stream.is_running:
            for name, member in stream.members.items():
                if name != stream.writer and member.phase not in ("running", "disconnected") and not member.leaves:
                    self._want(member, "follow", stream.epoch)
            return
        writer = None if stream.writer is None else stream.members.get(stream.writer)
        is_up = stream.writer is not None and node_of(stream.writer) not in self.state.down
        if writer is not None and is_up and writer.action is not None and writer.action.kind == "write":
            return  # it is about to begin
        for member in stream.members.values():
            if not self._is_stopped(stream, member) and not self._has_left(stream, member):
                self._want(member, "stop", stream.epoch)
        self._choose(stream)

    def _is_stopped(self, stream: Stream, member: Member) -> bool:
        return member.phase == "stopped" and member.epoch == stream.epoch

    def _has_left(self, stream: Stream, member: Member) -> bool:
        """Whether a member that leaves is of the epoch that was chosen last no more."""
        return member.leaves and not any(stream.members.get(name) is member for name in stream.voters)

    def _choose(self, stream: Stream) -> None:
        """Begin the next epoch, if enough members were stopped in this one: that with the longest log writes it."""
        stay = [name for name in stream.voters if not stream.members[name].leaves]
        stopped = {name: stream.members[name] for name in stay if self._is_stopped(stream, stream.members[name])}
        if len(stopped) < self._needed(stream, len(stay)) or self._waits_for_preferred(stream, stopped):
            return
        reached("writer of a stream chosen")

        def rank(name: str) -> tuple[object, ...]:
            return (stopped[name].tail or BEGIN, name == stream.preferred)

        chosen = max(sorted(stopped), key=rank)  # of equal ones that which comes first by name
        stream.epoch += 1
        stream.writer, stream.established = chosen, False
        stream.voters = tuple(name for name, each in stream.members.items() if not each.leaves and not each.learns)
        for name in stream.voters:
            member = stream.members[name]
            self._enter(member, "ready", stream.epoch)
            member.action = None
        self._want(stream.members[chosen], "write", stream.epoch)

    def _waits_for_preferred(self, stream: Stream, stopped: Collection[str]) -> bool:
        """Whether a new stream has a preferred writer that can be waited for: all logs are empty."""
        preferred = stream.preferred
        is_there = preferred in stream.voters and node_of(preferred or "") not in self.state.down
        return not stream.epoch and is_there and preferred not in stopped

    def _needed(self, stream: Stream, staying: int) -> int:
        """How many must be stopped, so that one of them is in every majority that confirmed in the old epoch."""
        if M77 in self._bugs:
            return 1
        count = len(stream.voters)
        return majority(count) if staying == count else count - majority(count) + 1

    def _want(self, member: Member, kind: Kind, epoch: int) -> None:
        action = member.action
        if action is None or (action.kind, action.epoch) != (kind, epoch):
            self._ask(member, kind, epoch)

    def _ask(self, member: Member, kind: Kind, epoch: int) -> None:
        member.action = Action(kind, self._index, epoch, self._now)


_TIMERS: Final = ((RETRY, RETRY_MS), (RESTART, RESTART_MS))
_RESULTS: Final[dict[type[OfMembers], tuple[Kind, ...]]] = {
    Stopped: ("stop",),
    Started: ("write", "follow"),
    Failed: ("stop", "write", "follow", "delete"),
    Gone: ("delete",),
}
