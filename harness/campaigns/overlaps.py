"""How likely the faults of a drawn test overlap, and on how many nodes: such that a quorum is there often enough.

One op of the nemesis follows the other. An op that waits for a quorum (a member that is to join again) waits in vain
while another fault takes the quorum, and that fault is not healed before the op has given up. With faults that overlap
most of the time such a test is silent for most of its time, and what waits never takes place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from splitbrain.harness.campaigns.themes import OVERLAPS, SELDOM
from splitbrain.nemesis.catalogue import entry, kinds
from splitbrain.nemesis.schedule import OVERLAP

SILENCING: Final = frozenset(
    {f"{kind}-{nodes}" for kind in ("kill", "pause", "power") for nodes in ("all", "majority")}
    | {"power", "partition-221"}
)
"""Faults that leave no quorum, half of the time."""

WAITING: Final = frozenset({"membership", "groups", "upgrade", "restart"})
"""Kinds of fault whose ops wait for a quorum."""

TAKING: Final = frozenset({"kill", "pause", "power", "moment", "disk", "partition", "swizzle", "packet", "clog"})
"""Kinds of fault that take nodes from a quorum, a minority of them at most if they are not `SILENCING`."""

FEW_NODES: Final = 3
"""If one of so few nodes is no member, each of the other two belongs to every quorum."""

TOGETHER: Final = frozenset({"create-once"})
"""Workloads whose clients wait for each other: one that is cut off holds up all others, and one always is if faults
overlap most of the time.
"""


def bearable(drawn: float, workload: str, nemeses: Sequence[str], nodes: int) -> float:
    """How likely a second fault begins before the first is healed: as drawn, or seldom enough for a quorum.

    Args:
        drawn: what was drawn.
        workload: what clients do.
        nemeses: the names of the test's nemeses.
        nodes: how many nodes it has.
    """
    most = OVERLAP if workload in TOGETHER else drawn
    return min(drawn, most, _with_quorum(drawn, nemeses, nodes))


def _with_quorum(drawn: float, nemeses: Sequence[str], nodes: int) -> float:
    """How likely faults overlap such that a quorum is there often enough."""
    chosen = [name for name in nemeses if name != "none"]
    waits = not WAITING.isdisjoint(kinds(chosen))
    silenced = not SILENCING.isdisjoint(chosen)
    if silenced and waits:
        return SELDOM
    if silenced and all(SILENCING.intersection(of_kind) for of_kind in _by_kind(chosen)):
        return SELDOM
    if silenced:
        return OVERLAP if len(kinds(chosen)) <= 2 else OVERLAPS[1]
    if misses_members(chosen) and nodes % 2 and (drawn > OVERLAP or nodes <= FEW_NODES):
        return SELDOM
    return drawn


def _by_kind(nemeses: Sequence[str]) -> Collection[list[str]]:
    """The names of each kind of fault."""
    found: dict[str, list[str]] = {}
    for name in nemeses:
        found.setdefault(entry(name).kind.name, []).append(name)
    return found.values()


def nodes_of(drawn: int, overlap: float, nemeses: Sequence[str], possible: Collection[int]) -> int:
    """How many nodes a test has: as drawn, or an even number where a member is missing while other nodes are away.

    Of an even number of nodes one can be no member while a minority is away: the others are a majority. Of an odd
    number they are not.

    Args:
        drawn: what was drawn.
        overlap: how likely faults overlap, as drawn.
        nemeses: the names of the test's nemeses.
        possible: the numbers that may be drawn.
    """
    if overlap <= OVERLAP or drawn % 2 == 0 or not misses_members(nemeses):
        return drawn
    fewest = max(entry(name).fewest_nodes for name in nemeses)
    return next((count for count in (drawn + 1, drawn - 1) if count in possible and count >= fewest), drawn)


def misses_members(nemeses: Sequence[str]) -> bool:
    """Whether members leave, and another fault takes nodes."""
    found = {entry(name).kind.name for name in nemeses if name != "none"}
    return "membership" in found and not TAKING.isdisjoint(found)
