"""One member of a cluster as a state machine: terms, elections, and who handles what in which role."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from splitbrain.cluster.bugs import M01, M02, M04, M05, M06, M07, M08, M18, M25, M26, M45, M46, NO_BUGS, Bugs
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.candidacy import Candidacy, is_up_to_date
from splitbrain.cluster.raft.config import Config
from splitbrain.cluster.raft.effects import (
    Effect,
    Persist,
    Rejected,
    Role,
    RoleChanged,
    ShrunkByForce,
    StartElectionTimer,
    StartHeartbeat,
    StopElectionTimer,
    StopHeartbeat,
    Voted,
)
from splitbrain.cluster.raft.events import (
    Change,
    Compacted,
    ElectionTimeout,
    Event,
    ForceShrink,
    HeartbeatTick,
    Propose,
    ProposeAll,
    Read,
    Received,
    Start,
    Transfer,
    Written,
)
from splitbrain.cluster.raft.follower import Following
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.leader import Leadership
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.raft.membership import Configuration, Step, encode_configuration, encode_configurations
from splitbrain.cluster.raft.messages import (
    OLDEST,
    Append,
    AppendRefusal,
    AppendReply,
    Entry,
    Message,
    NodeId,
    PreVote,
    PreVoteReply,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    Vote,
    VoteReply,
)
from splitbrain.cluster.raft.recovered import Recovered
from splitbrain.cluster.raft.state import State

_START_ELECTION_TIMER: Final = StartElectionTimer()
_STOP_ELECTION_TIMER: Final = StopElectionTimer()
_START_HEARTBEAT: Final = StartHeartbeat()
_STOP_HEARTBEAT: Final = StopHeartbeat()
_ROLES_WITH_TICKS: Final = ("candidate", "leader")


class Raft:
    """A member of a cluster.

    Deterministic: the same events give the same effects. An exception out of `handle` means that the machine cannot be
    used any more, and the node must stop.

    Args:
        node: this member's id, which no other member has or ever had.
        voters: ids of the members with which the cluster began, the same on all members; its log says who they are
            now (`splitbrain.cluster.raft.membership`). A node that is none of them waits for a message of a leader,
            and one that is stands when its timer runs out, although it has met no other yet (RA-1).
        recovered: what it had stored.
        config: times and limits.
        version: the latest version of the state machine that this member understands.
        bugs: what is broken on purpose.

    Raises:
        ValueError: there are no voters, or one is named twice.
        InvariantError: what was recovered is not what a member stores.
    """

    __slots__ = (
        "_announced",
        "_blocked_by_chunks",
        "_bugs",
        "_candidacy",
        "_following",
        "_forgets",
        "_handlers",
        "_leader",
        "_leader_is_silent",
        "_leadership",
        "_persisted",
        "_receivers",
        "_role",
        "_standing",
        "_state",
        "_ticking",
        "_voted_for",
    )

    def __init__(
        self,
        node: NodeId,
        voters: Sequence[NodeId],
        recovered: Recovered | None = None,
        *,
        config: Config | None = None,
        version: int = OLDEST,
        bugs: Bugs = NO_BUGS,
    ) -> None:
        if not voters or len(set(voters)) != len(voters):
            raise ValueError(f"{node} must be given the voters, each named once: {', '.join(voters) or 'none'}.")
        recovered = recovered or Recovered()
        log = Log(recovered.entries, bugs, base_index=recovered.base_index, base_term=recovered.base_term)
        # Persist is durable before any entry of its term is written, so a disk never has an entry of a later term.
        if log.last_term > recovered.term and not (M02 in bugs or M45 in bugs):
            raise InvariantError(f"{node} stored term {recovered.term}, but an entry of term {log.last_term}.")
        versions = version, recovered.version
        self._state = State(
            node, voters, log, recovered.term, config or Config(), bugs, recovered.configurations, versions
        )
        self._following = Following(self._state)
        self._leadership: Leadership | None = None
        self._role: Role = "follower"
        self._leader: NodeId | None = None
        self._leader_is_silent = False
        self._voted_for = recovered.voted_for
        self._persisted = (recovered.term, recovered.voted_for)
        self._candidacy = Candidacy(self._state)
        self._ticking = False
        self._bugs = bugs
        self._forgets = M01 in bugs or M02 in bugs
        self._blocked_by_chunks = M46 in bugs
        self._announced: tuple[Role, int, NodeId | None] | None = None
        self._standing: tuple[int, NodeId | None, Role, NodeId | None] | None = None
        self._handlers: dict[type, Callable[[Any], None]] = {
            Start: self._on_start,
            ElectionTimeout: self._on_election_timeout,
            HeartbeatTick: self._on_heartbeat_tick,
            Received: self._on_received,
            Written: self._on_written,
            Compacted: self._on_compacted,
            Propose: self._on_request,
            ProposeAll: self._on_propose_all,
            Read: self._on_request,
            Change: self._on_request,
            Transfer: self._on_request,
            ForceShrink: self._on_force_shrink,
        }
        self._receivers: dict[type, Callable[[NodeId, Any], None]] = {
            PreVote: self._on_pre_vote,
            PreVoteReply: self._on_pre_vote_reply,
            Vote: self._on_vote,
            VoteReply: self._on_vote_reply,
            Append: self._on_append,
            AppendReply: self._on_append_reply,
            AppendRefusal: self._on_append_refusal,
            SnapshotChunk: self._on_chunk,
            SnapshotReply: self._on_snapshot_reply,
            TimeoutNow: self._on_timeout_now,
        }

    # --- for the shell, telemetry and tests -------------------------------------------------------------------

    @property
    def node(self) -> NodeId:
        """This member's id."""
        return self._state.node

    @property
    def configuration(self) -> Configuration:
        """The configuration in force, committed or not; this node may not be in it."""
        return self._state.configurations.current

    @property
    def members(self) -> tuple[NodeId, ...]:
        """All members of the configuration in force, voters and learners, sorted."""
        return self._state.configurations.current.members

    @property
    def role(self) -> Role:
        """What it is now."""
        return self._role

    @property
    def term(self) -> int:
        """Its current term."""
        return self._state.term

    @property
    def voted_for(self) -> NodeId | None:
        """The node that it voted for in this term."""
        return self._voted_for

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as it knows; None once its leader has been silent for an election timeout."""
        return self._leader

    @property
    def configured_at(self) -> int:
        """Index of the entry that put its configuration into force; 0 for that of the founders."""
        return self._state.configurations.index

    @property
    def step(self) -> Step | None:
        """How the configuration in force was appended; None if what is in force was in a snapshot, or came back."""
        return self._state.step

    @property
    def voter_by(self) -> int | None:
        """Index of the entry that has it as a voter, in force or just before that; None if it understands no such log.

        What it could not apply, it could not answer: then it does not stand (RA-43).
        """
        return self._state.configurations.voter_by(self._state.node) if self._can_lead() else None

    @property
    def votes(self) -> tuple[tuple[NodeId, int], ...]:
        """The votes that it counted in its last attempt to lead, each with the term of the message that granted it."""
        return self._candidacy.granted

    @property
    def last_index(self) -> int:
        """Index of the last entry of the log, durable or not; that of a leader's own no-op right after its election."""
        return self._state.log.last_index

    @property
    def commit_index(self) -> int:
        """What it knows to be committed."""
        return self._state.commit

    @property
    def applied_index(self) -> int:
        """The index up to which entries were given to the state machine."""
        return self._state.applied

    @property
    def received_bytes(self) -> int:
        """How much of a snapshot has come, while parts of it are missing; 0 if none comes."""
        return self._following.received_bytes

    @property
    def written_index(self) -> int:
        """How far its log is durable."""
        return self._state.written

    @property
    def log(self) -> Log:
        """Its log; to be read only."""
        return self._state.log

    @property
    def version(self) -> int:
        """The version of the state machine that it knows to be in force."""
        return self._state.versions.at(self._state.commit)

    @property
    def newest_version(self) -> int:
        """The version of the state machine at the end of its log, committed or not."""
        return self._state.versions.current

    @property
    def is_outdated(self) -> bool:
        """Whether it does not understand the version in force: then it applies nothing more, until it is upgraded."""
        return self._state.commit > self._state.versions.understood

    @property
    def lease_ends_ns(self) -> int | None:
        """Until when, by the clock of its events, it takes its lease on the leadership to hold; None if it has none."""
        return None if self._leadership is None else self._leadership.lease_ends_ns

    def version_at(self, index: int) -> int:
        """The version of the state machine that is in force after an entry of the log."""
        return self._state.versions.at(index)

    def configuration_at(self, index: int) -> Configuration:
        """The configuration in force at an entry that was applied here, or is in the log behind that."""
        return self._state.configurations.upto(index)[-1][1]

    def configured_by(self, index: int) -> tuple[int, Configuration]:
        """What the log up to an entry puts into force, and the index of the entry that does; for telemetry.

        Where the log ends there, that is what this member has in force.
        """
        configurations = self._state.configurations
        if index == self._state.log.last_index:
            return configurations.index, configurations.current
        return configurations.upto(index)[-1]

    def configurations(self, index: int) -> bytes:
        """The configurations in the log up to an index, for a snapshot of that entry."""
        return encode_configurations(self._state.configurations.upto(index))

    def handle(self, event: Event) -> list[Effect]:
        """What must be done about an event, in order (see `splitbrain.cluster.raft.effects`).

        Raises:
            InvariantError: something happened that consensus rules out.
        """
        state = self._state
        out: list[Effect] = []
        state.out = out
        self._handlers[type(event)](event)
        if self._leadership is not None and self._leadership.over:
            reached("leader left")
            self._step_down()
        if self._ticking and self._role not in _ROLES_WITH_TICKS and not self._following.is_receiving:
            self._ticking = False
            out.append(_STOP_HEARTBEAT)
        standing = (state.term, self._voted_for, self._role, self._leader)
        if standing != self._standing:  # after few events, so that this is the one comparison for most
            self._standing = standing
            self._say_what_changed(out)
        return out

    def _say_what_changed(self, out: list[Effect]) -> None:
        """Have term and vote persisted, and term, role and leader announced, where they are others."""
        term = self._state.term
        vote = (term, self._voted_for) if not self._forgets else self._what_is_not_forgotten()
        if vote != self._persisted:
            # First of all, so that nothing of this event leaves the node before it is durable (RA-6).
            out.insert(0, Persist(*vote))
            self._persisted = vote
        announced = (self._role, term, self._leader)
        if announced != self._announced:
            out.append(RoleChanged(*announced))
            self._announced = announced

    def _what_is_not_forgotten(self) -> tuple[int, NodeId | None]:
        """What M01 and M02 leave of term and vote."""
        return (0 if M02 in self._state.bugs else self._state.term, None)

    # --- time and disk ----------------------------------------------------------------------------------------

    def _on_start(self, _: Start) -> None:
        # A leader may be alive: until our own timer has run out we do not help to replace it.
        self._state.out.append(_START_ELECTION_TIMER)

    def _on_election_timeout(self, _: ElectionTimeout) -> None:
        if self._role == "leader":
            return
        if self._can_lead() and self._state.configurations.lets_stand(self._state.node, self._state.commit):
            self._stand_before_election()
            self._note_candidacy()
        else:
            self._leader = None
            self._leader_is_silent = True

    def _note_candidacy(self) -> None:
        state = self._state
        if state.node not in state.configurations.current.voters:
            reached("removed member stood")
        if any(peer not in state.voters for peer in state.peers):
            reached("candidate beside a learner")

    def _can_lead(self) -> bool:
        """Whether it understands all of its log: what it could not apply, it could not answer (RA-43)."""
        return self._state.versions.understands_all

    def _on_heartbeat_tick(self, event: HeartbeatTick) -> None:
        if self._leadership is not None:
            if not self._leadership.on_tick(event.now_ns):
                reached("leader heard no majority")
                self._step_down()
        elif self._role == "candidate":
            reached("vote asked for again")
            self._candidacy.ask()
        else:
            self._following.on_tick()

    def _on_written(self, event: Written) -> None:
        if self._state.wrote(event):
            self._more_is_durable()

    def _more_is_durable(self) -> None:
        if self._leadership is not None:
            self._leadership.on_written()
        elif self._role == "follower":
            self._following.on_written()

    def _on_compacted(self, event: Compacted) -> None:
        if self._state.compact(event.index):
            self._more_is_durable()

    # --- clients ----------------------------------------------------------------------------------------------

    def _on_request(self, event: Propose | Read | Change | Transfer) -> None:
        leadership = self._leadership
        if leadership is None:
            self._state.out.append(Rejected(event.ref, self._leader, "not_leader"))
        elif type(event) is Propose:
            leadership.on_propose(event)
            leadership.send_on()
        elif type(event) is Read:
            leadership.on_read(event)
        elif isinstance(event, Change):
            leadership.on_change(event)
        else:
            leadership.on_transfer(cast("Transfer", event))

    def _on_propose_all(self, event: ProposeAll) -> None:
        leadership = self._leadership
        for command in event.commands:
            if leadership is None:
                self._on_request(command)
            else:
                leadership.on_propose(command)
        if leadership is not None:
            leadership.send_on()

    def _on_force_shrink(self, event: ForceShrink) -> None:
        """Begin a term with this node alone: its configuration comes first, so that it needs no vote."""
        state = self._state
        if not self._can_lead():
            state.out.append(Rejected(event.ref, self._leader, "version_not_supported"))
            return
        reached("shrunk by force")
        self._enter_term(state.term + 1, voted_for=state.node)
        state.out.append(Voted(state.term, state.node))
        alone = encode_configuration(Configuration((state.node,)))
        state.append((Entry(state.log.last_index + 1, state.term, "config", alone),))
        self._candidacy.elects_itself()
        self._lead()
        state.out.append(ShrunkByForce(event.ref))

    # --- messages ---------------------------------------------------------------------------------------------

    def _on_received(self, event: Received) -> None:
        message: Message = event.message
        state, kind = self._state, type(message)
        # A leader ignores a node that is no member, in any term (RA-8). A node that does not lead may not know of
        # a change yet: it accepts messages of all (thesis, 4.1).
        if self._leadership is not None and event.sender not in state.peers and not self._bows_to(message):
            return
        if self._blocked_by_chunks and self._following.is_receiving and not self._continues(message):
            return
        if kind is Vote and self._keeps_its_leader(cast("Vote", message)):
            reached("vote refused while a leader is heard")
            return
        if message.term > state.term:
            if self._leadership is not None and M18 in self._bugs:
                self._leadership.refused_by_later_term(event.sender)
                return
            if kind is not PreVote:
                self._enter_term(message.term)
        elif message.term < state.term:
            self._note_late_reply(message)
        self._receivers[kind](event.sender, message)

    def _note_late_reply(self, message: Message) -> None:
        if isinstance(message, VoteReply) and self._role == "candidate":
            reached("vote of an old term ignored")
            if message.granted:
                reached("vote came too late")
        elif isinstance(message, AppendReply) and self._role == "leader":
            reached("reply of an old term ignored")

    def _bows_to(self, message: Message) -> bool:
        """With M07: whether a message ends this leadership, although its sender is no member."""
        return M07 in self._bugs and message.term > self._state.term and not isinstance(message, PreVote)

    def _continues(self, message: Message) -> bool:
        """With M46: whether a message is of the leader that sends the snapshot, and of its term."""
        return isinstance(message, SnapshotChunk) and message.term == self._state.term

    def _keeps_its_leader(self, message: Vote) -> bool:
        """Whether a lease may stand on this member: then it does not help to end it, and does not follow the term.

        Also in a term that it knows: it may have met that term after it confirmed a round of the leader of an earlier
        one, or before a restart.
        """
        state = self._state
        return (
            state.config.lease_reads
            and not self._leader_is_silent
            and not message.transfers
            and message.term >= state.term
        )

    def _on_timeout_now(self, _: NodeId, message: TimeoutNow) -> None:
        """The leader wants this node to take over."""
        stands = self._can_lead() and (self._state.votes or M08 in self._bugs)
        if message.term == self._state.term and self._role == "follower" and stands:
            reached("stood as the leader asked")
            self._stand_for_election(transfers=True)

    def _on_pre_vote(self, sender: NodeId, message: PreVote) -> None:
        """A pre-vote changes nothing here: no term, no vote, no timer (RA-5)."""
        if self._leadership is not None:
            self._leadership.assert_authority(sender)
        # A member that hears its leader refuses: a node that lost its links, or was removed, must not depose a leader
        # that works (thesis, 4.2.3 and 9.6). The sender would stand in message.term + 1: where that is our term or an
        # earlier one, our vote may be given already.
        granted = (
            self._leader_is_silent
            and self._role != "leader"
            and message.term >= self._state.term
            and is_up_to_date(self._state, message.last_term, message.last_index)
            and message.version >= self.version
            and not (M05 in self._bugs and self._role in ("pre_candidate", "candidate"))
        )
        if not granted:
            reached("pre-vote refused")
        elif M04 in self._bugs:
            self._voted_for = sender
            self._state.out.append(Voted(self._state.term, sender))
        self._state.send(sender, PreVoteReply(self._state.term, message.token, granted))

    def _on_pre_vote_reply(self, sender: NodeId, message: PreVoteReply) -> None:
        if self._role == "pre_candidate":
            self._candidacy.would_vote(sender, message)
            self._count_pre_votes()

    def _on_vote(self, sender: NodeId, message: Vote) -> None:
        granted = False
        if message.term < self._state.term:
            reached("vote refused to an old term")
        elif self._voted_for not in (None, sender):
            reached("vote refused to a second candidate")
        elif not is_up_to_date(self._state, message.last_term, message.last_index):
            reached("vote refused to a shorter log")
        elif message.version < self.version:
            reached("vote refused to an old machine version")
        else:
            granted = True
            if self._voted_for is None:
                reached("vote granted")
                self._voted_for = sender
                self._state.out.append(Voted(self._state.term, sender))
            # Only a granted vote restarts the timer: one that cannot win must not hold up others (Raft, figure 2).
            self._state.out.append(_START_ELECTION_TIMER)
        self._state.send(sender, VoteReply(self._state.term, granted))

    def _on_vote_reply(self, sender: NodeId, message: VoteReply) -> None:
        if self._role == "candidate" and message.granted and message.term == self._state.term:
            self._candidacy.votes(sender, message.term)
            self._count_votes()

    def _on_append(self, sender: NodeId, message: Append) -> None:
        if self._follows(sender, message.term, message.prev_index):
            self._following.on_append(sender, message)

    def _on_chunk(self, sender: NodeId, message: SnapshotChunk) -> None:
        if self._follows(sender, message.term, message.index):
            self._following.on_chunk(sender, message)
            if self._following.is_receiving and not self._ticking:
                self._ticking = True
                self._state.out.append(_START_HEARTBEAT)

    def _follows(self, sender: NodeId, its_term: int, index: int) -> bool:
        """Follow the leader of this term; False for one of an earlier term, which learns that its time is over."""
        term = self._state.term
        if its_term < term:
            # The sender must learn that its term is over.
            reached("old leader spoke")
            self._state.send(sender, AppendRefusal(term, 0, index, index, 0, self._state.versions.supported))
            return False
        if self._role == "leader":
            raise InvariantError(f"{self.node} leads term {term}, and so does {sender}.")
        if self._role == "candidate":
            reached("election won by another")
        self._role = "follower"
        self._leader = sender
        self._leader_is_silent = False
        self._state.out.append(_START_ELECTION_TIMER)
        return True

    def _on_append_reply(self, sender: NodeId, message: AppendReply) -> None:
        if self._leadership is not None and message.term == self._state.term:
            self._leadership.on_reply(sender, message)
        elif self._leadership is not None and M26 in self._bugs:
            self._leadership.confirms_late(sender, message.round)

    def _on_append_refusal(self, sender: NodeId, message: AppendRefusal) -> None:
        if self._leadership is not None and message.term == self._state.term:
            self._leadership.on_refusal(sender, message)

    def _on_snapshot_reply(self, sender: NodeId, message: SnapshotReply) -> None:
        if self._leadership is not None and message.term == self._state.term:
            self._leadership.on_snapshot_reply(sender, message)

    # --- terms and elections ----------------------------------------------------------------------------------

    def _enter_term(self, term: int, voted_for: NodeId | None = None) -> None:
        """Begin a term as a follower: all state of the earlier term is dropped."""
        if term <= self._state.term:
            raise InvariantError(f"{self.node} would go from term {self._state.term} to {term}.")
        if self._leadership is not None:
            reached("leader met a higher term")
            self._step_down()
        # That there is a later term does not end a lease: what this member confirmed holds until its timer runs out.
        self._leader_is_silent |= self._role != "follower" or not self._state.config.lease_reads
        self._role = "follower"
        self._leader = None
        self._candidacy.drop()
        self._state.term = term
        self._voted_for = voted_for
        self._following = Following(self._state, self._following.round if M25 in self._bugs else 0)

    def _step_down(self) -> None:
        if self._leadership is None:
            raise InvariantError(f"{self.node} does not lead and cannot step down.")
        self._leadership.resign(None)
        self._leadership = None
        self._role = "follower"
        self._leader = None
        self._leader_is_silent = True
        self._state.out.append(_START_ELECTION_TIMER)

    def _stand_before_election(self) -> None:
        """Ask whether an election would be won, before one is held (RA-5); also after an election without a winner."""
        state = self._state
        if self._role == "candidate":
            reached("election without a winner")
        if M06 in self._bugs:
            self._stand_for_election()
            return
        self._role = "pre_candidate"
        self._leader = None
        self._leader_is_silent = True
        state.out.append(_START_ELECTION_TIMER)
        self._candidacy.ask_before_election()
        # A member that is alone gets no reply: it has its majority now.
        self._count_pre_votes()

    def _count_pre_votes(self) -> None:
        if self._candidacy.has_a_majority:
            self._stand_for_election()

    def _stand_for_election(self, *, transfers: bool = False) -> None:
        state = self._state
        self._enter_term(state.term + 1, voted_for=state.node)
        self._role = "candidate"
        # Messages get lost: peers that have not granted a vote are asked again at every tick (Raft 5.1).
        self._ticking = True
        self._leader_is_silent = True
        state.out += (Voted(state.term, state.node), _START_ELECTION_TIMER, _START_HEARTBEAT)
        self._candidacy.begin_election(transfers=transfers)
        self._count_votes()

    def _count_votes(self) -> None:
        if self._candidacy.has_a_majority:
            self._lead()

    def _lead(self) -> None:
        state = self._state
        if self._following.leader is not None:
            raise InvariantError(f"{self.node} won term {state.term}, which {self._following.leader} leads.")
        reached("election won")
        self._role = "leader"
        self._leader = self._following.leader = state.node
        self._leader_is_silent = False
        self._leadership = Leadership(state)
        self._ticking = True
        state.out += (_STOP_ELECTION_TIMER, _START_HEARTBEAT)
        self._leadership.begin()
