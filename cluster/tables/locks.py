"""The locks of one replica: shared for reading, exclusive for writing, without deadlocks. A pure state machine.

Deadlocks are avoided by age, as Mnesia does (`mnesia_locker` of Erlang/OTP; wait-die of Rosenkrantz, Stearns and Lewis,
"System Level Concurrency Control for Distributed Database Systems", 1978): a transaction waits only for younger ones,
and is refused where it would wait for an older one. A chain of waiting transactions so goes from old to young on all
replicas, and never in a circle. One that was refused gives up what it holds and begins again under the same id, so it
grows old enough in the end.

What waits for an item is granted from the youngest on (`mnesia_locker`, rule 2): the others may wait for it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from splitbrain.cluster.tables.records import Item

Mode: TypeAlias = Literal["read", "write"]


class Tid(NamedTuple):
    """The id of a transaction: its order is their age, the lowest is the oldest.

    Attributes:
        counter: rises as in a Lamport clock: higher than any that its node has seen.
        node: of the coordinator.
        life: distinguishes the coordinator's process from former ones.
    """

    counter: int
    node: str
    life: int


class Granted(NamedTuple):
    """A lock that a transaction has from now on."""

    tid: Tid
    item: Item
    mode: Mode


class _Locks:
    """Of one item: who holds it, and who waits."""

    __slots__ = ("held", "waiting")

    def __init__(self) -> None:
        self.held: dict[Tid, Mode] = {}
        self.waiting: dict[Tid, Mode] = {}

    def obstacles(self, tid: Tid, mode: Mode) -> list[Tid]:
        """The other holders that exclude this."""
        return [other for other, held in self.held.items() if other != tid and "write" in (mode, held)]


class LockTable:
    """All locks of one replica."""

    def __init__(self) -> None:
        self._by_item: dict[Item, _Locks] = {}
        self._of: dict[Tid, dict[Item, None]] = {}

    def request(self, tid: Tid, item: Item, mode: Mode) -> Literal["granted", "queued", "refused"]:
        """Ask for a lock; a queued one is granted by a later `release`. A write lock includes the read lock."""
        locks = self._by_item.setdefault(item, _Locks())
        if locks.held.get(tid) in (mode, "write"):
            return "granted"
        obstacles = locks.obstacles(tid, mode)
        youngest = max(locks.waiting, default=None)
        if any(other < tid for other in obstacles) or (youngest is not None and youngest < tid):
            self._forget(item)
            return "refused"
        self._of.setdefault(tid, {})[item] = None
        if obstacles or youngest is not None:
            locks.waiting[tid] = mode
            return "queued"
        locks.held[tid] = mode
        return "granted"

    def release(self, tid: Tid) -> list[Granted]:
        """A transaction gives up all that it holds and waits for; what others have got by that."""
        granted: list[Granted] = []
        for item in self._of.pop(tid, {}):
            locks = self._by_item[item]
            locks.held.pop(tid, None)
            locks.waiting.pop(tid, None)
            for next_tid in sorted(locks.waiting, reverse=True):
                mode = locks.waiting[next_tid]
                if locks.obstacles(next_tid, mode):
                    break
                del locks.waiting[next_tid]
                locks.held[next_tid] = mode
                granted.append(Granted(next_tid, item, mode))
            self._forget(item)
        return granted

    def holds(self, tid: Tid, item: Item, mode: Mode) -> bool:
        """Whether a transaction has a lock, or a stronger one."""
        locks = self._by_item.get(item)
        return locks is not None and locks.held.get(tid) in (mode, "write")

    def transactions(self) -> list[Tid]:
        """Those that hold something or wait, from the oldest on."""
        return sorted(self._of)

    def waits_for(self) -> list[tuple[Tid, Tid]]:
        """Pairs of a waiting transaction and one that it waits for: a holder."""
        return [
            (tid, other)
            for locks in self._by_item.values()
            for tid, mode in locks.waiting.items()
            for other in locks.obstacles(tid, mode)
        ]

    def _forget(self, item: Item) -> None:
        locks = self._by_item[item]
        if not locks.held and not locks.waiting:
            del self._by_item[item]
