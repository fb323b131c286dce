"""When the state is written down, and which entries are needed no more (QQ-6)."""

from __future__ import annotations

from typing import Final

import msgspec

MIN_INDEXES: Final = 4096
MAX_INDEXES: Final = 666_667
MIN_INTERVAL_MS: Final = 1000


class Checkpoints(msgspec.Struct, array_like=True):
    """The last checkpoint, which all members ask for at the same entry.

    Attributes:
        index: of the entry behind which it was.
        time: of that entry, in ms.
        after: how many entries make another one worthwhile: the more messages, the larger a checkpoint is.
    """

    index: int = 0
    time: int = 0
    after: int = MIN_INDEXES

    def is_due(self, index: int, now: int, messages: int, forced: bool) -> bool:
        """Whether the state is to be written down behind this entry, of this time, with so many messages in it."""
        since = index - self.index
        enough = since > (self.after if messages else MIN_INDEXES) and now - self.time > MIN_INTERVAL_MS
        if not enough and not forced:
            return False
        self.index, self.time = index, now
        self.after = min(max(messages, MIN_INDEXES), MAX_INDEXES)
        return True
