"""Versions of the state machine: which one is in force where in a log, and who may lead with it (RA-43).

The no-op with which a leader begins its term carries the version in force. A leader raises it, by another no-op, once
all members have said that they support a later one (Ra's strategy `all`, since 2.16). A majority would be enough for
entries to be committed, but each member that does not understand them applies nothing any more: of three, one that has
failed would be one too many. So a member that is down, or was never upgraded, holds the upgrade up until it is back, is
upgraded, or leaves. A version that is in force stays so: no no-op carries an earlier one than those before it.

What a member said may be out of date: it may be started with an earlier program afterwards, or be taken in later. Such
a member appends and votes, but it stops applying before the first entry of a version that it does not understand, and
does not stand for election. As a learner it is not promoted.

RA-5 has Ra's rule for votes: the candidate's version is at least the one in force, and not above the voter's. The
second half belongs to Ra's former strategy, with which a new leader raised the version at once. Here a leader of a
later version leads with the one in force; to refuse it would only cost availability: of three members, of which the one
that was upgraded first has the longest log, no one could be elected while one is down. So the first half alone counts.

Logs and messages of programs that knew of no versions are of version 1: their no-ops are empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from splitbrain.cluster.raft.invariant import InvariantError
from splitbrain.cluster.raft.messages import OLDEST, Entry

_NEVER: Final = 2**63


def encode_version(version: int) -> bytes:
    """The data of a no-op that carries a version."""
    return b"" if version == OLDEST else msgspec.msgpack.encode([version])


def version_of(noop: Entry) -> int:
    """The version that a no-op carries.

    Raises:
        InvariantError: its data make no sense.
    """
    if not noop.data:
        return OLDEST
    try:
        (version,) = msgspec.msgpack.decode(noop.data, type=tuple[int])
    except msgspec.DecodeError as error:
        raise InvariantError(f"no-op {noop.index} of term {noop.term} carries no version: {error}.") from error
    return version


class Versions:
    """The versions in one member's log, those of uncommitted entries included.

    Args:
        supported: the latest version that this member understands.
        base_index: where the log begins.
        base_version: the version that is in force there.

    Attributes:
        supported: as given.
        current: the version at the end of the log.
        understood: every entry up to this index is of a version that this member understands.
    """

    __slots__ = ("_all", "current", "supported", "understood")

    def __init__(self, supported: int, base_index: int, base_version: int) -> None:
        self.supported = supported
        self._all = [(base_index, base_version)]
        self.current = base_version
        self.understood = _NEVER
        self._see()

    @property
    def understands_all(self) -> bool:
        """Whether no entry of the log, committed or not, is of a version that this member does not understand."""
        return self.current <= self.supported

    def at(self, index: int) -> int:
        """The version in force after the entry at an index, which is not before the base."""
        return next((version for begins, version in reversed(self._all) if begins <= index), self._all[0][1])

    def append(self, entries: Iterable[Entry]) -> None:
        """Entries were appended; only no-ops among them matter."""
        for entry in entries:
            if entry.kind == "noop" and (version := version_of(entry)) > self.current:
                self._all.append((entry.index, version))
                self.current = version
        self._see()

    def truncate(self, from_index: int) -> None:
        """Entries from this index on were removed."""
        if self._all[-1][0] >= from_index and len(self._all) > 1:
            self._all = [self._all[0], *(held for held in self._all[1:] if held[0] < from_index)]
            self._see()

    def install(self, index: int, version: int, *, keeps_later: bool) -> None:
        """A snapshot took the place of what was before its index; later entries stay if the log does."""
        later = [held for held in self._all if held[0] > index and held[1] > version] if keeps_later else []
        self._all = [(index, version), *later]
        self._see()

    def _see(self) -> None:
        self.current = self._all[-1][1]
        self.understood = next((begins - 1 for begins, version in self._all if version > self.supported), _NEVER)
