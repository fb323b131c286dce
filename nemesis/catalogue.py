"""Nemeses by name, as given to `--nemesis`.

A name stands for a kind of fault and for groups of ways in which it strikes (see `nemesis.schedule.Fault.rounds`): one
of each group in turn. Names of the same kind add up: `partition-ring,partition-leader` draws from both in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from harness.protocols import Nemesis, NodeId
from harness.test import NemesisPackage
from nemesis.compose import INTERVAL_S, package
from nemesis.partition import SHAPES, Partition
from nemesis.process import kill, pause
from nemesis.schedule import Fault, Strike
from results.errors import UnknownNameError


class Kind(NamedTuple):
    """A kind of fault: who injects it, with which ops."""

    nemesis: Callable[[], Nemesis]
    start_f: str
    stop_f: str


class Entry(NamedTuple):
    """What a name stands for."""

    kind: str
    rounds: tuple[tuple[Strike, ...], ...]
    line: str


KINDS: Final[Mapping[str, Kind]] = {
    "partition": Kind(Partition, "start-partition", "stop-partition"),
    "pause": Kind(pause, "pause", "resume"),
    "kill": Kind(kill, "kill", "start"),
}
"""In the order in which a run is healed: links first, so that nodes which start find their peers."""


def _shapes(*names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"shape": name}, nodes=SHAPES[name].nodes) for name in names)


def _specs(*names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"spec": name}) for name in names)


_ONE_WAY = ("one-way-mute", "one-way-deaf", "one-way-mute-leader", "one-way-deaf-leader", "one-way-halves")

_MIXES: Final[Mapping[str, Entry]] = {
    "partition": Entry(
        "partition",
        (
            _shapes("isolate-leader", "leader-in-minority"),
            _shapes(*2 * ("halves", "thirds", "bridge", "majorities-ring"), "isolate-one", *_ONE_WAY),
        ),
        "cuts links: in turn one that separates the leader from the majority, and one of any other shape",
    ),
    "kill": Entry(
        "kill",
        (_specs("leader"), _specs("one", "minority", "minority", "majority", "all")),
        "kill -9 and restart: in turn the leader, and one, some or all nodes",
    ),
    "pause": Entry(
        "pause",
        (_specs("leader"), _specs("one", "minority", "minority", "majority")),
        "stops processes from running (SIGSTOP): in turn the leader, and one or some nodes",
    ),
    "partition-halves": Entry("partition", (_shapes("halves"),), "a minority from a majority, at random"),
    "partition-one": Entry("partition", (_shapes("isolate-one"),), "one node from all others"),
    "partition-leader": Entry("partition", (_shapes("isolate-leader"),), "the leader from all others"),
    "partition-minority-leader": Entry(
        "partition", (_shapes("leader-in-minority"),), "the leader and the rest of a minority from the majority"
    ),
    "partition-ring": Entry(
        "partition", (_shapes("majorities-ring"),), "every node sees a majority, no two nodes the same one"
    ),
    "partition-bridge": Entry("partition", (_shapes("bridge"),), "two sides that only one node connects"),
    "partition-one-way": Entry("partition", (_shapes(*_ONE_WAY),), "nodes that hear and are not heard, or the reverse"),
    "partition-221": Entry("partition", (_shapes("thirds"),), "three parts, none of which is a majority"),
}

_WHOM: Final[Mapping[str, str]] = {
    "one": "one node",
    "minority": "as many nodes as leave a majority",
    "majority": "a majority of the nodes",
    "minority-third": "less than a third of the nodes",
    "all": "all nodes",
    "leader": "the leader",
    "follower": "one node that does not lead",
    "primaries": "every node that takes itself for the leader",
}


def _entries() -> dict[str, Entry]:
    entries = dict(_MIXES)
    for kind, does in (("kill", "kills"), ("pause", "pauses")):
        for spec, whom in _WHOM.items():
            entries[f"{kind}-{spec}"] = Entry(kind, (_specs(spec),), f"{does} {whom}")
    return entries


NEMESES: Final[Mapping[str, Entry]] = _entries()
"""Every name except `none`."""


def descriptions() -> dict[str, str]:
    """Every name, with a line on it."""
    return {"none": "no faults", **{name: entry.line for name, entry in NEMESES.items()}}


def kinds(names: Sequence[str]) -> tuple[str, ...]:
    """The kinds of fault that names stand for ("partition", "kill", "pause"), sorted.

    Raises:
        UnknownNameError: a name is not known.
    """
    found: set[str] = set()
    for name in names:
        if name == "none":
            continue
        if name not in NEMESES:
            raise UnknownNameError("nemesis", name, descriptions())
        found.add(NEMESES[name].kind)
    return tuple(sorted(found))


def build(
    names: Sequence[str],
    *,
    interval_s: float | None = None,
    time_limit_s: float | None = None,
    nodes: Sequence[NodeId] | None = None,
) -> NemesisPackage:
    """The package of all that was named.

    Args:
        names: names of `descriptions()`; no name, and "none", stand for nothing.
        interval_s: mean time between nemesis ops, in seconds; None for the default.
        time_limit_s: length of the faults phase: no fault begins shortly before its end. None if it is not known.
        nodes: the test's nodes, so that too few of them are refused here rather than when a fault is due.

    Raises:
        UnknownNameError: a name is not known.
        UsageError: the interval is not positive, or a fault needs more nodes.
    """
    rounds: dict[str, tuple[tuple[Strike, ...], ...]] = {}
    wanted = [name for name in dict.fromkeys(names) if name != "none"]
    for name in wanted:
        if name not in NEMESES:
            raise UnknownNameError("nemesis", name, descriptions())
        entry = NEMESES[name]
        rounds[entry.kind] = rounds.get(entry.kind, ()) + entry.rounds
    faults = [
        Fault(name, kind.nemesis(), kind.start_f, kind.stop_f, rounds[name])
        for name, kind in KINDS.items()
        if name in rounds
    ]
    if nodes is not None:
        for fault in faults:
            fault.possible(nodes)
    return package(",".join(wanted) or "none", faults, INTERVAL_S if interval_s is None else interval_s, time_limit_s)
