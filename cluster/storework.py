"""What a member does with its store, as much at once as its event loop can bear."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from splitbrain.cluster.marks import reached
from splitbrain.cluster.raft import effects as fx
from splitbrain.cluster.slicing import Slices, slices_of, weight
from splitbrain.cluster.store import Store
from splitbrain.cluster.tree import InSlices

T = TypeVar("T")

OfStore: TypeAlias = fx.Apply | fx.ReadReady | fx.Rebuild


class StoreWork:
    """The queue of what concerns the store: nothing overtakes anything.

    Args:
        store: the one of the moment.
        carry_out: does one thing.
        wake: has the group go on.
        most: entries that are applied at once, by their weight (`splitbrain.cluster.slicing`).

    Attributes:
        waiting: what waits, in order; others only look whether there is any.
        builds: whether the store has projections to build, as it was when it last changed.
    """

    def __init__(
        self, store: Callable[[], Store], carry_out: Callable[[OfStore], None], wake: Callable[[], None], most: int
    ) -> None:
        self._store = store
        self._carry_out = carry_out
        self._wake = wake
        self._most = most
        self.waiting: deque[OfStore | Slices] = deque()
        self.builds = False

    def __bool__(self) -> bool:
        """Whether something waits."""
        return bool(self.waiting)

    def apply(self, effect: fx.Apply) -> None:
        """Apply entries: now if they are few and nothing else waits, the rest in its turn."""
        if not self.waiting and weight(effect.entries) <= self._most:
            self._carry_out(effect)
            return
        self.add(*(fx.Apply(entries, effect.refs) for entries in slices_of(effect.entries, self._most)))

    def add(self, *effects: OfStore) -> None:
        """Carry out what concerns the store: now if it is little and nothing else waits, the rest in its turn."""
        idle = not self.waiting
        self.waiting.extend(effects)
        if idle:
            self.go_on()

    def in_slices(self, steps: InSlices[T], done: Callable[[T], None]) -> None:
        """Do a first part at once, and the others before anything changes the store."""
        work = Slices(steps, done)
        if not work.goes_on():
            return
        reached("store used in slices")
        self.waiting.appendleft(work)
        self._wake()

    def go_on(self) -> None:
        """Carry out as much of what waits for the store as the event loop can bear at once."""
        budget = self._most
        while self.waiting and budget > 0:
            effect = self.waiting.popleft()
            budget -= 1
            match effect:
                case Slices():
                    budget = 0
                    if effect.goes_on():
                        self.waiting.appendleft(effect)
                case fx.Apply(entries):
                    budget -= weight(entries)
                    self._carry_out(effect)
                case _:
                    self._carry_out(effect)
        if budget > 0 and self.builds:
            store = self._store()
            store.build()
            self.builds = store.is_building
