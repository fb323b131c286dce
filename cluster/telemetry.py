"""A node's telemetry: one JSON line for every change of role, term or leader, one for commits every 100 ms at most.

    {"wall": ns since the epoch, "mono": ns, "group": "metadata", "event": "role", "term": 3, "role": "leader",
     "leader": "n1", "commit": 17, "applied": 17, "voters": ["n1", "n2", "n3"], "chain": "hex", "state": "hex",
     "last": null, "projection": "hex", "projected": "hex"}

`mono` is the monotonic clock: a reader that knows its offset to the host's can place the line in time, although the
wall clock be wrong. `chain` and `state` are those at `applied`, `leader` is the leader that the node knows, and
`voters` are the nodes whose members are in the configuration that it has in force. `projection` is the hash of what the
node's projections hold, `projected` that of what they should hold by its tree (`splitbrain.cluster.projection`).
Events:

    new-member    what follows comes from another member than what came before: the node left, lost its data, and begins
                  with nothing (`splitbrain.cluster.members`); comes before the "start" of its first process
    start, stop   a process of the node begins, ends in good order
    role          role, term or leader changed; of a new leader `last` is the index at which its log ended when it was
                  elected, before it appended anything
    vote          the node voted in `term`; `leader` is the node that it voted for
    commit        more was committed, at most every 100 ms
    hash          `applied` has just become a multiple of 64: each node reports its hashes at that index, so they can
                  be compared
    members       another configuration of members is in force on the node: it was appended to its log, or what had
                  replaced it was cut off; committed or not
    cut           entries that were durable are to be removed from the log: another leader's take their place
    rebuild       the state was thrown away, and is built again (only with a bug switched on)
    end           the process ended, also if it was killed; only in a simulation (`Runtime.last_words`)

`leader` of a "start" is the node for which it had voted in `term`, as it recovered that.
`last` of a "start" is the index at which the log ends that the node recovered; of a "role" see above; in all other
lines it is the index up to which the node has said to others, or counted itself, that its log is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from splitbrain.cluster.runtime import Runtime, Timer
from splitbrain.cluster.wire import Status

COMMIT_INTERVAL_NS: Final = 100_000_000
HASH_INTERVAL: Final = 64
"""The number of entries between two indexes at which every node reports its hashes."""


class _Line(msgspec.Struct, frozen=True):
    wall: int
    mono: int
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
    last: int | None
    projection: str
    projected: str


class Telemetry:
    """Writes lines about what `status`, `voters` and `projections` say when called.

    Attributes:
        durable: the index up to which the node has said that its log is durable.
    """

    def __init__(
        self,
        runtime: Runtime,
        group: str,
        voters: Callable[[], tuple[str, ...]],
        status: Callable[[], Status],
        projections: Callable[[], tuple[str, str]],
    ) -> None:
        self.durable = 0
        self._runtime = runtime
        self._group = group
        self._voters = voters
        self._status = status
        self._projections = projections
        self._encoder = msgspec.json.Encoder()
        self._timer: Timer | None = None
        self._commit_is_news = False

    def event(self, event: str, *, voted_for: str | None = None) -> None:
        """Write a line now."""
        self._write(event, voted_for, self.durable)

    def _write(self, event: str, voted_for: str | None, last: int | None) -> None:
        self._commit_is_news = False
        self._runtime.telemetry(self._line(event, voted_for, last))

    def _line(self, event: str, voted_for: str | None, last: int | None) -> bytes:
        status = self._status()
        projection, projected = self._projections()
        line = _Line(
            wall=self._runtime.clock.wall_ns(),
            mono=self._runtime.clock.monotonic_ns(),
            group=self._group,
            event=event,
            term=status.term,
            role=status.role,
            leader=voted_for or status.leader,
            commit=status.commit_index,
            applied=status.applied_index,
            voters=self._voters(),
            chain=status.chain_hash,
            state=status.state_hash,
            last=last,
            projection=projection,
            projected=projected,
        )
        return self._encoder.encode(line)

    def role(self, inherited: int | None) -> None:
        """Role, term or leader have changed; `inherited`, for a leader, is the last index of what it did not append."""
        self._write("role", None, inherited)

    def start(self, last_index: int, voted_for: str | None) -> None:
        """The node has recovered a log that ends at an index, and its vote."""
        self.durable = last_index
        self.event("start", voted_for=voted_for)
        self._runtime.last_words(lambda: self._line("end", None, self.durable))

    def cut(self, last_index: int) -> None:
        """The log is to be cut off behind an index."""
        if last_index < self.durable:
            self.durable = last_index
            self.event("cut")

    def vote(self, candidate: str) -> None:
        """The node has voted."""
        self.event("vote", voted_for=candidate)

    def applied(self, index: int) -> None:
        """The node has just applied the entry at `index`, and nothing behind it."""
        if index % HASH_INTERVAL == 0:
            self.event("hash")

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
