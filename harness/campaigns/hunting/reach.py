"""Which coverage marks a hunt can reach at all: a hunt without packet faults never loses a message."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from splitbrain.nemesis.catalogue import entry

BY_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    "partition": (
        "leader isolated",
        "leader in a minority",
        "one-way cut",
        "nobody reached a majority",
        "everybody reached a majority",
        "cut swallowed traffic",
        "swizzled",
    ),
    "packet": (
        "messages lost",
        "messages duplicated",
        "messages reordered",
        "messages delayed",
        "messages held",
        "messages corrupted",
        "messages queued",
        "messages oversized",
        "connection reset",
    ),
    "kill": ("leader killed", "all nodes down", "majority down", "node restarted"),
    "power": (
        "leader lost power",
        "all nodes down",
        "majority down",
        "node restarted",
        "power loss lost writes",
        "power loss tore a sector",
        "power loss lost names",
    ),
    "pause": ("leader paused",),
    "clock": ("clock jumped ahead", "clock jumped back", "clock strobed", "clock ran fast", "clock ran slow"),
    "disk": (
        "disk refused writes",
        "disk failed",
        "sync failed",
        "disk was slow",
        "files truncated",
        "node started on rotten data",
        "node did not start on rotten data",
        "node stopped by its disk",
        "node restarted",
    ),
    "cpu": ("leader throttled", "node throttled"),
    "restart": ("rolling restart",),
    "bounce": ("node bounced",),
    "membership": ("member removed", "leader removed", "member added", "membership change refused"),
}
"""By kind of fault, the marks that need it; those of several kinds need one of them. Others need no particular kind."""

_OVERLAP: Final = "faults overlapped"
"""One fault of a kind is in force at a time: this needs two kinds."""


def within_reach(marks: Collection[str], nemeses: Sequence[str]) -> list[str]:
    """Those of the marks that runs with these nemeses can reach; of the system's own marks, all."""
    kinds = {entry(name).kind.name for name in nemeses if name != "none"}
    of_some = {mark for those in BY_KIND.values() for mark in those}
    reachable = {mark for kind in kinds for mark in BY_KIND.get(kind, ())}
    return [
        mark for mark in marks if (mark in reachable or mark not in of_some) and (mark != _OVERLAP or len(kinds) > 1)
    ]
