"""Which coverage marks a hunt can reach at all: a hunt without packet faults never loses a message."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from splitbrain.nemesis.catalogue import KINDS, entry

_OVERLAP: Final = "faults overlapped"
"""One fault of a kind is in force at a time: this needs two kinds."""


def within_reach(marks: Collection[str], nemeses: Sequence[str]) -> list[str]:
    """Those of the marks that runs with these nemeses can reach: each kind lists the marks that need it."""
    kinds = {kind.name: kind for kind in (entry(name).kind for name in nemeses if name != "none")}
    of_some = {mark for kind in KINDS.values() for mark in kind.marks}
    reachable = {mark for kind in kinds.values() for mark in kind.marks}
    return [
        mark for mark in marks if (mark in reachable or mark not in of_some) and (mark != _OVERLAP or len(kinds) > 1)
    ]
