"""The hash chain over a log: one hash for all entries up to an index.

A store has it for what it applied. What is in a log behind that is hashed only when a line of telemetry is due: the
tail that is not applied yet is short, and an entry costs a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec

from splitbrain.cluster.raft import Entry
from splitbrain.cluster.raft.log import Log

_HASH_BYTES: Final = 16

EMPTY: Final = bytes(_HASH_BYTES)
"""The chain of a log without entries."""

HASHED_AT_ONCE: Final = 4096
"""Entries that are hashed for one line at most: some five milliseconds of work."""


def chained(chain: bytes, entry: Entry) -> bytes:
    """The chain up to an entry, from that up to the one before it."""
    head = f"{entry.index} {entry.term} {entry.kind} ".encode()
    return blake2b(chain + head + entry.data, digest_size=_HASH_BYTES).digest()


class Point(msgspec.Struct, frozen=True, gc=False):
    """An entry of a log: its index, its term, and the chain up to it in hexadecimal digits; None if it is not known."""

    index: int
    term: int
    chain: str | None


class LogChain:
    """Chains of a member's log, of entries that are applied or not.

    Args:
        log: of the member; it is only looked at.
        applied: the index up to which the store applied, and the chain up to there.
    """

    def __init__(self, log: Log, applied: Callable[[], tuple[int, bytes]]) -> None:
        self._log = log
        self._applied = applied
        self._hashed: tuple[int, bytes] | None = None

    def forget(self) -> None:
        """Entries were taken out of the log, or the store does not go on from where it was."""
        self._hashed = None

    @property
    def last_index(self) -> int:
        """Of the last entry of the log."""
        return self._log.last_index

    def term(self, index: int) -> int:
        """The term of an entry of the log."""
        return self._log.term(index)

    def end(self) -> Point | None:
        """The point of the last entry, as `at` gives it."""
        return self.at(self._log.last_index)

    def at(self, index: int) -> Point | None:
        """The point of an index; None if it is 0, not in the log, before what is applied, or far behind that."""
        log, begin = self._log, self._applied()
        if self._hashed is not None and begin[0] < self._hashed[0] <= index:
            begin = self._hashed
        first, chain = begin
        if not (log.base_index <= first <= index <= log.last_index and 0 < index <= first + HASHED_AT_ONCE):
            return None
        for entry in log.slice(first + 1, index):
            chain = chained(chain, entry)
        self._hashed = (index, chain)
        return Point(index, log.term(index), chain.hex())
