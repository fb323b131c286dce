"""What a process that is blocked did to its disk before its time.

A call that blocks (`os.fsync`, `time.sleep`) cannot wait for virtual time: it returns at once, and the process is held
up afterwards. So all syncs of a step, and what is written between them, are done in the instant in which it begins.
Should the process end while it is held up, what it had not come to by then is taken back: a crash comes between two
syncs as well, and a loss of power finds one under way.
"""

from __future__ import annotations

from collections.abc import Callable


class Ahead:
    """What one process did to its disk ahead of time.

    Args:
        now_ns: the time.
        held_ns: how much longer the process is held up.
    """

    def __init__(self, now_ns: Callable[[], int], held_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._held_ns = held_ns
        self._done: list[tuple[int, Callable[[], None]]] = []

    def note(self, undo: Callable[[], None], takes_ns: int = 0) -> None:
        """Something was done that takes effect when the process comes to it, and after it took so long."""
        now_ns, ahead_ns = self._now_ns(), self._held_ns() + takes_ns
        if self._done and self._done[-1][0] <= now_ns:
            self._done.clear()
        if ahead_ns:
            self._done.append((now_ns + ahead_ns, undo))

    @property
    def under_way(self) -> bool:
        """Whether something lies ahead."""
        return bool(self._done) and self._done[-1][0] > self._now_ns()

    def take_back(self) -> None:
        """Take back what lies ahead, the last first."""
        now_ns = self._now_ns()
        while self._done and self._done[-1][0] > now_ns:
            self._done.pop()[1]()
        self._done.clear()

    def settle(self) -> None:
        """Let everything stay."""
        self._done.clear()
