"""The numbers that files give to the kinds of entries."""

from __future__ import annotations

from typing import Final

from splitbrain.cluster.raft.messages import EntryKind

NUMBERS: Final[dict[EntryKind, int]] = {"noop": 1, "command": 2, "config": 5}
KINDS: Final[dict[int, EntryKind]] = {number: kind for kind, number in NUMBERS.items()}
