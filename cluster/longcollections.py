"""Garbage collection in a process that holds a large state: it must not hold the process up.

Python's full collection looks at every object. With a million tree nodes it takes longer than an election timeout,
and a leader that is silent for so long is replaced. What a collection has just looked at is in use; so if one took
long, all of it is frozen: later ones look at what is newer only. Frozen objects are freed as ever once nothing refers
to them; only those that refer to each other in a circle would stay, and a tree has no circles.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Any, Final

LONG_S: Final = 0.02


class LongCollections:
    """Freezes what a collection that took long has left; to be added to `gc.callbacks`.

    Args:
        now_s: a clock, in seconds.
        freeze: has later collections leave alone what there is.
    """

    def __init__(self, now_s: Callable[[], float], freeze: Callable[[], None] = gc.freeze) -> None:
        self._now_s = now_s
        self._freeze = freeze
        self._began_s = 0.0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        """A collection begins ("start") or has ended ("stop")."""
        if phase == "start":
            self._began_s = self._now_s()
        elif info["generation"] == 2 and self._now_s() - self._began_s > LONG_S:
            self._freeze()
