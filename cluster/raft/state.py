"""What a member has in every role: its place in the cluster, its log, and how far that is committed and applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from splitbrain.cluster.bugs import M09, M13, M14, M15, M17, M21, M38, M49, Bugs
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.config import Config
from splitbrain.cluster.raft.effects import (
    AppendLog,
    Apply,
    CommitAdvanced,
    Effect,
    InstallSnapshot,
    MembersChanged,
    Rebuild,
    Send,
    TruncateLog,
)
from splitbrain.cluster.raft.events import Ref, Written
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.log import Log
from splitbrain.cluster.raft.membership import Configurations, Step, decode_configurations
from splitbrain.cluster.raft.messages import OLDEST, Entry, Message, NodeId
from splitbrain.cluster.raft.versions import Versions

NO_REFS: Final[Mapping[int, Ref]] = MappingProxyType({})


def quorum_of(voters: int, bugs: Bugs) -> int:
    """How many of these voters are a majority (with M09: half of them count as one)."""
    return max(1, voters // 2) if M09 in bugs else voters // 2 + 1


class State:
    """Shared by the roles of one member; each adds its effects to `out`.

    Attributes:
        node: this member.
        configurations: who the members are, by the log.
        versions: which version of the state machine is in force, by the log.
        votes: whether this node is a voter.
        peers: the other members, in order of their names.
        voters: those of them that vote.
        quorum: voters that make a majority.
        lets_committed_entries_go: with bugs that make a log lose what is committed, no assertion hides it.
        counts_unsynced: with M15, an entry passes for durable as soon as it is appended.
        term: the current term.
        log: all entries, durable or not.
        written: the log is durable up to here.
        commit: known to be committed up to here.
        applied: given to the state machine up to here.
        out: effects of the event that is being handled.
    """

    __slots__ = (
        "_applies_early",
        "_generation",
        "applied",
        "bugs",
        "commit",
        "config",
        "configurations",
        "counts_unsynced",
        "lets_committed_entries_go",
        "log",
        "node",
        "out",
        "peers",
        "quorum",
        "step",
        "term",
        "versions",
        "voters",
        "votes",
        "written",
    )

    def __init__(
        self,
        node: NodeId,
        founders: Sequence[NodeId],
        log: Log,
        term: int,
        config: Config,
        bugs: Bugs,
        configurations: bytes = b"",
        versions: tuple[int, int] = (OLDEST, OLDEST),
    ) -> None:
        """`versions` are the latest that this member understands, and the one in force where the log begins."""
        self.node = node
        self.configurations = Configurations(founders, bugs, readmits=config.readmits)
        if configurations:
            self.configurations.install(decode_configurations(configurations), log.base_index, keeps_later=False)
        # What is not committed yet counts as well: it was in force when this member stopped.
        entries = log.slice(log.base_index + 1, log.last_index)
        if M49 not in bugs:
            self.configurations.append(entries)
        self.versions = Versions(versions[0], log.base_index, versions[1])
        self.versions.append(entries)
        self.votes = False
        self.peers: tuple[NodeId, ...] = ()
        self.voters: tuple[NodeId, ...] = ()
        self.quorum = 0
        self.config = config
        self.bugs = bugs
        self.term = term
        self.log = log
        # Storage synced what it read before it returned it (`open_storage`).
        self.written = log.last_index
        # Commit and applied index are volatile in Raft (figure 2): a leader of this term brings the commit index back.
        # What is in a snapshot was applied.
        self.commit = log.base_index
        self.applied = log.base_index
        self.out: list[Effect] = []
        self.step: Step | None = None  # by which the configuration in force was appended, for telemetry
        self._generation = 0
        self._applies_early = M17 in bugs
        self.counts_unsynced = M15 in bugs
        self.lets_committed_entries_go = bugs.lets_committed_entries_go
        self._count_members()

    def send(self, to: NodeId, message: Message) -> None:
        """Send a message to a peer."""
        self.out.append(Send(to, message))

    def append(self, entries: tuple[Entry, ...]) -> None:
        """Put entries at the end of the log and have them written."""
        self.log.append(entries)
        last = entries[-1]
        done = Written(last.index, last.term, self._generation)
        before = self.out[-1] if self.out else None
        if type(before) is AppendLog:
            # One write for commands that came together.
            self.out[-1] = AppendLog((*before.entries, *entries), done)
        else:
            self.out.append(AppendLog(entries, done))
        if self.counts_unsynced:
            self.written = last.index
        remarkable = [entry for entry in entries if entry.kind != "command"]
        if remarkable:
            self.versions.append(remarkable)
            if self.configurations.append(remarkable):
                self.step = self.configurations.step(self.commit)
                self._members_changed()

    def truncate(self, from_index: int) -> None:
        """Remove what conflicts with the leader's log. What was durable of it is not any more, at once (RA-16)."""
        if from_index <= self.commit:
            # A leader has all that is committed (Raft 5.4.3): its log cannot conflict with that.
            if not self.lets_committed_entries_go:
                raise InvariantError(f"{self.node} would truncate from {from_index}, committed up to {self.commit}.")
            self.commit = from_index - 1
        reached("log cut off by a new leader")
        if from_index <= self.applied:
            self._take_back(from_index)
        self.log.truncate(from_index)
        self.written = min(self.written, from_index - 1 if M13 not in self.bugs else self.written)
        # A later leader may bring back an entry that is cut off here, with the same index and term (Raft, figure 8).
        # Only the generation shows that a late report is about the write before the truncation.
        self._generation += 1
        self.out.append(TruncateLog(from_index))
        self.versions.truncate(from_index)
        if self.configurations.truncate(from_index):
            reached("change of members taken back")
            self.step = None
            self._members_changed()

    def compact(self, index: int) -> bool:
        """Drop the log up to an entry that is in a durable snapshot; whether more is durable by that."""
        if index > self.applied:
            raise InvariantError(f"{self.node} has a snapshot of entry {index}, applied up to {self.applied}.")
        # A snapshot of the leader may have been installed meanwhile.
        if index <= self.log.base_index:
            return False
        reached("log compacted")
        self.log.compact(index)
        # Entries that others had made durable are applied before they are durable here (RA-13), and so in a snapshot.
        advanced = index > self.written
        self.written = max(self.written, index)
        return advanced

    def install(self, index: int, last_term: int, configurations: bytes, state: bytes, version: int) -> None:
        """Take over a snapshot that reaches beyond what is committed here (RA-42)."""
        if index <= self.commit:
            raise InvariantError(f"{self.node} would go back to entry {index}, committed up to {self.commit}.")
        log = self.log
        keeps = index <= log.last_index and log.term(index) == last_term
        log.replace(index, last_term)
        if not keeps:
            # What was being written is of no use any more, and a report of it says nothing about this log.
            self._generation += 1
            self.written = index
        self.written = max(self.written, index)
        self.commit = self.applied = index
        self.out.append(InstallSnapshot(index, last_term, configurations, state, version))
        self.versions.install(index, version, keeps_later=keeps)
        self.out.append(CommitAdvanced(index))
        before = self.configurations.current
        if M38 not in self.bugs:
            self.configurations.install(decode_configurations(configurations), index, keeps_later=keeps)
        if self.configurations.current != before:
            self.step = None
            self._members_changed()

    def wrote(self, event: Written) -> bool:
        """Note that more of the log is durable; False if the report is older than the last truncation, or no news.

        A stale report can be ignored whole: what replaced the truncated entries is reported in its turn, and that
        report covers everything before it.
        """
        if event.generation != self._generation:
            if M14 in self.bugs:
                self.written = max(self.written, min(event.index, self.log.last_index))
                return True
            reached("stale sync ignored")
            return False
        if event.index <= self.written:
            return self.counts_unsynced  # it was counted, but a member that is alone has not looked at it
        if self.log.term(event.index) != event.term:
            raise InvariantError(
                f"{self.node}: the disk reported entry {event.index} of term {event.term} as durable, but the log has "
                f"term {self.log.term(event.index)} there."
            )
        self.written = event.index
        return True

    def advance_commit(
        self, index: int, refs: dict[int, Ref] | None = None, counted: tuple[tuple[NodeId, int], ...] = ()
    ) -> None:
        """Commit up to `index` and apply. `refs` are the proposals that wait here; those that are applied leave it.

        `counted` is what a leader counted, as in `CommitAdvanced`.
        """
        if index > self.log.last_index:
            raise InvariantError(f"{self.node} would commit {index}, its log ends at {self.log.last_index}.")
        if index < self.commit:
            raise InvariantError(f"{self.node} would lower its commit index from {self.commit} to {index}.")
        self.commit = index
        self.out.append(CommitAdvanced(index, counted))
        self.apply_to(index, refs)

    def apply_to(self, index: int, refs: dict[int, Ref] | None = None) -> None:
        """Have everything up to `index` applied that is not yet, as far as this member understands it (RA-43)."""
        first = self.applied + 1
        index = min(index, self.versions.understood)
        if index < first:
            return
        answered = NO_REFS
        if refs:
            answered = {i: refs.pop(i) for i in range(first, index + 1) if i in refs}
        self.applied = index
        self.out.append(Apply(self.log.slice(first, index), answered))

    def _members_changed(self) -> None:
        self._count_members()
        self.out.append(MembersChanged(self.configurations.current))

    def _count_members(self) -> None:
        current = self.configurations.current
        # With M09 learners count like voters, too.
        voters = current.voters if M09 not in self.bugs else current.members
        self.votes = self.node in voters
        self.peers = tuple(member for member in current.members if member != self.node)
        self.voters = tuple(voter for voter in voters if voter != self.node)
        quorum = quorum_of(len(voters), self.bugs)
        self.quorum = quorum if M21 not in self.bugs else max(quorum, self.quorum)

    def _take_back(self, from_index: int) -> None:
        if not (self._applies_early or self.lets_committed_entries_go):
            raise InvariantError(f"{self.node} would truncate from {from_index}, applied up to {self.applied}.")
        self.out.append(Rebuild())
        self.applied = self.log.base_index
        self.apply_to(from_index - 1)
