"""When a leader drops the results of clients that it hears of no more: see `splitbrain.cluster.dedup`.

No time is in the state. The leader notes now and then up to which index it has applied: a record that was last changed
at or before that index has not been used since. A new leader begins without notes, and so keeps records longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from splitbrain.cluster.bugs import M32B, NO_BUGS, Bugs
from splitbrain.cluster.dedup import DropRefs

NOTE_INTERVAL_NS: Final = 1_000_000_000

_MS: Final = 1_000_000
_MAX_DROPPED: Final = 256
"""Records that one command drops."""


class Expiry:
    """The notes of one leader, and what they let it drop."""

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self._interval_ns = NOTE_INTERVAL_NS if M32B not in bugs else 0
        self._unit_ns = _MS if M32B not in bugs else 0
        self._notes: deque[tuple[int, int]] = deque()  # monotonic ns, applied index; the oldest first
        self._waits = False

    def reset(self) -> None:
        """The node does not lead, or leads anew."""
        self._notes.clear()
        self._waits = False

    def answered(self) -> None:
        """The last command that was given out was applied, or was not."""
        self._waits = False

    def due(self, now_ns: int, applied_index: int, ages: Iterable[tuple[str, int, int]]) -> DropRefs | None:
        """What is to be dropped now; None most of the time. Called at every tick of a leader.

        Args:
            now_ns: the monotonic clock.
            applied_index: of the state.
            ages: as `splitbrain.cluster.dedup.Table.ages` gives them.
        """
        if self._notes and now_ns - self._notes[-1][0] < self._interval_ns:
            return None
        self._notes.append((now_ns, applied_index))
        if self._waits:
            return None
        seen = list(ages)
        unused = {keep_ms: self._applied_at(now_ns - keep_ms * self._unit_ns) for _, _, keep_ms in seen}
        found = [(client, changed) for client, changed, keep_ms in seen if changed <= unused[keep_ms]]
        self._forget_notes(now_ns - max(unused, default=0) * self._unit_ns)
        self._waits = bool(found)
        return DropRefs(tuple(found[:_MAX_DROPPED])) if found else None

    def _applied_at(self, time_ns: int) -> int:
        """What was applied at a time at least; -1 if there is no note as old as that."""
        applied = -1
        for noted_ns, index in self._notes:
            if noted_ns > time_ns:
                break
            applied = index
        return applied

    def _forget_notes(self, time_ns: int) -> None:
        """Only the last note of those that are as old as that is needed."""
        while len(self._notes) > 1 and self._notes[1][0] <= time_ns:
            self._notes.popleft()
