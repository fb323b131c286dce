"""What the ssh backend can do on hosts, and why not where it cannot.

`check` sees that a test can run on a host at all, before anything is started on it; `means_of` says what faults hosts
can have. Doctor and `SshBackend` report the answers.
"""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.nodefaults import CLIENT_LINKS, MEMBERSHIP_HOW, MOMENT_WHY
from splitbrain.harness.backends.ssh import machine
from splitbrain.harness.backends.ssh.connection import Connection, HostError, connect
from splitbrain.harness.backends.ssh.inventory import Host, Inventory
from splitbrain.harness.backends.ssh.machine import DIRECTORIES, Leftover, look_command
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import FaultKind, Support
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.results.errors import BackendError, SeveralFailedError

# --- whether a test can run there -------------------------------------------------------------------------------------

OLDEST_PYTHON: Final = (3, 11)
CLOCK_OFF_AT_MOST_S: Final = 2.0
"""Nodes date their logs by their own clocks."""

_TOOLS: Final = {"nft": "nftables", "tar": "tar"}
"""What no run goes without, with Debian's package."""
_LOOK: Final = Path(__file__).with_name("look.py")


class Report(msgspec.Struct, frozen=True):
    """What was found on a host; `sudo` is empty if it works without a password, else what it said."""

    time_s: float
    python: tuple[int, int, int]
    system: str
    sudo: str
    tools: tuple[str, ...]
    modules: tuple[str, ...]
    leftovers: tuple[Leftover, ...]


def check(connection: Connection, modules: Sequence[str], programs: Mapping[str, str]) -> Report:
    """Look at a host, and see that a test can run on it.

    Args:
        connection: to the host.
        modules: what the system's program imports beyond Python's own library.
        programs: what the system runs beyond what it uploads, with Debian's package for each.

    Raises:
        HostError: the host lacks something; all that it lacks is in the message. Or the look failed.
    """
    command = shlex.join(["python3", "-I", "-", f"{DIRECTORIES}*", *modules, *programs])
    before_s = time.time()
    done = connection.run(command, _LOOK.read_bytes())
    after_s = time.time()
    if done.code == 127:
        raise HostError(connection.host, "there is no python3 (Debian and Ubuntu: apt install python3).")
    try:
        report = msgspec.json.decode(done.output, type=Report)
    except msgspec.MsgspecError:
        said = " ".join(done.errors.split())[-300:] or done.output[:300]
        raise HostError(connection.host, f"the look at the host failed with code {done.code}: {said}") from None
    problems = _problems(report, modules, programs, before_s, after_s)
    if problems:
        raise HostError(connection.host, f"{'; '.join(problems)}.")
    return report


def _problems(
    report: Report, modules: Sequence[str], programs: Mapping[str, str], before_s: float, after_s: float
) -> list[str]:
    problems: list[str] = []
    if report.system != "linux":
        problems.append(f"it runs {report.system}, not Linux")
    if report.python < OLDEST_PYTHON:
        problems.append(
            f"python3 is {'.'.join(map(str, report.python))}, older than {'.'.join(map(str, OLDEST_PYTHON))}"
        )
    if report.sudo:
        problems.append(f"sudo does not work without a password ({report.sudo})")
    for tool, package in {**_TOOLS, **programs}.items():
        if tool not in report.tools:
            problems.append(f"there is no {tool} (apt install {package})")
    problems += [
        f"its python3 lacks the module {module} (apt install python3-{module})"
        for module in modules
        if module not in report.modules
    ]
    off_s = max(before_s - report.time_s, report.time_s - after_s, 0.0)
    if off_s > CLOCK_OFF_AT_MOST_S:
        way = "behind" if report.time_s < before_s else "ahead of"
        problems.append(f"its clock is {off_s:.1f} s {way} this machine's (at most {CLOCK_OFF_AT_MOST_S:g} s are fine)")
    return problems


# --- which faults a host can have -------------------------------------------------------------------------------------

_HOW: Final[Mapping[FaultKind, str]] = {
    "cut": "nftables on each receiving host",
    **dict.fromkeys(faultkinds.LINK_KINDS, "NFQUEUE on each sending host"),
    "kill": "SIGKILL, until the process is reaped",
    "stop": "SIGTERM, SIGKILL after a grace, until the process is reaped",
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


def faults(inventory: Inventory | None) -> Mapping[str, Support]:
    """Which faults work on all hosts, and how; of what does not, the first host with its reason.

    Raises:
        BackendError: hosts that cannot be looked at; all of them are named in one message.
    """
    if inventory is None:
        return dict.fromkeys(faultkinds.INJECTED_KINDS, Support(False, "no hosts are named: give --hosts"))
    found = means_of(inventory)
    answer: dict[str, Support] = {
        "membership": Support(True, MEMBERSHIP_HOW),
        "client-links": CLIENT_LINKS,
        "moment": Support(False, MOMENT_WHY),
    }
    for kind, how in _HOW.items():
        problems = {node: problem for node, host in found.items() if (problem := host.problem(kind)) is not None}
        answer[kind] = Support(True, how)
        if problems:
            node, problem = next(iter(problems.items()))
            others = f", and {len(problems) - 1} hosts more" if len(problems) > 1 else ""
            answer[kind] = Support(False, f"the host of {node} cannot{others}: {problem}")
    return answer


@functools.lru_cache(maxsize=8)
def means_of(inventory: Inventory) -> Mapping[NodeId, Means]:
    """What each host can have, looked at on all at the same time, in a second or two.

    Raises:
        BackendError: hosts that cannot be looked at; all of them are named in one message.
    """

    def look_at(host: Host) -> Means | BackendError:
        try:
            connection = connect(host, inventory, note=lambda _: None)
            try:
                check(connection, (), {})
                return means(connection)
            finally:
                connection.close()
        except BackendError as error:
            return error

    with ThreadPoolExecutor(max_workers=len(inventory.hosts), thread_name_prefix="ssh") as executor:
        found = dict(zip((host.node for host in inventory.hosts), executor.map(look_at, inventory.hosts), strict=True))
    problems = [problem for problem in found.values() if isinstance(problem, BackendError)]
    if problems:
        raise SeveralFailedError(problems)
    return {node: means for node, means in found.items() if isinstance(means, Means)}
