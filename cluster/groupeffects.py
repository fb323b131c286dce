"""How a member of a group carries out what consensus asks for, except for what has to be waited for.

That is Persist and InstallSnapshot, for which the group itself waits (`splitbrain.cluster.group`). What concerns the
store is passed on to it (`splitbrain.cluster.groupstore`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from splitbrain.cluster import wire
from splitbrain.cluster.expiry import Expiry
from splitbrain.cluster.groupstore import GroupStore, Parts, member_list
from splitbrain.cluster.marks import reached
from splitbrain.cluster.members import node_of
from splitbrain.cluster.place import Place
from splitbrain.cluster.priorities import LowCommands
from splitbrain.cluster.raft import Raft
from splitbrain.cluster.raft import effects as fx
from splitbrain.cluster.raft.effects import Effect
from splitbrain.cluster.raft.messages import Append, Message, NodeId, PreVote, TimeoutNow, Vote
from splitbrain.cluster.storage import Storage
from splitbrain.cluster.timers import ElectionTimer, Heartbeat

_ASKS_FOR_A_VOTE: Final = (Vote, PreVote)


class Effects:
    """Carries out effects of one member.

    Args:
        name: of the group, as members speak of it.
        place: what the member shares with the node's other groups.
        storage: its files.
        raft: of the member; it is only looked at.
        parts: the member's other parts: of requests, reads, snapshots and telemetry.
        store: what it has applied.
        low: commands of low priority that wait for their turn.
        expiry: drops results by ref.
        election_timer: of the member.
        heartbeat: of the member.
        sender: from whom the message came that is being handled, if it is one.
    """

    def __init__(
        self,
        name: str,
        place: Place,
        storage: Storage,
        raft: Raft,
        parts: Parts,
        store: GroupStore,
        low: LowCommands,
        expiry: Expiry,
        election_timer: ElectionTimer,
        heartbeat: Heartbeat,
        sender: Callable[[], NodeId | None],
    ) -> None:
        self._name = name
        self._links = place.links
        self._supported = place.config.machine_version
        self._storage = storage
        self._raft = raft
        self._parts = parts
        self._state = store
        self._low = low
        self._expiry = expiry
        self._election_timer = election_timer
        self._heartbeat = heartbeat
        self._sender = sender
        self._most_pending = place.config.raft.max_pending
        self._said_outdated = False
        self._sent: tuple[Message, bytes] | None = None

    def executors(self) -> dict[type[Effect], Callable[[Any], None]]:
        """How each effect is carried out, except for Persist and InstallSnapshot, which are waited for."""
        requests = self._parts.requests
        return {
            fx.AppendLog: self._append,
            fx.TruncateLog: self._truncate,
            fx.Send: self._send,
            fx.SendChunk: self._send_chunk,
            fx.Apply: self._state.work.apply,
            fx.ReadReady: self._state.read_ready,
            fx.Appended: requests.appended,
            fx.Rejected: self._rejected,
            fx.TransferBegun: self._transfer_begun,
            fx.ShrunkByForce: lambda effect: requests.done(effect.ref, member_list(self._raft.configuration), 0),
            fx.Dropped: requests.dropped,
            fx.StartElectionTimer: lambda _: self._election_timer.start(),
            fx.StopElectionTimer: lambda _: self._election_timer.stop(),
            fx.StartHeartbeat: lambda _: self._heartbeat.start(),
            fx.StopHeartbeat: lambda _: self._heartbeat.stop(),
            fx.Voted: lambda effect: self._parts.telemetry.vote(node_of(effect.candidate)),
            fx.RoleChanged: self._role_changed,
            fx.MembersChanged: self._members_changed,
            # The Apply that follows reports it, with its hashes.
            fx.CommitAdvanced: self._committed,
            fx.Rebuild: self._state.work.add,
        }

    def _append(self, effect: fx.AppendLog) -> None:
        self._storage.append(effect.entries, effect.done)
        self._parts.telemetry.appended(effect.entries)

    def _truncate(self, effect: fx.TruncateLog) -> None:
        self._parts.telemetry.cut(effect.from_index - 1)
        self._state.cut(effect.from_index - 1)
        self._storage.truncate(effect.from_index)

    def _send(self, effect: fx.Send) -> None:
        # Followers in step are sent the very same message.
        sent, message = self._sent, effect.message
        if type(message) in _ASKS_FOR_A_VOTE:
            self._parts.telemetry.asked[effect.to] = message.term
        if sent is None or sent[0] is not message:
            if type(message) is Append or type(message) is TimeoutNow:
                self._parts.read_facts.sent(message)
            sent = self._sent = (message, wire.encode_peer(message, self._name))
        self._links.send(effect.to, sent[1])

    def _send_chunk(self, effect: fx.SendChunk) -> None:
        self._parts.read_facts.round_sent(effect.term, effect.round)
        self._links.send(effect.to, wire.encode_peer(self._parts.snapshots.chunk(effect), self._name))

    def _rejected(self, effect: fx.Rejected) -> None:
        if effect.reason == "busy" and not effect.ref.is_query:
            self._parts.telemetry.busy(self._raft.last_index - self._raft.commit_index, self._most_pending)
        self._parts.requests.rejected(effect)

    def _transfer_begun(self, effect: fx.TransferBegun) -> None:
        self._parts.telemetry.handing_over()
        self._parts.requests.done(effect.ref, member_list(self._raft.configuration), 0)

    def _committed(self, effect: fx.CommitAdvanced) -> None:
        self._storage.committed(effect.index)
        if effect.counted:
            self._parts.telemetry.counts(effect)
        if self._raft.is_outdated and not self._said_outdated:
            self._said_outdated = True
            reached("member is outdated")
            self._parts.log(
                f"version {self._raft.version} of the state machine is in force, and this node supports "
                f"{self._supported} at most: it applies nothing more, until it is started with a later one"
            )

    def _role_changed(self, effect: fx.RoleChanged) -> None:
        self._parts.log(f"{effect.role} in term {effect.term}, leader {effect.leader or 'unknown'}")
        # Without its own no-op: checkers compare the log that it was elected with.
        if effect.role == "leader":
            self._parts.telemetry.role(self._raft.last_index - 1, self._sender(), dict(self._raft.votes))
        else:
            self._parts.telemetry.role(None, self._sender())
        if effect.leader is not None:
            self._state.leader_is_known(effect.term)
        self._parts.requests.leader_changed(effect.leader)
        self._parts.machinery.role_changed(effect.term, leads=effect.role == "leader")
        if effect.role != "leader":
            for command in self._low.drop():
                self._parts.requests.overtaken(command)
        self._expiry.reset()

    def _members_changed(self, effect: fx.MembersChanged) -> None:
        learners = effect.configuration.learners
        voters = f"members {', '.join(effect.configuration.voters)}"
        self._parts.log(voters + (f"; learners {', '.join(learners)}" if learners else ""))
        self._links.open(effect.configuration.members)
        self._parts.read_facts.voters_changed(effect.configuration.voters)
        self._parts.telemetry.members(self._raft.configured_at, self._raft.step)
