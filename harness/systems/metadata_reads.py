"""The kinds of reads of the metadata cluster, and what each promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from splitbrain.cluster.client import ReadMode
from splitbrain.harness.contract.read_modes import (
    READ,
    READ_AFTER,
    READ_FENCED,
    READ_LEADER,
    READ_LOCAL,
    ReadPromise,
)

READS: Final = {
    READ: ReadPromise(
        line="the leader answers, once a majority confirmed it",
        linearizable="always",
        follows=("write", READ, READ_LEADER, READ_LOCAL, READ_AFTER, READ_FENCED),
        needs_quorum=True,
    ),
    READ_LEADER: ReadPromise(
        line="the node that takes itself for the leader answers, from what it has applied",
        linearizable="one leader",
        follows=("write", READ),
        same_term=True,
    ),
    READ_LOCAL: ReadPromise(
        line="the node of the client answers, from what it has applied",
        follows=(READ_AFTER, READ_FENCED),
    ),
    READ_FENCED: ReadPromise(
        line="the node of the client answers, once it has applied what the leader that it knows has in its log",
        linearizable="one leader",
        follows=("write", READ, READ_LEADER, READ_LOCAL, READ_AFTER),
    ),
    READ_AFTER: ReadPromise(
        line="the node of the client answers, once it has applied the last write of the session",
        follows=("write", READ_LOCAL, READ_FENCED),
    ),
}
"""A leader answers writes: the node of the client may apply one later, so that local reads do not follow
writes. They follow each other while the node lives, since what it has applied only grows. A new leader may have applied
less than the last one had."""
MODES: Final[Mapping[str, ReadMode]] = {
    READ: "consistent",
    READ_LEADER: "leader",
    READ_LOCAL: "local",
    READ_AFTER: "local",
    READ_FENCED: "fenced",
}
