"""A member under the leader of one term: taking over the leader's log.

All that is known of the leader's log lives and dies with the term, so it can never be mistaken for knowledge about
another leader's (RA-14).
"""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.bugs import M12, M19, M20
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import Append, AppendRefusal, AppendReply, NodeId, SnapshotChunk, SnapshotReply
from splitbrain.cluster.raft.state import State

RECEIVE_TICKS: Final = 60
"""After so many heartbeats without a part a snapshot is given up: its leader begins again, if there is one.

Longer than any wait of a leader that sends a part again. (Ra: 30 s.) A part that is here already counts too: on a slow
link several of these come before a new one, since the leader sent them while it waited.
"""


class _Receiving:
    """A snapshot that comes in parts. It is dropped when the term ends: the next leader sends its own.

    Attributes:
        index: of the entry that it covers.
        state: what has come of it.
        idle_ticks: heartbeats since the last part.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.state = bytearray()
        self.idle_ticks = 0

    def take(self, chunk: SnapshotChunk) -> int:
        """Add a part if it follows what is there; how many bytes there are."""
        self.idle_ticks = 0
        if chunk.offset == len(self.state):
            self.state += chunk.data
        return len(self.state)


class Following:
    """What a member knows of one term's leader and of that leader's log.

    Attributes:
        leader: who leads this term, once known; it cannot change (RA-17).
        round: newest read round seen.
    """

    __slots__ = (
        "_answered_round",
        "_cuts_what_follows",
        "_receiving",
        "_reported",
        "_state",
        "_trusts_commit",
        "_validated",
        "leader",
        "round",
    )

    def __init__(self, state: State, read_round: int = 0) -> None:
        self.leader: NodeId | None = None
        self._state = state
        self._validated = 0  # our log agrees with this leader's up to here
        self.round = read_round
        self._answered_round = 0  # newest one that a reply was sent for
        self._reported = 0  # what we said last is durable
        self._receiving: _Receiving | None = None
        self._trusts_commit = M12 in state.bugs
        self._cuts_what_follows = M20 in state.bugs

    @property
    def is_receiving(self) -> bool:
        """Whether a part of a snapshot has come, and not all of it."""
        return self._receiving is not None

    @property
    def received_bytes(self) -> int:
        """How much of a snapshot has come, while parts of it are missing."""
        return 0 if self._receiving is None else len(self._receiving.state)

    def on_append(self, sender: NodeId, message: Append) -> None:
        """Take over entries and commit index, and answer."""
        state = self._state
        self._heard(sender, message.round)
        if not self._agrees(message):
            # A refusal confirms the round too: who leads does not depend on whose log matches.
            self._answered_round = self.round
            try_index = state.log.last_of(message.prev_term, message.prev_index - 1)
            try_term = state.log.term(try_index)
            refusal = AppendRefusal(
                state.term, self.round, message.prev_index, try_index, try_term, state.versions.supported
            )
            state.send(sender, refusal)
            return
        appended = self._take(message)
        agreed = message.prev_index + len(message.entries)
        if agreed > self._validated:
            self._validated = agreed
        if message.commit > state.commit:
            # Behind that, our entries may be an earlier leader's, and other entries may be committed there (RA-14).
            commit = min(message.commit, state.log.last_index if self._trusts_commit else self._validated)
            if commit > state.commit:
                state.advance_commit(commit)
        # New entries are answered when they are durable (`on_written`). A read round need not wait for the disk.
        if not appended or self.round > self._answered_round or state.counts_unsynced:
            self._reply(sender)

    def on_chunk(self, sender: NodeId, message: SnapshotChunk) -> None:
        """Collect a snapshot, and take it over when it is whole."""
        state = self._state
        self._heard(sender, message.round)
        if message.version > state.versions.supported:
            reached("snapshot of a later version refused")
            self._ask_for_more(sender, message.index, 0)
            return
        if message.index > state.commit:
            received = self._receiving
            if received is None or received.index < message.index:
                received = self._receiving = _Receiving(message.index)
            # A part of an older one has come late: the leader's snapshots only become newer.
            is_late = message.index < received.index
            if is_late or received.take(message) < message.size:
                self._ask_for_more(sender, received.index, len(received.state))
                return
            reached("snapshot installed")
            state.install(
                message.index, message.last_term, message.configurations, bytes(received.state), message.version
            )
        self._receiving = None
        # What is committed is the same in all logs, this leader's included.
        self._validated = max(self._validated, message.index)
        self._reply(sender)

    def on_tick(self) -> None:
        """A heartbeat's time has passed, and a part of a snapshot is here: give it up if no more comes (RA-42)."""
        receiving = self._receiving
        if receiving is None:
            return
        receiving.idle_ticks += 1
        if receiving.idle_ticks >= RECEIVE_TICKS:
            reached("snapshot given up")
            self._receiving = None

    def _ask_for_more(self, sender: NodeId, index: int, offset: int) -> None:
        """Say how much of a snapshot is here."""
        state = self._state
        self._answered_round = self.round
        state.send(sender, SnapshotReply(state.term, self.round, index, offset, state.versions.supported))

    def _heard(self, sender: NodeId, read_round: int) -> None:
        """A message of the leader came."""
        if self.leader is None:
            self.leader = sender
        elif self.leader != sender:
            raise InvariantError(f"two leaders in term {self._state.term}: {self.leader} and {sender}.")
        if read_round > self.round:
            self.round = read_round

    def on_written(self) -> None:
        """Tell the leader that more of what it sent is durable."""
        if self.leader is not None and min(self._state.written, self._validated) > self._reported:
            self._reply(self.leader)

    def _reply(self, leader: NodeId) -> None:
        state = self._state
        self._answered_round = self.round
        # Our durable tail may be another leader's: it counts only as far as it was compared with this one's.
        self._reported = min(state.written, self._validated)
        reply = AppendReply(state.term, self.round, self._validated, self._reported, state.versions.supported)
        state.send(leader, reply)

    def _agrees(self, message: Append) -> bool:
        """Whether our log has the entry that the message builds on."""
        state, log = self._state, self._state.log
        prev = message.prev_index
        if prev > log.last_index:
            return False
        if prev < log.base_index:
            return True  # committed here, so that every leader has it (Raft 5.4.3)
        if log.term(prev) == message.prev_term or M19 in state.bugs:
            return True
        # Leader completeness (Raft 5.4.3): a leader has every entry that is committed.
        if prev <= state.commit and not state.lets_committed_entries_go:
            raise InvariantError(
                f"{self.leader} leads term {state.term} without entry {prev} of term {log.term(prev)}, which "
                f"{state.node} knows to be committed."
            )
        return False

    def _take(self, message: Append) -> bool:
        """Append what is new; True if there was any. An older message, come late, takes nothing away."""
        log, entries = self._state.log, message.entries
        if self._cuts_what_follows and log.base_index <= message.prev_index + len(entries) < log.last_index:
            self._state.truncate(message.prev_index + len(entries) + 1)
        if not entries:
            return False
        if entries[0].index != message.prev_index + 1:
            raise InvariantError(f"entries from {entries[0].index} on were said to follow {message.prev_index}.")
        # Only a conflict removes entries: messages may overtake each other, and an entry that was reported must stay
        # (Raft 5.3).
        known = 0
        for entry in entries:
            if entry.index > log.last_index:
                break
            if entry.index > log.base_index and log.term(entry.index) != entry.term:
                if entry.index <= self._validated:
                    raise InvariantError(f"{self.leader} changed its own entry {entry.index} in term {message.term}.")
                self._state.truncate(entry.index)
                break
            known += 1
        if known == len(entries):
            return False
        self._state.append(entries[known:])
        return True
