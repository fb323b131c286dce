"""Commands of low priority wait here until normal ones had their turn (RA-21).

A leader puts a normal command into its log at once. Low ones are let go in batches, each behind what has arrived
meanwhile: so normal ones may overtake them, and low ones keep their order among themselves. They are not in any log
yet: when the leader steps down they are dropped, and certainly did not happen.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from splitbrain.cluster.raft.events import Propose

LOW_BATCH: Final = 16
"""Low commands that are let go at once, whatever else waits."""


class LowCommands:
    """The low commands that wait at one leader.

    Its owner gives it turns: `add` and `batch` say when one more is needed.
    """

    def __init__(self) -> None:
        self._waiting: deque[Propose] = deque()
        self._has_turn = False

    def add(self, command: Propose) -> bool:
        """Let a command wait; whether a turn is needed for it."""
        self._waiting.append(command)
        needed, self._has_turn = not self._has_turn, True
        return needed

    def batch(self) -> tuple[list[Propose], bool]:
        """Those whose turn it is, in the order of their arrival; and whether another turn is needed for the rest."""
        waiting = self._waiting
        commands = [waiting.popleft() for _ in range(min(LOW_BATCH, len(waiting)))]
        self._has_turn = bool(waiting)
        return commands, self._has_turn

    def drop(self) -> list[Propose]:
        """Those that wait, in the order of their arrival; they do not any more."""
        dropped, self._waiting = list(self._waiting), deque()
        return dropped
