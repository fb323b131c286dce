"""Nemeses by name, as given to `--nemesis`.

A name stands for a kind of fault and for groups of ways in which it strikes (see `nemesis.schedule.Fault.rounds`): one
of each group in turn. Names of the same kind add up: `partition-ring,partition-leader` draws from both in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.protocols import FaultKind, Nemesis, NodeId, Support
from harness.test import NemesisPackage
from nemesis import bounce, clock, disk, packet, swizzle
from nemesis.clock import Clocks
from nemesis.compose import INTERVAL_S, package
from nemesis.disk import Disks
from nemesis.ledger import Ledger
from nemesis.packet import Packet
from nemesis.partition import SHAPES, Partition
from nemesis.process import kill, pause, power
from nemesis.schedule import Fault, Figures, Strike
from results.errors import UnknownNameError


class Kind(NamedTuple):
    """A kind of fault: who injects it, with which ops."""

    nemesis: Callable[[Ledger], Nemesis]
    start_f: str
    stop_f: str


class Entry(NamedTuple):
    """What a name stands for."""

    kind: str
    rounds: tuple[tuple[Strike, ...], ...]
    line: str


KINDS: Final[Mapping[str, Kind]] = {
    "partition": Kind(Partition, "start-partition", "stop-partition"),
    "packet": Kind(Packet, "start-packet", "stop-packet"),
    "clock": Kind(Clocks, "start-clock", "stop-clock"),
    "disk": Kind(Disks, "start-disk", "stop-disk"),
    "pause": Kind(pause, "pause", "resume"),
    "kill": Kind(kill, "kill", "start"),
    "bounce": Kind(bounce.Bounce, "bounce", "stop-bounce"),
    "power": Kind(power, "power-off", "power-on"),
}
"""In the order in which a run is healed: links before nodes, so that those which start find their peers, and disks as
well, so that they find their data."""

DEFAULT_SIM: Final = ("partition", "swizzle", "packet", "clog", "clock", "disk", "pause", "kill", "bounce", "power")
"""Everything that a simulation can do, each kind in the mix of its ways."""


def _shapes(*names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"shape": name}, nodes=SHAPES[name].nodes, needs=("cut",)) for name in names)


def _specs(need: FaultKind, *names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"spec": name}, needs=(need,)) for name in names)


def _somewhere(need: FaultKind, figures: Figures) -> tuple[Strike, ...]:
    """What links can do, on each selection of them."""
    requests = [
        *({"scope": scope} for scope in (packet.ALL_LINKS, packet.ONE_LINK)),
        *({"scope": scope, "spec": spec} for scope in packet.SIDES for spec in ("one", "leader")),
    ]
    return tuple(Strike(request, nodes=2, figures=figures, needs=(need,)) for request in requests)


def _clogs(*scopes: str) -> tuple[Strike, ...]:
    return tuple(
        Strike({"scope": scope, "spec": spec, "disturb": {"held": True}}, nodes=2, needs=("hold",))
        for scope in scopes
        for spec in ("one", "leader", "minority")
    )


def _clocks(need: FaultKind, figures: Figures) -> tuple[Strike, ...]:
    return tuple(
        Strike({"spec": spec}, figures=figures, needs=(need,)) for spec in ("one", "leader", "minority", "all")
    )


def _disks(need: FaultKind, request: Mapping[str, Any], figures: Figures | None = None) -> tuple[Strike, ...]:
    return tuple(
        Strike({"spec": spec, **request}, nodes=disk.NODES_MIN, figures=figures, needs=(need, "kill"))
        for spec in ("one", "leader", "minority")
    )


_ONE_WAY = ("one-way-mute", "one-way-deaf", "one-way-mute-leader", "one-way-deaf-leader", "one-way-halves")

_IN_ELECTION = Strike({"when": "election", "over": True}, nodes=3, needs=("kill",))

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
        (_specs("kill", "leader"), _specs("kill", "one", "minority", "minority", "majority", "all")),
        "kill -9 and restart: in turn the leader, and one, some or all nodes",
    ),
    "pause": Entry(
        "pause",
        (_specs("pause", "leader"), _specs("pause", "one", "minority", "minority", "majority")),
        "stops processes from running (SIGSTOP): in turn the leader, and one or some nodes",
    ),
    "power": Entry(
        "power",
        (_specs("power", "all"), _specs("power", "leader", "minority", "majority")),
        "cuts the power, unsynced writes are lost or torn: in turn of all nodes, and of the leader or some",
    ),
    "packet": Entry(
        "packet",
        (
            _somewhere("loss", packet.loss),
            _somewhere("duplicate", packet.duplicate),
            _somewhere("reorder", packet.reorder),
            (*_somewhere("delay", packet.delay), *_somewhere("reset", packet.flaky)),
        ),
        "links in turn lose, double, reorder, and delay messages or break connections",
    ),
    "clog": Entry(
        "packet", (_clogs("in"), _clogs("out")), "holds back what nodes are told, and what they say, in turn"
    ),
    "clock": Entry(
        "clock",
        (_clocks("clock-jump", clock.jump), _clocks("clock-drift", clock.drift)),
        "clocks in turn jump, and run too fast or too slow",
    ),
    "disk": Entry(
        "disk",
        (
            _disks("disk-full", disk.FULL),
            _disks("disk-sync", disk.SYNC_FAILS),
            _disks("disk-slow", {}, disk.slow),
            _disks("disk-rot", {}, disk.rot),
        ),
        "disks of a minority in turn are full, fail to sync, are slow, and rot",
    ),
    "swizzle": Entry(
        "partition",
        ((Strike({"shape": swizzle.SHAPE}, nodes=2, figures=swizzle.draw, needs=("cut",)),),),
        "cuts off some nodes one after the other, and lets them back in another order",
    ),
    "bounce": Entry(
        "bounce",
        ((Strike({}, figures=bounce.draw, needs=("kill",)),), (_IN_ELECTION,)),
        "kills nodes and starts them again at once: in turn one after the other, and those who vote in an election",
    ),
    "bounce-random": Entry(
        "bounce",
        ((Strike({}, figures=bounce.draw, needs=("kill",)),),),
        "kills nodes and starts them again at once, one after the other, 6 to 16 times",
    ),
    "bounce-election": Entry(
        "bounce", ((_IN_ELECTION,),), "kills the leader, and restarts at once whoever votes for its successor"
    ),
    "packet-loss": Entry("packet", (_somewhere("loss", packet.loss),), "links lose 5 to 40 % of the messages"),
    "packet-duplicate": Entry(
        "packet", (_somewhere("duplicate", packet.duplicate),), "links deliver 5 to 40 % of the messages twice"
    ),
    "packet-reorder": Entry(
        "packet", (_somewhere("reorder", packet.reorder),), "on links 5 to 50 % of the messages are overtaken"
    ),
    "packet-delay": Entry(
        "packet", (_somewhere("delay", packet.delay),), "links take 20 to 500 ms longer, with as much jitter"
    ),
    "packet-flaky": Entry(
        "packet", (_somewhere("reset", packet.flaky),), "links break connections 0.5 to 3 times a second"
    ),
    "clog-in": Entry("packet", (_clogs("in"),), "holds back what nodes are told, until it is healed"),
    "clog-out": Entry("packet", (_clogs("out"),), "holds back what nodes say, until it is healed"),
    "clock-jump": Entry(
        "clock", (_clocks("clock-jump", clock.jump),), "wall clocks jump by 10 ms to an hour, either way"
    ),
    "clock-drift": Entry(
        "clock", (_clocks("clock-drift", clock.drift),), "clocks run 0.1 to 10 % too fast or too slow"
    ),
    "disk-full": Entry("disk", (_disks("disk-full", disk.FULL),), "writes of a minority of the nodes find no room"),
    "disk-sync": Entry(
        "disk",
        (_disks("disk-sync", disk.SYNC_FAILS),),
        "a sync of a minority of the nodes fails and drops what it synced",
    ),
    "disk-slow": Entry(
        "disk", (_disks("disk-slow", {}, disk.slow),), "syncs of a minority of the nodes take 20 ms to a second longer"
    ),
    "disk-rot": Entry(
        "disk",
        (_disks("disk-rot", {}, disk.rot),),
        "sectors of a minority of the nodes rot, which are restarted on them",
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
    struck: tuple[tuple[FaultKind, str], ...] = (
        ("kill", "kills"),
        ("pause", "pauses"),
        ("power", "cuts the power of"),
    )
    for kind, does in struck:
        for spec, whom in _WHOM.items():
            entries[f"{kind}-{spec}"] = Entry(kind, (_specs(kind, spec),), f"{does} {whom}")
    return entries


NEMESES: Final[Mapping[str, Entry]] = _entries()
"""Every name except `none`."""


def descriptions() -> dict[str, str]:
    """Every name, with a line on it."""
    return {"none": "no faults", **{name: entry.line for name, entry in NEMESES.items()}}


def names_for(support: Mapping[FaultKind, Support]) -> tuple[str, ...]:
    """Every name except `none` that works on a backend with this support, in the order of `NEMESES`."""
    return tuple(
        name
        for name, entry in NEMESES.items()
        if all(support[need].works for group in entry.rounds for strike in group for need in strike.needs)
    )


def kinds(names: Sequence[str]) -> tuple[str, ...]:
    """The kinds of fault that names stand for (keys of `KINDS`), sorted.

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
    ledger = Ledger()
    faults = [
        Fault(name, kind.nemesis(ledger), kind.start_f, kind.stop_f, rounds[name])
        for name, kind in KINDS.items()
        if name in rounds
    ]
    if nodes is not None:
        for fault in faults:
            fault.possible(nodes)
    return package(",".join(wanted) or "none", faults, INTERVAL_S if interval_s is None else interval_s, time_limit_s)
