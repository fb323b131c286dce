"""Nemeses by name, as given to `--nemesis`.

A name stands for a kind of fault and for groups of ways in which it strikes (see
`splitbrain.nemesis.schedule.Fault.rounds`): one of each group in turn. Names of the same kind add up:
`partition-ring,partition-leader` draws from both in turn.

Every way says what it needs of a backend: of a mix whatever works is taken, and what is left out is told. A name can
have a weight: `partition:2,kill` strikes with two partitions for each kill.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.listed import number
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.test import Nemesis, NemesisPackage
from splitbrain.nemesis.bounce import Bounce
from splitbrain.nemesis.clock import Clocks
from splitbrain.nemesis.compose import INTERVAL_S, package
from splitbrain.nemesis.cpu import Cpu
from splitbrain.nemesis.disk import Disks
from splitbrain.nemesis.ledger import Ledger
from splitbrain.nemesis.membership import LEAVES_S, MembershipChanges
from splitbrain.nemesis.packet import Packet
from splitbrain.nemesis.partition import Partition
from splitbrain.nemesis.process import kill, pause, power
from splitbrain.nemesis.rolling import RollingRestart
from splitbrain.nemesis.schedule import Fault, Strike
from splitbrain.nemesis.ways import NEMESES, UNFAIR, Entry
from splitbrain.results.errors import FaultNotSupportedError, UnknownNameError, UsageError

WEIGHT_MAX: Final = 20
"""The greatest weight of a name."""


Supported: TypeAlias = Mapping[FaultKind, Support] | Mapping[str, Support]
"""What a backend answers when it is asked for its support: something for every FaultKind."""


class Kind(NamedTuple):
    """A kind of fault: who injects it, with which ops, and how many seconds its start may take."""

    nemesis: Callable[[Ledger], Nemesis]
    start_f: str
    stop_f: str
    takes_s: float = 0.0


KINDS: Final[Mapping[str, Kind]] = {
    "partition": Kind(Partition, "start-partition", "stop-partition"),
    "packet": Kind(Packet, "start-packet", "stop-packet"),
    "clock": Kind(Clocks, "start-clock", "stop-clock"),
    "disk": Kind(Disks, "start-disk", "stop-disk"),
    "cpu": Kind(Cpu, "start-cpu", "stop-cpu"),
    "pause": Kind(pause, "pause", "resume"),
    "kill": Kind(kill, "kill", "start"),
    "bounce": Kind(Bounce, "bounce", "stop-bounce"),
    "restart": Kind(RollingRestart, "restart", "stop-restart"),
    "power": Kind(power, "power-off", "power-on"),
    "membership": Kind(MembershipChanges, "leave", "join", LEAVES_S),
}
"""In the order in which a run is healed: links before nodes, so that those which start find their peers, and disks as
well, so that they find their data. Members join last: a cluster that is not whole takes nobody in."""

DEFAULT_SIM: Final = (
    "partition",
    "swizzle",
    "packet",
    "clog",
    "clock",
    "disk",
    "cpu",
    "pause",
    "kill",
    "bounce",
    "restart",
    "power",
    "membership",
)
"""Everything that a simulation can do and a correct system survives, each kind in the mix of its ways."""


def descriptions() -> dict[str, str]:
    """Every name, with a line on it."""
    return {"none": "no faults", **{name: entry.line for name, entry in NEMESES.items()}}


def names_for(support: Supported) -> tuple[str, ...]:
    """Every name except `none` of which a backend with this support can do something, in the order of `NEMESES`."""
    return tuple(name for name, entry in NEMESES.items() if any(_doable(entry.rounds, support)))


def kinds(names: Sequence[str]) -> tuple[str, ...]:
    """The kinds of fault that names stand for (keys of `KINDS`), sorted. They may have weights.

    Raises:
        UsageError: a name is not known, or a weight is none.
    """
    return tuple(sorted({NEMESES[name].kind for name in weights(names)}))


def weights(listed: Sequence[str]) -> dict[str, int]:
    """The names of a list such as ["partition:2", "kill"], without "none", with their weights; 1 where none is given.

    Raises:
        UsageError: a name is not known or stands there twice, a weight is no whole number from 1 to `WEIGHT_MAX`, or
            "none" has a weight or a name beside it.
    """
    found: dict[str, int] = {}
    for each in listed:
        name, colon, weight = each.partition(":")
        name = name.strip()
        if name not in NEMESES and name != "none":
            raise UnknownNameError("nemesis", name, descriptions())
        if colon and not (weight.strip().isascii() and weight.strip().isdigit() and 1 <= number(weight) <= WEIGHT_MAX):
            raise UsageError(f"--nemesis {each}: a weight is a whole number from 1 to {WEIGHT_MAX}, as in {name}:2.")
        if name == "none" and (colon or len(listed) > 1):
            raise UsageError(f"--nemesis {','.join(listed)}: none stands for no fault at all, and stands alone.")
        if name in found:
            raise UsageError(f"--nemesis {','.join(listed)} names {name} twice: give it once, as in {name}:2.")
        if name != "none":
            found[name] = int(weight) if colon else 1
    return found


def build(
    names: Sequence[str],
    *,
    interval_s: float | None = None,
    time_limit_s: float | None = None,
    nodes: Sequence[NodeId] | None = None,
    support: Supported | None = None,
    where: str = "this backend",
) -> NemesisPackage:
    """The package of all that was named.

    Args:
        names: names of `descriptions()`, with weights or without; no name, and "none", stand for nothing.
        interval_s: mean time between nemesis ops, in seconds; None for the default.
        time_limit_s: length of the faults phase: no fault begins shortly before its end. None if it is not known.
        nodes: the test's nodes, so that too few of them are refused here rather than when a fault is due.
        support: what the backend can do: of a mix the rest is left out, and the package says so. None for everything.
        where: the backend, for errors.

    Raises:
        UnknownNameError: a name is not known.
        UsageError: a weight is wrong, the interval is not positive, or a fault needs more nodes.
        FaultNotSupportedError: the backend can do nothing of what a name stands for.
    """
    rounds: dict[str, tuple[tuple[Strike, ...], ...]] = {}
    heaviest: dict[str, int] = {}
    left_out: list[str] = []
    wanted = weights(names)
    for name, weight in wanted.items():
        entry = NEMESES[name]
        groups = entry.rounds if support is None else _doable(entry.rounds, support)
        if support is not None:
            left_out += _missing(name, entry, support, where, refused=not any(groups))
        rounds[entry.kind] = rounds.get(entry.kind, ()) + tuple(group for group in groups if group) * weight
        heaviest[entry.kind] = max(weight, heaviest.get(entry.kind, 1))
    ledger = Ledger()
    faults = [
        Fault(name, kind.nemesis(ledger), kind.start_f, kind.stop_f, rounds[name], heaviest[name], kind.takes_s)
        for name, kind in KINDS.items()
        if name in rounds
    ]
    if nodes is not None:
        for fault in faults:
            fault.possible(nodes)
    called = ",".join(wanted) or "none"
    interval_s = INTERVAL_S if interval_s is None else interval_s
    return package(called, faults, interval_s, time_limit_s, left_out=left_out)


def _doable(rounds: Sequence[Sequence[Strike]], support: Supported) -> tuple[tuple[Strike, ...], ...]:
    """The groups with those ways only that work."""
    return tuple(tuple(strike for strike in group if _works(strike, support)) for group in rounds)


def _works(strike: Strike, support: Supported) -> bool:
    return all(support[kind].works for kind in strike.needs)


def _missing(name: str, entry: Entry, support: Supported, where: str, *, refused: bool) -> list[str]:
    """What is left out of a name, and why, in a line.

    Raises:
        FaultNotSupportedError: everything is.
    """
    strikes = [strike for group in entry.rounds for strike in group]
    lacking: dict[FaultKind, None] = {
        kind: None for strike in strikes for kind in strike.needs if not support[kind].works
    }
    reasons: dict[str, list[FaultKind]] = {}
    for kind in lacking:
        reasons.setdefault(support[kind].how.rstrip("."), []).append(kind)
    if refused:
        told = "; ".join(f"{', '.join(map(repr, those))} here: {why}" for why, those in reasons.items())
        raise FaultNotSupportedError(
            f"{where} cannot inject {told}. Leave {name} out of --nemesis. (splitbrain doctor lists what works here)"
        )
    told = "; ".join(f"{', '.join(those)} ({why})" for why, those in reasons.items())
    return [f"{name}: without {told}"] if lacking else []


__all__ = [
    "DEFAULT_SIM",
    "KINDS",
    "NEMESES",
    "UNFAIR",
    "WEIGHT_MAX",
    "build",
    "descriptions",
    "kinds",
    "names_for",
    "weights",
]
