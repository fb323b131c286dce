"""What the files of a group say, put together: the entries behind its segments.

Pure: the ends of segments and snapshot and the changes in the write-ahead log give the entries that a group has beside
its segments, or an error that says what is missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.log.snapshot import SnapshotName
from splitbrain.cluster.log.walfile import Beginning, Change, Elsewhere, Logged, Truncation
from splitbrain.cluster.raft.messages import Entry


class Replay:
    """The log of a group behind its segments, as the write-ahead log says.

    Args:
        wal: name of the write-ahead file, for messages.
        segmented: the last entry that is in a segment, 0 if there is none.
        snapshot: of the group.
    """

    def __init__(self, wal: str, segmented: int, snapshot: SnapshotName | None) -> None:
        self._entries: list[Entry] = []
        self._is_continued = True
        self._wal = wal
        self._base = 0 if snapshot is None else snapshot.index
        self._base_term = 0 if snapshot is None else snapshot.term
        self._floor = max(self._base, segmented)

    @property
    def _last_index(self) -> int:
        return self._floor + len(self._entries)

    @property
    def is_replaced(self) -> bool:
        """Whether the log differs from the snapshot, and the record which says that it was installed is lost."""
        return not self._is_continued

    def entries(self) -> list[Entry]:
        """The entries behind the segments and the snapshot, without gaps."""
        return self._entries if self._is_continued else []

    def take_all(self, changes: Sequence[Logged]) -> None:
        """Take the changes of the group, in order.

        Raises:
            CorruptStorageError: what one of them builds on is missing.
        """
        entries = self._entries
        next_index = self._last_index + 1
        for logged in changes:
            change = logged.change
            if type(change) is Entry and change.index == next_index:  # as all but a few are
                entries.append(change)
                next_index += 1
            else:
                self.take(logged)
                next_index = self._last_index + 1

    def take(self, logged: Logged) -> None:
        """Take a change of the group.

        Raises:
            CorruptStorageError: what it builds on is missing.
        """
        change: Change = logged.change
        if isinstance(change, Entry):
            self._take_entry(change, logged.offset)
        elif isinstance(change, Truncation):
            del self._entries[max(0, change.from_index - 1 - self._floor) :]
        elif isinstance(change, Beginning):
            self._begin(change, logged.offset)
        else:
            self._require(change, logged.offset)

    def _take_entry(self, entry: Entry, offset: int) -> None:
        if entry.index > self._last_index + 1:
            raise corrupt(
                self._wal, offset, f"entry {entry.index} follows entry {self._last_index}: what is between is gone"
            )
        if entry.index > self._floor:
            del self._entries[entry.index - 1 - self._floor :]
            self._entries.append(entry)
            return
        # Segments hold what is committed, and so does a snapshot: this is how it came about. What was behind it when it
        # was written is void.
        self._entries.clear()
        if entry.index == self._base:
            self._is_continued = entry.term == self._base_term

    def _require(self, change: Elsewhere, offset: int) -> None:
        if change.index > self._floor:
            raise corrupt(
                self._wal,
                offset,
                f"entries up to {change.index} were in segments and the snapshot, and what is there ends at "
                f"{self._floor}: a file is gone",
            )

    def _begin(self, change: Beginning, offset: int) -> None:
        if change.index > self._base:
            raise corrupt(
                self._wal, offset, f"the snapshot of entry {change.index}, behind which the log goes on, is gone"
            )
        self._entries.clear()
        self._is_continued = True
