"""Which kinds of fault (`FaultKind`) a fault of a link, a disk or a clock is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from splitbrain.harness.contract.faults import (
    ClockFault,
    DiskFault,
    FaultKind,
    InjectedKind,
    LinkFault,
    RequestedKind,
    Support,
)
from splitbrain.harness.contract.test import Backend, System

_OF_LINKS: Final[Mapping[str, FaultKind]] = {
    "delay_ms": "delay",
    "jitter_ms": "delay",
    "loss": "loss",
    "duplicate": "duplicate",
    "reorder": "reorder",
    "resets": "reset",
    "held": "hold",
    "corrupt": "corrupt",
    "rate_kbit": "rate",
    "mtu": "mtu",
}

_OF_DISKS: Final[dict[str, FaultKind]] = {
    "full": "disk-full",
    "sync_fails": "disk-sync",
    "slow_ms": "disk-slow",
    "rot": "disk-rot",
    "read_only": "disk-read-only",
    "fails": "disk-fails",
    "truncate": "disk-truncate",
}

_OF_MEMBERS: Final[dict[str, FaultKind]] = {"wipe": "membership"}
"""What is done to the disks of members that left."""

INJECTED_KINDS: Final[tuple[InjectedKind, ...]] = get_args(InjectedKind)
"""Everything that a backend must answer for."""

LATER_KINDS: Final[Mapping[str, Support]] = {
    "stop": Support(False, "the backend does not say that it can stop nodes in good order (SIGTERM)."),
}
"""What is taken for the answer of a backend that says nothing of a kind which was added after backends were written."""

REQUESTED_KINDS: Final[tuple[RequestedKind, ...]] = get_args(RequestedKind)
"""Everything that systems are asked for."""

LINK_KINDS: Final[tuple[FaultKind, ...]] = tuple(dict.fromkeys(_OF_LINKS.values()))
"""Everything that can be wrong with a link, except that it is cut."""

DISK_KINDS: Final[tuple[FaultKind, ...]] = tuple(_OF_DISKS.values())
"""Everything that can be wrong with a disk, except that it lost its power."""

CLOCK_KINDS: Final[tuple[FaultKind, ...]] = ("clock-jump", "clock-drift", "clock-strobe")
"""Everything that can be wrong with a clock."""


def of_link(fault: LinkFault) -> tuple[FaultKind, ...]:
    """The kinds that a fault of a link is made of; none for one that does nothing."""
    return tuple(dict.fromkeys(kind for name, kind in _OF_LINKS.items() if getattr(fault, name)))


def of_disk(fault: DiskFault) -> tuple[FaultKind, ...]:
    """The kinds that a fault of a disk is made of; none for one that does nothing."""
    return tuple(kind for name, kind in (_OF_DISKS | _OF_MEMBERS).items() if getattr(fault, name))


def of_clock(fault: ClockFault) -> tuple[FaultKind, ...]:
    """The kinds that a fault of a clock is made of; a jump that comes and goes is a strobe and no jump."""
    found: list[FaultKind] = []
    if fault.offset_ms or fault.strobe_ms:
        found.append("clock-strobe" if fault.strobe_ms else "clock-jump")
    if fault.drift_ppm:
        found.append("clock-drift")
    return tuple(found)


def supported(backend: Backend, system: System) -> Mapping[str, Support]:
    """What the backend can do to nodes of the system, by FaultKind.

    Raises:
        BackendError: the backend does not work here at all.
    """
    able = system.capabilities
    immune: dict[FaultKind, str] = dict(able.immune)
    if able.membership is None:
        immune["membership"] = f"the members of system {system.name!r} are fixed: none can leave or join while it runs."
    if able.marks is None:
        immune["moment"] = f"nodes of system {system.name!r} do not report which coverage marks they pass."
    if able.upgrades is None:
        immune.setdefault("upgrade", f"there is one version of system {system.name!r} only.")
    if able.transfer is None:
        immune.setdefault("transfer", f"the leader of system {system.name!r} cannot be asked to hand leadership over.")
    if able.migrations is None:
        immune.setdefault("migrate", f"system {system.name!r} cannot be asked to move its metadata to another store.")
    if able.learners is None:
        immune.setdefault("learners", f"every member of system {system.name!r} votes from the beginning.")
    if able.groups is None:
        immune.setdefault("groups", f"nodes of system {system.name!r} take part in one cluster only.")
    if able.discovery is None:
        immune.setdefault("discovery", f"nodes of system {system.name!r} find each other without a service.")
    return {
        **dict.fromkeys(REQUESTED_KINDS, Support(True, "the system is asked, as an operator would")),
        **LATER_KINDS,
        **backend.support(),
        **{kind: Support(False, why) for kind, why in immune.items()},
    }
