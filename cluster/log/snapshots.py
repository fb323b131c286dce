"""The snapshots and checkpoints of one group (RA-36 to RA-40).

A snapshot is durable, and the log before it is not needed any more. A checkpoint is written without a sync and takes
nothing out of the log, so that it costs little; promoted, it becomes the snapshot. (S004: Ra pull request 415.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from splitbrain.cluster.bugs import M40, M41, M42, NO_BUGS, Bugs
from splitbrain.cluster.errors import CorruptStorageError
from splitbrain.cluster.log import snapshot as form
from splitbrain.cluster.log.snapshot import Meta, SnapshotName
from splitbrain.cluster.marks import reached
from splitbrain.cluster.runtime import Disk, Rng

MAX_CHECKPOINTS: Final = 10
"""Ra's default (RA-39)."""


class Snapshots:
    """The snapshots and checkpoints of one group. Open it with `open_snapshots`.

    Attributes:
        newest: the snapshot, None if there is none.
        checkpoints: in order of their indexes, all of them beyond the snapshot.
        base: the one with which the node went on, at its start or since: its log in memory begins behind it.
    """

    def __init__(
        self,
        disk: Disk,
        rng: Rng,
        newest: SnapshotName | None,
        checkpoints: list[SnapshotName],
        bugs: Bugs = NO_BUGS,
    ) -> None:
        self.newest = newest
        self.checkpoints = checkpoints
        self.base = newest
        self._disk = disk
        self._rng = rng
        self._bugs = bugs
        self._counts_checkpoints = M40 in bugs

    @property
    def covering(self) -> SnapshotName | None:
        """What stands for the log up to there; None if that is needed from the beginning."""
        return self.checkpoints[-1] if self._counts_checkpoints and self.checkpoints else self.newest

    async def write(self, meta: Meta, data: bytes) -> None:
        """Make a snapshot durable; then older snapshots and checkpoints are not needed any more.

        Raises:
            OSError: it is not known whether it is durable; the node must stop.
        """
        name = SnapshotName("snapshot", meta.uid, meta.index, meta.term)
        await self._disk.replace(str(name), form.encode(meta, data))
        self._became(name)

    def checkpoint(self, meta: Meta, data: bytes) -> None:
        """Write a checkpoint, without a sync. If there are too many, one from the middle is removed (RA-39, D4).

        Raises:
            OSError: it could not be written; the node must stop.
        """
        name = SnapshotName("checkpoint", meta.uid, meta.index, meta.term)
        assert not self.checkpoints or self.checkpoints[-1].index < meta.index, f"{name} is no newer than others"
        file = self._disk.open(str(name))
        try:
            file.truncate(0)
            file.append(form.encode(meta, data))
        finally:
            file.close()
        self.checkpoints.append(name)
        reached("checkpoint written")
        # Not the first, the last resort, and not the last, the shortest way; which one else is drawn, so that with time
        # they are ever further apart. What a follower gets that lacks what is before the log in memory stays as well.
        middle = [each for each in self.checkpoints[1:-1] if each != self.base]
        if len(self.checkpoints) > MAX_CHECKPOINTS and middle:
            reached("checkpoint thinned out")
            chosen = middle[self._rng.between(0, len(middle) - 1)]
            self.checkpoints.remove(chosen)
            self._disk.remove(str(chosen))
            if self.base in self.checkpoints[1:-1]:
                reached("checkpoint kept for followers")

    def has_base(self) -> bool:
        """Whether the disk has what a follower is sent that lacks what is before the log in memory.

        Raises:
            OSError: the disk failed.
        """
        return self.base is None or self._disk.has(str(self.base))

    def promotable(self, upto: int) -> SnapshotName | None:
        """The newest checkpoint of an index of at most `upto` that may become the snapshot, None if there is none.

        Not one before the base: nobody has read it, so it may not be whole after a loss of power; and a follower that
        was sent it would lack entries that are not in memory any more.
        """
        least = 0 if self.base is None else self.base.index
        fit = [name for name in self.checkpoints if least <= name.index <= upto]
        return fit[-1] if fit else None

    async def promote(self, upto: int) -> SnapshotName | None:
        """Make the newest checkpoint that may be promoted the snapshot; None if there is none (any more).

        Raises:
            OSError: it is not known what is durable; the node must stop.
        """
        chosen = self.promotable(upto)
        if chosen is None:
            return None
        name = replace(chosen, sort="snapshot")
        # Content before name: a snapshot that has its name must be whole (RA-38).
        file = self._disk.open(str(chosen))
        try:
            if M41 not in self._bugs:
                await file.sync()
        finally:
            file.close()
        if chosen not in self.checkpoints:
            # The leader's snapshot was installed meanwhile, or the group was deleted.
            return None
        self.checkpoints.remove(chosen)
        self._disk.rename(str(chosen), str(name))
        if self.base == chosen:
            self.base = name  # a follower may be sent it while the new name is synced
        await self._disk.sync_names()
        reached("checkpoint promoted")
        return name if self._became(name) else None

    def give_up(self) -> None:
        """Promote nothing any more: the files are about to be removed."""
        self.checkpoints = []

    def read(self, name: SnapshotName) -> tuple[Meta, bytes]:
        """What a snapshot or checkpoint holds.

        Raises:
            CorruptStorageError: it is damaged, or gone.
        """
        return form.decode(self._disk.read(str(name)) or b"", name)

    def _became(self, name: SnapshotName) -> bool:
        """Remove what a new snapshot replaces; it must be durable. False if there is a newer one by now."""
        former = self.newest
        if former is not None and former.index > name.index:
            # The leader's snapshot was installed while this one was written.
            self._disk.remove(str(name))
            return False
        self.newest = self.base = name
        if former is not None and former != name:
            self._disk.remove(str(former))
        for each in self.checkpoints:
            if each.index <= name.index:
                self._disk.remove(str(each))
        self.checkpoints = [each for each in self.checkpoints if each.index > name.index]
        return True


def open_snapshots(
    disk: Disk,
    rng: Rng,
    names: list[SnapshotName],
    log: Callable[[str], None],
    bugs: Bugs = NO_BUGS,
    *,
    from_checkpoints: bool = True,
) -> tuple[Snapshots, tuple[Meta, bytes] | None]:
    """The snapshots and checkpoints of a group, and the state of the newest one that is valid (RA-40).

    A checkpoint that is not whole was written and not synced before a loss of power: it is removed, and so is what the
    snapshot has replaced.

    Args:
        disk: of the node.
        rng: decides which checkpoints are thinned out.
        names: of the files of the group.
        log: the log of the node.
        bugs: what is broken on purpose.
        from_checkpoints: whether a checkpoint may be where the group goes on. If not they are removed: a machine that
            needs entries of before, as their bodies, goes on from the snapshot.

    Raises:
        CorruptStorageError: the snapshot is damaged.
        StorageError: it is of another version.
    """
    snapshots = sorted((name for name in names if name.sort == "snapshot"), key=_index)
    newest = snapshots[-1] if snapshots else None
    beyond = 0 if newest is None else newest.index
    checkpoints = sorted((name for name in names if name.sort == "checkpoint" and name.index > beyond), key=_index)
    if not from_checkpoints:
        checkpoints = []
    kept = {*checkpoints, newest}
    for name in names:
        if name not in kept:
            reached("former snapshot removed")
            disk.remove(str(name))
    found = Snapshots(disk, rng, newest, checkpoints, bugs)
    state = None if newest is None else found.read(newest)
    while checkpoints:
        try:
            state = found.read(checkpoints[-1])
        except CorruptStorageError as error:
            if M42 in bugs:
                raise
            reached("checkpoint skipped")
            log(f"a checkpoint is removed, which was not whole: {error}")
            disk.remove(str(checkpoints.pop()))
        else:
            found.base = checkpoints[-1]
            reached("recovered from a checkpoint")
            break
    return found, state


def _index(name: SnapshotName) -> int:
    return name.index
