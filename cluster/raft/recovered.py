"""What a member begins with."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from splitbrain.cluster.raft.messages import OLDEST, Entry, NodeId


class Recovered(msgspec.Struct, frozen=True):
    """What a member had made durable before it stopped.

    Attributes:
        term: its term; 0 if it never was in one.
        voted_for: the node that it voted for in that term.
        entries: its log behind the snapshot, without a gap; from index 1 if there is no snapshot.
        base_index: of the last entry that the snapshot covers, 0 if there is none.
        base_term: its term.
        configurations: those in the log up to there, as the snapshot has them.
        version: of the state machine, in force there.
    """

    term: int = 0
    voted_for: NodeId | None = None
    entries: Sequence[Entry] = ()
    base_index: int = 0
    base_term: int = 0
    configurations: bytes = b""
    version: int = OLDEST
