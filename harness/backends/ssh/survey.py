"""What a host has and lacks, asked before anything is started on it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from splitbrain.harness.backends.ssh.connection import Connection, HostError

OLDEST_PYTHON: Final = (3, 11)
CLOCK_OFF_AT_MOST_S: Final = 2.0
"""Nodes date their logs by their own clocks."""
DIRECTORIES: Final = "/var/tmp/splitbrain-"
"""How the directories of runs begin on a host: on its disk, not in memory."""

_TOOLS: Final = {"nft": "nftables", "tar": "tar"}
"""What no run goes without, with Debian's package."""
_LOOK: Final = Path(__file__).with_name("look.py")


class Leftover(msgspec.Struct, frozen=True):
    """The directory of an earlier run, or of another that goes on."""

    path: str
    owner: str
    in_use: bool
    age_s: float


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
