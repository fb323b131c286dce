"""A node's telemetry: one JSON line for every change of role, term or leader, and one for commits every 100 ms at most.

    {"wall": ns since the epoch, "group": "metadata", "event": "role", "term": 3, "role": "leader", "leader": "n1",
     "commit": 17, "applied": 17, "voters": ["n1", "n2", "n3"], "chain": "hex", "state": "hex"}

`chain` and `state` are those at `applied`. Events: start, role, commit, rebuild, stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from cluster.runtime import Runtime, Timer
from cluster.wire import Status

GROUP: Final = "metadata"
COMMIT_INTERVAL_NS: Final = 100_000_000


class _Line(msgspec.Struct, frozen=True):
    wall: int
    group: str
    event: str
    term: int
    role: str
    leader: str | None
    commit: int
    applied: int
    voters: tuple[str, ...]
    chain: str
    state: str


class Telemetry:
    """Writes lines about what `status` says when called."""

    def __init__(self, runtime: Runtime, voters: tuple[str, ...], status: Callable[[], Status]) -> None:
        self._runtime = runtime
        self._voters = voters
        self._status = status
        self._encoder = msgspec.json.Encoder()
        self._timer: Timer | None = None
        self._commit_is_news = False

    def event(self, event: str) -> None:
        """Write a line now."""
        self._commit_is_news = False
        status = self._status()
        line = _Line(
            wall=self._runtime.clock.wall_ns(),
            group=GROUP,
            event=event,
            term=status.term,
            role=status.role,
            leader=status.leader,
            commit=status.commit_index,
            applied=status.applied_index,
            voters=self._voters,
            chain=status.chain_hash,
            state=status.state_hash,
        )
        self._runtime.telemetry(self._encoder.encode(line))

    def commit_advanced(self) -> None:
        """Write a line now, or when the last one about a commit is 100 ms old."""
        if self._timer is None:
            self.event("commit")
            self._timer = self._runtime.clock.call_later(COMMIT_INTERVAL_NS, self._interval_over)
        else:
            self._commit_is_news = True

    def _interval_over(self) -> None:
        self._timer = None
        if self._commit_is_news:
            self.commit_advanced()
