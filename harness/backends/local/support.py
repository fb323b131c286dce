"""What the local backend can do on this machine, and why not where it cannot.

Doctor and `LocalBackend` report it, and a deployment refuses by it. Nothing else looks at the machine.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from splitbrain.harness.backends.agent import cgroups, volumes
from splitbrain.harness.backends.shared import disks, faketime
from splitbrain.harness.backends.shared.channel import probe_namespaces, probe_packets
from splitbrain.harness.backends.shared.leftovers import SHARED_MEMORY
from splitbrain.harness.backends.shared.marks import MOMENT_HOW
from splitbrain.harness.backends.shared.nodefaults import CLIENT_LINKS, MEMBERSHIP_HOW
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import FaultKind, LinkFault, Support
from splitbrain.harness.contract.installed import installed
from splitbrain.harness.contract.nodes import Link
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, FaultNotSupportedError, UsageError

Links: TypeAlias = Literal["namespaces", "proxy"]
"""How links are carried and cut."""

LINKS_VARIABLE = "SPLITBRAIN_LOCAL_LINKS"
"""The environment variable that forces one of the two."""

_CUTS: Final = {
    "namespaces": "nftables on a bridge between network namespaces",
    "proxy": "a userspace proxy for each directed link",
}
_BY_PROXY: Final[Mapping[FaultKind, str]] = {
    "delay": "the proxy passes on later what it receives",
    "rate": "the proxy passes on no faster what it receives",
    "reset": "the proxy resets its connections",
    "hold": "the proxy keeps what it receives",
}
_NOT_BY_PROXY: Final = "a proxy of TCP connections carries bytes, not packets"
_BY_QUEUE: Final = "NFQUEUE where the sender's packets leave its network namespace"


def faults(wanted: str | None) -> dict[str, Support]:
    """Which faults work here, and how.

    Args:
        wanted: the way of carrying links that was asked for; None for what works here.

    Raises:
        BackendError: this is not Linux.
    """
    require_linux()
    links = links_here(wanted)
    return {
        "cut": _of_cuts(wanted),
        "kill": Support(True, "SIGKILL, until the process is reaped"),
        "stop": Support(True, "SIGTERM, SIGKILL after a grace, until the process is reaped"),
        "pause": Support(True, "SIGSTOP, until the kernel shows state T"),
        **_of_links(links, "proxies were asked for" if wanted == "proxy" else namespaces_problem()),
        **of_nodes(links),
        "client-links": CLIENT_LINKS,
        "membership": Support(True, MEMBERSHIP_HOW),
        "moment": Support(True, MOMENT_HOW),
    }


# --- the machine ------------------------------------------------------------------------------------------------------


def is_linux() -> bool:
    """Whether this is Linux."""
    return sys.platform == "linux"


def require_linux() -> None:
    """Refuse other systems.

    Raises:
        BackendError: this is one.
    """
    if not is_linux():
        raise BackendError(_needs_linux())


def require_programs(test: Test) -> None:
    """Refuse a system whose programs are not installed.

    Raises:
        BackendError: one is not.
    """
    for program, package in test.system.capabilities.programs.items():
        if installed(program) is None:
            raise BackendError(
                f"there is no {program!r} on this machine (Debian and Ubuntu: apt install {package}). Install it, "
                "or use --backend docker, whose image brings its own."
            )


def require_release(test: Test) -> None:
    """Refuse a test of another release of the system than the one that is installed.

    Raises:
        BackendError: it is.
    """
    can = test.system.capabilities
    found = None if can.release is None else can.release()
    if found is None:
        return
    setting = can.settings[found.setting]
    wanted = test.settings.get(found.setting, setting.default)
    if wanted == found.value:
        return
    chosen = f"{found.setting}={setting.text(wanted)}"
    instead = "" if found.value is None else f"--settings {found.setting}={setting.text(found.value)}, or "
    raise BackendError(
        f"the test is about {chosen}, but {found.name} is installed on this machine. Give {instead}--backend docker, "
        "whose image brings its own."
    )


def require_shared_folder(run_dir: Path, links: str) -> None:
    """Refuse a folder that nodes would not see.

    Raises:
        UsageError: it is in /dev/shm, of which nodes in namespaces have their own.
    """
    if links != "proxy" and SHARED_MEMORY in run_dir.resolve().parents:
        raise UsageError(
            f"the store is in {SHARED_MEMORY}, of which nodes have one of their own: they would not see its folders. "
            "Choose another with --store."
        )


@functools.cache
def namespaces_problem() -> str | None:
    """Why namespaces cannot be used here, None if they can: found by trying, once per process, in about 0.3 s."""
    return probe_namespaces() if is_linux() else _needs_linux()


@functools.cache
def packets_problem() -> str | None:
    """Why packets cannot be given faults in namespaces, None if they can: found by trying, as before, in 0.2 s."""
    return probe_packets()


def _needs_linux() -> str:
    return f"the local backend needs Linux, this is {sys.platform}: use the sim backend, or a Linux machine over ssh."


# --- links ------------------------------------------------------------------------------------------------------------


def wanted_links(links: str | None) -> str | None:
    """The way of carrying links that is asked for, here or by LINKS_VARIABLE; None if the machine decides.

    Raises:
        UsageError: there is no such way.
    """
    wanted = links or os.environ.get(LINKS_VARIABLE) or None
    if wanted is not None and wanted not in get_args(Links):
        raise UsageError(
            f"links of the local backend are cut by {' or '.join(get_args(Links))}, not {wanted!r} "
            f"(see {LINKS_VARIABLE})."
        )
    return wanted


def links_here(wanted: str | None) -> str:
    """How links are carried here, if this way was asked for."""
    return wanted or ("proxy" if namespaces_problem() else "namespaces")


def require_links(links: str) -> None:
    """Refuse a way of carrying links that does not work here.

    Raises:
        BackendError: it does not.
    """
    problem = namespaces_problem() if links == "namespaces" else None
    if problem is not None:
        raise BackendError(
            f"the local backend cannot use namespaces: {problem}. Leave the choice to it, or set "
            f"{LINKS_VARIABLE}=proxy."
        )


def refuse_faults(links: str, faults: Mapping[Link, LinkFault]) -> None:
    """Refuse faults that links carried like this cannot have.

    Raises:
        FaultNotSupportedError: there is one.
    """
    wanted = [kind for fault in faults.values() for kind in faultkinds.of_link(fault)]
    refused = sorted({kind for kind in wanted if links == "proxy" and kind not in _BY_PROXY})
    if refused:
        raise FaultNotSupportedError(
            f"the local backend cannot do {', '.join(refused)} to links here: {_NOT_BY_PROXY}. Leave it out of "
            f"--nemesis, or run where network namespaces work (splitbrain doctor lists what works here)."
        )


def _of_cuts(wanted: str | None) -> Support:
    if wanted == "proxy":
        return Support(True, f"{_CUTS['proxy']}, as asked for")
    problem = namespaces_problem()
    if problem is None:
        return Support(True, _CUTS["namespaces"])
    if wanted == "namespaces":
        return Support(False, f"namespaces do not work here: {problem}")
    return Support(True, f"{_CUTS['proxy']}, because {problem}")


def _of_links(links: str, problem: str | None) -> Mapping[FaultKind, Support]:
    """What works of faults of links; `problem` is why namespaces do not carry them, None if they do."""
    if links == "proxy":
        refused = Support(False, f"{_NOT_BY_PROXY}, and {problem}.")
        return {
            kind: Support(True, _BY_PROXY[kind]) if kind in _BY_PROXY else refused for kind in faultkinds.LINK_KINDS
        }
    problem = problem or packets_problem()
    found = Support(True, _BY_QUEUE) if problem is None else Support(False, f"{problem}.")
    return dict.fromkeys(faultkinds.LINK_KINDS, found)


# --- disks, clocks and processors -------------------------------------------------------------------------------------


def of_nodes(links: str) -> dict[FaultKind, Support]:
    """What works here of disks, power, clocks and processors, where links are carried like this."""
    without_volumes, without_groups = volumes.problem(), cgroups.problem()
    answer = disks.support(without_volumes and f"{without_volumes}: run this as root")
    if without_volumes is not None and links == "namespaces":
        answer["disk-full"] = Support(True, "a file system in memory, whose limits are lowered to what is used")
    works = faketime.find_library() is not None
    how = "libfaketime; the wall clock only" if works else faketime.INSTALL
    answer |= dict.fromkeys(faultkinds.CLOCK_KINDS, Support(works, how))
    how = f"{without_groups}: run this as root" if without_groups else "a quota of the node's control group"
    answer["cpu"] = Support(without_groups is None, how)
    return answer


def kind_of_disks(test: Test, links: str) -> str:
    """What the data directories of the test's nodes must be on: "directory", "volume" or "memory".

    Raises:
        BackendError: that does not work here.
    """
    needed = disks.needing_volumes(test)
    if not needed:
        return "directory"
    problem = volumes.problem()
    if problem is None:
        return "volume"
    if needed == ["disk-full"] and links == "namespaces":
        return "memory"
    raise BackendError(f"nodes cannot have file systems of their own, for {', '.join(needed)}: {problem}.")


def require_faketime() -> str:
    """Where libfaketime is here.

    Raises:
        BackendError: it is not installed.
    """
    library = faketime.find_library()
    if library is None:
        raise BackendError(f"clocks cannot be faked: {faketime.INSTALL}.")
    return library
