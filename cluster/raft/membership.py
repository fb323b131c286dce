"""Who votes: the configurations that a log holds, and which changes of them a leader may begin.

Members change one at a time (Ongaro's thesis, chapter 4, RA-28). A configuration is an entry of the log that names all
members. It is in force from the moment in which a member has appended it, committed or not, until another one is
appended or it is overwritten: of two that follow each other any two majorities share a member, and of two that do not
the earlier is committed before the later one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from splitbrain.cluster.bugs import M47, M48, M50, Bugs
from splitbrain.cluster.raft.events import Change
from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import Entry, NodeId

Members: TypeAlias = tuple[NodeId, ...]

ChangeRefusal: TypeAlias = Literal["change_not_permitted", "already_member", "was_member", "not_member", "last_member"]

_decoder: Final[msgspec.msgpack.Decoder[Members]] = msgspec.msgpack.Decoder(Members)
_all_decoder: Final = msgspec.msgpack.Decoder(list[tuple[int, Members]])


def encode_members(members: Iterable[NodeId]) -> bytes:
    """The data of an entry that puts a configuration into force."""
    return msgspec.msgpack.encode(sorted(members))


def decode_members(entry: Entry) -> Members:
    """The members that an entry of kind "config" names, sorted.

    Raises:
        InvariantError: it names none, or one twice, or makes no sense.
    """
    try:
        members = _decoder.decode(entry.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvariantError(f"entry {entry.index} of term {entry.term} is no configuration: {error}.") from error
    if not members or len(set(members)) != len(members):
        raise InvariantError(f"entry {entry.index} of term {entry.term} names members {', '.join(members) or 'none'}.")
    return members


def encode_configurations(configurations: Sequence[tuple[int, Members]]) -> bytes:
    """Configurations with the indexes of their entries, for a snapshot."""
    return msgspec.msgpack.encode(configurations)


def decode_configurations(data: bytes) -> list[tuple[int, Members]]:
    """The configurations in a snapshot.

    Raises:
        InvariantError: there are none, or the bytes make no sense.
    """
    try:
        found = _all_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvariantError(f"a snapshot has no configurations: {error}.") from error
    if not found:
        raise InvariantError("a snapshot has no configurations.")
    return found


class Configurations:
    """The configurations in one member's log, uncommitted ones included, from that of the founders on.

    Attributes:
        members: those of the configuration in force, sorted.
        index: of the entry that put it into force; 0 for that of the founders.
    """

    __slots__ = ("_all", "_keeps_reverted", "_permits_early", "_permits_several", "index", "members")

    def __init__(self, founders: Sequence[NodeId], bugs: Bugs) -> None:
        self.members: Members = tuple(sorted(founders))
        self.index = 0
        self._all: list[tuple[int, Members]] = [(0, self.members)]
        self._permits_several = M47 in bugs
        self._permits_early = M48 in bugs
        self._keeps_reverted = M50 in bugs

    def append(self, entries: Iterable[Entry]) -> bool:
        """Entries were appended; True if another configuration is in force now."""
        found = [(entry.index, decode_members(entry)) for entry in entries if entry.kind == "config"]
        if not found:
            return False
        self._all += found
        self.index, self.members = found[-1]
        return True

    def upto(self, index: int) -> list[tuple[int, Members]]:
        """Those that are in the log up to an index, for a snapshot."""
        return [held for held in self._all if held[0] <= index]

    def install(self, configurations: Sequence[tuple[int, Members]], index: int, *, keeps_later: bool) -> None:
        """Take those of a snapshot of this index for the ones up to there; later ones stay if the log does."""
        later = [held for held in self._all if held[0] > index] if keeps_later else []
        self._all = [*configurations, *later]
        self.index, self.members = self._all[-1]

    def truncate(self, from_index: int) -> bool:
        """Entries from this index on were removed; True if an earlier configuration is in force again."""
        if self.index < from_index or self._keeps_reverted:
            return False
        self._all = [held for held in self._all if held[0] < from_index]
        self.index, self.members = self._all[-1]
        return True

    def lets_stand(self, member: NodeId, commit: int) -> bool:
        """Whether a member may stand for election.

        One that the configuration in force names no more must as long as it does not know that this is committed: it
        may be the only one that has the entry, and by its longer log it keeps the others from being elected (thesis,
        4.2.2). One that never was a member does not.
        """
        if member in self.members:
            return True
        # An index above the commit index is not 0, so there is a configuration before it: at least the founders'.
        return self.index > commit and member in self._all[-2][1]

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
        member = change.member
        if change.joins:
            if member in self.members:
                return "already_member"
            return "was_member" if any(member in members for _, members in self._all) else None
        if member not in self.members:
            return "not_member"
        return "last_member" if len(self.members) == 1 else None

    def after(self, change: Change) -> Members:
        """The members once the change is made."""
        if change.joins:
            return tuple(sorted([*self.members, change.member]))
        return tuple(member for member in self.members if member != change.member)
