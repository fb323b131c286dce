"""A short lease that its client keeps alive: a request a third of the lease's length after the last answer, and again
half a second after one that failed, as etcd's own Go client does (client/v3/lease.go).

The client knows that the lease has expired when a node answers so. Until then it believes that it holds the lease, and
it may be wrong: the lease's time runs on the leader, and a node that is cut off answers nothing. Most applications take
the lock, work, and give it back, and learn no sooner (so do etcd's own example of a mutex, and the clients of Jepsen's
tests, which do not even listen). One that also counts the seconds since the last answer, and stops in time, is wrong
less often, and still wrong when it is paused itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from splitbrain.harness.contract.clock import Clock
from splitbrain.harness.contract.sessions import DefiniteError, IndefiniteError
from splitbrain.harness.systems.etcd.gateway import Gateway
from splitbrain.harness.systems.etcd.messages import KeepAliveAnswer, KeepAliveRequest, LeaseAnswer, LeaseRequest

SECOND_NS: Final = 1_000_000_000
RETRY_NS: Final = SECOND_NS // 2


class KeptLease:
    """A lease that is kept alive until `close`; made by `grant`.

    Args:
        lease: its id.
        another: opens the connection that carries nothing but requests to keep it alive.
        clock: where the time comes from.
    """

    def __init__(self, lease: int, another: Callable[[], Awaitable[Gateway]], clock: Clock) -> None:
        self.lease = lease
        self.believed = True
        """Whether the client thinks that it has the lease."""
        self._another = another
        self._clock = clock
        self._task = asyncio.create_task(self._keep())

    @classmethod
    async def grant(
        cls, gateway: Gateway, seconds: int, another: Callable[[], Awaitable[Gateway]], clock: Clock
    ) -> KeptLease:
        """Request a lease (in seconds); etcd makes it longer than its election timeout if it is shorter.

        Raises:
            DefiniteError, IndefiniteError: there is none, or the outcome is unknown; no key depends on it in either
                case.
        """
        answer = await gateway.call("lease/grant", LeaseRequest(seconds), LeaseAnswer)
        return cls(answer.lease, another, clock)

    async def close(self) -> None:
        """Keep it alive no longer: it runs out by itself, as that of a client that died does."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _keep(self) -> None:
        gateway: Gateway | None = None
        try:
            while self.believed:
                try:
                    gateway = gateway or await self._another()
                    pause_ns = await self._renew(gateway)
                except (DefiniteError, IndefiniteError):
                    pause_ns = RETRY_NS
                await self._clock.sleep_ns(pause_ns)
        finally:
            if gateway is not None:
                await gateway.close()

    async def _renew(self, gateway: Gateway) -> int:
        """Ask for more time; how long to wait before the next request, in nanoseconds."""
        answer = await gateway.call("lease/keepalive", KeepAliveRequest(self.lease), KeepAliveAnswer)
        if answer.result is None:  # an error in the middle of the stream
            return RETRY_NS
        self.believed = answer.result.seconds > 0
        return answer.result.seconds * SECOND_NS // 3
