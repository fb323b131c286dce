"""All that a node keeps on disk: which groups it has, their logs, and the write-ahead log that they share.

    name     := "node"
    file     := "SBND" version:u32 checksum:u32 body           CRC-32 of the body
    body     := a MessagePack map (`NodeFile`): the node's name, its groups with their uids, the next uid, ...

A uid belongs to one incarnation of a group: a group that is made again under the same name has another one, and what is
left of the former one is not its own (RA-33).
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import structs

from splitbrain.cluster.bugs import M44, M45, NO_BUGS, Bugs
from splitbrain.cluster.errors import CorruptStorageError, StorageError, WrongNodeError
from splitbrain.cluster.groupnames import is_queue_group
from splitbrain.cluster.log import segment, snapshot, vote
from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.log.group import Found, GroupLog
from splitbrain.cluster.log.replay import Replay
from splitbrain.cluster.log.seen import Seen
from splitbrain.cluster.log.segments import Segments
from splitbrain.cluster.log.snapshot import SnapshotName
from splitbrain.cluster.log.snapshots import Snapshots, open_snapshots
from splitbrain.cluster.log.vote import Stored, Vote
from splitbrain.cluster.log.votes import Votes, last_saved, read_votes
from splitbrain.cluster.log.wal import MAX_BYTES, Wal, create_wal, open_wal, was_used
from splitbrain.cluster.log.walfile import Beginning, Change, Logged
from splitbrain.cluster.log.whole import Form
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.events import Written
from splitbrain.cluster.raft.messages import NodeId
from splitbrain.cluster.runtime import Disk, Rng

NODE: Final = "node"

_FORM: Final = Form(b"SBND", 1)
_FORM_WITH_VOTES: Final = Form(b"SBND", 2)
_OF_GROUP: Final = re.compile("(?:vote|segment|snapshot|checkpoint)-([0-9a-f]{8})(?:-|$)")


class NodeFile(msgspec.Struct, frozen=True):
    """What the file `node` says: the node's name, its groups with their uids, and the next uid.

    Attributes:
        founders: by group the members with which it began.
        incarnations: of groups that are not the first ones of their names (`splitbrain.cluster.groupnames`).
        shares_votes: whether there is a file of what groups saved together (`splitbrain.cluster.log.votes`). Such a
            node file is of version 2: an earlier program, which does not read the other one, refuses it.
    """

    node: str
    groups: dict[str, int]
    next_uid: int
    founders: dict[str, tuple[NodeId, ...]] = {}
    incarnations: dict[str, int] = {}
    shares_votes: bool = False


class NodeLog:
    """All that a node keeps on disk. Open it with `open_node_log`.

    Attributes:
        groups: the logs of its groups, by name.
        found: of the groups that were there when it was opened, what each had made durable.
        votes: saves terms and votes of its groups.
    """

    def __init__(
        self,
        disk: Disk,
        rng: Rng,
        node: NodeFile,
        wal: Wal,
        saved: Mapping[int, Stored],
        together: Mapping[int, Stored],
        bugs: Bugs = NO_BUGS,
    ) -> None:
        """Args are what `open_node_log` found; `saved` is what each group saved last, by uid."""
        number = max((stored.number for stored in (*saved.values(), *together.values())), default=0)
        self.votes = Votes(disk, together, number, self._shares_votes)
        self.groups: dict[str, GroupLog] = {}
        self.found: dict[str, Found] = {}
        self._disk = disk
        self._rng = rng
        self._node = node
        self._wal = wal
        self._bugs = bugs
        self._changing = asyncio.Lock()  # the file `node` is read, and written anew, by one change at a time

    @property
    def waiting_bytes(self) -> int:
        """What waits to be written to the write-ahead log, for all groups."""
        return self._wal.waiting_bytes

    def founders(self, name: str) -> tuple[NodeId, ...]:
        """The members with which a group began, as `create` was given them."""
        return self._node.founders.get(name, ())

    def incarnation(self, name: str) -> int:
        """How many groups of this name there were before, as `create` was given it."""
        return self._node.incarnations.get(name, 0)

    async def create(self, name: str, founders: Sequence[NodeId] = (), incarnation: int = 0) -> GroupLog:
        """The log of a new group, durably known to the node.

        Args:
            name: of the group.
            founders: ids of the members with which it begins.
            incarnation: how many groups of this name there were before.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        async with self._changing:
            node = self._node
            assert name not in node.groups, f"there is a group {name} already"
            uid = node.next_uid if M45 not in self._bugs else len(node.groups) + 1
            # Before the group is known: a group without term and vote has lost them.
            await vote.write_stored(self._disk, Stored(uid=uid, number=self.votes.next_number()))
            known = {**node.founders, name: tuple(founders)} if founders else node.founders
            times = {**node.incarnations, name: incarnation} if incarnation else node.incarnations
            groups = {**node.groups, name: uid}
            await self._save(structs.replace(node, groups=groups, next_uid=uid + 1, founders=known, incarnations=times))
            snapshots, _ = open_snapshots(self._disk, self._rng, [], lambda _: None, self._bugs)
            self.groups[name] = GroupLog(self._disk, self._wal, uid, Segments(self._disk), [], snapshots, self.votes)
            return self.groups[name]

    async def delete(self, name: str) -> None:
        """Forget a group, durably; then remove its files.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        group = self.groups[name]
        group.give_up()
        async with self._changing:
            node = self._node
            left = {other: number for other, number in node.groups.items() if other != name}
            known = {other: founders for other, founders in node.founders.items() if other != name}
            times = {other: number for other, number in node.incarnations.items() if other != name}
            await self._save(structs.replace(node, groups=left, founders=known, incarnations=times))
            self.votes.forget(group.uid)
            # Not before: were the power lost, the group would be here still, and a write-ahead file that is made
            # meanwhile must have its entries.
            del self.groups[name]
            for file in self._disk.names():
                if uid_of(file) == group.uid:
                    self._disk.remove(file)

    async def sync(self, written: Callable[[str, Written], None], max_bytes: int = MAX_BYTES) -> None:
        """For ever: make durable what is appended, then hand on the last `done` of each group, with its name.

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """

        def of_group(uid: int, done: Written) -> None:
            for name, group in self.groups.items():
                if group.uid == uid:
                    group.written(done)
                    written(name, done)

        await self._wal.sync(of_group, self, max_bytes)

    async def retire(self) -> None:
        """Put what is committed and durable into segments (`splitbrain.cluster.log.wal.Owner`)."""
        for group in list(self.groups.values()):
            await group.retire()

    def remaining(self) -> Mapping[int, Sequence[Change]]:
        """What the next file must begin with (`splitbrain.cluster.log.wal.Owner`)."""
        return {group.uid: group.remaining for group in self.groups.values()}

    def close(self) -> None:
        """Close the write-ahead log without syncing it."""
        self._wal.close()

    async def _shares_votes(self) -> None:
        """Say durably that there is a file of votes: from now on a node without it has lost something."""
        if not self._node.shares_votes:
            async with self._changing:
                await self._save(structs.replace(self._node, shares_votes=True))

    async def _save(self, node: NodeFile) -> None:
        await self._disk.replace(NODE, _form(node.shares_votes).encode(node))
        self._node = node


async def open_node_log(
    disk: Disk, node: str, rng: Rng, log: Callable[[str], None], bugs: Bugs = NO_BUGS, seen: Seen | None = None
) -> NodeLog:
    """Open the files of a node, or make them for a new one.

    Everything that is found is durable before it is returned. Files of groups that were deleted are removed.

    Args:
        disk: the node's own directory.
        node: its name.
        rng: decides which checkpoints are thinned out.
        log: takes a line about what was cut off or removed.
        bugs: what is broken on purpose.
        seen: where files of the node may have been read before.

    Raises:
        CorruptStorageError: something that had been made durable is damaged or gone.
        WrongNodeError: the files belong to another node.
        StorageError: they are of another version.
        OSError: the disk failed.
    """
    try:
        return await _open(disk, node, rng, log, bugs, seen)
    except CorruptStorageError:
        reached("corruption refused")
        raise


async def _open(disk: Disk, node: str, rng: Rng, log: Callable[[str], None], bugs: Bugs, seen: Seen | None) -> NodeLog:
    content = disk.read(NODE)
    if content is None:
        stored = await _begin(disk, node)
    else:
        stored = decode_node(content)
    if stored.node != node:
        raise WrongNodeError(
            f"the data directory belongs to node {stored.node!r}, not to {node!r}. "
            "Give this node a directory of its own."
        )
    files = disk.names()
    opened = await open_wal(disk, files, log, bugs, seen)
    if opened is None and M44 in bugs:
        await create_wal(disk)
        opened = await open_wal(disk, disk.names(), log, bugs)
    if opened is None:
        raise corrupt("wal", 0, "the write-ahead log is gone")
    wal, place, changes = opened
    together = read_votes(disk, required=stored.shares_votes)
    saved = {uid: last_saved(disk, uid, together) for uid in stored.groups.values()}
    mine = {uid: each for uid, each in together.items() if uid in saved}
    found = NodeLog(disk, rng, stored, wal, saved, mine, bugs)
    of_groups = _by_group(disk, files, stored)
    by_group: dict[int, list[Logged]] = {uid: [] for uid in stored.groups.values()}
    for uid, run in groupby(changes, key=attrgetter("uid")):
        if uid in by_group:
            by_group[uid].extend(run)
    for name, uid in stored.groups.items():
        opening = _Opening(
            *(disk, rng, wal, place, uid, by_group[uid], of_groups[uid][0], log, bugs, not is_queue_group(name)),
            *(saved[uid], found.votes),
        )
        found.groups[name], found.found[name] = opening.group(of_groups[uid][1])
    return found


async def _begin(disk: Disk, node: str) -> NodeFile:
    """Make the files of a new node. The write-ahead log comes first: alone, it is a start that was interrupted."""
    names = disk.names()
    if "meta" in names or "log" in names:
        raise StorageError(
            "the data directory is that of an earlier version, which kept all in the files meta and log. "
            "Start this node in an empty directory, as a new member."
        )
    opened = [name for name in names if uid_of(name) is not None or was_used(disk, name)]
    if opened:
        raise corrupt(NODE, 0, f"the file that names the node and its groups is gone, but {opened[0]} is there")
    await create_wal(disk)
    stored = NodeFile(node, {}, 1)
    await disk.replace(NODE, _FORM.encode(stored))
    return stored


def decode_node(content: bytes) -> NodeFile:
    """What the file `node` says.

    Raises:
        CorruptStorageError: it is damaged.
        StorageError: it is of another version.
    """
    is_later = content[4:8] == _FORM_WITH_VOTES.encode(NodeFile("", {}, 1))[4:8]
    return _form(is_later).decode(content, NODE, NodeFile)


def _form(shares_votes: bool) -> Form:
    return _FORM_WITH_VOTES if shares_votes else _FORM


def uid_of(file: str) -> int | None:
    """The group to which a file belongs, None for one that belongs to none."""
    found = _OF_GROUP.match(file)
    return None if found is None else int(found[1], 16)


def _by_group(disk: Disk, files: Sequence[str], node: NodeFile) -> dict[int, tuple[list[str], list[SnapshotName]]]:
    """Names of segments, sorted, and snapshots of each group; the files of groups that are gone are removed."""
    segments = {uid: _beginning_with(files, segment.names_begin(uid)) for uid in node.groups.values()}
    known = {file for names in segments.values() for file in names}
    found: dict[int, tuple[list[str], list[SnapshotName]]] = {uid: (names, []) for uid, names in segments.items()}
    for file in files:
        uid = None if file in known else uid_of(file)
        if uid is None:
            continue
        if uid not in found:
            reached("files of a former group removed")
            disk.remove(file)
        elif file.startswith(segment.PREFIX):
            raise corrupt(file, 0, "no segment has such a name")
        elif not file.startswith(vote.PREFIX):
            found[uid][1].append(snapshot.parse_name(file))
    return found


def _beginning_with(names: Sequence[str], prefix: str) -> list[str]:
    """Those that begin so; `names` are sorted."""
    first = bisect_left(names, prefix)
    return list(takewhile(lambda name: name.startswith(prefix), names[first:]))


@dataclass(frozen=True)
class _Opening:
    """One group whose files are opened: what there is of it, and where what is found goes."""

    disk: Disk
    rng: Rng
    wal: Wal
    place: str
    uid: int
    changes: Sequence[Logged]
    segments: list[str]
    log: Callable[[str], None]
    bugs: Bugs
    from_checkpoints: bool
    saved: Stored
    votes: Votes

    def group(self, snapshots: list[SnapshotName]) -> tuple[GroupLog, Found]:
        """The log of the group, and what it had made durable."""
        last_vote, installed = Vote(self.saved.term, self.saved.voted_for), self.saved.installed
        kept, state = open_snapshots(
            self.disk, self.rng, snapshots, self.log, self.bugs, from_checkpoints=self.from_checkpoints
        )
        if installed and (kept.newest is None or kept.newest.index < installed):
            name = f"snapshot-{self.uid:08x}-{installed:016x}"
            raise corrupt(name, 0, "the snapshot that was taken over from another member is gone")
        meta, data = state or (None, b"")
        begin = 0 if meta is None else meta.index
        group = self._log(kept, begin, last_vote, installed)
        if begin > group.last_index:
            if self.bugs.lets_committed_entries_go:
                return self.group(self._without_what_hides(group.last_index, snapshots))
            ends = f"the log ends at entry {group.last_index}, but there is a checkpoint of entry {begin}"
            raise corrupt(self.place, 0, ends)
        if group.last_index:
            reached("recovered with a log")
        return group, Found(last_vote, meta, data, group.read(begin + 1, group.last_index))

    def _log(self, kept: Snapshots, begin: int, last_vote: Vote, installed: int) -> GroupLog:
        base = 0 if kept.covering is None else kept.covering.index
        segments = Segments(self.disk, self.segments)
        segments.forget(base)
        segments.require(base, begin + 1)
        replay = Replay(self.place, segments.last, kept.covering)
        replay.take_all(self.changes)
        if replay.is_replaced and kept.newest is not None:
            self.wal.change(self.uid, Beginning(kept.newest.index, kept.newest.term))
        entries = replay.entries()
        return GroupLog(self.disk, self.wal, self.uid, segments, entries, kept, self.votes, last_vote, installed)

    def _without_what_hides(self, last: int, snapshots: list[SnapshotName]) -> list[SnapshotName]:
        """Remove the checkpoints of entries that a bug has lost: a checker must see that these are gone."""
        hiding = [name for name in snapshots if name.sort == "checkpoint" and name.index > last]
        for name in hiding:
            self.disk.remove(str(name))
        return [name for name in snapshots if name not in hiding]
