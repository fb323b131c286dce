"""The events of a simulation, and the first difference between two simulations.

Two runs of the same seed must have the same trace. If they do not, the first event that differs is the most useful one
(madsim's idea). A trace is kept as lines of text, one per event, so that runs in different processes can be compared as
files:

    <virtual time in ns> <kind> <what>
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import TextIO

EVENTS_BEFORE = 5
"""How many common events are shown before the one that differs."""

_BATCH = 256


class Trace:
    """The events of one simulation.

    Args:
        keep: whether to keep the events; without them only their digest and their number are known, in little memory.
    """

    def __init__(self, *, keep: bool = True) -> None:
        self._keep = keep
        self._lines: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self._hashed = 0
        self._dropped = 0

    def event(self, time_ns: int, kind: str, what: str) -> None:
        """Record that `what` happened at that virtual time. A line break in `what` is written as `\\n`.

        Args:
            time_ns: the virtual time.
            kind: one word: "message", "disk", ...
            what: anything that is the same in every run of the seed: no address, no default repr, nothing of a set.
        """
        line = f"{time_ns} {kind} {what}"
        if "\n" in line:
            line = line.replace("\n", "\\n")
        self._lines.append(line)
        if len(self._lines) - self._hashed >= _BATCH:
            self._catch_up()

    def __len__(self) -> int:
        return self._dropped + len(self._lines)

    def digest(self) -> str:
        """A hash of all events so far, as hexadecimal digits."""
        self._catch_up()
        return self._hash.copy().hexdigest()

    def lines(self) -> list[str]:
        """The events, one line each without its end; empty if they are not kept."""
        return list(self._lines) if self._keep else []

    def write(self, file: TextIO) -> None:
        """Write the events, one per line."""
        file.writelines(f"{line}\n" for line in self.lines())

    def _catch_up(self) -> None:
        fresh = self._lines[self._hashed :]
        if fresh:
            self._hash.update("\n".join(fresh).encode("utf-8", "backslashreplace") + b"\n")
        if self._keep:
            self._hashed = len(self._lines)
        else:
            self._dropped += len(self._lines)
            self._lines.clear()


def first_divergence(a: Iterable[str], b: Iterable[str]) -> str | None:
    """Where two traces part: the index and both events, after the last few that they share; None if they are equal.

    Args:
        a, b: the events of each, one line each: `Trace.lines()`, or an open file.
    """
    before: list[str] = []
    for index, (left, right) in enumerate(_pairs(a, b)):
        if left != right:
            shared = "".join(f"    {line}\n" for line in before)
            return (
                f"the traces part at event {index}:\n{shared}"
                f"  a {left if left is not None else '(ends here)'}\n"
                f"  b {right if right is not None else '(ends here)'}"
            )
        before = [*before[-(EVENTS_BEFORE - 1) :], left or ""]
    return None


def _pairs(a: Iterable[str], b: Iterable[str]) -> Iterator[tuple[str | None, str | None]]:
    return zip_longest((line.rstrip("\n") for line in a), (line.rstrip("\n") for line in b))
