"""Queues and streams that a session declares before its first op: tried for a while, and by ops that miss them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from splitbrain.cluster.client import ClientError
from splitbrain.harness.contract.sessions import Answer, DefiniteError

DECLARE_S: Final = 4.0
"""For all that a session declares, together: a cluster that has just begun does not serve all of it at once, and a
workload has to be prepared within ten seconds."""

PAUSE_S: Final = 0.2


class Declarations:
    """The time that the declarations of one session have; it begins with the first."""

    def __init__(self) -> None:
        self._until: float | None = None

    async def tried(self, declare: Callable[[], Awaitable[object]]) -> Answer:
        """Declare, until that succeeds or the time is over: to declare something twice is to declare it once.

        No error if it is not there by then: ops that miss it declare it again.
        """
        loop = asyncio.get_running_loop()
        if self._until is None:
            self._until = loop.time() + DECLARE_S
        while loop.time() <= self._until:
            try:
                await declare()
                break
            except (ClientError, DefiniteError):
                await asyncio.sleep(PAUSE_S)  # noqa: TID251 - of a client, which has no runtime: its loop's time
        return Answer()
