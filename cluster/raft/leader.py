"""A member that leads a term: replication, commit, reads, and giving up when a majority is out of reach.

A `Leadership` begins with an election won and ends with `resign`; nothing of it outlives the term.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from splitbrain.cluster.bugs import M08, M11, M17, M23, M24, M27, M52, M80
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.effects import (
    Appended,
    Dropped,
    ReadReady,
    Rejected,
    SendChunk,
    TransferBegun,
    TransferRefusal,
)
from splitbrain.cluster.raft.events import Change, Propose, Read, Ref, Transfer
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.lease import Lease
from splitbrain.cluster.raft.membership import ChangeRefusal, encode_configuration
from splitbrain.cluster.raft.messages import (
    Append,
    AppendRefusal,
    AppendReply,
    Entry,
    EntryKind,
    NodeId,
    SnapshotReply,
    TimeoutNow,
)
from splitbrain.cluster.raft.progress import Progress
from splitbrain.cluster.raft.reads import ReadRounds
from splitbrain.cluster.raft.state import State
from splitbrain.cluster.raft.versions import encode_version

_EMPTY: Final[tuple[Entry, ...]] = ()

CHUNK_TICKS: Final = 10
"""After so many heartbeats without an answer a part of a snapshot is sent again: it may be a megabyte."""

MAX_CHUNK_TICKS: Final = 40
"""Each further time the wait is twice as long, but no longer than this.

(Ra: 5 s, twice as long each time, up to 60 s. Here a follower may be needed for a majority again within seconds.)
"""


class Leadership:
    """The leader's side of one term.

    Attributes:
        over: a configuration without this member is committed: it must resign (RA-30).
    """

    __slots__ = (
        "_applies_early",
        "_counts_lease_in_ticks",
        "_early_reads",
        "_followers",
        "_last_sent",
        "_last_sent_to",
        "_lease",
        "_noop_index",
        "_now_ns",
        "_reads",
        "_reads_unconfirmed",
        "_refs",
        "_state",
        "_stays",
        "_successor",
        "_tick",
        "_transfer_tick",
        "_voting",
        "over",
    )

    def __init__(self, state: State) -> None:
        self._state = state
        # The guess that all agree on everything: the no-op is the first probe (Raft 5.3).
        self._followers = {peer: Progress(state.log.last_index + 1) for peer in state.peers}
        self._voting: list[Progress] = [self._followers[voter] for voter in state.voters]
        self._refs: dict[int, Ref] = {}
        self._reads = ReadRounds()
        self._early_reads: list[Read] = []  # until the noop is committed the commit index is unknown (RA-27)
        self._lease = Lease(state.config.lease_ns) if state.config.lease_reads else None
        self._now_ns = 0  # of the last event that had it: never later than now
        self._tick = 0
        self._transfer_tick: int | None = None  # when another member was asked to lead
        self._successor: NodeId | None = None  # who was asked
        self._last_sent: Append | None = None
        self._last_sent_to = 0  # index of its last entry
        self._noop_index = state.log.last_index + 1
        self._applies_early = M17 in state.bugs
        self._reads_unconfirmed = M23 in state.bugs
        self._stays = M80 in state.bugs
        self._counts_lease_in_ticks = M27 in state.bugs
        self.over = False

    @property
    def lease_ends_ns(self) -> int | None:
        """Until when it takes its lease to hold; None if it has none."""
        return None if self._lease is None else self._lease.ends_ns

    def begin(self) -> None:
        """Append the noop that begins the term (RA-9) and send it to all followers."""
        # A later version than that of the log only if there is nobody to ask.
        self._append_noop(max(self._state.versions.current, self._supported_by_all()))

    # --- clients ----------------------------------------------------------------------------------------------

    def on_propose(self, event: Propose) -> None:
        """Append a command; `send_on` sends it on."""
        state = self._state
        if state.log.last_index - state.commit >= state.config.max_pending or self._waits_for_successor():
            state.out.append(Rejected(event.ref, state.node, "busy"))
            return
        index = state.log.last_index + 1
        if event.on_append:
            state.out.append(Appended(event.ref, index))
        else:
            self._refs[index] = event.ref
        self._add("command", event.data)
        if self._applies_early:
            state.apply_to(state.log.last_index, self._refs)

    def send_on(self) -> None:
        """Send all followers what they may be sent now."""
        for peer, follower in self._followers.items():
            self._send(peer, follower)

    def on_change(self, event: Change) -> None:
        """Append the configuration with the member, or without it; it is in force at once (RA-28)."""
        refusal = self._begin_change(event)
        if refusal is not None:
            reached("change of members refused")
            self._state.out.append(Rejected(event.ref, self._state.node, refusal))

    def on_transfer(self, event: Transfer) -> None:
        """Have another member stand for election at once, without asking whether it would win (RA-31).

        While one may still be elected a second one is not asked: nothing takes back what the first was asked, and both
        would stand in the same term. To ask the same one again is no more than what is under way.
        """
        state = self._state
        refusal = self._transfer_refusal(event.member)
        if refusal is not None:
            state.out.append(Rejected(event.ref, state.node, refusal))
            return
        if self._waits_for_successor():
            state.out.append(TransferBegun(event.ref))
            return
        self._successor = event.member
        if event.member != state.node:
            reached("leadership handed over")
            self._transfer_tick = self._tick
            if self._lease is not None:
                self._lease.end()
            state.send(event.member, TimeoutNow(state.term))
        state.out.append(TransferBegun(event.ref))

    def on_read(self, event: Read) -> None:
        """Note the commit index, and ask the others whether this node still leads."""
        state = self._state
        self._now_ns = max(self._now_ns, event.now_ns)
        if self._reads_unconfirmed:
            state.out.append(ReadReady(event.ref, state.applied))
        elif len(self._reads) + len(self._early_reads) >= state.config.max_pending:
            state.out.append(Rejected(event.ref, state.node, "busy"))
        elif state.commit < self._noop_index and M24 not in state.bugs:
            reached("read waited for the no-op")
            self._early_reads.append(event)
        else:
            self._add_reads([event])

    def resign(self, leader: NodeId | None) -> None:
        """Stop leading: reads did not happen (definite), the outcome of proposals is unknown (indefinite)."""
        out = self._state.out
        for ref in [*self._reads.refs(), *(read.ref for read in self._early_reads)]:
            reached("read refused as leadership was lost")
            out.append(Rejected(ref, leader, "not_leader"))
        for ref in self._refs.values():
            reached("command dropped")
            out.append(Dropped(ref))

    # --- followers --------------------------------------------------------------------------------------------

    def on_tick(self, now_ns: int) -> bool:
        """Send to every follower (RA-3). False, and no message, if too few have replied for too long (D12, RA-10)."""
        self._tick += 1
        self._now_ns = max(self._now_ns, now_ns)
        if not self._stays and not self._has_a_majority():
            return False
        if self._state.versions.current < self._state.versions.supported:
            self._raise_version()
        if self._lease is not None and self._reads.begin_empty():
            self._lease.began(self._reads.round, self._now_ns)
        self._send_to_all()
        return True

    def on_reply(self, sender: NodeId, message: AppendReply) -> None:
        """A follower agrees with us up to some index, and confirms a read round."""
        state = self._state
        if not message.durable <= message.matched <= state.log.last_index:
            raise InvariantError(
                f"{sender} claims to agree with {state.node} up to {message.matched} (durable {message.durable}), but "
                f"the log of term {state.term}'s leader ends at {state.log.last_index}."
            )
        follower = self._followers[sender]
        follower.heard_tick, follower.version = self._tick, message.version
        took_snapshot = follower.snapshot_sent
        follower.snapshot, follower.snapshot_sent = (0, 0), False
        advances = follower.on_agreement(message.matched, message.durable)
        if advances:
            # Before the round is confirmed or anything is sent: the next message then carries the new commit index.
            self._advance_commit()
        self._confirm(follower, message.round)
        learners = state.configurations.current.learners
        if sender in learners and (M52 not in state.bugs or (advances and not took_snapshot)):
            self._promote_if_due(sender, follower)
        self._send(sender, follower)

    def confirms_late(self, sender: NodeId, read_round: int) -> None:
        """With M26: an answer of an earlier term counts for a round of this one."""
        if sender in self._followers:
            self._confirm(self._followers[sender], read_round)

    def refused_by_later_term(self, sender: NodeId) -> None:
        """With M18: that a follower is in a later term shows that it is up, and no more."""
        if sender in self._followers:
            self._followers[sender].heard_tick = self._tick

    def on_refusal(self, sender: NodeId, message: AppendRefusal) -> None:
        """A follower lacks what we built on; its confirmation of a read round is as good as any."""
        follower = self._followers[sender]
        if self._tick - follower.heard_tick > CHUNK_TICKS:
            follower.chunk_repeats = 0  # it is back: what was sent meanwhile says nothing about what it can take
        # A refusal shows as well that the follower is up and in this term.
        follower.heard_tick, follower.version = self._tick, message.version
        try_index = self._state.log.last_of(message.try_term, message.try_index)
        if follower.on_refusal(message.prev_index, try_index):
            reached("follower's log did not match")
            self._send(sender, follower)
        self._confirm(follower, message.round)

    def on_snapshot_reply(self, sender: NodeId, message: SnapshotReply) -> None:
        """A follower has a part of the snapshot."""
        follower = self._followers[sender]
        follower.heard_tick, follower.version = self._tick, message.version
        if follower.snapshot != (message.index, message.offset):
            # Only news asks for the next part: of a part that came twice the second answer does not.
            follower.snapshot = (message.index, message.offset)
            follower.waiting = False
        self._confirm(follower, message.round)
        self._send(sender, follower)

    def on_written(self) -> None:
        """More of our own log is durable, which counts like a follower's (RA-12)."""
        self._advance_commit()

    def assert_authority(self, peer: NodeId) -> None:
        """Send at least one message to a peer that does not seem to know the leader (RA-5)."""
        self._send(peer, self._followers[peer], at_least_one=True)

    # --- inside -----------------------------------------------------------------------------------------------

    def _begin_change(self, change: Change) -> ChangeRefusal | None:
        state = self._state
        refusal = state.configurations.refusal(change, state.commit, self._noop_index)
        if refusal is None and self._waits_for_successor():
            refusal = "change_not_permitted"
        if refusal is not None:
            return refusal
        index = state.log.last_index + 1
        if change.ref is not None:
            self._refs[index] = change.ref
        self._append("config", encode_configuration(state.configurations.after(change, index)))
        # A smaller majority may have been reached before.
        self._advance_commit()
        self._confirm_rounds()
        return None

    def _supported_by_all(self) -> int:
        """The latest version of the state machine that all members, learners included, have said they understand."""
        return min([self._state.versions.supported, *(follower.version for follower in self._followers.values())])

    def _raise_version(self) -> None:
        """Put a later version of the state machine into force, if all members understand it (RA-43)."""
        state, version = self._state, self._supported_by_all()
        # What is appended while another member is to take over could keep it from being elected.
        if version > state.versions.current and state.commit >= self._noop_index and not self._waits_for_successor():
            reached("machine version raised")
            self._append_noop(version)

    def _append_noop(self, version: int) -> None:
        self._append("noop", encode_version(version))
        self._advance_commit()

    def _promote_if_due(self, learner: NodeId, follower: Progress) -> None:
        """Make a voter of a learner that has caught up; at its next answer, if it may not be done now.

        One that does not understand what it was sent would not be able to lead, and would apply nothing.
        """
        if follower.lacks(self._state.versions.current):
            return
        if self._state.configurations.due(learner, follower.match):
            change = Change(None, learner, joins=True, role="voter")
            if self._begin_change(change) is None:
                reached("learner became a voter")

    def _transfer_refusal(self, member: NodeId) -> TransferRefusal | None:
        if self._waits_for_successor():
            return None if member == self._successor else "transfer_under_way"
        if member == self._state.node:
            return None
        follower = self._followers.get(member)
        if follower is None:
            return "not_member"
        if member not in self._state.voters and M08 not in self._state.bugs:
            return "non_voter"
        if follower.lacks(self._state.versions.current):
            return "version_not_supported"
        # What was sent before comes before the TimeoutNow, on the same connection.
        return "not_up_to_date" if follower.probing or follower.next <= self._state.log.last_index else None

    def _waits_for_successor(self) -> bool:
        """Whether another member is just about to lead: what is appended now could keep it from being elected."""
        if self._transfer_tick is None:
            return False
        config = self._state.config
        return self._tick - self._transfer_tick <= config.election_max_ms // config.heartbeat_ms

    def _append(self, kind: EntryKind, data: bytes) -> None:
        self._add(kind, data)
        if kind == "config":
            self._follow_members()
        self.send_on()

    def _add(self, kind: EntryKind, data: bytes) -> None:
        state = self._state
        state.append((Entry(state.log.last_index + 1, state.term, kind, data),))

    def _follow_members(self) -> None:
        """Keep the progress of members that stay. A new member starts empty, and has the same time to answer."""
        known, self._followers = self._followers, {}
        for peer in self._state.peers:
            if peer not in known:
                known[peer] = Progress(self._state.log.last_index + 1)
                known[peer].heard_tick = self._tick
            self._followers[peer] = known[peer]
        self._voting = [self._followers[voter] for voter in self._state.voters]

    def _send_to_all(self) -> None:
        for peer, follower in self._followers.items():
            self._send(peer, follower, at_least_one=True)

    def _send(self, peer: NodeId, follower: Progress, *, at_least_one: bool = False) -> None:
        """Send what the follower may be sent now; with `at_least_one` one message even if it is empty."""
        log, config = self._state.log, self._state.config
        if follower.next > log.last_index and not (at_least_one or follower.probing):
            return  # it was sent everything, as when most replies come
        if follower.next <= log.base_index:
            self._send_snapshot(peer, follower, at_least_one=at_least_one)
            return
        if follower.probing:
            if follower.waiting and not at_least_one:
                return
            last = log.last_index
            count = 0 if follower.waiting else min(config.max_batch, last + 1 - follower.next)
            follower.waiting = True
            self._state.send(peer, self._message(follower.next, follower.next + count - 1))
            return
        # Counted from what is durable there: a follower whose disk is slow is not sent more than it can store.
        limit = min(log.last_index, follower.match + config.max_pipeline)
        while follower.next <= limit:
            last = min(limit, follower.next + config.max_batch - 1)
            self._state.send(peer, self._message(follower.next, last))
            follower.next = last + 1
            at_least_one = False
        if at_least_one:
            self._state.send(peer, self._message(follower.next, follower.next - 1))

    def _send_snapshot(self, peer: NodeId, follower: Progress, *, at_least_one: bool) -> None:
        """Send the next part of the snapshot, and at heartbeats a message without entries until it is answered."""
        state = self._state
        is_due = not follower.waiting or self._tick - follower.chunk_tick >= _chunk_ticks(follower)
        # One that does not understand it is sent heartbeats, until it is upgraded and says so.
        if is_due and not follower.lacks(state.versions.at(state.log.base_index)):
            reached("snapshot sent in parts")
            follower.chunk_repeats = follower.chunk_repeats + 1 if follower.waiting else 0
            follower.probing = follower.waiting = follower.snapshot_sent = True
            follower.chunk_tick = self._tick
            state.out.append(SendChunk(peer, state.term, self._reads.round, *follower.snapshot))
        elif at_least_one:
            # It builds on the last entry of the snapshot: a follower that has it by now says so.
            state.send(peer, self._message(state.log.base_index + 1, state.log.base_index))

    def _message(self, first: int, last: int) -> Append:
        """An Append with the entries from `first` to `last`. Followers in step are sent the very same object."""
        state = self._state
        previous = self._last_sent
        if (
            previous is not None
            and previous.prev_index == first - 1
            and self._last_sent_to == last
            and previous.round == self._reads.round
            and previous.commit == state.commit
        ):
            return previous
        entries = state.log.slice(first, last) if last >= first else _EMPTY
        message = Append(state.term, self._reads.round, state.commit, first - 1, state.log.term(first - 1), entries)
        self._last_sent, self._last_sent_to = message, last
        return message

    def _has_a_majority(self) -> bool:
        oldest = self._tick - self._state.config.quorum_ticks
        return self._state.votes + sum(f.heard_tick > oldest for f in self._voting) >= self._state.quorum

    def _of_majority(self, ours: int, theirs: list[int]) -> int:
        """The highest value that a majority of voters has reached. A leader that is to leave does not count itself."""
        if self._state.votes:
            theirs.append(ours)
        theirs.sort(reverse=True)
        return theirs[self._state.quorum - 1]

    def _advance_commit(self) -> None:
        """Commit what is durable on a majority, if its last entry is of this term (Raft 5.4.2, RA-12)."""
        state = self._state
        # An entry of an earlier term may be on a majority and still be overwritten (Raft, figure 8): it is committed
        # only with one of this term behind it.
        index = self._of_majority(state.written, [f.match for f in self._voting])
        if index <= state.commit or (state.log.term(index) != state.term and M11 not in state.bugs):
            return
        if state.commit < self._noop_index:
            reached("no-op committed")
        state.advance_commit(index, self._refs, self._counted())
        self.over = not state.votes and index >= state.configurations.index
        if self._early_reads:
            reads, self._early_reads = self._early_reads, []
            self._add_reads(reads)

    def _counted(self) -> tuple[tuple[NodeId, int], ...]:
        """How much of the log each voter of the configuration has acknowledged as durable, for telemetry."""
        state, followers = self._state, self._followers
        return tuple(
            (voter, state.written if voter == state.node else followers[voter].match)
            for voter in state.configurations.current.voters
        )

    def _add_reads(self, reads: Sequence[Read]) -> None:
        begun = False
        for read in reads:
            if self._needs_no_round(read):
                self._state.out.append(ReadReady(read.ref, self._state.commit))
            else:
                begun |= self._reads.add(read.ref, self._state.commit)
        if begun:
            self._begin_round()

    def _needs_no_round(self, read: Read) -> bool:
        if read.mode == "leader":
            return True
        if read.mode == "quorum" or self._lease is None:
            return False
        holds = self._has_a_majority() if self._counts_lease_in_ticks else self._lease.holds(read.now_ns)
        if holds:
            reached("read on a lease")
        else:
            reached("lease had run out")
        return holds

    def _begin_round(self) -> None:
        if self._lease is not None:
            self._lease.began(self._reads.round, self._now_ns)
        self._send_to_all()
        self._confirm_rounds()

    def _confirm(self, follower: Progress, read_round: int) -> None:
        if read_round > follower.round:
            follower.round = read_round
            self._confirm_rounds()

    def _confirm_rounds(self) -> None:
        confirmed = self._of_majority(self._reads.round, [f.round for f in self._voting])
        if self._lease is not None:
            self._lease.confirmed(confirmed)
        ready, begun = self._reads.confirm(confirmed)
        for ref, index in ready:
            self._state.out.append(ReadReady(ref, index))
        if begun:
            self._begin_round()


def _chunk_ticks(follower: Progress) -> int:
    """After how many heartbeats without an answer a part of a snapshot is sent to a follower again (RA-42)."""
    return min(CHUNK_TICKS << min(follower.chunk_repeats, MAX_CHUNK_TICKS.bit_length()), MAX_CHUNK_TICKS)
