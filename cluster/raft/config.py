"""The figures that consensus runs with."""

from __future__ import annotations

from typing import Final

import msgspec

HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 600
"""The shortest election timeout, unless a member is configured otherwise; the longest is twice that."""

MAX_BATCH: Final = 128
"""Entries in one Append at most, unless a member is configured otherwise."""

MAX_PIPELINE: Final = 4096
"""Entries on their way to one follower at most, unless a member is configured otherwise."""

MAX_PENDING: Final = 4096
"""Proposals, reads and requests under way at most (of each), unless a member is configured otherwise."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Times and limits of a member; the same on all members of a cluster.

    Attributes:
        heartbeat_ms: the longest time between messages of a leader to its followers.
        election_min_ms: the shortest random election timeout.
        election_max_ms: the longest.
        max_batch: entries in one Append at most (RA-11).
        max_pipeline: entries on their way to one follower at most (RA-11).
        max_pending: proposals not committed, and reads not confirmed, that a leader holds at most (of each), and
            requests under way at a node; beyond that it answers "busy".
        lease_reads: the leader may answer reads on a lease, and no member votes while it hears a leader.
        readmits: a member that has left may join again under its id: nodes keep its vote and its log.

    Raises:
        ValueError: figures with which no leader could stay in office.
    """

    heartbeat_ms: int = HEARTBEAT_MS
    election_min_ms: int = ELECTION_MS
    election_max_ms: int = 2 * ELECTION_MS
    max_batch: int = MAX_BATCH
    max_pipeline: int = MAX_PIPELINE
    max_pending: int = MAX_PENDING
    lease_reads: bool = False
    readmits: bool = False

    def __post_init__(self) -> None:
        """Refuse figures with which no leader could stay in office."""
        if not 0 < self.heartbeat_ms < self.election_min_ms <= self.election_max_ms:
            raise ValueError(
                f"0 < heartbeat_ms < election_min_ms <= election_max_ms does not hold for {self.heartbeat_ms}, "
                f"{self.election_min_ms}, {self.election_max_ms}."
            )
        if min(self.max_batch, self.max_pipeline, self.max_pending) < 1:
            raise ValueError("max_batch, max_pipeline and max_pending must be at least 1.")

    @property
    def quorum_ticks(self) -> int:
        """Heartbeats that a leader survives without hearing from a majority: two (longest) election timeouts (D12)."""
        return -(-2 * self.election_max_ms // self.heartbeat_ms)

    @property
    def lease_ns(self) -> int:
        """How long a lease lasts: three quarters of the shortest election timeout.

        The rest is for clocks that run at different rates: the slowest may lose a quarter against the fastest.
        """
        return self.election_min_ms * 750_000
