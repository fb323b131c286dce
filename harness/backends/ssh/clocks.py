"""Wrong clocks of nodes on hosts: libfaketime of the host, told by a file in the run's directory there.

The file is made here and sent whenever it changes, which takes as long as a message to the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.backends import faketime
from harness.backends.ssh.agents import RemoteAgent
from harness.protocols import ClockFault
from results.errors import BackendError


class HostClock:
    """The clock of the node on one host.

    Args:
        agent: on the host.
        library: libfaketime there.
        remote_file: the file there that says what the clock shows.
        file: the same file here.
    """

    def __init__(self, agent: RemoteAgent, library: str, remote_file: str, file: Path) -> None:
        self._agent = agent
        self._environment = faketime.environment(library, remote_file)
        self._file = file
        self._clock = faketime.FakeClock(file)
        self._strobe_task: asyncio.Task[None] | None = None
        self._jumps = 0

    async def begins(self) -> Mapping[str, str]:
        """To be called right before the node's process begins: what to start it with."""
        self._clock.process_begins()
        await self._send()
        return self._environment

    async def skew(self, fault: ClockFault | None) -> dict[str, Any]:
        """Give the clock this fault, or none; as measured before and after, and of a strobe its "jumps".

        Raises:
            BackendError: the clock could not be measured.
        """
        jumps = await self._end_strobe()
        before = await self._measured()
        fault = fault or ClockFault()
        await self._set(fault.offset_ms, fault.drift_ppm)
        after = await self._measured()
        if fault.strobe_ms:
            self._jumps = 0
            self._strobe_task = asyncio.get_running_loop().create_task(self._strobe(fault))
        return {**faketime.evidence(before, after), **jumps}

    async def require_reach(self, program: str) -> None:
        """See that libfaketime can reach a program of the host.

        Raises:
            FaultNotSupportedError: it cannot (`faketime.require_reach`).
            BackendError: it is not there.
        """
        why = await self._agent.ask("out_of_reach", program=program)
        if why is not None:
            raise faketime.refusal(program, why)

    async def close(self) -> None:
        """Leave no task, and no file here."""
        await self._end_strobe()
        self._file.unlink(missing_ok=True)

    async def _set(self, offset_ms: float, drift_ppm: float) -> None:
        self._clock.set(offset_ms, drift_ppm)
        await self._send()

    async def _send(self) -> None:
        await self._agent.ask("write_clock", text=self._file.read_text())

    async def _measured(self) -> faketime.Measured:
        asked_s = time.monotonic()
        seen = await self._agent.ask(
            "look_at_clock", argv=list(faketime.probe_command("python3")), env=dict(self._environment)
        )
        # Both clocks of the host as this machine's show the same moments: what is measured is not how the two differ.
        monotonic_ns = time.monotonic_ns() - seen["monotonic_ns"]
        wall_ns = monotonic_ns + (time.time_ns() - time.monotonic_ns()) - seen["real_ns"]
        try:
            here = [[at + monotonic_ns, shown + wall_ns] for at, shown in json.loads(seen["said"])]
            return self._clock.measured(json.dumps(here), asked_s)
        except ValueError:
            raise BackendError(f"a clock could not be measured: python3 there said {seen['said'][-300:]!r}.") from None

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
