"""The ways in which each kind of fault strikes, by the names under which `--nemesis` knows them.

A name stands for a kind of fault and for groups of ways (see `splitbrain.nemesis.schedule.Fault.rounds`): one of each
group in turn. Every way says what it needs of a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from splitbrain.harness.contract.faults import FaultKind
from splitbrain.nemesis import bounce, clock, cpu, disk, membership, packet, swizzle
from splitbrain.nemesis.partition import SHAPES
from splitbrain.nemesis.schedule import Figures, Strike
from splitbrain.nemesis.targets import fewest


class Entry(NamedTuple):
    """What a name stands for."""

    kind: str
    rounds: tuple[tuple[Strike, ...], ...]
    line: str


UNFAIR: Final = ("disk-truncate",)
"""What no mix and no hunt strikes with unless it is named: systems that are correct by their own promises fail. A log
whose end is gone looks like one whose last write never finished, to all who cannot tell the two apart."""


def _shapes(*names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"shape": name}, nodes=SHAPES[name].nodes, needs=("cut",)) for name in names)


def _specs(need: FaultKind, *names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"spec": name}, nodes=fewest(name), needs=(need,)) for name in names)


def _somewhere(need: FaultKind, figures: Figures) -> tuple[Strike, ...]:
    """What links can do, on each selection of them."""
    requests = [
        *({"scope": scope} for scope in (packet.ALL_LINKS, packet.ONE_LINK)),
        *({"scope": scope, "spec": spec} for scope in packet.SIDES for spec in ("one", "leader")),
    ]
    return tuple(Strike(request, nodes=2, figures=figures, needs=(need,)) for request in requests)


def _clogs(*scopes: str) -> tuple[Strike, ...]:
    return tuple(
        Strike({"scope": scope, "spec": spec, "disturb": {"held": True}}, nodes=max(2, fewest(spec)), needs=("hold",))
        for scope in scopes
        for spec in ("one", "leader", "minority")
    )


def _clocks(need: FaultKind, figures: Figures) -> tuple[Strike, ...]:
    return tuple(
        Strike({"spec": spec}, nodes=fewest(spec), figures=figures, needs=(need,))
        for spec in ("one", "leader", "minority", "all")
    )


def _cpus(*names: str) -> tuple[Strike, ...]:
    return tuple(Strike({"spec": name}, nodes=fewest(name), figures=cpu.share, needs=("cpu",)) for name in names)


def _disks(need: FaultKind, request: Mapping[str, Any], figures: Figures | None = None) -> tuple[Strike, ...]:
    needs: tuple[FaultKind, ...] = (need, "kill")
    return tuple(
        Strike({"spec": spec, **request}, nodes=max(disk.NODES_MIN, fewest(spec)), figures=figures, needs=needs)
        for spec in ("one", "leader", "minority")
    )


def _leaves(*specs: str) -> tuple[Strike, ...]:
    return tuple(Strike({"spec": spec}, nodes=membership.NODES_MIN, needs=("membership", "kill")) for spec in specs)


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
            (*_somewhere("loss", packet.loss), *_somewhere("corrupt", packet.corrupt)),
            _somewhere("duplicate", packet.duplicate),
            _somewhere("reorder", packet.reorder),
            (*_somewhere("delay", packet.delay), *_somewhere("rate", packet.rate)),
            (*_somewhere("reset", packet.flaky), *_somewhere("mtu", packet.mtu)),
        ),
        "links in turn lose or corrupt, double, reorder, delay or throttle messages, and break connections or swallow "
        "large packets",
    ),
    "clog": Entry(
        "packet", (_clogs("in"), _clogs("out")), "holds back what nodes are told, and what they say, in turn"
    ),
    "clock": Entry(
        "clock",
        (_clocks("clock-jump", clock.jump), _clocks("clock-drift", clock.drift), _clocks("clock-strobe", clock.strobe)),
        "clocks in turn jump, run too fast or too slow, and jump to and fro",
    ),
    "disk": Entry(
        "disk",
        (
            (*_disks("disk-full", disk.FULL), *_disks("disk-read-only", disk.READ_ONLY)),
            (*_disks("disk-sync", disk.SYNC_FAILS), *_disks("disk-fails", disk.FAILS)),
            _disks("disk-slow", {}, disk.slow),
            _disks("disk-rot", {}, disk.rot),
        ),
        "disks of a minority in turn are full or read-only, fail to sync or altogether, are slow, and rot",
    ),
    "cpu": Entry(
        "cpu",
        (_cpus("leader"), _cpus("one", "minority", "majority", "all")),
        "leaves 1 to 30 % of a CPU: in turn to the leader, and to one, some or all nodes",
    ),
    "cpu-leader": Entry("cpu", (_cpus("leader"),), "leaves the leader 1 to 30 % of a CPU"),
    "cpu-one": Entry("cpu", (_cpus("one"),), "leaves one node 1 to 30 % of a CPU"),
    "cpu-all": Entry("cpu", (_cpus("all"),), "leaves every node 1 to 30 % of a CPU"),
    "restart": Entry(
        "restart",
        ((Strike({"over": True}, needs=("kill",)),),),
        "restarts all nodes, one after the other, each once the one before it answers again",
    ),
    "membership": Entry(
        "membership",
        (_leaves("leader"), _leaves("one", "follower")),
        "removes a member, wipes its data, and lets it join again: in turn the leader, and any",
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
    "packet-corrupt": Entry(
        "packet", (_somewhere("corrupt", packet.corrupt),), "links flip bits in 1 to 20 % of messages"
    ),
    "packet-rate": Entry("packet", (_somewhere("rate", packet.rate),), "links carry 16 to 512 kbit/s"),
    "packet-mtu": Entry("packet", (_somewhere("mtu", packet.mtu),), "packets of more than 80 to 600 bytes vanish"),
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
    "clock-strobe": Entry(
        "clock", (_clocks("clock-strobe", clock.strobe),), "wall clocks jump to and fro every 10 to 1,000 ms"
    ),
    "disk-read-only": Entry(
        "disk", (_disks("disk-read-only", disk.READ_ONLY),), "disks of a minority of the nodes refuse writes"
    ),
    "disk-fails": Entry(
        "disk", (_disks("disk-fails", disk.FAILS),), "disks of a minority of the nodes fail to read and to write"
    ),
    "disk-truncate": Entry(
        "disk",
        (_disks("disk-truncate", {}, disk.truncate),),
        "files of a minority of the nodes lose their ends, and the nodes are restarted on them (in no mix: no mere "
        "crash does that)",
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
