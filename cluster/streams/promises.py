"""What speaks for the promises of a stream's writer, for telemetry: how much of its log each voter has as durable.

    {"wall": ns since the epoch, "mono": ns, "group": ":stream 3", "event": "commit", "term": 2, "leader": "n1",
     "log_index": 17, "log_term": 2, "counted_index": 17, "counted": {"n1": 17, "n2#1": 17, "n3": 12}}

`group` has the number of the stream, `term` the epoch that this node writes. `counted_index` is the offset up to which
it has committed messages, or confirmed them to publishers; `counted` is how far the log reaches that each voter asked
for more behind, as these frames came in, and the writer's own as far as it was written: so a member that counts wrongly
has no part in it. `log_term` is the epoch of what a majority has, if that is enough.

A line comes every 100 ms at most, but at once if no majority has what was promised, or has it of an earlier epoch: such
a promise another writer may break (ST-2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from splitbrain.cluster.runtime import Clock
from splitbrain.cluster.streams.position import BEGIN, Position

INTERVAL_NS: Final = 100_000_000


class _Line(msgspec.Struct, frozen=True):
    wall: int
    mono: int
    group: str
    event: str
    term: int
    leader: str
    log_index: int
    log_term: int
    counted_index: int
    counted: dict[str, int]


class Promises:
    """Those of one copy, in the epoch that it writes.

    Args:
        stream: its number.
        member: this node's id.
        node: this node's name.
        clock: of the node.
        say: takes a line.
    """

    def __init__(self, stream: int, member: str, node: str, clock: Clock, say: Callable[[bytes], None]) -> None:
        self._group = f":stream {stream}"
        self._member = member
        self._node = node
        self._clock = clock
        self._say = say
        self._epoch = 0
        self._has: dict[str, Position] = {}
        self._said = 0
        self._next_ns = 0

    def begins(self, epoch: int, committed: int) -> None:
        """This node writes an epoch from now on; messages below an offset were committed before."""
        self._epoch, self._has, self._said = epoch, {}, committed

    def has(self, epoch: int, voter: str, end: Position) -> None:
        """In this epoch a voter has a log that ends there, as durable; nothing comes of it in another epoch."""
        if epoch == self._epoch:
            self._has[voter] = max(end, self._has.get(voter, BEGIN))

    def written(self, epoch: int, end: Position) -> None:
        """The writer of this epoch has its own log up to there as durable."""
        self.has(epoch, self._member, end)

    def made(self, epoch: int, voters: Sequence[str], upto: int) -> None:
        """The writer of this epoch has promised the messages below an offset to clients."""
        if epoch != self._epoch or upto <= self._said:
            return
        has = {voter: self._has.get(voter, BEGIN) for voter in voters}
        by_majority = sorted(has.values(), reverse=True)[len(has) // 2]
        is_odd = by_majority.epoch != epoch or by_majority.offset < upto
        mono_ns = self._clock.monotonic_ns()
        if not is_odd and mono_ns < self._next_ns:
            return
        self._said, self._next_ns = upto, mono_ns + INTERVAL_NS
        counted = {voter: end.offset for voter, end in has.items()}
        line = _Line(
            wall=self._clock.wall_ns(),
            mono=mono_ns,
            group=self._group,
            event="commit",
            term=epoch,
            leader=self._node,
            log_index=upto,
            log_term=by_majority.epoch if by_majority.offset >= upto else epoch,
            counted_index=upto,
            counted=counted,
        )
        self._say(msgspec.json.encode(line))
