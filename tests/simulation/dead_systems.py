"""The metadata cluster behind sessions that go dead: the nodes are well, and clients are answered nothing."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Collection
from typing import Any, Final

from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.operations import GROUPS, LEASE_LOCKS, LIMITED_QUEUES, QUEUES, SINGLE_ACTIVE, calls
from splitbrain.harness.contract.read_modes import SESSION_READS
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.running.recovery import PROBE_KEY
from splitbrain.harness.systems.metadata import Metadata
from splitbrain.results.history import HARNESS, Op
from tests.simulation.lease_locks import LeaseLocks
from tests.simulation.memory_queues import Consumers, Held, Limits, MemoryQueues

OPS: Final = frozenset(
    {call for group in GROUPS.values() for call, is_awaited in calls(group.protocol).items() if is_awaited}
    - {"prepare_topology", "prepare_triggers", "declare_queue", "declare_single_active", "declare_limited"}
    - {"declare_stream", "declare_short_stream"}
    - {"read_as"}
    | set(SESSION_READS)
)
"""What a session is asked; of `read_as`, the kind of read."""


class Moments:
    """Where a run is, as its history tells: an observer of `splitbrain.harness.running.simulate.simulate`."""

    def __init__(self) -> None:
        self.phase = ""
        self.time_s = 0.0

    def observe(self, op: Op) -> None:
        """Take note of an op."""
        self.time_s = op.time / 1e9
        if op.process == HARNESS and op.f == "phase":
            self.phase = op.value["phase"]


class Dying(Metadata):
    """Sessions of some nodes, or all, whose ops of some functions, or all, do not get through while it is `dead`.

    Attributes:
        how: "silent" (clients wait until their op timeout), "refused" (each op certainly fails) or "unknown" (each op
            fails at once, and nobody knows whether it happened).
    """

    def __init__(
        self,
        how: str,
        dead: Callable[[], bool],
        *,
        nodes: tuple[NodeId, ...] = (),
        calls: Collection[str] = OPS,
    ) -> None:
        super().__init__()
        self.how = how
        self.dead = dead
        self.dead_nodes = nodes
        self.calls = calls
        self._leases: dict[str, float] = {}
        self._queues: Held = {}
        self._consumers: Consumers = {}
        self._limits: Limits = {}
        self.capabilities = dataclasses.replace(
            self.capabilities,
            operations=self.capabilities.operations
            | {LEASE_LOCKS.name, QUEUES.name, SINGLE_ACTIVE.name, LIMITED_QUEUES.name},
        )

    async def connect(self, deployment: Deployment, node: NodeId) -> Any:
        """A session that goes dead."""
        session: Any = LeaseLocks(await super().connect(deployment, node), self._leases)
        session = MemoryQueues(session, self._queues, self._consumers, self._limits)
        concerned = not self.dead_nodes or node in self.dead_nodes
        return _DyingSession(session, self) if concerned else session


class _DyingSession:
    def __init__(self, session: Any, system: Dying) -> None:
        self._session = session
        self._system = system

    def __getattr__(self, name: str) -> Any:
        through = getattr(self._session, name)
        if name not in OPS and name != "read_as":
            return through

        async def asked(*arguments: Any) -> Any:
            system = self._system
            call = arguments[1] if name == "read_as" else name
            probed = name == "read" and arguments[:1] == (PROBE_KEY,)
            if call not in system.calls or probed or not system.dead():
                return await through(*arguments)
            if system.how == "refused":
                raise DefiniteError("connection refused")
            if system.how == "unknown":
                raise IndefiniteError("nobody knows")
            return await asyncio.get_running_loop().create_future()  # for ever

        return asked
