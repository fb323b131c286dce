"""What the files of a node say, for a reader that changes nothing: neither removes a file, nor cuts off a tail.

A start refuses at the first damage. A reader goes on, and reports all of it. A node may run meanwhile: the end of its
write-ahead log may be a record that is being written, and a file may be gone that was there when the names were listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, ParamSpec, Protocol, TypeVar

import msgspec

from splitbrain.cluster.errors import CorruptStorageError, StorageError
from splitbrain.cluster.log import nodelog, segment, snapshot, vote, wal, walfile
from splitbrain.cluster.log.replay import Replay
from splitbrain.cluster.log.segment import SegmentName
from splitbrain.cluster.log.snapshot import Meta, SnapshotName
from splitbrain.cluster.log.vote import Vote
from splitbrain.cluster.log.votes import VOTES, last_saved, read_votes
from splitbrain.cluster.log.walfile import Logged, WalContent
from splitbrain.cluster.members import is_member_id
from splitbrain.cluster.raft.messages import Entry

P = ParamSpec("P")
T = TypeVar("T")

_TRIES: Final = 10
_OURS: Final = (nodelog.NODE, VOTES, vote.PREFIX, wal.PREFIX, segment.PREFIX, "snapshot-", "checkpoint-")


class Files(Protocol):
    """The part of a `Disk` that changes nothing."""

    def names(self) -> list[str]:
        """Names of all files, sorted."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is none."""
        ...


class Damage(msgspec.Struct, frozen=True):
    """What is wrong in a file, at or shortly behind which byte."""

    file: str
    byte: int
    what: str


class StateFile(msgspec.Struct, frozen=True):
    """A snapshot or a checkpoint; `problem` says why it is not valid, None if it is."""

    file: str
    sort: str
    index: int
    term: int
    bytes: int
    problem: str | None


class SegmentFile(msgspec.Struct, frozen=True):
    """A segment with its first and its last index; `problem` says why it is not whole, None if it is."""

    file: str
    first: int
    last: int
    bytes: int
    problem: str | None


class WalFile(msgspec.Struct, frozen=True):
    """The write-ahead log: its length, where its last whole record ends, and how much is durable by its marks."""

    file: str
    bytes: int
    ends: int
    durable: int


@dataclass(frozen=True)
class Placed:
    """An entry of a log, the file that it is in, and whether it is durable by what the files say."""

    entry: Entry
    file: str
    durable: bool


@dataclass
class GroupFiles:
    """What there is of a group.

    Attributes:
        name: of the group, empty if the file that says it is damaged.
        uid: of the group.
        vote: its term and its vote in it, None if that is damaged.
        states: snapshots and checkpoints, by index.
        segments: in the order of their entries.
        entries: of the log, in order, as far as they can be read.
        last: index of the last entry of the log, or of the snapshot if nothing is behind it.
    """

    name: str
    uid: int
    vote: Vote | None = None
    states: list[StateFile] = field(default_factory=list[StateFile])
    segments: list[SegmentFile] = field(default_factory=list[SegmentFile])
    entries: list[Placed] = field(default_factory=list[Placed])
    last: int = 0


@dataclass
class NodeFiles:
    """What the files of a node say.

    Attributes:
        member: id of the member whose files these are, None if the file that says it is damaged.
        wal: the write-ahead log, None if there is none, or its beginning is damaged.
        groups: by uid.
        damage: what a start would refuse, or would have to throw away.
    """

    member: str | None = None
    wal: WalFile | None = None
    groups: list[GroupFiles] = field(default_factory=list[GroupFiles])
    damage: list[Damage] = field(default_factory=list[Damage])

    @property
    def names_a_member(self) -> bool:
        """Whether the id is one that a member can have."""
        return self.member is not None and is_member_id(self.member)


class NoNodeError(StorageError):
    """There are no files of a node."""


def read_files(files: Files) -> NodeFiles:
    """What the files of a node say.

    Raises:
        NoNodeError: there are none.
        OSError: they cannot be read.
    """
    for _ in range(_TRIES - 1):
        try:
            return _Reader(files).read()
        except _GoneError:
            continue
    return _Reader(files, is_last=True).read()


def read_state(files: Files, state: StateFile) -> tuple[Meta, bytes]:
    """What a snapshot or checkpoint holds.

    Raises:
        CorruptStorageError: it is damaged, or gone.
        StorageError: it is of another version.
        OSError: it cannot be read.
    """
    try:
        return snapshot.decode(files.read(state.file) or b"", snapshot.parse_name(state.file))
    except NONSENSE as error:
        raise CorruptStorageError(f"{state.file}: {error}", state.file, 0, str(error)) from error


NONSENSE: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError)
"""What decoders of msgpack raise for bytes whose checksum is right, and which make no sense."""


def _read_votes(files: Files, shares: bool) -> Mapping[int, vote.Stored]:
    return read_votes(files, required=shares)


class _GoneError(Exception):
    """A file is gone that was there when the names were listed: the node runs, and has replaced it."""


class _Reader:
    def __init__(self, files: Files, *, is_last: bool = False) -> None:
        self._files = files
        self._names = files.names()
        self._is_last = is_last
        self._found = NodeFiles()
        self._together: Mapping[int, vote.Stored] = {}

    def read(self) -> NodeFiles:
        if not any(name.startswith(_OURS) for name in self._names):
            raise NoNodeError("there are no files of a node of the metadata cluster.")
        node = self._try(nodelog.NODE, nodelog.decode_node, self._content(nodelog.NODE))
        uids = dict.fromkeys(uid for name in self._names if (uid := nodelog.uid_of(name)) is not None)
        groups = dict.fromkeys(uids, "") if node is None else {uid: name for name, uid in node.groups.items()}
        self._found.member = None if node is None else node.node
        shares = node is not None and node.shares_votes
        self._together = self._try(VOTES, _read_votes, self._files, shares) or {}
        content = self._wal()
        for uid, name in sorted(groups.items()):
            changes = [] if content is None else [each for each in content.changes if each.uid == uid]
            self._found.groups.append(self._group(GroupFiles(name, uid), changes))
        return self._found

    def _wal(self) -> WalContent | None:
        names = [name for name in self._names if name.startswith(wal.PREFIX)]
        numbers = {number: wal.name_of(number) for number in self._parsed(names, wal.number_of)}
        if not numbers:
            self._damaged("wal", 0, "the write-ahead log is gone")
            return None
        number = max(numbers)
        name = numbers[number]
        content = self._content(name)
        found = self._try(name, walfile.scan, content, name, number)
        if found is None:
            return None
        self._found.wal = WalFile(name, len(content), found.size, found.durable)
        if found.damage is not None:
            self._add(found.damage)
        return found

    def _group(self, group: GroupFiles, changes: Sequence[Logged]) -> GroupFiles:
        saved = self._try(vote.name_of(group.uid), last_saved, self._files, group.uid, self._together)
        group.vote = None if saved is None else Vote(saved.term, saved.voted_for)
        installed = 0 if saved is None else saved.installed
        mine = [name for name in self._names if nodelog.uid_of(name) == group.uid]
        of_states = (name for name in mine if name.startswith(("snapshot-", "checkpoint-")))
        states = self._parsed(of_states, snapshot.parse_name)
        states.sort(key=lambda state: state.index)
        group.states = self._states(states)
        newest = next((state for state in reversed(states) if state.sort == "snapshot"), None)
        base = 0 if newest is None else newest.index
        if installed > base:
            name = f"snapshot-{group.uid:08x}-{installed:016x}"
            self._damaged(name, 0, "the snapshot that was taken over from another member is gone")
        segments = self._parsed((name for name in mine if name.startswith(segment.PREFIX)), segment.parse_name)
        for name in sorted(segments, key=lambda each: (each.first, each.last)):
            self._segment(group, name, base)
        group.last = max([base, *(name.last for name in segments)])
        self._behind_segments(group, changes, newest, group.last if segments else 0)
        valid = [state for state in group.states if state.problem is None]
        if valid and valid[-1].index > group.last:
            what = f"the log ends at entry {group.last}, but there is a {valid[-1].sort} of entry {valid[-1].index}"
            self._damaged("wal" if self._found.wal is None else self._found.wal.file, 0, what)
        return group

    def _states(self, names: Sequence[SnapshotName]) -> list[StateFile]:
        """Snapshots and checkpoints, in order of their indexes. A start reads the newest ones, until one is valid."""
        found: list[StateFile] = []
        for name in reversed(names):
            found.append(self._state(name, is_read=all(each.problem is not None for each in found)))
        return found[::-1]

    def _state(self, name: SnapshotName, *, is_read: bool) -> StateFile:
        file = str(name)
        content = self._content(file)
        before = len(self._found.damage)
        valid = self._try(file, snapshot.decode, content, name)
        if valid is not None:
            return StateFile(file, name.sort, name.index, name.term, len(content), None)
        problem = self._found.damage[before]
        # A checkpoint that is not whole is no damage: it was written without a sync, or is being written.
        # One of another format is not skipped: a later program wrote it, and may have written other things as well.
        if name.sort == "checkpoint" and not (is_read and snapshot.is_of_another_format(content)):
            del self._found.damage[before:]
        return StateFile(file, name.sort, name.index, name.term, len(content), f"byte {problem.byte}: {problem.what}")

    def _segment(self, group: GroupFiles, name: SegmentName, base: int) -> None:
        file = str(name)
        content = self._content(file)
        needed = [each for each in group.segments if each.last > base]
        end = needed[-1].last if needed else base
        # What a snapshot has replaced may be there still, or again, in part.
        if name.last > base and (name.first > end + 1 or (needed and name.first != end + 1)):
            self._damaged(file, 0, f"it does not follow entry {end}: a file is gone, or there twice")
        before = len(self._found.damage)
        self._try(file, self._take_segment, group, content, name)
        problem = None
        if len(self._found.damage) > before:
            found = self._found.damage[before]
            problem = f"byte {found.byte}: {found.what}"
        group.segments.append(SegmentFile(file, name.first, name.last, len(content), problem))

    def _take_segment(self, group: GroupFiles, content: bytes, name: SegmentName) -> None:
        for entry in segment.entries(content, name):
            group.entries.append(Placed(entry, str(name), True))

    def _behind_segments(
        self, group: GroupFiles, changes: Sequence[Logged], newest: SnapshotName | None, segmented: int
    ) -> None:
        file = "wal" if self._found.wal is None else self._found.wal.file
        replay = Replay(file, segmented, newest)
        offsets: dict[int, int] = {}
        for change in changes:
            before = len(self._found.damage)
            self._try(file, replay.take, change)
            if len(self._found.damage) > before:
                break
            if isinstance(change.change, Entry):
                offsets[change.change.index] = change.offset
        durable = 0 if self._found.wal is None else self._found.wal.durable
        for entry in replay.entries():
            group.entries.append(Placed(entry, file, offsets[entry.index] < durable))
            group.last = entry.index

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _content(self, name: str) -> bytes:
        content = self._files.read(name) if name in self._names else None
        if content is not None:
            return content
        if name in self._names and not self._is_last:
            raise _GoneError
        return b""

    def _parsed(self, names: Iterable[str], parse: Callable[[str], T]) -> list[T]:
        found = [self._try(name, parse, name) for name in names]
        return [each for each in found if each is not None]

    def _try(self, file: str, read: Callable[P, T], *args: P.args, **named: P.kwargs) -> T | None:
        """What `read` gives for these arguments; None if that fails, which is noted."""
        try:
            return read(*args, **named)
        except CorruptStorageError as error:
            self._add(error)
        except StorageError as error:
            self._damaged(file, 4, str(error).removeprefix(f"{file}, byte 4: ").removesuffix("."))
        except NONSENSE as error:
            self._damaged(file, 0, f"its checksum is right, but it makes no sense: {error}")
        return None

    def _add(self, error: CorruptStorageError) -> None:
        self._damaged(error.file, error.byte, error.what)

    def _damaged(self, file: str, byte: int, what: str) -> None:
        self._found.damage.append(Damage(file, byte, what))
