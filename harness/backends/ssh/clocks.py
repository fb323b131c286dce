"""Clocks of hosts: wrong ones for nodes, and how far the true ones are from this machine's.

A wrong clock is libfaketime of the host, controlled by a file in the run's directory there.

The file is made here and sent whenever it changes, which takes as long as a message to the agent.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from splitbrain.harness.backends import faketime
from splitbrain.harness.backends.channel import Asked
from splitbrain.harness.backends.clocks import NodeClock
from splitbrain.harness.backends.faketime import FakeClock, Measured
from splitbrain.harness.backends.ssh.agents import RemoteAgent
from splitbrain.harness.contract.nodes import ClockOffset
from splitbrain.harness.contract.offsets import EXCHANGES, Exchange, estimate
from splitbrain.results.errors import BackendError


async def host_clock(agent: RemoteAgent, library: str, home: str, file: Path, program: str) -> NodeClock:
    """The clock of the node on one host.

    Args:
        agent: on the host.
        library: libfaketime there.
        home: the run's directory there.
        file: where the file is made here.
        program: the node's, there.

    Raises:
        FaultNotSupportedError: libfaketime does not reach the program (`faketime.require_reach`).
        BackendError: the program is not there.
    """
    why = await agent.ask("out_of_reach", program=program)
    if why is not None:
        raise faketime.refusal(program, why)
    variables = faketime.environment(library, f"{home}/clock")
    probe = list(faketime.probe_command("python3"))

    async def measured(clock: FakeClock) -> Measured:
        asked_s = time.monotonic()
        seen = await agent.ask("look_at_clock", argv=probe, env=dict(variables))
        # Both clocks of the host as this machine's show the same moments: what is measured is not how the two differ.
        monotonic_ns = time.monotonic_ns() - seen["monotonic_ns"]
        wall_ns = monotonic_ns + (time.time_ns() - time.monotonic_ns()) - seen["real_ns"]
        try:
            here = [[at + monotonic_ns, shown + wall_ns] for at, shown in json.loads(seen["said"])]
            return clock.measured(json.dumps(here), asked_s)
        except ValueError:
            raise BackendError(f"a clock could not be measured: python3 there said {seen['said'][-300:]!r}.") from None

    async def sent() -> None:
        await agent.ask("write_clock", text=file.read_text())

    return NodeClock(file, variables, measured, sent)


async def estimated(agent: Asked) -> ClockOffset:
    """How far the clocks of an agent's host are ahead of this machine's.

    Raises:
        BackendError: the agent does not answer.
    """
    exchanges: list[Exchange] = []
    for _ in range(EXCHANGES):
        asked_ns = time.monotonic_ns()
        seen = await agent.ask("clocks")
        exchanges.append(Exchange(asked_ns, seen["mono_ns"], seen["wall_ns"], time.monotonic_ns()))
    return estimate(exchanges, time.time_ns() - time.monotonic_ns())
