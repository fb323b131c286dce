"""Ops of which a search chooses one after another, as real time allows, and what was chosen so far."""

from __future__ import annotations

from typing import Final, TypeAlias

from splitbrain.checkers.linearizable.deciders.intervals import FOREVER
from splitbrain.checkers.linearizable.deciders.repeated_values import Part

Line: TypeAlias = tuple[int, int]
"""What was used of some ops in a row: all before the first number, and of those from there on the ones in the mask."""

NOTHING: Final[Line] = (0, 0)


class EndedOps:
    """Ops that have an end, by invocation."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.looked = 0

    def ahead(self, line: Line) -> tuple[int, list[int]]:
        """The first return among those that must still happen, and which of the row were invoked before it."""
        first, mask = line
        parts, least, found, i = self.parts, FOREVER, list[int](), first
        for i in range(first, len(parts)):
            invoked, until, _, obliged = parts[i]
            if invoked > least:
                break
            if not mask & 1:
                found.append(i)
                if obliged and until < least:
                    least = until
            mask >>= 1
        self.looked += 1 + i - first
        return least, [i for i in found if parts[i].invoked < least]

    def use(self, line: Line, i: int, past: int) -> Line:
        """The line once `i` was used, without optional ones that returned before `past`."""
        first, mask = line
        mask |= 1 << (i - first)
        parts, count = self.parts, len(self.parts)
        while first < count and (mask & 1 or (not parts[first].obliged and parts[first].until < past)):
            first += 1
            mask >>= 1
        return first, mask

    def by_value(self, which: list[int]) -> dict[int, list[int]]:
        """Those of `which` by value, the first to return first."""
        found: dict[int, list[int]] = {}
        for i in which:
            found.setdefault(self.parts[i].value, []).append(i)
        for alike in found.values():
            if len(alike) > 1:
                alike.sort(key=lambda i: self.parts[i].until)
        return found

    def best(self, alike: list[int], past: int, soon: int) -> list[int]:
        """Of one value those that are not surely better left for later.

        Args:
            alike: the first to return first.
            past: what is optional and returned before cannot come any more.
            soon: an op that began before is no hindrance to others. One that began later may be, so that another that
                returned after it is as good if it began before it.
        """
        found: list[int] = []
        for i in alike:
            part = self.parts[i]
            if (part.obliged or part.until > past) and not self.dominated(part, found, soon):
                found.append(i)
        return found

    def dominated(self, part: Part, others: list[int], soon: int) -> bool:
        """Whether one of the others of its value, which returned before it, comes before it if both come."""
        for i in others:
            other = self.parts[i]
            if other.invoked <= max(part.invoked, soon) and (other.obliged or not part.obliged):
                return True
        return False
