"""Faults of disks, clocks and processors of nodes on hosts, and which of them hosts can have."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

import msgspec

from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.nodefaults import MEMBERSHIP_HOW
from splitbrain.harness.backends.ssh import machine
from splitbrain.harness.backends.ssh.connection import Connection, HostError
from splitbrain.harness.backends.ssh.machine import look_command
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.nodes import NodeId

_HOW: Final[Mapping[FaultKind, str]] = {
    "cut": "nftables on each receiving host",
    **dict.fromkeys(faultkinds.LINK_KINDS, "NFQUEUE on each sending host"),
    "kill": "SIGKILL, until the process is reaped",
    "pause": "SIGSTOP, until the kernel shows state T",
    "cpu": "a quota of the node's control group on its host",
    **disks.ON_VOLUMES,
    **disks.AT_REST,
    **dict.fromkeys(faultkinds.CLOCK_KINDS, "libfaketime on the host; the wall clock only"),
}


class Means(msgspec.Struct, frozen=True):
    """What keeps a host from kinds of fault, None where nothing does; and where its libfaketime is, if it has one."""

    packets: str | None
    volumes: str | None
    processors: str | None
    library: str | None

    def problem(self, kind: FaultKind) -> str | None:
        """Why the host cannot have a kind of fault; None if it can."""
        if kind in faultkinds.LINK_KINDS:
            return self.packets
        if kind in disks.ON_VOLUMES:
            return self.volumes
        if kind in faultkinds.CLOCK_KINDS:
            return None if self.library else faketime.INSTALL
        return self.processors if kind == "cpu" else None


def means(connection: Connection) -> Means:
    """Find out what faults a host can have: an agent tries it there, and leaves nothing.

    Raises:
        HostError: it did not work.
    """
    home = machine.upload(connection, {})
    try:
        done = connection.run(f"{look_command(home)} {shlex.join(faketime.LIBRARY_PLACES)}")
    finally:
        machine.remove(connection, home)
    try:
        return msgspec.json.decode(done.output, type=Means)
    except msgspec.MsgspecError:
        said = " ".join(done.errors.split())[-300:]
        raise HostError(connection.host, f"the check of faults failed with code {done.code}: {said}.") from None


def support(found: Mapping[NodeId, Means]) -> Mapping[str, Support]:
    """What works on all of these hosts; of what does not, the first host with its reason."""
    answer: dict[str, Support] = {"membership": Support(True, MEMBERSHIP_HOW)}
    for kind, how in _HOW.items():
        problems = {node: problem for node, host in found.items() if (problem := host.problem(kind)) is not None}
        answer[kind] = Support(True, how)
        if problems:
            node, problem = next(iter(problems.items()))
            others = f", and {len(problems) - 1} hosts more" if len(problems) > 1 else ""
            answer[kind] = Support(False, f"the host of {node} cannot{others}: {problem}")
    return answer
