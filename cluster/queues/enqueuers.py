"""Publishers: the number that each sends next, and whether they were asked to stop (QQ-2, QQ-7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from splitbrain.cluster.queues.identities import Process

Sequenced: TypeAlias = Literal["next", "duplicate", "out_of_order"]


class Enqueuer(msgspec.Struct, array_like=True):
    """A publisher.

    Attributes:
        next_seq: the number of its next message.
        blocked: whether it was asked to stop.
        suspected: whether its node cannot be reached.
    """

    next_seq: int = 1
    blocked: bool = False
    suspected: bool = False


class Enqueuers:
    """All publishers that are known, in the order in which they came."""

    def __init__(self, known: dict[Process, Enqueuer] | None = None) -> None:
        self._known = {} if known is None else known
        self._unblocked = sum(1 for enqueuer in self._known.values() if not enqueuer.blocked)

    def __contains__(self, process: Process) -> bool:
        return process in self._known

    def __iter__(self) -> Iterator[Process]:
        return iter(self._known)

    def items(self) -> Iterator[tuple[Process, Enqueuer]]:
        """Publishers, and what is known of them."""
        return iter(self._known.items())

    def register(self, process: Process, next_seq: int = 1) -> bool:
        """Know a publisher from now on, whose next message has this number; whether it is new."""
        if process in self._known:
            return False
        self._known[process] = Enqueuer(next_seq)
        self._unblocked += 1
        return True

    def sequence(self, process: Process, seq: int) -> Sequenced:
        """A message of this number comes from a publisher that is known; if it is the next one, another is then."""
        enqueuer = self._known[process]
        if seq == enqueuer.next_seq:
            enqueuer.next_seq += 1
            return "next"
        return "duplicate" if seq < enqueuer.next_seq else "out_of_order"

    def forget(self, process: Process) -> None:
        """The publisher is gone, and its number with it."""
        gone = self._known.pop(process, None)
        self._unblocked -= gone is not None and not gone.blocked

    def suspect(self, node: str, suspected: bool) -> list[Process]:
        """The node can, or cannot, be reached; the publishers on it for which that is new."""
        found = [process for process in self._known if process.node == node]
        changed = [process for process in found if self._known[process].suspected != suspected]
        for process in changed:
            self._known[process].suspected = suspected
        return changed

    def block(self) -> list[Process]:
        """Ask all to stop; those that were not asked before. O(1) if there are none."""
        if not self._unblocked:
            return []
        asked = [process for process, enqueuer in self._known.items() if not enqueuer.blocked]
        for process in asked:
            self._known[process].blocked = True
        self._unblocked = 0
        return asked

    def unblock(self) -> list[Process]:
        """Let all go on; all of them hear of it."""
        for enqueuer in self._known.values():
            enqueuer.blocked = False
        self._unblocked = len(self._known)
        return list(self._known)

    def dump(self) -> list[tuple[Process, Enqueuer]]:
        """All of them, in order."""
        return list(self._known.items())
