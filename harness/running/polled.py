"""Telemetry of systems whose nodes write none: each node is polled for it during the run.

This is for systems with `Capabilities.observation`. Every node has its own task and connection: a node that is paused,
or behind a slow link, does not delay others, and no client's connection is used.

What came is stamped with the controller's clock when it has arrived: the node said it at some moment between asking and
then. So a stamp may be late and is never early. Where something must have been seen before (Q10: an answer in an older
term, to a question that was asked after a leader of a later term had committed) a late stamp can hide a violation and
never makes one. What a node held, its voters for instance, counts until the row that says otherwise.

Processes of a node are distinguished by their connections, which end with them. The backend is asked for the life once
for each connection: if the connection still answers afterwards, it belongs to that life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.deployments import Deployment
from splitbrain.harness.contract.nodes import NodeId
from splitbrain.harness.contract.observing import SEEN, START, Observable, Observed, Observer, Seen
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.results.errors import BackendError, ProtocolError

PERIOD_S: Final = 0.2
"""Between an answer and the next question to the same node."""

WITHIN_S: Final = 1.0
"""A node that takes longer has not answered."""


Keep = Callable[[NodeId, Seen], None]


async def poll(system: Observable, deployment: Deployment, nodes: Sequence[NodeId], clock: Clock, keep: Keep) -> None:
    """Ask every node again and again until cancelled, and then once more, for how the run ended.

    That last question comes a period later, so that followers have heard what their leader committed last. Returning
    takes no longer than PERIOD_S and WITHIN_S.

    Args:
        system: knows how to ask.
        deployment: the nodes.
        nodes: those to ask.
        clock: the controller's.
        keep: takes what came from a node. A question that was not answered leaves nothing.

    Raises:
        ProtocolError: the system answers with something else than `Observed`.
    """
    watches = [_Watch(system, deployment, node, clock, keep) for node in nodes]
    try:
        await _all([watch.go_on() for watch in watches])
    except asyncio.CancelledError:
        await clock.sleep_ns(round(PERIOD_S * 1e9))
        await _all([watch.look() for watch in watches])
        raise
    finally:
        await _all([watch.let_go() for watch in watches])


async def _all(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Carry all of it out; all of it has ended when this returns or raises."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Watch:
    """Asks one node."""

    def __init__(self, system: Observable, deployment: Deployment, node: NodeId, clock: Clock, keep: Keep) -> None:
        self._system = system
        self._deployment = deployment
        self._node = node
        self._clock = clock
        self._keep = keep
        self._observer: Observer | None = None
        self._life = 0
        self._reported_life = 0

    async def go_on(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep_ns(round(PERIOD_S * 1e9))

    async def look(self) -> None:
        """Ask once."""
        try:
            async with asyncio.timeout(WITHIN_S):
                observer = self._observer or await self._reach()
                said: Any = await observer.look()
        except (DefiniteError, IndefiniteError, BackendError, TimeoutError):
            await self.let_go()
            return
        if not isinstance(said, Observed):
            raise ProtocolError(f"observing {self._node}: look returned {said!r:.80}, not an Observed.")
        event = SEEN if self._life == self._reported_life else START
        self._reported_life = self._life
        self._keep(self._node, Seen(self._clock.now_ns(), event, said))

    async def _reach(self) -> Observer:
        self._observer = await self._system.observe(self._deployment, self._node)
        status = await self._deployment.status(self._node)
        if status.state != "running":
            raise DefiniteError(f"{self._node} is {status.state}")
        self._life = status.life
        return self._observer

    async def let_go(self) -> None:
        """Drop the connection; the next question makes another one."""
        observer, self._observer = self._observer, None
        if observer is not None:
            await observer.close()
