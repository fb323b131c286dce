"""Tells a message that has arrived before from one that is new."""

from __future__ import annotations

from typing import Final

WINDOW: Final = 8192
"""How far a new number may be behind the highest, unless a node is configured otherwise: twice the largest number of
requests under way at a node."""


class Arrivals:
    """What has arrived on one connection, by numbers that rise where they are sent and are never used again.

    A network may deliver a message twice, and a command that is executed twice makes reads wrong.
    Numbers may come in any order. One that is `window` or more behind the highest counts as a repeat, since older
    numbers are forgotten: its sender gets no reply, as for a lost message.
    """

    __slots__ = ("_highest", "_recent", "_window")

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._highest = 0
        self._recent: dict[int, None] = {}

    def is_first(self, number: int) -> bool:
        """Whether this number arrives for the first time; from now on it has arrived."""
        if number in self._recent or number <= self._highest - self._window:
            return False
        self._recent[number] = None
        self._highest = max(self._highest, number)
        if len(self._recent) > 2 * self._window:
            floor = self._highest - self._window
            self._recent = {known: None for known in self._recent if known > floor}
        return True
