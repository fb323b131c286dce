"""The segments of one group, in order: what a start needs of them is checked then, the others when they are read.

A start goes on from the newest checkpoint. Segments that lie wholly before it are listed and neither parsed nor opened:
a start takes as long after a million entries as after a hundred thousand. They are needed if that checkpoint is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import dropwhile
from typing import Final

from splitbrain.cluster.log import segment
from splitbrain.cluster.log.damage import corrupt
from splitbrain.cluster.log.segment import SegmentName
from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft.messages import Entry
from splitbrain.cluster.runtime import Disk

_DIGITS: Final = 16


class Segments:
    """The segments of one group that hold something which its snapshot does not.

    Args:
        disk: of the node.
        names: of their files, sorted.
    """

    def __init__(self, disk: Disk, names: Iterable[str] = ()) -> None:
        self._disk = disk
        # Fixed widths: names are in the order of their entries, and end with their last entry's index.
        self._names = list(names)
        self._cached: tuple[str, list[Entry]] | None = None

    @property
    def first(self) -> int | None:
        """Index of the first entry, None if there is no segment.

        Raises:
            CorruptStorageError: the first file has no name of a segment.
        """
        return segment.parse_name(self._names[0]).first if self._names else None

    @property
    def last(self) -> int:
        """Index of the last entry, 0 if there is no segment.

        Raises:
            CorruptStorageError: the last file has no name of a segment.
        """
        return segment.parse_name(self._names[-1]).last if self._names else 0

    def add(self, name: SegmentName) -> None:
        """Add a segment that is on disk, durably, behind the others."""
        self._names.append(str(name))

    def forget(self, upto: int) -> None:
        """Remove segments that end at an entry of up to this index; one that has later entries stays whole.

        Raises:
            CorruptStorageError: one of them has no name of a segment.
        """
        self._cached = None
        kept = self._behind(upto)
        for name in self._names[: len(self._names) - len(kept)]:
            self._disk.remove(str(segment.parse_name(name)))
        self._names = kept
        # By their names, as `_behind`: a start does not look at them more closely unless it needs them.
        if kept and kept[0][-2 * _DIGITS - 1 : -_DIGITS - 1] <= f"{upto:0{_DIGITS}x}":
            reached("segment kept for later entries")

    def require(self, base: int, first: int) -> None:
        """Refuse to go on without a segment that has entries from `first` on.

        Args:
            base: the entry of the snapshot; the log may begin behind it.
            first: index of the first entry that is needed.

        Raises:
            CorruptStorageError: one is missing, or there twice.
        """
        self._from(base, first)

    def read(self, base: int, first: int, last: int) -> list[Entry]:
        """Entries from `first` to `last`, both included, as far as there are any in segments; `base` as in `require`.

        Raises:
            CorruptStorageError: a segment that is needed is damaged, or missing.
            OSError: the disk failed.
        """
        found: list[Entry] = []
        for name in self._from(base, first):
            if name.first <= last:
                content = self._content(name)
                found += content[max(0, first - name.first) : last + 1 - name.first]
        return found

    def _from(self, base: int, first: int) -> list[SegmentName]:
        """The segments with entries from `first` on, which follow each other."""
        needed = [segment.parse_name(name) for name in self._behind(first - 1)]
        skipped = len(self._names) - len(needed)
        end = segment.parse_name(self._names[skipped - 1]).last if skipped else base
        for position, name in enumerate(needed):
            # The first of all may begin before the snapshot ends; the others follow each other.
            if name.first > end + 1 or ((position or skipped) and name.first != end + 1):
                raise corrupt(str(name), 0, f"it does not follow entry {end}: a file is gone, or there twice")
            end = name.last
        return needed

    def _behind(self, index: int) -> list[str]:
        """The names from the first one on that ends behind this index."""
        bound = f"{index:0{_DIGITS}x}"
        return list(dropwhile(lambda name: name[-_DIGITS:] <= bound, self._names))

    def _content(self, name: SegmentName) -> list[Entry]:
        file = str(name)
        if self._cached is None or self._cached[0] != file:
            self._cached = file, segment.decode(self._disk.read(file) or b"", name)
        return self._cached[1]
