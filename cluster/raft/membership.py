"""Who is a member, and who of them votes: the configurations that a log holds, and which changes a leader may begin.

Members change one at a time (Ongaro's thesis, chapter 4, RA-28). A configuration is an entry of the log that names all
members. It is in force from the moment in which a member has appended it, committed or not, until another one is
appended or it is overwritten: of two that follow each other any two majorities share a member, and of two that do not
the earlier is committed before the later one begins.

A learner is sent the log, and counts for nothing (RA-7). One with a target becomes a voter, by a change that the leader
itself begins, once it has made the log up to there durable (RA-29): a new member does not slow down commits before it
has what the others have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M08, M47, M48, M50, M51, Bugs
from splitbrain.cluster.raft.events import Change
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import Entry, NodeId

Members: TypeAlias = tuple[NodeId, ...]

ChangeRefusal: TypeAlias = Literal["change_not_permitted", "already_member", "was_member", "not_member", "last_member"]

_Stored: TypeAlias = tuple[NodeId | tuple[NodeId, int | None], ...]


class Configuration(msgspec.Struct, frozen=True):
    """The members at some point of the log.

    Attributes:
        voters: those whose votes and logs count, sorted; at least one.
        learners: the others, each with its target: once its log is durable up to that index it becomes a voter; None
            for one that stays a learner.
    """

    voters: Members
    learners: Mapping[NodeId, int | None] = {}

    @property
    def members(self) -> Members:
        """All of them, sorted."""
        return tuple(sorted([*self.voters, *self.learners]))

    def __contains__(self, member: NodeId) -> bool:
        return member in self.voters or member in self.learners


class Step(NamedTuple):
    """From one configuration of a log to the next, when that was appended; for telemetry.

    Attributes:
        commit: the commit index of the member then.
        before: index of the entry of the configuration before.
        old: the voters of that one.
        new: the voters since.
    """

    commit: int
    before: int
    old: Members
    new: Members


def encode_configuration(configuration: Configuration) -> bytes:
    """The data of an entry that puts a configuration into force: ids of voters, pairs of id and target of learners."""
    return msgspec.msgpack.encode(_stored(configuration))


def decode_configuration(entry: Entry) -> Configuration:
    """The configuration in an entry of kind "config".

    Raises:
        InvariantError: it has no voter, or names a member twice, or makes no sense.
    """
    try:
        found = _configuration(msgspec.msgpack.decode(entry.data, type=_Stored))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvariantError(f"entry {entry.index} of term {entry.term} is no configuration: {error}.") from error
    members = found.members
    if not found.voters or len(set(members)) != len(members):
        raise InvariantError(f"entry {entry.index} of term {entry.term} names members {', '.join(members) or 'none'}.")
    return found


def _stored(configuration: Configuration) -> list[Any]:
    return [*configuration.voters, *configuration.learners.items()]


def _configuration(stored: _Stored) -> Configuration:
    voters = [each for each in stored if isinstance(each, str)]
    return Configuration(tuple(voters), dict(each for each in stored if not isinstance(each, str)))


def encode_configurations(configurations: Sequence[tuple[int, Configuration]]) -> bytes:
    """Configurations with the indexes of their entries, for a snapshot."""
    return msgspec.msgpack.encode([(index, _stored(held)) for index, held in configurations])


def decode_configurations(data: bytes) -> list[tuple[int, Configuration]]:
    """The configurations in a snapshot.

    Raises:
        InvariantError: there are none, or the bytes make no sense.
    """
    try:
        found = msgspec.msgpack.decode(data, type=list[tuple[int, _Stored]])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvariantError(f"a snapshot has no configurations: {error}.") from error
    if not found:
        raise InvariantError("a snapshot has no configurations.")
    return [(index, _configuration(stored)) for index, stored in found]


class Configurations:
    """The configurations in one member's log, uncommitted ones included, from that of the founders on.

    Attributes:
        current: the one in force.
        index: of the entry that put it into force; 0 for that of the founders.
    """

    __slots__ = (
        "_all",
        "_forgets_former",
        "_keeps_reverted",
        "_learners_stand",
        "_permits_early",
        "_permits_several",
        "current",
        "index",
    )

    def __init__(self, founders: Sequence[NodeId], bugs: Bugs, *, readmits: bool = False) -> None:
        """`readmits`: who has left may join again. Safe only where it keeps its vote and its log."""
        self.current = Configuration(tuple(sorted(founders)))
        self.index = 0
        self._all: list[tuple[int, Configuration]] = [(0, self.current)]
        self._learners_stand = M08 in bugs
        self._forgets_former = readmits or M51 in bugs
        self._permits_several = M47 in bugs
        self._permits_early = M48 in bugs
        self._keeps_reverted = M50 in bugs

    def append(self, entries: Iterable[Entry]) -> bool:
        """Entries were appended; True if another configuration is in force now."""
        found = [(entry.index, decode_configuration(entry)) for entry in entries if entry.kind == "config"]
        if not found:
            return False
        self._all += found
        self.index, self.current = found[-1]
        return True

    def step(self, commit: int) -> Step:
        """What the configuration in force took the place of, when this much was committed; for telemetry."""
        before, voters = self._all[-2][0], self._all[-2][1].voters
        return Step(commit, before, voters, self.current.voters)

    def upto(self, index: int) -> list[tuple[int, Configuration]]:
        """Those that are in the log up to an index, for a snapshot."""
        return [held for held in self._all if held[0] <= index]

    def install(self, configurations: Sequence[tuple[int, Configuration]], index: int, *, keeps_later: bool) -> None:
        """Take those of a snapshot of this index for the ones up to there; later ones stay if the log does."""
        later = [held for held in self._all if held[0] > index] if keeps_later else []
        self._all = [*configurations, *later]
        self.index, self.current = self._all[-1]

    def truncate(self, from_index: int) -> bool:
        """Entries from this index on were removed; True if an earlier configuration is in force again."""
        if self.index < from_index or self._keeps_reverted:
            return False
        self._all = [held for held in self._all if held[0] < from_index]
        self.index, self.current = self._all[-1]
        return True

    def lets_stand(self, member: NodeId, commit: int) -> bool:
        """Whether a member may stand for election.

        One that the configuration in force names no more must as long as it does not know that this is committed: it
        may be the only one that has the entry, and by its longer log it keeps the others from being elected (thesis,
        4.2.2). One that never was a voter does not (RA-7).
        """
        if member in self.current.voters or (self._learners_stand and member in self.current):
            return True
        # An index above the commit index is not 0, so there is a configuration before it: at least the founders'.
        return self.index > commit and member in self._all[-2][1].voters

    def refusal(self, change: Change, commit: int, noop_index: int) -> ChangeRefusal | None:
        """Why a leader may not begin this change now; None if it may.

        Not before a no-op of its own term is committed: until then there may be another uncommitted change, of an
        earlier term, that this leader has never seen (Ongaro's correction of 2015).

        Args:
            change: what is wanted.
            commit: the leader's commit index.
            noop_index: index of the no-op with which its term began.
        """
        if (self.index > commit and not self._permits_several) or (commit < noop_index and not self._permits_early):
            return "change_not_permitted"
        member, current = change.member, self.current
        if change.joins:
            if member in current.voters or (member in current.learners and change.role != "voter"):
                return "already_member"
            was_member = member not in current and any(member in held for _, held in self._all)
            return "was_member" if was_member and not self._forgets_former else None
        if member not in current:
            return "not_member"
        return "last_member" if current.voters == (member,) else None

    def after(self, change: Change, index: int) -> Configuration:
        """The configuration once the change is made, by the entry of this index."""
        member = change.member
        voters = [voter for voter in self.current.voters if voter != member]
        learners = {learner: target for learner, target in self.current.learners.items() if learner != member}
        if change.joins and change.role == "voter":
            voters = sorted([*voters, member])
        elif change.joins:
            learners[member] = index if change.role == "promotable" else None
        return Configuration(tuple(voters), {learner: learners[learner] for learner in sorted(learners)})

    def due(self, member: NodeId, durable: int) -> bool:
        """Whether a learner whose log is durable up to an index has reached its target (RA-29)."""
        target = self.current.learners.get(member)
        return target is not None and durable >= target

    def voter_by(self, member: NodeId) -> int | None:
        """Index of the entry of the newest configuration that has a member as a voter, for telemetry.

        Of the one in force and the one before it, and 0 for that of the founders; None if neither has.
        """
        return next((index for index, held in self._all[:-3:-1] if member in held.voters), None)
