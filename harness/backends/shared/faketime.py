"""Wrong clocks for processes: libfaketime, controlled by a file per node with the time to show.

The library is preloaded into the node and reads the file whenever the node asks for the time. The machine's own clock
is never touched. Monotonic clocks stay true (`FAKETIME_DONT_FAKE_MONOTONIC`): a drift is one of the wall clock, timers
keep their length. With version 0.9.10 of the library `time.sleep` then fails in Python 3.11 and later (EINVAL, its
issue 426); event loops do not. A program that is linked statically does not load it, and one of Go, however it is
linked, asks the kernel for the time itself: such a one is refused.

How much a drifting clock is ahead depends, in the library, on when the process began. So the file is written again
before every start, such that the clock continues from its last value.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from splitbrain.harness.backends.agent.programs import out_of_reach
from splitbrain.harness.backends.agent.tools import AgentError
from splitbrain.harness.backends.shared import faketime
from splitbrain.harness.contract import faultkinds
from splitbrain.harness.contract.faults import ClockFault
from splitbrain.harness.contract.realtime import wall_offset_ns
from splitbrain.harness.contract.test import Test
from splitbrain.results.errors import BackendError, FaultNotSupportedError

INSTALL: Final = "install libfaketime (Debian and Ubuntu: apt install libfaketime)"
LIBRARY_PLACES: Final = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)

OFFSET_ACCURACY_MS: Final = 5.0
DRIFT_ACCURACY_PPM: Final = 300.0
START_ACCURACY_S: Final = 0.1
"""How exactly a clock can be measured on a machine that has much else to do, and how exactly is known when the library
began to count in a process."""

_PROBE_ENDS_WITHIN_S: Final = 10.0
_PROBE: Final = """
import json, select, time
def look():
    found = []
    for _ in range(50):
        before = time.monotonic_ns(); shown = time.time_ns(); after = time.monotonic_ns()
        found.append((after - before, (before + after) // 2, shown))
    return min(found)[1:]
first = look(); select.select([], [], [], 0.2); print(json.dumps([first, look()]))
"""

_LAUNCH: Final = """
import json, os, sys, time
variables = {**os.environ, **json.loads(sys.argv[1])}
print(time.monotonic_ns(), flush=True)
os.execve(sys.argv[2], sys.argv[2:], variables)
"""
"""Becomes the probe, and says when."""


class Measured(msgspec.Struct, frozen=True):
    """What a wall clock shows: how far it is ahead, and how much too fast it runs.

    Attributes:
        offset_ms: how far it was ahead at `at_s`.
        drift_ppm: how much too fast it runs.
        at_s: when, on the monotonic clock.
        changed_s: when it was last changed before that.
    """

    offset_ms: float
    drift_ppm: float
    at_s: float
    changed_s: float

    def shown(self, when_s: float) -> dict[str, float]:
        """Offset and drift as they were, or would be, at another time."""
        offset_ms = self.offset_ms + (when_s - self.at_s) * self.drift_ppm / 1000
        return {"offset_ms": round(offset_ms, 3), "drift_ppm": round(self.drift_ppm, 1)}


def find_library() -> str | None:
    """Where libfaketime is on this machine, None if it is not installed."""
    return next((path for pattern in LIBRARY_PLACES for path in sorted(glob.glob(pattern))), None)


def environment(library: str, file: str) -> Mapping[str, str]:
    """The variables with which a process sees the clock that a file describes; both paths as the process sees them."""
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": file,
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        # Else waits on conditions with a timeout take 0.1 s longer, and Python's threads hand over by such waits.
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    }


def require_reach(program: str, path: str | None = None) -> None:
    """Refuse a program whose clock the library would not change.

    Args:
        program: as given to exec: a path, or a name to look for.
        path: where to look for a name, as in $PATH; this process's own without it.

    Raises:
        FaultNotSupportedError: it is linked statically, or written in Go.
        BackendError: it is not there.
    """
    try:
        why = out_of_reach(program, path)
    except AgentError as error:
        raise BackendError(f"{error}.") from None
    if why is not None:
        raise refusal(program, why)


def refusal(program: str, why: str) -> FaultNotSupportedError:
    """What a program is refused with that is out of the library's reach."""
    return FaultNotSupportedError(
        f"the clock of {program!r} cannot be faked: {why}. Leave what needs the clock out of --nemesis."
    )


class FakeClock:
    """The clock of one node, kept in a file.

    Args:
        file: what the node's library reads; made here.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began_s = time.monotonic()
        self._since_s = self._began_s
        self._gained_s = 0.0
        self._offset_s = 0.0
        self._rate = 1.0
        self._write()

    def offset_ms(self) -> float:
        """How much it is ahead now."""
        return 1000 * self._offset(time.monotonic())

    def process_begins(self) -> None:
        """To be called right before the node's process begins."""
        self._began_s = time.monotonic()
        self._write()

    def set(self, offset_ms: float, drift_ppm: float) -> None:
        """Set the offset and the drift from now on. What the clock gained by an earlier drift stays."""
        now = time.monotonic()
        self._gained_s += (now - self._since_s) * (self._rate - 1)
        self._since_s = now
        self._offset_s = offset_ms / 1000
        self._rate = 1 + drift_ppm / 1e6
        self._write()

    def _offset(self, now_s: float) -> float:
        return self._offset_s + self._gained_s + (now_s - self._since_s) * (self._rate - 1)

    def _write(self) -> None:
        offset = self._offset(self._began_s)  # from then on the library adds what the rate makes of the time since
        scratch = self._file.with_name(self._file.name + ".new")
        scratch.write_text(f"{offset:+.6f} x{self._rate:.9f}\n")
        scratch.replace(self._file)

    # --- measuring ----------------------------------------------------------------------------------------------------

    def measured(self, answer: str, asked_s: float) -> Measured:
        """What a probe saw that began at `asked_s` on the monotonic clock, as it is for the node now.

        The probe's own process began later than the node's: what the rate made of the time between is added.
        """
        (first_at, first_shown), (last_at, last_shown) = json.loads(answer)
        real_ns = wall_offset_ns()
        ahead_ns = [shown - at - real_ns for at, shown in ((first_at, first_shown), (last_at, last_shown))]
        drift = (ahead_ns[1] - ahead_ns[0]) / (last_at - first_at)
        offset_ms = ahead_ns[1] / 1e6
        if self._rate != 1:
            offset_ms += drift * (asked_s - self._began_s) * 1000
        return Measured(offset_ms, drift * 1e6, at_s=last_at / 1e9, changed_s=self._since_s)


def probe_command(python: str = sys.executable) -> Sequence[str]:
    """What to run, with the environment of the node, to get an answer for `FakeClock.measured`."""
    return [python, "-I", "-S", "-c", _PROBE]


def measure(clock: FakeClock, library: str, file: str) -> Measured:
    """Measure on this machine what a node sees of its clock. Takes 0.3 s.

    Raises:
        BackendError: the probe did not answer.
    """
    variables = json.dumps(dict(environment(library, file)))
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _LAUNCH, variables, *probe_command()],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_ENDS_WITHIN_S,
            check=True,
        )
        began, answer = done.stdout.split("\n", 1)
        return clock.measured(answer, int(began) / 1e9)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise BackendError(f"the clock could not be measured: {error}.") from None


def evidence(before: Measured, after: Measured) -> dict[str, Any]:
    """The evidence of a change of a clock, as nemeses read it: what it showed at the moment of the change.

    "accuracy" says how exact that is; of a clock that drifts, less so.
    """
    drift_ppm = max(abs(before.drift_ppm), abs(after.drift_ppm))
    return {
        "before": before.shown(after.changed_s),
        "after": after.shown(after.changed_s),
        "accuracy": {
            "offset_ms": round(OFFSET_ACCURACY_MS + START_ACCURACY_S * drift_ppm / 1000, 3),
            "drift_ppm": DRIFT_ACCURACY_PPM,
        },
    }


# --- the clock of a node ----------------------------------------------------------------------------------------------


def needed(test: Test) -> bool:
    """Whether the test's nemesis needs clocks that can be wrong."""
    return any(kind in faultkinds.CLOCK_KINDS for kind in test.nemesis.faults)


class NodeClock:
    """The clock of one node, which runs with libfaketime.

    Args:
        file: says what the clock shows; made here.
        variables: what the node is started with, so that its library reads that file, or a copy of it.
        measured: looks at the clock as a process sees it that is like the node; it may raise a BackendError.
        sent: called whenever the file has changed, where the node reads a copy.
    """

    def __init__(
        self,
        file: Path,
        variables: Mapping[str, str],
        measured: Callable[[FakeClock], Awaitable[Measured]],
        sent: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._file = file
        self._clock = FakeClock(file)
        self._variables = variables
        self._measured = measured
        self._sent = sent
        self._strobe_task: asyncio.Task[None] | None = None
        self._jumps = 0

    async def begins(self) -> Mapping[str, str]:
        """To be called right before the node's process begins: what to start it with."""
        self._clock.process_begins()
        await self._send()
        return self._variables

    async def skew(self, fault: ClockFault | None) -> dict[str, Any]:
        """Give the clock this fault, or none; as measured before and after, and of a strobe its "jumps".

        A strobing clock is ahead when it is measured.

        Raises:
            BackendError: the clock could not be measured.
        """
        jumps = await self._end_strobe()
        before = await self._measured(self._clock)
        fault = fault or ClockFault()
        await self._set(fault.offset_ms, fault.drift_ppm)
        after = await self._measured(self._clock)
        if fault.strobe_ms:
            self._jumps = 0
            self._strobe_task = asyncio.get_running_loop().create_task(self._strobe(fault))
        return {**faketime.evidence(before, after), **jumps}

    async def close(self) -> None:
        """Leave no task and no file; the node has ended."""
        await self._end_strobe()
        self._file.unlink(missing_ok=True)

    async def _set(self, offset_ms: float, drift_ppm: float) -> None:
        self._clock.set(offset_ms, drift_ppm)
        await self._send()

    async def _send(self) -> None:
        if self._sent is not None:
            await self._sent()

    async def _strobe(self, fault: ClockFault) -> None:
        ahead = True
        while True:
            await asyncio.sleep(fault.strobe_ms / 1000)
            ahead = not ahead
            await self._set(fault.offset_ms if ahead else 0.0, fault.drift_ppm)
            self._jumps += 1

    async def _end_strobe(self) -> dict[str, int]:
        task, self._strobe_task = self._strobe_task, None
        if task is None:
            return {}
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return {"jumps": self._jumps}
